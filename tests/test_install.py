"""install(): NumPy's own products run on fastgemm, to the letter, and NumPy is put back as it was."""

from __future__ import annotations

import importlib
import operator
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from conftest import Child
from oracle import FLOATS, assert_identical, integers, normal, outcome

import fastgemm
from fastgemm import _install, dispatch, kernels, numpy_loops
from fastgemm.driver import _plan
from fastgemm.problem import Config, Problem

UFUNCS = [name for name in ("matmul", "matvec", "vecmat", "vecdot") if hasattr(np, name)]
NUMBERS = ("?", "i1", "u2", "i4", "i8", "u8", "q", "f2")
OTHERS = ("g", "G", "O")
Call = Callable[[], Any]
pytestmark = pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")


@pytest.fixture(autouse=True)
def _numpy_as_it_was() -> Iterator[None]:
    """Whatever a test does, NumPy's loops are back after it, and it began with them."""
    assert not fastgemm.is_installed()
    yield
    fastgemm.uninstall()
    assert not fastgemm.is_installed()
    assert numpy_loops._blocks == 0


def forget(seen: list[Problem]) -> None:
    """Start counting anew."""
    seen.clear()
    _plan.forget_plans()


def operands(name: str, dtype: str, *stack: int) -> tuple[np.ndarray, np.ndarray]:
    """Operands of one of the ufuncs, whose products are exact."""
    core = {"matmul": ((5, 7), (7, 6)), "matvec": ((5, 7), (7,)), "vecmat": ((7,), (7, 6)), "vecdot": ((7,), (7,))}
    left, right = core[name]
    return integers((*stack, *left), dtype, 1), integers((*stack, *right), dtype, 2)


def same_installed(call: Call) -> Any:
    """Assert that a call answers with fastgemm installed what it answers without."""
    want = outcome(lambda _: call(), np.matmul)
    with fastgemm.installed():
        got = outcome(lambda _: call(), np.matmul)
    assert got.error == want.error
    assert got.warned == want.warned
    assert_identical(got.result, want.result)
    return got.result


# ---- what is replaced ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UFUNCS)
def test_route(name: str, dtype: str, seen: list[Problem]) -> None:
    """NumPy alone before, our kernels while installed, NumPy alone after: also for a signature that NumPy has used."""
    ufunc = getattr(np, name)
    a, b = operands(name, dtype)
    want = ufunc(a, b)
    assert seen == []
    with fastgemm.installed():
        got = ufunc(a, b)
        assert seen
    assert_identical(got, want)
    forget(seen)
    ufunc(a, b)
    assert seen == []


@pytest.mark.parametrize("dtype", FLOATS)
def test_operator(dtype: str, seen: list[Problem]) -> None:
    a, b = operands("matmul", dtype)
    want = a @ b
    fastgemm.install()
    assert_identical(a @ b, want)
    assert [(p.m, p.n, p.k) for p in seen] == [(5, 6, 7)]


def test_inplace_operator(seen: list[Problem]) -> None:
    a, square = integers((5, 7), "f8", 1), integers((7, 7), "f8", 2)
    want = a @ square
    fastgemm.install()
    same = a
    a @= square
    assert a is same
    assert np.array_equal(a, want)
    assert len(seen) == 1


@pytest.mark.parametrize("name", UFUNCS)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_narrow_and_whole_numbers(name: str, dtype: str, seen: list[Problem]) -> None:
    a, b = operands(name, dtype, 3)
    same_installed(lambda: getattr(np, name)(a, b))
    assert seen or name == "vecdot"


@pytest.mark.parametrize("name", UFUNCS)
@pytest.mark.parametrize("dtype", OTHERS)
def test_other_dtypes(name: str, dtype: str, seen: list[Problem]) -> None:
    a, b = operands(name, dtype, 3)
    same_installed(lambda: getattr(np, name)(a, b))
    assert seen == []


