"""Plans: the cache that finds a plan by value, and the Plan itself."""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.string cimport memcpy, memset

cimport numpy as cnp

from fastgemm.driver.abi cimport (
    GEMV_CHUNK, MAX_DEEP, MAX_DOTS, MAX_STRIP, kernels_t, offset_t, special_t,
)
from fastgemm.driver._ahead cimport look_ahead
from fastgemm.driver._kernels cimport table_of
from fastgemm.driver._team cimport OTHERWISE, run_plan
from fastgemm.driver.structs cimport (
    DOTS_L1, DOTS_STEPS, FAMILY_DOTS, FAMILY_GEMM, FAMILY_GEMV, FAMILY_SMALL, SPLIT_BATCH, SPLIT_K,
    SPLIT_M, SPLIT_N, appended, call_t, ceil_div, cut, dot_sums_bytes, letter, plan_t, row_gap,
    steps_of, strip_gap, strip_words,
)

from dataclasses import replace

import numpy as np

from fastgemm import activations, cpu, registry
from fastgemm.heuristic.l1 import follows_columns, side_bytes
from fastgemm.heuristic.half_tier import reach_l2
from fastgemm.heuristic import brief
from fastgemm.heuristic.ways import exchanges, far_bytes, few_left, written_past
from fastgemm.problem import MAX_SUMS, PACKED, Problem

cdef extern from *:
    const char* FASTGEMM_CODE

code = FASTGEMM_CODE.decode()

cnp.import_array()
_numpy_matmul = np.matmul

