"""pack: a right operand that stays the same, brought into the kernels' own layout once."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _packed, dispatch, kernels, numpy_types, registry
from ._outputs import fresh
from .heuristic import packed_b
from .problem import MAX_BYTES_K, Problem

Array = NDArray[Any]
_PAGE = 4096
# Bytes behind the panels that are written to as well: as far as products fetch ahead (`driver/_ahead.pyx`), for which
# the CPU would look in vain where nothing is, once for every line.
_BEHIND = 16 << 10
# Bytes are packed for dot products with 32-bit sums: those, cut to 8 or 16 bits, are the products that wrap.
_BYTES = "i8_i32"


class PackedMatrix(_packed.Right):
    """A matrix in the layout that the kernels read: made by `fastgemm.pack`, used in the place of a right operand.

    It never changes, and any number of threads may use it at once.  ``a @ packed`` takes any array_like.

    Attributes
    ----------
    shape : tuple of int
        (k, n), as of the right operand of a product.
    dtype : dtype
    rows : int or None
        For how many rows of a left operand it was packed, where `pack` was told.
    nbytes : int
        Memory that it keeps.  float16 is kept as float32; narrow matrices are padded to whole vectors.  Where the CPU
        has no products of bytes, those that have zero points or no sign, or are packed for more rows than a few, are
        kept as 16 bits.
    zero_point : ndarray or None
        Of bytes: what they stand above.  Read-only.

    Examples
    --------
    >>> import numpy as np, fastgemm
    >>> b = fastgemm.pack(np.arange(6.0).reshape(2, 3))
    >>> np.ones((1, 2)) @ b
    array([[3., 5., 7.]])
    >>> b
    PackedMatrix(2 x 3, float64)
    """

    __slots__ = ("_nbytes", "_plain", "_rows", "_shape")

    _shape: tuple[int, int]
    _nbytes: int
    _rows: int | None
    _plain: Array | None

    def __init__(self, b: Array, rows: int | None = None, zero_point: Array | None = None) -> None:
        k, n = b.shape
        self._shape, self._rows, self._plain = (k, n), rows, None
        if zero_point is not None:
            zero_point = np.array(zero_point, np.int32)
            zero_point.flags.writeable = False
        row = _row(b.dtype)
        tier = kernels.active_isa()
        if tier is None or 0 in b.shape or not registry.supported(row, tier):
            # NumPy computes.
            super().__init__(None, zero_point, b.dtype)
            self._plain = np.array(b, order="C")
            self._plain.flags.writeable = False
            self._nbytes = self._plain.nbytes
            return
        if row.group > 1 and k > MAX_BYTES_K:
            raise ValueError(f"bytes are packed up to {MAX_BYTES_K} rows of the matrix, not {k}")
        kernels.load(tier.name)
        family = registry.family(kernels.best_family(row, tier))
        wanted = Problem(row.name, rows or packed_b.TYPICAL_ROWS, n, k, layout="np")
        nr = dispatch.panel_columns(wanted)
        nv = packed_b.vectors(row, tier, rows, n, k) if nr is None else nr // registry.lanes(row, tier)
        slim = b.dtype.kind == "i" and zero_point is None and packed_b.slim(row, tier, rows)
        panels = _packed.Panels(tier, family, row, k, n, nv, slim)
        behind = min(panels.nbytes, _BEHIND)
        memory = np.empty(panels.nbytes + _PAGE + behind, np.uint8)
        start = -memory.ctypes.data % _PAGE
        memory[start + panels.nbytes :][:behind] = 0
        memory = memory[start : start + panels.nbytes]
        panels.fill(b, memory, zero_point)
        memory.flags.writeable = False
        self._nbytes = panels.nbytes
        super().__init__(panels, zero_point, b.dtype)

    @property
    def shape(self) -> tuple[int, int]:
        """(k, n)."""
        return self._shape

    @property
    def rows(self) -> int | None:
        """How many rows of a left operand it was packed for; None: nobody said."""
        return self._rows

    @property
    def nbytes(self) -> int:
        """Memory that it keeps."""
        return self._nbytes

    def toarray(self) -> Array:
        """Return the matrix as a new array in C order.

        Examples
        --------
        >>> import numpy as np, fastgemm
        >>> fastgemm.pack(np.eye(2, dtype=np.int8)).toarray()
        array([[1, 0],
               [0, 1]], dtype=int8)
        """
        if self.panels is None:
            assert self._plain is not None
            return self._plain.copy()
        return _unpacked(self.panels, self.shape, self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("a PackedMatrix has another layout than an array: it must be copied")
        made = self.toarray()
        return made if dtype is None else made.astype(dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, dtype: Any = None,
                        **keywords: Any) -> Any:  # fmt: skip
        if ufunc.__name__ != "matmul" or method != "__call__":
            return NotImplemented
        if keywords:
            raise TypeError(f"a product with a PackedMatrix takes out and dtype, not {', '.join(keywords)}")
        a, b = inputs
        if not isinstance(b, PackedMatrix) or isinstance(a, PackedMatrix):
            raise TypeError("a PackedMatrix is the right operand of a product; toarray() gives it back as an array")
        return b.product(a, None if out is None else out[0], dtype)

    def __rmatmul__(self, a: ArrayLike) -> Any:
        return self.product(a)

    def product(self, a: ArrayLike, out: Array | None = None, dtype: Any = None) -> Any:
        """Return ``a @ self``: what `fastgemm.matmul` and ``@`` do.

        Parameters
        ----------
        a : array_like
            (..., k), of this matrix' dtype or one that casts to it safely.
        out : ndarray, optional
            It must not overlap `a`.
        dtype : dtype, optional
            float32 for float16 and bfloat16, int32 for bytes; this matrix' dtype by default, as in `np.matmul`.

        Raises
        ------
        TypeError
            If `a` or `dtype` does not fit what is packed: the message names both.  If `out` is no array.
        ValueError
            If shapes do not fit.
        """
        done = _packed.product(a, self, out, dtype)
        if done is not None:
            return done
        if self.zero_point is not None:
            raise TypeError("this matrix is packed with zero points: matmul_integer and qlinear_matmul take it")
        if out is not None and not isinstance(out, np.ndarray):
            raise TypeError(f"out must be an ndarray, not {type(out).__name__}")
        left = np.asarray(a)
        lead = self._lead(left)
        wanted, row, result = self._row_for(left.dtype, None if dtype is None else np.dtype(dtype), out)
        target = out
        if out is None:
            target = fresh((*lead, self.shape[1]), result)
        elif out.shape != (*lead, self.shape[1]) or out.dtype != wanted:
            shape = (*lead, self.shape[1])
            raise ValueError(f"out is {out.dtype} of shape {out.shape}, the result {wanted} of {shape}")
        assert target is not None
        if out is not None and (out.dtype != result or not out.flags.carray or np.may_share_memory(out, left)):
            target = fresh(target.shape, result)
        if self.panels is None or row is None:
            made = np.matmul(left, self.toarray(), dtype=wanted)
            target = made if out is None else target
            if out is not None:
                np.copyto(target, made)
        elif target.size:
            self._run(left, target, row)
        if out is not None:
            if target is not out:
                np.copyto(out, target, casting="unsafe")
            return out
        if target.dtype != wanted:
            target = target.astype(wanted)
        return target

    def _run(self, left: Array, target: Array, row: registry.DType) -> None:
        assert self.panels is not None
        operand = left if left.dtype.name in row.names else left.astype(self.dtype)
        operand = np.require(operand, operand.dtype.newbyteorder("="), ["ALIGNED"]).reshape(-1, self.shape[0])
        _packed.product_into(self.panels, operand, target.reshape(-1, self.shape[1]), row)

    def _lead(self, left: Array) -> tuple[int, ...]:
        if left.ndim == 0 or left.shape[-1] != self.shape[0]:
            raise ValueError(f"the inner sizes differ: a has shape {left.shape}, the packed matrix {self.shape}")
        return left.shape[:-1]

    def _row_for(
        self, left: np.dtype[Any], asked: np.dtype[Any] | None, out: Array | None
    ) -> tuple[np.dtype[Any], registry.DType | None, np.dtype[Any]]:
        """Return the result's dtype, the row that computes it, and the dtype that the row gives."""
        both = np.result_type(left, self.dtype)
        bytes_ = self.dtype.itemsize == 1 and self.dtype.kind in "iu"
        fits = left.itemsize == 1 and left.kind in "biu" if bytes_ else both == self.dtype
        if not fits:
            raise TypeError(f"the matrix is packed as {self.dtype}, a is {left}: pack it as {both}, or cast a")
        wide = {"float16": "float32", "bfloat16": "float32"}.get(self.dtype.name)
        natural = np.dtype(wide) if self.dtype.name == "bfloat16" else both
        wanted = asked or (out.dtype if out is not None and not bytes_ else natural)
        if bytes_:
            if wanted not in (both, np.dtype(np.int32)):
                raise TypeError(f"products of bytes give {both} or int32, not {wanted}")
            return wanted, registry.dtype(_BYTES) if self.shape[0] else None, np.dtype(np.int32)
        if wanted not in (both, np.dtype(wide or both)):
            raise TypeError(f"the product is {natural}, not {wanted}")
        row = registry.product_row(self.dtype.name, self.dtype.name, wanted.name)
        return wanted, row if self.shape[0] else None, wanted

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedMatrix, (self.toarray(), self.rows, self.zero_point)

    def __repr__(self) -> str:
        return f"PackedMatrix({self.shape[0]} x {self.shape[1]}, {self.dtype})"


