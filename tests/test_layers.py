"""The layers point one way: a module imports only from below, and importing the package needs NumPy alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Child

import fastgemm

PACKAGE = Path(fastgemm.__file__).parent
# Lowest first.  Those on one line do not know of each other.  A folder is one layer, but for the rules: kernels and
# driver know the lower ones of them.
APART = "heuristic"
LAYERS = (
    ("kinds", "locks", "variables"),
    ("registry", "version", "_outputs", "heuristic", "heuristic.half_narrow_rules", "heuristic.stacks_rules"),
    ("cpu", "row_operations", "activations", "segments"),
    ("allowed",),
    ("heuristic.ways",),
    ("problem", "numpy_types", "special_shapes"),
    ("heuristic.strides", "heuristic.measured", "heuristic.conversions", "heuristic.costs"),
    ("heuristic.stacks", "heuristic.half_narrow"),
    ("heuristic.half_tier",),
    ("heuristic.l1",),
    ("heuristic.l1_written", "heuristic.l1_stacks", "heuristic.l1_columns", "heuristic.brief"),
    ("heuristic.l1_blocks", "heuristic.l1_streams"),
    ("heuristic.l1_half_lines",),
    ("heuristic.family_small", "heuristic.family_dots", "heuristic.family_strips"),
    ("driver",),
    ("kernels",),
    ("heuristic.packing", "heuristic.matrices", "heuristic.limbs", "database", "untuned", "special"),
    ("heuristic.blocks",),
    ("heuristic.rules", "heuristic.packed_b"),
    ("heuristic.chain_items",),
    ("plan",),
    ("dispatch",),
    ("float_errors", "terms"),
    ("_call",),
    ("_gufunc", "_gemm", "_rows"),
    ("threads", "_packed"),
    ("packed", "_matmul"),
    ("blas", "_install", "_contraction", "_mixed", "_linear", "subscripts", "epilogues"),
    ("members",),
    ("_chain", "_to_bytes"),
    ("mixed", "layer"),
    ("chain",),
    ("quantized", "to_bytes"),
    ("quantized_layer",),
    ("contraction", "numpy_loops"),
    ("products", "einstein"),
    ("graph",),
    ("introspect",),
    ("__init__",),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
# Builds the package, so it belongs to none of the layers and loads the registry by path.
OUTSIDE = {"_build"}
SOURCES = sorted(
    p
    for pattern in ("*.py", "*.pyx", "*.pxd", "*.tp")
    for p in PACKAGE.rglob(pattern)
    if p.relative_to(PACKAGE).parts[0].split(".")[0] not in OUTSIDE
)
FORBIDDEN = (
    "optuna",
    "xgboost",
    "scipy",
    "rich",
    "jsonschema",
    "platformdirs",
    "filelock",
    "matplotlib",
    "pytest",
    "Cython",
)


def layer_of(path: Path) -> str:
    """Name of the layer that a file belongs to."""
    first, *rest = path.relative_to(PACKAGE).with_suffix("").parts
    return f"{first}.{rest[0]}" if first == APART and rest != ["__init__"] else first.split(".")[0]


def is_part(name: str) -> bool:
    """Whether a name under the package is a module (or else something that `__init__` defines)."""
    return any(PACKAGE.glob(f"{name}.*")) or (PACKAGE / name).is_dir()


def absolute(module: str | None, dots: int, path: Path) -> str:
    """Full name of what ``from {dots}{module} import`` means in a file."""
    if not dots:
        return module or ""
    folders = ["fastgemm", *path.relative_to(PACKAGE).parts[:-1]]
    base = folders[: len(folders) - dots + 1]
    return ".".join([*base, *([module] if module else [])])


def imported(path: Path) -> Iterator[str]:
    """Every layer that a source file imports or cimports from, wherever in the file."""
    for module, names in python_imports(path) if path.suffix == ".py" else cython_imports(path):
        parts = module.split(".")
        if parts[0] != "fastgemm":
            continue
        if parts[1:] == [APART]:
            yield from (f"{APART}.{name}" for name in names)
        elif parts[1:2] == [APART]:
            yield ".".join(parts[1:3])
        elif len(parts) > 1:
            yield parts[1]
        else:
            yield from (name if is_part(name) else "__init__" for name in names or ["__init__"])


def python_imports(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Modules and names of the import statements of Python source."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield absolute(node.module, node.level, path), [alias.name for alias in node.names]


def cython_imports(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Modules and names of the import and cimport statements of Cython source, templates included."""
    text = re.sub(r"\\\n|\((.*?)\)", lambda m: (m[1] or "").replace("\n", " "), path.read_text(), flags=re.S)
    for line in text.splitlines():
        if found := re.match(r"\s*from\s+(\.*)([\w.]*)\s+c?import\s+(.*)", line):
            dots, module, names = found.groups()
            yield absolute(module, len(dots), path), re.findall(r"(\w+)(?:\s+as\s+\w+)?", names.split("#")[0])
        elif found := re.match(r"\s*c?import\s+([\w., ]+)", line):
            yield from ((name.split(" as ")[0].strip(), []) for name in found[1].split(","))


