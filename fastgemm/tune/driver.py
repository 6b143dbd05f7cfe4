"""One problem from start to record: budget, cache of measurements, search, final.

The driver owns what strategies must not: how many trials and how much time there is, what
was measured before, and what becomes of the result.  A failed configuration is a result;
only the heuristic's own failure ends a problem, because nothing can be compared then.
"""

from __future__ import annotations

import dataclasses
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import database
from ..problem import Config, Problem, Record
from . import journal
from .compare import FINALISTS, Verdict, final
from .drift import Pace
from .journal import Entry
from .measure import Measurement, Runner
from .search_space import SearchSpace
from .space import Space
from .strategies import Strategy
from .words import today

# A strategy that proposes only known configurations this often has nothing more to say.
PATIENCE = 200


@dataclass
class Budget:
    """What a problem's search may cost: trials, and a moment on `clock` when it has to end."""

    trials: int | None = None
    deadline: float = math.inf
    clock: Callable[[], float] = time.monotonic

    def used_up(self, spent: int) -> bool:
        """Whether the search has to end after `spent` trials."""
        return self.clock() >= self.deadline or (self.trials is not None and spent >= self.trials)


@dataclass
class Trials:
    """What was measured for a problem, each configuration once."""

    runner: Runner
    progress: Callable[[Measurement], None] = lambda measurement: None
    results: dict[Config, Measurement] = field(default_factory=dict)
    pace: Pace | None = None

    def costs(self, configs: Sequence[Config]) -> list[float]:
        """Seconds of each configuration; what is not known yet is measured."""
        for config in configs:
            if config not in self.results:
                (measurement,) = self.runner.measure([config])
                measurement = self.pace.scaled(measurement) if self.pace else measurement
                self.results[config] = measurement
                self.progress(measurement)
                if self.pace:
                    self.pace.look(config, self.results)
        if any(config not in self.results for config in configs):  # forgotten, because the machine's pace has changed
            return self.costs(configs)
        return [self.results[config].seconds for config in configs]

    def ranking(self) -> list[Config]:
        """Configurations that ran, fastest first."""
        ran = [m for m in self.results.values() if m.outcome == "ok"]
        return [m.config for m in sorted(ran, key=lambda m: m.seconds)]


def search(space: SearchSpace[Any], strategy: Strategy, trials: Trials, budget: Budget, rng: random.Random) -> None:
    """Run a strategy until it ends or the budget does.

    Trials are counted from here on: what was measured before, the heuristic's configuration, is extra.
    """
    before = len(trials.results)
    proposals = strategy.search(space, rng)
    stale = 0
    try:
        configs = next(proposals)
        while stale < PATIENCE and not budget.used_up(len(trials.results) - before):
            new = [config for config in dict.fromkeys(configs) if config not in trials.results]
            stale = 0 if new else stale + 1
            for config in new:
                if budget.used_up(len(trials.results) - before):
                    return
                trials.costs([config])
            configs = proposals.send(trials.costs(configs))
    except StopIteration:
        pass
    finally:
        proposals.close()