@pytest.mark.parametrize("name", [n for n in UFUNCS if n in ("vecmat", "vecdot")])
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_conjugation(name: str, dtype: str, seen: list[Problem]) -> None:
    """The first operand's, whichever way round the product is computed: stacks of either, one column, long vectors."""
    a, b = operands(name, dtype, 2)
    got = same_installed(lambda: getattr(np, name)(a, b))
    assert np.array_equal(got, (a.conj()[..., None, :] @ b.reshape(*b.shape[:2], -1)).reshape(got.shape))
    ufunc = getattr(np, name)
    for k, n in ((7, 6), (600, 1), (600, 40), (9000, 3)):
        x, y = (integers((5, k), dtype, seed, high=3) for seed in (1, 2))
        matrix = integers((k, n), dtype, 3, high=3)
        for order in "CF":
            m = np.asarray(matrix, order=order)  # type: ignore[call-overload]
            if name == "vecmat":
                calls = [(x, m), (x[0], m), (x[::2, ::-1], m[::-1]), (x[0], np.stack([m, 2 * m]))]
            else:
                calls = [(x, y), (x, y[0]), (x[0], y), (x[0], y[0]), (x[::2, ::-1], y[:3]), (m.T, x[0])]
            for left, right in calls:
                forget(seen)
                want = np.einsum("...i,...ij->...j" if name == "vecmat" else "...i,...i->...", left.conj(), right)
                with fastgemm.installed():
                    made = ufunc(left, right)
                assert np.array_equal(made, want)
                assert seen or name == "vecdot"
    assert ufunc(x, m if name == "vecmat" else y).dtype == dtype


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UFUNCS)
def test_stacks_and_strides(name: str, dtype: str) -> None:
    """Stacks, broadcast operands (one product where the matrix is shared), and every kind of stride."""
    ufunc = getattr(np, name)
    a, b = operands(name, dtype, 4)
    wide_a, wide_b = operands(name, dtype, 2, 4)
    for left, right in [
        (a, b), (a[0], b), (a, b[0]), (a[:1], b), (wide_a, b), (a, wide_b), (wide_a, wide_b), (a[:, None], b),
        (a[::-1], b[..., ::1]), (a[..., ::-1], b), (a[::2], b[::2]), (a[:0], b[:0]),
        (wide_a.swapaxes(0, 1), b[:, None]), (np.broadcast_to(a[0], a.shape), b),
        (np.asfortranarray(a), np.asfortranarray(b)),
    ]:  # fmt: skip
        same_installed(lambda x=left, y=right: ufunc(x, y))
    same_installed(lambda: ufunc(a[..., :0], b[..., :0] if b.ndim == 2 else b[..., :0, :]))


@pytest.mark.parametrize("name", [n for n in UFUNCS if n != "matmul"])
def test_shared_matrix_is_one_product(name: str, seen: list[Problem]) -> None:
    a, b = operands(name, "f8", 50)
    shared = (a, b[0]) if name != "matvec" else (a[0], b)
    want = getattr(np, name)(*shared)
    fastgemm.install()
    assert_identical(getattr(np, name)(*shared), want)
    assert [p.batch for p in seen] == [1]
    assert 50 in (seen[0].m, seen[0].n)


def test_long_and_short_dots(seen: list[Problem]) -> None:
    """Stacks of short dot products stay in NumPy's loop, which is faster there."""
    fastgemm.install()
    vecdot = getattr(np, "vecdot")  # noqa: B009 - not in the oldest NumPy's stubs
    for length, reached in ((8, False), (2000, True)):
        forget(seen)
        x = np.ones((3, length))
        assert np.array_equal(vecdot(x, x), [length] * 3)
        assert bool(seen) == reached


def test_threads_and_forced(seen: list[Problem]) -> None:
    """The installed loops obey what else steers a product."""
    fastgemm.install()
    a = np.ones((64, 64), "f4")
    with fastgemm.threads(1):
        a @ a
    assert [p.threads for p in seen] == [1]
    forget(seen)
    with dispatch.forced(Config(family="numpy")):
        assert (a @ a)[0, 0] == 64
    assert seen


# ---- the contract --------------------------------------------------------------------------------------------------


