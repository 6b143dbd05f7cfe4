"""matmul: the drop-in for `np.matmul`.

Two ways lead to the kernels:

* a fast path for plain arrays of one dtype, matrices, vectors, or one stack of them;
* a gufunc of our own for everything else that plain data can ask for (stacks, casts, ``out`` that overlaps,
  ``axes``, ``order``, ``signature``...).  It is `np.matmul` to the letter (NumPy's own machinery, type
  resolver, and loops), with the inner loops replaced for the dtypes that have kernels.

Subclasses and objects with an ``__array_ufunc__`` go to `np.matmul` itself, because they may ask which
ufunc called them.
"""

from libc.stdlib cimport malloc

cimport numpy as cnp
from numpy cimport npy_intp

from fastgemm.driver.abi cimport finish_t
from fastgemm.driver._plan cimport Plan, cache_get, cache_put, generation, key_t, problem_of
from fastgemm.driver._team cimport run_plan, threads_now
from fastgemm.driver.structs cimport call_t, letter, plan_t
from fastgemm.driver.floats cimport (
    FG_DIVIDE, FG_INVALID, FG_OVERFLOW, FG_REPORTED, FG_UNDERFLOW, fg_float_state, fg_set_float_state,
)

import sys
from collections import namedtuple

import numpy as np

from fastgemm import dispatch, kernels, numpy_types, registry
from fastgemm.problem import MAX_DIM

cnp.import_array()
cnp.import_ufunc()

cdef extern from "numpy/ufuncobject.h":
    object PyUFunc_FromFuncAndDataAndSignature(
        loop_t*, void**, const char*, int, int, int, int, const char*, const char*, int, const char*)
    int PyUFunc_GiveFloatingpointErrors(const char*, int) except -1
    enum:
        NPY_FPE_DIVIDEBYZERO
        NPY_FPE_OVERFLOW
        NPY_FPE_UNDERFLOW
        NPY_FPE_INVALID

cdef enum:
    NO_KERNEL = 1
    NO_MEMORY = -1
    # Real multiply-adds above which the GIL is let go: handing it over and back costs 20 to 50 ns.
    RELEASE_GIL = 16384

cdef int PARTS[MAX_CODES]
cdef int AB_BYTES[MAX_CODES]     # of a component of an operand, of the output
cdef int C_BYTES[MAX_CODES]
cdef int AB_SHIFTS[MAX_CODES]    # their logarithms
cdef int C_SHIFTS[MAX_CODES]
cdef bint FLOATS[MAX_CODES]      # whether there are floating-point flags to report

for _i in range(TYPES):
    CODES[_i] = -1
for _row in registry.DTYPES:
    PARTS[<int>_row.code] = _row.parts
    AB_BYTES[<int>_row.code], C_BYTES[<int>_row.code] = _row.stored_bytes, _row.result_bytes
    AB_SHIFTS[<int>_row.code] = _row.stored_bytes.bit_length() - 1
    C_SHIFTS[<int>_row.code] = _row.result_bytes.bit_length() - 1
    FLOATS[<int>_row.code] = not _row.exact
for _i, _row in numpy_types.ROWS.items():
    CODES[_i] = _row.code


# ---- from a call to a plan -----------------------------------------------------------------------------------------

cdef struct operand_t:
    char* data
    npy_intp rows, cols     # strides in bytes


cdef inline void fold(npy_intp* m, npy_intp* batch, const operand_t* a, const operand_t* c,
                      npy_intp step_a, npy_intp step_b, npy_intp step_c) noexcept nogil:
    # A stack whose products share B and whose rows of A, and of C, are evenly spaced throughout, is one product.
    if batch[0] > 1 and step_b == 0 and step_a == m[0] * a.rows and step_c == m[0] * c.rows:
        m[0] *= batch[0]
        batch[0] = 1


