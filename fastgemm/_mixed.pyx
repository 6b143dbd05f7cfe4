"""One product, or one stack of them, whose result is of another type than its operands."""

from libc.string cimport memset
from numpy cimport npy_intp

cimport numpy as cnp

from fastgemm._call cimport make_ready
from fastgemm._gufunc cimport extra_t, taken_with

from fastgemm import registry

cnp.import_array()


cdef const float* floats(cnp.ndarray array, Py_ssize_t* step) except NULL:
    step[0] = 1 if cnp.PyArray_SIZE(array) > 1 else 0
    return <const float*>cnp.PyArray_DATA(array)


cdef int subtract(extra_t* extra, int which, cnp.ndarray operand, zero) except -1:
    # Tell the kernels of an operand's sign and zero points.
    extra.offsets[which].is_unsigned = cnp.PyArray_TYPE(operand) == cnp.NPY_UINT8
    if zero is not None:
        extra.offsets[which].zero = <const int*>cnp.PyArray_DATA(<cnp.ndarray>zero)
        extra.offsets[which].step = 1 if cnp.PyArray_SIZE(<cnp.ndarray>zero) > 1 else 0
    return 0


def product(cnp.ndarray a, cnp.ndarray b, cnp.ndarray out, str kind, a_zero=None, b_zero=None, terms=None):
    """Write ``(a - a_zero) @ (b - b_zero)`` to `out`; return False where no kernel takes it.

    Parameters
    ----------
    a, b, out : ndarray
        (m, k), (k, n) and (m, n), or stacks of as many of them; aligned, not empty, `out` overlapping neither.
    kind : str
        The registry's row: it names the types of all three.
    a_zero, b_zero : ndarray of int32, optional
        Contiguous, of one number or one for each row of `a`, or column of `b`.
    terms : tuple, optional
        float32 arrays ``left, right, scale, zero``, and ``both, low, high``: see `quant_t`.
    """
    row = registry.dtype(kind)
    cdef int code = row.code, last = cnp.PyArray_NDIM(a) - 1, i
    cdef extra_t extra
    cdef char* args[3]
    cdef npy_intp dims[4]
    cdef npy_intp steps[9]
    cdef tuple arrays = (a, b, out)
    cdef bint done
    cdef cnp.ndarray array
    if not 1 <= last <= 2 or cnp.PyArray_NDIM(b) != last + 1 or cnp.PyArray_NDIM(out) != last + 1:
        raise ValueError("a product takes matrices or stacks of them")
    memset(&extra, 0, sizeof(extra))
    for i in range(3):
        array = arrays[i]
        args[i] = cnp.PyArray_BYTES(array)
        steps[i] = cnp.PyArray_STRIDE(array, 0) if last == 2 else 0
        steps[3 + 2 * i], steps[4 + 2 * i] = cnp.PyArray_STRIDE(array, last - 1), cnp.PyArray_STRIDE(array, last)
    dims[0] = cnp.PyArray_DIM(out, 0) if last == 2 else 1
    dims[1], dims[2], dims[3] = cnp.PyArray_DIM(a, last - 1), cnp.PyArray_DIM(a, last), cnp.PyArray_DIM(b, last)
    if row.group > 1:
        subtract(&extra, 0, a, a_zero)
        subtract(&extra, 1, b, b_zero)
    if terms is not None:
        left, right, scale, zero, both, low, high = terms
        extra.quantised = True
        extra.terms.left = floats(left, &extra.terms.left_step)
        extra.terms.right = floats(right, &extra.terms.right_step)
        extra.terms.scale = floats(scale, &extra.terms.scale_step)
        extra.terms.zero = floats(zero, &extra.terms.zero_step)
        extra.terms.both, extra.terms.low, extra.terms.high = both, low, high
    make_ready()
    with nogil:
        done = taken_with(code, args, dims, steps, &extra if row_is_dot(code) else NULL)
    return done


cdef bint DOTS[64]
memset(DOTS, 0, sizeof(DOTS))
for _row in registry.DTYPES:
    DOTS[<int>_row.code] = _row.group > 1


cdef inline bint row_is_dot(int code) noexcept nogil:
    return DOTS[code]
