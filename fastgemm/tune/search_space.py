"""What a search space is to a strategy: points, moves between them, and what a model reads.

The library's own space keeps this contract (`space.Space`, configurations of the kernels), and so does any
other that is to be searched.  A strategy that asks for nothing else works on all of them.

* A point has *coordinates*, each with a fixed list of values, of which some are ordered: `encode`, `decode`.
  Not every combination is a point.
* It has *moves*, a fixed list for the whole space, of which some lead nowhere from here: `move`, `neighbours`.
  They connect the space, and every one can be undone.
* It has a *vector* of numbers of about unit size, for networks, and a *nest* of loops, for models that know what
  loops and caches are.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from .nests import Nests

C = TypeVar("C", bound=Hashable)

Point = dict[str, int]
"""An index into the values of every coordinate."""


class SearchSpace(ABC, Generic[C]):
    """The contract; see the module's text.

    Attributes
    ----------
    start : C
        Where a search begins; measured before a strategy is asked.
    values : mapping of str to sequence
        The values of every coordinate.
    ordered : frozenset of str
        Coordinates whose neighbouring values are alike.
    moves : int
        Number of moves.
    """

    start: C
    values: Mapping[str, Sequence[Any]]
    ordered: frozenset[str]
    moves: int

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: int) -> C: ...

    @abstractmethod
    def __contains__(self, config: object) -> bool: ...

    @abstractmethod
    def encode(self, config: C) -> Point:
        """Return the coordinates of a point of this space."""

    @abstractmethod
    def decode(self, point: Mapping[str, int]) -> C | None:
        """Return the point at some coordinates; None where there is none."""

    @abstractmethod
    def move(self, config: C, number: int) -> C | None:
        """Return the point that a move leads to; None where it leads nowhere."""

    def nests(self, configs: Sequence[C]) -> Nests:
        """Return the loops of some points, for a model; a space that has none says so."""
        raise NotImplementedError(f"{type(self).__name__} describes no loops, which the strategy needs")

    def all(self) -> Iterator[C]:
        """Every point once."""
        return (self[index] for index in range(len(self)))

    def sample(self, rng: random.Random) -> C:
        """Return one point, each as likely as any other."""
        return self[rng.randrange(len(self))]

    def shuffled(self, rng: random.Random) -> Iterator[C]:
        """Every point once, in random order; a large space is not listed for it."""
        size = len(self)
        if size <= LISTED:
            yield from (self[index] for index in rng.sample(range(size), size))
            return
        seen: set[int] = set()
        while len(seen) < size:
            index = rng.randrange(size)
            if index not in seen:
                seen.add(index)
                yield self[index]

    def neighbours(self, config: C) -> list[C]:
        """Points one move away."""
        found = (self.move(config, number) for number in range(self.moves))
        return list(dict.fromkeys(other for other in found if other is not None))

    def vector(self, config: C) -> list[float]:
        """Return a point as numbers: ordered coordinates between -0.5 and 0.5, others one-hot."""
        numbers: list[float] = []
        for name, index in self.encode(config).items():
            size = len(self.values[name])
            if name in self.ordered:
                numbers.append(index / max(1, size - 1) - 0.5)
            else:
                numbers += [float(index == other) for other in range(size)]
        return numbers

    def mutate(self, config: C, rng: random.Random) -> C:
        """Return a point that differs in one coordinate, drawn anew; the point itself where none was found."""
        point = self.encode(config)
        for _ in range(TRIES):
            name = rng.choice(list(self.values))
            other = self.decode({**point, name: rng.randrange(len(self.values[name]))})
            if other is not None and other != config:
                return other
        return config


# Up to here a space is shuffled as a list; above, drawing again what was drawn before is cheaper than the list.
LISTED = 1 << 16

# Draws of a coordinate before a mutation gives up: a third to all of the draws give points.
TRIES = 32
