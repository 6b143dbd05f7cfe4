"""How long a call takes: over as many in a row as fill a sample."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import repeat
from typing import Any


def loops(call: Callable[[], object], sample: float) -> int:
    """Return how many calls fill a sample of so many seconds, by the second call; the first one warms up."""
    call()
    start = time.perf_counter()
    call()
    return max(1, int(sample / max(time.perf_counter() - start, 1e-9)))


def per_call(call: Callable[[], object], count: int) -> float:
    """Return the seconds of a call, over so many in a row."""
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def seconds(call: Callable[[], object], sample: float) -> float:
    """Return the seconds of a call over one sample.

    Examples
    --------
    >>> seconds(lambda: None, 1e-4) > 0
    True
    """
    return per_call(call, loops(call, sample))


class Products:
    """A plan and its operands, timed without the call around them.

    That takes 12 us, mostly for the checks of its operands, as long as a thousand tiny products: it is measured by
    calls that compute none, and taken off.
    """

    def __init__(self, plan: Any, operands: tuple[Any, ...]) -> None:
        self.plan, self.operands = plan, operands
        self.around = min(self._took(0) for _ in range(10))

    def loops(self, sample: float) -> int:
        """Return how many products fill a sample of so many seconds."""
        count = 1
        # (The better of two: one that is interrupted looks as long as a sample.)
        while (took := min(self.seconds(count), self.seconds(count))) * count < sample / 4:
            count *= 4
        return max(1, int(sample / took))

    def seconds(self, count: int) -> float:
        """Return the seconds of a product, over so many."""
        return max(self._took(count) - self.around, 1e-12) / count

    def _took(self, count: int) -> float:
        start = time.perf_counter()
        self.plan.run(*self.operands, count)
        return time.perf_counter() - start


def bare(call: Callable[..., Any], arguments: tuple[Any, ...], count: int) -> float:
    """Return the seconds of so many calls with two or three positional arguments, without anything in between.

    A closure around the call, or a tuple that is unpacked for it, would cost as much as a small product does.  The loop
    itself is in it: `empty` says how much.
    """
    clock = time.perf_counter
    turns = repeat(None, count)
    if len(arguments) == 2:
        a, b = arguments
        start = clock()
        for _ in turns:
            call(a, b)
        return clock() - start
    a, b, c = arguments
    start = clock()
    for _ in turns:
        call(a, b, c)
    return clock() - start


def empty(count: int) -> float:
    """Return the seconds of a loop like that of `bare` without a call."""
    clock = time.perf_counter
    turns = repeat(None, count)
    start = clock()
    for _ in turns:
        pass
    return clock() - start
