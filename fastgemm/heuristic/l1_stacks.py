"""Stacks that come from beyond L2, beside an L1 of 32 KiB (`cpu.small_l1`): wide tiles, or copies, of each item's B.

The B of a single product is read again and again while it is measured or used, and the rules of `l1` take it
to be in L2 if it fits there.  That of an item of a long stack comes from L3 or memory every time, however small it is.
A narrow tile then reads two lines of each row of B and goes to the next row, in another page where rows are long: too
little for the CPU's own prefetch, which follows the four lines of a wide one, and copies, which read all of a row.

The figures are of a Cascade Lake (2 cores, 152 GFLOP/s a core in float32), one thread, stacks of 12 and 30 MiB.
"""

from __future__ import annotations

from math import inf

from .. import cpu, registry
from ..problem import Problem
from . import l1, strides

# Operands and outputs of more than so many times L2.  (Of 2 and 4 times 14 x 32 was as good.)
STREAMED_L2 = 6
# Bytes of a row of B above which tiles have so many vectors, beside an A by rows and by columns. (Four in place, times
# 14 x 32, which costs said, f32 of 14 rows, 300 x 30 1.2 1.2, 800 x 30 1.5 1.1, 1300 x 30 2.4 2.3, 300 x 300 1.2 1.6,
# 512 x 300 1.4 1.5, 24 rows 300 x 300 1.15 1.3, f64 14 rows 650 x 30 2.35 2.5, 256 x 136 2.2 1.45, 24 rows 650 x 300 -
# 1.4; times 8 x 48 of 8 rows, 1300 x 30 1.4 2.2, 300 x 30 1.2 1.14, 1300 x 100 1.2 1.3, 512 x 100 1.2 1.2, 192 x 413
# 0.80, 200 x 300 0.9 1.0; f64 650 x 30 2.2 2.6, 256 x 136 1.2 1.06, 150 x 300 0.91 0.97.  Three times 14 x 32, f32 14
# rows 300 x 30 1.1 1.2, 200 x 300 1.06 1.4, 300 x 300 1.25 1.65; 9 x 89 x 570 0.89, f64 9 x 44 x 405 0.90, 13 x 55 x
# 189 0.92; tn, 25 x 241 x 501, 39 x 251 x 615, 58 x 243 x 319 0.89 to 0.92, four of 8 rows 778 x 258, 640 x 289 0.86,
# f64 1024 x 393 0.79, but 14 rows 500 x 300, 1300 x 300 2.4, 2.1, 24 rows 500 x 100 1.9 1.5, 40 rows 1.8 1.1, 8 rows
# 500 x 100 1.6 1.5.)
VECTORS = ((2048, 4), (384, 3)), ((2048, 3),)
# Rows from which B is copied beside an A by rows, where B's rows are longer than a page, of so many steps at least, and
# where they are not.  (Times wide tiles in place, f32 of 14 rows, 1300 x 30 1.3 0.9, 1300 x 100 1.4 1.1, 24 and 40 rows
# 1300 x 100 1.4 1.2, 1.4 1.0, 1300 x 300 40 rows 1.2 1.0, 22 rows 1500 x 15 1.2 1.6, x 8 0.9 0.9; f64 14 rows 1300 x 30
# 1.25 0.85, 19 rows 869 x 29, 1867 x 18 0.88 0.87, 24 and 40 rows 650 x 136 - 1.1, 1.3 1.1; shorter rows, f32 14, 24,
# 40 rows, 300 x 300 1.0 0.95, 1.03 0.85, 1.1 1.1, 200 x 300 1.0 0.9, 1.1 1.0, 1.16 1.3, 512 x 100 40 rows 1.0 1.3.
# Beside an A by columns, f32 1300 x 30 8 and 14 rows 1.8 1.2, 1.5 1.0, but 11 x 1242 x 18, 13 x 1407 x 16, 12 x 1088 x
# 26 0.81 to 0.88, 8 x 1565 x 143 0.72, 500 x 100 14, 24, 40 rows 0.9 0.95, 0.95 1.03, 1.2 1.0.)
LONG_ROWS, LONG_STEPS, ROWS = 16, 32, 32


def streams(problem: Problem) -> bool:
    """Say whether it is such a stack: of real numbers as they lie in memory, B's by rows.

    Examples
    --------
    >>> from fastgemm.heuristic import l1_stacks
    >>> from fastgemm.problem import Problem
    >>> l1_stacks.streams(Problem("f32", 8, 300, 8))
    False
    """
    several = problem.batch > 1 and problem.layout[1] == "n" and l1.is_plain(problem)
    return several and problem.streamed > STREAMED_L2 * cpu.caches().l2


def tiles(problem: Problem, tier: registry.Isa) -> tuple[tuple[int, int], ...]:
    """Return the tiles to choose from, of `l1.tiles`.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import l1_stacks
    >>> from fastgemm.problem import Problem
    >>> l1_stacks.tiles(Problem("f32", 16, 1024, 1024), registry.isa("v3"))
    ((6, 16), (4, 24))
    """
    found = l1.tiles(problem, tier)
    if not (cpu.small_l1(tier) and streams(problem)):
        return found
    lanes = registry.lanes(problem.row, tier)
    row_b = problem.n * problem.row.itemsize
    least = next((vectors for row, vectors in VECTORS[problem.layout[0] == "t"] if row_b > row), 1)
    least = min(least, -(-problem.n // lanes)) * lanes
    return tuple(tile for tile in found if tile[1] >= least) or found


def copied_from(problem: Problem) -> float:
    """Return the rows of registers from which a B by rows is copied, of more columns than a panel has.

    Examples
    --------
    >>> from fastgemm.heuristic import l1_stacks
    >>> from fastgemm.problem import Problem
    >>> l1_stacks.copied_from(Problem("f32", 100, 64, 64))
    inf
    """
    found = l1.copied_from(problem)
    if found == inf or not streams(problem):
        return found
    long = problem.k >= LONG_STEPS and problem.n * problem.row.itemsize > strides.PAGE
    return min(found, LONG_ROWS if long else ROWS)
