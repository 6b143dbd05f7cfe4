"""views: reshapes and transposes that follow each other become one, and those that do nothing none.

A reshape that only splits axes goes before the transpose that it follows, where it meets the reshape that had joined
them: heads that were folded into the batch, turned over and taken apart again are one transpose, which strides can say.
"""

from __future__ import annotations

from dataclasses import replace

from .. import ir, ops, storage
from ..ir import Graph, Node
from .rewriting import Rewriting


def views(graph: Graph) -> Graph:
    """Return the graph with the fewest view operations, and without `identity`."""
    return _joined(_split_first(_joined(_without_identity(graph))))


def _without_identity(graph: Graph) -> Graph:
    made = Rewriting(graph)
    for node in graph.nodes:
        if not (node.op == "identity" and made.same(node.output, node.inputs[0])):
            made.keep(node)
    graph = made.done()
    # What makes the source of an output makes the output itself, and whoever reads either reads that.
    names: dict[str, str] = {}
    for node in graph.nodes:
        source = node.inputs[0]
        if node.op == "identity" and graph.producer(source) is not None and source not in graph.outputs:
            names.setdefault(source, node.output)
    gone = set(names.values())
    nodes = [ir.moved(node, names) for node in graph.nodes if node.output not in gone]
    return graph.changed(nodes, [replace(graph.values[old], name=new) for old, new in names.items()])


def _split_first(graph: Graph) -> Graph:
    made = Rewriting(graph)
    for node in graph.nodes:
        before = graph.producer(node.inputs[0])
        if node.op != "reshape" or before is None or before.op != "transpose":
            made.keep(node)
            continue
        shape = graph.values[before.output].shape
        groups = split(shape, graph.values[node.output].shape)
        if groups is None:
            made.keep(node)
            continue
        perm = before.attributes["perm"]
        # The groups of axes as they stood before the transpose, and where each of their axes goes.
        source = [groups[perm.index(axis)] for axis in range(len(perm))]
        starts = [sum(map(len, source[:axis])) for axis in range(len(source))]
        turned = tuple(starts[axis] + at for axis in perm for at in range(len(source[axis])))
        parts = made.make("reshape", [before.inputs[0]], stem=f"{node.output}_split", shape=sum(source, ()))
        made.make("transpose", [parts], node.output, perm=turned)
    return made.done()


def split(shape: tuple[int, ...], wanted: tuple[int, ...]) -> list[tuple[int, ...]] | None:
    """Return the axes that each axis of a shape is split into; None where a reshape does something else.

    Examples
    --------
    >>> from fastgemm.graph.passes.views import split
    >>> split((6, 4), (2, 3, 4)), split((6, 4), (4, 6))
    ([(2, 3), (4,)], None)
    """
    groups, at = [], 0
    for size in shape:
        begin, product = at, 1
        while at < len(wanted) and (product < size or at == begin) and 0 not in shape:
            product *= wanted[at]
            at += 1
        if product != size or at == begin:
            return None
        groups.append(tuple(wanted[begin:at]))
    if any(size != 1 for size in wanted[at:]) or not groups:
        return None
    groups[-1] += tuple(wanted[at:])
    return groups


def _joined(graph: Graph) -> Graph:
    made = Rewriting(graph)
    producers: dict[str, Node] = {}
    for node in graph.nodes:
        if node.kind != ops.VIEW:
            made.keep(node)
            continue
        at, source = node, made.name(node.inputs[0])
        before = producers.get(source)
        spec = graph.values[node.output].spec
        joined = None if before is None else _one(before, node, made)
        if joined is not None:
            op, attributes = joined
            assert before is not None
            at = Node(op, (before.inputs[0],), node.outputs, attributes, node.name)
            source = at.inputs[0]
        if made.values[source].spec == spec and _is_nothing(at, made) and made.same(node.output, source):
            continue
        made.keep(at)
        producers[node.output] = made.nodes[-1]
    return made.done()


def _one(first: Node, second: Node, made: Rewriting) -> tuple[str, dict[str, object]] | None:
    """Return the one operation that does what two do; None where there is none."""
    if first.op == second.op == "transpose":
        return "transpose", {"perm": tuple(first.attributes["perm"][axis] for axis in second.attributes["perm"])}
    if first.op == second.op == "reshape":
        return "reshape", {"shape": made.values[second.output].shape}
    return None


def _is_nothing(node: Node, made: Rewriting) -> bool:
    """Whether a view whose shape is its source's shows it as it is."""
    value = made.values[node.inputs[0]]
    here = storage.Place(value.name, 0, storage.in_order(value.shape, 1))
    place = storage.view(node, here, value.spec._replace(dtype=storage.BYTE), value.spec)
    return (
        place is not None
        and place.offset == 0
        and (storage.lengths(value.shape, place.strides) == storage.lengths(value.shape, here.strides))
    )
