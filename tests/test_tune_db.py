"""The command for database files: what it prints, refuses and leaves behind."""

from __future__ import annotations

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import environment
from database_samples import CPU, as_json, document, record

from fastgemm import cpu, database, kernels
from fastgemm.database import files, reading
from fastgemm.heuristic import rules
from fastgemm.problem import Problem, Record
from fastgemm.tune import history, recheck
from fastgemm.tune.__main__ import main
from fastgemm.tune.measure import ReplayRunner

if kernels.active_isa() is None:
    pytest.skip("no kernels run here", allow_module_level=True)


def here(m: int = 64, gain: float = 1.5, **changes: Any) -> Record:
    """A record of this CPU and this build, of a configuration that is not the heuristic's."""
    problem = Problem("f32", m, 64, 64)
    start = rules.config(problem)
    config = start.replace(pack="b", mc=start.mr, **changes)
    return Record(problem, config, 1e-5, gain * 1e-5, 9, "random", "2026-01-01", kernels.kernel_hash())


@pytest.fixture
def mine(database_path: Path) -> Path:
    database.write(database_path, [here(64), here(65, 1.1), record()])
    database.write(database_path, [record(), record(m=9)], cpu=CPU)
    return database_path


def run(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 0) -> str:
    """Run the command; return what it printed."""
    try:
        done = main(["db", *map(str, arguments)])
    except SystemExit as stop:
        done = int(stop.code or 0)
    said = capsys.readouterr()
    assert done == status, said
    assert "Traceback" not in said.err
    return said.out + said.err


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "--help")
    for words in ("examples:", "exit status", "show", "check", "merge", "export", "prune"):
        assert words in text


def test_show_lists_what_is_used_here(capsys: pytest.CaptureFixture[str], mine: Path) -> None:
    text = run(capsys, "show")
    assert f"{mine}: 5 records" in text
    assert "64x64x64 float32" in text
    assert "(1.50)" in text
    assert "another CPU, another build: not used here): 2 records" in text
    assert "512x512x512" not in text
    assert "512x512x512" in run(capsys, "show", mine, "--all")


def test_without_a_database_it_says_where_it_would_be(
    capsys: pytest.CaptureFixture[str], database_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "bundled_path", lambda: None)
    assert str(database_path) in run(capsys, "show", status=1)
    assert "no such file" in run(capsys, "show", database_path, status=1)


def test_check_tells_sound_from_damaged(capsys: pytest.CaptureFixture[str], mine: Path, tmp_path: Path) -> None:
    assert "5 sound records, 2 of them for this CPU and build" in run(capsys, "check", mine)
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps(document(as_json(record()), {**as_json(record(m=9)), "seconds": -1})))
    text = run(capsys, "check", bad, status=1)
    assert "1 sound records" in text
    assert "seconds must be between" in text
    bad.write_text("{")
    assert "not JSON" in run(capsys, "check", bad, status=1)


def test_merge_keeps_cpus_apart_and_greater_gains(
    capsys: pytest.CaptureFixture[str], mine: Path, tmp_path: Path
) -> None:
    other, into = tmp_path / "other.json", tmp_path / "into.json"
    database.write(other, [here(64, 1.7), here(65, 1.05), here(66)])
    assert "6 of 8 records" in run(capsys, "merge", into, mine, other)
    found = {r.problem.m: r.gain for r in database.read(into, cpu=cpu.key(), kernels=kernels.kernel_hash())[0]}
    assert {m: round(gain, 2) for m, gain in found.items()} == {64: 1.7, 65: 1.1, 66: 1.5}
    assert len(database.read(into, cpu=CPU)[0]) == 2
    assert "0 of 5 records" in run(capsys, "merge", into, mine)


def test_merge_writes_nothing_when_a_file_is_damaged(
    capsys: pytest.CaptureFixture[str], mine: Path, tmp_path: Path
) -> None:
    bad, into = tmp_path / "bad.json", tmp_path / "into.json"
    bad.write_text(json.dumps(document(as_json(record()), 3)))
    assert "damaged" in run(capsys, "merge", into, mine, bad, status=1)
    assert not into.exists()
    assert "left out" in run(capsys, "merge", into, mine, bad, "--skip-damaged")
    assert len(database.read(into)[0]) == 5
    assert "no such file" in run(capsys, "merge", into, tmp_path / "none.json", status=1)


