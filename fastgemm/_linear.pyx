"""Products with an epilogue: arrays in, the driver's call out."""

from cpython.pycapsule cimport PyCapsule_GetPointer

cimport cython
cimport numpy as cnp
from numpy cimport npy_intp

from fastgemm._call cimport CODES, MAX_CODES, TYPES, disjoint, matrix, operand_t
from fastgemm._gemm cimport finished
from fastgemm._packed cimport MAX_NDIM, Panels, Right, lead_of, output_of, ready_product, run_ready
from fastgemm._rows cimport BFLOAT, BYTES, is_bfloat16
from fastgemm.driver._plan cimport generation
from fastgemm.driver.abi cimport FUSED, FUSED_RELU, epilogue_t, finish_t, offset_t
from fastgemm.driver.floats cimport FG_REPORTED, fg_float_state, fg_set_float_state
from fastgemm.float_errors cimport clear_flags
from fastgemm.terms cimport fill_offset, numbers, zero_point

from fastgemm import activations, registry

cnp.import_array()

cdef enum:
    MAX_LEVEL = 8           # ISA tiers are numbered below this

cdef const finish_t* TABLES[MAX_LEVEL]
cdef int KINDS = len(registry.FINISHED) + 1, ROWS = len(activations.EPILOGUES)
# By the code of a dtype: its place in the tables, -1 where it has none; and for products, where halves are finished in
# the type that they are computed in, NumPy's number of that type.
cdef int KIND[MAX_CODES]
cdef int PRODUCT_KIND[MAX_CODES]
cdef int TERMS[MAX_CODES]
for _i in range(MAX_CODES):
    KIND[_i] = PRODUCT_KIND[_i] = -1
for _i, _name in enumerate((*registry.FINISHED, registry.DEQUANTISED)):
    KIND[<int>registry.dtype(_name).code] = _i
for _row in registry.DTYPES:
    if _row.name in registry.FINISHED or _row.halves:
        PRODUCT_KIND[<int>_row.code] = KIND[<int>registry.dtype(_row.lane).code]
        TERMS[<int>_row.code] = cnp.NPY_DOUBLE if _row.lane == "f64" else cnp.NPY_FLOAT
cdef int NONE = activations.epilogue("none").code, RELU = activations.epilogue("relu").code
# Activations by name: code, p, q, how many of these are its own.
cdef dict NAMED = {None: (0, 0.0, 0.0, 0)}
for _row in activations.EPILOGUES:
    _numbers = dict(_row.params)
    NAMED[_row.name] = (_row.code, _numbers.get("p", 0.0), _numbers.get("q", 0.0), len(_numbers))


def add_table(int level, object capsule):
    """Take over a tier's functions."""
    if not 0 <= level < MAX_LEVEL:
        raise ValueError(f"ISA level {level} out of range")
    TABLES[level] = <const finish_t*>PyCapsule_GetPointer(capsule, "fastgemm.finish_t")


cdef finish_t function(int level, int kind, int code) except NULL:
    if not (0 <= level < MAX_LEVEL and 0 <= code < ROWS) or kind < 0 or TABLES[level] == NULL:
        raise ValueError(f"no epilogue {code} for such numbers in this process")
    return TABLES[level][code * KINDS + kind]


cdef finish_t finish_of(int level, int dtype_code, int code) except NULL:
    return function(level, KIND[dtype_code] if 0 <= dtype_code < MAX_CODES else -1, code)


cdef int fused_of(int code, const epilogue_t* terms) noexcept nogil:
    # What of an epilogue, told all but `fused`, microkernels do: FUSED bits, 0 where that is not all of it.
    if terms.residual != NULL or terms.bias != NULL and not terms.bias_step:
        return 0
    return FUSED if code == NONE else FUSED | FUSED_RELU if code == RELU else 0


cdef int code_of(cnp.ndarray c) except -2:
    # The dtype code of an array; -1: none.
    cdef int type_num = cnp.PyArray_TYPE(c)
    if type_num < TYPES:
        return CODES[type_num]
    return BFLOAT if is_bfloat16(type_num) else -1


