"""The tuning database: JSON files that say which configuration was best for a problem.

::

    tuning_db/*.json  (shipped)  ┐
                                 ├─ read and check ─▷ Database ─▷ exact(problem), near(problem)
    FASTGEMM_DB, or the user's   ┘
    data folder                  ◁─ write: lock, merge, replace ─  the tuner

reading.py checks a file, lookup.py finds records by problem, writing.py merges, files.py locks and replaces.

A file holds groups of records.  A group names the CPU key and the kernel set that it was
measured with, and only the groups of this CPU and this build are used, so one file can
serve several machines and survive an upgrade.

There are no records for a whole ISA tier.  What is confirmed on one CPU need not hold on another of the tier: blocks
follow cache sizes, packing the second-level cache, teams the number of cores, and a record is written only for a gain
that two processes confirmed, over the heuristic, which has just these numbers of the CPU at hand.

Files are data from outside.  Every field is checked before a record is used; what does
not pass is left out with one `DatabaseWarning` a file, and never stops a computation.
`load` keeps no state: whoever calls it keeps the result.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Collection
from pathlib import Path

from .. import cpu as _cpu
from ..problem import Record
from .lookup import Database, FileReport
from .reading import Contents, DatabaseWarning, contents
from .writing import DEFAULT_NAME, check_writable, merge, remove, write

__all__ = [
    "Database",
    "DatabaseWarning",
    "FileReport",
    "bundled_path",
    "check_writable",
    "files_of",
    "load",
    "merge",
    "named",
    "read",
    "read_groups",
    "remove",
    "user_path",
    "write",
]

SCHEMA_NAME = "schema.json"


def load(*, kernels: str, cpu: str | None = None, isas: Collection[str] | None = None) -> Database:
    """Read the shipped files, then the user's, and keep what fits this machine and build.

    Parameters
    ----------
    kernels : str
        Hash of the kernel set in use; records of another one are left out.
    cpu : str, optional
        CPU key; by default this machine's, `fastgemm.cpu.key`.
    isas : collection of str, optional
        Names of the ISA tiers that may run; by default all that this CPU has.  A file
        cannot make a kernel run that the CPU lacks.

    Returns
    -------
    Database

    Warns
    -----
    DatabaseWarning
        Once for each file with something that cannot be used, naming the file and the
        first reason.  Missing files, and records for other machines, are no reason.

    Examples
    --------
    >>> from fastgemm import database
    >>> len(database.load(kernels="no such kernel set"))
    0
    """
    key = _cpu.key() if cpu is None else cpu
    runnable = {tier.name for tier in _cpu.isas()} if isas is None else set(isas)
    found = Database()
    shipped, users = files_of(bundled_path()), _users_files()
    for override, path in [(False, path) for path in shipped] + [(True, path) for path in users]:
        report = _add(found, path, key, kernels, runnable, override)
        if report is not None:
            found.files.append(report)
    return found


def _add(
    found: Database, path: Path, key: str, kernels: str, runnable: Collection[str], override: bool
) -> FileReport | None:
    """Put a file's records into `found`; None for a file that does not exist."""
    read_from = contents(path, only=(key, kernels))
    if read_from is None:
        return None
    fit = [r for r in read_from.records if r.config.family == "numpy" or r.config.isa in runnable]
    other = read_from.others + len(read_from.records) - len(fit)
    found.add(fit, source=path, override=override)
    reason = f"{other} for another CPU, build or ISA" if other else ""
    if read_from.problems:
        reason = read_from.problems[0]
        left = f"{read_from.malformed} tuning record(s) skipped" if read_from.malformed else "tuning data skipped"
        # The caller's own line is out of reach: it is a product somewhere.
        warnings.warn(f"{path}: {left}: {reason}", DatabaseWarning, stacklevel=3)
    return FileReport(path, len(fit), other + read_from.malformed, reason)


def read(path: Path | str, *, cpu: str | None = None, kernels: str | None = None) -> tuple[list[Record], list[str]]:
    """Read one database file.

    Parameters
    ----------
    path : path
        The file; a missing one is empty.
    cpu, kernels : str, optional
        Keep only the records of this CPU key, or of this kernel set; all by default.

    Returns
    -------
    records : list of Record
        The records that pass every check.
    problems : list of str
        What was wrong with the rest; empty for a sound file.

    Examples
    --------
    >>> from fastgemm import database
    >>> database.read("no-such-file.json")
    ([], [])
    """
    read_from = contents(Path(path), only=(cpu, kernels)) or Contents()
    return read_from.records, read_from.problems


