"""The tuner without a clock: shapes, space, strategies, budget, final and journal, on replayed timings."""

import csv
import dataclasses
import itertools
import json
import math
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastgemm
from fastgemm import allowed, database, kernels, registry
from fastgemm.driver import _team
from fastgemm.problem import LAYOUTS, PACKED, Config, Problem, Record
from fastgemm.tune import compare, driver, journal, report, shapes, strategies, worker
from fastgemm.tune.driver import Budget, Trials
from fastgemm.tune.measure import Measurement, ReplayRunner
from fastgemm.tune.shapes import Shape, ShapeError
from fastgemm.tune.space import Space

SMALL = Problem("f32", 96, 96, 1500, threads=2)

ARRAYS = [layout for layout in LAYOUTS if layout[1] != PACKED]


def start_for(problem, isa="v3"):
    """A configuration that fits: not a good one."""
    mr, nr = registry.tiles(problem.row, registry.isa(isa))[-1]
    pack = "none" if problem.layout[1] == "n" else "b"
    return Config("gemm", isa, mr, nr, mc=60, kc=256, nc=64, pack=pack, threads=1)


def landscape(config):
    """Milliseconds with one valley: packed B, deep KC, wide NC, two threads over n."""
    if config.family == "gemv" or (config.mr, config.nr, config.pack) == (6, 16, "ab"):
        return "crash"
    cost = 1.0 + 0.2 * abs(math.log2(config.kc / 1024)) + 0.1 * abs(math.log2(config.nc / 128))
    cost += 0.3 * (config.pack != "b") + 0.5 * (config.threads == 1) + 0.1 * (config.split != "n")
    return 1e-3 * (cost + config.mr / 100)


# ---- shapes


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("1x1x1", (1, 1, 1, 1)),
        ("128x3072x768", (128, 3072, 768, 1)),
        ("8X9X10X11", (8, 9, 10, 11)),
    ],
)
def test_shape_is_read(text, shape):
    assert shapes.parse(text) == shape


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "8",
        "8x8",
        "8x8x8x8x8",
        "0x8x8",
        "8x8x8x0",
        "-8x8x8",
        "8.0x8x8",
        "8x8x8 ",
        "axbxc",
        "8x8x" + "9" * 5000,
        "٣x8x8",
    ],
)
def test_bad_shape_is_refused(text):
    with pytest.raises(ShapeError, match="shape"):
        shapes.parse(text)


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 10**4))
def test_label_is_what_parse_reads(m, n, k, batch):
    assert shapes.parse(shapes.label(Problem("f64", m, n, k, batch))) == (m, n, k, batch)


def test_a_shape_too_large_for_the_kernels_names_its_place():
    with pytest.raises(ShapeError, match="command line"):
        shapes.product([Shape(10**13, 1, 1)], ["f32"], [1])


@pytest.mark.parametrize("row", registry.DTYPES, ids=lambda row: row.name)
def test_every_dtype_has_a_name_that_is_read(row):
    assert shapes.type_named(shapes.type_label(row.name)) == row.name
    assert shapes.type_named(row.name) == row.name


def test_a_dtype_that_is_none_is_refused_with_a_list():
    with pytest.raises(ValueError, match=r"no kernels for dtype 'int8:float32'; there are .* int8:int32") as caught:
        shapes.type_named("int8:float32")
    listed = str(caught.value).partition("kernels for float32")[2].split(", ")
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize("layout", ARRAYS)
def test_transposing_twice_changes_nothing(layout):
    problem = Problem("c64", 3, 4, 5, 6, layout, 2)
    assert shapes.transposed(shapes.transposed(problem)) == problem


def test_one_column_of_output_becomes_one_row():
    assert shapes.normalised(Problem("f32", 100, 1, 50, layout="nt")) == Problem("f32", 1, 100, 50, layout="nt")
    assert shapes.normalised(Problem("f32", 1, 1, 50)) == Problem("f32", 1, 1, 50)


