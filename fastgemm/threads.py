"""How many threads a call may use.

The number for the process is FASTGEMM_NUM_THREADS, or OMP_NUM_THREADS, but never more than the cores that
affinity and cgroup quota really give unless one of the two asks for it.  `threads` sets it for one block of
one thread's code.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from . import cpu, variables
from .driver import _team
from .problem import MAX_THREADS


def _checked(count: object) -> int:
    if isinstance(count, bool) or not hasattr(count, "__index__"):
        raise TypeError(f"number of threads must be an int, not {type(count).__name__}")
    number = count.__index__()
    if not 1 <= number <= MAX_THREADS:
        raise ValueError(f"number of threads must be between 1 and {MAX_THREADS}, not {number}")
    return int(number)


def allowed(count: object) -> int:
    """Return how many threads a call that asks for `count` may have: one in a build without OpenMP.

    Raises
    ------
    TypeError, ValueError
        For what is no number of threads.
    """
    number = _checked(count)
    return number if _team.openmp else 1


def set_num_threads(count: int) -> None:
    """Set how many threads a call may use, for the whole process.

    Parameters
    ----------
    count : int
        1 to 1024.  Small products use fewer.  A build without OpenMP has one thread, whatever is asked for.

    Examples
    --------
    >>> import fastgemm
    >>> before = fastgemm.get_num_threads()
    >>> fastgemm.set_num_threads(1)
    >>> fastgemm.get_num_threads()
    1
    >>> fastgemm.set_num_threads(before)
    """
    _team.set_threads(allowed(count))


def get_num_threads() -> int:
    """Return how many threads a call made here and now may use.

    Examples
    --------
    >>> import fastgemm
    >>> fastgemm.get_num_threads() >= 1
    True
    """
    return int(_team.get_threads())


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Limit the calls of this Python thread inside a ``with`` block.

    Parameters
    ----------
    count : int
        1 to 1024.

    Examples
    --------
    >>> import fastgemm
    >>> with fastgemm.threads(1):
    ...     fastgemm.get_num_threads()
    1
    """
    before = _team.swap_thread_limit(allowed(count))
    try:
        yield
    finally:
        _team.swap_thread_limit(before)


def _from_environment(name: str) -> int | None:
    text = os.environ.get(name, "").split(",")[0].strip()
    if not text:
        return None
    count = variables.whole(text)
    if count is not None and 1 <= count <= MAX_THREADS:
        return count
    warnings.warn(f"{name}={text!r} is not a number of threads (1 to {MAX_THREADS}); ignored", RuntimeWarning,
                  stacklevel=2)
    return None


def default() -> int:
    """Return the number that a new process starts with."""
    for name in ("FASTGEMM_NUM_THREADS", "OMP_NUM_THREADS"):
        number = _from_environment(name)
        if number is not None:
            return allowed(number)
    return allowed(min(cpu.cores(), MAX_THREADS))


_team.set_threads(default())
