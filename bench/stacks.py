"""Which family computes stacks of tiny products?

    python bench/stacks.py                                       # every type, AVX2, AVX-512, and both: ten minutes
    python bench/stacks.py --dtype float64 int32 --tier v3 --layout nn nt
    python bench/stacks.py --dtype float64 --times stacks.json   # keeps the times; again, it reads them from there

Times the ways of `fastgemm.heuristic.stacks` (small's kernels, dot products, a row by a matrix for single rows, blocks
for more) beside what the other rules choose, one thread, as many items as L2 holds.  Single rows by matrices of 1 to
128 columns and steps, whose rows are adjacent (layout n) or whose columns are (t); and products of 2 to 8 in each
dimension, of all layouts.  Tiers are measured by themselves, and, where the CPU computes its longest vectors in two
halves, both together ("halved").  Prints the rules that these times make, as `stacks` holds them, each with the gain
over the other rules in the mean, the least and the most; and after them their mean gain, and the mean of what the
fastest way of each product would gain.
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
from fastgemm.heuristic import measured, rules, stacks
from fastgemm.problem import Config, Problem, normalised

TYPES = (
    "float32", "float64", "int32", "int64", "int16", "int8", "bool", "float16", "bfloat16", "int8:int32", "complex64",
    "complex128",
)  # fmt: skip
LAYOUTS = ("n", "t", "nn", "nt", "tn", "tt")
# The first of each class of columns, rows or steps, and those that stand for it.  (Whole vectors by themselves.)
FEW = {size: (size,) for size in range(1, 9)}
SIDES = {
    **FEW, 9: (10, 12), 13: (14,), 16: (16,), 17: (20, 24), 25: (28, 30), 32: (32,), 33: (40, 48), 49: (60,), 64: (64,),
    65: (100, 128),
}  # fmt: skip
ONE_ROW = {1: (1,)}
OTHERS = ""  # the rules beside these
# By short vectors, and by long ones.
WAYS = {
    measured.SHORT_GEMV: measured.GEMV, measured.SHORT_SMALL: measured.SMALL, measured.SHORT_DOTS: measured.DOTS,
    measured.SHORT_BLOCKS: measured.BLOCKS,
}  # fmt: skip
OPERANDS = 200 << 10  # bytes of a stack's, of as many items as there are in `ITEMS` at most
ITEMS = 200
LOOP = 1e-4  # seconds
# What a way must gain besides: an item is a few nanoseconds; and twice as many instructions, of short vectors, suffer
# from a neighbour on the core's other thread.
ITEM, ALONE = 0.03, 0.04
# What a rule must bring, a sum of logarithms: five percent of six classes, or a third of a single one; and all rules of
# a layout together, in the mean.
LEAST_GAIN, LEAST_MEAN = 0.3, 1.005


def sides(layout: str) -> tuple[dict[int, tuple[int, ...]], ...]:
    """Return the classes of columns, rows and steps of products of a layout."""
    several = {first: sizes for first, sizes in FEW.items() if first > 1}
    return (SIDES, ONE_ROW, SIDES) if len(layout) == 1 else (several, several, FEW)


def ways(tier: str, layout: str) -> tuple[str, ...]:
    """Return the ways of a tier, or of two, the other rules' first."""
    left_out = measured.BLOCKS if len(layout) == 1 else measured.GEMV
    found = {short: long for short, long in WAYS.items() if long != left_out}
    return (OTHERS, *found.values(), *(found if tier == stacks.HALVED else ()))


def configs(problem: Problem, tier: str, names: Sequence[str]) -> Iterator[tuple[str, Config]]:
    """Yield the ways that a problem can be computed by, with the configuration of each."""
    half, longest = kernels.half_isa(), kernels.active_isa()
    for way in names:
        with stacks.forced(way):
            config = rules.config(problem, None if tier == stacks.HALVED else registry.isa(tier))
        vectors = (half if way in WAYS else longest) if tier == stacks.HALVED else registry.isa(tier)
        of_way = vectors is not None and config.isa == vectors.name and measured.computes(config, way)
        if way == OTHERS or (of_way and config.misfit(problem) is None):
            yield way, config


