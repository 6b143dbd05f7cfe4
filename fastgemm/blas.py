"""gemm: the BLAS operation, alpha * op(a) @ op(b) + beta * c."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _gemm, _matmul, numpy_types, registry
from ._outputs import fresh


def gemm(
    a: ArrayLike,
    b: ArrayLike,
    c: ArrayLike | None = None,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    trans_a: bool | str = False,
    trans_b: bool | str = False,
    conj_a: bool = False,
    conj_b: bool = False,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Return ``alpha * op(a) @ op(b) + beta * c``, as BLAS defines it.

    Parameters
    ----------
    a, b : array_like
        Matrices: op(a) is (m, k), op(b) is (k, n).  Any strides, no copies.
    c : array_like, optional
        (m, n), added with weight `beta`.  It is not changed unless it is also `out`.
    alpha, beta : scalar
        They do not take part in choosing the dtype: float32 operands give a float32 result whatever the type of
        alpha.  Beside integers they are whole, and wrap as products of those do.  ``beta == 0`` does not read `c`,
        ``alpha == 0`` reads neither `a` nor `b`, so that NaN in them does not show.
    trans_a, trans_b : bool or str
        op is the transpose; in BLAS's letters "N", "T", or "C" for the conjugate transpose.
    conj_a, conj_b : bool
        op conjugates as well.  Signs change where a finished tile is put together: no operand is copied.
    out : ndarray, optional
        (m, n), of the result's dtype.  It may be `c` itself, and may overlap any operand.

    Returns
    -------
    ndarray
        (m, n); `out` where given.

    Raises
    ------
    ValueError
        If an operand is not a matrix, the shapes do not fit, or `out` is read-only.
    TypeError
        If alpha or beta is complex and the operands are not, no whole number where those are integers, or `out` has
        another dtype.

    Examples
    --------
    >>> import numpy as np, fastgemm
    >>> a = np.arange(6.0).reshape(2, 3)
    >>> fastgemm.gemm(a, a, np.eye(2), alpha=2.0, beta=1.0, trans_b=True)
    array([[ 11.,  28.],
           [ 28., 101.]])
    """
    left, right = np.asarray(a), np.asarray(b)
    for name, array in (("a", left), ("b", right)):
        if array.ndim != 2:
            raise ValueError(f"gemm: {name} must be a matrix, but has {array.ndim} dimensions")
    turned_a, adjoint_a = _letter("trans_a", trans_a)
    turned_b, adjoint_b = _letter("trans_b", trans_b)
    conj = conj_a or adjoint_a, conj_b or adjoint_b
    left = left.T if turned_a else left
    right = right.T if turned_b else right
    if left.shape[1] != right.shape[0]:
        raise ValueError(f"gemm: op(a) is {left.shape[0]} x {left.shape[1]}, op(b) is "
                         f"{right.shape[0]} x {right.shape[1]}: the inner sizes differ")
    shape = (left.shape[0], right.shape[1])
    added = None
    beta = _scalar("beta", beta)
    alpha = _scalar("alpha", alpha)
    dtypes = [left.dtype, right.dtype]
    if c is not None:
        added = np.asarray(c)
        if added.shape != shape:
            raise ValueError(f"gemm: c has shape {added.shape}, the product {shape}")
        dtypes.append(added.dtype)
    elif beta != 0 and out is None:
        raise ValueError("gemm: beta is not 0, but there is no c")
    elif beta != 0:
        raise ValueError("gemm: beta is not 0: pass the array that it scales as c (it may be out itself)")
    dtype = np.result_type(*dtypes)
    if dtype.kind not in "fc" or numpy_types.row_of(dtype) is None:
        return _by_numpy(*_conjugated(left, right, conj), added, alpha, beta, dtype, shape, out)
    _check_scalars(alpha, beta, dtype)
    result = _output(out, shape, dtype)
    # What the kernels write must not be read by them, nor lie at odd addresses; such a result is made beside, and
    # copied.
    separate = [x for x in (left, right) if np.may_share_memory(x, result)]
    if added is not None and added is not result and np.may_share_memory(added, result):
        separate.append(added)
    target = np.empty(shape, dtype) if separate or not result.flags.aligned else result
    if beta != 0 and added is not target:
        assert added is not None
        np.copyto(target, added)
    if 0 in shape:
        return result
    if alpha == 0 or left.shape[1] == 0:
        _scale(target, beta)
    else:
        left, right = _aligned(left, dtype), _aligned(right, dtype)
        if not _gemm.gemm_into(left, right, target, complex(alpha), complex(beta), *conj):
            return _by_numpy(*_conjugated(left, right, conj), added, alpha, beta, dtype, shape, out)
    if target is not result:
        np.copyto(result, target)
    return result