cdef void fill(epilogue_t* terms, cnp.ndarray bias, cnp.ndarray residual, npy_intp m, npy_intp n,
               double p, double q) noexcept:
    # Arrays that have been found to fit an output of m x n, or None.
    cdef bint wide
    terms.bias = terms.residual = terms.scale = NULL
    terms.bias_step = terms.rs_residual = terms.cs_residual = terms.scale_step = 0
    if bias is not None:
        terms.bias, terms.bias_step = cnp.PyArray_BYTES(bias), cnp.PyArray_SIZE(bias) != 1
    if residual is not None:
        wide = cnp.PyArray_SIZE(residual) == m * n
        terms.residual = cnp.PyArray_BYTES(residual)
        terms.rs_residual, terms.cs_residual = n if wide else 1, wide
    terms.p, terms.q = p, q


cdef finish_t prepare(int level, cnp.ndarray c, int code, bias, residual, double p, double q,
                      epilogue_t* terms) except NULL:
    # `bias` has one number or as many as `c` has columns, `residual` the shape of `c` or a number for each of its rows;
    # both in C order and of its type, or float32 beside halves.
    cdef cnp.ndarray array
    cdef int row = code_of(c)
    cdef int type_num = TERMS[row] if row >= 0 and PRODUCT_KIND[row] >= 0 else cnp.PyArray_TYPE(c)
    if cnp.PyArray_NDIM(c) != 2 or not cnp.PyArray_ISCARRAY(c):
        raise ValueError("an epilogue's output is a matrix in C order")
    cdef npy_intp m = cnp.PyArray_DIM(c, 0), n = cnp.PyArray_DIM(c, 1)
    for name, operand, sizes in (("bias", bias, (1, n)), ("residual", residual, (m, m * n))):
        if operand is None:
            continue
        array = operand
        if (cnp.PyArray_TYPE(array) != type_num or not cnp.PyArray_ISCARRAY_RO(array)
                or array.size not in sizes):
            raise ValueError(f"the {name} does not fit the output")
    fill(terms, bias, residual, m, n, p, q)
    terms.fused = fused_of(code, terms)
    return function(level, PRODUCT_KIND[row] if row >= 0 else -1, code)


def product_into(int level, cnp.ndarray a not None, cnp.ndarray b not None, cnp.ndarray c not None, int code, bias,
                 residual, double p, double q):
    """Compute ``c = f(a @ b + bias + residual)``; return False where no kernel takes it, with nothing done.

    The arrays are two-dimensional, of one dtype of `registry.FINISHED` or halves (bias and residual then float32),
    aligned, not empty; `c` is in C order and overlaps nothing that is read: `fastgemm.linear` sees to it.
    """
    cdef epilogue_t terms
    cdef finish_t finish = prepare(level, c, code, bias, residual, p, q, &terms)
    cdef operand_t oa = matrix(a), ob = matrix(b), oc = matrix(c)
    return bool(finished(level, &oa, &ob, &oc, cnp.PyArray_DIM(c, 0), cnp.PyArray_DIM(c, 1), cnp.PyArray_DIM(a, 1),
                         code_of(c), code, finish, &terms))


def packed_into(int level, cnp.ndarray a not None, Panels b not None, cnp.ndarray c not None, int code, bias, residual,
                double p, double q):
    """Compute ``c = f(a @ b + bias + residual)`` where `b` is packed: of the type of `a` and `c`."""
    cdef epilogue_t terms
    cdef finish_t finish = prepare(level, c, code, bias, residual, p, q, &terms)
    if cnp.PyArray_TYPE(a) != cnp.PyArray_TYPE(c) or b.code != code_of(c):
        raise ValueError(f"{a.dtype} and a packed {b.row.numpy} do not give {c.dtype}")
    ready_product(b, a, c, b.code, code, finish, &terms, NULL, NULL)
    clear_flags()


