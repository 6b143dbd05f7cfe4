"""The build: what it asks of a compiler, what it leaves out, and what it ships.

Nothing here compiles a kernel; the probes compile a few lines each.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from fastgemm import kernels, registry, special_shapes

setuptools = pytest.importorskip("setuptools")
ROOT = Path(__file__).resolve().parent.parent
GCC = shutil.which("gcc")

needs_gcc = pytest.mark.skipif(GCC is None, reason="no gcc here")


@pytest.fixture(scope="module")
def build() -> ModuleType:
    """The build module, loaded as setuptools loads it: by path."""
    spec = importlib.util.spec_from_file_location("_fastgemm_build", ROOT / "fastgemm" / "_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def refusing(tmp_path: Path) -> Any:
    """Make a compiler that takes no flag beginning with one of these, and is gcc otherwise."""

    def make(*prefixes: str, extra: str = "") -> list[str]:
        patterns = "|".join(f"{prefix}*" for prefix in prefixes)
        script = tmp_path / "cc"
        script.write_text(
            "#!/bin/sh\n"
            'for flag in "$@"; do case "$flag" in\n'
            f'{patterns}) echo "cc: error: unrecognized command-line option $flag" >&2; exit 1;;\n'
            "esac; done\n"
            f'exec "{GCC}" {extra} "$@"\n'
        )
        script.chmod(0o755)
        return [str(script)]

    return make


def chosen(
    build: ModuleType, compiler: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Any, list[str]]:
    """The build command after it has asked a compiler, and the notes that it printed."""
    monkeypatch.chdir(folder)
    command = build.BuildExt(setuptools.Distribution({"name": "x"}))
    command.extensions = [*command._kernel_modules(), *command._runtime_modules()]
    notes: list[str] = []
    command.warn = notes.append
    command._choose_flags(compiler)
    return command, notes


def names(command: Any) -> set[str]:
    return {ext.name for ext in command.extensions}


# Every source there is: one that the build forgets is missing only where it is imported.
DRIVER = {f"fastgemm.driver.{path.stem}" for path in (ROOT / "fastgemm/driver").glob("*.pyx")}
RUNTIME = {f"fastgemm.{path.stem}" for path in (ROOT / "fastgemm").glob("*.pyx")} | DRIVER


def tier_modules(*tiers: str) -> set[str]:
    families = {registry.module(f.name, t) for f, t in registry.modules() if t.name in tiers}
    families |= {f"fastgemm.tune._nested_{t}" for t in tiers}
    families |= {registry.module(name, registry.isa(t)) for name in ("epilogue", "rows") for t in tiers}
    return families | {made.name for t in tiers for made in special_shapes.modules(registry.isa(t))}


def driver(command: Any) -> Any:
    return next(ext for ext in command.extensions if ext.name.endswith("_team"))


@needs_gcc
def test_every_tier(build: ModuleType, refusing: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that takes everything builds everything, each tier with its own flags."""
    if build.complaint([GCC], [], build.TIER_PROBE.format(bytes=16)):
        pytest.skip("this gcc does not target x86-64")
    command, notes = chosen(build, refusing("-no-such-flag"), tmp_path, monkeypatch)
    assert names(command) == RUNTIME | tier_modules("v2", "v3", "v4")
    assert not [note for note in notes if "tier" in note]
    for ext in command.extensions:
        if ext.name in tier_modules("v3"):
            assert "-mfma" in ext.extra_compile_args or "-march=x86-64-v3" in ext.extra_compile_args


