"""One contraction of two arrays as matrix products, straight from their strides.

Every axis has a role: of a stack (in both operands and the result), free (in one operand and the result) or summed
(in both operands alone).  Axes of one role that lie in memory like a single axis are joined; what remains beside one
axis of rows, one of columns and one to sum over is looped over, sums by adding to the result.  Nothing is copied and no
view is made.  A stack of tiny products that lie interleaved is left to np.einsum's loop.
"""

from libc.string cimport memset
from numpy cimport npy_intp

cimport numpy as cnp

from fastgemm._call cimport CODES, MAX_CODES, TYPES, disjoint, lets_go, make_ready
from fastgemm._gufunc cimport extra_t, taken, taken_with
from fastgemm._outputs cimport empty
from fastgemm.driver._team cimport threads_now
from fastgemm.float_errors cimport clear_flags, report_flags

import numpy as np

from fastgemm import dispatch, registry

cnp.import_array()
cnp.import_ufunc()

# By value: a program may put our function in the place of NumPy's.
_numpy_einsum = np.einsum

cdef enum:
    MAX_AXES = 64
    MAX_LABELS = 52         # of np.einsum
    # Multiply-adds of one product from which on axes that do not join are looped over: a product of fewer costs more
    # than its share of a copy (40 ns against about 1 ns for an element).
    LOOPED = 4096
    # And where axes are summed over, so that all products but the first add to the result (`adds`).  Zen 4, one thread,
    # speed over a copy of the left operand, m x n x k f32 f64 c64: 16 x 4 x 16 0.6 1.1 1.1, 120 x 1 x 16 2.7 3.1 2.4,
    # 30 x 1 x 64 4.2 3.2 3.1, 500 x 20 x 64 2.0 1.8 2.1, 300 x 4 x 300 2.4 8.1 3.2.
    ADDED = 1536
    # Steps of such a product: of fewer all its time is what a product takes to begin (an inner axis of 8, reversed, 100
    # x n x 8, 50 of them, n = 2, 4, 8 0.4 0.5 0.6, 600 x n x 8 0.6 0.4 0.5; of 20 1.0 1.0 1.3, 1.0 1.1 1.7).
    ADDED_STEPS = 12
    # A stack whose axis lies innermost in all arrays: np.einsum multiplies vectors along it, a kernel gathers every
    # product from as many cache lines as it has elements, which pays where those are used often enough.  Zen 4, one
    # thread, stack of 256 adjacent elements, time of the kernels over np.einsum's, m = n = k 6 8 12 16 24 (elements are
    # used n / 3 times): i8 8.6 6.0 3.8 2.7 1.6, i16 4.6 3.7 2.1 1.4 0.9, i32 3.2 2.3 1.6 1.3 0.9, f32 3.1 2.3 1.8 1.4
    # 1.1, i64 1.7 1.4 0.9 0.7 0.5, f64 2.4 2.1 1.4 1.2 0.9; a matrix of 64 x 64 by a vector f32 12.7, f64 21, f32 of a
    # stack of 8 0.7, 16 1.7, 32 2.4.  So the factor goes by the square of the uses, and their bytes.  One element at a
    # time, stacks from 1000: c64 3 x 3 x 3 2.6, 6 0.5, 8 x 8 by a vector 1.4, c128 2.4 0.5 1.5; f32 with gaps 6.8 0.9
    # 3.7; 64 x 64 by a vector in a stack of 64 c64 0.7, f32 with gaps 2.1.
    USES_BYTES = 40         # most squares of uses, times bytes of an element, times threads, of adjacent real numbers
    USES = 2                # most squares of uses, times threads, of others
    LEAST_STACK = 32
    LEAST_STACK_OTHERS = 128

# Types that np.einsum multiplies as fast as it reads them; it converts halves one by one (16 x 16 by a vector, 0.2 of
# the kernels' speed), and looks at every bool (0.5).
cdef bint PLAIN[MAX_CODES]
cdef bint REAL[MAX_CODES]
for _row in registry.DTYPES:
    PLAIN[<int>_row.code] = not _row.converts or _row.stored == "s8"
    REAL[<int>_row.code] = _row.parts == 1

