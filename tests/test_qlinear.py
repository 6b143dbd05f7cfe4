"""`fastgemm.qlinear`: bytes in, float32 out, against float64 and beside `linear`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import normal

import fastgemm
from fastgemm import activations, epilogues, kernels, registry
from fastgemm.problem import MAX_BYTES_K

TIERS = [tier.name for tier in kernels.runnable()]
# Partial panels, one row, one column, several blocks of k, more rows than a panel.
SIZES = [(1, 300, 200), (5, 70, 33), (37, 130, 2500), (8, 1, 9), (3, 17, 1), (300, 64, 70), (1, 1, 1), (1, 40, 9001)]


@pytest.fixture(params=TIERS)
def tier(request: pytest.FixtureRequest, on_tier: Callable[[str], registry.Isa]) -> registry.Isa:
    """Every call of the process on one tier."""
    return on_tier(request.param)


def full(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Bytes of the whole range."""
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max, shape, dtype, endpoint=True)


def meaning(name: Any, sums: np.ndarray, scale: Any, bias: Any, residual: Any) -> np.ndarray:
    """Return the layer of int32 sums in float64."""
    what = epilogues.activation(name)
    x = sums.astype("f8") * np.asarray(scale, "f8")
    x = x + (0 if bias is None else np.asarray(bias, "f8")) + (0 if residual is None else np.asarray(residual, "f8"))
    with np.errstate(all="ignore"):
        return np.asarray(epilogues.meaning(what.row.name)(x, what.p, what.q))


def near(got: np.ndarray, want: np.ndarray, sums: np.ndarray, scale: Any) -> None:
    # Sums are rounded to float32, then scaled and added to; activations have slopes of at most about 1.1.
    size = np.abs(sums.astype("f8") * np.asarray(scale, "f8")) + 8
    assert got.dtype == np.float32
    assert got.shape == want.shape
    assert np.all(np.abs(got - want) <= 4 * np.finfo("f4").eps * size)


@pytest.mark.parametrize(("kind_x", "kind_w"), list(itertools.product(("int8", "uint8"), repeat=2)))
def test_products(tier: registry.Isa, kind_x: str, kind_w: str) -> None:
    for m, n, k in SIZES:
        x, weight = full((m, k), kind_x, 1), full((n, k), kind_w, 2)
        bias, residual = normal((n,), "f4", 3), normal((m, n), "f4", 4)
        scales = (np.random.default_rng(5).random(n) * 1e-4 + 1e-5).astype("f4")
        zeros, zero = full((n,), kind_w, 6), int(full((1,), kind_x, 7)[0])
        for w_zero, x_zero in ((None, None), (zeros, zero), (zeros[:1], None), (None, zero)):
            packed = fastgemm.pack(weight, trans=True, zero_point=w_zero)
            sums = (x.astype("i8") - (x_zero or 0)) @ (weight.T.astype("i8") - (0 if w_zero is None else w_zero))
            for threads, (factor, name) in itertools.product((1, 2), ((scales, "relu"), (scales[:1], None))):
                with fastgemm.threads(threads):
                    got = fastgemm.qlinear(x, packed, factor, bias, x_zero_point=x_zero, activation=name)
                    near(got, meaning(name, sums, factor, bias, None), sums, factor)
                    got = fastgemm.qlinear(x, packed, factor, None, x_zero_point=x_zero, residual=residual)
                    near(got, meaning(None, sums, factor, None, residual), sums, factor)
        got = fastgemm.qlinear(x, weight, scales, 0.5, residual=residual[:, :1], activation="sigmoid")
        sums = x.astype("i8") @ weight.T.astype("i8")
        near(got, meaning("sigmoid", sums, scales, 0.5, residual[:, :1]), sums, scales)


@pytest.mark.parametrize("name", [row.name for row in activations.EPILOGUES if row.name not in ("exp", "k_tanh")])
def test_activations(tier: registry.Isa, name: str) -> None:
    x, weight = full((9, 40), "uint8", 1), full((50, 40), "int8", 2)
    sums = x.astype("i8") @ weight.T.astype("i8")
    got = fastgemm.qlinear(x, fastgemm.pack(weight, trans=True), 1e-4, normal((50,), "f4", 3), activation=name)
    near(got, meaning(name, sums, np.float32(1e-4), normal((50,), "f4", 3), None), sums, 1e-4)


