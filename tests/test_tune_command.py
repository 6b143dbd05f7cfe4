"""The command: what it prints and refuses, what it keeps when it is stopped, and that calls use its records."""

import contextlib
import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import environment

from fastgemm import cpu, database, kernels
from fastgemm.database import reading
from fastgemm.heuristic import rules
from fastgemm.problem import Config, Problem, Record
from fastgemm.tune import chronicle, driver, graphs, history, journal, nested_search, strategies
from fastgemm.tune.__main__ import main
from fastgemm.tune.driver import Budget
from fastgemm.tune.journal import Entry
from fastgemm.tune.measure import ReplayRunner
from fastgemm.tune.nested import NestedSpace, State
from fastgemm.tune.space import Space

TUNE = (sys.executable, "-m", "fastgemm.tune")


def tune(*arguments, **more):
    return subprocess.run(
        [*TUNE, *map(str, arguments)], capture_output=True, text=True, env=environment(**more), timeout=280
    )


def python(program, **more):
    made = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment(**more), timeout=120
    )
    assert made.returncode == 0, made.stderr
    return made.stdout


# ---- words


def test_without_arguments_it_says_how_to_use_it(capsys):
    assert main([]) == 2
    assert "--help" in capsys.readouterr().err


def test_help_teaches(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for words in ("examples:", "--from-log", "Ctrl-C", *strategies.names()):
        assert words in text


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--shapes", "3x4"], "MxNxK"),
        (["--shapes", "3x4x0"], "zero"),
        (["--shapes", "3x4x" + 5000 * "9"], "digits"),
        (["--shapes", "8x8x8", "--specialize", "--strategy", "gbfs"], "--specialize does not search"),
        (["--shapes", "8x8x8", "--specialize", "--trials", "3"], "--specialize does not search"),
        (["--shapes", "8x8x8", "--specialize", "--quick"], "--specialize does not search"),
        (["--shapes", "8x8x8", "--batch", "8"], "--batch goes with --graph"),
        (["--renew", "--batch", "8"], "--batch goes with --graph"),
        (["--shapes-file", "shapes.csv", "--layout", "nt"], "--layout goes with --shapes"),
        (["--from-db", "tuning.json", "--activation", "relu"], "--activation goes with --shapes"),
        (["--graph", "model.onnx", "--dtype", "float32"], "--dtype goes with --shapes or --shapes-file"),
        (["--shapes", "8x8x8", "--dry-run", "--report", "folder"], "--dry-run measures nothing"),
        (["--from-log", os.devnull], f"{os.devnull}: there are no shapes in it"),
        (["--renew", "--trials", "3"], "--renew does not search"),
        (["--renew", "--strategy", "auto"], "--renew does not search"),
        (["--shapes", "8x8x8", "--renew", "--specialize"], "exclude each other"),
        (["--renew", "--db", "no-such-file.json"], "no-such-file.json: no database there"),
        (["--from-db", "no-such-file.json"], "no-such-file.json: no database there"),
        (["--shapes", "3x4x5", "--dtype", "int4"], "no kernels"),
        (["--shapes", "3x4x5", "--threads", "0"], "above zero"),
        (["--shapes", "3x4x5", "--threads", "99999"], "at most"),
        (["--shapes", "3x4x5", "--trials", "-1"], "above zero"),
        (["--shapes", "3x4x5", "--trials", "\uff11"], "above zero"),
        (["--shapes", "3x4x5", "--trials", "1_0"], "above zero"),
        (["--shapes", "3x4x5", "--trials", 5000 * "9"], "whole number above zero of at most 20 digits"),
        (["--shapes", "3x4x5", "--seconds", "nan"], "seconds"),
        (["--shapes", "3x4x5", "--seconds", "1_0"], "seconds"),
        (["--shapes", "3x4x5", "--seconds", 5000 * "9"], "seconds"),
        (["--shapes", "3x4x5", "--seed", "-1"], "whole number"),
        (["--shapes", "3x4x5", "--seed", 5000 * "9"], "whole number of at most 20 digits"),
        (["--shapes", 5000 * "x"], "MxNxK"),
        (["--shapes", "3x4x5", "--strategy", "luck"], "invalid choice"),
        (["--shapes", "3x4x5", "--layout", "xy"], "invalid choice"),
        (["--shapes-file", "no-such-file.csv"], "no-such-file.csv"),
        (["--from-log", "no-such-file.jsonl"], "no-such-file.jsonl"),
        (["--dry-run"], "no shapes"),
        (["--shapes", "9999999x9999999x9999999"], "no shape is left to tune"),
        (["--shapes", "8x8x8", "--dtype", "int8:int16"], "int8:int32"),
        (["--shapes", "9999999x9999999x9", "--dry-run"], "GiB"),
    ],
)
def test_bad_arguments_are_refused(arguments, reason, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert reason in said
    assert len(said) < 1000


@pytest.mark.parametrize("source", ["--from-log", "--from-db"])
def test_shapes_that_options_leave_out_are_counted(source, tmp_path, capsys):
    path = tmp_path / "shapes"
    problems = [Problem("f32", 8, 8, 8), Problem("f32", 9, 9, 9, threads=2), Problem("f64", 8, 8, 8)]
    if source == "--from-log":
        path.write_text("".join(json.dumps(dataclasses.asdict(problem)) + "\n" for problem in problems))
    else:
        database.write(path, [Record(problem, rules.config(problem), 1e-6, 2e-6, kernels="k") for problem in problems])
    assert main([source, str(path), "--dtype", "float32", "--threads", "2", "--dry-run"]) == 0
    said = capsys.readouterr()
    assert "1 problems to tune" in said.out
    assert f"left out: {path}: 1 shapes by --dtype (theirs: float64)\n" in said.err
    assert f"left out: {path}: 1 shapes by --threads (theirs: 1)\n" in said.err
    with pytest.raises(SystemExit):
        main([source, str(path), "--threads", "9", "--dry-run"])
    said = capsys.readouterr().err
    assert f"left out: {path}: 3 shapes by --threads (theirs: 1, 2)\n" in said
    assert "no shape is left to tune" in said


def test_layout_and_activation_are_of_the_shapes(tmp_path, capsys):
    path = tmp_path / "shapes.csv"
    path.write_text("M,N,K\n7,5,3\n")
    arguments = ["--shapes", "9x8x7", "--shapes-file", str(path), "--threads", "1", "--dry-run"]
    assert main([*arguments, "--layout", "np", "--activation", "relu"]) == 0
    said = capsys.readouterr().out
    assert "9x8x7 float32 np+relu 1 thread" in said
    assert "7x5x3 float32 1 thread" in said


def test_a_folder_that_is_still_to_be_made_is_one(tmp_path, capsys):
    """As FASTGEMM_DB has it."""
    assert main(["--shapes", "8x8x8", "--dry-run", "--db", str(tmp_path / "new") + os.sep]) == 0
    assert f"database {tmp_path / 'new' / 'tuning.json'}\n" in capsys.readouterr().out
    assert main(["--shapes", "8x8x8", "--dry-run", "--db", "~/no such file.json"]) == 0
    assert f"database {Path.home() / 'no such file.json'}\n" in capsys.readouterr().out


def test_stopping_while_a_graph_is_compiled(monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(graphs, "from_file", stop)
    assert main(["--graph", "model.onnx"]) == 130


@pytest.mark.parametrize("package", ["rich", "scipy", "optuna", "xgboost"])
def test_a_missing_extra_names_the_command_that_installs_it(package):
    extra, strategy = ("xgb", "xgb") if package == "xgboost" else ("tune", "tpe")
    program = f"""
import sys
sys.modules[{package!r}] = None
from fastgemm.tune.__main__ import main
main(["--shapes", "3x4x5", "--strategy", {strategy!r}])
"""
    made = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment(), timeout=60
    )
    assert made.returncode == 1
    assert f"pip install fastgemm[{extra}]" in made.stderr
    assert "Traceback" not in made.stderr


def test_dry_run_measures_and_writes_nothing(tmp_path, capsys):
    path = tmp_path / "new" / "tuning.json"
    arguments = ["--shapes", "64x48x32x5", "9x1x7", "--dtype", "float32", "complex128", "--threads", "1", "--dry-run"]
    assert main([*arguments, "--db", str(path)]) == 0
    text = capsys.readouterr().out
    for words in ("64x48x32x5 float32", "1x9x7 complex128", "configurations", "heuristic: dots", "4 problems"):
        assert words in text
    assert not path.parent.exists()


def test_a_database_that_cannot_be_written_is_refused_before_the_first_measurement(tmp_path):
    (tmp_path / "file").write_text("")
    made = tune("--shapes", "8x8x8", "--db", tmp_path / "file" / "tuning.json")
    assert made.returncode == 1
    assert "cannot write" in made.stderr
    assert f"{tmp_path / 'file'}: not a folder" in made.stderr
    assert "Traceback" not in made.stderr


NEWER = '{"schema": 2, "groups": []}'


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: path.write_text(NEWER), "schema 2"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
        (lambda path: (path.touch(), os.truncate(path, reading.MAX_BYTES + 1)), "larger than 64 MiB"),
        (lambda path: os.mkfifo(path), "not a regular file"),
    ],
    ids=["newer", "loop", "too large", "pipe"],
)
def test_a_database_that_takes_no_records_is_refused_before_too(tmp_path, monkeypatch, capsys, damage, reason):
    path = tmp_path / "tuning.json"
    damage(path)
    monkeypatch.setattr(driver, "tune", lambda *arguments: pytest.fail("measured"))
    assert main(["--shapes", "8x8x8", "--db", str(path), "--quiet"]) == 1
    said = capsys.readouterr().err
    assert "cannot write the database" in said
    assert reason in said
    assert "Errno" not in said
    assert not journal.beside(path).exists()


