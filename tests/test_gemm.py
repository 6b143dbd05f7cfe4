"""`fastgemm.gemm` is BLAS: what it must not read, how scalars act, what it refuses; SciPy's BLAS as oracle."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from oracle import FLOATS, assert_close, integers, normal

import fastgemm
from fastgemm import dispatch
from fastgemm.heuristic import rules

SIZES = [(1, 1, 1), (5, 7, 3), (9, 17, 21), (33, 16, 40), (1, 40, 9), (40, 1, 9), (64, 48, 65)]
NAN = np.nan


def arrays(char: str, m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Small integers as a, b and c."""
    return integers((m, k), char, 1), integers((k, n), char, 2), integers((m, n), char, 3)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("char", FLOATS)
def test_scalars(char: str, size: tuple[int, int, int]) -> None:
    a, b, c = arrays(char, *size)
    scalars: list[complex] = [0, 1, -1, 2.0, 0.5]
    if char in ("c8", "c16"):
        scalars += [1j, 2 - 1j]
    for alpha, beta in itertools.product(scalars, repeat=2):
        got = fastgemm.gemm(a, b, c, alpha=alpha, beta=beta)
        assert got.dtype == a.dtype
        np.testing.assert_array_equal(got, (alpha * (a @ b) + beta * c).astype(char))


@pytest.mark.parametrize("char", FLOATS)
def test_beta_zero_does_not_read_c(char: str) -> None:
    for size in SIZES:
        a, b, c = arrays(char, *size)
        want = a @ b
        c[...] = NAN
        np.testing.assert_array_equal(fastgemm.gemm(a, b, c, beta=0.0), want)
        np.testing.assert_array_equal(fastgemm.gemm(a, b, c, beta=-0.0, alpha=2), 2 * want)
        np.testing.assert_array_equal(fastgemm.gemm(a, b, c, beta=0, out=c), want)
        out = np.full_like(c, NAN)
        np.testing.assert_array_equal(fastgemm.gemm(a, b, out=out), want)


@pytest.mark.parametrize("char", FLOATS)
def test_alpha_zero_does_not_read_a_or_b(char: str) -> None:
    for size in SIZES:
        a, b, c = arrays(char, *size)
        for spoiled in ((a * NAN, b), (a, b * NAN), (a * NAN, b * NAN)):
            np.testing.assert_array_equal(fastgemm.gemm(*spoiled, c, alpha=0, beta=2), 2 * c)
            np.testing.assert_array_equal(fastgemm.gemm(*spoiled, c * NAN, alpha=0, beta=0), 0 * c)
            np.testing.assert_array_equal(fastgemm.gemm(*spoiled, alpha=0.0), 0 * c)


def test_nan_is_not_skipped_otherwise() -> None:
    a, b, c = arrays("f4", 5, 7, 3)
    a[2, 1] = NAN
    b[1] = 0
    got = fastgemm.gemm(a, b, c, beta=1)
    assert np.isnan(got[2]).all()
    assert not np.isnan(np.delete(got, 2, axis=0)).any()
    assert np.isnan(fastgemm.gemm(np.ones((5, 3), "f4"), b, c, alpha=NAN)).all()
    c[1, 1] = NAN
    assert np.isnan(fastgemm.gemm(np.ones((5, 3), "f4"), b, c, beta=1)).sum() == 1


@pytest.mark.parametrize("char", FLOATS)
def test_no_inner_dimension(char: str) -> None:
    """K = 0: the product is zero, and beta * c remains."""
    c = integers((3, 4), char, 1)
    a, b = np.empty((3, 0), char), np.empty((0, 4), char)
    np.testing.assert_array_equal(fastgemm.gemm(a, b), np.zeros_like(c))
    np.testing.assert_array_equal(fastgemm.gemm(a, b, c, beta=3), 3 * c)
    np.testing.assert_array_equal(fastgemm.gemm(a, b, c * NAN, beta=0), np.zeros_like(c))
    assert fastgemm.gemm(np.empty((0, 3), char), np.empty((3, 4), char)).shape == (0, 4)
    assert fastgemm.gemm(np.empty((2, 3), char), np.empty((3, 0), char)).shape == (2, 0)


