"""Compiled graphs: the reference's results under every fusion, and the contract of a call."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import graph_errors
import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from graph_samples import attention, graphs, has_rows, inputs_of, mlp, numbers

import fastgemm
from fastgemm import graph as fg
from fastgemm.graph import Graph, GraphError, passes, reference
from fastgemm.graph.passes.copies import count

FUSIONS = passes.FUSIONS


def assert_matches(graph: Graph, got: dict[str, np.ndarray], inputs: dict[str, Any]) -> None:
    """Assert that outputs are as far from the precise ones as rounding errors, followed through the graph, allow."""
    every = reference.every(graph, inputs, precise=True)
    bounds = graph_errors.bounds(graph, every)
    for name in graph.outputs:
        want, value = every[name], graph.value(name)
        assert got[name].dtype == value.dtype
        assert got[name].shape == value.shape
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(np.isnan(got[name].astype("f8")), np.isnan(want))
            error = np.abs(got[name].astype("f8") - want)
        worst = np.nanmax(error, initial=0, where=np.isfinite(want))
        assert worst <= bounds[name], f"{name}: {worst} above {bounds[name]}"


@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@hypothesis.settings(deadline=None, max_examples=25)
@hypothesis.given(data=st.data())
def test_any_graph(dtype: str, fusion: str, data: st.DataObject) -> None:
    graph = data.draw(graphs(dtype))
    hypothesis.note(str(graph))
    compiled = fg.compile(graph, fusion=fusion)
    hypothesis.note(str(compiled.graph))
    for seed in (0, 7):
        inputs = inputs_of(graph, seed)
        assert_matches(graph, compiled.run(inputs), inputs)
    assert compiled.explain()


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("turned", ["left", "residual", "neither"])
def test_a_second_call_reads_its_own_numbers(dtype: str, turned: str) -> None:
    """Operands in the workspace that a layer must copy, for their order or their type, are copied in every call."""
    made = fg.Builder()
    x = made.input("x", (3, 4, 5), dtype)
    y, weight = made.relu(x), made.constant(numbers((5, 3), dtype, 1))
    beside = made.matmul(made.neg(x), weight)
    # Read elsewhere, so that they are not written in the order in which the layer reads them.
    made.output(made.tanh(y), "y")
    made.output(made.tanh(beside), "beside")
    if turned == "left":
        # An axis of one number is the last in memory: what was found to be read from the first call.
        column = made.transpose(made.relu(made.input("column", (1, 2, 1, 2), dtype)), perm=(0, 3, 1, 2))
        product = made.matmul(column, made.constant(numbers((1, 1), dtype, 1)))
        product = made.add(product, made.constant(numbers((1,), dtype)))
    elif turned == "residual":
        product = made.matmul(made.reshape(y, shape=(4, 3, 5)), weight)
        product = made.add(product, made.transpose(beside, perm=(1, 0, 2)))
    else:
        product = made.add(made.matmul(y, weight), beside)
    made.output(made.mul(made.relu(product), made.constant(numbers((3,), dtype, 2))), "product")
    graph = made.graph()
    for fusion in FUSIONS:
        compiled = fg.compile(graph, fusion=fusion)
        for seed in (0, 7, 3):
            inputs = inputs_of(graph, seed)
            assert_matches(graph, compiled.run(inputs), inputs)
        # (Halves are finished in float32.)
        copies = turned != "neither" or dtype in ("bfloat16", "float16")
        if fusion == "full" and has_rows(dtype):
            assert ("in every call" in compiled.explain()) is copies


@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_layers_in_every_float(dtype: str, fusion: str) -> None:
    for graph in (mlp((13, 64, 33, 7), 5, dtype), mlp((13, 40, 8), 1, dtype, "gelu"), mlp((5, 4), 0, dtype),
                  mlp((300, 200, 1), 70, dtype, "sigmoid"), attention(2, 9, 3, 12, dtype),
                  attention(1, 70, 2, 64, dtype, False)):  # fmt: skip
        inputs = inputs_of(graph)
        assert_matches(graph, fg.compile(graph, fusion=fusion).run(inputs), inputs)


def test_nan_and_infinity_pass() -> None:
    graph = mlp((4, 8, 3), 6, "float32", "tanh")
    x = numbers((6, 4), "f4")
    x[1, 1], x[3, 0] = np.nan, np.inf
    with np.errstate(all="raise"):
        for fusion in FUSIONS:
            got = fg.compile(graph, fusion=fusion)(x=x)
            want = reference.run(graph, {"x": x})["y"]
            np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


@pytest.fixture(scope="module")
def compiled() -> fg.CompiledGraph:
    return fg.compile(mlp((13, 32, 16, 8), 24))


def test_calls(compiled: fg.CompiledGraph) -> None:
    x = numbers((24, 13), "f4")
    want = compiled(x=x)
    assert np.array_equal(compiled({"x": x}), want)
    assert np.array_equal(compiled(x=np.asfortranarray(x)), want)
    assert np.array_equal(compiled.run({"x": x})["y"], want)
    out = np.empty((24, 8), "f4")
    assert compiled(x=x, out=out) is out
    assert np.array_equal(out, want)
    turned = np.empty((8, 24), "f4").T
    assert compiled(x=x, out={"y": turned}) is turned
    assert np.array_equal(turned, want)
    both = np.zeros(24 * 13, "f4")
    both[:] = x.ravel()
    assert np.array_equal(compiled(x=both.reshape(24, 13), out=both[: 24 * 8].reshape(24, 8)), want)


def test_refusals(compiled: fg.CompiledGraph) -> None:
    x = numbers((24, 13), "f4")
    for inputs, why in (({}, "'x' is missing"), ({"x": x, "z": x}, "no input 'z'"), ({"x": x[:3]}, r"f.* \(3, 13\)"),
                        ({"x": x.astype("f8")}, "float64")):  # fmt: skip
        with pytest.raises(GraphError, match=why):
            compiled(inputs)
    with pytest.raises(GraphError, match="out for 'y' is"):
        compiled(x=x, out=np.empty((24, 7), "f4"))
    with pytest.raises(TypeError, match="must be an ndarray"):
        compiled(x=x, out=[])
    with pytest.raises(GraphError, match="no output 'z'"):
        compiled(x=x, out={"z": x})
    fixed = np.empty((24, 8), "f4")
    fixed.setflags(write=False)
    with pytest.raises(ValueError, match="read-only"):
        compiled(x=x, out=fixed)
    with pytest.raises(ValueError, match="fusion must be one of"):
        fg.compile(compiled.source, fusion="some")
    with pytest.raises(TypeError, match="takes a Graph"):
        fg.compile(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="workspaces"):
        fg.compile(compiled.source, workspaces=0)
    with pytest.raises(ValueError, match="between 1 and"):
        fg.compile(compiled.source, threads=0)


def test_several_outputs_and_what_is_handed_on() -> None:
    build = fg.Builder()
    x = build.input("x", (3, 4), "float64")
    constant = build.constant(np.arange(3.0))
    y = build.relu(x)
    for tensor, name in ((x, "x"), (constant, "c"), (y, "y"), (y.T, "yt"), (y.reshape(12), "flat"), (-y, "z")):
        build.output(tensor, name)
    graph = build.graph()
    given = numbers((3, 4), "f8")
    for fusion in FUSIONS:
        got = fg.compile(graph, fusion=fusion)(x=given)
        want = reference.run(graph, {"x": given})
        assert list(got) == list(want)
        for name, array in want.items():
            assert np.array_equal(got[name], array)
            assert not np.shares_memory(got[name], given)


def test_results_lie_where_operands_are_needed_no_longer() -> None:
    """Steps of 4 KiB, whose results take the place of their operands unless those are read again, or the caller's."""

    def workspace(make: Callable[[fg.Builder, fg.Tensor], fg.Tensor]) -> int:
        build = fg.Builder()
        build.output(make(build, build.input("x", (32, 32), "float32")), "y")
        return fg.compile(build.graph(), fusion="none").workspace_bytes // 4096

    assert workspace(lambda build, x: build.relu(build.tanh(build.relu(x)))) == 1
    assert workspace(lambda build, x: build.relu(x)) == 0
    assert workspace(lambda build, x: build.relu((one := build.tanh(x)) + build.relu(one))) == 2
    assert workspace(lambda build, x: build.relu(build.tanh(x) @ np.ones((32, 32), "f4"))) == 2, "read to the end"
    assert workspace(lambda build, x: build.relu(build.tanh(build.tanh(x).T))) == 2, "in another order"
    assert workspace(lambda build, x: build.relu((one := build.tanh(x)) + one.T)) == 2, "in two orders"


