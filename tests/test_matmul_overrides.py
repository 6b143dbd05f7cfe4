"""Subclasses, overrides and the attributes of a gufunc: `fastgemm.matmul` passes for `np.matmul`."""

from __future__ import annotations

import copy
import importlib
import inspect
import operator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import MatMul, same

import fastgemm

A = np.arange(6.0).reshape(2, 3)
B = np.arange(12.0).reshape(3, 4)


class Sub(np.ndarray):
    """A subclass that carries an attribute."""

    tag: str

    def __array_finalize__(self, obj: Any) -> None:
        self.tag = getattr(obj, "tag", "new")


class Wrapped(np.ndarray):
    """A subclass that counts how it is wrapped."""

    def __array_wrap__(self, obj: Any, context: Any = None, return_scalar: bool = False) -> Any:
        name = None if context is None else context[0] is np.matmul
        return (name, np.asarray(obj), return_scalar)


class Overriding:
    """An object that takes over the call and reports what it was told."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return (ufunc is np.matmul, method, len(inputs), sorted(kwargs), type(kwargs.get("out")))


class Refusing:
    """An object that ufuncs must not touch."""

    __array_ufunc__ = None

    def __rmatmul__(self, other: Any) -> str:
        return "mine"


class Deferring:
    """An override that finds nothing to do."""

    def __array_ufunc__(self, *args: Any, **kwargs: Any) -> Any:
        return NotImplemented


class Convertible:
    """An array through `__array__` alone."""

    __array_priority__ = 1000.0

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(B, dtype=dtype)


class Failing:
    """Conversion raises."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise NotImplementedError("no array here")


def sub(a: np.ndarray) -> Sub:
    """View as the subclass."""
    return a.copy().view(Sub)


def test_subclasses() -> None:
    for x, y in [(sub(A), B), (A, sub(B)), (sub(A), sub(B)), (sub(A)[0], B), (sub(A), sub(B)[:, 0])]:
        same(lambda mm, x=x, y=y: mm(x, y))
        same(lambda mm, x=x, y=y: mm(x, y, subok=False))
    assert type(same(lambda mm: mm(sub(A), B, out=np.empty((2, 4))))) is np.ndarray
    assert type(same(lambda mm: mm(A, B, out=np.empty((2, 4)).view(Sub)))) is Sub
    tagged = sub(A)
    tagged.tag = "mine"
    assert same(lambda mm: mm(tagged, B).tag) == np.matmul(tagged, B).tag


def test_array_wrap_sees_the_ufunc() -> None:
    w = A.copy().view(Wrapped)
    assert same(lambda mm: mm(w, B))[0] is True
    same(lambda mm: mm(w[0], w[0]))
    same(lambda mm: mm(A, B, out=np.empty((2, 4)).view(Wrapped)))


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_matrix() -> None:
    m = np.matrix(A)
    same(lambda mm: mm(m, m.T))
    same(lambda mm: mm(m, B))
    same(lambda mm: mm(m, np.arange(3.0)))
    same(lambda mm: mm(np.arange(2.0), m))
    same(lambda mm: mm(m, B, subok=False))


def test_masked() -> None:
    square = np.ma.array(np.ones((2, 2)), mask=[[0, 1], [0, 0]])
    same(lambda mm: mm(square, square))
    same(lambda mm: mm(square, np.ones((2, 2))))
    same(lambda mm: mm(np.ma.ones((2, 3)), np.ma.ones((3, 2))))
    same(lambda mm: mm(np.ma.array(A, mask=A > 4), B))


def test_memmap_and_record(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(A.tobytes())
    mapped = np.memmap(path, dtype="f8", mode="r", shape=(2, 3))
    same(lambda mm: mm(mapped, B))
    same(lambda mm: mm(A.view(np.recarray), B))


def test_array_ufunc() -> None:
    o = Overriding()
    assert same(lambda mm: mm(o, A))[0] is True
    same(lambda mm: mm(A, o))
    same(lambda mm: mm(A, B, out=o))
    same(lambda mm: mm(A, B, o))
    same(lambda mm: mm(o, A, out=np.empty((2, 4))))
    same(lambda mm: mm(o, A, dtype="f4", order="F", axes=[(0, 1)] * 3))
    same(lambda mm: mm(Refusing(), A))
    same(lambda mm: mm(A, Refusing()))
    same(lambda mm: mm(A, B, out=Refusing()))
    with pytest.raises(TypeError, match="ufunc 'matmul'"):
        fastgemm.matmul(Deferring(), A)


def test_conversions() -> None:
    same(lambda mm: mm(A, Convertible()))
    same(lambda mm: mm(A, Failing()))
    same(lambda mm: mm(Failing(), A))
    assert A @ Refusing() == "mine"


def test_mixin() -> None:
    """The mixin of the array protocols sees the very same call."""

    class Boxed(np.lib.mixins.NDArrayOperatorsMixin):
        def __init__(self, value: np.ndarray) -> None:
            self.value = value

        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
            arrays = [x.value if isinstance(x, Boxed) else x for x in inputs]
            return Boxed(getattr(ufunc, method)(*arrays, **kwargs))

    for result in (fastgemm.matmul(Boxed(A), B), Boxed(A) @ B, fastgemm.matmul(A, Boxed(B))):
        assert isinstance(result, Boxed)
        assert np.array_equal(result.value, operator.matmul(A, B))


ATTRIBUTES = (
    "__name__",
    "signature",
    "nin",
    "nout",
    "nargs",
    "ntypes",
    "types",
    "identity",
)


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attribute(name: str) -> None:
    assert getattr(fastgemm.matmul, name) == getattr(np.matmul, name)


@pytest.mark.skipif(not hasattr(np.matmul, "__signature__"), reason="ufuncs of NumPy 2.0 have no signature object")
def test_signature_object() -> None:
    assert isinstance(fastgemm.matmul.__signature__, inspect.Signature)
    assert inspect.signature(fastgemm.matmul) == inspect.signature(np.matmul)


def test_documented() -> None:
    doc = fastgemm.matmul.__doc__
    assert doc is not None
    assert "matmul" in doc
    assert callable(fastgemm.matmul)
    assert "matmul" in repr(fastgemm.matmul)


def test_found_by_name() -> None:
    """A copy is the function itself, and a pool of processes finds it by its name."""
    home = importlib.import_module(fastgemm.matmul.__module__)
    assert getattr(home, fastgemm.matmul.__qualname__) is fastgemm.matmul
    assert copy.deepcopy(fastgemm.matmul) is fastgemm.matmul


def test_methods() -> None:
    a, b = np.ones((2, 2, 2)), np.ones((1, 2, 2))

    def at(mm: MatMul) -> Any:
        return mm.at(a.copy(), [0], b)  # type: ignore[attr-defined]

    same(at)
    same(lambda mm: mm.reduce(a))  # type: ignore[attr-defined]
    same(lambda mm: mm.accumulate(a))  # type: ignore[attr-defined]
    same(lambda mm: mm.reduceat(a, [0]))  # type: ignore[attr-defined]
    same(lambda mm: mm.outer(a, b))  # type: ignore[attr-defined]
    f4 = np.dtype("f4")
    same(lambda mm: mm.resolve_dtypes((f4, f4, None)))  # type: ignore[attr-defined]


def test_vectorize_takes_it() -> None:
    matvec = np.vectorize(fastgemm.matmul, signature="(m,m),(m)->(m)")
    assert np.array_equal(matvec(np.eye(3), np.arange(3.0)), np.arange(3.0))
