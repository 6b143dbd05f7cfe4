from typing import Any

from numpy.typing import NDArray

from fastgemm._packed import Panels

def add_table(level: int, capsule: object) -> None: ...
def product_into(
    level: int,
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any],
    code: int,
    bias: NDArray[Any] | None,
    residual: NDArray[Any] | None,
    p: float,
    q: float,
) -> bool: ...
def packed_into(
    level: int,
    a: NDArray[Any],
    b: Panels,
    c: NDArray[Any],
    code: int,
    bias: NDArray[Any] | None,
    residual: NDArray[Any] | None,
    p: float,
    q: float,
) -> None: ...
def finish_into(
    level: int,
    c: NDArray[Any],
    code: int,
    bias: NDArray[Any] | None,
    residual: NDArray[Any] | None,
    p: float,
    q: float,
) -> None: ...
def quick(
    level: int | None, x: object, weight: object, bias: object, activation: object, residual: object, out: object
) -> NDArray[Any] | None: ...
