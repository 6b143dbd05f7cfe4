"""scales: division by a constant becomes a factor, and factors and masks before a softmax become its own."""

from __future__ import annotations

import numpy as np

from .. import rules
from ..ir import Graph
from .rewriting import Rewriting, broadcasts, number


def scales(graph: Graph) -> Graph:
    """Return the graph with divisions by one number made factors, and `softmax(x * scale + mask)` made one operation.

    A factor that is no power of two rounds otherwise than the division: by at most one unit in the last place.
    """
    return _softmax(_behind_products(_factors(graph)))


def _factors(graph: Graph) -> Graph:
    made = Rewriting(graph)
    for node in graph.nodes:
        value = graph.values[node.output]
        if node.op in ("mul", "div") and rules.is_float(value.dtype):
            left, right = made.reads(node)
            if node.op == "mul" and number(left) is not None:
                left, right = right, left
            found = number(right)
            inverse = 1.0 if found is None or node.op == "mul" else _inverse(found, value.dtype)
            if found is not None and inverse is not None and left.shape == value.shape:
                made.make("scale", [left.name], node.output, p=found if node.op == "mul" else inverse)
                continue
        made.keep(node)
    return made.done()


def _inverse(divisor: float, dtype: np.dtype[np.generic]) -> float | None:
    """Return one over a divisor where that is a normal number of the type."""
    with np.errstate(all="ignore"):
        found = float(np.asarray(1.0 / divisor if divisor else np.inf).astype(dtype))
    return 1.0 / divisor if np.isfinite(found) and abs(found) > float(np.finfo(np.float32).tiny) else None


def _behind_products(graph: Graph) -> Graph:
    """Scale the result of a product instead of its operands, views of them included: there it can be fused."""
    made = Rewriting(graph)
    for node in graph.nodes:
        if node.op != "matmul":
            made.keep(node)
            continue
        factor, operands = 1.0, []
        for name in node.inputs:
            before = None if node.inputs[0] == node.inputs[1] else graph.only_maker(name)
            view = before if before is not None and before.op in ("transpose", "reshape") else None
            if view is not None:
                before = graph.only_maker(view.inputs[0])
            if before is None or before.op != "scale":
                operands.append(name)
                continue
            factor *= before.attributes["p"]
            source = before.inputs[0]
            operands.append(source if view is None else made.make(view.op, [source], stem=name, **view.attributes))
        if operands == list(node.inputs):
            made.keep(node)
            continue
        product = made.make("matmul", operands, stem=f"{node.output}_unscaled", **node.attributes)
        made.make("scale", [product], node.output, p=factor)
    return made.done()


def _softmax(graph: Graph) -> Graph:
    made = Rewriting(graph)
    for node in graph.nodes:
        if node.op != "softmax":
            made.keep(node)
            continue
        x, mask, factor = node.inputs[0], None, 1.0
        before = graph.only_maker(x)
        if before is not None and before.op == "add":
            shape = graph.values[x].shape
            pair = before.inputs if graph.values[before.inputs[0]].shape == shape else before.inputs[::-1]
            scaled = graph.only_maker(pair[1])
            if scaled is not None and scaled.op == "scale" and graph.values[pair[1]].shape == shape:
                pair = pair[::-1]
            if graph.values[pair[0]].shape == shape and broadcasts(graph.values[pair[1]], shape):
                x, mask = pair
                before = graph.only_maker(x)
        if before is not None and before.op == "scale":
            x, factor = before.inputs[0], before.attributes["p"]
        if x == node.inputs[0]:
            made.keep(node)
            continue
        operands = [x] if mask is None else [x, mask]
        made.make("masked_softmax", operands, node.output, axis=node.attributes["axis"], scale=factor)
    return made.done()
