"""Libraries that take turns, each in a process of its own, a sample at a time: a machine's drift hits all alike."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from typing import Any

import workers
from load import Quiet


class Turns:
    """Living workers of some libraries, and the timing of a case by all of them, every turn on another CPU.

    Parameters
    ----------
    crew : iterable of Worker
        Those that do not start are left out; `about` says why.
    quiet : Quiet
        Asked before each sample.
    rounds : int
        Samples that each library gives of a case.
    budget : float
        Seconds of a library on a case; beyond, its rounds end.
    patience : float
        Seconds that an answer may take.

    Attributes
    ----------
    about : dict
        What each library says about itself, by name.
    """

    def __init__(
        self, crew: Iterable[workers.Worker], quiet: Quiet, rounds: int, budget: float, patience: float = 120.0
    ) -> None:
        self.quiet, self.rounds, self.budget, self.patience = quiet, rounds, budget, patience
        self._known = list(crew)
        try:
            self.about = {worker.name: worker.start() for worker in self._known}
        except BaseException:
            self.stop()
            raise
        self.crew = [worker for worker in self._known if self.about[worker.name]["ok"]]

    def take(self, result: dict[str, Any], patience: float, **request: Any) -> None:
        """Prepare every library for a case by a request, and time it; samples and errors come into the result."""
        ready = [worker for worker in self.crew if self._prepare(worker, result, patience, request)]
        # One whose first call took the whole budget has its only sample.
        left = {worker: 0 if result["times"][worker.name]["samples"] else self.rounds for worker in ready}
        spent = dict.fromkeys(left, 0.0)
        for turn in range(self.rounds):
            # Every other round the other way round: nobody always runs after the same neighbour.
            for worker in list(left)[:: 1 if turn % 2 == 0 else -1]:
                if left[worker] > turn:
                    worker.move(turn)
                    spent[worker] += self._sample(worker, result)
                    # (Not before it has been on every CPU: the others have.)
                    done = spent[worker] > self.budget and turn + 1 >= len(worker.cpus)
                    if done or worker.name in result["errors"]:
                        left[worker] = 0
        for worker in (one for one in left if one.name not in result["errors"]):
            with contextlib.suppress(workers.Died):
                worker.ask("drop")

    def prepared(self, worker: workers.Worker, answer: dict[str, Any], result: dict[str, Any]) -> None:
        """Note what a worker says of a case that it is ready for."""

    def sampled(self, worker: workers.Worker, result: dict[str, Any]) -> list[float]:
        """Return the seconds of a sample."""
        seconds: list[float] = worker.ask("time", self.patience)["seconds"]
        return seconds

    def stop(self) -> None:
        """End the workers."""
        for worker in self._known:
            worker.stop()

    def _prepare(
        self, worker: workers.Worker, result: dict[str, Any], patience: float, request: dict[str, Any]
    ) -> bool:
        """Whether a worker can compute the case."""
        worker.move(0)
        try:
            answer = worker.ask("prepare", patience, **request)
        except workers.Died as error:
            result["errors"][worker.name] = str(error)
            return False
        worker.settle()
        if "unsupported" in answer:
            result["errors"][worker.name] = answer["unsupported"]
            return False
        self.prepared(worker, answer, result)
        first = answer["seconds"]
        result["times"][worker.name] = {"samples": [] if first is None else [first], "loops": answer["loops"]}
        return True

    def _sample(self, worker: workers.Worker, result: dict[str, Any]) -> float:
        """Add a sample of a worker; return the seconds that it took."""
        self.quiet.wait()
        start = time.monotonic()
        try:
            result["times"][worker.name]["samples"] += self.sampled(worker, result)
        except workers.Died as error:
            result["errors"][worker.name] = str(error)
        else:
            worker.settle()
        return time.monotonic() - start