cdef int describe(
        int code, npy_intp m, npy_intp n, npy_intp k, npy_intp batch,
        const operand_t* a, const operand_t* b, const operand_t* c, call_t* call, key_t* key) noexcept nogil:
    # Fill in call and key, with C row-major.  Returns 1, 2 where that took exchanging the operands, and 0 where
    # the strides are no whole numbers of components.
    cdef npy_intp size = AB_BYTES[code], size_c = C_BYTES[code]
    # Whole numbers of components by shifts: six divisions take as many nanoseconds.
    cdef int by = AB_SHIFTS[code], by_c = C_SHIFTS[code]
    cdef int part = PARTS[code], threads = threads_now()
    cdef npy_intp rs_c, cs_c, rows
    cdef int way = 1
    cdef char la, lb
    if (a.rows | a.cols | b.rows | b.cols) & (size - 1) or (c.rows | c.cols) & (size_c - 1):
        return 0
    rs_c, cs_c = c.rows >> by_c, c.cols >> by_c
    if n == 1 and m > 1 or (n > 1 and cs_c != part and rs_c == part):
        # A column, or a column-major output: compute the transpose, B.T @ A.T.
        call.a, call.rs_a, call.cs_a = b.data, b.cols >> by, b.rows >> by
        call.b, call.rs_b, call.cs_b = a.data, a.cols >> by, a.rows >> by
        call.rs_c, call.cs_c = cs_c, rs_c
        rows = m
        m = n
        n = rows
        way = 2
    else:
        call.a, call.rs_a, call.cs_a = a.data, a.rows >> by, a.cols >> by
        call.b, call.rs_b, call.cs_b = b.data, b.rows >> by, b.cols >> by
        call.rs_c, call.cs_c = rs_c, cs_c
    if n == 1:
        # What strides an array gives an axis of length one means nothing; the driver reads them.
        call.cs_c = part
        call.cs_b = 0
    call.c = c.data
    call.step_a = call.step_b = call.step_c = 0
    call.finish = NULL
    call.terms = NULL
    call.offsets = NULL
    call.store.terms = NULL
    call.store.appended = 0
    call.store.alpha_is_one = True
    call.store.beta_kind = 0
    call.store.alpha[0], call.store.alpha[1], call.store.beta[0], call.store.beta[1] = 1, 0, 0, 0
    la = letter(m, k, call.rs_a, call.cs_a, part)
    lb = letter(k, n, call.rs_b, call.cs_b, part)
    key.m, key.n, key.k, key.batch = m, n, k, batch
    key.kind = ((generation() << 40) | (<unsigned long long>threads << 24) | (<unsigned long long>la << 16)
                | (<unsigned long long>lb << 8) | <unsigned long long>code)
    return way


cdef int resolve(const key_t* key, plan_t* plan) except -2 with gil:
    # The slow half of a call's first time: ask dispatch, remember the answer.
    if max(key.m, key.n, key.k, key.batch) > MAX_DIM:
        return NO_KERNEL
    cdef Plan found = dispatch.plan_for(problem_of(key))
    plan[0] = found.plan
    cache_put(key, plan)
    return 0


cdef inline int execute(const key_t* key, const call_t* call) noexcept nogil:
    # 0; NO_KERNEL: nothing was done and NumPy has to do it; NO_MEMORY.
    cdef plan_t plan
    if not cache_get(key, &plan):
        if resolve_quietly(key, &plan):
            return NO_KERNEL
    if plan.kernels == NULL:
        return NO_KERNEL
    return run_plan(&plan, call)


cdef int resolve_quietly(const key_t* key, plan_t* plan) noexcept with gil:
    # Inside NumPy's loops nothing can be raised: the call gets its answer from NumPy whatever goes wrong here, and
    # the reason goes to sys.unraisablehook.  Python code leaves floating-point flags behind: not those of the product.
    cdef unsigned flags = fg_float_state()
    try:
        return resolve(key, plan)
    except BaseException as error:
        sys.unraisablehook(_Unraisable(type(error), error, error.__traceback__))
        return NO_KERNEL
    finally:
        fg_set_float_state(flags)


_Unraisable = namedtuple("_Unraisable", "exc_type exc_value exc_traceback err_msg object",
                         defaults=("fastgemm: no plan for a product, NumPy computes it", None))

cdef bint READY = False


