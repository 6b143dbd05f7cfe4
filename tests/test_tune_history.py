"""The log of trials: what it keeps, how it is bounded and pruned, and that nothing in it is believed unchecked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastgemm
from fastgemm import cpu, database, kernels
from fastgemm.heuristic import rules
from fastgemm.problem import Config, Problem, Record
from fastgemm.tune import history, lines
from fastgemm.tune.__main__ import main
from fastgemm.tune.history import Log, Trial
from fastgemm.tune.measure import Measurement

PROBLEM = Problem("f32", 96, 96, 96)
CONFIG = Config("gemm", "v3", 6, 16)


def trial(n: int = 96, seconds: float = 1e-5, **changes: Any) -> Trial:
    made = Trial(replace(PROBLEM, n=n), CONFIG, seconds, "ok", "a cpu", "abc", "random", "2026-01-01")
    return replace(made, **changes)


def test_trials_come_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "log.jsonl"
    made = [trial(), trial(32, 0.0, outcome="crash"), trial(config=CONFIG.replace(pack="b"))]
    history.append(path, made[:1])
    history.append(path, made[1:])
    assert history.read(path) == (made, [])
    assert history.read(tmp_path / "none") == ([], [])


def fields(**changes: Any) -> dict[str, Any]:
    return {**asdict(trial()), **changes}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[]", "must be an object"),
        ("{", "Expecting"),
        ("[" * 100_000, ""),
        (json.dumps(fields(seconds=-1.0)), "seconds must be between"),
        (json.dumps(fields(seconds=0.0)), "seconds must be between"),
        (json.dumps(fields(seconds=float("nan"))), "seconds must be finite"),
        (json.dumps(fields(seconds="1")), "must be a number"),
        (json.dumps(fields(outcome="great")), "outcome must be one of"),
        (json.dumps(fields(outcome=["ok"])), "must be a string"),
        (json.dumps(fields(more=1)), "unknown field"),
        (json.dumps(fields(problem={**asdict(PROBLEM), "m": True})), "must be an integer"),
        (json.dumps(fields(problem={**asdict(PROBLEM), "m": 1 << 70})), "must be between"),
        (json.dumps(fields(config={**asdict(CONFIG), "threads": 2})), "threads 2 exceeds"),
        (json.dumps(fields(config={**asdict(CONFIG), "mr": 5})), "no 5x16 tile"),
        (json.dumps(fields(cpu="x" * 5000)), "longer than"),
        (json.dumps({name: value for name, value in fields().items() if name != "cpu"}), "lacks 'cpu'"),
    ],
)
def test_what_is_no_trial_is_left_out(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "log.jsonl"
    history.append(path, [trial()])
    with open(path, "a") as file:
        file.write(line)
    history.append(path, [trial(32)])
    found, left_out = history.read(path)
    assert found == [trial(), trial(32)]
    assert len(left_out) == 1
    assert "line 2" in left_out[0]
    assert reason in left_out[0]


def test_a_file_stays_bounded_and_keeps_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for number in range(300):
        lines.append(path, [{"number": number}], most=1000, sync=False)
        assert path.stat().st_size <= 1000
    found, left_out = lines.read(path, lambda fields: fields["number"])
    assert left_out == []
    assert found == list(range(300 - len(found), 300))
    assert len(found) > 20


def test_many_lines_at_once_leave_the_newest_whole(tmp_path: Path) -> None:
    """As many old lines stay as there is room for, whole ones, the first of the file too."""
    path = tmp_path / "log.jsonl"
    line = len('{"number": 10}\n')
    for before, added, kept in ((20, 60, 20), (50, 60, 40), (50, 95, 5), (50, 100, 0), (99, 2, 50)):
        path.unlink(missing_ok=True)
        lines.append(path, [{"number": 10}] * before, most=100 * line, sync=False)
        lines.append(path, [{"number": 11}] * added, most=100 * line, sync=False)
        found, left_out = lines.read(path, lambda fields: fields["number"])
        assert left_out == []
        assert found == [10] * kept + [11] * added


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.jsonl"
    history.append(path, [trial()])
    monkeypatch.setattr(lines, "MAX_FILE", 10)
    found, (reason,) = history.read(path)
    assert found == []
    assert "larger than" in reason


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.timeout(30)
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_file_is_not_read(tmp_path: Path, kind: str) -> None:
    """A pipe would wait for somebody to write, and a device may never end."""
    path = tmp_path / "log.jsonl"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to(os.devnull)
    else:
        path.mkdir()
    found, (reason,) = history.read(path)
    assert found == []
    assert ("it is a folder" if kind == "folder" else "not a regular file") in reason
    with pytest.raises(OSError, match=r"log\.jsonl"):
        history.prune(path, lambda trial: True)


APPEND = """
import sys
from pathlib import Path
from fastgemm.tune import lines
for number in range(200):
    lines.append(Path(sys.argv[1]), [{"who": int(sys.argv[2]), "number": number, "text": "x" * 200}], sync=False)
    if number == 100 and sys.argv[2] == "0":
        lines.rewrite(Path(sys.argv[1]), lambda fields: True)
