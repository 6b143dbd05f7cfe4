"""NumPy's own tests of matmul, as installed with NumPy, run on `fastgemm.matmul`.

A class that reads ``self.matmul`` is subclassed.  Tests that call ``np.matmul`` by name
run with that name replaced, which also proves that fastgemm reaches NumPy's ufunc
by itself and not through the name.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastgemm

pytest.importorskip("hypothesis")  # NumPy's test modules import it
test_multiarray = pytest.importorskip("numpy._core.tests.test_multiarray")
test_ufunc = pytest.importorskip("numpy._core.tests.test_ufunc")
test_linalg = pytest.importorskip("numpy.linalg.tests.test_linalg")
test_mixins = pytest.importorskip("numpy.lib.tests.test_mixins")
test_function_base = pytest.importorskip("numpy.lib.tests.test_function_base")

TestMatmulOfNumPy: Any = test_multiarray.TestMatmul


@pytest.fixture
def by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``np.matmul`` name fastgemm's for one test."""
    monkeypatch.setattr(np, "matmul", fastgemm.matmul)


class TestMatmulAsAttribute(TestMatmulOfNumPy):
    """All of `TestMatmul` and `MatmulCommon`, through ``self.matmul``."""

    matmul = staticmethod(fastgemm.matmul)


@pytest.mark.usefixtures("by_name")
class TestMatmulByName(TestMatmulOfNumPy):
    """The same again for the tests that say ``np.matmul``."""

    matmul = staticmethod(fastgemm.matmul)


del TestMatmulOfNumPy  # or pytest would collect it here


def of(home: type | ModuleType, name: str, **arguments: Any) -> Any:
    """One test of a class or a module with its parameters filled in; skipped where this NumPy lacks it."""
    alone = isinstance(home, ModuleType)
    test = getattr(home if alone else home(), name, None)
    label = f"{home.__name__.rpartition('.')[2]}.{name}" if alone else name
    label = f"{label}-{'-'.join(str(v) for v in arguments.values() if isinstance(v, str))}".rstrip("-")
    if test is None or set(inspect.signature(test).parameters) != set(arguments):
        return pytest.param(None, id=label, marks=pytest.mark.skip(reason="this NumPy has no such test"))
    return pytest.param(functools.partial(test, **arguments), id=label)


METHODS, UFUNC = test_multiarray.TestMethods, test_ufunc.TestUfunc
SIGNATURE = getattr(test_ufunc, "TestUFuncInspectSignature", object)
ALONE = [
    of(METHODS, "test_arr_mult", func=fastgemm.matmul),
    *[of(METHODS, "test_no_dgemv", func=fastgemm.matmul, dtype=c) for c in "ifdFD"],
    of(METHODS, "test_dot_matmul_out"),
    of(METHODS, "test_dot_matmul_inner_array_casting_fails"),
    of(METHODS, "test_matmul_out"),
    of(UFUNC, "test_axes_argument"),
    of(UFUNC, "test_at_not_none_signature"),
    of(UFUNC, "test_vecdot_matvec_vecmat_complex", ufunc=fastgemm.matmul, shape1=(1, 3), shape2=(3, 1), conj=False),
    of(SIGNATURE, "test_params_common_gufunc", gufunc=fastgemm.matmul),
    of(SIGNATURE, "test_params_common_positional", ufunc=fastgemm.matmul),
    of(SIGNATURE, "test_dunder_signature_attr", ufunc=fastgemm.matmul),
    of(test_mixins.TestNDArrayOperatorsMixin, "test_matmul"),
    of(test_function_base.TestVectorize, "test_subclasses"),
    of(test_multiarray, "test_matmul_axes"),
    of(test_linalg, "test_matmul"),
]


@pytest.mark.usefixtures("by_name")
@pytest.mark.parametrize("test", ALONE)
def test_alone(test: Callable[[], None]) -> None:
    """Single tests, with the name replaced too."""
    test()


def test_operator_is_numpys() -> None:
    """The operator of arrays stays NumPy's own and agrees."""
    a = np.arange(12.0).reshape(3, 4)
    assert np.array_equal(a @ a.T, fastgemm.matmul(a, a.T))
