"""Measurements and the runners that make them.

A runner belongs to one problem.  It answers two questions: `measure`, a few timings of
each configuration for the search, and `rounds`, interleaved timings for a comparison.
`ReplayRunner` answers from a table, so that a search can be repeated or a strategy
tested without the noise and the time of real runs; `fastgemm.tune.live` holds the runner
that times kernels.

A configuration that fails is a result like any other: the outcome says what happened
and the cost is infinite.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..problem import Config, Problem

OUTCOMES = ("ok", "crash", "timeout", "wrong", "illegal")


@dataclass(frozen=True, slots=True)
class Measurement:
    """What became of a configuration.

    Parameters
    ----------
    config : Config
        What was run.
    outcome : str
        One of `OUTCOMES`: it ran; its process died; it took too long; its answer was wrong; it
        cannot run this problem.
    seconds : float
        Median time of one call; infinite unless the outcome is ``ok``.
    detail : str
        For people: the signal, the size of the error, the reason.
    """

    config: Config
    outcome: str
    seconds: float = math.inf
    detail: str = ""

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES:
            raise ValueError(f"outcome must be one of {OUTCOMES}, not {self.outcome!r}")
        if (self.outcome == "ok") != (0 < self.seconds < math.inf):
            raise ValueError(f"outcome {self.outcome!r} does not go with {self.seconds} seconds")


class Runner(Protocol):
    """What the driver and the comparison ask of a runner."""

    def measure(self, configs: Sequence[Config]) -> list[Measurement]:
        """Time each configuration on its own, for the search."""
        ...

    def rounds(self, configs: Sequence[Config], count: int) -> list[list[float]]:
        """Time all configurations in turn, `count` times; seconds of one call, a list for each.

        A configuration that fails has an empty list.
        """
        ...

    def numpy_seconds(self) -> float:
        """Median time of `np.matmul` on the same problem; NaN when it could not be measured."""
        ...

    def close(self) -> None:
        """Free what the runner holds; what is asked afterwards is answered by a new process."""
        ...


class ReplayRunner:
    """Answers from a table of recorded times.

    Parameters
    ----------
    table : mapping, or a function of a Config
        Seconds of each configuration, or its recorded timings, or the name of a failed outcome.
        What the table lacks is ``illegal``.
    numpy_seconds : float
        The recorded time of NumPy.

    Attributes
    ----------
    measured : list of Config
        Every configuration asked for by `measure`, in order.

    Examples
    --------
    >>> runner = ReplayRunner({Config(mr=6, nr=16): 2e-3, Config(mr=4, nr=24): "crash"})
    >>> [m.outcome for m in runner.measure([Config(mr=6, nr=16), Config(mr=4, nr=24), Config()])]
    ['ok', 'crash', 'illegal']
    """

    def __init__(
        self,
        table: Mapping[Config, float | str | Sequence[float]] | Callable[[Config], float | str | Sequence[float]],
        numpy_seconds: float = math.nan,
    ) -> None:
        self._look_up = table if callable(table) else lambda config: table.get(config, "illegal")
        self._numpy_seconds = numpy_seconds
        self.measured: list[Config] = []

    def measure(self, configs: Sequence[Config]) -> list[Measurement]:
        """Answer from the table."""
        self.measured += configs
        return [self._answer(config) for config in configs]

    def rounds(self, configs: Sequence[Config], count: int) -> list[list[float]]:
        """Answer from the table; recorded timings are repeated when they are too few."""
        samples = []
        for config in configs:
            entry = self._look_up(config)
            times = [] if isinstance(entry, str) else [entry] if isinstance(entry, int | float) else list(entry)
            samples.append([times[i % len(times)] for i in range(count)] if times else [])
        return samples

    def numpy_seconds(self) -> float:
        """Return the recorded time."""
        return self._numpy_seconds

    def close(self) -> None:
        """Do nothing: a table holds no process."""

    def _answer(self, config: Config) -> Measurement:
        entry = self._look_up(config)
        if isinstance(entry, str):
            return Measurement(config, entry, detail="recorded")
        return Measurement(config, "ok", entry if isinstance(entry, int | float) else statistics.median(entry))


def footprint(problem: Problem) -> int:
    """Bytes that the operands, the output and the reference of a measurement take.

    Examples
    --------
    >>> footprint(Problem("f64", 1000, 1000, 1000)) >> 20
    45
    """
    # Single precision is compared with a product in double: copies of the operands, and twice the bytes of C.
    wide = 0 if problem.row.itemsize >= 8 and problem.row.numpy in ("float64", "complex128") else 2
    # A matrix whose rows and columns both lie apart is every second column of a larger one; a packed one is a copy.
    a = problem.m * problem.k * (1 + (problem.layout[0] in "gp") + wide)
    b = problem.k * problem.n * (1 + (problem.layout[1] in "gp") + wide)
    # The output, the reference, their difference and its size.
    c = problem.m * problem.n * (1 + 3 * max(wide, 1))
    return problem.batch * problem.row.itemsize * (a + b + c)
