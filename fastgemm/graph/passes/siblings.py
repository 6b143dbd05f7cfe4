"""siblings: products of one left operand with several constant weights become one, with the weights side by side.

The projections to queries, keys and values, for instance: their common operand is read once, there are fewer calls, and
threads share one larger product.  What each of them made is a slice of the columns, which strides can say; each number
has the bits that it had.
"""

from __future__ import annotations

import numpy as np

from ..ir import Graph, Node
from .rewriting import Rewriting


def siblings(graph: Graph) -> Graph:
    """Return the graph with one product in the place of several that read the same rows."""
    groups: dict[tuple[object, ...], list[Node]] = {}
    for node in graph.nodes:
        kind = _kind(graph, node)
        if kind is not None:
            groups.setdefault(kind, []).append(node)
    first = {nodes[0].output: nodes for nodes in groups.values() if len(nodes) > 1}
    others = {node.output for nodes in first.values() for node in nodes[1:]}
    if not first:
        return graph
    made = Rewriting(graph)
    for node in graph.nodes:
        if node.output in first:
            _joined(made, first[node.output])
        elif node.output not in others:
            made.keep(node)
    return made.done()


def _kind(graph: Graph, node: Node) -> tuple[object, ...] | None:
    """Return what products that can be one have in common; None for others."""
    if node.op not in ("matmul", "linear") or node.inputs[0] == node.inputs[1]:
        return None
    weight, terms = graph.values[node.inputs[1]], tuple(node.attributes.get("terms", ()))
    bias = all(graph.values[name].is_constant for name in node.inputs[2:])
    if weight.data is None or len(weight.shape) != 2 or terms not in ((), ("bias",)) or not bias:
        return None
    # An output of the graph is an array of its own, which a slice would have to be copied to.
    if node.output in graph.outputs or graph.values[node.output].layout is not None:
        return None
    rest = tuple((key, node.attributes.get(key)) for key in ("activation", "p", "q", "dtype"))
    return node.op, node.inputs[0], terms, rest


def _joined(made: Rewriting, nodes: list[Node]) -> None:
    values = made.graph.values
    operands = [nodes[0].inputs[0]]
    for at in range(1, len(nodes[0].inputs)):
        parts = [values[node.inputs[at]].data for node in nodes]
        data = np.concatenate([part for part in parts if part is not None], axis=-1)
        operands.append(made.constant(f"{nodes[0].inputs[at]}_joined", data))
    whole = made.make(nodes[0].op, operands, stem=f"{nodes[0].output}_joined", **nodes[0].attributes)
    *lead, _ = made.values[whole].shape
    start = 0
    for node in nodes:
        columns = values[node.output].shape[-1]
        starts, stops = (*(0 for _ in lead), start), (*lead, start + columns)
        made.make("slice", [whole], node.output, starts=starts, stops=stops)
        start += columns
