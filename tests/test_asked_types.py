"""Calls that ask for the type of the result, and operands whose type is not NumPy's own: the short way and the long."""

from __future__ import annotations

import itertools
import sys
import textwrap
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from conftest import Child
from oracle import integers, same

import fastgemm

BF = np.dtype(ml_dtypes.bfloat16)
# What the operands hold, what is asked for.
ROWS = [("i1", "i4"), ("u1", "i4"), ("f2", "f4"), (BF, "f4"), (BF, BF), ("i1", "i1"), ("f4", "f4"), ("?", "?")]
SIZES = [(1, 1, 1), (2, 2, 2), (16, 16, 16), (1, 40, 33), (40, 1, 33), (1, 1, 70), (17, 35, 66), (64, 64, 65)]


def operands(m: int, n: int, k: int, kind: Any) -> tuple[np.ndarray, np.ndarray]:
    return integers((m, k), kind, 1, high=2), integers((k, n), kind, 2, high=2)


def product(a: np.ndarray, b: np.ndarray, result: Any) -> np.ndarray:
    if np.dtype(result).kind == "b":
        return np.matmul(a, b)
    return np.asarray(np.matmul(a.astype("i8"), b.astype("i8"))).astype(result)


@pytest.mark.parametrize(("kind", "result"), ROWS)
def test_every_way_of_asking(kind: Any, result: Any) -> None:
    """By a type, a dtype, a name, an output, and both; vectors, matrices, stacks, columns as rows."""
    for m, n, k in SIZES:
        a, b = operands(m, n, k, kind)
        want = product(a, b, result)
        named = np.dtype(result)
        for asked in (named, named.type):
            got = fastgemm.matmul(a, b, dtype=asked)
            assert got.dtype == named
            assert np.array_equal(got, want)
            out = np.empty((m, n), named)
            assert fastgemm.matmul(a, b, out, dtype=asked) is out
            assert np.array_equal(out, want)
            columns = np.zeros((n, m), named).T
            assert fastgemm.matmul(a, b, dtype=asked, out=columns) is columns
            assert np.array_equal(columns, want)
            assert np.array_equal(fastgemm.matmul(a[0], b, dtype=asked), want[0])
            assert np.array_equal(fastgemm.matmul(a, b[:, 0], dtype=asked), want[:, 0])
            scalar = fastgemm.matmul(a[0], b[:, 0], dtype=asked)
            assert scalar == want[0, 0]
            assert scalar.dtype == named
            stack = np.stack([a, a[::-1]])
            assert np.array_equal(fastgemm.matmul(stack, b, dtype=asked), np.stack([want, want[::-1]]))
            assert np.array_equal(fastgemm.matmul(b.T, a.T, dtype=asked), want.T)


def test_an_integer_output_does_not_ask() -> None:
    """NumPy's integers wrap in their own width, whatever they are written to."""
    a = np.full((4, 70), 100, "i1")
    same(lambda f: f(a, a.T, np.zeros((4, 4), "i4")))
    same(lambda f: f(a, a.T, out=np.zeros((4, 4), "i4")))
    same(lambda f: f(a, a.T, dtype="i4", out=np.zeros((4, 4), "i4")))
    assert fastgemm.matmul(a, a.T, dtype="i4")[0, 0] == 700_000


@pytest.mark.parametrize("dtype", ["i1", "f2", "f4"])
def test_what_no_row_takes_is_numpys(dtype: str) -> None:
    a = np.ones((3, 3), dtype)
    for asked in ("f8", "i8", ">i4", np.float64, "nonsense", "S3", object, None, float, int, ">f4"):
        same(lambda f, asked=asked: f(a, a, dtype=asked))
    same(lambda f: f(a, a, dtype="i4", out=np.zeros((3, 4), "i4")))
    same(lambda f: f(a, a, dtype="f4", out=(np.zeros((3, 3), "f4"),)))
    same(lambda f: f(a, a, dtype="i4", casting="no"))
    same(lambda f: f(a, np.ones((4, 3), dtype), dtype="i4"))
    # A name that is not interned is the same keyword.
    same(lambda f: f(a, a, **{"".join(["dt", "ype"]): "f4"}))


