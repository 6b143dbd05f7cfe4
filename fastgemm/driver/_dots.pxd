"""Dot products: what the team calls."""

from fastgemm.driver.abi cimport offset_t
from fastgemm.driver.structs cimport call_t, plan_t

cdef offset_t[2] NO_OFFSETS

cdef bint dots_of_stack(const plan_t* plan, const call_t* call, Py_ssize_t items) noexcept nogil
cdef void dots(const plan_t* plan, const call_t* call, Py_ssize_t row0, Py_ssize_t row1,
               Py_ssize_t col0, Py_ssize_t col1, char* space) noexcept nogil
