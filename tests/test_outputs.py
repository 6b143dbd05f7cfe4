"""Fresh outputs: where they begin, who owns them, and what stays of them when they are dropped."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import sysconfig
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from conftest import Child
from numpy._core.multiarray import get_handler_name

import fastgemm
from fastgemm import _outputs

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux takes memory back lazily here")
ROWS, STEPS, COLUMNS = 9000, 2, 1000  # 36 MB of float32
LARGE = ROWS * COLUMNS * 4


def operands() -> tuple[np.ndarray[Any, np.dtype[Any]], np.ndarray[Any, np.dtype[Any]]]:
    """Make operands of a large output, whose element (i, j) is i + j."""
    a = np.stack([np.arange(ROWS), np.ones(ROWS)], axis=1).astype("f4")
    return a, np.stack([np.ones(COLUMNS), np.arange(COLUMNS)]).astype("f4")


# Handlers are called with the GIL held, and AddressSanitizer could not see who writes to a block that is kept.
bare = sysconfig.get_config_var("Py_GIL_DISABLED") or "libasan" in os.environ.get("LD_PRELOAD", "")
keeps = pytest.mark.skipif(bool(bare), reason="nothing is kept in such a build")


@pytest.fixture
def nothing_kept() -> Iterator[None]:
    """Begin and end without a block that is kept; the limit is a GiB meanwhile."""
    gc.collect()
    limit = _outputs.keep(0)
    _outputs.keep(1 << 30)
    yield
    _outputs.keep(0)
    _outputs.keep(limit)


MAKERS: dict[str, Callable[[int], Any]] = {
    "matmul": lambda n: fastgemm.matmul(np.ones((n, 8)), np.ones((8, n))),
    "stack": lambda n: fastgemm.matmul(np.ones((2, n, 8)), np.ones((2, 8, n))),
    "gufunc": lambda n: fastgemm.matmul(np.ones((1, 2, n, 8)), np.ones((1, 2, 8, n))),
    "dot": lambda n: fastgemm.dot(np.ones((n, 8)), np.ones((8, n))),
    "tensordot": lambda n: fastgemm.tensordot(np.ones((n, 2, 4)), np.ones((2, 4, n))),
    "gemm": lambda n: fastgemm.gemm(np.ones((n, 8)), np.ones((8, n))),
    "linear": lambda n: fastgemm.linear(np.ones((n, 8), "f4"), np.ones((n, 8), "f4")),
    "packed": lambda n: np.ones((n, 8)) @ fastgemm.pack(np.ones((8, n))),
    "mixed": lambda n: fastgemm.matmul(np.ones((n, 8), "i1"), np.ones((8, n), "i1"), dtype="i4"),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("n", [16, 17, 33, 65, 300, 600])
def test_large_ones_begin_a_line_and_own_their_memory(name: str, n: int) -> None:
    """From 1 KiB on, or a MiB where NumPy makes them, by the handler of this module; smaller ones are NumPy's."""
    made = MAKERS[name](n)
    if name == "gufunc" and made.nbytes < 1 << 20:
        assert get_handler_name(made) == "default_allocator"
        return
    assert made.ctypes.data % 64 == 0
    assert made.flags.owndata
    assert made.base is None
    assert get_handler_name(made) == "fastgemm"
    assert get_handler_name(MAKERS[name](7)) == "default_allocator"
    assert (made == 8).all()
    assert get_handler_name(np.empty(1 << 20)) == "default_allocator"  # what the program makes stays NumPy's


