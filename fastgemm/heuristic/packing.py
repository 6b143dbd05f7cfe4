"""Whether B is copied into panels, and A too, or read where they lie."""

from __future__ import annotations

from math import inf

from .. import cpu, kernels, registry
from ..problem import Problem
from . import family_small, half_tier, l1, l1_stacks, l1_written, strides

FEW_ROWS = 200           # M up to which B is read in place
# Of C, and steps of k, from which it is not where its rows are whole pages apart.
PAGED_BYTES, PAGED_K = 2 << 20, 1024
SLOW_ROWS = 128          # of registers from which it is not beside panels of less than a line, where it is paged
# And beside panels of one line and a half at most, which `lead_of` of the driver aligns: where B's rows are so many
# pages apart, where they begin alike in a line, and where they do not, by whether B is above L2, a quarter, or less.
PAGED_ROWS = ((8, 12), (4, 20), (1, 32))
EVEN_ROWS, UNEVEN_ROWS = 160, (32, 64, FEW_ROWS)
STACKED_ROWS, STACKED_B = 96, 384  # of stacks, beside rows of B of so many bytes that begin alike in half a line
SHORT_B = 256            # bytes of a row of B below which it has too few panels
MANY_ROWS = 2048         # M from which on it never is
PASSING_ROWS = 1000      # and from which on it is not where B is more than a quarter of L2
# What an A by columns must have to be copied (`_copies_a`): steps of k, columns of C, bytes of C, and bytes of a row of
# A.T by the components of a number.
COPIED_STEPS, COPIED_COLUMNS, COPIED_C, COPIED_ROW = 256, 96, 1 << 20, {1: 768, 2: 4096}
WIDE_STEPS, WIDE_COLUMNS = 64, 512  # fewer steps beside so many columns


def packing(problem: Problem, tier: registry.Isa, mr: int, nr: int) -> str:
    """Say what to copy: ``none``, ``b`` (into panels) or ``ab``.

    Measured on squares (share of the peak, none / b / ab): 512: 97 / 96 / 93; 768: 90 / 94 / 92;
    1024: 82 / 95 / 92; 4096: - / 93 / 90; f64 4096: - / 91 / 89.  So A stays where it is, however long its rows,
    unless neither its rows nor its columns are adjacent (A given transposed, two threads, best in place / copied:
    300^3 485 / 324, 4000 x 256 x 512 457 / 56, 2048^3 463 / 460), or vectors are short and its columns long
    (`_copies_a`).
    For few rows B is read in place, its next panel prefetched (GFLOP/s, best in place / best packed):
    16 x 8192 x 2048 127 / 87, 64 x 4096 x 4096 198 / 172, 128 x 4096 x 4096 212 / 202, 200 x 1000 x 1000 248 / 241,
    256 x 4096 x 4096 217 / 220.
    """
    size = problem.row.itemsize
    row_b, panel = problem.n * size, nr * size
    if problem.row.converts:
        stays = problem.layout[0] == "n" and registry.in_place(kernels.blocked_family(problem.row, tier), problem.row)
        return "b" if stays else "ab"
    if problem.layout[0] == "g" and problem.m > mr and problem.n >= 4 * nr and problem.k * size > 256:
        return "ab"
    small_l1 = cpu.small_l1(tier)
    if l1.copies_a(problem, tier) if small_l1 else 64 <= panel < 128 and _copies_a(problem):
        return "ab"
    if problem.layout[1] != "n" or copies_ahead(problem, tier):
        return "b"
    # A B of one panel's width is a panel as it lies (256 x 64 x 6272: 248 GFLOP/s in place, 177 copied).  For many rows
    # the copy costs nothing, and its lines are aligned (4096 x 16 x 256 222 / 204, 20000 x 128 x 128 268 / 260).
    if problem.m > MANY_ROWS:
        return "b"
    if l1_written.copies(problem, tier):
        return "b"
    if small_l1 and problem.layout[0] == "t" and problem.k >= l1.COPIED_STEPS:
        # (Best in place times B copied alone, f32 and f64, 64 x 147 x 25088 1.6 1.6, 128 x 64 x 20000 1.3 1.6, 64 x 64
        # x 10000 1.06 1.4; but of few steps 1500 x 2000 by 32, 48 0.93 1.06, 0.71 0.63.)
        return "none"
    # Many rows of A pass through L2, and take lines of B with them where it is large (best in place / copied, rows 800,
    # 1200, 2000, one thread: f32 128 x 1280 1.0 1.07 1.1, 100 x 1500 1.04 1.13 1.26, 300 x 600 1.03 1.07 1.08, 128 x
    # 512 1.0 0.99 1.05, 1500 and 2000 by 64 x 1280 1.09 1.07; f64 128 x 500 1.05 1.02 1.22; two threads 0.97 to 1.04;
    # AVX2 1.02 to 1.12).
    if problem.m >= PASSING_ROWS and 4 * problem.k * row_b > cpu.caches().l2:
        return "b"
    if family_small.masked(problem, tier, nr):
        return "b"
    # Rows whole pages apart share sets of the caches and pages of the TLB; a copy pays where as many rows of A share it
    # as make a C of 2 MiB (times in place, 32 / 64 / 96 / 128 rows by 16384 x 1152: f64 1.14 1.25 1.4 1.34, f32 1.01
    # 1.06 1.2 1.15; 8192 x 2048: f64 0.96 1.0 1.24 1.22; 4096 x 1024: f64 1.0 1.02 1.1 1.12, f32 - 0.9 0.96 1.03, with
    # two threads 1.06; 4096 x 4096: f32 0.86 0.91 0.96 0.99 to 1.1, 192 rows 1.05; between pages 3000 x 3000 0.79 0.87
    # 0.89 0.95; few steps: 32 by 50176 x 144 0.82, 128 by 8192 x 512 0.95).
    paged = row_b % 4096 == 0
    if small_l1 and problem.layout[0] == "n":
        least = l1_stacks.copied_from(problem)
    else:
        least = _copied_from(problem) if 64 <= panel < 128 else 0
    if least:
        return "b" if problem.m * problem.row.parts >= least and problem.n > nr else "none"
    if panel < 64:
        paged = paged and problem.m * problem.row.parts >= SLOW_ROWS
    else:
        paged = paged and problem.k >= PAGED_K and problem.m * row_b >= PAGED_BYTES
    if (problem.m <= FEW_ROWS and not paged) or problem.n <= nr:
        return "none"
    # Rows whole pages apart share the sets of L1, where a panel of 16 has no room (255 x 2048 x 16: copied 1.17).
    return "none" if fits_l2(problem) and row_b % 4096 else "b"


