"""A few rows times packed weights, beside the two bounds: reading the weights, and multiplying.

    python bench/linear.py
    python bench/linear.py --rows 1 8 64 --size 2048 8192 --dtype float32 --threads 2

`fastgemm.linear` of 1 to 32 rows and a packed matrix (int8: `matmul_integer`'s product) reads every weight once, so it
takes at least as long as the same threads take to read so many bytes, and at least as long as the multiply-adds take at
the peak.  Both are measured in the same process: reading as bench/stream.py does, of these very matrices and beside
every round of products, the peak by multiply-adds in registers.  Several matrices take turns, for products and for
reading, so that nothing is left in a cache (one array of 64 MiB read again and again comes 1.15 times as fast from a
last cache of 32).  The bound is the larger of the two; with more rows than the crossover (f32: peak / (2 * bandwidth /
4 bytes), 14 on a Zen 5) the peak is.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import environment
import peers
import progress
import stats
import stream
import worker
import workers

# Bytes that are read before a matrix has its turn again, several times the last cache.
TURNS = 160 << 20


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--rows", nargs="+", type=int, default=[1, 4, 8, 16, 32], metavar="M", help="rows of x")
    made.add_argument("--size", nargs=2, type=int, default=[4096, 4096], metavar=("K", "N"), help="of the weights")
    made.add_argument("--dtype", nargs="+", default=["float32", "int8"], choices=["float32", "float64", "int8"])
    made.add_argument("--threads", type=int, default=2, metavar="N", help="threads (default 2)")
    made.add_argument("--rounds", type=int, default=15, help="samples of every row (default 15)")
    return made


def peak(dtype: str, threads: int) -> float:
    """Operations a second of the multiply-adds that products of a dtype run, on so many threads."""
    from fastgemm import kernels, registry

    tier = kernels.active_isa()
    assert tier is not None
    row = registry.dtype("i8_i32" if dtype == "int8" else dtype)
    rates = [kernels.peak(row.name, tier.name, 200_000, kernels.best_family(row, tier)) for _ in range(5)]
    return threads * max(done / spent for done, spent in rates)


def awake() -> None:
    """Wait while a team rests, which was slower than one thread because something else had a core."""
    library, end = peers.FastGemm(), time.perf_counter() + worker.REST_SECONDS
    while not library.ready() and time.perf_counter() < end:
        time.sleep(0.01)


def read_in_turns(packed: Sequence[Any], work: Callable[[Any], Any], threads: int, pool: ThreadPoolExecutor) -> float:
    """Return bytes a second at which so many threads read packed matrices, one after the other."""
    import numpy as np

    memory = [one.panels.memory for one in packed]
    pieces = [np.array_split(each[: each.nbytes // 4 * 4].view(np.float32), threads) for each in memory]

    def part(at: int) -> None:
        with np.errstate(invalid="ignore"):  # bytes that are no floats
            for piece in pieces:
                work(piece[at])

    start = time.perf_counter()
    if threads == 1:
        part(0)
    else:
        list(pool.map(part, range(threads)))
    return float(sum(each.nbytes for each in memory) / (time.perf_counter() - start))


def measure(options: argparse.Namespace) -> list[list[str]]:
    """Return the table's rows."""
    import numpy as np

    import fastgemm

    k, n = options.size
    rng, rows = np.random.default_rng(0), []
    fastgemm.set_num_threads(options.threads)
    with progress.bar("linear", len(options.dtype) * len(options.rows)) as bar, ThreadPoolExecutor() as pool:
        for dtype in options.dtype:
            whole = dtype == "int8"
            weight = rng.integers(-127, 128, (k, n)).astype(dtype) if whole else rng.standard_normal((k, n))
            count = max(2, TURNS // (k * n * np.dtype(dtype).itemsize))
            for m in options.rows:
                bar.step(f"{dtype} {m} rows")
                packed = [fastgemm.pack(weight.astype(dtype), rows=m) for _ in range(count)]
                x: Any = rng.integers(0, 255, (m, k)).astype("u1") if whole else rng.standard_normal((m, k))
                x = x if whole else x.astype(dtype)
                out = np.empty((m, n), "i4" if whole else dtype)
                times, bandwidths = [], []
                for _ in range(options.rounds):
                    # Threads of Python's may begin on one core: the best of a few.
                    works = stream.readers() * (3 if options.threads > 1 else 1)
                    bandwidths.append(max(read_in_turns(packed, work, options.threads, pool) for work in works))
                    for one in packed:
                        awake()
                        start = time.perf_counter()
                        if whole:
                            one.product(x, out, np.int32)
                        else:
                            fastgemm.linear(x, one, out=out)
                        times.append(time.perf_counter() - start)
                taken, bandwidth = statistics.median(times), statistics.median(bandwidths)
                reading, computing = packed[0].nbytes / bandwidth, 2 * m * n * k / peak(dtype, options.threads)
                rows.append(
                    [
                        dtype, str(m), f"{taken * 1e3:.3f}", f"{packed[0].nbytes / taken * 1e-9:.1f}",
                        f"{bandwidth * 1e-9:.1f}", f"{reading * 1e3:.3f}", f"{computing * 1e3:.3f}",
                        f"{100 * max(reading, computing) / taken:.0f}",
                    ]
                )  # fmt: skip
                del packed
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    options = parser().parse_args(arguments)
    # Before NumPy is imported: its dot products are to run on the threads that read.
    environment.one_thread()
    rows = measure(options)
    print(f"{workers.machine()['cpu']}, {options.threads} threads, weights {options.size[0]} x {options.size[1]}\n")
    heads = ["dtype", "rows", "ms", "GB/s", "reading GB/s", "reading ms", "peak ms", "% of the bound"]
    print(stats.table(heads, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
