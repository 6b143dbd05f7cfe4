"""matmul's inner loops: NumPy's and ours."""

from numpy cimport npy_intp

from fastgemm._call cimport MAX_CODES
from fastgemm.driver.abi cimport offset_t, quant_t

ctypedef void (*loop_t)(char**, const npy_intp*, const npy_intp*, void*) noexcept nogil

cdef extern from "numpy/ufuncobject.h":
    ctypedef struct PyUFuncObject:
        int ntypes
        int nargs
        loop_t* functions
        void** data
        const char* types
        const char* doc
        const char* core_signature
        void* type_resolver
        unsigned int* op_flags
        unsigned int iter_flags

# What stood in np.matmul for each of our dtypes when it was imported: the last rung.
cdef loop_t NUMPY_LOOPS[MAX_CODES]
cdef void* NUMPY_DATA[MAX_CODES]

# A gufunc loop of matmul with the dtype code for its data, and the same without the last rung: False where no kernel
# takes the call and nothing was done.
cdef void inner_loop(char** args, const npy_intp* dims, const npy_intp* steps, void* data) noexcept nogil
cdef struct extra_t:
    bint adds               # to what the result holds
    int conj                # complex numbers that are taken conjugate: 1 a's, 2 b's
    bint bytes              # dot products of bytes, which have
    offset_t offsets[2]     # of a and of b
    bint quantised
    quant_t terms

cdef bint taken_with(int code, char** args, const npy_intp* dims, const npy_intp* steps,
                     const extra_t* extra) noexcept nogil
cdef bint taken(int code, char** args, const npy_intp* dims, const npy_intp* steps) noexcept nogil
