"""Which configuration a call takes, pinned: the rungs forced, exact, near, heuristic, and what overrides what.

Shipped records are left out here, because they differ from one CPU to the next.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import Child, Pretend
from oracle import integers

import fastgemm
from fastgemm import cpu, database, dispatch, kernels, registry
from fastgemm.cpu import _caches
from fastgemm.heuristic import family_strips, packed_b, packing, rules, strides
from fastgemm.problem import LAYOUTS, MAX_BYTES_K, PACKED, Config, Problem, Record

TIERS = [tier.name for tier in kernels.runnable()]
needs_kernels = pytest.mark.skipif(not TIERS, reason="no kernels run on this CPU")

# Register tile of 64 x 64 x 600 on one thread; it follows from the tile's cost, not from cache sizes.
PINNED = {
    "v2": {"f32": (4, 12), "f64": (4, 6), "c64": (2, 6), "c128": (3, 2), "i32": (6, 8), "i64": (3, 4), "i8": (6, 16)},
    "v3": {"f32": (6, 16), "f64": (4, 12), "c64": (2, 12), "c128": (3, 4), "i32": (6, 16), "f16": (4, 24)},
    "v4": {"f32": (6, 64), "f64": (6, 32), "c64": (3, 32), "c128": (4, 12), "i32": (6, 64), "f16": (6, 64)},
}
# In a child: no shipped records, and a report of the route as one line of JSON.
PRELUDE = """
import json, numpy as np, fastgemm, fastgemm.database
fastgemm.database.bundled_path = lambda: None
def report(m, n, k, dtype="float32", **more):
    e = fastgemm.explain(m=m, n=n, k=k, dtype=dtype, num_threads=1, **more)
    c = e.config
    print(json.dumps([e.rung, c.family, c.isa, [c.mr, c.nr], c.pack, c.mc]))
"""


def routes(child: Child, code: str, **variables: str | None) -> list[list[object]]:
    """Run code after the prelude and return its reports."""
    return [json.loads(line) for line in child(PRELUDE + code, **variables).stdout.splitlines()]


# Family and split on AVX-512: each line is a rule that a benchmark found (the modules of the rules have the figures).
RULES = [
    (Problem("f32", 8, 300, 300), "small", "n"),
    (Problem("f32", 8, 800, 800, threads=2), "small", "n"),  # shares of rows would read B twice
    (Problem("f32", 12, 300, 300), "small", "n"),
    (Problem("f32", 2, 56, 265, batch=5), "small", "n"),  # a panel of rows, however many steps
    (Problem("f32", 8, 16, 512, batch=100, threads=2), "small", "batch"),
    (Problem("f32", 8, 16, 513, batch=100), "gemm", "n"),
    (Problem("f32", 8, 16, 512, batch=1000), "gemm", "n"),  # from memory
    (Problem("f16", 16, 512, 512), "small", "n"),  # converted where it is used
    (Problem("f32", 200, 300, 300), "gemm", "n"),
    (Problem("f32", 300, 300, 100), "small", "n"),  # few steps of k, C in a cache
    (Problem("f32", 300, 256, 100, batch=4, threads=2), "small", "batch"),
    (Problem("f32", 300, 1024, 100), "gemm", "n"),  # rows whole pages apart
    (Problem("f32", 10_000, 600, 32), "gemm", "n"),  # C in memory
    (Problem("f32", 200, 16, 100), "gemm", "n"),
    (Problem("f32", 200, 100, 32, layout="nt"), "small", "n"),
    (Problem("f32", 622, 49, 163, layout="tt", threads=2), "gemm", "m"),  # threads meet in one line, not in every row's
    (Problem("f32", 2, 512, 512, threads=2), "gemv", "n"),  # strips
    (Problem("f32", 2, 256, 20_000, threads=2), "gemv", "k"),
    (Problem("f32", 1, 64, 1000), "small", "n"),  # a row of C in registers
    (Problem("f32", 1, 128, 1000), "gemv", "n"),
    (Problem("f32", 1, 3072, 128, threads=2), "gemv", "n"),  # short columns: adding up costs more than ends of rows
    (Problem("f64", 1, 2048, 512, threads=2), "gemv", "k"),  # whole rows for a thread, as whoever made B had
    (Problem("f32", 512, 10, 512, layout="nt"), "dots", "n"),  # two tiles of six columns, not a vector of 16
    (Problem("f32", 512, 15, 512, layout="nt"), "gemm", "n"),
    (Problem("f32", 20, 20, 100, layout="nt"), "dots", "n"),
    (Problem("f32", 10, 10, 32, layout="nt"), "small", "n"),
    (Problem("f32", 1, 1000, 30, layout="nt"), "dots", "n"),
    (Problem("f32", 1, 1000, 1000, layout="nt"), "gemv", "n"),
    (Problem("i32", 1, 300, 300, layout="nt"), "dots", "n"),
]


@pytest.fixture
def usual_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the rules see 48 KiB, 1 MiB and 32 MiB, whatever this CPU has."""
    monkeypatch.setattr(cpu, "caches", lambda: cpu.Caches(48 << 10, 1 << 20, 32 << 20))
    monkeypatch.setattr(cpu, "_half_lines", lambda: False)


@pytest.mark.skipif("v4" not in TIERS, reason="no v4 here")
@pytest.mark.usefixtures("usual_caches")
@pytest.mark.parametrize(("problem", "family", "split"), RULES, ids=lambda x: str(x) if isinstance(x, str) else None)
def test_rules(problem: Problem, family: str, split: str) -> None:
    config = rules.config(problem, registry.isa("v4"))
    assert (config.family, config.split) == (family, split)


