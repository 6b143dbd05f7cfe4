"""Chains whose items multiply by one matrix, one after the other: what is copied stays, and never for too long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import dtype_of, integers

from fastgemm import dispatch, kernels, registry
from fastgemm.chain import SCRATCH, Chain, Finish, Map, Product, Ref
from fastgemm.heuristic import rules
from fastgemm.problem import Config, Problem

TIERS = [tier.name for tier in kernels.runnable()]
TYPES = {"float32": "float32", "float64": "float64", "int8": "int32", "bfloat16": "float32"}

pytestmark = pytest.mark.skipif(not TIERS, reason="no kernels run on this CPU")


@pytest.fixture(params=TIERS)
def tier(request: pytest.FixtureRequest, on_tier: Callable[[str], registry.Isa]) -> registry.Isa:
    """Every call of the process on one tier."""
    return on_tier(request.param)


def exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.matmul(a.astype("f8"), b.astype("f8"))


def stack_of(slot: int, array: np.ndarray, block: int = 0, heads: bool = True) -> Ref:
    """Return a reference to a matrix of each head, or one for all; `block` rows of it for an item, 0 for all."""
    step, row, column = array.strides
    return Ref(slot, array.dtype.name, 0, (step if heads else 0, block * row), row, column)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("turned", [False, True])
def test_blocks_of_rows_share_a_copy(tier: registry.Isa, dtype: str, turned: bool) -> None:
    """Heads with matrices of their own, the last block shorter, other numbers at the same place in the next run."""
    heads, rows, n, k = 3, 150, 128, 64
    a, out = integers((heads, rows, k), dtype, 1), np.empty((heads, rows, n), dtype_of(TYPES[dtype]))
    b = integers((heads, n, k), dtype, 2).swapaxes(1, 2) if turned else integers((heads, k, n), dtype, 2)
    for block in (64, 50, 9, 3, 2):
        blocks = -(-rows // block)
        product = Product(n, k, stack_of(0, a, block), stack_of(1, b), stack_of(2, out, block))
        chain = Chain([product], (heads, blocks), rows, block)
        if block == 64 and (dtype == "int8" or (dtype == "float64" and turned)):
            assert chain.kept == 1, "it is copied for so many rows"
        for threads in (1, 2, 1):
            out[...] = 0
            chain.run([a, b, out], threads)
            np.testing.assert_array_equal(out.astype("f8"), exact(a, b).astype(out.dtype).astype("f8"))
            b[...] = np.roll(b, 1, axis=0)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_copies_of_several_blocks_of_columns(tier: registry.Isa, dtype: str) -> None:
    """One behind the other; none where blocks of k would take each other's place."""
    row = registry.dtype("i8_i32" if dtype == "int8" else "f32")
    mr, nv = registry.registers(row, tier)[0]
    nr = nv * registry.lanes(row, tier)
    heads, rows, block, n, k = 2, 9 * mr - 1, 4 * mr, 5 * nr - 3, 40
    a, b = integers((heads, rows, k), dtype, 1), integers((heads, k, n), dtype, 2)
    own = rules.config(Problem(row.name, block, n, k), tier)
    for kc in (k, 16):
        config = own.replace(family=kernels.family(row, tier), mr=mr, nr=nr, mc=2 * mr, kc=kc, nc=2 * nr, pack="ab")
        out = np.zeros((heads, rows, n), dtype_of(TYPES[dtype]))
        product = Product(n, k, stack_of(0, a, block), stack_of(1, b), stack_of(2, out, block))
        with dispatch.forced(config):
            chain = Chain([product], (heads, 3), rows, block)
        assert chain.kept == (kc == k)
        for threads in (1, 2):
            chain.run([a, b, out], threads)
            np.testing.assert_array_equal(out, exact(a, b))


def test_heads_share_a_copy(tier: registry.Isa) -> None:
    """One matrix for all heads of a batch, of one block each, and none where every item has its own."""
    heads, rows, n, k = 4, 64, 128, 64
    a, b = integers((heads, rows, k), "float32", 1), integers((1, n, k), "float32", 2).swapaxes(1, 2)
    out = np.zeros((heads, rows, n), "f4")
    product = Product(n, k, stack_of(0, a, rows), stack_of(1, b, heads=False), stack_of(2, out, rows))
    chain = Chain([product], (heads, 1), rows, rows)
    assert chain.kept == 1
    chain.run([a, b, out])
    np.testing.assert_array_equal(out, exact(a, b))
    own = Product(n, k, stack_of(0, a, rows), stack_of(1, np.repeat(b, heads, 0).swapaxes(1, 2)), product.c)
    assert Chain([own], (heads, 1), rows, rows).kept == 0


