"""Stacks of tiny products: every measured rule gives a way that computes them, and right answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracle import dtype_of, integers

from fastgemm import kernels, registry
from fastgemm.heuristic import measured, rules, stacks
from fastgemm.heuristic.stacks_rules import RULES
from fastgemm.plan import Plan
from fastgemm.problem import Problem, normalised

LINES = [line.split() for line in RULES.strip().splitlines()]
NAMES = sorted({line[0] for line in LINES})
WAYS = {"1": ("gemv", "small", "dots"), "2": ("small", "dots", "blocks")}  # by letters of the layout
ITEMS = 7


def lines(name: str, tier: str) -> list[list[str]]:
    """Return the rules of a type and tier."""
    return [line for line in LINES if line[0] == name and line[1].endswith("-" + tier)]


def problems(line: list[str]) -> list[Problem]:
    """Return those at the least sizes of a line and at the most, where calls have such."""
    layout = line[1].split("-")[0]
    most = stacks.LONGEST if len(layout) == 1 else stacks.TINY
    sides = [side.split("-") for side in line[2:5]]
    found = []
    for end in (0, 1):
        n, m, k = (int(side[end] or most) for side in sides)
        found.append(Problem(line[0], 1 if len(layout) == 1 else m, n, k, ITEMS, layout.rjust(2, "n")))
    return [problem for problem in found if problem == normalised(problem)]


def assert_right(problem: Problem, tier: registry.Isa | None) -> None:
    """Of numbers whose sums are exact, operands as the layout says."""
    p, kind = problem, dtype_of(problem.row.numpy)
    a = integers((p.batch, p.k, p.m) if p.layout[0] == "t" else (p.batch, p.m, p.k), kind, p.n, high=1)
    b = integers((p.batch, p.n, p.k) if p.layout[1] == "t" else (p.batch, p.k, p.n), kind, p.k, high=1)
    a, b = a.mT if p.layout[0] == "t" else a, b.mT if p.layout[1] == "t" else b
    wide = np.dtype("i8") if kind.kind in "biu" else np.dtype("c16") if kind.kind == "c" else np.dtype("f8")
    want = a.astype(wide) @ b.astype(wide)
    got = Plan(problem, rules.config(problem, tier)).run(a, b).astype(wide)
    assert np.array_equal(got, want.astype(bool) if kind.kind == "b" else want), problem


@pytest.mark.parametrize("tier", ["v3", "v4"])
@pytest.mark.parametrize("name", NAMES)
def test_every_rule(name: str, tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a tier by itself."""
    isa = registry.isa(tier)
    if isa not in kernels.runnable():
        pytest.skip("this CPU has no such tier")
    kernels.load(tier)
    monkeypatch.setenv("FASTGEMM_ISA", tier)
    assert stacks.key(isa) == tier
    for line in lines(name, tier):
        assert line[5] in (*WAYS[str(line[1].index("-"))], measured.NO_WAY)
        for problem in problems(line):
            way, config = stacks.way(problem, isa), rules.config(problem, isa)
            assert config.misfit(problem) is None
            # (Tile registers go before all of this.)
            tiles = registry.by_matrices(config.family)
            assert way == "" or tiles or measured.computes(config, way), (line, config)
            assert_right(problem, isa)


@pytest.mark.usefixtures("zen4")
@pytest.mark.skipif(not kernels.has("gemm", "v4"), reason="no AVX-512")
@pytest.mark.parametrize("name", NAMES)
def test_every_rule_of_two_tiers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a CPU that computes the longer vectors in two halves: the tier follows from the way."""
    monkeypatch.delenv("FASTGEMM_ISA", raising=False)
    for tier in ("v3", "v4"):
        kernels.load(tier)
    for line in lines(name, stacks.HALVED):
        for problem in problems(line):
            way, config = stacks.way(problem, registry.isa("v4")), rules.config(problem)
            assert config.misfit(problem) is None
            if way and not registry.by_matrices(config.family):
                assert measured.computes(config, way), (line, config)
                assert config.isa == ("v3" if way in measured.OF_SHORT_VECTORS else "v4"), line
            assert_right(problem, None)


def test_which_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Single rows by matrices of few columns and steps, and tiny products, in stacks that are near."""
    monkeypatch.setenv("FASTGEMM_ISA", "v3")
    isa = registry.isa("v3")
    rotated, turned = Problem("f64", 1, 3, 16, 100, "nt"), Problem("f32", 3, 2, 3, 100, "nt")
    assert stacks.way(rotated, isa) == "gemv"
    assert stacks.way(turned, isa) == "dots"
    for change in ({"batch": 1}, {"k": 129}, {"n": 129}, {"layout": "tn"}, {"layout": "ng"}, {"batch": 10_000_000}):
        assert stacks.way(replace(rotated, **change), isa) == "", change
    for change in ({"m": 9}, {"n": 9}, {"k": 9}, {"layout": "gg"}):
        assert stacks.way(replace(turned, **change), isa) == "", change
    # From memory dot products are worth it still.
    assert stacks.way(replace(turned, batch=10_000_000), isa) == "dots"
    # A column of a stack lies alike whatever its letter says.
    one = Problem("f64", 1, 1, 3, 100)
    assert stacks.way(one, isa) == stacks.way(replace(one, layout="nt"), isa) == "small"
