from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike, NDArray

from fastgemm._packed import Panels, Right

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
def dequantised_into(
    level: int,
    a: NDArray[Any],
    b: Panels,
    c: NDArray[Any],
    code: int,
    bias: NDArray[Any] | None,
    residual: NDArray[Any] | None,
    p: float,
    q: float,
    scale: NDArray[Any],
    a_zero: NDArray[Any] | None,
) -> None: ...
def late_into(
    level: int,
    a: NDArray[Any],
    b: Panels,
    c: NDArray[Any],
    code: int,
    bias: NDArray[Any] | None,
    p: float,
    q: float,
    a_zero: NDArray[Any],
    scale: NDArray[Any],
    factor: NDArray[Any] | None,
    space: NDArray[Any] | None,
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
def set_general(function: Callable[..., NDArray[Any]], level: Callable[[], int | None]) -> None: ...
def linear(
    x: ArrayLike,
    weight: ArrayLike | Right,
    bias: ArrayLike | None = None,
    *,
    activation: str | tuple[Any, ...] | None = None,
    residual: ArrayLike | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]: ...
