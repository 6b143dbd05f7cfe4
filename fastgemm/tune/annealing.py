"""Simulated annealing over a model: many chains at once, which find the points that the model likes best."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Sequence
from random import Random
from typing import Any

import numpy as np

from .search_space import SearchSpace

Score = Callable[[Sequence[Any]], np.ndarray]
"""The model: higher is better."""

# Spaces up to here are ranked whole, which takes less than annealing does.
RANKED = 1 << 13


class Annealing:
    """Chains in a space, which go on from where they were when the model has changed.

    Parameters
    ----------
    space : SearchSpace
        Where.
    rng : Random
        Of the moves.
    chains, steps : int
        How many points move at once, and how often; every move draws one coordinate anew.
    patience : int
        Steps without a better point before it ends early.
    """

    def __init__(self, space: SearchSpace[Any], rng: Random, chains: int, steps: int, patience: int) -> None:
        self._space, self._rng, self._steps, self._patience = space, rng, steps, patience
        self._noise = np.random.default_rng(rng.getrandbits(64))
        self._whole = list(space.all()) if len(space) <= RANKED else []
        self._chains = [] if self._whole else [space.sample(rng) for _ in range(chains)]

    def join(self, points: Sequence[Any]) -> None:
        """Let chains go on from some points, in place of others."""
        for at, point in enumerate(points[: len(self._chains)]):
            self._chains[at] = point

    def best(self, score: Score, known: Container[Any], count: int) -> list[tuple[Any, float]]:
        """Return points that are not known, with their scores, the best first."""
        if self._whole:
            left = [point for point in self._whole if point not in known]
            scores = score(left) if left else np.zeros(0)
            ranking = np.argsort(-scores, kind="stable")[:count]
            return [(left[at], float(scores[at])) for at in ranking]
        found: dict[Any, float] = {}
        here = score(self._chains)
        self._note(found, self._chains, here, known)
        threshold, waited = -np.inf, 0
        for step in range(self._steps):
            temperature = 1 - step / self._steps
            ahead = [self._space.mutate(point, self._rng) for point in self._chains]
            there = score(ahead)
            self._note(found, ahead, there, known)
            odds = np.exp(np.minimum((there - here) / temperature, 0.0))
            for at in np.flatnonzero(self._noise.random(len(odds)) < odds):
                self._chains[at], here[at] = ahead[at], there[at]
            # The worst of the best so far: it rises as long as something is found.
            least = heapq.nlargest(count, found.values())[-1] if len(found) >= count else -np.inf
            waited = 0 if least > threshold else waited + 1
            threshold = max(threshold, least)
            if waited >= self._patience:
                break
        return heapq.nlargest(count, found.items(), key=lambda pair: pair[1])

    @staticmethod
    def _note(found: dict[Any, float], points: Sequence[Any], scores: np.ndarray, known: Container[Any]) -> None:
        found.update((point, float(value)) for point, value in zip(points, scores, strict=True) if point not in known)


def diverse(space: SearchSpace[Any], ranked: Sequence[tuple[Any, float]], count: int, weight: float) -> list[Any]:
    """Choose points with high scores that differ: greedily, each adds its score and a weight for every new coordinate.

    Parameters
    ----------
    ranked : sequence of (point, score)
        What there is to choose from.
    weight : float
        Of a value of a coordinate that no chosen point has yet, in standard deviations of the scores.

    Examples
    --------
    >>> from fastgemm.tune.nested import NestedSpace
    >>> space = NestedSpace(4, 4, 4)
    >>> ranked = [(space[0], 1.0), (space[1], 0.9), (space[-1 + len(space)], 0.8)]
    >>> chosen = diverse(space, ranked, 2, weight=1.0)
    >>> chosen == [space[0], space[len(space) - 1]]
    True
    """
    left = [(point, score, set(space.encode(point).items())) for point, score in ranked]
    unit = weight * float(np.std([score for _, score in ranked])) if left else 0.0
    covered: set[tuple[str, int]] = set()
    chosen: list[Any] = []
    while left and len(chosen) < count:
        at = max(range(len(left)), key=lambda i: left[i][1] + unit * len(left[i][2] - covered))
        point, _, values = left.pop(at)
        chosen.append(point)
        covered |= values
    return chosen
