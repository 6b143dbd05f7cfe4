"""Dot products of bytes and quantised products: exact, and as ONNX defines them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import hypothesis
import hypothesis.extra.numpy as hnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import strategies as st
from oracle import laid, same

import fastgemm
from fastgemm import _mixed, _packed, dispatch, graph, kernels, mixed, quantized, registry
from fastgemm.heuristic import rules
from fastgemm.problem import Config, Problem

onnx = pytest.importorskip("onnx")
PAIRS = list(itertools.product(("i1", "u1"), repeat=2))
SHAPES = [(1, 1, 1), (3, 5, 7), (16, 16, 16), (17, 33, 65), (1, 300, 200), (300, 1, 200), (20, 30, 3001), (5, 6, 20000)]


def configs() -> list[Any]:
    """Every family that computes bytes with sums of 32 bits, on every tier that runs here."""
    row = registry.dtype("i8_i32")
    return [
        pytest.param(family.name, tier.name, id=f"{family.name}_{tier.name}")
        for family, tier in registry.modules()
        if family.name not in ("gemv", "small", "dots") and registry.computes(family.name, row)
        if tier in kernels.runnable() and kernels.has(family.name, tier.name)
    ]


def full(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Bytes of the whole range, every fourth of them at an end of it."""
    rng = np.random.default_rng(seed)
    ends = np.iinfo(dtype)
    found = rng.integers(ends.min, ends.max, shape, dtype=dtype, endpoint=True)
    edges = rng.random(shape)
    found[edges < 0.125] = ends.min
    found[edges > 0.875] = ends.max
    return found


def wide(x: np.ndarray, zero: np.ndarray | None = None) -> np.ndarray:
    return x.astype("i4") - (0 if zero is None else zero.astype("i4"))


@pytest.mark.parametrize(("kind_a", "kind_b"), PAIRS)
@pytest.mark.parametrize(("family", "isa"), configs())
def test_exact(family: str, isa: str, kind_a: str, kind_b: str) -> None:
    """Any signs, layouts, zero points, and k: no saturation, no rounding; A in place or packed."""
    row = registry.dtype("i8_i32")
    mr, nr = registry.tiles(row, registry.isa(isa))[0]
    packs = ("b", "ab") if registry.in_place(family, row) else ("ab",)
    for kc, pack in itertools.product((64, 1 << 20), packs):
        with dispatch.forced(Config(family, isa, mr, nr, kc=kc, nc=2 * nr, pack=pack)):
            for (m, n, k), a_order, b_order in itertools.product(SHAPES, "nt", "ntg"):
                a, b = laid(full((m, k), kind_a, 1), a_order), laid(full((k, n), kind_b, 2), b_order)
                assert np.array_equal(fastgemm.matmul(a, b, dtype=np.int32), wide(a) @ wide(b))
                rows, columns = full((m,), kind_a, 3), full((n,), kind_b, 4)
                want = wide(a, rows[:, None]) @ wide(b, columns)
                assert np.array_equal(fastgemm.matmul_integer(a, b, rows, columns), want)
                assert np.array_equal(fastgemm.matmul_integer(a, b, rows[0]), wide(a, rows[:1]) @ wide(b))
                assert np.array_equal(fastgemm.matmul_integer(a, b, None, columns[0]), wide(a) @ wide(b, columns[:1]))


@pytest.mark.parametrize(("kind_a", "kind_b"), PAIRS)
@pytest.mark.parametrize("tier", [tier.name for tier in kernels.runnable()])
def test_small_products(tier: str, kind_a: str, kind_b: str) -> None:
    """Offsets of rows and columns are subtracted as the numbers are loaded: panels, narrow rows, stacks."""
    for mr, nr in registry.tiles(registry.dtype("i8_i32"), registry.isa(tier)):
        sizes = [
            (2, 2, 1),
            (3, 5, 7),
            (70, 3, 2),
            (130, 4, 16),
            (35, 8, 9),
            (2 * mr + 1, nr + 1, 20),
            (3, 2 * nr + 5, 4),
        ]
        for (m, n, k), a_order, b_order in itertools.product(sizes, "CF", "CF"):
            a, b = full((m, k), kind_a, 1).copy(a_order), full((k, n), kind_b, 2).copy(b_order)
            rows, columns = full((m,), kind_a, 3), full((n,), kind_b, 4)
            want = wide(a, rows[:, None]) @ wide(b, columns)
            with dispatch.forced(Config("small", tier, mr, nr, pack="b")):
                assert np.array_equal(fastgemm.matmul(a, b, dtype=np.int32), wide(a) @ wide(b))
                assert np.array_equal(fastgemm.matmul_integer(a, b, rows, columns), want)
                assert np.array_equal(fastgemm.matmul_integer(a, b, rows[0]), wide(a, rows[:1]) @ wide(b))
                stack = np.stack([a, a[::-1], a])
                got = fastgemm.matmul_integer(stack, np.stack([b, b, b]), None, columns)
                assert np.array_equal(got, wide(stack) @ wide(b, columns))


STRIPS = [param for param in configs() if registry.strips(param.values[0], registry.dtype("i8_i32"))]


