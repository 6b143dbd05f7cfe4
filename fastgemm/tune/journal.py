"""The journal: one line for each problem that a tuning run finished, beside the database.

The database holds confirmed gains only, so it cannot tell a problem that was tuned in
vain from one that never was; the journal can, and ``--resume`` reads it.  A line is a JSON
object and is appended at once: a run that is killed loses nothing that it finished, and
at worst leaves half a line, which reading skips.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..database.reading import MAX_SECONDS, MAX_TRIALS, MIN_SECONDS
from ..problem import Config, Problem
from . import lines
from .shapes import from_fields

SCHEMA = 1
STATUSES = ("confirmed", "rejected", "failed")

SEARCH = "search"
# Options of the command that do not search, and stand in the journal in place of a strategy.
SEARCHLESS = ("specialize", "renew")


@dataclass(frozen=True, slots=True)
class Entry:
    """A finished problem.

    Parameters
    ----------
    problem : Problem
        What was tuned.
    status : str
        ``confirmed``: a record was written; ``rejected``: no candidate beat the heuristic's
        configuration; ``failed``: that one could not be timed.
    config : Config
        The best that was found; the heuristic's own where nothing was.
    seconds, baseline_seconds, numpy_seconds : float
        Medians of that configuration, the heuristic's and NumPy's; NaN what was not measured.
    gain, p : float
        Of the final: median of baseline / candidate - 1, and the chance of seeing it without a gain.
    spread : float
        The middle half of the baseline's samples, relative to their median.
    trials : int
        Configurations measured; `failures` of them did not run or gave a wrong answer.
    """

    problem: Problem
    status: str
    config: Config
    seconds: float = math.nan
    baseline_seconds: float = math.nan
    numpy_seconds: float = math.nan
    gain: float = 0.0
    p: float = 1.0
    spread: float = math.nan
    trials: int = 0
    failures: int = 0
    strategy: str = ""
    date: str = ""
    cpu: str = ""
    kernels: str = ""
    detail: str = ""

    @property
    def after_seconds(self) -> float:
        """Time of a call from now on: the candidate's if it has a record, else as before."""
        return self.seconds if self.status == "confirmed" else self.baseline_seconds

    @property
    def mode(self) -> str:
        """What was done: `SEARCH`, or one of `SEARCHLESS`."""
        return self.strategy if self.strategy in SEARCHLESS else SEARCH


# Numbers and the least and the most of each: reports divide by them, and nobody could have measured others.
_TIME = (MIN_SECONDS, MAX_SECONDS)
_RATIO = MAX_SECONDS / MIN_SECONDS
_NUMBERS = {
    **dict.fromkeys(("seconds", "baseline_seconds", "numpy_seconds"), _TIME),
    "gain": (-1.0, _RATIO),
    "p": (0.0, 1.0),
    "spread": (0.0, _RATIO),
}
_COUNTS = ("trials", "failures")
_TEXTS = ("strategy", "date", "cpu", "kernels", "detail")


def beside(database: Path) -> Path:
    """Path of a database file's journal.

    Examples
    --------
    >>> beside(Path("data/tuning.json")).name
    'tuning.log.jsonl'
    """
    return lines.beside(database, "log")


def append(path: Path, entry: Entry) -> None:
    """Add a line, in one write."""
    fields = {name: None if value != value else value for name, value in asdict(entry).items()}
    lines.append(path, [{"schema": SCHEMA, **fields}])


def read(path: Path) -> tuple[list[Entry], list[str]]:
    """The entries in order, and what was wrong with the lines that are left out.

    Parameters
    ----------
    path : Path
        The journal; a missing one is empty.
    """
    return lines.read(path, _entry)


def _entry(fields: Any) -> Entry:
    if not isinstance(fields, Mapping):
        raise ValueError(f"an entry must be a JSON object, not {type(fields).__name__}")
    if fields.get("schema") != SCHEMA:
        raise ValueError(f"schema {str(fields.get('schema'))[:20]} is not {SCHEMA}")
    if fields.get("status") not in STATUSES:
        raise ValueError(f"status must be one of {STATUSES}")
    problem = from_fields(fields.get("problem"))
    if not isinstance(fields.get("config"), dict):
        raise ValueError("config must be a JSON object")
    config = Config(**fields["config"])
    if reason := config.misfit(problem):
        raise ValueError(reason)
    values: dict[str, Any] = {}
    for name, bounds in _NUMBERS.items():
        value = fields.get(name)
        values[name] = math.nan if value is None else _number(name, value, *bounds)
    for name in _COUNTS:
        values[name] = fields.get(name, 0)
        if type(values[name]) is not int or not 0 <= values[name] <= MAX_TRIALS:
            raise ValueError(f"{name} must be an integer between 0 and {MAX_TRIALS}")
    for name in _TEXTS:
        values[name] = fields.get(name, "")
        if not isinstance(values[name], str):
            raise ValueError(f"{name} must be a string")
    return Entry(problem, fields["status"], config, **values)


def _number(name: str, value: Any, low: float, high: float) -> float:
    if type(value) not in (int, float):
        raise ValueError(f"{name} must be a number")
    if not low <= value <= high:
        raise ValueError(f"{name} must be between {low:g} and {high:g}, not {value}")
    return float(value)
