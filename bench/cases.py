"""The products that the benchmarks time: read from CSV, chosen, and filled with operands.

A `Case` is one row of a shape list with a dtype and a thread count.  Reading and
choosing use the standard library alone, because the coordinating process never
imports NumPy; only `operands` and `check`, which run in the timed processes, do.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

SHAPES = Path(__file__).parent / "shapes"
DEFAULT_LIST = SHAPES / "gemm_shapes.csv"
ITEMSIZE = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "uint32": 4,
    "float32": 4, "int64": 8, "uint64": 8, "float64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip
# Operands repeat a block of random numbers: generating 80 million fresh ones takes longer
# than timing them.  A prime length keeps rows of any width from being equal.
BLOCK = 1_000_003


@dataclass(frozen=True, slots=True)
class Case:
    """One product to time: C (m x n) = A (m x k) @ B (k x n), `batch` times.

    ``dtype`` is the type of the operands and of the result, or both: ``int8:int32``.  ``trans_a`` says that A is
    stored as (k, m) and used through its transposed view, ``trans_b`` the same of B.  ``cls`` is the class of shape
    that means are grouped by.

    Examples
    --------
    >>> Case("float32", 64, 32, 16, trans_a=True).label
    'float32 64x32x16 tn'
    >>> Case("complex64", 2, 3, 4, batch=5).flops
    960
    """

    dtype: str
    m: int
    n: int
    k: int
    batch: int = 1
    trans_a: bool = False
    trans_b: bool = False
    cls: str = "all"
    threads: int = 1
    source: str = ""

    @property
    def flops(self) -> int:
        """Real floating-point operations of the whole stack."""
        return (8 if self.dtype.startswith("complex") else 2) * self.m * self.n * self.k * self.batch

    @property
    def operand(self) -> str:
        """Type of both operands."""
        return self.dtype.partition(":")[0]

    @property
    def result(self) -> str:
        """Type of the result.

        Examples
        --------
        >>> Case("bfloat16", 1, 1, 1).result, Case("int8:int32", 1, 1, 1).result
        ('bfloat16', 'int32')
        """
        return self.dtype.rpartition(":")[2]

    @property
    def bytes(self) -> int:
        """Bytes of both operands, the output, and the output that the next call makes."""
        operands = (self.m * self.k + self.k * self.n) * ITEMSIZE[self.operand]
        return (operands + 2 * self.m * self.n * ITEMSIZE[self.result]) * self.batch

    @property
    def shape(self) -> str:
        """``MxNxK``, with ``xBATCH`` for a stack."""
        return f"{self.m}x{self.n}x{self.k}" + (f"x{self.batch}" if self.batch > 1 else "")

    @property
    def layout(self) -> str:
        """One letter an operand: ``n`` as stored, ``t`` a transposed view."""
        return ("t" if self.trans_a else "n") + ("t" if self.trans_b else "n")

    @property
    def label(self) -> str:
        """Dtype, shape and layout in one readable string."""
        return f"{self.dtype} {self.shape} {self.layout}"

    def replace(self, **changes: Any) -> Case:
        """Return a copy with some fields changed."""
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return asdict(self)


def parse(text: str, dtype: str = "float32") -> Case:
    """Make a case of ``MxNxK`` or ``MxNxKxBATCH``.

    Examples
    --------
    >>> parse("12x8x4x3").batch
    3
    """
    parts = text.lower().split("x")
    if len(parts) not in (3, 4) or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise ValueError(f"a shape is written MxNxK or MxNxKxBATCH with positive numbers, not {text!r}")
    m, n, k, *rest = (int(part) for part in parts)
    _known(dtype)
    return Case(dtype, m, n, k, batch=rest[0] if rest else 1, cls="given")


def read(path: Path | str, dtypes: Sequence[str] = ()) -> list[Case]:
    """Read a shape list.

    Columns: ``M, N, K`` and, where present, ``batch, transA, transB, cls`` (or ``set``),
    ``dtype, source``.  A list without a dtype column gives every shape once for each of
    `dtypes` (float32 when empty); a list with one is filtered by `dtypes`.  A dtype
    written ``float32/64`` stands for both.
    """
    found: list[Case] = []
    with open(path, newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            try:
                own = _dtypes_of(row.get("dtype") or "")
                wanted = [d for d in own if not dtypes or d in dtypes] if own else list(dtypes) or ["float32"]
                for dtype in wanted:
                    found.append(_case(row, dtype))
            except (KeyError, ValueError) as error:
                raise ValueError(f"{path}, line {number}: {error}") from error
    return found


def _dtypes_of(text: str) -> list[str]:
    names = [part.strip() for part in text.split("/") if part.strip()]
    # "float32/64" names the second one by its width only.
    names = [name if not name.isdigit() else names[0].rstrip("0123456789") + name for name in names]
    for name in names:
        _known(name)
    return names


def _known(dtype: str) -> None:
    parts = dtype.split(":")
    if len(parts) > 2 or not set(parts) <= set(ITEMSIZE):
        raise ValueError(f"unknown dtype {dtype!r}; known: {', '.join(ITEMSIZE)}, or two of them as operands:result")


def _case(row: dict[str, str], dtype: str) -> Case:
    _known(dtype)
    sizes = {name: int(row[name.upper()]) for name in ("m", "n", "k")}
    batch = int(row.get("batch") or 1)
    if min(*sizes.values(), batch) < 1:
        raise ValueError("sizes and batch must be at least 1")
    return Case(
        dtype,
        **sizes,
        batch=batch,
        trans_a=bool(int(row.get("transA") or 0)),
        trans_b=bool(int(row.get("transB") or 0)),
        cls=row.get("cls") or row.get("set") or "all",
        source=row.get("source") or "",
    )


def quick(cases: Iterable[Case], per_class: int = 3, most_flops: float = 2.2e9) -> list[Case]:
    """Keep a few shapes of every class and dtype, spread over their sizes.

    Shapes above `most_flops` are left out unless a class has nothing smaller.
    """
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.dtype, case.cls), []).append(case)
    kept: list[Case] = []
    for group in groups.values():
        ordered = sorted(group, key=lambda c: c.flops)
        pool = [c for c in ordered if c.flops <= most_flops] or ordered[:1]
        count = min(per_class, len(pool))
        picks = [round(i * (len(pool) - 1) / max(1, count - 1)) for i in range(count)]
        kept.extend(pool[i] for i in picks)
    return kept


def within(cases: Iterable[Case], limit_bytes: float, copies: int) -> tuple[list[Case], list[Case]]:
    """Split cases into those whose operands fit in memory `copies` times and the others."""
    fits: list[Case] = []
    over: list[Case] = []
    for case in cases:
        (fits if case.bytes * copies <= limit_bytes else over).append(case)
    return fits, over


def operands(case: Case, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Make both operands, from NumPy's own allocator as a user's arrays are."""
    import numpy as np

    dtype = numpy_dtype(case.operand)
    rng = np.random.default_rng(seed)
    stored_a = (case.k, case.m) if case.trans_a else (case.m, case.k)
    stored_b = (case.n, case.k) if case.trans_b else (case.k, case.n)
    stack = (case.batch,) if case.batch > 1 else ()
    a = _fill(rng, (*stack, *stored_a), dtype)
    b = _fill(rng, (*stack, *stored_b), dtype)
    return (a.swapaxes(-1, -2) if case.trans_a else a), (b.swapaxes(-1, -2) if case.trans_b else b)


