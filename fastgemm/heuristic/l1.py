"""What a CPU with vectors of 64 bytes beside an L1 of 32 KiB copies and fetches (`cpu.small_l1`).

A panel of B leaves such an L1, so its lines come from L2 for every panel of rows, and a Skylake-SP does not hide that
as a Zen 5 does, least of all where rows lie whole or half pages apart and share sets of L1, or loads take two lines
(256^3, B in place, 124 GFLOP/s where its rows begin lines and 100 where NumPy puts them).  So tiles fetch their own
panel a few steps ahead, B and A are copied for far fewer rows and steps, and blocks of k are shorter.

The figures are of a Skylake-SP (2 cores, 152 GFLOP/s a core in float32, no VNNI), one thread, f32 unless said.
"""

from __future__ import annotations

from math import inf

from .. import cpu, registry
from ..problem import Problem
from . import strides
from .ways import far_bytes

# Lines of its own panel of B that a tile fetches into L1 ahead: so many rows of it by the vectors of each.  (GFLOP/s of
# 6x64 by 0, 2, 4, 8, 16 rows, copied: 200^3 103 109 109 109 108, 300^3 98 104 105 104 104, 512^3 107 115 115 115 114,
# 1000^3 120 128 127 128 127, 1500 x 128 x 1280 114 122 125 123 123; of 14x32 in place: 300^3 83 91 92 92 91, 1000^3 66
# 78 79 78 78; in L1, 64^3, 128 whatever they are.  4 rows of one vector 6 x 16 x 6400 0.82.)
LINES_AHEAD = 16
# Bytes of a row of a panel of B below which copies take a few steps of all panels at a time, so that rows of B are
# read in long pieces: of panels of less than a line or two, and here of all.  (GB/s of a prototype that copied f32
# 4096 x 4096 from memory in panels of 256 bytes one after the other, and of 8 steps of all, in blocks of 1024 x 128
# 4.7 and 5.9, 512 x 256 4.9 and 6.9, 256 x 512 5.1 and 8.7, 128 x 1024 5.2 and 9.5, where reading alone has 12.2;
# 2048 x 2048 from L3 in blocks of 256 x 512 7.0 and 11.3; 1024 x 1024 12.7 and 14.0; 512 x 512 15.3 and 17.1; 1000 x
# 1000 16.4 and 14.4.)
NARROW_PANELS, ALL_PANELS = 128, 1 << 10
# Rows from which B is copied: from memory, and otherwise.  (Best copied times best in place, of 16, 24, 32, 64, 100 or
# 128 rows: 3000 x 3000 0.82 - 0.91 1.01; 1000 x 1000 0.90 0.97 1.02 1.10 1.38, 256 x 256 0.79 0.85 0.85 1.08 1.13, 300
# x 300 0.79 0.87 0.94 1.07 1.14, 48 rows by both 1.00 and 1.02, 1000 x 100 0.82 - 0.95 1.08 1.15; f64 256 x 256 0.71 -
# 0.88 1.04, 300 x 300 0.85 - 0.93 1.07, 1000 x 1000 0.74 - 0.94 1.03.  A B in L1, 100 x 64 x 500 0.96.)
FAR_ROWS, ROWS = 64, 48
# And where B's rows lie apart, of complex numbers and of two bytes: whole pages, or B comes from L3, and half pages.
PAGED_ROWS, HALF_PAGED_ROWS = 16, 24
# And, of a B of more than so many times L2, from memory and from L3, where rows that lie half pages apart have
# APART_ROWS + 1, of what `l1_streams` leaves.  (Best copied times best in place, f32, 9 by 4096^2 1.6, 10 by
# 3000^2 1.3, 12 by 2048^2, 1024 x 1536 1.7, 1.3, 3000^2 1.37, 1400^2 1.0, 1250^2 0.8, 16 by 1500^2 0.98, 24 by 1250^2,
# 1400^2 1.2, 1.2, 32 by 1500^2 1.1; f64 12 by 4096^2 1.6, 3000^2 1.3.)
SIDE_L2, SIDE_FAR, SIDE_NEAR = 3, 9, 24
# Rows of B of less than so many bytes are long pieces as they lie: in place up to FAR_ROWS, or ROWS, and copied in the
# most steps of `l1_blocks`.  (Of 256 x 512, in place and copied by 512 steps, f32 by 200 x 50000 12 rows 1.15
# 1.0, 32 rows 1.14 1.0, 48 rows 1.0 1.08, 64 rows 0.92 1.08, by 100 x 50000 48 rows 1.25 1.17, 64 rows 1.15 1.17, 96
# rows 0.9 1.0, 12 x 300 x 40000 1.16 0.84; f64 32 x 200 x 50000 1.03 0.99, 48 x 64 x 50000 1.3 1.35, 64 x 100 x 50000
# 1.09 1.15.)
SIDE_ROW = 2048
# What an A by columns must have to be copied as well: steps of k, columns of C, and the bytes of A.T's row by them.
# (Best with both copied times best in place, f32 256 x 96 x 6000 1.26, 200 x 100 x 500 1.18, 300 x 100 x 1000 1.18,
# 500 x 64 x 1000 1.10, 100 x 300 x 300 1.15, 200 x 200 x 5000 1.24, 300^3 1.28, 1000 x 64 x 2000 1.68, 64 x 576 x
# 28000 1.06, but 64 x 300 x 20000 0.92, 32 x 600 x 20000 0.79, 128 x 128 x 10000 0.95, 100 x 100 x 100000 0.98; f64
# 256 x 64 x 6272 1.10, 128 x 128 x 10000 1.10, 300 x 100 x 1000 1.41, 200 x 200 x 5000 1.49, 500 x 64 x 1000 1.67, 64
# x 300 x 20000 1.08, 32 x 600 x 20000 1.25, but 128 x 64 x 20000 0.96, 64 x 147 x 25088 0.90.)
COPIED_STEPS, COPIED_COLUMNS, COPIED_C = 64, 64, 96 << 10
# Beside a row of B of at most so many bytes, one panel, more steps than the second.  (Cascade Lake, the small family,
# or B copied alone, times both copied, f32 by 64 columns and 64, 96, 128, 200 steps 1024 rows 1.63 1.57 1.47 1.06,
# 1536 rows 1.64 1.46 1.28 1.7, 512 rows by 200 1.3, 704 rows 1.17, 1000 rows 1.01.)
COPIED_ROW, ROW_STEPS = 256, 200
# Rows of A at a time, of both copied and of so many bytes of k.  (The same, 36 rows times 96, f32 768 x 1280 x 128,
# 704 x 1920 x 128 1.10 1.12, 1000 x 640 x 200 1.06, 2000 x 2000 x 100 1.08, 400 x 400 x 100, 300 x 300 x 200 1.0, tt
# 1000 x 1000 x 128 1.08; f64 1000 x 640 x 100 1.25, 400 x 400 x 100 1.06, 1500 x 1500 x 100 1.01, tt 512 x 640 x 100
# 1.16, i32 800 x 800 x 100 1.13, c64 1000 x 1000 x 100 1.06; more steps, f32 1000 x 1000 x 512 0.92, f64 704 x 1920 x
# 128 0.98.)
BRIEF_BYTES, BRIEF_ROWS = 800, 36
# And for the small family to leave it to that, such bytes and those of a row of A.T.  (768 x 768 by 64, 128 steps 1.38
# 1.53, 1000 x 1000 x 100 1.43, 400 x 400 x 100 1.19, 256 x 512 x 128 1.24.)
UNLIKE_SMALL, UNLIKE_SMALL_ROW = 1 << 18, 768
# Where C's rows are whole lines, up to so many times L2 of it, tiles of up to so many steps do not fetch it.  (Times
# fetched, f32 255 x 2048 by 16, 64, 128 1.1 1.03 1.04, 400^2 by 50, 100, 200 1.03 1.03 1.02, 800^2 by 16, 48 1.04 1.04,
# 1024^2, 1280^2 by 16 1.1 1.06, 512^3, 640^3 1.01, 128 x 2048 x 2048 0.99; 784 x 4800 x 32 1.0, 6308 x 1600 x 32 0.9;
# f64 255 x 1024 by 16, 64 1.11 1.05, 512^2 by 16, 32 1.13 1.09, 512^3 1.01.  Rows that begin anywhere in a line: f32
# 500^2 by 4, 8, 16, 100 0.83 0.87 0.92 1.0, 1000^2 by 8, 64, 512 0.9 1.0 0.97, 300^3 1.01.)
STILL_L2, STILL_STEPS = 6, 512
# A B of less than so many times L1 stays in place where the small family takes it (100^3 1.09, 150 x 150 x 100 1.04,
# 128^3 0.91).
SMALL_B = 2
# And one of more than so many times L1 does beside 9 to 14 rows, in gemm's tiles, which fetch their panels.  (Times
# the small family, 9 and 12 rows, f32 256 x 256 0.95 0.98, 300 x 300 1.05 1.1, 1000 x 200 1.1 1.2, 600 x 600 1.15
# 1.5, 1000 x 1000 1.25 1.6; f64 256 x 256 1.1 0.9, 300 x 300 1.15 1.5, 1000 x 1000 2.0 2.4.  Integers are gemm's
# already, halves were not measured.)  7 and 8 rows do of more than the second.  (7 and 8 rows, f32 400 x 400 0.91 0.98,
# 600 x 300 0.98 1.0, 512 x 512 1.08 1.07, 800 x 800 - 1.1, 1000 x 700 - 1.15; f64 300 x 300 0.99 0.93, 400 x 300 1.08
# 1.08, 600 x 600 - 1.27; 6 rows f32 1024 x 512 0.97, 800 x 800 1.05, f64 512 x 512 0.96, 400 x 300 1.05.)
FLAT_L1, FLAT_FEW, FLAT_FEW_L1 = 8, range(7, 9), 24
# Up to so many rows B stays in place where its own rows lie whole or half pages apart, and share sets of L1 and L2: by
# so few steps of k, of few rows or a B that L2 holds, and of more.  (Times copied in blocks of 128 x 4 KiB, or, 512 x
# 512, of all steps, 16, 18, 20, 24, 32 rows, f32 512 x 512 1.1 1.2 1.15 1.05 1.06, 2048 x 512 1.2 1.17 1.1 1.05 0.85,
# 1024^2 1.13 1.15 1.1 1.1 0.86; f64 512 x 512 1.07 - 1.0 0.97 0.8, 1024 x 512 1.15 - 1.08 1.05 0.84, but 1024^2 0.7 to
# 0.9.  Steps 64 times 128: f32 512 x 512 0.95, 1024^2 1.02 to 1.05, 9 x 1024^2 0.7, f64 512 x 512 1.05, 256 x 512 0.95;
# 128 times 512, 9, 12, 14 rows, f32 512 x 512 1.2 1.17 1.19, f64 512 x 512 1.3 1.25, i32 and i64 512 x 512 and 1024 x
# 500 1.2 to 1.3.)
APART_ROWS, APART_STEPS = 24, (128, 64)
# From so many rows on such a B is read by tiles of so many vectors: narrower ones read as many lines of each row as
# often.  (6 x 64 times 14 x 32 and 8 x 48, 16, 18, 20, 24 rows, 2048 x 512 1.19 1.03, 1.2 1.09, 1.12 1.0, 1.24 1.08,
# 1024^2 1.2 1.03, 1.18 1.09, 1.1 1.01, 1.18 1.05, 512^2 1.16 0.93, 1.12 1.04, 1.02 0.98, 1.03 0.99, 15 rows - 0.8; 9,
# 12, 14 rows, which are one tile there, 0.97, 1.07, 0.95.)
APART_MANY, APART_VECTORS = 15, (3, 4)
# Vectors of a tile, and steps, of an A by columns and a B of more than two vectors, both in place and together more
# than three quarters of L3: so few that L1 keeps a panel of each and what it fetches.  (`builds.py`, one thread, times
# 160 to 1000 steps, 20 x 200 x 100000 1.23, 300 x 64 x 50000 1.18, 200 x 100 x 50000 1.15, 32 x 100 x 215512 1.14, 100
# x 100 x 100000, 64 x 64 x 100000, 64 x 300 x 20000 1.12, 32 x 600 x 20000, 96 x 128 x 60000 1.07, 150 x 150 x 50000
# 1.03, but 64 x 147 x 50000 0.86; f64 20 x 200 x 100000 1.13, 100 x 100 x 100000 1.1, 32 x 100 x 215512 1.08, 64 x 64 x
# 100000, 64 x 147 x 50000 1.01; tiles of 8 x 48, f32, 20 x 200 x 100000 1.29, 100 x 100 x 100000 1.02, 150 x 150 x
# 50000 0.95.  By sweeps, 40, 48, 56, 64 steps 64 x 64 x 100000 1.11 1.15 1.1 1.08, 300 x 64 x 50000 1.37 1.43 1.45
# 1.43; of two vectors 8 x 8 x 1000000 0.7, 16 x 16 x 500000 1.0.)
TURNED_VECTORS, TURNED_STEPS = 4, 48
# And up to so many rows of A.T, beside so many columns and steps at least, where B's rows do not lie half pages apart,
# an A that would be copied stays in place too, so many steps at a time.  (Emerald Rapids, one thread, by sweeps, times
# both copied as they were, and as below, f32 64 x 576 x 28000 1.5 1.3, x 7000 1.45 1.16, 64 x 400 x 3000 1.4 1.07, 96 x
# 576 x 20000 1.4 1.2, 128 x 576 x 10000 1.3 1.13, 150 x 375 x 25024 1.1 1.0, 100 x 1000 x 10000 1.04 to 1.2, 0.9 to
# 1.0, 64 x 1152 x 12544 1.03 to 1.5, 0.9 to 1.15, 100 x 700 x 1000 1.13 1.15; f64 64 x 576 x 7000 1.3 1.1, 100 x 1000 x
# 5000 1.2 1.0, 150 x 375 x 5000 1.24 1.1, 64 x 300 x 3000 1.5 1.5, 100 x 700 x 1000 1.6 1.24; but 300 x 500 x 5000 0.95
# 0.9, rows half a page apart, 128 x 512 x 20000 0.95 0.8, f64 0.9 0.83.)
STAYING_ROWS, STAYING_COLUMNS, STAYING_STEPS, STEPS_STAYING = 150, 300, 1000, 64
STAYING_APART = 2048
# Of both copied for up to so many rows, steps of a block that leave B's so much of L2: what is copied for few rows must
# not come back from L3.  (The same, times blocks of four times L2, 2000 steps of f32: 64 x 576 x 28000 1.16 to 1.26,
# 128 x 512 x 20000 1.2, 256 x 512 x 3136 1.2, 256 x 1152 x 25088 1.1, 200 x 200 x 5000 1.1, 200 x 700 x 3000 1.13, 300
# x 300 x 1000 1.04, 300 x 500 x 5000 1.05; f64 1.0 to 1.2; of 1000 rows and more 0.97 to 1.01.)
QUARTERED_ROWS, QUARTER, LEAST_STEPS = 300, 4, 64


