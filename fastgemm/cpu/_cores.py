"""How many CPUs this process gets: its affinity, and the quota of its control groups.

A container with ``--cpus=2`` on a host of 64 sees 64 CPUs in its affinity.  Threads
beyond the quota do not run faster, they stop together when it is used up.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath


def affinity() -> tuple[int, ...]:
    """Return the CPUs that the calling thread may run on, in ascending order.

    Examples
    --------
    >>> from fastgemm import cpu
    >>> len(cpu.affinity()) >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        try:
            return tuple(sorted(os.sched_getaffinity(0)))
        except OSError:  # a sandbox may forbid the call
            pass
    return tuple(range(os.cpu_count() or 1))


def quota(root: Path | str = "/") -> float | None:
    """Return the CPUs' worth of time that the control groups allow; None without a limit.

    Every group from the process's own up to the top of its mount limits it, so the
    smallest limit counts.  Version 1 and version 2 may both be mounted.

    Parameters
    ----------
    root : path, optional
        Where ``proc`` and ``sys`` are found.

    Examples
    --------
    >>> from fastgemm.cpu import quota
    >>> limit = quota()
    >>> limit is None or limit > 0
    True
    """
    root = Path(root)
    limits = [limit for group, version in _groups(root) if (limit := _limit(group, version)) is not None]
    return min(limits, default=None)


def cores(root: Path | str = "/") -> int:
    """Return how many threads can make progress at once: affinity and quota, at least 1.

    Examples
    --------
    >>> from fastgemm import cpu
    >>> 1 <= cpu.cores() <= len(cpu.affinity())
    True
    """
    count, limit = len(affinity()), quota(root)
    if limit is not None:
        count = min(count, math.ceil(limit))
    return max(count, 1)


def _groups(root: Path) -> Iterator[tuple[Path, int]]:
    """Yield the folder and version of every control group that limits this process's CPU time."""
    paths = dict(_memberships(_read(root / "proc/self/cgroup")))
    for version, mounted, point in _mounts(_read(root / "proc/self/mountinfo")):
        path = paths.get(version)
        if path is None:
            continue
        top = root / point.lstrip("/")
        # What is mounted may itself be a group deep in the hierarchy (a container
        # without a namespace of its own); /proc still names the path from the very top.
        try:
            below = PurePosixPath(path).relative_to(mounted)
        except ValueError:
            below = PurePosixPath()
        if ".." in below.parts:  # the process is outside the tree that it sees
            below = PurePosixPath()
        for part in (below, *below.parents):
            yield top / part, version


def _memberships(text: str) -> Iterator[tuple[int, str]]:
    """Yield (version, path) of the process's groups from the text of ``/proc/self/cgroup``."""
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            yield 2, path
        elif "cpu" in controllers.split(","):
            yield 1, path


def _mounts(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (version, mounted path, mount point) from the text of ``/proc/self/mountinfo``."""
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(" "), right.split(" ")
        if len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2":
            yield 2, _unescape(fields[3]), _unescape(fields[4])
        elif kind[0] == "cgroup" and "cpu" in kind[2].split(","):
            yield 1, _unescape(fields[3]), _unescape(fields[4])


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _limit(group: Path, version: int) -> float | None:
    if version == 2:
        words = _read(group / "cpu.max").split()
    else:
        words = [_read(group / name).strip() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")]
    # No limit reads "max" in version 2 and -1 in version 1: neither is all digits.
    if len(words) != 2 or not all(word.isdecimal() and len(word) < 19 for word in words):
        return None
    allowed, period = map(int, words)
    return allowed / period if allowed > 0 and period > 0 else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except (OSError, ValueError):
        return ""
