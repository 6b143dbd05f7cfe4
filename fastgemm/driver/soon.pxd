"""What comes after a product, fetched while its tiles run: the operands of a chain's or a stack's next item.

An item multiplies what lies in L1 and L2 while the next one's operands lie in L3 or in memory.  The CPU's own prefetch
does not know of them: copying B waits for them, and so do the first tiles.  Instead each tile of the item fetches its
part, a line or a few in each step, where it would else ask for lines of B that L1 has.

(Zen 5, AVX-512, one thread, attention of 128 tokens, 8 and 32 x 8 heads of 96, f32, so from L3 and from memory, over
none: 1.03 and 1.22; the lines of a tile all at once before it 0.98 and 1.10.)
"""

cdef enum:
    MAX_SPANS = 8
    SPAN_LINE = 64

cdef struct span_t:
    # Rows of bytes, so many bytes apart.
    const char* at
    Py_ssize_t rows, length, step

cdef struct soon_t:
    span_t spans[MAX_SPANS]
    int count, now
    Py_ssize_t row, byte        # how far the span is fetched that is fetched now
    Py_ssize_t lines            # that are left, of all
    Py_ssize_t steps            # of k, of all tiles that are left to fetch them, as far as is known
    Py_ssize_t due              # lines that tiles have left to later ones


cdef inline void no_soon(soon_t* soon) noexcept nogil:
    soon.count = soon.now = 0
    soon.row = soon.byte = soon.lines = soon.steps = soon.due = 0


cdef inline void add_span(soon_t* soon, const char* at, Py_ssize_t rows, Py_ssize_t row, Py_ssize_t columns,
                          Py_ssize_t column, Py_ssize_t size, bint far) noexcept nogil:
    # A matrix of rows x columns numbers of `size` bytes; `row` and `column` are bytes from one to the next.  Where
    # neither side is adjacent, or it lies backwards, nothing is fetched, and rows with gaps only if they are `far`, in
    # memory (Zen 5, one thread, attention on 8 and 32 x 128 x 8 heads of 96, f32: 0.99 and 1.09, 32 x 128 x 12 of 64
    # 1.14).
    cdef span_t* span = &soon.spans[soon.count]
    if column != size and row == size:
        add_span(soon, at, columns, column, rows, row, size, far)
        return
    if soon.count == MAX_SPANS or column != size or row < 0:
        return
    span.at, span.rows, span.length, span.step = at, rows, columns * size, row
    if row == span.length or rows == 1:
        span.rows, span.length = 1, rows * span.length
    elif not far:
        return
    # Rows seldom begin where lines do.
    span.length += <Py_ssize_t>at & (SPAN_LINE - 1)
    span.at -= <Py_ssize_t>at & (SPAN_LINE - 1)
    soon.lines += span.rows * ((span.length + SPAN_LINE - 1) // SPAN_LINE)
    soon.count += 1


cdef inline Py_ssize_t lines_of_tile(soon_t* soon, Py_ssize_t tiles, Py_ssize_t steps) noexcept nogil:
    # How many lines each of so many tiles of so many steps fetches, which are the next to run.
    cdef Py_ssize_t all = max(soon.steps, tiles * steps)
    soon.steps -= tiles * steps
    return (soon.lines * steps + all - 1) // all


cdef inline const char* next_soon(soon_t* soon, Py_ssize_t lines, Py_ssize_t each, Py_ssize_t steps, Py_ssize_t width,
                                  Py_ssize_t* pace) noexcept nogil:
    # Where a tile begins to fetch about so many lines, `width` bytes in each of its steps and `pace` bytes on in the
    # next one; NULL: it does not.  `each`: the lines' bytes in a step, for which no tile should divide.
    cdef const span_t* span = &soon.spans[soon.now]
    cdef const char* at
    cdef Py_ssize_t some
    if soon.lines == 0:
        return NULL
    at = span.at + soon.row * span.step + soon.byte
    # What a tile can fetch may be more than its part, and then others have none.
    soon.due += lines
    if span.rows == 1:
        some = min(width, each) * steps // SPAN_LINE
        if soon.due < some:
            return NULL
        soon.due -= some
        pace[0] = min(width, each)
        soon.byte += pace[0] * steps
    else:
        # A row in each step, so many bytes wide.
        width = min(width, span.length - soon.byte)
        some = min(steps, span.rows - soon.row) * ((width + SPAN_LINE - 1) // SPAN_LINE)
        if soon.due < some:
            return NULL
        soon.due -= some
        pace[0] = span.step
        soon.row += steps
        if soon.row >= span.rows:
            soon.row = 0
            soon.byte += width
    soon.lines = max(0, soon.lines - some)
    if soon.byte >= span.length:
        soon.byte = 0
        soon.now += 1
        if soon.now == soon.count:
            soon.lines = 0
    return at
