"""Kernels for single shapes: right answers, what is refused, and what the option says where it cannot work."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import numpy as np
import pytest
from conftest import Child

import fastgemm
from fastgemm import database, dispatch, kernels, registry, special, special_shapes
from fastgemm.heuristic import rules
from fastgemm.plan import Plan
from fastgemm.problem import Config, Problem, Record
from fastgemm.special_shapes import Special
from fastgemm.tune import compile as building
from fastgemm.tune import specialise
from fastgemm.tune.__main__ import main
from fastgemm.tune.measure import ReplayRunner

TIER = kernels.active_isa()
if TIER is None:
    pytest.skip("no kernels run here", allow_module_level=True)
try:
    building.compiler()
except building.Unavailable as reason:
    pytest.skip(str(reason), allow_module_level=True)

# Every dtype, both orders of A, one tile and several, full and partial vectors of one length (16 bytes).
SHAPES = (
    Special("f32", 4, 4, 4),
    Special("f32", 5, 3, 7, "t"),
    Special("f32", 33, 4, 1),
    Special("f64", 6, 2, 9),
    Special("c64", 7, 2, 5, "t"),
    Special("c128", 3, 1, 6),
)
LONGER = (Special("f32", 9, 21, 5), Special("f64", 20, 13, 8, "t"), Special("c64", 5, 11, 6), Special("c128", 30, 5, 4))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FASTGEMM_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def name(cache: Path) -> str:
    assert TIER is not None
    return building.make(SHAPES, TIER.name)


def problem_of(shape: Special, batch: int = 1, threads: int = 1) -> Problem:
    return Problem(shape.dtype, shape.m, shape.n, shape.k, batch, shape.a + "n", threads)


def operands(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Small whole numbers, so that every order of a sum has one result."""
    rng = np.random.default_rng(problem.m)
    shape = (problem.batch,) if problem.batch > 1 else ()

    def numbers(rows: int, columns: int) -> np.ndarray:
        values = rng.integers(-9, 9, (*shape, rows, columns)).astype(problem.row.numpy)
        return values * (1 + 2j) if problem.row.parts == 2 else values

    a = numbers(problem.m, problem.k)
    if problem.layout[0] == "t":
        a = np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2)
    return a.astype(problem.row.numpy, copy=False), numbers(problem.k, problem.n).astype(problem.row.numpy, copy=False)


def plan_of(problem: Problem, name: str) -> Plan:
    return Plan(problem, specialise.single(rules.config(problem)).replace(special=name))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("batch", [1, 5])
def test_right_answers(shape: Special, batch: int, name: str) -> None:
    if shape.n == 1 and shape.m > 1:
        pytest.skip("such calls look up the transposed problem")
    problem = problem_of(shape, batch)
    plan = plan_of(problem, name)
    assert plan.facts["special"]
    a, b = operands(problem)
    assert np.array_equal(plan.run(a, b), np.matmul(a, b))


@pytest.mark.parametrize("isa", [tier.name for tier in kernels.runnable()])
def test_every_tier_and_longer_vectors(isa: str, cache: Path) -> None:
    tier = registry.isa(isa)
    lengths = {shape.vector_bytes(tier) for shape in LONGER}
    for length in lengths:
        shapes = [shape for shape in LONGER if shape.vector_bytes(tier) == length]
        made = building.make(shapes, isa)
        for shape in shapes:
            problem = problem_of(shape)
            start = rules.config(problem, tier)
            plan = Plan(problem, specialise.single(start).replace(special=made))
            assert plan.facts["special"]
            a, b = operands(problem)
            assert np.array_equal(plan.run(a, b), np.matmul(a, b))


@pytest.mark.parametrize("isa", [tier.name for tier in kernels.runnable()])
def test_rows_that_share_a_vector(isa: str, cache: Path) -> None:
    tier = registry.isa(isa)
    sizes = [(m, n, k) for m in (1, 4, 19) for n in (2, 3, 4, 7) for k in (1, 3, 9)]
    shapes = [Special(dt.name, *size) for dt in filter(registry.is_special, registry.DTYPES) for size in sizes]
    shapes = [shape for shape in shapes if shape.narrow(tier)][::2]
    assert shapes
    made = building.make(shapes, isa, narrow=True)
    for at, shape in enumerate(shapes):
        problem = problem_of(shape, 1 + at % 3)
        plan = Plan(problem, specialise.single(rules.config(problem, tier)).replace(special=made))
        assert plan.facts["special"]
        a, b = operands(problem)
        assert np.array_equal(plan.run(a, b), np.matmul(a, b)), shape


