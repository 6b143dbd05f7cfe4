"""A CPU that computes its longest vectors in two halves: what gets the kernels of shorter ones, and answers."""

from __future__ import annotations

import platform

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastgemm
from fastgemm import cpu, dispatch, kernels, registry
from fastgemm.cpu import _features
from fastgemm.driver import _plan
from fastgemm.heuristic import half_narrow, half_tier, measured, packed_b, rules
from fastgemm.heuristic.half_narrow_rules import RULES
from fastgemm.problem import Config, Problem, Record

V3, V4 = registry.isa("v3"), registry.isa("v4")
MIB = 1 << 20

WIDTHS = [(0b100, True), (0b110, True), (0b1100, False), (0b1000, False), (0b1, False)]


@pytest.mark.parametrize(("eax", "half"), WIDTHS)
def test_width_by_cpuid(eax: int, half: bool) -> None:
    assert _features.half_wide(lambda leaf, subleaf=0: (eax, 0, 0, 0) if leaf == 0x8000001A else None) is half
    assert not _features.half_wide(lambda leaf, subleaf=0: None)


def test_halves_of_a_large_l1_or_of_short_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hypervisor may hide that units are 512 bits wide; the L1 of such a CPU tells."""
    monkeypatch.setattr(cpu, "_half_wide", lambda: True)
    for l1d, half in ((32 << 10, True), (48 << 10, False)):
        monkeypatch.setattr(cpu, "caches", lambda l1d=l1d: cpu.Caches(l1d, MIB, 32 * MIB))
        assert [cpu.halves(tier) for tier in registry.ISAS] == [False, False, half]
    monkeypatch.setattr(cpu, "_half_wide", lambda: False)
    monkeypatch.setattr(cpu, "caches", lambda: cpu.Caches(32 << 10, MIB, 32 * MIB))
    assert not cpu.halves(V4)


SHORT = [
    ("f64", "nn", 9, 9, 9, 10000),
    ("f16", "nn", 232, 8, 232, 1),
    ("f32", "nn", 1, 800, 8000, 1),
    ("f64", "nt", 1, 512, 512, 1),
    ("f32", "nt", 1, 176, 176, 500),
    ("f32", "nn", 4, 7860, 2560, 1),
    ("f32", "nn", 2, 1024, 1024, 1),
    ("f64", "nn", 6, 2000, 1000, 1),
    ("f64", "nn", 12, 1024, 1024, 1),
    ("f64", "nn", 784, 8, 72, 32),
    ("f32", "nn", 232, 8, 232, 1),
    ("f32", "nn", 64, 24, 64, 1),
    ("c64", "nn", 1000, 12, 64, 1),
    ("f64", "nn", 64, 4, 64, 1),
    ("f32", "tn", 8, 8, 8, 1000),
    ("f32", "nn", 100, 100, 100, 300),
    ("f64", "nn", 20, 100, 100, 600),
    ("i32", "nn", 2, 4096, 4096, 1),
    ("i16", "nn", 1000, 4, 64, 1),
    ("i16", "tt", 64, 16, 64, 1),
    ("i8", "nn", 232, 8, 232, 1),
]
LONG = [
    ("f32", "nt", 5, 5, 5, 1000),
    ("f32", "nn", 72, 72, 72, 1),
    ("f32", "nn", 64, 20, 64, 1),
    ("f64", "nn", 300, 300, 4, 1),
    ("f32", "nn", 512, 512, 512, 1),
    ("f32", "nn", 1, 512, 512, 1),
    ("f32", "nn", 1, 64, 64, 10000),
    ("f32", "nt", 1, 176, 176, 1001),
    ("f32", "nt", 1, 20000, 1000, 1),
    ("f32", "nn", 1, 10752, 3584, 1),
    ("f64", "nt", 1, 1500, 1500, 1),
    ("f32", "nn", 4, 512, 512, 1),
    ("f32", "nt", 4, 4096, 4096, 1),
    ("f32", "nn", 64, 32, 64, 1),
    ("f32", "nn", 64, 4, 64, 1),
    ("f32", "tn", 64, 5, 64, 1),
    ("f32", "nn", 8, 88, 2000, 1),
    ("f32", "nn", 100, 100, 100, 100),
    ("f32", "nn", 128, 128, 128, 500),
    ("f32", "nn", 100, 100, 30, 1000),
    ("f32", "tn", 100, 100, 100, 300),
    ("f64", "nn", 64, 64, 64, 1000),
    ("i32", "nn", 100, 100, 100, 300),
    ("f64", "nn", 32, 32, 1_000_000, 1),
    ("f64", "nt", 1000, 2000, 3, 1),
    ("i32", "nn", 20, 20, 20, 1),
    ("f16", "nn", 1000, 4, 64, 1),
    ("i16", "tn", 1000, 4, 64, 1),
    ("i16", "nn", 64, 13, 64, 1),
    ("i16", "nn", 64, 17, 64, 1),
    ("i8", "nn", 300, 13, 20, 1),
    ("bool", "nn", 64, 16, 64, 1),
    ("f32", "np", 64, 24, 64, 1),
    ("i8_i32", "nn", 64, 24, 64, 1),
]


@pytest.mark.parametrize(("tier", "problems"), [(V3, SHORT), (V4, LONG)])
@pytest.mark.usefixtures("zen4")
def test_which(tier: registry.Isa, problems: list[tuple[str, str, int, int, int, int]]) -> None:
    """Each rule, and what is just outside it; threads have no say, or sums would depend on them."""
    for name, layout, m, n, k, batch in problems:
        for threads in (1, 2):
            problem = Problem(name, m, n, k, batch, layout, threads)
            assert half_tier.halves(problem, V3) is (tier is V3), problem


RUNS = platform.machine() in ("x86_64", "AMD64") and V4 in kernels.runnable()


@pytest.mark.skipif(not RUNS, reason="needs AVX-512")
@pytest.mark.usefixtures("zen4")
def test_answers_and_words() -> None:
    """What is chosen runs: on both tiers in one process, by several threads, within `deterministic`, and explained."""
    rng = np.random.default_rng(0)
    for name, layout, m, n, k, batch in SHORT + LONG:
        if batch * (m * k + k * n + m * n) > 3_000_000 or layout[1] == "p" or name in ("bool", "i8_i32"):
            continue
        kind = f"{name[0]}{int(name[1:]) // 8}"
        a, b = (rng.integers(-3, 4, (batch, *shape)).astype(kind) for shape in ((m, k), (k, n)))
        a = a if layout[0] == "n" else np.ascontiguousarray(a.swapaxes(1, 2)).swapaxes(1, 2)
        b = b if layout[1] == "n" else np.ascontiguousarray(b.swapaxes(1, 2)).swapaxes(1, 2)
        want = a.astype("c16") @ b.astype("c16")
        want = want if kind[0] == "c" else want.real.astype("i8")  # whole, and modulo what the kind holds
        with fastgemm.threads(2):
            assert np.array_equal(fastgemm.matmul(a, b), want.astype(kind))
            with fastgemm.deterministic():
                two = fastgemm.matmul(a, b)
        with fastgemm.deterministic(), fastgemm.threads(1):
            assert np.array_equal(fastgemm.matmul(a, b), two)
    assert "in two halves" in repr(fastgemm.explain(m=64, n=24, k=64))
    assert "in two halves" not in repr(fastgemm.explain(m=64, n=32, k=64))


@pytest.mark.skipif(not RUNS, reason="needs AVX-512")
@pytest.mark.usefixtures("zen4")
def test_a_named_tier_is_kept_to(monkeypatch: pytest.MonkeyPatch) -> None:
    name, layout, m, n, k, batch = SHORT[0]
    problem = Problem(name, m, n, k, batch, layout)
    assert (kernels.half_isa(), rules.config(problem).isa, rules.config(problem, V4).isa) == (V3, "v3", "v4")
    monkeypatch.setenv("FASTGEMM_ISA", "v4")
    assert (kernels.half_isa(), rules.config(problem).isa) == (None, "v4")
    monkeypatch.delenv("FASTGEMM_ISA")
    monkeypatch.setattr(cpu, "halves", lambda tier: False)
    assert (kernels.half_isa(), rules.config(problem).isa) == (None, "v4")


@pytest.mark.skipif(not RUNS, reason="needs AVX-512")
@pytest.mark.usefixtures("zen4")
def test_records_of_both_tiers_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tuner that starts from short vectors records them; FASTGEMM_ISA holds for records too."""
    problem = Problem("f32", 64, 24, 64)
    records = {
        tier.name: Record(problem, rules.config(problem, tier), 1e-6, 2e-6, 9, "random", "2026-01-01", "k")
        for tier in (V3, V4)
    }
    assert [dispatch._usable(records[name], "v4") for name in ("v3", "v4")] == [True, True]
    monkeypatch.setenv("FASTGEMM_ISA", "v4")
    assert [dispatch._usable(records[name], "v4") for name in ("v3", "v4")] == [False, True]


