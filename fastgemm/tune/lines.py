"""Files of JSON objects, one a line, that several processes append to and a killed one may leave half a line in.

A line is appended in one write under the lock of the file, because now and then somebody cuts the file down and
replaces it; what was half-written before stands on a line of its own, which reading leaves out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ..database.files import check_replaceable, locked, regular, replace

Made = TypeVar("Made")

# Larger files are not read: what this package writes stays below.
MAX_FILE = 64 << 20


def append(path: Path, objects: Iterable[Mapping[str, Any]], most: int = MAX_FILE, sync: bool = True) -> None:
    """Add a line for each object, all in one write.

    Parameters
    ----------
    path : Path
        The file; made when missing.
    objects : iterable of mapping
        What is written; NaN is no JSON and raises ValueError.
    most : int
        A file that would be larger in bytes loses the older half of its lines first.
    sync : bool
        Wait until the disk has it, for what a crash of the machine must not lose.

    Examples
    --------
    >>> append(Path("notes.jsonl"), [{"a": 1}, {"a": 2}])
    >>> read(Path("notes.jsonl"), lambda fields: fields["a"])
    ([1, 2], [])
    """
    text = "".join(json.dumps(fields, allow_nan=False) + "\n" for fields in objects)
    path.parent.mkdir(parents=True, exist_ok=True)
    check_replaceable(path)  # opening a pipe would wait for somebody to read
    with locked(path):
        if path.exists() and path.stat().st_size + len(text) > most:
            _cut(path, max(0, min(most // 2, most - len(text))))
        with open(path, "a+b") as file:
            # What a killed run left unfinished must not swallow this line too.
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
                text = text if file.read(1) == b"\n" else "\n" + text
            file.write(text.encode("ascii"))
            file.flush()
            if sync:
                os.fsync(file.fileno())


def beside(database: Path, kind: str) -> Path:
    """Path of a file that belongs to a database file.

    Examples
    --------
    >>> beside(Path("data/tuning.json"), "log").name
    'tuning.log.jsonl'
    """
    return database.with_name(f"{database.name.removesuffix('.json')}.{kind}.jsonl")


def read(path: Path, made: Callable[[Any], Made]) -> tuple[list[Made], list[str]]:
    """Return what the lines are made into, in order, and what was wrong with those that are left out.

    Parameters
    ----------
    path : Path
        The file; a missing one is empty.
    made : function
        Turns a parsed line into a value; ValueError, TypeError or OverflowError where it is none.
    """
    values: list[Made] = []
    left_out: list[str] = []
    try:
        text = _text(path)
    except OSError as error:
        return [], [f"{path}: {error.strerror or error}"]
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            values.append(made(json.loads(line)))
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            left_out.append(f"{path}, line {number}: {str(error)[:200]}")
    return values, left_out


def rewrite(path: Path, wanted: Callable[[Any], bool], dry_run: bool = False) -> tuple[int, int]:
    """Keep the wanted lines of a file; return how many went and how many there were, damaged ones included.

    `wanted` raises as the function given to `read` does for a line that is none, which goes too.
    """
    with locked(path):
        lines = [line for line in _text(path).split("\n") if line.strip()]
        kept = [line for line in lines if _holds(line, wanted)]
        if len(kept) < len(lines) and not dry_run:
            replace(path, "".join(line + "\n" for line in kept))
    return len(lines) - len(kept), len(lines)


def _text(path: Path) -> str:
    return (regular(path, MAX_FILE) or b"").decode("utf-8", "replace")


def _holds(line: str, wanted: Callable[[Any], bool]) -> bool:
    try:
        return line.isascii() and wanted(json.loads(line))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return False


def _cut(path: Path, size: int) -> None:
    """Cut a file down to the newest lines that so many bytes hold; the lock is held."""
    with open(path, "rb") as file:
        # From one byte before, so that a line that begins there is whole.
        start = max(0, file.seek(0, os.SEEK_END) - size - 1)
        file.seek(start)
        newest = file.read()
    if start:
        newest = newest.partition(b"\n")[2]
    replace(path, newest.decode("ascii", "replace").encode("ascii", "replace").decode("ascii"))