def test_a_stack_over_threads(name: str) -> None:
    problem = problem_of(SHAPES[0], batch=3000, threads=2)
    config = rules.config(problem).replace(threads=2, split="batch", special=name)
    plan = Plan(problem, config)
    assert plan.facts["special"]
    a, b = operands(problem)
    assert np.array_equal(plan.run(a, b), np.matmul(a, b))


def test_tiles_cover_each_output_once() -> None:
    for tier in registry.ISAS:
        for dt in filter(registry.is_special, registry.DTYPES):
            for m, n in ((1, 1), (7, 5), (31, 17), (48, 48)):
                shape = Special(dt.name, m, n, 3)
                own = tier._replace(vector_bytes=shape.vector_bytes(tier))
                length = own.vector_bytes // dt.real_bytes
                seen = np.zeros((m, n * dt.parts), int)
                for rows, vectors, row, column, tail in shape.tiles(own):
                    assert rows * vectors * dt.parts + vectors < tier.registers
                    seen[row : row + rows, column : column + (vectors - 1) * length + tail] += 1
                assert (seen == 1).all()


# ---- what its constants do not fit is computed without it


def test_other_strides_and_scalars(name: str, database_path: Path) -> None:
    remember(SHAPES[0], name, database_path)
    a, b = operands(problem_of(SHAPES[0]))
    wide = np.zeros((4, 11), "f4")
    wide[:, 2:6] = b
    out = np.full((4, 9), 7, "f4")
    fastgemm.matmul(a, wide[:, 2:6], out=out[:, 1:5])
    assert np.array_equal(out[:, 1:5], a @ b)
    assert (out[:, 0] == 7).all()
    assert (out[:, 5:] == 7).all()
    c = np.ones((4, 4), "f4")
    assert np.array_equal(fastgemm.gemm(a, b, c, alpha=2.0, beta=3.0), 2 * (a @ b) + 3)
    assert np.array_equal(fastgemm.matmul(a, b), a @ b)
    assert "a kernel of its own" in repr(fastgemm.explain(a, b, num_threads=1))


def test_a_plan_of_another_shape_is_not_given_the_kernel(name: str) -> None:
    problem = Problem("f32", 5, 7, 5)
    assert not plan_of(problem, name).facts["special"]
    entry = special.find(name, problem_of(SHAPES[0]))
    assert entry is not None
    with pytest.raises(ValueError, match="4 x 4 x 4"):
        Plan(problem, rules.config(problem)).specialise(entry.capsule, entry.at, entry.module)


def test_threads_that_share_a_product_do_not_fit() -> None:
    problem = Problem("f32", 64, 64, 64, threads=2)
    config = rules.config(problem).replace(threads=2, split="n", special="0" * 32)
    assert "whole products" in (config.misfit(problem) or "")


@pytest.mark.parametrize("bad", ["../../etc/passwd", "0" * 31, "0" * 33, "G" * 32, "A" * 32])
def test_a_name_is_a_hash(bad: str) -> None:
    with pytest.raises(ValueError, match="32 hexadecimal digits"):
        Config(special=bad)


@pytest.mark.parametrize("isa", [tier.name for tier in kernels.runnable()])
def test_shapes_of_the_registry_are_built_in(isa: str) -> None:
    tier = registry.isa(isa)
    for shape in special_shapes.SPECIAL:
        problem = problem_of(shape)
        plan = Plan(problem, rules.config(problem, tier))
        assert plan.facts["special"], shape
        a, b = operands(problem)
        assert np.array_equal(plan.run(a, b), np.matmul(a, b)), shape
    found = [shape for made in special_shapes.modules(tier) for shape in made.shapes]
    assert sorted(found) == sorted(special_shapes.SPECIAL)


