"""What a compiled graph does, in words: passes, steps, buffers."""

from __future__ import annotations

from collections.abc import Sequence

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
        lines.append(f"  {at:>3}  {step.node}  {graph.value(step.node.output).shape} in {where}")
    constants = sum(value.nbytes for value in graph.values.values() if value.is_constant)
    lines += ["", f"workspace: {program.plan.total} bytes a call; constants: {constants} bytes"]
    for name, offset in program.plan.offsets.items():
        lines.append(f"  {offset:>10}  {graph.value(name)}, {graph.value(name).nbytes} bytes")
    return "\n".join(lines)


def _where(program: Program, root: str) -> str:
    if root in program.made:
        return f"output {program.made[root]}"
    return f"workspace + {program.plan.offsets[root]}"