# (Strategies are found by looking into their folder, and each says in its first line what it is.)
MAPPED = [p for p in SOURCES if p.stem not in ("__init__", "__main__") and p.parent.name != "strategies"]


@pytest.mark.parametrize("path", MAPPED, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_every_module_is_on_the_map(path: Path) -> None:
    """Its folder's docstring says what it is, by its name or by that of several (``l1_*.py``)."""
    stem = path.name.split(".")[0]
    about = ast.get_docstring(ast.parse((path.parent / "__init__.py").read_text())) or ""
    words = set(re.findall(r"\w+\*?", about))
    starts = tuple(word[:-1] for word in words if word.endswith("*"))
    assert stem in words or stem.startswith(starts), f"{path.parent.name}/__init__.py does not name it"


def test_every_module_has_a_layer() -> None:
    found = {layer_of(p) for p in SOURCES} - {"tune"}
    assert found == set(LEVEL)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    mine = layer_of(path)
    for other in set(imported(path)) - {mine}:
        if mine == "tune":
            # It compiles kernels as the build does.
            assert other in LEVEL or other == "tune" or other in OUTSIDE, f"{path.name} imports {other}"
        else:
            assert other != "tune", f"{path.name} imports the tuner"
            assert LEVEL[other] < LEVEL[mine], f"{mine} ({path.name}) imports {other}, which is not below it"


def test_the_reading_of_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parsers of this file see every form of import."""
    monkeypatch.setattr("test_layers.PACKAGE", tmp_path)
    (tmp_path / "sub").mkdir()
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}.py").touch()
    python = tmp_path / "sub" / "x.py"
    python.write_text("from .. import one, thing\nfrom ..two import f\ndef g():\n    import fastgemm.three as t\n")
    assert sorted(imported(python)) == ["__init__", "one", "three", "two"]
    cython = tmp_path / "sub" / "x.pyx"
    cython.write_text(
        "from fastgemm.one cimport (\n    f,\n    g,\n)\nfrom fastgemm import two\n"
        "cimport fastgemm.three as t\ncimport numpy as np\nfrom ..four import x\nimport os, sys\n"
    )
    assert sorted(imported(cython)) == ["four", "one", "three", "two"]


def test_import_needs_numpy_alone(child: Child) -> None:
    """Nor does using the package: a product, the reports and the database."""
    code = (
        "import sys, numpy as np, fastgemm\n"
        "a = np.ones((50, 50), 'f4')\n"
        "fastgemm.matmul(a, a); fastgemm.gemm(a, a); fastgemm.explain(a, a); fastgemm.show_config(mode='dict')\n"
        f"print(sorted(set(sys.modules) & set({FORBIDDEN!r})), any(m.startswith('fastgemm.tune') for m in sys.modules))"
    )
    assert child(code).stdout.strip() == "[] False"


def test_a_first_product_waits_for_no_module_that_it_does_not_need(child: Child) -> None:
    """Milliseconds each, of the 30 that the import takes; NumPy may have loaded some of them by itself."""
    code = (
        "import sys, numpy as np; before = set(sys.modules); import fastgemm\n"
        "fastgemm.matmul(np.ones((9, 9)), np.ones((9, 9)))\n"
        "needless = {'hashlib', 'shutil', 'tempfile', 'subprocess', 'importlib.resources', 'asyncio'}\n"
        "print(sorted((set(sys.modules) - before) & needless))"
    )
    assert child(code).stdout.strip() == "[]"


def test_import_loads_no_kernels(child: Child) -> None:
    """A kernel module may hold instructions that the CPU lacks: none is loaded before a product asks for it."""
    code = "import sys, fastgemm; print([m for m in sys.modules if m.startswith('fastgemm.kernels._')])"
    assert child(code).stdout.strip() == "[]"


def test_only_the_tier_in_use_is_loaded(child: Child) -> None:
    code = (
        "import sys, numpy as np, fastgemm\n"
        "a = np.ones((9, 9)); fastgemm.matmul(a, a)\n"
        "print({m[-2:] for m in sys.modules if m.startswith('fastgemm.kernels._')})\n"
        "print({fastgemm.explain(a, a).config.isa})"
    )
    loaded, used = child(code).stdout.splitlines()
    assert loaded == used
