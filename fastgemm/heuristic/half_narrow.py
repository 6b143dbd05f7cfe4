"""Products of few columns, on a CPU that computes its longest vectors in two halves (`half_tier`).

Which family and which vectors are the fastest depends there on the type and on all of m, n and k: small's kernels,
which have many rows of A in a vector, are slowest where these lie whole pages apart and share one set of L1; dot
products of short vectors have less to add up; an output as wide as a short vector leaves half a long one empty.  The
rules are measured, not thought out: `half_narrow_rules.RULES` is what `bench/few_columns.py` prints.
"""

from __future__ import annotations

from functools import cache

from .. import cpu, registry
from ..allowed import halved_bytes
from ..problem import Problem
from .half_narrow_rules import RULES
from .measured import (
    BLOCKS,
    DOTS,
    OF_DOTS,
    SHORT_BLOCKS,
    SHORT_DOTS,
    SHORT_SMALL,
    SMALL,
    Forced,
    Rule,
    first,
    parsed,
)
from .ways import DOT_TURNED

WAYS = (SHORT_DOTS, DOTS, SHORT_BLOCKS, BLOCKS, SHORT_SMALL, SMALL)
COLUMNS = range(2, 13)
HALF_PAGE = 2048  # bytes, of which rows of A that lie apart by a multiple meet in L1
# The part of L3 from which A is beyond the caches: there the short vectors of `half_tier` are the better ones for short
# rows, and the rules for memory for long ones (dot products times those, f32 8000 x 6 x 512, of 16 MB, 0.64, 12000 x 5
# x 300 0.37, f64 6000 x 6 x 400 0.73; of 11 MB 1.8, 1.5, 1.2).
FAR_L3, THIN_ROW = 3 / 8, 2048


forced = Forced()


def way(problem: Problem) -> str:
    """Return what a problem is computed by.

    Examples
    --------
    >>> from fastgemm.heuristic import half_narrow
    >>> from fastgemm.problem import Problem
    >>> half_narrow.way(Problem("f32", 512, 512, 512))
    ''
    """
    if forced.way is not None:
        return forced.way
    if problem.n not in COLUMNS or not halved_bytes():
        return ""
    row = problem.row
    row_a = problem.k * row.stored_bytes * row.parts
    paged = row_a % HALF_PAGE == 0
    rules = _rules().get((registry.packing(row), problem.layout), ())
    found = first(rules, problem.n, problem.m, problem.k, paged)
    far = problem.batch * problem.m * row_a >= FAR_L3 * cpu.caches().l3
    if found == BLOCKS:
        return "" if far and row_a <= THIN_ROW else found
    # Adjacent columns are turned over before dot products, no more than rows, and up to so many bytes; and an A from L3
    # or memory is not fetched ahead.
    turned = found in OF_DOTS and problem.layout == "nn"
    return "" if far or (turned and (problem.n > problem.m or problem.n * row_a > DOT_TURNED)) else found


@cache
def _rules() -> dict[tuple[str, str], tuple[Rule, ...]]:
    return parsed(RULES)
