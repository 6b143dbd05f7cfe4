"""The split of a call over threads, and how many there may be."""

from libc.string cimport memchr, memset

from fastgemm.driver.abi cimport epilogue_t, kernels_t, offset_t, spread_t, store_t
from fastgemm.driver._gemv cimport at_line, gemv, gemv_of_stack
from fastgemm.driver._loops cimport blocked, macrokernel, takes_whole, whole
from fastgemm.driver._strips cimport strips
from fastgemm.driver._dots cimport dots, dots_of_stack
from fastgemm.driver._small cimport last_columns, small
from fastgemm.driver.soon cimport add_span, no_soon, soon_t
from fastgemm.driver.structs cimport (
    FAMILY_DOTS, FAMILY_GEMV, FAMILY_SMALL, SPLIT_BATCH, SPLIT_K, SPLIT_M, SPLIT_N, call_t, ceil_div, cut,
    panel_start, plan_t, share, space_of_b, special_takes, tile_steps,
)
from fastgemm.driver.spread cimport fits
from fastgemm.driver.pieces cimport fg_pieces, fg_take
from fastgemm.driver._symmetric cimport symmetric_pieces, symmetric_runs
from fastgemm.driver.floats cimport fg_float_state, fg_set_float_state
from fastgemm.driver.openmp cimport fg_barrier, fg_has_openmp, fg_in_parallel, fg_region, fg_team_size
from fastgemm.driver.threads cimport (
    fg_clock, fg_in_main, fg_is_orphan, fg_member_done, fg_rest, fg_resting, fg_rests, fg_starved, fg_team,
    fg_team_close, fg_team_of, fg_team_open, fg_threads_init, fg_worker_enter, fg_worker_leave, fg_workspace,
)

import os

from fastgemm import variables

cdef enum:
    # Grains for a thread below which the work is cut into equal shares: no process holds a core for less than the
    # 1.5 ms that they take, and small pieces read A more often (f32 512^3 92 % of the peak in shares, 87 dealt out).
    LEAST_PIECES = 32
    NEAR_BYTES = 256 << 10   # of A in a stack, that are passed over twice
    # Of bool: steps after which C is looked at, twice as many of more numbers, if there are so many times as many in
    # all; then eight times as many.  Of two random matrices half of which is true a number is still false after 32
    # steps once in 10^4, after 64 once in 10^8.
    FEW_STEPS = 32
    FEW_OUTPUTS = 1024
    LEAST_TIMES = 4
    TEAM_STEPS = 1 << 22     # of all numbers, below which one thread does them

openmp = bool(fg_has_openmp())


# ---- work ----------------------------------------------------------------------------------------------------------
#
# The work of a call is one length: the rows, the vectors of columns or the items that the plan's split names, of all
# products of the stack one after the other.  Threads take pieces of it until nothing is left (pieces.pxd): three
# quarters of an equal share first, then smaller and smaller ones, so that a thread whose core another process takes
# away leaves its work to the others.  Where the pieces begin changes no bit of the result.

cdef void rectangle(
        const plan_t* plan, const call_t* call, Py_ssize_t first, Py_ssize_t last, Py_ssize_t items,
        char* space) noexcept nogil:
    # Units first : last of one product, or of several that share B.
    cdef Py_ssize_t row0 = 0, row1 = plan.m, vec0 = 0, vec1 = plan.width
    if plan.family == FAMILY_GEMV and not plan.strips:
        gemv(plan, call, at_line(plan, call, first * plan.unit), at_line(plan, call, last * plan.unit), space)
        return
    if plan.split == SPLIT_M:
        row0, row1 = first, last
    if plan.family == FAMILY_DOTS:
        vec1 = plan.n
        if plan.split == SPLIT_N:
            vec0, vec1 = first * plan.unit, min(last * plan.unit, plan.n)
        dots(plan, call, row0, row1, vec0, vec1, space)
        return
    if plan.split == SPLIT_N:
        vec0, vec1 = first, last
        if plan.ready:
            vec0, vec1 = panel_start(&plan.vectors, first), panel_start(&plan.vectors, last)
    if plan.strips:
        strips(plan, call, row0, row1, vec0, vec1, space)
        return
    if plan.family == FAMILY_SMALL:
        small(plan, call, items, row0, row1, vec0, vec1)
        return
    blocked(plan, call, row0, row1, vec0, vec1, items, space, space_of_b(plan, call, space))