@pytest.mark.parametrize(("kind_a", "kind_b"), PAIRS)
@pytest.mark.parametrize(("family", "isa"), STRIPS)
def test_few_rows_by_a_matrix_in_place(family: str, isa: str, kind_a: str, kind_b: str) -> None:
    """Strips of columns, ends of k and of rows, threads, zero points of rows and columns, sums that become bytes."""
    sizes = [(1, 1, 1), (2, 3, 1), (3, 70, 63), (4, 64, 16), (8, 200, 129), (5, 530, 61), (7, 129, 300), (6, 65, 33)]
    mr, nr = registry.tiles(registry.dtype("i8_i32"), registry.isa(isa))[0]
    for (m, n, k), order, (split, threads) in itertools.product(sizes, "CF", (("n", 1), ("n", 2), ("m", 2), ("k", 2))):
        a, b = full((m, k), kind_a, 1).copy(order), full((k, n), kind_b, 2)
        rows, columns = full((m,), kind_a, 3), full((n,), kind_b, 4)
        plain, full_range = wide(a) @ wide(b), wide(a, rows[:, None]) @ wide(b, columns)
        with (
            dispatch.forced(Config(family, isa, mr, nr, nc=256, pack="none", split=split, threads=threads)),
            fastgemm.threads(2),
        ):
            assert np.array_equal(fastgemm.matmul(a, b, dtype=np.int32), plain)
            assert np.array_equal(fastgemm.matmul_integer(a, b, rows, columns), full_range)
            assert np.array_equal(fastgemm.matmul_integer(a, b, rows[0]), wide(a, rows[:1]) @ wide(b))
            assert np.array_equal(fastgemm.matmul_integer(a, b, None, columns[0]), wide(a) @ wide(b, columns[:1]))
            out = np.zeros((m, 2 * n), np.int32)[:, ::2]
            assert np.array_equal(fastgemm.matmul(a, b, out=out, dtype=np.int32), plain)
            scale = np.geomspace(1e-3, 1e-2, n).astype("f4")
            y = fastgemm.qlinear_matmul(a, np.float32(0.5), rows, b, scale, columns, np.float32(2), np.uint8(3))
            wanted = np.rint(full_range * (np.float32(0.5) * scale / np.float32(2)).astype("f8")) + 3
            assert np.array_equal(y, wanted.clip(0, 255).astype("u1"))
        stack = np.stack([a, a[::-1], a])
        with dispatch.forced(Config(family, isa, mr, nr, nc=256, pack="none")):
            got = fastgemm.matmul_integer(stack, np.stack([b, b, b]), None, columns)
            assert np.array_equal(got, wide(stack) @ wide(b, columns))


@pytest.mark.parametrize(("kind_a", "kind_b"), PAIRS)
@pytest.mark.parametrize("tier", [tier.name for tier in kernels.runnable()])
def test_rows_of_both_operands(tier: str, kind_a: str, kind_b: str) -> None:
    """x @ w.T as dot products: blocks, threads, zero points of rows and columns, sums that become bytes."""
    sizes = [(2, 3, 1), (3, 25, 63), (4, 6, 64), (9, 70, 129), (5, 130, 300), (17, 7, 1000)]
    for (m, n, k), mc, (split, threads) in itertools.product(sizes, (4, 96), (("n", 1), ("n", 2), ("m", 2), ("k", 2))):
        a, b = full((m, k), kind_a, 1), full((n, k), kind_b, 2).T
        rows, columns = full((m,), kind_a, 3), full((n,), kind_b, 4)
        plain, full_range = wide(a) @ wide(b), wide(a, rows[:, None]) @ wide(b, columns)
        with (
            dispatch.forced(Config("dots", tier, mc=mc, kc=64 * mc, nc=50, split=split, threads=threads)),
            fastgemm.threads(2),
        ):
            assert np.array_equal(fastgemm.matmul(a, b, dtype=np.int32), plain)
            assert np.array_equal(fastgemm.matmul_integer(a, b, rows, columns), full_range)
            assert np.array_equal(fastgemm.matmul_integer(a, b, rows[0]), wide(a, rows[:1]) @ wide(b))
            assert np.array_equal(fastgemm.matmul_integer(a, b, None, columns[0]), wide(a) @ wide(b, columns[:1]))
            scale = np.geomspace(1e-3, 1e-2, n).astype("f4")
            y = fastgemm.qlinear_matmul(a, np.float32(0.5), rows, b, scale, columns, np.float32(2), np.uint8(3))
            wanted = np.rint(full_range * (np.float32(0.5) * scale / np.float32(2)).astype("f8")) + 3
            assert np.array_equal(y, wanted.clip(0, 255).astype("u1"))


@pytest.mark.parametrize(("kind_a", "kind_b"), PAIRS)
@pytest.mark.parametrize("tier", [tier.name for tier in kernels.runnable()])
def test_one_row_or_column(tier: str, kind_a: str, kind_b: str) -> None:
    """Vectors and threads that share their k or n; more columns than a strip, k beyond a chunk of x."""
    sizes = [(1, 1), (5, 3), (7, 16), (64, 17), (100, 65), (33, 200), (9001, 5), (20001, 70)]
    for (k, n), order in itertools.product(sizes, "CF"):
        a, b = full((1, k), kind_a, 1), full((k, n), kind_b, 2).copy(order)
        zero, columns = full((1,), kind_a, 3), full((n,), kind_b, 4)
        want = wide(a, zero) @ wide(b, columns)
        for split, threads in (("n", 1), ("n", 2), ("k", 2)):
            config = Config("gemv", tier, split=split, threads=threads)
            with dispatch.forced(config), fastgemm.threads(2):
                assert np.array_equal(fastgemm.matmul_integer(a, b), wide(a) @ wide(b))
                assert np.array_equal(fastgemm.matmul_integer(a, b, zero, columns), want)
                assert np.array_equal(fastgemm.matmul_integer(b.T, a.T, columns, zero), want.T)
                y = fastgemm.qlinear_matmul(
                    a, np.float32(0.5), zero, b, np.full(n, 0.01, "f4"), columns, np.float32(2), np.uint8(3)
                )
                expected = np.rint(want * (np.float32(0.5) * np.float32(0.01) / np.float32(2)).astype("f8")) + 3
                assert np.array_equal(y, expected.clip(0, 255).astype("u1"))


