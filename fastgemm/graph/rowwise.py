"""Which operations work on rows, and can be members of a chain.

Every node of a chain makes rows of its output from the same rows of its first operand, so that blocks of rows are
independent.  Leading axes count items; where no operand tells them apart they are rows as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from .. import activations, kernels, registry, row_operations
from ..chain import SLOTS
from . import ops, rules
from .ir import Node, Value

_FINISHED = tuple(registry.dtype(name).numpy for name in registry.FINISHED)
ROWS = {"softmax": "softmax", "masked_softmax": "softmax", "layer_norm": "layer_norm"}
MAPS = {row.name for row in activations.EPILOGUES if row.name != "none"}


def row_types(name: str = "cast") -> set[str]:
    """Return the types, by NumPy's names, that an operation on rows reads and writes here."""
    tier, op = kernels.active_isa(), row_operations.row_op(name)
    pairs = op.types if tier is None else row_operations.types_of(op, tier)
    return {row_operations.ROW_TYPES[kind] for pair in pairs for kind in pair}


def lowers(node: Node, values: Mapping[str, Value]) -> bool:
    """Whether a node can be a member of a chain: asked of types and shapes, not of strides."""
    out, reads = values[node.output], [values[name] for name in node.inputs]
    kind = out.dtype.name
    half, known = kind in registry.HALVES, row_types()
    if len(out.shape) < 2 or any(value.size == 0 for value in reads):
        return False
    if node.op == "qlinear":
        return reads[0].shape[:-1] == out.shape[:-1] and all(value.is_constant for value in reads[2:])
    if node.op == "quantize":
        one = all(value.is_constant and value.size == 1 for value in reads[1:])
        return reads[0].dtype.name in known and one and _is_scale(reads[1])
    if node.op in ("cast", "dequantize"):
        kinds = {reads[0].dtype.name, kind}
        one = all(value.is_constant and value.size == 1 for value in reads[1:])
        if node.op == "dequantize":
            return kinds <= known and one and _is_scale(reads[1])
        return kinds <= known & {"float32", *registry.HALVES}
    if reads[0].dtype != out.dtype:
        return False
    if kind not in _FINISHED and not (half and kind in known):
        return False
    if node.op in ("matmul", "linear"):
        whole = all(value.shape[-1:] == out.shape[-1:] for value in reads[2:])
        return whole and reads[0].shape[:-1] == out.shape[:-1]
    if node.op in ROWS:
        late = half and node.op == "layer_norm" and not all(value.is_constant for value in reads[1:])
        last = node.attributes.get("axis", -1) in (-1, len(out.shape) - 1)
        whole = node.op != "masked_softmax" or all(value.shape[-1:] == out.shape[-1:] for value in reads[1:])
        return kind in row_types(ROWS[node.op]) and last and whole and not late
    if node.op == "add":
        rows, added = (value.shape for value in reads)
        return rows == out.shape and (added == out.shape or rules.by_columns(added, out.shape))
    return node.op in MAPS


def _is_scale(value: Value) -> bool:
    return value.data is not None and bool(np.isfinite(value.data).all() and (value.data > 0).all())


def fits(nodes: Sequence[Node], values: Mapping[str, Value]) -> bool:
    """Whether a chain can do all of these nodes: asked of their shapes, and of how many arrays they read.

    All operands but weights and vectors have its leading axes, at most two of them longer than 1.  A chain without
    those can have any number of leading axes: they are rows.
    """
    # The first operand, the result, and at most one array for each other operand.
    arrays = 2 + sum(len(node.inputs) - 1 - _is_packed(node, values) for node in nodes)
    shape = values[nodes[-1].output].shape
    return arrays <= SLOTS and (joined(nodes, values) or sum(size != 1 for size in shape[:-2]) <= 2)


def _is_packed(node: Node, values: Mapping[str, Value]) -> bool:
    """Whether a chain keeps the right operand of a product in itself."""
    weight = values[node.inputs[1]] if node.kind == ops.PRODUCT else None
    return weight is not None and weight.is_constant and len(weight.shape) == 2 and not node.attributes.get("b_zero")


def joined(nodes: Sequence[Node], values: Mapping[str, Value]) -> bool:
    """Whether leading axes can be counted as rows: one weight for all, and vectors."""
    for node in nodes:
        for at, name in enumerate(node.inputs[1:], 1):
            shape = values[name].shape
            weight = at == 1 and node.kind == ops.PRODUCT
            if math.prod(shape[: -2 if weight else -1]) != 1 and (weight or shape != values[node.output].shape):
                return False
    return True


class Unfit(ValueError):
    """Kernels do not take these nodes as a chain: they run one by one."""
