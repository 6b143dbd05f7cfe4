"""The compiled face of a plan: what the hot path includes."""

from fastgemm.driver.abi cimport kernels_t, store_t

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

cdef struct grid_t:
    # A length cut into `panels` parts: the first `larger` have size + 1, the others size.
    Py_ssize_t panels, size, larger

cdef struct plan_t:
    # A Config made concrete for a Problem: blocks cut to size, kernels looked up.
    const kernels_t* kernels    # NULL: no kernel takes this problem, NumPy does
    int family                  # index in registry.FAMILIES
    int mr, nv                  # register tile: rows, vectors
    bint pack_a, pack_b
    int split, threads
    Py_ssize_t m, n, k, batch
    Py_ssize_t mc, kc           # elements
    Py_ssize_t ncv              # vectors
    size_t a_bytes, b_bytes     # workspace of a thread
    size_t c_bytes              # of a partial output, where threads share k: kept by the caller, one a thread
    bint direct                 # one block, nothing packed, all of a product by one thread: no loop but jr and ir
    grid_t rows, vectors        # a direct product's panels
    int tail                    # live components of C's last vector

cdef struct key_t:
    Py_ssize_t m, n, k, batch
    unsigned long long kind     # dtype, layout letters, threads, generation

# 0, or -1 when there was no memory for a workspace; nothing has been written then.
cdef int run_plan(const plan_t* plan, const call_t* call) noexcept nogil

cdef bint cache_get(const key_t* key, plan_t* plan) noexcept nogil
cdef void cache_put(const key_t* key, const plan_t* plan) noexcept nogil

cdef int threads_now() noexcept nogil
cdef unsigned long long generation() noexcept nogil

cdef inline char letter(Py_ssize_t rows, Py_ssize_t cols, Py_ssize_t rs, Py_ssize_t cs, int part) noexcept nogil:
    # The layout letter of an operand (see Problem).  A side of length one has any stride.
    if cols == 1 or cs == part:
        return c"n"
    if rows == 1 or rs == part:
        return c"t"
    return c"g"

cdef class Plan:
    cdef plan_t plan
    cdef readonly object problem, config
