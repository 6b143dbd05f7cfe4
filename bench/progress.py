"""Progress on standard error: a bar where rich and a terminal are there, plain lines otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

# Plain lines go to logs as well: one every few seconds says enough.
PERIOD = 5.0


class Bar(Protocol):
    """What a command tells about its progress."""

    def step(self, text: str = "") -> None:
        """Say that one more item begins (``text`` names it)."""


class _Plain:
    def __init__(self, label: str, total: int) -> None:
        self.label, self.total, self.done = label, total, 0
        self.start = self.last = time.monotonic()

    def step(self, text: str = "") -> None:
        now = time.monotonic()
        if now - self.last >= PERIOD:
            spent = now - self.start
            left = spent / self.done * (self.total - self.done) if self.done else 0.0
            rest = f", about {left:.0f} s left" if self.done else ""
            print(
                f"{self.label}: {self.done}/{self.total} after {spent:.0f} s{rest}: {text}", file=sys.stderr, flush=True
            )
            self.last = now
        self.done += 1


@contextmanager
def bar(label: str, total: int) -> Iterator[Bar]:
    """Show the progress of `total` items until the block ends."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        yield _Plain(label, total)
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Plain(label, total)
        return
    columns = (
        TextColumn(label),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[item]}"),
    )
    with Progress(*columns, console=console, transient=True) as display:
        task = display.add_task(label, total=total, item="")
        started = False

        class Rich:
            def step(self, text: str = "") -> None:
                nonlocal started
                display.update(task, advance=1 if started else 0, item=text)
                started = True

        yield Rich()


def say(text: str) -> None:
    """Print one line on standard error."""
    print(text, file=sys.stderr, flush=True)
