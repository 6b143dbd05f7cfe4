"""The tuner on packed and fused problems, and on the products of a graph."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import environment

import fastgemm
from fastgemm import activations, database, dispatch, graph, kernels, registry
from fastgemm.graph import reference
from fastgemm.problem import Config, Problem
from fastgemm.threads import get_num_threads, set_num_threads
from fastgemm.tune import __main__ as command
from fastgemm.tune import driver, graphs, session, shapes
from fastgemm.tune.calls import Called, needs_calls
from fastgemm.tune.space import Space
from fastgemm.tune.worker import CalledBench

DATA = Path(__file__).parent / "data"
FOLLOWED = [row.name for row in registry.DTYPES if registry.is_finished(row)]


@pytest.fixture(autouse=True)
def _as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No records but a test's own, and the threads that there were."""
    monkeypatch.setattr(database, "bundled_path", lambda: None)
    monkeypatch.setenv("FASTGEMM_DB", str(tmp_path / "tuning.json"))
    dispatch.reload()
    count = get_num_threads()
    yield
    set_num_threads(count)
    monkeypatch.undo()
    dispatch.reload()


def every_pack(space: Space) -> list[Config]:
    """A configuration of every kernel, and of every way to pack A."""
    found = {(c.mr, c.nr, c.pack): c for c in space.all()}
    return list(found.values())


@pytest.mark.parametrize("row", registry.DTYPES, ids=lambda row: row.name)
@pytest.mark.parametrize("layout", ["np", "tp", "gp"])
def test_candidates_of_packed_problems_are_right(row: registry.DType, layout: str) -> None:
    tier = kernels.active_isa()
    if tier is None or not registry.supported(row, tier) or not registry.is_packed(row):
        pytest.skip("no kernels")
    problem = Problem(row.name, 37, 70, 90, layout=layout)
    bench = CalledBench(problem, 0)
    start = dispatch.by_rules(problem)
    configs = every_pack(Space(problem, start))
    assert len({c.nr for c in configs}) == len({wide for _, wide in registry.tiles(row, tier, start.family)})
    for config in configs:
        assert bench.error(bench.repeat(config)) <= bench.allowed, config


@pytest.mark.parametrize("dtype", FOLLOWED)
@pytest.mark.parametrize("epilogue", [row.name for row in activations.EPILOGUES])
def test_candidates_of_fused_problems_are_right(dtype: str, epilogue: str) -> None:
    tier = kernels.active_isa()
    if tier is None or not registry.supported(registry.dtype(dtype), tier):
        pytest.skip("no kernels")
    for layout in ("np",) if dtype == registry.DEQUANTISED else ("np", "nn", "nt"):
        problem = Problem(dtype, 200, 40, 64, layout=layout, epilogue=epilogue)
        if not needs_calls(problem):
            continue
        called = Called(problem, 0)
        set_num_threads(1)
        assert called.error(called.repeat(dispatch.by_rules(problem))) <= called.allowed
        if epilogue != "k_tanh":
            assert called.error(called.repeat(Config(family="numpy"))) <= 4 * called.allowed


def test_the_pinned_configuration_is_what_runs() -> None:
    """A candidate that cuts k elsewhere gives other bits, also after another one ran."""
    problem = Problem("f32", 24, 70, 3000, layout="np", epilogue="relu")
    bench = CalledBench(problem, 0)
    start = dispatch.by_rules(problem)
    one, other = bench.repeat(start.replace(kc=3000)), bench.repeat(start.replace(kc=256))
    made = []
    for call in (one, other, one):
        call(1)
        made.append(bench._called.out.copy())
    np.testing.assert_array_equal(made[0], made[2])
    assert (made[0] != made[1]).any()


def test_what_cannot_be() -> None:
    with pytest.raises(shapes.ShapeError, match="one matrix"):
        shapes.product([shapes.parse("8x8x8x3")], ["f32"], [1], "np")
    with pytest.raises(shapes.ShapeError, match="single products of floats"):
        shapes.product([shapes.parse("8x8x8")], ["i32"], [1], "nn", "relu")
    (made,) = shapes.product([shapes.parse("100x1x8")], ["f32"], [1], "np", "relu")
    assert (made.m, made.n, made.layout, made.epilogue) == (100, 1, "np", "relu")


def layers() -> graph.Graph:
    """Two layers and what follows them."""
    rng = np.random.default_rng(0)
    build = graph.Builder("two layers")
    x = build.input("x", (40, 96), "float32")
    x = build.relu(x @ rng.standard_normal((96, 600)).astype("f4") + np.ones(600, "f4"))
    build.output(build.tanh(x @ rng.standard_normal((600, 64)).astype("f4")), "y")
    return build.graph()


def test_problems_of_a_graph() -> None:
    asked = graphs.problems(graph.compile(layers(), threads=1, fusion="fine"))
    assert {(p.m, p.n, p.k, p.layout, p.epilogue, p.threads) for p in asked} == {
        (40, 600, 96, "np", "relu", 1),
        (40, 64, 600, "np", "tanh", 1),
    }
    assert asked == sorted(asked, key=lambda p: -p.flops)
    assert [p.epilogue for p in graphs.problems(graph.compile(layers(), threads=1, fusion="none"))] == ["none"] * 2


