"""The published multi-core heuristic (`fastgemm.graph.scheduling`) beside this library's own, product by product.

    python bench/published.py
    python bench/published.py --shapes 512x512x1024 --threads 2

Both plans of a product run in turn, in one process; a ratio is the speed of the published heuristic's plan over that
of ours, above 1 where it is the faster one.  Only blocked products are compared, and those whose plans differ.
The default shapes are the layers of oneDNN Graph Compiler's perceptrons at two batches, and squares.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import pairwise

import cases
import progress
import stats
import timing
import workload_cases

SQUARES = ("256x256x256", "1024x1024x1024", "2048x2048x2048")


def layers() -> list[str]:
    """The perceptrons' products, as ``MxNxK``."""
    sizes = [sizes for kind, sizes in workload_cases.NETWORKS.values() if kind == "mlp"]
    found = [f"{batch}x{n}x{k}" for batch in (32, 512) for one in sizes for k, n in pairwise(one) if n > 1]
    return [*dict.fromkeys(found), *SQUARES]


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--shapes", nargs="+", default=layers(), metavar="MxNxK", help="products")
    made.add_argument("--dtype", nargs="+", default=["f32", "i8_i32"], help="names of the registry")
    made.add_argument("--threads", nargs="+", type=int, default=[1, 2], metavar="N", help="thread counts (default 1 2)")
    made.add_argument("--rounds", type=int, default=10, help="turns of both plans (default 10)")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the ratios."""
    options = parser().parse_args(arguments)
    import numpy as np

    from fastgemm.graph import scheduling
    from fastgemm.heuristic import rules
    from fastgemm.plan import Plan
    from fastgemm.problem import Problem

    rows, ratios = [], []
    wanted = [(d, t, cases.parse(s)) for d in options.dtype for t in options.threads for s in options.shapes]
    with progress.bar("comparing plans", len(wanted)) as bar:
        for dtype, threads, case in wanted:
            bar.step(f"{dtype} {case.m}x{case.n}x{case.k}")
            problem = Problem(dtype, case.m, case.n, case.k, threads=threads)
            configs = scheduling.config(problem), rules.config(problem)
            if configs[0] == configs[1]:
                continue
            a, b = (np.ones(shape, problem.row.numpy) for shape in ((case.m, case.k), (case.k, case.n)))
            plans = [Plan(problem, config) for config in configs]
            out = plans[0].run(a, b)
            # Both as often: what a call costs in Python is outside the loop.
            count = timing.loops(lambda plan=plans[1]: plan.run(a, b, out), 2e-3)  # type: ignore[misc]  # noqa: B023
            best = [float("inf")] * 2
            for turn in range(options.rounds):
                for at in (0, 1) if turn % 2 else (1, 0):
                    spent = timing.per_call(lambda plan=plans[at]: plan.run(a, b, out, count), 1)  # type: ignore[misc]  # noqa: B023
                    best[at] = min(best[at], spent / count)
            ratios.append(best[1] / best[0])
            text = f"{case.m}x{case.n}x{case.k}"
            rows.append([dtype, str(threads), text, *map(stats.duration, best), f"{ratios[-1]:.2f}"])
    print(stats.table(["dtype", "threads", "product", "published", "ours", "speed over ours"], rows))
    if ratios:
        mean, least, most = stats.geometric_mean(ratios), min(ratios), max(ratios)
        print(f"\ngeometric mean {mean:.3f} over {len(ratios)} plans that differ, least {least:.2f}, most {most:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