cdef enum:
    READY = 128             # no letter
    LOWEST_LEVEL = 2        # of ISA tiers
    MOST_THREADS = 2047     # bits of a key, and of what follows a product
    MOST_EPILOGUES = 31
    # Real multiply-adds of the smallest piece that threads deal out: about 50 us of f32 at 180 GFLOP/s.  gemv
    # wants long rows more than an even end (1x4096x4096, two threads, against NumPy: from 500000 on 0.85, so 1.1).
    GRAIN = 4000000
    GEMV_GRAIN = 4000000
    STRIP_VECTORS = 64      # of C, at least, in a piece of a B that is read in place: rows of 1 KiB


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
    static inline void fg_count(Py_ssize_t *n) { __atomic_fetch_add(n, 1, __ATOMIC_RELAXED); }
    static inline Py_ssize_t fg_take(Py_ssize_t *n) { return __atomic_exchange_n(n, 0, __ATOMIC_RELAXED); }
    """
    unsigned fg_seq_begin(const unsigned*) nogil
    unsigned fg_seq_end(const unsigned*) nogil
    bint fg_seq_lock(unsigned*) nogil
    void fg_seq_unlock(unsigned*) nogil
    void fg_count(Py_ssize_t*) nogil
    Py_ssize_t fg_take(Py_ssize_t*) nogil

# Plans are found by value in a table of fixed size, so that memory stays bounded over any number of shapes
# and nothing is ever freed under a reader.  A slot is guarded by a sequence number, odd while it is written:
# a reader copies the plan out and starts over at the resolver when the number moved.
cdef enum:
    CACHE_SLOTS = 4096

cdef struct slot_t:
    unsigned sequence
    key_t key
    Py_ssize_t calls        # while calls are counted: found here since they were last taken
    plan_t plan

cdef slot_t SLOTS[CACHE_SLOTS]
memset(SLOTS, 0, sizeof(SLOTS))
cdef Py_ssize_t GENERATION = 1
cdef bint COUNTING = False


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
    if COUNTING:
        fg_count(&slot.calls)
    return fg_seq_end(&slot.sequence) == before


cdef void cache_put(const key_t* key, const plan_t* plan) noexcept nogil:
    cdef slot_t* slot = slot_of(key)
    if fg_seq_lock(&slot.sequence):
        slot.key = key[0]
        slot.plan = plan[0]
        slot.calls = 0
        fg_seq_unlock(&slot.sequence)


cdef unsigned long long generation() noexcept nogil:
    return <unsigned long long>GENERATION


cdef bint counting() noexcept nogil:
    return COUNTING


cdef object problem_of(const key_t* key):
    # The Problem that a key stands for.
    cdef unsigned long long kind = key.kind
    right = (kind >> 8) & 0xff
    return Problem(registry.DTYPES[kind & 0xff].name, key.m, key.n, key.k, key.batch,
                   chr((kind >> 16) & 0x7f) + (PACKED if right & READY else chr(right)), (kind >> 24) & MOST_THREADS,
                   activations.EPILOGUES[(kind >> 35) & MOST_EPILOGUES].name)


cdef int ready_letter(int level, int family, int nv) noexcept nogil:
    # In place of B's layout letter in a key where B is packed already: by which kernels (of a family beyond the tier,
    # or 0), and how wide.
    return READY | family << 4 | (level - LOWEST_LEVEL) << 2 | (nv - 1)


cdef int beyond(int family) except -1:
    return _BEYOND[family]


cdef unsigned long long followed(int epilogue) noexcept nogil:
    # The bits of a key that say what follows the product.
    return <unsigned long long>epilogue << 35


def count_calls(bint counting):
    """Count the calls that find a plan, from now on or no longer; until then that costs nothing."""
    global COUNTING
    COUNTING = counting


def take_counts():
    """Return (problem, calls) of every counted plan and start again at zero.

    Calls whose plan has made way for another one in the meantime are not in it; one that a plan of limbs leaves to
    multiply-adds counts once.
    """
    cdef Py_ssize_t calls
    cdef key_t key
    cdef unsigned before
    cdef int i
    found = []
    for i in range(CACHE_SLOTS):
        calls = fg_take(&SLOTS[i].calls)
        before = fg_seq_begin(&SLOTS[i].sequence)
        key = SLOTS[i].key
        if key.kind & VECTORS or before & 1:
            continue
        if calls and fg_seq_end(&SLOTS[i].sequence) == before:
            found.append((problem_of(&key), calls))
    return found


def forget_plans():
    """Make every cached plan stale: the next call of each shape is resolved anew."""
    fg_count(&GENERATION)


# ---- Plan ----------------------------------------------------------------------------------------------------------

# Modules with kernels that plans point to.  Plans are copied into the cache, so none of them is ever let go.
_OWNERS = set()

_SPLIT_CODES = {"m": SPLIT_M, "n": SPLIT_N, "batch": SPLIT_BATCH, "k": SPLIT_K}
# Which of the families beyond the tiers one is, from 1 on: 0 for those of every tier.
_BEYOND = [sum(bool(row.tiers) for row in registry.FAMILIES[:code + 1]) if family.tiers else 0
           for code, family in enumerate(registry.FAMILIES)]
if max(_BEYOND) > 7 or {tier.level for tier in registry.ISAS} - {2, 3, 4, 5}:
    raise ImportError("fastgemm: more families or tiers than a key has bits for")
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
        # B is packed already, in panels of the configuration's width: `config.pack` speaks of A alone.
        cdef bint ready = problem.layout[1] == PACKED
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
        plan.family = _FAMILY_CODES[config.family]
        cdef int own = plan.family if registry.FAMILIES[plan.family].tiers else 0
        cdef const kernels_t* t = table_of(tier.level, own, row.code)
        if (plan.family == FAMILY_GEMM or own) and t.pack_a == NULL \
                or plan.family == FAMILY_GEMV and t.gemv_rows == NULL \
                or plan.family == FAMILY_DOTS and t.dots[1] == NULL \
                or plan.family == FAMILY_SMALL and t.small[1][1] == NULL:
            raise ValueError(f"the {config.family} kernels for {config.isa} are not loaded in this process")
        plan.kernels = t
        cdef Py_ssize_t vectors = ceil_div(plan.n * t.part, t.length), rows, steps, chunks, gap, least = 1
        cdef double work = <double>plan.m * plan.n * plan.k * t.part * t.part
        plan.exchanged = plan.family == FAMILY_DOTS and exchanges(problem, tier)
        # All of B, also where threads share k (a thread's part of it alone, 1 x 800 x 8000, two threads: 0.6); of
        # exchanged operands A.
        cdef Py_ssize_t matrix = plan.k * (plan.m if plan.exchanged else plan.n) * t.part * t.ab_bytes
        plan.far[0], plan.far[1] = matrix >= far_bytes(), plan.batch * matrix >= far_bytes()
        if plan.family == FAMILY_GEMV and follows_columns(problem, tier):
            plan.far[0] = plan.far[1] = False
        plan.units, plan.unit, plan.width = 1, plan.n, vectors
        plan.saturates = row.lane == "b8" and not ready
        if plan.threads == 1:
            plan.split = SPLIT_BATCH
        if plan.split == SPLIT_K:
            # Partial outputs on pages of their own: prefetching past the end of one takes lines from its neighbour
            # (1 x 256 x 4000, two threads: 98 GB/s, so 170).  (And a line behind each: see part_of_k.)
            plan.c_bytes = (plan.m * vectors * t.length * t.real_bytes + 64 + 4095) // 4096 * 4096
        plan.strips = plan.family == FAMILY_GEMV and plan.m > 1 or own and config.pack == "none" and not ready
        if plan.strips:
            plan.ncv = min(vectors, max(1, <Py_ssize_t>config.nc * t.part // t.length))
            plan.ncv = ceil_div(plan.ncv, t.group) * t.group
            plan.a_bytes = (strip_words(plan) + MAX_STRIP * strip_gap(plan)) * t.real_bytes
            if plan.split == SPLIT_M:
                plan.units, least = plan.m, plan.m
            elif plan.split == SPLIT_N:
                plan.units, least = vectors, STRIP_VECTORS
            plan.grain = ceil_div(max(1, <Py_ssize_t>(GRAIN * plan.units / work)), least) * least
            return
        if plan.family == FAMILY_GEMV:
            if cpu.halves(tier):
                plan.reach_l2[0], plan.reach_l2[1] = reach_l2(replace(problem, batch=1)), reach_l2(problem)
            plan.a_bytes = 2 * GEMV_CHUNK * t.part * t.real_bytes
            if plan.split == SPLIT_N:
                # Whole groups of the column kernel's four: which of its loops adds up a column decides its bits.
                plan.unit = max(4, t.length // t.part)
                plan.units = ceil_div(plan.n, plan.unit)
            plan.grain = max(1, <Py_ssize_t>(GEMV_GRAIN * plan.units / work))
            return
        if plan.family == FAMILY_DOTS:
            plan.mc = min(plan.m, <Py_ssize_t>config.mc)
            plan.kc = ceil_div(min(plan.k, <Py_ssize_t>config.kc), DOTS_STEPS) * DOTS_STEPS
            plan.ncv = min(plan.n, <Py_ssize_t>config.nc)
            # Whole turns of the kernels, as many as stay in L1 together.
            gap = row_gap(plan.kc * t.part, t.length * t.real_bytes // t.dot_bytes) * t.dot_bytes
            plan.unit = max(1, DOTS_L1 // gap // t.dot_columns) * t.dot_columns
            plan.sums = (plan.mc * plan.ncv * t.part * t.real_bytes + 63) // 64 * 64
            plan.turned = problem.layout[1] == "n" and plan.n > 1
            rows = plan.ncv if plan.exchanged else plan.mc
            plan.a_bytes, plan.b_bytes = plan.sums + rows * gap + dot_sums_bytes(plan), plan.unit * gap
            if plan.turned:
                plan.b_bytes = max(plan.b_bytes, plan.n * row_gap(plan.k, t.length) * t.real_bytes)
            if plan.split == SPLIT_M:
                plan.units, least = plan.m, MAX_DOTS
            elif plan.split == SPLIT_N:
                plan.units = ceil_div(plan.n, plan.unit)
            plan.grain = ceil_div(max(1, <Py_ssize_t>(GRAIN * plan.units / work)), least) * least
            return
        plan.mr, plan.nv = config.mr, config.nr * t.part // t.length
        plan.pack_a, plan.pack_b = config.pack == "ab", config.pack != "none" and not ready
        # Blocks are cut to the problem, then evened out: 1030 steps with KC 1024 run as 515 + 515.
        plan.limbs = t.limbs
        steps = steps_of(t, plan.k)
        chunks = steps // t.chunk
        plan.kc = ceil_div(chunks, ceil_div(chunks, max(1, ceil_div(config.kc, t.chunk_k)))) * t.chunk
        rows = ceil_div(plan.m, plan.mr) * plan.mr
        plan.mc = min(rows, max(plan.mr, <Py_ssize_t>config.mc // plan.mr * plan.mr))
        plan.ncv = min(vectors, max(plan.nv, <Py_ssize_t>config.nc * t.part // t.length // plan.nv * plan.nv))
        if ready:
            if plan.family == FAMILY_SMALL or plan.split == SPLIT_K or t.appended and plan.kc < steps:
                raise ValueError("a B that is packed is read by whole blocks, by threads that share neither k nor sums")
            plan.ready = steps + t.appended
        plan.direct = (not plan.pack_b and not ready and plan.kc == plan.k and plan.mc >= plan.m
                       and plan.ncv == vectors and (plan.threads == 1 or plan.split == SPLIT_BATCH))
        plan.whole = (plan.pack_b and plan.kc == steps and plan.mc >= plan.m and plan.ncv == vectors
                      and (plan.threads == 1 or plan.split == SPLIT_BATCH))
        if plan.split == SPLIT_M:
            # A piece of rows packs B for itself.
            plan.units, least = plan.m, plan.mc if plan.pack_b else plan.mr
        elif plan.split == SPLIT_N:
            # A piece of columns packs A for itself.
            plan.units, least = vectors, plan.nv * (8 if plan.pack_a else 1)
            if ready:
                plan.units, least = ceil_div(vectors, plan.nv), 1
        plan.grain = ceil_div(max(1, <Py_ssize_t>(GRAIN * plan.units / work)), least) * least
        plan.side_bytes = side_bytes(tier)
        look_ahead(plan, problem, tier)
        plan.past_caches = plan.family == FAMILY_SMALL and written_past(problem, tier)
        plan.rows, plan.vectors = cut(plan.m, plan.mr), cut(vectors, plan.nv)
        # Never a part of a larger product: its bits would depend on how that is cut.
        plan.deep = (plan.family == FAMILY_GEMM and vectors == 1 and plan.m <= min(plan.mr, MAX_DEEP) and not ready
                     and plan.split != SPLIT_M and plan.k >= registry.DEEP_STEPS and t.deep[plan.m] != NULL)
        # (Zen 4, one thread, `bench/builds.py` over whole vectors, B copied, f32 3000 x 40 x 300 1.14, 60 x 40 x 300 nt
        # 1.13, 2000 x 56 x 64 nt 1.12, 256 x 72 x 3000 1.05, 400 x 200 x 400 nt 1.04; f64 3000 x 20 x 500 1.15.)
        plan.lower = cpu.halves(tier) and problem.row.lane[0] == "f" and problem.row.group == 1 and not plan.deep
        plan.tail = <int>(plan.n * t.part - (vectors - 1) * t.length)
        # Whole sums and whole rows: the bits stay those of other ways.
        plan.apart = (few_left(problem, tier) and plan.kc == steps and not plan.past_caches and not ready
                      and (plan.threads == 1 or plan.split in (SPLIT_BATCH, SPLIT_M))
                      and t.narrow[max(plan.tail, 2 * t.part)] != NULL)
        if plan.family == FAMILY_SMALL:
            plan.brief = brief.whole_rows(problem, tier)
            # Equal panels of rows where one panel more makes them so: the kernels loop over those by themselves.
            if plan.rows.larger and plan.m % (plan.rows.panels + 1) == 0:
                plan.rows = cut(plan.m, plan.m // (plan.rows.panels + 1))
            return
        if plan.pack_a or t.group > 1:
            # (A call of dot products may have offsets that A takes on only while it is packed.)
            plan.a_bytes = (plan.mc * row_gap((plan.kc + t.appended) * t.part, t.length) * t.real_bytes + 63) // 64 * 64
        if t.narrows and plan.kc < steps:
            plan.sums = plan.a_bytes
            gap = plan.ncv * t.length * t.real_bytes
            plan.sum_rows = max(plan.mr, <Py_ssize_t>MAX_SUMS // gap)
            plan.a_bytes += min(plan.m, plan.sum_rows) * gap
        if plan.pack_b:
            plan.b_bytes = plan.ncv * t.length * (plan.kc + t.appended) * t.real_bytes

    def pin(self):
        """Let calls of the problem run this plan, until plans are forgotten: so a tuner times one by calls."""
        cdef key_t key
        cdef object p = self.problem, tier = registry.isa(self.config.isa)
        cdef unsigned long long right = ord(p.layout[1]), left = ord(p.layout[0]), threads = p.threads
        cdef unsigned long long code = p.row.code
        if p.layout[1] == PACKED:
            right = ready_letter(tier.level, beyond(self.plan.family), self.plan.nv)
        key.m, key.n, key.k, key.batch = p.m, p.n, p.k, p.batch
        key.kind = generation() << 40 | threads << 24 | left << 16 | right << 8 | code
        key.kind |= followed(activations.epilogue(p.epilogue).code)
        cache_put(&key, &self.plan)

    @property
    def workspace(self):
        """Bytes that a thread keeps for this plan."""
        return self.plan.a_bytes + self.plan.b_bytes + self.plan.c_bytes

    def specialise(self, object capsule, int at, object owner):
        """Give single calls of this very shape to entry `at` of a `special_t` array, which `owner` keeps alive.

        Raises
        ------
        ValueError
            If the kernel is for another shape, or the plan shares a product between threads.
        """
        cdef const special_t* s = <const special_t*>PyCapsule_GetPointer(capsule, "fastgemm.special_t") + at
        cdef plan_t* plan = &self.plan
        if plan.kernels == NULL or plan.threads > 1 and plan.split != SPLIT_BATCH:
            raise ValueError("a specialised kernel computes whole products by one thread each")
        if (s.m, s.n, s.k) != (plan.m, plan.n, plan.k) or s.dtype != self.problem.row.code:
            raise ValueError(f"the specialised kernel is for {s.m} x {s.n} x {s.k}")
        plan.special = s
        _OWNERS.add(owner)

    @property
    def facts(self):
        """What of the plan neither its problem nor its configuration says, by name (structs.pxd says what each is)."""
        cdef const plan_t* plan = &self.plan
        return {
            "far": (bool(plan.far[0]), bool(plan.far[1])),
            "far_row": plan.far_row,
            "far_items": plan.far_items,
            "far_copies": bool(plan.far_copies),
            "brief": bool(plan.brief),
            "side_bytes": plan.side_bytes,
            "lines_ahead": plan.lines_ahead,
            "ready_ahead": plan.ready_ahead,
            "ready_l2": bool(plan.ready_l2),
            "ready_next": bool(plan.ready_next),
            "reach_l2": (plan.reach_l2[0], plan.reach_l2[1]),
            "lower": bool(plan.lower),
            "still_c": bool(plan.still_c),
            "exchanged": bool(plan.exchanged),
            "past_caches": bool(plan.past_caches),
            "apart": bool(plan.apart),
            "special": plan.special != NULL,
        }

    def run(self, a, b, out=None, Py_ssize_t times=1):
        """Compute ``a @ b`` by this plan.

        Parameters
        ----------
        a, b : ndarray
            (m, k) and (k, n), or (batch, m, k) and (batch, k, n) for a stack, of the
            problem's dtype, or of one that it computes alike (int32, uint32), and of its layout.
        out : ndarray, optional
            (m, n) or (batch, m, n), not overlapping the operands.
        times : int
            So many times over, for measurements without Python in between.

        Returns
        -------
        ndarray
        """
        cdef object p = self.problem
        if self.plan.ready:
            raise ValueError("the plan reads a B that is packed, and no array")
        row = p.row
        result = row.result or a.dtype.name
        lead = (p.batch,) if p.batch > 1 or a.ndim == 3 else ()
        if out is None:
            out = np.empty((*lead, p.m, p.n), row.result or a.dtype)
        for name, array, shape, kinds in (
                ("a", a, (p.m, p.k), row.names), ("b", b, (p.k, p.n), row.names), ("out", out, (p.m, p.n), (result,))):
            if (type(array) is not np.ndarray or array.dtype.name not in kinds or not array.flags.aligned
                    or not array.dtype.isnative):
                raise TypeError(f"{name} must be an aligned ndarray of {' or '.join(kinds)}")
            if array.shape != (*lead, *shape):
                raise ValueError(f"{name} has shape {array.shape}, the plan takes {(*lead, *shape)}")
            if any(stride % (row.result_bytes if name == "out" else row.stored_bytes) for stride in array.strides):
                raise ValueError(f"{name} has strides that are no whole numbers of components")
        if not out.flags.writeable:
            raise ValueError("out is read-only")
        if self.plan.kernels == NULL:
            return _numpy_matmul(a, b, out=out, dtype=out.dtype)
        cdef call_t call
        cdef Py_ssize_t size = self.plan.kernels.ab_bytes, size_c = self.plan.kernels.c_bytes
        memset(&call, 0, sizeof(call_t))
        call.a, call.b, call.c = cnp.PyArray_BYTES(a), cnp.PyArray_BYTES(b), cnp.PyArray_BYTES(out)
        cdef int last = 2 if lead else 1
        call.rs_a, call.cs_a = a.strides[last - 1] // size, a.strides[last] // size
        call.rs_b, call.cs_b = b.strides[last - 1] // size, b.strides[last] // size
        call.rs_c, call.cs_c = out.strides[last - 1] // size_c, out.strides[last] // size_c
        call.step_a, call.step_b, call.step_c = (x.strides[0] if lead else 0 for x in (a, b, out))
        call.store.alpha_is_one = True
        if p.n == 1:
            call.cs_c = self.plan.kernels.part
        cdef char found = letter(p.k, p.n, call.rs_b, call.cs_b, self.plan.kernels.part)
        if self.plan.family == FAMILY_DOTS:
            across = p.layout[0] == "n" and call.cs_a != self.plan.kernels.part
            if not self.plan.turned and call.rs_b != self.plan.kernels.part or across:
                raise ValueError("a and b do not lie along k, as the plan takes them")
        elif self.plan.family == FAMILY_GEMV and found == c"g" or \
                self.plan.family != FAMILY_GEMV and not self.plan.pack_b and found != c"n":
            raise ValueError(f"b is not laid out as {p.layout[1]!r}, and the plan does not pack it")
        # Bytes of either sign: what the kernels are told of an operand.
        cdef offset_t offsets[2]
        memset(offsets, 0, sizeof(offsets))
        if row.group > 1:
            offsets[0].is_unsigned, offsets[1].is_unsigned = a.dtype.kind == "u", b.dtype.kind == "u"
            call.offsets = offsets
            call.store.appended = appended(False, offsets[0].is_unsigned, False, offsets[1].is_unsigned)
        cdef int failed = 0
        cdef Py_ssize_t _i
        with nogil:
            for _i in range(times):
                failed = run_plan(&self.plan, &call)
                if failed:
                    break
        if failed == OTHERWISE:
            return self.otherwise().run(a, b, out, times)
        if failed:
            raise MemoryError("no memory for a workspace")
        return out
