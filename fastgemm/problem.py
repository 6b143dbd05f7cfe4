"""The values that travel through the library: Problem, Config, Record.

All three are frozen.  A `Problem` says what is to be computed, a `Config` how, and
a `Record` what was measured for a pair of them.
"""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass, fields, replace

from . import cpu, registry

# Sizes from outside (database, command line) are held to these before they reach C.
MAX_DIM = 1 << 40
MAX_BLOCK = 1 << 20
MAX_THREADS = 1024
MAX_WORKSPACE = 32 << 20
MAX_PARTIAL = 1 << 20
MAX_SMALL_K = 1024
MAX_TURNED = 32 << 10
# As `written_past` asks: steps of k (AVX2 on Zen 4, one thread and two, times gemm's, f32 5000 x 2000 by 1, 4, 8, 10,
# 12, 16 steps 2.1 1.4, 1.7 1.4, 1.4 1.1, 1.15 1.03, 1.09 0.98, 1.0 0.94; f64 5000 x 1000 by 4, 8, 12 1.6 1.3 1.1; c64
# by 4, 8 1.36 1.0), bytes of C over L3 (f32 x 3, 8 MB 0.6, 16 MB 1.3, 24 MB 1.7), and of an item of a stack.  With
# AVX-512, whose stores are whole lines, an output that L3 holds some of is better off there (Zen 5, one thread and two,
# f32 of 24 and 40 MB 2000 x 3000 x 8 0.70, 5000 x 2000 x 8 0.67, of 60 MB 5000 x 3000 by 3, 8 steps 1.4 1.2, 1.2 1.16,
# 160 MB 5000 x 8000 by 1, 3, 8 1.6 1.4, 1.4 1.3, 1.1 1.1; stacks 100 x 100 x 4 (2000) 1.6 1.5, x 10 (1500) 1.5 1.5,
# 128 x 128 x 8 (1000) 1.4 1.25, 200 x 500 x 4 (200) 1.4 1.26, 300 x 300 x 8 (400) 1.1 1.1, 333 x 333 x 8 0.93).
PAST_STEPS, PAST_L3, PAST_ITEM = 10, {16: 1 / 2, 32: 3 / 2}, 16 << 10
# Steps of a B by columns, as `turns_pieces` asks, operands and C being at most half of L3 (AVX2 on Zen 4, one thread,
# times gemm's, which copies in blocks: f32 64 x 300 by 3, 5, 8, 16, 24 steps 1.76 1.59 1.43 1.20 1.13, 4 x 1500 tt by
# 2, 8, 16, 32, 48, 64 1.74 1.46 1.25 1.08 1.02 1.02, 50 of 100 x 100 by 3, 16, 32 1.98 1.22 1.06, 500 x 1024 x 32
# 1.09, 64 x 1024 x 16 1.34; f64 64 x 300 x 8 1.41, x 32 1.08, c64 1.35 1.06, i32 64 x 500 x 16 1.14, 5 x 300 x 6
# 2.25; C in memory 3000 x 2000 x 16 0.78, 219 x 240 x 16, 234 of them, 0.73; AVX-512 on Zen 5, f32 64 x 300 x 5 1.25,
# 64 x 1024 x 16 1.06, 500 x 1024 x 32 1.02, 50 of 100 x 100 by 3, 16 1.35 1.07, tt 4 x 1500 by 2, 8, 32, 48 1.4 2.4
# 1.06 1.13, 118 x 1095 x 2 1.42, 50 x 700 x 30 1.27; f64 alike).
TURNED_STEPS = 48
# Rows and steps from which on the columns of C's last vector, where it holds a quarter of one at most, are computed by
# kernels whose rows share vectors: a pass over A more, for less work (Zen 5, AVX-512, one thread, f32 100 x 100 x 100
# 1.03, stacks of it 1.04, 64 x 50 x 200 1.07, 200 x 100 x 512 1.09, 300 x 97 x 300 1.10, 1000 x 35 x 300 1.09, 32 x 100
# x 1000 1.08, 64 x 36 x 500 1.31, 500^3 1.01; f64 1.00 to 1.06; but f32 16 x 500 x 500 0.96, 100 x 18 x 100 0.98, 50^3
# 0.94, 20 x 50 x 50 0.85).
LEFT_ROWS, LEFT_STEPS = 32, 96
# Sums of an output that is rounded once, kept beside it while blocks of k add to them; more rows than that take turns.
MAX_SUMS = 4 << 20
# Of a product whose operands both lie along k (layout nt), one is packed by turning it over.  Few rows of A cost less
# than all of B: the transposed output is computed, and its tiles are turned over instead.  Times of that, of B packed
# (Zen 5, one thread, B of 1 and of 42 MB): f32 16 rows 0.63 and 0.84, 32 0.81 and 0.93, 36 1.12 and 1.18, 48 0.96 and
# 1.24, 56 1.04 and 1.36 (two threads 1.07 and 1.4; AVX2 1.05 and 1.02); f64 0.67 to 0.91, 80 rows 0.95.  So rows of
# four bytes a number end earlier, and with a B of more than half of L3 earlier still.
# Fewer rows are dot products (`heuristic_dots`; 8x768x3072 365 us, dots 204; 16x768x3072 362, dots 489), of four bytes
# a number also 10 to 12 of them if B is in a cache (12x512x512 41, dots 29; 10x3072x768 350, 250; but 9x3072x768 355,
# 412, 12x4096x4096 2970, 3230 and with two threads 1520, 2770).
TURNED_FROM, TURNED_NEAR, TURNED_FAR, TURNED_WIDE = 9, 48, 32, 80
UNTURNED_ROWS = range(10, 13)
# Where long vectors are computed in two halves, rows of the transposed output that leave an eighth of their last vector
# empty, at least, are dot products whatever their number, but three vectors of half the length (`heuristic_tier`); and
# all rows that one vector holds, if B's columns are whole pages apart.  (Zen 4, AVX-512, one thread, time of the turned
# output over that of dot products, f32 by 256 x 64, 256 x 256, 512 x 512, 768 x 3072, 4096 x 4096: 9 rows 1.5 1.5 1.3
# 1.3 1.4, 13 1.1 1.3 1.2 2.0 1.5, 16 0.9 1.0 1.0 1.6 1.5, 20 1.4 1.2 1.2 1.5 1.4, 24 0.9 0.96 0.97 1.0 1.0, 28 1.1 1.0
# 1.1 1.1 1.1, 32 0.9 0.96 0.93 0.97 1.0, 40 1.1 1.2 1.2 1.15 1.25, 44 1.0 1.1 1.1 1.04 1.2, but 16 by 2560 x 7680 0.9;
# two threads alike; i32 1.8 1.4 1.3 1.4 1.46, 1.4 1.4 1.3 1.3 1.2, ..., 1.1 1.2 1.2 1.2 1.2; f64 9 rows 1.5 1.4 1.3 1.5
# 1.3, 13 1.3 1.2 1.1 1.0 1.0, 16 0.97 1.0 0.9 0.83 0.9, 20 1.2 1.2 1.1 1.0 1.1, 49 1.15 1.1 1.1 1.05 1.15, 64 1.06 1.0
# 0.9 1.0 1.1.  By AVX2's kernels 9, 17, 20 rows 1.4 1.0 1.0 0.97 1.0, 1.3 1.2 1.1 0.7 0.95, 1.3 1.2 1.0 0.7 0.86: not
# there.)
FILLED, FILLED_PAGE = 7 / 8, 4096
# Columns, and bytes of them, up to which a product by columns that are not along k is dot products after all: they are
# copied first, all of them, a copy that must stay in L2.  (More was not measured.)
DOT_COLUMNS, DOT_TURNED = 16, 256 << 10
# Rows from which on two to four columns are computed as rows of the transposed output (AVX2 on Zen 4, one thread, f32
# nt: 512 x 4 x 512 1.10, 1000 x 4 x 4096 1.21, f64 1.32, 1.62, and A from memory, 100000 x 4 x 256, 3.0; 30 x 2 x 128
# 0.87, 8 x 4 x 256 0.84; AVX-512 on Zen 5, nt, 1000 x 2 x 256 1.6, 1000 x 4 x 64 1.55, 200 x 4 x 256 1.33, A from
# memory 100000 x 4 x 256 1.7, 400000 x 2 x 64 1.5, f64 1.5, 1.4).
DOT_EXCHANGED = 64
# Where long vectors are computed in two halves also columns that leave a sixth of the last tile of six empty, and no
# whole vectors of half the length: by bytes of a number, if a row has so many bytes, and of so many steps (Zen 4,
# AVX-512, one thread, times not exchanged, or gemm's kernels, 1000 rows, f32 n = 5, 7, 9, 10, 11, 13, 14, 15, 19, 20,
# 21 by 256 1.29 1.56 1.33 1.22 1.1 1.08 1.0 0.95 1.23 1.18 1.13, n = 6, 8, 12, 16, 17, 18 0.95 1.0 0.95 0.89 1.0 0.93,
# 5, 7, 9, 13, 20 by 64 1.3 1.1 1.1 0.85 1.0, 9, 20 by 1000 1.24 1.19; 64 rows alike; 30000 from memory by 256 1.0 1.0
# 1.0 1.0 1.0 1.0 1.0 1.0 1.8 1.8 1.8; i32 1.2 1.6 1.3 1.2 1.07 1.2 1.1 1.0 1.2 1.15 1.1, n = 8 1.35, from memory 1.05
# to 2.9; f64 1.08 0.95 1.2 1.1 1.0 1.1 1.0 0.94 1.1 1.07 1.03, from memory 1.0 0.95 2.1 2.0 2.0 1.1 1.1 0.9 1.0 1.0
# 0.94, 13, 20 by 64 1.0 0.97).
EXCHANGED_COLUMNS, EXCHANGED_DEEP = {4: (5, 7, 9, 10, 11), 8: (5, 9, 10)}, (13, 14, 19, 20, 21)
EXCHANGED_BYTES, EXCHANGED_STEPS = 256, 256
TURNED_RATIO = 4    # columns to a row, at least
TURNED_K = 64
# So is a small output, or a narrow one of long sums, of two operands that are given transposed: exchanged they are not.
# (Zen 5, f32, speed over packing B: 2 x 2, 4 x 8, 8 x 4 by 64 steps 1.15 to 1.3, by 1000 6, 32 x 8 x 64 1.27, 64 x 2 by
# 64 and 1000 1.06 and 9.6, 1000 x 4 by 64, 256, 1000 0.76, 1.2, 3.3, 64 x 64 x 1000 1.12, 8 x 64 x 64 0.87; f64 1.1 to
# 4.5, 500 x 64 x 1000 0.97.)
EXCHANGED_M, EXCHANGED_N, EXCHANGED_K, EXCHANGED_LONG, EXCHANGED_OUT = 32, 8, 64, 256, 4096
# And an output whose rows leave a good part of a line empty, A being by columns: exchanged, rows of A are what
# vectors lie along.  Least and most bytes of such rows, fewest rows and steps.  (Zen 5, AVX-512, one thread,
# exchanged times not, tn f32 n = 9, 12, 14, 17, 20: m = 160, k = 100 1.34 1.32 1.2 1.37 1.16, k = 400 2.3 1.75 1.5
# 1.8 1.6, 24 x 100 1.4 1.1 0.9 1.15 1.0, 4000 x 1500 1.5 1.8 1.4 1.5 1.1, but k = 24 0.8 0.9 - 0.96 0.7, n = 15, 24,
# 33 of k = 100 1.0 0.9 to 1.04 1.0, of 400 1.1 to 1.3, n = 32, 48, 64 0.6 to 0.97; f64 n = 5, 6, 7, 9 1.3 to 2.0, 1.2
# to 1.9, 1.2 to 1.8, 1.0 to 1.7; tt f32 n = 9, 12, 17, 20 1.2 to 3.3, 1.1 to 2.5, 1.3 to 2.5, 1.1 to 2.2; AVX2, tn, n
# = 5, 9, 12 1.1 to 1.9, 1.1 to 1.4, 0.94 to 1.4.)
THIN_BYTES, THIN_M, THIN_K = ((32, 56), (64, 80)), 32, 96
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
        if registry.epilogue(self.epilogue).code and (self.batch > 1 or not registry.is_finished(row)):
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
        return registry.dtype(self.dtype)


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


