"""fastgemm: matrix multiplication that tunes itself to the CPU it runs on.

The way of a call::

    matmul, gemm            _matmul.pyx, blas.py     arrays of any strides
    NumPy's own ``@``       numpy_loops.py           after install(); the loops are in _install.pyx
    dot, tensordot, einsum  products.py, einstein.py, each contraction by _contraction.pyx
    qlinear_matmul          quantized.py, mixed.py   results of another type than the operands: _mixed.pyx
    quantize_weights, ...   to_bytes.py              floats that become bytes, by _to_bytes.pyx
    pack                    packed.py, _packed.pyx   a right operand in the kernels' layout, once
    Chain                   chain.py, _chain.pyx     steps for one block of rows after another; kernels/rows.pyx.tp
    linear, qlinear         layer.py, quantized_layer.py, _linear.pyx; what follows the product is in epilogues.py and
                            kernels/epilogue.pyx.tp
    fresh outputs           _outputs.pyx             memory that begins a cache line, and stays when it is large
        |
     Problem                problem.py               dtype, sizes, layout, threads
        |
     dispatch               dispatch.py              forced, exact, near, heuristic, numpy
        |                   database/, heuristic/
      Config                problem.py               tile, blocks, packing, split
        |
       Plan                 plan.py                  made once, kept in the driver's cache
        |
      driver                driver/                  blocked loops, threads, workspaces
        |
     kernels                kernels/                 templates x registry.py, one module a tier

Tables that several of these read: registry.py (dtypes, ISA tiers, register tiles, families; kinds.py says what such a
row is), numpy_types.py (NumPy's types), activations.py (segments.py: those in pieces), row_operations.py (what chains
do to rows), special_shapes.py (shapes with kernels of their own; special.py loads those that the tuner compiled).
What compiled modules share: _call.pyx (from operands to a plan), _gufunc.pyx (a gufunc of our loops), _gemm.pyx (one
product), _rows.pyx (the row of a call that asks for a type), members.pxd (of a chain), float_errors.pxd, terms.pxd
(what a product of bytes is told besides).
Beside the way: contraction.py and subscripts.py read what einsum is given, introspect.py explains, untuned.py logs
shapes without a record, threads.py counts threads, variables.py reads switches of the environment, allowed.py says
which families and vectors it and the CPU let run, locks.py makes locks that live through a fork, version.py is the
version, _build.py the build.

`fastgemm.graph` compiles whole graphs of such calls: `from fastgemm import graph`.

``python -m fastgemm.tune`` finds better configurations for given shapes and writes them to the database.
"""

try:
    from . import threads as _threads
except ModuleNotFoundError as error:
    if not (error.name or "").startswith(f"{__name__}."):
        raise
    raise ModuleNotFoundError(
        f"{__path__[0]} is not built for this Python ({error}): if fastgemm is installed, start Python in another "
        "folder than its source tree, or build that in place: pip install -e .",
        name=error.name,
    ) from None
from ._matmul import matmul
from .blas import gemm
from .dispatch import deterministic
from .einstein import einsum
from .introspect import explain, show_config
from .layer import linear
from .numpy_loops import install, installed, is_installed, uninstall
from .packed import PackedMatrix, pack
from .products import dot, inner, tensordot
from .quantized import matmul_integer, qlinear_matmul
from .quantized_layer import qlinear
from .threads import get_num_threads, set_num_threads
from .to_bytes import dynamic_quantize_linear, quantize_weights
from .version import VERSION

__version__ = VERSION

threads = _threads.threads

__all__ = [
    "PackedMatrix",
    "deterministic",
    "dot",
    "dynamic_quantize_linear",
    "einsum",
    "explain",
    "gemm",
    "get_num_threads",
    "inner",
    "install",
    "installed",
    "is_installed",
    "linear",
    "matmul",
    "matmul_integer",
    "pack",
    "qlinear",
    "qlinear_matmul",
    "quantize_weights",
    "set_num_threads",
    "show_config",
    "tensordot",
    "threads",
    "uninstall",
]
