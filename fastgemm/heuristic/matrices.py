"""The rules for tile registers: which untuned products they multiply, with which blocks and team.

A product of two registers is 16 rows by 16 columns by 64 bytes of k in 16 cycles: with bytes eight times what vectors
of 64 bytes do, with bfloat16 sixteen times what they do with float32. So B, which must be copied into panels, and C,
which must be written, are most of the time of all but large products: what decides is how often a copy of B is used.

Measured on an Emerald Rapids (2 cores, AMX, L1 48 KiB, L2 2 MiB), one thread, as the speed of the family that vectors
take, times:

* bytes, m x n x k: 8 x 256 x 256 0.94, 12 x 256 x 256 1.29, 16 x 256 x 256 1.59, 64 x 256 x 256 2.3, 128 x 256 x 1024
  2.7; k = 64: 16 rows 0.92 to 1.05, 32 rows 0.9 to 1.04, 64 rows 1.05 to 1.13, 128 x 64 1.43; k = 16 0.5 to 0.8, 4
  0.5; fewer columns than a register has: 572 x 8 x 572 1.75, 64 x 8 x 256 1.5, 64 x 4 x 1024 2.1, 784 x 8 x 72 0.93,
  3136 x 4 x 36 0.84;
* bfloat16: 4 x 64 x 64 1.56, 4 x 256 x 1024 1.38, 4 x 1024 x 256 1.25, 8 x 256 x 256 2.4, 64 x 1024 x 1024 3.4, 128 x
  256 x 256 6.3; a B of more than half of L2 in place by few rows 4 x 1024 x 1024 0.34, 8 x 1024 x 1024 0.79, 12 x 1024
  x 1024 1.48; by work: 32 x 64 x 16, 8 x 64 x 64, 8 x 16 x 256 1.1 to 1.7, 128 x 16 x 16 and 32 x 16 x 64 0.93 and
  0.98, half of that 0.8 to 1.0; 460 x 460 x 4 2.2, 800 x 800 x 4 1.9, 572 x 8 x 572 3.7, 64 x 2 x 1024 2.8, 784 x 8 x
  72 2.1, 3136 x 4 x 36 1.7.
"""

from __future__ import annotations

from .. import cpu, kernels, registry
from ..problem import MAX_BLOCK, MAX_BYTES_K, MAX_PARTIAL, PACKED, Config, Problem, transposed
from . import ways
from .costs import whole_items

COLUMNS = registry.REGISTER_COLUMNS
# What a product of bytes must have to be taken, as above: rows, columns and bytes of k, any three of them.
BYTES_LEAST = ((12, COLUMNS, 128), (64, COLUMNS, 64), (64, 2, 256))
# And one of bfloat16: the same, or rows and multiply-adds; but few rows have no B copied that takes more than half of
# L2.
HALVES_LEAST = ((4, COLUMNS, 64),)
HALVES_ROWS, HALVES_WORK = 8, 1 << 15
HALVES_B = 128           # numbers of B (262144 x 2 x 4 0.3 of what rows that share vectors take)
HALVES_FEW, HALVES_SHARE = 12, 2
# Rows up to which panels are four registers wide, which are copied faster than narrow ones (64 x 256 x 256, bytes, 9.3
# us; 11.7 in panels of two).  Of panels that were packed before only those of one register of rows are, for more rows
# meet narrow ones half as often; and such a panel of which L1 holds a part like this, whose rows of 64 bytes are
# rounded together.
WIDE_ROWS, WIDE_PART = 512, 1.5
# Bytes of k in a block (2048^3 of bytes over blocks of 512, whose sums are read and written four times, 1.18), rows of
# a block of A, where C is written whole rows at a time (64 over 256, 1000^3 1.07, 2048^3 1.15), and of one that meets
# panels which were packed before.
DEEPEST, BLOCK_ROWS, READY_ROWS = 2048, 64, 256
NARROW_ROWS = 512        # of a block where C is one panel wide (64 over 512, 784 x 16 x 144 0.8, 3136 x 4 x 36 0.8)
# Cycles: of a product of half a register's rows, where caches keep up half of the time; of a tile; bytes of B copied in
# one.
HALF_ROWS, PRODUCT, TILE, COPIED = registry.REGISTER_ROWS // 2, 12.0, 80.0, 4.0
TEAM_CYCLES = 20_000     # of one thread from which on a second one is asked
DEEP = 8192              # bytes of k for a thread, where threads share it


def family(problem: Problem, tier: registry.Isa) -> str:
    """Return the family of tile registers that takes a problem; "" where vectors do it.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import matrices
    >>> from fastgemm.problem import Problem
    >>> matrices.family(Problem("f32", 512, 512, 512), registry.isa("v4"))
    ''
    """
    row = problem.row
    found = kernels.matrix_family(row, tier)
    if found and problem.layout[1] != PACKED and ways.turns(transposed(problem)):
        # Few rows that have been exchanged.
        return found
    if not found or problem.n == 1:
        return ""
    m, n, deep, halves = problem.m, problem.n, problem.k * row.stored_bytes, row.stored_bytes > 1
    if halves and m < HALVES_FEW and HALVES_SHARE * deep * n > cpu.caches().l2:
        return ""
    if halves and m >= HALVES_ROWS and m * n * problem.k >= HALVES_WORK and n * problem.k >= HALVES_B:
        return found
    least = HALVES_LEAST if halves else BYTES_LEAST
    return found if any(m >= rows and n >= columns and deep >= steps for rows, columns, steps in least) else ""


