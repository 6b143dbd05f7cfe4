"""Times, dates, configurations, problems and errors in a few words, and the mean of ratios: without any extra."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from ..database import DatabaseWarning
from ..problem import Config, Problem
from .shapes import label, layout_label, type_label


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


def clock(seconds: float) -> str:
    """Write a time to wait for.

    Examples
    --------
    >>> clock(7.4), clock(130), clock(7300), clock(float("inf"))
    ('7 s', '2 min 10 s', '2 h 1 min', '?')
    """
    if not seconds < math.inf:
        return "?"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def today() -> str:
    """Write the date of a record, a trial or an outcome.

    Examples
    --------
    >>> len(today().split("-"))
    3
    """
    return f"{datetime.now(UTC):%Y-%m-%d}"


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
    special = ", specialised" if config.special else ""
    return f"{config.family} {config.isa} {config.mr}x{config.nr}, pack {config.pack}, {threads}, {blocks}{special}"


def two_digits(ratio: float) -> str:
    """Write a ratio; a dash where there is none.

    Examples
    --------
    >>> two_digits(1.046), two_digits(float("nan"))
    ('1.05', '-')
    """
    return f"{ratio:.2f}" if ratio == ratio else "-"


def geometric_mean(ratios: Sequence[float]) -> float:
    """Geometric mean of the finite positive ratios; NaN without any.

    Examples
    --------
    >>> round(geometric_mean([2.0, 8.0, float("nan")]), 6)
    4.0
    """
    logs = [math.log(ratio) for ratio in ratios if 0 < ratio < math.inf]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def name(problem: Problem) -> str:
    """Write a problem in a few words: sizes, dtype, layout where it is not plain, threads."""
    letters = layout_label(problem)
    layout = "" if letters == "nn" else f" {letters}"
    threads = f" {problem.threads} threads" if problem.threads > 1 else " 1 thread"
    return f"{label(problem)} {type_label(problem.dtype)}{layout}{threads}"


def printable(text: str) -> str:
    """Write a text that came from a file on one line, without what a terminal would obey.

    Examples
    --------
    >>> print(printable("na\\xefve \\x1b[2J\\n"))
    na\xefve \\x1b[2J\\n
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def reason(error: Exception) -> str:
    """Write what an error says, without the number that the system has for it.

    Examples
    --------
    >>> reason(FileNotFoundError(2, "No such file or directory", "x.json")), reason(ValueError("too large"))
    ('x.json: No such file or directory', 'too large')
    """
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


@contextlib.contextmanager
def told(say: Callable[[str], None]) -> Iterator[None]:
    """Give the warnings about database files to `say`, a line each, instead of to Python's own printer."""
    show = warnings.showwarning

    def line(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, DatabaseWarning):
            say(str(message))
        else:
            show(message, category, *where, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", DatabaseWarning)
        warnings.showwarning = line
        try:
            yield
        finally:
            warnings.showwarning = show
