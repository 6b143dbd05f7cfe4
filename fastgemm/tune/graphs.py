"""Tuning a graph's products where they are: which problems it asks for, and whether the graph as a whole gains.

A compiled graph resolves its products when it first runs, members of chains by their rows and layers with what follows
them.  That is watched, so what is tuned is what runs: a problem a product, whatever the passes have made of it.  Once
there are records the graph is lowered anew, for panels may be wider or narrower, and timed in turn with what it was.
"""

from __future__ import annotations

import operator
import statistics
import time
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import cpu, database, dispatch, graph, kernels
from ..graph.compiled import CompiledGraph
from ..problem import Problem, Record
from .shapes import ShapeError

ROUNDS = 15
ROUND_SECONDS = 20e-3
# Of the pairs' median: what is slower than this is no noise, and its records are taken out again.
SLOWER = 0.98


@dataclass(frozen=True)
class Tuned:
    """What tuning a graph came to.

    Attributes
    ----------
    problems : tuple of Problem
        What the graph asks for, that which took most first.
    records : tuple of Record
        Those of them that calls are routed by now.
    before, after : float
        Seconds of a call of the graph, timed in turn, without the new records and with them.
    gain : float
        Median of before / after over the pairs; 1.0 where nothing was recorded.
    kept : bool
        False where the graph as a whole came out slower, so that the new records were taken out again.
    """

    problems: tuple[Problem, ...]
    records: tuple[Record, ...]
    before: float
    after: float
    gain: float
    kept: bool


def problems(compiled: CompiledGraph) -> list[Problem]:
    """Return the problems of a graph's products, each once, the longest first.

    Examples
    --------
    >>> import numpy as np
    >>> from fastgemm import graph
    >>> from fastgemm.tune.graphs import problems
    >>> build = graph.Builder("layer")
    >>> x = build.input("x", (32, 64), "float32")
    >>> build.output(build.relu(x @ np.ones((64, 48), "f4")), "y")
    >>> [(p.m, p.n, p.k, p.layout, p.epilogue) for p in problems(graph.compile(build.graph(), threads=1))]
    [(32, 48, 64, 'np', 'relu')]
    """
    again = compiled.again()
    with dispatch.watched() as seen:
        again.run(inputs(compiled))
    found = dict.fromkeys(problem for problem, _ in seen)
    return sorted(found, key=lambda problem: -problem.flops)


def inputs(compiled: CompiledGraph) -> dict[str, np.ndarray[Any, Any]]:
    """Return arrays for a graph's inputs: random floats and bytes, zeros of what may be an index."""
    rng = np.random.default_rng(0)
    made: dict[str, np.ndarray[Any, Any]] = {}
    for name in compiled.graph.inputs:
        value = compiled.graph.values[name]
        if value.dtype.kind in "iu" and value.dtype.itemsize == 1:
            made[name] = rng.integers(0, 100, value.shape).astype(value.dtype)
        elif value.dtype.kind in "iub":
            made[name] = np.zeros(value.shape, value.dtype)
        else:
            made[name] = rng.standard_normal(value.shape).astype(value.dtype)
    return made


def from_file(path: Path, threads: int, batch: int | None = None) -> list[Problem]:
    """Return the problems of the graph in an ONNX file; `ShapeError` where it cannot be read."""
    try:
        return problems(graph.compile(graph.from_onnx(path, batch=batch), threads=threads))
    except (OSError, ValueError, ImportError) as error:
        raise ShapeError(f"{path}: {error}") from None


def tune(compiled: CompiledGraph, options: Namespace) -> Tuned:
    """Tune a graph's products, and keep the records if the graph gains by them.

    `options` are those of the command, see `fastgemm.tune.__main__`.

    Raises
    ------
    ValueError
        For options that the command would refuse.
    KeyboardInterrupt, fastgemm.tune.session.Refused
        What stopped the run; the problems that were finished before have their records, which the graph does not use
        yet.
    """
    from . import driver, session

    _check(options)
    asked = problems(compiled)
    path = session.database_file(options)
    earlier = dispatch.tuned()
    known = driver.recorded(path, cpu.key(), kernels.kernel_hash())
    if stopped := session.tune(asked, options).stopped:
        raise stopped
    dispatch.reload()
    now = driver.recorded(path, cpu.key(), kernels.kernel_hash())
    new = [now[p] for p in asked if p in now and now[p] != known.get(p)]
    read = [record for p in asked if (record := dispatch.tuned().exact(p)) is not None]
    if not new or any(record not in read for record in new):
        compiled.renew()
        return Tuned(tuple(asked), tuple(read), *_seconds(compiled), 1.0, True)
    pairs = _pairs(compiled, earlier, dispatch.tuned())
    gain = statistics.median(before / after for before, after in pairs)
    if kept := gain >= SLOWER:
        compiled.renew()
    else:
        database.remove(path, new, cpu=cpu.key())
        database.write(path, [known[r.problem] for r in new if r.problem in known], cpu=cpu.key())
        dispatch.reload()
        read = [record for record in read if record not in new]
    before, after = (statistics.median(column) for column in zip(*pairs, strict=True))
    return Tuned(tuple(asked), tuple(read), before, after, gain, kept)


def _check(options: Namespace) -> None:
    """Refuse what a command line could not say."""
    if options.seconds is not None and not options.seconds > 0:
        raise ValueError(f"seconds must be above zero, not {options.seconds}")
    if options.trials is not None and operator.index(options.trials) < 1:
        raise ValueError(f"trials must be above zero, not {options.trials}")


def _seconds(compiled: CompiledGraph) -> tuple[float, float]:
    given = inputs(compiled)
    number = _calls(compiled, given)
    seconds = statistics.median(_sample(compiled, given, number) for _ in range(3))
    return seconds, seconds


def _pairs(compiled: CompiledGraph, before: database.Database, after: database.Database) -> list[tuple[float, float]]:
    """Seconds of a call with either database, in turn: each has a program of its own, whose weights it has packed."""
    given, sides = inputs(compiled), []
    for known in (before, after):
        with dispatch.using(known):
            program = compiled.again()
            program.run(given)
        sides.append((known, program))
    number = _calls(compiled, given)
    found = []
    for turn in range(ROUNDS):
        times = {}
        for at in (0, 1) if turn % 2 else (1, 0):
            known, program = sides[at]
            with dispatch.using(known):
                program.run(given)
                times[at] = _sample(program, given, number)
        found.append((times[0], times[1]))
    return found


def _calls(compiled: CompiledGraph, given: Mapping[str, Any]) -> int:
    # The least of some: the first ones wake threads, and may wait for one that is not running.
    seconds = min(_sample(compiled, given, 1) for _ in range(5))
    return max(1, min(1000, int(ROUND_SECONDS / seconds)))


def _sample(compiled: CompiledGraph, given: Mapping[str, Any], number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        compiled.run(given)
    return (time.perf_counter() - start) / number