def config(problem: Problem, tier: registry.Isa, found: str) -> Config:
    """Return how such a family computes a problem.

    Parameters
    ----------
    problem : Problem
        Of a type that it computes.
    tier : Isa
        Which has it.
    found : str
        The family.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import matrices
    >>> from fastgemm.problem import Problem
    >>> made = matrices.config(Problem("bf16", 1024, 1024, 1024), registry.isa("v4"), "amx_bf16")
    >>> made.mr, made.nr, made.kc, made.pack
    (32, 32, 1024, 'b')
    """
    row = problem.row
    mr, nr = _tile(problem, tier, found, WIDE_ROWS)
    size, l2 = row.stored_bytes, cpu.caches().l2
    kc = -(-problem.k // -(-problem.k * size // DEEPEST))
    nc = max(nr, min(MAX_BLOCK, l2 // 2 // (kc * size)) // nr * nr)
    pack = "b" if problem.layout[0] == "n" else "ab"
    split, threads = _team(problem, mr, nr)
    mc = NARROW_ROWS if problem.n <= nr else BLOCK_ROWS
    return Config(found, tier.name, mr, nr, mc, kc, nc, pack, split, threads)


def panels(problem: Problem, tier: registry.Isa, found: str) -> int:
    """Return the width of the panels, in vectors, that suits such a product by a B that is packed once.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import matrices
    >>> from fastgemm.problem import Problem
    >>> [matrices.panels(Problem("bf16", m, 512, 2048), registry.isa("v4"), "amx_bf16") for m in (8, 512)]
    [4, 2]
    """
    return _tile(problem, tier, found, registry.REGISTER_ROWS)[1] // registry.lanes(problem.row, tier)


def ready(problem: Problem, tier: registry.Isa, found: str, nv: int) -> Config:
    """Return how to multiply by a B that lies in panels of `nv` vectors: by all of k at a time, as bytes must.

    Halves, whose blocks count twice as much, and beside which sums may lie, by as many bytes of it.
    """
    row = problem.row
    mr, nr = next(tile for tile in registry.tiles(row, tier, found) if tile[1] == nv * registry.lanes(row, tier))
    size, l2 = row.stored_bytes, cpu.caches().l2
    kc = -(-problem.k // -(-problem.k // (MAX_BYTES_K // size)))
    mc = max(mr, min(READY_ROWS, l2 // 4 // (kc * size)) // mr * mr)
    nc = max(nr, min(MAX_BLOCK, l2 // 2 // (kc * size)) // nr * nr)
    pack = "b" if problem.layout[0] == "n" else "ab"
    split, threads = _team(problem, mr, nr)
    if split == "k":
        split, threads = "n", 1
    return Config(found, tier.name, mr, nr, mc, kc, nc, pack, split, threads)


def cycles(problem: Problem, found: Config) -> float:
    """Return the estimate of one thread's part of a product, in cycles."""
    m, n, batch = problem.m, problem.n, problem.batch
    if found.split == "m":
        m = -(-m // found.threads)
    elif found.split == "n":
        n = -(-n // found.threads)
    elif found.split == "batch":
        batch = -(-batch // found.threads)
    copied = copying(problem) * n / problem.n if problem.layout[1] != PACKED else 0.0
    return batch * (_tiles(problem, m, n, found.mr, found.nr) + copied)


def copying(problem: Problem) -> float:
    """Return the part of `cycles` that copies B.

    Examples
    --------
    >>> from fastgemm.heuristic import matrices
    >>> from fastgemm.problem import Problem
    >>> matrices.copying(Problem("i8_i32", 64, 100, 200))
    5000.0
    """
    return problem.k * problem.n * problem.row.stored_bytes / COPIED


def _tiles(problem: Problem, m: int, n: int, mr: int, nr: int) -> float:
    chunks = -(-problem.k * problem.row.stored_bytes // registry.REGISTER_BYTES)
    products = -(-m // HALF_ROWS) * -(-n // COLUMNS) * chunks
    return products * PRODUCT + -(-m // mr) * -(-n // nr) * TILE


def _tile(problem: Problem, tier: registry.Isa, found: str, most: int) -> tuple[int, int]:
    tall, wide = registry.tiles(problem.row, tier, found)
    held = WIDE_PART * wide[1] * problem.k * problem.row.stored_bytes <= cpu.caches().l1d
    return wide if problem.n > tall[1] and (problem.m <= most or held) else tall


def _team(problem: Problem, mr: int, nr: int) -> tuple[str, int]:
    most, size = problem.threads, problem.row.stored_bytes
    if most == 1 or problem.batch * _tiles(problem, problem.m, problem.n, mr, nr) < TEAM_CYCLES:
        return "n", 1
    if whole_items(problem):
        return "batch", most
    partial = problem.batch == 1 and problem.m * problem.n * problem.row.real_bytes <= MAX_PARTIAL
    if partial and problem.m * problem.n * size < problem.k and problem.k * size >= DEEP * most:
        return "k", most
    # Threads that share columns copy B once in all; A stays where it is.
    columns, rows = -(-problem.n // nr), -(-problem.m // mr)
    if columns >= most and rows <= 8 * columns:
        return "n", most
    if rows >= most:
        return "m", most
    return ("n", columns) if columns > 1 else ("n", 1)