@pytest.mark.parametrize("layout", ARRAYS)
@pytest.mark.parametrize("shape", [(100, 1, 50), (1, 100, 50), (1, 1, 50), (100, 50, 1), (1, 7, 1), (6, 7, 8)])
@pytest.mark.parametrize("batch", [1, 3])
def test_a_tuned_problem_is_the_one_that_calls_look_up(shape, layout, batch):
    threads = 2 if _team.openmp else 1
    made = shapes.normalised(Problem("f32", *shape, batch=batch, layout=layout, threads=threads))
    a, b = worker.operands(made, 0)
    assert fastgemm.explain(a, b, num_threads=2).problem == made


def csv_of(tmp_path, text):
    path = tmp_path / "shapes.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_csv_with_every_column(tmp_path):
    path = csv_of(
        tmp_path,
        "name,M,N,K,batch,transA,transB,dtype,layout,cls\n"
        "a,8,9,10,,,,,,general\n"
        "b,8,9,10,4,0,1,float64,row,\n"
        "c,8,9,10,1,0,0,float32,col,\n"
        "d,8,9,10,1,0,0,complex64,gt,\n"
        '"e, twice",8,9,10,1,1,0,float32/64,row,\n'
        "f,8,9,10,1,0,0,int4,row,\n"
        "a again,8,9,10,1,0,0,,,\n",
    )
    problems, left_out = shapes.from_csv(path, [], [1, 2])
    expected = [
        Problem("f32", 8, 9, 10),
        Problem("f64", 8, 9, 10, 4, "nt"),
        Problem("f32", 9, 8, 10),
        Problem("c64", 8, 9, 10, 1, "gt"),
        Problem("f32", 8, 9, 10, 1, "tn"),
        Problem("f64", 8, 9, 10, 1, "tn"),
    ]
    assert problems == [dataclasses.replace(p, threads=t) for p in expected for t in (1, 2)]
    assert len(left_out) == 1
    assert "int4" in left_out[0]
    assert "line 7" in left_out[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no column M, N, K"),
        ("M,N\n1,2\n", "no column K"),
        ("M,N,K\n1,2,\n", "line 2: K is ''"),
        ("M,N,K\n1,2\n", "line 2: K is ''"),
        ("M,N,K\n1,2,3\n1,2,-3\n", "line 3: K is '-3'"),
        ("M,N,K\n1,2,3.5\n", "line 2: K is '3.5'"),
        ("M,N,K,batch\n1,2,3,0\n", "line 2: BATCH is '0'"),
        ("M,N,K,transA\n1,2,3,maybe\n", "line 2: transa is 'maybe'"),
        ("M,N,K,layout\n1,2,3,zz\n", "line 2: layout is 'zz'"),
        ("M,N,K,layout\n1,2,3,pn\n", r"line 2: layout is 'pn'; it must be .* \(B's also p\)"),
        ("M,N,K\n9999999999999,2,3\n", "line 2: m must be between"),
        ('M,N,K\n1,2,"3', "not a CSV file"),
    ],
)
def test_bad_csv_names_the_line(tmp_path, text, reason):
    with pytest.raises(ShapeError, match=reason):
        shapes.from_csv(csv_of(tmp_path, text), [], [1])


@pytest.mark.parametrize("path", sorted(Path(__file__).parents[1].glob("bench/shapes/*.csv")), ids=lambda p: p.name)
def test_the_shipped_lists_are_read(path):
    problems, left_out = shapes.from_csv(path, [], [1])
    with path.open(newline="") as file:
        rows = [{name.lower(): cell for name, cell in row.items()} for row in csv.DictReader(file)]
    # Every row's sizes, whichever of the two products of a column-major one they are read as.
    written = {(*sorted((row["m"], row["n"]), key=int), row["k"]) for row in rows}
    read = {(*map(str, sorted((problem.m, problem.n))), str(problem.k)) for problem in problems}
    assert read == written
    assert all("no kernels for dtype" in line for line in left_out)


def test_csv_that_is_no_text_or_not_there(tmp_path):
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00M,N,K\n")
    for path in (binary, tmp_path, tmp_path / "missing.csv"):
        with pytest.raises(ShapeError, match=path.name):
            shapes.from_csv(path, [], [1])


