"""scales: factors of a product's operands go behind it, and factors and masks before a softmax become its own.

A factor is one number that all numbers of a value are multiplied by.  A division by one number stays one until somebody
takes it over as a factor (a softmax here, a product in `epilogues`, a chain): what is made of its result may be whole
numbers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .. import ops, rules
from ..ir import Graph, Node
from .rewriting import Rewriting, broadcasts, number

# Factors that move are no larger, and no smaller than one over it: by so much a sum may lie nearer to the ends of its
# type than in the order that was written.
MOST = 2.0**32
# Its sums are easily beyond its largest number, 65504, before they are scaled.
_NARROW = np.dtype(np.float16)


class Factor(NamedTuple):
    """What is multiplied by a number, and the number."""

    operand: str
    number: float


def scales(graph: Graph) -> Graph:
    """Return the graph with factors behind products, and `softmax(x * scale + mask)` made one operation.

    A factor that is no power of two rounds otherwise where it was moved, and numbers within `MOST` of the ends of their
    type may become infinite, or lose bits, that did not.  Sums of float16, which easily would, are scaled by their
    product, in float32.  A division that a softmax takes over is a product with the reciprocal: if that is no power of
    two it differs by at most one unit in the last place.
    """
    return _softmax(_behind_products(_factors(graph)))


def factor(graph: Graph, node: Node) -> Factor | None:
    """Return what a node multiplies by one number, or divides by one whose reciprocal is a normal number."""
    value = graph.values[node.output]
    if node.op == "scale":
        return Factor(node.inputs[0], node.attributes.get("p", 1.0))
    if node.op not in ("mul", "div") or not rules.is_float(value.dtype):
        return None
    left, right = (graph.values[name] for name in node.inputs)
    if node.op == "mul" and number(left) is not None:
        left, right = right, left
    found = number(right)
    if found is not None and node.op == "div":
        found = _inverse(found, value.dtype)
    return None if found is None or left.shape != value.shape else Factor(left.name, found)


def becomes_whole(graph: Graph, name: str) -> bool:
    """Whether whole numbers are made of a value, but by products, along rows, or as bytes: those round on the way."""
    reached, seen = [name], {name}
    for one in reached:
        for node in graph.consumers(one):
            whole = node.op == "cast" and not rules.is_float(graph.values[node.output].dtype)
            if whole or node.op in ("floor", "ceil"):
                return True
            if node.kind not in (ops.PRODUCT, ops.ROW) and node.op != "quantize" and node.output not in seen:
                seen.add(node.output)
                reached.append(node.output)
    return False


def _inverse(divisor: float, dtype: np.dtype[np.generic]) -> float | None:
    """Return one over a divisor where that is a normal number of the type."""
    with np.errstate(all="ignore"):
        found = float(np.asarray(1.0 / divisor if divisor else np.inf).astype(dtype))
    return 1.0 / divisor if np.isfinite(found) and abs(found) > float(np.finfo(np.float32).tiny) else None


def _factors(graph: Graph) -> Graph:
    """Write as `scale` what has the same bits so: divisions by powers of two too."""
    made = Rewriting(graph)
    for node in graph.nodes:
        found = factor(graph, node)
        if found is None or (node.op == "div" and abs(math.frexp(found.number)[0]) != 0.5):
            made.keep(node)
        else:
            made.make("scale", [found.operand], node.output, p=found.number)
    return made.done()


class _Before(NamedTuple):
    """A node before a product that multiplies by one number, and the view through which the product reads it."""

    node: Node
    factor: Factor
    view: Node | None


def _behind_products(graph: Graph) -> Graph:
    """Scale the result of a product instead of its operands, views of them included: there it can be fused."""
    made = Rewriting(graph)
    for node in graph.nodes:
        found = [_before(graph, node, name) for name in node.inputs] if node.op == "matmul" else []
        moved = [one for one in found if one is not None]
        joint = math.prod(one.factor.number for one in moved)
        if not moved or not _moves(joint):
            made.keep(node)
            continue
        operands = []
        for name, one in zip(node.inputs, found, strict=True):
            source = name if one is None else one.factor.operand
            if one is not None and one.view is not None:
                source = made.make(one.view.op, [source], stem=name, **one.view.attributes)
            operands.append(source)
        if graph.values[node.output].dtype == _NARROW:
            made.make("linear", operands, node.output, activation="scale", p=joint, **node.attributes)
            continue
        product = made.make("matmul", operands, stem=f"{node.output}_unscaled", **node.attributes)
        if len(moved) == 1 and moved[0].node.op == "div":
            made.make("div", [product, moved[0].node.inputs[1]], node.output)
        else:
            made.make("scale", [product], node.output, p=joint)
    return made.done()


def _before(graph: Graph, product: Node, name: str) -> _Before | None:
    node = None if product.inputs[0] == product.inputs[1] else graph.only_maker(name)
    view = node if node is not None and node.op in ("transpose", "reshape") else None
    if view is not None:
        node = graph.only_maker(view.inputs[0])
    found = None if node is None else factor(graph, node)
    return _Before(node, found, view) if node is not None and found is not None and _moves(found.number) else None


def _moves(number: float) -> bool:
    return 1 / MOST <= abs(number) <= MOST


def _softmax(graph: Graph) -> Graph:
    made = Rewriting(graph)
    for node in graph.nodes:
        if node.op != "softmax":
            made.keep(node)
            continue
        x, mask = node.inputs[0], None
        before = graph.only_maker(x)
        if before is not None and before.op == "add":
            shape = graph.values[x].shape
            pair = before.inputs if graph.values[before.inputs[0]].shape == shape else before.inputs[::-1]
            scaled = graph.only_maker(pair[1])
            if scaled is not None and factor(graph, scaled) and graph.values[pair[1]].shape == shape:
                pair = pair[::-1]
            if graph.values[pair[0]].shape == shape and broadcasts(graph.values[pair[1]], shape):
                x, mask = pair
                before = graph.only_maker(x)
        found = None if before is None else factor(graph, before)
        if mask is None and found is None:
            made.keep(node)
            continue
        x, scale = (x, 1.0) if found is None else found
        operands = [x] if mask is None else [x, mask]
        made.make("masked_softmax", operands, node.output, axis=node.attributes["axis"], scale=scale)
    return made.done()
