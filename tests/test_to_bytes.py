"""Floats that become bytes by a scale found now: every tier's kernels against NumPy, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import fastgemm
from fastgemm import _to_bytes, kernels, registry, row_operations, to_bytes
from fastgemm.graph import meanings

TIERS = [tier.name for tier in kernels.runnable()]
# Around vectors of every tier, and around the pieces that threads take.
SIZES = (1, 3, 4, 5, 15, 16, 17, 63, 64, 65, 200, 32768, 32769, 100_001, 3_000_017)

pytestmark = pytest.mark.skipif(not TIERS, reason="no kernels run on this CPU")


@pytest.fixture(params=TIERS)
def tier(request: pytest.FixtureRequest, on_tier: Callable[[str], registry.Isa]) -> registry.Isa:
    """Every call of the process on one tier."""
    row = on_tier(request.param)
    assert to_bytes.level() == row.level
    return row


def refused(x: np.ndarray) -> np.ndarray:
    raise AssertionError("a range that kernels should have found")


def quantised(x: np.ndarray, scale: Any, zero: Any, out: np.ndarray) -> bool:
    call = to_bytes.quantise(x, scale, zero, out)
    return call is not None and call()


def found(x: np.ndarray) -> np.ndarray:
    made = np.full(2, 7, x.dtype)
    to_bytes.scale_and_zero(x, made)()
    return made


@pytest.mark.parametrize("size", SIZES)
def test_ranges(tier: registry.Isa, size: int) -> None:
    """Wherever the ends lie, and of numbers of one sign too."""
    rng = np.random.default_rng(size)
    for shift in (-3.0, 0.0, 3.0):
        for at in (0, size // 2, size - 1):
            x = (rng.random(size, np.float32) - np.float32(0.5)) + np.float32(shift)
            x[at], x[(at + size // 3) % size] = -9.5, 8.25
            made = np.zeros(2, np.float32)
            _to_bytes.scale_into(tier.level, x, made, refused)
            np.testing.assert_array_equal(made, to_bytes.by_range(x))
    zero = np.zeros(size, np.float32)
    np.testing.assert_array_equal(found(zero), [1, 0])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_no_range(tier: registry.Isa, bad: float) -> None:
    """NaN is found wherever it is, alone or before other numbers, and NumPy's answer stands."""
    for size in (1, 17, 64, 150, 70_000):
        for at in {0, size // 2, size - 1}:
            x = np.ones(size, np.float32)
            x[at] = bad
            made = np.full(2, 7, np.float32)
            _to_bytes.scale_into(tier.level, x, made, lambda given: [given.size, 3])
            assert made.tolist() == [size, 3]
            np.testing.assert_array_equal(found(x), to_bytes.by_range(x))
    # The ends are numbers, and their distance is none.
    x = np.array([-3e38, 3e38], np.float32)
    np.testing.assert_array_equal(found(x), [np.inf, 0])
    # A scale that is no more than subnormal, and one that is nothing.
    for x in (np.array([1e-40], np.float32), np.array([1e-45, 0], np.float32)):
        np.testing.assert_array_equal(found(x), to_bytes.by_range(x))
    assert found(np.array([1e-45, 0], np.float32))[0] == 1


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("made", ["int8", "uint8"])
def test_bytes(tier: registry.Isa, kind: str, made: str) -> None:
    dtype = np.dtype(ml_dtypes.bfloat16) if kind == "bfloat16" else np.dtype(kind)
    rng = np.random.default_rng(1)
    limits = np.iinfo(made)
    for size in SIZES:
        x = (rng.standard_normal(size) * 40).astype(dtype)
        x[: size // 2] = np.rint(x[: size // 2].astype("f4")) / 2  # ties
        x[-1] = np.nan if size % 2 else np.inf
        for scale, zero in ((1.0, 0), (0.37, 5), (0.1, int(limits.min)), (3e-3, int(limits.max))):
            one = np.asarray(scale, dtype)
            out = np.empty(size, made)
            if not quantised(x, one, np.asarray(zero, made), out):
                assert kind == "float16"
                assert not registry.supported(registry.dtype("f16"), tier)
                continue
            want = meanings.quantize([x, one, np.asarray(zero, made)], {"axis": -1, "dtype": None})
            np.testing.assert_array_equal(out, want)


def test_what_is_no_scale_is_left_to_numpy() -> None:
    x = np.ones(5, np.float32)
    for scale in (0.0, -1.0, np.nan, np.inf, 1e300):
        out = np.full(5, 9, np.uint8)
        assert not quantised(x, scale, 0, out)
        assert (out == 9).all()
    out = np.full((5, 2), 9, np.uint8)
    wide = np.ones((5, 2), np.float32)
    assert not quantised(wide.T, 1.0, 0, out.T)
    assert not quantised(wide.astype(">f4"), 1.0, 0, out)
    assert not quantised(wide.astype("f8"), 1.0, 0, out)
    assert quantised(wide[:0], 1.0, 0, out[:0])
    assert (out == 9).all()


def test_arrays_that_do_not_fit_are_refused() -> None:
    level = to_bytes.level()
    assert level is not None
    x, two = np.ones(6, np.float32), np.zeros(2, np.float32)
    index = row_operations.row_index(row_operations.row_op("cast"), "f32", "u8")
    halves = row_operations.row_index(row_operations.row_op("cast"), "f16", "u8")
    softmax = row_operations.row_index(row_operations.row_op("softmax"), "f32", "u8")
    nowhere = row_operations.row_index(row_operations.row_op("cast"), "f64", "u8")
    for bad in ((x[::2], two), (x[:0], two), (x.astype("f8"), two), (x, np.zeros(3, np.float32))):
        with pytest.raises(ValueError, match=r"side by side|no scale"):
            _to_bytes.scale_into(level, *bad, refused)
    for given, out, at in ((x[::2], np.empty(3, "u1"), index), (x, np.empty(5, "u1"), index),
                           (x, np.empty(6, "u2"), index), (x, np.empty(6, "u1"), nowhere),
                           (x, np.empty(6, "u1"), halves), (x.astype("f2"), np.empty(6, "u1"), index),
                           (x, np.empty(6, "u1"), softmax), (x, np.empty(6, "u1"), -1),
                           (x, np.empty(6, "u1"), 10_000)):  # fmt: skip
        with pytest.raises(ValueError, match=r"side by side|no bytes"):
            _to_bytes.bytes_into(level, given, out, at, 1.0, 0.0)
    for none in (-1, 99):
        with pytest.raises(ValueError, match="no operations on rows"):
            _to_bytes.scale_into(none, x, two, refused)
        with pytest.raises(ValueError, match="out of range"):
            _to_bytes.add_tables(none, None, None)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (), (4, 5), (300, 500)])
def test_dynamic_quantize_linear(shape: tuple[int, ...]) -> None:
    """Of any shape, strides and order of bytes; what is read may be read-only."""
    rng = np.random.default_rng(2)
    plain = np.asarray(rng.standard_normal(shape), np.float32)
    plain.flags.writeable = False
    turned = np.asfortranarray(plain)
    for x in (plain, turned, plain[..., ::-1] if shape else plain, plain.astype(">f4"), plain.astype("f8")):
        got: Any = fastgemm.dynamic_quantize_linear(x)
        low, high = min(0, x.min(initial=0)), max(0, x.max(initial=0))
        scale = np.float32(high - low) / np.float32(255) if high > low else np.float32(1)
        zero = np.rint(np.float32(-low) / scale)
        assert (got.scale, got.zero_point) == (scale, zero)
        assert (got.values.dtype, got.values.shape) == (np.uint8, x.shape)
        want = np.clip(np.rint(x.astype("f4") / scale) + zero, 0, 255)
        np.testing.assert_array_equal(got.values, want)
