"""The cycles that this thread has run, counted by the CPU: no clock rate and no other process enters into them.

Linux alone, and only where `perf_event_paranoid` and the sandbox let a process count its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
from collections.abc import Callable, Iterator

# perf_event_open(2): its number, the size of its first version of attributes that knows all used here, and two of the
# flags at offset 40: neither the kernel's cycles nor a hypervisor's.
_CALL = {"x86_64": 298, "aarch64": 241}
_SIZE, _FLAGS_AT, _FLAGS = 112, 40, 1 << 5 | 1 << 6


@contextlib.contextmanager
def counter() -> Iterator[Callable[[], int] | None]:
    """Give what reads this thread's cycles so far; None where they cannot be counted.

    Examples
    --------
    >>> with counter() as count:
    ...     told = count is None or count() <= count()
    >>> told
    True
    """
    number = _CALL.get(platform.machine()) if platform.system() == "Linux" else None
    attributes = bytearray(_SIZE)
    struct.pack_into("II", attributes, 0, 0, _SIZE)
    struct.pack_into("Q", attributes, _FLAGS_AT, _FLAGS)
    kept = (ctypes.c_char * _SIZE).from_buffer(attributes)
    handle = -1 if number is None else ctypes.CDLL(None).syscall(number, kept, 0, -1, -1, 0)
    if handle < 0:
        yield None
        return
    try:
        yield lambda: int(struct.unpack("q", os.read(handle, 8))[0])
    finally:
        os.close(handle)
