"""The loops around a tile of dot products, for operands that both lie along k:

    ic     blocks of MC rows
     jc    blocks of NC columns                 (sums lie beside C where that is rounded, or is no plain output)
      pc   blocks of KC steps of k              copy A's rows
       jr  a few columns, that stay in L1
        ir rows, as many as a tile has          kernel

Of vectors that begin inside a line each load takes two, and rows whole pages apart share sets of L1 (8 x 128 x 512 f32
on Zen 5, 4.4 us from aligned rows, 5.0 from rows 16 bytes into a line), so A is copied where it is used often:
straight, a load and a store a vector.  B is read where it lies; copying it takes longer than it saves up to some 24
rows, and for so many packing or turning the output is as good.  Operands that kernels do not read as they are stored
are widened by copying both; a B of few columns that lie the other way is turned over first, once, as is an A by columns
for every block of its rows.

Few columns, two to four of them or as many as `ways.exchanges` names, are rows of the transposed output
(`plan.exchanged`): they are copied, whatever way they lie, and A's rows are read where they lie, as columns, and
fetched ahead if they come from memory.
"""

from libc.string cimport memcpy

from fastgemm.driver.abi cimport MAX_DOTS, MAX_PASSES, MAX_SHORT, kernels_t, stack_t, store_t, update_t
from fastgemm.driver.structs cimport (
    DOTS_STEPS, call_t, ceil_div, cut, dot_sums_bytes, far_b, grid_t, plan_t, row_gap, share,
)
from fastgemm.driver.turned cimport turned_columns

cdef enum:
    LINE = 64
    PAGE = 4096
    A_PAYS = 32             # columns that use a copy of A
    ZIPPED = 4              # rows that `turned_columns` takes several steps of at a time

# Of bytes of which a call says nothing: signed ones, and nothing is subtracted.
NO_OFFSETS[0].zero = NO_OFFSETS[1].zero = NULL
NO_OFFSETS[0].step = NO_OFFSETS[1].step = NO_OFFSETS[0].is_unsigned = NO_OFFSETS[1].is_unsigned = 0


cdef inline bint pays(const call_t* call, Py_ssize_t size, Py_ssize_t columns) noexcept nogil:
    # Whether a copy of A does: rows that do not begin with a line, or share sets.
    cdef Py_ssize_t stride = call.rs_a * size
    return columns >= A_PAYS and ((<size_t>call.a | <size_t>stride) % LINE != 0 or stride % PAGE == 0)


cdef bint short_columns(const plan_t* plan, const call_t* call, Py_ssize_t items,
                        Py_ssize_t row0, Py_ssize_t row1, Py_ssize_t col0, Py_ssize_t col1) noexcept nogil:
    # Columns of few numbers that lie side by side, in each of `items` products; False where they are not such.
    cdef const kernels_t* t = plan.kernels
    cdef grid_t groups
    cdef Py_ssize_t i, row, mr, _item
    cdef stack_t s
    if not plan.k <= call.cs_b < MAX_SHORT or t.short_columns[1][plan.k] == NULL \
            or t.short_columns[1][call.cs_b] == NULL or plan.turned or plan.exchanged or call.cs_c != t.part \
            or call.cs_a != t.part or not call.store.alpha_is_one or call.store.beta_kind:
        return False
    groups = cut(row1 - row0, MAX_DOTS)
    s.count, s.n = 1, col1 - col0
    s.rs_a, s.rs_b, s.rs_c = call.rs_a, call.cs_b, call.rs_c
    s.step_a, s.step_b, s.step_c = call.step_a, call.step_b, call.step_c
    s.a = call.a + row0 * call.rs_a * t.ab_bytes
    s.b = call.b + col0 * call.cs_b * t.ab_bytes
    s.c = call.c + (row0 * call.rs_c + col0) * t.c_bytes
    if groups.panels == 1:
        s.count, items = items, 1
    for _item in range(items):
        row = 0
        for i in range(groups.panels):
            mr = groups.size + (1 if i < groups.larger else 0)
            t.short_columns[mr][plan.k](&s)
            s.a += mr * call.rs_a * t.ab_bytes
            s.c += mr * call.rs_c * t.c_bytes
            row += mr
        s.a += call.step_a - row * call.rs_a * t.ab_bytes
        s.b += call.step_b
        s.c += call.step_c - row * call.rs_c * t.c_bytes
    return True