cdef inline bint in_two(const plan_t* plan, const call_t* call) noexcept nogil:
    # Whether a call is one whose last columns may be computed by themselves.
    cdef Py_ssize_t part = plan.kernels.part
    return (call.cs_a == part and call.cs_b == part and call.cs_c == part and call.finish == NULL
            and call.offsets == NULL and call.store.alpha_is_one and call.store.beta_kind == 0 and not call.store.conj)


cdef void piece_in_two(const plan_t* plan, const call_t* call, Py_ssize_t first, Py_ssize_t last,
                       char* space) noexcept nogil:
    # Units first : last, rows or items: all columns but those of C's last vector, then those, while A is near.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t items = max(1, NEAR_BYTES // (plan.m * plan.k * t.part * t.real_bytes)), count, number, row
    cdef call_t item
    cdef plan_t own = plan[0]
    own.apart = False
    own.width -= 1
    own.n = own.width * t.length // t.part
    own.tail, own.vectors, own.ncv = t.length, cut(own.width, own.nv), min(own.ncv, own.width)
    while first < last:
        number, row = first // plan.units, first % plan.units
        count = min(plan.units - row if plan.split == SPLIT_M else items, last - first)
        piece(&own, call, first, first + count, space)
        item = call[0]
        item.a += number * call.step_a
        item.b += number * call.step_b
        item.c += number * call.step_c
        if plan.split == SPLIT_M:
            last_columns(plan, &item, 1, row, row + count)
        else:
            last_columns(plan, &item, count, 0, plan.m)
        first += count


cdef inline void find_soon(const plan_t* plan, const call_t* item, soon_t* soon) noexcept nogil:
    # What the item behind this one of a stack multiplies.  Rows of A have their own way, `far_row`.
    cdef Py_ssize_t size = plan.kernels.ab_bytes, number = size * plan.kernels.part
    no_soon(soon)
    soon.steps = tile_steps(plan)
    if item.step_a and plan.far_row == 0:
        add_span(soon, item.a + item.step_a, plan.m, item.rs_a * size, plan.k, item.cs_a * size, number,
                 plan.far_items > 1)
    if item.step_b:
        add_span(soon, item.b + item.step_b, plan.k, item.rs_b * size, plan.n, item.cs_b * size, number,
                 plan.far_items > 1)


cdef void piece(const plan_t* plan, const call_t* call, Py_ssize_t first, Py_ssize_t last, char* space) noexcept nogil:
    # Units first : last of the whole stack.
    cdef call_t item = call[0]
    cdef Py_ssize_t i = first // plan.units, begin, end, items
    cdef soon_t soon
    cdef bint shared = call.step_b == 0 and plan.pack_b
    if plan.apart and in_two(plan, call):
        piece_in_two(plan, call, first, last, space)
        return
    if plan.special != NULL and plan.units == 1 and special_takes(plan.special, call):
        plan.special.run(last - first, call.a + first * call.step_a, call.step_a,
                         call.b + first * call.step_b, call.step_b, call.c + first * call.step_c, call.step_c)
        return
    item.a += i * call.step_a
    item.b += i * call.step_b
    item.c += i * call.step_c
    if plan.family == FAMILY_SMALL and plan.split == SPLIT_BATCH:
        small(plan, &item, last - first, 0, plan.m, 0, plan.width)
        return
    if plan.family == FAMILY_GEMV and not plan.strips and plan.units == 1 and gemv_of_stack(plan, &item, last - first):
        return
    if plan.family == FAMILY_DOTS and plan.units == 1 and dots_of_stack(plan, &item, last - first):
        return
    while first < last:
        items = 1
        if plan.far_items and plan.units == 1:
            item.soon = NULL    # the last item has nothing to fetch
            if i + 1 < plan.batch:
                find_soon(plan, &item, &soon)
                item.soon = &soon
        if plan.direct:
            macrokernel(plan, &item, &item.store, item.a, item.rs_a, item.cs_a, False, item.b, False, 0, 0,
                        0, &plan.rows, 0, &plan.vectors, plan.k, plan.tail)
            first += 1
        elif (plan.batch == 1 or not shared) and takes_whole(plan, &item):
            whole(plan, &item, space, space_of_b(plan, call, space))
            first += 1
        else:
            begin = first - i * plan.units
            end = plan.units if plan.units < last - i * plan.units else last - i * plan.units
            if shared and begin == 0 and end == plan.units:
                items = (last - first) // plan.units
            rectangle(plan, &item, begin, end, items, space)
            first += (end - begin) * items
        i += items
        item.a += items * call.step_a
        item.b += items * call.step_b
        item.c += items * call.step_c