def tune(
    space: Space,
    runner: Runner,
    strategy: Strategy,
    budget: Budget,
    seed: int = 0,
    progress: Callable[[Measurement], None] = lambda measurement: None,
    known: Record | None = None,
    say: Callable[[str], None] = lambda text: None,
    earlier: Sequence[Config] = (),
) -> Entry:
    """Search a problem's space and judge the best that was found against the heuristic's, the space's start.

    The configuration of a `known` record is measured with the others and comes into the final, so that the result
    may replace the record.  Those that `earlier` builds recorded are measured before the search begins.

    Returns
    -------
    Entry
        Confirmed, rejected or failed; nothing has been written yet.
    """
    trials = Trials(runner, progress)
    trials.costs([space.start])
    first = trials.results[space.start]
    about = Entry(space.problem, "failed", space.start, strategy=strategy.name, date=today())
    if first.outcome != "ok":
        detail = f"the heuristic's configuration: {first.outcome}, {first.detail}"
        return dataclasses.replace(about, trials=1, failures=1, detail=detail)
    trials.pace = Pace(runner, space.start, first.seconds, say)
    remembered = [*([known.config] if known else []), *earlier]
    trials.costs(remembered)
    search(space, strategy, trials, budget, random.Random(seed))
    trials.costs(remembered)  # again where a change of the machine's pace made the first times worthless
    failures = [m for m in trials.results.values() if m.outcome != "ok"]
    verdict = final(runner, _finalists(trials.ranking(), space.start, known), space.start)
    about = dataclasses.replace(
        about,
        trials=len(trials.results),
        failures=len(failures),
        detail=f"{failures[0].outcome}: {failures[0].detail}" if failures else "",
        numpy_seconds=runner.numpy_seconds(),
    )
    if verdict is None:
        return dataclasses.replace(about, detail="the final could not be timed")
    return judged(about, verdict, verdict.confirmed and verdict.config != space.start)


def judged(about: Entry, verdict: Verdict, confirmed: bool) -> Entry:
    """Return the entry of a problem with the result of its final."""
    return dataclasses.replace(
        about,
        status="confirmed" if confirmed else "rejected",
        config=verdict.config,
        seconds=verdict.seconds,
        baseline_seconds=verdict.baseline_seconds,
        gain=verdict.gain,
        p=verdict.p,
        spread=verdict.spread,
    )


def _finalists(ranking: list[Config], start: Config, known: Record | None) -> list[Config]:
    """Those of the ranking that the final is for; a known record's configuration is the last of them at worst."""
    best = [config for config in ranking if config != start][:FINALISTS]
    if known is None or known.config in best or known.config not in ranking:
        return best
    return [*best[: FINALISTS - 1], known.config]


def store(entry: Entry, path: Path, cpu: str, kernels: str, known: Record | None = None) -> Entry:
    """Write a confirmed record to the database, and every entry to the journal; return the entry as written.

    The `known` record, which was measured in the same run, makes way for the new one, or is taken out when no
    configuration was better than the heuristic's.
    """
    entry = dataclasses.replace(entry, cpu=cpu, kernels=kernels)
    if entry.status == "confirmed":
        database.write(path, [record_of(entry)], cpu=cpu, kernels=kernels, instead_of=[known] if known else [])
    elif entry.status == "rejected" and known is not None:
        database.remove(path, [known], cpu=cpu)
    # The record first: a run that is killed in between tunes the problem again, and loses nothing.
    journal.append(journal.beside(path), entry)
    return entry


def record_of(entry: Entry) -> Record:
    """Return the record that a confirmed entry makes."""
    measured = (entry.seconds, entry.baseline_seconds, entry.trials, entry.strategy, entry.date)
    return Record(entry.problem, entry.config, *measured, entry.kernels)


def recorded(path: Path, cpu: str, kernels: str) -> dict[Problem, Record]:
    """Return the records that this CPU and these kernels have in a database file, by problem."""
    return {record.problem: record for record in database.read(path, cpu=cpu, kernels=kernels)[0]}


def finished(path: Path, cpu: str, kernels: str, mode: str = journal.SEARCH) -> tuple[dict[Problem, Entry], list[str]]:
    """Problems that ``--resume`` skips: judged on this CPU with these kernels, and their record still there.

    Only what was done in the same `mode` (`journal.Entry.mode`) counts: a search says nothing about a kernel of the
    shape's own, nor the other way round, and what no earlier build had found a search still may.
    """
    entries, left_out = journal.read(journal.beside(path))
    present = recorded(path, cpu, kernels)
    done = {
        entry.problem: entry
        for entry in entries
        if (entry.cpu, entry.kernels, entry.mode) == (cpu, kernels, mode)
        and (entry.status == "rejected" or (entry.status == "confirmed" and entry.problem in present))
    }
    return done, left_out
