"""The process that runs candidates; `live` starts it.

Its input is one JSON object a line, its output one JSON object for each:

=========== ============================== ==================================================
``op``      fields                         answer
=========== ============================== ==================================================
``problem`` ``problem``, ``seed``          ``{"outcome": "ok"}``; operands and reference are there
``time``    ``config``, ``limit``          outcome, ``samples`` (seconds of a call), ``detail``
``rounds``  ``configs``, ``count``         outcome, ``samples``: a list for each configuration
=========== ============================== ==================================================

The configuration of the family ``numpy`` is `np.matmul` itself.  Plans are repeated below Python: `Plan.run` takes 9 us
to check its arrays, where `fastgemm.matmul` takes 0.1, so that 64x64x64 in float32 seemed to take 11 us instead of 2.2
(Zen 5), and two threads looked as good as one where they are half as fast.

A candidate that kills or hangs this process costs its parent one trial: it sees the
pipe close, or its patience end, and starts another process.  ``patience`` in a request
makes this process end itself too, so that nothing keeps running if the parent is gone.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

import numpy as np

from ..problem import Config, Problem
from .operands import Array, error, operands, output, reference, spoil, tolerance
from .shapes import from_fields

Run = Callable[[Any, Any, Any, int], object]
"""Computes C from A and B, so many times over."""
Repeat = Callable[[int], object]
"""Computes the product so many times over."""
Make = Callable[[Problem, Config], Run]
"""Turns a configuration into the call to be timed; one of `REFUSALS` means that it is illegal."""

Opened = Callable[[Problem, int], Any]
"""Makes what candidates of a problem are timed with, operands by a seed: a `Bench`, or what has its methods."""

# It does not fit the problem; this CPU or build lacks its ISA tier.
REFUSALS = (ValueError, RuntimeError)

# A sample is long enough for what surrounds it to vanish: the 9 us of `Plan.run`, the clock's 30 to 50 ns.  A trial has
# enough of them for a median, as long as they do not take longer than a search can afford.
SAMPLE_SECONDS = 500e-6
TRIAL_SECONDS = 20e-3
MIN_SAMPLES, MAX_SAMPLES = 3, 25

# What is this much slower than the best so far is not worth more than one sample; what is slower by the second in the
# least of MIN_SAMPLES is not worth more than those.
HOPELESS, BEATEN = 3.0, 1.25
# Seconds from which a call is long by itself, and is not made again to find out.
STALL = 0.1


class Bench:
    """The operands, output and reference of one problem, and the timing of calls on them."""

    def __init__(self, problem: Problem, seed: int, make: Make) -> None:
        self.problem, self._make = problem, make
        self.allowed = tolerance(problem)
        self.a, self.b = operands(problem, seed)
        self.out = output(problem)
        self.reference = reference(problem, self.a, self.b)

    def candidate(self, fields: dict[str, Any]) -> Config:
        """Return the configuration that a request describes."""
        return Config(**fields)

    def repeat(self, config: Config) -> Repeat:
        """Return what is to be timed; one of `REFUSALS` when the configuration is illegal."""
        run = self._numpy if config.family == "numpy" else self._make(self.problem, config)
        return lambda times: run(self.a, self.b, self.out, times)

    def error(self, repeat: Repeat) -> float:
        """Run once into an output of nonsense and return the largest difference from the reference."""
        spoil(self.problem, self.out)
        repeat(1)
        return error(self.problem, self.out, self.reference)

    def time(self, config: Config, limit: float) -> dict[str, Any]:
        """Check a configuration and time it; `limit` is the best time so far."""
        try:
            repeat = self.repeat(config)
        except REFUSALS as error:
            return {"outcome": "illegal", "detail": str(error)}
        off, allowed = self.error(repeat), self.allowed
        if not off <= allowed:
            return {"outcome": "wrong", "detail": f"off by {off:.3g} where {allowed:.3g} is allowed"}
        number, first = _calibrate(repeat)
        samples = [first]
        if first <= HOPELESS * limit:
            samples += [_sample(repeat, number) for _ in range(MIN_SAMPLES - 1)]
            if min(samples) <= BEATEN * limit:
                most = min(MAX_SAMPLES, int(TRIAL_SECONDS / (first * number)))
                samples += [_sample(repeat, number) for _ in range(most - MIN_SAMPLES)]
        return {"outcome": "ok", "samples": samples}

    def rounds(self, configs: list[Config], count: int) -> dict[str, Any]:
        """Time configurations in turn, the order reversed every other round against drift.

        One that is illegal or wrong after all has no samples.
        """
        samples: list[list[float]] = [[] for _ in configs]
        timed: dict[int, Repeat] = {}
        for index, config in enumerate(configs):
            with contextlib.suppress(*REFUSALS):
                repeat = self.repeat(config)
                if self.error(repeat) <= self.allowed:
                    timed[index] = repeat
        number = max((_calibrate(repeat)[0] for repeat in timed.values()), default=1)
        for turn in range(count):
            for index in list(timed)[:: 1 if turn % 2 == 0 else -1]:
                if number > 1:
                    # What ran before has left its own blocks in the caches; slow calls replace them by themselves.
                    timed[index](1)
                samples[index].append(_sample(timed[index], number))
        return {"outcome": "ok", "samples": samples}

    @staticmethod
    def _numpy(a: Array, b: Array, out: Array, times: int) -> None:
        for _ in range(times):
            np.matmul(a, b, out=out, dtype=out.dtype)


class CalledBench(Bench):
    """The same for problems that the library's own calls run, see `fastgemm.tune.calls`."""

    def __init__(self, problem: Problem, seed: int) -> None:
        from ..threads import set_num_threads
        from .calls import Called

        self.problem, self._called = problem, Called(problem, seed)
        self.allowed = self._called.allowed
        set_num_threads(problem.threads)

    def repeat(self, config: Config) -> Repeat:
        """Return what is to be timed; one of `REFUSALS` when the configuration is illegal."""
        return self._called.repeat(config)

    def error(self, repeat: Repeat) -> float:
        """Run once into an output of nonsense and return the largest difference from the reference."""
        return self._called.error(repeat)


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
            answer = bench.rounds(configs, request["count"])
        faulthandler.cancel_dump_traceback_later()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def main(make: Make | None = None) -> None:
    """Serve standard input and output.

    `make` is there for tests and for timing kernels that are no part of the package; the
    default makes a `fastgemm.plan.Plan`.
    """
    listen(lambda problem, seed: _bench(problem, seed, make))


