"""Few rows by a B beyond half of L2, beside an L1 of 48 KiB that lines from L2 reach by halves (`cpu.half_line_l1`).

As in `l1_streams`, whose reasons hold: B stays in place, and blocks of k are so few rows of it that the CPU reads all
of them ahead.  Such a core follows more of them at a time than one with 32 KiB, and its L2 is twice as large: it gains
for more rows of A, by smaller matrices, and where the rows of B lie whole or half pages apart too.

The figures are of an Emerald Rapids (2 cores of a shared host, L2 of 2 MiB, AVX-512), by plans in turns in one process,
times what was done before: B copied, in place in longer blocks, or the small family.
"""

from __future__ import annotations

from .. import cpu, registry
from ..problem import MAX_BLOCK, Config, Problem
from . import l1, l1_streams

# A B of more than so many bytes of L2, so many rows of A and more.  (f32 6 rows by 600 x 600 1.12, 1000 x 1000 1.6,
# 2000 x 1000 1.55, 8 rows 1.17 1.1 1.15, 10 rows 1.19 1.35 1.05; f64 6 rows by 500 x 500 1.23, 1000 x 1000 1.45; but
# 512 x 512, which is half of L2, 4, 8 and 10 rows 0.85 0.75 0.71; 4 rows by 600 x 600 and 1000 x 1000 1.1 1.1, 1024 x
# 1024 0.93, 2 rows 1.05 1.05 0.87.)
LEAST_OF_L2, LEAST_ROWS = 2, 5
# Rows of registers that gain, of one thread, where B comes from L3 and its rows have at most so many bytes, and else.
# (f32 24, 32, 48 rows 1000 x 1000 1.14 1.07 1.07, 2000 x 1000 1.3 1.25 1.17, 3000 x 1000 1.0 1.0 1.13, 2500 x 2500 1.2
# 1.0 1.28, 9000 x 2000 1.5 1.28 -, 20000 x 512 1.45 1.12 -, 11000 x 250 1.43 1.24 -, 16000 x 1152 1.14 1.35 1.07, 50000
# x 144 1.35 1.12 0.9; 41 x 7790 x 2119 0.79, f64 44 x 4071 x 1961 0.88; 64 rows by 600 x 600, 700 x 700 1.08; f64 500
# x 500 1.05 1.7 1.2, 1000 x 1000 1.28 1.24 1.16, 1500 x 1500 1.33 1.35 1.05, 3000 x 3000 1.3 1.33 1.1.)
ROWS, LONG = (48, 32), 32 << 10
# And where they lie whole or half pages apart: of a B of less than so many times L2, of one from L3, and of one from
# memory by how many bytes their distance is a multiple of, which fewer and fewer sets of L2 hold.  (f32 16, 32, 48
# rows, 1024 x 1024 1.08 1.26 1.16, from L3 2048 x 2048 1.1 1.05 0.93, 8192 x 512 1.03 1.2 1.08, 3072 x 1024 1.2 1.2 -;
# from memory, 16, 24, 32 rows, 5120 x 4096 1.4 1.25 1.06, 14336 x 1024 1.4 1.25 1.05, 50176 x 144 1.28 1.3 1.2, 4096 x
# 4096 1.4 1.2 0.95, 8192 x 2048 1.15 0.9 0.85, 16384 x 1152 1.05 0.72 0.76; f64 1024 x 512 1.05 1.0 1.28, 1024 x 1024
# 1.5 1.33 1.27, 2048 x 512 1.55 1.2 1.1, 2048 x 2048 1.45 1.2 1.1.)
NEAR_L2, APART_NEAR, APART_FAR = 3, 32, ((32 << 10, 16), (16 << 10, 24), (0, 32))
# Rows where threads share the work: rows of B that are no longer than that, of a B that one's L2 does not hold, and not
# where they lie without such a distance and come from memory.  (Two threads, 311 random shapes in f32 and f64: up to 16
# rows 1.2, 17 to 24 0.95, 25 to 32 0.87; up to 16 rows, long ones 0.97, in L2 0.97, from memory 0.97, apart 1.08.)
SHARED = 16
# Steps of k of a block: where rows do not lie apart and B is that large, and else.  (32 and 64 steps, f32 24 x 9000 x
# 2000 1.5 1.2, 24 x 11008 x 4096 1.42 1.21, 24 x 20000 x 512 1.45 1.38, f64 24 x 3000 x 3000 1.32 1.14; 24 x 4096 x
# 4096 - 1.06 and 96 1.24, 24 x 5120 x 4096 1.15 1.25, 16 x 3072 x 1024 1.1 1.23, f64 24 x 2048 x 2048 1.1 1.11 and 96
# 1.26; from L3 f32 3000 x 1000 1.0 1.0, 2000 x 1000 1.2 1.2, f64 7 x 2312 x 574 - 0.82.)  Of the first,
# and of all from memory, beside few rows only as many, but 16, as three eighths of L2 hold.  (16 steps over 32, f32 8,
# 12, 14, 16 rows by 11201 x 2100 1.1 1.12 1.12 1.11, by 6000 x 2000, of which 32 fit, below 1.0; f64 5, 8, 12, 16 rows
# by 8835 x 2455 1.12 1.14 1.04 0.97; but f32 24 x 9000 x 2000 0.8; apart, 17 over 64, f64 10 x 4608 x 3436 1.27, but 16
# over 32, f32 16 x 14336 x 1024 0.75.)
STEPS, LARGE_STEPS, LEAST_STEPS, EIGHTHS = 64, 32, 16, 3
FEW_ROWS, FEW_APART = 16, 12
# Of a C of more than such a part of L2, as many columns at a time as take such: the next pass must find it there.
# (Times all columns, 1000 and 2000 at a time, f32 32 x 50176 x 144 1.29 1.0, 16 x 50176 x 144 1.13 1.15, 24 x 20000 x
# 512 0.92 1.05, f64 32 x 50176 x 144 1.47 1.38, 24 x 11734 x 527 1.3 1.35, 27 x 11929 x 1495 1.22 1.23, 16 x 20000 x
# 512 0.9 1.07.)
LARGE_C, COLUMNS_C = 2, 8


