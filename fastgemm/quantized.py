"""Products of quantised matrices: integers that stand for ``scale * (number - zero_point)``."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _mixed, _packed, numpy_types, registry
from ._outputs import fresh
from .mixed import items
from .packed import PackedMatrix

Array = NDArray[Any]
# The rows of products whose sums stay, and whose sums are bytes again.
_SUMS, _QUANTISED = registry.dtype("i8_i32"), registry.dtype("i8_q8")
_MOST = int(np.iinfo(np.int32).max)
# How many products of bytes, less zero points, int32 always holds the sum of.
_EXACT = _MOST // 255**2
# Numbers of both operands and the result of a matrix of a stack, which has zero points of its own, up to which they are
# subtracted from sums of the whole stack: a call for each costs more (20 to 50 us).
_FEW = 8192


def matmul_integer(
    a: ArrayLike,
    b: ArrayLike | PackedMatrix,
    a_zero_point: ArrayLike | None = None,
    b_zero_point: ArrayLike | None = None,
) -> Any:
    """Return ``(a - a_zero_point) @ (b - b_zero_point)`` in int32: ONNX's MatMulInteger.

    Parameters
    ----------
    a, b : array_like of int8 or uint8
        (..., m, k) and (..., k, n), or vectors, as in `np.matmul`; of the same type or of both.  `b` may be packed
        (`fastgemm.pack`), with its zero points.
    a_zero_point : array_like, optional
        One number, or one for each row of `a`: (m,) or (..., m, 1).
    b_zero_point : array_like, optional
        One number, or one for each column of `b`: (n,) or (..., 1, n).

    Returns
    -------
    ndarray or scalar
        int32, exact modulo 2**32, which is exact up to 33025 products of any bytes.

    Raises
    ------
    TypeError
        If an operand does not hold bytes.
    ValueError
        If shapes do not fit, or a zero point is no value of its operand's type.

    Examples
    --------
    >>> import numpy as np, fastgemm
    >>> a = np.array([[11, 7, 3], [10, 6, 2]], np.uint8)
    >>> b = np.array([[1, 4], [2, 5], [3, 6]], np.uint8)
    >>> fastgemm.matmul_integer(a, b, 12)
    array([[-38, -83],
           [-44, -98]], dtype=int32)
    """
    left, right = _operand("a", a), _right(b, b_zero_point)
    return _product(left, right, _zero("a", a_zero_point, left, -2), _zero("b", b_zero_point, right, -1))


def qlinear_matmul(
    a: ArrayLike,
    a_scale: ArrayLike,
    a_zero_point: ArrayLike | None,
    b: ArrayLike | PackedMatrix,
    b_scale: ArrayLike,
    b_zero_point: ArrayLike | None,
    y_scale: ArrayLike,
    y_zero_point: ArrayLike,
) -> Any:
    """Return a product of quantised matrices, quantised again: ONNX's QLinearMatMul.

    Each number is ``round(sum * a_scale * b_scale / y_scale) + y_zero_point``, ties to even, within the range of
    the zero point's type, of sums that are exact.  Tiles are scaled and rounded while they lie in the first cache;
    where sums may leave int32 (of more than 33025 products), they are added up in float64 first.

    Parameters
    ----------
    a, b : array_like of int8 or uint8
        As in `matmul_integer`.
    a_scale, b_scale : array_like of float32 or float16
        One number; or one for each row of `a`, for each column of `b`.
    a_zero_point, b_zero_point : array_like, optional
        As in `matmul_integer`.
    y_scale : array_like
        One number, or one for each row.
    y_zero_point : array_like of int8 or uint8
        One number, or one for each row; its type is the result's.

    Returns
    -------
    ndarray or scalar
        Of the type of `y_zero_point`.

    Examples
    --------
    >>> import numpy as np, fastgemm
    >>> a = np.array([[208, 236, 0, 238], [3, 214, 255, 29]], np.uint8)
    >>> b = np.array([[152, 51, 244], [60, 26, 255], [0, 127, 246], [127, 254, 247]], np.uint8)
    >>> fastgemm.qlinear_matmul(a, np.float32(0.0066), np.uint8(113), b, np.float32(0.00705), np.uint8(114),
    ...                         np.float32(0.0107), np.uint8(118))
    array([[168, 115, 255],
           [  1,  66, 151]], dtype=uint8)
    """
    left, right = _operand("a", a), _right(b, b_zero_point)
    zero = np.asarray(y_zero_point)
    if zero.dtype not in numpy_types.BYTES:
        raise TypeError(f"y_zero_point must be int8 or uint8, its type is the result's; not {zero.dtype}")
    scales = _Scales(
        _along("a_scale", np.asarray(a_scale), left, -2), _along("b_scale", np.asarray(b_scale), right, -1),
        _along("y_scale", np.asarray(y_scale), left, -2), _one_if_equal(_along("y_zero_point", zero, left, -2)),
    )  # fmt: skip
    return _product(left, right, _zero("a", a_zero_point, left, -2), _zero("b", b_zero_point, right, -1), scales)


class _Scales(NamedTuple):
    """Of the operands and the result, and the result's zero points: as `_along` returns them."""

    a: Array
    b: Array
    y: Array
    zero: Array

    def of_every_row(self, shape: tuple[int, ...]) -> _Scales:
        a, y, zero = (_of_every_row(x, shape) for x in (self.a, self.y, self.zero))
        return _Scales(a, self.b, y, zero)


