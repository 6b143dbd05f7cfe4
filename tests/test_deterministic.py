"""deterministic(): the same bits whatever the threads and the database; and without it, on every run of a plan."""

from __future__ import annotations

from typing import Any

import graph_samples
import numpy as np
import oracle
import pytest

import fastgemm
from fastgemm import dispatch, kernels, registry
from fastgemm import graph as fg
from fastgemm.heuristic import rules
from fastgemm.problem import Problem

# Of every family, with every split; those with a letter have B's columns, not its rows, adjacent.
SHAPES: list[tuple[Any, ...]] = [
    (300, 200, 5000), (16, 16, 100_000), (1, 500, 3000), (500, 1, 3000), (40, 4000, 1200), (700, 700, 700),
    (2, 256, 20_000), (4, 1000, 3000), (8, 800, 800), (14, 700, 900), (1, 64, 1500),
    (3, 600, 600, "t"), (600, 10, 784, "t"), (30, 30, 20_000, "t"), (1, 20_000, 30, "t"), (19, 512, 512, "t"),
]  # fmt: skip


def operands(m: int, n: int, k: int, turned: str = "", dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(m + n + k)
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    return a, b.T.copy().T if turned else b


@pytest.mark.parametrize("shape", SHAPES)
def test_thread_count_changes_no_bit(shape: tuple[Any, ...]) -> None:
    a, b = operands(*shape)
    results = []
    with fastgemm.deterministic():
        for count in (1, 2, 3, 5):
            with fastgemm.threads(count):
                results.append(fastgemm.matmul(a, b))
    assert all((r == results[0]).all() for r in results[1:])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [4, 6, 7, 8, 9, 12])
def test_thread_count_changes_no_bit_of_interleaved_stacks(size: int, dtype: str) -> None:
    """Which of them np.einsum's loop does depends on the threads otherwise."""
    a, b = np.random.default_rng(size).standard_normal((2, size, size, 256)).astype(dtype)
    results = []
    with fastgemm.deterministic():
        for count in (1, 2, 4, 8):
            with fastgemm.threads(count):
                results.append(fastgemm.einsum("ikx,kjx->ijx", a, b))
    assert all((r == results[0]).all() for r in results[1:])


@pytest.mark.parametrize("shape", SHAPES)
def test_address_changes_no_bit(shape: tuple[Any, ...]) -> None:
    """The same numbers at another alignment: kernels may peel, but not reorder a sum."""
    a, b = operands(*shape)
    one = fastgemm.matmul(a, b)
    for shift in (1, 3, 7):
        moved = []
        for x in (a, b):
            room = np.empty(x.size + shift, x.dtype)
            at = room[shift:].reshape(x.shape, order="C" if x.flags.c_contiguous else "F")
            at[:] = x
            moved.append(at)
        assert (fastgemm.matmul(*moved) == one).all()


def test_same_bits_on_every_run() -> None:
    a, b = operands(16, 16, 100_000)
    one = fastgemm.matmul(a, b)
    assert all((fastgemm.matmul(a, b) == one).all() for _ in range(20))


def test_tuned_records_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def tuned() -> None:
        raise AssertionError("the database was asked")

    monkeypatch.setattr(dispatch, "tuned", tuned)
    with fastgemm.deterministic():
        found = fastgemm.explain(m=64, n=64, k=64)
    assert found.rung == "heuristic"
    assert "deterministic" in found.why


def test_parts_of_k_are_never_shared_by_threads() -> None:
    problem = Problem("f32", 16, 16, 100_000, threads=2)
    if rules.config(problem).split != "k":
        pytest.skip("the rules of this CPU do not split k")
    with fastgemm.deterministic():
        assert dispatch.resolve(problem).config.split != "k"


@pytest.mark.skipif(kernels.active_isa() is None, reason="no kernels run on this CPU")
@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
def test_k_is_cut_in_the_same_places(layout: str) -> None:
    """Whatever the rules would cut it into, for any number of threads."""
    with fastgemm.deterministic():
        for shape in ((300, 200, 5000), (700, 700, 700), (40, 4000, 1200)):
            for threads in (1, 2, 5):
                config = dispatch.resolve(Problem("f32", *shape, layout=layout, threads=threads)).config
                assert config.kc == dispatch.DETERMINISTIC_KC, (shape, config)


