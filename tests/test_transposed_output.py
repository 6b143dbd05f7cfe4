"""Few rows of A against a B given transposed: dot products, or the transposed output, are what is computed."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from conftest import Child

import fastgemm
from fastgemm import cpu, dispatch, introspect, kernels, problem, registry
from fastgemm.driver import _plan
from fastgemm.heuristic import family_dots, half_narrow, ways
from fastgemm.plan import Plan
from fastgemm.problem import Config, Problem

SIZES = [
    (2, 64, 64), (3, 80, 130), (4, 40, 70), (5, 33, 64), (9, 130, 65), (10, 70, 66),
    (12, 50, 100), (13, 60, 64), (17, 200, 100), (80, 330, 64), (81, 330, 64), (2, 200, 70), (4, 200, 300),
]  # fmt: skip


def integers(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    made = np.random.default_rng(seed).integers(-4, 5, shape)
    return made.astype(dtype) if np.dtype(dtype).kind != "c" else (made + 1j * made[::-1]).astype(dtype)


# Every type whose tiles are turned over, and two that are not.
@pytest.mark.parametrize("dtype", [*(row.numpy for row in registry.DTYPES if row.turns), "complex128", "int16"])
@pytest.mark.parametrize("threads", [1, 2])
def test_answers(dtype: str, threads: int) -> None:
    for m, n, k in SIZES:
        a, weight = integers((m, k), dtype, 1), integers((n, k), dtype, 2)
        want = a @ weight.T
        with fastgemm.threads(threads):
            assert np.array_equal(fastgemm.matmul(a, weight.T), want), (m, n, k)
            assert np.array_equal(fastgemm.matmul(weight, a.T), want.T), (n, m, k)
            assert np.array_equal(fastgemm.matmul(weight, np.ascontiguousarray(a.T)), want.T), (n, m, k)
            for out in (
                np.full((m, n), 7, dtype),
                np.full((n, m), 7, dtype).T,
                np.full((m, 2 * n), 7, dtype)[:, ::2],
                np.full((m, n + 3), 7, dtype)[:, 1:-2],
                np.full((n + 1, m + 2), 7, dtype)[1:, 1:-1].T,
            ):
                sea = out.base if out.base is not None else out
                outside = sea.size - out.size
                assert np.array_equal(fastgemm.matmul(a, weight.T, out=out), want), (m, n, k, out.strides)
                assert (sea == 7).sum() - (out == 7).sum() == outside
            stack = np.stack([a, a[::-1]])
            assert np.array_equal(fastgemm.matmul(stack, weight.T), stack @ weight.T)
            c = integers((m, n), dtype, 3)
            got = fastgemm.gemm(a, weight.T, alpha=2, beta=3, c=c.copy())
            assert np.array_equal(got, (2 * want + 3 * c).astype(dtype))
            for columns in (a.T, np.ascontiguousarray(a.T)):
                got = fastgemm.gemm(weight, columns, alpha=2, beta=3, c=c.T.copy())
                assert np.array_equal(got, (2 * want + 3 * c).astype(dtype).T)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "complex64"])
@pytest.mark.parametrize("threads", [1, 2])
def test_few_columns_of_operands_both_transposed(dtype: str, threads: int) -> None:
    # Few steps, of which C.T is computed or B zipped as short rows, alone and in stacks; nothing beside C is touched.
    for n, m, k in itertools.product((2, 3, 4, 5, 7, 8, 9, 17), (2, 5, 7, 8, 15, 16, 33), (1, 2, 7, 8, 16, 17, 31, 63)):
        a, b = integers((9, k, m), dtype, 1), integers((9, n, k), dtype, 2)
        left, right = a.swapaxes(1, 2), b.swapaxes(1, 2)
        want = np.einsum("bkm,bnk->bmn", a, b)
        sea = np.full((9, m + 1, n + 2), 7777, dtype)
        with fastgemm.threads(threads):
            assert np.array_equal(fastgemm.matmul(left, right, out=sea[:, 1:, 1:-1]), want), (m, n, k)
            assert np.count_nonzero(sea == 7777) == sea.size - want.size
            assert np.array_equal(fastgemm.matmul(left[0], right[0]), want[0]), (m, n, k)
            rows = np.ascontiguousarray(left)
            assert np.array_equal(fastgemm.matmul(rows, right), want), (m, n, k)


def test_zipped_rows_make_no_numbers_of_their_own() -> None:
    """Large numbers of one row of B meet only their own column of A: nothing overflows that is not asked for."""
    a, b = np.zeros((3, 9, 5), "f4"), np.zeros((3, 3, 9), "f4")
    a[:, 4], b[:, :, 5] = 1e38, 1e38
    with np.errstate(all="raise"):
        assert not fastgemm.matmul(a.swapaxes(1, 2), b.swapaxes(1, 2)).any()
        assert not fastgemm.matmul(np.ascontiguousarray(a.swapaxes(1, 2)), b.swapaxes(1, 2)).any()


@pytest.mark.parametrize(("size", "most"), [(4, 15), (8, 7)])
def test_which_brief_products_are_turned(size: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways, "brief_bytes", lambda: 64)

    def turned(m: int, n: int, k: int, name: str = {4: "f32", 8: "f64"}[size]) -> bool:
        return ways.turns(Problem(name, m, n, k, layout="tt"))

    assert [m for m in range(1, 20) if turned(m, 2, 20)] == list(range(2, most + 1))
    assert [n for n in range(1, 20) if turned(5, n, 20)] == [2, 3, 4]
    assert [k for k in (1, 2, 7, 8) if turned(5, 3, k)] == [8]
    assert [k for k in (1, 2, 7, 8) if turned(5, 4, k)] == [2, 7, 8]
    assert not turned(3, 2, 20, "c64")
    monkeypatch.setattr(ways, "brief_bytes", lambda: 0)
    assert not turned(5, 2, 20)


def few_columns(name: str, tier: str, m: int, n: int, k: int, layout: str) -> None:
    """They become rows of the transposed output, whatever blocks a record asks for."""
    row, isa = registry.dtype(name), registry.isa(tier)
    a = integers((m, k + 3), row.numpy, 1)[::-1, 2:-1]
    b = integers((k, n + 1), row.numpy, 2)[:, 1:] if layout == "nn" else integers((n, k + 1), row.numpy, 2)[:, :k].T
    wanted = Problem(name, m, n, k, layout=layout)
    want = (a.astype("f8") @ b.astype("f8")).astype(row.result or row.numpy)
    for mc, nc, kc in ((1, 1, 16), (7, 3, 1000), (2000, 96, 64)):
        config = Config("dots", tier, mc=mc, nc=nc, kc=kc)
        plan = Plan(wanted, config)
        assert plan.facts["exchanged"] == (registry.accumulators(row, isa) == 1 and row.group == 1)
        assert np.array_equal(plan.run(a, b), want), (wanted, config)
        for out in (np.zeros((m + 1, n + 2), want.dtype)[1:, 1:-1], np.zeros((m, n), want.dtype, "F")):
            assert np.array_equal(plan.run(a, b, out), want), (wanted, config)
            assert np.count_nonzero(out.base if out.base is not None else out) == np.count_nonzero(want)
        for split in ("n", "m", "k"):
            team = config.replace(split=split, threads=2)
            assert np.array_equal(Plan(replace(wanted, threads=2), team).run(a, b), want), (wanted, team)


def load(name: str, tier: str) -> None:
    row, isa = registry.dtype(name), registry.isa(tier)
    if not registry.supported(row, isa) or not registry.computes("dots", row):
        pytest.skip("no such kernels")
    kernels.load(tier)


@pytest.mark.parametrize("tier", [tier.name for tier in kernels.runnable()])
@pytest.mark.parametrize("name", [row.name for row in registry.DTYPES if row.parts == 1 and not row.converts])
def test_few_columns_in_any_blocks(name: str, tier: str) -> None:
    load(name, tier)
    for n, layout in itertools.product((2, 3, 4), ("nn", "nt")):
        few_columns(name, tier, 131, n, 150 + n % 2, layout)


@pytest.mark.parametrize("tier", [tier.name for tier in kernels.runnable()])
@pytest.mark.parametrize("name", ["f32", "f64", "i32", "i64"])
def test_uneven_columns_where_vectors_are_halves(name: str, tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    load(name, tier)
    monkeypatch.setattr(ways, "halved_bytes", lambda: registry.isa(tier).vector_bytes)
    for n in (5, 9, 13, 20):
        few_columns(name, tier, 70, n, 300, "nt")
    if name in ("f32", "i32"):
        few_columns(name, tier, 70, 16, 1024, "nt")
    tried = Problem(name, 100, 6, 300, layout="nt")
    assert not ways.exchanges(tried, registry.isa(tier))
    assert not ways.exchanges(replace(tried, n=13, k=200), registry.isa(tier))
    assert not ways.exchanges(replace(tried, n=5, m=63), registry.isa(tier))
    assert not ways.exchanges(replace(tried, n=16), registry.isa(tier))
    assert ways.exchanges(replace(tried, n=16, k=1024), registry.isa(tier)) == (name in ("f32", "i32"))
    assert ways.exchanges(replace(tried, n=8), registry.isa(tier)) == (name == "i32")


@pytest.mark.parametrize("tier", [tier.name for tier in kernels.runnable()])
@pytest.mark.parametrize("name", ["f32", "f64", "i32", "i64"])
def test_uneven_columns_where_vectors_are_whole(name: str, tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    load(name, tier)
    for module in (ways, half_narrow):
        monkeypatch.setattr(module, "halved_bytes", lambda: 0)
    used, four = registry.isa(tier), registry.dtype(name).itemsize == 4
    exchanged = {
        ("nn", False): [*range(5, 15), *range(17, 23)] if four else [5, 6, 9, 10],
        ("nt", False): [*range(7, 11)] if four else [9, 10],
        ("nt", True): [*range(5, 13), 17, 19, 20, 21] if four else [5, 6, *range(9, 13), 17, 18],
    }
    for (layout, far), columns in exchanged.items():
        monkeypatch.setattr(ways, "far_bytes", lambda far=far: 0 if far else 1 << 40)
        tried = Problem(name, 400, 5, 300, layout=layout)
        taken = [n for n in range(5, 30) if ways.exchanges(replace(tried, n=n), used)]
        assert taken == (columns if used.vector_bytes == 64 else [])
        for n in taken[::3]:
            assert not ways.exchanges(replace(tried, n=n, m=63), used)
            assert not ways.exchanges(replace(tried, n=n, k=30), used)
            config = family_dots.config(replace(tried, n=n), used)
            assert config is not None
            told = introspect.Explanation(replace(tried, n=n), dispatch.Decision(config, "forced", ""))
            assert f"dots_{name}_{tier}_4x" in repr(told)
            few_columns(name, tier, 150, n, 300, layout)


@pytest.mark.parametrize("name", ["f32", "f64", "c64", "c128", "i32", "i64", "i16", "f16"])
@pytest.mark.parametrize(("m", "n"), [(70, 3), (131, 4), (5, 40)])
def test_steps_of_any_stride(name: str, m: int, n: int) -> None:
    """Few steps of k, and one, whose columns have any stride: what is forced or recorded must not care."""
    row = registry.dtype(name)
    tier = kernels.active_isa()
    if tier is None or not registry.supported(row, tier):
        pytest.skip("no such kernels")
    for k in (1, 2, 3, 4):
        a, b = integers((m, 2 * k), row.numpy, 1)[:, ::2], integers((n, 2 * k), row.numpy, 2)[:, ::2].T
        want = a @ b
        for left, right in ((a, b), (np.ascontiguousarray(a), np.asfortranarray(b)), (np.asfortranarray(a), b)):
            for out in (np.zeros((m, n), want.dtype), np.zeros((m, n), want.dtype, "F")):
                with dispatch.forced(Config("dots", tier.name)):
                    fastgemm.matmul(left, right, out=out)
                assert np.array_equal(out, want), (k, left.strides, right.strides, out.strides)


@pytest.mark.parametrize("n", [3, 9])
def test_few_columns_of_layers(n: int) -> None:
    """What follows a product counts rows and columns of the output as they are."""
    x, weight, bias = integers((300, 96), "f4", 1), integers((96, n), "f4", 2), integers((n,), "f4", 3)
    residual = integers((300, n), "f4", 4)
    want = np.maximum(x @ weight + bias + residual, 0)
    for w in (weight, np.asfortranarray(weight)):
        assert np.array_equal(fastgemm.linear(x, w.T, bias, activation="relu", residual=residual), want)


def test_special_values() -> None:
    a, weight = np.ones((6, 70), "f4"), np.ones((50, 70), "f4")
    a[2, 3], weight[7, 11] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(fastgemm.matmul(a, weight.T), a @ weight.T)


THIN = [
    (32, 9, 96), (200, 14, 100), (200, 15, 100), (64, 20, 96), (31, 9, 96), (32, 9, 47), (32, 9, 48), (40, 7, 300),
    (40, 5, 300), (40, 8, 300), (9, 300, 200),
]  # fmt: skip


@pytest.mark.parametrize(("m", "n", "k"), [*SIZES, *THIN])
def test_explain_names_what_calls_look_up(m: int, n: int, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule stands in `problem` and, by its constants, in _call: they must say the same."""
    seen = []
    plan_for = dispatch.plan_for
    monkeypatch.setattr(dispatch, "plan_for", lambda found: seen.append(found) or plan_for(found))
    for dtype in ("f4", "c16", "i8", "i2"):
        a, b = np.ones((m, k), dtype), np.ones((n, k), dtype).T
        _plan.forget_plans()
        fastgemm.matmul(a, b)
        assert seen.pop() == fastgemm.explain(a, b).problem
        # A given transposed, and an output by columns, of one product and a stack.
        for left in (np.ones((k, m), dtype).T, np.ones((2, k, m), dtype).swapaxes(1, 2)):
            stack = left.shape[:-2]
            for right in (np.ones((*stack, k, n), dtype), np.ones((*stack, n, k), dtype).swapaxes(-1, -2)):
                _plan.forget_plans()
                fastgemm.matmul(left, right)
                assert seen.pop() == fastgemm.explain(left, right).problem
                other = np.empty((*stack, n, m), dtype).swapaxes(-1, -2)
                _plan.forget_plans()
                fastgemm.matmul(left, right, out=other)
                exchanged = fastgemm.explain(right.swapaxes(-1, -2), left.swapaxes(-1, -2)).problem
                assert seen.pop() == exchanged


