"""Which family computes single rows by the matrices of a stack?

    python bench/stack_rows.py                                   # every type, AVX2, AVX-512, and both: ten minutes
    python bench/stack_rows.py --dtype float64 int32 --tier v3
    python bench/stack_rows.py --dtype float64 --times rows.json     # keeps the times; again, it reads them from there

Times the ways of `fastgemm.heuristic.stack_rows` (a row by a matrix, small's kernels, dot products) beside what the
other rules choose, one thread, as many items as L2 holds, for 1 to 128 columns and steps, of matrices whose rows are
adjacent (n) and whose columns are (t).  Tiers are measured by themselves, and, where the CPU computes its longest
vectors in two halves, both together ("halved").  Prints the rules that these times make, as `stack_rows` holds them,
each with the gain over the other rules in the mean, the least and the most; and after them their mean gain, and the
mean of what the fastest way of each product would gain.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import boxes
import numpy as np
import progress
from sweep import timed

from fastgemm import kernels, registry
from fastgemm.heuristic import half_narrow, rules, stack_rows
from fastgemm.problem import Config, Problem, normalised
from fastgemm.tune import shapes

TYPES = (
    "float32", "float64", "int32", "int64", "int16", "int8", "bool", "float16", "bfloat16", "int8:int32", "complex64",
    "complex128",
)  # fmt: skip
# The first of each class of columns or steps, and those that stand for it.  (Whole vectors by themselves.)
SIDES = {
    **{size: (size,) for size in range(1, 9)}, 9: (10, 12), 13: (14,), 16: (16,), 17: (20, 24), 25: (28, 30),
    32: (32,), 33: (40, 48), 49: (60,), 64: (64,), 65: (100, 128),
}  # fmt: skip
OTHERS = ""  # the rules beside these
WAYS = (half_narrow.GEMV, half_narrow.SMALL, half_narrow.DOTS)
SHORT_WAYS = (half_narrow.SHORT_GEMV, half_narrow.SHORT_SMALL, half_narrow.SHORT_DOTS)
MATRICES = 200 << 10  # bytes of a stack's, of as many items as there are in `ITEMS` at most
ITEMS = 200
FLOPS = 4e5  # of a loop: a tenth of a millisecond and more
ITEM = 0.03  # what a way must gain besides: an item is a few nanoseconds
LEAST_GAIN = 0.3  # that a rule must bring, in sums of logarithms: five percent of six classes


def ways(tier: str) -> tuple[str, ...]:
    """Return the ways of a tier, or of two, the other rules' first."""
    return (OTHERS, *WAYS, *(SHORT_WAYS if tier == stack_rows.HALVED else ()))


def configs(problem: Problem, tier: str) -> Iterator[tuple[str, Config]]:
    """Yield the ways that a problem can be computed by, with the configuration of each."""
    half, longest = kernels.half_isa(), kernels.active_isa()
    for way in ways(tier):
        with half_narrow.forced(way):
            config = rules.config(problem, None if tier == stack_rows.HALVED else registry.isa(tier))
        short = way in half_narrow.OF_SHORT_VECTORS
        vectors = (half if short else longest) if tier == stack_rows.HALVED else registry.isa(tier)
        of_way = vectors is not None and config.isa == vectors.name and half_narrow.computes(config, way)
        if way == OTHERS or (of_way and config.misfit(problem) is None):
            yield way, config


def measured(row: registry.DType, letter: str, tier: str, seconds: float, rounds: int) -> np.ndarray:
    """Return the logarithms of seconds: ways, columns, one class of rows, steps, and one of two kinds of those.

    The means of a class, of each product the least of all rounds.
    """
    names = ways(tier)
    sides = [(i, size) for i, sizes in enumerate(SIDES.values()) for size in sizes]
    took = np.full((len(names), len(sides), len(sides)), np.inf)
    with progress.bar(f"{row.name} {letter} {tier}", rounds * len(sides)) as bar:
        for _, (i, (_, n)) in itertools.product(range(rounds), enumerate(sides)):
            bar.step(f"1 x {n}")
            for j, (_, k) in enumerate(sides):
                items = max(2, min(ITEMS, MATRICES // (n * k * row.stored_bytes * row.parts)))
                problem = Problem(row.name, 1, n, k, items, "n" + letter)
                if problem != normalised(problem):
                    took[:, i, j] = np.nan
                    continue
                found = dict(configs(problem, tier))
                times = timed(problem, list(dict.fromkeys(found.values())), seconds, FLOPS)
                for way, config in found.items():
                    cell = names.index(way), i, j
                    took[cell] = min(took[cell], np.log(times[config]))
    whole = np.full((len(names), len(SIDES), 1, len(SIDES), 2), np.nan)
    for i, j in itertools.product(range(len(SIDES)), repeat=2):
        of_class = np.ix_(range(len(names)), *([at for at, (c, _) in enumerate(sides) if c == one] for one in (i, j)))
        whole[:, i, 0, j, 0] = took[of_class].mean(axis=(1, 2))
    return whole


def lines(row: registry.DType, kind: str, took: np.ndarray, names: Sequence[str]) -> Iterator[str]:
    """Yield the rules as `stack_rows` holds them, the first that fits counting, with the gain of each."""
    found = boxes.fitted(took, names, [ITEM * (way != OTHERS) for way in names], LEAST_GAIN)
    for box, gain in boxes.gains(took, names, found):
        columns, steps = (boxes.side([*SIDES], side) for side in (box.columns, box.steps))
        way = box.way or half_narrow.NO_WAY
        yield f"{row.name:<6} {kind:<8} {columns:>6} 1- {steps:>6}  {way:<11} {boxes.told(gain)}"
    yield f"# {row.name} {kind}: {boxes.totals(took, names, found)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the rules."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtype", nargs="+", type=shapes.type_named, default=[*map(shapes.type_named, TYPES)])
    tiers = [tier.name for tier in kernels.runnable() if tier.vector_bytes > 16]
    tiers += [stack_rows.HALVED] * (kernels.half_isa() is not None)
    parser.add_argument("--tier", nargs="+", choices=tiers, default=tiers, help="default: all that this CPU has")
    parser.add_argument("--seconds", type=float, default=0.004, help="of a product (default: 0.004)")
    parser.add_argument("--rounds", type=int, default=2, metavar="N", help="through all products (default: 2)")
    parser.add_argument("--times", type=Path, metavar="FILE", help="times that were kept, or where to keep them")
    options = parser.parse_args(arguments)
    if options.rounds < 1 or not options.seconds > 0:
        parser.error("rounds and seconds must be above zero")
    for name in tiers:
        if name != stack_rows.HALVED:
            kernels.load(name)
    kept = json.loads(options.times.read_text()) if options.times and options.times.exists() else {}
    for dtype, tier, letter in itertools.product(options.dtype, options.tier, "nt"):
        row, kind = registry.dtype(dtype), f"{letter}-{tier}"
        if f"{dtype} {kind}" not in kept:
            kept[f"{dtype} {kind}"] = measured(row, letter, tier, options.seconds, options.rounds).tolist()
            if options.times:
                options.times.write_text(json.dumps(kept))
        print("\n".join(lines(row, kind, np.array(kept[f"{dtype} {kind}"]), ways(tier))), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
