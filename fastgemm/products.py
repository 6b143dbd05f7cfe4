"""dot, inner, tensordot: NumPy's functions around a product, with ours inside.

NumPy computes them by calls of its own to a BLAS, so `install` does not reach them.  Whatever is not plain (subclasses,
objects with overrides, lists, dtypes without kernels, empty arrays, calls that are errors) goes to NumPy unchanged.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _contraction
from ._outputs import fresh
from .contraction import Array, Roles, contract, flat, pair

# By value: a program may put our functions in the place of NumPy's.
_numpy_dot: Any = np.dot
_numpy_inner: Any = np.inner
_numpy_tensordot: Any = np.tensordot
# Results of more dimensions than this are NumPy's to make or refuse.
_MAX_NDIM = 32


def dot(a: ArrayLike, b: ArrayLike, out: Array | None = None) -> Any:
    """Dot product of two arrays: `np.dot`.

    Parameters
    ----------
    a, b : array_like
        Scalars multiply; otherwise the sum runs over the last axis of `a` and the last but one of `b` (its only one
        where `b` is a vector).
    out : ndarray, optional
        C-contiguous, of exactly the result's dtype and shape.

    Returns
    -------
    ndarray or scalar
        As `np.dot`.

    Raises
    ------
    ValueError
        As `np.dot` does.

    Examples
    --------
    >>> import numpy as np, fastgemm
    >>> fastgemm.dot(np.arange(3.0), np.arange(3.0))
    np.float64(5.0)
    >>> fastgemm.dot(np.ones((2, 3, 4)), np.ones((5, 4, 6))).shape
    (2, 3, 5, 6)
    """
    done = _contraction.plain_dot(a, b, out, False, b"dot")
    if done is not None:
        return done
    both = pair(a, b)
    if both is not None:
        done = _product(*both, _roles_of_dot(both[0].ndim, both[1].ndim), out)
        if done is not None:
            return done if done.ndim else done[()]
    return _numpy_dot(a, b, out)


def inner(a: ArrayLike, b: ArrayLike, /) -> Any:
    """Inner product over the last axis of both arrays: `np.inner`.

    Parameters
    ----------
    a, b : array_like
        Scalars multiply.

    Returns
    -------
    ndarray or scalar
        Of shape ``a.shape[:-1] + b.shape[:-1]``.

    Raises
    ------
    ValueError
        As `np.inner` does.

    Examples
    --------
    >>> import numpy as np, fastgemm
    >>> fastgemm.inner(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[1., 3.],
           [2., 4.]])
    """
    done = _contraction.plain_dot(a, b, None, True, b"dot")
    if done is not None:
        return done
    both = pair(a, b)
    if both is not None:
        done = _product(*both, _roles_of_inner(both[0].ndim, both[1].ndim))
        if done is not None:
            return done if done.ndim else done[()]
    return _numpy_inner(a, b)


def tensordot(a: ArrayLike, b: ArrayLike, axes: Any = 2) -> Any:
    """Sum of products over given axes: `np.tensordot`.

    Parameters
    ----------
    a, b : array_like
        Any number of dimensions.
    axes : int or pair of ints or sequences of ints
        The last `axes` axes of `a` with the first of `b`; or the axes of each.

    Returns
    -------
    ndarray
        The remaining axes of `a`, then those of `b`.

    Raises
    ------
    ValueError
        As `np.tensordot` does.

    Examples
    --------
    >>> import numpy as np, fastgemm
    >>> a, b = np.ones((3, 4, 5)), np.ones((4, 3, 2))
    >>> fastgemm.tensordot(a, b, axes=([1, 0], [0, 1])).shape
    (5, 2)
    """
    both = pair(a, b)
    if both is not None:
        if hasattr(type(axes), "__next__"):
            axes = tuple(axes)      # which NumPy may have to read again
        try:
            roles = _roles_of_tensordot(both[0].ndim, both[1].ndim, _whole(axes))
        except TypeError:
            roles = None
        done = None if roles is None else _product(*both, roles)
        if done is not None:
            return done
    return _numpy_tensordot(a, b, axes)


def _whole(axes: Any, depth: int = 2) -> Any:
    """Return numbers of axes as Python's, in tuples; TypeError where NumPy has to judge."""
    if type(axes) is int or isinstance(axes, np.integer):
        return int(axes)
    if depth == 0 or not hasattr(axes, "__len__"):
        raise TypeError
    return tuple([one if type(one) is int else _whole(one, depth - 1) for one in axes])


# ---- what the axes do ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _roles_of_dot(ndim_a: int, ndim_b: int) -> Roles:
    last, summed = ndim_a - 1, max(ndim_b - 2, 0)
    return flat(tuple(range(last)), (last,), tuple([i for i in range(ndim_b) if i != summed]), (summed,))


@lru_cache(maxsize=256)
def _roles_of_inner(ndim_a: int, ndim_b: int) -> Roles:
    return flat(tuple(range(ndim_a - 1)), (ndim_a - 1,), tuple(range(ndim_b - 1)), (ndim_b - 1,))


@lru_cache(maxsize=1024)
def _roles_of_tensordot(ndim_a: int, ndim_b: int, axes: Any) -> Roles | None:
    """None for axes that NumPy has to judge."""
    if type(axes) is int:
        if not 0 <= axes <= min(ndim_a, ndim_b):
            return None
        axes = (tuple(range(ndim_a - axes, ndim_a)), tuple(range(axes)))
    if len(axes) != 2:
        return None
    found = []
    for given, ndim in zip(axes, (ndim_a, ndim_b), strict=True):
        some = (given,) if type(given) is int else given
        if not all(-ndim <= i < ndim for i in some):
            return None
        found.append(tuple([i % ndim for i in some]))
    first, second = found
    if len(first) != len(second) or len(set(first)) < len(first) or len(set(second)) < len(second):
        return None
    free_a, free_b = (tuple([i for i in range(n) if i not in s]) for n, s in ((ndim_a, first), (ndim_b, second)))
    return flat(free_a, first, free_b, second)


def _product(a: Array, b: Array, roles: Roles, out: Any = None) -> Any:
    """Return a contraction in C order; None where it is an error, or the output not as np.dot wants it."""
    here, there = a.shape, b.shape
    for i, j in zip(*roles.summed, strict=True):
        if here[i] != there[j]:
            return None
    shape = (*[here[i] for i in roles.free_a[0]], *[there[i] for i in roles.free_b[0]])
    if len(shape) > _MAX_NDIM:
        return None
    if out is None:
        made: Array = fresh(shape, a.dtype)
        contract(a, b, made, roles, b"dot")
        return made
    if type(out) is not np.ndarray or out.dtype != a.dtype or out.shape != shape or not out.flags.carray:
        return None
    overlaps = np.may_share_memory(out, a) or np.may_share_memory(out, b)
    target = fresh(shape, a.dtype) if overlaps else out
    contract(a, b, target, roles, b"dot")
    if overlaps:
        np.copyto(out, target)
    return out


for _ours, _theirs in ((dot, _numpy_dot), (inner, _numpy_inner)):
    if hasattr(_theirs, "__signature__"):
        _ours.__signature__ = _theirs.__signature__  # type: ignore[attr-defined]