def pack(
    b: ArrayLike, *, trans: bool = False, rows: int | None = None, zero_point: ArrayLike | None = None
) -> PackedMatrix:
    """Pack a right operand that many products share, weights for instance, once.

    Parameters
    ----------
    b : array_like
        (k, n): a matrix of any dtype that has kernels.
    trans : bool
        Pack ``b.T``: for weights that are stored as (out, in).
    rows : int, optional
        How many rows the left operands will have, as a hint: for a few of them panels are as wide as products pass
        over them least often, for many as wide as arithmetic is fastest, or as the tuner found best for so many; see
        also `PackedMatrix.nbytes`.  Every number of rows gives the right result.
    zero_point : array_like, optional
        Of int8 and uint8: one number, or one for each column, for `matmul_integer` and `qlinear_matmul`.

    Returns
    -------
    PackedMatrix
        `matmul`, ``@``, `linear`, `matmul_integer` and `qlinear_matmul` take it in the place of the matrix.  It is
        pickled as the plain array, and packed again for the CPU where it is loaded.

    Raises
    ------
    TypeError
        If there are no kernels for the dtype, or zero points are given for another than int8 and uint8.
    ValueError
        If `b` is no matrix, or one of bytes with more than 131072 rows; if `rows` is less than 1; if zero points do not
        fit the columns, or are no values of the matrix' type.

    Examples
    --------
    >>> import numpy as np, fastgemm
    >>> weight = np.float32([[1, 1], [2, 0], [0, 1]])
    >>> packed = fastgemm.pack(weight, trans=True)
    >>> packed.shape
    (2, 3)
    >>> fastgemm.linear(np.float32([[1, -2]]), packed, activation="relu")
    array([[0., 2., 0.]], dtype=float32)
    """
    array = np.asarray(b)
    if array.ndim != 2:
        raise ValueError(f"pack takes a matrix, not {array.ndim} dimensions")
    if trans:
        array = array.T
    if rows is not None:
        rows = operator.index(rows)
        if rows < 1:
            raise ValueError(f"rows must be at least 1, not {rows}")
    row = _row(array.dtype)
    zero = None
    if zero_point is not None:
        if row.name != _BYTES:
            raise TypeError(f"zero points belong to int8 and uint8, not to {array.dtype}")
        zero = _zero_points(zero_point, array)
    return PackedMatrix(np.require(array, array.dtype.newbyteorder("="), ["ALIGNED"]), rows, zero)


