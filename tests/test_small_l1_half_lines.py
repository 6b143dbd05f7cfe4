"""Few rows by a B beyond half of L2 beside an L1 of 48 KiB: which stay in place, in what blocks, and their answers."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from fastgemm import cpu, kernels, registry
from fastgemm.driver import _plan
from fastgemm.heuristic import l1_half_lines, l1_streams, rules
from fastgemm.problem import Config, Problem

V3, V4 = registry.isa("v3"), registry.isa("v4")
RUNS = platform.machine() == "x86_64" and V4 in kernels.runnable()


def found(
    m: int, n: int, k: int, name: str = "f32", *, batch: int = 1, layout: str = "nn", threads: int = 1
) -> Config | None:
    """The configuration of the module under test, which `rules.config` takes as well."""
    problem = Problem(name, m, n, k, batch, layout, threads)
    config = l1_half_lines.config(problem, V4)
    if config is not None:
        assert config == rules.config(problem, V4)
        assert config.misfit(problem) is None
    return config


def rows(n: int, k: int, name: str = "f32", threads: int = 1) -> list[int]:
    """The first and the last number of rows that it takes."""
    taken = [m for m in range(1, 70) if found(m, n, k, name, threads=threads)]
    assert taken in ([], list(range(taken[0], taken[-1] + 1)) if taken else [])
    return taken[:1] + taken[-1:]


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
def test_which_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [found(16, 1024, k) is None for k in (256, 257)] == [True, False]
    assert [found(16, n, 1500) is None for n in (511, 512)] == [True, False]
    assert [found(16, 3000, k) is None for k in (127, 128)] == [True, False]
    for layout in ("tn", "nt", "np"):
        assert found(16, 2000, 1000, layout=layout) is None
    assert found(16, 2000, 1000, "f16") is None
    assert found(16, 2000, 1000, batch=10) is None
    assert l1_half_lines.config(Problem("f32", 16, 2000, 1000), V3) is None
    monkeypatch.setattr(cpu, "caches", lambda: cpu.Caches(32 << 10, 1 << 20, 33 << 20))
    assert found(16, 2000, 1000) is None, "an L1 of 32 KiB"
    monkeypatch.setattr(cpu, "caches", lambda: cpu.Caches(48 << 10, 1 << 20, 32 << 20))
    monkeypatch.setattr(cpu, "_half_lines", lambda: False)
    assert found(16, 2000, 1000) is None, "whole lines"


@pytest.mark.usefixtures("emerald")
def test_what_blocks() -> None:
    def block(m: int, n: int, k: int, name: str = "f32") -> tuple[int, int, int, int]:
        config = found(m, n, k, name)
        assert config is not None
        assert (config.family, config.pack, config.split) == ("gemm", "none", "n")
        assert config.nc >= n or m * n * registry.dtype(name).itemsize > 1 << 20
        return config.mr, config.nr, config.mc, config.kc

    # The fewest panels of rows, the widest of tiles that have as many.
    assert [block(m, 1024, 1024)[:3] for m in (12, 16, 24)] == [(6, 64, 12), (8, 48, 16), (8, 48, 24)]
    assert block(24, 1024, 1024, "f64")[:3] == (8, 24, 24)
    # Steps: near, apart, from L3, and as many as L2 holds beside few rows.
    assert [block(24, n, 960)[3] for n in (1000, 2048, 3000)] == [64, 64, 32]
    assert [block(m, 11_000, 960)[3] for m in (17, 16)] == [32, 17]
    assert [block(m, 14_336, 960)[3] for m in (17, 16, 12)] == [64, 32, 16]
    # Columns: all, but of a C that passes over it would not find in L2.
    config = found(32, 50_000, 144)
    assert config is not None
    assert config.nc == 2048 // 48 * 48


@pytest.mark.usefixtures("emerald")
def test_shares() -> None:
    def share(m: int, n: int, k: int) -> str:
        config = found(m, n, k, threads=2)
        assert config is not None
        assert config.threads == 2
        return config.split

    assert [share(m, 1024, 1024) for m in (15, 16)] == ["k", "n"]
    assert l1_streams.deep(Problem("f32", 15, 1024, 1024, threads=2))


@pytest.mark.skipif(not RUNS, reason="needs AVX-512")
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", ["f32", "f64", "c64", "c128", "i16", "i32", "i64"])
def test_answers(monkeypatch: pytest.MonkeyPatch, name: str, threads: int) -> None:
    """Blocks of few steps, with caches so small that few numbers are many; rows of B anyhow and half pages apart."""
    monkeypatch.setattr(cpu, "halves", lambda tier: False)
    monkeypatch.setattr(cpu, "_half_lines", lambda: True)
    monkeypatch.setattr(cpu, "caches", lambda: cpu.Caches(48 << 10, 256 << 10, 4 << 20))
    kernels.load("v4")
    row = registry.dtype(name)
    kind = np.dtype(row.numpy)
    rng = np.random.default_rng(6)
    apart = 2048 // row.itemsize
    taken = 0

    def numbers(*shape: int) -> np.ndarray:
        made = rng.integers(-3, 4, shape).astype(kind)
        return made + 1j * rng.integers(-3, 4, shape).astype(kind) if kind.kind == "c" else made

    for n, k in ((1100, 230), (2 * apart, 300), (apart, 513), (1100, 400)):
        for m in (4, 5, 7, 8, 12, 16, 23):
            problem = Problem(name, m, n, k, threads=threads)
            config = l1_half_lines.config(problem, V4)
            if config is None:
                continue
            taken += 1
            a, b = numbers(m, k), numbers(k, n)
            want = (a.astype(np.int64) @ b.astype(np.int64)) if kind.kind == "i" else a @ b
            got = _plan.Plan(problem, config).run(a, b)
            assert np.array_equal(got, want.astype(kind)), (m, n, k, config)
    assert taken >= 6
