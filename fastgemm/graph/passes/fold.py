"""fold: what depends on constants alone is computed once, when the graph is compiled."""

from __future__ import annotations

import numpy as np

from .. import ops
from ..ir import Graph, Value
from .rewriting import Rewriting

# A result is kept for good: one that repeats its operands many times over is cheaper made anew.
MOST_GROWN = 4


def fold(graph: Graph) -> Graph:
    """Return the graph with nodes that read constants alone replaced by their results.

    Weights that are dequantised stay bytes: a product of bytes may take them (`quantised`).
    """
    return _folded(graph, ("dequantize",))


def fold_rest(graph: Graph) -> Graph:
    """Return the graph with those weights folded too that no product of bytes took."""
    return _folded(graph, ())


def _folded(graph: Graph, left: tuple[str, ...]) -> Graph:
    made = Rewriting(graph)
    for node in graph.nodes:
        reads, value = made.reads(node), graph.values[node.output]
        known = [read.data for read in reads if read.data is not None]
        small = value.nbytes <= MOST_GROWN * max(sum(read.nbytes for read in reads), 64)
        if len(known) < len(reads) or not small or node.op in left or node.output in graph.outputs:
            made.keep(node)
            continue
        attributes = ops.attributes_of(ops.op(node.op), node.attributes)
        with np.errstate(all="ignore"):
            data = np.asarray(ops.op(node.op).meaning(known, attributes))
        made.values[node.output] = Value(node.output, value.shape, value.dtype, data)
    return made.done()
