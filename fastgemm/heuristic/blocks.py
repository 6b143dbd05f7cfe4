"""The blocks of a product that live in the caches together: MC, KC and NC."""

from __future__ import annotations

from .. import cpu, kernels, registry
from ..problem import MAX_BLOCK, Problem
from . import l1, l1_blocks, l1_written
from .packing import FEW_ROWS, copies_ahead, fits_l2

MOST_ROWS = 96           # of a block: C is written a block at a time (92160 x 144 x 32: MC 96 350 GFLOP/s, 3072 106)
AHEAD_STEPS = 512        # of a block of B that tiles fetch before it is copied
STEPS_APART = 512        # of an A by columns whose columns share sets of the caches
FEW_PANELS = 2           # of rows, where writing C takes most of the time
SEVERAL = 8              # of B's narrow panels, copied at a time for so few rows
BYTES_STRIP = 1024       # columns of a strip of bytes, packed for few rows
TURNED_STEPS, THIN_STEPS, THIN_BYTES = 96, 64, 256  # of A by columns, with few registers; for so short rows of both
MOST_OF_PAGE = range(1800, 4096)
IN_PLACE_STEPS = 4096    # of a block of a B in place with short rows
DEEPEST = 4096           # steps of k of their columns where those lie along k


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
    if pack == "none" and row_b >= 4096 and not fits_l2(problem):
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
        kc = max(least, min(IN_PLACE_STEPS, (l2 >> 2) // (row_b + beside)))
        if problem.m <= mr and problem.n <= nr and problem.batch == 1 and problem.layout[0] == "n":
            # Of one tile nothing is read twice (Zen 4, one thread, over two to four blocks, f32 1 x 64 x 1216 1.05, 4 x
            # 64 x 2000 1.03, 6 x 64 x 4000 1.02, 8 x 48 x 2500 1.01; f64 1.04, 6 x 32 x 4000 1.02; of several tiles 6 x
            # 100 x 3000 0.99, 0.97, 12 x 100 x 2500 1.0).
            kc = IN_PLACE_STEPS
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
    kc = l1.steps_in_place(problem, tier, kc) if pack == "none" else l1.steps_copied(problem, tier, pack, kc)
    few = problem.m <= FEW_ROWS and pack == "b"
    held = problem.row.real_bytes * problem.row.parts    # by a number of a panel
    narrow = nr * held < 128 and problem.layout[1] == "n" and problem.row.group == 1 and pack == "b"
    narrow = narrow and (few or _passes(problem)) and not fits_l2(problem)
    if narrow:
        kc = min(kc, max(128, l2 >> 10, l2 * 9 // 16 // row_b))
    block = l1_blocks.copied(problem, tier, mr, nr, few) if pack == "b" and not narrow else None
    if block is not None:
        return block
    ahead = pack == "b" and copies_ahead(problem, tier)
    if ahead:
        kc = min(kc, AHEAD_STEPS)
    kc = -(-problem.k // -(-problem.k // kc))
    if ahead:
        # The block that tiles fetch beside the one that they multiply.
        return problem.m, kc, max(nr, l2 * 3 // 8 // (kc * size) // nr * nr)
    most = l1.rows_at_a_time(problem, tier, pack, MOST_ROWS)
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
    if few and bytes_summed and not fits_l2(problem):
        # A strip of bytes is read a whole 1024 of each row, and as many rows as fill half of L2 (times panels of 2 NR
        # and 2048 steps: 4 x 10752 x 3584 1.3, 16 x 8192 x 2048 1.31, 64 x 16384 x 4096 1.25).  Of columns that lie
        # along k two panels, with all of it (64 x 7680 x 2560 nt times such strips 1.05, 32 x 2560 x 2560 1.05).
        along = problem.layout[1] != "n"
        kc = min(problem.k, DEEPEST) if along else min(kc, max(128, l2 >> 11))
        kc = -(-problem.k // -(-problem.k // kc))
        return mc, kc, max(nr, (2 * nr if along else BYTES_STRIP) // nr * nr)
    if narrow:
        nc = max(2 * nr, l2 * 9 // 16 // (kc * held) // nr * nr)
    elif few and not (panels and problem.row.group == 1):    # `l1_written` has the figures
        # Of halves two a lane that come from memory four panels (times two: 16 x 2560 x 2560 1.0 to 1.1, 16 x 8192 x
        # 2048 1.0 to 1.07, 48 x 4096 x 4096 1.13, 64 x 16384 x 4096 1.0 to 1.18; 32 x 3072 x 1024 0.99, 100 x 8192 x
        # 2048 0.7).
        halves = kernels.blocked_family(problem.row, tier) == "bf16" and problem.k * row_b > cpu.caches().l3 // 4
        nc = (4 if halves and problem.m <= 64 else 2) * nr
        if nr * held < 128 and SEVERAL * nr * held * kc <= l2 >> 2:
            # Narrow panels of few steps (AVX2 on Zen 4, eight times two: nt 100 x 200 x 200 1.02, 150 x 150 x 400 1.02,
            # 100 x 500 x 64 1.02, 200 x 400 x 100 1.02, stacks 96 x 96 x 96 1.02, 197 x 197 x 64 nt 1.04; where fewer
            # than eight fit, 48 x 768 x 768 0.99, 128 x 3072 x 768 0.97).
            nc = SEVERAL * nr
    else:
        # (Beside an L1 of 32 KiB half of that for what `l1_blocks` leaves; before that, times all of it and
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


def _panels_written(problem: Problem, tier: registry.Isa, mr: int) -> int:
    # Few steps of dot products, and long rows of C that share sets of L1, or come from memory: fewer of them at a time.
    # 0: as many as fit.
    row = problem.row
    dot = registry.dot(kernels.blocked_family(row, tier), row)
    row_c = problem.n * row.result_bytes
    if dot is None:
        return l1_written.panels(problem, tier, mr)
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