def test_problems_of_a_file() -> None:
    pytest.importorskip("onnx")
    found = graphs.from_file(DATA / "encoder_small.onnx", 1, 2)
    assert {p.layout[1] for p in found} >= {"p"}
    assert any(p.epilogue != "none" for p in found)
    with pytest.raises(shapes.ShapeError, match=r"no\.onnx"):
        graphs.from_file(Path("no.onnx"), 1)


def test_the_command_takes_a_graph(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnx")
    assert (
        command.main(["--graph", str(DATA / "encoder_small.onnx"), "--batch", "2", "--threads", "1", "--dry-run"]) == 0
    )
    said = capsys.readouterr().out
    assert " np" in said
    assert "nothing was measured" in said


def planted(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let the search write a record for every problem: that of the rules with another KC."""

    def run(asked: list[Problem], options: object) -> session.Outcome:
        path = session.database_file(options)  # type: ignore[arg-type]
        for p in asked:
            config = dispatch.by_rules(p).replace(kc=32)
            made = database.Record(p, config, seconds, 2 * seconds, kernels=kernels.kernel_hash())
            database.write(path, [made])
        return session.Outcome(0)

    monkeypatch.setattr(session, "tune", run)


def test_tuning_in_place_routes_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, 1e-6)
    monkeypatch.setattr(graphs, "SLOWER", 0.0)
    compiled = graph.compile(layers(), threads=1, fusion="fine")
    given = graphs.inputs(compiled)
    before = compiled(given)
    found = compiled.tune(trials=1)
    assert found.kept
    assert found.gain > 0
    assert len(found.records) == len(found.problems) == 2
    with dispatch.watched() as seen:
        after = compiled(given)
    assert [dispatch.resolve(problem, panels).rung for problem, panels in seen] == ["exact"] * 2
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4)
    # Sums are cut elsewhere now.
    assert (after != before).any()


def test_records_that_slow_the_graph_down_are_taken_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    planted(monkeypatch, 1e-6)
    monkeypatch.setattr(graphs, "SLOWER", 1e9)
    compiled = graph.compile(layers(), threads=1, fusion="fine")
    found = compiled.tune(trials=1)
    assert not found.kept
    assert found.records == ()
    assert database.read(tmp_path / "tuning.json")[0] == []
    assert len(dispatch.tuned()) == 0


def test_tuning_in_place_for_real(tmp_path: Path) -> None:
    compiled = graph.compile(layers(), threads=1)
    found = compiled.tune(trials=3, seconds=120)  # which the trials end long before
    assert found.before > 0
    assert found.after > 0
    lines = (tmp_path / "tuning.log.jsonl").read_text().splitlines()
    assert {json.loads(line)["problem"]["epilogue"] for line in lines} == {"relu", "tanh"}
    x = graphs.inputs(compiled)
    np.testing.assert_allclose(compiled(x), reference.run(compiled.source, x)["y"], rtol=1e-4, atol=1e-4)


def test_a_database_that_is_not_read_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, 1e-6)
    compiled = graph.compile(layers(), threads=1, fusion="fine")
    found = compiled.tune(db=tmp_path / "other.json")
    assert (found.records, found.gain, found.kept) == ((), 1.0, True)
    assert len(database.read(tmp_path / "other.json")[0]) == 2
    assert fastgemm.explain(m=40, n=600, k=96, layout="np", num_threads=1, activation="relu").rung == "heuristic"


def test_an_interrupt_ends_tuning_in_place_too(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(driver, "tune", interrupt)
    with pytest.raises(KeyboardInterrupt):
        graph.compile(layers(), threads=1).tune(trials=1)
    assert "no problem was finished" in capfd.readouterr().err


def test_a_result_that_cannot_be_kept_ends_it_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device", "tuning.json")

    monkeypatch.setattr(driver, "tune", lambda space, *arguments: driver.Entry(space.problem, "failed", space.start))
    monkeypatch.setattr(driver, "store", full)
    with pytest.raises(RuntimeError, match=r"cannot be kept: tuning\.json: No space left on device"):
        graph.compile(layers(), threads=1).tune(trials=1)


@pytest.mark.parametrize(
    "bad", [{"seconds": -1}, {"seconds": 0}, {"seconds": float("nan")}, {"trials": 0}, {"trials": -3}], ids=str
)
def test_a_budget_is_above_zero(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(bad))} must be above zero"):
        graph.compile(layers(), threads=1).tune(**bad)  # type: ignore[arg-type]


def test_a_database_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, 1e-6)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    graph.compile(layers(), threads=1).tune(db="~/zz.json")
    assert len(database.read(tmp_path / "zz.json")[0]) == 2
    assert not (tmp_path / "~").exists()


MISSING = """
import sys
sys.modules[{package!r}] = None
import numpy as np
from fastgemm import graph
build = graph.Builder("layer")
build.output(build.input("x", (32, 64), "float32") @ np.ones((64, 48), "f4"), "y")
try:
    graph.compile(build.graph(), threads=1).tune(trials=1, strategy="tpe")
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.mark.parametrize("package", ["rich", "scipy", "optuna"])
def test_a_missing_extra_is_named_in_place_too(package: str) -> None:
    command = [sys.executable, "-c", MISSING.format(package=package)]
    made = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60)
    assert "the tuner needs: pip install fastgemm[tune]" in made.stdout, made.stderr
