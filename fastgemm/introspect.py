"""explain() and show_config(): what the library does here, and why."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from . import cpu, dispatch, kernels, registry, special, threads
from .driver import _team
from .heuristic.ways import exchanges
from .packed import PackedMatrix
from .plan import Plan
from .problem import PACKED, Config, Problem, Record, as_called, normalised
from .version import VERSION


class Explanation:
    """What `explain` returns: attributes to read, and a text when printed.

    Attributes
    ----------
    problem : Problem
        The problem after normalising to a row-major output.
    config : Config
        How it is computed.
    rung : str
        forced, exact, near, heuristic or numpy.
    why : str
        The reason in words.
    record : Record or None
        The tuning result behind it.
    """

    def __init__(self, problem: Problem, decision: dispatch.Decision) -> None:
        self.problem = problem
        self.config: Config = decision.config
        self.rung = decision.rung
        self.why = decision.why
        self.record: Record | None = decision.record

    def __repr__(self) -> str:
        p, c = self.problem, self.config
        stack = f", {p.batch} of them" if p.batch > 1 else ""
        stack += "" if p.epilogue == "none" else f", then {p.epilogue}"
        team = f"{_threads(c.threads)} over {c.split}"
        lines = [f"{p.dtype} {p.m} x {p.n} x {p.k}{stack}, layout {p.layout}, up to {_threads(p.threads)}",
                 f"rung: {self.rung} ({self.why})"]
        if c.family == "numpy":
            lines.append("computed by np.matmul")
        elif c.family == "gemv":
            lines.append(f"{registry.variant('gemv', p.row, registry.isa(c.isa), 1, 1)}, {team}")
        elif c.family == "dots":
            rows = min(p.n if exchanges(p, registry.isa(c.isa)) else p.m, registry.DOT_ROWS)
            columns = registry.dot_columns(p.row, registry.isa(c.isa), rows)
            lines.append(f"{registry.variant('dots', p.row, registry.isa(c.isa), rows, columns)}, KC {c.kc}, {team}")
        elif c.family == "small":
            lines.append(f"{registry.variant('small', p.row, registry.isa(c.isa), c.mr, c.nr)}, {team}")
        else:
            name = registry.variant(c.family, p.row, registry.isa(c.isa), c.mr, c.nr)
            packed = {"none": "nothing", "b": "B", "ab": "A and B"}[c.pack]
            if p.layout[1] == PACKED:
                packed = "A (B is packed already)" if c.pack == "ab" else "nothing (B is packed already)"
            lines.append(f"{name}, MC {c.mc}, KC {c.kc}, NC {c.nc}, packs {packed}, {team}")
        half = kernels.half_isa()
        if half is not None and c.family != "numpy" and c.isa == half.name:
            lines.append(f"vectors of {half.vector_bytes} bytes: this CPU computes longer ones in two halves")
        lines += self._details()
        if c.special:
            there = "" if special.find(c.special, p) else ": not loaded"
            lines.append(f"a kernel of its own in {special.file(c.special)}{there}")
        elif c.family != "numpy" and special.built_in(c, p):
            lines.append("a kernel of its own in this build")
        if self.record is not None:
            lines.append(f"recorded: {self.record.gflops:.1f} GFLOP/s "
                         f"({self.record.gain:.2f} times the heuristic)")
        return "\n".join(lines)

    def _details(self) -> list[str]:
        # What the plan made of the configuration.
        p, c = self.problem, self.config
        if c.family not in ("gemm", "small") or p.layout[1] == PACKED:
            return []
        kernels.load(c.isa)
        plan = Plan(p, c)
        lines = ["C's last columns, which are few, by kernels whose rows share vectors"] if plan.facts["apart"] else []
        return lines + ["the next item's operands fetched meanwhile"] * bool(plan.facts["far_items"])


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def explain(
    a: Any = None,
    b: Any = None,
    *,
    m: int | None = None,
    n: int | None = None,
    k: int | None = None,
    dtype: Any = np.float32,
    batch: int = 1,
    layout: str = "nn",
    num_threads: int | None = None,
    activation: str = "none",
) -> Explanation:
    """Say how a product would be computed, and why.

    Parameters
    ----------
    a, b : ndarray, optional
        The operands of a call, `b` an array or a `PackedMatrix`; or give sizes instead:
    m, n, k : int
        The product's sizes.
    dtype : dtype
        Element type, float32 by default.
    batch : int
        Products in the stack.
    layout : str
        Two letters for A and B: n (C order), t (Fortran order), g (any strides); p of B: packed by `fastgemm.pack`.
    num_threads : int, optional
        As if that many threads were allowed.
    activation : str
        What `fastgemm.linear` does to the product.

    Returns
    -------
    Explanation
        It prints as a short text; `rung`, `config`, `why` and `record` are its attributes.

    Examples
    --------
    >>> import fastgemm
    >>> fastgemm.explain(m=512, n=512, k=512, dtype="float64").config.family
    'gemm'
    """
    allowed = threads.get_num_threads() if num_threads is None else threads.allowed(num_threads)
    if a is not None or b is not None:
        if a is None or b is None or not (m is None and n is None and k is None):
            raise TypeError("explain takes two arrays, or m, n and k")
        if isinstance(b, PackedMatrix):
            return _of_packed(np.asarray(a), b, allowed, activation)
        problem = _of_arrays(np.asarray(a), np.asarray(b), allowed, activation)
    elif m is None or n is None or k is None:
        raise TypeError("explain takes two arrays, or m, n and k")
    else:
        problem = _of_sizes(np.dtype(dtype), m, n, k, batch, layout, allowed, activation)
    if isinstance(problem, str):
        raise ValueError(f"explain: {problem}")
    return Explanation(problem, dispatch.resolve(problem))


def _of_sizes(
    dtype: np.dtype[Any], m: int, n: int, k: int, batch: int, layout: str, allowed: int, activation: str
) -> Problem:
    return normalised(Problem(registry.dtype(dtype.name).name, m, n, k, batch, layout, allowed, activation))


def _of_packed(a: np.ndarray[Any, Any], b: PackedMatrix, allowed: int, activation: str) -> Explanation:
    k, n = b.shape
    if a.ndim == 0 or a.shape[-1] != k or a.size == 0 or n == 0:
        raise ValueError(f"explain: no product of shapes {a.shape} and {b.shape}")
    m = a.size // k
    letter = "n" if a.ndim != 2 else _letter(a)
    if b.panels is None:
        problem = Problem(registry.dtype(b.dtype.name).name, m, n, k, 1, letter + "n", allowed, activation)
        return Explanation(problem, dispatch.Decision(Config("numpy"), "numpy", "no kernels for it run on this CPU"))
    problem = Problem(b.panels.row.name, m, n, k, 1, letter + PACKED, allowed, activation)
    return Explanation(problem, dispatch.resolve(problem, b.panels.kind))


def _of_arrays(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], allowed: int, activation: str) -> Problem | str:
    dtype = np.result_type(a, b)
    if a.ndim == 0 or b.ndim == 0:
        return "operands need at least one dimension"
    left = a[None, :] if a.ndim == 1 else a
    right = b[:, None] if b.ndim == 1 else b
    m, k = left.shape[-2:]
    n = right.shape[-1]
    if right.shape[-2] != k:
        return f"the inner sizes differ: {k} and {right.shape[-2]}"
    batch = int(np.prod(np.broadcast_shapes(left.shape[:-2], right.shape[:-2]), dtype=np.int64))
    if 0 in (m, n, k, batch):
        return "an empty product takes no kernel"
    if n == 1 and m > 1:
        left, right, m, n = np.swapaxes(right, -1, -2), np.swapaxes(left, -1, -2), n, m
    letters = _letter(left) + _letter(right)
    return as_called(Problem(registry.dtype(dtype.name).name, m, n, k, batch, letters, allowed, activation))


def _letter(x: np.ndarray[Any, Any]) -> str:
    rows, cols = x.shape[-2:]
    if cols == 1 or x.strides[-1] == x.itemsize:
        return "n"
    return "t" if rows == 1 or x.strides[-2] == x.itemsize else "g"


def configuration() -> dict[str, Any]:
    """Return what `show_config` prints, as a dictionary."""
    tier = kernels.active_isa()
    files = [
        {"path": str(path), "records": used, "skipped": skipped, "reason": reason}
        for path, used, skipped, reason in dispatch.tuned().files
    ]
    return {
        "version": VERSION,
        "numpy": np.__version__,
        "isa": tier.name if tier else None,
        "isa_available": [t.name for t in kernels.runnable()],
        "kernels": kernels.kernel_hash(),
        "openmp": bool(_team.openmp),
        "threads": threads.get_num_threads(),
        "threads_missed": _team.starved(),
        "cpu": cpu.describe(),
        "cpu_key": cpu.key(),
        "database": files,
    }


def show_config(mode: str = "stdout") -> dict[str, Any] | None:
    """Print the CPU, the ISA tier in use, caches, cores, threads and database files.

    ``threads_missed`` counts calls that went on with one thread because no more could be started: a limit of processes
    (`ulimit -u`, a container's) or of memory.

    Parameters
    ----------
    mode : {"stdout", "dict"}
        Print, or return a dictionary.

    Examples
    --------
    >>> import fastgemm
    >>> fastgemm.show_config(mode="dict")["threads"] == fastgemm.get_num_threads()
    True
    """
    if mode == "dict":
        return configuration()
    if mode != "stdout":
        raise ValueError(f"mode must be 'stdout' or 'dict', not {mode!r}")
    found = configuration()
    if not found["openmp"]:
        found["openmp"] = "no: built by a compiler without OpenMP, every call runs on one thread"
    print(json.dumps(found, indent=2, default=str))
    return None
