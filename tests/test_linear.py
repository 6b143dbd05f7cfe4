"""`fastgemm.linear`: the table of epilogues on every tier against its NumPy meaning, and its contract."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import assert_close, dtype_of, normal

import fastgemm
from fastgemm import _linear, activations, dispatch, epilogues, kernels, layer, registry
from fastgemm.driver import _plan, _team
from fastgemm.heuristic import rules
from fastgemm.problem import Config, Problem

TIERS = [tier.name for tier in kernels.runnable()]
NAMES = [row.name for row in activations.EPILOGUES]
# Sums and choices: the bits are NumPy's.  The others within 3 units in the last place, or 4 * eps * (1 + |x|).
EXACT = ("none", "relu", "leaky_relu", "clip", "scale", "k_tanh")
ULPS = ("exp", "erf", "tanh")
# gemm with whole and partial tiles and several blocks of k; gemv both ways and over parts of k; small; few rows that
# are one product each.
SIZES = [(37, 50, 70), (61, 131, 2500), (1, 300, 200), (300, 1, 200), (2, 7, 9000), (8, 8, 8), (64, 5, 4), (200, 3, 7),
         (1, 1, 1), (40, 16, 16), (3, 80, 130), (2, 700, 64)]  # fmt: skip


@pytest.fixture(params=TIERS)
def tier(request: pytest.FixtureRequest, on_tier: Callable[[str], registry.Isa]) -> registry.Isa:
    """Every call of the process on one tier."""
    return on_tier(request.param)


def given(name: str) -> Any:
    """Return an activation with numbers of its own where it has any."""
    return {"leaky_relu": ("leaky_relu", 0.2), "clip": ("clip", -0.5, 1.5), "scale": ("scale", 0.3)}.get(name, name)


def precise(name: str, x: np.ndarray) -> np.ndarray:
    """Return the activation of numbers by its NumPy meaning, in float64."""
    what = epilogues.activation(given(name))
    with np.errstate(all="ignore"):
        return np.asarray(epilogues.meaning(name)(x.astype("f8"), what.p, what.q))


def assert_activation(name: str, got: np.ndarray, x: np.ndarray) -> None:
    """Assert that `got` is the activation of x within the bounds that `linear` states."""
    what = epilogues.activation(given(name))
    if name in EXACT:
        np.testing.assert_array_equal(got, epilogues.meaning(name)(x, what.p, what.q))
        return
    want = precise(name, x)
    with np.errstate(over="ignore"):
        rounded = want.astype(got.dtype)
    special = ~np.isfinite(rounded)
    np.testing.assert_array_equal(got[special], rounded[special])
    if name in ULPS:
        bound = 3 * np.spacing(np.abs(rounded)).astype("f8")
    else:
        bound = 4 * float(np.finfo(got.dtype).eps) * (1 + np.abs(x.astype("f8")))
    error, bound = np.abs(got[~special].astype("f8") - want[~special]), bound[~special]
    assert np.all(error <= bound), f"{name}: {np.max(error / bound)} of the bound"


def operands(m: int, n: int, k: int, dtype: str) -> tuple[np.ndarray, ...]:
    """Return x, weight, bias and residual."""
    return (normal((m, k), dtype, 1), (normal((n, k), dtype, 2) / math.sqrt(k)).astype(dtype), normal((n,), dtype, 3),
            normal((m, n), dtype, 4))  # fmt: skip


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", NAMES)
def test_table(tier: registry.Isa, name: str, dtype: str) -> None:
    for size in SIZES:
        x, weight, bias, residual = operands(*size, dtype)
        product = fastgemm.matmul(x, weight.T)
        for threads in (1, 2):
            with fastgemm.threads(threads):
                product = fastgemm.matmul(x, weight.T)
                got = fastgemm.linear(x, weight, activation=given(name))
                assert_activation(name, got, product)
                got = fastgemm.linear(x, weight, bias, activation=given(name))
                assert_activation(name, got, product + bias)
                got = fastgemm.linear(x, weight, bias, activation=given(name), residual=residual)
                assert_activation(name, got, product + bias + residual)


def test_k_tanh_over_all_halves(tier: registry.Isa) -> None:
    """Every bfloat16: the table's bits, and its accuracy, which is that of the publication's table."""
    x = (np.arange(1 << 16, dtype="u4") << 16).view("f4")
    layer.load(tier)
    got = x.reshape(1, -1).copy()
    code = activations.epilogue("k_tanh").code
    _linear.finish_into(tier.level, got, code, None, None, 0.0, 0.0)
    np.testing.assert_array_equal(got[0], epilogues.meaning("k_tanh")(x, 0, 0))
    assert not (got[0][~np.isnan(x)].view("u4") & 0xFFFF).any()
    with np.errstate(invalid="ignore"):
        inside = (x >= 0.25) & (x <= 3.75)
    error = np.abs(got[0][inside].astype("f8") - np.tanh(x[inside].astype("f8")))
    assert inside.sum() == 497
    assert 0.0089 < error.max() < 0.00893
    assert 0.00195 < error.mean() < 0.002
    assert abs(x[inside][error.argmax()] - 0.621) < 1e-3
    small = np.abs(x) < 0.25
    np.testing.assert_array_equal(got[0][small], x[small])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(got[0][x > 3.75], 1)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", NAMES)
def test_error_bounds(tier: registry.Isa, name: str, dtype: str) -> None:
    """Over all exponents and both signs, infinities, NaN and numbers that are not normal, on each tier."""
    if dtype == "f4":
        x = np.concatenate(
            [np.arange(0, 2**32, 39_989, dtype="u4").view("f4"), np.linspace(-110, 110, 60_001, dtype="f4")]
        )
    else:
        every = np.arange(0, 2**64 - 2**50, 2**49 - 12345, dtype="u8").view("f8")
        x = np.concatenate([every, np.linspace(-800, 800, 9001), np.linspace(-7, 7, 70_001)])
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, *(s * np.finfo(x.dtype).tiny for s in (1, -1, 0.5))]
    x = np.concatenate([x, np.asarray(ends, dtype)])
    x = np.where(np.isnan(x), x.dtype.type(np.nan), x)
    layer.load(tier)
    what = epilogues.activation(given(name))
    got = x.reshape(1, -1).copy()
    _linear.finish_into(tier.level, got, what.row.code, None, None, what.p, what.q)
    got = got[0]
    if name in ("gelu", "gelu_tanh", "silu"):
        # The formula has other overflows in float32: where it makes NaN or infinity of a large number, so may we.
        finite = np.abs(x) < 1e18
        np.testing.assert_array_equal(np.isnan(got[np.isnan(x)]), True)
        got, x = got[finite], x[finite]
    assert_activation(name, got, x)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", ["erf", "tanh"])
def test_saturation(tier: registry.Isa, name: str, dtype: str) -> None:
    """Far out they are one to the bit: ``x * (1 + erf(x))`` multiplies what is left of it by x."""
    layer.load(tier)
    x = np.array([[30, 100, 3e4, 1e30, np.inf] * 9], dtype)
    for sign in (1, -1):
        got = sign * x
        _linear.finish_into(tier.level, got, epilogues.activation(name).row.code, None, None, 0.0, 0.0)
        np.testing.assert_array_equal(got, np.full(x.shape, sign, dtype))


@pytest.mark.parametrize("split", ["n", "k"])
def test_few_rows_by_weights_in_place(tier: registry.Isa, split: str) -> None:
    """Strips of columns, by two threads: each number is finished once."""
    x, weight, bias, residual = operands(5, 700, 130, "f4")
    columns = np.asfortranarray(weight)  # its transpose is in C order
    with fastgemm.threads(2), dispatch.forced(Config("gemv", tier.name, nc=256, split=split, threads=2)):
        got = fastgemm.linear(x, columns, bias, activation="relu", residual=residual)
    want = np.maximum(x.astype("f8") @ weight.T.astype("f8") + bias + residual, 0)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", ["gemm", "small", "gemv"])
def test_weights_that_begin_anywhere_in_a_line(tier: registry.Isa, family: str) -> None:
    """Their rows begin alike, so panels begin where lines do: bias, residual and activation follow."""
    x, weight, bias, residual = operands(5, 600, 140, "f4")
    base = rules.config(Problem("f32", 5, 600, 140), tier)
    mr, nr = registry.tiles(registry.dtype("f32"), tier)[0]
    tile = {} if family == "gemv" else {"mr": mr, "nr": nr}
    room = np.empty(140 * 640 + 16, "f4")
    room = room[-room.ctypes.data % 64 // 4 :][: 140 * 640].reshape(140, 640)
    for first in (0, 1, 4, 12, 15):
        columns = room[:, first : first + 600]
        columns[...] = weight.T
        with fastgemm.threads(1), dispatch.forced(base.replace(family=family, pack="none", **tile)):
            got = fastgemm.linear(x, columns.T, bias, activation="relu", residual=residual)
            want = fastgemm.matmul(x, columns)
        np.testing.assert_array_equal(got, np.maximum(want + bias + residual, 0))


@pytest.mark.parametrize("split", ["m", "n", "k"])
@pytest.mark.parametrize("pack", ["none", "b", "ab"])
def test_every_way_of_the_driver(tier: registry.Isa, pack: str, split: str) -> None:
    """Blocks of k, m and n, packed or not, by two threads: each number is finished once."""
    if not _team.openmp:
        pytest.skip("a build without OpenMP has one thread")
    x, weight, bias, residual = operands(90, 150, 700, "f4")
    base = rules.config(Problem("f32", 90, 150, 700, threads=2), tier)
    config = base.replace(family="gemm", pack=pack, split=split, threads=2, kc=128, mc=30, nc=base.nr * 2)
    columns = np.asfortranarray(weight)  # its transpose is in C order, so that it can stay in place
    with fastgemm.threads(2), dispatch.forced(config):
        got = fastgemm.linear(x, columns, bias, activation="relu", residual=residual)
        want = fastgemm.matmul(x, columns.T)
        assert fastgemm.explain(x, columns.T).rung == "forced"
    np.testing.assert_array_equal(got, np.maximum(want + bias + residual, 0))


def test_infinity_and_nan(tier: registry.Isa) -> None:
    x, weight, bias, _ = operands(20, 40, 8, "f4")
    x[3], x[5, 2], bias[7] = np.inf, np.nan, -np.inf
    weight = np.abs(weight)
    with np.errstate(all="ignore"):
        product = x @ weight.T + bias
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("none", "relu", "clip", "leaky_relu", "sigmoid", "tanh"):
            got = fastgemm.linear(x, weight, bias, activation=name)
            with np.errstate(all="ignore"):
                what = epilogues.activation(name)
                want = epilogues.meaning(name)(product, what.p, what.q)
            np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_leading_dimensions_and_strides(dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 4, 5, 12)).astype(dtype)
    weight, bias = rng.standard_normal((7, 12)).astype(dtype), rng.standard_normal(7).astype(dtype)
    many = rng.standard_normal((14, 24)).astype(dtype)
    for left in (x, x[::2, ::-1], x.transpose(1, 2, 0, 3), x[..., ::-1], x[0, 0, 0], np.asfortranarray(x)):
        for right in (weight, many[::2, ::2], weight[::-1, ::-1], np.asfortranarray(weight)):
            got = fastgemm.linear(left, right, bias[::-1], activation="relu")
            want = np.maximum(left @ right.T + bias[::-1], 0)
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(fastgemm.linear(x, weight[0], 0.5), x @ weight[0] + 0.5, rtol=1e-4, atol=1e-5)
    assert fastgemm.linear(x, weight[0], 0.5).shape == (3, 4, 5)
    assert fastgemm.linear(x, weight[0], 0.5).dtype == dtype
    assert fastgemm.linear(x[0, 0, 0], weight[0]).shape == ()
    for residual in (x[..., :7], x[0, 0, 0, :7], 2.0, x[:, :, :, :1], [1.0] * 7):
        got = fastgemm.linear(x, weight, bias, residual=residual)
        np.testing.assert_allclose(got, x @ weight.T + bias + residual, rtol=1e-4, atol=1e-5)
    unaligned = np.frombuffer(b"x" + x.tobytes(), "u1")[1:].view(dtype).reshape(x.shape)
    np.testing.assert_array_equal(fastgemm.linear(unaligned, weight), fastgemm.linear(x, weight))
    np.testing.assert_array_equal(fastgemm.linear(x.astype(x.dtype.newbyteorder()), weight), fastgemm.linear(x, weight))


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_bias_of_rows(tier: registry.Isa, dtype: str, packed: bool) -> None:
    """A residual of one column: the bits of one that is as wide as the result."""
    for m, n, k in SIZES:
        x, weight, bias, _ = operands(m, n, k, dtype)
        right: Any = fastgemm.pack(weight, trans=True) if packed else weight
        rows = normal((m, 1), dtype, 5)
        whole = np.ascontiguousarray(np.broadcast_to(rows, (m, n)))
        for threads in (1, 2):
            with fastgemm.threads(threads):
                want = fastgemm.linear(x, right, bias, activation=("leaky_relu", 0.2), residual=whole)
                for given in (rows, np.repeat(rows, 2, 1)[:, :1], [[row] for row in rows[:, 0]]):
                    got = fastgemm.linear(x, right, bias, activation=("leaky_relu", 0.2), residual=given)
                    np.testing.assert_array_equal(got, want)
                got = fastgemm.linear(x, right, activation="relu", residual=rows)
                np.testing.assert_array_equal(got, fastgemm.linear(x, right, activation="relu", residual=whole))
    stack = normal((4, 5, 12), dtype, 1)
    weight, rows = normal((7, 12), dtype, 2), normal((5, 1), dtype, 3)
    whole = np.ascontiguousarray(np.broadcast_to(rows, (4, 5, 7)))
    got = fastgemm.linear(stack, weight, residual=rows)
    np.testing.assert_array_equal(got, fastgemm.linear(stack, weight, residual=whole))
    got = fastgemm.linear(stack, weight[0], residual=rows[1:])
    np.testing.assert_allclose(got, stack @ weight[0] + rows[1:], rtol=1e-2, atol=1e-2)


def calls(dtype: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Calls that nothing has to be converted for."""
    x, weight, bias, residual = operands(5, 9, 8, dtype)
    stack = normal((2, 3, 8), dtype, 7)
    packed = fastgemm.pack(weight, trans=True)
    found: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    for right in (weight, np.asfortranarray(weight), packed):
        deep = normal((2, 3, 9), dtype, 8)
        for left, beside in ((x, residual), (x[0], residual[0]), (stack, deep), (np.asfortranarray(x), None)):
            for name in (None, *NAMES, ("clip", -1, 0.5), ("leaky_relu", 0.2), ("clip",)):
                found += [
                    ((left, right), {"activation": name}),
                    ((left, right, bias), {"activation": name}),
                    ((left, right, bias if dtype == "bfloat16" else 0.3), {"activation": name}),
                    ((left, right, bias), {"activation": name, "residual": beside}),
                    ((left, right), {"residual": None if beside is None else beside[..., :1].copy()}),
                ]
    return found


