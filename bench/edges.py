"""What it costs when nothing lies behind an operand: what kernels fetch ahead ends in a page that is not there.

A large array is a mapping of its own, and behind it may be another one, or nothing, or a page that was never written.
Fetching a line from such a page changes no result, but the CPU looks for the page each time, and finds nothing (15 to
25 cycles a line on a Cascade Lake).  So a program whose operands end elsewhere has another speed, and a kernel that
fetches much behind its operands has two.  This command ends operands with a page, and times products by turns with the
pages behind that one there and not: the same addresses, the same data.

    python bench/edges.py                                        # the shipped shapes, float32, a minute
    python bench/edges.py --dtype float64 --shapes 150x150x100 5x1008x75 --operands b
    python bench/edges.py --dtype int8:int32 --threads 2

Prints the shapes that take more than 3 % longer with nothing behind, and the geometric mean of all.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import cases
import numpy as np
import progress

import fastgemm
from fastgemm.tune.words import geometric_mean

SHAPES = Path(__file__).with_name("shapes") / "gemm_shapes.csv"
BEHIND = 1 << 22        # bytes that come and go
MARKED = 1.03
MALLOC = 16             # bytes before an array in a mapping that malloc made for it
MOST_BYTES = 1 << 28
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
        # (Transposed views keep their layout.)
        flat = array.T if array.flags.f_contiguous and not array.flags.c_contiguous else array
        whole = -(-(flat.nbytes + gap) // mmap.PAGESIZE) * mmap.PAGESIZE
        self._map = mmap.mmap(-1, whole + BEHIND)
        self._map.write(bytes(1) * (whole + BEHIND))     # all pages are there
        self._end = ctypes.addressof(ctypes.c_char.from_buffer(self._map)) + whole
        copy = np.ndarray(flat.shape, flat.dtype, self._map, whole - gap - flat.nbytes)
        copy[...] = flat
        self.array = copy if flat is array else copy.T

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--shapes", nargs="+", default=[str(SHAPES)], metavar="CSV|MxNxK[xBATCH]", help="default: gemm_shapes.csv"
    )
    parser.add_argument("--dtype", default="float32", help="or operands:result (default: float32)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of a product (default: 1)")
    parser.add_argument("--operands", default="abc", help="those with nothing behind, of a, b and c (default: abc)")
    parser.add_argument(
        "--gap", type=int, metavar="BYTES",
        help="from an operand's end to its page's, a multiple of 16; 64: no vector reaches into the next (default: as "
        "malloc places arrays of 128 KiB and more)",
    )  # fmt: skip
    parser.add_argument("--seconds", type=float, default=0.2, help="for a shape (default: 0.2)")
    options = parser.parse_args(arguments)
    if options.gap is not None and options.gap not in range(0, mmap.PAGESIZE, 16):
        parser.error("a gap is a multiple of 16 bytes, below a page")
    if not options.operands or set(options.operands) - set("abc") or options.threads < 1 or options.seconds <= 0:
        parser.error("operands are of a, b and c; threads and seconds are above zero")
    found: list[cases.Case] = []
    for text in options.shapes:
        found += cases.read(text, [options.dtype]) if text.endswith(".csv") else [cases.parse(text, options.dtype)]
    found = [case for case in found if case.bytes <= MOST_BYTES]
    ratios = []
    with fastgemm.threads(options.threads), progress.bar("edges", len(found)) as bar:
        for case in found:
            bar.step(case.label)
            seconds, more = measured(case, options.operands, options.gap, options.seconds)
            ratios.append(more)
            if more > MARKED:
                print(f"{case.label}: {1e6 * seconds:.1f} us, {more:.2f} of the time with pages behind", flush=True)
    if ratios:
        worse = sum(more > MARKED for more in ratios)
        print(f"{options.dtype}, {options.threads} thread(s), nothing behind {options.operands}: ", end="")
        print(f"{len(ratios)} shapes, in the mean {geometric_mean(ratios):.3f} of the time with pages behind, ", end="")
        print(f"{worse} above {MARKED}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
