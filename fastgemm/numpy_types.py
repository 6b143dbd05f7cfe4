"""Which row of the registry computes which of NumPy's types: the one table that compiled and other modules share.

bfloat16 is a type of the package ml_dtypes, which need not be there: it is known once a program has imported that.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import registry

# By NumPy type number; several numbers mean the same bits ("long" and "long long").
ROWS: dict[int, registry.DType] = {
    found.num: row
    for found in map(np.dtype, np.typecodes["All"])
    for row in registry.DTYPES
    if not row.result and found.name in row.names
}
KERNELS = frozenset(found for found in map(np.dtype, np.typecodes["All"]) if found.num in ROWS)
# Operands of dot products of bytes.
BYTES = tuple(np.dtype(name) for name in registry.BYTES)
# Those that sum in their own precision.
FLOATS = frozenset(found for found in KERNELS if not (ROWS[found.num].exact or ROWS[found.num].converts))


def bfloat16() -> np.dtype[Any] | None:
    """Return ml_dtypes' bfloat16, or None while nobody has imported it."""
    module = sys.modules.get("ml_dtypes")
    kind = getattr(module, "bfloat16", None)
    return None if kind is None else np.dtype(kind)


def row_of(dtype: np.dtype[Any]) -> registry.DType | None:
    """Return the row that computes products of a type in native byte order; None where there is none.

    Examples
    --------
    >>> import numpy as np
    >>> row_of(np.dtype("u2")).name
    'i16'
    """
    if not dtype.isnative:
        return None
    row = ROWS.get(dtype.num)
    if row is None and dtype == bfloat16():
        return registry.dtype("bf16")
    return row


def plain(row: registry.DType) -> np.dtype[Any] | None:
    """Return the NumPy type of a row's operands; None where it is a package's that is not imported."""
    return bfloat16() if row.numpy == "bfloat16" else np.dtype(row.numpy)


def _ends(numbers: NDArray[Any]) -> tuple[Any, ...]:
    # (One number is asked for most often, and NumPy takes its time for that.)
    return (numbers.item(),) if numbers.size == 1 else (numbers.min(initial=0), numbers.max(initial=0))


def zero_points(name: str, given: ArrayLike, dtype: np.dtype[Any], *, one: bool = False) -> NDArray[Any]:
    """Return zero points of bytes in int32: whole numbers within the limits of the bytes' type.

    Raises
    ------
    ValueError
        If they are none, or not `one` where that is asked for.

    Examples
    --------
    >>> import numpy as np
    >>> zero_points("zero_point", [3, 200], np.dtype("u1"))
    array([  3, 200], dtype=int32)
    """
    numbers, limits = np.asarray(given), np.iinfo(dtype)
    if (
        numbers.dtype.kind not in "iu"
        or (one and numbers.size != 1)
        or not all(limits.min <= end <= limits.max for end in _ends(numbers))
    ):
        what = "be one whole number" if one else "hold whole numbers"
        raise ValueError(f"{name} must {what} from {limits.min} to {limits.max}")
    return numbers.astype(np.int32)
