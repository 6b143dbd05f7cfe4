"""Loop nests as arrays, and what they cost by data movement alone.

A nest is a list of loops, outermost first, each over rows (m), columns (n) or the sum (k) of a product, the last three
those of a register tile.  From the trip counts alone follows, for the body of every loop, how much of A, B and C
it touches.  These working sets are assigned to cache levels, and what does not fit has to move: the idea of
PolyDL (arXiv 2006.02230), here in closed form for products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

# What each operand is indexed by, slow index first.
OPERANDS = {"A": ("m", "k"), "B": ("k", "n"), "C": ("m", "n")}

LINE = 64

# Bytes a cycle into L1, L2 and L3 from the level behind: of the order that recent cores have.  Only ratios matter.
RATES = (32, 16, 6)

# Multiply-adds of a vector a cycle, and how many must be under way to hide their latency.
ISSUED, LATENCY = 2, 8

# Cycles to wake a team and wait for it: about half a MFLOP pays for it.
TEAM = 8000


@dataclass(frozen=True)
class Nests:
    """The loops of several configurations, in one order for all of them.

    Parameters
    ----------
    order : tuple of str
        The dimension of each loop, outermost first.
    trips : ndarray
        A row for each configuration, a column for each loop.
    itemsize : int
        Bytes of an element.
    lanes : int
        Elements of a vector register.
    registers : int, optional
        Vectors of C that registers can hold; a larger tile lies in memory. No limit by default.
    packed : dict of str to ndarray
        For an operand, in which configurations it is read from a packed block, where it lies dense.
    copied : ndarray, optional
        Bytes that are copied into such blocks.
    threads : ndarray, optional
        Threads of each configuration; the loops are those of one of them.
    repeats : ndarray, optional
        How often a thread runs the nest, for stacks of products.
    annotations : ndarray, optional
        A row for each configuration of what trip counts do not say, for models that learn.

    Examples
    --------
    >>> nests = Nests(("m", "n", "k", "m"), np.array([[2.0, 8, 4, 3]]), itemsize=4, lanes=1)
    >>> nests.extents()["m"]
    array([[6., 3., 3., 3., 1.]])
    """

    order: tuple[str, ...]
    trips: np.ndarray
    itemsize: int
    lanes: int
    registers: int | None = None
    packed: dict[str, np.ndarray] = field(default_factory=dict)
    copied: np.ndarray | None = None
    threads: np.ndarray | None = None
    repeats: np.ndarray | None = None
    annotations: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.trips)

    def extents(self) -> dict[str, np.ndarray]:
        """Elements of each dimension that the body of loop i covers; column 0 is the whole nest."""
        found = {}
        for name in ("m", "n", "k"):
            own = np.where([name == dim for dim in self.order], self.trips, 1.0)
            # Cumulative products from the innermost loop outwards.
            inner = np.cumprod(own[:, ::-1], axis=1)[:, ::-1]
            found[name] = np.concatenate([inner, np.ones((len(self), 1))], axis=1)
        return found

    def touched(self) -> dict[str, np.ndarray]:
        """Bytes of each operand that the body of every loop touches, in whole cache lines where rows lie apart."""
        extents = self.extents()
        found = {}
        for name, (slow, fast) in OPERANDS.items():
            row = extents[fast] * self.itemsize
            lined = np.maximum(row, np.minimum(LINE, extents[fast][:, :1] * self.itemsize))
            if name in self.packed:
                lined = np.where(self.packed[name][:, None], row, lined)
            found[name] = extents[slow] * lined
        return found

    def runs(self) -> np.ndarray:
        """How often the body of each loop runs; column 0 is the whole nest, which runs once."""
        ones = np.ones((len(self), 1))
        return np.concatenate([ones, np.cumprod(self.trips, axis=1)], axis=1)


class Experience(NamedTuple):
    """What was measured for one problem: the loops of some configurations, and their seconds."""

    nests: Nests
    seconds: np.ndarray


def moved(nests: Nests, capacity: float) -> np.ndarray:
    """Bytes that come into a cache of some capacity.

    The working set of a loop's body is assigned to the cache if it fits.  The body of the outermost such
    loop is loaded once a run, and of that an operand stays which the loop around it does not index.

    Examples
    --------
    >>> loops = ("m", "n", "k")
    >>> nests = Nests(loops, np.array([[64.0, 64, 64]]), itemsize=64, lanes=1)
    >>> float(moved(nests, 1 << 30)[0]) == 4 * 64 * 64 * 64  # all of it fits: A and B once, C in and out
    True
    >>> bool(moved(nests, 1 << 13)[0] > 64 * 64 * 64 * 64)  # B does not fit, and is loaded 64 times
    True
    """
    touched, runs = nests.touched(), nests.runs()
    whole = touched["A"] + touched["B"] + touched["C"]
    depth = len(nests.order)
    # Bodies shrink inwards: the first that fits is the outermost.
    fits = whole <= capacity
    level = np.where(fits.any(axis=1), fits.argmax(axis=1), depth)
    rows = np.arange(len(nests))
    total = np.zeros(len(nests))
    for name, indices in OPERANDS.items():
        loads = runs[rows, level].copy()
        # Loops next outside that do not index the operand find it where it is.
        staying = level.copy()
        for loop in range(depth - 1, -1, -1):
            kept = (staying == loop + 1) & ((nests.trips[:, loop] == 1) | (nests.order[loop] not in indices))
            loads = np.where(kept, loads / nests.trips[:, loop], loads)
            staying = np.where(kept, loop, staying)
        # A sum that is not finished is read and written.
        share = 2.0 if name == "C" else 1.0
        total += share * loads * touched[name][rows, level]
    return total


def computed(nests: Nests) -> np.ndarray:
    """Cycles that the multiply-adds take if all operands are in L1, vectors that are not full included."""
    steps, rows, columns = nests.trips[:, -3], nests.trips[:, -2], nests.trips[:, -1]
    tiles: np.ndarray = np.prod(nests.trips[:, :-3], axis=1)
    vectors = np.ceil(columns / nests.lanes)
    # A step loads the vectors of B and a broadcast of A for every row, or waits for its own sums.
    step = np.maximum(np.maximum(rows * vectors, LATENCY), rows + vectors) / ISSUED
    if nests.registers is not None:
        # Every step loads and stores the sums.
        step = np.where(rows * vectors > nests.registers, 3 * rows * vectors / ISSUED, step)
    found: np.ndarray = tiles * (steps * step + 2 * rows * vectors)
    return found


def cycles(nests: Nests, caches: Sequence[int]) -> np.ndarray:
    """Estimate the time of every configuration, in cycles: good for ranking them, not as a prediction.

    Parameters
    ----------
    nests : Nests
        The configurations.
    caches : sequence of int
        Bytes of L1, L2 and L3.

    Examples
    --------
    >>> loops = ("m", "n", "k", "m", "n")
    >>> tiles = np.array([[1024.0, 1024, 1024, 1, 1], [1024 / 8, 1024 / 32, 1024, 8, 32]])
    >>> one, tiled = cycles(Nests(loops, tiles, itemsize=4, lanes=16), (32 << 10, 1 << 20, 32 << 20))
    >>> bool(one > 10 * tiled)
    True
    """
    total = computed(nests)
    for capacity, rate in zip(caches, RATES, strict=True):
        # The other half is what streams through.
        total = total + moved(nests, capacity / 2) / rate
    if nests.copied is not None:
        total = total + 2 * nests.copied / RATES[1]
    if nests.repeats is not None:
        total = total * nests.repeats
    if nests.threads is not None:
        total = total + TEAM * (nests.threads > 1)
    return total
