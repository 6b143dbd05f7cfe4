"""Microkernels of a C that is only written, whose rows are finished one after the other (kernels/gemm_written.tp).

Those of every family: sums are exact, so any kernel that does these products gives the same, and what lies around the
output stays what it was (`test_variants.check`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from test_variants import check, problem_of

from fastgemm import cpu, kernels, registry
from fastgemm.chain import Chain, Finish, Product, Ref
from fastgemm.driver import _plan
from fastgemm.problem import Config


def families() -> list[Any]:
    """Every dtype of every family that has such kernels (but quantised products, which have terms besides)."""
    return [
        pytest.param(name, dt, tier, id=f"{name}_{dt.name}_{tier.name}", marks=pytest.mark.skipif(
            not kernels.has(name, tier.name), reason=f"no {name} on {tier.name}"))
        for name in dict.fromkeys(("gemm", *(name for name, _ in registry.DOTS)))
        for tier in registry.ISAS
        if name == "gemm" or registry.beyond(registry.family(name), tier) is not None
        for dt in registry.rows_of(tier, name)
        if registry.written(dt, tier, name) and dt.name != "i8_q8"
    ]  # fmt: skip


@pytest.fixture(autouse=True)
def by_rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on a CPU whose plans take them."""
    monkeypatch.setattr(cpu, "narrow_units", lambda: True)
    _plan.forget_plans()
    yield
    _plan.forget_plans()


@pytest.mark.parametrize(("name", "dt", "tier"), families())
def test_every_kernel(name: str, dt: registry.DType, tier: registry.Isa) -> None:
    """With whole and cut vectors, and as many steps as are done row by row, one more, and many."""
    found, lanes = registry.dot(name, dt), registry.lanes(dt, tier)
    group = found.group if found else 1
    for rows, vectors in registry.written(dt, tier, name):
        mr, nr = next((m, n) for m, n in registry.tiles(dt, tier, name) if rows <= m and vectors * lanes <= n)
        columns = ((vectors - 1) * lanes + 1, vectors * lanes - 1, vectors * lanes)
        for n, steps, left in itertools.product(columns, (3, 4, 19), range(min(group, 2))):
            for pack in registry.PACKS:
                problem = problem_of(dt, (rows, n, group * steps - left), "nn")
                config = Config(name, tier.name, mr, nr, pack=pack)
                if config.misfit(problem) is None:
                    check(problem, config, "nn")


def scaled(a: np.ndarray, b: np.ndarray, scale: Any) -> np.ndarray:
    """Sums of bytes as floats, scaled by a chain of one product."""
    (m, k), n = a.shape, b.shape[1]
    out = np.full((m + 2, n + 5), np.nan, "f4")
    given = (Ref(0, a.dtype.name, row=k, column=1), Ref(1, b.dtype.name, row=n, column=1))
    made = Ref(2, "float32", offset=4 * (n + 5), row=4 * (n + 5), column=4)
    Chain([Product(n, k, *given, made, Finish(None), scale)], outer=(1,), rows=m, block=m).run([a, b, out])
    assert np.isnan(out[[0, -1]]).all()
    assert np.isnan(out[:, n:]).all()
    return out[1:-1, :n]


@pytest.mark.skipif(kernels.active_isa() is None, reason="no kernels run on this CPU")
@pytest.mark.parametrize("signs", [("int8", "int8"), ("uint8", "int8"), ("int8", "uint8")])
def test_sums_times_one_scale(signs: tuple[str, str]) -> None:
    """The same as times as many equal scales, and as the exact sums times it, rounded once."""
    for m, n, k in itertools.product((3, 6, 13), (32, 50, 64, 100), (8, 12, 13, 16, 40, 100)):
        numbers = np.random.default_rng(n)
        a, b = numbers.integers(0, 100, (m, k)).astype(signs[0]), numbers.integers(0, 100, (k, n)).astype(signs[1])
        a[0], b[:, 0] = np.iinfo(a.dtype).min, np.iinfo(b.dtype).min
        want = (a.astype("i4") @ b.astype("i4")).astype("f4") * np.float32(0.37)
        assert np.array_equal(scaled(a, b, np.float32(0.37)), want)
        assert np.array_equal(scaled(a, b, np.full(n, 0.37, "f4")), want)
        some = np.linspace(0.1, 1, n, dtype="f4")
        assert np.array_equal(scaled(a, b, some), (a.astype("i4") @ b.astype("i4")).astype("f4") * some)
