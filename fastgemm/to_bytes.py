"""Floats that become bytes: of numbers as they come, by their own range; of weights, by that of each channel."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _to_bytes, kernels, registry, row_operations

Array = NDArray[Any]
_CAST = row_operations.row_op("cast")


class Quantized(NamedTuple):
    """A matrix in bytes: ``values`` stand for ``scale * (values - zero_point)``.

    Attributes
    ----------
    values, scale, zero_point : ndarray
    error : float
        Of `quantize_weights`: the largest difference from what was quantised; 0.0 elsewhere, where nobody asked.
    """

    values: Array
    scale: Array
    zero_point: Array
    error: float = 0.0


def dynamic_quantize_linear(x: ArrayLike) -> Quantized:
    """Quantise an array to uint8 over its own range, 0 included: ONNX's DynamicQuantizeLinear.

    Parameters
    ----------
    x : array_like of float32
        Finite.

    Returns
    -------
    Quantized
        uint8 values, a float32 scale and a uint8 zero point.

    Raises
    ------
    ValueError
        If a number is not finite: there is no range.

    Examples
    --------
    >>> import numpy as np, fastgemm
    >>> q = fastgemm.dynamic_quantize_linear(np.array([0, 2, -3, -2.5, 1.34, 0.5], np.float32))
    >>> q.values, q.scale, q.zero_point
    (array([153, 255,   0,  26, 221, 179], dtype=uint8), np.float32(0.019607844), np.uint8(153))
    """
    array = _finite("x", x)
    found, values = np.empty(2, np.float32), np.empty(array.shape, np.uint8)
    scale_and_zero(array, found)()
    scale, zero = found[0], found[1].astype(np.uint8)
    call = quantise(array, scale, zero, values)
    if call is None or not call():
        values = np.clip(np.rint(array / scale) + found[1], 0, 255).astype(np.uint8)
    return Quantized(values, scale, zero)


def quantize_weights(w: ArrayLike, axis: int = -1) -> Quantized:
    """Quantise weights to int8 with a scale for each channel, symmetric: no zero points.

    Parameters
    ----------
    w : array_like
        Finite floats, within the range of float32.
    axis : int
        The axis of channels: -1 for the columns of a right operand.

    Returns
    -------
    Quantized
        int8 values, one float32 scale a channel, zero points of 0, and the largest error: at most half of the largest
        scale.

    Raises
    ------
    ValueError
        If a weight is not finite in float32.

    Examples
    --------
    >>> import numpy as np, fastgemm
    >>> q = fastgemm.quantize_weights(np.array([[1.0, -20.0], [0.5, 254.0]], np.float32))
    >>> q.values
    array([[127, -10],
           [ 64, 127]], dtype=int8)
    >>> q.scale
    array([0.00787402, 2.        ], dtype=float32)
    >>> round(q.error, 4)
    0.0039
    """
    weights = _finite("weights", w)
    moved = np.moveaxis(weights, axis, -1)
    others = tuple(range(moved.ndim - 1))
    scale = np.asarray(np.abs(moved).max(axis=others, initial=0) / np.float32(127), np.float32)
    scale = np.where(scale > 0, scale, np.float32(1)).astype(np.float32)
    values = np.clip(np.rint(moved / scale), -127, 127).astype(np.int8)
    error = float(np.abs(values * scale - moved).max(initial=0))
    return Quantized(np.moveaxis(values, -1, axis), scale, np.zeros(scale.shape, np.int8), error)


def _finite(name: str, values: ArrayLike) -> Array:
    with np.errstate(over="ignore"):
        array = np.asarray(values, np.float32)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must hold finite numbers, within the range of float32")
    return array


# ---- for arrays that a program brings --------------------------------------------------------------------------------


@cache
def level() -> int | None:
    """Return the level of the tier whose functions make bytes, loaded; None where no tier runs."""
    from . import chain  # (which `import fastgemm` does without)

    tier = kernels.active_isa()
    if tier is not None:
        chain.load(tier)
    return None if tier is None else tier.level


def scale_and_zero(x: Array, out: Array) -> Callable[[], Any]:
    """Return the call that writes the scale and the zero point of bytes from 0 to 255 over the range of `x` and 0.

    Parameters
    ----------
    x : ndarray
        Floats.
    out : ndarray
        (2,), of the type of `x`, which it does not overlap.  The zero point is a whole number.
    """
    now, single = level(), np.dtype(np.float32)
    if now is not None and x.dtype == out.dtype == single and x.size > 0 and _in_order(x) and _in_order(out):
        return partial(_to_bytes.scale_into, now, x, out, by_range)
    return lambda: np.copyto(out, by_range(x))


def by_range(x: Array) -> Array:
    """Return the same by NumPy.  NaN gives NaN and 0."""
    made = np.zeros(2, x.dtype)
    with np.errstate(all="ignore"):
        low = x.min(initial=0)
        made[0] = (x.max(initial=0) - low) / x.dtype.type(255)
        if made[0] == 0:
            made[0] = 1
        zero = np.rint(np.clip(-low / made[0], 0, 255))
    if zero == zero:
        made[1] = zero
    return made


def quantise(
    x: Array, scale: Any, zero: Any, out: Array, otherwise: Callable[[], Any] | None = None
) -> Callable[[], Any] | None:
    """Return the call that writes the bytes nearest to ``x / scale``, ties to even, plus `zero`; NaN is `zero`.

    Parameters
    ----------
    x, out : ndarray
        Of one shape, floats and bytes; they do not overlap.
    scale, zero : number or ndarray
        One of each; of an array what it holds when the call is made.  An array of a zero point holds a byte, or a whole
        float32.
    otherwise : callable, optional
        Called in its place where the scale turns out to be none: not above zero, or not finite.

    Returns
    -------
    callable or None
        It returns whether the bytes have been written.  None: no kernels take such arrays.
    """
    now = level()
    index = None if now is None else _index(now, x.dtype, out.dtype)
    if now is None or index is None or not (_in_order(x) and _in_order(out)):
        return None
    return partial(_to_bytes.bytes_into, now, x, out, index, scale, zero, otherwise)


def _in_order(array: Array) -> bool:
    return array.flags.c_contiguous and array.flags.aligned


@cache
def _index(level: int, x: np.dtype[Any], made: np.dtype[Any]) -> int | None:
    """Return the place of a function in a tier's table; None where it has none for these types."""
    (tier,) = (tier for tier in registry.ISAS if tier.level == level)
    kinds = row_operations.KINDS.get(x.name, ""), row_operations.KINDS.get(made.name, "")
    known = kinds in row_operations.types_of(_CAST, tier) and x.isnative
    return row_operations.row_index(_CAST, *kinds) if known else None
