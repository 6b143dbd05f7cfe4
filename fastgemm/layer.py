"""linear: a product with what a layer does to its result, in one pass over the output.

Calls of plain arrays that need no conversion are answered by `_linear`; this is the way of all others.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from . import _linear, epilogues, kernels, numpy_types, registry
from ._linear import linear
from ._matmul import matmul
from ._outputs import fresh
from .epilogues import Activation, Array
from .packed import PackedMatrix

__all__ = ["check_out", "epilogue_level", "fused", "general", "given", "linear", "load", "shape_of"]

_HALVES = frozenset(row.name for row in registry.DTYPES if row.numpy in registry.HALVES)
# What np.asarray takes apart without asking it how it multiplies.
_PLAIN = (np.ndarray, np.memmap, list, tuple, int, float, complex, bool, type(None))


def general(x: Any, weight: Any, bias: Any, activation: Any, residual: Any, out: Any) -> Array:
    """Return what `linear` does, of anything that it takes."""
    what = epilogues.activation(activation)
    plain = all(type(one) in _PLAIN or isinstance(one, np.generic) for one in (x, weight, bias, residual))
    take = np.asarray if plain else np.asanyarray
    if isinstance(weight, PackedMatrix):
        if plain or all(type(one) in _PLAIN or isinstance(one, np.generic) for one in (x, bias, residual)):
            added, shortcut = _terms(np.asarray, bias, residual)
            return _with_packed(np.asarray(x), weight, added, shortcut, what, out)
        weight = weight.toarray().T
    left, right = take(x), take(weight)
    added, shortcut = _terms(take, bias, residual)
    shape = shape_of(left.shape, right.shape, added, shortcut)
    check_out(out, shape)
    dtype = _dtype(left.dtype, right.dtype, added, shortcut, what)
    rows, inner, columns = math.prod(left.shape[:-1]), right.shape[-1], math.prod(right.shape[:-1])
    tier, half = epilogue_level(), _half(dtype)
    if not plain or half is None or 0 in (rows, inner, columns) or tier is None:
        with np.errstate(all="ignore"):
            made = epilogues.apply((matmul if plain else np.matmul)(left, right.T), added, shortcut, what)
        finished: Array = given(np.asarray(made) if plain else made, out)
        return finished
    b = np.require(right, dtype, ["ALIGNED"]).reshape(columns, inner).T

    def product(a: Array, c: Array, *terms: Any) -> None:
        if _linear.product_into(tier, a, b, c, *terms):
            return
        with np.errstate(all="ignore"):
            if half:
                c[...] = epilogues.apply(np.matmul(a.astype("f4"), b.astype("f4")), terms[1], terms[2], what)
                return
            np.matmul(a, b, out=c)
        _linear.finish_into(tier, c, *terms)

    a = np.require(left, dtype, ["ALIGNED"]).reshape(rows, inner)
    return fused(product, a, [b], columns, added, shortcut, what, shape, dtype, out)


def _terms(take: Callable[[Any], Any], *given: Any) -> list[Any]:
    # Python's numbers keep their weak type.
    weak = (int, float, complex, type(None))
    return [one if isinstance(one, weak) else take(one) for one in given]


def _with_packed(
    left: Array, weight: PackedMatrix, bias: Any, residual: Any, what: Activation, out: Array | None
) -> Array:
    shape = shape_of(left.shape, weight.shape[::-1], bias, residual)
    check_out(out, shape)
    dtype = _dtype(left.dtype, weight.dtype, bias, residual, what)
    panels, tier = weight.panels, epilogue_level()
    rows = math.prod(left.shape[:-1])
    if panels is None or tier is None or dtype != weight.dtype or _half(dtype) is None or rows == 0:
        with np.errstate(all="ignore"):
            made = epilogues.apply(weight.product(left), bias, residual, what)
        finished: Array = given(np.asarray(made), out)
        return finished

    def product(a: Array, c: Array, *terms: Any) -> None:
        _linear.packed_into(tier, a, panels, c, *terms)

    a = np.require(left, dtype, ["ALIGNED"]).reshape(rows, panels.k)
    return fused(product, a, [], panels.n, bias, residual, what, shape, dtype, out)


def fused(
    product: Callable[..., None], a: Array, reads: list[Array], columns: int, added: Any, shortcut: Any,
    what: Activation, shape: tuple[int, ...], dtype: np.dtype[Any], out: Array | None,
) -> Array:  # fmt: skip
    """Bring what follows a product to its dtype, and give it an output that overlaps nothing that it reads.

    `product` takes the rows `a`, an output and what `fastgemm._linear.product_into` takes after it.
    """
    if out is not None and out.dtype != dtype:
        raise TypeError(f"linear: out is {out.dtype}, the result {dtype}")
    kind = np.dtype(np.float32) if _half(dtype) else dtype
    bias_row = None if added is None else np.require(added, kind, ["C", "ALIGNED"]).reshape(-1)
    beside = None
    if shortcut is not None:
        # One number for each row stays that.
        column = np.shape(shortcut)[-1:] == (1,) and shape[-1:] == (columns,)
        full = (*shape[:-1], 1) if column else shape
        beside = np.require(np.broadcast_to(shortcut, full), kind, ["C", "ALIGNED"]).reshape(a.shape[0], -1)
    reads = [*reads, *[array for array in (a, bias_row, beside) if array is not None]]
    target = out
    if out is None or not out.flags.carray or any(np.may_share_memory(out, array) for array in reads):
        target = fresh(shape, dtype)
    assert target is not None
    product(a, target.reshape(a.shape[0], columns), what.row.code, bias_row, beside, what.p, what.q)
    finished: Array = target if target is out else given(target, out)
    return finished


@cache
def epilogue_level() -> int | None:
    """Return the level of the tier whose epilogues calls use, loaded; None where no tier runs."""
    tier = kernels.active_isa()
    if tier is not None:
        load(tier)
    return None if tier is None else tier.level


def _half(dtype: np.dtype[Any]) -> bool | None:
    # Whether a product of a type is finished while it is float32; None where nothing can follow it.
    row = numpy_types.row_of(dtype)
    if row is None or row.name not in (*registry.FINISHED, *_HALVES):
        return None
    return row.name in _HALVES


def load(tier: registry.Isa) -> None:
    """Load the epilogues of a tier.

    Raises
    ------
    RuntimeError
        If this CPU or this build does not have the tier.
    """
    kernels.load(tier.name)
    module = importlib.import_module(registry.module("epilogue", tier))
    _linear.add_table(tier.level, module.table())


def _dtype(left: np.dtype[Any], right: np.dtype[Any], added: Any, shortcut: Any, what: Activation) -> np.dtype[Any]:
    dtype = np.result_type(left, right, *[one for one in (added, shortcut) if one is not None])
    if dtype.kind == "c" and what.row.name not in ("none", "exp", "tanh"):
        raise TypeError(f"linear: activation {what.row.name!r} is for real numbers, the product is {dtype}")
    return dtype


def shape_of(left: tuple[int, ...], right: tuple[int, ...], bias: Any, residual: Any) -> tuple[int, ...]:
    if len(left) == 0 or len(right) not in (1, 2):
        raise ValueError(f"linear: x needs at least one dimension and weight one or two, not {len(left)}, {len(right)}")
    if left[-1] != right[-1]:
        raise ValueError(f"linear: x has {left[-1]} features, weight takes {right[-1]}")
    shape = (*left[:-1], *right[:-1])
    if bias is not None and np.shape(bias) not in ((), (1,), right[:-1]):
        raise ValueError(f"linear: bias of shape {np.shape(bias)} does not fit {right[:-1]} outputs")
    if residual is not None:
        try:
            fits = np.broadcast_shapes(np.shape(residual), shape) == shape
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(f"linear: residual of shape {np.shape(residual)} does not fit a result of shape {shape}")
    return shape


def check_out(out: Any, shape: tuple[int, ...]) -> None:
    if out is None:
        return
    if not isinstance(out, np.ndarray):
        raise TypeError(f"linear: out must be an ndarray, not {type(out).__name__}")
    if out.shape != shape:
        raise ValueError(f"linear: out has shape {out.shape}, the result {shape}")
    if not out.flags.writeable:
        raise ValueError("linear: out is read-only")


def given(made: Any, out: Array | None) -> Any:
    if out is None:
        return made
    if out.dtype != made.dtype:
        raise TypeError(f"linear: out is {out.dtype}, the result {made.dtype}")
    np.copyto(out, made)
    return out


_linear.set_general(general, lambda: epilogue_level())
