"""Products whose B is larger than caches: the kernels that fetch it ahead from memory, on every tier."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from oracle import dtype_of, normal

from fastgemm import cpu, kernels, registry
from fastgemm.chain import SCRATCH, Chain, Product, Ref, Rows
from fastgemm.heuristic import rules
from fastgemm.plan import Plan
from fastgemm.problem import Config, Problem

BYTES = 3 << 20  # more than what plans take to come from memory beside so little of L3


@pytest.fixture(autouse=True)
def caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """An L3 that memory begins behind early."""
    monkeypatch.setattr(cpu, "caches", lambda: cpu.Caches(32 << 10, 1 << 20, 4 << 20))


def small(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Integers from -3 to 3, of which all sums here are exact."""
    period = np.where(np.arange(1001) % 11 < 7, 0, np.arange(1001) % 7 - 3).astype(dtype)
    return np.resize(period, shape)


@pytest.mark.parametrize("tier", [tier.name for tier in kernels.runnable()])
@pytest.mark.parametrize("name", ["f32", "f64", "i32", "i16", "c64", "f16_f32", "i8_i32"])
def test_from_memory(name: str, tier: str) -> None:
    """Odd sizes, adjacent columns and adjacent rows, a gap between them, backwards; one row, few in 1 to 3 passes."""
    isa, row = registry.isa(tier), registry.dtype(name)
    kind = dtype_of(row.numpy)
    long = BYTES // (kind.itemsize * 101) + 1
    done = set()
    for m, across, letter, (gap, step) in itertools.product((1, 3, 7, 11), (False, True), "nt", [(0, 1), (5, -1)]):
        k, n = (101, long) if across else (long, 101)
        rows, columns = (k, n) if letter == "n" else (n, k)
        b = small((rows, columns + gap), kind)[::step, :columns]
        b = b if letter == "n" else b.T
        a = small((m, k), kind)
        problem = Problem(name, m, n, k, layout="n" + letter)
        config = rules.config(problem, isa)
        kernels.load(tier)
        wide = np.dtype("c16" if kind.kind == "c" else "f8")
        want = (a.astype(wide) @ b.astype(wide)).astype(dtype_of(row.result or row.numpy))
        plan = Plan(problem, config)
        assert np.array_equal(plan.run(a, b), want), (problem, config, gap, step)
        assert config.family == "numpy" or plan.facts["far"] == (True, True)
        done.add(config.family)
    if registry.supported(row, isa):
        assert "gemv" in done
        assert "numpy" not in done
    if name in ("f32", "f64", "i32"):
        assert "dots" in done


@pytest.mark.parametrize("tier", [tier.name for tier in kernels.runnable()])
@pytest.mark.parametrize("name", [row.name for row in registry.DTYPES if registry.strips("gemv", row)])
def test_strips(name: str, tier: str) -> None:
    """Few rows, as many as there are kernels for, in strips and pieces of odd lengths, with gaps, and backwards."""
    isa, row = registry.isa(tier), registry.dtype(name)
    if not registry.supported(row, isa):
        pytest.skip(f"no kernels of {name} for {tier}")
    kernels.load(tier)
    kind, k = dtype_of(row.numpy), 45
    n = BYTES // (k * kind.itemsize) + 1
    for m, (gap, step), threads in itertools.product(range(2, registry.STRIP_ROWS + 1), [(0, 1), (7, -1)], (1, 2)):
        a, b = small((m, k), kind), small((k, n + gap), kind)[::step, :n]
        plan = Plan(Problem(name, m, n, k, threads=threads), Config("gemv", tier, nc=5000, split="n", threads=threads))
        assert plan.facts["far"] == (True, True)
        want = (a.astype("f8") @ b.astype("f8")).astype(dtype_of(row.result or row.numpy))
        assert np.array_equal(plan.run(a, b), want), (m, gap, step, threads)


