"""Operators of com.microsoft, as ONNX Runtime's tools write them: against NumPy, and what the passes make of them."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from test_graph_onnx import save  # noqa: E402

from fastgemm import graph  # noqa: E402
from fastgemm.graph import Graph, GraphError, reference  # noqa: E402

MS = "com.microsoft"
erf = np.vectorize(math.erf, otypes=[np.float64])


def model_of(nodes: list[Any], operands: dict[str, Any], known: set[str], opset: int = 17, contrib: bool = True) -> Any:
    """Make a model of nodes; its outputs are what the last one makes."""
    sides = {name: np.asarray(data) for name, data in operands.items()}
    made = helper.make_graph(
        nodes,
        "contrib",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(data.dtype), data.shape)
            for name, data in sides.items()
            if name not in known
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["any"]) for name in nodes[-1].output if name],
        [numpy_helper.from_array(sides[name], name) for name in sides if name in known],
    )
    versions = [helper.make_opsetid("", opset), *([helper.make_opsetid(MS, 1)] if contrib else [])]
    return helper.make_model(made, opset_imports=versions, ir_version=9)


class Case:
    """One node: operands by position (None where left out), those known when it is read, and its results' names."""

    def __init__(
        self, op: str, *operands: Any, known: str = "", outputs: tuple[str, ...] = ("y",), **attributes: Any
    ) -> None:
        self.domain = attributes.pop("of", MS)
        self.version = attributes.pop("version", 17)
        names = [name if data is not None else "" for name, data in zip("abcdefghijklmnopqr", operands, strict=False)]
        self.given = {name: np.asarray(data) for name, data in zip(names, operands, strict=True) if name}
        self.known = set(self.given) if known == "all" else set(known)
        self.node = helper.make_node(op, names, outputs, domain=self.domain)
        # (An attribute may be called as a parameter of make_node.)
        self.node.attribute.extend(helper.make_attribute(name, value) for name, value in sorted(attributes.items()))

    def read(self, tmp_path: Path) -> Graph:
        """Read it from a file."""
        return graph.from_onnx(save(model_of([self.node], self.given, self.known, self.version), tmp_path / "m.onnx"))

    def run(self, tmp_path: Path) -> list[np.ndarray]:
        """Run it compiled: the same as by the reference, but for roundings."""
        made = self.read(tmp_path)
        feed = {name: data for name, data in self.given.items() if name in made.inputs}
        got, want = graph.compile(made).run(feed), reference.run(made, feed)
        for name in made.outputs:
            assert (got[name].shape, got[name].dtype) == (want[name].shape, want[name].dtype)
            close = {"u": 1, "i": 1}.get(got[name].dtype.kind, 4e-3 if got[name].dtype.itemsize == 2 else 1e-5)
            np.testing.assert_allclose(got[name].astype("f8"), want[name].astype("f8"), rtol=close, atol=close)
        return [got[name] for name in made.outputs]


def check(tmp_path: Path, case: Case, *wanted: Any, close: float = 1e-5) -> None:
    """Compare floats with what is wanted, in double; whole numbers may be off by one where sums are rounded."""
    for got, want in zip(case.run(tmp_path), map(np.asarray, wanted), strict=True):
        assert got.shape == want.shape
        bound = 1 if got.dtype.itemsize == 1 else close
        np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rtol=0 if bound == 1 else close, atol=bound)


def normal(*shape: int, seed: int = 0, kind: str = "f4") -> np.ndarray:
    return oracle.normal(shape, kind, seed + 1)


def bytes_of(*shape: int, kind: str = "u1", seed: int = 0) -> np.ndarray:
    ends = np.iinfo(kind)
    return np.random.default_rng(seed).integers(ends.min, ends.max + 1, shape).astype(kind)


def steps(made: Graph) -> list[str]:
    """Name the operations that a graph is compiled to, those of chains among them, views apart."""
    found: list[str] = []
    for node in graph.compile(made).graph.nodes:
        inside = node.attributes["body"].nodes if node.op == "chain" else (node,)
        found += [one.op for one in inside if one.kind != "view"]
    return found


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(0.797885 * x + 0.035677 * x**3))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    raised = np.exp(x - x.max(axis, keepdims=True))
    return raised / raised.sum(axis, keepdims=True)


# ---- each number ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["f4", "f2", "f8"])
def test_activations(kind: str, tmp_path: Path) -> None:
    x, bias = normal(5, 8, kind=kind) * 2, normal(8, seed=1, kind=kind)
    wide, term = x.astype("f8"), bias.astype("f8")
    close = 4e-3 if kind == "f2" else 2e-6
    check(tmp_path, Case("Gelu", x), gelu(wide), close=close)
    check(tmp_path, Case("BiasGelu", x, bias), gelu(wide + term), close=close)
    check(tmp_path, Case("FastGelu", x), gelu_tanh(wide), close=close)
    check(tmp_path, Case("FastGelu", x, bias, known="b"), gelu_tanh(wide + term), close=close)
    for alpha in (1.702, 1.0, 0.3, 0.0, -1.5):
        check(tmp_path, Case("QuickGelu", x, alpha=alpha), wide * sigmoid(alpha * wide), close=close)
    check(tmp_path, Case("QuickGelu", x), wide * sigmoid(1.702 * wide), close=close)


