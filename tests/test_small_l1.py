"""A CPU with vectors of 64 bytes beside an L1 of 32 KiB: what it copies and fetches, and answers."""

from __future__ import annotations

import itertools
import platform
from dataclasses import replace

import numpy as np
import pytest
from conftest import Pretend

import fastgemm
from fastgemm import cpu, dispatch, kernels, registry
from fastgemm.driver import _plan
from fastgemm.heuristic import chain_items, family_dots, family_small, l1, l1_blocks, l1_written, packed_b, rules
from fastgemm.heuristic.blocks import blocks as blocks_of
from fastgemm.heuristic.packing import packing
from fastgemm.problem import MAX_BLOCK, Config, Problem

V3, V4 = registry.isa("v3"), registry.isa("v4")
MIB = 1 << 20
RUNS = platform.machine() == "x86_64" and V4 in kernels.runnable()


def test_which_cpu_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [(32, False, False, True), (32, True, False, False), (48, False, False, False), (48, False, True, True)]
    for l1d, halves, half_lines, small in (*cases, (64, False, True, False)):
        monkeypatch.setattr(cpu, "caches", lambda l1d=l1d: cpu.Caches(l1d << 10, MIB, 33 * MIB))
        monkeypatch.setattr(cpu, "_half_lines", lambda half_lines=half_lines: half_lines)
        monkeypatch.setattr(cpu, "halves", lambda tier, halves=halves: halves)
        assert [cpu.small_l1(tier) for tier in registry.ISAS] == [False, False, small]


@pytest.mark.parametrize(("m", "n", "k", "batch"), [(196, 16, 144, 32), (784, 8, 72, 32), (9800, 16, 144, 1)])
def test_rows_from_beyond_l2(m: int, n: int, k: int, batch: int, pretend: Pretend) -> None:
    """Rows of A are fetched where they come from beyond L2, by other CPUs only from a quarter of L3 on."""
    problem = Problem("f32", m, n, k, batch=batch)
    cases = [(48, 2, 32, True, True), (48, 16, 32, True, False), (32, 2, 48, True, False), (48, 2, 48, False, False)]
    for l1d, l2, l3, half_lines, fetched in [*cases, (48, 2, 8, False, True), (32, 2, 8, True, True)]:
        pretend(l1d, l2 << 10, l3 << 10, half_lines)
        config = Config("gemm", "v4", 14, 32, mc=196, kc=k, nc=32, pack="none")
        assert _plan.Plan(problem, config).facts["far_row"] == (k * 4 if fetched else 0)
        assert _plan.Plan(problem, Config("small", "v4", 14, 32)).facts["far_row"] == (k * 4 if fetched else 0)


COPIED = [
    # Rows of B in L1, dense, whole and half pages apart, from memory; A by columns, of few columns, of few steps.
    ("f32", "nn", 200, 100, 64, "none"),
    ("f32", "nn", 40, 300, 300, "none"),
    ("f32", "nn", 48, 300, 300, "b"),
    ("f32", "nn", 24, 1024, 500, "none"),
    ("f32", "nn", 25, 1024, 500, "b"),
    ("f32", "nn", 24, 512, 512, "none"),
    ("f32", "nn", 25, 512, 512, "b"),
    ("f32", "nn", 8, 2500, 2500, "none"),
    ("f32", "nn", 9, 2500, 2500, "b"),
    ("f32", "nn", 23, 1250, 1250, "none"),
    ("f32", "nn", 24, 1250, 1250, "b"),
    ("f32", "nn", 24, 2048, 512, "none"),
    ("f32", "nn", 25, 2048, 512, "b"),
    ("f32", "nn", 9, 4096, 4096, "b"),
    ("f64", "nn", 9, 2048, 512, "b"),
    ("f32", "nn", 63, 200, 50000, "none"),
    ("f32", "nn", 64, 200, 50000, "b"),
    ("c64", "nn", 24, 300, 300, "b"),
    ("f32", "tn", 1000, 1000, 1000, "ab"),
    ("f32", "tn", 768, 768, 64, "ab"),
    ("f64", "tn", 300, 300, 300, "ab"),
    ("f32", "tn", 768, 768, 48, "b"),
    ("f32", "tn", 64, 576, 999, "ab"),
    ("f32", "tn", 64, 576, 1000, "none"),
    ("f32", "tn", 151, 576, 1000, "ab"),
    ("f32", "tn", 128, 512, 20000, "ab"),
    ("c64", "tn", 64, 576, 1000, "ab"),
    ("f32", "tn", 256, 96, 6000, "ab"),
    ("f32", "tn", 256, 95, 6000, "none"),
    ("f64", "tn", 200, 64, 1000, "ab"),
    ("f64", "tn", 500, 63, 1000, "none"),
    ("f64", "tn", 1500, 2000, 48, "b"),
    ("f32", "tt", 1000, 1000, 1000, "ab"),
]


