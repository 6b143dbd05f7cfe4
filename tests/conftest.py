"""Fixtures shared by all tests, and the environment that they run in.

The environment is cleaned before anything imports fastgemm: the user's own tuning
database, thread count and log file must not decide whether a test passes.
``FASTGEMM_ISA`` is left alone, so that the whole suite can be run on a lower tier.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fastgemm import registry
    from fastgemm.problem import Problem

pytest.register_assert_rewrite("oracle", "own_rules")

_EMPTY = tempfile.TemporaryDirectory(prefix="fastgemm-tests-")
os.environ["FASTGEMM_DB"] = os.path.join(_EMPTY.name, "empty.json")
for _name in ("FASTGEMM_NUM_THREADS", "FASTGEMM_LOG_UNTUNED", "OMP_NUM_THREADS"):
    os.environ.pop(_name, None)
# Whether limbs pay is measured, and would change from run to run: what is not of them (test_limbs) goes without.
os.environ["FASTGEMM_F32"] = "vectors"

Child = Callable[..., "subprocess.CompletedProcess[str]"]
Pretend = Callable[..., None]


def pytest_configure(config: pytest.Config) -> None:
    """Name the markers that the tests, and NumPy's own tests, carry."""
    config.addinivalue_line("markers", "timeout(seconds, method): end the test after this long")
    for name in (
        "slow",
        "slow_pypy",
        "leaks_references",
        "valgrind_error",
        "thread_unsafe",
        "parallel_threads",
        "parallel_threads_limit",
        "iterations",
    ):
        config.addinivalue_line("markers", f"{name}: carried by NumPy's tests")


@pytest.fixture(autouse=True)
def _same_threads_after() -> Iterator[None]:
    """Give every test the thread count that the session started with."""
    import fastgemm  # here, because the environment above comes first

    before = fastgemm.get_num_threads()
    yield
    if fastgemm.get_num_threads() != before:
        fastgemm.set_num_threads(before)


@pytest.fixture(autouse=True)
def _same_signals_after() -> Iterator[None]:
    """Let no test leave a handler of a signal behind: a forked child has it too, and may not end when it is told to.

    (A bench's command left SIGTERM's: the workers of a pool outlived `Pool.terminate`, which waited for them.)
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    assert {number: signal.getsignal(number) for number in before} == before


def environment(**more: str) -> dict[str, str]:
    """Return what a child inherits: a forced ISA tier holds there too; the user's database and log are none of ours."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("FASTGEMM_") or k == "FASTGEMM_ISA"}
    return {**kept, "PYTHONPATH": str(Path(__file__).resolve().parents[1]), **more}


@pytest.fixture
def user_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's database, a file that is not there yet; nothing comes with the package."""
    from fastgemm import database

    path = tmp_path / "mine.json"
    monkeypatch.setenv("FASTGEMM_DB", str(path))
    monkeypatch.setattr(database, "bundled_path", lambda: None)
    return path


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Problem]]:
    """The problems that were resolved: what reached our kernels for the first time since the last `forget`."""
    from fastgemm import dispatch
    from fastgemm.driver import _plan

    problems: list[Problem] = []

    def plan_for(problem: Problem) -> Any:
        problems.append(problem)
        return real(problem)

    real = dispatch.plan_for
    monkeypatch.setattr(dispatch, "plan_for", plan_for)
    _plan.forget_plans()
    yield problems
    _plan.forget_plans()


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pretend]:
    """Call it with KiB of L1, L2 and L3: the CPU has such caches, and vectors of 64 bytes whole."""
    from fastgemm import cpu
    from fastgemm.driver import _plan

    def as_if(l1d: int, l2: int, l3: int, half_lines: bool = False) -> None:
        monkeypatch.setattr(cpu, "_half_wide", lambda: False)
        monkeypatch.setattr(cpu, "_half_lines", lambda: half_lines)
        monkeypatch.setattr(cpu, "caches", lambda: cpu.Caches(l1d << 10, l2 << 10, l3 << 10))
        _plan.forget_plans()

    yield as_if
    _plan.forget_plans()


@pytest.fixture
def skylake(pretend: Pretend) -> None:
    """A Skylake-SP's caches."""
    pretend(32, 1 << 10, 33 << 10)


@pytest.fixture
def emerald(pretend: Pretend) -> None:
    """An Emerald Rapids' caches, as two cores count on them, and lines that come by halves."""
    pretend(48, 2 << 10, 32 << 10, half_lines=True)


@pytest.fixture
def zen4(pretend: Pretend, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Zen 4's caches, and its units, which compute the longer vectors in two halves."""
    from fastgemm import cpu

    pretend(32, 1 << 10, 32 << 10)
    monkeypatch.setattr(cpu, "_half_wide", lambda: True)


@pytest.fixture(scope="session", autouse=True)
def first_call() -> None:
    """Make the call that asks the CPU and the environment, once for all of the process, before a test changes it."""
    import numpy as np

    import fastgemm

    one = np.ones((1, 1), "f4")
    fastgemm.matmul(one, one)


@pytest.fixture
def on_tier(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], registry.Isa]]:
    """A function that puts every call of the process on one tier, until the test ends."""
    from fastgemm import dispatch, layer, registry, to_bytes

    def forget() -> None:
        layer.epilogue_level.cache_clear()
        to_bytes.level.cache_clear()
        dispatch.reload()

    def put(name: str) -> registry.Isa:
        monkeypatch.setenv("FASTGEMM_ISA", name)
        forget()
        return registry.isa(name)

    yield put
    monkeypatch.undo()
    forget()


@pytest.fixture
def database_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Path of a user database that does not exist yet, in force for this test and its children."""
    path = tmp_path / "user.json"
    monkeypatch.setenv("FASTGEMM_DB", str(path))
    return path


@pytest.fixture
def child() -> Child:
    """Run Python code in a fresh interpreter: ``child(code, FASTGEMM_ISA="v3")``.

    A keyword is an environment variable; None removes it.  The exit code must be
    the one asked for (``status=0``).
    """

    def run(code: str, status: int = 0, **variables: str | None) -> subprocess.CompletedProcess[str]:
        env = dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in sys.path if p))
        for name, value in variables.items():
            if value is None:
                env.pop(name, None)
            else:
                env[name] = value
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == status, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run
