"""Few rows by a large B beside an L1 of 32 KiB: which stay in place, in what blocks and shares, and their answers."""

from __future__ import annotations

import platform
from functools import partial

import own_rules
import pytest
from conftest import Pretend

from fastgemm import kernels, registry
from fastgemm.heuristic import l1_streams
from fastgemm.problem import Problem

V3, V4 = registry.isa("v3"), registry.isa("v4")
RUNS = platform.machine() == "x86_64" and V4 in kernels.runnable()

found = partial(own_rules.found, l1_streams.config)
rows = partial(own_rules.rows, l1_streams.config)


@pytest.mark.usefixtures("skylake")
def test_which_rows() -> None:
    # From memory and from L3, real numbers of four, eight and two bytes, complex numbers, integers.
    assert [rows(3000, 3000, name) for name in ("f32", "f64", "i16")] == [[2, 32], [2, 20], [5, 32]]
    assert [rows(1400, 1400, name) for name in ("f32", "f64", "i32")] == [[5, 32], [5, 24], [5, 32]]
    assert [rows(1500, 1000, name) for name in ("c64", "c128")] == [[2, 16], [2, 10]]
    # Half pages apart from memory, where eight rows are strips, and from L3; very long rows; a stack.
    assert [rows(n, k) for n, k in ((4096, 3000), (4096, 4096))] == [[9, 12], [2, 4, 9, 12]]
    assert [rows(n, k) for n, k in ((2048, 2048), (32_000, 1000))] == [[5, 16], [2, 16]]
    assert rows(1000, 1000, batch=10) == [2, 32]


@pytest.mark.usefixtures("skylake")
def test_which_not() -> None:
    assert [found(16, 1000, k) is None for k in (1310, 1311)] == [True, False]
    assert [found(16, n, 5000) is None for n in (511, 513)] == [True, False]
    assert [found(16, 20_000, k) is None for k in (127, 128)] == [True, False]
    assert found(16, 2000, 2000, layout="tn") is None
    assert found(16, 2000, 2000, layout="nt") is None
    assert found(16, 2000, 2000, layout="np") is None
    assert found(16, 2000, 2000, "f16") is None
    assert found(16, 1024, 1024, batch=10) is None, "a stack whose rows lie half pages apart"
    assert l1_streams.config(Problem("f32", 16, 2000, 2000), V3) is None


@pytest.mark.usefixtures("skylake")
def test_tiles_and_steps() -> None:
    """The fewest panels of rows, or the widest tile; whole rows of B that fit a part of L2, at least 16."""

    def shape(m: int, n: int, k: int, name: str = "f32") -> tuple[int, int, int, int]:
        config = found(m, n, k, name)
        assert config is not None
        assert (config.family, config.pack, config.threads) == ("gemm", "none", 1)
        assert config.nc >= n
        return config.mr, config.nr, config.mc, config.kc

    assert [shape(m, 2000, 3200)[:3] for m in (6, 8, 9, 12, 13, 16, 24)] == [
        (6, 64, 6), (8, 48, 8), (6, 64, 12), (6, 64, 12), (8, 48, 16), (8, 48, 16), (8, 48, 24),
    ]  # fmt: skip
    assert shape(16, 2048, 2048) == (6, 64, 18, 64)
    assert [shape(12, n, 3200)[3] for n in (1500, 3000, 4000, 8000)] == [32, 27, 20, 16]
    assert [shape(12, n, 3200, "f64")[3] for n in (1500, 3000)] == [27, 16]
    assert shape(4, 1500, 1000, "c64") == (4, 24, 4, 27)
    assert shape(8, 1500, 1500, "i32")[:2] == (6, 64)


@pytest.mark.usefixtures("skylake")
def test_a_large_output() -> None:
    """What C takes of L2: long blocks where B comes from L3, fewer streams or a tile of all rows where from memory."""

    def shape(m: int, n: int, k: int, name: str = "f32", threads: int = 1) -> tuple[int, int, int] | None:
        config = found(m, n, k, name, threads=threads)
        return None if config is None else (config.mr, config.nr, config.kc)

    # From L3: C beyond six sixteenths of L2, four beside more than 16 rows; each thread has its part.
    assert [shape(16, n, 400) for n in (6000, 6200)] == [(8, 48, 16), (6, 64, 200)]
    assert [shape(20, n, 600, "f64") for n in (1600, 1700)] == [(8, 24, 25), (6, 32, 200)]
    assert [shape(24, 5000, 500, threads=threads) for threads in (1, 2)] == [(6, 64, 250), (8, 48, 32)]
    assert shape(12, 3000, 400, "c64") == (3, 32, 200)
    # From memory: beyond a half 15 and 16 rows by 12 steps, 13 and 14 in one pass; up to 12 as ever, and complex ones.
    assert [shape(16, n, 2000) for n in (8000, 9000)] == [(8, 48, 16), (8, 48, 12)]
    assert [shape(m, 20_000, 700) for m in (12, 13, 14, 15)] == [
        (6, 64, 16), (14, 32, 16), (14, 32, 16), (8, 48, 12),
    ]  # fmt: skip
    assert shape(16, 12_000, 1000, threads=2) == (8, 48, 16)
    assert shape(8, 10_000, 2000, "c64") == (4, 24, 16)
    assert shape(20, 4000, 1000, "f64") == (8, 24, 16)
    # More rows are copied.
    assert [shape(24, n, 2000) is None for n in (6000, 7000)] == [False, True]


@pytest.mark.usefixtures("skylake")
def test_what_threads_share() -> None:
    """Steps of k where they are many for the rows, columns otherwise, in twice the steps; products of a stack."""

    def shares(m: int, n: int, k: int, threads: int = 2, batch: int = 1) -> tuple[str, int, int]:
        config = found(m, n, k, threads=threads, batch=batch)
        assert config is not None
        return config.split, config.threads, config.kc

    assert shares(16, 2000, 2000) == ("k", 2, 32)
    assert [shares(32, 1400, k)[0] for k in (2048, 2049)] == ["n", "k"]
    assert shares(32, 1400, 1400) == ("n", 2, 64)
    assert shares(16, 2048, 2048) == ("n", 2, 64)
    assert shares(9, 4096, 4096)[0] == "k"
    assert [shares(16, 2000, 2000, threads)[0] for threads in (3, 4)] == ["k", "n"]
    assert shares(16, 32_000, 3000)[0] == "n", "an output a thread would be 2 MiB"
    assert shares(16, 1000, 1000, batch=10)[:2] == ("batch", 2)
    assert shares(16, 1500, 1500, threads=4, batch=3)[:2] == ("n", 4)


@pytest.mark.skipif(not RUNS, reason="needs AVX-512")
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", ["f32", "f64", "c64", "c128", "i16", "i32", "i64"])
def test_answers(pretend: Pretend, name: str, threads: int) -> None:
    """Blocks of few steps, with caches so small that few numbers are many; rows of B anyhow and half pages apart."""
    pretend(32, 32, 256)
    apart = 2048 // registry.dtype(name).itemsize
    shapes = ((1100, 230, 1), (2 * apart, 300, 1), (apart, 513, 1), (1100, 150, 3))
    problems = (Problem(name, m, *shape, threads=threads) for shape in shapes for m in (2, 5, 7, 12, 16))
    assert own_rules.right_answers(l1_streams.config, problems) >= 8
