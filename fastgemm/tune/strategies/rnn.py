"""A recurrent controller: draws configurations coordinate by coordinate, and learns from their speed.

The controller of neural architecture search (arXiv 1611.01578) on configurations, with which "Compiler-Level Matrix
Multiplication Optimization for Deep Learning" (arXiv 1909.10616) compares its searches: a recurrent network emits one
coordinate after the other, each given those before, and is trained by policy gradient (REINFORCE) against a moving
average of the reward.  One layer of plain recurrent units; an LSTM is not worth its code for a dozen coordinates.
"""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np

from ..policies import Adam, Controller
from ..search_space import SearchSpace
from . import Search

TRIALS = 48

BATCH = 6
RATE = 5e-3

# Weight of the past in the average that a reward is compared with.
DECAY = 0.8

# Draws of a new configuration before one at random takes its place: a controller that is sure of itself repeats itself.
TRIES = 50


def search(space: SearchSpace[Any], rng: Random) -> Search:
    """Propose what the controller draws, a batch at a time, until the space is used up."""
    (unit,) = yield [space.start]
    seen = {space.start}
    generator = np.random.default_rng(rng.getrandbits(64))
    controller = Controller([len(values) for values in space.values.values()], generator)
    adam = Adam(controller.weights, RATE)
    strangers = space.shuffled(rng)
    expected = 1.0
    while len(seen) < len(space):
        batch: list[Any] = []
        while len(batch) < BATCH and len(seen) < len(space):
            config = _drawn(space, controller, seen, generator)
            if config is None:
                config = next(other for other in strangers if other not in seen)
            seen.add(config)
            batch.append(config)
        costs = yield batch
        if math.isinf(unit):
            unit = min(costs)
        rewards = np.array([unit / cost if math.isfinite(cost) else 0.0 for cost in costs])
        choices = np.array([list(space.encode(config).values()) for config in batch])
        adam.step(controller.gradient(choices, rewards - expected))
        expected = DECAY * expected + (1 - DECAY) * float(rewards.mean())


def _drawn(space: SearchSpace[Any], controller: Controller, seen: set[Any], generator: np.random.Generator) -> Any:
    for _ in range(TRIES):
        point = dict(zip(space.values, controller.draw(generator), strict=True))
        config = space.decode(point)
        if config is not None and config not in seen:
            return config
    return None
