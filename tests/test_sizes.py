"""Sizes beyond a cache block: what the rules choose for large, flat, deep and stacked products is exact."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from oracle import FLOATS, integers

import fastgemm
from fastgemm import cpu
from fastgemm.driver import _plan

# (m, n, k): squares around the packing rules, few rows, few columns, deep, and outer products.
SIZES = [
    (300, 310, 320),
    (520, 130, 1030),
    (700, 600, 500),
    (7, 2100, 1100),
    (33, 1024, 2048),
    (1500, 5, 900),
    (900, 1, 1100),
    (1, 1700, 1300),
    (1, 1, 50000),
    (12, 13, 20000),
    (1000, 900, 1),
    (1000, 900, 2),
    (3000, 17, 17),
    (4, 700_003, 4),  # panels that come from memory
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("char", FLOATS)
@pytest.mark.parametrize("size", SIZES, ids=lambda s: "x".join(map(str, s)))
def test_large(size: tuple[int, int, int], char: str, threads: int) -> None:
    m, n, k = size
    a, b = integers((m, k), char, 1, high=3), integers((k, n), char, 2, high=3)
    want = np.matmul(a, b)
    with fastgemm.threads(threads):
        np.testing.assert_array_equal(fastgemm.matmul(a, b), want)
        np.testing.assert_array_equal(fastgemm.matmul(np.asfortranarray(a), np.asfortranarray(b)), want)
        out = np.full((n, m), np.nan, char).T
        fastgemm.matmul(a, b, out=out)
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("char", [*FLOATS, "i"])
@pytest.mark.parametrize("size", [(50, 45, 60_000), (30, 130, 50_001)], ids=lambda s: "x".join(map(str, s)))
def test_deep_from_memory(size: tuple[int, int, int], char: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of k that fetch the next one, forwards and backwards, with gaps and to the very end of the operands."""
    monkeypatch.setattr(cpu, "caches", lambda: cpu.Caches(48 << 10, 1 << 20, 8 << 20))
    _plan.forget_plans()
    m, n, k = size
    a, b = integers((k, m), char, 1, high=3), integers((k, n), char, 2, high=3)
    want = np.einsum("ki,kj->ij", a, b, dtype=np.result_type(char, "d"), optimize=True)
    with fastgemm.threads(threads):
        np.testing.assert_array_equal(fastgemm.matmul(a.T, b), want)
        np.testing.assert_array_equal(fastgemm.matmul(np.ascontiguousarray(a.T), b), want)
        np.testing.assert_array_equal(fastgemm.matmul(a[::-1].T, b[::-1]), want)
        np.testing.assert_array_equal(fastgemm.matmul(a[:, ::2].T, b[:, 3:]), want[::2, 3:])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("layouts", list(itertools.product("CFgr", repeat=2)), ids="".join)
def test_layouts(layouts: tuple[str, str], threads: int) -> None:
    """Every pair of layouts at a size that packs: C, Fortran, both steps 2, both reversed."""
    a, b = integers((530, 410), "f4", 1), integers((410, 620), "f4", 2)
    want = np.matmul(a, b)

    def lay(x: np.ndarray, letter: str) -> np.ndarray:
        if letter == "C":
            return x
        if letter == "F":
            return np.asfortranarray(x)
        if letter == "g":
            return x.repeat(2, 0).repeat(2, 1)[::2, ::2]
        return x[::-1, ::-1].copy()[::-1, ::-1]

    with fastgemm.threads(threads):
        np.testing.assert_array_equal(fastgemm.matmul(lay(a, layouts[0]), lay(b, layouts[1])), want)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("char", FLOATS)
@pytest.mark.parametrize("item", [(2, 2, 2), (1, 5, 3), (5, 1, 3), (17, 9, 33), (64, 64, 64)])
def test_stacks(item: tuple[int, int, int], char: str, threads: int) -> None:
    """Long stacks, with either operand shared, reversed, or with the stack's axis innermost."""
    m, n, k = item
    batch = 40 if m == 64 else 1500
    a, b = integers((batch, m, k), char, 1), integers((batch, k, n), char, 2)
    inner = np.ascontiguousarray(a.transpose(1, 2, 0)).transpose(2, 0, 1)
    with fastgemm.threads(threads):
        for x, y in [(a, b), (a[0], b), (a, b[0]), (a[::-1], b), (inner, b), (a[: batch // 4 * 4 : 4], b[:1])]:
            np.testing.assert_array_equal(fastgemm.matmul(x, y), np.matmul(x, y))


@pytest.mark.parametrize("char", FLOATS)
def test_operands_that_begin_at_one_address(char: str) -> None:
    """A stack times its own first item, as matrix and as column, and the other way round, into both orders."""
    x = integers((6, 5, 5), char, 1)
    for a, b in [(x, x[0]), (x[0], x), (x, x[0, :, :1]), (x[0, :1], x), (x.transpose(0, 2, 1), x[0]), (x, x)]:
        want = np.einsum("...ik,...kj->...ij", a, b)
        np.testing.assert_array_equal(fastgemm.matmul(a, b), want)
        out = np.full(want.shape, np.nan, char).transpose(0, 2, 1).copy().transpose(0, 2, 1)
        np.testing.assert_array_equal(fastgemm.matmul(a, b, out=out), want)


@pytest.mark.parametrize("char", "fd")
def test_infinities_and_nans(char: str) -> None:
    """Zeros are not skipped: infinities and NaN land where arithmetic puts them, in any order of summation."""
    special = np.array([0, 0, 1, -1, np.inf, -np.inf, np.nan], char)
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        for _ in range(300):
            m, n, k = rng.integers(1, 40, 3)
            weights = np.array([3, 3, 5, 5, 0.1, 0.1, 0.1])
            a = rng.choice(special, (m, k), p=weights / weights.sum())
            b = rng.choice(special, (k, n), p=weights / weights.sum())
            want = np.einsum("ik,kj->ij", a, b)
            np.testing.assert_array_equal(fastgemm.matmul(a, b), want)
            np.testing.assert_array_equal(fastgemm.gemm(a.T, b, trans_a=True), want)
