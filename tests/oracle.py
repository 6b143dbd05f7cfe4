"""NumPy as the oracle: what a call answers, in a form that can be compared."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import fastgemm

MatMul = Callable[..., Any]
FLOATS = ("f4", "f8", "c8", "c16")


class Outcome(NamedTuple):
    """The whole answer of a call: its result or its exception, and its warnings."""

    result: Any
    error: tuple[type, str] | None
    warned: list[tuple[type, str]]


def outcome(call: Callable[[MatMul], Any], matmul: MatMul) -> Outcome:
    """Make a call with one of the two functions and keep everything that it said."""
    result = error = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call(matmul)
        except Exception as exc:  # every exception is an answer
            error = (type(exc), str(exc))
    return Outcome(result, error, [(w.category, str(w.message)) for w in caught])


def same(call: Callable[[MatMul], Any]) -> Any:
    """Assert that fastgemm answers a call as NumPy does, and return its result.

    ``call`` takes the matmul to use and builds its operands itself, so that each
    side gets fresh ones.  It may return several results in a tuple.
    """
    want = outcome(call, np.matmul)
    got = outcome(call, fastgemm.matmul)
    assert got.error == want.error
    assert got.warned == want.warned
    assert_identical(got.result, want.result)
    return got.result


def assert_identical(got: Any, want: Any) -> None:
    """Assert the same type, dtype, shape, memory layout and values."""
    assert type(got) is type(want)
    if isinstance(want, tuple):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            assert_identical(g, w)
        return
    if not isinstance(want, (np.ndarray, np.generic)):
        assert got == want or (got != got and want != want)
        return
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if isinstance(want, np.ndarray):
        for flag in ("C_CONTIGUOUS", "F_CONTIGUOUS", "WRITEABLE", "ALIGNED"):
            assert got.flags[flag] == want.flags[flag], flag
        # The stride of an axis of length one means nothing.
        assert layout(got) == layout(want)
    if isinstance(want, np.ma.MaskedArray):
        assert np.array_equal(np.ma.getmaskarray(got), np.ma.getmaskarray(want))
        got, want = got.filled(0), want.filled(0)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def layout(a: np.ndarray) -> list[int]:
    """Strides of the axes that have any length."""
    return [s for s, n in zip(a.strides, a.shape, strict=True) if n > 1] if a.size else []


def dtype_of(name: Any) -> np.dtype:
    """A dtype by its name, ml_dtypes' bfloat16 included: NumPy does not know that one by name."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def laid(array: np.ndarray, letter: str) -> np.ndarray:
    """Return the same numbers as a layout letter of a Problem has them: in rows, in columns, or with gaps."""
    if letter == "t":
        return np.asfortranarray(array)
    if letter == "g":
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    return array


def integers(shape: tuple[int, ...], dtype: Any, seed: int = 0, high: int = 4) -> np.ndarray:
    """Small random integers in any numeric dtype: every order of summation gives the same bits."""
    rng = np.random.default_rng(seed)
    dt = dtype_of(dtype)
    low = 0 if dt.kind in "bu" else -high
    a = rng.integers(low, high + 1, shape)
    if dt.kind == "c":
        a = a + 1j * rng.integers(-high, high + 1, shape)
    return np.asarray(a).astype(dt)


def normal(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Random floats of size one in a real or complex dtype."""
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        a = a + 1j * rng.standard_normal(shape)
    return np.asarray(a).astype(dtype)


def assert_close(got: np.ndarray, a: np.ndarray, b: np.ndarray, want: np.ndarray) -> None:
    """Assert that two products differ by no more than rounding allows in any order of summation.

    Each may be off by K * eps * |a| @ |b|, with a factor of 2 * sqrt(2) for complex products.
    """
    k = a.shape[-1]
    eps = np.finfo(want.dtype).eps
    factor = 2.0 if want.dtype.kind == "f" else 6.0
    bound = factor * (k + 2) * eps * np.matmul(np.abs(a).astype("f8"), np.abs(b).astype("f8"))
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    error = np.abs(got.astype("c16") - want.astype("c16"))
    assert np.all(error <= bound), f"largest error {np.max(error - bound)} above the bound"
