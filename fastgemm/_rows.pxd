"""Which row of the registry answers a call that asks for a type."""

cdef extern from "numpy/ndarraytypes.h":
    enum:
        NPY_HALF
        NPY_USERDEF

# The code of the row for operands of two types, and NumPy's number of the result's; -1 where no row does, or not for an
# `out` like that.
cdef int row_for(int first, int second, object out, object asked, int* result) except -2
# Whether a number is that of ml_dtypes' bfloat16, and the row for products of those that are rounded to it.
cdef bint is_bfloat16(int number) except -1
cdef int BFLOAT
# The row for bytes summed in 32 bits: its calls name the signs of the operands.
cdef int BYTES