cdef Py_ssize_t member_runs(const plan_t* plan, const call_t* call, char* space, fg_pieces* pieces,
                            Py_ssize_t team, Py_ssize_t id) noexcept nogil:
    # One thread's part of the whole call; returns the units that it did.
    cdef Py_ssize_t total = plan.units * plan.batch, own, least = 1, first, count, done = 0
    if total < LEAST_PIECES * team * plan.grain:
        own = ceil_div(total, team)
    else:
        least = plan.grain
        own = total * 3 // (4 * team) // least * least
    while True:
        count = fg_take(pieces, total, team, id, own, least, &first)
        if count == 0:
            return done
        piece(plan, call, first, first + count, space)
        done += count


# ---- sums over parts of k ------------------------------------------------------------------------------------------

cdef void part_of_k(const plan_t* plan, const call_t* call, char* space, char* partials,
                    Py_ssize_t part, Py_ssize_t parts) noexcept nogil:
    # The product over one part of k, into an output of its own.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t unit = t.chunk_k, units = ceil_div(plan.k, unit), first = share(units, part, parts) * unit
    cdef plan_t own = plan[0]
    cdef call_t item = call[0]
    own.k = min(plan.k, share(units, part + 1, parts) * unit) - first
    own.raw = True
    item.a += first * call.cs_a * t.ab_bytes
    item.b += first * call.rs_b * t.ab_bytes
    item.c = partials + part * plan.c_bytes
    item.rs_c, item.cs_c = plan.width * t.length, t.part
    item.store.alpha_is_one, item.store.beta_kind = True, 0
    item.finish = NULL
    # A store of a part of a vector that reaches into the next page, with lanes that are not stored, takes the CPU's
    # slow way where that page was never written to (f64 1 x 2048 x 512, two threads, outputs that fill pages:
    # bench/builds.py 81 us, so 57).
    (item.c + plan.m * item.rs_c * t.real_bytes)[0] = 0
    if own.k > 0 and plan.strips:
        strips(&own, &item, 0, plan.m, 0, plan.width, space)
    elif own.k > 0 and plan.family == FAMILY_GEMV:
        gemv(&own, &item, 0, plan.n, space)
    elif own.k > 0 and plan.family == FAMILY_DOTS:
        dots(&own, &item, 0, plan.m, 0, plan.n, space)
    elif own.k > 0:
        blocked(&own, &item, 0, plan.m, 0, plan.width, 1, space, space + plan.a_bytes)


cdef Py_ssize_t member_sums(const plan_t* plan, const call_t* call, char* space, char* partials, fg_pieces* pieces,
                            Py_ssize_t parts, Py_ssize_t id) noexcept nogil:
    # One thread's parts of k; returns how many it did.  OpenMP may give fewer threads than asked for: the parts stay
    # those of the plan.
    cdef Py_ssize_t part, done = 0
    while fg_take(pieces, parts, parts, id, 1, 1, &part):
        part_of_k(plan, call, space, partials, part, parts)
        done += 1
    return done


