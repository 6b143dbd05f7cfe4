"""dot, inner, tensordot and einsum answer as NumPy's, and their products run on our kernels."""

from __future__ import annotations

import importlib
import inspect
import string
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import Child
from oracle import FLOATS, assert_identical, integers, normal, outcome

import fastgemm
from fastgemm import contraction, einstein, subscripts
from fastgemm.driver import _plan
from fastgemm.problem import Problem

hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")
pytestmark = pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
NAMES = ("dot", "inner", "tensordot", "einsum")
Function = Callable[..., Any]
Call = Callable[[Function], Any]


@pytest.fixture(autouse=True)
def _no_size_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let einsum use kernels for the small sums of these tests too."""
    monkeypatch.setattr(einstein, "SMALL", 0)


def same(name: str, call: Call) -> Any:
    """Assert that a function answers as NumPy's of this name: result, layout, error, warnings."""
    want = outcome(call, getattr(np, name))
    got = outcome(call, getattr(fastgemm, name))
    assert got.error == want.error
    assert got.warned == want.warned
    assert_identical(got.result, want.result)
    return got.result


def shaped(draw: Any, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """An array of small integers with any kind of strides."""
    array = integers(shape, dtype, draw(st.integers(0, 99)))
    kind = draw(st.sampled_from(("C", "F", "reversed", "sliced", "permuted", "swapped", "unaligned", "broadcast")))
    if kind == "F":
        return np.asfortranarray(array)
    if kind == "reversed":
        return array[tuple([slice(None, None, -1)] * array.ndim)]
    if kind == "sliced" and array.ndim:
        return np.repeat(array, 2, axis=-1)[..., ::2]
    if kind == "permuted":
        order = draw(st.permutations(range(array.ndim)))
        return array.transpose(order).copy().transpose(np.argsort(order))
    if kind == "swapped":
        return array.astype(array.dtype.newbyteorder())
    if kind == "unaligned":
        raw = np.empty(array.nbytes + 1, "u1")[1:].view(array.dtype).reshape(array.shape)
        raw[...] = array
        return raw
    if kind == "broadcast" and array.ndim and array.shape[0]:
        return np.broadcast_to(array[0], array.shape)
    return array


DTYPES = (*FLOATS, *FLOATS, "i4", "f2", "?", "g")
SIZE = st.sampled_from((1, 2, 3, 4, 5, 0))


# ---- against NumPy -------------------------------------------------------------------------------------------------


@hypothesis.settings(deadline=None, max_examples=300, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(st.data())
@pytest.mark.parametrize("name", ["dot", "inner"])
def test_dot_and_inner(name: str, data: Any) -> None:
    draw = data.draw
    k = draw(SIZE)
    left = (*draw(st.lists(SIZE, max_size=3)), k)
    right = list(draw(st.lists(SIZE, max_size=3)))
    right.insert(max(len(right) - 1, 0) if name == "dot" else len(right), k if draw(st.integers(0, 9)) else k + 1)
    a = shaped(draw, left if draw(st.integers(0, 9)) else (), draw(st.sampled_from(DTYPES)))
    b = shaped(draw, tuple(right) if draw(st.integers(0, 9)) else (), draw(st.sampled_from(DTYPES)))
    same(name, lambda f: f(a, b))


@hypothesis.settings(deadline=None, max_examples=300, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(st.data())
def test_tensordot(data: Any) -> None:
    draw = data.draw
    shape_a, shape_b = draw(st.lists(SIZE, max_size=4)), draw(st.lists(SIZE, max_size=4))
    count = draw(st.integers(0, min(len(shape_a), len(shape_b))))
    axes_a = draw(st.permutations(range(len(shape_a))))[:count]
    axes_b = draw(st.permutations(range(len(shape_b))))[:count]
    for i, j in zip(axes_a, axes_b, strict=True):
        shape_b[j] = shape_a[i] + (draw(st.integers(0, 19)) == 0)
    a = shaped(draw, tuple(shape_a), draw(st.sampled_from(DTYPES)))
    b = shaped(draw, tuple(shape_b), draw(st.sampled_from(DTYPES)))
    forms: list[Any] = [(axes_a, axes_b), ([i - a.ndim for i in axes_a], tuple(axes_b)), count]
    if count == 1:
        forms.append((axes_a[0], axes_b[0]))
    axes = draw(st.sampled_from(forms))
    same("tensordot", lambda f: f(a, b, axes))


@st.composite
def sums(draw: Any) -> tuple[str, list[np.ndarray]]:
    """Subscripts and operands of an einsum."""
    sizes = dict(zip("abcdef", draw(st.lists(st.integers(1, 4), min_size=6, max_size=6)), strict=True))
    terms = draw(st.lists(st.text("abcdef", max_size=4), min_size=1, max_size=3))
    present = sorted(set("".join(terms)))
    output = "".join(draw(st.permutations(present))[: draw(st.integers(0, len(present)))])
    dots = draw(st.integers(0, 4)) == 0
    extra = [(draw(st.integers(1, 3)),) * draw(st.integers(0, 2)) if dots else () for _ in terms]
    arrays = [
        shaped(draw, (*more, *[sizes[c] for c in term]), draw(st.sampled_from(DTYPES)))
        for term, more in zip(terms, extra, strict=True)
    ]
    mark = "..." if dots else ""
    text = ",".join(mark + term for term in terms)
    return (text + "->" + mark + output if draw(st.booleans()) else text), arrays


@hypothesis.settings(deadline=None, max_examples=600, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(sums(), st.sampled_from("KACFk"))
def test_einsum(case: tuple[str, list[np.ndarray]], order: str) -> None:
    text, arrays = case
    same("einsum", lambda f: f(text, *arrays, order=order))


def test_einsum_of_narrow_dtypes() -> None:
    """What is summed over one operand alone is summed in the dtype of the result."""
    for dtype in ("?", "i1", "u1", "f2"):
        a = np.full((50, 3, 3), 1 if dtype == "?" else 100).astype(dtype)
        same("einsum", lambda f, a=a: f("xij,jk->ik", a, np.eye(3, 4)))
        same("einsum", lambda f, a=a: f("xii,ik->k", a, np.eye(3, 4)))
        for optimize in (True, "optimal"):
            want = np.einsum("xij,jk,kl->il", a, np.eye(3), np.eye(3), optimize=optimize)
            assert np.array_equal(fastgemm.einsum("xij,jk,kl->il", a, np.eye(3), np.eye(3), optimize=optimize), want)


@pytest.mark.parametrize("optimize", [False, True])
def test_sums_of_halves_over_one_operand_alone(optimize: bool) -> None:
    """They leave float16 where their products with the other operand do not."""
    x, y = np.full((32, 32, 40), 32768, "f2"), np.full((32, 32), 2.0**-15, "f2")
    for text, arrays in (
        ("abk,bc->ac", (x, y)), ("bc,abk->ca", (y, x)), ("abk,bcl->a", (x, -y[..., None])),
        ("abk,bc->ac", (x, np.ones_like(y))),
    ):  # fmt: skip
        want = np.einsum(text, *arrays)
        with np.errstate(all="raise"):
            got = fastgemm.einsum(text, *arrays, optimize=optimize)
            out = np.empty_like(want)
            assert fastgemm.einsum(text, *arrays, optimize=optimize, out=out) is out
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(out, want)


# NumPy 2.0 makes an array without axes of an optimised sum to a number, its successors a scalar.
LEAVES_ARRAYS = isinstance(np.einsum(",,", *[np.array(2.0)] * 3, optimize=True), np.ndarray)


@hypothesis.settings(deadline=None, max_examples=300, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(sums(), st.sampled_from((True, "greedy", "optimal", ("greedy", 50))))
def test_einsum_optimized(case: tuple[str, list[np.ndarray]], optimize: Any) -> None:
    """The same but for the layout, in which NumPy's optimised sums differ from its own."""
    text, arrays = case
    want = outcome(lambda f: f(text, *arrays, optimize=optimize), np.einsum)
    got = outcome(lambda f: f(text, *arrays, optimize=optimize), fastgemm.einsum)
    assert got.error == want.error
    if want.error is None:
        assert type(got.result) is type(want.result) or (np.ndim(want.result) == 0 and LEAVES_ARRAYS)
        assert got.result.dtype == want.result.dtype
        np.testing.assert_array_equal(got.result, want.result)


@pytest.mark.parametrize("dtype", FLOATS)
def test_large(dtype: str) -> None:
    """Rounding stays within bounds where sums are long."""
    a, b = normal((30, 40, 50), dtype, 1), normal((50, 40, 20), dtype, 2)
    eps = np.finfo(dtype).eps
    want = np.einsum("ijk,kjl->il", a.astype("c16"), b.astype("c16"), optimize=True)
    for got in (
        fastgemm.einsum("ijk,kjl->il", a, b),
        fastgemm.tensordot(a, b, ([1, 2], [1, 0])),
        fastgemm.dot(a.reshape(30, -1), b.transpose(1, 0, 2).reshape(-1, 20)),
        fastgemm.inner(a.reshape(30, -1), b.transpose(2, 1, 0).reshape(20, -1)),
    ):
        assert np.abs(got - want).max() < 2000 * eps * 10


# ---- outputs -------------------------------------------------------------------------------------------------------


OUTS: list[Callable[[], Any]] = [
    lambda: np.empty((3, 5)),
    lambda: np.empty((3, 5), "f4"),
    lambda: np.empty((3, 5), "c16"),
    lambda: np.empty((3, 5), order="F"),
    lambda: np.empty((3, 10))[:, ::2],
    lambda: np.empty((5, 3)).T,
    lambda: np.empty((5, 3)),
    lambda: np.empty(15),
    lambda: np.empty((3, 5), ">f8"),
    lambda: np.empty(3 * 5 * 8 + 1, "u1")[1:].view("f8").reshape(3, 5),
    lambda: np.broadcast_to(np.empty(5), (3, 5)),
    lambda: np.empty((3, 5)).view(np.matrix),
    lambda: [[0.0] * 5] * 3,
]


@pytest.mark.parametrize("number", range(len(OUTS)))
def test_out(number: int) -> None:
    a, b = integers((3, 4), "f8", 1), integers((4, 5), "f8", 2)

    def into(f: Function, *arguments: Any) -> Any:
        out = OUTS[number]()
        result = f(*arguments, a, b, out=out)
        return result is out, np.asarray(out)

    same("dot", into)
    same("einsum", lambda f: into(f, "ij,jk->ik"))
    same("einsum", lambda f: into(f, "ij,jk"))


def test_out_of_higher_dimensions() -> None:
    a, b = integers((2, 3, 4), "f8", 1), integers((5, 4, 6), "f8", 2)

    def into(f: Function, *arguments: Any, shape: tuple[int, ...] = (2, 3, 5, 6)) -> Any:
        out = np.empty(shape)
        return f(*arguments, out=out) is out, out

    same("dot", lambda f: into(f, a, b))
    same("dot", lambda f: into(f, a, b, shape=(2, 3, 6, 5)))
    same("dot", lambda f: into(f, a[0, 0], b[0, :, 0], shape=()))
    same("dot", lambda f: f(a[0], b[0], None))
    same("einsum", lambda f: into(f, "aij,bjk->aibk", a, b))
    same("einsum", lambda f: into(f, "aij,bjk->kbia", a, b, shape=(6, 5, 3, 2)))
    same("einsum", lambda f: into(f, "aij,bjk->", a, b, shape=()))


def test_out_that_overlaps() -> None:
    def over(f: Function, text: tuple[str, ...] = ()) -> Any:
        a, b = integers((6, 6), "f8", 1), integers((6, 6), "f8", 2)
        return f(*text, a, b, out=b), f(*text, a, b, out=a), a, b

    same("dot", over)
    same("einsum", lambda f: over(f, ("ij,jk->ik",)))
    stack = integers((3, 4, 4), "f8", 3)
    got = fastgemm.einsum("bij,bjk->bik", stack, stack, out=(copy := stack.copy()))
    assert got is copy
    mine = stack.copy()
    assert np.array_equal(fastgemm.einsum("bij,bjk->bik", mine, mine, out=mine), got)


# ---- errors, warnings, what goes to NumPy --------------------------------------------------------------------------


A, B = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
ODD: list[tuple[str, Call]] = [
    ("dot", lambda f: f(A, A)),
    ("dot", lambda f: f(A, 2)),
    ("dot", lambda f: f(2, 3)),
    ("dot", lambda f: f(A, np.array(2.0))),
    ("dot", lambda f: f(np.array(2.0), np.array(3.0))),
    ("dot", lambda f: f([1.0, 2.0], [3.0, 4.0])),
    ("dot", lambda f: f(A, "x")),
    ("dot", lambda f: f(A)),
    ("dot", lambda f: f(a=A, b=B)),
    ("dot", lambda f: f(A, B, 3)),
    ("dot", lambda f: f(A.view(np.matrix), B)),
    ("dot", lambda f: f(np.ma.array(A, mask=A > 2), B)),
    ("dot", lambda f: f(A.astype("O"), B)),
    ("dot", lambda f: f(A.astype("M8[s]"), B)),
    ("dot", lambda f: f(np.array(["a"]), np.array(["b"]))),
    ("inner", lambda f: f(A, B)),
    ("inner", lambda f: f(A, A.astype("O"))),
    ("inner", lambda f: f(2.0, A)),
    ("inner", lambda f: f(A, np.array(2.0))),
    ("inner", lambda f: f([1, 2], [3, 4])),
    ("tensordot", lambda f: f(A, B)),
    ("tensordot", lambda f: f(A, B, 1)),
    ("tensordot", lambda f: f(A, B, axes=1)),
    ("tensordot", lambda f: f(A, B, -1)),
    ("tensordot", lambda f: f(A, B, 3)),
    ("tensordot", lambda f: f(A, B, 1.0)),
    ("tensordot", lambda f: f(A, B, ([1, 1], [0, 0]))),
    ("tensordot", lambda f: f(A, B, ([1], [0, 1]))),
    ("tensordot", lambda f: f(A, B, ([5], [0]))),
    ("tensordot", lambda f: f(A, B, ([1],))),
    ("tensordot", lambda f: f(A, B, (np.array([1]), np.array([0])))),
    ("tensordot", lambda f: f(A, B, ((1,), (0,)))),
    ("tensordot", lambda f: f(A, B, ([], []))),
    ("tensordot", lambda f: f(A, B, np.int64(1))),
    ("tensordot", lambda f: f(A, B, (np.int64(1), np.int8(0)))),
    ("tensordot", lambda f: f(A, B, iter([[np.int64(1)], [np.int64(0)]]))),
    ("tensordot", lambda f: f(A, B, iter([1, 0]))),
    ("tensordot", lambda f: f(A, B, iter([[1], [5]]))),
    ("tensordot", lambda f: f(A, B, iter([[1], 0.0]))),
    ("tensordot", lambda f: f(A, B, [iter([1]), [0]])),
    ("tensordot", lambda f: f(A, B, ([True], [0]))),
    ("tensordot", lambda f: f(2.0, 3.0, 0)),
    ("tensordot", lambda f: f(A.tolist(), B.tolist(), 1)),
    ("tensordot", lambda f: f(A.view(np.matrix), B, 1)),
    ("einsum", lambda f: f()),
    ("einsum", lambda f: f("ij,jk", A)),
    ("einsum", lambda f: f("ij,jk", A, A)),
    ("einsum", lambda f: f("ij,jk->ii", A, B)),
    ("einsum", lambda f: f("ij,jk->iz", A, B)),
    ("einsum", lambda f: f("i1,jk", A, B)),
    ("einsum", lambda f: f("i1,1k->ik", A, B)),
    ("einsum", lambda f: f("ij,jk->", A, B)),
    ("einsum", lambda f: f(" i j , j k -> i k ", A, B)),
    ("einsum", lambda f: f("ij,jk->ik->", A, B)),
    ("einsum", lambda f: f("...j,jk", A, B)),
    ("einsum", lambda f: f("...j,j...->...", A, B[:, 0])),
    ("einsum", lambda f: f("......j,jk", A, B)),
    ("einsum", lambda f: f("...ij,jk->ik", A[None], B)),
    ("einsum", lambda f: f("...ij,...jk->...ik", A[None], B)),
    ("einsum", lambda f: f("...ij,...jk->ik", A, B)),
    ("einsum", lambda f: f("...ijk,k->i", A, B)),
    ("einsum", lambda f: f("ij,...jk", A[None], B[None])),
    ("einsum", lambda f: f("...Aj,jB->...AB", A[None], B)),
    ("einsum", lambda f: f(A, [0, 1], B, [1, 2])),
    ("einsum", lambda f: f(A, [0, 1], B, [1, 2], [2, 0])),
    ("einsum", lambda f: f(A, [0, 1], B, (1, 30), [30, 0])),
    ("einsum", lambda f: f(A, [..., 1], B, [1, 2], [..., 2])),
    ("einsum", lambda f: f(A, [..., 1], B, [1, 30])),
    ("einsum", lambda f: f(A, [0, 1], B, [1, 30], optimize=True)),
    ("einsum", lambda f: f(A, [0, 60], B, [60, 2])),
    ("einsum", lambda f: f(A, [0, -1], B, [1, 2])),
    ("einsum", lambda f: f(A, [0, "j"], B, [1, 2])),
    ("einsum", lambda f: f(A, [0, 1], B)),
    ("einsum", lambda f: f("ij,jk", A, B, dtype="f4")),
    ("einsum", lambda f: f("ij,jk", A, B, dtype="f4", casting="same_kind")),
    ("einsum", lambda f: f("ij,jk", A, B, dtype="f8", casting="no")),
    ("einsum", lambda f: f("ij,jk", A, B, dtype="c16")),
    ("einsum", lambda f: f("ij,jk", A, B, dtype=float)),
    ("einsum", lambda f: f("ij,jk", A, B, dtype="nonsense")),
    ("einsum", lambda f: f("ij,jk", A, B.astype("f4"), casting="no")),
    ("einsum", lambda f: f("ij,jk", A, B, casting="nonsense")),
    ("einsum", lambda f: f("ij,jk", A, B, order="X")),
    ("einsum", lambda f: f("ij,jk", A, B, order=None)),
    ("einsum", lambda f: f("ij,jk", A, B, nonsense=1)),
    ("einsum", lambda f: f("ij,jk", A, B, nonsense=1, optimize=True)),
    ("einsum", lambda f: f("ij,jk,kl", A, B, B.T, optimize="nonsense")),
    ("einsum", lambda f: f("ij,jk,kl", A, B, B.T)),
    ("einsum", lambda f: f("ij,jk,kl", A, B, B.T, optimize=[(0, 1), (0, 1)])),
    ("einsum", lambda f: f("ij,jk", A.view(np.matrix), B)),
    ("einsum", lambda f: f("ij,jk", A.tolist(), B)),
    ("einsum", lambda f: f("ij,jk", A.astype("O"), B)),
    ("einsum", lambda f: f("ij,ij->ij", A[:1], A)),
    ("einsum", lambda f: f("ij,jk->ik", A[:, :1], B)),
    ("einsum", lambda f: f("ij,ij", A, A)),
    ("einsum", lambda f: f("i,i", A[0], A[0])),
    ("einsum", lambda f: f("ii,ij->j", B[:, :3], B)),
    ("einsum", lambda f: f("ij->ji", A)),
    ("einsum", lambda f: f("i,j->ij", A[0], A[1])),
    ("einsum", lambda f: f("ij,k->i", A, A[0])),
]


@pytest.mark.parametrize("number", range(len(ODD)))
def test_odd_calls(number: int) -> None:
    """Errors with their words, and everything that is not plain."""
    same(*ODD[number])


def test_explicit_path() -> None:
    a, b, c = integers((4, 5), "f8", 1), integers((5, 6), "f8", 2), integers((6, 3), "f8", 3)
    path = np.einsum_path("ij,jk,kl->il", a, b, c, optimize="optimal")[0]
    want = a @ b @ c
    for steps in ([(0, 1), (0, 1)], [(1, 2), (0, 1)], [(0, 1, 2)], path[1:]):
        optimize = ["einsum_path", *steps]
        assert np.array_equal(fastgemm.einsum("ij,jk,kl->il", a, b, c, optimize=optimize), want)
    out = np.empty((4, 3), order="F")
    assert fastgemm.einsum("ij,jk,kl->il", a, b, c, optimize=True, out=out) is out
    assert np.array_equal(out, want)
    got = fastgemm.einsum("ij,jk,kl->il", a, b, c, optimize=True, order="F")
    assert got.flags.f_contiguous


@pytest.mark.parametrize("name", NAMES)
def test_floating_point_errors(name: str) -> None:
    """They are reported under the name that NumPy gives, and for einsum's single loop not at all."""
    if not outcome(lambda f: f(np.full((3, 3), np.inf), np.zeros((3, 3))), np.dot).warned:
        pytest.skip("the dot of this NumPy (2.0) reports none")
    before = ("ij,jk",) if name == "einsum" else ()
    after = (1,) if name == "tensordot" else ()
    for size in (3, 40):
        inf, zero, big = (np.full((size, size), v) for v in (np.inf, 0.0, 1e300))
        for x, y in ((inf, zero), (big, big)):
            same(name, lambda f, x=x, y=y: f(*before, x, y, *after))
            with np.errstate(all="raise"):
                same(name, lambda f, x=x, y=y: f(*before, x, y, *after))
    stack = np.full((2, 3, 4), np.inf)
    same("dot", lambda f: f(stack, np.zeros((2, 4, 3))))
    same("einsum", lambda f: f("bij,bjk->bik", stack, np.zeros((2, 4, 3))))


class Functions:
    """An object with `__array_function__`."""

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return func.__name__, len(args), sorted(kwargs)


class Converted:
    """An array by conversion only."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(B, dtype)


def test_overrides() -> None:
    assert fastgemm.dot(A, Functions())[0] == "dot"
    assert fastgemm.inner(Functions(), A)[0] == "inner"
    assert fastgemm.tensordot(A, Functions(), 1)[0] == "tensordot"
    assert fastgemm.einsum("ij,jk", A, Functions())[0] == "einsum"
    assert fastgemm.dot(A, B, out=Functions())[0] == "dot"
    assert fastgemm.einsum("ij,jk", A, B, out=Functions())[0] == "einsum"
    same("dot", lambda f: f(A, Converted()))
    same("einsum", lambda f: f("ij,jk", A, Converted()))
    same("tensordot", lambda f: f(A, Converted(), 1))


@pytest.mark.parametrize("name", NAMES)
def test_signature(name: str) -> None:
    def form(f: Any) -> list[Any]:
        return [(p.name, p.kind, p.default) for p in inspect.signature(f).parameters.values()]

    try:
        want = form(getattr(np, name))
    except ValueError:
        pytest.skip("this NumPy's function has no signature")
    assert form(getattr(fastgemm, name)) == want


# ---- routes --------------------------------------------------------------------------------------------------------


def problem_of(seen: list[Problem], call: Callable[[], Any]) -> tuple[int, ...]:
    """Sizes of the only product of a call, smaller side first."""
    seen.clear()
    _plan.forget_plans()
    call()
    (p,) = seen
    return (*sorted((p.m, p.n)), p.k, p.batch)


def test_one_product(seen: list[Problem]) -> None:
    a, b = np.ones((2, 3, 40, 50)), np.ones((50, 40, 6))
    whole = np.ones((40, 50, 6))
    assert problem_of(seen, lambda: fastgemm.tensordot(a, whole, ([3, 2], [1, 0]))) == (6, 6, 2000, 1)
    assert problem_of(seen, lambda: fastgemm.einsum("xyij,ijk->xyk", a, whole)) == (6, 6, 2000, 1)
    assert problem_of(seen, lambda: fastgemm.einsum("xyij,ijk->kxy", a, whole)) == (6, 6, 2000, 1)
    # Summed axes that do not join: one such product for each step of the other axis, added.
    assert problem_of(seen, lambda: fastgemm.tensordot(a, b, ([2, 3], [1, 0]))) == (6, 6, 50, 1)
    assert problem_of(seen, lambda: fastgemm.einsum("xyij,jik->kxy", a, b)) == (6, 6, 50, 1)
    # But a small operand is copied rather than a large result read again.
    large = np.ones((20, 30, 40, 50))
    assert problem_of(seen, lambda: fastgemm.einsum("xyij,jik->xyk", large, b)) == (6, 600, 2000, 1)
    assert problem_of(seen, lambda: fastgemm.einsum("xyij,jzk->xyizk", a, b)) == (240, 240, 50, 1)
    assert problem_of(seen, lambda: fastgemm.dot(a, b.swapaxes(0, 1))) == (240, 240, 50, 1)
    assert problem_of(seen, lambda: fastgemm.inner(a, a)) == (240, 240, 50, 1)
    assert problem_of(seen, lambda: fastgemm.einsum("xyij,yik->xyjk", a, np.ones((3, 40, 7)))) == (7, 50, 40, 3)
    assert problem_of(seen, lambda: fastgemm.einsum("xyij,yjk->xyik", a, np.ones((3, 50, 7)))) == (7, 40, 50, 3)
    # Axes under an ellipsis are axes.
    assert problem_of(seen, lambda: fastgemm.einsum("...j,jk->...k", a, np.ones((50, 7)))) == (7, 240, 50, 1)
    assert problem_of(seen, lambda: fastgemm.einsum("...j,jk", a, np.ones((50, 7)))) == (7, 240, 50, 1)
    assert problem_of(seen, lambda: fastgemm.einsum(a, [..., 1], np.ones((50, 7)), [1, 2])) == (7, 240, 50, 1)
    # A sum over one operand alone comes first, and the diagonal.
    assert problem_of(seen, lambda: fastgemm.einsum("xyij,jk->xk", a, np.ones((50, 7)))) == (2, 7, 50, 1)
    assert problem_of(seen, lambda: fastgemm.einsum("iij,jk->ik", np.ones((9, 9, 8)), np.ones((8, 7)))) == (7, 9, 8, 1)
    assert problem_of(seen, lambda: fastgemm.einsum("ij,ij", np.ones((30, 40)), np.ones((30, 40)))) == (1, 1, 1200, 1)


def test_without_a_path_several_operands_are_numpys(seen: list[Problem]) -> None:
    """One loop without intermediate arrays, which may be large; a path makes pairs of them."""
    three = [np.ones((40, 40))] * 3
    for optimize in (False, True):
        _plan.forget_plans()
        assert fastgemm.einsum("ij,jk,kl", *three, optimize=optimize)[0, 0] == 1600
        assert bool(seen) is optimize


def test_small_sums_stay_numpys(seen: list[Problem], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert einstein.SMALL > 64
    assert fastgemm.einsum("ij,jk", np.eye(4), np.eye(4)).tolist() == np.eye(4).tolist()
    assert seen == []


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What the compiled contractions of a test answered: False where operands were copied for another."""
    answers: list[bool] = []
    real = contraction._contraction.contract

    def contract(*arguments: Any) -> bool:
        answers.append(real(*arguments))
        return answers[-1]

    monkeypatch.setattr(contraction._contraction, "contract", contract)
    return answers


def test_views_are_not_copied(taken: list[bool]) -> None:
    """The compiled way takes all that joins, and loops over what does not where its products are large."""
    a, b = integers((3, 4, 5), "f8", 1), integers((4, 5, 6), "f8", 2)
    fastgemm.tensordot(a, b, 2)
    fastgemm.tensordot(a, b, ([2, 1], [1, 0]))          # the other order of the same pairs
    fastgemm.tensordot(a.transpose(2, 1, 0), b, ([1, 0], [0, 1]))
    fastgemm.tensordot(a[::-1], b[:, :, ::2], 2)        # a single axis may have any stride
    fastgemm.einsum("xij,ijk->kx", a, b)
    assert taken == [True] * 5
    large = integers((3, 40, 50, 20), "f8", 3)
    want = np.einsum("xiky,ij->xjky", large, large[0, :, :, 0])
    assert np.array_equal(fastgemm.einsum("xiky,ij->xjky", large, large[0, :, :, 0]), want)
    assert taken == [True] * 6
    fastgemm.tensordot(a[:, :, ::2], b[:, ::2], 2)      # summed axes that do not join are copied
    assert taken[6:] == [False, True]
    fastgemm.tensordot(a[:, ::2], b, ([2], [1]))        # so are small products
    assert taken[8:] == [False, True]


SPLIT_SUMS = (
    ("bd,bead->ae", (3, 60), (3, 4, 40, 60)),   # a vector
    ("bead,bd->ea", (3, 4, 40, 60), (3, 60)),
    ("ij,kilj->kl", (4, 50), (3, 4, 70, 50)),
    ("cw,nchw->nh", (3, 80), (2, 3, 70, 80)),
    ("db,bead->ae", (60, 3), (3, 4, 40, 60)),
    ("bdz,bead->aze", (3, 60, 5), (3, 4, 9, 60)),   # a matrix
    ("xbd,xbed->xe", (2, 3, 60), (2, 3, 40, 60)),   # a stack
    ("bcd,bxcyd->yx", (3, 2, 60), (3, 5, 2, 40, 60)),   # several sums
    ("bcd,bxcyd->", (3, 2, 6000), (3, 2, 2, 3, 6000)),
    ("bda,beda->e", (5, 4, 900), (5, 6, 4, 900)),   # that join in one of the operands
)  # fmt: skip


@pytest.mark.parametrize("dtype", [*FLOATS, "i2", "u4", "i8"])
@pytest.mark.parametrize(("text", "left", "right"), SPLIT_SUMS)
def test_sums_that_do_not_join_are_added(text: str, left: Any, right: Any, dtype: str, taken: list[bool]) -> None:
    a, b = integers(left, dtype, 1), integers(right, dtype, 2)
    same("einsum", lambda f: f(text, a, b))
    out = np.full(np.einsum(text, a, b).shape, 7, dtype)
    assert np.array_equal(fastgemm.einsum(text, a, b, out=out), np.einsum(text, a, b))
    same("einsum", lambda f: f(text, a[::-1], b[..., ::-1, :]))
    assert taken == [True] * 3


def test_sums_of_numbers_that_are_converted_are_not_added(taken: list[bool]) -> None:
    """Halves would be rounded each time."""
    text, left, right = SPLIT_SUMS[0]
    for dtype in ("f2", "i1", "?"):
        same("einsum", lambda f, dtype=dtype: f(text, integers(left, dtype, 1), integers(right, dtype, 2)))
    assert taken == [False, True] * 3
    a, b = np.full((64, 2, 40), 1 + 2.0**-10, "f2").transpose(1, 0, 2), np.full((2, 64, 50, 40), 2.0**-4, "f2")
    want = np.einsum("bcd,bced->e", a.astype("f8"), b.astype("f8"))
    assert np.abs(fastgemm.einsum("bcd,bced->e", a, b) - want).max() <= 2.0**-11 * want.max()


def test_floating_point_errors_of_added_sums(taken: list[bool]) -> None:
    """One report of the whole call, also of what the last addition leaves."""
    text, left, right = SPLIT_SUMS[0]
    a, b = np.ones(left), np.ones(right)
    for index, value, word in ((0, np.inf, "invalid"), (-1, 1e308, "overflow")):
        b[index] = value
        if word == "invalid":
            b[1] = -np.inf
        seen = outcome(lambda f: f(text, a, b, optimize=True), fastgemm.einsum).warned
        assert [message.split(" value")[0].split()[0] for _, message in seen] == [word]
        assert "matmul" in seen[0][1]
        assert outcome(lambda f: f(text, a, b), fastgemm.einsum).warned == []
        named = outcome(lambda f: f(a, b, ([0, 1], [0, 3])), fastgemm.tensordot).warned
        assert [message for _, message in named] == [seen[0][1].replace("matmul", "dot")]
        b[:] = 1
    assert all(taken)


INTERLEAVED = (
    ("ikx,kjx->ijx", (3, 3, 150), (3, 2, 150)),
    ("ikxy,kjxy->ijxy", (3, 3, 20, 10), (3, 2, 20, 10)),
    ("ikx,kx->ix", (3, 3, 150), (3, 150)),
    ("kx,knx->nx", (4, 150), (4, 3, 150)),
    ("da,cdfa->ca", (2, 150), (3, 2, 2, 150)),      # after a sum over one operand alone
    ("iklx,lkx->ix", (3, 2, 4, 150), (4, 2, 150)),
)


@pytest.mark.parametrize("dtype", [*FLOATS, "i1", "u2", "i4", "i8"])
@pytest.mark.parametrize(("text", "left", "right"), INTERLEAVED)
def test_stacks_of_tiny_products_that_lie_innermost_stay_numpys(
    text: str, left: Any, right: Any, dtype: str, seen: list[Problem], taken: list[bool]
) -> None:
    a, b = integers(left, dtype, 1, 2), integers(right, dtype, 2, 2)
    _plan.forget_plans()
    with fastgemm.threads(1):
        same("einsum", lambda f: f(text, a, b))
        out = np.empty(np.einsum(text, a, b).shape, dtype)
        assert fastgemm.einsum(text, a, b, out=out, optimize=True) is out
    assert np.array_equal(out, np.einsum(text, a, b))
    assert seen == []
    assert taken == [True, True]


@pytest.mark.parametrize(
    ("text", "left", "right", "dtype"),
    [
        ("xik,xkj->xij", (150, 3, 3), (150, 3, 3), "f4"),       # outermost
        ("ikx,xkj->ijx", (3, 3, 150), (150, 3, 3), "f4"),       # in one operand
        ("ikx,kjx->ijx", (40, 40, 150), (40, 40, 150), "f4"),   # large products
        ("ikx,kjx->ijx", (9, 9, 150), (9, 9, 150), "c8"),       # complex ones sooner
        ("ikx,kjx->ijx", (3, 3, 20), (3, 3, 20), "f4"),         # a short stack
        ("ikx,kx->ix", (3, 3, 150), (3, 150), "f2"),            # NumPy converts halves one by one
    ],
)
def test_other_stacks_are_ours(text: str, left: Any, right: Any, dtype: str, seen: list[Problem]) -> None:
    _plan.forget_plans()
    with fastgemm.threads(1):
        same("einsum", lambda f: f(text, integers(left, dtype, 1, 2), integers(right, dtype, 2, 2)))
    assert seen


def test_floating_point_errors_of_numpys_loop() -> None:
    text, left, right = INTERLEAVED[0]
    a, b = np.full(left, np.inf), np.zeros(right)
    with fastgemm.threads(1):
        assert outcome(lambda f: f(text, a, b), fastgemm.einsum).warned == []
        ((_, message),) = outcome(lambda f: f(text, a, b, optimize=True), fastgemm.einsum).warned
    assert message == "invalid value encountered in matmul"


def test_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy's product answers; of einsum's single loop there are no floating-point errors then either."""
    monkeypatch.setattr(contraction._contraction, "contract", lambda *given: False)
    a, b = integers((4, 5, 6), "f8", 1), integers((6, 5, 3), "f8", 2)
    same("einsum", lambda f: f("ijk,kjl->li", a, b))
    same("tensordot", lambda f: f(a, b, ([1, 2], [1, 0])))
    with np.errstate(all="raise"):
        assert np.isnan(fastgemm.einsum("ij,jk", np.full((3, 3), np.inf), np.zeros((3, 3)))).all()
        with pytest.raises(FloatingPointError, match="invalid value"):
            fastgemm.einsum("ij,jk", np.full((3, 3), np.inf), np.zeros((3, 3)), optimize=True)


def test_the_larger_operand_says_in_which_order_to_sum() -> None:
    large, small, axes = np.empty((9, 30, 40)), np.empty((40, 30, 3)), ((1, 2), (1, 0))

    def order(a: np.ndarray, b: np.ndarray) -> list[int]:
        return contraction._order(a.shape, a.strides, b.shape, b.strides, axes)

    assert order(large, small) == [0, 1]
    assert order(large[:1], small) == [1, 0]
    # What is copied anyway is copied along its longest axis.
    assert order(large[..., ::-1], small) == [0, 1]
    assert order(np.empty((9, 40, 30))[..., ::-1].swapaxes(1, 2), small) == [0, 1]
    assert order(np.empty((9, 40, 30))[..., ::-1], np.empty((30, 40, 3))) == [1, 0]


def test_reading() -> None:
    assert subscripts.parse("ij,jk", (2, 2)) == (("ij", "jk"), "ik")
    assert subscripts.parse("kj,ji", (2, 2)) == (("kj", "ji"), "ik")
    assert subscripts.spell((1, [0, 1], 2, [1, 2])) == ("AB,BC", (1, 2))
    assert subscripts.parse("ij,jk", (2,)) is None
    assert subscripts.parse("ij,jk", (2, 3)) is None
    assert subscripts.parse(string.ascii_letters + "...,...", (53, 2)) is None


def test_installing_changes_nothing(child: Child) -> None:
    """Both at once: our functions inside, NumPy's matmul on our loops outside."""
    code = (
        "import numpy as np, fastgemm\n"
        "a = np.arange(2e4).reshape(100, 200) % 7\n"
        "want = a @ a.T\n"
        "with fastgemm.installed():\n"
        "    got = [fastgemm.dot(a, a.T), fastgemm.inner(a, a), fastgemm.tensordot(a, a, (1, 1)),\n"
        "           fastgemm.einsum('ij,kj', a, a), np.einsum('ij,kj', a, a, optimize=True)]\n"
        "print(all(np.array_equal(x, want) for x in got))"
    )
    assert child(code).stdout.strip() == "True"


# ---- NumPy's own tests ---------------------------------------------------------------------------------------------


HOMES = {
    name: importlib.import_module(name)
    for name in (
        "numpy._core.tests.test_multiarray",
        "numpy._core.tests.test_numeric",
        "numpy._core.tests.test_einsum",
        "numpy.matrixlib.tests.test_numeric",
    )
}
THEIRS = {name: getattr(np, name) for name in NAMES}


@pytest.fixture
def by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let NumPy's names mean our functions for one test, also where its test modules have imported them."""
    for name in NAMES:
        for home in (np, *HOMES.values()):
            if getattr(home, name, None) is THEIRS[name]:
                monkeypatch.setattr(home, name, getattr(fastgemm, name))


def of_numpy(module: str, *names: str) -> dict[str, type]:
    """Classes of a test module of NumPy's, to run on our functions."""
    return {
        f"{name}Of{module.split('.')[1].strip('_').title()}": pytest.mark.usefixtures("by_name")(
            type(name, (getattr(HOMES[module], name),), {})
        )
        for name in names
        if hasattr(HOMES[module], name)
    }


globals().update(of_numpy("numpy._core.tests.test_multiarray", "TestDot", "TestInner", "TestVdot"))
globals().update(of_numpy("numpy._core.tests.test_numeric", "TestTensordot"))
globals().update(of_numpy("numpy._core.tests.test_einsum", "TestEinsum", "TestEinsumPath"))
globals().update(of_numpy("numpy.matrixlib.tests.test_numeric", "TestDot"))
