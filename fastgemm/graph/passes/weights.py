"""weights: products whose right operand is constant have it packed, once, when they first run."""

from __future__ import annotations

from dataclasses import replace

from ...problem import MAX_BYTES_K
from ..ir import Graph, Node

_BYTES = ("matmul_integer", "integer_linear")
_PACKS = ("matmul", "linear", *_BYTES)


def weights(graph: Graph) -> Graph:
    """Return the graph with products that keep their constant right operand as the kernels read it."""
    nodes = [
        replace(node, attributes={**node.attributes, "packed": True}) if packs(graph, node) else node
        for node in graph.nodes
    ]
    return graph.changed(nodes)


def packs(graph: Graph, node: Node) -> bool:
    """Whether a node is a product whose right operand can be packed."""
    if node.op not in _PACKS:
        return False
    weight = graph.values[node.inputs[1]]
    if not weight.is_constant or len(weight.shape) != 2:
        return False
    # (Its zero point is packed with it.)
    zeros = node.inputs[3:] if node.op == "matmul_integer" else ()
    known = all(graph.values[name].is_constant for name in zeros)
    return node.op not in _BYTES or (known and weight.shape[0] <= MAX_BYTES_K)
