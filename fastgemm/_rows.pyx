"""Which row of the registry answers a call that asks for a type, or whose operands' type is not NumPy's own.

The fast half of `fastgemm.mixed`: plain arrays, and types that a number names.
"""

from cpython.exc cimport PyErr_Clear
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF

cimport numpy as cnp

from fastgemm._call cimport CODES, TYPES

import numpy as np

from fastgemm import numpy_types, registry

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    ctypedef struct PyArray_Descr:
        pass

    int PyArray_DescrConverter(PyObject*, PyArray_Descr**)

BYTES = registry.dtype("i8_i32").code
cdef int HALF_SINGLE = registry.dtype("f16_f32").code
cdef int BFLOAT_SINGLE = registry.dtype("bf16_f32").code
BFLOAT = registry.dtype("bf16").code
cdef object INT32 = np.int32
cdef object FLOAT32 = np.float32
# NumPy's number of ml_dtypes' bfloat16, once it has been met.
cdef int BFLOAT16 = -1


cdef int number_of(object asked) except -2:
    # NumPy's number of a type in native byte order; -1: something else, the general way says what.
    cdef PyArray_Descr* made = NULL
    cdef int found = -1
    # The types that these calls name most, at once; NumPy takes 60 ns to convert one.
    if asked is INT32:
        return cnp.NPY_INT32
    if asked is FLOAT32:
        return cnp.NPY_FLOAT
    if PyArray_DescrConverter(<PyObject*>asked, &made) and made != NULL:
        if (<cnp.dtype>made).byteorder != c">":
            found = (<cnp.dtype>made).num
        Py_XDECREF(<PyObject*>made)
        return found
    Py_XDECREF(<PyObject*>made)
    PyErr_Clear()
    return -1


cdef bint is_bfloat16(int number) except -1:
    global BFLOAT16
    if number == BFLOAT16 or number < NPY_USERDEF or BFLOAT16 >= 0:
        return number == BFLOAT16
    kind = numpy_types.bfloat16()
    if kind is None or kind.num != number:
        return False
    BFLOAT16 = number
    return True


cdef int row_for(int first, int second, object out, object asked, int* result) except -2:
    cdef int wanted = -1
    if asked is not None:
        wanted = number_of(asked)
        if wanted < 0:
            return -1
    if (first == cnp.NPY_BYTE or first == cnp.NPY_UBYTE) and (second == cnp.NPY_BYTE or second == cnp.NPY_UBYTE) \
            and wanted == cnp.NPY_INT32:
        # An int32 `out` alone does not ask for that: NumPy's integers wrap in their own width.
        result[0] = wanted
        return BYTES
    if first != second:
        return -1
    if out is not None and wanted < 0:
        if not cnp.PyArray_Check(out):
            return -1
        wanted = cnp.PyArray_TYPE(<cnp.ndarray>out)
    if <unsigned int>first < TYPES:
        result[0] = wanted
        if wanted == first:
            return CODES[first]
        return HALF_SINGLE if first == NPY_HALF and wanted == cnp.NPY_FLOAT else -1
    if not is_bfloat16(first):
        return -1
    if wanted == first:
        result[0] = first
        return BFLOAT
    result[0] = cnp.NPY_FLOAT
    return BFLOAT_SINGLE if wanted < 0 or wanted == cnp.NPY_FLOAT else -1
