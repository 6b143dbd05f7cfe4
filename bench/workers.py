"""Processes that time, seen from the one that coordinates them.

A `Worker` is a living process with one library in it.  It is told to time a case *now*
while all others wait, so that libraries take turns within one run and the drift of a
shared machine hits them alike.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import peers
from environment import without_choices

SCRIPT = Path(__file__).with_name("worker.py")
# Threads of the library that ran last still spin for a while: let them go to sleep.
SETTLE = 0.03


class Died(Exception):
    """The process ended or did not answer in time; the text says which and what it wrote."""


class Worker:
    """A process that holds one library.

    Parameters
    ----------
    name : str
        Library, one of `peers.libraries`.
    threads : int
        Threads that it may use; told by environment before anything is imported.
    python : str, optional
        Interpreter that has the library; the running one by default.
    environment : dict, optional
        Further variables (``FASTGEMM_ISA``).
    script : Path, optional
        What the process runs; ``worker.py`` by default, which times products.
    known : dict, optional
        The libraries of that script by name; `peers.libraries` by default.
    label : str, optional
        What results call it; `name` by default.
    """

    def __init__(
        self,
        name: str,
        threads: int,
        python: str | None = None,
        environment: dict[str, str] | None = None,
        script: Path = SCRIPT,
        known: Mapping[str, type[peers.Library]] | None = None,
        label: str | None = None,
    ) -> None:
        self.kind, self.name, self.threads, self.script = name, label or name, threads, script
        self.python = python or sys.executable
        library = (known or peers.libraries())[name]
        self.environment = {**library.environment(threads), **(environment or {})}
        self.about: dict[str, Any] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: Any = None
        self._pending = b""

    def start(self, timeout: float = 120.0) -> dict[str, Any]:
        """Start the process; return what it says about its library (``ok``, ``reason``, ...)."""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed by stop)
        self._pending = b""
        try:
            self._process = subprocess.Popen(
                [self.python, str(self.script), self.kind, str(self.threads)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**without_choices(os.environ), **self.environment},
                bufsize=0,
            )
            self.about = self.ask("hello", timeout=timeout)
        except (Died, OSError) as error:
            self.about = {"ok": False, "reason": str(error), "version": "", "detail": "", "call_cost": 0.0}
        return self.about

    def ask(self, what: str, timeout: float = 120.0, **arguments: Any) -> dict[str, Any]:
        """Send one request and wait for its answer."""
        if self._process is None:
            self.start()
        process = self._process
        if process is None or process.stdin is None:
            raise Died(self.about.get("reason", "not running"))
        try:
            process.stdin.write(json.dumps({"do": what, **arguments}).encode() + b"\n")
        except OSError:
            raise Died(self._obituary()) from None
        answer: dict[str, Any] = json.loads(self._line(time.monotonic() + timeout, timeout))
        return answer

    def _line(self, deadline: float, timeout: float) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        pipe = self._process.stdout
        while b"\n" not in self._pending:
            ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self.stop()
                raise Died(f"no answer within {timeout:.0f} s")
            got = os.read(pipe.fileno(), 1 << 16)
            if not got:
                raise Died(self._obituary())
            self._pending += got
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _obituary(self) -> str:
        assert self._process is not None
        code = self._process.wait()
        self._errors.seek(0)
        text = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        self.stop()
        how = f"killed by signal {-code}" if code < 0 else f"exit status {code}"
        return f"process ended ({how}){': ' + text[-1] if text else ''}"

    @property
    def cpus(self) -> list[int]:
        """The CPUs that a process of one thread takes turns on; none: it stays where the system puts it."""
        found = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        return found if self.threads == 1 and len(found) > 1 else []

    def move(self, turn: int) -> None:
        """Run on the CPU of this turn from now on, where one thread has several to choose from.

        A process stays on the CPU that it has run on.  Beside a neighbour on a core's other hardware thread that one is
        half as fast for minutes, and so are all samples of the library that happens to be there.
        """
        cpus = self.cpus
        if cpus and self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(self._process.pid, {cpus[turn % len(cpus)]})

    def settle(self) -> None:
        """Wait until this library's idle threads sleep; nothing to wait for with one thread."""
        if self.threads > 1:
            time.sleep(SETTLE)

    def stop(self) -> None:
        """End the process; the next request starts a new one."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            # It ends when its input does; a computation that never returns is killed.
            process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        self._errors.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *details: object) -> None:
        self.stop()


def interpreters(options: list[str], names: Iterable[str] | None = None) -> dict[str, str]:
    """Read ``--python`` options: ``NAME=PATH`` for one library, a bare path for all.

    Examples
    --------
    >>> interpreters(["/opt/a/bin/python", "torch=/opt/b/bin/python"])["torch"]
    '/opt/b/bin/python'
    """
    chosen: dict[str, str] = {}
    known = list(names or peers.libraries())
    for option in options:
        name, mark, path = option.partition("=")
        if mark and name in known:
            chosen[name] = path
        elif mark:
            raise ValueError(f"--python {option}: unknown library {name!r}; known: {', '.join(known)}")
        else:
            chosen = {**dict.fromkeys(known, option), **chosen}
    return chosen


def machine() -> dict[str, Any]:
    """What a reader of figures has to know about the machine."""
    import platform

    model = ""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        model = platform.processor()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cpu": model, "cores": cores, "system": platform.system(), "python": platform.python_version()}


def free_memory() -> int:
    """Bytes that can be used without swapping; 8 GiB where the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass
    return 8 << 30