@pytest.mark.parametrize("tier", [tier.name for tier in kernels.runnable()])
@pytest.mark.parametrize("columns", [1, 20, 70])
@pytest.mark.parametrize("zero", [np.int8(3), np.int8(-8), np.uint8(131)])
def test_ties_are_even_before_the_zero_point(
    tier: str, columns: int, zero: Any, on_tier: Callable[[str], registry.Isa]
) -> None:
    """As QuantizeLinear rounds, by arrays and packed matrices, and in graphs, where it is written beside products."""
    on_tier(tier)
    a = np.arange(-60, 60, dtype="i1").reshape(-1, 1) * np.array([1, 0, 0, 0], "i1")
    b = np.ones((4, columns), "i1")
    ends = np.iinfo(zero.dtype)
    half = np.float32(0.5)
    column = (np.rint(a[:, :1] * half) + zero).clip(ends.min, ends.max).astype(zero.dtype)
    want = np.broadcast_to(column, (len(a), columns))
    for right in (b, fastgemm.pack(b)):
        np.testing.assert_array_equal(fastgemm.qlinear_matmul(a, half, None, right, half, None, half, zero), want)
    build = graph.Builder()
    real = [build.dequantize(x, build.constant(half)) for x in (build.input("a", a.shape, "int8"), build.constant(b))]
    build.output(build.quantize(real[0] @ real[1], build.constant(half), build.constant(zero)), "y")
    for fusion in ("none", "fine", "full"):
        np.testing.assert_array_equal(graph.compile(build.graph(), fusion=fusion)(a=a), want)


def test_the_same_as_numpy() -> None:
    a, b = full((4, 5, 6), "i1", 1), full((4, 6, 3), "i1", 2)
    same(lambda f: f(a, b, dtype=np.int32))
    same(lambda f: f(a[0], b, dtype="i4"))
    same(lambda f: f(a[0, 0], b[0], dtype="i4"))
    same(lambda f: f(a[0], b[0, :, 0], dtype="i4"))
    same(lambda f: f(a[0], b[0], out=np.zeros((5, 3), "i4")))
    same(lambda f: f(a[0], b[0].view("u1"), dtype="i4"))


def test_stacks_of_any_depth_are_few_calls() -> None:
    """Axes that lie like one are one, and the longest of what remains is the stack of each call."""

    def calls(*stacks: np.ndarray) -> int:
        a, b, out = stacks
        made = mixed.items(a, b, out)
        for x, y, z in made:
            assert np.may_share_memory(z, out)
            z[...] = x @ y
        np.testing.assert_array_equal(out, a @ b)
        return len(made)

    def stack(*shape: int) -> np.ndarray:
        return np.arange(math.prod(shape), dtype="i8").reshape(shape)

    def empty(*lead: int) -> np.ndarray:
        return np.zeros((*lead, 2, 4), "i8")

    assert calls(stack(40, 1, 2, 3), stack(40, 1, 3, 4), empty(40, 1)) == 1
    assert calls(stack(40, 2, 2, 3), stack(40, 2, 3, 4), empty(40, 2)) == 1
    assert calls(stack(1, 1, 2, 3), stack(3, 4), empty(1, 1)) == 1
    assert calls(stack(40, 3, 2, 2, 3), stack(3, 4), empty(40, 3, 2)) == 1
    assert calls(stack(40, 2, 2, 3), stack(2, 3, 4), empty(40, 2)) == 2
    assert calls(stack(2, 40, 2, 3).swapaxes(0, 1), stack(40, 2, 3, 4), empty(40, 2)) == 2
    assert calls(stack(40, 5, 2, 3)[:, ::2], stack(40, 3, 3, 4), empty(40, 3)) == 3
    assert calls(stack(3, 2, 5, 2, 3)[::-1, ::-1, ::-1], stack(3, 4), empty(3, 2, 5)) == 1
    assert calls(stack(2, 40, 2, 3), stack(2, 40, 3, 4), empty(2, 81)[:, :80:2]) == 2


def test_stacks_with_zero_points_of_their_own() -> None:
    a, b = full((2, 3, 4, 9), "u1", 1), full((3, 9, 5), "i1", 2)
    rows, columns = full((2, 3, 4, 1), "u1", 3), full((3, 1, 5), "i1", 4)
    assert np.array_equal(fastgemm.matmul_integer(a, b, rows, columns), wide(a, rows) @ wide(b, columns))
    assert np.array_equal(fastgemm.matmul_integer(a, b), wide(a) @ wide(b))
    assert fastgemm.matmul_integer(a[0, 0, 0], b[0, :, 0]) == wide(a[0, 0, 0]) @ wide(b[0, :, 0])


