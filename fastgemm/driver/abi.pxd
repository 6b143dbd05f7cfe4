"""What a kernel module hands to the driver: C function pointers and nothing of Python.

Units.  Every stride and every width here counts *real components*: a complex64 matrix is
a matrix of floats with twice the columns, and its rows may start at any whole number
of floats.  ``part`` is 1 for real and 2 for complex types.
"""

cdef enum:
    MAX_ROWS = 32      # tallest microkernel of the registry, in real rows
    MAX_DEEP = 6       # tallest of those with several sets of accumulators
    MAX_VECTORS = 4    # widest microkernel of the registry, in vectors
    MAX_DTYPES = 16
    MAX_NARROW = 9     # components of a narrow row of C, and one
    MAX_BRIEF = 9      # steps of k whose rows of C are written whole, and one
    MAX_SHORT = 9      # numbers of a short column, and one
    MAX_DOTS = 4       # rows of A that the dots kernels take at a time
    MAX_PASSES = 3     # registry.DOT_PASSES
    MAX_STRIP = 9      # rows of A beside a B in place, and one of ones
    LATER_BYTES = 1280  # what the columns of a tile that waits are rounded with (`later_t`; kernels assert it)
    GEMV_CHUNK = 8192  # elements of x or y that gemv copies at a time where they are strided or converted

cdef enum:
    FUSED = 1           # sums of bytes are scaled and become floats; the bias is added
    FUSED_RELU = 2      # and then nothing is below zero

cdef struct spread_t:
    # The magnitudes of an operand's numbers, as their bits: the least but zero, less one, and the greatest.
    unsigned int least, most

cdef struct offset_t:
    # What is subtracted from an operand's numbers: one for each row of A or column of B, or (step 0) one for all.
    const int* zero     # NULL: nothing
    Py_ssize_t step
    int is_unsigned     # the operand's bytes
    spread_t* spread    # of numbers that are cut into limbs: what packing has seen

cdef struct later_t:
    # A tile of sums, of tile registers, whose results go to C while the next one of as many vectors is multiplied.
    char* sums          # where they are, each row behind the other
    char* room          # where the next tile's go
    int rows            # 0: none are waiting
    int vectors, c_tail
    char* c
    Py_ssize_t rs_c
    Py_ssize_t column           # those of `store_t`
    const void* bias
    char* made                  # LATER_BYTES that begin a line: what a panel's columns are rounded with, ...
    Py_ssize_t made_of          # ... and the first of those columns; -1: none yet

cdef struct store_t:
    # How a finished tile goes to memory: C = alpha * AB + beta * C.
    int alpha_is_one
    int beta_kind       # 0: C is not read; 1: C is added; 2: beta * C is added
    # Dot products: which of the steps that packing appends count (1 of A's offsets, 2 of B's); and for an A in place
    # how many bytes of k the last step has (0: whole words), what every byte is xored with, and its offset, negated.
    int appended
    int in_place, last
    int narrow          # the microkernel itself rounds (only where the table says `rounds`)
    int far             # gemv, dots: B comes from memory, and is fetched; dots: which part of it (dots_tile.tp)
    int fetch_l2        # tiles: what is fetched goes to L2, of a B whose last vector is whole
    Py_ssize_t reach_l2     # gemv: columns one after the other, and lines so many bytes ahead into L2 (0: neither)
    Py_ssize_t next_c   # components from a tile to the one whose C is fetched meanwhile (0: itself; -1: none)
    unsigned int flip, zero
    int conj            # complex numbers that are taken conjugate: 1 A's, 2 B's
    double alpha[2]
    double beta[2]
    const void* terms   # what an `update` of the call's own needs
    int rows            # of a tile, for microkernels of tile registers, which are not compiled for a number of them
    # What a microkernel does to its sums before it stores them, where a call has an epilogue of which that is all:
    # FUSED bits.  `bias`, `scale` and `column` are those of the tile's first column, `live` how many of its last
    # vector's columns they have.
    int fused, live
    const void* bias            # one a column; NULL: none
    const float* scale          # as the epilogue's
    Py_ssize_t scale_step
    # gemv of bytes: B's offsets (NULL: none), and the first column.  Dot products: A's and B's.
    const offset_t* offset
    Py_ssize_t column           # of a quantised product too
    later_t* later              # tile registers: which tile waits; NULL: results go to C at once

