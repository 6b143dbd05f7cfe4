"""Write records into a database file: take a lock, merge, replace the file at once.

A reader sees the old file or the new one, never a part; a writer that is killed leaves
the old one; writers in other processes wait for each other and lose nothing.

Which of two records stays, for one problem on one CPU with one kernel set?

    measured against each other    the new one (`instead_of` names what it was measured against)
    not so                         the one of the greater gain over the heuristic

Seconds of different runs are not compared: the machine's speed drifts by more than tuning gains, and the fastest of
many runs would stay for ever, however lucky.  Who measures a problem again measures the known configuration
too, and what comes of it holds, faster or slower.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .. import cpu as _cpu
from ..problem import Problem, Record
from .files import check_replaceable, locked, replace, resolved
from .reading import SCHEMA, SHARED, Contents, DatabaseWarning, bounded, decode, parse, readable, too_large

DEFAULT_NAME = "tuning.json"


def write(
    path: Path | str,
    records: Iterable[Record],
    *,
    cpu: str | None = None,
    kernels: str | None = None,
    instead_of: Collection[Record] = (),
) -> int:
    """Merge records into a file; of two for the same problem that of the greater gain stays.

    Groups of other CPUs and kernel sets stay as they are.  Of a file with something that is
    damaged, a copy named ``<name>.damaged`` (``.damaged.2`` and so on) is made first.

    Parameters
    ----------
    path : path
        The file, or a folder, where it is ``tuning.json``.  Made when missing.
    records : iterable of Record
        What to add; each is checked as if it were read from a file.
    cpu : str, optional
        CPU key that they were measured on; by default this machine's.
    kernels : str, optional
        Kernel set that they were measured with; by default each record's own.
    instead_of : collection of Record
        What the file held when the measurement began, and what was measured again in it: these make way for
        the new records whatever their gains.  A record that another process has put in their place does not.

    Returns
    -------
    int
        How many of the records are new to the file, or better than those in it.

    Raises
    ------
    TypeError, ValueError
        For a record that would not be read back, a file of a newer schema, or one that would be too large to be read.
    OSError
        When the file cannot be written, or be read at all (it is too large, for one), or something other than a file
        has its place.

    Warns
    -----
    DatabaseWarning
        When the file was damaged, naming the copy.

    Examples
    --------
    >>> import tempfile
    >>> from fastgemm import database
    >>> from fastgemm.problem import Config, Problem, Record
    >>> record = Record(Problem("f32", 64, 64, 64), Config(mr=6, nr=16), 1e-5, 2e-5, kernels="abc")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stored = database.write(folder, [record])
    ...     again = database.write(folder, [record])
    ...     found, problems = database.read(f"{folder}/tuning.json")
    ...     removed = database.remove(folder, found)
    >>> stored, again, found == [record], problems, removed
    (1, 0, True, [], 1)
    """
    key = _cpu.key() if cpu is None else cpu
    groups: dict[str, list[Record]] = {}
    for record in records:
        name = record.kernels if kernels is None else kernels
        if not name or not key:
            raise ValueError("a record needs the CPU key and the kernel set that it was measured with")
        groups.setdefault(name, []).append(decode(json.loads(_line(record)), name))
    target = _target(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    changes = [_Change(key, name, new, set(instead_of)) for name, new in groups.items()]
    return _apply(target, changes)


def merge(path: Path | str, groups: Mapping[tuple[str, str], Iterable[Record]]) -> int:
    """Merge the records of several CPUs and kernel sets into a file, all at once.

    Parameters
    ----------
    path : path
        The file, or a folder, where it is ``tuning.json``.  Made when missing.
    groups : mapping
        Records by CPU key and kernel set, as `read_groups` gives them.

    Returns
    -------
    int
        How many of the records are new to the file, or better than those in it.

    Raises
    ------
    TypeError, ValueError, OSError
        As `write` does.

    Warns
    -----
    DatabaseWarning
        As `write` does.

    Examples
    --------
    >>> import tempfile
    >>> from fastgemm import database
    >>> from fastgemm.problem import Config, Problem, Record
    >>> record = Record(Problem("f32", 64, 64, 64), Config(mr=6, nr=16), 1e-5, 2e-5, kernels="abc")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     database.merge(folder, {("a cpu", "abc"): [record], ("another", "abc"): [record]})
    2
    """
    changes = [
        _Change(cpu, kernels, [decode(json.loads(_line(record)), kernels) for record in records])
        for (cpu, kernels), records in groups.items()
    ]
    target = _target(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    return _apply(target, changes)


def remove(path: Path | str, records: Iterable[Record], *, cpu: str | None = None) -> int:
    """Take these very records out of a file; one that was replaced meanwhile stays.

    Parameters
    ----------
    path : path
        The file, or a folder, where it is ``tuning.json``.
    records : iterable of Record
        As they were read from it.
    cpu : str, optional
        CPU key that they are filed under; by default this machine's.

    Returns
    -------
    int
        How many were taken out.

    Raises
    ------
    ValueError, OSError
        As `write` does, for the file.

    Warns
    -----
    DatabaseWarning
        As `write` does.

    Examples
    --------
    >>> from fastgemm import database
    >>> database.remove("no-such-file.json", [])
    0
    """
    key = _cpu.key() if cpu is None else cpu
    groups: dict[str, set[Record]] = {}
    for record in records:
        groups.setdefault(record.kernels, set()).add(record)
    target = _target(path)
    if not target.exists():
        return 0
    return _apply(target, [_Change(key, name, [], unwanted, removing=True) for name, unwanted in groups.items()])


def check_writable(path: Path | str) -> None:
    """Raise what `write` would raise for a file, as far as that can be known beforehand.

    Parameters
    ----------
    path : path
        The file, or a folder, where it is ``tuning.json``.

    Raises
    ------
    ValueError, OSError
        As `write` does, for the file.

    Examples
    --------
    >>> from fastgemm import database
    >>> database.check_writable("no-such-folder/tuning.json")
    """
    target = _target(path)
    check_replaceable(target)
    _known(target, ("", ""))  # no record is checked
    if target.parent.exists():
        with locked(target):
            pass


def _target(path: Path | str) -> Path:
    # A link stays one: what it points to is replaced.
    target = resolved(path)
    return target / DEFAULT_NAME if target.is_dir() else target


def _known(target: Path, only: tuple[str, str]) -> Contents | None:
    """Read the file that is to be replaced; ValueError where it may not be."""
    found = readable(target, only)
    if found is not None and found.newer:
        raise ValueError(f"{target}: {found.problems[0]}")
    return found


@dataclass
class _Change:
    """What becomes of one group: records to merge, and which of the file's make way for them, or go altogether."""

    cpu: str
    kernels: str
    new: list[Record]
    replaced: set[Record] = field(default_factory=set)
    removing: bool = False

    def __post_init__(self) -> None:
        bounded("the CPU key", self.cpu)
        bounded("the kernel set", self.kernels)


