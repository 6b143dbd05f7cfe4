"""Each pass alone: the graph means what it meant, and has the form that the pass is for."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_samples import attention, has_rows, inputs_of, mlp, numbers
from oracle import dtype_of, normal

from fastgemm import activations, cpu, kernels, registry
from fastgemm import graph as fg
from fastgemm.graph import Builder, Graph, costs, passes, reference
from fastgemm.graph.kernel_runners import ChainOf
from fastgemm.graph.passes.chains import chains
from fastgemm.graph.passes.copies import count
from fastgemm.graph.passes.prologues import prologues

BY_NAME = {row.name: row.function for row in passes.PASSES}


def applied(name: str, graph: Graph, rtol: float = 0.0) -> Graph:
    """Run a pass and assert that the reference gives what it gave."""
    after = BY_NAME[name](graph)
    inputs = inputs_of(graph)
    want, got = reference.run(graph, inputs), reference.run(after, inputs)
    assert list(got) == list(want)
    for key, array in want.items():
        np.testing.assert_allclose(got[key], array, rtol=rtol, atol=rtol)
    return after


def operations(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def ending(shape: tuple[int, ...] = (6, 5), dtype: Any = "float32") -> tuple[Builder, fg.Tensor]:
    """Return a builder and a product in it, of a shape."""
    build = Builder()
    x = build.input("x", (*shape[:-1], 4), dtype)
    return build, x @ numbers((4, shape[-1]), dtype, 5)


def finished(build: Builder, tensor: fg.Tensor) -> Graph:
    build.output(tensor, "y")
    return build.graph()


def test_fold() -> None:
    build, product = ending()
    weights = build.constant(numbers((5,), "f4"))
    graph = finished(build, product + build.relu(weights * 2.0).reshape(1, 5))
    after = applied("fold", graph)
    assert operations(after) == ["matmul", "add"]
    assert sum(value.is_constant for value in after.values.values()) == 2
    build = Builder()
    build.output(build.broadcast(build.constant(np.ones((1, 4), "f4")), shape=(1000, 4)).reshape(4000), "y")
    assert operations(applied("fold", build.graph())) == ["broadcast", "reshape"], "it would grow a thousand times"


def test_what_grows_on_the_way_is_folded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product of two narrow matrices is large, and what is made of it is not."""
    build = Builder()
    left, right, more = (build.constant(numbers(shape, "f4")) for shape in ((64, 2), (2, 64), (64, 8)))
    wide = left @ right
    x = build.input("x", (4, 64), "float32")
    build.output(x @ (wide + numbers((64, 64), "f4", 1)), "y")
    build.output(x @ (wide @ more), "z")
    assert operations(applied("fold", build.graph(), 1e-4)) == ["matmul", "matmul"]
    with monkeypatch.context() as less:
        less.setattr(sys.modules["fastgemm.graph.passes.fold"], "MOST_PASSING", wide.value.nbytes - 1)
        assert operations(applied("fold", build.graph())) == operations(build.graph())
    build.output(x @ wide, "itself")
    assert operations(applied("fold", build.graph(), 1e-4)) == ["matmul"] * 4


def test_views_are_joined_and_dropped() -> None:
    build = Builder()
    x = build.input("x", (2, 3, 4), "float32")
    turned = build.identity(x.transpose(1, 0, 2)).transpose(1, 0, 2)
    shaped = turned.reshape(6, 4).reshape(3, 8).reshape(3, 8)
    build.output(build.relu(shaped), "y")
    build.output(build.identity(build.exp(turned)), "z")
    after = applied("views", build.graph())
    assert operations(after) == ["reshape", "relu", "exp"]
    assert after.outputs == ("y", "z")


def test_heads_folded_into_the_batch_are_one_transpose() -> None:
    """As PyTorch exports attention: strides can say the whole, not each of its steps."""
    build = Builder()
    x = build.exp(build.input("x", (6, 3, 48), "float32"))
    part = build.slice(x, starts=(0, 0, 16), stops=(6, 3, 32))
    build.output(build.softmax(part.reshape(6, 6, 8).transpose(1, 0, 2).reshape(3, 2, 6, 8)), "y")
    graph = build.graph()
    assert count(passes.copies(graph))[0] == 1
    after = applied("views", graph)
    assert operations(after) == ["exp", "slice", "reshape", "transpose", "softmax"]
    assert count(passes.copies(after))[0] == 0


def test_views_keep_what_the_caller_knows() -> None:
    build = Builder()
    x = build.input("x", (2, 3), "float32")
    build.output(x.reshape(2, 3), "same")
    build.output(x.T.T, "twice")
    after = applied("views", build.graph())
    assert after.outputs == ("same", "twice")


