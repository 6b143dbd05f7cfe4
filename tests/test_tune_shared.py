"""Tuners that share: a study in a storage, a database, and what is left of one that is killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import environment

from fastgemm import cpu, database, kernels
from fastgemm.heuristic import rules
from fastgemm.problem import Problem
from fastgemm.tune import driver, journal, strategies
from fastgemm.tune.measure import ReplayRunner
from fastgemm.tune.space import Space

optuna = pytest.importorskip("optuna")

from fastgemm.tune import storage  # noqa: E402 (needs Optuna)

if kernels.active_isa() is None:
    pytest.skip("no kernels run here", allow_module_level=True)

PROBLEM = Problem("f32", 300, 200, 1500, threads=2)


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "fastgemm.tune", *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), process_group=0
    )


# ---- studies


def searched(url: str, trials: int) -> driver.Trials:
    """Search on a made-up landscape, with a study in a storage."""
    space = Space(PROBLEM, rules.config(PROBLEM))
    strategy = strategies.load("tpe", storage.opened(url))
    order = {config: at for at, config in enumerate(sorted(space.all(), key=repr))}
    found = driver.Trials(ReplayRunner(lambda config: 1e-3 * (1 + order[config] / len(order))))
    found.costs([space.start])
    driver.search(space, strategy, found, driver.Budget(trials), random.Random(0))
    return found


def trials_in(url: str) -> list[optuna.trial.FrozenTrial]:
    opened = storage.opened(url)
    return [trial for summary in opened.get_all_studies() for trial in opened.get_all_trials(summary._study_id)]


@pytest.mark.parametrize("name", ["study.log", "study.db"])
def test_a_study_goes_on(tmp_path: Path, name: str) -> None:
    url = str(tmp_path / name)
    first = searched(url, 13)
    told = len(trials_in(url))
    assert told >= 13
    second = searched(url, 5)
    # The best of before is measured again, here, so that it can win this final too.
    assert first.ranking()[0] in second.results
    assert len(trials_in(url)) > told
    assert not [trial for trial in trials_in(url) if trial.state == optuna.trial.TrialState.RUNNING]


def test_studies_of_other_machines_keep_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = str(tmp_path / "study.log")
    searched(url, 3)
    monkeypatch.setattr(cpu, "key", lambda: "another cpu")
    searched(url, 3)
    assert len(storage.opened(url).get_all_studies()) == 2


@pytest.mark.parametrize(
    ("url", "reason"),
    [("study.txt", "neither a URL"), ("/no/such/folder/x.log", "no such folder"), ("nosuchdb://host/x", "nosuchdb")],
)
def test_a_storage_that_cannot_be_used_is_named(url: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(strategies.StorageError, match=reason):
        storage.opened(url)


@pytest.mark.parametrize("line", ["[]", "{}", "null", "1", '{"op_code": 0}', '{"op_code": 99}', "two\nlines", "\xff"])
def test_a_file_that_is_no_journal_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "notes.log"
    path.write_bytes(line.encode("latin-1") + b"\n")
    with pytest.raises(strategies.StorageError, match=r"notes\.log: no journal of Optuna"):
        storage.opened(str(path))


def test_only_a_strategy_with_studies_takes_a_storage(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="keeps no study"):
        strategies.load("random", storage.opened(str(tmp_path / "study.log")))


@pytest.mark.timeout(200)
def test_processes_share_a_study_and_a_database(tmp_path: Path) -> None:
    """Three tuners at the same problem, and each at one of its own: nothing is lost."""
    path, url = tmp_path / "tuning.json", tmp_path / "study.log"
    common = ("--threads", 1, "--trials", 4, "--strategy", "tpe", "--storage", url, "--db", path, "--quiet")
    tuners = [start("--shapes", "40x40x40", f"{m}x40x40", *common) for m in (41, 42, 43)]
    for tuner in tuners:
        _, said = tuner.communicate(timeout=180)
        assert tuner.returncode == 0, said
    entries, left_out = journal.read(journal.beside(path))
    assert left_out == []
    assert sorted(entry.problem.m for entry in entries) == [40, 40, 40, 41, 42, 43]
    assert database.read(path)[1] == []
    recorded = {record.problem.m for record in database.read(path)[0]}
    assert recorded >= {entry.problem.m for entry in entries if entry.status == "confirmed" and entry.problem.m > 40}
    opened = storage.opened(str(url))
    assert len(opened.get_all_studies()) == 4
    assert len(trials_in(str(url))) >= 6 * 4


# ---- one database


STORE = """
import sys
from pathlib import Path
from fastgemm import cpu, kernels
from fastgemm.heuristic import rules
from fastgemm.problem import Problem
from fastgemm.tune import driver
from fastgemm.tune.journal import Entry