def ends(shape: tuple[int, ...], dtype: str, low: bool) -> np.ndarray:
    """Bytes at one end of their range, but for a few."""
    made = full(shape, dtype, 1)
    made[..., 7:] = np.iinfo(dtype).min if low else np.iinfo(dtype).max
    return made


@pytest.mark.parametrize(
    ("kind_x", "kind_w", "low", "zero", "w_zero", "k"),
    [
        ("uint8", "uint8", False, None, None, 33100), ("uint8", "uint8", False, 1, 1, 33500),
        ("uint8", "int8", True, None, None, 66000), ("int8", "uint8", False, None, None, 67000),
        ("int8", "int8", True, 127, None, 66000), ("int8", "int8", True, 127, 127, 40000),
        ("uint8", "uint8", True, 255, 255, 40000), ("int8", "int8", True, None, None, 131100),
        ("int8", "int8", True, None, None, 131080), ("uint8", "uint8", False, 128, 128, 140000),
    ],
)  # fmt: skip
def test_sums_that_int32_does_not_hold(
    kind_x: str, kind_w: str, low: bool, zero: int | None, w_zero: int | None, k: int
) -> None:
    """They are added up in float64, whether the weight is packed or too long for that."""
    x, weight, bias = ends((2, k), kind_x, low), ends((3, k), kind_w, low), normal((3,), "f4", 3)
    sums = (x.astype("i8") - (zero or 0)) @ (weight.T.astype("i8") - (w_zero or 0))
    scale = np.float32([1e-3, 2e-3, 3e-3])
    if w_zero is None:
        near(fastgemm.qlinear(x, weight, scale, bias, x_zero_point=zero), meaning(None, sums, scale, bias, None), sums,
             scale)  # fmt: skip
    if k <= MAX_BYTES_K:
        packed = fastgemm.pack(weight, trans=True, zero_point=w_zero)
        got = fastgemm.qlinear(x[0], packed, scale, bias, x_zero_point=zero, activation="relu")
        near(got, meaning("relu", sums[0], scale, bias, None), sums[0], scale)
    right: Any = weight.T if k > MAX_BYTES_K else packed
    one, y_scale = np.float32(1), np.abs(sums.max(axis=1)).astype("f4") / 100
    want = np.rint(sums * (one / y_scale).astype("f8")[:, None] - 5).clip(-128, 127)
    assert np.abs(want).max() > 50
    for stack in (x, np.stack([x, x])):
        got = fastgemm.qlinear_matmul(stack, one, zero, right, one, w_zero, y_scale, np.int8(-5))
        np.testing.assert_array_equal(got, np.broadcast_to(want, got.shape))
    wrapped = fastgemm.matmul_integer(x, right, zero, w_zero)
    np.testing.assert_array_equal(wrapped, sums.astype("i4"))
    assert (wrapped != sums).any() == (abs(sums).max() > np.iinfo("i4").max)


