"""The process that runs candidates: ``python -m fastgemm.tune.worker``.

Its input is one JSON object a line, its output one JSON object for each:

=========== ============================== ==================================================
``op``      fields                         answer
=========== ============================== ==================================================
``problem`` ``problem``, ``seed``          ``{"outcome": "ok"}``; operands and reference are there
``time``    ``config``, ``limit``          outcome, ``samples`` (seconds of a call), ``detail``
``rounds``  ``configs``, ``count``,        outcome, ``samples``: a list for each configuration
            ``bare``
=========== ============================== ==================================================

The configuration of the family ``numpy`` is `np.matmul` itself.  ``bare`` repeats calls below Python,
whose share of a call is longer than a small product.

A candidate that kills or hangs this process costs its parent one trial: it sees the
pipe close, or its patience end, and starts another process.  ``patience`` in a request
makes this process end itself too, so that nothing keeps running if the parent is gone.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

import numpy as np

from ..problem import Config, Problem
from .operands import error, operands, output, reference, spoil, tolerance
from .shapes import from_fields

Run = Callable[..., object]
"""Called with A, B and C, and where calls are repeated below Python, how many times over."""
Sample = Callable[[int], float]
"""Makes so many calls; returns the seconds of one."""
Make = Callable[[Problem, Config], Run]
"""Turns a configuration into the call to be timed; one of `REFUSALS` means that it is illegal."""

Opened = Callable[[Problem, int], Any]
"""Makes what candidates of a problem are timed with, operands by a seed: a `Bench`, or what has its methods."""

# It does not fit the problem; this CPU or build lacks its ISA tier.
REFUSALS = (ValueError, RuntimeError)

# A sample is long enough for the clock's 30 to 50 ns to vanish in it, and a trial has enough of
# them for a median, as long as they do not take longer than a search can afford.
SAMPLE_SECONDS = 200e-6
TRIAL_SECONDS = 20e-3
MIN_SAMPLES, MAX_SAMPLES = 3, 25

# What is this much slower than the best so far is not worth more than one sample; what is slower by the second in the
# least of MIN_SAMPLES is not worth more than those.
HOPELESS, BEATEN = 3.0, 1.25


class Bench:
    """The operands, output and reference of one problem, and the timing of calls on them."""

    def __init__(self, problem: Problem, seed: int, make: Make) -> None:
        self.problem, self._make = problem, make
        self.a, self.b = operands(problem, seed)
        self.out = output(problem)
        self.reference = reference(problem, self.a, self.b)

    def candidate(self, fields: dict[str, Any]) -> Config:
        """Return the configuration that a request describes."""
        return Config(**fields)

    def call(self, config: Config) -> Callable[[], object]:
        """Return the call to be timed; one of `REFUSALS` when the configuration is illegal."""
        if config.family == "numpy":
            return lambda: np.matmul(self.a, self.b, out=self.out, dtype=self.out.dtype)
        run = self._make(self.problem, config)
        return lambda: run(self.a, self.b, self.out)

    def error(self, call: Callable[[], object]) -> float:
        """Run once into an output of nonsense and return the largest difference from the reference."""
        spoil(self.problem, self.out)
        call()
        return error(self.problem, self.out, self.reference)

    def time(self, config: Config, limit: float) -> dict[str, Any]:
        """Check a configuration and time it; `limit` is the best time so far."""
        try:
            call = self.call(config)
        except REFUSALS as error:
            return {"outcome": "illegal", "detail": str(error)}
        off, allowed = self.error(call), tolerance(self.problem)
        if not off <= allowed:
            return {"outcome": "wrong", "detail": f"off by {off:.3g} where {allowed:.3g} is allowed"}
        number, first = _calibrate(functools.partial(_sample, call))
        samples = [first]
        if first <= HOPELESS * limit:
            samples += [_sample(call, number) for _ in range(MIN_SAMPLES - 1)]
            if min(samples) <= BEATEN * limit:
                most = min(MAX_SAMPLES, int(TRIAL_SECONDS / (first * number)))
                samples += [_sample(call, number) for _ in range(most - MIN_SAMPLES)]
        return {"outcome": "ok", "samples": samples}

    def repeated(self, config: Config) -> Sample:
        """Return what takes a sample of so many calls without Python in between."""
        run = self._make(self.problem, config)

        def sample(number: int) -> float:
            start = time.perf_counter()
            run(self.a, self.b, self.out, number)
            return (time.perf_counter() - start) / number

        return sample

    def rounds(self, configs: list[Config], count: int, bare: bool = False) -> dict[str, Any]:
        """Time configurations in turn, the order reversed every other round against drift.

        One that is illegal or wrong after all has no samples.
        """
        samples: list[list[float]] = [[] for _ in configs]
        takers: dict[int, Sample] = {}
        for index, config in enumerate(configs):
            with contextlib.suppress(*REFUSALS):
                call = self.call(config)
                if self.error(call) <= tolerance(self.problem):
                    takers[index] = self.repeated(config) if bare else functools.partial(_sample, call)
        numbers = [_calibrate(take)[0] for take in takers.values()]
        for turn in range(count):
            for index in list(takers)[:: 1 if turn % 2 == 0 else -1]:
                if max(numbers) > 1:
                    # What ran before has left its own blocks in the caches; slow calls replace them by themselves.
                    takers[index](1)
                samples[index].append(takers[index](max(numbers)))
        return {"outcome": "ok", "samples": samples}


def serve(opened: Opened, requests: TextIO, answers: TextIO) -> None:
    """Answer requests until there are no more."""
    bench: Any = None
    for line in requests:
        request = json.loads(line)
        faulthandler.dump_traceback_later(request.get("patience", 3600), exit=True)
        if request["op"] == "problem":
            bench = opened(from_fields(request["problem"]), request["seed"])
            answer: dict[str, Any] = {"outcome": "ok"}
        elif bench is None:
            raise ValueError("the first request must be a problem")
        elif request["op"] == "time":
            answer = bench.time(bench.candidate(request["config"]), request["limit"])
        else:
            configs = [bench.candidate(fields) for fields in request["configs"]]
            answer = bench.rounds(configs, request["count"], request.get("bare", False))
        faulthandler.cancel_dump_traceback_later()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def main(make: Make | None = None) -> None:
    """Serve standard input and output.

    `make` is there for tests and for timing kernels that are no part of the package; the
    default makes a `fastgemm.plan.Plan`.
    """
    listen(lambda problem, seed: Bench(problem, seed, make or _plan))


def listen(opened: Opened) -> None:
    """Serve standard input and output with the operands and calls of `opened`."""
    # Ctrl-C reaches the whole process group, and the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    # Whatever a library prints must not end up between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(opened, sys.stdin, answers)


def _plan(problem: Problem, config: Config) -> Run:
    from ..plan import Plan

    run: Run = Plan(problem, config).run
    return run


def _sample(call: Callable[[], object], number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        call()
    return (time.perf_counter() - start) / number


def _calibrate(take: Sample) -> tuple[int, float]:
    """Calls that make up a sample, and the time of one call in such a sample."""
    number, seconds = 1, take(1)
    while seconds * number < SAMPLE_SECONDS:
        number = max(2 * number, min(10 * number, int(SAMPLE_SECONDS / seconds)))
        seconds = take(number)
    return number, seconds


if __name__ == "__main__":
    main()