# Types whose sums are added: others are converted, so copied, and halves would be rounded every time.
cdef bint ADDS[MAX_CODES]
for _row in registry.DTYPES:
    ADDS[<int>_row.code] = not _row.converts


# ---- two vectors or matrices ---------------------------------------------------------------------------------------

def plain_dot(x1, x2, out, bint transposed, const char* name):
    """Return the product of plain vectors or matrices in C order; None where that takes more than a call of a kernel.

    Parameters
    ----------
    x1, x2 : object
        Anything; the answer is None unless they are arrays of one dtype with kernels and of sizes that fit.
    out : object
        None, or an output as `np.dot` wants it.
    transposed : bool
        Whether the sum runs over the last axis of `x2` instead of the first.
    name : bytes
        The function whose floating-point errors NumPy is told of.
    """
    cdef cnp.ndarray a, b, c
    cdef npy_intp shape[2]
    cdef char* args[3]
    cdef npy_intp dims[4]
    cdef npy_intp steps[9]
    cdef int number, code, nd = 0, summed, other
    cdef bint done
    if not (cnp.PyArray_CheckExact(x1) and cnp.PyArray_CheckExact(x2)):
        return None
    a, b = x1, x2
    number = cnp.PyArray_TYPE(a)
    if number != cnp.PyArray_TYPE(b) or not 0 <= number < TYPES or CODES[number] < 0:
        return None
    if not (1 <= cnp.PyArray_NDIM(a) <= 2 and 1 <= cnp.PyArray_NDIM(b) <= 2
            and cnp.PyArray_ISBEHAVED_RO(a) and cnp.PyArray_ISBEHAVED_RO(b)):
        return None
    code = CODES[number]
    memset(steps, 0, sizeof(steps))
    dims[0] = dims[1] = dims[3] = 1
    dims[2] = cnp.PyArray_DIM(a, cnp.PyArray_NDIM(a) - 1)
    steps[4] = cnp.PyArray_STRIDE(a, cnp.PyArray_NDIM(a) - 1)
    if cnp.PyArray_NDIM(a) == 2:
        dims[1] = shape[nd] = cnp.PyArray_DIM(a, 0)
        steps[3] = cnp.PyArray_STRIDE(a, 0)
        nd += 1
    summed = 1 if transposed and cnp.PyArray_NDIM(b) == 2 else 0
    if cnp.PyArray_NDIM(b) == 2:
        other = 1 - summed
        dims[3] = shape[nd] = cnp.PyArray_DIM(b, other)
        steps[6] = cnp.PyArray_STRIDE(b, other)
        nd += 1
    if cnp.PyArray_DIM(b, summed) != dims[2] or dims[1] == 0 or dims[2] == 0 or dims[3] == 0:
        return None
    steps[5] = cnp.PyArray_STRIDE(b, summed)
    make_ready()
    if out is None:
        c = empty(nd, shape, number)
    else:
        if not cnp.PyArray_CheckExact(out):
            return None
        c = out
        if not (cnp.PyArray_ISCARRAY(c) and cnp.PyArray_TYPE(c) == number and cnp.PyArray_NDIM(c) == nd):
            return None
        for other in range(nd):
            if cnp.PyArray_DIM(c, other) != shape[other]:
                return None
        if not (disjoint(a, c) and disjoint(b, c)):
            return None
    if cnp.PyArray_NDIM(a) == 2:
        steps[7] = cnp.PyArray_STRIDE(c, 0)
    if cnp.PyArray_NDIM(b) == 2:
        steps[8] = cnp.PyArray_STRIDE(c, nd - 1)
    args[0], args[1], args[2] = cnp.PyArray_BYTES(a), cnp.PyArray_BYTES(b), cnp.PyArray_BYTES(c)
    clear_flags()
    # As floats: the product of the sizes may leave an npy_intp.
    if lets_go(<double>dims[1] * <double>dims[2] * <double>dims[3]):
        with nogil:
            done = taken(code, args, dims, steps)
    else:
        done = taken(code, args, dims, steps)
    if not done:
        return None
    report_flags(name)
    return c if nd else cnp.PyArray_ToScalar(cnp.PyArray_DATA(c), c)


