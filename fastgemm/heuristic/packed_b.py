"""Configurations for products whose B was packed once (`fastgemm.pack`): its panels' width, and then all the rest."""

from __future__ import annotations

from .. import cpu, kernels, registry
from ..problem import Config, Problem
from . import costs, l1_blocks, matrices
from .blocks import blocks
from .packing import FEW_ROWS

FEW = 16                # rows for which the panels are streamed
SLIM_ROWS = 4           # up to which bytes are packed as they are
TYPICAL_ROWS = 16       # of A, where a caller of `pack` does not say: a few requests at a time


def vectors(row: registry.DType, tier: registry.Isa, rows: int | None, n: int, k: int = costs.DEEP) -> int:
    """Return the width of the panels, in vectors, that suits products with so many rows, and so many steps of k.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import packed_b
    >>> f32, v4 = registry.dtype("f32"), registry.isa("v4")
    >>> packed_b.vectors(f32, v4, 8, 4096), packed_b.vectors(f32, v4, 4096, 4096)
    (3, 4)
    """
    rows = TYPICAL_ROWS if rows is None else rows
    own = kernels.best_family(row, tier)
    if registry.by_matrices(own):
        return matrices.panels(Problem(row.name, rows, n, k, layout="np"), tier, own)
    # Not of one vector: such tiles are for A's that `strides` knows more of than is known here.
    tiles = [tile for tile in registry.registers(row, tier) if tile[1] > 1]
    if cpu.halves(tier):
        # There a second pass costs next to nothing (`driver/_ahead.pyx`), but rows of A that are whole pages share a
        # set of L1, which has 8 places: f32 4096 x 4096 by 12 and 14 rows are 1.12 and 1.37 times as fast in panels of
        # 48 columns as in those of 32, which have 14 rows; 4160 x 4096 1.0.
        tiles = [tile for tile in tiles if tile[0] <= cpu.caches().l1d >> 12]
    wide = -(-n // registry.lanes(row, tier))

    def cost(tile: tuple[int, int]) -> tuple[int, float]:
        mr, nv = tile
        # Reading B bounds few rows, and the fewer passes over its panels the better.
        return (-(-rows // mr) if rows <= FEW else 0), costs.panel_cycles(row, rows, wide, mr, nv)

    return min(tiles, key=cost)[1]


def slim(row: registry.DType, tier: registry.Isa, rows: int | None) -> bool:
    """Return whether signed bytes without zero points had better be packed as they are, for products with so many rows.

    Half the memory to read, and an instruction more for each vector of it (AVX2 on Zen 4, one thread, k x n 4096 x 4096
    from memory: 1 row 1.65, 2 rows 1.63, 4 rows 1.06, 6 rows 0.95, 8 to 512 rows 0.92 to 0.96; 1024 x 1024 1 row 2.3).
    Where a caller says nothing of rows half the memory decides.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import packed_b
    >>> f32, v4 = registry.dtype("f32"), registry.isa("v4")
    >>> packed_b.slim(f32, v4, 1)
    False
    """
    dot = registry.dot(kernels.best_family(row, tier), row)
    return dot is not None and dot.slim and (rows is None or rows <= SLIM_ROWS)


def config(problem: Problem, tier: registry.Isa, nv: int, own: str = "") -> Config:
    """Return how to multiply by a B that lies in panels of `nv` vectors.

    Parameters
    ----------
    problem : Problem
        Its layout says how A lies; B's letter means nothing.
    tier : Isa
        Whose kernels packed B.
    nv : int
        Width of a panel, one of the family's tiles.
    own : str, optional
        The family that packed B; by default the one that would.
    """
    row = problem.row
    own = own or kernels.best_family(row, tier)
    if registry.by_matrices(own):
        return matrices.ready(problem, tier, own, nv)
    mr = next(high for high, wide in registry.registers(row, tier) if wide == nv)
    nr = nv * registry.lanes(row, tier)
    dot = registry.dot(own, row)
    in_place = problem.layout[0] == "n" and registry.in_place(own, row)
    pack = "b" if row.converts else "none"
    # Rows of A in place however far apart: where they are whole pages, so that a panel's share a set of L1, copying
    # costs more (Zen 5, k * n 1024 x 512 to 4096 x 1024, 9 to 128 rows: f32 1.05 to 1.12, f64 1.09 to 1.18, bf16 1.07;
    # 512 rows 1.02 to 1.07; one thread and two).
    if (row.converts and not in_place) or problem.layout[0] == "g":
        pack = "ab"
    mc, kc, nc = blocks(problem, tier, mr, nr, "ab" if pack == "ab" else "b")
    size = row.itemsize
    many = pack == "none" and problem.m > FEW_ROWS and l1_blocks.in_panels(problem, tier, mr, nr)
    if many:
        mc, kc, nc = many
    elif dot is not None and dot.appended:
        # The sums that correct a dot product stand once, behind all of k.
        kc = -(-problem.k // dot.group) * dot.group
        nc = max(nr, min(nc, 4 * cpu.caches().l2 // (kc * size)))
    elif problem.m <= mr and problem.m * problem.k * size <= cpu.caches().l2 // 2:
        # One pass over a panel, of all its steps, so that the weights are read from first to last (AVX2 on Zen 4, one
        # thread, blocks of 2048 steps of several panels: f32, k x n 8192 x 2048, 4096 x 11008 and 11008 x 4096, 1 row
        # 1.05 to 1.15, 3 rows 1.03 to 1.2, 4 rows 1.01 to 1.05, 6 rows 1.04 to 1.05; bytes, 4096 x 4096, 1 row 1.45, 2
        # rows 1.42, 4 rows 1.2, 6 rows 1.15).
        kc = problem.k
    elif pack != "ab" and mr < problem.m <= FEW_ROWS and problem.k * problem.n * size > cpu.caches().l2:
        # Several passes over a panel, while the next block of it is fetched (`macrokernel`): half as many steps, so
        # that both fit L2, and one panel at a time, so that they follow each other in memory (4096 x 4096 f32, one
        # thread, KC 512 / 1024 / 2048: 16 rows 2.14 / 2.13 / 2.32 ms, 32 rows 4.54 / 4.36 / 4.53).
        kc, nc = -(-problem.k // -(-problem.k // max(128, (cpu.caches().l2 >> 8) // size))), nr
    if pack == "ab":
        mc = max(mr, min(mc, cpu.caches().l2 * 3 // 8 // (kc * size) // mr * mr))
    return Config(own, tier.name, mr, nr, mc, kc, max(nr, nc), pack, *_team(problem, nr))


def _team(problem: Problem, nr: int) -> tuple[str, int]:
    size = problem.k * problem.n * problem.row.itemsize
    threads = costs.members(problem)
    if threads == 1 or not (costs.busy(problem) or size >= costs.TEAM_BYTES):
        return "n", 1
    # Threads that share columns read B once in all, those that share rows read all of it each.
    split, parts = ("n", -(-problem.n // nr)) if problem.m < 2 * problem.n else ("m", problem.m)
    if parts < threads and problem.m > parts:
        split, parts = "m", problem.m
    return split, max(1, min(threads, parts))
