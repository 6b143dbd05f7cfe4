"""The intermediate representation: a `Graph` of `Node`s between `Value`s, checked when it is made, never changed after.

Nodes name the values that they read and write, so a pass makes a new graph by replacing nodes in a tuple and values in
a mapping; everything that it does not touch is shared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ..problem import MAX_BYTES_K
from . import ops
from .rules import Array, Spec, as_read

# Products that keep a packed operand, of floats and of bytes.
_FLOATS, _BYTES = ("matmul", "linear"), ("matmul_integer", "integer_linear")


class GraphError(ValueError):
    """A graph that means nothing: the message names the node and what is wrong with it.

    Examples
    --------
    >>> from fastgemm.graph import Builder
    >>> build = Builder()
    >>> build.softmax(build.input("x", (4, 8), "float32"), axis=2)
    Traceback (most recent call last):
        ...
    fastgemm.graph.ir.GraphError: node 'softmax_0' (softmax): there is no axis 2 of 2
    """


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """An array of a graph: an input, a constant, or what a node computes.

    Parameters
    ----------
    name : str
        Unique in the graph.
    shape : tuple of int
    dtype : numpy.dtype
    data : ndarray, optional
        The numbers of a constant.  They are copied where they are not aligned or in another machine's order of bytes.
    layout : tuple of int, optional
        The axes as they lie in memory, outermost first, where that is not C order.  Inputs have none; a constant lies
        as its array does.

    Examples
    --------
    >>> import numpy as np
    >>> from fastgemm.graph import Value
    >>> weight = Value("w", (8, 4), np.dtype("f4"), np.ones((8, 4), "f4"))
    >>> print(weight, weight.nbytes)
    w: float32 (8, 4) constant 128
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    data: Array | None = None
    layout: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        # Kernels read no others, and passes compare types as they are.
        if not self.dtype.isnative:
            object.__setattr__(self, "dtype", self.dtype.newbyteorder("="))
        if self.data is not None:
            object.__setattr__(self, "data", as_read(self.data))

    @property
    def spec(self) -> Spec:
        """Shape and type."""
        return Spec(self.shape, self.dtype)

    @property
    def size(self) -> int:
        """Numbers in it."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return self.size * self.dtype.itemsize

    @property
    def is_constant(self) -> bool:
        """Whether its numbers are known."""
        return self.data is not None

    def __str__(self) -> str:
        kind = " constant" if self.is_constant else ""
        order = "" if self.layout is None else f" stored as {self.layout}"
        return f"{self.name}: {self.dtype} {self.shape}{kind}{order}"


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One operation: `op` is a row of `ops.OPS`, inputs and outputs are names of values.

    ``name`` is what messages call it; by default the name of its first output.

    Examples
    --------
    >>> from fastgemm.graph import Node
    >>> node = Node("softmax", ("x",), ("y",), {"axis": 0})
    >>> print(node, node.kind)
    y = softmax(x, axis=0) row
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""

    @property
    def output(self) -> str:
        """Name of its only output."""
        return self.outputs[0]

    @property
    def kind(self) -> str:
        """The kind of its operation."""
        return ops.op(self.op).kind

    @property
    def label(self) -> str:
        """What messages call it: ``node 'h' (matmul)``."""
        return f"node {self.name or ', '.join(self.outputs)!r} ({self.op})"

    def __str__(self) -> str:
        row = ops.OPS.get(self.op)
        plain = {} if row is None else row.attributes
        other = {key: value for key, value in self.attributes.items() if key not in plain or value is not plain[key]}
        said = [f"{key}={_said(value)}" for key, value in other.items() if key not in plain or value != plain[key]]
        return f"{', '.join(self.outputs)} = {self.op}({', '.join([*self.inputs, *said])})"


def _said(value: object) -> str:
    return " > ".join(node.op for node in value.nodes) if isinstance(value, Graph) else str(value)


class Graph:
    """Nodes in an order in which they can run, their values, and which of these come from and go to the caller.

    Parameters
    ----------
    nodes : iterable of Node
        Each value is made by one node, before others read it.  The graph's own have all their attributes, those too
        that were left at their defaults; the axes of a transpose are named from the front.
    values : mapping or iterable of Value
        Every value that the nodes, inputs and outputs name.
    inputs, outputs : sequence of str
        Names of values.
    name : str
        For messages and `explain`.

    Raises
    ------
    GraphError
        If the graph means nothing.  The message names the node.

    Notes
    -----
    Shapes are fixed: a graph for another batch size is another graph, with the same constants.

    Examples
    --------
    >>> import numpy as np
    >>> from fastgemm.graph import Builder
    >>> build = Builder()
    >>> x = build.input("x", (2, 3), "float32")
    >>> build.output(build.relu(x @ np.ones((3, 4), "f4")), "y")
    >>> print(build.graph())
    graph: x -> y
      matmul_0 = matmul(x, constant_0)  float32 (2, 4)
      y = relu(matmul_0)  float32 (2, 4)
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        values: Mapping[str, Value] | Iterable[Value],
        inputs: Sequence[str],
        outputs: Sequence[str],
        name: str = "",
    ) -> None:
        self.nodes: tuple[Node, ...] = tuple(nodes)
        given = values.values() if isinstance(values, Mapping) else values
        self.values: Mapping[str, Value] = MappingProxyType({value.name: value for value in given})
        self.inputs, self.outputs, self.name = tuple(inputs), tuple(outputs), name
        self.nodes = self._checked()
        self._producers = {output: node for node in self.nodes for output in node.outputs}
        self._consumers: dict[str, list[Node]] = {}
        for node in self.nodes:
            for read in dict.fromkeys(node.inputs):
                self._consumers.setdefault(read, []).append(node)

    def value(self, name: str) -> Value:
        """Return a value by its name."""
        return self.values[name]

    def producer(self, name: str) -> Node | None:
        """Return the node that makes a value; None for inputs and constants."""
        return self._producers.get(name)

    def consumers(self, name: str) -> tuple[Node, ...]:
        """Return the nodes that read a value, in order; the caller of the graph is not among them."""
        return tuple(self._consumers.get(name, ()))

    def only_consumer(self, name: str) -> Node | None:
        """Return the node that alone reads a value; None where several do, or the caller."""
        found = self._consumers.get(name, ())
        return found[0] if len(found) == 1 and name not in self.outputs else None

    def only_maker(self, name: str) -> Node | None:
        """Return the node that makes a value which one node reads; None for other values."""
        return None if self.only_consumer(name) is None else self.producer(name)

    def constant(self, name: str) -> Array | None:
        """Return the numbers of a value where they are known."""
        return self.values[name].data

    def specs(self, node: Node) -> list[Spec]:
        """Return shapes and types of a node's operands."""
        return [self.values[read].spec for read in node.inputs]

    def packs(self, node: Node) -> bool:
        """Whether a node is a product whose right operand can be packed: a constant matrix, its zero point known."""
        if node.op not in (*_FLOATS, *_BYTES):
            return False
        weight = self.values[node.inputs[1]]
        # (A zero point is packed with it.)
        zeros = node.inputs[3:] if node.op == "matmul_integer" else ()
        known = all(self.values[name].is_constant for name in (weight.name, *zeros))
        return known and len(weight.shape) == 2 and (node.op in _FLOATS or weight.shape[0] <= MAX_BYTES_K)

    def changed(self, nodes: Iterable[Node], values: Iterable[Value] = ()) -> Graph:
        """Return the graph with other nodes and further (or other) values; what nothing reads is left out.

        Nodes are put in an order in which they can run, close to the order given.
        """
        known = {**self.values, **{value.name: value for value in values}}
        kept = _needed(_ordered(tuple(nodes)), self.outputs)
        used = {*self.inputs, *self.outputs, *(name for node in kept for name in (*node.inputs, *node.outputs))}
        return Graph(kept, [known[name] for name in known if name in used], self.inputs, self.outputs, self.name)

    def fresh(self, stem: str) -> str:
        """Return a name that no value has."""
        return fresh(stem, self.values)

    def __str__(self) -> str:
        lines = [f"{self.name or 'graph'}: {', '.join(self.inputs)} -> {', '.join(self.outputs)}"]
        for node in self.nodes:
            value = self.values[node.outputs[0]]
            order = "" if value.layout is None else f", stored as {value.layout}"
            lines.append(f"  {node}  {value.dtype} {value.shape}{order}")
        return "\n".join(lines)

    def _checked(self) -> tuple[Node, ...]:
        """Return the nodes with all their attributes; GraphError where the graph means nothing."""
        known = set(self.inputs)
        if len(known) != len(self.inputs):
            raise GraphError(f"an input is named twice: {', '.join(self.inputs)}")
        if len(set(self.outputs)) != len(self.outputs):
            raise GraphError(f"an output is named twice: {', '.join(self.outputs)}")
        for name in (*self.inputs, *self.outputs):
            if name not in self.values:
                raise GraphError(f"there is no value {name!r}, which is named as an input or output")
            if name in known and self.values[name].layout is not None:
                raise GraphError(f"input {name!r} has layout {self.values[name].layout}: inputs are read in C order")
        for value in self.values.values():
            _check_value(value)
            if value.is_constant:
                if value.name in known:
                    raise GraphError(f"input {value.name!r} is a constant")
                known.add(value.name)
        nodes = []
        for node in self.nodes:
            nodes.append(self._checked_node(node, known))
            known.update(node.outputs)
        missing = [name for name in self.outputs if name not in known]
        if missing:
            raise GraphError(f"no node makes output {missing[0]!r}")
        return tuple(nodes)

    def _checked_node(self, node: Node, known: set[str]) -> Node:
        for name in node.inputs:
            if name not in known:
                later = any(name in other.outputs for other in self.nodes)
                why = "is made by a later node" if later else "is neither input, constant, nor made by a node"
                raise GraphError(f"{node.label} reads {name!r}, which {why}")
        if len(node.outputs) != 1:
            raise GraphError(f"{node.label} has {len(node.outputs)} outputs; an operation has one")
        for name in node.outputs:
            if name in known:
                raise GraphError(f"{node.label} makes {name!r}, which there is already")
            if name not in self.values:
                raise GraphError(f"{node.label} makes {name!r}, of which shape and type are not given")
        try:
            row = ops.op(node.op)
            attributes = ops.attributes_of(row, node.attributes)
            spec = ops.infer(node.op, self.specs(node), attributes)
            attributes = ops.filled(row, self.specs(node), attributes)
        except (ValueError, TypeError) as error:
            raise GraphError(f"{node.label}: {error}") from None
        if attributes.get("packed") and not self.packs(node):
            raise GraphError(f"{node.label}: {self.values[node.inputs[1]]} cannot be packed")
        scale = self.values[node.inputs[1]].data if node.op == "quantize" else None
        if scale is not None and not (np.isfinite(scale) & (scale > 0)).all():
            raise GraphError(f"{node.label}: its scale must be finite and above zero")
        value = self.values[node.output]
        if value.spec != spec:
            raise GraphError(f"{node.label} makes {spec.dtype} {spec.shape}, its output is declared as {value}")
        return node if attributes == node.attributes else replace(node, attributes=attributes)


