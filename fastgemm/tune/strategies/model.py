"""The few that an analytic model of data movement ranks best.

Every configuration's loops are laid over the caches (`nests.cycles`: the idea of PolyDL, arXiv 2006.02230, in closed
form), and only the best of the ranking are measured.  The model knows sizes of caches and no machine, so it is right
about what is far off and wrong about details: good where a trial is dear.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from ... import cpu
from ..nests import cycles
from ..search_space import SearchSpace
from . import Search

TRIALS = 12

# A space that is larger is ranked by a sample of this many points.
RANKED = 1 << 16


def search(space: SearchSpace[Any], rng: Random) -> Search:
    """Propose configurations by the model's ranking, the best first."""
    for config in ranked(space, rng, RANKED):
        yield [config]


def ranked(space: SearchSpace[Any], rng: Random, most: int) -> list[Any]:
    """The points of a space, or `most` of them drawn at random, as the model ranks them, the best first."""
    size = len(space)
    points = list(space.all()) if size <= most else [space[index] for index in rng.sample(range(size), most)]
    ranking = np.argsort(cycles(space.nests(points), cpu.caches()), kind="stable")
    return [points[place] for place in ranking]
