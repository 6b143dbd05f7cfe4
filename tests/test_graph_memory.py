"""The memory model: what it says of cases that can be counted by hand, and that it orders graphs as it should."""

from __future__ import annotations

import sys
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fastgemm import cpu, dispatch, kernels
from fastgemm.graph import Builder, Graph, compile, costs, memory, passes, touches
from fastgemm.graph.ir import Node
from fastgemm.heuristic import rules
from fastgemm.problem import Config, Problem

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


def product(left: tuple[int, ...], right: tuple[int, ...], rows: int | None = None) -> list[touches.Touch]:
    """What ``a @ b`` touches; of ``rows``, a member of a chain."""
    build = Builder()
    build.output(build.input("a", left, "float32") @ build.input("b", right, "float32"), "y")
    graph = build.graph()
    return touches.of_node(graph, graph.nodes[-1], rows)


def test_what_fits_is_fetched_once() -> None:
    """Three arrays of 256 KiB: a cache that holds all of them fetches nothing in the second call, a small one all."""
    whole = memory.traffic(chain_of(2), (64 * KIB, 3 * 256 * KIB))
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
    # One way through B passes one block of rows; one through A is the whole product.
    assert once.sweep == (1 + 16 + 1) * MIB // 4
    assert left.sweep == 6 * MIB


def test_stacks_of_products() -> None:
    """By one matrix they are a product of more rows; otherwise each matrix is one."""
    assert product((4, 128, 512), (512, 512)) == product((512, 512), (512, 512))
    for stack, alone in zip(product((4, 128, 512), (4, 512, 512)), product((128, 512), (512, 512)), strict=True):
        assert stack.size == 4 * alone.size
        assert stack[2:] == alone[2:]
    assert any(touch.ways for touch in product((128, 512), (512, 512)))


def test_a_member_of_a_chain_touches_the_rows_of_its_piece() -> None:
    """And the whole of a matrix that they are multiplied by: of a stack's, theirs."""
    for left, right in (((64, 512), (512, 512)), ((4, 64, 512), (512, 512)), ((4, 64, 512), (4, 512, 512))):
        assert product(left, right, 8) == product((8, 512), (512, 512))
    build = Builder()
    x, mask = build.input("x", (4, 64, 512), "float32"), build.input("mask", (4, 1, 512), "float32")
    bias, beside = build.input("bias", (512,), "float32"), build.input("beside", (1, 64, 512), "float32")
    build.output(x + mask + bias + beside, "y")
    graph = build.graph()
    sizes = [[one.size for one in touches.of_node(graph, node, 8)] for node in graph.nodes]
    assert sizes == [[8 * 2048, rows * 2048, 8 * 2048] for rows in (1, 1, 8)]
    build = Builder()
    build.output(build.input("x", (64, 1, 512), "float32") + build.input("y", (64, 1, 512), "float32"), "z")
    graph = build.graph()
    assert [one.size for one in touches.of_node(graph, graph.nodes[0], 8)] == [8 * 2048] * 3, "matrices of one row"


def test_numbers_that_are_repeated_lie_there_once() -> None:
    build = Builder()
    build.output(build.relu(build.broadcast(build.input("x", (1, 64), "float32"), shape=(32, 64))), "y")
    graph = build.graph()
    assert [touches.bytes_of(graph, node.output) for node in graph.nodes] == [256, 32 * 256]


