"""The values that the driver's modules pass to each other, and the arithmetic of cutting a length into parts."""

from fastgemm.driver.abi cimport MAX_STRIP, finish_t, kernels_t, offset_t, special_t, store_t
from fastgemm.driver.soon cimport soon_t

cdef enum:
    FAMILY_GEMM = 0         # registry.FAMILIES[0]
    FAMILY_GEMV = 1
    FAMILY_SMALL = 2
    FAMILY_DOTS = 3
    DOTS_STEPS = 64         # of k, of which blocks are whole multiples there
    FAR_ROW_BYTES = 1536    # of a row of A, up to which all of it is fetched at once
    DOTS_L1 = 24 << 10      # bytes of B's columns that all rows pass over: beside four rows of A in 48 KiB
    LINE = 64
    # Bytes of a vector whose loads gain by being aligned, and vectors of a row of C from which one more for that pays:
    # NumPy's arrays begin 16 bytes into a line, so that every other vector of 32 bytes lies in two lines and a panel of
    # 16 floats in two instead of one (AVX2 on Zen 4, one thread, bench/builds.py --begin 16: f32 400^3 1.15, 64 x 512 x
    # 512 1.18, 13 x 512 x 256 1.26, 6 x 800 x 800 1.24, strips 2 x 1024 x 1024 1.32, 4 x 1024 x 1024 1.26; but 64
    # columns 0.9, 128 0.95 to 1.0, 192 0.91 to 1.0, 256 1.00 to 1.05).  Of 64 bytes, where multiplying leaves more time
    # for loads, it was not measured.
    LEAD_BYTES = 32
    LEAD_VECTORS = 32
    # And steps of k, whose lines of a panel leave L1 little room (twice as many where each row lies in two); fewer of
    # rows that share sets of it.  C, which begins a line, lies across lines then (800 x 800 x 16 0.92, x 64 0.97;
    # 2000 x 2000 x 32 0.84; 100 x 512 x 32 1.10).
    LEAD_STEPS = 128
    LEAD_PAGED = 2048
    LEAD_PAGED_STEPS = 32

cdef enum:
    SPLIT_M = 0
    SPLIT_N = 1
    SPLIT_BATCH = 2
    SPLIT_K = 3

cdef struct call_t:
    # Operands of one call.  Strides inside a product count real components, steps from one
    # product of the stack to the next count bytes.
    char* a
    char* b
    char* c
    Py_ssize_t rs_a, cs_a, rs_b, cs_b, rs_c, cs_c
    Py_ssize_t step_a, step_b, step_c
    store_t store
    # What is done to finished parts of C, before they are rounded where C is narrower than what is computed with; NULL:
    # nothing.  Only where C's columns are adjacent, alpha is 1 and beta 0, and for one product alone: parts are counted
    # from its beginning.
    finish_t finish
    const void* terms           # what `finish` is told
    const offset_t* offsets     # of A and B; NULL: nothing is subtracted
    bint slim                   # B's panels, where it is packed already, are slim ones
    soon_t* soon                # what is to be fetched while tiles run, or NULL
    char* copy_b                # where copies of B's blocks go and stay, NULL: each behind A's blocks, ...
    bint copied_b               # ... and whether they are there since an earlier call, by such a plan

cdef struct grid_t:
    # A length cut into `panels` parts: the first `larger` have size + 1, the others size.
    Py_ssize_t panels, size, larger

