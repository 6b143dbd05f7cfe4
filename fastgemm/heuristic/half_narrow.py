"""Products of few columns, on a CPU that computes its longest vectors in two halves (`half_tier`).

Zen 4, AVX-512 and AVX2, one thread, what the rules took so far over what they take now, by k.  Rows of A that lie whole
pages apart share one set of L1: small's kernels, which have many of them in a vector, are slowest there.

nn, f32, dot products of short vectors    128   256   500   512   1000  1024  2048
    2 columns by  4 rows                  1.2   1.6   2.0   2.2   1.9   2.0   2.6
                  16                      1.2   1.5   1.8   1.8   2.0   5.1   5.4
                  32                      1.3   1.8   1.9   6.3   2.1   15    13
    3             16                      0.9   1.1   1.2   1.2   1.2   1.9   1.7
                  32                      0.9   1.2   1.3   2.3   1.3   4.8   4.1
    4             32                      0.9   1.1   1.2   2.3   1.0   4.3   3.7
f64 2             16                      1.1   1.1   1.2   2.1   1.1   1.9   2.0
                  32                      1.3   2.9   1.3   7.0   1.2   5.6   6.0
nn, of long vectors, 300 and 3000 rows    32    48    62    80    100   120
f32 2 columns                             1.2   1.5   1.1
    3                                     0.8   0.9   1.0   1.0   1.2   1.2
    4                                                       1.0   1.0   1.1
f64 2                                     1.1   1.1   1.1
    3                                     1.1   1.3   1.2
    4                                     0.8   1.1   1.0
nn, f32, of long vectors
    5 columns by 200 rows                 1.1   1.5   1.6   1.6   1.7   -     2.5
    6           1000                      1.2   1.8   1.8   1.9   2.0   -     2.9
f64 5, 6         200                      1.1   1.1   1.1   1.9   1.2   1.9   1.9
nn, f32, blocks in place of small's rows that share vectors
    5 to 7 columns by 8 to 64 rows        1.1   1.2   1.2   1.2   1.2   1.5   1.5
f64 3, 4              8 to 32             1.2   1.3   1.3   2.0   1.3   2.0   2.1
nn, blocks of short vectors in place of long ones: f64, ten columns, rows of A half a page apart, 256, 768, 1280 steps,
by 32 to 1000 rows 1.3 to 1.4, 1.3 to 1.7, 1.3 to 1.4; of 9, 11 and 12 columns, or of 384 steps, nothing.
nt, dot products of short vectors in place of long ones (of 32, 64 and 90 steps 1.1 1.8 1.9, 1.1 1.4 1.4, f64 1.8 1.9
2.1, 1.2 1.3 1.4)
f32 2 columns by 4 to 63 rows             1.9   1.9   2.2   2.2   2.0   1.9   1.8
    3, 4                                  1.3   1.3   1.3   1.2   1.2   1.2   1.0
    7, 8          4 to 32                 1.3   1.3   1.3   1.3   1.2   1.2   1.0
f64 2             4 to 63                 2.1   2.1   2.0   2.0   1.9   1.9   1.9
    3                                     1.4   1.4   1.3   1.2   1.1   1.1   1.0
    4                                     1.3   1.4   1.0
    7, 8          4, 8                    1.5   1.4   1.2   1.2   1.0   1.0   1.0
nt, blocks, B turned over, in place of dot products; of 64 and 90 steps 1.2 and 1.6
f64 7, 8         16 to 128                1.5   1.5   1.5   1.5   1.3   1.4   1.3
nt, dot products of long vectors in place of short ones
f64 12            4 to 32                 1.2   1.2   1.5   1.5   1.4   1.3   1.5

Stacks of 4 and 60 of them gain as much (32 x 2 x 1024 14 and 11 times, 32 x 5 x 1024 1.7 and 1.5).
"""

from __future__ import annotations

from .. import cpu
from ..allowed import halved_bytes
from ..problem import Problem
from .ways import DOT_TURNED

# What a problem is computed by; "" where other rules say so.
SHORT_DOTS, DOTS = "dot products of short vectors", "dot products"
SHORT_BLOCKS, BLOCKS = "blocks of short vectors", "blocks"