@pytest.mark.skipif(not TIERS, reason="no kernels run on this CPU")
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "bfloat16"])
def test_the_short_way_is_the_long_one(dtype: str) -> None:
    """The same bits, type and shape as without it; and it is what plain calls take."""

    def refuse(*given: Any) -> Any:
        raise AssertionError(f"{given} went the long way")

    _linear.set_general(refuse, layer.epilogue_level)
    try:
        for given, named in calls(dtype):
            got = fastgemm.linear(*given, **named)
            one, other, bias, *_ = (*given, None)
            want = layer.general(one, other, bias, named.get("activation"), named.get("residual"), None)
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_array_equal(got, want)
            out = np.empty_like(want)
            assert fastgemm.linear(*given, **named, out=out) is out
            np.testing.assert_array_equal(out, want)
    finally:
        _linear.set_general(layer.general, lambda: layer.epilogue_level())


def test_empty() -> None:
    for shape, n in (((0, 4), 3), ((2, 0, 4), 3), ((2, 4), 0)):
        assert fastgemm.linear(np.ones(shape), np.ones((n, 4)), np.ones(n), activation="gelu").shape == (*shape[:-1], n)
    got = fastgemm.linear(np.ones((2, 0), "f4"), np.ones((3, 0), "f4"), np.float32([1, -2, 3]), activation="relu")
    np.testing.assert_array_equal(got, [[1, 0, 3]] * 2)
    assert got.dtype == np.float32


