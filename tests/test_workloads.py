"""The networks of bench/workloads.py: their data, what their checks catch, and what a run says.  Nothing is timed."""

from __future__ import annotations

import doctest
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCH = Path(__file__).parents[1] / "bench"
if not BENCH.is_dir():
    pytest.skip("the benchmarks are not beside the tests", allow_module_level=True)
if str(BENCH) not in sys.path:
    # At the end: a benchmark's file name must not hide anything that another test imports.
    sys.path.append(str(BENCH))

import cachegrind  # noqa: E402
import real_models  # noqa: E402
import workload_cases  # noqa: E402
import workload_chains  # noqa: E402
import workload_data  # noqa: E402
import workload_graph  # noqa: E402
import workload_passes  # noqa: E402
import workload_peers  # noqa: E402
import workload_verdict  # noqa: E402
import workloads  # noqa: E402
from workload_cases import Workload  # noqa: E402

from fastgemm.graph import passes, reference  # noqa: E402

SMALL = [
    Workload(name, kind, sizes, batch, dtype)
    for dtype in workload_cases.DTYPES
    for name, kind, sizes, batch in (
        ("MLP_s", "mlp", (13, 40, 24, 8), 9),
        ("MLP_1", "mlp", (13, 40, 1), 2),
        ("MHA_s", "mha", (20, 24, 3), 2),
    )
]


def label(work: Workload) -> str:
    """Name of a parameter."""
    return f"{work.name}-{work.dtype}"


def computed(work: Workload, name: str, data: Any) -> np.ndarray:
    """Return the result of a library as the timed process sees it."""
    bound = workload_peers.libraries()[name]().network(work, data)
    first, second = (bound.array(bound.call(None, None)).copy() for _ in range(2))
    np.testing.assert_array_equal(first, second)
    return first


def test_examples() -> None:
    for module in (workload_cases, cachegrind, workload_chains, workload_passes):
        assert doctest.testmod(module).failed == 0


def test_what_the_simulator_prints_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    options = cachegrind.parser().parse_args(["--ll", "4M", "--batch", "64"])
    assert (options.ll, options.batch, options.fusion) == (4 << 20, [64], ["fine", "full"])
    with pytest.raises(SystemExit):
        cachegrind.main(["--ll", "many"])
    assert "256K or 1M" in capsys.readouterr().err


def test_the_simulated_process(capsys: pytest.CaptureFixture[str]) -> None:
    """What runs under the simulator, without it."""
    asked = {"work": SMALL[0].to_dict(), "fusion": "full", "caches": [1 << 10, 1 << 20], "calls": 2}
    assert cachegrind.main(["--child", json.dumps(asked)]) == 0
    first, last = json.loads(capsys.readouterr().out)["model"]
    assert first > last == 0


def test_what_is_timed() -> None:
    every = workload_cases.chosen()
    assert len(every) == len(set(every)) == 3 * (2 * 5 + 4 * 2)
    assert every[0].flops == 2 * 32 * (13 * 512 + 512 * 256 + 256 * 128)
    for work in every:
        assert workload_cases.from_dict(work.to_dict()) == work


@pytest.mark.parametrize("work", SMALL, ids=label)
@pytest.mark.parametrize("name", ["numpy", "fastgemm-steps", "fastgemm-none", "fastgemm-fine", "fastgemm"])
def test_results_are_within_the_bounds(work: Workload, name: str) -> None:
    if work.dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    data = workload_data.operands(work)
    result = computed(work, name, data)
    assert workload_data.check(work, data, result) is None
    assert workload_data.digest(result) == workload_data.digest(result.copy())


@pytest.mark.parametrize("work", SMALL, ids=label)
def test_wrong_results_are_caught(work: Workload) -> None:
    """A result of other data, one number off, another shape."""
    data, other = (workload_data.operands(work, seed) for seed in (0, 1))
    right = computed(work, "numpy", data)
    assert workload_data.check(work, data, computed(work, "numpy", other)) is not None
    assert "shape" in str(workload_data.check(work, data, right[..., None]))
    off = right.copy()
    first = (0,) * (off.ndim - 1)
    at = (*first, int(np.argmax(off[first])))
    # The sign and half of the size of the largest; four levels of a byte.
    off[at] = off[at] ^ 4 if off.dtype == np.uint8 else off[at] // 4 if off.dtype.itemsize < 4 else off[at] / 2
    assert workload_data.check(work, data, off) is not None
    assert workload_data.digest(off) != workload_data.digest(right)


@pytest.mark.parametrize("work", SMALL, ids=label)
def test_graphs_mean_the_network(work: Workload) -> None:
    if work.dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    data = workload_data.operands(work)
    written, given = workload_graph.graph(work, data)
    made = reference.run(written, given)["y"]
    assert workload_data.check(work, data, made.view(np.uint16) if made.dtype.itemsize == 2 else made) is None


def test_bits_of_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.random.default_rng(0).standard_normal(1000).astype("f4")
    np.testing.assert_array_equal(workload_data.to_bits(x), x.astype(ml_dtypes.bfloat16).view(np.uint16))
    np.testing.assert_array_equal(
        workload_data.from_bits(workload_data.to_bits(x)), x.astype(ml_dtypes.bfloat16).astype("f4")
    )