@pytest.mark.usefixtures("usual_caches")
def test_thin_and_deep_takes_shorter_vectors() -> None:
    """Few rows of half a vector at most, and a long k: kernels of the next tier, if it has those of several sets."""
    v3, v4 = registry.isa("v3"), registry.isa("v4")
    taken = [
        ("f32", 6, 8, 6400, "nn", "v3"), ("f32", 2, 2, 512, "tn", "v3"), ("f32", 6, 8, 6400, "tt", "v3"),
        ("f64", 4, 4, 6400, "nn", "v3"),
        ("f32", 6, 9, 6400, "nn", "v4"), ("f32", 7, 8, 6400, "nn", "v4"), ("f32", 6, 8, 6400, "gn", "v4"),
        ("f32", 6, 8, 511, "tn", "v4"), ("c64", 4, 2, 6400, "nn", "v4"),
    ]  # fmt: skip
    for name, m, n, k, layout, isa in taken:
        problem = Problem(name, m, n, k, layout=layout)
        config = rules.config(problem, v4)
        assert (config.family, config.isa) == ("gemm", isa), problem
        assert rules.config(problem, v3).isa == "v3"


@pytest.mark.usefixtures("usual_caches")
def test_short_vectors_copy_for_a_few_rows() -> None:
    """B's rows whole pages apart, alike in a line, or neither: from how many rows of A on a copy of it pays."""
    v2, v3, v4 = (registry.isa(name) for name in ("v2", "v3", "v4"))
    taken = [
        ("f32", 32, 2048, 256, v3, "b"), ("f64", 32, 512, 600, v3, "b"), ("c64", 16, 1024, 700, v3, "b"),
        ("f32", 31, 2048, 1200, v3, "none"), ("f32", 12, 8192, 1200, v3, "b"), ("i32", 31, 2048, 2048, v3, "none"),
        ("i32", 32, 2048, 2048, v3, "b"), ("f32", 128, 2048, 512, v2, "b"), ("f32", 127, 2048, 600, v2, "none"),
        ("f32", 64, 2048, 256, v4, "none"), ("f32", 33, 3001, 3001, v3, "b"), ("f32", 31, 3001, 3001, v3, "none"),
        ("f32", 64, 301, 700, v3, "b"), ("f32", 63, 301, 700, v3, "none"), ("f32", 128, 100, 600, v3, "b"),
        ("f32", 127, 100, 600, v3, "none"), ("f32", 400, 32, 600, v3, "none"), ("f32", 160, 1000, 1000, v3, "b"),
        ("f32", 128, 30, 600, v3, "b"), ("f32", 127, 30, 600, v3, "none"), ("f32", 128, 20, 65, v3, "b"),
        ("f32", 127, 20, 600, v3, "none"), ("f64", 500, 9, 65, v3, "b"), ("f32", 200, 301, 300, v3, "b"),
        ("f32", 159, 1000, 1000, v3, "none"), ("f32", 33, 3001, 3001, v2, "none"), ("f32", 33, 3001, 3001, v4, "none"),
    ]  # fmt: skip
    for name, m, n, k, tier, pack in taken:
        config = rules.config(Problem(name, m, n, k), tier)
        assert (config.family, config.pack) == ("gemm", pack), (name, m, n, k, tier.name, config)
    for m, n, batch, pack in [
        (200, 201, 100, "b"), (199, 201, 100, "none"), (96, 200, 100, "b"), (95, 200, 100, "none"),
        (199, 80, 200, "none"), (96, 200, 1, "none"),
    ]:  # fmt: skip
        assert rules.config(Problem("f32", m, n, 150, batch=batch), v3).pack == pack, (m, n, batch)
    for pages, rows in packing.PAGED_ROWS:
        for m, pack in [(rows, "b"), (rows - 1, "none")]:
            assert rules.config(Problem("f32", m, pages * 1024, 1200), v3).pack == pack, (pages, m)
    # Of B what nine sixteenths of L2 hold, also for more rows whose A passes over it; deeper where it has few columns.
    for name, m, n, kc, nc in [("f32", 64, 4096, 1024, 144), ("f64", 64, 4096, 1024, 72), ("c64", 64, 4096, 1024, 72),
                               ("f32", 256, 4096, 1024, 144), ("f32", 100, 64, 2048, 72)]:  # fmt: skip
        config = rules.config(Problem(name, m, n, 4096), v3)
        assert (config.kc, config.nc) == (kc, nc), (name, m, n, config)


def test_the_rules_know_which_rows_the_driver_aligns() -> None:
    """What `lead_of` asks of a B that is read in place, in the rule that weighs that against a copy."""
    text = (Path(registry.__file__).parent / "driver" / "structs.pxd").read_text(encoding="utf-8")
    lead = {name: int(value) for name, value in re.findall(r"^    LEAD_(\w+) = (\d+)$", text, re.MULTILINE)}
    assert lead["BYTES"] == strides.EVEN_BYTES
    assert lead["BYTES"] * lead["VECTORS"] == strides.EVEN_LONG
    assert (lead["STEPS"], lead["PAGED"]) == (strides.EVEN_STEPS, strides.EVEN_PAGED)


