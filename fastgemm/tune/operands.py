"""What a measurement computes with, and what its result must be: random operands, the reference, the tolerance."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import numpy_types
from ..problem import Problem

Array = np.ndarray[Any, np.dtype[Any]]


def operands(problem: Problem, seed: int) -> tuple[Array, Array]:
    """Random operands with the strides of the problem's layout letters: floats between -1 and 1, whole numbers small
    enough for a reference in float64.

    Not zeros: untouched pages all map to one page of memory, and times come out better than they are.
    """
    rng = np.random.default_rng(seed)
    a = _matrix(rng, problem, problem.layout[0], problem.m, problem.k)
    b = _matrix(rng, problem, problem.layout[1], problem.k, problem.n)
    return a, b


def output(problem: Problem) -> Array:
    """Return an array for the result."""
    stack = (problem.batch,) if problem.batch > 1 else ()
    return np.empty((*stack, problem.m, problem.n), problem.row.result or _dtype(problem))


def reference(problem: Problem, a: Array, b: Array) -> Array:
    """Return the product in more precision than the result's where NumPy has a BLAS for that, or exact."""
    row = problem.row
    found: Array
    if row.lane == "b8":
        found = np.matmul(a.astype("f4"), b.astype("f4")) > 0.5
    elif row.exact:
        found = np.matmul(a.astype("f8"), b.astype("f8")).astype("i8").astype(row.result or row.numpy)
    else:
        wide = "f8" if row.parts == 1 else "c16"
        found = np.matmul(a.astype(wide, copy=False), b.astype(wide, copy=False))
    return found


def error(problem: Problem, found: Array, wanted: Array) -> float:
    """Return the largest difference; infinite where anything is not a number, or a whole number is wrong."""
    if problem.row.exact:
        return 0.0 if np.array_equal(found, wanted) else np.inf
    if problem.row.stored:
        found = found.astype("f8")
    return float(np.nan_to_num(np.max(np.abs(found - wanted)), nan=np.inf))


def spoil(problem: Problem, out: Array) -> None:
    """Fill an output with what no result is, or hardly any."""
    out.fill(-1 if problem.row.exact and problem.row.lane != "b8" else np.nan)


def tolerance(problem: Problem) -> float:
    """Largest difference from the reference that rounding explains, for operands below 1 in size.

    K * eps bounds the rounding of a sum of K random products in any order: its partial
    sums stay near sqrt(K) / 3, so the expected error is a tenth of that.  A complex component
    is a sum of 2 K products; a reference in the same precision rounds as much itself.  A half is
    rounded once more, in proportion to its size: hardly ever above 2 sqrt(K).
    """
    row = problem.row
    if row.exact:
        return 0.0
    same = 1 if row.real_bytes == 4 else 2
    found = float(np.finfo(f"f{row.real_bytes}").eps) * same * row.parts * problem.k
    if row.narrows:
        found += {"f16": 2.0**-11, "bf16": 2.0**-8}[row.stored] * (1 + 2 * problem.k**0.5)
    return found


def _dtype(problem: Problem) -> np.dtype[Any]:
    found = numpy_types.plain(problem.row)
    if found is None:
        import ml_dtypes

        found = np.dtype(ml_dtypes.bfloat16)
    return found


def _matrix(rng: np.random.Generator, problem: Problem, letter: str, rows: int, columns: int) -> Array:
    if letter == "t" and rows == 1:
        letter = "g"  # a row whose elements are not adjacent
    shape = (problem.batch, columns, rows) if letter == "t" else (problem.batch, rows, columns)
    matrix = _values(rng, problem, shape)
    if letter == "t":
        matrix = matrix.swapaxes(1, 2)
    elif letter == "g":
        spread = np.empty((problem.batch, rows, 2 * columns), matrix.dtype)
        spread[..., ::2] = matrix
        matrix = spread[..., ::2]
    return matrix if problem.batch > 1 else matrix[0]


def _values(rng: np.random.Generator, problem: Problem, shape: tuple[int, ...]) -> Array:
    row, dtype = problem.row, _dtype(problem)
    if row.lane == "b8":
        # As many pairs as leave a sum of K of them undecided.
        return np.asarray(rng.random(shape, dtype="f4") < (1 / problem.k) ** 0.5)
    if row.exact:
        # K products of numbers of so many bits are below 2**53.
        bits = min(8 * dtype.itemsize - 1, (52 - problem.k.bit_length()) // 2)
        found: Array = rng.integers(-(1 << bits), 1 << bits, shape, dtype=dtype)
        return found
    real = np.dtype("f4" if row.stored else f"f{row.real_bytes}")
    values = rng.random((*shape, row.parts), dtype=real)
    values *= 2
    values -= 1
    found = values[..., 0].astype(dtype) if row.stored else values.view(dtype)[..., 0]
    return found
