"""The loaded database: records by problem, and the nearest record to a problem."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from .. import registry
from ..problem import PACKED, Config, Problem, Record

# A dimension of a near record is within NEAR_NUM / NEAR_DEN of the problem's.
NEAR_NUM, NEAR_DEN = 5, 4


class FileReport(NamedTuple):
    """What became of a database file: records used and skipped, and the first reason."""

    path: Path
    used: int
    skipped: int
    reason: str


_Kind = tuple[str, str, int, bool, str]
_Row = tuple[int, int, int, int, Problem]


def _kind(problem: Problem) -> _Kind:
    """Return what a near record must share with a problem."""
    return problem.dtype, problem.layout, problem.threads, problem.batch > 1, problem.epilogue


class Database:
    """Tuning records that may be used on this CPU with these kernels.

    Made by `fastgemm.database.load`.  Adding records is for the loader; afterwards
    look-ups only read, from as many threads as there are.

    Attributes
    ----------
    files : list of FileReport
        The files that were read, in order.

    Examples
    --------
    >>> from fastgemm.database import Database
    >>> from fastgemm.problem import Config, Problem, Record
    >>> db = Database()
    >>> tuned = Problem("f32", 512, 512, 512)
    >>> db.add([Record(tuned, Config(mr=6, nr=16), seconds=1e-3, baseline_seconds=2e-3)])
    >>> db.exact(tuned).seconds
    0.001
    >>> db.near(Problem("f32", 500, 512, 600)).problem.m
    512
    >>> db.near(Problem("f32", 500, 512, 1000)) is None
    True
    """

    def __init__(self) -> None:
        self.files: list[FileReport] = []
        self._records: dict[Problem, Record] = {}
        self._sources: dict[Problem, Path | None] = {}
        self._user: set[Problem] = set()
        # By kind: rows (m, n, k, batch, problem), ascending, so that a bisection on m
        # leaves only candidates that are near in one dimension already.
        self._index: dict[_Kind, list[_Row]] = {}
        self._packed: list[Problem] = []

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records.values())

    def add(self, records: Iterable[Record], *, source: Path | None = None, override: bool = False) -> None:
        """Take records in: the user's (`override`) before shipped ones, then that of the greater gain."""
        for record in records:
            problem = record.problem
            known = self._records.get(problem)
            if known is not None and not self._better(record, known, override):
                continue
            self._records[problem] = record
            self._sources[problem] = source
            if override:
                self._user.add(problem)
        self._index = self._indexed()
        self._packed = [p for p in self._records if p.layout[1] == PACKED]

    def _better(self, new: Record, known: Record, override: bool) -> bool:
        known_is_users = known.problem in self._user
        return new.gain > known.gain if override == known_is_users else override

    def _indexed(self) -> dict[_Kind, list[_Row]]:
        index: dict[_Kind, list[_Row]] = {}
        for p, record in self._records.items():
            if record.config.special:
                continue  # nothing but its own kernel was found for it, and that is for no other shape
            index.setdefault(_kind(p), []).append((p.m, p.n, p.k, p.batch, p))
        for rows in index.values():
            rows.sort(key=lambda row: row[:4])
        return index

    def exact(self, problem: Problem) -> Record | None:
        """Return the record of this very problem."""
        return self._records.get(problem)

    def packed(self, problem: Problem) -> list[Record]:
        """Return the records for a packed B of a problem's sizes, and of a type that is packed as its own is."""
        packing = registry.packing(problem.row)
        return [
            self._records[p]
            for p in self._packed
            if (p.m, p.n, p.k) == (problem.m, problem.n, problem.k) and registry.packing(p.row) == packing
        ]

    def near(self, problem: Problem, reads: Callable[[Config], bool] | None = None) -> Record | None:
        """Return the record of the nearest problem whose configuration fits this one.

        Near means the same dtype, layout, threads and epilogue, both stacks or neither, and each
        of m, n, k and batch within a factor of 1.25.  The nearest has the smallest sum
        of the ratios' logarithms.  `reads` says which configurations read what is packed already.
        """
        rows = self._index.get(_kind(problem), [])
        first = bisect.bisect_left(rows, -(-problem.m * NEAR_DEN // NEAR_NUM), key=_rows_m)
        last = bisect.bisect_right(rows, problem.m * NEAR_NUM // NEAR_DEN, lo=first, key=_rows_m)
        best: Record | None = None
        least = math.inf
        for m, n, k, batch, known in rows[first:last]:
            if not (_close(n, problem.n) and _close(k, problem.k) and _close(batch, problem.batch)):
                continue
            ratios = (m / problem.m, n / problem.n, k / problem.k, batch / problem.batch)
            distance = sum(abs(math.log2(ratio)) for ratio in ratios)
            config = self._records[known].config
            if distance < least and config.misfit(problem) is None and (reads is None or reads(config)):
                best, least = self._records[known], distance
        return best

    def source(self, record: Record) -> Path | None:
        """Return the file that a record came from."""
        return self._sources.get(record.problem)


def _rows_m(row: _Row) -> int:
    return row[0]


def _close(a: int, b: int) -> bool:
    # In integers: the factor's bounds belong to it, whatever the size.
    return a * NEAR_DEN <= b * NEAR_NUM and b * NEAR_DEN <= a * NEAR_NUM
