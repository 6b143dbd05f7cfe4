"""pytest-benchmark suite: the product of every shape, by one library a run.

    pytest bench --benchmark-enable --library fastgemm --benchmark-json fastgemm.json
    pytest bench --benchmark-enable --library numpy --benchmark-json numpy.json
    python bench/report.py fastgemm.json numpy.json --markdown report.md --png report.png

Tests are grouped by shape, so that pytest-benchmark's own comparison works as well.  One
library a run, because pytest has one process and two thread pools in it would fight; for ratios
measured in turns, and for the figures to trust on a noisy machine, use compare.py.
"""

from __future__ import annotations

from typing import Any

import cases
import peak
import peers
import pytest


def test_matmul(benchmark: Any, case: cases.Case, library: peers.Library) -> None:
    """Time one product and check its answer."""
    a, b = cases.operands(case)
    try:
        bound = library.bind(a, b, result=cases.numpy_dtype(case.result))
        answer = bound.call(bound.a, bound.b)
    except peers.Unsupported as error:
        pytest.skip(str(error))
    wrong = cases.check(a, b, bound.array(answer))
    assert wrong is None, wrong
    benchmark.group = f"{case.label}, {case.threads} threads"
    benchmark.extra_info.update(case=case.to_dict(), library=library.name, peak=_peak(case))
    benchmark(bound.call, bound.a, bound.b)


def _peak(case: cases.Case) -> float | None:
    """FMA peak beside this shape, where fastgemm is there to measure it."""
    try:
        return peak.rate(case.operand, threads=case.threads)
    except (ImportError, RuntimeError, ValueError):
        return None
