"""A product with an epilogue, for other compiled modules."""

from numpy cimport npy_intp

from fastgemm._call cimport operand_t
from fastgemm.driver.abi cimport finish_t

# c = finish(a @ b), floating-point flags cleared; False where no kernel takes it, with nothing done.  c's columns are
# adjacent where there is a `finish` (not NULL), whose code is `epilogue`.  `level` is the active tier's.
cdef int finished(int level, const operand_t* a, const operand_t* b, const operand_t* c, npy_intp m, npy_intp n,
                  npy_intp k, int code, int epilogue, finish_t finish, const void* terms) except -1
