"""Graphs of operations, compiled: what surrounds products fused into them, constants packed once, buffers planned.

builder.py      writes a Graph by hand
ir.py           Graph, Node, Value: checked when made, never changed
ops.py          the table of operations; shapes by rules.py, NumPy meanings by meanings.py
reference.py    the oracle: a graph's meaning, node by node in NumPy
"""

from . import reference
from .builder import Builder, Tensor
from .ir import Graph, GraphError, Node, Value

__all__ = ["Builder", "Graph", "GraphError", "Node", "Tensor", "Value", "reference"]
