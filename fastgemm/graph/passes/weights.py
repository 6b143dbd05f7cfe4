"""weights: products whose right operand is constant have it packed, once, when they first run."""

from __future__ import annotations

from dataclasses import replace

from ..ir import Graph

_PACKS = ("matmul", "linear")


def weights(graph: Graph) -> Graph:
    """Return the graph with products that keep their constant right operand as the kernels read it."""
    nodes = [
        replace(node, attributes={**node.attributes, "packed": True})
        if node.op in _PACKS
        and graph.values[node.inputs[1]].is_constant
        and len(graph.values[node.inputs[1]].shape) == 2
        else node
        for node in graph.nodes
    ]
    return graph.changed(nodes)
