"""matmul as a gufunc: `np.matmul` to the letter, with our inner loops for the dtypes that have kernels.

NumPy's own machinery, type resolver and loops stay; a call that no kernel takes is answered by the loop that stood in
`np.matmul` for its dtype when this was imported.
"""

from libc.stdlib cimport malloc

cimport numpy as cnp
from numpy cimport npy_intp

from fastgemm._call cimport CODES, TYPES, describe, execute, fold, operand_t
from fastgemm.driver._plan cimport key_t
from fastgemm.driver.abi cimport offset_t, quant_t
from fastgemm.driver.structs cimport appended, call_t

import numpy as np

cnp.import_array()
cnp.import_ufunc()

cdef extern from "numpy/ufuncobject.h":
    object PyUFunc_FromFuncAndDataAndSignature(
        loop_t*, void**, const char*, int, int, int, int, const char*, const char*, int, const char*)


cdef bint taken(int code, char** args, const npy_intp* dims, const npy_intp* steps) noexcept nogil:
    return taken_with(code, args, dims, steps, NULL)


cdef bint taken_with(int code, char** args, const npy_intp* dims, const npy_intp* steps,
                     const extra_t* extra) noexcept nogil:
    # dims: outer, m, k, n.  steps: outer of a, b, c; then rows and columns of a, b, c.
    cdef int way
    cdef operand_t a, b, c
    cdef call_t call
    cdef key_t key
    cdef npy_intp m = dims[1], batch = dims[0]
    cdef offset_t offsets[2]
    cdef quant_t terms
    if dims[0] <= 0 or dims[1] <= 0 or dims[2] <= 0 or dims[3] <= 0:
        return False
    a.data, a.rows, a.cols = args[0], steps[3], steps[4]
    b.data, b.rows, b.cols = args[1], steps[5], steps[6]
    c.data, c.rows, c.cols = args[2], steps[7], steps[8]
    # Rows that have numbers of their own stay those of one product.
    if extra == NULL or not (extra.offsets[0].step or extra.terms.left_step):
        fold(&m, &batch, &a, &c, steps[0], steps[1], steps[2])
    way = describe(code, m, dims[3], dims[2], batch, &a, &b, &c, &call, &key)
    if not way:
        return False
    if batch > 1:
        call.step_a, call.step_b, call.step_c = steps[way - 1], steps[2 - way], steps[2]
    if extra != NULL and extra.adds:
        call.store.beta_kind, call.store.beta[0] = 1, 1
    if extra != NULL and extra.bytes:
        offsets[0], offsets[1] = extra.offsets[way - 1], extra.offsets[2 - way]
        call.offsets = offsets
        call.store.appended = appended(offsets[0].zero != NULL, offsets[0].is_unsigned,
                                       offsets[1].zero != NULL, offsets[1].is_unsigned)
        if extra.quantised:
            terms = extra.terms
            if way == 2:
                terms.left, terms.right = extra.terms.right, extra.terms.left
                terms.left_step, terms.right_step = extra.terms.right_step, extra.terms.left_step
            call.store.terms = &terms
    elif extra != NULL:
        call.store.conj = extra.conj if way == 1 else extra.conj >> 1 | (extra.conj & 1) << 1
    return execute(&key, &call) == 0


cdef void inner_loop(char** args, const npy_intp* dims, const npy_intp* steps, void* data) noexcept nogil:
    cdef int code = <int>(<size_t>data)
    if not taken(code, args, dims, steps):
        NUMPY_LOOPS[code](args, dims, steps, NUMPY_DATA[code])


cdef object make_gufunc():
    if not isinstance(np.matmul, np.ufunc):
        raise ImportError(f"fastgemm reads the loops of np.matmul, which is no ufunc here but {np.matmul!r}: import "
                          "fastgemm before what replaces it")
    cdef PyUFuncObject* model = <PyUFuncObject*>np.matmul
    cdef int i, code
    # Never freed: a ufunc keeps the pointers, and this one lives as long as the process.
    cdef loop_t* functions = <loop_t*>malloc(model.ntypes * sizeof(loop_t))
    cdef void** data = <void**>malloc(model.ntypes * sizeof(void*))
    if functions == NULL or data == NULL:
        raise MemoryError
    for i in range(model.ntypes):
        functions[i] = model.functions[i]
        data[i] = model.data[i] if model.data != NULL else NULL
        code = CODES[model.types[i * model.nargs]] if model.types[i * model.nargs] < TYPES else -1
        if code >= 0:
            NUMPY_LOOPS[code], NUMPY_DATA[code] = functions[i], data[i]
            functions[i], data[i] = inner_loop, <void*><size_t>code
    made = PyUFunc_FromFuncAndDataAndSignature(
        functions, data, model.types, model.ntypes, 2, 1, -1, "matmul", model.doc, 0, model.core_signature)
    (<PyUFuncObject*>made).type_resolver = model.type_resolver
    # How operands that overlap are copied, among others: matmul's flags are not a gufunc's defaults.
    (<PyUFuncObject*>made).iter_flags = model.iter_flags
    for i in range(model.nargs):
        (<PyUFuncObject*>made).op_flags[i] = model.op_flags[i]
    return made


gufunc = make_gufunc()
