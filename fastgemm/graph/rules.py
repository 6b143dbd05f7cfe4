"""Rules of shape and type: what an operation gives for operands of given shapes and types, or why it does not."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import numpy_types

Array = NDArray[Any]
Attributes = Mapping[str, Any]
_BYTES = (np.dtype("i1"), np.dtype("u1"))


class Spec(NamedTuple):
    """What is known of a value before it is computed."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def dtype_of(given: Any) -> np.dtype[Any]:
    """Return a dtype; ``"bfloat16"`` too, which is the ml_dtypes package's.

    Raises
    ------
    TypeError
        If it is none that a graph computes with.

    Examples
    --------
    >>> from fastgemm.graph.rules import dtype_of
    >>> dtype_of("f4")
    dtype('float32')
    """
    if isinstance(given, str) and given == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            raise TypeError("bfloat16 needs the package ml_dtypes") from None
        kind: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return kind
    found: np.dtype[Any] = np.dtype(given)
    if found.kind not in "biuf" and found != numpy_types.bfloat16():
        raise TypeError(f"a graph computes with bool, integers and floats, not {found}")
    return found if found.isnative else found.newbyteorder("=")


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether a type is a floating-point one, bfloat16 included."""
    return bool(dtype.kind == "f" or dtype == numpy_types.bfloat16())


def is_half(dtype: np.dtype[Any]) -> bool:
    """Whether a type is computed with in float32 and rounded afterwards."""
    return is_float(dtype) and dtype.itemsize == 2


def _whole(what: str, values: Any) -> tuple[int, ...]:
    try:
        return tuple(operator.index(value) for value in values)
    except TypeError:
        raise TypeError(f"{what} must be whole numbers, not {values!r}") from None


def shape_of(given: Any) -> tuple[int, ...]:
    """Return a shape as a tuple of ints.

    Raises
    ------
    ValueError, TypeError
        If it is none.
    """
    shape = _whole("shape", given)
    if any(size < 0 for size in shape):
        raise ValueError(f"sizes must not be negative: {shape}")
    return shape


def axes_of(given: Any, ndim: int) -> tuple[int, ...]:
    """Return axes counted from the front, each once.

    Raises
    ------
    ValueError
        If one is out of range or named twice.
    """
    axes = _whole("axes", given if isinstance(given, (tuple, list)) else (given,))
    for axis in axes:
        if not -ndim <= axis < ndim:
            raise ValueError(f"there is no axis {axis} of {ndim}")
    found = tuple(axis % ndim for axis in axes)
    if len(set(found)) != len(found):
        raise ValueError(f"axes {axes} name one twice")
    return found


# ---- elementwise ----------------------------------------------------------------------------------------------------


def same(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """One operand, kept as it is."""
    return inputs[0]


def floating(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """One operand of floats."""
    if not is_float(inputs[0].dtype):
        raise TypeError(f"is for floats, not {inputs[0].dtype}")
    return inputs[0]


def _together(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"shapes {' and '.join(map(str, shapes))} do not broadcast") from None


def _one_type(specs: Sequence[Spec]) -> np.dtype[Any]:
    kinds = {spec.dtype for spec in specs}
    if len(kinds) > 1:
        raise TypeError(f"operands are of types {' and '.join(sorted(map(str, kinds)))}: cast one")
    return specs[0].dtype


def broadcast(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Operands of one type, broadcast against each other."""
    return Spec(_together([spec.shape for spec in inputs]), _one_type(inputs))


