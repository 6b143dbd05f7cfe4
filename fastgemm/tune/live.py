"""The runner that times kernels: a worker process, watched from outside.

The worker is `fastgemm.tune.worker`.  It is spawned, not forked: an OpenMP pool does not
live through a fork.  When it dies or does not answer in time the configuration that it
was given has failed, and the next one gets a new worker.
"""

from __future__ import annotations

import json
import math
import os
import queue
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..problem import Config, Problem
from .measure import Measurement

PROGRAM = "from fastgemm.tune import worker; worker.main()"

# For one candidate, and for a process to start: what does not grow with the problem.  Far above what
# either takes, because a machine may be busy.
PATIENCE = 30.0
OPENING_PATIENCE = 120.0

# A candidate is given up after this many times what its calls take at the heuristic's speed.
PATIENCE_FACTOR = 40

# NumPy's BLAS makes the reference (in one thread) and the operands come from one thread too: seconds a
# real operation and seconds an element, five times slower than on any machine measured so far.
REFERENCE_SECONDS = 1 / 5e9
OPERAND_SECONDS = 50e-9

_POOLS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


class Failure(Exception):
    """A worker that died, or did not answer in time; `outcome` says which."""

    def __init__(self, outcome: str, detail: str) -> None:
        super().__init__(detail)
        self.outcome = outcome


def command(program: str) -> list[str]:
    """Return the command that runs Python source in a new process, which imports what this process would.

    It gets this process's flags and its `sys.path`, as the processes of `multiprocessing` do.  By itself Python would
    put the working directory first, which this process need not have, and PYTHONPATH comes before Python's own library.
    """
    # The package's own folder too: a relative path may have led to it, from a working directory that was left since.
    path = [*map(os.path.abspath, sys.path), str(Path(__file__).resolve().parents[2])]
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return [sys.executable, *flags, "-c", f"import sys; sys.path[:] = {path!a}\n{program}"]


class Worker:
    """One worker process and its pipes.

    Parameters
    ----------
    program : str
        What it runs (see `command`); it speaks the protocol of `fastgemm.tune.worker`.
    blas_threads : int
        Threads of NumPy's BLAS in the worker.  It is 1 where kernels are timed: two thread pools in one
        process fight for the cores.
    """

    def __init__(self, program: str = PROGRAM, blas_threads: int = 1) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        environment = {**os.environ, **dict.fromkeys(_POOLS, str(blas_threads))}
        self._process = subprocess.Popen(
            command(program),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            text=True,
            encoding="utf-8",
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        # A thread reads, because a pipe cannot be read with a time-out on every system.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, request: dict[str, Any], patience: float) -> dict[str, Any]:
        """Send a request and return its answer; `Failure` when there is none."""
        assert self._process.stdin is not None
        try:
            # The worker ends itself a little later than it is ended from here.
            self._process.stdin.write(json.dumps({**request, "patience": patience + 5}) + "\n")
            self._process.stdin.flush()
            line = self._lines.get(timeout=patience)
        except queue.Empty:
            raise Failure("timeout", f"no answer within {patience:.0f} s") from None
        except OSError:
            line = ""
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            raise Failure("crash", self._last_words()) from None
        return answer

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        # Closing a pipe that another thread reads would wait for that thread.
        self._reader.join(timeout=5)
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:
                pass  # a request that could not be flushed to a dead process
        self._errors.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                self._lines.put(line)
        except ValueError:
            pass  # closed while reading
        self._lines.put("")

    def _last_words(self) -> str:
        """How the process ended and the last line that it wrote about it."""
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "its answer could not be read"
        how = f"exit code {code}"
        if code < 0:
            how = signal.Signals(-code).name if -code in {s.value for s in signal.Signals} else f"signal {-code}"
        self._errors.seek(0)
        words = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        # faulthandler's first line is the reason, a Python traceback's last one.
        said = next((line for line in words if line.startswith("Fatal")), words[-1] if words else "")
        return f"{how}: {said}" if said else how


class LiveRunner:
    """Times a problem's configurations in worker processes.

    Parameters
    ----------
    problem : Problem
        What is computed.
    seed : int
        Seed of the operands.
    timeout : float
        The least patience with one candidate, in seconds; slow problems get more.
    program : str
        What the worker runs.
    """

    def __init__(
        self, problem: Problem, seed: int = 0, timeout: float = PATIENCE, program: str = PROGRAM
    ) -> None:
        self._problem, self._seed, self._timeout, self._program = problem, seed, timeout, program
        self._worker: Worker | None = None
        self._best = math.inf

    def measure(self, configs: Sequence[Config]) -> list[Measurement]:
        """Check and time each configuration."""
        return [self._measure(config) for config in configs]

    def rounds(self, configs: Sequence[Config], count: int) -> list[list[float]]:
        """Time the configurations in turn; all lists are empty when that fails."""
        calls = count * len(configs) * 3
        fields = [self._fields(config) for config in configs]
        request = {"op": "rounds", "configs": fields, "count": count}
        try:
            answer = self._ask(request, self._patience(calls))
        except Failure:
            return [[] for _ in configs]
        return answer.get("samples") or [[] for _ in configs]

    def numpy_seconds(self) -> float:
        """Time `np.matmul` in a process of its own, with as many threads as the problem allows."""
        self.close()  # its operands would be in memory twice
        worker = Worker(self._program, blas_threads=self._problem.threads)
        try:
            worker.ask(self._opening(), self._opening_patience())
            request = {"op": "time", "config": asdict(Config("numpy")), "limit": math.inf}
            # NumPy has no tuned time to compare with: twenty times slower than the best is still an answer.
            answer = worker.ask(request, 20 * self._patience(1))
        except Failure:
            return math.nan
        finally:
            worker.close()
        return statistics.median(answer["samples"]) if answer["outcome"] == "ok" else math.nan

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _fields(self, config: Any) -> dict[str, Any]:
        """What the worker is told of a configuration."""
        return asdict(config)

    def _measure(self, config: Config) -> Measurement:
        request = {"op": "time", "config": self._fields(config), "limit": self._best}
        try:
            answer = self._ask(request, self._patience(1))
        except Failure as failure:
            return Measurement(config, failure.outcome, detail=str(failure))
        if answer["outcome"] != "ok":
            return Measurement(config, answer["outcome"], detail=answer["detail"])
        seconds = statistics.median(answer["samples"])
        self._best = min(self._best, seconds)
        return Measurement(config, "ok", seconds)

    def _patience(self, calls: int) -> float:
        expected = self._best if self._best < math.inf else self._problem.flops * REFERENCE_SECONDS
        return self._timeout + PATIENCE_FACTOR * calls * expected

    def _opening(self) -> dict[str, Any]:
        return {"op": "problem", "problem": asdict(self._problem), "seed": self._seed}

    def _opening_patience(self) -> float:
        p = self._problem
        elements = p.batch * (p.m * p.k + p.k * p.n + p.m * p.n)
        return OPENING_PATIENCE + p.flops * REFERENCE_SECONDS + elements * OPERAND_SECONDS

    def _ask(self, request: dict[str, Any], patience: float) -> dict[str, Any]:
        try:
            if self._worker is None:
                self._worker = Worker(self._program)
                self._worker.ask(self._opening(), self._opening_patience())
            return self._worker.ask(request, patience)
        except Failure:
            self.close()
            raise
