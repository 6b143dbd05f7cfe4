"""A right operand that is packed once: filling its panels, and products that read them.

Panels lie one after the other, each with all of k (and what packing appends to it), so nothing depends on the blocks or
the threads of the call that reads them:

    panel 0: k rows of nv vectors | panel 1: k rows of nv vectors | ...      as `cut(vectors of C, nv)` cuts them
"""

from libc.string cimport memset

cimport numpy as cnp
from numpy cimport npy_intp

from fastgemm._call cimport (
    CODES, FLOATS, MAX_CODES, NO_MEMORY, TYPES, disjoint, lets_go, make_ready, matrix, operand_t,
)
from fastgemm._outputs cimport empty
from fastgemm._rows cimport NPY_HALF, row_for
from fastgemm.driver._kernels cimport kernels_at
from fastgemm.driver._plan cimport (
    Plan, beyond, cache_get, cache_put, followed, generation, key_t, problem_of, ready_letter,
)
from fastgemm.driver._team cimport run_plan, threads_now
from fastgemm.driver.abi cimport epilogue_t, finish_t, kernels_t, offset_t, pack_b_t, quant_t
from fastgemm.driver.structs cimport appended, call_t, ceil_div, cut, grid_t, letter, panel_start, plan_t, steps_of
from fastgemm.float_errors cimport clear_flags, report_flags
from fastgemm.terms cimport exact_sums, fill_offset, fill_terms

import numpy as np

from fastgemm import dispatch, registry
from fastgemm.problem import MAX_DIM

cnp.import_array()
cnp.import_ufunc()

# By the code of a row: of the row that packs alike, which the panels of one can be read for.
cdef int PACKING[MAX_CODES]
for _row in registry.DTYPES:
    PACKING[<int>_row.code] = registry.dtype(registry.packing(_row)).code