def listen(opened: Opened) -> None:
    """Serve standard input and output with the operands and calls of `opened`."""
    # Ctrl-C reaches the whole process group, and the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    # Whatever a library prints must not end up between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(opened, sys.stdin, answers)


def _bench(problem: Problem, seed: int, make: Make | None) -> Bench:
    from .calls import needs_calls

    if make is None and needs_calls(problem):
        return CalledBench(problem, seed)
    return Bench(problem, seed, make or _plan)


def _plan(problem: Problem, config: Config) -> Run:
    from ..plan import Plan

    run: Run = Plan(problem, config).run
    return run


def _sample(repeat: Repeat, number: int) -> float:
    start = time.perf_counter()
    repeat(number)
    return (time.perf_counter() - start) / number


def _calibrate(repeat: Repeat) -> tuple[int, float]:
    """Products that make up a sample, and the time of one in such a sample."""
    number, seconds = 1, _sample(repeat, 1)
    if SAMPLE_SECONDS <= seconds < STALL:
        # A small product that waited for the machine would be timed one by one, with Python's share in it.
        seconds = min(seconds, _sample(repeat, 1))
    while seconds * number < SAMPLE_SECONDS:
        number = max(2 * number, min(10 * number, int(SAMPLE_SECONDS / seconds)))
        seconds = _sample(repeat, number)
    return number, seconds
