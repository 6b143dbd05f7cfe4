"""The libraries that are compared, one class each.

A library says which environment its process needs (thread count, chosen kernels)
*before* anything is imported, whether it is there, and turns two NumPy operands into
a bound product: a callable (a, b) -> c with the operands in the library's own form.
Nothing is imported at the top, because one process must hold one library only: the
thread pools of two fight for the cores.

Adding a library is one class and its name in `libraries`.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    import numpy as np


class Unsupported(Exception):
    """The library has no such product (dtype, layout, size): the text says why."""


class Availability(NamedTuple):
    """Whether a library can be timed here; `reason` says why not."""

    ok: bool
    reason: str = ""
    version: str = ""
    detail: str = ""


class Bound(NamedTuple):
    """A product ready to be timed: ``call(a, b)`` and a way back to NumPy.

    `keep` holds what must outlive the call (arrays behind raw pointers); `notes` is for the reader of the figures.
    """

    call: Callable[[Any, Any], Any]
    a: Any
    b: Any
    array: Callable[[Any], np.ndarray]
    keep: Any = None
    notes: str = ""


def as_is(c: np.ndarray) -> np.ndarray:
    """Return the result of a library whose results are NumPy arrays."""
    return c


class Library:
    """A library to time; subclasses say how."""

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    # Reached through ctypes: a call costs about a microsecond that a C caller would not pay.
    foreign: ClassVar[bool] = False

    @classmethod
    def environment(cls, threads: int) -> dict[str, str]:
        """Return the variables to set before the process starts."""
        count = str(threads)
        return {
            "OMP_NUM_THREADS": count,
            "MKL_NUM_THREADS": count,
            "OPENBLAS_NUM_THREADS": count,
            "FASTGEMM_NUM_THREADS": count,
            "MKL_DYNAMIC": "FALSE",
            # Idle workers of Intel's OpenMP spin for 200 ms by default, into the next library's sample.
            "KMP_BLOCKTIME": "10",
        }

    def available(self, threads: int) -> Availability:
        """Import the library and say what it is, or why it cannot be used."""
        raise NotImplementedError

    def bind(
        self, a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None, result: np.dtype[Any] | None = None
    ) -> Bound:
        """Prepare the product of two operands; with `out`, one that writes there every time.

        `result` is the type that is asked for; None: the operands'.
        """
        raise NotImplementedError

    def ready(self) -> bool:
        """Whether a call now would use all threads that it may."""
        return True


def _asking(
    matmul: Callable[..., Any], a: np.ndarray, out: np.ndarray | None, result: np.dtype[Any] | None
) -> Callable[[Any, Any], Any]:
    """Return the call that a user would write for a result of this type."""
    wanted = result or a.dtype
    if out is not None:
        if wanted != a.dtype and wanted.kind == "i":  # else integers are summed in the operands' own width
            return lambda a, b: matmul(a, b, out, dtype=wanted)
        return lambda a, b: matmul(a, b, out)
    if wanted == a.dtype and a.dtype.name != "bfloat16":
        return matmul
    return lambda a, b: matmul(a, b, dtype=wanted)


class FastGemm(Library):
    """The library of this repository."""

    name = "fastgemm"
    summary = "fastgemm.matmul"

    def available(self, threads: int) -> Availability:
        """Import fastgemm and report the ISA tier in use."""
        try:
            import fastgemm
            from fastgemm import kernels
        except ImportError as error:
            return Availability(False, f"cannot import fastgemm: {error}")
        tier = kernels.active_isa()
        if tier is None:
            return Availability(False, "fastgemm has no kernels for this CPU in this build")
        return Availability(True, "", getattr(fastgemm, "__version__", ""), f"ISA {tier.name}")

    def bind(
        self, a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None, result: np.dtype[Any] | None = None
    ) -> Bound:
        """`fastgemm.matmul` itself, or with ``out=``."""
        import fastgemm

        return Bound(_asking(fastgemm.matmul, a, out, result), a, b, as_is)

    def ready(self) -> bool:
        """Not while calls go on with one thread, because another process had a core when they used more."""
        from fastgemm.driver import _team

        return not _team.resting()


class NumPy(Library):
    """NumPy with the BLAS kernels that it chooses by itself."""

    name = "numpy"
    summary = "np.matmul as installed"

    def available(self, threads: int) -> Availability:
        """Import NumPy and report its BLAS, with the kernels in use where threadpoolctl is installed."""
        try:
            import numpy as np
        except ImportError as error:
            return Availability(False, f"cannot import numpy: {error}")
        blas = blas_of_numpy()
        try:
            from threadpoolctl import threadpool_info
        except ImportError:
            detail = blas
        else:
            pools = [pool for pool in threadpool_info() if pool.get("user_api") == "blas"]
            kernels = ", ".join(f"{pool.get('architecture', '?')} kernels" for pool in pools)
            detail = f"{blas} {kernels}".strip()
        return Availability(True, "", np.__version__, detail)

    def bind(
        self, a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None, result: np.dtype[Any] | None = None
    ) -> Bound:
        """`np.matmul` itself, or with ``out=``."""
        import numpy as np

        wanted = result or a.dtype
        if wanted.kind == "V" or wanted.name == "bfloat16":
            raise Unsupported(f"NumPy has no product that is {wanted.name}")
        return Bound(_asking(np.matmul, a, out, result), a, b, as_is)


class NumPyBest(NumPy):
    """NumPy's OpenBLAS told to use the widest kernels that the CPU runs.

    OpenBLAS chooses by CPU model and falls back on a model that it does not know.
    """

    name = "numpy-best"
    summary = "np.matmul, its OpenBLAS forced to the CPU's widest kernels"

    @classmethod
    def environment(cls, threads: int) -> dict[str, str]:
        """Add OPENBLAS_CORETYPE."""
        found = super().environment(threads)
        core = openblas_core(cpu_flags())
        return {**found, "OPENBLAS_CORETYPE": core} if core else found

    def available(self, threads: int) -> Availability:
        """As for NumPy, and only on x86 with OpenBLAS."""
        found = super().available(threads)
        if not found.ok:
            return found
        if "openblas" not in blas_of_numpy().lower():
            return Availability(False, f"NumPy's BLAS is {blas_of_numpy()}, not OpenBLAS")
        core = os.environ.get("OPENBLAS_CORETYPE")
        if not core:
            return Availability(False, "no x86 CPU with AVX2, or its features cannot be read")
        return found._replace(detail=f"{found.detail} (OPENBLAS_CORETYPE={core})")


class Torch(Library):
    """PyTorch's own product of two CPU tensors."""

    name = "torch"
    summary = "torch.matmul on CPU tensors"

    def available(self, threads: int) -> Availability:
        """Import PyTorch, set its threads, turn gradients off."""
        try:
            import torch
        except ImportError as error:
            return Availability(False, f"cannot import torch: {error}")
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        return Availability(True, "", torch.__version__, f"{torch.backends.cpu.get_cpu_capability()} CPU path")

    def bind(
        self, a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None, result: np.dtype[Any] | None = None
    ) -> Bound:
        """`torch.matmul`, or `torch._int_mm`, on tensors that share the operands' memory."""
        import torch

        def tensor(array: np.ndarray) -> Any:
            if array.dtype.name == "bfloat16":
                return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
            try:
                return torch.from_numpy(array)
            except TypeError as error:
                raise Unsupported(str(error)) from error

        def back(c: Any) -> np.ndarray:
            bits: np.ndarray = c.view(torch.int16).numpy() if c.dtype == torch.bfloat16 else c.numpy()
            return bits.view(a.dtype) if c.dtype == torch.bfloat16 else bits

        matmul = torch.matmul
        if result is not None and result != a.dtype:
            if (a.dtype.name, result.name) != ("int8", "int32") or a.ndim != 2:
                raise Unsupported(f"torch has no product of {a.ndim}-D {a.dtype} that is {result}")
            matmul = torch._int_mm
        if out is None:
            return Bound(matmul, tensor(a), tensor(b), back)
        c = tensor(out)
        return Bound(lambda a, b: matmul(a, b, out=c), tensor(a), tensor(b), back)


