"""Which operations can be members of a chain: by their types, their shapes and what is constant."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fastgemm.graph import Builder, rowwise

SHAPE = (4, 6, 8)


def lowers(op: str, *operands: Any, **attributes: Any) -> bool:
    """Whether an operation can be one; operands are shapes of what is given, with a type at the end, or constants."""
    build = Builder()
    tensors = [
        build.input(f"x{at}", one[:-1], one[-1]) if isinstance(one, tuple) else build.constant(one)
        for at, one in enumerate(operands)
    ]
    build.output(build.apply(op, *tensors, **attributes), "y")
    graph = build.graph()
    return rowwise.lowers(graph.nodes[-1], graph.values)


F4, ROW, HALF = (*SHAPE, "float32"), (8, "float32"), (*SHAPE, "bfloat16")
BYTES, ONE, ZERO = (*SHAPE, "uint8"), np.float32(0.5), np.uint8(3)


@pytest.mark.parametrize(
    ("op", "operands", "attributes"),
    [
        ("relu", [F4], {}),
        ("add", [F4, F4], {}),
        ("add", [F4, ROW], {}),
        ("softmax", [F4], {}),
        ("softmax", [F4], {"axis": 2}),
        ("masked_softmax", [F4, (1, 6, 8, "float32")], {}),
        ("masked_softmax", [HALF, (1, 6, 8, "bfloat16")], {}),
        ("layer_norm", [F4, ROW, ROW], {}),
        ("layer_norm", [HALF, np.ones(8, ml_dtypes.bfloat16)], {}),
        ("matmul", [F4, (8, 5, "float32")], {}),
        ("matmul", [F4, (4, 8, 5, "float32")], {}),
        ("linear", [F4, (8, 8, "float32"), F4], {"terms": ("residual",)}),
        ("cast", [F4], {"dtype": "bfloat16"}),
        ("quantize", [F4, ONE, ZERO], {}),
        ("dequantize", [BYTES, ONE, ZERO], {}),
    ],
)
def test_members(op: str, operands: list[Any], attributes: dict[str, Any]) -> None:
    if "bfloat16" not in rowwise.row_types():
        pytest.skip("no halves on this tier")
    assert lowers(op, *operands, **attributes)


@pytest.mark.parametrize(
    ("op", "operands", "attributes", "why"),
    [
        ("relu", [ROW], {}, "no rows"),
        ("relu", [(0, 8, "float32")], {}, "no numbers"),
        ("matmul", [(4, 0, "float32"), (0, 8, "float32")], {}, "operands without numbers"),
        ("abs", [F4], {}, "no kernel"),
        ("add", [(*SHAPE, "int32"), (*SHAPE, "int32")], {}, "whole numbers"),
        ("add", [F4, (4, 6, 1, "float32")], {}, "a number for each row"),
        ("add", [ROW, F4], {}, "the rows are not the first operand's"),
        ("add", [(1, 6, 8, "float32"), F4], {}, "nor all of them"),
        ("softmax", [F4], {"axis": 1}, "across rows"),
        ("masked_softmax", [F4, (4, 6, 1, "float32")], {}, "a number for each row"),
        ("layer_norm", [HALF, (8, "bfloat16")], {}, "vectors of halves that are given"),
        ("matmul", [(6, 8, "float32"), (4, 8, 5, "float32")], {}, "rows that are repeated"),
        ("matmul", [HALF, (8, 5, "bfloat16")], {"dtype": "float32"}, "another type"),
        ("linear", [F4, (8, 8, "float32"), (4, 6, 1, "float32")], {"terms": ("residual",)}, "a number for each row"),
        ("cast", [F4], {"dtype": "float64"}, "another type"),
        ("cast", [(*SHAPE, "int32")], {"dtype": "float32"}, "another type"),
        ("quantize", [F4, ("float32",), ZERO], {}, "a scale that is given"),
        ("quantize", [F4, np.ones(8, "f4"), np.zeros(8, "u1")], {}, "scales of columns"),
        ("quantize", [F4, ONE, ("uint8",)], {}, "a zero point that is given"),
        ("quantize", [(*SHAPE, "float64"), np.float64(0.5), ZERO], {}, "another type"),
        ("dequantize", [BYTES, ("float32",), ZERO], {}, "a scale that is given"),
        ("dequantize", [BYTES, ONE, ("uint8",)], {}, "a zero point that is given"),
        ("dequantize", [BYTES, np.ones(8, "f4"), np.zeros(8, "u1")], {}, "scales of columns"),
        ("dequantize", [BYTES, np.float32(-1), ZERO], {}, "no scale"),
    ],
)
def test_no_members(op: str, operands: list[Any], attributes: dict[str, Any], why: str) -> None:
    assert not lowers(op, *operands, **attributes), why
