"""Layers of bytes whose scale a call brings: what the pass takes together, and what compiled code reads and refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastgemm import _linear, layer, pack
from fastgemm import graph as fg
from fastgemm.graph import Builder, Graph, reference
from fastgemm.graph.passes.late_scales import late_scales

RNG = np.random.default_rng(5)
WEIGHT = RNG.integers(-127, 128, (12, 6)).astype("i1")
COLUMNS = RNG.uniform(0.01, 0.02, 6).astype("f4")

pytestmark = pytest.mark.skipif(layer.epilogue_level() is None, reason="no kernels run on this CPU")


def layers(*factors: Any, bias: bool = True, kept: str = "") -> Graph:
    """One quantised input for a layer of each factor: one number, a number for each column, or None for no factor."""
    build = Builder()
    x = build.input("x", (3, 12), "float32")
    pair = build.dynamic_scale(x)
    scale, zero = (build.reshape(build.slice(pair, starts=(at,), stops=(at + 1,)), shape=()) for at in (0, 1))
    byte = build.cast(zero, dtype="uint8")
    q = build.quantize(x, scale, byte)
    for at, factor in enumerate(factors):
        both = scale if factor is None else scale * factor
        sums = build.matmul_integer(q, WEIGHT, byte)
        made = build.cast(sums, dtype="float32") * both
        build.output(made + COLUMNS if bias else made, f"y{at}")
        if kept == "sums":
            build.output(sums, "sums")
    if kept == "byte":
        build.output(byte, "byte")
    return build.graph()


def steps(graph: Graph) -> list[str]:
    return [node.op for node in fg.compile(graph).graph.nodes if node.kind != "view"]


def check(graph: Graph, x: np.ndarray) -> None:
    want, compiled = reference.run(graph, {"x": x}), fg.compile(graph)
    for source in (compiled.source, compiled.graph):
        for name, array in reference.run(source, {"x": x}).items():
            np.testing.assert_array_equal(array, want[name])
    # (Kernels add a bias to a product that they have not rounded.)
    for _ in range(2):
        for name, array in compiled.run({"x": x}).items():
            np.testing.assert_allclose(array, want[name], rtol=1e-6, atol=1e-6 if np.isfinite(x).all() else 0)


X = RNG.standard_normal((3, 12)).astype("f4")


@pytest.mark.parametrize("factor", [None, np.float32(0.25), COLUMNS, COLUMNS.reshape(1, 6)])
@pytest.mark.parametrize("bias", [False, True])
def test_factors(factor: Any, bias: bool) -> None:
    graph = layers(factor, bias=bias)
    assert steps(graph) == ["dynamic_scale", "quantize", "integer_linear"]
    for x in (X, -X, np.abs(X), 0 * X, X * np.float32(1e30)):
        check(graph, x)


def test_an_input_is_quantised_once_for_several_layers() -> None:
    graph = layers(COLUMNS, np.float32(3), None)
    assert steps(graph) == ["dynamic_scale", "quantize", *["integer_linear"] * 3]
    check(graph, X)


def test_what_others_read_stays() -> None:
    """The zero point as a byte, and sums: those are then no layer's own."""
    graph = layers(COLUMNS, kept="byte")
    assert sorted(steps(graph)) == ["cast", "dynamic_scale", "integer_linear", "quantize"]
    check(graph, X)
    graph = layers(COLUMNS, kept="sums")
    assert "integer_linear" not in steps(graph)
    check(graph, X)


