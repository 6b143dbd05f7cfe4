"""The command for database files: what it prints, refuses and leaves behind."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from database_samples import CPU, as_json, document, record

from fastgemm import cpu, database, kernels
from fastgemm.heuristic import rules
from fastgemm.problem import Problem, Record
from fastgemm.tune import recheck
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
    assert f"{tmp_path / 'tuning.json'}: no such file" in run(capsys, "show", tmp_path, status=1)
    taken = tmp_path / "taken"
    taken.write_text("a file, not a folder")
    said = run(capsys, "merge", taken / "all.json", mine, status=1)
    assert str(taken) in said
    assert "Errno" not in said
