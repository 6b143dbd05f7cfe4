"""late_scales: sums of bytes whose scale is known only when the graph runs are finished by their product.

    activation(cast(matmul_integer(a, b)) * (scale * factor) + bias)   becomes   integer_linear(a, b, ...)

As dynamic quantisation writes layers: the scale of their inputs is found in every call, that of their weights is the
factor.  A zero point that was found as a float, and cast, is read as a float.  What dequantises constants by constants
is `quantised`'s.
"""

from __future__ import annotations

import numpy as np

from .. import rules_products
from ..ir import Graph, Node
from .rewriting import Finish, Rewriting, number


def late_scales(graph: Graph) -> Graph:
    """Return the graph with products of bytes that scale their sums themselves."""
    made = Rewriting(graph)
    taken: set[str] = set()
    for node in graph.nodes:
        found = _Late(graph, node, made) if _takes(graph, node) else None
        if found is not None and found.scaled:
            taken.update(found.taken)
            made.make("integer_linear", found.operands, found.last, **found.attributes)
        elif node.op == "quantize" and len(node.inputs) > 2:
            x, scale, zero = node.inputs
            asked = {**node.attributes, "dtype": graph.values[node.output].dtype.name}
            made.make("quantize", [x, scale, _not_cast(graph, zero)], node.output, **asked)
        elif node.output not in taken:
            made.keep(node)
    return made.done()


def _takes(graph: Graph, node: Node) -> bool:
    zeros = [number(graph.values[name]) for name in node.inputs[3:]]
    return node.op == "matmul_integer" and graph.packs(node) and len(node.inputs) > 2 and None not in zeros


def _not_cast(graph: Graph, zero: str) -> str:
    """Return what a zero point was cast from, if that is float32; itself otherwise."""
    node = graph.producer(zero)
    single = node is not None and node.op == "cast" and graph.values[node.inputs[0]].dtype == np.dtype(np.float32)
    return node.inputs[0] if node is not None and single else zero


class _Late(Finish):
    """What a product takes over: the cast of its sums and their factor, then maybe a bias and an activation."""

    def __init__(self, graph: Graph, product: Node, made: Rewriting) -> None:
        super().__init__(graph, product)
        self.operands += [*product.inputs[:2], _not_cast(graph, product.inputs[2])]
        zero = sum(number(graph.values[name]) or 0.0 for name in product.inputs[3:])
        self.attributes["b_zero"] = int(zero)
        terms = []
        self.scaled = self._cast() and self._term("mul")
        if self.scaled:
            terms.append("scale")
            factor = self._factor(made)
            if factor is not None:
                self.operands[-1:] = factor
                terms.append("factor")
            if self._term("add", known=True):
                terms.append("bias")
            after = self.next()
            if after is not None and self.activation(after):
                self.take(after)
        self.attributes["terms"] = tuple(terms)

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

    def _factor(self, made: Rewriting) -> list[str] | None:
        """Return one late scale and the constant by which it is multiplied, of a scale that is such a product."""
        name, values = self.operands[-1], self.graph.values
        node = self.graph.producer(name)
        if node is None or node.op not in ("scale", "mul"):
            return None
        late, *others = sorted((values[one] for one in node.inputs), key=lambda value: value.is_constant)
        if late.is_constant or late.size != 1:
            return None
        if node.op == "scale":
            return [late.name, made.constant(f"{name}_factor", np.array([node.attributes["p"]], np.float32))]
        fits = others[0].is_constant and rules_products.is_row(others[0].spec, values[self.last].spec)
        return [late.name, others[0].name] if fits else None
