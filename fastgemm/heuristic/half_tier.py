"""Which tier's kernels a problem gets, on a CPU that computes the vectors of its highest tier in two halves.

A Zen 4 has AVX-512 and units of 256 bits (`kernels.half_isa`): a vector of 64 bytes takes two turns, so long ones
multiply no faster, and what a last one leaves empty costs as much (but for an upper half that is all empty, which
kernels/lower.pxd leaves alone). They save instructions and loads, have 32 registers, and are better for most problems
(squares of 200 to 1000 1.0 to 1.2, 5 to 8 rows by a B in L2 1.2 to 1.6). Kernels of short ones fetch ahead what comes
from L3 or memory, which Zen 5, where those of long vectors were made, does by itself.

The rules are of `bench/builds.py` of a build that runs AVX2 alone, and of the build before them: one thread, f32 unless
said, time of long vectors over that of short ones.  Twice as many instructions suffer from a neighbour on the core's
other hardware thread, which a virtual machine does not see: pinned to one core and the other (`taskset`), 200 x 200 x
200 takes short vectors 151 or 184 us, long ones 146 us on both.
"""

from __future__ import annotations

from .. import cpu, registry
from ..problem import PACKED, Problem
from . import half_narrow, measured, stacks
from .ways import far_bytes

# A vector by rows from memory, if they are so long (176 x 176 (1001) 2.2, 1 x 800 x 8000 2.2, 4608 x 1536 1.6, 100 x
# 100000 2.4, f64 3072 x 1024 1.5; 64 x 64 (10000) 0.7, 8448 x 2816 0.99, 40000 x 1000 0.86, f64 8448 x 2816 0.94).  By
# columns, whose loads take two lines wherever NumPy's arrays begin, from all caches (512 x 512 1.1, 4000 x 400 1.2, f64
# 1.25, 1 x 176 x 176 (100) f64 4), but where L3 holds about all, and four columns side by side are one too many (f64
# 2048 x 1024 0.62 to 0.8, 1500 x 1500 0.7 to 0.83, f32 2048 x 2048 0.75 to 1.1).
ROW_BYTES, LONG_ROW = 320, 32 << 10
# Columns of so many bytes, from memory or about as much as L3 holds, one after the other, lines into L2 so many bytes
# ahead.  (Over four side by side of short vectors; two threads 0.9 to 1.1.  From twice L3 on f32 64 MiB, columns of
# 128, 256, 600, 1500, 3000, 4000 numbers 1.03 0.94 1.14 1.13 1.07 0.87, 96 MiB 1.18 1.18 1.12 1.25 1.12, 128 MiB 1.16
# 1.0 1.11 1.23 1.15 0.93, f64 of 128, 256, 512, 1024, 2048 1.16 1.15 1.17 1.18 0.86, but 40 MiB 0.93 0.95 0.75 0.95
# 0.66; 4096 bytes ahead 0.8 to 1.15, 16384 0.8 to 0.9.  Where L3 holds it, over long vectors and lines into L1, f32
# 14 and 16 MiB of 512, 1024, 2048, 4000 0.9 1.0 1.17 1.2, two threads 0.95 1.1 1.1 1.16, while a neighbour used L3
# 1.2 to 1.4; f64 of 512 to 2048 0.95 to 1.0; 2048 bytes ahead 0.8 to 1.3.  In stacks from memory 1.13 to 1.3, two
# threads 1.0 to 1.16.)
REACH_FAR, FAR_COLUMN = 2048, range(512, (12 << 10) + 1)
REACH_L3, L3_COLUMN = 16384, range(4096, (16 << 10) + 1)
# Up to FEW_FAR_ROWS by a B in place from memory (4 x 7860 x 2560 1.9, 2 x 10752 x 3584 1.4, 4 x 4608 x 1536 1.9, f64
# 1.3 to 1.45), or beyond L2 by rows of whole pages (1024 x 1024 by 2, 3, 4 rows 1.5 1.45 1.3, f64 1.15); up to FAR_ROWS
# where it fills much of L3 (5 x 7000 x 3000 2.5, 6 x 2048 x 2048 2.7, 12 x 7000 x 3000 1.6, 16 x 2560 x 2560 1.4, f64
# 6 x 2000 x 1000 4, 12 x 7000 x 3000 2, 32 x 3072 x 1024 1.2, but f32 0.9).  Two threads lose what one gains of 16 MB
# (f32 2048 x 2048 by 6, 8, 12 rows 0.66 0.69 0.82), and get the same kernels, for the bits must not depend on threads.
# One tall panel by rows two pages apart (f64 12 x 1024 x 1024 3.5; by 5, 6, 16 rows 0.4 0.2 0.8).
FEW_FAR_ROWS, FAR_ROWS, TALLEST, PAGE = 4, 32, 14, 4096
# More rows by a B from L3 or memory: it is copied, and the block that is copied next is fetched into L2 by the tiles.
# (In place or copied without that times so, one thread and two, 4096 x 4096, 5000 x 6000, 7680 x 2560, 2048 x 2048, 24
# rows 1.07 1.0 1.08 0.98, 1.03 1.04 1.24 0.85, 32 rows 1.04 1.01 1.15 1.09, 1.14 0.87 1.29 1.06, 48 rows 1.1 1.19 1.09
# 1.18, 1.11 1.09 1.02 0.97, 64 to 200 rows 1.03 to 1.15, 1.0 to 1.1, 256 rows 1.02 to 1.04, 1.0 to 1.06; f64 1.04 to
# 1.26.  Of 8 to 11 MiB 40 rows 0.82 to 1.25, 0.83 to 0.87, 64 and 100 rows 0.92 to 1.2, 0.84 to 1.08, 200 rows 1.06 to
# 1.15, 1.04 to 1.14.)
COPIED_ROWS, COPIED_MULTIPLE, NEAR_COPIED_ROWS, MOST_COPIED = 24, 512, 128, 256
# Items of a stack that comes from memory, of more than a few steps by a B in place: 36 to 40 MB, f64 twice that, f32,
# two threads, f64, two threads 100^3 1.09 1.06 1.18 1.17, 20 x 100 x 100 1.10 1.10 1.34 1.33, 100 x 200 x 100 1.11 1.07
# 1.03 1.03, 200^3 1.06 1.04 1.01 1.04, 40 x 300 x 60 1.38 1.24 1.33 1.31, 64 x 100 x 100 1.16 1.09 1.22 1.19, 96^3 0.98
# 0.98 1.17 1.16.  No others (a script, 24, 40 and 100 MB): rows of so many whole lines that long vectors are full, f32
# 128^3 0.90 0.92 0.95, short rows, 100 x 50 x 100 0.97 0.94 0.95, few steps, 100 x 100 x 30 0.95 1.02 1.02; less than
# 14 MB 0.90 to 1.06; A by columns 24 MB 0.83 to 1.02, 60 MB 0.89 to 1.08, but 40 x 300 x 60 and 20 x 100 x 100 up to
# 1.33; B by columns 0.92 to 1.07, 0.89 to 1.23.
ITEM_SIDE, ITEM_STEPS, ITEM_MULTIPLE = 64, 32, 512
# Short rows of A from L3 or memory by one long vector of B (f64 784 x 8 x 72 (32) 3.7, 20000 x 5 x 100 2.5, f32 9800 x
# 16 x 144 (32) 1.2 to 1.35, 60000 x 16 x 100 1.2; items within L1, 64 x 16 x 64 (1000) 0.7, f64 64 x 8 x 64 (500) 0.6).
THIN_ROW = 2048
# One or three short vectors, all full, over long ones of which the last is computed by its lower half (n = 8, 24: 232 x
# 8 x 232 1.25, 1000 x 8 x 300 1.29, 64 x 24 x 64 1.14, 1000 x 24 x 300 1.13, f64 1000 x 12 x 64 1.16).  Beside a
# neighbour 0.96 to 1.2; what gains less alone loses there (7, 20, 40, 100 columns alone 1.18 1.2 1.2 1.05, beside one
# 0.84 0.93 0.78 0.78; f64 300 x 300 x 4 1.3 and 0.83), so no others. A by columns has kernels of its own for narrow
# outputs (64 x 5 x 64 tn 0.53, 20000 x 5 x 100 tn 0.13; 8 x 8 x 8 (1000) 1.8); 4 columns of doubles for few steps; sums
# over very many steps are not (f64 10 x 10 x 1000000 tn 0.76). Small items of a stack gain by partly filled ones too,
# beside a neighbour as well (20 x 20 x 20 (500) nt 1.34, 5 x 5 x 5 (1000) nt 1.37, f64 9 x 9 x 9 (10000) 1.36; but 6 x
# 6 x 6 (5000) nn 0.8).
FULL, ITEM_ROWS = 3, 32
SHORT_ROWS, SHORT_STEPS, DEEP = 16, 200, 8192
# Four columns of doubles are not for many rows and steps (64 x 4 x 64 1.08, 64 x 4 x 200 1.07, 128 x 4 x 100 1.04, 1000
# x 4 x 16 1.28, x 48 1.25, 20000 x 4 x 16 1.38; 1000 x 4 x 64 0.92, x 200 0.86, 200 x 4 x 64 0.92, 5000 x 4 x 100
# 0.86).
QUAD_ROWS, QUAD_STEPS = 128, 64
# Numbers that are multiplied as 16 bits, by up to 16 columns, one short vector (int16 by 16 columns 64 x 64 1.45, 1000
# x 100 1.6, 5000 x 10 1.4, 8 x 1000 1.5, by 8 columns 232 x 232 1.57, 20000 x 50 1.5, by 4 1000 x 64 2.7, int8 1.2 to
# 1.5, every layout; partly filled by few rows or for few steps 0.8: 64 x 8 x 64, 16 x 8 x 1000, 200 x 10 x 20; 300 x 3
# x 300 0.9, 1000 x 4 x 64 tn 0.88).
# Stacks of 50 by 16 columns, 4, 16 and 64 rows, k = 2, 8, 16, 32, 64, 128: i8 nn 1.0 to 1.1, 1.25 to 1.45, 1.4, 1.4,
# 1.45, 1.4 to 1.6, nt 1.0 to 1.1, 1.2 to 1.35, 1.2 to 1.4, 1.2 to 1.45, 1.1 to 1.4, 1.1, i16 nn 1.0 to 1.1, 1.3, 1.4,
# 1.5, 1.65, 1.5 to 1.9, nt 0.8 to 0.9, 0.35 to 1.1, 1.6, 1.3 to 1.7, 1.3 to 1.8, 1.15; others 0.4 to 1.2.
WORD_ROWS, WORD_STEPS, WORD_ITEM_STEPS = 200, 30, {"n": 8, "t": 12}
# Steps of halves by 16 columns, and by 17 to 24, which long vectors widen in two halves (stacks of 50 and single
# ones, 4 to 64 rows, k = 2, 8, 16, 32, 64, nn, 16 columns 0.9 to 1.1, 1.0 to 1.3, 1.1 to 1.4, 1.25 to 1.5, 1.0 to
# 1.5, 20 columns 0.7 to 0.9, 1.0 to 1.1, 1.1 to 1.2, 1.2 to 1.35, 1.0 to 1.4, nt 16 columns 0.8 to 1.05, 0.5 to 1.1,
# 1.1 to 1.3, 0.9 to 1.2, 1.05 to 1.15; 13, 28, 32, 40, 64 columns 0.5 to 1.1).
HALF_STEPS = {"n": 8, "t": 12}
# Steps of a vector by columns, of halves and of bool, that are converted (long vectors' time over short ones', k = 10,
# 20, 50, 100, 200, 400, 1000, f16 1 x 30 0.92 1.11 0.99 1.16 1.21 1.31 1.36, 1 x 1000 0.97 1.31 1.31 1.28 1.27 1.26
# 1.01, 1 x 4096 0.99 1.33 1.32 1.28 1.24 1.24 1.0; bool 1 x 30 0.87 0.82 0.78 0.83 1.03 1.03 1.02, 1 x 1000 0.80 0.73
# 0.65 0.76 1.28 1.30 1.37).
COLUMN_STEPS = {"f16": 12, "bool": 128}
# Bytes of a column of complex doubles from which long vectors are better for a vector by a matrix in L2 (through
# Python, over short ones, operands that begin 0, 16 and 32 bytes into a line, 1 x 100 x 400 1.48 1.08 1.34, otherwise
# 1.0; c64 1.23 0.87 1.16).
COMPLEX_COLUMN = 512


