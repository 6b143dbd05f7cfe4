"""From a call to a plan: what the operands' addresses and strides ask for, and who answers.

`describe` turns them into the problem's key and the driver's call, `execute` finds the plan under that key, in the
driver's cache or, the first time, by way of `fastgemm.dispatch`, and runs it.  A small product that a thread has done
before needs neither (`again`).
"""

from cpython.exc cimport PyErr_SetObject, PyErr_WriteUnraisable

cimport numpy as cnp
from numpy cimport npy_intp

from fastgemm.driver._plan cimport VECTORS, Plan, cache_get, cache_put, counting, generation, key_t, problem_of
from fastgemm.driver._team cimport OTHERWISE, run_plan, threads_now
from fastgemm.driver.floats cimport fg_float_state, fg_set_float_state
from fastgemm.driver.structs cimport call_t, letter, plan_t, special_takes

from fastgemm import allowed, dispatch, kernels, numpy_types, problem, registry
from fastgemm.heuristic import ways

cnp.import_array()

cdef int PARTS[MAX_CODES]
cdef int AB_BYTES[MAX_CODES]     # of a component of an operand, of the output
cdef int C_BYTES[MAX_CODES]
cdef int AB_SHIFTS[MAX_CODES]    # their logarithms
cdef int C_SHIFTS[MAX_CODES]
cdef npy_intp TURNED_FROM = ways.TURNED_FROM
cdef npy_intp DOT_FIRST = ways.UNTURNED_ROWS.start, DOT_END = ways.UNTURNED_ROWS.stop
# What asks the CPU (0.5 ms): not while the library is imported.
cdef npy_intp NEAR_BYTES = 0, THIN_STEPS = 0, FILLED_BYTES = 0, BRIEF_BYTES = 0
# Fields of `ways.Turning`.
cdef npy_intp TURNED_NEAR = 0, TURNED_FAR = 0, TURNED_WIDE = 0, FILLED_PAGE = 1
cdef double FILLED = 0, FILLED_WIDE = 0
cdef npy_intp TURNED_RATIO = ways.TURNED_RATIO, TURNED_K = ways.TURNED_K
cdef npy_intp EXCHANGED_M = ways.EXCHANGED_M, EXCHANGED_N = ways.EXCHANGED_N, EXCHANGED_K = ways.EXCHANGED_K
cdef npy_intp EXCHANGED_LONG = ways.EXCHANGED_LONG, EXCHANGED_OUT = ways.EXCHANGED_OUT
cdef npy_intp BRIEF_N = ways.BRIEF_N, BRIEF_THREE = ways.BRIEF_THREE
cdef npy_intp THIN_M = ways.THIN_M, THIN_K = ways.THIN_K
cdef npy_intp THIN_MORE, THIN_MOST, WIDER_MORE, WIDER_MOST
(THIN_MORE, THIN_MOST), (WIDER_MORE, WIDER_MOST) = ways.THIN_BYTES
cdef bint TURNS[MAX_CODES]       # registry.DType.turns
cdef bint BY_MATRICES[MAX_CODES]    # ways.turns_matrices
cdef npy_intp MATRIX_LEAST[MAX_CODES]
cdef npy_intp MATRIX_COLUMNS = ways.MATRIX_COLUMNS, MATRIX_CHUNK = ways.MATRIX_CHUNK
cdef npy_intp MATRIX_TURNED[3][3]
cdef bint FLOATS[MAX_CODES]      # whether there are floating-point flags to report

for _i in range(TYPES):
    CODES[_i] = -1