def test_log_keeps_the_good_lines(tmp_path):
    good = Problem("f32", 1, 20, 30, 4, "nt", 2)
    lines = [
        json.dumps(dataclasses.asdict(good)),
        json.dumps({**dataclasses.asdict(good), "calls": 7, "more": 7}),
        json.dumps({**dataclasses.asdict(good), "calls": 0}),
        json.dumps({**dataclasses.asdict(good), "calls": True}),
        json.dumps({**dataclasses.asdict(good), "calls": 10**400}),
        '{"dtype": "f64", "m": 1, "n": 2, "k": 3}',
        '{"dtype": "f64", "m": 1, "n": 2}',
        '{"dtype": "int4", "m": 1, "n": 2, "k": 3}',
        '{"dtype": "f64", "m": true, "n": 2, "k": 3}',
        '{"dtype": "f64", "m": 1e3, "n": 2, "k": 3}',
        '{"dtype": ["f64"], "m": 1, "n": 2, "k": 3}',
        '{"dtype": "f64", "m": 1, "n": 2, "k": 3, "layout": ["n", "n"]}',
        "[1, 2, 3]",
        "[" * 100_000,
        '{"dtype": "f64", "m": 1, "n":',
        "",
    ]
    path = tmp_path / "untuned.jsonl"
    path.write_text("\n".join(lines))
    problems, left_out = shapes.from_log(path)
    assert list(problems.items()) == [(good, 8), (Problem("f64", 1, 2, 3), 1)]
    assert len(left_out) == 12


def test_a_dtype_of_a_log_may_have_numpys_name(tmp_path):
    path = tmp_path / "untuned.jsonl"
    path.write_text("".join(f'{{"dtype": "{name}", "m": 1, "n": 2, "k": 3}}\n' for name in ("float32", "f32")))
    assert shapes.from_log(path) == ({Problem("f32", 1, 2, 3): 2}, [])


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no such file here")
def test_what_says_no_size_is_bounded(monkeypatch):
    """A pipe or a device may hold more than the size of its file, which is 0."""
    monkeypatch.setattr(shapes, "MAX_FILE", 100)
    for read in (shapes.from_log, lambda path: shapes.from_csv(path, [], [1])):
        with pytest.raises(ShapeError, match="/proc/self/maps: larger than"):
            read(Path("/proc/self/maps"))


def test_the_hottest_shapes_of_a_log_come_first(tmp_path):
    """What takes the most time in all: many small products before one larger one."""
    path = tmp_path / "untuned.jsonl"
    calls = {Problem("f32", 64, 64, 64): 9, Problem("f32", 96, 64, 64): 1, Problem("f32", 512, 512, 512): 3}
    calls[Problem("f64", 8, 8, 8)] = 100_000
    path.write_text("".join(json.dumps({**dataclasses.asdict(p), "calls": n}) + "\n" for p, n in calls.items()))
    assert [p.m for p in shapes.from_log(path)[0]] == [8, 512, 64, 96]


# ---- space

PROBLEMS = [
    Problem("f32", 1024, 1024, 1024, threads=2),
    Problem("f64", 13, 512, 256, threads=4),
    Problem("c128", 5, 7, 9, batch=3, threads=2),
    Problem("f32", 1, 4096, 4096, layout="nt", threads=2),
    Problem("c64", 64, 64, 2000, layout="tg"),
    Problem("f32", 7, 1, 3, batch=20, layout="gg", threads=3),
]
SPACES = [(problem, isa.name) for problem in PROBLEMS for isa in registry.ISAS]


@pytest.mark.parametrize(("problem", "isa"), SPACES)
def test_space_is_legal_and_counts_nothing_twice(problem, isa):
    space = Space(problem, start_for(problem, isa))
    configs = list(space.all())
    assert configs[0] == space.start
    assert len(set(configs)) == len(configs) == len(space)
    for config in configs:
        assert config.misfit(problem) is None
        assert space.decode(space.encode(config)) == config
    rng = random.Random(1)
    assert all(space.sample(rng) in space for _ in range(100))


@pytest.mark.parametrize(("problem", "isa"), SPACES)
def test_neighbours_are_legal_symmetric_and_lead_everywhere(problem, isa):
    space = Space(problem, start_for(problem, isa))
    near = {}
    for config in space.all():
        others = space.neighbours(config)
        near[config] = set(others)
        assert len(near[config]) == len(others)
    for config, others in near.items():
        assert config not in others
        for other in others:
            assert config in near[other]
    reached, frontier = {space.start}, {space.start}
    while frontier:
        frontier = {other for config in frontier for other in near[config]} - reached
        reached |= frontier
    assert len(reached) == len(space)