def test_many_identities_before_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are renamed in one walk, however many there are; a second one of a value stays."""
    build = Builder()
    x = build.input("x", (2, 3), "float32")
    for at in range(50):
        build.output(build.identity(build.identity(build.relu(x + float(at)))), f"y{at}")
    shared = build.tanh(x)
    build.output(build.identity(shared), "first")
    build.output(build.exp(shared), "read")
    build.output(build.identity(shared), "second")
    graph, made = build.graph(), []
    check = Graph._checked
    monkeypatch.setattr(Graph, "_checked", lambda self: made.append(self) or check(self))
    after = passes.views(graph)
    assert len(made) < 10
    monkeypatch.undo()
    assert operations(after) == ["add", "relu"] * 50 + ["tanh", "exp", "identity"]
    assert after.outputs == graph.outputs
    assert after.producer("read").inputs == after.producer("second").inputs == ("first",)
    applied("views", graph)


@pytest.mark.parametrize("division", [True, False])
@pytest.mark.parametrize("swapped", [True, False])
def test_scales_and_masks_go_into_the_softmax(division: bool, swapped: bool) -> None:
    build = Builder()
    x, mask = build.input("x", (2, 3, 8, 8), "float64"), build.input("mask", (2, 1, 1, 8), "float64")
    scaled = x / 3.0 if division else 0.25 * x
    graph = finished(build, build.softmax(mask + scaled if swapped else scaled + mask))
    after = applied("scales", graph, 1e-14)
    (node,) = after.nodes
    assert (node.op, node.inputs, node.attributes["scale"]) == (
        "masked_softmax",
        ("x", "mask"),
        1 / 3 if division else 0.25,
    )


def test_what_others_read_is_left() -> None:
    build = Builder()
    scaled = build.input("x", (3, 8), "float64") * 2.0
    build.output(build.softmax(scaled), "y")
    build.output(scaled, "z")
    assert operations(applied("scales", build.graph())) == ["scale", "softmax"]


@pytest.mark.parametrize("after", ["nothing", "softmax", "product"])
def test_divisions_that_stay(after: str) -> None:
    """One over them is no normal number."""
    for divisor in (0.0, np.inf, np.nan, 3e38, 1e-40):
        build = Builder()
        made = build.input("x", (3, 8), "float32") / np.float32(divisor)
        if after == "softmax":
            made = build.softmax(made)
        if after == "product":
            made = made @ numbers((8, 5), "f4")
        graph = finished(build, made)
        assert operations(applied("scales", graph)) == operations(graph)


def test_divisions_that_nobody_takes_over() -> None:
    """Those by powers of two have the bits of factors."""
    for divisor, op in ((41.0, "div"), (255.0, "div"), (-8.0, "scale"), (2.0**-20, "scale"), (2.0**125, "scale")):
        build = Builder()
        graph = finished(build, build.input("x", (3, 8), "float32") / np.float32(divisor))
        assert operations(applied("scales", graph)) == [op]


@pytest.mark.parametrize("where", ["alone", "product", "before a product"])
@pytest.mark.parametrize("end", ["cast", "floor"])
def test_whole_numbers_made_of_quotients(where: str, end: str) -> None:
    """41 * (1 / 41) is less than 1 in float32."""
    build = Builder()
    x = build.input("x", (1000, 1), "float32")
    one = build.constant(np.ones((1, 1), "f4"))
    found = {"alone": x / 41.0, "product": x @ one / 41.0, "before a product": (x / 41.0) @ one}[where]
    found = found.reshape(1000)
    build.output(build.floor(found) if end == "floor" else build.cast(build.abs(found), dtype="int32"), "y")
    graph = build.graph()
    inputs = {"x": np.arange(1000, dtype="f4")[:, None] * 41}
    for fusion in passes.FUSIONS:
        got = fg.compile(graph, fusion=fusion).run(inputs)["y"]
        np.testing.assert_array_equal(got, np.arange(1000), err_msg=fusion)


def test_a_quotient_of_a_product_is_no_step() -> None:
    """Where nothing is decided by its last bit: a softmax, and bytes, round anyway."""
    for end in ("nothing", "mask", "bytes"):
        build, product = ending()
        made = build.relu(product / 3.0) if end == "nothing" else product / 3.0
        if end == "mask":
            build.output(build.softmax(build.where(np.tri(6, 5) > 0, made, np.float32(-1e4))), "z")
        made = build.quantize(made, np.float32(0.1)) if end == "bytes" else made
        build.output(made, "y")
        after = passes.epilogues(passes.scales(build.graph()))
        assert after.nodes[0].op == "linear"
        assert after.nodes[0].attributes["activation"] == "scale"
        assert "div" not in operations(after)


# ---- factors of operands --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factors", "left"),
    [
        ((0.5, 1.0), ["matmul", "scale"]),
        ((2.0**-32, 2.0**32), ["matmul", "scale"]),
        ((1e-30, 1.0), ["scale", "matmul"]),
        ((1e15, 1.0), ["scale", "matmul"]),
        ((0.0, 1.0), ["scale", "matmul"]),
        ((np.inf, 1.0), ["scale", "matmul"]),
        ((np.nan, 1.0), ["scale", "matmul"]),
        ((1e-30, 0.5), ["scale", "matmul", "scale"]),
        ((2.0**-20, 2.0**-20), ["scale", "scale", "matmul"]),
    ],
)
def test_factors_that_move(factors: tuple[float, float], left: list[str]) -> None:
    """Those near one, all of them together too: sums could become infinite, or lose bits, by others."""
    build = Builder()
    x, y = build.input("x", (4, 8), "float32") * factors[0], build.input("w", (8, 4), "float32")
    graph = finished(build, x @ (y * factors[1] if factors[1] != 1 else y))
    with np.errstate(invalid="ignore"):
        assert operations(BY_NAME["scales"](graph)) == left


def test_results_that_are_finite_stay_finite() -> None:
    build = Builder()
    x = build.input("x", (4, 8), "float32")
    graph = finished(build, (x * np.float32(1e-30)) @ np.full((8, 8), 1e15, "f4"))
    inputs = {"x": np.full((4, 8), 1e25, "f4")}
    for fusion in passes.FUSIONS:
        np.testing.assert_allclose(fg.compile(graph, fusion=fusion).run(inputs)["y"], 8e10, rtol=1e-6)


@pytest.mark.parametrize("mask", [(), (1, 1, 1, 9), (2, 1, 1, 1), (2, 1, 9, 1)])
@pytest.mark.parametrize("how", ["queries", "keys", "both", "divided", "turned"])
def test_attention_of_float16_that_is_scaled_first(mask: tuple[int, ...], how: str) -> None:
    """As people guard against overflow: products of the queries as they are would be infinite."""
    if not has_rows("float16"):
        pytest.skip("no kernels for float16")
    build, small = Builder(), np.float16(1 / 8)
    q, k, v = (build.input(name, (2, 3, 9, 64), "float16") for name in "qkv")
    axis = -1
    if how == "turned":
        axis, scores = -2, k @ (q * small).T
    elif how == "both":
        scores = (q * np.float16(0.35)) @ (k * np.float16(0.35)).T
    else:
        scores = {"queries": lambda: (q * small) @ k.T, "keys": lambda: q @ (k * small).T,
                  "divided": lambda: (q / np.float16(9)) @ k.T}[how]()  # fmt: skip
    if mask:
        scores = scores + build.input("m", mask, "float16")
    shares = build.softmax(scores, axis=axis)
    build.output((shares.T if how == "turned" else shares) @ v, "y")
    graph = build.graph()
    inputs = {name: (numbers((2, 3, 9, 64), "float16", at) / 16 + 40).astype("f2") for at, name in enumerate("qkv")}
    if mask:
        inputs["m"] = np.zeros(mask, "f2")
    want = reference.run(graph, inputs)["y"]
    assert np.isfinite(want).all()
    for fusion in ("fine", "full"):
        got = fg.compile(graph, fusion=fusion, threads=1).run(inputs)["y"]
        assert np.abs(got.astype("f8") - want).max() < 0.2
    steps = [node.op for node in passes.apply(graph, "fine").nodes if node.kind != "view"]
    assert steps == ["linear", "masked_softmax" if mask else "softmax", "matmul"]


@pytest.mark.parametrize("row", activations.EPILOGUES, ids=lambda row: row.name)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_epilogues(row: activations.Epilogue, dtype: str) -> None:
    build, product = ending(dtype=dtype)
    made = product + numbers((5,), dtype) + build.input("r", (6, 5), dtype)
    numbers_of = {key: value / 2 for key, value in row.params}
    graph = finished(build, made if row.name == "none" else build.apply(row.name, made, **numbers_of))
    after = applied("epilogues", graph)
    (node,) = after.nodes
    assert node.op == "linear"
    assert node.attributes["terms"] == ("bias", "residual")
    assert node.attributes["activation"] == row.name
    inputs = inputs_of(graph)
    step = fg.compile(after, fusion="none").run(inputs)["y"]
    np.testing.assert_array_equal(step, fg.compile(graph, fusion="fine").run(inputs)["y"])


@pytest.mark.parametrize(
    ("what", "terms", "left"),
    [
        (lambda b, p: p - 1.5, ("bias",), 0),
        (lambda b, p: b.input("r", (1, 5), "float32") + p, ("bias",), 0),
        (lambda b, p: p + b.input("r", (6, 1), "float32"), ("residual",), 0),
        (lambda b, p: (p + b.input("r", (6, 5), "float32")) + np.ones(5, "f4"), ("residual",), 1),
        (lambda b, p: b.maximum(p, 0.0), (), 0),
        (lambda b, p: b.relu(b.relu(p)), (), 1),
        (lambda b, p: b.relu(p) + np.ones(5, "f4"), (), 1),
        (lambda b, p: b.scale(p, p=0.5), (), 0),
    ],
)
def test_what_a_product_takes_over(what: Any, terms: tuple[str, ...], left: int) -> None:
    build, product = ending()
    after = applied("epilogues", finished(build, what(build, product)))
    kept = [node for node in after.nodes if node.op != "reshape"]
    assert kept[0].op == "linear"
    assert kept[0].attributes["terms"] == terms
    assert len(kept) == 1 + left


def test_what_a_product_leaves() -> None:
    build, product = ending()
    build.output(product, "p")
    build.output(build.relu(product), "y")
    assert operations(applied("epilogues", build.graph())) == ["matmul", "relu"], "two read it"
    build, product = ending()
    graph = finished(build, product + build.input("r", (3, 6, 5), "float32"))
    assert operations(applied("epilogues", graph)) == ["matmul", "add"], "the sum is larger"
    build, product = ending()
    assert operations(applied("epilogues", finished(build, product + product))) == ["matmul", "add"]


def projections(build: Builder, dtype: Any, known: bool = True) -> list[fg.Tensor]:
    """Return queries, keys and values of one input, of different widths."""
    x = build.input("x", (2, 6, 16), dtype)
    found = []
    for at, width in enumerate((12, 12, 8)):
        weight = numbers((16, width), dtype, at) if known else build.input(f"w{at}", (16, width), dtype)
        found.append(x @ weight + numbers((width,), dtype, 9 + at))
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_siblings_are_one_product(dtype: str) -> None:
    build = Builder()
    kind = dtype_of(dtype)
    q, k, v = projections(build, kind)
    build.output(build.softmax(q @ k.transpose(0, 2, 1)) @ v, "y")
    graph = passes.epilogues(build.graph())
    after = applied("siblings", graph, 1e-6)
    assert operations(after).count("linear") == 1
    assert operations(after).count("slice") == 3
    ready = fg.compile(build.graph())
    assert count(ready.graph) == (0, 0)
    inputs = inputs_of(graph)
    alone = fg.compile(graph, fusion="none").run(inputs)["y"].astype("f8")
    np.testing.assert_allclose(
        ready.run(inputs)["y"].astype("f8"), alone, rtol=1e-4, atol={"bfloat16": 0.05, "float16": 0.02}.get(dtype, 1e-5)
    )


def test_products_that_are_no_siblings() -> None:
    for known, outputs in ((False, 0), (True, 1)):
        build = Builder()
        q, k, v = projections(build, "float32", known)
        if outputs:
            for tensor, name in ((q, "q"), (k, "k"), (v, "v")):
                build.output(tensor, name)
        build.output(build.relu(q) + build.tanh(k), "y")
        build.output(build.exp(v), "z")
        graph = passes.epilogues(build.graph())
        assert operations(applied("siblings", graph)) == operations(graph)
    build = Builder()
    x = build.input("x", (6, 16), "float32")
    for at, made in enumerate((build.relu(x @ numbers((16, 4), "f4")), build.tanh(x @ numbers((16, 4), "f4")))):
        build.output(made.reshape(24), f"y{at}")
    graph = passes.epilogues(build.graph())
    assert operations(applied("siblings", graph)) == operations(graph), "their activations differ"


def test_layouts_save_the_reorder_of_attention() -> None:
    graph = passes.apply(attention(2, 9, 3, 12), "none")
    assert count(graph)[0] == 1
    source = attention(2, 9, 3, 12)
    after = applied("layouts", source)
    assert count(passes.copies(after)) == (0, 0)
    (stored,) = [value.layout for value in after.values.values() if value.layout is not None]
    assert stored == (0, 2, 1, 3)
    inputs = inputs_of(source)
    np.testing.assert_array_equal(
        fg.compile(after, fusion="none").run(inputs)["y"], fg.compile(source, fusion="none").run(inputs)["y"]
    )


def test_an_output_is_stored_as_its_source_reads_it() -> None:
    """The shapes are the same, the order is not."""
    build = Builder()
    build.output(build.relu(build.input("x", (2, 1, 2), "float32")).transpose(2, 1, 0), "y")
    compiled = fg.compile(build.graph(), fusion="fine")
    assert count(compiled.graph) == (0, 0)
    x = np.arange(4, dtype="f4").reshape(2, 1, 2)
    assert compiled(x=x).tolist() == x.transpose(2, 1, 0).tolist()


def test_a_reorder_between_products_is_none() -> None:
    """What one product makes, the next reads turned over and in another shape."""
    build = Builder()
    x = build.input("x", (4, 6, 8), "float32")
    made = (x @ numbers((8, 10), "f4")).transpose(1, 0, 2).reshape(6, 40) @ numbers((40, 3), "f4")
    graph = finished(build, made)
    assert count(passes.copies(graph))[0] == 1
    assert count(passes.copies(applied("layouts", graph)))[0] == 0


def test_copies() -> None:
    build = Builder()
    x = build.input("x", (2, 3, 4), "float32")
    build.output(x.T, "turned")
    h = build.relu(x)
    build.output(h.reshape(24), "flat")
    build.output(h.transpose(1, 0, 2).reshape(6, 4), "woven")
    after = applied("copies", build.graph())
    assert operations(after).count("copy") == 2
    assert count(after) == (2, 192)
    assert operations(applied("copies", after)).count("copy") == 2, "nothing is left for a second time"


def test_transposes_sink_behind_products() -> None:
    build = Builder()
    x = build.input("x", (4, 6, 8), "float32").transpose(1, 0, 2)
    y = build.relu(x @ numbers((8, 10), "f4", 1) + np.ones(10, "f4")) @ numbers((10, 3), "f4", 2)
    build.output(build.exp(y.transpose(1, 0, 2)), "y")
    after = applied("sinking", BY_NAME["epilogues"](build.graph()), 1e-6)
    assert operations(after) == ["linear", "matmul", "exp"]
    build = Builder()
    x = build.input("x", (4, 6, 8), "float32")
    build.output(x.transpose(0, 2, 1) @ numbers((6, 3), "f4"), "columns move too")
    build.output(x.transpose(1, 0, 2) @ build.input("w", (6, 8, 3), "float32"), "a weight for each")
    assert operations(applied("sinking", build.graph())) == ["transpose", "matmul"] * 2


def test_weights_are_packed() -> None:
    build, product = ending((6, 5))
    graph = finished(build, product @ build.input("w", (5, 3), "float32"))
    after = applied("weights", graph)
    assert [node.attributes["packed"] for node in after.nodes] == [True, False]


def test_a_whole_layer_is_one_step() -> None:
    for fusion, steps in (("none", 9), ("fine", 3)):
        compiled = fg.compile(mlp((13, 32, 16, 8), 24), fusion=fusion)
        assert len(compiled._program.steps) == steps


def test_equal_bits_where_the_order_is_the_same() -> None:
    """Bias, residual and relu are added to finished sums: fused or not, in the same order."""
    for graph in (mlp((13, 64, 32, 8), 24), mlp((13, 64, 32, 8), 24, "float64"), mlp((300, 130, 40), 65)):
        inputs = inputs_of(graph)
        want = fg.compile(graph, fusion="none").run(inputs)["y"]
        np.testing.assert_array_equal(fg.compile(graph, fusion="fine").run(inputs)["y"], want)
    for graph in (mlp((13, 512, 256, 128), 32), mlp((479, 1024, 256, 1), 100)):
        inputs = inputs_of(graph)
        want = fg.compile(graph, fusion="fine", threads=1).run(inputs)["y"]
        for threads in (1, 2):
            np.testing.assert_array_equal(fg.compile(graph, threads=threads).run(inputs)["y"], want)
    graph = attention(2, 16, 2, 16, division=True)  # by 2 * sqrt(2), which rounds otherwise as a factor
    inputs = inputs_of(graph)
    np.testing.assert_allclose(
        fg.compile(graph, fusion="fine").run(inputs)["y"],
        fg.compile(graph, fusion="none").run(inputs)["y"],
        rtol=1e-5,
        atol=1e-6,
    )
    graph = attention(2, 16, 2, 32, division=True)  # by 4
    assert math.sqrt(16) == 4
    inputs = inputs_of(graph)
    np.testing.assert_array_equal(
        fg.compile(graph, fusion="fine").run(inputs)["y"], fg.compile(graph, fusion="none").run(inputs)["y"]
    )


def quantised_layers(bias: bool, activation: str, output: bool, zero: int = 2, kind: str = "u1") -> Graph:
    """Layers as a quantised model has them: bytes in, scales of the channels, bytes out."""
    build = Builder()
    x = build.input("x", (9, 32), kind)
    for at, (k, n) in enumerate(((32, 24), (24, 17))):
        x = build.dequantize(x, np.float32(0.12), np.array(zero, x.dtype))
        scales = (numbers((n,), "f4", at) ** 2 * 0.01 + 0.01).astype("f4")
        y = x @ build.dequantize(build.constant(numbers((k, n), "i1", at)), scales, np.zeros(n, "i1"), axis=1)
        y = y + numbers((n,), "f4", 7) if bias else y
        y = y if activation == "none" else build.apply(activation, y)
        if not at or output:
            x = build.quantize(y, np.float32(4.0), np.array(zero, kind))
    build.output(x if output else y, "y")
    return build.graph()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation", ["none", "relu", "tanh"])
@pytest.mark.parametrize("kind", ["u1", "i1"])
def test_products_of_bytes(bias: bool, activation: str, kind: str) -> None:
    for output in (False, True):
        graph = quantised_layers(bias, activation, output, kind=kind)
        ready = BY_NAME["epilogues"](graph)
        after = BY_NAME["quantised"](ready)
        assert operations(after) == ["qlinear", "qlinear"]
        assert [len(node.inputs) for node in after.nodes] == [4, 4], "the zero point of x is in the bias"
        inputs = inputs_of(graph)
        want = reference.run(graph, inputs)["y"].astype("f8")
        # What lies half way between two bytes may fall to either; then a layer later some numbers are off by a few.
        for got in (
            reference.run(after, inputs)["y"],
            *(fg.compile(graph, fusion=f).run(inputs)["y"] for f in passes.FUSIONS),
        ):
            error = np.abs(got.astype("f8") - want)
            assert np.mean(error > (0.5 if output else 1e-3)) < 0.02
            assert error.max() <= (1 if output else 0.5)


def test_products_that_stay_floats() -> None:
    build = Builder()
    x = build.dequantize(build.input("x", (4, 8), "u1"), np.float32(0.1))
    w = build.constant(numbers((8, 5), "i1"))
    rows = build.dequantize(w, np.full(8, 0.1, "f4"), axis=0)
    build.output(x @ rows, "scales along the sums")
    build.output(x @ build.input("r", (8, 5), "float32"), "floats")
    two = build.dequantize(w, np.float32(0.1), np.arange(5).astype("i1"))
    build.output(x @ two, "many zero points")
    assert "qlinear" not in operations(applied("quantised", build.graph()))


def test_zero_points_of_weights_and_weights_turned_over() -> None:
    build = Builder()
    x = build.dequantize(build.input("x", (4, 8), "u1"), np.float32(0.5), np.array(7, "u1"))
    w = build.constant(numbers((5, 8), "i1"))
    build.output(x @ build.dequantize(w, np.float32(0.25), np.array(3, "i1")).T, "moved")
    build.output(x @ build.dequantize(w, np.array([1, 2, 4, 8, 16], "f4"), axis=0).T, "channels")
    after = applied("quantised", build.graph())
    assert sorted(operations(after)) == ["qlinear", "qlinear"]
    assert {node.attributes["b_zero"] for node in after.nodes} == {0, 3}
    compiled = fg.compile(build.graph())
    inputs = inputs_of(compiled.source)
    for name, want in reference.run(compiled.source, inputs).items():
        np.testing.assert_array_equal(compiled.run(inputs)[name], want)


def quantised_attention(batch: int, length: int, heads: int, width: int) -> Graph:
    """Attention between bytes, as quantised models have it: every product reads bytes, the softmax floats."""
    build = Builder()
    size = width // heads
    q, k, v = (
        build.dequantize(build.input(name, (batch, length, width), "u1"), np.float32(0.05), np.array(zero, "u1"))
        .reshape(batch, length, heads, size)
        .transpose(0, 2, 1, 3)
        for name, zero in (("q", 128), ("k", 120), ("v", 131))
    )
    mask = build.input("mask", (batch, 1, 1, length), "float32")
    chances = build.softmax(q @ k.transpose(0, 1, 3, 2) / math.sqrt(size) + mask)
    chances = build.dequantize(build.quantize(chances, np.float32(1 / 255)), np.float32(1 / 255))
    made = (chances @ v).transpose(0, 2, 1, 3).reshape(batch, length, width)
    build.output(build.quantize(made, np.float32(0.05), np.array(128, "u1")), "y")
    return build.graph()


@pytest.mark.parametrize("size", [(2, 9, 3, 12), (1, 70, 2, 64)])
def test_attention_between_bytes(size: tuple[int, int, int, int]) -> None:
    graph = quantised_attention(*size)
    compiled = fg.compile(graph)
    assert [operations(step.node.attributes["body"]) for step in compiled._program.steps] == [
        ["qlinear", "masked_softmax", "quantize", "qlinear"]
    ]
    assert count(compiled.graph) == (0, 0)
    inputs = inputs_of(graph)
    want = reference.run(graph, inputs)["y"].astype("i4")
    for fusion in passes.FUSIONS:
        error = np.abs(fg.compile(graph, fusion=fusion).run(inputs)["y"].astype("i4") - want)
        assert error.max() <= 1
        assert np.mean(error) < 0.02


@pytest.fixture
def wide(on_tier: Callable[[str], registry.Isa]) -> registry.Isa:
    """The tier whose costs the tests below know."""
    if "v4" not in [tier.name for tier in kernels.runnable()]:
        pytest.skip("no v4 here")
    return on_tier("v4")


# ---- prologues ------------------------------------------------------------------------------------------------------


def gated(rows: int, columns: int, dtype: str = "float32") -> Graph:
    """Two products of one normalised input, whose activations differ."""
    build = Builder()
    x = build.input("x", (rows, columns), dtype_of(dtype))
    h = build.layer_norm(x, numbers((columns,), dtype, 1), numbers((columns,), dtype, 2))
    up, gate = (h @ numbers((columns, columns), dtype, seed) for seed in (3, 4))
    build.output(build.silu(gate) * up, "y")
    return build.graph()


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_copies_before_products_change_no_bit(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_rows(dtype):
        pytest.skip(f"no kernels for {dtype}")
    graph = gated(40, 24, dtype)
    inputs = inputs_of(graph)
    plain = fg.compile(graph, fusion="fine").run(inputs)["y"]
    monkeypatch.setattr(sys.modules[prologues.__module__], "_pays", lambda *_: True)
    made = fg.compile(graph, threads=1)
    norms = [one for body in bodies(made.graph) for one in body if one == "layer_norm"]
    assert len(norms) == (2 if kernels.active_isa() is not None else 0)
    if dtype not in registry.HALVES:
        np.testing.assert_array_equal(made.run(inputs)["y"], plain)
    want = reference.run(graph, inputs, precise=True)["y"]
    wrong = np.abs(made.run(inputs)["y"].astype("f8") - want).max()
    assert wrong < {"bfloat16": 0.03, "float16": 4e-3, "float64": 1e-13}.get(dtype, 1e-6) * np.abs(want).max()


@pytest.mark.usefixtures("wide")
def test_prologues_are_copied_where_that_costs_less() -> None:
    def copies(rows: int, columns: int, threads: int) -> int:
        return operations(prologues(passes.apply(gated(rows, columns), "fine"), threads)).count("layer_norm")

    assert copies(32, 128, threads=2) == 2
    assert copies(512, 256, threads=2) == 1
    assert copies(128, 128, threads=1) == 1


def test_prologues_that_others_read_stay() -> None:
    build = Builder()
    x = build.input("x", (32, 64), "float32")
    h = build.silu(x)
    build.output((h @ numbers((64, 64), "f4", 1)) @ numbers((64, 8), "f4", 2), "y")
    build.output(build.gelu(h @ numbers((64, 64), "f4", 3)) + h, "z")
    ready = passes.apply(build.graph(), "fine")
    assert operations(prologues(ready, 2)) == operations(ready)


def test_what_leads_to_bytes_goes_before_views() -> None:
    """The keys of attention are scaled where they lie, not on the way into another order: the same bits."""
    build = Builder()
    x = build.input("x", (6, 8), "float32") @ numbers((8, 16), "f4", 1)
    turned = (x + numbers((16,), "f4", 2)).reshape(6, 2, 8).transpose(1, 2, 0) * np.float32(0.3)
    build.output(build.quantize(turned, np.float32(0.05), np.array(7, "u1")), "y")
    graph = build.graph()
    compiled = fg.compile(graph)
    inside = [node.attributes["body"].nodes if node.op == "chain" else (node,) for node in compiled.graph.nodes]
    done = [node.op for nodes in inside for node in nodes]
    assert done[:3] == ["linear", "scale", "quantize"]
    inputs = inputs_of(graph)
    np.testing.assert_array_equal(compiled.run(inputs)["y"], fg.compile(graph, fusion="none").run(inputs)["y"])


# ---- chains ---------------------------------------------------------------------------------------------------------


def bodies(graph: Graph) -> list[list[str]]:
    return [operations(node.attributes["body"]) for node in graph.nodes if node.op == "chain"]


def test_layers_become_a_chain() -> None:
    ready = passes.apply(mlp((13, 64, 32, 8), 24), "fine")
    after = applied("chains", ready)
    assert bodies(after) == [["linear"] * 3]
    assert chains(ready, threads=2).nodes[0].attributes["block"] == 24, "a team costs more than it saves"
    many = passes.apply(mlp((13, 512, 256, 128), 64), "fine")
    assert chains(many, threads=2).nodes[0].attributes["block"] <= 32


def test_attention_becomes_a_chain() -> None:
    after = applied("chains", passes.apply(attention(2, 9, 3, 12), "fine"))
    assert bodies(after) == [["matmul", "masked_softmax", "matmul"]]


@pytest.mark.parametrize("shape", [(9, 9), (1, 1, 9, 9), (2, 1, 9, 9), (2, 3, 9, 9), (9,), (2, 3, 1, 9), (1, 9, 1)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_masks_of_any_shape(shape: tuple[int, ...], dtype: str) -> None:
    """A row for all, rows of their own, one for each batch or head; those that kernels do not take as well."""
    if not has_rows(dtype):
        pytest.skip(f"no kernels for {dtype}")
    build = Builder()
    kind = dtype_of(dtype)
    q, k, v = (build.input(name, (2, 3, 9, 8), kind) for name in "qkv")
    mask = np.where(np.random.default_rng(1).random(shape) < 0.4, -np.inf, 0.25).astype(kind)
    mask[..., 0] = 0
    chances = build.softmax(q @ k.transpose(0, 1, 3, 2) * 0.5 + build.input("m", shape, kind))
    build.output(chances @ v, "y")
    graph = build.graph()
    inputs = {**inputs_of(graph), "m": mask}
    want = reference.run(graph, inputs, precise=True)["y"]
    for fusion in passes.FUSIONS:
        got = fg.compile(graph, fusion=fusion, threads=1).run(inputs)["y"].astype("f8")
        assert np.abs(got - want).max() < {"float32": 1e-5, "float64": 1e-13}.get(dtype, 5e-2)
    chained = bodies(fg.compile(graph, threads=1).graph)
    assert chained == ([["matmul", "masked_softmax", "matmul"]] if shape[-1] == 9 else [])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("shape", [(2, 1, 24), (1, 40, 24), (2, 40, 24)])
def test_residuals_in_halves(shape: tuple[int, ...], dtype: str) -> None:
    """In a chain, one row of them for all rows of an item is converted once."""
    if not has_rows(dtype):
        pytest.skip(f"no kernels for {dtype}")
    build, kind = Builder(), dtype_of(dtype)
    x, beside = build.input("x", (2, 40, 16), kind), build.input("r", shape, kind)
    first, second = (build.constant(normal(size, "f4", 1).astype(kind)) for size in ((16, 24), (24, 8)))
    build.output((x @ first + beside) @ second, "y")
    graph = build.graph()
    compiled = fg.compile(graph, threads=1)
    assert bodies(compiled.graph) == [["linear", "matmul"]]
    inputs = inputs_of(graph)
    want = reference.run(graph, inputs, precise=True)["y"]
    assert np.abs(compiled.run(inputs)["y"].astype("f8") - want).max() < 2e-2 * np.abs(want).max()


@pytest.mark.usefixtures("wide")
def test_what_limits_a_chain() -> None:
    def of(sizes: tuple[int, ...], rows: int, **machine: int) -> list[tuple[int, int]]:
        """Lengths and blocks of the chains."""
        found = chains(passes.apply(mlp(sizes, rows), "fine"), **machine)
        chained = [node.attributes for node in found.nodes if node.op == "chain"]
        return [(len(one["body"].nodes), one["block"]) for one in chained]

    assert of((64, 64, 64), 512, threads=1) == [(2, 512)]
    assert of((479, 1024, 1024, 512, 256), 64, threads=2) == [(4, 32)], "an equal share of the rows for each"
    (length, block), *rest = of((512, 512, 512), 2048, threads=2)
    assert (length, rest) == (2, [])
    assert 32 <= block <= cpu.caches().l2 // (512 * 4), "what lies between fits L2"
    assert of((700, 800, 900), 1, threads=2) == [], "two threads share columns, not one row"
    assert of((700, 800, 900), 1, threads=1) == [(2, 1)]
    assert of((70, 80, 90), 1, threads=2) == [(2, 1)], "one thread does that"
    assert of((2048, 4096, 4096), 12, threads=4) == [], "three rows each would read all weights four times"


@pytest.mark.parametrize("products", [True, False])
def test_the_work_of_choosing_grows_with_the_graph(products: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are cut, and what chains leave is costed once: twice the nodes are at most twice the work."""
    if kernels.active_isa() is None:
        pytest.skip("no kernels run here")
    work = 0

    def counted(self: Any, found: Any) -> int:
        nonlocal work
        work += 1
        return touch(self, found)

    touch = fg.memory._Cache.touch
    monkeypatch.setattr(fg.memory._Cache, "touch", counted)
    monkeypatch.setattr(sys.modules["fastgemm.graph.passes.chains"], "MOST", 8)

    def of(count: int, width: int) -> int:
        """Work for so many nodes."""
        nonlocal work
        build = Builder()
        x = build.input("x", (3, width), "float32")
        weight = build.constant(numbers((width, width), "f4"))
        for _ in range(count // 2):
            x = build.layer_norm(x @ weight) if products else build.tanh(build.relu(x))
        build.output(x, "y")
        work = 0
        chained = bodies(chains(build.graph(), threads=2, l2=1 << 20))
        assert all(len(body) <= 8 for body in chained)
        return work

    for width in (16, 1024):
        assert 0 < of(64, width) <= 2 * of(32, width)


@pytest.mark.usefixtures("wide")
def test_costs_order_ways_as_the_clock_does() -> None:
    """Ways that were measured on a Zen 5 with two threads (bench/workload_chains.py), the fastest first."""

    def ways(graph: Graph, blocks: tuple[int, ...]) -> list[float]:
        ready = passes.apply(graph, "fine")
        known = costs.Costs(ready, 2, (48 << 10, 1 << 20, 32 << 20))
        run = [node for node in ready.nodes if node.kind != "view"]
        return [known.chained(run, block) if block else known.apart(run) for block in blocks]

    for found in (
        ways(mlp((13, 512, 256, 128), 64), (32, 8, 0)),
        ways(mlp((13, 512, 256, 128), 512), (128, 0, 171)),
        ways(mlp((479, 1024, 1024, 512, 256, 1), 32), (16, 0, 11)),
        ways(mlp((479, 1024, 1024, 512, 256, 1), 128), (64, 0, 43)),
        ways(attention(8, 128, 8, 96), (128, 64, 22)),
    ):
        assert found == sorted(found)


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("heads", [1, 12])
def test_attention_under_a_constant_mask_is_a_chain(heads: int) -> None:
    """The same as under one that is given: of all heads, or of each, as biases by distance are."""
    blocks = []
    for known in (False, True):
        build, shape = Builder(), (1, heads, 384, 384)
        q, k, v = (build.input(name, (1, 12, 384, 64), "float32") for name in "qkv")
        mask = build.constant(np.zeros(shape, "f4")) if known else build.input("mask", shape, "float32")
        build.output(build.softmax(q @ k.T / 8.0 + mask) @ v, "y")
        made = chains(passes.apply(build.graph(), "fine"), threads=2, l2=1 << 20)
        blocks.append([node.attributes["block"] for node in made.nodes if node.op == "chain"])
    assert len(blocks[0]) == 1
    assert blocks[0] == blocks[1]


def test_chains_end_where_others_read() -> None:
    build = Builder()
    x = build.input("x", (64, 16), "float32")
    h = build.relu(x @ numbers((16, 16), "f4", 1))
    build.output(build.relu(h @ numbers((16, 16), "f4", 2)) @ numbers((16, 8), "f4", 3), "y")
    build.output(h, "h")
    after = applied("chains", passes.apply(build.graph(), "fine"))
    assert bodies(after) == [["linear", "matmul"]]
    assert "linear" in operations(after)


@pytest.mark.parametrize("divisor", [3.0, 2**0.5, 1e-40])
@pytest.mark.parametrize("end", ["bytes", "floor", "nothing"])
def test_divisions_are_members_of_chains(end: str, divisor: float) -> None:
    """By one number, as a factor; where whole numbers are made of the quotients, or no chain is made, they stay."""
    build = Builder()
    x, divisor = build.input("x", (512, 1024), "uint8"), np.float32(divisor)
    made = build.dequantize(x, np.float32(0.02), np.uint8(128)) / divisor
    made = {"bytes": lambda: build.quantize(made, np.float32(0.01), np.uint8(128)),
            "floor": lambda: build.relu(build.floor(made)), "nothing": lambda: made * made}[end]()  # fmt: skip
    graph = finished(build, made)
    after = passes.chains(passes.apply(graph, "fine"))
    found = [op for body in bodies(after) for op in body]
    if end == "floor" or divisor < 1:
        assert "div" in operations(after)
        assert "scale" not in found
    elif end == "bytes":
        assert bodies(after) == [["dequantize", "scale", "quantize"]]
    given = {"x": (np.arange(512 * 1024) % 256).astype("u1").reshape(512, 1024)}
    got, want = (one["y"] for one in (fg.compile(graph).run(given), reference.run(graph, given)))
    # (A level of bytes, where the product with the reciprocal is another.)
    np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rtol=3e-7, atol=1 if end == "bytes" else 0)


