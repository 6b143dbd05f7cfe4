"""Single rows by the matrices of a stack: every measured rule gives a way that computes them, and right answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracle import dtype_of, integers

from fastgemm import kernels, registry
from fastgemm.heuristic import half_narrow, rules, stack_rows
from fastgemm.heuristic.stack_rows_rules import RULES
from fastgemm.plan import Plan
from fastgemm.problem import Problem, normalised

LINES = [line.split() for line in RULES.strip().splitlines()]
ITEMS = 7


def problems(line: list[str]) -> list[Problem]:
    """Return those at the least sizes of a line and at the most, where calls have such."""
    columns, steps = (side.split("-") for side in (line[2], line[4]))
    letter = line[1].split("-")[0]
    sides = [(int(columns[end] or stack_rows.LONGEST), int(steps[end] or stack_rows.LONGEST)) for end in (0, 1)]
    found = [Problem(line[0], 1, n, k, ITEMS, "n" + letter) for n, k in sides]
    return [problem for problem in found if problem == normalised(problem)]


def assert_right(plan: Plan) -> None:
    """Of numbers whose sums are exact; operands between others, which no kernel may touch, nor take for its own."""
    p = plan.problem
    kind = dtype_of(p.row.numpy)
    a = integers((p.batch, 1, p.k), kind, p.n, high=1)
    b = integers((p.batch, p.n, p.k) if p.layout[1] == "t" else (p.batch, p.k, p.n), kind, p.k, high=1)
    b = b.mT if p.layout[1] == "t" else b
    wide = np.dtype("i8") if kind.kind in "biu" else np.dtype("c16") if kind.kind == "c" else np.dtype("f8")
    want = a.astype(wide) @ b.astype(wide)
    assert np.array_equal(plan.run(a, b).astype(wide), want.astype(bool) if kind.kind == "b" else want), plan


@pytest.mark.parametrize("tier", ["v3", "v4"])
@pytest.mark.parametrize("name", sorted({line[0] for line in LINES}))
def test_every_rule(name: str, tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a tier by itself."""
    isa = registry.isa(tier)
    if isa not in kernels.runnable():
        pytest.skip("this CPU has no such tier")
    kernels.load(tier)
    monkeypatch.setenv("FASTGEMM_ISA", tier)
    assert stack_rows.key(isa) == tier
    seen = 0
    for line in LINES:
        if line[0] != name or not line[1].endswith(tier):
            continue
        assert line[3] == "1-"
        assert line[5] in ("gemv", "small", "dots", half_narrow.NO_WAY)
        for problem in problems(line):
            way, config = stack_rows.way(problem, isa), rules.config(problem, isa)
            assert config.misfit(problem) is None
            assert way == "" or half_narrow.computes(config, way), (line, config)
            assert_right(Plan(problem, config))
            seen += way != ""
    assert seen or not any(line[0] == name and line[1].endswith(tier) for line in LINES)


@pytest.mark.usefixtures("zen4")
@pytest.mark.skipif(not kernels.has("gemm", "v4"), reason="no AVX-512")
@pytest.mark.parametrize("name", sorted({line[0] for line in LINES}))
def test_every_rule_of_two_tiers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a CPU that computes the longer vectors in two halves: the tier follows from the way."""
    monkeypatch.delenv("FASTGEMM_ISA", raising=False)
    for tier in ("v3", "v4"):
        kernels.load(tier)
    for line in LINES:
        if line[0] != name or not line[1].endswith(stack_rows.HALVED):
            continue
        for problem in problems(line):
            way, config = stack_rows.way(problem, registry.isa("v4")), rules.config(problem)
            assert config.misfit(problem) is None
            if way:
                assert half_narrow.computes(config, way), (line, config)
                assert config.isa == ("v3" if way in half_narrow.OF_SHORT_VECTORS else "v4"), line
            assert_right(Plan(problem, config))


def test_which_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stacks of single rows, of few columns and steps, near ones, with nothing between their numbers."""
    monkeypatch.setenv("FASTGEMM_ISA", "v3")
    isa = registry.isa("v3")
    wanted = Problem("f32", 1, 3, 16, 100)
    assert stack_rows.way(wanted, isa) == "gemv"
    for change in (
        {"m": 2}, {"batch": 1}, {"k": 129}, {"n": 129}, {"layout": "tn"}, {"layout": "ng"}, {"batch": 10_000_000},
    ):  # fmt: skip
        assert stack_rows.way(replace(wanted, **change), isa) == "", change
    # A column of a stack lies alike whatever its letter says.
    one = Problem("f64", 1, 1, 3, 100)
    assert stack_rows.way(one, isa) == stack_rows.way(replace(one, layout="nt"), isa) == "small"
