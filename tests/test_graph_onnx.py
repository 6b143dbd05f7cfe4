"""Graphs from ONNX files: every operator against ONNX's own cases, whole models against its reference evaluator."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from fastgemm import graph  # noqa: E402
from fastgemm.graph import GraphError, onnx_writer, passes, reference  # noqa: E402
from fastgemm.graph.from_onnx import TABLE  # noqa: E402

DATA = Path(__file__).parent / "data"
# What a refusal of one of ONNX's own cases may say.
REASONS = (
    "does not compute with",
    "scales of blocks",
    "makes int8 or uint8",
    "takes int8, uint8",
    "training mode",
    "operators of version 1 ",
    "largest of no numbers",
    "of bool",
)


def save(model: Any, path: Path) -> Path:
    """Write a model to a file."""
    path.write_bytes(model.SerializeToString())
    return path


def simple(nodes: list[Any], inputs: dict[str, tuple[int, Any]], constants: dict[str, Any], opset: int = 21) -> Any:
    """Make a model whose output is y."""
    made = helper.make_graph(
        nodes,
        "simple",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["any"])],
        [numpy_helper.from_array(np.asarray(data), name) for name, data in constants.items()],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


@pytest.fixture(scope="module")
def cases() -> dict[str, list[Any]]:
    """Collect ONNX's own node cases whose operators the import knows, by the operator of their first node."""
    from onnx.backend.test.case.node import collect_testcases

    found: dict[str, list[Any]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in collect_testcases(None):
            model = case.model
            if model is not None and all((node.domain, node.op_type) in TABLE for node in model.graph.node):
                found.setdefault(model.graph.node[0].op_type, []).append(case)
    return found


def arrays(values: list[Any]) -> list[np.ndarray] | None:
    """Return what a case holds as arrays; None where it is something else."""
    found = [numpy_helper.to_array(v) if isinstance(v, TensorProto) else v for v in values]
    if any(not isinstance(v, (np.ndarray, np.generic)) or np.asarray(v).dtype == object for v in found):
        return None
    return [np.asarray(v) for v in found]


def with_constants(model: Any, values: list[np.ndarray]) -> Iterator[Any]:
    """Yield a model as it is, with its later whole-number inputs known, and with every input known."""
    for chosen in (
        lambda at, value: False,
        lambda at, value: at > 0 and value.dtype == np.int64,
        lambda at, value: True,
    ):
        made = copy.deepcopy(model)
        for at, (info, value) in enumerate(zip(model.graph.input, values, strict=True)):
            if chosen(at, value):
                made.graph.initializer.append(numpy_helper.from_array(value, info.name))
        yield made


@pytest.mark.parametrize("op", sorted({op for domain, op in TABLE if not domain and op != "Not"}))  # of version 1
def test_cases_of_onnx(op: str, cases: dict[str, list[Any]], tmp_path: Path) -> None:
    right = 0
    for case in cases[op]:
        values, wanted = (arrays(side) for side in case.data_sets[0])
        if values is None or wanted is None:
            continue
        made, why = None, ""
        for model in with_constants(case.model, values):
            try:
                made = graph.from_onnx(save(model, tmp_path / "case.onnx"))
                break
            except GraphError as error:
                why = str(error)
        if made is None:
            assert any(reason in why for reason in REASONS), f"{case.name}: {why}"
            continue
        names = [info.name for info in case.model.graph.input]
        given = {name: value for name, value in zip(names, values, strict=True) if name in made.inputs}
        for got in (reference.run(made, given), graph.compile(made).run(given)):
            for name, want in zip(made.outputs, wanted, strict=True):
                assert (got[name].shape, got[name].dtype) == (want.shape, want.dtype), case.name
                close = 2e-3 if want.dtype.itemsize == 2 else 1e-5
                np.testing.assert_allclose(
                    got[name].astype("f8"), want.astype("f8"), rtol=close, atol=1e-6, err_msg=case.name
                )
        right += 1
    assert right


@pytest.mark.parametrize("name", ["mlp_small", "mlp_small_dynamo", "encoder_small", "encoder_small_dynamo"])
@pytest.mark.parametrize("batch", [1, 5])
def test_models_exported_by_pytorch(name: str, batch: int) -> None:
    """Files of bench/export_onnx.py; opset 14 writes layer norm and gelu out, the newer exporter names them."""
    path = DATA / f"{name}.onnx"
    made = graph.from_onnx(path, batch=batch)
    x = np.random.default_rng(0).standard_normal(made.values["x"].shape).astype("f4")
    (want,) = ReferenceEvaluator(str(path)).run(None, {"x": x})
    for run in (partial(reference.run, made), *(graph.compile(made, fusion=f).run for f in passes.FUSIONS)):
        (got,) = run({"x": x}).values()
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-6)


