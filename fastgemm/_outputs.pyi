from typing import Any

import numpy as np
from numpy.typing import DTypeLike

NAME: str

def fresh(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray[Any, np.dtype[Any]]: ...
def kept() -> int: ...
def keep(bytes: int) -> int: ...