def test_the_space_follows_the_registry():
    problem = Problem("f32", 500, 500, 500, threads=2)
    configs = list(Space(problem, start_for(problem, "v4")).all())
    of_tier = {(c.mr, c.nr) for c in configs if c.isa == "v4"}
    assert of_tier == set(registry.tiles(problem.row, registry.isa("v4")))
    assert {c.pack for c in configs} == set(registry.PACKS)
    assert {(c.threads, c.split) for c in configs} == {(1, "n"), (2, "n"), (2, "m"), (2, "k")}


def test_the_tier_of_half_the_vectors_is_searched_where_calls_may_use_it(monkeypatch):
    """Few columns are faster by AVX2's dot products on CPUs of halved vectors: a search has to be able to find them."""
    problem = Problem("f32", 4000, 2, 800)

    def tiers(half, active="v4"):
        monkeypatch.setattr(kernels, "half_isa", lambda: half and registry.isa(half))
        monkeypatch.setattr(kernels, "active_isa", lambda: registry.isa(active))
        monkeypatch.setattr(kernels, "has", lambda family, isa: family in ("gemm", "gemv", "small", "dots"))
        configs = list(Space(problem, start_for(problem, "v4")).all())
        assert all(config.misfit(problem) is None for config in configs)
        return {(config.family, config.isa) for config in configs}

    assert {isa for _, isa in tiers(None)} == {"v4"}
    assert {isa for _, isa in tiers("v3")} == {"v3", "v4"}
    assert {("dots", "v3"), ("small", "v3")} <= tiers("v3")
    assert ("gemm", "v3") not in tiers("v3"), "twice the space for nothing"
    # A start of a tier that calls do not use (`--isa`) is compared with its own alone.
    assert {isa for _, isa in tiers("v2", "v3")} == {"v4"}


def test_families_are_those_that_run_here(monkeypatch):
    def families(asked, runs):
        monkeypatch.setattr(allowed, "asked_of_f32", lambda: asked)
        monkeypatch.setattr(kernels, "has", lambda family, isa: runs(family))
        monkeypatch.setattr(kernels, "half_isa", lambda: None)
        problem = Problem("f32", 500, 500, 500)
        return {config.family for config in Space(problem, start_for(problem, "v4")).all()}

    assert families("", lambda family: True) == {"gemm", "small", "amx_f32"}
    assert families("vectors", lambda family: True) == {"gemm", "small"}
    assert families("", lambda family: family == "gemm") == {"gemm"}


def test_blocks_of_equal_effect_are_one():
    problem = Problem("f32", 48, 48, 200)
    blocks = {(c.mc, c.kc, c.nc) for c in Space(problem, start_for(problem)).all()}
    assert blocks == {(60, 256, 64)}
    # 1500 steps are two balanced blocks for 1024 as for 750, and the start's value stands for both.
    start = start_for(SMALL).replace(kc=750)
    assert {c.kc for c in Space(SMALL, start).all()} == {256, 512, 750, 2048}


def test_no_more_threads_than_pieces_of_work():
    problem = Problem("f32", 3, 8, 100_000, threads=64)
    shared = {(c.threads, c.split) for c in Space(problem, start_for(problem)).all() if c.threads > 1}
    assert max(threads for threads, split in shared if split == "m") == 2
    assert {split for _, split in shared} == {"m", "k"}
    pair = Problem("f32", 2, 8, 100_000, threads=2)
    assert (2, "m") in {(c.threads, c.split) for c in Space(pair, start_for(pair)).all()}, "a row for each"
    # But the heuristic's own team is in the space whatever it has to do.
    start = start_for(pair).replace(threads=2, split="n")
    assert start in Space(pair, start)


def test_no_team_for_what_takes_microseconds():
    small, large = Problem("f32", 1, 64, 1216, threads=2), Problem("f32", 128, 128, 128, threads=2)
    teams = [{config.threads for config in Space(p, Config("gemm", "v3", 6, 16)).all()} for p in (small, large)]
    assert teams == [{1}, {1, 2}]


