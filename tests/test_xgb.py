"""The search by a learned ranking: features, annealing, transfer, on costs that are formulas."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastgemm.problem import Config, Problem
from fastgemm.tune import driver, features, strategies
from fastgemm.tune.annealing import Annealing, diverse
from fastgemm.tune.kernel_nests import described
from fastgemm.tune.measure import ReplayRunner
from fastgemm.tune.nested import NestedSpace, State
from fastgemm.tune.nests import Experience, Nests
from fastgemm.tune.space import Space

pytest.importorskip("xgboost")

from fastgemm.tune.boosting import HALF, Model


def cost(state: State) -> float:
    """Square tiles of 8 x 16, deep in the sum, are best, whatever the product's size."""
    return 1 + abs(np.log2(state.m[3] / 8)) + abs(np.log2(state.n[3] / 16)) + 4 / state.k[1] + 0.1 * np.log2(state.m[0])


def test_features_tell_nests_apart_and_are_finite() -> None:
    space = NestedSpace(8, 8, 8)
    rows = features.described(space.nests(list(space.all())))
    assert np.isfinite(rows).all()
    assert len(np.unique(rows, axis=0)) == len(space)


def test_features_of_kernels_know_threads_and_family() -> None:
    problem = Problem("f32", 64, 256, 256, threads=2)
    base = Config("gemm", "v3", 6, 16)
    others = [base, base.replace(threads=2, split="m"), base.replace(threads=2), base.replace(pack="b")]
    rows = features.described(described(problem, others))
    assert len(np.unique(rows, axis=0)) == len(others)


def test_touched_bytes_and_reuse_of_a_product() -> None:
    """An 8 x 4 x 16 product in one block: a body of the two outer loops touches a row of A, and all of B for each."""
    nests = Nests(("m", "n", "k"), np.array([[8.0, 4, 16]]), itemsize=64, lanes=1)
    row = features.described(nests)[0]
    bodies = 2 ** row[6:9] - 1
    np.testing.assert_allclose(bodies, [4 * 16, 16, 1], rtol=1e-5)
    touched_a, reuse_a = 2 ** row[9:12] - 1, 2 ** row[12:15] - 1
    np.testing.assert_allclose(touched_a, [16 * 64, 16 * 64, 64], rtol=1e-5)
    np.testing.assert_allclose(reuse_a, [4, 1, 1], rtol=1e-5)


def measured(space: NestedSpace, count: int, seed: int = 0) -> tuple[Nests, np.ndarray]:
    states = [space.sample(random.Random(f"{seed} {i}")) for i in range(count)]
    return space.nests(states), np.array([cost(state) for state in states])


def agreement(model: Model, space: NestedSpace) -> float:
    """Share of pairs of new states that the model orders as their costs do."""
    nests, seconds = measured(space, 200, seed=1)
    scores = model.scores(nests)
    one, other = np.triu_indices(len(seconds), 1)
    told = seconds[one] != seconds[other]
    return float(np.mean(((scores[one] > scores[other]) == (seconds[one] < seconds[other]))[told]))


def test_the_model_ranks_and_the_past_helps() -> None:
    small, large = NestedSpace(64, 64, 64), NestedSpace(128, 256, 128)
    past = [Experience(*measured(small, 300))]
    order = large.nests([large.start]).order
    fresh, informed = Model((), order, 0), Model(past, order, 0)
    assert not fresh.knows
    assert informed.knows
    assert agreement(informed, large) > 0.75
    for model in (fresh, informed):
        model.fit(*measured(large, 24))
    assert agreement(informed, large) > agreement(fresh, large)
    fresh.fit(*measured(large, 300))
    assert agreement(fresh, large) > 0.85


def test_the_past_of_other_loops_is_left_out_and_fades() -> None:
    small, large = NestedSpace(64, 64, 64), NestedSpace(128, 128, 128)
    past = [Experience(*measured(small, 50))]
    order = large.nests([large.start]).order
    assert not Model(past, ("m", "n", "k"), 0).knows
    model, fresh = Model(past, order, 0), Model((), order, 0)
    many = measured(large, 5 * HALF)
    for one in (model, fresh):
        one.fit(*many)
    nests = measured(large, 50, seed=1)[0]
    np.testing.assert_allclose(model.scores(nests), fresh.scores(nests))


def test_failures_rank_last() -> None:
    space = NestedSpace(64, 64, 64)
    nests, seconds = measured(space, 200)
    failed = nests.trips[:, -1] > 8
    model = Model((), nests.order, 0)
    model.fit(nests, np.where(failed, np.inf, seconds))
    scores = model.scores(nests)
    assert np.median(scores[failed]) < np.quantile(scores[~failed], 0.1)
    model.fit(nests, np.full(len(seconds), np.inf))
    assert np.isfinite(model.scores(nests)).all()


