"""Operators of the domain com.microsoft on bytes: each is a float's between dequantize and quantize, or scales sums."""

from __future__ import annotations

import numpy as np

from . import onnx_quantised
from .builder import Tensor
from .onnx_contrib import added, embedded
from .onnx_nodes import Emit, softmax_from, turned
from .onnx_quantised import bytes_of, integer_product
from .onnx_writer import OnnxNode, Unsupported, Writer

_SINGLE = np.dtype("f4")


def _one(*terms: Tensor | None) -> list[Tensor]:
    """Return a scale and maybe a zero point, one number each."""
    given = [term for term in terms if term is not None]
    if any(term.shape not in ((), (1,)) for term in given):
        raise Unsupported("scales and zero points that are not one number each")
    return given


def _floats(write: Writer, node: OnnxNode, at: int) -> Tensor:
    """Return the numbers that operand so-and-so stands for; scale and zero point are the next two."""
    return write.apply("dequantize", node.input(at), *_one(node.input(at + 1), node.optional(at + 2)))


def _bytes(write: Writer, node: OnnxNode, x: Tensor, at: int, kind: np.dtype[np.generic]) -> Tensor:
    """Return bytes of numbers by the scale that operand so-and-so is, and the next as zero point, or of a type."""
    terms = _one(node.input(at), node.optional(at + 1))
    return write.apply("quantize", x, *terms, **({"dtype": kind} if len(terms) == 1 else {}))


def unary(op: str) -> Emit:
    """Return the writer of an activation."""

    def run(write: Writer, node: OnnxNode) -> list[Tensor]:
        more = {"p": float(node.attribute("alpha", 0.01))} if op == "leaky_relu" else {}
        made = write.apply(op, _floats(write, node, 0), **more)
        return [_bytes(write, node, made, 3, node.input(0).dtype)]

    return run


def binary(op: str) -> Emit:
    """Return the writer of an operation on pairs of numbers."""

    def run(write: Writer, node: OnnxNode) -> list[Tensor]:
        made = write.apply(op, _floats(write, node, 0), _floats(write, node, 3))
        return [_bytes(write, node, made, 6, node.input(0).dtype)]

    return run


def softmax(write: Writer, node: OnnxNode) -> list[Tensor]:
    """As the Softmax of the version that the node names."""
    x, axis = _floats(write, node, 0), int(node.attribute("axis", -1))
    newer = int(node.attribute("opset", 13)) >= 13
    made = write.apply("softmax", x, axis=axis) if newer else softmax_from(write, x, axis)
    return [_bytes(write, node, made, 3, node.input(0).dtype)]


def mean(write: Writer, node: OnnxNode) -> list[Tensor]:
    """The mean over axes."""
    x = _floats(write, node, 0)
    axes = node.attribute("axes") or range(len(x.shape))
    made = write.apply("mean", x, axes=tuple(axes), keepdims=bool(node.attribute("keepdims", 1)))
    return [_bytes(write, node, made, 3, node.input(0).dtype)]


def concat(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Bytes side by side, each made those of the result's scale first: that leaves out pairs that have it."""
    parts = [
        _bytes(write, node, _floats(write, node, at), 0, node.input(1).dtype) for at in range(2, len(node.inputs), 3)
    ]
    return [write.apply("concat", *parts, axis=int(node.attribute("axis", 0)))]


def where(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Choose by a bool between bytes of the result's scale."""
    parts = [_bytes(write, node, _floats(write, node, at), 7, node.input(at).dtype) for at in (1, 4)]
    return [write.apply("where", node.input(0), *parts)]


def gemm(write: Writer, node: OnnxNode) -> list[Tensor]:
    """QGemm: alpha * A' @ B' of what bytes stand for, plus sums by the scale of these; floats, or bytes of a scale."""
    (a_scale, *a_zero), b_scale, b_zero = _one(node.input(1), node.optional(2)), node.input(4), node.optional(5)
    alpha = float(node.attribute("alpha", 1.0))
    if alpha != 1:
        a_scale = write.apply("mul", a_scale, write.like(alpha, a_scale))
    left = write.apply("dequantize", write.matrix(node.input(0)), a_scale, *a_zero)
    across = bool(node.attribute("transB", 0))
    b_terms = (b_scale,) if b_zero is None else (b_scale, b_zero)
    right = write.apply("dequantize", write.matrix(node.input(3)), *b_terms, axis=0 if across else 1)
    made = write.apply("matmul", turned(write, left, node.attribute("transA", 0)), turned(write, right, across))
    sums = node.optional(6)
    if sums is not None:
        scale = write.apply("mul", a_scale, b_scale)
        if len(scale.shape) == 1 and sums.shape[-1:] != scale.shape:
            sums = write.apply("broadcast", sums, shape=(*sums.shape[:-1], *scale.shape))
        made = write.apply("add", made, write.apply("dequantize", sums, scale, axis=-1))
    if (node.optional(7) is None) != (node.optional(8) is None):
        raise Unsupported("the result's scale and zero point are not given together")
    return [made if node.optional(7) is None else _bytes(write, node, made, 7, node.input(0).dtype)]


# ---- sums that are scaled -------------------------------------------------------------------------------------------


def scaled_sums(
    write: Writer,
    operands: tuple[Tensor, Tensor],
    scales: tuple[Tensor, Tensor],
    zeros: tuple[Tensor | None, Tensor | None],
    bias: Tensor | None,
) -> Tensor:
    """Return a product of bytes by its operands' scales, plus a bias: the left one's are one number each."""
    _one(scales[0], zeros[0])
    sums = write.cast(integer_product(write, *operands, zeros), _SINGLE)
    left, right = (write.cast(scale, _SINGLE) for scale in scales)
    made = write.apply("mul", sums, write.apply("mul", left, right))
    made = added(write, made, None if bias is None else write.cast(bias, _SINGLE))
    return write.cast(made, scales[0].dtype)


def matmul_to_float(write: Writer, node: OnnxNode) -> list[Tensor]:
    """MatMulIntegerToFloat."""
    terms = (node.input(2), node.input(3)), (node.optional(4), node.optional(5)), node.optional(6)
    return [scaled_sums(write, (node.input(0), node.input(1)), *terms)]


def dynamic_matmul(write: Writer, node: OnnxNode) -> list[Tensor]:
    """DynamicQuantizeMatMul: the left operand is made bytes first."""
    a, scale, zero = bytes_of(write, node.input(0))
    terms = (scale, node.input(2)), (zero, node.optional(3)), node.optional(4)
    return [scaled_sums(write, (a, node.input(1)), *terms)]


def embed(write: Writer, node: OnnxNode) -> list[Tensor]:
    """QEmbedLayerNormalization: scales of its five tables are one behind the other, and so are their zero points."""

    def floats(at: int, x: Tensor) -> Tensor:
        return write.apply("dequantize", x, *_one(node.input(at + 6), node.input(at + 11)))

    return embedded(write, node, floats, None)[:2]


TABLE: dict[str, Emit] = {
    "QuantizeLinear": onnx_quantised.quantize, "DequantizeLinear": onnx_quantised.dequantize, "QGemm": gemm,
    "QLinearAdd": binary("add"), "QLinearMul": binary("mul"), "QLinearSigmoid": unary("sigmoid"),
    "QLinearLeakyRelu": unary("leaky_relu"), "QLinearSoftmax": softmax, "QLinearReduceMean": mean,
    "QLinearConcat": concat, "QLinearWhere": where, "MatMulIntegerToFloat": matmul_to_float,
    "DynamicQuantizeMatMul": dynamic_matmul, "QEmbedLayerNormalization": embed,
}  # fmt: skip