def test_sums(tmp_path: Path) -> None:
    x, bias, skip = normal(2, 5, 8), normal(8, seed=1), normal(2, 5, 8, seed=2)
    check(tmp_path, Case("BiasAdd", x, bias, skip), x + bias + skip)
    both = Case("BiasDropout", x, bias, skip, np.float32(0.5), np.array(False), known="de", outputs=("y", "mask"))
    check(tmp_path, both, x + bias + skip, np.ones(x.shape))
    check(tmp_path, Case("BiasDropout", x, bias), x + bias)
    left, right = np.split((x + bias).astype("f8"), 2, axis=-1)
    check(tmp_path, Case("BiasSplitGelu", x, bias), left * gelu(right))
    for training in (Case("BiasDropout", x, bias, None, None, np.array(True), known="e"),
                     Case("BiasDropout", x, bias, None, None, np.array(False))):  # fmt: skip
        with pytest.raises(GraphError, match=r"BiasDropout 'y' of com\.microsoft: it may be in training mode"):
            training.read(tmp_path)


@pytest.mark.parametrize("axis", [1, 2, 3, -1])
def test_softmax_of_a_sum(axis: int, tmp_path: Path) -> None:
    """Over all axes from one on."""
    x = normal(2, 3, 4, 5)
    for inner, shape in ((1, (2, 1, 1, 5)), (0, (1, 1, 4, 5)), (0, (4, 5))):
        bias = normal(*shape, seed=3)
        rows = (x + bias).reshape(math.prod(x.shape[: axis % 4]), -1).astype("f8")
        case = Case("BiasSoftmax", x, bias, axis=axis, is_inner_broadcast=inner)
        check(tmp_path, case, softmax(rows).reshape(x.shape))
    with pytest.raises(GraphError, match="for the first axes of"):
        Case("BiasSoftmax", x, normal(2, 5), axis=3, is_inner_broadcast=1).read(tmp_path)


# ---- products -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", list(itertools.product((0, 1), repeat=4)))
def test_products_of_what_is_turned(turns: tuple[int, ...], tmp_path: Path) -> None:
    """Of stacks, with each matrix turned, and the first axis moved behind the others of the stack."""
    letters, shapes = ["uvik", "uvkj"], {"u": 2, "v": 3, "i": 4, "k": 5, "j": 6}
    for at, (matrix, batch) in enumerate(zip(turns[::2], turns[1::2], strict=True)):
        u, v, row, column = letters[at]
        row, column = (column, row) if matrix else (row, column)
        letters[at] = "".join((row, u, v, column) if batch else (u, v, row, column))
    a, b = (normal(*(shapes[one] for one in axes), seed=at) for at, axes in enumerate(letters))
    names = ("transA", "transBatchA", "transB", "transBatchB")
    want = np.einsum(f"{letters[0]},{letters[1]}->uvij", a.astype("f8"), b.astype("f8")) * 0.3
    case = Case("FusedMatMul", a, b, alpha=0.3, **dict(zip(names, turns, strict=True)))
    check(tmp_path, case, want)


def test_products_of_matrices_and_vectors(tmp_path: Path) -> None:
    a, b, row, column = normal(5, 4), normal(6, 5, seed=1), normal(5, seed=2), normal(4, seed=3)
    for op in ("FusedMatMul", "TransposeMatMul"):
        check(tmp_path, Case(op, a, b, known="b", transA=1, transB=1, alpha=0.5), 0.5 * a.T @ b.T)
        check(tmp_path, Case(op, row, a, transA=1), row @ a)
        check(tmp_path, Case(op, a, column, transB=1), a @ column)
    check(tmp_path, Case("FusedMatMulActivation", b, a, activation="Relu"), np.maximum(b @ a, 0))
    bias = normal(4, seed=4)
    check(tmp_path, Case("GemmFastGelu", b, a, bias), gelu_tanh((b @ a + bias).astype("f8")))
    check(tmp_path, Case("GemmFastGelu", b, a), gelu_tanh((b @ a).astype("f8")))


@pytest.mark.parametrize(
    ("activation", "meaning"),
    [
        ("", lambda x: x),
        ("Relu", lambda x: np.maximum(x, 0)),
        ("Sigmoid", sigmoid),
        ("Tanh", np.tanh),
        ("LeakyRelu", lambda x: np.where(x < 0, 0.25 * x, x)),
    ],
)
def test_gemm_and_an_activation(activation: str, meaning: Any, tmp_path: Path) -> None:
    a, b, c = normal(5, 4), normal(6, 5, seed=1), normal(6, seed=2)
    more = {"activation": activation} if activation else {}
    more |= {"activation_alpha": 0.25} if activation == "LeakyRelu" else {}
    case = Case("FusedGemm", a, b, c, known="bc", transA=1, transB=1, alpha=0.5, beta=2.0, **more)
    check(tmp_path, case, meaning(0.5 * a.T.astype("f8") @ b.T + 2.0 * c))
    check(tmp_path, Case("FusedGemm", b, a, **more), meaning(b.astype("f8") @ a))


def test_an_activation_that_no_product_has(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"FusedGemm 'y' of com\.microsoft: activation='Softsign'"):
        Case("FusedGemm", normal(2, 3), normal(3, 4), activation="Softsign").read(tmp_path)


# ---- rows -----------------------------------------------------------------------------------------------------------


def norm(x: np.ndarray, scale: Any = 1.0, shift: Any = 0.0, epsilon: float = 1e-12) -> np.ndarray:
    wide = x.astype("f8")
    apart = wide - wide.mean(-1, keepdims=True)
    return apart / np.sqrt((apart**2).mean(-1, keepdims=True) + epsilon) * scale + shift


def rms_norm(x: np.ndarray, scale: Any = 1.0, epsilon: float = 1e-12) -> np.ndarray:
    wide = x.astype("f8")
    return wide / np.sqrt((wide**2).mean(-1, keepdims=True) + epsilon) * scale


