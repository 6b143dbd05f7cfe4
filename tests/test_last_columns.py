"""The columns of C's last vector, where few: kernels whose rows share vectors compute them, to the same bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from oracle import dtype_of

from fastgemm import kernels, registry
from fastgemm.heuristic import rules
from fastgemm.heuristic.ways import LEFT_ROWS, LEFT_STEPS, few_left
from fastgemm.plan import Plan
from fastgemm.problem import Config, Problem

TIERS = [tier.name for tier in kernels.runnable()]


def random(shape: tuple[int, ...], kind: np.dtype) -> np.ndarray:
    """Numbers whose sums are rounded, or wrap."""
    rng = np.random.default_rng(len(shape))
    if kind.kind in "iu":
        return rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind)
    drawn = rng.standard_normal(shape)
    return (drawn + 1j * rng.standard_normal(shape) if kind.kind == "c" else drawn).astype(kind)


def plan_of(problem: Problem, tier: str, family: str, split: str, threads: int) -> Plan:
    """Return a plan by the first tile, with nothing packed or B alone."""
    mr, nr = registry.tiles(problem.row, registry.isa(tier))[0]
    pack = "none" if family == "small" else "b"
    return Plan(problem, Config(family, tier, mr, nr, mc=48, kc=2048, nc=256, pack=pack, split=split, threads=threads))


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", ["f32", "f64", "c64", "c128", "i32", "i64"])
@pytest.mark.parametrize("family", ["gemm", "small"])
def test_bits(name: str, tier: str, family: str) -> None:
    """Those of the same columns within more of them; one product and stacks, in pieces, with gaps, shared operands."""
    row, isa = registry.dtype(name), registry.isa(tier)
    kind, lanes = dtype_of(row.numpy), isa.vector_bytes // registry.dtype(name).real_bytes
    if not registry.supported(row, isa) or not registry.computes(family, row):
        pytest.skip("no such kernels")
    kernels.load(tier)
    if lanes // 4 < row.parts:
        pytest.skip("a quarter of a vector holds no number")
    m, k, step = LEFT_ROWS + 5, LEFT_STEPS + 3, lanes // row.parts
    seen = 0
    for left, (batch, split, threads) in [
        (left, way)
        for left in range(1, lanes // 4 // row.parts + 1)
        for way in ((1, "n", 1), (1, "m", 2), (1, "n", 2), (7, "batch", 2), (7, "m", 2), (7, "n", 1))
    ]:
        n = 3 * step + left
        stack = (batch,) if batch > 1 else ()
        a, wide = random((*stack, m, k), kind), random((*stack, k, n + step - left), kind)
        want = plan_of(Problem(name, m, n + step - left, k, batch), tier, family, "n", 1).run(a, wide)[..., :n]
        problem = Problem(name, m, n, k, batch, threads=threads)
        plan = plan_of(problem, tier, family, split, threads)
        assert plan.facts["apart"] == (few_left(problem, isa) and (threads == 1 or split != "n"))
        seen += plan.facts["apart"]
        for b in (wide[..., :n], np.ascontiguousarray(wide[..., :n])):
            memory = np.full((*stack, m + 2, n + 3), 77, kind)
            out = memory[..., 1:-1, 1:-2]
            assert np.array_equal(plan.run(a, b, out), want), (problem, family)
            out[...] = 77
            assert np.all(memory == 77), (problem, family)
        if batch > 1:
            same = plan_of(problem, tier, family, split, threads).run(a, np.broadcast_to(b[:1], b.shape))
            first = plan_of(Problem(name, m, n, k), tier, family, "n", 1).run(a[2], b[0])
            assert np.array_equal(same[2], first)
    assert seen


@pytest.mark.parametrize("tier", TIERS)
def test_which_are(tier: str) -> None:
    """A quarter of a vector at most, beside whole ones, of enough rows and steps, all of k at a time."""
    isa = registry.isa(tier)
    lanes = isa.vector_bytes // 4
    kernels.load(tier)
    for shape, layout, few in [
        ((LEFT_ROWS, 2 * lanes + 1, LEFT_STEPS), "nn", True),
        ((LEFT_ROWS, 2 * lanes + lanes // 4, LEFT_STEPS), "nn", True),
        ((LEFT_ROWS, 2 * lanes + lanes // 4 + 1, LEFT_STEPS), "nn", False),
        ((LEFT_ROWS, 2 * lanes, LEFT_STEPS), "nn", False),
        ((LEFT_ROWS, 1, LEFT_STEPS), "nn", False),
        ((LEFT_ROWS - 1, 2 * lanes + 1, LEFT_STEPS), "nn", False),
        ((LEFT_ROWS, 2 * lanes + 1, LEFT_STEPS - 1), "nn", False),
        ((LEFT_ROWS, 2 * lanes + 1, LEFT_STEPS), "tn", False),
        ((LEFT_ROWS, 2 * lanes + 1, LEFT_STEPS), "nt", False),
        ((1_000_000, 2 * lanes + 1, LEFT_STEPS), "nn", False),
    ]:
        assert few_left(Problem("f32", *shape, layout=layout), isa) == few, (shape, layout)
    assert not few_left(Problem("f32", LEFT_ROWS, 2 * lanes + 1, LEFT_STEPS, epilogue="relu"), isa)
    problem = Problem("f32", 100, 2 * lanes + 1, 400)
    assert Plan(problem, rules.config(problem, isa)).facts["apart"]
    mr, nr = registry.tiles(problem.row, isa)[0]
    blocks = Config("gemm", tier, mr, nr, mc=48, kc=100, nc=256)
    assert not Plan(problem, blocks).facts["apart"]  # sums of blocks have another order


@pytest.mark.parametrize("tier", TIERS)
def test_other_calls_of_the_plan(tier: str) -> None:
    """Operands that no narrow kernel reads, and outputs it does not write, take the whole width."""
    kernels.load(tier)
    lanes = registry.isa(tier).vector_bytes // 4
    m, n, k = LEFT_ROWS, 2 * lanes + 1, LEFT_STEPS
    plan = plan_of(Problem("f32", m, n, k), tier, "gemm", "n", 1)
    assert plan.facts["apart"]
    a, b = random((m, k), np.dtype("f4")), random((k, n), np.dtype("f4"))
    want = plan.run(a, b)
    spread = np.zeros((m, 2 * k), "f4")[:, ::2]
    spread[...] = a
    assert np.array_equal(plan.run(spread, b), want)
    assert np.array_equal(plan.run(np.asfortranarray(a), b), want)
    assert np.array_equal(plan.run(a, b, np.empty((n, m), "f4").T), want)
    assert np.array_equal(plan.run(a[::-1], b), want[::-1])


@pytest.mark.parametrize(("l1d", "bytes_apart"), [(48, 2048), (32, 1024)])
def test_rows_whole_pages_apart(l1d: int, bytes_apart: int, pretend: Any) -> None:
    """There such a kernel's rows meet in a few sets of L1, the more of them the fewer columns there are."""
    pretend(l1d, 1 << 10, 32 << 10)
    steps = bytes_apart // 4
    tried, isa = Problem("f32", 200, 33, steps - 4), registry.isa("v4")
    assert few_left(tried, isa)
    assert not few_left(replace(tried, k=steps), isa)
    assert few_left(replace(tried, n=35, k=steps), isa)
    assert not few_left(replace(tried, n=35, k=2 * steps), isa)
