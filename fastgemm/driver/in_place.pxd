"""The A of a dot product, as it lies: what the sign of its bytes costs, and where its rows begin; and copies of it.

The instruction takes unsigned bytes of A.  Microkernels turn the sign of others as they load them (`kernels_t.turned`),
once more for every panel of B, with the units that multiply where a CPU has no others.

Tile registers take bytes of either sign, and whole chunks of k.  Rows that do not begin a line cost them two accesses
for each (Emerald Rapids, ns a load of 16 rows from L1 2.9 to 3.4, 16 bytes from a line 18 to 20, whole pages apart
too 45): such rows are copied, and so are those that end inside a chunk.
"""

from fastgemm.driver.abi cimport kernels_t, store_t
from fastgemm.driver.structs cimport LINE, call_t, ceil_div, plan_t

cdef enum:
    # Panels of B up to which they do, and steps of k that further ones must have together for a copy: it costs some ten
    # cycles a row and one for two steps, a panel half of one a row and step.  (Cascade Lake, one thread, in place times
    # copies for more than one panel: 344 x 344 x 4 1.16, 78 x 78 x 78 1.18; copies times in place 128 x 384 x 128 1.12,
    # 512 x 512 x 64 1.09.)
    SIGNED_PANELS = 2
    SIGNED_STEPS = 24
    # Panels up to which tile registers read rows that do not begin lines as they lie (Emerald Rapids, one thread,
    # bfloat16, 1024 x 1024 by 8, 16, 32, 48 columns over copies 1.5 1.6 1.4 1.3).
    MISPLACED_PANELS = 2

cdef extern from *:
    """
    #ifndef FASTGEMM_IN_PLACE
    #define FASTGEMM_IN_PLACE
    enum { FG_SIGNS = 0x80808080 };     /* of the bytes of a word */
    typedef unsigned char signs_16 __attribute__((vector_size(16), aligned(1), may_alias));
    typedef unsigned char signs_4 __attribute__((vector_size(4), aligned(1), may_alias));
    /* Rows of bytes with their signs turned, each filled up with 0 to a whole word. */
    static inline void fg_turned_rows(Py_ssize_t rows, Py_ssize_t bytes, const char *a, Py_ssize_t rs,
                                      char *out, Py_ssize_t rs_out) {
        for (Py_ssize_t i = 0; i < rows; i++, a += rs, out += rs_out) {
            Py_ssize_t p = 0;
            for (; p + 16 <= bytes; p += 16) *(signs_16 *)(out + p) = *(const signs_16 *)(a + p) ^ 0x80;
            for (; p + 4 <= bytes; p += 4) *(signs_4 *)(out + p) = *(const signs_4 *)(a + p) ^ 0x80;
            if (p == bytes) continue;
            for (; p < bytes; p++) out[p] = a[p] ^ (char)0x80;
            for (; p % 4; p++) out[p] = 0;
        }
    }
    /* Rows of so many bytes as they are, each filled up with 0 to `whole` of them. */
    static inline void fg_filled_rows(Py_ssize_t rows, Py_ssize_t bytes, Py_ssize_t whole, const char *a,
                                      Py_ssize_t rs, char *out, Py_ssize_t rs_out) {
        for (Py_ssize_t i = 0; i < rows; i++, a += rs, out += rs_out) {
            __builtin_memcpy(out, a, (size_t)bytes);
            __builtin_memset(out + bytes, 0, (size_t)(whole - bytes));
        }
    }
    #endif
    """
    unsigned int SIGNS "FG_SIGNS"
    void filled_rows "fg_filled_rows"(Py_ssize_t, Py_ssize_t, Py_ssize_t, const char*, Py_ssize_t, char*,
                                      Py_ssize_t) nogil
    void turned_rows "fg_turned_rows"(Py_ssize_t, Py_ssize_t, const char*, Py_ssize_t, char*, Py_ssize_t) nogil


cdef inline bint simple(const call_t* call) noexcept nogil:
    # Whether the offsets of a dot product, if any, leave A as it is: one for all of A, and none of B.
    return (call.offsets == NULL or not call.store.appended & 2
            and (call.offsets.zero == NULL or call.offsets.step == 0))


cdef inline void reads_in_place(store_t* store, const call_t* call) noexcept nogil:
    # What the microkernels of dot products are told of such an A.
    store.in_place = True
    store.flip = store.zero = 0
    if call.offsets != NULL:
        store.flip = 0 if call.offsets.is_unsigned else SIGNS
        store.zero = -(store.flip & 0xff)
        if call.offsets.zero != NULL:
            store.zero -= <unsigned int>call.offsets.zero[0]


cdef inline bint copies_rows(const plan_t* plan, const call_t* call, Py_ssize_t vectors) noexcept nogil:
    # Whether to copy such an A for so many vectors of columns.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t panels = ceil_div(vectors, plan.nv), begins
    if t.chunk > 1:
        begins = <Py_ssize_t>call.a | call.rs_a * t.ab_bytes | call.step_a
        return plan.k * t.ab_bytes % LINE != 0 or panels > MISPLACED_PANELS and begins & (LINE - 1) != 0
    return (plan.lines_ahead and call.offsets != NULL and not call.offsets.is_unsigned
            and (panels - SIGNED_PANELS) * plan.k >= SIGNED_STEPS * t.group)


cdef inline void copied_rows(const kernels_t* t, store_t* store, Py_ssize_t rows, Py_ssize_t k, const char** a,
                             Py_ssize_t* rs_a, char* space, Py_ssize_t gap) noexcept nogil:
    # The copy takes A's place, and its signs are those of the instruction.
    if t.chunk > 1:
        filled_rows(rows, k * t.ab_bytes, ceil_div(k * t.ab_bytes, LINE) * LINE, a[0], rs_a[0], space, gap)
    else:
        turned_rows(rows, k, a[0], rs_a[0], space, gap)
        store.flip = 0
    a[0], rs_a[0] = space, gap
