"""Recorded tables, their recording, and the papers' experiment on them; nothing depends on how fast anything is."""

from __future__ import annotations

import doctest
import json
import lzma
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fastgemm import kernels
from fastgemm.tune.nested import NestedSpace

BENCH = Path(__file__).parents[1] / "bench"
if not BENCH.is_dir():
    pytest.skip("the benchmarks are not beside the tests", allow_module_level=True)
# At the end: a benchmark's file name must not hide anything that another test imports.
sys.path.append(str(BENCH))

import constants  # noqa: E402
import cost_tables  # noqa: E402
import papers  # noqa: E402
import record  # noqa: E402
import valleys  # noqa: E402
from cost_tables import Table, TableError  # noqa: E402

SHIPPED = sorted((BENCH / "tables").glob("*.xz"))


@pytest.fixture
def small() -> Table:
    """A table of 36,000 states whose times are a formula: square tiles, deep in the sum, are best."""
    space = NestedSpace(32, 32, 32)
    cost = [1 + abs(s.m[3] - 8) + abs(s.n[3] - 8) + 16 / s.k[1] + 0.1 * s.m[1] for s in space.all()]
    return Table(space, np.array(cost) * 1e-6, {"date": "2026-01-01", "cpu": "none", "isa": "v3", "command": "none"})


def test_examples() -> None:
    assert doctest.testmod(cost_tables).failed == 0


def test_a_table_comes_back(small: Table, tmp_path: Path) -> None:
    path = tmp_path / "table.xz"
    seconds = small.seconds.copy()
    seconds[7] = np.nan
    cost_tables.save(path, Table(small.space, seconds, small.about))
    found = cost_tables.load(path)
    assert found.space.sizes == small.space.sizes
    assert found.about["cpu"] == "none"
    assert found.best == pytest.approx(small.best)
    assert np.isnan(found.seconds[7])
    near = seconds < cost_tables.FAR * small.best
    np.testing.assert_allclose(found.seconds[near], seconds[near], rtol=0.03)
    far = np.isfinite(seconds) & ~near
    np.testing.assert_allclose(found.seconds[far], seconds[far], rtol=0.4)
    assert (found.seconds[far] > 0.99 * cost_tables.FAR * small.best).all()


def packed(about: object, body: bytes = bytes(1)) -> bytes:
    return lzma.compress(json.dumps(about).encode() + b"\n" + body)


GOOD = {"format": 1, "space": "nested", "sizes": {"m": 1, "k": 1, "n": 1}, "least": 1e-3}


