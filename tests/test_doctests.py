"""Every example in a docstring runs, and every public name has one."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import fastgemm
from fastgemm import dispatch, graph

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


# (`graph` has modules as well, which `test_examples` runs.)
PUBLIC = [(fastgemm, name) for name in fastgemm.__all__]
PUBLIC += [(graph, name) for name in graph.__all__ if not isinstance(getattr(graph, name), ModuleType)]


@pytest.mark.parametrize(("module", "name"), PUBLIC, ids=[f"{module.__name__}.{name}" for module, name in PUBLIC])
def test_public_names(module: ModuleType, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled functions too, which doctest does not find by itself."""
    public = getattr(module, name)
    monkeypatch.chdir(tmp_path)
    assert public.__doc__, f"{name} has no docstring"
    test = doctest.DocTestParser().get_doctest(public.__doc__, {"fastgemm": fastgemm, "np": np}, name, None, 0)
    assert test.examples, f"{name} has no example"
    results = doctest.DocTestRunner(optionflags=FLAGS).run(test)
    assert results.failed == 0


def test_documented_attributes_are_there() -> None:
    for made in (fastgemm.explain(m=3, n=4, k=5), fastgemm.pack(np.eye(2))):
        section = re.search(r"Attributes\n-+\n(.*?)(\n\n\w+\n-+|\Z)", inspect.getdoc(made) or "", re.S)
        assert section
        assert [name for name in re.findall(r"^\w+", section[1], re.M) if not hasattr(made, name)] == []