@pytest.mark.parametrize("kind", ["f4", "f2"])
def test_norms_of_sums(kind: str, tmp_path: Path) -> None:
    """They give the sum as well."""
    x, skip, scale, shift, bias = (normal(*s, seed=at, kind=kind) for at, s in enumerate([(2, 4, 8)] * 2 + [(8,)] * 3))
    names, close = ("y", "", "", "sum"), 1e-2 if kind == "f2" else 1e-5
    total = x.astype("f8") + skip + bias
    case = Case("SkipLayerNormalization", x, skip, scale, shift, bias, outputs=names, epsilon=1e-3)
    check(tmp_path, case, norm(total, scale, shift, 1e-3), total, close=close)
    for other in (skip[0], skip[:1]):
        case = Case("SkipLayerNormalization", x, other, scale)
        check(tmp_path, case, norm(x.astype("f8") + other, scale), close=close)
    case = Case("SkipSimplifiedLayerNormalization", x, skip, scale, bias, outputs=names, epsilon=1e-3)
    check(tmp_path, case, rms_norm(total, scale, 1e-3), total, close=close)
    flat = Case("SkipSimplifiedLayerNormalization", x[0], skip[0], scale)
    check(tmp_path, flat, rms_norm(x[0].astype("f8") + skip[0], scale), close=close)
    with pytest.raises(GraphError, match=r"\(2, 4, 8\) is added to \(1, 4, 8\)"):
        Case("SkipLayerNormalization", x[:1], skip, scale).read(tmp_path)


def test_what_norms_tell_of_their_rows(tmp_path: Path) -> None:
    """Means and one over deviations; a norm that subtracts no mean has none."""
    x, skip, scale = normal(2, 4, 8), normal(2, 4, 8, seed=1), normal(8, seed=2)
    total = (x + skip).astype("f8")
    case = Case("SkipLayerNormalization", x, skip, scale, outputs=("y", "mean", "inverse"), epsilon=1e-3)
    inverse = 1 / np.sqrt(total.var(-1, keepdims=True) + 1e-3)
    check(tmp_path, case, norm(total, scale, 0, 1e-3), total.mean(-1, keepdims=True), inverse)
    inverse = 1 / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-3)
    case = Case("SkipSimplifiedLayerNormalization", x, skip, scale, outputs=("y", "", "inverse"), epsilon=1e-3)
    check(tmp_path, case, rms_norm(total, scale, 1e-3), inverse)
    case = Case("SkipSimplifiedLayerNormalization", x, skip, scale, outputs=("y", "mean"))
    with pytest.raises(GraphError, match="no node makes output 'mean'"):
        case.read(tmp_path)


@pytest.mark.parametrize("contrib", [False, True])
@pytest.mark.parametrize("kind", ["f4", "f8", "f2"])
def test_norms_that_pass_for_those_of_onnx(kind: str, contrib: bool, tmp_path: Path) -> None:
    """ONNX has the first since version 17, and none of the other's name; their nodes name no other domain."""
    x, scale, shift = normal(2, 4, 6, kind=kind), normal(4, 6, seed=1, kind=kind), normal(4, 6, seed=2, kind=kind)
    rows, factors = x.reshape(2, -1), scale.reshape(-1).astype("f8")
    known = {"a": x, "b": scale, "c": shift}
    for op, names, want in (
        ("LayerNormalization", "abc", norm(rows, factors, shift.reshape(-1), 1e-3)),
        ("SimplifiedLayerNormalization", "ab", rms_norm(rows, factors, 1e-3)),
    ):
        node = helper.make_node(op, list(names), ["y"], axis=1, epsilon=1e-3)
        for version in (14, 17):
            model = model_of([node], {name: known[name] for name in names}, set("bc"), version, contrib)
            made = graph.from_onnx(save(model, tmp_path / "m.onnx"))
            got = graph.compile(made)(a=x)
            assert got.dtype == x.dtype
            np.testing.assert_allclose(got, want.reshape(x.shape), atol=1e-2 if kind == "f2" else 1e-5, rtol=1e-3)


@pytest.mark.parametrize("quantised", [False, True])
def test_embeddings(quantised: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ids, segments = rng.integers(0, 11, (2, 4)).astype("i4"), rng.integers(0, 2, (2, 4)).astype("i4")
    mask, places = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], "i4"), rng.integers(0, 9, (2, 4)).astype("i4")
    shapes = [(11, 6), (9, 6), (2, 6), (6,), (6,)]
    if quantised:
        tables = [bytes_of(*shape, seed=at) for at, shape in enumerate(shapes)]
        scales, zeros = [np.float32(0.01 * (at + 1)) for at in range(5)], [np.uint8(100 + at) for at in range(5)]
        words, positions, kinds, scale, shift = (
            (table.astype("f8") - float(zero)) * step for table, step, zero in zip(tables, scales, zeros, strict=True)
        )
        more, op, known = [*scales, *zeros], "QEmbedLayerNormalization", "cdefgijklmnopqr"
    else:
        tables = [normal(*shape, seed=at) for at, shape in enumerate(shapes)]
        words, positions, kinds, scale, shift = (table.astype("f8") for table in tables)
        more, op, known = [], "EmbedLayerNormalization", "cdefg"
    total = words[ids] + positions[np.arange(4)] + kinds[segments]
    case = Case(op, ids, segments, *tables, mask, *more, known=known, outputs=("y", "seen"), epsilon=1e-3)
    check(tmp_path, case, norm(total, scale, shift, 1e-3), [3, 2])
    if not quantised:
        case = Case(op, ids, segments, *tables, None, places, known=known, outputs=("y", "", "sum"))
        total = words[ids] + positions[places] + kinds[segments]
        check(tmp_path, case, norm(total, scale, shift), total)
        plain = ids, None, *tables[:2], None, *tables[3:], None, places[:1]
        case = Case(op, *plain, known="cdfg", outputs=("y", "seen"))
        check(tmp_path, case, norm(words[ids] + positions[places[:1]], scale, shift), [0, 0])
        with pytest.raises(GraphError, match="segments and their table are not given together"):
            Case(op, ids, None, *tables).read(tmp_path)
        with pytest.raises(GraphError, match="4 words have 3 places"):
            Case(op, ids, None, tables[0], tables[1][:3], None, *tables[3:]).read(tmp_path)