@pytest.mark.usefixtures("skylake")
@pytest.mark.parametrize(("name", "layout", "m", "n", "k", "pack"), COPIED)
def test_what_is_copied(name: str, layout: str, m: int, n: int, k: int, pack: str) -> None:
    problem = Problem(name, m, n, k, layout=layout)
    for mr, nr in registry.tiles(problem.row, V4):
        assert packing(problem, V4, mr, nr) == pack, (mr, nr)
    assert l1.lines_ahead(V4) == 16
    assert l1.lines_ahead(V3) == 0
    assert l1.side_bytes(V4) > 4 * V4.vector_bytes >= 256
    assert l1.side_bytes(V3) == 128


@pytest.mark.usefixtures("skylake")
def test_the_small_family_leaves_what_is_copied() -> None:
    def small(m: int, n: int, k: int, layout: str = "nn", name: str = "f32") -> bool:
        return family_small.config(Problem(name, m, n, k, layout=layout), V4) is not None

    assert [small(size, size, size) for size in (64, 100, 128)] == [True, True, False]
    assert [small(16, 200, k) for k in (100, 128, 200)] == [True, True, False]
    assert [small(m, 300, 300) for m in (8, 9, 14)] == [True, False, False]
    assert [small(m, 512, k) for m in (6, 7, 8) for k in (384, 385)] == [True, True, True, False, True, False]
    assert [small(m, 256, 256) for m in (8, 9, 14)] == [True, True, True]
    assert small(12, 2000, 48)
    assert [small(12, 1000, 1000, name=name) for name in ("f32", "f64", "f16")] == [False, False, True]
    assert [small(m, 150, 100, "tn") for m in (300, 450)] == [True, False]
    assert [small(m, 1000, 100) for m in (40, 48)] == [True, False]
    # Of few steps by the lines of C: rows that begin anywhere in one, whole lines, half pages; few steps, more, most.
    assert [small(m, 700, 9) for m in (410, 420)] == [True, False]
    assert [small(m, 800, 9) for m in (1630, 1640)] == [True, False]
    assert [l1_written.beats_small(Problem("f32", m, 1024, 8), V4) for m in (280, 290)] == [None, True]
    assert [small(800, 800, k) for k in (8, 9, 32, 33)] == [True, True, True, False]
    assert [small(600, 600, k, name="f64") for k in (8, 9, 16, 17)] == [True, True, True, False]
    assert [small(400, m, 8, name="c64") for m in (700, 1000)] == [True, False]
    assert [small(m, 400, 100, "tn") for m in (190, 400)] == [True, False]


def blocks(m: int, n: int, k: int, dtype: str = "f32", layout: str = "nn", pack: str = "b") -> tuple[int, int, int]:
    """MC, KC and NC beside a copied B."""
    problem = Problem(dtype, m, n, k, layout=layout)
    mr, nr = registry.tiles(problem.row, V4)[0]
    return blocks_of(problem, V4, mr, nr, pack)


