"""What each operation means, in NumPy: the reference interpreter runs these, and everything else is held to them.

Halves (float16, bfloat16) are computed in float32 and rounded once at the end of an operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import epilogues, to_bytes
from . import rules, rules_products
from .rules import Array, Attributes

Meaning = Callable[[Sequence[Array], Attributes], Any]


def _wide(x: Array) -> Array:
    return x.astype(np.float32) if rules.is_half(x.dtype) else x


def _as(made: Any, like: Array) -> Array:
    return np.asarray(made).astype(like.dtype, copy=False)


# ---- elementwise ----------------------------------------------------------------------------------------------------

_UNARY: dict[str, Callable[..., Any]] = {
    "neg": np.negative,
    "abs": np.absolute,
    "sqrt": np.sqrt,
    "log": np.log,
    "reciprocal": lambda x: 1 / x,
    "identity": np.array,
    "floor": np.floor,
    "ceil": np.ceil,
}
_BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "pow": np.power,
}
_REDUCTION: dict[str, Callable[..., Any]] = {"sum": np.sum, "mean": np.mean, "max": np.max}


def unary(name: str) -> Meaning:
    """Return the meaning of an operation on each number."""
    return lambda x, _: _as(_UNARY[name](_wide(x[0])), x[0])


def binary(name: str) -> Meaning:
    """Return the meaning of an operation on pairs of numbers."""
    if name == "div":
        return divide
    return lambda x, _: _as(_BINARY[name](_wide(x[0]), _wide(x[1])), x[0])


def divide(x: Sequence[Array], attributes: Attributes) -> Array:
    """Integers as ONNX and C do: towards zero."""
    if rules.is_float(x[0].dtype):
        return _as(_wide(x[0]) / _wide(x[1]), x[0])
    found = np.floor_divide(x[0], x[1])
    exact = found * x[1] == x[0]
    return _as(found + ((x[0] < 0) != (x[1] < 0)) * ~exact * (x[1] != 0), x[0])


def activation(name: str) -> Meaning:
    """Return the meaning of a row of `activations.EPILOGUES`."""
    return lambda x, a: _as(epilogues.meaning(name)(_wide(x[0]), a.get("p", 0.0), a.get("q", 0.0)), x[0])


def where(x: Sequence[Array], attributes: Attributes) -> Array:
    """Choose the second operand where the first is true, the third elsewhere."""
    return np.where(x[0], x[1], x[2])


# ---- products -------------------------------------------------------------------------------------------------------


def _result(made: Any, operand: Array, attributes: Attributes) -> Array:
    asked = attributes.get("dtype")
    kind = operand.dtype if asked is None else rules.dtype_of(asked)
    found: Array = np.asarray(made).astype(kind, copy=False)
    return found


def matmul(x: Sequence[Array], attributes: Attributes) -> Array:
    """Multiply; halves by sums of float32, rounded once unless ``dtype`` asks for the sums."""
    return _result(np.matmul(_wide(x[0]), _wide(x[1])), x[0], attributes)


def matmul_integer(x: Sequence[Array], attributes: Attributes) -> Array:
    """Multiply differences from zero points, in int32."""
    left, right = (operand.astype(np.int32) for operand in x[:2])
    if len(x) > 2:
        left -= x[2].astype(np.int32).reshape(())
    if len(x) > 3:
        right -= x[3].astype(np.int32).reshape(())
    product: Array = np.matmul(left, right)
    return product


def linear(x: Sequence[Array], attributes: Attributes) -> Array:
    """Multiply, add, and apply an activation; halves are rounded once, at the end."""
    made = np.matmul(_wide(x[0]), _wide(x[1]))
    for term in x[2:]:
        made = made + _wide(term)
    made = epilogues.meaning(attributes["activation"])(made, attributes["p"], attributes["q"])
    return _result(made, x[0], attributes)


def qlinear(x: Sequence[Array], attributes: Attributes) -> Array:
    """Multiply bytes, scale the sums, add the bias, apply the activation, and quantise."""
    extra = dict(zip(attributes["terms"], x[2:], strict=True))
    left, right = (operand.astype(np.int32) for operand in x[:2])
    total = np.matmul(left - np.int32(attributes["a_zero"]), right - np.int32(attributes["b_zero"]))
    made = total.astype(extra["scale"].dtype) * extra["scale"]
    if "bias" in extra:
        made = made + extra["bias"]
    made = epilogues.meaning(attributes["activation"])(made, attributes["p"], attributes["q"])
    kind = rules.dtype_of(attributes["dtype"])
    if attributes["y_scale"] is None:
        return _as(made, extra["scale"])
    scale, zero = np.asarray(attributes["y_scale"], made.dtype), np.asarray(attributes["y_zero"], kind)
    return quantize([made, scale, zero], {"axis": -1, "dtype": None})


def integer_linear(x: Sequence[Array], attributes: Attributes) -> Array:
    """Multiply differences from zero points, scale the sums, add the bias, and apply the activation."""
    left, right, zero = x[:3]
    zeros = zero.astype(left.dtype), np.asarray(attributes["b_zero"], right.dtype)
    made = matmul_integer([left, right, *zeros], {}).astype(np.float32)
    terms = dict(zip(attributes["terms"], (term.reshape(-1) for term in x[3:]), strict=True))
    made = made * (terms["scale"] * terms["factor"] if "factor" in terms else terms["scale"])
    if "bias" in terms:
        made = made + terms["bias"]
    return _as(epilogues.meaning(attributes["activation"])(made, attributes["p"], attributes["q"]), x[3])


# ---- rows -----------------------------------------------------------------------------------------------------------


def softmax(x: Sequence[Array], attributes: Attributes) -> Array:
    """Exponentials over their sum; the largest is subtracted first.  A row of -inf alone is NaN, as in ONNX."""
    wide, axis = _wide(x[0]), attributes["axis"]
    raised = np.exp(wide - wide.max(axis=axis, keepdims=True, initial=-np.inf))
    return _as(raised / raised.sum(axis=axis, keepdims=True), x[0])


def masked_softmax(x: Sequence[Array], attributes: Attributes) -> Array:
    """Softmax of numbers times a factor, plus a mask."""
    wide = _wide(x[0])
    if attributes["scale"] != 1:
        wide = wide * wide.dtype.type(attributes["scale"])
    return _as(softmax([wide if len(x) == 1 else wide + _wide(x[1])], attributes), x[0])


def layer_norm(x: Sequence[Array], attributes: Attributes) -> Array:
    """Rows with mean 0 and variance 1, times a factor and plus a term for each column."""
    wide = _wide(x[0])
    centred = wide - wide.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    made = centred / np.sqrt(variance + wide.dtype.type(attributes["epsilon"]))
    if len(x) > 1:
        made = made * _wide(x[1])
    if len(x) > 2:
        made = made + _wide(x[2])
    return _as(made, x[0])


def reduction(name: str) -> Meaning:
    """Return the meaning of a sum, mean or maximum over axes."""

    def run(x: Sequence[Array], attributes: Attributes) -> Array:
        axes = rules.axes_of(attributes["axes"], x[0].ndim)
        return _as(_REDUCTION[name](_wide(x[0]), axis=axes, keepdims=attributes["keepdims"]), x[0])

    return run


def dynamic_scale(x: Sequence[Array], attributes: Attributes) -> Array:
    """Return the scale and the zero point, as floats, of bytes from 0 to 255 over the range of all numbers and 0."""
    return _as(to_bytes.by_range(_wide(x[0])), x[0])


# ---- views ----------------------------------------------------------------------------------------------------------


def reshape(x: Sequence[Array], attributes: Attributes) -> Array:
    """Give it another shape; a view where NumPy's strides can say it."""
    return x[0].reshape(attributes["shape"])


