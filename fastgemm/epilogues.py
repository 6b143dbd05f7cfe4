"""Epilogues: what may follow a product, as `activations.EPILOGUES` lists it, and what each row means in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import activations

Array = NDArray[Any]


class Activation(NamedTuple):
    """A row of `activations.EPILOGUES` and its numbers."""

    row: activations.Epilogue
    p: float = 0.0
    q: float = 0.0


def _erf(x: Array) -> Array:
    flat = [math.erf(value) for value in np.asarray(x, "f8").ravel()]
    return np.asarray(flat, x.dtype).reshape(np.shape(x))


def _k_tanh(x: Array) -> Array:
    given = np.asarray(x)
    floating = given if given.dtype.kind == "f" else given.astype("f8")
    with np.errstate(over="ignore"):
        single = floating.astype(np.float32)
    bits = single.view(np.uint32).astype(np.int64)
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    rounded = (bits & 0x7FFF0000).astype(np.uint32).view(np.float32)
    exponent, shift, added = np.array(activations.K_TANH).T[:, bits >> 20 & 31]
    found = (((exponent << 7) + ((bits >> 16 & 127) >> shift) + added) << 16).astype(np.uint32).view(np.float32)
    found = np.where(rounded < 0.25, rounded, np.where(rounded > 3.75, np.float32(1), found))
    made: Array = np.where(np.isnan(single), single, np.copysign(found, single)).astype(floating.dtype)
    return made


@cache
def meaning(name: str) -> Callable[..., Array]:
    """Return the NumPy function of an activation: ``f(x, p, q)``.

    What it makes of bool and integers is float32, or float64 where that has too few bits; "none" and "relu" keep them.

    Examples
    --------
    >>> import numpy as np
    >>> from fastgemm import epilogues
    >>> epilogues.meaning("clip")(np.array([-1.0, 3.0, 9.0]), 0.0, 6.0)
    array([0., 3., 6.])
    """
    # The text is the registry's own: it stands there beside the kernel's, so that one row says both.
    names = {"np": np, "erf": _erf, "k_tanh": _k_tanh}
    row = activations.epilogue(name)
    function: Callable[..., Array] = eval(f"lambda x, p, q: {row.meaning}", names)
    return function if row.whole else lambda x, p, q: function(_floats(x), p, q)


def _floats(x: Array) -> Array:
    return x.astype(np.result_type(x.dtype, np.float32)) if x.dtype.kind in "biu" else x


def activation(given: str | tuple[Any, ...] | None) -> Activation:
    """Return an activation given by its name, or as ``(name, number, ...)``.

    Raises
    ------
    TypeError
        If it is something else.
    ValueError
        If there is no such activation, it does not take so many numbers, or a bound is NaN.

    Examples
    --------
    >>> from fastgemm import epilogues
    >>> made = epilogues.activation(("leaky_relu", 0.2))
    >>> made.row.name, made.p
    ('leaky_relu', 0.2)
    """
    name, *numbers = given if isinstance(given, tuple) and given else (given,)
    if given is None:
        name = "none"
    if not isinstance(name, str):
        raise TypeError(f"activation must be a name or (name, number, ...), not {given!r}")
    row = activations.epilogue(name)
    if len(numbers) > len(row.params):
        raise ValueError(f"activation {name!r} takes at most {len(row.params)} numbers, not {len(numbers)}")
    values = dict(row.params)
    for (key, _), number in zip(row.params, numbers, strict=False):
        if isinstance(number, (str, bytes)):
            raise TypeError(f"activation {name!r} takes numbers, not {number!r}")
        values[key] = float(number)
        if name == "clip" and math.isnan(values[key]):
            raise ValueError("activation 'clip' takes bounds, not nan")
    return Activation(row, values.get("p", 0.0), values.get("q", 0.0))


def apply(x: Any, bias: Any, residual: Any, what: Activation) -> Any:
    """Return ``activation(x + bias + residual)`` by NumPy; None is left out.

    Examples
    --------
    >>> import numpy as np
    >>> from fastgemm import epilogues
    >>> epilogues.apply(np.array([-1.0, 2.0]), 0.5, None, epilogues.activation("relu"))
    array([0. , 2.5])
    """
    for operand in (bias, residual):
        if operand is not None:
            x = x + operand
    return meaning(what.row.name)(x, what.p, what.q)