def test_families_without_panels_pack_what_they_must():
    """One point of each kernel: B as it lies, or copied where its rows do not lie along a vector."""
    for problem, packs in (
        (Problem("f32", 32, 32, 32), {("small", "none")}),
        (Problem("f32", 32, 32, 32, layout="nt"), {("small", "b"), ("dots", "none")}),
        (Problem("f32", 32, 1, 32, layout="nt"), {("small", "none"), ("dots", "none")}),
        (Problem("f32", 1, 900, 700, layout="nt"), {("small", "b"), ("dots", "none"), ("gemv", "none")}),
    ):
        configs = [c for c in Space(problem, start_for(problem)).all() if c.family != "gemm"]
        assert {(c.family, c.pack) for c in configs} == packs
        assert len({(c.family, c.isa, c.mr, c.nr) for c in configs}) == len(configs)


def test_one_thread_shares_nothing():
    problem = Problem("f32", 300, 300, 300, threads=2)
    start = start_for(problem)
    assert Space(problem, start.replace(split="m")).start == start
    shared = start.replace(split="m", threads=2)
    assert Space(problem, shared).start == shared


def test_a_start_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="tile"):
        Space(SMALL, Config("gemm", "v3", 7, 7))
    with pytest.raises(ValueError, match="kernel"):
        Space(SMALL, Config("numpy"))


# ---- strategies, all that the folder has


def run(strategy, budget, table=landscape, problem=SMALL, seed=0):
    space = Space(problem, start_for(problem))
    trials = Trials(ReplayRunner(table))
    trials.costs([space.start])
    driver.search(space, strategy, trials, budget, random.Random(seed))
    return space, trials


@pytest.fixture(params=strategies.names())
def strategy(request):
    if request.param in ("xgb",):
        pytest.importorskip("xgboost")
    return strategies.load(request.param)


def test_strategy_stays_in_the_space_and_the_budget(strategy):
    space, trials = run(strategy, Budget(30))
    assert len(trials.runner.measured) == len(trials.results) == 31
    assert trials.runner.measured[0] == space.start
    assert all(config in space for config in trials.results)


def test_strategy_finds_better_than_the_start(strategy):
    space, trials = run(strategy, Budget(100))
    assert trials.results[trials.ranking()[0]].seconds < landscape(space.start)


def test_strategy_repeats_itself_with_the_same_seed(strategy):
    assert run(strategy, Budget(25), seed=3)[1].runner.measured == run(strategy, Budget(25), seed=3)[1].runner.measured


def test_strategy_survives_when_all_else_fails(strategy):
    start = start_for(SMALL)
    outcomes = itertools.cycle(["crash", "timeout", "wrong", "illegal"])
    _, trials = run(strategy, Budget(40), lambda c: 1e-3 if c == start else next(outcomes))
    assert trials.ranking() == [start]


def test_strategy_ends_in_a_space_smaller_than_its_budget(strategy):
    problem = Problem("f32", 4, 8, 8)
    space, trials = run(strategy, Budget(10_000), lambda c: 1e-6 * (c.mr + 1), problem)
    assert len(trials.results) <= len(space) < 20


def test_strategy_ends_at_the_deadline(strategy):
    ticks = itertools.count()
    _, trials = run(strategy, Budget(None, deadline=50, clock=lambda: next(ticks)))
    assert 1 <= len(trials.results) < 51


def test_strategy_is_documented(strategy):
    assert strategies.summary(strategy.name)
    assert strategy.trials is None or strategy.trials > 0


def test_unknown_strategy_is_refused():
    with pytest.raises(ValueError, match="tpe"):
        strategies.load("__init__")


def test_a_strategy_that_repeats_itself_is_ended():
    def search(space, rng):
        while True:
            yield [space.start]

    _, trials = run(strategies.Strategy("stubborn", search, None), Budget(10))
    assert len(trials.results) == 1


def test_known_configurations_cost_nothing():
    asked = []

    def search(space, rng):
        configs = list(space.all())[:3]
        asked.append((yield configs))
        asked.append((yield configs))

    space, trials = run(strategies.Strategy("twice", search, None), Budget(10))
    assert asked[0] == asked[1] == [trials.results[c].seconds for c in list(space.all())[:3]]
    assert len(trials.runner.measured) == 3


