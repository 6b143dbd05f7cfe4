"""The contract of search spaces, and strategies on costs whose optimum is known."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest

from fastgemm import registry
from fastgemm.problem import Config, Problem
from fastgemm.tune.search_space import LISTED, Point, SearchSpace
from fastgemm.tune.space import Space


class Dot(NamedTuple):
    """A point of the grid below."""

    x: int
    y: int
    colour: int


class Grid(SearchSpace[Dot]):
    """Two ordered coordinates and a colour; a corner is missing, so that some coordinates are no point."""

    def __init__(self, side: int = 16, colours: int = 2) -> None:
        self.side, self.colours = side, colours
        self.values = {"x": range(side), "y": range(side), "colour": range(colours)}
        self.ordered = frozenset("xy")
        self.start = Dot(0, 0, 0)
        self.steps = [(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), *((0, 0, turn) for turn in range(1, colours))]
        self.moves = len(self.steps)
        self.missing = side // 4

    def __len__(self) -> int:
        return (self.side**2 - self.missing**2) * self.colours

    def __getitem__(self, index: int) -> Dot:
        place, colour = divmod(index, self.colours)
        inner = (self.side - self.missing) * self.side
        if place < inner:
            return Dot(*divmod(place, self.side), colour)
        x, y = divmod(place - inner, self.side - self.missing)
        return Dot(x + self.side - self.missing, y, colour)

    def __contains__(self, config: object) -> bool:
        if not isinstance(config, Dot):
            return False
        legal = 0 <= config.x < self.side and 0 <= config.y < self.side and 0 <= config.colour < self.colours
        return legal and min(config.x, config.y) < self.side - self.missing

    def encode(self, config: Dot) -> Point:
        return config._asdict()

    def decode(self, point: Mapping[str, int]) -> Dot | None:
        dot = Dot(**point)
        return dot if dot in self else None

    def move(self, config: Dot, number: int) -> Dot | None:
        dx, dy, turn = self.steps[number]
        dot = Dot(config.x + dx, config.y + dy, (config.colour + turn) % self.colours)
        return dot if dot in self else None


SPACES = [
    Grid(),
    Grid(5, 3),
    Space(
        Problem("f32", 96, 96, 1500, threads=2),
        Config("gemm", "v3", *registry.tiles(registry.dtype("f32"), registry.isa("v3"))[-1]),
    ),
    Space(Problem("f64", 1, 900, 700, threads=2), Config("gemv", "v3")),
]


@pytest.fixture(params=SPACES, ids=["grid", "small grid", "gemm", "gemv"])
def space(request: pytest.FixtureRequest) -> SearchSpace:
    return request.param


def picked(space: SearchSpace) -> Iterator:
    rng = random.Random(1)
    return (space.sample(rng) for _ in range(60))


def test_a_space_is_a_list_of_its_points(space: SearchSpace) -> None:
    points = list(space.all())
    assert len(points) == len(set(points)) == len(space)
    assert points == [space[index] for index in range(len(space))]
    assert all(point in space for point in points)
    assert space.start in points
    assert "a point" not in space


def test_coordinates_lead_back(space: SearchSpace) -> None:
    for config in picked(space):
        point = space.encode(config)
        assert list(point) == list(space.values)
        assert space.decode(point) == config
    assert space.ordered <= set(space.values)


def test_moves_stay_inside_and_can_be_undone(space: SearchSpace) -> None:
    for config in picked(space):
        for number in range(space.moves):
            other = space.move(config, number)
            if other is not None:
                assert other in space
                assert other != config
                assert config in space.neighbours(other)


def test_vectors_are_of_one_length_and_tell_points_apart(space: SearchSpace) -> None:
    vectors = [tuple(space.vector(config)) for config in space.all()]
    assert len({len(vector) for vector in vectors}) == 1
    assert len(set(vectors)) == len(space)
    assert all(-0.5 <= number <= 1 for vector in vectors for number in vector)


def test_every_point_comes_once_in_random_order(space: SearchSpace) -> None:
    found = list(space.shuffled(random.Random(2)))
    assert sorted(found, key=repr) == sorted(space.all(), key=repr)
    assert found != list(space.all())


def test_a_large_space_is_not_listed_to_be_shuffled() -> None:
    large = Grid(1 << 12)
    assert len(large) > LISTED
    drawn = [point for point, _ in zip(large.shuffled(random.Random(3)), range(1000), strict=False)]
    assert len(set(drawn)) == 1000
    assert all(point in large for point in drawn)


def test_a_mutation_is_another_point(space: SearchSpace) -> None:
    rng = random.Random(4)
    for config in picked(space):
        other = space.mutate(config, rng)
        assert other in space
        assert other != config