def test_a_scale_for_each_column_that_a_call_brings_is_multiplied_before() -> None:
    build = Builder()
    q, zero = build.input("q", (3, 12), "uint8"), build.input("z", (), "uint8")
    scale = build.input("s", (6,), "float32")
    sums = build.cast(build.matmul_integer(q, WEIGHT, zero), dtype="float32")
    build.output(sums * (scale * COLUMNS), "y")
    graph = late_scales(build.graph())
    (node,) = (node for node in graph.nodes if node.op == "integer_linear")
    assert node.attributes["terms"] == ("scale",)
    given = {"q": RNG.integers(0, 256, (3, 12)).astype("u1"), "z": np.array(3, "u1"), "s": COLUMNS * 2}
    np.testing.assert_array_equal(fg.compile(graph)(given), reference.run(graph, given)["y"])


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("number", [0.0, 3.0, 3.75, -4.0, 255.0, 300.0])
def test_zero_points_that_were_cast(kind: str, number: float) -> None:
    """A float is cast as NumPy casts it, where it is none of the numbers of bytes too."""
    build = Builder()
    x, scale, zero = build.input("x", (3, 12), "float32"), np.float32(0.02), build.input("z", (1,), "float32")
    byte = build.cast(zero, dtype=kind)
    q = build.quantize(x, scale, byte)
    sums = build.cast(build.matmul_integer(q, WEIGHT, byte), dtype="float32")
    build.output(sums * build.input("s", (), "float32"), "y")
    graph, given = build.graph(), {"x": X, "z": np.array([number], "f4"), "s": np.array(0.5, "f4")}
    assert steps(graph) == ["quantize", "integer_linear"]
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(fg.compile(graph)(given), reference.run(graph, given)["y"])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_without_a_range(bad: float) -> None:
    x = X.copy()
    x[1, 2] = bad
    check(layers(COLUMNS), x)


def test_terms_are_checked() -> None:
    a, one = np.zeros((3, 12), "u1"), np.ones((), "f4")
    for kinds, terms, error in (
        (("u1", "f4"), ("bias",), "terms are scale"),
        (("u1", "f4", "f4"), ("scale",), "name 1 operands after the third, there are 2"),
        (("i1", "f4"), ("scale",), "zero point of a must be one uint8"),
        (("u1", "f8"), ("scale",), "the scale is float64"),
    ):
        build = Builder()
        x = build.input("x", a.shape, a.dtype)
        with pytest.raises(fg.GraphError, match=error):
            build.apply("integer_linear", x, WEIGHT, *(one.astype(kind) for kind in kinds), terms=terms)
    build = Builder()
    x = build.input("x", a.shape, a.dtype)
    with pytest.raises(fg.GraphError, match="a scale with a factor is one number"):
        build.apply("integer_linear", x, WEIGHT, np.uint8(0), COLUMNS, COLUMNS, terms=("scale", "factor"))
    floats = build.input("f", (3, 12), "float32")
    for zero, kind, error in (("f4", None, "makes int8"), ("i1", "u1", "not int8"), ("f8", "u1", "not float64")):
        with pytest.raises(fg.GraphError, match=error):
            build.quantize(floats, one, np.zeros(1, zero), dtype=kind)


def test_arrays_that_do_not_fit_are_refused() -> None:
    level, panels = layer.epilogue_level(), pack(WEIGHT).panels
    assert level is not None
    assert panels is not None
    a, c = np.zeros((3, 12), "u1"), np.empty((3, 6), "f4")
    zero, one, space = np.zeros(1, "f4"), np.ones(1, "f4"), np.empty(6, "f4")

    def run(a: np.ndarray, zero: Any, *terms: Any) -> None:
        _linear.late_into(level, a, panels, c, 0, None, 0.0, 0.0, zero, *terms)

    run(a, zero, one, COLUMNS, space)
    for bad in (
        (a, np.zeros(2, "f4"), one, None, None), (a, np.zeros(1, "f8"), one, None, None),
        (a, np.zeros(1, "i1"), one, None, None), (a, np.zeros(0, "f4"), one, None, None),
        (a, zero, COLUMNS[:5], None, None), (a, zero, COLUMNS, COLUMNS, space), (a, zero, one, COLUMNS[:5], space[:5]),
        (a, zero, one, COLUMNS, space[:1]), (a, zero, one, COLUMNS.astype("f8"), space),
        (a, zero, one, np.ones(1, "f4"), space), (a.astype("u2"), zero, one, None, None),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"zero point|terms|space|by way of"):
            run(*bad)
    frozen = space.copy()
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="space"):
        run(a, zero, one, COLUMNS, frozen)
    assert (frozen == space).all()
