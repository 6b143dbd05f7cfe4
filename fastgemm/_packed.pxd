"""Panels, as compiled modules see them, and calls with them."""

cimport numpy as cnp
from numpy cimport npy_intp

from fastgemm._call cimport operand_t
from fastgemm.driver.abi cimport finish_t, kernels_t, offset_t, quant_t
from fastgemm.driver.structs cimport grid_t, plan_t

cdef enum:
    MAX_NDIM = 32           # dimensions of operands that need no Python on the way

cdef class Panels:
    cdef readonly object isa, family, row, memory, zero
    cdef readonly object kind       # whose panels, for `fastgemm.dispatch`
    cdef readonly Py_ssize_t k, n, steps, nbytes
    cdef readonly int nv, length, group, appended
    cdef readonly int unit          # bytes of a component: of a group of numbers of k
    cdef readonly bint is_unsigned, slim
    cdef int level, family_code, code
    cdef const kernels_t* tables    # by the code of a row
    cdef int own                    # which of the families beyond the tier, or 0
    cdef bint bytes
    cdef grid_t grid
    cdef char* data

cdef class Right:
    cdef readonly Panels panels
    cdef readonly object zero_point, dtype
    cdef int number                 # NumPy's, of the type

# The plan for m rows whose layout letter is `la`; `epilogue` is the code of an activation that follows, 0 for none.
cdef int find(Panels b, int code, char la, Py_ssize_t m, int threads, int epilogue, plan_t* plan) except -1

# c = finish(a @ b) for m rows, by the row of a code, in memory that has been checked; False where strides are no whole
# numbers of components.  And for arrays, see `product_into`.
cdef int run_ready(Panels b, int code, Py_ssize_t m, const operand_t* a, const operand_t* c, int epilogue,
                   finish_t finish, const void* terms, const offset_t* offset_a, const quant_t* quant) except -1
cdef int ready_product(Panels b, cnp.ndarray a, cnp.ndarray c, int code, int epilogue, finish_t finish,
                       const void* terms, const offset_t* offset_a, const quant_t* quant) except -1

# An array of any dimensions as `m` rows, and the shape of its product with a matrix; False where that takes a copy.
cdef int lead_of(cnp.ndarray a, Py_ssize_t k, Py_ssize_t n, operand_t* operand, npy_intp* shape,
                 npy_intp* m) except -1
# A fresh output in C order, or `out`; None where that one cannot be written to as it is.
cdef cnp.ndarray output_of(object out, int type_num, int nd, npy_intp* shape, operand_t* operand)

# The product with an array that is read as it lies, None where the general way is needed.
cdef object quick(object x1, Right right, object out, object asked)
