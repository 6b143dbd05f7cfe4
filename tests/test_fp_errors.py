"""Floating-point errors: under `np.errstate` the same reports as `np.matmul`, and never a spurious one.

Edges are where spurious reports come from: a masked lane that computes on what
lies beside the operand.  Here that memory holds signalling NaNs, so that any
arithmetic on it, or on a lane of an infinite row that should be off, is reported.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import Child
from oracle import FLOATS, MatMul, integers

import fastgemm

MODES = ("ignore", "warn", "raise", "call", "print", "log")
SIGNALLING = {4: 0x7FA00000, 8: 0x7FF4000000000000}
INVALID, OVERFLOW, UNDERFLOW = "invalid value", "overflow", "underflow"
CLEAN: set[str] = set()

# What goes in, and what IEEE arithmetic has to report.
CASES: dict[str, tuple[Callable[[str], tuple[np.ndarray, np.ndarray]], set[str]]] = {
    "inf * 0": (lambda c: (np.array([[np.inf, 1]], c), np.array([[0], [1]], c)), {INVALID}),
    "inf - inf": (lambda c: (np.array([[np.inf, -np.inf]], c), np.ones((2, 1), c)), {INVALID}),
    "overflow": (lambda c: (np.full((3, 2), np.finfo(c).max, c), np.full((2, 5), 16, c)), {OVERFLOW}),
    "underflow": (
        lambda c: (np.full((3, 1), np.finfo(c).tiny, c), np.full((1, 5), np.finfo(c).eps / 3, c)),
        {UNDERFLOW},
    ),
    "nan": (lambda c: (np.array([[np.nan, 1]], c), np.ones((2, 3), c)), CLEAN),
    "clean": (lambda c: (np.ones((3, 4), c), np.ones((4, 5), c)), CLEAN),
    "zeros": (lambda c: (np.zeros((3, 4), c), np.zeros((4, 5), c)), CLEAN),
    "vectors": (lambda c: (np.array([np.inf, 1], c), np.array([0, 1], c)), {INVALID}),
    "vector, matrix": (lambda c: (np.array([np.inf, 1], c), np.zeros((2, 40), c)), {INVALID}),
    "matrix, vector": (lambda c: (np.full((40, 2), np.inf, c), np.zeros(2, c)), {INVALID}),
    "stack": (lambda c: (np.full((3, 2, 2), np.inf, c), np.zeros((2, 2), c)), {INVALID}),
    "K=0": (lambda c: (np.ones((3, 0), c), np.ones((0, 5), c)), CLEAN),
}


def reports(
    matmul: MatMul, a: np.ndarray, b: np.ndarray, mode: str, **keywords: Any
) -> tuple[str | None, list[str], list[tuple[str, int]], str]:
    """All that a call reports in a mode: exception, warnings, what the callback and the log got."""
    called: list[tuple[str, int]] = []
    log = io.StringIO()
    error = None
    targets: dict[str, Any] = {"call": lambda kind, flag: called.append((kind, flag)), "log": log}
    with np.errstate(all=mode, call=targets.get(mode)), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            matmul(a, b, **keywords)
        except FloatingPointError as exc:
            error = str(exc)
    return error, [str(w.message) for w in caught], called, log.getvalue()


def flags(a: np.ndarray, b: np.ndarray, matmul: MatMul = fastgemm.matmul, **kwargs: Any) -> set[str]:
    """Kinds of error that a call warns of."""
    messages = reports(matmul, a, b, "warn", **kwargs)[1]
    assert all(m.endswith(" encountered in matmul") for m in messages)
    return {m.removesuffix(" encountered in matmul") for m in messages}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize("case", CASES)
def test_reports_are_numpys(case: str, char: str, mode: str, capfd: pytest.CaptureFixture[str]) -> None:
    a, b = CASES[case][0](char)
    want = reports(np.matmul, a, b, mode), capfd.readouterr()
    got = reports(fastgemm.matmul, a, b, mode), capfd.readouterr()
    assert got == want


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stack", [(), (2, 3)])
def test_calls_of_several_products_report_once(
    mode: str, stack: tuple[int, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    """Parts of complex numbers, matrices of a stack: what is raised is raised when all of the output is there."""
    for left, right, kind in (("c8", "f4", "c8"), ("f2", "f2", "f4")):
        a, b = np.full((*stack, 4, 5), 6e4, left), np.full((*stack, 5, 6), 6e4, right)
        if left == "c8":
            a, b = a * np.complex64(1e30 + 1e30j), b * np.float32(1e4)
        else:
            a[..., 0], b[..., 0, :] = np.inf, 0     # sums of halves do not leave float32
        keywords = {} if left == "c8" else {"dtype": kind}
        # (Of real and complex numbers NumPy makes complex ones, and infinity times their 0.)
        want = reports(np.matmul, a.real, b, mode, **keywords), capfd.readouterr()
        out = np.zeros((*stack, 4, 6), kind)
        assert (reports(fastgemm.matmul, a, b, mode, out=out, **keywords), capfd.readouterr()) == want
        parts = out.view("f4")
        assert not np.isfinite(parts).any()


@pytest.mark.parametrize("char", FLOATS)
@pytest.mark.parametrize("case", CASES)
def test_reports_are_right(case: str, char: str) -> None:
    """What arithmetic has to report is reported.

    NumPy's complex BLAS multiplies the sum by alpha = 1 + 0j, so it may say
    'invalid value' besides for an infinite sum: that much more is allowed.
    """
    make, want = CASES[case]
    a, b = make(char)
    got = flags(a, b)
    assert want <= got <= want | flags(a, b, np.matmul)


@pytest.mark.parametrize("kind", ["over", "under", "invalid"])
def test_one_kind_at_a_time(kind: str) -> None:
    """Only the kind of error asked for raises."""
    for case, (make, _) in CASES.items():
        a, b = make("f8")
        answers = []
        for matmul in (np.matmul, fastgemm.matmul):
            with np.errstate(all="ignore", **{kind: "raise"}):
                try:
                    matmul(a, b)
                    answers.append("nothing")
                except FloatingPointError as exc:
                    answers.append(str(exc))
        assert answers[0] == answers[1], case


def test_old_flags_are_not_reported() -> None:
    """An error before the call, left unreported, is not the call's; nor is one call's the next one's."""
    inf, one = np.full((2, 2), np.inf), np.ones((2, 2))
    with np.errstate(all="ignore"):
        np.subtract(inf, inf)
        fastgemm.matmul(inf, np.zeros((2, 2)))
    assert flags(one, one) == CLEAN