def near_bytes() -> int:
    """Return the bytes of B up to which it counts as near where rows are turned: half of L3."""
    return cpu.caches().l3 // 2


def far_bytes() -> int:
    """Return the bytes of a B, or of all of a stack's, from which on it is taken to be in memory beside few rows.

    Of an L3 of 32 MiB (short vectors, one and two threads, from 12 MiB on times from 20 on: f32 1024 x 3500 0.89 0.82,
    1800 x 1800 0.83 0.78, 10000 x 350 0.85 0.8; 4000 x 1200 1.25 0.98; long ones, Zen 5, from 12 MiB on times from 18,
    a matrix by a vector, f32 1900 x 1900 0.95, 32000 x 100 0.87, 30000 x 128 0.8, but 3000 x 1200 1.2).
    """
    return cpu.caches().l3 * 9 // 16


def nearly_far(size: int, tier: registry.Isa) -> bool:
    """Say whether a matrix of so many bytes, beside few rows, gains by what fetches ahead: two thirds of `far_bytes`.

    With short vectors only.  (f32 4000 x 12 x 1000, A of 16 MB, 1.1 to 1.2, 2000 x 12 x 500 0.94; a B of 16 MB by 8
    rows 2.6, of 10 MB 1.05 to 1.2, by 4 rows 0.9 to 1.0.)
    """
    return tier.registers == 16 and 3 * size > 2 * far_bytes()


