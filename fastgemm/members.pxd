"""The members of a chain, and how one item goes through them (see `_chain.pyx`, which checks what they hold)."""

from libc.string cimport memcpy, memset

from fastgemm._linear cimport fused_of
from fastgemm.driver._team cimport run_inside
from fastgemm.driver.abi cimport epilogue_t, finish_t, offset_t, quant_t, row_terms_t, rows_t
from fastgemm.driver.soon cimport add_span, no_soon, soon_t
from fastgemm.driver.structs cimport FAMILY_SMALL, call_t, plan_t, tile_steps
from fastgemm.terms cimport exact_sums

cdef enum:
    MAX_SLOTS = 64
    MAX_OUTER = 3
    MAX_LEVEL = 8
    SCRATCH = -1
    ABSENT = -2
    PRODUCT = 0
    ROWS = 1
    FINISH = 2

cdef struct ref_t:
    int slot
    Py_ssize_t offset, row, column      # bytes
    Py_ssize_t steps[MAX_OUTER]

cdef struct member_t:
    int kind
    ref_t x, y, u, v        # operands and output: A, C, B and bias; input, output and the vectors of rows
    ref_t beside            # residual
    # A softmax in parts: `v` is its state, `beside` what the parts before gave, of `k` columns (of other rows 0).
    bint more               # parts follow; a product is added to what C holds
    Py_ssize_t n, k
    plan_t plans[2]         # of a product: for whole items and for the last one
    char* panels            # B where it is packed
    # By which plans its copy of B stays from item to item, where in the workspace, and at which place of the line
    # `copied` stands of what it is one.
    bint keeps[2]
    Py_ssize_t kept
    int key
    bint slim               # in slim panels
    int a_unsigned, b_unsigned, appended
    int a_zero, b_zero
    const float* scale      # of sums of bytes: for each column (scale_step 1) or for all; NULL: C is the sums
    Py_ssize_t scale_step
    bint quantised          # C holds bytes between `low` and `high` again, with `c_zero`
    const float* shift      # and what is added before they are rounded: for each column, or NULL
    float c_zero
    double low, high
    finish_t finish
    int code                # of it, in the registry
    int term_bytes          # of a number of bias and residual
    double p, q
    bint one_bias
    rows_t rows
    row_terms_t terms

cdef struct work_t:
    const member_t* members
    int count
    char* slots[MAX_SLOTS]
    unsigned long long written      # a bit for each slot that members write
    bint far                        # what they read comes from memory
    Py_ssize_t outer[MAX_OUTER]
    Py_ssize_t block, rest
    # In a thread's workspace, behind what references reach and the copies that stay: where products have their blocks,
    # and a line that says of what those are copies.
    Py_ssize_t blocks, copied


cdef inline char* at(const ref_t* r, const work_t* work, const Py_ssize_t* index, char* space) noexcept nogil:
    if r.slot == ABSENT:
        return NULL
    return ((space if r.slot == SCRATCH else work.slots[r.slot]) + r.offset
            + index[0] * r.steps[0] + index[1] * r.steps[1] + index[2] * r.steps[2])


cdef inline void run_product(const member_t* m, const work_t* work, const Py_ssize_t* index, bint last,
                             char* space, soon_t* soon) noexcept nogil:
    cdef call_t call
    cdef epilogue_t e
    cdef offset_t offsets[2]
    cdef quant_t quant
    cdef const plan_t* plan = &m.plans[1 if last else 0]
    cdef Py_ssize_t size = plan.kernels.ab_bytes, size_c = plan.kernels.c_bytes
    cdef float one = 1
    cdef char** of_b
    memset(&call, 0, sizeof(call))
    call.a, call.c = at(&m.x, work, index, space), at(&m.y, work, index, space)
    call.slim = m.slim
    call.soon = soon
    call.b = m.panels if m.panels != NULL else at(&m.u, work, index, space)
    call.rs_a, call.cs_a = m.x.row // size, m.x.column // size
    call.rs_b, call.cs_b = m.u.row // size, m.u.column // size
    call.rs_c, call.cs_c = m.y.row // size_c, m.y.column // size_c
    if m.n == 1:
        call.cs_b, call.cs_c = 0, plan.kernels.part
    call.store.alpha_is_one, call.store.beta_kind = True, m.more
    if m.appended >= 0:
        memset(offsets, 0, sizeof(offsets))
        offsets[0].is_unsigned, offsets[1].is_unsigned = m.a_unsigned, m.b_unsigned
        offsets[0].zero = &m.a_zero if m.a_zero else NULL
        offsets[1].zero = &m.b_zero if m.b_zero else NULL
        call.offsets, call.store.appended = offsets, m.appended
    if m.quantised:
        memset(&quant, 0, sizeof(quant))
        quant.left, quant.right, quant.right_step = &one, m.scale, m.scale_step
        quant.scale, quant.zero, quant.bias = &one, &m.c_zero, m.shift
        quant.low, quant.high = m.low, m.high
        quant.exact = exact_sums(m.k, m.a_unsigned or m.a_zero != 0, m.b_unsigned or m.appended & 2)
        call.store.terms = &quant
    if m.finish != NULL:
        e.bias, e.bias_step = at(&m.v, work, index, space), not m.one_bias
        e.residual, e.rs_residual = at(&m.beside, work, index, space), m.beside.row // m.term_bytes
        e.cs_residual = 1
        e.p, e.q = m.p, m.q
        e.scale, e.scale_step = m.scale, m.scale_step
        e.fused = fused_of(m.code, &e)
        call.finish, call.terms, call.store.fused = m.finish, &e, e.fused
    if m.keeps[1 if last else 0] and not work.written >> m.u.slot & 1:
        of_b = <char**>(space + work.copied) + m.key
        call.copy_b, call.copied_b = space + m.kept, of_b[0] == call.b
        of_b[0] = call.b
    run_inside(plan, &call, space + work.blocks)


