"""Rules of shape and type for products and for changes of type: see `rules`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..numpy_types import BYTES
from .rules import Array, Attributes, Spec, axes_of, by_columns, dtype_of, is_float, is_half, one_type, together

# ---- products -------------------------------------------------------------------------------------------------------


def _product(inputs: Sequence[Spec]) -> tuple[int, ...]:
    a, b = inputs[0].shape, inputs[1].shape
    if len(a) < 2 or len(b) < 2:
        raise ValueError(f"multiplies matrices and stacks of them, not shapes {a} and {b}")
    if a[-1] != b[-2]:
        raise ValueError(f"shapes {a} and {b}: {a[-1]} columns meet {b[-2]} rows")
    return (*together([a[:-2], b[:-2]]), a[-2], b[-1])


def matmul(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Operands of one type; the result has it too, or the wider one that ``dtype`` asks for."""
    kind = one_type(inputs[:2])
    asked = attributes.get("dtype")
    result = kind if asked is None else dtype_of(asked)
    if kind in BYTES and asked is None:
        raise TypeError(f"a product of {kind} overflows: matmul_integer sums in int32")
    wider = is_half(kind) and result == np.dtype("f4")
    if result != kind and not wider:
        raise TypeError(f"no product of {kind} is {result}")
    return Spec(_product(inputs), result)


def _bytes(inputs: Sequence[Spec]) -> Spec:
    for spec in inputs:
        if spec.dtype not in BYTES:
            raise TypeError(f"is for int8 and uint8, not {spec.dtype}")
    return Spec(_product(inputs), np.dtype("i4"))


