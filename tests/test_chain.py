"""Chains: every operation on rows against its NumPy meaning, products in every layout, and what is refused."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from oracle import dtype_of, integers, normal

import fastgemm
from fastgemm import activations, dispatch, epilogues, kernels, registry, row_operations
from fastgemm.chain import SCRATCH, Chain, Finish, Map, Product, Ref, Rows
from fastgemm.graph import rowwise
from fastgemm.graph.scratch import Scratch

TIERS = [tier.name for tier in kernels.runnable()]
OPS = [(op, x, y) for op in row_operations.ROW_OPS for x, y in op.types]
F4 = "float32"

pytestmark = pytest.mark.skipif(not TIERS, reason="no kernels run on this CPU")


@pytest.fixture(params=TIERS)
def tier(request: pytest.FixtureRequest, on_tier: Callable[[str], registry.Isa]) -> registry.Isa:
    """Every call of the process on one tier."""
    return on_tier(request.param)


def ref(slot: int, array: np.ndarray, block: int = 0, **fields: Any) -> Ref:
    """Return a reference to a matrix; `block` rows of it for an item, 0 for all."""
    row, column = array.strides
    return Ref(slot, array.dtype.name, 0, (block * row,), row, column, **fields)


def scratch(columns: int, dtype: str = F4, offset: int = 0, **fields: Any) -> Ref:
    """Return a reference to rows in scratch."""
    size = dtype_of(dtype).itemsize
    return Ref(SCRATCH, dtype, offset, (), columns * size, size, **fields)


def blocks(rows: int, block: int) -> tuple[int, ...]:
    return (-(-rows // block),)


def stored(x: np.ndarray, dtype: Any, scale: float, zero: int) -> np.ndarray:
    """Write float64 numbers as a row operation stores them."""
    if dtype_of(dtype).kind not in "iu" or dtype == "bfloat16":
        return x.astype("f8" if dtype == "float64" else "f4").astype(dtype_of(dtype))
    limits = np.iinfo(dtype)
    return np.clip(np.rint(x / scale) + zero, limits.min, limits.max).astype(dtype)


@pytest.mark.parametrize(("op", "x_kind", "y_kind"), OPS, ids=lambda value: getattr(value, "name", value))
def test_rows(tier: registry.Isa, op: row_operations.RowOp, x_kind: str, y_kind: str) -> None:
    if (x_kind, y_kind) not in row_operations.types_of(op, tier):
        pytest.skip(f"{tier.name} does not convert them")
    x_type, y_type = row_operations.ROW_TYPES[x_kind], row_operations.ROW_TYPES[y_kind]
    for rows, columns, block in ((7, 1, 7), (10, 16, 3), (9, 50, 4), (5, 129, 2)):
        x_scale, x_zero = (0.25, 3) if x_kind in ("s8", "u8") else (1.0, 0)
        y_scale, y_zero = (1 / 64, -5 if y_kind == "s8" else 7) if y_kind in ("s8", "u8") else (1.0, 0)
        x = normal((rows, columns), "f4", 1) * 3
        x = (x * 10).astype(x_type) if x_kind in ("s8", "u8") else x.astype(dtype_of(x_type))
        out = np.zeros((rows, columns), dtype_of(y_type))
        computed = "float64" if x_kind == "f64" else F4
        vectors = {name: normal((columns,), computed, at) for at, name in enumerate(("mask", "gamma", "beta"), 2)}
        arrays = [x, out, *(vectors[name] for name in op.vectors)]
        size = dtype_of(computed).itemsize
        names = {name: Ref(2 + at, computed, column=size) for at, name in enumerate(op.vectors)}
        given = {"softmax": {"scale": 0.5}, "layer_norm": {"epsilon": 1e-3}}.get(op.name, {})
        source = ref(0, x, block, scale=x_scale, zero=x_zero)
        members: list[Any] = []
        if op.name == "softmax" and y_kind != x_kind:
            members.append(Rows("cast", columns, source, scratch(columns)))
            source = scratch(columns)
        for used in (names, {}):
            target = ref(1, out, block, scale=y_scale, zero=y_zero)
            chain = Chain([*members, Rows(op.name, columns, source, target, given, used)], blocks(rows, block),
                          rows, block, block * columns * 4)  # fmt: skip
            before = x.copy()
            chain.run(arrays)
            np.testing.assert_array_equal(x, before)
            numbers = (x.astype("f8") - x_zero) * x_scale
            values = {name: vectors[name] if name in used else float(name == "gamma") for name in op.vectors}
            want = eval(op.meaning, {"np": np, "x": numbers, **given, **values})
            want = np.broadcast_to(want, out.shape)
            error = np.abs(out.astype("f8") - stored(want, y_type, y_scale, y_zero).astype("f8"))
            if y_kind in ("s8", "u8"):
                # One number where rounding meets a tie.
                assert error.max() <= 1
                assert (error > 0).mean() < 0.02 or error.sum() <= 1
            else:
                eps, least = float(ml_dtypes.finfo(dtype_of(y_type)).eps), 2e-14 if y_kind == "f64" else 3e-6
                assert np.all(error <= eps * np.abs(want) + least * (1 + np.abs(want)))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_softmax_ends(tier: registry.Isa, dtype: str) -> None:
    """Infinities and NaN as NumPy's formula has them, a mask of rows, a sum of one."""
    x = np.array([[0, 1e30, -np.inf], [-np.inf, 5, 5], [np.nan, 0, 0], [88, 88, 88], [-200, 0, 1]], dtype)
    mask = np.array([[0, 0, 0], [0, -np.inf, 0], [0, 0, 0], [1, 1, 1], [0, 0, 0]], dtype)
    out = np.empty_like(x)
    member = Rows("softmax", 3, ref(0, x), ref(1, out), {}, {"mask": ref(2, mask)})
    Chain([member], (1,), 5, 5).run([x, out, mask])
    np.testing.assert_array_equal(out[0], [0, 1, 0])
    np.testing.assert_array_equal(out[1], [0, 0, 1])
    assert np.isnan(out[2]).all()
    np.testing.assert_allclose(out[3], [1 / 3] * 3, rtol=1e-6)
    np.testing.assert_allclose(out[4], [0, 1 / (1 + np.e), np.e / (1 + np.e)], rtol=1e-6, atol=1e-80)