@pytest.mark.usefixtures("usual_caches")
def test_few_rows_with_few_registers() -> None:
    """More steps of k for the small family, strips for fewer rows, and whole lines of B in place."""
    taken = [
        ("f32", 64, 300, 300, "v3", "small"), ("f32", 64, 300, 300, "v4", "gemm"), ("f32", 300, 300, 300, "v3", "gemm"),
        ("f32", 3, 512, 256, "v3", "small"), ("f32", 3, 512, 256, "v4", "gemv"), ("f32", 3, 512, 512, "v3", "gemv"),
        ("f32", 6, 2048, 2000, "v3", "gemm"), ("f32", 6, 4096, 4096, "v3", "gemv"),
        ("f32", 6, 4096, 4096, "v4", "gemv"),
    ]  # fmt: skip
    for name, m, n, k, tier, family in taken:
        assert rules.config(Problem(name, m, n, k), registry.isa(tier)).family == family, (name, m, n, k, tier)
    for m, n, k, wide in [(16, 2560, 2560, 16), (70, 64, 600, 16), (4, 300, 300, 24)]:
        assert rules.config(Problem("f32", m, n, k), registry.isa("v3")).nr == wide, (m, n, k)
    # A B from memory: strips, or, if its lines share no sets, tiles for the rows of one; more if its rows are short.
    for name, m, n, k, family in [("f64", 2, 7860, 2560, "gemv"), ("f64", 6, 10752, 3584, "gemv"),
                                  ("f32", 4, 7861, 2560, "gemv"), ("f32", 5, 7861, 2560, "gemm"),
                                  ("f32", 8, 20000, 1000, "gemv"), ("f32", 8, 2000, 1000, "small"),
                                  ("f32", 2, 1100, 20000, "gemv"), ("f32", 4, 1100, 20000, "gemm"),
                                  ("f32", 4, 3000, 2000, "gemm"), ("f32", 4, 3072, 2000, "gemv")]:  # fmt: skip
        assert rules.config(Problem(name, m, n, k), registry.isa("v3")).family == family, (name, m, n, k)
    for m, family in [(4096, "gemm"), (500, "dots")]:
        problem = Problem("f32", m, 12, 4096, layout="nt")
        assert rules.config(problem, registry.isa("v3")).family == family, problem
    # Outputs of one vector have a tall tile, but for rows of A whole pages apart; few steps leave the choice to all.
    for k, high in ((1000, 12), (1024, 6)):
        assert rules.config(Problem("f32", 1000, 8, k), registry.isa("v3")).mr == high
    for shape, tile in (((14, 32, 16, 1000), (8, 48)), ((800, 16, 32), (14, 32))):
        found = rules.config(Problem("f32", *shape), registry.isa("v4"))
        assert (found.family, found.mr, found.nr) == ("small", *tile), found
    # Whole lines of B, or few steps under a mask, stay in place; columns of A that share sets of L1 are copied or cut.
    for shape, layout, family, pack in [
        ((256, 256, 256), "nn", "small", "none"), ((128, 20, 64), "nn", "small", "none"),
        ((127, 255, 255), "nn", "small", "none"), ((400, 400, 100), "tn", "small", "none"),
        ((256, 256, 100), "tn", "gemm", "b"), ((256, 255, 100), "tn", "small", "none"),
        ((768, 768, 64), "tn", "gemm", "ab"), ((768, 768, 32), "tn", "small", "none"),
        ((64, 500, 16), "nt", "small", "b"), ((4, 1500, 48), "tt", "small", "b"), ((4, 1500, 49), "tt", "gemm", "b"),
        ((64, 1023, 45), "nn", "gemm", "b"), ((64, 1019, 45), "nn", "small", "none"),
        ((15, 1023, 45), "nn", "small", "none"), ((16, 1025, 900), "nn", "gemm", "b"),
        ((512, 512, 64), "nt", "gemm", "b"), ((130, 1000, 96), "nt", "gemm", "b"),
        ((64, 1023, 8), "nn", "small", "none"), ((95, 1000, 126), "tn", "small", "none"),
        ((31, 61, 230), "tn", "small", "none"),
        ((25, 300, 2), "nt", "small", "b"), ((24, 300, 2), "nt", "dots", "none"), ((4, 300, 8), "nt", "small", "b"),
        ((4, 300, 13), "nt", "dots", "none"), ((2, 300, 8), "nt", "dots", "none"),
        ((3000, 2000, 16), "nt", "gemm", "b"), ((3000, 2000, 10), "nt", "small", "b"),
        ((3000, 2000, 10), "nn", "small", "none"),
        ((3000, 2000, 11), "nn", "gemm", "b"),
    ]:  # fmt: skip
        found = rules.config(Problem("f32", *shape, layout=layout), registry.isa("v3"))
        assert (found.family, found.pack) == (family, pack), (shape, layout, found)
    # Longer vectors have none of these rules.
    for shape, layout in [((64, 1023, 45), "nn"), ((50, 345, 200), "tn"), ((1000, 12, 100), "nn")]:
        found = rules.config(Problem("f32", *shape, layout=layout), registry.isa("v4"))
        assert found.pack == "none", (shape, layout, found)
    for shape, layout, family in [
        ((512, 512, 64), "nt", "gemm"), ((4, 1500, 48), "tt", "small"), ((89, 2006, 2), "nt", "dots"),
        ((3000, 2000, 10), "nn", "gemm"), ((6000, 3000, 10), "nn", "small"),
    ]:  # fmt: skip
        assert rules.config(Problem("f32", *shape, layout=layout), registry.isa("v4")).family == family, shape
    # Rows that share vectors, at any length; so few that accumulators come in sets; columns of A from memory are few.
    for shape, layout, family in [
        ((28, 4, 1116), "nn", "small"), ((8, 8, 5000), "nn", "small"), ((7, 4, 1116), "nn", "gemm"),
        ((6, 4, 512), "nn", "gemm"), ((6, 4, 511), "nn", "small"), ((80, 4, 1961), "tn", "small"),
        ((15, 4, 1961), "tn", "gemm"), ((5000, 8, 2000), "tn", "gemm"), ((5000, 4, 2000), "tn", "small"),
        ((80, 9, 1961), "tn", "gemm"), ((64, 4, 256), "nn", "dots"), ((63, 4, 256), "nn", "small"),
    ]:  # fmt: skip
        found = rules.config(Problem("f32", *shape, layout=layout), registry.isa("v4"))
        assert found.family == family, (shape, layout, found)
    # Stacks of few steps, whatever their width and layout, as long as L3 holds most of them.
    for shape, layout, family in [
        ((407, 13, 3, 361), "tn", "small"), ((100, 9, 16, 50), "tt", "small"), ((100, 9, 17, 50), "tt", "gemm"),
        ((400, 40, 16, 200), "nn", "small"), ((400, 90, 16, 200), "nn", "gemm"), ((100, 9, 32, 50), "nn", "small"),
        ((100, 9, 33, 50), "nn", "gemm"), ((100, 1024, 8, 10), "nn", "gemm"),
    ]:  # fmt: skip
        found = rules.config(Problem("f32", *shape, layout=layout), registry.isa("v4"))
        assert found.family == family, (shape, layout, found)
    # Few columns are the transposed output's rows; one row of each product of a stack.
    for shape, tiers in [
        ((1000, 4, 256), "v3 v4"), ((1000, 4, 127), "v3"), ((1000, 2, 64), "v3 v4"), ((1000, 2, 63), ""),
        ((100_000, 3, 256), "v3 v4"), ((100_000, 3, 255), "v3"), ((100_000, 2, 64), "v3 v4"),
    ]:  # fmt: skip
        for tier in ("v3", "v4"):
            found = rules.config(Problem("f32", *shape), registry.isa(tier))
            assert (found.family == "dots") == (tier in tiers), (shape, found)
    for n, batch, family in [(64, 10, "gemv"), (64, 10_000, "gemv"), (24, 100, "small"), (24, 50_000, "gemv")]:
        found = rules.config(Problem("f32", 1, n, n, batch), registry.isa("v3"))
        assert found.family == family, (n, batch, found)
    strips = [("f64", 2, 8192, 3584, 8192), ("f32", 2, 8448, 2816, 8192),
              ("f32", 2, 7168, 3584, 7168), ("f32", 2, 2048, 1024, 1152)]
    for name, m, n, k, columns in strips:
        found = rules.config(Problem(name, m, n, k), registry.isa("v3"))
        assert (found.family, min(found.nc, n)) == ("gemv", columns), (name, m, n, k, found)
    # Halves are converted where they are used for so many rows.
    for name, m, tier, family in [("f16", 12, "v3", "small"), ("f16", 33, "v3", "gemm"), ("bf16", 32, "v3", "small"),
                                  ("f16", 16, "v4", "small"), ("f16", 64, "v4", "gemm"), ("bf16", 33, "v3", "gemm")]:
        assert rules.config(Problem(name, m, 512, 512), registry.isa(tier)).family == family, (name, m, tier)