def _zero_points(given: ArrayLike, array: Array) -> Array | None:
    zero = numpy_types.zero_points("zero_point", given, array.dtype)
    if zero.size != 1 and zero.shape not in ((array.shape[1],), (1, array.shape[1])):
        raise ValueError(f"zero_point has shape {zero.shape}: one number or {array.shape[1]} fit")
    return zero.reshape(-1) if zero.any() else None


def _row(dtype: np.dtype[Any]) -> registry.DType:
    if dtype.itemsize == 1 and dtype.kind in "iu":
        return registry.dtype(_BYTES)
    try:
        return registry.dtype(dtype.newbyteorder("=").name)
    except ValueError:
        raise TypeError(f"{dtype} cannot be packed: there are no kernels for it") from None


class _Stored(NamedTuple):
    """A panel's numbers: the type of one, and how many of k lie side by side."""

    dtype: Any
    group: int


def _unpacked(panels: _packed.Panels, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    k, n = shape
    row = panels.row
    if panels.group > 1:
        stored = _Stored(f"u{panels.unit // panels.group}", panels.group)
    elif row.converts and dtype.kind != "b":
        stored = _Stored(np.float32, 1)
    else:
        stored = _Stored(dtype, 1)
    out = np.empty(shape, dtype)
    per = panels.length // row.parts
    at = 0
    while True:
        try:
            vector, vectors, begin = panels.panel(at)
        except IndexError:
            return out
        width = vectors * per
        size = panels.steps * vectors * panels.length * panels.unit
        block = panels.memory[begin : begin + size].view(stored.dtype)
        block = block.reshape(panels.steps, width, stored.group)[: panels.steps - panels.appended]
        numbers = block.transpose(0, 2, 1).reshape(-1, width)[:k, : n - vector * per]
        out[:, vector * per : vector * per + width] = _plain_numbers(panels, numbers, dtype, vector * per)
        at += 1


def _plain_numbers(panels: _packed.Panels, numbers: Array, dtype: np.dtype[Any], first: int) -> Array:
    """Undo what packing does to numbers besides moving them (kernels' packing of dot products)."""
    if panels.group == 1:
        return numbers.astype(dtype)
    if dtype.itemsize == 2:
        return numbers.view(dtype)
    if numbers.dtype.itemsize == 1:
        return (numbers ^ np.uint8(128 if panels.is_unsigned else 0)).view(dtype)
    zero: Any = 0
    if panels.zero is not None:
        zero = panels.zero if panels.zero.size == 1 else panels.zero[first : first + numbers.shape[1]]
    made: Array = (numbers.view(np.int16) + zero).astype(dtype)
    return made
