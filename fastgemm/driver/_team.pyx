"""The split of a call over threads, and how many there may be."""

from cython.parallel cimport parallel, threadid

from fastgemm.driver.abi cimport kernels_t, store_t
from fastgemm.driver._loops cimport blocked, gemv, macrokernel
from fastgemm.driver.structs cimport (
    FAMILY_GEMV, SPLIT_BATCH, SPLIT_K, SPLIT_M, SPLIT_N, call_t, ceil_div, plan_t, share,
)
from fastgemm.driver.openmp cimport fg_barrier, fg_has_openmp, fg_in_parallel, fg_team_size
from fastgemm.driver.threads cimport (
    fg_is_orphan, fg_team, fg_team_close, fg_team_fail, fg_team_open, fg_threads_init, fg_worker_enter, fg_worker_leave,
    fg_workspace,
)

import os

openmp = bool(fg_has_openmp())


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


# ---- how many threads ----------------------------------------------------------------------------------------------

cdef extern from *:
    """
    static __thread int fg_thread_limit = 0;
    """
    int fg_thread_limit

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
