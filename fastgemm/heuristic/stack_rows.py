"""Single rows by the matrices of a stack: points that are turned, states that are stepped, `np.matvec` and `np.vecmat`.

An item is a few multiply-adds, and what each family does around them decides: the first step of a loop, a mask, lanes
that are added up.  Which is the fastest depends on the type, the vectors, the way the matrices lie, and on both of
their sides.  The rules are measured, as those of `half_narrow` are: `stack_rows_rules.RULES` is what
`bench/stack_rows.py` prints, of each tier by itself, and of both where a CPU computes the longer vectors in two halves.
"""

from __future__ import annotations

from functools import cache

from .. import cpu, registry
from ..allowed import halved_bytes
from ..problem import Problem
from .half_narrow import Rule, forced_way, parsed
from .stack_rows_rules import RULES

LONGEST = 128  # columns and steps up to which there are rules
HALVED = "halved"  # in the rules: two tiers, of which one's ways are the short ones
# The part of L3 that the matrices fill at most; from beyond, memory is what all families wait for.
NEAR_L3 = 1 / 4


def way(problem: Problem, tier: registry.Isa) -> str:
    """Return what a problem is computed by, as `half_narrow.way` does; "" where other rules say so.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import stack_rows
    >>> from fastgemm.problem import Problem
    >>> stack_rows.way(Problem("f32", 2, 3, 3, batch=100), registry.isa("v3"))
    ''
    """
    if problem.m > 1 or problem.batch == 1:
        return ""
    found = forced_way()
    if found is not None:
        return found
    # (A row whose numbers lie apart has the letter t.)
    if max(problem.n, problem.k) > LONGEST or problem.layout not in ("nn", "nt"):
        return ""
    rules = _rules().get((registry.packing(problem.row), _letter(problem) + "-" + key(tier)), ())
    fitting = (rule.way for rule in rules if problem.n in rule.columns and problem.k in rule.steps)
    found = next(fitting, "")
    return found if found and problem.streamed <= NEAR_L3 * cpu.caches().l3 else ""


def key(tier: registry.Isa) -> str:
    """Return the name of a tier's rules.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import stack_rows
    >>> stack_rows.key(registry.isa("v2"))
    'v2'
    """
    longest = halved_bytes()
    return HALVED if longest and tier.vector_bytes in (longest, longest // 2) else tier.name


def _letter(problem: Problem) -> str:
    # A row, and a column, lie alike whatever the letter says.
    return "n" if 1 in (problem.n, problem.k) else problem.layout[1]


@cache
def _rules() -> dict[tuple[str, str], tuple[Rule, ...]]:
    return parsed(RULES)