def true_sums(a: Array, b: Array | PackedMatrix, a_zero: Array | None, b_zero: Array | None) -> Any:
    """Return what `matmul_integer` does without its modulus: added up in float64 where int32 may not hold it."""
    if not may_wrap(a, b, a_zero, b_zero):
        return _product(a, b, a_zero, b_zero)
    right = b.toarray() if isinstance(b, PackedMatrix) else b
    sums = np.float64(0)
    for at in range(0, a.shape[-1], _EXACT):
        part = slice(at, at + _EXACT)
        sums = sums + _product(a[..., part], right[..., part, :], a_zero, b_zero)
    return sums


def may_wrap(a: Array, b: Array | PackedMatrix, a_zero: Array | None, b_zero: Array | None) -> bool:
    """Whether int32 may not hold the sums of a product of bytes less their zero points, of such types and length."""
    k: int = a.shape[-1]
    return k > _EXACT and k * _furthest(a.dtype, a_zero) * _furthest(b.dtype, b_zero) > _MOST


def _furthest(dtype: np.dtype[Any], zero: Array | None) -> int:
    limits, low, high = np.iinfo(dtype), *((0, 0) if zero is None else (int(zero.min()), int(zero.max())))
    return max(limits.max - low, high - limits.min)


def _operand(name: str, value: ArrayLike) -> Array:
    array = np.asarray(value)
    if array.dtype not in numpy_types.BYTES:
        raise TypeError(f"{name} must hold int8 or uint8, not {array.dtype}")
    if array.ndim == 0:
        raise ValueError(f"{name} must be a vector, a matrix or a stack of them")
    return array


def _right(b: ArrayLike | PackedMatrix, zero_point: ArrayLike | None) -> Array | PackedMatrix:
    if not isinstance(b, PackedMatrix):
        return _operand("b", b)
    if b.dtype not in numpy_types.BYTES:
        raise TypeError(f"b must hold int8 or uint8, not {b.dtype}")
    if zero_point is not None:
        one, other = (0 if x is None else x for x in (b.zero_point, _numbers("b", zero_point, b, -1)))
        if not np.array_equal(np.broadcast_to(one, b.shape[1]), np.broadcast_to(other, b.shape[1])):
            raise ValueError("b is packed with other zero points than b_zero_point")
    return b


def _zero(name: str, value: ArrayLike | None, operand: Array | PackedMatrix, axis: int) -> Array | None:
    """Return zero points along an operand's rows or columns; those that a packed one brings; None: they are zero."""
    if isinstance(operand, PackedMatrix):
        return operand.zero_point
    return None if value is None else _numbers(name, value, operand, axis)


def _numbers(name: str, value: ArrayLike, operand: Array | PackedMatrix, axis: int) -> Array | None:
    """Bring a zero point to int32 and to the shape that `_along` says; None: it is zero."""
    name = f"{name}_zero_point"
    zero = _along(name, numpy_types.zero_points(name, value, operand.dtype), operand, axis)
    return zero if zero.any() else None