@pytest.mark.parametrize("n", [4, 20, 90, 400, 3000])
def test_they_can_be_resized(n: int) -> None:
    """As any array that owns its memory."""
    made, left = fastgemm.matmul(np.ones((n, 3)), np.ones((3, n))), n
    handler = get_handler_name(made)
    assert handler == ("default_allocator" if n == 4 else "fastgemm")
    for rows in (n + 1, 2 * n, n // 3, 2, n):
        made.resize((rows, n), refcheck=False)
        left = min(left, rows)
        assert (made[:left] == 3).all()
        assert not made[left:].any()
        assert get_handler_name(made) == handler


@pytest.mark.parametrize(("n", "several"), [(1000, 1), (8, 10_000)])
def test_tracemalloc_sees_them(n: int, several: int) -> None:
    """Memory profilers count them, and see them go."""
    a, b = np.ones((n, 2)), np.ones((2, n))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        made = [fastgemm.matmul(a, b) for _ in range(several)]
        assert tracemalloc.get_traced_memory()[0] - before >= several * made[0].nbytes
        del made
        assert tracemalloc.get_traced_memory()[0] - before < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dtype", ["f4", "f2", ">f8", "c16", "?", ml_dtypes.bfloat16, "M8[s]", "O", "i4,f8", "3i4"])
@pytest.mark.parametrize("shape", [(), (0, 5), (3,), (40, 40), (2, 3, 4, 500)])
def test_fresh_is_empty(dtype: Any, shape: tuple[int, ...]) -> None:
    """Of every type what np.empty makes; of numbers in this module's memory."""
    made, want = _outputs.fresh(shape, dtype), np.empty(shape, dtype)
    assert (made.dtype, made.shape, made.strides) == (want.dtype, want.shape, want.strides)
    assert (made.flags.owndata, made.flags.carray) == (want.flags.owndata, want.flags.carray)
    ours = made.nbytes >= 1 << 10 and dtype not in ("M8[s]", "O", "i4,f8", "3i4")
    assert get_handler_name(made) == ("fastgemm" if ours else "default_allocator")
    for bad in ((-1, 2), (-1, -1), (-3, 1 << 62)):
        with pytest.raises(ValueError, match="negative dimensions"):
            _outputs.fresh(bad, dtype)
    for bad in ((1 << 40, 1 << 40), (1 << 62, 1 << 2)):
        with pytest.raises((ValueError, MemoryError)):
            _outputs.fresh(bad, dtype)


@keeps
def test_small_blocks_are_at_hand() -> None:
    """The block that was dropped last, for an output of as many KiB; an output that is alive has its own."""
    a, b = np.ones((40, 3), "f4"), np.ones((3, 40), "f4")
    several = [fastgemm.matmul(a * i, b) for i in range(9)]
    where = [made.ctypes.data for made in several]
    assert len(set(where)) == 9
    assert all((made == 3 * i).all() for i, made in enumerate(several))
    while several:
        last = several.pop(0).ctypes.data
        again = fastgemm.matmul(a, b[:, :39])
        assert again.ctypes.data == last
        other = fastgemm.matmul(a, b[:, :10])
        assert other.ctypes.data not in where
        assert (again == 3).all()
        several = several[1:]


def test_small_ones_from_many_threads() -> None:
    """Every output its own memory, whoever drops it."""
    x = np.eye(24)

    def work(i: int) -> bool:
        right = True
        for j in range(300):
            made = fastgemm.matmul(x, x * (i + j))
            again = fastgemm.matmul(made, x)
            right = right and made[3, 3] == i + j and again[5, 5] == i + j and not made[3, 4]
        return right

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


@linux
@keeps
@pytest.mark.usefixtures("nothing_kept")
class TestKept:
    """Blocks of more than 64 KiB, for the next output of about their size."""

    def test_the_next_output_takes_the_block(self) -> None:
        a, b = operands()
        made = fastgemm.matmul(a, b)
        where = made.ctypes.data
        assert _outputs.kept() == 0
        del made
        assert _outputs.kept() >= LARGE
        smaller = fastgemm.matmul(a[: ROWS // 2], b)
        assert smaller.ctypes.data != where  # it would waste half of the block
        made = fastgemm.matmul(a[:-100], b)
        assert made.ctypes.data == where
        assert _outputs.kept() == 0
        assert made[5, 7] == 12
        assert np.array_equal(made, np.add.outer(np.arange(ROWS - 100, dtype="f4"), np.arange(COLUMNS, dtype="f4")))

    @pytest.mark.parametrize(("n", "bytes_kept"), [(90, 0), (100, 80_000), (1000, 8_000_000), (2000, 32_000_000)])
    def test_from_64_kib_on(self, n: int, bytes_kept: int) -> None:
        """Smaller ones are kept by another rule."""
        left, right = np.ones((n, 2)), np.arange(2.0 * n).reshape(2, n)
        where = fastgemm.matmul(left, right).ctypes.data
        assert bytes_kept <= _outputs.kept() <= bytes_kept + 64 * (bytes_kept > 0)
        made = fastgemm.matmul(left, right)
        assert made.ctypes.data == where
        assert _outputs.kept() == 0
        assert np.array_equal(made, left @ right)

    def test_not_more_than_the_limit(self) -> None:
        a, b = operands()
        _outputs.keep(2 * LARGE + (1 << 20))
        several = [fastgemm.matmul(a, b) for _ in range(3)]
        last = several[-1].ctypes.data
        while several:
            several.pop(0)
            assert _outputs.kept() <= 2 * LARGE + (1 << 20)
        assert _outputs.kept() >= 2 * LARGE
        assert _outputs.keep(LARGE + (1 << 20)) == 2 * LARGE + (1 << 20)
        assert LARGE <= _outputs.kept() <= LARGE + (1 << 20)
        assert fastgemm.matmul(a, b).ctypes.data == last  # the latest stays
        _outputs.keep(0)
        assert _outputs.kept() == 0

    def test_not_more_than_eight(self) -> None:
        """The latest, and the last of them is the first that is handed out."""
        several = [fastgemm.matmul(np.ones((200, 2)), np.ones((2, 200))) for _ in range(12)]
        where = [made.ctypes.data for made in several]
        assert len(set(where)) == 12
        while several:
            several.pop(0)
        assert 8 * 320_000 <= _outputs.kept() < 9 * 320_000
        again = [fastgemm.matmul(np.ones((200, 2)), np.ones((2, 200))) for _ in range(8)]
        assert [made.ctypes.data for made in again] == where[:3:-1]

    def test_the_system_may_take_the_oldest(self) -> None:
        """What it does not know of are 64 MiB at most; a block that is taken again is the program's."""

        def lazy() -> int:
            with open("/proc/self/smaps_rollup", encoding="ascii") as file:
                return next((int(line.split()[1]) << 10 for line in file if line.startswith("LazyFree:")), -1)

        if lazy() < 0:
            pytest.skip("this system does not say what it may take")
        a, b = operands()
        before = lazy()
        for count, told in ((1, 0), (2, 1), (4, 3), (3, 3), (1, 3)):
            several = [fastgemm.matmul(a, b) for _ in range(count)]
            for made in several:
                assert made[5, 7] == 12
            del several, made
            # Whole huge pages alone.
            assert told * (LARGE - (4 << 20)) <= lazy() - before <= told * (LARGE + (1 << 20))

    def test_they_make_room_for_what_does_not_fit(self) -> None:
        a, b = operands()
        fastgemm.matmul(a, b)
        assert _outputs.kept() >= LARGE
        with pytest.raises(MemoryError):
            fastgemm.matmul(np.ones((1 << 23, 1)), np.ones((1, 1 << 23)))
        assert _outputs.kept() == 0

    def test_from_many_threads(self) -> None:
        a, b = operands()

        def work(i: int) -> bool:
            made = fastgemm.matmul(a[i : ROWS - 20 + i], b)
            return bool(made[0, 0] == i and made[-1, -1] == ROWS - 21 + i + COLUMNS - 1)

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(work, range(20)))
        assert _outputs.kept() < 9 * LARGE

    def test_after_fork(self) -> None:
        a, b = operands()
        fastgemm.matmul(a, b)
        pid = os.fork()
        if not pid:
            made = fastgemm.matmul(a, b)
            os._exit(0 if made[-1, -1] == ROWS + COLUMNS - 2 and made[1, 2] == 3 else 1)
        made = fastgemm.matmul(a, b)
        made[:] = -1
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert (made == -1).all()


@linux
@keeps
@pytest.mark.parametrize(
    ("before", "value", "kept"),
    [
        ("", None, True), ("", "64", True), ("", "0", False), ("", "10", False),
        ("import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 36, 1 << 36))", None, False),
    ],
)  # fmt: skip
def test_what_the_environment_says(child: Child, before: str, value: str | None, kept: bool) -> None:
    """FASTGEMM_KEEP_MIB bounds what stays; where the address space is limited nothing does."""
    code = f"import numpy as np, fastgemm\n{before}\n" + (
        "fastgemm.matmul(np.ones((9000, 2), 'f4'), np.ones((2, 1000), 'f4'))\n"
        "from fastgemm import _outputs\nprint(_outputs.kept())"
    )
    assert (int(child(code, FASTGEMM_KEEP_MIB=value).stdout) >= LARGE) is kept


def test_a_limit_that_is_no_number_is_ignored(child: Child) -> None:
    """With a warning, as a number of threads is."""
    for text in ("many", "-1", "1e3", "9" * 30, "²"):
        done = child("import fastgemm", FASTGEMM_KEEP_MIB=text)
        assert "FASTGEMM_KEEP_MIB" in done.stderr
        assert "RuntimeWarning" in done.stderr


def test_a_handler_of_the_program_is_asked_instead() -> None:
    """Whoever has set one with NumPy's C API wants to see every array."""
    table = ctypes.pythonapi.PyCapsule_GetPointer
    table.restype, table.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    api = ctypes.cast(table(np._core._multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(api[304])
    get_handler = ctypes.PYFUNCTYPE(ctypes.py_object)(api[305])
    # A copy of NumPy's own, by another name.
    default = get_handler()
    struct = ctypes.create_string_buffer(ctypes.string_at(table(default, b"mem_handler"), 128 + 5 * 8))
    struct[: len(b"theirs\0")] = b"theirs\0"
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    theirs = new(ctypes.addressof(struct), b"mem_handler", None)
    before = set_handler(theirs)
    try:
        names = {name: get_handler_name(make(600)) for name, make in MAKERS.items()}
    finally:
        set_handler(before)
    assert set(names.values()) == {"theirs"}
    assert get_handler_name(MAKERS["matmul"](600)) == "fastgemm"
