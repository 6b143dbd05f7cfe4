"""An A by columns beside a narrow B, both in place, beside an L1 of 48 KiB (`cpu.half_line_l1`).

Such is ``x.T @ y`` of many samples of which y has few numbers.  A tile reads a line of A in each step of k, of which
the next tiles take the other numbers: they must still be in L1, which keeps as many lines as a block has steps.  All
rows of A.T pass over a block of them, so that memory is read in the order in which it lies, which the CPU follows; a
copy of A reads and writes it all for the sake of few columns.

The figures are of an Emerald Rapids (2 cores of a shared host, L2 of 2 MiB, AVX-512), by plans in turns in one process,
times what was done before: both copied, or in place in blocks of 100 to 1000 steps and 96 rows.
"""

from __future__ import annotations

from .. import cpu, registry
from ..problem import MAX_BLOCK, MAX_PARTIAL, Config, Problem
from . import l1

# Bytes of a row of B, of which a tile takes all, rows of A.T, and steps, at least.  (f32 1000 x 16, 32, 64 x 6000 1.87
# 2.0 1.6, 256 x the same 1.25 1.37 1.05, 3000 x 64 x 1000 1.22, 10000 x 16 x 1000 2.07, 1000 x 27 x 3000 1.55; columns
# pages apart 1024 x 64 x 4000 1.85, 512 x 64 x 4000 1.3; f64 1000 x 16, 32 x 6000 2.9 1.16, 256 x the same 1.5 1.26,
# 10000 x 16 x 1000 4.8; 128 x 64 x 6000 1.1, but 64 x 32 x 6000 0.91, f64 0.97; of few steps, two threads, 8187 x 40 x
# 82, f64 2125 x 30 x 78 0.88 0.8.)
LEAST_ROW, LEAST_ROWS, LEAST_STEPS = 64, 128, 256
# Of two panels of whole vectors up to so many rows, and so many steps at least.  (f32 256 x 128 x 6000 1.18, 1000 x 128
# x 6000 1.19, pages apart 1024 x 128 x 2000 1.27, f64 256 x 64 x 6272 1.3, 1000 x 64 x 4000 1.38, two threads 1.34,
# 1.26; but 437 x 64 x 713 0.94, 10000 x 64 x 300 0.7, f32, two threads, 371 to 848 x 128 0.85 to 0.93, 10293 x 128 x
# 2647 0.54; of three panels 0.8 to 1.1, of rows that do not begin lines, 469 x 93 x 1784, 581 x 95 x 660, 0.7 to 0.85.)
TWO_ROWS, TWO_STEPS = 1024, 1000
# Bytes of a block of A, of no fewer and no more steps than these.  (32, 64, 128 steps, f32 256 x 32 x 6000 - 1.3 1.39,
# 1000 x 64 x 6000 - 1.6 1.33, 1024 x 64 x 4000 1.77 1.85 -, 2048 x 32 x 2000 1.92 - -; f64 256 x 64 x 6272 - 1.29 1.2,
# 1000 x 64 x 4000 1.38 1.2 -.)
BLOCK, FEWEST, MOST = 128 << 10, 32, 128


def config(problem: Problem, tier: registry.Isa) -> Config | None:
    """Return the configuration for such a problem, None for one of another kind.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import l1_columns
    >>> from fastgemm.problem import Problem
    >>> l1_columns.config(Problem("f32", 1000, 16, 5000, layout="tn"), registry.isa("v3"))
    """
    if not (cpu.half_line_l1(tier) and _concerns(problem)):
        return None
    mr, nr = _tile(problem, tier)
    threads = problem.threads
    two = problem.n == 2 * nr and problem.m <= TWO_ROWS and problem.k >= TWO_STEPS
    if problem.n > nr and not (two and (threads == 1 or problem.row.itemsize == 8)):
        return None
    # k is shared where it is longer than the output is high.  (Two threads, k and rows, f32 1000 x 16 x 6000 1.65 1.05,
    # 1000 x 64 x 2000 1.39 1.36, 512 x 96 x 4000 1.14 1.1; 3000 x 64 x 1000 - 1.24, f64 10000 x 16 x 1000 1.6 2.6.)
    deep = problem.k > problem.m and problem.m * problem.n * problem.row.itemsize <= MAX_PARTIAL
    split = "n" if threads == 1 else "k" if deep else "m"
    steps = max(FEWEST, min(MOST, BLOCK // (problem.m * problem.row.itemsize)))
    kc, mc = -(-problem.k // -(-problem.k // steps)), min(problem.m + mr - 1, MAX_BLOCK) // mr * mr
    return Config("gemm", tier.name, mr, nr, mc, kc, MAX_BLOCK, "none", split, threads)


def _concerns(problem: Problem) -> bool:
    if problem.layout != "tn" or problem.batch > 1 or not l1.is_plain(problem):
        return False
    size, l2 = problem.row.itemsize, cpu.caches().l2
    # An A, or each thread's part of it, that L2 does not hold, and a C that it does.  (f32 198 x 29 x 375 0.82, two
    # threads 203 x 64 x 389 0.83, 848 x 128 x 1731 0.85; f32 10014 x 64 x 410 0.8, two threads 12528 x 64 x 505 0.81.)
    streams = problem.m * problem.k * size > problem.threads * l2 and problem.m * problem.n * size <= l2
    least = problem.n * size >= LEAST_ROW and problem.m >= LEAST_ROWS and problem.k >= LEAST_STEPS
    return streams and least


def _tile(problem: Problem, tier: registry.Isa) -> tuple[int, int]:
    # The tallest of as few vectors as B has, and of a wider one the widest.  (14 x 32 and 6 x 64, f32 1000 x 32 x 6000
    # 2.02 1.87, 1000 x 64 x 6000 1.51 1.6, 1024 x 128 x 2000 1.19 1.29; f64 14 x 16 and 6 x 32, 1000 x 64 x 6000 1.05
    # 1.2.)
    tiles = sorted(registry.tiles(problem.row, tier), key=lambda tile: tile[1])
    return next((tile for tile in tiles if tile[1] >= problem.n), tiles[-1])
