"""A program: the steps that a graph runs, and the memory that they run in.

Arrays are numbered: a step names its operands and its result by numbers of one table, which holds constants, views of
the workspace (made once for each workspace), and what comes from the caller (made at each call).  A step that reads and
writes nothing of the caller's is bound to its arrays once for each workspace as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from . import ops, planner, storage
from .ir import Graph, Node
from .planner import Birth, Death, Placement
from .rules import Array, Spec
from .runners import Call, Runner, runner
from .storage import Place


class Step(NamedTuple):
    """A node that runs: its runner, the numbers of its operands and its result, and whether all of those are ours."""

    node: Node
    runner: Runner
    reads: tuple[int, ...]
    writes: int
    ours: bool


class Frame(NamedTuple):
    """A workspace: its table, None for what the caller gives, and the calls of steps that have been bound to it."""

    table: list[Array | None]
    calls: list[Call | None]


class _Given(NamedTuple):
    """A number of the table that is an array of the caller's, or a view of one where it is not `whole`."""

    number: int
    root: str
    whole: bool
    place: Place
    spec: Spec


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
        given = [self._from_caller(name) for name, place in self.places.items() if self._is_given(place.root)]
        self._whole = [(one.number, one.root) for one in given if one.whole]
        self._views = [one for one in given if not one.whole]
        self.steps = [self._step(node) for node in self.nodes]
        self._bound = [(step.runner.bind, step.reads, step.writes, step.ours) for step in self.steps]
        self.quiet = all(step.runner.quiet for step in self.steps)

    def _is_given(self, root: str) -> bool:
        return root in self.given or root in self.made

    def _from_caller(self, name: str) -> _Given:
        place, value = self.places[name], self.graph.values[name]
        # The caller's array may have another shape and order than a value that is as whole as it is.
        order = storage.in_order(value.shape, value.dtype.itemsize)
        same = storage.lengths(value.shape, place.strides) == storage.lengths(value.shape, order)
        known_as = self.given.get(place.root, self.made.get(place.root))
        whole = place.root == name == known_as and same
        return _Given(self.numbers[name], place.root, whole, place, value.spec)

    def _step(self, node: Node) -> Step:
        numbers = [self.numbers[name] for name in (*node.inputs, node.output)]
        ours = not any(self._is_given(self.places[name].root) for name in (*node.inputs, node.output))
        *reads, writes = numbers
        return Step(node, runner(self.graph, node, self.places), tuple(reads), writes, ours)

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

    def frame(self) -> Frame:
        """Return a workspace."""
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
        return Frame(found, [None] * len(self.steps))

    def run(self, frame: Frame, arrays: Mapping[str, Array]) -> list[Array]:
        """Run the steps; return the table, completed by the caller's arrays (by their roots), which are in C order."""
        table, calls = frame
        filled: list[Any] = table.copy()
        for number, root in self._whole:
            filled[number] = arrays[root]
        for number, root, _, place, spec in self._views:
            filled[number] = storage.seen(arrays[root], place, spec)
        for at, (bind, reads, writes, ours) in enumerate(self._bound):
            call = calls[at]
            if call is None:
                call = bind([filled[number] for number in reads], filled[writes])
                if ours:
                    calls[at] = call
            call()
        return filled


def aligned(size: int) -> Array:
    """Return so many bytes, not initialised, that begin at a cache line."""
    raw = np.empty(size + planner.ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % planner.ALIGNMENT
    return raw[start : start + size]