def _apply(target: Path, changes: Sequence[_Change]) -> int:
    """Bring groups up to date under the lock, by one replacement of the file; return how many records changed."""
    text: str | None = None
    count = 0
    damage: list[str] = []
    copy: Path | None = None
    with locked(target):
        for change in changes:
            only = (change.cpu, change.kernels)
            old = _known(target, only) if text is None else parse(text.encode("ascii"), only)
            changed, after = _changed(old or Contents(), change)
            if changed or old is None or old.problems:
                text = after
            damage += old.problems if old else []
            count += changed
        if text is not None:
            check_size(target, text)
            copy = _set_aside(target) if damage else None
            replace(target, text)
    if copy:
        # Where warnings are errors the records are written all the same.
        warnings.warn(f"{target} was damaged: {damage[0]}; {copy} is a copy", DatabaseWarning, stacklevel=3)
    return count


def check_size(target: Path, text: str) -> None:
    """Raise ValueError where a file with this text, which is ASCII, would not be read."""
    if why := too_large(len(text)):
        raise ValueError(f"{target} would have {len(text) / 2**20:.0f} MiB, which is {why} and never read")


def _set_aside(target: Path) -> Path:
    """Copy a damaged file to a name of its own, for there may be copies of earlier damage; return the name."""
    import shutil  # 2 ms, and readers need none of it

    names = (f"{target.name}.damaged" + (f".{number}" if number > 1 else "") for number in itertools.count(1))
    copy = next(path for path in map(target.with_name, names) if not os.path.lexists(path))
    shutil.copyfile(target, copy)
    return copy


def _changed(old: Contents, change: _Change) -> tuple[int, str]:
    best: dict[Problem, Record] = {}
    for record in old.records:
        _keep(best, record)
    before = dict(best)
    if change.removing:
        best = {problem: record for problem, record in best.items() if record not in change.replaced}
    for record in change.new:
        _keep(best, record, change.replaced)
    count = len(before.keys() - best.keys()) + sum(before.get(problem) != best[problem] for problem in best)
    return count, _text(change.cpu, change.kernels, best, old.foreign)


def _keep(best: dict[Problem, Record], record: Record, replaced: Collection[Record] = ()) -> None:
    known = best.get(record.problem)
    if known is not None and (known == record or (known not in replaced and known.gain >= record.gain)):
        return
    best[record.problem] = record


def _line(record: Record) -> str:
    return json.dumps({name: value for name, value in asdict(record).items() if name not in SHARED})


def _text(cpu: str, kernels: str, best: dict[Problem, Record], foreign: list[dict[str, Any]]) -> str:
    """Return the whole file, one record a line, so that a diff shows what changed."""

    groups = [(cpu, kernels, _lines(best.values()))]
    groups += [(other["cpu"], other["kernels"], _portable(other["records"])) for other in foreign]
    return _document(groups)


def text_of(groups: Mapping[tuple[str, str], Iterable[Record]]) -> str:
    """Return the text of a database file that holds these records, by CPU key and kernel set."""
    return _document([(cpu, kernels, _lines(records)) for (cpu, kernels), records in groups.items()])


def _lines(records: Iterable[Record]) -> list[str]:
    def order(record: Record) -> tuple[object, ...]:
        return tuple(asdict(record.problem).values())

    return [_line(record) for record in sorted(records, key=order)]


def _document(groups: list[tuple[str, str, list[str]]]) -> str:
    blocks = []
    for cpu, kernels, lines in sorted(group for group in groups if group[2]):
        head = f'  {{"cpu": {json.dumps(cpu)}, "kernels": {json.dumps(kernels)}, "records": ['
        blocks.append(head + "\n    " + ",\n    ".join(lines) + "\n  ]}")
    return f'{{"schema": {SCHEMA}, "groups": [\n' + ",\n".join(blocks) + "\n]}\n"


def _portable(records: list[Any]) -> list[str]:
    # Unchecked, for a newer version may know fields that this one does not; but NaN and
    # Infinity are no JSON, and one of them would spoil the file for every other reader.
    lines = []
    for record in (record for record in records if type(record) is dict):
        with contextlib.suppress(ValueError, RecursionError):
            lines.append(json.dumps(record, allow_nan=False))
    return lines
