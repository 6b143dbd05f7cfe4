"""matmul: the drop-in for `np.matmul`.

Two ways lead to the kernels:

* a fast path for plain arrays that a row of the registry takes, matrices, vectors, or one stack of them;
* a gufunc of our own (`_gufunc`) for everything else that plain data can ask for (stacks, casts, ``out`` that overlaps,
  ``axes``, ``order``, ``signature``...).  It is `np.matmul` to the letter (NumPy's own machinery, type
  resolver, and loops), with the inner loops replaced for the dtypes that have kernels.

Subclasses and objects with an ``__array_ufunc__`` go to `np.matmul` itself, because they may ask which
ufunc called them.
"""

cimport cython
cimport numpy as cnp
from numpy cimport npy_intp

from fastgemm._call cimport (
    CODES, FLOATS, NO_KERNEL, READY, REMEMBERED, TYPES, again, apart, describe, disjoint, execute, fold, lets_go,
    make_ready, operand_t, remember, remembered, remembered_t, repeat,
)
from fastgemm._outputs cimport ALIGNED_FROM, by_it, empty
from fastgemm._packed cimport Right, quick
from fastgemm._rows cimport BYTES, NPY_HALF, row_for
from fastgemm.driver._plan cimport key_t
from fastgemm.driver.abi cimport offset_t
from fastgemm.driver.structs cimport appended, call_t
from fastgemm.float_errors cimport clear_flags, report_flags

import numpy as np

from fastgemm._gufunc import gufunc

cnp.import_array()
cnp.import_ufunc()

# By value: a program may put another function in np.matmul's place, ours even.
cdef object NUMPY_MATMUL = np.matmul


# ---- the fast path -------------------------------------------------------------------------------------------------

cdef inline bint right_form(cnp.ndarray array, int type_num, int nd, const npy_intp* shape) noexcept:
    # An output that can be written to as it is.
    cdef int d
    if cnp.PyArray_TYPE(array) != type_num or cnp.PyArray_NDIM(array) != nd or not cnp.PyArray_ISBEHAVED(array):
        return False
    for d in range(nd):
        if cnp.PyArray_DIM(array, d) != shape[d]:
            return False
    return True


cdef inline object fast(object x1, object x2, object out, object asked):
    # The product of plain arrays with at most one stack dimension, or None where the general way is needed.  `asked` is
    # the call's dtype or None.
    if not (cnp.PyArray_CheckExact(x1) and cnp.PyArray_CheckExact(x2)):
        return quick(x1, <Right>x2, out, asked) if isinstance(x2, Right) else None
    cdef cnp.ndarray a = x1, b = x2, c
    cdef int type_num = cnp.PyArray_TYPE(a), nd_a = cnp.PyArray_NDIM(a), nd_b = cnp.PyArray_NDIM(b)
    cdef int result = type_num, code
    if asked is None and type_num == cnp.PyArray_TYPE(b) and <unsigned int>type_num < TYPES and (
            out is None or type_num != NPY_HALF):
        code = CODES[type_num]
    else:
        code = row_for(type_num, cnp.PyArray_TYPE(b), out, asked, &result)
    if code < 0:
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
    cdef int nd = 0
    cdef operand_t oa, ob, oc
    oa.rows = ob.cols = steps[0] = steps[1] = 0
    oa.cols = strides_a[nd_a - 1]
    if nd_a == 3 or nd_b == 3:
        batch = shape_a[0] if nd_a == 3 else shape_b[0]
        if nd_a == 3 and nd_b == 3 and shape_b[0] != batch or batch == 0:
            return None
        # (With one stack dimension NumPy's result is in C order, whatever order the operands are in.)
        if nd_a == 3:
            steps[0] = strides_a[0]
        if nd_b == 3:
            steps[1] = strides_b[0]
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
        c = empty(nd, shape, result)
    else:
        if not cnp.PyArray_CheckExact(out):
            return None
        c = out
        if nd == 0 or not right_form(c, result, nd, shape):
            return None
        # (Of stacks the whole arrays; of two matrices their sides, which are at hand, say it sooner.)
        if (nd_a == 3 or nd_b == 3) and not (disjoint(a, c) and disjoint(b, c)):
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
    if out is not None and nd_a < 3 and nd_b < 3 and not (
            apart(&oa, m, k, cnp.PyArray_ITEMSIZE(a), &oc, m, n, cnp.PyArray_ITEMSIZE(c))
            and apart(&ob, k, n, cnp.PyArray_ITEMSIZE(b), &oc, m, n, cnp.PyArray_ITEMSIZE(c))):
        return None
    cdef bint floats = FLOATS[code]
    if floats:
        clear_flags()
    # As floats: the product of the sizes may leave an npy_intp.
    cdef double products = <double>m * <double>n * <double>k
    if batch > 1 or not repeated(products, code, m, n, k, &oa, &ob, &oc):
        if described(code, m, n, k, batch, &oa, &ob, &oc, steps, strides_c[0] if nd else 0,
                     type_num == cnp.NPY_UBYTE, cnp.PyArray_TYPE(b) == cnp.NPY_UBYTE):
            return None
    if floats:
        report_flags(b"matmul")
    return c if nd else cnp.PyArray_ToScalar(cnp.PyArray_DATA(c), c)


