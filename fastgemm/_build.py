"""The build: registry × templates → extension modules.

setuptools loads this file by path (``[tool.setuptools.cmdclass]``), before the
package can be imported, so it loads `registry.py` by path too.

Every kernel family has one Tempita template.  It is rendered once for each ISA tier
into the build folder, written only when the text changes (so that an incremental
build recompiles nothing), and compiled with that tier's own flags.  All that decides how fast
a product is, and what tuning is compared with, is hashed (`code_hash`), and the hash is
compiled into the driver: a tuning record names the hash it was measured with.

The compiler itself says what it can do.  A tier that it cannot compile is left out with a note (on a processor other
than x86-64: all of them), and NumPy then computes every product; without OpenMP every call runs on one thread.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from setuptools import Extension
from setuptools.command.build_ext import build_ext
from setuptools.errors import PlatformError

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "fastgemm"
TABLES = "_fastgemm_tables"
# Relative, as setuptools and distutils want their paths.
RENDERED = Path("build") / "rendered"

# CFLAGS=-g asks for line numbers, for a debugger or a sanitizer; Python's own flags ask too, and double the size.
_DEBUG = any(flag.startswith("-g") for flag in os.environ.get("CFLAGS", "").split())
SYMBOLS = [] if _DEBUG else ["-g0"]
OPTIMISE = [
    "-O3",
    # Else where a kernel and its loops begin in a line is decided by the length of those before it, and a change to one
    # of them is a change to all.
    "-falign-functions=64",
    "-falign-loops=32",
    "-ffp-contract=fast",
    # Else gcc 13 and newer, tuned for no CPU in particular, multiply and add one after the other where sums wait for
    # one another, in some loops and not in others: bits then depend on where an operand begins in a line.
    "--param=avoid-fma-max-bits=0",
    "-fno-math-errno",
    "-fno-version-loops-for-strides",  # it copies every k-loop for a stride of one, which is no faster
    "-fvisibility=hidden",
]
# So many uses of a loaded vector gcc 12 makes as many loads (`once_f32` in kernels/simd.pxd).
REPEATED = (2, 3)
# Two fields of a struct that have just been stored, loaded again as one vector, wait until the stores have left the
# CPU's buffer: 10 ns of a small product for each such pair, and nothing here gains by vectors.
RUNTIME_FLAGS = ["-fno-tree-slp-vectorize"]
# NPY_TARGET_VERSION: PyUFunc_GiveFloatingpointErrors is in the C API from NumPy 2.0 on.
NUMPY_MACROS = [
    ("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"),
    ("NPY_TARGET_VERSION", "NPY_2_0_API_VERSION"),
]
# Compiled once, for any x86-64; those of OPENMP hold a parallel region.
DRIVER = tuple(
    f"fastgemm.driver._{name}"
    for name in ("kernels", "gemv", "loops", "symmetric", "small", "dots", "strips", "team", "ahead", "plan")
)
CALLS = (
    "outputs", "call", "rows", "gufunc", "matmul", "gemm", "install", "contraction", "mixed", "packed", "linear",
    "to_bytes", "chain",
)  # fmt: skip
RUNTIME = (*DRIVER, *(f"fastgemm._{name}" for name in CALLS))
HASHED = "fastgemm.driver._plan"  # is told the hash of all sources
OPENMP = ("fastgemm.driver._team",)
# For kernels of one shape: their microkernels are inlined, and short loops over k disappear.  Not longer ones: f64
# 32x32x32 unrolled as a whole (4000) is larger than the cache of instructions, and takes 1.6 times as long on Zen 5.
SPECIAL_FLAGS = [
    "-DCYTHON_INLINE=inline __attribute__((always_inline))",
    "--param=max-completely-peeled-insns=500",
    "--param=max-completely-peel-times=64",
]
# `build_ext --tiles-in-c`: kernels/tiles_in_c.pxd in place of the CPU's tile registers, and the module that names them.
TILES_IN_C, CPUID = "-DFASTGEMM_TILES_IN_C", "fastgemm.cpu._cpuid"
# What kernel modules include.
KERNEL_SOURCES = (
    "driver/abi.pxd", *sorted(f"kernels/{path.name}" for path in (PACKAGE / "kernels").glob("*.pxd")),
)  # fmt: skip
# The nested tilings that search strategies are compared on; no call of the library runs them.
NESTED = "tune/nested.pyx.tp"
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
    return load_table("registry")


def load_table(name: str) -> ModuleType:
    """Load a table of the package by path, as a module of a package that has no ``__init__`` to run."""
    if TABLES not in sys.modules or sys.modules[TABLES].__path__ != [str(PACKAGE)]:
        for known in [key for key in sys.modules if key.startswith(f"{TABLES}.")]:
            del sys.modules[known]
        sys.modules[TABLES] = ModuleType(TABLES)
        sys.modules[TABLES].__path__ = [str(PACKAGE)]
    return importlib.import_module(f"{TABLES}.{name}")


def render(template: Path, **names: object) -> str:
    """Render a Tempita template with `names` in scope.

    Besides them a template has ``each("c#", 3)``, which gives ``c0, c1, c2`` (Tempita's expressions
    cannot see loop variables from inside a generator expression), ``once("f32", "load_f32(b)", rows)``, a load that is
    made once although it is used as often, and a line ``{{include name}}`` stands for the text
    of a file beside it, names and all (Tempita's own inheritance shares no names).
    """
    from Cython.Tempita import Template

    def part(line: re.Match[str]) -> str:
        return (template.parent / line[1]).read_text()

    def each(form: str, count: int, separator: str = ", ") -> str:
        return separator.join(form.replace("#", str(i)) for i in range(count))

    def once(lane: str, loaded: str, uses: int) -> str:
        return f"once_{lane}({loaded})" if uses in REPEATED else loaded

    text = re.sub(r"^{{include (\w+\.tp)}}\n", part, template.read_text(), flags=re.M)
    return str(Template(text, name=str(template)).substitute(each=each, once=once, **names))


def write_if_changed(path: Path, text: str) -> None:
    """Write `text` unless the file already holds it, so that its age says when it changed."""
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


# What the kernels ask of a compiler: the tier's instructions, and gcc's vector types, which clang has too.
TIER_PROBE = """
#ifndef __x86_64__
#error "the compiler does not target x86-64"
#endif
#include <immintrin.h>
typedef float reals __attribute__((vector_size({bytes}), aligned(4), may_alias));
typedef int whole __attribute__((vector_size({bytes}), aligned(4), may_alias));
void cut(const reals *p, whole *q) {{ *q = __builtin_convertvector(*p + 1.0f, whole); }}
"""
OPENMP_PROBE = """
#include <omp.h>
int main(void) { return omp_get_max_threads() < 1; }
"""
# Flags of the features whose names are not those of CPUID.
FLAGS = {"cmpxchg16b": "-mcx16", "lahf_lm": "-msahf", "sse4_1": "-msse4.1", "sse4_2": "-msse4.2", "bmi1": "-mbmi"}


def complaint(compiler: Sequence[str], flags: Sequence[str], source: str, link: bool = False) -> str:
    """Compile `source`; return "" where that works, and the compiler's first error otherwise.

    `compiler` is the whole command of a build, because CFLAGS may choose another target (``-m32``).
    """
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder) / "probe.c"
        probe.write_text(source)
        command = [*compiler, *flags, *([] if link else ["-c"]), str(probe), "-o", str(Path(folder) / "probe.o")]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    if done.returncode == 0:
        return ""
    lines = done.stderr.splitlines()
    return next((line.strip() for line in lines if "error" in line), f"exit status {done.returncode}")


def known_flags(compiler: Sequence[str], flags: Sequence[str]) -> list[str]:
    """Return those of some flags that the compiler knows: none of them decides whether code is right."""
    empty = "int nothing;\n"
    strict = "-Werror"  # clang only warns
    if not complaint(compiler, [*flags, strict], empty):
        return list(flags)
    return [flag for flag in flags if not complaint(compiler, [flag, strict], empty)]


def tier_flags(compiler: Sequence[str], tier: Any) -> tuple[list[str], str]:
    """Return the flags that compile an ISA tier, and "", or the reason why there are none.

    A compiler older than the tiers' names (gcc 10) gets the features one by one.
    """
    source = TIER_PROBE.format(bytes=tier.vector_bytes)
    named = [flag for flag in tier.cflags if flag.startswith("-march=")]
    tuning = known_flags(compiler, [flag for flag in tier.cflags if flag not in named])
    why = complaint(compiler, [], source) or complaint(compiler, named, source)
    if not why:
        return [*named, *tuning], ""
    spelled = [FLAGS.get(name, f"-m{name}") for name in tier.features]
    if not complaint(compiler, spelled, source):
        return [*spelled, *tuning], ""
    return [], why


def special_text(registry: Any, tier: Any, special: Sequence[Any], code: str, narrow: bool = False) -> str:
    """Render the kernels of some shapes alone (`special_shapes.Special`); `code` is the hash of the build they are for.

    `narrow` takes the small family's, in which several rows of C share a vector.
    """

    def widths(dt: Any) -> list[int]:
        return sorted({row.narrow(tier) for row in special if row.dtype == dt.name})

    def shapes(dt: Any) -> list[tuple[int, int]]:
        return sorted({tile[:2] for row in special if row.dtype == dt.name for tile in row.tiles(tier)})

    if narrow:
        template, shapes, name = PACKAGE / "kernels" / "small.pyx.tp", lambda dt: [], "small"
    else:
        template, name = PACKAGE / "kernels" / "gemm.pyx.tp", "gemm"
    return render(
        template, registry=registry, isa=tier, shapes=shapes, widths=widths, special=special, code=code,
        family=registry.family(name),
    )


def rendered(registry: Any) -> dict[str, str]:
    """Render the template of every family for every tier; by the name of the module that it becomes."""
    own = {
        made.name: special_text(
            registry, tier._replace(vector_bytes=made.vector_bytes), made.shapes, "built in", made.narrow
        )
        for tier in registry.ISAS
        for made in load_table("special_shapes").modules(tier)
    }
    activations, segments = load_table("activations"), load_table("segments")
    own |= {
        registry.module("epilogue", tier): render(
            PACKAGE / registry.EPILOGUE_TEMPLATE, registry=registry, activations=activations, segments=segments,
            isa=tier,
        )
        for tier in registry.ISAS
    }
    operations = load_table("row_operations")
    own |= {
        registry.module("rows", tier): render(
            PACKAGE / registry.ROWS_TEMPLATE, registry=registry, row_operations=operations, segments=segments, isa=tier
        )
        for tier in registry.ISAS
    }
    return own | {
        registry.module(family.name, tier): render(
            PACKAGE / family.template,
            registry=registry,
            isa=tier,
            family=family,
            shapes=functools.partial(registry.shapes, tier=tier),
            widths=functools.partial(registry.narrow_widths, tier=tier),
            special=(),
        )
        for family, tier in registry.modules()
    }


def nested_module(tier: Any) -> str:
    """Dotted name of the module that executes nested tilings on a tier."""
    return f"fastgemm.tune._nested_{tier.name}"


def nested_text(tier: Any) -> str:
    """Render the nested tilings; tiles of up to half the registers, in powers of two, are kept in registers."""
    powers = [1 << power for power in range(tier.registers.bit_length() - 1)]
    tiles = [(rows, vectors) for rows in powers for vectors in powers if 2 * rows * vectors <= tier.registers]
    return render(PACKAGE / NESTED, isa=tier, tiles=tiles)


def code_hash(registry: Any, texts: dict[str, str]) -> str:
    """Hash what a tuning record depends on.

    That is the rendered kernels; the driver, whose loops give MC, KC and NC their meaning; the heuristic with
    the rules of problem.py and allowed.py, because a record promises to be faster than its configuration; and the flags
    that the project asks for.  Which of these a compiler knows, and its version, are left out: the shipped records hold
    for every build of one source.
    Lines of comment alone are left out too.
    """
    sources = [*sorted((PACKAGE / "driver").glob("*.p[yx][xd]")), *sorted((PACKAGE / "kernels").glob("*.pxd"))]
    sources += [PACKAGE / "allowed.py", PACKAGE / "problem.py", *sorted((PACKAGE / "heuristic").glob("*.py"))]
    parts = [path.read_text() for path in sources]
    parts += [texts[name] for name in sorted(texts)]
    parts += [" ".join([tier.name, *OPTIMISE, *tier.cflags]) for tier in registry.ISAS]
    # A space after the sign: "#define" within Cython's verbatim C is no comment.
    plain = [re.sub(r"^\s*(# .*)?\n", "", part, flags=re.M) for part in parts]
    return hashlib.sha256("\0".join(plain).encode()).hexdigest()[:16]


class BuildExt(build_ext):
    """``build_ext`` that appends the kernel modules and renders their templates."""

    extensions: list[Extension]
    parallel: Any
    tiles_in_c: Any
    user_options = [  # noqa: RUF012 - setuptools' own
        *build_ext.user_options,
        ("tiles-in-c", None, "build what uses tile registers (AMX), and that alone, with registers in C: for tests"),
    ]
    boolean_options = [*build_ext.boolean_options, "tiles-in-c"]  # noqa: RUF012

    def initialize_options(self) -> None:
        """Say what is so where no option says otherwise."""
        super().initialize_options()
        self.tiles_in_c = False

    def finalize_options(self) -> None:
        """Append the extensions; setuptools completes them in the call above this one."""
        present = {ext.name for ext in self.distribution.ext_modules}
        added = [ext for ext in (*self._kernel_modules(), *self._runtime_modules()) if ext.name not in present]
        self.distribution.ext_modules.extend(added)
        if self.parallel is None:
            # An editable install makes a command anew and forgets what setup.cfg says of it.
            self.parallel = self.distribution.get_option_dict("build_ext").get("parallel", ("", None))[1]
        super().finalize_options()

    def _kernel_modules(self) -> list[Extension]:
        registry = load_registry()
        modules = []
        for tier in registry.ISAS:
            named: list[tuple[str, int, str, bool, list[str]]] = [
                (registry.module(family.name, tier), tier.vector_bytes, family.template, False, list(asked[1]))
                for family in registry.FAMILIES
                if (asked := registry.beyond(family, tier)) is not None
            ]
            named.append((nested_module(tier), tier.vector_bytes, NESTED, False, []))
            named.append((registry.module("epilogue", tier), tier.vector_bytes, registry.EPILOGUE_TEMPLATE, False, []))
            named.append((registry.module("rows", tier), tier.vector_bytes, registry.ROWS_TEMPLATE, False, []))
            for made in load_table("special_shapes").modules(tier):
                template = "kernels/small.pyx.tp" if made.narrow else "kernels/gemm.pyx.tp"
                named.append((made.name, made.vector_bytes, template, True, []))
            for name, vector_bytes, template, is_special, beyond in named:
                ext = Extension(
                    name,
                    sources=[f"fastgemm/{template}"],
                    depends=[
                        "fastgemm/kinds.py",
                        "fastgemm/registry.py",
                        "fastgemm/activations.py",
                        "fastgemm/row_operations.py",
                        "fastgemm/segments.py",
                        "fastgemm/special_shapes.py",
                        *(f"fastgemm/{source}" for source in KERNEL_SOURCES),
                    ],
                    define_macros=[("FASTGEMM_VECTOR_BYTES", str(vector_bytes))],
                )
                ext.rendered = (tier, is_special, beyond)
                modules.append(ext)
        return modules

    def _runtime_modules(self) -> list[Extension]:
        import numpy

        modules = []
        for name in RUNTIME:
            path = name.replace(".", "/")
            depends = [str(path.relative_to(ROOT)) for path in sorted(PACKAGE.glob("**/*.pxd"))]
            ext = Extension(
                name,
                sources=[f"{path}.pyx"],
                depends=depends,
                include_dirs=[numpy.get_include()],
                define_macros=list(NUMPY_MACROS),
            )
            ext.openmp = name in OPENMP
            modules.append(ext)
        return modules

    def build_extensions(self) -> None:
        """Ask the compiler, render every template, hash the result, then compile all modules."""
        if self.compiler.compiler_type != "unix":
            raise PlatformError(
                f"fastgemm is written for gcc on Linux and other POSIX systems (vector types, pthreads); "
                f"it cannot be built by {self.compiler.compiler_type!r} compilers"
            )
        self._choose_flags(list(self.compiler.compiler_so))
        self._render()
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

    def _choose_flags(self, compiler: list[str]) -> None:
        """Give every extension its flags; leave out the tiers that the compiler cannot do."""
        optimise = [*SYMBOLS, *known_flags(compiler, OPTIMISE)]
        if self.tiles_in_c:
            table = load_registry()
            named = [table.module(row.name, tier) for row, tier in table.modules() if table.by_matrices(row.name)]
            self.extensions = [ext for ext in self.extensions if ext.name in (CPUID, *named)]
            optimise.append(TILES_IN_C)
        runtime, special = known_flags(compiler, RUNTIME_FLAGS), known_flags(compiler, SPECIAL_FLAGS)
        tiers = {}
        for tier in load_registry().ISAS:
            tiers[tier.name], why = tier_flags(compiler, tier)
            if why:
                self.warn(f"no kernels for the tier {tier.name}: {why}")
        if not any(tiers.values()):
            self.warn("no kernels at all: NumPy will compute every product")
        openmp = ["-fopenmp"]
        if why := complaint(compiler, openmp, OPENMP_PROBE, link=True):
            openmp = []
            self.warn(f"no OpenMP, so every call will run on one thread: {why}")
        kept = []
        for ext in self.extensions:
            ext.extra_compile_args = list(optimise)
            if hasattr(ext, "rendered"):
                tier, is_special, beyond = ext.rendered
                if not tiers[tier.name]:
                    continue
                if beyond != known_flags(compiler, beyond):
                    self.warn(f"no {ext.name}: the compiler lacks {' '.join(beyond)}")
                    continue
                ext.extra_compile_args += [*tiers[tier.name], *beyond, *(special if is_special else [])]
            else:
                ext.extra_compile_args += runtime
            if getattr(ext, "openmp", False):
                ext.extra_compile_args += openmp
                ext.extra_link_args = list(openmp)
            # An incremental build compares ages only: other flags show as a newer file.
            note = RENDERED / f"{ext.name}.flags"
            write_if_changed(note, "\n".join([*compiler, *ext.extra_compile_args]))
            ext.depends = [*ext.depends, str(note)]
            kept.append(ext)
        self.extensions = kept

    def _render(self) -> None:
        """Write the sources of the kernel modules, and tell the driver the hash of all that was rendered."""
        registry = load_registry()
        texts = rendered(registry)
        # Not part of the hash: records stay valid when these change.
        nested = {nested_module(tier): nested_text(tier) for tier in registry.ISAS}
        for ext in self.extensions:
            if ext.name in texts or ext.name in nested:
                path = RENDERED / (ext.name.rpartition(".")[2] + ".pyx")
                write_if_changed(path, texts.get(ext.name) or nested[ext.name])
                ext.sources = [str(path)]
            elif ext.name == HASHED:
                code = code_hash(registry, texts)
                note = RENDERED / "code.hash"
                write_if_changed(note, code)
                ext.depends = [*ext.depends, str(note)]
                ext.define_macros = [*ext.define_macros, ("FASTGEMM_CODE", f'"{code}"')]
