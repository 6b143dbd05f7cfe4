"""What happened in a run, for the report that stays: ``--report FOLDER`` writes report.md and plots.

The plots take matplotlib; without it the report says so and has its tables alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .. import cpu, kernels
from ..problem import Problem
from .compare import NOISY
from .journal import Entry
from .measure import Measurement
from .words import describe, duration, geometric_mean, name, two_digits

PLOTS = ("gains.png", "convergence.png", "convergence-time.png", "time.png")
# More curves than this are one grey bundle and their median.
MOST_CURVES = 12


@dataclass
class Story:
    """One problem of a run: when it began and ended, and what each trial cost at which moment."""

    problem: Problem
    began: float
    ended: float = math.nan
    trials: list[tuple[float, float]] = field(default_factory=list)
    entry: Entry | None = None

    @property
    def phases(self) -> tuple[float, float, float]:
        """Seconds until the heuristic's configuration was timed, of the search, and of the final with NumPy."""
        if not self.trials:
            return self.ended - self.began, 0.0, 0.0
        first, last = self.trials[0][0], self.trials[-1][0]
        return first - self.began, last - first, self.ended - last

    @property
    def convergence(self) -> list[float]:
        """Best so far after each trial, relative to the first, the heuristic's."""
        best, found = math.inf, []
        for _, seconds in self.trials:
            best = min(best, seconds)
            found.append(best / self.trials[0][1])
        return found


class Chronicle:
    """Collects the stories of a run.

    Examples
    --------
    >>> from fastgemm.problem import Config, Problem
    >>> ticks = iter(range(9))
    >>> chronicle = Chronicle(clock=lambda: next(ticks))
    >>> chronicle.begin(Problem("f32", 8, 8, 8))
    >>> for seconds in (2e-6, 1e-6):
    ...     chronicle.trial(Measurement(Config(), "ok", seconds))
    >>> chronicle.stories[0].convergence
    [1.0, 0.5]
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self.stories: list[Story] = []

    def begin(self, problem: Problem) -> None:
        """Note that a problem is begun."""
        self.stories.append(Story(problem, self._clock()))

    def trial(self, measurement: Measurement) -> None:
        """Note a trial of the problem at work."""
        self.stories[-1].trials.append((self._clock(), measurement.seconds))

    def finish(self, entry: Entry) -> None:
        """Note the result of a problem; one that nothing was begun for (a compiled kernel) has no trials."""
        if not self.stories or self.stories[-1].entry is not None:
            self.begin(entry.problem)
        self.stories[-1].entry, self.stories[-1].ended = entry, self._clock()

    def write(self, folder: Path, command: Sequence[str]) -> list[str]:
        """Write the report; return what could not be part of it."""
        folder.mkdir(parents=True, exist_ok=True)
        done = [story for story in self.stories if story.entry is not None]
        plots, left_out = _plots(folder, done)
        text = "\n".join(_lines(done, command, self._clock() - self._began, plots, left_out)) + "\n"
        (folder / "report.md").write_text(text, encoding="utf-8")
        return left_out


def _lines(
    stories: Sequence[Story], command: Sequence[str], seconds: float, plots: Sequence[str], left_out: Sequence[str]
) -> list[str]:
    entries = [story.entry for story in stories if story.entry is not None]
    timed = [e for e in entries if e.status != "failed"]
    lines = [
        "# Tuning run",
        "",
        f"`{' '.join(command)}`",
        "",
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {duration(seconds)}, CPU key `{cpu.key()}`, "
        f"kernels `{kernels.kernel_hash()}`.",
        "",
        f"{len(entries)} problems: {sum(e.status == 'confirmed' for e in entries)} gains confirmed and recorded, "
        f"{sum(e.status == 'rejected' for e in entries)} without one, "
        f"{sum(e.status == 'failed' for e in entries)} failed. Geometric means: tuned against untuned "
        f"{two_digits(geometric_mean([e.baseline_seconds / e.after_seconds for e in timed]))}, against NumPy "
        f"{two_digits(geometric_mean([e.numpy_seconds / e.after_seconds for e in timed]))} "
        f"(untuned {two_digits(geometric_mean([e.numpy_seconds / e.baseline_seconds for e in timed]))}).",
        "",
        "| problem | untuned | tuned | NumPy | untuned / tuned | NumPy / tuned | p | trials | result | configuration |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---|---|",
    ]
    for e in entries:
        after = e.after_seconds
        times = [duration(t) for t in (e.baseline_seconds, after, e.numpy_seconds)]
        ratios = [two_digits(e.baseline_seconds / after), two_digits(e.numpy_seconds / after), f"{e.p:.2g}"]
        result = e.status + (" (noisy)" if e.spread > NOISY else "")
        cells = [name(e.problem), *times, *ratios, str(e.trials), result, describe(e.config)]
        lines.append("| " + " | ".join(cells) + " |")
    phases = [sum(parts) for parts in zip(*(story.phases for story in stories), strict=True)] or [0.0, 0.0, 0.0]
    shares = [f"{what} {duration(spent)}" for what, spent in zip(PHASES, phases, strict=True) if spent > 0]
    lines += ["", f"Where the time went: {', '.join(shares) or 'nowhere'}.", ""]
    lines += [f"![{plot.removesuffix('.png')}]({plot})" for plot in plots]
    failures = [e for e in entries if e.failures or e.status == "failed"]
    if failures:
        lines += ["", "Trials that failed:", ""]
        lines += [f"- {name(e.problem)}: {e.failures} of {e.trials}, {e.detail}" for e in failures]
    return lines + [f"\n{line}" for line in left_out]


PHASES = ("start of the worker, reference and first timing", "search", "final and NumPy")


def _plots(folder: Path, stories: Sequence[Story]) -> tuple[list[str], list[str]]:
    """Draw what there is to draw; return the files' names, and a line where that was not possible."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return [], ["No plots: matplotlib is not installed."]
    made = []
    for file, draw in zip(PLOTS, (_gains, _convergence, _progress, _times), strict=True):
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        if draw(figure.subplots(), stories):
            figure.savefig(folder / file, dpi=120)
            made.append(file)
    return made, []


