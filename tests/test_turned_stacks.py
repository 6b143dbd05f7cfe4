"""Stacks of small products whose B is turned over, several items at a time, before small's kernels loop over them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from oracle import integers

from fastgemm import kernels, registry, special_shapes
from fastgemm.plan import Plan
from fastgemm.problem import Config, Problem

# Items below those that are turned at once, and so many as memory holds of none.
ITEMS = (1, 3, 4, 9, 70, 700)
Stack = np.ndarray[Any, Any]


def stacks(n: int, k: int, items: int, dtype: str) -> Iterator[tuple[str, Stack]]:
    """Stacks of columns that are adjacent, as calls have them."""
    yield "gapless", integers((items, n, k), dtype, 3)
    yield "gaps between items", integers((items, n + 1, k), dtype, 4)[:, 1:]
    yield "gaps between columns", integers((items, n, k + 2), dtype, 5)[:, :, :k]
    yield "reversed", integers((items, n, k), dtype, 6)[::-1]
    yield "one for all", np.broadcast_to(integers((n, k), dtype, 7), (items, n, k))


def config_of(problem: Problem, tier: registry.Isa) -> Config | None:
    """The small family's with a copy of B, where the type has one."""
    for mr, nr in registry.tiles(problem.row, tier):
        config = Config("small", tier.name, mr, nr, pack="b")
        if mr >= problem.m and config.misfit(problem) is None:
            return config
    return None


@pytest.mark.parametrize("tier", kernels.runnable(), ids=lambda tier: tier.name)
@pytest.mark.parametrize("dt", registry.DTYPES, ids=lambda dt: dt.name)
def test_stacks(dt: registry.DType, tier: registry.Isa) -> None:
    if not registry.supported(dt, tier) or (dt.group > 1 and dt.narrows):
        pytest.skip("no plain products of this type here")
    kernels.load(tier.name)
    done = 0
    sides = sorted({2, 3, 5, 8, registry.lanes(dt, tier), registry.lanes(dt, tier) + 1})
    wide = np.dtype("c16" if dt.parts == 2 else "f8")
    for (n, k), m, items in itertools.product(itertools.product(sides, (1, 2, 3, 5, 8, 13)), (1, 3), ITEMS):
        problem = Problem(dt.name, m, n, k, items, "nt")
        config = config_of(problem, tier)
        if config is None or (items > 100 and n * k > 25):
            continue
        a = integers((items, m, k), dt.numpy, 1)
        plan = Plan(problem, config)
        for what, stored in stacks(n, k, items, dt.numpy):
            b = stored.mT
            got = plan.run(a, b)
            want = np.matmul(a.astype(wide), b.astype(wide)).astype(got.dtype)
            assert np.array_equal(got, want), (problem, config, what)
            done += 1
    assert done


@pytest.mark.parametrize("tier", kernels.runnable(), ids=lambda tier: tier.name)
def test_kernels_of_shapes(tier: registry.Isa) -> None:
    """Those of this build take the copies: the bits are theirs."""
    kernels.load(tier.name)
    done = 0
    for shape in special_shapes.SPECIAL:
        if shape.n * shape.k * registry.dtype(shape.dtype).real_bytes > 256:
            continue
        turned, plain = (Problem(shape.dtype, *shape[1:4], 50, letters) for letters in ("nt", "nn"))
        config = config_of(turned, tier)
        if config is None:
            continue
        rng = np.random.default_rng(shape.n)
        kind = registry.dtype(shape.dtype).numpy
        a, b = (rng.uniform(-1, 1, (50, *size)).astype(kind) for size in ((shape.m, shape.k), (shape.n, shape.k)))
        plans = Plan(turned, config), Plan(plain, Config("small", tier.name, config.mr, config.nr, pack="none"))
        assert [plan.facts["special"] for plan in plans] == [True, True]
        assert np.array_equal(plans[0].run(a, b.mT), plans[1].run(a, np.ascontiguousarray(b.mT)))
        done += 1
    assert done
