"""An A by columns beside a narrow B, in place beside an L1 of 48 KiB: which, in what blocks and shares, and answers."""

from __future__ import annotations

import platform
from functools import partial

import own_rules
import pytest
from conftest import Pretend

from fastgemm import kernels, registry
from fastgemm.driver import _plan
from fastgemm.heuristic import l1_columns
from fastgemm.problem import Config, Problem

V3, V4 = registry.isa("v3"), registry.isa("v4")
RUNS = platform.machine() == "x86_64" and V4 in kernels.runnable()

found = partial(own_rules.found, l1_columns.config, layout="tn")


@pytest.mark.usefixtures("emerald")
def test_which(pretend: Pretend) -> None:
    # Columns of B: a whole vector, one tile, two of them.
    assert [n for n in range(1, 200) if found(1000, n, 6000)] == [*range(16, 65), 128]
    assert [n for n in range(1, 100) if found(1000, n, 6000, "f64")] == [*range(8, 33), 64]
    assert [found(m, 128, 6000) is None for m in (1024, 1025)] == [False, True]
    assert [found(1000, 128, k) is None for k in (999, 1000)] == [True, False]
    assert [found(500, 2 * n, 9000, name, threads=2) is None for n, name in ((64, "f32"), (32, "f64"))] == [True, False]
    # Rows of A.T, steps, an A that L2 does not hold, and each thread's part of it, a C that it does.
    assert [found(m, 32, 9000) is None for m in (127, 128)] == [True, False]
    assert [found(5000, 32, k) is None for k in (255, 256)] == [True, False]
    assert [found(1024, 32, k) is None for k in (512, 513)] == [True, False]
    assert [found(1024, 32, k, threads=2) is None for k in (1024, 1025)] == [True, False]
    assert [found(m, 64, 1000) is None for m in (8192, 8193)] == [False, True]
    # Other layouts, numbers, stacks, tiers and CPUs.
    for layout in ("nn", "nt", "tt", "tp"):
        assert found(1000, 32, 6000, layout=layout) is None
    assert all(found(1000, 32, 6000, name) for name in ("i32", "i64"))
    assert not any(found(1000, 32, 6000, name) for name in ("c64", "f16", "i16"))
    assert found(1000, 32, 6000, batch=2) is None
    assert l1_columns.config(Problem("f32", 1000, 32, 6000, layout="tn"), V3) is None
    pretend(32, 1 << 10, 33 << 10, half_lines=True)
    assert found(1000, 32, 6000) is None


@pytest.mark.usefixtures("emerald")
def test_what_blocks() -> None:
    def block(m: int, n: int, k: int, name: str = "f32", threads: int = 1) -> tuple[int, int, int, int, str]:
        config = found(m, n, k, name, threads=threads)
        assert config is not None
        assert (config.family, config.pack, config.threads) == ("gemm", "none", threads)
        assert config.mc >= m
        assert config.nc >= n
        return config.mr, config.nr, config.kc, config.split

    assert [block(512, n, 6400)[:2] for n in (16, 32, 33, 48, 49, 64)] == [(14, 32)] * 2 + [(8, 48)] * 2 + [(6, 64)] * 2
    assert [block(m, 16, 6400)[2] for m in (200, 256, 512, 1024, 9000)] == [128, 128, 64, 32, 32]
    assert block(512, 16, 6400, "f64")[2] == 32
    assert [block(m, 16, 6000, threads=2)[3] for m in (5999, 6000)] == ["k", "m"]
    assert block(4200, 63, 5000, threads=2)[3] == "m", "an output a thread would be more than 1 MiB"


@pytest.mark.usefixtures("emerald")
def test_vectors_by_long_columns(pretend: Pretend) -> None:
    """From memory, where the CPU follows four of them by itself."""

    def far(n: int, k: int, layout: str = "nt") -> tuple[bool, bool]:
        return _plan.Plan(Problem("f32", 1, n, k, layout=layout), Config("gemv", "v4")).facts["far"]

    assert far(8000, 2000) == (False, False)
    assert far(20_000, 1000) == far(8000, 2000, "nn") == (True, True)
    pretend(32, 1 << 10, 33 << 10, half_lines=True)
    assert far(8000, 2000) == (True, True)


@pytest.mark.skipif(not RUNS, reason="needs AVX-512")
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", ["f32", "f64", "i32", "i64"])
def test_answers(pretend: Pretend, name: str, threads: int) -> None:
    pretend(48, 128, 4 << 10, half_lines=True)
    widest = 256 // registry.dtype(name).itemsize
    shapes = ((130, 16, 1030), (257, widest, 1001), (201, widest - 1, 700), (128, 2 * widest, 1300), (700, 17, 257))
    problems = (Problem(name, *shape, layout="tn", threads=threads) for shape in shapes)
    assert own_rules.right_answers(l1_columns.config, problems) >= 3