path, first = Path(sys.argv[1]), int(sys.argv[2])
for m in range(first, first + 40):
    problem = Problem("f32", m, 8, 8)
    config = rules.config(problem).replace(nc=77)
    entry = Entry(problem, "confirmed", config, 1e-6, 2e-6, 1e-5, 1.0, 0.001, 0.01, 9, 0, "random", "2026-01-01")
    driver.store(entry, path, cpu.key(), kernels.kernel_hash())
    print(m, flush=True)
"""


def storing(path: Path, first: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", STORE, str(path), str(first)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())


@pytest.mark.timeout(120)
def test_tuners_at_one_database_lose_no_record(tmp_path: Path) -> None:
    path = tmp_path / "tuning.json"
    tuners = [storing(path, first) for first in (1000, 2000, 3000)]
    assert [(tuner.communicate()[0].count("\n"), tuner.returncode) for tuner in tuners] == [(40, 0)] * 3
    assert len(database.read(path)[0]) == 120
    entries, left_out = journal.read(journal.beside(path))
    assert (len(entries), left_out) == (120, [])


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(4))
def test_a_kill_at_any_moment_loses_the_one_in_progress_at_most(tmp_path: Path, seed: int) -> None:
    """What the killed process has said to be stored is stored, whole, and another tuner goes on with the file."""
    path = tmp_path / "tuning.json"
    victim = storing(path, 1000)
    assert victim.stdout is not None
    for _ in range(2 + 3 * seed):
        victim.stdout.readline()
    time.sleep(random.Random(seed).uniform(0, 0.01))  # within a lock, a write, a replacement, or between them
    victim.kill()
    rest = victim.stdout.read().split()
    victim.wait()
    finished = 2 + 3 * seed + len(rest)
    records, problems = database.read(path)
    assert problems == []
    assert finished <= len(records) <= finished + 1
    entries = journal.read(journal.beside(path))[0]
    assert finished <= len(entries) <= len(records)
    other = storing(path, 2000)
    assert other.communicate()[0].count("\n") == 40
    assert len(database.read(path)[0]) == len(records) + 40
    assert {p.name for p in tmp_path.iterdir() if p.name[0] != "."} == {"tuning.json", "tuning.log.jsonl"}
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
@pytest.mark.timeout(200)
@pytest.mark.parametrize("delay", [0.0, 0.3])
def test_a_killed_tuner_keeps_what_it_finished_and_resumes(tmp_path: Path, delay: float) -> None:
    """For real: the command dies while it measures, and so does its worker; the next run skips what is done."""
    path = tmp_path / "tuning.json"
    sizes = [f"{m}x8x8" for m in range(1, 60)]
    common = ("--shapes", *sizes, "--threads", 1, "--trials", 2, "--strategy", "random", "--db", path)
    victim = start(*common)
    while victim.poll() is None and len(journal.read(journal.beside(path))[0]) < 2:
        time.sleep(0.01)
    time.sleep(delay)
    os.kill(victim.pid, signal.SIGKILL)
    victim.communicate(timeout=60)
    kept, left_out = journal.read(journal.beside(path))
    assert left_out == []
    assert 2 <= len(kept) < 59
    confirmed = {entry.problem for entry in kept if entry.status == "confirmed"}
    records, problems = database.read(path)
    assert problems == []
    # The record is written before the journal's line: a kill in between leaves one more.
    assert confirmed <= {record.problem for record in records}
    assert len(records) <= len(confirmed) + 1
    more = start(*common, "--resume", "--dry-run")
    assert f"{59 - len(kept)} problems to tune, {len(kept)} tuned before" in more.communicate(timeout=60)[0]


def test_records_of_a_fleet_lie_side_by_side(tmp_path: Path) -> None:
    """Each machine writes under its own CPU key, and reads its own."""
    path = tmp_path / "fleet.json"
    space = Space(PROBLEM, rules.config(PROBLEM))
    best = list(space.all())[-1]
    runner = ReplayRunner(lambda config: 1e-5 if config == best else 2e-5)
    entry = driver.tune(space, runner, strategies.load("exhaustive"), driver.Budget())
    for key in ("one cpu", "another cpu", cpu.key()):
        driver.store(entry, path, key, kernels.kernel_hash())
    assert len(json.loads(path.read_text())["groups"]) == 3
    assert list(driver.recorded(path, "one cpu", kernels.kernel_hash())) == [PROBLEM]
