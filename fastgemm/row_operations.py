"""The table of what chains do to whole rows: operations, the types they read and write, and their places.

The build loads it by path, as it does `registry`, and renders kernels/rows.pyx.tp from it.
"""

from __future__ import annotations

from typing import NamedTuple

from . import registry


class RowOp(NamedTuple):
    """What is done to whole rows of a matrix in a chain of steps (kernels/rows.pyx.tp), computed in float32 or float64.

    ``types`` are the pairs of stored kinds that it reads and writes; bytes stand for ``scale * (number - zero)``.
    ``params`` names its numbers and their defaults, ``vectors`` its operands of a number a column; ``meaning`` is the
    same in NumPy, over rows ``x``.
    """

    name: str
    code: int
    types: tuple[tuple[str, str], ...]
    params: tuple[tuple[str, float], ...]
    vectors: tuple[str, ...]
    meaning: str


# What rows may be stored as, and NumPy's names; their places here are those in compiled tables.
ROW_TYPES = {"f32": "float32", "bf16": "bfloat16", "s8": "int8", "u8": "uint8", "f16": "float16", "f64": "float64"}
KINDS = {numpy: kind for kind, numpy in ROW_TYPES.items()}
# Those that float32 is made of and becomes.
CONVERTED = tuple(kind for kind in ROW_TYPES if kind != "f64")
ROW_OPS = (
    RowOp(
        "softmax", 0, (*(("f32", y) for y in CONVERTED), ("f64", "f64")), (("scale", 1.0),), ("mask",),
        "(lambda e: e / e.sum(-1, keepdims=True))(np.exp((t := x * scale + mask) - t.max(-1, keepdims=True)))",
    ),
    RowOp(
        "layer_norm", 1, (("f32", "f32"), *((x, y) for y in ("bf16", "f16") for x in ("f32", y)), ("f64", "f64")),
        (("epsilon", 1e-5),), ("gamma", "beta"),
        "(x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon) * gamma + beta",
    ),
    RowOp("cast", 2, tuple((x, y) for x in CONVERTED for y in CONVERTED), (), (), "x"),
)


def row_op(name: str) -> RowOp:
    """Return the row of an operation on rows."""
    return registry.named(ROW_OPS, name, "operation on rows", "operations")


def types_of(op: RowOp, tier: registry.Isa) -> list[tuple[str, str]]:
    """Return the pairs of kinds that an operation reads and writes on a tier: those that it multiplies."""
    missing = {row.name for row in registry.DTYPES if not registry.supported(row, tier)}
    return [pair for pair in op.types if missing.isdisjoint(pair)]


def row_index(op: RowOp, x: str, y: str) -> int:
    """Place of an operation between two stored kinds in compiled tables."""
    kinds = list(ROW_TYPES)
    return (op.code * len(kinds) + kinds.index(x)) * len(kinds) + kinds.index(y)