def test_out() -> None:
    x, weight, bias, residual = operands(30, 30, 30, "f4")
    want = fastgemm.linear(x, weight, bias, activation="silu", residual=residual)
    wide = np.zeros((30, 60), "f4")
    for out in (np.empty((30, 30), "f4"), wide[:, ::2], np.empty((30, 30), "f4").T):
        assert fastgemm.linear(x, weight, bias, activation="silu", residual=residual, out=out) is out
        np.testing.assert_array_equal(out, want)
    assert not wide[:, 1::2].any()
    for at in range(4):
        for way in (fastgemm.linear, layer.general):
            copies = [array.copy() for array in (x, weight, bias, residual)]
            out = np.broadcast_to(copies[2], (30, 30)).copy() if at == 2 else copies[at]
            if at == 2:
                copies[2] = out[0]
            assert way(*copies[:3], activation="silu", residual=copies[3], out=out) is out
            np.testing.assert_array_equal(out, want)
    readonly = np.empty((30, 30), "f4")
    readonly.flags.writeable = False
    for bad, error, text in (
        (np.empty((30, 30)), TypeError, "out is float64"), (np.empty((30, 31), "f4"), ValueError, "out has shape"),
        (readonly, ValueError, "read-only"), ([1.0], TypeError, "must be an ndarray, not list"),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            fastgemm.linear(x, weight, out=bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["f2", "i4", "i1", "c8", "c16", "bool", "g"])
def test_other_dtypes(dtype: str) -> None:
    x, weight = ((np.arange(size).reshape(shape) % 5).astype(dtype) for size, shape in ((12, (3, 4)), (20, (5, 4))))
    bias = np.arange(5).astype(dtype)
    got = fastgemm.linear(x.astype(dtype), weight.astype(dtype), bias)
    want = x.astype(dtype) @ weight.astype(dtype).T + bias
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    if dtype not in ("c8", "c16"):
        got = fastgemm.linear(x, weight, bias, activation="relu")
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, np.maximum(want, 0))
    if dtype not in ("c8", "c16", "bool"):
        got = fastgemm.linear(x, weight, bias, activation="gelu")
        np.testing.assert_allclose(got.astype("f8"), precise("gelu", np.asarray(want)), rtol=1e-2)


