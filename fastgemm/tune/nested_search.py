"""``--space nested``: a strategy at work on the papers' nested tilings, on this machine, instead of on the kernels.

It is there to see what strategies do where the space is large and the start is bad.  No product of the library runs
this way, so there is no record that calls would use: the outcome of each search goes to a log of JSON lines beside the
database (`Outcome`).  States run in a worker process as configurations do (`nested_worker`).  A trial is an estimate
from three stretches of a run, as in ``bench/record.py``; the best three are run whole at the end, checked with NumPy.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import random
import statistics
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import cpu, kernels
from ..heuristic import rules
from ..problem import Problem
from . import driver, lines, report, session, strategies
from .live import LiveRunner
from .nested import NestedSpace, State
from .words import duration, name, today

PROGRAM = "from fastgemm.tune import nested_worker; nested_worker.main()"

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


class StateRunner(LiveRunner):
    """Times states of one product in a worker process.

    Parameters
    ----------
    problem : Problem
        What is computed.
    seed : int
        Of the operands.
    """

    def __init__(self, problem: Problem, seed: int = 0) -> None:
        super().__init__(problem, seed, program=PROGRAM)

    def _fields(self, config: Any) -> dict[str, Any]:
        return dict(config._asdict())


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a search found: a line of the log.

    Parameters
    ----------
    m, n, k : int
        Sizes of the product.
    state : State
        The best tiling.
    seconds, untiled_seconds, plan_seconds : float
        Median of its whole runs; the estimate of the start's; median of the configuration that the library would use.
    trials, states : int
        States that were measured, and those that there are.
    """

    m: int
    n: int
    k: int
    state: State
    seconds: float
    untiled_seconds: float
    plan_seconds: float
    trials: int
    states: int
    strategy: str
    seed: int
    date: str
    cpu: str
    kernels: str

    def fields(self) -> dict[str, Any]:
        """Return the JSON object of the line; a time that is not known is null."""
        found = dataclasses.asdict(self) | {"state": self.state._asdict()}
        return {key: None if value != value else value for key, value in found.items()}


def found(problem: Problem, strategy: strategies.Strategy, budget: driver.Budget, seed: int, progress: Any) -> Outcome:
    """Search the tilings of a problem.  Raises `session.Refused` where none of them can be timed."""
    space = NestedSpace(problem.m, problem.k, problem.n)
    with contextlib.closing(StateRunner(problem, seed)) as runner:
        trials = driver.Trials(runner, progress)
        trials.costs([space.start])  # type: ignore[list-item]
        driver.search(space, strategy, trials, budget, random.Random(seed))
        finalists: list[Any] = trials.ranking()[:FINALISTS]
        timed = [
            (statistics.median(one), state)
            for state, one in zip(finalists, runner.rounds(finalists, ROUNDS), strict=True)
            if one
        ]
    if not timed:
        failed = next((m for m in trials.results.values() if m.outcome != "ok"), None)
        why = f"{failed.outcome}: {failed.detail}" if failed else "the best could not be run whole, or were wrong"
        raise session.Refused(f"{name(problem)}: {why}")
    seconds, best = min(timed)
    with contextlib.closing(LiveRunner(problem, seed)) as runner:
        (library,) = runner.rounds([rules.config(problem)], ROUNDS)
    return Outcome(
        problem.m,
        problem.n,
        problem.k,
        best,
        seconds,
        trials.results[space.start].seconds,  # type: ignore[index]
        statistics.median(library) if library else math.nan,
        len(trials.results),
        len(space),
        strategy.name,
        seed,
        today(),
        cpu.key(),
        kernels.kernel_hash(),
    )


def said(problem: Problem, outcome: Outcome) -> str:
    """Return a line about the best."""
    share = 100 * outcome.trials / outcome.states
    return (
        f"{name(problem)}: {outcome.state}, {duration(outcome.seconds)} after {outcome.trials} trials "
        f"({share:.2g} % of {outcome.states} states); untiled {duration(outcome.untiled_seconds)}, "
        f"the library's own plan {duration(outcome.plan_seconds)}"
    )


def log_of(database: Path) -> Path:
    """Path of the log of outcomes that belongs to a database file."""
    return lines.beside(database, "nested")


def run(problems: Sequence[Problem], options: Namespace) -> int:
    """Search each problem's tilings, print and log what was found; return the exit status."""
    strategy = strategies.load(options.strategy)
    path = log_of(session.database_file(options))
    session.check_writable(path)
    deadline = math.inf if options.seconds is None else time.monotonic() + options.seconds
    print(f"nested tilings on {cpu.key()}, strategy {strategy.name}; the library's calls do not run this way")
    done = 0
    with report.Watch(len(problems), options.quiet, deadline) as watch:
        try:
            for index, problem in enumerate(problems):
                left = deadline - time.monotonic()
                if left <= 0:
                    watch.warn(f"out of time: {len(problems) - index} problems left")
                    break
                budget = driver.Budget(options.trials or strategy.trials)
                budget.deadline = time.monotonic() + left / (len(problems) - index)
                watch.begin(problem, budget.trials)
                outcome = found(problem, strategy, budget, options.seed, watch.trial)
                print(said(problem, outcome), flush=True)
                _keep(path, outcome)
                done += 1
        except KeyboardInterrupt:
            watch.warn(f"stopped; the outcomes of {done} finished problems are in {path}")
            return 130
    print(f"log: {path}")
    return 0


def _keep(path: Path, outcome: Outcome) -> None:
    try:
        lines.append(path, [outcome.fields()])
    except OSError as error:
        raise session.Refused(f"stopped, because the outcome cannot be kept: {path}: {error.strerror}") from None
