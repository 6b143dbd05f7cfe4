from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from numpy.typing import ArrayLike, DTypeLike, NDArray

_Axes: TypeAlias = Sequence[int | tuple[int, ...]]
_Signature: TypeAlias = str | tuple[DTypeLike | None, DTypeLike | None, DTypeLike | None]

def matmul(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    out: NDArray[Any] | tuple[NDArray[Any] | None] | None = None,
    *,
    axes: _Axes = ...,
    casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"] = ...,
    order: Literal["K", "A", "C", "F"] = ...,
    dtype: DTypeLike | None = ...,
    subok: bool = ...,
    signature: _Signature = ...,
    sig: _Signature = ...,
) -> Any: ...
def set_wider(function: Callable[[NDArray[Any], NDArray[Any], Any, Any], Any]) -> None: ...
