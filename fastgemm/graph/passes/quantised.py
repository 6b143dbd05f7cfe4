"""quantised: products between dequantise and quantise are computed with the bytes themselves.

    dequantize(a) @ dequantize(b) [+ bias] [activation] [quantize]   becomes   qlinear(a, b)

A product of bytes sums in int32.  With a zero point of `a` the sums are off by ``zero_a * sum(b)`` for each column:
where b is constant that term is computed here, once, and goes into the bias.  Dequantise steps are moved down and
quantise steps up past reshapes and transposes, so that they meet the products.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...numpy_types import BYTES
from .. import ops
from ..ir import Graph, Node
from ..rules import Array
from .fold import fold
from .rewriting import Rewriting, number

_SINGLE = np.dtype("f4")
_VIEWS = ("reshape", "transpose", "slice")


def quantised(graph: Graph) -> Graph:
    """Return the graph with products of bytes where it dequantises both operands."""
    graph = _past_views(graph)
    made = Rewriting(graph)
    taken: set[str] = set()
    for node in graph.nodes:
        if node.output in taken:
            continue
        found = _operands(graph, node)
        if found is None:
            made.keep(node)
            continue
        output = node.output
        attributes: dict[str, Any] = {"a_zero": found.a_zero, "b_zero": found.b_zero}
        attributes |= {key: node.attributes[key] for key in ("activation", "p", "q") if key in node.attributes}
        y = _quantiser(graph, node.output)
        if y is not None:
            output = y.node.output
            taken.add(output)
            attributes |= {"y_scale": y.scale, "y_zero": y.zero, "dtype": graph.values[output].dtype.name}
        operands, terms = [found.a, found.b, made.constant(f"{node.output}_scale", found.scale)], ["scale"]
        if found.bias is not None:
            operands.append(made.constant(f"{node.output}_bias", found.bias))
            terms.append("bias")
        made.make("qlinear", operands, output, terms=tuple(terms), **attributes)
    return made.done()


class _Operands(NamedTuple):
    a: str
    b: str
    a_zero: int
    b_zero: int
    scale: Array
    bias: Array | None


class _Quantiser(NamedTuple):
    node: Node
    scale: float
    zero: int


def _quantiser(graph: Graph, name: str) -> _Quantiser | None:
    """Return the node that alone reads a value and quantises it by one scale and zero point."""
    node = graph.only_consumer(name)
    if node is None or node.op != "quantize" or node.inputs[0] != name:
        return None
    scale = number(graph.values[node.inputs[1]])
    zero = 0.0 if len(node.inputs) < 3 else number(graph.values[node.inputs[2]])
    return None if scale is None or zero is None else _Quantiser(node, scale, int(zero))


def _operands(graph: Graph, node: Node) -> _Operands | None:
    """Return what a product's operands stand for; None where it is no product of bytes."""
    terms = tuple(node.attributes.get("terms", ()))
    if node.op not in ("matmul", "linear") or terms not in ((), ("bias",)) or node.inputs[0] == node.inputs[1]:
        return None
    left, right = (graph.producer(name) for name in node.inputs[:2])
    if left is None or right is None or left.op != "dequantize" or right.op != "dequantize":
        return None
    a, b = graph.values[left.inputs[0]], graph.values[right.inputs[0]]
    if graph.values[node.output].dtype != _SINGLE or a.dtype not in BYTES or b.dtype not in BYTES:
        return None
    one, many = number(graph.values[left.inputs[1]]), graph.values[right.inputs[1]].data
    zeros = [0.0 if len(x.inputs) < 3 else _same(graph.values[x.inputs[2]].data) for x in (left, right)]
    columns = right.attributes.get("axis", -1) in (-1, len(b.shape) - 1)
    if one is None or many is None or None in zeros or not (many.size == 1 or (columns and len(b.shape) == 2)):
        return None
    a_zero, b_zero = (int(zero or 0) for zero in zeros)
    with np.errstate(over="ignore", invalid="ignore"):
        scale = np.float32(one) * np.broadcast_to(many.astype(np.float32).reshape(-1), b.shape[-1:])
    bias = None
    if terms:
        bias = graph.values[node.inputs[2]].data
        if bias is None:
            return None
    if a_zero and b.data is not None and len(b.shape) == 2 and not b_zero:
        found = -a_zero * b.data.sum(axis=0, dtype=np.int64) * scale.astype("f8")
        with np.errstate(over="ignore", invalid="ignore"):
            bias = (found if bias is None else found + bias).astype(np.float32)
        a_zero = 0
    return _Operands(a.name, b.name, a_zero, b_zero, np.ascontiguousarray(scale), bias)


