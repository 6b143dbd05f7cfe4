"""Which row of the registry answers a call that asks for a type."""

cimport numpy as cnp

cdef extern from "numpy/ndarraytypes.h":
    enum:
        NPY_HALF
        NPY_USERDEF

# The code of the row, and NumPy's number of the result's type; -1 where no row does, or not for an `out` like that.
cdef int row_for(cnp.ndarray a, cnp.ndarray b, object out, object asked, int* result) except -2
# The row for bytes summed in 32 bits: its calls name the signs of the operands.
cdef int BYTES