@needs_gcc
def test_other_processor(build: ModuleType, refusing: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without x86-64 the kernels are left out, and the notes say why."""
    command, notes = chosen(build, refusing("-m", extra="-U__x86_64__"), tmp_path, monkeypatch)
    assert names(command) == RUNTIME
    assert sum("does not target x86-64" in note for note in notes) == len(registry.ISAS)
    assert any("NumPy will compute every product" in note for note in notes)


@needs_gcc
def test_compiler_without_a_tier(
    build: ModuleType, refusing: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = refusing("-march=x86-64-v4", "-mavx512")
    if build.complaint(compiler, [], build.TIER_PROBE.format(bytes=16)):
        pytest.skip("this gcc does not target x86-64")
    command, notes = chosen(build, compiler, tmp_path, monkeypatch)
    assert names(command) == RUNTIME | tier_modules("v2", "v3")
    assert [note for note in notes if "tier" in note] == [next(note for note in notes if "tier v4" in note)]


@needs_gcc
def test_compiler_older_than_the_names(
    build: ModuleType, refusing: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gcc 10 knows no x86-64-v3, but all that is in it; flags that only tune are dropped where they are unknown."""
    compiler = refusing("-march=x86-64-v", "-fno-version-loops", "-mprfchw", "--param")
    if build.complaint(compiler, [], build.TIER_PROBE.format(bytes=16)):
        pytest.skip("this gcc does not target x86-64")
    command, notes = chosen(build, compiler, tmp_path, monkeypatch)
    assert names(command) == RUNTIME | tier_modules("v2", "v3", "v4")
    assert not [note for note in notes if "tier" in note]
    for ext in command.extensions:
        refused = ("-march=", "-fno-version", "-mprf", "--param")
        assert not [flag for flag in ext.extra_compile_args if flag.startswith(refused)]
        assert "-O3" in ext.extra_compile_args
    (gemm,) = [ext for ext in command.extensions if ext.name.endswith("_gemm_v3")]
    assert {"-mavx2", "-mfma", "-msse4.2"} <= set(gemm.extra_compile_args)
    assert not build.complaint([GCC], gemm.extra_compile_args, "int x;")


@needs_gcc
def test_compiler_without_openmp(
    build: ModuleType, refusing: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, notes = chosen(build, refusing("-fopenmp"), tmp_path, monkeypatch)
    assert any("one thread" in note and "-fopenmp" in note for note in notes)
    for ext in command.extensions:
        assert "-fopenmp" not in ext.extra_compile_args + ext.extra_link_args


@needs_gcc
def test_openmp_belongs_to_the_driver(build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if build.complaint([GCC], ["-fopenmp"], build.OPENMP_PROBE, link=True):
        pytest.skip("this gcc has no OpenMP")
    command, _ = chosen(build, [str(GCC)], tmp_path, monkeypatch)
    assert "-fopenmp" in driver(command).extra_compile_args
    assert "-fopenmp" in driver(command).extra_link_args
    assert {ext.name for ext in command.extensions if "-fopenmp" in ext.extra_compile_args} == set(build.OPENMP)
    assert set(build.OPENMP) < DRIVER


@needs_gcc
def test_other_flags_compile_again(build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An incremental build sees that flags have changed, and that they have not."""
    notes = [chosen(build, [str(GCC), *more], tmp_path, monkeypatch)[0] for more in ((), (), ("-g",))]
    paths = [Path(driver(command).depends[-1]) for command in notes]
    assert len(set(paths)) == 1
    path = paths[0]
    os.utime(path, (1, 1))
    chosen(build, [str(GCC), "-g"], tmp_path, monkeypatch)
    assert path.stat().st_mtime == 1
    chosen(build, [str(GCC)], tmp_path, monkeypatch)
    assert path.stat().st_mtime != 1


def test_the_build_is_of_these_sources(build: ModuleType) -> None:
    """Not of older ones: what is recorded with such a build is stale in every other."""
    registry = build.load_registry()
    assert kernels.kernel_hash() == build.code_hash(registry, build.rendered(registry))


def test_records_of_other_code_are_stale(build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hash that records carry follows kernels, driver, heuristic and flags, and no comment."""
    package = tmp_path / "fastgemm"
    shutil.copytree(ROOT / "fastgemm", package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    monkeypatch.setattr(build, "PACKAGE", package)
    registry = build.load_registry()

    # (Rendering takes seconds, on a slow machine half a minute: only where a template changed.)
    unchanged = build.rendered(registry)

    def hashed(name: str = "") -> str:
        return str(build.code_hash(registry, build.rendered(registry) if name.endswith(".tp") else unchanged))

    before = hashed()
    for name, change in {
        "heuristic/packing.py": "\nFEW_ROWS = 77\n",
        "driver/_loops.pyx": "\ncdef int nothing\n",
        "driver/abi.pxd": "\ncdef int nothing\n",
        "kernels/simd.pxd": "\ncdef int nothing\n",
        "kernels/gemv.pyx.tp": "\ncdef int nothing\n",
    }.items():
        path = package / name
        text = path.read_text()
        path.write_text(text + change)
        assert hashed(name) != before, name
        path.write_text(text + "\n    # a remark\n\n")
        assert hashed(name) == before, name
        path.write_text(text)
    (package / build.NESTED).write_text("\ncdef int nothing\n")  # no call of the library runs it
    assert hashed() == before
    monkeypatch.setattr(build, "OPTIMISE", ["-O1"])
    assert hashed() != before


def test_a_compiler_that_is_not_there(build: ModuleType) -> None:
    assert "no-such-compiler" in build.complaint(["/no-such-compiler"], [], "int x;")


def test_msvc_is_told(build: ModuleType) -> None:
    command = build.BuildExt(setuptools.Distribution({"name": "x"}))
    command.compiler = SimpleNamespace(compiler_type="msvc")
    with pytest.raises(build.PlatformError, match=r"gcc.*'msvc'"):
        command.build_extensions()


@pytest.mark.parametrize(("cflags", "symbols"), [("", ["-g0"]), ("-O1", ["-g0"]), ("-O1 -g", []), ("-ggdb3", [])])
def test_cflags_may_ask_for_symbols(cflags: str, symbols: list[str]) -> None:
    code = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('b', {str(ROOT / 'fastgemm' / '_build.py')!r})\n"
        "module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module); print(module.SYMBOLS)"
    )
    env = dict(os.environ, CFLAGS=cflags)
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(symbols)


# ---- what is shipped -----------------------------------------------------------------------------------------------

modern = pytest.mark.skipif(
    int(setuptools.__version__.split(".")[0]) < 77, reason="pyproject.toml asks for setuptools 77"
)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources as they are in git, with rubbish of a build in it."""
    folder = tmp_path_factory.mktemp("checkout") / "fastgemm"
    ignored = shutil.ignore_patterns(
        *("build", "dist", "*.egg-info", "*.so", "*.c", "__pycache__", "results"),
        *(".git", ".venv", ".*_cache", ".hypothesis", ".benchmarks"),
    )
    shutil.copytree(ROOT, folder, ignore=ignored)
    (folder / "fastgemm" / "rubbish.c").write_text("int x;\n")
    (folder / "fastgemm" / "kernels" / "_gemm_v3.pyx").write_text("# rendered\n")
    (folder / "fastgemm" / "kernels" / "_gemm_v3.so").write_text("")
    (folder / "bench" / "results").mkdir()
    (folder / "bench" / "results" / "one.json").write_text("{}")
    return folder


def setup(checkout: Path, *arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-c", "import setuptools; setuptools.setup()", "-q", *arguments],
        cwd=checkout, check=True, capture_output=True, timeout=120,
    )  # fmt: skip


def sources() -> set[str]:
    """Paths of the package's own files, as they lie in a wheel."""
    found = {
        str(path.relative_to(ROOT))
        for pattern in ("*.py", "*.pyi", "*.pyx", "*.pxd", "*.tp", "py.typed")
        for path in (ROOT / "fastgemm").rglob(pattern)
    }
    database = [path.name for path in (ROOT / "tuning_db").iterdir() if path.suffix in (".py", ".json")]
    return found | {f"fastgemm/tuning_db/{name}" for name in database}


@modern
def test_sdist(checkout: Path, tmp_path: Path) -> None:
    """It holds all that the README's commands need, and nothing that a build has made."""
    setup(checkout, "sdist", "--dist-dir", str(tmp_path))
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        held = {name.partition("/")[2] for name in file.getnames()}
    wanted = {name.replace("fastgemm/tuning_db/", "tuning_db/") for name in sources()}
    wanted |= {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "setup.cfg", ".ci/run"}
    wanted |= {str(p.relative_to(ROOT)) for p in (ROOT / "tests").glob("*.py")}
    wanted |= {str(p.relative_to(ROOT)) for p in (ROOT / "bench").rglob("*") if p.suffix in (".py", ".csv")}
    assert not wanted - held
    assert not [n for n in held if n.endswith((".c", ".so", ".pyc")) or "results/" in n or "_gemm_v3" in n]


@modern
def test_wheel(checkout: Path, tmp_path: Path) -> None:
    """Its files beside the extension modules: sources, stubs, the database and its schema."""
    setup(checkout, "build_py", "--build-lib", str(tmp_path))
    held = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert held == sources()
    stubs = {"_matmul.pyi", "driver/_plan.pyi", "driver/_team.pyi", "cpu/_cpuid.pyi", "py.typed"}
    assert {f"fastgemm/{name}" for name in stubs} <= held


def test_a_source_tree_that_is_not_built_says_so(tmp_path: Path) -> None:
    """Where an installed package was meant: Python looks in the working directory first."""
    package = tmp_path / "fastgemm"
    shutil.copytree(ROOT / "fastgemm", package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", "import fastgemm"]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ModuleNotFoundError: {package} is not built for this Python (No module named 'fastgemm.")
    assert "start Python in another folder" in last
    assert "pip install -e ." in last


def test_every_package_is_named() -> None:
    """pyproject.toml lists them by name: a new folder must be added there."""
    tomllib = pytest.importorskip("tomllib")
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = {".".join(p.parent.relative_to(ROOT).parts) for p in (ROOT / "fastgemm").rglob("__init__.py")}
    assert listed == found | {"fastgemm.tuning_db"}


def test_every_extension_has_a_stub() -> None:
    """mypy sees no further than a stub; kernel modules are loaded by name and need none."""
    for path in (ROOT / "fastgemm").rglob("*.pyx"):
        assert path.with_suffix(".pyi").exists(), path.name


@pytest.mark.filterwarnings("ignore:.*experimental")
def test_editable_installs_compile_in_parallel(build: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """An editable install makes the command anew, without what setup.cfg says of it; a number of one's own stays."""
    monkeypatch.chdir(ROOT)
    for given, want in ((None, 2), (1, 1)):
        distribution = setuptools.dist.Distribution({"ext_modules": []})
        distribution.parse_config_files()
        command = build.BuildExt(distribution)
        command.parallel = given
        command.finalize_options()
        assert command.parallel == want
