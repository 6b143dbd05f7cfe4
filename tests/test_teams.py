"""How many threads the rules give a product, and what each of them has to do."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from oracle import dtype_of, integers, normal

import fastgemm
from fastgemm import kernels, registry
from fastgemm.heuristic import costs, packed_b, rules
from fastgemm.plan import Plan
from fastgemm.problem import PACKED, Config, Problem, as_called

PLAIN = ("nn", "nt", "tn", "tt")
TEAMS = (2, 3, 8, 48, 128)
SHAPES = [(33, 70, 130), (8, 200, 90), (2, 512, 120), (1, 300, 400), (300, 5, 40), (100, 130, 4), (70, 33, 50)]


def greatest_share(problem: Problem, config: Config) -> float:
    """Return what the thread that has most of a stack has of it, over an equal share of those that may work."""
    columns = -(-problem.n // registry.lanes(problem.row, registry.isa(config.isa)))
    units = {"m": problem.m, "n": columns, "batch": 1, "k": config.threads}[config.split]
    total = units * (1 if config.split == "k" else problem.batch)
    return -(-total // config.threads) * problem.threads / total


def by_tiles(config: Config) -> bool:
    """Whether tile registers compute it, so fast that other teams are worth their start."""
    return registry.by_matrices(config.family) or registry.by_limbs(config.family)


@pytest.mark.parametrize("tier", registry.ISAS, ids=lambda tier: tier.name)
def test_a_large_output_is_written_by_two(tier: registry.Isa) -> None:
    """Below a megaflop, but half a MiB of C and more: gemm, the small family, dot products, stacks."""

    def threads(m: int, n: int, k: int, name: str = "f32", batch: int = 1, layout: str = "nn") -> int:
        return rules.config(Problem(name, m, n, k, batch, layout, threads=2), tier).threads

    assert [threads(m, 256, 4, "f64") for m in (255, 256)] == [1, 2]
    assert [threads(m, 512, 1) for m in (200, 300)] == [1, 2]
    assert [threads(m, 512, 3, layout="nt") for m in (200, 300)] == [1, 2]
    assert [threads(4, 4, 4, batch=batch) for batch in (7000, 8192)] == [1, 2]


@pytest.mark.parametrize("name", ["f32", "f64", "i32", "i8", "bf16", "c64"])
@pytest.mark.parametrize("tier", kernels.runnable(), ids=lambda tier: tier.name)
def test_few_items_leave_no_thread_idle(tier: registry.Isa, name: str) -> None:
    """Stacks of as many products as make shares uneven are cut anywhere; whole items would leave up to a half idle."""
    rng = random.Random(name)
    for _ in range(300):
        threads = rng.choice((2, 3, 4, 8))
        sides = [rng.choice((16, 30, 64, 100, 128, 200)) for _ in range(3)]
        problem = Problem(name, *sides, rng.randint(2, 2 * threads + 1), rng.choice(PLAIN), threads)
        if problem.flops < threads * costs.TEAM_FLOPS:
            continue
        config = rules.config(problem, tier)
        if by_tiles(config):
            continue
        assert config.threads == threads, problem
        assert greatest_share(problem, config) <= 1.15, (problem, config)


def test_many_even_items_stay_whole() -> None:
    """Cutting them would be a call of the loops for each."""
    assert rules.config(Problem("f32", 16, 16, 16, 1001, threads=2)).split == "batch"
    assert rules.config(Problem("f32", 64, 64, 64, 6, threads=2)).split == "batch"
    assert rules.config(Problem("f32", 64, 64, 64, 7, threads=2)).split == "m"


@pytest.mark.parametrize("dt", registry.DTYPES, ids=lambda dt: dt.name)
def test_many_threads_have_enough_to_do(dt: registry.DType) -> None:
    """No more than a quarter of a megaflop, or of half a MiB, is there for each; none is alone with eight megaflops."""
    rng = random.Random(dt.name)
    for _ in range(600):
        sides = [int(1000 ** rng.random()) for _ in range(3)]
        batch, threads = rng.choice((1, 1, 3, 5, 12, 100)), rng.choice(TEAMS)
        problem = as_called(Problem(dt.name, *sides, batch, rng.choice(PLAIN), threads))
        config = rules.config(problem)
        if config.family == "numpy" or by_tiles(config):
            continue
        assert config.misfit(problem) is None
        assert config.threads <= costs.members(problem)
        if problem.flops >= 8 * costs.TEAM_FLOPS and config.split != "k":
            assert config.threads > 1, (problem, config)


def test_packed_operands_have_teams_of_as_many() -> None:
    """By the same rule."""
    tier = kernels.active_isa()
    assert tier is not None
    few = Problem("f32", 16, 256, 256, layout="n" + PACKED, threads=128)
    for problem in (few, replace(few, n=4096, k=4096)):
        config = packed_b.config(problem, tier, 2)
        assert 2 <= config.threads <= costs.members(problem)


@pytest.mark.parametrize("name", ["f32", "f64", "c64", "i8", "i16", "i32", "bool", "f16"])
@pytest.mark.parametrize("turned", range(4))
def test_answers_of_stacks_that_are_cut(name: str, turned: int) -> None:
    """Five products by several threads: numbers whose sums are exact, so that NumPy's are the same."""
    kind = dtype_of(registry.dtype(name).numpy)
    for m, n, k in SHAPES:
        a = integers((5, k, m) if turned & 1 else (5, m, k), kind, turned, high=1)
        b = integers((5, n, k) if turned & 2 else (5, k, n), kind, m, high=1)
        a, b = (a.mT if turned & 1 else a), (b.mT if turned & 2 else b)
        want = np.matmul(a, b)
        for threads in (2, 3, 4):
            with fastgemm.threads(threads):
                got = fastgemm.matmul(a, b)
            assert np.array_equal(got, want), (name, m, n, k, threads)