@pytest.mark.parametrize("dtype", ["bool", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"])
@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("none", "relu")])
def test_activations_of_whole_numbers(name: str, dtype: str) -> None:
    """They see floats: minus an unsigned number is no large one, and cubes do not wrap."""
    x = np.array([[1]], dtype)
    for number in (0, 1, 4, 30, 80, -32):
        if (number < 0 and dtype[0] in "bu") or (number > 1 and dtype == "bool"):
            continue
        got = fastgemm.linear(x, np.array([[number]], dtype), activation=given(name))
        assert got.dtype == np.result_type(dtype, np.float32)
        want = precise(name, np.array([[number]], "f8"))
        np.testing.assert_allclose(got, want, rtol=0.01 if name == "k_tanh" else 1e-5)


@pytest.mark.parametrize("activation", [None, "relu"])
@pytest.mark.parametrize("packed", [False, True])
def test_wider_terms_do_not_widen_the_product(packed: bool, activation: str | None) -> None:
    """An array and the same one packed give one result: the product in the operands' type, then the terms."""
    for dtype, fill, term, want in (
        ("i1", 100, np.zeros(1, "f4"), 64), ("i1", 100, 0.0, 64), ("i1", 100, np.float32([[0]]), 64),
        ("f2", 200, np.full(1, -1.6e6, "f4"), 0), ("f2", 200, np.full(1, -1.6e6), 0),
        ("bfloat16", 256, np.full(1, -2621440, "f4"), 0), ("f4", 1e20, np.full(1, 1.0), np.inf),
        ("f4", 2, np.full(1, 1e-9), 160 + 1e-9), ("f4", 2, np.full(1, 1e300), 1e300), ("f8", 2, np.float32([1]), 161),
    ):  # fmt: skip
        x = np.full((1, 4 if dtype == "i1" else 40), fill, dtype_of(dtype))
        right: Any = fastgemm.pack(x, trans=True) if packed else x
        for terms in ({"bias": term}, {"residual": term}):
            if np.ndim(term) == 2 and "bias" in terms:
                continue
            got = fastgemm.linear(x, right, activation=activation, **terms)
            assert got.dtype == np.result_type(x.dtype, term)
            np.testing.assert_array_equal(got, [[want]])


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", ["f2", "bfloat16"])
def test_halves_stay_halves(dtype: str, packed: bool) -> None:
    """Of empty operands as well, and with Python's numbers, which have no type of their own."""
    kind = dtype_of(dtype)
    for m, n, k in ((2, 4, 3), (0, 4, 3), (2, 4, 0), (2, 0, 3)):
        x, weight = np.ones((m, k), kind), np.ones((n, k), kind)
        right: Any = fastgemm.pack(weight, trans=True) if packed else weight
        for terms in ({}, {"bias": 1.5}, {"bias": 2}, {"residual": 1.5}, {"bias": np.ones(n, kind), "residual": 0.5}):
            got = fastgemm.linear(x, right, **terms)
            assert got.dtype == kind
            added = sum(np.float32(0 if term is None else term) for term in terms.values())
            np.testing.assert_array_equal(got, np.full((m, n), k, kind) + np.asarray(added, kind))
            out = np.empty((m, n), kind)
            assert fastgemm.linear(x, right, **terms, out=out) is out
            np.testing.assert_array_equal(out, got)
        assert fastgemm.linear(x, right, np.ones(n, "f4")).dtype == np.float32