def test_result_is_written_although_it_raises() -> None:
    out = np.zeros((1, 1))
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError, match="invalid value encountered in matmul"):
        fastgemm.matmul(np.array([[np.inf]]), np.array([[0.0]]), out=out)
    assert np.isnan(out).all()


def surrounded(values: np.ndarray, margin: int = 70) -> np.ndarray:
    """Copy values into the middle of a matrix of signalling NaNs."""
    rows, columns = values.shape
    real = values.real.dtype
    word = f"u{real.itemsize}"
    wide = np.empty((rows + 2 * 3, columns + 2 * margin), values.dtype)
    wide.view(word)[...] = SIGNALLING[real.itemsize]
    view = wide[3 : 3 + rows, margin : margin + columns]
    view.view(word)[...] = np.ascontiguousarray(values).view(word)
    return view


@pytest.mark.parametrize("char", FLOATS)
@pytest.mark.parametrize("n", range(1, 41))
def test_edges_report_nothing(char: str, n: int) -> None:
    """Infinities at every edge, signalling NaNs beyond it: no report, and the right result."""
    for m, k in [(1, 1), (1, 7), (2, 16), (5, 3), (6, 9), (13, 4), (29, 2), (n, n)]:
        a, b = np.ones((m, k), char), integers((k, n), char, n)
        # A complex infinity times 1 + 0j is invalid by its formula, so that stays finite.
        b[:, -1] = np.inf if b.dtype.kind == "f" else 1000
        want = b.sum(axis=0, dtype=char) + np.zeros((m, 1), char)
        for x in (a, a.copy("F")):
            for y in (b, b.copy("F")):
                left = surrounded(x) if x.flags.c_contiguous else surrounded(x.T).T
                right = surrounded(y) if y.flags.c_contiguous else surrounded(y.T).T
                out = surrounded(np.full((m, n), 3, char))
                assert isinstance(out.base, np.ndarray)
                before = out.base.tobytes()
                assert flags(left, right, out=out) == CLEAN
                np.testing.assert_array_equal(out, want)
                out[...] = 3
                assert out.base.tobytes() == before, "wrote beside out"


@pytest.mark.parametrize("char", FLOATS)
def test_out_is_not_read(char: str) -> None:
    """Signalling NaNs in out are neither read nor reported."""
    for m, n, k in [(1, 1, 1), (3, 5, 7), (17, 33, 9), (64, 64, 64)]:
        a, b = integers((m, k), char, 1), integers((k, n), char, 2)
        out = surrounded(np.zeros((m, n), char))
        out.view(f"u{a.real.itemsize}")[...] = SIGNALLING[a.real.itemsize]
        assert flags(a, b, out=out) == CLEAN
        np.testing.assert_array_equal(out, np.matmul(a, b))