def halves(problem: Problem, half: registry.Isa) -> bool:
    """Whether a problem gets the kernels of `half`, of half the vectors of the highest tier.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import half_tier
    >>> from fastgemm.problem import Problem
    >>> v3 = registry.isa("v3")
    >>> half_tier.halves(Problem("f32", 512, 512, 512), v3), half_tier.halves(Problem("f32", 64, 24, 64), v3)
    (False, True)
    """
    row = problem.row
    if set(problem.layout) & {"g", PACKED} or not registry.supported(row, half) or row.group > 1:
        return False
    way = stacks.way(problem, half) or half_narrow.way(problem)
    if way:
        return way in measured.OF_SHORT_VECTORS
    rule = _converted if row.converts else _vector if problem.m == 1 else _matrix
    return rule(problem, half)


def _vector(problem: Problem, half: registry.Isa) -> bool:
    size = problem.k * problem.n * problem.row.itemsize
    if problem.layout[1] == "n":
        row_b = problem.n * problem.row.itemsize
        return size * problem.batch >= far_bytes() and ROW_BYTES <= row_b <= LONG_ROW
    # (Which have no multiply of 64 bits: int64 1 x 208 x 512 2.0 of long vectors, 1 x 4 x 244 1.8, 1 x 351 x 281 1.8.)
    if registry.accumulators(problem.row, half) > problem.row.parts:
        return False
    doubles = problem.row.parts > 1 and problem.row.real_bytes == 8
    if doubles and problem.k * problem.row.itemsize >= COMPLEX_COLUMN and size <= cpu.caches().l2:
        return False
    return not cpu.caches().l3 * 3 // 8 <= size * problem.batch < far_bytes() and not reach_l2(problem)