def test_from_the_environment(child) -> None:
    code = "import fastgemm; print('deterministic' in fastgemm.explain(m=9, n=9, k=9).why)"
    for text, said in (("1", "True"), ("0", "False"), ("Yes", "True"), ("false", "False"), ("", "False")):
        done = child(code, FASTGEMM_DETERMINISTIC=text)
        assert (done.stdout.strip(), done.stderr) == (said, "")
    done = child(code, FASTGEMM_DETERMINISTIC="maybe")
    assert done.stdout.strip() == "False"
    assert "FASTGEMM_DETERMINISTIC='maybe' is neither 0 nor 1" in done.stderr


@pytest.mark.parametrize("dt", registry.DTYPES, ids=lambda row: row.name)
def test_stacks_that_share_b_are_one_product(dt: registry.DType) -> None:
    rng, kind = np.random.default_rng(0), oracle.dtype_of(dt.numpy)
    a = rng.integers(-4, 5, (6, 5, 7)).astype(kind)
    b = rng.integers(-4, 5, (7, 9)).astype(kind)
    out = np.zeros((6, 5, 18), kind)[:, :, ::2]
    for left, right in [(a, b), (a, b[:, 0]), (a[::2], b), (a[:, ::-1], b), (a[:, :, ::-1], b[::-1])]:
        assert (fastgemm.matmul(left, right) == np.matmul(left, right)).all()
    assert (fastgemm.matmul(a, b, out=out) == np.matmul(a, b)).all()


def test_blocks_may_overlap() -> None:
    """In several threads: the first that ends does not end the other, and the last does."""
    first, second = fastgemm.deterministic(), fastgemm.deterministic()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert dispatch.is_deterministic()
    second.__exit__(None, None, None)
    assert not dispatch.is_deterministic()


def heads(dtype: str) -> fg.Graph:
    """Attention with its projections: with so few heads several threads would share the rows of each."""
    build, kind = fg.Builder(), oracle.dtype_of(dtype)
    x = build.input("x", (2, 33, 64), kind)
    q, k, v = (
        (x @ (oracle.normal((64, 64), "f8", at) / 8).astype(kind)).reshape(2, 33, 8, 8).transpose(0, 2, 1, 3)
        for at in range(3)
    )
    made = (build.softmax(q @ k.T) @ v).transpose(0, 2, 1, 3).reshape(2, 33, 64)
    build.output(build.relu(made @ (oracle.normal((64, 700), "f8", 5) / 8).astype(kind)), "y")
    return build.graph()


def masked(batch: int, length: int, width: int) -> fg.Graph:
    build = fg.Builder()
    q, k, v = (build.input(name, (batch, length, width), "float32") for name in "qkv")
    mask = build.constant(oracle.normal((batch, length, length), "f4", 3))
    build.output(build.softmax(q @ k.T * np.float32(0.3) + mask) @ v, "y")
    return build.graph()


def beside(dtype: str) -> fg.Graph:
    """Products whose weights differ from row to row of a stack: one step for each at "fine"."""
    build, kind = fg.Builder(), oracle.dtype_of(dtype)
    x, w = build.input("x", (3, 5, 1500), kind), build.input("w", (3, 1500, 64), kind)
    build.output(build.gelu(x @ w), "y")
    return build.graph()


GRAPHS = {
    **{f"heads {dtype}": lambda dtype=dtype: heads(dtype) for dtype in ("float32", "float16", "bfloat16")},
    **{f"beside {dtype}": lambda dtype=dtype: beside(dtype) for dtype in ("float32", "float16", "bfloat16")},
    **{f"masked {size}": lambda size=size: masked(*size) for size in ((2, 5, 8), (3, 13, 8), (1, 66, 4))},
    "layers": lambda: graph_samples.mlp((13, 512, 256, 128), 65),
    "layers of one": lambda: graph_samples.mlp((479, 1024, 256, 1), 33, "float64", "gelu"),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("fusion", ["fine", "full"])
def test_thread_count_changes_no_bit_of_a_graph(name: str, fusion: str) -> None:
    """Whether the threads are those of the graph, or of whoever compiles and calls it."""
    graph = GRAPHS[name]()
    inputs = graph_samples.inputs_of(graph)
    found = []
    with fastgemm.deterministic():
        for count in (1, 2, 3, 4):
            found.append(fg.compile(graph, fusion=fusion, threads=count).run(inputs)["y"])
            with fastgemm.threads(count):
                found.append(fg.compile(graph, fusion=fusion).run(inputs)["y"])
    for made in found[1:]:
        np.testing.assert_array_equal(made, found[0])