def test_a_perceptron_of_bytes(tmp_path: Path) -> None:
    """Quantised by a tool: QuantizeLinear, QLinearMatMul, DequantizeLinear, and the dynamic kind after it."""
    rng = np.random.default_rng(1)
    constants = {
        "xs": np.float32(0.05), "xz": np.uint8(120), "w": rng.integers(-127, 128, (12, 7)).astype("i1"),
        "ws": rng.uniform(0.01, 0.02, 7).astype("f4"), "wz": np.zeros(7, "i1"), "ys": np.float32(0.1),
        "yz": np.uint8(128), "v": rng.integers(0, 255, (7, 3)).astype("u1"), "vs": np.float32(0.02),
        "vz": np.uint8(127),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        helper.make_node("QLinearMatMul", ["q", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "ys", "yz"], ["h"]),
        helper.make_node("DynamicQuantizeLinear", ["h"], ["d", "ds", "dz"]),
        helper.make_node("MatMulInteger", ["d", "v", "dz", "vz"], ["i"]),
        helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["ds", "vs"], ["both"]),
        helper.make_node("Mul", ["f", "both"], ["y"]),
    ]
    path = save(simple(nodes, {"x": (TensorProto.FLOAT, (5, 12))}, constants), tmp_path / "bytes.onnx")
    made = graph.from_onnx(path)
    x = rng.standard_normal((5, 12)).astype("f4") * 3
    (want,) = ReferenceEvaluator(str(path)).run(None, {"x": x})
    # One level of the first product that rounds the other way is 0.1 * 2.5 at most in the second.
    for run in (partial(reference.run, made), *(graph.compile(made, fusion=f).run for f in passes.FUSIONS)):
        np.testing.assert_allclose(run({"x": x})["y"], want, atol=0.3)
    assert {"matmul_integer", "quantize", "dequantize"} <= {node.op for node in made.nodes}


def run(tmp_path: Path, node: Any, x: np.ndarray, **constants: Any) -> np.ndarray:
    """Return the y of one node, compiled: the same as the reference's."""
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    path = save(simple([node], {"x": (kind, x.shape)}, constants), tmp_path / "one.onnx")
    made = graph.from_onnx(path)
    got: np.ndarray = graph.compile(made).run({"x": x})["y"]
    np.testing.assert_array_equal(got, reference.run(made, {"x": x})["y"])
    return got


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize(
    ("exponent", "wanted"),
    [
        (np.float32(1.5), [1, 2, 18]),
        (np.float32(-1), [1, 0, 0]),
        (np.float64(3), [1, 8, 343]),
        (np.int32(-1), [1, 0, 0]),
        (np.int64([0, 1, 2]), [1, 2, 49]),
        (np.int64([0, -1, 2]), [1, 0, 49]),
    ],
)
def test_powers_of_whole_numbers(kind: str, exponent: Any, wanted: list[int], tmp_path: Path) -> None:
    """The result has the base's type, whatever the exponent's."""
    node = helper.make_node("Pow", ["x", "e"], ["y"])
    got = run(tmp_path, node, np.array([1, 2, 7], kind), e=exponent)
    assert (got.dtype.name, got.tolist()) == (kind, wanted)


def test_bounds_with_more_digits_than_a_float(tmp_path: Path) -> None:
    ends = np.iinfo(np.int64)
    node = helper.make_node("Clip", ["x", "low", "high"], ["y"])
    x = np.array([ends.min, 0, ends.max])
    for low, high in ((ends.min, ends.max), (-(2**53) - 1, 2**53 + 1)):
        assert run(tmp_path, node, x, low=np.int64(low), high=np.int64(high)).tolist() == [low, 0, high]


def test_bounds_that_the_type_does_not_hold(tmp_path: Path) -> None:
    """An attribute of old versions is a float."""
    model = simple([helper.make_node("Clip", ["x"], ["y"], max=3e38)], {"x": (TensorProto.INT32, (3,))}, {}, 10)
    with pytest.raises(GraphError, match="Clip 'y': "):
        graph.from_onnx(save(model, tmp_path / "m.onnx"))


@pytest.mark.parametrize("bounds", [(np.nan, 1.0), (-1.0, np.nan), (np.nan, np.nan)])
def test_bounds_that_are_no_numbers(bounds: tuple[float, float], tmp_path: Path) -> None:
    low, high = (np.float32(bound) for bound in bounds)
    node = helper.make_node("Clip", ["x", "low", "high"], ["y"])
    assert np.isnan(run(tmp_path, node, np.array([-2, 0, 2], "f4"), low=low, high=high)).all()