def _same(data: Array | None) -> float | None:
    """Return the number that all numbers of a constant are; None where they differ."""
    return float(data.reshape(-1)[0]) if data is not None and data.size and np.all(data == data.flat[0]) else None


def _past_views(graph: Graph) -> Graph:
    """Move dequantise steps down, and quantise steps with what leads to them up, past views; fold what that leaves."""
    return fold(_up(_without_pairs(_down(graph))))


def _without_pairs(graph: Graph) -> Graph:
    """Leave out what makes floats of bytes and the same bytes of these: a tool puts such pairs around every view."""
    made = Rewriting(graph)
    for node in graph.nodes:
        before = graph.producer(node.inputs[0])
        if not (before is not None and _undoes(graph, before, node) and made.same(node.output, before.inputs[0])):
            made.keep(node)
    return made.done()


def _undoes(graph: Graph, before: Node, node: Node) -> bool:
    if (before.op, node.op) != ("dequantize", "quantize"):
        return False
    if graph.values[node.output].dtype != graph.values[before.inputs[0]].dtype:
        return False
    terms = [[number(graph.values[name]) for name in each.inputs[1:]] for each in (before, node)]
    scales, zeros = [each[0] for each in terms], [each[1] if len(each) > 1 else 0 for each in terms]
    kind = graph.values[before.output].dtype
    if scales[0] is None or None in zeros or scales[0] != scales[1] or zeros[0] != zeros[1] or kind != _SINGLE:
        return False
    # A product with the scale, divided by it, is nearest to the number that it was made of if it is normal.
    return float(np.finfo(kind).tiny) <= scales[0] <= float(np.finfo(kind).max) / 256


def _one_scale(graph: Graph, node: Node) -> bool:
    return all(graph.values[name].size == 1 and graph.values[name].is_constant for name in node.inputs[1:])


def _axis_behind(graph: Graph, node: Node, view: Node) -> int | None:
    """Return along which axis of a view its source is dequantised; None where that cannot be done there."""
    if view.op in _VIEWS and _one_scale(graph, node):
        return -1
    perm: tuple[int, ...] = view.attributes["perm"] if view.op == "transpose" else ()
    if not perm:
        return None
    return perm.index(node.attributes["axis"] % len(perm))


def _down(graph: Graph) -> Graph:
    made = Rewriting(graph)
    moved: dict[str, Node] = {}
    for node in graph.nodes:
        before = moved.get(node.inputs[0]) or graph.producer(node.inputs[0])
        axis = None if before is None or before.op != "dequantize" else _axis_behind(graph, before, node)
        if before is None or axis is None:
            made.keep(node)
            continue
        seen = made.make(node.op, [before.inputs[0]], stem=f"{node.output}_bytes", **node.attributes)
        made.make("dequantize", [seen, *before.inputs[1:]], node.output, axis=axis)
        moved[node.output] = made.nodes[-1]
    return made.done()


def _goes_up(graph: Graph, node: Node) -> bool:
    """Whether a node makes bytes by one scale, or does something to each number of what is made bytes of so."""
    if node.kind == ops.ELEMENTWISE and len(node.inputs) == 1:
        after = graph.only_consumer(node.output)
        return after is not None and after.op == "quantize" and _one_scale(graph, after)
    return node.op == "quantize" and _one_scale(graph, node)


def _up(graph: Graph) -> Graph:
    while True:
        for node in graph.nodes:
            view = graph.producer(node.inputs[0])
            if (
                view is not None
                and view.op in _VIEWS
                and view.op != "slice"
                and graph.only_consumer(view.output) is node
                and graph.only_consumer(view.inputs[0]) is view
                and graph.producer(view.inputs[0]) is not None
                and _goes_up(graph, node)
            ):
                break
        else:
            return graph
        made = Rewriting(graph)
        for other in graph.nodes:
            if other is node:
                # (A single scale has no axis.)
                asked = {name: value for name, value in node.attributes.items() if name != "axis"}
                first = made.make(node.op, [view.inputs[0], *node.inputs[1:]], stem=f"{node.output}_first", **asked)
                made.make(view.op, [first], node.output, **view.attributes)
            elif other is not view:
                made.keep(other)
        graph = made.done()
