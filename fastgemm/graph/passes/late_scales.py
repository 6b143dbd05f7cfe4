"""late_scales: sums of bytes whose scale is known only when the graph runs are finished by their product.

    activation(cast(matmul_integer(a, b)) * scale + bias)   becomes   integer_linear(a, b, scale, bias)

As dynamic quantisation writes layers: the scale of their inputs is found in every call.  What dequantises constants by
constants is `quantised`'s.
"""

from __future__ import annotations

from .. import rules_products
from ..ir import Graph, Node
from .rewriting import Finish, Rewriting, number


def late_scales(graph: Graph) -> Graph:
    """Return the graph with products of bytes that scale their sums themselves."""
    made = Rewriting(graph)
    taken: set[str] = set()
    for node in graph.nodes:
        found = _Late(graph, node) if _takes(graph, node) else None
        if found is not None and found.scaled:
            taken.update(found.taken)
            made.make("integer_linear", found.operands, found.last, **found.attributes)
        elif node.output not in taken:
            made.keep(node)
    return made.done()


def _takes(graph: Graph, node: Node) -> bool:
    zeros = [number(graph.values[name]) for name in node.inputs[3:]]
    return node.op == "matmul_integer" and graph.packs(node) and len(node.inputs) > 2 and None not in zeros


class _Late(Finish):
    """What a product takes over: the cast of its sums and their factor, then maybe a bias and an activation."""

    def __init__(self, graph: Graph, product: Node) -> None:
        super().__init__(graph, product)
        self.operands += product.inputs[:3]
        zero = sum(number(graph.values[name]) or 0.0 for name in product.inputs[3:])
        self.attributes["b_zero"] = int(zero)
        self.scaled = self._cast() and self._term("mul")
        if self.scaled:
            self._term("add", known=True)
            after = self.next()
            if after is not None and self.activation(after):
                self.take(after)

    def _cast(self) -> bool:
        node = self.next()
        if node is None or node.op != "cast" or self.graph.values[node.output].dtype.name != "float32":
            return False
        self.take(node)
        return True

    def _term(self, op: str, known: bool = False) -> bool:
        node, sums = self.next(), self.graph.values[self.last]
        if node is None or node.op != op or node.inputs[0] == node.inputs[1]:
            return False
        other = self.other(node)
        if not rules_products.is_row(other.spec, sums.spec) or (known and not other.is_constant):
            return False
        self.take(node)
        self.operands.append(other.name)
        return True