@pytest.mark.parametrize("isa", [tier.name for tier in kernels.runnable()])
@pytest.mark.parametrize("threads", [1, 2])
def test_stacks_of_the_shapes_of_the_registry(isa: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of matrices side by side, one matrix for all, gaps between them, and by a team."""
    monkeypatch.setattr(special, "_keeps_up", lambda *_: True)  # whatever the caches of this machine hold
    for shape in special_shapes.SPECIAL:
        problem = problem_of(shape, batch=11, threads=threads)
        config = rules.config(problem, registry.isa(isa)).replace(threads=threads, split="batch")
        plan = Plan(problem, config)
        assert plan.facts["special"], shape
        a, b = operands(problem)
        want = np.matmul(a, b)
        assert np.array_equal(plan.run(a, b), want), shape
        gaps = np.zeros((33, shape.m, shape.n), want.dtype)
        plan.run(np.repeat(a, 2, axis=0)[::2], np.repeat(b, 3, axis=0)[::3], gaps[::3])
        assert np.array_equal(gaps[::3], want), shape
        assert not gaps[1::3].any(), shape
        assert not gaps[2::3].any(), shape
        one = np.broadcast_to(a[:1], a.shape)
        assert np.array_equal(plan.run(one, b), np.matmul(one, b)), shape


def test_stacks_that_stream_from_memory_are_left_to_kernels_that_fetch_ahead() -> None:
    assert TIER is not None
    (long,) = (shape for shape in special_shapes.SPECIAL if shape[:3] == ("f64", 64, 64))
    (short,) = (shape for shape in special_shapes.SPECIAL if shape[:3] == ("f32", 3, 3))
    for shape, batch, there in ((long, 2, True), (long, 1 << 20, False), (short, 1 << 24, True)):
        problem = problem_of(shape, batch=batch)
        assert (special.built_in(rules.config(problem, TIER), problem) is not None) == there


# ---- records


def remember(shape: Special, name: str, path: Path) -> None:
    problem = problem_of(shape)
    config = specialise.single(rules.config(problem)).replace(special=name)
    database.write(path, [Record(problem, config, 1e-8, 2e-8, kernels=kernels.kernel_hash())])
    dispatch.reload()


def test_the_database_routes_to_it(name: str, database_path: Path) -> None:
    remember(SHAPES[0], name, database_path)
    assert dispatch.plan_for(problem_of(SHAPES[0])).facts["special"]
    near = dispatch.resolve(Problem("f32", 5, 4, 4))
    assert near.rung != "near"
    assert near.config.special == ""


def test_only_a_gain_is_recorded() -> None:
    problem = problem_of(SHAPES[0])
    base = rules.config(problem)
    faster = ReplayRunner(lambda config: 1e-8 if config.special else 2e-8)
    entry = specialise.tune(problem, base, ["0" * 32], faster)
    assert (entry.status, entry.config.special) == ("confirmed", "0" * 32)
    assert entry.gain == pytest.approx(1.0)
    assert specialise.tune(problem, base, ["0" * 32], ReplayRunner(lambda config: 1e-8)).status == "rejected"
    wrong = ReplayRunner(lambda config: "wrong" if config.special else 1e-8)
    assert specialise.tune(problem, base, ["0" * 32], wrong).status == "failed"


def test_a_tier_below_stays_where_it_is_faster() -> None:
    """Kernels are of the active tier; they must beat today's configuration, which may be of the one below."""
    problem, (low, *_, high) = problem_of(SHAPES[0]), registry.ISAS
    base, around = rules.config(problem, low), rules.config(problem, high)
    for seconds, status in ((1e-8, "rejected"), (4e-8, "confirmed")):
        times = {low.name: seconds, high.name: 3e-8}
        runner = ReplayRunner(lambda config, times=times: 2e-8 if config.special else times[config.isa])
        entry = specialise.tune(problem, base, ["0" * 32], runner, around)
        assert (entry.config.isa, entry.config.special, entry.status) == (high.name, "0" * 32, status)


# ---- what is not the user's own is refused


USE = """
import warnings
import numpy as np, fastgemm
fastgemm.special_shapes.SPECIAL = ()  # none of the build's own
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    for k in (4, 4):
        a = np.arange(16, dtype="f4").reshape(4, 4)
        assert np.array_equal(fastgemm.matmul(a, a), np.matmul(a, a))
        fastgemm.set_num_threads(2); fastgemm.set_num_threads(1)
from fastgemm import dispatch
from fastgemm.problem import Problem
print(dispatch.plan_for(Problem("f32", 4, 4, 4)).facts["special"], [str(w.message) for w in said])
"""


def damaged(path: Path, how: str) -> None:
    if how == "contents":
        path.write_bytes(path.read_bytes() + b"!")
    elif how == "group may write":
        path.chmod(0o660)
    elif how == "others may write to the folder":
        path.parent.chmod(0o757)
    elif how == "a link":
        path.rename(path.with_suffix(".elsewhere"))
        path.symlink_to(path.with_suffix(".elsewhere"))
    elif how == "a folder":
        path.unlink()
        path.mkdir()
    elif how == "gone":
        path.unlink()


REFUSALS = {
    "contents": "hash differs",
    "group may write": "others may write to it",
    "others may write to the folder": "others may write to the folder",
    "a link": "symbolic link",
    "a folder": "directory",
}


@pytest.mark.parametrize("how", ["", "gone", *REFUSALS])
def test_a_module_that_fails_a_check_is_refused(
    how: str, name: str, cache: Path, tmp_path: Path, database_path: Path, child: Child
) -> None:
    remember(SHAPES[0], name, database_path)
    own = tmp_path / "cache"
    own.mkdir(mode=0o700)
    path = own / special.file(name).name
    path.write_bytes(special.file(name).read_bytes())
    path.chmod(0o600)
    damaged(path, how)
    out = child(USE, FASTGEMM_CACHE=str(own), FASTGEMM_NUM_THREADS="1").stdout.strip()
    used, said = out.split(" ", 1)
    assert used == str(how == "")
    if how in REFUSALS:
        assert said.count("computed without it") == 1
        assert REFUSALS[how] in said
    else:
        assert said == "[]"


def test_another_users_file_is_refused(name: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    assert "another user" in str(special.refusal(special.file(name), name))


def test_a_module_of_another_build_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert TIER is not None
    with monkeypatch.context() as patch:
        patch.setattr(kernels, "kernel_hash", lambda: "another build")
        made = building.make(SHAPES[:1], TIER.name)
    with pytest.warns(special.SpecialKernelWarning, match="another build"):
        assert special.find(made, problem_of(SHAPES[0])) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert special.find(made, problem_of(SHAPES[0])) is None


def test_a_module_of_another_python_is_not_there(name: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its binary interface is another one, the cache and the record are the same."""
    monkeypatch.setattr(special, "_tables", {})
    monkeypatch.setattr("importlib.machinery.EXTENSION_SUFFIXES", [".another-python.so"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert special.find(name, problem_of(SHAPES[0])) is None


def test_nothing_is_left_of_compiling(name: str, cache: Path) -> None:
    assert {path.name.partition(".")[2] for path in cache.iterdir()} == {EXTENSION_SUFFIXES[0][1:]}


# ---- the command


def tune(*arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(Path(fastgemm.__file__).parents[1]), **more}
    command = [sys.executable, "-m", "fastgemm.tune", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=200)


def test_from_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "tuning.json"
    arguments = ("--shapes", "4x4x4", "1x9x9", "90x4x4", "--threads", 1, "--specialize", "--db", path)
    more = {"FASTGEMM_CACHE": str(tmp_path / "cache")}
    made = tune(*arguments, **more)
    assert made.returncode == 0, made.stderr
    assert "compiling 1 kernels" in made.stderr
    assert "no kernel for 1x9x9" in made.stderr
    assert "no kernel for 90x4x4" in made.stderr
    records, problems = database.read(path)
    assert problems == []
    assert all(record.config.special and record.strategy == "specialize" for record in records)
    again = tune(*arguments, "--resume", "--dry-run", **more)
    assert again.returncode == 0, again.stderr
    assert "90x4x4 float32 1 thread: only to 48" in again.stdout
    assert "\n4x4x4" not in again.stdout


def test_without_a_compiler_the_option_explains_itself(tmp_path: Path) -> None:
    made = tune("--shapes", "4x4x4", "--specialize", "--db", tmp_path / "x.json", CC="/no/such/compiler")
    assert made.returncode == 1
    assert "/no/such/compiler" in made.stderr
    assert "install gcc" in made.stderr
    assert "Traceback" not in made.stderr


@pytest.mark.parametrize("missing", ["Cython", "setuptools"])
def test_without_cython_the_option_explains_itself(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [*(m for m in sys.modules if m.partition(".")[0] == missing), "fastgemm._build"]:
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.delattr(fastgemm, "_build", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(building.Unavailable, match=f"pip install {missing}"):
        building.compiler()


@pytest.mark.parametrize("named", [" ", '"'])
def test_a_compiler_without_a_name(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", named)
    with pytest.raises(building.Unavailable, match="names no compiler"):
        building.compiler()


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert TIER is not None
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FASTGEMM_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(building.Unavailable, match="Not a directory"):
        building.make(SHAPES[:1], TIER.name)


def test_kernels_that_do_not_compile_have_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*arguments: object) -> str:
        raise building.Failed("no such instruction")

    monkeypatch.setattr(building, "make", refuse)
    arguments = ["--shapes", "4x4x4", "90x4x4", "--threads", "1", "--specialize", "--quiet"]
    assert main([*arguments, "--db", str(tmp_path / "tuning.json")]) == 1
    said = capsys.readouterr()
    assert "not compiled: no such instruction" in said.err
    assert "no kernel for 90x4x4" in said.err
    assert "compiling" not in said.err
    assert "failed: 4x4x4 float32 1 thread: its kernel was not compiled" in said.out
