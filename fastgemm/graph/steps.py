"""A program: the steps that a graph runs, and the memory that they run in.

Arrays are numbered: a step names its operands and its result by numbers of one table, which holds constants, views of
the workspace (made once for each workspace), and what comes from the caller (made at each call).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from . import ops, planner, storage
from .ir import Graph, Node
from .planner import Birth, Death, Placement
from .rules import Array, Attributes
from .runners import Runner, runner
from .storage import Place


class Step(NamedTuple):
    """A node that runs: its runner, and the numbers of its operands and its result."""

    node: Node
    run: Runner
    reads: tuple[int, ...]
    writes: int
    attributes: Attributes


class Program:
    """A graph after its passes, lowered to steps over one planned block of memory."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        found = storage.places(graph)
        self.places: dict[str, Place] = {name: place for name, place in found.items() if place is not None}
        if len(self.places) != len(found):
            missing = next(name for name, place in found.items() if place is None)
            raise ValueError(f"{missing!r} is a view that needs a copy")
        self.nodes = [node for node in graph.nodes if node.kind != ops.VIEW]
        # Roots that are the caller's arrays, by the name under which the caller knows them.
        self.given = {name: name for name in graph.inputs}
        self.made = {self.places[name].root: name for name in graph.outputs if graph.producer(name) is not None}
        self.plan: Placement = planner.place(self._lives())
        self.numbers = {name: at for at, name in enumerate(self.places)}
        self.steps = [self._step(node) for node in self.nodes]

    def _step(self, node: Node) -> Step:
        reads = tuple(self.numbers[name] for name in node.inputs)
        attributes = ops.attributes_of(ops.op(node.op), node.attributes)
        return Step(node, runner(self.graph, node), reads, self.numbers[node.output], attributes)

    def in_workspace(self, root: str) -> bool:
        """Whether an array is planned, not the caller's and no constant."""
        return root not in self.given and root not in self.made and self.graph.values[root].data is None

    def _lives(self) -> Iterator[Birth | Death]:
        last: dict[str, int] = {}
        for at, node in enumerate(self.nodes):
            for name in (*node.inputs, node.output):
                last[self.places[name].root] = at
        for at, node in enumerate(self.nodes):
            if self.in_workspace(node.output):
                over = [name for name in self._dying(node, at, last) if self.in_workspace(name)]
                yield Birth(node.output, self.graph.values[node.output].nbytes, tuple(over))
            roots = {self.places[name].root for name in (*node.inputs, node.output)}
            yield from (Death(root) for root in sorted(roots) if last[root] == at and self.in_workspace(root))

    def _dying(self, node: Node, at: int, last: Mapping[str, int]) -> Iterator[str]:
        """Operands that the result may lie on: needed no longer, and each number read where it will be written."""
        mine = self.places[node.output]
        spec = self.graph.values[node.output].spec
        for index in ops.op(node.op).in_place:
            if index >= len(node.inputs):
                continue
            place = self.places[node.inputs[index]]
            others = [self.places[name] for name in node.inputs if self.places[name].root == place.root]
            if (
                last[place.root] == at
                and self.graph.values[node.inputs[index]].spec == spec
                and all(other == place for other in others)
                and place.offset == 0
                and storage.lengths(spec.shape, place.strides) == storage.lengths(spec.shape, mine.strides)
                and self.graph.values[place.root].nbytes == self.graph.values[node.output].nbytes
            ):
                yield place.root

    def table(self) -> list[Array | None]:
        """Return a table with a workspace of its own; what the caller gives is None."""
        block = aligned(self.plan.total)
        found: list[Array | None] = []
        for name, place in self.places.items():
            value, data = self.graph.values[name], self.graph.values[place.root].data
            if data is not None:
                found.append(data if place.root == name else storage.seen(data, place, value.spec))
            elif self.in_workspace(place.root):
                start = self.plan.offsets[place.root] + place.offset
                found.append(np.ndarray(value.shape, value.dtype, block, start, place.strides))
            else:
                found.append(None)
        return found

    def bound(self, table: list[Array | None], arrays: Mapping[str, Array]) -> list[Array]:
        """Return a table completed by the caller's arrays, which are in C order."""
        filled = []
        for (name, place), known in zip(self.places.items(), table, strict=True):
            if known is None:
                # The caller's array may have the shape and the order of a view of the root, as whole as the root is.
                base, spec = arrays[place.root], self.graph.values[name].spec
                own = place.root == name and base.shape == spec.shape and base.strides == place.strides
                known = base if own else storage.seen(base, place, spec)
            filled.append(known)
        return filled


def aligned(size: int) -> Array:
    """Return so many bytes, not initialised, that begin at a cache line."""
    raw = np.empty(size + planner.ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % planner.ALIGNMENT
    return raw[start : start + size]
