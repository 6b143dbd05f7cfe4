"""Operations that frameworks write out as several are made one again: gelu, silu and layer norm.

A pattern is looked for by what it computes, not by how it was exported: factors of a product may stand in any order,
a division by a constant is a factor, a square may be ``x * x`` or ``x ** 2``.  Only values that nobody else reads
disappear.  The result is the same function, rounded once or twice less, with the constants of the definition: those of
a file may be rounded, to any type or to a few digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..ir import Graph, Node, Value
from ..rules import Array, is_float

# Bits of the types that constants were in before a file had them as floats: bfloat16's, float16's and float32's.
BITS = (8, 11, 24)
# How far others may be from the definition's, one part in so many.  (Frameworks write all digits of float64, or 10 as
# in 0.7978845608; people write 0.7071, 1.4142 and 0.797885.)
CLOSE, CLOSE_DOUBLE = 1e-4, 1e-6
# Factors of a product, numbers included, beyond which it is no pattern: a cube has three, and each may have one beside.
MOST_FACTORS = 8


def recognise(graph: Graph) -> Graph:
    """Return the graph with patterns replaced, the inner ones first."""
    for node in graph.nodes:
        # A replacement may have taken it away.
        if (
            node.op in ("mul", "div", "add")
            and graph.producer(node.output) is node
            and is_float(graph.values[node.output].dtype)
        ):
            made = (pattern(graph, node) for pattern in (_silu, _gelu, _layer_norm, _affine))
            graph = next((found for found in made if found is not None), graph)
    return graph


class _Product(NamedTuple):
    """A product taken apart: a number, the values multiplied, and the values in between that disappear."""

    number: float
    factors: list[str]


def _product(graph: Graph, name: str, root: bool = True) -> _Product:
    """Take a product apart; a value that others read as well is left whole, unless it is where one begins.

    One of more factors than any pattern has is not taken apart to its end.
    """
    number, factors, waiting = 1.0, list[str](), [name]
    while waiting and len(factors) + len(waiting) <= MOST_FACTORS:
        one = waiting.pop()
        known, node = _number(graph, one), graph.producer(one) if root else graph.only_maker(one)
        root = False
        divisor = _number(graph, node.inputs[1]) if node is not None and node.op == "div" else None
        if known is not None:
            number *= known
        elif node is not None and node.op == "mul":
            waiting += node.inputs
        elif node is not None and divisor:
            number /= divisor
            waiting.append(node.inputs[0])
        else:
            factors.append(one)
    return _Product(number, [*factors, *waiting])


def _number(graph: Graph, name: str) -> float | None:
    data = graph.constant(name)
    return float(data.reshape(())) if data is not None and data.size == 1 and is_float(data.dtype) else None


def _close(number: float, wanted: float, kind: np.dtype[np.generic]) -> bool:
    """Whether a factor is one that no float holds: it, or what is divided by, rounded or written in short."""
    if math.isclose(number, wanted, rel_tol=CLOSE_DOUBLE if kind == np.float64 else CLOSE):
        return True
    rounded = [one for bits in BITS for one in (_rounded(wanted, bits), 1 / _rounded(1 / wanted, bits))]
    return any(math.isclose(number, one) for one in rounded)


def _rounded(number: float, bits: int) -> float:
    mantissa, exponent = math.frexp(number)
    return math.ldexp(round(math.ldexp(mantissa, bits)), exponent - bits)


def _made_by(graph: Graph, name: str, op: str) -> Node | None:
    node = graph.only_maker(name)
    return node if node is not None and node.op == op else None


def _plus(graph: Graph, name: str) -> Iterator[tuple[str, str]]:
    """Yield the operands of a sum, both ways round."""
    node = _made_by(graph, name, "add")
    if node is not None:
        yield node.inputs[0], node.inputs[1]
        yield node.inputs[1], node.inputs[0]


def _replaced(graph: Graph, old: Node, new: Node) -> Graph:
    return graph.changed([new if node is old else node for node in graph.nodes])


def _silu(graph: Graph, node: Node) -> Graph | None:
    """x * sigmoid(x)."""
    if node.op != "mul":
        return None
    for x, other in (node.inputs, node.inputs[::-1]):
        gate = _made_by(graph, other, "sigmoid")
        if gate is not None and gate.inputs[0] == x:
            return _replaced(graph, node, Node("silu", (x,), node.outputs, {}, node.name))
    return None


def _gelu(graph: Graph, node: Node) -> Graph | None:
    """0.5 * x * (1 + erf(x / sqrt(2))), and the same with tanh."""
    whole = _product(graph, node.output)
    if len(whole.factors) != 2 or whole.number != 0.5:
        return None
    kind = graph.values[node.output].dtype
    for x, gate in (whole.factors, whole.factors[::-1]):
        if graph.values[x].shape != graph.values[node.output].shape:
            continue
        for one, curve in _plus(graph, gate):
            if _number(graph, one) != 1:
                continue
            erf, tanh = _made_by(graph, curve, "erf"), _made_by(graph, curve, "tanh")
            op = None
            if erf is not None:
                inner = _product(graph, erf.inputs[0], False)
                op = "gelu" if inner.factors == [x] and _close(inner.number, 0.5**0.5, kind) else None
            elif tanh is not None and _is_cubic(graph, tanh.inputs[0], x):
                op = "gelu_tanh"
            if op:
                return _replaced(graph, node, Node(op, (x,), node.outputs, {}, node.name))
    return None


def _is_cubic(graph: Graph, name: str, x: str) -> bool:
    """Whether a value is sqrt(2 / pi) * (x + 0.044715 * x**3)."""
    outer = _product(graph, name)
    kind = graph.values[name].dtype
    if len(outer.factors) != 1 or not _close(outer.number, (2 / np.pi) ** 0.5, kind):
        return False
    for first, second in _plus(graph, outer.factors[0]):
        cubic = _product(graph, second)
        cubes = sorted(factor for one in cubic.factors for factor in _powers(graph, one))
        if first == x and cubes == [x] * 3 and _close(cubic.number, 0.044715, kind):
            return True
    return False


def _powers(graph: Graph, name: str) -> list[str]:
    node = _made_by(graph, name, "pow")
    exponent = None if node is None else _number(graph, node.inputs[1])
    if node is not None and exponent in (2.0, 3.0):
        return [node.inputs[0]] * int(exponent)
    return [name]


def _layer_norm(graph: Graph, node: Node) -> Graph | None:
    """(x - mean(x)) / sqrt(mean((x - mean(x))**2) + epsilon), the division perhaps a product with a reciprocal."""
    deviation = _deviation(graph, node)
    if deviation is None:
        return None
    centred, root = deviation
    minus = graph.producer(centred)
    if minus is None or minus.op != "sub":
        return None
    x, mean = minus.inputs
    if not _is_mean(graph, mean, x) or graph.values[x].shape != graph.values[node.output].shape:
        return None
    for number, variance in _plus(graph, root.inputs[0]):
        epsilon, node_of = _number(graph, number), graph.producer(variance)
        if epsilon is None or node_of is None or not _is_mean(graph, variance, node_of.inputs[0]):
            continue
        square = graph.producer(node_of.inputs[0])
        if square is None:
            continue
        twice = square.op == "mul" and square.inputs == (centred, centred)
        if twice or (square.op == "pow" and square.inputs[0] == centred and _number(graph, square.inputs[1]) == 2):
            attributes = {"epsilon": epsilon}
            return _replaced(graph, node, Node("layer_norm", (x,), node.outputs, attributes, node.name))
    return None


def _deviation(graph: Graph, node: Node) -> tuple[str, Node] | None:
    """Return what is divided and the square root that it is divided by."""
    if node.op == "div":
        root = _made_by(graph, node.inputs[1], "sqrt")
        return None if root is None else (node.inputs[0], root)
    if node.op != "mul":
        return None
    for x, other in (node.inputs, node.inputs[::-1]):
        inverse = _made_by(graph, other, "reciprocal")
        root = None if inverse is None else _made_by(graph, inverse.inputs[0], "sqrt")
        if root is not None:
            return x, root
    return None


def _is_mean(graph: Graph, name: str, of: str) -> bool:
    """Whether a value is the mean over the last axis, kept as one of length one."""
    node = graph.producer(name)
    if node is None or node.op != "mean" or node.inputs[0] != of or not node.attributes.get("keepdims", False):
        return False
    axes = node.attributes["axes"]
    last = len(graph.values[of].shape) - 1
    return tuple(axes if isinstance(axes, (tuple, list)) else (axes,)) in ((-1,), (last,))


def _affine(graph: Graph, node: Node) -> Graph | None:
    """Factor and term of a layer norm, constants for each column."""
    for read, other in (node.inputs, node.inputs[::-1]):
        norm = _made_by(graph, read, "layer_norm")
        if norm is None or node.op not in ("mul", "add") or graph.values[read].shape != graph.values[node.output].shape:
            continue
        columns = _columns(graph, other, graph.values[node.output])
        if columns is None or len(norm.inputs) != (1 if node.op == "mul" else 2):
            continue
        name = graph.fresh(f"{other}_columns")
        row = Value(name, columns.shape, columns.dtype, columns)
        made = Node("layer_norm", (*norm.inputs, name), node.outputs, norm.attributes, node.name)
        return graph.changed([made if one is node else one for one in graph.nodes], [row])
    return None


def _columns(graph: Graph, name: str, like: Value) -> Array | None:
    data = graph.constant(name)
    if data is None or not like.shape:
        return None
    if data.shape[-1:] != like.shape[-1:] or data.size != data.shape[-1] or len(data.shape) > len(like.shape):
        return None
    return np.ascontiguousarray(data.reshape(-1))
