"""Running a plan: what the hot path calls."""

from fastgemm.driver.structs cimport call_t, plan_t

cdef enum:
    OTHERWISE = 2

# 0; -1 when there was no memory for a workspace; nothing has been written then.  OTHERWISE, of a plan of limbs: there
# are numbers, or terms of the call, that it does not compute with, and C is what it may be: another plan has to do it.
cdef int run_plan(const plan_t* plan, const call_t* call) noexcept nogil

# A plan for one thread, by the thread that calls, in the a_bytes + b_bytes of workspace that it brings.
cdef void run_inside(const plan_t* plan, const call_t* call, char* space) noexcept nogil

# Items 0 : total of any other work, dealt out to a team of threads with `bytes` of workspace each, of which the last
# `zeros` are 0 before a thread's first item.  0, or -1 when there was no memory; nothing has been done then.
ctypedef void (*item_t)(const void* work, Py_ssize_t item, char* space) noexcept nogil
cdef int run_items(item_t run, const void* work, Py_ssize_t total, size_t bytes, size_t zeros,
                   int threads) noexcept nogil

cdef int threads_now() noexcept nogil
