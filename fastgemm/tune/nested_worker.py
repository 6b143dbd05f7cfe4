"""The process that runs nested tilings; `nested_search` starts it, and the protocol is `worker`'s.

A trial is an estimate from stretches of a run, because whole runs of the bad states take minutes; an estimate checks no
result.  Rounds are whole runs, each state's first one checked against NumPy.
"""

from __future__ import annotations

import time
from typing import Any

from ..problem import Problem
from .nested import LENGTH, STARTS, NestedSpace, Product, State
from .operands import error, tolerance
from .worker import HOPELESS, listen


class NestedBench:
    """Operands of one product, and the timing of its tilings."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self.problem = problem
        self.product = Product(NestedSpace(problem.m, problem.k, problem.n), seed=seed)
        self.reference = self.product.a.astype(float) @ self.product.b

    def candidate(self, fields: dict[str, Any]) -> State:
        """Return the state that a request describes."""
        return State(**{name: tuple(factors) for name, factors in fields.items()})

    def time(self, state: State, limit: float) -> dict[str, Any]:
        """Estimate the time of a state; `limit` is the best so far, and what is far behind gets one stretch."""
        samples = self.product.sample(state, STARTS[1:2], LENGTH / 2)
        if samples[0] <= HOPELESS * limit:
            samples = self.product.sample(state, STARTS, LENGTH)
        return {"outcome": "ok", "samples": samples}

    def rounds(self, states: list[State], count: int) -> dict[str, Any]:
        """Run states whole, in turn; one whose result is wrong has no samples."""
        samples: list[list[float]] = [[] for _ in states]
        right = [self._right(state) for state in states]
        for _ in range(count):
            for index, state in enumerate(states):
                if right[index]:
                    begin = time.perf_counter()
                    self.product.run(state)
                    samples[index].append(time.perf_counter() - begin)
        return {"outcome": "ok", "samples": samples}

    def _right(self, state: State) -> bool:
        self.product.c.fill(float("nan"))
        return error(self.problem, self.product.run(state), self.reference) <= tolerance(self.problem)


def main() -> None:
    """Serve standard input and output."""
    listen(NestedBench)
