"""Products, or stacks of them, whose result is of another type than its operands."""

from libc.string cimport memset
from numpy cimport npy_intp

cimport numpy as cnp

from fastgemm._call cimport FLOATS, make_ready
from fastgemm._gufunc cimport extra_t, taken_with
from fastgemm.float_errors cimport clear_flags, report_flags
from fastgemm.terms cimport exact_sums, fill_offset, fill_terms

from fastgemm import registry

cnp.import_array()
cnp.import_ufunc()

_ROWS = {row.name: row for row in registry.DTYPES}


def product(cnp.ndarray a not None, cnp.ndarray b not None, cnp.ndarray out not None, str kind, a_zero=None,
            b_zero=None, terms=None):
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
        float32 arrays ``left, right, scale, zero``, and ``both, low, high``: see `quant_t`.  `left` may have a number
        for each row, `right` for each column.

    Notes
    -----
    Floating-point errors are reported as `np.errstate` says.
    """
    row = _ROWS[kind]
    clear_flags()
    cdef bint done = written(a, b, out, row, a_zero, b_zero, terms)
    if done and FLOATS[<int>row.code]:
        report_flags(b"matmul")
    return done


def products(items, str kind):
    """Do the same for each of several (a, b, out), whose floating-point errors are reported once, at the end."""
    row = _ROWS[kind]
    clear_flags()
    for a, b, out in items:
        if not written(a, b, out, row, None, None, None):
            return False
    if FLOATS[<int>row.code]:
        report_flags(b"matmul")
    return True


cdef bint written(cnp.ndarray a, cnp.ndarray b, cnp.ndarray out, row, a_zero, b_zero, terms) except -1:
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
    extra.bytes = row.group > 1
    if extra.bytes:
        fill_offset(&extra.offsets[0], cnp.PyArray_TYPE(a) == cnp.NPY_UBYTE, a_zero, dims[1])
        fill_offset(&extra.offsets[1], cnp.PyArray_TYPE(b) == cnp.NPY_UBYTE, b_zero, dims[3])
    extra.quantised = terms is not None
    if extra.quantised:
        fill_terms(&extra.terms, dims[1], dims[3], terms, exact_sums(
            dims[2], extra.offsets[0].is_unsigned or a_zero is not None,
            extra.offsets[1].is_unsigned or b_zero is not None))
    make_ready()
    with nogil:
        done = taken_with(code, args, dims, steps, &extra)
    return done
