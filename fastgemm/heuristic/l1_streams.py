"""Few rows by a large B beside an L1 of 32 KiB (`cpu.small_l1`): B in place, a few whole rows of it at a time.

A tile takes a few lines of each row of B, and a CPU's own prefetch follows so many streams of reads: a Skylake-SP's 32,
each in its page.  Of blocks of as many rows and fewer, all of their columns, it reads every row ahead from L3 or memory
while the tiles multiply; of more it follows none, and a copy of B is first read and then multiplied.  Fewer rows than
that pass over C more often, which stays in L2.

The figures are of a Skylake-SP (2 cores, 152 GFLOP/s a core in float32, no VNNI), one thread, f32 unless said; times
what was done before: B copied in blocks of 128 and 256 steps, in place in blocks of 256 to 512, or strips of gemv.
"""

from __future__ import annotations

from .. import cpu, registry
from ..problem import MAX_BLOCK, MAX_PARTIAL, Config, Problem
from . import l1
from .costs import whole_items

# A B, or a stack of them, of more than so many times L2, rows of so many bytes, and so many steps.  (2, 8, 12, 16 rows,
# 800 x 800 0.90 1.13 1.03 1.0, 1000 x 700 0.98 1.17 1.02 0.99, 1000 x 1000 0.99 1.12 1.0 0.96, 1250 x 1250 - - 1.13
# 0.96, 2000 x 2000 1.04 1.03 1.31 1.21; 700 x 10000 1.03 1.03 1.15 1.18, 520 x 8000 1.04 1.08 1.04 1.06, but 400 x
# 20000 0.85 0.88 1.13 1.23, 256 x 20000 0.82 0.89 1.09 1.27.)
LEAST_L2, LEAST_ROW, LEAST_STEPS = 5, 2048, 128
# Of a stack so many steps, and, of real numbers and fewer than that, so many rows at least, one more where strips of
# gemv take fewer, and at most. (Cascade Lake, stacks of 12 and 30 MiB, in place and copied times blocks of 32 steps,
# f32 4 x 1300 x 100 2.2 1.7, 1.8 1.6, 8 x 1300 x 100 1.7 1.4, 1.9 1.3, 14 x 1300 x 100 - -, 2.3 1.2, 24 x 1300 x 100 -
# -, 1.5 0.9, 40 x 1300 x 100 - -, 1.7 0.84, 14 x 800 x 100 - -, 2.6 1.1, 14 x 1300 x 60 1.2 0.85, 8 x 650 x 64 - -, 1.3
# 1.3, 3 x 700 x 60 1.15 1.5; f64 4 x 650 x 64 2.1 1.3, 12 x 650 x 100 1.6 1.2; strips of gemv, 2 x 1300 x 100 0.96, 3 x
# 1444 x 87 0.97, f64 3 x 373 x 110 0.90, but 3 x 1853 x 57 1.77, 3 x 1066 x 56 1.19; more steps, copied times these, 17
# x 1091 x 209 0.79, 25 x 1241 x 198 0.86, 24 x 1300 x 300 1.1 0.9, 29 x 528 x 361 and 32 x 1014 x 619 1.0.)
STACK_STEPS, STACK_LEAST, STACK_MOST, STRIP_STEPS = 48, 3, 16, 64
# Steps of k of a block, and the sixteenths of L2 that it has at most, but no fewer steps than the third; the second
# pair where rows lie half pages apart and B comes from L3.  (12, 16, 24, 32, 48 steps: 12 x 3000 x 3000 - 1.47 1.50 -
# 1.2, 16 x 4000 x 1000 - 1.20 1.25 1.17 -, 12 x 2500 x 2500 - 1.40 1.47 1.42 -; f64 12 x 3000 x 3000 1.44 1.46 1.3 - -,
# 12 x 1800 x 1800 1.30 1.39 1.47 - -; half pages apart, from L3, 16 x 3072 x 1024 - - 1.04 1.10 1.14, 64 steps 1.17, 12
# x 2048 x 2048 - - 1.14 1.20 1.24, 64 steps 1.24, from memory 12 x 3072 x 3072 - 1.0 1.10 1.03 -.)
STEPS, APART_STEPS, LEAST = (32, 5), (64, 12), 16
# Where B comes from L3 and a thread's C takes more than so many sixteenths of L2, beside up to 16 rows of registers and
# beside more, passes over C cost more than rows of B in order gain: the widest tile, and so many steps.  (`builds.py`
# over 16 to 32 steps, one thread and two, C in KB: 24 x 5000 x 500 480 1.21 -, 16 x 11000 x 250 704 1.37 1.13, 32 x
# 8000 x 300 1024 1.39 1.15, f64 20 x 3000 x 400 480 1.21 -, 16 x 5500 x 250 704 1.36 1.13, c64 12 x 3000 x 400 288 1.24
# -; but 16 x 6000 x 400 384 0.97, 10 x 8000 x 300 320 0.92, f64 16 x 3000 x 400 384 1.01; one panel of rows, plans in
# turns, 8 x 14000 x 280 437 1.0, 6 x 18000 x 220 421 0.98.)
LONG_STEPS, LONG_C = 256, (6, 4)
# Where B comes from memory and a thread's C takes half of L2, the rows of C are streams too: 13 and 14 rows are one
# pass of tiles as high, 15 and 16 take fewer steps; of more, all of whose C takes more than the last so many
# sixteenths, B is copied.  (The same, one thread and two: 14 x 20000 x 700 1120 1.90 1.65, f64 14 x 10000 x 400 1120
# 2.16 1.88; 16 x 9000 x 2000 576 1.33 1.13, 16 x 11008 x 4096 704 1.50 1.27, 16 x 20000 x 512 1280 1.69 1.53, f64 16 x
# 4500 x 1500 576 1.18 1.20, 16 x 10000 x 400 1280 1.53 1.43; plans in turns, 16 x 7000 x 1000 448 1.01 0.89; copied 24
# x 7000 x 2000 672 1.10 1.25, 32 x 5500 x 2000 704 1.33 1.21, 32 x 7000 x 1000 896 1.41 1.28, f64 20 x 4000 x 1000 640
# 1.07 0.96; plans in turns, 24 x 4000 x 2000 384 0.97.  Up to 12 rows 16 steps stay, 12 x 20000 x 1000 960 1.0; c64 8 x
# 10000 x 2000 0.95.)
FEW_STEPS, FEW_C, COPIED_C, MANY_M = 12, 8, 10, 12
# Rows of registers that gain where B comes from L3 and from memory: by the bytes of a real number; half pages apart;
# and where B's rows are longer than so many bytes.  (16, 24, 32 rows, 3000 x 3000 1.37 1.1 1.04, 2500 x 2500 1.3 1.12
# 1.08, 1400 x 1400 1.0 1.11 1.07, 2000 x 2000 1.21 1.1 1.0, 48 rows 0.83 to 0.9; f64 16, 24 rows 3000 x 3000 1.32 0.99,
# 1800 x 1800 1.24 1.08, 1000 x 1000 0.94 1.17; c64 8, 12, 16, 24 rows 2000 x 2000 1.37 1.16 1.17 0.97, c128 1000 x 1000
# 1.1 1.1 1.12 -; i32 8, 12, 16, 24 rows 2000 x 2000 1.5 1.5 1.34 1.1, i64 1300 x 1300 1.2 1.4 1.18 -; half pages apart,
# 9, 12, 16, 24 rows 4096 x 4096 1.1 1.0 0.97 0.85, 2560 x 2560 1.26 1.17 1.13 1.0, f64 2560 x 2560 1.17 1.12 0.91 0.8,
# from L3 2048 x 2048 1.2 1.24 1.07 0.95, 3072 x 1024 1.44 1.24 1.17 0.98; 10, 16, 24 rows 11008 x 4096 1.27 1.04 0.85,
# 32000 x 1000 1.26 1.13 0.97.  In stacks, times the same, 8, 12, 16, 24 rows 10 of 1000 x 1000 1.6 - 1.13 1.06, 4 of
# 1500 x 1500 - 1.18 - -, f64 1.51 - 1.13 0.92, 1.25, but apart 10 of 8 and 16 x 1024 x 1024 0.97 1.0.)
ROWS, APART_ROWS, LONG_ROWS, LONG = {2: (32, 32), 4: (32, 32), 8: (24, 20)}, (16, 12), 16, 32 << 10
# Steps of k, by rows and threads, from which on threads share k, so that each reads whole rows, and not columns.  (Two
# threads, columns and k of columns by as many steps as one thread has: 16 x 700 x 10000 1.08 1.45, f64 1.28 1.81, 24 x
# 2500 x 2500 1.08 1.21, 8 x 3000 x 3000 1.01 1.26, 8 x 11008 x 4096 1.07 1.37, 12 x 1000 x 1000 1.04 1.12, f64 8 x 1000
# x 1000 1.01 1.15; 32 x 1400 x 1400 1.14 1.14, 16 x 3072 x 1024 1.0 0.98, 16 x 4000 x 1000 1.08 0.98, f64 16 x 2048 x
# 512 1.04 0.96.  Of columns twice as many steps are better, of which each thread reads half.)  Not where B comes from
# L3 and its rows lie half pages apart (`builds.py`, 12 and 16 x 2048 x 2048 1.36 1.07, 1.32 0.9).
SHARED_STEPS = 32
# Integers of up to so many rows stay gemv's strips, as do real numbers where B comes from L3, or, with rows half pages
# apart, has not so many times L3; and so do more rows that are strips where they lie apart and B comes from memory.
# (2 and 4 rows from L3, 900 x 5000 0.99 0.94, 2000 x 2000 - 1.01, from memory 3000 x 3000 1.14 1.12, by `builds.py`
# 1.02 0.95, f64 1.07 1.1, 600 x 30000 1.15 1.1; i32 2000 x 2000 0.98 0.89, i64 1300 x 1300 1.0 0.97; apart, 2, 4, 8
# rows, f32 and f64 2048 x 2048 0.84 0.96 1.0, 0.88 0.97 0.87, 1024 x 1024 1.0 1.0 1.1, 0.84 0.92 1.11, 4096 x 4096 1.09
# 1.07 1.0, 1.05 1.04 0.95, f64 8448 x 2816 1.12 1.03 0.89.)
STAY_ROWS, STAY_L3 = 4, 1.5


