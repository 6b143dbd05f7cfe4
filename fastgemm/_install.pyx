"""The inner loops of NumPy's own products, and ours to put in their place (`fastgemm.numpy_loops` does).

NumPy's product ufuncs keep one inner loop for each dtype, and its C API has a call that replaces one:
`PyUFunc_ReplaceLoopBySignature`.  What it puts in place, ``@``, `np.matmul` and everything built on them use at once,
with NumPy's own conversions, broadcasting, overrides and errors around it.  The call also renews what NumPy has
cached about a loop, so nothing here writes to a ufunc by itself.

A loop is one pointer and every loop that ever stood in a ufunc stays valid for the life of the process: a call
under way in another thread finishes on the loop that it began with, the next one takes the new one.
"""

from libc.string cimport memset
from numpy cimport npy_intp

cimport numpy as cnp

from fastgemm._call cimport CODES, MAX_CODES, make_ready
from fastgemm._gufunc cimport PyUFuncObject, extra_t, inner_loop, loop_t, taken, taken_with

import numpy as np

from fastgemm import numpy_types, registry

cnp.import_array()
cnp.import_ufunc()

ctypedef char* pointer_t

cdef enum:
    MATMUL, MATVEC, VECMAT, VECDOT, UFUNCS
    # Elements of a vector from which on a stack of dot products is worth a call of the kernels for each.  f32, one
    # thread, times NumPy: 100000 of 3 0.34, 1000 of 64 0.68, 1000 of 1000 1.11; 1000 of 64 with strides 0.47.
    LONG_DOT = 512

cdef extern from "numpy/ufuncobject.h":
    int PyUFunc_ReplaceLoopBySignature(PyUFuncObject*, loop_t, const int*, loop_t*) except? -1

cdef extern from *:
    """
    /* NumPy hands a loop the data of the loop that it replaces, so a loop of ours cannot learn its dtype from there:
       each ufunc has one entry for each registry code, and the entry passes the code on. */
    typedef void (*fg_loop_t)(char **, const npy_intp *, const npy_intp *, void *);
    static fg_loop_t fg_bodies[4];
    #define FG_ENTRY(u, c) \\
        static void fg_entry_##u##_##c(char **args, const npy_intp *dims, const npy_intp *steps, void *data) { \\
            (void)data; fg_bodies[u](args, dims, steps, (void *)(size_t)c); }
    #define FG_EACH(X, u) X(u, 0) X(u, 1) X(u, 2) X(u, 3) X(u, 4) X(u, 5) X(u, 6) X(u, 7) \\
        X(u, 8) X(u, 9) X(u, 10) X(u, 11) X(u, 12) X(u, 13) X(u, 14) X(u, 15)
    FG_EACH(FG_ENTRY, 0) FG_EACH(FG_ENTRY, 1) FG_EACH(FG_ENTRY, 2) FG_EACH(FG_ENTRY, 3)
    #define FG_NAME(u, c) fg_entry_##u##_##c,
    static const fg_loop_t fg_entries[4][16] = {
        {FG_EACH(FG_NAME, 0)}, {FG_EACH(FG_NAME, 1)}, {FG_EACH(FG_NAME, 2)}, {FG_EACH(FG_NAME, 3)}};
    """
    loop_t fg_bodies[UFUNCS]
    const loop_t fg_entries[UFUNCS][MAX_CODES]

# What stood in each ufunc at import: the last rung of the loops below, whatever another library does later.
# (matmul's own are in _gufunc.)
cdef loop_t LOOPS[UFUNCS][MAX_CODES]
cdef void* DATA[UFUNCS][MAX_CODES]
memset(LOOPS, 0, sizeof(LOOPS))
memset(DATA, 0, sizeof(DATA))


# ---- loops ---------------------------------------------------------------------------------------------------------

# Each asks for the matmul that it is, as `taken` wants it: dims outer, m, k, n; steps outer of a, b, c, then rows and
# columns of a, b, c.  An outer loop over one and the same operand (step 0) is a single product with as many rows.