def blas_of_numpy() -> str:
    """Name and version of the BLAS that NumPy was built with."""
    import numpy as np

    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{blas.get('name', 'unknown BLAS')} {blas.get('version', '')}".strip()


def cpu_flags() -> frozenset[str]:
    """CPU features as Linux lists them; empty where there is no such list or no x86."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return frozenset()
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return frozenset()
    lines = [line.partition(":")[2] for line in text.splitlines() if line.startswith("flags")]
    return frozenset(lines[0].split()) if lines else frozenset()


def openblas_core(flags: frozenset[str]) -> str | None:
    """Name of the OpenBLAS kernels for a set of CPU features.

    Examples
    --------
    >>> openblas_core(frozenset({"avx2", "fma"}))
    'Haswell'
    """
    if {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= flags:
        return "SkylakeX"
    return "Haswell" if {"avx2", "fma"} <= flags else None


def shared_library(distribution: str, stem: str) -> Path | None:
    """Find a shared library of an installed wheel, or of this environment's ``lib``."""
    from importlib import metadata

    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        files = []
    found = [Path(str(file.locate())) for file in files if file.name.startswith(f"{stem}.so")]
    found += (Path(sys.prefix) / "lib").glob(f"{stem}.so*")
    return min((path.resolve() for path in found if path.exists()), default=None, key=lambda path: len(path.name))


def libraries() -> dict[str, type[Library]]:
    """Every library by name, fastgemm first."""
    # Imported here: the two bindings import this module.
    from peer_mkl import Mkl
    from peer_onednn import OneDnn

    return {cls.name: cls for cls in (FastGemm, NumPy, NumPyBest, Torch, Mkl, OneDnn)}