def confirm(monkeypatch):
    """Let every problem have a gain at once."""

    def tune(space, *arguments):
        measured = (1e-6, 2e-6, 3e-6, 1.0, 0.001, 0.01, 1)
        return Entry(space.problem, "confirmed", space.start.replace(nc=77), *measured)

    monkeypatch.setattr(driver, "tune", tune)


def test_a_quiet_run_says_what_it_could_not_keep(tmp_path, monkeypatch, capsys):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    confirm(monkeypatch)
    monkeypatch.setattr(driver, "store", full)
    assert main(["--shapes", "8x8x8", "--threads", "1", "--db", str(tmp_path), "--quiet"]) == 1
    said = capsys.readouterr().err
    assert "the result of 8x8x8 float32 1 thread cannot be kept: " + os.strerror(errno.ENOSPC) in said


def test_a_quiet_run_says_what_it_left_undone(tmp_path, monkeypatch, capsys):
    confirm(monkeypatch)
    assert main(["--shapes", "8x8x8", "--db", str(tmp_path), "--quiet", "--seconds", "1e-9"]) == 0
    assert "out of time: 1 problems left" in capsys.readouterr().err
    assert main(["--shapes", "8x8x8", "--db", str(tmp_path), "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_a_run_tells_what_it_did_to_a_damaged_database(tmp_path, monkeypatch, capsys):
    confirm(monkeypatch)
    path = tmp_path / "tuning.json"
    path.write_text("{")
    assert main(["--shapes", "8x8x8", "--db", str(path), "--quiet"]) == 0
    said = capsys.readouterr().err
    assert f"{path} was damaged" in said
    assert f"{path}.damaged is a copy" in said
    assert "Warning" not in said
    assert len(database.read(path)[0]) == 1


@pytest.mark.parametrize(
    ("file", "read"), [("tuning.json", True), ("mine.json", True), ("mine.db", False), (".mine.json", False)]
)
def test_it_says_who_reads_the_records(tmp_path, monkeypatch, capsys, file, read):
    confirm(monkeypatch)
    folder = tmp_path / "link"
    (tmp_path / "real").mkdir()
    folder.symlink_to(tmp_path / "real")
    monkeypatch.setenv("FASTGEMM_DB", str(folder))
    path = tmp_path / "real" / file
    assert main(["--shapes", "8x8x8", "--db", str(path), "--quiet"]) == 0
    said = f"database: {path}; " + ("the next Python process uses it" if read else f"FASTGEMM_DB={path} uses it")
    assert said in capsys.readouterr().out


# ---- the papers' space


def test_a_report_that_cannot_be_written_is_refused_before_the_first_measurement(tmp_path, capsys):
    taken = tmp_path / "report"
    taken.write_text("a file")
    path = tmp_path / "tuning.json"
    assert main(["--shapes", "8x8x8", "--db", str(path), "--report", str(taken)]) == 1
    assert f"no report can be written to {taken}" in capsys.readouterr().err
    assert not path.exists()


@pytest.mark.parametrize("strategy", ["gbfs", "auto"])
def test_nested_tilings_are_searched_and_logged(tmp_path, strategy):
    path = tmp_path / "tuning.json"
    arguments = ("--shapes", "64x32x128", "--threads", 1, "--space", "nested", "--trials", 30, "--strategy", strategy)
    made = tune(*arguments, "--db", path)
    assert made.returncode == 0, made.stderr
    assert "64x32x128 float32 1 thread: m=" in made.stdout
    assert "after 31 trials" in made.stdout
    assert not path.exists()
    log = tmp_path / "tuning.nested.jsonl"
    assert f"log: {log}" in made.stdout
    (line,) = map(json.loads, log.read_text().splitlines())
    assert (line["m"], line["n"], line["k"], line["trials"], line["strategy"]) == (64, 32, 128, 31, strategy)
    assert State(**{name: tuple(factors) for name, factors in line["state"].items()}) in NestedSpace(64, 128, 32)
    assert 0 < line["seconds"] < line["untiled_seconds"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: os.mkfifo(path), "tuning.log.jsonl: not a regular file"),
        (lambda path: (path.parent / f".{path.name}.lock").mkdir(), ".tuning.log.jsonl.lock: Is a directory"),
    ],
    ids=["pipe", "lock"],
)
def test_a_journal_that_takes_no_lines_is_refused_before_the_first_measurement(
    tmp_path, monkeypatch, capsys, damage, reason
):
    path = tmp_path / "tuning.json"
    damage(journal.beside(path))
    monkeypatch.setattr(driver, "tune", lambda *arguments: pytest.fail("measured"))
    assert main(["--shapes", "8x8x8", "--db", str(path), "--quiet"]) == 1
    assert f"cannot write {tmp_path / reason}" in capsys.readouterr().err


