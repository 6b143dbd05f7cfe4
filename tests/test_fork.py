"""After a fork: a child of a process that has used threads computes, and does not hang.

libgomp's pool does not survive a fork, so this is the place where a library on
OpenMP hangs.  Every wait here has a limit of its own, and a child that passes it is killed.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
from oracle import integers

import fastgemm
from fastgemm import dispatch, kernels, numpy_loops, special

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),  # Python 3.12 warns: threads exist
    pytest.mark.timeout(240, method="thread"),
]
LIMIT = 60.0  # seconds; a child needs milliseconds, a slow machine seconds
SIZE = 280


def correct(size: int = SIZE, threads: int = 2) -> bool:
    """Compute with threads and compare, exactly."""
    a, b = integers((size, size), "f4", 1), integers((size, size), "f4", 2)
    with fastgemm.threads(threads):
        got = [fastgemm.matmul(a, b), fastgemm.matmul(a.astype("c16"), b.astype("c16"))]
    want = np.einsum("ik,kj->ij", a, b)  # not through NumPy's BLAS: its threads are not on trial
    return all(np.array_equal(g, want) for g in got)


def forked(work: Callable[[], bool]) -> int:
    """Fork, let the child work, and return its exit code; kill it at the limit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        code = 3
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    pytest.fail("the child hangs")


@pytest.fixture(autouse=True)
def _threads_used_before() -> None:
    assert correct()


def test_child_computes() -> None:
    assert forked(correct) == 0
    assert correct(), "the parent works on"


def test_many_children() -> None:
    for _ in range(5):
        assert forked(correct) == 0
        assert correct()


def test_grandchild_computes() -> None:
    assert forked(lambda: correct() and forked(correct) == 0 and correct()) == 0


def test_grandchild_of_an_idle_child() -> None:
    assert forked(lambda: forked(correct) == 0) == 0


def test_child_after_one_thread_only() -> None:
    with fastgemm.threads(1):
        assert forked(lambda: correct(threads=1) and correct(threads=2)) == 0


def test_child_uses_gemm_and_out() -> None:
    def work() -> bool:
        a = integers((SIZE, SIZE), "f8", 1)
        out = np.full((SIZE, SIZE), np.nan)
        fastgemm.gemm(a, a, out=out, alpha=2.0, trans_b=True)
        return np.array_equal(out, 2 * np.einsum("ik,jk->ij", a, a))

    assert forked(work) == 0


def test_child_starts_python_threads() -> None:
    def work() -> bool:
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            return all(pool.map(lambda _: correct(160), range(6)))

    assert forked(work) == 0


def test_fork_while_another_thread_computes() -> None:
    """No lock is held across a fork that a child would wait for."""
    stop = threading.Event()
    a = integers((200, 200), "f4", 1)

    def busy() -> None:
        while not stop.is_set():
            fastgemm.matmul(a, a)

    worker = threading.Thread(target=busy)
    worker.start()
    try:
        for _ in range(5):
            assert forked(correct) == 0
    finally:
        stop.set()
        worker.join(LIMIT)
    assert not worker.is_alive()


def _square(seed: int) -> bool:
    return correct(200 + seed)


def test_pool_by_fork() -> None:
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        assert pool.map_async(_square, range(6)).get(LIMIT) == [True] * 6
    assert correct()


def test_executor_by_fork() -> None:
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        futures = [pool.submit(_square, i) for i in range(6)]
        assert [f.result(LIMIT) for f in futures] == [True] * 6
    assert correct()


def test_pool_inside_a_pool() -> None:
    """A child of a pool forks children of its own."""

    def work() -> bool:
        context = multiprocessing.get_context("fork")
        process = context.Process(target=lambda: os._exit(0 if correct() else 1))
        process.start()
        process.join(LIMIT)
        if process.exitcode is None:
            process.kill()
        return process.exitcode == 0 and correct()

    assert forked(work) == 0


@pytest.mark.parametrize("module", [dispatch, kernels, special, numpy_loops], ids=lambda module: module.__name__)
def test_a_child_finds_no_lock_taken(module: ModuleType) -> None:
    """Whatever another thread is in the middle of, loading kernels or reading the database: the fork waits for it."""
    guard = module._lock
    taken, give = threading.Event(), threading.Event()

    def hold() -> None:
        with guard:
            taken.set()
            give.wait(LIMIT)

    holder = threading.Thread(target=hold)
    holder.start()
    assert taken.wait(LIMIT)
    threading.Timer(0.2, give.set).start()

    def free() -> bool:
        # In a thread of its own: this one may take it twice.
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(guard.acquire, timeout=5).result()

    assert forked(free) == 0
    holder.join(LIMIT)
