"""LIBXSMM's small kernels, called from a C loop: a call through ctypes would cost more than the product.

The loop is compiled when it is asked for, against what is installed (Debian: libxsmm-dev), into a folder that is
removed at exit.  `load` says why where that does not work.
"""

from __future__ import annotations

import atexit
import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

# Row-major C = A B is LIBXSMM's column-major C' = B' A'.
SOURCE = r"""
#include <libxsmm.h>
#define LOOP(NAME, TYPE, FUNCTION, DISPATCH) \
    void *NAME##_kernel(int m, int n, int k) { \
        const TYPE alpha = 1, beta = 0; \
        const int flags = LIBXSMM_GEMM_FLAG_NONE, prefetch = LIBXSMM_PREFETCH_NONE; \
        libxsmm_init(); \
        return (void *)DISPATCH(n, m, k, &n, &k, &n, &alpha, &beta, &flags, &prefetch); \
    } \
    void NAME##_run(void *kernel, long count, const char *a, long step_a, const char *b, long step_b, \
                    char *c, long step_c) { \
        const FUNCTION f = (FUNCTION)kernel; \
        for (; count > 0; count--, a += step_a, b += step_b, c += step_c) \
            f((const TYPE *)b, (const TYPE *)a, (TYPE *)c); \
    }
LOOP(f32, float, libxsmm_smmfunction, libxsmm_smmdispatch)
LOOP(f64, double, libxsmm_dmmfunction, libxsmm_dmmdispatch)
"""
NAMES = {"float32": "f32", "float64": "f64"}


class Libxsmm:
    """Dispatched kernels and the loop around them."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.shared = library

    def kernel(self, dtype: str, m: int, n: int, k: int) -> int:
        """Return the kernel for a shape, 0 where LIBXSMM has none."""
        make = getattr(self.shared, f"{NAMES[dtype]}_kernel")
        make.restype = ctypes.c_void_p
        return make(m, n, k) or 0

    def run(self, kernel: int, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        """Compute a stack: three-dimensional arrays, each product without gaps."""
        loop = getattr(self.shared, f"{NAMES[a.dtype.name]}_run")
        pairs = [(ctypes.c_void_p(x.ctypes.data), ctypes.c_long(x.strides[0])) for x in (a, b, c)]
        operands = [value for pair in pairs for value in pair]
        loop(ctypes.c_void_p(kernel), ctypes.c_long(len(a)), *operands)


def load() -> tuple[Libxsmm | None, str]:
    """Return LIBXSMM, or None and the reason."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None, "no C compiler for the loop around its kernels"
    folder = tempfile.mkdtemp(prefix="fastgemm-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    source, made = Path(folder) / "loop.c", Path(folder) / "loop.so"
    source.write_text(SOURCE, encoding="utf-8")
    command = [compiler, "-O2", "-fPIC", "-shared", str(source), "-o", str(made)]
    done = subprocess.run(
        [*command, "-lxsmm", "-lxsmmnoblas", "-lpthread", "-ldl", "-lrt", "-lm"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line or "cannot find" in line]
        return None, (lines or ["the compiler failed"])[0].strip()
    try:
        return Libxsmm(ctypes.CDLL(str(made))), ""
    except OSError as error:
        return None, str(error)