# ---- attention ------------------------------------------------------------------------------------------------------


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float | None = None, term: Any = 0.0) -> np.ndarray:
    """Attention of stacks of heads, one item and head after another."""
    items, heads, rows, size = q.shape
    made = np.zeros((items, rows, heads * v.shape[-1]))
    term = np.broadcast_to(term, (items, heads, rows, k.shape[2]))
    for item, head in itertools.product(range(items), range(heads)):
        scores = q[item, head].astype("f8") @ k[item, head].T * (scale or 1 / math.sqrt(size)) + term[item, head]
        made[item, :, head * v.shape[-1] : (head + 1) * v.shape[-1]] = softmax(scores) @ v[item, head]
    return made


def apart(x: np.ndarray, heads: int) -> np.ndarray:
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def hidden(kind: str, rows: int, keys: int) -> tuple[np.ndarray | None, np.ndarray]:
    """Return a mask of two items, and which keys it hides."""
    places, rng = np.arange(keys), np.random.default_rng(5)
    ends, begins = np.array([keys, keys - 2]), np.array([1, 0])
    if kind == "keys":
        found = (places >= ends[:, None]).reshape(2, 1, 1, keys)
        return (~found).reshape(2, keys).astype("i4"), found
    if kind == "pairs":
        shown = rng.integers(0, 2, (2, rows, keys)) | (places == 0)
        return shown.astype("i4"), (shown == 0).reshape(2, 1, rows, keys)
    if kind == "ends":
        return ends.astype("i4"), (places >= ends[:, None]).reshape(2, 1, 1, keys)
    if kind == "ends and begins":
        shown = (places < ends[:, None]) & (places >= begins[:, None])
        return np.concatenate([ends, begins]).astype("i4"), ~shown.reshape(2, 1, 1, keys)
    return None, np.zeros((2, 1, 1, keys), bool)


def later(rows: int, keys: int) -> np.ndarray:
    """Return what is added where each query meets itself and what was before it."""
    return np.where(np.arange(keys) > np.arange(keys - rows, keys)[:, None], -np.inf, 0)


MASKS = ["none", "keys", "pairs", "ends", "ends and begins"]


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("past", [0, 3])
@pytest.mark.parametrize("kind", MASKS)
def test_attention(kind: str, past: int, causal: int, tmp_path: Path) -> None:
    """Of queries, keys and values that one product makes; with those of a call before, and for one behind."""
    x, weight, bias = normal(2, 5, 8), normal(8, 36, seed=1), normal(36, seed=2)
    before = normal(2, 2, 3, past, 4, seed=3)
    mask, gone = hidden(kind, 5, 5 + past)
    q, k, v = (apart(part, 3) for part in np.split(x @ weight + bias, 3, axis=-1))
    k, v = (np.concatenate(pair, axis=2) for pair in ((before[0], k), (before[1], v)))
    term = np.where(gone, -10000.0, 0) + (later(5, 5 + past) if causal else 0)
    operands = x, weight, bias, mask, before if past else None
    case = Case("Attention", *operands, known="bc", outputs=("y", "present"), num_heads=3, unidirectional=causal)
    check(tmp_path, case, attention(q, k, v, term=term), np.stack([k, v]))


def test_attention_by_other_numbers(tmp_path: Path) -> None:
    x, weight, bias, term = normal(2, 5, 8), normal(8, 30, seed=1), normal(30, seed=2), normal(1, 3, 5, 5, seed=3)
    mask, gone = hidden("keys", 5, 5)
    q, k, v = (apart(part, 3) for part in np.split(x @ weight + bias, (12, 24), axis=-1))
    case = Case(
        "Attention", x, weight, bias, mask, None, term, known="bc",
        num_heads=3, scale=0.3, mask_filter_value=-2.0, qkv_hidden_sizes=[12, 12, 6],
    )  # fmt: skip
    check(tmp_path, case, attention(q, k, v, 0.3, np.where(gone, -2.0, 0) + term))
    q, k, v = (apart(part, 5) for part in np.split(x @ weight, 3, axis=-1))
    check(tmp_path, Case("Attention", x, weight, known="b", num_heads=5), attention(q, k, v))
    short = normal(2, 3, 5, 5)[:, :1]
    check(tmp_path, Case("Attention", x, weight, None, None, None, short, num_heads=5), attention(q, k, v, None, short))


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"do_rotary": 1}, "it has do_rotary"),
        ({"num_heads": 5}, r"shape \(2, 5, 12\) has no 5 heads"),
        ({"qkv_hidden_sizes": [12, 12, 9]}, r"12 \+ 12 \+ 9 columns of 36"),
        ({"mask": np.ones((2, 1, 9, 9), "i4")}, r"a mask of shape \(2, 1, 9, 9\)"),
        ({"past": np.ones((1, 2, 3, 2, 4), "f4")}, r"keys and values of shape \(1, 2, 3, 2, 4\) from before"),
        ({"term": np.ones((2, 3, 6, 5), "f4")}, r"\(2, 3, 6, 5\) and \(2, 3, 5, 5\) do not broadcast"),
        ({"length": np.array([5], "i4")}, "it has past_sequence_length"),
    ],
)
def test_attention_that_is_refused(more: dict[str, Any], why: str, tmp_path: Path) -> None:
    x, weight, bias = normal(2, 5, 8), normal(8, 36, seed=1), normal(36, seed=2)
    others = (more.pop(name, None) for name in ("mask", "past", "term", "length"))
    with pytest.raises(GraphError, match=rf"Attention 'y' of com\.microsoft: .*{why}"):
        Case("Attention", x, weight, bias, *others, **{"num_heads": 3, **more}).read(tmp_path)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", MASKS)