def transpose(x: Sequence[Array], attributes: Attributes) -> Array:
    """Reorder the axes; always a view."""
    return x[0].transpose(attributes["perm"])


def slice_(x: Sequence[Array], attributes: Attributes) -> Array:
    """Take a part of each axis; always a view."""
    return x[0][rules.slices(x[0].shape, attributes)]


def broadcast_to(x: Sequence[Array], attributes: Attributes) -> Array:
    """Repeat; always a view."""
    return np.broadcast_to(x[0], attributes["shape"])


def copy(x: Sequence[Array], attributes: Attributes) -> Array:
    """Lay the numbers out in C order."""
    return np.array(x[0], order="C")


def concat(x: Sequence[Array], attributes: Attributes) -> Array:
    """Lay operands side by side along an axis."""
    return np.concatenate(x, axis=attributes["axis"])


def gather(x: Sequence[Array], attributes: Attributes) -> Array:
    """Take entries along an axis; negative numbers count from its end, others beyond it are an IndexError."""
    return np.take(x[0], x[1], axis=attributes["axis"])


# ---- types ----------------------------------------------------------------------------------------------------------


def cast(x: Sequence[Array], attributes: Attributes) -> Array:
    """Convert as NumPy does."""
    return x[0].astype(rules.dtype_of(attributes["dtype"]))


def _channel(values: Array, x: Array, axis: int) -> Array:
    if values.size == 1:
        return values.reshape(())
    shape = [1] * x.ndim
    shape[axis] = values.size
    return values.reshape(shape)


def quantize(x: Sequence[Array], attributes: Attributes) -> Array:
    """Divide by the scale, round to even, add the zero point, and hold to the range of the type: QuantizeLinear."""
    kind = rules_products.quantized(x, attributes)
    ends = np.iinfo(kind)
    scaled = np.rint(_wide(x[0]) / _channel(_wide(x[1]), x[0], attributes["axis"]))
    zero = None if len(x) < 3 else _channel(x[2].astype(kind, copy=False), x[0], attributes["axis"])
    if zero is not None:
        scaled = scaled + zero.astype(np.float32)
    # NaN has no place among bytes: it is taken for zero, before the zero point where there is one.
    scaled = np.where(np.isnan(scaled), 0 if zero is None else zero, scaled)
    return np.clip(scaled, ends.min, ends.max).astype(kind)


def dequantize(x: Sequence[Array], attributes: Attributes) -> Array:
    """Return ``scale * (number - zero_point)``: DequantizeLinear."""
    numbers = x[0].astype(np.int32)
    if len(x) > 2:
        numbers = numbers - _channel(x[2].astype(np.int32), x[0], attributes["axis"])
    scale = _channel(_wide(x[1]), x[0], attributes["axis"])
    return _as(numbers.astype(scale.dtype) * scale, x[1])


# ---- graphs ---------------------------------------------------------------------------------------------------------


def chain(x: Sequence[Array], attributes: Attributes) -> Array:
    """Compute what the graph ``body`` does."""
    from .reference import evaluate  # which reads the table that this is part of

    (made,) = evaluate(attributes["body"], x)
    return made