# ---- measurements


def test_measurement_says_what_happened():
    with pytest.raises(ValueError, match="outcome"):
        Measurement(Config(), "lost")
    for outcome, seconds in (("ok", math.inf), ("ok", math.nan), ("ok", 0.0), ("crash", 1.0)):
        with pytest.raises(ValueError, match="seconds"):
            Measurement(Config(), outcome, seconds)


def test_replay_answers_from_timings():
    slow, fast = Config(mr=4, nr=24), Config(mr=6, nr=16)
    runner = ReplayRunner({slow: [3.0, 2.0, 4.0], fast: 1.0}, numpy_seconds=5.0)
    assert [m.seconds for m in runner.measure([slow, fast])] == [3.0, 1.0]
    assert runner.rounds([slow, fast, Config()], 4) == [[3.0, 2.0, 4.0, 3.0], [1.0] * 4, []]
    assert runner.numpy_seconds() == 5.0


# ---- final

BASE = [1.00, 1.02, 0.99, 1.01, 1.00, 1.03, 0.98]


@pytest.mark.parametrize(
    ("candidate", "confirmed"),
    [
        ([0.90 * s for s in BASE], True),
        ([0.98 * s for s in BASE], False),  # certain, but too small
        ([0.5, 1.3, 0.6, 1.2, 0.7, 1.4, 0.9], False),  # large, but not certain
        (BASE, False),
        ([1.1 * s for s in BASE], False),
    ],
)
def test_a_gain_must_be_certain_and_large(candidate, confirmed):
    assert compare.judge(Config(), candidate, BASE).confirmed is confirmed


def test_a_plan_that_something_else_slows_down_keeps_its_place():
    # Most rounds share the cores with another program; one shows what the baseline can do.
    baseline = [6.0, 6.1, 1.0, 6.0, 6.2, 5.9, 6.1, 6.0, 6.0]
    verdict = compare.judge(Config(), [3.0] * 9, baseline)
    assert verdict.p < compare.P_VALUE
    assert verdict.gain > 0.9
    assert not verdict.confirmed


def test_a_gain_of_pairs_that_the_medians_deny_is_none():
    # The machine's pace changed in the middle: nearly every pair gains, and yet the record would show a loss.
    baseline = [1.00] * 4 + [1.05] + [2.2] * 4
    candidate = [0.95] * 4 + [1.10] + [2.0] * 4
    verdict = compare.judge(Config(), candidate, baseline)
    assert verdict.p < compare.P_VALUE
    assert verdict.gain >= compare.GAIN
    assert verdict.best_gain > 0
    assert verdict.seconds > verdict.baseline_seconds
    assert not verdict.confirmed


def test_a_noisy_machine_is_told_from_a_quiet_one():
    assert not compare.judge(Config(), BASE, BASE).noisy
    loud = [1.0, 1.6, 0.8, 1.7, 0.9, 1.5, 1.1]
    assert compare.judge(Config(), loud, loud).noisy


def test_the_final_judges_the_best_of_the_finalists():
    base, lucky, best = Config(mc=60), Config(mc=120), Config(mc=240)
    runner = ReplayRunner({base: 1.0, lucky: 0.95, best: 0.8})
    verdict = compare.final(runner, [lucky, base, best], base)
    assert (verdict.config, verdict.confirmed) == (best, True)
    assert verdict.gain == pytest.approx(0.25)
    assert verdict.baseline_seconds == 1.0


def test_the_final_goes_on_without_a_finalist_that_fails():
    base, broken, good = Config(mc=60), Config(mc=120), Config(mc=240)
    verdict = compare.final(ReplayRunner({base: 1.0, good: 0.9, broken: "crash"}), [broken, good, base], base)
    assert verdict.config == good


class SecondProcess(ReplayRunner):
    """Answers from another table once it was closed, as a new process may."""

    def __init__(self, first, second):
        super().__init__(first)
        self._then = second

    def close(self):
        self._look_up = lambda config: self._then.get(config, "crash")