def config(problem: Problem, tier: registry.Isa) -> Config | None:
    """Return the configuration for a problem whose B is read so, None for one of another kind.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import l1_half_lines
    >>> from fastgemm.problem import Problem
    >>> l1_half_lines.config(Problem("f32", 12, 3000, 3000), registry.isa("v3"))
    """
    if not (cpu.half_line_l1(tier) and _concerns(problem)):
        return None
    # Whole rows of B for each thread where k is long, rows apart or not.  (Two threads, k and columns, f32 8 x 1024 x
    # 1024 1.47 1.09, 16 x 2048 x 2048 1.12 1.05, 16 x 4096 x 4096 1.23 1.0, f64 8 x 1000 x 1000 1.33 1.2.)
    split, threads = ("k" if l1_streams.deep(problem) else "n"), problem.threads
    # Of the tiles of several vectors the one with the fewest panels of rows, the widest among equals.  (8 x 48 and 6 x
    # 64, 16 x 3072 x 1024 1.23 1.0, 16 x 2048 x 2048 1.13 1.0, 32 x 3072 x 1024 1.24 1.1.)
    lanes = registry.lanes(problem.row, tier)
    wide = [(mr, nr) for mr, nr in registry.tiles(problem.row, tier) if nr > 2 * lanes]
    mr, nr = min(wide, key=lambda tile: (-(-problem.m // tile[0]), -tile[1]))
    rows, kc = -(-problem.m // mr) * mr, -(-problem.k // -(-problem.k // _steps(problem)))
    return Config("gemm", tier.name, mr, nr, rows, kc, _columns(problem, nr), "none", split, threads)


def _concerns(problem: Problem) -> bool:
    row_b = problem.n * problem.row.itemsize
    if not l1.as_stored(problem) or problem.layout != "nn" or problem.batch > 1:
        return False
    if problem.k < l1_streams.LEAST_STEPS or row_b < l1_streams.LEAST_ROW:
        return False
    rows = problem.m * problem.row.parts
    if LEAST_OF_L2 * problem.k * row_b <= cpu.caches().l2 or rows < LEAST_ROWS:
        return False
    if l1_streams.far(problem) and l1.apart(problem) and rows <= registry.STRIP_ROWS * problem.row.parts:
        # (8 rows, which are strips of gemv, 4096 x 4096 1.04, 50176 x 144 0.88, 16384 x 1152 0.72.)
        return False
    return rows <= (_most_shared(problem) if problem.threads > 1 else _most(problem))


def _steps(problem: Problem) -> int:
    rows, apart = problem.m * problem.row.parts, l1.apart(problem)
    large = not apart or (l1_streams.far(problem) and rows <= FEW_ROWS)
    if _is_near(problem) or not large:
        return STEPS
    if rows > (FEW_APART if apart else FEW_ROWS):
        return LARGE_STEPS
    held = EIGHTHS * cpu.caches().l2 // (8 * problem.n * problem.row.itemsize)
    return max(LEAST_STEPS, min(LARGE_STEPS, held))


def _columns(problem: Problem, nr: int) -> int:
    column, l2 = problem.m * l1.row_c(problem) // problem.n, cpu.caches().l2
    if problem.threads > 1 or LARGE_C * problem.n * column <= l2:
        return MAX_BLOCK
    return max(nr, l2 // COLUMNS_C // column // nr * nr)


def _is_near(problem: Problem) -> bool:
    return problem.k * problem.n * problem.row.itemsize <= NEAR_L2 * cpu.caches().l2


def _most(problem: Problem) -> int:
    row_b, far = problem.n * problem.row.itemsize, l1_streams.far(problem)
    if not l1.apart(problem) or _is_near(problem):
        return ROWS[far or row_b > LONG]
    if not far:
        return APART_NEAR
    return next(rows for distance, rows in APART_FAR if distance == 0 or row_b % distance == 0)


def _most_shared(problem: Problem) -> int:
    row_b = problem.n * problem.row.itemsize
    streams = l1.apart(problem) or not l1_streams.far(problem)
    return SHARED if streams and row_b <= LONG and problem.k * row_b > cpu.caches().l2 else 0
