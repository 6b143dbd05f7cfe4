"""Kernels for one shape each: compiled by the tuner, kept in the user's cache, loaded when a record names them.

::

    python -m fastgemm.tune --specialize ──▷ <cache>/<hash of the file>.<Python>.so ◁── Config.special in a record
                                                        │ checked, then loaded
                                                  find(name, problem) ──▷ Plan.specialise

A module is code, so it has to be the user's own: the file and its folder belong to the user and nobody else may write
there, and the file's contents have the hash that the record names.  What fails a check is refused with one
warning, and the plan computes the product without it.  A module that is not there (a record from another machine, or
made with another Python, to whose binary interface it is compiled) is no reason for a warning.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import stat
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from . import cpu, registry, special_shapes
from .driver import _plan
from .locks import lock
from .problem import Config, Problem

# Modules of a hundred unrolled shapes have 2 MiB.
MAX_BYTES = 64 << 20
MODULE = "fastgemm_special"
DIGITS = 32


class SpecialKernelWarning(UserWarning):
    """A module with specialised kernels was refused."""


class Entry(NamedTuple):
    """A kernel for a shape: where it is in a module's table."""

    module: ModuleType
    capsule: object
    at: int


_tables: dict[str, dict[special_shapes.Special, Entry]] = {}
_lock = lock()


def folder() -> Path:
    """Return where specialised modules are kept: FASTGEMM_CACHE, or a folder in the user's cache.

    Examples
    --------
    >>> from fastgemm import special
    >>> special.folder().name != ""
    True
    """
    if named := os.environ.get("FASTGEMM_CACHE", ""):
        return Path(os.path.expanduser(named))
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the XDG specification says to ignore any other
        base = os.path.expanduser("~/Library/Caches" if sys.platform == "darwin" else "~/.cache")
    # Without a home (see `database.user_path`) there is none, and nothing can be kept in it.
    return Path(base if os.path.isabs(base) else os.devnull) / "fastgemm"


def file(name: str) -> Path:
    """Return where the module of this name is kept for the Python that runs: cache and records are those of all.

    Examples
    --------
    >>> from importlib.machinery import EXTENSION_SUFFIXES
    >>> from fastgemm import special
    >>> special.file("0123").name == "0123" + EXTENSION_SUFFIXES[0]
    True
    """
    return folder() / (name + importlib.machinery.EXTENSION_SUFFIXES[0])


def digest(data: bytes) -> str:
    """Return the name of a module with these contents.

    Examples
    --------
    >>> from fastgemm import special
    >>> len(special.digest(b"")) == special.DIGITS
    True
    """
    import hashlib  # 3 ms (OpenSSL), and only tuned kernels of single shapes are checked

    return hashlib.sha256(data).hexdigest()[:DIGITS]


def shape_of(problem: Problem) -> special_shapes.Special | None:
    """Return the shape of a kernel for a problem; None where there can be none.

    Examples
    --------
    >>> from fastgemm import special
    >>> from fastgemm.problem import Problem
    >>> special.shape_of(Problem("f32", 8, 16, 4, layout="tn"))
    Special(dtype='f32', m=8, n=16, k=4, a='t')
    """
    a, b = problem.layout[0], problem.layout[1]
    if b != "n" or a == "g" or not registry.is_special(problem.row):
        return None
    return special_shapes.Special(problem.dtype, problem.m, problem.n, problem.k, a)


def find(name: str, problem: Problem) -> Entry | None:
    """Return the kernel of a module for a problem, loading the module at first; None where it has none.

    Warns
    -----
    SpecialKernelWarning
        Once for each module that is there and may not be loaded, saying why.
    """
    shape = shape_of(problem)
    if shape is None:
        return None
    with _lock:
        if name not in _tables:
            _tables[name] = {}  # before a warning that may be an error
            _tables[name] = _load(file(name), name)
    return _tables[name].get(shape)


def _load(path: Path, name: str) -> dict[special_shapes.Special, Entry]:
    try:
        why = refusal(path, name)
        if why is None:
            return {}
        if not why:
            return _table(_import(path))
    except (OSError, ImportError) as error:
        why = str(error)
    message = f"{path}: {why}; the products that it was made for are computed without it"
    warnings.warn(message, SpecialKernelWarning, stacklevel=4)
    return {}


