"""The published heuristic for splits: its known answers, and that every configuration it gives computes."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import assert_close, normal

import fastgemm
from fastgemm import dispatch
from fastgemm.graph import scheduling
from fastgemm.graph.scheduling import Blocks, Grid
from fastgemm.problem import Problem


@pytest.mark.parametrize(
    ("m", "n", "mb", "grid"),
    [
        (1024, 1024, 64, Grid(16, 2, 1, 1200)),
        (2048, 2048, 64, Grid(16, 2, 1, 3264)),
        (256, 1024, 32, Grid(8, 4, 1, 1476)),
        (4096, 256, 64, Grid(32, 1, 1, 704)),
    ],
)
def test_known_answers(m: int, n: int, mb: int, grid: Grid) -> None:
    """32 threads, the plain form of the cost: k below 512."""
    assert scheduling.split("f32", m, n, 256, Blocks(mb, 64, 64), 32) == grid


def test_rules_before_costs() -> None:
    inner = Blocks(32, 64, 64)
    assert scheduling.split("i8_i32", 4096, 512, 512, inner, 32) == Grid(32, 1)
    assert scheduling.split("f32", 4096, 192, 192, inner, 32) == Grid(32, 1)
    assert scheduling.split("f32", 64, 512, 16384, inner, 32).k > 1
    assert scheduling.split("f32", 32, 256, 1024, inner, 4).k == 4
    assert scheduling.split("i8_i32", 16, 4096, 1024, inner, 32).m == 1


def test_inner_blocks() -> None:
    assert scheduling.inner_blocks("f32", 256, 1024, 1024, 32).m == 32
    assert scheduling.inner_blocks("bf16", 4096, 1024, 1024, 32) == (32, 32, 32)
    assert scheduling.inner_blocks("i8_i32", 2048, 1024, 1024, 32).m == 64
    assert scheduling.inner_blocks("i8_i32", 2048, 1024, 1024, 64).m == 32
    assert scheduling.inner_blocks("f32", 32, 512, 13, 4).m == 8
    assert scheduling.inner_blocks("f32", 512, 100, 100, 2).n == 64  # two even parts of 50, aligned


@pytest.mark.parametrize("threads", [1, 2])
def test_its_configurations_compute(threads: int) -> None:
    for m, n, k in ((100, 200, 300), (32, 256, 1024), (300, 64, 64), (8, 512, 9000), (1, 50, 60), (5, 4, 3)):
        problem = Problem("f32", m, n, k, threads=threads)
        config = scheduling.config(problem)
        assert config.misfit(problem) is None
        a, b = normal((m, k), "f4", 1), normal((k, n), "f4", 2)
        with dispatch.forced(config), fastgemm.threads(threads):
            assert_close(fastgemm.matmul(a, b), a, b, np.matmul(a.astype("f8"), b.astype("f8")).astype("f4"))
