"""Whether numbers are converted as small's kernels load them, or packed for gemm's: what costs less.

Sums that are fitted to order the two ways, not to tell time: `bench/conversions.py` times both, and prints such.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from .. import registry
from ..problem import Problem


class Converting(NamedTuple):
    """What small's kernels pay, which convert operands as they load them, over what gemm's pay, which pack them.

    For each vector of C and step, each vector of C, each number of A and each of B, in percent of what gemm's pay
    before they begin; and up to how many steps that was measured, where more are another matter.
    """

    step: float
    vector: float
    number_a: float
    number_b: float
    steps: float = inf


STEPS = 256
# By type and layout; where vectors of 16 and of 32 registers are unlike, by those.  A type and layout that is missing
# here has rules of its own.  (Zen 4, AVX-512 and AVX2, one thread, fitted to 840 to 900 products of each, 2 to 500
# rows, 2 to 200 columns, 1 to 256 steps: what the rules chose took so many times the better of both in the mean,
# AVX-512, AVX2, and takes then: i8 nt 1.88 1.89, 1.00 1.00, tn 1.03 1.09, 1.00 1.00, tt 1.98 1.99, 1.00 1.00; bool 2.18
# 1.75, 1.00 1.00, tn 1.09 1.06, 1.00 1.00, tt 2.46 1.90, 1.00 1.00; bf16 nt 1.17 1.21, 1.02 1.03, tn 1.11 1.06, 1.02
# 1.06, tt 1.31 1.41, 1.02 1.10; i8_i32 nt 1.27 1.28, 1.02 1.04, tn 1.13 1.26, 1.05 1.12, tt 1.48 1.41, 1.02 1.06.  What
# it gained: `bench/builds.py`, bench/shapes/converted.csv.)
# f16 and nn of i8 and bool were fitted again, single products and stacks.  (`bench/conversions.py --seed 1 --products
# 240`, which were not fitted, before and now, AVX-512, AVX2: f16 nn 1.019 1.015, 1.006 1.004, nt 1.023 1.035, 1.003
# 1.000, tn 1.064 1.238, 1.014 1.000, tt 1.053 1.109, 1.012 1.001, i8 nn 1.027 1.030, 1.003 1.003, bool nn 1.033 1.023,
# 1.009 1.018.)
CONVERTING: dict[tuple[str | int, ...], Converting] = {
    ("i8", "nn"): Converting(0.158, -3.5, 0.03, -0.055), ("bool", "nn"): Converting(0.025, -0.4, 0, -0.007),
    ("i8", "nt"): Converting(0.48, -7.8, 0, 0.01), ("i8", "tn"): Converting(0.1, -2.7, -0.49, -0.04),
    ("i8", "tt"): Converting(0.06, -1.4, -0.27, -0.01), ("bool", "nt"): Converting(0.32, -5.7, 0, -0.16),
    ("bool", "tn"): Converting(0.04, -0.5, -0.15, -0.01), ("bool", "tt"): Converting(0.04, -0.5, -0.15, -0.01),
    ("f16", "nn", 16): Converting(0.027, -1.1, 0.01, -0.045),
    ("f16", "nn", 32): Converting(0.279, -14.3, 0.2, -0.341),
    ("f16", "nt"): Converting(0.525, -17.2, 0.17, 0.014),
    ("f16", "tn", 16): Converting(0.029, -1.2, -0.21, -0.044),
    ("f16", "tn", 32): Converting(0.106, -14.5, 0.03, -0.139),
    ("f16", "tt", 16): Converting(0.02, -8.5, -0.09, 0.001), ("f16", "tt", 32): Converting(0.008, -2, 0.02, 0),
    ("bf16", "nt"): Converting(0.2, 0, 0, 0.6, STEPS), ("bf16", "tn"): Converting(0.17, 0, -0.1, 0, STEPS),
    ("bf16", "tt"): Converting(0.1, 0, -0.05, 0.2, STEPS), ("i8_i32", "nt"): Converting(0.9, -4, 0, 0.4, STEPS),
    ("i8_i32", "tn"): Converting(0, 0, 0, 0.39, STEPS), ("i8_i32", "tt"): Converting(0, 0, 0, 0.2, STEPS),
}  # fmt: skip
BEFORE = 100
# In stacks of those that have dot products gemm's begin an item with less, by layouts (i8_i32 32 x 3 x 8 (100) nt 0.65,
# bf16 0.81, 32 x 32 x 2 (100) nt 0.82, 32 x 32 x 8 (100) tt 0.77, 32 x 3 x 40 (100) tt 0.85).
BEFORE_ITEM = {"nt": 45, "tt": 60}


def converts_for_less(problem: Problem, tier: registry.Isa, dots: bool = False) -> bool | None:
    """Say whether small's kernels, which convert operands as they load them, are better than gemm's, which pack them.

    None where other rules say.  `dots` says that the CPU has dot products for the type, in a family of their own.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import conversions
    >>> from fastgemm.problem import Problem
    >>> few, many = Problem("bool", 4, 3, 40, layout="tt"), Problem("bool", 400, 300, 400, layout="tt")
    >>> [conversions.converts_for_less(problem, registry.isa("v3")) for problem in (few, many)]
    [True, False]
    """
    row, m, k = problem.row, problem.m, problem.k
    # (Results of another type are converted alike.)
    kind = (registry.packing(row), problem.layout)
    found = CONVERTING.get(kind) or CONVERTING.get((*kind, tier.registers))
    if found is None or k > found.steps:
        return None
    vectors = m * -(-problem.n // registry.lanes(row, tier))
    more = vectors * (k * found.step + found.vector) + m * k * found.number_a + problem.n * k * found.number_b
    return more < (BEFORE_ITEM.get(problem.layout, BEFORE) if dots and problem.batch > 1 else BEFORE)
