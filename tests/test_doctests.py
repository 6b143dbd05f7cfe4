"""Every example in a docstring runs, and every public name has one."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import fastgemm
from fastgemm import dispatch

PACKAGE = Path(fastgemm.__file__).parent
# Compiled kernels are not imported to look for examples: a CPU may lack their instructions.
MODULES = sorted(
    ".".join(["fastgemm", *p.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__")
    for p in PACKAGE.rglob("*.py")
    if p.name not in ("_build.py", "__main__.py")
)
FLAGS = doctest.NORMALIZE_WHITESPACE


def load(name: str) -> ModuleType:
    """Import a module; the tuner's extras may be absent."""
    if name.startswith("fastgemm.tune"):
        for extra in ("optuna", "scipy", "rich"):
            pytest.importorskip(extra)
    if name.endswith((".boosting", ".xgb")):
        pytest.importorskip("xgboost")
    return importlib.import_module(name)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str, database_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(name)
    monkeypatch.chdir(tmp_path)
    try:
        failed, _ = doctest.testmod(module, optionflags=FLAGS)
    finally:
        dispatch.reload()
    assert failed == 0


@pytest.mark.parametrize("name", fastgemm.__all__)
def test_public_names(name: str) -> None:
    """Compiled functions too, which doctest does not find by itself."""
    public = getattr(fastgemm, name)
    assert public.__doc__, f"{name} has no docstring"
    test = doctest.DocTestParser().get_doctest(public.__doc__, {"fastgemm": fastgemm, "np": np}, name, None, 0)
    assert test.examples, f"{name} has no example"
    results = doctest.DocTestRunner(optionflags=FLAGS).run(test)
    assert results.failed == 0
