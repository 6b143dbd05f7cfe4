"""What a thread remembers of its last small products: only ever used for a call of the very same form."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from oracle import integers

import fastgemm
from fastgemm.driver import _plan

SIZES = (1, 2, 3, 7, 8, 16, 31, 65)  # 31 x 31 x 65 and more let the GIL go, if there is another Python thread
CHARS = "?bhilBHILefdFD"


def layouts(x: np.ndarray) -> list[np.ndarray]:
    """Equal arrays whose strides differ: by rows, by columns, reversed, with gaps."""
    wide = np.zeros((2 * x.shape[0], 3 * x.shape[1]), x.dtype)
    wide[::2, ::3] = x
    flipped = x[::-1, ::-1].copy()
    return [x, np.asfortranarray(x), flipped[::-1, ::-1], wide[::2, ::3]]


@pytest.mark.parametrize("char", CHARS)
def test_forms_in_any_order(char: str) -> None:
    """Products of the same sizes and other strides, of other sizes, and into other outputs, in turns and again."""
    cases = []
    for m, n, k in itertools.islice(itertools.product(SIZES, repeat=3), 0, None, 5):
        a, b = integers((m, k), char, m), integers((k, n), char, n)
        want = np.matmul(a, b)
        for left, right in zip(layouts(a), layouts(b)[::-1], strict=True):
            cases.append((left, right, None, want))
        cases += [(a, b, out, want) for out in layouts(np.zeros_like(want))]
    for i in np.random.default_rng(3).permutation(np.repeat(np.arange(len(cases)), 2)):
        for left, right, out, want in (cases[i], cases[i - i % 3]):
            got = fastgemm.matmul(left, right) if out is None else fastgemm.matmul(left, right, out)
            assert np.array_equal(got, want)


def test_vectors_and_stacks_of_the_same_sizes() -> None:
    """A vector, a matrix of one row or column and a stack never take each other's plan."""
    x, a = integers((8,), "f", 1), integers((8, 8), "f", 2)
    stack = integers((3, 8, 8), "f", 3)
    for _ in range(3):
        for left, right in ((a, a), (x, a), (a, x), (x[None], a), (a, x[:, None]), (stack, a), (a, stack), (x, x)):
            assert np.array_equal(fastgemm.matmul(left, right), np.matmul(left, right))


def test_overlap_is_seen() -> None:
    """An output that shares memory with an operand is right, after calls of the same form that did not."""
    memory = integers((20, 8), "d", 4)
    a, b, apart = memory[:8].copy(), memory[8:16].copy(), np.empty((8, 8))
    want = a @ b
    for first in (0, 1, 7, 8, 12):
        for _ in range(2):
            fastgemm.matmul(a, b, apart)
        memory[:8], memory[8:16] = a, b
        fastgemm.matmul(memory[:8], memory[8:16], memory[first : first + 8])
        assert np.array_equal(memory[first : first + 8], want)
    for _ in range(2):
        square = a.copy()
        assert np.array_equal(fastgemm.matmul(square, b, square), want)


@pytest.mark.parametrize("size", [5, 60, 128])
def test_another_plan_is_taken_up(size: int) -> None:
    """When plans are forgotten, so is what threads remember."""
    a = integers((size, size), "f", 5)
    with fastgemm.threads(1):  # a team's plan is not remembered
        fastgemm.matmul(a, a)
        fastgemm.matmul(a, a)
        _plan.take_counts()
        _plan.count_calls(True)
        try:
            # Not counted: remembered from before.
            fastgemm.matmul(a, a)
            assert not _plan.take_counts()
            # Resolved anew, and from then on found in the cache, where calls are counted.
            _plan.forget_plans()
            for _ in range(4):
                fastgemm.matmul(a, a)
            (counted,) = _plan.take_counts()
            assert (counted[0].m, counted[0].dtype, counted[1]) == (size, "f32", 3)
        finally:
            _plan.count_calls(False)


def test_every_thread_has_its_own() -> None:
    """Threads with other shapes, dtypes and limits at once."""
    problems = [
        (integers((m, k), char, m), integers((k, n), char, n))
        for char in "fdi"
        for m, n, k in itertools.product((4, 12, 50), repeat=3)
    ]
    wanted = [np.matmul(a, b) for a, b in problems]

    def work(seed: int) -> bool:
        with fastgemm.threads(1 + seed % 2):
            return all(
                np.array_equal(fastgemm.matmul(*problems[i]), wanted[i])
                for i in np.random.default_rng(seed).integers(len(problems), size=2000)
            )

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(12)))


def test_floating_point_errors_are_reported_every_time() -> None:
    """The flags of a remembered product are its own."""
    a, large = np.ones((4, 4)), np.full((4, 4), 1e300)
    for _ in range(3):
        with np.errstate(all="raise"):
            fastgemm.matmul(a, a)
            with pytest.raises(FloatingPointError):
                fastgemm.matmul(large, large)
