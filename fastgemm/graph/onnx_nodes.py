"""ONNX operators that compute: elementwise ones, products, reductions, rows.  Each function writes one node."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import rules
from .builder import Tensor
from .onnx_writer import OnnxNode, Unsupported, Writer, known

# Results in order; None for one that cannot be had, which only matters where it is read.
Emit = Callable[[Writer, OnnxNode], Sequence[Tensor | None]]


def unary(op: str) -> Emit:
    """Return the writer of an operation on each number."""
    return lambda write, node: [write.apply(op, node.input(0))]


def binary(op: str) -> Emit:
    """Return the writer of an operation on pairs of numbers."""
    return lambda write, node: [write.apply(op, node.input(0), node.input(1))]


def variadic(op: str) -> Emit:
    """Return the writer of an operation on any number of operands, two at a time."""

    def run(write: Writer, node: OnnxNode) -> list[Tensor]:
        made, *others = node.given()
        for other in others:
            made = write.apply(op, made, other)
        return [made]

    return run


def folded(function: Callable[..., Any]) -> Emit:
    """Return the writer of an operation that only shapes are computed with."""
    return lambda write, node: [write.fold(function, *node.given())]


def leaky_relu(write: Writer, node: OnnxNode) -> list[Tensor]:
    """A slope below zero."""
    return [write.apply("leaky_relu", node.input(0), p=float(node.attribute("alpha", 0.01)))]


def relu(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Whole numbers by `maximum`, whose row takes them."""
    x = node.input(0)
    if rules.is_float(x.dtype):
        return [write.apply("relu", x)]
    return [write.apply("maximum", x, write.like(0, x))]


