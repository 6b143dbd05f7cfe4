"""What the tests of rules share that answer for some problems alone: which these are, and right answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import oracle

from fastgemm import kernels, registry
from fastgemm.driver import _plan
from fastgemm.heuristic import rules
from fastgemm.problem import Config, Problem

Rule = Callable[[Problem, registry.Isa], Config | None]

V4 = registry.isa("v4")


def found(
    rule: Rule, m: int, n: int, k: int, name: str = "f32", *, batch: int = 1, layout: str = "nn", threads: int = 1
) -> Config | None:
    """The configuration of the rule under test, which `rules.config` takes as well."""
    problem = Problem(name, m, n, k, batch, layout, threads)
    config = rule(problem, V4)
    if config is not None:
        assert config == rules.config(problem, V4)
        assert config.misfit(problem) is None
    return config


def rows(rule: Rule, n: int, k: int, name: str = "f32", *, batch: int = 1, threads: int = 1) -> list[int]:
    """The first and last of all runs of rows that it takes."""
    taken = [m for m in range(1, 70) if found(rule, m, n, k, name, batch=batch, threads=threads)]
    return [m for m in taken if m - 1 not in taken or m + 1 not in taken]


def right_answers(rule: Rule, problems: Iterable[Problem]) -> int:
    """Assert that products of those that it takes are right, and return how many these are."""
    kernels.load(V4.name)
    taken = 0
    for problem in problems:
        config = rule(problem, V4)
        if config is None:
            continue
        taken += 1
        stack = (problem.batch,) if problem.batch > 1 else ()
        a, b = (
            oracle.laid(oracle.integers((*stack, *shape), problem.row.numpy, seed), letter)
            for seed, (shape, letter) in enumerate(
                zip(((problem.m, problem.k), (problem.k, problem.n)), problem.layout, strict=True)
            )
        )
        got = _plan.Plan(problem, config).run(a, b)
        assert np.array_equal(got, np.matmul(a, b)), (problem, config)
    return taken
