"""chains: consecutive operations on rows run for one block of rows after another, the whole way through.

What lies between two members of a chain stays in the cache of the thread that made it, and no thread waits for
another until the end; but each reads all weights.  Whether a chain is made, of how much, and for how many rows at a
time, is what costs least (`costs`).  A division by one number is a factor there, if it may be (`scales`), and stays one
where no chain is made.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from ... import cpu, dispatch, kernels
from ...threads import get_num_threads
from .. import costs, rowwise
from ..attention import LANES, of_part
from ..ir import Graph, Node, Value
from ..lowering import Lowering
from ..operands import Operands
from .scales import becomes_whole, factor

# Into how many blocks the rows of a matrix may be cut, beside as many as share them evenly between threads.
BLOCKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
# And rows of a block where so many blocks have more.  (Bytes, 8192 x 64, whose scores are too much scratch by 128 rows:
# one chain by 64 rows 1.60 over two chains, a head 87 ms and 140.)
ROWS = (128, 64, 32, 16)
# Bytes of scratch that a thread may keep for a chain, in L2's.
SCRATCH = 4
# Keys that attention meets at a time, by L2's bytes, where there are more than twice as many and all scores of a block
# take more than that part of L2.  (Cascade Lake, L2 of 1 MiB, one thread, float32, over all keys by the blocks that are
# best for those: 1024 x 64 0.98, 1536 x 64 0.99, x 128 1.02, 2048 x 64 and x 128 1.05, 4096 x 64 1.11, 8192 x 64 1.16.
# Parts of 256 keys 0.96 to 0.98 of this, of 1024 0.96 to 1.0; by 64 rows 0.98 to 1.0 of 128, by 256 0.96 to 1.02, by
# 384 0.79.)
KEYS_L2 = 2048
SCORES_L2 = 2
# Nodes of a run, beyond which it is cut: how many ways there are to choose among grows with its square, and what a
# longer chain would save is a step in so many.
MOST = 64
# A shorter chain has to promise so much more than the longest, and than none: estimates of what is nearly the same are
# no closer.
CLOSER = 0.97


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
    if kernels.active_isa() is None:
        return graph
    ordered = [_with_rows_first(graph, node) for node in graph.nodes]
    graph = graph if all(map(operator.is_, ordered, graph.nodes)) else graph.changed(ordered)
    divided, graph = graph, _with_factors(graph)
    choice = choice_of(graph, threads, l2)
    found: list[Best] = []
    inside: set[str] = set()
    able = {node.output for node in graph.nodes if rowwise.lowers(node, graph.values)}
    # Where a run was cut those from its later nodes on end too: what they leave behind a chain has been costed before.
    ends: set[str] = set()
    for node in graph.nodes:
        if node.output in inside or node.output not in able:
            continue
        run = run_of(graph, node, able - inside, ends)
        if len(run) == MOST:
            ends.add(run[-1].output)
        best = choice.best(run)
        if best.nodes:
            found.append(best)
            ends.clear()
            inside.update(one.output for one in best.nodes)
    return _with_divisions(chained(graph, found), divided)


def choice_of(graph: Graph, threads: int | None = None, l2: int | None = None) -> Choice:
    """Return how to choose for a graph; as `chains`."""
    caches = cpu.caches()
    threads = dispatch.threads_to_cut_for(get_num_threads() if threads is None else threads)
    return Choice(graph, threads, (caches.l1d, l2 or caches.l2, caches.l3))


def chained(graph: Graph, found: Sequence[Best]) -> Graph:
    """Return the graph with chains in the place of some nodes, each with the rows of its items."""
    made: dict[str, Node] = {}
    inside: set[str] = set()
    for run, block, keys, _ in found:
        inside.update(node.output for node in run)
        body = costs.part(graph, run)
        asked = {"body": body, "block": block, "keys": keys}
        made[run[-1].output] = Node("chain", tuple(body.inputs), (run[-1].output,), asked)
    nodes = [made.get(node.output, node) for node in graph.nodes if node.output not in inside or node.output in made]
    return graph.changed(nodes)


def _with_rows_first(graph: Graph, node: Node) -> Node:
    """Return a sum with its terms in the order in which a member of a chain has them: rows, then what is added."""
    if node.op != "add":
        return node
    first, second = (graph.values[name] for name in node.inputs)
    shape = graph.values[node.output].shape
    return _turned(node) if second.shape == shape and (first.shape != shape or first.is_constant) else node


def _with_factors(graph: Graph) -> Graph:
    """Return the graph with divisions by one number as members of a chain do them, by its reciprocal."""
    found = {node.output: factor(graph, node) for node in graph.nodes if node.op == "div"}
    made = [
        node
        if (one := found.get(node.output)) is None or becomes_whole(graph, node.output)
        else Node("scale", (one.operand,), node.outputs, {"p": one.number}, node.name)
        for node in graph.nodes
    ]
    return graph if all(map(operator.is_, made, graph.nodes)) else graph.changed(made)


def _with_divisions(graph: Graph, before: Graph) -> Graph:
    """Return the graph with the divisions again that no chain took."""
    made = []
    for node in graph.nodes:
        one = before.producer(node.output)
        made.append(one if one is not None and node.op == "scale" and one.op == "div" else node)
    return graph if all(map(operator.is_, made, graph.nodes)) else graph.changed(made, before.values.values())


def _turned(node: Node) -> Node:
    return replace(node, inputs=node.inputs[::-1])


def run_of(graph: Graph, first: Node, able: Set[str], ends: Set[str] = frozenset()) -> list[Node]:
    """Return nodes from one on, each the only reader of what the one before makes, no further than one of `ends`."""
    run = [first]
    while len(run) < MOST and run[-1].output not in ends:
        now = graph.values[run[-1].output]
        after = graph.only_consumer(now.name)
        if after is not None and after.op == "add" and after.inputs[1] == now.name:
            after = _turned(after)
        if (
            after is None
            or now.layout is not None
            or after.output not in able
            or after.inputs[0] != now.name
            or now.name in after.inputs[1:]
            or graph.values[after.output].shape[:-1] != now.shape[:-1]
        ):
            break
        run.append(after)
    # What does not fit does not with more nodes either.
    more = bisect(range(2, len(run) + 1), False, key=lambda length: not rowwise.fits(run[:length], graph.values))
    return run[: 1 + more]


class Best(NamedTuple):
    """The cheapest way to run nodes: those that are to be a chain, and the cost of all of them.

    `block` has the rows of an item, `keys` how many keys of attention it meets at a time (0: all).
    """

    nodes: Sequence[Node]
    block: int
    keys: int
    cost: float


class Choice:
    """How to run nodes that could be one chain: as one, some of them as one, or one by one.

    Parameters
    ----------
    graph : Graph
    threads : int
    caches : tuple of int
        Bytes of each level.
    """

    def __init__(self, graph: Graph, threads: int, caches: tuple[int, ...]) -> None:
        self.graph, self.threads, self.caches = graph, threads, caches
        self.costs = costs.Costs(graph, threads, caches)

    def best(self, run: Sequence[Node]) -> Best:
        """Return what of a run is to be a chain, from its first node on."""
        found = Best((), 0, 0, self.costs.apart(run))
        for nodes in self.parts(run):
            rest = self.costs.apart(run[len(nodes) :])
            for block in self.blocks(nodes):
                keys = self.keys(nodes, block)
                limit = CLOSER * found.cost if len(nodes) < len(run) and len(found.nodes) != len(nodes) else found.cost
                cost = rest + self.costs.chained(nodes, block, keys, limit - rest)
                if cost < limit and self.fits(nodes, block, keys):
                    found = Best(nodes, block, keys, cost)
        return found

    def keys(self, nodes: Sequence[Node], block: int) -> int:
        """Return how many keys attention among nodes meets at a time, for so many queries; 0: all."""
        found, l2 = self.costs.facts(nodes).attention, self.caches[1]
        if found is None or dispatch.is_deterministic():
            return 0
        some, keys = max(LANES, l2 // KEYS_L2), found.keys(self.graph.values)
        return some if keys > 2 * some and block * keys * 4 > l2 // SCORES_L2 else 0

    def parts(self, run: Sequence[Node]) -> Iterator[Sequence[Node]]:
        """Give what of a run could be a chain, the most first."""
        values, made = self.graph.values, {node.output for node in run}
        # What constants alone are made into, if `fold` left it, is no operand: a chain has one.
        given = next(
            (at for at, node in enumerate(run) if any(values[name].data is None for name in {*node.inputs} - made)),
            len(run),
        )
        for length in range(len(run), max(1, given), -1):
            yield run[:length]

    def fits(self, nodes: Sequence[Node], block: int, keys: int = 0) -> bool:
        """Whether kernels take a chain with its operands where they lie."""
        return Lowering(Operands(nodes, self.graph.values, self.costs.strides, block), keys).misfit() is None

    def blocks(self, nodes: Sequence[Node]) -> list[int]:
        """Return the rows that an item may have, the most first."""
        shape = self.graph.values[nodes[-1].output].shape
        flat, one = self.costs.facts(nodes)
        rows = math.prod(shape[:-1]) if flat else shape[-2]
        some, values = self.keys(nodes, rows), self.graph.values
        counts = {*BLOCKS, *(self.threads * count for count in BLOCKS)}
        counts |= {-(-rows // few) for few in ROWS if rows > few * BLOCKS[-1]}
        if some and one is not None:
            values = of_part(one, values, some)
        most = max(1, SCRATCH * self.caches[1] // _scratch_row(nodes, values))
        found = {-(-rows // count) for count in counts}
        return sorted((block for block in found if block <= most), reverse=True)


def _scratch_row(nodes: Sequence[Node], values: Mapping[str, Value]) -> int:
    """Bytes of scratch for a row: of what is read and what is written, where that is most."""
    widths = [values[node.output].shape[-1] * max(values[node.output].dtype.itemsize, 4) for node in nodes[:-1]]
    return max([*map(sum, pairwise(widths)), *widths, 1])