def synthetic() -> dict[str, Any]:
    """Make a document of two networks; oneDNN's calls cost too much on the first of them."""
    names = ["fastgemm", "fastgemm-none", "numpy", "onednn"]
    times = [[1e-3, 2e-3, 4e-3, 2e-3], [2e-3, 2e-3, 3e-3, 1.5e-3]]
    about = {name: {"ok": True, "reason": "", "version": "1", "detail": "", "call_cost": 0.0} for name in names}
    about["onednn"]["call_cost"] = 1.8e-4
    found = []
    for work, row in zip(workload_cases.chosen(["MLP_1"], ["float32"], [32, 64]), times, strict=True):
        samples = {name: {"samples": [value, 3 * value]} for name, value in zip(names, row, strict=True)}
        bits = {"fastgemm": "a", "fastgemm-none": "b" if work.batch == 64 else "a"}
        found.append({"case": work.to_dict(), "times": samples, "errors": {}, "bits": bits, "notes": {}})
    found[0]["errors"]["torch"] = "not there"
    return {
        "subject": "fastgemm", "peers": ["numpy", "onednn"], "libraries": about, "statistic": "best", "threads": 2,
        "machine": {"cpu": "some CPU", "cores": 2}, "results": found, "interrupted": False, "foreign_load": 0.3,
    }  # fmt: skip


def test_what_a_run_says() -> None:
    document = synthetic()
    assert workload_verdict.against_best(document) == {"MLP float32": [2.0, 1.5]}
    # On the second network oneDNN's calls are over a tenth of its time: it does not count.
    assert set(workload_verdict.ratios(document, document["results"][1])) == {"numpy"}
    said = workload_verdict.text(document)
    assert "2 ms (2.00)" not in said
    assert "1 ms (2.00)" in said
    assert "2 ms ~" in said
    assert "MLP_1 batch 32 float32: torch: not there" in said
    assert "0.30 cores busy" in said
    assert "at the peak" not in said
    # At the peak the products would take half of the subject's time; the best peer is twice as slow as the subject.
    work = workload_cases.from_dict(document["results"][0]["case"])
    document["results"][0]["peak"] = [work.flops / 0.6e-3, work.flops / 0.5e-3]
    (line,) = [line for line in workload_verdict.text(document).splitlines() if "500 us" in line]
    assert [cell.strip() for cell in line.split("|")[3:7]] == ["50", "12", "25", "4.00"]


def test_requirements() -> None:
    """A mean below the ratio misses it, and so does a group in which nothing was compared."""
    document = synthetic()
    assert workload_verdict.missed(document, 1.5) == []
    assert workload_verdict.missed(document, 2.0) == ["MLP float32: 1.73 against the best peer, not 2.0"]
    for result in document["results"]:
        result["times"] = {"fastgemm": result["times"]["fastgemm"]}
    assert workload_verdict.missed(document, 1.0) == ["MLP float32: nothing was compared"]
    assert workload_verdict.missed({**document, "results": []}, 1.0) == ["nothing was timed"]


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        workloads.main(["--help"])
    assert "--ablation" in capsys.readouterr().out
    options = workloads.parser().parse_args(["--quick", "--networks", "MLP_1", "MHA_2"])
    assert [(one.name, one.batch) for one in workloads.chosen(options)] == [
        ("MLP_1", 32), ("MLP_1", 512), ("MHA_2", 8), ("MHA_2", 32),
    ]  # fmt: skip


def test_one_network_from_end_to_end(tmp_path: Path) -> None:
    """Real processes, one sample each."""
    report = tmp_path / "run.json"
    asked = ["--networks", "MLP_1", "--batch", "3", "--rounds", "1", "--sample", "0.001", "--threads", "1"]
    assert workloads.main([*asked, "--patience", "0", "--ablation", "--bound", "--json", str(report)]) == 0
    (result,) = json.loads(report.read_text())["results"]
    assert set(result["times"]) == {"fastgemm", "fastgemm-fine", "fastgemm-none", "fastgemm-steps", "numpy"}
    assert not result["errors"]
    assert len(result["peak"]) == 2


def test_passes_one_after_another(capsys: pytest.CaptureFixture[str]) -> None:
    """Every way of computing a network is checked; what changes nothing has no gain of its own."""
    asked = ["--networks", "MLP_1", "--batch", "3", "--rounds", "1", "--sample", "0.0001", "--details"]
    assert workload_passes.main([*asked, "--dtype", "float32", "int8"]) == 0
    lines = {line.split("|")[1].strip(): line for line in capsys.readouterr().out.splitlines() if "|" in line}
    assert {row.name for row in passes.PASSES} - {"copies"} < set(lines)
    assert [cell.strip() for cell in lines["sinking"].split("|")[2:4]] == ["-", "-"]
    assert "-" not in lines["weights"].split("|")[2]
    assert "-" not in lines["quantised"].split("|")[3]


def test_all_ways_to_run_a_network(capsys: pytest.CaptureFixture[str]) -> None:
    """One by one is the first way, and the one that the costs choose is among them."""
    chosen, ways = workload_chains.measure(Workload("MLP_s", "mlp", (13, 40, 24, 8), 8, "float32"), 0.0001)
    assert str(ways[0]) == "one by one"
    assert chosen in ways
    assert chosen.cost <= ways[0].cost
    assert {way.length for way in ways} == {0, 2, 3}
    asked = ["--networks", "MLP_1", "--batch", "4", "--dtype", "int8", "--sample", "0.0001", "--threads", "1"]
    assert workload_chains.main([*asked, "--details"]) == 0
    assert "| MLP_1 batch 4 int8 | one by one |" in capsys.readouterr().out


def test_a_model_from_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    """Read, compiled, checked and timed; a library that is not there is said to be missing."""
    pytest.importorskip("onnx")
    path = Path(__file__).parent / "data" / "encoder_small.onnx"
    assert real_models.main([f"{path}:3x6x16", "--peers", "--threads", "1", "--rounds", "1"]) == 0
    assert re.search(r"^\| encoder_small 3x6x16 \| +[\d.]+ (ms|us) \|$", capsys.readouterr().out, re.M)
    with pytest.raises(SystemExit):
        real_models.main([str(path)])