def test_the_least_table(tmp_path: Path) -> None:
    path = tmp_path / "table.xz"
    path.write_bytes(packed(GOOD))
    assert cost_tables.load(path).best == 1e-3


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no table",
        packed(GOOD)[:-9],
        packed([]),
        packed({}),
        packed({**GOOD, "format": 2}),
        packed({**GOOD, "space": "other"}),
        packed({**GOOD, "sizes": {"m": 3, "k": 1, "n": 1}}),
        packed({**GOOD, "sizes": {"m": 1, "k": 1}}),
        packed({**GOOD, "sizes": 1}),
        packed({**GOOD, "least": 0}),
        packed({**GOOD, "least": True}),
        packed({**GOOD, "least": float("nan")}),
        packed({**GOOD, "least": 10**400}),
        packed({**GOOD, "least": 1e308}),
        packed(GOOD, bytes(2)),
        packed(GOOD, b""),
        lzma.compress(bytes((64 << 20) + 1)),
    ],
    ids=lambda content: f"{len(content)} bytes",
)
def test_what_is_no_table(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "table.xz"
    path.write_bytes(content)
    with pytest.raises(TableError, match=r"table\.xz"):
        cost_tables.load(path)


def test_a_missing_table(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="none"):
        cost_tables.load(tmp_path / "none.xz")


@pytest.mark.parametrize(
    "wrong",
    [
        ["512x512"],
        ["512x500x512"],
        ["axbxc"],
        ["64x64x1e9"],
        ["64x64x" + "9" * 5000],
        ["32x32x32"],
        ["64x64x-64"],
        ["64x64x64", "--seconds", "0"],
        ["64x64x64", "--check", "-1"],
        ["64x64x64", "--seed", "x"],
        [],
    ],
)
def test_what_cannot_be_recorded(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        record.main(wrong)
    assert stop.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_a_damaged_recording_is_not_gone_on_with(tmp_path: Path) -> None:
    out = tmp_path / "table.xz"
    for content in (b"", b"no array", b"\x93NUMPY\x01\x00"):
        out.with_suffix(".part.npy").write_bytes(content)
        with pytest.raises(SystemExit, match="begin anew"):
            record.record(SimpleNamespace(space=NestedSpace(8, 8, 8), base=1.0), out, 0.0, seed=0)


@pytest.mark.skipif(not kernels.runnable(), reason="no tier runs here")
def test_recording_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Out of time it keeps what it has; the same command goes on until every state has a time."""
    out = tmp_path / "table.xz"
    space = NestedSpace(8, 8, 8)
    monkeypatch.setattr(record, "LENGTH", 1e-7)
    monkeypatch.setattr(record.Recorder, "_find_reference", lambda self: self.space.start)
    recorder = record.Recorder(space)
    assert record.record(recorder, out, 0.0, seed=0) == 0
    assert "goes on" in capsys.readouterr().out
    assert not out.exists()
    for _ in range(20):
        record.record(recorder, out, record.time.monotonic() + 10, seed=0)
        if out.exists():
            break
    assert np.isfinite(cost_tables.load(out).seconds).all()
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_the_command(small: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "table.xz"
    cost_tables.save(path, small)
    assert papers.main([str(path), "--strategies", "gbfs", "--seeds", "3", "--share", "1", "--out", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "| gbfs | " in text
    assert "| random | " in text
    assert "not compared" in text
    assert (tmp_path / "papers.md").read_text() in text
    assert (tmp_path / "papers-32x32x32.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    "wrong", [["--strategies", "none"], ["--seeds", "0"], ["--share", "0"], ["no-such-table.xz"], ["--set", "gbfs.RHO"]]
)
def test_the_command_refuses(wrong: list[str]) -> None:
    with pytest.raises(SystemExit):
        papers.main(wrong)


def test_constants_are_set_for_a_run(small: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "table.xz"
    cost_tables.save(path, small)
    arguments = [str(path), "--strategies", "gbfs", "--seeds", "2", "--share", "1"]
    shown = []
    for more in ([], ["--set", "gbfs.RHO=26"], []):
        assert papers.main([*arguments, *more]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[2]
    assert shown[1].startswith("With gbfs.RHO=26.")
    assert next(line for line in shown[1].splitlines() if "| gbfs |" in line) not in shown[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("gbfs", "not of the form"),
        ("nobody.RHO=1", "not of the form"),
        ("gbfs.THETA=1", "it has RHO, TRIALS"),
        ("gbfs.RHO=many", "no number"),
        ("gbfs.RHO=1,2", "of another kind"),
        ("gbfs.RHO=0.5", "of another kind"),
    ],
)
def test_what_is_no_constant_says_why(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        constants.parse(text)


def test_a_strategy_that_cannot_be_imported_is_left_out(
    small: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    load = papers.strategies.load

    def missing(name: str) -> object:
        if name == "gbfs":
            raise ModuleNotFoundError("No module named 'some_library'", name="some_library")
        return load(name)

    monkeypatch.setattr(papers.strategies, "load", missing)
    path = tmp_path / "table.xz"
    cost_tables.save(path, small)
    assert papers.main([str(path), "--strategies", "gbfs", "--seeds", "1"]) == 0
    printed = capsys.readouterr()
    assert "gbfs is left out: it needs some_library" in printed.err
    assert "| gbfs |" not in printed.out


def test_a_replay_measures_a_state_once(small: Table) -> None:
    run = papers.replay("random", small, 200, 0)
    assert len(run.best) == 200
    assert (np.diff(run.best) <= 0).all()
    again = papers.replay("random", small, 200, 0)
    np.testing.assert_array_equal(run.best, again.best)


def test_valleys_are_states_with_nothing_better_in_reach(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a space of 100 states, against distances between all of them."""
    space = NestedSpace(4, 1, 4)
    costs = 1 + np.random.default_rng(3).permutation(len(space)) / (2 * len(space))
    table = Table(space, costs, {})
    far = np.full((len(space), len(space)), 99)
    for index, state in enumerate(space.all()):
        far[index, index] = 0
        far[index, [space.index(other) for other in space.neighbours(state)]] = 1
    for middle in range(len(space)):
        far = np.minimum(far, far[:, middle, None] + far[None, middle])
    for moves, found in enumerate(valleys.valleys(table), 1):
        least = np.where(far <= moves, costs, np.inf).min(axis=1)
        assert found == sorted(costs[costs == least] / costs.min())
    path = tmp_path / "table.xz"
    cost_tables.save(path, table)
    assert valleys.main([str(path)]) == 0
    assert "## 4x1x4: " in capsys.readouterr().out
    with pytest.raises(SystemExit):
        valleys.main(["no-such-table.xz"])


def test_shipped_tables_are_small() -> None:
    assert SHIPPED
    assert sum(path.stat().st_size for path in SHIPPED) < 1 << 20


def test_the_papers_searches_at_512() -> None:
    """Within 3 % of the table's best at 0.1 % of the space in the median of ten seeds, and ahead of random search."""
    table = cost_tables.load(BENCH / "tables" / "nested-512x512x512.xz")
    assert np.isfinite(table.seconds).all()
    found = {
        name: np.median([papers.replay(name, table, 484, seed).best[-1] for seed in range(10)])
        for name in ("gbfs", "na2c", "random")
    }
    for name in ("gbfs", "na2c"):
        assert found[name] <= 1.03 * table.best
        assert found[name] < found["random"]
