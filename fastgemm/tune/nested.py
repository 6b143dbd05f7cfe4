"""The papers' search space: nested tilings of one product, and running them.

A state cuts the rows of C into four factors, the sum into two and the columns into four, all
powers of two::

    s = [m0, m1, m2, m3], [k0, k1], [n0, n1, n2, n3]        m0 * m1 * m2 * m3 == M, and so on

and is executed as ten loops with these bounds (``nested.pyx.tp``), innermost a vectorised m3 x n3 tile
over k1.  A move doubles one factor of a dimension and halves another: 4 * 3 + 2 * 1 + 4 * 3 = 26 of
them.  The search starts untiled, with all of a dimension in its outermost loop.

The space is that of "Compiler-Level Matrix Multiplication Optimization for Deep Learning" (arXiv 1909.10616).  It is
there to compare strategies on common ground, in float32 with one thread; products of the library never run this way.
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .. import kernels, registry
from .nests import Nests
from .search_space import Point, SearchSpace

DEPTHS = {"m": 4, "k": 2, "n": 4}

# The loops, outermost first, with the factor that bounds each.
LOOPS = (("m", 0), ("n", 0), ("m", 1), ("n", 1), ("k", 0), ("m", 2), ("n", 2), ("k", 1), ("m", 3), ("n", 3))

# Where the stretches of a sample begin, as shares of the product (no power of two may divide their distances, for the
# loops' periods are powers of two), and their seconds.
STARTS, LENGTH = (0.137, 0.481, 0.829), 60e-6

# 2^40 elements would be the largest size of a problem; 2^15 squared floats take 4 GiB.
MAX_POWER = 15


class State(NamedTuple):
    """The factors of the rows, the sum and the columns, outermost first."""

    m: tuple[int, ...]
    k: tuple[int, ...]
    n: tuple[int, ...]

    def __str__(self) -> str:
        return " ".join(name + "=" + "x".join(map(str, factors)) for name, factors in self._asdict().items())


class NestedSpace(SearchSpace[State]):
    """Every nested tiling of an m x n product over k.

    The coordinates are the extents of blocks: ``m1`` is log2 of the rows that the body of the outermost
    loop over m covers, ``m2`` and ``m3`` those of the next levels.  Extents shrink inwards, so any three
    numbers are a tiling once they are sorted.

    Parameters
    ----------
    m, k, n : int
        Sizes; powers of two.

    Examples
    --------
    >>> space = NestedSpace(512, 512, 512)
    >>> len(space), space.moves, len(space.neighbours(space.start))
    (484000, 26, 7)
    >>> print(space.start)
    m=512x1x1x1 k=512x1 n=512x1x1x1
    """

    def __init__(self, m: int, k: int, n: int) -> None:
        self.sizes = {"m": m, "k": k, "n": n}
        for name, size in self.sizes.items():
            if isinstance(size, bool) or not isinstance(size, int) or size < 1 or size & (size - 1):
                raise ValueError(f"{name} must be a power of two, not {size!r}")
            if size > 1 << MAX_POWER:
                raise ValueError(f"{name} must be at most {1 << MAX_POWER}, not {size}")
        powers = {name: size.bit_length() - 1 for name, size in self.sizes.items()}
        # Every tiling of a dimension as exponents, and where each stands in the list.
        self._cuts = {name: _compositions(power, DEPTHS[name]) for name, power in powers.items()}
        self._places = {name: {cut: i for i, cut in enumerate(cuts)} for name, cuts in self._cuts.items()}
        self.start = State(*((size, *[1] * (DEPTHS[name] - 1)) for name, size in self.sizes.items()))
        self.values = {f"{name}{i}": range(powers[name] + 1) for name in DEPTHS for i in range(1, DEPTHS[name])}
        self.ordered = frozenset(self.values)
        self._actions = [
            (name, i, j) for name, depth in DEPTHS.items() for i in range(depth) for j in range(depth) if i != j
        ]
        self.moves = len(self._actions)

    def __len__(self) -> int:
        return len(self._cuts["m"]) * len(self._cuts["k"]) * len(self._cuts["n"])

    def __getitem__(self, index: int) -> State:
        if not 0 <= index < len(self):
            raise IndexError(f"no state {index} of {len(self)}")
        found = {}
        for name in reversed(DEPTHS):
            index, place = divmod(index, len(self._cuts[name]))
            found[name] = tuple(1 << power for power in self._cuts[name][place])
        return State(**found)

    def index(self, state: State) -> int:
        """Return the place of a state in the space's order: that of ``space[index]``."""
        found = 0
        for name, factors in state._asdict().items():
            found = found * len(self._cuts[name]) + self._places[name][_powers(factors)]
        return found

    def __contains__(self, config: object) -> bool:
        return isinstance(config, State) and all(
            len(factors) == DEPTHS[name]
            and all(type(factor) is int and factor > 0 for factor in factors)
            and math.prod(factors) == self.sizes[name]
            for name, factors in config._asdict().items()
        )

    def encode(self, config: State) -> Point:
        """Return the extents of the blocks, as powers of two."""
        point: Point = {}
        for name, factors in config._asdict().items():
            powers = _powers(factors)
            point |= {f"{name}{i}": sum(powers[i:]) for i in range(1, len(powers))}
        return point

    def decode(self, point: Mapping[str, int]) -> State:
        """Return the tiling with blocks of these extents, the largest outermost."""
        found = {}
        for name, depth in DEPTHS.items():
            extents = sorted((point[f"{name}{i}"] for i in range(1, depth)), reverse=True)
            bounds = [self.sizes[name], *(1 << extent for extent in extents), 1]
            found[name] = tuple(a // b for a, b in itertools.pairwise(bounds))
        return State(**found)

    def move(self, config: State, number: int) -> State | None:
        """Double one factor and halve another; None where that one is 1."""
        name, i, j = self._actions[number]
        factors = list(getattr(config, name))
        if factors[j] == 1:
            return None
        factors[i] *= 2
        factors[j] //= 2
        return config._replace(**{name: tuple(factors)})

    def nests(self, configs: Sequence[State]) -> Nests:
        """Return the ten loops of each state."""
        trips = np.array([[getattr(state, name)[i] for name, i in LOOPS] for state in configs], float)
        tier = kernels.active_isa()
        lanes, registers = (tier.vector_bytes // 4, tier.registers // 2) if tier else (1, 1)
        order = tuple(name for name, _ in LOOPS)
        return Nests(order, trips.reshape(len(configs), len(LOOPS)), itemsize=4, lanes=lanes, registers=registers)

    def vector(self, config: State) -> list[float]:
        """Return the logarithm of every factor as a share of its dimension's, from -0.5 to 0.5.

        A re-implementation of the paper takes the share of the factor itself, which is near -0.5 for all factors but
        the largest: a network cannot tell 1 from 8 in 1024.
        """
        numbers = []
        for name, factors in config._asdict().items():
            whole = max(1, self.sizes[name].bit_length() - 1)
            numbers += [power / whole - 0.5 for power in _powers(factors)]
        return numbers


def _powers(factors: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(factor.bit_length() - 1 for factor in factors)


def _compositions(total: int, parts: int) -> list[tuple[int, ...]]:
    """Every way to write `total` as an ordered sum of `parts` whole numbers."""
    if parts == 1:
        return [(total,)]
    return [(first, *rest) for first in range(total + 1) for rest in _compositions(total - first, parts - 1)]


class Product:
    """Operands of one product, and running states on them.

    Parameters
    ----------
    space : NestedSpace
        The sizes.
    isa : str, optional
        The tier; the active one by default.
    seed : int
        Of the operands.

    Examples
    --------
    >>> space = NestedSpace(8, 4, 16)
    >>> product = Product(space)
    >>> bool(np.allclose(product.run(space.start), product.a @ product.b, atol=1e-6))
    True
    """

    def __init__(self, space: NestedSpace, isa: str | None = None, seed: int = 0) -> None:
        tier = kernels.active_isa() if isa is None else registry.isa(isa)
        if tier is None or tier not in kernels.runnable():
            raise RuntimeError("no kernels of this build run on this CPU")
        self._module = importlib.import_module(f"fastgemm.tune._nested_{tier.name}")
        self.space = space
        m, k, n = space.sizes.values()
        rng = np.random.default_rng(seed)
        self.a = _aligned(m, k)
        self.b = _aligned(k, n)
        self.c = _aligned(m, n)
        self.a[...] = rng.random((m, k), np.float32) * 2 - 1
        self.b[...] = rng.random((k, n), np.float32) * 2 - 1
        self._addresses = tuple(matrix.ctypes.data for matrix in (self.a, self.b, self.c))

    def run(self, state: State) -> np.ndarray:
        """Compute the product; the result is overwritten by the next run."""
        self._check(state)
        self._module.run(state, *self._addresses)
        return self.c

    def sample(self, state: State, starts: Sequence[float], length: float) -> list[float]:
        """Estimate the seconds of a whole run from stretches of it.

        Parameters
        ----------
        state : State
            What to run.
        starts : sequence of float
            Where the stretches begin, as shares of the product.
        length : float
            Seconds of a stretch.  As much again goes before it, to fill the caches.
        """
        self._check(state)
        found: list[float] = self._module.sample(state, *self._addresses, starts, length)
        return found

    def _check(self, state: State) -> None:
        if state not in self.space:
            raise ValueError(f"{state} is no tiling of {self.space.sizes}")


def _aligned(rows: int, columns: int) -> np.ndarray:
    """A float32 matrix at the beginning of a page: where it lies must not decide how fast a state is."""
    memory = np.zeros(rows * columns * 4 + 4096, np.uint8)
    offset = -memory.ctypes.data % 4096
    return memory[offset : offset + rows * columns * 4].view(np.float32).reshape(rows, columns)
