"""What a plan's tiles fetch ahead."""

from fastgemm.driver.structs cimport plan_t

cdef int look_ahead(plan_t* plan, problem, tier) except -1
