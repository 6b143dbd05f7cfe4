"""The loops around a microkernel, named as BLIS names them:

    jc    blocks of NC columns                 (threads, where they share n)
     pc   blocks of KC steps of k              pack B's panels
      ic  blocks of MC rows                    pack A's panels; (threads, where they share m)
       jr panels of NR columns
        ir panels of MR rows                   microkernel, store

Row and column panels are balanced: 13 rows in tiles of 8 run as 7 + 6, not 8 + 5.  The driver knows no
element types: pointers are bytes, widths are vectors, and the kernels do the rest.
"""

from fastgemm.driver.abi cimport (
    FUSED_RELU, LATER_BYTES, MAX_ROWS, MAX_VECTORS, epilogue_t, kernels_t, later_t, micro_t, offset_t, quant_t, store_t,
    update_t,
)
from fastgemm.driver.in_place cimport copied_rows, copies_rows, reads_in_place, simple
from fastgemm.driver.soon cimport add_span, lines_of_tile, next_soon, no_soon, soon_t
from fastgemm.driver.structs cimport (
    FAR_ROW_BYTES, LINE, call_t, ceil_div, cut, cut_components, grid_t, k_of, lead_of, panel_at, panel_start, plan_t,
    row_gap, share, some_panels, steps_of,
)
from fastgemm.driver.spread cimport fits

cdef enum:
    # Where several panels of rows pass over a panel of B that was packed long ago, so many passes fetch a part each of
    # what is read after it.
    READY_PARTS = 8
    # A tile whose B lies in place fetches lines of its own panel half as far ahead as one of a copy, if it has so many
    # steps: behind the last row of B there may be no memory, where the CPU looks for it in vain, 15 to 25 cycles a line
    # (Cascade Lake, one thread, f32 with nothing behind B, `bench/edges.py`, all lines_ahead: 572 x 572 x 4 1.35 of the
    # time, 800 x 800 x 4 1.33, 232 x 16 x 232 1.08; of half as many, with memory there, 24 x 512 x 512 0.94 of the
    # time, 32 x 300 x 300, 40 x 256 x 256 and 64 x 64 x 200 1.0).
    PLACE_PARTS = 2
    PLACE_STEPS = 32
    # Beside an L1 of 32 KiB (`soon_l2`) what comes after a product is fetched into L2, so many bytes in a step at
    # least, and by fewer tiles: what is on its way to L1 holds a place that lines of B wait for, and each line is asked
    # for by several steps.  (Cascade Lake, one thread, f32, attention of 128 tokens, 8 and 32 x 8 heads of 96, 8 x 12
    # of 64, of 384 and 512 tokens, over all of it into L1 while the first product runs: 8 bytes into L1 1.07 1.06 1.14
    # 1.04 1.00, into L2 1.09 1.09 1.13 1.02 0.99, 32 bytes 1.10 1.08 1.10 1.04 1.05, 64 bytes 1.03 1.04 1.08 1.04
    # 1.04.)
    SOON_BYTES = 32
    # Panels of A that comes from memory to fetch ahead: all at once, for which products wait, or, where rows have no
    # gaps, in the place of B's lines, some in each step (of the time of the former, six processes by turns on a busy
    # machine, one thread and two: 32 of 2450 x 32 x 288 0.55 and 0.57, 40000 x 32 x 128 0.7, 100000 x 64 x 144 0.9;
    # 4 panels 20000 x 32 x 128 1.2, 8 0.95 to 1.1, 14 to 64 none better).  Two lines in each step are fetched by half,
    # where the CPU's own prefetch brings pairs of them (Skylake-SP, one thread, 14 rows of one vector of f64, times all
    # at once, 32 of 784 x 8 x 72 1.45, 20000 x 8 x 100 1.43, 4 of 4000 x 8 x 300 1.41; measured on no other CPU).
    FAR_PANELS = 4
    STEADY_PANELS = 8
    # Steps of all panels of B at a time, where copies go by rows.
    STEPS_TOGETHER = 8
    # And of all of A's micropanels, where vectors of so many bytes have masks.
    COLUMNS_TOGETHER = 16
    MASKED_BYTES = 64

cdef extern from *:
    void fetch_line "__builtin_prefetch"(const void*) nogil
    int shift_of "__builtin_ctzll"(unsigned long long) nogil    # of a power of two


