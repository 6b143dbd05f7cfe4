"""Files that several processes write: a lock, and replacement in one step."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # no POSIX: the last of two simultaneous writers wins
    fcntl = None  # type: ignore[assignment]

# The lock is held for milliseconds; whoever has it this long is stopped or stuck.
LOCK_SECONDS = 30.0


def replace(target: Path, text: str) -> None:
    """Give a file new contents, all at once; the lock is held."""
    # Under the lock nobody else has this name; what a killed writer left is overwritten.
    part = target.with_name(f".{target.name}.part" if fcntl else f".{target.name}.{os.getpid()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(part, flags, 0o666), "w", encoding="ascii") as file:
        with contextlib.suppress(FileNotFoundError, AttributeError):
            os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, target)
    # The new name is on the disk only when the folder is.
    with contextlib.suppress(OSError):
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextlib.contextmanager
def locked(target: Path) -> Iterator[None]:
    """Hold the lock of a database file.

    The lock is a file of its own, because the database file is replaced, and it is never
    removed: a process may be waiting on it that would then hold a lock nobody else sees.
    """
    if fcntl is None:
        yield
        return
    lock = target.with_name(f".{target.name}.lock")
    with open(lock, "ab") as file:
        until = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise TimeoutError(f"{lock} has been locked by another process for {LOCK_SECONDS:.0f} s") from None
                time.sleep(0.01)
        try:
            yield
        finally:
            # Closing is not enough: a child forked meanwhile has the same open file.
            fcntl.flock(file, fcntl.LOCK_UN)
