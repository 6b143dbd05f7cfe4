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
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import progress
from sweep import timed

from fastgemm import kernels, registry
from fastgemm.heuristic import half_narrow, rules
from fastgemm.problem import Config, Problem
from fastgemm.tune import shapes

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
FLOPS = 2e7  # of a loop: short ones, so that a neighbour's work meets all ways alike
LEAST_GAIN = 1.0  # that a rule must bring, in sums of logarithms: five percent of twenty products
LOSS = 2.0  # by which a product counts that a rule makes slower
# What short vectors must gain besides: twice as many instructions suffer from a neighbour on the core's other thread.
ALONE = 0.04


class Box(NamedTuple):
    """A rule: classes of columns, rows and steps, from one to before the other, and its way."""

    columns: slice
    rows: slice
    steps: slice
    paged: bool
    way: str

    @property
    def where(self) -> tuple[slice, slice, slice, slice | int]:
        """The index of its times."""
        return self.columns, self.rows, self.steps, 1 if self.paged else slice(None)


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
        short = way in half_narrow.OF_SHORT_VECTORS
        tier = kernels.half_isa() if short else kernels.active_isa()
        of_way = tier is not None and config.isa == tier.name and half_narrow.computes(config, way)
        if way == OTHERS or (of_way and config.misfit(problem) is None):
            yield way, config


def measured(row: registry.DType, layout: str, seconds: float, rounds: int) -> np.ndarray:
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
                    found = dict.fromkeys(half_narrow.OF_DOTS, found[OTHERS]) | found
                times = timed(problem, list(dict.fromkeys(found.values())), seconds, FLOPS)
                for way, config in found.items():
                    cell = ALL_WAYS.index(way), i, j, s
                    took[cell] = min(took[cell], np.log(times[config]))
    return took.reshape(len(ALL_WAYS), len(COLUMNS), len(ROWS), -1, len(STEPS), 2).mean(axis=3)


def fitted(took: np.ndarray) -> list[Box]:
    """Return rules, of which a later one counts before an earlier one: the one that gains most, and so on."""
    took = took + np.array([ALONE * (way in half_narrow.OF_SHORT_VECTORS) for way in ALL_WAYS]).reshape(-1, 1, 1, 1, 1)
    now = took[0].copy()
    found: list[Box] = []
    while True:
        best = (LEAST_GAIN, Box(slice(0), slice(0), slice(0), False, OTHERS))
        for w, paged in itertools.product(range(len(ALL_WAYS)), (False, True)):
            gain = np.nan_to_num(now - took[w], nan=0.0, neginf=-9.0)
            gain = np.where(took[w] > took[0], gain * LOSS, gain)
            gain = gain[..., 1] if paged else gain.sum(axis=-1)
            table = np.zeros(np.add(gain.shape, 1))
            table[1:, 1:, 1:] = gain.cumsum(0).cumsum(1).cumsum(2)
            best = max(best, *_boxes(table, paged, ALL_WAYS[w]), key=lambda one: one[0])
        if best[0] <= LEAST_GAIN:
            return found
        found.append(best[1])
        now = _chosen(took, found)


def _boxes(table: np.ndarray, paged: bool, way: str) -> Iterator[tuple[float, Box]]:
    # The best of all boxes, of a table of sums: one for each range of columns and rows.
    sides = [list(itertools.combinations(range(size), 2)) for size in table.shape]
    for (a, b), (c, d) in itertools.product(sides[0], sides[1]):
        line = table[b, d] - table[a, d] - table[b, c] + table[a, c]
        sums = line[None, :] - line[:, None]
        e, f = np.unravel_index(np.argmax(np.triu(sums, 1)), sums.shape)
        yield float(sums[e, f]), Box(slice(a, b), slice(c, d), slice(int(e), int(f)), paged, way)


def _chosen(took: np.ndarray, found: Sequence[Box]) -> np.ndarray:
    # The logarithms of seconds, by rules.
    now = took[0].copy()
    for box in found:
        now[box.where] = took[ALL_WAYS.index(box.way)][box.where]
    return now


def lines(row: registry.DType, layout: str, took: np.ndarray, found: Sequence[Box]) -> Iterator[str]:
    """Yield the rules as `half_narrow` holds them, the first that fits counting, with the gain of each."""
    firsts = [[*COLUMNS, None], [*ROWS, None], [*STEPS, None]]
    used = np.zeros(took.shape[1:], bool)
    for box in reversed(found):
        gain = (took[0] - took[ALL_WAYS.index(box.way)])[box.where][~used[box.where]]
        gain = np.exp(gain[np.isfinite(gain)])
        used[box.where] = True
        if not gain.size:
            continue
        sides = [
            f"{first[side.start]}-{'' if first[side.stop] is None else first[side.stop] - 1}"
            for first, side in zip(firsts, (box.columns, box.rows, box.steps), strict=True)
        ]
        mean = np.exp(np.log(gain).mean())
        told = f"{row.name:<4} {layout} {sides[0]:>6} {sides[1]:>8} {sides[2] + ('p' if box.paged else ''):>10}"
        yield f"{told}  {box.way or half_narrow.NO_WAY:<12} {mean:5.2f} {gain.min():5.2f} {gain.max():5.1f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the rules."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtype", nargs="+", type=shapes.type_named, default=[*map(shapes.type_named, TYPES)])
    parser.add_argument("--layout", nargs="+", choices=("nn", "nt"), default=["nn", "nt"], help="default: both")
    parser.add_argument("--seconds", type=float, default=0.02, help="of a product (default: 0.02)")
    parser.add_argument("--rounds", type=int, default=2, metavar="N", help="through all products (default: 2)")
    parser.add_argument("--times", type=Path, metavar="FILE", help="times that were kept, or where to keep them")
    options = parser.parse_args(arguments)
    if options.rounds < 1 or not options.seconds > 0:
        parser.error("rounds and seconds must be above zero")
    tier = kernels.active_isa()
    if tier is None or kernels.half_isa() is None:
        parser.error("calls use one tier on this CPU")
    kernels.load(tier.name)
    kept = json.loads(options.times.read_text()) if options.times and options.times.exists() else {}
    for dtype, layout in itertools.product(options.dtype, options.layout):
        row, key = registry.dtype(dtype), f"{dtype} {layout}"
        if key not in kept:
            kept[key] = measured(row, layout, options.seconds, options.rounds).tolist()
            if options.times:
                options.times.write_text(json.dumps(kept))
        took = np.array(kept[key])
        found = fitted(took)
        print("\n".join(lines(row, layout, took, found)))
        total, most = took[0] - _chosen(took, found), took[0] - took.min(axis=0)
        print(f"# {key}: {np.exp(np.nanmean(total)):.3f} of {np.exp(np.nanmean(most)):.3f}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
