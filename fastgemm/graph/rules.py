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


def as_read(data: Array) -> Array:
    """Return an array as kernels read it: NumPy's own, aligned, in this machine's order of bytes; itself where it is.

    Examples
    --------
    >>> import numpy as np
    >>> from fastgemm.graph.rules import as_read
    >>> as_read(np.frombuffer(bytes(9), "f4", offset=1)).flags.aligned, as_read(np.ones(2, ">f4")).dtype
    (True, dtype('float32'))
    """
    return np.require(data, data.dtype.newbyteorder("=") if not data.dtype.isnative else None, ["A", "E"])


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether a type is a floating-point one, bfloat16 included."""
    return bool(dtype.kind == "f" or dtype == numpy_types.bfloat16())


def number_of(number: float, dtype: np.dtype[Any]) -> Array:
    """Return a Python number in a type.

    Raises
    ------
    TypeError, ValueError, OverflowError
        If the type is one of whole numbers and does not hold it.

    Examples
    --------
    >>> import numpy as np
    >>> from fastgemm.graph.rules import number_of
    >>> number_of(0.5, np.dtype("f4")), number_of(2.0, np.dtype("i4"))
    (array(0.5, dtype=float32), array(2, dtype=int32))
    """
    if not is_float(dtype) and int(number) != number:
        raise TypeError(f"{number} is no {dtype}")
    return np.asarray(number, dtype)


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


def perm_of(given: Any, ndim: int) -> tuple[int, ...]:
    """Return the order of axes that a transpose makes, counted from the front; reversed where none is given.

    Raises
    ------
    ValueError
        If it does not name each axis once.
    """
    perm = tuple(reversed(range(ndim))) if given is None else axes_of(given, ndim)
    if len(perm) != ndim:
        raise ValueError(f"perm {given} does not name all of {ndim} axes")
    return perm


def by_columns(shape: tuple[int, ...], of: tuple[int, ...]) -> bool:
    """Whether an array has a number for each column of another, and no rows."""
    return shape[-1:] == of[-1:] and math.prod(shape[:-1]) == 1


# ---- elementwise ----------------------------------------------------------------------------------------------------


def same(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """One operand, kept as it is."""
    return inputs[0]


def floating(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """One operand of floats."""
    if not is_float(inputs[0].dtype):
        raise TypeError(f"is for floats, not {inputs[0].dtype}")
    return inputs[0]


def together(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape that shapes broadcast to; ValueError where they do not."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"shapes {' and '.join(map(str, shapes))} do not broadcast") from None


def one_type(specs: Sequence[Spec]) -> np.dtype[Any]:
    """Return the type that all have; TypeError where they differ."""
    kinds = {spec.dtype for spec in specs}
    if len(kinds) > 1:
        raise TypeError(f"operands are of types {' and '.join(sorted(map(str, kinds)))}: cast one")
    return specs[0].dtype


def broadcast(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Operands of one type, broadcast against each other."""
    return Spec(together([spec.shape for spec in inputs]), one_type(inputs))


def where(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Choose between two operands of one type by a bool."""
    if inputs[0].dtype != np.dtype(bool):
        raise TypeError(f"the condition is {inputs[0].dtype}, not bool")
    return Spec(together([spec.shape for spec in inputs]), one_type(inputs[1:]))


# ---- rows -----------------------------------------------------------------------------------------------------------


def along_axis(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Floats, worked on along one axis."""
    axes_of(attributes["axis"], len(inputs[0].shape))
    return floating(inputs, attributes)


def masked_softmax(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Floats and what is added to them first."""
    made = along_axis(inputs, attributes)
    if len(inputs) > 1 and (one_type(inputs) != made.dtype or together([made.shape, inputs[1].shape]) != made.shape):
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
    return Spec(tuple(shape[axis] for axis in perm_of(attributes["perm"], len(shape))), inputs[0].dtype)


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
    if together([inputs[0].shape, shape]) != shape:
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
    return Spec(made, one_type(inputs))


def gather(inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Entries along an axis, by their numbers."""
    shape = inputs[0].shape
    (axis,) = axes_of(attributes["axis"], len(shape))
    if inputs[1].dtype.kind not in "iu":
        raise TypeError(f"entries are named by whole numbers, not {inputs[1].dtype}")
    return Spec((*shape[:axis], *inputs[1].shape, *shape[axis + 1 :]), inputs[0].dtype)


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