cdef inline int fetched(Py_ssize_t i, Py_ssize_t panels) noexcept nogil:
    # What number i of so many passes of rows fetches of the columns to come (kernels/dots_tile.tp).
    cdef Py_ssize_t passes = min(panels, MAX_PASSES)
    return <int>(passes * (passes - 1) // 2 + i + 1) if i < passes else 0


cdef bint one_block(const plan_t* plan, const call_t* call, Py_ssize_t items,
                    Py_ssize_t row0, Py_ssize_t row1, Py_ssize_t col0, Py_ssize_t col1) noexcept nogil:
    # A block of each of `items` products, of operands that are read where they lie into a C that is written so, with
    # none of what `blocks_of_dots` prepares (10 ns on a Zen 5, which a product of 1 x 16 x 16 takes; 80 on a Cascade
    # Lake); False where they are not such.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t i, j, mr, nr, row, _item, cols = col1 - col0, size = t.ab_bytes
    cdef const char* a = call.a + row0 * call.rs_a * size
    cdef const char* b = call.b + col0 * call.cs_b * size
    cdef const char* some
    cdef char* c = call.c + (row0 * call.rs_c + col0) * t.c_bytes
    cdef grid_t groups
    cdef bint far
    cdef store_t store
    if plan.k > plan.kc or row1 - row0 > plan.mc or cols > plan.ncv or plan.raw or plan.turned or t.narrows \
            or t.dot_bytes != size or t.dot_sums != NULL or t.part > 1 or call.cs_c != 1 \
            or not call.store.alpha_is_one or call.store.beta_kind \
            or (call.cs_a != 1 and (plan.k > 1 or plan.exchanged)):
        return False
    # (The copy of a single row takes longer than it saves.)
    if plan.m > 1 and pays(call, size, cols):
        return False
    groups = cut(row1 - row0, MAX_DOTS)
    store = call.store
    store.far = far = far_b(plan, call)
    store.offset = NO_OFFSETS
    for _item in range(items):
        j = 0
        while j < cols:
            nr, row, some = min(plan.unit, cols - j), 0, b + j * call.cs_b * size
            for i in range(groups.panels):
                mr = groups.size + (1 if i < groups.larger else 0)
                if far:
                    store.far = fetched(i, groups.panels)
                t.dots[mr](plan.k, nr, a + row * call.rs_a * size, call.rs_a, some, call.cs_b,
                           c + (row * call.rs_c + j) * t.c_bytes, call.rs_c, &store)
                row += mr
            j += nr
        a += call.step_a
        b += call.step_b
        c += call.step_c
    return True


cdef inline bint simple(const plan_t* plan, const call_t* call, Py_ssize_t items,
                        Py_ssize_t row0, Py_ssize_t row1, Py_ssize_t col0, Py_ssize_t col1) noexcept nogil:
    # So much of each product, with little or nothing around the kernels; False where they need more.
    if not (short_columns(plan, call, items, row0, row1, col0, col1)
            or one_block(plan, call, items, row0, row1, col0, col1)):
        return False
    if call.finish != NULL:
        # (Of stacks there is none.)
        call.finish(row1 - row0, col1 - col0, call.c + (row0 * call.rs_c + col0) * plan.kernels.c_bytes, call.rs_c,
                    call.terms, row0, col0)
    return True


cdef bint dots_of_stack(const plan_t* plan, const call_t* call, Py_ssize_t items) noexcept nogil:
    return not plan.exchanged and simple(plan, call, items, 0, plan.m, 0, plan.n)


cdef void dots(const plan_t* plan, const call_t* call, Py_ssize_t row0, Py_ssize_t row1,
               Py_ssize_t col0, Py_ssize_t col1, char* space) noexcept nogil:
    # Rows row0 : row1 and columns col0 : col1 of one product.
    cdef plan_t own
    cdef call_t other
    if not plan.exchanged:
        if not simple(plan, call, 1, row0, row1, col0, col1):
            blocks_of_dots(plan, call, row0, row1, col0, col1, space)
        return
    # The transposed output: B's few columns are its rows, and A's rows its columns, which are read where they lie.
    own, other = plan[0], call[0]
    own.m, own.n, own.mc, own.ncv, own.turned = plan.n, plan.m, plan.ncv, plan.mc, False
    other.a, other.rs_a, other.cs_a, other.step_a = call.b, call.cs_b, call.rs_b, call.step_b
    other.b, other.rs_b, other.cs_b, other.step_b = call.a, call.cs_a, call.rs_a, call.step_a
    other.rs_c, other.cs_c, other.finish = call.cs_c, call.rs_c, NULL
    if not simple(&own, &other, 1, col0, col1, row0, row1):
        blocks_of_dots(&own, &other, col0, col1, row0, row1, space)
    if call.finish != NULL:
        call.finish(row1 - row0, col1 - col0, call.c + (row0 * call.rs_c + col0) * plan.kernels.c_bytes, call.rs_c,
                    call.terms, row0, col0)


cdef void blocks_of_dots(const plan_t* plan, const call_t* call, Py_ssize_t row0, Py_ssize_t row1,
                         Py_ssize_t col0, Py_ssize_t col1, char* space) noexcept nogil:
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t size = t.real_bytes, size_ab = t.ab_bytes, size_c = size if plan.raw else t.c_bytes
    cdef bint direct = (call.cs_c == t.part and call.store.alpha_is_one and call.store.beta_kind != 2
                        and (plan.raw or not t.narrows))
    cdef Py_ssize_t unit = t.dot_bytes      # of an operand's component as the kernels read it
    cdef bint widens = unit != size_ab
    # (Of one step of k an operand that is not exchanged may have any stride as well.)
    cdef bint across = call.cs_a != t.part and (plan.exchanged or plan.k > 1)
    cdef bint copy_a = widens or across or pays(call, size_ab, col1 - col0)
    cdef Py_ssize_t iblocks = ceil_div(row1 - row0, plan.mc), jblocks = ceil_div(col1 - col0, plan.ncv)
    cdef Py_ssize_t steps = ceil_div(plan.k, DOTS_STEPS), kblocks = ceil_div(steps, plan.kc // DOTS_STEPS)
    cdef Py_ssize_t ic, jc, pc, i, j, r, row, rows, col, cols, p, kc, mr, nr, rs_y, gap, rs_a, cs_b
    cdef const char* a
    cdef const char* b
    cdef char* y
    cdef char* c
    cdef const char* all_b = call.b
    cdef Py_ssize_t rs_b = call.rs_b, all_cs_b = call.cs_b
    cdef char* a_space = space + plan.sums
    cdef char* b_space = space + plan.a_bytes
    cdef grid_t groups
    cdef unsigned int* a_sums = <unsigned int*>(space + plan.a_bytes - dot_sums_bytes(plan))
    cdef store_t store = call.store
    cdef update_t update = t.add if plan.raw else t.update
    cdef bint far = far_b(plan, call) and not (widens or plan.turned)
    store.offset = call.offsets if call.offsets != NULL else NO_OFFSETS
    if plan.turned and not widens:
        # Few columns, that are turned once for all rows.
        all_cs_b = row_gap(plan.k, t.length * size // unit)
        rs_b = 1
        turned_columns(plan.k, col1 - col0, call.b + col0 * call.cs_b * unit, call.rs_b, call.cs_b, <int>unit,
                       b_space, all_cs_b)
        all_b = b_space - col0 * all_cs_b * unit
    for ic in range(iblocks):
        row = row0 + share(row1 - row0, ic, iblocks)
        rows = row0 + share(row1 - row0, ic + 1, iblocks) - row
        groups = cut(rows, MAX_DOTS)
        for jc in range(jblocks):
            col = col0 + share(col1 - col0, jc, jblocks)
            cols = col0 + share(col1 - col0, jc + 1, jblocks) - col
            c = call.c + (row * call.rs_c + col * call.cs_c) * size_c
            y, rs_y = c, call.rs_c
            store.beta_kind = call.store.beta_kind
            if not direct:
                y, rs_y = space, cols * t.part
                store.beta_kind = 0
            for pc in range(kblocks):
                p = share(steps, pc, kblocks) * DOTS_STEPS
                kc = min(plan.k, share(steps, pc + 1, kblocks) * DOTS_STEPS) - p
                gap = row_gap(kc * t.part, t.length * size // unit)
                a = call.a + (row * call.rs_a + p * call.cs_a) * size_ab
                rs_a, cs_b = call.rs_a, all_cs_b
                if copy_a:
                    if across and rows > ZIPPED and t.turn != NULL and call.rs_a == 1:
                        # (f64 5 x 1274 x 55, A by columns, a number at a time 1.3 of B packed, ten columns 0.41.)
                        t.turn(rows, kc, a, call.cs_a, a_space, gap)
                    elif across:
                        turned_columns(kc, rows, a, call.cs_a, call.rs_a, <int>unit, a_space, gap)
                    elif unit == size:
                        t.pack_a(kc, rows, a, call.rs_a, t.part, a_space, gap, t.part, NULL, 0)
                    else:
                        for i in range(rows):
                            memcpy(a_space + i * gap * unit, a + i * rs_a * unit, kc * unit)
                    a, rs_a = a_space, gap
                if t.dot_sums != NULL:
                    t.dot_sums(kc, rows, a, rs_a, store.offset, False, a_sums)
                j = 0
                while j < cols:
                    nr = min(plan.unit, cols - j)
                    b = all_b + (p * rs_b + (col + j) * all_cs_b) * size_ab
                    if widens:
                        t.pack_a(kc, nr, b, all_cs_b, rs_b, b_space, gap, t.part, NULL, 0)
                        b, cs_b = b_space, gap
                    r = 0
                    for i in range(groups.panels):
                        mr = groups.size + (1 if i < groups.larger else 0)
                        store.far = fetched(i, groups.panels) if far else 0
                        t.dots[mr](kc * t.part, nr, a + r * rs_a * unit, rs_a, b, cs_b,
                                   y + (r * rs_y + j * t.part) * size, rs_y, &store)
                        r += mr
                    if t.dot_settle != NULL:
                        t.dot_settle(kc, rows, nr, a_sums, b, cs_b, NULL, y + j * size, rs_y, store.offset, row,
                                     col + j)
                    j += nr
                store.beta_kind = 1
            if call.finish != NULL:
                call.finish(rows, cols, y, rs_y, call.terms, row, col)
            if not direct:
                update(rows, cols, y, rs_y, c, call.rs_c, call.cs_c, &call.store, row, col)
