"""The memory model: what it says of cases that can be counted by hand, and that it orders graphs as it should."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fastgemm import cpu
from fastgemm.graph import Builder, Graph, compile, memory, passes, touches

KIB, MIB = 1 << 10, 1 << 20


def chain_of(steps: int, rows: int = 64, columns: int = 1024) -> Graph:
    """So many elementwise steps on a matrix of 256 KiB."""
    build = Builder()
    x = build.input("x", (rows, columns), "float32")
    for _ in range(steps):
        x = build.relu(x)
    build.output(x, "y")
    return build.graph()


def perceptron(batch: int = 32, sizes: tuple[int, ...] = (64, 512, 512, 128)) -> Graph:
    """Products, biases and relu."""
    build, rng = Builder(), np.random.default_rng(0)
    h = build.input("x", (batch, sizes[0]), "float32")
    for k, n in pairwise(sizes):
        h = build.relu(h @ rng.standard_normal((k, n)).astype("f4") + np.ones(n, "f4"))
    build.output(h, "y")
    return build.graph()


def attention(batch: int = 2) -> Graph:
    """Scores of 2 MiB a batch item."""
    build = Builder()
    q, k, v = (build.input(name, (batch, 8, 256, 64), "float32") for name in "qkv")
    build.output((build.softmax(q @ k.T / 8.0) @ v).transpose(0, 2, 1, 3), "y")
    return build.graph()


def test_what_fits_is_fetched_once() -> None:
    """Three arrays of 256 KiB: a cache that holds all of them fetches nothing in the second call, a small one all."""
    whole = memory.traffic(chain_of(2), (64 * KIB, 4 * MIB))
    assert whole.total == (4 * 256 * KIB, 0)
    assert [step.bytes for step in whole.steps] == [(512 * KIB, 0)] * 2


def test_an_intermediate_within_reach() -> None:
    """600 KiB hold the two arrays of one step: what lies between two steps is found, input and output are not."""
    assert [step.bytes[0] for step in memory.traffic(chain_of(2), (600 * KIB,)).steps] == [256 * KIB] * 2


def test_the_part_within_reach() -> None:
    # All of it lies equally far back.
    assert memory._within(100, 0, 50, 50) == 1
    assert memory._within(100, 60, 50, 50) == 0
    # Read at once now, worked through slowly then: the end of it is near.
    assert memory._within(50, 0, 100, 0) == pytest.approx(0.5)
    # Written at once then, read slowly now: the beginning is near.
    assert memory._within(50, 0, 0, 100) == pytest.approx(0.5)
    assert memory._within(50, 60, 0, 100) == 0


def test_a_product_reads_again_what_does_not_fit() -> None:
    """Four blocks of rows go through a right operand of 4 MiB: a cache below that fetches it for each of them."""
    nest = [
        touches.Loop(1, "bc"), touches.Loop(1, "ab"), touches.Loop(4, "ac"), touches.Loop(64, "bc"),
        touches.Loop(16, "ac"),
    ]  # fmt: skip
    size = {"a": 1 * MIB, "b": 4 * MIB, "c": 1 * MIB}
    sweep, ways = touches._ways("b", nest, size)
    once = touches.Touch("b", size["b"], sweep, ways)
    assert once.again(8 * MIB) == 0
    assert once.again(1 * MIB) == 3 * 4 * MIB
    # In the first level the panel of B stays while the rows of a block pass by, but for a cache smaller than both.
    assert once.again(KIB) == (4 * 16 - 1) * 4 * MIB
    left = touches.Touch("a", size["a"], *touches._ways("a", nest, size))
    assert left.again(2 * MIB) == 0
    assert left.again(128 * KIB) == 63 * MIB


@pytest.mark.parametrize("graph", [chain_of(3), perceptron(), perceptron(512), attention()], ids=str)
@pytest.mark.parametrize("fusion", ["none", "fine", "full"])
def test_larger_caches_fetch_less(graph: Graph, fusion: str) -> None:
    ready = passes.apply(graph, fusion)
    found = [memory.traffic(ready, (size << 10,)).total[0] for size in (8, 32, 128, 512, 2048, 1 << 16)]
    assert found == sorted(found, reverse=True)
    assert found[-1] == 0
    assert found[0] > 0


def test_fusion_fetches_less() -> None:
    for graph in (perceptron(512), attention()):
        none, fine, full = (
            memory.traffic(passes.apply(graph, fusion), (48 * KIB, cpu.caches().l2))
            for fusion in ("none", "fine", "full")
        )
        assert fine.total[1] < 0.8 * none.total[1]
        assert full.cycles < none.cycles
    assert none.copies == 1
    assert none.copied == 2 * 8 * 256 * 64 * 4
    assert fine.copies == full.copies == 0
    assert full.total[1] < 0.6 * fine.total[1]


def test_long_chains_are_continued_from_their_first_pieces() -> None:
    """Attention of 64 heads fetches four times what that of 16 does, whichever of its pieces are followed."""
    few, many = (memory.traffic(passes.apply(attention(n), "full"), (MIB,)).total[0] for n in (2, 8))
    assert many == pytest.approx(4 * few, rel=0.05)


def test_shared_memory_counts_once() -> None:
    """In place: the same lines are read and written."""
    graph = chain_of(2)
    places = dict.fromkeys(graph.values, "one block")
    assert memory.traffic(graph, (64 * KIB,), places).total[0] == 2 * 256 * KIB


def test_shapes_without_numbers() -> None:
    build = Builder()
    x = build.input("x", (0, 8), "float32")
    build.output(x @ np.ones((8, 4), "f4"), "y")
    assert memory.traffic(build.graph(), (KIB,)).total == (0,)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64", "uint16"])
def test_every_type_of_product(dtype: str) -> None:
    build = Builder()
    build.output(build.input("x", (8, 16), dtype) @ np.ones((16, 4), dtype), "y")
    assert memory.traffic(build.graph(), (1 << 10, 1 << 20)).total[1] == 0


def test_explain_prints_it() -> None:
    said = compile(perceptron()).explain()
    assert "bytes fetched, after" in said
    assert "copies between operations: 0 of 0 bytes" in said
    assert "  a call " in said


def test_passes_that_change_nothing_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    followed = []

    def counted(graph: Graph, *args: Any, **named: Any) -> memory.Traffic:
        followed.append(graph)
        return traffic(graph, *args, **named)

    traffic, ready = memory.traffic, compile(chain_of(1))
    monkeypatch.setattr(memory, "traffic", counted)
    ready.explain()
    assert len(followed) == 2, "one after the passes, one by steps"


def test_the_work_grows_with_the_graph() -> None:
    """Arrays of which nearly all are within reach, so that many lie between two uses of one: lines of Python run."""

    def work(steps: int) -> int:
        lines = 0

        def count(frame: Any, event: str, given: object) -> Any:
            nonlocal lines
            lines += event == "line" and frame.f_globals["__name__"] == memory.__name__
            return count

        graph, before = chain_of(steps, 1, 16), sys.gettrace()
        sys.settrace(count)
        try:
            assert memory.traffic(graph, (60 * steps,)).total[0] > 0
        finally:
            sys.settrace(before)
        return lines

    assert work(400) < 2.2 * work(200)


def test_bytes_used_after_a_step() -> None:
    sizes, last = memory._Sizes(), {}
    rng = np.random.default_rng(0)
    for step in range(1, 600):
        for name in {int(name) for name in rng.integers(0, 50, 3)}:
            if name in last:
                sizes.add(last[name], -name)
            last[name] = step
            sizes.add(step, name)
        for since in (0, step // 3, step - 130, step - 1, step):
            if since >= 0:
                assert sizes.after(since) == sum(name for name, used in last.items() if used > since)
    assert sizes.total == sum(last)