# ---- any axes ------------------------------------------------------------------------------------------------------

cdef struct axis_t:
    npy_intp size
    npy_intp strides[3]     # in a, b and the result; 0 where it has no such axis

cdef struct group_t:
    int count
    axis_t axes[MAX_AXES]


cdef inline npy_intp magnitude(npy_intp x) noexcept:
    return -x if x < 0 else x


cdef int gather(group_t* group, tuple arrays, tuple first, tuple second, int one, int other) except -1:
    # The axes of one role, those of length one left out, from the two arrays that have it.
    cdef Py_ssize_t i
    cdef int p, q
    cdef axis_t* axis
    group.count = 0
    for i in range(len(first)):
        p, q = first[i], second[i]
        if cnp.PyArray_DIM(arrays[one], p) == 1:
            continue
        axis = &group.axes[group.count]
        axis.size = cnp.PyArray_DIM(arrays[one], p)
        axis.strides[0] = axis.strides[1] = axis.strides[2] = 0
        axis.strides[one] = cnp.PyArray_STRIDE(arrays[one], p)
        axis.strides[other] = cnp.PyArray_STRIDE(arrays[other], q)
        group.count += 1
    return 0


cdef void join(group_t* group, int by) noexcept:
    # Sort the axes, outermost first as they lie in one of the arrays, and join neighbours that are one axis in all.
    cdef int i, j, kept = 0
    cdef axis_t axis
    cdef axis_t* last
    for i in range(1, group.count):
        axis = group.axes[i]
        j = i
        while j > 0 and magnitude(group.axes[j - 1].strides[by]) < magnitude(axis.strides[by]):
            group.axes[j] = group.axes[j - 1]
            j -= 1
        group.axes[j] = axis
    for i in range(1, group.count):
        axis = group.axes[i]
        last = &group.axes[kept]
        if (last.strides[0] == axis.size * axis.strides[0] and last.strides[1] == axis.size * axis.strides[1]
                and last.strides[2] == axis.size * axis.strides[2]):
            last.size *= axis.size
            last.strides = axis.strides
        else:
            kept += 1
            group.axes[kept] = axis
    group.count = kept + 1 if group.count else 0


cdef bint joins(const group_t* group, int by) noexcept:
    # Whether axes are a single one in this array, whatever they are in the others.
    cdef int i
    for i in range(1, group.count):
        if group.axes[i - 1].strides[by] != group.axes[i].size * group.axes[i].strides[by]:
            return False
    return True


cdef int longest(const group_t* group) noexcept:
    cdef int i, best = 0
    for i in range(1, group.count):
        if group.axes[i].size >= group.axes[best].size:
            best = i
    return best


cdef int move_others(group_t* group, int best, group_t* loops) noexcept:
    # Leave one axis of a group (or none), and loop over the others.  Returns how many there are.
    cdef int i, moved = 0
    for i in range(group.count):
        if i != best:
            loops.axes[loops.count] = group.axes[i]
            loops.count += 1
            moved += 1
    if group.count:
        group.axes[0] = group.axes[best]
    else:
        memset(&group.axes[0], 0, sizeof(axis_t))
        group.axes[0].size = 1
    return moved


cdef double length(const group_t* group) noexcept:
    cdef double made = 1
    cdef int i
    for i in range(group.count):
        made *= group.axes[i].size
    return made


cdef bint inside(const axis_t* axis, const group_t* group) noexcept:
    # Whether an axis has no longer strides than those of a group, in all arrays that have both.
    cdef int i, j
    for i in range(group.count):
        for j in range(3):
            if group.axes[i].strides[j] and magnitude(group.axes[i].strides[j]) < magnitude(axis.strides[j]):
                return False
    return True


