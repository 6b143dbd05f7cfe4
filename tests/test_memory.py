"""Memory: workspaces stay small and bounded, no operand is copied, nothing leaks."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from conftest import Child

import fastgemm

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
STATUS = """
def status(field):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field + ":")) << 10
"""


@linux
def test_bounded_over_many_shapes(child: Child) -> None:
    """20,000 calls of varied shapes, dtypes and layouts: the process grows by next to nothing."""
    code = STATUS + (
        "import numpy as np, fastgemm\n"
        "rng = np.random.default_rng(0)\n"
        "pools = [np.ones((80, 80), char) for char in ('f4', 'f8', 'c8', 'c16')]\n"
        "def calls(count):\n"
        "    for i, (m, n, k) in enumerate(rng.integers(1, 65, (count, 3)).tolist()):\n"
        "        x = pools[i % 4]\n"
        "        a, b = x[:m, :k], x[:k, :n]\n"
        "        fastgemm.matmul(a.T.copy().T if i % 3 == 0 else a, b)\n"
        "calls(3000)\n"
        "before = status('VmRSS')\n"
        "calls(20000)\n"
        "print(status('VmRSS') - before)"
    )
    assert int(child(code, FASTGEMM_NUM_THREADS="2").stdout) < 8 << 20


@linux
@pytest.mark.parametrize("b", ["np.ones((2000, 8000), 'f4')", "np.ones((8000, 2000), 'f4').T"])
def test_no_operand_is_copied(child: Child, b: str) -> None:
    """The peak of a call that streams 64 MB is its workspace, not 64 MB."""
    code = STATUS + (
        "import numpy as np, fastgemm\n"
        f"a, b = np.ones((4, 2000), 'f4'), {b}\n"
        "fastgemm.matmul(a[:, :8], b[:8])\n"
        "before = status('VmHWM')\n"
        "assert (fastgemm.matmul(a, b) == 2000).all()\n"
        "fastgemm.gemm(a, b, alpha=2.0)\n"
        "fastgemm.matmul(a[::2, ::-1], b[::-1])\n"
        "print(status('VmHWM') - before)"
    )
    assert int(child(code, FASTGEMM_NUM_THREADS="2").stdout) < 24 << 20


def test_references() -> None:
    """Calls that succeed and calls that fail give back what they borrowed."""
    a, b, out = np.ones((9, 9), "f4"), np.ones((9, 9), "f4"), np.empty((9, 9), "f4")
    small, stack = np.ones((3, 3), "f4"), np.ones((2, 9, 9), "f4")
    held = (a, b, out, small, stack)

    def work() -> None:
        fastgemm.matmul(a, b)
        fastgemm.matmul(a, b, out=out)
        fastgemm.matmul(stack, b)
        fastgemm.matmul(a, a, out=a)
        fastgemm.gemm(a, b, out, beta=1, out=out)
        a[...] = 1
        for bad in (small, stack[0, :3], "text", None):
            with pytest.raises((TypeError, ValueError)):
                fastgemm.matmul(a, bad)
            with pytest.raises((TypeError, ValueError)):
                fastgemm.matmul(a, b, out=bad if bad is not None else small)
            with pytest.raises((TypeError, ValueError)):
                fastgemm.gemm(a, bad)

    work()
    before = [sys.getrefcount(x) for x in held]
    for _ in range(20):
        work()
    assert [sys.getrefcount(x) for x in held] == before


def test_results_belong_to_the_caller() -> None:
    for a in (np.ones((5, 5), "f4"), np.ones((2, 5, 5), "f4"), np.ones((500, 500), "f4")):
        result = fastgemm.matmul(a, a)
        assert result.base is None
        assert result.flags.owndata
        assert sys.getrefcount(result) <= 2
