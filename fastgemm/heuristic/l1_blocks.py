"""Blocks of a copied B beside an L1 of 32 KiB (`cpu.small_l1`), where A lies by rows.

A tile's panel of B comes from L2 for every panel of rows, so the block that is copied is what L2 keeps beside a few
rows of A, and never a larger one, as elsewhere.

The figures are of a Skylake-SP (2 cores, 152 GFLOP/s a core in float32, no VNNI), one thread, f32 unless said.
"""

from __future__ import annotations

from .. import cpu, registry
from ..problem import PACKED, Problem
from . import l1, l1_stacks, l1_written

# Bytes of L2 that a block takes, in sixteenths, those of its steps of k, or all of a few more (of numbers of four bytes
# 1024), and the rows of A at a time beside it.  (`bench/builds.py`, times blocks of 2 L2 beside 96 rows, f32 and f64:
# 2000 x 1000 x 72 1.08 1.13, 300 x 2000 x 100 1.01 1.06, 2000 x 2000 x 128 1.13 1.11, 700^3 1.05 1.09, 1000^3 1.04
# 1.05, 1024^3 1.06 1.07, 1500^3 1.11 1.03, 2000^3 1.04 1.01, 3000 x 128 x 1152 1.1 1.03, 3000 x 512 x 2048 1.03 1.01,
# 6000 x 1024 x 1536 1.06 1.02, 400 x 4096 x 1024 1.01 1.09.  By sweeps i32 1000^3 1.02, c64 400^3 1.06, 1000^3 1.02,
# c128 300^3 1.05, 400^3 1.03; of 1, 2, 3, 4, 8 panels of 6 rows f64 1000^3 1.07 1.08 1.07 1.05 1.02, 400 x 8192 x 2048
# 1.08 1.09 1.07 1.07 1.03, f32 1024^3 1.06 1.07 1.07 1.07 1.07, 2000 x 1000 x 72 1.1 1.16 - 1.14 1.09; one block of k,
# and two, f64 600^3 1.06 1.04, 700^3 1.09 1.07, 750^3 1.03 1.08, f32 1000^3 1.03 1.02, 1100^3 1.02 1.06, 1280^3 1.0
# 1.05; c64 700^3 1.04 1.01; with A copied as well 0.8 to 0.97.)
SIXTEENTHS, STEP_BYTES, ALL_BYTES, ALL_STEPS, ROWS = 9, 4096, 5632, 1024, 18
# Of at most so many panels, of an output that L2 holds, rows at a time: a panel that L1 keeps is read again for each
# block of them.  (Cascade Lake, times 18 rows, f32 500 x 192 x 96 1.03, 734 x 98 x 239, 1000 x 192 x 128, 400 x 128 x
# 300, 256 x 128 x 512 1.01, 300 x 192 x 1000 0.99, stacks of 200 x 150 x 64 1.06, 350 x 111 x 81 1.04, 128 x 96 x 128
# 1.02; f64 532 x 94 x 94 1.02, 300 x 96 x 800 0.99, stacks of 698 x 76 x 58 1.04; of more panels 0.95 to 1.03, of
# outputs beyond L2 0.8 to 1.0.)
NARROW_PANELS, NARROW_ROWS = 3, 72
# Eighths of L2 from which threads share the columns of such a B, of so many panels each and more: threads that share
# rows copy all of it, once for every piece of rows that they take.  (Two threads, columns times rows, by turns, 2000^3
# 1.2, 3000 x 512 x 2048 1.1, 6000 x 1024 x 1536 1.07, 700 x 500 x 700 1.02, 20000 x 256 x 500 0.96, 8000 x 300 x 300
# 0.95, 4000 x 500 x 100 0.97; f64 3000 x 512 x 2048 1.1, 6000 x 1024 x 1536 1.06, 6308 x 192 x 1600 1.04, 1000 x 200 x
# 1000 1.01.  Of fewer panels 6308 x 192 x 1600 1.03, 1000 x 200 x 1000 0.95, 3000 x 128 x 1152 0.87, f64 0.94, 3136 x
# 64 x 576 0.78.)
SHARED_EIGHTHS, SHARED_PANELS = 7, 3
# Of columns that lie along k, beside up to so many rows, one panel at a time, of twice the bytes of steps, and so many
# rows at a time, as elsewhere (all of them 1.0 to 1.01 of that).  (Times two panels, or blocks as above: 64 x 1024^2
# 1.05, 64 x 1500^2 1.15, 64 x 2048^2 1.17, 128 x 2048^2 1.15, 300 x 1000^2 1.02, 400 x 2000^2 1.05, 600 x 1500^2 1.05,
# 1000^3 1.0; f64 64 x 1024^2 1.08, 32 x 2560^2 1.03, 300 x 1000^2 1.04, 400 x 2000^2 1.05, 600 x 1500^2 1.02, 1000^3
# 0.96.)
TURNED_ROWS, TURNED_TOGETHER = 600, 96
# But all panels of a B of at most so many sixteenths of L2.  (Cascade Lake, times one at a time: f32 512 x 512 x 64
# 1.10, 256 x 512 x 64 1.01, 64 x 1024 x 64, 40 x 700 x 80, 60 x 300 x 100, 100 x 200 x 64 1.03, 600 x 300 x 100, 300 x
# 300 x 200 1.0, stacks of 128 x 128 x 96, 256 x 256 x 64, 512 x 512 x 64, 200 x 200 x 50 1.03, of 384 x 384 x 128 0.98;
# f64 100 x 500 x 64, 300 x 300 x 80 1.0, 80 x 200 x 64 1.04, stacks of 128 x 128 x 96, 256 x 256 x 64, 200 x 200 x 50
# 1.04 to 1.07; c64 100 x 200 x 64 1.03; attention 1.00 to 1.02.)
TURNED_WHOLE = 4
# Of a B that lies in panels all columns, and steps and rows, where there are more steps than the second number: no copy
# has to stay, and a panel meets as many rows as may be.  (Times 96 rows beside 512 columns of 4 KiB of steps each, f32
# 256 x 1024^2 1.16, 512 x 1024^2 1.06, 1000^3 1.05, 2048 x 1024^2 1.06, 4096 x 1024^2 1.04, 6000 x 768^2 1.02, 300 x
# 768 x 3072 1.06, 600 x 2000 x 700 1.0; f64 1.02, 1.1, 1.03, 1.05, 1.1, 1.04, 1.0, 1.08; 240, 390, 516, 702, 1002 rows
# f32 4096 x 1024^2 1.0 1.03 1.04 1.05 1.02, f64 1500 x 4096 x 1024 - 1.08 1.07 1.07 1.1; of 512 steps 4096 x 512^2 by
# 240 and 996 rows 1.0 0.96, f64 0.97 0.97.)
PANEL_COLUMNS, PANEL_STEPS, PANEL_ROWS = 4096, (1024, 512), 702
# Of a B of more than SIDE_L2 times L2 that is copied for up to so many rows: steps of k of a block. Few rows pass over
# a block in less time than it takes to copy, and long pieces of B's rows come faster; with more rows C's passes
# count.  (GFLOP/s of blocks of half of L2, of 128, 256, 512 steps, and of 2048 in turns of two panels: by 4096 x 4096
# 12 rows 36 - - 21, 16 rows 43 41 37 26, 32 rows 60 61 58 47, 64 rows 76 80 77 66, 96 rows 89 90 90 80, 128 rows - 97
# 97 86, 200 rows - 101 103 91, 300 rows - 99 108 -, 400 x 8192 x 2048 - 108 109 109; f64 16 rows 21 - 18 14, beside 18
# rows of A 24 rows 27.7 26.7 -, 32 x 3072 x 1024 31.9 31.8 -, 48 x 3000 x 3000 36.7 37.9 37.8, 64 x 2048 x 2048 40 41
# 40, 128 x 8192 x 2048 - 47 47, 200 x 2000 x 2000 - 51 53, 400 x 8192 x 2048 - 54 55.  B in L3, times blocks of 1000 to
# 1500 steps: 24 by 1250^2, 1400^2, 1024 x 1536 1.1 to 1.2, 48 and 100 rows 1.07 to 1.1, by 1000^2 0.95 to 1.05; from
# L2, 64 x 1536 x 512 0.93.)
SIDE_STEPS, SIDE_MANY = {24: 128, 72: 256, 400: 512}, 73