def dequantised_into(int level, cnp.ndarray a not None, Panels b not None, cnp.ndarray c not None, int code, bias,
                     residual, double p, double q, cnp.ndarray scale not None, a_zero):
    """Compute ``c = f(((a - a_zero) @ b) * scale + bias + residual)`` of bytes, in float32, where `b` is packed.

    `scale` has one float32, or one for each column, `a_zero` is None or one int32.
    """
    cdef epilogue_t terms
    cdef offset_t offset
    cdef int type_num = cnp.PyArray_TYPE(a)
    prepare(level, c, code, bias, residual, p, q, &terms)
    if type_num not in (cnp.NPY_BYTE, cnp.NPY_UBYTE) or cnp.PyArray_TYPE(c) != cnp.NPY_FLOAT:
        raise ValueError(f"{a.dtype} does not give {c.dtype} by way of sums of bytes")
    fill_offset(&offset, type_num == cnp.NPY_UBYTE, a_zero, 1)
    terms.scale = numbers(scale, b.n, &terms.scale_step)
    ready_product(b, a, c, BYTES, code, function(level, KIND[BYTES], code), &terms, &offset, NULL)
    clear_flags()


def late_into(int level, cnp.ndarray a not None, Panels b not None, cnp.ndarray c not None, int code, bias, double p,
              double q, cnp.ndarray a_zero not None, cnp.ndarray scale not None, cnp.ndarray factor,
              cnp.ndarray space):
    """Compute `dequantised_into` by a zero point and a scale that are read now.

    `a_zero` has one number: see `zero_point`.  With a `factor` (None: none), which has one float32 or one for
    each column, `scale` has one, and `space` is memory for their products.
    """
    cdef epilogue_t terms
    cdef offset_t offset
    cdef int type_num = cnp.PyArray_TYPE(a), zero = zero_point(a_zero, type_num == cnp.NPY_UBYTE)
    cdef Py_ssize_t i, one, step
    cdef const float* factors
    cdef const float* scales = numbers(scale, b.n if factor is None else 1, &step)
    cdef float* made
    prepare(level, c, code, bias, None, p, q, &terms)
    if type_num not in (cnp.NPY_BYTE, cnp.NPY_UBYTE) or cnp.PyArray_TYPE(c) != cnp.NPY_FLOAT:
        raise ValueError(f"{a.dtype} does not give {c.dtype} by way of sums of bytes")
    if factor is not None:
        if space is None:
            raise ValueError("a factor needs space")
        factors = numbers(factor, b.n, &step)
        numbers(space, cnp.PyArray_SIZE(factor), &one)
        if cnp.PyArray_SIZE(space) != cnp.PyArray_SIZE(factor) or not cnp.PyArray_ISWRITEABLE(space):
            raise ValueError("the space does not fit the factor")
        made = <float*>cnp.PyArray_DATA(space)
        for i in range(cnp.PyArray_SIZE(factor)):
            made[i] = scales[0] * factors[i]
        scales = made
    fill_offset(&offset, type_num == cnp.NPY_UBYTE, None, 1)
    if zero:
        offset.zero = &zero
    terms.scale, terms.scale_step = scales, step
    ready_product(b, a, c, BYTES, code, function(level, KIND[BYTES], code), &terms, &offset, NULL)
    clear_flags()


def finish_into(int level, cnp.ndarray c not None, int code, bias, residual, double p, double q):
    """Do the same to a product that another way has computed: ``c = f(c + bias + residual)`` in place."""
    cdef epilogue_t terms
    cdef finish_t finish = prepare(level, c, code, bias, residual, p, q, &terms)
    if KIND[code_of(c)] < 0:
        raise ValueError(f"{c.dtype} has been rounded already")
    with nogil:
        finish(cnp.PyArray_DIM(c, 0), cnp.PyArray_DIM(c, 1), cnp.PyArray_BYTES(c), cnp.PyArray_DIM(c, 1), &terms, 0, 0)
    fg_set_float_state(fg_float_state() & ~FG_REPORTED)


# ---- calls that need no conversion -----------------------------------------------------------------------------------

cdef cnp.ndarray term(object given, int type_num, int terms):
    # A bias or a residual in the type that the product is finished in; None where it is something else than an array in
    # C order of the operands' type.
    cdef cnp.ndarray array
    if not cnp.PyArray_CheckExact(given):
        return None
    array = given
    if cnp.PyArray_TYPE(array) != type_num or not cnp.PyArray_ISCARRAY_RO(array):
        return None
    return array if terms == type_num else cnp.PyArray_Cast(array, terms)