class Calls:
    """Counts calls of a function, which are made."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.count = function, 0

    def __call__(self, *given: Any) -> Any:
        self.count += 1
        return self.function(*given)


@pytest.mark.parametrize(("kind_a", "kind_b"), PAIRS)
def test_zero_points_of_stacks_are_few_calls(kind_a: str, kind_b: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of small matrices; a stack by one matrix is one matrix, packed or not; large ones keep calls of their own."""
    product, packed = Calls(_mixed.product), Calls(_packed.product_into)
    monkeypatch.setattr(_mixed, "product", product)
    monkeypatch.setattr(_packed, "product_into", packed)
    monkeypatch.setattr(fastgemm.PackedMatrix, "toarray", None)

    def check(a: np.ndarray, b: np.ndarray, right: Any, rows: Any, columns: Any, scale: np.ndarray) -> int:
        product.count = packed.count = 0
        total = wide(a, rows) @ wide(b, columns)
        assert np.array_equal(fastgemm.matmul_integer(a, right, rows, columns), total)
        one, zero = np.float32(1), np.uint8(7)
        got = fastgemm.qlinear_matmul(a, scale, rows, right, one, columns, one, zero)
        assert np.array_equal(got, (np.rint(total * scale.astype("f8")) + 7).clip(0, 255).astype("u1"))
        return product.count + packed.count

    scale, one = np.geomspace(1e-4, 1e-2, 300).astype("f4").reshape(20, 5, 3, 1), np.float32([0.01])
    a, b, rows = full((20, 5, 3, 9), kind_a, 1), full((9, 5), kind_b, 2), full((20, 5, 3, 1), kind_a, 3)
    column = full((5,), kind_b, 4)
    for left in (a, a[::-1, ::2]):
        own, scales = rows[: left.shape[0], : left.shape[1]], scale[: left.shape[0], : left.shape[1]]
        for right in (b, fastgemm.pack(b, zero_point=column)):
            assert check(left, b, right, own, column, scales) == 2
            assert check(left, b, right, own, column, one) == 2
            assert check(left, b, right, own[0, 0], column, scales) <= 4
    stack, columns = full((5, 9, 4), kind_b, 2), full((5, 1, 4), kind_b, 4)
    for first, second in ((rows, columns), (rows, None), (rows[0], column[0]), (None, columns), (rows[0, 0], columns)):
        assert check(a, stack, stack, first, second, one) <= 16
    large = full((3, 40, 90), kind_a, 1), full((3, 90, 80), kind_b, 2)
    first, second = full((3, 40, 1), kind_a, 3), full((3, 1, 80), kind_b, 4)
    assert check(*large, large[1], first, second, one) == 6


@pytest.mark.parametrize("packed", [False, True])
def test_numbers_for_each_row_of_a_stack(packed: bool) -> None:
    """A packed matrix meets the stack as one product, whose rows have the numbers again for each matrix."""
    a, b = full((2, 3, 9), "u1", 1), full((9, 5), "i1", 2)
    right: Any = fastgemm.pack(b) if packed else b
    rows, scale = full((3,), "u1", 3), np.array([0.5, 1, 0.25], "f4")
    every = np.stack([rows, rows[::-1]])[..., None]
    assert np.array_equal(fastgemm.matmul_integer(a, right, every), wide(a, every) @ wide(b))
    sums = wide(a, rows[:, None]) @ wide(b)
    assert np.array_equal(fastgemm.matmul_integer(a, right, rows), sums)
    got = fastgemm.qlinear_matmul(a, scale, rows, right, np.float32(2**-6), None, np.float32(1), np.uint8(9))
    assert np.array_equal(got, (np.rint(sums * scale[:, None] * 2.0**-6) + 9).clip(0, 255).astype("u1"))


def test_vectors_and_empty_sums() -> None:
    a, b = full((7,), "u1", 1), full((7,), "i1", 2)
    assert type(fastgemm.matmul_integer(a, b)) is np.int32
    assert np.array_equal(fastgemm.matmul_integer(a[None, :0], np.stack([b[:0]] * 3, 1), 3, 7), np.zeros((1, 3), "i4"))


@hypothesis.settings(deadline=None, max_examples=100)
@hypothesis.given(st.data(), st.sampled_from(PAIRS))
def test_any_bytes(data: st.DataObject, kinds: tuple[str, str]) -> None:
    m, n, k = (data.draw(st.integers(1, 20)) for _ in range(3))
    a, b = data.draw(hnp.arrays(kinds[0], (m, k))), data.draw(hnp.arrays(kinds[1], (k, n)))
    rows = data.draw(hnp.arrays(kinds[0], (m,)))
    assert np.array_equal(fastgemm.matmul_integer(a, b, rows), wide(a, rows[:, None]) @ wide(b))


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_share_k(threads: int) -> None:
    a, b = full((6, 9001), "i1", 1), full((9001, 40), "u1", 2)
    problem = Problem("i8_i32", 6, 40, 9001, threads=2)
    with dispatch.forced(rules.config(problem).replace(split="k", threads=threads)), fastgemm.threads(threads):
        assert np.array_equal(fastgemm.matmul_integer(a, b, 3, 7), (wide(a) - 3) @ (wide(b) - 7))


def test_refusals() -> None:
    a = np.ones((2, 2), "i1")
    with pytest.raises(TypeError, match="int8 or uint8"):
        fastgemm.matmul_integer(a.astype("i4"), a)
    with pytest.raises(TypeError, match="b must hold int8 or uint8, not float32"):
        fastgemm.matmul_integer(a, fastgemm.pack(a.astype("f4")))
    with pytest.raises(ValueError, match="a must be a vector"):
        fastgemm.matmul_integer(np.int8(1), a)
    for zero in (200, -200, 0.0):
        with pytest.raises(ValueError, match="whole numbers from -128 to 127"):
            fastgemm.matmul_integer(a, a, zero)
    for left, count in ((a, 3), (a, 0), (a[0], 2)):
        with pytest.raises(ValueError, match="a_zero_point has shape"):
            fastgemm.matmul_integer(left, a, np.zeros(count, "i1"))
    for right, count in ((a, 3), (a, 0), (a[0], 2)):
        with pytest.raises(ValueError, match="b_zero_point has shape"):
            fastgemm.matmul_integer(a, right, None, np.zeros(count, "i1"))
    with pytest.raises(ValueError, match="inner sizes"):
        fastgemm.matmul_integer(a, np.ones((3, 2), "i1"))
    with pytest.raises(TypeError, match="y_zero_point"):
        fastgemm.qlinear_matmul(a, 1.0, None, a, 1.0, None, 1.0, 0)


# ---- as ONNX defines them -------------------------------------------------------------------------------------------