def where(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Choose between two operands of one type by a bool."""
    if inputs[0].dtype != np.dtype(bool):
        raise TypeError(f"the condition is {inputs[0].dtype}, not bool")
    return Spec(_together([spec.shape for spec in inputs]), _one_type(inputs[1:]))


# ---- products -------------------------------------------------------------------------------------------------------


def _product(inputs: Sequence[Spec]) -> tuple[int, ...]:
    a, b = inputs[0].shape, inputs[1].shape
    if len(a) < 2 or len(b) < 2:
        raise ValueError(f"multiplies matrices and stacks of them, not shapes {a} and {b}")
    if a[-1] != b[-2]:
        raise ValueError(f"shapes {a} and {b}: {a[-1]} columns meet {b[-2]} rows")
    return (*_together([a[:-2], b[:-2]]), a[-2], b[-1])


def matmul(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Operands of one type; the result has it too, or the wider one that ``dtype`` asks for."""
    kind = _one_type(inputs[:2])
    asked = attributes.get("dtype")
    result = kind if asked is None else dtype_of(asked)
    if kind in _BYTES and asked is None:
        raise TypeError(f"a product of {kind} overflows: matmul_integer sums in int32")
    wider = is_half(kind) and result == np.dtype("f4")
    if result != kind and not wider:
        raise TypeError(f"no product of {kind} is {result}")
    return Spec(_product(inputs), result)


def matmul_integer(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Bytes, and their zero points; int32."""
    for spec in inputs:
        if spec.dtype not in _BYTES:
            raise TypeError(f"is for int8 and uint8, not {spec.dtype}")
    for spec, operand, what in zip(inputs[2:], inputs, "ab", strict=False):
        if spec.dtype != operand.dtype or math.prod(spec.shape) != 1:
            raise ValueError(f"the zero point of {what} must be one {operand.dtype}")
    return Spec(_product(inputs), np.dtype("i4"))


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
        fits = spec.shape == made.shape[-1:] if name == "bias" else _together([spec.shape, made.shape]) == made.shape
        if not fits:
            raise ValueError(f"{name} of shape {spec.shape} does not fit a product of shape {made.shape}")
    return made


def qlinear(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Bytes, and for each column a scale and a bias."""
    single = np.dtype("f4")
    terms = attributes["terms"]
    shape = _product(inputs)
    if inputs[0].dtype not in _BYTES or inputs[1].dtype not in _BYTES:
        raise TypeError(f"is for int8 and uint8, not {inputs[0].dtype} and {inputs[1].dtype}")
    if tuple(terms) != ("scale", "bias")[: len(inputs) - 2]:
        raise ValueError(f"terms must be scale, or scale and bias, for {len(inputs) - 2} operands, not {terms}")
    for name, spec in zip(terms, inputs[2:], strict=True):
        if spec != Spec(shape[-1:], single):
            raise ValueError(f"the {name} is {spec.dtype} {spec.shape}, not {single} {shape[-1:]}")
    kind = dtype_of(attributes["dtype"])
    if kind != single and (kind not in _BYTES or attributes["y_scale"] is None):
        raise TypeError(f"makes float32, or bytes of a scale, not {kind}")
    return Spec(shape, kind)


# ---- rows -----------------------------------------------------------------------------------------------------------


def along_axis(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Floats, worked on along one axis."""
    axes_of(attributes["axis"], len(inputs[0].shape))
    return floating(inputs, attributes)


def masked_softmax(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Floats and what is added to them first."""
    made = along_axis(inputs, attributes)
    if len(inputs) > 1 and (_one_type(inputs) != made.dtype or _together([made.shape, inputs[1].shape]) != made.shape):
        raise ValueError(f"a mask of shape {inputs[1].shape} does not fit {made.shape}")
    return made


def layer_norm(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Floats, and for each column a factor and a term."""
    made = floating(inputs, attributes)
    if not made.shape:
        raise ValueError("needs at least one axis")
    for spec, what in zip(inputs[1:], ("scale", "shift"), strict=False):
        if spec.shape != made.shape[-1:] or spec.dtype != made.dtype:
            raise ValueError(f"its {what} is {spec.dtype} {spec.shape}, not {made.dtype} {made.shape[-1:]}")
    return made


def reduction(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Some axes made one number each."""
    shape, dtype = inputs[0]
    axes = axes_of(attributes["axes"], len(shape))
    if attributes["keepdims"]:
        return Spec(tuple(1 if at in axes else size for at, size in enumerate(shape)), dtype)
    return Spec(tuple(size for at, size in enumerate(shape) if at not in axes), dtype)


# ---- views ----------------------------------------------------------------------------------------------------------


def reshape(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """As many numbers; one size may be -1."""
    old = inputs[0].shape
    shape = _whole("shape", attributes["shape"])
    count = math.prod(old)
    if shape.count(-1) == 1:
        rest = math.prod(size for size in shape if size != -1)
        if rest == 0 or count % rest:
            raise ValueError(f"cannot make shape {shape} of {old}")
        shape = tuple(count // rest if size == -1 else size for size in shape)
    if any(size < 0 for size in shape) or math.prod(shape) != count:
        raise ValueError(f"cannot make shape {shape} of {old}")
    return Spec(shape, inputs[0].dtype)


def transpose(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Axes in another order; reversed by default."""
    shape = inputs[0].shape
    perm = attributes["perm"]
    axes = tuple(reversed(range(len(shape)))) if perm is None else axes_of(perm, len(shape))
    if len(axes) != len(shape):
        raise ValueError(f"perm {perm} does not name all of {len(shape)} axes")
    return Spec(tuple(shape[axis] for axis in axes), inputs[0].dtype)


def slices(shape: tuple[int, ...], attributes: Attributes) -> tuple[slice, ...]:
    """Return the slices of a `slice` operation, one for each axis, as NumPy takes them."""
    starts, stops = (_whole(name, attributes[name]) for name in ("starts", "stops"))
    steps = _whole("steps", attributes["steps"] or (1,) * len(starts))
    if not len(starts) == len(stops) == len(steps) == len(shape):
        raise ValueError(f"starts, stops and steps must name all of {len(shape)} axes")
    if any(step < 1 for step in steps):
        raise ValueError(f"steps must be at least 1, not {steps}")
    found = [slice(*one).indices(size) for *one, size in zip(starts, stops, steps, shape, strict=True)]
    return tuple(slice(*one) for one in found)


def slice_(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """A part of each axis."""
    parts = slices(inputs[0].shape, attributes)
    return Spec(tuple(len(range(part.start, part.stop, part.step)) for part in parts), inputs[0].dtype)


def broadcast_to(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Axes of length one repeated."""
    shape = _whole("shape", attributes["shape"])
    if _together([inputs[0].shape, shape]) != shape:
        raise ValueError(f"cannot broadcast {inputs[0].shape} to {shape}")
    return Spec(shape, inputs[0].dtype)


def concat(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Operands of one type, side by side along an axis."""
    shapes = [spec.shape for spec in inputs]
    (axis,) = axes_of(attributes["axis"], len(shapes[0]))
    rest = {(len(shape), shape[:axis], shape[axis + 1 :]) for shape in shapes}
    if len(rest) > 1:
        raise ValueError(f"shapes {', '.join(map(str, shapes))} differ in more than axis {axis}")
    made = (*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])
    return Spec(made, _one_type(inputs))


def gather(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Entries along an axis, by their numbers."""
    shape = inputs[0].shape
    (axis,) = axes_of(attributes["axis"], len(shape))
    if inputs[1].dtype.kind not in "iu":
        raise TypeError(f"entries are named by whole numbers, not {inputs[1].dtype}")
    return Spec((*shape[:axis], *inputs[1].shape, *shape[axis + 1 :]), inputs[0].dtype)


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
    """Floats to bytes; the zero point's type, or ``dtype``, is the result's."""
    if not is_float(inputs[0].dtype) or inputs[1].dtype != inputs[0].dtype:
        raise TypeError(f"takes floats and scales of their type, not {inputs[0].dtype} and {inputs[1].dtype}")
    asked = attributes["dtype"]
    kind = inputs[2].dtype if len(inputs) > 2 else np.dtype("u1") if asked is None else dtype_of(asked)
    if kind not in _BYTES or (asked is not None and dtype_of(asked) != kind):
        raise TypeError(f"makes int8 or uint8, of the zero point's type, not {kind if asked is None else asked}")
    _channels(inputs, attributes)
    return Spec(inputs[0].shape, kind)


def dequantize(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Bytes or sums of 32 bits to the floats that they stand for, of the scale's type."""
    kind = inputs[0].dtype
    if kind not in (*_BYTES, np.dtype("i4")) or not is_float(inputs[1].dtype):
        raise TypeError(f"takes int8, uint8 or int32 and floats as scales, not {kind} and {inputs[1].dtype}")
    if len(inputs) > 2 and inputs[2].dtype != kind:
        raise TypeError(f"the zero point is {inputs[2].dtype}, the numbers {kind}")
    _channels(inputs, attributes)
    return Spec(inputs[0].shape, inputs[1].dtype)


def chain(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """What the only output of the graph ``body`` is."""
    body = attributes["body"]
    for name, spec in zip(body.inputs, inputs, strict=True):
        if body.values[name].spec != spec:
            raise ValueError(
                f"operand {name!r} of its body is {body.values[name]}, it is given {spec.dtype} {spec.shape}"
            )
    (output,) = body.outputs
    made: Spec = body.values[output].spec
    return made