cdef int make_ready() except -1:
    if READY:
        return 0
    return first_time()


cdef int first_time() except -1:
    # Before the first call, where an exception still reaches the caller: FASTGEMM_ISA that cannot be had, a warning
    # about a database file under "-W error".
    global READY
    kernels.active_isa()
    dispatch.tuned()
    READY = True
    return 0


# ---- floating-point errors -----------------------------------------------------------------------------------------

cdef inline void clear_flags() noexcept nogil:
    cdef unsigned state = fg_float_state()
    if state & FG_REPORTED:
        fg_set_float_state(state & ~FG_REPORTED)


cdef inline int report_flags() except -1:
    # Tell NumPy what happened, so that np.errstate decides; costs nothing where nothing did.
    cdef unsigned state = fg_float_state()
    if not state & FG_REPORTED:
        return 0
    fg_set_float_state(state & ~FG_REPORTED)
    cdef int errors = 0
    if state & FG_INVALID:
        errors |= NPY_FPE_INVALID
    if state & FG_OVERFLOW:
        errors |= NPY_FPE_OVERFLOW
    if state & FG_DIVIDE:
        errors |= NPY_FPE_DIVIDEBYZERO
    if state & FG_UNDERFLOW:
        errors |= NPY_FPE_UNDERFLOW
    return PyUFunc_GiveFloatingpointErrors("matmul", errors)


# ---- the gufunc ----------------------------------------------------------------------------------------------------

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
    call.step_a, call.step_b, call.step_c = steps[way - 1], steps[2 - way], steps[2]
    if extra != NULL:
        offsets[0], offsets[1] = extra.offsets[way - 1], extra.offsets[2 - way]
        call.offsets = offsets
        # Kernels read A's bytes without sign and B's with it: an operand of the other kind has an offset of 128.
        if offsets[0].zero != NULL or not offsets[0].is_unsigned:
            call.store.appended |= 1
        if offsets[1].zero != NULL or offsets[1].is_unsigned:
            call.store.appended |= 2
        if extra.quantised:
            terms = extra.terms
            if way == 2:
                terms.left, terms.right = extra.terms.right, extra.terms.left
                terms.left_step, terms.right_step = extra.terms.right_step, extra.terms.left_step
            call.store.terms = &terms
    return execute(&key, &call) == 0


cdef void inner_loop(char** args, const npy_intp* dims, const npy_intp* steps, void* data) noexcept nogil:
    cdef int code = <int>(<size_t>data)
    if not taken(code, args, dims, steps):
        NUMPY_LOOPS[code](args, dims, steps, NUMPY_DATA[code])


cdef object make_gufunc():
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
# By value: a program may put another function in np.matmul's place, ours even.
cdef object NUMPY_MATMUL = np.matmul


# ---- the fast path -------------------------------------------------------------------------------------------------

cdef bint disjoint(cnp.ndarray x, cnp.ndarray y) noexcept:
    # True where the memory of two arrays cannot overlap.
    cdef char* low[2]
    cdef char* high[2]
    cdef cnp.ndarray array
    cdef int i, d
    cdef npy_intp reach
    for i in range(2):
        array = x if i == 0 else y
        low[i] = high[i] = cnp.PyArray_BYTES(array)
        for d in range(cnp.PyArray_NDIM(array)):
            reach = (cnp.PyArray_DIM(array, d) - 1) * cnp.PyArray_STRIDE(array, d)
            if reach < 0:
                low[i] += reach
            else:
                high[i] += reach
        high[i] += cnp.PyArray_ITEMSIZE(array)
    return high[0] <= low[1] or high[1] <= low[0]


cdef inline bint right_form(cnp.ndarray array, int type_num, int nd, const npy_intp* shape) noexcept:
    # An output that can be written to as it is.
    cdef int d
    if cnp.PyArray_TYPE(array) != type_num or cnp.PyArray_NDIM(array) != nd or not cnp.PyArray_ISBEHAVED(array):
        return False
    for d in range(nd):
        if cnp.PyArray_DIM(array, d) != shape[d]:
            return False
    return True