@pytest.mark.usefixtures("usual_caches")
@pytest.mark.parametrize(
    ("name", "taken", "left"),
    [
        (
            "bf16",
            [(1, 64, 64), (1, 3000, 1000), (2, 64, 64), (2, 24, 256), (2, 128, 32), (4, 200, 32), (5, 128, 128),
             (6, 256, 64)],
            [(1, 63, 64), (1, 64, 63), (1, 2048, 512), (1, 5000, 8000), (2, 24, 255), (4, 24, 512), (4, 199, 32),
             (6, 128, 64), (6, 127, 512), (8, 128, 512), (9, 512, 512)],
        ),
        (
            "i8_i32",
            [(1, 2048, 512), (1, 5000, 8000), (2, 80, 64), (4, 64, 64), (4, 96, 64), (6, 128, 256), (8, 256, 256)],
            [(2, 24, 512), (3, 80, 512), (6, 128, 255), (8, 128, 512), (8, 256, 255)],
        ),
    ],
)  # fmt: skip
def test_few_rows_by_a_matrix_in_place(name: str, taken: list[tuple[int, ...]], left: list[tuple[int, ...]]) -> None:
    """Which rows, columns and steps dot products read B as it lies for."""
    family, tier = {"bf16": "bf16", "i8_i32": "vnni"}[name], registry.isa("v4")
    for shape in taken + left:
        found = family_strips.config(Problem(name, *shape), tier, family)
        assert (found is not None) == (shape in taken), shape
        assert found is None or (found.family, found.pack) == (family, "none")


@pytest.mark.usefixtures("usual_caches")
def test_columns_of_the_left_operand_stay_in_cache_with_few_registers() -> None:
    """Beside an A given transposed that is not copied: B is, from L3 for many rows, in steps whose lines L1 holds."""
    l1 = cpu.caches().l1d
    taken = [
        ("f32", 300, 128, 1000, "gemm", "b"), ("f64", 96, 300, 600, "gemm", "b"), ("f32", 250, 250, 250, "gemm", "b"),
        ("f32", 80, 300, 600, "gemm", "none"), ("f32", 200, 64, 20_000, "gemm", "none"),
        ("f32", 80, 90, 250, "small", "none"), ("f32", 250, 250, 128, "small", "none"),
        ("f32", 95, 300, 600, "gemm", "b"), ("f32", 31, 300, 600, "small", "none"), ("f32", 95, 90, 250, "gemm", "b"),
        ("f32", 1000, 300, 100, "small", "none"), ("f32", 1500, 1500, 100, "gemm", "ab"),
    ]  # fmt: skip
    for name, m, n, k, family, pack in taken:
        found = rules.config(Problem(name, m, n, k, layout="tn"), registry.isa("v3"))
        assert (found.family, found.pack) == (family, pack), (name, m, n, k, found)
        if pack == "b":
            panel = found.nr * registry.dtype(name).itemsize
            assert found.kc * (64 + panel) <= l1
    assert rules.config(Problem("f32", 900, 900, 900, layout="tn"), registry.isa("v4")).kc > 250


