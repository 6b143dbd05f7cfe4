"""The functions of epilogues, for other compiled modules."""

from fastgemm.driver.abi cimport epilogue_t, finish_t

# The function of a row of activations.EPILOGUES for outputs of a dtype, both by their codes, on a loaded tier.
cdef finish_t finish_of(int level, int dtype_code, int code) except NULL
cdef int fused_of(int code, const epilogue_t* terms) noexcept nogil
