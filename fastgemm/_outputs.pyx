"""Fresh outputs: memory that begins a line, and is at hand when they are dropped.

NumPy's arrays begin 16 bytes behind a line, so that every vector that is stored takes two (f32 784 x 4800 x 32 into an
output that begins a line 1.1, 255 x 2048 x 16 1.05 on Zen 5).  To ask malloc for those above a KiB, and to give them
back, takes as long as a small product: what a fresh output costs more than one that is given fell from 88 to 46 ns for
32 x 32 float32, from 130 to 75 for 64 x 64.  Of a program that holds a few larger ones at a time, malloc returns the
last to the system and fetches them again, whose pages are cleared first: a layer with its relu and two more, of 1 MiB
each, take 2.8 times as long for it, of 30 MiB 1.3 times (bench/outputs.py).  And from 32 MiB on it does so with every
array (6308 x 1600 x 32, 40 MB, 92 GFLOP/s, and 160 into memory that is there).

So outputs of `OWN_FROM` bytes and more have a memory handler of their own (NEP 49), as a program may set one: the
arrays own their memory like all arrays, can be resized, and are seen by tracemalloc.  A few dropped blocks of each
size up to `SMALL_TO` stay for the next output, as NumPy keeps those below a KiB.  Of larger ones the latest `KEPT`
stay for the next of about their size, up to a number of bytes in all; beyond `HOT` bytes the oldest are told to the
system as free (MADV_FREE), so that it takes their pages where it needs some, before it would swap or end a process.
(Not all of them: to tell it, and to write to such pages again, takes 8 % of a product of 30 MiB.)  Where it cannot be
told so those are given back, and where the address space of the process is limited all larger ones at once; in builds
without a GIL (handlers are called with it held) and under AddressSanitizer small ones too.  A handler that the program
has set is asked instead of this one.
"""

from cpython.object cimport PyObject, PyTypeObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.string cimport memcpy, memmove, memset

cimport numpy as cnp
from numpy cimport ndarray, npy_intp

import os
import warnings

import numpy as np

from fastgemm import variables

cdef extern from *:
    """
    #include <stdint.h>
    #include <stdlib.h>
    #if defined(__linux__)
    #include <sys/mman.h>
    #include <sys/resource.h>
    #include <unistd.h>
    #endif
    /* Handlers are called with the GIL held, and AddressSanitizer could not see who writes to a block that is kept. */
    #if defined(Py_GIL_DISABLED) || defined(__SANITIZE_ADDRESS__)
    #define FG_KEEPS 0
    #else
    #define FG_KEEPS 1
    #endif
    #if defined(__linux__) && defined(MADV_FREE) && FG_KEEPS
    static int fg_room(void) {
        struct rlimit room;
        return getrlimit(RLIMIT_AS, &room) == 0 && room.rlim_cur == RLIM_INFINITY;
    }
    /* Whole huge pages only: a part of one would be split. */
    static int fg_lazily(char *data, size_t bytes) {
        const uintptr_t huge = (uintptr_t)2 << 20;
        uintptr_t first = ((uintptr_t)data + huge - 1) / huge * huge, last = ((uintptr_t)data + bytes) / huge * huge;
        return first < last && madvise((void *)first, last - first, MADV_FREE) == 0;
    }
    static double fg_memory(void) { return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE); }
    #else
    static int fg_room(void) { return 0; }
    static int fg_lazily(char *data, size_t bytes) { (void)data; (void)bytes; return 0; }
    static double fg_memory(void) { return 0; }
    #endif
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
    /* As NumPy asks for its own arrays of 4 MiB and more. */
    static void fg_hugely(char *data, size_t bytes) {
        uintptr_t first = ((uintptr_t)data + 4095) / 4096 * 4096, last = ((uintptr_t)data + bytes) / 4096 * 4096;
        madvise((void *)first, last - first, MADV_HUGEPAGE);
    }
    #else
    static void fg_hugely(char *data, size_t bytes) { (void)data; (void)bytes; }
    #endif
    #if defined(_WIN32)
    #include <malloc.h>
    #define fg_aligned(line, bytes) _aligned_malloc(bytes, line)
    #define fg_release _aligned_free
    #else
    #define fg_aligned aligned_alloc
    #define fg_release free
    #endif
    """
    # Tell the system that it may take the pages of a block that is kept; False where it may not be kept.
    bint fg_lazily(char* data, size_t bytes) noexcept nogil
    # Whether the address space of the process is unlimited.
    bint fg_room() noexcept nogil
    double fg_memory() noexcept nogil
    void fg_hugely(char* data, size_t bytes) noexcept nogil
    bint FG_KEEPS
    void* fg_aligned(size_t line, size_t bytes) noexcept nogil
    void fg_release(void* block) noexcept nogil

