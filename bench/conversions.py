"""Are numbers converted as small's kernels load them, or packed for gemm's?

    python bench/conversions.py --dtype float16 int8 bool                  # all layouts, the tier of calls; ten minutes
    FASTGEMM_ISA=v3 python bench/conversions.py --dtype float16 --layout tn tt
    python bench/conversions.py --dtype float16 --layout tn --times f16.json   # keeps the times; again, it reads them

Times both families on products that are drawn, single ones and stacks of a megabyte, one thread.  Prints how many times
as long as the better of both the rules' choice takes, in the mean; the same for each family by itself, and for the sum
of `fastgemm.heuristic.conversions` that orders the two best, with that sum, which is searched for at random.  Products
that the rules compute in a third way count for neither.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from functools import partial

import boxes
import numpy as np
import progress
from sweep import timed

from fastgemm import kernels, registry
from fastgemm.heuristic import conversions, half_narrow, measured, rules, stacks
from fastgemm.heuristic.conversions import Converting
from fastgemm.problem import Problem, normalised

TYPES, LAYOUTS = ("float16", "int8", "bool", "bfloat16", "int8:int32"), ("nn", "nt", "tn", "tt")
ROWS = (2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64, 100, 128, 200, 256, 500)
COLUMNS = (2, 3, 4, 6, 8, 10, 12, 13, 16, 20, 24, 32, 40, 48, 64, 80, 100, 128, 200, 400)
STEPS = (1, 2, 3, 4, 6, 8, 10, 14, 16, 20, 24, 32, 48, 64, 100, 150, 200, 300, 400)
MOST, LARGE = 3e6, 5e7  # multiply-adds of a product; every sixth one may have more
STACK, ITEMS = 1 << 20, 300  # bytes of a stack's operands, of at most so many items
LOOP = 5e-4
# What is searched: each of the sum's four factors a little, or by some part, so many times from so many starts.  A
# vector and a step must cost something: small's kernels are not for products of any size.
LEAST_STEP, TRIALS, STARTS = 0.002, 4000, 6
WIDTHS = (0.1, 3.0, 0.1, 0.1)


def drawn(dtype: str, layout: str, count: int, seed: int) -> list[Problem]:
    """Return different products, half of them in stacks.

    Examples
    --------
    >>> one, other = drawn("f16", "tn", 2, 0)
    >>> one.batch, other.batch > 1
    (1, True)
    """
    rng, found = random.Random(seed), dict[Problem, None]()
    size = registry.dtype(dtype).stored_bytes
    while len(found) < count:
        m, n, k = rng.choice(ROWS), rng.choice(COLUMNS), rng.choice(STEPS)
        batch = max(3, min(ITEMS, STACK // ((m * k + k * n + m * n) * size))) if len(found) % 2 else 1
        problem = Problem(dtype, m, n, k, batch, layout)
        if m * n * k <= (MOST if batch > 1 or len(found) % 6 else LARGE) and problem == normalised(problem):
            found[problem] = None
    return list(found)


def times_of(problems: Sequence[Problem], seconds: float) -> np.ndarray:
    """Return the logarithms of seconds by small's kernels, by gemm's, and by the rules; NaN where that is neither."""
    took = np.full((len(problems), 3), np.nan)
    with progress.bar(f"{problems[0].dtype} {problems[0].layout}", len(problems)) as bar:
        for times, problem in zip(took, problems, strict=True):
            bar.step(f"{problem.m}x{problem.n}x{problem.k}")
            own = rules.config(problem)
            ways = []
            for way in (measured.SMALL, measured.BLOCKS):
                with stacks.forced(way), half_narrow.forced(way):
                    ways.append(rules.config(problem, registry.isa(own.isa)))
            if own in ways and [config.family == "small" for config in ways] == [True, False]:
                seen = timed(problem, ways, seconds, LOOP)
                times[:] = np.log([seen[config] for config in (*ways, own)])
    return took


def features(problems: Sequence[Problem]) -> np.ndarray:
    """Return what the factors of the sum are multiplied by, a row for each product."""
    lanes = [registry.lanes(problem.row, registry.isa(rules.config(problem).isa)) for problem in problems]
    vectors = [p.m * -(-p.n // width) for p, width in zip(problems, lanes, strict=True)]
    return np.array([(v * p.k, v, p.m * p.k, p.n * p.k) for p, v in zip(problems, vectors, strict=True)], float)


def longer(parts: np.ndarray, took: np.ndarray, factors: Sequence[float]) -> float:
    """Return how many times as long as the better way those take that a sum chooses, in the mean."""
    small = parts @ np.array(factors) < conversions.BEFORE
    return float(np.exp(np.mean(np.where(small, took[:, 0], took[:, 1]) - took[:, :2].min(axis=1))))


def fitted(parts: np.ndarray, took: np.ndarray, seed: int) -> tuple[float, Converting]:
    """Return the best sum that was found, and what it takes."""
    rng, found = random.Random(seed), []
    for _ in range(STARTS):
        best = [rng.uniform(0.01, 0.5), -rng.uniform(0, 10), 0.0, 0.0]
        least = longer(parts, took, best)
        for _ in range(TRIALS):
            tried = [
                value * np.exp(rng.gauss(0, 0.5)) if rng.random() < 0.5 else value + rng.gauss(0, width)
                for value, width in zip(best, WIDTHS, strict=True)
            ]
            tried[0] = max(tried[0], LEAST_STEP)
            spent = longer(parts, took, tried)
            if spent < least:
                best, least = tried, spent
        found.append((least, best))
    _, best = min(found)
    rounded = Converting(*(round(float(value), digits) for value, digits in zip(best, (3, 1, 2, 3), strict=True)))
    return longer(parts, took, rounded[:4]), rounded


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    made = boxes.command_line(__doc__, TYPES, LAYOUTS, seconds=0.02, rounds=1)
    made.add_argument("--products", type=int, default=400, metavar="N", help="of a type and layout (default: 400)")
    made.add_argument("--seed", type=int, default=0, help="of the draw, and of the search")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line of each type and layout."""
    options = parser().parse_args(arguments)
    if min(options.rounds, options.products) < 1 or not options.seconds > 0:
        parser().error("rounds, products and seconds must be above zero")
    tier = kernels.active_isa()
    if tier is None:
        parser().error("no kernels run on this CPU")
    for one in kernels.runnable():
        kernels.load(one.name)
    times = boxes.Times(options.times)
    for dtype in options.dtype:
        for layout in options.layout:
            problems = drawn(dtype, layout, options.products, options.seed)
            measure = partial(_least, problems, options.seconds, options.rounds)
            took = times.get(f"{dtype} {layout} {tier.name} {options.seed} {options.products}", measure)
            both = ~np.isnan(took).any(axis=1)
            if not both.any():
                print(f"{dtype} {layout}: small's kernels compute none of these")
                continue
            took, parts = took[both], features(problems)[both]
            better = took[:, :2].min(axis=1)
            small, packed, chosen = np.exp((took - better[:, None]).mean(axis=0))
            spent, best = fitted(parts, took, options.seed)
            print(f"{dtype} {layout} {tier.name}, {len(took)} products, times the better of both: ", end="")
            print(f"the rules {chosen:.3f}, small's {small:.3f}, gemm's {packed:.3f}; ", end="")
            print(f"{spent:.3f} by {tuple(best[:4])}", flush=True)
    return 0


def _least(problems: Sequence[Problem], seconds: float, rounds: int) -> np.ndarray:
    return np.minimum.reduce([times_of(problems, seconds) for _ in range(rounds)])


if __name__ == "__main__":
    raise SystemExit(main())
