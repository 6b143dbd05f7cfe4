"""A right operand that is packed once: filling its panels, and products that read them.

Panels lie one after the other, each with all of k (and what packing appends to it), so nothing depends on the blocks or
the threads of the call that reads them:

    panel 0: k rows of nv vectors | panel 1: k rows of nv vectors | ...      as `cut(vectors of C, nv)` cuts them
"""

from libc.string cimport memset

cimport numpy as cnp

from fastgemm._call cimport FLOATS, NO_MEMORY, disjoint, make_ready
from fastgemm.driver._plan cimport Plan, cache_get, cache_put, generation, kernels_at, key_t, problem_of, ready_letter
from fastgemm.driver._team cimport run_plan, threads_now
from fastgemm.driver.abi cimport finish_t, kernels_t, offset_t, quant_t
from fastgemm.driver.structs cimport call_t, ceil_div, cut, grid_t, letter, panel_start, plan_t
from fastgemm.float_errors cimport clear_flags, report_flags

from fastgemm import dispatch, heuristic_packed, registry
from fastgemm.plan import Plan as _Plan
from fastgemm.problem import MAX_DIM

cnp.import_array()
cnp.import_ufunc()


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
    """

    def __init__(self, isa, family, row, Py_ssize_t k, Py_ssize_t n, int nv):
        if not (0 < k <= MAX_DIM and 0 < n <= MAX_DIM) or nv not in [wide for _, wide in registry.registers(row, isa)]:
            raise ValueError(f"no panels of {nv} vectors for a {k} x {n} matrix of {row.name}")
        self.isa, self.family, self.row = isa, family, row
        self.level, self.own = isa.level, bool(family.tiers)
        self.family_code = registry.FAMILIES.index(family)
        cdef const kernels_t* t = kernels_at(self.level, self.family_code, row.code)
        self.k, self.n, self.nv = k, n, nv
        self.length, self.group, self.appended = t.length, t.group, t.appended
        self.steps = ceil_div(k, t.group) + t.appended
        self.grid = cut(ceil_div(n * t.part, t.length), nv)
        self.nbytes = ceil_div(n * t.part, t.length) * t.length * t.real_bytes * self.steps
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
        memset(&offset, 0, sizeof(offset))
        offset.is_unsigned = b.dtype.kind == "u"
        if zero is not None:
            if not cnp.PyArray_ISCARRAY_RO(<cnp.ndarray>zero) or zero.dtype.name != "int32" \
                    or zero.size not in (1, self.n):
                raise ValueError("the zero points do not fit the panels")
            offset.zero, offset.step = <const int*>cnp.PyArray_DATA(<cnp.ndarray>zero), zero.size > 1
        cdef Py_ssize_t columns = self.n * part
        cdef grid_t grid = self.grid
        cdef Py_ssize_t row_bytes = self.steps * t.length * t.real_bytes
        with nogil:
            for j in range(grid.panels):
                v = panel_start(&grid, j)
                wide = panel_start(&grid, j + 1) - v
                live = min(wide * t.length, columns - v * t.length)
                t.pack_b(self.k, live, wide, data + v * t.length // part * cs * size, rs, cs,
                         out + v * row_bytes, &offset, v * t.length // part)
        self.zero, self.is_unsigned = zero, offset.is_unsigned
        self.memory, self.data = memory, out

    def panel(self, Py_ssize_t at):
        """Return the first vector of panel `at`, its vectors, and its first byte; raise IndexError behind the last."""
        if not 0 <= at < self.grid.panels:
            raise IndexError(at)
        v = panel_start(&self.grid, at)
        return v, panel_start(&self.grid, at + 1) - v, v * (self.nbytes // panel_start(&self.grid, self.grid.panels))


cdef int find(Panels b, int code, char la, Py_ssize_t m, int threads, plan_t* plan) except -1:
    # The plan of a product with these panels, from the cache where it is there.
    cdef key_t key
    key.m, key.n, key.k, key.batch = m, b.n, b.k, 1
    key.kind = ((generation() << 40) | (<unsigned long long>threads << 24) | (<unsigned long long>la << 16)
                | (<unsigned long long>ready_letter(b.level, b.own, b.nv) << 8) | <unsigned long long>code)
    if cache_get(&key, plan):
        return 0
    problem = problem_of(&key)
    config = heuristic_packed.config(problem, b.isa, b.nv)
    # The sums of a dot product are exact, whole k or not.
    if not b.appended and dispatch.fixed_kc():
        config = config.replace(kc=dispatch.fixed_kc())
    cdef Plan found = _Plan(problem, config, ready=True)
    plan[0] = found.plan
    cache_put(&key, plan)
    return 0


cdef int ready_call(Panels b, cnp.ndarray a, cnp.ndarray c, int code, call_t* call) except -1:
    # What the driver is told of c = a @ b; strides in whole components have been seen to.
    cdef const kernels_t* t = kernels_at(b.level, b.family_code, code)
    cdef Py_ssize_t size = t.ab_bytes, size_c = t.c_bytes
    if (a.ndim != 2 or c.ndim != 2 or a.shape[1] != b.k or c.shape[1] != b.n or a.shape[0] != c.shape[0]
            or a.shape[0] == 0 or b.memory is None):
        raise ValueError("the operands do not fit the panels")
    if not (cnp.PyArray_ISBEHAVED_RO(a) and cnp.PyArray_ISBEHAVED(c) and disjoint(a, c)):
        raise ValueError("operands must be aligned and apart from the output")
    memset(call, 0, sizeof(call_t))
    call.a, call.b, call.c = cnp.PyArray_BYTES(a), b.data, cnp.PyArray_BYTES(c)
    if a.strides[0] % size or a.strides[1] % size or c.strides[0] % size_c or c.strides[1] % size_c:
        raise ValueError("strides that are no whole numbers of components")
    call.rs_a, call.cs_a = a.strides[0] // size, a.strides[1] // size
    call.rs_c, call.cs_c = c.strides[0] // size_c, c.strides[1] // size_c
    if b.n == 1:
        call.cs_c = t.part
    call.store.alpha_is_one = True
    return 0


cdef int ready_product(Panels b, cnp.ndarray a, cnp.ndarray c, int code, finish_t finish, const void* terms,
                       const offset_t* offset_a, const quant_t* quant) except -1:
    # `offset_a`: what is subtracted from bytes; `quant`: how their sums are quantised.
    cdef call_t call
    cdef plan_t plan
    cdef offset_t offsets[2]
    cdef int failed
    make_ready()
    ready_call(b, a, c, code, &call)
    cdef const kernels_t* t = kernels_at(b.level, b.family_code, code)
    cdef char la = letter(a.shape[0], b.k, call.rs_a, call.cs_a, t.part)
    find(b, code, la, a.shape[0], threads_now(), &plan)
    call.finish, call.terms, call.store.terms = finish, terms, quant
    if b.group > 1 and b.row.exact:
        memset(offsets, 0, sizeof(offsets))
        offsets[0] = offset_a[0]
        call.offsets = offsets
        call.store.appended = ((offsets[0].zero != NULL or not offsets[0].is_unsigned)
                               + 2 * (b.zero is not None or b.is_unsigned))
    with nogil:
        failed = run_plan(&plan, &call)
    if failed == NO_MEMORY:
        raise MemoryError("no memory for a workspace")
    return 0


def product_into(Panels b, cnp.ndarray a, cnp.ndarray c, row, a_zero=None, terms=None):
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
    if a.dtype.name not in row.names or c.dtype.name not in ((row.result,) if row.result else row.names) \
            and not (row.name == "i8_q8" and c.dtype.name == "uint8"):
        raise TypeError(f"no product of {a.dtype} giving {c.dtype} by {row.name}")
    memset(&offset, 0, sizeof(offset))
    offset.is_unsigned = a.dtype.kind == "u"
    if a_zero is not None:
        if a_zero.dtype.name != "int32" or a_zero.size not in (1, a.shape[0]) or not a_zero.flags.carray:
            raise ValueError("the zero points do not fit")
        offset.zero, offset.step = <const int*>cnp.PyArray_DATA(<cnp.ndarray>a_zero), a_zero.size > 1
    if terms is not None:
        fill_terms(&quant, a.shape[0], b.n, terms)
    clear_flags()
    ready_product(b, a, c, code, NULL, NULL, &offset, &quant if terms is not None else NULL)
    if FLOATS[code]:
        report_flags(b"matmul")


cdef const float* numbers(cnp.ndarray array, Py_ssize_t most, Py_ssize_t* step) except NULL:
    if not cnp.PyArray_ISCARRAY_RO(array) or cnp.PyArray_TYPE(array) != cnp.NPY_FLOAT32 \
            or cnp.PyArray_SIZE(array) not in (1, most):
        raise ValueError("terms of a quantised product do not fit it")
    step[0] = 1 if cnp.PyArray_SIZE(array) > 1 else 0
    return <const float*>cnp.PyArray_DATA(array)


cdef int fill_terms(quant_t* q, Py_ssize_t m, Py_ssize_t n, tuple terms) except -1:
    left, right, scale, zero, both, low, high = terms
    memset(q, 0, sizeof(quant_t))
    q.left, q.right = numbers(left, m, &q.left_step), numbers(right, n, &q.right_step)
    q.scale, q.zero = numbers(scale, m, &q.scale_step), numbers(zero, m, &q.zero_step)
    q.both, q.low, q.high = both, low, high
    return 0
