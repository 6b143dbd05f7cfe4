"""From a call to a plan, for every module that has operands to multiply."""

cimport numpy as cnp
from numpy cimport npy_intp

from fastgemm.driver._plan cimport key_t
from fastgemm.driver.abi cimport special_t
from fastgemm.driver.structs cimport call_t, plan_t

cdef enum:
    TYPES = 32              # NumPy's built-in type numbers lie below
    MAX_CODES = 16          # registry codes lie below
    NO_KERNEL = 1
    NO_MEMORY = -1
    # Real multiply-adds above which the GIL is let go.  Two Python threads, f32, ns a call with the GIL let go and with
    # it held: 24^3 227 and 234, 32^3 314 and 340, 40^3 431 and 720, 48^3 574 and 1000.
    RELEASE_GIL = 1 << 15
    # And up to which a thread remembers a product, and holds the GIL if there is no other (`lets_go`).
    REMEMBERED = 1 << 21

# dtype code of each NumPy type number, -1 where there are no kernels.
cdef int CODES[TYPES]
cdef bint FLOATS[MAX_CODES]     # whether there are floating-point flags to report

cdef struct operand_t:
    char* data
    npy_intp rows, cols     # strides in bytes

cdef struct form_t:
    # What a plan depends on: all of a call but the addresses.
    unsigned long long kind     # dtype, threads, generation
    npy_intp m, n, k, a_rows, a_cols, b_rows, b_cols, c_rows, c_cols

cdef struct remembered_t:
    form_t form
    int way             # as `describe` returned it
    const special_t* special    # the plan's, where it takes the call
    call_t call         # of which the addresses are the last call's
    plan_t plan

# Fill in call and key, with C row-major or, where `turns`, by columns.  Returns 1, 2 where that took exchanging
# the operands, and 0 where the strides are no whole numbers of components.
cdef int describe(
    int code, npy_intp m, npy_intp n, npy_intp k, npy_intp batch,
    const operand_t* a, const operand_t* b, const operand_t* c,
    call_t* call, key_t* key) noexcept nogil

# 0; NO_KERNEL: nothing was done and NumPy has to do it; NO_MEMORY.
cdef int execute(const key_t* key, const call_t* call) noexcept nogil

# Each thread keeps the plans of its last small products as they were described, so that the next such call need not be
# (f32, speed of the new call over the old one, with `out` 4^3 1.54, 16^3 1.36, without 1.26 and 1.19).  What is kept of
# a product of this form, if it is; compute C by it (0, or NO_MEMORY); both at once, whether C is computed (two calls
# from another module take 2 ns longer); and keep what `describe` said of a call.
cdef remembered_t* remembered(int code, npy_intp m, npy_intp n, npy_intp k,
                              const operand_t* a, const operand_t* b, const operand_t* c) noexcept nogil
cdef int repeat(remembered_t* known, const operand_t* a, const operand_t* b, const operand_t* c) noexcept nogil
cdef bint again(int code, npy_intp m, npy_intp n, npy_intp k,
                const operand_t* a, const operand_t* b, const operand_t* c) noexcept nogil
cdef void remember(int code, npy_intp m, npy_intp n, npy_intp k, const operand_t* a, const operand_t* b,
                   const operand_t* c, int way, const call_t* call, const key_t* key) noexcept nogil

cdef extern from *:
    """
    /* Whether this interpreter has no other Python thread.  One that waits for something else counts as well. */
    static inline int fg_only_thread(void) {
        return PyThreadState_Next(PyInterpreterState_ThreadHead(PyInterpreterState_Get())) == NULL;
    }
    """
    bint fg_only_thread() noexcept


cdef inline bint lets_go(double products) noexcept:
    # Whether others should have the GIL during so many multiply-adds.  To let it go and take it back costs 45 ns, and
    # 20 more behind the stores of a fresh output: its locks wait for them (f32, what a call costs over its kernel, 48^3
    # 180 and 138 ns, 64^3 155 and 108), which a program of one thread has nothing from.
    return products > RELEASE_GIL and (products > REMEMBERED or not fg_only_thread())


# What can fail in a first call, and whether it is behind us.
cdef bint READY
cdef int make_ready() except -1

# True where the memory of two arrays cannot overlap.
cdef bint disjoint(cnp.ndarray x, cnp.ndarray y) noexcept

# The same for matrices of so many rows and columns.
cdef inline bint apart(const operand_t* x, npy_intp rows, npy_intp cols, npy_intp size,
                       const operand_t* y, npy_intp rows_y, npy_intp cols_y, npy_intp size_y) noexcept nogil:
    return (end(x, rows, cols, size) <= begin(y, rows_y, cols_y)
            or end(y, rows_y, cols_y, size_y) <= begin(x, rows, cols))


cdef inline char* begin(const operand_t* x, npy_intp rows, npy_intp cols) noexcept nogil:
    return x.data + min(0, (rows - 1) * x.rows) + min(0, (cols - 1) * x.cols)


cdef inline char* end(const operand_t* x, npy_intp rows, npy_intp cols, npy_intp size) noexcept nogil:
    return x.data + max(0, (rows - 1) * x.rows) + max(0, (cols - 1) * x.cols) + size


cdef inline operand_t matrix(cnp.ndarray array) noexcept:
    cdef operand_t made
    made.data, made.rows, made.cols = (
        cnp.PyArray_BYTES(array), cnp.PyArray_STRIDE(array, 0), cnp.PyArray_STRIDE(array, 1))
    return made


cdef inline void fold(npy_intp* m, npy_intp* batch, const operand_t* a, const operand_t* c,
                      npy_intp step_a, npy_intp step_b, npy_intp step_c) noexcept nogil:
    # A stack whose products share B and whose rows of A, and of C, are evenly spaced throughout, is one product.
    if batch[0] > 1 and step_b == 0 and step_a == m[0] * a.rows and step_c == m[0] * c.rows:
        m[0] *= batch[0]
        batch[0] = 1