def test_attention_of_many_heads(kind: str, bias: bool, tmp_path: Path) -> None:
    """Of another sequence: keys and values may have been made before, heads apart."""
    query, key, value, term = normal(2, 5, 12), normal(2, 7, 12, seed=1), normal(2, 7, 6, seed=2), normal(30, seed=3)
    mask, gone = hidden(kind, 5, 7)
    q, k, v = (
        apart(x + part if bias else x, 3)
        for x, part in zip((query, key, value), np.split(term, (12, 24)), strict=True)
    )
    terms = term if bias else None, mask
    hides = np.where(gone, -10000.0, 0)
    case = Case("MultiHeadAttention", query, key, value, *terms, outputs=("y", "k", "v"), num_heads=3)
    check(tmp_path, case, attention(q, k, v, term=hides), k, v)
    ready = Case("MultiHeadAttention", query, k, v, *terms, num_heads=3)
    check(tmp_path, ready, attention(q, k, v, term=hides))


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32"])
def test_a_row_whose_keys_are_all_hidden(kind: str, tmp_path: Path) -> None:
    """By float32's least number, as tools write: it is infinite in no other type."""
    query, key, value = (normal(1, 2, 4, seed=at).astype(oracle.dtype_of(kind)) for at in range(3))
    mask, least = np.zeros((1, 2), "i4"), float(np.finfo("f4").min)
    case = Case("MultiHeadAttention", query, key, value, None, mask, num_heads=1, mask_filter_value=least)
    got = graph.compile(case.read(tmp_path)).run(case.given)["y"]
    assert np.isfinite(got.astype("f4")).all()


def test_attention_of_operands_in_one(tmp_path: Path) -> None:
    whole, query = normal(2, 5, 3, 3, 4), normal(2, 5, 12, seed=1)
    q, k, v = (whole[:, :, :, at].transpose(0, 2, 1, 3) for at in range(3))
    check(tmp_path, Case("MultiHeadAttention", whole, num_heads=3), attention(q, k, v))
    pair = np.ascontiguousarray(whole[:, :, :, 1:])
    check(tmp_path, Case("MultiHeadAttention", query, pair, num_heads=3), attention(apart(query, 3), k, v))
    with pytest.raises(GraphError, match="neither apart nor in one operand"):
        Case("MultiHeadAttention", query, num_heads=3).read(tmp_path)


def test_attention_with_what_was_before(tmp_path: Path) -> None:
    query, key, value = (normal(2, 5, 12, seed=at) for at in range(3))
    before = [normal(2, 3, 4, 4, seed=at) for at in (4, 5)]
    q, k, v = (apart(x, 3) for x in (query, key, value))
    k, v = (np.concatenate(pair, axis=2) for pair in zip(before, (k, v), strict=True))
    case = Case("MultiHeadAttention", query, key, value, None, None, None, *before, outputs=("y", "k", "v"),
                num_heads=3, unidirectional=1)  # fmt: skip
    check(tmp_path, case, attention(q, k, v, term=later(5, 9)), k, v)
    longer = Case("MultiHeadAttention", query, k, v, num_heads=3, unidirectional=1)
    with pytest.raises(GraphError, match="unidirectional attention of 5 queries to 9 keys"):
        longer.read(tmp_path)
    case = Case("MultiHeadAttention", query, key, value, num_heads=3, outputs=("y", "", "", "scores"))
    with pytest.raises(GraphError, match="its scores are read"):
        case.read(tmp_path)


@pytest.mark.parametrize("columns", [False, True])
def test_attention_of_bytes(columns: bool, tmp_path: Path) -> None:
    x, weight, bias = bytes_of(2, 5, 8), bytes_of(8, 36, kind="i1", seed=1), normal(36, seed=2)
    scale = np.random.default_rng(2).uniform(0.01, 0.03, 36).astype("f4") if columns else np.float32(0.02)
    zero = np.full(36, 3, "i1") if columns else np.int8(3)
    mask, gone = hidden("ends", 5, 5)
    made = (x.astype("f8") - 120) * 0.03 @ ((weight.astype("f8") - 3) * scale) + bias
    q, k, v = (apart(part, 3) for part in np.split(made, 3, axis=-1))
    operands = x, weight, bias, np.float32(0.03), scale, mask, np.uint8(120), zero
    case = Case("QAttention", *operands, known="bcdegh", num_heads=3)
    check(tmp_path, case, attention(q, k, v, term=np.where(gone, -10000.0, 0)), close=1e-4)


# ---- bytes ----------------------------------------------------------------------------------------------------------


def floats(x: np.ndarray, scale: Any, zero: Any) -> np.ndarray:
    return (x.astype("f8") - np.asarray(zero, "f8")) * np.asarray(scale, "f8")


