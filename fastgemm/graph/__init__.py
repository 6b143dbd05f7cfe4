"""Graphs of operations, compiled: what surrounds products fused into them, constants packed once, buffers planned.

builder.py      writes a Graph by hand
ir.py           Graph, Node, Value: checked when made, never changed
ops.py          the table of operations; shapes by rules*.py, NumPy meanings by meanings.py
reference.py    the oracle: a graph's meaning, node by node in NumPy
storage.py      where values lie: views share the memory of their source
passes/         each Graph -> Graph, in an order of their own (PASSES): folding, fusion, layouts, chains, copies
planner.py      buffers in one block of memory, by their lives
runners.py      how one node runs, kernel_runners.py by one compiled call; steps.py: a program of them
rowwise.py      what can be a member of a chain; lowering.py makes a `fastgemm.chain.Chain`
operands.py     where the values of a chain lie, scratch.py what is made inside; attention.py: by parts of the keys
scheduling.py   the published heuristic for splits, a source of plans beside ours
memory.py       the memory model: bytes fetched into each cache level; touches.py: what a step touches
costs.py        what ways to run the same nodes cost, by work, bytes, calls and waiting: chains are what costs least
compiled.py     compile(): a callable, thread-safe graph; explain.py says what it does
from_onnx.py    reads a graph from an ONNX file; onnx_*.py are its parts
"""

from . import memory, passes, reference
from .builder import Builder, Tensor
from .compiled import CompiledGraph, compile
from .from_onnx import from_onnx
from .ir import Graph, GraphError, Node, Value

__all__ = [
    "Builder",
    "CompiledGraph",
    "Graph",
    "GraphError",
    "Node",
    "Tensor",
    "Value",
    "compile",
    "from_onnx",
    "memory",
    "passes",
    "reference",
]
