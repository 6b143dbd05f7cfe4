"""Running a plan: what the hot path calls."""

from fastgemm.driver.structs cimport call_t, plan_t

# 0, or -1 when there was no memory for a workspace; nothing has been written then.
cdef int run_plan(const plan_t* plan, const call_t* call) noexcept nogil

# A plan for one thread, by the thread that calls, in the a_bytes + b_bytes of workspace that it brings.
cdef void run_inside(const plan_t* plan, const call_t* call, char* space) noexcept nogil

# Items 0 : total of any other work, dealt out to a team of threads with `bytes` of workspace each.  0, or -1 when there
# was no memory; nothing has been done then.
ctypedef void (*item_t)(const void* work, Py_ssize_t item, char* space) noexcept nogil
cdef int run_items(item_t run, const void* work, Py_ssize_t total, size_t bytes, int threads) noexcept nogil

# Work that is done step after step, each shared by all threads, which wait for one another in between.  `run` takes
# pieces of a step from its counter, among so many threads, and returns the share of the step that it did.  `shared` is
# one workspace that all see, `space` the thread's own; both have `bytes`, and the first thread's are the same.
ctypedef double (*step_t)(const void* work, int step, Py_ssize_t* taken, int team, char* shared,
                          char* space) noexcept nogil
cdef enum:
    MOST_STEPS = 32
cdef int run_steps(step_t run, const void* work, int steps, size_t bytes, int threads) noexcept nogil

# Pieces of a plan's work, taken from a counter; returns the share that this thread did.
cdef double run_pieces(const plan_t* plan, const call_t* call, char* space, Py_ssize_t* taken, int team) noexcept nogil

cdef int threads_now() noexcept nogil
