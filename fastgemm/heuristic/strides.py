"""What an operand's strides mean for its lines in L1, and which register tiles suit them, whatever they cost.

Short vectors have a tile of one vector and twelve rows, for outputs that are no wider: six rows leave a quarter of the
multiply-adds waiting for each other (AVX2 on Zen 4, one thread, 12x8 times 6x16, f32: 784 x 8 x 72 1.12, 100 x 8 x 100
1.17, 1000 x 8 x 1000 1.13, 572 x 8 x 572 1.17, 300 x 5 x 1000 1.14, A transposed 1024 x 8 x 512 1.4; f64, 12x4 times
6x8, 1.1 to 1.17).
"""

from __future__ import annotations

from math import gcd

from .. import cpu, registry
from ..problem import Problem

# Rows up to which a tile is never too tall for what follows: the ways of an L1.
WAYS = 8
LINE, PAGE = 64, 4096
NEARLY = 16         # bytes, as below
RAGGED_BYTES = 224  # three lines and a half
# What rows that begin alike in a line are whole numbers of, and bytes from which on the driver aligns them, if there
# are so many or they are whole numbers of that.
EVEN_BYTES, EVEN_LONG = 32, 1024
EVEN_STEPS, EVEN_PAGED = 128, 2048


def tiles(problem: Problem, tier: registry.Isa) -> tuple[tuple[int, int], ...]:
    """Return the tiles to choose from, of `registry.tiles`.

    Examples
    --------
    >>> tiles(Problem("f32", 1000, 8, 1000), registry.isa("v3"))
    ((6, 16), (4, 24), (12, 8))
    >>> tiles(Problem("f32", 1000, 8, 1024), registry.isa("v3"))
    ((6, 16), (4, 24))
    """
    lanes = registry.lanes(problem.row, tier)
    return tuple(
        (mr, nr)
        for mr, nr in registry.tiles(problem.row, tier)
        if not _rows_collide(problem, mr, lanes) and (nr > lanes or (problem.n <= nr and not _too_tall(problem, mr)))
    )


def _rows_collide(problem: Problem, mr: int, lanes: int) -> bool:
    # Rows of one vector beside an A whose rows lie whole pages apart, more of them than L1 has ways (Zen 4, AVX-512,
    # one thread, 8x48 and 6x64 times 14x32, k = 1024, 2048: f32 64 x 10 1.6 1.65, 64 x 16 1.5 1.5, 200 x 16 1.6 1.6,
    # 1000 x 10 1.8 1.85, 32 x 16 1.15; 8x24 times 14x16, k = 512, 1024: f64 64 x 5 1.6 1.7, 200 x 8 1.6 1.5).
    paged = problem.layout[0] == "n" and problem.k * problem.row.itemsize % PAGE == 0 and not problem.row.converts
    return paged and problem.n <= lanes and problem.m > mr // 2 and mr > cpu.caches().l1d // PAGE


def _too_tall(problem: Problem, mr: int) -> bool:
    row, letter = problem.row, problem.layout[0]
    if row.converts or letter == "g":
        return False    # they are copied
    # Rows whole pages apart share one set of L1 (1000 x 8 x 1024 0.52, f64 1000 x 4 x 512 0.5; half a page apart 1.15).
    if letter == "n" and mr > WAYS and problem.k * row.itemsize % PAGE == 0:
        return True
    # Rows from memory are fetched ahead a line in a step, which holds no step of so many rows of eight bytes; and a
    # column of so many takes lines that one of six does not (f64 25000 x 4 x 200 0.33, 4000 x 4 x 800, of 26 MB, 0.92,
    # 1000 x 4 x 1000, of 8 MB, 1.17; f32 transposed 4096 x 8 x 4096 0.8).
    slow = mr * row.itemsize > LINE if letter == "n" else mr > WAYS
    return slow and problem.streamed > cpu.caches().l3 // 2


def collides(problem: Problem) -> bool:
    """Whether an A by columns has more of them than L1 has room for where they begin: a power of two apart, or nearly.

    Examples
    --------
    >>> collides(Problem("f32", 768, 768, 100, layout="tn")), collides(Problem("f32", 800, 768, 100, layout="tn"))
    (True, False)
    """
    # An L1 has a page in each way.
    row_a, ways, sets = problem.m * problem.row.itemsize, cpu.caches().l1d // PAGE, PAGE // LINE
    if problem.layout[0] != "t" or row_a % LINE:
        return False
    return problem.k > ways * sets // gcd(row_a // LINE, sets)


def even(problem: Problem) -> bool:
    """Whether B's rows, read in place, begin alike in a line, and are aligned by the driver, as its `lead_of` says."""
    row_b = problem.n * problem.row.itemsize
    enough = problem.k >= EVEN_STEPS or row_b % EVEN_PAGED == 0
    return row_b % EVEN_BYTES == 0 and row_b >= EVEN_LONG and enough


def nearly_paged(problem: Problem) -> bool:
    """Whether B's rows lie almost whole pages apart: 1023 or 1025 columns, whose loads in place take each other's ways.

    AVX2 on Zen 4, one thread, f32, GFLOP/s of 64 x n x 45 in place, n = 1015, 1019, 1021, 1023, 1025, 1028, 1030: 84,
    82, 54, 52, 51, 79, 82, copied 75; 2041, 2047, 2049: 82, 51, 49, copied 75.
    """
    row_b = problem.n * problem.row.itemsize
    beyond = (row_b + NEARLY - 1) % PAGE
    return row_b > PAGE - NEARLY and beyond < 2 * NEARLY - 1 and beyond != NEARLY - 1


def pages(problem: Problem) -> float:
    """Return the pages that the steps of k of one tile lie in, A by columns and B in place."""
    row_a, row_b = problem.m * problem.row.itemsize, problem.n * problem.row.itemsize
    return problem.k * (min(1.0, row_a / PAGE) + min(1.0, row_b / PAGE))


def ragged(problem: Problem) -> bool:
    """Whether A by columns and B in place both take parts of lines in each step, together more than L1 holds.

    AVX2 on Zen 4, one thread, f32, a copy of B times both in place: 50 x 345 x 200, x 150, x 120, x 100 1.43 1.27 0.96
    0.88, 50 x 250 x 200 1.31, 50 x 130 x 200 1.2, 34 x 345 x 200 1.2, 70 x 150 x 200 1.2, 90 x 345 x 160 1.04, 60 x 150
    x 1000 1.0; of whole lines 50 x 352 x 200 1.03, 50 x 384 x 200 0.95, 64 x 320 x 200 0.96, 64 x 300 x 150 0.9, 48 x
    352 x 150 0.89.
    """
    size = problem.row.itemsize
    parts = problem.m * size % LINE > 0 and problem.n * size % LINE > 0
    return problem.layout[0] == "t" and parts and problem.k * RAGGED_BYTES > cpu.caches().l1d