def copies_ahead(problem: Problem, tier: registry.Isa) -> bool:
    return cpu.halves(tier) and half_tier.copies_ahead(problem)


def _copies_a(problem: Problem) -> bool:
    # Whether an A by columns is copied beside panels of B of about a line.  In place each step of k reads another line,
    # and of long columns another page, for a few numbers; a copy of it must serve enough of B (AVX2 on Zen 4, B copied
    # too / B alone, one thread, A transposed: f64 1000^3 1.25, 1000 x 1000 x 4000 1.33, 400 x 400 x 1000 1.15, 300 x
    # 300 x 1000 1.12, 100 x 2000 x 1000 1.04, 200 x 3000 x 1000 1.2; f32 1000^3 1.22, 2000 x 2000 x 300 1.23, 400 x 400
    # x 1000 1.07; i32 1000^3 1.14; c64 1000^3 1.11, c128 256 x 512 x 3136 1.3; two threads 1.0 to 1.45, B transposed as
    # well 1.03 to 1.24.  But of C's of less than 1 MiB f32 300^3 0.98, f64 100 x 600 x 20000 0.97, f32 64 x 576 x
    # 28000 0.97, beside blocks of k for L1 f32 256 x 512 x 3136 0.97, 400 x 400 x 1000 0.98; few steps, f32 400 x 400 x
    # 150 0.91; few columns, 2000 x 64 x 1000 0.9, 2000 x 40 x 2000 0.86; shorter rows, c64 256 x 512 x 3136 0.96, c128
    # 200 x 300 x 1000 0.98).
    row_a = problem.m * problem.row.itemsize
    # (One thread, f32, times a copy of B alone: 1000 x 1000 x 100 1.09, x 200 1.07, 954 x 1542 x 70 1.06, 585 x 1489 x
    # 175 1.1 to 1.2, 300 x 2000 x 100 1.1, but 919 x 289 x 171 0.86 to 1.06, 801 x 176 x 166 0.97.)
    wide = problem.k >= WIDE_STEPS and problem.n >= WIDE_COLUMNS
    return (
        problem.layout[0] == "t"
        and (problem.k >= COPIED_STEPS or wide or strides.collides(problem))
        and problem.n >= COPIED_COLUMNS
        and row_a * problem.n >= COPIED_C
        and row_a >= COPIED_ROW[problem.row.parts]
    )


