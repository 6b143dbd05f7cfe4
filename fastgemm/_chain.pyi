from collections.abc import Callable, Sequence
from typing import Any, Self

from numpy.typing import NDArray

from fastgemm.plan import Plan
from fastgemm.registry import DType
from fastgemm.row_operations import RowOp

SLOTS: int

def add_table(level: int, capsule: object) -> None: ...

class Chain:
    @property
    def rows(self) -> int: ...
    @property
    def block(self) -> int: ...
    @property
    def scratch(self) -> int: ...
    @property
    def workspace(self) -> int: ...
    @property
    def kept(self) -> int: ...
    def __new__(
        cls, members: Sequence[Any], outer: tuple[int, ...], rows: int, block: int, scratch: int = 0
    ) -> Self: ...
    def add_product(
        self,
        n: int,
        k: int,
        a: Any,
        b: Any,
        c: Any,
        row: DType,
        level: int,
        plans: Callable[[int], Plan],
        again: bool,
        more: bool,
        finish: tuple[Any, ...] | None,
        sums: tuple[Any, ...],
    ) -> None: ...
    def add_rows(
        self,
        n: int,
        x: Any,
        y: Any,
        op: RowOp,
        kinds: tuple[str, ...],
        level: int,
        p: float,
        quants: tuple[float, ...],
        vectors: Sequence[Any],
        parts: tuple[Any, ...] | None,
    ) -> None: ...
    def add_finish(self, n: int, x: Any, y: Any, row: DType, level: int, finish: tuple[Any, ...]) -> None: ...
    def run(self, arrays: Sequence[NDArray[Any]], threads: int | None = None) -> None: ...
