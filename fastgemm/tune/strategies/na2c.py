"""Neighbourhood actor advantage critic: learns which moves from the best point pay.

N-A2C of "Compiler-Level Matrix Multiplication Optimization for Deep Learning" (arXiv 1909.10616): episodes of a few
moves from the best point so far, chosen by a policy or, now and then, at random.  What they come by
is measured; reward is speed, and actor and critic learn from it.  It ends when all
points within an episode's reach of the best are known.

Width, rates and batch are those of a published re-implementation.  That one adds the logarithm of the policy times the
advantage to what it minimises, which makes moves that paid less likely; the sign here is the usual one.

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

from ..networks import ActorCritic, Adam
from ..search_space import SearchSpace
from . import Search

TRIALS = 48

# Moves of an episode, and new points that are collected before they are measured and learnt from.
STEPS = 3
BATCH = 6

# Share of moves that are chosen at random.
EPSILON = 0.1

RATE = 1e-3

# Episodes without a new point before the neighbourhood is listed, to see whether it has any left.
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
    net = ActorCritic(len(space.vector(space.start)), space.moves, np.random.default_rng(rng.getrandbits(64)))
    adam = Adam(net.weights, RATE)
    unit = cost
    while True:
        best = min(costs, key=costs.__getitem__)
        steps = _collect(space, net, best, costs, rng)
        if not steps:
            return
        found = yield [step.target for step in steps]
        costs.update(zip((step.target for step in steps), found, strict=True))
        if math.isinf(unit):
            unit = min(found)
        # Speed against the first that ran, so that rewards are about 1; a failure earns nothing.
        rewards = np.array([unit / cost if math.isfinite(cost) else 0.0 for cost in found])
        states = np.array([space.vector(step.origin) for step in steps])
        adam.step(net.gradient(states, np.array([step.move for step in steps]), rewards))


def _collect(space: SearchSpace[Any], net: ActorCritic, best: Any, known: Container[Any], rng: Random) -> list[Step]:
    """New points that episodes from the best come by; none when there are none in reach."""
    found: dict[Any, Step] = {}
    fruitless = 0
    while len(found) < BATCH and fruitless < FRUITLESS:
        before = len(found)
        config = best
        for _ in range(STEPS):
            number = _choose(space, net, config, rng)
            other = space.move(config, number)
            if other is None:
                continue
            if other not in known and other not in found:
                found[other] = Step(config, number, other)
            config = other
        fruitless = fruitless + 1 if len(found) == before else 0
    # A batch that is not full is learnt from as well; an empty one may be the policy's fault.
    return list(found.values())[:BATCH] or _left(space, best, known, rng)


def _choose(space: SearchSpace[Any], net: ActorCritic, config: Any, rng: Random) -> int:
    if rng.random() < EPSILON:
        return rng.randrange(space.moves)
    _, policy, _ = net.forward(np.array([space.vector(config)]))
    (number,) = rng.choices(range(space.moves), policy[0])
    return number


def _left(space: SearchSpace[Any], best: Any, known: Container[Any], rng: Random) -> list[Step]:
    """Some of the new points within an episode's reach, from a list of them all."""
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
                if other not in known:
                    steps.append(Step(config, number, other))
        frontier = ahead
    return rng.sample(steps, min(BATCH, len(steps)))
