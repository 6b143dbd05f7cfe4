"""The memory model: bytes that a graph fetches into each cache level, step by step, and the copies that it makes.

A cache is taken for a list of arrays by the time of their last use, of which as many bytes are there as it holds.
What a step reads is fetched where too much was touched since its last use; the two ways through it, then and now, are
taken to go from its beginning to its end (`Touch.sweep`).  Written lines are fetched as well, as CPUs do.  Lines that
conflict, prefetching and what is written back are not in it.  `bench/cachegrind.py` holds it against a simulator.

Bytes alone do not say which way is faster (bfloat16 MLP_1 at batch 32 as a chain: 0.48 by bytes, 2.28 by the clock):
`costs` puts work, calls and waiting threads beside them, and decides between ways to fuse.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .. import cpu
from . import ops, rowwise, touches
from .attention import attention, parts
from .ir import Graph, Node
from .touches import Touch, in_parts

# Cycles a byte beyond what the level above costs: Zen 5, one thread, the maximum of float32 arrays of 36 KiB to 256 MiB
# takes 0.026, 0.035, 0.071 and 0.119 cycles a byte (`python bench/cachegrind.py --rates`).
CYCLES = (0.009, 0.036, 0.048)
LEVELS = ("L1", "L2", "L3")
# Pieces of a chain that are followed one by one; the others are taken to be like the later half of these.
FOLLOWED = 16


class Fetched(NamedTuple):
    """Bytes fetched by one step, into each level."""

    label: str
    bytes: tuple[int, ...]


class Traffic(NamedTuple):
    """What one call of a graph fetches, when calls follow each other."""

    capacities: tuple[int, ...]
    steps: tuple[Fetched, ...]
    copies: int
    copied: int

    @property
    def total(self) -> tuple[int, ...]:
        """Bytes fetched into each level."""
        return tuple(sum(step.bytes[at] for step in self.steps) for at in range(len(self.capacities)))

    @property
    def cycles(self) -> float:
        """Cycles that fetching takes, where nothing hides it."""
        return cycles(self.total)

    def __str__(self) -> str:
        head = "  ".join(f"{name:>10}" for name in LEVELS)
        lines = [f"bytes fetched into    {head}"]
        for step in (*self.steps, Fetched("a call", self.total)):
            lines.append(f"  {step.label[:18]:<18}  " + "  ".join(f"{size:>10}" for size in step.bytes))
        return "\n".join([*lines, f"copies between operations: {self.copies} of {self.copied} bytes"])


def cycles(fetched: Sequence[int]) -> float:
    """Return what fetching so many bytes into each level takes, where nothing hides it."""
    return sum(size * rate for size, rate in zip(fetched, CYCLES, strict=False))


# What nodes touch, by their results and the rows of one piece.
_Touched = dict[tuple[str, int | None], list[Touch]]


def traffic(
    graph: Graph,
    capacities: Sequence[int] = (),
    places: Mapping[str, str] | None = None,
    touched: _Touched | None = None,
) -> Traffic:
    """Return what one call of a graph fetches.

    Parameters
    ----------
    graph : Graph
        Before passes or after them.
    capacities : sequence of int, optional
        Bytes of each cache, the smallest first; this CPU's by default, as one thread has them.
    places : mapping, optional
        Which values share memory: the name of their place.  By default each has an array of its own but for views.
    touched : dict, optional
        Keeps what nodes touch between calls for parts of one graph.

    Returns
    -------
    Traffic

    Examples
    --------
    >>> import numpy as np
    >>> from fastgemm.graph import Builder, memory
    >>> build = Builder()
    >>> x = build.input("x", (64, 1024), "float32")
    >>> build.output(build.relu(x + 1.0), "y")
    >>> memory.traffic(build.graph(), (1 << 16, 1 << 20)).total
    (1048640, 0)
    """
    sizes = tuple(capacities) or cpu.caches()
    known = _roots(graph) if places is None else places
    found: list[list[int]] = []
    touched = {} if touched is None else touched
    for capacity in sizes:
        cache = _Cache(capacity, known, touched)
        for _ in range(2):  # the second call finds what the first one left
            spent = [cache.step(graph, node) for node in graph.nodes if node.kind != ops.VIEW]
        found.append(spent)
    nodes = [node for node in graph.nodes if node.kind != ops.VIEW]
    columns = zip(*found, strict=True)
    steps = tuple(Fetched(f"{node.op} {node.output}", one) for node, one in zip(nodes, columns, strict=True))
    copied = [graph.values[node.output].nbytes for node in nodes if node.kind == ops.COPY]
    return Traffic(sizes, steps, len(copied), sum(copied))


def _roots(graph: Graph) -> dict[str, str]:
    """Return the array of each value: a view's is its source's."""
    found = {name: name for name in graph.values}
    for node in graph.nodes:
        if node.kind == ops.VIEW:
            found[node.output] = found[node.inputs[0]]
    return found


class _Use(NamedTuple):
    """The last use of an array: its sweep then, in which step, and beside which arrays."""

    size: int
    sweep: int
    step: int
    beside: frozenset[str]


class _Sizes:
    """Bytes of arrays by the step of their last use: how many were used after a step, in a time that hardly grows."""

    BLOCK = 128

    def __init__(self) -> None:
        self.total = 0
        self._steps: list[int] = []
        self._blocks: list[int] = []

    def add(self, step: int, size: int) -> None:
        """Count an array's bytes; those of one that was used again, or is none any longer, are negative."""
        while len(self._steps) <= step:
            self._blocks += [0] * (len(self._steps) % self.BLOCK == 0)
            self._steps.append(0)
        self._steps[step] += size
        self._blocks[step // self.BLOCK] += size
        self.total += size

    def after(self, step: int) -> int:
        """Return the bytes of the arrays that were last used after a step."""
        end = step // self.BLOCK + 1
        return sum(self._steps[step + 1 : end * self.BLOCK]) + sum(self._blocks[end:])


class _Cache:
    """Arrays by their last use, and how many bytes they are together."""

    def __init__(self, capacity: int, places: Mapping[str, str], touched: _Touched) -> None:
        self.capacity, self.places, self.touched = capacity, places, touched
        self.used: dict[str, _Use] = {}
        self.sizes, self.now = _Sizes(), 0

    def step(self, graph: Graph, node: Node) -> int:
        """Bytes that one node fetches."""
        if node.op == "chain":
            return self._chain(node)
        return self.touch([(self.places.get(one.name, one.name), one) for one in self._touches(graph, node)])

    def _touches(self, graph: Graph, node: Node, rows: int | None = None) -> list[Touch]:
        key = node.output, rows
        if key not in self.touched:
            self.touched[key] = touches.of_node(graph, node, rows)
        return self.touched[key]

    def touch(self, found: Sequence[tuple[str, Touch]]) -> int:
        """Bytes fetched by a step that touches these arrays, each at its place; a part of one is ``place#number``."""
        merged: dict[str, Touch] = {}
        for place, touch in found:
            if place not in merged or touch.size > merged[place].size:
                merged[place] = touch
        self.now += 1
        spent = sum(self._first(place, one) + one.again(self.capacity) for place, one in merged.items())
        beside = frozenset(merged)
        for place, one in merged.items():
            self._use(place, _Use(one.size, one.sweep, self.now, beside))
        return spent

    def _use(self, place: str, use: _Use | None) -> None:
        """Note the last use of an array; None: it is one no longer."""
        before = self.used.pop(place, None)
        if before is not None:
            self.sizes.add(before.step, -before.size)
        if use is not None:
            self.used[place] = use
            self.sizes.add(use.step, use.size)

    def _first(self, place: str, touch: Touch) -> int:
        """Bytes fetched the first time through an array: of what lies further back than the cache reaches."""
        last = self.used.get(place) or self.used.get(place.partition("#")[0])
        if last is None:
            return touch.size
        if self.sizes.total <= self.capacity:
            return 0
        # Of the arrays since: those that steps in between worked through, each once; the sweep counts its own.
        between = self.sizes.after(last.step)
        again = (self.used.get(name) for name in last.beside)
        between -= sum(one.size for one in again if one is not None and one.step > last.step)
        if between >= self.capacity:
            return touch.size
        return round(touch.size * (1 - _within(self.capacity, between, last.sweep, touch.sweep)))

    def _chain(self, node: Node) -> int:
        body: Graph = node.attributes["body"]
        spent: list[int] = []
        inside: set[str] = set()
        count, part = pieces(body, node)
        groups, narrow = _groups(body, node.attributes.get("keys", 0))
        parted = [name for name, value in body.values.items() if value.is_constant and not _is_shared(body, name)]
        outside = {name: self.places.get(name, name) for name in (*body.inputs, *parted, *body.outputs)}
        for at in range(min(count, FOLLOWED)):
            total = 0
            for group in groups:
                found = [one for member in group for one in self._touches(body, member, part.rows)]
                if len(group) > 1:
                    found = in_parts(found, narrow)
                placed = [(self._place(body, one.name, outside, at, part), one) for one in found]
                total += self.touch(placed)
                inside.update(place for place, one in placed if place != outside.get(one.name, place))
            spent.append(total)
        whole = 0
        for name in outside:
            whole += touches.bytes_of(body, name)
        for place in inside:
            self._use(place, None)
        beside = frozenset(outside.values())
        for name, place in outside.items():
            self._use(place, _Use(touches.bytes_of(body, name), whole, self.now, beside))
        later = spent[len(spent) // 2 :]
        return sum(spent) + round((count - len(spent)) * sum(later) / len(later))

    @staticmethod
    def _place(body: Graph, name: str, outside: Mapping[str, str], at: int, part: _Pieces) -> str:
        if name not in outside:
            # Constants are shared; what is made and read inside lies in one scratch, again and again.
            return name if body.values[name].is_constant else f"{body.outputs[0]} scratch {name}"
        return outside[name] if _is_shared(body, name) else f"{outside[name]}#{_number(body, name, at, part)}"


def _is_right(body: Graph, name: str) -> bool:
    return any(name in node.inputs[1:2] and node.kind == ops.PRODUCT for node in body.nodes)


def _is_shared(body: Graph, name: str) -> bool:
    """Whether all pieces of a chain read the whole of a value: a weight, or a vector."""
    return math.prod(body.values[name].shape[: -2 if _is_right(body, name) else -1]) == 1


def _number(body: Graph, name: str, at: int, part: _Pieces) -> str:
    """Return which part of a value a piece of a chain reads: of its matrices, and of the blocks of rows of that."""
    shape = body.values[name].shape
    matrix, block = divmod(at, part.blocks)
    found: list[int] = []
    if not (_is_right(body, name) or (shape[-2] == 1 and not part.all_rows)):
        found.append(block)
    if not part.all_rows:
        # Axes that operands are repeated along have one part.
        for size, own in zip(body.values[body.outputs[0]].shape[-3::-1], shape[-3::-1], strict=False):
            matrix, index = divmod(matrix, size)
            found.append(index if own != 1 else 0)
    return ",".join(map(str, found))


def _groups(body: Graph, keys: int) -> tuple[list[list[Node]], dict[str, float]]:
    """Return a chain's members, those of attention by parts together, and what part of values is there at a time."""
    groups = [[node] for node in body.nodes]
    cut = attention(body.nodes, body.values) if keys else None
    if cut is None:
        return groups, {}
    at = body.nodes.index(cut.scores)
    share = parts(cut.keys(body.values), keys)[0][1] / cut.keys(body.values)
    return [*groups[:at], list(cut), *groups[at + 3 :]], {cut.scores.output: share, cut.shares.output: share}


class _Pieces(NamedTuple):
    rows: int
    blocks: int
    all_rows: bool


def pieces(body: Graph, node: Node) -> tuple[int, _Pieces]:
    """Return how many pieces a chain runs in, the rows of one, how many blocks of rows a matrix has, and whether all
    leading axes are rows of one matrix.
    """
    flat = rowwise.joined(body.nodes, body.values)
    return cut(body.values[body.outputs[0]].shape, flat, node.attributes["block"])


def cut(shape: tuple[int, ...], flat: bool, block: int) -> tuple[int, _Pieces]:
    """Return the same for the shape of a result, all of whose leading axes are rows where it is `flat`."""
    rows = math.prod(shape[:-1]) if flat else shape[-2]
    block = min(block, rows)
    blocks = -(-rows // block)
    return blocks * (1 if flat else math.prod(shape[:-2])), _Pieces(block, blocks, flat)


def _within(capacity: int, between: int, old: int, new: int) -> float:
    """Return the part of an array that is within reach: u of it where (1 - u) * old + between + u * new <= capacity."""
    left, slope = capacity - between - old, new - old
    if slope == 0:
        return 1.0 if left >= 0 else 0.0
    edge = min(max(left / slope, 0.0), 1.0)
    return edge if slope > 0 else 1.0 - edge
