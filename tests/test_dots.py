"""Dot products of a stack and of one block: with nothing around the kernels where operands lie so, and otherwise."""

from __future__ import annotations

import numpy as np
import pytest

from fastgemm import cpu, kernels, registry
from fastgemm.heuristic import family_dots, rules
from fastgemm.plan import Plan
from fastgemm.problem import Config, Problem

ISA = kernels.active_isa()
# Of those with dot products whose numbers NumPy has, and whose results are of the same type.
NAMES = [row.name for row in registry.DTYPES if registry.computes("dots", row) and "_" not in row.name]
NAMES.remove("bf16")
# Tiles of all rows and parts of them, more columns than a tile has, than use a copy of A, and than L1 keeps; steps that
# fill vectors, that do not, and that are too few for one.
SHAPES = [
    (rows, columns, steps) for rows in (1, 2, 3, 4, 5, 9) for columns in (2, 6, 13, 40, 130) for steps in (3, 16, 75)
]


def numbers(shape: tuple[int, ...], name: str, seed: int) -> np.ndarray:
    made = np.random.default_rng(seed).integers(0, 2 if name == "bool" else 4, shape)
    return made.astype(registry.dtype(name).numpy)


@pytest.mark.skipif(ISA is None, reason="no kernels run on this CPU")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("batch", [1, 5])
def test_answers(name: str, batch: int) -> None:
    """Rows that lie apart, and begin anywhere in a line; of a C inside a larger one nothing else is written."""
    if not registry.supported(registry.dtype(name), ISA):
        pytest.skip(f"{ISA.name} has no kernels for {name}")
    for m, n, k in SHAPES:
        problem = Problem(name, m, n, k, batch=batch, layout="nt")
        config = Config("dots", ISA.name, mc=96, kc=2048, nc=1024)
        assert config.misfit(problem) is None
        a = numbers((batch, m + 1, k + 3), name, 1)[:, 1:, 1 : k + 1]
        b = numbers((batch, n, k + 1), name, 2)[:, :, 1:].swapaxes(1, 2)
        sea = np.ones((batch, m + 2, n + 3), a.dtype)
        out = sea[:, 1:-1, 2:-1]
        operands = (a, b, out) if batch > 1 else (a[0], b[0], out[0])
        plan = Plan(problem, config)
        assert plan.workspace, "kernels, and not NumPy"
        plan.run(*operands)
        assert np.array_equal(out, np.matmul(a, b)), (m, n, k)
        sea[:, 1:-1, 2:-1] = 1
        assert (sea == 1).all(), (m, n, k)


@pytest.mark.skipif(ISA is None, reason="no kernels run on this CPU")
@pytest.mark.parametrize("name", ["f32", "f64"])
@pytest.mark.parametrize("way", [(1, "n", 1), (5, "n", 1), (5, "batch", 2), (1, "m", 2), (1, "k", 2)])
def test_an_a_by_columns_is_turned_over(name: str, way: tuple[int, str, int]) -> None:
    """Each block of rows and of steps by itself; columns that lie apart."""
    batch, split, threads = way
    for m, n, k in [*SHAPES, (40, 30, 2100)]:
        problem = Problem(name, m, n, k, batch, "tt", threads)
        config = Config("dots", ISA.name, mc=16, kc=1024, nc=64, split=split, threads=threads)
        assert config.misfit(problem) is None
        a = numbers((batch, k, m + 1), name, 1)[:, :, 1:].swapaxes(1, 2)
        b = numbers((batch, n, k + 1), name, 2)[:, :, 1:].swapaxes(1, 2)
        got = Plan(problem, config).run(*((a, b) if batch > 1 else (a[0], b[0])))
        assert np.array_equal(got, np.matmul(a, b) if batch > 1 else np.matmul(a[0], b[0])), (m, n, k)


def test_what_an_a_by_columns_may_be() -> None:
    config = Config("dots", "v3", mc=16, kc=1024, nc=64)
    assert config.misfit(Problem("f64", 4, 9, 50, layout="tt")) is None
    for name, layout in (("i32", "tt"), ("c64", "tt"), ("f16", "tt"), ("f32", "tn")):
        assert "lie along k" in str(config.misfit(Problem(name, 4, 9, 50, layout=layout))), (name, layout)


