"""Greedy best-first search: goes on from the best point so far, to a few neighbours at random.

G-BFS of "Compiler-Level Matrix Multiplication Optimization for Deep Learning" (arXiv 1909.10616): measured points wait
in a queue, the cheapest first.  The first is taken out, a random subset of its neighbours is measured, and those
that are new join the queue.

A point is taken out once, so a neighbour that was not drawn is reached by another way or not at all: unless
the subset holds all neighbours, the search may end before it has seen the whole space.

Notes
-----
United States patent 11,842,178 B2 (listed as active) claims searching tilings of matrix products by this method;
users decide for themselves.
"""

from __future__ import annotations

import heapq
from random import Random
from typing import Any

from ..search_space import SearchSpace
from . import Search

TRIALS = 48

# Neighbours drawn of each point: the number of a published re-implementation.
RHO = 5


def search(space: SearchSpace[Any], rng: Random, rho: int = RHO) -> Search:
    """Propose up to `rho` neighbours of the cheapest point that waits, until none waits."""
    if rho < 1:
        raise ValueError(f"rho must be at least 1, not {rho}")
    (cost,) = yield [space.start]
    # The count decides between equal costs, failures among them: the older point first.
    queue = [(cost, 0, space.start)]
    seen = {space.start}
    while queue:
        _, _, config = heapq.heappop(queue)
        near = space.neighbours(config)
        drawn = near if len(near) <= rho else rng.sample(near, rho)
        # A point with nothing new around it makes way for the next in the queue.
        new = [other for other in drawn if other not in seen]
        if not new:
            continue
        costs = yield new
        for other, cost in zip(new, costs, strict=True):
            heapq.heappush(queue, (cost, len(seen), other))
            seen.add(other)