def quantised(x: np.ndarray, scale: float, zero: int, kind: str) -> np.ndarray:
    ends = np.iinfo(kind)
    return np.clip(np.rint(x / np.float32(scale)) + zero, ends.min, ends.max).astype(kind)


@pytest.mark.parametrize("bytes_out", [False, True])
@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize(("left", "right"), [("u1", "i1"), ("u1", "u1"), ("i1", "i1")])
def test_gemm_of_bytes(
    left: str, right: str, columns: bool, transposed: int, bytes_out: bool, tmp_path: Path
) -> None:
    """One step: scales and zero points of columns, sums that are added, and bytes again."""
    rng = np.random.default_rng(1)
    a, b, sums = bytes_of(4, 40, kind=left), bytes_of(40, 24, kind=right, seed=1), rng.integers(-9000, 9000, 24)
    scale = rng.uniform(0.01, 0.03, 24).astype("f4") if columns else np.float32(0.02)
    point = 100 if right == "u1" else 0
    zero = np.full(24, point, right) if columns else np.array(point, right)
    want = 0.5 * (floats(a, np.float32(0.03), 7) @ floats(b, scale, zero) + floats(sums, np.float32(0.03) * scale, 0))
    operands = [a, np.float32(0.03), np.array(7, left), b.T if transposed else b, scale, zero, sums.astype("i4")]
    operands += [np.float32(0.4), np.array(5, left)] if bytes_out else []
    case = Case("QGemm", *operands, known="bcdefghi", transB=transposed, alpha=0.5)
    if bytes_out:
        check(tmp_path, case, quantised(want, 0.4, 5, left))
        for some in (operands[:8], [*operands[:7], None, operands[8]]):
            with pytest.raises(GraphError, match="scale and zero point are not given together"):
                Case("QGemm", *some, transB=transposed).read(tmp_path)
    else:
        check(tmp_path, case, want, close=1e-4)
    assert steps(case.read(tmp_path)) == ["qlinear"]


