"""Products of a matrix and its own transpose: half of the work."""

from fastgemm.driver.pieces cimport fg_pieces
from fastgemm.driver.structs cimport call_t, plan_t

# Pieces of a call that computes A @ A.T or A.T @ A and gains by knowing it; 0 for every other call.
cdef Py_ssize_t symmetric_pieces(const plan_t* plan, const call_t* call) noexcept nogil

# Take pieces until none is left; returns how many were done.
cdef Py_ssize_t symmetric_runs(
    const plan_t* plan, const call_t* call, char* space, fg_pieces* dealt, Py_ssize_t pieces) noexcept nogil
