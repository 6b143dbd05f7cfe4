"""Tile registers: eight of up to 16 rows by 64 bytes, which the CPU multiplies by each other.

0 to 3 are sums, of 16 columns each: one by up to four, or two by two with the rows above 16 in the lower two; 4 and 5
hold rows of A, 6 and 7 what packing has made of 16 steps of B.  A product takes 16 cycles (8 where A has at most 8
rows), a load of a register that begins a line 8, and the shapes of all of them some 200 to change (Emerald Rapids, ns:
5.6, 2.9, 68; `tiles_leave` 5), so the driver changes them where the number of rows does, and not for each microkernel.

The intrinsics tell the compiler nothing of the memory that they read: what the same function has written is loaded
after `written`.
"""

cimport fastgemm.kernels.tiles_in_c

cdef extern from *:
    """
    #ifndef FASTGEMM_AMX
    #define FASTGEMM_AMX
    #include <immintrin.h>
    #ifndef FASTGEMM_TILES_IN_C
    #define fg_tile_loadconfig _tile_loadconfig
    #define fg_tile_release _tile_release
    #define fg_tile_zero _tile_zero
    #define fg_tile_loadd _tile_loadd
    #define fg_tile_stored _tile_stored
    #define fg_tile_dpbusd _tile_dpbusd
    #define fg_tile_dpbssd _tile_dpbssd
    #define fg_tile_dpbf16ps _tile_dpbf16ps
    #endif
    enum { FG_TILE_ROWS = 16, FG_TILE_BYTES = 64, FG_TILES = 8 };
    typedef struct {
        unsigned char palette, start, zeros[14];
        unsigned short bytes[16];
        unsigned char rows[16];
    } __attribute__((aligned(64))) fg_shapes;
    static fg_shapes FG_SHAPES[2 * FG_TILE_ROWS + 1];
    __attribute__((constructor)) static void fg_shapes_fill(void) {
        for (int rows = 1; rows <= 2 * FG_TILE_ROWS; rows++) {
            fg_shapes *s = &FG_SHAPES[rows];
            const int upper = rows < FG_TILE_ROWS ? rows : FG_TILE_ROWS;
            const int lower = rows > FG_TILE_ROWS ? rows - FG_TILE_ROWS : rows;
            const int own[FG_TILES] = {upper, upper, lower, lower, upper, lower, FG_TILE_ROWS, FG_TILE_ROWS};
            s->palette = 1;
            for (int i = 0; i < FG_TILES; i++) {
                s->bytes[i] = FG_TILE_BYTES;
                s->rows[i] = (unsigned char)own[i];
            }
        }
    }
    static void fg_tiles_enter(int rows) {
        __asm__ volatile("" :: "m"(FG_SHAPES[rows]));      /* all of it is read, of which the intrinsic says 8 bytes */
        fg_tile_loadconfig(&FG_SHAPES[rows]);
    }
    static void fg_tiles_leave(void) { fg_tile_release(); }
    static inline void fg_written(void) { __asm__ volatile("" ::: "memory"); }
    #endif
    """
    void tiles_enter "fg_tiles_enter"(int rows) noexcept nogil
    void tiles_leave "fg_tiles_leave"() noexcept nogil
    void written "fg_written"() nogil
    # The numbers of registers are part of the instructions: literals.
    void tile_zero "fg_tile_zero"(int) nogil
    void tile_load "fg_tile_loadd"(int, const void*, Py_ssize_t step) nogil
    void tile_store "fg_tile_stored"(int, void*, Py_ssize_t step) nogil
    void tile_dots_vnni "fg_tile_dpbusd"(int sums, int a, int b) nogil
    void tile_dots_signed "fg_tile_dpbssd"(int sums, int a, int b) nogil
    void tile_dots_bf16 "fg_tile_dpbf16ps"(int sums, int a, int b) nogil