def _gains(axes: Any, stories: Sequence[Story]) -> bool:
    entries = [s.entry for s in stories if s.entry is not None and s.entry.status != "failed"]
    entries.sort(key=lambda e: e.baseline_seconds / e.after_seconds)
    at = range(len(entries))
    axes.barh(at, [e.baseline_seconds / e.after_seconds for e in entries], color="tab:blue", label="untuned / tuned")
    axes.plot([e.numpy_seconds / e.after_seconds for e in entries], at, "o", color="tab:orange", label="NumPy / tuned")
    axes.axvline(1, color="black", linewidth=0.8)
    if len(entries) <= 40:
        axes.set_yticks(list(at), [name(e.problem) for e in entries], fontsize=7)
    axes.set_xlabel("times as fast")
    axes.legend()
    return bool(entries)


def _convergence(axes: Any, stories: Sequence[Story]) -> bool:
    curves = [story.convergence for story in stories if len(story.trials) > 1]
    few = len(curves) <= MOST_CURVES
    named = [name(story.problem) for story in stories if len(story.trials) > 1]
    for curve, label in zip(curves, named, strict=True):
        axes.plot(range(len(curve)), curve, color=None if few else "0.8", label=label if few else None)
    if curves and not few:
        longest = max(map(len, curves))
        full = [curve + [curve[-1]] * (longest - len(curve)) for curve in curves]
        middle = [sorted(column)[len(column) // 2] for column in zip(*full, strict=True)]
        axes.plot(range(longest), middle, color="tab:blue", label="median")
    axes.set_xlabel("trials")
    axes.set_ylabel("best so far / heuristic (single timings)")
    if curves:
        axes.legend(fontsize=7)
    return bool(curves)


def _progress(axes: Any, stories: Sequence[Story]) -> bool:
    """Best so far against the seconds since the problem was begun."""
    searched = [story for story in stories if len(story.trials) > 1]
    few = len(searched) <= MOST_CURVES
    for story in searched:
        seconds = [moment - story.began for moment, _ in story.trials]
        label = name(story.problem) if few else None
        axes.step(seconds, story.convergence, where="post", color=None if few else "0.8", label=label)
    axes.set_xlabel("seconds")
    axes.set_ylabel("best so far / heuristic (single timings)")
    if searched and few:
        axes.legend(fontsize=7)
    return bool(searched)


def _times(axes: Any, stories: Sequence[Story]) -> bool:
    left = [0.0] * len(stories)
    for at, what in enumerate(PHASES):
        widths = [story.phases[at] for story in stories]
        axes.barh(range(len(stories)), widths, left=left, label=what)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    if len(stories) <= 40:
        axes.set_yticks(list(range(len(stories))), [name(story.problem) for story in stories], fontsize=7)
    axes.set_xlabel("seconds")
    axes.legend(fontsize=8)
    return bool(stories)
