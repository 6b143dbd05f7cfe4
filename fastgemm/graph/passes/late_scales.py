"""late_scales: sums of bytes whose scale is known only when the graph runs are finished by their product.

    activation(cast(matmul_integer(a, b)) * scale + bias)   becomes   integer_linear(a, b, scale, bias)

As dynamic quantisation writes layers: the scale of their inputs is found in every call.  What dequantises constants by
constants is `quantised`'s.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from ... import activations
from ...problem import MAX_BYTES_K
from ..ir import Graph, Node, Value
from .rewriting import Rewriting, number

_ACTIVATIONS = {row.name: row for row in activations.EPILOGUES if row.name != "none"}
_SINGLE = np.dtype("f4")


def late_scales(graph: Graph) -> Graph:
    """Return the graph with products of bytes that scale their sums themselves."""
    found = {node.output: steps for node in graph.nodes if len(steps := _steps(graph, node)) > 1}
    inside = {one.output for steps in found.values() for one in steps[1:]}
    made = Rewriting(graph)
    for node in graph.nodes:
        if node.output in found:
            _make(made, found[node.output])
        elif node.output not in inside:
            made.keep(node)
    return made.done()


def _steps(graph: Graph, node: Node) -> list[Node]:
    """Return the nodes that one can do: the product, cast, factor, and maybe a bias and an activation; [] for none."""
    if node.op != "matmul_integer" or not _takes(graph, node):
        return []
    out = graph.values[node.output]
    cast = graph.only_consumer(node.output)
    if cast is None or cast.op != "cast" or graph.values[cast.output].dtype != _SINGLE:
        return []
    factor = graph.only_consumer(cast.output)
    if factor is None or factor.op != "mul" or not _is_row(_other(graph, factor, cast), out):
        return []
    steps = [node, cast, factor]
    after = graph.only_consumer(factor.output)
    if after is not None and after.op == "add":
        bias = _other(graph, after, factor)
        if bias is not None and bias.is_constant and _is_row(bias, out):
            steps.append(after)
            after = graph.only_consumer(after.output)
    if after is not None and after.op in _ACTIVATIONS:
        steps.append(after)
    return steps if graph.values[steps[-1].output].shape == out.shape else []


def _takes(graph: Graph, node: Node) -> bool:
    weight, *zeros = [graph.values[name] for name in (node.inputs[1], *node.inputs[3:])]
    known = weight.is_constant and all(number(zero) is not None for zero in zeros)
    return known and len(node.inputs) > 2 and len(weight.shape) == 2 and weight.shape[0] <= MAX_BYTES_K


def _other(graph: Graph, node: Node, before: Node) -> Value | None:
    """Return the other operand of two."""
    names = [name for name in node.inputs if name != before.output]
    return graph.values[names[0]] if len(names) == 1 else None


def _is_row(value: Value | None, out: Value) -> bool:
    """Whether it has one number, or one for each column."""
    if value is None or value.dtype != _SINGLE or len(value.shape) > len(out.shape):
        return False
    return value.size == 1 or (value.shape[-1:] == out.shape[-1:] and math.prod(value.shape[:-1]) == 1)


def _make(made: Rewriting, steps: list[Node]) -> None:
    graph, product = made.graph, steps[0]
    zeros = [number(graph.values[name]) for name in product.inputs[3:]]
    operands = list(product.inputs[:3])
    attributes: dict[str, Any] = {"b_zero": int(sum(zero or 0 for zero in zeros))}
    for before, node in pairwise(steps[1:]):
        if node.op in _ACTIVATIONS:
            row = _ACTIVATIONS[node.op]
            attributes["activation"] = row.name
            attributes |= {key: node.attributes.get(key, value) for key, value in row.params}
        else:
            term = _other(graph, node, before)
            assert term is not None
            operands.append(term.name)
    made.make("integer_linear", operands, steps[-1].output, **attributes)