@pytest.mark.usefixtures("skylake")
def test_an_a_by_columns() -> None:
    """Beside one panel of B a copy serves once; of few steps fewer rows at a time."""
    found = [rules.config(Problem("f32", 1024, n, k, layout="tn"), V4) for n, k in ((64, 64), (64, 201), (72, 64))]
    assert [(config.family, config.pack) for config in found] == [("small", "none"), ("gemm", "ab"), ("gemm", "ab")]
    assert [blocks(768, 1280, k, layout="tn", pack="ab")[0] for k in (200, 201)] == [36, 96]


@pytest.mark.usefixtures("skylake")
def test_blocks() -> None:
    """What L2 keeps beside a few rows, in equal parts; more rows by one panel, and of few steps that write C."""

    assert [blocks(1000, size, size) for size in (400, 1000, 1024)] == [
        (18, 400, 256), (18, 1000, 128), (18, 1024, 128),
    ]  # fmt: skip
    assert [blocks(2000, 1000, k)[1:] for k in (1025, 1536)] == [(513, 256), (768, 192)]
    assert [blocks(1000, size, size, "f64") for size in (512, 704, 705)] == [
        (18, 512, 128), (18, 704, 96), (18, 353, 192),
    ]  # fmt: skip
    assert [blocks(400, k, k, name)[1] for k, name in ((350, "c128"), (360, "c128"), (704, "c64"))] == [350, 180, 704]
    for m, n, k in ((300, 1000, 500), (2000, 3000, 2000), (5000, 300, 5000)):
        for name in ("f32", "f64", "c64", "c128", "i32", "i16"):
            row = registry.dtype(name)
            mc, kc, nc = blocks(m, n, k, name)
            assert mc <= 18
            assert kc * nc * row.itemsize <= MIB * 9 // 16, (name, m, n, k)
    assert blocks(2000, 64, 2000)[0] == 48
    assert blocks(2000, 64, 2000)[1] == 2000
    assert [blocks(2000, n, k)[0] for n, k in ((1600, 64), (1600, 65), (250, 32))] == [24, 18, 18]
    assert blocks(200, 500, 500)[2] == 128, "few rows by two panels"
    assert blocks(1000, 1000, 1000, layout="tn", pack="ab")[1:] == (1000, 1024), "beside a copied A as before"


@pytest.mark.usefixtures("skylake")
def test_blocks_of_panels() -> None:
    """All columns of a B in panels and most rows at a time, where there are many of both; else blocks as of old."""

    def found(m: int, n: int, k: int, name: str = "f32", layout: str = "np") -> tuple[int, int, int]:
        config = packed_b.config(Problem(name, m, n, k, layout=layout), V4, 4)
        return config.mc, config.kc, config.nc

    assert found(1000, 5000, 2000) == (702, 1000, 4096)
    assert found(300, 700, 700, "f64") == (300, 700, 704)
    assert found(200, 1000, 1000) == (96, 1000, 64)
    assert found(512, 512, 512) == found(512, 512, 512, layout="tp") == (96, 512, 1024)


@pytest.mark.usefixtures("skylake")
def test_blocks_of_columns_along_k() -> None:
    """One panel at a time of up to 8 KiB of each column, beside up to 600 rows, 96 of them at a time."""

    assert [blocks(m, 2048, 2048, layout="nt") for m in (64, 600)] == [(66, 2048, 64), (96, 2048, 64)]
    assert blocks(601, 2048, 2048, layout="nt") == (18, 1024, 128)
    assert blocks(64, 2560, 2560, "f64", "nt") == (66, 854, 32)
    # All panels where a quarter of L2 holds them.
    assert blocks(512, 512, 64, layout="nt") == (96, 64, 512)
    assert [blocks(100, 1000, k, layout="nt")[2] for k in (64, 70)] == [1024, 64]


