from typing import Any

from numpy.typing import NDArray

def contract(
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any],
    stack: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
    free_a: tuple[tuple[int, ...], tuple[int, ...]],
    free_b: tuple[tuple[int, ...], tuple[int, ...]],
    summed: tuple[tuple[int, ...], tuple[int, ...]],
    name: bytes | None,
) -> bool: ...
def plain_dot(x1: object, x2: object, out: object, transposed: bool, name: bytes) -> Any: ...