def turns_pieces(problem: Problem, tier: registry.Isa) -> bool:
    """Say whether the small family takes a B by columns in pieces: few steps beside operands and an output in L3."""
    row = problem.row
    if problem.layout[1] != "t" or problem.k > TURNED_STEPS or problem.streamed > _l3() // 2:
        return False
    return not row.converts and registry.accumulators(row, tier) == row.parts and problem.n > registry.lanes(row, tier)


def written_past(problem: Problem, tier: registry.Isa) -> bool:
    """Say whether the small family writes C past the caches: few steps into more than they hold (`PAST_L3`)."""
    row = problem.row
    item = problem.m * problem.n * row.itemsize
    several = problem.n > max(nr for _, nr in registry.tiles(row, tier)) and problem.layout[1] in "nt"
    plain = several and not row.converts and registry.accumulators(row, tier) == row.parts
    few = problem.k * row.parts <= PAST_STEPS and problem.epilogue == "none"
    large = item >= PAST_ITEM and problem.batch * item > PAST_L3[tier.registers] * _l3()
    return plain and few and large


def shares_vectors(problem: Problem, tier: registry.Isa) -> bool:
    """Say whether rows of C are so short that the small family has several in a vector."""
    row, lanes = problem.row, tier.vector_bytes // problem.row.real_bytes
    if not row.parts < problem.n * row.parts <= max(registry.narrow_widths(row, tier), default=0):
        return False
    # A by columns takes whole vectors of rows, and has no complex kernels; it is the only one for bytes.
    if problem.layout[0] == "n":
        return not row.stored
    return problem.layout[0] == "t" and row.parts == 1 and problem.m >= lanes