cdef extern from *:
    """
    #ifndef FASTGEMM_QUANT
    #define FASTGEMM_QUANT
    /* The terms of a quantised product, y = round(c * left * right [/ scale] + bias) + zero between low and high: one
       for all (step 0), or one for each row or column; `bias` is NULL or one for each column. */
    typedef struct {
        const float *left, *right, *scale, *zero, *bias;
        Py_ssize_t left_step, right_step, scale_step, zero_step;
        int both;   /* left and right are scales of both operands: the output's divides them */
        int exact;  /* no sum is beyond 2^24: float32 holds each of them */
        double low, high;
    } quant_t;
    #endif
    """
    ctypedef struct quant_t:
        const float* left
        const float* right
        const float* scale
        const float* zero
        const float* bias
        Py_ssize_t left_step, right_step, scale_step, zero_step
        int both
        int exact
        double low, high

# C[rows x width] = the store of sum over p of A[i, p] * B[p, j].
# The kernel's rows and vectors are fixed when it is compiled.  `b_tail` and `c_tail` are the
# live components (1 .. vector length) of the last vector of B's rows and of C's rows.
# Lanes of B past b_tail repeat its last column, so that they raise no floating-point
# flag which a live column does not raise; lanes of C past c_tail are neither read nor written.
# B's and C's columns must be adjacent; A may have any strides (dot products count them in bytes).
# Prefetched is what begins `ahead` components behind B's first row, as much in a step as a row has, `pace` components
# further on in each: what is read soon (0 and rs_b: nothing, for that is B itself).
ctypedef void (*micro_t)(
    Py_ssize_t k,
    const void* a, Py_ssize_t rs_a, Py_ssize_t cs_a,
    const void* b, Py_ssize_t rs_b,
    void* c, Py_ssize_t rs_c,
    int b_tail, int c_tail, Py_ssize_t ahead, Py_ssize_t pace, const store_t* store) noexcept nogil

# Tile registers, which keep their shape until it is changed, are told how many rows the next microkernels have; and at
# last that nobody needs them, so that the system need not keep them over a change of threads.
ctypedef void (*enter_t)(int rows) noexcept nogil
ctypedef void (*leave_t)() noexcept nogil
# The results of the tile that waits go to C; `column`, `bias` and `live` of `store` become those of it.
ctypedef void (*flush_t)(store_t* store) noexcept nogil

# A copy of rows x k of A.  The driver copies rows as they are (cs_out == part, rows an odd number of lines apart so
# that they fall on different cache sets) where A's columns are adjacent, and into micropanels (rs_out == part)
# elsewhere: the microkernels read either, and neither copy has to transpose.  `at` is the first of the rows, for its
# offset; NULL where nothing is subtracted.
ctypedef void (*pack_a_t)(
    Py_ssize_t k, Py_ssize_t rows,
    const void* a, Py_ssize_t rs, Py_ssize_t cs,
    void* out, Py_ssize_t rs_out, Py_ssize_t cs_out, const offset_t* offset, Py_ssize_t at) noexcept nogil

# One micropanel of B: out[p][j] for p < k, j < vectors * length, of which `width` are live, some of the last vector;
# the others repeat the last column.
ctypedef void (*pack_b_t)(
    Py_ssize_t k, Py_ssize_t width, Py_ssize_t vectors,
    const void* b, Py_ssize_t rs, Py_ssize_t cs, void* out, const offset_t* offset, Py_ssize_t at) noexcept nogil

# So many steps of whole micropanels that lie side by side in B, whose columns are adjacent; in out each begins `gap`
# components behind the one before it.  NULL where B is packed for dot products.
ctypedef void (*pack_side_t)(
    Py_ssize_t k, Py_ssize_t panels, Py_ssize_t vectors,
    const void* b, Py_ssize_t rs, void* out, Py_ssize_t gap) noexcept nogil

# A finished tile of plain products, in the type that is computed with, goes to a C of any strides and of the type that
# is stored, or with any alpha and beta.  `row` and `column` (elements) say where in the whole C it lies.
ctypedef void (*update_t)(
    Py_ssize_t rows, Py_ssize_t columns,
    const void* tile, Py_ssize_t rs_tile,
    void* c, Py_ssize_t rs_c, Py_ssize_t cs_c, const store_t* store, Py_ssize_t row, Py_ssize_t column) noexcept nogil

