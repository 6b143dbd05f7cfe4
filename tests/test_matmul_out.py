"""`out=` of `fastgemm.matmul`: every layout, every overlap, every error, as in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import FLOATS, MatMul, integers, same

import fastgemm

A = np.arange(6.0).reshape(2, 3)
B = np.arange(12.0).reshape(3, 4)

PROBES: dict[str, Callable[[MatMul], Any]] = {
    "plain": lambda mm: mm(A, B, out=np.empty((2, 4))),
    "positional": lambda mm: mm(A, B, np.empty((2, 4))),
    "positional None": lambda mm: mm(A, B, None),
    "None": lambda mm: mm(A, B, out=None),
    "Ellipsis": lambda mm: mm(A, B, out=...),
    "Ellipsis for a scalar": lambda mm: mm(A[0], A[0], out=...),
    "tuple": lambda mm: mm(A, B, out=(np.empty((2, 4)),)),
    "tuple of None": lambda mm: mm(A, B, out=(None,)),
    "tuple of two": lambda mm: mm(A, B, out=(np.empty((2, 4)), None)),
    "empty tuple": lambda mm: mm(A, B, out=()),
    "list": lambda mm: mm(A, B, out=[[0.0] * 4] * 2),
    "wrong rows": lambda mm: mm(A, B, out=np.empty((3, 4))),
    "wrong columns": lambda mm: mm(A, B, out=np.empty((2, 5))),
    "rows of one": lambda mm: mm(A, B, out=np.empty((1, 4))),
    "1-d": lambda mm: mm(A, B, out=np.empty(4)),
    "0-d": lambda mm: mm(A, B, out=np.empty(())),
    "extra stack axis": lambda mm: mm(A, B, out=np.empty((5, 2, 4))),
    "extra stack axes": lambda mm: mm(A, B, out=np.empty((2, 5, 2, 4))),
    "stack too short": lambda mm: mm(np.stack([A] * 3), B, out=np.empty((2, 2, 4))),
    "stack of one": lambda mm: mm(np.stack([A] * 3), B, out=np.empty((1, 2, 4))),
    "stack missing": lambda mm: mm(np.stack([A] * 3), B, out=np.empty((2, 4))),
    "vector, extra axis": lambda mm: mm(A[0], B, out=np.empty((5, 4))),
    "vector, wrong": lambda mm: mm(A[0], B, out=np.empty(5)),
    "int": lambda mm: mm(A, B, out=np.empty((2, 4), "i8")),
    "int, unsafe": lambda mm: mm(A, B, out=np.empty((2, 4), "i8"), casting="unsafe"),
    "f4": lambda mm: mm(A, B, out=np.empty((2, 4), "f4")),
    "c16": lambda mm: mm(A, B, out=np.empty((2, 4), "c16")),
    "f8 of complex": lambda mm: mm(A + 0j, B, out=np.empty((2, 4))),
    "object": lambda mm: mm(A, B, out=np.empty((2, 4), "O")),
    "byte-swapped": lambda mm: mm(A, B, out=np.empty((2, 4), ">f8")),
    "f8 of f4": lambda mm: mm(A.astype("f4"), B.astype("f4"), out=np.empty((2, 4))),
    "f4 and dtype f8": lambda mm: mm(A, B, out=np.empty((2, 4), "f4"), dtype="f8"),
    "read-only": lambda mm: mm(A, B, out=frozen(np.empty((2, 4)))),
    "order is ignored": lambda mm: mm(A, B, out=np.empty((2, 4)), order="F"),
    "axes": lambda mm: mm(A, B, out=np.empty((4, 2)), axes=[(0, 1), (0, 1), (1, 0)]),
    "mismatched operands": lambda mm: mm(A, A, out=np.empty((2, 3))),
    "M=0": lambda mm: mm(A[:0], B, out=np.empty((0, 4))),
    "M=0 wrong": lambda mm: mm(A[:0], B, out=np.empty((1, 4))),
    "batch 0 wrong": lambda mm: mm(np.ones((0, 1, 1)), np.ones((0, 1, 1)), out=np.ones((1, 1, 1))),
    "broadcast out": lambda mm: mm(A, B, out=np.broadcast_to(np.empty(4), (2, 4))),
}


def frozen(a: np.ndarray) -> np.ndarray:
    """Make an array read-only."""
    a.flags.writeable = False
    return a


@pytest.mark.parametrize("name", PROBES)
def test_probe(name: str) -> None:
    same(PROBES[name])


def test_out_is_returned() -> None:
    out = np.empty((2, 4))
    assert fastgemm.matmul(A, B, out=out) is out
    assert fastgemm.matmul(A, B, out) is out
    assert fastgemm.matmul(A, B, out=(out,)) is out
    scalar = np.empty(())
    assert fastgemm.matmul(A[0], A[0], out=scalar) is scalar
    assert fastgemm.matmul(A[0].astype("f4"), A[0].astype("f4"), out=scalar) is scalar


def test_errors_leave_out_alone() -> None:
    out = np.full((2, 4), 7.0)
    with pytest.raises(ValueError, match="mismatch"):
        fastgemm.matmul(A, A, out=out)
    assert (out == 7).all()


# The way a view of the right shape is cut out of a larger buffer.
VIEWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C": lambda x: x[0, :9, :17],
    "F": lambda x: x[0, :17, :9].T,
    "row step": lambda x: x[0, :18:2, :17],
    "column step": lambda x: x[0, :9, :34:2],
    "both steps": lambda x: x[0, :27:3, :34:2],
    "rows reversed": lambda x: x[0, 8::-1, :17],
    "columns reversed": lambda x: x[0, :9, 16::-1],
    "both reversed": lambda x: x[0, 8::-1, 16::-1],
    "F reversed": lambda x: x[0, 16::-1, 8::-1].T,
    "offset": lambda x: x[0, 1:10, 1:18],
    "depth": lambda x: x.reshape(-1, 3)[: 9 * 17, 1].reshape(9, 17),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("char", FLOATS)
def test_layouts_of_out(char: str, view: str) -> None:
    """The product lands in the view, and nothing around it changes."""
    a, b = integers((9, 21), char, 1), integers((21, 17), char, 2)

    def call(mm: MatMul) -> Any:
        buffer = np.full((3, 40, 40), np.nan, char)
        out = VIEWS[view](buffer)
        assert mm(a, b, out=out) is out
        return out.copy(), buffer

    same(call)


@pytest.mark.parametrize("char", FLOATS)
def test_extra_stack_axes(char: str) -> None:
    a, b = integers((1, 4, 6), char, 1), integers((6, 5), char, 2)
    for shape in [(3, 4, 5), (2, 3, 4, 5), (1, 1, 1, 4, 5)]:
        same(lambda mm, shape=shape: mm(a, b, out=np.empty(shape, char)))
    same(lambda mm: mm(a, b, out=np.empty((6, 4, 5), char)[::-2]))
    same(lambda mm: mm(a, b, out=np.empty((4, 3, 5), char).swapaxes(0, 1)))
    same(lambda mm: mm(a[0, 0], b, out=np.empty((3, 5), char)))
    same(lambda mm: mm(a, b[:, 0], out=np.empty((2, 3, 4), char)))


OVERLAPS: dict[str, Callable[[MatMul, np.ndarray, np.ndarray], Any]] = {
    "out is a": lambda mm, x, y: mm(x[:9, :9], y[:9, :9], out=x[:9, :9]),
    "out is b": lambda mm, x, y: mm(y[:9, :9], x[:9, :9], out=x[:9, :9]),
    "out is a is b": lambda mm, x, y: mm(x[:9, :9], x[:9, :9], out=x[:9, :9]),
    "out is a transposed": lambda mm, x, y: mm(x[:9, :9], y[:9, :9], out=x[:9, :9].T),
    "out is b transposed": lambda mm, x, y: mm(y[:9, :9], x[:9, :9], out=x[:9, :9].T),
    "a reversed": lambda mm, x, y: mm(x[:9, :9], y[:9, :9], out=x[8::-1, :9]),
    "b columns reversed": lambda mm, x, y: mm(y[:9, :9], x[:9, :9], out=x[:9, 8::-1]),
    "shifted rows of a": lambda mm, x, y: mm(x[:9, :9], y[:9, :9], out=x[1:10, :9]),
    "shifted columns of a": lambda mm, x, y: mm(x[:9, :9], y[:9, :9], out=x[:9, 1:10]),
    "shifted rows of b": lambda mm, x, y: mm(y[:9, :9], x[1:10, :9], out=x[:9, :9]),
    "shifted columns of b": lambda mm, x, y: mm(y[:9, :9], x[:9, 1:10], out=x[:9, :9]),
    "part of a": lambda mm, x, y: mm(x[:9, :20], y[:20, :9], out=x[:9, 3:12]),
    "part of b": lambda mm, x, y: mm(y[:9, :20], x[:20, :9], out=x[11:20, :9]),
    "interleaved, no overlap": lambda mm, x, y: mm(x[:18:2, :9], y[:9, :9], out=x[1:18:2, :9]),
    "row of b": lambda mm, x, y: mm(y[0, :20], x[:20, :20], out=x[3, :20]),
    "column of a": lambda mm, x, y: mm(x[:20, :20], y[0, :20], out=x[:20, 3]),
    "vector onto itself": lambda mm, x, y: mm(y[:20, :20], x[0, :20], out=x[0, :20]),
    "vector onto itself reversed": lambda mm, x, y: mm(x[0, :20], y[:20, :20], out=x[0, 19::-1]),
    "stack shifted by one": lambda mm, x, y: mm(
        x.reshape(16, 8, 8)[:8], y.reshape(16, 8, 8)[:8], out=x.reshape(16, 8, 8)[1:9]
    ),
    "stack, out is shared a": lambda mm, x, y: mm(
        x.reshape(16, 8, 8)[3], y.reshape(16, 8, 8)[:8], out=x.reshape(16, 8, 8)[:8]
    ),
    "stack, out is shared b": lambda mm, x, y: mm(
        y.reshape(16, 8, 8)[:8], x.reshape(16, 8, 8)[3], out=x.reshape(16, 8, 8)[:8]
    ),
    "stack reversed": lambda mm, x, y: mm(x.reshape(16, 8, 8), y.reshape(16, 8, 8), out=x.reshape(16, 8, 8)[::-1]),
}


@pytest.mark.parametrize("name", OVERLAPS)
@pytest.mark.parametrize("char", FLOATS)
def test_overlap(char: str, name: str) -> None:
    x, y = integers((32, 32), char, 1), integers((32, 32), char, 2)

    def call(mm: MatMul) -> Any:
        ours, theirs = x.copy(), y.copy()
        return OVERLAPS[name](mm, ours, theirs), ours, theirs

    same(call)


@pytest.mark.parametrize("char", FLOATS)
@pytest.mark.parametrize("size", [64, 200])
def test_overlap_of_large_operands(char: str, size: int) -> None:
    """Larger than a cache block of packed data, so that a copy made by packing does not hide an overlap."""
    x, y = integers((size + 1, size), char, 1), integers((size, size), char, 2)

    def call(mm: MatMul) -> Any:
        onto_a, onto_b = x.copy(), x.copy()
        mm(onto_a[:size], y, out=onto_a[1:])
        mm(y, onto_b[:size], out=onto_b[1:])
        return onto_a, onto_b

    same(call)


@pytest.mark.parametrize("char", FLOATS)
def test_unaligned_out(char: str) -> None:
    a, b = integers((9, 21), char, 1), integers((21, 17), char, 2)

    def call(mm: MatMul) -> Any:
        out = np.zeros(9 * 17 * a.itemsize + 1, "u1")[1:].view(char).reshape(9, 17)
        return mm(a, b, out=out)

    same(call)


def test_memmap_out(tmp_path: Path) -> None:
    def call(mm: MatMul) -> Any:
        out = np.memmap(tmp_path / "out.bin", dtype="f8", mode="w+", shape=(2, 4))
        return mm(A, B, out=out)

    same(call)


def test_overlap_of_views_of_one_memory() -> None:
    """Vectors, matrices and stacks, operands and output anywhere in the same numbers: as from copies of them."""
    rng = np.random.default_rng(11)
    memory = np.empty(500, "f4")

    def view(shape: tuple[int, ...]) -> np.ndarray:
        # Axes in any order and with gaps; never two elements in one place.
        strides, step = [0] * len(shape), int(rng.integers(1, 3))
        for axis in rng.permutation(len(shape)):
            strides[axis] = 4 * step
            step *= shape[axis] + int(rng.integers(0, 2))
        reach = sum((size - 1) * stride // 4 for size, stride in zip(shape, strides, strict=True))
        start = int(rng.integers(0, 500 - reach))
        found = np.lib.stride_tricks.as_strided(memory[start:], shape, strides)
        return found[tuple(slice(None, None, int(rng.choice([1, -1]))) for _ in shape)]

    overlapping = 0
    for _ in range(4000):
        batch, m, n, k = (int(size) for size in rng.integers(1, 5, 4))
        left = [(k,), (m, k), (batch, m, k)][rng.integers(3)]
        right = [(k,), (k, n), (batch, k, n)][rng.integers(3)]
        memory[:] = rng.integers(-9, 9, 500)
        a, b = view(left), view(right)
        want = np.matmul(a.copy(), b.copy())
        if want.ndim:
            out = view(want.shape)
            overlapping += np.shares_memory(a, out) or np.shares_memory(b, out)
            assert np.array_equal(fastgemm.matmul(a, b, out), want), (left, right)
    assert overlapping > 200
