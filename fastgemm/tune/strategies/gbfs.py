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

# New neighbours drawn of a point at a time.  Replayed on the tables of nested tilings (bench/papers.py; 0.1 % of the
# space, shares of 200 seeds that end within 3 % of the best, at 256, 512, 1024 and 2048 cubed): one 91, 90, 55, 74 %;
# two 90, 86, 56, 75; three 82, 84, 48, 72; five 56, 54, 42, 74; five by the rule of that re-implementation 62, 76, 43,
# 69.  The more at once, the greedier: with all of them it ends in the first valley, at 1.05, 1.11, 1.00 and 1.35.
RHO = 2


def search(space: SearchSpace[Any], rng: Random, rho: int | None = None) -> Search:
    """Propose up to `rho` neighbours (`RHO` by default) of the cheapest point that waits, until none waits."""
    rho = RHO if rho is None else rho
    if rho < 1:
        raise ValueError(f"rho must be at least 1, not {rho}")
    (cost,) = yield [space.start]
    # The count decides between equal costs, failures among them: the older point first.
    queue = [(cost, 0, space.start)]
    seen = {space.start}
    while queue:
        entry = heapq.heappop(queue)
        new = [other for other in space.neighbours(entry[-1]) if other not in seen]
        # A point with nothing new around it makes way for the next in the queue.
        if not new:
            continue
        if len(new) > rho:
            heapq.heappush(queue, entry)
            new = rng.sample(new, rho)
        costs = yield new
        for other, cost in zip(new, costs, strict=True):
            heapq.heappush(queue, (cost, len(seen), other))
            seen.add(other)
