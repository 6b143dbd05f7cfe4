"""What the user sees: progress while tuning, the table and the means at the end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..problem import Problem
from .chronicle import Chronicle
from .compare import NOISY
from .journal import Entry
from .measure import Measurement
from .shapes import label, layout_label, type_label
from .words import clock, describe, duration, geometric_mean, name, two_digits

# A terminal says how wide it is; what is written to a file or a pipe must not be cut off.
PLAIN_WIDTH = 140


def console(stderr: bool = False) -> Console:
    """Return a console that writes whole lines to pipes and files."""
    found = Console(stderr=stderr, highlight=False)
    return found if found.is_terminal else Console(stderr=stderr, highlight=False, width=PLAIN_WIDTH)


class Remaining:
    """How long a run may still take: the time so far, and the share of the work that it was for.

    Examples
    --------
    >>> now = [0.0]
    >>> remaining = Remaining(total=4, deadline=100.0, clock=lambda: now[0])
    >>> remaining.begin(trials=10)
    >>> now[0] = 3.0
    >>> remaining.trial(), remaining.trial(), remaining.finish()
    (97.0, 97.0, 9.0)
    """

    def __init__(self, total: int, deadline: float = math.inf, clock: Callable[[], float] = time.monotonic) -> None:
        self._total, self._deadline, self._clock = total, deadline, clock
        self._began = clock()
        self._done, self._trials, self._most = 0, 0, 1

    def begin(self, trials: int | None) -> None:
        """Begin a problem."""
        self._trials, self._most = 0, max(trials or 1, 1)

    def trial(self) -> float:
        """Count a trial; return the seconds left, at most until the deadline."""
        self._trials += 1
        return self._left()

    def finish(self) -> float:
        """Count a problem; return the seconds left."""
        self._done, self._trials = self._done + 1, 0
        return self._left()

    def _left(self) -> float:
        # The trials are about half of a problem's time: starting a worker, the final and NumPy are the other.
        share = self._done + min(0.5, 0.5 * self._trials / self._most)
        now = self._clock()
        guess = (now - self._began) * (self._total - share) / share if share else math.inf
        return max(0.0, min(guess, self._deadline - now))


class Watch:
    """The progress bar: problems done, the trials of the one at work, the best so far, and the time left."""

    def __init__(self, total: int, quiet: bool, deadline: float = math.inf, chronicle: Chronicle | None = None) -> None:
        self._remaining = Remaining(total, deadline)
        self._chronicle = chronicle
        self._console = console(stderr=True)
        self._quiet = quiet
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
            transient=True,
        )
        self._problems = self._bar.add_task("shapes", total=total)
        self._trials = self._bar.add_task("", total=None, visible=False)
        self._best, self._first, self._name = math.inf, math.inf, ""

    def __enter__(self) -> Watch:
        self._bar.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()

    def begin(self, problem: Problem, trials: int | None) -> None:
        """Start a problem's own bar."""
        self._best, self._first, self._name = math.inf, math.inf, name(problem)
        self._remaining.begin(trials)
        if self._chronicle:
            self._chronicle.begin(problem)
        self._bar.reset(self._trials, total=trials, visible=True, description=self._name)

    def trial(self, measurement: Measurement) -> None:
        """Count a trial."""
        if self._chronicle:
            self._chronicle.trial(measurement)
        self._best = min(self._best, measurement.seconds)
        self._first = self._first if self._first < math.inf else measurement.seconds
        gain = f" ({self._first / self._best:.2f} times the heuristic)" if self._best < self._first < math.inf else ""
        self._bar.update(self._trials, advance=1, description=f"{self._name}  best {duration(self._best)}{gain}")
        self._bar.update(self._problems, description=f"shapes, {clock(self._remaining.trial())} left")

    def finish(self, entry: Entry) -> None:
        """Count a problem and write its line."""
        if self._chronicle:
            self._chronicle.finish(entry)
        self._bar.update(self._trials, visible=False)
        left = clock(self._remaining.finish())
        self._bar.update(self._problems, advance=1, description=f"shapes, {left} left")
        if entry.status == "confirmed":
            text = f"{duration(entry.baseline_seconds)} -> {duration(entry.seconds)}, {entry.gain:+.1%}: "
            text += describe(entry.config)
        elif entry.status == "rejected":
            text = f"{duration(entry.baseline_seconds)}, no confirmed gain (best {entry.gain:+.1%}, p = {entry.p:.2g})"
        else:
            text = f"failed: {entry.detail}"
        failed = f"; {entry.failures} of {entry.trials} trials failed, {entry.detail}" if entry.failures else ""
        self.say(f"{name(entry.problem)}: {text}" + (failed if entry.status != "failed" else ""))

    def say(self, text: str) -> None:
        """Write a line above the bar, unless only the table is wanted."""
        if not self._quiet:
            self.warn(text)

    def warn(self, text: str) -> None:
        """Write what went wrong, or was left undone: a line above the bar that a quiet run has too."""
        self._bar.console.print(text, markup=False, soft_wrap=True)


def table(entries: Sequence[Entry]) -> Table:
    """The results, a row a problem."""
    made = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for title in ("shape", "dtype", "AB"):
        made.add_column(title, no_wrap=True)
    for title in ("threads", "before", "after", "NumPy", "before\n/after", "NumPy\n/after", "GFLOP/s"):
        made.add_column(title, justify="right")
    made.add_column("result")
    for e in entries:
        p, after = e.problem, e.after_seconds
        made.add_row(
            label(p),
            type_label(p.dtype),
            layout_label(p),
            str(p.threads),
            duration(e.baseline_seconds),
            duration(after),
            duration(e.numpy_seconds),
            two_digits(e.baseline_seconds / after),
            two_digits(e.numpy_seconds / after),
            f"{p.flops / after * 1e-9:.3g}" if after == after else "-",
            e.status + (" ~" if e.spread > NOISY else ""),
        )
    return made


def summary(entries: Sequence[Entry]) -> list[str]:
    """The lines below the table: geometric means, counts, and the machine's noise."""
    timed = [e for e in entries if e.status != "failed"]
    lines = []
    if timed:
        before = geometric_mean([e.baseline_seconds / e.after_seconds for e in timed])
        numpy = geometric_mean([e.numpy_seconds / e.after_seconds for e in timed])
        untuned = geometric_mean([e.numpy_seconds / e.baseline_seconds for e in timed])
        lines.append(
            f"geometric means over {len(timed)} problems: before/after {two_digits(before)}, "
            f"NumPy/after {two_digits(numpy)}, NumPy/before {two_digits(untuned)}"
        )
    counts = {status: sum(e.status == status for e in entries) for status in ("confirmed", "rejected", "failed")}
    lines.append(
        f"{counts['confirmed']} gains confirmed and recorded, {counts['rejected']} without a confirmed gain "
        f"(the heuristic's configuration stays), {counts['failed']} failed"
    )
    noisy = [e for e in timed if e.spread > NOISY]
    if noisy:
        lines.append(
            f"noisy (~): in {len(noisy)} of {len(timed)} finals the middle half of the heuristic's own times spread by "
            f"more than {NOISY:.0%}; small gains cannot be seen while something else uses the cores"
        )
    lines += [f"failed: {name(e.problem)}: {e.detail}" for e in entries if e.status == "failed"]
    return lines
