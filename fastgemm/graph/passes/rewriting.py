"""What passes share: a walk over the nodes that keeps, replaces and leaves out."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import activations
from .. import ir, ops
from ..ir import Graph, Node, Value
from ..rules import Array

_ACTIVATIONS = {row.name: row for row in activations.EPILOGUES if row.name != "none"}


class Rewriting:
    """A graph while a pass walks over it.  Values that a node made may be `same` as others from then on."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.values: dict[str, Value] = dict(graph.values)
        self._same: dict[str, str] = {}

    def name(self, name: str) -> str:
        """Return under what name a value is read now."""
        return self._same.get(name, name)

    def reads(self, node: Node) -> list[Value]:
        """Return the values that a node reads now."""
        return [self.values[self.name(read)] for read in node.inputs]

    def keep(self, node: Node) -> None:
        """Take a node over."""
        self.nodes.append(ir.renamed(node, self._same))

    def same(self, old: str, new: str) -> bool:
        """Leave a value out, another one stands for it; False where it cannot be: the caller knows it by name."""
        if old in self.graph.outputs:
            return False
        self._same[old] = self.name(new)
        return True

    def constant(self, stem: str, data: Array) -> str:
        """Add a constant; return its name."""
        name = ir.fresh(stem, self.values)
        self.values[name] = Value(name, data.shape, data.dtype, data)
        return name

    def make(self, op: str, inputs: list[str], output: str | None = None, stem: str = "", **attributes: Any) -> str:
        """Add a node; it makes the value `output`, or a new one whose shape and type the table infers."""
        row = ops.op(op)
        merged = ops.attributes_of(row, attributes)
        reads = tuple(self.name(name) for name in inputs)
        if output is None:
            spec = ops.infer(op, [self.values[name].spec for name in reads], merged)
            output = ir.fresh(stem or op, self.values)
            self.values[output] = Value(output, spec.shape, spec.dtype)
        self.nodes.append(Node(op, reads, (output,), merged))
        return output

    def done(self) -> Graph:
        """Return the new graph."""
        return self.graph.changed(self.nodes, self.values.values())


class Finish:
    """What a product takes over of the nodes behind it, each the only reader of what the one before makes."""

    def __init__(self, graph: Graph, product: Node) -> None:
        self.graph, self.last = graph, product.output
        self.taken: list[str] = []
        self.operands: list[str] = []
        self.attributes: dict[str, Any] = {}

    def next(self) -> Node | None:
        """Return the node that alone reads the result so far."""
        return self.graph.only_consumer(self.last)

    def other(self, node: Node) -> Value:
        """Return what a node of two operands reads beside the result so far."""
        return self.graph.values[node.inputs[1] if node.inputs[0] == self.last else node.inputs[0]]

    def take(self, node: Node) -> None:
        """Go on behind a node."""
        self.last = node.output
        self.taken.append(node.output)

    def activation(self, node: Node) -> bool:
        """Note a node as the product's activation, where it can be."""
        found = activation(self.graph, node)
        self.attributes |= found or {}
        return found is not None


def number(value: Value) -> float | None:
    """Return the number that a constant of one element holds; None for everything else.

    Examples
    --------
    >>> import numpy as np
    >>> from fastgemm.graph import Value
    >>> from fastgemm.graph.passes.rewriting import number
    >>> data = np.array([[0.5]], "f4")
    >>> number(Value("half", data.shape, data.dtype, data))
    0.5
    """
    return float(value.data.reshape(-1)[0]) if value.data is not None and value.data.size == 1 else None


def broadcasts(value: Value, shape: tuple[int, ...]) -> bool:
    """Whether an array can be added to one of a shape without making that larger."""
    try:
        return np.broadcast_shapes(value.shape, shape) == shape
    except ValueError:
        return False


def activation(graph: Graph, node: Node) -> dict[str, Any] | None:
    """Return the attributes of a product that does what a node does to each number of its result; None for none."""
    if node.op == "maximum":
        values, shape = graph.values, graph.values[node.output].shape
        pairs = (node.inputs, node.inputs[::-1])
        # (A zero of more axes gives the result more.)
        relu = any(number(values[zero]) == 0 and values[x].shape == shape for zero, x in pairs)
        return {"activation": "relu"} if relu else None
    row = _ACTIVATIONS.get(node.op)
    if row is None:
        return None
    return {"activation": row.name, **{key: node.attributes.get(key, default) for key, default in row.params}}