cdef void matvec(char** args, const npy_intp* dims, const npy_intp* steps, void* data) noexcept nogil:
    # dims: outer, m, n.  steps: outer of a, x, y; rows and columns of a; x; y.
    cdef int code = <int>(<size_t>data)
    cdef npy_intp[4] d = [dims[0], dims[1], dims[2], 1]
    cdef npy_intp[9] s = [steps[0], steps[1], steps[2], steps[3], steps[4], steps[5], 0, steps[6], 0]
    cdef npy_intp[4] d1 = [1, dims[0], dims[2], dims[1]]
    cdef npy_intp[9] s1 = [0, 0, 0, steps[1], steps[5], steps[4], steps[3], steps[2], steps[6]]
    cdef pointer_t[3] swapped = [args[1], args[0], args[2]]
    if dims[0] > 1 and steps[0] == 0:
        if taken(code, swapped, d1, s1):
            return
    elif taken(code, args, d, s):
        return
    LOOPS[MATVEC][code](args, dims, steps, DATA[MATVEC][code])


cdef extra_t FIRST, SECOND      # vecmat and vecdot conjugate their first operand, wherever it is put
memset(&FIRST, 0, sizeof(FIRST))
memset(&SECOND, 0, sizeof(SECOND))
FIRST.conj, SECOND.conj = 1, 2
# By code: whether there is something to conjugate.
cdef bint COMPLEX[MAX_CODES]
for _row in registry.DTYPES:
    COMPLEX[<int>_row.code] = _row.parts == 2


cdef void vecmat(char** args, const npy_intp* dims, const npy_intp* steps, void* data) noexcept nogil:
    # dims: outer, n, m.  steps: outer of x, a, y; x; rows and columns of a; y.
    cdef int code = <int>(<size_t>data)
    cdef npy_intp[4] d = [dims[0], 1, dims[1], dims[2]]
    cdef npy_intp[9] s = [steps[0], steps[1], steps[2], 0, steps[3], steps[4], steps[5], 0, steps[6]]
    if dims[0] > 1 and steps[1] == 0:
        d[0], d[1], s[3], s[7] = 1, dims[0], steps[0], steps[2]
    if not taken_with(code, args, d, s, &FIRST if COMPLEX[code] else NULL):
        LOOPS[VECMAT][code](args, dims, steps, DATA[VECMAT][code])


cdef void vecdot(char** args, const npy_intp* dims, const npy_intp* steps, void* data) noexcept nogil:
    # dims: outer, n.  steps: outer of x, y, z; x; y.
    cdef int code = <int>(<size_t>data)
    cdef int many = 1 if steps[0] == 0 else 0   # the operand that has a vector for each result
    cdef npy_intp[4] d = [dims[0], 1, dims[1], 1]
    cdef npy_intp[9] s = [steps[0], steps[1], steps[2], 0, steps[3], steps[4], 0, 0, 0]
    cdef npy_intp[4] d1 = [1, dims[0], dims[1], 1]
    cdef npy_intp[9] s1 = [0, 0, 0, steps[many], steps[3 + many], steps[4 - many], 0, steps[2], 0]
    cdef pointer_t[3] ordered = [args[many], args[1 - many], args[2]]
    if dims[0] > 1 and steps[1 - many] == 0:
        if taken_with(code, ordered, d1, s1, (&SECOND if many else &FIRST) if COMPLEX[code] else NULL):
            return
    elif dims[0] == 1 or dims[1] >= LONG_DOT:
        if taken_with(code, args, d, s, &FIRST if COMPLEX[code] else NULL):
            return
    LOOPS[VECDOT][code](args, dims, steps, DATA[VECDOT][code])


fg_bodies[MATMUL], fg_bodies[MATVEC], fg_bodies[VECMAT], fg_bodies[VECDOT] = inner_loop, matvec, vecmat, vecdot


