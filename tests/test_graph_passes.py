"""Each pass alone: the graph means what it meant, and has the form that the pass is for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from graph_samples import attention, inputs_of, mlp, numbers

from fastgemm import graph as fg
from fastgemm import registry
from fastgemm.graph import Builder, Graph, passes, reference
from fastgemm.graph.passes.copies import count

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


def test_views_keep_what_the_caller_knows() -> None:
    build = Builder()
    x = build.input("x", (2, 3), "float32")
    build.output(x.reshape(2, 3), "same")
    build.output(x.T.T, "twice")
    after = applied("views", build.graph())
    assert after.outputs == ("same", "twice")


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


def test_divisions_that_stay() -> None:
    """One over them is no normal number."""
    for divisor in (0.0, np.inf, np.nan, 3e38, 1e-40):
        build = Builder()
        graph = finished(build, build.input("x", (3, 8), "float32") / np.float32(divisor))
        assert operations(applied("scales", graph)) == ["div"]


@pytest.mark.parametrize("row", registry.EPILOGUES, ids=lambda row: row.name)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_epilogues(row: registry.Epilogue, dtype: str) -> None:
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