@pytest.mark.parametrize("fusion", FUSIONS)
def test_what_is_read_turned_is_not_overwritten(fusion: str) -> None:
    for make in (lambda h: h.T, lambda h: h + h.T, lambda h: h.T - h, lambda h: h.T.reshape(16, 16) * h.T):
        build = fg.Builder()
        h = build.tanh(build.input("x", (16, 16), "float64"))
        build.output(build.tanh(-build.sqrt(build.abs(make(h)))), "y")
        graph, x = build.graph(), numbers((16, 16), "f8")
        got = fg.compile(graph, fusion=fusion)(x=x)
        np.testing.assert_allclose(got, reference.run(graph, {"x": x})["y"], rtol=1e-12)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_no_numbers_have_any_shape(fusion: str) -> None:
    build = fg.Builder()
    x = build.relu(build.input("x", (3, 0, 4), "float32"))
    build.output(build.relu(x.transpose(2, 1, 0).reshape(0, 5)), "y")
    assert fg.compile(build.graph(), fusion=fusion)(x=np.empty((3, 0, 4), "f4")).shape == (0, 5)


@pytest.mark.parametrize("shape", [(1, 24), (16, 1), (24,), (1, 1), (16, 24)])
def test_what_is_repeated_is_not_copied(shape: tuple[int, ...]) -> None:
    build = fg.Builder()
    h = build.tanh(build.input("x", shape, "float64"))
    build.output(-build.sqrt(build.abs(build.broadcast(h, shape=(2, 16, 24)))), "y")
    graph, x = build.graph(), numbers(shape, "f8")
    for fusion in FUSIONS:
        compiled = fg.compile(graph, fusion=fusion)
        np.testing.assert_allclose(compiled(x=x), reference.run(graph, {"x": x})["y"], rtol=1e-12)
        assert count(compiled.graph) == (0, 0)