def clip(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Bounds that are attributes before version 11, operands since; either may be left out."""
    x = node.input(0)
    bounds: list[float | int | None] = []
    for at, name in ((1, "min"), (2, "max")):
        given = node.optional(at)
        # As Python's numbers: whole ones have more digits than a float.
        bounds.append(node.attribute(name) if given is None else known(given, name).reshape(()).item())
    low, high = bounds
    # (Kernels pass over a bound that is NaN.)
    if low is not None and high is not None and rules.is_float(x.dtype) and not np.isnan([low, high]).any():
        return [write.apply("clip", x, p=float(low), q=float(high))]
    for op, bound in (("maximum", low), ("minimum", high)):
        x = x if bound is None else write.apply(op, x, write.like(bound, x))
    return [x]


def power(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Squares and roots as such; others in the base's type, whole numbers to other powers in the exponent's or f8."""
    x, exponent = node.input(0), node.input(1)
    data = exponent.value.data
    if data is not None and data.size == 1 and len(exponent.shape) <= len(x.shape):
        if data.item() == 2:
            return [write.apply("mul", x, x)]
        if data.item() == 0.5 and rules.is_float(x.dtype):
            return [write.apply("sqrt", x)]
    kind = x.dtype
    if not rules.is_float(x.dtype):
        # NumPy has no negative powers of whole numbers; the result is cut off, as by a cast in C.
        plain = not rules.is_float(exponent.dtype) and data is not None and bool((data >= 0).all())
        kind = x.dtype if plain else np.dtype("f8")
    made = write.apply("pow", write.cast(x, kind), write.cast(exponent, kind))
    return [write.cast(made, x.dtype)]


def gelu(write: Writer, node: OnnxNode) -> list[Tensor]:
    """By erf or by tanh."""
    kinds = {"none": "gelu", "tanh": "gelu_tanh"}
    asked = node.attribute("approximate", "none")
    if asked not in kinds:
        raise Unsupported(f"approximate={asked!r}")
    return [write.apply(kinds[asked], node.input(0))]


def matmul(write: Writer, node: OnnxNode) -> list[Tensor]:
    """As np.matmul: vectors get an axis for the product and lose it again."""
    return [product(write, node.input(0), node.input(1), lambda a, b: write.apply("matmul", a, b))]


def product(write: Writer, a: Tensor, b: Tensor, multiply: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Multiply, vectors included."""
    if not a.shape or not b.shape:
        raise Unsupported("an operand has no axis")
    left = a if len(a.shape) > 1 else write.apply("reshape", a, shape=(1, *a.shape))
    right = b if len(b.shape) > 1 else write.apply("reshape", b, shape=(*b.shape, 1))
    made = multiply(left, right)
    if left is a and right is b:
        return made
    shape = made.shape[:-2] + made.shape[-2:-1] * (left is a) + made.shape[-1:] * (right is b)
    return write.apply("reshape", made, shape=shape)


def gemm(write: Writer, node: OnnxNode) -> list[Tensor]:
    """alpha * A' @ B' + beta * C."""
    a, b = (turned(write, write.matrix(node.input(at)), node.attribute(f"trans{'AB'[at]}", 0)) for at in (0, 1))
    made, c = write.apply("matmul", a, b), node.optional(2)
    alpha, beta = node.attribute("alpha", 1.0), node.attribute("beta", 1.0)
    made = made if alpha == 1 else write.apply("mul", made, write.like(alpha, made))
    if c is None or beta == 0:
        return [made]
    return [write.apply("add", made, c if beta == 1 else write.apply("mul", c, write.like(beta, c)))]


def turned(write: Writer, x: Tensor, turns: bool) -> Tensor:
    """Return a matrix, or a stack of them, with its last axes exchanged where it turns."""
    order = tuple(range(len(x.shape)))
    return write.apply("transpose", x, perm=(*order[:-2], order[-1], order[-2])) if turns else x


def reduction(op: str) -> Callable[[Writer, OnnxNode], list[Tensor]]:
    """Return the writer of a reduction: axes are an attribute before version 13 or 18, an operand since."""

    def run(write: Writer, node: OnnxNode) -> list[Tensor]:
        x = node.input(0)
        axes = node.numbers("axes", 1)
        if not axes:
            if node.attribute("noop_with_empty_axes", 0):
                return [x]
            axes = list(range(len(x.shape)))
        if op == "max" and any(x.shape[axis] == 0 for axis in rules.axes_of(tuple(axes), len(x.shape))):
            raise Unsupported("the largest of no numbers")
        return [write.apply(op, x, axes=tuple(axes), keepdims=bool(node.attribute("keepdims", 1)))]

    return run


def least(write: Writer, node: OnnxNode) -> list[Tensor]:
    """The minimum over axes is the negative of the maximum of negatives, for floats."""
    if not rules.is_float(node.input(0).dtype):
        raise Unsupported(f"of {node.input(0).dtype}")
    node.inputs[0] = write.apply("neg", node.input(0))
    return [write.apply("neg", reduction("max")(write, node)[0])]


def softmax(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Over one axis since version 13; before, over all axes from one on, taken as one."""
    if node.opset >= 13:
        return [write.apply("softmax", node.input(0), axis=int(node.attribute("axis", -1)))]
    return [softmax_from(write, node.input(0), int(node.attribute("axis", 1)))]


def softmax_from(write: Writer, x: Tensor, axis: int) -> Tensor:
    """Return the softmax over all axes from one on, taken as one."""
    if axis in (-1, len(x.shape) - 1):
        return write.apply("softmax", x, axis=-1)
    axis += len(x.shape) if axis < 0 else 0
    rows = write.apply("reshape", x, shape=(math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
    return write.apply("reshape", write.apply("softmax", rows, axis=-1), shape=x.shape)


def layer_normalization(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Over the last axes, taken as one; mean and deviation in the type that the file names, by default float32."""
    x = node.input(0)
    (axis,) = rules.axes_of(int(node.attribute("axis", -1)), len(x.shape))
    kind = node.dtype(node.attribute("stash_type", 1))
    return layer_norm(write, x, (node.input(1), node.optional(2)), axis, float(node.attribute("epsilon", 1e-5)), kind)


def layer_norm(
    write: Writer, x: Tensor, terms: Sequence[Tensor | None], axis: int, epsilon: float, kind: np.dtype[Any]
) -> list[Tensor]:
    """Return rows of the axes from one on with mean 0 and variance 1, times and plus terms; mean and 1 / deviation.

    Where these are named but not used, nobody reads their nodes and they go.
    """
    wide, columns = x.shape, math.prod(x.shape[axis:])
    ready = []
    for term in terms:
        if term is not None:
            if term.shape != x.shape[axis:]:
                term = write.apply("broadcast", term, shape=x.shape[axis:])
            ready.append(term if term.shape == (columns,) else write.apply("reshape", term, shape=(columns,)))
    rows = x if axis == len(wide) - 1 else write.apply("reshape", x, shape=(*wide[:axis], columns))
    made = write.apply("layer_norm", rows, *ready, epsilon=epsilon)
    result = made if made.shape == wide else write.apply("reshape", made, shape=wide)
    over = {"axes": tuple(range(axis, len(wide))), "keepdims": True}
    x = write.cast(x, kind) if kind.itemsize > x.dtype.itemsize else x
    mean = write.apply("mean", x, **over)
    apart = write.apply("sub", x, mean)
    variance = write.apply("mean", write.apply("mul", apart, apart), **over)
    deviation = write.apply("sqrt", write.apply("add", variance, write.like(epsilon, x)))
    return [result, *(write.cast(one, kind) for one in (mean, write.apply("reciprocal", deviation)))]


def rms_normalization(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Over the last axes, taken as one, by the root of their mean square; in the type that the file names, or wider."""
    x = node.input(0)
    (axis,) = rules.axes_of(int(node.attribute("axis", -1)), len(x.shape))
    kind = node.dtype(node.attribute("stash_type", 1))
    return rms_norm(write, x, node.input(1), axis, float(node.attribute("epsilon", 1e-5)), kind)


def rms_norm(
    write: Writer, x: Tensor, scale: Tensor, axis: int, epsilon: float, kind: np.dtype[Any]
) -> list[Tensor]:
    """Return rows of the axes from one on by the root of the mean of their squares, times a scale; 1 / that root."""
    wide = write.cast(x, kind) if kind.itemsize > x.dtype.itemsize else x
    axes = tuple(range(axis, len(x.shape)))
    square = write.apply("mean", write.apply("mul", wide, wide), axes=axes, keepdims=True)
    root = write.apply("sqrt", write.apply("add", square, write.like(epsilon, wide)))
    made = write.cast(write.apply("div", wide, root), scale.dtype)
    return [write.apply("mul", made, scale), write.cast(write.apply("reciprocal", root), kind)]


def cast(write: Writer, node: OnnxNode) -> list[Tensor]:
    """To a type that a graph computes with."""
    to = node.attribute("to")
    if not isinstance(to, int):
        raise Unsupported("no type is named")
    dtype = node.dtype(to)
    return [write.cast(node.input(0), dtype)]


def where(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Choose by a bool."""
    return [write.apply("where", *(node.input(at) for at in range(3)))]


def identity(write: Writer, node: OnnxNode) -> list[Tensor]:
    """The same value."""
    return [node.input(0)]


def dropout(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Nothing is dropped but in training."""
    training = node.optional(2)
    if training is not None and bool(known(training, "training_mode").any()):
        raise Unsupported("it is in training mode")
    x = node.input(0)
    return [x, write.apply("broadcast", write.constant(np.asarray(True)), shape=x.shape)]


def remainder(write: Writer, node: OnnxNode) -> list[Tensor]:
    """With the sign of the divisor, or as C's fmod of the dividend; of shapes only."""
    return [write.fold(np.fmod if node.attribute("fmod", 0) else np.mod, *node.given())]


TABLE: dict[str, Emit] = {
    **{
        name: unary(op)
        for name, op in (
            ("Erf", "erf"), ("Tanh", "tanh"), ("Sigmoid", "sigmoid"), ("Exp", "exp"), ("Sqrt", "sqrt"), ("Log", "log"),
            ("Neg", "neg"), ("Abs", "abs"), ("Reciprocal", "reciprocal"), ("Floor", "floor"), ("Ceil", "ceil"),
        )
    },
    **{name: binary(op) for name, op in (("Add", "add"), ("Sub", "sub"), ("Mul", "mul"), ("Div", "div"))},
    **{name: variadic(op) for name, op in (("Max", "maximum"), ("Min", "minimum"), ("Sum", "add"))},
    **{
        name: reduction(op)
        for name, op in (("ReduceMean", "mean"), ("ReduceSum", "sum"), ("ReduceMax", "max"))
    },
    **{
        name: folded(function)
        for name, function in (
            ("Equal", np.equal), ("Less", np.less), ("Greater", np.greater), ("LessOrEqual", np.less_equal),
            ("GreaterOrEqual", np.greater_equal), ("Not", np.logical_not), ("And", np.logical_and),
            ("Or", np.logical_or),
        )
    },
    "ReduceMin": least, "Relu": relu, "LeakyRelu": leaky_relu, "Clip": clip, "Pow": power, "Gelu": gelu,
    "MatMul": matmul, "Gemm": gemm, "Softmax": softmax, "LayerNormalization": layer_normalization,
    "RMSNormalization": rms_normalization, "Cast": cast, "Where": where, "Identity": identity, "Dropout": dropout,
    "Mod": remainder,
}  # fmt: skip