def read_groups(path: Path | str) -> tuple[dict[tuple[str, str], list[Record]], list[str]]:
    """Read all of a database file, whatever CPU and kernel set its records are for.

    Parameters
    ----------
    path : path
        The file; a missing one is empty.

    Returns
    -------
    groups : dict
        The records that pass every check, by CPU key and kernel set.
    problems : list of str
        What was wrong with the rest; empty for a sound file.

    Examples
    --------
    >>> from fastgemm import database
    >>> database.read_groups("no-such-file.json")
    ({}, [])
    """
    read_from = contents(Path(path)) or Contents()
    return read_from.groups, read_from.problems


def bundled_path() -> Path | None:
    """Return the folder of the shipped files: in the package, or beside it in a source tree; None without one.

    Examples
    --------
    >>> from fastgemm import database
    >>> folder = database.bundled_path()
    >>> folder is None or (folder / "schema.json").is_file()
    True
    """
    # Not by an import: the first of that name on the path may be another installation's.
    package = Path(__file__).parents[1]
    places = [package / "tuning_db"]
    if (package.parent / "pyproject.toml").is_file():  # a source tree, where nothing is copied into the package
        places.append(package.parent / "tuning_db")
    return next((place for place in places if (place / SCHEMA_NAME).is_file()), None)


def user_path() -> Path:
    """Return the user's database: ``FASTGEMM_DB``, or a file in the user's data folder.

    Of a folder, `load` reads every ``*.json`` and `write` writes ``tuning.json``.  Without a home (a container's user
    whom the system does not know) it is the null device, of which nothing is read: a folder named ``~`` would be the
    working directory's, and whoever owns that would decide what is computed.

    Examples
    --------
    >>> from fastgemm import database
    >>> database.user_path().name != ""
    True
    """
    text = os.environ.get("FASTGEMM_DB", "")
    if text:
        return named(text)
    folder = Path(_data_folder())
    return folder / "fastgemm" / DEFAULT_NAME if folder.is_absolute() else Path(os.devnull)


def _users_files() -> list[Path]:
    """Return the files of `user_path`: none where that is the default and its folder is closed to this user.

    Of a home that is another user's nobody has said that there is a database in it.
    """
    path = user_path()
    if not os.environ.get("FASTGEMM_DB"):
        try:
            os.stat(path)
        except PermissionError:
            return []
        except OSError:
            pass  # whatever it is, reading finds out
    return files_of(path)


def named(text: str | os.PathLike[str]) -> Path:
    """Return the database that a user means by a name; ``~`` is the home folder.

    Examples
    --------
    >>> from fastgemm import database
    >>> database.named("no-such-folder/").name, database.named("mine.json").name
    ('tuning.json', 'mine.json')
    """
    name = os.fspath(text)
    path = Path(os.path.expanduser(name))
    # A folder that is still to be made says so by its last character only.
    is_folder = name.endswith((os.sep, os.altsep or os.sep)) and not os.path.exists(path)
    return path / DEFAULT_NAME if is_folder else path


def _data_folder() -> str:
    # The same answers as platformdirs.user_data_dir, without the dependency.
    if sys.platform == "win32":
        return os.environ.get("LOCALAPPDATA") or os.path.expanduser(r"~\AppData\Local")
    named = os.environ.get("XDG_DATA_HOME", "")
    if os.path.isabs(named):  # the XDG specification says to ignore any other
        return named
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Application Support")
    return os.path.expanduser("~/.local/share")


def files_of(path: Path | None) -> list[Path]:
    """Return the database files that a path means: the file, or every ``*.json`` of the folder, in order of name.

    Examples
    --------
    >>> from pathlib import Path
    >>> from fastgemm import database
    >>> database.files_of(None), [path.name for path in database.files_of(Path("no-such-file.json"))]
    ([], ['no-such-file.json'])
    """
    if path is None or str(path) == os.devnull:  # FASTGEMM_DB=/dev/null: none, and no warning
        return []
    try:
        names = sorted(os.listdir(path))
    except (OSError, ValueError):
        return [path]  # a file, a missing one, or a folder that reading will complain about
    return [path / name for name in names if name.endswith(".json") and name != SCHEMA_NAME and name[0] != "."]
