"""What the rules of all families count with: costs in cycles, and when a second thread is worth it (Zen 5, 2 cores)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter

from .. import registry
from ..problem import Problem

LATENCY = 4  # of a multiply-add
PORTS = 2  # multiply-adds a cycle
LOADS = 2  # vector loads a cycle
STREAM_B = 0.4  # per vector of B and step, in place: rows apart, lines split where NumPy's arrays begin
# Rows of A are streams of reads too, and a tall tile has more than the CPU follows once they leave L1: f32 14x32 runs
# at 93 % with 512 steps (28 KiB of A) and 87 % with 1024.
# And where A comes from memory every time, at any length (2450 x 32 x 288, 32 of them: 14x32 156 GFLOP/s, 8x32 229;
# small kernels, where A and C are more than half of L3, 6x64 times 14x32: 100000 x 32 x 32 1.32, 100000 x 24 x 27 1.28,
# f64 100000 x 16 x 16 1.6).  Not beside one vector of B: loads are what counts there, and a tall tile has fewest (800 x
# 16 x 800 1.1).
STREAMS, STREAM_ROW = 8, 0.25  # and cycles of a step, for each row above
# Below a megaflop one thread does it.  On an idle machine 64^3 (0.5) gains a factor of 1.35 by a second one; with one
# of the two cores busy it loses a factor of 5, because the team waits for a thread that is not running.
TEAM_FLOPS = 1_000_000
# Bytes of a matrix above which a second thread helps to stream it: 256 KiB take 2.9 us with one and 5.5 with two,
# 1 x 2048 x 512 (4 MiB) 49 and 23.
TEAM_BYTES = 1 << 19
# What cutting a stack anywhere costs for each item, in cycles: a call of the loops around kernels.  Whole items
# leave threads idle where they do not come out even (Zen 4, two threads, rows shared over whole items, f32, 3, 5, 7, 9,
# 13 items: 100 x 50 x 71 1.27 - 1.12 1.09 1.06, 64^3 - 1.15 1.10 1.08 1.05, 30 x 300 x 30 1.26 1.16 1.11 1.08 1.05,
# dots 8 x 200 x 200 nt - 1.16 1.12 1.09 1.06, columns of gemv 1 x 512 x 512 nt 1.32 1.18 1.13 1.09 1.06; f64 in the
# mean 1.24 1.14 1.10 1.07 1.04; eight threads would leave a quarter of their time with 12 items, 7/16 with 9).
ITEM_CYCLES = 125
PEAK = 64  # operations a cycle of vectors of 64 bytes, f32
# Operations, and bytes of a matrix, for each thread of a team: a region takes longer to open and to close the more
# threads it has, by a tenth of a microsecond for each where that has been published, and of a product of 100^3, 20 us
# for one thread, a 64th is less than that.  (A rule for machines of more than four cores; measured on none.)
MEMBER_FLOPS, MEMBER_BYTES = TEAM_FLOPS // 4, TEAM_BYTES // 4
TILE_CYCLES = 24  # ramp of the k-loop and the call
STORE_CYCLES = 1.0  # per vector of C
ROW_CYCLES = 6  # per row of C in a tile: a page and a cache set of its own (14x32 loses 4 points, 6x64 1.5)
# Of bytes, four a lane, beside several vectors of B tall tiles lose at any length (8x48 times 6x64: 494 x 32 x 100
# 0.96, 78 x 78 x 78 0.97, 2450 x 32 x 288, 32 of them, 0.82; but 92160 x 144 x 32 1.09, 64 x 68 x 17 1.06).
BYTE_STREAMS = 6
L1_SHARE = 32 << 10  # bytes of a tile's rows of A up to which they count as there
DEEP = 1024  # steps of k that a thread must have where threads share k


def busy(problem: Problem) -> bool:
    """Say whether there is enough to do for a second thread: of arithmetic, or of output to write.

    (Skylake-SP, idle, rows shared by two threads over one, f64 by 4 steps, 200 x 200 1.42, 256 x 256, which is
    TEAM_BYTES, 1.63, 344 x 344 2.24; f32 256 x 256 1.25, 344 x 344 1.56.)

    Examples
    --------
    >>> from fastgemm.heuristic import costs
    >>> from fastgemm.problem import Problem
    >>> [costs.busy(Problem("f32", m, 400, 4)) for m in (100, 400)]
    [False, True]
    """
    bytes_c = problem.batch * problem.m * problem.n * problem.row.result_bytes * problem.row.parts
    return problem.flops >= TEAM_FLOPS or bytes_c >= TEAM_BYTES


def members(problem: Problem) -> int:
    """Return how many threads of those that a call may use there is enough to do for.

    Examples
    --------
    >>> from fastgemm.heuristic import costs
    >>> from fastgemm.problem import Problem
    >>> [costs.members(Problem("f32", m, m, m, threads=64)) for m in (64, 100, 200, 300)]
    [2, 8, 64, 64]
    >>> [costs.members(Problem("f32", 1, 512, 4096, threads=threads)) for threads in (1, 2, 64)]
    [1, 2, 64]
    """
    if problem.threads <= 2:
        return problem.threads
    bytes_b = problem.batch * problem.k * problem.n * problem.row.itemsize
    enough = max(problem.flops // MEMBER_FLOPS, bytes_b // MEMBER_BYTES, problem.streamed // MEMBER_BYTES)
    return min(problem.threads, max(2, enough))


def whole_items(problem: Problem) -> bool:
    """Say whether threads take whole products of a stack: there are enough, and none has much more to do than others.

    Otherwise they share the rows, or the columns, of all products, and one that two threads have in common is cut.

    Examples
    --------
    >>> from fastgemm.heuristic import costs
    >>> from fastgemm.problem import Problem
    >>> [costs.whole_items(Problem("f32", 100, 50, 71, batch, threads=2)) for batch in (2, 3, 13, 33, 100)]
    [True, False, False, False, True]
    """
    most = -(-problem.batch // problem.threads)  # items of a thread
    idle = most * problem.threads / problem.batch - 1
    return problem.batch >= problem.threads and idle * problem.flops <= PEAK * ITEM_CYCLES * problem.batch


def first_split(problem: Problem, ways: Sequence[tuple[str, int]]) -> tuple[str, int]:
    """Return the first of some splits that has a part for each thread, the one of the most parts where none has.

    `ways` are splits with the parts that each makes of the whole stack; whole items are behind them.

    Examples
    --------
    >>> from fastgemm.heuristic import costs
    >>> from fastgemm.problem import Problem
    >>> [costs.first_split(Problem("f32", 1, 1, 1, 5, threads=n), [("m", 3), ("n", 4)]) for n in (2, 4, 5, 8)]
    [('m', 2), ('n', 4), ('batch', 5), ('batch', 5)]
    """
    ways = [*ways, ("batch", problem.batch)]
    split, parts = next((way for way in ways if way[1] >= problem.threads), max(ways, key=itemgetter(1)))
    return (split, min(parts, problem.threads)) if parts > 1 else ("n", 1)


def balanced(total: int, parts: int) -> list[tuple[int, int]]:
    """Return the sizes of so many panels, and how many have each, as the driver balances them.

    Examples
    --------
    >>> balanced(13, 2)
    [(7, 1), (6, 1)]
    """
    base, extra = divmod(total, parts)
    return [(size, count) for size, count in ((base + 1, extra), (base, parts - extra)) if size and count]


def _tile_cycles(rows: int, vectors: int, k: int, stream: float, real_bytes: int, streams: int) -> float:
    # One microkernel call; rows and vectors are registers.  More rows than `streams` cost something in every step; 0:
    # more than STREAMS, of A's that leave L1.
    loads = vectors + rows
    step = max(rows * vectors / PORTS, loads / LOADS, LATENCY if rows * vectors < LATENCY * PORTS else 0)
    step += vectors * stream
    if not streams:
        streams = STREAMS if rows * k * real_bytes > L1_SHARE else rows
    if rows > streams and vectors > 1:
        step += (rows - streams) * STREAM_ROW
    return k * step + TILE_CYCLES + rows * vectors * STORE_CYCLES + rows * ROW_CYCLES


@lru_cache(maxsize=4096)
def grid_cycles(
    rows: int, vectors: int, k: int, mr: int, nv: int, stream: float, real_bytes: int, streams: int
) -> float:
    """Return the cost of all tiles of a rows x vectors output, in registers."""
    total = 0.0
    i_panels, j_panels = -(-rows // mr), -(-vectors // nv)
    for high, count_i in balanced(rows, i_panels):
        for wide, count_j in balanced(vectors, j_panels):
            total += count_i * count_j * _tile_cycles(high, wide, k, stream, real_bytes, streams)
    return total


def panel_cycles(row: registry.DType, rows: int, vectors: int, mr: int, nv: int) -> float:
    """Return the cost of an output whose B lies in panels of `nv` vectors, for comparing such widths."""
    return grid_cycles(rows * row.parts, vectors, DEEP, mr * row.parts, nv, 0.0, row.real_bytes, streams_of(row, False))


def streams_of(row: registry.DType, far: bool) -> int:
    """Return the rows above which a tile pays for each; 0: above STREAMS where they leave L1."""
    return BYTE_STREAMS if row.group > 1 else STREAMS if far else 0
