"""``--space nested``: a strategy at work on the papers' nested tilings, on this machine, instead of on the kernels.

It is there to see what strategies do where the space is large and the start is bad: no product of the library runs this
way, so nothing is recorded.  A trial is an estimate from three stretches of a run, as in ``bench/record.py``; the best
three are run whole at the end, and checked against NumPy.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import cpu, heuristic
from ..plan import Plan
from ..problem import Problem
from . import driver, report, strategies
from .measure import Measurement
from .nested import LENGTH, STARTS, NestedSpace, Product
from .words import duration, name

FINALISTS, ROUNDS = 3, 5

# Of the bad states whole runs would take minutes; larger products take longer than anybody waits.
MOST = 4096


def misfit(problem: Problem) -> str | None:
    """Say why a problem has no nested tilings; None where it has.

    Examples
    --------
    >>> misfit(Problem("f32", 512, 512, 512)) is None
    True
    >>> misfit(Problem("f32", 512, 500, 512))
    'sizes must be powers of two up to 4096'
    """
    sizes = (problem.m, problem.n, problem.k)
    if any(size & (size - 1) or size > MOST for size in sizes):
        return f"sizes must be powers of two up to {MOST}"
    if problem.dtype != "f32" or problem.threads != 1 or problem.batch != 1 or problem.layout != "nn":
        return "only one float32 product of plain matrices, with --threads 1"
    return None


class StateRunner:
    """Times states of one product; a `measure.Runner` without finals.

    Parameters
    ----------
    product : Product
        The operands.
    """

    def __init__(self, product: Product) -> None:
        self._product = product

    def measure(self, configs: Sequence[Any]) -> list[Measurement]:
        """Estimate the time of each state."""
        return [
            Measurement(state, "ok", statistics.median(self._product.sample(state, STARTS, LENGTH)))
            for state in configs
        ]

    def rounds(self, configs: Sequence[Any], count: int, bare: bool = False) -> list[list[float]]:
        """Run the states whole, in turn."""
        samples: list[list[float]] = [[] for _ in configs]
        for _ in range(count):
            for state, one in zip(configs, samples, strict=True):
                begin = time.perf_counter()
                self._product.run(state)
                one.append(time.perf_counter() - begin)
        return samples

    def numpy_seconds(self) -> float:
        """Return NaN: NumPy's time says nothing about a search."""
        return math.nan

    def close(self) -> None:
        """Do nothing: there is no process."""


def found(problem: Problem, strategy: strategies.Strategy, budget: driver.Budget, seed: int, progress: Any) -> str:
    """Search the tilings of a problem; return a line about the best."""
    space = NestedSpace(problem.m, problem.k, problem.n)
    product = Product(space, seed=seed)
    runner = StateRunner(product)
    trials = driver.Trials(runner, progress)
    trials.costs([space.start])  # type: ignore[list-item]
    driver.search(space, strategy, trials, budget, random.Random(seed))
    finalists: list[Any] = trials.ranking()[:FINALISTS]
    medians = [statistics.median(one) for one in runner.rounds(finalists, ROUNDS)]
    at = min(range(len(medians)), key=medians.__getitem__)
    best = finalists[at]
    if not np.allclose(product.run(best), product.a @ product.b, atol=1e-5 * problem.k):
        raise AssertionError(f"{best} computes something else")  # the kernel is wrong, not the input
    share = 100 * len(trials.results) / len(space)
    return (
        f"{name(problem)}: {best}, {duration(medians[at])} after {len(trials.results)} trials ({share:.2g} % of "
        f"{len(space)} states); untiled {duration(trials.results[space.start].seconds)}, "  # type: ignore[index]
        f"the library's own plan {duration(_library(problem, product))}"
    )


def run(problems: Sequence[Problem], options: Namespace) -> int:
    """Search each problem's tilings and print what was found; return the exit status."""
    strategy = strategies.load(options.strategy)
    deadline = math.inf if options.seconds is None else time.monotonic() + options.seconds
    print(f"nested tilings on {cpu.key()}, strategy {strategy.name}; nothing is recorded")
    with report.Watch(len(problems), options.quiet, deadline) as watch:
        for index, problem in enumerate(problems):
            left = deadline - time.monotonic()
            if left <= 0:
                watch.say(f"out of time: {len(problems) - index} problems left")
                break
            budget = driver.Budget(options.trials or strategy.trials)
            budget.deadline = time.monotonic() + left / (len(problems) - index)
            watch.begin(problem, budget.trials)
            print(found(problem, strategy, budget, options.seed, watch.trial), flush=True)
    return 0


def _library(problem: Problem, product: Product) -> float:
    plan = Plan(problem, heuristic.config(problem))
    seconds = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        plan.run(product.a, product.b, product.c)
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)
