"""`explain` and `show_config`: what they report, and what they refuse."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fastgemm
from fastgemm import cpu, kernels, registry


def test_explain_of_arrays_and_sizes_agree() -> None:
    a, b = np.ones((20, 30), "f4"), np.ones((30, 40), "f4")
    assert fastgemm.explain(a, b).problem == fastgemm.explain(m=20, n=40, k=30).problem
    assert fastgemm.explain(a, b[:, 0]).problem == fastgemm.explain(a, b[:, :1]).problem
    assert fastgemm.explain(np.asfortranarray(a), b).problem.layout == "tn"
    assert fastgemm.explain(a, b[::2].repeat(2, 0)[:, ::2]).problem.layout == "ng"
    assert fastgemm.explain(np.ones((7, 20, 30), "f4"), b).problem.batch == 7
    assert fastgemm.explain(a, b, num_threads=1).problem.threads == 1


def test_explain_tells_what_plans_add(monkeypatch: pytest.MonkeyPatch) -> None:
    tiers = kernels.runnable()
    if not tiers:
        pytest.skip("no kernels run on this CPU")
    monkeypatch.setattr(cpu, "caches", lambda: cpu.Caches(32 << 10, 1 << 20, 4 << 20))
    lanes = registry.lanes(registry.dtype("f32"), tiers[-1])
    sizes = {"m": 300, "n": 4 * lanes, "k": 300, "num_threads": 1}
    assert "share vectors" in repr(fastgemm.explain(**{**sizes, "n": 4 * lanes + 1}))
    assert "share vectors" not in repr(fastgemm.explain(**sizes))
    assert "fetched meanwhile" in repr(fastgemm.explain(**sizes, batch=50, layout="tt"))
    assert "fetched meanwhile" not in repr(fastgemm.explain(**sizes, layout="tt"))


@pytest.mark.parametrize("bad", [{}, {"m": 3}, {"m": 3, "n": 3, "k": 0}, {"m": 3, "n": 3, "k": 3, "dtype": "g"}])
def test_explain_of_nonsense(bad: dict[str, object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        fastgemm.explain(**bad)  # type: ignore[arg-type]
    with pytest.raises((TypeError, ValueError)):
        fastgemm.explain(np.ones((2, 3)))


def test_the_types_that_there_are_kernels_for_are_named_once() -> None:
    with pytest.raises(ValueError, match="no kernels for dtype 'float128'") as caught:
        registry.dtype("float128")
    named = str(caught.value).partition("kernels for ")[2].partition("kernels for ")[2].split(", ")
    assert sorted(named) == sorted({name for row in registry.DTYPES for name in row.names})


def test_show_config(capsys: pytest.CaptureFixture[str]) -> None:
    assert fastgemm.show_config() is None
    printed = json.loads(capsys.readouterr().out)
    found = fastgemm.show_config(mode="dict")
    assert found is not None
    assert set(printed) == set(found)
    assert found["cpu_key"] == cpu.key()
    assert found["isa"] in (*[tier.name for tier in kernels.runnable()], None)
    with pytest.raises(ValueError, match="mode"):
        fastgemm.show_config(mode="xml")
