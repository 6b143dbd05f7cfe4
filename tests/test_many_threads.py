"""Many Python threads at a time, in all that a process shares: with a GIL, and without one where Python has none."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import sysconfig
import threading
from collections.abc import Callable

import numpy as np
import pytest
from oracle import integers

import fastgemm
from fastgemm import cpu, graph
from fastgemm.driver import _plan

ROUNDS = 60
SIZES = (1, 2, 3, 7, 16, 33, 64, 90)
WITHOUT_GIL = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


@pytest.mark.skipif(not WITHOUT_GIL, reason="this Python has a GIL")
def test_no_module_brings_the_gil_back() -> None:
    tiers = {tier.name for tier in cpu.isas()}
    for module in pkgutil.walk_packages(fastgemm.__path__, "fastgemm."):
        name, _, last = module.name.rpartition(".")
        if last.startswith("_") and name != "fastgemm.tune" and last.rpartition("_")[2] in {"", *tiers}:
            importlib.import_module(module.name)
    assert not sys._is_gil_enabled()  # type: ignore[attr-defined]


def sizes(rng: np.random.Generator, count: int) -> list[int]:
    return [int(size) for size in rng.choice(SIZES, count)]


def products(rng: np.random.Generator) -> None:
    m, n, k = sizes(rng, 3)
    char = str(rng.choice(list("fdFDbiH?")))
    a, b = integers((m, k), char, m), integers((k, n), char, n)
    assert np.array_equal(fastgemm.matmul(a, b), np.einsum("ik,kj->ij", a, b))
    a, b = integers((5, m, k), char, m), integers((5, k, n), char, n)
    assert np.array_equal(fastgemm.matmul(a, b), np.einsum("tik,tkj->tij", a, b))


def large(rng: np.random.Generator) -> None:
    """Products for teams, whose outputs come and go."""
    a = integers((200 + 10 * int(rng.integers(8)), 200), "f4", 1)
    out = np.empty((len(a), len(a)), "f4")
    fastgemm.matmul(a, a.T, out=out)
    with fastgemm.threads(int(rng.integers(1, 4))):
        made = [fastgemm.matmul(a[:rows], a.T) for rows in (10, 100, len(a))]
    assert np.array_equal(made[-1], out)
    assert np.array_equal(made[0], np.einsum("ik,jk->ij", a[:10], a))


WEIGHT = integers((64, 96), "f4", 1)
PACKED = fastgemm.pack(WEIGHT)
BYTES = integers((64, 33), "b", 1)
PACKED_BYTES = fastgemm.pack(BYTES, zero_point=3)


def packed(rng: np.random.Generator) -> None:
    a = integers((sizes(rng, 1)[0], 64), "f4", 1)
    want = np.einsum("ik,kj->ij", a, WEIGHT)
    assert np.array_equal(fastgemm.matmul(a, PACKED), want)
    assert np.array_equal(fastgemm.linear(a, PACKED, activation="relu"), np.maximum(want, 0))
    a = integers(a.shape, "b", 2)
    want = a.astype(np.int32) @ (BYTES.astype(np.int32) - 3)
    assert np.array_equal(fastgemm.matmul_integer(a, PACKED_BYTES), want)


def network() -> graph.CompiledGraph:
    build = graph.Builder("two layers")
    x = build.input("x", (16, 64), "float32")
    hidden = build.relu(x @ integers((64, 48), "f4", 1))
    build.output(build.softmax(hidden @ integers((48, 32), "f4", 2)), "y")
    return graph.compile(build.graph(), threads=1, workspaces=2)


NETWORK = network()
INPUT = integers((16, 64), "f4", 3)
OUTPUT = NETWORK(x=INPUT)


def networks(rng: np.random.Generator) -> None:
    assert np.array_equal(NETWORK(x=INPUT), OUTPUT)
    if rng.random() < 0.1:
        NETWORK.renew()


def installed(rng: np.random.Generator) -> None:
    m, n, k = sizes(rng, 3)
    a, b = integers((m, k), "d", m), integers((k, n), "d", n)
    with fastgemm.installed():
        assert np.array_equal(a @ b, np.einsum("ik,kj->ij", a, b))


def forgetting(rng: np.random.Generator) -> None:
    """What makes plans stale, and counts them, while others look for theirs."""
    _plan.count_calls(rng.random() < 0.5)
    _plan.take_counts()
    with fastgemm.deterministic():
        products(rng)
    fastgemm.explain(m=40, n=50, k=60)
    m, n, k = sizes(rng, 3)
    a, b = integers((m, k, 3), "d", m), integers((3, k, n), "d", n)
    assert np.array_equal(fastgemm.einsum("mka,akn->mn", a, b), np.einsum("mka,akn->mn", a, b))


def test_whatever_others_do_meanwhile() -> None:
    """Two threads for each kind of work, and every result is its own."""
    failed: list[BaseException] = []

    def repeat(work: Callable[[np.random.Generator], None], seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            for _ in range(ROUNDS):
                work(rng)
        except BaseException as error:
            failed.append(error)

    every = 2 * (products, large, packed, networks, installed, forgetting)
    threads = [threading.Thread(target=repeat, args=(work, seed)) for seed, work in enumerate(every)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        _plan.count_calls(False)
    if failed:
        raise failed[0]
    assert not fastgemm.is_installed()
