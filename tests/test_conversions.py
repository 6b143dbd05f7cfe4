"""Few rows of numbers that are converted: small's kernels where those cost less than packing, and dot products."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fastgemm
from fastgemm import kernels, registry
from fastgemm.heuristic import conversions, rules
from fastgemm.plan import Plan
from fastgemm.problem import Problem

ISA = kernels.active_isa()
CASES = sorted({(name, layout) for name, layout, *_ in conversions.CONVERTING})
SHAPES = list(itertools.product((2, 5, 16, 33), (2, 3, 8, 17), (1, 2, 7, 40)))


def numbers(stack: tuple[int, ...], rows: int, columns: int, letter: str, row: registry.DType) -> np.ndarray:
    turned = letter == "t"
    shape = (columns, rows) if turned else (rows, columns)
    made = np.random.default_rng(rows).integers(0, 2, (*stack, *shape)).astype(row.numpy)
    return made.swapaxes(-1, -2) if turned else made


@pytest.mark.skipif(ISA is None or ISA.vector_bytes < 32, reason="needs AVX2")
@pytest.mark.parametrize(("name", "layout"), [case for case in CASES if case[0] in ("i8", "bool", "f16")], ids=str)
def test_few_rows(name: str, layout: str) -> None:
    """The rules take small's kernels, for one product and a stack, and the answers are NumPy's."""
    row, families = registry.dtype(name), set()
    for (m, n, k), batch in itertools.product(SHAPES, (1, 3)):
        problem = Problem(name, m, n, k, batch, layout)
        config = rules.config(problem)
        assert config.misfit(problem) is None
        families.add(config.family)
        stack = (batch,) if batch > 1 else ()
        a, b = numbers(stack, m, k, layout[0], row), numbers(stack, k, n, layout[1], row)
        assert np.array_equal(Plan(problem, config).run(a, b), np.matmul(a, b)), problem
        assert np.array_equal(fastgemm.matmul(a, b), np.matmul(a, b)), problem
    assert "small" in families


@pytest.mark.parametrize(("name", "layout"), CASES, ids=str)
@pytest.mark.parametrize("tier", ["v3", "v4"])
def test_many_rows_are_packed(name: str, layout: str, tier: str) -> None:
    assert name in registry.BY_NAME
    isa = registry.isa(tier)
    assert conversions.converts_for_less(Problem(name, 3, 2, 1, 2, layout), isa)
    assert not conversions.converts_for_less(Problem(name, 500, 500, 500, layout=layout), isa)
    assert conversions.converts_for_less(Problem("bf16", 3, 2, 1), isa) is None, "has rules of its own"


def test_results_of_another_type_are_converted_alike() -> None:
    for name, other in (("f16_f32", "f16"), ("bf16_f32", "bf16")):
        for layout, k in itertools.product(("nt", "tn", "tt"), (2, 2000)):
            given, alike = (Problem(one, 4, 40, k, layout=layout) for one in (name, other))
            tier = registry.isa("v3")
            assert conversions.converts_for_less(given, tier) is conversions.converts_for_less(alike, tier)
