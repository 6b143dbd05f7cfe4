"""Other processes: how busy they kept the machine during a run, and waiting until they rest.

Two threads on two cores are worth nothing when a third process wants one of them, and
no statistic repairs that: the reader has to know.
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

COMPUTE = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0))).start()
while True: pass
"""


class Load:
    """CPU time of other processes since this was made.

    Ask after the processes that were started here have been waited for: only then does
    the system count their time as ours.
    """

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._busy, self._own = _busy(), _own()

    def foreign(self) -> float:
        """Return how many cores others kept busy, on average; 0 where the system does not say."""
        spent = time.monotonic() - self._start
        others = (_busy() - self._busy) - (_own() - self._own)
        return max(0.0, others / spent) if spent > 0 else math.nan


class Quiet:
    """Waits before a sample until nothing else runs, `patience` seconds at most in a whole run."""

    CALM, STEP = 4, 0.002

    def __init__(self, patience: float) -> None:
        self.left = patience

    def wait(self) -> None:
        """Return when several looks in a row found this process alone, or the patience is used up."""
        calm, start = 0, time.monotonic()
        while calm < self.CALM and time.monotonic() - start <= self.left:
            time.sleep(self.STEP)
            calm = calm + 1 if running() <= 1 else 0
        self.left -= max(0.0, time.monotonic() - start - 2 * self.CALM * self.STEP)


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep so many cores busy by processes that compute for ever, as a neighbour on a shared machine does."""
    # They end with this process, even where it is killed: their input closes.
    crew = [subprocess.Popen([sys.executable, "-c", COMPUTE], stdin=subprocess.PIPE) for _ in range(count)]
    try:
        yield
    finally:
        for process in crew:
            process.kill()
        for process in crew:
            process.communicate()


def running() -> int:
    """Threads of the whole system that run or could run now, the caller included; 0 where it is not told."""
    try:
        text = Path("/proc/stat").read_text(encoding="ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("procs_running")), 0)


def _busy() -> float:
    """CPU seconds that all processes (and the hypervisor's other guests) have used since the start."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    except OSError:
        return math.nan
    user, nice, system, _idle, _iowait, irq, softirq, steal = (int(field) for field in fields[:8])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _own() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
