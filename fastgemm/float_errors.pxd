"""Floating-point errors of a call: flags cleared before it, and NumPy told of them after it.

A module that cimports this calls `numpy.import_ufunc` first.
"""

from fastgemm.driver.floats cimport (
    FG_DIVIDE, FG_INVALID, FG_OVERFLOW, FG_REPORTED, FG_UNDERFLOW, fg_float_state, fg_set_float_state,
)

cdef extern from "numpy/ufuncobject.h":
    int PyUFunc_GiveFloatingpointErrors(const char*, int) except -1
    enum:
        NPY_FPE_DIVIDEBYZERO
        NPY_FPE_OVERFLOW
        NPY_FPE_UNDERFLOW
        NPY_FPE_INVALID


cdef inline void clear_flags() noexcept nogil:
    cdef unsigned state = fg_float_state()
    if state & FG_REPORTED:
        fg_set_float_state(state & ~FG_REPORTED)


cdef inline int report_flags(const char* name) except -1:
    # Tell NumPy what happened in the function of this name, so that np.errstate decides.
    cdef unsigned state = fg_float_state()
    cdef int errors = 0
    if not state & FG_REPORTED:
        return 0
    fg_set_float_state(state & ~FG_REPORTED)
    if state & FG_INVALID:
        errors |= NPY_FPE_INVALID
    if state & FG_OVERFLOW:
        errors |= NPY_FPE_OVERFLOW
    if state & FG_DIVIDE:
        errors |= NPY_FPE_DIVIDEBYZERO
    if state & FG_UNDERFLOW:
        errors |= NPY_FPE_UNDERFLOW
    return PyUFunc_GiveFloatingpointErrors(name, errors)
