"""Read a database file and check all of it; nothing that it contains raises.

The fields and their types are those of `Problem`, `Config` and `Record`; the bounds are
their constructors'; whether a configuration can run a problem is `Config.misfit`'s to say.
Nothing of that is repeated here, nor may it be: the schema beside the shipped files is
held against the same classes by a test.
"""

from __future__ import annotations

import errno
import functools
import json
import math
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from .. import registry
from ..problem import Record
from .files import regular

SCHEMA = 1
# Some 150,000 records.  Parsing takes several times the size in memory.
MAX_BYTES = 64 << 20
# No product takes less than a nanosecond or more than four months.
MIN_SECONDS, MAX_SECONDS = 1e-9, 1e7
MAX_TRIALS = 1 << 40
MAX_TEXT = 1000
# A warning is one line: a file may hold numbers of a thousand digits.
MAX_REASON = 200

# What belongs to a group rather than to each of its records.
SHARED = ("kernels",)
FILE_FIELDS = ("$schema", "schema", "groups")
GROUP_FIELDS = ("cpu", "kernels", "records")

_SPOKEN = {int: "an integer", float: "a number", str: "a string"}


class DatabaseWarning(UserWarning):
    """A tuning database file, or some of its records, cannot be used."""


class _Twice(dict[str, Any]):
    """An object with a key that occurs twice: readers of JSON differ on what that means."""


@dataclass
class Contents:
    """What a file holds.

    `records` passed every check, `malformed` were left out for `problems`, `others`
    belong to another CPU or kernel set.  `foreign` are the groups of those, as they stand.
    """

    records: list[Record] = field(default_factory=list)
    # The same by CPU key and kernel set; a group of the file may be there without a record.
    groups: dict[tuple[str, str], list[Record]] = field(default_factory=dict)
    malformed: int = 0
    others: int = 0
    problems: list[str] = field(default_factory=list)
    foreign: list[dict[str, Any]] = field(default_factory=list)
    # The number of a schema that this version does not know.
    newer: bool = False


def contents(path: Path, only: tuple[str | None, str | None] = (None, None)) -> Contents | None:
    """Read and check a file, whatever it is; None when there is none.

    Only the groups of the CPU key and the kernel set in `only` are checked record by
    record (None: any).
    """
    try:
        return readable(path, only)
    except OSError as error:
        return Contents(problems=[_short(error.strerror or str(error))])


def readable(path: Path, only: tuple[str | None, str | None] = (None, None)) -> Contents | None:
    """Do the same for who means to replace the file.

    Raises
    ------
    OSError
        Where it cannot be read, or not by this process: that says nothing of what it contains.
    """
    try:
        data = _bytes(path)
        return None if data is None else parse(data, only)
    except MemoryError:
        raise OSError(errno.ENOMEM, "not enough memory to read it", str(path)) from None
    except RecursionError:
        reason = "nested too deeply"
    except UnicodeDecodeError as error:
        reason = f"not UTF-8 text (byte {error.start})"
    except ValueError as error:
        reason = f"not JSON: {error}"
    return Contents(problems=[_short(reason)])


def too_large(size: int) -> str:
    """Say that a file of so many bytes is not read; "" for one that is."""
    return f"larger than {MAX_BYTES >> 20} MiB" if size > MAX_BYTES else ""


def _bytes(path: Path) -> bytes | None:
    data = regular(path, MAX_BYTES)
    if data is None:
        return None
    if not data.strip():
        raise ValueError("empty file")
    return data


def parse(data: bytes, only: tuple[str | None, str | None] = (None, None)) -> Contents:
    """Check the text of a file.  Raises ValueError or RecursionError when it is no JSON."""
    # Editors on Windows put a byte order mark before UTF-8; it carries nothing.
    top = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_object)
    found = Contents()
    try:
        _known(top, FILE_FIELDS, "the file")
        if type(top.get("schema")) is not int:
            raise TypeError("'schema' must be an integer")
        if top["schema"] != SCHEMA:
            found.newer = top["schema"] > SCHEMA
            raise ValueError(f"schema {top['schema']}; this version reads {SCHEMA}")
        groups = _typed(top, "groups", list)
    except (TypeError, ValueError) as error:
        found.problems.append(_short(str(error)))
        return found
    for at, group in enumerate(groups):
        try:
            _group(found, group, only)
        except (TypeError, ValueError) as error:
            found.problems.append(_short(f"groups[{at}]: {error}"))
    return found