def config(problem: Problem, tier: registry.Isa) -> Config | None:
    """Return the configuration for a problem whose B is read so, None for one of another kind.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import l1_streams
    >>> from fastgemm.problem import Problem
    >>> l1_streams.config(Problem("f32", 12, 3000, 3000), registry.isa("v3"))
    """
    if not _concerns(problem, tier):
        return None
    split, threads = _team(problem)
    shares = threads if split == "n" else 1
    mr, nr = _tile(problem, tier, shares)
    rows, steps = -(-problem.m // mr) * mr, _steps(problem, (mr, nr), shares)
    return Config("gemm", tier.name, mr, nr, rows, steps, MAX_BLOCK, "none", split, threads)


def _concerns(problem: Problem, tier: registry.Isa) -> bool:
    if not cpu.small_l1(tier) or not l1.as_stored(problem) or problem.layout != "nn" or problem.m == 1:
        return False
    row, row_b, distant, apart = problem.row, problem.n * problem.row.itemsize, far(problem), l1.apart(problem)
    stack = problem.batch > 1
    large = _bytes_b(problem) > LEAST_L2 * cpu.caches().l2 and row_b >= LEAST_ROW
    if not large or (apart and stack) or problem.k < (STACK_STEPS if stack else LEAST_STEPS):
        return False
    if problem.k < LEAST_STEPS:
        fewest = STACK_LEAST + 1 if problem.k >= STRIP_STEPS else STACK_LEAST
        return l1.is_plain(problem) and fewest <= problem.m <= STACK_MOST
    if row.parts == 1 and problem.m <= STAY_ROWS:
        least = STAY_L3 * cpu.caches().l3 if apart else 0
        if row.lane[0] != "f" or not distant or _bytes_b(problem) <= least:
            return False
    elif row.parts == 1 and problem.m <= registry.STRIP_ROWS and apart and distant:
        return False
    most = (APART_ROWS if apart else ROWS[row.real_bytes])[distant]
    if row_b > LONG or (distant and row.parts == 1 and _c_of_l2(problem, 1) > COPIED_C):
        most = min(most, LONG_ROWS)
    return problem.m * row.parts <= most


def _bytes_b(problem: Problem) -> int:
    return problem.batch * problem.k * problem.n * problem.row.itemsize


def far(problem: Problem) -> bool:
    """Say whether B comes from memory.

    Examples
    --------
    >>> from fastgemm.heuristic import l1_streams
    >>> from fastgemm.problem import Problem
    >>> l1_streams.far(Problem("f32", 8, 100, 100))
    False
    """
    return _bytes_b(problem) > cpu.caches().l3 // 2


def _team(problem: Problem) -> tuple[str, int]:
    threads = problem.threads
    if problem.batch > 1:
        return ("batch" if whole_items(problem) else "n"), threads
    return "k" if deep(problem) and (far(problem) or not l1.apart(problem)) else "n", threads


def deep(problem: Problem) -> bool:
    """Say whether k is so long that threads share it.

    Examples
    --------
    >>> from fastgemm.heuristic import l1_streams
    >>> from fastgemm.problem import Problem
    >>> l1_streams.deep(Problem("f32", 8, 100, 100))
    False
    """
    partial = problem.m * problem.n * problem.row.itemsize
    long = problem.k > SHARED_STEPS * problem.threads * problem.m and partial <= MAX_PARTIAL
    return problem.threads > 1 and long


def _c_of_l2(problem: Problem, shares: int) -> float:
    """Return the sixteenths of L2 that a thread's part of C takes."""
    return 16 * problem.m * problem.n * problem.row.itemsize / (shares * cpu.caches().l2)


def _is_long(problem: Problem, shares: int) -> bool:
    """Say whether each pass over C takes many steps: `LONG_STEPS`."""
    near = not far(problem) and not l1.apart(problem)
    return near and _c_of_l2(problem, shares) > LONG_C[problem.m * problem.row.parts > LONG_ROWS]


def _has_many_streams(problem: Problem, shares: int) -> bool:
    """Say whether many rows of C come from beyond L2 as those of B do: `FEW_STEPS`, or tiles of all rows."""
    some = problem.row.parts == 1 and MANY_M < problem.m <= LONG_ROWS and not l1.apart(problem)
    return some and far(problem) and _c_of_l2(problem, shares) > FEW_C


def _steps(problem: Problem, tile: tuple[int, int], shares: int) -> int:
    # `shares`: the threads that share a row of B.
    if _is_long(problem, shares):
        steps = LONG_STEPS
    elif problem.m > tile[0] and _has_many_streams(problem, shares):
        steps = FEW_STEPS
    else:
        most, sixteenths = APART_STEPS if l1.apart(problem) and not far(problem) else STEPS
        held = shares * cpu.caches().l2 * sixteenths // 16 // (problem.n * problem.row.itemsize)
        steps = max(LEAST, min(APART_STEPS[0], shares * most, held))
    return -(-problem.k // -(-problem.k // steps))


def _tile(problem: Problem, tier: registry.Isa, shares: int) -> tuple[int, int]:
    # Of the tiles of several vectors the one with the fewest panels of rows, the widest among equals (12 rows 6 x 64
    # over 8 x 48 1.05, 16 rows 0.95), and of several panels the widest where B's rows lie half pages apart (16 x 3072
    # x 1024, 16 x 2048 x 2048 1.05).
    lanes, tiles = registry.lanes(problem.row, tier), registry.tiles(problem.row, tier)
    wide = [(mr, nr) for mr, nr in tiles if nr > 2 * lanes]
    several = problem.m > max(mr for mr, _ in wide)
    if several and (l1.apart(problem) or _is_long(problem, shares)):
        return max(wide, key=lambda tile: tile[1])
    if _has_many_streams(problem, shares):
        wide = list(tiles)
    return min(wide, key=lambda tile: (-(-problem.m // tile[0]), -tile[1]))
