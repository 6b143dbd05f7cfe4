"""Few rows by a B beyond half of L2 beside an L1 of 48 KiB: which stay in place, in what blocks, and their answers."""

from __future__ import annotations

import platform
from functools import partial

import own_rules
import pytest
from conftest import Pretend

from fastgemm import kernels, registry
from fastgemm.heuristic import l1_half_lines
from fastgemm.problem import Problem

V3, V4 = registry.isa("v3"), registry.isa("v4")
RUNS = platform.machine() == "x86_64" and V4 in kernels.runnable()

found = partial(own_rules.found, l1_half_lines.config)
rows = partial(own_rules.rows, l1_half_lines.config)


@pytest.mark.usefixtures("emerald")
def test_which_rows() -> None:
    # Beyond half of L2, from L3, from memory, of long rows from L3.
    assert [rows(n, k) for n, k in ((600, 600), (2000, 1000), (2500, 2500))] == [[5, 48], [5, 48], [5, 32]]
    assert rows(11_000, 250) == [5, 32]
    assert rows(50_000, 144) == [5, 32]
    # Half pages apart: near, from L3, from memory by how far apart.
    assert [rows(n, k) for n, k in ((1024, 1024), (2048, 2048))] == [[5, 48], [5, 32]]
    assert [rows(n, k) for n, k in ((5120, 4096), (4096, 4096), (8192, 2048))] == [[9, 32], [9, 24], [9, 16]]
    # Other numbers, whose rows of registers count.
    assert [rows(1000, 1000, name) for name in ("f64", "i64", "c64", "c128")] == [[5, 48], [5, 48], [3, 24], [3, 24]]
    # Of several threads.
    assert [rows(n, k, threads=2) for n, k in ((1000, 1000), (2048, 2048), (4096, 4096))] == [[5, 16], [5, 16], [9, 16]]
    assert [rows(n, k, threads=2) for n, k in ((2500, 2500), (11_000, 250), (700, 700))] == [[], [], []]


@pytest.mark.usefixtures("emerald")
def test_which_not(pretend: Pretend) -> None:
    assert [found(16, 1024, k) is None for k in (256, 257)] == [True, False]
    assert [found(16, n, 1500) is None for n in (511, 512)] == [True, False]
    assert [found(16, 3000, k) is None for k in (127, 128)] == [True, False]
    for layout in ("tn", "nt", "np"):
        assert found(16, 2000, 1000, layout=layout) is None
    assert found(16, 2000, 1000, "f16") is None
    assert found(16, 2000, 1000, batch=10) is None
    assert l1_half_lines.config(Problem("f32", 16, 2000, 1000), V3) is None
    pretend(32, 1 << 10, 33 << 10, half_lines=True)
    assert found(16, 2000, 1000) is None, "an L1 of 32 KiB"
    pretend(48, 1 << 10, 32 << 10)
    assert found(16, 2000, 1000) is None, "whole lines"


@pytest.mark.usefixtures("emerald")
def test_what_blocks() -> None:
    def block(m: int, n: int, k: int, name: str = "f32") -> tuple[int, int, int, int]:
        config = found(m, n, k, name)
        assert config is not None
        assert (config.family, config.pack, config.split) == ("gemm", "none", "n")
        return config.mr, config.nr, config.mc, config.kc

    # The fewest panels of rows, the widest of tiles that have as many.
    assert [block(m, 1024, 1024)[:3] for m in (12, 16, 24)] == [(6, 64, 12), (8, 48, 16), (8, 48, 24)]
    assert block(24, 1024, 1024, "f64")[:3] == (8, 24, 24)
    # Steps: near, apart, from L3, and as many as L2 holds beside few rows.
    assert [block(24, n, 960)[3] for n in (1000, 2048, 3000)] == [64, 64, 32]
    assert [block(m, 11_000, 960)[3] for m in (17, 16)] == [32, 17]
    assert [block(m, 14_336, 960)[3] for m in (17, 16, 12)] == [64, 32, 16]


@pytest.mark.usefixtures("emerald")
def test_columns_at_a_time() -> None:
    """All, but of a C that passes over it would not find in L2, and not where threads share them."""

    def columns(m: int, n: int, k: int, threads: int = 1) -> int:
        config = found(m, n, k, threads=threads)
        assert config is not None
        return config.nc

    assert [columns(16, n, 250) < n for n in (16_384, 16_385)] == [False, True]
    assert [columns(m, 50_000, 144) for m in (16, 32)] == [4096 // 48 * 48, 2048 // 48 * 48]
    assert columns(16, 8192, 4096, threads=2) >= 8192


@pytest.mark.usefixtures("emerald")
def test_shares() -> None:
    def share(m: int, n: int, k: int) -> str:
        config = found(m, n, k, threads=2)
        assert config is not None
        assert config.threads == 2
        return config.split

    assert [share(m, 1024, 1024) for m in (15, 16)] == ["k", "n"]


@pytest.mark.skipif(not RUNS, reason="needs AVX-512")
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", ["f32", "f64", "c64", "c128", "i16", "i32", "i64"])
def test_answers(pretend: Pretend, name: str, threads: int) -> None:
    """Blocks of few steps, with caches so small that few numbers are many; rows of B anyhow and half pages apart."""
    pretend(48, 256, 4 << 10, half_lines=True)
    apart = 2048 // registry.dtype(name).itemsize
    shapes = ((1100, 230), (2 * apart, 300), (apart, 513), (1100, 400))
    problems = (Problem(name, m, n, k, threads=threads) for n, k in shapes for m in (4, 5, 7, 8, 12, 16, 23))
    assert own_rules.right_answers(l1_half_lines.config, problems) >= 6
