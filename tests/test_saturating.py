"""Products of bool, which end where all of C is true: whatever ends early has to be what the whole sum is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import fastgemm
from fastgemm import dispatch, kernels, registry
from fastgemm.problem import Config, Problem, normalised

ROW = registry.dtype("bool")
TIERS = [tier.name for tier in kernels.runnable()]

pytestmark = pytest.mark.skipif(not TIERS, reason="no kernels run on this CPU")


def operands(m: int, n: int, k: int, kind: str, batch: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """True everywhere after a few steps, but for what `kind` says."""
    rng = np.random.default_rng(m + n + k)
    lead = (batch,) if batch else ()
    a, b = (rng.random((*lead, *shape)) < 0.5 for shape in ((m, k), (k, n)))
    if kind == "late":  # one number by the last step alone
        a[..., -1, :-1], a[..., -1, -1] = False, True
        b[..., -1, :] = False
        b[..., -1, -1] = True
    elif kind == "never":
        a[..., m // 2, :] = False
    elif kind == "sparse":
        a &= rng.random(a.shape) < 0.02
    return a, b


def configs(problem: Problem, isa: str) -> list[Config]:
    """One of every family that takes a problem."""
    mr, nr = registry.tiles(ROW, registry.isa(isa))[0]
    lengths = {"mc": 96, "kc": 160, "nc": 1024}
    found = [
        Config("gemm", isa, mr, nr, **lengths, pack="ab"), Config("gemv", isa, nc=1024), Config("dots", isa, **lengths),
        *(Config("small", isa, mr, nr, pack=pack) for pack in ("none", "b")),
    ]  # fmt: skip
    shared = [config.replace(threads=2, split=split) for config in found for split in ("k", "m", "n")]
    return [config for config in (*found, *shared) if config.misfit(problem) is None]


@pytest.mark.parametrize("isa", TIERS)
@pytest.mark.parametrize("kind", ["dense", "late", "never", "sparse"])
@pytest.mark.parametrize("shape", [(1, 9, 130), (5, 7, 255), (4, 70, 300), (40, 3, 1030), (33, 65, 2100), (1, 1, 4200)])
def test_every_family(isa: str, kind: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = operands(m, n, k, kind)
    want = np.matmul(a, b)
    for left in (a, np.asfortranarray(a)):
        for right in (b, np.asfortranarray(b)):
            letters = ("n" if left.flags.c_contiguous else "t") + ("n" if right.flags.c_contiguous else "t")
            tried = configs(normalised(Problem("bool", m, n, k, layout=letters, threads=2)), isa)
            assert tried or 1 in shape
            for config in tried:
                with dispatch.forced(config):
                    np.testing.assert_array_equal(fastgemm.matmul(left, right), want, err_msg=str(config))


@pytest.mark.parametrize("kind", ["dense", "late", "never", "sparse"])
def test_stacks_and_outputs(kind: str) -> None:
    """Of a stack all matrices end, or none does; outputs lie as they like, and bytes other than 1 are true."""
    a, b = operands(4, 5, 600, kind, batch=9)
    a[3] = b[5] = False
    want = np.matmul(a, b)
    np.testing.assert_array_equal(fastgemm.matmul(a, b), want)
    np.testing.assert_array_equal(fastgemm.matmul(a, b[0]), np.matmul(a, b[0]))
    for out in (np.zeros((9, 5, 4), bool).swapaxes(1, 2), np.ones((18, 4, 10), bool)[::2, :, ::2]):
        assert fastgemm.matmul(a, b, out=out) is out
        np.testing.assert_array_equal(out, want)
    strange = a.view(np.uint8) * 6
    np.testing.assert_array_equal(fastgemm.matmul(strange.view(bool), b), want)


@pytest.mark.parametrize("kind", ["dense", "late", "never", "sparse"])
def test_other_ways_to_multiply(kind: str, on_tier: Callable[[str], registry.Isa]) -> None:
    a, b = operands(6, 8, 700, kind)
    want = np.matmul(a, b)
    for isa in TIERS:
        on_tier(isa)
        np.testing.assert_array_equal(fastgemm.matmul(a, fastgemm.pack(b)), want)
        np.testing.assert_array_equal(fastgemm.dot(a, b), want)
        np.testing.assert_array_equal(fastgemm.matmul(a, a.T), np.matmul(a, a.T))
        with fastgemm.installed():
            np.testing.assert_array_equal(a @ b, want)
        # What is added to stays.
        c = np.zeros_like(want)
        c[2] = True
        made = fastgemm.gemm(a, b, c, beta=1)
        np.testing.assert_array_equal(made, want | c)
