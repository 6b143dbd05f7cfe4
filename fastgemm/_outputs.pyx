"""Fresh outputs: memory that begins a cache line, and that is given back lazily where it is large.

NumPy's arrays of 128 KiB and more begin 16 bytes behind a page, so that every vector that is stored takes two lines
(f32 784 x 4800 x 32 into an output that begins a line 1.1, 255 x 2048 x 16 1.05 on Zen 5).  And from 32 MiB on, malloc
fetches an array's pages from the system and returns them when it is dropped: clearing them takes as long as a product
of few steps (6308 x 1600 x 32, 40 MB, 92 GFLOP/s, and 160 into memory that is there).

So outputs of `ALIGNED_FROM` bytes and more have a memory handler of their own (NEP 49), as a program may set one: the
arrays own their memory like all arrays, can be resized, and are seen by tracemalloc.  Blocks of `KEPT_FROM` bytes and
more stay when they are dropped, for the next output of about their size: the latest `KEPT` of them, up to a number of
bytes in all, and told to the system as free (MADV_FREE), so that it takes their pages where it needs some, before it
would swap or end a process.  Where it cannot be told so, where the address space of the process is limited, and in
builds without a GIL (handlers are called with it held) or under AddressSanitizer, none is kept.  A handler that the
program has set is asked instead of this one.
"""

from cpython.object cimport PyObject, PyTypeObject
from cpython.pycapsule cimport PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.string cimport memcpy, memmove, memset

cimport numpy as cnp
from numpy cimport ndarray, npy_intp

import os
import warnings

import numpy as np

cdef extern from *:
    """
    #include <stdint.h>
    #include <stdlib.h>
    #if defined(__linux__)
    #include <sys/mman.h>
    #include <sys/resource.h>
    #include <unistd.h>
    #endif
    #if defined(__linux__) && defined(MADV_FREE) && !defined(Py_GIL_DISABLED) && !defined(__SANITIZE_ADDRESS__)
    /* Whole huge pages only: a part of one would be split. */
    static int fg_lazily(char *data, size_t bytes) {
        const uintptr_t huge = (uintptr_t)2 << 20;
        uintptr_t first = ((uintptr_t)data + huge - 1) / huge * huge, last = ((uintptr_t)data + bytes) / huge * huge;
        struct rlimit room;
        if (getrlimit(RLIMIT_AS, &room) || room.rlim_cur != RLIM_INFINITY) return 0;
        return first < last && madvise((void *)first, last - first, MADV_FREE) == 0;
    }
    static double fg_memory(void) { return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE); }
    #else
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
    double fg_memory() noexcept nogil
    void fg_hugely(char* data, size_t bytes) noexcept nogil
    void* fg_aligned(size_t line, size_t bytes) noexcept nogil
    void fg_release(void* block) noexcept nogil

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

    # Takes over the reference to the descriptor.
    object PyArray_NewFromDescr(PyTypeObject*, PyObject*, int, const npy_intp*, const npy_intp*, void*, int, PyObject*)
    PyObject* PyArray_DescrFromType(int)
    object PyDataMem_GetHandler()
    object PyDataMem_SetHandler(object)
    PyObject* PyDataMem_DefaultHandler

cnp.import_array()

cdef enum:
    LINE = 64               # and the header's length, before each block
    HUGE_FROM = 1 << 22     # as NumPy
    KEPT_FROM = 32 << 20    # glibc keeps smaller ones itself
    KEPT = 4
    MOST_KEPT = 1 << 30     # bytes in all, by default; or a sixteenth of the memory where that is less

NAME = "FASTGEMM_KEEP_MIB"
cdef object NUMPY_EMPTY = np.empty

cdef struct header_t:
    size_t capacity

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


cdef void* take(size_t bytes) noexcept nogil:
    cdef int i, best = -1
    cdef size_t capacity, most = bytes + bytes // 4
    cdef char* block
    if bytes > <size_t>-1 // 4:
        return NULL
    for i in range(COUNT):
        capacity = capacity_of(BLOCKS[i])
        if bytes <= capacity <= most:
            best, most = i, capacity
    if best >= 0:
        return taken_out(best)
    capacity = (bytes + LINE - 1) // LINE * LINE
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
    if capacity < KEPT_FROM or capacity > LIMIT or not fg_lazily(<char*>data, capacity):
        fg_release(<char*>data - LINE)
        return
    leave(KEPT - 1, LIMIT - capacity)
    BLOCKS[COUNT] = <char*>data
    COUNT += 1
    BYTES += capacity


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


# ---- arrays --------------------------------------------------------------------------------------------------------

cdef inline ndarray bare(int nd, npy_intp* shape, int type_num):
    # PyArray_Empty would look for fields and references in vain, which takes as long as a product of 8^3.
    return PyArray_NewFromDescr(<PyTypeObject*>ndarray, PyArray_DescrFromType(type_num), nd, shape, NULL, NULL, 0, NULL)


cdef inline object entered():
    # The handler of before, in whose place ours stands now; None where the program has set one of its own.
    handler = PyDataMem_GetHandler()
    return PyDataMem_SetHandler(CAPSULE) if <PyObject*>handler == PyDataMem_DefaultHandler else None


cdef ndarray empty(int nd, npy_intp* shape, int type_num):
    # An array of numbers in C order, all of whose sizes fit an npy_intp.
    cdef double bytes = 1
    cdef int d
    for d in range(nd):
        bytes *= shape[d]
    # (No number has more bytes than complex128: few outputs ask for their descriptor.)
    if bytes * 16 < ALIGNED_FROM:
        return bare(nd, shape, type_num)
    descr = <cnp.dtype>PyArray_DescrFromType(type_num)
    Py_DECREF(descr)  # it was a new reference
    before = entered() if bytes * descr.itemsize >= ALIGNED_FROM else None
    try:
        return bare(nd, shape, type_num)
    finally:
        if before is not None:
            PyDataMem_SetHandler(before)


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
    cdef double bytes = 16
    for size in shape:
        bytes *= <double>size
    if bytes < ALIGNED_FROM or bytes / 16 * np.dtype(dtype).itemsize < ALIGNED_FROM:
        return NUMPY_EMPTY(shape, dtype)
    return by_it(NUMPY_EMPTY, (shape, dtype), {})


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
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        warnings.warn(f"{NAME}={text!r} is not a number of MiB; ignored", RuntimeWarning, stacklevel=2)
        return standard
    return int(text) << 20


keep(_from_environment())