def test_outputs_lie_apart() -> None:
    build = fg.Builder()
    x = build.input("x", (4, 6), "float32")
    build.output(build.relu(x), "y")
    build.output(build.tanh(x), "t")
    made = fg.compile(build.graph())
    given, both = numbers((4, 6), "f4"), np.empty((4, 12), "f4")
    rows = np.empty((6, 6), "f4")
    for y, t in ((rows[:4], rows[:4]), (rows[:4], rows[2:]), (both[:, :6], both[:, 5:11])):
        with pytest.raises(GraphError, match="out for 'y' and for 't' share memory"):
            made(x=given, out={"y": y, "t": t})
    # Side by side in one array they are apart.
    made(x=given, out={"y": both[:, :6], "t": both[:, 6:]})
    np.testing.assert_allclose(both, np.hstack([np.maximum(given, 0), np.tanh(given)]), rtol=1e-6)


def test_from_many_threads(compiled: fg.CompiledGraph) -> None:
    xs = [numbers((24, 13), "f4", seed) for seed in range(64)]
    want = [compiled(x=x) for x in xs]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda x: compiled(x=x), xs))
    assert all(np.array_equal(g, w) for g, w in zip(got, want, strict=True))


def test_workspaces_are_bounded() -> None:
    compiled = fg.compile(mlp((64, 256, 256, 64), 64), workspaces=2, fusion="fine")
    x = numbers((64, 64), "f4")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: compiled(x=x), range(64)))
    assert 1 <= len(compiled._ready.free) <= 2


def test_results_do_not_share_memory(compiled: fg.CompiledGraph) -> None:
    one, other = compiled(x=numbers((24, 13), "f4")), compiled(x=numbers((24, 13), "f4", 1))
    assert not np.shares_memory(one, other)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads(threads: int) -> None:
    graph = mlp((100, 300, 200, 10), 150)
    x = numbers((150, 100), "f4")
    want = reference.run(graph, {"x": x})["y"]
    np.testing.assert_allclose(fg.compile(graph, threads=threads)(x=x), want, rtol=1e-4, atol=1e-4)
    with fastgemm.threads(threads):
        np.testing.assert_allclose(fg.compile(graph)(x=x), want, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.timeout(120, method="thread")
@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("before", [True, False])
def test_after_a_fork(fusion: str, before: bool) -> None:
    """A child runs what its parent compiled, whether the parent had run it (and packed its weights) or not."""
    graph = mlp((100, 300, 200, 10), 150)
    x = numbers((150, 100), "f4")
    want = fg.compile(graph, fusion=fusion, threads=2)(x=x)
    compiled = fg.compile(graph, fusion=fusion, threads=2)
    if before:
        compiled(x=x)
    pid = os.fork()
    if pid == 0:
        code = 3
        try:
            # A child computes with one thread, which may cut a sum in other places.
            code = 0 if np.allclose(compiled(x=x), want, rtol=1e-4, atol=1e-4) else 1
        finally:
            os._exit(code)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        time.sleep(0.005)
    else:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        pytest.fail("the child hangs")
    assert os.waitstatus_to_exitcode(status) == 0
    np.testing.assert_array_equal(compiled(x=x), want)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_first_calls_from_many_threads(fusion: str) -> None:
    """All come before the weights are packed."""
    x = numbers((24, 13), "f4")
    graph = mlp((13, 64, 32, 8), 24)
    want = fg.compile(graph, fusion=fusion)(x=x)
    for _ in range(5):
        compiled = fg.compile(graph, fusion=fusion)
        with ThreadPoolExecutor(8) as pool:
            assert all(np.array_equal(got, want) for got in pool.map(lambda _, run=compiled: run(x=x), range(16)))


def test_the_report() -> None:
    text = fg.compile(attention(2, 9, 3, 12)).explain()
    assert "matmul > masked_softmax > matmul" in text
    assert "0 copies of 0 bytes" in text
    text = fg.compile(mlp((13, 32, 16, 8), 24), fusion="fine").explain()
    assert "workspace: 4608 bytes a call" in text
    assert "in output y" in text
    # Those of a chain are counted too.
    for fusion in ("fine", "full"):
        assert "constants: 4448 bytes" in fg.compile(mlp((13, 32, 16, 8), 24), fusion=fusion).explain()
