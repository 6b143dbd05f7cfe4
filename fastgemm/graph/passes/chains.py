"""chains: consecutive operations on rows run for one block of rows after another, the whole way through.

What lies between two members of a chain stays in the cache of the thread that made it, and no thread waits for
another until the end.  A chain is made where its scratch fits L2 and its items keep all threads busy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from ... import cpu, kernels
from ...heuristic import TEAM_FLOPS
from ...threads import get_num_threads
from .. import ops, rowwise, storage
from ..ir import Graph, Node, Value
from ..lowering import Lowering

# The share of L2 that intermediates may take, and the one that weights may: what is read once passes through it too.
SHARE, WEIGHTS = 0.5, 0.75
# Weights that do not fit L2 are read anew for each block of rows: so many rows pay for that.  Below, the threads do
# better to share their columns, as single products do.
LEAST_ROWS = 64


def chains(graph: Graph, threads: int | None = None, l2: int | None = None) -> Graph:
    """Return the graph with chains for runs of operations on rows.

    Parameters
    ----------
    graph : Graph
    threads : int, optional
        Threads that will share the items; by default those of a call made here and now.
    l2 : int, optional
        Bytes of the cache that intermediates should stay in; by default this CPU's.
    """
    count = get_num_threads() if threads is None else threads
    size = cpu.caches().l2 if l2 is None else l2
    made: dict[str, Node] = {}
    inside: set[str] = set()
    if kernels.active_isa() is None:
        return graph
    strides = {name: place.strides for name, place in storage.places(graph, copied=True).items() if place is not None}
    able = {node.output for node in graph.nodes if rowwise.lowers(node, graph.values)}
    for node in graph.nodes:
        if node.output in inside or node.output not in able:
            continue
        run = _run(graph, node, able - inside)
        while len(run) > 1 and not _is_fit(run, graph.values, strides, count, size):
            run.pop()
        block = block_of(run, graph.values, count, size)
        # A run without a product is one operation that the epilogues left: there is nothing to keep in a cache for.
        if len(run) > 1 and block is not None and any(one.kind == ops.PRODUCT for one in run):
            inside.update(one.output for one in run)
            made[run[-1].output] = _chain(graph, run, block)
    nodes = [made.get(node.output, node) for node in graph.nodes if node.output not in inside or node.output in made]
    return graph.changed(nodes)


def _is_fit(
    run: Sequence[Node],
    values: Mapping[str, Value],
    strides: Mapping[str, tuple[int, ...]],
    threads: int,
    l2: int,
) -> bool:
    """Whether a chain of a run pays, and kernels take it with its operands where they lie."""
    block = block_of(run, values, threads, l2)
    return block is not None and Lowering(run, values, strides, block).misfit() is None


def _run(graph: Graph, first: Node, able: set[str]) -> list[Node]:
    """Nodes from one on, each the only reader of the rows that the one before makes."""
    run = [first]
    while True:
        now = graph.values[run[-1].output]
        after = graph.only_consumer(now.name)
        if (
            after is None
            or now.layout is not None
            or after.output not in able
            or after.inputs[0] != now.name
            or now.name in after.inputs[1:]
            or graph.values[after.output].shape[:-1] != now.shape[:-1]
            or not rowwise.fits([*run, after], graph.values)
        ):
            return run
        run.append(after)


def balance(items: int, threads: int) -> float:
    """Return which share of the threads are busy while so many items are dealt out.

    Examples
    --------
    >>> from fastgemm.graph.passes.chains import balance
    >>> [balance(items, 4) for items in (1, 6, 8, 33)]
    [0.0, 0.5, 1.0, 1.0]
    """
    if items > 8 * threads or (items >= threads and items % threads == 0):
        return 1.0
    return 0.0 if items == 1 else items % threads / threads


def block_of(nodes: Sequence[Node], values: Mapping[str, Value], threads: int, l2: int) -> int | None:
    """Return how many rows an item of a chain should have; None where a chain does not pay.

    The fewest blocks whose scratch has room and whose number suits the threads.
    """
    shape = values[nodes[-1].output].shape
    flat = rowwise.joined(nodes, values)
    items, rows = (1, math.prod(shape[:-1])) if flat else (math.prod(shape[:-2]), shape[-2])
    fits = max(1, int(l2 * SHARE) // _scratch_row(nodes, values))
    weights = sum(values[node.inputs[1]].nbytes for node in nodes if node.kind == ops.PRODUCT) // (1 if flat else items)
    blocks = -(-rows // fits)
    while blocks < rows and balance(items * blocks, threads) < 1:
        blocks += 1
    block = -(-rows // blocks)
    if block < min(rows, LEAST_ROWS) and weights > l2 * WEIGHTS:
        return None
    return None if balance(items * -(-rows // block), threads) < min(1.0, _alone(nodes, values, threads)) else block


def _scratch_row(nodes: Sequence[Node], values: Mapping[str, Value]) -> int:
    """Bytes of scratch for a row: of what is read and what is written, where that is most."""
    widths = [values[node.output].shape[-1] * max(values[node.output].dtype.itemsize, 4) for node in nodes[:-1]]
    return max([*map(sum, pairwise(widths)), *widths, 1])


def _alone(nodes: Sequence[Node], values: Mapping[str, Value], threads: int) -> float:
    """How busy threads are in the products one by one: they share tiles of 8 rows and 64 columns of a large one."""
    found = 1.0
    for node in nodes:
        if node.kind == ops.PRODUCT:
            *lead, rows, columns = values[node.output].shape
            items = math.prod(lead)
            flops = 2 * items * rows * columns * values[node.inputs[0]].shape[-1]
            tiles = items * -(-rows // 8) * -(-columns // 64)
            found = min(found, balance(tiles if flops >= TEAM_FLOPS else 1, threads))
    return found


def _chain(graph: Graph, run: Sequence[Node], block: int) -> Node:
    made = {node.output for node in run}
    names = dict.fromkeys(name for node in run for name in (*node.inputs, node.output))
    inputs = [name for name in names if name not in made and graph.values[name].data is None]
    body = Graph(run, [graph.values[name] for name in names], inputs, [run[-1].output], f"chain of {run[-1].output}")
    return Node("chain", tuple(inputs), (run[-1].output,), {"body": body, "block": block})