@pytest.mark.skipif(not RUNS, reason="needs AVX-512")
@pytest.mark.usefixtures("zen4")
def test_how_packed_panels_are_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the CPU itself for few rows, into L2 for more; complex rows are two."""

    def ahead(name: str, m: int) -> tuple[int, bool]:
        problem = Problem(name, m, 4096, 4096, layout="np")
        config = packed_b.config(problem, V4, packed_b.vectors(problem.row, V4, m, 4096))
        facts = _plan.Plan(problem, config).facts
        return facts["ready_ahead"], facts["ready_l2"]

    kernels.load("v4")
    assert [ahead("f32", m) for m in (1, 6, 7, 40)] == [(0, True)] * 2 + [(16384, True)] * 2
    assert [ahead("c64", m) for m in (3, 4)] == [(0, True), (16384, True)]
    monkeypatch.setattr(cpu, "halves", lambda tier: False)
    assert [ahead("f32", m) for m in (1, 40)] == [(8192, False)] * 2


@pytest.mark.skipif(not RUNS, reason="needs AVX-512")
@pytest.mark.usefixtures("zen4")
@pytest.mark.parametrize(("share", "ahead"), [(2.0, 2048), (1.0, 0), (0.5, 16384), (0.2, 0)])
@pytest.mark.parametrize("gap", [0, 7])
def test_columns_one_after_the_other(share: float, ahead: int, gap: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A vector by columns far from the core: how far ahead they are fetched, and answers, with gaps too."""
    monkeypatch.setattr(cpu, "caches", lambda: cpu.Caches(32 << 10, MIB, 4 * MIB))
    kernels.load("v4")
    for name, k, kind in (("f32", 1027, "f4"), ("f64", 1027, "f8"), ("i32", 1500, "i4"), ("c64", 700, "c8")):
        row = registry.dtype(name)
        n = int(cpu.caches().l3 * share) // (k * row.itemsize) + 1
        problem = Problem(name, 1, n, k, layout="nt")
        assert half_tier.halves(problem, V3) is not bool(ahead)
        plan = _plan.Plan(problem, Config("gemv", "v4"))
        assert plan.facts["reach_l2"] == (ahead, ahead)
        stack = Problem(name, 1, n // 10 + 1, k, batch=10, layout="nt")
        assert _plan.Plan(stack, Config("gemv", "v4")).facts["reach_l2"] == (0, ahead)
        rng = np.random.default_rng(n)
        b = rng.integers(-9, 9, (n, k + gap)).astype(kind)[:, :k].T
        a = rng.integers(-9, 9, (1, k)).astype(kind)
        want = a.astype("c16" if kind == "c8" else "f8") @ b
        assert np.array_equal(plan.run(a, b), want)


@pytest.mark.skipif(not RUNS, reason="needs AVX-512")
@pytest.mark.usefixtures("zen4")
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_copies_ahead(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a B from memory that are copied one after the other, the next one fetched; with gaps, and backwards."""
    monkeypatch.setattr(cpu, "caches", lambda: cpu.Caches(32 << 10, MIB, 4 * MIB))
    kernels.load("v4")
    kind = np.dtype(registry.dtype(name).numpy)
    k, n = 1037, 8 * MIB // (1037 * kind.itemsize)
    rng = np.random.default_rng(5)
    for m, ahead, threads in [(24, False, 1), (33, True, 1), (33, True, 2), (100, True, 1), (257, False, 1)]:
        problem = Problem(name, m, n, k, threads=threads)
        assert half_tier.copies_ahead(problem) is ahead
        assert not (ahead and half_tier.halves(problem, V3))
        config = rules.config(problem, V4)
        assert (config.pack == "b") is (ahead or m > 200)
        plan = _plan.Plan(problem, config)
        assert plan.facts["far_copies"] is ahead
        a = rng.integers(-9, 9, (m, k)).astype(kind)
        for gap, step in ((0, 1), (9, -1)):
            b = rng.integers(-9, 9, (k, n + gap)).astype(kind)[::step, :n]
            assert np.array_equal(plan.run(a, b), a.astype("f8") @ b)
    assert half_tier.copies_ahead(Problem(name, 24, 1024, 2048))
    assert not half_tier.copies_ahead(Problem(name, 24, 1025, 2048))
    assert not half_tier.copies_ahead(Problem(name, 100, 512, 512, batch=100))
    assert not half_tier.copies_ahead(Problem(name, 100, 1024, 2048, layout="nt"))


@pytest.mark.usefixtures("zen4")
def test_packed_panels_leave_rows_of_whole_pages_in_l1() -> None:
    for name in ("f32", "f64", "i8_i32"):
        row = registry.dtype(name)
        heights = {nv: mr for mr, nv in registry.registers(row, V4)}
        assert all(heights[packed_b.vectors(row, V4, rows, 4096)] <= 8 for rows in range(1, 17))


@given(
    name=st.sampled_from([row.name for row in registry.DTYPES]),
    sizes=st.tuples(*[st.integers(1, 40) | st.sampled_from([100, 1000, 4096, 30000])] * 3),
    batch=st.sampled_from([1, 1, 3, 1000]),
    layout=st.sampled_from(["nn", "nt", "tn", "tt", "gn", "ng"]),
    threads=st.integers(1, 4),
)
@settings(max_examples=300, deadline=None)
def test_any_problem_gets_what_fits(
    name: str, sizes: tuple[int, int, int], batch: int, layout: str, threads: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu, "halves", lambda tier: tier.vector_bytes > 32)
        problem = Problem(name, *sizes, batch, layout, threads)
        config = rules.config(problem)
        assert config.family == "numpy" or config.misfit(problem) is None


# Few columns: layout, type, m, n, k, and the family and tier that multiply them.
NARROW = [
    ("f32", "nn", 32, 2, 1024, "dots", "v3"), ("f32", "nn", 4, 3, 512, "dots", "v3"),
    ("f32", "nn", 96, 2, 1024, "dots", "v4"), ("f32", "nn", 200, 6, 500, "dots", "v4"),
    ("f32", "nn", 32, 5, 512, "gemm", "v4"), ("f32", "nn", 1000, 7, 300, "gemm", "v4"),
    ("f32", "nn", 6, 4, 64, "small", "v3"), ("f32", "nn", 20000, 5, 300, "gemm", "v3"),
    ("f32", "nn", 32, 4, 100_000, "small", "v4"), ("f32", "nt", 16, 8, 512, "dots", "v3"),
    ("f64", "nn", 16, 2, 512, "dots", "v3"), ("f64", "nn", 16, 4, 500, "gemm", "v4"),
    ("f64", "nn", 200, 5, 512, "dots", "v4"), ("f64", "nn", 6, 3, 100, "small", "v3"),
    ("f64", "nn", 64, 10, 100, "small", "v4"), ("f64", "nt", 8, 8, 256, "dots", "v3"),
    ("f32", "nn", 3000, 4, 64, "dots", "v4"), ("c128", "nn", 4, 512, 512, "small", "v4"),
    ("f64", "nt", 64, 7, 512, "gemm", "v4"), ("f64", "nt", 16, 12, 1000, "dots", "v4"),
    ("i32", "nn", 32, 2, 512, "dots", "v3"), ("i32", "nn", 64, 8, 100, "small", "v3"),
    ("i64", "nn", 32, 2, 512, "dots", "v4"), ("i64", "nt", 100, 8, 100, "small", "v4"),
    ("i16", "nn", 32, 3, 250, "dots", "v3"), ("i16", "nt", 16, 2, 100, "dots", "v3"),
    ("i8", "nt", 100, 8, 64, "dots", "v3"), ("bool", "nt", 64, 4, 500, "dots", "v3"),
    ("f16", "nn", 32, 2, 128, "dots", "v3"), ("f16_f32", "nn", 32, 2, 128, "dots", "v3"),
    ("c64", "nn", 100, 2, 512, "small", "v3"), ("c128", "nt", 24, 2, 100, "dots", "v3"),
]  # fmt: skip


@pytest.mark.usefixtures("zen4")
@pytest.mark.skipif(not kernels.has("gemm", "v4"), reason="no AVX-512")
@pytest.mark.parametrize("case", NARROW, ids=str)
def test_few_columns(case: tuple[str, str, int, int, int, str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    name, layout, m, n, k, family, isa = case
    monkeypatch.delenv("FASTGEMM_ISA", raising=False)
    for threads in (1, 2):
        config = rules.config(Problem(name, m, n, k, layout=layout, threads=threads))
        assert (config.family, config.isa) == (family, isa)
    dtype = registry.dtype(name).numpy
    rng = np.random.default_rng(k)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n)))
    a, b = (a, b) if name != "bool" else (rng.random(a.shape) < 0.04, rng.random(b.shape) < 0.04)
    b = np.asfortranarray(b) if layout[1] == "t" else b
    if np.issubdtype(dtype, np.inexact):
        want = a.astype(np.result_type(dtype, "f8")) @ b
        np.testing.assert_allclose(fastgemm.matmul(a, b), want, rtol=0, atol=4 * k * np.finfo(dtype).eps)
    else:
        assert np.array_equal(fastgemm.matmul(a, b), a @ b)


@pytest.mark.usefixtures("zen4")
@pytest.mark.skipif(not kernels.has("gemm", "v4"), reason="no AVX-512")
@pytest.mark.parametrize("name", sorted({line.split()[0] for line in RULES.strip().splitlines()}))
def test_every_rule_of_few_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the least sizes that a line is for: a way that computes the problem, of its vectors, and the right answer."""
    monkeypatch.delenv("FASTGEMM_ISA", raising=False)
    row, ways = registry.dtype(name), set()
    for line in (line.split() for line in RULES.strip().splitlines()):
        _, layout, *sides, way = line[:6]
        if line[0] != name:
            continue
        assert layout in ("nn", "nt")
        assert way in (*half_narrow.WAYS, measured.NO_WAY)
        n, m, k = (int(side.split("-")[0]) for side in sides)
        page = half_narrow.HALF_PAGE // (row.stored_bytes * row.parts)
        k = -(-k // page) * page if sides[2].endswith("p") else k
        problem = Problem(name, m, n, k, layout=layout)
        way, config = half_narrow.way(problem), rules.config(problem)
        assert config.misfit(problem) is None
        if way:
            ways.add(way)
            assert measured.computes(config, way), line
            assert config.isa == ("v3" if way in measured.OF_SHORT_VECTORS else "v4"), line
        rng = np.random.default_rng(m)
        # (So few ones that about half of a bool's outputs are false.)
        few = (0.7 / k) ** 0.5 if name == "bool" else 0.5
        a, b = ((rng.random(shape) < few).astype(row.numpy) for shape in ((m, k), (k, n)))
        b = np.asfortranarray(b) if layout[1] == "t" else b
        assert np.array_equal(fastgemm.matmul(a, b), a @ b), line
    assert len(ways) > 1


@pytest.mark.usefixtures("zen4")
def test_few_columns_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other layouts, types and sizes keep their rules, and so does a CPU with whole vectors."""
    monkeypatch.delenv("FASTGEMM_ISA", raising=False)
    wanted = Problem("f32", 32, 2, 1024)
    assert bool(half_narrow.way(wanted)) is (V4 in kernels.runnable())
    for other in (
        Problem("f32", 32, 2, 1024, layout="tn"), Problem("bf16", 32, 2, 1024), Problem("f32", 200, 2, 15),
        Problem("f32", 32, 1, 1024), Problem("f32", 32, 13, 1024), Problem("f32", 1, 2, 1024),
        Problem("f32", 2, 3, 1024), Problem("f32", 32, 4, 100_000), Problem("f32", 100_000, 2, 1024),
    ):  # fmt: skip
        assert half_narrow.way(other) == "", other
    monkeypatch.setattr(cpu, "_half_wide", lambda: False)
    assert half_narrow.way(wanted) == ""


@pytest.mark.usefixtures("zen4")
def test_a_way_is_forced_for_as_long() -> None:
    for way in ("", *half_narrow.WAYS):
        with half_narrow.forced(way):
            assert half_narrow.way(Problem("f32", 500, 500, 500)) == way
    assert half_narrow.way(Problem("f32", 500, 500, 500)) == ""


@pytest.mark.usefixtures("zen4")
@pytest.mark.skipif(not kernels.has("gemm", "v4"), reason="no AVX-512")
def test_tiles_beside_rows_whole_pages_apart() -> None:
    for name, k in (("f32", 1024), ("f64", 512)):
        apart, beside = (rules.config(Problem(name, 64, 7, steps), V4) for steps in (k, k + 8))
        assert (apart.mr, beside.mr) == (8, 14)