cdef inline object fast(object x1, object x2, object out):
    # The product of plain arrays with at most one stack dimension, or None where the general way is needed.
    if not (cnp.PyArray_CheckExact(x1) and cnp.PyArray_CheckExact(x2)):
        return None
    cdef cnp.ndarray a = x1, b = x2, c
    cdef int type_num = cnp.PyArray_TYPE(a), nd_a = cnp.PyArray_NDIM(a), nd_b = cnp.PyArray_NDIM(b)
    if type_num != cnp.PyArray_TYPE(b) or <unsigned int>type_num >= TYPES or CODES[type_num] < 0:
        return None
    if not (1 <= nd_a <= 3 and 1 <= nd_b <= 3 and cnp.PyArray_ISBEHAVED_RO(a) and cnp.PyArray_ISBEHAVED_RO(b)):
        return None
    cdef npy_intp* shape_a = cnp.PyArray_DIMS(a)
    cdef npy_intp* shape_b = cnp.PyArray_DIMS(b)
    cdef npy_intp* strides_a = cnp.PyArray_STRIDES(a)
    cdef npy_intp* strides_b = cnp.PyArray_STRIDES(b)
    cdef npy_intp* strides_c
    cdef npy_intp m = 1, n = 1, k = shape_a[nd_a - 1], batch = 1
    cdef npy_intp shape[3]
    cdef npy_intp steps[2]
    cdef int nd = 0, failed, way
    cdef operand_t oa, ob, oc
    cdef call_t call
    cdef key_t key
    oa.rows = ob.cols = steps[0] = steps[1] = 0
    oa.cols = strides_a[nd_a - 1]
    if nd_a == 3 or nd_b == 3:
        batch = shape_a[0] if nd_a == 3 else shape_b[0]
        if nd_a == 3 and nd_b == 3 and shape_b[0] != batch or batch == 0:
            return None
        # NumPy orders the axes of a stack's result as those of the operands are; that is left to it.
        if nd_a == 3:
            steps[0] = strides_a[0]
            if not cnp.PyArray_IS_C_CONTIGUOUS(a):
                return None
        if nd_b == 3:
            steps[1] = strides_b[0]
            if not cnp.PyArray_IS_C_CONTIGUOUS(b):
                return None
        shape[0] = batch
        nd = 1
    if nd_a >= 2:
        m = shape[nd] = shape_a[nd_a - 2]
        oa.rows = strides_a[nd_a - 2]
        nd += 1
    if nd_b >= 2:
        n = shape[nd] = shape_b[nd_b - 1]
        ob.rows, ob.cols = strides_b[nd_b - 2], strides_b[nd_b - 1]
        nd += 1
    else:
        ob.rows = strides_b[0]
    if k != shape_b[nd_b - 2 if nd_b >= 2 else 0] or m == 0 or n == 0 or k == 0:
        return None
    if out is None:
        c = cnp.PyArray_EMPTY(nd, shape, type_num, 0)
    else:
        if not cnp.PyArray_CheckExact(out):
            return None
        c = out
        if nd == 0 or not right_form(c, type_num, nd, shape) or not (disjoint(a, c) and disjoint(b, c)):
            return None
    strides_c = cnp.PyArray_STRIDES(c)
    oc.rows = oc.cols = 0
    if nd_b >= 2:
        oc.cols = strides_c[nd - 1]
    if nd_a >= 2:
        oc.rows = strides_c[nd - 1 - (nd_b >= 2)]
    oa.data, ob.data, oc.data = cnp.PyArray_BYTES(a), cnp.PyArray_BYTES(b), cnp.PyArray_BYTES(c)
    if batch > 1:
        fold(&m, &batch, &oa, &oc, steps[0], steps[1], strides_c[0])
    way = describe(CODES[type_num], m, n, k, batch, &oa, &ob, &oc, &call, &key)
    if way == 0:
        return None
    if batch > 1:
        call.step_a, call.step_b, call.step_c = steps[way - 1], steps[2 - way], strides_c[0]
    cdef bint floats = FLOATS[CODES[type_num]]
    if floats:
        clear_flags()
    # As floats: the product of the sizes may leave an npy_intp.
    if <double>m * <double>n * <double>k * <double>batch > RELEASE_GIL:
        with nogil:
            failed = execute(&key, &call)
    else:
        failed = execute(&key, &call)
    if failed:
        return None
    if floats:
        report_flags()
    return c if nd else cnp.PyArray_ToScalar(cnp.PyArray_DATA(c), c)


