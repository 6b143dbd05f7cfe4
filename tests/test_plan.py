"""`Plan`: what it refuses, and that one plan serves many calls and threads."""

from __future__ import annotations

import importlib.util
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from oracle import integers

import fastgemm
from fastgemm import kernels, registry
from fastgemm.plan import Plan
from fastgemm.problem import Config, Problem

pytestmark = pytest.mark.skipif(not kernels.runnable(), reason="no kernels run on this CPU")
PROBLEM = Problem("f32", 5, 7, 3)


def config(**changes: object) -> Config:
    """A configuration of the lowest tier that runs."""
    tier = kernels.runnable()[0]
    mr, nr = registry.tiles(registry.dtype("f32"), tier)[0]
    return Config("gemm", tier.name, mr, nr, pack="ab").replace(**changes)


def test_result() -> None:
    a, b = integers((5, 3), "f4", 1), integers((3, 7), "f4", 2)
    got = Plan(PROBLEM, config()).run(a, b)
    assert got.dtype == np.float32
    assert np.array_equal(got, a @ b)


def test_numpy_family() -> None:
    a, b = integers((5, 3), "f4", 1), integers((3, 7), "f4", 2)
    plan = Plan(PROBLEM, Config(family="numpy"))
    assert plan.workspace == 0
    assert np.array_equal(plan.run(a, b), a @ b)


def test_attributes() -> None:
    made = config()
    plan = Plan(PROBLEM, made)
    assert plan.problem is PROBLEM
    assert plan.config is made
    assert Plan(PROBLEM, config(pack="none")).workspace == 0
    assert 0 < Plan(PROBLEM, config(pack="b")).workspace <= plan.workspace < 1 << 16, "blocks are cut to the problem"


def test_blocks_that_would_fill_memory_do_not_fit() -> None:
    large = Problem(PROBLEM.dtype, 8000, 8000, 8000)
    assert "MiB" in (config(mc=1 << 20, kc=1 << 20, nc=1 << 20).misfit(large) or "")


@pytest.mark.parametrize(
    "changes",
    [
        {"mr": 5},
        {"nr": 17},
        {"mr": 0, "nr": 0},
        {"threads": 2},
        {"family": "gemv"},
    ],
)
def test_misfit(changes: dict[str, object]) -> None:
    """What `Config.misfit` says is what the error says."""
    bad = config(**changes)
    why = bad.misfit(PROBLEM)
    assert why is not None
    with pytest.raises(ValueError) as info:
        Plan(PROBLEM, bad)
    assert why in str(info.value)


def test_misfit_of_layout() -> None:
    with pytest.raises(ValueError, match="packed"):
        Plan(Problem("f32", 5, 7, 3, layout="nt"), config(pack="none"))


def test_tier_that_is_not_here() -> None:
    missing = [t for t in registry.ISAS if t not in kernels.runnable()]
    if not missing:
        pytest.skip("this CPU runs every tier")
    mr, nr = registry.tiles(registry.dtype("f32"), missing[0])[0]
    with pytest.raises(RuntimeError, match=missing[0].name):
        Plan(PROBLEM, Config("gemm", missing[0].name, mr, nr, pack="ab"))


A, B = np.ones((5, 3), "f4"), np.ones((3, 7), "f4")
READ_ONLY = np.empty((5, 7), "f4")
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("a", "b", "out"),
    [
        (A.astype("f8"), B, None),
        (A, B.astype("f8"), None),
        (A, B, np.empty((5, 7))),
        (A[:4], B, None),
        (A, B[:, :6], None),
        (A.T, B, None),
        (A, B, np.empty((5, 6), "f4")),
        (A[None], B, None),
        (A, B, READ_ONLY),
        (A.astype(">f4"), B, None),
        (A.tolist(), B, None),
        (np.ma.array(A), B, None),
        (A[0], B, None),
    ],
)
def test_wrong_operands(a: np.ndarray, b: np.ndarray, out: np.ndarray | None) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError)):
        Plan(PROBLEM, config()).run(a, b, out)


def test_b_in_another_layout() -> None:
    """A plan that reads B in place refuses a B that does not lie as the problem says."""
    plan = Plan(PROBLEM, config(pack="none"))
    for b in (np.asfortranarray(B), np.ones((3, 14), "f4")[:, ::2], B[:, ::-1]):
        with pytest.raises(ValueError, match=r"laid out"):
            plan.run(A, b)


def test_one_plan_from_many_threads() -> None:
    problem = Problem("f32", 60, 70, 50, threads=2)
    for made in (config(threads=2, split="m"), config(threads=2, split="n"), config()):
        plan = Plan(problem, made)

        def work(seed: int, plan: Plan = plan) -> bool:
            a, b = integers((60, 50), "f4", seed), integers((50, 70), "f4", seed + 1)
            return all(np.array_equal(plan.run(a, b), a @ b) for _ in range(10))

        with ThreadPoolExecutor(6) as pool:
            assert all(pool.map(work, range(6)))


def test_a_new_shape_looks_for_no_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is built in does not change: looking for it again was four fifths of what the first call of a shape took."""

    def look(name: str, package: str | None = None) -> None:
        raise AssertionError(f"{name} is looked for")

    monkeypatch.setattr(importlib.util, "find_spec", look)
    a, b = np.ones((23, 29), np.float32), np.ones((29, 31), np.float32)
    assert (fastgemm.matmul(a, b) == 29).all()


@pytest.mark.parametrize("name", ["f33", "", None, [], 4])
def test_what_is_no_dtype(name: object) -> None:
    with pytest.raises(ValueError, match="no kernels for dtype"):
        Problem(name, 3, 3, 3)  # type: ignore[arg-type]