@pytest.mark.usefixtures("usual_caches")
def test_columns_of_the_left_operand_are_copied_with_few_registers() -> None:
    """An A given transposed whose rows of A.T are long, where its copy serves enough of B."""
    taken = [
        ("f64", 1000, 1000, 1000, "tn", "v3", "ab"), ("f32", 1000, 1000, 1000, "tt", "v3", "ab"),
        ("f64", 1000, 1000, 1000, "nn", "v3", "b"), ("f64", 1000, 1000, 1000, "tn", "v4", "b"),
        ("f32", 1000, 1000, 1000, "tn", "v2", "b"), ("f64", 1000, 1000, 255, "tn", "v3", "ab"),
            ("f64", 1000, 511, 255, "tn", "v3", "b"),
        ("f64", 1000, 95, 1000, "tn", "v3", "b"), ("f32", 191, 4000, 1000, "tn", "v3", "none"),
        ("f32", 300, 400, 1000, "tn", "v3", "b"), ("c64", 400, 1000, 1000, "tn", "v3", "b"),
        ("c128", 256, 512, 3136, "tn", "v3", "ab"), ("i32", 1000, 1000, 1000, "tn", "v3", "ab"),
    ]  # fmt: skip
    for name, m, n, k, layout, tier, pack in taken:
        config = rules.config(Problem(name, m, n, k, layout=layout), registry.isa(tier))
        assert (config.family, config.pack) == ("gemm", pack), (name, m, n, k, layout, tier, config)


@pytest.mark.usefixtures("usual_caches")
def test_a_near_left_operand_passes_over_little_of_the_right_one() -> None:
    """A that L3 holds: a quarter of L2 of B at a time; of another A, or a B that L2 holds, four times L2."""
    v4 = registry.isa("v4")
    taken = [
        ("f32", 1024, 1024, 1024, "nn", 64), ("f64", 700, 700, 700, "nn", 32), ("f32", 1000, 3000, 300, "nn", 192),
        ("f32", 512, 512, 512, "nn", 2048), ("f64", 1024, 1024, 1024, "nn", 512), ("f32", 1024, 1024, 1024, "tn", 2048),
        ("f32", 1000, 1024, 1024, "tn", 128), ("f64", 700, 1000, 700, "tn", 128),
    ]  # fmt: skip
    for name, m, n, k, layout, columns in taken:
        config = rules.config(Problem(name, m, n, k, layout=layout), v4)
        assert (config.pack, config.nc) == ("b", columns), (name, m, n, k, layout, config)


@pytest.mark.usefixtures("usual_caches")
def test_columns_of_the_left_operand_take_many_steps_with_many_registers() -> None:
    """4 KiB of them, for real numbers whose columns do not share sets of the caches."""
    v4 = registry.isa("v4")
    taken = [
        ("f32", 1000, 1000, "tn", 1000), ("f32", 1000, 3000, "tt", 1000), ("f32", 1024, 1024, "tn", 512),
        ("f32", 1536, 1024, "tn", 512), ("f64", 1000, 1000, "tn", 500), ("f64", 1024, 1024, "tn", 512),
        ("c64", 1000, 1000, "tn", 250), ("f32", 1000, 3000, "nn", 1500),
    ]  # fmt: skip
    for name, m, k, layout, steps in taken:
        config = rules.config(Problem(name, m, 1000, k, layout=layout), v4)
        assert (config.pack, config.kc) == ("b", steps), (name, m, k, layout, config)


@pytest.mark.parametrize("isa", PINNED)
def test_heuristic(child: Child, isa: str) -> None:
    if isa not in TIERS:
        pytest.skip(f"no {isa} here")
    rows = [registry.dtype(name) for name in PINNED[isa]]
    # Beside a small L1 B would be copied.
    code = "from fastgemm import cpu\ncpu.caches = lambda: cpu.Caches(48 << 10, 1 << 20, 32 << 20)\n"
    code += "cpu._half_lines = lambda: False\n"
    code += "".join(f"report(64, 64, 600, {row.numpy!r})\n" for row in rows)
    code += "report(1, 300, 200)\nreport(300, 1, 200)\nreport(1, 300, 200, layout='ng')\n"
    found = routes(child, code, FASTGEMM_ISA=isa)
    for row, got in zip(rows, found, strict=False):
        assert got[:4] == ["heuristic", "gemm", isa, list(PINNED[isa][row.name])]
    assert [got[:3] for got in found[-3:]] == [["heuristic", family, isa] for family in ("gemv", "gemv", "gemm")]


