"""The rules for float32 in limbs: which untuned products tile registers multiply, six times (kernels/limbs.pxd).

Six products of registers take three eighths of the cycles of float32's multiply-adds, so what decides is how often a
number that is cut is used; each costs as much as 25 multiply-adds, and one that comes from beyond L2 as much again.
What vectors do in place of it is estimated too, and they keep what is near.
"""

from __future__ import annotations

import math
from dataclasses import replace

from .. import cpu, kernels, registry
from ..problem import PACKED, Config, Problem
from .costs import busy, whole_items

ROWS, COLUMNS = registry.REGISTER_ROWS, registry.REGISTER_COLUMNS
# Two registers by two: for fewer rows than two have, one by four saves loads, but limbs lose there.
TALL, WIDE = registry.MATRIX_TILES[0]
CHUNK_K = registry.chunk_k(registry.DOTS["amx_f32", "f32"])
# Cycles: of a chunk of two registers by two, which is six products of each; of a tile, whose C is read and written; of
# a number that is cut, of one that was not in L2, of one of B that is turned over, and of one of C that was not in L2,
# each time; multiply-adds of vectors in one.  (Emerald Rapids, one thread, the core not shared, a script, GFLOP/s by
# limbs and by vectors: 96^3 141 164, 128^3 191 170, 160^3 188 157, 256^3 239 159, 64 x 256 x 256 167 147, 32 x 256 x
# 256 118 166, 32 x 1024 x 1024 88 107, 128 x 1024 x 1024 168 135, 1024 x 64 x 1024 144 144, 512 x 512 x 64 168 152,
# 2000 x 2000 x 64 87 145, 64 x 64 x 4096 118 154; nt 78 x 512 x 512 140 144, 64 x 7680 x 2560 75 115.)
CHUNK, TILE, CUT, FAR, TURNED, FAR_C, VECTORS = 444.0, 500.0, 0.85, 0.6, 0.7, 1.25, 30.0
GAIN = 0.85              # of the vectors' time
# Of a block: rows of A, steps, and columns of B, which is then too large for L2 and read from L3, the next panel
# fetched meanwhile, beside an A that fills half of L2.  Products of fewer rows have half the steps and columns.
# (Emerald Rapids, one thread, a script, over multiply-adds, blocks of steps by columns 512 x 1024, 512 x 256, 256 x
# 512: 64 x 1024 x 1024 0.92 1.11 1.16, 128 x 1024 x 1024 1.01 1.22 1.19, 256 x 1024 x 1024 1.38 1.42 -; 1024^3 in
# GFLOP/s 244 - 217.)
BLOCK_ROWS, BLOCK_STEPS, BLOCK_COLUMNS = 256, 512, 1024


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
    if problem.dtype != "f32" or problem.layout[1] == PACKED or problem.m < ROWS or problem.n < COLUMNS:
        return ""
    if not kernels.built_limbs(problem.row, tier):
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
    tiles = -(-m // ROWS) * -(-n // COLUMNS) / 4
    times = -(-k // _block(BLOCK_STEPS, m))
    copied = CUT * (m + n) * k + _far(problem) + (TURNED * n * k if problem.layout[1] != "n" else 0.0)
    far_c = FAR_C * m * n * times if m * n * problem.row.itemsize > cpu.caches().l2 else 0.0
    return tiles * -(-k // CHUNK_K) * CHUNK + math.ceil(tiles) * times * TILE + copied + far_c


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
    split, threads = _team(problem)
    kc = -(-problem.k // -(-problem.k // _block(BLOCK_STEPS, problem.m)))
    nc = _block(BLOCK_COLUMNS, problem.m)
    return Config(found, tier.name, TALL, WIDE * COLUMNS, BLOCK_ROWS, kc, nc, "ab", split, threads)


def _block(most: int, m: int) -> int:
    return most if m >= BLOCK_ROWS else most // 2


def _far(problem: Problem) -> float:
    # Operands that L2 does not hold.
    m, n, k = problem.m, problem.n, problem.k
    return FAR * sum(side * k for side in (m, n) if side * k * problem.row.itemsize > cpu.caches().l2)


def _team(problem: Problem) -> tuple[str, int]:
    most = problem.threads
    if most == 1 or not busy(problem):
        return "n", 1
    if whole_items(problem):
        return "batch", most
    columns, rows = -(-problem.n // (WIDE * COLUMNS)), -(-problem.m // TALL)
    split, parts = ("n", columns) if columns >= rows else ("m", rows)
    return split, min(most, parts)


def _part(problem: Problem) -> Problem:
    # A thread's.
    split, threads = _team(problem)
    if split == "batch":
        return problem
    return replace(problem, **{split: -(-getattr(problem, split) // threads)})
