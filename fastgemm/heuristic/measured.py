"""Rules that are measured, not thought out: tables of the way that is fastest for products of some sizes.

`half_narrow_rules` and `stacks_rules` are such tables, printed by `bench/few_columns.py` and `bench/stacks.py`; a way
is a family and the vectors that it uses, long ones or, on a CPU that computes those in two halves (`half_tier`),
short ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ..problem import Config

# What a problem is computed by; "" where other rules say so.
SHORT_DOTS, DOTS = "short-dots", "dots"
SHORT_BLOCKS, BLOCKS = "short-blocks", "blocks"
SHORT_SMALL, SMALL = "short-small", "small"
SHORT_GEMV, GEMV = "short-gemv", "gemv"
OF_SHORT_VECTORS = (SHORT_DOTS, SHORT_BLOCKS, SHORT_SMALL, SHORT_GEMV)
OF_DOTS, OF_SMALL, OF_GEMV = (SHORT_DOTS, DOTS), (SHORT_SMALL, SMALL), (SHORT_GEMV, GEMV)
NO_WAY = "others"  # in the tables, "" here


class Rule(NamedTuple):
    """Columns, rows and steps that a way is for; `paged`: only where rows of A lie whole halves of pages apart."""

    columns: range
    rows: range
    steps: range
    paged: bool
    way: str


class Forced:
    """A way that a benchmark gives all problems of a table, in one thread: None, where it gives none.

    Examples
    --------
    >>> from fastgemm.heuristic import measured
    >>> forced = measured.Forced()
    >>> with forced(measured.DOTS):
    ...     forced.way
    'dots'
    >>> forced.way is None
    True
    """

    def __init__(self) -> None:
        self.way: str | None = None

    @contextmanager
    def __call__(self, way: str) -> Iterator[None]:
        before, self.way = self.way, way
        try:
            yield
        finally:
            self.way = before


def computes(config: Config, way: str) -> bool:
    """Say whether a configuration is one of a way, by its family.

    Examples
    --------
    >>> from fastgemm.heuristic import measured
    >>> from fastgemm.problem import Config
    >>> measured.computes(Config("dots", "v3"), measured.SHORT_DOTS)
    True
    """
    if way in OF_DOTS:
        return config.family == "dots"
    if way in OF_SMALL:
        return config.family == "small"
    if way in OF_GEMV:
        return config.family == "gemv"
    return config.family not in ("dots", "small", "gemv")


def first(rules: Iterable[Rule], n: int, m: int, k: int, paged: bool = False) -> str:
    """Return the way of the first rule that fits, "" where none does.

    Examples
    --------
    >>> from fastgemm.heuristic import measured
    >>> rules = measured.parsed("i32 nt 2-3 16- 64-127 dots")["i32", "nt"]
    >>> measured.first(rules, 3, 20, 100), measured.first(rules, 4, 20, 100)
    ('dots', '')
    """
    fitting = (r.way for r in rules if n in r.columns and m in r.rows and k in r.steps and paged >= r.paged)
    return next(fitting, "")


def parsed(lines: str) -> dict[tuple[str, str], tuple[Rule, ...]]:
    """Return rules by type and layout, of lines as the tables have them.

    Examples
    --------
    >>> from fastgemm.heuristic import measured
    >>> measured.parsed("i32 nt 2-3 16- 64-127p dots 1.5 1.2 2.0")["i32", "nt"][0].columns
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
