"""Kernels for single shapes: compiled, checked, timed against the plan of today, and recorded where they win.

A small product spends its time on loops, masks and strides that a kernel with constants for them does not have.  The
kernels of all shapes are compiled first, in few modules, because starting the compiler takes longer than a kernel;
then each shape is judged in pairs by a worker process, which also survives a kernel that does not.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import statistics
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from .. import cpu, dispatch, kernels, registry, special
from ..heuristic import rules
from ..problem import Config, Problem, Record
from ..special_shapes import Special
from . import compile as building
from . import driver
from .compare import GAIN, P_VALUE, SEMIFINAL_ROUNDS, judge
from .journal import Entry
from .live import LiveRunner
from .measure import Runner
from .words import today

Say = Callable[[str], None]

# Unrolled over k, a larger product has more code than the cache of instructions holds, and nothing to gain:
# f32 32x32x32 6 %, against 2.5 times at 4x4x4.
MOST = 48
MODULE_SHAPES = 48
ROUNDS = 21
# The compiler's own words are for all kernels of a module, and are said when it fails.
NOT_COMPILED = "its kernel was not compiled"


def misfit(problem: Problem) -> str | None:
    """Say why a problem gets no kernel of its own; None where it may.

    Examples
    --------
    >>> misfit(Problem("f32", 8, 8, 8)) is None
    True
    >>> misfit(Problem("f32", 8, 8, 8, layout="nt"))
    'only where B has adjacent columns and A adjacent rows or columns'
    """
    if not registry.is_special(problem.row):
        return "only for floating-point and complex numbers of 32 and 64 bits a component"
    if special.shape_of(problem) is None:
        return "only where B has adjacent columns and A adjacent rows or columns"
    if min(problem.m, problem.n) == 1:
        return "a product with a vector streams a matrix: its shape makes no difference"
    if max(problem.m, problem.n, problem.k) > MOST:
        return f"only to {MOST} in each dimension; larger products gain nothing"
    return None


def compiled(problems: Sequence[Problem], isa: str, say: Say, warn: Say) -> dict[Special, list[str]]:
    """Compile kernels for the shape of each problem; return their modules.

    There are two of a shape whose rows of C are short: one row a vector, and several.  `say` is told what is done,
    `warn` what has failed.

    Raises
    ------
    fastgemm.tune.compile.Unavailable
        If nothing can be compiled here.
    """
    tier = registry.isa(isa)
    shapes = dict.fromkeys(shape for shape in map(special.shape_of, problems) if shape)
    groups: dict[tuple[int, bool], list[Special]] = {}
    for shape in shapes:
        groups.setdefault((shape.vector_bytes(tier), False), []).append(shape)
        if shape.narrow(tier):
            groups.setdefault((tier.vector_bytes, True), []).append(shape)
    parts = [
        (group[at : at + MODULE_SHAPES], narrow)
        for (_, narrow), group in groups.items()
        for at in range(0, len(group), MODULE_SHAPES)
    ]
    made: dict[Special, list[str]] = {}
    for number, (part, narrow) in enumerate(parts, 1):
        say(f"compiling {len(part)} kernels, module {number} of {len(parts)}")
        try:
            name = building.make(part, isa, narrow)
        except building.Failed as error:
            warn(f"not compiled: {error}")
            continue
        for shape in part:
            made.setdefault(shape, []).append(name)
    return made


def single(config: Config) -> Config:
    """Return the configuration with whole products computed by one thread each."""
    return config if config.threads == 1 or config.split == "batch" else config.replace(threads=1, split="n")


def tune(problem: Problem, base: Config, names: Sequence[str], runner: Runner, around: Config | None = None) -> Entry:
    """Judge a problem's own kernels, in modules of these names, against the configuration of today.

    They run within `around`, of the tier that they are compiled for; by default within `base`, that of today.

    Returns
    -------
    Entry
        Confirmed, rejected or failed; its baseline is the heuristic's time in the same rounds, as in every record.
    """
    candidates = [single(around or base).replace(special=name) for name in names]
    found = runner.measure(candidates)
    ran = [m.config for m in found if m.outcome == "ok"]
    failed = [m for m in found if m.outcome != "ok"]
    about = Entry(problem, "failed", candidates[0], trials=len(found), strategy="specialize", date=today())
    if failed:
        about = dataclasses.replace(about, failures=len(failed), detail=f"{failed[0].outcome}: {failed[0].detail}")
    if not ran:
        return about
    config = ran[0]
    if len(ran) > 1:
        samples = runner.rounds(ran, SEMIFINAL_ROUNDS)
        config = min(zip(samples, ran, strict=True), key=lambda pair: statistics.median(pair[0] or [math.inf]))[1]
    about = dataclasses.replace(about, config=config)
    start = rules.config(problem)
    configs = list(dict.fromkeys([config, base, start]))
    timed = dict(zip(configs, runner.rounds(configs, ROUNDS), strict=True))
    if not all(timed.values()):
        return dataclasses.replace(about, detail="the final could not be timed")
    verdict, untuned = judge(config, timed[config], timed[base]), judge(config, timed[config], timed[start])
    won = verdict.confirmed and untuned.p < P_VALUE and untuned.gain >= GAIN
    return dataclasses.replace(driver.judged(about, verdict, won), baseline_seconds=untuned.baseline_seconds)


def run(
    problems: Sequence[Problem], path: Path, options: Namespace, say: Say, warn: Say
) -> Iterator[tuple[Entry, Record | None]]:
    """Compile for all problems, then judge one after the other; yields each result with the record that it replaces."""
    tier = kernels.active_isa()
    assert tier is not None
    fit = []
    for problem in problems:
        if why := misfit(problem):
            warn(f"no kernel for {problem.m}x{problem.n}x{problem.k}: {why}")
        else:
            fit.append(problem)
    if problems and not fit:
        raise building.Unavailable("none of the shapes may have a kernel of its own")
    modules = compiled(fit, tier.name, say, warn)
    recorded = driver.recorded(path, cpu.key(), kernels.kernel_hash())
    for problem in fit:
        shape = special.shape_of(problem)
        known = recorded.get(problem)
        base = (known.config if known else dispatch.resolve(problem).config).replace(special="")
        if base.family == "numpy" or base.misfit(problem):
            base = rules.config(problem)
        if shape not in modules:
            yield Entry(problem, "failed", base, strategy="specialize", date=today(), detail=NOT_COMPILED), None
            continue
        around = base if base.isa == tier.name else rules.config(problem, tier)
        with contextlib.closing(LiveRunner(problem, options.seed)) as runner:
            entry = tune(problem, base, modules[shape], runner, around)
        # What was found before stays where the kernel is not better.
        yield entry, known if entry.status == "confirmed" else None
