"""A machine that changes its pace during a search: what is scaled, what is forgotten, what is left alone."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from fastgemm import registry
from fastgemm.problem import Config, Problem, Record
from fastgemm.tune import drift, driver, strategies
from fastgemm.tune.drift import Pace
from fastgemm.tune.measure import Measurement, ReplayRunner
from fastgemm.tune.space import Space

PROBLEM = Problem("f32", 96, 96, 1500, threads=2)
SPACE = Space(PROBLEM, Config("gemm", "v3", *registry.tiles(registry.dtype("f32"), registry.isa("v3"))[0]))
ORDER = {config: at for at, config in enumerate(sorted(SPACE.all(), key=repr))}


def true(config: Config) -> float:
    return 1e-3 * (1 + ORDER[config] / len(ORDER))


class Drifting(ReplayRunner):
    """A runner whose pace is a function of how many timings it has made."""

    def __init__(self, paces: Sequence[tuple[int, float]]) -> None:
        super().__init__(true)
        self.paces, self.count = paces, 0

    def measure(self, configs: Sequence[Config]) -> list[Measurement]:
        self.count += len(configs)
        pace = [pace for begin, pace in self.paces if self.count >= begin][-1]
        return [Measurement(m.config, m.outcome, m.seconds * pace) for m in super().measure(configs)]


def searched(paces: Sequence[tuple[int, float]], trials: int = 100) -> tuple[driver.Trials, Pace, list[str]]:
    said: list[str] = []
    runner = Drifting(paces)
    found = driver.Trials(runner)
    found.costs([SPACE.start])
    found.pace = Pace(runner, SPACE.start, found.results[SPACE.start].seconds, said.append, clock=lambda: 0.0)
    driver.search(SPACE, strategies.load("random"), found, driver.Budget(trials), random.Random(0))
    return found, found.pace, said


def errors(found: driver.Trials) -> list[float]:
    return [abs(m.seconds / true(config) - 1) for config, m in found.results.items()]


def test_a_steady_machine_is_left_alone() -> None:
    found, pace, said = searched([(0, 1.0)])
    assert (pace.now, said) == (1.0, [])
    assert max(errors(found)) < 1e-12
    # A look in twenty trials, and one at the beginning.
    assert found.runner.measured.count(SPACE.start) == 2 + 100 // drift.TRIALS


def test_a_slow_drift_is_scaled() -> None:
    found, pace, said = searched([(0, 1.0), (50, 1.2)])
    assert pace.now == pytest.approx(1.2)
    assert len(said) == 1
    assert "slower (1.20 times" in said[0]
    # Exact before and after, and not far off between the two looks.
    assert max(errors(found)) <= 0.1
    assert sum(error > 1e-9 for error in errors(found)) <= drift.TRIALS


def test_what_another_process_slowed_down_is_measured_again() -> None:
    found, pace, said = searched([(0, 1.0), (50, 1.9), (80, 1.0)])
    assert pace.now == pytest.approx(1.0)
    assert len(said) == 2
    assert "forgotten" in said[0]
    assert "faster" in said[1]
    # Those that were slowed down since the last look are gone, and so are those scaled by a pace that had ended.
    assert max(errors(found)) < 1e-9


def test_a_machine_that_is_never_steady_does_not_keep_a_search_from_ending() -> None:
    jumps = [(at, 1.0 + at // 23 % 2) for at in range(0, 2000, 23)]
    found, pace, said = searched(jumps)
    assert pace.forgotten <= drift.MOST_FORGOTTEN
    assert len(found.results) >= 90
    assert said


def test_one_slow_timing_is_no_drift() -> None:
    look = 2 + drift.TRIALS + 1
    _, pace, said = searched([(0, 1.0), (look, 3.0), (look + 1, 1.0)])
    assert (pace.now, said) == (1.0, [])


@pytest.mark.parametrize("timings", [(1.26, 1.2), (1.2, 1.26)])
def test_of_two_timings_that_agree_the_faster_is_the_pace(timings: tuple[float, float]) -> None:
    """What comes between adds to a time; nothing takes from it."""
    look = 2 + drift.TRIALS + 1
    _, pace, said = searched([(0, 1.0), (look, timings[0]), (look + 1, timings[1])], trials=drift.TRIALS + 5)
    assert pace.now == pytest.approx(1.2)
    assert len(said) == 1


def test_the_first_timing_may_be_an_outlier() -> None:
    runner = Drifting([(0, 10.0), (2, 1.0)])
    found = driver.Trials(runner)
    found.costs([SPACE.start])
    pace = Pace(runner, SPACE.start, found.results[SPACE.start].seconds)
    assert pace.seconds == pytest.approx(true(SPACE.start))


def test_a_reference_that_fails_says_nothing() -> None:
    failing = {SPACE.start: [1e-3]}
    runner = ReplayRunner(lambda config: failing.get(config, "crash"))
    pace = Pace(runner, SPACE.start, 1e-3, clock=lambda: 0.0)
    failing.clear()
    for config in list(SPACE.all())[1:50]:
        pace.look(config, {})
    assert pace.now == 1.0
    assert pace.scaled(Measurement(SPACE.start, "crash")).outcome == "crash"


def test_a_known_record_that_was_forgotten_is_timed_again() -> None:
    """Else it would not come into the final, and a run without a gain would take it out of the database."""
    best = min(ORDER, key=true)
    known = Record(PROBLEM, best, true(best), true(SPACE.start), 9, "random", "2026-01-01", "a build")
    said: list[str] = []
    # It is timed third; from the fifth timing on the machine is slow, and the look after twenty trials finds out.
    runner = Drifting([(0, 1.0), (5, 1.9)])

    def search(space: Space, rng: random.Random) -> strategies.Search:
        yield sorted(space.all(), key=true)[-40:]

    entry = driver.tune(
        SPACE, runner, strategies.Strategy("worst", search, None), driver.Budget(40), known=known, say=said.append
    )
    assert "forgotten" in said[0]
    assert (entry.status, entry.config) == ("confirmed", best)


def test_a_problem_is_tuned_through_a_drift() -> None:
    said: list[str] = []
    entry = driver.tune(
        SPACE, Drifting([(0, 1.0), (30, 1.15)]), strategies.load("random"), driver.Budget(60), say=said.append
    )
    assert ORDER[entry.config] < len(ORDER) // 10
    assert len(said) == 1