cdef object GENERAL = None, LEVEL_NOW = None
# The driver's generation, and below it, for as long as that stays, the tier's level and one: 0 where none runs.
cdef unsigned long long SEEN = 0


def set_general(function, level):
    """Let `function` answer calls that take a conversion, and `level` say which tier runs: None where none does."""
    global GENERAL, LEVEL_NOW
    GENERAL, LEVEL_NOW = function, level


cdef int level_now() except -2:
    global SEEN
    cdef unsigned long long seen = SEEN, now = generation()
    if seen >> 4 != now:
        found = LEVEL_NOW()
        seen = now << 4 | <unsigned>(0 if found is None else found + 1)
        SEEN = seen
    return <int>(seen & 15) - 1


cdef tuple named(object given):
    # Code and numbers of an activation; None where it takes a closer look.
    cdef tuple found, parts
    if given is None or type(given) is str:
        return NAMED.get(given)
    if type(given) is not tuple or len(<tuple>given) == 0 or type((<tuple>given)[0]) is not str:
        return None
    parts = given
    found = NAMED.get(parts[0])
    if found is None or len(parts) - 1 > <int>found[3]:
        return None
    for number in parts[1:]:
        # NaN is no bound.
        if type(number) is not float and type(number) is not int or number != number:
            return None
    return (found[0], float(parts[1]) if len(parts) > 1 else found[1], float(parts[2]) if len(parts) > 2 else found[2])


cdef object quick(object x, object weight, object bias, object activation, object residual, object out):
    # The layer of arrays that are read as they lie; None where the general way is needed.
    cdef cnp.ndarray a, w, c, added = None, beside = None
    cdef Right right = None
    cdef operand_t oa, ob, oc
    cdef epilogue_t terms
    cdef finish_t finish = NULL
    cdef int epilogue = NONE
    cdef npy_intp shape[MAX_NDIM]
    cdef npy_intp m, n, k
    cdef int code, type_num, nd, d, level = 0
    cdef tuple found
    cdef double number
    cdef float single
    if not cnp.PyArray_CheckExact(x):
        return None
    a = x
    type_num, nd = cnp.PyArray_TYPE(a), cnp.PyArray_NDIM(a)
    code = code_of(a)
    if code < 0 or PRODUCT_KIND[code] < 0:
        return None
    if isinstance(weight, Right):
        right = weight
        if right.number != type_num or right.panels is None or right.panels.code != code:
            return None
        k, n = right.panels.k, right.panels.n
    elif cnp.PyArray_CheckExact(weight):
        w = weight
        if cnp.PyArray_NDIM(w) != 2 or cnp.PyArray_TYPE(w) != type_num or not cnp.PyArray_ISBEHAVED_RO(w):
            return None
        n, k = cnp.PyArray_DIM(w, 0), cnp.PyArray_DIM(w, 1)
        ob.data, ob.rows, ob.cols = cnp.PyArray_BYTES(w), cnp.PyArray_STRIDE(w, 1), cnp.PyArray_STRIDE(w, 0)
    else:
        return None
    if n == 0 or k == 0 or not lead_of(a, k, n, &oa, shape, &m):
        return None
    cdef bint weak = type(bias) is float        # which leaves the type as it is
    if weak:
        number = single = bias
    elif bias is not None:
        added = term(bias, type_num, TERMS[code])
        if added is None or cnp.PyArray_NDIM(added) != 1 or cnp.PyArray_DIM(added, 0) not in (1, n):
            return None
    if residual is not None:
        beside = term(residual, type_num, TERMS[code])
        if beside is None or cnp.PyArray_NDIM(beside) != nd or cnp.PyArray_DIM(beside, nd - 1) not in (1, n):
            return None
        for d in range(nd - 1):
            if cnp.PyArray_DIM(beside, d) != shape[d]:
                return None
    if activation is not None or bias is not None or beside is not None:
        found = named(activation)
        level = level_now()
        if found is None or level < 0:
            return None
        fill(&terms, added, beside, m, n, found[1], found[2])
        if weak:
            terms.bias = <const void*>&number if TERMS[code] == cnp.NPY_DOUBLE else <const void*>&single
        epilogue = found[0]
        terms.fused = fused_of(epilogue, &terms)
        finish = function(level, PRODUCT_KIND[code], epilogue)
    c = output_of(out, type_num, nd, shape, &oc)
    if c is None:
        return None
    if out is not None and not (
            disjoint(a, c) and (right is not None or disjoint(w, c)) and (added is None or disjoint(added, c))
            and (beside is None or disjoint(beside, c))):
        return None
    if right is None:
        return c if finished(level, &oa, &ob, &oc, m, n, k, code, epilogue, finish, &terms) else None
    if not run_ready(right.panels, code, m, &oa, &oc, epilogue, finish, &terms, NULL, NULL):
        return None
    clear_flags()
    return c