def test_thin_outputs() -> None:
    """Rows of C that leave part of a line empty, beside an A given transposed: the other output is computed."""
    rng = np.random.default_rng(0)
    for dtype, (m, n, k), batch in itertools.product(
        ("f4", "f8", "i4", "i8", "c8"), [(32, 9, 96), (70, 14, 131), (150, 17, 97), (41, 5, 200), (33, 10, 300)], (1, 3)
    ):
        stack = (batch,) if batch > 1 else ()
        a = rng.integers(-4, 5, (*stack, k, m)).astype(dtype).swapaxes(-1, -2)
        for b in (rng.integers(-4, 5, (*stack, k, n)), rng.integers(-4, 5, (*stack, n, k)).swapaxes(-1, -2)):
            b = b.astype(dtype)
            want = np.matmul(a, b)
            memory = np.full((*stack, m, n + 3), 77, dtype)
            for out in (np.empty_like(want), memory[..., 1:-2], np.empty((*stack, n, m), dtype).swapaxes(-1, -2)):
                assert np.array_equal(fastgemm.matmul(a, b, out=out), want), (dtype, m, n, k, batch)
            assert np.all(memory[..., [0, -2, -1]] == 77)


def letters(m: int, n: int, layout: str = "nt", dtype: str = "f32", k: int = 500) -> tuple[int, int, int]:
    found = problem.normalised(Problem(dtype, m, n, k, layout=layout))
    return found.m, found.n, found.batch


