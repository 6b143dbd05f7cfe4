"""The pure parts of the benchmark folder: lists of shapes, figures, reports.

Nothing here times anything but the last test, whose worker process answers for NumPy.
"""

from __future__ import annotations

import doctest
import importlib
import json
import math
import os
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

BENCH = Path(__file__).parents[1] / "bench"
if not BENCH.is_dir():
    pytest.skip("the benchmarks are not beside the tests", allow_module_level=True)
# At the end: a benchmark's file name must not hide anything that another test imports.
sys.path.append(str(BENCH))

import boxes  # noqa: E402
import builds  # noqa: E402
import cases  # noqa: E402
import children  # noqa: E402
import compare  # noqa: E402
import edges  # noqa: E402
import environment  # noqa: E402
import few_columns  # noqa: E402
import overhead  # noqa: E402
import peers  # noqa: E402
import report  # noqa: E402
import squares  # noqa: E402
import stacks  # noqa: E402
import stats  # noqa: E402
import timing  # noqa: E402
import verdict  # noqa: E402
import worker  # noqa: E402
import workers  # noqa: E402

from fastgemm import registry  # noqa: E402
from fastgemm.heuristic import half_narrow, measured  # noqa: E402

COMMANDS = [path.stem for path in sorted(BENCH.glob("*.py")) if "\ndef parser(" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_printed(command: str) -> None:
    """A text with a bare percent sign is none that argparse prints."""
    text = importlib.import_module(command).parser().format_help()
    assert "--help" in text
    assert "options:" in text


def synthetic() -> dict[str, Any]:
    """Make a compare document of two shapes, two peers, one of them reached through ctypes."""

    def result(case: cases.Case, peak: float, **samples: list[float]) -> dict[str, Any]:
        times = {name: {"samples": values, "loops": 1} for name, values in samples.items()}
        return {"case": case.to_dict(), "times": times, "errors": {}, "peak": [peak]}

    def about(cost: float) -> dict[str, Any]:
        return {"ok": True, "reason": "", "version": "1.0", "detail": "", "call_cost": cost}

    large = cases.Case("float32", 100, 100, 100, cls="general", threads=2)
    small = cases.Case("float32", 4, 4, 4, cls="small", threads=2)
    odd = cases.Case("int8", 4, 4, 4, cls="small", threads=2)
    nothing = {"case": odd.to_dict(), "times": {}, "errors": {"fastgemm": "no such dtype"}, "peak": []}
    return {
        "schema": 1,
        "kind": "compare",
        "date": "2026-01-02T03:04:05+0000",
        "machine": {"cpu": "some CPU", "cores": 2},
        "subject": "fastgemm",
        "peers": ["numpy", "mkl"],
        "settings": {"rounds": 2, "sample": 0.01, "statistic": "best", "operands": "hot", "reuse_out": False},
        "libraries": {"2": {"fastgemm": about(0.0), "numpy": about(0.0), "mkl": about(2e-6)}},
        "skipped": [{"case": large.replace(m=10**9).to_dict(), "reason": "needs 400 GiB"}],
        "results": [
            result(large, 4e10, fastgemm=[1e-4, 1.1e-4], numpy=[2e-4, 9e-4], mkl=[0.5e-4, 0.6e-4]),
            result(small, 4e10, fastgemm=[1e-7], numpy=[8e-7], mkl=[2e-6]),
            nothing,
        ],
        "interrupted": False,
        "foreign_load": 0.0,
    }


EXAMPLES = [boxes, cases, edges, environment, peers, squares, stats, timing, workers]


@pytest.mark.parametrize("module", EXAMPLES, ids=lambda module: module.__name__)
def test_examples(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


class TestCases:
    def test_shipped_lists_are_read_whole(self) -> None:
        found = cases.read(cases.DEFAULT_LIST, ["float32", "float64"])
        rows = cases.DEFAULT_LIST.read_text(encoding="utf-8").strip().count("\n")
        assert len(found) == 2 * rows
        assert {case.dtype for case in found} == {"float32", "float64"}
        assert any(case.trans_a for case in found)
        assert any(case.batch > 1 for case in found)

    def test_complaints_carry_their_own_dtypes(self) -> None:
        found = cases.read(cases.SHAPES / "complaint_shapes.csv")
        both = [case.dtype for case in found if case.shape == "96x64x25024"]
        assert both == ["float32", "float64"]
        assert {case.dtype for case in cases.read(cases.SHAPES / "complaint_shapes.csv", ["int32"])} == {"int32"}

    @pytest.mark.parametrize("row", ["0,2,3", "x,2,3", ",2,3"])
    def test_a_damaged_row_names_its_line(self, tmp_path: Path, row: str) -> None:
        path = tmp_path / "list.csv"
        path.write_text(f"M,N,K\n1,1,1\n{row}\n", encoding="utf-8")
        with pytest.raises(ValueError, match="line 3"):
            cases.read(path)

    def test_quick_spreads_over_every_class(self) -> None:
        everything = cases.read(cases.DEFAULT_LIST)
        few = cases.quick(everything)
        assert {case.cls for case in few} == {case.cls for case in everything}
        assert max(case.flops for case in few) <= 2.2e9
        assert len(few) == len(set(few)) <= 3 * len({case.cls for case in everything})

    def test_limit_counts_every_library_s_operands(self) -> None:
        case = cases.parse("1024x1024x1024")
        assert case.bytes == 4 * 4 * 2**20
        assert cases.within([case], 33 * 2**20, 2) == ([case], [])
        assert cases.within([case], 31 * 2**20, 2) == ([], [case])

    def test_results_of_another_type(self) -> None:
        case = cases.parse("2x3x4", "int8:int32")
        assert (case.operand, case.result, case.bytes) == ("int8", "int32", 2 * 4 + 4 * 3 + 2 * 4 * 2 * 3)
        a, b = cases.operands(case)
        assert a.dtype == np.int8
        for name in ("fastgemm", "numpy"):
            bound = peers.libraries()[name]().bind(a, b, result=cases.numpy_dtype(case.result))
            got = bound.array(bound.call(bound.a, bound.b))
            assert got.dtype == np.int32
            assert cases.check(a, b, got) is None
        for text in ("int8:int9", "int8:int32:int32"):
            with pytest.raises(ValueError, match="unknown dtype"):
                cases.parse("2x3x4", text)

    @pytest.mark.parametrize("text", ["3x4", "3x4x5x6x7", "3x-4x5", "3x0x5", "axbxc"])
    def test_shapes_that_are_none(self, text: str) -> None:
        with pytest.raises(ValueError, match="MxNxK"):
            cases.parse(text)

    @pytest.mark.parametrize("dtype", ["float32", "complex128", "int8", "float16"])
    @pytest.mark.parametrize("batch", [1, 3])
    def test_operands_and_their_check(self, dtype: str, batch: int) -> None:
        case = cases.Case(dtype, 5, 4, 6, batch, trans_a=True, trans_b=True)
        a, b = cases.operands(case)
        assert a.shape[-2:] == (5, 6)
        assert a.swapaxes(-1, -2).flags.c_contiguous
        c = np.matmul(a, b)
        assert cases.check(a, b, c) is None
        c[..., 0, 0] += 7
        assert "wrong value" in str(cases.check(a, b, c))
        assert "wrong shape" in str(cases.check(a, b, c[..., :-1]))


class TestFigures:
    def test_geometric_mean(self) -> None:
        assert stats.geometric_mean([1, 10, 100]) == pytest.approx(10)
        assert math.isnan(stats.geometric_mean([]))

    def test_ratios_are_the_subject_s_speed_over_the_peer_s(self) -> None:
        large, small = next(iter(verdict.groups(synthetic()))).rows
        assert large.ratios == {"numpy": pytest.approx(2.0), "mkl": pytest.approx(0.5)}
        assert large.best_peer == "mkl"
        assert large.noisy
        assert not small.noisy

    def test_a_call_through_ctypes_is_no_peer_of_small_products(self) -> None:
        small = next(iter(verdict.groups(synthetic()))).rows[1]
        assert small.left_out == ("mkl",)
        assert small.best_peer == "numpy"

    def test_summaries_end_with_the_total(self) -> None:
        group = next(iter(verdict.groups(synthetic())))
        assert [one.group for one in group.summaries] == ["general", "small", "total"]
        total = group.summaries[-1]
        assert total.means["numpy"] == pytest.approx(4.0)
        assert total.best == pytest.approx(2.0)
        assert (total.worst, total.lost) == (pytest.approx(0.5), 1)

    def test_requirements(self) -> None:
        assert verdict.missed(synthetic(), -math.inf, -math.inf) == []
        missed = verdict.missed(synthetic(), 4.5, 0.9)
        assert len(missed) == 3
        assert "float32, 2 threads, general: 0.50 against mkl, 0.90 wanted" in missed
        document = synthetic()
        for result in document["results"]:
            result["times"].pop("mkl", None)
        assert "float32, 2 threads: nothing was compared with mkl" in verdict.missed(document, 0.1, 0.1)
        assert verdict.missed({**document, "results": []}, 0.1, -math.inf) == ["nothing was timed"]

    @pytest.mark.parametrize(
        ("seconds", "text"),
        [(2.0, "2 s"), (0.0123, "12.3 ms"), (4.56e-6, "4.56 us"), (7.8e-8, "78 ns"), (math.inf, "-"), (math.nan, "-")],
    )
    def test_durations(self, seconds: float, text: str) -> None:
        assert stats.duration(seconds) == text

    def test_goals_of_squares(self) -> None:
        assert squares.goal("float32", "v4", 1, 512) == 92
        assert squares.goal("float32", "v4", 1, 1024) == 94
        assert squares.goal("float32", "v3", 1, 1024) == 88
        assert squares.goal("complex64", "v4", 2, 1024) == 85
        assert squares.goal("float32", "v2", 1, 512) is None


class TestReports:
    def test_text_says_what_lost_and_what_was_left_out(self) -> None:
        text = verdict.text(synthetic())
        assert "Lost by more than 3% to a peer: 1 of 2: 100x100x100 (0.50)" in text
        assert "mkl: 1 shapes do not count" in text
        assert "needs 400 GiB" in text
        assert "no such dtype" in text
        assert "Noisy" in text
        assert "WARNING" not in text
        assert "WARNING" in verdict.text({**synthetic(), "foreign_load": 0.7})

    def test_lost_shapes_in_other_processes_stand_by_themselves(self) -> None:
        document = synthetic()
        quick = json.loads(json.dumps(document["results"][0]))
        quick["times"]["fastgemm"]["samples"] = [2.5e-5]
        again = {**document, "again": [document["results"][0], quick, quick]}
        first, _, rest = verdict.text(again).partition("Lost shapes in other processes")
        assert first.rstrip() in verdict.text(document)
        assert "| 100x100x100 nn |     3 |  0.50 |   2.00 | 2.00 |" in rest

    def test_lost_shapes_are_timed_again(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(verdict.stats, "NOISE", -1e6)  # every shape counts as lost
        path = tmp_path / "out.json"
        arguments = ["--subject", "numpy-best", "--peers", "numpy", "--shapes", "8x8x8", "--again", "2"]
        if compare.main([*arguments, "--rounds", "1", "--sample", "1e-4", "--json", str(path)]) == 2:
            pytest.skip("numpy-best cannot be timed")
        document = json.loads(path.read_text(encoding="utf-8"))
        assert [result["case"]["m"] for result in document["again"]] == [8, 8]
        assert len(document["results"]) == 1

    def test_markdown_and_plot(self, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        source, text, plot = tmp_path / "c.json", tmp_path / "r.md", tmp_path / "r.png"
        source.write_text(json.dumps(synthetic()), encoding="utf-8")
        assert report.main([str(source), "--markdown", str(text), "--png", str(plot)]) == 0
        written = text.read_text(encoding="utf-8")
        assert "| 4x4x4 nn" in written
        assert "![ratios and share of the FMA peak](r.png)" in written
        # 2e6 operations in 100 us are 20 GFLOP/s, half of the peak.
        assert "|    20.0 |        50 |" in written
        assert plot.read_bytes().startswith(b"\x89PNG")

    def test_another_subject(self, tmp_path: Path) -> None:
        source = tmp_path / "c.json"
        source.write_text(json.dumps(synthetic()), encoding="utf-8")
        document = report.load([source], "mkl")
        assert document["peers"] == ["fastgemm", "numpy"]
        with pytest.raises(ValueError, match="no measurements of torch"):
            report.load([source], "torch")

    def test_pytest_benchmark_files_are_merged_by_shape(self, tmp_path: Path) -> None:
        paths = []
        for name, seconds in (("numpy", 3e-5), ("fastgemm", 1e-5)):
            extra = {"library": name, "case": cases.parse("64x64x64").to_dict(), "peak": 2e11}
            one = {"name": "test", "stats": {"min": seconds, "median": 1.1 * seconds}, "extra_info": extra}
            paths.append(tmp_path / f"{name}.json")
            paths[-1].write_text(json.dumps({"benchmarks": [one], "machine_info": {}}), encoding="utf-8")
        document = report.load(paths)
        assert (document["subject"], document["peers"]) == ("fastgemm", ["numpy"])
        assert next(iter(verdict.groups(document))).summaries[-1].means["numpy"] == pytest.approx(3.0)

    @pytest.mark.parametrize("content", ["[]", "{}", '{"kind": "squares"}', "not JSON"])
    def test_files_of_another_kind(self, tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "x.json"
        path.write_text(content, encoding="utf-8")
        assert report.main([str(path)]) == 2
        assert "report.py:" in capsys.readouterr().err


class TestLibraries:
    def test_openblas_kernels_follow_the_features(self) -> None:
        avx512 = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx2", "fma"}
        assert peers.openblas_core(frozenset(avx512)) == "SkylakeX"
        assert peers.openblas_core(frozenset(avx512 - {"avx512vl"})) == "Haswell"
        assert peers.openblas_core(frozenset({"sse2"})) is None

    def test_threads_are_told_by_environment(self) -> None:
        for cls in peers.libraries().values():
            told = cls.environment(3)
            assert {told[f"{name}_NUM_THREADS"] for name in ("OMP", "MKL", "OPENBLAS", "FASTGEMM")} == {"3"}

    def test_interpreters(self) -> None:
        chosen = workers.interpreters(["torch=/a/python", "/b/python"])
        assert (chosen["torch"], chosen["numpy"]) == ("/a/python", "/b/python")
        with pytest.raises(ValueError, match="unknown library"):
            workers.interpreters(["nobody=/a/python"])

    def test_a_worker_times_and_survives_a_library_that_is_not_there(self) -> None:
        case = cases.parse("8x8x8").to_dict()
        with workers.Worker("numpy", 1) as worker:
            assert worker.start(timeout=60)["ok"]
            ready = worker.ask("prepare", case=case, sample=1e-4, operands="rotated", reuse_out=True, budget=1.0)
            assert ready["sets"] > 1
            assert all(0 < seconds < 1 for seconds in worker.ask("time")["seconds"])
        with workers.Worker("numpy", 1, python="/no/such/python") as worker:
            assert not worker.start()["ok"]

    def test_no_blas_is_told_its_kernels(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """An administrator's variable reaches no process that is timed, unless the library itself asks for it."""
        for name in environment.CHOICES:
            monkeypatch.setenv(name, "1")
        script = tmp_path / "told.py"
        script.write_text(
            "import json, os, sys\n"
            f"sys.path.insert(0, {str(Path(environment.__file__).parent)!r})\n"
            "import environment\n"
            "if 'again' in sys.argv:\n"
            "    os.environ.update(dict.fromkeys(environment.CHOICES, '1'))\n"
            "    sys.argv.remove('again'), sys.orig_argv.remove('again')\n"
            "    environment.let_choose()\n"
            "print(json.dumps([sys.argv[1:], [name for name in environment.CHOICES if name in os.environ]]))\n"
        )
        found = children.by_turns("told", str(script), 1, {"plain": (["x"], {}), "again": (["again", "x"], {})})
        assert found == {"plain": [[["x"], []]], "again": [[["x"], []]]}
        told = children.by_turns("told", str(script), 1, {"asked": ([], {environment.CHOICES[0]: "Haswell"})})
        assert told == {"asked": [[[], [environment.CHOICES[0]]]]}

    def test_a_cold_first_call_is_no_sample(self) -> None:
        calls: list[Any] = []

        class Cold(peers.libraries()["numpy"]):  # type: ignore[misc]
            def bind(self, *arguments: Any) -> peers.Bound:
                bound = super().bind(*arguments)

                def call(a: Any, b: Any) -> Any:
                    time.sleep(0 if calls else 0.2)
                    calls.append(a)
                    return bound.call(a, b)

                replaced: peers.Bound = bound._replace(call=call)
                return replaced

        class Session(worker.Session):
            libraries = staticmethod(lambda: {"cold": Cold})

        ready = Session("cold", 1).prepare(cases.parse("8x8x8").to_dict(), 1e-4, "hot", False, budget=0.1)
        # On a machine that is slow enough a later call may be the sample.
        assert len(calls) > 1
        assert ready["seconds"] is None or len(calls) == 2

    def test_what_a_first_call_costs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The difference of two calls of one shape, the median over the shapes."""
        called: list[tuple[tuple[int, ...], ...]] = []

        def spent(call: Any, arguments: tuple[Any, ...], count: int) -> float:
            called.append(tuple(one.shape for one in arguments))
            return (8e-6 if called.count(called[-1]) == 1 else 3e-6) * count

        monkeypatch.setattr(overhead.timing, "bare", spent)
        assert overhead.of_first(3) == pytest.approx({"2 to 64": 5.0, "100 to 299": 5.0})
        assert len(called) == 12
        assert called[::2] == called[1::2]

    def test_what_a_program_waits_for_before_its_first_product(self) -> None:
        steps = overhead.of_import(1)
        assert list(steps) == ["import numpy", "import fastgemm", "the first product"]
        assert min(steps.values()) > 0

    @pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes stay where the system puts them")
    @pytest.mark.parametrize("threads", [1, 2])
    def test_a_process_of_one_thread_moves_every_turn(self, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
        moved: list[int] = []
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 1})
        monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cpus: moved.extend(cpus))
        with workers.Worker("numpy", threads) as one:
            one.start()
            for turn in range(3):
                one.move(turn)
        assert moved == ([1, 3, 1] if threads == 1 else [])

    def test_builds_says_what_is_missing(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert builds.main([str(tmp_path / "no list"), "--shapes", "none.csv"]) == 2
        assert "none.csv" in capsys.readouterr().err

    def test_builds_measures_no_other_build_for_one_that_is_not_there(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert builds.main([str(tmp_path), "--shapes", "8x8x8"]) == 2
        assert f"{tmp_path}: no build" in capsys.readouterr().err

    def test_records_are_read_before_a_process_is_put_on_one_core(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """They are of a CPU with so many cores."""
        multiplied: list[tuple[int, ...]] = []
        bind = peers.FastGemm.bind

        def told(self: peers.FastGemm, a: np.ndarray, *rest: Any) -> peers.Bound:
            multiplied.append(a.shape)
            return bind(self, a, *rest)

        monkeypatch.setattr(peers.FastGemm, "bind", told)
        assert worker.Session("fastgemm", 1).hello()["ok"]
        assert multiplied == [(1, 1)]

    def test_builds_beside_itself(self, capsys: pytest.CaptureFixture[str]) -> None:
        arguments = ["--shapes", "8x8x8", "--rounds", "1", "--sample", "1e-4", "--begin", "16"]
        status = builds.main([str(BENCH.parent), *arguments])
        told = capsys.readouterr()
        if status == 2:
            pytest.skip(told.err)
        assert "float32 8x8x8 nn" in told.out
        assert "geometric mean" in told.out

    def test_compare_runs_and_writes(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "out.json"
        arguments = ["--subject", "numpy-best", "--peers", "numpy", "--shapes", "8x8x8", "3x4x5x2"]
        status = compare.main([*arguments, "--rounds", "1", "--sample", "1e-4", "--json", str(path)])
        if status == 2:
            pytest.skip(capsys.readouterr().err)
        assert len(json.loads(path.read_text(encoding="utf-8"))["results"]) == 2
        assert "vs numpy" in capsys.readouterr().out


def test_an_interrupted_product_is_no_long_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of 50 ns in calls of 12 us, of which the first that computes anything is held up by a millisecond."""
    clock, calls = [0.0], []

    class Slow:
        def run(self, times: int) -> None:
            calls.append(times)
            clock[0] += 12e-6 + 50e-9 * times + (1e-3 if calls.count(1) == 1 and times == 1 else 0)

    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])
    products = timing.Products(Slow(), ())
    count = products.loops(1e-4)
    assert 1000 < count <= 2001
    assert products.seconds(count) == pytest.approx(50e-9)


def test_rules_are_fitted_to_times() -> None:
    """The boxes that gain, the one in another first; a way that computes nothing is none; lines are read again."""
    ways = ("", *half_narrow.WAYS)
    shape = len(ways), len(few_columns.COLUMNS), len(few_columns.ROWS), len(few_columns.STEPS), 2
    took = np.full(shape, np.inf)
    took[..., 1] = np.nan
    took[0, ..., 0] = 0.0
    took[ways.index("dots"), 0:4, 2:5, 3:, 0] = -0.5
    took[ways.index("small"), 1:3, 3:4, 5:8, 0] = -1.0
    took[ways.index("short-small"), ..., 0] = -few_columns.ALONE
    found = few_columns.fitted(took)
    assert [box.way for box in found] == ["dots", "small"]
    row = registry.dtype("i32")
    lines = list(few_columns.lines(row, "nt", took, found))
    assert [line.split()[:8] for line in lines] == [
        ["i32", "nt", "3-4", "16-31", "128-767", "small", "2.72", "2.72"],
        ["i32", "nt", "2-5", "8-63", "64-", "dots", "1.65", "1.65"],
    ]
    [(key, rules)] = measured.parsed("\n".join(lines)).items()
    assert key == ("i32", "nt")
    assert rules[0] == measured.Rule(range(3, 5), range(16, 32), range(128, 768), False, "small")


@pytest.mark.parametrize("layout", ["t", "nt"])
def test_rules_of_stacks_are_fitted(layout: str) -> None:
    """Classes of columns, rows and steps; what gains less than an item's jitter is none."""
    names, classes = stacks.ways("v3", layout), stacks.sides(layout)
    took = np.full((len(names), *map(len, classes), 2), np.nan)
    took[..., 0] = np.inf
    took[0, ..., 0] = 0.0
    took[names.index("small"), 1:4, :, 2:, 0] = -0.5
    took[names.index("dots"), ..., 0] = -stacks.ITEM
    *found, total = stacks.lines(registry.dtype("f32"), layout, "v3", took)
    first = 2 + (len(layout) > 1)
    rows = f"{first - 1}-"
    assert [line.split()[:7] for line in found] == [
        ["f32", f"{layout}-v3", f"{first}-{first + 2}", rows, "3-", "small", "1.65"]
    ]
    gain = np.exp(0.5 * 3 / len(classes[0]) * (len(classes[2]) - 2) / len(classes[2]))
    assert total.startswith(f"# f32 {layout}-v3: {gain:.3f} of ")
    [(key, [rule])] = measured.parsed("\n".join(found)).items()
    assert key == ("f32", f"{layout}-v3")
    assert (rule.columns, rule.steps.start) == (range(first, first + 3), 3)
    assert rule.rows.start == first - 1
