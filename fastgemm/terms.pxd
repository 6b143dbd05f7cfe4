"""What a product of bytes is told besides its operands, filled in from arrays that are checked here.

A module that cimports this calls `numpy.import_array` first.
"""

from libc.string cimport memset

cimport numpy as cnp

from fastgemm.driver.abi cimport offset_t, quant_t


cdef inline int fill_offset(offset_t* offset, bint is_unsigned, zero, Py_ssize_t most) except -1:
    # The sign of an operand's bytes and its zero points: None, one number, or `most`, one for each row or column.
    cdef cnp.ndarray array
    offset.is_unsigned, offset.zero, offset.step = is_unsigned, NULL, 0
    if zero is None:
        return 0
    array = zero
    if cnp.PyArray_TYPE(array) != cnp.NPY_INT32 or not cnp.PyArray_ISCARRAY_RO(array) \
            or cnp.PyArray_SIZE(array) not in (1, most):
        raise ValueError("the zero points do not fit the operand")
    offset.zero, offset.step = <const int*>cnp.PyArray_DATA(array), cnp.PyArray_SIZE(array) > 1
    return 0


cdef inline int zero_point(cnp.ndarray array, bint is_unsigned) except? -1000:
    # The byte that an array of one element holds: as it is, or as a float32 that is cast as NumPy does.
    if cnp.PyArray_SIZE(array) != 1 or not cnp.PyArray_ISBEHAVED_RO(array):
        raise ValueError("a zero point is one number")
    cdef const void* data = cnp.PyArray_DATA(array)
    cdef float single
    cdef int found = 0
    if cnp.PyArray_TYPE(array) == cnp.NPY_FLOAT32:
        single = (<const float*>data)[0]
        if -2147483648.0 < single < 2147483648.0:
            found = <int>single
    elif cnp.PyArray_TYPE(array) == (cnp.NPY_UBYTE if is_unsigned else cnp.NPY_BYTE):
        found = (<const unsigned char*>data)[0]
    else:
        raise ValueError(f"no zero point is {array.dtype}")
    # (Of an expression with both, Cython would make one of the two types.)
    if is_unsigned:
        return <unsigned char>found
    return <signed char>found


cdef inline const float* numbers(cnp.ndarray array, Py_ssize_t most, Py_ssize_t* step) except NULL:
    if not cnp.PyArray_ISCARRAY_RO(array) or cnp.PyArray_TYPE(array) != cnp.NPY_FLOAT32 \
            or cnp.PyArray_SIZE(array) not in (1, most):
        raise ValueError("terms of a quantised product do not fit it")
    step[0] = 1 if cnp.PyArray_SIZE(array) > 1 else 0
    return <const float*>cnp.PyArray_DATA(array)


cdef inline bint exact_sums(Py_ssize_t k, bint wide_a, bint wide_b) noexcept nogil:
    # Whether no sum of k products of bytes less their zero points is beyond 2^24.  Those of an operand that is signed
    # and has none are up to 128, all others (`wide`) up to 255.
    return k <= (1 << 24) // ((255 if wide_a else 128) * (255 if wide_b else 128))


cdef inline int fill_terms(quant_t* q, Py_ssize_t m, Py_ssize_t n, tuple terms, bint exact) except -1:
    # `terms`: float32 arrays left, right, scale and zero, and both, low, high: see `quant_t`.  Left has one number or
    # one for each of m rows, right for each of n columns; the others have one, for either way round.
    left, right, scale, zero, both, low, high = terms
    memset(q, 0, sizeof(quant_t))
    q.left, q.right = numbers(left, m, &q.left_step), numbers(right, n, &q.right_step)
    q.scale, q.zero = numbers(scale, 1, &q.scale_step), numbers(zero, 1, &q.zero_step)
    q.both, q.low, q.high = both, low, high
    q.exact = exact
    return 0
