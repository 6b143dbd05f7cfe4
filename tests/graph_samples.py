"""Graphs for tests: random ones, and the layers that people compile."""

from __future__ import annotations

import itertools
import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
from oracle import dtype_of, normal

from fastgemm.graph import Builder, Graph, Tensor, rowwise

UNARY = ("relu", "tanh", "sigmoid", "gelu", "neg", "identity", "clip", "abs", "scale")


def has_rows(dtype: str) -> bool:
    """Whether operations on rows of a type run here: float16 needs F16C."""
    return dtype != "float16" or dtype in rowwise.row_types()


def numbers(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Normal numbers in any float type, or bytes of the whole range."""
    kind = dtype_of(dtype)
    if kind.kind in "iu":
        ends = np.iinfo(kind)
        return np.random.default_rng(seed).integers(ends.min, ends.max, shape, kind, endpoint=True)
    return normal(shape, "f8", seed).astype(kind)


def inputs_of(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    """Random arrays for a graph's inputs."""
    values = [graph.value(name) for name in graph.inputs]
    return {value.name: numbers(value.shape, value.dtype, seed + at) for at, value in enumerate(values)}


def mlp(widths: tuple[int, ...], batch: int, dtype: Any = "float32", activation: str = "relu") -> Graph:
    """Return layers of a product, a bias and an activation, as bench's workloads have them."""
    build = Builder("mlp")
    x = build.input("x", (batch, widths[0]), dtype_of(dtype))
    for at, (k, n) in enumerate(itertools.pairwise(widths)):
        weight = (normal((k, n), "f8", 10 + at) / math.sqrt(max(k, 1))).astype(dtype_of(dtype))
        x = build.apply(activation, x @ weight + numbers((n,), dtype, 20 + at))
    build.output(x, "y")
    return build.graph()


def attention(batch: int, length: int, heads: int, width: int, dtype: Any = "float32", division: bool = True) -> Graph:
    """Return what stands between the projections of an attention block, from (B, S, H*D) to (B, S, H*D)."""
    build = Builder("attention")
    kind = dtype_of(dtype)
    size = width // heads
    q, k, v = (build.input(name, (batch, length, width), kind) for name in "qkv")
    mask = build.input("mask", (batch, 1, 1, length), kind)
    q, k, v = (x.reshape(batch, length, heads, size).transpose(0, 2, 1, 3) for x in (q, k, v))
    scores = q @ k.transpose(0, 1, 3, 2)
    scores = scores / math.sqrt(size) if division else scores * (1 / math.sqrt(size))
    made = build.softmax(scores + mask, axis=3) @ v
    build.output(made.transpose(0, 2, 1, 3).reshape(batch, length, width), "y")
    return build.graph()


@st.composite
def graphs(draw: st.DrawFn, dtype: str = "float64", largest: int = 6) -> Graph:
    """Random graphs of up to a dozen operations over small shapes, sizes of 0 and 1 among them."""
    build = Builder()
    kind = dtype_of(dtype)
    count = itertools.count()
    sizes = st.integers(0, largest) if draw(st.booleans()) else st.integers(1, largest)

    def leaf(shape: tuple[int, ...]) -> Tensor:
        if draw(st.booleans()):
            return build.input(f"x{next(count)}", shape, kind)
        array = numbers(shape, kind, draw(st.integers(0, 99)))
        # Constants in any order of memory, with gaps and backwards.
        how = draw(st.sampled_from(("C", "F", "gaps", "back")))
        if how == "gaps" and shape:
            array = np.repeat(array, 2, axis=-1)[..., ::2]
        if how == "back" and shape:
            array = array[..., ::-1].copy()[..., ::-1]
        return build.constant(np.asfortranarray(array) if how == "F" else array)

    def scale_and_zero(x: Tensor, byte: Any) -> list[np.ndarray]:
        one = not x.shape[-1] or draw(st.booleans())
        scale = np.array(0.0625, kind) if one else np.linspace(0.03, 0.06, x.shape[-1]).astype(kind)
        zero = draw(st.sampled_from((0, 3)))
        return [scale, np.full(scale.shape, zero, byte)]

    def byted(x: Tensor) -> Tensor:
        return build.apply("quantize", x, *scale_and_zero(x, draw(st.sampled_from(("i1", "u1")))))

    def real(x: Tensor) -> Tensor:
        """Return the numbers that bytes stand for, perhaps past a view of the bytes, or bytes of these once more."""
        how = draw(st.sampled_from(("alone", "view", "pair")))
        if how == "view":
            x = x.transpose(*draw(st.permutations(range(len(x.shape)))))
        made = build.apply("dequantize", x, *scale_and_zero(x, x.dtype))
        if how == "pair":
            made = real(build.apply("quantize", made, *scale_and_zero(made, x.dtype)))
        return made

    pool: list[Tensor] = []
    pool.append(build.input("x", tuple(draw(st.lists(sizes, min_size=2, max_size=4))), kind))
    for _ in range(draw(st.integers(1, 10))):
        x = draw(st.sampled_from(pool[-3:]))
        what = draw(st.sampled_from(("unary", "binary", "self", "matmul", "layer", "transpose", "reshape", "slice",
                                     "softmax", "layer_norm", "reduce", "constant", "clip", "residual",
                                     "bytes")))  # fmt: skip
        rank = len(x.shape)
        if what == "unary":
            pool.append(build.apply(draw(st.sampled_from(UNARY)), x))
        elif what == "binary":
            shape = tuple(1 if draw(st.booleans()) else size for size in x.shape[draw(st.integers(0, rank)) :])
            name = draw(st.sampled_from(("add", "sub", "mul", "maximum")))
            pair = [x, leaf(shape)]
            pool.append(build.apply(name, *(pair if draw(st.booleans()) else pair[::-1])))
        elif what == "self":
            fitting = [y for y in pool if y.shape == x.shape]
            pool.append(build.apply(draw(st.sampled_from(("add", "mul"))), x, draw(st.sampled_from(fitting))))
        elif what == "matmul" and rank >= 2:
            deep = draw(st.booleans())
            right = leaf((*(x.shape[:-2] if deep else ()), x.shape[-1], draw(sizes)))
            pool.append(x @ right if draw(st.booleans()) or not deep else right.T @ x.T)
        elif what == "layer" and rank >= 2:
            n = draw(sizes)
            y = x @ leaf((x.shape[-1], n)) + leaf((n,))
            pool.append(build.relu(y))
        elif what == "transpose":
            pool.append(x.transpose(*draw(st.permutations(range(rank)))) if rank else x)
        elif what == "reshape":
            old = x.shape
            choices = [(-1,) if 0 not in old else (0,), old[::-1], (1, *old), (*old, 1)]
            if rank > 1:
                choices += [(math.prod(old[:2]), *old[2:]), (*old[:-2], math.prod(old[-2:]))]
            pool.append(x.reshape(draw(st.sampled_from(choices))))
        elif what == "slice":
            ends = [sorted(draw(st.tuples(st.integers(0, size), st.integers(0, size)))) for size in x.shape]
            steps = tuple(draw(st.integers(1, 2)) for _ in x.shape)
            starts, stops = tuple(a for a, _ in ends), tuple(b for _, b in ends)
            pool.append(build.apply("slice", x, starts=starts, stops=stops, steps=steps))
        elif what == "softmax" and rank:
            pool.append(build.apply("softmax", x, axis=draw(st.integers(-rank, rank - 1))))
        elif what == "layer_norm" and rank and x.shape[-1] > 1:
            terms = [leaf(x.shape[-1:]) for _ in range(draw(st.integers(0, 2)))]
            pool.append(build.apply("layer_norm", x, *terms, epsilon=0.5))
        elif what == "reduce" and rank and 0 not in x.shape:
            name, axis = draw(st.sampled_from(("sum", "mean", "max"))), draw(st.integers(0, rank - 1))
            pool.append(build.apply(name, x, axes=axis, keepdims=draw(st.booleans())))
        elif what == "clip":
            least = draw(st.sampled_from((-1.0, 0.0)))
            pool.append(build.apply("clip", x, p=least, q=least + draw(st.sampled_from((0.5, 1.0)))))
        elif what == "residual" and rank >= 2:
            # Of rows that come turned, and perhaps turned itself.
            turned = x.transpose(*draw(st.permutations(range(rank))))
            y = turned @ leaf((turned.shape[-1], draw(sizes)))
            around = draw(st.permutations(range(rank)))
            beside = leaf(tuple(y.shape[around.index(axis)] for axis in range(rank))).transpose(*around)
            pool.append(y + beside if draw(st.booleans()) else beside + y)
        elif what == "bytes" and rank >= 2:
            pool.append(real(byted(x)))
            if draw(st.booleans()):
                k = pool[-1].shape[-1]
                weight = real(build.constant(numbers((k, draw(sizes)), "i1", draw(st.integers(0, 99)))))
                pool.append(pool[-1] @ (weight if weight.shape[0] == k else weight.T))
        elif what == "constant":
            pool.append(leaf(tuple(draw(st.lists(sizes, min_size=2, max_size=3)))))
    for at in draw(st.sets(st.integers(0, len(pool) - 1), min_size=1, max_size=3)):
        build.output(pool[at], f"y{at}")
    return build.graph()