def reach_l2(problem: Problem) -> int:
    """Return how many bytes ahead a vector's columns are fetched into L2, one after the other; 0: they are not.

    Examples
    --------
    >>> from fastgemm.heuristic import half_tier
    >>> from fastgemm.problem import Problem
    >>> half_tier.reach_l2(Problem("f32", 1, 512, 512, layout="nt"))
    0
    """
    column = problem.k * problem.row.itemsize
    size, l3 = problem.batch * problem.n * column, cpu.caches().l3
    if problem.m > 1 or problem.layout[1] != "t" or problem.row.converts:
        return 0
    if size >= 2 * l3:
        return REACH_FAR if column in FAR_COLUMN else 0
    return REACH_L3 if l3 * 3 // 8 <= size < far_bytes() and column in L3_COLUMN else 0


def copies_ahead(problem: Problem) -> bool:
    """Say whether B is copied although rows are few, and a block of it fetched while the one before is multiplied.

    Examples
    --------
    >>> from fastgemm.heuristic import half_tier
    >>> from fastgemm.problem import Problem
    >>> half_tier.copies_ahead(Problem("f32", 64, 512, 512))
    False
    """
    row, row_b = problem.row, problem.n * problem.row.itemsize
    if problem.layout != "nn" or problem.batch > 1 or row.lane[0] != "f" or row.parts > 1 or row.converts:
        return False
    size, l3 = problem.k * row_b, cpu.caches().l3
    least = COPIED_ROWS if row_b % COPIED_MULTIPLE == 0 and size >= l3 else FAR_ROWS + 1
    return least <= problem.m <= MOST_COPIED and 8 * size >= (2 if problem.m >= NEAR_COPIED_ROWS else 3) * l3


