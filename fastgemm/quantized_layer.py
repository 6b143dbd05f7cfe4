"""qlinear: a layer of quantised numbers whose result is float32, scaled and finished while its sums lie in cache."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _linear, epilogues, layer, numpy_types
from .packed import PackedMatrix, pack
from .quantized import may_wrap, true_sums

Array = NDArray[Any]


def qlinear(
    x: ArrayLike,
    weight: ArrayLike | PackedMatrix,
    scale: ArrayLike,
    bias: ArrayLike | None = None,
    *,
    x_zero_point: ArrayLike | None = None,
    activation: str | tuple[Any, ...] | None = None,
    residual: ArrayLike | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``activation(((x - x_zero_point) @ weight.T) * scale + bias + residual)`` in float32, of bytes.

    Parameters
    ----------
    x : array_like of int8 or uint8
        (..., in).
    weight : array_like of int8 or uint8
        (out, in); or ``fastgemm.pack(weight, trans=True)``, which may bring zero points.  An array is packed for this
        call alone.
    scale : array_like
        What a number of the sums stands for, the product of both scales: one number, or (out,).
    bias : array_like, optional
        (out,), or one number.
    x_zero_point : int, optional
        What `x` stands above.
    activation : str or tuple, optional
        As in `linear`.
    residual : array_like, optional
        Broadcast to the result's shape and added before the activation; of shape (..., 1), a number for each row.
    out : ndarray, optional
        Where the result goes: float32, of the result's shape.  It may overlap the operands.

    Returns
    -------
    ndarray
        (..., out), float32.

    Raises
    ------
    TypeError
        If an operand does not hold bytes, or `out` no float32.
    ValueError
        If shapes do not fit, or `x_zero_point` is no value of the type of `x`.

    Notes
    -----
    The sums are exact, and rounded once to float32 before they are scaled.  Where they may leave int32 (of more than
    33025 products of bytes), they are added up in float64 first, and a packed weight is unpacked for that.  Activations
    are as precise as in `linear`.

    Examples
    --------
    Numbers that are quantised as they come, and weights with a scale for each output:

    >>> import numpy as np, fastgemm
    >>> x, weight = np.float32([[0.5, -1.0, 2.0]]), np.float32([[1, 0, 1], [-2, 1, 0.5]])
    >>> q, w = fastgemm.dynamic_quantize_linear(x), fastgemm.quantize_weights(weight, axis=0)
    >>> packed = fastgemm.pack(w.values, trans=True)
    >>> y = fastgemm.qlinear(q.values, packed, q.scale * w.scale, np.float32([0, 1]), x_zero_point=q.zero_point)
    >>> bool(np.abs(y - (x @ weight.T + [0, 1])).max() < 0.02)
    True
    """
    what = epilogues.activation(activation)
    left = np.asarray(x)
    right = weight if isinstance(weight, PackedMatrix) else np.asarray(weight).T
    if left.dtype not in numpy_types.BYTES or right.dtype not in numpy_types.BYTES:
        raise TypeError(f"qlinear: x and weight must hold int8 or uint8, not {left.dtype} and {right.dtype}")
    if len(right.shape) != 2:
        raise ValueError(f"qlinear: weight must be a matrix, not an array of {len(right.shape)} dimensions")
    added, shortcut = (None if given is None else np.asarray(given, np.float32) for given in (bias, residual))
    shape = layer.shape_of(left.shape, right.shape[::-1], added, shortcut, "qlinear")
    layer.check_out(out, shape, "qlinear")
    factor, columns = np.ascontiguousarray(scale, np.float32), shape[-1]
    if np.shape(scale) not in ((), (1,), (columns,)):
        raise ValueError(f"qlinear: scale of shape {np.shape(scale)} does not fit {columns} outputs")
    zero = None
    if x_zero_point is not None:
        found = numpy_types.zero_points("qlinear: x_zero_point", x_zero_point, left.dtype, one=True)
        zero = found.reshape(1) if found.any() else None
    above = right.zero_point if isinstance(right, PackedMatrix) else None
    panels, tier = None, layer.epilogue_level()
    if tier is not None and 0 not in shape and not may_wrap(left, right, zero, above):
        panels = (right if isinstance(right, PackedMatrix) else pack(right)).panels
    if panels is None or tier is None:
        sums = np.asarray(true_sums(left, right, zero, above), np.float32)
        with np.errstate(all="ignore"):
            made = epilogues.apply(sums * factor, added, shortcut, what)
        return layer.given(made, out, "qlinear")

    def product(a: Array, c: Array, code: int, bias: Any, residual: Any, p: float, q: float) -> None:
        _linear.dequantised_into(tier, a, panels, c, code, bias, residual, p, q, factor, zero)

    rows = np.require(left, requirements=["ALIGNED"]).reshape(math.prod(shape[:-1]), panels.k)
    single = np.dtype(np.float32)
    return layer.fused(product, rows, [factor], columns, added, shortcut, what, shape, single, out, "qlinear")
