"""epilogues: what follows a product and reads its result alone is done by the product, tile by tile.

From each product the walk goes down: a bias, then a residual, then an activation, each once and in this order, which is
that of `fastgemm.linear`; it ends at the first node that does not fit, or where somebody else reads the value too.

A division by one number is the activation `scale`, by its reciprocal, but where whole numbers are made of what it
gives: those of 41 / 41 and 41 * (1 / 41) are 1 and 0.
"""

from __future__ import annotations

import numpy as np

from ... import registry
from ..ir import Graph, Node, Value
from .rewriting import Finish, Rewriting, broadcasts
from .scales import becomes_whole, factor

# Halves are finished in float32, before they are rounded.
_FINISHED = {*(registry.dtype(name).numpy for name in registry.FINISHED), *registry.HALVES}


def epilogues(graph: Graph) -> Graph:
    """Return the graph with products that finish their results themselves."""
    made = Rewriting(graph)
    taken: set[str] = set()
    for node in graph.nodes:
        if node.output in taken:
            continue
        if node.op != "matmul" or graph.values[node.output].dtype.name not in _FINISHED:
            made.keep(node)
            continue
        found = _Epilogue(graph, node, made)
        while found.takes_next():
            pass
        taken.update(found.taken)
        if found.taken:
            made.make("linear", [*node.inputs, *found.operands], found.last, **found.attributes)
        else:
            made.keep(node)
    return made.done()


class _Epilogue(Finish):
    """What a product has taken over so far."""

    def __init__(self, graph: Graph, product: Node, made: Rewriting) -> None:
        super().__init__(graph, product)
        self.made = made
        self.attributes |= {"terms": (), "dtype": product.attributes["dtype"]}

    def takes_next(self) -> bool:
        """Take over the node that reads the result so far, if that can be."""
        after = self.next()
        value = self.graph.values[self.last]
        if after is None or "activation" in self.attributes or self.graph.values[after.output].shape != value.shape:
            return False
        if not (self._term(after, value) or self.activation(after)):
            return False
        self.take(after)
        return True

    def _term(self, node: Node, value: Value) -> bool:
        if node.op not in ("add", "sub") or node.inputs[0] == node.inputs[1]:
            return False
        other = self.other(node)
        if node.op == "sub":
            # x - c has the bits of x + (-c).
            if node.inputs[0] != self.last or other.data is None:
                return False
            other = self._constant(other.name, -other.data)
        terms = self.attributes["terms"]
        row = other.size == 1 or other.shape == (*(1,) * (len(other.shape) - 1), *value.shape[-1:])
        if row and terms == ():
            found = self._row(other, value.shape[-1])
            if found is not None:
                self.operands.append(found)
                self.attributes["terms"] = ("bias",)
                return True
        if terms in ((), ("bias",)) and broadcasts(other, value.shape):
            self.operands.append(other.name)
            self.attributes["terms"] = (*terms, "residual")
            return True
        return False

    def _row(self, value: Value, columns: int) -> str | None:
        """Return the name of a bias with a number for each column."""
        if value.shape == (columns,):
            return value.name
        if value.data is not None:
            data = np.ascontiguousarray(np.broadcast_to(value.data.reshape(-1), (columns,)))
            return self._constant(value.name, data).name
        return self.made.make("reshape", [value.name], shape=(columns,)) if value.size == columns else None

    def _constant(self, stem: str, data: np.ndarray) -> Value:
        return self.made.values[self.made.constant(stem, data)]

    def activation(self, node: Node) -> bool:
        """Note a node as the product's activation, where it can be; a division too."""
        if super().activation(node):
            return True
        scaled = factor(self.graph, node) if node.op == "div" else None
        if scaled is None or becomes_whole(self.graph, node.output):
            return False
        self.attributes |= {"activation": "scale", "p": scaled.number}
        return True