def few_left(problem: Problem, tier: registry.Isa) -> bool:
    """Say whether C's last vector holds so few columns that they are better off by themselves (`LEFT_ROWS`)."""
    row = problem.row
    lanes = tier.vector_bytes // row.real_bytes
    left = problem.n * row.parts % lanes
    few = 0 < left <= lanes // 4 and problem.n * row.parts > lanes
    near = problem.m * problem.k * row.parts * row.real_bytes <= _l3() // 4
    return few and near and problem.layout == "nn" and problem.m >= LEFT_ROWS and problem.k >= LEFT_STEPS and (
        not row.converts and row.group == 1 and problem.epilogue == "none")


def _l3() -> int:
    return cpu.caches().l3


def exchanges(problem: Problem, tier: registry.Isa) -> bool:
    """Say whether the dots family computes the transposed output: of few columns, which are copied, and many rows.

    Examples
    --------
    >>> exchanges(Problem("f32", 1000, 4, 256), registry.isa("v3"))
    True
    """
    row = problem.row
    few = 1 < problem.n <= registry.DOT_ROWS or (
        problem.layout == "nt" and tier.vector_bytes == halved_bytes() and problem.n in _uneven(problem))
    # Types that are read otherwise than they are stored, or summed otherwise, have no kernels for it.
    plain = row.parts == row.group == registry.accumulators(row, tier) == 1 and not row.converts
    return few and problem.m >= DOT_EXCHANGED and plain


def _uneven(problem: Problem) -> tuple[int, ...]:
    size, deep = problem.row.itemsize, problem.k >= EXCHANGED_STEPS
    few = EXCHANGED_COLUMNS.get(size, ()) if problem.k * size >= EXCHANGED_BYTES else ()
    return few + (EXCHANGED_DEEP if few and deep else ()) + ((8,) if few and size == 4 and problem.row.exact else ())


def thin_steps() -> int:
    """Return the most steps of a thin output that is exchanged (`THIN_BYTES`): with long vectors any.

    AVX2 on Zen 5, one thread, f32 50 x 12 x 100000 0.67, 64 x 20 x 50000 0.92, 100 x 10 x 100000 1.58, f64 128 x 10 x
    10000, 8 of them, 0.64, 100 x 10 x 100000 0.86; AVX-512 1.25, 1.37, 1.7, 1.5, 1.44.
    """
    return MAX_DIM if any(tier.vector_bytes == 64 for tier in cpu.isas()) else 2048


def _thin(m: int, row_c: int, k: int) -> bool:
    thin = any(more < row_c <= most for more, most in THIN_BYTES)
    return thin and m >= THIN_M and THIN_K <= k <= thin_steps()


