"""The configuration for a problem that nobody has tuned.

A cost in cycles is estimated for every register tile, split and thread count that fits, and the cheapest
is taken.  The estimate knows four things, each measured (Zen 5, 2 cores, AVX-512, f32 unless said):

* a tile's k-loop is bound by multiply-adds, by loads, or, below 8 accumulators, by latency;
* a tile costs a ramp and its stores (the 2 to 6 % that a full tile loses outside the k-loop);
* starting a team costs about half a microsecond: 64^3 takes 2.3 us with one thread and 1.7 with two;
* threads share what they can: m, n, or a stack of products.

Whether to pack, and the cache blocks, follow from sizes and strides (`packing`, `blocks`).
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from . import (
    cpu,
    heuristic_dots,
    heuristic_l1,
    heuristic_l1_blocks,
    heuristic_l1_stacks,
    heuristic_l1_streams,
    heuristic_l1_written,
    heuristic_small,
    heuristic_strips,
    heuristic_tier,
    heuristic_tiles,
    kernels,
    registry,
)
from .heuristic_costs import DEEP, STREAM_B, TEAM_BYTES, TILE_CYCLES, busy, grid_cycles, streams_of
from .problem import MAX_BLOCK, MAX_PARTIAL, PACKED, Config, Problem

# Cycles: cheap enough to be wrong by a factor of two, which moves a choice only near its border.
TEAM_CYCLES = 3000       # fork and join of one region, 617 ns at 4.x GHz
CYCLES_A_BYTE = 0.03     # of memory traffic that computing does not hide: a third of 10 bytes a cycle
FAR_ROW = 25             # cycles: 32 x 50176 x 144, panels of 2 vectors 3.8 ms, of 3 and 4 2.8
SHORT_ROW = 1024         # bytes of a row of B beside which a tall tile of adjacent rows of A gains
DENSE_ROW = 512          # bytes of a row of B, in whole lines, up to which it lies as densely as a packed panel
MOST_ROWS = 96           # of a block: C is written a block at a time (92160 x 144 x 32: MC 96 350 GFLOP/s, 3072 106)
AHEAD_STEPS = 512        # of a block of B that tiles fetch before it is copied
STEPS_APART = 512        # of an A by columns whose columns share sets of the caches
FEW_PANELS = 2           # of rows, where writing C takes most of the time
FEW_ROWS = 200           # M up to which B is read in place
SEVERAL = 8              # of B's narrow panels, copied at a time for so few rows
# Of C, and steps of k, from which it is not where its rows are whole pages apart.
PAGED_BYTES, PAGED_K = 2 << 20, 1024
SLOW_ROWS = 128          # of registers from which it is not beside panels of less than a line, where it is paged
# And beside panels of one line and a half at most, which `lead_of` of the driver aligns: where B's rows are so many
# pages apart, where they begin alike in a line, and where they do not, by whether B is above L2, a quarter, or less.
PAGED_ROWS = ((8, 12), (4, 20), (1, 32))
EVEN_ROWS, UNEVEN_ROWS = 160, (32, 64, FEW_ROWS)
STACKED_ROWS, STACKED_B = 96, 384  # of stacks, beside rows of B of so many bytes that begin alike in half a line
SHORT_B = 256            # bytes of a row of B below which it has too few panels
BYTES_STRIP = 1024       # columns of a strip of bytes, packed for few rows
TURNED_STEPS, THIN_STEPS, THIN_BYTES = 96, 64, 256  # of A by columns, with few registers; for so short rows of both
MOST_OF_PAGE = range(1800, 4096)
DEEPEST = 4096           # steps of k of their columns where those lie along k
MANY_ROWS = 2048         # M from which on it never is
PASSING_ROWS = 1000      # and from which on it is not where B is more than a quarter of L2
# What an A by columns must have to be copied (`_copies_a`): steps of k, columns of C, bytes of C, and bytes of a row of
# A.T by the components of a number.
COPIED_STEPS, COPIED_COLUMNS, COPIED_C, COPIED_ROW = 256, 96, 1 << 20, {1: 768, 2: 4096}
WIDE_STEPS, WIDE_COLUMNS = 64, 512  # fewer steps beside so many columns

# The fewest steps of k for a thread, where threads share k, and bytes of a column from which sharing them pays for
# adding up (f32, time with k shared over time with n shared, k = 128, 256, 512, 1024, 2048: n = 1024 1.39 1.34 0.94
# 0.89 0.83, 3072 1.70 1.40 1.21 1.13 0.90, 8192 1.48 1.26 1.10 0.98 1.03; f64 1024 1.38 1.09 0.94 0.82, 4096 1.16 1.0
# 0.92 1.01).
GEMV_ROWS, SHARED_COLUMN = 64, 3 << 10
FEW_COLUMNS = 16         # for a thread, up to which threads share k although a column is one piece of memory


def _narrower(problem: Problem, tier: registry.Isa) -> registry.Isa:
    # Rows of C of half a vector at most leave half of every multiply-add empty, and a whole vector of B, of which half
    # is masked, mostly lies in two lines: a few of them and a long k are better off with vectors of half the length
    # (Zen 5, one thread, f32 6 x 8 x 6400 1.28, 6 x 8 x 5504 1.2, 2 x 2 x 10000 1.1, f64 4 x 4 x 10000 1.36).
    row = problem.row
    wide = 2 * problem.n > registry.lanes(row, tier)
    if wide or problem.k < registry.DEEP_STEPS or set(problem.layout) & {"g", PACKED}:
        return tier
    halves = (isa for isa in registry.ISAS if 2 * isa.vector_bytes == tier.vector_bytes and "fma" in isa.features)
    return next((isa for isa in halves if problem.m in dict(registry.deep(row, isa))), tier)


def config(problem: Problem, isa: registry.Isa | None = None) -> Config:
    """Return the configuration that the rules give for a problem.

    Parameters
    ----------
    problem : Problem
        Any problem.
    isa : Isa, optional
        The tier; by default the active one, or the one below where its kernels are better (`heuristic_tier`).

    Returns
    -------
    Config
        It fits the problem.  Family ``"numpy"`` where no tier runs.

    Examples
    --------
    >>> from fastgemm import heuristic, registry
    >>> from fastgemm.problem import Problem
    >>> c = heuristic.config(Problem("f32", 13, 512, 256), registry.isa("v4"))
    >>> c.mr, c.nr, c.pack
    (14, 32, 'none')
    """
    tier = isa or kernels.active_isa()
    if tier is None or not registry.supported(problem.row, tier):
        return Config(family="numpy")
    half = kernels.half_isa() if isa is None else None
    if half is not None and heuristic_tier.halves(problem, half):
        tier = half
    blocked = family(problem.row, tier)
    dots = blocked != "gemm"
    own = heuristic_dots.config(problem, tier, dots) or heuristic_l1_streams.config(problem, tier)
    own = own or heuristic_strips.config(problem, tier, blocked) or heuristic_small.config(problem, tier, dots)
    if own is not None:
        return own
    by_gemv = problem.layout[1] != "g" and registry.computes("gemv", problem.row)
    if problem.m == 1 and by_gemv and not heuristic_small.one_row(problem, tier):
        return _gemv(problem, tier)
    tier = _narrower(problem, tier)
    best: tuple[float, Config] | None = None
    for mr, nr in heuristic_l1_stacks.tiles(problem, tier):
        pack = packing(problem, tier, mr, nr)
        by_columns = pack == "b" and heuristic_l1_blocks.by_columns(problem, tier, nr)
        for split, threads in _teams(problem):
            if split == "m" and by_columns:
                continue
            cycles = _cost(problem, tier, mr, nr, pack, split, threads)
            if best is None or cycles < best[0]:
                mc, kc, nc = blocks(problem, tier, mr, nr, pack)
                best = cycles, Config(family(problem.row, tier), tier.name, mr, nr, mc, kc, nc, pack, split, threads)
    assert best is not None
    return best[1]


def family(row: registry.DType, tier: registry.Isa) -> str:
    """Return the blocked family that computes a dtype: one that this CPU has beyond the tier before the tier's own."""
    for other in registry.FAMILIES:
        if other.tiers and registry.computes(other.name, row) and kernels.has(other.name, tier.name):
            return other.name
    return "gemm"


