"""What a kernel of its own is worth to a small product: constants for sizes and strides against the generic plan.

    python bench/specialized.py
    python bench/specialized.py --dtype float64 --dims 4 16 32

Compiles a kernel for every M x N x K of the dimensions, into a folder that is thrown away, and times it in turn with
the plan that a call gets without it.  Both are repeated below Python, whose share of a call is longer than a product
of this size.  Prints the geometric mean of the ratios, by dimension and of all, and the least.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import tempfile
from functools import partial

import numpy as np
import timing
from stats import duration, geometric_mean

from fastgemm import kernels, registry, special, special_shapes
from fastgemm.heuristic import rules
from fastgemm.plan import Plan
from fastgemm.problem import Problem
from fastgemm.tune import specialise

SAMPLE_SECONDS = 100e-6


def compare(problem: Problem, names: list[str], rounds: int) -> tuple[float, float]:
    """Median times of the generic plan and of the shape's own kernel, taken in turn.

    Where there are two kernels, a first comparison chooses one.
    """
    if len(names) > 1:
        names = [min(names, key=lambda name: compare(problem, [name], 5)[1])]
    config = specialise.single(rules.config(problem, kernels.active_isa()))
    plans = [Plan(problem, config), Plan(problem, config.replace(special=names[0]))]
    if not plans[1].facts["special"]:
        raise SystemExit(f"the kernel for {problem} was refused")
    rng = np.random.default_rng(0)
    dtype = problem.row.numpy
    a, b = (rng.random(shape).astype(dtype) for shape in ((problem.m, problem.k), (problem.k, problem.n)))
    out = np.empty((problem.m, problem.n), dtype)
    for plan in plans:
        if not np.allclose(plan.run(a, b, out), a @ b, rtol=1e-4):
            raise SystemExit(f"wrong answer for {problem}")
    products = [timing.Products(plan, (a, b, out)) for plan in plans]
    times = products[0].loops(SAMPLE_SECONDS)
    samples: list[list[float]] = [[], []]
    for turn in range(rounds):
        for at in (0, 1) if turn % 2 else (1, 0):
            samples[at].append(products[at].seconds(times))
    return statistics.median(samples[0]), statistics.median(samples[1])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", default="float32", help="default: float32")
    parser.add_argument(
        "--dims", type=int, nargs="+", default=[4, 8, 16, 24, 32], metavar="N", help="sizes of M, N and K"
    )
    parser.add_argument("--rounds", type=int, default=21, metavar="N", help="pairs of samples a shape")
    parser.add_argument("--all", action="store_true", help="print every shape, not only the means")
    options = parser.parse_args()
    tier = kernels.active_isa()
    if tier is None:
        raise SystemExit("no kernels run here")
    dtype = registry.dtype(options.dtype).name
    problems = [Problem(dtype, *sizes) for sizes in itertools.product(options.dims, repeat=3)]
    special_shapes.SPECIAL = ()  # the generic plans, without the kernels that this build has for some of the shapes
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FASTGEMM_CACHE"] = folder
        say = partial(print, flush=True)
        modules = specialise.compiled(problems, tier.name, say, say)
        ratios: dict[Problem, float] = {}
        for problem in problems:
            shape = special.shape_of(problem)
            before, after = compare(problem, modules[shape], options.rounds)
            ratios[problem] = before / after
            if options.all:
                p = problem
                print(
                    f"{p.m:3} x {p.n:3} x {p.k:3}  {duration(before):>8} -> {duration(after):>8}  {before / after:.2f}"
                )
    for at, axis in enumerate("MNK"):
        means = {
            size: geometric_mean([r for p, r in ratios.items() if (p.m, p.n, p.k)[at] == size]) for size in options.dims
        }
        print(f"{axis}: " + "  ".join(f"{size}: {mean:.2f}" for size, mean in means.items()))
    mean, least = geometric_mean(ratios.values()), min(ratios.values())
    print(f"{options.dtype}, {tier.name}, {len(ratios)} shapes: geometric mean {mean:.2f}, least {least:.2f}")


if __name__ == "__main__":
    main()