cdef void sum_of_parts(const plan_t* plan, const call_t* call, char* partials, Py_ssize_t parts,
                       Py_ssize_t row0, Py_ssize_t row1) noexcept nogil:
    # Rows row0 : row1 of all partial outputs, added in the order of the parts: the same plan gives the same bits.
    cdef const kernels_t* t = plan.kernels
    cdef Py_ssize_t gap = plan.width * t.length, i, live = min(parts, ceil_div(plan.k, t.chunk_k))
    cdef store_t store = call.store
    cdef char* sums = partials + row0 * gap * t.real_bytes
    cdef char* c = call.c + row0 * call.rs_c * t.c_bytes
    if t.narrows:
        # Added up before they are rounded.
        store.alpha_is_one, store.beta_kind = True, 1
        for i in range(1, live):
            t.add(row1 - row0, plan.n, sums + i * plan.c_bytes, gap, sums, gap, t.part, &store, row0, 0)
        if call.finish != NULL:
            call.finish(row1 - row0, plan.n, sums, gap, call.terms, row0, 0)
        t.update(row1 - row0, plan.n, sums, gap, c, call.rs_c, call.cs_c, &call.store, row0, 0)
        return
    for i in range(live):
        t.update(row1 - row0, plan.n, sums + i * plan.c_bytes, gap, c, call.rs_c, call.cs_c, &store, row0, 0)
        store.beta_kind = 1
    if call.finish != NULL:
        call.finish(row1 - row0, plan.n, c, call.rs_c, call.terms, row0, 0)


# ---- threads -------------------------------------------------------------------------------------------------------

cdef inline int team_of(Py_ssize_t threads) noexcept nogil:
    # The threads of a region in which so many are to work: maybe more; 0: the caller goes on alone.
    if threads <= 1 or fg_is_orphan or fg_in_parallel() or fg_resting():
        return 0
    return fg_team_of(<int>threads, threads_now())


cdef struct product_t:
    # What the members of a team know of a product.
    const plan_t* plan
    const call_t* call
    char* callers           # memory: the caller's own blocks, and the partial outputs of all
    Py_ssize_t halves, total
    fg_team team
    fg_pieces pieces


cdef void member_of_product(void* shared, int id) noexcept nogil:
    cdef product_t* work = <product_t*>shared
    cdef const plan_t* plan = work.plan
    cdef const call_t* call = work.call
    cdef size_t bytes = plan.a_bytes + plan.b_bytes
    cdef int size = fg_team_size(), threads = plan.threads
    cdef char* space = NULL
    cdef Py_ssize_t done = 0
    cdef double started
    fg_worker_enter(&work.team, id)
    started = fg_clock()
    if bytes and id < threads:
        # The caller's own is in use already: asking again must not move it.
        space = work.callers if id == 0 else <char*>fg_workspace(bytes)
    # A worker that gets no memory takes nothing, and the others do its part.
    if id < threads and (space != NULL or bytes == 0):
        if plan.split == SPLIT_K:
            done = member_sums(plan, call, space, work.callers + bytes, &work.pieces, threads, id)
        elif work.halves:
            done = symmetric_runs(plan, call, space, &work.pieces, work.halves)
        else:
            done = member_runs(plan, call, space, &work.pieces, min(size, threads), id)
    fg_member_done(&work.team, started, <double>done / <double>work.total)
    if plan.split == SPLIT_K:
        fg_barrier()
        sum_of_parts(plan, call, work.callers + bytes, threads, share(plan.m, id, size), share(plan.m, id + 1, size))
    fg_worker_leave(&work.team, id)


cdef int run_team(const plan_t* plan, const call_t* call, int region) noexcept nogil:
    cdef product_t work
    cdef size_t bytes = plan.a_bytes + plan.b_bytes + plan.threads * plan.c_bytes
    work.plan, work.call, work.callers = plan, call, NULL
    work.halves = symmetric_pieces(plan, call)
    work.total = plan.threads if plan.split == SPLIT_K else work.halves if work.halves else plan.units * plan.batch
    if bytes:
        work.callers = <char*>fg_workspace(bytes)
        if work.callers == NULL:
            return -1
    memset(&work.pieces, 0, sizeof(work.pieces))
    fg_team_open(&work.team)
    fg_region(region, member_of_product, &work)
    fg_team_close(&work.team)
    return 0