cdef inline void run_rows(const member_t* m, const work_t* work, const Py_ssize_t* index, Py_ssize_t count,
                          char* space) noexcept nogil:
    # The rows of an item by a member that is no product.  One that is the same for all of them is made once.
    cdef row_terms_t terms
    cdef epilogue_t e
    cdef Py_ssize_t j
    cdef char* x = at(&m.x, work, index, space)
    cdef char* y = at(&m.y, work, index, space)
    cdef char* u = at(&m.u, work, index, space)
    if m.kind == ROWS:
        if m.x.row == 0 and m.y.row == 0:
            count = 1
        terms = m.terms
        terms.u = <const float*>u
        terms.v, terms.rs_u = <const float*>at(&m.v, work, index, space), m.u.row
        if m.k:
            terms.state, terms.rs_state = <char*>terms.v, m.v.row
            terms.made, terms.rs_made = at(&m.beside, work, index, space), m.beside.row
            terms.width, terms.more = m.k, m.more
        m.rows(count, m.n, x, m.x.row, y, m.y.row, &terms)
    else:
        if x != y:
            for j in range(count):
                memcpy(y + j * m.y.row, x + j * m.x.row, m.n * m.y.column)
        e.bias, e.bias_step = at(&m.v, work, index, space), not m.one_bias
        e.residual, e.rs_residual = at(&m.beside, work, index, space), m.beside.row // m.term_bytes
        e.cs_residual = 1
        e.p, e.q = m.p, m.q
        m.finish(count, m.n, y, m.y.row // m.y.column, &e, 0, 0)


cdef inline void locate(const work_t* work, Py_ssize_t item, Py_ssize_t* index) noexcept nogil:
    index[2] = item % work.outer[2]
    index[1] = item // work.outer[2] % work.outer[1]
    index[0] = item // work.outer[2] // work.outer[1]


cdef inline void add_soon(soon_t* soon, const ref_t* r, const work_t* work, const Py_ssize_t* now,
                          const Py_ssize_t* then, Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t size) noexcept nogil:
    # What an operand refers to in the next item, where that is another place.
    if r.slot < 0 or work.written >> r.slot & 1:
        return
    cdef char* at_now = at(r, work, now, NULL)
    cdef char* at_then = at(r, work, then, NULL)
    if at_now != at_then:
        add_span(soon, at_then, rows, r.row, columns, r.column, size, work.far)


cdef inline void add_output(soon_t* soon, const work_t* work, const Py_ssize_t* now) noexcept nogil:
    # What the last product of an item writes by kernels of the small family, whose tiles do not fetch C: beside an L1
    # of 32 KiB (`lines_ahead`) stores wait for lines from L3.  (Skylake-SP, attention of 128 tokens, 8 and 32 x 8 heads
    # of 96, f32, one thread 1.06 and 1.06, two 1.02 and 1.01; of 64 numbers a head 1.0; where gemm's tiles fetch their
    # own, 384 and 512 tokens, 0.985.)
    cdef const member_t* m = &work.members[work.count - 1]
    cdef const plan_t* plan = &m.plans[0]
    if work.count == 1 or m.kind != PRODUCT or m.y.slot < 0:
        return
    if plan.family == FAMILY_SMALL and plan.lines_ahead:
        add_span(soon, at(&m.y, work, now, NULL), work.rest if now[2] + 1 == work.outer[2] else work.block, m.y.row,
                 m.n, m.y.column, plan.kernels.c_bytes, True)


cdef inline void find_soon(soon_t* soon, const work_t* work, Py_ssize_t item, const Py_ssize_t* now) noexcept nogil:
    # What this item writes and the matrices that the next one reads, mostly this thread's: items are taken in pieces.
    cdef Py_ssize_t then[MAX_OUTER]
    cdef Py_ssize_t i, rows
    cdef const member_t* m
    add_output(soon, work, now)
    if item + 1 == work.outer[0] * work.outer[1] * work.outer[2]:
        return
    locate(work, item + 1, then)
    rows = work.rest if then[2] + 1 == work.outer[2] else work.block
    for i in range(work.count):
        m = &work.members[i]
        if m.kind != PRODUCT:
            continue
        add_soon(soon, &m.x, work, now, then, rows, m.k, m.plans[0].kernels.ab_bytes)
        if m.panels == NULL:
            add_soon(soon, &m.u, work, now, then, m.k, m.n, m.plans[0].kernels.ab_bytes)


cdef inline void run_item(const void* work_, Py_ssize_t item, char* space) noexcept nogil:
    cdef const work_t* work = <const work_t*>work_
    cdef Py_ssize_t index[MAX_OUTER]
    cdef Py_ssize_t i
    cdef const member_t* m
    cdef soon_t soon
    locate(work, item, index)
    cdef bint last = index[2] + 1 == work.outer[2]
    no_soon(&soon)
    find_soon(&soon, work, item, index)
    if soon.lines:
        # All products of the item fetch, a part each.
        for i in range(work.count):
            if work.members[i].kind == PRODUCT:
                soon.steps += tile_steps(&work.members[i].plans[1 if last else 0])
    for i in range(work.count):
        m = &work.members[i]
        if m.kind == PRODUCT:
            run_product(m, work, index, last, space, &soon if soon.lines else NULL)
        else:
            run_rows(m, work, index, work.rest if last else work.block, space)
