"""The rules for few rows by a B that is read as it lies: which untuned products, with which strips and team.

Dot products, measured on Zen 5 (AVX-512, one thread, bytes with 32-bit sums and, in brackets, bfloat16), as the speed
of B packed, or for one row of the gemv family, times:

* B in memory: 1 x 8448 x 2816 1.8, 2 x 7680 x 2560 2.8 (2.9), 3 x 8448 x 2816 2.9 (2.5), 4 x 4608 x 1536 1.7 (2.1),
  4 x 16384 x 4096 1.8 (2.3), 8 x 10752 x 3584 1.6 (1.9), 2 x 256 x 20000 2.3 (2.8);
* in L2: 1 x 512 x 1024 2.5, 2 x 512 x 1024 2.3, 4 x 512 x 1024 2.1, 8 x 512 x 1024 1.2; 1 x 64 x 64 1.2, 2 x 256 x 64
  1.4 (1.4), 4 x 256 x 64 1.06 (1.2), 4 x 100 x 256 0.97 (1.5), 6 x 256 x 128 0.98 (1.37), 8 x 256 x 128 0.84 (1.2),
  2 x 64 x 256 0.98 (1.03), 8 x 64 x 256 0.70 (0.84).

Other types, in the gemv family, as the speed of the heuristic's other choice (float32; a B in memory 1.1 to 1.6):

* 2 rows: n 128 1.0 to 1.2; 256 x 64 1.2, 512 x 256 1.5, 1024 x 256 1.8, 4096 x 256 1.9, 4096 x 1024 2.5; float64 alike;
* 3 rows: 512 x 64 1.0, 512 x 256 1.5, 1024 x 256 1.6, 4096 x 256 1.9, 4096 x 1024 2.4;
* 4 rows: in L2 0.7 to 1.1; 512 x 1024 1.3, 1024 x 1024 1.3, 2048 x 4096 1.5, 8192 x 1024 1.6;
* 5 to 8 rows: 0.5 to 0.9 but from half of L3 on: 5 x 4096 x 4096 1.35, 6 x 8192 x 1024 1.4, 8 x 8192 x 1024 1.6;
* with 16 registers (AVX2 on Zen 4) 3 rows: 256 x 512 0.85, 512 x 256 0.9, 512 x 512 1.15; 5 x 4096 x 4096 0.78, 6 x
  3000 x 3000 0.7, 8 x 3000 x 2000 0.75; from memory at FAR_STRIP;
* float16 and int16 (converted, so the sums are not what counts): 2 x 512 x 256 1.05, 2 x 4096 x 256 2.0 and 1.3,
  2 x 512 x 4096 3.6 and 1.4, but 2 x 128 x 1024 1.0 and 0.7; 4 x 4096 x 256 1.2 and 1.0, 4 x 512 x 4096 2.3 and 1.3.
"""

from __future__ import annotations

from .. import cpu, registry
from ..problem import MAX_BLOCK, MAX_PARTIAL, Config, Problem
from . import stacks, strides
from .costs import TEAM_BYTES, TEAM_FLOPS, whole_items
from .ways import far_bytes

