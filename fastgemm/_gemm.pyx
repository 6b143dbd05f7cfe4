"""One product of two matrices, with factors or with what a layer does to its result."""

from libc.string cimport memset

cimport numpy as cnp
from numpy cimport npy_intp

from fastgemm._call cimport CODES, MAX_CODES, NO_MEMORY, describe, execute, lets_go, make_ready, matrix, operand_t
from fastgemm._outputs cimport empty
from fastgemm.driver._kernels cimport kernels_at
from fastgemm.driver._plan cimport followed, key_t
from fastgemm.driver.abi cimport epilogue_t, finish_t, kernels_t, store_t
from fastgemm.driver.structs cimport call_t
from fastgemm.float_errors cimport clear_flags, report_flags

from fastgemm import registry

cnp.import_array()
cnp.import_ufunc()


# By the code of halves: that of the same product with sums of float32 as its result; -1: none.
cdef int SUMS[MAX_CODES]
for _i in range(MAX_CODES):
    SUMS[_i] = -1
for _row in registry.DTYPES:
    if _row.halves:
        SUMS[<int>_row.code] = registry.product_row(_row.numpy, _row.numpy, "float32").code


cdef int finished(int level, const operand_t* a, const operand_t* b, const operand_t* c, npy_intp m, npy_intp n,
                  npy_intp k, int code, int epilogue, finish_t finish, const void* terms) except -1:
    cdef int failed
    cdef call_t call
    cdef key_t key
    make_ready()
    cdef int way = describe(code, m, n, k, 1, a, b, c, &call, &key)
    # Of an output that is computed by columns no part is a finished row: all of it, which is few rows, follows then.
    cdef bint later = way == 2 and n > 1 and finish != NULL
    if not way:
        return False
    if later and SUMS[code] >= 0:
        return rounded_later(level, a, b, c, m, n, k, code, finish, terms)
    if not later:
        key.kind |= followed(epilogue)
        call.finish, call.terms = finish, terms
        if finish != NULL:
            call.store.fused = (<const epilogue_t*>terms).fused
    if lets_go(<double>m * <double>n * <double>k):
        with nogil:
            failed = execute(&key, &call)
            if later and failed == 0:
                finish(m, n, call.c, call.cs_c, terms, 0, 0)
    else:
        failed = execute(&key, &call)
        if later and failed == 0:
            finish(m, n, call.c, call.cs_c, terms, 0, 0)
    clear_flags()
    if failed == NO_MEMORY:
        raise MemoryError("no memory for a workspace")
    return failed == 0


cdef int rounded_later(int level, const operand_t* a, const operand_t* b, const operand_t* c, npy_intp m, npy_intp n,
                       npy_intp k, int code, finish_t finish, const void* terms) except -1:
    # Few rows of halves whose output is computed by columns: sums beside it, which are finished and then rounded.
    cdef call_t call
    cdef key_t key
    cdef npy_intp[2] shape = [m, n]
    cdef cnp.ndarray made = empty(2, shape, cnp.NPY_FLOAT)      # of memory that is kept for outputs
    cdef operand_t sums = matrix(made)
    cdef int failed
    cdef store_t store
    cdef const kernels_t* t = kernels_at(level, 0, code)
    memset(&store, 0, sizeof(store))
    store.alpha_is_one = True
    if not describe(SUMS[code], m, n, k, 1, a, b, &sums, &call, &key):
        return False
    with nogil:
        failed = execute(&key, &call)
        if failed == 0:
            finish(m, n, sums.data, n, terms, 0, 0)
            t.update(m, n, sums.data, n, c.data, c.rows // t.c_bytes, 1, &store, 0, 0)
    clear_flags()
    if failed == NO_MEMORY:
        raise MemoryError("no memory for a workspace")
    return failed == 0


def gemm_into(cnp.ndarray a not None, cnp.ndarray b not None, cnp.ndarray c not None, double complex alpha,
              double complex beta, bint conj_a=False, bint conj_b=False):
    """Compute ``c = alpha * a @ b + beta * c`` in place, `a` or `b` conjugate; return False where no kernel takes it.

    The arrays are two-dimensional, of one dtype with kernels, aligned, not empty, and `c` overlaps neither of the
    others: `fastgemm.gemm` sees to it.
    """
    cdef int failed, way
    cdef call_t call
    cdef key_t key
    cdef operand_t oa = matrix(a), ob = matrix(b), oc = matrix(c)
    make_ready()
    way = describe(CODES[cnp.PyArray_TYPE(a)], cnp.PyArray_DIM(c, 0), cnp.PyArray_DIM(c, 1), cnp.PyArray_DIM(a, 1), 1,
                   &oa, &ob, &oc, &call, &key)
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
