"""Do the gains of a database hold?  Its records, timed anew against the untuned configuration.

What the tuner measured decided which record was written, so its own figures flatter it.  Here every record is
timed in pairs with the heuristic's configuration in a process that has never seen it, and one that comes out slower is
timed again in another process before it is said not to hold.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from .. import cpu, database, dispatch, kernels
from ..problem import Config, Problem, Record
from .compare import FINAL_ROUNDS, FINAL_SECONDS
from .live import LiveRunner
from .measure import Runner
from .words import geometric_mean, name

Open = Callable[[Problem, int], Runner]


def gain(record: Record, untuned: Config, runner: Runner) -> float | None:
    """Median of untuned / tuned over the pairs of one process; None when that could not be timed."""
    first = runner.rounds([record.config, untuned], 1)
    if not all(first):
        return None
    rounds = int(FINAL_SECONDS / (first[0][0] + first[1][0]))
    tuned, before = runner.rounds([record.config, untuned], max(FINAL_ROUNDS[0], min(FINAL_ROUNDS[1], rounds)))
    return statistics.median(b / t for b, t in zip(before, tuned, strict=True)) if tuned and before else None


def measure(record: Record, seed: int, open_runner: Open = LiveRunner) -> float | None:
    """Gain of a record now; of two processes the second decides where the first sees a loss."""
    untuned = dispatch.by_rules(record.problem)
    if record.config == untuned:
        return 1.0
    found: float | None = None
    for attempt in range(2):
        with contextlib.closing(open_runner(record.problem, seed + attempt)) as runner:
            found = gain(record, untuned, runner)
        if found is not None and found >= 1:
            break
    return found


def check(path: Path, seed: int = 0, open_runner: Open = LiveRunner) -> list[Record]:
    """Measure this machine's records of a file, print what comes out, and return those that do not hold."""
    records, _ = database.read(path, cpu=cpu.key(), kernels=kernels.kernel_hash())
    gains: list[float] = []
    failed = []
    for number, record in enumerate(records, 1):
        now = measure(record, seed, open_runner)
        said = "could not be timed" if now is None else f"{now:.3f} now, {record.gain:.3f} recorded"
        mark = "" if now is not None and now >= 1 else "  does not hold"
        print(f"  [{number}/{len(records)}] {name(record.problem)}: {said}{mark}")
        sys.stdout.flush()
        if now is not None:
            gains.append(now)
        if mark:
            failed.append(record)
    for line in summary(gains, len(failed)):
        print(line)
    return failed


def summary(gains: Sequence[float], failed: int) -> list[str]:
    """The lines at the end.

    Examples
    --------
    >>> summary([1.0, 1.21], 0)
    ['tuned against untuned over 2 records: geometric mean 1.100, least 1.000; 0 do not hold']
    """
    if not gains:
        return ["no record of this CPU and build to measure"]
    mean, least = geometric_mean(gains), min(gains)
    what = f"tuned against untuned over {len(gains)} records: geometric mean {mean:.3f}, least {least:.3f}"
    return [f"{what}; {failed} do not hold"]
