"""Few steps of k, of which C is written whole rows at a time: which, right answers, and the bits of other kernels."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from conftest import Pretend
from oracle import dtype_of, integers, laid

from fastgemm import cpu, kernels, registry
from fastgemm.heuristic import brief, family_small
from fastgemm.plan import Plan
from fastgemm.problem import Config, Problem

TIERS = kernels.runnable()
V3, V4 = registry.isa("v3"), registry.isa("v4")
CASES = [
    (row.name, tier, steps, rows)
    for tier in TIERS
    for row in registry.DTYPES
    for steps, rows in registry.brief(row, tier)
]


def small(problem: Problem, tier: registry.Isa) -> Config:
    """The family's widest tile, whatever the rules say."""
    mr, nr = max(registry.tiles(problem.row, tier), key=lambda tile: tile[1])
    pack = "none" if problem.layout[1] == "n" else "b"
    split = "batch" if problem.batch > 1 else "m"
    return Config("small", tier.name, mr, nr, pack=pack, split=split, threads=problem.threads)


def test_which(pretend: Pretend) -> None:
    pretend(48, 2048, 32768)

    def taken(m: int, n: int, k: int, name: str = "f32", tier: registry.Isa = V4) -> bool:
        return brief.whole_rows(Problem(name, m, n, k), tier)

    assert [k for k in range(1, 20) if taken(500, 500, k)] == [*range(1, 9)]
    assert [k for k in range(1, 20) if taken(500, 500, k, tier=V3)] == [*range(1, 7)]
    assert [taken(1000, n, k) for n, k in ((80, 4), (81, 4), (128, 5), (129, 5))] == [False, True, False, True]
    assert [taken(1000, n, k, "f64") for n, k in ((40, 4), (41, 4), (64, 5), (65, 5))] == [False, True, False, True]
    assert [taken(64, n, 2) for n in (143, 144)] == [False, True]
    assert not any(taken(500, 500, 4, name) for name in ("i32", "i64", "c64", "c128", "f16", "bf16", "i8"))


def test_which_beats_blocks(pretend: Pretend) -> None:
    pretend(48, 2048, 32768)

    def taken(m: int, k: int, layout: str = "nn", batch: int = 1) -> bool:
        problem = Problem("f32", m, 1024, k, batch, layout)
        better = brief.beats_blocks(problem, V4)
        assert not better or family_small.config(problem, V4) is not None
        return better

    assert [taken(m, 4, layout) for m in (1536, 1537) for layout in ("nn", "tn")] == [True] * 4
    for k, layout in ((4, "nt"), (4, "tt"), (5, "nn"), (8, "tn")):
        assert [taken(m, k, layout) for m in (1536, 1537)] == [True, False]
    assert not taken(1000, 4, batch=2)
    assert not taken(1000, 4, "gn")
    assert not taken(1000, 4, "ng")


@pytest.mark.parametrize(("name", "tier", "k", "rows"), CASES)
def test_answers(name: str, tier: registry.Isa, k: int, rows: int) -> None:
    """Rows that begin alike and do not, gaps, anywhere in a line, leftovers of a turn; nothing beside C changes."""
    kernels.load(tier.name)
    row = registry.dtype(name)
    kind, lanes = dtype_of(row.numpy), registry.lanes(row, tier)
    sizes = (10 * lanes + 1, 12 * lanes, 13 * lanes + lanes // 2, 40 * lanes - 1)
    for n, layout, (gap, begin) in itertools.product(sizes, ("nn", "tt"), ((0, 0), (3, 1), (lanes, 5))):
        least = max(brief.LEAST_C // (n * row.itemsize) + 1, 4 * lanes * rows)
        for m in (least, least + 2 * lanes + 1):
            problem = Problem(name, m, n, k, layout=layout)
            plan = Plan(problem, small(problem, tier))
            assert plan.facts["brief"]
            a, b = integers((m, k), kind, 1), integers((k, n), kind, 2)
            memory = np.full(begin + (m + 1) * (n + gap), 77, kind)
            out = memory[begin : begin + m * (n + gap)].reshape(m, n + gap)[:, :n]
            plan.run(laid(a, layout[0]), laid(b, layout[1]), out)
            assert np.array_equal(out, a @ b), (problem, gap, begin)
            out[...] = 77
            assert np.all(memory == 77), (problem, gap, begin)


@pytest.mark.parametrize("tier", TIERS, ids=lambda tier: tier.name)
def test_any_strides(tier: registry.Isa) -> None:
    """Rows from the last to the first, and a single row, whose stride may be zero."""
    kernels.load(tier.name)
    for m, n, k in itertools.product((200,), (199, 208), (1, 3)):
        problem = Problem("f32", m, n, k)
        plan = Plan(problem, small(problem, tier))
        a, b = integers((m, k), "f4", 1), integers((k, n), "f4", 2)
        for out in (np.empty((m, n), "f4")[::-1], np.empty((2 * m, n), "f4")[::-2]):
            plan.run(a, b, out)
            assert np.array_equal(out, a @ b)
    a, b = integers((1, 2), "f4", 1), integers((2, 10001), "f4", 2)
    problem = Problem("f32", 1, 10001, 2)
    plan = Plan(problem, small(problem, tier))
    assert plan.facts["brief"]
    for stride in (0, 4, 40004):
        out = np.lib.stride_tricks.as_strided(np.empty(10001, "f4"), (1, 10001), (stride, 4))
        plan.run(a, b, out)
        assert np.array_equal(out, a @ b)


@pytest.mark.parametrize("tier", TIERS, ids=lambda tier: tier.name)
@pytest.mark.parametrize(("batch", "threads"), [(1, 1), (1, 2), (3, 1), (5, 2)])
def test_bits(tier: registry.Isa, batch: int, threads: int) -> None:
    """Those of gemm's kernels, with infinities, NaN and zeros of both signs, in stacks and by several threads."""
    kernels.load(tier.name)
    random = np.random.default_rng(5)
    for name, (k, _) in itertools.product(("f32", "f64"), registry.brief(registry.dtype("f32"), tier)):
        kind = dtype_of(registry.dtype(name).numpy)
        m, n = 131, 203
        problem = Problem(name, m, n, k, batch, "nn", threads)
        stack = (batch,) if batch > 1 else ()
        a, b = (random.standard_normal((*stack, *shape)).astype(kind) for shape in ((m, k), (k, n)))
        a[..., 3, 0], b[..., 0, 7], a[..., 9, :], b[..., :, 11] = np.inf, np.nan, -0.0, 0.0
        plan = Plan(problem, small(problem, tier))
        assert plan.facts["brief"]
        mr, nr = registry.tiles(problem.row, tier)[0]
        blocks = Plan(problem, Config("gemm", tier.name, mr, nr, mc=mr, kc=k, nc=nr))
        assert plan.run(a, b).tobytes() == blocks.run(a, b).tobytes()


@pytest.mark.parametrize("name", ["f64", "i32", "c64"])
def test_rows_whole_pages_apart(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few steps they do not matter, while C is in L2."""
    monkeypatch.setattr(cpu, "caches", lambda: cpu.Caches(48 << 10, 1 << 20, 32 << 20))
    n = 4096 // registry.dtype(name).itemsize
    taken = [family_small.config(Problem(name, 64, n, k, 5), V3) is not None for k in (2, 4, 5, 8)]
    assert taken == [True, True, False, False]
    assert family_small.config(Problem(name, 300, n, 3, 5), V3) is None