def test_divisions_beside_chains_have_their_bits() -> None:
    build = Builder()
    x = build.input("x", (64, 16), "float32")
    build.output(build.relu(x @ numbers((16, 16), "f4", 1)) @ numbers((16, 8), "f4", 2), "y")
    build.output(build.input("z", (64, 16), "float32") / 41.0, "w")
    after = applied("chains", passes.apply(build.graph(), "fine"))
    assert bodies(after) == [["linear", "matmul"]]
    assert "div" in operations(after)


@pytest.mark.parametrize("what", ["alone", "rows", "product", "bytes"])
def test_constants_alone_are_no_chain(what: str) -> None:
    """What would grow too much to be folded: a chain has operands."""
    build = Builder()
    x = build.input("x", (64, 64), "float32")
    left, right = build.constant(numbers((64, 2), "f4")), build.constant(numbers((2, 64), "f4"))
    if what == "bytes":
        left, right = (build.dequantize(build.constant(numbers(side.shape, "i1")), np.float32(0.01)) for side in
                       (left, right))  # fmt: skip
    made = build.layer_norm(left @ right)
    if what == "alone":
        build.output(made, "z")
    build.output(build.softmax(made) @ x if what == "product" else x + made, "y")
    graph = build.graph()
    inputs, compiled = inputs_of(graph), fg.compile(graph)
    chain = {
        "alone": [], "product": [["matmul", "layer_norm", "softmax", "matmul"]],
        "rows": [["matmul", "layer_norm", "add"]], "bytes": [["qlinear", "layer_norm", "add"]],
    }  # fmt: skip
    assert bodies(compiled.graph) == chain[what]
    want, got = reference.run(graph, inputs), compiled.run(inputs)
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_a_block_of_an_encoder(dtype: str) -> None:
    """Norm, residual, gelu, and leading axes that are rows."""
    if not has_rows(dtype):
        pytest.skip(f"no kernels for {dtype}")
    build = Builder()
    x = build.input("x", (3, 20, 32), dtype_of(dtype))
    y = build.layer_norm(x, numbers((32,), dtype, 1), numbers((32,), dtype, 2))
    y = build.gelu(y @ (numbers((32, 64), "f8", 3) / 6).astype(dtype_of(dtype)) + numbers((64,), dtype, 4))
    y = y @ (numbers((64, 32), "f8", 5) / 8).astype(dtype_of(dtype)) + numbers((32,), dtype, 6) + x
    build.output(build.layer_norm(y, numbers((32,), dtype, 7)), "y")
    graph = build.graph()
    compiled = fg.compile(graph, threads=1)
    assert bodies(compiled.graph) == [["layer_norm", "linear", "linear", "layer_norm"]]
    inputs = inputs_of(graph)
    want = reference.run(graph, inputs, precise=True)["y"]
    bound = {"float32": 1e-5, "float64": 1e-13, "bfloat16": 6e-2, "float16": 1e-2}[dtype]
    for fusion in passes.FUSIONS:
        got = fg.compile(graph, fusion=fusion).run(inputs)["y"].astype("f8")
        assert np.abs(got - want).max() <= bound * np.abs(want).max()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_casts_belong_to_the_chain_of_their_product(dtype: str) -> None:
    if not has_rows(dtype):
        pytest.skip(f"no kernels for {dtype}")
    build = Builder()
    x = build.input("x", (20, 16), "float32")
    half = dtype_of(dtype)
    y = build.relu(build.cast(x, dtype=dtype) @ numbers((16, 24), half, 1))
    y = y @ numbers((24, 8), half, 2)
    build.output(build.cast(y, dtype="float32"), "y")
    few = build.input("b", (20, 16), "int8")
    floats = build.dequantize(few, np.float32(0.5), np.array(3, "i1")) @ numbers((16, 8), "f4", 3)
    build.output(build.relu(floats), "z")
    graph = build.graph()
    compiled = fg.compile(graph, threads=1)
    assert sorted(bodies(compiled.graph)) == [["cast", "linear", "matmul", "cast"], ["dequantize", "linear"]]
    inputs = inputs_of(graph)
    want, got = reference.run(graph, inputs, precise=True), compiled.run(inputs)
    assert all(isinstance(step.runner.bind, ChainOf) for step in compiled._program.steps)
    np.testing.assert_allclose(got["y"], want["y"], rtol=0.05, atol=0.4)
    np.testing.assert_allclose(got["z"], want["z"], rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("what", ["constant", "vector", "rows", "items", "turned", "column", "itself"])
def test_sums_are_members_of_chains(what: str, first: bool, dtype: str) -> None:
    """With a number for each column, or with rows like these, whichever term comes first."""
    if not has_rows(dtype):
        pytest.skip(f"no kernels for {dtype}")
    build, half = Builder(), dtype in ("bfloat16", "float16")
    x = build.input("x", (3, 20, 16), dtype_of(dtype))
    made = build.layer_norm(x @ numbers((16, 24), dtype, 1))
    term = {
        "constant": lambda: build.constant(numbers((24,), dtype, 3)),
        "vector": lambda: build.input("t", (24,), dtype_of(dtype)),
        "rows": lambda: build.input("t", (3, 20, 24), dtype_of(dtype)),
        "items": lambda: build.input("t", (20, 24), dtype_of(dtype)),
        "turned": lambda: build.input("t", (3, 24, 20), dtype_of(dtype)).transpose(0, 2, 1),
        "column": lambda: build.input("t", (3, 20, 1), dtype_of(dtype)),
        "itself": lambda: made,
    }[what]()
    total = term + made if first else made + term
    build.output(build.relu(total) @ (numbers((24, 8), "f8", 2) / 8).astype(dtype_of(dtype)), "y")
    graph = build.graph()
    compiled = fg.compile(graph, threads=1)
    takes = what in ("constant", "rows") or (what == "vector" and not half)
    assert (["matmul", "layer_norm", "add", "relu", "matmul"] in bodies(compiled.graph)) == takes
    inputs = inputs_of(graph)
    want = reference.run(graph, inputs, precise=True)["y"]
    bound = {"float32": 1e-5, "float64": 1e-13, "bfloat16": 6e-2, "float16": 1e-2}[dtype]
    for threads in (1, 2):
        got = fg.compile(graph, threads=threads).run(inputs)["y"].astype("f8")
        assert np.abs(got - want).max() <= bound * np.abs(want).max()


def test_chains_run_by_kernels() -> None:
    """Not by the way out that there is for CPUs without any."""
    if kernels.active_isa() is None:
        pytest.skip("no kernels run here")
    for graph in (mlp((13, 64, 32, 8), 24), mlp((13, 64, 32, 8), 24, "bfloat16"), attention(2, 9, 3, 12),
                  attention(2, 9, 3, 12, "bfloat16"), quantised_attention(2, 9, 3, 12),
                  quantised_layers(True, "relu", True), quantised_layers(True, "tanh", True)):  # fmt: skip
        compiled = fg.compile(graph)
        compiled.run(inputs_of(graph))
        (step,) = compiled._program.steps
        assert step.node.op == "chain"
        assert isinstance(step.runner.bind, ChainOf)


def test_without_kernels(child: Any) -> None:
    """The nodes of a chain run one by one."""
    assert child(WITHOUT_KERNELS).stdout.split() == ["True", "True"]


WITHOUT_KERNELS = """
import numpy as np
from fastgemm import kernels
kernels.active_isa = lambda: None
from graph_samples import attention, inputs_of, mlp
from fastgemm import graph as fg
for graph in (mlp((13, 64, 32, 8), 24), attention(2, 9, 3, 12)):
    inputs = inputs_of(graph)
    compiled = fg.compile(graph)
    want = fg.reference.run(graph, inputs)["y"]
    np.testing.assert_allclose(compiled.run(inputs)["y"], want, rtol=1e-4, atol=1e-5)
    print(all(node.op != "chain" for node in compiled.graph.nodes))
"""
