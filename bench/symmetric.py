"""What knowing that `a @ a.T` is symmetric is worth, against the same product of a copy.

    python bench/symmetric.py
    python bench/symmetric.py --size 300 1000 --k 64 1000 --dtype float64 --threads 1

`a @ a.T` reads the same memory from both sides, and fastgemm computes half of it; `a @ b.T` with a copy `b`
of `a` is computed whole, to the same bits.  Both, and NumPy's `a @ a.T`, take turns in one process; the best of
all rounds counts, and ratios are printed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

import environment
import progress
import stats
import timing
import workers


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--size", nargs="+", type=int, default=[256, 512, 1024, 2048], metavar="N", help="rows of a")
    made.add_argument("--k", nargs="+", type=int, default=[], metavar="K", help="columns of a (default: as many)")
    made.add_argument("--dtype", nargs="+", default=["float32", "float64"], help="element types")
    made.add_argument("--threads", nargs="+", type=int, default=[1, 2], metavar="N", help="thread counts (default 1 2)")
    made.add_argument("--rounds", type=int, default=7, help="turns of every variant (default 7)")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the ratios."""
    options = parser().parse_args(arguments)
    import numpy as np

    import fastgemm

    rng = np.random.default_rng(0)
    rows = []
    jobs = [
        (dtype, size, k, threads)
        for dtype in options.dtype for size in options.size for k in options.k or [size] for threads in options.threads
    ]  # fmt: skip
    with progress.bar("symmetric", len(jobs)) as bar:
        for dtype, size, k, threads in jobs:
            bar.step(f"{dtype} {size}x{k} on {threads}")
            fastgemm.set_num_threads(threads)
            a = rng.standard_normal((size, k)).astype(dtype)
            b, out = a.copy(), np.empty((size, size), dtype)
            variants: dict[str, Callable[[], object]] = {
                "half": lambda a=a, out=out: fastgemm.matmul(a, a.T, out=out),  # type: ignore[misc]
                "whole": lambda a=a, b=b, out=out: fastgemm.matmul(a, b.T, out=out),  # type: ignore[misc]
                "numpy": lambda a=a, out=out: np.matmul(a, a.T, out=out),  # type: ignore[misc]
            }
            best = dict.fromkeys(variants, float("inf"))
            for _ in range(options.rounds):
                for name, call in variants.items():
                    best[name] = min(best[name], timing.seconds(call, 0.005))
            rows.append(
                [
                    dtype, f"{size}x{size}x{k}", str(threads), stats.duration(best["half"]),
                    stats.number(best["whole"] / best["half"]), stats.number(best["numpy"] / best["half"]),
                ]
            )  # fmt: skip
    print(f"{workers.machine()['cpu']}\n")
    print(stats.table(["dtype", "shape", "threads", "a @ a.T", "over a copy's", "over NumPy's"], rows))
    return 0


if __name__ == "__main__":
    environment.let_choose()
    sys.exit(main())