def test_the_loops_of_a_product_are_those_of_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Problem] = []

    def turns(config: Config, m: int, n: int, k: int, dtype: str = "float32", packed: bool = False) -> list[float]:
        def resolve(problem: Problem, limbs: bool) -> Any:
            asked.append(problem)
            return SimpleNamespace(config=config)

        monkeypatch.setattr(dispatch, "resolve", resolve)
        return [loop.turns for loop in touches.loops(m, n, k, np.dtype(dtype), packed)]

    gemm = Config("gemm", "v3", 6, 16, mc=120, kc=256, nc=512)
    assert turns(gemm, 240, 1024, 512, packed=True) == [2, 2, 2, 32, 20]
    assert turns(gemm, 60, 48, 30) == [1, 1, 1, 3, 10]
    assert turns(gemm, 3, 8, 30, "uint8") == [1] * 5
    assert turns(gemm.replace(family="small"), 240, 1024, 512) == [1, 1, 1, 64, 40]
    assert turns(gemm.replace(family="gemv"), 240, 1024, 512) == [1] * 5
    assert turns(gemm.replace(family="dots", mr=0, nr=0), 240, 1024, 512) == [2, 2, 2, 1, 1]
    assert [(problem.dtype, problem.layout, problem.threads) for problem in asked[:3]] == [
        ("f32", "np", 1), ("f32", "nn", 1), ("i8_i32", "nn", 1),
    ]  # fmt: skip
    asked.clear()
    assert turns(gemm, 240, 1024, 512, "longdouble") == [1] * 5
    monkeypatch.setattr(kernels, "active_isa", lambda: None)
    assert turns(gemm, 240, 1024, 512) == [1] * 5
    assert not asked, "no plan without kernels"


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


def test_an_array_that_is_used_again_and_again_counts_once() -> None:
    """Four of 256 KiB, of which one holds what three steps make."""
    build = Builder()
    x, y = (build.input(name, (64, 1024), "float32") for name in "xy")
    build.output(build.relu(x), "z")
    for _ in range(3):
        y = build.relu(y)
    build.output(x + y, "w")
    graph = build.graph()
    places = {name: name if name in "xzw" else "one block" for name in graph.values}
    assert memory.traffic(graph, (1024 * KIB,), places).total == (0,)


def test_of_arrays_in_shared_memory_the_larger_counts() -> None:
    for kind, other in (("float16", "float32"), ("float32", "float16")):
        build = Builder()
        build.output(build.cast(build.input("x", (64, 1024), kind), dtype=other), "y")
        assert memory.traffic(build.graph(), (KIB,), {"x": "one block", "y": "one block"}).total[0] == 64 * 1024 * 4


def test_views_are_their_sources_memory() -> None:
    build = Builder()
    x = build.input("x", (64, 1024), "float32")
    build.output(build.relu(build.relu(x).reshape(1024, 64)), "y")
    assert memory.traffic(build.graph(), (600 * KIB,)).total == memory.traffic(chain_of(2), (600 * KIB,)).total


def as_chain(graph: Graph, block: int, keys: int = 0) -> Graph:
    """All of a graph's nodes as one chain."""
    body = costs.part(graph, graph.nodes)
    chain = Node("chain", tuple(body.inputs), tuple(body.outputs), {"body": body, "block": block, "keys": keys})
    return Graph([chain], [body.values[name] for name in (*body.inputs, *body.outputs)], body.inputs, body.outputs)


def test_each_piece_of_a_chain_reads_its_weights() -> None:
    """16 pieces of 16 KiB an array, and two weights of 256 KiB, which a cache holds beside a piece or does not."""
    build, weight = Builder(), np.ones((256, 256), "f4")
    x = build.input("x", (256, 256), "float32")
    build.output(build.relu(x @ weight) @ weight.T.copy() + x, "y")
    graph = build.graph()
    large, small = (memory.traffic(as_chain(graph, 16), (size << 10,)).total[0] for size in (1024, 400))
    assert 512 * KIB <= large < 2 * 512 * KIB
    assert 16 * 512 * KIB < small <= 16 * (512 + 4 * 16) * KIB
    assert large < memory.traffic(graph, (1024 * KIB,)).total[0]


def test_pieces_read_the_rows_of_a_mask_that_they_need() -> None:
    """A constant as an input; of a mask of 256 KiB that eight heads share, which stays in a cache, there is one."""

    def masked(shape: tuple[int, ...], known: bool, size: int) -> int:
        build = Builder()
        q, k, v = (build.input(name, (1, 8, 256, 64), "float32") for name in "qkv")
        mask = build.constant(np.zeros(shape, "f4")) if known else build.input("mask", shape, "float32")
        build.output(build.softmax(q @ k.T + mask) @ v, "y")
        return memory.traffic(as_chain(build.graph(), 64), (size << 10,)).total[0]

    shapes = ((1, 8, 256, 256), (1, 1, 256, 256), (256, 256), (1, 8, 1, 256))
    for size in (48, 512, 2048):
        given, known = ([masked(shape, known, size) for shape in shapes] for known in (False, True))
        assert given == known
        assert given[1] == given[2]
    # Queries, keys, values and means are 2 MiB, of which a part is still there.
    assert given[0] > 3 * MIB > 2 * MIB > given[1] > given[3]


