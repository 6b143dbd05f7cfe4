"""Small matrices of a stack turned over: k x n numbers whose columns lie one after the other, as rows without gaps.

Which number goes where is the same for each of them, so it is written down once, as the operand of an instruction that
puts lanes of vectors into any order.  AVX-512 has them for lanes of 2, 4 and 8 bytes, of two vectors at a time.  Where
all that moves freely is bytes inside of 16, every 16 of a matrix give what they have, and that is joined.  Matrices
that fill no vector are turned several at a time where nothing lies between them.

Numbers of 16 bytes, and of 8 without AVX-512, are copied one by one, and everything without SSSE3.

``turn_stack_S``, of numbers of S bytes, takes matrices of up to ``TURN_STACK_S`` bytes, beyond which it is not worth
it.  It stores whole vectors: out has room for one more.
"""

cdef extern from *:
    """
    #ifndef FASTGEMM_TURNED_STACK
    #define FASTGEMM_TURNED_STACK
    #include <string.h>
    #if defined(__SSSE3__)
    #include <immintrin.h>
    #endif

    #define FG_STACK_TAKES Py_ssize_t items, Py_ssize_t k, Py_ssize_t n, const char *b, Py_ssize_t step, char *out

    /* Which `number` of `count` matrices stands at each `place` of their copies. */
    #define FG_STACK_ORDER(DO) do { \\
        Py_ssize_t place = 0, item, p, j; \\
        for (item = 0; item < count; item++) \\
            for (p = 0; p < k; p++) \\
                for (j = 0; j < n; j++, place++) { \\
                    const Py_ssize_t number = (item * n + j) * k + p; \\
                    DO; \\
                } \\
        } while (0)

    /* Blocks of `count` matrices, `from` which `taken` bytes are read at a time: of B's last ones from a copy. */
    #define FG_STACK_BLOCKS(MOST, DO) do { \\
        const Py_ssize_t total = (items - 1) * step + each; \\
        char ended[MOST] = {0}; \\
        for (Py_ssize_t item = 0; item < items; item += count, out += count * each) { \\
            const char *from = b + item * step; \\
            if (step < 0 || item * step + taken > total) { \\
                memcpy(ended, from, (items - item < count ? items - item : count) * each); \\
                from = ended; \\
            } \\
            DO; \\
        } } while (0)

    typedef unsigned long long fg_stack_16 __attribute__((vector_size(16)));
    #define FG_STACK_ONE_BY_ONE(S, T) \\
    static inline __attribute__((always_inline)) void fg_turn_rows_##S(FG_STACK_TAKES) { \\
        typedef T number __attribute__((aligned(1), may_alias)); \\
        number *to = (number *)out; \\
        for (; items > 0; items--, b += step) \\
            for (Py_ssize_t p = 0; p < k; p++) { \\
                _Pragma("GCC unroll 8") \\
                for (Py_ssize_t j = 0; j < n; j++) *to++ = ((const number *)b)[j * k + p]; \\
            } \\
    } \\
    /* (Loops whose length is not known take twice as long, zen4.) */ \\
    static inline void fg_turn_copies_##S(FG_STACK_TAKES) { \\
        switch (n) { \\
            case 2: fg_turn_rows_##S(items, k, 2, b, step, out); break; \\
            case 3: fg_turn_rows_##S(items, k, 3, b, step, out); break; \\
            case 4: fg_turn_rows_##S(items, k, 4, b, step, out); break; \\
            case 5: fg_turn_rows_##S(items, k, 5, b, step, out); break; \\
            case 6: fg_turn_rows_##S(items, k, 6, b, step, out); break; \\
            case 8: fg_turn_rows_##S(items, k, 8, b, step, out); break; \\
            default: fg_turn_rows_##S(items, k, n, b, step, out); \\
        } \\
    }
    FG_STACK_ONE_BY_ONE(1, unsigned char)
    FG_STACK_ONE_BY_ONE(2, unsigned short)
    FG_STACK_ONE_BY_ONE(4, unsigned)
    FG_STACK_ONE_BY_ONE(8, unsigned long long)
    FG_STACK_ONE_BY_ONE(16, fg_stack_16)
    /* What is turned in vectors, up to so many bytes, if anything is; other matrices up to `most` are copied. */
    #define FG_STACK(S, VECTORS, TURNED, MOST) \\
    enum { TURN_STACK_##S = MOST }; \\
    static inline void turn_stack_##S(Py_ssize_t items, Py_ssize_t k, Py_ssize_t n, const void *b, Py_ssize_t step, \\
                                      void *out) { \\
        if (VECTORS && k * n * S <= VECTORS) TURNED##_##S(items, k, n, (const char *)b, step, (char *)out); \\
        else fg_turn_copies_##S(items, k, n, (const char *)b, step, (char *)out); \\
    }

    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512BW__)
    /* Lanes of S bytes; beyond those of two vectors, of two others. */
    #define FG_STACK_LANES(S, T, BITS, MASK) \\
    static inline __attribute__((always_inline)) void fg_turn_some_lanes_##S(const int vectors, FG_STACK_TAKES) { \\
        enum { N = 64 / S }; \\
        const Py_ssize_t each = k * n * S, count = step == each && each <= 64 ? 64 / each : 1, taken = vectors * 64; \\
        T lanes[4 * N] = {0}; \\
        __m512i order[4], v[4], w; \\
        MASK beyond[4]; \\
        FG_STACK_ORDER(lanes[place] = (T)number); \\
        for (int i = 0; i < vectors; i++) { \\
            order[i] = _mm512_loadu_si512(lanes + i * N); \\
            beyond[i] = _mm512_cmpge_epu##BITS##_mask(order[i], FG_STACK_SPLAT_##S(2 * N)); \\
        } \\
        FG_STACK_BLOCKS(256, \\
            _Pragma("GCC unroll 4") \\
            for (int i = 0; i < vectors; i++) v[i] = _mm512_loadu_si512(from + 64 * i); \\
            _Pragma("GCC unroll 4") \\
            for (int i = 0; i < vectors; i++) { \\
                w = vectors == 1 ? _mm512_permutexvar_epi##BITS(order[i], v[0]) \\
                                 : _mm512_permutex2var_epi##BITS(v[0], order[i], v[1]); \\
                if (vectors > 2) \\
                    w = _mm512_mask_mov_epi##BITS(w, beyond[i], \\
                        _mm512_permutex2var_epi##BITS(v[2], order[i], v[vectors - 1])); \\
                _mm512_storeu_si512(out + 64 * i, w); \\
            }); \\
    } \\
    static inline void fg_turn_lanes_##S(FG_STACK_TAKES) { \\
        switch ((k * n * S + 63) / 64) { \\
            case 1: fg_turn_some_lanes_##S(1, items, k, n, b, step, out); break; \\
            case 2: fg_turn_some_lanes_##S(2, items, k, n, b, step, out); break; \\
            case 3: fg_turn_some_lanes_##S(3, items, k, n, b, step, out); break; \\
            default: fg_turn_some_lanes_##S(4, items, k, n, b, step, out); \\
        } \\
    }
    #define FG_STACK_SPLAT_2 _mm512_set1_epi16
    #define FG_STACK_SPLAT_4 _mm512_set1_epi32
    #define FG_STACK_SPLAT_8 _mm512_set1_epi64
    FG_STACK_LANES(2, unsigned short, 16, __mmask32)
    FG_STACK_LANES(4, unsigned, 32, __mmask16)
    FG_STACK_LANES(8, unsigned long long, 64, __mmask8)
    #define FG_STACK_VECTOR __m512i
    #define FG_STACK_OP(op) _mm512_##op
    #define FG_STACK_WHOLE(op) _mm512_##op##_si512
    #define FG_STACK_EVERY(x) _mm512_broadcast_i32x4(x)
    #elif FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
    #define FG_STACK_VECTOR __m256i
    #define FG_STACK_OP(op) _mm256_##op
    #define FG_STACK_WHOLE(op) _mm256_##op##_si256
    #define FG_STACK_EVERY(x) _mm256_broadcastsi128_si256(x)
    #elif FASTGEMM_VECTOR_BYTES == 16 && defined(__SSSE3__)
    #define FG_STACK_VECTOR __m128i
    #define FG_STACK_OP(op) _mm_##op
    #define FG_STACK_WHOLE(op) _mm_##op##_si128
    #define FG_STACK_EVERY(x) (x)
    #endif
    #ifdef FG_STACK_VECTOR
    /* Up to 8 pieces of 16 bytes.  A byte that lies in another piece gets a place of which the highest bit is set, and
       is 0: the places of a piece are 0x70 to 0x7f, what is added to others saturates. */
    #define FG_STACK_PIECES(S) \\
    static inline void fg_turn_pieces_##S(FG_STACK_TAKES) { \\
        const Py_ssize_t each = k * n * S; \\
        const Py_ssize_t count = step == each && each <= FASTGEMM_VECTOR_BYTES ? FASTGEMM_VECTOR_BYTES / each : 1; \\
        const int pieces = (int)(count * each + 15) / 16; \\
        const int vectors = (int)(count * each + FASTGEMM_VECTOR_BYTES - 1) / FASTGEMM_VECTOR_BYTES; \\
        const Py_ssize_t taken = pieces * 16; \\
        unsigned char bytes[128 + FASTGEMM_VECTOR_BYTES] = {0}; \\
        FG_STACK_VECTOR order[128 / FASTGEMM_VECTOR_BYTES][8], w; \\
        FG_STACK_ORDER(for (int x = 0; x < S; x++) bytes[place * S + x] = (unsigned char)(number * S + x)); \\
        for (int i = 0; i < vectors; i++) \\
            for (int piece = 0; piece < pieces; piece++) { \\
                w = FG_STACK_WHOLE(loadu)((const void *)(bytes + i * FASTGEMM_VECTOR_BYTES)); \\
                w = FG_STACK_OP(sub_epi8)(w, FG_STACK_OP(set1_epi8)((char)(16 * piece))); \\
                order[i][piece] = FG_STACK_OP(adds_epu8)(w, FG_STACK_OP(set1_epi8)(0x70)); \\
            } \\
        FG_STACK_BLOCKS(128, \\
            for (int i = 0; i < vectors; i++) { \\
                w = FG_STACK_OP(shuffle_epi8)(FG_STACK_EVERY(_mm_loadu_si128((const __m128i *)from)), order[i][0]); \\
                for (int piece = 1; piece < pieces; piece++) \\
                    w = FG_STACK_WHOLE(or)(w, FG_STACK_OP(shuffle_epi8)( \\
                        FG_STACK_EVERY(_mm_loadu_si128((const __m128i *)from + piece)), order[i][piece])); \\
                FG_STACK_WHOLE(storeu)((void *)(out + i * FASTGEMM_VECTOR_BYTES), w); \\
            }); \\
    }
    FG_STACK_PIECES(1)
    FG_STACK(1, 128, fg_turn_pieces, 128)
    #ifdef FG_STACK_LANES
    FG_STACK(2, 256, fg_turn_lanes, 256)
    FG_STACK(4, 256, fg_turn_lanes, 288)
    FG_STACK(8, 256, fg_turn_lanes, 288)
    #else
    FG_STACK_PIECES(2)
    FG_STACK_PIECES(4)
    FG_STACK(2, 128, fg_turn_pieces, 128)
    FG_STACK(4, 64, fg_turn_pieces, 144)
    FG_STACK(8, 0, fg_turn_copies, 288)
    #endif
    #else
    FG_STACK(1, 0, fg_turn_copies, 64)
    FG_STACK(2, 0, fg_turn_copies, 64)
    FG_STACK(4, 0, fg_turn_copies, 144)
    FG_STACK(8, 0, fg_turn_copies, 288)
    #endif
    FG_STACK(16, 0, fg_turn_copies, 1024)
    #endif
    """
    enum:
        TURN_STACK_1
        TURN_STACK_2
        TURN_STACK_4
        TURN_STACK_8
        TURN_STACK_16
    void turn_stack_1(Py_ssize_t items, Py_ssize_t k, Py_ssize_t n, const void*, Py_ssize_t step, void*) noexcept nogil
    void turn_stack_2(Py_ssize_t items, Py_ssize_t k, Py_ssize_t n, const void*, Py_ssize_t step, void*) noexcept nogil
    void turn_stack_4(Py_ssize_t items, Py_ssize_t k, Py_ssize_t n, const void*, Py_ssize_t step, void*) noexcept nogil
    void turn_stack_8(Py_ssize_t items, Py_ssize_t k, Py_ssize_t n, const void*, Py_ssize_t step, void*) noexcept nogil
    void turn_stack_16(Py_ssize_t items, Py_ssize_t k, Py_ssize_t n, const void*, Py_ssize_t step, void*) noexcept nogil