cdef struct plan_t:
    # A Config made concrete for a Problem: blocks cut to size, kernels looked up.
    const kernels_t* kernels    # NULL: no kernel takes this problem, NumPy does
    int family                  # index in registry.FAMILIES
    bint limbs                  # which cuts numbers into limbs: not every call may be computed so (`run_plan`)
    int mr, nv                  # register tile: rows, vectors; 0: a vector's kernels, strips or dot products
    bint pack_a, pack_b
    bint strips                 # few rows, and B in place
    bint saturates              # bool, of many steps: C may be true everywhere after a few of them (`run_saturating`)
    # B is panels already, of all of k, one after the other as `vectors` cuts them: so many steps each with what packing
    # appends (0: B is a matrix).  Pieces of columns begin where panels do.
    Py_ssize_t ready
    Py_ssize_t ready_ahead      # bytes ahead of which such panels are fetched
    bint ready_next             # several passes over a panel fetch a part each of the next one, not its own lines
    bint ready_l2               # into L2 and not L1, and so what else tiles fetch
    int split, threads
    Py_ssize_t m, n, k, batch
    Py_ssize_t mc, kc           # elements; kc in steps
    Py_ssize_t width, ncv       # vectors: of C, of a block
    size_t a_bytes, b_bytes     # workspace of a thread
    size_t sums                 # where in a_bytes sums lie that several blocks of k add to before they are converted
    Py_ssize_t sum_rows         # and of how many rows at a time
    bint raw                    # C is of the type that is computed with, whatever the table says: for such sums
    size_t c_bytes              # of a partial output, where threads share k: kept by the caller, one a thread
    Py_ssize_t units            # of one product, that threads share: rows, vectors, columns / unit, or 1
    Py_ssize_t unit             # columns of a unit of gemv or dots
    Py_ssize_t grain            # units of the smallest piece that is dealt out
    Py_ssize_t side_bytes       # of a row of a panel of B below which copies take a few steps of all panels at a time
    Py_ssize_t lines_ahead      # of its own panel of B that a tile fetches, where it fetches nothing else
    bint soon_l2                # what is read after a product is fetched into L2, SOON_BYTES in a step at least
    Py_ssize_t far_row          # bytes of a row of A that are fetched ahead, from memory or L3, or 0
    int far_items               # of a stack: the next item comes from L3 (1) or from memory (2)
    bint far_columns            # small: A by columns comes from memory, or L3
    bint far_blocks             # B, and A by columns, come from memory in place: their next block of k is fetched
    bint far_copies             # B that is copied comes from memory, or L3: the next block is fetched meanwhile
    bint far_c                  # C comes from memory
    bint still_c                # C is not fetched: its stores wait for its lines by themselves
    bint by_rows                # gemm: tiles that are only written finish row by row, where kernels can
    bint lower                  # gemm: half of a copied B's last vector is multiplied, where no more of it is live
    bint soon_c                 # small: tiles fetch C of the next panel of rows
    bint items_ahead            # small: items of a stack fetch those that come some way behind them
    bint far_stack              # small: items come from L3 or from memory
    bint brief                  # small: so few steps that rows of C are written whole, if enough begin alike in lines
    bint past_caches            # small: it is written past the caches
    bint far[2]                 # whether B comes from memory, beside few rows: one, all of a stack's
    Py_ssize_t reach_l2[2]      # gemv: see store_t; by one B, by all of a stack's
    bint deep                   # gemm: C is one tile, few rows of one vector, whose accumulators come in sets
    bint turned                 # dots: B's columns are adjacent, and few
    bint exchanged              # dots: columns are few, and the transposed output is computed
    bint direct                 # one block, nothing packed, all of a product by one thread: no loop but jr and ir
    bint whole                  # one block, packed, all of a product by one thread
    # Panels of a product that is direct or whole; `vectors` also those of a B that is packed already.
    grid_t rows, vectors
    int tail                    # live components of C's last vector
    bint apart                  # those are few, and rows of C share vectors for them: the product without them first
    const special_t* special    # a kernel for this very shape, or NULL


cdef inline char letter(Py_ssize_t rows, Py_ssize_t cols, Py_ssize_t rs, Py_ssize_t cs, int part) noexcept nogil:
    # The layout letter of an operand (see Problem).  A side of length one has any stride.
    if cols == 1 or cs == part:
        return c"n"
    if rows == 1 or rs == part:
        return c"t"
    return c"g"


cdef inline bint special_takes(const special_t* s, const call_t* call) noexcept nogil:
    # Whether a kernel of constant strides can do a call of its shape.  A side of length one has any stride.
    return ((s.m == 1 or call.rs_a == s.rs_a and call.rs_c == s.rs_c) and (s.k == 1 or call.cs_a == s.cs_a and
            call.rs_b == s.rs_b) and call.cs_b == s.part and call.cs_c == s.part and
            call.store.alpha_is_one and call.store.beta_kind == 0 and call.store.conj == 0 and
            call.finish == NULL and call.offsets == NULL)


cdef inline int appended(bint a_zero, bint a_unsigned, bint b_zero, bint b_unsigned) noexcept nogil:
    # Which of the steps that packing appends to dot products of bytes count, by what is subtracted from an operand (its
    # zero points) and its sign: 1 A's, 2 B's.  Kernels read A's bytes without sign and B's with it, so an operand of
    # the other kind has an offset of 128.
    return (1 if a_zero or not a_unsigned else 0) + (2 if b_zero or b_unsigned else 0)


cdef inline Py_ssize_t quotient(Py_ssize_t a, Py_ssize_t b) noexcept nogil:
    # Of lengths, none of them negative, and few of them of more than 32 bits: a Skylake divides those in 26 cycles, 64
    # bits in 42 to 95.
    return <unsigned int>a // <unsigned int>b if (a | b) >> 32 == 0 else a // b


cdef inline Py_ssize_t ceil_div(Py_ssize_t a, Py_ssize_t b) noexcept nogil:
    return quotient(a + b - 1, b)


cdef inline Py_ssize_t steps_of(const kernels_t* t, Py_ssize_t k) noexcept nogil:
    # Of a packed block of so much of k, without what packing appends.
    return ceil_div(k, t.chunk_k) * t.chunk


cdef inline Py_ssize_t k_of(const kernels_t* t, Py_ssize_t steps) noexcept nogil:
    # What begins at a step, which is a chunk's first.
    return quotient(steps, t.chunk) * t.chunk_k


cdef inline Py_ssize_t share(Py_ssize_t total, Py_ssize_t i, Py_ssize_t parts) noexcept nogil:
    # Where part i of a balanced partition begins: the first total % parts are one larger.
    cdef Py_ssize_t base = quotient(total, parts), extra = total - base * parts
    return i * base + (i if i < extra else extra)


