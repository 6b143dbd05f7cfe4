"""Random shapes against NumPy: where is fastgemm the slower one?

    python bench/scan.py
    python bench/scan.py --dtype float64 --seconds 300 --seed 7 --worst 30
    python bench/scan.py --kind vectors --most 4096
    python bench/scan.py --round 0.7                # rows that lie whole lines, and often whole pages, apart

Recorded shapes are those that somebody thought of.  This draws them: sizes between 1 and --most, evenly on a scale of
powers of two (one in five is 1), each operand given as it is or transposed, and three in ten of them stacks.
Both libraries take turns in this process, on one thread (two pools of threads in one would fight), with operands
that stay in cache where they fit and an output that is written to again and again; the best of five samples counts.  A
shape on which fastgemm came out slower is measured once more, and the better of the two ratios counts, because most of
the slower ones are disturbed and not slow.

Prints the geometric mean of the speed over NumPy's, how many shapes were slower, and the worst of them, each as
something that `bench/sweep.py --layout` understands.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import cases
import environment
import progress
import stats
import timing
import workers

if TYPE_CHECKING:
    import numpy as np

SAMPLE_SECONDS, SAMPLES = 1e-3, 5
MOST_PRODUCTS, MOST_ELEMENTS = 3e8, 2e7  # of a shape, all of its stack: a tenth of a second in the slower library
MOST_STACK = 1024
KINDS = ("any", "matrices", "vectors", "stacks")


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--dtype", default="float32", help="element type (default float32)")
    made.add_argument("--seconds", type=float, default=60.0, help="how long to draw shapes (default 60)")
    made.add_argument("--seed", type=int, default=0, help="of the draw (default 0)")
    made.add_argument("--most", type=int, default=2048, metavar="N", help="the largest size (default 2048)")
    made.add_argument("--kind", choices=KINDS, default="any", help="which shapes (default any)")
    made.add_argument("--round", type=float, default=0.0, metavar="SHARE",
                      help="how many sizes are multiples of 64, as layers have them (default 0)")  # fmt: skip
    made.add_argument("--worst", type=int, default=20, metavar="N", help="how many to print (default 20)")
    return made


def shapes(options: argparse.Namespace) -> Iterator[cases.Case]:
    """Draw shapes without end."""
    import numpy as np

    rng = np.random.default_rng(options.seed)

    def size(most: int) -> int:
        drawn = 1 if rng.random() < 0.2 else round(most ** rng.random())
        # (No number is drawn for it where none is round: seeds keep their shapes.)
        return 64 * -(-drawn // 64) if options.round and rng.random() < options.round else drawn

    while True:
        m, n, k = (size(options.most) for _ in range(3))
        if options.kind == "vectors":
            m, n = (1, n) if rng.random() < 0.5 else (m, 1)
        stacked = options.kind == "stacks" or (options.kind == "any" and rng.random() < 0.3)
        batch = round(MOST_STACK ** rng.random()) if stacked else 1
        trans = rng.random(2) < 0.5
        elements = (m * n + m * k + k * n) * batch
        if m * n * k * batch <= MOST_PRODUCTS and elements <= MOST_ELEMENTS:
            yield cases.Case(options.dtype, m, n, k, batch, bool(trans[0]), bool(trans[1]))


def ratio(a: np.ndarray, b: np.ndarray) -> tuple[float, float, float]:
    """NumPy's seconds over fastgemm's, and both."""
    import numpy as np

    import fastgemm

    out = np.matmul(a, b)
    calls = (lambda: fastgemm.matmul(a, b, out), lambda: np.matmul(a, b, out))
    loops = [timing.loops(call, SAMPLE_SECONDS) for call in calls]
    best = [float("inf")] * 2
    for _ in range(SAMPLES):
        for at, call in enumerate(calls):
            best[at] = min(best[at], timing.per_call(call, loops[at]))
    return best[1] / best[0], best[0], best[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what was found."""
    options = parser().parse_args(arguments)
    environment.one_thread()
    import fastgemm

    found = []
    end, start = time.monotonic() + options.seconds, time.monotonic()
    with fastgemm.threads(1), progress.bar("scan", round(options.seconds)) as bar:
        told = 0
        for case in shapes(options):
            now = time.monotonic()
            if now >= end and found:
                break
            while told < min(now - start, options.seconds):
                bar.step(f"{len(found)} shapes")
                told += 1
            a, b = cases.operands(case)
            once = ratio(a, b)
            found.append((once if once[0] >= 1 else max(once, ratio(a, b)), case))
    found.sort(key=lambda one: one[0][0])
    ratios = [one[0][0] for one in found]
    slower, much = (sum(each < limit for each in ratios) for limit in (1.0, 0.9))
    print(f"{workers.machine()['cpu']}, {options.dtype}, one thread, seed {options.seed}")
    mean = stats.geometric_mean(ratios)
    print(f"{len(found)} shapes: {mean:.2f} times NumPy; {slower} slower, {much} by over a tenth\n")
    rows = [
        [case.shape, case.layout, stats.duration(mine), stats.duration(numpys), stats.number(times)]
        for (times, mine, numpys), case in found[: options.worst]
    ]
    print(stats.table(["shape", "layout", "fastgemm", "NumPy", "times NumPy"], rows))
    return 0


if __name__ == "__main__":
    environment.let_choose()
    sys.exit(main())
