"""Which way computes products of few columns, on a CPU that computes its longest vectors in two halves?

    python bench/few_columns.py                                  # every type, both layouts: some fifteen minutes
    python bench/few_columns.py --dtype int16 float32 --layout nt
    python bench/few_columns.py --dtype int16 --times few.json   # keeps the times; again, it reads them from there

Times each way of `fastgemm.heuristic.half_narrow` (dot products, blocks and small's kernels, of long and of short
vectors) beside what the other rules choose, one thread, for 2 to 12 columns by rows and steps of every size, and
prints the rules that these times make, as `half_narrow` holds them: boxes of columns, rows and steps with the way that
is fastest in the mean, each with the gain over the other rules in the mean, the least and the most.  After a type's
rules come its totals: the mean gain, and the mean of what the fastest way of each product would gain.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from functools import partial

import boxes
import numpy as np
import progress
from sweep import timed

from fastgemm import kernels, registry
from fastgemm.heuristic import half_narrow, measured, rules
from fastgemm.problem import Config, Problem

TYPES = ("float32", "float64", "int32", "int64", "int16", "int8", "bool", "float16", "complex64", "complex128")
# The first of each class of rows and steps, and those that stand for it.  (Tall tiles suit some rows and not others.
# Steps begin where other rules have their thresholds.)
ROWS = {
    2: (2, 3), 4: (4, 6), 8: (8, 12), 16: (16, 24), 32: (32, 48), 64: (64, 96), 128: (128, 200), 400: (500, 1000),
}  # fmt: skip
STEPS = {16: 20, 32: 32, 48: 56, 64: 64, 96: 100, 128: 128, 192: 240, 384: 480, 768: 960, 1536: 1920}
COLUMNS = tuple(range(2, 13))
OTHERS = ""  # the rules beside these
ALL_WAYS = (OTHERS, *half_narrow.WAYS)
LOOP = 2e-4  # seconds of a loop: short ones, so that a neighbour's work meets all ways alike
LEAST_GAIN = 1.0  # that a rule must bring, in sums of logarithms: five percent of twenty products
# What short vectors must gain besides: twice as many instructions suffer from a neighbour on the core's other thread.
ALONE = 0.04


def steps_of(row: registry.DType) -> list[tuple[int, bool]]:
    """Return steps of k for a type, and for each whether rows of A lie whole halves of pages apart."""
    found = []
    for k in STEPS.values():
        page = half_narrow.HALF_PAGE // (row.stored_bytes * row.parts)
        paged = next((k + more for more in range(k // 8) if (k + more) % page == 0), None)
        found.append((k if k % page else k - 4, False))
        found.append((paged or k, paged is not None))
    return found


def configs(problem: Problem) -> Iterator[tuple[str, Config]]:
    """Yield the ways that a problem can be computed by, the other rules' first, with the configuration of each."""
    for way in ALL_WAYS:
        with half_narrow.forced(way):
            config = rules.config(problem)
        short = way in measured.OF_SHORT_VECTORS
        tier = kernels.half_isa() if short else kernels.active_isa()
        of_way = tier is not None and config.isa == tier.name and measured.computes(config, way)
        if way == OTHERS or (of_way and config.misfit(problem) is None):
            yield way, config


def times_of(row: registry.DType, layout: str, seconds: float, rounds: int) -> np.ndarray:
    """Return the logarithms of seconds: ways, columns, rows, steps, and whether those are whole halves of pages.

    The means of a class's rows, of each the least of all rounds.  Infinity where a way does not compute a product, NaN
    where no class has such steps.
    """
    steps, rows = steps_of(row), [m for of_class in ROWS.values() for m in of_class]
    took = np.full((len(ALL_WAYS), len(COLUMNS), len(rows), len(steps)), np.inf)
    with progress.bar(f"{row.name} {layout}", rounds * len(COLUMNS) * len(rows)) as bar:
        for _, (i, n), (j, m) in itertools.product(range(rounds), enumerate(COLUMNS), enumerate(rows)):
            bar.step(f"{m} x {n}")
            for s, (k, paged) in enumerate(steps):
                if s % 2 and not paged:
                    took[:, i, j, s] = np.nan
                    continue
                problem = Problem(row.name, m, n, k, layout=layout)
                found = dict(configs(problem))
                if n > m:
                    # (Their rule is left out then.)
                    found = dict.fromkeys(measured.OF_DOTS, found[OTHERS]) | found
                times = timed(problem, list(dict.fromkeys(found.values())), seconds, LOOP)
                for way, config in found.items():
                    cell = ALL_WAYS.index(way), i, j, s
                    took[cell] = min(took[cell], np.log(times[config]))
    return took.reshape(len(ALL_WAYS), len(COLUMNS), len(ROWS), -1, len(STEPS), 2).mean(axis=3)


def fitted(took: np.ndarray) -> list[boxes.Box]:
    """Return rules, of which a later one counts before an earlier one."""
    dearer = [ALONE * (way in measured.OF_SHORT_VECTORS) for way in ALL_WAYS]
    return boxes.fitted(took, ALL_WAYS, dearer, LEAST_GAIN)


def lines(row: registry.DType, layout: str, took: np.ndarray, found: Sequence[boxes.Box]) -> Iterator[str]:
    """Yield the rules as `half_narrow` holds them, the first that fits counting, with the gain of each."""
    for box, gain in boxes.gains(took, ALL_WAYS, found):
        columns, rows = boxes.side(COLUMNS, box.columns), boxes.side([*ROWS], box.rows)
        steps = boxes.side([*STEPS], box.steps) + ("p" if box.second else "")
        way = box.way or measured.NO_WAY
        yield f"{row.name:<4} {layout} {columns:>6} {rows:>8} {steps:>10}  {way:<12} {boxes.told(gain)}"


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    return boxes.command_line(__doc__, TYPES, ("nn", "nt"), seconds=0.02, rounds=2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the rules."""
    options = parser().parse_args(arguments)
    if options.rounds < 1 or not options.seconds > 0:
        parser().error("rounds and seconds must be above zero")
    tier = kernels.active_isa()
    if tier is None or kernels.half_isa() is None:
        parser().error("calls use one tier on this CPU")
    kernels.load(tier.name)
    times = boxes.Times(options.times)
    for dtype, layout in itertools.product(options.dtype, options.layout):
        row = registry.dtype(dtype)
        took = times.get(f"{dtype} {layout}", partial(times_of, row, layout, options.seconds, options.rounds))
        found = fitted(took)
        print("\n".join(lines(row, layout, took, found)))
        print(f"# {dtype} {layout}: {boxes.totals(took, ALL_WAYS, found)}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