def _group(found: Contents, group: Any, only: tuple[str | None, str | None]) -> None:
    _known(group, GROUP_FIELDS, "a group")
    names = cpu, kernels = _key(group, "cpu"), _key(group, "kernels")
    records = _typed(group, "records", list)
    if any(wanted is not None and wanted != name for wanted, name in zip(only, names, strict=True)):
        found.others += len(records)
        found.foreign.append(group)
        return
    group_records = found.groups.setdefault(names, [])
    for at, record in enumerate(records):
        try:
            made = decode(record, kernels)
            found.records.append(made)
            group_records.append(made)
        except (TypeError, ValueError) as error:
            found.malformed += 1
            found.problems.append(_short(f"record {at} for {cpu!r}: {error}"))


def _key(group: dict[str, Any], name: str) -> str:
    return bounded(repr(name), _typed(group, name, str))


def bounded(name: str, text: str) -> str:
    """Return a text of a file; ValueError when it is too long for one."""
    if len(text) > MAX_TEXT:
        raise ValueError(f"{name} is longer than {MAX_TEXT} characters")
    return text


def decode(data: Any, kernels: str) -> Record:
    """Make a record of its JSON object.  Raises TypeError or ValueError with the reason."""
    record: Record = build(Record, data, "record", kernels=kernels)
    for name in ("seconds", "baseline_seconds"):
        if not MIN_SECONDS <= getattr(record, name) <= MAX_SECONDS:
            raise ValueError(f"{name} must be between {MIN_SECONDS:g} and {MAX_SECONDS:g}, not {getattr(record, name)}")
    if not 0 <= record.trials <= MAX_TRIALS:
        raise ValueError(f"trials must be between 0 and {MAX_TRIALS}, not {record.trials}")
    if record.problem.dtype != record.problem.row.name:
        raise ValueError(f"dtype must be {record.problem.row.name!r}, not {record.problem.dtype!r}")
    registry.isa(record.config.isa)  # numpy's as well, which Config leaves alone
    reason = record.config.misfit(record.problem)
    if reason is not None:
        raise ValueError(reason)
    return record


@functools.cache
def _fields(kind: type) -> dict[str, tuple[type, bool]]:
    """Return the fields of a class that its JSON object has: their types, and whether they must be there."""
    hints = get_type_hints(kind)
    left_out = SHARED if kind is Record else ()
    return {f.name: (hints[f.name], f.default is MISSING) for f in fields(kind) if f.name not in left_out}


def build(kind: type, data: Any, where: str, **given: str) -> Any:
    """Make a dataclass of a JSON object, every field of which is checked.  Raises TypeError or ValueError."""
    expected = _fields(kind)
    _known(data, expected, where)
    values: dict[str, Any] = dict(given)
    for name, (type_, required) in expected.items():
        if name in data:
            value = data[name]
            values[name] = build(type_, value, name) if is_dataclass(type_) else _scalar(name, value, type_)
        elif required:
            raise ValueError(f"{where} lacks {name!r}")
    return kind(**values)


def _scalar(name: str, value: Any, type_: type[Any]) -> Any:
    # type() rather than isinstance: True is an int to Python and none to a reader.
    if type_ is float and type(value) in (int, float):
        if not -MAX_SECONDS <= value <= MAX_SECONDS:  # False for NaN; a huge int has no float
            raise ValueError(f"{name} must be finite and at most {MAX_SECONDS:g}, not {value}")
        return float(value)
    if type(value) is not type_:
        shown = f" ({value})" if isinstance(value, float) and not math.isfinite(value) else ""
        raise TypeError(f"{name} must be {_SPOKEN[type_]}, not {type(value).__name__}{shown}")
    return bounded(name, value) if type_ is str else value


def _known(data: Any, expected: Any, where: str) -> None:
    if isinstance(data, _Twice):
        raise ValueError(f"{where} has a key twice")
    if type(data) is not dict:
        raise TypeError(f"{where} must be an object, not {type(data).__name__}")
    for name in data:
        if name not in expected:
            raise ValueError(f"{where} has an unknown field {name!r}")


def _typed(data: dict[str, Any], name: str, type_: type) -> Any:
    value = data.get(name)
    if type(value) is not type_:
        raise TypeError(f"{name!r} must be {'a list' if type_ is list else 'a string'}, not {type(value).__name__}")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    return made if len(made) == len(pairs) else _Twice(made)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_REASON else line[: MAX_REASON - 3] + "..."
