"""A vector by a matrix: what the team calls."""

from fastgemm.driver.structs cimport call_t, plan_t

cdef bint gemv_of_stack(const plan_t* plan, call_t* call, Py_ssize_t items) noexcept nogil
cdef void gemv(
    const plan_t* plan, const call_t* call, Py_ssize_t col0, Py_ssize_t col1, char* space) noexcept nogil
cdef Py_ssize_t at_line(const plan_t* plan, const call_t* call, Py_ssize_t column) noexcept nogil