@pytest.mark.usefixtures("skylake")
def test_threads_share_columns_of_a_copied_b() -> None:
    def split(m: int, n: int, k: int, name: str = "f32", batch: int = 1, threads: int = 2) -> str:
        return rules.config(Problem(name, m, n, k, batch, threads=threads), V4).split

    assert [split(3000, 512, k) for k in (447, 448)] == ["m", "n"]
    assert [split(3000, 192, k, "f64") for k in (597, 598)] == ["m", "n"]
    assert split(3000, 128, 1152, "f64") == "m", "two panels each"
    assert split(3000, 512, 2048, batch=2) == "batch"
    assert [split(3000, 512, 2048, threads=threads) for threads in (2, 4, 16)] == ["n", "m", "m"]
    assert not l1_blocks.by_columns(Problem("f16", 3000, 512, 2048, threads=2), V4, 64)
    assert not l1_blocks.by_columns(Problem("f32", 3000, 512, 2048, threads=2), V3, 24)


@pytest.mark.usefixtures("skylake")
def test_what_writes_c() -> None:
    """Tiles of few steps write all of a row of C, and do not fetch whole lines of it while L3 holds it."""

    assert [blocks(100, 3000, k)[2] for k in (20, 64, 100)] == [4096, 4096, 128]

    def fetched(m: int, n: int, k: int, name: str = "f32", layout: str = "nn", batch: int = 1) -> bool:
        return l1.fetches_c(Problem(name, m, n, k, batch, layout), V4)

    assert [fetched(400, n, 100) for n in (399, 400, 404)] == [True, False, True]
    assert [fetched(m, 2048, 16) for m in (768, 769)] == [False, True]
    assert [fetched(400, 400, k) for k in (512, 513)] == [False, True]
    assert [fetched(400, 400, 64, name) for name in ("f64", "i32", "c64", "f16")] == [False, False, True, True]
    assert [fetched(400, 400, 64, batch=batch) for batch in (9, 10)] == [False, True]
    assert not l1.fetches_c(Problem("f32", 400, 400, 100, layout="np"), V4)
    assert l1.fetches_c(Problem("f32", 400, 400, 100), V3)


@pytest.mark.usefixtures("skylake")
def test_outputs_of_few_steps() -> None:
    """Outputs leaving L2, alone with transposed operands or together in a stack, are gemm's, some rows at a time."""

    def config(m: int, n: int, k: int, layout: str = "nn", batch: int = 1, name: str = "f32") -> Config:
        return rules.config(Problem(name, m, n, k, batch, layout), V4)

    for layout in ("nt", "tn", "tt"):
        assert [config(m, 579, 11, layout).family for m in (650, 700)] == ["small", "gemm"]
        assert (config(1000, 579, 20, layout).mc, config(1000, 579, 20, layout).pack) == (24, "b")
    # Whole lines of C are the small family's for a while; complex numbers were not measured.
    assert [config(1000, 400, k, "tn").family for k in (9, 33)] == ["small", "gemm"]
    assert config(1000, 1000, 8, "nt", name="c64").family == "small"

    # Stacks, by all of their outputs, rows, steps, and lines of C.
    assert [config(72, 579, 15, batch=batch).family for batch in (20, 30)] == ["small", "gemm"]
    assert [config(72, 579, k, batch=15).family for k in (8, 9)] == ["gemm", "small"]
    assert [config(m, 579, 3, batch=400).family for m in (12, 48)] == ["small", "gemm"]
    assert [config(24, 579, k, batch=100).family for k in (7, 8)] == ["small", "gemm"]
    assert [config(72, n, 8, batch=90).family for n in (400, 512, 528)] == ["small", "gemm", "gemm"]
    assert config(72, 579, 15, batch=50).mc == 24
    assert [config(24, n, 15, batch=85).pack for n in (1000, 1025)] == ["none", "b"]


@pytest.mark.usefixtures("skylake")
def test_tiles_of_rows_apart() -> None:
    """Of rows whole pages apart more than a tile's read them by tiles of most vectors."""
    assert [len(l1.tiles(Problem("f32", m, 512, 512), V4)) for m in (14, 15, 25)] == [3, 2, 3]
    assert l1.tiles(Problem("f32", 16, 1024, 1024), V4) == ((6, 64),)
    assert len(l1.tiles(Problem("f32", 16, 1000, 1024), V4)) == 3
    assert [l1.copied_from(Problem(name, 16, 1024, 512)) for name in ("f32", "i16", "c64")] == [25, 24, 16]


