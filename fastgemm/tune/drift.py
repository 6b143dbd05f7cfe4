"""Does the machine keep its speed during a search?  A reference configuration tells, timed again now and then.

A candidate that is timed while the clock is lower, or while a neighbour uses the memory, looks worse than it is.  The
final, which times in turn, does not care; but only what the search ranks high gets there.  So, when the reference has
become slower or faster, and a second timing agrees:

* up to `LIMIT`, the times since the last look are scaled by the mean of both paces, and later ones by the new pace;
* beyond that something else runs, which slows one configuration down more than another (two threads more than one):
  the times since the last look are forgotten, so that the strategy gets new ones.

Two timings that disagree are noise, not drift.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ..problem import Config
from .measure import Measurement, Runner

# Trials, or seconds, between two looks, and the least trials: one more for twenty quick ones, for five slow ones.
TRIALS, SECONDS = 20, 3.0
LEAST_TRIALS = 5

# Timings of one configuration on a quiet machine differ by up to 3 %, in a row of hundreds by 6 %.
DRIFT = 0.08
LIMIT = 1.3

# On a machine that is never steady a search has to end as well.
MOST_FORGOTTEN = 5


@dataclass
class Pace:
    """The machine's pace: what the reference takes now over what it took first.

    Parameters
    ----------
    runner : Runner
        Times the reference.
    reference : Config
        What is timed again and again: the space's start.
    seconds : float
        What it took first.
    say : function
        Told when the pace changes.
    clock : function
        Seconds.
    """

    runner: Runner
    reference: Config
    seconds: float
    say: Callable[[str], None] = lambda text: None
    clock: Callable[[], float] = time.monotonic
    now: float = 1.0
    forgotten: int = 0
    _since: list[Config] = field(default_factory=list)
    _looked: float = field(init=False)

    def __post_init__(self) -> None:
        # The very first timing of a process is an outlier more often than any other.
        self.seconds = min(self.seconds, self._timed())
        self._looked = self.clock()

    def scaled(self, measurement: Measurement) -> Measurement:
        """Return a measurement at the pace of the beginning."""
        return _faster(measurement, self.now)

    def look(self, config: Config, results: dict[Config, Measurement]) -> None:
        """Count a trial, and when it is time, look at the pace and mend the results since the last look."""
        self._since.append(config)
        due = len(self._since) >= TRIALS or self.clock() - self._looked >= SECONDS
        if not due or len(self._since) < LEAST_TRIALS:
            return
        before, found = self.now, self._timed() / self.seconds
        if _apart(found, before) > DRIFT:
            again = self._timed() / self.seconds
            if _apart(again, found) <= DRIFT:
                self._changed(before, min(found, again), results)
        self._since.clear()
        self._looked = self.clock()

    def _changed(self, before: float, after: float, results: dict[Config, Measurement]) -> None:
        self.now = after
        what = (
            f"the machine has become {'slower' if after > before else 'faster'} ({after / before:.2f} times the time)"
        )
        since = [config for config in self._since if config in results and config != self.reference]
        if _apart(after, before) > LIMIT - 1 and self.forgotten < MOST_FORGOTTEN:
            self.forgotten += 1
            for config in since:
                del results[config]
            self.say(f"{what}: the last {len(since)} times are forgotten")
            return
        for config in since:
            # They were scaled by the pace of before; the truth lies between that and the pace of now.
            results[config] = _faster(results[config], math.sqrt(after / before))
        self.say(f"{what}: times are scaled")

    def _timed(self) -> float:
        (measurement,) = self.runner.measure([self.reference])
        # A reference that fails now says nothing about the pace.
        return measurement.seconds if measurement.outcome == "ok" else self.seconds * self.now


def _apart(one: float, other: float) -> float:
    """How far two times lie apart: the greater over the less, less 1."""
    return max(one / other, other / one) - 1


def _faster(measurement: Measurement, factor: float) -> Measurement:
    if measurement.outcome != "ok" or factor == 1:
        return measurement
    return Measurement(measurement.config, "ok", measurement.seconds / factor, measurement.detail)
