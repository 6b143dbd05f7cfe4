"""Fresh outputs in the steps of a program: how long they take, and how many pages they fetch from the system.

    python bench/outputs.py
    python bench/outputs.py --mib 1 8 --threads 2 --rounds 6

A product alone costs nothing for its output where malloc hands out the block that was dropped in the call before.
Where a program holds several arrays at a time, malloc returns the last ones of a step to the system and fetches them
again in the next: clearing pages takes longer than the product.  Three steps, on outputs of so many MiB of float32:

    one      a @ b
    chain    x = a @ b; y = x + 1; z = y @ w; np.maximum(z, 0).sum()
    layers   x = a @ b; np.maximum(x, 0, out=x); (x @ w) @ b

by NumPy, by fastgemm that keeps nothing (FASTGEMM_KEEP_MIB=0), and by fastgemm.  Each of the three is a process of its
own, by turns; the median sample of the best process counts, the ratios are speed over NumPy's and over that of the
second.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import children
import stats

WIDE, NARROW = 256, 64
# And what FASTGEMM_KEEP_MIB says.
SIDES = {"NumPy": "", "keeps nothing": "0", "fastgemm": ""}


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--mib", nargs="+", type=float, default=[0.25, 1, 2, 8, 30], metavar="N", help="of an output")
    made.add_argument("--threads", type=int, default=1, metavar="N", help="threads (default 1)")
    made.add_argument("--rounds", type=int, default=2, help="processes of each side (default 2)")
    made.add_argument("--calls", type=int, default=30, help="samples in each, after as many that do not count (30)")
    made.add_argument("--of", choices=SIDES, help=argparse.SUPPRESS)
    return made


def steps(mib: float, multiply: Callable[[Any, Any], Any]) -> dict[str, Callable[[], object]]:
    """Return the steps of a program whose large arrays have so many MiB."""
    import numpy as np

    rng, rows = np.random.default_rng(0), int(mib * 2**20 / 4 / WIDE)
    a, b, w = (rng.random(shape, dtype="f4") for shape in ((rows, NARROW), (NARROW, WIDE), (WIDE, NARROW)))

    def chain() -> object:
        x = multiply(a, b)
        y = x + 1
        z = multiply(y, w)
        return np.maximum(z, 0).sum()

    def layers() -> object:
        x = multiply(a, b)
        np.maximum(x, 0, out=x)
        return multiply(multiply(x, w), b)

    return {"one": lambda: multiply(a, b), "chain": chain, "layers": layers}


def measured(options: argparse.Namespace) -> dict[str, list[float]]:
    """Return seconds and page faults a call of every step, the median and the mean."""
    import numpy as np

    import fastgemm

    found = {}
    with fastgemm.threads(options.threads):
        for mib in options.mib:
            for name, step in steps(mib, np.matmul if options.of == "NumPy" else fastgemm.matmul).items():
                for _ in range(options.calls):
                    step()
                before, taken = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, []
                for _ in range(options.calls):
                    start = time.perf_counter()
                    step()
                    taken.append(time.perf_counter() - start)
                faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
                found[f"{name}, {mib:g} MiB"] = [statistics.median(taken), faults / options.calls]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    options = parser().parse_args(arguments)
    if options.of:
        print(json.dumps(measured(options)))
        return 0
    asked = ["--threads", str(options.threads), "--calls", str(options.calls), "--mib", *map(str, options.mib)]
    sides = {
        side: (["--of", side, *asked], {"OPENBLAS_NUM_THREADS": str(options.threads), "FASTGEMM_KEEP_MIB": kept})
        for side, kept in SIDES.items()
    }
    runs = children.by_turns("outputs", __file__, options.rounds, sides)
    table = []
    for name in runs["NumPy"][0]:
        best = {side: min(run[name] for run in of) for side, of in runs.items()}
        ours, figures = best["fastgemm"][0], [(seconds * 1e6, pages) for seconds, pages in best.values()]
        ratios = [stats.number(best[side][0] / ours) for side in ("NumPy", "keeps nothing")]
        table.append([name, *(f"{figure:.0f}" for both in figures for figure in both), *ratios])
    heads = [part for side in SIDES for part in (f"{side}, us", "pages")]
    print(stats.table(["step", *heads, "times NumPy", "by keeping"], table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
