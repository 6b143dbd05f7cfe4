"""Random problems, layouts and scalars against NumPy (hypothesis, always the same examples)."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from oracle import FLOATS, assert_close, assert_identical, integers, normal

import fastgemm

quick = settings(
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=300,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
DIMS = st.one_of(st.integers(0, 9), st.integers(0, 70), st.sampled_from([15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65]))
STEPS = st.sampled_from([1, 1, 1, 2, 3, -1, -2, 0])
SEEDS = st.integers(0, 2**16)


@st.composite
def layouts(draw: st.DrawFn, ndim: int) -> tuple[list[int], list[int], int]:
    """Steps of the axes, their order in memory, and the bytes by which the address is off."""
    steps = draw(st.lists(STEPS, min_size=ndim, max_size=ndim))
    order = draw(st.permutations(range(ndim)))
    return steps, list(order), draw(st.sampled_from([0, 0, 0, 1, 2, 3, 4, 8]))


def place(values: np.ndarray, layout: tuple[list[int], list[int], int]) -> np.ndarray:
    """Copy values into a view with a layout; a step of 0 repeats the first entry along its axis."""
    steps, order, offset = layout
    stored = values[(*(slice(0, 1) if s == 0 else slice(None) for s in steps), ...)]
    room = [max(1, n * abs(s)) for n, s in zip(stored.shape, steps, strict=True)]
    total = int(np.prod(room)) * values.itemsize
    buffer = np.full(total + offset, 0x7F, "u1")[offset:].view(values.dtype)
    base = buffer.reshape([room[i] for i in order]).transpose(np.argsort(order).astype(int))
    stepped = base[(*(slice(None, None, s or 1) for s in steps), ...)]
    view = stepped[(*(slice(0, n) for n in stored.shape), ...)]
    view[...] = stored
    return np.broadcast_to(view, values.shape) if 0 in steps else view


@st.composite
def operands(draw: st.DrawFn) -> tuple[str, tuple[int, ...], tuple[int, ...], Any, Any, int]:
    """A dtype, two shapes that matmul accepts, their layouts and a seed."""
    char = draw(st.sampled_from(FLOATS))
    m, n, k = draw(DIMS), draw(DIMS), draw(DIMS)
    stack = draw(st.lists(st.integers(0, 4), max_size=2))
    if m * n * k > 30000:
        stack = stack[:1]

    def thinned() -> tuple[int, ...]:
        kept = stack[draw(st.integers(0, len(stack))) :]
        return tuple(1 if draw(st.booleans()) else s for s in kept)

    a = (k,) if draw(st.integers(0, 7)) == 0 else (*thinned(), m, k)
    b = (k,) if draw(st.integers(0, 7)) == 0 else (*thinned(), k, n)
    return char, a, b, draw(layouts(len(a))), draw(layouts(len(b))), draw(SEEDS)


@quick
@given(operands())
@example(("f4", (64, 64), (64, 64), ([1, 1], [0, 1], 0), ([1, 1], [0, 1], 0), 0))
@example(("f4", (2, 0, 5), (5, 3), ([1, 1, 1], [0, 1, 2], 0), ([1, 1], [0, 1], 0), 0))
def test_integers_are_exact(case: Any) -> None:
    """Products of small integers come out bit for bit, layout of the result included."""
    char, shape_a, shape_b, layout_a, layout_b, seed = case
    a = place(integers(shape_a, char, seed), layout_a)
    b = place(integers(shape_b, char, seed + 1), layout_b)
    assert_identical(fastgemm.matmul(a, b), np.matmul(a, b))


@quick
@given(operands())
def test_rounding_is_bounded(case: Any) -> None:
    """Random floats differ by rounding alone, K * eps at worst."""
    char, shape_a, shape_b, layout_a, layout_b, seed = case
    a = place(normal(shape_a, char, seed), layout_a)
    b = place(normal(shape_b, char, seed + 1), layout_b)
    got, want = np.asarray(fastgemm.matmul(a, b)), np.asarray(np.matmul(a, b))
    assert_close(got, a, b, want)


@quick
@given(operands(), st.data())
def test_out_of_any_layout(case: Any, data: st.DataObject) -> None:
    """An out with any steps and order takes the product; the memory between its entries stays."""
    char, shape_a, shape_b, layout_a, layout_b, seed = case
    a = place(integers(shape_a, char, seed), layout_a)
    b = place(integers(shape_b, char, seed + 1), layout_b)
    want = np.asarray(np.matmul(a, b))
    steps, order, offset = data.draw(layouts(want.ndim))
    steps = [s or 1 for s in steps]
    outs = [place(np.zeros(want.shape, char), (steps, order, offset)) for _ in range(2)]
    bases = [root(o) for o in outs]
    for out, matmul in zip(outs, (np.matmul, fastgemm.matmul), strict=True):
        assert matmul(a, b, out=out) is out
    np.testing.assert_array_equal(outs[1], want)
    for out in outs:
        out[...] = 1  # zeros may differ in sign
    assert bases[0].tobytes() == bases[1].tobytes()


def root(a: np.ndarray) -> np.ndarray:
    """The array that owns the memory of a view."""
    while isinstance(a.base, np.ndarray):
        a = a.base
    return a


SCALARS = st.sampled_from([0.0, 1.0, -1.0, 2.0, 0.5, 3])


@quick
@given(st.sampled_from(FLOATS), DIMS, DIMS, DIMS, st.data())
def test_gemm(char: str, m: int, n: int, k: int, data: st.DataObject) -> None:
    """Alpha, beta, transposes, c and out together, on integers and halves: exact."""
    trans_a, trans_b = data.draw(st.booleans()), data.draw(st.booleans())
    alpha, beta = data.draw(SCALARS), data.draw(SCALARS)
    if char in ("c8", "c16") and data.draw(st.booleans()):
        alpha, beta = alpha * 1j, beta * (1 - 2j)
    seed = data.draw(SEEDS)
    shape_a, shape_b = ((k, m) if trans_a else (m, k)), ((n, k) if trans_b else (k, n))
    a = place(integers(shape_a, char, seed), data.draw(layouts(2)))
    b = place(integers(shape_b, char, seed + 1), data.draw(layouts(2)))
    c = place(integers((m, n), char, seed + 2), data.draw(layouts(2)))
    product = np.matmul(a.T if trans_a else a, b.T if trans_b else b)
    want = (alpha * product + beta * c).astype(char)
    before = c.tobytes()
    got = fastgemm.gemm(a, b, c, alpha=alpha, beta=beta, trans_a=trans_a, trans_b=trans_b)
    assert got.dtype == np.dtype(char)
    np.testing.assert_array_equal(got, want)
    assert c.tobytes() == before

    steps, order, offset = data.draw(layouts(2))
    out = place(np.full((m, n), np.nan, char), ([s or 1 for s in steps], order, offset))
    assert fastgemm.gemm(a, b, c, alpha=alpha, beta=beta, trans_a=trans_a, trans_b=trans_b, out=out) is out
    np.testing.assert_array_equal(out, want)