@pytest.mark.usefixtures("skylake")
def test_blocks_of_few_rows() -> None:
    """Long pieces of B's rows, fewer steps for fewer rows; of short rows, or a small B, others."""

    assert [blocks(m, 4096, 4096)[1:] for m in (9, 24, 25, 72)] == [(128, 1024), (128, 1024), (256, 512), (256, 512)]
    assert [blocks(m, 4096, 4096)[1:] for m in (73, 400, 401)] == [(512, 256), (512, 256), (1024, 128)]
    assert [blocks(m, 4096, 4096, "f64")[1:] for m in (24, 72, 73)] == [(128, 512), (256, 288), (512, 128)]
    assert [blocks(16, n, 8192)[1:] for n in (512, 500)] == [(128, 512), (512, 256)]
    steps = [blocks_of(Problem("f32", m, 1024, 1024), V4, 6, 64, "none")[1] for m in (14, 15, 24, 25)]
    assert steps == [128, 64, 64, 512]
    assert blocks_of(Problem("f32", 24, 512, 512), V4, 6, 64, "none")[1] == 128
    assert [blocks(16, 1024, k)[1] for k in (768, 769)] == [768, 110]


@pytest.mark.usefixtures("skylake")
def test_columns_of_a_and_rows_of_b_from_memory() -> None:
    """Few steps at a time, by tiles of four vectors; not of one that L3 holds, that is copied, or of few columns."""

    def found(m: int, n: int, k: int, name: str = "f32", layout: str = "tn") -> tuple[int, int]:
        config = rules.config(Problem(name, m, n, k, layout=layout), V4)
        return config.nr * registry.dtype(name).itemsize // 64, config.kc

    assert [found(100, 100, k) for k in (32_440, 32_441)] == [(2, 325), (4, 48)]
    assert found(20, 200, 100_000, "f64") == (4, 48)
    assert found(64, 576, 28_000) == (4, 64), "nor one that L3 holds, of few rows and many columns"
    turned = [Problem("f32", m, 576, 1000, layout="tn") for m in (42, 43)]
    assert [l1.steps_in_place(each, V4, 512) for each in turned] == [512, 64], "where it would be copied otherwise"
    assert found(128, 512, 28_000)[1] == 128, "copies of both take a quarter of L2"
    assert found(400, 512, 28_000)[1] == found(200, 1500, 28_000)[1] == 1000, "more rows, and a C above L2, as before"
    assert found(100, 32, 100_000)[1] > 48
    assert found(100, 100, 100_000, layout="nn")[1] > 48
    assert found(100, 100, 100_000, "i8_i32")[1] > 48


@pytest.mark.usefixtures("skylake")
def test_long_columns_are_dot_products_of_fewer_rows() -> None:
    found = [m for m in range(5, 40) if family_dots.config(Problem("f32", m, 60, 1000, layout="nt"), V4)]
    assert found == list(range(5, 21))


@pytest.mark.usefixtures("skylake")
def test_few_columns_of_few_rows_are_dot_products() -> None:
    def dots(m: int, n: int, k: int, name: str = "f32") -> bool:
        return rules.config(Problem(name, m, n, k), V4).family == "dots"

    assert [dots(2, 2, k) for k in (399, 400)] == [False, True]
    assert [dots(m, n, 700) for n in (3, 4) for m in (19, 20)] == [False, True, False, True]
    assert not any(dots(m, 5, 1000) for m in (5, 20))
    assert not any(dots(20, 2, 1000, name) for name in ("f64", "i32"))


