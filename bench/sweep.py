"""The heuristic's configuration beside every other one, shape by shape: does a type need constants of its own?

    python bench/sweep.py --dtype int32 int8:int32               # 12 of the shipped shapes each; a minute a type
    python bench/sweep.py --dtype int16 --shapes 512x512x512 64x2560x2560 --seconds 2
    python bench/sweep.py --dtype bool --sample 20 --seed 1
    python bench/sweep.py --dtype float32 float64 --threads 2 --shapes 2x512x512 2x768x768 4x1024x1024
    python bench/sweep.py --dtype float32 --layout nt --shapes 512x9x512 19x512x512
    python bench/sweep.py --dtype float32 --layout nt --shapes 32x2x512 8x2x1000 --tiers     # AVX2 beside AVX-512
    python bench/sweep.py --dtype bool int8 float16 --drawn 200 --seconds 0.05     # where have the rules a hole?

All configurations that the tuner knows for a problem (families, tiles, packing, MC, KC, NC) are timed
below Python, a short loop each in turns; the better half stays for the next round, until a few are left, which are
timed in turns for as long again.  Prints a line a shape with the gain of the best over the heuristic's, and the
geometric mean; a gain below one is one, because the heuristic's is among them.  A figure above 1.05 is marked.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from pathlib import Path

import cases
import numpy as np
import progress
import timing
from stats import duration, geometric_mean

from fastgemm import kernels, registry
from fastgemm.heuristic import rules
from fastgemm.plan import Plan
from fastgemm.problem import Config, Problem, normalised
from fastgemm.tune import shapes
from fastgemm.tune.space import Space
from fastgemm.tune.words import describe, name

SHAPES = Path(__file__).parent / "shapes" / "gemm_shapes.csv"
FEW = 4  # that are left for the end
MARKED = 1.05
MOST_FLOPS = 1e9
# What is drawn: sides, items and layouts of calls, and the most operations and bytes.
SIDES, LONGEST, ITEMS, LAYOUTS = (1, 2, 3, 4, 8, 10, 16, 32, 64, 100, 128, 256, 512), 700, (1, 1, 1, 5, 100), "nt"
DRAWN_FLOPS, DRAWN_BYTES = 3e7, 2e7


def arrays(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return operands of a problem, laid out as its letters say.

    Examples
    --------
    >>> a, b = arrays(Problem("f32", 2, 3, 4, layout="nt"))
    >>> a.shape, b.shape, b.strides
    ((2, 4), (4, 3), (4, 16))
    """
    trans_a, trans_b = (letter == "t" for letter in problem.layout)
    dtype, m, n, k, batch = problem.row.numpy, problem.m, problem.n, problem.k, problem.batch
    return cases.operands(cases.Case(dtype, m, n, k, batch, trans_a, trans_b))


def timed(problem: Problem, configs: Sequence[Config], seconds: float, loop: float = 2e-3) -> dict[Config, float]:
    """Return the least seconds of each configuration, a loop of each, of so many seconds, in turns."""
    a, b = arrays(problem)
    plans = [Plan(problem, config) for config in configs]
    out = plans[0].run(a, b)
    products = [timing.Products(plan, (a, b, out)) for plan in plans]
    counts = [product.loops(loop) for product in products]
    best = dict.fromkeys(configs, float("inf"))
    end = time.perf_counter() + seconds
    while True:
        for config, product, count in zip(configs, products, counts, strict=True):
            best[config] = min(best[config], product.seconds(count))
        if time.perf_counter() >= end:
            return best