@pytest.mark.parametrize("alpha", [1.0, 2.0, 0.5])
@pytest.mark.parametrize("beta", [0.0, 3.0, 1.5])
def test_factors_of_products_of_whole_numbers(alpha: float, beta: float, tmp_path: Path) -> None:
    """They are floats in the file: those that are not whole have no place among whole numbers."""
    node = helper.make_node("Gemm", ["x", "b", "c"], ["y"], alpha=alpha, beta=beta)
    x, b, c = np.array([[1, 2], [3, 4]], "i4"), np.array([[2, 0], [1, 2]], "i4"), np.array([7, 8], "i4")
    if alpha % 1 or beta % 1:
        with pytest.raises(GraphError, match=r"Gemm 'y': [01]\.5 is no int32"):
            run(tmp_path, node, x, b=b, c=c)
    else:
        assert run(tmp_path, node, x, b=b, c=c).tolist() == (int(alpha) * x @ b + int(beta) * c).tolist()


@pytest.mark.parametrize("scale", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
def test_types_that_bytes_become(kind: str, scale: str, tmp_path: Path) -> None:
    """The wider of the two multiplies."""
    wanted = oracle.dtype_of(kind)
    number = np.array(0.3, oracle.dtype_of(scale))
    node = helper.make_node("DequantizeLinear", ["x", "s"], ["y"], output_dtype=helper.np_dtype_to_tensor_dtype(wanted))
    x = np.arange(-128, 128, dtype="i1")
    model = simple([node], {"x": (TensorProto.INT8, x.shape)}, {"s": number}, 23)
    got = graph.compile(graph.from_onnx(save(model, tmp_path / "m.onnx")))(x=x)
    assert got.dtype == wanted
    want = (x.astype("f8") * float(number)).astype(wanted)
    if kind == "float32":
        np.testing.assert_array_equal(got, x.astype("f4") * number.astype("f4"))
    np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rtol=2e-2 if "bfloat16" in (kind, scale) else 2e-3)