@pytest.mark.parametrize(
    ("second", "gain"),
    [
        ({"base": 1.0, "good": 0.8}, 0.25),
        ({"base": 1.0, "good": 0.5}, 0.25),
        ({"base": 1.0, "good": 0.9}, 0.9**-1 - 1),
        ({}, None),
    ],
)
def test_a_gain_must_hold_in_a_second_process(second, gain):
    """And the poorer of both is what is recorded."""
    known = {"base": Config(mc=60), "good": Config(mc=120)}
    first = {known["base"]: 1.0, known["good"]: 0.8}
    runner = SecondProcess(first, {known[name]: seconds for name, seconds in second.items()})
    verdict = compare.final(runner, [known["good"]], known["base"])
    assert gain is None if verdict is None else verdict.confirmed and verdict.gain == pytest.approx(gain)


def test_a_gain_of_one_process_alone_is_none():
    base, good = Config(mc=60), Config(mc=120)
    verdict = compare.final(SecondProcess({base: 1.0, good: 0.5}, {base: 1.0, good: 1.03}), [good], base)
    assert not verdict.confirmed
    assert verdict.gain < 0


def test_no_final_without_the_heuristic():
    base, good = Config(mc=60), Config(mc=240)
    assert compare.final(ReplayRunner({good: 0.9, base: "timeout"}), [good], base) is None


# ---- one problem, from start to record


def tuned(table, name="random", trials=None, known=None):
    runner = ReplayRunner(table, numpy_seconds=3e-3)
    space = Space(SMALL, start_for(SMALL))
    return driver.tune(space, runner, strategies.load(name), Budget(trials), known=known)


def test_a_gain_becomes_a_record(tmp_path):
    path = tmp_path / "new" / "tuning.json"
    entry = driver.store(tuned(landscape), path, "a cpu", "a build")
    assert entry.status == "confirmed"
    assert entry.after_seconds == entry.seconds == landscape(entry.config) < entry.baseline_seconds
    assert entry.failures > 0
    records, problems = database.read(path, cpu="a cpu", kernels="a build")
    assert problems == []
    (record,) = records
    assert (record.problem, record.config, record.seconds) == (SMALL, entry.config, entry.seconds)
    assert (record.trials, record.strategy) == (entry.trials, "random")


def test_no_gain_leaves_no_record(tmp_path):
    path = tmp_path / "tuning.json"
    entry = driver.store(tuned(lambda config: 1e-3, trials=10), path, "a cpu", "a build")
    assert (entry.status, entry.trials) == ("rejected", 11)
    assert entry.after_seconds == entry.baseline_seconds == 1e-3
    assert not path.exists()


def lucky(path, config):
    """Put a record of a gain that never was into a database."""
    record = Record(SMALL, config, 1e-4, 1e-3, 9, "random", "2026-01-01", "a build")
    database.write(path, [record], cpu="a cpu")
    return driver.recorded(path, "a cpu", "a build")[SMALL]


def test_tuning_again_replaces_a_lucky_record(tmp_path):
    path = tmp_path / "tuning.json"
    slow = next(c for c in Space(SMALL, start_for(SMALL)).all() if c.pack == "ab" and landscape(c) != "crash")
    known = lucky(path, slow)
    entry = driver.store(tuned(landscape, known=known), path, "a cpu", "a build", known)
    (record,) = driver.recorded(path, "a cpu", "a build").values()
    assert record.config == entry.config != known.config
    assert record.gain < known.gain


def test_a_record_that_does_not_hold_is_taken_out(tmp_path):
    path = tmp_path / "tuning.json"
    known = lucky(path, list(Space(SMALL, start_for(SMALL)).all())[-1])
    entry = driver.store(tuned(lambda config: 1e-3, trials=3, known=known), path, "a cpu", "a build", known)
    assert entry.status == "rejected"
    assert driver.recorded(path, "a cpu", "a build") == {}


def test_the_known_configuration_is_in_the_final_whatever_its_single_timing(tmp_path):
    """A record is not lost because other candidates had luckier single timings."""
    space = Space(SMALL, start_for(SMALL))
    known = lucky(tmp_path / "tuning.json", list(space.all())[-1])

    class Lucky(ReplayRunner):
        def measure(self, configs):
            return [Measurement(c, "ok", 1e-3 if c in (space.start, known.config) else 1e-4) for c in configs]

    runner = Lucky(lambda config: 5e-4 if config == known.config else 1e-3)
    entry = driver.tune(space, runner, strategies.load("random"), Budget(10), known=known)
    assert (entry.status, entry.config) == ("confirmed", known.config)


