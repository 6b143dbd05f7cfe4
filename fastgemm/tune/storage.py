"""Optuna's storages: a study of a problem that goes on in other processes, on other machines, on another day.

A study belongs to a problem on a CPU key with a kernel set and a space, so machines of one kind that share a storage
learn from each other, and different ones keep apart.  What a study knows saves trials, not the final: the best of
it is measured again by whoever goes on with it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import TypeVar

import optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend

from .. import cpu, kernels
from .space import Space
from .strategies import StorageError
from .words import name

# Several processes that open a new SQLite file at once fail now and then while its tables are made.
ATTEMPTS = 6
PASSING = ("OperationalError", "IntegrityError", "DuplicatedStudyError", "StorageInternalError")

Made = TypeVar("Made")


def location(text: str) -> str:
    """Return the URL of a storage: a file's is told by how its name ends.

    Examples
    --------
    >>> location("studies.db"), location("/data/studies.log")
    ('sqlite:///studies.db', 'journal:///data/studies.log')
    >>> location("postgresql://host/studies")
    'postgresql://host/studies'
    """
    if "://" in text:
        return text
    if Path(text).suffix in (".db", ".sqlite", ".sqlite3"):
        return f"sqlite:///{text}"
    if Path(text).suffix in (".log", ".journal"):
        return f"journal://{text}"
    raise StorageError(f"{text!r} is neither a URL nor a file ending in .log (journal) or .db (SQLite)")


def opened(text: str) -> BaseStorage:
    """Open a storage, making it when it is new.

    Raises
    ------
    StorageError
        If it cannot be opened.
    """
    url = location(text)
    if url.startswith("journal://"):
        path = Path(url.removeprefix("journal://"))
        if not path.parent.is_dir():
            raise StorageError(f"{path.parent}: no such folder")
        try:
            return JournalStorage(JournalFileBackend(str(path)))
        except OSError as error:
            raise StorageError(f"{path}: {error.strerror or error}") from None
        except Exception as error:  # replaying lines that Optuna did not write fails in a way of their own
            raise StorageError(f"{path}: no journal of Optuna ({type(error).__name__}: {_reason(error)})") from None
    return _patiently(lambda: RDBStorage(url), url)


def study(storage: BaseStorage, space: Space, sampler: optuna.samplers.BaseSampler) -> optuna.Study:
    """Return the study of a space's problem on this kind of machine, as far as anybody has come with it."""
    # The values of a coordinate are known by their numbers, so another space must be another study.
    shape = hashlib.sha256(repr([tuple(map(repr, v)) for v in space.values.values()]).encode()).hexdigest()[:8]
    parts = (name(space.problem), cpu.key(), kernels.kernel_hash(), shape, *map(str, astuple(space.start)))
    title = f"{parts[0]} on {parts[1]} " + hashlib.sha256(repr(parts).encode()).hexdigest()[:12]
    return _patiently(
        lambda: optuna.create_study(storage=storage, study_name=title, sampler=sampler, load_if_exists=True), title
    )


def _patiently(make: Callable[[], Made], what: str) -> Made:
    for attempt in range(ATTEMPTS):
        try:
            return make()
        except Exception as error:  # the errors of SQLAlchemy, and of the driver under it, have no common base
            if attempt + 1 == ATTEMPTS or type(error).__name__ not in PASSING:
                raise StorageError(f"{what}: {_reason(error)}") from None
            time.sleep(0.05 * 2**attempt)
    raise AssertionError("unreachable")


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200]