@pytest.mark.parametrize("precision", [None, "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("scaled_by", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("kind", ["float32", "float16", "int32"])
@pytest.mark.parametrize("channels", [False, True])
def test_the_precision_of_bytes(
    channels: bool, kind: str, scaled_by: str, precision: str | None, tmp_path: Path
) -> None:
    """Numbers and scale are divided in the scale's type, or that which the file names, and rounded to it."""
    asked = oracle.dtype_of(precision or scaled_by)
    x, scale = (np.arange(-900, 900) / (71 if kind != "int32" else 7)).astype(kind), np.array(0.1)
    zero = np.full(3, 3, "i1") if channels else np.int8(3)
    x, scale = x.reshape(600, 3), np.array([0.1, 0.3, 0.07]) if channels else scale
    scale = scale.astype(oracle.dtype_of(scaled_by))
    more = {} if precision is None else {"precision": helper.np_dtype_to_tensor_dtype(asked)}
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], **more)
    inputs = {"x": (helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)}
    model = simple([node], inputs, {"s": scale, "z": zero}, 23)
    got = graph.compile(graph.from_onnx(save(model, tmp_path / "m.onnx")), fusion="none")(x=x)
    quotient = x.astype(asked) / scale.astype(asked)
    assert quotient.dtype == asked
    np.testing.assert_array_equal(got, np.clip(np.rint(quotient.astype("f4")) + zero, -128, 127).astype("i1"))


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_the_precision_of_bytes_before_it_was_said(kind: str, tmp_path: Path) -> None:
    """Quotients of halves are not rounded to them: no word of that is in version 21."""
    x, scale, zero = (np.arange(-900, 900) / 71).astype(kind), np.array(0.1, kind), np.int8(3)
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    want = np.clip(np.rint(x.astype("f4") / scale.astype("f4")) + zero, -128, 127)
    np.testing.assert_array_equal(run(tmp_path, node, x, s=scale, z=zero), want.astype("i1"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_what_a_layer_norm_tells_of_its_rows(dtype: str, tmp_path: Path) -> None:
    """Mean and deviation are float32 unless the file names another type, whatever the rows are."""
    kind = oracle.dtype_of(dtype)
    x = np.random.default_rng(0).standard_normal((5, 8)).astype(kind)
    for asked, wanted in ((None, "float32"), (TensorProto.FLOAT, "float32"), (TensorProto.BFLOAT16, "bfloat16")):
        more = {} if asked is None else {"stash_type": asked}
        node = helper.make_node("LayerNormalization", ["x", "g"], ["y", "mean", "deviation"], **more)
        model = simple([node], {"x": (helper.np_dtype_to_tensor_dtype(kind), x.shape)}, {"g": np.ones(8, kind)})
        for name in ("mean", "deviation"):
            model.graph.output.append(helper.make_tensor_value_info(name, asked or TensorProto.FLOAT, [5, 1]))
        got = graph.compile(graph.from_onnx(save(model, tmp_path / "m.onnx"))).run({"x": x})
        wide = x.astype("f8")
        close = 2e-2 if wanted == "bfloat16" else 1e-5
        for name, want in (("mean", wide.mean(1)), ("deviation", 1 / np.sqrt(wide.var(1) + 1e-5))):
            assert got[name].dtype == oracle.dtype_of(wanted)
            np.testing.assert_allclose(got[name].reshape(-1).astype("f8"), want, rtol=close, atol=close)
        assert got["y"].dtype == kind


def test_outputs_with_names_that_a_graph_gives(tmp_path: Path) -> None:
    """As exporters name them: linear, add, linear_1, add_1."""
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["linear"]),
        helper.make_node("Add", ["linear", "x"], ["constant_2"]),
        helper.make_node("Gemm", ["constant_2", "w", "b"], ["linear_1"]),
        helper.make_node("Add", ["linear_1", "constant_2"], ["add_1"]),
    ]
    constants = {"w": np.eye(4, dtype="f4") * 2, "b": np.ones(4, "f4")}
    model = simple(nodes, {"x": (TensorProto.FLOAT, (2, 4))}, constants)
    del model.graph.output[:]
    names = ("add_1", "matmul_0", "constant_2")
    model.graph.node.append(helper.make_node("Relu", ["add_1"], ["matmul_0"]))
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, (2, 4)) for name in names)
    path = save(model, tmp_path / "m.onnx")
    made = graph.from_onnx(path)
    assert made.outputs == names
    x = np.random.default_rng(0).standard_normal((2, 4)).astype("f4")
    for name, want in zip(names, ReferenceEvaluator(str(path)).run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(graph.compile(made)(x=x)[name], want, rtol=1e-6)


def test_a_column_of_a_constant_as_bias(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["columns", "at"], ["b"], axis=1),
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Add", ["h", "b"], ["sums"]),
        helper.make_node("Relu", ["sums"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["y"]),
    ]
    rng = np.random.default_rng(0)
    sizes = {"columns": (32, 2), "w": (16, 32), "v": (32, 8)}
    constants = {name: rng.standard_normal(shape).astype("f4") for name, shape in sizes.items()}
    model = simple(nodes, {"x": (TensorProto.FLOAT, (64, 16))}, {**constants, "at": np.int64(0)})
    path = save(model, tmp_path / "m.onnx")
    x = rng.standard_normal((64, 16)).astype("f4")
    (want,) = ReferenceEvaluator(str(path)).run(None, {"x": x})
    np.testing.assert_allclose(graph.compile(graph.from_onnx(path))(x=x), want, rtol=1e-4, atol=1e-4)


def test_shapes_are_folded() -> None:
    """Whatever PyTorch computes from shapes is gone: what is left moves or computes data."""
    made = graph.from_onnx(DATA / "encoder_small.onnx", batch=3)
    assert all(made.values[node.output].dtype == np.float32 for node in made.nodes)


def test_sizes_are_bound_by_name(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    path = save(simple(nodes, {"x": (TensorProto.FLOAT, ("batch", "tokens", 4))}, {}), tmp_path / "m.onnx")
    with pytest.raises(GraphError, match="sizes of 'batch', 'tokens' are not given"):
        graph.from_onnx(path)
    with pytest.raises(GraphError, match="sizes of 'tokens'"):
        graph.from_onnx(path, batch=2)
    with pytest.raises(GraphError, match="no input has a size named 'rows'"):
        graph.from_onnx(path, batch=2, sizes={"tokens": 3, "rows": 4})
    assert graph.from_onnx(path, sizes={"batch": 2, "tokens": 3}).values["x"].shape == (2, 3, 4)
    assert graph.from_onnx(path, batch=2, sizes={"tokens": 3}).values["y"].shape == (2, 3, 4)
    for bad in (0, -1):
        with pytest.raises(ValueError, match="at least 1"):
            graph.from_onnx(path, batch=bad)
    with pytest.raises(TypeError):
        graph.from_onnx(path, batch=2.5)  # type: ignore[arg-type]


class TestRefusals:
    """The file is input from outside."""

    def test_every_unsupported_node_is_named_at_once(self, tmp_path: Path) -> None:
        nodes = [
            helper.make_node("Conv", ["x", "w"], ["a"], name="first"),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("LSTM", ["b", "w", "w"], ["c"], name="second"),
            helper.make_node("Split", ["x"], ["d", "e"], name="third", axis=1, num_outputs=3),
            helper.make_node("Add", ["c", "d"], ["y"]),
        ]
        inputs = {"x": (TensorProto.FLOAT, (1, 2, 3)), "w": (TensorProto.FLOAT, (1, 2, 3))}
        with pytest.raises(GraphError, match="nodes of the model cannot be read") as caught:
            graph.from_onnx(save(simple(nodes, inputs, {}), tmp_path / "m.onnx"))
        text = str(caught.value)
        assert text.startswith("3 nodes")
        assert all(word in text for word in ("Conv 'first'", "LSTM 'second'", "Split 'third'"))
        assert "Relu" not in text

    def test_a_domain_of_its_own(self, tmp_path: Path) -> None:
        model = simple([helper.make_node("Relu", ["x"], ["y"], domain="com.vendor")], {"x": (1, (2,))}, {})
        model.opset_import.append(helper.make_opsetid("com.vendor", 1))
        with pytest.raises(GraphError, match=r"Relu 'y' of com\.vendor"):
            graph.from_onnx(save(model, tmp_path / "m.onnx"))

    def test_data_in_other_files(self, tmp_path: Path) -> None:
        (tmp_path / "secret").write_bytes(bytes(64))
        model = simple([helper.make_node("Add", ["x", "w"], ["y"])], {"x": (1, (4,))}, {"w": np.zeros(4, "f4")})
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="../secret")
        with pytest.raises(GraphError, match="data in other files is not read: 1 tensors, 'w'"):
            graph.from_onnx(save(model, tmp_path / "m.onnx"))

    def test_data_in_other_files_of_a_node(self, tmp_path: Path) -> None:
        value = numpy_helper.from_array(np.zeros(4, "f4"), "hidden")
        value.external_data.add(key="location", value="/etc/passwd")
        node = helper.make_node("Constant", [], ["y"], value=value)
        with pytest.raises(GraphError, match="data in other files"):
            graph.from_onnx(save(simple([node], {}, {}), tmp_path / "m.onnx"))

    @pytest.mark.parametrize("several", [False, True])
    def test_data_in_other_files_of_a_sparse_tensor(self, several: bool, tmp_path: Path) -> None:
        values = numpy_helper.from_array(np.zeros(1, "f4"), "hidden")
        values.external_data.add(key="location", value="/etc/passwd")
        sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(np.zeros(1, "i8"), "at"), [4])
        given = {"strange": [sparse]} if several else {"sparse_value": sparse}
        node = helper.make_node("Constant", [], ["y"], **given)
        with pytest.raises(GraphError, match="data in other files is not read: 1 tensors, 'hidden'"):
            graph.from_onnx(save(simple([node], {}, {}), tmp_path / "m.onnx"))

    def test_functions(self, tmp_path: Path) -> None:
        model = simple([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, (2,))}, {})
        inner = [helper.make_node("Relu", ["a"], ["b"])]
        model.functions.append(helper.make_function("own", "Mine", ["a"], ["b"], inner, model.opset_import))
        with pytest.raises(GraphError, match="functions of a model's own are not read: Mine"):
            graph.from_onnx(save(model, tmp_path / "m.onnx"))

    @pytest.mark.parametrize("dims", [(5,), (-4,), (1 << 40, 1 << 40), (0,)])
    def test_constants_that_lie(self, tmp_path: Path, dims: tuple[int, ...]) -> None:
        model = simple([helper.make_node("Add", ["x", "w"], ["y"])], {"x": (1, (4,))}, {"w": np.zeros(4, "f4")})
        del model.graph.initializer[0].dims[:]
        model.graph.initializer[0].dims.extend(dims)
        with pytest.raises(GraphError):
            graph.from_onnx(save(model, tmp_path / "m.onnx"))

    def test_what_would_fill_the_memory(self, tmp_path: Path) -> None:
        """A few bytes that ask for petabytes."""
        nodes = [helper.make_node("Expand", ["x", "s"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
        constants = {"s": np.array([1 << 30, 1 << 30], "i8")}
        with pytest.raises(GraphError, match="fits no memory"):
            graph.from_onnx(save(simple(nodes, {"x": (1, (1, 1))}, constants), tmp_path / "m.onnx"))
        nodes = [helper.make_node("ConstantOfShape", ["s"], ["y"])]
        with pytest.raises(GraphError, match="ConstantOfShape"):
            graph.from_onnx(save(simple(nodes, {}, constants), tmp_path / "m.onnx"))
        nodes = [helper.make_node("Range", ["a", "b", "c"], ["y"])]
        ends = {"a": np.int64(0), "b": np.int64(1 << 60), "c": np.int64(1)}
        with pytest.raises(GraphError, match="a range from 0"):
            graph.from_onnx(save(simple(nodes, {}, ends), tmp_path / "m.onnx"))

    def test_what_would_fill_the_memory_bit_by_bit(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each constant is small enough, and there are many."""
        nodes = [helper.make_node("ConstantOfShape", ["s"], ["c0"])]
        nodes += [helper.make_node("Neg", [f"c{at}"], [f"c{at + 1}"]) for at in range(9)]
        nodes += [helper.make_node("Reshape", ["c9", "t"], ["r"]), helper.make_node("Add", ["x", "r"], ["y"])]
        constants = {"s": np.array([256, 256]), "t": np.array([65536])}
        path = save(simple(nodes, {"x": (TensorProto.FLOAT, (1,))}, constants), tmp_path / "m.onnx")
        monkeypatch.setattr(onnx_writer, "MOST_MADE", 10 * 256 * 256 * 4)
        graph.from_onnx(path)
        monkeypatch.setattr(onnx_writer, "MOST_MADE", 9 * 256 * 256 * 4)
        monkeypatch.setattr(onnx_writer, "MOST_MADE_OF_A_BYTE", 1)
        with pytest.raises(GraphError, match=r"^1 nodes.*Neg 'c9': what constants are made into takes more than \d+ b"):
            graph.from_onnx(path)
        # One comparison of two rows that is a matrix.
        nodes = [helper.make_node("Equal", ["a", "b"], ["y"])]
        sides = {"a": np.zeros((1 << 13, 1), "f4"), "b": np.zeros((1, 1 << 13), "f4")}
        with pytest.raises(GraphError, match="Equal 'y': too many numbers"):
            graph.from_onnx(save(simple(nodes, {}, sides), tmp_path / "m.onnx"))

    def test_files_that_are_none(self, tmp_path: Path) -> None:
        with pytest.raises(IsADirectoryError):
            graph.from_onnx(tmp_path)
        with pytest.raises(FileNotFoundError):
            graph.from_onnx(tmp_path / "none.onnx")
        (tmp_path / "text.onnx").write_text("this is no model")
        with pytest.raises(GraphError):
            graph.from_onnx(tmp_path / "text.onnx")

    def test_text_and_small_floats(self, tmp_path: Path) -> None:
        for kind in (TensorProto.STRING, TensorProto.FLOAT8E5M2, TensorProto.COMPLEX64):
            model = simple([helper.make_node("Identity", ["x"], ["y"])], {"x": (kind, (2,))}, {})
            with pytest.raises(GraphError, match="does not compute with"):
                graph.from_onnx(save(model, tmp_path / "m.onnx"))

    def test_damage(self, tmp_path: Path) -> None:
        """Whatever is wrong with a file, it is a GraphError, and never a crash."""
        whole = bytearray((DATA / "mlp_small.onnx").read_bytes())
        rng = np.random.default_rng(3)
        refused = 0
        for turn in range(300):
            data = bytearray(whole)
            if turn % 3 == 0:
                del data[int(rng.integers(1, len(data))) :]
            for at in rng.integers(0, min(len(data), 600 if turn % 2 else len(data)), 4):
                data[at] = rng.integers(0, 256)
            (tmp_path / "m.onnx").write_bytes(data)
            try:
                graph.from_onnx(tmp_path / "m.onnx", batch=2)
            except GraphError:
                refused += 1
        assert refused > 100


def test_the_checker_may_refuse_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(model: Any) -> None:
        raise onnx.checker.ValidationError(" ")

    monkeypatch.setattr(onnx.checker, "check_model", refuse)
    with pytest.raises(GraphError, match="refuses the model: ValidationError"):
        graph.from_onnx(DATA / "mlp_small.onnx", batch=2)


def test_the_package_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"fastgemm\[onnx\]"):
        graph.from_onnx(DATA / "mlp_small.onnx")


def pairs_model(layout: str) -> Any:
    """Return a perceptron as quantisers write it: floats between pairs of QuantizeLinear and DequantizeLinear.

    Weights are bytes that DequantizeLinear makes floats of, column by column, and biases whole numbers of 32 bits.
    """
    rng = np.random.default_rng(3)
    nodes, known = [], {}

    def node(op: str, *operands: str, result: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op, operands, [result], **attributes))
        return result

    def constant(name: str, array: Any) -> str:
        known[name] = numpy_helper.from_array(np.asarray(array), name)
        return name

    def through_bytes(x: str, scale: float, zero: int) -> str:
        terms = constant(f"{x}_scale", np.float32(scale)), constant(f"{x}_zero", np.uint8(zero))
        return node("DequantizeLinear", node("QuantizeLinear", x, *terms, result=f"{x}_q"), *terms, result=f"{x}_d")

    x, inner = through_bytes("x", 0.02, 128), 24
    for at, columns in enumerate((40, 16)):
        scales = rng.uniform(0.005, 0.01, columns).astype("f4")
        turned = layout != "MatMul"
        weight = rng.integers(-127, 128, (columns, inner) if turned else (inner, columns)).astype("i1")
        terms = constant(f"ws{at}", scales), constant(f"wz{at}", np.zeros(columns, "i1"))
        w = node("DequantizeLinear", constant(f"w{at}", weight), *terms, result=f"wd{at}", axis=0 if turned else 1)
        sums = constant(f"b{at}", rng.integers(-900, 900, columns).astype("i4"))
        bias = node("DequantizeLinear", sums, constant(f"bs{at}", np.float32(0.02) * scales), result=f"bd{at}", axis=0)
        if layout == "Gemm":
            made = node("Gemm", x, w, bias, result=f"h{at}", transB=1)
        else:
            w = node("Transpose", w, result=f"wt{at}", perm=[1, 0]) if turned else w
            made = node("Add", node("MatMul", x, w, result=f"m{at}"), bias, result=f"h{at}")
        x, inner = through_bytes(node("Relu", made, result=f"r{at}"), 0.05, 3), columns
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, size]) for name, size in (("x", 24), (x, 16))]
    return helper.make_model(
        helper.make_graph(nodes, "pairs", ends[:1], ends[1:], list(known.values())),
        opset_imports=[helper.make_opsetid("", 21)], ir_version=10,
    )  # fmt: skip


@pytest.mark.parametrize("layout", ["MatMul", "MatMul of a transpose", "Gemm"])
def test_pairs_of_quantisers_are_products_of_bytes(tmp_path: Path, layout: str) -> None:
    """Weights stay bytes while a file is read, and their biases are floats by then."""
    model = pairs_model(layout)
    onnx.save(model, tmp_path / "pairs.onnx")
    compiled = graph.compile(graph.from_onnx(tmp_path / "pairs.onnx"))
    (chain,) = compiled.graph.nodes
    assert [node.op for node in chain.attributes["body"].nodes] == ["quantize", "qlinear", "qlinear", "dequantize"]
    x = oracle.normal((8, 24), "f4", 5)
    (want,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_array_equal(compiled(x=x), want)


@pytest.mark.parametrize("scale", [0.02, 1e-40, 3e38])
def test_pairs_of_quantisers_around_views_are_none(scale: float) -> None:
    """Bytes made floats and the same bytes again are what they were, but for scales that floats cannot divide by."""
    build = graph.Builder()
    terms = build.constant(np.float32(scale)), build.constant(np.uint8(7))
    y = build.dequantize(build.input("x", (6, 4), "uint8"), *terms)
    for shape in ((4, 6), (2, 12), (24,)):
        y = build.dequantize(build.quantize(y.reshape(shape), *terms), *terms)
    build.output(build.quantize(y, *terms), "y")
    made = build.graph()
    compiled, x = graph.compile(made), np.arange(24, dtype="u1").reshape(6, 4) * 11
    # (The output has a name of its own, and is made.)
    inside = [node.attributes["body"].nodes if node.op == "chain" else (node,) for node in compiled.graph.nodes]
    assert sum(node.op == "quantize" for nodes in inside for node in nodes) == (1 if scale == 0.02 else 4)
    np.testing.assert_array_equal(compiled(x=x), reference.run(made, {"x": x})["y"])
    if scale == 0.02:
        np.testing.assert_array_equal(compiled(x=x), x.reshape(-1))


@pytest.mark.parametrize("b_zero", [None, 3])
@pytest.mark.parametrize("rows", [5, 1100])
def test_scales_that_only_a_call_knows(rows: int, b_zero: int | None) -> None:
    """As dynamic quantisation has them: bytes by a chain of the call's own, sums by weights that are packed once."""
    rng = np.random.default_rng(4)
    weight = rng.integers(-128, 128, (160, 48)).astype("i1")
    zeros = () if b_zero is None else (np.int8(b_zero),)
    build = graph.Builder()
    x, scale = build.input("x", (rows, 160), "float32"), build.input("scale", (), "float32")
    zero = build.input("zero", (), "uint8")
    bytes_ = build.quantize(x, scale, zero)
    build.output(bytes_, "bytes")
    build.output(build.matmul_integer(bytes_, build.constant(weight), zero, *map(build.constant, zeros)), "sums")
    made = build.graph()
    compiled = graph.compile(made)
    for number, at in ((0.02, 128), (1e-3, 0), (3.0, 255), (0.0, 7), (np.nan, 7), (-0.5, 9)):
        given = {"x": oracle.normal((rows, 160), "f4", at), "scale": np.float32(number), "zero": np.uint8(at)}
        with np.errstate(all="ignore"):
            want = reference.run(made, given)
        for name, array in compiled.run(given).items():
            np.testing.assert_array_equal(array, want[name])


@pytest.mark.parametrize("left", [None, "one", "rows"])
@pytest.mark.parametrize("right", [None, "one", "columns"])
@pytest.mark.parametrize("shape", [(6, 40), (2, 6, 40)])
def test_zero_points_of_rows_and_columns(
    shape: tuple[int, ...], left: str | None, right: str | None, tmp_path: Path
) -> None:
    """The products are of bytes, whatever the zero points."""
    rng = np.random.default_rng(2)
    x, w = (rng.integers(0, 256, one).astype("u1") for one in (shape, (40, 24)))
    zeros = {"one": np.uint8(131), "rows": rng.integers(0, 256, 6).astype("u1"),
             "columns": rng.integers(0, 256, 24).astype("u1")}  # fmt: skip
    known = {"w": w, **{name: zeros[kind] for name, kind in (("p", left), ("q", right)) if kind}}
    node = helper.make_node("MatMulInteger", ["x", "w", "p" if left else "", *(["q"] if right else [])], ["y"])
    made = graph.from_onnx(save(simple([node], {"x": (TensorProto.UINT8, shape)}, known), tmp_path / "m.onnx"))
    assert [one.op for one in made.nodes if one.kind == "product"] == ["matmul_integer"]
    a_zero = zeros[left].reshape(-1, 1).astype("i4") if left else 0
    want = (x.astype("i4") - a_zero) @ (w.astype("i4") - (zeros[right].astype("i4") if right else 0))
    for got in (reference.run(made, {"x": x})["y"], graph.compile(made)(x=x)):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("activation", [None, "Relu", "Tanh"])
@pytest.mark.parametrize("bias", [False, True])
def test_dynamic_layers_are_three_steps(
    tmp_path: Path, bias: bool, activation: str | None, channels: bool, zeros: bool
) -> None:
    """As quantisers write them: what their input's scale is, they know when they run; columns have one zero point."""
    rng = np.random.default_rng(8)
    known = {
        "w": rng.integers(-127, 128, (40, 24)).astype("i1"), "wz": np.zeros(24, "i1") if zeros else np.int8(0),
        "b": rng.standard_normal(24).astype("f4"),
        "ws": rng.uniform(0.01, 0.02, 24).astype("f4") if channels else np.float32(0.01),
    }  # fmt: skip
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("Mul", ["s", "ws"], ["both"]),
        helper.make_node("MatMulInteger", ["q", "w", "z", "wz"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["floats", "both"], ["m"]),
    ]
    if bias:
        nodes.append(helper.make_node("Add", ["b", "m"], ["n"]))
    if activation:
        nodes.append(helper.make_node(activation, [nodes[-1].output[0]], ["o"]))
    model = simple(nodes, {"x": (TensorProto.FLOAT, (2, 7, 40))}, known, 21)
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, (2, 7, 24)))
    made = graph.from_onnx(save(model, tmp_path / "m.onnx"))
    compiled = graph.compile(made)
    # What finds the scale and the zero point, makes bytes, and is the layer.
    steps = [node.op for node in compiled.graph.nodes if node.kind != "view"]
    assert steps == ["dynamic_scale", "quantize", "integer_linear"]
    x = oracle.normal((2, 7, 40), "f4", 5)
    (want,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(compiled(x=x), want, rtol=2e-6, atol=2e-6)
    (named,) = made.outputs
    np.testing.assert_allclose(reference.run(compiled.graph, {"x": x})[named], want, rtol=2e-6, atol=2e-6)