cdef inline void fetch_rows(const char* x, Py_ssize_t rows, Py_ssize_t step, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t i, at
    for i in range(rows):
        for at in range(0, length, 64):
            fetch_line(x + i * step + at)


cdef inline Py_ssize_t after(const grid_t* vecs, Py_ssize_t panel, Py_ssize_t v, Py_ssize_t steps, Py_ssize_t first,
                             Py_ssize_t kc) noexcept nogil:
    # Where, in vectors from the first panel on, lies what is read after steps first : first + kc of a panel at vector
    # v: the same steps of the next panel; behind the last panel the next steps of the first; at last the panel behind.
    if panel + 1 < vecs.panels:
        v += vecs.size + (1 if panel < vecs.larger else 0)
        return v * steps + (vecs.size + (1 if panel + 1 < vecs.larger else 0)) * first
    if first + kc < steps:
        return (vecs.size + (1 if vecs.larger else 0)) * (first + kc)
    return (v + vecs.size + (1 if panel < vecs.larger else 0)) * steps


cdef void macrokernel(
        const plan_t* plan, const call_t* call, const store_t* store,
        const char* a, Py_ssize_t rs_a, Py_ssize_t cs_a, bint a_panels,
        const char* b, bint b_packed, Py_ssize_t b_steps, Py_ssize_t b_first,
        Py_ssize_t row, const grid_t* rows, Py_ssize_t vec, const grid_t* vecs, Py_ssize_t kc,
        int tail) noexcept nogil:
    # C[from row on, from vector vec on] += A block @ B block.  `a` and `b` point at the blocks, copied or in place
    # (a_panels: A in micropanels; b_packed: B in panels of `b_steps` steps, of which the first `b_first` come before
    # this block); `tail` are the live components of the last vector here.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t L = t.length, size = t.real_bytes, size_c = size if plan.raw else t.c_bytes
    cdef Py_ssize_t size_b = t.slim_bytes if call.slim else size
    # Strides of A count components, or, where those are dot products' groups, bytes.
    cdef Py_ssize_t unit = size if t.group > 1 else 1, size_a = size // unit
    # Whether A is the caller's, and not a copy of its rows.
    cdef bint own_a = rs_a * size_a == call.rs_a * t.ab_bytes
    cdef Py_ssize_t kp = kc + t.appended    # steps of a packed block of A
    cdef Py_ssize_t jr, ir, v = 0, r, nv, mr, rs_b, ahead, pace, steady = 0, panels = vecs.panels, lead = 0, live
    # The rows of the tile that `steady` is of.
    cdef Py_ssize_t steady_mr = 0
    # Components from C's first column, and from the block's.
    cdef Py_ssize_t column = vec * L, col = 0
    cdef grid_t behind
    cdef Py_ssize_t parts = min(rows.panels, READY_PARTS), soon = 0
    # Bytes of A and of B that the next block of k reads, and how many of them a tile fetches: at most three quarters of
    # what its steps can (32 x 32 x 1000000 by all of it, two threads, 0.92).
    cdef Py_ssize_t next_a = kc * cs_a * size_a, next_b = kc * call.rs_b * size, share_of = 0, share_pace = 0, at
    # Components of B to the lines that a tile fetches of its own panel.
    cdef Py_ssize_t reach = 0
    # Lines of what comes after this product that a tile fetches, and bytes of them in a step of those that fetch some.
    cdef Py_ssize_t lines = 0, lines_pace = 0
    # What a pass over a panel that was packed long ago fetches of the next one.
    cdef Py_ssize_t part = 0, part_pace = 0
    cdef const char* coming
    cdef const char* b_panel
    cdef const char* a_panel
    cdef char* c
    cdef micro_t micro
    cdef int c_tail, b_tail
    # Numbers are components shifted by this, and components bytes by those: no division for each tile, of which a
    # Skylake does one of 64 bits in some 40 cycles, three steps of 6 x 64.
    cdef int halved = t.part - 1, by_size = shift_of(size), by_size_b = shift_of(size_b)
    cdef bint converted = t.narrows and not plan.raw, gapless, turns = t.group > 1 and store.flip
    cdef bint direct = call.cs_c == t.part and (not converted or store.narrow)
    cdef bint fused = call.finish != NULL and store.fused, written
    # The rows that tile registers are told of.
    cdef Py_ssize_t entered = 0
    cdef update_t update = t.add if plan.raw else t.update
    # A tile, or two smaller ones of tile registers, whose rows begin lines, and what they are rounded with.
    cdef char tile[MAX_ROWS * MAX_VECTORS * LINE + LATER_BYTES + LINE]
    cdef const epilogue_t* terms
    cdef later_t later
    cdef store_t own = store[0]
    own.later = NULL
    if t.flush != NULL and direct and store.narrow:
        later.room = <char*>(<size_t>(tile + LINE - 1) & ~<size_t>(LINE - 1))
        later.sums = later.room + MAX_ROWS * MAX_VECTORS * LINE // 2
        later.made = later.room + MAX_ROWS * MAX_VECTORS * LINE
        later.rows, later.vectors, later.made_of = 0, 0, -1
        own.later = &later
    if not fused:
        own.fused = 0
        own.bias = NULL
    if not direct:
        own.alpha_is_one = True
        own.beta_kind = 0
        own.narrow = False
    written = plan.by_rows and kc > t.written_steps and not (plan.deep or call.slim) and only_written(t, call, &own)
    if not b_packed:
        live = (panel_start(vecs, panels) - 1) * L + tail
        lead = lead_of(t, b, call.rs_b, live, kc, plan.nv)
        if lead:
            # A panel of its own, and the panels of what is behind it.
            behind = cut_components(live - lead, L, plan.nv, &tail)
            vecs = &behind
            panels = behind.panels + 1
    if call.soon != NULL and call.soon.lines:
        lines = lines_of_tile(call.soon, panels * rows.panels, kc)
        lines_pace = max((ceil_div(lines * LINE, kc) + 7) // 8 * 8, SOON_BYTES if plan.soon_l2 else 0)
    if plan.far_blocks and rows.panels > 1:
        share_of = ceil_div(next_a + next_b, panels * (rows.panels - 1))
        share_pace = ceil_div(share_of, kc * size)
    for jr in range(panels):
        if lead and jr == 0:
            nv, c_tail = ceil_div(lead, L), <int>((lead - 1) % L + 1)
        else:
            nv = vecs.size + (1 if jr - (panels - vecs.panels) < vecs.larger else 0)
            c_tail = tail if jr + 1 == panels else <int>L
        live = (nv - 1) * L + c_tail
        if own.later != NULL and nv != later.vectors:
            t.flush(&own)
            later.vectors = <int>nv
        if b_packed:
            b_panel = b + (v * b_steps + nv * b_first) * L * size_b
            rs_b = nv * L
            b_tail = c_tail if plan.lower and 2 * c_tail <= L else <int>L
        else:
            b_panel = b + col * size
            rs_b = call.rs_b
            b_tail = c_tail
        if plan.lines_ahead:
            reach = (plan.lines_ahead * L if b_packed else
                     plan.lines_ahead // PLACE_PARTS // nv * rs_b if kc >= PLACE_STEPS else 0)
        soon = 0
        # (Behind the last panel of all there is nothing: 32 x 1024 x 1024 packed 0.72 of the rate, where no other
        # mapping happened to follow.)
        if plan.ready_next and parts > 1 and (jr + 1 < panels or b_first + kp < b_steps or vec + v + nv < plan.width):
            soon = after(vecs, jr, v, b_steps, b_first, kc + t.appended) * L - (v * b_steps + nv * b_first) * L
            part, part_pace = kc * nv * L // parts, ceil_div(nv * L, parts)
        # Lines of a C in memory do not come while a tile of few steps runs: the next panel's are fetched.  (-1 is
        # for numbers as they are stored: kernels of dot products and of halves would fetch the component before.)
        own.next_c = -1 if plan.still_c else live if plan.far_c and direct and jr + 1 < panels else 0
        own.column, own.live = (column + col) >> halved, c_tail
        if fused:
            terms = <const epilogue_t*>call.terms
            own.bias = <const char*>terms.bias + own.column * size if terms.bias != NULL else NULL
            own.scale, own.scale_step = terms.scale, terms.scale_step
            if terms.scale_step:
                own.scale += own.column
        r = 0
        for ir in range(rows.panels):
            mr = rows.size + (1 if ir < rows.larger else 0)
            if t.enter != NULL and mr != entered:
                t.enter(<int>mr)
                entered = own.rows = <int>mr
            micro = (t.deep[mr] if plan.deep and mr == plan.m else t.slim[mr][nv] if call.slim
                     else t.turned[mr][nv] if turns else t.micro[mr][nv])
            if written and b_tail == L and t.written[turns][mr][nv] != NULL:
                micro = t.written[turns][mr][nv]
            # B in place lies in rows of which a panel takes a few lines, too few for the CPU's own prefetch: the first
            # pass over a panel fetches the next one.  Of panels packed long ago all passes fetch the next block, so
            # that memory does not rest while they multiply (two threads, 4096 x 4096 f32: 16 rows 1.4, 32 rows 1.1).
            ahead, pace = 0, rs_b
            if soon and ir < parts:
                ahead, pace = soon + ir * part, part_pace
            elif ir == 0:
                if plan.ready:
                    ahead = plan.ready_ahead >> by_size_b
                elif not b_packed and jr + 1 < panels:
                    ahead = live
            elif share_of and 4 * share_of <= 3 * kc * nv * L * size:
                at = (jr * (rows.panels - 1) + ir - 1) * share_of
                ahead = ((a + next_a + at if at < next_a else b + next_b + at - next_a) - b_panel) >> by_size
                pace = share_pace
            if a_panels:
                a_panel = a + r * kp * t.part * size
                rs_a, cs_a = t.part * unit, mr * t.part * unit
            else:
                a_panel = a + r * rs_a * size_a
                # (A line holds the steps of tall panels of one vector: AVX2 on Zen 4, one thread, f32, 12x8, 50000 x 8
                # x 200 3.0, 20000 x 8 x 400 1.7, f64, 6x8, 50000 x 4 x 200 3.3.)
                if plan.far_row and jr == 0 and own_a:
                    if mr != steady_mr:
                        steady, steady_mr = ceil_div(mr * plan.far_row, kc * size), mr
                    gapless = rs_a * size_a == plan.far_row and not ahead
                    if gapless and steady <= max(nv * L, LINE // size):
                        ahead = (a_panel + STEADY_PANELS * mr * plan.far_row - b_panel) >> by_size
                        pace = steady
                    elif gapless and plan.lines_ahead and steady <= 2 * LINE // size:
                        ahead = (a_panel + FAR_PANELS * mr * plan.far_row - b_panel) >> by_size
                        pace = steady
                    elif plan.far_row <= FAR_ROW_BYTES:
                        fetch_rows(a_panel + FAR_PANELS * mr * rs_a * size_a, mr, rs_a * size_a, plan.far_row)
            own.fetch_l2 = plan.ready_l2
            if lines and ahead == 0:
                coming = next_soon(call.soon, lines, lines_pace, kc, nv * L * size_b, &pace)
                if coming != NULL:
                    ahead, pace = (coming - b_panel) >> by_size_b, pace >> by_size_b
                    # (The loop that fetches into L2 reads whole vectors of B.)
                    own.fetch_l2 = plan.ready_l2 or plan.soon_l2 and b_tail == L
            if ahead == 0 and (ir or b_packed):
                ahead = reach
            if direct:
                c = call.c + ((row + r) * call.rs_c + column + col) * size_c
                micro(kc, a_panel, rs_a, cs_a, b_panel, rs_b, c, call.rs_c, b_tail, c_tail, ahead, pace, &own)
                if call.finish != NULL and not fused:
                    call.finish(mr, live >> halved, c, call.rs_c, call.terms, row + r, own.column)
            else:
                c = call.c + ((row + r) * call.rs_c + own.column * call.cs_c) * size_c
                micro(kc, a_panel, rs_a, cs_a, b_panel, rs_b, tile, nv * L, b_tail, <int>L, ahead, pace, &own)
                if converted and call.finish != NULL and not fused:
                    call.finish(mr, live >> halved, tile, nv * L, call.terms, row + r, own.column)
                update(mr, live >> halved, tile, nv * L, c, call.rs_c, call.cs_c, store, row + r, own.column)
            r += mr
        v += nv
        col += live
    if own.later != NULL:
        t.flush(&own)
    if entered:
        t.leave()


cdef inline bint only_written(const kernels_t* t, const call_t* call, const store_t* store) noexcept nogil:
    # Whether tiles are written as the sums are, of words of an A in place or of numbers, or, of bytes, times one scale.
    cdef const epilogue_t* terms = <const epilogue_t*>call.terms
    if (not store.alpha_is_one or store.beta_kind or store.narrow or store.conj or store.last
            or store.appended and not store.in_place):
        return False
    if not store.fused:
        return True
    return t.group > 1 and terms.bias == NULL and not terms.scale_step and not store.fused & FUSED_RELU


cdef inline bint rounds(const kernels_t* t, const call_t* call, const store_t* store) noexcept nogil:
    # Whether microkernels write C as it is stored.
    cdef const quant_t* quant = <const quant_t*>store.terms
    if not t.rounds or not store.alpha_is_one or store.beta_kind:
        return False
    if t.rounds == 2:
        # Terms of rows they leave to `update`.
        return quant != NULL and not (quant.left_step or quant.scale_step or quant.zero_step)
    return call.finish == NULL or store.fused


cdef bint takes_whole(const plan_t* plan, const call_t* call) noexcept nogil:
    # Rows of A that lie as columns do go into micropanels, which `blocked_rows` fills.
    return plan.whole and (not plan.pack_a and plan.kernels.group == 1 or call.cs_a == plan.kernels.part)


cdef void copy_b(const plan_t* plan, const call_t* call, const char* b, Py_ssize_t k, Py_ssize_t kp,
                 const grid_t* grid, Py_ssize_t vec, Py_ssize_t vecs, int tail, char* out,
                 const offset_t* offset) noexcept nogil:
    # A block of B, from vector vec on, into panels of kp steps each.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t L = t.length, size = t.real_bytes, nv = grid.size, first = 0, done = 0, some, v, j, live, larger
    cdef const char* row
    if t.pack_side != NULL and call.cs_b == t.part and nv * L * size < plan.side_bytes:
        # A few steps of all panels: rows of B are read in longer pieces.  (AVX2, f32, blocks of 384 columns and 512
        # steps, one thread, times panel after panel: 128 x 4096 x 4096 1.12; those of the kernel's loop instead of a
        # call a panel another 1.03, 64 x 16384 x 4096 1.06, 32 x 3072 x 1024 1.08; 8 steps times 4 1.00 to 1.01.)
        first = grid.panels - (1 if tail < L else 0)
        larger = min(grid.larger, first)
        v = larger * (nv + 1)
        while done < k:
            some = min(STEPS_TOGETHER, k - done)
            row = b + done * call.rs_b * t.ab_bytes
            t.pack_side(some, larger, nv + 1, row, call.rs_b, out + done * (nv + 1) * L * size, (nv + 1) * kp * L)
            t.pack_side(some, first - larger, nv, row + v * L * t.ab_bytes, call.rs_b,
                        out + (v * kp + done * nv) * L * size, nv * kp * L)
            done += some
    # (So are chunks of what is cut into limbs: 128 x 8192 x 2048, from memory, 1.31, 128 x 2048 x 2048 1.10, 1024^3
    # 1.04, those in L2 1.0.)
    done, some = 0, t.chunk_k if plan.limbs and call.cs_b == t.part else k
    while done < k:
        some = min(some, k - done)
        for j in range(first, grid.panels):
            v = panel_start(grid, j)
            nv = grid.size + (1 if j < grid.larger else 0)
            live = (nv - 1) * L + (tail if v + nv == vecs else L)
            t.pack_b(some, live, nv, b + (done * call.rs_b + v * L // t.part * call.cs_b) * t.ab_bytes, call.rs_b,
                     call.cs_b, out + (v * kp + steps_of(t, done) * nv) * L * size, offset, (vec + v) * L // t.part)
        done += some


cdef void copy_a(const plan_t* plan, const call_t* call, const char* a, Py_ssize_t k, Py_ssize_t kp,
                 const grid_t* grid, Py_ssize_t row, char* out) noexcept nogil:
    # A block of A by columns into micropanels of kp steps each: a few steps of all, whose rows of A.T are then read in
    # one piece, where the kernel copies a step of a panel at once.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t size = t.real_bytes, step = call.cs_a * t.ab_bytes, done = 0, some, r, j, mr
    cdef bint together = t.group == 1 and call.rs_a == t.part and t.length * size == MASKED_BYTES
    while done < k:
        some = min(COLUMNS_TOGETHER, k - done) if together else k
        r = 0
        for j in range(grid.panels):
            mr = grid.size + (1 if j < grid.larger else 0)
            t.pack_a(some, mr, a + r * call.rs_a * t.ab_bytes + done * step, call.rs_a, call.cs_a,
                     out + (r * kp + done * mr) * t.part * size, t.part, mr * t.part, call.offsets, row + r)
            r += mr
        done += some


cdef soon_t* next_copy(const plan_t* plan, const call_t* call, soon_t* soon, Py_ssize_t step0, Py_ssize_t step1,
                       Py_ssize_t vec0, Py_ssize_t vec1) noexcept nogil:
    # The block of B that is copied next, which tiles fetch meanwhile.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t size = t.ab_bytes, column = vec0 * t.length // t.part
    cdef Py_ssize_t columns = min(plan.n, vec1 * t.length // t.part) - column
    no_soon(soon)
    add_span(soon, call.b + (k_of(t, step0) * call.rs_b + column * call.cs_b) * size,
             min(plan.k, k_of(t, step1)) - k_of(t, step0), call.rs_b * size, columns, call.cs_b * size,
             t.part * size, True)
    return soon


cdef void whole(const plan_t* plan, const call_t* call, char* a_space, char* b_space) noexcept nogil:
    # What `blocked_rows` does, without its blocks: of a 9x9x9 product they are half of the time.
    cdef const kernels_t* t = plan.kernels
    cdef const grid_t* vecs = &plan.vectors
    cdef Py_ssize_t L = t.length, size_ab = t.ab_bytes, steps = plan.kc + t.appended
    cdef Py_ssize_t unit = t.real_bytes if t.group > 1 else 1, gap = row_gap(steps * t.part, L)
    cdef const char* a = call.a
    cdef Py_ssize_t rs_a = call.rs_a * size_ab
    cdef store_t store = call.store
    store.in_place = False
    store.last, store.flip = 0, 0
    store.narrow = rounds(t, call, &store)
    if not call.copied_b:
        copy_b(plan, call, call.b, plan.k, steps, vecs, 0, plan.width, plan.tail, b_space,
               call.offsets + 1 if call.offsets != NULL else NULL)
    if t.group > 1 and t.in_place and not plan.pack_a and simple(call):
        reads_in_place(&store, call)
        if copies_rows(plan, call, plan.width):
            copied_rows(t, &store, plan.m, plan.k, &a, &rs_a, a_space, gap * unit)
        else:
            store.last = <int>(plan.k % t.group * size_ab)
        macrokernel(plan, call, &store, a, rs_a, t.group * size_ab, False, b_space, True, steps, 0,
                    0, &plan.rows, 0, vecs, plan.kc, plan.tail)
    elif not plan.pack_a and t.group == 1:
        macrokernel(plan, call, &store, call.a, call.rs_a, call.cs_a, False, b_space, True, steps, 0,
                    0, &plan.rows, 0, vecs, plan.kc, plan.tail)
    else:
        t.pack_a(plan.k, plan.m, call.a, call.rs_a, call.cs_a, a_space, gap, t.part, call.offsets, 0)
        macrokernel(plan, call, &store, a_space, gap * unit, t.part * unit, False, b_space, True, steps, 0,
                    0, &plan.rows, 0, vecs, plan.kc, plan.tail)


cdef void blocked(
        const plan_t* plan, const call_t* call,
        Py_ssize_t row0, Py_ssize_t row1, Py_ssize_t vec0, Py_ssize_t vec1,
        Py_ssize_t items, char* a_space, char* b_space) noexcept nogil:
    # Rows row0 : row1 and vectors vec0 : vec1 of one product, or of `items` of a stack that share their B: each
    # block of it is packed once for all.
    cdef call_t item
    cdef Py_ssize_t turns, i
    if plan.sum_rows == 0 or plan.raw:
        blocked_rows(plan, call, row0, row1, vec0, vec1, items, a_space, b_space)
        return
    # One product and so many rows at a time, because their sums lie in the workspace.
    item = call[0]
    turns = ceil_div(row1 - row0, plan.sum_rows)
    while items:
        for i in range(turns):
            blocked_rows(plan, &item, row0 + share(row1 - row0, i, turns), row0 + share(row1 - row0, i + 1, turns),
                         vec0, vec1, 1, a_space, b_space)
        item.a += call.step_a
        item.c += call.step_c
        items -= 1


cdef void blocked_rows(
        const plan_t* plan, const call_t* call,
        Py_ssize_t row0, Py_ssize_t row1, Py_ssize_t vec0, Py_ssize_t vec1,
        Py_ssize_t items, char* a_space, char* b_space) noexcept nogil:
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t L = t.length, size = t.real_bytes, size_ab = t.ab_bytes
    cdef Py_ssize_t width = plan.n * t.part
    cdef Py_ssize_t vectors = ceil_div(width, L)
    cdef int tail_of_all = <int>(width - (vectors - 1) * L)
    cdef Py_ssize_t jblocks = ceil_div(vec1 - vec0, plan.ncv), steps = steps_of(t, plan.k), chunk = t.chunk
    cdef Py_ssize_t panel0 = 0, panel1 = 0, first, last, before = 0, b_steps
    cdef bint b_packed = plan.pack_b or plan.ready > 0
    cdef Py_ssize_t kblocks = ceil_div(steps, plan.kc)
    cdef Py_ssize_t iblocks = 0, mc = 0, jc, pc, ic, vec, vecs, p, kc, kp, gap, row, rows, rs_a, live_k
    cdef const char* a
    cdef const char* b
    cdef int tail
    cdef store_t store = call.store
    cdef grid_t i_grid, j_grid
    # An output that is converted is rounded once: blocks of k before the last add up beside it.
    cdef bint sums = t.narrows and not plan.raw and kblocks > 1
    cdef plan_t plan_of_sums
    cdef const plan_t* to_plan = plan
    cdef call_t item = call[0]
    cdef soon_t soon
    cdef const offset_t* offset_b = call.offsets
    cdef Py_ssize_t unit = size if t.group > 1 else 1
    cdef bint pack_a = plan.pack_a, copied = False
    store.in_place = False
    store.last, store.flip = 0, 0
    if kblocks > 1:
        # What several blocks of k add up to is finished when the last one is done.
        store.fused = 0
    if offset_b != NULL:
        offset_b += 1
    if t.group > 1:
        if not pack_a and t.in_place and call.cs_a == 1 and simple(call):
            reads_in_place(&store, call)
            copied = copies_rows(plan, call, min(vec1 - vec0, plan.ncv))
        pack_a = not store.in_place
    if sums:
        plan_of_sums = plan[0]
        plan_of_sums.raw = True
        to_plan = &plan_of_sums
        item.rs_c, item.cs_c = plan.ncv * L, t.part
    if row1 > row0:
        iblocks = ceil_div(row1 - row0, plan.mc)
        mc = ceil_div(ceil_div(row1 - row0, iblocks), plan.mr) * plan.mr
    if plan.ready:
        panel0, panel1 = panel_at(&plan.vectors, vec0), panel_at(&plan.vectors, vec1)
        jblocks = ceil_div(panel1 - panel0, max(1, plan.ncv // plan.nv))
    for jc in range(jblocks):
        if plan.ready:
            first = panel0 + share(panel1 - panel0, jc, jblocks)
            last = panel0 + share(panel1 - panel0, jc + 1, jblocks)
            j_grid = some_panels(&plan.vectors, first, last)
            vec = panel_start(&plan.vectors, first)
            vecs = panel_start(&plan.vectors, last) - vec
        else:
            vec = vec0 + share(vec1 - vec0, jc, jblocks)
            vecs = vec0 + share(vec1 - vec0, jc + 1, jblocks) - vec
            j_grid = cut(vecs, plan.nv)
        tail = tail_of_all if vec + vecs == vectors else <int>L
        store.beta_kind = 0 if sums else call.store.beta_kind
        store.narrow = not plan.raw and rounds(t, call, &store)
        if sums:
            store.alpha_is_one = True
            store.narrow = False
            # The kernels count from C's beginning.
            item.c = a_space + plan.sums - (row0 * item.rs_c + vec * L) * size
        for pc in range(kblocks):
            p = share(steps // chunk, pc, kblocks) * chunk
            kc = share(steps // chunk, pc + 1, kblocks) * chunk - p
            kp = kc + t.appended
            item.finish = call.finish if pc + 1 == kblocks else NULL
            gap = row_gap(kp * t.part, L)
            b_steps = kp
            if plan.ready:
                b_steps, before = plan.ready, p
            p = k_of(t, p)
            live_k = min(k_of(t, kc), plan.k - p)
            if plan.limbs and not fits(call.offsets, plan.k):
                return
            if store.in_place and not copied:
                store.last = <int>(live_k % t.group * size_ab)
            if plan.ready:
                b = call.b + vec * L * plan.ready * (t.slim_bytes if call.slim else size)
            else:
                b = call.b + (p * call.rs_b + (vec * L // t.part) * call.cs_b) * size_ab
            if plan.pack_b:
                if call.copy_b != NULL:
                    b_space = call.copy_b + vec * kp * L * size
                if not call.copied_b:
                    copy_b(plan, call, b, live_k, kp, &j_grid, vec, vecs, tail, b_space, offset_b)
                if plan.far_copies and not call.copied_b:
                    item.soon = call.soon
                    if pc + 1 < kblocks:
                        item.soon = next_copy(plan, call, &soon, share(steps // chunk, pc + 1, kblocks) * chunk,
                                              share(steps // chunk, pc + 2, kblocks) * chunk, vec, vec + vecs)
                    elif jc + 1 < jblocks:
                        item.soon = next_copy(plan, call, &soon, 0, share(steps // chunk, 1, kblocks) * chunk,
                                              vec + vecs, vec0 + share(vec1 - vec0, jc + 2, jblocks))
            for ic in range(iblocks * items):
                if items > 1:
                    item.a = call.a + ic // iblocks * call.step_a
                    item.c = call.c + ic // iblocks * call.step_c
                row = row0 + ic % iblocks * mc
                rows = mc if row + mc < row1 else row1 - row
                if rows <= 0:
                    continue
                i_grid = cut(rows, plan.mr)
                a = item.a + (row * call.rs_a + p * call.cs_a) * size_ab
                if store.in_place:
                    rs_a = call.rs_a * size_ab
                    if copied:
                        copied_rows(t, &store, rows, live_k, &a, &rs_a, a_space, gap * unit)
                    macrokernel(to_plan, &item, &store, a, rs_a, t.group * size_ab, False,
                                b_space if plan.pack_b else b, True, b_steps, before,
                                row, &i_grid, vec, &j_grid, kc, tail)
                elif not pack_a:
                    macrokernel(to_plan, &item, &store, a, call.rs_a, call.cs_a, False,
                                b_space if plan.pack_b else b, b_packed, b_steps, before,
                                row, &i_grid, vec, &j_grid, kc, tail)
                elif call.cs_a == t.part or t.in_place and t.group > 1 or t.enter != NULL:
                    t.pack_a(live_k, rows, a, call.rs_a, call.cs_a, a_space, gap, t.part, call.offsets, row)
                    macrokernel(to_plan, &item, &store, a_space, gap * unit, t.part * unit, False,
                                b_space if plan.pack_b else b, True, b_steps, before,
                                row, &i_grid, vec, &j_grid, kc, tail)
                else:
                    copy_a(plan, call, a, live_k, kp, &i_grid, row, a_space)
                    macrokernel(to_plan, &item, &store, a_space, 0, 0, True,
                                b_space if plan.pack_b else b, True, b_steps, before,
                                row, &i_grid, vec, &j_grid, kc, tail)
                if sums and pc + 1 == kblocks:
                    t.update(rows, ((vecs - 1) * L + tail) // t.part,
                             a_space + plan.sums + (row - row0) * item.rs_c * size, item.rs_c,
                             call.c + (row * call.rs_c + vec * L // t.part * call.cs_c) * t.c_bytes,
                             call.rs_c, call.cs_c, &call.store, row, vec * L // t.part)
            store.beta_kind = 1
