"""`fastgemm.matmul` answers every probe of the contract as `np.matmul` does."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import FLOATS, MatMul, integers, outcome, same

import fastgemm

A = np.arange(6.0).reshape(2, 3)
B = np.arange(12.0).reshape(3, 4)
STACK = np.arange(7 * 5 * 2 * 3.0).reshape(7, 5, 2, 3)
HUGE = {"f2": 60000.0, "f4": 3e38, "f8": 1e308}


def f(mm: MatMul, *args: Any, **kwargs: Any) -> Any:
    """Call with copies, so that a probe cannot disturb the next one."""
    return mm(*(a.copy("K") if isinstance(a, np.ndarray) else a for a in args), **kwargs)


PROBES: dict[str, Callable[[MatMul], Any]] = {
    "plain": lambda mm: f(mm, A, B),
    "keepdims=False": lambda mm: f(mm, A, B, keepdims=False),
    "keepdims=True": lambda mm: f(mm, A, B, keepdims=True),
    "axis=0": lambda mm: f(mm, A, B, axis=0),
    "where": lambda mm: f(mm, A, B, where=True),
    "unknown keyword": lambda mm: mm(A, B, fast=True),
    "order=F": lambda mm: f(mm, A, B, order="F"),
    "order=C": lambda mm: f(mm, A, B, order="C"),
    "order=A": lambda mm: f(mm, A, B, order="A"),
    "order=K": lambda mm: f(mm, A, B, order="K"),
    "order=Z": lambda mm: f(mm, A, B, order="Z"),
    "order=K both F": lambda mm: f(mm, np.asfortranarray(A), np.asfortranarray(B)),
    "order=A both F": lambda mm: f(mm, np.asfortranarray(A), np.asfortranarray(B), order="A"),
    "order=C both F": lambda mm: f(mm, np.asfortranarray(A), np.asfortranarray(B), order="C"),
    "batch layout follows inputs": lambda mm: mm(STACK.swapaxes(0, 1), B),
    "batch layout, order=C": lambda mm: mm(STACK.swapaxes(0, 1), B, order="C"),
    "batch layout, order=F": lambda mm: mm(STACK.swapaxes(0, 1), B, order="F"),
    "batch reversed": lambda mm: mm(STACK[::-1, ::-1], B),
    "batch, second operand permuted": lambda mm: mm(np.ones((4, 7)), STACK.transpose(2, 0, 1, 3)),
    "batch and core axes mixed": lambda mm: mm(STACK.transpose(2, 0, 1, 3), STACK.transpose(2, 0, 3, 1)),
    "batch F order": lambda mm: mm(np.asfortranarray(STACK), B),
    "dtype=f4": lambda mm: f(mm, A, B, dtype="f4"),
    "dtype=f4 casting=safe": lambda mm: f(mm, A, B, dtype="f4", casting="safe"),
    "dtype=i8 casting=unsafe": lambda mm: f(mm, A, B, dtype="i8", casting="unsafe"),
    "dtype=i8": lambda mm: f(mm, A, B, dtype="i8"),
    "dtype=f8 of f4": lambda mm: mm(A.astype("f4"), B.astype("f4"), dtype="f8"),
    "dtype=None": lambda mm: f(mm, A, B, dtype=None),
    "dtype nonsense": lambda mm: f(mm, A, B, dtype="nonsense"),
    "casting nonsense": lambda mm: f(mm, A, B, casting="nonsense"),
    "casting=no": lambda mm: mm(A.astype(">f8"), B, casting="no"),
    "casting=equiv": lambda mm: mm(A.astype(">f8"), B, casting="equiv"),
    "signature ff->f": lambda mm: f(mm, A, B, signature="ff->f"),
    "signature tuple": lambda mm: f(mm, A, B, signature=(None, None, "f4")),
    "signature and dtype": lambda mm: f(mm, A, B, signature="ff->f", dtype="f4"),
    "sig": lambda mm: f(mm, A, B, sig="ff->f"),
    "subok=True": lambda mm: f(mm, A, B, subok=True),
    "int8 wraps": lambda mm: mm(np.full((1, 2), 100, "i1"), np.full((2, 1), 16, "i1")),
    "uint8 @ int8": lambda mm: mm(np.ones((2, 2), "u1"), np.ones((2, 2), "i1")),
    "int64 @ uint64": lambda mm: mm(np.ones((2, 2), "i8"), np.ones((2, 2), "u8")),
    "f2 overflow": lambda mm: mm(np.full((1, 2), 60000, "f2"), np.full((2, 1), 2, "f2")),
    "f2 @ i2": lambda mm: mm(np.ones((2, 2), "f2"), np.ones((2, 2), "i2")),
    "f4 @ f8": lambda mm: mm(A.astype("f4"), B),
    "f4 @ c8": lambda mm: mm(A.astype("f4"), B.astype("c8")),
    "f8 @ c8": lambda mm: mm(A, B.astype("c8")),
    "bool @ int": lambda mm: mm(np.ones((2, 2), "?"), np.ones((2, 2), "i8")),
    "bool @ bool": lambda mm: mm(np.ones((1, 3), "?"), np.ones((3, 1), "?")),
    "lists": lambda mm: mm([[1, 2]], [[3], [4]]),
    "float lists": lambda mm: mm([[1.0, 2.0]], [[3.0], [4.0]]),
    "array @ list": lambda mm: mm(A, [1.0, 2.0, 3.0]),
    "int8 @ list": lambda mm: mm(np.ones((1, 1), "i1"), [1]),
    "f4 @ float list": lambda mm: mm(np.ones((1, 1), "f4"), [1.5]),
    "ragged": lambda mm: mm([[1, 2], [3]], B),
    "0-d left": lambda mm: mm(2.0, B),
    "0-d right": lambda mm: mm(A, np.float64(2)),
    "0-d array": lambda mm: mm(np.array(1.0), B),
    "None operand": lambda mm: mm(None, B),
    "1-d @ 1-d": lambda mm: mm(np.arange(3.0), np.arange(3.0)),
    "1-d @ 2-d": lambda mm: mm(np.arange(3.0), B),
    "2-d @ 1-d": lambda mm: mm(A, np.arange(3.0)),
    "1-d @ 3-d": lambda mm: mm(np.arange(2.0), STACK[0]),
    "3-d @ 1-d": lambda mm: mm(STACK[0], np.arange(3.0)),
    "4-d @ 1-d strided": lambda mm: mm(STACK, np.arange(6.0)[::-2]),
    "1-d @ 1-d, out 0-d": lambda mm: mm(np.arange(3.0), np.arange(3.0), out=np.empty(())),
    "1-d @ 1-d, K=0": lambda mm: mm(np.empty(0), np.empty(0)),
    "1-d mismatch": lambda mm: mm(np.empty(2), np.empty(3)),
    "K=0": lambda mm: mm(np.empty((2, 0)), np.empty((0, 3))),
    "K=0 stack": lambda mm: mm(np.empty((5, 2, 0)), np.empty((0, 3))),
    "K=0 object": lambda mm: mm(np.empty((2, 0), "O"), np.empty((0, 3), "O")),
    "K=0 out": lambda mm: mm(np.empty((2, 0)), np.empty((0, 3)), out=np.full((2, 3), np.nan)),
    "M=0": lambda mm: mm(np.empty((0, 3)), np.empty((3, 2))),
    "N=0": lambda mm: mm(np.empty((2, 3)), np.empty((3, 0))),
    "M=N=K=0": lambda mm: mm(np.empty((0, 0)), np.empty((0, 0))),
    "batch 0": lambda mm: mm(np.empty((0, 2, 2)), np.empty((2, 2))),
    "batch 0 @ batch 1": lambda mm: mm(np.empty((0, 2, 2)), np.empty((1, 2, 2))),
    "M=0 mismatch": lambda mm: mm(np.empty((0, 3)), np.empty((2, 2))),
    "broadcast": lambda mm: mm(STACK, np.ones((5, 3, 4))),
    "broadcast both ways": lambda mm: mm(np.ones((7, 1, 2, 3)), np.ones((5, 3, 4))),
    "broadcast strides 0": lambda mm: mm(np.broadcast_to(A, (6, 2, 3)), B),
    "broadcast mismatch": lambda mm: mm(np.ones((2, 2, 3)), np.ones((3, 3, 4))),
    "core mismatch": lambda mm: mm(A, A),
    "core mismatch stack": lambda mm: mm(STACK, A),
    "32 dimensions": lambda mm: mm(np.ones((1,) * 30 + (2, 3)), B),
    "64 dimensions": lambda mm: mm(np.ones((1,) * 62 + (2, 3)), np.ones((1,) * 62 + (3, 2))),
    "axes": lambda mm: mm(A.T.copy(), B, axes=[(1, 0), (0, 1), (0, 1)]),
    "axes out transposed": lambda mm: mm(A, B, axes=[(0, 1), (0, 1), (1, 0)]),
    "axes stack": lambda mm: mm(STACK, STACK, axes=[(-2, -1), (-1, -2), (0, 1)]),
    "axes vector": lambda mm: mm(STACK[0], np.arange(2.0), axes=[(2, 1), 0, 0]),
    "axes not a list": lambda mm: mm(A, B, axes=((0, 1), (0, 1), (0, 1))),
    "axes too few": lambda mm: mm(A, B, axes=[(0, 1), (0, 1)]),
    "axes out of range": lambda mm: mm(A, B, axes=[(0, 5), (0, 1), (0, 1)]),
    "axes repeated": lambda mm: mm(A, B, axes=[(0, 0), (0, 1), (0, 1)]),
    "byte-swapped": lambda mm: mm(A.astype(">f8"), B),
    "byte-swapped both": lambda mm: mm(A.astype(">f4"), B.astype(">f4")),
    "timedelta @ int": lambda mm: mm(np.ones((2, 2), "m8[s]"), np.ones((2, 2), "i8")),
    "datetime": lambda mm: mm(np.ones((2, 2), "M8[s]"), np.ones((2, 2), "M8[s]")),
    "str": lambda mm: mm(np.array([["a"]]), np.array([["b"]])),
    "bytes": lambda mm: mm(np.array([[b"a"]]), np.array([[b"b"]])),
    "void": lambda mm: mm(np.zeros((2, 2), "V4"), np.zeros((2, 2), "V4")),
    "StringDType": lambda mm: mm(*[np.array([["a"]], dtype=np.dtypes.StringDType())] * 2),
    "structured": lambda mm: mm(np.ones((2, 2), "i4,i4"), np.ones((2, 2), "i4,i4")),
    "object mixed": lambda mm: mm(np.array([[1, 2.5]], "O"), np.array([[3], [1]], "O")),
    "object strings": lambda mm: mm(np.array([["a"]], "O"), np.array([[2]], "O")),
    "object without add": lambda mm: mm(np.array([[None, 1]], "O"), np.array([[1], [1]], "O")),
    "longdouble": lambda mm: mm(A.astype("g"), B.astype("g")),
    "clongdouble": lambda mm: mm(A.astype("G"), B.astype("G")),
    "nan in a zero row": lambda mm: mm(np.zeros((1, 2)), np.array([[np.nan], [1.0]])),
    "inf times 0": lambda mm: mm(np.array([[np.inf]]), np.array([[0.0]])),
    "complex is not conjugated": lambda mm: mm(np.array([1j, 2]), np.array([1j, 3])),
    "negative zero": lambda mm: np.signbit(mm(np.array([[-0.0]]), np.array([[1.0]]))),
    "read-only operands": lambda mm: mm(np.frombuffer(A.tobytes()).reshape(2, 3), B),
    "memoryview": lambda mm: mm(memoryview(A), memoryview(B)),
}


@pytest.mark.parametrize("name", PROBES)
def test_probe(name: str) -> None:
    same(PROBES[name])


CALLS: dict[str, Callable[[MatMul], Any]] = {
    "no arguments": lambda mm: mm(),
    "one argument": lambda mm: mm(A),
    "four arguments": lambda mm: mm(A, B, None, None),
    "operands by keyword": lambda mm: mm(x1=A, x2=B),
    "unknown keyword": lambda mm: mm(A, B, fast=True),
    "out twice": lambda mm: mm(A, B, np.empty((2, 4)), out=np.empty((2, 4))),
    "sig and signature": lambda mm: mm(A, B, sig="ff->f", signature="ff->f"),
}


@pytest.mark.parametrize("name", CALLS)
def test_wrong_calls(name: str) -> None:
    """Argument errors are of NumPy's type; the wording is the interpreter's."""
    want, got = outcome(CALLS[name], np.matmul), outcome(CALLS[name], fastgemm.matmul)
    assert want.error is not None
    assert got.error is not None
    assert got.error[0] is want.error[0]


@pytest.mark.parametrize("char", HUGE)
def test_overflow_warns(char: str) -> None:
    same(lambda mm: mm(np.full((2, 2), HUGE[char], char), np.full((2, 2), 10, char)))


@pytest.mark.parametrize("left", [*np.typecodes["All"]])
def test_every_pair_of_dtypes(left: str) -> None:
    for right in np.typecodes["All"]:
        try:
            a, b = np.ones((2, 3)).astype(left), np.ones((3, 2)).astype(right)
        except (TypeError, ValueError):
            a, b = np.zeros((2, 3), left), np.zeros((3, 2), right)
        same(lambda mm, a=a, b=b: mm(a, b))


@pytest.mark.parametrize("char", "?bBhHiIlLqQefdgFDGO")
@pytest.mark.parametrize(
    "shapes", [((4, 5), (5, 6)), ((5,), (5, 6)), ((4, 5), (5,)), ((5,), (5,)), ((3, 4, 5), (5, 6))]
)
def test_every_dtype_with_a_loop(char: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = integers(shapes[0], char, 1), integers(shapes[1], char, 2)
    same(lambda mm: mm(a, b))
    swapped = a.dtype.newbyteorder()
    same(lambda mm: mm(a.astype(swapped), b.astype(swapped)))
    same(lambda mm: mm(a.T.copy().T, b[::-1].copy()[::-1]))
    same(lambda mm: mm(unaligned(a), unaligned(b)))


def unaligned(a: np.ndarray) -> np.ndarray:
    """Copy to an address one byte off (objects cannot be moved there)."""
    if a.dtype.hasobject:
        return a
    buffer = np.empty(a.nbytes + 1, "u1")[1:]
    moved = buffer.view(a.dtype).reshape(a.shape)
    moved[...] = a
    return moved


@pytest.mark.parametrize("char", FLOATS)
def test_layout_of_result(char: str) -> None:
    """Every permutation of the axes of a stack, in every requested order."""
    a = integers((3, 2, 4, 5), char, 1)
    for axes, order in itertools.product(itertools.permutations(range(4)), "KCFA"):
        x = a.transpose(axes)
        y = np.ones((x.shape[-1], 2), char)
        same(lambda mm, x=x, y=y, order=order: mm(x, y, order=order))


def test_results_are_independent() -> None:
    """A result is new memory each time: nothing is handed out twice."""
    results = [same(lambda mm: mm(A, B)) for _ in range(4)]
    for r in results:
        r += 1
    for one, other in itertools.combinations(results, 2):
        assert not np.shares_memory(one, other)


def test_operands_are_left_alone() -> None:
    for char in FLOATS:
        a, b = integers((33, 40), char, 1), integers((40, 50), char, 2)
        before = a.tobytes(), b.tobytes()
        same(lambda mm, a=a, b=b: mm(a, b))
        assert (a.tobytes(), b.tobytes()) == before


@pytest.mark.parametrize("char", FLOATS)
@pytest.mark.parametrize("shape", [(7, 5, 40, 33), (3, 130, 2200, 70), (40, 20, 60, 150)], ids=str)
def test_stack_whose_products_share_one_side(shape: tuple[int, ...], char: str) -> None:
    """One matrix for a whole stack, rows of the others apart, so that the stack is not one tall product."""
    batch, m, k, n = shape
    a = integers((batch, m + 1, k), char, 1)[:, :m]
    for b in (integers((k, n), char, 2), integers((n, k), char, 3).T):
        want = np.matmul(a, b)
        for threads in (1, 2, 3):
            with fastgemm.threads(threads):
                assert np.array_equal(fastgemm.matmul(a, b), want)
                assert np.array_equal(fastgemm.matmul(b.T, a.swapaxes(1, 2)), want.swapaxes(1, 2))


@pytest.mark.parametrize("char", FLOATS)
def test_narrow_rows_side_by_side(char: str) -> None:
    """A few columns whose rows follow each other: several of them lie in one vector, at any address."""
    for columns in (1, 2, 3, 4, 8, 16, 17):
        for k in (1, 7, 8, 16, 17, 31, 33, 130):
            room, x = integers((k * columns + 1,), char, columns), integers((k,), char, k)
            for shift in (0, 1):
                b = room[shift : shift + k * columns].reshape(k, columns)
                want = np.matmul(x, b)
                assert np.array_equal(fastgemm.matmul(x, b), want)
                assert np.array_equal(fastgemm.matmul(b.T, x), want)
                assert np.array_equal(fastgemm.gemm(x[None], b, want[None], beta=1)[0], want + want)


def test_stacks_in_any_order_of_axes() -> None:
    """With one stack dimension NumPy's result is in C order: so is ours, for any order, direction and gap of axes."""
    rng = np.random.default_rng(8)

    def stack(shape: tuple[int, ...]) -> np.ndarray:
        order = rng.permutation(3)
        full = rng.integers(-9, 9, [2 * shape[axis] for axis in order]).astype("f4").transpose(np.argsort(order))
        steps = rng.choice([1, 2, -1, -2], 3)
        cut = full[tuple(slice(None, None, step) for step in steps)][tuple(slice(0, size) for size in shape)]
        return np.broadcast_to(cut[:1], shape) if rng.random() < 0.1 else cut

    for _ in range(600):
        batch, m, n, k = (int(size) for size in rng.integers(1, 6, 4))
        a, b = stack((batch, m, k)), stack((batch, k, n))
        for left, right in ((a, b), (a[0], b), (a, b[0]), (a, b[0, :, 0]), (a[0, 0], b)):
            want, got = np.matmul(left, right), fastgemm.matmul(left, right)
            assert np.array_equal(got, want)
            assert got.strides == want.strides
            out = np.full(want.shape, np.nan, "f4")[..., ::-1] if want.ndim > 1 else np.empty(want.shape, "f4")
            assert np.array_equal(fastgemm.matmul(left, right, out), want)