def times_of(row: registry.DType, layout: str, tier: str, seconds: float, rounds: int) -> np.ndarray:
    """Return the logarithms of seconds: ways, columns, rows, steps, and one of two kinds of those.

    The means of a class, of each product the least of all rounds; NaN where calls look a product up by another name.
    """
    names, classes = ways(tier, layout), sides(layout)
    all_sides = [[(i, size) for i, sizes in enumerate(one.values()) for size in sizes] for one in classes]
    took = np.full((len(names), *map(len, all_sides)), np.inf)
    with progress.bar(f"{row.name} {layout} {tier}", rounds * len(all_sides[0])) as bar:
        for _, (i, (_, n)) in itertools.product(range(rounds), enumerate(all_sides[0])):
            bar.step(f"{n} columns")
            for (r, (_, m)), (j, (_, k)) in itertools.product(enumerate(all_sides[1]), enumerate(all_sides[2])):
                size = (m * k + k * n + m * n) * row.stored_bytes * row.parts
                problem = Problem(row.name, m, n, k, max(2, min(ITEMS, OPERANDS // size)), layout.rjust(2, "n"))
                if problem != normalised(problem):
                    took[:, i, r, j] = np.nan
                    continue
                found = dict(configs(problem, tier, names))
                times = timed(problem, list(dict.fromkeys(found.values())), seconds, LOOP)
                for way, config in found.items():
                    cell = names.index(way), i, r, j
                    took[cell] = min(took[cell], np.log(times[config]))
    whole = np.full((len(names), *map(len, classes), 2), np.nan)
    for cell in itertools.product(*(range(len(one)) for one in classes)):
        of_class = ([at for at, (c, _) in enumerate(one) if c == i] for one, i in zip(all_sides, cell, strict=True))
        whole[(slice(None), *cell, 0)] = took[np.ix_(range(len(names)), *of_class)].mean(axis=(1, 2, 3))
    return whole


def lines(row: registry.DType, layout: str, tier: str, took: np.ndarray) -> Iterator[str]:
    """Yield the rules as `stacks` holds them, the first that fits counting, with the gain of each."""
    names, classes = ways(tier, layout), sides(layout)
    dearer = [ITEM * (way != OTHERS) + ALONE * (way in WAYS) for way in names]
    found = boxes.fitted(took, names, dearer, LEAST_GAIN)
    if np.exp(np.nanmean(took[0] - boxes.chosen(took, names, found))) < LEAST_MEAN:
        found = []
    kind = f"{layout}-{tier}"
    for box, gain in boxes.gains(took, names, found):
        told = [boxes.side([*one], part) for one, part in zip(classes, box, strict=False)]
        way = box.way or measured.NO_WAY
        yield f"{row.name:<6} {kind:<9} {told[0]:>6} {told[1]:>5} {told[2]:>6}  {way:<12} {boxes.told(gain)}"
    yield f"# {row.name} {kind}: {boxes.totals(took, names, found)}"


def tiers() -> list[str]:
    """Return the tiers that can be measured here, both together last."""
    found = [tier.name for tier in kernels.runnable() if tier.vector_bytes > 16]
    return found + [stacks.HALVED] * (kernels.half_isa() is not None)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    made = boxes.command_line(__doc__, TYPES, LAYOUTS, seconds=0.004, rounds=1)
    made.add_argument("--tier", nargs="+", choices=tiers(), default=tiers(), help="default: all that this CPU has")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the rules."""
    options = parser().parse_args(arguments)
    if options.rounds < 1 or not options.seconds > 0:
        parser().error("rounds and seconds must be above zero")
    for tier in kernels.runnable():
        kernels.load(tier.name)
    times = boxes.Times(options.times)
    for dtype, tier, layout in itertools.product(options.dtype, options.tier, options.layout):
        row = registry.dtype(dtype)
        measure = partial(times_of, row, layout, tier, options.seconds, options.rounds)
        print("\n".join(lines(row, layout, tier, times.get(f"{dtype} {layout}-{tier}", measure))), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
