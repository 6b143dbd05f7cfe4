"""What it costs when nothing lies behind an operand: what kernels fetch ahead ends in a page that is not there.

A large array is a mapping of its own, and behind it may be another one, or nothing, or a page that was never written.
Fetching a line from such a page changes no result, but the CPU looks for the page each time, and finds nothing (15 to
25 cycles a line on a Cascade Lake).  So a program whose operands end elsewhere has another speed, and a kernel that
fetches much behind its operands has two.  This command ends operands with a page, and times products by turns with the
pages behind that one there and not: the same addresses, the same data.

    python bench/edges.py                                        # the shipped shapes, float32, a minute
    python bench/edges.py --dtype float64 --shapes 150x150x100 5x1008x75 --operands b
    python bench/edges.py --dtype int8:int32 --threads 2 --gap 64

Prints the shapes that take more than 3 percent longer with nothing behind, and the geometric mean of all.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import time
from collections.abc import Callable, Sequence

import cases
import compare
import numpy as np
import progress
import stats

import fastgemm

BEHIND = 1 << 22        # bytes that come and go
MARKED = 1.03
MALLOC = 16             # bytes before an array in a mapping that malloc made for it
MOST_GIB = 0.25
NOTHING, READ_WRITE = 0, 3


class Ended:
    """A copy of an array that ends so many bytes before the end of its page, and the pages behind that.

    Examples
    --------
    >>> ended = Ended(np.arange(6.0).reshape(2, 3), 64)
    >>> ended.behind(False)
    >>> ended.array.sum(), -(ended.array.ctypes.data + ended.array.nbytes) % mmap.PAGESIZE
    (np.float64(15.0), 64)
    >>> ended.behind(True)
    """

    def __init__(self, array: np.ndarray, gap: int) -> None:
        whole = -(-(array.nbytes + gap) // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = np.frombuffer(mmap.mmap(-1, whole + BEHIND), "u1")
        memory[:] = 0       # all pages are there
        self._end = memory.ctypes.data + whole
        self.array = cases.copied(array, memory[whole - gap - array.nbytes : whole - gap])

    def behind(self, there: bool) -> None:
        """Let the pages behind the array be there, or not."""
        libc = ctypes.CDLL(None, use_errno=True)
        how = READ_WRITE if there else NOTHING
        if libc.mprotect(ctypes.c_void_p(self._end), ctypes.c_size_t(BEHIND), ctypes.c_int(how)):
            raise OSError(ctypes.get_errno(), "mprotect")


def ratio(call: Callable[[], object], ends: Sequence[Ended], seconds: float) -> tuple[float, float]:
    """Return the least time with nothing behind the operands, and by how much it is longer than with something."""
    call()
    start = time.perf_counter()
    call()
    count = max(1, int(2e-4 / max(time.perf_counter() - start, 1e-7)))
    best = {True: float("inf"), False: float("inf")}
    until = time.perf_counter() + seconds
    rounds = 0
    while rounds < 2 or time.perf_counter() < until:
        for there in best:
            for end in ends:
                end.behind(there)
            call()      # the pages' addresses are found again
            start = time.perf_counter()
            for _ in range(count):
                call()
            best[there] = min(best[there], (time.perf_counter() - start) / count)
        rounds += 1
    for end in ends:
        end.behind(True)
    return best[False], best[False] / best[True]


def measured(case: cases.Case, operands: str, gap: int | None, seconds: float) -> tuple[float, float]:
    """Return what `ratio` does of one shape; without a gap operands end where malloc's own mappings would have them."""
    a, b = cases.operands(case)
    c = fastgemm.matmul(a, b, dtype=cases.numpy_dtype(case.result))
    gaps = [-(MALLOC + x.nbytes) % mmap.PAGESIZE if gap is None else gap for x in (a, b, c)]
    ends = {one: Ended(x, own) for one, x, own in zip("abc", (a, b, c), gaps, strict=True)}
    left, right, out = (ends[one].array for one in "abc")
    used = [ends[one] for one in operands]
    return ratio(lambda: fastgemm.matmul(left, right, out=out, dtype=out.dtype), used, seconds)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument(
        "--shapes", nargs="+", default=[str(cases.DEFAULT_LIST)], metavar="CSV|MxNxK[xBATCH]",
        help="as bench/compare.py's (default: gemm_shapes.csv)",
    )  # fmt: skip
    made.add_argument("--classes", nargs="+", metavar="CLASS", help="only shapes of these classes")
    made.add_argument("--quick", action="store_true", help="up to three shapes a class, none above 2.2 GFLOP")
    made.add_argument(
        "--dtype", nargs="+", default=["float32"], metavar="DTYPE", help="or operands:result (default: float32)"
    )
    made.add_argument("--threads", type=int, default=1, metavar="N", help="threads of a product (default: 1)")
    made.add_argument("--operands", default="abc", help="those with nothing behind, of a, b and c (default: abc)")
    made.add_argument(
        "--gap", type=int, metavar="BYTES",
        help="from an operand's end to its page's, a multiple of 16; 64: no vector reaches into the next (default: as "
        "malloc places arrays of 128 KiB and more)",
    )  # fmt: skip
    made.add_argument("--seconds", type=float, default=0.2, help="for a shape (default: 0.2)")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the shapes that lose and the mean; 2 where a shape list is missing."""
    made = parser()
    options = made.parse_args(arguments)
    if not options.operands or set(options.operands) - set("abc") or options.threads < 1 or not options.seconds > 0:
        made.error("operands are of a, b and c; threads and seconds are above zero")
    if options.gap is not None and options.gap not in range(0, mmap.PAGESIZE, 16):
        made.error("a gap is a multiple of 16 bytes, below a page")
    try:
        found, left_out = cases.within(compare.chosen_cases(options), MOST_GIB * 2**30, 1)
    except (OSError, ValueError) as error:
        progress.say(f"edges.py: {error}")
        return 2
    ratios = []
    with fastgemm.threads(options.threads), progress.bar("edges", len(found)) as bar:
        for case in found:
            bar.step(case.label)
            seconds, more = measured(case, options.operands, options.gap, options.seconds)
            ratios.append(more)
            if more > MARKED:
                print(f"{case.label}: {stats.duration(seconds)}, {more:.2f} of the time with pages behind", flush=True)
    print(f"{options.threads} thread(s), nothing behind {options.operands}: {len(ratios)} shapes", end="")
    print(f" ({len(left_out)} of more than {MOST_GIB} GiB left out)" if left_out else "", end="")
    if ratios:
        worse = sum(more > MARKED for more in ratios)
        print(f", in the mean {stats.geometric_mean(ratios):.3f} of the time with pages behind, {worse} above {MARKED}")
    else:
        print()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
