"""The worker process: what crashes, hangs or lies costs one trial; the rest is checked and timed."""

import contextlib
import dataclasses
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import environment

import fastgemm
from fastgemm.problem import LAYOUTS, PACKED, Config, Problem
from fastgemm.tune import worker
from fastgemm.tune.live import LiveRunner, Worker, command
from fastgemm.tune.measure import footprint

PROBLEM = Problem("f32", 7, 9, 11)

# Stands in for kernels: the block MC says what a configuration does.
GOOD, CRASHES, HANGS, LIES, LEAVES_HOLES, REFUSES, PRINTS, RAISES, EXITS = (Config(mc=mc) for mc in range(1, 10))
PROGRAM = """
import ctypes, os, sys, time
import numpy as np
from fastgemm.tune import worker

def make(problem, config):
    if config.mc == 6:
        raise ValueError("not with me")
    def run(a, b, out, times):
        for _ in range(times):
            np.matmul(a, b, out=out)
        if config.mc == 2:
            ctypes.string_at(0)
        if config.mc == 3:
            time.sleep(3600)
        if config.mc == 4:
            out.flat[-1] += np.finfo(out.dtype).eps * 100 * problem.k
        if config.mc == 5:
            out.flat[0] = np.nan
        if config.mc == 7:
            os.write(1, b'{"outcome": "ok", "samples": [1e-9]}\\n')
        if config.mc == 8:
            raise TypeError("no such thing")
        if config.mc == 9:
            os._exit(3)
    return run

worker.main(make)
"""


@pytest.fixture
def runner():
    made = LiveRunner(PROBLEM, program=PROGRAM)
    yield made
    made.close()


def test_a_good_candidate_is_timed(runner):
    (measurement,) = runner.measure([GOOD])
    assert measurement.outcome == "ok"
    assert 0 < measurement.seconds < math.inf


@pytest.mark.parametrize(
    ("config", "outcome", "detail"),
    [
        (CRASHES, "crash", "SIGSEGV"),
        (EXITS, "crash", "exit code 3"),
        (RAISES, "crash", "no such thing"),
        (LIES, "wrong", "off by"),
        (LEAVES_HOLES, "wrong", "off by inf"),
        (REFUSES, "illegal", "not with me"),
    ],
)
def test_a_bad_candidate_costs_its_own_trial_only(runner, config, outcome, detail):
    before, bad, after = runner.measure([GOOD, config, GOOD])
    assert (before.outcome, bad.outcome, after.outcome) == ("ok", outcome, "ok")
    assert bad.seconds == math.inf
    assert detail in bad.detail


def test_a_hang_is_ended():
    runner = LiveRunner(PROBLEM, timeout=0.5, program=PROGRAM)
    try:
        hung, again = runner.measure([HANGS, HANGS])
        assert (hung.outcome, again.outcome) == ("timeout", "timeout")
        assert "0 s" in hung.detail or "1 s" in hung.detail
    finally:
        runner.close()


