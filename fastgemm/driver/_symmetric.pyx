"""Products of a matrix and its own transpose: half of the work.

``a @ a.T`` has the same memory on both sides with the strides exchanged.  A block of rows of C is computed up to the
diagonal, and what lies left of its own columns is copied to the other side.  Every number is the same sum in the same
order as in the whole product, and as its mirror image: the bits do not change, and the result is symmetric to the bit.
"""

from fastgemm.driver.abi cimport kernels_t
from fastgemm.driver._loops cimport blocked
from fastgemm.driver.structs cimport FAMILY_GEMM, SPLIT_K, call_t, ceil_div, plan_t
from fastgemm.driver.pieces cimport fg_next, fg_pieces

cdef enum:
    # Rows of a piece, a multiple of every vector's length.  Each packs its B anew and computes half a square too much.
    PIECE = 192
    # Rows of C, twice as many for a team, and steps of k below which that, and copying, costs what is saved (Zen 5,
    # speed over the whole product, f32 to c128, one thread / two: 256^3 1.1 to 1.2 / 0.9, 512^3 1.3 to 1.5 / 1.1 to
    # 1.2, 1024^3 1.4 to 1.7 / 1.3 to 1.7, 2048^3 1.5 to 1.8 / 1.5 to 1.9; 512 x 512 x 64 f32 1.0 / 0.8).
    LEAST = 256
    LEAST_K = 128
    # Columns that are copied at a time: as many lines of the other side stay in L1 although their rows share sets.
    MIRRORED = 8


cdef Py_ssize_t symmetric_pieces(const plan_t* plan, const call_t* call) noexcept nogil:
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t least = LEAST if plan.threads == 1 else 2 * LEAST
    if (call.a != call.b or plan.m != plan.n or plan.m < least or plan.k < LEAST_K or plan.batch != 1
            or call.rs_a != call.cs_b or call.cs_a != call.rs_b
            or plan.family != FAMILY_GEMM or plan.split == SPLIT_K or t.converts):
        return 0
    if (call.cs_c != t.part or not call.store.alpha_is_one or call.store.beta_kind != 0
            or call.finish != NULL or call.offsets != NULL or call.store.conj):
        return 0
    return ceil_div(plan.m, PIECE)


cdef void mirror(const plan_t* plan, const call_t* call, Py_ssize_t row0, Py_ssize_t row1) noexcept nogil:
    # C[j, i] = C[i, j] for rows i of the piece and columns j before it.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t size = t.real_bytes, j = 0
    while j < row0:
        t.update(row1 - row0, MIRRORED if MIRRORED < row0 - j else row0 - j,
                 call.c + (row0 * call.rs_c + j * t.part) * size, call.rs_c,
                 call.c + (j * call.rs_c + row0 * t.part) * size, t.part, call.rs_c, &call.store, row0, j)
        j += MIRRORED


cdef Py_ssize_t symmetric_runs(
        const plan_t* plan, const call_t* call, char* space, fg_pieces* dealt, Py_ssize_t pieces) noexcept nogil:
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t first, row0, row1, done = 0
    while True:
        first = fg_next(dealt, pieces)
        if first < 0:
            return done
        # The longest first, so that the last ones even out.
        row0 = (pieces - 1 - first) * PIECE
        row1 = row0 + PIECE if row0 + PIECE < plan.m else plan.m
        blocked(plan, call, row0, row1, 0, ceil_div(row1 * t.part, t.length), 1, space, space + plan.a_bytes)
        mirror(plan, call, row0, row1)
        done += 1