@pytest.mark.parametrize("char", FLOATS)
def test_transposes_and_strides(char: str) -> None:
    """Both transposes with every way the operands, c and out may lie in memory."""
    m, n, k = 9, 17, 11
    layouts: list[Callable[[np.ndarray], np.ndarray]] = [
        lambda x: x.copy("C"),
        lambda x: x.copy("F"),
        lambda x: np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3],
        lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    ]
    a, b, c = arrays(char, m, n, k)
    want = 2 * (a @ b) - c
    for trans_a, trans_b in itertools.product([False, True], repeat=2):
        stored_a, stored_b = (a.T if trans_a else a), (b.T if trans_b else b)
        for la, lb, lc in itertools.product(layouts, repeat=3):
            out = lc(np.full_like(c, NAN))
            keywords: dict[str, Any] = {"alpha": 2, "beta": -1, "trans_a": trans_a, "trans_b": trans_b}
            got = fastgemm.gemm(la(stored_a), lb(stored_b), lc(c), out=out, **keywords)
            assert got is out
            np.testing.assert_array_equal(out, want)


def test_transpose_does_not_conjugate() -> None:
    a = np.array([[1j, 2]])
    np.testing.assert_array_equal(fastgemm.gemm(a, a, trans_b=True), [[3]])


ALPHAS = [np.float64(2), np.float32(2), np.float16(2), np.int8(2), np.longdouble(2), np.array(2.0), 2, 2.0, np.True_]


@pytest.mark.parametrize("alpha", ALPHAS, ids=lambda x: type(x).__name__ + str(x))
@pytest.mark.parametrize("char", FLOATS)
def test_type_of_scalars_does_not_count(char: str, alpha: Any) -> None:
    a, b, c = arrays(char, 3, 4, 5)
    got = fastgemm.gemm(a, b, c, alpha=alpha, beta=alpha)
    assert got.dtype == a.dtype
    np.testing.assert_array_equal(got, int(alpha) * (a @ b) + int(alpha) * c)


@pytest.mark.parametrize("name", ["alpha", "beta"])
@pytest.mark.parametrize("scalar", [1j, 1 + 0j, np.complex64(1)], ids=repr)
def test_complex_scalar_with_real_operands(name: str, scalar: complex) -> None:
    a, b, c = arrays("f4", 3, 4, 5)
    with pytest.raises(TypeError, match=f"{name} is complex"):
        fastgemm.gemm(a, b, c, **{"beta": 1.0, name: scalar})


@pytest.mark.parametrize("bad", ["2", None, [1, 2], np.ones(3), object()], ids=lambda bad: type(bad).__name__)
def test_scalar_that_is_none(bad: Any) -> None:
    a, b, c = arrays("f4", 3, 4, 5)
    with pytest.raises(TypeError, match="alpha"):
        fastgemm.gemm(a, b, c, alpha=bad)
    with pytest.raises(TypeError, match="beta"):
        fastgemm.gemm(a, b, c, beta=bad)


def test_wrong_dimensions() -> None:
    m, v, s = np.ones((3, 3)), np.ones(3), np.ones((2, 3, 3))
    for x, y in [(v, m), (m, v), (v, v), (s, m), (m, s), (1.0, m), (m, np.float64(1))]:
        with pytest.raises(ValueError, match="matrix"):
            fastgemm.gemm(x, y)
    for c in (v, s, 1.0):
        with pytest.raises(ValueError, match="c has shape"):
            fastgemm.gemm(m, m, c, beta=1)


def test_wrong_shapes() -> None:
    a, b, c = arrays("f8", 3, 4, 5)
    with pytest.raises(ValueError, match="inner sizes"):
        fastgemm.gemm(a, a)
    with pytest.raises(ValueError, match="inner sizes"):
        fastgemm.gemm(a, b, trans_a=True)
    with pytest.raises(ValueError, match="inner sizes"):
        fastgemm.gemm(a, b, trans_b=True)
    for wrong in (c.T, c[:2], c[:, :1], c[0]):
        with pytest.raises(ValueError, match="shape"):
            fastgemm.gemm(a, b, wrong, beta=1)
        with pytest.raises(ValueError, match="shape"):
            fastgemm.gemm(a, b, out=wrong.copy())
    with pytest.raises(ValueError, match=r"no c|as c"):
        fastgemm.gemm(a, b, beta=1)


