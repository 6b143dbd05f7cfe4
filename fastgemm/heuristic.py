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

from functools import lru_cache

from . import cpu, kernels, registry
from .problem import Config, Problem

# Cycles: cheap enough to be wrong by a factor of two, which moves a choice only near its border.
TEAM_CYCLES = 3000       # fork and join of one region, 617 ns at 4.x GHz
# Below a megaflop one thread does it.  On an idle machine 64^3 (0.5) gains a factor of 1.35 by a second one; with one
# of the two cores busy it loses a factor of 5, because the team waits for a thread that is not running.
TEAM_FLOPS = 1_000_000
TILE_CYCLES = 24         # ramp of the k-loop and the call
STORE_CYCLES = 1.0       # per vector of C
ROW_CYCLES = 6           # per row of C in a tile: a page and a cache set of its own (14x32 loses 4 points, 6x64 1.5)
LATENCY = 4              # of a multiply-add
PORTS = 2                # multiply-adds a cycle
STREAM_PACKED = 0.2      # per vector of B and step, where its panel streams from L2: 8x48 ahead of 6x64 by 3 % in f64
# Rows of A are streams of reads too, and a tall tile has more than the CPU follows once they leave L1: 14x32 runs at
# 93 % with 512 steps and 87 % with 1024.
STREAMS = 8
STREAM_ROW = 0.25
LONG = 512
FEW_ROWS = 128           # M up to which B's strips are kept narrow (128 x 4096 x 4096: NC 128 191 GFLOP/s, 768 190)
STREAM_PLACE = 0.4       # the same from B in place: rows apart, and lines split where NumPy's arrays begin
LOADS = 2                # vector loads a cycle

# Bytes of a matrix above which a second thread helps to stream it (gemv): 128 KiB take 3 us from L2.
GEMV_THREAD_BYTES = 1 << 17


