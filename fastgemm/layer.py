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
    with np.errstate(all="ignore"):
        return _layer(x, weight, bias, what, residual, out)


def _layer(x: Any, weight: Any, bias: Any, what: Activation, residual: Any, out: Any) -> Array:
    packed = isinstance(weight, PackedMatrix)
    plain = all(type(one) in _PLAIN or isinstance(one, np.generic) for one in (x, bias, residual, *[weight][packed:]))
    if packed and not plain:
        weight, packed = weight.toarray().T, False
    take = np.asarray if plain else np.asanyarray
    left: Array = take(x)
    right: Any = weight if packed else take(weight).T
    added, shortcut = _terms(take, bias, residual)
    shape = shape_of(left.shape, right.shape[::-1], added, shortcut)
    check_out(out, shape)
    operands = np.result_type(left.dtype, right.dtype)
    dtype = _widened(operands, added, shortcut)
    if dtype.kind == "c" and what.row.name not in ("none", "exp", "tanh"):
        raise TypeError(f"linear: activation {what.row.name!r} is for real numbers, the product is {dtype}")
    sums, finished, tier = _sums(operands), _sums(dtype), epilogue_level()
    rows, inner, columns = math.prod(left.shape[:-1]), right.shape[0], math.prod(right.shape[1:])
    panels = right.panels if packed and operands == right.dtype else None
    fits = plain and 0 not in (rows, inner, columns) and (panels is not None or not packed)
    if not fits or tier is None or sums is None or finished is None:
        made = _step_by_step(left, right, added, shortcut, what, plain, sums, finished)
        # Halves are rounded here.
        rounded: Array = made if finished is None or finished == dtype else made.astype(dtype, copy=False)
        return given(rounded, out)
    a = np.require(left, operands, ["ALIGNED"]).reshape(rows, inner)
    b = right if packed else np.require(right, operands, ["ALIGNED"]).reshape(inner, columns)

    def product(a: Array, c: Array, *terms: Any) -> None:
        if dtype == operands and panels is not None:
            _linear.packed_into(tier, a, panels, c, *terms)
        elif dtype != operands or not _linear.product_into(tier, a, b, c, *terms):
            made = matmul(a, b, dtype=sums).astype(finished, copy=False)
            _linear.finish_into(tier, made, *terms)
            c[...] = made

    return fused(product, a, [] if packed else [b], columns, added, shortcut, what, shape, dtype, out)


def _step_by_step(
    left: Array, right: Any, bias: Any, residual: Any, what: Activation, plain: bool, sums: np.dtype[Any] | None,
    finished: np.dtype[Any] | None,
) -> Any:  # fmt: skip
    """Return the layer by NumPy's functions; `sums`, `finished`: types of the product and of what follows it.

    None: as NumPy chooses.
    """
    if not plain:
        return epilogues.apply(np.matmul(left, right), bias, residual, what)
    made = matmul(left, right, dtype=sums)
    return np.asarray(epilogues.apply(made if finished is None else made.astype(finished), bias, residual, what))


def _terms(take: Callable[[Any], Any], *given: Any) -> list[Any]:
    # Python's numbers keep their weak type.
    weak = (int, float, complex, type(None))
    return [one if isinstance(one, weak) else take(one) for one in given]


def _widened(dtype: np.dtype[Any], *terms: Any) -> np.dtype[Any]:
    """Return the type of a product after terms are added to it."""
    for term in terms:
        # (NumPy's own rules take bfloat16 and a number of Python's for float64.)
        if term is not None and not (type(term) is float and dtype == numpy_types.bfloat16()):
            dtype = np.result_type(dtype, term)
    return dtype


def fused(
    product: Callable[..., None], a: Array, reads: list[Array], columns: int, added: Any, shortcut: Any,
    what: Activation, shape: tuple[int, ...], dtype: np.dtype[Any], out: Array | None, caller: str = "linear",
) -> Array:  # fmt: skip
    """Bring what follows a product to its dtype, and give it an output that overlaps nothing that it reads.

    `product` takes the rows `a`, an output and what `fastgemm._linear.product_into` takes after it.
    """
    if out is not None and out.dtype != dtype:
        raise TypeError(f"{caller}: out is {out.dtype}, the result {dtype}")
    kind = _sums(dtype)
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
    return target if target is out else given(target, out)


@cache
def epilogue_level() -> int | None:
    """Return the level of the tier whose epilogues calls use, loaded; None where no tier runs."""
    tier = kernels.active_isa()
    if tier is not None:
        load(tier)
    return None if tier is None else tier.level


def _sums(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    # The type in which a product of a type is summed and finished; None where no epilogue can follow it.
    row = numpy_types.row_of(dtype)
    if row is None or row.name not in (*registry.FINISHED, *_HALVES):
        return None
    return np.dtype(np.float32) if row.name in _HALVES else dtype


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


def shape_of(
    left: tuple[int, ...], right: tuple[int, ...], bias: Any, residual: Any, caller: str = "linear"
) -> tuple[int, ...]:
    if len(left) == 0 or len(right) not in (1, 2):
        raise ValueError(
            f"{caller}: x needs at least one dimension and weight one or two, not {len(left)}, {len(right)}"
        )
    if left[-1] != right[-1]:
        raise ValueError(f"{caller}: x has {left[-1]} features, weight takes {right[-1]}")
    shape = (*left[:-1], *right[:-1])
    if bias is not None and np.shape(bias) not in ((), (1,), right[:-1]):
        raise ValueError(f"{caller}: bias of shape {np.shape(bias)} does not fit {right[:-1]} outputs")
    if residual is not None:
        try:
            fits = np.broadcast_shapes(np.shape(residual), shape) == shape
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(f"{caller}: residual of shape {np.shape(residual)} does not fit a result of shape {shape}")
    return shape


def check_out(out: Any, shape: tuple[int, ...], caller: str = "linear") -> None:
    if out is None:
        return
    if not isinstance(out, np.ndarray):
        raise TypeError(f"{caller}: out must be an ndarray, not {type(out).__name__}")
    if out.shape != shape:
        raise ValueError(f"{caller}: out has shape {out.shape}, the result {shape}")
    if not out.flags.writeable:
        raise ValueError(f"{caller}: out is read-only")


def given(made: Array, out: Array | None, caller: str = "linear") -> Array:
    if out is None:
        return made
    if out.dtype != made.dtype:
        raise TypeError(f"{caller}: out is {out.dtype}, the result {made.dtype}")
    np.copyto(out, made)
    return out


_linear.set_general(general, lambda: epilogue_level())
