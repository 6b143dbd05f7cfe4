"""Several steps for one piece of an outer dimension after another: what `fastgemm.chain.Chain` runs.

A chain is a list of members (`member_t`): products, operations on rows, activations.  Every operand is a reference
(`ref_t`): a slot, and how its address follows from the item that is computed.  Whatever the references of a chain can
reach is known when they are added, so a run compares one range a slot with the array that it is given.

    item (i0, i1, i2) -> member 0, member 1, ...      one thread an item; SCRATCH is the thread's own memory
"""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdlib cimport free, realloc
from libc.string cimport memset

cimport numpy as cnp

from fastgemm._call cimport make_ready
from fastgemm._linear cimport finish_of
from fastgemm._packed cimport Panels, find
from fastgemm.driver._plan cimport Plan
from fastgemm.driver._team cimport run_items, threads_now
from fastgemm.driver.abi cimport rows_t
from fastgemm.driver.structs cimport LINE, appended, bytes_of_copies, letter, plan_t
from fastgemm.float_errors cimport clear_flags
from fastgemm.members cimport (
    ABSENT, FINISH, MAX_LEVEL, MAX_OUTER, MAX_SLOTS, PRODUCT, ROWS, SCRATCH, member_t, ref_t, run_item, work_t,
)

import numpy as np

from fastgemm import cpu, registry, row_operations
from fastgemm.heuristic.chain_items import stays
from fastgemm.heuristic.ways import far_bytes

cnp.import_array()
cnp.import_ufunc()

cdef const rows_t* TABLES[MAX_LEVEL]
SLOTS = <int>MAX_SLOTS


def add_table(int level, object capsule):
    """Take over a tier's functions for rows."""
    if not 0 <= level < MAX_LEVEL:
        raise ValueError(f"ISA level {level} out of range")
    TABLES[level] = <const rows_t*>PyCapsule_GetPointer(capsule, "fastgemm.rows_t")


cdef enum:
    KEPT = 64       # products whose copies are kept at most
    KEPT_L3 = 4     # the part of L3 that copies of one thread may take


cdef inline Py_ssize_t whole_lines(Py_ssize_t bytes) noexcept nogil:
    return (bytes + LINE - 1) // LINE * LINE