cdef bint interleaved(int code, const group_t* rows, const group_t* columns, const group_t* depth,
                      const group_t* stack, npy_intp size) except -1:
    # Whether a stack, whose axes are joined as they lie in the result, is of products that np.einsum does faster.
    cdef const axis_t* axis
    cdef double m, n, k, uses
    cdef int threads
    if not stack.count or not PLAIN[code]:
        return False
    axis = &stack.axes[stack.count - 1]
    if not (inside(axis, rows) and inside(axis, columns) and inside(axis, depth) and inside(axis, stack)):
        return False
    m, n, k = length(rows), length(columns), length(depth)
    uses = m * n * k / (m * n + n * k + m * k)
    threads = dispatch.threads_to_cut_for(threads_now())
    if REAL[code] and axis.strides[0] == axis.strides[1] == axis.strides[2] == size:
        return axis.size >= LEAST_STACK and uses * uses * size * threads <= USES_BYTES
    return axis.size >= LEAST_STACK_OTHERS and uses * uses * threads <= USES


cdef int in_one_loop(tuple arrays, tuple stack, tuple free_a, tuple free_b, tuple summed) except -1:
    # np.einsum, which leaves floating-point flags as they are.
    cdef list labels = [[0] * array.ndim for array in arrays]
    cdef int number = 0
    for where, axes in (((0, 1, 2), stack), ((0, 2), free_a), ((1, 2), free_b), ((0, 1), summed)):
        for together in zip(*axes):
            for i, axis in zip(where, together):
                labels[i][axis] = number
            number += 1
    a, b, c = arrays
    _numpy_einsum(a, labels[0], b, labels[1], labels[2], out=c)
    return 0


cdef inline double volume(const axis_t* row, const axis_t* column, const axis_t* step) noexcept:
    return <double>row.size * <double>column.size * <double>step.size


cdef bint adds(const axis_t* row, const axis_t* column, const axis_t* step, const bint* copied, npy_intp size) noexcept:
    # Whether to add such products rather than copy operands for a single one.  To read and write the result once more
    # takes as long as to copy so many elements, or longer (the right operand alone, Zen 4, f32 f64: 600 x 6 x 50 0.8
    # 0.7, 30 x 20 x 8 0.5 0.6; 30 x 20 x 500 1.5 1.4, 6 x 6 x 50 1.8 2.5).  An operand without adjacent elements is
    # copied by a kernel too (dot products of 4000, 0.6 0.7).
    cdef const axis_t* free
    cdef double spared = 0
    cdef int i
    for i in range(2):
        free = column if i else row
        if copied[i] and (magnitude(step.strides[i]) == size or magnitude(free.strides[i]) == size):
            spared += <double>free.size * <double>step.size
    if step.size < ADDED_STEPS or volume(row, column, step) < ADDED:
        return False
    return spared >= <double>row.size * <double>column.size