def test_a_log_of_nested_tilings_that_cannot_be_written(tmp_path):
    (tmp_path / "tuning.nested.jsonl").mkdir()
    made = tune("--shapes", "8x8x8", "--threads", 1, "--space", "nested", "--db", tmp_path)
    assert made.returncode == 1
    assert "cannot write" in made.stderr
    assert "Traceback" not in made.stderr


def test_a_full_disk_ends_a_search_of_nested_tilings_after_it_was_printed(tmp_path, monkeypatch, capsys):
    def full(path, objects):
        if objects:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(nested_search.lines, "append", full)
    arguments = ["--shapes", "8x8x8", "--threads", "1", "--space", "nested", "--trials", "3", "--db", str(tmp_path)]
    assert main(arguments) == 1
    said = capsys.readouterr()
    assert "8x8x8 float32 1 thread: m=" in said.out
    assert os.strerror(errno.ENOSPC) in said.err


def test_a_quiet_search_of_nested_tilings_says_what_it_left_undone(tmp_path, capsys):
    arguments = ["--shapes", "8x8x8", "--threads", "1", "--space", "nested", "--db", str(tmp_path), "--quiet"]
    assert main([*arguments, "--seconds", "1e-9"]) == 0
    assert "out of time: 1 problems left" in capsys.readouterr().err


