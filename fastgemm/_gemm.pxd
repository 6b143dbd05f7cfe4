"""One product of two matrices, for other compiled modules."""

from numpy cimport ndarray

from fastgemm.driver.abi cimport finish_t

# c = finish(a @ b); False where no kernel takes it.  Two-dimensional arrays of one float dtype (`code`), aligned, not
# empty, `c` in C order and overlapping neither of the others.  No floating-point error is reported.
cdef int finished(ndarray a, ndarray b, ndarray c, int code, finish_t finish, const void* terms) except -1
