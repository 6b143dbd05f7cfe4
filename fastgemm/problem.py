"""The values that travel through the library: Problem, Config, Record.

All three are frozen.  A `Problem` says what is to be computed, a `Config` how, and
a `Record` what was measured for a pair of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import Any

from . import activations, registry
from .heuristic.ways import DOT_TURNED, FEW_DOT_COLUMNS, exchanges, shares_vectors, turns

# Sizes from outside (database, command line) are held to these before they reach C.
MAX_DIM = 1 << 40
MAX_BLOCK = 1 << 20
MAX_THREADS = 1024
MAX_WORKSPACE = 32 << 20
MAX_PARTIAL = 1 << 20
MAX_SMALL_K = 1024
MAX_TURNED = 32 << 10
# Sums of an output that is rounded once, kept beside it while blocks of k add to them; more rows than that take turns.
MAX_SUMS = 4 << 20
# Bytes that are packed are multiplied in one block of k: a row panel of A and a panel of B, with all of it, fit a
# workspace.
MAX_BYTES_K = 1 << 17
# The letter of a B that was packed beforehand (`fastgemm.pack`).
PACKED = "p"
LAYOUTS = tuple(a + b for a in "ntg" for b in "ntg" + PACKED)


def _integer(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be between {low} and {high}, not {value}")


@dataclass(frozen=True, slots=True)
class Problem:
    """A product to compute: C (m x n) = A (m x k) @ B (k x n), `batch` times.

    C is row-major: a column-major output is the transposed problem with the
    operands exchanged, and callers normalise to that before they look anything up.

    Parameters
    ----------
    dtype : str
        Registry name of the element type, ``"f32"`` for instance.
    m, n, k : int
        Rows of C, columns of C, and the summed dimension; at least 1.
    batch : int
        Products in the stack.
    layout : str
        One letter for A and one for B: ``n`` its columns are adjacent in memory
        (C order), ``t`` its rows are (Fortran order), ``g`` neither.  ``p``, of B: it is packed already.
    threads : int
        The most threads that the call may use.
    epilogue : str
        The activation that is done to the output while it is written; a bias, a residual or a scale alone is ``none``.
    """

    dtype: str
    m: int
    n: int
    k: int
    batch: int = 1
    layout: str = "nn"
    threads: int = 1
    epilogue: str = "none"

    def __post_init__(self) -> None:
        row = registry.dtype(self.dtype)
        for name in ("m", "n", "k", "batch"):
            _integer(name, getattr(self, name), 1, MAX_DIM)
        _integer("threads", self.threads, 1, MAX_THREADS)
        if self.layout not in LAYOUTS:
            raise ValueError(f"layout must be two of the letters n, t, g (B's also p), not {self.layout!r}")
        if self.layout[1] == PACKED and self.batch > 1:
            raise ValueError("a B that is packed is one matrix: the rows of a stack are rows of one product")
        if self.layout[1] == PACKED and not registry.is_packed(row):
            raise ValueError(f"{row.name} wraps and is not packed: its products are cut from 32-bit sums")
        if activations.epilogue(self.epilogue).code and (self.batch > 1 or not registry.is_finished(row)):
            raise ValueError(f"{self.epilogue!r} follows single products of floats, not {self.batch} of {row.name}")

    @property
    def flops(self) -> int:
        """Real floating-point operations of the whole stack."""
        per = 8 if registry.dtype(self.dtype).parts == 2 else 2
        return per * self.m * self.n * self.k * self.batch

    @property
    def streamed(self) -> int:
        """Bytes that are read and written once: those of A and C where columns are few, and of B too in a stack."""
        own = self.m * (self.k * self.row.stored_bytes + self.n * self.row.result_bytes)
        if self.batch > 1:
            own += self.k * self.n * self.row.stored_bytes
        return self.batch * self.row.parts * own

    @property
    def row(self) -> registry.DType:
        """The registry row of the dtype."""
        # (Asked 140 times while the rules look at a problem.)
        return registry.BY_NAME[self.dtype]


_FLIPPED = {"n": "t", "t": "n", "g": "g"}


def transposed(problem: Problem) -> Problem:
    """Return the problem of the transposed output: operands exchanged and flipped.

    Examples
    --------
    >>> transposed(Problem("f32", 5, 7, 3, layout="nt"))
    Problem(dtype='f32', m=7, n=5, k=3, batch=1, layout='nt', threads=1, epilogue='none')
    """
    layout = _FLIPPED[problem.layout[1]] + _FLIPPED[problem.layout[0]]
    return replace(problem, m=problem.n, n=problem.m, layout=layout)


def normalised(problem: Problem) -> Problem:
    """Return the problem under which calls with these operands look it up.

    One column of output is computed as one row: it lies in memory the same way, and the kernels
    of that case stream the matrix once.  A vector has no order of its own, so its letter only says
    whether its elements are adjacent (``n``) or not (``t``; a column is ``n`` in any case).

    Examples
    --------
    >>> normalised(Problem("f32", 4000, 1, 2000, layout="nn"))
    Problem(dtype='f32', m=1, n=4000, k=2000, batch=1, layout='nt', threads=1, epilogue='none')
    """
    if problem.layout[1] == PACKED:
        return replace(problem, layout=_looked_up(problem.layout[0], problem.m, problem.k) + PACKED)
    if turns(problem):
        problem = transposed(replace(problem, epilogue="none"))  # what is done to rows follows the whole product
    elif problem.n == 1 and problem.m > 1:
        problem = transposed(problem)
    a = _looked_up(problem.layout[0], problem.m, problem.k)
    b = _looked_up(problem.layout[1], problem.k, problem.n)
    return replace(problem, layout=a + b)


def as_called(problem: Problem) -> Problem:
    """Return the problem that calls compute instead of one, by other sizes; the same one where they do not.

    Unlike `normalised` it leaves alone what only layout letters tell apart.

    Examples
    --------
    >>> as_called(Problem("f32", 30, 512, 512, layout="nt")).m, as_called(Problem("f32", 30, 512, 512)).m
    (512, 30)
    """
    column = problem.n == 1 and problem.m > 1 and problem.layout[1] != PACKED
    return normalised(problem) if column or turns(problem) else problem


def _looked_up(letter: str, rows: int, columns: int) -> str:
    if columns == 1:
        return "n"
    if rows == 1:
        return "t" if letter == "g" else "n"
    return letter


@dataclass(frozen=True, slots=True)
class Config:
    """How to compute a problem: the run-time parameters of a compiled variant.

    Parameters
    ----------
    family : str
        Kernel family, or ``"numpy"`` for `np.matmul` itself.
    isa : str
        ISA tier of the kernels.
    mr, nr : int
        Register tile in elements; one of `registry.tiles`.  The gemv family has none (0).
    mc, kc, nc : int
        Cache blocks in elements.  The driver cuts them down to the problem.
    pack : str
        What is copied into micropanels: ``none``, ``b`` or ``ab``.
    split : str
        The loop that the threads share: ``m``, ``n``, ``batch`` or ``k`` (partial outputs, added in order).
    threads : int
        Threads that take part.
    special : str
        Name of a module with a kernel for the problem's very shape (see `fastgemm.special`), "" for none.  The rest
        says how to compute what that kernel does not take, and everything where the module is not there.
    """

    family: str = "gemm"
    isa: str = "v3"
    mr: int = 0
    nr: int = 0
    mc: int = 120
    kc: int = 1024
    nc: int = 1024
    pack: str = "none"
    split: str = "n"
    threads: int = 1
    special: str = ""

    def __post_init__(self) -> None:
        if self.special and not re.fullmatch("[0-9a-f]{32}", self.special):
            raise ValueError(f"special must be 32 hexadecimal digits, not {self.special[:40]!r}")
        for name in ("mr", "nr"):
            _integer(name, getattr(self, name), 0, MAX_BLOCK)
        for name in ("mc", "kc", "nc"):
            _integer(name, getattr(self, name), 1, MAX_BLOCK)
        _integer("threads", self.threads, 1, MAX_THREADS)
        if self.pack not in registry.PACKS:
            raise ValueError(f"pack must be one of {registry.PACKS}, not {self.pack!r}")
        if self.split not in registry.SPLITS:
            raise ValueError(f"split must be one of {registry.SPLITS}, not {self.split!r}")
        if self.family != "numpy":
            registry.family(self.family)
            registry.isa(self.isa)

    def misfit(self, problem: Problem) -> str | None:
        """Say why this configuration cannot run a problem; None when it can.

        The single place of the legality rules: the plan, the database and the
        tuner's space all ask here.
        """
        packed = problem.layout[1] == PACKED
        if self.family == "numpy":
            return "NumPy reads no B that is packed" if packed else None
        dt, tier = problem.row, registry.isa(self.isa)
        if not registry.supported(dt, tier):
            return f"{tier.name} has no kernels for {dt.name}"
        if self.special and self.threads > 1 and self.split != "batch":
            return "a specialised kernel computes whole products by one thread each"
        if self.threads > problem.threads:
            return f"threads {self.threads} exceeds the {problem.threads} allowed"
        if self.split == "batch" and problem.batch == 1 and self.threads > 1:
            return "split 'batch' needs a stack of products"
        if self.split == "k" and problem.batch > 1:
            return "split 'k' takes one product, not a stack"
        if self.split == "k" and problem.m * problem.n * dt.itemsize > MAX_PARTIAL:
            return f"split 'k' keeps an output a thread, at most {MAX_PARTIAL >> 10} KiB"
        if not registry.computes(self.family, dt):
            return f"{self.family} has no kernels for {dt.name}"
        if self.family not in ("gemv", "dots") and (self.mr, self.nr) not in registry.tiles(dt, tier, self.family):
            return f"no {self.mr}x{self.nr} tile for {dt.name} on {tier.name}"
        if registry.beyond(registry.family(self.family), tier) is None:
            return f"{tier.name} has no {self.family} kernels"
        if packed and (why := self._misfit_packed(dt, problem)):
            return why
        if self.family not in ("gemv", "small", "dots"):
            strip = self.pack == "none" and not packed and registry.strips(self.family, dt)
            if strip and (problem.layout[1] != "n" or problem.m > registry.STRIP_ROWS):
                return f"B in place takes at most {registry.STRIP_ROWS} rows of A, and adjacent columns"
            packs = ("none", "b", "ab") if strip else ("b", "ab") if registry.in_place(self.family, dt) else ("ab",)
            if registry.by_limbs(self.family) and (packed or self.pack != "ab"):
                return f"{dt.name} is cut into limbs while it is packed: pack must be 'ab', of a B that is not yet"
            if dt.converts and self.pack not in packs:
                return f"{dt.name} is converted while it is packed: pack must be 'ab'"
            if self.pack == "none" and problem.layout[1] not in ("n", PACKED) and problem.n > 1:
                return "B must be packed: its columns are not adjacent in memory"
            # Threads keep a block of A and one of B each; a database must not be able to ask for more.  The heuristic's
            # largest, of float16, take so many MiB beside an L2 of 1, 2, 3 and 4: 8.9, 13.3, 17.8 and 22.2.
            packs_a = self.pack == "ab" or dt.converts  # dot products keep room for an A that must be packed
            rows = min(self.mc, problem.m) + self.mr if packs_a else 0
            columns = min(self.nc, problem.n) + self.nr if self.pack != "none" else 0
            bytes_of_blocks = (rows + (0 if packed else columns)) * min(self.kc, problem.k) * dt.itemsize
            if registry.by_limbs(self.family):
                bytes_of_blocks *= 2
            if strip:
                # All of A, and sums.
                rows = registry.STRIP_ROWS + 1
                bytes_of_blocks = rows * (problem.k * dt.itemsize + min(self.nc, problem.n) * dt.real_bytes)
            if dt.narrows and self.kc < problem.k:
                bytes_of_blocks += max(MAX_SUMS, self.mr * columns * dt.itemsize)
            if bytes_of_blocks > MAX_WORKSPACE:
                return f"packed blocks exceed {MAX_WORKSPACE >> 20} MiB a thread"
        elif self.family == "gemv":
            if problem.m > 1 and (problem.m > registry.STRIP_ROWS or not registry.strips("gemv", dt)):
                return f"gemv takes one row of output, or of real numbers {registry.STRIP_ROWS}"
            if problem.m > 1 and problem.layout[1] != "n":
                return "gemv of more than one row needs a B with adjacent columns"
            # All of A, and sums.
            bytes_of_rows = (registry.STRIP_ROWS + 1) * (problem.k + min(self.nc, problem.n)) * dt.itemsize
            if problem.m > 1 and bytes_of_rows > MAX_WORKSPACE:
                return f"rows of A and sums exceed {MAX_WORKSPACE >> 20} MiB a thread"
            if self.pack != "none":
                return "gemv packs nothing"
            if problem.layout[1] == "g":
                return "gemv needs a matrix with adjacent rows or columns"
            if self.split == "m":
                return "gemv has one row to split"
        elif self.family == "dots":
            # (A single column may have any stride, and is not turned.)
            turned = problem.layout == "nn" and 1 < problem.n <= min(problem.m, FEW_DOT_COLUMNS) and dt.parts == 1
            turned = turned and problem.n * problem.k * dt.stored_bytes <= DOT_TURNED
            # (An A by columns is copied, as it is stored.)
            across = problem.layout == "tt" and registry.is_special(dt) and dt.parts == 1
            if problem.layout != "nt" and not (turned or across):
                return f"dots needs operands that both lie along k, or few columns and {DOT_TURNED >> 10} KiB of B"
            if self.pack != "none":
                return "dots packs nothing"
            # Of each thread: sums, a block of rows of A, or of columns of B that are its rows, and a few columns of B.
            rows, columns, steps = min(self.mc, problem.m), min(self.nc, problem.n), min(self.kc, problem.k)
            copied = columns if exchanges(problem, tier) else rows
            if (rows * columns + (copied + 8) * steps) * dt.real_bytes * dt.parts > MAX_WORKSPACE:
                return f"copied blocks exceed {MAX_WORKSPACE >> 20} MiB a thread"
        elif self.family == "small":
            if self.pack == "ab":
                return "small packs no A"
            if self.pack == "none" and problem.layout[1] != "n" and problem.n > 1:
                return "B must be packed: its columns are not adjacent in memory"
            vectors = -(-problem.n // registry.lanes(dt, tier))
            copied = vectors if dt.converts else min(vectors, -(-self.nr // registry.lanes(dt, tier)))
            if self.pack == "b" and copied * tier.vector_bytes * problem.k > MAX_TURNED:
                return f"small copies a panel, or a B that is converted, of at most {MAX_TURNED >> 10} KiB"
            if self.pack == "b" and self.threads > 1 and self.split == "n" and dt.converts:
                return "small copies a whole B of a type that is converted"
            if problem.k > MAX_SMALL_K and not shares_vectors(problem, tier):
                return f"small does not cut k: at most {MAX_SMALL_K}"
            if self.split == "k":
                return "small splits m, n or batch"
        return None

    def _misfit_packed(self, dt: registry.DType, problem: Problem) -> str | None:
        if self.family in ("gemv", "small", "dots"):
            return f"{self.family} reads no B that is packed"
        if self.special:
            return "a specialised kernel reads no B that is packed"
        if self.split == "k":
            return "threads that share k read no B that is packed"
        if self.pack == "b" and not dt.converts:
            return "B is packed already: pack is 'ab' or 'none', of A"
        dot = registry.dot(self.family, dt)
        if dot is not None and dot.appended and self.kc < problem.k:
            return "the sums that correct these dot products stand once, behind all of k: kc must hold it"
        return None

    def replace(self, **changes: Any) -> Config:
        """Return a copy with some fields changed."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Record:
    """A tuning result: on this CPU, `config` was the best found for `problem`.

    `seconds` is the median of one call, `baseline_seconds` that of the heuristic's
    configuration in the same paired run; `trials` how many were measured.
    """

    problem: Problem
    config: Config
    seconds: float
    baseline_seconds: float
    trials: int = 0
    strategy: str = ""
    date: str = ""
    kernels: str = ""

    @property
    def gflops(self) -> float:
        """Measured rate in 1e9 real operations a second."""
        return self.problem.flops / self.seconds * 1e-9

    @property
    def gain(self) -> float:
        """Time of the heuristic's configuration over that of this one.

        Both were timed in turn, so a fast or slow moment of the machine is in both.  Records of different runs are
        compared by their gains, not by their seconds.
        """
        return self.baseline_seconds / self.seconds


def names(kind: type) -> tuple[str, ...]:
    """Field names of a Problem, Config or Record, in order."""
    return tuple(f.name for f in fields(kind))
