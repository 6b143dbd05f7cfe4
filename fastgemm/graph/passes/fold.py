"""fold: what depends on constants alone is computed once, when the graph is compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .. import ops, rules_products
from ..ir import Graph, Node, Value
from ..rules import Array, Spec
from .rewriting import Rewriting

# A result is kept for good: one that repeats its operands many times over is cheaper made anew, unless all that is made
# of it is smaller (a correction of low rank, added to a weight).
MOST_GROWN = 4
# Bytes of such results that may be there while a graph is compiled.
MOST_PASSING = 1 << 28


def fold(graph: Graph) -> Graph:
    """Return the graph with nodes that read constants alone replaced by their results.

    Matrices of bytes that are dequantised stay bytes: a product of bytes may take them (`quantised`).
    """
    return _folded(graph, rules_products.are_weights)


def fold_rest(graph: Graph) -> Graph:
    """Return the graph with those weights folded too that no product of bytes took."""
    return _folded(graph, lambda op, specs: False)


def _folded(graph: Graph, left: Callable[[str, Sequence[Spec]], bool]) -> Graph:
    made, found = Rewriting(graph), _Known(graph)
    for node in graph.nodes:
        value = graph.values[node.output]
        roots = found.roots(node)
        if roots is None or node.output in graph.outputs or left(node.op, graph.specs(node)):
            made.keep(node)
            continue
        if value.nbytes <= MOST_GROWN * max(sum(roots.values()), 64):
            data = found.keep(node, {node.output: value.nbytes})
            made.values[node.output] = Value(node.output, value.shape, value.dtype, data)
            continue
        # It goes where all that read it are folded.
        made.keep(node)
        if value.nbytes <= found.room:
            found.room -= value.nbytes
            found.keep(node, roots)
    return made.done()


class _Known:
    """What is known of a graph: numbers, and of which constants (by their bytes) they were made."""

    def __init__(self, graph: Graph) -> None:
        self.data = {value.name: value.data for value in graph.values.values() if value.data is not None}
        self.made_of = {name: {name: data.nbytes} for name, data in self.data.items()}
        self.room = MOST_PASSING

    def roots(self, node: Node) -> dict[str, int] | None:
        """Return what a node's operands were made of; None where one is not known."""
        found: dict[str, int] = {}
        for name in node.inputs:
            if name not in self.made_of:
                return None
            found |= self.made_of[name]
        return found

    def keep(self, node: Node, roots: dict[str, int]) -> Array:
        """Compute a node, note what its result is made of, and return it."""
        with np.errstate(all="ignore"):
            reads = [self.data[name] for name in node.inputs]
            made = np.asarray(ops.op(node.op).meaning(reads, node.attributes))
        self.data[node.output], self.made_of[node.output] = made, roots
        return made