# What follows a product, done in place to a finished part of C, of the type that is computed with and with adjacent
# columns, while it lies in cache: after the last block of k, once.  `terms` are the call's own; `row` and `column`
# say where in the whole C the part lies.
ctypedef void (*finish_t)(
    Py_ssize_t rows, Py_ssize_t columns, void* c, Py_ssize_t rs_c,
    const void* terms, Py_ssize_t row, Py_ssize_t column) noexcept nogil

# The terms of the epilogues in kernels/epilogue.pyx.tp.
cdef struct epilogue_t:
    const void* bias            # one for each column (bias_step 1), or one for all (0); NULL: none
    Py_ssize_t bias_step
    const void* residual        # a matrix as C is, with adjacent columns, or (cs_residual 0) one column; NULL: none
    Py_ssize_t rs_residual, cs_residual
    double p, q                 # the numbers of the activation
    int fused                   # FUSED bits: microkernels can do all of it; 0: they cannot
    const float* scale          # of sums of bytes, which become floats: one for each column (scale_step 1), or for all
    Py_ssize_t scale_step

# What is done to rows in a chain (row_operations.ROW_OPS), x to y, whose rows lie so many bytes apart; columns are
# adjacent.  y may be x.  Where y is no float32, softmax may leave its exponentials in x.
cdef struct row_terms_t:
    double p                    # the operation's number
    const float* u              # its vectors: softmax' mask (rows of them `rs_u` bytes apart, 0: one for all), gamma
    Py_ssize_t rs_u
    const float* v              # beta
    float x_scale, x_zero       # what bytes stand for
    float y_scale, y_zero
    # A softmax whose columns come in parts, one call each: of each row what was subtracted and its sum so far (two
    # floats, `rs_state` bytes apart; NULL: all columns are here), the means that the parts before gave (rows of `width`
    # floats, NULL: this is the first part), which what is new takes a share from, and whether there are more to come.
    char* state
    Py_ssize_t rs_state
    char* made
    Py_ssize_t rs_made, width
    bint more

ctypedef void (*rows_t)(
    Py_ssize_t rows, Py_ssize_t columns, void* x, Py_ssize_t rs_x, void* y, Py_ssize_t rs_y,
    const row_terms_t* terms) noexcept nogil

# The least and the largest of some numbers and 0, to out[0] and out[1]; NaN, both, where one of them is none.
ctypedef void (*span_t)(Py_ssize_t columns, const float* x, float* out) noexcept nogil

# y (1 x n) = x (1 x k) @ B (k x n), added to y where beta_kind is not 0.  y is contiguous; so is
# x for the column kernel.  x and y are of the type that is computed with, B of the type that is stored.  (Bytes: x
# holds 16-bit numbers, contiguous and free of its offset, y 32-bit ones.)
ctypedef void (*gemv_t)(
    Py_ssize_t k, Py_ssize_t n,
    const void* x, Py_ssize_t inc_x,
    const void* b, Py_ssize_t rs, Py_ssize_t cs,
    void* y, Py_ssize_t inc_y, const store_t* store) noexcept nogil

# C (rows x n) = A (rows x k) @ B (k x n), added to C where beta_kind is not 0; the rows are those of the kernel.  A's
# columns, B's rows and C's columns are adjacent, all are of the type that is computed with, or A and B as they are
# stored (`dot_bytes`).  `k` counts components.  (Bytes: store.offset says of A's and of B's whether they have a sign;
# what else it says is done afterwards, by `dot_settle_t`.)
ctypedef void (*dots_t)(
    Py_ssize_t k, Py_ssize_t n, const void* a, Py_ssize_t rs_a, const void* b, Py_ssize_t cs_b,
    void* c, Py_ssize_t rs_c, const store_t* store) noexcept nogil

# Sums of the bytes of `count` rows of A, or columns of B as those are multiplied.
ctypedef void (*dot_sums_t)(
    Py_ssize_t k, Py_ssize_t count, const void* x, Py_ssize_t step, const offset_t* offset, bint of_b,
    unsigned int* out) noexcept nogil