FEW_ROWS = 4
# Steps and columns for so many rows, and for more: of steps as many bytes, and rows up to which half of either is
# enough beside as many of the other.  (Zen 4, one thread, times what copies B, k = 32, 64, 128, 256, 512, 1000, bf16
# 2 rows by 64 columns - 1.1 1.2 1.5 1.5 1.5, by 100 1.1 1.0 1.5 1.5 1.5 1.6, by 200 1.6 1.1 1.1 1.1 1.1 1.1, 4 rows
# by 64 0.9 1.0 1.4 1.5 1.6 1.4, by 100 0.9 0.9 1.3 1.4 1.4 1.4, by 200 1.2, 5 rows by 128 0.8 0.9 1.1 1.3 1.15 1.15,
# by 256 1.0 1.14, 6 rows by 128 0.8 0.9 1.0 1.07 1.05 1.04, by 256 0.9 1.0, 8 rows by 128 0.7 0.8 0.9 0.9 0.8 0.8;
# i8_i32 2 rows by 64 - 1.06 1.2 1.4 1.3 1.4, by 200 1.4, 4 rows by 64 0.7 0.84 1.0 1.2 1.1 1.3, by 80, a quarter of
# the second vector, 0.65 0.7 0.76 0.85 0.9 0.94, by 100 0.7 0.84 1.0 1.1 1.2 1.2, by 200 1.0, 5 rows by 128 0.7 0.9
# 1.06 1.2 1.25 1.24, by 256 1.0 1.1 1.3, 6 rows by 128 0.7 0.8 0.9 1.05 1.1 1.1, by 256 0.85 1.0 1.13, 8 rows by 128
# 0.6 to 1.0.)
LEAST_STEPS, LEAST_COLUMNS, BRIEF_STEPS, BRIEF_COLUMNS = 64, 64, 32, {2: 128, 3: 200, 4: 200}
MORE_STEPS, MORE_COLUMNS, MORE_ROWS = 256, 256, 6
# Fewer columns of halves by two rows, and their steps (24, 32 and 48 columns of 256, 512, 1000 steps 1.04 to 1.44; 4
# rows 0.9 to 1.3).
HALVES_COLUMNS, HALVES_STEPS = 24, 256
# Columns of bytes that leave most of their second vector empty, by more than two rows.
EMPTY_COLUMNS = range(65, 96)
# For one.  Of halves whose rows do not lie whole pages apart, in a cache (Zen 4, one thread, times gemv's, k = 32,
# 64, 256, 1000, 3000, 64 columns 0.96 1.4 1.4 1.7 1.75, 256 1.2 1.4 1.5 1.6 1.45, 1000 1.2 1.55 1.6 1.4 1.3, 3000 -
# 1.5 1.45 1.25 1.4; 2048 - 0.7 0.65 0.65 0.7, 4096 - 0.7 0.6 1.0 0.9; 5000 x 8000 0.8, stacks of 50 of more than L3
# 0.6 to 1.1).
ROW_STEPS, ROW_COLUMNS = 64, 64
STREAM_STEPS, STREAM_COLUMNS = 64, 256  # of other types
STREAM_BYTES = 1 << 16
# Strips: what a pass reads of B and what is fetched meanwhile, and the sums, fill so much of L1, in whole 128 columns
# (2 x 7680 x 2560, strips of 512, 1024, 1536, 4096: 2.1, 2.5, 2.9, 2.0; 3 x 8448 x 2816 512 to 1536 2.5, 2.9, 2.1).
# A B that is little wider is one strip (4 x 1000 x 100000 in two 1.5, in one 2.1).
L1_SHARE = 15 / 16
STEP = 128
# With 16 registers and B in memory, rows of it as long as can be, though sums come from L2.  (AVX2 on Zen 4, one thread
# and two, 6x16 tiles on panels in place times strips, f32, rows of B that are whole pieces of 512 bytes, 4096 x 4096,
# 7680 x 2560: by 2, 3, 4, 5, 6, 7, 8 rows 1.4 1.4 1.6 1.6 1.4 1.9 1.7, 1.2 1.4 1.4 1.3 1.4 1.8 1.7; f64 1.2 1.7 1.9 1.6
# 1.5 2.1 1.8, int32 1.9 1.8 1.9 1.4 1.3 1.9 1.6.)  Others, whose lines in a panel share no sets of L1 and L2, gain
# less: 5000 x 6000 1.14 1.13 0.85 1.28 0.99 1.18 1.05, 1.04 1.08 1.16 0.96 1.0 1.31 1.19, 20000 x 1100 0.92 0.83 0.83
# 1.01 1.05 1.07 1.0, 1.0 1.12 1.19 1.16 1.04 1.2 1.28, 2000 x 3000, which L3 holds, 2, 3, 4, 8 rows 1.0 0.95 0.83
# 0.96.  They keep the tiles if the rows of A fill one, and more of them if B's rows are short or L3 holds it.
FAR_STRIP, FAR_MULTIPLE, TILE_ROWS, MORE_TILE_ROWS, SHORT_ROW = 8192, 512, range(5, 7), range(3, 9), 6 << 10
# A thread reads at least so many bytes of each row, or threads share k where it is deep, or as few columns as these
# (two threads, times one: 2 x 512 x 512 1.7, f64 1.8, 3 x 512 x 512 1.7, 2 x 384 x 768 1.7, int8 1.6, bfloat16 1.7;
# over k times over n: 2 x 256 x 768 1.12, 3 x 256 x 1024 1.2, 2 x 256 x 2048 1.37, but f64 2 x 256 x 2048 0.96).
TEAM_ROW_BYTES = 1 << 10
TEAM_COLUMNS = 128
TEAM_DOT_COLUMNS = 192  # int8 2 x 256 x 1024 in two halves 0.73 of one thread, bfloat16 0.91
DEEP_K = 512  # steps for a thread, where threads share k