cdef extern from "Python.h":
    int PyTraceMalloc_Track(unsigned int, size_t, size_t) noexcept

cdef extern from "numpy/arrayobject.h":
    ctypedef struct PyDataMemAllocator:
        void* ctx
        void* (*malloc)(void*, size_t) noexcept
        void* (*calloc)(void*, size_t, size_t) noexcept
        void* (*realloc)(void*, void*, size_t) noexcept
        void (*free)(void*, void*, size_t) noexcept

    ctypedef struct PyDataMem_Handler:
        char name[127]
        unsigned char version
        PyDataMemAllocator allocator

    ctypedef struct PyArray_Descr:
        pass

    # Takes over the reference to the descriptor.
    PyObject* PyArray_NewFromDescr(
        PyTypeObject*, PyArray_Descr*, int, const npy_intp*, const npy_intp*, void*, int, PyObject*)
    # The same, where what NumPy raises is raised.
    object new_array "PyArray_NewFromDescr"(
        PyTypeObject*, PyArray_Descr*, int, const npy_intp*, const npy_intp*, void*, int, PyObject*)
    PyArray_Descr* PyArray_DescrFromType(int)
    npy_intp PyDataType_ELSIZE(PyArray_Descr*)
    int NPY_ARRAY_CARRAY
    int NPY_ARRAY_OWNDATA

    ctypedef struct PyArrayObject_fields:
        int flags
        PyObject* mem_handler
    object PyDataMem_GetHandler()
    object PyDataMem_SetHandler(object)
    PyObject* PyDataMem_DefaultHandler

cnp.import_array()

cdef enum:
    MOST_AXES = 32
    LINE = 64               # and the header's length, before each block
    SMALL_TO = 64           # KiB: of each number of them up to this so many blocks stay, 8 MiB in all at most
    AT_HAND = 4
    HUGE_FROM = 1 << 22     # as NumPy
    KEPT = 8
    HOT = 64 << 20          # bytes, about what glibc keeps
    MOST_KEPT = 1 << 30     # bytes in all, by default; or a sixteenth of the memory where that is less

NAME = "FASTGEMM_KEEP_MIB"
cdef object NUMPY_EMPTY = np.empty
cdef unsigned int DOMAIN = np.lib.tracemalloc_domain
cdef double MOST = 1 << 62  # bytes

cdef struct header_t:
    size_t capacity
    bint lazy               # the system may take its pages

cdef char* SMALL[SMALL_TO + 1][AT_HAND]
cdef int SMALLS[SMALL_TO + 1]
# Oldest first.
cdef char* BLOCKS[KEPT]
cdef int COUNT = 0
cdef size_t BYTES = 0, LIMIT = 0


cdef inline size_t capacity_of(void* data) noexcept nogil:
    return (<header_t*>(<char*>data - LINE)).capacity


cdef char* taken_out(int i) noexcept nogil:
    # A block that is kept, which is no longer.
    global COUNT, BYTES
    cdef char* data = BLOCKS[i]
    COUNT -= 1
    BYTES -= capacity_of(data)
    memmove(&BLOCKS[i], &BLOCKS[i + 1], (COUNT - i) * sizeof(char*))
    return data


cdef void leave(int blocks, size_t bytes) noexcept nogil:
    # Give back the oldest until so few blocks, of so few bytes in all, are left.
    while COUNT > blocks or BYTES > bytes:
        fg_release(taken_out(0) - LINE)


cdef void cool() noexcept nogil:
    # Tell the system of the oldest, until all that it does not know of are HOT bytes or fewer.
    cdef size_t hot = 0, capacity
    cdef header_t* header
    cdef int i
    for i in range(COUNT):
        header = <header_t*>(BLOCKS[i] - LINE)
        hot += 0 if header.lazy else header.capacity
    i = 0
    while hot > HOT:
        header = <header_t*>(BLOCKS[i] - LINE)
        if not header.lazy:
            capacity = header.capacity
            hot -= capacity
            header.lazy = fg_lazily(BLOCKS[i], capacity)
            if not header.lazy:
                fg_release(taken_out(i) - LINE)
                continue
        i += 1


