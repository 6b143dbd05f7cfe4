"""Outputs of few steps that no cache holds, which the small family writes past them; and a B it copies in pieces."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from oracle import dtype_of, integers

from fastgemm import cpu, kernels, registry
from fastgemm.heuristic import rules
from fastgemm.heuristic.ways import PAST_L3, PAST_STEPS, written_past
from fastgemm.plan import Plan
from fastgemm.problem import MAX_SMALL_K, MAX_TURNED, Config, Problem

TIERS = [tier.name for tier in kernels.runnable()]


PAST = 128 << 10  # bytes of C


@pytest.fixture(autouse=True)
def caches(monkeypatch: pytest.MonkeyPatch, tier: str) -> None:
    """An L3 so small that short tests fill it, whatever share of it the tier asks for."""
    l3 = math.ceil(PAST / PAST_L3[registry.isa(tier).registers])
    monkeypatch.setattr(cpu, "caches", lambda: cpu.Caches(32 << 10, 256 << 10, l3))


def stored(x: np.ndarray, letter: str) -> np.ndarray:
    """Return the same matrices in the memory order of a layout letter."""
    return x if letter == "n" else np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", ["f32", "f64", "i32", "c64", "c128"])
@pytest.mark.parametrize(("split", "threads"), [("n", 1), ("m", 2), ("n", 2), ("batch", 2)])
def test_written_past(name: str, tier: str, split: str, threads: int) -> None:
    """Whole rows, pieces of long ones, rows with a gap, backwards, wherever in a line; nothing beside them changes."""
    row, kind = registry.dtype(name), dtype_of(registry.dtype(name).numpy)
    kernels.load(tier)
    for (m, n, k, batch), layout, (gap, begin, step) in itertools.product(
        [(301, 199, 2, 1), (37, 1201, 3, 1), (6, 6007, 1, 1), (61, 79, 5, 17)],
        ["nn", "nt", "tn", "tt"],
        [(0, 0, 1), (3, 1, 1), (0, 7, -1)],
    ):
        if split == "batch" and batch == 1:
            continue
        problem = Problem(name, m, n, k, batch, layout, threads)
        shape = (batch,) if batch > 1 else ()
        a, b = integers((*shape, m, k), kind), integers((*shape, k, n), kind)
        memory = np.full(begin + (batch * m + 1) * (n + gap), 77, kind)
        out = memory[begin : begin + batch * m * (n + gap)].reshape(batch, m, n + gap)[::step, ::step, :n]
        out = out if batch > 1 else out[0]
        for mr, nr in registry.tiles(row, registry.isa(tier)):
            pack = "none" if layout[1] == "n" else "b"
            plan = Plan(problem, Config("small", tier, mr, nr, pack=pack, split=split, threads=threads))
            assert plan.facts["past_caches"] == (k * row.parts <= PAST_STEPS)
            plan.run(stored(a, layout[0]), stored(b, layout[1]), out)
            assert np.array_equal(out, a @ b), (problem, mr, nr, gap, begin)
            out[...] = 77
            assert np.all(memory == 77), (problem, mr, nr, gap, begin)


@pytest.mark.parametrize("tier", TIERS)
def test_what_is_not_plain(tier: str) -> None:
    """Factors, an output that is added to, and one by columns go through it, in blocks of rows."""
    kernels.load(tier)
    for m, n, k in [(301, 199, 2), (100, 700, 3)]:
        a, b = integers((m, k), np.dtype("f4")), integers((k, n), np.dtype("f4"))
        for layout in ("nn", "nt"):
            problem = Problem("f32", m, n, k, layout=layout)
            mr, nr = registry.tiles(registry.dtype("f32"), registry.isa(tier))[0]
            plan = Plan(problem, Config("small", tier, mr, nr, pack="none" if layout[1] == "n" else "b"))
            assert plan.facts["past_caches"]
            out = np.empty((n, m), "f4").T
            plan.run(a, stored(b, layout[1]), out)
            assert np.array_equal(out, a @ b)


@pytest.mark.parametrize("tier", TIERS)
def test_which_are(tier: str) -> None:
    """Few steps and several panels of columns, of items that are not small, into more than the share of L3."""
    isa = registry.isa(tier)
    kernels.load(tier)
    wide = 4 * max(nr for _, nr in registry.tiles(registry.dtype("f32"), isa))
    rows = PAST // (4 * wide)
    for shape, past in [
        ((rows, wide, 2), False),
        ((rows + 1, wide, 2), True),
        ((rows + 1, wide, PAST_STEPS), True),
        ((rows + 1, wide, PAST_STEPS + 1), False),
        ((10 * rows, wide // 4, 2), False),
        ((rows // 2, wide, 2, 3), True),
        ((rows // 9, wide, 2, 30), False),
    ]:
        problem = Problem("f32", *shape)
        config = rules.config(problem, isa)
        assert written_past(problem, isa) == past, (shape, tier)
        assert not past or (config.family == "small" and Plan(problem, config).facts["past_caches"])
    assert not written_past(Problem("f32", 400, wide, 2, epilogue="relu"), isa)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", ["f32", "f64", "c64", "c128", "i32", "i16"])
def test_copied_in_pieces(name: str, tier: str) -> None:
    """A B by columns that is larger than what is copied at a time; threads that take columns copy their own."""
    kind, isa, row = dtype_of(registry.dtype(name).numpy), registry.isa(tier), registry.dtype(name)
    if not registry.computes("small", row):
        pytest.skip("no kernels")
    kernels.load(tier)
    for (m, n, k, batch), threads in itertools.product([(5, 3001, 7, 1), (3, 997, 40, 3), (9, 1024, 48, 1)], [1, 2]):
        problem = Problem(name, m, n, k, batch, "nt", threads)
        shape = (batch,) if batch > 1 else ()
        a, b = integers((*shape, m, k), kind), stored(integers((*shape, k, n), kind), "t")
        for mr, nr in registry.tiles(row, isa):
            config = Config("small", tier, mr, nr, pack="b", split="n", threads=threads)
            if row.converts:
                assert "converted" in (config.misfit(problem) or "")
                continue
            assert config.misfit(problem) is None
            assert np.array_equal(Plan(problem, config).run(a, b), a @ b), (problem, config)
            # A panel is copied at once.
            most = MAX_TURNED // (nr * row.itemsize)
            for steps, fits in [(most, True), (most + 1, False)]:
                misfit = config.misfit(Problem(name, m, 3 * nr, steps, 1, "nt", threads))
                assert (misfit is None) == fits or steps > MAX_SMALL_K, (steps, misfit)