cdef object _UNSET = object()
# Products whose result is of another type than the operands: `fastgemm.mixed` puts its function here.
cdef object WIDER = None


def set_wider(function):
    """Let `function(x1, x2, out, dtype)` answer what one row of NumPy's types does not; it returns None to decline."""
    global WIDER
    WIDER = function


# Types that cannot bring an override of their own.
cdef tuple _PLAIN = (np.ndarray, np.memmap, list, tuple, int, float, complex, bool, type(None))


cdef bint plain(object x) except -1:
    return type(x) in _PLAIN or isinstance(x, np.generic)


def matmul(x1, x2, /, out=None, *, axes=_UNSET, axis=_UNSET, keepdims=_UNSET, casting=_UNSET, order=_UNSET,
           dtype=_UNSET, subok=_UNSET, signature=_UNSET, sig=_UNSET):
    """Matrix product of two arrays: `np.matmul`, by kernels tuned to this CPU.

    Parameters
    ----------
    x1, x2 : array_like
        (..., m, k) and (..., k, n), or one-dimensional: (k,) counts as a row on the left and as a column
        on the right.  Leading dimensions broadcast.
    out : ndarray, optional
        Where the result goes.  It may overlap the operands.
    axes, casting, order, dtype, subok, signature
        As in `np.matmul`.

    Returns
    -------
    ndarray or scalar
        A scalar where both operands are one-dimensional.

    Raises
    ------
    ValueError, TypeError
        As `np.matmul` does.

    Notes
    -----
    Every number type of NumPy has kernels but long double: floats and complex numbers, float16, the integers (exact:
    they wrap as NumPy's do), bool, and bfloat16 of the package ml_dtypes.  Other dtypes are computed by NumPy.
    float16 is summed in float32 and rounded once, and not at all where ``dtype`` or `out` is float32; bfloat16 gives
    float32, as in NumPy, and is rounded once where ``dtype`` or `out` is bfloat16.  8-bit integers with
    ``dtype=np.int32`` are dot products without a cast.  A real operand beside a complex one is not converted: a zero
    imaginary part that it does not have makes no NaN of an infinity.
    Floating-point errors are reported as `np.errstate` says.

    Examples
    --------
    >>> import numpy as np, fastgemm
    >>> a = np.arange(6.0).reshape(2, 3)
    >>> fastgemm.matmul(a, a.T)
    array([[ 5., 14.],
           [14., 50.]])
    """
    if not READY:
        make_ready()
    if (axes is _UNSET and axis is _UNSET and keepdims is _UNSET and casting is _UNSET and order is _UNSET
            and dtype is _UNSET and subok is _UNSET and signature is _UNSET and sig is _UNSET):
        done = fast(x1, x2, out)
        if done is None and type(x1) is np.ndarray and type(x2) is np.ndarray:
            done = WIDER(x1, x2, out, None)
        if done is not None:
            return done
        keywords = {}
    else:
        keywords = {
            name: value for name, value in (
                ("axes", axes), ("axis", axis), ("keepdims", keepdims), ("casting", casting), ("order", order),
                ("dtype", dtype), ("subok", subok), ("signature", signature), ("sig", sig))
            if value is not _UNSET}
        if dtype is not _UNSET and len(keywords) == 1 and type(x1) is np.ndarray and type(x2) is np.ndarray:
            done = WIDER(x1, x2, out, dtype)
            if done is not None:
                return done
    outs = out if type(out) is tuple else (out,)
    run = gufunc if plain(x1) and plain(x2) and all([plain(o) or o is ... for o in outs]) else NUMPY_MATMUL
    if out is not None:
        keywords["out"] = out
    return run(x1, x2, **keywords)


