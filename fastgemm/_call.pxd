"""From a call to a plan, for every module that has operands to multiply."""

cimport numpy as cnp
from numpy cimport npy_intp

from fastgemm.driver._plan cimport key_t
from fastgemm.driver.structs cimport call_t

cdef enum:
    TYPES = 32              # NumPy's built-in type numbers lie below
    MAX_CODES = 16          # registry codes lie below
    NO_KERNEL = 1
    NO_MEMORY = -1
    # Real multiply-adds above which the GIL is let go: handing it over and back costs 20 to 50 ns.
    RELEASE_GIL = 16384

# dtype code of each NumPy type number, -1 where there are no kernels.
cdef int CODES[TYPES]
cdef bint FLOATS[MAX_CODES]     # whether there are floating-point flags to report

cdef struct operand_t:
    char* data
    npy_intp rows, cols     # strides in bytes

# Fill in call and key, with C row-major or, where `problem.turns`, by columns.  Returns 1, 2 where that took exchanging
# the operands, and 0 where the strides are no whole numbers of components.
cdef int describe(
    int code, npy_intp m, npy_intp n, npy_intp k, npy_intp batch,
    const operand_t* a, const operand_t* b, const operand_t* c,
    call_t* call, key_t* key) noexcept nogil

# 0; NO_KERNEL: nothing was done and NumPy has to do it; NO_MEMORY.
cdef int execute(const key_t* key, const call_t* call) noexcept nogil

# What can fail in a first call, and whether it is behind us.
cdef bint READY
cdef int make_ready() except -1

# True where the memory of two arrays cannot overlap.
cdef bint disjoint(cnp.ndarray x, cnp.ndarray y) noexcept


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
