"""What a plan's tiles fetch ahead, from L3 or memory: rules of sizes, and of what the CPU fetches by itself."""

from fastgemm.driver.abi cimport kernels_t
from fastgemm.driver.structs cimport FAMILY_GEMM, FAMILY_SMALL, ceil_div, plan_t

from fastgemm import cpu
from fastgemm.heuristic.l1 import fetches_c, lines_ahead
from fastgemm.heuristic.half_tier import copies_ahead
from fastgemm.heuristic.ways import far_bytes

cdef enum:
    # Bytes of a panel that was packed long ago, and comes from memory, to fetch ahead: beyond the page where the CPU's
    # own prefetch stops (4096 x 4096 f32, one thread, ms for 2048 / 4096 / 8192 / 16384 bytes: 1 row 1.38 1.41 1.37
    # 1.36, 8 rows 1.56 1.48 1.42 1.45; int8, 8 rows 0.386 0.358 0.344 0.344).
    READY_AHEAD = 8192
    # Steps up to which the small family's tiles fetch C of the next panel of rows, where C leaves L1.  (Emerald Rapids,
    # one thread, f32 by 9, 12, 16, 24 steps, times none: 300 x 100 1.13 1.08 1.04 1.01, 1000 x 101 1.14 1.06 1.05 1.00,
    # 460 x 460 1.10 1.05 1.03 1.02, 688 x 688 1.39 1.26 1.11 1.05, 1000 x 200 1.19 1.13 1.03 1.03, 512 x 512 0.99 1.01
    # 1.06 0.93; of one panel of columns, whose rows follow one another, 23040 x 16 x 9 0.94.  Zen 4 0.97 to 1.02.)
    SOON_STEPS = 16
    # Where 512 bits are two halves: real rows up to which nothing is fetched, and how far ahead for more.
    HALVES_ALONE = 6
    HALVES_AHEAD = 16384
    # Beside an L1 of 32 KiB: rows up to which passes over such a panel fetch the next one, from L3 and from memory.
    # Others, and all of a B that L2 holds, fetch lines of their own panel, which has left L1 by then.  (Cascade Lake,
    # one thread and two, own lines times the next panel's, f32 512 x 512 by 16, 32, 128 rows 1.03 1.03 1.01, 1.08 1.10
    # 1.07, 1024 x 1024 by 16, 32, 64, 256 rows 0.94 0.95 1.01 1.02, 0.94 0.98 1.00 1.03, 2048 x 2048 by 16, 32, 100
    # rows 0.99 1.06 1.12, 0.92 1.15 1.24, 4096 x 4096 by 16, 32, 64, 256 rows 0.86 0.87 0.94 1.06, 0.94 0.87 0.96 1.02;
    # `bench/breakdown.py`, one thread, MLP_1 512 1.8, MLP_2 512 1.04.)
    NEXT_NEAR = 32
    NEXT_FAR = 64


