"""Products of few columns, on a CPU that computes its longest vectors in two halves (`half_tier`).

Which family and which vectors are the fastest depends there on the type and on all of m, n and k: small's kernels,
which have many rows of A in a vector, are slowest where these lie whole pages apart and share one set of L1; dot
products of short vectors have less to add up; an output as wide as a short vector leaves half a long one empty.  The
rules are measured, not thought out: `half_narrow_rules.RULES` is what `bench/few_columns.py` prints.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

from .. import cpu, registry
from ..allowed import halved_bytes
from ..problem import Config, Problem
from .half_narrow_rules import RULES
from .ways import DOT_TURNED

# What a problem is computed by; "" where other rules say so.
SHORT_DOTS, DOTS = "short-dots", "dots"
SHORT_BLOCKS, BLOCKS = "short-blocks", "blocks"
SHORT_SMALL, SMALL = "short-small", "small"
SHORT_GEMV, GEMV = "short-gemv", "gemv"  # of single rows alone (`stacks`)
WAYS = (SHORT_DOTS, DOTS, SHORT_BLOCKS, BLOCKS, SHORT_SMALL, SMALL)
OF_SHORT_VECTORS = (SHORT_DOTS, SHORT_BLOCKS, SHORT_SMALL, SHORT_GEMV)
OF_DOTS, OF_SMALL, OF_GEMV = (SHORT_DOTS, DOTS), (SHORT_SMALL, SMALL), (SHORT_GEMV, GEMV)
NO_WAY = "others"  # in the rules, "" here

COLUMNS = range(2, 13)
HALF_PAGE = 2048  # bytes, of which rows of A that lie apart by a multiple meet in L1
# The part of L3 from which A is beyond the caches: there the short vectors of `half_tier` are the better ones for short
# rows, and the rules for memory for long ones (dot products times those, f32 8000 x 6 x 512, of 16 MB, 0.64, 12000 x 5
# x 300 0.37, f64 6000 x 6 x 400 0.73; of 11 MB 1.8, 1.5, 1.2).
FAR_L3, THIN_ROW = 3 / 8, 2048


class Rule(NamedTuple):
    """Columns, rows and steps that a way is for; `paged`: only where rows of A lie whole halves of pages apart."""

    columns: range
    rows: range
    steps: range
    paged: bool
    way: str


def way(problem: Problem) -> str:
    """Return what a problem is computed by.

    Examples
    --------
    >>> from fastgemm.heuristic import half_narrow
    >>> from fastgemm.problem import Problem
    >>> half_narrow.way(Problem("f32", 512, 512, 512))
    ''
    """
    if _forced is not None:
        return _forced
    if problem.n not in COLUMNS or not halved_bytes():
        return ""
    row = problem.row
    row_a = problem.k * row.stored_bytes * row.parts
    paged = row_a % HALF_PAGE == 0
    fitting = (
        rule.way
        for rule in _rules().get((registry.packing(row), problem.layout), ())
        if problem.n in rule.columns and problem.m in rule.rows and problem.k in rule.steps and paged >= rule.paged
    )
    found = next(fitting, "")
    far = problem.batch * problem.m * row_a >= FAR_L3 * cpu.caches().l3
    if found == BLOCKS:
        return "" if far and row_a <= THIN_ROW else found
    # Adjacent columns are turned over before dot products, no more than rows, and up to so many bytes; and an A from L3
    # or memory is not fetched ahead.
    turned = found in OF_DOTS and problem.layout == "nn"
    return "" if far or (turned and (problem.n > problem.m or problem.n * row_a > DOT_TURNED)) else found


def computes(config: Config, way: str) -> bool:
    """Say whether a configuration is one of a way, by its family.

    Examples
    --------
    >>> from fastgemm.heuristic import half_narrow
    >>> from fastgemm.problem import Config
    >>> half_narrow.computes(Config("dots", "v3"), half_narrow.SHORT_DOTS)
    True
    """
    if way in OF_DOTS:
        return config.family == "dots"
    if way in OF_SMALL:
        return config.family == "small"
    if way in OF_GEMV:
        return config.family == "gemv"
    return config.family not in ("dots", "small", "gemv")


@contextmanager
def forced(way: str) -> Iterator[None]:
    """Give every problem one way, "" that of the other rules: to measure what ways are worth, in one thread."""
    global _forced
    before, _forced = _forced, way
    try:
        yield
    finally:
        _forced = before


_forced: str | None = None


@cache
def _rules() -> dict[tuple[str, str], tuple[Rule, ...]]:
    return parsed(RULES)


def parsed(lines: str) -> dict[tuple[str, str], tuple[Rule, ...]]:
    """Return rules by type and layout, of lines as `half_narrow_rules` has them.

    Examples
    --------
    >>> from fastgemm.heuristic import half_narrow
    >>> half_narrow.parsed("i32 nt 2-3 16- 64-127p dots 1.5 1.2 2.0")["i32", "nt"][0].columns
    range(2, 4)
    """
    found: dict[tuple[str, str], tuple[Rule, ...]] = {}
    for line in lines.strip().splitlines():
        name, layout, columns, rows, steps, way, *_ = line.split()
        sides = _side(columns), _side(rows), _side(steps.rstrip("p"))
        rule = Rule(*sides, steps[-1] == "p", "" if way == NO_WAY else way)
        found[name, layout] = (*found.get((name, layout), ()), rule)
    return found


def _side(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last) + 1 if last else 1 << 62)