cdef void* take(size_t bytes) noexcept nogil:
    cdef int i, best = -1
    cdef size_t kept, most = bytes + bytes // 4, capacity
    cdef char* block
    if bytes <= SMALL_TO << 10:
        i = <int>((bytes + 1023) >> 10)
        if SMALLS[i]:
            SMALLS[i] -= 1
            return SMALL[i][SMALLS[i]]
        capacity = i << 10
    elif bytes > <size_t>-1 // 4:
        return NULL
    else:
        capacity = (bytes + LINE - 1) // LINE * LINE
    for i in range(COUNT):
        kept = capacity_of(BLOCKS[i])
        if bytes <= kept <= most:
            best, most = i, kept
    if best >= 0:
        return taken_out(best)
    block = <char*>fg_aligned(LINE, LINE + capacity)
    if block == NULL and COUNT:
        leave(0, 0)
        block = <char*>fg_aligned(LINE, LINE + capacity)
    if block == NULL:
        return NULL
    if capacity >= HUGE_FROM:
        fg_hugely(block, LINE + capacity)
    (<header_t*>block).capacity = capacity
    return block + LINE


cdef void give(void* data) noexcept nogil:
    global COUNT, BYTES
    cdef size_t capacity = capacity_of(data)
    cdef int i
    if capacity <= SMALL_TO << 10 and FG_KEEPS:
        i = <int>(capacity >> 10)
        if SMALLS[i] == AT_HAND:
            # The latest is in the caches.
            fg_release(SMALL[i][0] - LINE)
            SMALLS[i] -= 1
            memmove(&SMALL[i][0], &SMALL[i][1], SMALLS[i] * sizeof(char*))
        SMALL[i][SMALLS[i]] = <char*>data
        SMALLS[i] += 1
    elif capacity <= LIMIT and fg_room():
        leave(KEPT - 1, LIMIT - capacity)
        (<header_t*>(<char*>data - LINE)).lazy = False
        BLOCKS[COUNT] = <char*>data
        COUNT += 1
        BYTES += capacity
        cool()
    else:
        fg_release(<char*>data - LINE)


# ---- NumPy's handler -----------------------------------------------------------------------------------------------

cdef void* handler_malloc(void* context, size_t bytes) noexcept:
    return take(bytes)


cdef void* handler_calloc(void* context, size_t count, size_t size) noexcept:
    if size and count > <size_t>-1 // size:
        return NULL
    cdef void* data = take(count * size)
    if data != NULL:
        memset(data, 0, count * size)
    return data


cdef void* handler_realloc(void* context, void* data, size_t bytes) noexcept:
    cdef size_t capacity = capacity_of(data) if data != NULL else 0
    cdef void* other
    if data != NULL and capacity // 2 <= bytes <= capacity:
        return data
    other = take(bytes)
    if other != NULL and data != NULL:
        memcpy(other, data, min(bytes, capacity))
        give(data)
    return other


cdef void handler_free(void* context, void* data, size_t bytes) noexcept:
    if data != NULL:
        give(data)


cdef PyDataMem_Handler HANDLER
memcpy(HANDLER.name, b"fastgemm", 9)
HANDLER.version = 1
HANDLER.allocator.ctx = NULL
HANDLER.allocator.malloc, HANDLER.allocator.calloc = handler_malloc, handler_calloc
HANDLER.allocator.realloc, HANDLER.allocator.free = handler_realloc, handler_free
cdef object CAPSULE = PyCapsule_New(&HANDLER, "mem_handler", NULL)
Py_INCREF(CAPSULE)  # arrays outlive modules
cdef PyDataMem_Handler* NUMPYS = <PyDataMem_Handler*>PyCapsule_GetPointer(
    <object>PyDataMem_DefaultHandler, b"mem_handler")


# ---- arrays --------------------------------------------------------------------------------------------------------

cdef inline object entered():
    # The handler of before, in whose place ours stands now; None where the program has set one of its own.
    handler = PyDataMem_GetHandler()
    return PyDataMem_SetHandler(CAPSULE) if <PyObject*>handler == PyDataMem_DefaultHandler else None


cdef ndarray empty(int nd, npy_intp* shape, int type_num):
    # An array of numbers in C order, all of whose sizes fit an npy_intp.
    return of_numbers(nd, shape, PyArray_DescrFromType(type_num))


