"""What the user sees: progress while tuning, the table and the means at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import TracebackType

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from .. import registry
from ..problem import Config, Problem
from .compare import NOISY
from .journal import Entry
from .measure import Measurement
from .shapes import label

# A terminal says how wide it is; what is written to a file or a pipe must not be cut off.
PLAIN_WIDTH = 140


def console(stderr: bool = False) -> Console:
    """Return a console that writes whole lines to pipes and files."""
    found = Console(stderr=stderr, highlight=False)
    return found if found.is_terminal else Console(stderr=stderr, highlight=False, width=PLAIN_WIDTH)


def duration(seconds: float) -> str:
    """Write a time with three digits and a unit.

    Examples
    --------
    >>> duration(0.0001234), duration(2.5e-8), duration(float("nan"))
    ('123 us', '25 ns', '-')
    """
    if not seconds < math.inf:
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= 0.9995 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def describe(config: Config) -> str:
    """Write a configuration in a few words.

    Examples
    --------
    >>> describe(Config("gemm", "v3", 6, 16, pack="b", threads=2, split="m"))
    'gemm v3 6x16, pack b, 2 threads over m, mc 120 kc 1024 nc 1024'
    """
    if config.family == "numpy":
        return "numpy"
    threads = f"{config.threads} threads over {config.split}" if config.threads > 1 else "1 thread"
    if not config.mr:
        return f"{config.family} {config.isa}, {threads}"
    blocks = f"mc {config.mc} kc {config.kc} nc {config.nc}"
    return f"{config.family} {config.isa} {config.mr}x{config.nr}, pack {config.pack}, {threads}, {blocks}"


def geometric_mean(ratios: Sequence[float]) -> float:
    """Geometric mean of the finite positive ratios; NaN without any.

    Examples
    --------
    >>> round(geometric_mean([2.0, 8.0, float("nan")]), 6)
    4.0
    """
    logs = [math.log(ratio) for ratio in ratios if 0 < ratio < math.inf]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


class Watch:
    """The progress bar: problems done, and the trials of the one at work."""

    def __init__(self, total: int, quiet: bool) -> None:
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
        self._best, self._name = math.inf, ""

    def __enter__(self) -> Watch:
        self._bar.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()

    def begin(self, problem: Problem, trials: int | None) -> None:
        """Start a problem's own bar."""
        self._best, self._name = math.inf, name(problem)
        self._bar.reset(self._trials, total=trials, visible=True, description=self._name)

    def trial(self, measurement: Measurement) -> None:
        """Count a trial."""
        self._best = min(self._best, measurement.seconds)
        self._bar.update(self._trials, advance=1, description=f"{self._name}  best {duration(self._best)}")

    def finish(self, entry: Entry) -> None:
        """Count a problem and write its line."""
        self._bar.update(self._trials, visible=False)
        self._bar.update(self._problems, advance=1)
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
        """Write a line above the bar."""
        if not self._quiet:
            self._bar.console.print(text, markup=False, soft_wrap=True)


def name(problem: Problem) -> str:
    """Write a problem in a few words: sizes, dtype, layout where it is not plain, threads."""
    layout = "" if problem.layout == "nn" else f" {problem.layout}"
    threads = f" {problem.threads} threads" if problem.threads > 1 else " 1 thread"
    return f"{label(problem)} {registry.dtype(problem.dtype).numpy}{layout}{threads}"


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
            registry.dtype(p.dtype).numpy,
            p.layout,
            str(p.threads),
            duration(e.baseline_seconds),
            duration(after),
            duration(e.numpy_seconds),
            _ratio(e.baseline_seconds / after),
            _ratio(e.numpy_seconds / after),
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
            f"geometric means over {len(timed)} problems: before/after {_ratio(before)}, "
            f"NumPy/after {_ratio(numpy)}, NumPy/before {_ratio(untuned)}"
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


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value == value else "-"
