"""Products of quantised matrices: integers that stand for ``scale * (number - zero_point)``."""

from __future__ import annotations

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
        int32, exact modulo 2**32, which is exact below 33000 products of any bytes.

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
    the zero point's type.  Tiles are scaled and rounded while they lie in the first cache.

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
    return _product(
        left, right, _zero("a", a_zero_point, left, -2), _zero("b", b_zero_point, right, -1),
        _Scales(np.asarray(a_scale), np.asarray(b_scale), np.asarray(y_scale), zero),
    )


class _Scales(NamedTuple):
    a: Array
    b: Array
    y: Array
    zero: Array


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
    """Bring a zero point to int32 and to a shape that broadcasts against the operand: along its rows or columns."""
    name = f"{name}_zero_point"
    zero = _along(name, numpy_types.zero_points(name, value, operand.dtype), operand, axis)
    return zero if zero.any() else None


def _along(name: str, value: Array, operand: Array | PackedMatrix, axis: int) -> Array:
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


def _product(
    a: Array, b: Array | PackedMatrix, a_zero: Array | None, b_zero: Array | None, scales: _Scales | None = None
) -> Any:
    left = a if a.ndim > 1 else a[None]
    right = b if isinstance(b, PackedMatrix) or b.ndim > 1 else b[:, None]
    if left.shape[-1] != right.shape[-2]:
        raise ValueError(f"the inner sizes differ: a has {left.shape[-1]} columns, b {right.shape[-2]} rows")
    lead: tuple[int, ...] = left.shape[:-2]
    if lead != right.shape[:-2]:
        lead = np.broadcast_shapes(lead, right.shape[:-2])
    shape = (*lead, left.shape[-2], right.shape[-1])
    sums = scales is None or not _fuses(scales, shape)
    out = fresh(shape, np.int32 if sums or scales is None else scales.zero.dtype)
    terms = None if sums or scales is None else _terms(scales, left, right)
    if out.size:
        many = any(zero is not None and zero.ndim > 1 for zero in (a_zero, b_zero))
        if isinstance(right, PackedMatrix) and (right.panels is None or many):
            right = right.toarray()
        if isinstance(right, PackedMatrix):
            assert right.panels is not None
            _run_packed(left, right.panels, out, a_zero, terms)
        elif many:
            # Zero points of every matrix of the stack.
            every = [(left, a_zero), (right, b_zero)]
            for at in np.ndindex(*lead):
                one = [_of_item(x, zero, lead, at) for x, zero in every]
                _run(one[0][0], one[1][0], out[at], one[0][1], one[1][1], terms)
        else:
            for x, y, z in items(left, right, out):
                _run(x, y, z, a_zero, b_zero, terms)
    result = out if scales is None or not sums else _requantised(out, scales, left, right)
    result = result.reshape((*lead, *shape[-2 + (a.ndim == 1) : len(shape) - (len(b.shape) == 1)]))
    return result if result.ndim else result[()]


def _of_item(x: Array, zero: Array | None, lead: tuple[int, ...], at: tuple[int, ...]) -> tuple[Array, Array | None]:
    matrix = np.broadcast_to(x, (*lead, *x.shape[-2:]))[at]
    if zero is None or zero.ndim == 1:
        return matrix, zero
    return matrix, np.ascontiguousarray(np.broadcast_to(zero, (*lead, *zero.shape[-2:]))[at].reshape(-1))


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
    first, second, scale, zero, both, low, high = terms
    factor = first.reshape(-1, 1) * second / (scale if both else np.float32(1))
    out[...] = (np.rint(total * factor.astype("f8")) + zero).clip(low, high).astype(out.dtype)


def _run_packed(
    a: Array, panels: _packed.Panels, out: Array, a_zero: Array | None, terms: tuple[Any, ...] | None
) -> None:
    row = _SUMS if terms is None else _QUANTISED
    # Numbers for each row of a stack's matrices, again for each matrix: the stack is one product of more rows.
    stack = a.size // (a.shape[-1] * a.shape[-2])
    zero = _contiguous(a_zero)
    if zero is not None and zero.size > 1:
        zero = np.tile(zero, stack)
    if terms is not None and terms[0].size > 1:
        terms = (np.tile(terms[0], stack), *terms[1:])
    made = np.require(a, requirements=["ALIGNED"]).reshape(-1, panels.k)
    _packed.product_into(panels, made, out.reshape(-1, panels.n), row, zero, terms)


def _contiguous(zero: Array | None) -> Array | None:
    return None if zero is None else np.ascontiguousarray(zero)


def _fuses(scales: _Scales, shape: tuple[int, ...]) -> bool:
    """Whether the kernels can quantise: scales of one matrix, one zero point, float32 arithmetic where both vary."""
    single = scales.y.size == 1 and scales.zero.size == 1
    wide = all(x.size in (1, n) for x, n in ((scales.a, shape[-2]), (scales.b, shape[-1])))
    both = scales.a.size > 1 and scales.b.size > 1
    known = all(x.dtype == np.float32 for x in scales[:3])
    return single and wide and (known if both else all(x.dtype.kind == "f" for x in scales[:3]))


def _terms(scales: _Scales, left: Array, right: Array | PackedMatrix) -> tuple[Any, ...]:
    limits = np.iinfo(scales.zero.dtype)
    zero = scales.zero.reshape(1).astype(np.float32)
    one = np.ones(1, np.float32)
    first, second = _along("a_scale", scales.a, left, -2), _along("b_scale", scales.b, right, -1)
    scale, both = scales.y.reshape(1), first.size > 1 and second.size > 1
    if not both:
        # As ONNX's reference computes it, in the scales' own type.
        factor = (first * second / scale).astype(np.float32)
        first, second = (factor, one) if first.size > 1 else (one, factor)
        scale = one
    first, second, scale = (np.ascontiguousarray(x) for x in (first, second, scale))
    return first, second, scale, zero, both, float(limits.min), float(limits.max)


def _requantised(total: Array, scales: _Scales, left: Array, right: Array | PackedMatrix) -> Array:
    def rows(name: str, value: Array) -> Array:
        found = _along(name, value, left, -2)
        return found.reshape(-1, 1) if found.ndim == 1 else found

    factor = rows("a_scale", scales.a) * _along("b_scale", scales.b, right, -1) / rows("y_scale", scales.y)
    limits = np.iinfo(scales.zero.dtype)
    found = np.rint(total * factor.astype("f8")) + rows("y_zero_point", scales.zero)
    result: Array = found.clip(limits.min, limits.max).astype(scales.zero.dtype)
    return result
