"""The comparison of strategies on recorded shapes of the library's own space, and the model that picks plans."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from fastgemm import kernels, registry
from fastgemm.tune.space import Space

BENCH = Path(__file__).parents[1] / "bench"
if not BENCH.is_dir():
    pytest.skip("the benchmarks are not beside the tests", allow_module_level=True)
# At the end: a benchmark's file name must not hide anything that another test imports.
sys.path.append(str(BENCH))

import kernel_searches  # noqa: E402
import predictor  # noqa: E402

# The recording is of this tier; elsewhere its starts span no space.
recorded_tier = pytest.mark.skipif(
    registry.isa("v4") not in kernels.runnable(), reason="the shapes were recorded on v4, which does not run here"
)


@pytest.fixture(scope="module")
def table() -> kernel_searches.Recorded:
    return kernel_searches.recorded()


def test_a_dozen_shapes_are_recorded_whole(table: kernel_searches.Recorded) -> None:
    assert len(table) == 12
    for problem, costs in table.items():
        assert all(config.misfit(problem) is None for config in costs)
        assert 0 < min(costs.values()) < math.inf
        assert len(costs) > 50


@recorded_tier
def test_replay_ends_at_the_best(table: kernel_searches.Recorded) -> None:
    """In a space hardly larger than the number of trials the best is found."""
    problem, costs = min(table.items(), key=lambda pair: len(pair[1]))
    assert next(iter(costs)) in Space(problem, next(iter(costs)))
    curves = kernel_searches.replayed("auto", {problem: costs}, 2)
    assert curves.shape == (1, kernel_searches.AFTER[-1] + 1)
    assert (np.diff(curves[0]) <= 0).all()
    assert len(costs) < 1.2 * kernel_searches.AFTER[-1]
    assert curves[0, -1] == 1
    np.testing.assert_array_equal(curves, kernel_searches.replayed("auto", {problem: costs}, 2))


@recorded_tier
def test_the_command_prints_a_row_for_each_strategy(capsys: pytest.CaptureFixture[str]) -> None:
    assert kernel_searches.main(["--strategies", "auto", "random", "--seeds", "1"]) == 0
    text = capsys.readouterr().out
    assert "| auto |" in text
    assert "| random |" in text


@pytest.mark.parametrize("wrong", [["--strategies", "luck"], ["--seeds", "0"], ["--seconds", "0", "--live"]])
def test_the_command_refuses(wrong: list[str]) -> None:
    with pytest.raises(SystemExit):
        kernel_searches.main(wrong)


def test_the_network_learns_a_plane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictor, "STEPS", 1500)
    rows = np.random.default_rng(0).random((300, 4))
    targets = rows @ [1.0, -2.0, 0.5, 0.0] - 20
    assert np.abs(predictor.Net(rows, targets, 0)(rows) - targets).mean() < 0.1


def test_a_model_picks_one_of_the_configurations(
    table: kernel_searches.Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictor, "STEPS", 50)
    (problem, costs), *others = sorted(table.items(), key=lambda pair: len(pair[1]))[:3]
    assert predictor.picked_by_net(problem, list(costs), dict(others)) in costs
    pytest.importorskip("xgboost")
    assert predictor.picked_by_trees(problem, list(costs), dict(others)) in costs