def begun(array: np.ndarray, begin: int) -> np.ndarray:
    """Return a copy in the same layout that begins so many bytes into a line of the cache.

    Examples
    --------
    >>> import numpy as np
    >>> moved = begun(np.ones((3, 5), "f4").T, 16)
    >>> moved.shape, moved.strides, moved.ctypes.data % 64
    ((5, 3), (4, 20), 16)
    """
    import numpy as np

    room = np.empty(array.nbytes + 128, "u1")
    first = -room.ctypes.data % 64 + begin
    return copied(array, room[first : first + array.nbytes])


def copied(array: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Return a copy in the same layout, in memory of so many bytes.

    Examples
    --------
    >>> import numpy as np
    >>> copied(np.ones((2, 3, 5), "f4").swapaxes(1, 2), np.zeros(120, "u1")).strides
    (60, 4, 20)
    """
    turned = array.ndim > 1 and not array.flags.c_contiguous
    stored = array.swapaxes(-1, -2) if turned else array
    copy = room.view(stored.dtype).reshape(stored.shape)
    copy[...] = stored
    return copy.swapaxes(-1, -2) if turned else copy


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the NumPy type of a name; bfloat16 is the package ml_dtypes'."""
    import numpy as np

    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def _fill(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    import numpy as np

    size = int(np.prod(shape))
    length = min(size, BLOCK)
    if dtype.kind in "iub":
        block = rng.integers(0 if dtype.kind != "i" else -8, 2 if dtype.kind == "b" else 8, length).astype(dtype)
    elif dtype.kind == "c":
        block = (rng.uniform(-1, 1, length) + 1j * rng.uniform(-1, 1, length)).astype(dtype)
    else:
        block = rng.uniform(-1, 1, length).astype(dtype)
    array = np.empty(size, dtype)
    for start in range(0, size, length):
        array[start : start + length] = block[: size - start]
    return array.reshape(shape)


def check(a: np.ndarray, b: np.ndarray, c: np.ndarray, entries: int = 24) -> str | None:
    """Say what is wrong with a product; None when the entries looked at are right.

    A few entries (corners and random ones) are summed again in double precision without
    a BLAS, so that no second thread pool starts in a timed process.
    """
    import numpy as np

    if c.shape != a.shape[:-1] + b.shape[-1:]:
        return f"wrong shape {c.shape}"
    exact = c.dtype.kind in "iub"
    wide = np.dtype("complex128") if c.dtype.kind == "c" else np.dtype("int64" if exact else "float64")
    eps = 0.0 if exact else float(np.finfo(c.dtype).eps) if c.dtype.kind in "fc" else 2.0**-7
    draw = random.Random(1)
    *stack, m, k = a.shape
    n = b.shape[-1]
    for number in range(entries if k < 1 << 20 else 6):
        where: tuple[Any, ...] = tuple(draw.randrange(size) for size in stack)
        i, j = ((0, -1)[number & 1], (0, -1)[number >> 1 & 1]) if number < 4 else (draw.randrange(m), draw.randrange(n))
        products = a[(*where, i)].astype(wide) * b[(*where, slice(None), j)].astype(wide)
        want, scale = products.sum(), float(np.abs(products).sum())
        got = c[(*where, i, j)]
        if exact:
            if np.asarray(want).astype(c.dtype) != got:
                return f"wrong value at {(*where, i, j)}: {got} instead of {want}"
        elif not abs(wide.type(got) - want) <= eps * min(8 + k**0.5, 256) * scale:
            return f"wrong value at {(*where, i, j)}: {got} instead of {want}"
    return None
