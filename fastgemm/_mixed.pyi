from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray

def product(
    a: NDArray[Any],
    b: NDArray[Any],
    out: NDArray[Any],
    kind: str,
    a_zero: NDArray[Any] | None = None,
    b_zero: NDArray[Any] | None = None,
    terms: tuple[Any, ...] | None = None,
) -> bool: ...
def products(items: Iterable[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]], kind: str) -> bool: ...
