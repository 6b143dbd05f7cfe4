"""The blocked loops: what the team calls."""

from fastgemm.driver.abi cimport store_t
from fastgemm.driver.structs cimport call_t, grid_t, plan_t

cdef void macrokernel(
    const plan_t* plan, const call_t* call, const store_t* store,
    const char* a, Py_ssize_t rs_a, Py_ssize_t cs_a, bint a_panels,
    const char* b, bint b_packed, Py_ssize_t b_steps, Py_ssize_t b_first,
    Py_ssize_t row, const grid_t* rows, Py_ssize_t vec, const grid_t* vecs, Py_ssize_t kc,
    int tail) noexcept nogil

# A product of one block, by a plan that is `whole`, and whether a call of it can be done so.
cdef bint takes_whole(const plan_t* plan, const call_t* call) noexcept nogil
cdef void whole(const plan_t* plan, const call_t* call, char* a_space, char* b_space) noexcept nogil

cdef void blocked(
    const plan_t* plan, const call_t* call,
    Py_ssize_t row0, Py_ssize_t row1, Py_ssize_t vec0, Py_ssize_t vec1,
    Py_ssize_t items, char* a_space, char* b_space) noexcept nogil
