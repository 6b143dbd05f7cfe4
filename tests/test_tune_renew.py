"""Records of earlier builds: where their configurations come from, and what measuring them anew leaves behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from database_samples import CPU

from fastgemm import cpu, database, kernels
from fastgemm.heuristic import rules
from fastgemm.problem import Config, Problem, Record
from fastgemm.tune import driver, earlier, journal, strategies
from fastgemm.tune.__main__ import main
from fastgemm.tune.driver import Budget
from fastgemm.tune.measure import ReplayRunner
from fastgemm.tune.shapes import ShapeError
from fastgemm.tune.space import Space

if kernels.active_isa() is None:
    pytest.skip("no kernels run here", allow_module_level=True)

BEFORE = "an earlier build"


def other(problem: Problem) -> Config:
    """A configuration that is not the heuristic's."""
    start = rules.config(problem)
    return start.replace(pack="b", mc=start.mr)


def record(m: int = 40, gain: float = 1.5, kernel_set: str = BEFORE, **changes: object) -> Record:
    problem = Problem("f32", m, 48, 36)
    return Record(problem, other(problem).replace(**changes), 1e-5, gain * 1e-5, 9, "auto", "2026-01-01", kernel_set)


@pytest.fixture
def path(database_path: Path) -> Path:
    """A database with a record of an earlier build, one of another CPU, and one of this build."""
    database.write(database_path, [record(40), record(41, kernel_set=kernels.kernel_hash())])
    database.write(database_path, [record(42)], cpu=CPU)
    return database_path


def command(*arguments: object) -> int:
    try:
        return main([*map(str, arguments)])
    except SystemExit as stop:
        return int(stop.code or 0)


def test_problems_are_of_every_cpu_and_build(path: Path) -> None:
    found, wrong = earlier.problems(path)
    assert sorted(problem.m for problem in found) == [40, 41, 42]
    assert wrong == []
    assert earlier.problems(path.parent) == (found, wrong)
    with pytest.raises(ShapeError, match="no database there"):
        earlier.problems(path.with_name("none.json"))


def test_configurations_are_of_this_cpu_and_other_builds(path: Path) -> None:
    assert earlier.configurations([path]) == {record(40).problem: [record(40).config]}
    assert earlier.configurations([path.with_name("none.json")]) == {}


def test_of_several_builds_the_greatest_gain_comes_first(path: Path) -> None:
    better = record(40, gain=1.8, kernel_set="one between", threads=1, pack="none")
    own_kernel = record(40, gain=2.5, kernel_set="one more", threads=1, special="0" * 32)
    database.write(path, [better])
    database.write(path, [own_kernel])
    assert earlier.configurations([path, path])[better.problem] == [better.config, record(40).config]


@pytest.mark.parametrize(("seconds", "status"), [(1e-5, "confirmed"), (2e-5, "rejected"), (3e-5, "rejected")])
def test_what_earlier_builds_found_is_measured_without_a_search(seconds: float, status: str) -> None:
    problem = record().problem
    start, before = rules.config(problem), other(problem)
    runner = ReplayRunner({start: 2e-5, before: seconds})
    renewal = strategies.none("renew")
    space = Space(problem, start)
    entry = driver.tune(space, runner, renewal, Budget(renewal.trials), earlier=[before])
    assert (entry.status, entry.trials, entry.strategy) == (status, 2, "renew")
    assert entry.config == before
    assert set(runner.measured) == {start, before}


def test_a_search_starts_with_what_earlier_builds_found() -> None:
    problem = record().problem
    start, before = rules.config(problem), other(problem)
    runner = ReplayRunner(lambda config: 1e-5 if config == before else 2e-5)
    entry = driver.tune(Space(problem, start), runner, strategies.load("random"), Budget(1), earlier=[before])
    assert (entry.status, entry.config, entry.trials) == ("confirmed", before, 3)


def test_renewing_measures_and_journals_and_leaves_earlier_groups_alone(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, _ = database.read_groups(path)
    assert command("--renew", "--db", path) == 0
    said = capsys.readouterr()
    assert "40x48x36" in said.out
    assert "2 without a record of an earlier build" in said.out + said.err
    (entry,), wrong = journal.read(journal.beside(path))
    assert (wrong, entry.problem, entry.strategy, entry.failures) == ([], record(40).problem, "renew", 0)
    assert (entry.cpu, entry.kernels, entry.trials) == (cpu.key(), kernels.kernel_hash(), 2)
    after, wrong = database.read_groups(path)
    assert wrong == []
    here = (cpu.key(), kernels.kernel_hash())
    assert {names: found for names, found in after.items() if names != here} == {
        names: found for names, found in before.items() if names != here
    }
    assert any(r.problem == entry.problem for r in after[here]) == (entry.status == "confirmed")


@pytest.mark.parametrize("then", [["--renew"], []])
def test_what_was_renewed_in_vain_may_still_be_searched(
    path: Path, then: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rejected = journal.Entry(record(40).problem, "rejected", record(40).config, strategy="renew")
    driver.store(rejected, path, cpu.key(), kernels.kernel_hash())
    assert command("--from-db", path, "--db", path, "--resume", "--dry-run", *then) == 0
    said = capsys.readouterr().out
    assert ("40x48x36" in said) == (not then)
    assert ("0 problems to tune, 1 tuned before" if then else "3 problems to tune, 0 tuned before") in said


def test_a_search_is_not_forgotten_for_a_renewal_that_followed(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for strategy in ("auto", "renew"):
        rejected = journal.Entry(record(40).problem, "rejected", record(40).config, strategy=strategy)
        driver.store(rejected, path, cpu.key(), kernels.kernel_hash())
    assert command("--from-db", path, "--db", path, "--resume", "--dry-run") == 0
    assert "2 problems to tune, 1 tuned before" in capsys.readouterr().out


def test_quick_means_the_database_that_was_named(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTGEMM_LOG_UNTUNED", str(path.with_name("no such log.jsonl")))
    for named in (["--from-db", str(path)], ["--renew", "--db", str(path)]):
        assert command(*named, "--quick", "--dry-run") == 0
        assert "40x48x36" in capsys.readouterr().out


def test_dtype_and_threads_choose_among_the_problems(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database.write(path, [replace(record(40), problem=replace(record(40).problem, threads=2))])
    assert command("--from-db", path, "--threads", 2, "--dtype", "float32", "--dry-run") == 0
    said = capsys.readouterr().out
    assert "1 problems to tune" in said
    assert "after 1 of earlier builds" in said