@pytest.mark.skipif(not RUNS, reason="needs AVX-512")
@pytest.mark.usefixtures("skylake")
@pytest.mark.parametrize("name", [row.name for row in registry.DTYPES if row.stored != "bf16"])
def test_answers(name: str) -> None:
    """Tiles that fetch their own panels, copied and in place, of several panels and blocks; lines of C, stacks."""
    kernels.load("v4")
    row = registry.dtype(name)
    kind = np.dtype(row.numpy)
    rng = np.random.default_rng(3)
    sizes = (50, 150, 90), (130, 97, 600), (303, 130, 90), (303, 144, 90)
    tiny = (1, 3, 4), (2, 3, 3), (3, 4, 4), (2, 4, 4), (5, 4, 32), (4, 7, 33)    # rows of C alone in a vector, or not
    cases = [*itertools.product(sizes, ("nn", "tn", "nt"), (1, 3)), *itertools.product(tiny, ("nn", "nt"), (1, 37))]
    for (m, n, k), layout, batch in cases:
        problem = Problem(name, m, n, k, batch, layout)
        config = rules.config(problem, V4)
        plan = _plan.Plan(problem, config)
        if config.family == "gemm":
            assert (plan.facts["lines_ahead"], plan.facts["side_bytes"]) == (16, 1024), config
            assert plan.facts["still_c"] != l1.fetches_c(problem, V4), config
        a = rng.integers(0, 3, (batch, m, k)[batch == 1 :]).astype(kind)
        b = rng.integers(0, 3, (batch, k, n)[batch == 1 :]).astype(kind)
        wide = np.float64 if kind.kind != "c" else np.complex128
        want = a.astype(wide) @ b.astype(wide)
        left, right = (
            np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) if letter == "t" else x
            for x, letter in zip((a, b), layout, strict=True)
        )
        got = plan.run(left, right)
        if kind.kind == "b":
            want = want > 0
        elif kind.kind in "iu":
            want = want.astype(np.int64).astype(got.dtype)
        else:
            want = want.astype(got.dtype)
        assert np.array_equal(got, want), (m, n, k, layout, batch, config)


@pytest.mark.skipif(not RUNS, reason="no vectors of 64 bytes")
def test_panels_packed_long_ago(skylake: None) -> None:
    """Few rows by weights that leave L2 fetch the next panel; others their own, which has left L1."""
    cases = [((512, 256, 512), False), ((16, 512, 512), False), ((32, 1024, 1024), True), ((33, 1024, 1024), False),
             ((64, 4096, 4096), True), ((65, 4096, 4096), False)]  # fmt: skip
    for sizes, fetches in cases:
        problem = Problem("f32", *sizes, layout="np")
        assert _plan.Plan(problem, packed_b.config(problem, V4, 4)).facts["ready_next"] == fetches, sizes


@pytest.mark.skipif(not kernels.has("vnni", "v4") or not RUNS, reason="no dot products of bytes in vectors of 64 bytes")
@pytest.mark.parametrize("kind", ["i1", "u1"])
def test_signed_bytes_by_several_panels(kind: str, skylake: None) -> None:
    """A's signs are changed once, in a copy, where tiles would do so for every panel: whatever A's rows and zeros."""
    rng = np.random.default_rng(1)
    for (m, n, k), threads in itertools.product(
        ((9, 300, 40), (37, 200, 33), (100, 500, 2500), (5, 1000, 3), (300, 130, 95)), (1, 2)
    ):
        a, b = (rng.integers(0, 256, shape, "u1").view(kind) for shape in ((m, k + 5), (k, n)))
        b = b.view("i1")
        want = a[:, :k].astype("i4") @ b.astype("i4")
        with fastgemm.threads(threads):
            for left in (a[:, :k], np.ascontiguousarray(a[:, :k]), np.asfortranarray(a[:, :k])):
                assert np.array_equal(fastgemm.matmul(left, b, dtype=np.int32), want)
                zero = left.dtype.type(3)
                lower = want - 3 * b.sum(axis=0, dtype="i4")
                assert np.array_equal(fastgemm.matmul_integer(left, b, zero), lower)
                assert np.array_equal(fastgemm.matmul_integer(left, fastgemm.pack(b, rows=m), zero), lower)