cdef inline double bytes_of(int nd, npy_intp* shape, PyArray_Descr* descr) noexcept:
    # (Of small sizes by whole numbers, which do not wrap: a chain of them takes half as long as one of floats.  One
    # after the other: the caller has just stored them, and to load two at once would wait until they are in the cache.)
    cdef npy_intp bytes = PyDataType_ELSIZE(descr)
    cdef double product = bytes
    cdef int d
    if nd <= 3:
        for d in range(nd):
            if shape[d] >= 1 << 15:
                break
            bytes *= shape[d]
        else:
            return bytes
    for d in range(nd):
        product *= shape[d]
    return product


cdef ndarray of_numbers(int nd, npy_intp* shape, PyArray_Descr* descr):
    # The same; takes over the reference to the descriptor.
    # (PyArray_Empty would look for fields and references in vain, which takes as long as a product of 8^3.)
    cdef double bytes = bytes_of(nd, shape, descr)
    cdef bint own = bytes >= OWN_FROM
    cdef PyDataMem_Handler* by = &HANDLER if own else NUMPYS
    cdef PyObject* made
    cdef void* data = NULL
    if 0 < bytes < MOST:
        handler = PyDataMem_GetHandler()
        if <PyObject*>handler == PyDataMem_DefaultHandler:
            data = by.allocator.malloc(by.allocator.ctx, <size_t>bytes)
    if data == NULL:
        # (Where there is none NumPy says so.)
        return <ndarray>new_array(<PyTypeObject*>ndarray, descr, nd, shape, NULL, NULL, 0, NULL)
    made = PyArray_NewFromDescr(<PyTypeObject*>ndarray, descr, nd, shape, NULL, data, NPY_ARRAY_CARRAY, NULL)
    if made == NULL:
        by.allocator.free(by.allocator.ctx, data, <size_t>bytes)
        raise MemoryError
    # As NumPy would itself if our handler were set, which takes 0.7 us, or if it were given no data: then it would ask
    # for the handler and look for its functions once more (bench/small.py, over the kernel, 16^3 102 and 82 ns).
    PyTraceMalloc_Track(DOMAIN, <size_t>data, <size_t>bytes)
    (<PyArrayObject_fields*>made).mem_handler = <PyObject*>CAPSULE if own else PyDataMem_DefaultHandler
    Py_INCREF(<object>(<PyArrayObject_fields*>made).mem_handler)
    (<PyArrayObject_fields*>made).flags |= NPY_ARRAY_OWNDATA
    array = <ndarray>made
    Py_DECREF(array)
    return array


cdef object by_it(object made, tuple arguments, dict keywords):
    # What `made` returns, whose arrays lie in this module's memory: for outputs that NumPy makes.
    before = entered()
    try:
        return made(*arguments, **keywords)
    finally:
        if before is not None:
            PyDataMem_SetHandler(before)


def fresh(tuple shape, dtype):
    """Return what ``np.empty(shape, dtype)`` does, in the memory of this module where it is large enough.

    Examples
    --------
    >>> fresh((1000, 300), "f4").ctypes.data % 64
    0
    """
    cdef npy_intp sizes[MOST_AXES]
    cdef int nd = <int>len(shape), d, kind
    cdef cnp.dtype descr = dtype if isinstance(dtype, cnp.dtype) else np.dtype(dtype)
    kind = descr.type_num
    if nd > MOST_AXES or not (kind <= cnp.NPY_CLONGDOUBLE or kind == cnp.NPY_FLOAT16 or cnp.PyTypeNum_ISUSERDEF(kind)):
        return NUMPY_EMPTY(shape, descr)
    for d in range(nd):
        sizes[d] = shape[d]
        if sizes[d] < 0:
            return NUMPY_EMPTY(shape, descr)
    Py_INCREF(descr)
    return of_numbers(nd, sizes, <PyArray_Descr*>descr)


def kept():
    """Return the bytes of outputs that were dropped and are kept for the next."""
    return BYTES


def keep(bytes):
    """Set how many bytes may be kept, and give back the oldest blocks above; returns the number of before."""
    global LIMIT
    before = LIMIT
    LIMIT = max(0, bytes)
    leave(KEPT, LIMIT)
    return before


def _from_environment():
    standard = int(min(MOST_KEPT, fg_memory() / 16))
    text = os.environ.get(NAME, "").strip()
    if not text:
        return standard
    mib = variables.whole(text)
    if mib is None:
        warnings.warn(f"{NAME}={text!r} is not a number of MiB; ignored", RuntimeWarning, stacklevel=2)
        return standard
    return mib << 20


keep(_from_environment())