def _letter(name: str, trans: bool | str) -> tuple[bool, bool]:
    """Whether an operand is transposed, and whether it is conjugated."""
    if not isinstance(trans, str):
        return bool(trans), False
    if trans.upper() not in ("N", "T", "C"):
        raise ValueError(f"gemm: {name} must be True, False, 'N', 'T' or 'C', not {trans!r}")
    return trans.upper() != "N", trans.upper() == "C"


def _conjugated(left: NDArray[Any], right: NDArray[Any], conj: tuple[bool, bool]) -> tuple[NDArray[Any], NDArray[Any]]:
    return left.conj() if conj[0] else left, right.conj() if conj[1] else right


def _scalar(name: str, value: Any) -> complex:
    """Return a factor as a number of Python's: a whole one keeps all its digits."""
    if isinstance(value, int):
        return int(value)
    array = np.asarray(value)
    kind = "f" if array.dtype == numpy_types.bfloat16() else array.dtype.kind
    if array.ndim != 0 or kind not in "biufc":
        raise TypeError(f"gemm: {name} must be a number, not {type(value).__name__}")
    number = array[()]
    return complex(number) if kind == "c" else float(number) if kind == "f" else int(number)


def _wrapped(name: str, value: complex, dtype: np.dtype[Any]) -> Any:
    """Return a factor of integers as their type holds it."""
    if isinstance(value, complex) or not (isinstance(value, int) or value.is_integer()):
        raise TypeError(f"gemm: {name} must be a whole number where the operands are {dtype}")
    if dtype.kind == "b":
        return dtype.type(value)
    size = dtype.itemsize
    return np.asarray(int(value) % 2 ** (8 * size), f"u{size}").astype(dtype)[()]


def _check_scalars(alpha: complex, beta: complex, dtype: np.dtype[Any]) -> None:
    for name, value in (("alpha", alpha), ("beta", beta)):
        if dtype.kind != "c" and isinstance(value, complex):
            raise TypeError(f"gemm: {name} is complex, but the operands are {dtype}")


def _output(out: NDArray[Any] | None, shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
    if out is None:
        return fresh(shape, dtype)
    if not isinstance(out, np.ndarray):
        raise TypeError(f"gemm: out must be an ndarray, not {type(out).__name__}")
    if out.dtype != dtype:
        raise TypeError(f"gemm: out is {out.dtype}, the result {dtype}")
    if out.shape != shape:
        raise ValueError(f"gemm: out has shape {out.shape}, the result {shape}")
    if not out.flags.writeable:
        raise ValueError("gemm: out is read-only")
    return out


def _aligned(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    # A copy only where the kernels cannot read: another dtype, swapped bytes, odd addresses.
    return np.require(array, dtype, ["ALIGNED"]).view(np.ndarray)


def _arithmetic(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type that a result is computed in: halves are rounded once, at the end."""
    return np.dtype(np.float32) if dtype.name in registry.HALVES else dtype


def _scale(target: NDArray[Any], beta: complex) -> None:
    kind = _arithmetic(target.dtype)
    if beta == 0:
        target[...] = 0
    elif beta != 1:
        np.multiply(target, kind.type(beta), out=target, dtype=kind, casting="unsafe")


def _by_numpy(
    left: NDArray[Any],
    right: NDArray[Any],
    added: NDArray[Any] | None,
    alpha: complex,
    beta: complex,
    dtype: np.dtype[Any],
    shape: tuple[int, int],
    out: NDArray[Any] | None,
) -> NDArray[Any]:
    """Compute the same by a product and NumPy's arithmetic, for dtypes whose kernels have no alpha and beta."""
    _check_scalars(alpha, beta, dtype)
    kind = _arithmetic(dtype)
    if dtype.kind in "biu":
        first, second = _wrapped("alpha", alpha, dtype), _wrapped("beta", beta, dtype)
    else:
        first, second = kind.type(alpha), kind.type(beta)
    result = _output(out, shape, dtype)
    value = np.zeros(shape, kind) if first == 0 else _matmul.matmul(left, right, dtype=kind)
    if first not in (0, 1):
        value = (value * first).astype(kind, copy=False)
    if second != 0:
        assert added is not None
        value = value + (added if second == 1 else (added * second).astype(kind, copy=False))
    np.copyto(result, value, casting="unsafe")
    return result