cdef int run_alone(const plan_t* plan, const call_t* call) noexcept nogil:
    cdef size_t bytes = plan.a_bytes + plan.b_bytes
    cdef size_t partials = plan.threads * plan.c_bytes
    cdef Py_ssize_t halves = symmetric_pieces(plan, call)
    cdef fg_pieces pieces
    cdef char* space = NULL
    cdef int part
    cdef bint two = plan.apart and in_two(plan, call)
    if plan.family == FAMILY_SMALL and not two:
        small(plan, call, plan.batch, 0, plan.m, 0, plan.width)
        return 0
    if plan.direct and plan.batch == 1 and not two:
        macrokernel(plan, call, &call.store, call.a, call.rs_a, call.cs_a, False, call.b, False, 0, 0,
                    0, &plan.rows, 0, &plan.vectors, plan.k, plan.tail)
        return 0
    if bytes + partials:
        space = <char*>fg_workspace(bytes + partials)
        if space == NULL:
            return -1
    if partials:
        # The parts of the plan, one after the other: the bits of a team.
        for part in range(plan.threads):
            part_of_k(plan, call, space, space + bytes, part, plan.threads)
        sum_of_parts(plan, call, space + bytes, plan.threads, 0, plan.m)
    elif halves:
        memset(&pieces, 0, sizeof(pieces))
        symmetric_runs(plan, call, space, &pieces, halves)
    else:
        piece(plan, call, 0, plan.units * plan.batch, space)
    return 0


cdef int run_any(const plan_t* plan, const call_t* call) noexcept nogil:
    cdef int region = team_of(plan.threads)
    if region:
        return run_team(plan, call, region)
    if plan.special != NULL and special_takes(plan.special, call):
        plan.special.run(plan.batch, call.a, call.step_a, call.b, call.step_b, call.c, call.step_c)
        return 0
    return run_alone(plan, call)


cdef int run_limbs(const plan_t* plan, const call_t* call) noexcept nogil:
    # Numbers that limbs cannot stand for show while they are packed: then the whole call is computed anew, so C may be
    # neither added to nor read for what follows.  A product with its own transpose is symmetric to the bit by
    # multiply-adds alone, because the products of two different limbs are added one after the other.
    cdef const epilogue_t* terms = <const epilogue_t*>call.terms
    cdef spread_t spread[2]
    cdef offset_t offsets[2]
    cdef call_t own
    cdef int failed, i
    cdef unsigned flags
    if (call.store.beta_kind or call.a == call.b and call.rs_a == call.cs_b and call.cs_a == call.rs_b
            or call.finish != NULL and terms.residual == call.c):
        return OTHERWISE
    memset(offsets, 0, sizeof(offsets))
    for i in range(2):
        spread[i].least, spread[i].most = 0xffffffff, 0
        offsets[i].spread = &spread[i]
    own = call[0]
    own.offsets = offsets
    flags = fg_float_state()
    failed = run_any(plan, &own)
    if failed or fits(offsets, plan.k):
        return failed
    fg_set_float_state(flags)
    return OTHERWISE


cdef bint is_true(const plan_t* plan, const call_t* call) noexcept nogil:
    # Whether C is true everywhere: kernels write 0 and 1.
    cdef Py_ssize_t item, i, j
    cdef const char* row
    for item in range(plan.batch):
        for i in range(plan.m):
            row = call.c + item * call.step_c + i * call.rs_c
            if call.cs_c == 1:
                if memchr(row, 0, plan.n) != NULL:
                    return False
            else:
                for j in range(plan.n):
                    if row[j * call.cs_c] == 0:
                        return False
    return True


cdef int run_saturating(const plan_t* plan, const call_t* call) noexcept nogil:
    # What is true after some steps stays so: NumPy's loop ends there, number by number.  The whole of C mostly is after
    # a few times as many steps, or never.
    cdef plan_t own
    cdef Py_ssize_t outputs = plan.batch * plan.m * plan.n
    cdef Py_ssize_t steps = FEW_STEPS if outputs <= FEW_OUTPUTS else 2 * FEW_STEPS
    while plan.k >= LEAST_TIMES * steps and call.store.beta_kind == 0:
        own = plan[0]
        own.k, own.special = steps, NULL
        own.direct = own.whole = own.apart = own.deep = False
        if outputs * steps < TEAM_STEPS:
            own.threads = 1
        if run_any(&own, call):
            return -1
        if is_true(plan, call):
            return 0
        steps *= 8
    return run_any(plan, call)


