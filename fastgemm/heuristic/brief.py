"""Few steps of k: whether the small family writes C a few whole rows at a time (kernels/small_brief.tp).

Of so few steps a product is the stores of C.  Tiles write as many short pieces as they have rows, in vectors that lie
in two lines each where rows do not begin lines, and wait for lines that are in L2 or beyond.  Whole rows, by whole
vectors of memory, fetch them 256 bytes ahead.  Times the kernels that wrote C before, `bench/builds.py`, best of two
processes a build, Emerald Rapids, one thread:

* f32 by 1, 2, 4, 6, 8 steps: 100 x 150 1.54 1.82 1.87 1.64 1.13, 1000 x 101 1.57 1.84 1.69 (more below: too short),
  460 x 460 1.75 1.64 1.76 1.46 1.55, 688 x 688 1.79 1.68 2.33 1.86 1.67, 1000 x 1001 1.34 1.40 1.38 1.36 1.38,
  3000 x 331 1.59 1.53 1.58 1.55 1.49, 2000 x 2003 1.16 1.14 1.09;
* rows of whole lines, 100 x 256 1.18 1.25 1.21 1.18 1.13, 300 x 112 1.12 1.09 1.12, 460 x 464 1.15 1.14 1.12 1.17 1.10;
* f64 (before lines were fetched) 100 x 75 1.44 1.45 1.71 1.56 1.16, 460 x 460 1.27 1.50 1.65 1.72 1.64;
* AVX2 (the same CPU) by 1, 2, 4, 6 steps: f32 100 x 150 1.83 1.74 1.45 1.15, 460 x 460 1.93 1.95 1.77 1.45, 1000 x
  1001 2.83 3.13 2.72 2.84; f64 1.68 1.60 1.68 1.28, 2.36 2.45 1.76 1.27, 3.40 3.02 2.80 2.19;
* two threads (before lines were fetched), f32 460 x 460 1.57 1.44 1.69 1.41 1.30, 2000 x 2003 1.43 1.60 1.70.
"""

from __future__ import annotations

from .. import cpu, registry
from .ways import Asked

# Vectors of a row, by steps up to `FEW_STEPS` and more, and bytes of C from which it pays: of fewer a row's beginning
# takes the time, and L1 holds what tiles write.  (f32 by 2, 4, 8 steps 300 x 90 1.43 1.30 0.78, 300 x 100 1.53 1.78
# 0.86, 100 x 90 1.09 0.95 0.71; by 1, 2, 4, 6, 8 64 x 160, of 40 KiB, 1.69 1.72 1.35 1.20 0.90, 60 x 128, of 30, 0.98
# 0.98 0.97 0.94, 40 x 150 0.98 0.77 0.83 0.83 0.79; 100 x 75 - - 0.61.)
FEW_STEPS = 4
VECTORS = (6, 9)
LEAST_C = 36 << 10
# By more steps, or a B that is copied, gemm's blocks are the better ones for a C of more than so many times L2.  (A
# script, before lines were fetched, f32 by 6, 8 steps 3000 x 331, of 2 L2, 1.26 1.45, 1500 x 1501, of 4, 1.08 0.98,
# 2000 x 2003 1.07 0.81; nt by 2, 4, 7 1000 x 1001 1.17 1.19 1.22, 2000 x 2003 0.89 0.89 0.87.)
MOST_L2 = 3


def whole_rows(problem: Asked, tier: registry.Isa) -> bool:
    """Say whether the small family writes C a few whole rows at a time, where they begin alike in a vector.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import brief
    >>> from fastgemm.problem import Problem
    >>> [brief.whole_rows(Problem("f32", 460, 460, k), registry.isa("v4")) for k in (4, 8, 9)]
    [True, True, False]
    """
    row = problem.row
    few = problem.k in dict(registry.brief(row, tier))
    long = problem.n > (VECTORS[problem.k > FEW_STEPS] - 1) * registry.lanes(row, tier)
    return few and long and problem.m * problem.n * row.itemsize >= LEAST_C


def beats_blocks(problem: Asked, tier: registry.Isa) -> bool:
    """Say whether one product is better off so than by gemm's blocks, whatever other rules say of its C.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import brief
    >>> from fastgemm.problem import Problem
    >>> [brief.beats_blocks(Problem("f32", 2000, 2000, 4, batch), registry.isa("v4")) for batch in (1, 10)]
    [True, False]
    """
    if problem.batch > 1 or "g" in problem.layout:
        return False
    bytes_c = problem.m * problem.n * problem.row.itemsize
    near = (problem.k <= FEW_STEPS and problem.layout[1] == "n") or bytes_c <= MOST_L2 * cpu.caches().l2
    return near and whole_rows(problem, tier)