# What the offsets of A and B take from dot products of bytes over k steps; `row` and `column` are the first ones here.
# `sums_b` are those of B's columns; NULL: they are made of B.
ctypedef void (*dot_settle_t)(
    Py_ssize_t k, Py_ssize_t rows, Py_ssize_t n, const unsigned int* sums_a, const void* b, Py_ssize_t cs_b,
    const unsigned int* sums_b, void* c, Py_ssize_t rs_c, const offset_t* offset, Py_ssize_t row,
    Py_ssize_t column) noexcept nogil

# sums (rows x n) += A (rows x k) @ B (k x n); the rows are those of the kernel.  A's rows are words, what fills up the
# last one 0, and `rs_a` counts words; B's columns are adjacent, its rows `rs_b` bytes apart; sums are of the type that
# is computed with, and have room for a multiple of `group` vectors.  (Bytes: as for `dots_t`.)
ctypedef void (*strip_t)(
    Py_ssize_t k, Py_ssize_t n, const void* a, Py_ssize_t rs_a, const void* b, Py_ssize_t rs_b,
    void* sums, Py_ssize_t rs_sums, const store_t* store) noexcept nogil

# `count` equal products of one shape, whose sizes and strides inside a product are constants of the function:
# C = A @ B, C not read.  Steps from one product to the next count bytes.
ctypedef void (*special_run_t)(
    Py_ssize_t count, const char* a, Py_ssize_t step_a, const char* b, Py_ssize_t step_b,
    char* c, Py_ssize_t step_c) noexcept nogil

cdef struct special_t:
    int dtype, part
    Py_ssize_t m, n, k
    Py_ssize_t rs_a, cs_a, rs_b, rs_c   # what a call's strides must be; B's and C's columns are adjacent
    special_run_t run

# Equal products, one after the other: those of a stack, or the panels of one large product (with a step of 0 for the
# operand that they share).  Strides inside a product count components, steps between products bytes.
cdef struct stack_t:
    Py_ssize_t count, m, k
    Py_ssize_t n                    # components of a row of C
    const char* a
    const char* b
    char* c
    Py_ssize_t rs_a, cs_a, rs_b, rs_c
    Py_ssize_t step_a, step_b, step_c
    # The tile kernels only: equal panels of rows in a product, bytes from one to the next, live components of the last
    # vector of a row of C.
    Py_ssize_t panels, panel_a, panel_c
    int tail
    int raw                         # C is of the type that is computed with, where that is not what is stored
    const offset_t* offsets         # bytes with 32-bit sums: of A and B, ...
    Py_ssize_t row, column          # ... and the first row and column of C here, for them
    Py_ssize_t size_ab, size_c      # bytes of a component in memory
    Py_ssize_t touch_a, touch_b, touch_c    # bytes of each operand to fetch before they are needed (0: none) ...
    Py_ssize_t ahead_a, ahead_b, ahead_c    # ... and how far ahead
    # Of operands from memory, or 0.  Tiles: items ahead of which all rows of B and C are fetched; rows that share
    # vectors: bytes ahead of which A is.
    Py_ssize_t far
    bint soon_c                     # tiles: C of the next panel of rows is fetched meanwhile


cdef inline Py_ssize_t rows_apart(Py_ssize_t bytes, Py_ssize_t vector) noexcept nogil:
    # How many rows, so many bytes from one to the next, lie between two that begin alike in a vector: the lowest bit of
    # the distance says it.  (Of a single row it may be 0.)
    cdef Py_ssize_t low = bytes & -bytes
    return vector // low if 0 < low < vector else 1


# C = A @ B for each product of a stack, B's and C's columns adjacent; C is not read.  The sum runs over k in order,
# as a gemm microkernel's does: the bits are the same.
ctypedef void (*stack_kernel_t)(const stack_t* stack) noexcept nogil

# A copy of B (k x n), whose rows are adjacent and whose columns lie `cs` apart, with rows of whole vectors.
ctypedef void (*turn_t)(
    Py_ssize_t k, Py_ssize_t n, const void* b, Py_ssize_t cs, void* out, Py_ssize_t rs) noexcept nogil

# The same of each matrix of a stack, `step` bytes apart, whose columns lie one after the other: their rows without
# gaps.  (out has room for one more vector.)
ctypedef void (*turn_stack_t)(
    Py_ssize_t items, Py_ssize_t k, Py_ssize_t n, const void* b, Py_ssize_t step, void* out) noexcept nogil

