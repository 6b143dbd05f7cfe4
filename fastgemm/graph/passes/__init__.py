"""Passes: each takes a graph and returns one that means the same.  `PASSES` is their order, the one list of them.

fold, recognise, views, scales, epilogues, quantised, late_scales, prologues, siblings, weights, sinking, chains,
layouts and copies are one file each, whose docstring says what the pass does; rewriting.py is what they share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..ir import Graph
from .chains import chains
from .copies import copies, count
from .epilogues import epilogues
from .fold import fold, fold_rest
from .late_scales import late_scales
from .layouts import layouts
from .prologues import prologues
from .quantised import quantised
from .recognise import recognise
from .scales import scales
from .siblings import siblings
from .sinking import sinking
from .views import views
from .weights import weights

FUSIONS = ("none", "fine", "full")


class Pass(NamedTuple):
    """A row of `PASSES`: its function, the least fusion that runs it, and whether it takes threads of a call too."""

    name: str
    function: Callable[..., Graph]
    least: str
    threads: bool = False


class Applied(NamedTuple):
    """What a pass did: nodes before and after, and the copies (number and bytes) that would be left after it."""

    name: str
    before: int
    after: int
    copies: tuple[int, int]
    graph: Graph


PASSES = (
    Pass("fold", fold, "fine"),
    Pass("recognise", recognise, "fine"),
    Pass("views", views, "fine"),
    Pass("scales", scales, "fine"),
    Pass("epilogues", epilogues, "fine"),
    Pass("quantised", quantised, "fine"),
    Pass("late_scales", late_scales, "fine"),
    Pass("fold_rest", fold_rest, "fine"),
    Pass("siblings", siblings, "fine"),
    Pass("sinking", sinking, "fine"),
    Pass("layouts", layouts, "fine"),
    Pass("weights", weights, "fine"),
    Pass("prologues", prologues, "full", True),
    Pass("chains", chains, "full", True),
    Pass("copies", copies, "none"),
)


def apply(graph: Graph, fusion: str = "full", log: list[Applied] | None = None, threads: int | None = None) -> Graph:
    """Run the passes of a fusion in order.

    Parameters
    ----------
    graph : Graph
    fusion : {"none", "fine", "full"}
    log : list, optional
        Gets an `Applied` for each pass.
    threads : int, optional
        What chains and prologues are chosen for; by default the threads of a call made here and now.

    Raises
    ------
    ValueError
        If there is no such fusion.

    Examples
    --------
    >>> from fastgemm.graph import Builder, passes
    >>> build = Builder()
    >>> build.output(build.input("x", (4, 8), "float32").T, "y")
    >>> [node.op for node in passes.apply(build.graph()).nodes]
    ['transpose', 'copy']
    """
    if fusion not in FUSIONS:
        raise ValueError(f"fusion must be one of {', '.join(FUSIONS)}, not {fusion!r}")
    for row in PASSES:
        if FUSIONS.index(row.least) > FUSIONS.index(fusion):
            continue
        before = len(graph.nodes)
        graph = row.function(graph, threads) if row.threads else row.function(graph)
        if log is not None:
            log.append(Applied(row.name, before, len(graph.nodes), count(copies(graph)), graph))
    return graph