def test_bytes_that_become_halves_are_rounded_once() -> None:
    """Their product is activated in float32, as that of halves is."""
    number, weight, beside = np.int8([[-7], [3]]), np.int8([[1]]), np.float16([[-5], [2]])
    halves = number.astype("f2"), weight.astype("f2")
    for terms in ({"residual": beside}, {"bias": np.float16([-0.3]), "residual": beside}):
        got = fastgemm.linear(number, weight, activation="silu", **terms)  # type: ignore[arg-type]
        want = fastgemm.linear(*halves, activation="silu", **terms)  # type: ignore[arg-type]
        assert got.dtype == np.float16
        np.testing.assert_array_equal(got, want)


def test_no_way_warns_of_numbers_that_do_not_fit() -> None:
    x = np.ones((4, 4), "f4")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for left in (x, x[::2, ::2], x.astype("f2")):
            for terms in ((1e300, None), (None, 1e300)):
                got = fastgemm.linear(left, left, terms[0], residual=terms[1])
                np.testing.assert_array_equal(got, np.inf)
            got = fastgemm.linear(left, left, np.full(len(left), 1e300), activation="relu")
            np.testing.assert_array_equal(got, 1e300 + left.shape[1])


def test_mixed_types_and_subclasses() -> None:
    x, weight, bias, _ = operands(6, 7, 8, "f4")
    assert fastgemm.linear(x, weight.astype("f8"), bias).dtype == np.float64
    assert_close(fastgemm.linear(x, weight.astype("f8")), x, weight.T, x.astype("f8") @ weight.T)
    assert fastgemm.linear(x.tolist(), weight, bias).dtype == np.float64

    class Own(np.ndarray):
        pass

    for right in (weight, fastgemm.pack(weight, trans=True)):
        got = fastgemm.linear(x.view(Own), right, bias, activation="relu")
        assert type(got) is Own
        np.testing.assert_allclose(got, np.maximum(x @ weight.T + bias, 0), rtol=1e-5, atol=1e-6)