def test_wrong_out() -> None:
    a, b, c = arrays("f8", 3, 4, 5)
    for bad in (np.empty((3, 4), "f4"), np.empty((3, 4), "i8"), [[0.0] * 4] * 3):
        with pytest.raises(TypeError, match="out"):
            fastgemm.gemm(a, b, out=bad)  # type: ignore[arg-type]
    c.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        fastgemm.gemm(a, b, out=c)


@pytest.mark.parametrize("char", FLOATS)
def test_overlap(char: str) -> None:
    """An out that overlaps an operand gives the right result."""
    x, y = integers((12, 12), char, 1), integers((12, 12), char, 2)
    cuts: list[tuple[Any, Any]] = [
        (np.s_[:9, :9], np.s_[:9, :9]),
        (np.s_[:9, :9], np.s_[1:10, :9]),
        (np.s_[1:10, :9], np.s_[:9, :9]),
        (np.s_[:9, :9], np.s_[:9, 2:11]),
        (np.s_[8::-1, :9], np.s_[:9, :9]),
    ]
    for cut_in, cut_out in cuts:
        for beta in (0, 1, -2):
            want = x[cut_in] @ y[:9, :9] + beta * x[cut_out]
            u = x.copy()
            fastgemm.gemm(u[cut_in], y[:9, :9], u[cut_out], beta=beta, out=u[cut_out])
            np.testing.assert_array_equal(u[cut_out], want)
            want = y[:9, :9] @ x[cut_in] + beta * x[cut_in]
            u = x.copy()
            fastgemm.gemm(y[:9, :9], u[cut_in], u[cut_in], beta=beta, out=u[cut_out])
            np.testing.assert_array_equal(u[cut_out], want)
            want = y[:9, :9] @ y[:9, :9] + beta * x[cut_in]
            u = x.copy()
            fastgemm.gemm(y[:9, :9], y[:9, :9], u[cut_in], beta=beta, out=u[cut_out])
            np.testing.assert_array_equal(u[cut_out], want)
    u = x.copy()
    fastgemm.gemm(u, u, u, alpha=2, beta=3, trans_a=True, out=u)
    np.testing.assert_array_equal(u, 2 * (x.T @ x) + 3 * x)


def test_operands_are_left_alone() -> None:
    a, b, c = arrays("f4", 9, 17, 21)
    before = [x.copy() for x in (a, b, c)]
    fastgemm.gemm(a, b, c, alpha=2, beta=3)
    fastgemm.gemm(a, b, c, beta=3, out=np.empty_like(c))
    for x, y in zip((a, b, c), before, strict=True):
        np.testing.assert_array_equal(x, y)


def test_mixed_dtypes() -> None:
    a, b, c = arrays("f4", 3, 4, 5)
    for left, right in itertools.product(["f4", "f8", "c8", "c16", "f2", "i2", ">f4"], repeat=2):
        got = fastgemm.gemm(a.astype(left), b.astype(right), c.astype("f4"), beta=1)
        assert got.dtype == np.result_type(np.dtype(left), np.dtype(right), np.float32)
        np.testing.assert_array_equal(got, a @ b + c)
    assert fastgemm.gemm(a, b, c.astype("f8"), beta=1).dtype == np.float64


@pytest.mark.parametrize("char", "bhilBHILqQegG")
def test_other_dtypes(char: str) -> None:
    a, b, c = integers((3, 5), char, 1), integers((5, 4), char, 2), integers((3, 4), char, 3)
    got = fastgemm.gemm(a, b, c, alpha=2, beta=1)
    assert got.dtype == a.dtype
    np.testing.assert_array_equal(got, (2 * (a @ b) + c).astype(char))
    spoiled = fastgemm.gemm(a, b, c, alpha=0, beta=1)
    np.testing.assert_array_equal(spoiled, c)


