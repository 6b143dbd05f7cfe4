"""The configuration for a problem that nobody has tuned.

A cost in cycles is estimated for every register tile, split and thread count that fits, and the cheapest
is taken.  The estimate knows four things, each measured (Zen 5, 2 cores, AVX-512, f32 unless said):

* a tile's k-loop is bound by multiply-adds, by loads, or, below 8 accumulators, by latency;
* a tile costs a ramp and its stores (the 2 to 6 % that a full tile loses outside the k-loop);
* starting a team costs about half a microsecond: 64^3 takes 2.3 us with one thread and 1.7 with two;
* threads share what they can: m, n, or a stack of products.

Whether to pack, and the cache blocks, follow from sizes and strides (packing.py, blocks.py).
"""

from __future__ import annotations

import math
from dataclasses import replace

from .. import cpu, kernels, registry
from ..problem import MAX_PARTIAL, PACKED, Config, Problem
from . import (
    family_dots,
    family_small,
    family_strips,
    half_tier,
    l1_blocks,
    l1_columns,
    l1_half_lines,
    l1_stacks,
    l1_streams,
    matrices,
    measured,
    stacks,
)
from . import limbs as limbs_rules
from .blocks import blocks
from .costs import (
    DEEP,
    ITEM_CYCLES,
    STREAM_B,
    TEAM_BYTES,
    TILE_CYCLES,
    busy,
    grid_cycles,
    members,
    streams_of,
    whole_items,
)
from .packing import packing

# Cycles: cheap enough to be wrong by a factor of two, which moves a choice only near its border.
TEAM_CYCLES = 3000       # fork and join of one region, 617 ns at 4.x GHz
CYCLES_A_BYTE = 0.03     # of memory traffic that computing does not hide: a third of 10 bytes a cycle
FAR_ROW = 25             # cycles: 32 x 50176 x 144, panels of 2 vectors 3.8 ms, of 3 and 4 2.8
SHORT_ROW = 1024         # bytes of a row of B beside which a tall tile of adjacent rows of A gains
DENSE_ROW = 512          # bytes of a row of B, in whole lines, up to which it lies as densely as a packed panel

# Cycles of a row of C whose columns two threads write: where they meet they write one line, which goes from core to
# core (Zen 4, two threads, us by columns, by rows, one thread: bf16 nt 412 x 256 x 7 51 16 11, x 32 58 22 32, x 64 67
# 36 61, 1000 x 256 x 16 84 31 42, 200 x 400 x 16 14 17 16, i8_i32 nt 412 x 256 x 7 36 15 14, f32 nt 412 x 256 x 7 71
# 10 15, 400 x 400 x 32 52 55 95; 400 x 400 x 300 450 437 853).
SHARED_LINE = 350

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


def config(problem: Problem, isa: registry.Isa | None = None, limbs: bool = True) -> Config:
    """Return the configuration that the rules give for a problem.

    Parameters
    ----------
    problem : Problem
        Any problem.
    isa : Isa, optional
        The tier; by default the active one, or the one below where its kernels are better (`half_tier`).
    limbs : bool
        Whether the caller takes one that cannot compute with every number (kernels/limbs.pxd).

    Returns
    -------
    Config
        It fits the problem.  Family ``"numpy"`` where no tier runs.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import rules
    >>> from fastgemm.problem import Problem
    >>> c = rules.config(Problem("f32", 13, 512, 256), registry.isa("v4"))
    >>> c.mr, c.nr, c.pack
    (14, 32, 'none')
    """
    tier = isa or kernels.active_isa()
    if tier is None or not registry.supported(problem.row, tier):
        return Config(family="numpy")
    most = members(problem)
    if most < problem.threads:
        problem = replace(problem, threads=most)
    half = kernels.half_isa() if isa is None else None
    if half is not None and half_tier.halves(problem, half):
        tier = half
    by_matrices = matrices.family(problem, tier)
    if by_matrices:
        return matrices.config(problem, tier, by_matrices)
    by_limbs = limbs_rules.family(problem, tier) if limbs else ""
    if by_limbs:
        return limbs_rules.config(problem, tier, by_limbs)
    if problem.m == 1 and stacks.way(problem, tier) in measured.OF_GEMV:
        return _gemv(problem, tier)
    blocked = kernels.family(problem.row, tier)
    dots = blocked != "gemm"
    own = family_dots.config(problem, tier, dots)
    own = own or l1_half_lines.config(problem, tier) or l1_columns.config(problem, tier)
    own = own or l1_streams.config(problem, tier)
    own = own or family_strips.config(problem, tier, blocked) or family_small.config(problem, tier, dots)
    if own is not None:
        return own
    by_gemv = problem.layout[1] != "g" and registry.computes("gemv", problem.row)
    if problem.m == 1 and by_gemv and not family_small.one_row(problem, tier):
        return _gemv(problem, tier)
    tier = _narrower(problem, tier)
    blocked = kernels.blocked_family(problem.row, tier)
    least, best, teams = math.inf, None, _teams(problem)
    for mr, nr in l1_stacks.tiles(problem, tier):
        pack = packing(problem, tier, mr, nr)
        by_columns = pack == "b" and l1_blocks.by_columns(problem, tier, nr)
        for split, threads in teams:
            if split == "m" and by_columns:
                continue
            cycles = _cost(problem, tier, mr, nr, pack, split, threads)
            if cycles < least:
                least, best = cycles, (mr, nr, pack, split, threads)
    assert best is not None
    mr, nr, pack, split, threads = best
    return Config(blocked, tier.name, mr, nr, *blocks(problem, tier, mr, nr, pack), pack, split, threads)