def swept(problem: Problem, seconds: float, isa: registry.Isa | None = None) -> tuple[Config, dict[Config, float]]:
    """Return the heuristic's configuration, for a tier if one is given, and the times of the last turns.

    Those are of the heuristic's, of the few best, and of the best of each tier.
    """
    start = rules.config(problem, isa)
    left = list(Space(problem, start).all())
    of_tier: dict[str, Config] = {}
    while len(left) > FEW:
        took = timed(problem, left, 0.0)
        left.sort(key=took.__getitem__)
        of_tier |= {config.isa: config for config in reversed(left)}
        left = left[: max(FEW, len(left) // 2)]
    return start, timed(problem, list(dict.fromkeys([start, *left, *of_tier.values()])), seconds)


def drawn(count: int, dtype: str, threads: int, seed: int) -> list[Problem]:
    """Return problems as calls compute them, of all layouts, stacks among them: a side in two is a usual one.

    Examples
    --------
    >>> [one] = drawn(1, "f32", 1, 5)
    >>> one.dtype, one.flops <= DRAWN_FLOPS
    ('f32', True)
    """
    rng = random.Random(seed)
    found: dict[Problem, None] = {}
    while len(found) < count:
        m, n, k = (rng.choice((rng.choice(SIDES), int(LONGEST ** rng.random()))) for _ in range(3))
        layout = rng.choice(LAYOUTS) + rng.choice(LAYOUTS)
        problem = normalised(Problem(dtype, m, n, k, rng.choice(ITEMS), layout, threads))
        if problem.flops <= DRAWN_FLOPS and problem.streamed <= DRAWN_BYTES:
            found[problem] = None
    return list(found)


def chosen(options: argparse.Namespace, dtype: str) -> list[Problem]:
    """The shapes that are asked for, drawn ones, or some of the shipped ones; none of a second's work."""
    if options.drawn:
        return drawn(options.drawn, dtype, options.threads, options.seed)
    if options.shapes:
        sizes = [cases.parse(text) for text in options.shapes]
        return [Problem(dtype, case.m, case.n, case.k, case.batch, options.layout, options.threads) for case in sizes]
    found, _ = shapes.from_csv(SHAPES, [dtype], [options.threads])
    fitting = [problem for problem in dict.fromkeys(found) if problem.flops <= MOST_FLOPS]
    random.Random(options.seed).shuffle(fitting)
    return fitting[: options.sample]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtype", nargs="+", type=shapes.type_named, default=["i32"], help="default: int32")
    parser.add_argument("--shapes", nargs="+", metavar="MxNxK[xBATCH]", help="default: some of the shipped ones")
    parser.add_argument(
        "--layout", choices=("nn", "nt", "tn", "tt"), default="nn", help="of --shapes: is A, is B given transposed?"
    )
    parser.add_argument("--sample", type=int, default=12, metavar="N", help="how many of those (default: 12)")
    parser.add_argument("--drawn", type=int, default=0, metavar="N", help="so many drawn shapes of all layouts instead")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of a product (default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--seconds", type=float, default=0.5, help="of the last turns on a shape (default: 0.5)")
    parser.add_argument(
        "--tiers",
        action="store_true",
        help="where calls may use two tiers: what would be found from the heuristic's answer for the longer vectors",
    )
    options = parser.parse_args(arguments)
    if min(options.sample, options.threads) < 1 or options.drawn < 0 or not options.seconds > 0:
        parser.error("a sample, threads and seconds must be above zero")
    tier = kernels.active_isa()
    if tier is None:
        parser.error("no kernels run on this CPU")
    if options.tiers and kernels.half_isa() is None:
        parser.error("calls use one tier on this CPU")
    kernels.load(tier.name)
    for dtype in options.dtype:
        gains, apart = [], []
        problems = chosen(options, dtype)
        with progress.bar(f"sweeping {dtype}", len(problems)) as bar:
            for problem in problems:
                bar.step(name(problem))
                start, took = swept(problem, options.seconds, tier if options.tiers else None)
                config = min(took, key=took.__getitem__)
                gains.append(took[start] / took[config])
                mark = "  <--" if gains[-1] > MARKED else ""
                told = f"{duration(took[start])}, {gains[-1]:.3f} {describe(config)}"
                others = [seconds for one, seconds in took.items() if one.isa != start.isa]
                if options.tiers and others:
                    own = min(seconds for one, seconds in took.items() if one.isa == start.isa)
                    apart.append(own / min(others))
                    told += f"; the other tier's best {apart[-1]:.3f} times as fast as {start.isa}'s"
                print(f"{name(problem)}: {told}{mark}", flush=True)
        marked = sum(gain > MARKED for gain in gains)
        print(f"{dtype}: the best over the heuristic's {geometric_mean(gains):.3f}, ", end="")
        print(f"{marked} of {len(gains)} above {MARKED}")
        if apart:
            print(f"{dtype}: the other tier's best over {tier.name}'s {geometric_mean(apart):.3f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
