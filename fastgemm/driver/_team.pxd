"""Running a plan: what the hot path calls."""

from fastgemm.driver.structs cimport call_t, plan_t

# 0, or -1 when there was no memory for a workspace; nothing has been written then.
cdef int run_plan(const plan_t* plan, const call_t* call) noexcept nogil

cdef int threads_now() noexcept nogil
