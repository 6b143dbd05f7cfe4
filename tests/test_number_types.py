"""Whole numbers, bool and halves: exact where NumPy is, over the full range of values, in every shape class."""

from __future__ import annotations

import itertools
from typing import Any

import hypothesis
import hypothesis.extra.numpy as hnp
import ml_dtypes
import numpy as np
import pytest
from conftest import Child
from hypothesis import strategies as st
from oracle import dtype_of, laid, same

import fastgemm
from fastgemm import dispatch, kernels, registry
from fastgemm.heuristic import family_small, rules
from fastgemm.problem import Config, Problem, normalised

WHOLE = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "q", "Q")
TIERS = kernels.runnable()
# (m, n, k): square, skinny, vectors, deep, several blocks of k, beside a tile.
SHAPES = [(1, 1, 1), (16, 16, 16), (3, 65, 7), (1, 300, 200), (300, 1, 200), (1, 1, 5000), (2, 3, 9000), (70, 130, 33)]


def full(shape: tuple[int, ...], dtype: Any, seed: int) -> np.ndarray:
    """Random numbers of the whole range with both its ends, and a half for the rest."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return rng.random(shape) < 0.1
    ends = np.iinfo(kind)
    found = rng.integers(ends.min, ends.max, shape, dtype=kind, endpoint=True)
    edges = rng.random(shape)
    found[edges < 0.1] = ends.min
    found[edges > 0.9] = ends.max
    return found


@pytest.mark.parametrize("letters", ["nn", "nt", "tn", "tt", "gg"])
@pytest.mark.parametrize("dtype", WHOLE)
def test_whole_numbers(dtype: str, letters: str) -> None:
    for m, n, k in SHAPES:
        a, b = laid(full((m, k), dtype, 1), letters[0]), laid(full((k, n), dtype, 2), letters[1])
        same(lambda f, a=a, b=b: f(a, b))


@pytest.mark.parametrize("tier", [tier.name for tier in TIERS])
@pytest.mark.parametrize("dtype", ["?", "i1", "i2", "i4", "i8"])
def test_whole_numbers_on_every_tier(dtype: str, tier: str) -> None:
    row = next(row for row in registry.DTYPES if np.dtype(dtype).name in row.names)
    for m, n, k in SHAPES:
        a, b = full((m, k), dtype, 3), full((k, n), dtype, 4)
        config = rules.config(normalised(Problem(row.name, m, n, k)), registry.isa(tier))
        with dispatch.forced(config):
            assert np.array_equal(fastgemm.matmul(a, b), np.matmul(a, b))


@pytest.mark.parametrize("dtype", WHOLE)
def test_stacks_and_casts(dtype: str) -> None:
    a, b = full((3, 5, 7), dtype, 1), full((3, 7, 4), dtype, 2)
    same(lambda f: f(a, b))
    same(lambda f: f(a, b[0]))
    same(lambda f: f(a[:, None], b))
    same(lambda f: f(a, b.swapaxes(1, 2)[:, :, :7].swapaxes(1, 2)))
    same(lambda f: f(a, b[0], dtype="f8"))
    same(lambda f: f(a[0], b[0], out=np.zeros((5, 4))))
    same(lambda f: f(a[0], b[0].astype("i2")))


def test_true_is_any_byte_but_zero() -> None:
    a = np.array([[2, 0], [0, 128]], "u1").view("?")
    b = np.array([[1, 0], [64, 0]], "u1").view("?")
    got = fastgemm.matmul(a, b)
    assert got.view("u1").tolist() == [[1, 0], [1, 0]]


@pytest.mark.parametrize("tier", [tier.name for tier in kernels.runnable()])
def test_logic_of_rows_of_both_operands(tier: str) -> None:
    """Any bytes but zero are true, two of no common bit too; ends of rows, blocks of k, threads that share it."""
    rng = np.random.default_rng(0)
    for (m, n, k), kc in itertools.product([(2, 3, 1), (5, 9, 63), (4, 70, 65), (9, 5, 200), (3, 7, 1000)], (64, 4096)):
        bytes_a, bytes_b = ((rng.integers(0, 256, s) * (rng.random(s) < 0.1)).astype("u1") for s in ((m, k), (n, k)))
        want = (bytes_a != 0).astype(int) @ (bytes_b != 0).astype(int).T > 0
        for split, threads in (("n", 1), ("n", 2), ("k", 2)):
            with dispatch.forced(Config("dots", tier, kc=kc, split=split, threads=threads)), fastgemm.threads(2):
                got = fastgemm.matmul(bytes_a.view("?"), bytes_b.view("?").T)
            assert np.array_equal(got.view("u1"), want.view("u1"))


def test_no_flags_from_whole_numbers() -> None:
    a = np.full((40, 40), -(2**63), "i8")
    with np.errstate(all="raise"):
        assert not fastgemm.matmul(a, a).any()


@hypothesis.settings(deadline=None, max_examples=150)
@hypothesis.given(st.data(), st.sampled_from(WHOLE[:9]))
def test_any_whole_numbers(data: st.DataObject, dtype: str) -> None:
    m, n, k = (data.draw(st.integers(1, 20)) for _ in range(3))
    a, b = data.draw(hnp.arrays(dtype, (m, k))), data.draw(hnp.arrays(dtype, (k, n)))
    assert np.array_equal(fastgemm.matmul(a, b), np.matmul(a, b))


# ---- halves ---------------------------------------------------------------------------------------------------------

HALVES = ("float16", "bfloat16")


def bound(a: np.ndarray, b: np.ndarray, half: np.dtype, *, rounded: bool) -> np.ndarray:
    """What a float32 sum of K products may be off, and the rounding to a half."""
    size = np.abs(a.astype("f8")) @ np.abs(b.astype("f8"))
    info = ml_dtypes.finfo(half)
    once = float(info.eps) / 2 * size + float(info.smallest_subnormal) if rounded else 0.0
    return a.shape[-1] * 2.0**-23 * size + once


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("letters", ["nn", "nt", "tn", "gg"])
def test_halves(dtype: str, letters: str) -> None:
    half = dtype_of(dtype)
    rng = np.random.default_rng(5)
    for m, n, k in SHAPES:
        a = laid(rng.standard_normal((m, k)).astype(half), letters[0])
        b = laid(rng.standard_normal((k, n)).astype(half), letters[1])
        got = fastgemm.matmul(a, b)
        # NumPy knows no bfloat16, and multiplies as float32.
        assert got.dtype == (half if dtype == "float16" else np.float32)
        assert got.shape == (m, n)
        assert np.all(np.abs(got.astype("f8") - a.astype("f8") @ b.astype("f8")) <= bound(a, b, half, rounded=True))


@pytest.mark.parametrize("dtype", HALVES[:1])
def test_a_half_is_rounded_once(dtype: str) -> None:
    """Sums over several blocks of k stay in float32, by every way of cutting k."""
    half = dtype_of(dtype)
    row = registry.dtype(dtype)
    k = 3000
    a, b = np.ones((9, k), half), np.ones((k, 40), half)
    for tier in TIERS:
        if not registry.supported(row, tier):
            continue
        mr, nr = registry.tiles(row, tier)[0]
        for kc, split, threads in itertools.product((64, 4096), ("m", "n", "k"), (1, 2)):
            config = Config("gemm", tier.name, mr, nr, kc=kc, nc=nr, pack="ab", split=split, threads=threads)
            with dispatch.forced(config), fastgemm.threads(threads):
                assert np.all(fastgemm.matmul(a, b) == np.array(k, half))


@pytest.mark.skipif(not any(t.level > 2 for t in TIERS), reason="no F16C")
def test_float16_specials() -> None:
    """Infinities, NaN, subnormals and the flags that NumPy raises for them."""
    tiny, big = np.float16(6e-8), np.float16(65504)
    cases = [
        (np.full((4, 4), big), np.full((4, 4), big)),
        (np.full((4, 4), tiny), np.eye(4, dtype="e")),
        (np.full((4, 4), tiny), np.full((4, 4), np.float16(0.1))),
        (np.array([[np.inf, 1]], "e"), np.array([[0], [1]], "e")),
        (np.array([[np.nan, 1]], "e"), np.array([[0], [1]], "e")),
        (np.array([[np.inf, 1]], "e"), np.array([[1], [1]], "e")),
    ]
    for a, b in cases:
        same(lambda f, a=a, b=b: f(a, b))


def test_bfloat16_by_float32(child: Child) -> None:
    """FASTGEMM_BF16=exact leaves the CPU's bfloat16 dot products alone: subnormal numbers count."""
    code = (
        "import ml_dtypes, numpy as np, fastgemm\n"
        "from fastgemm import kernels\n"
        "a = np.full((4, 64), 1e-39, ml_dtypes.bfloat16); b = np.ones((64, 4), ml_dtypes.bfloat16)\n"
        "got = fastgemm.matmul(a, b)\n"
        "print(np.allclose(got, 64 * float(a[0, 0]), rtol=1e-6, atol=0), kernels.has('bf16', 'v4'))"
    )
    assert child(code, FASTGEMM_BF16="exact").stdout.split() == ["True", "False"]


def test_a_word_that_is_none_for_bfloat16_is_refused(child: Child) -> None:
    """Before the first product, which would not be computed as it was meant."""
    done = child("import numpy as np, fastgemm; fastgemm.matmul(np.eye(2), np.eye(2))", status=1, FASTGEMM_BF16="Exact")
    assert "FASTGEMM_BF16='Exact' is not 'exact'" in done.stderr


@pytest.mark.parametrize("name", ["i8_i32", "bf16"])
def test_short_dot_products_are_not_packed(name: str) -> None:
    """Beside the instructions of a dot product: by how much there is to multiply."""
    tier = registry.isa("v4")
    for sizes, taken in (((9, 9, 9), True), ((4, 16, 10), True), ((8, 40, 4), True), ((20, 20, 20), False)):
        for batch in (1, 1000):
            problem = Problem(name, *sizes, batch)
            assert (family_small.config(problem, tier, dots=True) is not None) == taken, problem