def reference(kind: str, *inputs: np.ndarray, outputs: int = 1) -> Any:
    """What the onnx package's evaluator answers for one node."""
    from onnx.reference import ReferenceEvaluator

    names = [f"x{i}" for i in range(len(inputs))]
    results = [f"y{i}" for i in range(outputs)]
    node = onnx.helper.make_node(kind, names, results)
    values = [
        onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(x.dtype), None)
        for n, x in zip(names, inputs, strict=True)
    ]
    ends = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.UNDEFINED, None) for n in results]
    graph = onnx.helper.make_graph([node], "g", values, ends)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)])
    return ReferenceEvaluator(model).run(None, dict(zip(names, inputs, strict=True)))


@pytest.mark.parametrize("scale", ["f4", "f2"])
@pytest.mark.parametrize("kind", ["i1", "u1"])
@pytest.mark.parametrize("depth", [2, 3])
def test_qlinear_matmul_nodes(depth: int, kind: str, scale: str) -> None:
    """The operands of ONNX's node tests, and of a larger product."""
    a = np.array([[208, 236, 0, 238], [3, 214, 255, 29]]).astype(kind)
    b = np.array([[152, 51, 244], [60, 26, 255], [0, 127, 246], [127, 254, 247]]).astype(kind)
    big = [full((30, 70), kind, 1), full((70, 40), kind, 2)]
    for left, right in ((a, b), big):
        if depth == 3:
            left, right = np.stack([left, left[::-1]]), np.stack([right, right])
        zeros = [np.array(z).astype(kind) for z in (113, 114, 118)]
        scales = [np.array(s, scale) for s in (0.0066, 0.00705, 0.0107)]
        inputs = (left, scales[0], zeros[0], right, scales[1], zeros[1], scales[2], zeros[2])
        (want,) = reference("QLinearMatMul", *inputs)
        got = fastgemm.qlinear_matmul(*inputs)
        assert got.dtype == want.dtype
        assert np.array_equal(got, want)