@pytest.mark.parametrize("char", "bhilqBHILQ")
def test_whole_factors_keep_their_digits(char: str) -> None:
    """And wrap as the products do, like the same numbers in an array."""
    a, b, c = integers((3, 5), char, 1), integers((5, 4), char, 2), integers((3, 4), char, 3)
    wide = (a @ b).astype("O"), c.astype("O")
    bits = 8 * a.dtype.itemsize
    for alpha, beta in ((2**53 + 1, 1), (2**64 - 1, -1), (300, 10**20), (-1, 2**bits), (np.uint64(2**63), np.int8(-3))):
        want = (wide[0] * int(alpha) + wide[1] * int(beta)) % 2**bits
        got = fastgemm.gemm(a, b, c, alpha=alpha, beta=beta)
        assert got.dtype == a.dtype
        np.testing.assert_array_equal(got, want.astype(f"u{a.dtype.itemsize}").astype(char))


@pytest.mark.parametrize("name", ["alpha", "beta"])
@pytest.mark.parametrize("bad", [0.5, np.inf, -np.inf, np.nan])
def test_no_whole_number_for_whole_operands(name: str, bad: float) -> None:
    a, b, c = arrays("i4", 3, 4, 5)
    with pytest.raises(TypeError, match=f"{name} must be a whole number"):
        fastgemm.gemm(a, b, c, **{"beta": 1, name: bad})


def test_large_whole_factors_of_floats() -> None:
    a, b, c = arrays("f8", 3, 4, 5)
    np.testing.assert_array_equal(fastgemm.gemm(a, b, c, alpha=10**20, beta=-(10**19)), 1e20 * (a @ b) - 1e19 * c)


def test_bfloat16_has_factors_of_floats() -> None:
    """Halves are summed and scaled in float32, and rounded once."""
    a, b, c = (array.astype(ml_dtypes.bfloat16) for array in arrays("f4", 30, 40, 50))
    single = [array.astype("f4") for array in (a, b, c)]
    for alpha in (0.3, a.dtype.type(0.3), 2, 0):
        got = fastgemm.gemm(a, b, c, alpha=alpha, beta=0.7)
        assert got.dtype == a.dtype
        want = np.float32(alpha) * (single[0] @ single[1]) + np.float32(0.7) * single[2]
        np.testing.assert_array_equal(got, want.astype(a.dtype))


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_beta_of_halves_is_rounded_once(kind: Any) -> None:
    """Also where nothing is multiplied: alpha is 0, or there is no inner dimension."""
    c = (arrays("f4", 30, 40, 1)[2] * 0.37).astype(kind)
    a, b = np.ones((30, 2), kind), np.ones((2, 40), kind)
    for beta, added in ((0.1, c), (70000.0, c / kind(1024)), (1e-8, c * kind(4096))):
        want = (added.astype("f4") * np.float32(beta)).astype(kind)
        for left, right, alpha in ((a, b, 0), (a[:, :0], b[:0], 1), (a * kind(0), b, 1)):
            np.testing.assert_array_equal(fastgemm.gemm(left, right, added, alpha=alpha, beta=beta), want)


def test_array_likes() -> None:
    np.testing.assert_array_equal(fastgemm.gemm([[1.0, 2.0]], [[3.0], [4.0]], [[5.0]], beta=1), [[16.0]])
    assert type(fastgemm.gemm(np.eye(2).view(np.matrix), np.eye(2))) is np.ndarray


def test_unaligned() -> None:
    a, b, c = arrays("f8", 9, 17, 21)

    def moved(x: np.ndarray) -> np.ndarray:
        y = np.zeros(x.nbytes + 1, "u1")[1:].view(x.dtype).reshape(x.shape)
        y[...] = x
        return y

    out = moved(np.full_like(c, NAN))
    assert fastgemm.gemm(moved(a), moved(b), moved(c), beta=2, out=out) is out
    np.testing.assert_array_equal(out, a @ b + 2 * c)