@pytest.mark.parametrize("tier", [tier.name for tier in kernels.runnable()])
def test_exchanged(tier: str) -> None:
    """Of two to four columns, computed as rows of the transposed output, A is what comes from memory."""
    a = small((BYTES // 800 + 1, 200), np.dtype("f4"))
    b = small((200, 3), np.dtype("f4"))
    problem = Problem("f32", len(a), 3, 200)
    kernels.load(tier)
    plan = Plan(problem, Config("dots", tier))
    assert plan.facts["exchanged"]
    assert plan.facts["far"] == (True, True)
    assert np.array_equal(plan.run(a, b), a @ b)


@pytest.mark.parametrize("tier", [tier.name for tier in kernels.runnable()])
def test_shares_of_k(tier: str) -> None:
    """A thread's part of k is smaller than what memory begins behind; all of B is not."""
    b = small((BYTES // 2000 + 1, 500), np.dtype("f4"))
    a = small((1, len(b)), np.dtype("f4"))
    problem = Problem("f32", 1, 500, len(b), threads=2)
    kernels.load(tier)
    plan = Plan(problem, Config("gemv", tier, split="k", threads=2))
    assert plan.facts["far"] == (True, True)
    assert np.array_equal(plan.run(a, b), a @ b)


@pytest.mark.parametrize("tier", [tier.name for tier in kernels.runnable()])
@pytest.mark.parametrize("letter", "nt")
def test_stack_from_memory(letter: str, tier: str) -> None:
    """Each B is small, all of them are not; and one B for all of the stack."""
    count = BYTES // (4 * 75 * 75) + 1
    b = small((count, 75, 75), np.dtype("f4"))
    b = b if letter == "n" else b.swapaxes(1, 2)
    a = small((count, 1, 75), np.dtype("f4"))
    problem = Problem("f32", 1, 75, 75, count, layout="n" + letter)
    kernels.load(tier)
    plan = Plan(problem, rules.config(problem, registry.isa(tier)))
    assert plan.facts["far"] == (False, True)
    for each in (b, np.broadcast_to(b[:1], b.shape)):
        assert np.array_equal(plan.run(a, each), np.einsum("bik,bkj->bij", a, each))


def stack(letter: str, count: int, rows: int, columns: int, kind: np.dtype, gap: int, step: int) -> np.ndarray:
    """So many rows x columns, with a gap behind each row of memory, from the last one back if step is -1."""
    rows, columns = (rows, columns) if letter == "n" else (columns, rows)
    x = small((count, rows, columns + gap), kind)[:, ::step, :columns]
    return x if letter == "n" else x.swapaxes(1, 2)


@pytest.mark.parametrize("tier", [tier.name for tier in kernels.runnable()])
@pytest.mark.parametrize("name", ["f32", "f64", "c64", "bf16_f32", "i8_i32", "i32"])
def test_items_from_memory(name: str, tier: str) -> None:
    """Tiles fetch a stack's next item, with gaps, backwards, turned over, or one operand alone; the last has none."""
    isa, row = registry.isa(tier), registry.dtype(name)
    if not registry.supported(row, isa):
        pytest.skip(f"no kernels of {name} for {tier}")
    kind = dtype_of(row.numpy)
    wide = np.dtype("c16" if kind.kind == "c" else "f8")
    m, n, k = 37, 90, 70
    count = BYTES // (kind.itemsize * (m + n) * k) + 2
    mr, nr = registry.tiles(row, isa)[-1]
    config = Config("gemm", tier, mr, nr, pack="ab")
    kernels.load(tier)
    for layout, gap, step in itertools.product(("nn", "nt", "tn", "tt"), (0, 9), (1, -1)):
        a, b = stack(layout[0], count, m, k, kind, gap, step), stack(layout[1], count, k, n, kind, gap, step)
        plan = Plan(Problem(name, m, n, k, count, layout=layout), config)
        assert plan.facts["far_items"] == 2
        for left, right in ((a, b), (np.broadcast_to(a[:1], a.shape), b), (a, np.broadcast_to(b[:1], b.shape))):
            want = (left.astype(wide) @ right.astype(wide)).astype(dtype_of(row.result or row.numpy))
            assert np.array_equal(plan.run(left, right), want), (layout, gap, step)
    assert Plan(Problem(name, m, n, k, 3), config).facts["far_items"] == 0


@pytest.mark.parametrize("tier", [tier.name for tier in kernels.runnable()])
@pytest.mark.parametrize("heads_last", [False, True])
def test_attention_from_memory(heads_last: bool, tier: str, on_tier: Callable[[str], registry.Isa]) -> None:
    """A chain's tiles fetch the next head, whose rows have gaps or none, and blocks of rows of the same head."""
    on_tier(tier)
    batch, heads, length, features, block = 16, 6, 75, 44, 30
    order = (batch, length, heads, features) if heads_last else (batch, heads, length, features)
    q, k, v = (normal(order, np.float32, seed) for seed in range(3))
    assert q.nbytes + k.nbytes + v.nbytes > BYTES
    out = np.empty_like(q)
    lies = [x.swapaxes(1, 2) if heads_last else x for x in (q, k, v, out)]

    def ref(slot: int, moves: bool) -> Ref:
        each, head, row, column = lies[slot].strides
        return Ref(slot, "float32", 0, (each, head, block * row * moves), row, column)

    keys = ref(1, False)
    scores = Ref(SCRATCH, "float32", 0, (), 4 * length, 4)
    members = (
        Product(length, features, ref(0, True), keys._replace(row=keys.column, column=keys.row), scores),
        Rows("softmax", length, scores, scores, {"scale": 0.3}),
        Product(features, length, scores, ref(2, False), ref(3, True)),
    )
    made = Chain(members, (batch, heads, -(-length // block)), length, block, 4 * block * length)
    for threads in (1, 2):
        out.fill(0)
        made.run([q, k, v, out], threads)
        left, right, values = (x.astype("f8") for x in lies[:3])
        shares = np.exp(0.3 * (left @ right.swapaxes(2, 3)))
        want = shares / shares.sum(-1, keepdims=True) @ values
        np.testing.assert_allclose(lies[3], want, rtol=0, atol=1e-5)
