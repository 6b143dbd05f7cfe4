"""Floats that become bytes by a scale that is known only now, maybe of their own range: see `fastgemm.to_bytes`."""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.math cimport isfinite, rintf
from libc.string cimport memset

cimport numpy as cnp

from fastgemm._call cimport make_ready
from fastgemm.driver._team cimport run_items, threads_now
from fastgemm.driver.abi cimport row_terms_t, rows_t, span_t
from fastgemm.float_errors cimport clear_flags
from fastgemm.members cimport MAX_LEVEL
from fastgemm.terms cimport zero_point

from fastgemm import registry, row_operations

cnp.import_array()
cnp.import_ufunc()

cdef enum:
    # Numbers that one thread takes at a time: fewer are done by the caller alone.  (Zen 4, a script, two threads over
    # one, spans and bytes: 65536 numbers 1.2 to 1.3, 1.4 to 1.5, 131072 1.5, 1.65, 1048576 1.9, 1.9.)
    PIECE = 1 << 15
    PIECES = 64             # at most, for spans

# The functions of a table that make bytes, by their places, and the bytes of a number that they read.
cdef dict READS = {
    row_operations.row_index(op, x, y): registry.bytes_of(row_operations.ROW_TYPES[x])
    for op in [row_operations.row_op("cast")] for x, y in op.types if y in ("s8", "u8")
}
cdef const rows_t* TABLES[MAX_LEVEL]
cdef span_t SPANS[MAX_LEVEL]

cdef struct work_t:
    Py_ssize_t count, piece         # numbers in all, and of an item
    const char* x
    Py_ssize_t x_bytes              # of a number
    char* out
    span_t span
    rows_t rows
    const row_terms_t* terms
    float* found                    # two of each item


def add_tables(int level, object rows, object spans):
    """Take over a tier's functions for rows."""
    if not 0 <= level < MAX_LEVEL:
        raise ValueError(f"ISA level {level} out of range")
    TABLES[level] = <const rows_t*>PyCapsule_GetPointer(rows, "fastgemm.rows_t")
    SPANS[level] = <span_t>PyCapsule_GetPointer(spans, "fastgemm.span_t")


cdef inline Py_ssize_t live(const work_t* work, Py_ssize_t item) noexcept nogil:
    return min(work.piece, work.count - item * work.piece)


cdef void span_item(const void* work_, Py_ssize_t item, char* space) noexcept nogil:
    cdef const work_t* work = <const work_t*>work_
    work.span(live(work, item), <const float*>work.x + item * work.piece, work.found + 2 * item)


cdef void bytes_item(const void* work_, Py_ssize_t item, char* space) noexcept nogil:
    cdef const work_t* work = <const work_t*>work_
    cdef Py_ssize_t first = item * work.piece
    work.rows(1, live(work, item), <void*>(work.x + first * work.x_bytes), 0, work.out + first, 0, work.terms)


cdef int fill(work_t* work, int level, cnp.ndarray x) except -1:
    if not 0 <= level < MAX_LEVEL or TABLES[level] == NULL:
        raise ValueError("no operations on rows in this process")
    if not cnp.PyArray_ISCARRAY_RO(x):
        raise ValueError("numbers must lie side by side, aligned")
    memset(work, 0, sizeof(work_t))
    work.count, work.x, work.x_bytes = cnp.PyArray_SIZE(x), cnp.PyArray_BYTES(x), cnp.PyArray_ITEMSIZE(x)
    return 0


cdef int run(work_t* work, void (*item)(const void*, Py_ssize_t, char*) noexcept nogil) except -1:
    cdef int failed
    make_ready()
    with nogil:
        failed = run_items(item, work, (work.count + work.piece - 1) // work.piece, 0, 0, threads_now())
    clear_flags()
    if failed:
        raise MemoryError("no memory for a workspace")
    return 0


def scale_into(int level, cnp.ndarray x not None, cnp.ndarray out not None, otherwise):
    """Write the scale and the zero point of bytes from 0 to 255 over the range of `x` and 0 to the two of `out`.

    All are float32, in C order, `x` not empty.  Where the range or the scale is not finite, they are what `otherwise`
    makes of `x`.
    """
    cdef work_t work
    cdef float found[2 * PIECES]
    cdef float low = 0, high = 0, scale, zero
    cdef float* made
    cdef Py_ssize_t i
    fill(&work, level, x)
    if cnp.PyArray_TYPE(x) != cnp.NPY_FLOAT or cnp.PyArray_TYPE(out) != cnp.NPY_FLOAT or cnp.PyArray_SIZE(out) != 2 \
            or not cnp.PyArray_ISCARRAY(out) or work.count == 0:
        raise ValueError(f"no scale of {x.dtype} to {out.dtype}")
    work.span, work.found = SPANS[level], found
    work.piece = max(<Py_ssize_t>PIECE, (work.count + PIECES - 1) // PIECES)
    run(&work, span_item)
    for i in range((work.count + work.piece - 1) // work.piece):
        # (A minimum and a maximum would lose NaN.)
        if not isfinite(found[2 * i]) or not isfinite(found[2 * i + 1]):
            out[...] = otherwise(x)
            return
        low, high = min(low, found[2 * i]), max(high, found[2 * i + 1])
    scale = (high - low) / <float>255
    if not isfinite(scale):
        out[...] = otherwise(x)
        return
    if scale == 0:
        scale = 1
    zero = rintf(min(max(-low / scale, <float>0), <float>255))
    made = <float*>cnp.PyArray_DATA(out)
    made[0], made[1] = scale, zero


cdef float number(object given) except? -1:
    # One number, of an array of one element too.
    if cnp.PyArray_CheckExact(given) and cnp.PyArray_TYPE(given) == cnp.NPY_FLOAT32 and cnp.PyArray_SIZE(given) == 1 \
            and cnp.PyArray_ISBEHAVED_RO(given):
        return (<const float*>cnp.PyArray_DATA(<cnp.ndarray>given))[0]
    return <float><double>given


def bytes_into(int level, cnp.ndarray x not None, cnp.ndarray out not None, int index, scale, zero, otherwise=None):
    """Write the bytes nearest to ``x / scale``, plus `zero`, to `out`, by the cast of an index: see `row_index`.

    Both are in C order, of as many numbers and of the function's types; `scale` is a number or an array of one, `zero`
    too: see `zero_point`.  False, with nothing done but what `otherwise` does, where the scale is none: not above zero,
    or not finite.
    """
    cdef work_t work
    cdef row_terms_t terms
    fill(&work, level, x)
    work.rows = TABLES[level][index] if READS.get(index) == work.x_bytes else NULL
    if cnp.PyArray_SIZE(out) != work.count or not cnp.PyArray_ISCARRAY(out) or cnp.PyArray_ITEMSIZE(out) != 1 \
            or work.rows == NULL:
        raise ValueError(f"no bytes of {x.dtype} to {out.dtype}")
    memset(&terms, 0, sizeof(terms))
    terms.x_scale, terms.y_scale = 1, number(scale)
    if cnp.PyArray_CheckExact(zero):
        terms.y_zero = zero_point(zero, cnp.PyArray_TYPE(out) == cnp.NPY_UBYTE)
    else:
        terms.y_zero = <float><double>zero
    if not (terms.y_scale > 0 and isfinite(terms.y_scale)):
        if otherwise is not None:
            otherwise()
        return False
    if work.count:
        work.out, work.terms, work.piece = cnp.PyArray_BYTES(out), &terms, PIECE
        run(&work, bytes_item)
    return True
