"""bench/tuned.py: what tuning is worth, drawn from a list and timed anew."""

import doctest
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("scipy")

sys.path.append(str(Path(__file__).parents[1] / "bench"))

import tuned


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    path = tmp_path / "shapes.csv"
    path.write_text("M,N,K\n8,8,8\n9,17,5\n16,16,16\n")
    return path


def run(listed: Path, *arguments: object) -> int:
    return tuned.main([*map(str, ("--shapes-file", listed, "--threads", 1, "--seconds", 0.05, *arguments))])


def test_outcomes_are_kept_and_not_made_again(listed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = listed.with_suffix(".jsonl")
    kept.write_text(json.dumps({"problem": "8x8x8 float32 1 thread", "gain": 1.21}) + "\n")
    assert run(listed, "--keep", kept, "--stop-after", 1e-9) == 0
    said = capsys.readouterr()
    assert "tuned against untuned over 1 problems: geometric mean 1.210" in said.out
    assert "2 problems left" in said.err
    assert run(listed, "--keep", kept, "--sample", 3) == 0
    said = capsys.readouterr()
    assert "8x8x8" not in said.out
    assert "over 3 problems" in said.out
    outcomes = [json.loads(line) for line in kept.read_text().splitlines()]
    assert len({outcome["problem"] for outcome in outcomes}) == 3
    assert all(outcome["gain"] > 0 for outcome in outcomes)


def test_what_could_not_be_timed_is_counted_by_itself() -> None:
    """Not as a ratio of zero, of which there is no geometric mean, and not as if it had not been."""
    assert doctest.testmod(tuned).failed == 0
    text = tuned.summary([1.0, 0.0, 1.21])
    assert "over 2 problems: geometric mean 1.100, 1 of them 1.10 or more, least 1.000; besides 1 whose" in text
    assert "over 0 problems: geometric mean nan" in tuned.summary([0.0])


def test_the_seed_draws(listed: Path) -> None:
    class Options:
        shapes_file, dtype, threads, sample, seed = listed, ["f64"], [1], 2, 0

    first = tuned.drawn(Options)
    assert first == tuned.drawn(Options)
    assert len(set(first)) == 2
    assert {problem.dtype for problem in first} == {"f64"}


@pytest.mark.parametrize(
    "wrong",
    [("--sample", 0), ("--seconds", 0), ("--threads", 0), ("--dtype", "f128"), ("--shapes-file", "no-such-file.csv")],
)
def test_the_command_refuses(listed: Path, wrong: tuple[object, ...]) -> None:
    with pytest.raises(SystemExit):
        run(listed, *wrong)
