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
own, by turns; the median sample counts, the ratios are speed over NumPy's and over that of the second.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import progress
import stats

WIDE, NARROW = 256, 64
SIDES = {"NumPy": None, "keeps nothing": "0", "fastgemm": ""}


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


def process(side: str, options: argparse.Namespace) -> dict[str, list[float]]:
    """Return what a new process measures."""
    command = [sys.executable, __file__, "--of", side, "--threads", str(options.threads)]
    command += ["--calls", str(options.calls), "--mib", *map(str, options.mib)]
    within = {**os.environ, "OPENBLAS_NUM_THREADS": str(options.threads), "FASTGEMM_KEEP_MIB": SIDES[side] or ""}
    done = subprocess.run(command, env=within, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, list[float]] = json.loads(done.stdout)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 where a process fails."""
    options = parser().parse_args(arguments)
    if options.of:
        print(json.dumps(measured(options)))
        return 0
    runs: dict[str, list[dict[str, list[float]]]] = {side: [] for side in SIDES}
    try:
        with progress.bar("outputs", options.rounds * len(SIDES)) as bar:
            for turn in range(options.rounds):
                for side in list(SIDES)[:: -1 if turn % 2 else 1]:
                    bar.step(side)
                    runs[side].append(process(side, options))
    except subprocess.CalledProcessError as error:
        print(f"a process failed: exit code {error.returncode}", file=sys.stderr)
        return 1
    table = []
    for name in runs["NumPy"][0]:
        best = {side: min(run[name] for run in of) for side, of in runs.items()}
        row = [name]
        for side in SIDES:
            row += [f"{best[side][0] * 1e6:.0f}", f"{best[side][1]:.0f}"]
        ours = best["fastgemm"][0]
        table.append([*row, stats.number(best["NumPy"][0] / ours), stats.number(best["keeps nothing"][0] / ours)])
    heads = [part for side in SIDES for part in (f"{side}, us", "pages")]
    print(stats.table(["step", *heads, "times NumPy", "by keeping"], table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
