"""The log of trials: every configuration that a search measured, beside the database.

The database has the winner of a problem, the journal how its search ended; what the search learned about all the
others is here, for strategies that learn from searches of the past (`nests.Experience`).  A line is a `Trial`.  The
file is bounded, and what is read is checked like a database: it may have come from another machine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import database
from ..database.reading import MAX_SECONDS, MIN_SECONDS, build
from ..problem import Config, Problem, Record
from . import lines
from .kernel_nests import described
from .measure import OUTCOMES, Measurement
from .nests import Experience
from .words import today

# Some 25,000 trials, which are read in a second; the older half goes when there are more.
MOST_BYTES = 8 << 20

# The newest of a problem count: a kernel set or a heuristic that has changed makes older ones wrong.
MOST_TRIALS, MOST_PROBLEMS = 2000, 64


@dataclass(frozen=True, slots=True)
class Trial:
    """A configuration that was measured.

    Parameters
    ----------
    problem : Problem
        What was computed.
    config : Config
        How.
    seconds : float
        Median time of a call; 0 where it failed.
    outcome : str
        One of `measure.OUTCOMES`.
    cpu, kernels : str
        CPU key and kernel set that it was measured with.
    strategy, date : str
        Who proposed it, and when.
    """

    problem: Problem
    config: Config
    seconds: float
    outcome: str
    cpu: str
    kernels: str
    strategy: str = ""
    date: str = ""


def beside(database: Path) -> Path:
    """Path of a database file's log of trials.

    Examples
    --------
    >>> beside(Path("data/tuning.json")).name
    'tuning.trials.jsonl'
    """
    return lines.beside(database, "trials")


def append(path: Path, trials: Iterable[Trial]) -> None:
    """Add trials; the oldest go when the file has grown too large."""
    # Not waiting for the disk: a trial that a power cut loses is one that nobody misses.
    lines.append(path, (dataclasses.asdict(trial) for trial in trials), MOST_BYTES, sync=False)


def read(path: Path) -> tuple[list[Trial], list[str]]:
    """Return the trials in order, and what was wrong with the lines that are left out.

    Examples
    --------
    >>> problem, config = Problem("f32", 64, 64, 64), Config(mr=6, nr=16)
    >>> append(Path("tuning.trials.jsonl"), [Trial(problem, config, 1e-5, "ok", "a cpu", "abc")])
    >>> [trial.seconds for trial in read(Path("tuning.trials.jsonl"))[0]]
    [1e-05]
    """
    return lines.read(path, decode)


def decode(fields: Any) -> Trial:
    """Make a trial of its JSON object.  Raises TypeError or ValueError with the reason."""
    trial: Trial = build(Trial, fields, "trial")
    if trial.outcome not in OUTCOMES:
        raise ValueError(f"outcome must be one of {OUTCOMES}")
    if trial.outcome == "ok" and not MIN_SECONDS <= trial.seconds <= MAX_SECONDS:
        raise ValueError(f"seconds must be between {MIN_SECONDS:g} and {MAX_SECONDS:g}, not {trial.seconds}")
    if reason := trial.config.misfit(trial.problem):
        raise ValueError(reason)
    return trial


def prune(path: Path, unwanted: Callable[[Trial], bool], dry_run: bool = False) -> tuple[int, int]:
    """Take trials out of a log, and lines that are none; return how many went (or would) and how many there were."""
    return lines.rewrite(path, lambda fields: not unwanted(decode(fields)), dry_run)


def experiences(
    trials: Iterable[Trial], records: Iterable[Record], cpu: str, kernels: str, isa: str, besides: Problem
) -> list[Experience]:
    """What a model of the kernels can learn from, a problem each.

    Parameters
    ----------
    trials : iterable of Trial
        The log.
    records : iterable of Record
        Of the database: its configuration and the untuned time say little, but about problems that no log knows.
    cpu, kernels : str
        Only what was measured on this CPU key and kernel set counts.
    isa : str
        Only what ran on this tier counts.
    besides : Problem
        It is not among them: a search that already knows the answer proves nothing, and knows it from the record.
    """
    found: dict[Problem, dict[Config, float]] = {}
    for trial in trials:
        if (trial.cpu, trial.kernels) == (cpu, kernels) and trial.outcome == "ok":
            # A configuration that was measured again moves to the end.
            of = found.setdefault(trial.problem, {})
            of.pop(trial.config, None)
            of[trial.config] = trial.seconds
    for record in records:
        if record.kernels == kernels and record.config.family != "numpy":
            found.setdefault(record.problem, {}).setdefault(record.config, record.seconds)
    kept: list[Experience] = []
    for problem, costs in reversed(found.items()):
        configs = [c for c in costs if c.isa == isa and not c.special][-MOST_TRIALS:]
        if problem == besides or problem.dtype != besides.dtype or len(configs) < 2:
            continue
        seconds = np.array([costs[config] for config in configs])
        kept.append(Experience(described(problem, configs), seconds))
        if len(kept) == MOST_PROBLEMS:
            break
    return kept


class Log:
    """The log beside a database, while a run adds to it.

    Parameters
    ----------
    database : Path
        The database file.
    cpu, kernels : str
        CPU key and kernel set of this run.
    say : function
        Told once when the log cannot be written, which stops no search.
    """

    def __init__(self, database: Path, cpu: str, kernels: str, say: Callable[[str], None]) -> None:
        self.path, self._database, self._cpu, self._kernels, self._say = beside(database), database, cpu, kernels, say
        self._known: list[Trial] | None = None
        self._new: list[Trial] = []
        self._works = True

    def add(self, problem: Problem, measurement: Measurement, strategy: str) -> None:
        """Add a trial."""
        seconds = measurement.seconds if measurement.outcome == "ok" else 0.0
        about = (self._cpu, self._kernels, strategy, today())
        self._new.append(Trial(problem, measurement.config, seconds, measurement.outcome, *about))
        if not self._works:
            return
        try:
            append(self.path, self._new[-1:])
        except OSError as error:
            self._works = False
            self._say(f"the trials are not kept: {self.path}: {error.strerror or error}")

    def experiences(self, besides: Problem, isa: str) -> list[Experience]:
        """What was learned before, and in this run, about other problems; the file is read once."""
        if self._known is None:
            self._known, left_out = read(self.path)
            if left_out:
                self._say(f"{len(left_out)} lines of the log of trials left out: {left_out[0]}")
        records = database.read(self._database, cpu=self._cpu, kernels=self._kernels)[0]
        trials = [*self._known, *self._new]
        return experiences(trials, records, self._cpu, self._kernels, isa, besides)