def _gemv(problem: Problem, tier: registry.Isa) -> Config:
    size = problem.k * problem.n * problem.row.itemsize
    threads, split = 1, "n"
    if problem.threads > 1 and size * problem.batch >= TEAM_BYTES:
        split = "batch" if whole_items(problem) else "n"
        wide = problem.batch * (1 if split == "batch" else -(-problem.n // registry.lanes(problem.row, tier)))
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


STACK_ROWS = 32  # from which threads share rows of a stack, and not columns


def _parts(problem: Problem) -> list[tuple[str, int]]:
    # Threads that share rows or columns share those of all products of a stack: rows, if they are more than a few (two
    # threads, 5 items, over columns shared: bf16 200 x 30 x 128 1.03, 64 x 200 x 64 1.05, but 30 x 64 x 200 0.97).
    m, n, k, batch = problem.m, problem.n, problem.k, problem.batch
    shared = [("n", batch * n), ("m", batch * m)]
    if batch > 1 and m >= STACK_ROWS:
        shared.reverse()
    return [("batch", batch), *shared, ("k", k // DEEP)]


def _teams(problem: Problem) -> list[tuple[str, int]]:
    # Between equals the first wins: whole products for a thread before parts, parts that share no B before others.
    teams = [("n", 1)]
    if problem.threads > 1 and busy(problem):
        for split, size in _parts(problem):
            threads = min(problem.threads, size)
            small = problem.batch == 1 and problem.m * problem.n * problem.row.itemsize <= MAX_PARTIAL
            if threads > 1 and (split != "k" or small):
                teams.append((split, threads))
    return teams


def cycles(problem: Problem, config: Config) -> float:
    """Return the estimate for one thread's part of a product, in cycles: for comparing ways to cut a larger work.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import rules
    >>> from fastgemm.problem import Problem
    >>> few, many = Problem("f32", 64, 512, 512), Problem("f32", 96, 512, 512)
    >>> config = rules.config(few, registry.isa("v4"))
    >>> rules.cycles(few, config) < rules.cycles(many, config)
    True
    """
    if config.family == "numpy":
        return 2.0 * problem.flops
    if registry.by_limbs(config.family):
        return problem.batch * limbs_rules.cycles(problem) / config.threads
    if registry.by_matrices(config.family):
        return matrices.cycles(problem, config)
    row, tier = problem.row, registry.isa(config.isa)
    lanes, steps = registry.lanes(row, tier), steps_of(problem, config)
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
    items = float(batch)
    if split == "k":
        k = -(-k // threads)
    elif split == "batch":
        items = -(-batch // threads)
    else:
        # Threads share the rows, or the vectors of columns, of all products one after the other.  (That both copy the B
        # of one that is cut does not show.  Zen 4, two threads, 3 and 5 items, rows shared over whole items, 30 x 64 x
        # 200 nt f32 1.20 1.12, bf16 1.17 1.11, i8 1.12 1.06, 100 x 100 x 100 nt f32 1.25 1.16, f16 1.21 1.13.)
        units = m if split == "m" else vectors
        own = -(-units * batch // threads)
        items = max(1.0, own / units)
        m, vectors = (min(m, own), vectors) if split == "m" else (m, min(vectors, own))
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
    own = kernels.blocked_family(dt, tier) != "gemm"
    far = problem.m * problem.k * problem.batch * dt.itemsize > cpu.caches().l3 and problem.layout[0] != "t" and not own
    row_bytes = 0 if own or (problem.layout[0] == "t" and row_b <= SHORT_ROW) else dt.real_bytes
    streams = streams_of(dt, far)
    cycles = grid_cycles(m * dt.parts, vectors, k, mr * dt.parts, nr // lanes, stream, row_bytes, streams)
    cycles += begins
    if batch > 1 and split != "batch" and threads > 1:
        cycles += ITEM_CYCLES
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
    spent = items * (cycles + moved)
    # (Of a stack one item is cut.)
    if split == "n" and threads > 1:
        spent = max(spent, m * SHARED_LINE)
    return spent + (TEAM_CYCLES if threads > 1 else 0)


def steps_of(problem: Problem, config: Config) -> int:
    """Return the steps of k of a product's tiles: those of dot products are several numbers each.

    Examples
    --------
    >>> from fastgemm.heuristic import rules
    >>> from fastgemm.problem import Config, Problem
    >>> rules.steps_of(Problem("bf16", 8, 8, 9), Config("bf16", "v4"))
    5
    """
    dot = registry.dot(config.family, problem.row)
    return -(-problem.k // (dot.group if dot else problem.row.group))


def copying(layout: str, vectors: int, steps: int, lanes: int) -> float:
    """Return the part of `cycles` that copies B: so many vectors of so many numbers, for so many steps of k.

    Examples
    --------
    >>> from fastgemm.heuristic import rules
    >>> rules.copying("nt", 4, 100, 16), rules.copying("nn", 4, 100, 16)
    (6400.0, 800.0)
    """
    # A load and a store from a cache or from memory; transposing, an element a cycle.
    return vectors * steps * (2.0 if layout[1] == "n" else float(lanes))
