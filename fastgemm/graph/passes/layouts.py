"""layouts: a result is stored in the order in which it is read, so that no reorder stands between two products.

Each transpose is asked: were its source stored in the transposed order, would there be fewer bytes to copy?  Products
and elementwise operations write any order of axes; what they make is turned over while it is written.
"""

from __future__ import annotations

from dataclasses import replace

from ... import registry
from .. import ops
from ..ir import Graph, Node, Value
from .copies import copies, count

# Every trial lays out the whole graph; larger ones are left as they are after so many.
MOST_TRIALS = 64


def layouts(graph: Graph) -> Graph:
    """Return the graph with layouts that leave the fewest bytes to copy."""
    best = count(copies(graph))[1]
    trials = 0
    for node in graph.nodes:
        if not best or trials == MOST_TRIALS:
            break
        # (A scalar's has no axis to turn.)
        if node.op != "transpose" or not node.attributes["perm"]:
            continue
        source = graph.values[node.inputs[0]]
        maker = graph.producer(source.name)
        if maker is None or source.layout is not None or source.name in graph.outputs or maker.kind not in _WRITE_ANY:
            continue
        perm = node.attributes["perm"]
        if perm[-1] != len(perm) - 1 and not _writes_far(maker, source):
            continue
        tried = graph.changed(graph.nodes, [replace(source, layout=perm)])
        trials += 1
        cost = count(copies(tried))[1]
        if cost < best:
            graph, best = tried, cost
    return graph


def _writes_far(node: Node, value: Value) -> bool:
    """Whether what runs a node writes the numbers of a row apart as well: kernels of rows, halves and bytes do not."""
    return node.kind != ops.ROW and node.op != "qlinear" and value.dtype.name not in registry.HALVES


_WRITE_ANY = (ops.PRODUCT, ops.ELEMENTWISE, ops.ROW)