CONTRACT: list[Call] = [
    lambda: np.ones((2, 3)) @ np.ones((2, 3)),
    lambda: np.ones((2, 3)) @ 1.0,
    lambda: np.matmul(1.0, np.ones(3)),
    lambda: np.matmul(np.ones((2, 3)), np.ones((3, 2)), out=np.ones((3, 3))),
    lambda: np.matmul(np.ones((2, 3)), np.ones((3, 2)), out=np.ones((2, 2), "i4")),
    lambda: np.matmul(np.ones((2, 3)), np.ones((3, 2)), out=np.ones((2, 2), "c8")),
    lambda: np.matmul(np.ones((2, 3)), np.ones((3, 2)), where=True),
    lambda: np.matmul(np.ones((2, 3)), np.ones((3, 2)), axis=0),
    lambda: np.matmul(np.ones((2, 3)), np.ones((3, 2)), dtype="f4"),
    lambda: np.matmul(np.ones((2, 3)), np.ones((3, 2)), dtype="f4", casting="safe"),
    lambda: np.matmul(np.ones((2, 3)), np.ones((3, 2)), order="F"),
    lambda: np.matmul(np.ones((3, 2)), np.ones((3, 2)), axes=[(1, 0), (0, 1), (0, 1)]),
    lambda: np.matmul(np.ones((2, 3), "f4"), np.ones((3, 2), ">f8")),
    lambda: np.matmul([[1.0, 2.0]], [[3], [4]]),
    lambda: np.matmul(np.ones(3), np.ones(3)),
    lambda: np.matmul(np.ones((2, 0)), np.ones((0, 2))),
    lambda: np.matmul(np.ones((2, 2), "M8[s]"), np.ones((2, 2))),
    lambda: np.full((3, 3), np.inf) @ np.zeros((3, 3)),
    lambda: np.full((3, 3), 1e300) @ np.full((3, 3), 1e300),
    lambda: np.full((3, 3), np.nan) @ np.zeros((3, 3)),
    lambda: np.matrix([[1.0, 2.0]]) @ np.matrix([[3.0], [4.0]]),
    lambda: np.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=[[0, 1], [0, 0]]) @ np.ma.ones((2, 2)),
    lambda: np.linalg.matmul(np.ones((2, 3)), np.ones((3, 2))),
    lambda: np.linalg.matrix_power(np.array([[1.0, 1.0], [1.0, 0.0]]), 30),
    lambda: np.einsum("ij,jk,kl", *[np.arange(9.0).reshape(3, 3)] * 3, optimize=True),
]


@pytest.mark.parametrize("number", range(len(CONTRACT)))
def test_contract(number: int) -> None:
    """Results, errors, warnings and their words are those of NumPy alone."""
    same_installed(CONTRACT[number])


@pytest.mark.parametrize("name", UFUNCS)
def test_floating_point_errors(name: str) -> None:
    """They are reported as those of the ufunc that was called, whatever the first call does in Python beside."""
    ufunc = getattr(np, name)
    a, b = operands(name, "f8")
    fastgemm.install()
    for _ in range(2):
        _plan.forget_plans()
        with np.errstate(all="raise"):
            ufunc(a, b)
            with pytest.raises(FloatingPointError, match=f"invalid value encountered in {name}"):
                ufunc(np.full_like(a, np.inf), np.zeros_like(b))


def test_out_that_overlaps() -> None:
    def over(where: int) -> Any:
        a = integers((6, 6), "f8", 3)
        b = integers((6, 6), "f8", 4)
        return np.matmul(a, b, out=(a, b, a.T, b[::-1])[where])

    for where in range(4):
        same_installed(lambda w=where: over(w))


