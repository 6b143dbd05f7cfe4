"""Neighbourhood actor advantage critic: learns which moves from the best point pay.

N-A2C of "Compiler-Level Matrix Multiplication Optimization for Deep Learning" (arXiv 1909.10616): episodes of a few
moves from the best point so far, chosen by a policy or, now and then, at random.  What they come by is measured, and
actor and critic learn from a memory of all moves that were.  It ends when all points within an episode's reach of
the best are known.

Width, rate and batch are those of a published re-implementation.  Three things differ, for reasons that were measured
(``bench/measured/searches.md``):

* It adds the logarithm of the policy times the advantage to what it minimises, which makes moves that paid less likely;
  the sign here is the usual one.
* Its reward is speed.  Here it is the logarithm of what the move gained, the time before over the time after: from a
  bad start any speed is hundreds of times the first, and the policy repeats whatever it tried first.
* It learns once from the last six moves, here eight times from all of them.

Notes
-----
United States patent 11,842,178 B2 (listed as active) claims searching tilings of matrix products by this method;
users decide for themselves.
"""

from __future__ import annotations

import math
from collections.abc import Container
from random import Random
from typing import Any, NamedTuple

import numpy as np

from ..policies import ActorCritic, Adam
from ..search_space import SearchSpace
from . import Search

TRIALS = 48

# Moves of an episode, and new points that are collected before they are measured and learnt from.  With three moves, as
# in that re-implementation, an episode cannot leave a point without a better one within three: at 1024x1024x1024 one
# that takes 1.295 times the best, at 2048x2048x2048 one of 1.347.  (A third, of 1.147, has no better within five.)
STEPS = 4
BATCH = 6

# Share of moves that are chosen at random.
EPSILON = 0.1

# Of learning: Adam's rate, its steps after each batch, and how many moves of the memory each of them sees.
RATE = 1e-3
EPOCHS, SEEN = 8, 64

# A failure pays as much as something a hundred times slower than the start.
FAILURE = 100.0

# Episodes in a row without a new point before all moves of the next are chosen at random, because a policy that is sure
# of itself repeats itself; and as many of those before the neighbourhood is listed, to see whether it has any left.
FRUITLESS = 20


class Step(NamedTuple):
    """A move that led to a point nobody had seen."""

    origin: Any
    move: int
    target: Any


def search(space: SearchSpace[Any], rng: Random) -> Search:
    """Propose what episodes from the best point come by, a batch at a time."""
    (cost,) = yield [space.start]
    costs = {space.start: cost}
    worst = math.log(FAILURE * cost) if math.isfinite(cost) else 0.0
    net = ActorCritic(len(space.vector(space.start)), space.moves, np.random.default_rng(rng.getrandbits(64)))
    adam = Adam(net.weights, RATE)
    memory = Memory()
    while True:
        best = min(costs, key=costs.__getitem__)
        steps = _collect(space, net, best, costs, rng)
        if not steps:
            return
        found = yield [step.target for step in steps]
        costs.update(zip((step.target for step in steps), found, strict=True))
        for step in steps:
            before, after = (min(math.log(costs[c]), worst) for c in (step.origin, step.target))
            memory.add(space.vector(step.origin), step.move, before - after)
        for _ in range(EPOCHS):
            adam.step(net.gradient(*memory.some(rng)))


class Memory:
    """The moves that were measured: where each began, its number, and what it paid."""

    def __init__(self) -> None:
        self._moves: list[tuple[list[float], int, float]] = []

    def add(self, state: list[float], move: int, reward: float) -> None:
        """Add a move."""
        self._moves.append((state, move, reward))

    def some(self, rng: Random) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """States, moves and rewards of some that are drawn at random, or of all."""
        drawn = self._moves if len(self._moves) <= SEEN else rng.sample(self._moves, SEEN)
        states, moves, rewards = zip(*drawn, strict=True)
        return np.array(states), np.array(moves), np.array(rewards)


def _collect(space: SearchSpace[Any], net: ActorCritic, best: Any, known: Container[Any], rng: Random) -> list[Step]:
    """New points that episodes from the best come by; none when there are none in reach."""
    found: dict[Any, Step] = {}
    policies: dict[Any, list[float]] = {}  # the network stays as it is until the batch has been measured
    fruitless = 0
    while len(found) < BATCH and fruitless < 2 * FRUITLESS:
        before = len(found)
        epsilon = EPSILON if fruitless < FRUITLESS else 1.0
        config = best
        for _ in range(STEPS):
            if rng.random() < epsilon:
                number = rng.randrange(space.moves)
            else:
                if config not in policies:
                    _, policy, _ = net.forward(np.array([space.vector(config)]))
                    policies[config] = policy[0].tolist()
                (number,) = rng.choices(range(space.moves), policies[config])
            other = space.move(config, number)
            if other is None:
                continue
            if other not in known and other not in found:
                found[other] = Step(config, number, other)
            config = other
        fruitless = fruitless + 1 if len(found) == before else 0
    # A batch that is not full is learnt from as well; an empty one may be the policy's fault.
    return list(found.values())[:BATCH] or _left(space, best, known, rng)


def _left(space: SearchSpace[Any], best: Any, known: Container[Any], rng: Random) -> list[Step]:
    """Some of the new points within an episode's reach, one move from known ones, from a list of them all."""
    reached, frontier, steps = {best}, [best], []
    for _ in range(STEPS):
        ahead = []
        for config in frontier:
            for number in range(space.moves):
                other = space.move(config, number)
                if other is None or other in reached:
                    continue
                reached.add(other)
                ahead.append(other)
                if other not in known and config in known:
                    steps.append(Step(config, number, other))
        frontier = ahead
    return rng.sample(steps, min(BATCH, len(steps)))
