from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

def add_tables(level: int, rows: object, spans: object) -> None: ...
def scale_into(
    level: int, x: NDArray[Any], out: NDArray[Any], otherwise: Callable[[NDArray[Any]], NDArray[Any]]
) -> None: ...
def bytes_into(
    level: int,
    x: NDArray[Any],
    out: NDArray[Any],
    index: int,
    scale: object,
    zero: object,
    otherwise: Callable[[], object] | None = None,
) -> bool: ...
