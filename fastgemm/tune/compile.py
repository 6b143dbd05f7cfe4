"""Compile kernels for single shapes into the user's cache, with the machine's own compiler.

It takes what the build takes: Cython, setuptools, a C compiler and Python's headers.  Where one of them is missing
`Unavailable` says which, and how to get it.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .. import kernels, registry, special
from ..special_shapes import Special
from .words import reason

# A hundred shapes take a minute.
COMPILE_SECONDS = 600


class Unavailable(Exception):
    """Nothing can be compiled here; the message says what is missing."""


class Failed(Exception):
    """The compiler refused."""


def compiler() -> list[str]:
    """Return the command of the C compiler: CC, or the one that Python was built with.

    Raises
    ------
    Unavailable
        If something that compiling takes is missing.
    """
    try:
        import Cython  # noqa: F401

        from .. import _build
    except ModuleNotFoundError as error:
        what = (error.name or "").partition(".")[0]
        raise Unavailable(f"--specialize compiles kernels, and {what} is not installed: pip install {what}") from None
    named = os.environ.get("CC", "") or sysconfig.get_config_var("CC") or "cc"
    try:
        command = shlex.split(named)
    except ValueError:  # a quotation that does not end
        command = []
    if not command:
        raise Unavailable(f"--specialize compiles kernels, and {named!r} in the variable CC names no compiler")
    if why := _build.complaint(command, [], "int x;\n"):
        raise Unavailable(
            f"--specialize compiles kernels, and the compiler {command[0]!r} does not work ({why}); "
            "install gcc, or name a compiler in the variable CC"
        )
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file():
        raise Unavailable("--specialize compiles kernels, and Python's headers are missing (python3-dev)")
    if not (_build.PACKAGE / "kernels" / "gemm.pyx.tp").is_file():
        raise Unavailable("--specialize compiles kernels, and this installation has no templates")
    return command


def make(shapes: Sequence[Special], isa: str, narrow: bool = False) -> str:
    """Compile a module with a kernel for each shape; return its name (`special.file`).

    Parameters
    ----------
    shapes : sequence of Special
        What the kernels are for; all with vectors of the same length (`Special.vector_bytes`).
    isa : str
        Tier whose instructions they use.
    narrow : bool
        Several rows of C share a vector of the tier's own length (`Special.narrow` of all of them is not 0).

    Raises
    ------
    Unavailable, Failed
        As the names say; the former also where the cache cannot be written.
    """
    from .. import _build

    command = compiler()
    tier = registry.isa(isa)
    (vector_bytes,) = {tier.vector_bytes if narrow else shape.vector_bytes(tier) for shape in shapes}
    flags, why = _build.tier_flags(command, tier)
    if why:
        raise Failed(why)
    folder = special.folder()
    own = tier._replace(vector_bytes=vector_bytes)
    text = _build.special_text(registry, own, shapes, kernels.kernel_hash(), narrow)
    known = _build.known_flags(command, [*_build.OPTIMISE, *_build.SPECIAL_FLAGS])
    line = [*command, "-shared", "-fPIC", "-g0", *known, *flags, f"-DFASTGEMM_VECTOR_BYTES={vector_bytes}"]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".making-", dir=folder) as inside:
            made = _module(Path(inside), text, line)
            name = special.digest(made.read_bytes())
            made.chmod(0o600)
            os.replace(made, special.file(name))
    except OSError as error:
        raise Unavailable(f"--specialize compiles kernels into {folder}: {reason(error)}") from None
    if refused := special.refusal(special.file(name), name):
        raise Failed(f"{folder}: {refused}")
    return name


def _module(inside: Path, text: str, line: list[str]) -> Path:
    """Compile a module's source in a folder by the command `line`; return the file."""
    from Cython.Compiler.Main import compile as translate
    from Cython.Compiler.Options import CompilationOptions

    from .. import _build

    source = inside / f"{special.MODULE}.pyx"
    source.write_text(text)
    said = io.StringIO()
    options = CompilationOptions(
        include_path=[str(_build.ROOT)],
        compiler_directives=_build.DIRECTIVES,
        output_file=str(source.with_suffix(".c")),
    )
    with contextlib.redirect_stderr(said):
        translated = translate(str(source), options)
    if translated.num_errors:
        raise Failed(said.getvalue().strip()[-400:])
    made = source.with_suffix(".so")
    line = [*line, "-I", sysconfig.get_paths()["include"], str(source.with_suffix(".c")), "-o", str(made)]
    try:
        done = subprocess.run(line, capture_output=True, text=True, errors="replace", timeout=COMPILE_SECONDS)
    except subprocess.TimeoutExpired:
        raise Failed(f"the compiler took longer than {COMPILE_SECONDS} s") from None
    if done.returncode:
        raise Failed(done.stderr.strip()[-400:])
    return made