@pytest.mark.parametrize("tier", kernels.runnable(), ids=lambda tier: tier.name)
@pytest.mark.parametrize("name", ["f32", "f64", "c128", "i16", "f16", "bool"])
def test_a_vector_is_shared_by_lines_of_the_output(name: str, tier: registry.Isa) -> None:
    """Wherever the output begins in a line, and however little each thread has: the bits of one thread."""
    if not registry.supported(registry.dtype(name), tier) or not registry.computes("gemv", registry.dtype(name)):
        pytest.skip("no such kernels")
    kernels.load(tier.name)
    dtype = dtype_of(registry.dtype(name).numpy)
    size = dtype.itemsize
    numbers = normal if name in ("f32", "f64", "c128") else integers
    shapes = ((1, 9, "nn"), (5, 30, "nn"), (37, 20, "nn"), (100, 33, "nn"), (999, 17, "nn"), (333, 40, "nt"))
    for n, k, layout in shapes:
        problem = as_called(Problem(name, 1, n, k, 1, layout, 1))
        a, b = numbers((1, k), dtype), numbers((k, n) if layout == "nn" else (n, k), dtype, 1)
        b = b if layout == "nn" else b.T
        alone = Plan(problem, Config("gemv", tier.name)).run(a, b)
        assert np.allclose(alone, np.matmul(a, b), rtol=1e-4, atol=1e-4)
        for threads, begin in ((2, 0), (2, 16), (3, 4), (3, 48), (4, 60)):
            memory = np.zeros(n * size + 128, np.uint8)
            first = -memory.ctypes.data % 64 + begin // size * size
            out = memory[first : first + n * size].view(dtype).reshape(1, n)
            config = Config("gemv", tier.name, split="n", threads=threads)
            Plan(replace(problem, threads=threads), config).run(a, b, out)
            assert np.array_equal(out, alone), (n, k, threads, begin)
            assert not memory[:first].any(), "written before it"
            assert not memory[first + n * size :].any(), "written behind it"