# A copy of `count` numbers as what is computed with, less the offset where there is one for all.
ctypedef void (*widen_t)(Py_ssize_t count, const void* x, void* out, const offset_t* offset) noexcept nogil

# A register-only loop of `rounds` times `accumulators` multiply-adds; returns their sum.
ctypedef double (*peak_t)(Py_ssize_t rounds) noexcept nogil

cdef struct kernels_t:
    int length          # real components in a vector
    int part
    int real_bytes      # of a component while it is computed with, in packed blocks too
    int ab_bytes        # of a component of A and B in memory
    int c_bytes         # of a component of C in memory
    int converts        # A and B cannot be read in place: both are packed
    int narrows         # C is not of the type that is computed with: every tile goes through `update`, once
    int group           # elements of k in a packed component (dot products), and so in a step of a microkernel
    int chunk           # steps of k that packed blocks have a multiple of, filled up with zeros, ...
    int chunk_k         # ... and the elements of k in them: `group` a step, or less of numbers that are cut into limbs
    bint limbs          # those
    int appended        # steps that packing appends to a block
    enter_t enter       # before microkernels of a number of rows run; NULL: nothing
    leave_t leave       # and after the last
    flush_t flush       # a tile may wait (`later_t`)
    int rounds          # microkernels can write C as it is stored; 2: by the terms of a quantised product
    int in_place        # an A with adjacent columns can be read as it lies
    int slim_bytes      # of a packed component where B's panels hold numbers as they lie in memory (0: they never do)
    int peak_flops      # operations in one round of `peak`
    micro_t micro[MAX_ROWS + 1][MAX_VECTORS + 1]
    micro_t turned[MAX_ROWS + 1][MAX_VECTORS + 1]   # of an A in place whose bytes' signs they turn (`store_t.flip`)
    int written_steps   # of k that kernels take row by row: they need one more
    micro_t written[2][MAX_ROWS + 1][MAX_VECTORS + 1]   # for a C that is only written; of an A that is `turned`: 1
    micro_t slim[MAX_ROWS + 1][MAX_VECTORS + 1]     # by such panels, made by `pack_slim`
    micro_t deep[MAX_DEEP + 1]  # of one vector, for a C that is no more; NULL: none
    pack_a_t pack_a
    pack_b_t pack_b
    pack_side_t pack_side
    pack_b_t pack_slim
    update_t update
    update_t add          # the same to a C of the type that is computed with
    peak_t peak
    gemv_t gemv_rows      # B's columns adjacent: its rows are added up
    gemv_t gemv_narrow    # the same for an output of at most one vector
    gemv_t gemv_columns   # B's rows adjacent: one dot product a column (k up to GEMV_CHUNK where x is converted)
    dots_t dots[MAX_DOTS + 1]
    int dot_columns       # that a kernel takes at a time: a multiple for each of them
    int dot_bytes         # of a component of A and B as they take it
    dot_sums_t dot_sums   # of bytes; NULL: no corrections
    dot_settle_t dot_settle
    # So many rows by columns of so many numbers, which lie `rs_b` apart; NULL: there is none for so many, nor for
    # columns so far apart.
    stack_kernel_t short_columns[MAX_DOTS + 1][MAX_SHORT]
    strip_t strips[MAX_STRIP + 1]
    stack_kernel_t small[MAX_ROWS + 1][MAX_VECTORS + 1]     # C is a tile of as many rows and vectors
    stack_kernel_t brief[MAX_BRIEF]     # index: steps of k, of which all rows of C are written whole; NULL: not so few
    turn_t turn                 # real types only
    turn_stack_t turn_stack
    int turn_stack_bytes        # of a matrix, up to which it is worth it
    # Of a type that is converted to 4 bytes: how, and the kernels of what it becomes; else NULL.
    widen_t widen
    const kernels_t* plain
    stack_kernel_t whole        # rows of A, B and C are one vector, A's adjacent, a multiple of whole_rows of them
    int whole_rows
    int alone                   # rows by steps up to which they are better off in vectors of their own
    # C's rows are at most half a vector wide and share vectors.  Index: components of a row; NULL: not narrow enough.
    # A by rows (its columns adjacent), and by columns.
    stack_kernel_t narrow[MAX_NARROW]
    stack_kernel_t narrow_columns[MAX_NARROW]
