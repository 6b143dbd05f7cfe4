"""sinking: a product reads its rows in the order of memory, and their reordering goes behind it.

Rows of a product with one weight do not know of each other: transposing the leading axes before or after it is the
same.  Behind it meet other views, which strides can often say together; before it, rows that do not follow each other
at one distance would be copied.
"""

from __future__ import annotations

from ..ir import Graph
from .rewriting import Rewriting
from .views import views


def sinking(graph: Graph) -> Graph:
    """Return the graph with transposes of leading axes behind the products with one weight that read them."""
    made = Rewriting(graph)
    moved = False
    sunk: dict[str, tuple[str, tuple[int, ...]]] = {}
    for node in graph.nodes:
        source, perm = sunk.get(node.inputs[0], (None, None))
        before = graph.producer(node.inputs[0])
        if source is None and before is not None and before.op == "transpose":
            source, perm = before.inputs[0], before.attributes["perm"]
        fits = (
            node.op in ("matmul", "linear")
            and source is not None
            and perm is not None
            and perm[-1] == len(perm) - 1
            and len(graph.values[node.inputs[1]].shape) == 2
            and "residual" not in node.attributes.get("terms", ())
        )
        if not fits or source is None or perm is None:
            made.keep(node)
            continue
        straight = made.make(node.op, [source, *node.inputs[1:]], stem=f"{node.output}_straight", **node.attributes)
        made.make("transpose", [straight], node.output, perm=perm)
        sunk[node.output] = straight, perm
        moved = True
    return views(made.done()) if moved else graph
