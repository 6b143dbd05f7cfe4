"""Small products: what the team calls."""

from fastgemm.driver.structs cimport call_t, plan_t

cdef void small(const plan_t* plan, const call_t* call, Py_ssize_t items,
                Py_ssize_t row0, Py_ssize_t row1, Py_ssize_t vec0, Py_ssize_t vec1) noexcept nogil
cdef void last_columns(const plan_t* plan, const call_t* call, Py_ssize_t items,
                       Py_ssize_t row0, Py_ssize_t row1) noexcept nogil
