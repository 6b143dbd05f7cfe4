"""Studies in a PostgreSQL server of this test's own; skipped where none can be started."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastgemm import kernels
from fastgemm.heuristic import rules
from fastgemm.problem import Problem
from fastgemm.tune import driver, strategies
from fastgemm.tune.measure import ReplayRunner
from fastgemm.tune.space import Space

optuna = pytest.importorskip("optuna")
pytest.importorskip("psycopg", reason="psycopg is not installed")

from fastgemm.tune import storage  # noqa: E402 (needs Optuna)

if kernels.active_isa() is None:
    pytest.skip("no kernels run here", allow_module_level=True)

PROBLEM = Problem("f32", 300, 200, 1500, threads=2)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server in a folder of its own, on a port of its own, for this module."""
    if missing := [name for name in ("initdb", "pg_ctl", "postgres") if shutil.which(name) is None]:
        pytest.skip(f"no PostgreSQL here: {', '.join(missing)} not found")
    # The server refuses to run as root; then it runs as somebody who owns nothing.
    user = None
    if os.geteuid() == 0:
        import pwd

        known = {entry.pw_name for entry in pwd.getpwall()}
        user = next((name for name in ("postgres", "nobody") if name in known), None)
        if user is None:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres or nobody")
    with tempfile.TemporaryDirectory(prefix="fastgemm-pg-") as folder:
        if user:
            shutil.chown(folder, user)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]

        def run(*command: str) -> subprocess.CompletedProcess[str]:
            # To a file, and not to a pipe: the server inherits it and keeps it open.
            with open(Path(folder).with_suffix(".out"), "w+") as said:
                made = subprocess.run(command, stdout=said, stderr=said, user=user, cwd=folder, timeout=60)
                said.seek(0)
                return subprocess.CompletedProcess(command, made.returncode, said.read())

        data = str(Path(folder) / "data")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
        try:
            for command in (
                ("initdb", "-D", data, "-U", "tuner", "--auth=trust", "--no-sync"),
                ("pg_ctl", "-D", data, "-w", "-t", "30", "-o", options, "-l", f"{folder}/log", "start"),
            ):
                made = run(*command)
                if made.returncode:
                    pytest.skip(f"{command[0]} failed: {made.stdout[-200:]}")
            try:
                yield f"postgresql+psycopg://tuner@127.0.0.1:{port}/postgres"
            finally:
                run("pg_ctl", "-D", data, "-m", "immediate", "stop")
        finally:
            Path(folder).with_suffix(".out").unlink(missing_ok=True)


def searched(url: str, trials: int) -> driver.Trials:
    space = Space(PROBLEM, rules.config(PROBLEM))
    order = {config: at for at, config in enumerate(sorted(space.all(), key=repr))}
    found = driver.Trials(ReplayRunner(lambda config: 1e-3 * (1 + order[config] / len(order))))
    found.costs([space.start])
    strategy = strategies.load("tpe", storage.opened(url))
    driver.search(space, strategy, found, driver.Budget(trials), random.Random(0))
    return found


@pytest.mark.timeout(120)
def test_a_study_in_postgresql_goes_on(url: str) -> None:
    first = searched(url, 13)
    second = searched(url, 4)
    assert first.ranking()[0] in second.results
    (summary,) = storage.opened(url).get_all_studies()
    told = storage.opened(url).get_all_trials(summary._study_id)
    assert len(told) >= 17
    assert not [trial for trial in told if trial.state == optuna.trial.TrialState.RUNNING]


@pytest.mark.timeout(60)
def test_a_server_that_is_not_there_is_named(url: str) -> None:
    with pytest.raises(strategies.StorageError, match="postgresql"):
        storage.opened(url.replace("/postgres", "/nosuchdatabase"))
