"""Operators of the domain com.microsoft that compute with floats, as ONNX Runtime's optimiser writes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

import numpy as np

from . import onnx_nodes
from .builder import Tensor
from .onnx_nodes import Emit, layer_norm, product, rms_norm, softmax_from, turned
from .onnx_shapes import part
from .onnx_writer import OnnxNode, Unsupported, Writer

_SINGLE = np.dtype("f4")
# Activations of fused products by their names, and what these call `p` with its default.
_ACTIVATIONS = {
    "Relu": ("relu", None), "Sigmoid": ("sigmoid", None), "Tanh": ("tanh", None), "LeakyRelu": ("leaky_relu", 0.01),
}  # fmt: skip


def added(write: Writer, x: Tensor, *terms: Tensor | None) -> Tensor:
    """Return a sum; terms may be left out."""
    for term in terms:
        x = x if term is None else write.apply("add", x, term)
    return x


def biased(op: str) -> Emit:
    """Return the writer of an operation on each number of a sum, whose second term may be left out."""
    return lambda write, node: [write.apply(op, added(write, node.input(0), node.optional(1)))]


def quick_gelu(write: Writer, node: OnnxNode) -> list[Tensor]:
    """x * sigmoid(alpha * x)."""
    x, alpha = node.input(0), float(node.attribute("alpha", 1.702))
    if alpha == 1:
        return [write.apply("silu", x)]
    scaled = write.apply("scale", x, p=alpha)
    if 1 < alpha < 2:
        # Products and chains take this over, and no number comes near the ends of its type.
        return [write.apply("scale", write.apply("silu", scaled), p=1 / alpha)]
    return [write.apply("mul", x, write.apply("sigmoid", scaled))]


def bias_split_gelu(write: Writer, node: OnnxNode) -> list[Tensor]:
    """The first half of a sum's columns times gelu of the second."""
    x = added(write, node.input(0), node.input(1))
    left, right = parts(write, x, [x.shape[-1] // 2] * 2)
    return [write.apply("mul", left, write.apply("gelu", right))]


def parts(write: Writer, x: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """Return parts of the last axis that are all of it."""
    if sum(sizes) != x.shape[-1]:
        raise Unsupported(f"{' + '.join(map(str, sizes))} columns of {x.shape[-1]}")
    return [part(write, x, len(x.shape) - 1, low, high) for low, high in pairwise([0, *accumulate(sizes)])]


def bias_dropout(write: Writer, node: OnnxNode) -> list[Tensor]:
    """A sum with a bias, and with a residual; nothing is dropped but in training."""
    training = node.optional(4)
    if training is not None and (training.value.data is None or bool(training.value.data.any())):
        raise Unsupported("it may be in training mode")
    x = node.input(0)
    mask = write.apply("broadcast", write.constant(np.asarray(True)), shape=x.shape)
    return [added(write, x, node.input(1), node.optional(2)), mask]


def bias_add(write: Writer, node: OnnxNode) -> list[Tensor]:
    """A sum with a bias and a residual."""
    return [added(write, node.input(0), node.input(1), node.input(2))]


def bias_softmax(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Softmax of a sum, over all axes from one on; the bias has as many axes, or misses the first ones."""
    x, bias = node.input(0), node.input(1)
    if node.attribute("is_inner_broadcast", 0) and len(bias.shape) != len(x.shape):
        raise Unsupported(f"a bias of shape {bias.shape} for the first axes of {x.shape}")
    made = added(write, x, bias)
    if made.shape != x.shape:
        raise Unsupported(f"a bias of shape {bias.shape} for {x.shape}")
    return [softmax_from(write, made, int(node.attribute("axis", 1)))]


# ---- products -------------------------------------------------------------------------------------------------------


def _operand(write: Writer, node: OnnxNode, at: int) -> Tensor:
    """Return an operand: its first axis behind the others but one where `transBatch` asks, then its last two turned."""
    x, side = node.input(at), "AB"[at]
    count = len(x.shape)
    if count > 2 and node.attribute(f"transBatch{side}", 0):
        x = write.apply("transpose", x, perm=(*range(1, count - 1), 0, count - 1))
    return turned(write, x, count > 1 and node.attribute(f"trans{side}", 0))


def fused_matmul(write: Writer, node: OnnxNode) -> list[Tensor]:
    """As np.matmul of operands that are turned first; times a factor, and an activation of it."""
    a, b = (_operand(write, node, at) for at in (0, 1))
    made = product(write, a, b, lambda left, right: write.apply("matmul", left, right))
    alpha = node.attribute("alpha", 1.0)
    return [_activated(write, node, made if alpha == 1 else write.apply("mul", made, write.like(alpha, made)))]


def fused_gemm(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Gemm and an activation."""
    return [_activated(write, node, made) for made in onnx_nodes.gemm(write, node)]


def gemm_fast_gelu(write: Writer, node: OnnxNode) -> list[Tensor]:
    """gelu of a product and a bias."""
    made = product(write, node.input(0), node.input(1), lambda left, right: write.apply("matmul", left, right))
    return [write.apply("gelu_tanh", added(write, made, node.optional(2)))]


def _activated(write: Writer, node: OnnxNode, x: Tensor) -> Tensor:
    name = node.attribute("activation", "")
    if not name:
        return x
    if name not in _ACTIVATIONS:
        raise Unsupported(f"activation={name!r}")
    op, plain = _ACTIVATIONS[name]
    return write.apply(op, x, **({} if plain is None else {"p": float(node.attribute("activation_alpha", plain))}))


# ---- rows -----------------------------------------------------------------------------------------------------------


def _skipping(bias: int, normalise: Callable[[Writer, OnnxNode, Tensor], Sequence[Tensor | None]]) -> Emit:
    """Return the writer of a norm of a sum: of two operands, and of the bias that is operand so-and-so."""

    def run(write: Writer, node: OnnxNode) -> list[Tensor | None]:
        x = added(write, node.input(0), node.input(1), node.optional(bias))
        if x.shape != node.input(0).shape:
            raise Unsupported(f"{node.input(1).shape} is added to {node.input(0).shape}")
        return [*normalise(write, node, x), x]

    return run


def _layer_norm(write: Writer, node: OnnxNode, x: Tensor) -> list[Tensor]:
    terms = node.input(2), node.optional(3)
    return layer_norm(write, x, terms, len(x.shape) - 1, float(node.attribute("epsilon", 1e-12)), _SINGLE)


def _rms_norm(write: Writer, node: OnnxNode, x: Tensor) -> list[Tensor | None]:
    epsilon = float(node.attribute("epsilon", 1e-12))
    made, inverse = rms_norm(write, x, node.input(2), len(x.shape) - 1, epsilon, _SINGLE)
    # (There is no mean.)
    return [made, None, inverse]


def embed_layer_normalization(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Norms of the sums of vectors that words, their places and their segments name; how many words a mask leaves."""
    return embedded(write, node, lambda at, x: x, node.optional(8))


def embedded(
    write: Writer, node: OnnxNode, floats: Callable[[int, Tensor], Tensor], places: Tensor | None
) -> list[Tensor]:
    """Write EmbedLayerNormalization; `floats` makes numbers of what is taken of operand so-and-so."""

    def rows(at: int, where: Tensor) -> Tensor:
        return floats(at, write.apply("gather", node.input(at), where, axis=0))

    ids, segments, mask = node.input(0), node.optional(1), node.optional(7)
    if len(ids.shape) != 2:
        raise Unsupported(f"words of shape {ids.shape}")
    if (segments is None) != (node.optional(4) is None):
        raise Unsupported("segments and their table are not given together")
    if places is None:
        count = ids.shape[1]
        if count > node.input(3).shape[0]:
            raise Unsupported(f"{count} words have {node.input(3).shape[0]} places")
        there = floats(3, part(write, node.input(3), 0, 0, count))
    else:
        there = rows(3, places)
    x = added(write, rows(2, ids), there, None if segments is None else rows(4, segments))
    terms = floats(5, node.input(5)), floats(6, node.input(6))
    made = layer_norm(write, x, terms, 2, float(node.attribute("epsilon", 1e-12)), _SINGLE)[0]
    if mask is None:
        return [made, write.constant(np.zeros(ids.shape[:1], "i4")), x]
    return [made, write.apply("sum", mask, axes=(1,), keepdims=False), x]


TABLE: dict[str, Emit] = {
    "Gelu": biased("gelu"), "BiasGelu": biased("gelu"), "FastGelu": biased("gelu_tanh"), "QuickGelu": quick_gelu,
    "BiasSplitGelu": bias_split_gelu, "BiasAdd": bias_add, "BiasDropout": bias_dropout, "BiasSoftmax": bias_softmax,
    "FusedMatMul": fused_matmul, "TransposeMatMul": fused_matmul, "FusedMatMulActivation": fused_matmul,
    "FusedGemm": fused_gemm, "GemmFastGelu": gemm_fast_gelu, "LayerNormalization": onnx_nodes.layer_normalization,
    "SimplifiedLayerNormalization": onnx_nodes.rms_normalization, "SkipLayerNormalization": _skipping(4, _layer_norm),
    "SkipSimplifiedLayerNormalization": _skipping(3, _rms_norm),
    "EmbedLayerNormalization": embed_layer_normalization,
}  # fmt: skip