def test_the_heuristic_is_measured_first_and_its_failure_ends_the_problem():
    entry = tuned(lambda config: "wrong")
    assert (entry.status, entry.trials) == ("failed", 1)
    assert "wrong" in entry.detail


def test_resume_skips_what_was_judged(tmp_path):
    path = tmp_path / "tuning.json"
    driver.store(tuned(landscape), path, "a cpu", "a build")
    rejected = dataclasses.replace(tuned(lambda c: 1e-3, trials=3), problem=dataclasses.replace(SMALL, m=97))
    driver.store(rejected, path, "a cpu", "a build")
    failed = dataclasses.replace(tuned(lambda c: "crash"), problem=dataclasses.replace(SMALL, m=98))
    driver.store(failed, path, "a cpu", "a build")
    done, left_out = driver.finished(path, "a cpu", "a build")
    assert sorted(p.m for p in done) == [96, 97]
    assert left_out == []
    assert driver.finished(path, "another cpu", "a build") == ({}, [])
    assert driver.finished(path, "a cpu", "another build") == ({}, [])
    path.unlink()  # a record that is gone has to be found again
    assert [p.m for p in driver.finished(path, "a cpu", "a build")[0]] == [97]


# ---- journal


def test_journal_gives_back_what_was_written(tmp_path):
    path = tmp_path / "tuning.log.jsonl"
    entries = [tuned(landscape), tuned(lambda c: "crash")]
    for entry in entries:
        journal.append(path, entry)
    read, left_out = journal.read(path)
    assert left_out == []
    assert read[0] == entries[0]
    assert read[1].status == "failed"
    assert math.isnan(read[1].seconds)


@pytest.mark.parametrize(
    "damage",
    [
        "{",
        "[]",
        "null",
        '"text"',
        "[" * 100_000,
        {"schema": 2},
        {"status": "splendid"},
        {"status": ["confirmed"]},
        {"problem": None},
        {"problem": {"dtype": "f32", "m": -1, "n": 1, "k": 1}},
        {"config": {"family": "gemm", "surprise": 1}},
        {"config": {"mr": 7, "nr": 7}},
        {"seconds": "fast"},
        {"seconds": 10**400},
        {"seconds": 0, "baseline_seconds": 0},
        {"seconds": -1},
        {"seconds": math.nan},
        {"baseline_seconds": math.inf},
        {"numpy_seconds": 1e-300},
        {"p": 2},
        {"gain": -3.0},
        {"spread": True},
        {"trials": 1.5},
        {"failures": -1},
        {"detail": 5},
    ],
)
def test_a_damaged_line_costs_itself_only(tmp_path, damage):
    path = tmp_path / "tuning.log.jsonl"
    entry = tuned(landscape)
    journal.append(path, entry)
    good = json.loads(path.read_text())
    with open(path, "a", encoding="utf-8") as file:
        file.write(damage if isinstance(damage, str) else json.dumps({**good, **damage}) + "\n")
    journal.append(path, entry)
    read, left_out = journal.read(path)
    assert len(read) == 2
    assert len(left_out) == 1
    assert "line 2" in left_out[0]


def test_a_journal_that_is_a_folder_is_reported(tmp_path):
    read, left_out = journal.read(tmp_path)
    assert read == []
    assert len(left_out) == 1


# ---- report


def test_report_counts_and_means():
    entries = [tuned(landscape), tuned(lambda c: 1e-3, trials=5), tuned(lambda c: "crash")]
    lines = "\n".join(report.summary(entries))
    gain = entries[0].baseline_seconds / entries[0].seconds
    assert f"before/after {math.sqrt(gain):.2f}" in lines
    assert "1 gains confirmed and recorded, 1 without" in lines
    assert "crash" in lines
    assert report.table(entries).row_count == 3
    noisy = [dataclasses.replace(entries[1], spread=0.5)]
    assert "noisy" in report.summary(noisy)[-1]