@pytest.mark.parametrize("taken", [True, False], ids=["by kernels", "by NumPy"])
@pytest.mark.parametrize("kind", ["i1", "u1"])
def test_scales_of_rows_and_columns(kind: str, taken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not taken:
        monkeypatch.setattr(_mixed, "product", lambda *given: False)
    rng = np.random.default_rng(1)
    a, b = full((21, 50), kind, 1), full((50, 33), kind, 2)
    sa, sb = (rng.random(n).astype("f4") * 0.01 + 0.001 for n in (21, 33))
    zero = np.array(5, kind)
    total = wide(a) @ wide(b)
    for left, right in ((sa[:, None], sb), (sa[:, None], sb[:1]), (sa[:1], sb)):
        want = np.rint(total * (left * right / np.float32(0.02)).astype("f8")) + 5
        ends = np.iinfo(kind)
        got = fastgemm.qlinear_matmul(a, left.ravel(), None, b, right, None, np.float32(0.02), zero)
        assert np.array_equal(got, want.clip(ends.min, ends.max).astype(kind))
    per_row = fastgemm.qlinear_matmul(a, sa, None, b, sb, None, sa + np.float32(0.01), np.full(21, 5, kind))
    want = np.rint(total * (sa[:, None] * sb / (sa + np.float32(0.01))[:, None]).astype("f8")) + 5
    assert np.array_equal(per_row, want.clip(ends.min, ends.max).astype(kind))


@pytest.mark.parametrize("scale", ["f4", "f2"])
@pytest.mark.parametrize("packed", [False, True])
def test_scales_of_the_results_rows(packed: bool, scale: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels take them where b has one scale, and give NumPy's bytes; zero points that are equal are one."""
    monkeypatch.setattr(quantized, "_requantised", None)
    a, b = full((21, 50), "u1", 1), full((50, 33), "i1", 2)
    right: Any = fastgemm.pack(b) if packed else b
    rows, zeros, one = (np.geomspace(1e-2, 3, 21).astype(scale), np.full(21, 5, "u1"), np.ones(1, scale))
    for left, y in ((one, rows), (rows, one), (rows, rows[::-1]), (rows[:, None], rows[::-1, None])):
        factor = left.reshape(-1, 1) * np.array(0.02, scale) / y.reshape(-1, 1)
        want = (np.rint(wide(a) @ wide(b) * factor.astype("f8")) + 5).clip(0, 255).astype("u1")
        for zero in (zeros[0], zeros, zeros[:, None]):
            got = fastgemm.qlinear_matmul(a, left, None, right, np.array(0.02, scale), None, y, zero)
            assert np.array_equal(got, want)


def test_scales_of_no_rows_or_columns() -> None:
    one = np.float32(1)
    for m, n in ((1, 3), (0, 3), (2, 0), (0, 0)):
        a, b, rows, columns = np.ones((m, 4), "i1"), np.ones((4, n), "i1"), np.ones(m, "f4"), np.ones(n, "f4")
        for first, second, y in itertools.product((one, rows), (one, columns), (one, rows)):
            for right in (b, fastgemm.pack(b)):
                got = fastgemm.qlinear_matmul(a, first, None, right, second, None, y, np.int8(0))
                assert np.array_equal(got, np.full((m, n), 4, "i1"))
    assert fastgemm.matmul_integer(np.ones((0, 3, 4), "i1"), fastgemm.pack(b), np.ones((0, 3, 1), "i1")).size == 0


@pytest.mark.parametrize("tier", [tier.name for tier in kernels.runnable()])
@pytest.mark.parametrize("kind", ["i1", "u1"])
def test_results_far_outside_bytes(tier: str, kind: str, on_tier: Callable[[str], registry.Isa]) -> None:
    """Each is the byte at its end, however far beyond float32's whole numbers, and their neighbours are exact."""
    on_tier(tier)
    a, b = full((23, 40), "u1", 1), full((40, 80), "i1", 2)
    total, ends = wide(a) @ wide(b), np.iinfo(kind)
    one, zero, right = np.float32(1), np.array(3, kind), fastgemm.pack(b)
    for scale in (1e-4, 1.0, 37.0, 190.0, 1e4, 1e20, 3e33, -37.0, -190.0, -1e20):
        scales = np.full(80, np.float32(scale))
        scales[::7] = 1e-3
        want = (np.rint(total * scales.astype("f8")) + 3).clip(ends.min, ends.max).astype(kind)
        assert np.array_equal(fastgemm.qlinear_matmul(a, one, None, right, scales, None, one, zero), want)


@pytest.mark.parametrize("tier", [tier.name for tier in kernels.runnable()])
@pytest.mark.parametrize("kind", ["i1", "u1"])
def test_halves_in_one_column(tier: str, kind: str, on_tier: Callable[[str], registry.Isa]) -> None:
    """Ties go to even numbers wherever a tile has its only ones; and what is no number stays in its row."""
    on_tier(tier)
    a, b = full((13, 10), "u1", 1) >> 6, full((10, 75), "i1", 2) >> 5
    total, ends = wide(a) @ wide(b), np.iinfo(kind)
    right = fastgemm.pack(b)
    # (Of scales above a quarter a tile's results may be no whole numbers of 32 bits: they take another way.)
    for column, (scale, halves) in itertools.product(range(0, 75, 5), ((0.25 + 2.0**-12, 0.5), (0.2, 0.25))):
        scales = np.full(75, scale, "f4")
        scales[column] = halves
        want = (np.rint(total * scales.astype("f8")) + 3).clip(ends.min, ends.max).astype(kind)
        one = np.float32(1)
        assert np.array_equal(fastgemm.qlinear_matmul(a, one, None, right, scales, None, one, np.array(3, kind)), want)
    a[4], scales[[7, 40]] = 0, (np.inf, np.nan)
    rows = [fastgemm.qlinear_matmul(x, one, None, right, scales, None, one, np.array(3, kind)) for x in a[:, None]]
    assert np.array_equal(
        fastgemm.qlinear_matmul(a, one, None, right, scales, None, one, np.array(3, kind)), np.concatenate(rows)
    )


@pytest.mark.parametrize("tier", [tier.name for tier in kernels.runnable()])
@pytest.mark.parametrize("rows", [1, 8, 40])
def test_sums_that_float32_does_not_hold(tier: str, rows: int, on_tier: Callable[[str], registry.Isa]) -> None:
    """A sum of 2**24 + 2**16 + 1, one more than a tie, is rounded up: float32 would call it a tie."""
    on_tier(tier)
    a, b = np.full((rows, 522), 255, "u1"), np.full((522, 48), 127, "i1")
    a[:, 520:], b[521] = (20, 13), 1
    assert np.all(wide(a) @ wide(b) == 2**24 + 2**16 + 1)
    one = np.float32(1)
    for right in (b, fastgemm.pack(b)):
        got = fastgemm.qlinear_matmul(a, np.float32(2**-17), None, right, one, None, one, np.uint8(0))
        assert np.all(got == 129)


@pytest.mark.parametrize("tier", [tier.name for tier in kernels.runnable()])
@pytest.mark.parametrize("kind", ["i1", "u1"])
def test_infinite_scales(tier: str, kind: str, on_tier: Callable[[str], registry.Isa]) -> None:
    """Results without end go to the end of the range, in one column or in all; zero times infinity stays the same byte.

    (The NaN that the CPU makes of it is a negative one.)
    """
    on_tier(tier)
    ends, one, zero = np.iinfo(kind), np.float32(1), np.array(7, kind)
    for rows, columns, scale in itertools.product((1, 5, 14), (3, 24, 64, 75), (np.inf, -np.inf)):
        a, b = full((rows, 24), "u1", rows) | 1, full((24, columns), "i1", columns)
        b[:, 1], a[0] = 0, 1
        right, total = fastgemm.pack(b, rows=rows), wide(a) @ wide(b)
        for where in (slice(None), slice(2, 3), slice(1, 2)):
            scales = np.full(columns, 2e-3, "f4")
            scales[where] = scale
            with np.errstate(invalid="ignore"):
                exact = total * scales.astype("f8") + 7
            want = np.rint(np.where(np.isnan(exact), 0, exact)).clip(ends.min, ends.max).astype(kind)
            got = fastgemm.qlinear_matmul(a, one, None, right, scales, None, one, zero)
            assert np.array_equal(got, want), (rows, columns, scale, where)
    with np.errstate(divide="ignore"):
        got = fastgemm.qlinear_matmul(a, one, None, right, one, None, np.float32(0), zero)
    assert np.array_equal(got[total > 0], np.full((total > 0).sum(), ends.max, kind))


@pytest.mark.parametrize("tier", [tier.name for tier in kernels.runnable()])
@pytest.mark.parametrize("kind", ["i1", "u1"])
def test_bytes_of_every_tile(tier: str, kind: str, on_tier: Callable[[str], registry.Isa]) -> None:
    """A row's vectors are rounded together, however many of them there are and of the last one's columns."""
    on_tier(tier)
    ends, one, zero = np.iinfo(kind), np.float32(1), np.array(7, kind)
    for rows, columns in itertools.product((1, 2, 5, 14), (*range(1, 70, 3), 16, 32, 48, 64, 129)):
        a, b = full((rows, 24), "u1", rows), full((24, columns), "i1", columns)
        want = (np.rint(wide(a) @ wide(b) * np.float32(3e-3).astype("f8")) + 7).clip(ends.min, ends.max).astype(kind)
        got = fastgemm.qlinear_matmul(a, one, None, fastgemm.pack(b, rows=rows), np.float32(3e-3), None, one, zero)
        assert np.array_equal(got, want), (rows, columns)


@pytest.mark.parametrize("packed", [False, True])
def test_scales_have_the_shapes_of_zero_points(packed: bool) -> None:
    """One number, or one a row of a, a column of b: also where only one of the two has more than one."""
    a, b = full((3, 5), "u1", 1), full((5, 4), "i1", 2)
    right: Any = fastgemm.pack(b) if packed else b
    one, three, four = (np.full(n, 0.01, "f4") for n in (1, 3, 4))

    def product(sa: np.ndarray, sb: np.ndarray) -> Any:
        return fastgemm.qlinear_matmul(a, sa, None, right, sb, None, np.float32(0.5), np.uint8(9))

    want = product(one, one)
    for sa, sb in ((three, one), (three[:, None], one), (one, four), (one, four[None]), (three, four[None])):
        assert np.array_equal(product(sa, sb), want)
    for sa, sb, name in (
        (three[None], one, "a_scale"), (one, four[:, None], "b_scale"), (four, one, "a_scale"), (one, three, "b_scale"),
        (three[None], four, "a_scale"), (three[:, None, None], one, "a_scale"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"{name} has shape"):
            product(sa, sb)


def test_zero_points_of_packed_matrices() -> None:
    """One number stands for as many columns as there are: forms that broadcast to the same are the same."""
    a, b = full((3, 5), "u1", 1), full((5, 4), "i1", 2)
    for zero in (np.int8(-7), np.full(4, -7, "i1"), np.int8([1, 2, 3, 4])):
        made = fastgemm.pack(b, zero_point=zero)
        want = fastgemm.matmul_integer(a, b, 3, zero)
        forms = [zero, np.broadcast_to(zero, 4), np.broadcast_to(zero, (1, 4)), None]
        forms += [-7, [-7], [[-7]]] if np.ptp(zero) == 0 else []
        for form in forms:
            assert np.array_equal(fastgemm.matmul_integer(a, made, 3, form), want)
            first, last = (a, np.float32(0.1), 3), (np.float32(2), np.uint8(9))
            got = fastgemm.qlinear_matmul(*first, made, np.float32(0.1), form, *last)
            assert np.array_equal(got, fastgemm.qlinear_matmul(*first, b, np.float32(0.1), zero, *last))
        for wrong in (5, [5] * 4, np.zeros(4, "i1"), 0):
            with pytest.raises(ValueError, match="other zero points"):
                fastgemm.matmul_integer(a, made, 3, wrong)
        for wrong in ([1, 2, 3], [[1], [2], [3], [4]], 300, 0.5):
            with pytest.raises(ValueError, match="b_zero_point"):
                fastgemm.matmul_integer(a, made, 3, wrong)
    made = fastgemm.pack(b)
    assert np.array_equal(fastgemm.matmul_integer(a, made, 3, np.zeros(4, "i1")), fastgemm.matmul_integer(a, b, 3))


def test_the_compiled_module_checks_its_terms() -> None:
    a, b, out = full((3, 5), "u1", 1), full((5, 4), "i1", 2), np.empty((3, 4), "i4")
    one, low = np.ones(1, "f4"), (False, 0.0, 255.0)
    for bad in (np.zeros(2, "i4"), np.zeros(3, "i8"), np.zeros(6, "i4")[::2]):
        with pytest.raises(ValueError, match="zero points"):
            _mixed.product(a, b, out, "i8_i32", bad)
        with pytest.raises(ValueError, match="zero points"):
            _mixed.product(a, b, out, "i8_i32", None, bad)
    for bad in ((np.ones(2, "f4"), one, one, one), (np.ones(3), one, one, one), (one, np.ones(3, "f4"), one, one),
                (one, one, np.ones(3, "f4"), one), (one, np.ones(8, "f4")[::2], one, one)):  # fmt: skip
        with pytest.raises(ValueError, match="terms"):
            _mixed.product(a, b, out.astype("u1"), "i8_q8", None, None, (*bad, *low))


def test_matmul_integer_node() -> None:
    a = np.array([[11, 7, 3], [10, 6, 2], [9, 5, 1], [8, 4, 0]], "u1")
    b = np.array([[1, 4], [2, 5], [3, 6]], "u1")
    inputs = (a, b, np.array([12], "u1"), np.array([0], "u1"))
    assert np.array_equal(fastgemm.matmul_integer(*inputs), reference("MatMulInteger", *inputs)[0])


def test_dynamic_quantize_linear_nodes() -> None:
    cases = ([0, 2, -3, -2.5, 1.34, 0.5], [-1.0, -2.1, -1.3, -2.5, -3.34, -4.0], [1, 2.1, 1.3, 2.5, 3.34, 4.0], [0, 0])
    for values in cases:
        x = np.array(values, "f4")
        got = fastgemm.dynamic_quantize_linear(x)
        if x.any():
            want = reference("DynamicQuantizeLinear", x, outputs=3)
            assert [np.array_equal(g, w) for g, w in zip(got, want, strict=False)] == [True] * 3
        assert np.all(np.abs((got.values.astype("f4") - got.zero_point) * got.scale - x) <= got.scale * 1.01)


def test_weights_by_channel() -> None:
    w = np.random.default_rng(0).standard_normal((50, 20)).astype("f4")
    for axis in (0, 1, -1):
        q = fastgemm.quantize_weights(w, axis)
        back = np.moveaxis(np.moveaxis(q.values, axis, -1) * q.scale, -1, axis)
        assert np.isclose(np.abs(back - w).max(), q.error)
        assert q.error <= q.scale.max() / 2 * 1.0001
    w[:, 3], w[:, 5] = 0, 1e-45
    with np.errstate(all="raise", under="ignore"):
        q = fastgemm.quantize_weights(w)
    assert not q.values[:, [3, 5]].any(), "nothing that float32 could scale"
    assert q.scale[[3, 5]].tolist() == [1, 1]
    assert fastgemm.quantize_weights(w[:0]).scale.tolist() == [1] * 20


@pytest.mark.parametrize("quantise", [fastgemm.quantize_weights, fastgemm.dynamic_quantize_linear])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, 1e300])
def test_numbers_without_a_range(quantise: Callable[[Any], Any], bad: float) -> None:
    """float64 that float32 does not hold is finite, and refused like the others."""
    with np.errstate(all="raise"), pytest.raises(ValueError, match="finite numbers, within the range of float32"):
        quantise([1.0, bad])


# ---- halves and mixed operands --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_halves_to_single(kind: Any) -> None:
    """Nothing is rounded to a half on the way."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(kind) for s in ((3, 20, 70), (70, 40)))
    want = a.astype("f8") @ b.astype("f8")
    limit = 70 * 2.0**-23 * (np.abs(a.astype("f8")) @ np.abs(b.astype("f8")))
    for got in (fastgemm.matmul(a, b, dtype=np.float32), fastgemm.matmul(a, b, out=np.zeros((3, 20, 40), "f4"))):
        assert got.dtype == np.float32
        assert np.all(np.abs(got - want) <= limit)
    half = fastgemm.matmul(a, b, dtype=kind)
    assert half.dtype == kind
    assert np.all(np.abs(half.astype("f8") - want) <= limit + float(ml_dtypes.finfo(kind).eps) * np.abs(want))


def test_native_bfloat16_accuracy() -> None:
    """Its documented difference: subnormal numbers count as zero."""
    kind = ml_dtypes.bfloat16
    a = np.full((4, 64), 1e-39, kind)
    b = np.full((64, 4), 1.0, kind)
    got = fastgemm.matmul(a, b)
    assert np.all(np.abs(got - 64e-39) <= 64 * 1.2e-38)
    rows = fastgemm.matmul(np.full((3, 600), 1e-39, kind), np.full((5, 600), 1.0, kind).T)
    assert np.all(np.abs(rows - 600e-39) <= 600 * 1.2e-38)
    special = np.array([[np.inf, 1.0], [np.nan, 1.0]], kind)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(fastgemm.matmul(special, b[:2]), special.astype("f4") @ b[:2].astype("f4"))


@pytest.mark.skipif(not kernels.has("bf16", "v4"), reason="the CPU's own products of bfloat16")
@pytest.mark.parametrize("out", ["bfloat16", "float32"])
def test_native_bfloat16_in_place(out: str) -> None:
    """Few rows by a matrix that is not copied: the bits of a copy in one block, infinities and all, and a bias."""
    kind = ml_dtypes.bfloat16
    mr, nr = registry.tiles(registry.dtype("bf16"), registry.isa("v4"))[0]
    rng = np.random.default_rng(0)
    sizes = [(1, 5, 1), (2, 3, 1), (3, 70, 63), (4, 64, 64), (8, 200, 129), (5, 530, 301), (6, 33, 2), (7, 32, 8)]
    for m, n, k in sizes:
        a, b = rng.standard_normal((m, k)).astype(kind), rng.standard_normal((k, n)).astype(kind)
        b[0, 0], b[-1, n // 2] = np.inf, np.nan
        got = []
        for config in (Config("bf16", "v4", mr, nr, nc=64, pack="none"), Config("bf16", "v4", mr, nr, pack="b")):
            with dispatch.forced(config), np.errstate(all="ignore"):
                got.append(fastgemm.matmul(a, b, dtype=out))
                if out == "bfloat16":
                    got.append(fastgemm.linear(a, b.T, rng.standard_normal(n).astype(kind) * 0 + 1, activation="relu"))
        half = len(got) // 2
        for mine, copied in zip(got[:half], got[half:], strict=True):
            assert np.array_equal(mine.view("u1"), copied.view("u1"))


@pytest.mark.parametrize(("real", "number"), [("f4", "c8"), ("f8", "c16")])
def test_real_with_complex(real: str, number: str) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (7, 9)).astype(real)
    b = (rng.integers(-4, 5, (9, 5)) + 1j * rng.integers(-4, 5, (9, 5))).astype(number)
    same(lambda f: f(a, b))
    same(lambda f: f(b.T, a.T))
    same(lambda f: f(a, b.copy("F")))
    same(lambda f: f(a.copy("F"), b[:, ::2]))
    # Stacks that broadcast, and outputs of any order.
    deep, stack = rng.integers(-4, 5, (3, 1, 7, 9)).astype(real), np.stack([b, 2 * b])
    same(lambda f: f(deep, stack))
    same(lambda f: f(stack.swapaxes(-1, -2), deep.swapaxes(-1, -2)))
    for order in "CF":
        same(lambda f, order=order: f(a, b, np.empty((7, 5), number, order)))
        same(lambda f, order=order: f(b.T, a.T, out=np.empty((5, 7), number, order)))
    same(lambda f: f(deep, stack, out=np.empty((3, 2, 5, 7), number).swapaxes(-1, -2)))
    same(lambda f: f(a, b, out=np.empty((7, 5), "c16")))
    same(lambda f: f(a[:, :5], b[:5], out=b[:7]))
    same(lambda f: f(a, b[:4]))
    same(lambda f: f(a, b, out=np.empty((7, 4), number)))
    infinite = np.full((9, 5), np.inf, number)
    assert not np.isnan(fastgemm.matmul(np.abs(a) + 1, infinite).real).any()
