"""Locks that no child process finds taken."""

from __future__ import annotations

import os
import threading


def lock() -> threading.RLock:
    """Return a lock that a fork waits for and takes: in the child it is free, and what it guards is whole.

    Of several the one that was made last is taken first, so a module's lock may be held while those of modules that it
    imports are taken, not the other way round.

    Examples
    --------
    >>> from fastgemm import locks
    >>> guard = locks.lock()
    >>> with guard, guard:     # a warning's hook may multiply, too
    ...     pass
    """
    made = threading.RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=made.acquire, after_in_parent=made.release, after_in_child=made.release)
    return made