@needs_kernels
@pytest.mark.parametrize("dt", registry.DTYPES, ids=lambda row: row.name)
def test_heuristic_always_fits(dt: registry.DType) -> None:
    """Whatever the problem, the rules give a configuration that can run it."""
    sizes = (1, 2, 7, 64, 500, 5000, 1 << 20)
    for isa in kernels.runnable():
        if not registry.supported(dt, isa):
            assert rules.config(Problem(dt.name, 9, 9, 9), isa).family == "numpy"
            continue
        for m, n, k in [(m, n, k) for m in sizes for n in sizes for k in (1, 64, 4096, 1 << 20)]:
            for layout, batch, threads in [("nn", 1, 1), ("gg", 1, 8), ("tt", 10, 2), ("nt", 1, 64), ("gn", 3, 1024)]:
                problem = Problem(dt.name, m, n, k, batch, layout, threads)
                config = rules.config(problem, isa)
                assert config.misfit(problem) is None
                assert registry.isa(config.isa).level <= isa.level


@needs_kernels
@pytest.mark.parametrize("l2", [128, _caches.L2_MOST >> 10])
@pytest.mark.parametrize("dt", registry.DTYPES, ids=lambda row: row.name)
def test_heuristic_fits_with_any_l2(dt: registry.DType, l2: int, pretend: Pretend) -> None:
    """The largest blocks are no larger than a workspace."""
    pretend(48, l2, 64 << 10)
    sizes = (64, 300, 4096, 100_000)
    for isa, (m, n, k) in itertools.product(kernels.runnable(), itertools.product(sizes, repeat=3)):
        for layout in LAYOUTS if registry.supported(dt, isa) else ():
            if PACKED in layout and (not registry.is_packed(dt) or (dt.group > 1 and k > MAX_BYTES_K)):
                continue
            problem = Problem(dt.name, m, n, k, layout=layout)
            wide = [nv for _, nv in registry.registers(dt, isa)] if PACKED in layout else []
            made = [packed_b.config(problem, isa, nv) for nv in wide] or [rules.config(problem, isa)]
            assert [config.misfit(problem) for config in made] == [None] * len(made), (problem, made)


def test_default_tier_is_the_best(child: Child) -> None:
    code = "print(json.dumps([fastgemm.show_config(mode='dict')['isa']]))"
    assert routes(child, code, FASTGEMM_ISA=None) == [[TIERS[-1] if TIERS else None]]
    assert routes(child, code, FASTGEMM_ISA="") == [[TIERS[-1] if TIERS else None]]


CALLS = ("fastgemm.matmul(a, a)", "fastgemm.matmul(a[None], a)", "fastgemm.gemm(a, a)", "fastgemm.explain(a, a)")


@pytest.mark.parametrize("call", CALLS)
def test_forced_tier_that_is_missing_raises(child: Child, call: str) -> None:
    """Loudly, from every way in: a benchmark on the wrong tier would be worse than none."""
    code = (
        "import numpy as np\n"
        "try:\n"
        f"    import fastgemm; a = np.ones((9, 9)); {call}\n"
        "except RuntimeError as exc:\n"
        "    assert 'FASTGEMM_ISA' in str(exc) and 'v9' in str(exc)\n"
        "    print('told')\n"
    )
    assert child(code, FASTGEMM_ISA="v9").stdout.strip() == "told"


def test_forced_tier_that_the_cpu_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "runnable", lambda: registry.ISAS[:1])
    monkeypatch.setenv("FASTGEMM_ISA", "v4")
    with pytest.raises(RuntimeError, match=r"FASTGEMM_ISA='v4' .*v2"):
        kernels.active_isa()
    monkeypatch.setenv("FASTGEMM_ISA", "v2")
    assert kernels.active_isa() == registry.ISAS[0]


# ---- the database ---------------------------------------------------------------------------------------------------

TUNED = Problem("f32", 37, 41, 43)
SAME, CLOSE, FAR = "report(37, 41, 43)", "report(40, 41, 40)", "report(37, 41, 80)"
PRODUCT = """
a, b = np.full((37, 43), 2, "f4"), np.ones((43, 41), "f4")
print(json.dumps([bool((fastgemm.matmul(a, b) == 86).all())]))
"""


def record(isa: str, problem: Problem = TUNED, **changes: object) -> Record:
    """A record with blocks that no rule would choose."""
    mr, nr = registry.tiles(problem.row, registry.isa(isa))[-1]
    config = Config("gemm", isa, mr, nr, mc=777, kc=11, nc=99, pack="ab")
    made = Record(problem, config, 1e-6, 2e-6, 10, "random", "2026-01-01", kernels.kernel_hash())
    return replace(made, **changes)


def route_of(made: Record, rung: str) -> list[object]:
    """What the report of a record's route looks like."""
    c = made.config
    return [rung, c.family, c.isa, [c.mr, c.nr], c.pack, c.mc]


@needs_kernels
def test_next_process_uses_the_record(child: Child, database_path: Path) -> None:
    made = record(TIERS[-1])
    database.write(database_path, [made])
    isa = {"FASTGEMM_ISA": TIERS[-1]}
    others = "report(37, 41, 43, 'float64')\nreport(37, 41, 43, layout='nt')"
    found = routes(child, f"{SAME}\n{CLOSE}\n{FAR}\n{others}", **isa)
    assert found[:2] == [route_of(made, "exact"), route_of(made, "near")]
    assert [got[0] for got in found[2:]] == ["heuristic"] * 3
    assert routes(child, PRODUCT, FASTGEMM_NUM_THREADS="1", **isa) == [[True]]


@needs_kernels
def test_folder_of_databases(child: Child, database_path: Path) -> None:
    database_path.mkdir()
    made = record(TIERS[-1])
    database.write(database_path / "one.json", [made])
    assert routes(child, SAME, FASTGEMM_ISA=TIERS[-1]) == [route_of(made, "exact")]


