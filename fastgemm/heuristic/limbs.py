"""The rules for float32 in limbs: which untuned products tile registers multiply, six times (kernels/limbs.pxd).

Six products of registers take three eighths of the cycles of float32's multiply-adds, so what decides is how often a
number that is cut is used; each costs as much as 27 multiply-adds, and one that comes from beyond L2 as much again.
What vectors do in place of it is estimated too, and they keep what is near.
"""

from __future__ import annotations

from dataclasses import replace

from .. import cpu, kernels, registry
from ..problem import PACKED, Config, Problem
from .costs import TEAM_FLOPS

COLUMNS = 16             # of sums in a register
# Cycles: of a chunk of two registers, of a tile, whose C is read and written; of a number that is cut, of one that was
# not in L2, of one of B that is turned over, and of one of C that was not in L2, each time; multiply-adds of vectors in
# one.  (Emerald Rapids, one thread, the core not shared, GFLOP/s by limbs and by vectors: 96^3 141 164,
# 128^3 191 170, 160^3 188 157, 256^3 239 159, 64 x 256 x 256 167 147, 32 x 256 x 256 118 166, 32 x 1024 x 1024 88 107,
# 128 x 1024 x 1024 168 135, 1024 x 64 x 1024 144 144, 512 x 512 x 64 168 152, 2000 x 2000 x 64 87 145, 64 x 64 x 4096
# 118 154; nt 78 x 512 x 512 140 144, 64 x 7680 x 2560 75 115.)
CHUNK, TILE, CUT, FAR, TURNED, FAR_C, VECTORS = 111.0, 500.0, 0.85, 0.6, 0.7, 1.25, 30.0
GAIN = 0.85              # of the vectors' time
# Rows of a block of A, and from how many rows on blocks of B are too large for L2: they are then read from L3, the next
# panel fetched meanwhile, by blocks of A that fill half of L2.  (Emerald Rapids, one thread, over multiply-adds, blocks
# of steps by columns 512 x 1024, 512 x 256, 256 x 512: 64 x 1024 x 1024 0.92 1.11 1.16, 128 x 1024 x 1024 1.01 1.22
# 1.19, 256 x 1024 x 1024 1.38 1.42 -; 1024^3 in GFLOP/s 244 - 217.)
BLOCK_ROWS = 256
STEPS, COLUMNS_FEW, COLUMNS_MANY = 512, 512, 1024


def family(problem: Problem, tier: registry.Isa) -> str:
    """Return the family of limbs that takes a problem; "" where vectors do it.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import limbs
    >>> from fastgemm.problem import Problem
    >>> limbs.family(Problem("f64", 512, 512, 512), registry.isa("v4"))
    ''
    """
    if problem.dtype != "f32" or problem.layout[1] == PACKED or min(problem.m, problem.n) < COLUMNS:
        return ""
    # Of a team's threads each cuts an operand of its own.
    part = _part(problem)
    by_vectors = part.m * part.n * part.k / VECTORS + _far(part)
    if cycles(part) >= GAIN * by_vectors:
        return ""
    return kernels.limbs_family(problem.row, tier)


def cycles(problem: Problem) -> float:
    """Return the estimate of one product, in cycles.

    Examples
    --------
    >>> from fastgemm.heuristic import limbs
    >>> from fastgemm.problem import Problem
    >>> limbs.cycles(Problem("f32", 256, 256, 256)) / 256**3 < 1 / 30
    True
    """
    m, n, k = problem.m, problem.n, problem.k
    chunks = -(-k // (2 * registry.REGISTER_ROWS))
    registers = -(-m // registry.REGISTER_ROWS) * -(-n // COLUMNS)
    times = -(-k // _steps(m))
    copied = CUT * (m + n) * k + _far(problem) + (TURNED * n * k if problem.layout[1] != "n" else 0.0)
    far_c = FAR_C * m * n * times if m * n * problem.row.itemsize > cpu.caches().l2 else 0.0
    return registers * chunks * CHUNK + -(-registers // 4) * times * TILE + copied + far_c


def config(problem: Problem, tier: registry.Isa, found: str) -> Config:
    """Return how such a family computes a problem.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import limbs
    >>> from fastgemm.problem import Problem
    >>> made = limbs.config(Problem("f32", 1024, 1024, 1024), registry.isa("v4"), "amx_f32")
    >>> made.mr, made.nr, made.mc, made.kc, made.nc, made.pack
    (32, 32, 256, 512, 1024, 'ab')
    """
    tall, wide = registry.tiles(problem.row, tier, found)
    mr, nr = wide if problem.m <= registry.REGISTER_ROWS else tall
    kc = -(-problem.k // -(-problem.k // _steps(problem.m)))
    nc = COLUMNS_FEW if problem.m < BLOCK_ROWS else COLUMNS_MANY
    split, threads = _team(problem)
    return Config(found, tier.name, mr, nr, BLOCK_ROWS, kc, nc, "ab", split, threads)


def _steps(m: int) -> int:
    return STEPS if m >= BLOCK_ROWS else STEPS // 2


def _far(problem: Problem) -> float:
    # Operands that L2 does not hold.
    m, n, k = problem.m, problem.n, problem.k
    return FAR * sum(side * k for side in (m, n) if side * k * problem.row.itemsize > cpu.caches().l2)


def _team(problem: Problem) -> tuple[str, int]:
    most = problem.threads
    if most == 1 or problem.flops < TEAM_FLOPS:
        return "n", 1
    if problem.batch >= most:
        return "batch", most
    columns, rows = (-(-side // (2 * registry.REGISTER_ROWS)) for side in (problem.n, problem.m))
    split, parts = ("n", columns) if columns >= rows else ("m", rows)
    return split, min(most, parts)


def _part(problem: Problem) -> Problem:
    # A thread's.
    split, threads = _team(problem)
    if split == "batch":
        return problem
    return replace(problem, **{split: -(-getattr(problem, split) // threads)})
