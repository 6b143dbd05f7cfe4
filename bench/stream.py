"""Matrix times vector as a share of the bandwidth of reading memory, measured beside every sample.

    python bench/stream.py
    python bench/stream.py --mib 4 64 256 --dtype float32 --threads 1 2 --require 90
    python bench/stream.py --mib 64 --dtype float32 --rows 1 4 8 16 --columns 4096

A product of a matrix and a vector uses every number of the matrix once, so it can be no faster than
the matrix can be read.  How fast that is, the same threads find out on the same bytes: each reads its
part with a dot product and with a maximum (NumPy's, in Python threads that let the GIL go), and
the faster of the two counts.  Every sample of a product stands between two of reading; the
median of the ratios is shown.  Above 100 % the product's order of reading is the better one.

The layouts: `x @ B` with B's rows or columns adjacent, `A @ x` with A's rows or columns adjacent.  `--rows` makes
x so many vectors, which read the matrix once as well; how many of them multiplying bounds, and not memory,
`bench/peak.py` tells.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import environment
import progress
import stats
import timing
import workers
from load import Load, Quiet

LAYOUTS = ("x @ B, C order", "x @ B, F order", "A @ x, C order", "A @ x, F order")


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--mib", nargs="+", type=int, default=[4, 16, 128], metavar="N", help="sizes of the matrix")
    made.add_argument("--columns", type=int, default=2048, metavar="N", help="its numbers a row (default 2048)")
    made.add_argument("--rows", nargs="+", type=int, default=[1], metavar="M", help="vectors beside it (default 1)")
    made.add_argument("--dtype", nargs="+", default=["float32", "float64"], help="element types")
    made.add_argument("--threads", nargs="+", type=int, default=[1, 2], metavar="N", help="thread counts (default 1 2)")
    made.add_argument("--rounds", type=int, default=9, help="samples of each product (default 9)")
    made.add_argument("--json", type=Path, metavar="FILE", help="write what was measured")
    made.add_argument("--require", type=float, metavar="PERCENT", help="exit 1 when a median is lower")
    return made


def readers() -> tuple[Callable[[Any], Any], ...]:
    """Return what reads an array: the faster of them is how fast it can be read."""
    import numpy as np

    def squares(part: Any) -> Any:
        with np.errstate(all="ignore"):  # of bytes that are read as floats
            return np.dot(part, part)

    return squares, np.maximum.reduce


def reading(data: Any, threads: int, pool: ThreadPoolExecutor, sample: float = 0.01) -> float:
    """Return bytes a second at which so many threads read an array."""
    import numpy as np

    parts = np.array_split(data, threads)

    def timed(work: Callable[[Any], Any]) -> float:
        loops = max(1, int(sample * 3e10 / data.nbytes))

        def many(part: Any) -> None:
            for _ in range(loops):
                work(part)

        start = time.perf_counter()
        if threads == 1:
            many(data)
        else:
            list(pool.map(many, parts))
        return float(data.nbytes * loops / (time.perf_counter() - start))

    return max(map(timed, readers()))


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run everything."""
    import numpy as np

    import fastgemm

    results, quiet = [], Quiet(30.0)
    rng = np.random.default_rng(0)
    cases = [options.threads, options.dtype, options.mib, options.rows]
    total = math.prod(map(len, cases)) * len(LAYOUTS)
    with progress.bar("stream", total) as bar, ThreadPoolExecutor(max(options.threads)) as pool:
        for threads, dtype, mib, count in itertools.product(*cases):
            fastgemm.set_num_threads(threads)
            rows = (mib << 20) // (options.columns * np.dtype(dtype).itemsize)
            data = rng.random(rows * options.columns).astype(dtype)
            matrix = data.reshape(rows, options.columns)
            several = (count,) if count > 1 else ()
            long, short = (rng.random((*several, size)).astype(dtype) for size in matrix.shape)
            operands = {
                LAYOUTS[0]: (long, matrix), LAYOUTS[1]: (short, matrix.T),
                LAYOUTS[2]: (matrix, short.T), LAYOUTS[3]: (matrix.T, long.T),
            }  # fmt: skip
            for layout, (a, b) in operands.items():
                bar.step(f"{dtype} {mib} MiB {layout} on {threads}")
                out = np.empty(a.shape[:-1] + b.shape[1:], dtype)
                shares, rates = [], []
                for _ in range(options.rounds):
                    quiet.wait()
                    before = reading(data, threads, pool)
                    call = functools.partial(fastgemm.matmul, a, b, out=out)
                    mine = data.nbytes / timing.seconds(call, 0.01)
                    after = reading(data, threads, pool)
                    rates.append(mine)
                    shares.append(200 * mine / (before + after))
                results.append(
                    {
                        "dtype": dtype, "threads": threads, "mib": mib, "rows": count, "layout": layout,
                        "share": statistics.median(shares), "rate": statistics.median(rates),
                    }
                )  # fmt: skip
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Print shares of the read bandwidth; 1 when --require is missed."""
    command = parser()
    options = command.parse_args(arguments)
    if min(options.columns, *options.rows, *options.mib, *options.threads, options.rounds) < 1:
        command.error("sizes, rows, columns, threads and rounds are 1 at least")
    # Before NumPy is imported: its dot products are to run on the threads that read.
    environment.one_thread()
    load = Load()
    results = measure(options)
    busy = load.foreign()
    print(f"{workers.machine()['cpu']}\n")
    rows = [
        [
            r["dtype"], str(r["threads"]), str(r["mib"]), str(r["rows"]), r["layout"], f"{r['rate'] * 1e-9:.1f}",
            f"{r['share']:.0f}",
        ]
        for r in results
    ]  # fmt: skip
    print(stats.table(["dtype", "threads", "MiB", "rows", "layout", "GB/s", "% of reading"], rows))
    if busy > 0.1:
        print(f"\nWARNING: other processes kept {busy:.2f} cores busy during this run.")
    if options.json:
        document = {"schema": 1, "kind": "stream", "machine": workers.machine(), "results": results}
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    missed = [r for r in results if options.require is not None and r["share"] < options.require]
    for r in missed:
        case = f"{r['dtype']} {r['layout']}, {r['rows']} by {r['mib']} MiB on {r['threads']}"
        print(f"REQUIREMENT MISSED: {case}: {r['share']:.0f} %")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