@pytest.mark.parametrize("size", [16, 64], ids=["ranked whole", "annealed"])
def test_annealing_finds_what_a_model_likes(size: int) -> None:
    space = NestedSpace(size, size, size)

    def score(points: Sequence[Any]) -> np.ndarray:
        return np.array([-cost(point) for point in points])

    annealing = Annealing(space, random.Random(0), 64, 100, 100)
    first = annealing.best(score, set(), 20)
    assert [value for _, value in first] == sorted((value for _, value in first), reverse=True)
    assert len({point for point, _ in first}) == 20
    drawn = [-cost(space.sample(random.Random(i))) for i in range(2000)]
    assert first[0][1] >= max(drawn)
    known = {point for point, _ in first}
    assert not known & {point for point, _ in annealing.best(score, known, 20)}


def test_a_batch_differs() -> None:
    space = NestedSpace(64, 64, 64)
    points = [space.sample(random.Random(i)) for i in range(40)]
    ranked = [(point, -float(at)) for at, point in enumerate(points)]
    assert diverse(space, ranked, 5, 0.0) == points[:5]

    def covered(chosen: Sequence[Any]) -> int:
        return len({item for point in chosen for item in space.encode(point).items()})

    assert covered(diverse(space, ranked, 5, 3.0)) > covered(points[:5])
    assert diverse(space, [], 5, 1.0) == []


def best_after(space: NestedSpace, trials: int, seed: int, history: Sequence[Experience] = ()) -> float:
    strategy = strategies.load("xgb").informed(history)
    known = driver.Trials(ReplayRunner(cost))
    known.costs([space.start])
    driver.search(space, strategy, known, driver.Budget(trials), random.Random(seed))
    assert len(known.results) == trials + 1
    return min(m.seconds for m in known.results.values())


def test_it_beats_random_draws_and_learns_from_the_past() -> None:
    space, small = NestedSpace(128, 128, 128), NestedSpace(64, 64, 64)
    drawn = [min(cost(space.sample(random.Random(f"{seed} {i}"))) for i in range(60)) for seed in range(5)]
    alone = [best_after(space, 60, seed) for seed in range(3)]
    assert np.median(alone) < np.median(drawn)
    past = [Experience(*measured(small, 200))]
    informed = [best_after(space, 16, seed, past) for seed in range(3)]
    assert np.median(informed) <= np.median([best_after(space, 16, seed) for seed in range(3)])


def test_it_sees_all_of_a_small_space() -> None:
    space = NestedSpace(2, 4, 2)
    known = driver.Trials(ReplayRunner(cost))
    known.costs([space.start])
    driver.search(space, strategies.load("xgb"), known, driver.Budget(), random.Random(0))
    assert set(known.results) == set(space.all())


def test_it_works_on_the_kernels_own_space() -> None:
    problem = Problem("f32", 96, 96, 1500, threads=2)
    space = Space(problem, Config("gemm", "v3", 6, 16))
    order = {config: at for at, config in enumerate(sorted(space.all(), key=lambda c: (c.pack, c.threads, c.nr)))}
    known = driver.Trials(ReplayRunner(lambda config: 1e-3 * (1 + order[config] / len(order))))
    known.costs([space.start])
    driver.search(space, strategies.load("xgb"), known, driver.Budget(40), random.Random(0))
    assert min(order[config] for config in known.results) < len(order) // 20


def test_a_study_of_the_past_is_only_for_those_that_learn() -> None:
    assert strategies.load("random").informed([1]) == strategies.load("random")  # type: ignore[list-item]


def test_the_transfer_experiment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench = Path(__file__).parents[1] / "bench"
    if not bench.is_dir():
        pytest.skip("the benchmarks are not beside the tests")
    import sys

    sys.path.append(str(bench))
    import cost_tables
    import transfer

    paths = []
    for size in (16, 32):
        space = NestedSpace(size, size, size)
        about = {"date": "2026-01-01", "cpu": "none", "isa": "v3", "command": "none"}
        paths.append(str(tmp_path / f"nested-{size}x{size}x{size}.xz"))
        cost_tables.save(Path(paths[-1]), cost_tables.Table(space, np.array([cost(s) for s in space.all()]), about))
    assert transfer.main([*paths, "--seeds", "2", "--share", "0.2", "--out", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "32x32x32: 2 seeds" in text
    assert "history of 16x16x16" in text
    assert (tmp_path / "transfer.md").read_text() in text
    with pytest.raises(SystemExit):
        transfer.main(paths[:1])