@pytest.mark.skipif(not RUNS, reason="no AVX-512 here")
@pytest.mark.usefixtures("skylake")
def test_items_of_a_chain_go_by_the_rules_for_stacks() -> None:
    # 48 KiB of B: in place by one product, whose operands are at hand, copied by tiles that fetch the next item's.
    problem = Problem("f32", 128, 96, 128)
    alone = rules.config(problem)
    assert alone.family == "small"
    with dispatch.forced(alone):
        assert dispatch.of_item(problem, 64, 128) == alone
    made = dispatch.of_item(problem, 64, 128)
    assert made == rules.config(replace(problem, batch=64))
    assert (made.family, made.pack) == ("gemm", "b")
    assert dispatch.of_item(problem, 1, 128) == alone


@pytest.mark.skipif(not RUNS, reason="no AVX-512 here")
@pytest.mark.usefixtures("skylake")
def test_items_that_share_a_matrix_copy_what_is_copied_for_all_their_rows() -> None:
    """All of it in one block where L2 holds that; in deterministic calls only if that cuts k nowhere else."""
    few = Problem("f32", 24, 128, 384)
    assert dispatch.of_item(few, 64, 24).pack == "none"
    shared = dispatch.of_item(few, 64, 384)
    assert (shared.pack, chain_items.kept(few, shared) > 0) == ("b", True)
    assert shared.nc == 128 < dispatch.of_item(replace(few, n=300), 64, 384).nc < dispatch.of_item(few, 1, 24).nc
    large = Problem("f32", 16, 4096, 4096)
    assert dispatch.of_item(large, 1, 1600) == dispatch.resolve(large).config, "no copy of it would stay"
    narrow = Problem("f32", 96, 64, 512)
    assert [dispatch.of_item(narrow, 64, 96 * items).pack for items in (1, 3, 4)] == ["none", "none", "b"]
    keys = Problem("f32", 128, 512, 64, layout="nt")
    assert [dispatch.of_item(keys, 64, 512, near).mc for near in (False, True)] == [24, 132]
    deep = Problem("f32", 96, 64, 1500)
    with fastgemm.deterministic():
        assert dispatch.of_item(deep, 64, 1500).kc == dispatch.resolve(deep).config.kc < deep.k


@pytest.mark.usefixtures("skylake")
def test_stacks_that_come_from_beyond_l2() -> None:
    """Tiles of more vectors by how long B's rows are, copies from fewer rows on, and blocks as of many rows."""

    def found(m: int, n: int, k: int, mib: float, layout: str = "nn", name: str = "f32") -> tuple[str, int, int]:
        size = registry.dtype(name).itemsize
        batch = int(mib * MIB / ((m * n + m * k + k * n) * size))
        config = rules.config(Problem(name, m, n, k, batch, layout=layout), V4)
        return config.pack, config.nr * size // 64, config.nc

    near, far = 4, 12
    assert [found(14, 300, 300, mib)[:2] for mib in (near, far)] == [("none", 2), ("none", 3)]
    assert [found(14, 90, 300, mib)[:2] for mib in (near, far)] == [("none", 2), ("none", 2)]
    assert [found(8, n, 40, far, name="f64")[1] for n in (250, 300)] == [3, 4]
    assert [found(14, n, 100, far, "tn")[1] for n in (300, 600)] == [2, 3]
    assert [found(m, 300, 300, far)[0] for m in (31, 32)] == ["none", "b"]
    assert [found(m, 1300, 40, far)[0] for m in (15, 16)] == ["none", "b"]
    assert [found(16, 1300, k, far)[0] for k in (31, 32)] == ["none", "b"]
    assert [found(80, 300, 300, mib) for mib in (near, far)] == [("b", 4, 128), ("b", 4, 320)]
    # Whole rows of B at a time, of fewer steps than of single products.
    assert [found(m, 1300, 100, 30) for m in (8, 16, 17)] == [("none", 3, MAX_BLOCK)] * 2 + [("b", 4, 1344)]
    assert [found(m, 1300, k, 30)[1] for m, k in ((3, 63), (3, 64), (4, 64))] == [4, 0, 4], "strips have no tile"