cdef inline bint repeated(double products, int code, npy_intp m, npy_intp n, npy_intp k,
                          const operand_t* a, const operand_t* b, const operand_t* c) noexcept:
    # Whether C is computed, as a product of this form was before.
    cdef remembered_t* known
    cdef int failed
    if not lets_go(products):
        return products <= REMEMBERED and again(code, m, n, k, a, b, c)
    known = remembered(code, m, n, k, a, b, c) if products <= REMEMBERED else NULL
    if known == NULL:
        return False
    with nogil:
        failed = repeat(known, a, b, c)
    return failed == 0


cdef int described(int code, npy_intp m, npy_intp n, npy_intp k, npy_intp batch,
                   const operand_t* a, const operand_t* b, const operand_t* c,
                   const npy_intp* steps, npy_intp step_c, bint left_unsigned, bint right_unsigned):
    # `steps`: of a and b, from one product of a stack to the next.  0, or not 0 where NumPy has to do it.
    cdef call_t call
    cdef key_t key
    cdef offset_t offsets[2]
    cdef int failed, way = describe(code, m, n, k, batch, a, b, c, &call, &key)
    if way == 0:
        return NO_KERNEL
    if batch > 1:
        call.step_a, call.step_b, call.step_c = steps[way - 1], steps[2 - way], step_c
    if code == BYTES:
        offsets[0].zero = offsets[1].zero = NULL
        offsets[0].step = offsets[1].step = 0
        offsets[way - 1].is_unsigned, offsets[2 - way].is_unsigned = left_unsigned, right_unsigned
        call.offsets = offsets
        call.store.appended = appended(False, offsets[0].is_unsigned, False, offsets[1].is_unsigned)
    cdef double products = <double>m * <double>n * <double>k * <double>batch
    if lets_go(products):
        with nogil:
            failed = execute(&key, &call)
    else:
        failed = execute(&key, &call)
    if failed == 0 and batch == 1 and products <= REMEMBERED and code != BYTES:
        remember(code, m, n, k, a, b, c, way, &call, &key)
    return failed


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


cdef bint large(object x1, object x2) except -1:
    # Whether the output of arrays that the gufunc takes may be large: not less than of their own stacks.
    if type(x1) is not np.ndarray or type(x2) is not np.ndarray:
        return False
    cdef cnp.ndarray a = x1, b = x2
    cdef int nd_a = cnp.PyArray_NDIM(a), nd_b = cnp.PyArray_NDIM(b)
    cdef unsigned int type_a = cnp.PyArray_TYPE(a), type_b = cnp.PyArray_TYPE(b)
    if nd_a < 2 or nd_b < 2 or cnp.PyArray_DIM(a, nd_a - 1) == 0:
        return False
    # (Objects would run code of the program meanwhile.)
    if type_a >= TYPES or type_b >= TYPES or CODES[type_a] < 0 or CODES[type_b] < 0:
        return False
    return <double>cnp.PyArray_NBYTES(a) / cnp.PyArray_DIM(a, nd_a - 1) * cnp.PyArray_DIM(b, nd_b - 1) >= ALIGNED_FROM