@pytest.mark.skipif(ISA is None, reason="no kernels run on this CPU")
def test_the_same_bits_alone_and_in_a_stack() -> None:
    rng = np.random.default_rng(3)
    for m, n, k in ((9, 4, 64), (4, 60, 33), (7, 13, 100)):
        a, b = rng.standard_normal((6, m, k), np.float32), rng.standard_normal((6, n, k), np.float32).swapaxes(1, 2)
        config = Config("dots", ISA.name, mc=96, kc=2048, nc=1024)
        whole = Plan(Problem("f32", m, n, k, batch=6, layout="nt"), config).run(a, b)
        one = Plan(Problem("f32", m, n, k, layout="nt"), config)
        assert np.array_equal(whole, np.stack([one.run(a[i], b[i]) for i in range(6)]))


@pytest.mark.usefixtures("skylake")
def test_what_costs_less_beside_a_small_l1() -> None:
    """Few numbers a column and few rows, or a few columns that a tile takes whole: more steps, where vectors do."""
    v4 = registry.isa("v4")

    def least(m: int, n: int, name: str = "f32") -> int:
        """The least steps from which all are dot products, of more than the short columns have."""
        taken = [rules.config(Problem(name, m, n, k, layout="nt"), v4).family == "dots" for k in range(9, 200)]
        return 200 - next((i for i, dots in enumerate(reversed(taken)) if not dots), 191)

    assert [least(m, 6) for m in (2, 9, 30)] == sorted(least(m, 6) for m in (2, 9, 30))
    assert least(2, 6) < least(2, 200) < least(4, 200) < 50
    assert least(16, 6) < least(16, 4) < 130 < least(16, 16)
    assert least(4, 4, "f64") < 20 < least(9, 8, "f64")
    short = [Problem("f32", m, 200, k, layout="nt") for m, k in ((4, 6), (8, 6), (4, 8))]
    assert [rules.config(problem, v4).family for problem in short] == ["dots", "small", "small"]
    assert rules.config(Problem("f32", 3, 8, 7, layout="nt"), v4).family == "dots"
    turned = [Problem(name, m, n, k, layout="tt") for name, m, n, k in (
        ("f32", 4, 400, 40), ("f32", 4, 400, 30), ("f32", 12, 400, 200), ("f32", 17, 400, 200), ("f32", 8, 400, 1000),
        ("f32", 9, 400, 1000), ("f32", 4, 4, 300), ("f64", 5, 1274, 55), ("i32", 4, 400, 100),
    )]  # fmt: skip
    families = [rules.config(problem, v4).family == "dots" for problem in turned]
    assert families == [True, False, True, False, True, False, False, True, False]


@pytest.mark.parametrize(("l1d", "taken"), [(32 << 10, True), (48 << 10, False)])
def test_few_rows_of_an_a_by_columns(l1d: int, taken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With short vectors as well, beside an L1 of 32 KiB."""
    monkeypatch.setattr(cpu, "caches", lambda: cpu.Caches(l1d, 1 << 20, 32 << 20))
    for problem in (Problem("f32", 2, 33, 128, layout="tt"), Problem("f64", 3, 512, 100, layout="tt")):
        assert bool(family_dots.config(problem, registry.isa("v3"))) is taken
        assert family_dots.config(problem, registry.isa("v2")) is None


@pytest.mark.parametrize("tier", ["v3", "v4"])
@pytest.mark.parametrize("name", ["i16", "i8", "bool"])
def test_short_rows_of_narrow_numbers(name: str, tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few of them, or by few columns, are not worth turning B over; 128 rows by 100 columns are."""
    monkeypatch.setenv("FASTGEMM_ISA", tier)
    if not registry.supported(registry.dtype(name), registry.isa(tier)):
        pytest.skip(f"{tier} has no kernels for {name}")
    for m, n, k in ((2, 2, 100), (2, 100, 100), (4, 300, 32), (128, 2, 64)):
        assert rules.config(Problem(name, m, n, k, layout="nt"), registry.isa(tier)).family == "dots", (m, n, k)
    assert rules.config(Problem(name, 128, 100, 32, layout="nt"), registry.isa(tier)).family != "dots"
    low = rules.config(Problem(name, 2, 2, 100, layout="nt"), registry.isa("v2"))
    assert (low.family == "dots") is (name == "bool")


def test_halves_by_few_columns_along_k() -> None:
    """Where dot products are instructions, of any number of rows: they are as fast turned over first or not."""
    for m, n, k, taken in (
        (1000, 6, 96, 1), (1000, 7, 96, 0), (1000, 12, 256, 1), (1000, 13, 256, 0), (2, 300, 48, 1), (5, 300, 96, 0)
    ):  # fmt: skip
        for layout in ("nt", "nn") if k >= 256 else ("nt",):
            problem = Problem("bf16", m, n, k, layout=layout)
            assert bool(family_dots.config(problem, registry.isa("v4"), own=True)) is bool(taken), problem
