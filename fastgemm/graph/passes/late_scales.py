"""late_scales: sums of bytes whose scale is known only when the graph runs are finished by their product.

    activation(cast(matmul_integer(a, b)) * scale + bias)   becomes   integer_linear(a, b, scale, bias)

As dynamic quantisation writes layers: the scale of their inputs is found in every call.  What dequantises constants by
constants is `quantised`'s.
"""

from __future__ import annotations

from typing import Any

from .. import rules_products
from ..ir import Graph, Node
from .rewriting import Rewriting, activation, number
from .weights import packs


def late_scales(graph: Graph) -> Graph:
    """Return the graph with products of bytes that scale their sums themselves."""
    made = Rewriting(graph)
    taken: set[str] = set()
    for node in graph.nodes:
        found = _Finish(graph, node) if _takes(graph, node) else None
        if found is not None and found.scaled:
            taken.update(found.taken)
            made.make("integer_linear", found.operands, found.last, **found.attributes)
        elif node.output not in taken:
            made.keep(node)
    return made.done()


def _takes(graph: Graph, node: Node) -> bool:
    zeros = [number(graph.values[name]) for name in node.inputs[3:]]
    return node.op == "matmul_integer" and packs(graph, node) and len(node.inputs) > 2 and None not in zeros


class _Finish:
    """What a product takes over: the cast of its sums and their factor, then maybe a bias and an activation."""

    def __init__(self, graph: Graph, product: Node) -> None:
        self.graph, self.last = graph, product.output
        self.taken: list[str] = []
        self.operands = list(product.inputs[:3])
        zero = sum(number(graph.values[name]) or 0.0 for name in product.inputs[3:])
        self.attributes: dict[str, Any] = {"b_zero": int(zero)}
        self.scaled = self._cast() and self._term("mul")
        if self.scaled:
            self._term("add", known=True)
            self._activation()

    def _next(self) -> Node | None:
        return self.graph.only_consumer(self.last)

    def _take(self, node: Node) -> None:
        self.last = node.output
        self.taken.append(node.output)

    def _cast(self) -> bool:
        node = self._next()
        if node is None or node.op != "cast" or self.graph.values[node.output].dtype.name != "float32":
            return False
        self._take(node)
        return True

    def _term(self, op: str, known: bool = False) -> bool:
        node, sums = self._next(), self.graph.values[self.last]
        if node is None or node.op != op or node.inputs[0] == node.inputs[1]:
            return False
        other = self.graph.values[node.inputs[1] if node.inputs[0] == self.last else node.inputs[0]]
        if not rules_products.is_row(other.spec, sums.spec) or (known and not other.is_constant):
            return False
        self._take(node)
        self.operands.append(other.name)
        return True

    def _activation(self) -> None:
        node = self._next()
        found = None if node is None else activation(self.graph, node)
        if node is not None and found is not None:
            self._take(node)
            self.attributes |= found