@cython.embedsignature(False)  # (`help` shows NumPy's.)
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
    float32, as in NumPy, and is rounded once where ``dtype`` or `out` is bfloat16.  On a CPU with dot products of
    bfloat16 those take subnormal numbers (below 1.2e-38) in operands and sums for zero, and round the sum after every
    product, and they report no floating-point errors, for the instructions set no flags; with the environment variable
    FASTGEMM_BF16=exact the arithmetic is float32's.  8-bit integers with ``dtype=np.int32`` are dot products without a
    cast.  A real operand beside a complex one is not converted: a zero imaginary part that it does not have makes no
    NaN of an infinity.  Floating-point errors are reported as `np.errstate` says.

    Large products of float32 may go through tile registers (AMX) as three limbs of bfloat16 a number, with errors no
    larger than those of multiply-adds; what limbs do not stand for (infinities, NaN, magnitudes below 2^-102) is
    computed by multiply-adds all the same, and so is everything with FASTGEMM_F32=vectors.

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
        done = fast(x1, x2, out, None)
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
    elif run is gufunc and large(x1, x2):
        return by_it(run, (x1, x2), keywords)
    return run(x1, x2, **keywords)


cdef extern from *:
    """
    /* A call with two or three positional arguments, and no keywords but dtype and out, goes to `fast` without a look
       at matmul's eight keywords, whose defaults cost 15 ns to hand over.  Whatever it leaves (None) goes the way that
       Cython has made. */
    typedef PyObject *(*fg_product_t)(PyObject *, PyObject *, PyObject *, PyObject *);
    static fg_product_t fg_product;
    static vectorcallfunc fg_general;
    static PyObject *fg_dtype, *fg_out;
    static PyObject *fg_matmul(PyObject *self, PyObject *const *args, size_t flags, PyObject *names) {
        Py_ssize_t n = PyVectorcall_NARGS(flags);
        if (n == 2 || n == 3) {
            PyObject *out = n == 3 ? args[2] : Py_None, *dtype = Py_None, *done;
            Py_ssize_t more = names == NULL ? 0 : PyTuple_GET_SIZE(names), i;
            for (i = 0; i < more; i++) {
                /* Names in a call are interned: another string of these letters goes the general way. */
                if (PyTuple_GET_ITEM(names, i) == fg_dtype) dtype = args[n + i];
                else if (PyTuple_GET_ITEM(names, i) == fg_out && n == 2) out = args[n + i];
                else return fg_general(self, args, flags, names);
            }
            done = fg_product(args[0], args[1], out, dtype);
            if (done != Py_None) return done;
            Py_DECREF(done);
        }
        return fg_general(self, args, flags, names);
    }
    static void fg_shorten(PyObject *function, fg_product_t product) {
        PyCFunctionObject *f = (PyCFunctionObject *)function;
        if (Py_TYPE(function)->tp_vectorcall_offset != offsetof(PyCFunctionObject, vectorcall) || f->vectorcall == NULL)
            return;
        fg_dtype = PyUnicode_InternFromString("dtype");
        fg_out = PyUnicode_InternFromString("out");
        if (fg_dtype == NULL || fg_out == NULL) { PyErr_Clear(); return; }
        fg_product = product;
        fg_general = f->vectorcall;
        f->vectorcall = fg_matmul;
    }
    """
    ctypedef object (*fg_product_t)(object, object, object, object)
    void fg_shorten(object, fg_product_t)


cdef object product(object x1, object x2, object out, object asked):
    return fast(x1, x2, out, asked) if READY else None


fg_shorten(matmul, product)


def _look_like_a_ufunc():
    for name in ("nin", "nout", "nargs", "ntypes", "types", "identity", "signature", "reduce", "accumulate",
                 "reduceat", "outer", "at", "resolve_dtypes", "__signature__"):
        if hasattr(np.matmul, name):
            setattr(matmul, name, getattr(np.matmul, name))


_look_like_a_ufunc()