for _row in registry.DTYPES:
    PARTS[<int>_row.code] = _row.parts
    AB_BYTES[<int>_row.code], C_BYTES[<int>_row.code] = _row.stored_bytes, _row.result_bytes
    AB_SHIFTS[<int>_row.code] = _row.stored_bytes.bit_length() - 1
    C_SHIFTS[<int>_row.code] = _row.result_bytes.bit_length() - 1
    TURNS[<int>_row.code] = _row.turns
    BY_MATRICES[<int>_row.code] = False
    MATRIX_LEAST[<int>_row.code] = ways.MATRIX_ROWS.get(_row.stored_bytes, 0)
    FLOATS[<int>_row.code] = not _row.exact
for _i, _row in numpy_types.ROWS.items():
    CODES[_i] = _row.code
for _i in range(3):
    for _row in range(3):
        MATRIX_TURNED[_i][<int>_row] = ways.MATRIX_TURNED[_i][_row]


cdef inline bint turns_matrices(npy_intp m, npy_intp n, npy_intp k, npy_intp size, npy_intp least) noexcept nogil:
    # `ways.turns` of sizes, for tile registers.
    cdef int i
    if m < least or n < MATRIX_COLUMNS or k * size % MATRIX_CHUNK:
        return False
    for i in range(3):
        if m <= MATRIX_TURNED[i][0] and n >= MATRIX_TURNED[i][1] * m and k * size >= MATRIX_TURNED[i][2]:
            return True
    return False


