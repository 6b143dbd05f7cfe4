"""The loaded kernels, in tables by ISA tier, family and dtype."""

from cpython.pycapsule cimport PyCapsule_GetPointer

from fastgemm.driver.abi cimport (
    MAX_BRIEF, MAX_DEEP, MAX_DOTS, MAX_DTYPES, MAX_NARROW, MAX_ROWS, MAX_SHORT, MAX_STRIP, MAX_VECTORS, kernels_t,
)

from fastgemm import registry

cdef enum:
    MAX_FAMILIES = 12
    MAX_LEVEL = 8           # ISA tiers are numbered below this

# One table for each tier and dtype, in which the families that every tier has fill in their own entries; and tables of
# their own for families that do the same in another way.  (Static memory begins as zeros, and costs nothing until it is
# written to.)
cdef kernels_t TABLES[MAX_LEVEL][MAX_FAMILIES][MAX_DTYPES]


def add_kernels(int level, int family, object capsule):
    """Merge a family's tables for one ISA tier into the driver's (0: those of every tier)."""
    if not (0 <= level < MAX_LEVEL and 0 <= family < MAX_FAMILIES):
        raise ValueError(f"ISA level {level} or family {family} out of range")
    cdef const kernels_t* source = <const kernels_t*>PyCapsule_GetPointer(capsule, "fastgemm.kernels_t")
    cdef kernels_t* t
    cdef kernels_t* tier
    cdef const kernels_t* s
    cdef int d, i, j
    for d in range(len(registry.DTYPES)):
        t = &TABLES[level][family][d]
        s = &source[d]
        if s.pack_a != NULL:
            t.length, t.part, t.real_bytes, t.group = s.length, s.part, s.real_bytes, s.group
            t.ab_bytes, t.c_bytes, t.converts, t.narrows = s.ab_bytes, s.c_bytes, s.converts, s.narrows
            t.appended, t.in_place, t.rounds = s.appended, s.in_place, s.rounds
            t.chunk, t.chunk_k, t.limbs = s.chunk, s.chunk_k, s.limbs
            t.enter, t.leave, t.flush = s.enter, s.leave, s.flush
            t.pack_a, t.pack_b, t.pack_side, t.update, t.add = s.pack_a, s.pack_b, s.pack_side, s.update, s.add
            t.peak, t.peak_flops = s.peak, s.peak_flops
            t.slim_bytes, t.pack_slim = s.slim_bytes, s.pack_slim
        if s.gemv_rows != NULL:
            t.gemv_rows, t.gemv_narrow, t.gemv_columns = s.gemv_rows, s.gemv_narrow, s.gemv_columns
        elif s.gemv_columns != NULL:
            # Of a family beyond the tier, which is loaded after those of every tier: the same, faster.
            TABLES[level][0][d].gemv_columns = s.gemv_columns
        for i in range(MAX_DOTS + 1):
            if s.dots[i] != NULL:
                # (Those of a family beyond the tier take the place of the tier's own, as above.)
                tier = &TABLES[level][0][d]
                tier.dots[i], tier.dot_columns, tier.dot_bytes = s.dots[i], s.dot_columns, s.dot_bytes
                tier.dot_sums, tier.dot_settle = s.dot_sums, s.dot_settle
                t.dot_sums, t.dot_settle = s.dot_sums, s.dot_settle
        for i in range(MAX_DOTS + 1):
            for j in range(MAX_SHORT):
                if s.short_columns[i][j] != NULL:
                    t.short_columns[i][j] = s.short_columns[i][j]
        for i in range(MAX_STRIP + 1):
            if s.strips[i] != NULL:
                t.strips[i] = s.strips[i]
        if s.widen != NULL:
            t.widen = s.widen
            t.plain = &TABLES[level][0][registry.dtype(registry.DTYPES[d].lane).code]
        if s.whole != NULL:
            t.whole, t.whole_rows, t.turn = s.whole, s.whole_rows, s.turn
        if s.turn_stack != NULL:
            t.turn_stack, t.turn_stack_bytes, t.alone = s.turn_stack, s.turn_stack_bytes, s.alone
        for i in range(MAX_BRIEF):
            if s.brief[i] != NULL:
                t.brief[i] = s.brief[i]
        for i in range(MAX_NARROW):
            if s.narrow[i] != NULL:
                t.narrow[i] = s.narrow[i]
            if s.narrow_columns[i] != NULL:
                t.narrow_columns[i] = s.narrow_columns[i]
        for i in range(MAX_ROWS + 1):
            for j in range(MAX_VECTORS + 1):
                if s.small[i][j] != NULL:
                    t.small[i][j] = s.small[i][j]
                if s.micro[i][j] != NULL:
                    t.micro[i][j] = s.micro[i][j]
                if s.turned[i][j] != NULL:
                    t.turned[i][j] = s.turned[i][j]
                if s.written[0][i][j] != NULL:
                    t.written_steps = s.written_steps
                    t.written[0][i][j], t.written[1][i][j] = s.written[0][i][j], s.written[1][i][j]
                if s.slim[i][j] != NULL:
                    t.slim[i][j] = s.slim[i][j]
        for i in range(MAX_DEEP + 1):
            if s.deep[i] != NULL:
                t.deep[i] = s.deep[i]


def peak(int level, int family, int dtype_code, Py_ssize_t rounds):
    """Run the register-only multiply-add loop; return the operations that it did."""
    cdef const kernels_t* t = table_of(level, family, dtype_code)
    if t.peak == NULL:
        raise ValueError("no such kernels in this process")
    with nogil:
        t.peak(rounds)
    return t.peak_flops * rounds


cdef const kernels_t* table_of(int level, int family, int code) except NULL:
    # That of a tier, a family (0: those of every tier) and a dtype, whatever is loaded.
    if not (0 <= level < MAX_LEVEL and 0 <= family < MAX_FAMILIES and 0 <= code < MAX_DTYPES):
        raise ValueError("no such kernels in this process")
    return &TABLES[level][family][code]


cdef const kernels_t* kernels_at(int level, int family, int code) except NULL:
    # The loaded kernels of a tier, by dtype; of a family beyond the tier where it is one.
    cdef const kernels_t* t = table_of(level, family if registry.FAMILIES[family].tiers else 0, code)
    if t.pack_b == NULL:
        raise ValueError("no such kernels in this process")
    return t
