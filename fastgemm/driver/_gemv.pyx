"""A vector by a matrix: the kernels' contracts met, a chunk at a time where an operand or the store needs more."""

from fastgemm.driver.abi cimport GEMV_CHUNK, gemv_t, kernels_t, store_t
from fastgemm.driver.structs cimport LINE, call_t, far_b, plan_t, reach_b


cdef void conjugate(char* numbers, Py_ssize_t count, int size) noexcept nogil:
    # Contiguous complex numbers of two floats or doubles.
    cdef Py_ssize_t i
    for i in range(1, 2 * count, 2):
        if size == 4:
            (<float*>numbers)[i] = -(<float*>numbers)[i]
        else:
            (<double*>numbers)[i] = -(<double*>numbers)[i]


cdef inline gemv_t gemv_kernel(const plan_t* plan, const call_t* call) noexcept nogil:
    # By the whole output, not by the part that is computed here: the kernels sum in orders of their own.
    cdef const kernels_t* t = plan.kernels
    if call.rs_b == t.part if plan.n == 1 else call.cs_b != t.part:
        return t.gemv_columns
    return t.gemv_narrow if plan.n * t.part <= t.length else t.gemv_rows


cdef Py_ssize_t at_line(const plan_t* plan, const call_t* call, Py_ssize_t column) noexcept nogil:
    # Where a piece begins that would begin at a column.  Kernels that add rows of B to C pass over it again and
    # again: two threads that share a line of it send it to and fro (Zen 4, two threads, `bench/builds.py --reuse-out
    # --begin 32` over shared lines, f32 1 x 500 x 500 1.26, 1 x 600 x 400 1.24; `--begin 16` 1 x 2000 x 200 1.43, f64
    # 1 x 1000 x 300 1.54; the others 0.96 to 1.18).  Other kernels keep the groups of columns that decide their bits.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t size = t.part * (t.real_bytes if plan.raw else t.c_bytes)
    if column <= 0 or column >= plan.n or call.cs_c != t.part or gemv_kernel(plan, call) == t.gemv_columns:
        return min(column, plan.n)
    return max(0, column - (<Py_ssize_t>call.c + column * size & (LINE - 1)) // size)


cdef bint gemv_of_stack(const plan_t* plan, call_t* call, Py_ssize_t items) noexcept nogil:
    # Whole products whose operands and outputs the kernels take as they lie, with nothing around them; False where they
    # need more.  (1 x 1 x 4 f32 in a stack: 14 ns each by `gemv`, NumPy 4.)
    cdef const kernels_t* t = plan.kernels
    cdef const char* a = call.a
    cdef const char* b = call.b
    cdef char* c = call.c
    cdef Py_ssize_t _item
    cdef gemv_t kernel = gemv_kernel(plan, call)
    if t.converts or t.narrows or call.finish != NULL or call.store.conj or not call.store.alpha_is_one \
            or call.store.beta_kind or call.cs_c != t.part or kernel == t.gemv_columns and call.cs_a != t.part:
        return False
    call.store.far, call.store.reach_l2 = far_b(plan, call), reach_b(plan, call)
    for _item in range(items):
        kernel(plan.k, plan.n, a, call.cs_a, b, call.rs_b, call.cs_b, c, t.part, &call.store)
        a += call.step_a
        b += call.step_b
        c += call.step_c
    return True


cdef void gemv(const plan_t* plan, const call_t* call, Py_ssize_t col0, Py_ssize_t col1, char* space) noexcept nogil:
    # Columns col0 : col1 of one row of output.  `space` takes a chunk of x and one of y where they are not
    # contiguous or the store is not a plain one.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t item = t.part * t.real_bytes, size_ab = t.ab_bytes
    cdef Py_ssize_t size_c = t.real_bytes if plan.raw else t.c_bytes
    cdef gemv_t kernel = gemv_kernel(plan, call)
    cdef bint y_direct = (call.cs_c == t.part and call.store.alpha_is_one and call.store.beta_kind != 2
                          and (plan.raw or not t.narrows) and not call.store.conj & 2)
    # x @ conj(B) is the conjugate of conj(x) @ B.
    cdef bint turns_x = call.store.conj == 1 or call.store.conj == 2
    cdef bint x_direct = (kernel != t.gemv_columns or call.cs_a == t.part) and not t.converts and not turns_x
    cdef Py_ssize_t n_chunk = col1 - col0 if y_direct else GEMV_CHUNK
    cdef Py_ssize_t k_chunk = plan.k if x_direct else GEMV_CHUNK
    cdef char* x_space = space
    cdef char* y_space = space + GEMV_CHUNK * item
    cdef const char* x
    cdef const char* b
    cdef char* y
    cdef Py_ssize_t j = col0, p, n, k, inc_x
    cdef store_t store = call.store
    store.alpha_is_one = True
    store.offset = NULL
    store.far, store.reach_l2 = far_b(plan, call), reach_b(plan, call)
    if call.offsets != NULL:
        store.offset = call.offsets + 1
    while j < col1:
        n = n_chunk if j + n_chunk < col1 else col1 - j
        y = call.c + j * call.cs_c * size_c if y_direct else y_space
        store.beta_kind = call.store.beta_kind if y_direct else 0
        store.column = j
        p = 0
        while p < plan.k:
            k = k_chunk if p + k_chunk < plan.k else plan.k - p
            x = call.a + p * call.cs_a * size_ab
            b = call.b + (p * call.rs_b + j * call.cs_b) * size_ab
            inc_x = call.cs_a
            if not x_direct:
                t.pack_a(k, 1, x, 0, call.cs_a, x_space, 0, t.part, call.offsets, 0)
                if turns_x:
                    conjugate(x_space, k, t.real_bytes)
                x = x_space
                inc_x = t.part
            kernel(k, n, x, inc_x, b, call.rs_b, call.cs_b, y, t.part, &store)
            store.beta_kind = 1
            p += k
        if call.finish != NULL:
            call.finish(1, n, y, 0, call.terms, 0, j)
        if not y_direct:
            if call.store.conj & 2:
                conjugate(y_space, n, t.real_bytes)
            t.update(1, n, y, 0, call.c + j * call.cs_c * size_c, 0, call.cs_c, &call.store, 0, j)
        j += n