def _check_value(value: Value) -> None:
    if any(size < 0 for size in value.shape):
        raise GraphError(f"value {value.name!r} has shape {value.shape}")
    data = value.data
    if data is not None and (data.shape != value.shape or data.dtype != value.dtype):
        raise GraphError(f"constant {value.name!r} holds {data.dtype} {data.shape}, not {value.dtype} {value.shape}")
    if value.layout is not None and sorted(value.layout) != list(range(len(value.shape))):
        raise GraphError(f"value {value.name!r}: layout {value.layout} does not name all of {len(value.shape)} axes")


def fresh(stem: str, taken: Iterable[str]) -> str:
    """Return ``stem``, or the first of ``stem_0``, ``stem_1``, ... that is not taken."""
    names = taken if isinstance(taken, (set, dict, Mapping)) else set(taken)
    name, number = stem, 0
    while name in names:
        name, number = f"{stem}_{number}", number + 1
    return name


def _ordered(nodes: tuple[Node, ...]) -> list[Node]:
    """Put nodes after those whose values they read, otherwise in the order given."""
    producers = {output: node for node in nodes for output in node.outputs}
    done: set[int] = set()
    found: list[Node] = []
    for root in nodes:
        # By hand, not by recursion: a chain of a thousand nodes is a small model.
        waiting = [root]
        while waiting:
            node = waiting[-1]
            if id(node) in done:
                waiting.pop()
                continue
            before = [producers[read] for read in node.inputs if read in producers]
            missing = [other for other in before if id(other) not in done]
            if not missing:
                done.add(id(node))
                found.append(waiting.pop())
            elif len(waiting) > len(nodes):
                raise GraphError(f"{node.label} depends on itself")
            else:
                waiting.append(missing[0])
    return found


def _needed(nodes: Sequence[Node], outputs: Iterable[str]) -> list[Node]:
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if wanted & set(node.outputs):
            kept.append(node)
            wanted.update(node.inputs)
    return kept[::-1]


def renamed(node: Node, reads: Mapping[str, str]) -> Node:
    """Return a node that reads other values; itself where it reads none of them."""
    if reads.keys().isdisjoint(node.inputs):
        return node
    return replace(node, inputs=tuple(reads.get(name, name) for name in node.inputs))


def moved(node: Node, names: Mapping[str, str]) -> Node:
    """Return a node whose values, those that it reads and those that it makes, have other names: itself for none."""
    if names.keys().isdisjoint((*node.inputs, *node.outputs)):
        return node
    return replace(renamed(node, names), outputs=tuple(names.get(name, name) for name in node.outputs))