@needs_kernels
@pytest.mark.parametrize("stale", ["kernels", "cpu", "isa"])
def test_record_that_does_not_apply(child: Child, database_path: Path, stale: str) -> None:
    """Of other kernels, of another CPU, of another tier than the one in use: skipped in silence."""
    isa = TIERS[-1]
    if stale == "kernels":
        database.write(database_path, [record(isa)], kernels="of an older build")
    elif stale == "cpu":
        database.write(database_path, [record(isa)], cpu="v9 another")
    elif len(TIERS) == 1:
        pytest.skip("one tier only")
    else:
        database.write(database_path, [record(TIERS[0])])
    done = child(PRELUDE + SAME, FASTGEMM_ISA=isa)
    assert json.loads(done.stdout)[:3] == ["heuristic", "small", isa]
    assert done.stderr == ""


@needs_kernels
def test_record_of_numpys(child: Child, database_path: Path) -> None:
    """A record may say that NumPy is the fastest."""
    database.write(database_path, [record(TIERS[-1], config=Config(family="numpy"))])
    found = routes(child, f"{SAME}\n{PRODUCT}", FASTGEMM_NUM_THREADS="1")
    assert found[0][:2] == ["exact", "numpy"]
    assert found[1] == [True]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 1, "groups": [{"cpu": 3}]}', "\0" * 100])
def test_damaged_database(child: Child, database_path: Path, text: str) -> None:
    """The call is right and says once what is wrong; also where warnings are errors, it does not crash."""
    database_path.write_text(text)
    call = "a = np.full((9, 9), 2.0)\nfor _ in range(3):\n    assert (fastgemm.matmul(a, a) == 36).all()\n"
    done = child(PRELUDE + "import warnings; warnings.simplefilter('always')\n" + call)
    assert done.stderr.count("DatabaseWarning") == 1
    assert str(database_path) in done.stderr
    strict = "import warnings; warnings.simplefilter('error')\ntry:\n    " + call.replace("\n", "\n    ")
    child(PRELUDE + strict + "\nexcept fastgemm.database.DatabaseWarning:\n    pass")


@pytest.fixture
def own_database(database_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A database in force within this process, for one test."""
    monkeypatch.setattr(database, "bundled_path", lambda: None)
    dispatch.reload()
    yield database_path
    monkeypatch.undo()
    dispatch.reload()


@needs_kernels
def test_reload(own_database: Path) -> None:
    """A process that goes on sees new records after `reload`."""
    tier = kernels.active_isa()
    assert tier is not None
    made = record(tier.name)
    problem = made.problem
    a, b = integers((37, 43), "f4", 1), integers((43, 41), "f4", 2)
    assert dispatch.resolve(problem).rung == "heuristic"
    np.testing.assert_array_equal(fastgemm.matmul(a, b), a @ b)
    database.write(own_database, [made])
    assert dispatch.resolve(problem).rung == "heuristic"
    dispatch.reload()
    decision = dispatch.resolve(problem)
    assert (decision.rung, decision.config, decision.record) == ("exact", made.config, made)
    np.testing.assert_array_equal(fastgemm.matmul(a, b), a @ b)
    text = repr(fastgemm.explain(a, b, num_threads=1))
    assert "exact" in text
    assert "GFLOP/s" in text


# ---- forced configurations, the log ---------------------------------------------------------------------------------


@needs_kernels
def test_forced_configuration(own_database: Path) -> None:
    """It wins over a record; where it does not fit, the next rung answers and says so."""
    tier = kernels.active_isa()
    assert tier is not None
    database.write(own_database, [record(tier.name)])
    dispatch.reload()
    mr, nr = registry.tiles(registry.dtype("f32"), tier)[0]
    config = Config("gemm", tier.name, mr, nr, pack="b")
    a, b = integers((37, 43), "f4", 1), integers((43, 41), "f4", 2)
    with dispatch.forced(config):
        found = fastgemm.explain(a, b, num_threads=1)
        assert (found.rung, found.config) == ("forced", config)
        np.testing.assert_array_equal(fastgemm.matmul(a, b), a @ b)
        other = fastgemm.explain(a.astype("c16"), b.astype("c16"), num_threads=1)
        assert other.rung == "heuristic"
        assert "does not fit" in other.why
        np.testing.assert_array_equal(fastgemm.matmul(a.astype("c16"), b.astype("c16")), a @ b)
        with dispatch.forced(Config(family="numpy")):
            assert fastgemm.explain(a, b).config.family == "numpy"
            np.testing.assert_array_equal(fastgemm.matmul(a, b), a @ b)
            np.testing.assert_array_equal(fastgemm.gemm(a, b, a @ b, alpha=2, beta=1), 3 * (a @ b))
        assert fastgemm.explain(a, b, num_threads=1).rung == "forced"
    assert fastgemm.explain(a, b, num_threads=1).rung == "exact"


def test_forced_tier_must_be_here() -> None:
    missing = [tier for tier in registry.ISAS if tier.name not in TIERS]
    if not missing:
        pytest.skip("this CPU runs every tier")
    with pytest.raises(RuntimeError, match=missing[0].name), dispatch.forced(Config(isa=missing[0].name, mr=1, nr=1)):
        pass


@needs_kernels
def test_log_of_untuned_problems(child: Child, database_path: Path, tmp_path: Path) -> None:
    """Each problem without a record of its own, whoever calls: at once, and at the end with the calls since then."""
    database.write(database_path, [record(TIERS[-1])])
    log = tmp_path / "seen.jsonl"
    code = (
        "for _ in range(3):\n"
        "    fastgemm.matmul(np.ones((37, 43), 'f4'), np.ones((43, 41), 'f4'))\n"
        "    fastgemm.matmul(np.ones((3, 5)), np.ones((5, 7)))\n"
        "    fastgemm.gemm(np.ones((4, 5), 'c8'), np.ones((5, 7), 'c8'))\n"
    )
    child(PRELUDE + code, FASTGEMM_LOG_UNTUNED=str(log), FASTGEMM_NUM_THREADS="1", FASTGEMM_ISA=TIERS[-1])
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    calls = [(line.pop("calls"), Problem(**line)) for line in lines]
    first, second = Problem("f64", 3, 7, 5), Problem("c64", 4, 7, 5)
    assert calls[:2] == [(1, first), (1, second)]
    assert sorted(calls[2:], key=str) == sorted([(2, first), (2, second)], key=str)


@needs_kernels
@pytest.mark.parametrize("name", ["seen.jsonl", "~/seen.jsonl"])
def test_a_log_stays_where_it_was_begun(child: Child, database_path: Path, tmp_path: Path, name: str) -> None:
    """Whatever folder the program goes to afterwards."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    code = (
        f"import os; os.chdir({str(first)!r}); fastgemm.matmul(np.ones((3, 5)), np.ones((5, 7)))\n"
        f"os.chdir({str(second)!r}); fastgemm.matmul(np.ones((4, 5)), np.ones((5, 7)))\n"
        "fastgemm.matmul(np.ones((4, 5)), np.ones((5, 7)))\n"
    )
    child(PRELUDE + code, FASTGEMM_LOG_UNTUNED=name, FASTGEMM_NUM_THREADS="1", HOME=str(first))
    lines = (first / "seen.jsonl").read_text().splitlines()
    assert [json.loads(line)["m"] for line in lines] == [3, 4, 4]
    assert not list(second.iterdir())