def lines_ahead(tier: registry.Isa) -> int:
    """Return how many lines of its own panel of B a tile fetches ahead; 0: none.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import l1
    >>> l1.lines_ahead(registry.isa("v3"))
    0
    """
    return LINES_AHEAD if cpu.small_l1(tier) else 0


def fetches_c(problem: Problem, tier: registry.Isa) -> bool:
    """Say whether a tile fetches the lines of C that it will write.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import l1
    >>> from fastgemm.problem import Problem
    >>> l1.fetches_c(Problem("f32", 400, 400, 100), registry.isa("v3"))
    True
    """
    return not (cpu.small_l1(tier) and problem.k <= STILL_STEPS and by_lines(problem, STILL_L2))


def follows_columns(problem: Problem, tier: registry.Isa) -> bool:
    """Say whether the CPU's own prefetch keeps up with a vector's long columns of B, four at a time, from memory.

    Beside an L1 of 48 KiB that lines come to by halves it does, and lines of the next columns, asked for as well, take
    the places of its own (Emerald Rapids, one thread, without over with, f32 4000 x 2000 1.12, 2560 x 2560 1.2, 4096 x
    4096 1.18, 8000 x 4000 1.13, 6000 x 6000 1.05, f64 4000 x 2000 1.18, 3000 x 3000 1.14; short columns 20000 x 300
    0.96).

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import l1
    >>> from fastgemm.problem import Problem
    >>> l1.follows_columns(Problem("f32", 1, 4000, 2000, layout="nt"), registry.isa("v3"))
    False
    """
    long = problem.k * problem.row.itemsize >= strides.PAGE
    vector = problem.m == 1 and problem.layout[1] == "t" and long and as_stored(problem)
    return vector and cpu.half_line_l1(tier)