class Overriding:
    """An object that takes over the call."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return (ufunc is np.matmul, method, len(inputs))


class Refusing:
    """An object that arrays leave the operator to."""

    __array_ufunc__ = None

    def __rmatmul__(self, other: Any) -> str:
        return "mine"


class Sub(np.ndarray):
    """A subclass that sees how it is wrapped."""

    def __array_wrap__(self, obj: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return (context is not None and context[0] is np.matmul, np.asarray(obj), return_scalar)


def test_subclasses_and_overrides() -> None:
    a = np.arange(4.0).reshape(2, 2)
    assert same_installed(lambda: a @ Overriding())[0] is True
    assert same_installed(lambda: a @ Refusing()) == "mine"
    assert same_installed(lambda: a.view(Sub) @ a)[0] is True


def test_the_ufunc_stays_the_same() -> None:
    before = {name: (id(getattr(np, name)), getattr(np, name).types) for name in UFUNCS}
    with fastgemm.installed():
        assert {name: (id(getattr(np, name)), getattr(np, name).types) for name in UFUNCS} == before
        assert fastgemm.matmul(np.eye(2), np.eye(2)).tolist() == [[1, 0], [0, 1]]


# ---- in and out ----------------------------------------------------------------------------------------------------


def test_switch_and_blocks() -> None:
    """The switch is idempotent, blocks count, and neither undoes the other."""
    fastgemm.install()
    fastgemm.install()
    fastgemm.uninstall()
    assert not fastgemm.is_installed()
    fastgemm.uninstall()
    with fastgemm.installed():
        with fastgemm.installed():
            pass
        assert fastgemm.is_installed()
        fastgemm.uninstall()
        assert fastgemm.is_installed()
    assert not fastgemm.is_installed()
    with fastgemm.installed():
        fastgemm.install()
    assert fastgemm.is_installed()
    with fastgemm.installed():
        fastgemm.uninstall()
        assert fastgemm.is_installed()
    assert not fastgemm.is_installed()


def test_a_block_ends_by_an_exception() -> None:
    with pytest.raises(KeyError), fastgemm.installed():
        raise KeyError
    assert not fastgemm.is_installed()


def test_failure_half_way(monkeypatch: pytest.MonkeyPatch, seen: list[Problem]) -> None:
    """A loop that NumPy refuses: every one replaced before it is put back."""
    refused = _install.Slot(np.isnan, 0, np.dtype("f4").num)
    monkeypatch.setattr(_install, "slots", [*_install.slots[:5], refused, *_install.slots[5:]])
    for enter in (fastgemm.install, lambda: fastgemm.installed().__enter__()):
        with pytest.raises(RuntimeError, match="no loop to replace for isnan f32"):
            enter()
        assert not fastgemm.is_installed()
        np.ones((3, 3)) @ np.ones((3, 3))
        assert seen == []


def test_kernels_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy is as it was."""

    def damaged(tier: str) -> None:
        raise RuntimeError(f"no {tier}")

    monkeypatch.setattr(kernels, "load", damaged)
    for enter in (fastgemm.install, lambda: fastgemm.installed().__enter__()):
        with pytest.raises(RuntimeError, match="no v"):
            enter()
        assert not fastgemm.is_installed()


def test_no_kernels_for_this_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "active_isa", lambda: None)
    _plan.forget_plans()
    with fastgemm.installed():
        assert (np.ones((2, 3)) @ np.ones((3, 2))).tolist() == [[3, 3], [3, 3]]
    _plan.forget_plans()