def test_merge_is_one_replacement(
    capsys: pytest.CaptureFixture[str], mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups of several CPUs appear together: a reader, or a kill, never sees some of them."""
    from fastgemm.database import writing

    seen: list[int] = []
    real = writing.replace
    monkeypatch.setattr(writing, "replace", lambda target, text: (seen.append(1), real(target, text))[1])
    run(capsys, "merge", tmp_path / "into.json", mine)
    assert seen == [1]


def test_export_selects(capsys: pytest.CaptureFixture[str], mine: Path, tmp_path: Path) -> None:
    out = tmp_path / "cpu.json"
    run(capsys, "export", mine, "--this-cpu", "--this-build", "--to", out)
    assert database.read(out) == ([here(64), here(65, 1.1)], [])
    assert "there already" in run(capsys, "export", mine, "--to", out, status=1)
    run(capsys, "export", mine, "--to", out, "--force")
    assert database.read_groups(out) == database.read_groups(mine)
    assert "the file itself" in run(capsys, "export", mine, "--to", mine, "--force", status=1)
    assert json.loads(run(capsys, "export", mine, "--to", "-"))["schema"] == 1
    table = tmp_path / "table.csv"
    run(capsys, "export", mine, "--to", table)
    rows = list(csv.DictReader(table.open()))
    assert len(rows) == 5
    assert {row["M"] for row in rows} == {"64", "65", "512", "9"}
    assert "must end in" in run(capsys, "export", mine, "--to", tmp_path / "x.txt", status=2)
    other = tmp_path / "other.json"
    database.write(other, [record()], cpu=CPU)
    assert "no such records" in run(capsys, "export", other, "--this-cpu", "--to", tmp_path / "y.json", status=1)


def test_prune_takes_out_what_it_says(capsys: pytest.CaptureFixture[str], mine: Path) -> None:
    assert "say what" in run(capsys, "prune", mine, status=2)
    assert "3 of 5 records would be" in run(capsys, "prune", mine, "--stale", "--dry-run")
    assert len(database.read(mine)[0]) == 5
    assert "2 of 5 records taken out" in run(capsys, "prune", mine, "--other-cpus")
    assert "1 of 3 records taken out" in run(capsys, "prune", mine, "--stale")
    assert "1 of 2 records taken out" in run(capsys, "prune", mine, "--below", "1.2")
    assert database.read(mine)[0] == [here(64)]
    assert "above zero" in run(capsys, "prune", mine, "--below", "-3", status=2)


def replay(factor: float) -> Any:
    """A runner that times every tuned configuration `factor` times as fast as the untuned one."""

    def opened(problem: Problem, seed: int) -> ReplayRunner:
        untuned = rules.config(problem)
        return ReplayRunner(lambda config: 1e-3 if config == untuned else 1e-3 / factor)

    return opened


def test_gains_are_measured_anew(capsys: pytest.CaptureFixture[str], mine: Path) -> None:
    assert recheck.check(mine, open_runner=replay(1.3)) == []
    text = capsys.readouterr().out
    assert "1.300 now, 1.500 recorded" in text
    assert "geometric mean 1.300, least 1.300" in text
    assert recheck.check(mine, open_runner=replay(0.9)) == [here(64), here(65, 1.1)]
    assert "2 do not hold" in capsys.readouterr().out


def test_a_loss_is_measured_twice(mine: Path) -> None:
    """One unlucky process does not condemn a record."""
    factors = iter([0.9, 1.2])
    opened = lambda problem, seed: replay(next(factors))(problem, seed)  # noqa: E731
    assert recheck.measure(here(), 0, opened) == pytest.approx(1.2)


@pytest.mark.timeout(120)
def test_records_that_do_not_hold_are_removed(capsys: pytest.CaptureFixture[str], mine: Path) -> None:
    """For real, in worker processes: a block of one panel of rows for a large product cannot be faster."""
    run(capsys, "prune", mine, "--other-cpus", "--stale", "--below", "100")
    problem = Problem("f32", 192, 192, 192)
    start = rules.config(problem)
    slow = start.replace(family="gemm", pack="ab", mc=1, kc=8, nc=1)
    bad = Record(problem, slow, 1e-6, 9e-6, kernels=kernels.kernel_hash())
    database.write(mine, [bad])
    assert "--measure" in run(capsys, "check", mine, "--remove", status=2)
    assert "removed 1 records" in run(capsys, "check", mine, "--measure", "--remove", status=1)
    assert "no record of this CPU" in run(capsys, "check", mine, "--measure")


@pytest.mark.parametrize("seed", ["-1", "x", "1.5"])
def test_a_seed_is_a_whole_number(capsys: pytest.CaptureFixture[str], mine: Path, seed: str) -> None:
    assert "is not a whole number" in run(capsys, "check", mine, "--measure", "--seed", seed, status=2)


def test_what_cannot_be_done_names_the_file(capsys: pytest.CaptureFixture[str], mine: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.json"
    damaged.write_text("{")
    assert "is damaged" in run(capsys, "prune", damaged, "--stale", status=1)
    assert damaged.read_text() == "{"
    assert f"{tmp_path / 'tuning.json'}: no such file" in run(capsys, "export", tmp_path, "--to", "-", status=1)
    (tmp_path / "empty").mkdir()
    assert f"{tmp_path / 'empty'}: no database there" in run(capsys, "show", tmp_path / "empty", status=1)
    taken = tmp_path / "taken"
    taken.write_text("a file, not a folder")
    said = run(capsys, "merge", taken / "all.json", mine, status=1)
    assert str(taken) in said
    assert "Errno" not in said


def test_a_folder_is_read_as_calls_read_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("host1.json", "host2.json"):
        database.write(tmp_path / name, [here()])
    for command in ("show", "check"):
        text = run(capsys, command, tmp_path)
        assert f"{tmp_path / 'host1.json'}: 1 " in text
        assert f"{tmp_path / 'host2.json'}: 1 " in text


def test_a_damaged_target_is_told_and_kept(capsys: pytest.CaptureFixture[str], mine: Path, tmp_path: Path) -> None:
    into = tmp_path / "into.json"
    into.write_text("{")
    text = run(capsys, "merge", into, mine)
    assert f"{into} was damaged: not JSON" in text
    assert f"{into}.damaged is a copy" in text
    assert "Warning" not in text


def test_a_target_that_is_too_large_stays(
    capsys: pytest.CaptureFixture[str], mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into = tmp_path / "into.json"
    with open(into, "wb") as file:
        file.truncate(reading.MAX_BYTES + 1)
    assert f"{into}: larger than 64 MiB" in run(capsys, "merge", into, mine, status=1)
    assert into.stat().st_size == reading.MAX_BYTES + 1
    monkeypatch.setattr(reading, "MAX_BYTES", mine.stat().st_size)
    database.write(tmp_path / "other.json", [here(67)])
    assert "would have 0 MiB" in run(capsys, "merge", tmp_path / "all.json", mine, tmp_path / "other.json", status=1)
    assert not (tmp_path / "all.json").exists()


def test_links_that_go_round_are_named(capsys: pytest.CaptureFixture[str], mine: Path, tmp_path: Path) -> None:
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    assert f"{loop}: Too many levels" in run(capsys, "merge", loop, mine, status=1)
    assert f"{loop}: Too many levels" in run(capsys, "export", mine, "--to", loop, "--force", status=1)


def test_a_tier_that_there_is_not(
    capsys: pytest.CaptureFixture[str], mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTGEMM_ISA", "nonsense")
    assert "FASTGEMM_ISA='nonsense' is not a tier" in run(capsys, "show", mine, status=1)


def test_a_table_holds_any_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source, table = tmp_path / "names.json", tmp_path / "x.csv"
    names = ("na\xefve", "half \ud800", "two\nlines")
    rows = [{**as_json(record(m=m)), "strategy": name} for m, name in enumerate(names, 8)]
    source.write_text(json.dumps(document(*rows)))
    run(capsys, "export", source, "--to", table)
    with open(table, encoding="utf-8", newline="") as file:
        assert [row["strategy"] for row in csv.DictReader(file)] == ["na\xefve", "half \\ud800", "two\nlines"]


def test_names_in_a_file_are_no_commands_to_the_terminal(
    capsys: pytest.CaptureFixture[str], mine: Path, tmp_path: Path
) -> None:
    path = tmp_path / "names.json"
    strange = {**as_json(record()), "strategy": "\x1b[2J\nall is well"}
    path.write_text(json.dumps(document(strange, cpu="\ud800\x1b[31m")))
    text = run(capsys, "show", path, "--all")
    assert "\x1b" not in text
    assert "[\\x1b[2J\\nall is well, 40 trials" in text
    assert "  \\ud800\\x1b[31m, kernels" in text
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps(document({**as_json(record()), "seconds": -1}, cpu="\x1b[31m")))
    for arguments in (("check", bad), ("merge", mine, bad)):
        assert "\x1b" not in run(capsys, *arguments, status=1)


def test_what_the_output_cannot_show_stops_no_listing(tmp_path: Path) -> None:
    path = tmp_path / "names.json"
    path.write_text(json.dumps(document({**as_json(record()), "strategy": "na\xefve"}, as_json(record(m=9)))))
    command = [sys.executable, "-m", "fastgemm.tune", "db", "show", "--all", str(path)]
    env = environment(PYTHONIOENCODING="ascii")
    made = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60)
    assert made.returncode == 0, made.stderr
    assert "na\\xefve" in made.stdout
    assert "9x512x512" in made.stdout


@pytest.mark.skipif(os.name != "posix", reason="pipes")
def test_a_reader_that_has_seen_enough_ends_the_command(mine: Path) -> None:
    command = [sys.executable, "-m", "fastgemm.tune", "db", "show", str(mine)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as made:
        assert made.stdout is not None
        assert made.stderr is not None
        made.stdout.close()
        assert made.stderr.read() == b""
    assert made.returncode == 128 + signal.SIGPIPE


@pytest.mark.skipif(os.name != "posix", reason="pipes")
def test_tuning_ends_as_quietly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fastgemm.tune", "--shapes", "8x8x8", "--threads", "1", "--dry-run"]
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as out:
        made = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, env=environment(FASTGEMM_DB=str(tmp_path)))
    assert made.stderr == b""
    assert made.returncode == 128 + signal.SIGPIPE


@pytest.mark.skipif(os.name != "posix", reason="a shell")
@pytest.mark.parametrize("arguments", ["db check {}", "db show {}", "--shapes 8x8x8 --threads 1 --dry-run --db {}"])
def test_without_an_output_it_is_silent(mine: Path, arguments: str) -> None:
    command = shlex.join([sys.executable, "-m", "fastgemm.tune", *arguments.format(mine).split()])
    made = subprocess.run(f"{command} >&-", shell=True, capture_output=True, env=environment())
    assert (made.returncode, made.stderr) == (0, b"")


def test_export_goes_where_a_link_points_under_the_lock(
    capsys: pytest.CaptureFixture[str], mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, link, folder = tmp_path / "real.json", tmp_path / "link.json", tmp_path / "folder.json"
    real.write_text("old")
    link.symlink_to(real)
    run(capsys, "export", mine, "--to", link, "--force")
    assert link.is_symlink()
    assert database.read_groups(real) == database.read_groups(mine)
    folder.mkdir()
    assert f"{folder}: not a regular file" in run(capsys, "export", mine, "--to", folder, "--force", status=1)
    assert not list(tmp_path.glob(".*.part"))
    monkeypatch.setattr(files, "LOCK_SECONDS", 0.1)
    with files.locked(real):
        assert "locked by another process" in run(capsys, "export", mine, "--to", link, "--force", status=1)
    inside = tmp_path / "tuning.json"
    database.write(inside, [here()])
    assert "the file itself" in run(capsys, "export", tmp_path, "--to", inside, "--force", status=1)


def test_prune_takes_nothing_where_the_log_cannot_be_cut(capsys: pytest.CaptureFixture[str], mine: Path) -> None:
    log = history.beside(mine)
    log.mkdir()
    assert f"{log}: not a regular file" in run(capsys, "prune", mine, "--stale", status=1)
    assert len(database.read(mine)[0]) == 5
    assert "1 of 5 records taken out" in run(capsys, "prune", mine, "--below", "1.2")


def test_shipped_records_are_not_removed_unless_named(
    capsys: pytest.CaptureFixture[str], mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "shipped" / "cpu.json"
    database.write(shipped, [here(66)])
    before = shipped.read_bytes()
    monkeypatch.setattr(database, "bundled_path", lambda: shipped.parent)
    monkeypatch.setattr(recheck, "measure", lambda record, seed, opened: 0.5)
    text = run(capsys, "check", "--measure", "--remove", status=1)
    assert f"removed none of {shipped}, which is shipped" in text
    assert f"removed 2 records from {mine}" in text
    assert shipped.read_bytes() == before
    assert "removed 1 records" in run(capsys, "check", shipped, "--measure", "--remove", status=1)


def test_what_cannot_be_removed_is_known_before_the_measurement(
    capsys: pytest.CaptureFixture[str], mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recheck, "measure", lambda record, seed, opened: pytest.fail("measured"))
    monkeypatch.setattr(files.os, "access", lambda path, mode: False)
    assert "no permission to write it" in run(capsys, "check", mine, "--measure", "--remove", status=1)
