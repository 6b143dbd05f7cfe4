"""Panels, as compiled modules see them."""

cimport numpy as cnp

from fastgemm.driver.abi cimport finish_t, offset_t, quant_t
from fastgemm.driver.structs cimport grid_t, plan_t

cdef class Panels:
    cdef readonly object isa, family, row, memory, zero
    cdef readonly Py_ssize_t k, n, steps, nbytes
    cdef readonly int nv, length, group, appended
    cdef readonly bint is_unsigned
    cdef int level, family_code
    cdef bint own
    cdef grid_t grid
    cdef char* data

# The plan for m rows whose layout letter is `la`.
cdef int find(Panels b, int code, char la, Py_ssize_t m, int threads, plan_t* plan) except -1

# c = finish(a @ b), see `product_into`.
cdef int ready_product(Panels b, cnp.ndarray a, cnp.ndarray c, int code, finish_t finish, const void* terms,
                       const offset_t* offset_a, const quant_t* quant) except -1