def test_no_plan(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Where no plan can be made NumPy answers; Python's own hook, which takes only its own arguments, says why."""

    def fails(found: Problem) -> None:
        raise LookupError(f"nothing for {found.m} rows")

    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    monkeypatch.setattr(dispatch, "plan_for", fails)
    _plan.forget_plans()
    a, b = integers((2, 31, 7), "f4", 1), integers((2, 7, 5), "f4", 2)
    with fastgemm.installed():
        assert np.array_equal(np.matmul(a, b), np.einsum("bik,bkj->bij", a, b))
    _plan.forget_plans()
    said = capfd.readouterr().err
    assert "LookupError: nothing for 31 rows" in said
    assert "fastgemm: no plan for a product, NumPy computes it" in said
    assert "TypeError" not in said


def test_failure_before(child: Child) -> None:
    """What fails before anything is replaced."""
    code = (
        "import os, numpy as np, fastgemm\n"
        "os.environ['FASTGEMM_ISA'] = 'v9'\n"
        "try:\n    fastgemm.install()\nexcept RuntimeError as e:\n    print('v9' in str(e), fastgemm.is_installed())\n"
        "try:\n    fastgemm.installed().__enter__()\nexcept RuntimeError as e:\n    print(fastgemm.is_installed())\n"
        "print(np.ones(3) @ np.ones(3))"
    )
    assert child(code).stdout.split() == ["True", "False", "False", "3.0"]


def test_original_pointers(child: Child) -> None:
    """uninstall() puts back the very pointers, seen from outside through the ufunc's C structure."""
    code = (
        "import ctypes, numpy as np, fastgemm\n"
        # PyUFuncObject: head, nin, nout, nargs, identity, functions
        "def loops(u):\n"
        "    at = ctypes.c_void_p.from_address(id(u) + object.__basicsize__ + 16).value\n"
        "    return list((ctypes.c_void_p * u.ntypes).from_address(at))\n"
        "us = [getattr(np, n) for n in ('matmul', 'matvec', 'vecmat', 'vecdot') if hasattr(np, n)]\n"
        "before = [loops(u) for u in us]\n"
        "fastgemm.install()\n"
        "during = [loops(u) for u in us]\n"
        "for u, b, d in zip(us, before, during):\n"
        "    print(u.__name__, ''.join(t[0] for t, x, y in zip(u.types, b, d) if x != y))\n"
        "fastgemm.uninstall()\n"
        "print([loops(u) for u in us] == before)\n"
    )
    *replaced, back = child(code).stdout.splitlines()
    real = "?bBhHiIlLqQefd"
    assert replaced == [f"{name} {real}FD" for name in UFUNCS]
    assert back == "True"


def test_another_library_over_ours(child: Child) -> None:
    """A loop that somebody put over ours is left alone, with a warning; the others go back."""
    code = (
        "import ctypes, warnings, numpy as np, fastgemm\n"
        "u = np.matmul; at = ctypes.c_void_p.from_address(id(u) + object.__basicsize__ + 16).value\n"
        "table = (ctypes.c_void_p * u.ntypes).from_address(at)\n"
        "i, j = u.types.index('ff->f'), u.types.index('dd->d')\n"
        "fastgemm.install()\n"
        "kept = table[i]; table[i] = table[j]\n"
        "with warnings.catch_warnings(record=True) as w:\n"
        "    warnings.simplefilter('always'); fastgemm.uninstall(); fastgemm.uninstall()\n"
        "print([str(x.message).partition('stay: ')[2] for x in w], table[i] == table[j])\n"
        "table[i] = kept\n"
        "print(fastgemm.is_installed())\n"
        "with warnings.catch_warnings(record=True) as w:\n"
        "    warnings.simplefilter('always')\n"
        "    with fastgemm.installed(): pass\n"
        "    with fastgemm.installed(): kept = table[i]; table[i] = table[j]\n"
        "print([str(x.message).partition('stay: ')[2] for x in w], table[i] == table[j])\n"
        "table[i] = kept\n"
        "fastgemm.install(); print(fastgemm.is_installed()); a = np.ones((2, 2), 'f'); print((a @ a)[0, 0])\n"
    )
    said = "['matmul f32'] False"
    assert child(code).stdout.split("\n")[:5] == [said, "False", said, "True", "2.0"]


def test_threads_compute_while_others_switch() -> None:
    """Calls under way stay right whoever installs and uninstalls beside them."""
    a, b = integers((40, 30), "f8", 1), integers((30, 20), "f8", 2)
    stack, x = integers((50, 8, 8), "f4", 3), integers((50, 8), "f4", 4)
    want, want_stack = a @ b, stack @ stack
    want_x = np.einsum("bij,bj->bi", stack, x)
    stop = threading.Event()
    wrong: list[str] = []

    def compute() -> None:
        while not stop.is_set():
            if not np.array_equal(a @ b, want) or not np.array_equal(stack @ stack, want_stack):
                wrong.append("matmul")
            if "matvec" in UFUNCS and not np.array_equal(np.matvec(stack, x), want_x):
                wrong.append("matvec")

    def switch() -> None:
        for i in range(300):
            with fastgemm.installed():
                if not fastgemm.is_installed():
                    wrong.append("taken away inside a block")
                if i % 7 == 0:
                    fastgemm.install()
                    fastgemm.uninstall()

    workers = [threading.Thread(target=compute) for _ in range(2)]
    switchers = [threading.Thread(target=switch) for _ in range(2)]
    for t in (*workers, *switchers):
        t.start()
    for t in switchers:
        t.join()
    stop.set()
    for t in workers:
        t.join()
    assert not wrong


def test_fork_while_installed(child: Child) -> None:
    code = (
        "import os, numpy as np, fastgemm\n"
        "a = np.ones((300, 300)); fastgemm.install(); a @ a\n"
        "pid = os.fork()\n"
        "if not pid:\n"
        "    ok = fastgemm.is_installed() and (a @ a)[0, 0] == 300\n"
        "    fastgemm.uninstall(); ok = ok and not fastgemm.is_installed() and (a @ a)[0, 0] == 300\n"
        "    os._exit(0 if ok else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), fastgemm.is_installed())"
    )
    assert child(code).stdout.split() == ["0", "True"]


def test_no_database_warning_inside_a_loop(child: Child) -> None:
    """A damaged database speaks at install, where its warning can be an error, and NumPy stays as it was."""
    code = (
        "import os, tempfile, numpy as np\n"
        "path = os.path.join(tempfile.mkdtemp(), 'x.json'); open(path, 'w').write('{')\n"
        "os.environ['FASTGEMM_DB'] = path\n"
        "import warnings, fastgemm; warnings.simplefilter('error')\n"
        "try:\n    fastgemm.install()\nexcept Warning:\n    print(fastgemm.is_installed())\n"
        "fastgemm.install(); print((np.ones((2, 2)) @ np.ones((2, 2)))[0, 0])"
    )
    assert child(code).stdout.split() == ["False", "2.0"]


# ---- NumPy's own tests ---------------------------------------------------------------------------------------------

pytest.importorskip("hypothesis")  # NumPy's test modules import it
test_multiarray: Any = pytest.importorskip("numpy._core.tests.test_multiarray")
test_linalg: Any = pytest.importorskip("numpy.linalg.tests.test_linalg")


@pytest.fixture
def active() -> Iterator[None]:
    """Installed for one test."""
    with fastgemm.installed():
        yield


def of_numpy(module: str, *names: str) -> dict[str, type]:
    """Classes of a test module of NumPy's, to run while installed."""
    home = importlib.import_module(module)
    return {
        f"{name}Installed": pytest.mark.usefixtures("active")(type(f"{name}Installed", (getattr(home, name),), {}))
        for name in names
        if hasattr(home, name)
    }


globals().update(of_numpy("numpy._core.tests.test_multiarray", "TestMatmul", "TestMatmulOperator", "TestMatmulInplace"))
LINALG = (
    "TestMatrixPower TestMultiDot TestQR TestPinv TestPinvHermitian TestLstsq TestSVD TestEigh TestSolve TestInv "
    "TestCholesky TestTensorinv"
)
globals().update(of_numpy("numpy.linalg.tests.test_linalg", *LINALG.split()))
globals().update(of_numpy("numpy.matrixlib.tests.test_defmatrix", "TestAlgebra"))
globals().update(of_numpy("numpy.matrixlib.tests.test_numeric", "TestDot"))

TEST_UFUNC: Any = importlib.import_module("numpy._core.tests.test_ufunc").TestUfunc
ALONE = [
    (TEST_UFUNC, "test_axes_argument"),
    (importlib.import_module("numpy.lib.tests.test_mixins").TestNDArrayOperatorsMixin, "test_matmul"),
    (test_multiarray.TestBinop, "test_ufunc_binop_interaction"),
    (test_multiarray.TestMethods, "test_dot_matmul_out"),
    (test_multiarray.TestMethods, "test_matmul_out"),
]


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize(("home", "name"), ALONE, ids=lambda v: getattr(v, "__name__", v))
def test_alone(home: Any, name: str) -> None:
    test = getattr(home(), name, None)
    if test is None or test.__code__.co_argcount > 1:
        pytest.skip("this NumPy has no such test")
    test()


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize("name", UFUNCS)
def test_complex_products_of_numpy(name: str) -> None:
    """NumPy's test of all four ufuncs on complex numbers."""
    test = getattr(TEST_UFUNC(), "test_vecdot_matvec_vecmat_complex", None)
    if test is None:
        pytest.skip("this NumPy has no such test")
    shapes = {"vecdot": ((3,), (3,)), "vecmat": ((3,), (3, 1)), "matvec": ((1, 3), (3,)), "matmul": ((1, 3), (3, 1))}
    test(getattr(np, name), *shapes[name], name in ("vecdot", "vecmat"))


# ---- what is built on them -----------------------------------------------------------------------------------------


def test_linalg_is_built_on_it(seen: list[Problem]) -> None:
    fastgemm.install()
    a = normal((12, 12), "f8", 5)
    for built in (lambda: np.linalg.matrix_power(a, 2), lambda: np.linalg.pinv(a), lambda: np.linalg.matmul(a, a)):
        forget(seen)
        built()
        assert seen
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.allclose(np.linalg.pinv(a) @ a, np.eye(12))
        assert np.allclose(operator.matmul(a, np.linalg.inv(a)), np.eye(12))
