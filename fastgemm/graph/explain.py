"""What a compiled graph does, in words: passes, steps, buffers."""

from __future__ import annotations

from collections.abc import Sequence

from . import memory
from .ir import Graph
from .passes import Applied
from .steps import Program


def explain(graph: Graph, program: Program, log: Sequence[Applied]) -> str:
    """Return the text that `CompiledGraph.explain` prints."""
    lines = [f"{graph.name or 'graph'}: {', '.join(map(str, map(graph.value, graph.inputs)))}"]
    lines += ["", "passes (nodes before and after; copies left):"]
    for one in log:
        number, size = one.copies
        lines.append(f"  {one.name:<12} {one.before:>4} -> {one.after:<4} {number} copies of {size} bytes")
    lines += ["", "steps:"]
    for at, step in enumerate(program.steps):
        where = _where(program, program.places[step.node.output].root)
        how = f" [{step.runner.how}]" if step.runner.how else ""
        lines.append(f"  {at:>3}  {step.node}  {graph.value(step.node.output).shape} in {where}{how}")
    lines += ["", f"workspace: {program.plan.total} bytes a call; constants: {_constants(graph)} bytes"]
    for name, offset in program.plan.offsets.items():
        lines.append(f"  {offset:>10}  {graph.value(name)}, {graph.value(name).nbytes} bytes")
    lines += ["", *_memory(log, program)]
    return "\n".join(lines)


def _constants(graph: Graph) -> int:
    # Those of a chain stand in its body.
    bodies = [node.attributes["body"] for node in graph.nodes if "body" in node.attributes]
    known = {
        name: value.nbytes for each in (graph, *bodies) for name, value in each.values.items() if value.is_constant
    }
    return sum(known.values())


def _memory(log: Sequence[Applied], program: Program) -> list[str]:
    """Return what one call fetches into the caches, of one thread: after each pass that changed it, and by steps."""
    head = "  ".join(f"{name:>12}" for name in memory.LEVELS)
    lines, before, graph = [f"bytes fetched, after    {head}"], None, None
    for one in log:
        if graph is not None and (one.graph.nodes, one.graph.values) == (graph.nodes, graph.values):
            continue
        graph, found = one.graph, memory.traffic(one.graph)
        if found != before:
            lines.append(f"  {one.name:<20}  " + "  ".join(f"{size:>12}" for size in found.total))
        before = found
    places = {name: str(program.plan.offsets.get(place.root, place.root)) for name, place in program.places.items()}
    return [*lines, "", *str(memory.traffic(program.graph, places=places)).splitlines()]


def _where(program: Program, root: str) -> str:
    if root in program.made:
        return f"output {program.made[root]}"
    return f"workspace + {program.plan.offsets[root]}"