cdef class Chain:
    """Members over an outer dimension, checked as they are added; see `fastgemm.chain.Chain`, which adds them.

    Parameters
    ----------
    outer : tuple of int
        How many items, in up to three dimensions.
    rows, block : int
        Rows along the last dimension in all, and of an item; the last one may be shorter.
    scratch : int
        Bytes of a thread's own memory that references may reach.
    """

    cdef member_t* members
    cdef int count
    cdef bint sealed        # it has run
    cdef bint far           # what it reads is too much for the caches
    cdef Py_ssize_t outer[MAX_OUTER]
    cdef readonly Py_ssize_t rows, block, scratch
    cdef Py_ssize_t rest
    # A thread's workspace: the scratch, copies that stay, what products need while they run, and lines that say of
    # which matrices those are copies.
    cdef Py_ssize_t held, most
    cdef readonly int kept
    cdef list slots         # by slot: [dtype's name, lowest byte, byte behind the highest, written, dtype seen last]
    cdef list keeps         # objects whose memory members point to
    cdef object shape

    def __cinit__(self, members, tuple outer, Py_ssize_t rows, Py_ssize_t block, Py_ssize_t scratch=0):
        self.members = NULL
        if not 1 <= len(outer) <= MAX_OUTER or min(outer) < 1 or max(outer) > 1 << 40:
            raise ValueError(f"outer must be one to three sizes, not {outer}")
        blocks = outer[len(outer) - 1]
        if not (1 <= block <= rows and (blocks - 1) * block < rows <= blocks * block):
            raise ValueError(f"{blocks} blocks of {block} do not make {rows} rows")
        if not 0 <= scratch <= 1 << 30:
            raise ValueError(f"scratch must be at most 1 GiB, not {scratch} bytes")
        self.shape = (1,) * (MAX_OUTER - len(outer)) + outer
        for i, size in enumerate(self.shape):
            self.outer[i] = size
        self.rows, self.block, self.rest = rows, block, rows - (blocks - 1) * block
        self.scratch, self.held, self.most, self.kept = whole_lines(scratch), 0, 0, 0
        self.slots, self.keeps = [], []

    def __dealloc__(self):
        free(self.members)

    cdef member_t* more(self) except NULL:
        # A member to fill in; it counts when `count` does.  The array may move, so nobody may be running it.
        if self.sealed:
            raise ValueError("a chain that has run takes no more members")
        cdef member_t* grown = <member_t*>realloc(self.members, (self.count + 1) * sizeof(member_t))
        if grown == NULL:
            raise MemoryError("no memory for a chain")
        self.members = grown
        memset(&grown[self.count], 0, sizeof(member_t))
        grown[self.count].u.slot = grown[self.count].v.slot = grown[self.count].beside.slot = ABSENT
        grown[self.count].appended = -1
        return &grown[self.count]

    cdef int take(self, ref_t* made, ref, rows, columns, str kinds, bint written) except -1:
        # A reference to rows x columns numbers (rows None: the item's) of one of some dtypes, in range.
        dtype = ref.dtype
        if dtype not in kinds.split():
            raise TypeError(f"a reference to {dtype} where {kinds} is meant")
        size = registry.bytes_of(dtype)
        numbers = (ref.slot, ref.offset, ref.row, ref.column, *ref.steps)
        if not all(type(x) is int and -(1 << 46) < x < 1 << 46 for x in numbers):
            raise TypeError("slots, offsets, steps and strides are whole numbers below 2**46")
        steps = (0,) * (MAX_OUTER - len(ref.steps)) + tuple(ref.steps)
        if len(steps) != MAX_OUTER or any(x % size for x in (ref.offset, ref.row, ref.column, *ref.steps)):
            raise ValueError(f"{ref} has too many steps, or strides that are no whole numbers of {dtype}")
        # The last item along the last dimension has its own number of rows.
        lows, highs = [], []
        for last in (False, True):
            if not last and self.outer[2] == 1:
                continue
            count = rows if rows is not None else self.rest if last else self.block
            ends = [(x * (n - 1)) for x, n in ((ref.row, count), (ref.column, columns), (steps[0], self.outer[0]),
                                               (steps[1], self.outer[1]))]
            along = [steps[2] * (self.outer[2] - 1)] if last else [0, steps[2] * (self.outer[2] - 2)]
            for x in along:
                lows.append(ref.offset + x + sum(min(0, end) for end in ends))
                highs.append(ref.offset + x + sum(max(0, end) for end in ends) + size)
        low, high = min(lows), max(highs)
        if ref.slot == SCRATCH:
            if low < 0 or high > self.scratch or any(steps):
                raise ValueError(f"{ref} leaves the {self.scratch} bytes of scratch")
        elif not 0 <= ref.slot < MAX_SLOTS:
            raise ValueError(f"slot {ref.slot} is out of range")
        else:
            while len(self.slots) <= ref.slot:
                self.slots.append(None)
            slot = self.slots[ref.slot] or [dtype, low, high, False, None]
            if slot[0] != dtype:
                raise TypeError(f"slot {ref.slot} is {slot[0]} for one member and {dtype} for another")
            self.slots[ref.slot] = [dtype, min(low, slot[1]), max(high, slot[2]), slot[3] or written, None]
        made.slot, made.offset, made.row, made.column = ref.slot, ref.offset, ref.row, ref.column
        for i in range(MAX_OUTER):
            made.steps[i] = steps[i]
        return 0

    cdef int keep_copies(self, member_t* m) except -1:
        # Items that follow each other multiply by one matrix: blocks of rows, heads with the same keys.  A thread's
        # copy of it stays for the next one, where both plans copy it alike.
        cdef const plan_t* plans = m.plans
        cdef Py_ssize_t bytes = whole_lines(bytes_of_copies(&plans[0]))
        if bytes == 0 or self.kept == KEPT or self.held + bytes > cpu.caches().l3 // KEPT_L3:
            return 0
        if not stays(bytes, plans[0].m):
            return 0
        m.keeps[0] = True
        m.keeps[1] = (bytes_of_copies(&plans[1]) and plans[1].kernels == plans[0].kernels
                      and plans[1].nv == plans[0].nv and plans[1].ncv == plans[0].ncv)
        m.key, m.kept = self.kept, self.scratch + self.held
        self.held += bytes
        self.kept += 1
        return 0

    cdef Py_ssize_t copied(self) noexcept:
        # Where the workspace says what copies are of: its end.
        return self.scratch + self.held + whole_lines(self.most)

    cdef Py_ssize_t zeros(self) noexcept:
        return whole_lines(self.kept * sizeof(char*))

    @property
    def workspace(self):
        """Bytes of a thread's own memory."""
        return self.copied() + self.zeros()

    cdef const float* keep(self, values, Py_ssize_t columns) except NULL:
        # The memory of one float32, or of one a column.
        array = np.array(values, np.float32, order="C").reshape(-1)
        if array.size not in (1, columns) or not np.isfinite(array).all():
            raise ValueError(f"scales and shifts are finite: one, or {columns}")
        array.flags.writeable = False
        self.keeps.append(array)
        return <const float*>cnp.PyArray_DATA(<cnp.ndarray>array)

    cdef int take_sums(self, member_t* m, sums, row, bint packed_zeros) except -1:
        # `sums`: (scale, shift, c's zero, low, high, a's zero, b's zero): what sums of bytes become.  `packed_zeros`: B
        # was packed with zeros of its own.
        scale, shift, c_zero, low, high, a_zero, b_zero = sums
        for zero, is_unsigned in ((a_zero, m.a_unsigned), (b_zero, m.b_unsigned)):
            if not (0 <= zero <= 255 if is_unsigned else -128 <= zero <= 127):
                raise ValueError(f"{zero} is no value of the type whose zero it is")
        m.a_zero, m.b_zero = a_zero, b_zero
        m.appended = appended(a_zero != 0, m.a_unsigned, packed_zeros or b_zero != 0, m.b_unsigned)
        if scale is not None:
            if (np.ravel(scale) == np.ravel(scale)[:1]).all():
                scale = np.ravel(scale)[:1]     # (which kernels finish sooner than one a column)
            m.scale, m.scale_step = self.keep(scale, m.n), np.size(scale) > 1
        m.quantised = row.name == "i8_q8"
        if m.quantised:
            if scale is None:
                raise ValueError("bytes of bytes need a scale")
            m.c_zero, m.low, m.high = c_zero, low, high
            if shift is not None:
                m.shift = self.keep(np.broadcast_to(shift, (m.n,)), m.n)
        return 0

    cdef int take_finish(self, member_t* m, int level, row, finish, Py_ssize_t columns) except -1:
        # `finish`: (code, p, q, bias, residual); bias and residual are references or None.
        code, p, q, bias, residual = finish
        # Halves are finished while they are float32, sums of bytes become float32.
        kind = registry.dtype("f64" if row.name == "f64" else "f32")
        if row.parts > 1 or m.quantised:
            raise TypeError(f"nothing follows a product by {row.name}")
        m.finish, m.p, m.q = finish_of(level, row.code if row.exact else kind.code, code), p, q
        m.code = code
        m.term_bytes = kind.real_bytes
        if m.y.column != row.result_bytes:
            raise ValueError("what follows a product takes outputs with adjacent columns")
        if bias is not None:
            self.take(&m.v, bias, 1, columns if bias.column else 1, kind.numpy, False)
            m.one_bias = not bias.column
            if bias.column not in (0, kind.real_bytes):
                raise ValueError("a bias has adjacent numbers, or one")
        if residual is not None:
            self.take(&m.beside, residual, None, columns, kind.numpy, False)
            if residual.column != kind.real_bytes:
                raise ValueError("a residual has adjacent columns")
        return 0

    def add_product(self, Py_ssize_t n, Py_ssize_t k, a, b, c, row, level, plans, bint again, bint more, finish, sums):
        """Add ``c = f(a @ b)`` by a row of the registry; `plans` makes a plan for m rows.

        `b` is a reference or `Panels`, `again` whether the next item mostly has the same one, `more` whether the
        product is added to what c holds; `finish` is (code, p, q, bias, residual) or None; of bytes, `sums` is (scale,
        shift, zero, low, high of c, zero of a, of b).
        """
        cdef member_t* m = self.more()
        cdef Panels panels
        cdef Plan plan
        cdef int i
        cdef char la
        m.kind, m.n, m.k = PRODUCT, n, k
        if n < 1 or k < 1:
            raise ValueError("a product of no numbers")
        m.more = more
        if more and (finish is not None or row.name == "i8_q8"):
            raise ValueError("what is added to c is the product alone")
        operands = " ".join(row.names)
        self.take(&m.x, a, None, k, operands, False)
        cdef bint floats = row.name == "i8_i32" and c.dtype == "float32"
        results = "float32" if floats else " ".join(registry.BYTES) if row.name == "i8_q8" else row.result or operands
        self.take(&m.y, c, None, n, results, True)
        make_ready()
        if isinstance(b, Panels):
            panels = b
            if (panels.n, panels.k) != (n, k) or panels.memory is None:
                raise ValueError(f"a packed {panels.k} x {panels.n} matrix where {k} x {n} is meant")
            m.panels, m.slim = panels.data, panels.slim
            self.keeps.append(panels)
        else:
            self.take(&m.u, b, k, n, operands, False)
        # What finishes a product is part of the problem where there are such problems: halves whose sums stay float32
        # in a chain are the product alone.
        followed = finish[0] if finish is not None and registry.is_finished(row) else 0
        for i, rows in enumerate((self.block, self.rest)):
            if isinstance(b, Panels):
                la = letter(rows, k, a.row // row.stored_bytes, a.column // row.stored_bytes, row.parts)
                find(panels, row.code, la, rows, 1, followed, &m.plans[i])
            else:
                plan = plans(rows)
                m.plans[i] = plan.plan
                if (plan.plan.m, plan.plan.n, plan.plan.k, plan.plan.batch) != (rows, n, k, 1):
                    raise ValueError("a plan for another product")
            if m.plans[i].kernels == NULL or m.plans[i].threads != 1:
                raise ValueError("a plan that is not for one thread's kernels")
            self.most = max(self.most, <Py_ssize_t>(m.plans[i].a_bytes + m.plans[i].b_bytes))
        if again and m.panels == NULL and m.u.slot >= 0:
            self.keep_copies(m)
        if row.group > 1 and row.exact:
            m.a_unsigned = a.dtype == "uint8"
            m.b_unsigned = panels.is_unsigned if isinstance(b, Panels) else b.dtype == "uint8"
            self.take_sums(m, sums, row, isinstance(b, Panels) and panels.zero is not None)
            if finish is not None and not floats:
                raise TypeError(f"what follows sums of bytes makes float32 of them by a scale, not {c.dtype}")
        if floats and (finish is None or m.scale == NULL):
            raise ValueError("sums of bytes become floats by a scale and a Finish")
        if finish is not None:
            self.take_finish(m, level, row, finish, n)
        self.count += 1

    cdef int take_parts(self, member_t* m, op, state, made, Py_ssize_t width, bint more) except -1:
        if op.name != "softmax" or width < 1:
            raise ValueError(f"{op.name} in parts, with means of {width} columns")
        m.k, m.more = width, more
        self.take(&m.v, state, None, 2, "float32", True)
        if made is not None:
            self.take(&m.beside, made, None, width, "float32", True)
        if state.column != 4 or made is not None and made.column != 4:
            raise ValueError("state and means of a softmax in parts have adjacent columns")
        return 0

    def add_rows(self, Py_ssize_t n, x, y, op, kinds, level, double p, quants, vectors, parts):
        """Add an operation on rows of the registry between two stored kinds; `vectors` are references or None.

        `parts` is None, or of a softmax in parts (state, means or None, their columns, whether parts follow).
        """
        cdef member_t* m = self.more()
        cdef ref_t* made
        cdef int index = row_operations.row_index(op, *kinds)
        m.kind, m.n = ROWS, n
        if n < 1 or not 0 <= level < MAX_LEVEL or TABLES[<int>level] == NULL or TABLES[<int>level][index] == NULL:
            raise ValueError(f"no {op.name} from {kinds[0]} to {kinds[1]} in this process")
        m.rows = TABLES[<int>level][index]
        self.take(&m.x, x, None, n, row_operations.ROW_TYPES[kinds[0]], False)
        self.take(&m.y, y, None, n, row_operations.ROW_TYPES[kinds[1]], True)
        if op.name == "softmax" and kinds[1] != kinds[0] and x.slot != SCRATCH:
            raise ValueError("softmax leaves its exponentials in the input: scratch, where the output is narrower")
        computed = "float64" if kinds[0] == "f64" else "float32"
        for i, vector in enumerate(vectors):
            if vector is not None:
                made = &m.u if i == 0 else &m.v
                # A mask may have rows of its own.
                self.take(made, vector, None if vector.row else 1, n, computed, False)
                if vector.column != registry.bytes_of(computed) or vector.row and (i or op.name != "softmax"):
                    raise ValueError("the vectors of rows have adjacent numbers")
        if parts is not None:
            if kinds[0] != "f32":
                raise ValueError(f"{op.name} of {x.dtype} in parts")
            state, means, width, more = parts
            self.take_parts(m, op, state, means, width, more)
        for ref in (x, y):
            if n > 1 and ref.column != registry.bytes_of(ref.dtype):
                raise ValueError("operations on rows take adjacent columns")
        m.terms.p = p
        m.terms.x_scale, m.terms.x_zero, m.terms.y_scale, m.terms.y_zero = quants
        self.count += 1

    def add_finish(self, Py_ssize_t n, x, y, row, level, finish):
        """Add ``y = f(x + bias + residual)`` in the type of a row of the registry."""
        cdef member_t* m = self.more()
        m.kind, m.n = FINISH, n
        if row.name not in registry.FINISHED:
            raise TypeError(f"activations by themselves are of {' or '.join(registry.FINISHED)}, not of {row.numpy}")
        self.take(&m.x, x, None, n, row.numpy, False)
        self.take(&m.y, y, None, n, row.numpy, True)
        if x.column != row.stored_bytes:
            raise ValueError("operations on rows take adjacent columns")
        self.take_finish(m, level, row, finish, n)
        self.count += 1

    def run(self, arrays, threads=None):
        """Compute every item.

        Parameters
        ----------
        arrays : sequence of ndarray
            By slot; of the references' dtypes, aligned, and of memory that holds all that they reach.
        threads : int, optional
            The most that take part; as many as a call may use by default.

        Raises
        ------
        TypeError, ValueError
            If an array is not what the references say.
        MemoryError
        """
        cdef work_t work
        cdef cnp.ndarray array
        cdef int failed, d, most = threads_now()
        cdef Py_ssize_t total, i, lowest, highest, reach, zeros = self.zeros()
        if not self.sealed:
            self.far = sum(slot[2] - slot[1] for slot in self.slots if slot and not slot[3]) >= far_bytes()
            self.sealed = True
        if threads is not None:
            most = min(max(1, threads), most)
        if len(arrays) < len(self.slots):
            raise ValueError(f"{len(arrays)} arrays for {len(self.slots)} slots")
        memset(&work, 0, sizeof(work))
        for i, slot in enumerate(self.slots):
            if slot is None:
                continue
            dtype, low, high, written, seen = slot
            if not cnp.PyArray_CheckExact(arrays[i]):
                raise TypeError(f"slot {i} must be an ndarray of {dtype}")
            array = arrays[i]
            # NumPy makes a dtype's name anew each time it is asked (2 us); the objects are mostly the same.
            if <object>cnp.PyArray_DESCR(array) is not seen:
                if array.dtype.name != dtype:
                    raise TypeError(f"slot {i} must be an ndarray of {dtype}")
                slot[4] = array.dtype
            if not cnp.PyArray_ISBEHAVED_RO(array) or written and not cnp.PyArray_ISWRITEABLE(array):
                raise ValueError(f"the array of slot {i} is read-only or not aligned")
            lowest, highest = 0, cnp.PyArray_ITEMSIZE(array)
            for d in range(cnp.PyArray_NDIM(array)):
                reach = (cnp.PyArray_DIM(array, d) - 1) * cnp.PyArray_STRIDE(array, d)
                if reach < 0:
                    lowest += reach
                else:
                    highest += reach
            if cnp.PyArray_SIZE(array) == 0:
                lowest = highest = 0
            if low < lowest or high > highest:
                raise ValueError(f"the chain reaches bytes {low} to {high} of slot {i}, it has {lowest} to {highest}")
            work.slots[i] = cnp.PyArray_BYTES(array)
            if written:
                work.written |= <unsigned long long>1 << i
        work.members, work.count = self.members, self.count
        work.blocks, work.copied = self.scratch + self.held, self.copied()
        work.block, work.rest, work.far = self.block, self.rest, self.far
        for i in range(MAX_OUTER):
            work.outer[i] = self.outer[i]
        total = self.outer[0] * self.outer[1] * self.outer[2]
        with nogil:
            failed = run_items(run_item, &work, total, work.copied + zeros, zeros, most)
        clear_flags()
        if failed:
            raise MemoryError("no memory for a chain's workspace")
