"""How far a graph's results may be from the exact ones: rounding errors followed from node to node."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fastgemm.graph import Graph, Node, ops, rules

# The most that the result of an operation on one operand moves when that moves by one, where it is more than 1.
SLOPES = {"gelu": 1.13, "gelu_tanh": 1.13, "silu": 1.1}
# Rounding errors of an operation itself, in units of what it reads and writes: activations promise 4 (`linear`).
OWN = 8
UNITS = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def bounds(graph: Graph, exact: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return the largest error that each value may have.

    Parameters
    ----------
    graph : Graph
        As it was written, before any pass: fusing leaves roundings out, and moves factors by one of them.
    exact : mapping
        Every value, from `reference.every` in double precision.
    """
    sizes = {name: float(np.abs(x[np.isfinite(x)]).max(initial=0.0)) for name, x in exact.items()}
    found = dict.fromkeys((value.name for value in graph.values.values() if graph.producer(value.name) is None), 0.0)
    for node in graph.nodes:
        value = graph.values[node.output]
        inherited = _inherited(graph, node, sizes, found)
        if node.kind == ops.VIEW or not rules.is_float(value.dtype):
            found[node.output] = inherited
            continue
        unit = UNITS[value.dtype.name]
        sums = 0.0
        if node.kind == ops.PRODUCT:
            # Of K products, halves' in float32.
            a, b = node.inputs[:2]
            deep = graph.values[a].shape[-1]
            sums = deep * deep * min(unit, UNITS["float32"]) * sizes[a] * sizes[b]
        own = OWN * unit * (sizes[node.output] + (1 + sizes[node.inputs[0]] if len(node.inputs) == 1 else 0))
        found[node.output] = inherited + sums + own
    return found


def _inherited(graph: Graph, node: Node, sizes: Mapping[str, float], errors: Mapping[str, float]) -> float:
    e = [errors[name] for name in node.inputs]
    m = [sizes[name] + errors[name] for name in node.inputs]
    if node.op in ("mul", "matmul"):
        both = e[0] * m[1] + e[1] * m[0]
        return both * (graph.values[node.inputs[0]].shape[-1] if node.op == "matmul" else 1)
    if node.op == "div":
        (divisor,) = {float(x) for x in np.asarray(graph.values[node.inputs[1]].data, "f8").reshape(-1)}
        return e[0] / abs(divisor)
    if node.op == "layer_norm":
        # A row's centre moves with it, and its deviation: twice what it moves by, over the least deviation.
        return 4 * e[0] / float(np.sqrt(node.attributes["epsilon"])) * max([1.0, *m[1:2]])
    if node.op == "scale":
        return abs(node.attributes.get("p", 1.0)) * e[0]
    if node.op in ("quantize", "dequantize"):
        scale = np.abs(np.asarray(graph.values[node.inputs[1]].data, "f8"))
        # What lies between two bytes may be rounded to either.
        return e[0] / float(scale.min()) + 1 if node.op == "quantize" else e[0] * float(scale.max())
    if node.op == "sum":
        return e[0] * graph.values[node.inputs[0]].size
    return SLOPES.get(node.op, 1.0) * sum(e)
