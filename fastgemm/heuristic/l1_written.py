"""Outputs of few steps beside an L1 of 32 KiB (`cpu.small_l1`): C written all of a row at a time.

Of few steps of k most of the time goes into C.  The small family's loop goes down the rows of C, a panel of columns at
a time, and where C leaves L2 each row of a panel is a short piece of memory of its own, which no prefetch follows: 2.2
to 2.8 GB/s of C from some 8 MiB on.  gemm's loops over a few panels of rows at a time write whole rows one after the
other, at 6 to 12 GB/s.  In a stack it is all of the outputs together that leave L2.

The figures are of a Skylake-SP and, where transposed operands or stacks are said, of a Cascade Lake (2 cores, 152
GFLOP/s a core in float32), one thread, f32 unless said.
"""

from __future__ import annotations

from .. import cpu, registry
from ..problem import Problem
from . import l1, strides

# Steps up to which so many rows at a time write a C that leaves L2, all of a row, which has so many bytes, one after
# the other.  (GFLOP/s of 12, 24, 96 rows: 2000 x 1600 by 16, 32, 64, 128 steps 52 52 34, 72 72 52, 56 57 51, 62 62 62,
# 784 x 4800 x 32 83 83 65, 25232 x 1600 x 32 84 83 58, 255 x 2048 x 16 42 43 40, 4000 x 4000 by 64, 128 54 56 53, 60 61
# 60; 1000 x 300 x 32 0.96, 200704 x 64 x 64 0.92.  All columns times two panels of them, 100 x 3000 by 16, 20, 32, 64
# 1.19 1.18 1.12 0.96, 48 x 8000 x 32 1.05, f64 100 x 1500 x 16 1.19.)
WRITTEN_STEPS, WRITTEN_ROWS, WRITTEN_ROW = 64, 24, 1024
# And of more than so many times L2, the second where numbers are real, the small family leaves C to that, except where
# C's rows are whole lines, of no whole half pages: of such a C of up to so many times L2, by more than so many steps of
# k and up to so many bytes of them, its loop, which goes down the rows of C, is faster.  (Times the small family, f32
# by 4, 8, 16 steps 500^2 1.0 0.98 0.92, 572^2 1.18 1.1 1.0, 700^2 1.37 1.22 1.08, 900^2 1.4 1.28 1.14, 100 x 3000 1.26
# - 1.1; f64 500^2 1.46 1.26 1.09; c64 400^2 0.6 0.62 0.73, 572^2 0.86 - 1.07.  Of whole lines, C not fetched, f32 640^2
# 1.03 0.96 0.82, 688^2 1.09 1.0 0.82, 800^2 1.1 0.95 0.86, 320 x 2000 1.19 - 0.95, 896^2 x 16 0.9, 1120^2 by 8, 16 1.0
# 0.9, 1280^2 x 16 1.13, 640^2, 800^2, 48 x 8000 by 32 0.86 0.9 0.9, 640^2, 800^2 by 48 1.14 1.0; f64 400^2 by 4, 8, 16,
# 32 1.06 0.98 0.98 0.94, 688^2, 800^2 by 4 1.07 1.08, 600^2 x 16 0.93, 640^2 by 16, 32 1.03 1.42; half pages, f32
# 1024^2 x 16, 255 x 2048 x 16 1.24 1.2, f64 512^2 x 16 1.18.)
WRITTEN_L2, LINES_L2, LINES_STEPS, LINES_ROW = (3, 1.1), 5, 4, 128
# Of transposed operands from so many times L2 on.  (Times the small family, by 4, 11, 20, 40 steps, 1772 x 579 nt 1.5
# 1.4 1.24 1.13, tn 1.5 1.3 1.18 1.24, tt 1.5 1.34 1.2 1.1, 1000 x 1882 nt 2.1 1.4 1.45 1.7, tn 1.3 1.7 1.4 1.65, tt 2.0
# 1.7 1.35 1.33, 1772 x 1882 nt 4.4 2.5 2.4 2.0, tn 5.1 3.3 2.6 2.0, tt 4.4 3.1 2.4 1.9, 1772 x 1024 nt 2.5 1.6 2.1 2.0;
# 1000 x 400, of whole lines, 0.9 to 1.06, 400 x 579, of 0.9 L2, 1.0 to 1.08; two threads, 1235 x 262 x 5 tt, of 1.2 L2,
# 0.8.)  Beside an A by columns B is copied, because 96 rows at a time are too many there as well.  (Times in place, by
# 11, 20, 40 steps 1000 x 579 1.03 1.02 1.19, 1772 x 579 1.0 1.08 1.18, 1772 x 1882 1.13 1.13 1.18, 1000 x 400 1.0 1.05
# 1.1.)
TURNED_L2 = 1.5
# Of a stack, whose outputs together leave L2: so many times L2, from so many rows on; fewer where C's rows are no
# whole lines, of more than so many steps; whole lines where a row, or an item, has so many bytes. (Times the small
# family, f32 outputs of 8 and 20 MiB, 72 x 579, 72 x 1641, 400 x 579 or 1000 x 579 by 3 or 4 steps, nn 1.65 2.6, 1.7
# 4.1, 1.5 2.6, nt 2.4 2.2, - -, 3.6 2.5, tn 1.6 2.7, - -, 1.9 2.8, tt 1.5 2.2, - -, 2.8 2.3, by 15 nn 2.3 2.3, 2.75
# 2.8, 1.74 2.5, nt 1.9 -, tn 1.9 2.3, - -, 1.7 2.5, tt 1.6 -, - -, 1.5 -; whole lines, by 8, 72 x 576 1.9 1.9, 400 x
# 576 1.5 1.6, 400 x 400 1.5 1.9, 400 x 256 1.07 1.25, but 72 x 400 0.94 1.4, 72 x 256 0.8 1.1; 24 rows, 300 x 8 1.2,
# 579 x 15 1.2, 1641 x 15 2.8, but 576 x 8 0.93, 1641 x 3 0.93; f64 72 x 331 x 3 4.5 2.2, x 15 1.7 1.7, 400 x 1001 x 3
# 2.9 2.5, x 15 1.9 2.1.) (More steps: f64 81 x 448 x 46, 179 x 256 x 63 tn, two threads, 0.8.)
STACK_L2, STACK_ROWS, STACK_LEAST, STACK_LINES, STACK_MOST = 4, 48, 8, 2048, 32
# And by `STACK_LEAST` steps at most from less on, where C's rows are that long and no whole lines.  (2 MiB by 3 or 4
# steps, 72 x 579 1.3, 300 x 579 1.4, 72 x 1641 1.3, 400 x 579 nt, tn, tt 1.4 1.5 1.3, f64 72 x 331 1.3; by 15 steps
# 72 x 579 1.07 0.95 1.06 0.78, f64 72 x 331 0.9.)
STACK_NEAR = 1.1