# ---- slots ---------------------------------------------------------------------------------------------------------

cdef class Slot:
    """The place of one dtype's loop in a ufunc: NumPy's, and ours to put there.

    Parameters
    ----------
    ufunc : numpy.ufunc
        One of NumPy's products.
    which : int
        Its number here.
    num : int
        NumPy's number of the dtype.
    """

    cdef object ufunc
    cdef int index
    cdef loop_t ours, before
    cdef int types[3]
    cdef readonly str name

    def __cinit__(self, ufunc, int which, int num):
        cdef int i
        if not (isinstance(ufunc, np.ufunc) and 0 <= which < UFUNCS):
            raise ValueError("no such ufunc")
        self.ufunc, self.name = ufunc, f"{ufunc.__name__} {numpy_types.ROWS[num].name}"
        cdef PyUFuncObject* u = <PyUFuncObject*>ufunc
        self.types[0] = self.types[1] = self.types[2] = num
        self.index = -1
        for i in range(u.ntypes if u.nargs == 3 else 0):
            if u.types[3 * i] == num and u.types[3 * i + 1] == num and u.types[3 * i + 2] == num:
                self.index = i
                break
        self.ours = fg_entries[which][CODES[num]]
        # The first to look has seen NumPy's own.
        if self.index >= 0 and LOOPS[which][CODES[num]] == NULL:
            LOOPS[which][CODES[num]] = u.functions[self.index]
            DATA[which][CODES[num]] = u.data[self.index] if u.data != NULL else NULL

    cdef bint is_ours(self) noexcept:
        return self.index >= 0 and (<PyUFuncObject*>self.ufunc).functions[self.index] == self.ours

    cdef loop_t put(self, loop_t loop) except NULL:
        # Returns what stood there.
        cdef loop_t old = NULL
        if PyUFunc_ReplaceLoopBySignature(<PyUFuncObject*>self.ufunc, loop, self.types, &old) or old == NULL:
            raise RuntimeError(f"NumPy has no loop to replace for {self.name}")
        return old

    cdef int enter(self) except -1:
        cdef loop_t old
        if not self.is_ours():
            old = self.put(self.ours)
            self.before = old
        return 0

    cdef int leave(self) except -1:
        # 0: NumPy's loop is back; 1: a third one, put over ours since, was left alone.
        if self.is_ours():
            self.put(self.before)
            return 0
        return (<PyUFuncObject*>self.ufunc).functions[self.index] != self.before


cdef list every_slot():
    found = []
    for which, name, signature in (
            (MATMUL, "matmul", "(n?,k),(k,m?)->(n?,m?)"), (MATVEC, "matvec", "(m,n),(n)->(m)"),
            (VECMAT, "vecmat", "(n),(n,m)->(m)"), (VECDOT, "vecdot", "(n),(n)->()")):
        ufunc = getattr(np, name, None)     # matvec and vecmat: from NumPy 2.2 on
        if isinstance(ufunc, np.ufunc) and ufunc.signature == signature:
            found += [Slot(ufunc, which, num) for num in numpy_types.ROWS]
    return found


slots = every_slot()


def prepare():
    """Let fail what can fail in a first product, before NumPy is touched: FASTGEMM_ISA, the database."""
    make_ready()


def enter_all():
    """Put every loop of ours in place; NumPy is as it was when this raises."""
    cdef Slot slot
    changed = []
    try:
        for slot in slots:
            if not slot.is_ours():
                slot.enter()
                changed.append(slot)
    except BaseException:
        for slot in reversed(changed):
            slot.leave()
        raise


def leave_all():
    """Put back what stood there; return the names of loops where another library has put its own over ours."""
    cdef Slot slot
    return [slot.name for slot in slots if slot.leave()]


def all_ours():
    """Tell whether every loop is ours now."""
    cdef Slot slot
    for slot in slots:
        if not slot.is_ours():
            return False
    return True
