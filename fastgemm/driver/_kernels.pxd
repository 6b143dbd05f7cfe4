"""The loaded kernels: where plans and packed operands find them."""

from fastgemm.driver.abi cimport kernels_t

cdef const kernels_t* table_of(int level, int family, int code) except NULL
cdef const kernels_t* kernels_at(int level, int family, int code) except NULL
