"""Strips of columns: what the loops call."""

from fastgemm.driver.structs cimport call_t, plan_t

cdef void strips(const plan_t* plan, const call_t* call, Py_ssize_t row0, Py_ssize_t row1,
                 Py_ssize_t vec0, Py_ssize_t vec1, char* space) noexcept nogil
