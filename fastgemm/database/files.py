"""Files that several processes write: what is read of them, a lock, and replacement in one step."""

from __future__ import annotations

import contextlib
import errno
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


def regular(path: Path, most: int) -> bytes | None:
    """Return the bytes of a regular file, at most so many; None where there is none.

    Raises
    ------
    OSError
        For anything else: a folder, a pipe, a device, a larger file.
    """
    try:
        status = path.stat()
        # Not opened before that is clear: opening a pipe waits for somebody to write.
        if stat.S_ISDIR(status.st_mode):
            said = "it is a folder" if os.access(path, os.R_OK) else "a folder without permission to read it"
            raise IsADirectoryError(errno.EISDIR, said, str(path))
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        # The file may grow meanwhile.
        with open(path, "rb") as file:
            data = file.read(most + 1) if status.st_size <= most else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    if data is None or len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {most >> 20} MiB", str(path))
    return data


def resolved(path: Path | str) -> Path:
    """Return the place that a path means, every link followed; OSError where links go round in a circle."""
    target = Path(os.path.realpath(path))
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.stat(target)
    return target


def check_replaceable(target: Path) -> None:
    """Raise OSError where a file may not be replaced, or made, by one with new contents.

    The file's own mode counts as well as its folder's, which is all that a renaming asks for: who has made a file
    read-only means it.
    """
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(target))
    if target.parent.exists() and not target.parent.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(target.parent))
    for needed, mode in ((target, os.W_OK), (target.parent, os.W_OK | os.X_OK)):
        if needed.exists() and not os.access(needed, mode):
            raise PermissionError(errno.EACCES, "no permission to write it", str(needed))


def replace(target: Path, text: str) -> None:
    """Give a file new contents, all at once; the lock is held."""
    check_replaceable(target)
    # Under the lock nobody else has this name; what a killed writer left is overwritten.
    part = target.with_name(f".{target.name}.part" if fcntl else f".{target.name}.{os.getpid()}.part")
    try:
        _write(part, target, text)
        os.replace(part, target)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    # The new name is on the disk only when the folder is.
    with contextlib.suppress(OSError):
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _write(part: Path, target: Path, text: str) -> None:
    """Write a file of the target's mode, and wait until the disk has it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    # What is JSON is ASCII; a table may have half a surrogate pair in a name, which UTF-8 has not.
    with os.fdopen(os.open(part, flags, 0o666), "w", encoding="utf-8", errors="backslashreplace") as file:
        with contextlib.suppress(FileNotFoundError, AttributeError):
            os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


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
    with os.fdopen(_lock_file(lock), "rb") as file:
        until = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    said = f"locked by another process for {LOCK_SECONDS:.0f} s"
                    raise TimeoutError(errno.ETIMEDOUT, said, str(lock)) from None
                time.sleep(0.01)
        try:
            yield
        finally:
            # Closing is not enough: a child forked meanwhile has the same open file.
            fcntl.flock(file, fcntl.LOCK_UN)


def _lock_file(lock: Path) -> int:
    """Open a lock file, which is made when missing; another user's may be for reading only."""
    try:
        return os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)  # NFS locks only what is open for writing
    except PermissionError:
        with contextlib.suppress(OSError):
            return os.open(lock, os.O_RDONLY)
        raise