cdef Py_ssize_t _far_row(const plan_t* plan, problem, tier) except -1:
    # The CPU's own prefetch does not keep up with short rows of A, a panel of them side by side, when they come from
    # memory: the first pass over a panel of columns fetches the rows of later ones (one thread, Zen 5: 32 of 9800 x 16
    # x 144 1.5, 50000 x 32 x 288 1.4, 100000 x 64 x 144 1.3; rows of 4 KiB all at once 1.02, without gaps in
    # between 1.4: 7000 x 32 x 1024, 20000 x 64 x 512).  Of an A in the caches it is 2 to 9 %
    # of the time for nothing.  From a quarter of L3 on, which others use too (medians of ten processes: 32 of f64 784 x
    # 8 x 72 1.46, f32 20000 x 32 x 128 1.79, 20000 x 100 x 100 1.53, 10000 x 200 x 200 1.22; below it, 0.91 to 1.0).
    # In a stack B counts too (five processes, one thread, medians: f32 100 of 100 x 100 x 100 1.16, 10 of 400 x 400 x
    # 100 1.17, 20 of 200 x 200 x 200 1.22, f64 50 of 100 x 100 x 100 1.09; two threads 0.96 to 1.02; below it 0.97 to
    # 1.02).
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t row = plan.kc * t.part * t.real_bytes
    # Panels of one vector have little else to load: there it pays from L3 too (AVX2 on Zen 4, one thread, f32 10000 x 8
    # x 128 1.17, 4000 x 8 x 128 1.12, 2000 x 8 x 800 1.02, 32 of 784 x 8 x 72 1.10, f64 8000 x 4 x 100 1.13; from L2
    # 784 x 8 x 72 1.0).
    cdef bint narrow = tier.registers == 16 and plan.family == FAMILY_GEMM and plan.n * t.part <= t.length
    cdef Py_ssize_t near = cpu.caches().l2 // 2 if narrow else cpu.caches().l3 // 4
    # Where L3 is a mesh away it pays wherever A does not come from L2, for tiles and for rows that share vectors
    # (Emerald Rapids, one thread, f32 32 of 196 x 16 x 144 1.40, 9800 x 16 x 144 1.42, 2450 x 32 x 288 1.20, 32 of
    # 49 x 32 x 288 1.07, 3136 x 128 x 256 1.06, f64 16 of 784 x 8 x 72 1.42, 9800 x 8 x 72 1.37; from L2 1.0, f32 12 of
    # 196 x 16 x 144 1.08.  Cores before it, with an L1 of 32 KiB, were not measured.)
    if cpu.half_line_l1(tier):
        near = cpu.caches().l2
    if plan.pack_a or problem.layout[0] != "n" or problem.streamed <= near:
        return 0
    return row


cdef int _far_items(const plan_t* plan) except -1:
    # What copies B, or turns A or B over, waits for an item of a stack that lies in L3 or in memory: the tiles of the
    # one before fetch it (medians of four processes by turns, Zen 5, one thread and two, f32 300 of 128 x 128 x 128 tn
    # 1.29, 1.25, tt 1.41, 1.36, 256 of 128 x 128 x 96 nt 1.17, 1.14, 2000 of 64 x 64 x 64 1.08, 1.12; f64, one thread,
    # 100 of 100 x 100 x 100 tt 1.39, 40 of 30 x 500 x 100 nt 1.26; below three eighths of L3 0.93 to 1.02).  Where all
    # tiles fetch rows of A none is left for it (f64 32 of 784 x 8 x 72 0.95).
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t stack = plan.batch * (plan.m + plan.n) * plan.k * t.part * t.ab_bytes
    if plan.batch == 1 or plan.family != FAMILY_GEMM or plan.far_row and plan.width <= plan.nv:
        return 0
    return 2 if stack >= far_bytes() else 1 if stack >= cpu.caches().l3 * 3 // 8 else 0


cdef bint _far_blocks(const plan_t* plan, problem) except -1:
    # A tile takes a few numbers of each row of B, and of A by columns: rows that come from memory, in an order that the
    # CPU's own prefetch does not see.  All tiles of a block of k, but those that fetch the next panel, fetch a part
    # each of the next block, in the order of memory (one and two threads, medians, f32 tn 100 x 100 x 100000 1.29 1.33,
    # 64 x 64 x 50000 1.60 1.41, 200 x 200 x 50000 1.19 1.21, 64 x 576 x 28000 1.23 1.19; nn 64 x 64 x 100000 1.12 1.10;
    # tn 100 x 100 x 1000000 f64 1.45 1.70, c64 1.23 1.10, i32 1.79 1.97; AVX2 1.05 to 1.27).
    cdef Py_ssize_t row = problem.n * problem.row.itemsize
    if problem.layout[0] == "t":
        row += problem.m * problem.row.itemsize
    if plan.pack_a or plan.pack_b or problem.layout[1] != "n" or plan.kc >= plan.k:
        return False
    return 4 * plan.k * row > cpu.caches().l3 and 2 * plan.kc * row <= cpu.caches().l2


