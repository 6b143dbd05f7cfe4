"""Whatever legal configuration a record names, a call of any strides is right: a database is input from outside."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from oracle import integers

import fastgemm
from fastgemm import dispatch, kernels, registry
from fastgemm.heuristic import rules
from fastgemm.problem import Problem
from fastgemm.tune.space import Space

# With sides of one, whose strides say nothing.
SIZES = tuple(itertools.product((1, 3, 20), (1, 3, 20), (1, 2, 40)))
WAYS = ("rows", "columns", "every other row", "every other column", "backwards")
# Configurations of each family that a problem is computed by.
OF_EACH = 3


def laid(numbers: np.ndarray, way: str) -> np.ndarray:
    """Return the same numbers under other strides."""
    rows, cols = numbers.shape
    if way == "columns":
        return np.asfortranarray(numbers)
    if way == "rows":
        return numbers.copy()
    large = np.zeros((2 * rows, 2 * cols), numbers.dtype)
    found = {
        "every other row": large[::2, :cols],
        "every other column": large[:rows, ::2],
        "backwards": large[rows - 1 :: -1, cols - 1 :: -1] if rows and cols else large[:0, :0],
    }[way]
    found[...] = numbers
    return found


def chosen(problem: Problem, rng: np.random.Generator) -> list[Any]:
    """Return some configurations of each family that may compute a problem."""
    by_family: dict[str, list[Any]] = {}
    for config in Space(problem, rules.config(problem)).all():
        by_family.setdefault(config.family, []).append(config)
    return [
        configs[at]
        for configs in by_family.values()
        for at in rng.choice(len(configs), min(OF_EACH, len(configs)), replace=False)
    ]


@pytest.mark.parametrize("name", [row.name for row in registry.DTYPES])
def test_legal_configurations(name: str) -> None:
    row, tier = registry.dtype(name), kernels.active_isa()
    if tier is None or not registry.supported(row, tier):
        pytest.skip(f"no kernels for {name} here")
    rng = np.random.default_rng(7)
    known: dict[Problem, list[Any]] = {}
    asked = {"dtype": np.dtype(row.result)} if row.result else {}
    with fastgemm.threads(1):
        for (m, n, k), way_a, way_b in itertools.product(SIZES, WAYS, WAYS):
            a, b = laid(integers((m, k), row.names[0], 1), way_a), laid(integers((k, n), row.names[0], 2), way_b)
            with dispatch.watched() as problems:
                right = fastgemm.matmul(a, b, **asked)
            ((problem, _),) = problems
            if problem not in known:
                known[problem] = chosen(problem, rng)
            for config in known[problem]:
                with dispatch.forced(config):
                    made = fastgemm.matmul(a, b, **asked)
                np.testing.assert_array_equal(made, right, err_msg=f"{m}x{n}x{k} {way_a}, {way_b}: {config}")
    assert {config.family for configs in known.values() for config in configs} >= {"gemv", "small"}
