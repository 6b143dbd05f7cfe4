"""The pass that makes written-out operations one again: what it finds, what it must leave, and that results stay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from oracle import dtype_of

from fastgemm.graph import Builder, Tensor, reference
from fastgemm.graph.passes.recognise import recognise

Pattern = Callable[[Builder, Tensor], Tensor]
ROOT2, SLOPE = np.float32(2**0.5), np.float32((2 / np.pi) ** 0.5)


def cubic(b: Builder, x: Tensor) -> Tensor:
    """The argument of gelu's tanh."""
    return (x + b.pow(x, 3.0) * 0.044715) * SLOPE


def norm(b: Builder, x: Tensor, divide: bool = True, square: bool = True) -> Tensor:
    """Layer norm without factor and term, in the spellings of exporters."""
    apart = x - b.mean(x, axes=(-1,), keepdims=True)
    variance = b.mean(apart * apart if square else b.pow(apart, 2.0), axes=(1,), keepdims=True)
    deviation = b.sqrt(variance + 1e-5)
    return apart / deviation if divide else b.reciprocal(deviation) * apart


ROW, OTHER = np.linspace(0.5, 1.5, 8, dtype="f4"), np.linspace(-1, 1, 8, dtype="f4")
FOUND: dict[str, tuple[str, Pattern]] = {
    "gelu as PyTorch exports it": ("gelu", lambda b, x: x * (b.erf(x / ROOT2) + 1.0) * 0.5),
    "gelu, factors the other way": ("gelu", lambda b, x: (1.0 + b.erf(0.70710677 * x)) * (0.5 * x)),
    "gelu, half of the gate": ("gelu", lambda b, x: x * (0.5 * (b.erf(x * 0.70710677) + 1.0))),
    "gelu, halved by a division": ("gelu", lambda b, x: (x / 2.0) * (b.erf(x / ROOT2) + 1.0)),
    "gelu of half-precision constants": ("gelu", lambda b, x: x * (b.erf(x / 1.4140625) + 1.0) * 0.5),
    "gelu by tanh": ("gelu_tanh", lambda b, x: 0.5 * x * (1.0 + b.tanh(cubic(b, x)))),
    "gelu by tanh, cube of products": (
        "gelu_tanh",
        lambda b, x: x * 0.5 * (b.tanh(SLOPE * (0.044715 * x * x * x + x)) + 1.0),
    ),
    "silu": ("silu", lambda b, x: b.sigmoid(x) * x),
    "layer norm": ("layer_norm", norm),
    "layer norm by a reciprocal and a power": ("layer_norm", lambda b, x: norm(b, x, False, False)),
    "layer norm with factor and term": ("layer_norm", lambda b, x: norm(b, x) * ROW + OTHER),
    "layer norm, factor first": ("layer_norm", lambda b, x: OTHER[None] + ROW * norm(b, x)),
}
LEFT: dict[str, Pattern] = {
    "another slope": lambda b, x: x * (b.erf(x / 1.5) + 1.0) * 0.5,
    "a slope near by": lambda b, x: x * (b.erf(x * 0.709) + 1.0) * 0.5,
    "another half": lambda b, x: x * (b.erf(x / ROOT2) + 1.0) * 0.6,
    "nearly a half": lambda b, x: x * 0.4985 * (b.erf(x / ROOT2) + 1.0),
    "nearly one": lambda b, x: x * (b.erf(x / ROOT2) + 1.003) * 0.5,
    "another slope of tanh": lambda b, x: 0.5 * x * (1.0 + b.tanh(0.8 * (x + 0.0448 * b.pow(x, 3.0)))),
    "another number": lambda b, x: x * (b.erf(x / ROOT2) + 2.0) * 0.5,
    "another value": lambda b, x: b.relu(x) * (b.erf(x / ROOT2) + 1.0) * 0.5,
    "the gate of another value": lambda b, x: x * b.sigmoid(b.relu(x)),
    "a square instead of a cube": lambda b, x: 0.5 * x * (1.0 + b.tanh(SLOPE * (x + 0.044715 * x * x))),
    "the mean of another value": lambda b, x: (x - b.mean(b.relu(x), axes=(-1,), keepdims=True)) / b.sqrt(
        b.mean(x * x, axes=(-1,), keepdims=True) + 1e-5
    ),
    "the mean over the other axis": lambda b, x: (x - b.mean(x, axes=(0,), keepdims=True)) / b.sqrt(
        b.mean(x * x, axes=(0,), keepdims=True) + 1e-5
    ),
}  # fmt: skip


def build(pattern: Pattern) -> Builder:
    """Return a builder of a graph with one pattern in it."""
    made = Builder()
    made.output(pattern(made, made.input("x", (4, 8), "float32")), "y")
    return made


