"""One contraction of two arrays: by the compiled way, which copies nothing, or else with the copies that it needs."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _contraction
from ._outputs import fresh
from .numpy_types import KERNELS

Array = NDArray[Any]
Axes = tuple[int, ...]

# By value: a program may put another function in np.matmul's place.
_numpy_matmul: Any = np.matmul


class Roles(NamedTuple):
    """Which axes do what.

    Attributes
    ----------
    stack : tuple
        Axes that both operands and the result have: their numbers in `a`, in `b` and in the result.
    free_a, free_b : tuple
        Axes of one operand and the result: numbers in the operand and in the result.
    summed : tuple
        Axes of both operands that are summed over: numbers in `a` and in `b`.
    """

    stack: tuple[Axes, Axes, Axes]
    free_a: tuple[Axes, Axes]
    free_b: tuple[Axes, Axes]
    summed: tuple[Axes, Axes]


def flat(free_a: Axes, summed_a: Axes, free_b: Axes, summed_b: Axes) -> Roles:
    """Return the roles of a contraction whose result has the free axes of `a`, then those of `b`.

    Examples
    --------
    >>> flat((0,), (1,), (1,), (0,)).free_b
    ((1,), (1,))
    """
    p, q = len(free_a), len(free_b)
    return Roles(((), (), ()), (free_a, tuple(range(p))), (free_b, tuple(range(p, p + q))), (summed_a, summed_b))


def pair(a: Any, b: Any) -> tuple[Array, Array] | None:
    """Bring two operands to their common dtype; None where they are not plain arrays, or have no kernels."""
    if type(a) is not np.ndarray or type(b) is not np.ndarray or not (a.ndim and b.ndim and a.size and b.size):
        return None
    if a.dtype is b.dtype and a.dtype in KERNELS and a.dtype.isnative:
        return a, b
    try:
        dtype = np.result_type(a.dtype, b.dtype)
    except TypeError:
        return None
    if dtype not in KERNELS:
        return None
    return a.astype(dtype, copy=False), b.astype(dtype, copy=False)


def contract(a: Array, b: Array, out: Array, roles: Roles, name: bytes | None) -> None:
    """Write the contraction of two arrays of one dtype with kernels into a third.

    Parameters
    ----------
    a, b : ndarray
        Not empty.
    out : ndarray
        Of the result's shape, in any layout; it overlaps neither.
    roles : Roles
        What the axes do.
    name : bytes or None
        The function whose floating-point errors NumPy is told of; None: they are dropped.
    """
    if _contraction.contract(a, b, out, *roles, name):
        return
    way = _joined(a.shape, a.strides, b.shape, b.strides, roles)
    # reshape copies where the axes do not join, and only there.
    left = _aligned(a.transpose(way.a).reshape(way.shape_a))
    right = _aligned(b.transpose(way.b).reshape(way.shape_b))
    kept = out.transpose(way.out)
    here = kept.flags.carray
    made = kept.reshape(way.shape) if here else fresh(way.shape, a.dtype)
    if not _contraction.contract(left, right, made, *way.roles, name):
        with np.errstate() if name is not None else np.errstate(all="ignore"):
            _numpy_matmul(left, right, out=made)
    if not here:
        np.copyto(kept, made.reshape(kept.shape))


class _Joined(NamedTuple):
    """How a contraction is a stack of products of matrices: orders of axes, and the shapes that those then have."""

    a: Axes
    shape_a: Axes
    b: Axes
    shape_b: Axes
    out: Axes
    shape: Axes
    roles: Roles


# (What a loop asks for again and again: working it out takes as long as NumPy takes for a small contraction.)
@lru_cache(maxsize=256)
def _joined(shape_a: Axes, strides_a: Axes, shape_b: Axes, strides_b: Axes, roles: Roles) -> _Joined:
    stack, free_a, free_b, summed = roles
    order = _order(shape_a, strides_a, shape_b, strides_b, summed)
    summed_a, summed_b = (tuple([some[i] for i in order]) for some in summed)
    batch = tuple([shape_a[i] for i in stack[0]])
    m, n = prod([shape_a[i] for i in free_a[0]]), prod([shape_b[i] for i in free_b[0]])
    k, d = prod([shape_a[i] for i in summed_a]), len(batch)
    every = tuple(range(d))
    return _Joined(
        (*stack[0], *free_a[0], *summed_a), (*batch, m, k), (*stack[1], *summed_b, *free_b[0]), (*batch, k, n),
        (*stack[2], *free_a[1], *free_b[1]), (*batch, m, n),
        Roles((every, every, every), ((d,), (d,)), ((d + 1,), (d + 1,)), ((d + 1,), (d,))),
    )  # fmt: skip


def _order(shape_a: Axes, strides_a: Axes, shape_b: Axes, strides_b: Axes, summed: tuple[Axes, Axes]) -> list[int]:
    # In which order to sum over several axes: as they lie in the larger operand, whose copy that may spare; if it does
    # not, the longest last, along which it is copied (axes of 50 and a reversed 8: 52 us so far, 18).
    larger = prod(shape_a) >= prod(shape_b)
    strides, lengths, axes = (strides_a, shape_a, summed[0]) if larger else (strides_b, shape_b, summed[1])
    order = sorted(range(len(axes)), key=lambda i: -abs(strides[axes[i]]))
    lie = [axes[i] for i in order]
    if any(strides[i] != strides[j] * lengths[j] for i, j in pairwise(lie)):
        order.sort(key=lambda i: lengths[axes[i]])
    return order


def _aligned(array: Array) -> Array:
    return array if array.flags.aligned else array.copy()