@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize("place", ["top left", "top right", "bottom left", "bottom right"])
def test_workers_flags_arrive(char: str, place: str) -> None:
    """Flags are per thread: those of the threads that help must reach the caller."""
    size = 260
    row = 0 if "top" in place else size - 1
    column = 0 if "left" in place else size - 1
    a, b = np.ones((size, size), char), np.ones((size, size), char)
    a[row, 7] = np.finfo(char).max
    b[7, column] = 16
    with fastgemm.threads(2):
        assert flags(a, b) == {OVERFLOW}
        a[row, 7] = 1
        assert flags(a, b) == CLEAN
    stack_a, stack_b = np.ones((8, 40, 40), char), np.ones((8, 40, 40), char)
    which = 0 if "top" in place else 7
    stack_a[which, 0, 0], stack_b[which, 0, 0] = np.inf, 0
    with fastgemm.threads(2):
        assert flags(stack_a, stack_b) == {INVALID}


def test_workers_old_flags_are_not_reported() -> None:
    """A helping thread's flags from the call before are gone."""
    a = np.full((300, 300), np.inf, "f4")
    zero, one = np.zeros((300, 300), "f4"), np.ones((300, 300), "f4")
    with fastgemm.threads(2):
        for _ in range(3):
            with np.errstate(all="ignore"):
                fastgemm.matmul(a, zero)
            assert flags(one, one) == CLEAN


@pytest.mark.parametrize("char", "fd")
def test_gemm_reports_too(char: str) -> None:
    """What arithmetic does is reported, what BLAS does not read is not."""
    one, inf, zero = np.ones((9, 9), char), np.full((9, 9), np.inf, char), np.zeros((9, 9), char)
    big = np.full((9, 9), np.finfo(char).max, char)
    with np.errstate(all="raise"):
        with pytest.raises(FloatingPointError, match="invalid"):
            fastgemm.gemm(inf, zero)
        with pytest.raises(FloatingPointError, match="overflow"):
            fastgemm.gemm(one, one, big, beta=2.0)
        fastgemm.gemm(inf, zero, one, alpha=0, beta=1)
        fastgemm.gemm(one, one, inf * one, beta=0)
        fastgemm.gemm(one, one, one, alpha=1 / 3, beta=1 / 7)
        fastgemm.gemm(one, one, one, alpha=-1.5, beta=2.5, out=np.empty((9, 18), char)[:, ::2])


@pytest.mark.parametrize("shape", [(3, 4), (5, 3, 4), (2, 5, 3, 4)])
def test_products_with_another_type_report_too(shape: tuple[int, ...]) -> None:
    """float16 to float32: matrices on the short way, deeper stacks on the long one."""
    a, b = np.ones(shape, "f2"), np.ones((4, 6), "f2")
    assert flags(a, b, dtype=np.float32) == CLEAN
    a[..., 1, 2], b[2, 3] = np.inf, 0
    assert flags(a, b, dtype=np.float32) == {INVALID}
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="in matmul"):
        fastgemm.matmul(a, b, dtype=np.float32)


def test_bfloat16_reports_where_it_is_computed_in_float32(child: Child) -> None:
    """Native dot products of bfloat16 set no flags: FASTGEMM_BF16=exact does without them."""
    code = (
        "import warnings, ml_dtypes, numpy as np, fastgemm\n"
        "warnings.simplefilter('error')\n"
        "for shape in ((4, 4), (3, 4, 4), (2, 1, 4, 4)):\n"
        "    for asked in (None, np.float32, ml_dtypes.bfloat16):\n"
        "        a = np.full(shape, 1e30, ml_dtypes.bfloat16)\n"
        "        try:\n"
        "            fastgemm.matmul(a, a, **({} if asked is None else {'dtype': asked}))\n"
        "        except RuntimeWarning as warning:\n"
        "            print(warning)\n"
    )
    said = child(code, FASTGEMM_BF16="exact").stdout.splitlines()
    assert said == ["overflow encountered in matmul"] * 9


@pytest.mark.parametrize("char", "fd")
def test_infinite_rows_by_short_columns(char: str) -> None:
    """No lane without a column takes part: an infinity times the nothing beside the last column is no error."""
    for m, n, k, apart in ((1, 3, 3, 3), (1, 37, 3, 3), (2, 5, 4, 4), (3, 70, 3, 4), (4, 9, 2, 7), (1, 1, 2, 2)):
        x, points = np.full((m, k), np.inf, char), np.ones((n, apart), char)
        points[:, k:] = 0
        with np.errstate(all="raise"):
            assert np.array_equal(fastgemm.matmul(x, points[:, :k].T), np.full((m, n), np.inf, char))
            assert np.array_equal(fastgemm.matmul(points[:, :k], x.T), np.full((n, m), np.inf, char))
            stack = fastgemm.matmul(np.repeat(points[None, :, :k], 5, axis=0), x[:1].T)
        assert np.isinf(stack).all()