cdef int _panels_ahead(plan_t* plan, tier) except -1:
    # How the panels of a B that was packed long ago are fetched, which one panel of rows reads from first to last.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t rows = plan.m * t.part, b = ceil_div(plan.k, t.group) * plan.n * t.part * t.real_bytes
    plan.ready_ahead, plan.ready_l2 = READY_AHEAD, False
    few = rows <= (NEXT_FAR if b >= far_bytes() else NEXT_NEAR)
    plan.ready_next = not plan.lines_ahead or (b > cpu.caches().l2 and few)
    if not cpu.halves(tier):
        return 0
    # A Zen 4's own prefetch keeps up with few rows, and lines that are asked for as well only hold the places that L1
    # has for what is on its way; with more rows they do so if they go to L1 (one thread, B from memory, over
    # READY_AHEAD bytes into L1: nothing, f32 4160 x 4096, 1 to 6 rows 1.01 1.0 1.4 1.3 1.2 1.09, 8 rows 0.96, 12 rows
    # 0.82, f64 1.14 1.3 1.3 1.2 1.17 1.0, int8 1.06 1.2 1.3 1.26 1.2 1.17; into L2, 8 and 12 rows 1.17 and 1.06, int8
    # 1.2 and 1.4; in L3, nothing, 1024 x 1024 1 to 3 rows 1.27 1.27 1.07, 2048 x 2048 4 to 7 rows 0.96 0.95 0.93, but
    # a network's weights are many such matrices, and come from memory: int8 4096 x 4096 4 rows 1.3).
    # Several panels of rows, that fetch a part each of what is next: into L2 8, 10, 12, 16, 20 rows packed for 4 1.95
    # 1.54 1.37 1.18 1.0, packed for 16 9, 12, 16 rows 1.8 1.4 1.1; int8 the same.
    plan.ready_ahead, plan.ready_l2 = 0 if plan.m * plan.kernels.part <= HALVES_ALONE else HALVES_AHEAD, True
    return 0


cdef int look_ahead(plan_t* plan, problem, tier) except -1:
    # All fields of a plan that say what is fetched ahead, but `far`, which plans of few rows have.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t lines = lines_ahead(tier)
    plan.soon_l2 = lines > 0
    # (Tiles of registers load all of a panel in an order that hides L2: fetched as well, it takes as many loads again.)
    plan.lines_ahead = 0 if t.enter != NULL else lines
    plan.far_row = _far_row(plan, problem, tier)
    plan.far_blocks = _far_blocks(plan, problem)
    plan.far_items = _far_items(plan)
    plan.far_columns = problem.layout[0] == "t" and 4 * problem.streamed > cpu.caches().l3
    # (From a quarter of L3 on: f64 2000 x 1000 x 32 1.3 to 1.5, 1500 x 1000 x 64 1.2, f32 2000 x 2000 x 50 1.4 to
    # 1.7, 1900 x 1900 x 1900 1.01; f32 2000 x 1000 x 32, just below it, 0.93 to 1.01.)
    plan.far_c = 4 * problem.batch * plan.m * plan.n * t.part * t.c_bytes > cpu.caches().l3
    plan.still_c = not fetches_c(problem, tier)
    # (A CPU that multiplies two vectors of 64 bytes a cycle loads B again as fast in the last steps of a tile; that was
    # not measured.)
    plan.by_rows = cpu.narrow_units()
    plan.soon_c = (plan.family == FAMILY_SMALL and plan.k <= SOON_STEPS and plan.width > plan.nv
                   and plan.m * plan.n * t.part * t.c_bytes > cpu.caches().l1d and not cpu.narrow_units())
    # The CPU's own prefetch keeps up with a stack whose items follow one another, on a Zen 4.  (Without over with, f32
    # and f64 by 9 x 9 x 9 1.11 1.13, 12 x 12 x 12 1.0 1.05, 16 x 16 x 16 1.06 1.0, 60000 of 8 x 8 x 8 1.03 1.5, i32
    # 1.04 in the mean of 16 stacks, AVX2 1.01 1.02; of 112 stacks none below 0.98 in both the best and the median.)
    plan.items_ahead = not cpu.narrow_units()
    plan.far_stack = problem.batch > 1 and 4 * problem.streamed > cpu.caches().l3
    plan.far_copies = plan.pack_b and cpu.halves(tier) and copies_ahead(problem)
    if plan.ready:
        _panels_ahead(plan, tier)
    elif plan.limbs:
        # Panels of float32's limbs are half as long again, and L2 holds few beside a block of A.  (Emerald Rapids,
        # without over with, 512^3 0.95, 1024^3 0.97, 2048^3 0.99, others 1.00.)
        plan.ready_next = True
    elif plan.far_copies:
        plan.ready_l2 = True