def beats_small(problem: Problem, tier: registry.Isa) -> bool | None:
    """Say whether gemm's blocks write C better than the small family does; None where C is not what takes the time.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import l1_written
    >>> from fastgemm.problem import Problem
    >>> l1_written.beats_small(Problem("f32", 64, 64, 8), registry.isa("v4")) is None
    True
    """
    if not panels(problem, tier, 1):
        return None
    if problem.batch > 1:
        return _stack(problem)
    plain, row_c = l1.is_plain(problem), l1.row_c(problem)
    if problem.layout != "nn" and not plain:
        return None
    pays = problem.k > LINES_STEPS and problem.k * problem.row.itemsize <= LINES_ROW
    if pays and l1.by_lines(problem, LINES_L2) and row_c % (strides.PAGE // 2):
        return False
    least = WRITTEN_L2[plain] if problem.layout == "nn" else TURNED_L2
    return True if problem.m * row_c > least * cpu.caches().l2 else None


def panels(problem: Problem, tier: registry.Isa, mr: int) -> int:
    """Return how many panels of rows at a time write C, where that takes most of the time; 0: as many as fit.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import l1_written
    >>> from fastgemm.problem import Problem
    >>> l1_written.panels(Problem("f32", 64, 64, 8), registry.isa("v4"), 6)
    0
    """
    few = problem.k * problem.row.parts <= WRITTEN_STEPS and l1.row_c(problem) >= WRITTEN_ROW
    leaves = _bytes_c(problem) > cpu.caches().l2
    return -(-WRITTEN_ROWS // mr) if cpu.small_l1(tier) and few and leaves else 0


def copies(problem: Problem, tier: registry.Isa) -> bool:
    """Say whether B is copied for the sake of C: beside an A by columns, and where a few rows of items share long rows.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import l1_written
    >>> from fastgemm.problem import Problem
    >>> l1_written.copies(Problem("f32", 1000, 1000, 20, layout="tn"), registry.isa("v3"))
    False
    """
    if not (panels(problem, tier, 1) and l1.is_plain(problem)) or problem.m < WRITTEN_ROWS:
        return False
    if problem.batch == 1:
        return problem.layout == "tn"
    long = problem.k > STACK_LEAST and problem.n * problem.row.itemsize >= strides.PAGE
    return long and _bytes_c(problem) > STACK_L2 * cpu.caches().l2


def _bytes_c(problem: Problem) -> int:
    return problem.batch * problem.m * l1.row_c(problem)


def _stack(problem: Problem) -> bool | None:
    # Whether gemm writes all the outputs of a stack better: `STACK_L2`, and `STACK_NEAR` for less of them.
    row_c, l2 = l1.row_c(problem), cpu.caches().l2
    whole = row_c % strides.LINE == 0
    if problem.k > STACK_MOST or not l1.is_plain(problem):
        return None
    if _bytes_c(problem) <= STACK_L2 * l2:
        near = _bytes_c(problem) > STACK_NEAR * l2 and problem.k <= STACK_LEAST
        return True if near and not whole and row_c >= STACK_LINES and problem.m >= STACK_ROWS else None
    if whole and row_c < STACK_LINES and 4 * problem.m * row_c <= l2:
        return None
    some = problem.m >= WRITTEN_ROWS and not whole and problem.k >= STACK_LEAST and problem.layout == "nn"
    return True if some or problem.m >= STACK_ROWS else None
