"""Attention by parts of the keys: softmax in parts, how keys are cut, and whole graphs against their reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from graph_samples import attention as attention_graph
from graph_samples import inputs_of
from hypothesis import given
from hypothesis import strategies as st
from oracle import dtype_of, normal

import fastgemm
from fastgemm import cpu, kernels, registry
from fastgemm import graph as fg
from fastgemm.chain import SCRATCH, Chain, Finish, Parts, Product, Ref, Rows
from fastgemm.graph import memory, passes, reference, rowwise
from fastgemm.graph.attention import LANES, attention, parts
from fastgemm.graph.ir import Graph, Node
from fastgemm.graph.passes.chains import KEYS_L2, Best, chained, choice_of

TIERS = [tier.name for tier in kernels.runnable()]
LOW = float(np.finfo("f4").min) / 2

pytestmark = pytest.mark.skipif(not TIERS, reason="no kernels run on this CPU")


@pytest.fixture(params=TIERS)
def tier(request: pytest.FixtureRequest, on_tier: Callable[[str], registry.Isa]) -> registry.Isa:
    """Every call of the process on one tier."""
    return on_tier(request.param)


def wholly(x: np.ndarray, v: np.ndarray, scale: float, mask: np.ndarray | float) -> np.ndarray:
    """Return the means of v by the softmax of x."""
    with np.errstate(all="ignore"):
        scores = x.astype("f8") * scale + mask
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True)) @ v.astype("f8")


def by_parts(
    x: np.ndarray, v: np.ndarray, cuts: list[int], scale: float, mask: np.ndarray | None
) -> np.ndarray:
    """Return the same by a chain whose columns come in parts that end at `cuts`, for a few rows at a time."""
    (rows, keys), width, block = x.shape, v.shape[1], min(5, len(x))
    made = np.full((rows, width), np.nan, "f4")
    x = x.copy()
    # Rows of 256 bytes of state, and what each part has of the shares of an item.
    state = Ref(SCRATCH, "float32", 64, (), 256, 4)
    shares = Ref(SCRATCH, v.dtype.name, 64 + 256 * block, (), 4 * keys, v.itemsize)
    scores = Ref(SCRATCH, "float32", 64 + (256 + 4 * keys) * block, (), 4 * keys, 4)
    out = Ref(2, "float32", 0, (block * made.strides[0],), *made.strides)
    members: list[Any] = []
    for first, end in zip([0, *cuts[:-1]], cuts, strict=True):
        some = end - first
        here = Ref(0, "float32", 4 * first, (block * x.strides[0],), *x.strides)
        members.append(Rows("cast", some, here, scores))
        masks = {}
        if mask is not None:
            masks = {"mask": Ref(3, "float32", 4 * first, (block * mask.strides[0],), *mask.strides)}
        before = Parts(state, out if first else None, width, end < keys)
        members.append(Rows("softmax", some, scores, shares, {"scale": scale}, masks, before))
        given_rows = Ref(1, v.dtype.name, first * v.strides[0], (), *v.strides)
        members.append(Product(width, some, shares, given_rows, out, more=first > 0))
    chain = Chain(members, (-(-rows // block),), rows, block, 64 + (256 + 8 * keys) * block)
    chain.run([x, v, made, *([] if mask is None else [mask])])
    return made


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("masked", [False, True])
def test_softmax_in_parts(tier: registry.Isa, masked: bool, dtype: str) -> None:
    """Of every length, as if all columns came at once; the largest number in the first part or a later one."""
    if dtype not in rowwise.row_types():
        pytest.skip(f"{tier.name} does not convert {dtype}")
    kind = dtype_of(dtype)
    for rows, keys, width, cuts in (
        (1, 1, 1, [1]), (7, 40, 3, [16, 32, 40]), (4, 130, 17, [1, 64, 65, 130]), (9, 200, 64, [64, 128, 200]),
        (6, 90, 33, [90]),
    ):  # fmt: skip
        x = normal((rows, keys), "f4", 1) * 4 + np.linspace(-9, 9, keys, dtype="f4") * np.float32(1 - 2 * (rows % 2))
        v = normal((keys, width), "f4", 2).astype(kind)
        mask = np.where(normal((rows, keys), "f4", 3) > 0.8, np.float32(-np.inf), normal((rows, keys), "f4", 4))
        mask[:, keys // 2] = 0
        for scale in (0.3, -0.3, 96**-0.5):
            got = by_parts(x, v, cuts, scale, mask if masked else None)
            want = wholly(x, v, scale, mask if masked else 0.0)
            error = 2e-6 if dtype == "float32" else float(ml_dtypes.finfo(kind).eps)
            assert np.abs(got - want).max() <= error * (1 + np.abs(v.astype("f8")).max()), (rows, keys, scale)


def test_parts_without_a_number(tier: registry.Isa) -> None:
    """Rows that are masked in some parts, in the first, in the last, in all; infinities and NaN."""
    keys, cuts = 96, [32, 64, 96]
    inf = np.float32(np.inf)
    x, v = normal((12, keys), "f4", 1), normal((keys, 20), "f4", 2)
    x[0, :32] = x[1, 32:64] = x[2, 64:] = x[3, :64] = x[4, 32:] = x[5] = -inf
    x[6, 3], x[7, 90], x[8, 40], x[9, 50] = np.nan, np.nan, inf, np.nan
    x[10, :32], x[11] = LOW, LOW
    for scale, mask in ((1.0, None), (0.5, np.zeros_like(x)), (-1.0, None)):
        given_x = -x if scale < 0 else x
        got, want = by_parts(given_x, v, cuts, scale, mask), wholly(given_x, v, scale, 0.0)
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)
        assert np.isnan(got[5:10]).all(), "nothing to take means of, or no number"
        assert np.isfinite(got[[0, 1, 2, 3, 4, 10, 11]]).all()


def test_parts_that_lie_far_from_zero(tier: registry.Isa) -> None:
    """What is subtracted changes from part to part: nothing, or a largest number below or above zero."""
    levels = np.float32([[a, b, c] for a in (-60, 0, 40) for b in (-60, 0, 40) for c in (-60, 0, 40)])
    x = normal((27, 96), "f4", 1) + np.repeat(levels, 32, axis=1)
    v = normal((96, 20), "f4", 2)
    mask = np.where(normal(x.shape, "f4", 3) > 0.5, np.float32(-np.inf), np.float32(0))
    for scale, masks in ((1.0, None), (1.0, mask), (-1.0, None)):
        got = by_parts(x * np.float32(scale), v, [32, 64, 96], scale, masks)
        np.testing.assert_allclose(got, wholly(x, v, 1.0, 0.0 if masks is None else masks), rtol=2e-5, atol=2e-5)


def test_shares_do_not_overflow(tier: registry.Isa) -> None:
    """Means are no larger than the largest value, however many keys there are."""
    x, v = np.zeros((5, 4096), "f4"), np.full((4096, 16), 3e38, "f4")
    got = by_parts(x, v, [512 * i for i in range(1, 9)], 1.0, None)
    np.testing.assert_allclose(got, v[:5], rtol=1e-5)


def test_what_parts_refuse() -> None:
    x = Ref(0, "float32", 0, (0,), 64, 4)
    state = Ref(SCRATCH, "float32", 0, (), 64, 4)
    softmax, cast = (Rows(name, 16, x, x) for name in ("softmax", "cast"))

    def chain(member: Any) -> Chain:
        return Chain([member], (1,), 4, 4, 64 * 4)

    chain(softmax._replace(parts=Parts(state, None, 16, True)))
    with pytest.raises(ValueError, match="cast in parts"):
        chain(cast._replace(parts=Parts(state, None, 16, True)))
    with pytest.raises(ValueError, match="leaves the"):
        chain(softmax._replace(parts=Parts(state._replace(offset=64), None, 16, True)))
    with pytest.raises(ValueError, match="adjacent"):
        chain(softmax._replace(parts=Parts(state._replace(column=8), None, 16, True)))
    with pytest.raises(ValueError, match="columns"):
        chain(softmax._replace(parts=Parts(state, x, 0, True)))
    double = softmax._replace(x=x._replace(dtype="float64", row=128, column=8))
    with pytest.raises(ValueError, match="float64 in parts"):
        chain(double._replace(out=double.x, parts=Parts(state, None, 16, True)))
    with pytest.raises(TypeError, match="float64"):
        chain(softmax._replace(parts=Parts(state._replace(dtype="float64", column=8), None, 16, True)))
    with pytest.raises(ValueError, match="alone"):
        chain(Product(16, 16, x, x, x, Finish("relu"), more=True))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int32", "bfloat16"])
def test_products_that_are_added(tier: registry.Isa, dtype: str) -> None:
    """To what is there, by kernels of every family: one row, few, many; one column; short and long sums."""
    made = {"int8": "int32", "bfloat16": "float32"}.get(dtype, dtype)
    row = registry.product_row(dtype, dtype, made)
    if row is None or not registry.supported(row, tier):
        pytest.skip(f"no kernels for {dtype}")
    for m, n, k in ((1, 70, 40), (5, 1, 33), (3, 4, 500), (40, 64, 512), (70, 130, 3), (2, 2, 2)):
        a, b = (np.round(normal(shape, "f4", 1) * 3).astype(dtype_of(dtype)) for shape in ((m, k), (k, n)))
        c = np.arange(m * n).reshape(m, n).astype(made)
        want = c + (a.astype("f8") @ b.astype("f8")).astype(made)
        refs = [Ref(slot, one.dtype.name, 0, (0,), *one.strides) for slot, one in enumerate((a, b, c))]
        Chain([Product(n, k, *refs, more=True)], (1,), m, m).run([a, b, c])
        np.testing.assert_array_equal(c, want)


@given(st.integers(1, 5000), st.integers(LANES, 2048))
def test_parts_are_all_keys(keys: int, some: int) -> None:
    found = parts(keys, some)
    assert [first for first, _ in found] == [sum(size for _, size in found[:at]) for at in range(len(found))]
    assert sum(size for _, size in found) == keys
    assert min(size for _, size in found) > 0
    assert all(size % LANES == 0 for _, size in found[:-1])
    assert max(size for _, size in found) <= max(LANES, 1.5 * some + LANES)


def run_of(graph: Graph) -> tuple[Graph, list[Node]]:
    """Return a graph after the passes before chains, and what could be one."""
    ready = passes.apply(graph, "fine")
    return ready, [node for node in ready.nodes if node.kind != "view"]


def cut(graph: Graph, keys: int = 32, block: int = 80) -> Graph:
    """Return a graph as one chain that meets so many keys at a time."""
    ready, run = run_of(graph)
    return chained(ready, [Best(run, block, keys, 0.0)])


def chosen(graph: Graph, block: int, l2: int) -> int:
    """Return how many keys blocks of so many queries would meet at a time."""
    ready, run = run_of(graph)
    return choice_of(ready, 1, l2).keys(run, block)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("length", [256, 300, 333])
def test_graphs_by_parts(tier: registry.Isa, length: int, dtype: str) -> None:
    if dtype not in rowwise.row_types():
        pytest.skip(f"{tier.name} does not convert {dtype}")
    graph = attention_graph(2, length, 3, 48, dtype)
    made = cut(graph)
    assert "keys=32" in fg.compile(made, fusion="none").explain()
    inputs = inputs_of(graph)
    inputs["mask"] = np.where(normal((2, 1, 1, length), "f4", 9) > 0.7, np.float32(-6e4), inputs["mask"])
    inputs["mask"] = inputs["mask"].astype(dtype_of(dtype))
    want = reference.run(graph, inputs, precise=True)["y"]
    error = {"float32": 2e-6, "bfloat16": 2e-2, "float16": 3e-3}[dtype]
    for threads in (1, 2):
        got = fg.compile(made, fusion="none", threads=threads).run(inputs)["y"].astype("f8")
        assert np.abs(got - want).max() <= error * np.abs(want).max()


def test_what_surrounds_scores() -> None:
    """A bias of columns and a residual, cut with the keys; a mask of rows; what comes after."""
    build = fg.Builder()
    x, keys, given_values = (build.input(name, (2, 300, 16), "float32") for name in "xkv")
    bias, beside = build.input("b", (300,), "float32"), build.input("r", (2, 300, 300), "float32")
    mask = build.input("m", (1, 300, 300), "float32")
    scores = x @ keys.transpose(0, 2, 1) + bias + beside
    means = build.softmax(scores * 0.3 + mask, axis=-1) @ given_values
    build.output(build.layer_norm(means, np.ones(16, "f4"), np.ones(16, "f4")), "y")
    graph = build.graph()
    made = cut(graph)
    assert [node.op for node in made.nodes if node.kind != "view"] == ["chain"]
    inputs = inputs_of(graph)
    want = reference.run(graph, inputs, precise=True)["y"]
    got = fg.compile(made, fusion="none").run(inputs)["y"]
    assert np.abs(got - want).max() < 3e-6 * np.abs(want).max()


def test_when_keys_are_cut() -> None:
    """Where scores of a block are too much for L2, of floats, and no bits have to be the same."""
    graph = attention_graph(1, 300, 2, 32)
    assert [chosen(graph, block, 1 << 16) for block in (300, 28, 27, 1)] == [32, 32, 0, 0]
    assert [chosen(graph, 300, size) for size in (1 << 17, 1 << 18, 1 << 19, 1 << 30)] == [64, 128, 0, 0]
    assert chosen(attention_graph(1, 64, 2, 32), 64, 1 << 14) == 0, "few keys"
    assert chosen(attention_graph(1, 300, 2, 32, "bfloat16"), 300, 1 << 16) == 32
    with fastgemm.deterministic():
        assert chosen(graph, 300, 1 << 16) == 0


def test_blocks_of_queries() -> None:
    """Scratch for scores of a part, not of all keys, limits the rows of an item; and what costs least is taken."""
    ready, run = run_of(attention_graph(1, 8192, 1, 64))
    choice = choice_of(ready, 1, 1 << 20)
    assert {128, 512} <= set(choice.blocks(run))
    best = choice.best(run)
    assert (len(best.nodes), best.keys) == (3, 512)
    assert 64 <= best.block <= 512
    ready, run = run_of(attention_graph(1, 300, 2, 32))
    assert choice_of(ready, 1, 1 << 20).best(run).keys == 0


def test_weights_are_not_cut() -> None:
    """Keys or values that are known are packed: they stay whole, as what has an activation does."""
    for known in range(2):
        build = fg.Builder()
        x = build.input("x", (300, 16), "float32")
        left, right = normal((16, 300), "f4", 1), normal((300, 16), "f4", 2)
        keys: Any = left if known == 0 else build.input("k", left.shape, "float32")
        given_values: Any = right if known == 1 else build.input("v", right.shape, "float32")
        build.output(build.softmax(x @ keys, axis=-1) @ given_values, "y")
        ready, run = run_of(build.graph())
        assert attention(run, ready.values) is None
        assert chosen(build.graph(), 300, 1 << 16) == 0


def test_parts_fetch_less() -> None:
    """The memory model: scores of a part stay where those of all keys do not."""
    graph, caches = attention_graph(1, 1024, 1, 32), (1 << 15, 1 << 18, 1 << 24)
    some, whole = (memory.traffic(cut(graph, keys, 128), caches).total for keys in (128, 0))
    assert some[1] < whole[1]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_halves_are_one_chain(dtype: str) -> None:
    """And what lies between is float32: scores that a half cannot hold are no infinities."""
    tier = kernels.active_isa()
    assert tier is not None
    if dtype not in rowwise.row_types():
        pytest.skip(f"{tier.name} does not convert {dtype}")
    graph = attention_graph(2, 40, 2, 64, dtype)
    compiled = fg.compile(graph, threads=1)
    assert [node.op for node in compiled.graph.nodes if node.kind != "view"] == ["chain"]
    inputs = inputs_of(graph)
    kind = dtype_of(dtype)
    inputs["q"], inputs["k"] = (np.full(inputs["q"].shape, 90, kind) for _ in range(2))
    inputs["mask"][...] = 0
    got = compiled.run(inputs)["y"].astype("f8")
    mean = inputs["v"].astype("f8").mean(1, keepdims=True)
    assert np.abs(got - mean).max() < 2e-2


def test_deterministic_attention_of_long_texts() -> None:
    """What would be cut here keeps its keys together, and bits do not follow from the threads."""
    length = 2 * cpu.caches().l2 // KEYS_L2 + 300
    graph = attention_graph(1, length, 1, 16)
    inputs = inputs_of(graph)
    assert chosen(graph, length, cpu.caches().l2) > 0
    with fastgemm.deterministic():
        found = [fg.compile(graph, threads=threads) for threads in (1, 2)]
        assert not any(node.attributes.get("keys") for one in found for node in one.graph.nodes)
        np.testing.assert_array_equal(*(one.run(inputs)["y"] for one in found))