def test_two_products_keep_copies_of_their_own(tier: registry.Isa) -> None:
    heads, rows, block, length, size = 2, 120, 48, 96, 64
    config = rules.config(Problem("f32", 300, 300, 300), tier).replace(family="gemm", kc=96, nc=96, pack="ab")
    q, k, v = (integers((heads, n, size), "float32", n) for n in (rows, length, length))
    out, keys = np.zeros((heads, rows, size), "f4"), k.swapaxes(1, 2)
    scores = Ref(SCRATCH, "float32", row=4 * length, column=4)
    first = Product(length, size, stack_of(0, q, block), stack_of(1, keys), scores)
    second = Product(size, length, scores, stack_of(2, v), stack_of(3, out, block))
    with dispatch.forced(config):
        chain = Chain([first, second], (heads, 3), rows, block, block * length * 4)
    assert chain.kept == 2
    for threads in (1, 2):
        out[...] = 0
        chain.run([q, keys, v, out], threads)
        np.testing.assert_array_equal(out, exact(exact(q, keys), v))


def test_no_copy_of_what_items_write_is_kept(tier: registry.Isa) -> None:
    """Each item makes the matrix that it multiplies by, at one place for all."""
    items, rows, k = 3, 64, 64
    n = rows
    a, given = integers((items * rows, k), "float32", 1), integers((items * n, k), "float32", 2)
    made, out = np.zeros((n, k), "f4"), np.zeros((items * rows, n), "f4")
    config = rules.config(Problem("f32", 300, 300, 300), tier).replace(family="gemm", kc=96, nc=96, pack="ab")

    def matrix(slot: int, array: np.ndarray, step: int = rows) -> Ref:
        return Ref(slot, "float32", 0, (step * array.strides[0],), *array.strides)

    members: list[Any] = [
        Map(k, matrix(1, given), matrix(2, made, 0), Finish("relu")),
        Product(n, k, matrix(0, a), matrix(2, made.T, 0), matrix(3, out)),
    ]
    with dispatch.forced(config):
        chain = Chain(members, (items,), items * rows, rows)
    assert chain.kept == 1, "its place is there, and not used"
    chain.run([a, given, made, out], 1)
    want = [exact(x, np.maximum(y.T, 0)) for x, y in zip(np.split(a, items), np.split(given, items), strict=True)]
    np.testing.assert_array_equal(out, np.concatenate(want))


@pytest.mark.parametrize("dtype", TYPES)
def test_few_rows_an_item(tier: registry.Isa, dtype: str) -> None:
    """What comes next is fetched by tiles; kernels of a vector or of few rows have none, whose steps were counted."""
    heads, n, k = 4, 384, 128
    for rows in (1, 2, 3, 4, 5):
        a, b = integers((heads, rows, k), dtype, rows), integers((heads, k, n), dtype, 9)
        out = np.zeros((heads, rows, n), dtype_of(TYPES[dtype]))
        product = Product(n, k, stack_of(0, a, rows), stack_of(1, b), stack_of(2, out, rows))
        Chain([product], (heads, 1), rows, rows).run([a, b, out])
        np.testing.assert_array_equal(out.astype("f8"), exact(a, b).astype(out.dtype).astype("f8"))


def test_more_copies_than_a_line_has_pointers(tier: registry.Isa) -> None:
    """Attention by parts multiplies by many matrices: twelve parts of one, and each has its own copy."""
    rows, k, n, parts = 100, 48, 80, 12
    a, b = integers((rows, k), "float32", 1), integers((parts, k, n), "float32", 2)
    out = np.empty((parts, rows, n), "float32")
    mr, nr = registry.tiles(registry.dtype("f32"), tier)[0]
    x = Ref(0, "float32", 0, (24 * a.strides[0],), *a.strides)
    members = [
        Product(n, k, x, Ref(1, "float32", at * b.strides[0], (0,), *b.strides[1:]),
                Ref(2, "float32", at * out.strides[0], (24 * out.strides[1],), *out.strides[1:]))
        for at in range(parts)
    ]  # fmt: skip
    with dispatch.forced(Config("gemm", tier.name, mr, nr, mc=4 * mr, kc=64, nc=2 * nr, pack="b")):
        chain = Chain(members, (5,), rows, 24)
    assert chain.kept == parts
    for threads in (1, 2, 1):
        out[...] = 0
        chain.run([a, b, out], threads)
        np.testing.assert_array_equal(out, exact(a, b))
        b[...] = np.roll(b, 1, axis=0)