@pytest.fixture(params=["short", "whole", "halves", "small L1"])
def vectors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A CPU whose vectors have 32 bytes, or 64 that it computes whole, beside a small L1 too, or in two halves."""
    monkeypatch.setattr(cpu, "small_l1", lambda tier: request.param == "small L1")
    monkeypatch.setattr(ways, "halved_bytes", lambda: 64 if request.param == "halves" else 0)
    monkeypatch.setattr(ways, "filled_bytes", lambda: 0 if request.param == "short" else 64)
    return request.param


def test_the_rule(vectors: str) -> None:
    assert letters(30, 512) == (512, 30, 1)
    assert letters(8, 512) == (8, 512, 1)
    assert letters(40, 9, "tn") == letters(40, 9, "tt") == (9, 40, 1)
    assert letters(40, 15, "tn") == (40, 15, 1)
    assert letters(40, 20, "tn") == (20, 40, 1)
    assert letters(9, 40, "tn") == (9, 40, 1)
    assert letters(40, 5, "tn", "f64") == letters(40, 5, "tn", "i64") == (5, 40, 1)
    assert letters(31, 9, "tn") == letters(31, 9, "tn", "c128") == letters(31, 9, "tn", "f16") == (31, 9, 1)
    assert letters(25, 512, "nn") == letters(25, 512, "tn") == letters(25, 512, dtype="f16") == (25, 512, 1)
    assert letters(81, 512) == (81, 512, 1)
    assert letters(80, 319) == (80, 319, 1)
    # Rows that fill long vectors of the transposed output badly.
    short = vectors == "short"
    small = vectors == "small L1"
    turned = [m for m in range(2, 70) if letters(m, 512)[0] != m]
    filled = [*range(12, 17), *range(23, 33), *range(34, 49)] if small else [15, 16, 24, *range(29, 33), *range(43, 49)]
    assert turned == ([9, *range(13, 49)] if short else filled)
    paged = [m for m in (9, 12, 13, 16) if letters(m, 512, k=2048)[0] != m]
    assert paged == ([9, 13, 16] if short else [12, 13, 16] if small else [])
    wide = [m for m in range(9, 30) if letters(m, 512, dtype="f64")[0] != m]
    halves, whole = [12, 15, 16, 22, 23, 24, 29], [*range(12, 17), *range(19, 30)]
    every = [*range(9, 30)]
    assert wide == {"short": every, "whole": whole, "halves": halves, "small L1": every}[vectors]


def test_rows_that_are_not_turned_are_dot_products(vectors: str) -> None:
    """Nothing falls between the rule that calls have and the family's own."""
    for dtype, (n, k), m in itertools.product(("f32", "f64", "i32", "c64"), [(512, 500), (700, 64)], range(9, 81)):
        tried = Problem(dtype, m, n, k, layout="nt")
        if ways.by_dots(tried):
            assert problem.normalised(tried).m == m
            assert family_dots.config(tried, registry.isa("v4")).family == "dots", tried
    assert ways.by_dots(Problem("f32", 33, 512, 500, layout="nt")) == (vectors != "short")


