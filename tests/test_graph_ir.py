"""Graphs: what the table of operations infers is what NumPy gives, and what means nothing is refused by name."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fastgemm.graph import Builder, Graph, GraphError, Node, Value, ops, reference
from fastgemm.problem import MAX_BYTES_K

FLOATS = ["float32", "float64", "float16", "bfloat16"]


def numbers(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    rng = np.random.default_rng(seed)
    if kind.kind in "iu":
        return rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True)
    return (rng.random(shape) + 0.25).astype(kind)


def one(op: str, *operands: np.ndarray, **attributes: Any) -> Graph:
    """A graph of one operation."""
    build = Builder()
    inputs = [build.input(f"x{at}", x.shape, x.dtype) for at, x in enumerate(operands)]
    build.output(build.apply(op, *inputs, **attributes), "y")
    return build.graph()


def samples(dtype: str) -> dict[str, tuple[list[np.ndarray], dict[str, Any]]]:
    """Operands and attributes for every row of the table."""
    x, y = numbers((3, 4, 5), dtype, 1), numbers((4, 5), dtype, 2)
    square, row = numbers((5, 6), dtype, 3), numbers((5,), dtype, 4)
    a, b = numbers((3, 4), "u1"), numbers((4, 2), "i1")
    scale, factor, bias = (numbers(shape, "f4", 1) for shape in ((), (2,), (1, 2)))
    special: dict[str, tuple[list[np.ndarray], dict[str, Any]]] = {
        "matmul": ([x, square], {}),
        "matmul_integer": ([a, b, np.uint8(3) + np.zeros((), "u1"), np.zeros((1,), "i1")], {}),
        "integer_linear": ([a, b, np.full(1, 3, "f4"), scale, factor, bias],
                           {"b_zero": 2, "activation": "relu", "terms": ("scale", "factor", "bias")}),
        "linear": ([x, square, numbers((6,), dtype), numbers((4, 6), dtype)],
                   {"terms": ("bias", "residual"), "activation": "relu"}),
        "qlinear": ([a, b, *(numbers((2,), "f4", at) for at in (1, 2))],
                    {"terms": ("scale", "bias"), "activation": "relu", "dtype": "int8", "y_scale": 700.0}),
        "where": ([np.arange(5) > 2, x, y], {}),
        "softmax": ([x], {"axis": 1}),
        "masked_softmax": ([x, row], {"scale": 0.5}),
        "layer_norm": ([x, row, row], {}),
        "sum": ([x], {"axes": (0, -1)}),
        "mean": ([x], {"axes": 1, "keepdims": True}),
        "max": ([x], {"axes": [2]}),
        "reshape": ([x], {"shape": (2, -1, 3)}),
        "transpose": ([x], {"perm": (2, 0, 1)}),
        "slice": ([x], {"starts": (0, -2, 1), "stops": (99, 4, 5), "steps": (2, 1, 3)}),
        "broadcast": ([y], {"shape": (2, 4, 5)}),
        "concat": ([x, x[:, 1:]], {"axis": 1}),
        "gather": ([x, np.array([[0, -1], [2, 1]])], {"axis": 1}),
        "cast": ([x], {"dtype": "float64"}),
        "quantize": ([x, row, numbers((5,), "i1")], {"axis": -1}),
        "dequantize": ([numbers((3, 5), "i1"), row[:1], np.ones((), "i1")], {}),
    }  # fmt: skip
    build = Builder()
    body = build.exp(build.input("x0", x.shape, dtype))
    build.output(body, "y")
    special["chain"] = ([x], {"body": build.graph(), "block": 1})
    for name, row_ in ops.OPS.items():
        special.setdefault(name, ([x, y][: row_.inputs[0]], {}))
    return special


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ops.OPS)
def test_inference_is_what_numpy_gives(name: str, dtype: str) -> None:
    """The interpreter asserts shape and type of every node."""
    operands, attributes = samples(dtype)[name]
    graph = one(name, *operands, **attributes)
    inputs = {f"x{at}": x for at, x in enumerate(operands)}
    got = reference.run(graph, inputs)["y"]
    assert got.shape == graph.value("y").shape
    wide = reference.run(graph, inputs, precise=True)["y"]
    if got.dtype.kind in "iub":
        return
    eps = float(ml_dtypes.finfo(got.dtype).eps)
    np.testing.assert_allclose(got.astype("f8"), wide, rtol=8 * eps, atol=8 * eps)


def test_meanings() -> None:
    x = np.array([[-7, 7], [-6, 5]], "i4")
    assert reference.run(one("div", x, np.full((2, 2), 2, "i4")), {"x0": x, "x1": np.full((2, 2), 2, "i4")})[
        "y"
    ].tolist() == [[-3, 3], [-3, 2]]
    x = np.array([0.5, 1.5, -9.0, np.inf, -np.inf, np.nan], "f4")
    graph = one("quantize", x, np.ones((), "f4"), np.array(3, "u1"))
    got = reference.run(graph, {"x0": x, "x1": np.ones((), "f4"), "x2": np.array(3, "u1")})["y"]
    assert got.tolist() == [3, 5, 0, 255, 0, 3]


REFUSED: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("matmul", [(2, 3), (4, 5)], {}, "3 columns meet 4 rows"),
    ("matmul", [(3,), (3, 5)], {}, "matrices and stacks"),
    ("add", [(2, 3), (4,)], {}, "do not broadcast"),
    ("relu", [(2,)], {"slope": 1}, "no attribute 'slope'"),
    ("reshape", [(2, 3)], {}, "'shape' is missing"),
    ("reshape", [(2, 3)], {"shape": (5,)}, "cannot make shape"),
    ("transpose", [(2, 3)], {"perm": (0, 0)}, "name one twice"),
    ("softmax", [(2, 3)], {"axis": 2}, "no axis 2 of 2"),
    ("add", [(2,)], {}, "takes 2 operands, not 1"),
    ("polish", [(2,)], {}, "no operation 'polish'"),
    ("layer_norm", [(2, 3), (2,)], {}, "its scale"),
    ("slice", [(2, 3)], {"starts": (0,), "stops": (1,)}, "name all of 2 axes"),
    ("cast", [(2,)], {"dtype": "complex64"}, "not complex64"),
    ("concat", [(2, 3), (2, 4)], {"axis": 0}, "differ in more than axis 0"),
    ("gather", [(2, 3), (1,)], {}, "named by whole numbers"),
    ("linear", [(2, 3), (3, 4)], {"terms": ("bias",)}, "name 1 operands"),
]


@pytest.mark.parametrize(("name", "shapes", "attributes", "why"), REFUSED)
def test_refusals(name: str, shapes: list[Any], attributes: dict[str, Any], why: str) -> None:
    with pytest.raises(GraphError, match=why) as caught:
        one(name, *(np.ones(shape, "f4") for shape in shapes), **attributes)
    assert f"({name})" in str(caught.value)


def test_types_must_agree() -> None:
    with pytest.raises(GraphError, match=r"node 'add_0' \(add\): operands are of types float32 and float64"):
        one("add", np.ones(2, "f4"), np.ones(2))
    with pytest.raises(GraphError, match="matmul_integer"):
        one("matmul", np.ones((2, 2), "i1"), np.ones((2, 2), "i1"))


def value(name: str, data: Any = None) -> Value:
    return Value(name, (2,), np.dtype("f4"), None if data is None else np.asarray(data, "f4"))


@pytest.mark.parametrize(
    ("nodes", "values", "outputs", "why"),
    [
        ([Node("relu", ("x",), ("y",))], [value("y")], ["y"], "there is no value 'x'"),
        ([Node("relu", ("z",), ("y",))], [value("x"), value("y")], ["y"], r"node 'y' \(relu\) reads 'z', which is n"),
        ([Node("relu", ("h",), ("y",), name="late"), Node("relu", ("x",), ("h",))], [*map(value, "xyh")], ["y"],
         r"node 'late' \(relu\) reads 'h', which is made by a later node"),
        ([Node("relu", ("x",), ("y",))] * 2, [*map(value, "xy")], ["y"], "which there is already"),
        ([Node("relu", ("x",), ("y",))], [value("x"), Value("y", (3,), np.dtype("f4"))], ["y"], "declared as"),
        ([], [*map(value, "xy")], ["y"], "no node makes output 'y'"),
        ([], [value("x", [1, 2])], ["x"], "input 'x' is a constant"),
        ([], [value("x")], ["x", "x"], "an output is named twice"),
        ([Node("relu", ("x",), ("y", "z"))], [*map(value, "xyz")], ["y"], "2 outputs"),
        ([Node("relu", ("c",), ("y",))], [value("x"), Value("c", (3,), np.dtype("f4"), np.ones(2, "f4")), value("y")],
         ["y"], "constant 'c' holds"),
    ],
)  # fmt: skip
def test_graphs_that_mean_nothing(nodes: list[Node], values: list[Value], outputs: list[str], why: str) -> None:
    with pytest.raises(GraphError, match=why):
        Graph(nodes, values, ["x"], outputs)


def test_layouts_are_not_for_inputs() -> None:
    """What a caller gives is read in C order: a layout would be read wrongly, and silently."""
    kind = np.dtype("f4")
    values = [Value("x", (2, 3), kind, layout=(1, 0)), Value("y", (2, 3), kind)]
    with pytest.raises(GraphError, match=r"input 'x' has layout \(1, 0\)"):
        Graph([Node("relu", ("x",), ("y",))], values, ["x"], ["y"])


@pytest.mark.parametrize(
    ("op", "weight", "known", "zeros"),
    [
        ("matmul", np.ones((8, 3), "f4"), False, 0),
        ("matmul_integer", np.ones((8, 3), "i1"), False, 0),
        ("matmul_integer", np.ones((2, 8, 3), "i1"), True, 0),
        ("matmul_integer", np.ones((8, 3), "i1"), True, 2),
        ("matmul_integer", np.ones((MAX_BYTES_K + 1, 1), "i1"), True, 0),
    ],
)
def test_what_cannot_be_packed(op: str, weight: np.ndarray, known: bool, zeros: int) -> None:
    """A weight that calls bring, stacks, weights whose zero point calls bring, sums longer than kernels have them."""
    build = Builder()
    x = build.input("x", (2, 4, weight.shape[-2]), "f4" if op == "matmul" else "u1")
    b = build.constant(weight, "w") if known else build.input("w", weight.shape, weight.dtype)
    terms = [build.input(f"z{at}", (), kind) for at, kind in enumerate(["u1", "i1"][:zeros])]
    build.output(build.apply(op, x, b, *terms, packed=True), "y")
    with pytest.raises(GraphError, match=rf"\({op}\): w: .* cannot be packed"):
        build.graph()


def test_a_graph_that_depends_on_itself() -> None:
    graph = one("relu", np.ones(2, "f4"))
    ring = [Node("add", ("x0", "b"), ("a",)), Node("relu", ("a",), ("b",)), Node("relu", ("b",), ("y",))]
    with pytest.raises(GraphError, match="depends on itself"):
        graph.changed(ring, [value("a"), value("b")])


def test_nodes_of_a_graph_have_all_their_attributes() -> None:
    """Whoever reads them needs no defaults of its own."""
    kind = np.dtype("f4")
    nodes = [Node("transpose", ("x",), ("t",)), Node("transpose", ("t",), ("u",), {"perm": [-1, 0]})]
    nodes.append(Node("softmax", ("u",), ("y",)))
    shapes = {"x": (2, 3), "t": (3, 2), "u": (2, 3), "y": (2, 3)}
    graph = Graph(nodes, [Value(name, shape, kind) for name, shape in shapes.items()], ["x"], ["y"])
    assert [node.attributes for node in graph.nodes] == [{"perm": (1, 0)}, {"perm": (1, 0)}, {"axis": -1}]
    assert graph.producer("t") is graph.nodes[0]
    assert graph.consumers("t") == graph.nodes[1:2]
    assert graph.changed(graph.nodes).nodes == graph.nodes


def test_changes_are_ordered_and_pruned() -> None:
    build = Builder("g")
    x = build.input("x", (2,), "float32")
    unused = build.exp(x)
    h = build.relu(x + 1.0)
    build.output(h * h, "y")
    graph = build.graph()
    assert unused.name not in graph.values
    assert [node.op for node in graph.changed(reversed(graph.nodes)).nodes] == ["add", "relu", "mul"]
    assert graph.only_consumer("x").op == "add"
    assert graph.producer("y").op == "mul"
    assert graph.fresh("y") == "y_0"


def test_builder_names_and_numbers() -> None:
    build = Builder()
    x = build.input("x", (2, 3), "float16")
    y = 1 - x / 2
    assert y.dtype == np.float16
    build.output(y, "y")
    build.output(x, "same")
    build.output((x.T @ (-x)).reshape(9), "z")
    graph = build.graph()
    assert graph.outputs == ("y", "same", "z")
    given = {"x": numbers((2, 3), "f2")}
    got = reference.run(graph, given)
    assert np.array_equal(got["same"], given["x"])
    assert np.array_equal(got["y"], 1 - given["x"] / 2)
    with pytest.raises(GraphError, match="already"):
        build.input("x", (1,), "f4")
    with pytest.raises(GraphError, match="no tensor of this builder"):
        Builder().relu(x)
    with pytest.raises(AttributeError, match="has no 'polish'"):
        build.polish(x)


def test_names_that_nobody_chose_give_way() -> None:
    build = Builder()
    x = build.input("x", (2, 3), "float32")
    first = build.relu(x)
    second = build.tanh(first + 2.0)
    build.output(second, "relu_0")
    build.output(first, "constant_0")
    late = build.input("tanh_0", (2, 3), "float32")
    build.output(build.neg(late), "neg_1")
    graph = build.graph()
    assert (first.name, second.name, late.name) == ("constant_0", "relu_0", "tanh_0")
    assert graph.outputs == ("relu_0", "constant_0", "neg_1")
    given = {"x": numbers((2, 3), "f4") - 1, "tanh_0": numbers((2, 3), "f4", 1)}
    got, low = reference.run(graph, given), np.maximum(given["x"], 0)
    np.testing.assert_array_equal(got["constant_0"], low)
    np.testing.assert_array_equal(got["relu_0"], np.tanh(low + 2))
    np.testing.assert_array_equal(got["neg_1"], -given["tanh_0"])


def test_names_that_somebody_chose_stay() -> None:
    build = Builder()
    x = build.input("x", (2,), "float32")
    named, constant, out = build.relu(x, name="h"), build.constant(np.ones(2, "f4"), "c"), build.neg(x)
    build.output(out)
    other = build.tanh(named + constant)
    for name in ("x", "h", "c", "neg_0"):
        with pytest.raises(GraphError, match=f"there is a value '{name}' already"):
            build.output(other, name)
        with pytest.raises(GraphError, match=f"there is a value '{name}' already"):
            build.input(name, (2,), "float32")
    build.output(named, "y")
    build.output(other, "h")
    assert build.graph().outputs == ("neg_0", "y", "h")


def test_numbers_that_the_type_does_not_hold() -> None:
    build = Builder()
    whole, few = build.input("x", (3,), "int32"), build.input("u", (3,), "uint8")
    assert (whole * 2.0).dtype == np.int32
    for write, why in (
        (lambda: whole * 0.5, r"node 'mul_1' \(mul\): 0\.5 is no int32"),
        (lambda: build.gather(whole, 1.5), "1.5 is no int32"),
        (lambda: whole + np.nan, "node 'add_0'"),
        (lambda: whole - np.inf, "node 'sub_0'"),
        (lambda: few + 300, "node 'add_0'.*300"),
        (lambda: build.input("f", (3,), "float32") + 10**400, "node 'add_0'"),
    ):
        with pytest.raises(GraphError, match=why):
            write()


def test_arrays_that_are_none() -> None:
    """Inputs and constants are refused as nodes are, by their names."""
    build = Builder()
    for write, why in (
        (lambda: build.input("x", (2, -3), "float32"), "input 'x': sizes must not be negative"),
        (lambda: build.input("x", 3, "float32"), "input 'x': shape must be whole numbers"),
        (lambda: build.input("x", (2,), "complex64"), "input 'x': a graph computes with .*, not complex64"),
        (lambda: build.input("x", (2,), "float31"), "input 'x': .*float31"),
        (lambda: build.constant([[1.0], [1.0, 2.0]], "c"), "constant 'c': "),
        (lambda: build.constant(np.ones(2, "c8")), "constant 'constant_0': a graph computes with .*, not complex64"),
        (lambda: build.input("y", (2,), "float32") + "two", r"node 'add_0' \(add\): constant 'constant_0': .*<U3"),
    ):
        with pytest.raises(GraphError, match=why):
            write()


def test_constants_are_as_kernels_read_them() -> None:
    plain = np.arange(4, dtype="f4")
    assert Value("c", (4,), plain.dtype, plain).data is plain
    for data in (np.frombuffer(b"x" + plain.tobytes(), "f4", offset=1), plain.astype(">f4"), plain.astype("<f4")):
        made = Value("c", (4,), data.dtype, data)
        assert made.data is not None
        assert made.data.flags.aligned
        assert made.dtype == made.data.dtype == plain.dtype
        assert np.array_equal(made.data, plain)
        assert Builder().constant(data).dtype == plain.dtype


def test_inputs_are_checked() -> None:
    graph = one("relu", np.ones(2, "f4"))
    for inputs, why in (({}, "'x0' is missing"), ({"q": 1}, "no input 'q'"), ({"x0": np.ones(2)}, "is float64")):
        with pytest.raises(GraphError, match=why):
            reference.run(graph, inputs)
