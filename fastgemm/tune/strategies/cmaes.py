"""Covariance matrix adaptation with margins, and with categories (CatCMA).

CatCMA with margin, of the package ``cmaes``: ordered coordinates are drawn from a normal distribution whose covariances
are learned and whose margins keep every value within reach; kernel, pack and team have a categorical distribution of
their own.  (A sampler that knows numbers alone takes the third kernel of a list for something between the second and
the fourth.)  When it has converged it starts again.
"""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
from cmaes import CatCMAwM  # type: ignore[import-untyped]

from ..search_space import Point, SearchSpace
from . import Search

TRIALS = 48

# A failure, and coordinates that are no configuration, cost as much as something a hundred times slower than the start:
# every draw of a generation needs a cost.
FAILURE = 100.0

# It draws what it likes again and again.  After so many known draws in a row it is given a point that it has not seen.
STUCK = 8


def search(space: SearchSpace[Any], rng: Random) -> Search:
    """Propose one draw at a time, the start first, until the space is used up."""
    (cost,) = yield [space.start]
    known = {space.start: math.log(cost) if math.isfinite(cost) else math.inf}
    worst = math.log(FAILURE * cost) if math.isfinite(cost) else 0.0
    names = [name for name, values in space.values.items() if len(values) > 1]
    ordered = [name for name in names if name in space.ordered]
    others = [name for name in names if name not in space.ordered]
    strangers = space.shuffled(rng)
    if not names:
        return

    def fresh() -> Any:
        return CatCMAwM(
            z_space=[range(len(space.values[name])) for name in ordered] or None,
            c_space=[len(space.values[name]) for name in others] or None,
            seed=rng.getrandbits(31),
        )

    optimiser, stuck = fresh(), 0
    while len(known) < len(space):
        generation, new = [], 0
        for _ in range(optimiser.population_size):
            drawn = optimiser.ask()
            point: Point = dict.fromkeys(space.values, 0)
            point.update((name, round(float(value))) for name, value in zip(ordered, _rows(drawn.z), strict=True))
            point.update((name, int(row.argmax())) for name, row in zip(others, _rows(drawn.c), strict=True))
            config = space.decode(point)
            if config is None or config in known:
                stuck += 1
            else:
                stuck, new = 0, new + 1
                (cost,) = yield [config]
                known[config] = math.log(cost) if math.isfinite(cost) else math.inf
            told = worst if config is None else min(known[config], worst)
            generation.append((drawn, told))
            if stuck >= STUCK and len(known) < len(space):
                stranger = next(other for other in strangers if other not in known)
                (cost,) = yield [stranger]
                known[stranger] = math.log(cost) if math.isfinite(cost) else math.inf
                stuck = 0
        try:
            with np.errstate(divide="raise", invalid="raise"):
                optimiser.tell(generation)
            converged = new == 0  # points that it was given do not count
        except (FloatingPointError, AssertionError):
            converged = True  # it divides by a probability that has become zero
        if converged:
            optimiser = fresh()


def _rows(drawn: Any) -> Any:
    """The values of one kind of coordinate; none where there are none of the kind."""
    return [] if drawn is None else drawn