def config(problem: Problem, tier: registry.Isa, family: str) -> Config | None:
    """Return the configuration for a problem whose B is read in place by strips, None for one of another kind.

    `family` is the one that this CPU has for the type.  Threads have no say in whether it is: `fastgemm.deterministic`
    relies on it.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import family_strips
    >>> from fastgemm.problem import Problem
    >>> found = family_strips.config(Problem("i8_i32", 2, 7680, 2560), registry.isa("v4"), "vnni")
    >>> found.pack, family_strips.config(Problem("i8_i32", 20, 7680, 2560), registry.isa("v4"), "vnni")
    ('none', None)
    """
    if problem.layout[1] != "n" or problem.m > registry.STRIP_ROWS:
        return None
    dots = registry.strips(family, problem.row)
    if not (_takes(problem) if dots else _streams(problem, tier)):
        return None
    split, threads = _team(problem, dots)
    found = Config("gemv", tier.name, nc=_strip(problem, tier, dots), split=split, threads=threads)
    if dots:
        mr, nr = registry.tiles(problem.row, tier)[0]
        found = found.replace(family=family, mr=mr, nr=nr, kc=min(problem.k, MAX_BLOCK), pack="none")
    return found if found.misfit(problem) is None else None


def _streams(problem: Problem, tier: registry.Isa) -> bool:
    # Not dot products.
    m, n, k, row = problem.m, problem.n, problem.k, problem.row
    if m == 1 or n < STREAM_COLUMNS or k < STREAM_STEPS or not registry.strips("gemv", row):
        return False
    size, caches = n * k * row.stored_bytes, cpu.caches()
    if tier.registers == 16 and not row.converts:
        row_b = n * row.stored_bytes
        if _far(problem):
            tiles = TILE_ROWS if row_b >= SHORT_ROW and size >= caches.l3 else MORE_TILE_ROWS
            return row_b % FAR_MULTIPLE == 0 or m not in tiles
        near = m == FEW_ROWS - 1 and size <= caches.l2 // 2 and row_b % 4096 > 0
        if m > FEW_ROWS or near:
            return False
    if m > FEW_ROWS:
        return size > caches.l3 // 2
    if m == FEW_ROWS:
        return size > caches.l2 * (2 if row.converts else 1)
    return size >= (caches.l2 // 2 if row.converts else STREAM_BYTES)


def _far(problem: Problem) -> bool:
    return problem.k * problem.n * problem.row.stored_bytes >= far_bytes()


def _takes(problem: Problem) -> bool:
    m, n, k, row = problem.m, problem.n, problem.k, problem.row
    if m == 1:
        if k < ROW_STEPS or n < ROW_COLUMNS:
            return False
        if row.exact:
            return True
        if problem.batch > 1 and max(n, k) <= stacks.LONGEST:
            return False  # (which are measured)
        row_b = n * row.stored_bytes
        return problem.batch * k * row_b <= cpu.caches().l3 // 2 and row_b % strides.PAGE > 0
    if m <= FEW_ROWS:
        if m == 2 and not row.exact and k >= HALVES_STEPS and n >= HALVES_COLUMNS:
            return True
        if m > 2 and row.exact and n in EMPTY_COLUMNS:
            return False
        return n >= LEAST_COLUMNS and k >= (BRIEF_STEPS if n >= BRIEF_COLUMNS[m] else LEAST_STEPS)
    steps = k * row.stored_bytes
    if m <= MORE_ROWS and max(steps / MORE_STEPS, n / MORE_COLUMNS) >= 1:
        return 2 * steps >= MORE_STEPS and 2 * n >= MORE_COLUMNS
    return steps >= MORE_STEPS and n >= MORE_COLUMNS


def _strip(problem: Problem, tier: registry.Isa, dots: bool) -> int:
    row = problem.row
    if tier.registers == 16 and not dots and not row.converts and _far(problem):
        return min(problem.n, FAR_STRIP)
    # Bytes of a column of B in a pass: a group of dot products is 4 of them.
    piece = (4 if dots else row.stored_bytes) * registry.strip_groups(row, tier, problem.m)
    most = int(cpu.caches().l1d * L1_SHARE) // (2 * piece + problem.m * row.real_bytes) // STEP * STEP
    most = max(STEP, most)
    return problem.n if problem.n <= most * 3 // 2 else most


def _team(problem: Problem, dots: bool) -> tuple[str, int]:
    threads, row = problem.threads, problem.row
    if threads == 1 or (problem.flops < TEAM_FLOPS and problem.k * problem.n * row.stored_bytes < TEAM_BYTES):
        return "n", 1
    if whole_items(problem):
        return "batch", threads
    deep = problem.batch == 1 and problem.k >= DEEP_K * threads
    deep = deep and problem.m * problem.n * row.real_bytes <= MAX_PARTIAL
    least = TEAM_DOT_COLUMNS if dots else TEAM_COLUMNS
    wide = least if dots else TEAM_ROW_BYTES // row.stored_bytes
    if deep and problem.n < wide * threads:
        return "k", threads
    return "n", max(1, min(threads, problem.batch * problem.n // least))
