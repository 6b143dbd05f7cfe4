"""What a process that times libraries inherits: every BLAS must choose its kernels as it does where it is installed.

`OPENBLAS_CORETYPE` is set on some machines for all programs, against bugs of old versions. OpenBLAS then runs the
kernels of that name, on a newer CPU at half its speed, and a comparison with it says little of NumPy.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

# What makes OpenBLAS choose other kernels, or blocks, than it would by itself.
CHOICES = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def without_choices(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for a process whose BLAS chooses for itself.

    Examples
    --------
    >>> without_choices({"OPENBLAS_CORETYPE": "Haswell", "HOME": "/root"})
    {'HOME': '/root'}
    """
    return {name: value for name, value in environment.items() if name not in CHOICES}


def let_choose() -> None:
    """Start this script again where its own BLAS, which has been loaded by now, was told what to choose."""
    told = [f"{name}={os.environ[name]}" for name in CHOICES if name in os.environ]
    if told:
        left = f"(starting again without {' '.join(told)}: NumPy is timed as it is installed)"
        print(left, file=sys.stderr, flush=True)
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], without_choices(os.environ))


def one_thread(*more: str) -> None:
    """Give each library one thread, and what else is named: before any of them is imported."""
    os.environ.update(dict.fromkeys((*ONE_THREAD, *more), "1"))
