"""One contraction of two arrays as matrix products, straight from their strides.

Every axis has a role: of a stack (in both operands and the result), free (in one operand and the result) or summed
(in both operands alone).  Axes of one role that lie in memory like a single axis are joined; what remains beside one
axis of rows, one of columns and one to sum over is looped over.  Nothing is copied and no view is made.
"""

from libc.string cimport memset
from numpy cimport npy_intp

cimport numpy as cnp

from fastgemm._call cimport CODES, TYPES, disjoint, lets_go, make_ready
from fastgemm._gufunc cimport taken
from fastgemm._outputs cimport empty
from fastgemm.float_errors cimport clear_flags, report_flags

cnp.import_array()
cnp.import_ufunc()

cdef enum:
    MAX_AXES = 64
    # Multiply-adds of one product from which on axes that do not join are looped over: a product of fewer costs more
    # than its share of a copy (40 ns against about 1 ns for an element).
    LOOPED = 4096


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


cdef int move_smaller(group_t* group, group_t* loops) noexcept:
    # Leave the longest axis of a group (or none), and loop over the others.  Returns how many there are.
    cdef int i, best = 0, moved = 0
    for i in range(1, group.count):
        if group.axes[i].size >= group.axes[best].size:
            best = i
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


def contract(cnp.ndarray a, cnp.ndarray b, cnp.ndarray c, tuple stack, tuple free_a, tuple free_b, tuple summed, name):
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
    cdef group_t rows, columns, depth, loops, others
    cdef int i, moved
    cdef bint done
    cdef char* args[3]
    cdef npy_intp dims[4]
    cdef npy_intp steps[9]
    cdef npy_intp at[MAX_AXES]
    if code < 0 or not (cnp.PyArray_ISALIGNED(a) and cnp.PyArray_ISALIGNED(b) and cnp.PyArray_ISALIGNED(c)):
        return False
    if cnp.PyArray_NDIM(a) + cnp.PyArray_NDIM(b) > MAX_AXES:
        return False
    gather(&depth, arrays, summed[0], summed[1], 0, 1)
    join(&depth, 0)
    if depth.count > 1:
        gather(&depth, arrays, summed[0], summed[1], 0, 1)
        join(&depth, 1)
        if depth.count > 1:
            return False
    gather(&rows, arrays, free_a[0], free_a[1], 0, 2)
    gather(&columns, arrays, free_b[0], free_b[1], 1, 2)
    join(&rows, 2)
    join(&columns, 2)
    gather(&loops, arrays, stack[0], stack[2], 0, 2)
    # gather leaves out the same axes for both pairs of arrays, so they correspond.
    gather(&others, arrays, stack[1], stack[2], 1, 2)
    for i in range(loops.count):
        loops.axes[i].strides[1] = others.axes[i].strides[1]
    moved = move_smaller(&rows, &loops) + move_smaller(&columns, &loops)
    move_smaller(&depth, &loops)
    if moved and <double>rows.axes[0].size * <double>columns.axes[0].size * <double>depth.axes[0].size < LOOPED:
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
    memset(at, 0, sizeof(at))
    make_ready()
    clear_flags()
    with nogil:
        done = every(code, args, dims, steps, &loops, at)
    if name is None:
        clear_flags()
    elif done:
        report_flags(name)
    return done


cdef bint every(int code, char** args, const npy_intp* dims, const npy_intp* steps, const group_t* loops,
                npy_intp* at) noexcept nogil:
    # All the products, the last loop fastest.
    cdef int i, j
    while True:
        if not taken(code, args, dims, steps):
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
