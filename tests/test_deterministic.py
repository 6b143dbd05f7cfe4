"""deterministic(): the same bits whatever the threads and the database; and without it, on every run of a plan."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest

import fastgemm
from fastgemm import dispatch, registry
from fastgemm.heuristic import rules
from fastgemm.problem import Problem

# Of every family, with every split; those with a letter have B's columns, not its rows, adjacent.
SHAPES: list[tuple[Any, ...]] = [
    (300, 200, 5000), (16, 16, 100_000), (1, 500, 3000), (500, 1, 3000), (40, 4000, 1200), (700, 700, 700),
    (2, 256, 20_000), (4, 1000, 3000), (8, 800, 800), (14, 700, 900), (1, 64, 1500),
    (3, 600, 600, "t"), (600, 10, 784, "t"), (30, 30, 20_000, "t"), (1, 20_000, 30, "t"), (19, 512, 512, "t"),
]  # fmt: skip


def operands(m: int, n: int, k: int, turned: str = "", dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(m + n + k)
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    return a, b.T.copy().T if turned else b


@pytest.mark.parametrize("shape", SHAPES)
def test_thread_count_changes_no_bit(shape: tuple[Any, ...]) -> None:
    a, b = operands(*shape)
    results = []
    with fastgemm.deterministic():
        for count in (1, 2, 3, 5):
            with fastgemm.threads(count):
                results.append(fastgemm.matmul(a, b))
    assert all((r == results[0]).all() for r in results[1:])


@pytest.mark.parametrize("shape", SHAPES)
def test_address_changes_no_bit(shape: tuple[Any, ...]) -> None:
    """The same numbers at another alignment: kernels may peel, but not reorder a sum."""
    a, b = operands(*shape)
    one = fastgemm.matmul(a, b)
    for shift in (1, 3, 7):
        moved = []
        for x in (a, b):
            room = np.empty(x.size + shift, x.dtype)
            at = room[shift:].reshape(x.shape, order="C" if x.flags.c_contiguous else "F")
            at[:] = x
            moved.append(at)
        assert (fastgemm.matmul(*moved) == one).all()


def test_same_bits_on_every_run() -> None:
    a, b = operands(16, 16, 100_000)
    one = fastgemm.matmul(a, b)
    assert all((fastgemm.matmul(a, b) == one).all() for _ in range(20))


def test_tuned_records_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def tuned() -> None:
        raise AssertionError("the database was asked")

    monkeypatch.setattr(dispatch, "tuned", tuned)
    with fastgemm.deterministic():
        found = fastgemm.explain(m=64, n=64, k=64)
    assert found.rung == "heuristic"
    assert "deterministic" in found.why


def test_parts_of_k_are_never_shared_by_threads() -> None:
    problem = Problem("f32", 16, 16, 100_000, threads=2)
    if rules.config(problem).split != "k":
        pytest.skip("the rules of this CPU do not split k")
    with fastgemm.deterministic():
        assert dispatch.resolve(problem).config.split != "k"


def test_from_the_environment(child) -> None:
    code = "import fastgemm; print('deterministic' in fastgemm.explain(m=9, n=9, k=9).why)"
    for text, said in (("1", "True"), ("0", "False"), ("Yes", "True"), ("false", "False"), ("", "False")):
        done = child(code, FASTGEMM_DETERMINISTIC=text)
        assert (done.stdout.strip(), done.stderr) == (said, "")
    done = child(code, FASTGEMM_DETERMINISTIC="maybe")
    assert done.stdout.strip() == "False"
    assert "FASTGEMM_DETERMINISTIC='maybe' is neither 0 nor 1" in done.stderr


@pytest.mark.parametrize("dt", registry.DTYPES, ids=lambda row: row.name)
def test_stacks_that_share_b_are_one_product(dt: registry.DType) -> None:
    rng, kind = np.random.default_rng(0), oracle.dtype_of(dt.numpy)
    a = rng.integers(-4, 5, (6, 5, 7)).astype(kind)
    b = rng.integers(-4, 5, (7, 9)).astype(kind)
    out = np.zeros((6, 5, 18), kind)[:, :, ::2]
    for left, right in [(a, b), (a, b[:, 0]), (a[::2], b), (a[:, ::-1], b), (a[:, :, ::-1], b[::-1])]:
        assert (fastgemm.matmul(left, right) == np.matmul(left, right)).all()
    assert (fastgemm.matmul(a, b, out=out) == np.matmul(a, b)).all()


def test_blocks_may_overlap() -> None:
    """In several threads: the first that ends does not end the other, and the last does."""
    first, second = fastgemm.deterministic(), fastgemm.deterministic()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert dispatch.is_deterministic()
    second.__exit__(None, None, None)
    assert not dispatch.is_deterministic()