def test_parts_of_the_keys_stay_in_the_cache() -> None:
    """Scores of a piece are 1 MiB, those of a part of the keys 256 KiB."""
    build = Builder()
    q, k, v = (build.input(name, (1, 1, 2048, 64), "float32") for name in "qkv")
    build.output(build.softmax(q @ k.T) @ v, "y")
    whole, parts = (memory.traffic(as_chain(build.graph(), 128, keys), (2 * MIB,)).total[0] for keys in (0, 512))
    assert parts <= 4 * 512 * KIB < whole, "queries, keys, values and means once"


def test_costs_of_ways() -> None:
    graph = passes.apply(perceptron(512, (64, 512, 512, 512, 128)), "fine")
    run = [node for node in graph.nodes if node.kind != "view"]
    one, two = (costs.Costs(graph, threads, (48 * KIB, MIB, 32 * MIB)) for threads in (1, 2))
    assert one.apart([]) == 0
    assert one.apart(run[1:2]) == one.apart(run[2:3]), "layers of one kind"
    for way in (one.apart(run), one.chained(run, 64)):
        assert way > one.apart(run[:2]) > costs.STEP
    assert two.chained(run, 64) < one.chained(run, 64) < 2 * two.chained(run, 64)
    # One item for all rows keeps a thread waiting.
    assert two.chained(run, 512) > two.chained(run, 256)
    # What costs too much is not followed to the end, and not taken for the cost.
    assert two.chained(run, 32, limit=1.0) == np.inf
    assert two.chained(run, 32) < np.inf
    assert two.chained(run, 32, limit=1.0) < np.inf, "known by now"


def test_products_are_estimated_as_they_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Problem] = []
    monkeypatch.setattr(rules, "cycles", lambda problem, config: asked.append(problem) or 1.0)

    def problems(left: Any, right: Any, known: bool, turned: bool = False, rows: int = 0) -> list[tuple[Any, ...]]:
        build = Builder()
        other = build.constant(np.ones(right, "f4")) if known else build.input("b", right, "float32")
        build.output(build.input("a", left, "float32") @ (other.T if turned else other), "y")
        graph = build.graph()
        nodes, ways = [node for node in graph.nodes if node.kind != "view"], costs.Costs(graph, 2, (KIB, MIB, 8 * MIB))
        asked.clear()
        _ = ways.chained(nodes, rows) if rows else ways.apart(nodes)
        return [(p.m, p.n, p.k, p.batch, p.layout, p.threads) for p in asked[:1]]

    assert problems((4, 96, 64), (64, 128), False) == [(384, 128, 64, 1, "nn", 2)]
    assert problems((4, 96, 64), (64, 128), True) == [(384, 128, 64, 1, "np", 2)]
    assert problems((4, 96, 64), (4, 64, 128), False) == [(96, 128, 64, 4, "nn", 2)]
    assert problems((4, 96, 64), (4, 64, 128), True) == [(96, 128, 64, 4, "nn", 2)]
    assert problems((4, 96, 64), (4, 128, 64), False, turned=True) == [(96, 128, 64, 4, "nt", 2)]
    assert problems((4, 96, 64), (64, 128), True, rows=8) == [(8, 128, 64, 1, "np", 1)]
    assert problems((4, 96, 64), (4, 64, 128), False, rows=8) == [(8, 128, 64, 1, "nn", 1)]


def test_pieces() -> None:
    assert memory.cut((4, 100, 64), True, 32) == (13, (32, 13, True))
    assert memory.cut((4, 100, 64), False, 32) == (16, (32, 4, False))
    assert memory.cut((4, 100, 64), False, 128) == (4, (100, 1, False))


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
