"""copies: a copy where strides cannot say a view, and where an output would not be an array of its own.

The last pass of every pipeline: after it a view costs nothing, and every output is the whole of one array in C order.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .. import ops, storage
from ..ir import Graph, Node, Value, fresh, moved


def copies(graph: Graph) -> Graph:
    """Return the graph with the copies that its views and outputs need, and no others."""
    return _of_outputs(_of_views(_dense(graph)))


def _dense(graph: Graph) -> Graph:
    """Lay out constants without gaps, which is done once."""
    gaps = [value for value in graph.values.values() if value.data is not None and storage.dense(value.data) is None]
    made = [replace(value, data=np.ascontiguousarray(value.data).reshape(value.shape)) for value in gaps]
    return graph.changed(graph.nodes, made) if made else graph


def _of_views(graph: Graph) -> Graph:
    """Copy the source of each view that strides cannot say, in C order: every view of that can be said."""
    while True:
        found = storage.places(graph)
        at = next((at for at, node in enumerate(graph.nodes) if found[node.output] is None), None)
        if at is None:
            return graph
        node = graph.nodes[at]
        source = graph.values[node.inputs[0]]
        made = Value(graph.fresh(f"{source.name}_copy"), source.shape, source.dtype)
        nodes = list(graph.nodes)
        nodes[at : at + 1] = [Node("copy", (source.name,), (made.name,)), replace(node, inputs=(made.name,))]
        graph = graph.changed(nodes, [made])


def _of_outputs(graph: Graph) -> Graph:
    found = storage.places(graph)
    taken: set[str] = set()
    names = set(graph.values)
    values, swapped = [], {}
    for name in graph.outputs:
        value, place = graph.values[name], found[name]
        if graph.producer(name) is None:
            # An input or constant that is handed on: the caller's array is filled when everything else is done.
            continue
        assert place is not None, name
        if (
            graph.producer(place.root) is not None
            and place.root not in taken
            and (place.root == name or place.root not in graph.outputs)
            and storage.is_whole(value, place, graph.values)
        ):
            taken.add(place.root)
            continue
        stem = fresh(f"{name}_uncopied", names)
        names.add(stem)
        values += [replace(value, name=stem), Value(name, value.shape, value.dtype)]
        swapped[name] = stem
    if not swapped:
        return graph
    nodes = [moved(node, swapped) for node in graph.nodes]
    nodes += [Node("copy", (stem,), (name,)) for name, stem in swapped.items()]
    return graph.changed(nodes, values)


def count(graph: Graph) -> tuple[int, int]:
    """Return how many copies a graph makes, and of how many bytes.

    Examples
    --------
    >>> from fastgemm.graph import Builder
    >>> from fastgemm.graph.passes.copies import copies, count
    >>> build = Builder()
    >>> build.output(build.input("x", (4, 8), "float32").T, "y")
    >>> count(copies(build.graph()))
    (1, 128)
    """
    made = [graph.values[node.output].nbytes for node in graph.nodes if node.kind == ops.COPY]
    return len(made), sum(made)
