"""The build: registry × templates → extension modules.

setuptools loads this file by path (``[tool.setuptools.cmdclass]``), before the
package can be imported, so it loads `registry.py` by path too.

Every kernel family has one Tempita template.  It is rendered once for each ISA tier
into the build folder, written only when the text changes (so that an incremental
build recompiles nothing), and compiled with that tier's own flags.  The rendered text
of all of them is hashed, and the hash is compiled in: a tuning record names the hash
it was measured with.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

from setuptools import Extension
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "fastgemm"
# Relative, as setuptools and distutils want their paths.
RENDERED = Path("build") / "rendered"

OPTIMISE = [
    "-O3",
    "-g0",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-version-loops-for-strides",  # it copies every k-loop for a stride of one, which is no faster
    "-fvisibility=hidden",
]
# NPY_TARGET_VERSION: PyUFunc_GiveFloatingpointErrors is in the C API from NumPy 2.0 on.
NUMPY_MACROS = [
    ("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"),
    ("NPY_TARGET_VERSION", "NPY_2_0_API_VERSION"),
]
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "embedsignature": True,
    "freethreading_compatible": True,
}


def load_registry() -> ModuleType:
    """Load ``registry.py`` without importing the package."""
    spec = importlib.util.spec_from_file_location("_fastgemm_registry", PACKAGE / "registry.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def render(template: Path, **names: object) -> str:
    """Render a Tempita template with `names` in scope.

    Besides them a template has ``each("c#", 3)``, which gives ``c0, c1, c2`` (Tempita's expressions
    cannot see loop variables from inside a generator expression).
    """
    from Cython.Tempita import Template

    def each(form: str, count: int, separator: str = ", ") -> str:
        return separator.join(form.replace("#", str(i)) for i in range(count))

    return str(Template(template.read_text(), name=str(template)).substitute(each=each, **names))


def write_if_changed(path: Path, text: str) -> None:
    """Write `text` unless the file already holds it, so that its age says when it changed."""
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def openmp_works(compiler: list[str]) -> bool:
    """Tell whether the compiler builds and links an OpenMP program."""
    source = "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n"
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder) / "probe.c"
        probe.write_text(source)
        command = [*compiler, "-fopenmp", str(probe), "-o", str(Path(folder) / "probe")]
        try:
            return subprocess.run(command, capture_output=True, timeout=60).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False


class BuildExt(build_ext):
    """``build_ext`` that appends the kernel modules and renders their templates."""

    def finalize_options(self) -> None:
        """Append the extensions; setuptools completes them in the call above this one."""
        present = {ext.name for ext in self.distribution.ext_modules}
        added = [ext for ext in (*self._kernel_modules(), *self._runtime_modules()) if ext.name not in present]
        self.distribution.ext_modules.extend(added)
        super().finalize_options()

    def _kernel_modules(self) -> list[Extension]:
        registry = load_registry()
        modules = []
        for family in registry.FAMILIES:
            for tier in registry.ISAS:
                ext = Extension(
                    registry.module(family.name, tier),
                    sources=[f"fastgemm/{family.template}"],
                    depends=[
                        "fastgemm/registry.py",
                        "fastgemm/driver/abi.pxd",
                        "fastgemm/kernels/simd.pxd",
                    ],
                    extra_compile_args=[*OPTIMISE, *tier.cflags],
                    define_macros=[("FASTGEMM_VECTOR_BYTES", str(tier.vector_bytes))],
                )
                ext.rendered = (family, tier)  # type: ignore[attr-defined]
                modules.append(ext)
        return modules

    def _runtime_modules(self) -> list[Extension]:
        import numpy

        modules = []
        for name in ("fastgemm.driver._driver", "fastgemm._matmul"):
            path = name.replace(".", "/")
            depends = ["fastgemm/driver/abi.pxd", "fastgemm/driver/_driver.pxd"]
            ext = Extension(
                name,
                sources=[f"{path}.pyx"],
                depends=depends,
                include_dirs=[numpy.get_include()],
                define_macros=list(NUMPY_MACROS),
                extra_compile_args=list(OPTIMISE),
            )
            ext.openmp = name.endswith("_driver")  # type: ignore[attr-defined]
            modules.append(ext)
        return modules

    def build_extensions(self) -> None:
        """Render every template, hash the result, then compile all modules."""
        registry = load_registry()
        texts = {}
        for ext in self.extensions:
            if hasattr(ext, "rendered"):
                family, tier = ext.rendered
                texts[ext.name] = render(PACKAGE / family.template, registry=registry, isa=tier, family=family)
        shared = [(PACKAGE / name).read_text() for name in ("driver/abi.pxd", "kernels/simd.pxd")]
        digest = hashlib.sha256("\0".join([*shared, *(texts[name] for name in sorted(texts))]).encode())
        kernel_hash = digest.hexdigest()[:16]
        openmp = openmp_works(self.compiler.compiler_so[:1])
        for ext in self.extensions:
            if ext.name in texts:
                path = RENDERED / (ext.name.rpartition(".")[2] + ".pyx")
                write_if_changed(path, texts[ext.name].replace("@KERNEL_HASH@", kernel_hash))
                ext.sources = [str(path)]
            if getattr(ext, "openmp", False) and openmp:
                ext.extra_compile_args = [*ext.extra_compile_args, "-fopenmp"]
                ext.extra_link_args = [*ext.extra_link_args, "-fopenmp"]
        from Cython.Build import cythonize

        # Translated here, in parallel processes, and only the sources taken over: setuptools keeps
        # notes of its own on the Extension objects.
        jobs = self.parallel if isinstance(self.parallel, int) and not isinstance(self.parallel, bool) else None
        translated = cythonize(
            self.extensions,
            build_dir=str(Path("build") / "cython"),
            compiler_directives=DIRECTIVES,
            nthreads=jobs or os.cpu_count() or 1,
            quiet=True,
        )
        sources = {ext.name: ext.sources for ext in translated}
        for ext in self.extensions:
            ext.sources = sources[ext.name]
        super().build_extensions()