def test_long_sums_that_int32_holds_are_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of signed bytes, or of unsigned ones above their middle."""
    weight = full((3, 131000), "int8", 2)
    packed = fastgemm.pack(weight, trans=True)
    monkeypatch.setattr(fastgemm.PackedMatrix, "toarray", None)
    for kind, zero in (("int8", None), ("uint8", 128)):
        x = full((2, 131000), kind, 1)
        sums = (x.astype("i8") - (zero or 0)) @ weight.T.astype("i8")
        near(fastgemm.qlinear(x, packed, 1e-3, x_zero_point=zero), meaning(None, sums, 1e-3, None, None), sums, 1e-3)


def test_stacks_strides_and_out() -> None:
    x, weight = full((3, 4, 5, 12), "int8", 1), full((7, 12), "int8", 2)
    packed, bias = fastgemm.pack(weight, trans=True), normal((7,), "f4", 3)
    for left in (x, x[::2, ::-1], x.transpose(1, 2, 0, 3), x[..., ::-1], x[0, 0, 0], x[0, 0], x[:0]):
        sums = left.astype("i8") @ weight.T.astype("i8")
        residual = normal((*left.shape[:-1], 1), "f4", 4)
        want = meaning("relu", sums, np.float32(1e-3), bias, residual)
        got = fastgemm.qlinear(left, packed, 1e-3, bias[::-1][::-1], activation="relu", residual=residual)
        near(got, want, sums, 1e-3)
        wide = np.zeros((*left.shape[:-1], 14), "f4")
        for out in (np.empty(want.shape, "f4"), wide[..., ::2]):
            given = {"activation": "relu", "residual": residual}
            assert fastgemm.qlinear(left, packed, 1e-3, bias, **given, out=out) is out  # type: ignore[arg-type]
            np.testing.assert_array_equal(out, got)
    # Over its own residual, and over its operand.
    square, many = full((16, 16), "int8", 5), fastgemm.pack(full((4, 16), "int8", 6), trans=True)
    beside = normal((16, 4), "f4", 7)
    want = fastgemm.qlinear(square, many, 0.01, residual=beside)
    assert fastgemm.qlinear(square, many, 0.01, residual=beside, out=beside) is beside
    np.testing.assert_array_equal(beside, want)
    memory = np.zeros((16, 4), "f4")
    shared = memory.view("i1")
    shared[...] = square
    np.testing.assert_array_equal(fastgemm.qlinear(shared, many, 0.01, out=memory),
                                  fastgemm.qlinear(square, many, 0.01))  # fmt: skip


def test_quantised_weights_are_a_layer() -> None:
    """As close to the layer in float32 as the bytes are to its numbers."""
    x, weight, bias = normal((20, 64), "f4", 1), normal((30, 64), "f4", 2), normal((30,), "f4", 3)
    q, w = fastgemm.dynamic_quantize_linear(x), fastgemm.quantize_weights(weight, axis=0)
    packed = fastgemm.pack(w.values, trans=True)
    got = fastgemm.qlinear(q.values, packed, q.scale * w.scale, bias, x_zero_point=q.zero_point, activation="relu")
    want = fastgemm.linear(x, weight, bias, activation="relu")
    bound = np.abs(x).sum(1)[:, None] * w.error + np.abs(weight).sum(1) * q.scale
    assert np.all(np.abs(got - want) <= bound)


def test_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = full((6, 5), "int8", 1), full((4, 5), "uint8", 2)
    want = fastgemm.qlinear(x, weight, 0.01, 1.0, x_zero_point=3, activation="relu")
    monkeypatch.setattr(kernels, "active_isa", lambda: None)
    got = fastgemm.qlinear(x, weight, 0.01, 1.0, x_zero_point=3, activation="relu")
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


def test_errors() -> None:
    x, weight = np.ones((3, 4), "i1"), np.ones((5, 4), "i1")
    packed = fastgemm.pack(weight, trans=True)
    for call, error, text in (
        (lambda: fastgemm.qlinear(x.astype("i4"), packed, 1.0), TypeError, "int8 or uint8, not int32 and int8"),
        (lambda: fastgemm.qlinear(x, weight.astype("f4"), 1.0), TypeError, "not int8 and float32"),
        (lambda: fastgemm.qlinear(x, weight[0], 1.0), ValueError, "weight must be a matrix, not an array of 1"),
        (lambda: fastgemm.qlinear(x[:, :3], packed, 1.0), ValueError, "3 features, weight takes 4"),
        (lambda: fastgemm.qlinear(x, packed, np.ones(3)), ValueError, r"scale of shape \(3,\)"),
        (lambda: fastgemm.qlinear(x, packed, np.ones((1, 5))), ValueError, r"scale of shape \(1, 5\)"),
        (lambda: fastgemm.qlinear(x, packed, 1.0, np.ones(4)), ValueError, "bias of shape"),
        (lambda: fastgemm.qlinear(x, packed, 1.0, residual=np.ones((5, 3))), ValueError, "residual of shape"),
        (lambda: fastgemm.qlinear(x, packed, 1.0, x_zero_point=200), ValueError, "from -128 to 127"),
        (lambda: fastgemm.qlinear(x, packed, 1.0, x_zero_point=[1, 2, 3]), ValueError, "one whole number"),
        (lambda: fastgemm.qlinear(x, packed, 1.0, activation="softplus"), ValueError, "known activations"),
        (lambda: fastgemm.qlinear(x, packed, 1.0, out=np.empty((3, 5))), TypeError, "qlinear: out is float64"),
        (lambda: fastgemm.qlinear(x, packed, 1.0, out=np.empty((3, 4), "f4")), ValueError, "qlinear: out has shape"),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            call()
