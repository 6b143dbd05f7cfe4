"""Last vectors of which the lower half is multiplied alone (kernels/lower.pxd): the bits of whole ones, and no flags.

A B of so few columns is the left of a wider one, whose last vector is whole.
"""

from __future__ import annotations

import numpy as np
import pytest

from fastgemm import cpu, kernels, registry
from fastgemm.plan import Plan
from fastgemm.problem import Config, Problem

V4 = registry.isa("v4")

pytestmark = [
    pytest.mark.skipif(not kernels.has("gemm", "v4"), reason="no AVX-512"),
    pytest.mark.usefixtures("zen4"),  # whose plans ask for it where B is copied
]

FLOATS = [row for row in registry.DTYPES if row.lane[0] == "f" and row.group == 1 and row.numpy != "bfloat16"]


def random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    made = rng.uniform(-1, 1, shape)
    return (made + 1j * rng.uniform(-1, 1, shape) if dtype.startswith("complex") else made).astype(dtype)


def product(problem: Problem, config: Config, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = np.full((problem.m, problem.n + 3), 7, problem.row.result or problem.row.numpy)
    with np.errstate(all="raise"):
        Plan(problem, config).run(a, b, out=out[:, : problem.n])
    assert (out[:, problem.n :] == 7).all()
    return out[:, : problem.n]


def live_columns(row: registry.DType) -> list[int]:
    """Of a last vector: one, and half of it."""
    return sorted({1, registry.lanes(row, V4) // 2})


@pytest.mark.parametrize("row", FLOATS, ids=lambda row: row.name)
@pytest.mark.parametrize("family", ["small", "gemm"])
def test_every_tile(row: registry.DType, family: str) -> None:
    lanes, rng = registry.lanes(row, V4), np.random.default_rng(0)
    if family == "small" and not registry.computes("small", row):
        pytest.skip("not of the small family")
    compared = 0
    for mr, nr in registry.tiles(row, V4):
        for rows in range(1, mr + 1):
            for vectors in range(1, nr // lanes + 1):
                a, b = random(rng, (rows, 5), row.numpy), random(rng, (5, vectors * lanes), row.numpy)
                for live in live_columns(row):
                    n = (vectors - 1) * lanes + live
                    for pack in ("none",) if family == "small" else ("none", "b", "ab"):
                        config = Config(family, "v4", mr, nr, mc=mr, kc=4, nc=nr, pack=pack)
                        narrow, wide = (Problem(row.name, rows, columns, 5) for columns in (n, vectors * lanes))
                        if config.misfit(narrow) or config.misfit(wide):
                            continue
                        whole = product(wide, config, a, b)[:, :n]
                        some = product(narrow, config, a, np.ascontiguousarray(b[:, :n]))
                        assert np.array_equal(some, whole), (narrow, config)
                        compared += 1
    assert compared


@pytest.mark.parametrize("row", FLOATS, ids=lambda row: row.name)
@pytest.mark.parametrize("letters", ["nn", "tn", "nt"])
@pytest.mark.parametrize("pack", ["none", "b", "ab"])
def test_several_panels_and_blocks(row: registry.DType, letters: str, pack: str) -> None:
    lanes, rng = registry.lanes(row, V4), np.random.default_rng(1)
    mr, nr = registry.tiles(row, V4)[0]
    m, k, live = 2 * mr + 1, 37, lanes // 2
    n = 2 * nr + live
    a, b = random(rng, (m, k), row.numpy), random(rng, (k, n), row.numpy)
    given = [np.asfortranarray(x) if letter == "t" else x for x, letter in zip((a, b), letters, strict=True)]
    problem = Problem(row.name, m, n, k, layout=letters)
    config = Config("gemm", "v4", mr, nr, mc=mr, kc=16, nc=nr, pack=pack)
    if reason := config.misfit(problem):
        pytest.skip(reason)
    wide = "complex128" if row.parts == 2 else "float64"
    exact = a.astype(wide) @ b.astype(wide)
    close = np.finfo(row.numpy).eps * (1 if row.converts else k) * 4
    assert np.allclose(product(problem, config, *given), exact, rtol=close, atol=close * 8)


@pytest.mark.parametrize(("dtype", "lower"), [("f32", True), ("c128", True), ("f16", True), ("i32", False)])
def test_plans_ask_for_it_where_units_are_narrow(dtype: str, lower: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(dtype, 60, 40, 300)
    mr, nr = registry.tiles(problem.row, V4)[0]
    config = Config("gemm", "v4", mr, nr, pack="ab")
    assert Plan(problem, config).facts["lower"] is lower
    monkeypatch.setattr(cpu, "_half_wide", lambda: False)
    assert Plan(problem, config).facts["lower"] is False