def _along(name: str, value: Array, operand: Array | PackedMatrix, axis: int) -> Array:
    """Return numbers of an operand's rows or columns: a vector, of one for all or each; those of a stack as is."""
    matrix = operand.shape if len(operand.shape) > 1 else ((1, *operand.shape) if axis == -2 else (*operand.shape, 1))
    count = matrix[axis]
    if value.size == 1:
        return value.reshape(1)
    if value.ndim == 1 and value.shape[0] == count:
        return value
    wanted = (*matrix[:-2], count, 1) if axis == -2 else (*matrix[:-2], 1, count)
    if value.shape == wanted[-value.ndim :]:
        return value.reshape(count) if value.size == count else value
    raise ValueError(f"{name} has shape {value.shape}: one number, {count}, or {wanted} fit")


def _one_if_equal(numbers: Array) -> Array:
    # ONNX wants a zero point beside each scale of y, and kernels one for all.
    first = numbers.reshape(-1)[:1]
    return first if numbers.size > 1 and (numbers == first).all() else numbers


def _product(
    a: Array, b: Array | PackedMatrix, a_zero: Array | None, b_zero: Array | None, scales: _Scales | None = None
) -> Any:
    left = a if a.ndim > 1 else a[None]
    right = b if isinstance(b, PackedMatrix) or b.ndim > 1 else b[:, None]
    if left.shape[-1] != right.shape[-2]:
        raise ValueError(f"the inner sizes differ: a has {left.shape[-1]} columns, b {right.shape[-2]} rows")
    shape = _shape(left, right)
    packed = isinstance(right, PackedMatrix)
    if left.ndim > 2 and len(right.shape) == 2 and (packed or _own(a_zero, *(scales or ()))):
        # One product of more rows.
        left = left.reshape(math.prod(shape[:-1]), left.shape[-1])
        a_zero = None if a_zero is None else _of_every_row(a_zero, shape)
        scales = None if scales is None else scales.of_every_row(shape)
    made = _sums(left, right, a_zero, b_zero) if scales is None else _quantised(left, right, a_zero, b_zero, scales)
    if a.ndim > 1 and len(b.shape) > 1:
        return made if made.shape == shape else made.reshape(shape)
    made = made.reshape((*shape[:-2], *shape[len(shape) - 2 + (a.ndim == 1) : len(shape) - (len(b.shape) == 1)]))
    return made if made.ndim else made[()]


def _shape(left: Array, right: Array | PackedMatrix) -> tuple[int, ...]:
    lead = left.shape[:-2]
    if lead != right.shape[:-2]:
        lead = np.broadcast_shapes(lead, right.shape[:-2])
    return (*lead, left.shape[-2], right.shape[-1])


def _own(*numbers: Array | None) -> bool:
    """Whether each matrix of a stack has its own."""
    # (A loop takes 0.3 us less than `any` of a generator, of 4 for a small product.)
    for x in numbers:  # noqa: SIM110
        if x is not None and x.ndim > 1:
            return True
    return False


def _of_every_row(numbers: Array, shape: tuple[int, ...]) -> Array:
    """Return numbers of a stack's rows, or of those of each of its matrices, as a vector; one for all stays one."""
    columns = numbers if numbers.ndim > 1 else numbers[:, None]
    return numbers if numbers.size == 1 else np.broadcast_to(columns, (*shape[:-1], 1)).reshape(-1)


def _sums(left: Array, right: Array | PackedMatrix, a_zero: Array | None, b_zero: Array | None) -> Array:
    if _afterwards(left, right, a_zero, b_zero):
        return _less_zero_points(left, right, a_zero, b_zero)
    out = fresh(_shape(left, right), np.int32)
    _write(left, right, out, a_zero, b_zero, None)
    return out


def _afterwards(left: Array, right: Array | PackedMatrix, *zeros: Array | None) -> bool:
    if not _own(*zeros):
        return False
    (m, k), n = left.shape[-2:], right.shape[-1]
    return bool(m * k + k * n + m * n <= _FEW)


def _less_zero_points(left: Array, right: Any, a_zero: Array | None, b_zero: Array | None) -> Array:
    """Return the sums of a stack whose own zero points, times sums of the other operand, are subtracted from them."""
    rows, columns = (zero if _own(zero) else None for zero in (a_zero, b_zero))
    common = a_zero if rows is None else None
    sums = _sums(left, right, common, b_zero if columns is None else None)
    ones = np.ones(left.shape[-1], np.int8)
    if rows is not None:
        sums -= rows * _product(ones, right, None, b_zero)[..., None, :]
    if columns is not None:
        sums -= _product(left, ones, common, None)[..., None] * columns
    return sums