def test_softmax_of_doubles(tier: registry.Isa) -> None:
    """In place too, with any scale; equal numbers have equal shares however large, and nothing at all is NaN."""
    for columns in (1, 3, 8, 50, 129):
        x = normal((9, columns), "f8", 1) * 20
        x[0], x[1], x[2], x[3] = 1e300, -3e9, -np.inf, 12345.678
        for scale in (0.1, 96**-0.5, -0.25, 0.0):
            found = x.copy()
            member = Rows("softmax", columns, ref(0, found), ref(1, found), {"scale": scale})
            Chain([member], (1,), 9, 9).run([found, found])
            with np.errstate(invalid="ignore"):
                want = np.exp(x * scale - (x * scale).max(1, keepdims=True))
            np.testing.assert_allclose(found, want / want.sum(1, keepdims=True), rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("columns", [3, 16, 50, 129])
def test_softmax_ends_in_every_part_of_a_row(tier: registry.Isa, columns: int, masked: bool) -> None:
    """Equal numbers have equal shares however large (a row that is masked as a whole), and one above all has all."""
    low = float(np.finfo("f4").min) / 2
    rows = [[value] * columns for value in (0, 12345.678, 3e9, 1e30, low, -np.inf, np.nan)]
    rows += [[low] * at + [high] + [low] * (columns - at - 1) for at in (0, columns - 1) for high in (5, 1e30)]
    x = np.float32(rows)
    out, mask = np.empty_like(x), np.full(columns, low, "f4")
    for scale in (0.1, 96**-0.5, 0.125, -0.25, 0.0):
        used = {"mask": Ref(2, F4, column=4)} if masked else {}
        member = Rows("softmax", columns, ref(0, x), ref(1, out), {"scale": scale}, used)
        Chain([member], (1,), len(x), len(x)).run([x, out, mask])
        with np.errstate(invalid="ignore"):
            numbers = x.astype("f8") * scale + (mask.astype("f8") if masked else 0)
            want = np.exp(numbers - numbers.max(1, keepdims=True))
        np.testing.assert_allclose(out, want / want.sum(1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("scale", [0.125, 1.7, -3.3])
def test_softmax_far_from_zero(tier: registry.Isa, scale: float, masked: bool) -> None:
    """Rows that lie anywhere lose no more than their own digits: below and above where rounding is told apart."""
    spread = normal((40, 77), "f4", 5) * np.float32(4) / np.float32(abs(scale))
    levels = np.float32([0, 1, 77, 500, 1e3, 4e3, 5.5e3, 5.8e3, 9e3, 7e4])
    x = spread + np.tile(np.concatenate([levels, -levels]), 2)[:, None].astype("f4") / np.float32(abs(scale))
    out, mask = np.empty_like(x), normal((77,), "f4", 6)
    used = {"mask": Ref(2, F4, column=4)} if masked else {}
    member = Rows("softmax", 77, ref(0, x), ref(1, out), {"scale": scale}, used)
    Chain([member], (1,), 40, 40).run([x, out, mask])
    numbers = x.astype("f8") * np.float64(np.float32(scale)) + (mask if masked else 0)
    want = np.exp(numbers - numbers.max(1, keepdims=True))
    want /= want.sum(1, keepdims=True)
    # With a mask the scaled sum, and maybe the product, is rounded to float32.
    lost = 3 * np.spacing(np.abs(numbers).max(1, keepdims=True).astype("f4")) if masked else 0
    assert np.all(np.abs(out - want) <= want * (1e-5 + lost) + 1e-30)
    np.testing.assert_allclose(out.sum(1, dtype="f8"), 1, rtol=1e-6)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kind", ["f32", "u8"])
def test_softmax_of_a_row_whatever_is_beside_it(tier: registry.Isa, kind: str, masked: bool) -> None:
    """A row has the same bits alone, in any number of rows, and beside rows far from zero or of no numbers."""
    for columns in (1, 5, 64, 77, 200, 600, 1025, 4097):
        x = normal((19, columns), "f4", 7) * np.float32(4)
        x[6] += np.float32(3e5)
        x[2] -= np.float32(60)
        x[8:12] += np.float32(250)
        x[13] = np.nan
        mask = normal((columns,), "f4", 8)
        used = {"mask": Ref(2, F4, column=4)} if masked else {}

        def shares(given: Any, used: Any = used, mask: Any = mask, columns: int = columns) -> Any:
            out = np.empty(given.shape, row_operations.ROW_TYPES[kind])
            members = [
                Rows("cast", columns, ref(0, given), scratch(columns)),
                Rows("softmax", columns, scratch(columns), ref(1, out, scale=1 / 255), {"scale": 0.5}, used),
            ]
            Chain(members, (1,), len(given), len(given), given.nbytes).run([given, out, mask])
            return out

        together = shares(x)
        if kind == "f32":
            live = [at for at in range(len(x)) if at not in (2, 6, 8, 9, 10, 11, 13)]
            want = np.exp(x[live].astype("f8") * 0.5 + (mask if masked else 0))
            np.testing.assert_allclose(together[live], want / want.sum(1, keepdims=True), rtol=3e-6 if masked else 2e-6)
        for rows in (1, 2, 7):
            for at in range(len(x) - rows + 1):
                np.testing.assert_array_equal(shares(x[at : at + rows]), together[at : at + rows])


@pytest.mark.parametrize("columns", [5, 64, 300, 1024, 1030, 4096, 4100])
def test_softmax_where_sums_say_that_rows_lie_far(tier: registry.Isa, columns: int) -> None:
    """On both sides of where the largest number is subtracted first, and where powers of two have no more room."""
    levels = np.float32([-3e3, -300, -129, -127, -30, -17, -16, -8, 0, 20, 27, 28, 29, 70, 88, 89, 100, 177, 266, 400])
    for spread in (0, 0.5, 6):
        x = np.sort(normal((len(levels), columns), "f4", 11)) * np.float32(spread) + levels[:, None]
        out = np.empty_like(x)
        Chain([Rows("softmax", columns, ref(0, x), ref(1, out), {})], (1,), len(x), len(x)).run([x, out])
        want = np.exp(x.astype("f8") - x.max(1, keepdims=True))
        # (Sums of equal numbers, eight of them side by side, are off by up to half a unit a turn.)
        np.testing.assert_allclose(out, want / want.sum(1, keepdims=True), rtol=4e-6 + 1e-9 * columns)


def test_softmax_rounded_by_the_cpu(tier: registry.Isa) -> None:
    """Shares in bfloat16 are the same where the CPU has an instruction that makes them."""
    if "bfloat16" not in rowwise.row_types():
        pytest.skip(f"{tier.name} does not convert bfloat16")
    rows = importlib.import_module(registry.module("rows", tier))
    for columns in (1, 16, 50, 64, 200, 1030, 4100):
        x = normal((13, columns), "f4", 12) * 6
        x[3, columns // 2], x[7] = np.nan, -np.inf
        made = []
        try:
            for by_cpu in (False, kernels.has("bf16", tier.name)):
                rows.table(by_cpu)
                out = np.empty(x.shape, ml_dtypes.bfloat16)
                members = [
                    Rows("cast", columns, ref(0, x), scratch(columns)),
                    Rows("softmax", columns, scratch(columns), ref(1, out)),
                ]
                Chain(members, (1,), len(x), len(x), x.nbytes).run([x, out])
                made.append(out.astype("f4"))
        finally:
            rows.table(kernels.has("bf16", tier.name))
        np.testing.assert_array_equal(*made)
        assert np.isnan(made[0][[3, 7]]).all()
        np.testing.assert_allclose(made[0][:3].sum(1), 1, rtol=0.02)


def test_one_row_for_all(tier: registry.Isa) -> None:
    """A mask in another type is converted once for the rows of an item, and its scratch is one row."""
    bf16 = np.dtype(ml_dtypes.bfloat16)
    x, mask = normal((20, 40), "f4", 9), normal((3, 40), "f4", 10).astype(bf16)
    places = Scratch()
    one, rows = places.rows(40, F4, same=True), places.rows(40, F4)
    given = Ref(1, "bfloat16", 0, (mask.strides[0], 0), 0, 2)
    item = Ref(0, F4, 0, (0, 7 * 160), 160, 4)
    result = item._replace(slot=2, steps=(20 * 160, 7 * 160))
    members, size = places.placed(
        [Rows("cast", 40, given, one), Rows("cast", 40, item, rows),
         Rows("softmax", 40, rows, result, {}, {"mask": one})], 7)  # fmt: skip
    assert size == 192 + 7 * 192
    out = np.empty((3, 20, 40), "f4")
    Chain(members, (3, 3), 20, 7, size).run([x, mask, out])
    want = np.exp(x.astype("f8") + mask.astype("f8")[:, None])
    np.testing.assert_allclose(out, want / want.sum(2, keepdims=True), rtol=3e-6)


@pytest.mark.parametrize("kind", ["s8", "u8"])
@pytest.mark.parametrize("zero", [0, 5, 127])
def test_shares_beyond_a_byte(tier: registry.Isa, kind: str, zero: int) -> None:
    """Shares that a byte cannot hold are the largest byte, however small the scale, and those of NaN the zero point."""
    x = np.float32([[0, 0, 0, 9], [1, 2, 3, 4], [0, np.nan, 0, 0], [-99, 0, -3, -1]]).repeat(9, axis=1)
    dtype = row_operations.ROW_TYPES[kind]
    for scale in (1 / 255, 1e-3, 1e-20, 1e-38, 1.0, 1e30):
        out = np.empty(x.shape, dtype)
        members = [
            Rows("cast", 36, ref(0, x), scratch(36)),
            Rows("softmax", 36, scratch(36), ref(1, out, scale=scale, zero=zero)),
        ]
        Chain(members, (1,), 4, 4, 4 * 36 * 4).run([x, out])
        with np.errstate(invalid="ignore"):
            want = np.exp(x.astype("f8") - x.max(1, keepdims=True))
            want /= want.sum(1, keepdims=True)
            nearest = stored(want, dtype, scale, zero)
        live = np.arange(4) != 2
        # Below what float32 holds numbers may be zero.
        counts = live[:, None] & ((want > 1e-30) | (want / scale < 0.1))
        assert np.abs(out.astype(int) - nearest.astype(int))[counts].max() <= 1
        assert np.all(out[2] == zero)


@pytest.mark.parametrize("packed", [False, True])
def test_layers(tier: registry.Isa, packed: bool) -> None:
    """An MLP over row blocks: bits are those of `linear` where nothing cuts k."""
    sizes = [13, 512, 70, 1]
    for rows, block in ((1, 1), (37, 16), (64, 32), (100, 100)):
        x = normal((rows, sizes[0]), "f4", 1)
        weights = [normal((n, k), "f4", k) / np.float32(k**0.5) for k, n in pairwise(sizes)]
        biases = [normal((n,), "f4", n) for n in sizes[1:]]
        out = np.empty((rows, 1), "f4")
        arrays = [x, out, *weights, *biases]
        want, place, members = x, ref(0, x, block), []
        for at, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            n, k = weight.shape
            b: Any = fastgemm.pack(weight, trans=True) if packed else Ref(2 + at, F4, row=4, column=4 * k)
            last = at == len(weights) - 1
            target = ref(1, out, block) if last else scratch(n, offset=(at % 2) * block * 512 * 4)
            finish = Finish("sigmoid" if last else "relu", Ref(5 + at, F4, column=4))
            members.append(Product(n, k, place, b, target, finish))
            place = target
            want = fastgemm.linear(want, weight, bias, activation="sigmoid" if last else "relu")
        chain = Chain(members, blocks(rows, block), rows, block, 2 * block * 512 * 4)
        for threads in (1, 2):
            out[...] = np.nan
            chain.run(arrays, threads)
            np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-6)
    assert chain.workspace >= 2 * block * 512 * 4


def test_attention(tier: registry.Isa) -> None:
    """Batch x heads x blocks of rows; the output in its transposed place, operands by strides alone."""
    batch, heads, length, size, block = 2, 3, 37, 20, 16
    q, k, v = (normal((batch, length, heads, size), "f4", seed) for seed in (1, 2, 3))
    mask = np.where(np.arange(length) < 30, 0, -1e9).astype("f4") * np.ones((batch, 1), "f4")
    out = np.empty((batch, length, heads, size), "f4")
    steps, row = (q.strides[0], q.strides[2]), q.strides[1]
    scores = scratch(length)
    chain = Chain(
        [
            Product(length, size, Ref(0, F4, 0, (*steps, block * row), row, 4), Ref(1, F4, 0, (*steps, 0), 4, row),
                    scores, Finish(("scale", 0.5))),
            Rows("softmax", length, scores, scores, {"scale": 0.25},
                 {"mask": Ref(4, F4, steps=(mask.strides[0], 0, 0), column=4)}),
            Product(size, length, scores, Ref(2, F4, 0, (*steps, 0), row, 4),
                    Ref(3, F4, 0, (*steps, block * row), row, 4)),
        ],
        (batch, heads, 3), length, block, block * length * 4,
    )  # fmt: skip
    want = np.einsum("bqhd,bkhd->bhqk", q.astype("f8"), k.astype("f8")) * 0.125 + mask[:, None, None, :]
    want = np.exp(want - want.max(-1, keepdims=True))
    want = np.einsum("bhqk,bkhd->bqhd", want / want.sum(-1, keepdims=True), v.astype("f8"))
    for threads in (1, 2):
        out[...] = np.nan
        chain.run([q, k, v, out, mask], threads)
        np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("names", [("float64", "float64"), ("bfloat16", "float32"), ("bfloat16", "bfloat16"),
                                   ("int8", "int32"), ("uint8", "int32")])  # fmt: skip
def test_products_of_other_types(tier: registry.Isa, names: tuple[str, str]) -> None:
    a, b = integers((30, 50), names[0], 1), integers((50, 40), "int8" if names[0] == "uint8" else names[0], 2)
    out = np.empty((30, 40), dtype_of(names[1]))
    want = np.matmul(a.astype("f8"), b.astype("f8"))
    for right in (ref(1, b), fastgemm.pack(b)):
        out[...] = 0
        Chain([Product(40, 50, ref(0, a, 8), right, ref(2, out, 8))], (4,), 30, 8).run([a, b, out])
        np.testing.assert_array_equal(out.astype("f8"), want.astype(out.dtype).astype("f8"))


@pytest.mark.parametrize("left", ["int8", "uint8"])
@pytest.mark.parametrize("right", ["int8", "uint8"])
def test_quantised_products(tier: registry.Isa, left: str, right: str) -> None:
    """Bytes times bytes, to bytes again with relu, and to float32 with an activation; scales by column, zeros."""
    rng = np.random.default_rng(1)
    m, n, k, block = 21, 70, 45, 8
    a = rng.integers(0, 90, (m, k)).astype(left)
    b = rng.integers(0, 90, (k, n)).astype(right)
    scale, shift = rng.uniform(1e-4, 2e-3, n).astype("f4"), rng.uniform(-3, 3, n).astype("f4")
    bias, residual = normal((n,), "f4", 3), normal((m, n), "f4", 4)
    for a_zero, b_zero in ((0, 0), (7, 0), (3, 5), (0, 2)):
        sums = (a.astype("i8") - a_zero) @ (b.astype("i8") - b_zero)
        for b_ref in (ref(1, b, zero=b_zero), fastgemm.pack(b, zero_point=b_zero)):
            x = ref(0, a, block, zero=a_zero)
            for dtype, zero, low in (("uint8", 10, 10), ("int8", -3, None), ("uint8", 0, 0)):
                out = np.empty((m, n), dtype)
                limits = np.iinfo(dtype)
                for factor, add in ((scale, shift), (float(scale[0]), None)):
                    product = Product(n, k, x, b_ref, ref(2, out, block, zero=zero), None, factor, add, low)
                    Chain([product], blocks(m, block), m, block).run([a, b, out])
                    factors = np.broadcast_to(np.float32(factor), n).astype("f8")
                    want = np.rint(sums * factors + (0 if add is None else add.astype("f8"))) + zero
                    want = np.clip(want, limits.min if low is None else low, limits.max).astype(dtype)
                    assert np.abs(out.astype("i4") - want.astype("i4")).max() <= 1
                    assert (out != want).mean() < 0.01
            floats = np.empty((m, n), "f4")
            finish = Finish("silu", Ref(3, F4, column=4), ref(4, residual, block))
            product = Product(n, k, x, b_ref, ref(2, floats, block), finish, scale)
            Chain([product], blocks(m, block), m, block).run([a, b, floats, bias, residual])
            z = sums * scale.astype("f8") + bias + residual
            np.testing.assert_allclose(floats, z / (1 + np.exp(-z)), rtol=1e-5, atol=1e-5)


def test_ties_of_quantised_products(tier: registry.Isa) -> None:
    """Halves between two bytes, and numbers next to them, are rounded as the exact result is."""
    rng = np.random.default_rng(2)
    m, n, k = 19, 100, 700
    a, b = rng.integers(0, 256, (m, k)).astype("u1"), rng.integers(-127, 128, (k, n)).astype("i1")
    sums = a.astype("i8") @ b.astype("i8")
    packed, out = fastgemm.pack(b), np.empty((m, n), "i1")
    for factor, add in ((0.5, None), (2.0**-9, 0.5), (np.nextafter(np.float32(2**-9), 1), 0.25), (0.5, "centre")):
        shift = np.float32(0 if add is None else add) if add != "centre" else (-0.5 * sums[0]).astype("f4")
        used = None if add is None else np.broadcast_to(shift, (n,))
        product = Product(n, k, ref(0, a, m), packed, ref(1, out, m), None, factor, used)
        Chain([product], (1,), m, m).run([a, out])
        want = np.clip(np.rint(sums * np.float64(factor) + shift.astype("f8")), -128, 127)
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("far", [0, 1, 100, 3000])
def test_next_to_ties_of_quantised_products(tier: registry.Isa, far: int) -> None:
    """A result for each column about 1e-4 from a tie or less, by shifts up to `far`: where float32 does not tell."""
    rng = np.random.default_rng(far)
    m, n, k, zero = 7, 3000, 300, -9
    a, b = rng.integers(0, 256, (m, k)).astype("u1"), rng.integers(-127, 128, (k, n)).astype("i1")
    sums, columns = a.astype("i8") @ b.astype("i8"), np.arange(n)
    near, out = sums[columns % m, columns], np.empty((m, n), "i1")
    tie = rng.integers(-128, 127, n) + 0.5 + rng.choice([1e-6, 1e-5, 1e-4], n) * rng.uniform(-1, 1, n)
    shift = rng.uniform(-far, far, n).astype("f4")
    scale = ((tie - zero - shift) / np.where(near == 0, 1, near)).astype("f4")
    product = Product(n, k, ref(0, a, m), fastgemm.pack(b), ref(1, out, m, zero=zero), None, scale, shift)
    Chain([product], (1,), m, m).run([a, out])
    want = np.clip(np.rint(sums * scale.astype("f8") + shift.astype("f8")) + zero, -128, 127)
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_halves_are_finished_before_they_are_rounded(tier: registry.Isa, name: str) -> None:
    if not registry.supported(registry.dtype(name), tier):
        pytest.skip(f"{tier.name} has no kernels for {name}")
    kind = dtype_of(name)
    for m, n, k in ((21, 70, 45), (1, 70, 300), (5, 33, 5000)):
        a, b = normal((m, k), "f4", 1).astype(kind), (normal((k, n), "f4", 2) / k**0.5).astype(kind)
        bias, residual = normal((n,), "f4", 3), normal((m, n), "f4", 4)
        block = min(8, m)
        for b_ref in (ref(1, b), fastgemm.pack(b)):
            out = np.empty((m, n), kind)
            finish = Finish("tanh", Ref(3, F4, column=4), ref(4, residual, block))
            product = Product(n, k, ref(0, a, block), b_ref, ref(2, out, block), finish)
            Chain([product], blocks(m, block), m, block).run([a, b, out, bias, residual])
            want = np.tanh(a.astype("f8") @ b.astype("f8") + bias + residual)
            eps = float(ml_dtypes.finfo(kind).eps)
            # One rounding, and the sums' own.
            assert np.all(np.abs(out.astype("f8") - want) <= 0.51 * eps * np.abs(want) + 1e-6 * k**0.5 + eps * 1e-3)
        got = fastgemm.linear(a, b.T, bias.astype(kind), activation="tanh", residual=residual.astype(kind))
        assert got.dtype == kind
        want = np.tanh(a.astype("f8") @ b.astype("f8") + bias.astype(kind).astype("f8") + residual.astype(kind))
        assert np.all(np.abs(got.astype("f8") - want) <= 0.51 * eps * np.abs(want) + 1e-6 * k**0.5 + eps * 1e-3)


def test_products_of_stacks_are_seen_by_the_tuner() -> None:
    """A chain plans them as a stack's, but what is watched, logged and tuned is the product."""
    shapes = ((3, 8, 6), (3, 5, 6), (3, 8, 5))
    q, k, out = (np.zeros(shape, "f4") for shape in shapes)
    refs = [Ref(slot, F4, 0, (x.strides[0], 0), *x.strides[1:]) for slot, x in enumerate((q, k.swapaxes(1, 2), out))]
    with dispatch.watched() as seen:
        Chain([Product(5, 6, *refs)], outer=(3, 1), rows=8, block=8)
    assert {(x.m, x.n, x.k, x.batch, x.layout) for x, _ in seen} == {(8, 5, 6, 1, "nt")}


def test_maps() -> None:
    x, residual, bias = normal((9, 20), "f4", 1), normal((9, 20), "f4", 2), normal((20,), "f4", 3)
    out = np.empty_like(x)
    for row in activations.EPILOGUES:
        what = epilogues.activation(row.name)
        finish = Finish(row.name, Ref(2, F4, column=4), ref(1, residual, 4))
        Chain([Map(20, ref(0, x, 4), ref(3, out, 4), finish)], (3,), 9, 4).run([x, residual, bias, out])
        sums = x + bias + residual
        want = epilogues.meaning(row.name)(sums if row.name == "k_tanh" else sums.astype("f8"), what.p, what.q)
        np.testing.assert_allclose(out, want, rtol=3e-6, atol=3e-6)


def test_many_threads() -> None:
    x, weight = integers((50, 30), "f4", 1), integers((30, 40), "f4", 2)
    want, wrong = x @ weight, []
    chain = Chain([Product(40, 30, ref(0, x, 7), fastgemm.pack(weight), scratch(40)),
                   Map(40, scratch(40), Ref(1, F4, 0, (7 * 160,), 160, 4), Finish())],
                  blocks(50, 7), 50, 7, 7 * 160)  # fmt: skip

    def work() -> None:
        for _ in range(50):
            out = np.empty((50, 40), "f4")
            chain.run([x, out])
            if not np.array_equal(out, want):
                wrong.append(out)

    team = [threading.Thread(target=work) for _ in range(4)]
    for member in team:
        member.start()
    for member in team:
        member.join()
    assert not wrong


def test_after_a_fork(child: Any) -> None:
    code = (
        "import os, numpy as np, fastgemm\n"
        "from fastgemm.chain import *\n"
        "x = np.ones((600, 300), 'f4'); w = np.ones((300, 300), 'f4'); out = np.empty((600, 300), 'f4')\n"
        "m = [Ref(i, 'float32', 0, (s,), 1200, 4) for i, s in ((0, 120000), (1, 0), (2, 120000))]\n"
        "chain = Chain([Product(300, 300, *m)], (6,), 600, 100)\n"
        "chain.run([x, w, out])\n"
        "if os.fork() == 0:\n"
        "    out[:] = 0; chain.run([x, w, out]); os._exit(int(not (out == 300).all()))\n"
        "print(os.waitpid(-1, 0)[1])"
    )
    assert child(code).stdout.strip() == "0"


def test_errors() -> None:
    x, w, out = np.ones((10, 8), "f4"), np.ones((8, 6), "f4"), np.empty((10, 6), "f4")
    good = Product(6, 8, ref(0, x, 5), ref(1, w), ref(2, out, 5))

    a, b, c = (np.ones(shape, kind) for shape, kind in (((10, 8), "i1"), ((8, 6), "i1"), ((10, 6), "i4")))
    sums = Product(6, 8, ref(0, a, 5), ref(1, b), ref(2, c, 5))

    def made(*members: Any, outer: Any = (2,), rows: int = 10, block: int = 5, room: int = 64) -> Chain:
        return Chain(members or (good,), outer, rows, block, room)

    for call, error, text in (
        (lambda: made(outer=()), ValueError, "outer"),
        (lambda: made(outer=(1, 1, 1, 2)), ValueError, "outer"),
        (lambda: made(outer=(3,)), ValueError, "do not make"),
        (lambda: made(block=4), ValueError, "do not make"),
        (lambda: made(room=-1), ValueError, "scratch"),
        (lambda: made(good._replace(n=0)), ValueError, "no numbers"),
        (lambda: made(good._replace(a=good.a._replace(slot=64))), ValueError, "slot 64"),
        (lambda: made(good._replace(a=good.a._replace(slot=-3))), ValueError, "slot -3"),
        (lambda: made(good._replace(a=good.a._replace(row=33))), ValueError, "whole numbers"),
        (lambda: made(good._replace(a=good.a._replace(offset=1 << 50))), TypeError, "below 2"),
        (lambda: made(good._replace(a=good.a._replace(offset=2.0))), TypeError, "whole numbers"),
        (lambda: made(good._replace(a=good.a._replace(dtype="float64"))), TypeError, "no kernels for float64"),
        (lambda: made(good._replace(c=scratch(6))), ValueError, "leaves the 64 bytes"),
        (lambda: made(good._replace(b=fastgemm.pack(x))), ValueError, "a packed 10 x 8 matrix"),
        (lambda: made(good._replace(finish=Finish("softplus"))), ValueError, "known activations"),
        (lambda: made(good._replace(c=good.a._replace(dtype="float64", slot=3))), TypeError, "no kernels"),
        (lambda: made(good._replace(finish=Finish(bias=Ref(3, F4, column=8)))), ValueError, "adjacent"),
        (lambda: made(Rows("softmin", 8, good.a, good.a)), ValueError, "known operations"),
        (lambda: made(Rows("softmax", 8, good.a, good.a, {"p": 1})), TypeError, "has no p"),
        (lambda: made(Rows("softmax", 8, good.a._replace(dtype="int8"), good.a)), TypeError, "softmax goes from"),
        (lambda: made(Rows("cast", 8, good.a._replace(column=8), good.a)), ValueError, "adjacent"),
        (lambda: made(Rows("cast", 8, good.a._replace(scale=0.0), good.a)), ValueError, "above zero"),
        (lambda: made(Rows("softmax", 8, good.a, Ref(3, "uint8", 0, (40,), 8, 1))), ValueError, "scratch"),
        (lambda: made("relu"), TypeError, "made of Product"),
        (lambda: made(sums._replace(finish=Finish("relu"))), TypeError, "sums of bytes makes float32"),
        (lambda: made(sums._replace(finish=Finish("relu"), scale=0.5)), TypeError, "not int32"),
        (lambda: made(sums._replace(c=ref(2, out, 5), finish=Finish("relu"))), ValueError, "by a scale"),
        (lambda: made().run([x, w]), ValueError, "2 arrays for 3 slots"),
        (lambda: made().run([x, w, out.astype("f8")]), TypeError, "slot 2 must be an ndarray of float32"),
        (lambda: made().run([x[:9], w, out]), ValueError, "it has 0 to 288"),
        (lambda: made().run([x, w, np.broadcast_to(out[:1], out.shape)]), ValueError, "read-only|it has"),
        (lambda: made().run([x, w, out[:0]]), ValueError, "it has"),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            call()


def test_what_a_chain_reaches_is_checked_exactly() -> None:
    """One byte less than a reference reaches is refused, in either direction."""
    flat, out = np.arange(100, dtype="f4"), np.zeros((3, 2), "f4")
    for offset, step, row in ((0, 24, 8), (96, -24, -8), (40, 16, -8), (12, 4, 0), (-8, -24, -8), (-40, 16, 8)):
        member = Map(2, Ref(0, F4, offset, (step,), row, 4), Ref(1, F4, 0, (16,), 8, 4), Finish())
        chain = Chain([member], (2,), 3, 2)
        starts = [(offset + i * step + j * row) // 4 for i, n in ((0, 2), (1, 1)) for j in range(n)]
        if min(starts) >= 0:
            reached = max(starts) + 2
            fits, short, first = flat[:reached], flat[: reached - 1], 0
        else:
            # An array that begins at its highest address lies below where it begins.
            reached = 1 - min(starts)
            fits, short, first = flat[:reached][::-1], flat[: reached - 1][::-1], reached - 1
        chain.run([fits, out])
        np.testing.assert_array_equal(out, [[first + start, first + start + 1] for start in starts])
        with pytest.raises(ValueError, match="reaches bytes"):
            chain.run([short, out])


def test_a_chain_that_has_run_is_closed() -> None:
    """Its members may be in use by another thread."""
    x = np.ones((4, 3), F4)
    chain = Chain([Map(3, ref(0, x, 4), ref(1, x, 4), Finish("relu"))], outer=(1,), rows=4, block=4)
    chain.run([x, np.empty_like(x)])
    row = registry.dtype("f32")
    with pytest.raises(ValueError, match="no more members"):
        chain.add_finish(3, ref(0, x, 4), ref(1, x, 4), row, registry.isa(TIERS[-1]).level, (0, 0.0, 0.0, None, None))