def test_a_state_that_kills_its_process_costs_one_trial(monkeypatch):
    program = (
        "import ctypes\n"
        "from fastgemm.tune import nested_worker, worker\n"
        "class Bench(nested_worker.NestedBench):\n"
        "    def time(self, state, limit):\n"
        "        return super().time(state, limit) if state.k[1] == 1 else ctypes.string_at(0)\n"
        "worker.listen(Bench)\n"
    )
    monkeypatch.setattr(nested_search, "PROGRAM", program)
    problem, space = Problem("f32", 16, 16, 16), NestedSpace(16, 16, 16)
    with contextlib.closing(nested_search.StateRunner(problem)) as runner:
        bad = space.start._replace(k=(8, 2))
        found = runner.measure([space.start, bad, space.start])
    assert [measurement.outcome for measurement in found] == ["ok", "crash", "ok"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--shapes", "60x32x64", "--threads", "1"], "powers of two"),
        (["--shapes", "64x32x64", "--threads", "1", "--dtype", "float64"], "float32"),
        (["--shapes", "64x32x64", "--threads", "1", "--resume"], "no records"),
        (["--shapes", "64x32x64", "--threads", "1", "--strategy", "tpe"], "own space"),
    ],
)
def test_what_nested_tilings_cannot_do(arguments, reason, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--space", "nested"])
    assert stop.value.code == 2
    assert reason in capsys.readouterr().err


# ---- records and routes


def store_a_gain(problem, path):
    """Tune on a table in which one configuration is twice as fast as any other."""
    space = Space(problem, rules.config(problem))
    best = list(space.all())[-1]
    runner = ReplayRunner(lambda config: 1e-5 if config == best else 2e-5)
    entry = driver.tune(space, runner, strategies.load("exhaustive"), Budget())
    assert entry.status == "confirmed"
    assert entry.config == best
    driver.store(entry, path, cpu.key(), kernels.kernel_hash())
    return best


EXPLAIN = """
import json, dataclasses, numpy as np, fastgemm
a, b = np.ones((24, 20), "f4"), np.ones((20, 28), "f4")
assert (fastgemm.matmul(a, b) == 20).all()
e = fastgemm.explain(a, b, num_threads=1)
print(json.dumps([e.rung, dataclasses.asdict(e.config)]))
"""


@pytest.mark.parametrize("named", ["file", "folder"])
def test_the_next_process_uses_a_record(tmp_path, named):
    path = tmp_path / "tuning.json"
    problem = Problem("f32", 24, 28, 20)
    best = store_a_gain(problem, path)
    rung, config = json.loads(python(EXPLAIN, FASTGEMM_DB=str(path if named == "file" else tmp_path)))
    assert rung == "exact"
    assert config == dataclasses.asdict(best)
    rung, _ = json.loads(python(EXPLAIN, FASTGEMM_DB=str(tmp_path / "none.json")))
    assert rung != "exact"


def test_a_record_is_used_for_every_tuned_layout(tmp_path):
    """What the tuner calls a problem is what calls with such operands look up, columns and vectors included."""
    path = tmp_path / "tuning.json"
    store_a_gain(Problem("f64", 1, 40, 30, layout="nt"), path)
    program = """
import numpy as np, fastgemm
a, x = np.ones((40, 30)), np.ones((30, 1))
assert (fastgemm.matmul(a, x) == 30).all()
print(fastgemm.explain(a, x, num_threads=1).rung)
"""
    assert python(program, FASTGEMM_DB=str(path)).strip() == "exact"


def entries_of(path):
    entries, left_out = journal.read(journal.beside(path))
    assert left_out == []
    return entries


@pytest.mark.parametrize("strategy", strategies.names())
def test_a_small_tuning_end_to_end(tmp_path, strategy):
    if strategy == "xgb":
        pytest.importorskip("xgboost")
    path = tmp_path / "tuning.json"
    arguments = ("--shapes", "32x40x24", "1x64x32", "--threads", 1, "--strategy", strategy, "--trials", 6, "--db", path)
    made = tune(*arguments)
    assert made.returncode == 0, made.stderr
    entries = entries_of(path)
    assert [(e.problem.m, e.problem.n, e.problem.k) for e in entries] == [(32, 40, 24), (1, 64, 32)]
    for entry in entries:
        assert entry.status in ("confirmed", "rejected")
        assert entry.failures == 0, entry.detail
        assert 2 <= entry.trials <= 7
        assert entry.numpy_seconds > 0
    assert "Trial" not in made.stderr  # Optuna's own log
    for words in ("32x40x24", "before/after", "NumPy/after", "geometric means over 2 problems"):
        assert words in made.stdout
    confirmed = {e.problem: e.config for e in entries if e.status == "confirmed"}
    records, problems = database.read(path)
    assert problems == []
    assert {r.problem: r.config for r in records} == confirmed
    trials, problems = history.read(history.beside(path))
    assert problems == []
    assert len(trials) == sum(entry.trials for entry in entries)
    assert {(t.cpu, t.kernels, t.strategy) for t in trials} == {(cpu.key(), kernels.kernel_hash(), strategy)}

    again = tune(*arguments, "--resume", "--quiet")
    assert again.returncode == 0, again.stderr
    assert again.stderr == ""
    assert "32x40x24" in again.stdout
    assert len(entries_of(path)) == 2
    more = tune("--shapes", "32x40x24", "8x8x8", *arguments[3:], "--resume", "--dry-run")
    assert "1 problems to tune, 1 tuned before" in more.stdout


def test_every_dtype_and_layout_is_measured_without_a_failure(tmp_path):
    path = tmp_path / "tuning.json"
    shapes_file = tmp_path / "shapes.csv"
    rows = [f"13,17,19,{batch},float32,{layout}" for batch in (1, 3) for layout in ("nn", "tt", "gg", "nt", "col")]
    rows += [f"50,1,20,1,{dtype},gg" for dtype in ("float64", "complex64", "complex128")]
    rows += ["1,50,20,1,float32,gt", "1,1,30,4,float32,gg", "13,17,19,1,complex128,tg"]
    shapes_file.write_text("\n".join(["M,N,K,batch,dtype,layout", *rows]) + "\n")
    arguments = ("--threads", 1, "--trials", 1, "--strategy", "random", "--db", path)
    made = tune("--shapes-file", shapes_file, *arguments)
    assert made.returncode == 0, made.stderr
    assert len(entries_of(path)) == len(rows)
    assert all(entry.failures == 0 for entry in entries_of(path))


def test_what_a_program_multiplied_is_tuned(tmp_path):
    log = tmp_path / "untuned.jsonl"
    program = "import numpy as np, fastgemm; fastgemm.matmul(np.ones((30, 20)), np.ones((20, 10)))"
    python(program, FASTGEMM_LOG_UNTUNED=str(log), FASTGEMM_NUM_THREADS="1")
    made = tune("--from-log", log, "--dry-run")
    assert "30x10x20 float64 1 thread" in made.stdout
    assert "1 problems to tune" in made.stdout


LOOP = """
import numpy as np, fastgemm
for m in range(1, 13):
    a, b = np.ones((m, 64), "f4"), np.ones((64, 64), "f4")
    for _ in range(m):
        fastgemm.matmul(a, b)
"""


@pytest.mark.timeout(200)
def test_the_loop_from_a_program_to_its_tuned_shapes(tmp_path):
    """Log, quick tuning of the hottest shapes, and the next run uses and logs what is left."""
    log, path = tmp_path / "untuned.jsonl", tmp_path / "tuning.json"
    both = {"FASTGEMM_LOG_UNTUNED": str(log), "FASTGEMM_DB": str(path), "FASTGEMM_NUM_THREADS": "1"}
    python(LOOP, **both)
    # Without --from-log it is the log that the program's own variable names.
    made = tune("--quick", "--trials", 3, "--seconds", 20, "--strategy", "random", **both)
    assert made.returncode == 0, made.stderr
    assert [entry.problem.m for entry in entries_of(path)] == list(range(12, 2, -1))
    recorded = {record.problem.m for record in database.read(path)[0]}
    log.unlink()
    python(LOOP, **both)
    seen = {json.loads(line)["m"] for line in log.read_text().splitlines()}
    assert seen == set(range(1, 13)) - recorded


def test_quick_without_anything_says_what_it_needs(capsys, monkeypatch):
    monkeypatch.delenv("FASTGEMM_LOG_UNTUNED", raising=False)
    with pytest.raises(SystemExit) as stop:
        main(["--quick"])
    assert stop.value.code == 2
    assert "no shapes" in capsys.readouterr().err


def test_a_report_of_a_run(tmp_path):
    pytest.importorskip("matplotlib")
    folder = tmp_path / "new" / "report"
    arguments = ("--shapes", "32x40x24", "9x8x7", "--threads", 1, "--strategy", "random", "--trials", 4)
    made = tune(*arguments, "--db", tmp_path / "tuning.json", "--report", folder)
    assert made.returncode == 0, made.stderr
    text = (folder / "report.md").read_text()
    for words in ("32x40x24 float32 1 thread", "9x8x7", "tuned against untuned", "Where the time went", "--trials 4"):
        assert words in text
    for plot in chronicle.PLOTS:
        assert f"]({plot})" in text
        assert (folder / plot).read_bytes().startswith(b"\x89PNG")
    (tmp_path / "file").write_text("")
    made = tune("--shapes", "9x8x7", *arguments[3:], "--db", tmp_path / "tuning.json", "--report", tmp_path / "file")
    assert made.returncode == 1
    assert "no report" in made.stderr


def test_a_report_without_matplotlib_has_its_tables(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    told = chronicle.Chronicle()
    told.finish(Entry(Problem("f32", 8, 8, 8), "confirmed", Config(), 1e-6, 2e-6, 3e-6, 1.0, 0.01, 0.01, 1))
    (said,) = told.write(tmp_path, ["tune"])
    assert "matplotlib" in said
    text = (tmp_path / "report.md").read_text()
    assert "| 2.00 | 3.00 |" in text
    assert said in text


def test_seconds_end_the_run(tmp_path):
    path = tmp_path / "tuning.json"
    sizes = [f"{m}x8x8" for m in range(1, 60)]
    made = tune("--shapes", *sizes, "--threads", 1, "--trials", 1, "--strategy", "random", "--seconds", 2, "--db", path)
    assert made.returncode == 0, made.stderr
    assert 1 <= len(entries_of(path)) < 59
    assert "out of time" in made.stderr


@pytest.mark.skipif(os.name != "posix", reason="signals to a process group")
def test_stopping_keeps_what_is_finished(tmp_path):
    path = tmp_path / "tuning.json"
    sizes = [f"{m}x8x8" for m in range(1, 400)]
    arguments = ("--shapes", *sizes, "--threads", "1", "--trials", "1", "--strategy", "random", "--db", str(path))
    # As a terminal does it: Ctrl-C goes to the command and to its worker.  (A shell's background jobs, and what they
    # start, ignore it: tests may be one.)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        running = subprocess.Popen(
            [*TUNE, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            process_group=0,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    while running.poll() is None and len(journal.read(journal.beside(path))[0]) < 2:
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Traceback" not in err
    kept = len(entries_of(path))
    assert 2 <= kept < 399
    assert f"the {kept} finished problems are kept" in err
    assert f"geometric means over {kept} problems" in out
    more = tune(*arguments, "--resume", "--dry-run")
    assert f"{399 - kept} problems to tune, {kept} tuned before" in more.stdout