"""


def test_processes_lose_no_line(tmp_path: Path) -> None:
    """One of them replaces the file meanwhile."""
    path = tmp_path / "log.jsonl"
    env = {**os.environ, "PYTHONPATH": str(Path(fastgemm.__file__).parents[1])}
    running = [subprocess.Popen([sys.executable, "-c", APPEND, str(path), str(who)], env=env) for who in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    found, left_out = lines.read(path, lambda fields: (fields["who"], fields["number"]))
    assert left_out == []
    assert sorted(found) == [(who, number) for who in range(3) for number in range(200)]


def test_pruning(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    history.append(path, [trial(), trial(32, cpu="another"), trial(64)])
    with open(path, "a") as file:
        file.write("half a li")
    assert history.prune(path, lambda one: one.cpu != "a cpu", dry_run=True) == (2, 4)
    assert len(history.read(path)[0]) == 3
    assert history.prune(path, lambda one: one.cpu != "a cpu") == (2, 4)
    assert history.read(path) == ([trial(), trial(64)], [])
    assert history.prune(tmp_path / "none", lambda one: True) == (0, 0)


@pytest.mark.skipif(kernels.active_isa() is None, reason="no kernels run here")
def test_the_command_shows_and_prunes_trials(database_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = {"cpu": cpu.key(), "kernels": kernels.kernel_hash()}
    start = rules.config(PROBLEM)
    database.write(database_path, [Record(PROBLEM, start, 1e-5, 2e-5, kernels=here["kernels"])])
    log = history.beside(database_path)
    history.append(log, [trial(), trial(**here), trial(32, **{**here, "kernels": "old"})])
    assert main(["db", "show", str(database_path)]) == 0
    assert "3 trials, 1 of them of this CPU and build" in capsys.readouterr().out
    assert main(["db", "prune", str(database_path), "--stale", "--dry-run"]) == 0
    assert "2 of 3 trials would be taken out" in capsys.readouterr().out
    assert main(["db", "prune", str(database_path), "--other-cpus"]) == 0
    assert "1 of 3 trials taken out" in capsys.readouterr().out
    assert main(["db", "prune", str(database_path), "--below", "1.1"]) == 0
    assert len(history.read(log)[0]) == 2


def test_experiences_are_of_this_machine_and_of_other_problems(tmp_path: Path) -> None:
    other = CONFIG.replace(pack="b")
    trials = [trial(n, seconds, config=config) for n in (32, 64) for seconds, config in ((1e-5, CONFIG), (2e-5, other))]
    trials += [trial(32, 3e-5), trial(32, 0.0, outcome="crash", config=CONFIG.replace(pack="ab"))]
    trials += [trial(128, cpu="another"), trial(128, config=other, cpu="another")]
    trials += [trial(256)]  # one configuration ranks nothing
    trials += [replace(one, problem=replace(one.problem, dtype="f64")) for one in trials[:2]]
    found = history.experiences(trials, [], "a cpu", "abc", "v3", PROBLEM)
    assert [one.nests.extents()["n"][0, 0] for one in found] == [64, 32]
    # The same configuration again: its newest time.
    np.testing.assert_allclose(found[1].seconds, [2e-5, 3e-5])
    assert len(history.experiences(trials, [], "a cpu", "abc", "v3", replace(PROBLEM, n=32))) == 1
    assert history.experiences(trials, [], "a cpu", "abc", "v4", PROBLEM) == []


def test_what_no_model_describes_is_no_experience(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy's products, kernels of a shape's own and of another build; and the newest problems are enough."""
    special, numpy = CONFIG.replace(special="0" * 32), Config("numpy", "v3")
    trials = [trial(32), trial(32, config=special)]
    records = [
        Record(replace(PROBLEM, n=32), config, 1e-5, 2e-5, 9, "random", "2026-01-01", build)
        for config, build in ((numpy, "abc"), (special, "abc"), (CONFIG.replace(pack="b"), "another"))
    ]
    assert history.experiences(trials, records, "a cpu", "abc", "v3", PROBLEM) == []
    monkeypatch.setattr(history, "MOST_PROBLEMS", 2)
    trials = [trial(n, config=config) for n in (16, 32, 64) for config in (CONFIG, CONFIG.replace(pack="b"))]
    found = history.experiences(trials, [], "a cpu", "abc", "v3", PROBLEM)
    assert [one.nests.extents()["n"][0, 0] for one in found] == [64, 32]


def test_a_run_adds_to_what_it_learns_from(tmp_path: Path) -> None:
    path = tmp_path / "tuning.json"
    history.append(history.beside(path), [trial(32), trial(32, config=CONFIG.replace(pack="b"))])
    said: list[str] = []
    log = Log(path, "a cpu", "abc", said.append)
    assert len(log.experiences(PROBLEM, "v3")) == 1
    for pack in ("none", "b"):
        log.add(replace(PROBLEM, n=64), Measurement(CONFIG.replace(pack=pack), "ok", 1e-5), "random")
    log.add(replace(PROBLEM, n=64), Measurement(CONFIG.replace(pack="ab"), "crash"), "random")
    assert len(log.experiences(PROBLEM, "v3")) == 2
    found, left_out = history.read(log.path)
    assert (len(found), left_out, said) == (5, [], [])
    assert [one.outcome for one in found] == ["ok"] * 4 + ["crash"]


def test_lines_that_are_no_trials_are_said_once(tmp_path: Path) -> None:
    path, said = tmp_path / "tuning.json", list[str]()
    history.append(history.beside(path), [trial(32), trial(32, config=CONFIG.replace(pack="b"))])
    with open(history.beside(path), "a") as file:
        file.write("no trial\n")
    log = Log(path, "a cpu", "abc", said.append)
    assert [len(log.experiences(PROBLEM, "v3")) for _ in range(2)] == [1, 1]
    assert len(said) == 1
    assert "1 lines of the log of trials left out" in said[0]


def test_a_log_that_cannot_be_written_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said: list[str] = []
    log = Log(tmp_path / "file" / "tuning.json", "a cpu", "abc", said.append)
    for _ in range(3):
        log.add(PROBLEM, Measurement(CONFIG, "ok", 1e-5), "random")
    assert len(said) == 1
    assert "not kept" in said[0]
