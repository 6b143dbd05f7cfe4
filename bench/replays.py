"""Searches on times that were recorded: what a strategy would have asked for, without a clock."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

from fastgemm.tune.driver import Budget, Trials, search
from fastgemm.tune.measure import ReplayRunner
from fastgemm.tune.search_space import SearchSpace
from fastgemm.tune.strategies import Strategy


def replay(
    space: SearchSpace[Any], recorded: Callable[[Any], float], strategy: Strategy, trials: int, seed: int
) -> dict[Any, float]:
    """Run a strategy on recorded times; return what it asked for and the seconds of it, in order, the start first.

    Parameters
    ----------
    recorded : function of a point
        Its seconds; infinite or NaN where it failed or nobody knows.
    trials : int
        Points besides the start that may be measured; one that is known costs nothing.
    """

    def answer(point: Any) -> float | str:
        seconds = recorded(point)
        return seconds if math.isfinite(seconds) else "illegal"

    found = Trials(ReplayRunner(answer))
    found.costs([space.start])
    search(space, strategy, found, Budget(trials), random.Random(seed))
    return {point: measurement.seconds for point, measurement in found.results.items()}
