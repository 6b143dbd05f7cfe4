"""The log of shapes without a record of their own: FASTGEMM_LOG_UNTUNED=FILE.

A line is a JSON object with the fields of a `Problem`, and ``calls``.  A shape is written when it is first seen, so
that a program that is killed leaves it behind, and once more at the end, with the calls since then.  ``python -m
fastgemm.tune --from-log FILE`` adds the lines up and tunes what took the most time first.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict

from .driver import _plan
from .problem import Problem

NAME = "FASTGEMM_LOG_UNTUNED"

_seen: set[Problem] = set()


def saw(problem: Problem) -> None:
    """Note a problem that is resolved without a record."""
    if problem in _seen:
        return
    if not _seen:
        _plan.take_counts()
        _plan.count_calls(True)
        atexit.register(flush)
        _with_multiprocessing()
    _seen.add(problem)
    _append([(problem, 1)])


@functools.cache
def file(named: str) -> str:
    """Return the log that a name means: where it was first asked for, whatever folder the program goes to later.

    Examples
    --------
    >>> import os
    >>> from fastgemm import untuned
    >>> untuned.file("untuned.jsonl") == os.path.abspath("untuned.jsonl")
    True
    """
    return os.path.abspath(os.path.expanduser(named))


def flush() -> None:
    """Write the calls that were made since the last time."""
    _append([(problem, calls) for problem, calls in _plan.take_counts() if problem in _seen])


def _append(counts: list[tuple[Problem, int]]) -> None:
    named = os.environ.get(NAME)
    if not named or not counts:
        return
    lines = [json.dumps({**asdict(problem), "calls": calls}) + "\n" for problem, calls in counts]
    # Opened for appending, one write for all: lines of several processes do not mix.
    try:
        with open(file(named), "a", encoding="utf-8") as out:
            out.write("".join(lines))
    except OSError as error:
        os.environ.pop(NAME, None)
        warnings.warn(f"{NAME}={named}: {error.strerror}; not logging", RuntimeWarning, stacklevel=2)


def _in_child() -> None:
    # The parent writes what it counted so far; the child begins at zero.
    if _seen:
        _plan.take_counts()
        _with_multiprocessing()


def _with_multiprocessing() -> None:
    """Write the calls at the end of a process of `multiprocessing` too, which leaves without what `atexit` has."""
    # After a fork it forgets what was to be done at the end, and then does what is to be done after a fork.
    if (util := sys.modules.get("multiprocessing.util")) is not None:
        util.register_after_fork(flush, _at_its_end)
        _at_its_end(flush)


def _at_its_end(write: Callable[[], None]) -> None:
    sys.modules["multiprocessing.util"].Finalize(None, write, exitpriority=0)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