@needs_kernels
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_logs_its_own_calls(child: Child, database_path: Path, tmp_path: Path) -> None:
    log = tmp_path / "seen.jsonl"
    code = (
        "import os\n"
        "a = np.ones((3, 5))\n"
        "for _ in range(4): fastgemm.matmul(a, a.T)\n"
        "pid = os.fork()\n"
        "for _ in range(10): fastgemm.matmul(a, a.T)\n"
        "if pid: os.waitpid(pid, 0)\n"
    )
    child(PRELUDE + code, FASTGEMM_LOG_UNTUNED=str(log), FASTGEMM_NUM_THREADS="1")
    assert sorted(json.loads(line)["calls"] for line in log.read_text().splitlines()) == [1, 10, 13]


@needs_kernels
@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_processes_of_multiprocessing_log_their_calls(
    child: Child, database_path: Path, tmp_path: Path, method: str
) -> None:
    """They end without what `atexit` has; one that is forked may have seen a shape, or sees it first."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("not here")
    log = tmp_path / "seen.jsonl"
    code = (
        "import multiprocessing\n"
        "a = np.ones((3, 3))\n"
        "fastgemm.matmul(a, a)\n"
        f"with multiprocessing.get_context({method!r}).Pool(1) as pool:\n"
        "    pool.starmap(fastgemm.matmul, 10 * [(a, a)])\n"
        "    pool.starmap(fastgemm.matmul, 5 * [(a[:2], a)])\n"
        "    pool.close()\n"
        "    pool.join()\n"
    )
    child(PRELUDE + code, FASTGEMM_LOG_UNTUNED=str(log), FASTGEMM_NUM_THREADS="1")
    calls: dict[int, int] = {}
    for line in map(json.loads, log.read_text().splitlines()):
        calls[line["m"]] = calls.get(line["m"], 0) + line["calls"]
    assert calls == {3: 11, 2: 5}


@needs_kernels
def test_a_killed_program_leaves_its_shapes(child: Child, database_path: Path, tmp_path: Path) -> None:
    log = tmp_path / "seen.jsonl"
    code = "fastgemm.matmul(np.ones((3, 5)), np.ones((5, 7))); import os; os.kill(os.getpid(), 9)"
    child(PRELUDE + code, status=-9, FASTGEMM_LOG_UNTUNED=str(log), FASTGEMM_NUM_THREADS="1")
    assert [json.loads(line)["calls"] for line in log.read_text().splitlines()] == [1]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX path")
def test_log_that_cannot_be_written(child: Child) -> None:
    code = "assert (fastgemm.matmul(np.ones((3, 5)), np.ones((5, 7))) == 5).all()"
    done = child(PRELUDE + code, FASTGEMM_LOG_UNTUNED="/nowhere/at/all")
    assert "FASTGEMM_LOG_UNTUNED" in done.stderr


@pytest.mark.usefixtures("usual_caches")
@pytest.mark.parametrize("tier", ["v3", "v4"])
def test_cost_of_small_products(tier: str) -> None:
    """A product that the small family reads in place costs about its multiply-adds: chains are cut where costs say."""
    isa = registry.isa(tier)
    for shape in [(128, 96, 128), (128, 64, 128), (96, 96, 64)]:
        problem = Problem("f32", *shape)
        config = rules.config(problem, isa).replace(family="small", pack="none")
        least = problem.flops / 2 / registry.lanes(problem.row, isa) / 2
        cost = rules.cycles(problem, config)
        assert least <= cost <= 1.2 * least, (shape, cost / least)
        stack = replace(problem, batch=10)
        assert rules.cycles(stack, config) == 10 * cost
        halves = config.replace(split="batch", threads=2)
        assert rules.cycles(stack, halves) == 5 * cost