def outputs(made: Builder) -> tuple[list[str], float]:
    """Operations after the pass, and the largest difference of the result."""
    before = made.graph()
    after = recognise(before)
    x = np.random.default_rng(5).standard_normal((4, 8)).astype("f4")
    old, new = (reference.run(one, {"x": x})["y"] for one in (before, after))
    return [node.op for node in after.nodes], float(np.abs(old - new).max())


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    wanted, pattern = FOUND[name]
    ops, off = outputs(build(pattern))
    assert ops == [wanted]
    # Half-precision constants are replaced by the true ones.
    assert off < (2e-3 if "half-precision" in name else 2e-6)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("stored", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("op", ["gelu", "divided", "gelu_tanh"])
def test_rounded_constants(op: str, stored: str, dtype: str) -> None:
    """A file of any type may hold those of another."""

    def of(number: float) -> np.ndarray:
        return np.asarray(number).astype(dtype_of(stored)).astype(dtype_of(dtype))

    made = Builder()
    x = made.input("x", (4, 8), dtype_of(dtype))
    if op == "gelu_tanh":
        curve = made.tanh(of(SLOPE) * (x + of(0.044715) * made.pow(x, of(3.0))))
    else:
        curve = made.erf(x / of(2**0.5) if op == "divided" else x * of(0.5**0.5))
    made.output(of(0.5) * x * (of(1.0) + curve), "y")
    assert [node.op for node in recognise(made.graph()).nodes] == ["gelu_tanh" if op == "gelu_tanh" else "gelu"]


@pytest.mark.parametrize(
    ("written", "dtypes"),
    [
        (0.7071067811865476, ("float64", "float32", "bfloat16")),
        (0.70710678, ("float64", "float32", "bfloat16")),
        (0.7071, ("float32", "bfloat16")),
        (1 / 1.4142, ("float32", "bfloat16")),
        (0.707, ("bfloat16",)),
        (0.7119, ()),
    ],
)
def test_constants_with_few_digits(written: float, dtypes: tuple[str, ...]) -> None:
    """Halves hold no more than three: what is rounded to them is the same."""
    for dtype in ("float64", "float32", "bfloat16"):
        kind = dtype_of(dtype)
        made = Builder()
        x = made.input("x", (4, 8), kind)
        made.output(x * np.array(0.5, kind) * (made.erf(x * np.asarray(written).astype(kind)) + 1.0), "y")
        assert ("gelu" in [node.op for node in recognise(made.graph()).nodes]) is (dtype in dtypes)


@pytest.mark.parametrize("name", LEFT)
def test_left_alone(name: str) -> None:
    made = build(LEFT[name])
    ops, off = outputs(made)
    assert ops == [node.op for node in made.graph().nodes]
    assert off == 0


@pytest.mark.parametrize("used", ["gate", "product", "output"])
def test_what_others_read_stays(used: str) -> None:
    """A value that somebody else reads is still there."""
    made = Builder()
    x = made.input("x", (4, 8), "float32")
    gate = made.erf(x / ROOT2) + 1.0
    product = x * gate
    made.output(product * 0.5, "y")
    extra = {"gate": gate, "product": product, "output": x * 2.0}[used]
    made.output(extra, "z")
    graph = recognise(made.graph())
    x0 = np.random.default_rng(6).standard_normal((4, 8)).astype("f4")
    old, new = (reference.run(one, {"x": x0}) for one in (made.graph(), graph))
    for name in ("y", "z"):
        np.testing.assert_allclose(new[name], old[name], atol=2e-6)
    assert ("gelu" in {node.op for node in graph.nodes}) is (used == "output")


def test_inside_a_network() -> None:
    """A block as a framework writes it: both norms and the gelu are found, the rest is as it was."""
    made = Builder()
    x = made.input("x", (4, 8), "float32")
    h = norm(made, x) * ROW + OTHER
    h = h @ np.ones((8, 16), "f4") + np.zeros(16, "f4")
    h = h * (made.erf(h / ROOT2) + 1.0) * 0.5
    made.output(norm(made, x + h @ np.ones((16, 8), "f4")), "y")
    ops = [node.op for node in recognise(made.graph()).nodes]
    assert ops == ["layer_norm", "matmul", "add", "gelu", "matmul", "add", "layer_norm"]


@pytest.mark.parametrize("swapped", [True, False])
def test_products_of_many_factors(swapped: bool) -> None:
    """More than Python calls functions inside each other."""
    build = Builder()
    x = build.input("x", (2, 8), "float32")
    y = x
    for _ in range(1500):
        y = x * y if swapped else y * x
    build.output(y, "y")
    assert len(recognise(build.graph()).nodes) == 1500
