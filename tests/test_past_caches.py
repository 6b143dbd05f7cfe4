"""Outputs of few steps that no cache holds, which the small family writes past them; and a B it copies in pieces."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from oracle import dtype_of, integers

from fastgemm import cpu, heuristic, kernels, registry
from fastgemm.plan import Plan
from fastgemm.problem import PAST_STEPS, Config, Problem

TIERS = [tier.name for tier in kernels.runnable()]


@pytest.fixture(autouse=True)
def caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """An L3 so small that short tests fill it."""
    monkeypatch.setattr(cpu, "caches", lambda: cpu.Caches(32 << 10, 256 << 10, 256 << 10))


def stored(x: np.ndarray, letter: str) -> np.ndarray:
    """Return the same matrices in the memory order of a layout letter."""
    return x if letter == "n" else np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", ["f32", "f64", "i32", "c64", "c128"])
@pytest.mark.parametrize("threads", [1, 2])
def test_written_past(name: str, tier: str, threads: int) -> None:
    """Whole rows, pieces of long ones, rows with a gap, wherever in a line they begin; nothing beside them changes."""
    row, kind = registry.dtype(name), dtype_of(registry.dtype(name).numpy)
    kernels.load(tier)
    taken = 0
    for (m, n, k, batch), layout, gap, begin in itertools.product(
        [(301, 199, 2, 1), (37, 1201, 3, 1), (6, 6007, 1, 1), (41, 61, 5, 17)],
        ["nn", "nt", "tn", "tt"],
        [0, 3],
        [0, 1, 7],
    ):
        problem = Problem(name, m, n, k, batch, layout, threads)
        plan = Plan(problem, heuristic.config(problem, registry.isa(tier)))
        taken += plan.past_caches
        shape = (batch,) if batch > 1 else ()
        a, b = integers((*shape, m, k), kind), integers((*shape, k, n), kind)
        memory = np.full(begin + (batch * m + 1) * (n + gap), 77, kind)
        out = memory[begin : begin + batch * m * (n + gap)].reshape(batch, m, n + gap)[:, :, :n]
        out = out if batch > 1 else out[0]
        plan.run(stored(a, layout[0]), stored(b, layout[1]), out)
        assert np.array_equal(out, a @ b), (problem, plan.config, gap, begin)
        out[...] = 77
        assert np.all(memory == 77), (problem, gap, begin)
    if registry.isa(tier).registers == 16 and registry.computes("small", row):
        assert taken


@pytest.mark.skipif(all(tier.registers != 16 for tier in kernels.runnable()), reason="measured with short vectors")
def test_which_are() -> None:
    """Few steps, several panels of columns, more than most of L3."""
    tier = next(tier for tier in kernels.runnable() if tier.registers == 16)
    kernels.load(tier.name)
    for shape, past in [
        ((400, 200, 2), True),
        ((400, 200, PAST_STEPS), True),
        ((400, 200, PAST_STEPS + 1), False),
        ((10000, 8, 2), False),
        ((100, 200, 2), False),
        ((100, 200, 2, 4), True),
    ]:
        problem = Problem("f32", *shape)
        config = heuristic.config(problem, tier)
        assert Plan(problem, config).past_caches == past, shape
        assert not past or config.family == "small"


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", ["f32", "f64", "c64", "i32"])
def test_copied_in_pieces(name: str, tier: str) -> None:
    """A B by columns that is larger than what is copied at a time; threads that take columns copy their own."""
    kind, isa = dtype_of(registry.dtype(name).numpy), registry.isa(tier)
    kernels.load(tier)
    for (m, n, k, batch), threads in itertools.product([(5, 3001, 7, 1), (3, 997, 40, 3), (9, 1024, 48, 1)], [1, 2]):
        problem = Problem(name, m, n, k, batch, "nt", threads)
        shape = (batch,) if batch > 1 else ()
        a, b = integers((*shape, m, k), kind), stored(integers((*shape, k, n), kind), "t")
        for mr, nr in registry.tiles(registry.dtype(name), isa):
            config = Config("small", tier, mr, nr, pack="b", split="n", threads=threads)
            assert config.misfit(problem) is None
            assert np.array_equal(Plan(problem, config).run(a, b), a @ b), (problem, config)