def side_bytes(tier: registry.Isa) -> int:
    """Return the bytes of a row of a panel of B below which copies take a few steps of all panels at a time.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import l1
    >>> l1.side_bytes(registry.isa("v3"))
    128
    """
    return ALL_PANELS if cpu.small_l1(tier) else NARROW_PANELS


def copied_from(problem: Problem) -> float:
    """Return the rows of registers from which a B by rows is copied, of more columns than a panel has.

    Examples
    --------
    >>> from fastgemm.heuristic import l1
    >>> from fastgemm.problem import Problem
    >>> l1.copied_from(Problem("f32", 100, 64, 64))
    inf
    """
    row_b = problem.n * problem.row.itemsize
    if problem.k * row_b <= cpu.caches().l1d:
        return inf
    far = not problem.row.converts and row_b >= SIDE_ROW and problem.k * row_b > SIDE_L2 * cpu.caches().l2
    if far and problem.k * row_b > cpu.caches().l3 // (6 if apart(problem) else 2):
        return SIDE_FAR
    if apart(problem):
        few = PAGED_ROWS if far or row_b % strides.PAGE == 0 else HALF_PAGED_ROWS
        return APART_ROWS + 1 if is_plain(problem) else few
    return SIDE_NEAR if far else FAR_ROWS if problem.k * row_b > far_bytes() else ROWS


