"""The driver: blocked loops, threads, the plan cache.

The loops around a microkernel, named as BLIS names them:

    jc    blocks of NC columns                 (threads, where they share n)
     pc   blocks of KC steps of k              pack B's panels
      ic  blocks of MC rows                    pack A's panels; (threads, where they share m)
       jr panels of NR columns
        ir panels of MR rows                   microkernel, store

Row and column panels are balanced: 13 rows in tiles of 8 run as 7 + 6, not 8 + 5.  The driver knows no
element types: pointers are bytes, widths are vectors, and the kernels do the rest.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer
from cython.parallel cimport parallel, threadid
from libc.string cimport memcpy, memset

cimport numpy as cnp

from fastgemm.driver.abi cimport MAX_DTYPES, MAX_ROWS, MAX_VECTORS, kernels_t, store_t
from fastgemm.driver.threads cimport (
    fg_barrier, fg_has_openmp, fg_in_parallel, fg_is_orphan, fg_team, fg_team_close, fg_team_fail, fg_team_open,
    fg_team_size, fg_threads_init, fg_worker_enter, fg_worker_leave, fg_workspace,
)

import os

import numpy as np

from fastgemm import registry

cnp.import_array()
_numpy_matmul = np.matmul

cdef enum:
    MAX_LEVEL = 8           # ISA tiers are numbered below this
    FAMILY_GEMM = 0         # registry.FAMILIES[0]
    FAMILY_GEMV = 1
    GEMV_CHUNK = 8192       # elements of x or y that gemv copies at a time where they are strided

openmp = bool(fg_has_openmp())


# ---- kernels -------------------------------------------------------------------------------------------------------

# One table for each tier and dtype; the families fill in their own entries.
cdef kernels_t TABLES[MAX_LEVEL][MAX_DTYPES]
memset(TABLES, 0, sizeof(TABLES))


def add_kernels(int level, object capsule):
    """Merge a family's tables for one ISA tier into the driver's."""
    if not 0 <= level < MAX_LEVEL:
        raise ValueError(f"ISA level {level} out of range")
    cdef const kernels_t* source = <const kernels_t*>PyCapsule_GetPointer(capsule, "fastgemm.kernels_t")
    cdef kernels_t* t
    cdef const kernels_t* s
    cdef int d, i, j
    for d in range(len(registry.DTYPES)):
        t = &TABLES[level][d]
        s = &source[d]
        t.length, t.part, t.real_bytes = s.length, s.part, s.real_bytes
        if s.pack_a != NULL:
            t.pack_a, t.pack_b, t.update = s.pack_a, s.pack_b, s.update
            t.peak, t.peak_flops = s.peak, s.peak_flops
        if s.gemv_rows != NULL:
            t.gemv_rows, t.gemv_columns = s.gemv_rows, s.gemv_columns
        for i in range(MAX_ROWS + 1):
            for j in range(MAX_VECTORS + 1):
                if s.micro[i][j] != NULL:
                    t.micro[i][j] = s.micro[i][j]


def peak(int level, int dtype_code, Py_ssize_t rounds):
    """Run the register-only multiply-add loop; return the operations that it did."""
    if not (0 <= level < MAX_LEVEL and 0 <= dtype_code < MAX_DTYPES) or TABLES[level][dtype_code].peak == NULL:
        raise ValueError("no such kernels in this process")
    cdef const kernels_t* t = &TABLES[level][dtype_code]
    with nogil:
        t.peak(rounds)
    return t.peak_flops * rounds


# ---- gemm ----------------------------------------------------------------------------------------------------------

cdef inline Py_ssize_t ceil_div(Py_ssize_t a, Py_ssize_t b) noexcept nogil:
    return (a + b - 1) // b


cdef inline Py_ssize_t share(Py_ssize_t total, Py_ssize_t i, Py_ssize_t parts) noexcept nogil:
    # Where part i of a balanced partition begins: the first total % parts are one larger.
    cdef Py_ssize_t base = total // parts, extra = total - base * parts
    return i * base + (i if i < extra else extra)


cdef inline grid_t cut(Py_ssize_t length, Py_ssize_t most) noexcept nogil:
    # Panels of at most `most`, balanced.
    cdef grid_t grid
    grid.panels = ceil_div(length, most)
    grid.size = length // grid.panels
    grid.larger = length - grid.panels * grid.size
    return grid


cdef inline Py_ssize_t row_gap(Py_ssize_t width, Py_ssize_t length) noexcept nogil:
    # Where the rows of a copied A lie: an odd number of vectors apart.
    return (ceil_div(width, length) | 1) * length


cdef void macrokernel(
        const plan_t* plan, const call_t* call, const store_t* store,
        const char* a, Py_ssize_t rs_a, Py_ssize_t cs_a, bint a_panels,
        const char* b, bint b_packed,
        Py_ssize_t row, const grid_t* rows, Py_ssize_t vec, const grid_t* vecs, Py_ssize_t kc,
        int tail) noexcept nogil:
    # C[from row on, from vector vec on] += A block @ B block.  `a` and `b` point at the blocks, copied or in place
    # (a_panels: A in micropanels); `tail` are the live components of the last vector here.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t L = t.length, size = t.real_bytes
    cdef Py_ssize_t jr, ir, v = 0, r, nv, mr, rs_b, ahead
    cdef const char* b_panel
    cdef const char* a_panel
    cdef char* c
    cdef int c_tail, b_tail
    cdef bint direct = call.cs_c == t.part
    cdef char tile[MAX_ROWS * MAX_VECTORS * 64]
    cdef store_t plain = store[0]
    plain.alpha_is_one = True
    plain.beta_kind = 0
    for jr in range(vecs.panels):
        nv = vecs.size + (1 if jr < vecs.larger else 0)
        c_tail = tail if jr + 1 == vecs.panels else <int>L
        if b_packed:
            b_panel = b + v * L * kc * size
            rs_b = nv * L
            b_tail = <int>L
        else:
            b_panel = b + v * L * size
            rs_b = call.rs_b
            b_tail = c_tail
        r = 0
        for ir in range(rows.panels):
            mr = rows.size + (1 if ir < rows.larger else 0)
            # B in place lies in rows of which a panel takes a few lines, too few for the CPU's own prefetch: the first
            # pass over a panel fetches the next one.
            ahead = nv * L if ir == 0 and not b_packed and jr + 1 < vecs.panels else 0
            if a_panels:
                a_panel = a + r * kc * t.part * size
                rs_a, cs_a = t.part, mr * t.part
            else:
                a_panel = a + r * rs_a * size
            if direct:
                c = call.c + ((row + r) * call.rs_c + (vec + v) * L) * size
                t.micro[mr][nv](kc, a_panel, rs_a, cs_a, b_panel, rs_b, c, call.rs_c, b_tail, c_tail, ahead, store)
            else:
                c = call.c + ((row + r) * call.rs_c + (vec + v) * L // t.part * call.cs_c) * size
                t.micro[mr][nv](kc, a_panel, rs_a, cs_a, b_panel, rs_b, tile, nv * L, b_tail, <int>L, ahead, &plain)
                t.update(mr, ((nv - 1) * L + c_tail) // t.part, tile, nv * L, c, call.rs_c, call.cs_c, store)
            r += mr
        v += nv


cdef void blocked(
        const plan_t* plan, const call_t* call,
        Py_ssize_t row0, Py_ssize_t row1, Py_ssize_t vec0, Py_ssize_t vec1,
        char* a_space, char* b_space, Py_ssize_t member, Py_ssize_t team) noexcept nogil:
    # Rows row0 : row1 and vectors vec0 : vec1 of one product.  With a team above one, all its
    # members run this with the same vectors and one b_space, which they pack together.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t L = t.length, size = t.real_bytes
    cdef Py_ssize_t width = plan.n * t.part
    cdef Py_ssize_t vectors = ceil_div(width, L)
    cdef int tail_of_all = <int>(width - (vectors - 1) * L)
    cdef Py_ssize_t jblocks = ceil_div(vec1 - vec0, plan.ncv), kblocks = ceil_div(plan.k, plan.kc)
    cdef Py_ssize_t iblocks = 0, mc = 0, jc, pc, ic, vec, vecs, p, kc, row, rows, j, v, nv, live, r, mr
    cdef const char* a
    cdef const char* b
    cdef int tail
    cdef store_t store = call.store
    cdef grid_t i_grid, j_grid
    if row1 > row0:
        iblocks = ceil_div(row1 - row0, plan.mc)
        mc = ceil_div(ceil_div(row1 - row0, iblocks), plan.mr) * plan.mr
    for jc in range(jblocks):
        vec = vec0 + share(vec1 - vec0, jc, jblocks)
        vecs = vec0 + share(vec1 - vec0, jc + 1, jblocks) - vec
        tail = tail_of_all if vec + vecs == vectors else <int>L
        j_grid = cut(vecs, plan.nv)
        store.beta_kind = call.store.beta_kind
        for pc in range(kblocks):
            p = share(plan.k, pc, kblocks)
            kc = share(plan.k, pc + 1, kblocks) - p
            b = call.b + (p * call.rs_b + (vec * L // t.part) * call.cs_b) * size
            if plan.pack_b:
                if team > 1:
                    fg_barrier()
                v = 0
                for j in range(j_grid.panels):
                    nv = j_grid.size + (1 if j < j_grid.larger else 0)
                    if j % team == member:
                        live = (nv - 1) * L + (tail if v + nv == vecs else L)
                        t.pack_b(kc, live, nv, b + (v * L // t.part) * call.cs_b * size, call.rs_b, call.cs_b,
                                 b_space + v * L * kc * size)
                    v += nv
                if team > 1:
                    fg_barrier()
            for ic in range(iblocks):
                row = row0 + ic * mc
                rows = mc if row + mc < row1 else row1 - row
                if rows <= 0:
                    break
                i_grid = cut(rows, plan.mr)
                a = call.a + (row * call.rs_a + p * call.cs_a) * size
                if not plan.pack_a:
                    macrokernel(plan, call, &store, a, call.rs_a, call.cs_a, False,
                                b_space if plan.pack_b else b, plan.pack_b, row, &i_grid, vec, &j_grid, kc, tail)
                elif call.cs_a == t.part:
                    t.pack_a(kc, rows, a, call.rs_a, call.cs_a, a_space, row_gap(kc * t.part, L), t.part)
                    macrokernel(plan, call, &store, a_space, row_gap(kc * t.part, L), t.part, False,
                                b_space, True, row, &i_grid, vec, &j_grid, kc, tail)
                else:
                    r = 0
                    for j in range(i_grid.panels):
                        mr = i_grid.size + (1 if j < i_grid.larger else 0)
                        t.pack_a(kc, mr, a + r * call.rs_a * size, call.rs_a, call.cs_a,
                                 a_space + r * kc * t.part * size, t.part, mr * t.part)
                        r += mr
                    macrokernel(plan, call, &store, a_space, 0, 0, True,
                                b_space, True, row, &i_grid, vec, &j_grid, kc, tail)
            store.beta_kind = 1


# ---- gemv ----------------------------------------------------------------------------------------------------------

cdef void gemv(const plan_t* plan, const call_t* call, Py_ssize_t col0, Py_ssize_t col1, char* space) noexcept nogil:
    # Columns col0 : col1 of one row of output.  `space` takes a chunk of x and one of y where they are not
    # contiguous or the store is not a plain one.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t size = t.real_bytes, item = t.part * size
    cdef bint by_rows = call.cs_b == t.part or plan.n == 1 and call.rs_b != t.part
    cdef bint y_direct = call.cs_c == t.part and call.store.alpha_is_one and call.store.beta_kind != 2
    cdef bint x_direct = by_rows or call.cs_a == t.part
    cdef Py_ssize_t n_chunk = col1 - col0 if y_direct else GEMV_CHUNK
    cdef Py_ssize_t k_chunk = plan.k if x_direct else GEMV_CHUNK
    cdef char* x_space = space
    cdef char* y_space = space + GEMV_CHUNK * item
    cdef const char* x
    cdef const char* b
    cdef char* y
    cdef Py_ssize_t j = col0, p, n, k, inc_x
    cdef store_t store = call.store
    store.alpha_is_one = True
    while j < col1:
        n = n_chunk if j + n_chunk < col1 else col1 - j
        y = call.c + j * call.cs_c * size if y_direct else y_space
        store.beta_kind = call.store.beta_kind if y_direct else 0
        p = 0
        while p < plan.k:
            k = k_chunk if p + k_chunk < plan.k else plan.k - p
            x = call.a + p * call.cs_a * size
            b = call.b + (p * call.rs_b + j * call.cs_b) * size
            inc_x = call.cs_a
            if not x_direct:
                t.pack_a(k, 1, x, 0, call.cs_a, x_space, 0, t.part)
                x = x_space
                inc_x = t.part
            if by_rows:
                t.gemv_rows(k, n, x, inc_x, b, call.rs_b, call.cs_b, y, t.part, &store)
            else:
                t.gemv_columns(k, n, x, inc_x, b, call.rs_b, call.cs_b, y, t.part, &store)
            store.beta_kind = 1
            p += k
        if not y_direct:
            t.update(1, n, y, 0, call.c + j * call.cs_c * size, 0, call.cs_c, &call.store)
        j += n


# ---- threads -------------------------------------------------------------------------------------------------------

cdef void product(const plan_t* plan, const call_t* call, Py_ssize_t row0, Py_ssize_t row1,
                  Py_ssize_t vec0, Py_ssize_t vec1, char* space) noexcept nogil:
    # A rectangle of one product by one thread alone.
    cdef Py_ssize_t per
    if plan.family == FAMILY_GEMV:
        per = plan.kernels.length // plan.kernels.part
        gemv(plan, call, vec0 * per, plan.n if vec1 * per > plan.n else vec1 * per, space)
    else:
        blocked(plan, call, row0, row1, vec0, vec1, space, space + plan.a_bytes, 0, 1)


cdef void member_runs(const plan_t* plan, const call_t* call, char* space, char* shared_b,
                      Py_ssize_t member, Py_ssize_t team) noexcept nogil:
    # One thread's part of the whole call.
    cdef call_t item = call[0]
    cdef Py_ssize_t vectors = ceil_div(plan.n * plan.kernels.part, plan.kernels.length)
    cdef Py_ssize_t first = 0, last = plan.batch, row0 = 0, row1 = plan.m, vec0 = 0, vec1 = vectors, _i
    if team == 1:
        pass
    elif plan.split == SPLIT_BATCH:
        first = share(plan.batch, member, team)
        last = share(plan.batch, member + 1, team)
    elif plan.split == SPLIT_N:
        vec0 = share(vectors, member, team)
        vec1 = share(vectors, member + 1, team)
    else:
        row0 = share(plan.m, member, team)
        row1 = share(plan.m, member + 1, team)
    item.a += first * call.step_a
    item.b += first * call.step_b
    item.c += first * call.step_c
    if plan.direct:
        for _i in range(last - first):
            macrokernel(plan, &item, &item.store, item.a, item.rs_a, item.cs_a, False, item.b, False,
                        0, &plan.rows, 0, &plan.vectors, plan.k, plan.tail)
            item.a += call.step_a
            item.b += call.step_b
            item.c += call.step_c
        return
    for _i in range(last - first):
        if plan.split == SPLIT_M and plan.pack_b:
            blocked(plan, &item, row0, row1, 0, vectors, space, shared_b, member, team)
        elif row1 > row0 and vec1 > vec0:
            product(plan, &item, row0, row1, vec0, vec1, space)
        item.a += call.step_a
        item.b += call.step_b
        item.c += call.step_c


cdef void member_sums(const plan_t* plan, const call_t* call, char* space, char* partials,
                      Py_ssize_t member, Py_ssize_t team) noexcept nogil:
    # Threads that share k: each computes an output of its own over its part of k, then they add up rows of all of
    # them, in the order of the parts, so that the same plan gives the same bits.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t vectors = ceil_div(plan.n * t.part, t.length), gap = vectors * t.length
    cdef Py_ssize_t first = share(plan.k, member, team), row0, row1, i
    cdef plan_t own = plan[0]
    cdef call_t item = call[0]
    cdef store_t store = call.store
    own.k = share(plan.k, member + 1, team) - first
    item.a += first * call.cs_a * t.real_bytes
    item.b += first * call.rs_b * t.real_bytes
    item.c = partials + member * plan.c_bytes
    item.rs_c, item.cs_c = gap, t.part
    item.store.alpha_is_one, item.store.beta_kind = True, 0
    if own.k > 0:
        blocked(&own, &item, 0, plan.m, 0, vectors, space, space + plan.a_bytes, 0, 1)
    fg_barrier()
    row0 = share(plan.m, member, team)
    row1 = share(plan.m, member + 1, team)
    for i in range(min(team, plan.k)):
        t.update(row1 - row0, plan.n, partials + i * plan.c_bytes + row0 * gap * t.real_bytes, gap,
                 call.c + row0 * call.rs_c * t.real_bytes, call.rs_c, call.cs_c, &store)
        store.beta_kind = 1


cdef int run_team(const plan_t* plan, const call_t* call, int threads) noexcept nogil:
    cdef fg_team team
    cdef size_t bytes = plan.a_bytes + plan.b_bytes
    cdef size_t partials = threads * plan.c_bytes
    cdef int id, size
    cdef char* space
    cdef char* shared = NULL
    if bytes + partials:
        # The caller's: its own blocks, B's block that all share, the partial outputs.
        shared = <char*>fg_workspace(bytes + partials)
        if shared == NULL:
            return -1
    fg_team_open(&team)
    with parallel(num_threads=threads):
        id = threadid()
        size = fg_team_size()
        fg_worker_enter(&team, id)
        space = NULL
        if bytes:
            # The caller's own is in use already: asking again must not move it.
            space = shared if id == 0 else <char*>fg_workspace(bytes)
            if space == NULL:
                fg_team_fail(&team)
            # Nobody writes to C before everybody has room to work in.
            fg_barrier()
        if team.failed:
            pass
        elif plan.split == SPLIT_K:
            member_sums(plan, call, space, shared + bytes, id, size)
        else:
            member_runs(plan, call, space, shared + plan.a_bytes, id, size)
        fg_worker_leave(&team, id)
    fg_team_close(&team)
    return -1 if team.failed else 0


cdef int run_plan(const plan_t* plan, const call_t* call) noexcept nogil:
    cdef char* space = NULL
    if plan.threads > 1 and not fg_is_orphan and not fg_in_parallel():
        return run_team(plan, call, plan.threads)
    if plan.direct and plan.batch == 1:
        macrokernel(plan, call, &call.store, call.a, call.rs_a, call.cs_a, False, call.b, False,
                    0, &plan.rows, 0, &plan.vectors, plan.k, plan.tail)
        return 0
    if plan.a_bytes + plan.b_bytes:
        space = <char*>fg_workspace(plan.a_bytes + plan.b_bytes)
        if space == NULL:
            return -1
    member_runs(plan, call, space, space + plan.a_bytes, 0, 1)
    return 0


# ---- the plan cache ------------------------------------------------------------------------------------------------

cdef extern from *:
    """
    static inline unsigned fg_seq_begin(const unsigned *s) { return __atomic_load_n(s, __ATOMIC_ACQUIRE); }
    static inline unsigned fg_seq_end(const unsigned *s) {
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        return __atomic_load_n(s, __ATOMIC_RELAXED);
    }
    static inline int fg_seq_lock(unsigned *s) {
        unsigned seen = __atomic_load_n(s, __ATOMIC_RELAXED);
        return !(seen & 1) && __atomic_compare_exchange_n(s, &seen, seen + 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
    }
    static inline void fg_seq_unlock(unsigned *s) { __atomic_fetch_add(s, 1, __ATOMIC_RELEASE); }
    static __thread int fg_thread_limit = 0;
    """
    unsigned fg_seq_begin(const unsigned*) nogil
    unsigned fg_seq_end(const unsigned*) nogil
    bint fg_seq_lock(unsigned*) nogil
    void fg_seq_unlock(unsigned*) nogil
    int fg_thread_limit

# Plans are found by value in a table of fixed size, so that memory stays bounded over any number of shapes
# and nothing is ever freed under a reader.  A slot is guarded by a sequence number, odd while it is written:
# a reader copies the plan out and starts over at the resolver when the number moved.
cdef enum:
    CACHE_SLOTS = 4096

cdef struct slot_t:
    unsigned sequence
    key_t key
    plan_t plan

cdef slot_t SLOTS[CACHE_SLOTS]
memset(SLOTS, 0, sizeof(SLOTS))
cdef unsigned long long GENERATION = 1


cdef inline slot_t* slot_of(const key_t* key) noexcept nogil:
    cdef unsigned long long h = <unsigned long long>key.m * 0x9E3779B97F4A7C15ULL
    h = (h ^ <unsigned long long>key.n) * 0xC2B2AE3D27D4EB4FULL
    h = (h ^ <unsigned long long>key.k) * 0x165667B19E3779F9ULL
    h = (h ^ <unsigned long long>key.batch) * 0x9E3779B97F4A7C15ULL
    h = (h ^ key.kind) * 0xC2B2AE3D27D4EB4FULL
    return &SLOTS[(h >> 40) & (CACHE_SLOTS - 1)]


cdef bint cache_get(const key_t* key, plan_t* plan) noexcept nogil:
    cdef slot_t* slot = slot_of(key)
    cdef unsigned before = fg_seq_begin(&slot.sequence)
    if before & 1 or slot.key.m != key.m or slot.key.n != key.n or slot.key.k != key.k:
        return False
    if slot.key.batch != key.batch or slot.key.kind != key.kind:
        return False
    memcpy(plan, &slot.plan, sizeof(plan_t))
    return fg_seq_end(&slot.sequence) == before


cdef void cache_put(const key_t* key, const plan_t* plan) noexcept nogil:
    cdef slot_t* slot = slot_of(key)
    if fg_seq_lock(&slot.sequence):
        slot.key = key[0]
        slot.plan = plan[0]
        fg_seq_unlock(&slot.sequence)


cdef unsigned long long generation() noexcept nogil:
    return GENERATION


def forget_plans():
    """Make every cached plan stale: the next call of each shape is resolved anew."""
    global GENERATION
    GENERATION += 1


# ---- how many threads ----------------------------------------------------------------------------------------------

cdef int THREADS = 1


cdef int threads_now() noexcept nogil:
    return fg_thread_limit if fg_thread_limit else THREADS


def get_threads():
    """Threads that a call made here and now may use."""
    return threads_now()


def set_threads(int count):
    """Set the number for the whole process."""
    global THREADS
    THREADS = count


def swap_thread_limit(int count):
    """Set this OS thread's own number (0: the process's); return what it was."""
    global fg_thread_limit
    cdef int before = fg_thread_limit
    fg_thread_limit = count
    return before


if fg_threads_init(not (os.environ.get("FASTGEMM_BIND") == "0" or "OMP_PROC_BIND" in os.environ
                        or "GOMP_CPU_AFFINITY" in os.environ)):
    raise ImportError("fastgemm: no thread-specific storage left in this process")


# ---- Plan ----------------------------------------------------------------------------------------------------------

_SPLIT_CODES = {"m": SPLIT_M, "n": SPLIT_N, "batch": SPLIT_BATCH, "k": SPLIT_K}
_FAMILY_CODES = {row.name: code for code, row in enumerate(registry.FAMILIES)}


cdef class Plan:
    """A configuration made concrete for a problem: run it as often as needed, from any thread.

    Parameters
    ----------
    problem : Problem
        What is computed.
    config : Config
        How; its kernels must be loaded (`fastgemm.kernels.load`).

    Raises
    ------
    ValueError
        If the configuration does not fit the problem; the message says why.
    """

    def __init__(self, problem, config):
        why = config.misfit(problem)
        if why:
            raise ValueError(f"configuration does not fit the problem: {why}")
        self.problem, self.config = problem, config
        cdef plan_t* plan = &self.plan
        memset(plan, 0, sizeof(plan_t))
        plan.m, plan.n, plan.k, plan.batch = problem.m, problem.n, problem.k, problem.batch
        plan.threads, plan.split = config.threads, _SPLIT_CODES[config.split]
        if config.family == "numpy":
            return
        tier, row = registry.isa(config.isa), problem.row
        cdef const kernels_t* t = &TABLES[<int>tier.level][<int>row.code]
        plan.family = _FAMILY_CODES[config.family]
        if plan.family == FAMILY_GEMM and t.pack_a == NULL or plan.family == FAMILY_GEMV and t.gemv_rows == NULL:
            raise ValueError(f"the {config.family} kernels for {config.isa} are not loaded in this process")
        plan.kernels = t
        cdef Py_ssize_t vectors = ceil_div(plan.n * t.part, t.length), rows
        if plan.family == FAMILY_GEMV:
            plan.a_bytes = 2 * GEMV_CHUNK * t.part * t.real_bytes
            return
        plan.mr, plan.nv = config.mr, config.nr * t.part // t.length
        plan.pack_a, plan.pack_b = config.pack == "ab", config.pack != "none"
        # Blocks are cut to the problem, then evened out: 1030 steps with KC 1024 run as 515 + 515.
        plan.kc = ceil_div(plan.k, ceil_div(plan.k, <Py_ssize_t>config.kc))
        rows = ceil_div(plan.m, plan.mr) * plan.mr
        plan.mc = min(rows, max(plan.mr, <Py_ssize_t>config.mc // plan.mr * plan.mr))
        plan.ncv = min(vectors, max(plan.nv, <Py_ssize_t>config.nc * t.part // t.length // plan.nv * plan.nv))
        plan.direct = (not plan.pack_b and plan.kc == plan.k and plan.mc >= plan.m and plan.ncv == vectors
                       and (plan.threads == 1 or plan.split == SPLIT_BATCH))
        plan.rows, plan.vectors = cut(plan.m, plan.mr), cut(vectors, plan.nv)
        plan.tail = <int>(plan.n * t.part - (vectors - 1) * t.length)
        if plan.pack_a:
            plan.a_bytes = (plan.mc * row_gap(plan.kc * t.part, t.length) * t.real_bytes + 63) // 64 * 64
        if plan.split == SPLIT_K and plan.batch == 1 and plan.threads > 1:
            plan.c_bytes = plan.m * vectors * t.length * t.real_bytes
        if plan.pack_b:
            plan.b_bytes = plan.ncv * t.length * plan.kc * t.real_bytes

    @property
    def workspace(self):
        """Bytes that a thread keeps for this plan."""
        return self.plan.a_bytes + self.plan.b_bytes + self.plan.c_bytes

    def run(self, a, b, out=None):
        """Compute ``a @ b`` by this plan.

        Parameters
        ----------
        a, b : ndarray
            (m, k) and (k, n), or (batch, m, k) and (batch, k, n) for a stack, of the
            problem's dtype and layout.
        out : ndarray, optional
            (m, n) or (batch, m, n), not overlapping the operands.

        Returns
        -------
        ndarray
        """
        cdef object p = self.problem
        dtype = np.dtype(p.row.numpy)
        lead = (p.batch,) if p.batch > 1 or a.ndim == 3 else ()
        if out is None:
            out = np.empty((*lead, p.m, p.n), dtype)
        for name, array, shape in (("a", a, (p.m, p.k)), ("b", b, (p.k, p.n)), ("out", out, (p.m, p.n))):
            if type(array) is not np.ndarray or array.dtype != dtype or not array.flags.aligned:
                raise TypeError(f"{name} must be an aligned ndarray of {dtype}")
            if array.shape != (*lead, *shape):
                raise ValueError(f"{name} has shape {array.shape}, the plan takes {(*lead, *shape)}")
            if any(stride % dtype.itemsize and stride % p.row.real_bytes for stride in array.strides):
                raise ValueError(f"{name} has strides that are no whole numbers of components")
        if not out.flags.writeable:
            raise ValueError("out is read-only")
        if self.plan.kernels == NULL:
            return _numpy_matmul(a, b, out=out)
        cdef call_t call
        cdef Py_ssize_t size = self.plan.kernels.real_bytes
        call.a, call.b, call.c = cnp.PyArray_BYTES(a), cnp.PyArray_BYTES(b), cnp.PyArray_BYTES(out)
        cdef int last = 2 if lead else 1
        call.rs_a, call.cs_a = a.strides[last - 1] // size, a.strides[last] // size
        call.rs_b, call.cs_b = b.strides[last - 1] // size, b.strides[last] // size
        call.rs_c, call.cs_c = out.strides[last - 1] // size, out.strides[last] // size
        call.step_a, call.step_b, call.step_c = (x.strides[0] if lead else 0 for x in (a, b, out))
        memset(&call.store, 0, sizeof(store_t))
        call.store.alpha_is_one = True
        if p.n == 1:
            call.cs_c = self.plan.kernels.part
        cdef char found = letter(p.k, p.n, call.rs_b, call.cs_b, self.plan.kernels.part)
        if self.plan.family == FAMILY_GEMV and found == c"g" or \
                self.plan.family == FAMILY_GEMM and not self.plan.pack_b and found != c"n":
            raise ValueError(f"b is not laid out as {p.layout[1]!r}, and the plan does not pack it")
        cdef int failed
        with nogil:
            failed = run_plan(&self.plan, &call)
        if failed:
            raise MemoryError("no memory for a workspace")
        return out
