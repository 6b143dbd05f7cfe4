"""What ways to run the same nodes cost: what `passes.chains` asks before it makes a chain, and how it cuts one.

The cost of a way is the time of the thread that ends last, in cycles:

    computing   products by the rules' own estimate (`rules.cycles`: tiles, edges, packing a right operand that is
                not packed yet, once for the blocks of rows that share it), the other operations by the number
    fetching    bytes fetched into each level (`memory.traffic`), each at what it costs from the level behind
    starting    of steps, of teams of threads, of items and members of a chain
    waiting     threads that have nothing to do: items that they cannot share evenly, products that one thread does

Fetching goes on while products are computed, so of the smaller of the two a part counts.  One by one, threads share
each step, weights too, and then read what others have written; in a chain each reads all weights, and nothing of
others.
`bench/workload_chains.py` holds these costs against the clock, way by way.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from .. import cpu, dispatch, kernels
from ..heuristic import chain_items, rules
from ..problem import PACKED, Problem, normalised
from . import memory, ops, rowwise, storage, touches
from .attention import Attention, attention, of_part, parts
from .ir import Graph, Node, Value

# Cycles, Zen 5 (4.5 GHz), two threads unless said.  A step by itself is a call from Python, 1.2 us on one thread, 0.4
# more for a chain, and a team that starts and ends: perceptrons with two or four steps less are 2 to 7 us a step faster
# on two threads.
STEP, CHAIN, TEAM = 5000.0, 7000.0, 10000.0
ITEM, MEMBER = 300.0, 200.0
# A cut between rows of one matrix beside an L1 of 32 KiB, where the first tiles behind it find nothing of what those
# before it had there (Cascade Lake, one thread, attention of 384 tokens, us a head by blocks of 96, 48, 24 and 12 rows,
# float32 701 686 700 733, int8 256 260 268 281).
CUT = 1500.0
# A byte that another thread may have written (float32 MLP_2 at batch 256 and 512: 125 and 220 us for 2.9 and 5.7 MB).
HANDED_ON = 0.17
# Of computing and fetching, the part of the smaller one that does not hide behind the other (perceptrons in float32,
# blocks of 8 rows instead of 16: 3 % for weights that are fetched twice as often, 29 % of computing).
SHOWN = 0.25
# A number, by kind of operation, of four bytes in a cache: softmax 0.8, layer norm 0.3, gelu 0.9, relu and casts below
# 0.2 (softmax and layer norm scaled from 1.1 and 0.5 by what four vectors side by side gained, not fitted anew; nor
# since softmax takes 0.85 of that time and gelu a third, `bench/rows.py`).
NUMBERS = {ops.ROW: 0.75, ops.ELEMENTWISE: 0.4, ops.QUANTISE: 0.3}


class Facts(NamedTuple):
    """Of nodes that could be a chain: whether leading axes are rows, and what of them is attention."""

    joined: bool
    attention: Attention | None


class Costs:
    """Costs of ways to run nodes of a graph.

    Parameters
    ----------
    graph : Graph
    threads : int
    caches : sequence of int, optional
        Bytes of each cache that one thread has, the smallest first; by default this CPU's.

    Attributes
    ----------
    strides : dict
        Where its values would lie: strides in bytes by name.
    """

    def __init__(self, graph: Graph, threads: int, caches: Sequence[int] = ()) -> None:
        self.graph, self.threads, self.caches = graph, threads, tuple(caches) or tuple(cpu.caches())
        tier = kernels.active_isa()
        self._cut = CUT if tier is not None and cpu.small_l1(tier) else 0.0
        places = storage.places(graph, copied=True)
        self.strides = {name: place.strides for name, place in places.items() if place is not None}
        # What networks are made of comes again and again: by what costs follow from.
        self._known: dict[tuple[Any, ...], float] = {}
        self._touched: dict[tuple[str, int | None], list[touches.Touch]] = {}
        self._works: dict[tuple[str, int], float] = {}
        self._facts: dict[tuple[str, ...], Facts] = {}
        self._last: tuple[tuple[str, str], Graph] | None = None
        self._kinds: dict[str, int] = {}
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._products: dict[tuple[Problem, int], tuple[int, float]] = {}

    def apart(self, nodes: Sequence[Node]) -> float:
        """Return the cost of nodes, each of which reads what the one before makes, by all threads one after another."""
        key = self._key(nodes)
        if key not in self._known:
            self._known[key] = self._apart(nodes) if nodes else 0.0
        return self._known[key]

    def _apart(self, nodes: Sequence[Node]) -> float:
        # Threads share what a step touches: so much more fits into their own caches together.
        together = (*(size * self.threads for size in self.caches[:-1]), self.caches[-1])
        cost, made = 0.0, set()
        for node, step in zip(nodes, self._traffic(part(self.graph, nodes), together), strict=True):
            busy, work = self._shared(node)
            others = sum(self.graph.values[name].nbytes for name in node.inputs if name in made) if busy > 1 else 0
            cost += STEP + (TEAM if busy > 1 else 0)
            cost += _both(work, memory.cycles(step.bytes) / busy + others * HANDED_ON)
            made.add(node.output)
        return cost

    def chained(self, nodes: Sequence[Node], block: int, keys: int = 0, limit: float = math.inf) -> float:
        """Return the cost of such nodes as one chain, for so many rows at a time; infinite where it passes a limit.

        `keys`: how many keys attention among them meets at a time; 0: all.
        """
        key = (block, keys, *self._key(nodes))
        if key not in self._known:
            flat, _ = self.facts(nodes)
            items, cut = memory.cut(self.graph.values[nodes[-1].output].shape, flat, block)
            turns = -(-items // self.threads)
            members, item = self._item(nodes, block, keys)
            work = turns * item
            start = CHAIN + (TEAM if min(items, self.threads) > 1 else 0) + turns * (ITEM + MEMBER * members)
            start += turns * (1 - 1 / cut.blocks) * self._cut
            if start + work >= limit:
                return math.inf
            body = self._body(nodes)
            asked = {"body": body, "block": block, "keys": keys}
            chain = Node("chain", tuple(body.inputs), (nodes[-1].output,), asked)
            values = [body.values[name] for name in (*body.inputs, *body.outputs)]
            (step,) = self._traffic(Graph([chain], values, body.inputs, body.outputs), self.caches)
            self._known[key] = start + _both(work, memory.cycles(step.bytes) * turns / items)
        return self._known[key]

    def _traffic(self, graph: Graph, caches: Sequence[int]) -> tuple[memory.Fetched, ...]:
        return memory.traffic(graph, caches, touched=self._touched).steps

    def facts(self, nodes: Sequence[Node]) -> Facts:
        """Return what is known of nodes whatever their rows are."""
        # Where a run begins and ends says what is in it.
        key = tuple(node.output for node in (*nodes[:1], *nodes[-1:]))
        if key not in self._facts:
            values = self.graph.values
            self._facts[key] = Facts(rowwise.joined(nodes, values), attention(nodes, values))
        return self._facts[key]

    def _body(self, nodes: Sequence[Node]) -> Graph:
        """Return nodes as a graph: kept until others are asked for, as they are block by block."""
        key = nodes[0].output, nodes[-1].output
        if self._last is None or self._last[0] != key:
            self._last = key, part(self.graph, nodes)
        return self._last[1]

    def _key(self, nodes: Sequence[Node]) -> tuple[int, ...]:
        return tuple(self._kinds.get(node.output) or self._kind(node) for node in nodes)

    def _kind(self, node: Node) -> int:
        """Return a number, from 1 on, for what a node's costs follow from."""
        known = self.graph.values
        what = (node.op, *((known[name].spec, known[name].is_constant) for name in (*node.inputs, node.output)))
        found = self._kinds[node.output] = self._numbers.setdefault(what, len(self._numbers) + 1)
        return found

    def _shared(self, node: Node) -> tuple[int, float]:
        """Return how many threads do a step, and the work of each."""
        if node.kind == ops.PRODUCT:
            return self._product(node, None, self.threads)
        # Rows are dealt out; numbers one by one are one call.
        busy = self.threads if node.kind in (ops.ROW, ops.QUANTISE) else 1
        return busy, self._work(node, None) / busy

    def _item(self, nodes: Sequence[Node], block: int, keys: int) -> tuple[int, float]:
        """Return how many members an item of a chain has, and their work."""
        found = self.facts(nodes).attention if keys else None
        rest = nodes if found is None else [node for node in nodes if node not in found]
        members, work = len(rest), sum(self._known_work(node, block) for node in rest)
        if found is None:
            return members, work
        counts = Counter(some for _, some in parts(found.keys(self.graph.values), keys))
        for some, count in counts.items():
            values = of_part(found, self.graph.values, some)
            means = NUMBERS[ops.QUANTISE] * block * values[found.means.output].shape[-1]
            work += count * (means + sum(self._work(node, block, values) for node in found))
            members += count * len(found)
        return members, work

    def _known_work(self, node: Node, rows: int) -> float:
        key = node.output, rows
        if key not in self._works:
            self._works[key] = self._work(node, rows)
        return self._works[key]

    def _work(self, node: Node, rows: int | None, values: Mapping[str, Value] | None = None) -> float:
        """Return what one thread takes for all rows of a node, or for so many of one item."""
        if node.kind == ops.PRODUCT:
            return self._product(node, rows, 1, values)[1]
        out = (values or self.graph.values)[node.output]
        wide = max(1, out.dtype.itemsize // 4)
        return NUMBERS[node.kind] * wide * (out.size if rows is None else rows * out.shape[-1])

    def _product(
        self, node: Node, rows: int | None, threads: int, values: Mapping[str, Value] | None = None
    ) -> tuple[int, float]:
        """Return how many threads do a product, or an item's rows of it, and the work of each."""
        left, right, out = ((values or self.graph.values)[name] for name in (*node.inputs[:2], node.output))
        row = touches.product_row(left.dtype)
        (*lead, m, n), k = out.shape, left.shape[-1]
        stack = math.prod(right.shape[:-2]) != 1
        every = m if stack else m * math.prod(lead)
        m = rows or every
        count = math.prod(lead) if stack and rows is None else 1
        if row is None:
            return 1, 2.0 * count * m * n * k
        known = right.is_constant and len(right.shape) == 2
        layout = self._letter(node.inputs[0]) + (PACKED if known else self._letter(node.inputs[1]))
        problem = Problem(row.name, m, n, k, count, layout, threads)
        if rows is None:
            problem = normalised(problem)
        # (An item's problem may be another node's own.)
        key = problem, every
        if key not in self._products:
            # (By limbs neither items of chains nor products by packed weights are computed.)
            config = dispatch.resolve(problem, limbs=False).config
            work = rules.cycles(problem, config)
            if m < every and not known:
                # Blocks of rows that meet one matrix, one after the other, copy it once (`_chain.Chain`).
                item = dispatch.of_item(problem, math.prod(lead) if stack else 1, every)
                if copy := chain_items.kept(problem, item):
                    config, work = item, rules.cycles(problem, item) - copy * (1 - m / every)
            self._products[key] = config.threads, work
        return self._products[key]

    def _letter(self, name: str) -> str:
        """Return the layout letter of an operand, see `Problem`; what is made inside a chain lies in rows."""
        value, strides = self.graph.values[name], self.strides.get(name)
        if strides is None or value.shape[-1] == 1 or strides[-1] == value.dtype.itemsize:
            return "n"
        return "t" if value.shape[-2] == 1 or strides[-2] == value.dtype.itemsize else "g"


def part(graph: Graph, nodes: Sequence[Node]) -> Graph:
    """Return nodes of a graph, each the reader of the one before, as a graph of their own."""
    made = {node.output for node in nodes}
    names = dict.fromkeys(name for node in nodes for name in (*node.inputs, node.output))
    inputs = [name for name in names if name not in made and graph.values[name].data is None]
    last = nodes[-1].output
    # Where its operands lie is not the part's to say.
    values = [replace(graph.values[name], layout=None) if name in inputs else graph.values[name] for name in names]
    return Graph(nodes, values, inputs, [last], f"chain of {last}")


def _both(computing: float, fetching: float) -> float:
    return max(computing, fetching) + SHOWN * min(computing, fetching)
