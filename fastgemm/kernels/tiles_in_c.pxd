"""Tile registers in C, for CPUs that have none: what tests run the families of amx.pxd with (tests/tiles_in_c.py).

Each function does what the instruction of its name does, denormals and roundings too (Intel's Software Developer's
Manual), a hundred times as slowly, and stops the process where the instruction would fault: registers that are not
configured, or whose shapes do not fit each other.
"""

cdef extern from *:
    """
    #if defined(FASTGEMM_TILES_IN_C) && !defined(FASTGEMM_TILES)
    #define FASTGEMM_TILES
    #include <immintrin.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #define FG_ASIDE __attribute__((noinline, unused)) static
    static __thread struct { int in_use; unsigned char rows[8]; __m512i row[8][16]; } FG_FILE;
    static void fg_tile_needs(int fine, const char *what) {
        if (fine) return;
        fprintf(stderr, "fastgemm: tile registers: %s\\n", what);
        abort();
    }
    FG_ASIDE void fg_tile_loadconfig(const void *shapes) {
        const unsigned char *s = (const unsigned char *)shapes;
        fg_tile_needs(s[0] == 1 && s[1] == 0, "a palette that there is not");
        for (int t = 0; t < 8; t++) {
            fg_tile_needs(s[16 + 2 * t] == 64 && s[17 + 2 * t] == 0, "rows of other than 64 bytes");
            fg_tile_needs(s[48 + t] >= 1 && s[48 + t] <= 16, "no rows, or more than 16");
            FG_FILE.rows[t] = s[48 + t];
        }
        memset(FG_FILE.row, 0, sizeof(FG_FILE.row));
        FG_FILE.in_use = 1;
    }
    FG_ASIDE void fg_tile_release(void) { FG_FILE.in_use = 0; }
    FG_ASIDE void fg_tile_zero(int t) {
        fg_tile_needs(FG_FILE.in_use, "not configured");
        memset(FG_FILE.row[t], 0, sizeof(FG_FILE.row[t]));
    }
    FG_ASIDE void fg_tile_loadd(int t, const void *from, Py_ssize_t step) {
        fg_tile_zero(t);
        for (int i = 0; i < FG_FILE.rows[t]; i++)
            FG_FILE.row[t][i] = _mm512_loadu_si512((const char *)from + i * step);
    }
    FG_ASIDE void fg_tile_stored(int t, void *to, Py_ssize_t step) {
        fg_tile_needs(FG_FILE.in_use, "not configured");
        for (int i = 0; i < FG_FILE.rows[t]; i++)
            _mm512_storeu_si512((char *)to + i * step, FG_FILE.row[t][i]);
    }
    static void fg_tile_fit(int sums, int a, int b) {
        fg_tile_needs(FG_FILE.in_use, "not configured");
        fg_tile_needs(sums != a && sums != b && a != b, "one register twice in a product");
        fg_tile_needs(FG_FILE.rows[sums] == FG_FILE.rows[a] && FG_FILE.rows[b] == 16, "shapes that do not fit");
    }
    static inline __m512i fg_tile_lane(int t, int i, int p) {
        int lane;
        memcpy(&lane, (const char *)&FG_FILE.row[t][i] + 4 * p, 4);
        return _mm512_set1_epi32(lane);
    }
    /* Odd and even numbers of rows have sums of their own; subnormal numbers are zeros, and no flag is raised. */
    FG_ASIDE void fg_tile_add_bf16(int sums, int a, int b) {
        const __m512i upper = _mm512_set1_epi32((int)0xffff0000u);
        for (int i = 0; i < FG_FILE.rows[a]; i++) {
            __m512 even = _mm512_setzero_ps(), odd = even;
            for (int p = 0; p < 16; p++) {
                const __m512i x = fg_tile_lane(a, i, p), y = FG_FILE.row[b][p];
                even = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(x, 16)),
                                       _mm512_castsi512_ps(_mm512_slli_epi32(y, 16)), even);
                odd = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(x, upper)),
                                      _mm512_castsi512_ps(_mm512_and_si512(y, upper)), odd);
            }
            const __m512 sum = _mm512_add_ps(_mm512_castsi512_ps(FG_FILE.row[sums][i]), _mm512_add_ps(even, odd));
            FG_FILE.row[sums][i] = _mm512_castps_si512(sum);
        }
    }
    FG_ASIDE void fg_tile_dpbf16ps(int sums, int a, int b) {
        const unsigned state = _mm_getcsr();
        fg_tile_fit(sums, a, b);
        _mm_setcsr(0x9fc0);
        fg_tile_add_bf16(sums, a, b);
        _mm_setcsr(state);
    }
    /* Bytes of A, without a sign, by bytes of B with one. */
    FG_ASIDE __attribute__((target("avx512vnni"))) void fg_tile_dpbusd(int sums, int a, int b) {
        fg_tile_fit(sums, a, b);
        for (int i = 0; i < FG_FILE.rows[a]; i++)
            for (int p = 0; p < 16; p++)
                FG_FILE.row[sums][i] = _mm512_dpbusd_epi32(
                    FG_FILE.row[sums][i], fg_tile_lane(a, i, p), FG_FILE.row[b][p]);
    }
    /* Both with a sign: 128 more of A's each, less 128 times B's. */
    FG_ASIDE __attribute__((target("avx512vnni"))) void fg_tile_dpbssd(int sums, int a, int b) {
        const __m512i more = _mm512_set1_epi8((char)0x80);
        fg_tile_fit(sums, a, b);
        for (int i = 0; i < FG_FILE.rows[a]; i++)
            for (int p = 0; p < 16; p++) {
                const __m512i x = _mm512_xor_si512(fg_tile_lane(a, i, p), more), y = FG_FILE.row[b][p];
                const __m512i less = _mm512_dpbusd_epi32(_mm512_setzero_si512(), more, y);
                FG_FILE.row[sums][i] = _mm512_sub_epi32(_mm512_dpbusd_epi32(FG_FILE.row[sums][i], x, y), less);
            }
    }
    #endif
    """