def _matrix(problem: Problem, half: registry.Isa) -> bool:
    if problem.row.exact:
        # Multiplying bounds the others (i32 20 x 20 x 20 0.7, 100 x 20 x 500 0.7).
        return _far(problem) or _words(problem, half)
    return _far(problem) or _far_items(problem) or _thin(problem, half) or _partial(problem, half)


def _converted(problem: Problem, half: registry.Isa) -> bool:
    # (float16 232 x 8 x 232 1.6, 8 x 8 x 8 (1000) tn 1.75, 1000 x 4 x 64 0.93.)
    kind = registry.packing(problem.row)
    if problem.m == 1 and kind in COLUMN_STEPS:
        return problem.layout[1] == "t" and problem.k >= COLUMN_STEPS[kind]
    if problem.row.exact:
        return _words(problem, half)
    if kind != "f16" or problem.n <= 4:
        return False
    lanes = registry.lanes(problem.row, half)
    if 2 * lanes <= problem.n < FULL * lanes:
        return problem.k >= HALF_STEPS[problem.layout[1]]
    return _partial(problem, half)


def _far(problem: Problem) -> bool:
    # Few rows by a B in place from L3 or memory
    m, row_b, caches = problem.m, problem.n * problem.row.itemsize, cpu.caches()
    size = problem.k * row_b
    if problem.layout[1] != "n" or problem.batch > 1 or row_b < ROW_BYTES:
        return False
    if copies_ahead(problem):
        return False
    if m <= FEW_FAR_ROWS:
        # (Complex numbers of 4 and 8 MiB by rows of whole pages are better off with long vectors: c128 512 x 512 by 2,
        # 3 and 4 rows 0.6, c64 1024 x 1024 0.75 0.35 0.45.)
        paged = row_b % PAGE == 0 and size > 2 * caches.l2 and problem.row.parts == 1
        return size >= far_bytes() or paged
    if m <= FAR_ROWS and size >= (caches.l3 * 3 // 8 if m <= FAR_ROWS // 2 else caches.l3 // 2):
        return True
    return 8 < m <= TALLEST and row_b % (2 * PAGE) == 0 and size >= caches.l3 // 4


def _far_items(problem: Problem) -> bool:
    # Larger items than the small family takes, B in place.
    m, n, k, row_b = problem.m, problem.n, problem.k, problem.n * problem.row.itemsize
    if problem.batch == 1 or problem.layout != "nn" or problem.row.parts > 1 or max(m, n, k) <= ITEM_SIDE:
        return False
    large = k > ITEM_STEPS and row_b >= ROW_BYTES and row_b % ITEM_MULTIPLE > 0
    return large and 8 * problem.streamed >= 5 * cpu.caches().l3


def _words(problem: Problem, half: registry.Isa) -> bool:
    # 16 bits a number, by columns of which long vectors are half empty
    m, n, lanes = problem.m, problem.n, registry.lanes(problem.row, half)
    if problem.row.real_bytes != 2 or m == 1 or n > lanes:
        return False
    if problem.batch > 1:
        return n == lanes and problem.k >= WORD_ITEM_STEPS[problem.layout[1]]
    least = 4 if problem.layout[0] == "n" else 5
    return n == lanes or (n >= least and m >= WORD_ROWS and problem.k >= WORD_STEPS)


def _thin(problem: Problem, half: registry.Isa) -> bool:
    # Short rows of A from L3 or memory, by a B of one long vector
    row_a = problem.k * problem.row.itemsize
    if problem.layout[0] != "n" or problem.n > 2 * registry.lanes(problem.row, half) or row_a > THIN_ROW:
        return False
    item = problem.m * row_a
    return problem.n > 4 and item > cpu.caches().l1d and problem.batch * item >= cpu.caches().l3 * 3 // 8


def _partial(problem: Problem, half: registry.Isa) -> bool:
    # Long vectors of which one would be half empty
    m, n, k, size = problem.m, problem.n, problem.k, problem.row.itemsize
    lanes = registry.lanes(problem.row, half)
    short = -(-n // lanes)
    items = problem.batch > 1 and m <= ITEM_ROWS and n > 4
    items = items and (short == FULL or (short == 1 and problem.layout != "nn"))
    if not (items or n in (lanes, FULL * lanes)) or k > DEEP or (problem.row.parts > 1 and problem.batch > 1):
        return False
    if problem.layout[0] == "t":
        return m <= SHORT_ROWS if n == lanes else k <= SHORT_STEPS or size > 4
    far = problem.batch == 1 and m * k * size > 4 * cpu.caches().l2
    few = problem.row.parts > 1 or m <= QUAD_ROWS or k < QUAD_STEPS
    return n > 4 or (k <= SHORT_STEPS and few and not far)