def refusal(path: Path, name: str) -> str | None:
    """Say why a module must not be loaded: "" when it may be, None when there is none.

    Raises
    ------
    OSError
        When it cannot be read.
    """
    user = os.geteuid() if hasattr(os, "geteuid") else None
    if user is None:
        return "this system does not say whose a file is"
    try:
        over = os.stat(path.parent)
        # A link would be followed only after these checks.
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    with os.fdopen(file, "rb") as source:
        status = os.fstat(source.fileno())
        for what, found in (("the folder", over), ("it", status)):
            if found.st_uid != user:
                return f"{what} belongs to another user"
            if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return f"others may write to {what}"
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
            return f"it is not a regular file of at most {MAX_BYTES >> 20} MiB"
        if digest(source.read(MAX_BYTES + 1)) != name:
            return "its contents are not those that were tuned (their hash differs)"
    return ""


def _import(path: Path) -> ModuleType:
    # Not in sys.modules: all of these modules have one name, and nobody else asks for it.
    loader = importlib.machinery.ExtensionFileLoader(MODULE, str(path))
    spec = importlib.util.spec_from_file_location(MODULE, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    if _plan.code != module.CODE:
        raise ImportError("it was made for another build of fastgemm")
    return module


def _table(module: ModuleType) -> dict[special_shapes.Special, Entry]:
    shapes = enumerate(module.SHAPES)
    return {special_shapes.Special(*shape): Entry(module, module.tables(), at) for at, shape in shapes}


def built_in(config: Config, problem: Problem) -> Entry | None:
    """Return the kernel of this build for products of a shape (`special_shapes.SPECIAL`); None where it has none.

    Of the small family's copies of a B whose rows are adjacent it is that of B as it is copied.
    """
    if problem.layout[1] == "t" and config.family == "small" and config.pack == "b":
        problem = replace(problem, layout=problem.layout[0] + "n" + problem.layout[2:])
    shape, tier = shape_of(problem), registry.isa(config.isa)
    if shape not in special_shapes.SPECIAL or not _keeps_up(shape, problem, tier):
        return None
    made = next(made for made in special_shapes.modules(tier) if shape in made.shapes)
    with _lock:
        if made.name not in _tables:
            known = importlib.util.find_spec(made.name) is not None
            _tables[made.name] = _table(importlib.import_module(made.name)) if known else {}
    return _tables[made.name].get(shape)


def _keeps_up(shape: special_shapes.Special, problem: Problem, tier: registry.Isa) -> bool:
    """Whether a stack comes as fast as these kernels compute: they fetch nothing ahead, the small family's do.

    What a third of L3 holds does, and products of a few lines do.  Zen 5 with 32 MiB of L3, a stack's time by the small
    family over that by these kernels, two runs:

    =====  =========  =========  =========  =========  =========  =========
    MiB    f32 8^3    12^3       16^3       24^3       32^3       64^3
    =====  =========  =========  =========  =========  =========  =========
    3      1.39 1.01  1.49 1.21  1.27 1.02  1.07 1.07  1.04 1.05  1.03 1.03
    10     1.39 1.10  1.55 1.29  1.17 1.01  1.13 1.11  1.04 1.06  1.02 0.97
    24     0.94 1.10  1.13 1.05  0.73 0.72  0.99 1.25  1.04 1.29  1.02 0.67
    96     0.92 0.96  0.76 0.89  0.92 0.89  0.82 1.11  0.92 1.09  0.97 0.58
    MiB    f64 8^3    12^3       16^3       24^3       32^3       64^3
    3      1.20 1.09  1.14 1.05  1.11 1.01  1.08 1.03  1.07 1.08  1.00 1.00
    10     1.37 1.04  1.18 1.21  0.95 0.94  1.11 1.08  1.06 1.09  0.92 0.98
    24     0.97 1.15  1.10 1.29  0.87 1.02  0.82 1.08  0.71 1.08  0.82 0.73
    96     0.91 1.03  1.19 1.20  0.94 1.08  0.86 1.03  0.61 1.02  0.67 0.64
    =====  =========  =========  =========  =========  =========  =========
    """
    row = shape.n * shape.part * problem.row.real_bytes
    size = problem.batch * problem.row.itemsize * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n)
    caches = cpu.caches()
    if problem.batch == 1 or size <= max(caches.l2, caches.l3 // 3) or row < 32:
        return True
    return not shape.shares(tier) and shape.n < 16 and size <= caches.l3 * 5 // 4