CALLS = """
import numpy as np, fastgemm
from fastgemm import cpu, dispatch
from fastgemm.heuristic import ways
cpu.halves = lambda tier: tier.vector_bytes == {bytes}
cpu.caches = lambda: cpu.Caches({l1d} << 10, 1 << 20, 32 << 20)
seen, plan_for = [], dispatch.plan_for
dispatch.plan_for = lambda found: seen.append(found) or plan_for(found)
for dtype in ("f4", "f8", "i4", "c8", "c16"):
    for k in (100, 1024):
        for m in range(2, 90):
            a, b = np.ones((m, k), dtype), np.ones((360, k), dtype).T
            fastgemm.matmul(a, b)
            found = seen.pop()
            assert found == fastgemm.explain(a, b).problem, found
assert ways.halved_bytes() == {bytes}
"""


@pytest.mark.parametrize("l1d", [32, 48])
@pytest.mark.parametrize(("halves", "tier"), [(0, None), (32, None), (64, None), (0, "v2"), (0, "v3"), (0, "v4")])
def test_calls_turn_by_the_rule_on_any_cpu(child: Child, halves: int, tier: str | None, l1d: int) -> None:
    """The rule of `ways` and that of _call, which asks the CPU once; with short vectors as well."""
    runnable = kernels.runnable()
    if halves and halves not in {found.vector_bytes for found in runnable}:
        pytest.skip("no such vectors here")
    if tier and tier not in {found.name for found in runnable}:
        pytest.skip("no such tier here")
    child(CALLS.format(bytes=halves, l1d=l1d), FASTGEMM_ISA=tier, FASTGEMM_DB="none.json")
