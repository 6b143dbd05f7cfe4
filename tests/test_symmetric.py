"""Products of a matrix and its own transpose: half is computed, the other half is its mirror image."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import FLOATS, integers, normal

import fastgemm

# Rows of C: below, at and beyond the sizes of pieces (192) and of vectors; from 256 on with one thread, 512 with two.
SIZES = (255, 256, 385, 512, 577, 600)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("char", [*FLOATS, "i", "H", "q"])
def test_exact(char: str, threads: int) -> None:
    for size in SIZES:
        a = integers((size, 130), char, size)
        want = np.matmul(a, a.copy().T)
        with fastgemm.threads(threads):
            for same in (a, np.asfortranarray(a)):
                assert np.array_equal(fastgemm.matmul(same, same.T), want)
            turned = np.ascontiguousarray(a.T)
            assert np.array_equal(fastgemm.matmul(turned.T, turned), want)
            room = np.full((size, size + 3), 7, char)
            fastgemm.matmul(a, a.T, out=room[:, :size])
            assert np.array_equal(room[:, :size], want)
            assert (room[:, size:] == 7).all()


@pytest.mark.parametrize("char", FLOATS)
def test_bits_of_the_whole_product(char: str) -> None:
    """The same bits as for a copy on one side, where nothing can be seen; and symmetric to the last."""
    a = normal((700, 300), char)
    for threads in (1, 2):
        with fastgemm.threads(threads):
            found = fastgemm.matmul(a, a.T)
            assert np.array_equal(found, fastgemm.matmul(a, a.copy().T))
            assert np.array_equal(found, found.T)
            part = a[::2, 1::2]
            assert np.array_equal(fastgemm.matmul(part, part.T), fastgemm.matmul(part, part.copy().T))


def test_nothing_else_is_taken_for_it() -> None:
    """The same memory with other strides, alpha, beta, or a whole stack, is no symmetric product."""
    a = integers((600, 600), "f", 1)
    whole = np.matmul(a, a.copy())
    assert np.array_equal(fastgemm.matmul(a, a), whole)
    assert np.array_equal(fastgemm.matmul(a.T, a.T), whole.T)
    gram = np.matmul(a, a.copy().T)
    c = integers((600, 600), "f", 2)
    assert np.array_equal(fastgemm.gemm(a, a, c, alpha=2, beta=3, trans_b=True), 2 * gram + 3 * c)
    stack = np.stack([a, a + 1])
    assert np.array_equal(fastgemm.matmul(stack, stack.swapaxes(1, 2)), np.matmul(stack, stack.swapaxes(1, 2).copy()))
    shifted = a[:300], a[1:301]
    assert np.array_equal(fastgemm.matmul(shifted[0], shifted[1].T), np.matmul(shifted[0], shifted[1].copy().T))


def test_not_a_number_stays_where_it_belongs() -> None:
    a = normal((520, 140), "d")
    a[417, 3] = np.nan
    found = fastgemm.matmul(a, a.T)
    bad = np.zeros((520, 520), bool)
    bad[417], bad[:, 417] = True, True
    assert np.array_equal(np.isnan(found), bad)
