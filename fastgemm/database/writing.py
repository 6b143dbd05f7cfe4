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
import json
import os
import shutil
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import cpu as _cpu
from ..problem import Problem, Record
from .reading import SCHEMA, SHARED, contents, decode

try:
    import fcntl
except ImportError:  # no POSIX: the last of two simultaneous writers wins
    fcntl = None  # type: ignore[assignment]

DEFAULT_NAME = "tuning.json"
# The lock is held for milliseconds; whoever has it this long is stopped or stuck.
LOCK_SECONDS = 30.0


def write(
    path: Path | str,
    records: Iterable[Record],
    *,
    cpu: str | None = None,
    kernels: str | None = None,
    instead_of: Collection[Record] = (),
) -> int:
    """Merge records into a file; of two for the same problem that of the greater gain stays.

    Groups of other CPUs and kernel sets stay as they are.  Of a file with something that
    cannot be read, a copy named ``<name>.damaged`` is made first.

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
        For a record that would not be read back, or a file of a newer schema.
    OSError
        When the file cannot be written, or something other than a file has its place.

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
    >>> stored, again, found == [record], problems
    (1, 0, True, [])
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
    replaced = set(instead_of)
    with _locked(target):
        return sum(_merge(target, key, name, new, replaced) for name, new in groups.items())


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
    ValueError
        For a file of a newer schema.
    OSError
        When the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from fastgemm import database
    >>> from fastgemm.problem import Config, Problem, Record
    >>> record = Record(Problem("f32", 64, 64, 64), Config(mr=6, nr=16), 1e-5, 2e-5, kernels="abc")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = database.write(folder, [record])
    ...     database.remove(folder, [record]), database.remove(folder, [record])
    (1, 0)
    """
    key = _cpu.key() if cpu is None else cpu
    groups: dict[str, set[Record]] = {}
    for record in records:
        groups.setdefault(record.kernels, set()).add(record)
    target = _target(path)
    if not target.exists():
        return 0
    with _locked(target):
        return sum(_merge(target, key, name, [], unwanted, removing=True) for name, unwanted in groups.items())


def _target(path: Path | str) -> Path:
    # A link stays one: what it points to is replaced.
    target = Path(path).resolve()
    if target.is_dir():
        target /= DEFAULT_NAME
    if target.exists() and not target.is_file():
        raise OSError(f"{target} is not a regular file")
    return target


def _merge(
    target: Path, cpu: str, kernels: str, new: list[Record], replaced: set[Record], removing: bool = False
) -> int:
    """Bring one group up to date; return the number of records that changed."""
    old = contents(target, only=(cpu, kernels))
    best: dict[Problem, Record] = {}
    foreign: list[dict[str, Any]] = []
    if old is not None:
        if old.newer:
            raise ValueError(f"{target}: {old.problems[0]}")
        if old.problems:  # this raises where there is no permission to read
            shutil.copyfile(target, target.with_name(target.name + ".damaged"))
        for record in old.records:
            _keep(best, record)
        foreign = old.foreign
    before = len(best)
    if removing:
        best = {problem: record for problem, record in best.items() if record not in replaced}
    changed = before - len(best) + sum([_keep(best, record, replaced) for record in new])
    if changed or old is None or old.problems:
        _replace(target, _text(cpu, kernels, best, foreign))
    return changed


def _keep(best: dict[Problem, Record], record: Record, replaced: Collection[Record] = ()) -> bool:
    known = best.get(record.problem)
    if known is not None and (known == record or (known not in replaced and known.gain >= record.gain)):
        return False
    best[record.problem] = record
    return True


def _line(record: Record) -> str:
    return json.dumps({name: value for name, value in asdict(record).items() if name not in SHARED})


def _text(cpu: str, kernels: str, best: dict[Problem, Record], foreign: list[dict[str, Any]]) -> str:
    """Return the whole file, one record a line, so that a diff shows what changed."""

    def order(problem: Problem) -> tuple[object, ...]:
        return tuple(asdict(problem).values())

    own = [_line(best[problem]) for problem in sorted(best, key=order)]
    groups = [(cpu, kernels, own)]
    groups += [(other["cpu"], other["kernels"], _portable(other["records"])) for other in foreign]
    blocks = []
    for cpu_, kernels_, lines in sorted(groups):
        head = f'  {{"cpu": {json.dumps(cpu_)}, "kernels": {json.dumps(kernels_)}, "records": ['
        blocks.append(head + ("\n    " + ",\n    ".join(lines) + "\n  ]}" if lines else "]}"))
    return f'{{"schema": {SCHEMA}, "groups": [\n' + ",\n".join(blocks) + "\n]}\n"


def _portable(records: list[Any]) -> list[str]:
    # Unchecked, for a newer version may know fields that this one does not; but NaN and
    # Infinity are no JSON, and one of them would spoil the file for every other reader.
    lines = []
    for record in (record for record in records if type(record) is dict):
        with contextlib.suppress(ValueError, RecursionError):
            lines.append(json.dumps(record, allow_nan=False))
    return lines


def _replace(target: Path, text: str) -> None:
    # Under the lock nobody else has this name; what a killed writer left is overwritten.
    part = target.with_name(f".{target.name}.part" if fcntl else f".{target.name}.{os.getpid()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(part, flags, 0o666), "w", encoding="ascii") as file:
        with contextlib.suppress(FileNotFoundError, AttributeError):
            os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, target)
    # The new name is on the disk only when the folder is.
    with contextlib.suppress(OSError):
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextlib.contextmanager
def _locked(target: Path) -> Iterator[None]:
    """Hold the lock of a database file.

    The lock is a file of its own, because the database file is replaced, and it is never
    removed: a process may be waiting on it that would then hold a lock nobody else sees.
    """
    if fcntl is None:
        yield
        return
    lock = target.with_name(f".{target.name}.lock")
    with open(lock, "ab") as file:
        until = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise TimeoutError(f"{lock} has been locked by another process for {LOCK_SECONDS:.0f} s") from None
                time.sleep(0.01)
        try:
            yield
        finally:
            # Closing is not enough: a child forked meanwhile has the same open file.
            fcntl.flock(file, fcntl.LOCK_UN)
