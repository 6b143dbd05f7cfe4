"""What a step touches in memory, and in what order: the half of the memory model that knows loops.

A product runs in the loops of `driver/_loops.pyx`: jc, pc, ic over blocks, jr, ir over register tiles.  An operand is
read again in every turn of a loop that does not choose among its numbers; whether it is still in a cache then depends
on how many bytes one turn touches.  Everything else reads its operands once and writes its result once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .. import dispatch, kernels, registry
from ..problem import Problem, normalised
from . import ops
from .ir import Graph, Node

LINE = 64


class Loop(NamedTuple):
    """A loop of a product: how often it turns, and which of a, b and c its counter chooses parts of."""

    turns: float
    chooses: str


class Touch(NamedTuple):
    """An array that a step works through.

    ``sweep`` is how many bytes of all arrays are touched from the beginning to the end of one way through this one;
    ``ways`` has, for each loop that goes through it again, how many bytes a cache must hold for it to be found there,
    and how often the loop turns.
    """

    name: str
    size: int
    sweep: int
    ways: tuple[tuple[int, float], ...] = ()

    def again(self, capacity: int) -> int:
        """Bytes fetched beyond the first way through it, into a cache of some bytes."""
        times = math.prod(turns for needed, turns in self.ways if needed > capacity)
        return round(self.size * (times - 1))


def of_node(graph: Graph, node: Node, rows: int | None = None) -> list[Touch]:
    """Return what a node touches, operands first, the result last.

    Parameters
    ----------
    graph : Graph
    node : Node
        No view, which touches nothing, and no chain.
    rows : int, optional
        Only so many rows of one matrix: a member of a chain at work on one piece.
    """
    names = list(dict.fromkeys((*node.inputs, node.output)))
    sizes = {name: bytes_of(graph, name) if rows is None else part_of(graph, node, name, rows) for name in names}
    whole = sum(sizes.values())
    if node.kind != ops.PRODUCT:
        return [Touch(name, size, whole) for name, size in sizes.items()]
    left, right, out = node.inputs[0], node.inputs[1], node.output
    (*lead, m, n), k = graph.values[out].shape, graph.values[left].shape[-1]
    if rows is not None:
        m = rows
    elif math.prod(graph.values[right].shape[:-2]) == 1:
        # A stack by one matrix is one product with more rows.
        m *= math.prod(lead)
    found = {name: Touch(name, size, whole) for name, size in sizes.items()}
    if 0 not in (*lead, m, n, k):
        nest = loops(m, n, k, graph.values[left].dtype, bool(node.attributes.get("packed")))
        # Of a stack, each matrix by itself.
        count = 1 if rows is not None or math.prod(graph.values[right].shape[:-2]) == 1 else math.prod(lead)
        each = {"a": sizes[left] / count, "b": sizes[right] / count, "c": sizes[out] / count}
        for operand, name in zip("abc", (left, right, out), strict=True):
            found[name] = Touch(name, sizes[name], *_ways(operand, nest, each))
    return list(found.values())


def in_parts(found: Sequence[Touch], narrow: Mapping[str, float]) -> list[Touch]:
    """Return what steps touch that take turns at parts of the work: one way through all, of some values only a part."""
    sizes = {one.name: round(one.size * narrow.get(one.name, 1.0)) for one in found}
    whole = sum(sizes.values())
    return [one._replace(size=sizes[one.name], sweep=whole) for one in {one.name: one for one in found}.values()]


def bytes_of(graph: Graph, name: str) -> int:
    """Bytes of a value, in whole cache lines; numbers repeated by strides of 0 count once."""
    node = graph.producer(name)
    if node is not None and node.op == "broadcast":
        return bytes_of(graph, node.inputs[0])
    return -(-graph.values[name].nbytes // LINE) * LINE


def part_of(graph: Graph, node: Node, name: str, rows: int) -> int:
    """Bytes of the part of a value that some rows of a node's result need: their own, or a matrix of its stack."""
    value, out = graph.values[name], graph.values[node.output]
    if math.prod(value.shape[:-1]) == 1:
        return bytes_of(graph, name)
    width = value.shape[-1] * value.dtype.itemsize
    if node.kind == ops.PRODUCT and name == node.inputs[1]:
        return value.shape[-2] * width
    same = math.prod(value.shape[:-1]) == math.prod(out.shape[:-1])
    return (rows if same or value.shape[-2] != 1 else 1) * width


def loops(m: int, n: int, k: int, dtype: np.dtype[np.generic], packed: bool = False) -> list[Loop]:
    """Return the loops of a product, the outermost first, as its plan runs them on one thread."""
    mr, nr, mc, kc, nc = m, n, m, k, n
    row = product_row(dtype)
    if row is not None:
        problem = normalised(Problem(row.name, m, n, k, layout="np" if packed else "nn", threads=1))
        config = dispatch.resolve(problem, limbs=False).config
        if config.family not in ("numpy", "gemv"):
            mr, nr = config.mr or m, config.nr or n
            if config.family != "small":
                mc, kc, nc = config.mc, config.kc, config.nc
    return [
        Loop(max(n / min(nc, n), 1), "bc"),
        Loop(max(k / min(kc, k), 1), "ab"),
        Loop(max(m / min(mc, m), 1), "ac"),
        Loop(max(min(nc, n) / min(nr, nc, n), 1), "bc"),
        Loop(max(min(mc, m) / min(mr, mc, m), 1), "ac"),
    ]


def product_row(dtype: np.dtype[np.generic]) -> registry.DType | None:
    """Return the row of the registry that multiplies a type; None where no kernels of it run here."""
    name = "i8_i32" if dtype.name in registry.BYTES else dtype.name
    row = next((one for one in registry.DTYPES if name in (one.name, *one.names)), None)
    tier = kernels.active_isa()
    return row if row is not None and tier is not None and registry.supported(row, tier) else None


def _ways(operand: str, nest: Sequence[Loop], size: Mapping[str, float]) -> tuple[int, tuple[tuple[int, float], ...]]:
    parts = {name: size[name] / math.prod(loop.turns for loop in nest if name in loop.chooses) for name in size}
    sweep, ways = sum(parts.values()), []
    for loop in reversed(nest):
        if loop.turns == 1:
            continue
        if operand not in loop.chooses:
            ways.append((round(sum(parts.values())), loop.turns))
        parts = {name: part * (loop.turns if name in loop.chooses else 1) for name, part in parts.items()}
        if operand in loop.chooses:
            sweep = sum(parts.values())
    return round(sweep), tuple(ways)