def flat_bytes(problem: Problem, tier: registry.Isa) -> float:
    """Return the bytes of B up to which the small family's row of tiles takes 7 to 14 rows; inf: as elsewhere.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import l1
    >>> from fastgemm.problem import Problem
    >>> l1.flat_bytes(Problem("f32", 12, 512, 512), registry.isa("v3"))
    inf
    """
    rows = problem.m * problem.row.parts
    if not cpu.small_l1(tier) or not as_stored(problem) or rows < FLAT_FEW.start:
        return inf
    return (FLAT_FEW_L1 if rows in FLAT_FEW else FLAT_L1) * cpu.caches().l1d


def as_stored(problem: Problem) -> bool:
    """Say whether numbers are computed with one by one, as they lie in memory.

    Examples
    --------
    >>> from fastgemm.heuristic import l1
    >>> from fastgemm.problem import Problem
    >>> l1.as_stored(Problem("f32", 8, 8, 8)), l1.as_stored(Problem("f16", 8, 8, 8))
    (True, False)
    """
    return not problem.row.converts and problem.row.group == 1


def apart(problem: Problem) -> bool:
    """Say whether rows of B lie whole pages, or half pages, apart.

    Examples
    --------
    >>> from fastgemm.heuristic import l1
    >>> from fastgemm.problem import Problem
    >>> l1.apart(Problem("f32", 8, 512, 8)), l1.apart(Problem("f32", 8, 500, 8))
    (True, False)
    """
    return problem.n * problem.row.itemsize % (strides.PAGE // 2) == 0


def is_plain(problem: Problem) -> bool:
    """Say whether numbers are real ones of four or eight bytes, as they lie in memory, as most rules have it.

    Examples
    --------
    >>> from fastgemm.heuristic import l1
    >>> from fastgemm.problem import Problem
    >>> l1.is_plain(Problem("f64", 8, 8, 8)), l1.is_plain(Problem("c64", 8, 8, 8))
    (True, False)
    """
    return as_stored(problem) and problem.row.parts == 1 and problem.row.itemsize >= 4


def _stays_apart(problem: Problem, tier: registry.Isa) -> bool:
    # Such a B beside so few rows that it may be in place.
    most = APART_ROWS if is_plain(problem) else APART_MANY
    few = problem.layout == "nn" and problem.m * problem.row.parts <= most and as_stored(problem)
    return cpu.small_l1(tier) and few and apart(problem)


def row_c(problem: Problem) -> int:
    """Return the bytes of a row of C.

    Examples
    --------
    >>> from fastgemm.heuristic import l1
    >>> from fastgemm.problem import Problem
    >>> l1.row_c(Problem("f32", 8, 100, 8))
    400
    """
    return problem.n * problem.row.result_bytes * problem.row.parts


def by_lines(problem: Problem, most: int) -> bool:
    """Say whether C's rows are whole lines, and C has at most `most` times L2.

    Examples
    --------
    >>> from fastgemm.heuristic import l1
    >>> from fastgemm.problem import Problem
    >>> l1.by_lines(Problem("f32", 8, 64, 8), 1), l1.by_lines(Problem("f32", 8, 63, 8), 1)
    (True, False)
    """
    row = row_c(problem)
    small = problem.batch * problem.m * row <= most * cpu.caches().l2
    return is_plain(problem) and row % strides.LINE == 0 and small


def _leaves_l2(problem: Problem) -> bool:
    return problem.k * problem.n * problem.row.itemsize > cpu.caches().l2


def tiles(problem: Problem, tier: registry.Isa) -> tuple[tuple[int, int], ...]:
    """Return the tiles to choose from, of `strides.tiles`.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import l1
    >>> from fastgemm.problem import Problem
    >>> l1.tiles(Problem("f32", 16, 1024, 1024), registry.isa("v3"))
    ((6, 16), (4, 24))
    """
    found = strides.tiles(problem, tier)
    if _turns_far(problem, tier):
        return tuple(tile for tile in found if tile[1] >= TURNED_VECTORS * registry.lanes(problem.row, tier))
    if problem.m < APART_MANY or not (is_plain(problem) and _stays_apart(problem, tier)):
        return found
    least = APART_VECTORS[_leaves_l2(problem)] * registry.lanes(problem.row, tier)
    return tuple(tile for tile in found if tile[1] >= least) or found


def steps_in_place(problem: Problem, tier: registry.Isa, kc: int) -> int:
    """Return at most `kc` steps of k for a B in place.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import l1
    >>> from fastgemm.problem import Problem
    >>> l1.steps_in_place(Problem("f32", 12, 512, 512), registry.isa("v3"), 512)
    512
    """
    if _turns_far(problem, tier):
        return min(kc, STEPS_STAYING if _stays_turned(problem) else TURNED_STEPS)
    if not _stays_apart(problem, tier):
        return kc
    return min(kc, APART_STEPS[problem.m >= APART_MANY and is_plain(problem) and _leaves_l2(problem)])


def _turns_far(problem: Problem, tier: registry.Isa) -> bool:
    # An A by columns and a B of several vectors, both in place, from memory.
    if not cpu.small_l1(tier) or problem.layout != "tn" or not as_stored(problem) or copies_a(problem, tier):
        return False
    far = 4 * problem.k * (problem.m + problem.n) * problem.row.itemsize > 3 * cpu.caches().l3
    return (far or _stays_turned(problem)) and problem.n > 2 * registry.lanes(problem.row, tier)


def _stays_turned(problem: Problem) -> bool:
    # An A that would be copied, and stays in place.
    few = problem.m <= STAYING_ROWS and problem.n >= STAYING_COLUMNS and problem.k >= STAYING_STEPS
    pages = problem.n * problem.row.itemsize % STAYING_APART == 0
    plain = problem.layout == "tn" and problem.row.parts == 1 and as_stored(problem)
    return few and plain and not pages and _worth_copies(problem)


def _worth_copies(problem: Problem) -> bool:
    large = problem.m * problem.row.itemsize * problem.n >= COPIED_C and problem.n >= COPIED_COLUMNS
    least = ROW_STEPS + 1 if problem.n * problem.row.itemsize <= COPIED_ROW else COPIED_STEPS
    return problem.layout[0] == "t" and large and problem.k >= least


def steps_copied(problem: Problem, tier: registry.Isa, pack: str, kc: int) -> int:
    """Return at most `kc` steps of k for copies of both operands, A by columns.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import l1
    >>> from fastgemm.problem import Problem
    >>> l1.steps_copied(Problem("f32", 1000, 512, 3136, layout="tn"), registry.isa("v4"), "ab", 1024)
    1024
    """
    if not cpu.small_l1(tier) or pack != "ab" or problem.layout != "tn" or problem.m > QUARTERED_ROWS:
        return kc
    row_b, l2 = problem.n * problem.row.itemsize, cpu.caches().l2
    # (A C that L2 does not hold passes through it for each block: f64 256 x 1152 x 25088 0.92.)
    return kc if problem.m * row_b > l2 else min(kc, max(LEAST_STEPS, l2 // QUARTER // row_b))


def copies_a(problem: Problem, tier: registry.Isa) -> bool:
    """Say whether an A by columns is copied.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import l1
    >>> from fastgemm.problem import Problem
    >>> l1.copies_a(Problem("f32", 1000, 1000, 1000, layout="tn"), registry.isa("v3"))
    False
    """
    return cpu.small_l1(tier) and _worth_copies(problem) and not _stays_turned(problem)


def rows_at_a_time(problem: Problem, tier: registry.Isa, pack: str, most: int) -> int:
    """Return at most `most` rows of A, that pass over a block of B together.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import l1
    >>> from fastgemm.problem import Problem
    >>> l1.rows_at_a_time(Problem("f32", 800, 800, 100, layout="tn"), registry.isa("v3"), "ab", 96)
    96
    """
    brief = cpu.small_l1(tier) and pack == "ab" and problem.k * problem.row.itemsize <= BRIEF_BYTES
    return min(most, BRIEF_ROWS) if brief else most


def beats_small(problem: Problem, tier: registry.Isa) -> bool:
    """Say whether gemm's copies and blocks are worth more than the small family's row of tiles.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import l1
    >>> from fastgemm.problem import Problem
    >>> l1.beats_small(Problem("f32", 64, 1000, 100), registry.isa("v3"))
    False
    """
    if not cpu.small_l1(tier) or problem.batch > 1:
        return False
    if problem.layout != "nn":
        row_a = problem.m * problem.row.itemsize
        unlike = row_a >= UNLIKE_SMALL_ROW and row_a * problem.n >= UNLIKE_SMALL
        return problem.layout == "tn" and unlike and copies_a(problem, tier)
    rows, bytes_b = problem.m * problem.row.parts, problem.k * problem.n * problem.row.itemsize
    return bytes_b >= SMALL_B * cpu.caches().l1d and rows >= copied_from(problem)