def halved_bytes() -> int:
    """Return the bytes of vectors that the CPU computes in two halves; 0: none, or FASTGEMM_ISA names a tier."""
    tiers = () if os.environ.get("FASTGEMM_ISA") else cpu.isas()
    return max((tier.vector_bytes for tier in tiers if cpu.halves(tier)), default=0)


def _turnable(problem: Problem) -> bool:
    m, n, k, size = problem.m, problem.n, problem.k, problem.row.itemsize
    if problem.layout != "nt" or problem.batch != 1 or not problem.row.turns:
        return False
    if m < TURNED_FROM or n < TURNED_RATIO * m or k < TURNED_K:
        return False
    if size != 4:
        return m <= TURNED_WIDE
    return m <= (TURNED_NEAR if n * k * size <= near_bytes() else TURNED_FAR)


def by_dots(problem: Problem) -> bool:
    """Say whether rows that the transposed output might be computed of are dot products all the same (`FILLED`).

    Examples
    --------
    >>> by_dots(Problem("f32", 11, 512, 512, layout="nt")), by_dots(Problem("f32", 4, 512, 512, layout="nt"))
    (True, False)
    """
    m, n, k, size = problem.m, problem.n, problem.k, problem.row.itemsize
    if not _turnable(problem):
        return False
    lanes = halved_bytes() // size
    if not lanes:
        return size == 4 and m in UNTURNED_ROWS and n * k * size <= near_bytes()
    if size == 4 and m <= lanes and k * size % FILLED_PAGE == 0:
        return True
    return m <= FILLED * lanes * -(-m // lanes) and 2 * m != 3 * lanes


def turns(problem: Problem) -> bool:
    """Say whether the transposed output is computed although C is row-major (see `TURNED_FROM`).

    Examples
    --------
    >>> turns(Problem("f32", 30, 512, 512, layout="nt")), turns(Problem("f32", 30, 512, 512, layout="nn"))
    (True, False)
    """
    m, n, k, size = problem.m, problem.n, problem.k, problem.row.itemsize
    if problem.layout in ("tn", "tt") and problem.row.turns and _thin(m, n * size, k):
        return True
    if problem.layout == "tt" and problem.row.turns:
        long = k >= EXCHANGED_LONG
        few = n <= EXCHANGED_N and (m <= EXCHANGED_M or long)
        return m > 1 and n > 1 and k >= EXCHANGED_K and (few or (long and m * n <= EXCHANGED_OUT))
    return _turnable(problem) and not by_dots(problem)


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
        if self.family not in ("gemv", "dots") and (self.mr, self.nr) not in registry.tiles(dt, tier):
            return f"no {self.mr}x{self.nr} tile for {dt.name} on {tier.name}"
        if not registry.computes(self.family, dt):
            return f"{self.family} has no kernels for {dt.name}"
        if registry.beyond(registry.family(self.family), tier) is None:
            return f"{tier.name} has no {self.family} kernels"
        if packed and (why := self._misfit_packed(dt, problem)):
            return why
        if self.family not in ("gemv", "small", "dots"):
            strip = self.pack == "none" and not packed and registry.strips(self.family, dt)
            if strip and (problem.layout[1] != "n" or problem.m > registry.STRIP_ROWS):
                return f"B in place takes at most {registry.STRIP_ROWS} rows of A, and adjacent columns"
            packs = ("none", "b", "ab") if strip else ("b", "ab") if registry.in_place(self.family, dt) else ("ab",)
            if dt.converts and self.pack not in packs:
                return f"{dt.name} is converted while it is packed: pack must be 'ab'"
            if self.pack == "none" and problem.layout[1] not in ("n", PACKED) and problem.n > 1:
                return "B must be packed: its columns are not adjacent in memory"
            # Threads keep a block of A and one of B each; a database must not be able to
            # ask for more (the heuristic's largest are below 5 MiB).
            packs_a = self.pack == "ab" or dt.converts  # dot products keep room for an A that must be packed
            rows = min(self.mc, problem.m) + self.mr if packs_a else 0
            columns = min(self.nc, problem.n) + self.nr if self.pack != "none" else 0
            bytes_of_blocks = (rows + (0 if packed else columns)) * min(self.kc, problem.k) * dt.itemsize
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
            turned = problem.layout == "nn" and problem.n <= min(problem.m, DOT_COLUMNS) and dt.parts == 1
            if problem.layout != "nt" and not (turned and problem.n * problem.k * dt.stored_bytes <= DOT_TURNED):
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

    def replace(self, **changes: object) -> Config:
        """Return a copy with some fields changed."""
        return Config(**{**asdict(self), **changes})



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
