"""How long a call takes: over as many in a row as fill a sample."""

from __future__ import annotations

import time
from collections.abc import Callable


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
