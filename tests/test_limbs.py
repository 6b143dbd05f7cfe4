"""Float32 in limbs: as exact as multiply-adds, and for what limbs do not stand for computed by those."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from conftest import Child
from hypothesis import given, settings
from hypothesis import strategies as st

import fastgemm
from fastgemm import dispatch, kernels, registry
from fastgemm.driver import _plan
from fastgemm.heuristic import limbs, rules
from fastgemm.plan import Plan
from fastgemm.problem import Config, Problem

V4 = registry.isa("v4")
FAMILY = "amx_f32"
needs = pytest.mark.skipif(not kernels.has(FAMILY, "v4"), reason=f"no {FAMILY}")
ROUNDING = 2.0**-24
# Of an error, in roundings of the sum of magnitudes: limbs' products that are left out make one, and the rest are what
# adding up rounds.  (Normal numbers, up to 300 steps: any one of the six products less makes 13 and more, of one step
# 100.)
BOUND = 8


def config(mr: int = 32, nr: int = 32, **more: Any) -> Config:
    return Config(FAMILY, "v4", mr, nr, **{"pack": "ab", **more})


def operands(m: int, n: int, k: int, layout: str = "nn", seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal(shape).astype("f4") for shape in ((m, k), (k, n)))
    return (a if layout[0] == "n" else a.T.copy().T), (b if layout[1] == "n" else b.T.copy().T)


def vectors(a: np.ndarray, b: np.ndarray, layout: str = "nn") -> np.ndarray:
    """The product by multiply-adds."""
    problem = Problem("f32", len(a), b.shape[1], a.shape[1], layout=layout)
    return Plan(problem, rules.config(problem, limbs=False)).run(a, b)


def error(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """The greatest, in units of what rounding each number of a sum may lose."""
    a, b = a.astype("f8"), b.astype("f8")
    return float((np.abs(c - a @ b) / (np.abs(a) @ np.abs(b))).max() / ROUNDING)


@needs
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("k", [1, 5, 31, 33, 300, 2000])
def test_error(k: int, layout: str) -> None:
    """Of the order of a rounding of the sum of magnitudes, however many steps."""
    a, b = operands(50, 70, k, layout)
    for made in (config(), config(16, 64, kc=64, mc=32, nc=64)):
        assert error(Plan(Problem("f32", 50, 70, k, layout=layout), made).run(a, b), a, b) < BOUND


@needs
@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.integers(1, 70), st.integers(1, 100), st.integers(0, 50), st.integers(0, 1000))
def test_error_of_any_magnitudes(m: int, n: int, k: int, spread: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = operands(m, n, k, seed=seed)
    a *= np.exp2(rng.integers(-spread, spread + 1, a.shape)).astype("f4")
    b *= np.exp2(rng.integers(-spread, spread + 1, b.shape)).astype("f4")
    assert error(Plan(Problem("f32", m, n, k), config()).run(a, b), a, b) < BOUND


@needs
def test_exact() -> None:
    """By the identity, permutations and powers of two; and sums of whole numbers that float32 holds."""
    a, _ = operands(90, 90, 90)
    problem, one = Problem("f32", 90, 90, 90), np.eye(90, dtype="f4")
    for scale in (one, 4 * one[::-1], one[np.random.default_rng(1).permutation(90)] / 8):
        scale = np.ascontiguousarray(scale)
        for left, right in ((a, scale), (scale, a)):
            want = (left.astype("f8") @ right.astype("f8")).astype("f4")
            assert np.array_equal(Plan(problem, config()).run(left, right), want)
    rng = np.random.default_rng(2)
    for high_a, high_b in ((300, 300), (2**16, 2), (2, 2**16), (5000, 30)):
        a, b = (rng.integers(-high, high, (90, 90)).astype("f4") for high in (high_a, high_b))
        assert np.array_equal(Plan(problem, config()).run(a, b), a.astype("f8") @ b.astype("f8"))


TINY, HUGE = np.float32(2.0**-149), np.finfo("f4").max
ODD = {
    "infinity": np.inf, "minus infinity": -np.inf, "nan": np.nan, "subnormal": TINY, "minus subnormal": -TINY,
    "normal": np.finfo("f4").tiny, "limb": np.float32(2.0**-103), "huge": HUGE, "large": np.float32(2.0**127),
}  # fmt: skip


@needs
@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("where", ["a", "b"])
def test_other_numbers(name: str, where: str) -> None:
    """The bits of multiply-adds, and their warnings, wherever the number stands."""

    def warned(made: Config) -> tuple[bytes, set[str]]:
        with warnings.catch_warnings(record=True) as caught, dispatch.forced(made):
            warnings.simplefilter("always")
            found = fastgemm.matmul(a, b)
        return found.tobytes(), {str(each.message) for each in caught}

    for layout, at in itertools.product(("nn", "tn", "nt"), ((0, 0), (60, 3), (129, 129))):
        a, b = operands(130, 130, 130, layout)
        (a if where == "a" else b)[at] = ODD[name]
        problem = Problem("f32", 130, 130, 130, layout=layout, threads=2)
        want = warned(rules.config(problem, V4, limbs=False))
        for threads, split in ((1, "n"), (2, "n"), (2, "m"), (2, "k")):
            assert warned(config(split=split, threads=threads, kc=64, mc=32, nc=64)) == want
        with np.errstate(all="ignore"):
            assert Plan(problem, config()).run(a, b).tobytes() == want[0]


@needs
def test_small_products() -> None:
    """Of numbers that limbs stand for, and whose products or sums they do not."""
    a, b = operands(64, 64, 64)
    problem = Problem("f32", 64, 64, 64)
    for exponent_a, exponent_b in ((-60, -60), (-90, -20), (60, 64), (-95, 10), (100, 20)):
        x, y = a * np.float32(2.0**exponent_a), b * np.float32(2.0**exponent_b)
        with np.errstate(all="ignore"):
            assert np.array_equal(Plan(problem, config()).run(x, y), vectors(x, y))


@needs
def test_zeros() -> None:
    """Are no small numbers; beside infinity they make NaN."""
    a, b = operands(70, 70, 70)
    a[:, ::2] = 0
    b[5] = -0.0
    problem = Problem("f32", 70, 70, 70)
    assert error(Plan(problem, config()).run(a, b), a, b) < BOUND
    assert not Plan(problem, config()).run(np.zeros_like(a), b).any()
    b[0, 0] = np.inf
    with np.errstate(invalid="ignore"):
        assert np.isnan(Plan(problem, config()).run(np.zeros_like(a), b)[:, 0]).all()


@needs
@pytest.mark.parametrize("odd", [1.0, np.inf])
def test_what_follows(odd: float) -> None:
    """Activations, residuals, alpha and beta, stacks: as by multiply-adds, to the bit where those took over."""
    a, b = operands(100, 90, 110)
    a[99, 109] = odd
    rng = np.random.default_rng(3)
    bias, residual = rng.standard_normal(90).astype("f4"), rng.standard_normal((100, 90)).astype("f4")
    stack = np.stack([a, a[::-1]])

    def alike(call: Callable[[], np.ndarray], taken: bool = True) -> None:
        with np.errstate(all="ignore"):
            want = call()
            with dispatch.forced(config()):
                found = call()
        if odd == 1.0:
            np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)
        assert np.array_equal(found, want, equal_nan=True) == (odd != 1.0 or not taken)

    for activation, more in itertools.product(
        (None, "relu", "gelu", "silu"), ({}, {"bias": bias}, {"bias": bias, "residual": residual})
    ):
        alike(lambda: fastgemm.linear(a, b.T, activation=activation, **more))  # noqa: B023 - called at once
    alike(lambda: fastgemm.gemm(a, b, alpha=2.0))
    # C is read before it is known whether it will have to be read again.
    alike(lambda: fastgemm.gemm(a, b, residual, alpha=2.0, beta=0.5), taken=False)
    alike(lambda: fastgemm.matmul(stack, b))
    alike(lambda: fastgemm.matmul(stack, np.stack([b, b[:, ::-1]])))


@needs
def test_symmetric() -> None:
    """A product with its own transpose, to the bit."""
    a, _ = operands(300, 1, 200)
    with dispatch.forced(config()):
        c = fastgemm.matmul(a, a.T)
        assert np.array_equal(c, c.T)
        c = fastgemm.matmul(a.T, a)
        assert np.array_equal(c, c.T)


@pytest.fixture
def by_rules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FASTGEMM_F32", "limbs")
    _plan.forget_plans()
    yield
    _plan.forget_plans()


@needs
@pytest.mark.usefixtures("by_rules")
def test_deterministic() -> None:
    """By multiply-adds: whether limbs pay is measured."""
    a, b = operands(300, 400, 2100)
    size = {"m": 300, "n": 400, "k": 2100, "dtype": "float32"}
    assert fastgemm.explain(**size).config.family == FAMILY
    with fastgemm.deterministic():
        bits = set()
        for count in (1, 2):
            with fastgemm.threads(count):
                assert fastgemm.explain(**size).config.family == "gemm"
                bits |= {fastgemm.matmul(a, b).tobytes() for _ in range(2)}
    assert len(bits) == 1


@needs
def test_environment(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    """FASTGEMM_F32=vectors: by multiply-adds alone; limbs: wherever rules say so; nothing: where they are fast."""
    code = "from fastgemm import kernels, registry as r\n"
    code += "print(repr(kernels.limbs_family(r.dtype('f32'), r.isa('v4'))))\n"
    assert child(code, FASTGEMM_F32="limbs").stdout.strip() == repr(FAMILY)
    assert child(code, FASTGEMM_F32="vectors").stdout.strip() == "''"
    done = child("import numpy as np, fastgemm; fastgemm.matmul(np.eye(2), np.eye(2))", status=1, FASTGEMM_F32="fast")
    assert "FASTGEMM_F32='fast' is not 'limbs' or 'vectors'" in done.stderr

    monkeypatch.delenv("FASTGEMM_F32")
    for times, found in ((2.1, FAMILY), (1.9, "")):
        monkeypatch.setattr(
            kernels, "peak", lambda name, isa, rounds, family: (rounds, rounds / (times if family == FAMILY else 1.0))  # noqa: B023
        )
        kernels._faster.cache_clear()
        assert kernels.limbs_family(registry.dtype("f32"), V4) == found
    kernels._faster.cache_clear()


@needs
@pytest.mark.usefixtures("by_rules")
@pytest.mark.parametrize("count", [1, 2])
def test_calls(count: int) -> None:
    """What the rules give to limbs, by every way there is to call it."""
    rng = np.random.default_rng(4)
    with fastgemm.threads(count):
        for m, n, k in ((300, 300, 300), (300, 310, 515), (700, 300, 320), (1100, 300, 280)):
            assert fastgemm.explain(m=m, n=n, k=k, dtype="float32").config.family == FAMILY
            a, b = operands(m, n, k, seed=m)
            for left, right in ((a, b), (a.T.copy().T, b), (a, b.T.copy().T), (a[::-1], b[:, ::-1])):
                assert error(fastgemm.matmul(left, right), left, right) < BOUND
            out = np.empty((n, m), "f4").T
            assert error(fastgemm.matmul(a, b, out=out), a, b) < BOUND
            assert error(fastgemm.gemm(a, b, alpha=2.0) / 2, a, b) < BOUND
            with fastgemm.installed():
                assert error(a @ b, a, b) < BOUND
            bias = rng.standard_normal(n).astype("f4")
            made = fastgemm.linear(a, b.T, bias)
            assert error(made, np.hstack([a, np.ones((m, 1), "f4")]), np.vstack([b, bias])) < BOUND
        stack_a, stack_b = rng.standard_normal((2, 5, 200, 200)).astype("f4")
        for made, left, right in zip(fastgemm.matmul(stack_a, stack_b), stack_a, stack_b, strict=True):
            assert error(made, left, right) < BOUND
        found = fastgemm.einsum("bij,bkj->bik", stack_a, stack_b)
        for made, left, right in zip(found, stack_a, stack_b, strict=True):
            assert error(made, left, right.T) < BOUND


@needs
@pytest.mark.usefixtures("by_rules")
def test_after_another_number() -> None:
    """A call that needs multiply-adds leaves the next one its limbs, and the other way round."""
    a, b = operands(300, 300, 300)
    odd = a.copy()
    odd[7, 9] = np.inf
    by_limbs, by_vectors = fastgemm.matmul(a, b).tobytes(), vectors(a, b).tobytes()
    assert by_limbs != by_vectors
    for _ in range(3):
        with np.errstate(all="ignore"):
            assert fastgemm.matmul(odd, b).tobytes() == vectors(odd, b).tobytes()
        assert fastgemm.matmul(a, b).tobytes() == by_limbs
        assert fastgemm.matmul(b, a).tobytes() != vectors(b, a).tobytes()


@needs
@pytest.mark.usefixtures("by_rules")
def test_counts() -> None:
    """A call that multiply-adds take over is one call."""
    a, b = operands(300, 300, 300)
    a[0, 0] = np.inf
    with np.errstate(all="ignore"), fastgemm.threads(1):
        fastgemm.matmul(a, b)
        _plan.count_calls(True)
        try:
            _plan.take_counts()
            for _ in range(3):
                fastgemm.matmul(a, b)
            ((problem, calls),) = _plan.take_counts()
        finally:
            _plan.count_calls(False)
    assert (problem.m, problem.layout, calls) == (300, "nn", 3)


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for asked in ("built_limbs", "limbs_family"):
        monkeypatch.setattr(kernels, asked, lambda row, tier: FAMILY if row.name == "f32" and tier is V4 else "")


@pytest.mark.usefixtures("everywhere")
def test_rules() -> None:
    def taken(m: int, n: int, k: int, name: str = "f32", layout: str = "nn") -> bool:
        return bool(limbs.family(Problem(name, m, n, k, layout=layout), V4))

    assert taken(512, 512, 512)
    assert taken(1000, 1000, 1000, layout="tt")
    assert not any(taken(512, 512, 512, name) for name in ("f64", "f16", "bf16", "c64", "i32"))
    assert not taken(512, 512, 512, layout="np")
    # Each thread cuts an operand of its own.
    teams = [bool(limbs.family(Problem("f32", 160, 160, 160, threads=count), V4)) for count in (1, 2)]
    assert teams == [True, False]
    assert not any(taken(*size) for size in ((1, 4096, 4096), (4096, 1, 4096), (8, 8, 8), (4000, 4000, 4)))
    for m, n, k in itertools.product((2, 20, 100, 500), repeat=3):
        for count, batch in ((1, 1), (2, 1), (2, 5)):
            problem = Problem("f32", m, n, k, batch, threads=count)
            assert limbs.config(problem, V4, FAMILY).misfit(problem) is None


@pytest.mark.usefixtures("everywhere")
def test_items_of_chains_have_none() -> None:
    """Their products are computed where no other plan can take their place."""
    problem = Problem("f32", 512, 512, 512)
    assert rules.config(problem, V4).family == FAMILY
    assert rules.config(problem, V4, limbs=False).family != FAMILY
    assert dispatch.of_item(problem, 1, 512).family != FAMILY


def test_misfit() -> None:
    problem = Problem("f32", 64, 64, 64)
    assert config().misfit(problem) is None
    for other in ("b", "none"):
        assert "limbs" in str(config(pack=other).misfit(problem))
    assert "limbs" in str(config().misfit(Problem("f32", 64, 64, 64, layout="np")))
    assert "no kernels" in str(config().misfit(Problem("f64", 64, 64, 64)))