cdef int run_plan(const plan_t* plan, const call_t* call) noexcept nogil:
    if plan.saturates:
        return run_saturating(plan, call)
    return run_limbs(plan, call) if plan.limbs else run_any(plan, call)


# ---- anything else -------------------------------------------------------------------------------------------------

cdef Py_ssize_t member_items(item_t run, const void* work, char* space, fg_pieces* pieces, Py_ssize_t total,
                             Py_ssize_t team, Py_ssize_t id) noexcept nogil:
    cdef Py_ssize_t first, count, i, done = 0, own = max(1, total // (2 * team))
    while True:
        count = fg_take(pieces, total, team, id, own, 1, &first)
        if count == 0:
            return done
        for i in range(first, first + count):
            run(work, i, space)
        done += count


cdef struct items_t:
    # What the members of a team know of items.
    item_t run
    const void* work
    char* callers
    size_t bytes, zeros
    Py_ssize_t total
    int threads
    fg_team team
    fg_pieces pieces


cdef void member_of_items(void* shared, int id) noexcept nogil:
    cdef items_t* items = <items_t*>shared
    cdef int size = min(fg_team_size(), items.threads)
    cdef char* space = NULL
    cdef Py_ssize_t done = 0
    cdef double started
    fg_worker_enter(&items.team, id)
    started = fg_clock()
    # The caller's own is in use already: asking again must not move it.
    if id < items.threads:
        space = items.callers if id == 0 else <char*>fg_workspace(items.bytes)
    if space != NULL:
        memset(space + items.bytes - items.zeros, 0, items.zeros)
        done = member_items(items.run, items.work, space, &items.pieces, items.total, size, id)
    fg_member_done(&items.team, started, <double>done / <double>items.total)
    fg_worker_leave(&items.team, id)


cdef int run_items(item_t run, const void* work, Py_ssize_t total, size_t bytes, size_t zeros,
                   int threads) noexcept nogil:
    cdef items_t items
    cdef int region
    items.callers = <char*>fg_workspace(bytes)
    if items.callers == NULL:
        return -1
    if threads > total:
        threads = <int>total
    region = team_of(threads)
    memset(&items.pieces, 0, sizeof(items.pieces))
    if region == 0:
        memset(items.callers + bytes - zeros, 0, zeros)
        member_items(run, work, items.callers, &items.pieces, total, 1, 0)
        return 0
    items.run, items.work, items.bytes, items.zeros = run, work, bytes, zeros
    items.total, items.threads = total, threads
    fg_team_open(&items.team)
    fg_region(region, member_of_items, &items)
    fg_team_close(&items.team)
    return 0


cdef void run_inside(const plan_t* plan, const call_t* call, char* space) noexcept nogil:
    piece(plan, call, 0, plan.units * plan.batch, space)


def dealt(Py_ssize_t total, Py_ssize_t team, Py_ssize_t own, Py_ssize_t least, members):
    """(member, first unit, units) of the pieces that members of a team take, who ask in turn until there are none."""
    cdef fg_pieces pieces
    cdef Py_ssize_t first = 0, count
    memset(&pieces, 0, sizeof(pieces))
    asking, found = list(members), []
    while asking:
        for member in tuple(asking):
            count = fg_take(&pieces, total, team, member, own, least, &first)
            if count:
                found.append((member, first, count))
            else:
                asking.remove(member)
    return found


def rests():
    """How often calls have gone on with one thread for a while because a team was slower than that."""
    return fg_rests()


def starved():
    """How often calls have gone on with one thread because no more could be started."""
    return fg_starved()


def resting():
    """Whether calls go on with one thread at the moment."""
    return fg_resting()


def rest(double seconds):
    """Let calls do without a team for so long."""
    fg_rest(seconds)


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


if not fg_in_main():
    raise ImportError("fastgemm runs in the main interpreter alone, and this is a sub-interpreter")
if fg_threads_init(variables.switch("FASTGEMM_BIND", default=True) and "OMP_PROC_BIND" not in os.environ
                   and "GOMP_CPU_AFFINITY" not in os.environ):
    raise ImportError("fastgemm: no thread-specific storage left in this process")
