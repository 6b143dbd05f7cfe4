"""MKL through ctypes: cblas_?gemm, and cblas_?gemm_batch_strided for stacks."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any, ClassVar

import peers
from peers import Availability, Bound, Library, Unsupported

if TYPE_CHECKING:
    import numpy as np

ROW_MAJOR, NO_TRANS, TRANS = 101, 111, 112
LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}


def address(array: np.ndarray) -> int:
    """Address of a contiguous writable array, three times as fast as ``array.ctypes.data``."""
    return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]  # NumPy 2.4's stubs: no Buffer


class Mkl(Library):
    """Intel's MKL from the ``mkl`` wheel."""

    name = "mkl"
    summary = "MKL from its wheel, by ctypes"
    foreign: ClassVar[bool] = True

    @classmethod
    def environment(cls, threads: int) -> dict[str, str]:
        """Add the choice of 32-bit integers and Intel's threads."""
        layer = "SEQUENTIAL" if threads == 1 else "INTEL"
        return {**super().environment(threads), "MKL_INTERFACE_LAYER": "LP64", "MKL_THREADING_LAYER": layer}

    def available(self, threads: int) -> Availability:
        """Load the library and report its version."""
        path = peers.shared_library("mkl", "libmkl_rt")
        if path is None:
            return Availability(False, "libmkl_rt not found: install the wheel 'mkl'")
        try:
            self.lib = ctypes.CDLL(str(path))
            text = ctypes.create_string_buffer(200)
            self.lib.mkl_get_version_string(text, 200)
            count = self.lib.mkl_get_max_threads()
        except (OSError, AttributeError) as error:
            return Availability(False, f"cannot load MKL: {error}")
        words = text.value.decode("ascii", "replace").split()
        version = words[words.index("Version") + 1] if "Version" in words[:-1] else ""
        return Availability(True, "", version, f"{count} thread{'s' * (count != 1)}")

    def bind(
        self, a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None, result: np.dtype[Any] | None = None
    ) -> Bound:
        """Bind the call to raw pointers; the output is fresh NumPy memory unless `out` is given."""
        import numpy as np

        letter = LETTERS.get(a.dtype.name)
        if letter is None or (result or a.dtype) != a.dtype:
            raise Unsupported(f"this binding has no gemm for {a.dtype.name}{f' to {result}' if result else ''}")
        (m, k), n = a.shape[-2:], b.shape[-1]
        batch = math.prod(a.shape[:-2])
        trans_a, lda = _operand(a)
        trans_b, ldb = _operand(b)
        shape, dtype = (*a.shape[:-1], n), a.dtype
        one, zero = _scalars(dtype)
        common = (ROW_MAJOR, trans_a, trans_b, m, n, k)
        integer, pointer = ctypes.c_int, ctypes.c_void_p
        scalar: Any = pointer if dtype.kind == "c" else ctypes.c_float if letter == "s" else ctypes.c_double
        if batch == 1:
            gemm = self.lib[f"cblas_{letter}gemm"]
            gemm.argtypes = [integer] * 6 + [scalar, pointer, integer, pointer, integer, scalar, pointer, integer]

            def run(a: int, b: int, c: int) -> None:
                gemm(*common, one, a, lda, b, ldb, zero, c, n)
        else:
            gemm = self.lib[f"cblas_{letter}gemm_batch_strided"]
            step: list[Any] = [pointer, integer, integer]
            gemm.argtypes = [integer] * 6 + [scalar, *step, *step, scalar, *step, integer]

            def run(a: int, b: int, c: int) -> None:
                gemm(*common, one, a, lda, m * k, b, ldb, k * n, zero, c, n, m * n, batch)

        gemm.restype = None

        def fresh(a: int, b: int) -> np.ndarray:
            c = np.empty(shape, dtype)
            run(a, b, address(c))
            return c

        def reused(a: int, b: int) -> np.ndarray:
            assert out is not None
            run(a, b, target)
            return out

        target = 0 if out is None else address(out)
        return Bound(fresh if out is None else reused, a.ctypes.data, b.ctypes.data, peers.as_is, (a, b, one, zero))


def _operand(x: np.ndarray) -> tuple[int, int]:
    """Transposition and leading dimension of a packed C- or F-ordered stack."""
    rows, columns = x.shape[-2:]
    if x.flags.c_contiguous:
        return NO_TRANS, columns
    if x.swapaxes(-1, -2).flags.c_contiguous:
        return TRANS, rows
    raise Unsupported("this binding takes packed operands only")


def _scalars(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """1 and 0 as the routine takes them: by value, for complex ones by address."""
    if dtype.kind != "c":
        return 1.0, 0.0
    component = ctypes.c_float if dtype.itemsize == 8 else ctypes.c_double
    return (component * 2)(1.0, 0.0), (component * 2)(0.0, 0.0)
