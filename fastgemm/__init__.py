"""fastgemm: matrix multiplication that tunes itself to the CPU it runs on.

The way of a call::

    matmul, gemm            _matmul.pyx, blas.py     arrays of any strides
        |
     Problem                problem.py               dtype, sizes, layout, threads
        |
     dispatch               dispatch.py              forced, exact, near, heuristic, numpy
        |                   database.py, heuristic.py
      Config                problem.py               tile, blocks, packing, split
        |
       Plan                 plan.py                  made once, kept in the driver's cache
        |
      driver                driver/                  blocked loops, threads, workspaces
        |
     kernels                kernels/                 templates x registry.py, one module a tier

``python -m fastgemm.tune`` finds better configurations for given shapes and writes them to the database.
"""

from . import threads as _threads
from ._matmul import matmul
from .blas import gemm
from .dispatch import deterministic
from .introspect import explain, show_config
from .threads import get_num_threads, set_num_threads
from .version import VERSION

__version__ = VERSION

threads = _threads.threads

__all__ = [
    "deterministic",
    "explain",
    "gemm",
    "get_num_threads",
    "matmul",
    "set_num_threads",
    "show_config",
    "threads",
]
