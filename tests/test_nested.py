"""The papers' nested tilings: their space, the kernel that executes them, and recorded tables of their times."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from fastgemm import kernels
from fastgemm.tune import nested
from fastgemm.tune.nested import NestedSpace, Product, State

needs_kernels = pytest.mark.skipif(not kernels.runnable(), reason="no tier runs here")


@pytest.mark.parametrize(("size", "states"), [(512, 484_000), (1024, 899_756), (2048, 1_589_952)])
def test_the_papers_counts(size: int, states: int) -> None:
    space = NestedSpace(size, size, size)
    assert len(space) == states
    assert space.moves == 26
    assert len(space.neighbours(space.start)) == 7
    assert space.start == State((size, 1, 1, 1), (size, 1), (size, 1, 1, 1))


def test_every_state_once() -> None:
    space = NestedSpace(8, 4, 2)
    states = list(space.all())
    assert len(set(states)) == len(states) == len(space)
    assert all(state in space and space[space.index(state)] == state for state in states)
    for factors, size in zip(zip(*states, strict=True), (8, 4, 2), strict=True):
        assert all(math.prod(one) == size for one in factors)


def test_moves_are_undone_and_reach_everything() -> None:
    space = NestedSpace(8, 4, 2)
    found, front = {space.start}, [space.start]
    while front:
        state = front.pop()
        for other in space.neighbours(state):
            assert other in space
            assert state in space.neighbours(other)
            if other not in found:
                found.add(other)
                front.append(other)
    assert len(found) == len(space)


def test_points_are_states() -> None:
    space = NestedSpace(32, 8, 16)
    rng = random.Random(1)
    for _ in range(300):
        state = space.sample(rng)
        point = space.encode(state)
        assert space.decode(point) == state
        assert all(index in range(len(space.values[name])) for name, index in point.items())
        assert space.mutate(state, rng) in space
        vector = space.vector(state)
        assert len(vector) == 10
        assert min(vector) >= -0.5
        assert max(vector) <= 0.5
    anything = {name: rng.randrange(len(values)) for name, values in space.values.items()}
    assert space.decode(anything) in space


@pytest.mark.parametrize("sizes", [(0, 4, 4), (4, 3, 4), (4, 4, True), (4, 4, 1 << 20), (4, 4, -4), (4.0, 4, 4)])
def test_sizes_are_powers_of_two(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="must be"):
        NestedSpace(*sizes)


def test_what_is_no_state() -> None:
    space = NestedSpace(4, 4, 4)
    start = space.start
    wrong = [start._replace(m=(4, 1, 1)), start._replace(k=(2, 1)), start._replace(n=(-4, -1, 1, 1))]
    for state in [*wrong, start._replace(k=(4.0, 1)), tuple(start), None]:
        assert state not in space


@needs_kernels
@pytest.mark.parametrize("tier", [tier.name for tier in kernels.runnable()])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (8, 4, 16), (64, 32, 64), (16, 2, 128), (128, 64, 1)], ids=str)
def test_numpy_agrees(sizes: tuple[int, int, int], tier: str) -> None:
    space = NestedSpace(*sizes)
    product = Product(space, tier)
    wanted = product.a.astype(float) @ product.b
    rng = random.Random(0)
    for _ in range(100):
        state = space.sample(rng)
        product.c[...] = np.nan
        np.testing.assert_allclose(product.run(state), wanted, atol=1e-5 * sizes[1], err_msg=str(state))


@needs_kernels
def test_stretches_stay_inside() -> None:
    """A stretch computes parts of the right product and nothing else."""
    space = NestedSpace(32, 16, 32)
    product = Product(space)
    wanted = product.run(space.start).copy()
    rng = random.Random(0)
    for _ in range(50):
        state = space.sample(rng)
        assert all(0 < seconds < math.inf for seconds in product.sample(state, (0.0, 0.3, 0.99), 1e-6))
        np.testing.assert_allclose(product.run(state), wanted, atol=1e-4)


@needs_kernels
def test_only_tilings_are_run() -> None:
    product = Product(NestedSpace(8, 8, 8))
    bad = product.space.start._replace(m=(16, 1, 1, 1))
    with pytest.raises(ValueError, match="no tiling"):
        product.run(bad)
    with pytest.raises(ValueError, match="no tiling"):
        product.sample(bad, (0.1,), 1e-6)


def test_no_product_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nested.kernels, "runnable", lambda: ())
    monkeypatch.setattr(nested.kernels, "active_isa", lambda: None)
    with pytest.raises(RuntimeError, match="no kernels"):
        Product(NestedSpace(2, 2, 2))