def _quantised(
    left: Array, right: Array | PackedMatrix, a_zero: Array | None, b_zero: Array | None, scales: _Scales
) -> Array:
    zeros = a_zero, b_zero
    if not _fuses(scales) or _afterwards(left, right, *zeros) or may_wrap(left, right, *zeros):
        return _requantised(true_sums(left, right, *zeros), scales)
    out = fresh(_shape(left, right), scales.zero.dtype)
    _write(left, right, out, a_zero, b_zero, _terms(scales))
    return out


def _write(
    left: Array, right: Array | PackedMatrix, out: Array, a_zero: Array | None, b_zero: Array | None,
    terms: tuple[Any, ...] | None,
) -> None:  # fmt: skip
    if out.size == 0:
        return
    if isinstance(right, PackedMatrix):
        if right.panels is not None:
            kind, made = _SUMS if terms is None else _QUANTISED, np.require(left, requirements=["ALIGNED"])
            return _packed.product_into(right.panels, made, out, kind, _contiguous(a_zero), terms)
        right = right.toarray()
    if not _own(a_zero, b_zero):
        for x, y, z in items(left, right, out):
            _run(x, y, z, a_zero, b_zero, terms)
        return
    lead = out.shape[:-2]
    for at in np.ndindex(*lead):
        (x, x_zero), (y, y_zero) = (_of_item(*each, lead, at) for each in ((left, a_zero), (right, b_zero)))
        _run(x, y, out[at], x_zero, y_zero, terms)


def _of_item(x: Array, zero: Array | None, lead: tuple[int, ...], at: tuple[int, ...]) -> tuple[Array, Array | None]:
    matrix = np.broadcast_to(x, (*lead, *x.shape[-2:]))[at]
    if zero is None or zero.ndim == 1:
        return matrix, zero
    return matrix, np.broadcast_to(zero, (*lead, *zero.shape[-2:]))[at].reshape(-1)


def _run(
    a: Array, b: Array, out: Array, a_zero: Array | None, b_zero: Array | None, terms: tuple[Any, ...] | None
) -> None:
    kind = _SUMS if terms is None else _QUANTISED
    if a.shape[-1] and _mixed.product(a, b, out, kind.name, _contiguous(a_zero), _contiguous(b_zero), terms):
        return
    # No kernels for this CPU, or an empty sum.
    left = a.astype(np.int32) - (0 if a_zero is None else a_zero.reshape(-1, 1))
    right = b.astype(np.int32) - (0 if b_zero is None else b_zero)
    total = np.matmul(left, right)
    if terms is None:
        out[...] = total
        return
    first, second, scale, zero, _, low, high = terms
    factor = first.reshape(-1, 1) * second / scale
    out[...] = (np.rint(total * factor.astype("f8")) + zero).clip(low, high).astype(out.dtype)


def _contiguous(zero: Array | None) -> Array | None:
    return None if zero is None else np.ascontiguousarray(zero)


def _fuses(scales: _Scales) -> bool:
    """Whether the kernels can quantise: numbers of one matrix, one zero point, float32 arithmetic where both vary."""
    floats = scales[:3]
    if _own(*floats) or scales.zero.size != 1 or any(x.dtype.kind != "f" for x in floats):
        return False
    if scales.b.size == 1:
        return scales.y.size == 1 or np.result_type(*floats).itemsize <= 4
    return scales.y.size == 1 and (scales.a.size == 1 or all(x.dtype == np.float32 for x in floats))


def _terms(scales: _Scales) -> tuple[Any, ...]:
    limits = np.iinfo(scales.zero.dtype)
    one = np.ones(1, np.float32)
    first, second, scale = scales[:3]
    both = first.size != 1 and second.size != 1
    if not both:
        # As ONNX's reference computes it, in the scales' own type.
        factor = (first * second / scale).astype(np.float32)
        first, second = (factor, one) if second.size == 1 else (one, factor)
        scale = one
    first, second, scale = (np.ascontiguousarray(x) for x in (first, second, scale))
    return first, second, scale, scales.zero.astype(np.float32), both, float(limits.min), float(limits.max)


def _requantised(total: Array, scales: _Scales) -> Array:
    a, y, zero = (x[:, None] if x.ndim == 1 else x for x in (scales.a, scales.y, scales.zero))
    factor = a * scales.b / y
    limits = np.iinfo(zero.dtype)
    found = np.rint(total * factor.astype("f8")) + zero
    result: Array = found.clip(limits.min, limits.max).astype(zero.dtype)
    return result