def matmul_integer(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Bytes, and their zero points; int32."""
    for spec, operand, what in zip(inputs[2:], inputs, "ab", strict=False):
        if spec.dtype != operand.dtype or math.prod(spec.shape) != 1:
            raise ValueError(f"the zero point of {what} must be one {operand.dtype}")
    return _bytes(inputs[:2])


def linear(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """A product and what follows it."""
    made = matmul(inputs[:2], attributes)
    terms = attributes["terms"]
    if len(terms) != len(inputs) - 2:
        raise ValueError(f"terms {terms} name {len(terms)} operands after the first two, there are {len(inputs) - 2}")
    if tuple(terms) not in ((), ("bias",), ("residual",), ("bias", "residual")):
        raise ValueError(f"terms may be bias and residual in this order, not {terms}")
    for name, spec in zip(terms, inputs[2:], strict=True):
        if spec.dtype != made.dtype:
            raise TypeError(f"the {name} is {spec.dtype}, the product {made.dtype}")
        fits = spec.shape == made.shape[-1:] if name == "bias" else together([spec.shape, made.shape]) == made.shape
        if not fits:
            raise ValueError(f"{name} of shape {spec.shape} does not fit a product of shape {made.shape}")
    return made


def qlinear(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Bytes, and for each column a scale and a bias."""
    single = np.dtype("f4")
    terms = attributes["terms"]
    shape = _product(inputs)
    if inputs[0].dtype not in BYTES or inputs[1].dtype not in BYTES:
        raise TypeError(f"is for int8 and uint8, not {inputs[0].dtype} and {inputs[1].dtype}")
    if tuple(terms) != ("scale", "bias")[: len(inputs) - 2]:
        raise ValueError(f"terms must be scale, or scale and bias, for {len(inputs) - 2} operands, not {terms}")
    for name, spec in zip(terms, inputs[2:], strict=True):
        if spec != Spec(shape[-1:], single):
            raise ValueError(f"the {name} is {spec.dtype} {spec.shape}, not {single} {shape[-1:]}")
    kind = dtype_of(attributes["dtype"])
    if kind != single and (kind not in BYTES or attributes["y_scale"] is None):
        raise TypeError(f"makes float32, or bytes of a scale, not {kind}")
    return Spec(shape, kind)


def is_row(spec: Spec, made: Spec) -> bool:
    """Whether a term of a result has one number in float32, or one for each column."""
    fits = math.prod(spec.shape) == 1 or by_columns(spec.shape, made.shape)
    return spec.dtype == np.dtype("f4") and len(spec.shape) <= len(made.shape) and fits


def integer_linear(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Bytes and a zero point, maybe a float32; then a scale, its factor and a bias: one number, or one a column."""
    single, terms = np.dtype("f4"), tuple(attributes["terms"])
    if inputs[2].dtype == single and math.prod(inputs[2].shape) == 1:
        made = _bytes(inputs[:2])
    else:
        made = matmul_integer(inputs[:3], attributes)
    if terms not in (("scale",), ("scale", "bias"), ("scale", "factor"), ("scale", "factor", "bias")):
        raise ValueError(f"terms are scale, then maybe factor, then maybe bias, not {terms}")
    if len(terms) != len(inputs) - 3:
        raise ValueError(f"terms {terms} name {len(terms)} operands after the third, there are {len(inputs) - 3}")
    for name, spec in zip(terms, inputs[3:], strict=True):
        if not is_row(spec, made):
            raise ValueError(f"the {name} is {spec.dtype} {spec.shape}, not float32, one number or {made.shape[-1]}")
    if "factor" in terms and math.prod(inputs[3].shape) != 1:
        raise ValueError("a scale with a factor is one number")
    return Spec(made.shape, single)


# ---- types ----------------------------------------------------------------------------------------------------------


def cast(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Another type."""
    return Spec(inputs[0].shape, dtype_of(attributes["dtype"]))


def _channels(inputs: Sequence[Spec], attributes: Attributes) -> None:
    shape = inputs[0].shape
    for spec in inputs[1:]:
        if math.prod(spec.shape) == 1:
            continue
        (axis,) = axes_of(attributes["axis"], len(shape))
        if spec.shape != shape[axis : axis + 1]:
            raise ValueError(f"scales and zero points are one number or ({shape[axis]},), not {spec.shape}")


def quantize(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Floats to bytes, of the zero point's type or ``dtype``; with that the zero point may be a whole float32."""
    if not is_float(inputs[0].dtype) or inputs[1].dtype != inputs[0].dtype:
        raise TypeError(f"takes floats and scales of their type, not {inputs[0].dtype} and {inputs[1].dtype}")
    kind = quantized(inputs, attributes)
    zero = inputs[2].dtype if len(inputs) > 2 and inputs[2].dtype != np.dtype("f4") else kind
    if kind not in BYTES or zero != kind:
        raise TypeError(f"makes int8 or uint8, of the zero point's type, not {kind if zero == kind else zero}")
    _channels(inputs, attributes)
    return Spec(inputs[0].shape, kind)


def quantized(inputs: Sequence[Spec | Array], attributes: Attributes) -> np.dtype[Any]:
    """Return the type of a ``quantize``: what it is asked for, or its zero point's; uint8 without either."""
    asked = attributes["dtype"]
    return dtype_of(asked) if asked is not None else inputs[2].dtype if len(inputs) > 2 else np.dtype("u1")


def dynamic_scale(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Floats to two of them."""
    if not is_float(inputs[0].dtype):
        raise TypeError(f"takes floats, not {inputs[0].dtype}")
    return Spec((2,), inputs[0].dtype)


def dequantize(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Bytes or sums of 32 bits to the floats that they stand for, of the scale's type."""
    kind = inputs[0].dtype
    if kind not in (*BYTES, np.dtype("i4")) or not is_float(inputs[1].dtype):
        raise TypeError(f"takes int8, uint8 or int32 and floats as scales, not {kind} and {inputs[1].dtype}")
    if len(inputs) > 2 and inputs[2].dtype != kind:
        raise TypeError(f"the zero point is {inputs[2].dtype}, the numbers {kind}")
    _channels(inputs, attributes)
    return Spec(inputs[0].shape, inputs[1].dtype)


def are_weights(op: str, inputs: Sequence[Spec]) -> bool:
    """Whether an operation makes floats of matrices of bytes, which a product may take as they are.

    Examples
    --------
    >>> from fastgemm.graph.rules_products import are_weights
    >>> are_weights("dequantize", [Spec((4, 8), np.dtype("i1")), Spec((), np.dtype("f4"))])
    True
    >>> are_weights("dequantize", [Spec((8,), np.dtype("i4")), Spec((), np.dtype("f4"))])    # a bias
    False
    """
    return op == "dequantize" and inputs[0].dtype in BYTES and len(inputs[0].shape) > 1