cdef inline Py_ssize_t bytes_of_copies(const plan_t* plan) noexcept nogil:
    # Of B's blocks one behind the other, which other rows of A may meet as they are; 0: several are of k, or none is.
    cdef Py_ssize_t steps = steps_of(plan.kernels, plan.k)
    if not plan.pack_b or plan.family == FAMILY_SMALL or plan.apart or plan.kc < steps:
        return 0
    return plan.width * plan.kernels.length * (steps + plan.kernels.appended) * plan.kernels.real_bytes


cdef inline char* space_of_b(const plan_t* plan, const call_t* call, char* space) noexcept nogil:
    return space + plan.a_bytes if call.copy_b == NULL else call.copy_b


cdef inline Py_ssize_t tile_steps(const plan_t* plan) noexcept nogil:
    # Steps of k of all tiles of a product, where those are the macrokernel's, which fetch what comes after it.
    if plan.family == FAMILY_SMALL or not plan.mr:
        return 0
    return ceil_div(plan.m, plan.mr) * ceil_div(plan.width, plan.nv) * ceil_div(plan.k, plan.kernels.group)


cdef inline bint far_b(const plan_t* plan, const call_t* call) noexcept nogil:
    # Whether B comes from memory: of a stack, where they differ, all of them.
    return plan.far[1 if call.step_b else 0]


cdef inline Py_ssize_t reach_b(const plan_t* plan, const call_t* call) noexcept nogil:
    return plan.reach_l2[1 if call.step_b else 0]


cdef inline grid_t cut(Py_ssize_t length, Py_ssize_t most) noexcept nogil:
    # Panels of at most `most`, balanced.
    cdef grid_t grid
    grid.panels = ceil_div(length, most)
    grid.size = quotient(length, grid.panels)
    grid.larger = length - grid.panels * grid.size
    return grid


cdef inline grid_t cut_components(Py_ssize_t width, Py_ssize_t length, Py_ssize_t most, int* tail) noexcept nogil:
    # The same of vectors that hold so many components; `tail` is told how many of them the last one has.
    cdef Py_ssize_t whole = quotient(width - 1, length)
    tail[0] = <int>(width - whole * length)
    return cut(whole + 1, most)


cdef inline Py_ssize_t lead_of(const kernels_t* t, const char* b, Py_ssize_t rs_b, Py_ssize_t width, Py_ssize_t k,
                               Py_ssize_t vectors) noexcept nogil:
    # Components in front of the first whole line of every row of a B that is read in place, or of the first whole
    # vector, where rows do not begin alike in a line, or are read so few vectors at a time; 0 where not alike at all.
    cdef Py_ssize_t size = t.real_bytes, length = t.length * size, line = min(LINE, vectors * length)
    cdef Py_ssize_t begin = line if rs_b * size % line == 0 else length
    cdef Py_ssize_t before = -<Py_ssize_t>b & (begin - 1)
    if before == 0 or length != LEAD_BYTES or width < LEAD_VECTORS * t.length:
        return 0
    if k < (LEAD_PAGED_STEPS if rs_b * size % LEAD_PAGED == 0 else LEAD_STEPS):
        return 0
    if rs_b * size & (begin - 1) or before & (t.part * size - 1):
        return 0
    return before // size


cdef inline Py_ssize_t panel_start(const grid_t* grid, Py_ssize_t panel) noexcept nogil:
    return panel * grid.size + (panel if panel < grid.larger else grid.larger)


cdef inline Py_ssize_t panel_at(const grid_t* grid, Py_ssize_t start) noexcept nogil:
    # The panel that begins there.
    cdef Py_ssize_t wide = grid.larger * (grid.size + 1)
    return start // (grid.size + 1) if start <= wide else grid.larger + (start - wide) // grid.size


cdef inline grid_t some_panels(const grid_t* grid, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    # Panels first : last of a grid.
    cdef grid_t part
    part.panels, part.size = last - first, grid.size
    part.larger = 0 if grid.larger < first else (part.panels if grid.larger > last else grid.larger - first)
    return part


cdef inline Py_ssize_t row_gap(Py_ssize_t width, Py_ssize_t length) noexcept nogil:
    # Where the rows of a copied A lie: an odd number of vectors apart.
    return (ceil_div(width, length) | 1) * length


cdef inline size_t dot_sums_bytes(const plan_t* plan) noexcept nogil:
    # The end of a_bytes: sums of a block of rows of bytes.
    return (plan.mc * 4 + 63) // 64 * 64


cdef inline Py_ssize_t strip_words(const plan_t* plan) noexcept nogil:
    # The beginning of the workspace: A, and a row of ones.
    return MAX_STRIP * row_gap(ceil_div(plan.k, plan.kernels.group) + plan.kernels.appended, plan.kernels.length)


cdef inline Py_ssize_t strip_gap(const plan_t* plan) noexcept nogil:
    # Components from one row of a strip's sums to the next: 512 bytes beyond a page, so that what is loaded of one row
    # is never a page's length from what has just been stored of another, which the CPU takes for the same address.
    cdef Py_ssize_t size = plan.kernels.real_bytes
    return (ceil_div(plan.ncv * plan.kernels.length * size - 512, 4096) * 4096 + 512) // size