@pytest.mark.parametrize("shape", [(), (1,), (4, 1), (1, 6), (4, 6), None])
@pytest.mark.parametrize("columns", [False, True])
def test_sums_that_are_added_to_bytes(columns: bool, shape: tuple[int, ...] | None, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    a, b, sums = bytes_of(5, 4), bytes_of(5, 6, kind="i1"), None if shape is None else rng.integers(-9000, 9000, shape)
    scale = rng.uniform(0.01, 0.03, 6).astype("f4") if columns else np.float32(0.02)
    zero = rng.integers(-5, 5, 6).astype("i1") if columns else np.int8(2)
    want = floats(a.T, np.float32(0.03), 7) @ floats(b, scale, zero)
    want = want if sums is None else want + sums * np.float32(0.03) * scale.astype("f8")
    operands = a, np.float32(0.03), np.uint8(7), b, scale, zero, None if sums is None else sums.astype("i4")
    for known in ("bcdef" + "g" * (sums is not None), ""):
        check(tmp_path, Case("QGemm", *operands, known=known, transA=1), want, close=1e-4)


@pytest.mark.parametrize("kind", ["u1", "i1"])
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_pairs_of_bytes(op: str, kind: str, tmp_path: Path) -> None:
    combine = np.add if op == "QLinearAdd" else np.multiply
    s, t, u = np.float32(0.03), np.float32(0.05), np.float32(0.3)
    zeros = [np.array(at, kind) for at in (4, 5, 6)]
    for left, right in (((4, 5), (4, 5)), ((4, 5), (5,)), ((4, 1), (1, 5)), ((4, 5), ())):
        a, b = bytes_of(*left, kind=kind), bytes_of(*right, kind=kind, seed=1)
        case = Case(op, a, s, zeros[0], b, t, zeros[1], u, zeros[2], known="bcefgh")
        check(tmp_path, case, quantised(combine(floats(a, s, 4), floats(b, t, 5)), u, 6, kind))
        # (Bytes of the operands' type, whatever is left out.)
        case = Case(op, a, s, None, b, t, None, u, known="beg")
        check(tmp_path, case, quantised(combine(floats(a, s, 0), floats(b, t, 0)), u, 0, kind))
        assert case.run(tmp_path)[0].dtype == kind


@pytest.mark.parametrize("kind", ["u1", "i1"])
def test_one_operand_of_bytes(kind: str, tmp_path: Path) -> None:
    x = bytes_of(4, 6, 8, kind=kind)
    s, t, zero, low = np.float32(0.03), np.float32(1 / 200), np.array(4, kind), np.iinfo(kind).min
    wide, ends = floats(x, s, 4), np.array(low, kind)
    given = {"known": "bcde"}
    check(tmp_path, Case("QLinearSigmoid", x, s, zero, t, ends, **given), quantised(sigmoid(wide), t, low, kind))
    bent = np.where(wide < 0, 0.3 * wide, wide)
    check(tmp_path, Case("QLinearLeakyRelu", x, s, zero, s, ends, alpha=0.3, **given), quantised(bent, s, low, kind))
    bent = np.where(wide < 0, 0.01 * wide, wide)
    check(tmp_path, Case("QLinearLeakyRelu", x, s, zero, s, known="bcd"), quantised(bent, s, 0, kind))
    for axis in (1, -1):
        new = Case("QLinearSoftmax", x, s, zero, t, ends, opset=13, axis=axis, **given)
        check(tmp_path, new, quantised(softmax(wide, axis), t, low, kind))
    old = Case("QLinearSoftmax", x, s, zero, t, ends, opset=12, axis=1, **given)
    check(tmp_path, old, quantised(softmax(wide.reshape(4, -1)).reshape(x.shape), t, low, kind))
    mean = Case("QLinearReduceMean", x, s, zero, t, zero, axes=[1], keepdims=0, **given)
    check(tmp_path, mean, quantised(wide.mean(1), t, 4, kind))
    whole = Case("QLinearReduceMean", x, s, zero, t, zero, keepdims=1, **given)
    check(tmp_path, whole, quantised(wide.mean(keepdims=True), t, 4, kind))
    many = np.full(8, 0.03, "f4")
    with pytest.raises(GraphError, match="scales and zero points that are not one number each"):
        Case("QLinearSigmoid", x, many, None, t, ends).read(tmp_path)


@pytest.mark.parametrize("kind", ["u1", "i1"])
def test_bytes_of_several_scales(kind: str, tmp_path: Path) -> None:
    """What has the result's scale is not touched."""
    a, b = bytes_of(4, 5, kind=kind), bytes_of(4, 5, kind=kind, seed=1)
    s, t, zero, other = np.float32(0.05), np.float32(0.03), np.array(4, kind), np.array(5, kind)
    moved = quantised(floats(b, t, 5), s, 4, kind)
    case = Case("QLinearConcat", s, zero, a, s, zero, b, t, other, known="abdegh", axis=1)
    check(tmp_path, case, np.concatenate([a, moved], axis=1))
    assert steps(case.read(tmp_path)).count("quantize") == 1
    for shape in ((4, 5), (5,), (4, 1)):
        condition = np.random.default_rng(1).integers(0, 2, shape).astype(bool)
        case = Case("QLinearWhere", condition, a, s, zero, b, t, other, s, zero, known="cdfghi")
        check(tmp_path, case, np.where(condition, a, moved))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("columns", ["one", "alike", "each its own"])
@pytest.mark.parametrize("kind", ["u1", "i1"])
def test_sums_of_bytes_that_are_floats(kind: str, columns: str, bias: bool, tmp_path: Path) -> None:
    """Of bytes, and of floats that are made bytes by their range; one step, whose zero points are one."""
    rng = np.random.default_rng(3)
    x, weight, term = normal(2, 7, 40) * 3, bytes_of(40, 24, kind=kind), normal(24, seed=2)
    scale = np.float32(0.02) if columns == "one" else rng.uniform(0.01, 0.03, 24).astype("f4")
    zero = {"one": np.array(3, kind), "alike": np.full(24, 3, kind)}.get(columns, rng.integers(0, 9, 24).astype(kind))
    more = [term] if bias else []
    low, high = min(float(x.min()), 0), max(float(x.max()), 0)
    step = np.float32((high - low) / 255)
    point = int(np.clip(np.rint(-low / step), 0, 255))
    left = quantised(x.astype("f8"), step, point, "u1")
    want = floats(left, step, point) @ floats(weight, scale, zero) + (term if bias else 0)
    dynamic = Case("DynamicQuantizeMatMul", x, weight, scale, zero, *more, known="bcde")
    check(tmp_path, dynamic, want, close=2e-4)
    static = Case("MatMulIntegerToFloat", left, weight, step, scale, np.uint8(point), zero, *more, known="bdfg")
    check(tmp_path, static, want, close=2e-4)
    assert steps(dynamic.read(tmp_path)).count("integer_linear") == (columns != "each its own")


def test_sums_of_bytes_with_few_operands(tmp_path: Path) -> None:
    a, b, s, t = bytes_of(3, 4, 5), bytes_of(3, 5, 6, kind="i1"), np.float32(0.03), np.float32(0.02)
    want = floats(a, s, 0) @ floats(b, t, 0)
    check(tmp_path, Case("MatMulIntegerToFloat", a, b, s, t), want, close=1e-4)
    half = Case("MatMulIntegerToFloat", a, b, np.float16(0.03), np.float16(0.02))
    check(tmp_path, half, floats(a, np.float16(0.03), 0) @ floats(b, np.float16(0.02), 0), close=2e-3)
    assert half.run(tmp_path)[0].dtype == np.float16
    with pytest.raises(GraphError, match="not one number each"):
        Case("MatMulIntegerToFloat", a, b, np.full(5, 0.03, "f4"), t).read(tmp_path)


@pytest.mark.parametrize("kind", ["u1", "i1"])
def test_quantisers(kind: str, tmp_path: Path) -> None:
    x, s, zero = normal(4, 5), np.float32(0.02), np.array(4, kind)
    scales, zeros = np.random.default_rng(0).uniform(0.01, 0.03, 5).astype("f4"), np.arange(5).astype(kind)
    check(tmp_path, Case("QuantizeLinear", x, s, zero), quantised(x, s, 4, kind))
    check(tmp_path, Case("QuantizeLinear", x, scales, zeros, axis=1), quantised(x, scales, np.arange(5), kind))
    q = bytes_of(4, 5, kind=kind)
    check(tmp_path, Case("DequantizeLinear", q, s, zero), floats(q, s, zero))
    check(tmp_path, Case("DequantizeLinear", q, scales, zeros, axis=1), floats(q, scales, zeros))
    check(tmp_path, Case("QuantizeLinear", x, s), quantised(x, s, 0, "u1"))


# ---- whole graphs ---------------------------------------------------------------------------------------------------


def test_products_take_over_what_follows(tmp_path: Path) -> None:
    """A factor, a bias and an activation are its last step."""
    a, b, bias = normal(9, 16), normal(24, 16, seed=1), normal(24, seed=2)
    assert steps(Case("FusedMatMul", a, b, known="b", transB=1, alpha=0.125).read(tmp_path)) == ["linear"]
    fused = Case("FusedGemm", a, b, bias, known="bc", transB=1, activation="Relu")
    assert steps(fused.read(tmp_path)) == ["linear"]
    for op in ("BiasGelu", "FastGelu", "Gelu", "QuickGelu"):
        alone = op in ("Gelu", "QuickGelu")
        nodes = [
            helper.make_node("FusedMatMul", ["a", "b"], ["m"], domain=MS, transB=1),
            helper.make_node(op, ["m"] if alone else ["m", "c"], ["y"], domain=MS),
        ]
        known = {"a": a, "b": b} if alone else {"a": a, "b": b, "c": bias}
        made = graph.from_onnx(save(model_of(nodes, known, set("bc")), tmp_path / "m.onnx"))
        found = steps(made)
        assert found == ["linear"] if op != "QuickGelu" else (found[0] == "linear" and "mul" not in found)


def test_a_perceptron_of_bytes_is_one_chain(tmp_path: Path) -> None:
    """As quantisers write one: two products of bytes between floats."""
    known = {
        "xs": np.float32(0.02), "xz": np.uint8(120), "w": bytes_of(24, 40, kind="i1"), "ws": np.float32(0.01),
        "wz": np.int8(0), "c": np.arange(24, dtype="i4") * 100, "hs": np.float32(0.1), "hz": np.uint8(3),
        "v": bytes_of(8, 24, kind="i1", seed=1), "ys": np.float32(0.2), "yz": np.uint8(128),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        helper.make_node("QGemm", ["q", "xs", "xz", "w", "ws", "wz", "c", "hs", "hz"], ["h"], domain=MS, transB=1),
        helper.make_node("QGemm", ["h", "hs", "hz", "v", "ws", "wz", "", "ys", "yz"], ["r"], domain=MS, transB=1),
        helper.make_node("DequantizeLinear", ["r", "ys", "yz"], ["y"]),
    ]
    x = normal(16, 40)
    made = graph.from_onnx(save(model_of(nodes, {"x": x, **known}, set(known)), tmp_path / "m.onnx"))
    compiled = graph.compile(made)
    (chain,) = compiled.graph.nodes
    assert [node.op for node in chain.attributes["body"].nodes] == ["quantize", "qlinear", "qlinear", "dequantize"]
    q = quantised(x, 0.02, 120, "u1")
    scale = known["xs"] * known["ws"]
    h = quantised(floats(q, known["xs"], 120) @ floats(known["w"], known["ws"], 0).T + known["c"] * scale, 0.1, 3, "u1")
    r = quantised(floats(h, known["hs"], 3) @ floats(known["v"], known["ws"], 0).T, 0.2, 128, "u1")
    # One level of the first product that rounds the other way is 0.1 * 1.27 at most in the second.
    np.testing.assert_allclose(compiled(x=x), floats(r, known["ys"], 128), atol=0.4)


@pytest.mark.parametrize("op", ["Attention", "MultiHeadAttention"])
def test_attention_is_one_step(op: str, tmp_path: Path) -> None:
    """By blocks of queries: scores, the softmax with its factor and mask, and means."""
    mask = np.ones((2, 64), "i4")
    if op == "Attention":
        operands = normal(2, 64, 32), normal(32, 96, seed=1), normal(96, seed=2), mask
        case = Case(op, *operands, known="bc", num_heads=4, unidirectional=1)
    else:
        case = Case(op, *(normal(2, 64, 32, seed=at) for at in range(3)), None, mask, num_heads=4)
    (chain,) = [node for node in graph.compile(case.read(tmp_path)).graph.nodes if node.op == "chain"]
    body = [node.op for node in chain.attributes["body"].nodes]
    assert body[:3] == ["matmul", "masked_softmax", "matmul"]
    case.run(tmp_path)


@pytest.mark.parametrize(
    ("domain", "op", "version"),
    [(MS, "QLinearConv", 17), (MS, "Softmax", 17), (MS, "Relu", 17), ("ai.other", "Gelu", 17)],
)
def test_operators_by_domain(domain: str, op: str, version: int, tmp_path: Path) -> None:
    """An operator is that of its domain: others of the name are refused, by name and domain."""
    model = model_of([helper.make_node(op, ["a"], ["y"], domain=domain)], {"a": normal(2, 3)}, set(), version)
    model.opset_import.extend([helper.make_opsetid("ai.other", 1)])
    with pytest.raises(GraphError, match=rf"1 nodes .*{op} 'y' of {domain}: there is no such operation"):
        graph.from_onnx(save(model, tmp_path / "m.onnx"))


def test_operators_that_onnx_did_not_have_yet(tmp_path: Path) -> None:
    """ONNX's own Gelu is of version 20; com.microsoft has one whatever the version, of its own."""
    x = normal(2, 3)
    for domain in ("", MS):
        model = model_of([helper.make_node("Gelu", ["a"], ["y"], domain=domain)], {"a": x}, set(), 17)
        path = save(model, tmp_path / "m.onnx")
        if domain:
            np.testing.assert_allclose(graph.compile(graph.from_onnx(path))(a=x), gelu(x), rtol=1e-5, atol=1e-6)
        else:
            with pytest.raises(GraphError, match="Gelu"):
                graph.from_onnx(path)


def test_a_domain_without_a_version(tmp_path: Path) -> None:
    model = model_of([helper.make_node("Gelu", ["a"], ["y"], domain=MS)], {"a": normal(2, 3)}, set(), 17, False)
    with pytest.raises(GraphError, match=r"the ONNX checker refuses the model: .*com\.microsoft"):
        graph.from_onnx(save(model, tmp_path / "m.onnx"))