cdef extern from *:
    """
    /* A call with two or three positional arguments goes to `fast` without a look at matmul's eight keywords, whose
       defaults cost 15 ns to hand over.  Whatever it leaves (None) goes the way that Cython has made. */
    typedef PyObject *(*fg_product_t)(PyObject *, PyObject *, PyObject *);
    static fg_product_t fg_product;
    static vectorcallfunc fg_general;
    static PyObject *fg_matmul(PyObject *self, PyObject *const *args, size_t flags, PyObject *names) {
        Py_ssize_t n = PyVectorcall_NARGS(flags);
        if ((n == 2 || n == 3) && names == NULL) {
            PyObject *done = fg_product(args[0], args[1], n == 3 ? args[2] : Py_None);
            if (done != Py_None) return done;
            Py_DECREF(done);
        }
        return fg_general(self, args, flags, names);
    }
    static void fg_shorten(PyObject *function, fg_product_t product) {
        PyCFunctionObject *f = (PyCFunctionObject *)function;
        if (Py_TYPE(function)->tp_vectorcall_offset != offsetof(PyCFunctionObject, vectorcall) || f->vectorcall == NULL)
            return;
        fg_product = product;
        fg_general = f->vectorcall;
        f->vectorcall = fg_matmul;
    }
    """
    ctypedef object (*fg_product_t)(object, object, object)
    void fg_shorten(object, fg_product_t)


cdef object product(object x1, object x2, object out):
    return fast(x1, x2, out) if READY else None


fg_shorten(matmul, product)


def _look_like_a_ufunc():
    for name in ("nin", "nout", "nargs", "ntypes", "types", "identity", "signature", "reduce", "accumulate",
                 "reduceat", "outer", "at", "resolve_dtypes", "__signature__"):
        if hasattr(np.matmul, name):
            setattr(matmul, name, getattr(np.matmul, name))


_look_like_a_ufunc()


# ---- gemm ----------------------------------------------------------------------------------------------------------

cdef int matrices(cnp.ndarray a, cnp.ndarray b, cnp.ndarray c, call_t* call, key_t* key) except -1:
    # `describe` for two-dimensional arrays.
    cdef operand_t oa, ob, oc
    make_ready()
    oa.data, oa.rows, oa.cols = cnp.PyArray_BYTES(a), cnp.PyArray_STRIDE(a, 0), cnp.PyArray_STRIDE(a, 1)
    ob.data, ob.rows, ob.cols = cnp.PyArray_BYTES(b), cnp.PyArray_STRIDE(b, 0), cnp.PyArray_STRIDE(b, 1)
    oc.data, oc.rows, oc.cols = cnp.PyArray_BYTES(c), cnp.PyArray_STRIDE(c, 0), cnp.PyArray_STRIDE(c, 1)
    return describe(CODES[cnp.PyArray_TYPE(a)], cnp.PyArray_DIM(c, 0), cnp.PyArray_DIM(c, 1), cnp.PyArray_DIM(a, 1), 1,
                    &oa, &ob, &oc, call, key)


cdef int finished(cnp.ndarray a, cnp.ndarray b, cnp.ndarray c, finish_t finish, const void* terms) except -1:
    cdef int failed
    cdef call_t call
    cdef key_t key
    if not matrices(a, b, c, &call, &key):
        return False
    call.finish, call.terms = finish, terms
    with nogil:
        failed = execute(&key, &call)
    clear_flags()
    if failed == NO_MEMORY:
        raise MemoryError("no memory for a workspace")
    return failed == 0


def gemm_into(cnp.ndarray a, cnp.ndarray b, cnp.ndarray c, double complex alpha, double complex beta):
    """Compute ``c = alpha * a @ b + beta * c`` in place; return False where no kernel takes it.

    The arrays are two-dimensional, of one dtype with kernels, aligned, not empty, and `c` overlaps neither of the
    others: `fastgemm.gemm` sees to it.
    """
    cdef int failed
    cdef call_t call
    cdef key_t key
    if not matrices(a, b, c, &call, &key):
        return False
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
    report_flags()
    return True
