"""Compiled graphs at the edge of what kernels take: strides, many arrays, types and scales that they refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from graph_samples import inputs_of, numbers
from oracle import dtype_of

from fastgemm import epilogues, kernels
from fastgemm import graph as fg
from fastgemm.chain import SLOTS
from fastgemm.graph import Builder, GraphError, Tensor, passes, reference
from fastgemm.problem import MAX_BYTES_K

kernels_run = pytest.mark.skipif(kernels.active_isa() is None, reason="no kernels run on this CPU")


def compiled(build: Builder, bound: float = 1e-5, fusion: str = "full") -> fg.CompiledGraph:
    """Compile what was built, and compare what it gives with the reference."""
    graph = build.graph()
    made = fg.compile(graph, fusion=fusion)
    inputs = inputs_of(graph)
    want, got = reference.run(graph, inputs), made.run(inputs)
    for name, array in want.items():
        np.testing.assert_allclose(got[name].astype("f8"), array.astype("f8"), rtol=bound, atol=bound)
    return made


@kernels_run
@pytest.mark.parametrize("single", [True, False])
def test_turned_results_are_finished_by_kernels(single: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A product whose result is stored as its reader wants it: NumPy's gelu would take twelve times as long."""
    build = Builder()
    x = build.input("x", (3, 4, 6, 5), "float32")
    weight = build.constant(numbers((5, 8), "f4")) if single else build.input("w", (3, 4, 5, 8), "float32")
    made = build.apply("gelu", x @ weight)
    build.output(made.transpose(0, 2, 1, 3).reshape(3, 6, 32), "y")
    graph = build.graph()
    ready = fg.compile(graph, fusion="fine")
    assert [value.layout for value in ready.graph.values.values() if value.layout] == [(0, 2, 1, 3)]
    inputs = inputs_of(graph)
    want = reference.run(graph, inputs)["y"]

    def refuse(name: str) -> Any:
        raise AssertionError(f"{name} by NumPy")

    monkeypatch.setattr(epilogues, "meaning", refuse)
    np.testing.assert_allclose(ready.run(inputs)["y"], want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_an_activation_of_halves_before_an_operation_on_rows(dtype: str) -> None:
    """Between members of a chain the sums of halves stay float32, and the activation follows those."""
    build = Builder()
    x = build.input("x", (6, 5), dtype)
    weight, bias = (numbers(shape, "f4").astype(dtype_of(dtype)) for shape in ((5, 8), (8,)))
    build.output(build.layer_norm(build.relu(x @ weight + bias), epsilon=0.5), "y")
    compiled(build, 2e-2)


@pytest.mark.parametrize("known", [True, False])
def test_more_arrays_than_a_chain_takes(known: bool) -> None:
    build = Builder()
    h = build.input("x", (64, 8), "float32")
    for at in range(SLOTS + 6):
        weight, bias = numbers((8, 8), "f4", at) / np.float32(3), numbers((8,), "f4", at)
        h = build.relu(h @ weight + (bias if known else build.input(f"b{at}", (8,), "float32")))
    build.output(h, "y")
    made = compiled(build, 1e-3)
    assert 1 <= len(made.graph.nodes) <= 3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_sums_of_halves_that_stay_float32(dtype: str, known: bool, bias: bool) -> None:
    build = Builder()
    x = build.input("x", (6, 5), dtype)
    weight = build.constant(numbers((5, 7), dtype)) if known else build.input("w", (5, 7), dtype)
    made = build.apply("matmul", x, weight, dtype="float32")
    build.output(build.relu(made + numbers((7,), "f4") if bias else made), "y")
    assert compiled(build).graph.values["y"].dtype == np.float32


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool"])
def test_products_of_whole_numbers_by_a_constant(dtype: str) -> None:
    build = Builder()
    x = build.input("x", (6, 5), dtype)
    weight = numbers((5, 7), "f8").astype(dtype)
    if dtype == "uint8":
        build.output(build.apply("matmul_integer", x, build.constant(weight)), "y")
    else:
        build.output(x @ weight, "y")
    compiled(build)


def bytes_layer(build: Builder, x: Tensor, n: int) -> Tensor:
    """Return a product of bytes with a constant weight, and a relu."""
    k = x.shape[-1]
    weight = build.constant(np.random.default_rng(k).integers(-100, 100, (k, n)).astype("i1"))
    left = build.dequantize(x, np.float32(0.1), np.uint8(3))
    return build.relu(left @ build.dequantize(weight, np.float32(0.02), np.int8(0)))


@pytest.mark.parametrize("perm", [(1, 0, 2), (0, 2, 1), (2, 1, 0)])
@pytest.mark.parametrize("again", [True, False])
def test_bytes_turned(perm: tuple[int, ...], again: bool) -> None:
    build = Builder()
    made = bytes_layer(build, build.input("x", (4, 6, 32), "uint8"), 24)
    if again:
        made = build.quantize(made, np.float32(0.7), np.uint8(9))
    build.output(made.transpose(*perm), "y")
    assert "qlinear" in [node.op for node in compiled(build, 1e-4).graph.nodes]


def test_bytes_of_many_columns() -> None:
    """Too many for one block of k."""
    build = Builder()
    build.output(bytes_layer(build, build.input("x", (2, MAX_BYTES_K + 8), "uint8"), 3), "y")
    made = compiled(build, 1e-4)
    if kernels.active_isa() is not None:
        assert f"by NumPy: bytes are multiplied up to {MAX_BYTES_K} columns" in made.explain()


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_scales_that_are_none(scale: float) -> None:
    build = Builder()
    build.output(build.quantize(build.input("x", (4, 14), "float32"), np.float32(scale), np.uint8(3)), "y")
    with pytest.raises(GraphError, match=r"'y'.*its scale must be finite and above zero"):
        build.graph()
    # A channel of zeros may well have been given the scale zero.
    for columns in (1, 14):
        build = Builder()
        scales = np.full(columns, scale, "f4")
        real = build.dequantize(build.input("x", (4, 14), "uint8"), scales, np.zeros(columns, "u1"), axis=-1)
        build.output(real, "y")
        compiled(build)


def test_products_of_bytes_whose_scales_overflow() -> None:
    build = Builder()
    x = build.dequantize(build.input("x", (4, 8), "uint8"), np.float32(1e30), np.uint8(0))
    weight = build.dequantize(build.constant(np.ones((8, 3), "i1")), np.float32(1e30), np.int8(0))
    build.output(build.quantize(x @ weight, np.float32(1e-30), np.uint8(0)), "y")
    compiled(build)


def test_layer_norm_with_more_axes_than_its_input() -> None:
    """A constant of three axes makes the result of a matrix one of three axes: that is no layer norm."""
    build = Builder()
    x = build.input("x", (4, 8), "float32")
    centred = x - build.apply("mean", x, axes=-1, keepdims=True)
    variance = build.apply("mean", centred * centred, axes=-1, keepdims=True)
    build.output(centred / build.sqrt(variance + np.full((1, 1, 1), 1e-5, "f4")), "y")
    norm = build.apply("layer_norm", x)
    build.output(norm * numbers((1, 1, 8), "f4"), "z")
    compiled(build)


@kernels_run
def test_rows_at_uneven_distances() -> None:
    """Kernels count two leading axes, NumPy's strides say three here: compiling finds out, and the report says so."""
    build = Builder()
    x = build.input("x", (3, 4, 2, 5, 16), "float32")
    made = build.relu(x.transpose(0, 2, 1, 3, 4) @ build.input("w", (16, 16), "float32"))
    build.output(build.softmax(made @ numbers((16, 8), "f4")), "y")
    made = compiled(build, 1e-4)
    assert "in output y [by NumPy: 3 leading axes" in made.explain()
    assert "chain" in [node.op for node in made.graph.nodes]


def with_a_given_bias() -> Builder:
    """Two layers of bfloat16 whose bias is an input: chains add float32's."""
    build = Builder()
    h = build.input("x", (30, 16), "bfloat16")
    weight, bias = numbers((16, 16), "f8") / 9, build.input("b", (16,), "bfloat16")
    weight = weight.astype(dtype_of("bfloat16"))
    for _ in range(2):
        h = build.relu(h @ weight + bias)
    build.output(h, "y")
    return build


def test_what_chains_refuse_runs_member_after_member() -> None:
    """A bias of bfloat16 that the caller gives."""
    build = with_a_given_bias()
    made = compiled(build, 0.05)
    assert [node.op for node in made.graph.nodes] == ["linear", "linear"]


@kernels_run
def test_a_chain_says_that_it_runs_one_by_one() -> None:
    """As a graph that another build's passes made may need."""
    build = with_a_given_bias()
    graph = passes.apply(build.graph(), "fine")
    body = fg.Graph(graph.nodes, graph.values, graph.inputs, graph.outputs)
    values = [graph.values[name] for name in ("x", "b", "y")]
    chain = fg.Node("chain", ("x", "b"), ("y",), {"body": body, "block": 30})
    made = fg.compile(fg.Graph([chain], values, ["x", "b"], ["y"]), fusion="none")
    assert "one member after another: b is bfloat16" in made.explain()
    inputs = inputs_of(graph)
    np.testing.assert_array_equal(made.run(inputs)["y"], fg.compile(graph, fusion="none").run(inputs)["y"])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_quantised_nan(dtype: str, kind: type) -> None:
    """It is the zero point, as its meaning says, in one row and in many."""
    for shape in ((8,), (2, 8), (3, 70)):
        build = Builder()
        build.output(build.quantize(build.input("x", shape, dtype), np.array(0.1, dtype), kind(7)), "y")
        x = np.full(shape, np.nan, dtype)
        x.flat[3] = 1
        want = np.full(shape, 7, kind)
        want.flat[3] = 17
        np.testing.assert_array_equal(fg.compile(build.graph())(x=x), want)


def lying_anyhow() -> dict[str, np.ndarray]:
    """Return 24 numbers as callers have them: columns, backwards, fields of records, parts of files."""
    plain = numbers((24,), "f4", 3)
    records = np.zeros(24, [("kind", "u1"), ("number", "f4")])
    records["number"] = plain
    return {
        "column": np.stack([plain, plain], axis=1)[:, 0],
        "backwards": plain[::-1],
        "field": records["number"],
        "file": np.frombuffer(b"x" + plain.tobytes(), "f4", offset=1),
        "foreign": plain.astype(plain.dtype.newbyteorder("S")),
        "one": np.broadcast_to(np.float32(3), 24),
    }


@pytest.mark.parametrize("fusion", passes.FUSIONS)
@pytest.mark.parametrize("how", lying_anyhow())
def test_constants_that_lie_anyhow(how: str, fusion: str) -> None:
    """As a bias, what rows are normalised with, a table, a residual and a mask."""
    row = lying_anyhow()[how]
    build = Builder()
    x = build.input("x", (64, 16), "float32")
    h = build.relu(x @ numbers((16, 24), "f4", 1) + row)
    h = build.layer_norm(h @ numbers((24, 24), "f4", 2) / 5 + row.reshape(1, 24), row, row)
    build.output(build.softmax(h @ numbers((24, 24), "f4", 4) + row.reshape(1, 24)), "y")
    entries = build.gather(build.constant(row.reshape(4, 6)), build.input("at", (5,), "int64"))
    build.output(build.softmax(entries), "z")
    graph = build.graph()
    inputs = {"x": numbers((64, 16), "f4"), "at": np.array([3, 0, 1, -1, 2])}
    want, got = reference.run(graph, inputs), fg.compile(graph, fusion=fusion).run(inputs)
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("what", ["bias", "norm"])
@pytest.mark.parametrize("step", [1, 2])
def test_vectors_of_the_caller_with_gaps(step: int, what: str, dtype: str) -> None:
    """They run where their numbers lie side by side in a chain, else outside of one."""
    build = Builder()
    x, v = build.input("x", (64, 16), dtype), build.input("v", (32 * step,), dtype)
    row = build.slice(v, starts=(0,), stops=(32 * step,), steps=(step,))
    h = x @ numbers((16, 32), dtype, 1)
    h = build.relu(h + row) if what == "bias" else build.layer_norm(build.relu(h), row)
    build.output(h @ numbers((32, 8), dtype, 2), "y")
    made = compiled(build, 1e-4)
    if kernels.active_isa() is not None:
        assert ("chain" in [node.op for node in made.graph.nodes]) is (step == 1)


@pytest.mark.parametrize("fusion", passes.FUSIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int8"])
@pytest.mark.parametrize("how", ["gaps", "backwards", "repeated"])
def test_views_of_constants_that_lie_anyhow(how: str, dtype: str, fusion: str) -> None:
    """Where they are outputs nothing is computed of them: strides say all of it."""
    plain = numbers((4, 6), dtype, 1)
    known = {
        "gaps": np.repeat(plain, 2, axis=-1)[..., ::2],
        "backwards": plain[::-1, ::-1].copy()[::-1, ::-1],
        "repeated": np.broadcast_to(plain[:1], (4, 6)),
    }[how]
    build = Builder()
    constant = build.constant(known)
    build.output(constant.T, "turned")
    build.output(build.slice(constant, starts=(1, 0), stops=(4, 5), steps=(2, 3)), "some")
    build.output(build.input("x", (2,), "float32"), "x_again")
    graph = build.graph()
    inputs = {"x": np.ones(2, "f4")}
    for name, want in reference.run(graph, inputs).items():
        np.testing.assert_array_equal(fg.compile(graph, fusion=fusion).run(inputs)[name], want)


@pytest.mark.parametrize("fusion", passes.FUSIONS)
@pytest.mark.parametrize("perm", [(0, -1, 1), (-3, 2, -2), [0, -1, 1], None])
@pytest.mark.parametrize("what", ["product", "reshape", "dequantize", "twice"])
def test_axes_counted_from_the_end(what: str, perm: Any, fusion: str) -> None:
    """Every pass that reads the axes of a transpose reads the same ones."""
    build = Builder()
    x = build.input("x", (2, 4, 32), "int8" if what == "dequantize" else "float32")
    if what == "dequantize":
        x = build.dequantize(x, numbers((32,), "f4"))
    elif what == "product":
        x = build.relu(x @ numbers((32, 8), "f4"))
    turned = build.apply("transpose", x, perm=perm)
    if what == "twice":
        turned = build.apply("transpose", turned, perm=perm)
    build.output(turned.reshape(2, 2, -1, turned.shape[-1]) if what == "reshape" else turned, "y")
    compiled(build, fusion=fusion)


@pytest.mark.parametrize("fusion", passes.FUSIONS)
@pytest.mark.parametrize("op", ["relu", "dequantize"])
def test_scalars_turned(op: str, fusion: str) -> None:
    """Beside what needs a copy, so that layouts are tried."""
    build = Builder()
    x = build.input("x", (), "int8" if op == "dequantize" else "float32")
    made = build.dequantize(x, build.input("scale", (), "float32")) if op == "dequantize" else build.relu(x)
    build.output(made.T, "y")
    build.output(build.input("u", (2, 3), "float32").T, "z")
    compiled(build, fusion=fusion)


@pytest.mark.parametrize("swapped", [True, False])
@pytest.mark.parametrize("axes", [0, 2, 3])
@pytest.mark.parametrize("what", ["bytes", "floats"])
def test_a_maximum_with_zeros_of_more_axes(what: str, axes: int, swapped: bool) -> None:
    """It is no activation of the product: its result has the more axes too."""
    build = Builder()
    if what == "bytes":
        x, zero, scale = (build.input(*row) for row in (("x", (4, 8), "u1"), ("z", (), "u1"), ("s", (), "f4")))
        made = build.cast(build.matmul_integer(x, numbers((8, 3), "i1"), zero), dtype="f4") * scale
    else:
        made = build.input("x", (4, 8), "f4") @ numbers((8, 3), "f4")
    least = np.zeros((1,) * axes, "f4")
    build.output(build.maximum(*((least, made) if swapped else (made, least))), "y")
    ready = compiled(build)
    assert (ready.graph.nodes[-1].op == "maximum") is (axes > 2)


@pytest.mark.parametrize("fusion", passes.FUSIONS)
@pytest.mark.parametrize("kind", ["float32", "uint8"])
def test_bytes_that_are_to_be_stored_turned(kind: str, fusion: str) -> None:
    """A layout given by hand that no kernel of bytes writes: the product runs by its meaning."""
    build = Builder()
    x = build.dequantize(build.input("x", (4, 3, 8), "u1"), np.float32(0.1))
    made = x @ build.dequantize(numbers((8, 7), "i1"), np.float32(0.2)) + numbers((7,), "f4")
    made = build.dequantize(build.quantize(made, 0.5, np.uint8(9)), np.float32(0.5)) if kind == "uint8" else made
    build.output(build.minimum(made, 1.0), "y")
    graph = build.graph()
    turned = [replace(value, layout=(2, 0, 1)) for value in graph.values.values() if value.shape == (4, 3, 7)]
    graph = graph.changed(graph.nodes, [value for value in turned if value.name != "y"])
    inputs = inputs_of(graph)
    want = reference.run(graph, inputs)["y"]
    got = fg.compile(graph, fusion=fusion).run(inputs)["y"]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 if kind == "float32" else 0.5)


# What looks like something that a pass takes over, and is not: only the answers say whether it was left alone.


def columns_of(x: Tensor, count: int = 24, seed: int = 1) -> Tensor:
    """Return a product with a constant weight."""
    return x @ numbers((x.shape[-1], count), x.dtype, seed)


def a_constant_less_a_product(build: Builder) -> None:
    x = build.input("x", (8, 16), "float32")
    build.output(build.relu(numbers((24,), "f4") - columns_of(x)), "y")


def a_bias_of_more_axes(build: Builder) -> None:
    build.output(columns_of(build.input("x", (8, 16), "float32")) + numbers((1, 1, 24), "f4"), "y")


def siblings_with_other_limits(build: Builder) -> None:
    x = build.input("x", (8, 16), "float32")
    build.output(build.neg(build.clip(columns_of(x), p=0.0, q=1.0)), "y")
    build.output(build.neg(build.clip(columns_of(x, seed=2), p=-1.0, q=0.5)), "z")


def a_residual_of_turned_rows(build: Builder) -> None:
    x = build.input("x", (4, 6, 16), "float32")
    build.output(columns_of(x.transpose(1, 0, 2)) + build.input("r", (6, 4, 24), "float32"), "y")


def a_bias_and_a_residual_of_turned_rows(build: Builder) -> None:
    made = columns_of(build.input("x", (4, 6, 16), "float32").transpose(1, 0, 2))
    build.output(made + build.input("b", (24,), "float32") + build.input("r", (6, 4, 24), "float32"), "y")


def a_factor_of_more_axes(build: Builder) -> None:
    build.output(build.input("x", (8, 16), "float32") * np.full((1, 1, 1), 2.5, "f4"), "y")


def a_mask_of_more_rows(build: Builder) -> None:
    x, mask = build.input("x", (1, 16), "float32"), build.input("mask", (8, 1), "float32")
    build.output(build.softmax(x + mask), "y")


def another_zero_point(build: Builder) -> None:
    real = build.dequantize(build.input("x", (4, 16), "int8"), np.float32(0.1), np.int8(0))
    other = build.quantize(real, np.float32(0.1), np.int8(5))
    build.output(build.dequantize(other, np.float32(0.1), np.int8(0)), "y")


def a_view_that_others_read(build: Builder) -> None:
    view = build.relu(build.input("x", (4, 16), "float32")).reshape(8, 8)
    build.output(build.neg(view), "z")
    build.output(build.quantize(view, np.float32(0.05), np.int8(0)), "y")


def bytes_as_halves(build: Builder) -> None:
    x = build.dequantize(build.input("x", (4, 16), "int8"), np.float16(0.01), np.int8(0))
    weight = build.dequantize(build.constant(numbers((16, 6), "i1")), np.float16(0.01), np.int8(0))
    build.output(build.relu(x @ weight), "y")


def normalised(build: Builder, rows: int = 4, keepdims: bool = True) -> Tensor:
    """Return a layer norm written out."""
    x = build.input("x", (rows, 16), "float32")
    centred = x - build.mean(x, axes=(-1,), keepdims=keepdims)
    return centred / build.sqrt(build.mean(centred * centred, axes=(-1,), keepdims=True) + 1e-5)


def a_mean_along_the_other_axis(build: Builder) -> None:
    build.output(normalised(build, 16, keepdims=False), "y")


def a_shift_without_a_factor(build: Builder) -> None:
    build.output(normalised(build) + numbers((16,), "f4"), "y")


def two_factors(build: Builder) -> None:
    build.output(normalised(build) * numbers((16,), "f4") * numbers((16,), "f4", 1), "y")


def rows_that_meet_themselves(build: Builder) -> None:
    rows = build.softmax(columns_of(build.input("x", (32, 32), "float32"), 32))
    build.output(build.softmax(rows @ rows), "y")


LOOKS_LIKE = [
    a_constant_less_a_product, a_bias_of_more_axes, siblings_with_other_limits, a_residual_of_turned_rows,
    a_bias_and_a_residual_of_turned_rows, a_factor_of_more_axes, a_mask_of_more_rows, another_zero_point,
    a_view_that_others_read, bytes_as_halves, a_mean_along_the_other_axis, a_shift_without_a_factor, two_factors,
    rows_that_meet_themselves,
]  # fmt: skip


@pytest.mark.parametrize("make", LOOKS_LIKE, ids=lambda make: make.__name__)
def test_what_only_looks_like_a_pattern(make: Callable[[Builder], None]) -> None:
    build = Builder()
    make(build)
    for fusion in passes.FUSIONS:
        compiled(build, 1e-2, fusion)
