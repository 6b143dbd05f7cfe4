"""The rules for few rows by a B that is read as it lies: which untuned dot products, with which strips and team.

Measured on Zen 5 (AVX-512, one thread, bytes with 32-bit sums and, in brackets, bfloat16), as the speed of B packed, or
for one row of the gemv family, times:

* B in memory: 1 x 8448 x 2816 1.8, 2 x 7680 x 2560 2.8 (2.9), 3 x 8448 x 2816 2.9 (2.5), 4 x 4608 x 1536 1.7 (2.1),
  4 x 16384 x 4096 1.8 (2.3), 8 x 10752 x 3584 1.6 (1.9), 2 x 256 x 20000 2.3 (2.8);
* in L2: 1 x 512 x 1024 2.5, 2 x 512 x 1024 2.3, 4 x 512 x 1024 2.1, 8 x 512 x 1024 1.2; 1 x 64 x 64 1.2, 2 x 256 x 64
  1.4 (1.4), 4 x 256 x 64 1.06 (1.2), 4 x 100 x 256 0.97 (1.5), 6 x 256 x 128 0.98 (1.37), 8 x 256 x 128 0.84 (1.2),
  2 x 64 x 256 0.98 (1.03), 8 x 64 x 256 0.70 (0.84).
"""

from __future__ import annotations

from . import cpu, registry
from .problem import MAX_PARTIAL, Config, Problem

FEW_ROWS = 4
LEAST_STEPS, LEAST_COLUMNS = 64, 128  # of k and of n, for so many rows
MORE_STEPS, MORE_COLUMNS = 256, 256  # for more; of steps of two bytes each half as many
ROW_STEPS, ROW_COLUMNS = 64, 64  # for one
# Strips: what a pass reads of B and what is fetched meanwhile, and the sums, fill so much of L1, in whole 128 columns
# (2 x 7680 x 2560, strips of 512, 1024, 1536, 4096: 2.1, 2.5, 2.9, 2.0; 3 x 8448 x 2816 512 to 1536 2.5, 2.9, 2.1).
# A B that is little wider is one strip (4 x 1000 x 100000 in two 1.5, in one 2.1).
L1_SHARE = 15 / 16
STEP = 128
TEAM_FLOPS = 1_000_000  # as for gemm
TEAM_BYTES = 1 << 19  # of B, as for gemv
TEAM_COLUMNS = 512  # for a thread
DEEP_K = 512  # steps for a thread, where threads share k


def config(problem: Problem, tier: registry.Isa, family: str) -> Config | None:
    """Return the configuration for a problem whose B is read in place by dot products, None for one of another kind.

    `family` is the one that this CPU has for the type.  Threads have no say in whether it is: `fastgemm.deterministic`
    relies on it.

    Examples
    --------
    >>> from fastgemm import heuristic_strips, registry
    >>> from fastgemm.problem import Problem
    >>> found = heuristic_strips.config(Problem("i8_i32", 2, 7680, 2560), registry.isa("v4"), "vnni")
    >>> found.pack, heuristic_strips.config(Problem("i8_i32", 20, 7680, 2560), registry.isa("v4"), "vnni")
    ('none', None)
    """
    if not _takes(problem, family):
        return None
    split, threads = _team(problem)
    mr, nr = registry.tiles(problem.row, tier)[0]
    found = Config(
        family, tier.name, mr, nr, kc=min(problem.k, 1 << 20), nc=_strip(problem, tier), pack="none",
        split=split, threads=threads,
    )  # fmt: skip
    return found if found.misfit(problem) is None else None


def _takes(problem: Problem, family: str) -> bool:
    m, n, k, row = problem.m, problem.n, problem.k, problem.row
    if problem.layout[1] != "n" or m > registry.STRIP_ROWS or not registry.strips(family, row):
        return False
    if m == 1:
        # One row of halves is summed in float32, as exactly as it can be, at the speed of memory.
        return row.exact and k >= ROW_STEPS and n >= ROW_COLUMNS
    if m <= FEW_ROWS:
        return k >= LEAST_STEPS and n >= LEAST_COLUMNS
    return k * row.stored_bytes >= MORE_STEPS and n >= MORE_COLUMNS


def _strip(problem: Problem, tier: registry.Isa) -> int:
    row = problem.row
    piece = 4 * registry.strip_groups(row, tier, problem.m)  # bytes of a column of B in a pass
    most = int(cpu.caches().l1d * L1_SHARE) // (2 * piece + problem.m * row.real_bytes) // STEP * STEP
    most = max(STEP, most)
    return problem.n if problem.n <= most * 3 // 2 else most


def _team(problem: Problem) -> tuple[str, int]:
    threads, row = problem.threads, problem.row
    if threads == 1 or (problem.flops < TEAM_FLOPS and problem.k * problem.n * row.stored_bytes < TEAM_BYTES):
        return "n", 1
    if problem.batch >= threads:
        return "batch", threads
    if problem.n >= TEAM_COLUMNS * threads:
        return "n", threads
    if problem.batch == 1 and problem.k >= DEEP_K * threads and problem.m * problem.n * row.real_bytes <= MAX_PARTIAL:
        return "k", threads
    return "n", 1