# Rows up to which short vectors are the better ones, by columns that are adjacent and not; from which long ones are.
FEW_ROWS, FEW_ROWS_T, MANY_ROWS = 63, 32, 128
LEAST_STEPS, STEPS = 32, 128
# Of many rows by two, three and four columns dot products of long vectors are the rule from some steps on, by bytes of
# a number.
MANY_STEPS = {4: {2: 32, 3: 100, 4: 120}, 8: {2: 32, 3: 32, 4: 48}}
# The part of L3 from which A is beyond the caches: there the short vectors of `half_tier` are the better ones for short
# rows, and the rules for memory for long ones (dot products times those, f32 8000 x 6 x 512, of 16 MB, 0.64, 12000 x 5
# x 300 0.37, f64 6000 x 6 x 400 0.73; of 11 MB 1.8, 1.5, 1.2).
FAR_L3, THIN_ROW = 3 / 8, 2048


def way(problem: Problem) -> str:
    """Return what a problem is computed by.

    Examples
    --------
    >>> from fastgemm.heuristic import half_narrow
    >>> from fastgemm.problem import Problem
    >>> half_narrow.way(Problem("f32", 512, 512, 512))
    ''
    """
    row = problem.row
    plain = row.lane[0] == "f" and row.parts == 1 and not row.converts
    if not plain or problem.m < 4 or not 2 <= problem.n <= 12 or problem.k < LEAST_STEPS:
        return ""
    if not halved_bytes() or problem.layout not in ("nn", "nt"):
        return ""
    row_a = problem.k * row.itemsize
    rule = _single if problem.layout == "nn" else _single_t
    if row.itemsize == 8:
        rule = _double if problem.layout == "nn" else _double_t
    found, bytes_a = rule(problem.m, problem.n, problem.k), problem.batch * problem.m * row_a
    if found in (SHORT_DOTS, DOTS):
        # Adjacent columns are turned over first, up to so many bytes; and an A from L3 or memory is not fetched ahead.
        turns = problem.layout == "nt" or problem.n * problem.k * row.itemsize <= DOT_TURNED
        return found if turns and bytes_a < FAR_L3 * cpu.caches().l3 else ""
    thin = found == BLOCKS and row_a <= THIN_ROW and bytes_a >= FAR_L3 * cpu.caches().l3
    return "" if thin else found


def _single(m: int, n: int, k: int) -> str:
    if n <= 4:
        if m <= FEW_ROWS:
            return SHORT_DOTS if k >= (STEPS if n == 2 else 2 * STEPS) else ""
        return _many(m, k, MANY_STEPS[4][n])
    if n in (5, 6) and m >= MANY_ROWS and k >= 250:
        return DOTS
    return BLOCKS if n <= 7 and m >= 8 and k >= STEPS else ""


def _double(m: int, n: int, k: int) -> str:
    if n == 2 and m <= FEW_ROWS:
        return SHORT_DOTS if m >= 16 and k >= STEPS else ""
    if n <= 4:
        if m <= FEW_ROWS:
            return BLOCKS if m >= 8 and k >= STEPS else ""
        return _many(m, k, MANY_STEPS[8][n])
    if n == 10:
        return SHORT_BLOCKS if m >= 32 and k % 512 == 256 else ""
    return DOTS if n <= 6 and m >= MANY_ROWS and k >= 250 else ""


def _many(m: int, k: int, least: int) -> str:
    # (Of more steps `family_dots` says so.)
    return DOTS if m >= MANY_ROWS and least <= k < STEPS else ""


def _single_t(m: int, n: int, k: int) -> str:
    if n <= 4:
        return SHORT_DOTS if m <= FEW_ROWS and (n == 2 or k <= 1024) else ""
    return SHORT_DOTS if n in (7, 8) and m <= FEW_ROWS_T and STEPS <= k <= 1024 else ""


def _double_t(m: int, n: int, k: int) -> str:
    if n <= 4:
        return SHORT_DOTS if m <= FEW_ROWS and (n == 2 or k <= (512 if n == 3 else 256)) else ""
    if n in (7, 8) and k >= 64:
        if m >= 16:
            return BLOCKS
        return SHORT_DOTS if k <= 512 else ""
    return DOTS if n == 12 and m <= FEW_ROWS_T and k >= STEPS else ""