@cython.embedsignature(False)  # (`help` shows it twice otherwise.)
def linear(x, weight, bias=None, *, activation=None, residual=None, out=None):
    """Return ``activation(x @ weight.T + bias + residual)``: `torch.nn.functional.linear`, and what follows it.

    Parameters
    ----------
    x : array_like
        (..., in): any leading dimensions.
    weight : array_like
        (out, in), or (in,) for a single output without an axis of its own.  Or ``fastgemm.pack(weight, trans=True)``,
        whose shape is (in, out): packed once, it is streamed as it lies.
    bias : array_like, optional
        (out,), or one number.
    activation : str or tuple, optional
        ``"relu"``, ``"leaky_relu"`` (slope 0.01), ``"gelu"`` (by erf), ``"gelu_tanh"``, ``"silu"``, ``"sigmoid"``,
        ``"tanh"``, ``"exp"``, ``"erf"``, ``"clip"`` (from 0 to 6), ``"scale"``, ``"k_tanh"`` (tanh in the precision of
        bfloat16, by a table: off by up to 0.009).  A tuple gives the numbers:
        ``("leaky_relu", 0.2)``, ``("clip", -1, 1)``, ``("scale", 0.125)``.
    residual : array_like, optional
        Broadcast to the result's shape and added before the activation.  Of shape (..., 1) it is a number for each row,
        a bias of rows: it is read as it is, without a copy of the result's size.
    out : ndarray, optional
        Where the result goes; of the result's shape and dtype.  It may overlap the operands.

    Returns
    -------
    ndarray
        (..., out).

    Raises
    ------
    ValueError
        If shapes do not fit, there is no such activation, or a bound of ``"clip"`` is NaN.
    TypeError
        If `out` has another dtype, or complex numbers meet an activation that they do not have.

    Notes
    -----
    float32 and float64: bias, residual and activation are done to each tile of the output while it lies in L1.  The
    product, the sums, and the activations without exp, erf or tanh have the bits of `fastgemm.matmul` and NumPy.
    exp, erf and tanh are within 3 units in the last place (polynomials).  gelu,
    silu and sigmoid of a number x are within ``4 * eps * (1 + |x|)``.  Of -inf, gelu and gelu_tanh are NaN, as their
    formulas say, and 0 where float32 and halves are computed by AVX2 or AVX-512.

    float16 and bfloat16 (whose result is bfloat16) are summed, biased and activated in float32 and rounded once.

    The product has the type of `x` and `weight` together.  A bias or a residual of a wider one does not change it: both
    are added in the result's type, which NumPy's rules name (a number of Python's widens no floats), to sums in float32
    where the operands are halves.

    Every other dtype, and subclasses of ndarray, are computed step by step by NumPy's functions.  Activations other
    than relu take bool and integers as float32, or float64 where that has too few bits.  No floating-point warning is
    given: infinities and NaN are results.

    Examples
    --------
    >>> import numpy as np, fastgemm
    >>> x, weight = np.array([[1.0, -2.0]]), np.array([[1.0, 1.0], [2.0, 0.0], [0.0, 1.0]])
    >>> fastgemm.linear(x, weight, np.array([0.0, 1.0, 0.0]), activation="relu")
    array([[0., 3., 0.]])
    """
    done = quick(x, weight, bias, activation, residual, out)
    return GENERAL(x, weight, bias, activation, residual, out) if done is None else done
