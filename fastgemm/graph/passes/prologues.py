"""prologues: what several products need of their left operand is done by each of them, where that costs less.

An operation on rows before one product becomes a member of its chain (`chains`).  Where several products read what it
makes (the projections of a normalised input whose activations differ, weights by one dequantised input) it would be a
step of its own, which all threads begin and end together, and whose result goes through the caches.  Copied for each
product it is done on the rows at hand, several times over.  The same costs decide as for chains: it pays where a step
more is a good part of the products, not where there are many numbers (Zen 5, times without copies over times with them:
layer norm and two products with another activation each, two threads, 32 x 256 x 256 1.19, 128 x 256 x 256 0.96, one
thread 0.95 to 0.74 from 32 x 128 x 128 on; two products by dequantised bytes 1.24 and 1.01, 1.02 to 0.89).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ... import kernels
from .. import ops, rowwise
from ..ir import Graph, Node, renamed
from .chains import Choice, choice_of, run_of

# Copies have to be so much cheaper: on a machine that has other things to do a team saves less than its costs say.
CLOSER = 0.92


def prologues(graph: Graph, threads: int | None = None) -> Graph:
    """Return the graph with operations before several products copied for each of them.

    Parameters
    ----------
    graph : Graph
    threads : int, optional
        Threads of a call; by default those of a call made here and now.
    """
    if kernels.active_isa() is None:
        return graph
    able = {node.output for node in graph.nodes if rowwise.lowers(node, graph.values)}
    asked = [(node, _readers(graph, node, able)) for node in graph.nodes if node.output in able]
    asked = [(node, readers) for node, readers in asked if readers]
    if not asked:
        return graph
    choice = choice_of(graph, threads)
    reads: dict[str, dict[str, str]] = {}
    copies: dict[str, list[Node]] = {}
    values = []
    for node, readers in asked:
        if not _pays(choice, node, readers, able):
            continue
        for at, reader in enumerate(readers):
            name = graph.fresh(f"{node.output}_for_{reader.output}")
            values.append(replace(graph.values[node.output], name=name))
            reads.setdefault(reader.output, {})[node.output] = name
            copies.setdefault(node.output, []).append(replace(node, outputs=(name,), name=f"{node.label} {at}"))
    nodes = []
    for node in graph.nodes:
        nodes += copies.get(node.output) or [renamed(node, reads.get(node.output, {}))]
    return graph.changed(nodes, values)


def _readers(graph: Graph, node: Node, able: set[str]) -> Sequence[Node]:
    """Return the products that alone read a result, as their left operand, if there are several."""
    readers = graph.consumers(node.output)
    if node.kind == ops.PRODUCT or len(readers) < 2 or node.output in graph.outputs:
        return ()
    products = all(
        one.kind == ops.PRODUCT and one.output in able and one.inputs[0] == node.output not in one.inputs[1:]
        for one in readers
    )
    return readers if products else ()


def _pays(choice: Choice, node: Node, readers: Sequence[Node], able: set[str]) -> bool:
    graph = choice.graph
    runs = [run_of(graph, reader, able) for reader in readers]
    longer = [[node, *run] for run in runs]
    if not all(rowwise.fits(run, graph.values) for run in longer):
        return False
    apart = choice.costs.apart([node]) + sum(choice.best(run).cost for run in runs)
    return sum(choice.best(run).cost for run in longer) < CLOSER * apart
