"""Products whose result is of another type than the operands, or whose operands are of two: no operand is converted."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _matmul, _mixed, numpy_types, registry
from ._outputs import fresh

Array = NDArray[Any]
_nditer: Any = np.nditer     # whose stubs know no operand that it is to make
_REAL_OF = {np.dtype("c8"): np.dtype("f4"), np.dtype("c16"): np.dtype("f8")}


def wider(a: Array, b: Array, out: Any, dtype: Any) -> Array | None:
    """Return the product of two arrays where a row of the registry names both types; None to decline.

    Parameters
    ----------
    a, b : ndarray
        What `fastgemm.matmul` was given.
    out : ndarray or None
    dtype : dtype or None
        What it was asked for; None: what NumPy would choose.
    """
    if out is not None and type(out) is not np.ndarray:
        return None
    if a.dtype.kind == "c" or b.dtype.kind == "c":
        return _with_complex(a, b, out) if dtype is None else None
    try:
        asked = None if dtype is None else np.dtype(dtype)
    except TypeError:
        return None
    if asked is None and out is not None:
        # Integers wrap in their own width, whatever they are written to.
        if a.dtype.kind in "iu":
            return None
        asked = out.dtype
    found = _row(a.dtype, b.dtype, asked)
    if found is None or (out is not None and out.dtype != found[1]):
        return None
    return stacked(a, b, out, *found)


@lru_cache(maxsize=256)
def _row(a: np.dtype[Any], b: np.dtype[Any], asked: np.dtype[Any] | None) -> tuple[str, np.dtype[Any]] | None:
    """Name of the row and type of the result; None where NumPy's loops have that row, or nobody."""
    if asked is None:
        if a != numpy_types.bfloat16():
            return None
        asked = np.dtype(np.float32)
    if not (a.isnative and b.isnative and asked.isnative):
        return None
    row = registry.product_row(a.name, b.name, asked.name)
    return (row.name, asked) if row is not None and (row.result or row.numpy == "bfloat16") else None


def stacked(a: Array, b: Array, out: Array | None, row: str, result: np.dtype[Any]) -> Array | None:
    """Return the product of vectors, matrices or stacks by a row of the registry; None where that takes NumPy."""
    if not (a.ndim and b.ndim and a.size and b.size and a.flags.aligned and b.flags.aligned):
        return None
    left, right = a if a.ndim > 1 else a[None], b if b.ndim > 1 else b[:, None]
    if left.shape[-1] != right.shape[-2]:
        return None
    try:
        lead = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        return None
    shape = (*lead, left.shape[-2], right.shape[-1])
    short = (*lead, *shape[-2 + (a.ndim == 1) : len(shape) - (b.ndim == 1)])
    if out is not None:
        usable = out.shape == short and out.flags.behaved
        if not usable or np.may_share_memory(a, out) or np.may_share_memory(b, out):
            return None
    made = _empty(left, right, short, result) if out is None else out
    full = made
    if a.ndim == 1:
        full = full[..., None, :] if b.ndim > 1 else full[..., None]
    if b.ndim == 1:
        full = full[..., None]
    if not _mixed.products(items(left, right, full), row):
        return None
    return made if made.ndim or out is not None else made[()]


def _empty(left: Array, right: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array for the product of two stacks, whose axes lie as NumPy lays them out: in the operands' order."""
    depth = max(left.ndim, right.ndim) - 2
    if depth < 2:
        return fresh(shape, dtype)
    leading = left[..., 0, 0], right[..., 0, 0], None
    flags = [["readonly"], ["readonly"], ["writeonly", "allocate"]]
    strides = _nditer(leading, [], flags, [None, None, np.dtype(bool)]).operands[2].strides
    order = sorted(range(depth), key=lambda axis: -strides[axis])
    made: Array = fresh((*[shape[axis] for axis in order], *shape[depth:]), dtype)
    return made.transpose(*[order.index(axis) for axis in range(depth)], *range(depth, len(shape)))


def items(left: Array, right: Array, out: Array) -> list[tuple[Array, Array, Array]]:
    """Cut stacks of any depth into what a plan takes: matrices, or stacks of one dimension, as long as there are."""
    lead = out.shape[:-2]
    if len(lead) == 0:
        return [(left, right, out)]
    left = np.broadcast_to(left, (*lead, *left.shape[-2:]))
    right = np.broadcast_to(right, (*lead, *right.shape[-2:]))
    if len(lead) == 1:
        return [(left, right, out)]
    groups = _joined(lead, [x.strides for x in (left, right, out)])
    sizes = [math.prod(lead[axis] for axis in group) for group in groups]
    order = [axis for group in groups for axis in group]
    ones = [axis for axis in range(len(lead)) if axis not in order]
    # (Views: axes that join need no copy.)
    a, b, c = (x.transpose(*ones, *order, -2, -1).reshape(*sizes, *x.shape[-2:]) for x in (left, right, out))
    return [(a[at], b[at], c[at]) for at in np.ndindex(*sizes[:-1])]


def _joined(lead: tuple[int, ...], strides: list[tuple[int, ...]]) -> list[list[int]]:
    """Return a stack's axes, those in one group that lie like one axis in every array; the longest group last."""
    groups: list[list[int]] = []
    for axis in sorted((axis for axis, size in enumerate(lead) if size > 1), key=lambda axis: -abs(strides[-1][axis])):
        if groups and all(by[groups[-1][-1]] == lead[axis] * by[axis] for by in strides):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return sorted(groups, key=lambda group: math.prod(lead[axis] for axis in group))


def _with_complex(a: Array, b: Array, out: Array | None) -> Array | None:
    """Return a real operand times a complex one, or the other way round, as real products of the parts."""
    real, number = (a, b) if b.dtype.kind == "c" else (b, a)
    if number.dtype not in _REAL_OF or _REAL_OF[number.dtype] != real.dtype:
        return None
    if not (number.dtype.isnative and real.dtype.isnative and min(a.ndim, b.ndim) > 1 and a.size and b.size):
        return None
    try:
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        return None
    shape = (*lead, a.shape[-2], b.shape[-1])
    if a.shape[-1] != b.shape[-2]:
        return None
    if out is not None and (
        out.shape != shape or out.dtype != number.dtype or np.may_share_memory(a, out) or np.may_share_memory(b, out)
    ):
        return None
    made = _empty(a, b, shape, number.dtype) if out is None else out
    adjacent = number.strides[-1] == made.strides[-1] == number.itemsize
    if real is a and adjacent and number.flags.aligned and made.flags.behaved:
        # Interleaved parts are twice as many columns.
        _matmul.matmul(a, number.view(real.dtype), out=made.view(real.dtype))
        return made
    if not (a.flags.aligned and b.flags.aligned and made.flags.behaved):
        return None
    parts = [(a, number.real), (a, number.imag)] if real is a else [(number.real, b), (number.imag, b)]
    both = [items(*pair, target) for pair, target in zip(parts, (made.real, made.imag), strict=True)]
    row = registry.dtype(real.dtype.name).name
    return made if _mixed.products([item for part in both for item in part], row) else None


_matmul.set_wider(wider)
