"""The loop around a strip of columns, for few rows of A beside a B that is read as it lies:

    jc   strips of NC columns               their sums lie in the workspace, and in L1
     pc  a few rows of B, side by side      kernel

A is copied, as words that its columns need not be adjacent for: it is as long as a column of B.
"""

from libc.string cimport memcpy, memset

from fastgemm.driver.abi cimport MAX_STRIP, kernels_t, offset_t, store_t, update_t
from fastgemm.driver._dots cimport NO_OFFSETS
from fastgemm.driver.structs cimport call_t, ceil_div, far_b, lead_of, plan_t, row_gap, share, strip_gap, strip_words

# Bytes of A are copied as they are.
cdef offset_t AS_THEY_ARE
AS_THEY_ARE.zero, AS_THEY_ARE.step, AS_THEY_ARE.is_unsigned = NULL, 0, True


cdef void strips(const plan_t* plan, const call_t* call, Py_ssize_t row0, Py_ssize_t row1,
                 Py_ssize_t vec0, Py_ssize_t vec1, char* space) noexcept nogil:
    # Rows row0 : row1 and vectors vec0 : vec1 of one product.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t L = t.length, G = t.group, size = t.real_bytes, size_ab = t.ab_bytes
    cdef Py_ssize_t size_c = size if plan.raw else t.c_bytes
    cdef Py_ssize_t rows = row1 - row0, words = ceil_div(plan.k, G), gap_a = row_gap(words + t.appended, L)
    cdef Py_ssize_t gap = strip_gap(plan), first = vec0 * L, end = min(plan.n, vec1 * L)
    cdef Py_ssize_t lead = 0, units, count, i, r, col, cols
    cdef char* sums = space + strip_words(plan) * size
    cdef char* c
    cdef unsigned int a_sums[MAX_STRIP]
    cdef const unsigned int* b_sums = NULL
    cdef bint plain = call.cs_c == 1 and call.store.alpha_is_one and not call.store.beta_kind and (
        plan.raw or not t.narrows)
    cdef store_t store = call.store
    cdef update_t update = t.add if plan.raw else t.update
    store.far = far_b(plan, call)
    store.offset = call.offsets if call.offsets != NULL else NO_OFFSETS
    t.pack_a(plan.k, rows, call.a + row0 * call.rs_a * size_ab, call.rs_a, call.cs_a, space, gap_a, 1, &AS_THEY_ARE, 0)
    if t.dot_sums != NULL:
        t.dot_sums(plan.k, rows, space, gap_a * size, store.offset, False, a_sums)
        if store.offset[0].zero != NULL:
            # Sums of B's columns: a row of ones.
            memset(space + rows * gap_a * size, 0, words * size)
            memset(space + rows * gap_a * size, 1, plan.k)
            b_sums = <const unsigned int*>(sums + rows * gap * size)
            rows += 1
    if G == 1 and not t.converts:
        lead = lead_of(t, call.b + first * size, call.rs_b, end - first, plan.k, 1)
    units = ceil_div(end - first - lead, G * L)
    count = ceil_div(units * G, plan.ncv)
    for i in range(-1 if lead else 0, count):
        # What begins before a whole vector; whole groups of the kernels' vectors.
        col = first + lead + share(units, i, count) * G * L
        cols = min(end, first + lead + share(units, i + 1, count) * G * L) - col
        if i < 0:
            col, cols = first, lead
        for r in range(rows):
            memset(sums + r * gap * size, 0, ceil_div(cols, G * L) * G * L * size)
        t.strips[rows](plan.k, cols, space, gap_a, call.b + (col * call.cs_b) * size_ab, call.rs_b * size_ab,
                       sums, gap, &store)
        if t.dot_settle != NULL:
            t.dot_settle(plan.k, row1 - row0, cols, a_sums, NULL, 0, b_sums, sums, gap, store.offset, row0, col)
        if call.finish != NULL:
            call.finish(row1 - row0, cols, sums, gap, call.terms, row0, col)
        c = call.c + (row0 * call.rs_c + col * call.cs_c) * size_c
        if plain:
            for r in range(row1 - row0):
                memcpy(c + r * call.rs_c * size, sums + r * gap * size, cols * size)
            continue
        update(row1 - row0, cols, sums, gap, c, call.rs_c, call.cs_c, &call.store, row0, col)
