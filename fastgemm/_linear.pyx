"""Products with an epilogue: arrays in, the driver's call out."""

from cpython.pycapsule cimport PyCapsule_GetPointer

cimport numpy as cnp

from fastgemm._call cimport CODES, TYPES
from fastgemm._gemm cimport finished
from fastgemm._packed cimport Panels, ready_product
from fastgemm.driver.abi cimport epilogue_t, finish_t
from fastgemm.driver.floats cimport FG_REPORTED, fg_float_state, fg_set_float_state
from fastgemm.float_errors cimport clear_flags

from fastgemm import registry

cnp.import_array()

cdef enum:
    MAX_LEVEL = 8           # ISA tiers are numbered below this

cdef const finish_t* TABLES[MAX_LEVEL]
cdef int KINDS = len(registry.FINISHED) + 1, ROWS = len(registry.EPILOGUES)
_KINDS = {registry.dtype(name).code: at for at, name in enumerate((*registry.FINISHED, registry.DEQUANTISED))}
# Halves are finished in the type that they are computed in.
_HALVES = {row.code: registry.dtype(row.lane) for row in registry.DTYPES if row.stored in ("f16", "bf16")}


def add_table(int level, object capsule):
    """Take over a tier's functions."""
    if not 0 <= level < MAX_LEVEL:
        raise ValueError(f"ISA level {level} out of range")
    TABLES[level] = <const finish_t*>PyCapsule_GetPointer(capsule, "fastgemm.finish_t")


cdef finish_t finish_of(int level, int dtype_code, int code) except NULL:
    kind = _KINDS.get(dtype_code)
    if not (0 <= level < MAX_LEVEL and 0 <= code < ROWS) or kind is None or TABLES[level] == NULL:
        raise ValueError(f"no epilogue {code} for dtype {dtype_code} in this process")
    return TABLES[level][code * KINDS + <int>kind]


cdef int code_of(cnp.ndarray c) except -1:
    # The dtype code of an array, of a type that NumPy does not know by number too.
    cdef int type_num = cnp.PyArray_TYPE(c)
    if type_num < TYPES and CODES[type_num] >= 0:
        return CODES[type_num]
    return registry.dtype(c.dtype.name).code


cdef finish_t prepare(int level, cnp.ndarray c, int code, bias, residual, double p, double q,
                      epilogue_t* terms) except NULL:
    # `bias` has one number or as many as `c` has columns, `residual` the shape of `c`; both in C order and of its type,
    # or float32 beside halves.
    cdef cnp.ndarray array
    half = _HALVES.get(code_of(c))
    cdef finish_t finish = finish_of(level, half.code if half else code_of(c), code)
    cdef int type_num = cnp.NPY_FLOAT32 if half else cnp.PyArray_TYPE(c)
    if cnp.PyArray_NDIM(c) != 2 or not cnp.PyArray_ISCARRAY(c):
        raise ValueError("an epilogue's output is a matrix in C order")
    for name, operand, sizes in (("bias", bias, (1, c.shape[1])), ("residual", residual, (c.shape[0] * c.shape[1],))):
        if operand is None:
            continue
        array = operand
        if (cnp.PyArray_TYPE(array) != type_num or not cnp.PyArray_ISCARRAY_RO(array)
                or array.size not in sizes):
            raise ValueError(f"the {name} does not fit the output")
    terms.bias = cnp.PyArray_BYTES(bias) if bias is not None else NULL
    terms.bias_step = bias is not None and bias.size != 1
    terms.residual = cnp.PyArray_BYTES(residual) if residual is not None else NULL
    terms.rs_residual = cnp.PyArray_DIM(c, 1)
    terms.p, terms.q = p, q
    return finish


def product_into(int level, cnp.ndarray a, cnp.ndarray b, cnp.ndarray c, int code, bias, residual, double p, double q):
    """Compute ``c = f(a @ b + bias + residual)``; return False where no kernel takes it, with nothing done.

    The arrays are two-dimensional, of one dtype of `registry.FINISHED` or halves (bias and residual then float32),
    aligned, not empty; `c` is in C order and overlaps nothing that is read: `fastgemm.linear` sees to it.
    """
    cdef epilogue_t terms
    cdef finish_t finish = prepare(level, c, code, bias, residual, p, q, &terms)
    return bool(finished(a, b, c, code_of(c), finish, &terms))


def packed_into(int level, cnp.ndarray a, Panels b, cnp.ndarray c, int code, bias, residual, double p, double q):
    """Compute ``c = f(a @ b + bias + residual)`` where `b` is packed: of the type of `a` and `c`."""
    cdef epilogue_t terms
    cdef finish_t finish = prepare(level, c, code, bias, residual, p, q, &terms)
    if cnp.PyArray_TYPE(a) != cnp.PyArray_TYPE(c) or b.row.code != code_of(c):
        raise ValueError(f"{a.dtype} and a packed {b.row.numpy} do not give {c.dtype}")
    ready_product(b, a, c, b.row.code, finish, &terms, NULL, NULL)
    clear_flags()


def finish_into(int level, cnp.ndarray c, int code, bias, residual, double p, double q):
    """Do the same to a product that another way has computed: ``c = f(c + bias + residual)`` in place."""
    cdef epilogue_t terms
    cdef finish_t finish = prepare(level, c, code, bias, residual, p, q, &terms)
    if code_of(c) in _HALVES:
        raise ValueError(f"{c.dtype} has been rounded already")
    with nogil:
        finish(cnp.PyArray_DIM(c, 0), cnp.PyArray_DIM(c, 1), cnp.PyArray_BYTES(c), cnp.PyArray_DIM(c, 1), &terms, 0, 0)
    fg_set_float_state(fg_float_state() & ~FG_REPORTED)