def contract(cnp.ndarray a not None, cnp.ndarray b not None, cnp.ndarray c not None, tuple stack, tuple free_a,
             tuple free_b, tuple summed, name):
    """Write the contraction of `a` and `b` into `c`; return False where nothing of use was written.

    Parameters
    ----------
    a, b, c : ndarray
        Of one dtype with kernels, not empty; `c` may be written to and overlaps neither.
    stack : tuple
        Axes of `a`, of `b`, of `c`, as three tuples.
    free_a, free_b : tuple
        Axes of `a` (or `b`) and of `c`.
    summed : tuple
        Axes of `a` and of `b`.
    name : bytes or None
        The function whose floating-point errors NumPy is told of; None: they are dropped.

    Returns
    -------
    bool
        False also where the axes would have to be looped over in products too small: a copy serves better.
    """
    cdef tuple arrays = (a, b, c)
    cdef int code = CODES[cnp.PyArray_TYPE(a)] if cnp.PyArray_TYPE(a) < TYPES else -1
    cdef group_t rows, columns, depth, loops, others, sums
    cdef int i, moved, first_sum, inner = 0
    cdef int larger = 0 if cnp.PyArray_SIZE(a) >= cnp.PyArray_SIZE(b) else 1
    cdef npy_intp size = cnp.PyArray_ITEMSIZE(a)
    cdef bint done
    cdef bint copied[2]
    cdef char* args[3]
    cdef npy_intp dims[4]
    cdef npy_intp steps[9]
    cdef npy_intp at[MAX_AXES]
    if code < 0 or not (cnp.PyArray_ISALIGNED(a) and cnp.PyArray_ISALIGNED(b) and cnp.PyArray_ISALIGNED(c)):
        return False
    if cnp.PyArray_NDIM(a) + cnp.PyArray_NDIM(b) > MAX_AXES:
        return False
    gather(&depth, arrays, summed[0], summed[1], 0, 1)
    join(&depth, 1 - larger)
    if depth.count > 1:
        gather(&depth, arrays, summed[0], summed[1], 0, 1)
        join(&depth, larger)
        for i in range(2):
            copied[i] = not joins(&depth, i)
        inner = depth.count - 1
        if magnitude(depth.axes[inner].strides[larger]) > size:
            inner = longest(&depth)
    gather(&rows, arrays, free_a[0], free_a[1], 0, 2)
    gather(&columns, arrays, free_b[0], free_b[1], 1, 2)
    join(&rows, 2)
    join(&columns, 2)
    gather(&loops, arrays, stack[0], stack[2], 0, 2)
    # gather leaves out the same axes for both pairs of arrays, so they correspond.
    gather(&others, arrays, stack[1], stack[2], 1, 2)
    for i in range(loops.count):
        loops.axes[i].strides[1] = others.axes[i].strides[1]
    join(&loops, 2)
    if interleaved(code, &rows, &columns, &depth, &loops, size) and a.ndim + b.ndim <= MAX_LABELS:
        clear_flags()
        in_one_loop(arrays, stack, free_a, free_b, summed)
        if name is not None:
            report_flags(name)
        return True
    if depth.count > 1 and not ADDS[code]:
        return False
    moved = move_others(&rows, longest(&rows), &loops) + move_others(&columns, longest(&columns), &loops)
    sums.count = 0
    move_others(&depth, inner, &sums)
    if sums.count:
        if not adds(&rows.axes[0], &columns.axes[0], &depth.axes[0], copied, size):
            return False
    elif moved and volume(&rows.axes[0], &columns.axes[0], &depth.axes[0]) < LOOPED:
        return False
    join(&loops, 2)
    args[0], args[1], args[2] = cnp.PyArray_BYTES(a), cnp.PyArray_BYTES(b), cnp.PyArray_BYTES(c)
    dims[0], dims[1], dims[2], dims[3] = 1, rows.axes[0].size, depth.axes[0].size, columns.axes[0].size
    steps[0] = steps[1] = steps[2] = 0
    steps[3], steps[4] = rows.axes[0].strides[0], depth.axes[0].strides[0]
    steps[5], steps[6] = depth.axes[0].strides[1], columns.axes[0].strides[1]
    steps[7], steps[8] = rows.axes[0].strides[2], columns.axes[0].strides[2]
    if loops.count:
        # The last loop is the stack that the driver knows of.
        loops.count -= 1
        dims[0] = loops.axes[loops.count].size
        for i in range(3):
            steps[i] = loops.axes[loops.count].strides[i]
    first_sum = loops.count
    for i in range(sums.count):
        loops.axes[loops.count] = sums.axes[i]
        loops.count += 1
    memset(at, 0, sizeof(at))
    make_ready()
    clear_flags()
    with nogil:
        done = every(code, args, dims, steps, &loops, first_sum, at)
    if name is None:
        clear_flags()
    elif done:
        report_flags(name)
    return done


cdef bint every(int code, char** args, const npy_intp* dims, const npy_intp* steps, const group_t* loops, int first_sum,
                npy_intp* at) noexcept nogil:
    # All the products, the last loop fastest.  From `first_sum` on, loops are over sums.
    cdef int i, j
    cdef extra_t extra
    memset(&extra, 0, sizeof(extra))
    while True:
        if not taken_with(code, args, dims, steps, &extra):
            return False
        i = loops.count - 1
        while i >= 0:
            at[i] += 1
            if at[i] < loops.axes[i].size:
                for j in range(3):
                    args[j] += loops.axes[i].strides[j]
                break
            for j in range(3):
                args[j] -= (at[i] - 1) * loops.axes[i].strides[j]
            at[i] = 0
            i -= 1
        if i < 0:
            return True
        extra.adds = i >= first_sum
