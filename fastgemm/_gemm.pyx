"""One product of two matrices, with factors or with what a layer does to its result."""

cimport numpy as cnp
from numpy cimport npy_intp

from fastgemm._call cimport CODES, NO_MEMORY, describe, execute, make_ready, operand_t
from fastgemm.driver._plan cimport key_t
from fastgemm.driver.abi cimport finish_t
from fastgemm.driver.structs cimport call_t
from fastgemm.float_errors cimport clear_flags, report_flags

cnp.import_array()
cnp.import_ufunc()


cdef int matrices(cnp.ndarray a, cnp.ndarray b, cnp.ndarray c, int code,
                  call_t* call, key_t* key) except -1:
    # `describe` for two-dimensional arrays.
    cdef operand_t oa, ob, oc
    make_ready()
    oa.data, oa.rows, oa.cols = cnp.PyArray_BYTES(a), cnp.PyArray_STRIDE(a, 0), cnp.PyArray_STRIDE(a, 1)
    ob.data, ob.rows, ob.cols = cnp.PyArray_BYTES(b), cnp.PyArray_STRIDE(b, 0), cnp.PyArray_STRIDE(b, 1)
    oc.data, oc.rows, oc.cols = cnp.PyArray_BYTES(c), cnp.PyArray_STRIDE(c, 0), cnp.PyArray_STRIDE(c, 1)
    return describe(code, cnp.PyArray_DIM(c, 0), cnp.PyArray_DIM(c, 1), cnp.PyArray_DIM(a, 1), 1,
                    &oa, &ob, &oc, call, key)


cdef int finished(cnp.ndarray a, cnp.ndarray b, cnp.ndarray c, int code, finish_t finish,
                  const void* terms) except -1:
    cdef int failed, way
    cdef call_t call
    cdef key_t key
    cdef npy_intp m = cnp.PyArray_DIM(c, 0), n = cnp.PyArray_DIM(c, 1)
    way = matrices(a, b, c, code, &call, &key)
    if not way:
        return False
    # Of an output that is computed by columns no part is a finished row: then all of it, which is few rows, afterwards.
    if way == 1 or n == 1:
        call.finish, call.terms = finish, terms
    with nogil:
        failed = execute(&key, &call)
        if failed == 0 and call.finish == NULL:
            finish(m, n, call.c, call.cs_c, terms, 0, 0)
    clear_flags()
    if failed == NO_MEMORY:
        raise MemoryError("no memory for a workspace")
    return failed == 0


def gemm_into(cnp.ndarray a, cnp.ndarray b, cnp.ndarray c, double complex alpha, double complex beta,
              bint conj_a=False, bint conj_b=False):
    """Compute ``c = alpha * a @ b + beta * c`` in place, `a` or `b` conjugate; return False where no kernel takes it.

    The arrays are two-dimensional, of one dtype with kernels, aligned, not empty, and `c` overlaps neither of the
    others: `fastgemm.gemm` sees to it.
    """
    cdef int failed, way
    cdef call_t call
    cdef key_t key
    way = matrices(a, b, c, CODES[cnp.PyArray_TYPE(a)], &call, &key)
    if not way:
        return False
    if cnp.PyArray_ISCOMPLEX(c):
        # The second way computes the transpose, and its first operand is b.
        call.store.conj = conj_a | conj_b << 1 if way == 1 else conj_b | conj_a << 1
    call.store.alpha_is_one = alpha == 1
    call.store.beta_kind = 0 if beta == 0 else (1 if beta == 1 else 2)
    call.store.alpha[0], call.store.alpha[1] = alpha.real, alpha.imag
    call.store.beta[0], call.store.beta[1] = beta.real, beta.imag
    clear_flags()
    with nogil:
        failed = execute(&key, &call)
    if failed == NO_MEMORY:
        raise MemoryError("no memory for a workspace")
    if failed:
        return False
    report_flags(b"matmul")
    return True