def test_operands_that_take_the_long_way() -> None:
    """Swapped bytes, odd addresses, overlap with the output, stacks whose axes NumPy orders."""
    a, b = operands(9, 8, 7, "i1")
    want = product(a, b, "i4")
    raw = np.zeros(9 * 7 + 1, "i1")
    odd = raw[1:].reshape(9, 7)
    odd[...] = a
    assert np.array_equal(fastgemm.matmul(odd, b, dtype="i4"), want)
    words = np.zeros(9 * 8 * 4 + 1, "i1")
    out = words[1:].view("i4").reshape(9, 8)
    assert fastgemm.matmul(a, b, out, dtype="i4") is out
    assert np.array_equal(out, want)
    half = integers((6, 6), "f2", 3).astype(">f2")
    assert np.array_equal(fastgemm.matmul(half, half, dtype="f4"), np.matmul(half.astype("f4"), half.astype("f4")))
    deep = np.stack([a, a]).swapaxes(0, 1).copy().swapaxes(0, 1)
    assert np.array_equal(fastgemm.matmul(deep, b, dtype="i4"), np.stack([want, want]))
    memory = np.zeros((8, 8), "f4")
    shared = memory.view("f2")[:, ::2]
    shared[...] = integers((8, 8), "f2", 4)
    kept = shared.copy()
    got = fastgemm.matmul(shared, shared, out=memory)
    assert np.array_equal(got, np.matmul(kept.astype("f4"), kept.astype("f4")))


def test_signs_and_lines_of_a_in_place() -> None:
    """Rows that end inside a word, rows apart, columns apart, and a C whose columns are not adjacent."""
    for k, m, (x, y) in itertools.product(range(1, 18), (1, 5, 13), itertools.product(("i1", "u1"), repeat=2)):
        wide_a, wide_b = np.arange(m * 40, dtype="i8").reshape(m, 40), np.arange(k * 50, dtype="i8").reshape(k, 50)
        a, b = (wide_a * 37 % 256).astype("u1").view(x), (wide_b * 91 % 256).astype("u1").view(y)
        for left, right in ((a[:, :k], b[:, :19]), (a[:, 1 : k + 1], b[:, ::2]), (a[:, :k][::-1], b[:, 3:4])):
            want = np.matmul(left.astype("i4"), right.astype("i4"))
            assert np.array_equal(fastgemm.matmul(left, right, dtype="i4"), want)
            out = np.zeros((m, 2 * right.shape[1]), "i4")[:, ::2]
            assert np.array_equal(fastgemm.matmul(left, right, out, dtype="i4"), want)


@pytest.mark.parametrize(("left", "right", "asked"), [
    ("i1", "i1", "i4"), ("f2", "f2", "f4"), (BF, BF, None), ("f4", "c8", None), ("c16", "f8", None),
])  # fmt: skip
def test_stacks_lie_in_the_order_of_the_operands(left: Any, right: Any, asked: Any) -> None:
    """As NumPy's: a result's leading axes in the operands' order, its last two as ever."""
    keywords = {} if asked is None else {"dtype": asked}
    for order in itertools.permutations(range(3)):
        back = (*np.argsort(order), 3, 4)
        for sizes in ((2, 3, 4), (2, 1, 4), (1, 3, 1)):
            a = integers((*[sizes[i] for i in order], 5, 6), left, 1, high=2).transpose(back)
            b = integers((*[(2, 3, 4)[i] for i in order], 6, 7), right, 2, high=2).transpose(back)
            for one, other in ((a, b), (a, b[0]), (a[0], b), (a[:, ::-1], b), (a, b[0, 0, 0]), (a, b.copy())):
                same(lambda f, x=one, y=other: f(x, y, **keywords))


@pytest.mark.skipif(sys.platform != "linux", reason="pages are guarded by libc's mprotect")
def test_memory_past_an_operand_is_not_read(child: Child) -> None:
    """Operands that end where a page begins that nobody may touch, in every order."""
    code = """
        import ctypes, itertools, mmap
        import ml_dtypes, numpy as np, fastgemm
        libc = ctypes.CDLL(None, use_errno=True)
        page = mmap.PAGESIZE
        kept = []
        def guarded(array):
            size = array.nbytes
            room = -(-size // page) * page
            memory = mmap.mmap(-1, room + page)
            kept.append(memory)
            start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            assert libc.mprotect(ctypes.c_void_p(start + room), page, 0) == 0
            made = np.frombuffer(memory, "u1", size, room - size).view(array.dtype).reshape(array.shape)
            made[...] = array
            return made
        rng = np.random.default_rng(0)
        for (m, n, k) in [(3, 20, 7), (6, 64, 13), (1, 33, 5), (16, 17, 63), (1, 1, 9), (40, 1, 31), (7, 100, 3)]:
            for kind, result in (("i1", "i4"), ("u1", "i4"), (ml_dtypes.bfloat16, "f4"), ("f2", "f4")):
                x, y = rng.integers(0, 4, (m, k)).astype(kind), rng.integers(0, 4, (k, n)).astype(kind)
                want = x.astype("i8") @ y.astype("i8")
                for a, b in itertools.product((guarded(x), guarded(x.T).T), (guarded(y), guarded(y.T).T)):
                    assert (fastgemm.matmul(a, b, dtype=result) == want).all(), (m, n, k, kind)
        print("done")
    """
    assert child(textwrap.dedent(code)).stdout.strip() == "done"