def _copied_from(problem: Problem) -> float:
    # Rows of registers from which B is copied into panels of about a line (AVX2 on Zen 4, one thread, 4x24 copied times
    # 6x16 in place, f32, m = 16, 32, 64, 128, 200, 400):
    # rows whole pages apart   2048 x 512 0.78 0.95 1.07, 4096 x 1024 0.92 1.10 1.20, 4096 x 4096 0.95 1.11 1.16 1.38,
    #                          8192 x 512 1.26, 16384 x 1152 1.43 (12 rows 1.11, 1.17), 6144 x 2048 0.93, 24 rows 1.00
    #   copied side by side    (20, 24, 28 rows) 4096 x 4096 1.14 1.07 1.14, two threads 1.21 1.15 1.20, 12288 x 1024
    #                          1.18 1.12, f64 2048 x 4096 1.10 1.04; but 3072 x 1024 1.05 0.98 1.09, 2048 x 2048 - 0.93
    #                          0.99
    # that begin alike         1000 x 1000 - - 0.96 1.03 1.06 1.10, 512 x 512 0.93 (64) 1.01 1.04 1.05, 256 x 256 0.98
    # that do not              1001 x 1001 0.87 1.04 1.10 1.21 1.28 1.28, 286 x 286 - - 1.01 1.07 1.09 1.12,
    #                          100 x 300 - - 0.89 0.97 1.03 1.04
    # f64 100 x 512 x 128 1.19; i32 64 x 512 x 512 1.06, 200 x 600 x 600 1.08, 200 x 601 x 601 1.16; c64 1.0 to 1.27.
    # of stacks that leave caches, begun 16 bytes into a line and at a line: 128 x 128 x 64 (96) 1.16 1.03, 384 x 384 x
    #                          64 (12) 1.17 1.12, 64 x 256 x 64 1.11 0.95, 100 x 200 x 200 1.10 0.95, 128 x 96 x 200
    #                          1.06 0.99, 256 x 256 x 256 1.06 1.03, 128 x 64 x 128 1.04 0.93, rows unlike 200 x 300 x
    #                          50 0.96; f64 1.05 to 1.2 and 1.0 to 1.13
    # Not of short rows, nor beside an A by columns from memory (32 x 32 x 1000000 0.77, 60 x 35 x 25024 0.88; 100 x 100
    # x 1000000 tn 0.76, 32 x 100 x 215512 tn 0.76; but 96 x 64 x 25024 1.2); from L3 (f32, two threads, f64) 2000 x 64
    # x 1000 tn 1.21 1.18 1.0, 300 x 128 x 1000 1.2 1.02 1.01, 100 x 64 x 5000 1.04 1.1 1.15, 500 x 64 x 1000 0.98 1.11
    # 1.29, 128 x 300 x 600 1.02 1.01 1.22, but 48 x 200 x 2000 0.94, 60 x 100 x 1000 0.93.
    row_b, l2 = problem.n * problem.row.itemsize, cpu.caches().l2
    bytes_b = problem.k * row_b
    if row_b % 4096 == 0:
        return next(rows for pages, rows in PAGED_ROWS if row_b % (pages << 12) == 0)
    if family_small.nearly_paged(problem):
        return family_small.NEARLY_ROWS
    if problem.layout[0] == "t" and problem.k * (problem.m + problem.n) * problem.row.itemsize <= cpu.caches().l3 // 4:
        return family_small.RAGGED_ROWS if strides.ragged(problem) else family_small.COLUMN_ROWS
    if problem.layout[0] == "n" and family_small.spread(problem):
        return family_small.SPREAD_ROWS
    if problem.layout[0] == "t" or row_b < SHORT_B:
        return inf if fits_l2(problem) else FEW_ROWS + 1
    stacked = problem.batch > 1 and problem.streamed > cpu.caches().l3 // 4
    if stacked and row_b % strides.EVEN_BYTES == 0 and row_b >= STACKED_B:
        return STACKED_ROWS
    if strides.even(problem):  # 64 x 1000000 x 64 in place 0.77
        return EVEN_ROWS if bytes_b > l2 // 4 else inf
    large, middling, small = UNEVEN_ROWS
    return large if bytes_b > l2 else middling if bytes_b > l2 // 4 else small if bytes_b > l2 * 3 // 32 else inf


def fits_l2(problem: Problem) -> bool:
    # B stays in L2 between row panels where it is read in place; rows a page apart share sets, and leave room for less.
    row = problem.n * problem.row.itemsize
    # f32 512^3, whose B is all of L2: 83 % of the peak in place, 92 packed.
    return problem.k * row <= cpu.caches().l2 * (0.5 if row % 4096 == 0 else 0.75)