def copied(problem: Problem, tier: registry.Isa, mr: int, nr: int, few: bool) -> tuple[int, int, int] | None:
    """Return MC, KC and NC; None: as elsewhere.

    Parameters
    ----------
    problem : Problem
        Whose B is copied, and A is not.
    tier : Isa
        Whose kernels multiply.
    mr, nr : int
        Rows and columns of a tile.
    few : bool
        Whether its rows are so few that two panels of B at a time are elsewhere the best.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import l1_blocks
    >>> from fastgemm.problem import Problem
    >>> l1_blocks.copied(Problem("f32", 1000, 1000, 1000), registry.isa("v3"), 4, 24, few=False)
    """
    row, k = problem.row, problem.k
    if not _concerns(problem, tier, "nt") or problem.n <= nr or l1_written.panels(problem, tier, mr):
        return None
    turned = problem.layout == "nt" and problem.m <= TURNED_ROWS
    side = _side_steps(problem)
    if turned:
        steps = 2 * STEP_BYTES // row.itemsize
    elif side:
        steps = side
    elif few and not l1_stacks.streams(problem):
        return None
    else:
        every = min(ALL_STEPS, ALL_BYTES // row.itemsize)
        steps = every if k <= every else STEP_BYTES // row.itemsize
    kc = -(-k // -(-k // steps))
    panels, sixteenth = -(-problem.n // nr), cpu.caches().l2 // 16
    if turned:
        whole = k * problem.n * row.itemsize <= TURNED_WHOLE * sixteenth
        return max(mr, min(problem.m + mr - 1, TURNED_TOGETHER) // mr * mr), kc, panels * nr if whole else nr
    most = max(1, SIXTEENTHS * sixteenth // (kc * row.itemsize * nr))
    narrow = panels <= NARROW_PANELS and problem.m * problem.n * row.itemsize <= cpu.caches().l2
    return max(mr, (NARROW_ROWS if narrow else ROWS) // mr * mr), kc, -(-panels // -(-panels // most)) * nr


def in_panels(problem: Problem, tier: registry.Isa, mr: int, nr: int) -> tuple[int, int, int] | None:
    """Return MC, KC and NC for a B that lies in panels and many rows of A; None: as elsewhere.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import l1_blocks
    >>> from fastgemm.problem import Problem
    >>> l1_blocks.in_panels(Problem("f32", 1000, 1000, 1000, layout="np"), registry.isa("v3"), 4, 24)
    """
    most, least = PANEL_STEPS
    if not _concerns(problem, tier, PACKED) or problem.k <= least:
        return None
    rows = min(problem.m + mr - 1, PANEL_ROWS) // mr * mr
    columns = min(problem.n + nr - 1, PANEL_COLUMNS) // nr * nr
    return max(mr, rows), -(-problem.k // -(-problem.k // most)), max(nr, columns)


def by_columns(problem: Problem, tier: registry.Isa, nr: int) -> bool:
    """Say whether threads share the columns of a B that is copied, and never the rows of A.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import l1_blocks
    >>> from fastgemm.problem import Problem
    >>> l1_blocks.by_columns(Problem("f32", 2000, 2000, 2000, threads=2), registry.isa("v3"), 24)
    False
    """
    wide = problem.n >= SHARED_PANELS * problem.threads * nr
    large = 8 * problem.k * problem.n * problem.row.itemsize >= SHARED_EIGHTHS * cpu.caches().l2
    return _concerns(problem, tier, "nt") and problem.batch == 1 and wide and large


def _concerns(problem: Problem, tier: registry.Isa, second: str) -> bool:
    # Such an L1, A by rows, B as one of those letters of a layout says, numbers as they were measured.
    letters = problem.layout[0] == "n" and problem.layout[1] in second
    return cpu.small_l1(tier) and letters and l1.as_stored(problem)


def _side_steps(problem: Problem) -> int:
    # Steps of k of a block of a B that few rows pass over; 0: as of any other.
    row_b, rows = problem.n * problem.row.itemsize, problem.m * problem.row.parts
    if problem.layout != "nn" or problem.k * row_b <= l1.SIDE_L2 * cpu.caches().l2:
        return 0
    if row_b < l1.SIDE_ROW:
        rows = max(rows, SIDE_MANY)
    return next((steps for most, steps in SIDE_STEPS.items() if rows <= most), 0)