def test_a_hung_worker_without_a_parent_ends_itself():
    requests = [
        {"op": "problem", "problem": dataclasses.asdict(PROBLEM), "seed": 0},
        {"op": "time", "config": dataclasses.asdict(HANGS), "limit": 1.0, "patience": 0.5},
    ]
    made = subprocess.run(
        command(PROGRAM),
        input="\n".join(map(json.dumps, requests)) + "\n",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert made.returncode != 0
    assert json.loads(made.stdout) == {"outcome": "ok"}


def test_what_a_library_prints_is_no_answer(runner):
    (measurement,) = runner.measure([PRINTS])
    assert measurement.outcome == "ok"
    assert measurement.seconds != 1e-9


def test_a_small_product_is_timed_without_pythons_share():
    """A call of this stand-in takes 50 us and more, whatever it repeats."""
    head = "def run(a, b, out, times):\n"
    slower = PROGRAM.replace(head, head + "        time.sleep(50e-6)\n")
    with contextlib.closing(LiveRunner(PROBLEM, program=slower)) as runner:
        # (The best of some: a machine that is busy at the wrong moment makes a small product look long.)
        measured = [runner.measure([GOOD])[0].seconds for _ in range(5)]
        rounds = [min(runner.rounds([GOOD], 3)[0]) for _ in range(5)]
    assert 0 < min(measured) < 50e-6
    assert 0 < min(rounds) < 50e-6


def test_rounds_pair_the_samples(runner):
    first, none, second = runner.rounds([GOOD, REFUSES, PRINTS], 4)
    assert (len(first), len(none), len(second)) == (4, 0, 4)
    assert runner.rounds([GOOD, LIES], 3)[1] == []
    assert runner.rounds([GOOD, EXITS], 3) == [[], []]
    assert len(runner.rounds([GOOD], 3)[0]) == 3


def stand_in(problem, config):
    """A product whose configuration does not matter."""

    def run(a, b, out, times):
        np.matmul(a, b, out=out)

    return run


def test_what_is_beaten_is_not_timed_for_long(monkeypatch):
    bench = worker.Bench(PROBLEM, 0, stand_in)

    def samples(seconds, best):
        monkeypatch.setattr(worker, "_calibrate", lambda repeat: (1, seconds))
        monkeypatch.setattr(worker, "_sample", lambda repeat, number: seconds)
        return len(bench.time(GOOD, best)["samples"])

    assert samples(1.01 * worker.HOPELESS, 1) == 1
    assert samples(1.01 * worker.BEATEN, 1) == samples(worker.HOPELESS, 1) == worker.MIN_SAMPLES
    assert samples(1.0, math.inf) == worker.MIN_SAMPLES, "a long one"
    assert samples(worker.TRIAL_SECONDS / 10, 1.0) == 10
    assert samples(1e-9, 1.0) == worker.MAX_SAMPLES


def test_rounds_go_forth_and_back(monkeypatch):
    """What the machine does meanwhile happens to the first as to the last."""
    order = []

    def make(problem, config):
        run = stand_in(problem, config)
        return lambda *given: (order.append(config), run(*given))

    bench = worker.Bench(PROBLEM, 0, make)
    for number, each in ((1, 1), (2, 2)):
        monkeypatch.setattr(worker, "_calibrate", lambda repeat, number=number: (number, 1.0))
        order.clear()
        bench.rounds([GOOD, PRINTS], 3)
        turns = [GOOD, PRINTS, PRINTS, GOOD, GOOD, PRINTS]
        # (The first of each is checked; and small products are warmed up each time.)
        assert order == [GOOD, PRINTS, *(config for config in turns for _ in range(each))]


@pytest.mark.parametrize(
    ("takes", "number", "seconds"),
    [
        ([1e-3] * 2, 1, 1e-3),                  # long enough as it is
        ([1e-6] * 9, 500, 1e-6),                # as many as are long enough
        ([1e-3, *[1e-6] * 9], 500, 1e-6),       # the machine was busy the first time
        ([2.0], 1, 2.0),                        # so long that once must do
    ],
)
def test_samples_are_long_enough(monkeypatch, takes, number, seconds):
    takes = iter(takes)
    monkeypatch.setattr(worker, "_sample", lambda repeat, times: next(takes))
    found = worker._calibrate(lambda times: None)
    assert found[0] == pytest.approx(number, abs=1)
    assert found[1] == seconds


def test_numpy_is_timed_in_a_process_of_its_own(runner):
    assert 0 < runner.numpy_seconds() < math.inf


def test_a_worker_that_cannot_start_is_a_crash():
    runner = LiveRunner(PROBLEM, program="import missing")
    (measurement,) = runner.measure([GOOD])
    assert measurement.outcome == "crash"
    assert "No module named 'missing'" in measurement.detail
    assert math.isnan(runner.numpy_seconds())


def test_closing_ends_the_process():
    made = Worker(PROGRAM)
    made.ask({"op": "problem", "problem": dataclasses.asdict(PROBLEM), "seed": 0}, 60)
    made.close()
    assert made._process.returncode is not None


def asked_twice(expression, *flags, cwd=None):
    """What an expression is in a process with these flags, and in a worker that it starts in another folder."""
    ask = f"import json, sys; print(json.dumps({expression}), flush=True)"
    program = (
        "import subprocess, sys, tempfile\n"
        "from fastgemm.tune import live\n"
        f"{ask}\n"
        f"subprocess.run(live.command({ask!r}), check=True, cwd=tempfile.gettempdir())"
    )
    made = subprocess.run(
        [sys.executable, *flags, "-c", program], capture_output=True, text=True, timeout=120, cwd=cwd, env=environment()
    )
    assert made.returncode == 0, made.stderr
    return map(json.loads, made.stdout.splitlines())


def test_a_worker_imports_what_its_parent_would(tmp_path):
    """From the same places in the same order: this package's folder may hold what Python's library has too."""
    parent, child = asked_twice("sys.path", cwd=tmp_path)
    assert parent[0] == ""
    assert child == [str(tmp_path), *parent[1:], str(Path(fastgemm.__file__).parents[1])]


def test_a_worker_has_its_parents_flags():
    parent, child = asked_twice("[sys.flags.safe_path, sys.flags.no_user_site, sys.warnoptions]", "-Ps", "-Wignore")
    assert parent == child == [True, 1, ["ignore"]]


def test_a_worker_starts_where_modules_have_the_names_of_the_library(tmp_path, monkeypatch):
    for name in ("json", "signal", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not that one')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    with contextlib.closing(LiveRunner(PROBLEM)) as runner:
        (measurement,) = runner.measure([Config("numpy")])
    assert measurement.outcome == "ok"


# ---- operands and the check


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["f32", "c128"])
@pytest.mark.parametrize("batch", [1, 3])
def test_operands_have_the_strides_of_the_letters(layout, dtype, batch):
    if layout[1] == PACKED and batch > 1:
        pytest.skip("no stack")
    problem = Problem(dtype, 4, 5, 6, batch, layout)
    for letter, matrix, shape in zip(layout, worker.operands(problem, 0), [(4, 6), (6, 5)], strict=True):
        assert matrix.shape == ((batch, *shape) if batch > 1 else shape)
        assert matrix.dtype == problem.row.numpy
        rows, columns = (step == matrix.itemsize for step in matrix.strides[-2:])
        adjacent = {"n": (False, True), "p": (False, True), "t": (True, False), "g": (False, False)}
        assert adjacent[letter] == (rows, columns)
        assert 0.2 < np.abs(matrix.real).max() <= 1
        assert len(np.unique(matrix)) > 10


def test_operands_repeat_with_the_seed():
    one, same, other = (worker.operands(PROBLEM, seed)[0] for seed in (1, 1, 2))
    assert (one == same).all()
    assert not (one == other).all()


@pytest.mark.parametrize("dtype", ["f32", "f64", "c64", "c128"])
@pytest.mark.parametrize("k", [1, 2, 31, 1000, 50_000])
def test_the_tolerance_lets_rounding_pass_and_little_more(dtype, k):
    problem = Problem(dtype, 3, 17, k)
    bench = worker.Bench(problem, 0, lambda p, c: lambda a, b, out, times: np.matmul(a, b, out=out))
    off, allowed = bench.error(bench.repeat(Config())), worker.tolerance(problem)
    assert off <= allowed
    # A result that lost one product of typical size, or ten bits, is out.
    assert allowed < 0.02 or k > 10_000
    assert allowed < np.abs(bench.reference).max() / 50

    def lossy(a, b, out, times):
        np.matmul(a, b, out=out)
        out -= out * 2.0**-8

    bench = worker.Bench(problem, 0, lambda p, c: lossy)
    assert bench.error(bench.repeat(Config())) > allowed


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_what_is_turned_over_is_held_once(dtype):
    plain, turned, apart = (footprint(Problem(dtype, 50, 40, 30, layout=layout)) for layout in ("nn", "tt", "gg"))
    assert plain == turned < apart


@pytest.mark.parametrize("problem", [Problem("f32", 500, 400, 300), Problem("c128", 50, 40, 30, 4, "gg")])
def test_the_footprint_covers_what_is_held(problem):
    bench = worker.Bench(problem, 0, lambda p, c: None)
    held = sum(x.nbytes if x.base is None else x.base.nbytes for x in (bench.a, bench.b, bench.out, bench.reference))
    assert held <= footprint(problem) <= 10 * held
