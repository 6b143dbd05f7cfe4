"""The loops of the small family: which product, or which panel of one, is an item of a stack.

Its kernels loop over a stack by themselves.  What is left here is to say what the stack is:

    a stack of products    the products, each in equal panels of rows where that works out
    one tall product       its panels of rows, which share B
    one wide product       its panels of columns, which share A
"""

from libc.string cimport memset

from fastgemm.driver.abi cimport MAX_NARROW, kernels_t, offset_t, rows_apart, stack_kernel_t, stack_t
from fastgemm.driver._loops cimport macrokernel
from fastgemm.driver.past_caches cimport fg_fence_past, write_past
from fastgemm.driver.structs cimport (
    FAR_ROW_BYTES, LEAD_BYTES, LINE, call_t, ceil_div, cut, cut_components, grid_t, lead_of, plan_t, special_takes,
)

cdef enum:
    MAX_TURNED = 32 << 10  # bytes of a copied B, as `fastgemm.problem.MAX_TURNED`
    FETCHED = 1 << 10     # bytes of an operand of one item up to which it is fetched by hand; 4 KiB: 32^3 f32 -15 %
    MAX_WIDENED = 4 << 10   # bytes of a B whose rows are converted once for all of C's
    LEAST_WIDENED = 64      # rows that it is worth it for
    # Of an output that no cache holds: lines of a piece of a row, of as many rows as 32 KiB hold, and rows at a time
    # where it is not written past them.
    PAST_LINES = 16
    PAST_ROWS = 96
    MAX_BESIDE = 8        # vectors of a piece of C that is converted beside it
    # A wide B of few rows and a C of few that come from memory: the CPU follows so many rows too slowly (Zen 5, L3 of
    # 32 MiB, fetched over not, one output: 4 x 1000000 x 4 1.57, 2 x 1000000 x 4 1.37, 6 x 500000 x 16 1.39, f64 8 x
    # 300000 x 8 1.8; from L3 8 x 300000 x 8 0.82, 4 x 100000 x 4 1.15).
    FAR_STEPS = 16
    FAR_BYTES = 20 << 20
    PANELS_AHEAD = 4
    LEAST_STACK = 4  # items of which B is turned as `turn_stack_t` does
    # Of copies of B that are multiplied together: so few that B, A and C come from memory side by side.  (Zen 4, one
    # thread, `bench/builds.py` over groups of 32 KiB, bench/shapes/far_stacks.csv: f32 8^3 nt 1.5, 4^3 1.7, f64 1.9
    # 1.8, c128 1.3 1.8.)
    GROUP_BYTES = 8 << 10
    # Of items whose tiles are computed shape by shape, near and from L3 or memory.  (Zen 4, one thread, stacks of 300
    # to 1000, `bench/builds.py` over item by item, AVX2 f32 5 x 24 x 1 2.6, x 8 1.5, 7 x 40 x 8 1.4, 13^3 1.14, f64 5 x
    # 24 x 1 1.9, 9 x 24 x 8 1.2, AVX-512 f32 11 x 17 x 20 1.10, f64 10^3 1.13; 8 KiB 1.06 and 1.12 for 11 x 17 x 20,
    # 13^3; of 28 to 35 MB, 16, 8 and 4 KiB, f32 17^3 0.65 0.72 1.0, 13^3 0.85 1.04 1.08, 5 x 24 x 8 1.13 1.24 1.16.)
    TILED_BYTES = 16 << 10
    FAR_TILED_BYTES = 4 << 10
    # Bytes ahead of which rows of A are fetched that share vectors, a few lines in each step.  (Emerald Rapids, one
    # thread, times none, 4 and 8 KiB ahead: f32 32 of 3136 x 4 x 36 1.5 1.8, 784 x 8 x 72 1.37 1.38, 400000 x 4 x 16
    # 1.55 1.55, 100000 x 8 x 64 1.43 1.44, f64 32 of 3136 x 4 x 36 1.41 1.48; 16 KiB 1.5 1.37 1.47 1.48 1.44; the lines
    # of a pass all at once before it, 4 KiB ahead, 1.08 1.02 1.14 0.98 0.93.)
    FAR_ROWS = 8 << 10
    # Rows of C, and steps, up to which each row is a vector of its own although several would fit one, which they do
    # not fill (Skylake-SP, stacks of 5000, times rows that share vectors, f32 1 x 3 x 3, 2 x 3 x 3 1.85, 3 x 4 x 4
    # 1.46, 4 x 3 x 3 1.35, 5 x 4 x 4 1.2, 8 x 3 x 3 1.04, 1 x 3 x 10 1.62, 2 x 3 x 20 1.27, f64 1.3 to 1.8, i32 and i64
    # 1.1 to 1.7, c64 1.03 to 1.5; of full vectors and rows of A as long, 2 x 8 x 8 0.91, f64 2 x 4 x 4 0.83).  Beside
    # another L1 than such a small one the kernels' table says of how many steps (`alone`).
    ROWS_ALONE = 5
    STEPS_ALONE = 32
    # Bytes of an operand of a stack from which its items are fetched: of fewer most of what is fetched lies behind the
    # last, where there may be no memory (Cascade Lake, 10 of 10 x 10 x 10 with nothing behind A, B or C 1.35 of the
    # time, `bench/edges.py`).
    LEAST_TOUCHED = 16 << 10
    AHEAD = 2 << 10   # how far ahead: 8x8x8 f32 from L3 6.4 ns with 2 to 4 KiB, 7.1 with 1, 7.5 with none