cdef class Panels:
    """A matrix in panels: the layout and the memory of a `fastgemm.packed.PackedMatrix`, which checks what it is given.

    Parameters
    ----------
    isa, family, row : registry rows
        Whose kernels pack it and multiply by it.
    k, n : int
        Its shape.
    nv : int
        Vectors of a panel.
    slim : bool
        Whether panels are to hold bytes as they are (`registry.Dot.slim`): signed ones without zero points.
    """

    def __init__(self, isa, family, row, Py_ssize_t k, Py_ssize_t n, int nv, bint slim=False):
        if not (0 < k <= MAX_DIM and 0 < n <= MAX_DIM) or nv not in [
                wide for _, wide in registry.registers(row, isa, family.name)]:
            raise ValueError(f"no panels of {nv} vectors for a {k} x {n} matrix of {row.name}")
        self.isa, self.family, self.row = isa, family, row
        self.kind = dispatch.Panels(isa.name, family.name, nv * registry.lanes(row, isa))
        self.level, self.family_code = isa.level, registry.FAMILIES.index(family)
        self.own = beyond(self.family_code)
        cdef const kernels_t* t = kernels_at(self.level, self.family_code, row.code)
        self.code, self.tables = row.code, t - <int>row.code
        self.bytes = row.group > 1
        self.k, self.n, self.nv = k, n, nv
        self.length, self.group, self.appended = t.length, t.group, t.appended
        self.steps = steps_of(t, k) + t.appended
        if slim and not t.slim_bytes:
            raise ValueError(f"{family.name} on {isa.name} has no slim panels of {row.name}")
        self.slim, self.unit = slim, t.slim_bytes if slim else t.real_bytes
        self.grid = cut(ceil_div(n * t.part, t.length), nv)
        self.nbytes = ceil_div(n * t.part, t.length) * t.length * self.unit * self.steps
        self.memory = None

    def fill(self, cnp.ndarray b, cnp.ndarray memory, zero):
        """Pack `b` into `memory`, `nbytes` of which this object keeps and reads from now on.

        `b` is (k, n), aligned, of the row's type; `zero` None, or contiguous int32 numbers: one, or one a column.
        """
        cdef const kernels_t* t = kernels_at(self.level, self.family_code, self.row.code)
        cdef Py_ssize_t size = t.ab_bytes, part = t.part, v, wide, live, j, rs, cs
        cdef offset_t offset
        cdef char* out = cnp.PyArray_BYTES(memory)
        cdef const char* data = cnp.PyArray_BYTES(b)
        if (b.ndim != 2 or b.shape[0] != self.k or b.shape[1] != self.n or b.dtype.name not in self.row.names
                or not cnp.PyArray_ISBEHAVED_RO(b)):
            raise ValueError("the matrix does not fit the panels")
        if not cnp.PyArray_ISCARRAY(memory) or memory.nbytes < self.nbytes or self.memory is not None:
            raise ValueError("no memory to pack into")
        if b.strides[0] % size or b.strides[1] % size:
            raise ValueError("strides that are no whole numbers of components")
        rs, cs = b.strides[0] // size, b.strides[1] // size
        fill_offset(&offset, b.dtype.kind == "u", zero, self.n)
        if self.slim and (offset.is_unsigned or offset.zero != NULL):
            raise ValueError("slim panels hold signed bytes that nothing is subtracted from")
        cdef pack_b_t pack = t.pack_slim if self.slim else t.pack_b
        cdef Py_ssize_t columns = self.n * part
        cdef grid_t grid = self.grid
        cdef Py_ssize_t row_bytes = self.steps * t.length * self.unit
        with nogil:
            for j in range(grid.panels):
                v = panel_start(&grid, j)
                wide = panel_start(&grid, j + 1) - v
                live = min(wide * t.length, columns - v * t.length)
                pack(self.k, live, wide, data + v * t.length // part * cs * size, rs, cs,
                     out + v * row_bytes, &offset, v * t.length // part)
        self.zero, self.is_unsigned = zero, offset.is_unsigned
        self.memory, self.data = memory, out

    def panel(self, Py_ssize_t at):
        """Return the first vector of panel `at`, its vectors, and its first byte; raise IndexError behind the last."""
        if not 0 <= at < self.grid.panels:
            raise IndexError(at)
        v = panel_start(&self.grid, at)
        return v, panel_start(&self.grid, at + 1) - v, v * (self.nbytes // panel_start(&self.grid, self.grid.panels))


cdef int find(Panels b, int code, char la, Py_ssize_t m, int threads, int epilogue, plan_t* plan) except -1:
    # The plan of a product with these panels, from the cache where it is there.
    cdef key_t key
    key.m, key.n, key.k, key.batch = m, b.n, b.k, 1
    key.kind = ((generation() << 40) | (<unsigned long long>threads << 24) | (<unsigned long long>la << 16)
                | (<unsigned long long>ready_letter(b.level, b.own, b.nv) << 8) | <unsigned long long>code
                | followed(epilogue))
    if cache_get(&key, plan):
        return 0
    cdef Plan found = dispatch.plan_for(problem_of(&key), b.kind)
    plan[0] = found.plan
    cache_put(&key, plan)
    return 0


cdef int run_ready(Panels b, int code, Py_ssize_t m, const operand_t* a, const operand_t* c, int epilogue,
                   finish_t finish, const void* terms, const offset_t* offset_a, const quant_t* quant) except -1:
    cdef const kernels_t* t = &b.tables[code]
    cdef Py_ssize_t size = t.ab_bytes, size_c = t.c_bytes
    cdef call_t call
    cdef plan_t plan
    cdef offset_t offsets[2]
    cdef int failed
    if PACKING[code] != PACKING[b.code] or t.pack_b == NULL or b.memory is None:
        raise ValueError("the panels were not packed for such a product")
    if a.rows % size or a.cols % size or c.rows % size_c or c.cols % size_c:
        return False
    make_ready()
    memset(&call, 0, sizeof(call_t))
    call.a, call.b, call.c = a.data, b.data, c.data
    call.rs_a, call.cs_a = a.rows // size, a.cols // size
    call.rs_c, call.cs_c = c.rows // size_c, c.cols // size_c
    if b.n == 1:
        call.cs_c = t.part
    call.store.alpha_is_one = True
    find(b, code, letter(m, b.k, call.rs_a, call.cs_a, t.part), m, threads_now(), epilogue, &plan)
    call.finish, call.terms, call.store.terms = finish, terms, quant
    call.slim = b.slim
    if finish != NULL:
        call.store.fused = (<const epilogue_t*>terms).fused
    if b.bytes:
        # B's own have been subtracted while it was packed.
        memset(offsets, 0, sizeof(offsets))
        offsets[0] = offset_a[0]
        call.offsets = offsets
        call.store.appended = appended(offset_a.zero != NULL, offset_a.is_unsigned, b.zero is not None, b.is_unsigned)
    if lets_go(<double>m * <double>b.n * <double>b.k):
        with nogil:
            failed = run_plan(&plan, &call)
    else:
        failed = run_plan(&plan, &call)
    if failed == NO_MEMORY:
        raise MemoryError("no memory for a workspace")
    return True


cdef int ready_product(Panels b, cnp.ndarray a, cnp.ndarray c, int code, int epilogue, finish_t finish,
                       const void* terms, const offset_t* offset_a, const quant_t* quant) except -1:
    # The same for arrays: `offset_a`: what is subtracted from bytes; `quant`: how their sums are quantised.
    cdef operand_t oa, oc
    if (a.ndim != 2 or c.ndim != 2 or a.shape[1] != b.k or c.shape[1] != b.n or a.shape[0] != c.shape[0]
            or a.shape[0] == 0):
        raise ValueError("the operands do not fit the panels")
    if not (cnp.PyArray_ISBEHAVED_RO(a) and cnp.PyArray_ISBEHAVED(c) and disjoint(a, c)):
        raise ValueError("operands must be aligned and apart from the output")
    oa, oc = matrix(a), matrix(c)
    if not run_ready(b, code, a.shape[0], &oa, &oc, epilogue, finish, terms, offset_a, quant):
        raise ValueError("strides that are no whole numbers of components")
    return 0


# NumPy makes a dtype's name anew each time it is asked (1.4 us).
cdef dict NAMES = {found.num: found.name for found in map(np.dtype, np.typecodes["All"])}


cdef str name_of(cnp.ndarray array):
    return NAMES.get(cnp.PyArray_TYPE(array)) or array.dtype.name


def product_into(Panels b not None, cnp.ndarray a not None, cnp.ndarray c not None, row, a_zero=None, terms=None):
    """Compute ``c = a @ b`` by a row of the registry that packs as these panels were packed.

    Parameters
    ----------
    b : Panels
    a, c : ndarray
        (m, k) and (m, n), not empty, of the row's types, aligned; they do not overlap.
    row : DType
    a_zero : ndarray of int32, optional
        Of bytes: one number, or one for each row of `a`; contiguous.
    terms : tuple, optional
        Of bytes: as `fastgemm._mixed.product` takes them.
    """
    cdef int code = row.code
    cdef offset_t offset
    cdef quant_t quant
    name, result = name_of(a), name_of(c)
    if name not in row.names or result not in ((row.result,) if row.result else row.names) \
            and not (row.name == "i8_q8" and result == "uint8"):
        raise TypeError(f"no product of {a.dtype} giving {c.dtype} by {row.name}")
    if (terms is not None) != (row.name == "i8_q8"):
        raise ValueError("terms belong to products that are quantised again, and those need them")
    fill_offset(&offset, cnp.PyArray_TYPE(a) == cnp.NPY_UBYTE, a_zero, a.shape[0])
    if terms is not None:
        fill_terms(&quant, a.shape[0], b.n, terms,
                   exact_sums(b.k, offset.is_unsigned or a_zero is not None, b.is_unsigned or b.zero is not None))
    clear_flags()
    ready_product(b, a, c, code, 0, NULL, NULL, &offset, &quant if terms is not None else NULL)
    if FLOATS[code]:
        report_flags(b"matmul")


# ---- calls -----------------------------------------------------------------------------------------------------------

cdef class Right:
    """What calls see of a `fastgemm.packed.PackedMatrix`.

    Parameters
    ----------
    panels : Panels or None
        None: NumPy computes.
    zero_point : ndarray or None
    dtype : dtype
    """

    def __init__(self, Panels panels, zero_point, cnp.dtype dtype):
        self.panels, self.zero_point, self.dtype = panels, zero_point, dtype
        self.number = dtype.num


cdef int lead_of(cnp.ndarray a, Py_ssize_t k, Py_ssize_t n, operand_t* operand, npy_intp* shape,
                 npy_intp* m) except -1:
    cdef int nd = cnp.PyArray_NDIM(a), d
    if not 1 <= nd <= MAX_NDIM or cnp.PyArray_DIM(a, nd - 1) != k or not cnp.PyArray_ISBEHAVED_RO(a):
        return False
    if nd > 2 and not cnp.PyArray_IS_C_CONTIGUOUS(a):
        return False
    m[0] = 1
    for d in range(nd - 1):
        shape[d] = cnp.PyArray_DIM(a, d)
        m[0] *= shape[d]
    shape[nd - 1] = n
    operand.data, operand.cols = cnp.PyArray_BYTES(a), cnp.PyArray_STRIDE(a, nd - 1)
    operand.rows = cnp.PyArray_STRIDE(a, nd - 2) if nd > 1 else 0
    return m[0] > 0


cdef cnp.ndarray output_of(object out, int type_num, int nd, npy_intp* shape, operand_t* operand):
    cdef cnp.ndarray c
    cdef int d
    if out is None:
        c = empty(nd, shape, type_num)
    elif cnp.PyArray_CheckExact(out):
        c = out
        if cnp.PyArray_TYPE(c) != type_num or cnp.PyArray_NDIM(c) != nd or not cnp.PyArray_ISCARRAY(c):
            return None
        for d in range(nd):
            if cnp.PyArray_DIM(c, d) != shape[d]:
                return None
    else:
        return None
    operand.data, operand.cols = cnp.PyArray_BYTES(c), cnp.PyArray_ITEMSIZE(c)
    operand.rows = shape[nd - 1] * operand.cols
    return c


cdef object quick(object x1, Right right, object out, object asked):
    cdef Panels b = right.panels
    cdef cnp.ndarray a, c
    cdef operand_t oa, oc
    cdef offset_t offset
    cdef npy_intp shape[MAX_NDIM]
    cdef npy_intp m
    cdef int code, type_num, result
    if b is None or right.zero_point is not None or not cnp.PyArray_CheckExact(x1):
        return None
    a = x1
    type_num = result = cnp.PyArray_TYPE(a)
    if asked is None and type_num == right.number and <unsigned int>type_num < TYPES and (
            out is None or type_num != NPY_HALF):
        code = CODES[type_num]
    else:
        code = row_for(type_num, right.number, out, asked, &result)
    # Products of bytes that wrap have a row that packs in another way: 32-bit sums are cut for them elsewhere.
    if code < 0 or PACKING[code] != PACKING[b.code] or not lead_of(a, b.k, b.n, &oa, shape, &m):
        return None
    c = output_of(out, result, cnp.PyArray_NDIM(a), shape, &oc)
    if c is None or out is not None and not disjoint(a, c):
        return None
    offset.zero, offset.step, offset.is_unsigned = NULL, 0, type_num == cnp.NPY_UBYTE
    cdef bint floats = FLOATS[code]
    if floats:
        clear_flags()
    if not run_ready(b, code, m, &oa, &oc, 0, NULL, NULL, &offset, NULL):
        return None
    if floats:
        report_flags(b"matmul")
    return c


def product(a, Right b, out, dtype):
    """Return ``a @ b``, as `fastgemm.packed.PackedMatrix.product` does; None where something has to be converted."""
    return quick(a, b, out, dtype)
