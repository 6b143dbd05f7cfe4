"""weights: products whose right operand is constant have it packed, once, when they first run."""

from __future__ import annotations

from dataclasses import replace

from ..ir import Graph


def weights(graph: Graph) -> Graph:
    """Return the graph with products that keep their constant right operand as the kernels read it."""
    nodes = [
        replace(node, attributes={**node.attributes, "packed": True}) if graph.packs(node) else node
        for node in graph.nodes
    ]
    return graph.changed(nodes)
