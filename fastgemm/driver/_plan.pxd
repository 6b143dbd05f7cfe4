"""The compiled face of a plan: what the hot path includes."""

from fastgemm.driver.structs cimport plan_t

cdef struct key_t:
    Py_ssize_t m, n, k, batch
    unsigned long long kind     # dtype, layout letters, threads, what follows, generation

cdef enum:
    # Of `kind`, in A's letter: the plan is one that computes with every number (`run_plan` returned OTHERWISE).
    VECTORS = 1 << 23

cdef bint cache_get(const key_t* key, plan_t* plan) noexcept nogil
cdef void cache_put(const key_t* key, const plan_t* plan) noexcept nogil
cdef unsigned long long generation() noexcept nogil
cdef bint counting() noexcept nogil
cdef object problem_of(const key_t* key)
cdef unsigned long long followed(int epilogue) noexcept nogil
cdef int ready_letter(int level, int family, int nv) noexcept nogil
cdef int beyond(int family) except -1

cdef class Plan:
    cdef plan_t plan
    cdef readonly object problem, config