def test_errors() -> None:
    x, weight, bias, residual = operands(3, 5, 4, "f4")
    packed = fastgemm.pack(weight, trans=True)
    for call, error, text in (
        (lambda: fastgemm.linear(x, weight.T), ValueError, "x has 4 features, weight takes 5"),
        (lambda: fastgemm.linear(x[0, 0], weight), ValueError, "at least one dimension"),
        (lambda: fastgemm.linear(x, weight[None]), ValueError, "one or two"),
        (lambda: fastgemm.linear(x, weight, bias[:3]), ValueError, r"bias of shape \(3,\)"),
        (lambda: fastgemm.linear(x, weight, residual=residual.T), ValueError, r"residual of shape \(5, 3\)"),
        (lambda: fastgemm.linear(x, weight, residual=np.ones((2, 3, 5))), ValueError, r"residual of shape \(2, 3, 5\)"),
        (lambda: fastgemm.linear(x, weight, activation="softplus"), ValueError, "known activations: none, relu"),
        (lambda: fastgemm.linear(x, weight, activation=("relu", 1)), ValueError, "at most 0 numbers"),
        (lambda: fastgemm.linear(x, weight, activation=("clip", "a")), TypeError, "takes numbers"),
        (lambda: fastgemm.linear(x, weight, activation=("clip", np.nan, 1)), ValueError, "takes bounds, not nan"),
        (lambda: fastgemm.linear(x, weight, activation=("clip", 0, math.nan)), ValueError, "takes bounds, not nan"),
        (lambda: fastgemm.linear(x, weight, activation=()), TypeError, "a name or"),
        (lambda: fastgemm.linear(x, weight, activation=3), TypeError, "a name or"),
        (lambda: fastgemm.linear(x * 1j, weight, activation="gelu"), TypeError, "for real numbers"),
        (lambda: fastgemm.linear(x.astype("f8"), packed), TypeError, "packed as float32, a is float64"),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            call()


@pytest.mark.skipif(not TIERS, reason="no kernels run on this CPU")
def test_where_no_kernel_takes_the_product(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, bias, residual = operands(9, 20, 30, "f4")
    want = fastgemm.linear(x, weight, bias, activation="gelu", residual=residual)
    with dispatch.forced(Config(family="numpy")):
        got = fastgemm.linear(x, weight, bias, activation="gelu", residual=residual)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(layer, "epilogue_level", lambda: None)
    _plan.forget_plans()
    got = fastgemm.linear(x, weight, bias, activation="gelu", residual=residual)
    monkeypatch.undo()
    _plan.forget_plans()
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not TIERS, reason="no kernels run on this CPU")
def test_the_compiled_module_checks_what_it_is_given() -> None:
    layer.load(kernels.runnable()[0])
    level, c = kernels.runnable()[0].level, np.zeros((3, 4), "f4")
    for bad in (
        (9, c, 0, None, None), (level, c, 99, None, None), (level, c, -1, None, None),
        (level, c[:, ::2], 0, None, None),
        (level, c[0], 0, None, None), (level, c.astype("f2"), 0, None, None), (level, c, 0, np.zeros(3, "f4"), None),
        (level, c, 0, np.zeros(4), None), (level, c, 0, None, np.zeros((4, 4), "f4")), (level, c, 0, None, c.T),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            _linear.finish_into(*bad, 0.0, 0.0)  # type: ignore[arg-type]


def test_many_python_threads() -> None:
    x, weight, bias, residual = operands(50, 70, 90, "f4")
    want = fastgemm.linear(x, weight, bias, activation="tanh", residual=residual)
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(40):
            got = fastgemm.linear(x, weight, bias, activation="tanh", residual=residual)
            if not np.array_equal(got, want):
                wrong.append(number)

    team = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for member in team:
        member.start()
    for member in team:
        member.join()
    assert not wrong


def test_nothing_in_place_of_an_array() -> None:
    """Compiled functions that check no more than types refuse None, whose fields would be read from nowhere."""
    from fastgemm import _contraction, _gemm, _mixed, _packed, _to_bytes

    x, at = np.ones((2, 2), np.float32), 0.0
    for call in (
        lambda: _linear.product_into(0, x, None, x, 0, None, None, at, at),
        lambda: _linear.packed_into(0, x, None, x, 0, None, None, at, at),
        lambda: _linear.dequantised_into(0, x, None, x, 0, None, None, at, at, x, None),
        lambda: _linear.late_into(0, x, None, x, 0, None, at, at, x, x, None, None),
        lambda: _linear.finish_into(0, None, 0, None, None, at, at),
        lambda: _packed.product_into(None, x, x, registry.dtype("f32")),
        lambda: _contraction.contract(x, None, x, (), (), (), (), None),
        lambda: _gemm.gemm_into(x, None, x, 1, 0),
        lambda: _mixed.product(x, None, x, "f32"),
        lambda: _to_bytes.scale_into(0, None, x, None),
        lambda: _to_bytes.bytes_into(0, None, x, 0, x, x),
    ):
        with pytest.raises(TypeError, match="None"):
            call()