def _gemv(problem: Problem, tier: registry.Isa) -> Config:
    size = problem.k * problem.n * problem.row.itemsize
    threads, split = 1, "n"
    if problem.threads > 1 and size * problem.batch >= TEAM_BYTES:
        split = "batch" if problem.batch >= problem.threads else "n"
        wide = problem.batch if split == "batch" else -(-problem.n // registry.lanes(problem.row, tier))
        # A thread that has whole rows reads one piece of memory; of a part of every row, the ends cost more than a sum
        # of two outputs (GB/s, n / k: 2048 x 16000 52 / 81, 8192 x 4096 67 / 82, 256 x 4000 56 / 170).  Of
        # adjacent columns that holds only where there are few (16 x 50000 88 / 157, 64 x 20000 166 / 160).
        partial = problem.n * problem.row.itemsize
        few = problem.n <= FEW_COLUMNS * problem.threads
        # (Rows in two halves are up to 1.2 times as fast where only this product reads B, f64 1 x 2048 x 512, and
        # slower in turn with others, f32 1 x 2048 x 512 117 GB/s and 141.)
        deep = problem.layout[1] == "n" and problem.k * problem.row.itemsize >= SHARED_COLUMN
        if problem.batch == 1 and partial <= MAX_PARTIAL and (deep or few):
            split, wide = "k", problem.k // GEMV_ROWS
        threads = max(1, min(problem.threads, wide))
    return Config("gemv", tier.name, split=split, threads=threads)


def _teams(problem: Problem) -> list[tuple[str, int]]:
    # Between equals the first wins: whole products for a thread before parts, parts that share no B before others.
    teams = [("n", 1)]
    if problem.threads > 1 and busy(problem):
        for split, size in (("batch", problem.batch), ("n", problem.n), ("m", problem.m), ("k", problem.k // DEEP)):
            threads = min(problem.threads, size)
            small = problem.batch == 1 and problem.m * problem.n * problem.row.itemsize <= MAX_PARTIAL
            if threads > 1 and (split != "k" or small):
                teams.append((split, threads))
    return teams


def cycles(problem: Problem, config: Config) -> float:
    """Return the estimate for one thread's part of a product, in cycles: for comparing ways to cut a larger work.

    Examples
    --------
    >>> from fastgemm import heuristic, registry
    >>> from fastgemm.problem import Problem
    >>> few, many = Problem("f32", 64, 512, 512), Problem("f32", 96, 512, 512)
    >>> config = heuristic.config(few, registry.isa("v4"))
    >>> heuristic.cycles(few, config) < heuristic.cycles(many, config)
    True
    """
    if config.family == "numpy":
        return 2.0 * problem.flops
    row, tier = problem.row, registry.isa(config.isa)
    lanes, dot = registry.lanes(row, tier), registry.dot(config.family, row)
    steps = -(-problem.k // (dot.group if dot else row.group))
    if not config.mr or config.nr < lanes:
        # Dot products load both operands for each step, and add up lanes at the end.
        numbers = problem.batch * problem.m * problem.n * row.parts / config.threads
        return TILE_CYCLES + numbers * (steps / lanes + 2)
    if problem.layout[1] != PACKED and config.family != "small":
        halves = replace(problem, k=steps * row.group)
        return _cost(halves, tier, config.mr, config.nr, config.pack, config.split, config.threads)
    # Operands that are near, or lie in panels: what gemm's tiles pay for reading B in rows does not show (AVX2, f32 128
    # x 96 x 128 by small's 4x24 94 % of the peak, which would be 68: attention was cut before such a product, 0.87).
    m, vectors, batch = problem.m, -(-problem.n // lanes), problem.batch
    if config.split == "m":
        m = -(-m // config.threads)
    elif config.split == "batch":
        batch = -(-batch // config.threads)
    else:
        vectors = -(-vectors // config.threads)
    high, streams = config.mr * row.parts, streams_of(row, False)
    wide = config.nr // lanes
    return batch * grid_cycles(m * row.parts, vectors, steps, high, wide, 0.0, row.real_bytes, streams)


def _cost(problem: Problem, tier: registry.Isa, mr: int, nr: int, pack: str, split: str, threads: int) -> float:
    dt = problem.row
    lanes = registry.lanes(dt, tier)
    m, k, batch = problem.m, -(-problem.k // dt.group), problem.batch
    vectors = -(-problem.n // lanes)
    if split == "m":
        m = -(-m // threads)
    elif split == "n":
        vectors = -(-vectors // threads)
    elif split == "k":
        k = -(-k // threads)
    else:
        batch = -(-batch // threads)
    # A complex row is two rows of registers.
    row_b = problem.n * dt.itemsize
    # A panel of a line and a half takes two of them, as dense as rows may be (AVX2, f32, times 6x16: 64 x 64 x 500
    # 0.89, 16 x 2560 x 2560 0.77).
    lines = 2 if 64 < nr * dt.itemsize < 128 else 1
    dense = (row_b <= DENSE_ROW and row_b % 64 == 0 and lines == 1) or problem.k * row_b <= cpu.caches().l1d
    # (Short vectors, a B of one panel: 200 x 24 x 1000 by 4x24 1.24 of 6x16.)
    dense = dense or (tier.registers == 16 and problem.n <= nr)
    stream = lines * STREAM_B if pack == "none" and not dense else 0.0
    # Where B's rows lie far apart and come from memory, each step of a panel is an access of its own.  (From L3 the
    # tile with the fewest passes wins, times 6x64: 10 x 2048 x 512 1.15, 10 x 4096 x 1000 1.19, 22 x 3072 x 1024 1.07,
    # though 17 x 3072 x 1024 0.86; from memory 12 x 4096 x 4096 0.85.)
    distant = pack == "none" and row_b >= 4096 and problem.k * row_b > cpu.caches().l3 // 2
    begins = k * -(-vectors * lanes // nr) * FAR_ROW * lines if distant else 0
    # Rows of A that are adjacent in memory are one stream, however many (A transposed, 14x32 / 8x48 / 6x64 ms:
    # 100 x 100 x 100000 11.8 / 13.2 / 14.4, 64 x 64 x 100000 4.0 / 5.3 / 4.7, 200 x 200 x 50000 19.8 / 21.1 / 21.5).
    # Beside long rows of B it does not show (64 x 576 x 28000 10.5 / 9.6 / 10.1).
    # Nor of halves two a lane, which are half as many steps (bf16 2450 x 32 x 288, 32 of them, 14x32 3.6 ms, 8x48 5.2;
    # 100000 x 32 x 144 1.31, 100000 x 64 x 144 times 6x64 1.11).
    own = family(dt, tier) != "gemm"
    far = problem.m * problem.k * problem.batch * dt.itemsize > cpu.caches().l3 and problem.layout[0] != "t" and not own
    row_bytes = 0 if own or (problem.layout[0] == "t" and row_b <= SHORT_ROW) else dt.real_bytes
    streams = streams_of(dt, far)
    cycles = grid_cycles(m * dt.parts, vectors, k, mr * dt.parts, nr // lanes, stream, row_bytes, streams)
    cycles += begins
    moved = 0.0 if pack == "none" else copying(problem.layout, vectors, k, lanes)
    if pack == "ab":
        moved += m * k
    # What a thread reads and writes in all, where the caches of its core do not hold it: splitting n, every thread
    # reads all of A (20000 x 32 x 1600: n 308 GFLOP/s, m 422).
    traffic = (m * k + (k + m) * vectors * lanes) * dt.itemsize
    if traffic > cpu.caches().l2:
        moved += traffic * CYCLES_A_BYTE
    if split == "k":
        moved += m * vectors * (threads + 1)
    return batch * (cycles + moved) + (TEAM_CYCLES if threads > 1 else 0)


def copying(layout: str, vectors: int, steps: int, lanes: int) -> float:
    """Return the part of `cycles` that copies B: so many vectors of so many numbers, for so many steps of k.

    Examples
    --------
    >>> from fastgemm import heuristic
    >>> heuristic.copying("nt", 4, 100, 16), heuristic.copying("nn", 4, 100, 16)
    (6400.0, 800.0)
    """
    # A load and a store from a cache or from memory; transposing, an element a cycle.
    return vectors * steps * (2.0 if layout[1] == "n" else float(lanes))


def packing(problem: Problem, tier: registry.Isa, mr: int, nr: int) -> str:
    """Say what to copy: ``none``, ``b`` (into panels) or ``ab``.

    Measured on squares (share of the peak, none / b / ab): 512: 97 / 96 / 93; 768: 90 / 94 / 92;
    1024: 82 / 95 / 92; 4096: - / 93 / 90; f64 4096: - / 91 / 89.  So A stays where it is, however long its rows,
    unless neither its rows nor its columns are adjacent (A given transposed, two threads, best in place / copied:
    300^3 485 / 324, 4000 x 256 x 512 457 / 56, 2048^3 463 / 460), or vectors are short and its columns long
    (`_copies_a`).
    For few rows B is read in place, its next panel prefetched (GFLOP/s, best in place / best packed):
    16 x 8192 x 2048 127 / 87, 64 x 4096 x 4096 198 / 172, 128 x 4096 x 4096 212 / 202, 200 x 1000 x 1000 248 / 241,
    256 x 4096 x 4096 217 / 220.
    """
    size = problem.row.itemsize
    row_b, panel = problem.n * size, nr * size
    if problem.row.converts:
        return "b" if problem.layout[0] == "n" and registry.in_place(family(problem.row, tier), problem.row) else "ab"
    if problem.layout[0] == "g" and problem.m > mr and problem.n >= 4 * nr and problem.k * size > 256:
        return "ab"
    small_l1 = cpu.small_l1(tier)
    if heuristic_l1.copies_a(problem, tier) if small_l1 else 64 <= panel < 128 and _copies_a(problem):
        return "ab"
    if problem.layout[1] != "n" or _copies_ahead(problem, tier):
        return "b"
    # A B of one panel's width is a panel as it lies (256 x 64 x 6272: 248 GFLOP/s in place, 177 copied).  For many rows
    # the copy costs nothing, and its lines are aligned (4096 x 16 x 256 222 / 204, 20000 x 128 x 128 268 / 260).
    if problem.m > MANY_ROWS:
        return "b"
    if heuristic_l1_written.copies(problem, tier):
        return "b"
    if small_l1 and problem.layout[0] == "t" and problem.k >= heuristic_l1.COPIED_STEPS:
        # (Best in place times B copied alone, f32 and f64, 64 x 147 x 25088 1.6 1.6, 128 x 64 x 20000 1.3 1.6, 64 x 64
        # x 10000 1.06 1.4; but of few steps 1500 x 2000 by 32, 48 0.93 1.06, 0.71 0.63.)
        return "none"
    # Many rows of A pass through L2, and take lines of B with them where it is large (best in place / copied, rows 800,
    # 1200, 2000, one thread: f32 128 x 1280 1.0 1.07 1.1, 100 x 1500 1.04 1.13 1.26, 300 x 600 1.03 1.07 1.08, 128 x
    # 512 1.0 0.99 1.05, 1500 and 2000 by 64 x 1280 1.09 1.07; f64 128 x 500 1.05 1.02 1.22; two threads 0.97 to 1.04;
    # AVX2 1.02 to 1.12).
    if problem.m >= PASSING_ROWS and 4 * problem.k * row_b > cpu.caches().l2:
        return "b"
    if heuristic_small.masked(problem, tier, nr):
        return "b"
    # Rows whole pages apart share sets of the caches and pages of the TLB; a copy pays where as many rows of A share it
    # as make a C of 2 MiB (times in place, 32 / 64 / 96 / 128 rows by 16384 x 1152: f64 1.14 1.25 1.4 1.34, f32 1.01
    # 1.06 1.2 1.15; 8192 x 2048: f64 0.96 1.0 1.24 1.22; 4096 x 1024: f64 1.0 1.02 1.1 1.12, f32 - 0.9 0.96 1.03, with
    # two threads 1.06; 4096 x 4096: f32 0.86 0.91 0.96 0.99 to 1.1, 192 rows 1.05; between pages 3000 x 3000 0.79 0.87
    # 0.89 0.95; few steps: 32 by 50176 x 144 0.82, 128 by 8192 x 512 0.95).
    paged = row_b % 4096 == 0
    if small_l1 and problem.layout[0] == "n":
        least = heuristic_l1_stacks.copied_from(problem)
    else:
        least = _copied_from(problem) if 64 <= panel < 128 else 0
    if least:
        return "b" if problem.m * problem.row.parts >= least and problem.n > nr else "none"
    if panel < 64:
        paged = paged and problem.m * problem.row.parts >= SLOW_ROWS
    else:
        paged = paged and problem.k >= PAGED_K and problem.m * row_b >= PAGED_BYTES
    if (problem.m <= FEW_ROWS and not paged) or problem.n <= nr:
        return "none"
    # Rows whole pages apart share the sets of L1, where a panel of 16 has no room (255 x 2048 x 16: copied 1.17).
    return "none" if _fits_l2(problem) and row_b % 4096 else "b"


def _copies_ahead(problem: Problem, tier: registry.Isa) -> bool:
    return cpu.halves(tier) and heuristic_tier.copies_ahead(problem)


def _copies_a(problem: Problem) -> bool:
    # Whether an A by columns is copied beside panels of B of about a line.  In place each step of k reads another line,
    # and of long columns another page, for a few numbers; a copy of it must serve enough of B (AVX2 on Zen 4, B copied
    # too / B alone, one thread, A transposed: f64 1000^3 1.25, 1000 x 1000 x 4000 1.33, 400 x 400 x 1000 1.15, 300 x
    # 300 x 1000 1.12, 100 x 2000 x 1000 1.04, 200 x 3000 x 1000 1.2; f32 1000^3 1.22, 2000 x 2000 x 300 1.23, 400 x 400
    # x 1000 1.07; i32 1000^3 1.14; c64 1000^3 1.11, c128 256 x 512 x 3136 1.3; two threads 1.0 to 1.45, B transposed as
    # well 1.03 to 1.24.  But of C's of less than 1 MiB f32 300^3 0.98, f64 100 x 600 x 20000 0.97, f32 64 x 576 x
    # 28000 0.97, beside blocks of k for L1 f32 256 x 512 x 3136 0.97, 400 x 400 x 1000 0.98; few steps, f32 400 x 400 x
    # 150 0.91; few columns, 2000 x 64 x 1000 0.9, 2000 x 40 x 2000 0.86; shorter rows, c64 256 x 512 x 3136 0.96, c128
    # 200 x 300 x 1000 0.98).
    row_a = problem.m * problem.row.itemsize
    # (One thread, f32, times a copy of B alone: 1000 x 1000 x 100 1.09, x 200 1.07, 954 x 1542 x 70 1.06, 585 x 1489 x
    # 175 1.1 to 1.2, 300 x 2000 x 100 1.1, but 919 x 289 x 171 0.86 to 1.06, 801 x 176 x 166 0.97.)
    wide = problem.k >= WIDE_STEPS and problem.n >= WIDE_COLUMNS
    return (
        problem.layout[0] == "t"
        and (problem.k >= COPIED_STEPS or wide or heuristic_tiles.collides(problem))
        and problem.n >= COPIED_COLUMNS
        and row_a * problem.n >= COPIED_C
        and row_a >= COPIED_ROW[problem.row.parts]
    )


def _copied_from(problem: Problem) -> float:
    # Rows of registers from which B is copied into panels of about a line (AVX2 on Zen 4, one thread, 4x24 copied times
    # 6x16 in place, f32, m = 16, 32, 64, 128, 200, 400):
    # rows whole pages apart   2048 x 512 0.78 0.95 1.07, 4096 x 1024 0.92 1.10 1.20, 4096 x 4096 0.95 1.11 1.16 1.38,
    #                          8192 x 512 1.26, 16384 x 1152 1.43 (12 rows 1.11, 1.17), 6144 x 2048 0.93, 24 rows 1.00
    #   copied side by side    (20, 24, 28 rows) 4096 x 4096 1.14 1.07 1.14, two threads 1.21 1.15 1.20, 12288 x 1024
    #                          1.18 1.12, f64 2048 x 4096 1.10 1.04; but 3072 x 1024 1.05 0.98 1.09, 2048 x 2048 - 0.93
    #                          0.99
    # that begin alike         1000 x 1000 - - 0.96 1.03 1.06 1.10, 512 x 512 0.93 (64) 1.01 1.04 1.05, 256 x 256 0.98
    # that do not              1001 x 1001 0.87 1.04 1.10 1.21 1.28 1.28, 286 x 286 - - 1.01 1.07 1.09 1.12,
    #                          100 x 300 - - 0.89 0.97 1.03 1.04
    # f64 100 x 512 x 128 1.19; i32 64 x 512 x 512 1.06, 200 x 600 x 600 1.08, 200 x 601 x 601 1.16; c64 1.0 to 1.27.
    # of stacks that leave caches, begun 16 bytes into a line and at a line: 128 x 128 x 64 (96) 1.16 1.03, 384 x 384 x
    #                          64 (12) 1.17 1.12, 64 x 256 x 64 1.11 0.95, 100 x 200 x 200 1.10 0.95, 128 x 96 x 200
    #                          1.06 0.99, 256 x 256 x 256 1.06 1.03, 128 x 64 x 128 1.04 0.93, rows unlike 200 x 300 x
    #                          50 0.96; f64 1.05 to 1.2 and 1.0 to 1.13
    # Not of short rows, nor beside an A by columns from memory (32 x 32 x 1000000 0.77, 60 x 35 x 25024 0.88; 100 x 100
    # x 1000000 tn 0.76, 32 x 100 x 215512 tn 0.76; but 96 x 64 x 25024 1.2); from L3 (f32, two threads, f64) 2000 x 64
    # x 1000 tn 1.21 1.18 1.0, 300 x 128 x 1000 1.2 1.02 1.01, 100 x 64 x 5000 1.04 1.1 1.15, 500 x 64 x 1000 0.98 1.11
    # 1.29, 128 x 300 x 600 1.02 1.01 1.22, but 48 x 200 x 2000 0.94, 60 x 100 x 1000 0.93.
    row_b, l2 = problem.n * problem.row.itemsize, cpu.caches().l2
    bytes_b = problem.k * row_b
    if row_b % 4096 == 0:
        return next(rows for pages, rows in PAGED_ROWS if row_b % (pages << 12) == 0)
    if heuristic_small.nearly_paged(problem):
        return heuristic_small.NEARLY_ROWS
    if problem.layout[0] == "t" and problem.k * (problem.m + problem.n) * problem.row.itemsize <= cpu.caches().l3 // 4:
        return heuristic_small.RAGGED_ROWS if heuristic_tiles.ragged(problem) else heuristic_small.COLUMN_ROWS
    if problem.layout[0] == "n" and heuristic_small.spread(problem):
        return heuristic_small.SPREAD_ROWS
    if problem.layout[0] == "t" or row_b < SHORT_B:
        return inf if _fits_l2(problem) else FEW_ROWS + 1
    stacked = problem.batch > 1 and problem.streamed > cpu.caches().l3 // 4
    if stacked and row_b % heuristic_tiles.EVEN_BYTES == 0 and row_b >= STACKED_B:
        return STACKED_ROWS
    if heuristic_tiles.even(problem):  # 64 x 1000000 x 64 in place 0.77
        return EVEN_ROWS if bytes_b > l2 // 4 else inf
    large, middling, small = UNEVEN_ROWS
    return large if bytes_b > l2 else middling if bytes_b > l2 // 4 else small if bytes_b > l2 * 3 // 32 else inf


def _fits_l2(problem: Problem) -> bool:
    # B stays in L2 between row panels where it is read in place; rows a page apart share sets, and leave room for less.
    row = problem.n * problem.row.itemsize
    # f32 512^3, whose B is all of L2: 83 % of the peak in place, 92 packed.
    return problem.k * row <= cpu.caches().l2 * (0.5 if row % 4096 == 0 else 0.75)


def _panels_written(problem: Problem, tier: registry.Isa, mr: int) -> int:
    # Few steps of dot products, and long rows of C that share sets of L1, or come from memory: fewer of them at a time.
    # 0: as many as fit.
    row = problem.row
    dot = registry.dot(family(row, tier), row)
    row_c = problem.n * row.result_bytes
    if dot is None:
        return heuristic_l1_written.panels(problem, tier, mr)
    if row_c < 4096:
        return 0
    steps = -(-problem.k // dot.group)
    most = (steps <= 8 and row_c % 4096 == 0) or (steps <= 16 and problem.m * row_c > cpu.caches().l3)
    return FEW_PANELS if most else 0


def _passes(problem: Problem) -> bool:
    # An A that stays in L3, and comes from there as fast as it is multiplied: not by columns whole pages apart.
    size = problem.row.itemsize
    steady = problem.layout[0] != "t" or problem.m * size % 4096 != 0
    return steady and problem.m * problem.k * size <= cpu.caches().l3 // 8


def blocks(problem: Problem, tier: registry.Isa, mr: int, nr: int, pack: str) -> tuple[int, int, int]:
    """Return MC, KC, NC from the cache sizes.

    With 1 MiB of L2 (in proportion elsewhere): KC is 8 KiB of a row of A, so that a panel of B (8x48 f32: 384 KiB) and
    a block of A (MC 48: 384 KiB) live in L2 together, and B's block (NC 512: 4 MiB) in L3.  f32 2048^3: KC 1024 90.6 %,
    2048 92.4 %; f64 4096^3: KC 1024 with MC 48 91.1 %, MC 24 92.3 %, MC 2048 below 85 %.  Where
    B must be packed for few rows, its panels are used once or twice, and narrow strips (2 NR) keep them in L2.
    An A of at most an eighth of L3 passes over a quarter of L2 at a time of a B that is larger than L2: copies in L3
    cost more than A from there (builds.py, one and two threads: f32 1024^3 1.01 to 1.03, 900^3 1.04, 256 x 4096 x 2048
    1.05, 900 x 1100 x 1000 tn 1.03 and 1.14; f64 700^3 1.03 and 1.00; c64 300 x 2500 x 1500 1.04; integers and bf16
    1.00 to 1.03; an A of a quarter of L3, f64 1024^3 0.98; f32 1024^3 tn, whose columns lie a page apart, 0.95).
    Where C is written after a few steps of dot products, two panels of rows at a time (bf16 255 x 2048 x 16 1.79, int8
    1.60, int8 6308 x 1600 x 32 1.44, but bf16 255 x 2048 x 64 0.97, int8 92160 x 144 x 32 0.71).
    Of narrow panels, copied row by row, as many as fill nine sixteenths of L2, in 1024 steps (AVX2, one thread and two,
    times two panels of 2048 steps, f32 64 x 16384 x 4096 1.24, 32 x 4096 x 4096 1.38, f64 64 x 8192 x 2048 1.17; three
    quarters and 512 steps 128 x 4096 x 4096 1.02 1.02, 32 x 4096 x 4096 1.04 1.0, 100 x 5000 x 3000 0.98; a quarter and
    2048 steps 256 x 4096 x 2048 1.03, 400 x 8192 x 2048 1.04, 1000^3 1.0).
    B in place: KC long rows of it are read side by side, 256 of them for up to 64 rows, 512 above; of short rows a
    quarter of L2 (two threads: 16 x 16 x 100000 KC 4096 366 GFLOP/s; 64 x 64 x 50000 1024 442, 256 369).
    """
    size, l2 = problem.row.itemsize, cpu.caches().l2
    kc = max(128, min(2048, (l2 >> 7) // size))
    if cpu.small_l1(tier) and problem.m > FEW_ROWS and problem.n > nr and 4 * problem.k > 3 * kc:
        # Beside an L1 of 32 KiB half as many, or all of few more (Skylake-SP, one thread, f32 2000 x 1000 x 2000 1.11,
        # 3000 x 512 x 2048 1.13, f64 2000 x 1000 x 2000 1.04; but f64 25088 x 64 x 576 0.9, few rows 32 x 2560 x 2560
        # nt 0.9, one panel of B 6308 x 32 x 1600 nt 0.88).
        kc = max(128, kc // 2)
    pages = max(128, (l2 >> 9) // size)     # steps of an A by columns whose pages stay over a block of rows
    row_b = problem.n * size
    if pack == "none" and row_b >= 4096 and not _fits_l2(problem):
        # As many streams of rows: their pages and lines must stay until the next panel (6x64, KC 512 times 256: 48 x
        # 3072 x 1024, whose B is in L3, 1.03, 48 x 4096 x 4096 0.98).
        kc = 256 if problem.m <= 64 and problem.k * row_b > cpu.caches().l3 // 2 else 512
    elif pack != "none" and problem.layout[0] == "t":
        # A's steps of k lie apart, and their pages must stay over a block of rows: 2048^3 KC 512 463, 2048 431.
        kc = min(kc, pages)
        if tier.registers > 16 and problem.row.parts == 1 and size >= 4:
            # Twice as many pass over C half as often (times l2 >> 9 bytes, one thread and two: f32 10000 x 10000 x 1000
            # 1.02, 1000^3 1.03 1.02, 2000 x 1000 x 700 1.06 1.03, 3000^3 1.03; f64 1000^3 1.08 1.04, 5000 x 5000 x 1000
            # 1.05, 1024^3 1.05, 4000 x 4000 x 512 1.03; c64 1.0, c128 0.96), but columns of A a page apart share sets:
            # no more than 512 of them (f32, 1024 steps: 4096 x 4096 x 1024 0.85, 1024^3 0.91, 512 x 512 x 3136 0.96).
            collide = problem.m * size % 2048 == 0
            kc = max(kc, min(STEPS_APART if collide else MAX_BLOCK, (l2 >> 8) // size))
        if tier.registers == 16 and pack == "b" and 64 <= nr * size < 128:
            # Of short vectors few enough for L1 to hold a panel of B and the lines of A that the next rows share (AVX2
            # on Zen 4, one thread, times KC 512: f32 300 x 300 x 1000 1.09, 256 x 64 x 6272 1.08, 2000 x 64 x 1000
            # 1.15, 256 x 512 x 3136 1.03, but 200 x 200 x 5000 0.96; i32 1.0 to 1.09; f64, times KC 256, 0.99 to 1.09).
            kc = min(kc, max(128, cpu.caches().l1d * 3 // 4 // (64 + nr * size)))
    elif pack == "none":
        # Short rows, many of them: as much of B, and of A where its rows are adjacent, as a quarter of L2 holds.
        beside = problem.m * size if problem.layout[0] == "t" else 0
        # But tiles want 512 steps to pay for their stores, also where B takes all of L2 (101 x 512 x 512, KC 128 / 512
        # 221 / 205 us; f64 35 x 256 x 512 86 / 77, 16 x 350 x 700 76 / 71).
        least = 512 if problem.layout[0] == "n" else 128
        kc = max(least, min(4096, (l2 >> 2) // (row_b + beside)))
        if problem.layout[0] == "t" and tier.registers == 16 and problem.n > nr:
            # As much of both as is read again, by several panels, from L1 (AVX2 on Zen 4, one thread, times KC 256 to
            # 2045: f32 100 x 100 x 100000 1.13, 32 x 100 x 215512 1.14, 128 x 64 x 50000 1.17, 100 x 32 x 100000
            # 1.27, 150 x 150 x 2000 1.14, f64 60 x 60 x 50000 1.28; 64 steps f32 32 x 32 x 300000 1.25; but 16 x 9
            # x 23040 0.83).
            # Rows that fill most of a page take fewer (64 steps times 96, one thread: f32 64 x 400 x 30000 1.06, 64 x
            # 576 x 28000 1.06, 96 x 576 x 20000 1.17, 32 x 576 x 28000 1.13, 64 x 700 x 20000 1.08, 64 x 900 x 10000
            # 1.05, 32 x 450 x 30000 0.99, f64 64 x 288 x 28000 1.1, 32 x 400 x 10000 1.1; 64 x 300 x 30000 1.02, 64 x
            # 147 x 25088 0.98, f64 64 x 200 x 28000 0.98; 64 x 1152 x 14000 0.87, f64 64 x 576 x 10000 0.89; two
            # threads 1.05 to 1.14).
            apart = row_b + beside
            kc = min(kc, THIN_STEPS if apart <= THIN_BYTES or apart in MOST_OF_PAGE else TURNED_STEPS)
    if pack == "none":
        kc = heuristic_l1.steps_in_place(problem, tier, kc)
    few = problem.m <= FEW_ROWS and pack == "b"
    held = problem.row.real_bytes * problem.row.parts    # by a number of a panel
    narrow = nr * held < 128 and problem.layout[1] == "n" and problem.row.group == 1 and pack == "b"
    narrow = narrow and (few or _passes(problem)) and not _fits_l2(problem)
    if narrow:
        kc = min(kc, max(128, l2 >> 10, l2 * 9 // 16 // row_b))
    block = heuristic_l1_blocks.copied(problem, tier, mr, nr, few) if pack == "b" and not narrow else None
    if block is not None:
        return block
    ahead = pack == "b" and _copies_ahead(problem, tier)
    if ahead:
        kc = min(kc, AHEAD_STEPS)
    kc = -(-problem.k // -(-problem.k // kc))
    if ahead:
        # The block that tiles fetch beside the one that they multiply.
        return problem.m, kc, max(nr, l2 * 3 // 8 // (kc * size) // nr * nr)
    most = heuristic_l1.rows_at_a_time(problem, tier, pack, MOST_ROWS)
    mc = max(mr, min(most, l2 * 3 // 8 // (kc * size)) // mr * mr)
    panels = _panels_written(problem, tier, mr)
    if panels:
        mc = min(mc, panels * mr)
    if pack == "none":
        # B in place for few rows: all of them at once, or it is read again for each block (128 x 8192 x 2048, MC 96 and
        # 128: 1.18).
        together = problem.m <= FEW_ROWS and not (panels and problem.row.group == 1)
        return (max(mc, problem.m) if together else mc), kc, MAX_BLOCK
    bytes_summed = problem.row.group > 1 and not problem.row.narrows
    if few and bytes_summed and not _fits_l2(problem):
        # A strip of bytes is read a whole 1024 of each row, and as many rows as fill half of L2 (times panels of 2 NR
        # and 2048 steps: 4 x 10752 x 3584 1.3, 16 x 8192 x 2048 1.31, 64 x 16384 x 4096 1.25).  Of columns that lie
        # along k two panels, with all of it (64 x 7680 x 2560 nt times such strips 1.05, 32 x 2560 x 2560 1.05).
        along = problem.layout[1] != "n"
        kc = min(problem.k, DEEPEST) if along else min(kc, max(128, l2 >> 11))
        kc = -(-problem.k // -(-problem.k // kc))
        return mc, kc, max(nr, (2 * nr if along else BYTES_STRIP) // nr * nr)
    if narrow:
        nc = max(2 * nr, l2 * 9 // 16 // (kc * held) // nr * nr)
    elif few and not (panels and problem.row.group == 1):    # `heuristic_l1_written` has the figures
        # Of halves two a lane that come from memory four panels (times two: 16 x 2560 x 2560 1.0 to 1.1, 16 x 8192 x
        # 2048 1.0 to 1.07, 48 x 4096 x 4096 1.13, 64 x 16384 x 4096 1.0 to 1.18; 32 x 3072 x 1024 0.99, 100 x 8192 x
        # 2048 0.7).
        halves = family(problem.row, tier) == "bf16" and problem.k * row_b > cpu.caches().l3 // 4
        nc = (4 if halves and problem.m <= 64 else 2) * nr
        if nr * held < 128 and SEVERAL * nr * held * kc <= l2 >> 2:
            # Narrow panels of few steps (AVX2 on Zen 4, eight times two: nt 100 x 200 x 200 1.02, 150 x 150 x 400 1.02,
            # 100 x 500 x 64 1.02, 200 x 400 x 100 1.02, stacks 96 x 96 x 96 1.02, 197 x 197 x 64 nt 1.04; where fewer
            # than eight fit, 48 x 768 x 768 0.99, 128 x 3072 x 768 0.97).
            nc = SEVERAL * nr
    else:
        # (Beside an L1 of 32 KiB half of that for what `heuristic_l1_blocks` leaves; before that, times all of it and
        # times an A that passes over: Skylake-SP, f32 1000^3 1.05 1.04, 2000^3 1.07 1.02, 500 x 4096 x 4096 1.08 1.09,
        # f64 700^3 1.06 1.16, 1000^3 1.06 1.10, 2000^3 1.1 1.2; 1500^3, f32, 1.0 1.05.)
        small_l1 = cpu.small_l1(tier) and problem.row.group == 1
        held = (2 if small_l1 and pack == "b" else 4) * l2
        nc = max(nr, held // (kc * size) // nr * nr)
        if pack == "b" and not small_l1 and _passes(problem) and kc * min(nc, problem.n) * size > l2:
            # Beside an A by columns as many columns as for the fewer steps (times those for twice as many, two threads:
            # f32 1000 x 2000 x 1000 tt 1.11, f64 500 x 1000 x 1000 tn 1.02; one thread 1.0).
            steps = min(kc, pages) if problem.layout[0] == "t" else kc
            nc = max(nr, (l2 >> 2) // (steps * size) // nr * nr)
    # Sums that are converted at the end lie beside the output: rows short enough that they stay in L2.
    return mc, kc, min(nc, max(nr, 1024 if problem.row.narrows else 4096))
