"""What knowing that `a @ a.T` is symmetric is worth, against the same product of a copy.

    python bench/symmetric.py
    python bench/symmetric.py --size 300 1000 --k 64 1000 --dtype float64 --threads 1

`a @ a.T` reads the same memory from both sides, and fastgemm computes half of it; `a @ b.T` with a copy `b` of `a` is
computed whole, to the same bits.  These two take turns in processes of one library, NumPy's `a @ a.T` in others beside
them (two teams of threads in one process are in each other's way), and the processes take turns as well; the best of
all counts, and ratios are printed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence

import children
import stats
import timing
import workers

SIDES = ("fastgemm", "NumPy")


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--size", nargs="+", type=int, default=[256, 512, 1024, 2048], metavar="N", help="rows of a")
    made.add_argument("--k", nargs="+", type=int, default=[], metavar="K", help="columns of a (default: as many)")
    made.add_argument("--dtype", nargs="+", default=["float32", "float64"], help="element types")
    made.add_argument("--threads", nargs="+", type=int, default=[1, 2], metavar="N", help="thread counts (default 1 2)")
    made.add_argument("--rounds", type=int, default=3, help="processes of every library and thread count (default 3)")
    made.add_argument("--turns", type=int, default=4, help="turns of every variant in a process (default 4)")
    made.add_argument("--of", choices=SIDES, help=argparse.SUPPRESS)
    return made


def measured(options: argparse.Namespace) -> dict[str, list[float]]:
    """Return the least seconds of each shape, of half and whole where there are both, in this process."""
    import numpy as np

    import fastgemm

    matmul = fastgemm.matmul if options.of == "fastgemm" else np.matmul
    if options.of == "fastgemm":
        fastgemm.set_num_threads(options.threads[0])
    rng = np.random.default_rng(0)
    found = {}
    for dtype in options.dtype:
        for size in options.size:
            for k in options.k or [size]:
                a = rng.standard_normal((size, k)).astype(dtype)
                b, out = a.copy(), np.empty((size, size), dtype)
                calls: list[Callable[[], object]] = [lambda a=a, out=out: matmul(a, a.T, out=out)]  # type: ignore[misc]
                if options.of == "fastgemm":
                    calls.append(lambda a=a, b=b, out=out: matmul(a, b.T, out=out))  # type: ignore[misc]
                turns = [[timing.seconds(call, 0.005) for call in calls] for _ in range(options.turns)]
                found[f"{dtype} {size}x{size}x{k}"] = [min(of) for of in zip(*turns, strict=True)]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the ratios."""
    options = parser().parse_args(arguments)
    if options.of:
        print(json.dumps(measured(options)))
        return 0
    rows = []
    asked = ["--dtype", *options.dtype, "--turns", str(options.turns), "--size", *map(str, options.size)]
    asked += ["--k", *map(str, options.k)] if options.k else []
    for threads in options.threads:
        own = ["--threads", str(threads)]
        sides = {side: ([*asked, *own, "--of", side], {"OPENBLAS_NUM_THREADS": str(threads)}) for side in SIDES}
        runs = children.by_turns(f"symmetric, {threads} thread(s)", __file__, options.rounds, sides)
        for shape in runs["NumPy"][0]:
            half, whole = (min(run[shape][at] for run in runs["fastgemm"]) for at in (0, 1))
            numpy = min(run[shape][0] for run in runs["NumPy"])
            ratios = [stats.number(other / half) for other in (whole, numpy)]
            rows.append([*shape.split(), str(threads), stats.duration(half), *ratios])
    print(f"{workers.machine()['cpu']}\n")
    print(stats.table(["dtype", "shape", "threads", "a @ a.T", "over a copy's", "over NumPy's"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