cdef inline bint turns(npy_intp m, npy_intp n, npy_intp k, npy_intp size) noexcept nogil:
    # `ways.turns` of sizes.
    cdef bint near = <double>n * k * size <= NEAR_BYTES
    cdef npy_intp lanes = FILLED_BYTES // size
    if m < TURNED_FROM or n < TURNED_RATIO * m or k < TURNED_K:
        return False
    if m > (TURNED_WIDE if size != 4 else TURNED_NEAR if near else TURNED_FAR):
        return False
    if lanes == 0:
        return not (size == 4 and near and DOT_FIRST <= m < DOT_END)
    if size == 4 and m <= lanes and k * size % FILLED_PAGE == 0:
        return False
    cdef double most = FILLED if size == 4 else FILLED_WIDE
    return 2 * m == 3 * lanes or m > most * <double>(lanes * ((m + lanes - 1) // lanes))


cdef inline bint thin(npy_intp m, npy_intp row_c, npy_intp k) noexcept nogil:
    # `ways.turns` of sizes, where A is given transposed.
    if m < THIN_M or k < THIN_K or k > THIN_STEPS:
        return False
    return THIN_MORE < row_c <= THIN_MOST or WIDER_MORE < row_c <= WIDER_MOST


cdef inline bint exchanges(npy_intp m, npy_intp n, npy_intp k, npy_intp size, int part) noexcept nogil:
    # `ways.turns` of sizes, where both operands are given transposed.
    if thin(m, n * size, k):
        return True
    if m < 2 or n < 2 or k < 2:
        return False
    if k < EXCHANGED_K:
        return part == 1 and m * size < BRIEF_BYTES and n <= BRIEF_N and (n != 3 or k >= BRIEF_THREE)
    if k < EXCHANGED_LONG:
        return m <= EXCHANGED_M and n <= EXCHANGED_N
    return n <= EXCHANGED_N or m * n <= EXCHANGED_OUT


cdef int describe(
        int code, npy_intp m, npy_intp n, npy_intp k, npy_intp batch,
        const operand_t* a, const operand_t* b, const operand_t* c,
        call_t* call, key_t* key) noexcept nogil:
    cdef npy_intp size = AB_BYTES[code], size_c = C_BYTES[code]
    # Whole numbers of components by shifts: six divisions take as many nanoseconds.
    cdef int by = AB_SHIFTS[code], by_c = C_SHIFTS[code]
    cdef int part = PARTS[code], threads = threads_now()
    cdef npy_intp rs_c, cs_c, rows
    cdef int way = 1
    cdef bint turned
    cdef char la, lb
    if (a.rows | a.cols | b.rows | b.cols) & (size - 1) or (c.rows | c.cols) & (size_c - 1):
        return 0
    rs_c, cs_c = c.rows >> by_c, c.cols >> by_c
    turned = n == 1 and m > 1 or (n > 1 and cs_c != part and rs_c == part)
    if TURNS[code]:
        if a.cols == size * part and b.rows == size * part:
            turned ^= batch == 1 and (turns(n, m, k, size * part) if turned else turns(m, n, k, size * part))
        elif not turned and a.rows == size * part and b.rows == size * part:
            turned = exchanges(m, n, k, size * part, part)
        elif turned and a.cols == size * part and b.cols == size * part:
            turned = not exchanges(n, m, k, size * part, part)
        elif a.rows == size * part and b.cols == size * part:
            turned ^= thin(n, m * size * part, k) if turned else thin(m, n * size * part, k)
    elif BY_MATRICES[code] and batch == 1 and n > 1 and m > 1 and a.cols == size and b.rows == size:
        turned ^= (turns_matrices(n, m, k, size, MATRIX_LEAST[code]) if turned
                   else turns_matrices(m, n, k, size, MATRIX_LEAST[code]))
    if turned:
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
    call.slim = False
    call.soon = NULL
    call.copy_b, call.copied_b = NULL, False
    call.store.terms = NULL
    call.store.appended = 0
    call.store.conj = 0
    call.store.fused = 0
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
    if max(key.m, key.n, key.k, key.batch) > problem.MAX_DIM:
        return NO_KERNEL
    cdef Plan found
    if key.kind & VECTORS:
        found = dispatch.plan_for(problem_of(key), limbs=False)
    else:
        found = dispatch.plan_for(problem_of(key))
    plan[0] = found.plan
    cache_put(key, plan)
    return 0


cdef int resolve_quietly(const key_t* key, plan_t* plan) noexcept with gil:
    # Inside NumPy's loops nothing can be raised: the call gets its answer from NumPy whatever goes wrong here, and
    # the reason goes to sys.unraisablehook.  Python code leaves floating-point flags behind: not those of the product.
    cdef unsigned flags = fg_float_state()
    try:
        return resolve(key, plan)
    except BaseException as error:
        PyErr_SetObject(type(error), error)
        PyErr_WriteUnraisable("fastgemm: no plan for a product, NumPy computes it")
        return NO_KERNEL
    finally:
        fg_set_float_state(flags)


cdef int execute(const key_t* key, const call_t* call) noexcept nogil:
    cdef plan_t plan
    cdef key_t other
    cdef int failed
    if not cache_get(key, &plan):
        if resolve_quietly(key, &plan):
            return NO_KERNEL
    if plan.kernels == NULL:
        return NO_KERNEL
    failed = run_plan(&plan, call)
    if failed != OTHERWISE:
        return failed
    other = key[0]
    other.kind |= VECTORS
    return execute(&other, call)


# ---- the same small product once more ------------------------------------------------------------------------------

cdef enum:
    REMEMBERED_BITS = 4         # the logarithm of how many a thread keeps
    REMEMBERED_BYTES = 1024     # of each

cdef extern from *:
    """
    static __thread __attribute__((aligned(64))) char fg_remembered[16][1024];
    """
    char fg_remembered[16][1024]

if sizeof(remembered_t) > REMEMBERED_BYTES:
    raise ImportError("fastgemm: plans have grown")


cdef inline remembered_t* kept(form_t* form, int code, npy_intp m, npy_intp n, npy_intp k,
                               const operand_t* a, const operand_t* b, const operand_t* c) noexcept nogil:
    # Fills in the form; returns where a product of that form is kept, if it is.
    form.kind = generation() << 40 | <unsigned long long>threads_now() << 24 | <unsigned long long>code
    form.m, form.n, form.k = m, n, k
    form.a_rows, form.a_cols, form.b_rows, form.b_cols = a.rows, a.cols, b.rows, b.cols
    form.c_rows, form.c_cols = c.rows, c.cols
    # (Unsigned: strides may be below zero.)
    cdef unsigned long long mixed = (<unsigned long long>m ^ <unsigned long long>n << 10 ^ <unsigned long long>k << 20
                                     ^ <unsigned long long>a.cols << 5) * 0x9E3779B97F4A7C15ULL
    return <remembered_t*>fg_remembered[mixed >> (64 - REMEMBERED_BITS)]


cdef remembered_t* remembered(int code, npy_intp m, npy_intp n, npy_intp k,
                              const operand_t* a, const operand_t* b, const operand_t* c) noexcept nogil:
    cdef form_t form
    cdef remembered_t* found = kept(&form, code, m, n, k, a, b, c)
    cdef const form_t* other = &found.form
    if ((form.kind ^ other.kind) | (form.m ^ other.m) | (form.n ^ other.n) | (form.k ^ other.k)
            | (form.a_rows ^ other.a_rows) | (form.a_cols ^ other.a_cols) | (form.b_rows ^ other.b_rows)
            | (form.b_cols ^ other.b_cols) | (form.c_rows ^ other.c_rows) | (form.c_cols ^ other.c_cols)):
        return NULL
    return found


cdef int repeat(remembered_t* known, const operand_t* a, const operand_t* b, const operand_t* c) noexcept nogil:
    cdef char* left = a.data if known.way == 1 else b.data
    cdef char* right = b.data if known.way == 1 else a.data
    if known.special != NULL:
        known.special.run(1, left, 0, right, 0, c.data, 0)
        return 0
    known.call.a, known.call.b, known.call.c = left, right, c.data
    return run_plan(&known.plan, &known.call)


cdef bint again(int code, npy_intp m, npy_intp n, npy_intp k,
                const operand_t* a, const operand_t* b, const operand_t* c) noexcept nogil:
    cdef remembered_t* found = remembered(code, m, n, k, a, b, c)
    return found != NULL and repeat(found, a, b, c) == 0


cdef void remember(int code, npy_intp m, npy_intp n, npy_intp k, const operand_t* a, const operand_t* b,
                   const operand_t* c, int way, const call_t* call, const key_t* key) noexcept nogil:
    cdef form_t form
    cdef plan_t plan
    # Teams are for more than small products, and counted calls have to be found in the cache.
    if counting() or not cache_get(key, &plan) or plan.kernels == NULL or plan.threads > 1 or plan.limbs:
        return
    cdef remembered_t* place = kept(&form, code, m, n, k, a, b, c)
    place.form, place.way, place.call, place.plan = form, way, call[0], plan
    place.special = plan.special if plan.special != NULL and special_takes(plan.special, call) else NULL


READY = False


cdef int make_ready() except -1:
    if READY:
        return 0
    return first_time()


cdef int first_time() except -1:
    # Before the first call, where an exception still reaches the caller: FASTGEMM_ISA that cannot be had, variables
    # that say nothing known, a warning about a database file under "-W error".
    global READY, NEAR_BYTES, THIN_STEPS, FILLED_BYTES, BRIEF_BYTES
    global TURNED_NEAR, TURNED_FAR, TURNED_WIDE, FILLED, FILLED_WIDE, FILLED_PAGE
    NEAR_BYTES, THIN_STEPS, FILLED_BYTES = ways.near_bytes(), ways.thin_steps(), ways.filled_bytes()
    BRIEF_BYTES = ways.brief_bytes()
    TURNED_NEAR, TURNED_FAR, TURNED_WIDE, FILLED, FILLED_WIDE, FILLED_PAGE = ways.turning()
    kernels.active_isa()
    allowed.check()
    for row in registry.DTYPES:
        BY_MATRICES[<int>row.code] = ways.turns_matrices(row)
    dispatch.tuned()
    READY = True
    return 0


cdef bint disjoint(cnp.ndarray x, cnp.ndarray y) noexcept:
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
