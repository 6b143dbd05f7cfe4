"""ONNX operators of quantised models, written as dequantize, product and quantize, which a pass makes one step of."""

from __future__ import annotations

import numpy as np

from . import rules
from .builder import Tensor
from .onnx_nodes import Emit, product
from .onnx_writer import OnnxNode, Unsupported, Writer


def _terms(node: OnnxNode, x: Tensor, operands: tuple[Tensor, ...]) -> int:
    """Return the axis of scales and zero points, checked where they are more than one number."""
    if node.attribute("block_size", 0):
        raise Unsupported("scales of blocks")
    axis = int(node.attribute("axis", 1))
    if any(operand.shape not in ((), (1,)) for operand in operands):
        (axis,) = rules.axes_of(axis, len(x.shape))
        return axis
    return -1


def quantize(write: Writer, node: OnnxNode) -> list[Tensor]:
    """QuantizeLinear to bytes."""
    x, scale, zero = node.input(0), node.input(1), node.optional(2)
    terms = (scale,) if zero is None else (scale, zero)
    axis = _terms(node, x, terms)
    # In which type is divided, and rounded to: versions before 23 tell of no rounding.
    precision = node.attribute("precision", 0)
    kind = node.dtype(precision) if precision else scale.dtype
    x, scale = write.cast(x, kind), write.cast(scale, kind)
    if node.opset >= 23 and rules.is_half(kind):
        by = write.apply("reshape", scale, shape=[-1 if at == axis else 1 for at in range(len(x.shape))])
        x, scale = write.apply("div", x, by), write.like(1, scale)
    terms = (scale, *terms[1:])
    asked = node.attribute("output_dtype", 0)
    if asked and zero is None:
        kinds = {2: "u1", 3: "i1"}  # TensorProto.UINT8 and INT8
        if asked not in kinds:
            raise Unsupported(f"output_dtype={asked}: only bytes are made")
        return [write.apply("quantize", x, *terms, axis=axis, dtype=np.dtype(kinds[asked]))]
    return [write.apply("quantize", x, *terms, axis=axis)]


def dequantize(write: Writer, node: OnnxNode) -> list[Tensor]:
    """DequantizeLinear of bytes, and of sums of 32 bits."""
    x, scale, zero = node.input(0), node.input(1), node.optional(2)
    asked = node.attribute("output_dtype", 0)
    kind = node.dtype(asked) if asked else scale.dtype
    if kind.itemsize > scale.dtype.itemsize:
        scale = write.apply("cast", scale, dtype=kind)
    terms = (scale,) if zero is None else (scale, zero)
    made = write.apply("dequantize", x, *terms, axis=_terms(node, x, terms))
    return [write.cast(made, kind)]


def dynamic_quantize(write: Writer, node: OnnxNode) -> list[Tensor]:
    """DynamicQuantizeLinear: scale and zero point of the numbers at hand, 0 among them."""
    return list(bytes_of(write, node.input(0)))


def bytes_of(write: Writer, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return bytes of the numbers at hand, with their scale and zero point."""
    found = write.apply("dynamic_scale", x)
    scale, zero = (
        write.apply("reshape", write.apply("slice", found, starts=(at,), stops=(at + 1,)), shape=()) for at in (0, 1)
    )
    zero = write.apply("cast", zero, dtype="u1")
    return write.apply("quantize", x, scale, zero), scale, zero


def matmul_integer(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Products of bytes."""
    return [integer_product(write, node.input(0), node.input(1), (node.optional(2), node.optional(3)))]


def integer_product(write: Writer, a: Tensor, b: Tensor, zeros: tuple[Tensor | None, Tensor | None]) -> Tensor:
    """Return sums of bytes; of zero points that are one for each row, or column, the sums are taken off afterwards."""
    a_zero, b_zero = _alike(write, zeros[0]), _alike(write, zeros[1])
    a_one, b_one = (zero if zero is None or zero.shape in ((), (1,)) else None for zero in (a_zero, b_zero))

    def multiply(left: Tensor, right: Tensor) -> Tensor:
        first = write.like(0, left) if a_one is None and b_one is not None else a_one
        sums = write.apply("matmul_integer", left, right, *(zero for zero in (first, b_one) if zero is not None))
        if a_zero is not a_one and a_zero is not None:
            rows = write.apply("reshape", a_zero, shape=(-1, 1)) if len(a_zero.shape) == 1 else a_zero
            sums = _less(write, sums, rows, _differences(write, right, b_zero, -2))
        if b_zero is not b_one and b_zero is not None:
            sums = _less(write, sums, b_zero, _differences(write, left, a_one, -1))
        return sums

    return product(write, a, b, multiply)


def _differences(write: Writer, x: Tensor, zero: Tensor | None, axis: int) -> Tensor:
    """Return sums of differences from a zero point along an axis."""
    wide = write.cast(x, np.dtype("i4"))
    if zero is not None:
        wide = write.apply("sub", wide, write.cast(zero, np.dtype("i4")))
    return write.apply("sum", wide, axes=(axis,), keepdims=True)


def _less(write: Writer, sums: Tensor, zero: Tensor, differences: Tensor) -> Tensor:
    return write.apply("sub", sums, write.apply("mul", write.cast(zero, np.dtype("i4")), differences))


def _alike(write: Writer, zero: Tensor | None) -> Tensor | None:
    """Return one number for zero points that are known to be the same, as tools write them for each column."""
    data = None if zero is None else zero.value.data
    if data is None or data.size < 2 or not (data == data.flat[0]).all():
        return zero
    return write.constant(data.reshape(-1)[0])


def qlinear_matmul(write: Writer, node: OnnxNode) -> list[Tensor]:
    """QLinearMatMul: the real numbers that the bytes stand for, multiplied, and quantised again."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (node.input(at) for at in range(8))
    left = write.apply("dequantize", a, a_scale, a_zero, axis=_rows(a, a_scale, a_zero))
    right = write.apply("dequantize", b, b_scale, b_zero, axis=-1)
    made = product(write, left, right, lambda x, y: write.apply("matmul", x, y))
    return [write.apply("quantize", made, y_scale, y_zero, axis=_rows(made, y_scale, y_zero))]


def _rows(x: Tensor, *terms: Tensor) -> int:
    single = all(term.shape in ((), (1,)) for term in terms)
    if not single and len(x.shape) < 2:
        raise Unsupported("scales of rows that are not there")
    return -1 if single else -2


TABLE: dict[str, Emit] = {
    "QuantizeLinear": quantize, "DequantizeLinear": dequantize, "DynamicQuantizeLinear": dynamic_quantize,
    "MatMulInteger": matmul_integer, "QLinearMatMul": qlinear_matmul,
}  # fmt: skip
