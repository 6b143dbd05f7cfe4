"""A genetic algorithm: crosses the better points, coordinate by coordinate, and mutates some.

The genetic tuner that "Learning to Optimize Tensor Programs" (arXiv 1805.08166) compares with: parents are drawn in
proportion to their speed, a child takes the coordinates of one up to a cut and of the other from there, some are drawn
anew, and an elite survives.  There the population was 100 and the elite 3, for thousands of trials; a shape has dozens
here, so the population is smaller.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping
from random import Random
from typing import Any

from ..search_space import SearchSpace
from . import Search

TRIALS = 48

POPULATION = 12
ELITE = 3

# How likely a coordinate of a child is drawn anew.
MUTATION = 0.1

# Draws of a child that is legal and new before a point at random takes its place.
TRIES = 30


def search(space: SearchSpace[Any], rng: Random) -> Search:
    """Propose one generation after the other, nothing twice, until the space is used up."""
    (cost,) = yield [space.start]
    seen = {space.start}
    population = {space.start: cost}
    strangers = space.shuffled(rng)
    generation = _new(strangers, seen, POPULATION - 1)
    while generation:
        costs = yield generation
        population.update(zip(generation, costs, strict=True))
        seen.update(generation)
        generation = []
        while len(generation) < POPULATION - ELITE:
            child = _child(space, population, {*seen, *generation}, rng)
            if child is None:
                break
            generation.append(child)
        generation += _new(strangers, {*seen, *generation}, POPULATION - ELITE - len(generation))
        elite = sorted(population, key=population.__getitem__)[:ELITE]
        population = {config: population[config] for config in elite}


def _new(strangers: Iterator[Any], known: Container[Any], count: int) -> list[Any]:
    """Points at random that are not known; fewer where the space has no more."""
    found: list[Any] = []
    while len(found) < count and (config := next(strangers, None)) is not None:
        if config not in known:
            found.append(config)
    return found


def _child(space: SearchSpace[Any], population: Mapping[Any, float], known: Container[Any], rng: Random) -> Any:
    """Return a new point that two of the population have; None where none was found."""
    parents = [config for config, cost in population.items() if math.isfinite(cost)]
    if not parents:
        return None
    speeds = [1 / population[config] for config in parents]
    names = list(space.values)
    for _ in range(TRIES):
        one, other = (space.encode(config) for config in rng.choices(parents, speeds, k=2))
        cut = rng.randrange(len(names) + 1)
        point = {name: (one if at < cut else other)[name] for at, name in enumerate(names)}
        for name in names:
            if rng.random() < MUTATION:
                point[name] = rng.randrange(len(space.values[name]))
        config = space.decode(point)
        if config is not None and config not in known:
            return config
    return None
