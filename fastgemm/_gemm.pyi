from typing import Any

from numpy.typing import NDArray

def gemm_into(
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any],
    alpha: complex,
    beta: complex,
    conj_a: bool = False,
    conj_b: bool = False,
) -> bool: ...