@pytest.mark.parametrize("char", FLOATS)
def test_scipys_blas(char: str) -> None:
    """Random floats, scalars and transposes against the BLAS under SciPy."""
    blas = pytest.importorskip("scipy.linalg.blas")
    gemm = getattr(blas, {"f4": "sgemm", "f8": "dgemm", "c8": "cgemm", "c16": "zgemm"}[char])
    for (m, n, k), trans_a, trans_b in itertools.product(SIZES, [False, True], [False, True]):
        a = normal((k, m) if trans_a else (m, k), char, 1)
        b = normal((n, k) if trans_b else (k, n), char, 2)
        c = normal((m, n), char, 3)
        want = gemm(1.5, a, b, beta=-0.5, c=c, trans_a=trans_a, trans_b=trans_b)
        got = fastgemm.gemm(a, b, c, alpha=1.5, beta=-0.5, trans_a=trans_a, trans_b=trans_b)
        # c enters the bound as one more step of k.
        left = np.hstack([1.5 * (a.T if trans_a else a), np.full((m, 1), 3, char)])
        right = np.vstack([b.T if trans_b else b, np.full((1, n), 3, char)])
        assert_close(got, left, right, np.asarray(want))


def test_threads() -> None:
    a, b, c = arrays("f4", 200, 210, 220)
    with fastgemm.threads(2):
        np.testing.assert_array_equal(fastgemm.gemm(a, b, c, alpha=2, beta=-1), 2 * (a @ b) - c)


def test_unaligned_out() -> None:
    """An out at odd addresses is written without the kernels storing there (undefined behaviour, found by UBSan)."""
    room = np.zeros(1 + 5 * 7 * 8, np.uint8)
    out = room[1:].view(np.float64).reshape(5, 7)
    assert not out.flags.aligned
    a, b, c = np.ones((5, 3)), np.ones((3, 7)), np.full((5, 7), 2.0)
    assert fastgemm.gemm(a, b, c, beta=1.0, out=out) is out
    assert (out == 5.0).all()
    assert (fastgemm.gemm(a, b, out, beta=2.0, out=out) == 13.0).all()


@pytest.mark.parametrize("char", ["F", "D", "d"])
def test_conjugate_operands(char: str) -> None:
    """By flag or as BLAS's letter C, in every shape class and order of C, with alpha and beta and blocks of k."""
    sizes = [(1, 1, 1), (1, 40, 30), (40, 1, 30), (1, 1, 50), (7, 9, 5), (3, 2, 400), (70, 65, 33), (2, 3, 9000)]
    for m, n, k in sizes:
        a, b, c = normal((m, k), char, 1), normal((k, n), char, 2), normal((m, n), char, 3)
        limit = 20 * np.finfo(char).eps * k**0.5 * 8
        for conj_a, conj_b, order in itertools.product([False, True], [False, True], "CF"):
            want = (a.conj() if conj_a else a) @ (b.conj() if conj_b else b)
            got = fastgemm.gemm(a, b, conj_a=conj_a, conj_b=conj_b, out=np.empty((m, n), char, order))
            assert np.abs(got - want).max() <= limit
            letters = {name: "C" if conj else "N" for name, conj in (("trans_a", conj_a), ("trans_b", conj_b))}
            stored = [np.ascontiguousarray(x.T) if conj else x for x, conj in ((a, conj_a), (b, conj_b))]
            got = fastgemm.gemm(*stored, c, alpha=1.5, beta=-0.5, **letters)
            assert np.abs(got - (1.5 * want - 0.5 * c)).max() <= 2 * limit
        with fastgemm.threads(2):
            config = rules.config(fastgemm.explain(a, b).problem).replace(threads=2, split="k")
            # The small family does not share k.
            if config.family == "small":
                config = config.replace(family="gemm", pack="b")
            with dispatch.forced(config):
                assert fastgemm.explain(a, b).rung == "forced"
                got = fastgemm.gemm(a, b, conj_a=True)
        assert np.abs(got - a.conj() @ b).max() <= limit
    square = normal((300, 300), char, 1)
    got = fastgemm.gemm(square, square, trans_b="c")
    assert np.abs(got - square @ square.conj().T).max() <= 1e4 * np.finfo(char).eps
    with pytest.raises(ValueError, match="trans_a"):
        fastgemm.gemm(square, square, trans_a="H")
    whole = np.arange(6).reshape(2, 3)
    assert np.array_equal(fastgemm.gemm(whole, whole, trans_b="C"), whole @ whole.T)
