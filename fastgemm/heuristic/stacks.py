"""Stacks of tiny products: points that are turned, states that are stepped, `np.matvec` and `np.vecmat`, R @ P @ R.mT.

An item is a few multiply-adds, and what each family does around them decides: the first step of a loop, a mask, lanes
that are added up, a copy of B.  Which is the fastest depends on the type, the vectors, the way the operands lie, and on
all of their sides.  The rules are measured (measured.py): `stacks_rules.RULES` is what
`bench/stacks.py` prints, of each tier by itself, and of both where a CPU computes the longer vectors in two halves.
"""

from __future__ import annotations

from functools import cache, lru_cache

from .. import cpu, registry
from ..allowed import halved_bytes
from ..problem import Problem
from .measured import OF_DOTS, SMALL, Forced, Rule, first, parsed
from .stacks_rules import RULES

# Columns and steps up to which there are rules for single rows by matrices, and sides for other products.
LONGEST, TINY = 128, 8
HALVED = "halved"  # in the rules: two tiers, of which one's ways are the short ones
# The part of L3 that the operands fill at most; from beyond, two of the ways are still worth it, and the others, which
# have fewer lines under way, may not be (single rows by short vectors of gemv's and small's 0.36 to 1.7 of the other
# rules).  So the best of all over these is, in the mean of 12 stacks of 28 MB, nt, f32 1.07, f64 1.04 (Zen 4, one
# thread, `bench/sweep.py --layout nt`, sizes as in bench/shapes/far_stacks.csv).
NEAR_L3, FAR_WAYS = 1 / 4, (*OF_DOTS, SMALL)

forced = Forced()


def way(problem: Problem, tier: registry.Isa) -> str:
    """Return what a problem is computed by, as `half_narrow.way` does, which it goes before; "" where other rules say.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import stacks
    >>> from fastgemm.problem import Problem
    >>> stacks.way(Problem("f32", 2, 3, 3), registry.isa("v3"))
    ''
    """
    if problem.batch == 1:
        return ""
    if forced.way is not None:
        return forced.way
    m, n, k = problem.m, problem.n, problem.k
    if max(n, k) > (LONGEST if m == 1 else TINY) or m > TINY:
        return ""
    found = _way(problem.dtype, _layout(problem), key(tier), m, n, k)
    return found if found in FAR_WAYS or problem.streamed <= NEAR_L3 * cpu.caches().l3 else ""


def key(tier: registry.Isa) -> str:
    """Return the name of a tier's rules.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import stacks
    >>> stacks.key(registry.isa("v2"))
    'v2'
    """
    longest = halved_bytes()
    return HALVED if longest and tier.vector_bytes in (longest, longest // 2) else tier.name


def _layout(problem: Problem) -> str:
    # Of single rows B's letter alone: there are no rules for those with gaps between their numbers, whose letter is t;
    # and a B of one row or column lies alike whatever its letter says.
    if problem.m > 1:
        return problem.layout
    if problem.layout[0] != "n":
        return ""
    return "n" if problem.layout[1] == "t" and 1 in (problem.n, problem.k) else problem.layout[1]


@lru_cache(maxsize=256)
def _way(name: str, layout: str, key: str, m: int, n: int, k: int) -> str:
    # (Asked by each family in turn.)
    rules = _rules().get((registry.packing(registry.dtype(name)), f"{layout}-{key}"), ())
    return first(rules, n, m, k)


@cache
def _rules() -> dict[tuple[str, str], tuple[Rule, ...]]:
    return parsed(RULES)
