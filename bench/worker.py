"""The process that holds one library: it answers requests on its standard input.

Started by `workers.Worker`, never by hand.  One JSON object a line each way; the
requests are ``hello``, ``prepare`` (make operands, check the answer, find how many calls
fill one sample), ``time`` (one sample), ``peak`` (FMA peak, fastgemm only) and ``drop``.
"""

from __future__ import annotations

import gc
import itertools
import json
import math
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, ClassVar

import cases
import peak
import peers

# Operands that rotate add up to more than any cache in reach, but stay bounded.
ROTATE_BYTES = 128 << 20
ROTATE_MOST = 4096
# A sample is cut into chunks, each a figure of its own: a stall of 8 ms (a worker woken on its
# caller's core) then spoils one of them instead of the mean of all.  One long call is not enough either: a virtual
# machine whose host takes free memory back pays for a fresh output of 160 MB once 8 ms and once 150, whoever asks.
CHUNKS = 5
# What a sample of so few long calls may take of the budget.
SAMPLE_SHARE = 0.5
# With threads, this long a warm-up lets the scheduler spread them over the cores again.
WARM_SECONDS = 0.03
# And this long at most it waits for a team that rests (`fastgemm/driver/threads.pxd`: 0.16 s at a time).
REST_SECONDS = 0.5


class Session:
    """A library and the product that it is timing."""

    libraries: ClassVar[Callable[[], dict[str, Any]]] = staticmethod(peers.libraries)

    def __init__(self, name: str, threads: int) -> None:
        self.peer = self.libraries()[name]()
        self.threads = threads
        self.bound: list[peers.Bound] = []
        self.loops = 1

    def prepare_least(self) -> None:
        """Prepare what computes next to nothing: it takes as long as a call of the binding does."""
        self.prepare(cases.Case("float32", 1, 1, 1).to_dict(), 0.001, "hot", False, 10.0)

    def hello(self) -> dict[str, Any]:
        """Import the library; say what it is and what a call of its binding costs."""
        try:
            found = self.peer.available(self.threads)
        except (ImportError, OSError, RuntimeError) as error:
            found = peers.Availability(False, str(error))
        answer = {**found._asdict(), "call_cost": 0.0}
        if found.ok:
            # The first call of fastgemm reads the records of this CPU with as many cores as the process has: before
            # it is put on one of them.
            self.prepare_least()
            if self.peer.foreign:
                answer["call_cost"] = min(min(self.time()["seconds"]) for _ in range(3))
            self.drop()
        return answer

    def prepare(
        self, case: dict[str, Any], sample: float, operands: str, reuse_out: bool, budget: float,
        begin: int | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Bind a case; return how many calls make a sample, or ``unsupported``.

        Operands lie where NumPy puts them, or begin so many bytes into a line.
        """
        import numpy as np

        self.drop()
        one = cases.Case(**case)
        try:
            pairs = [cases.operands(one, seed) for seed in range(_sets(one) if operands == "rotated" else 1)]
            if begin is not None:
                pairs = [(cases.begun(a, begin), cases.begun(b, begin)) for a, b in pairs]
            a, b = pairs[0]
            result = cases.numpy_dtype(one.result)
            out = np.empty((*a.shape[:-1], b.shape[-1]), result) if reuse_out else None
            self.bound = [self.peer.bind(a, b, out, result) for a, b in pairs]
        except (peers.Unsupported, ImportError, TypeError) as error:
            return {"unsupported": str(error)}
        first = self.bound[0]
        start = time.perf_counter()
        try:
            answer = first.call(first.a, first.b)
        except (RuntimeError, NotImplementedError) as error:
            self.drop()
            return {"unsupported": (str(error).strip() or type(error).__name__).splitlines()[0]}
        spent = time.perf_counter() - start
        wrong = cases.check(a, b, first.array(answer))
        del answer
        if wrong:
            self.drop()
            return {"unsupported": f"wrong answer: {wrong}"}
        self.loops = 1
        if spent > budget:
            # The first call may have waited for memory that the host had taken back (50464 x 1600 x 32: 570 ms for 45,
            # for whichever library came first): it does not count.
            spent = self._run(1)
        if spent > budget:
            return {"loops": 1, "seconds": spent, "sets": len(self.bound)}
        return {"loops": self._calibrate(sample, SAMPLE_SHARE * budget), "seconds": None, "sets": len(self.bound)}

    def _calibrate(self, sample: float, most: float) -> int:
        """Calls that fill a sample: as long as `sample` says, and one a chunk while they take no longer than `most`."""
        self._warm()
        while True:
            seconds = min(self._run(self.loops) for _ in range(2))
            if seconds >= 0.6 * sample or self.loops >= 1 << 24:
                break
            # The first loops are cold: grow by at most ten at a time.
            self.loops = math.ceil(self.loops * min(10.0, max(1.5, sample / max(seconds, 1e-9))))
        if self.loops < CHUNKS:
            self.loops = max(self.loops, min(CHUNKS, int(most / (seconds / self.loops))))
        return self.loops

    def _warm(self) -> None:
        """Call until threads are awake, none of the library's own rests goes on, and caches are full."""
        end = time.perf_counter() + (WARM_SECONDS if self.threads > 1 else 0.0)
        self._run(max(1, self.loops // 10))
        while time.perf_counter() < end or (not self.peer.ready() and time.perf_counter() < end + REST_SECONDS):
            self._run(max(1, self.loops // 10))

    def _run(self, loops: int) -> float:
        """Seconds of `loops` calls; nothing but the calls stands between the two clock readings."""
        clock = time.perf_counter
        if len(self.bound) == 1:
            call, a, b = self.bound[0][:3]
            turns = itertools.repeat(None, loops)
            start = clock()
            for _ in turns:
                call(a, b)
            return clock() - start
        steps: list[tuple[Callable[[Any, Any], Any], Any, Any]] = [one[:3] for one in self.bound]
        sequence = list(itertools.islice(itertools.cycle(steps), loops))
        start = clock()
        for call, a, b in sequence:
            call(a, b)
        return clock() - start

    def time(self) -> dict[str, Any]:
        """One sample: a warm-up, then the timed loop in chunks; seconds a call of each chunk."""
        self._warm()
        chunks = min(CHUNKS, self.loops)
        loops = self.loops // chunks
        return {"seconds": [self._run(loops) / loops for _ in range(chunks)]}

    def peak(self, dtype: str, seconds: float | None = None) -> dict[str, Any]:
        """Flops a second of the register-only FMA loop on all threads: the best, or the median of samples so long."""
        if seconds is None:
            return {"rate": peak.rate(dtype, threads=self.threads)}
        return {"rate": peak.rate(dtype, threads=self.threads, seconds=seconds, statistic=statistics.median)}

    def drop(self) -> dict[str, Any]:
        """Free the operands."""
        self.bound, self.loops = [], 1
        gc.collect()
        return {}


def _sets(case: cases.Case) -> int:
    return max(1, min(ROTATE_MOST, ROTATE_BYTES // case.bytes))


def serve(make: Callable[[str, int], Session]) -> None:
    """Answer requests until the input ends, by the session made of the two arguments of this process."""
    name, threads = sys.argv[1], int(sys.argv[2])
    # Libraries may print; answers keep the real standard output for themselves.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    gc.disable()
    # Ctrl-C reaches the whole group: the coordinator alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    session = make(name, threads)
    for line in sys.stdin:
        request = json.loads(line)
        action = getattr(session, request.pop("do"))
        try:
            answer = action(**request)
        except MemoryError:
            session.drop()
            answer = {"unsupported": "out of memory"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    serve(Session)