def config(problem: Problem, isa: registry.Isa | None = None) -> Config:
    """Return the configuration that the rules give for a problem.

    Parameters
    ----------
    problem : Problem
        Any problem.
    isa : Isa, optional
        The tier; the active one by default.

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
    if tier is None:
        return Config(family="numpy")
    if problem.m == 1 and problem.layout[1] != "g":
        return _gemv(problem, tier)
    best: tuple[float, Config] | None = None
    for mr, nr in registry.tiles(problem.row, tier):
        pack = packing(problem, mr, nr)
        for split, threads in _teams(problem):
            cycles = _cost(problem, tier, mr, nr, pack, split, threads)
            if best is None or cycles < best[0]:
                mc, kc, nc = blocks(problem, tier, mr, nr, pack)
                best = cycles, Config("gemm", tier.name, mr, nr, mc, kc, nc, pack, split, threads)
    assert best is not None
    return best[1]


def _gemv(problem: Problem, tier: registry.Isa) -> Config:
    size = problem.k * problem.n * problem.row.itemsize
    threads, split = 1, "n"
    if problem.threads > 1 and size * problem.batch >= GEMV_THREAD_BYTES:
        split = "batch" if problem.batch >= problem.threads else "n"
        wide = problem.batch if split == "batch" else -(-problem.n // registry.lanes(problem.row, tier))
        threads = max(1, min(problem.threads, wide))
    return Config("gemv", tier.name, split=split, threads=threads)


def _teams(problem: Problem) -> list[tuple[str, int]]:
    teams = [("n", 1)]
    if problem.threads > 1 and problem.flops >= TEAM_FLOPS:
        for split, size in (("n", problem.n), ("m", problem.m), ("batch", problem.batch)):
            threads = min(problem.threads, size)
            if threads > 1:
                teams.append((split, threads))
    return teams


def _tile_cycles(rows: int, vectors: int, k: int, stream: float) -> float:
    # One microkernel call; rows and vectors are registers.
    step = max(rows * vectors / PORTS, (vectors + rows) / LOADS, LATENCY if rows * vectors < LATENCY * PORTS else 0)
    step += vectors * stream
    if rows > STREAMS and k > LONG:
        step += (rows - STREAMS) * STREAM_ROW
    return k * step + TILE_CYCLES + rows * vectors * STORE_CYCLES + rows * ROW_CYCLES


@lru_cache(maxsize=4096)
def _grid_cycles(rows: int, vectors: int, k: int, mr: int, nv: int, stream: float) -> float:
    # All tiles of a rows x vectors output, in panels balanced as the driver balances them.
    total = 0.0
    i_panels, j_panels = -(-rows // mr), -(-vectors // nv)
    for high, count_i in _balanced(rows, i_panels):
        for wide, count_j in _balanced(vectors, j_panels):
            total += count_i * count_j * _tile_cycles(high, wide, k, stream)
    return total


def _balanced(total: int, parts: int) -> list[tuple[int, int]]:
    base, extra = divmod(total, parts)
    return [(size, count) for size, count in ((base + 1, extra), (base, parts - extra)) if size and count]


def _cost(problem: Problem, tier: registry.Isa, mr: int, nr: int, pack: str, split: str, threads: int) -> float:
    dt = problem.row
    lanes = registry.lanes(dt, tier)
    m, batch = problem.m, problem.batch
    vectors = -(-problem.n // lanes)
    if split == "m":
        m = -(-m // threads)
    elif split == "n":
        vectors = -(-vectors // threads)
    else:
        batch = -(-batch // threads)
    # A complex row is two rows of registers.
    stream = STREAM_PLACE if pack == "none" else STREAM_PACKED
    cycles = _grid_cycles(m * dt.parts, vectors, problem.k, mr * dt.parts, nr // lanes, stream)
    # A packed vector of B: a load and a store from a cache or from memory; transposing, an element a cycle.
    moved = 0.0
    if pack != "none":
        moved += vectors * problem.k * (2.0 if problem.layout[1] == "n" else lanes)
        if split == "m":
            moved /= threads
    if pack == "ab":
        moved += m * problem.k
    return batch * (cycles + moved) + (TEAM_CYCLES if threads > 1 else 0)


def packing(problem: Problem, mr: int, nr: int) -> str:
    """Say what to copy: ``none``, ``b`` (into panels) or ``ab``.

    Measured on squares (share of the peak, none / b / ab): 512: 97 / 96 / 93; 768: 90 / 94 / 92;
    1024: 82 / 95 / 92; 4096: - / 93 / 90; f64 4096: - / 91 / 89.  So A stays where it is, however long its rows,
    unless its columns are not adjacent: then a tile's rows come from as many lines a step.
    M x 1024 x 1024, none / b: 32 93 / 76, 64 88 / 84, 128 86 / 91.  M x 4096 x 4096: 4 11 / 11, 8 17 / 20, 32 41 / 50
    (rows 16 KiB apart fall on the same sets of the caches).
    """
    size = problem.row.itemsize
    row_b, row_a = problem.n * size, problem.k * size
    if problem.layout[0] != "n" and problem.m > mr and problem.n >= 4 * nr and row_a > 256:
        return "ab"
    if problem.layout[1] != "n":
        return "b"
    aliased = row_b % 4096 == 0
    whole = problem.k * row_b
    if whole <= cpu.caches().l2 * (1.0 if aliased else 1.5):
        return "none"
    few = 4 if aliased and row_b >= 16384 else 64
    return "none" if problem.m <= few else "b"


def blocks(problem: Problem, tier: registry.Isa, mr: int, nr: int, pack: str) -> tuple[int, int, int]:
    """Return MC, KC, NC from the cache sizes.

    With 1 MiB of L2 (in proportion elsewhere): KC is 8 KiB of a row of A, so that a panel of B (8x48 f32: 384 KiB) and a
    block of A (MC 48: 384 KiB) live in L2 together, and B's block (NC 768: 6 MiB) in L3.  f32 2048^3: KC 1024 90.6 %,
    2048 92.4 %; f64 4096^3: KC 1024 with MC 48 91.1 %, MC 24 92.3 %, MC 2048 below 85 %.  Only for a few rows, whose
    panels of B are used once or twice, narrow strips (2 NR) keep what was packed in L2 (32 x 4096 x 4096:
    242 GFLOP/s, 138 with wide ones).
    """
    size, l2 = problem.row.itemsize, cpu.caches().l2
    kc = max(128, min(2048, (l2 >> 7) // size))
    kc = -(-problem.k // -(-problem.k // kc))
    mc = max(mr, min(1 << 12, l2 * 3 // 8 // (kc * size)) // mr * mr)
    nc = 2 * nr if problem.m <= FEW_ROWS and pack != "none" else max(nr, 6 * l2 // (kc * size) // nr * nr)
    return mc, kc, min(nc, max(nr, 4096))