# Of bytes of which a call says nothing: signed ones, and nothing is subtracted.
cdef offset_t[2] NO_OFFSETS
NO_OFFSETS[0].zero = NO_OFFSETS[1].zero = NULL
NO_OFFSETS[0].step = NO_OFFSETS[1].step = NO_OFFSETS[0].is_unsigned = NO_OFFSETS[1].is_unsigned = 0


cdef inline char* at_line(char* memory) noexcept nogil:
    # The stack begins anywhere in a line, and rows of vectors on it would lie in two each, in some processes and not in
    # others (f32 312 x 1093 x 2, 45 of them, 13.0 and 17.2 GFLOP/s).
    return memory + (-<Py_ssize_t>memory & (LINE - 1))


cdef inline Py_ssize_t touched(Py_ssize_t count, Py_ssize_t step, Py_ssize_t bytes) noexcept nogil:
    # What to fetch of an operand whose items lie in memory one after the other, and reach far beyond what is fetched.
    return bytes if 0 < step == bytes <= FETCHED and count * bytes >= LEAST_TOUCHED else 0


cdef void fetch_ahead(stack_t* s, Py_ssize_t part) noexcept nogil:
    s.touch_a = touched(s.count, s.step_a, s.m * s.k * part * s.size_ab)
    s.touch_b = touched(s.count, s.step_b, s.k * s.n * s.size_ab)
    s.touch_c = touched(s.count, s.step_c, s.m * s.n * s.size_c)
    s.ahead_a = (1 + AHEAD // s.touch_a) * s.touch_a if s.touch_a else 0
    s.ahead_b = (1 + AHEAD // s.touch_b) * s.touch_b if s.touch_b else 0
    s.ahead_c = (1 + AHEAD // s.touch_c) * s.touch_c if s.touch_c else 0


cdef void rows_of_tiles(const plan_t* plan, stack_t* s, const grid_t* rows, Py_ssize_t nv) noexcept nogil:
    # All row panels over one panel of columns: the larger ones, then the others.
    cdef Py_ssize_t mr = rows.size + 1, row = s.row
    cdef const char* a = s.a
    cdef char* c = s.c
    s.soon_c = plan.soon_c and s.count == 1
    if rows.larger:
        s.panels, s.panel_a, s.panel_c = rows.larger, mr * s.rs_a * s.size_ab, mr * s.rs_c * s.size_c
        plan.kernels.small[mr][nv](s)
        s.a += rows.larger * s.panel_a
        s.c += rows.larger * s.panel_c
        s.row += rows.larger * mr
        s.touch_a = s.touch_b = s.touch_c = 0
    mr = rows.size
    s.panels, s.panel_a, s.panel_c = rows.panels - rows.larger, mr * s.rs_a * s.size_ab, mr * s.rs_c * s.size_c
    plan.kernels.small[mr][nv](s)
    s.a, s.c, s.row = a, c, row


cdef void tiles(const plan_t* plan, const stack_t* s, const grid_t* rows, const grid_t* vecs, int tail) noexcept nogil:
    # Products whose tiles have several shapes: a tile of as many as stay in L1, then the next.
    cdef Py_ssize_t L = plan.kernels.length, jr, nv, item = 0
    cdef Py_ssize_t bytes = s.k * (s.m * plan.kernels.part + s.n) * s.size_ab + s.m * s.n * s.size_c
    cdef Py_ssize_t group = max(1, (FAR_TILED_BYTES if plan.far_stack else TILED_BYTES) // max(1, bytes))
    cdef stack_t some
    while item < s.count:
        some = s[0]
        some.count = min(group, s.count - item)
        some.a += item * s.step_a
        some.b += item * s.step_b
        some.c += item * s.step_c
        for jr in range(vecs.panels):
            nv = vecs.size + (1 if jr < vecs.larger else 0)
            some.tail = tail if jr + 1 == vecs.panels else <int>L
            rows_of_tiles(plan, &some, rows, nv)
            some.touch_a = some.touch_b = some.touch_c = 0
            some.b += nv * L * s.size_ab
            some.c += nv * L * s.size_c
            some.column += nv * L
        item += group


cdef void wide(const plan_t* plan, stack_t* s, Py_ssize_t mr, const grid_t* vecs, int tail) noexcept nogil:
    # The column panels of one product and one panel of rows; the last, which may end in part of a vector, alone.  (Only
    # where no operand has offsets, whose place a kernel does not count along columns.)
    cdef Py_ssize_t L = plan.kernels.length, nv, part
    cdef Py_ssize_t[3] counts = [vecs.larger, vecs.panels - vecs.larger - 1, 1]
    s.step_a = 0
    if s.k <= FAR_STEPS and (s.k * s.size_ab + s.m * s.size_c) * plan.n >= FAR_BYTES:
        s.far = PANELS_AHEAD
    for part in range(3):
        s.count = counts[part]
        if s.count > 0:
            s.tail = tail if part == 2 else <int>L
            nv = vecs.size + (1 if part == 0 else 0)
            s.step_b, s.step_c = nv * L * s.size_ab, nv * L * s.size_c
            plan.kernels.small[mr][nv](s)
            s.b += s.count * s.step_b
            s.c += s.count * s.step_c


cdef void converted(const plan_t* plan, const call_t* call, Py_ssize_t items, Py_ssize_t row0, Py_ssize_t row1,
                    Py_ssize_t vec0, Py_ssize_t vec1, int tail) noexcept nogil:
    # The same for types that gemm's kernels take only packed: a piece of plain products in the type that is computed
    # with, and then what a tile of those goes through.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t L = t.length, row, vec, rows, vecs, columns, rs, _i
    cdef char memory[MAX_TURNED + LINE]
    cdef char* space = at_line(memory)
    cdef char* c = call.c
    cdef call_t part = call[0]
    cdef plan_t own = plan[0]
    own.raw, own.pack_b = True, False
    part.store.alpha_is_one, part.store.beta_kind, part.store.conj, part.finish = True, 0, 0, NULL
    for _i in range(items):
        vec = vec0
        while vec < vec1:
            vecs = min(vec1 - vec, MAX_BESIDE)
            columns = (vecs - 1) * L + (tail if vec + vecs == vec1 else L)
            rs = vecs * L
            row = row0
            while row < row1:
                rows = min(row1 - row, MAX_TURNED // (rs * t.real_bytes))
                part.c = space - (row * rs + vec * L) * t.real_bytes
                part.rs_c, part.cs_c = rs, 1
                small(&own, &part, 1, row, row + rows, vec, vec + vecs)
                if call.finish != NULL:
                    call.finish(rows, columns, space, rs, call.terms, row, vec * L)
                t.update(rows, columns, space, rs, c + (row * call.rs_c + vec * L * call.cs_c) * t.c_bytes,
                         call.rs_c, call.cs_c, &call.store, row, vec * L)
                row += rows
            vec += vecs
        part.a += call.step_a
        part.b += call.step_b
        c += call.step_c


cdef void past_caches(const plan_t* plan, const call_t* call, Py_ssize_t items, Py_ssize_t row0, Py_ssize_t row1,
                      Py_ssize_t vec0, Py_ssize_t vec1, int tail) noexcept nogil:
    # Products of few steps into an output that no cache holds: pieces of it into memory that stays in L1, and from
    # there past the caches.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t L = t.length, size = t.real_bytes, row, vec, rows, vecs, columns, rs, most_rows, _i
    cdef Py_ssize_t parts = ceil_div((vec1 - vec0) * L * size, PAST_LINES * LINE)
    # Panels of equal pieces; whole rows with nothing between them are written as one.
    cdef Py_ssize_t most = ceil_div(ceil_div(vec1 - vec0, parts), plan.nv) * plan.nv
    cdef bint gapless = vec1 - vec0 == plan.width <= most and call.rs_c == plan.n * t.part
    cdef char memory[MAX_TURNED + LINE]
    cdef char* space = at_line(memory)
    cdef char* c = call.c
    cdef char* out
    cdef call_t part = call[0]
    cdef plan_t own = plan[0]
    own.past_caches, own.pack_b = False, False
    # Pieces of the same rows one after the other: they share the lines at their ends.
    most_rows = MAX_TURNED // (min(most, vec1 - vec0) * L * size)
    for _i in range(items):
        row = row0
        while row < row1:
            rows = min(row1 - row, most_rows)
            vec = vec0
            while vec < vec1:
                vecs = min(vec1 - vec, most)
                columns = (vecs - 1) * L + (tail if vec + vecs == vec1 else L)
                rs = columns if gapless else vecs * L
                part.c = space - (row * rs + vec * L) * size
                part.rs_c = rs
                small(&own, &part, 1, row, row + rows, vec, vec + vecs)
                out = c + (row * call.rs_c + vec * L) * size
                if gapless:
                    write_past(1, rows * rs * size, space, 0, out, 0)
                else:
                    write_past(rows, columns * size, space, rs * size, out, call.rs_c * size)
                vec += vecs
            row += rows
        part.a += call.step_a
        part.b += call.step_b
        c += call.step_c
    fg_fence_past()


cdef void by_tiles(const plan_t* plan, stack_t* s, const grid_t* rows, const grid_t* vecs, int tail) noexcept nogil:
    # The kernels' loops take as much of it as they can.
    s.tail = tail
    if vecs.panels == 1 and (s.count == 1 or rows.larger == 0):
        rows_of_tiles(plan, s, rows, vecs.size)
    elif s.count == 1 and rows.panels == 1 and plan.kernels.group == 1:
        wide(plan, s, rows.size, vecs, tail)
    else:
        tiles(plan, s, rows, vecs, tail)


cdef void anything(const plan_t* plan, const call_t* call, Py_ssize_t items, Py_ssize_t row, const grid_t* rows,
                   Py_ssize_t vec, const grid_t* vecs, int tail) noexcept nogil:
    # What is no plain C = A @ B into adjacent columns: the gemm kernels, whose sums have the same order.
    cdef const kernels_t* t = plan.kernels
    cdef call_t item = call[0]
    cdef Py_ssize_t _i
    for _i in range(items):
        macrokernel(plan, &item, &item.store, item.a + row * item.rs_a * t.real_bytes, item.rs_a, item.cs_a, False,
                    item.b + vec * t.length * t.real_bytes, False, 0, 0, row, rows, vec, vecs, plan.k, tail)
        item.a += call.step_a
        item.b += call.step_b
        item.c += call.step_c


cdef stack_kernel_t kernel_of_rows(const plan_t* plan, const call_t* call, Py_ssize_t m) noexcept nogil:
    # The kernel that takes whole products because their rows are short, NULL where there is none.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t n = plan.n * t.part
    cdef bint square, by_rows
    if n == t.length and plan.k * t.part == n and call.rs_a == n and call.cs_a == t.part and t.whole != NULL \
            and m % t.whole_rows == 0:
        return t.whole
    if n >= MAX_NARROW or 2 * n > t.length:
        return NULL
    square = n & (n - 1) == 0 and plan.k * t.part == n == call.rs_a == call.rs_c and m * n % t.length == 0
    by_rows = call.cs_a == t.part or plan.k == 1
    if m <= ROWS_ALONE and plan.k <= STEPS_ALONE and not square and (plan.lines_ahead or (
            by_rows and m * plan.k <= t.alone and m == plan.m and plan.rows.larger == 0)):
        return NULL
    if by_rows:
        return t.narrow[n]
    # Whole vectors along M, so there must be rows to fill them.
    return t.narrow_columns[n] if call.rs_a == t.part and m >= t.length else NULL


cdef bint in_whole_rows(const plan_t* plan, const call_t* call, Py_ssize_t m) noexcept nogil:
    # Whether rows of C that begin alike in a vector are enough to share what is loaded of B: half as many as there are
    # steps.  (A C prototype, times tiles, f32 20 x 3001, of which one row at a time begins so, by 1, 2, 3, 4 steps 1.6
    # 1.6 1.2 0.66; two at a time 100 x 1003 by 4, 6, 8 1.58 1.32 1.01.)
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t every = rows_apart(call.rs_c * t.real_bytes, t.length * t.real_bytes)
    return m >= every * ((plan.k + 1) // 2)


cdef void exchanged(Py_ssize_t k, Py_ssize_t n, const char* b, Py_ssize_t rs, Py_ssize_t cs, char* out,
                    Py_ssize_t size) noexcept nogil:
    # A copy of B as it is stored, in rows of n numbers of one or two bytes.
    cdef Py_ssize_t p, j
    if size == 1:
        for p in range(k):
            for j in range(n):
                out[p * n + j] = b[p * rs + j * cs]
    else:
        for p in range(k):
            for j in range(n):
                (<short*>out)[p * n + j] = (<const short*>b)[p * rs + j * cs]


cdef void turned_piece(const plan_t* plan, const call_t* call, Py_ssize_t items, Py_ssize_t row0, Py_ssize_t row1,
                       Py_ssize_t vec0, Py_ssize_t vec1) noexcept nogil:
    # The same of so many panels as `turned` copies at once: of as many items as fit, so that the kernels loop over them
    # (Zen 4, nt stacks of 1000, `bench/builds.py` over a copy and a call an item: f32 2^3 1.9, 4^3 3.1, 6^3 4.1, 8^3
    # 2.1, i32 3.1 4.1 2.0 1.9, c128 9.2 3.8 1.6 1.8, i8 5.3 3.3 2.1 1.8).
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t L = t.length, size = t.ab_bytes if t.converts else t.real_bytes, first, count, _i
    # (What is converted later is copied whole, and the kernels count from B's beginning.)
    cdef Py_ssize_t vec = 0 if t.converts else vec0, vecs = vec1 - vec
    cdef Py_ssize_t columns = plan.n * t.part - vec * L if t.converts or vec1 == plan.width else vecs * L
    cdef Py_ssize_t rs = columns if t.converts else vecs * L
    cdef bint by_columns = call.rs_b == t.part
    cdef bint at_once = by_columns and items >= LEAST_STACK and call.cs_b == plan.k * t.part \
        and plan.k * columns * t.ab_bytes <= t.turn_stack_bytes
    cdef bint zips = by_columns and t.turn != NULL, special
    cdef char memory[MAX_TURNED + 2 * LINE]
    cdef char* space = at_line(memory)
    cdef call_t part = call[0]
    cdef const char* b = call.b + vec * L // t.part * call.cs_b * t.ab_bytes
    cdef char* out
    # Few columns as short rows: fewer vectors to zip (of 2 x 5 x 59 nt 1.4 to 1.9 times as fast).
    while zips and vecs == 1 and 2 * columns <= rs and rs > 2:
        rs //= 2
    if at_once:
        rs = columns
    part.b, part.rs_b, part.cs_b, part.step_b = space - vec * L * size, rs, t.part, plan.k * rs * size
    special = (plan.special != NULL and row0 == 0 and row1 == plan.m and vec0 == 0 and vec1 == plan.width
               and special_takes(plan.special, &part))
    first = 0
    while first < items:
        count = min(items - first, max(1, GROUP_BYTES // part.step_b))
        out = space
        if at_once:
            t.turn_stack(count, plan.k, columns // t.part, b, call.step_b, out)
            b += count * call.step_b
        for _i in range(0 if at_once else count):
            if t.converts:
                exchanged(plan.k, columns, b, call.rs_b, call.cs_b, out, size)
            elif zips:
                t.turn(plan.k, columns // t.part, b, call.cs_b, out, rs)
            else:
                t.pack_b(plan.k, columns, vecs, b, call.rs_b, call.cs_b, out, NULL, 0)
            b += call.step_b
            out += part.step_b
        if special:
            plan.special.run(count, part.a, part.step_a, space, part.step_b, part.c, part.step_c)
        else:
            small(plan, &part, count, row0, row1, vec0, vec1)
        part.a += count * call.step_a
        part.c += count * call.step_c
        first += count


cdef void turned(const plan_t* plan, const call_t* call, Py_ssize_t items,
                 Py_ssize_t row0, Py_ssize_t row1, Py_ssize_t vec0, Py_ssize_t vec1) noexcept nogil:
    # Products whose B has no adjacent columns: it is copied, so many panels at a time, into memory that stays in L1.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t most = MAX_TURNED // (plan.k * t.length * t.real_bytes), vec, _i
    cdef call_t item
    most = plan.width if t.converts else most // plan.nv * plan.nv if most > plan.nv else most
    if vec1 - vec0 <= most:
        turned_piece(plan, call, items, row0, row1, vec0, vec1)
        return
    item = call[0]
    for _i in range(items):
        vec = vec0
        while vec < vec1:
            turned_piece(plan, &item, 1, row0, row1, vec, min(vec + most, vec1))
            vec += most
        item.a += call.step_a
        item.b += call.step_b
        item.c += call.step_c


cdef inline bint shares_vectors(const plan_t* plan, const call_t* call) noexcept nogil:
    # Whether operands that must be converted are worth converting first: rows of C share vectors, and B is small.
    cdef const kernels_t* t = plan.kernels
    if t.plain == NULL or 2 * plan.n > t.length or plan.n == 1 or plan.n * plan.k * t.real_bytes > MAX_WIDENED \
            or plan.m < LEAST_WIDENED:
        return False
    if call.offsets != NULL and call.offsets.zero != NULL and call.offsets.step:
        return False
    if call.cs_a == 1 or plan.k == 1:
        return True
    # Bytes have kernels of their own for rows that are adjacent.
    return call.rs_a == 1 and t.narrow_columns[plan.n] == NULL


cdef void widened(const plan_t* plan, const call_t* call, Py_ssize_t row0, Py_ssize_t row1) noexcept nogil:
    # A narrow output of such a type (262144 x 2 x 4, bytes on Zen 5: 450 us by rows of a vector each).
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t n = plan.n, k = plan.k, size = t.real_bytes, row, rows, p, j, most
    cdef bint by_rows = call.cs_a == 1 or k == 1
    cdef bint direct = plan.raw or not t.narrows
    cdef char a_space_memory[MAX_TURNED + LINE]
    cdef char* a_space = at_line(a_space_memory)
    cdef char b_space_memory[MAX_WIDENED + LINE]
    cdef char* b_space = at_line(b_space_memory)
    cdef char c_space_memory[MAX_TURNED + LINE]
    cdef char* c_space = at_line(c_space_memory)
    cdef const offset_t* offsets = call.offsets if call.offsets != NULL else NO_OFFSETS
    cdef offset_t of_b = offsets[1]
    cdef unsigned int* numbers
    cdef const char* a
    cdef char* c
    cdef call_t part = call[0]
    cdef plan_t own = plan[0]
    of_b.zero = NULL
    for p in range(k):
        t.widen(n, call.b + p * call.rs_b * t.ab_bytes, b_space + p * n * size, &of_b)
        if offsets[1].zero != NULL:
            numbers = <unsigned int*>b_space + p * n
            for j in range(n):
                numbers[j] -= <unsigned int>offsets[1].zero[j * offsets[1].step]
    own.kernels, own.pack_b, own.raw = t.plain, False, False
    part.offsets = NULL
    part.a, part.b = a_space, b_space
    part.rs_b, part.cs_b = n, 1
    most = min(MAX_TURNED // (k * size), MAX_TURNED // (n * size))
    # Whole vectors of rows, for those that are adjacent.
    if most > t.length:
        most -= most % t.length
    row = row0
    while row < row1:
        rows = min(row1 - row, most)
        a = call.a + row * call.rs_a * t.ab_bytes
        c = call.c + row * call.rs_c * (size if direct else t.c_bytes)
        part.rs_a, part.cs_a = k if by_rows else 1, 1 if by_rows else rows
        if by_rows and (call.rs_a == k or rows == 1):
            t.widen(rows * k, a, a_space, offsets)
        elif by_rows:
            for p in range(rows):
                t.widen(k, a + p * call.rs_a * t.ab_bytes, a_space + p * k * size, offsets)
        else:
            for p in range(k):
                t.widen(rows, a + p * call.cs_a * t.ab_bytes, a_space + p * rows * size, offsets)
        own.m, own.rows = rows, cut(rows, own.mr)
        part.c, part.rs_c = c if direct else <char*>c_space, call.rs_c if direct else n
        small(&own, &part, 1, 0, rows, 0, 1)
        if not direct and call.rs_c == n:
            t.update(1, rows * n, c_space, rows * n, c, rows * n, 1, &call.store, 0, 0)
        elif not direct:
            t.update(rows, n, c_space, n, c, call.rs_c, 1, &call.store, 0, 0)
        row += rows


cdef void in_columns(const plan_t* plan, const call_t* call, Py_ssize_t items,
                     Py_ssize_t row0, Py_ssize_t row1) noexcept nogil:
    # Narrow outputs by columns (`ways.turns` makes such): rows beside each other first, then turned over.
    cdef const kernels_t* t = plan.kernels
    cdef const plan_t* of = plan
    cdef char memory[MAX_TURNED + LINE]
    cdef char* space = at_line(memory)
    cdef call_t part = call[0]
    cdef plan_t own
    cdef Py_ssize_t most = MAX_TURNED // (t.length * t.real_bytes), row, rows, i
    if row1 - row0 != plan.m or row1 - row0 > most:
        # (A copy for every item took a quarter of stacks of 10 x 2 x 17.)
        own = plan[0]
        of = &own
    part.c, part.rs_c, part.cs_c = space, t.length, t.part
    for i in range(items):
        row = row0
        while row < row1:
            rows = min(row1 - row, most)
            if of == &own:
                own.m, own.rows = rows, cut(rows, own.mr)
            part.a = call.a + i * call.step_a + row * call.rs_a * t.real_bytes
            part.b = call.b + i * call.step_b
            small(of, &part, 1, 0, rows, 0, 1)
            t.add(rows, plan.n, space, t.length, call.c + i * call.step_c + row * t.part * t.real_bytes, t.part,
                  call.cs_c, &call.store, row, 0)
            row += rows


cdef void small(const plan_t* plan, const call_t* call, Py_ssize_t items,
                Py_ssize_t row0, Py_ssize_t row1, Py_ssize_t vec0, Py_ssize_t vec1) noexcept nogil:
    # Rows row0 : row1 and vectors vec0 : vec1 of `items` products.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t L = t.length
    cdef int tail = plan.tail if vec1 == plan.width else t.length, lead_tail
    # By address: a copy loads what the plan cache has just stored in other pieces, and waits for the stores (9 ns).
    cdef const grid_t* rows = &plan.rows
    cdef const grid_t* vecs = &plan.vectors
    cdef grid_t own_rows, own_vecs
    cdef stack_kernel_t whole
    cdef stack_t s
    cdef call_t item
    cdef Py_ssize_t _i, lead, width, most
    cdef bint plain, widens
    if plan.pack_b and call.cs_b != t.part:
        turned(plan, call, items, row0, row1, vec0, vec1)
        return
    if row1 - row0 != plan.m:
        own_rows = cut(row1 - row0, plan.mr)
        rows = &own_rows
    if vec1 - vec0 != plan.width:
        own_vecs = cut(vec1 - vec0, plan.nv)
        vecs = &own_vecs
    plain = (call.finish == NULL and call.store.alpha_is_one and call.store.beta_kind == 0
             and not call.store.conj)
    if t.converts and (call.cs_c != t.part or not plain):
        converted(plan, call, items, row0, row1, vec0, vec1, tail)
        return
    widens = t.converts and shares_vectors(plan, call)
    if not widens and plain and call.rs_c == t.part != call.cs_c and plan.width == 1:
        in_columns(plan, call, items, row0, row1)
        return
    if widens:
        item = call[0]
        for _i in range(items):
            widened(plan, &item, row0, row1)
            item.a += call.step_a
            item.b += call.step_b
            item.c += call.step_c
        return
    if call.cs_c != t.part or not plain:
        # (Of a C that no cache holds a block of rows at a time.)
        most = PAST_ROWS if plan.past_caches else row1 - row0
        while row0 < row1:
            if most < row1 - row0 or rows == &own_rows:
                own_rows = cut(min(most, row1 - row0), plan.mr)
                rows = &own_rows
            anything(plan, call, items, row0, rows, vec0, vecs, tail)
            row0 += most
        return
    if plan.past_caches:
        past_caches(plan, call, items, row0, row1, vec0, vec1, tail)
        return
    s.raw = plan.raw or not t.narrows
    s.size_ab, s.size_c = t.ab_bytes, t.real_bytes if plan.raw else t.c_bytes
    s.offsets = call.offsets if call.offsets != NULL else NO_OFFSETS
    s.row, s.column = row0, vec0 * L
    s.a = call.a + row0 * call.rs_a * s.size_ab
    s.b = call.b + vec0 * L * s.size_ab
    s.c = call.c + (row0 * call.rs_c + vec0 * L) * s.size_c
    s.count, s.m, s.n, s.k = items, row1 - row0, plan.n * t.part, plan.k
    s.rs_a, s.cs_a, s.rs_b, s.rs_c = call.rs_a, call.cs_a, call.rs_b, call.rs_c
    s.step_a, s.step_b, s.step_c = call.step_a, call.step_b, call.step_c
    s.touch_a = s.touch_b = s.touch_c = s.far = s.soon_c = 0
    s.panels, s.panel_a, s.panel_c = 1, 0, 0
    whole = kernel_of_rows(plan, call, s.m)
    if items > 1 and plan.items_ahead:
        fetch_ahead(&s, t.part)
    if whole != NULL:
        if plan.far_columns or 0 < plan.far_row <= FAR_ROW_BYTES and call.rs_a < 2 * plan.k * t.part:
            s.far = FAR_ROWS
        whole(&s)
        return
    width = (vec1 - vec0 - 1) * L + tail
    if plan.brief and in_whole_rows(plan, call, s.m):
        s.n = width
        t.brief[plan.k](&s)
        return
    if not t.converts and (items == 1 or s.step_b % LEAD_BYTES == 0):
        lead = lead_of(t, s.b, s.rs_b, width, s.k, plan.nv)
        if lead:
            vecs = &own_vecs
            own_vecs = cut_components(lead, L, plan.nv, &lead_tail)
            by_tiles(plan, &s, rows, vecs, lead_tail)
            s.b += lead * s.size_ab
            s.c += lead * s.size_c
            s.column += lead
            own_vecs = cut_components(width - lead, L, plan.nv, &tail)
    by_tiles(plan, &s, rows, vecs, tail)


cdef void last_columns(const plan_t* plan, const call_t* call, Py_ssize_t items,
                       Py_ssize_t row0, Py_ssize_t row1) noexcept nogil:
    # Rows row0 : row1 of the columns that C's last vector holds few of: rows share vectors, and the sums have the order
    # of the tiles that computed the other columns.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t first = (plan.width - 1) * t.length, size = t.real_bytes
    cdef stack_t s
    memset(&s, 0, sizeof(stack_t))
    s.count, s.m, s.n, s.k = items, row1 - row0, plan.tail, plan.k
    s.a = call.a + row0 * call.rs_a * size
    s.b = call.b + first * size
    s.c = call.c + (row0 * call.rs_c + first) * size
    s.rs_a, s.cs_a, s.rs_b, s.rs_c = call.rs_a, call.cs_a, call.rs_b, call.rs_c
    s.step_a, s.step_b, s.step_c = call.step_a, call.step_b, call.step_c
    s.size_ab = s.size_c = size
    s.panels, s.tail, s.offsets = 1, plan.tail, NO_OFFSETS
    # (One column by the kernel of two.)
    t.narrow[max(plan.tail, 2 * t.part)](&s)
