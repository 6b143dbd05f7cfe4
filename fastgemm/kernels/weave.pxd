"""Numbers of k side by side in 32 bits, as dot products read them: 4 bytes (``1``) or 2 halves (``2``) in a lane.

``woven`` takes the numbers from rows of a matrix whose columns are adjacent (a number of each of 4 or 2 rows).
``bytes`` and ``pairs`` weave whole vectors of rows, which takes a quarter of the loads and leaves the columns in an
order of their own (``columns_in_order``).
``turned`` copies a square of words from columns whose numbers lie together (``turned_words``), or rows that lie as
columns do (``turned_rows``).  ``some`` and ``part`` read live numbers alone
and give 0 for the others.  Every byte is xored with one of `flip`, which is how its sign changes.
"""

from fastgemm.kernels.numbers cimport vi16, vi32
from fastgemm.kernels.transpose cimport transpose_4  # its C comes first

cdef extern from *:
    """
    #ifndef FASTGEMM_WEAVE
    #define FASTGEMM_WEAVE
    enum { FG_WORDS = FASTGEMM_VECTOR_BYTES / 4 };
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512BW__) && defined(__AVX512VL__)
    /* Rows in the four quarters of a vector; words of one column to one quarter; then bytes inside the quarters. */
    #define FG_WOVEN_1(A, B, C, D) \\
        __m512i v = _mm512_castsi128_si512(A); \\
        v = _mm512_inserti32x4(v, B, 1); \\
        v = _mm512_inserti32x4(v, C, 2); \\
        v = _mm512_inserti32x4(v, D, 3); \\
        const __m512i words = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15); \\
        const __m128i bytes = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15); \\
        return (vi32)_mm512_shuffle_epi8(_mm512_permutexvar_epi32(words, v), _mm512_broadcast_i32x4(bytes));
    static inline vi32 woven_1(const unsigned char *b, Py_ssize_t rs) {
        FG_WOVEN_1(_mm_loadu_si128((const __m128i *)b), _mm_loadu_si128((const __m128i *)(b + rs)),
                   _mm_loadu_si128((const __m128i *)(b + 2 * rs)), _mm_loadu_si128((const __m128i *)(b + 3 * rs)))
    }
    static inline vi32 woven_some_1(const unsigned char *b, Py_ssize_t rs, int rows, int columns) {
        const __mmask16 live = (__mmask16)(0xffffu >> (16 - columns));
        const __m128i none = _mm_setzero_si128();
        FG_WOVEN_1(_mm_maskz_loadu_epi8(live, b), rows > 1 ? _mm_maskz_loadu_epi8(live, b + rs) : none,
                   rows > 2 ? _mm_maskz_loadu_epi8(live, b + 2 * rs) : none,
                   rows > 3 ? _mm_maskz_loadu_epi8(live, b + 3 * rs) : none)
    }
    #define FG_WOVEN_2(A, B) \\
        const __m512i order = _mm512_set_epi16( \\
            31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, \\
            17, 1, 16, 0); \\
        return (vi32)_mm512_permutexvar_epi16(order, _mm512_inserti64x4(_mm512_castsi256_si512(A), B, 1));
    static inline vi32 woven_2(const unsigned short *b, Py_ssize_t rs) {
        FG_WOVEN_2(_mm256_loadu_si256((const __m256i *)b), _mm256_loadu_si256((const __m256i *)(b + rs)))
    }
    static inline vi32 woven_some_2(const unsigned short *b, Py_ssize_t rs, int rows, int columns) {
        const __mmask16 live = (__mmask16)(0xffffu >> (16 - columns));
        FG_WOVEN_2(_mm256_maskz_loadu_epi16(live, b),
                   rows > 1 ? _mm256_maskz_loadu_epi16(live, b + rs) : _mm256_setzero_si256())
    }
    static inline vi32 bytes_part(const void *p, Py_ssize_t n) {
        return (vi32)_mm512_maskz_loadu_epi8(n >= 64 ? ~0ull : n <= 0 ? 0 : ~0ull >> (64 - n), p);
    }
    #else
    static inline vi32 bytes_part(const void *p, Py_ssize_t n) {
        vi32 v = {0};
        if (n >= (Py_ssize_t)sizeof v) memcpy(&v, p, sizeof v); else if (n > 0) memcpy(&v, p, n);
        return v;
    }
    #if FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
    static inline vi32 woven_1(const unsigned char *b, Py_ssize_t rs) {
        const __m128i low = _mm_unpacklo_epi32(_mm_loadl_epi64((const __m128i *)b),
                                               _mm_loadl_epi64((const __m128i *)(b + rs)));
        const __m128i high = _mm_unpacklo_epi32(_mm_loadl_epi64((const __m128i *)(b + 2 * rs)),
                                                _mm_loadl_epi64((const __m128i *)(b + 3 * rs)));
        const __m256i v = _mm256_setr_m128i(_mm_unpacklo_epi64(low, high), _mm_unpackhi_epi64(low, high));
        const __m128i bytes = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        return (vi32)_mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(bytes));
    }
    #else
    static inline vi32 woven_1(const unsigned char *b, Py_ssize_t rs) {
        vi32 v;
        unsigned char *word = (unsigned char *)&v;
        for (int j = 0; j < FG_WORDS; j++)
            for (int r = 0; r < 4; r++) word[4 * j + r] = b[r * rs + j];
        return v;
    }
    #endif
    static inline vi32 woven_2(const unsigned short *b, Py_ssize_t rs) {
        vi32 v;
        unsigned short *word = (unsigned short *)&v;
        for (int j = 0; j < FG_WORDS; j++) word[2 * j] = b[j], word[2 * j + 1] = b[rs + j];
        return v;
    }
    #define FG_WOVEN_SOME(G, T) \\
    static inline vi32 woven_some_##G(const T *b, Py_ssize_t rs, int rows, int columns) { \\
        T some[4 / sizeof(T)][FG_WORDS] = {{0}}; \\
        for (int r = 0; r < rows; r++) memcpy(some[r], b + r * rs, columns * sizeof(T)); \\
        return woven_##G(some[0], FG_WORDS); \\
    }
    FG_WOVEN_SOME(1, unsigned char)
    FG_WOVEN_SOME(2, unsigned short)
    #endif

    /* A square of words in registers: rows become columns.  (w is room.) */
    #define FG_TURN_WORDS(v, w) \
        _Pragma("GCC unroll 4") \
        for (int n = FG_WORDS; n > 1; n /= 2) { \
            _Pragma("GCC unroll 8") \
            for (int i = 0; i < FG_WORDS / 2; i++) { \
                w[2 * i] = FG_32(FG_LOW)(turned_4, v[i], v[i + FG_WORDS / 2]); \
                w[2 * i + 1] = FG_32(FG_HIGH)(turned_4, v[i], v[i + FG_WORDS / 2]); \
            } \
            _Pragma("GCC unroll 16") \
            for (int i = 0; i < FG_WORDS; i++) v[i] = w[i]; \
        }
    /* The words of `columns` columns, `from` bytes apart and `bytes` long, turned into `steps` rows
       `to` bytes apart.  Only live bytes are flipped, so that what fills up a word stays 0. */
    static inline void turned_words(const void *b, Py_ssize_t from, int columns, Py_ssize_t bytes, void *out,
                                    Py_ssize_t to, int steps, unsigned flip) {
        turned_4 v[FG_WORDS], w[FG_WORDS];
        if (columns == FG_WORDS && bytes >= FASTGEMM_VECTOR_BYTES) {
            _Pragma("GCC unroll 16")
            for (int i = 0; i < FG_WORDS; i++) v[i] = *(const turned_4 *)((const char *)b + i * from) ^ flip;
        } else {
            const vi32 every = ZERO_i32 + 0xffffffffu;
            const vi32 some = bytes_part(&every, bytes) & flip;
            _Pragma("GCC unroll 16")
            for (int i = 0; i < FG_WORDS; i++) {
                v[i] = (turned_4)ZERO_i32;
                if (i < columns) v[i] = (turned_4)(bytes_part((const char *)b + i * from, bytes) ^ some);
            }
        }
        FG_TURN_WORDS(v, w)
        if (steps == FG_WORDS) {
            _Pragma("GCC unroll 16")
            for (int i = 0; i < FG_WORDS; i++) *(turned_4 *)((char *)out + i * to) = v[i];
        } else {
            _Pragma("GCC unroll 16")
            for (int i = 0; i < FG_WORDS; i++) if (i < steps) *(turned_4 *)((char *)out + i * to) = v[i];
        }
    }

    /* The line of each of FG_WORDS columns at `b`, into L2. */
    static inline void fetch_words(const void *b, Py_ssize_t from) {
        for (int i = 0; i < FG_WORDS; i++) __builtin_prefetch((const char *)b + i * from, 0, 2);
    }

    /* A vector of k for each of FG_WORDS rows whose numbers of one k are adjacent, `cs` from one k to the next. */
    #define FG_TURNED_ROWS(G, T) \
    static inline void turned_rows_##G(const T *a, Py_ssize_t cs, void *out, Py_ssize_t to, unsigned flip) { \
        turned_4 v[FG_WORDS], w[FG_WORDS]; \
        _Pragma("GCC unroll 16") \
        for (int i = 0; i < FG_WORDS; i++) v[i] = (turned_4)woven_##G(a + 4 / sizeof(T) * i * cs, cs) ^ flip; \
        FG_TURN_WORDS(v, w) \
        _Pragma("GCC unroll 16") \
        for (int i = 0; i < FG_WORDS; i++) *(turned_4 *)((char *)out + i * to) = v[i]; \
    }
    FG_TURNED_ROWS(1, unsigned char)
    FG_TURNED_ROWS(2, unsigned short)
    /* The same of fewer rows, or fewer numbers of k: what fills up the last word is 0. */
    #define FG_TURNED_SOME(G, T) \
    static inline void turned_rows_some_##G(const T *a, Py_ssize_t cs, int rows, Py_ssize_t k, unsigned *out, \
                                            Py_ssize_t to, unsigned flip) { \
        enum { GROUP = 4 / sizeof(T) }; \
        const int words = k < FG_WORDS * GROUP ? (int)((k + GROUP - 1) / GROUP) : FG_WORDS; \
        turned_4 v[FG_WORDS], w[FG_WORDS]; \
        for (int i = 0; i < FG_WORDS; i++) { \
            const int live = i >= words ? 0 : k - GROUP * i < GROUP ? (int)(k - GROUP * i) : GROUP; \
            v[i] = (turned_4)ZERO_i32; \
            if (live == GROUP) v[i] = (turned_4)woven_some_##G(a + GROUP * i * cs, cs, live, rows) ^ flip; \
            else if (live) \
                v[i] = (turned_4)woven_some_##G(a + GROUP * i * cs, cs, live, rows) ^ \
                       (flip & 0xffffffffu >> (32 - 8 * (int)sizeof(T) * live)); \
        } \
        FG_TURN_WORDS(v, w) \
        _Pragma("GCC unroll 16") \
        for (int i = 0; i < FG_WORDS; i++) \
            if (i < rows) store_part_i32((unsigned *)((char *)out + i * to), (vi32)v[i], words); \
    }
    FG_TURNED_SOME(1, unsigned char)
    FG_TURNED_SOME(2, unsigned short)

    /* Two rows of 16-bit numbers in pairs, inside each 16 bytes; and 32-bit sums of such pairs in their own order. */
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512BW__)
    static inline vi32 pairs_low(vi16 x, vi16 y) { return (vi32)_mm512_unpacklo_epi16((__m512i)x, (__m512i)y); }
    static inline vi32 pairs_high(vi16 x, vi16 y) { return (vi32)_mm512_unpackhi_epi16((__m512i)x, (__m512i)y); }
    static inline vi32 bytes_low(vi32 x, vi32 y) { return (vi32)_mm512_unpacklo_epi8((__m512i)x, (__m512i)y); }
    static inline vi32 bytes_high(vi32 x, vi32 y) { return (vi32)_mm512_unpackhi_epi8((__m512i)x, (__m512i)y); }
    #define FG_BACK_0 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23
    #define FG_BACK_1 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31
    #elif FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
    static inline vi32 pairs_low(vi16 x, vi16 y) { return (vi32)_mm256_unpacklo_epi16((__m256i)x, (__m256i)y); }
    static inline vi32 pairs_high(vi16 x, vi16 y) { return (vi32)_mm256_unpackhi_epi16((__m256i)x, (__m256i)y); }
    static inline vi32 bytes_low(vi32 x, vi32 y) { return (vi32)_mm256_unpacklo_epi8((__m256i)x, (__m256i)y); }
    static inline vi32 bytes_high(vi32 x, vi32 y) { return (vi32)_mm256_unpackhi_epi8((__m256i)x, (__m256i)y); }
    #define FG_BACK_0 0, 1, 2, 3, 8, 9, 10, 11
    #define FG_BACK_1 4, 5, 6, 7, 12, 13, 14, 15
    #elif FASTGEMM_VECTOR_BYTES == 16
    static inline vi32 pairs_low(vi16 x, vi16 y) { return (vi32)_mm_unpacklo_epi16((__m128i)x, (__m128i)y); }
    static inline vi32 pairs_high(vi16 x, vi16 y) { return (vi32)_mm_unpackhi_epi16((__m128i)x, (__m128i)y); }
    #define FG_BACK_0 0, 1, 2, 3
    #define FG_BACK_1 4, 5, 6, 7
    #endif
    static inline vi32 order_back_0(vi32 low, vi32 high) {
        return (vi32)FG_SHUFFLE(turned_4, (turned_4)low, (turned_4)high, FG_BACK_0);
    }
    static inline vi32 order_back_1(vi32 low, vi32 high) {
        return (vi32)FG_SHUFFLE(turned_4, (turned_4)low, (turned_4)high, FG_BACK_1);
    }

    /* Words woven inside each 16 bytes of `wide` vectors, put into the order of their columns: n words, whole groups */
    static inline void columns_in_order(unsigned *x, Py_ssize_t n, int wide) {
        char group[4][FASTGEMM_VECTOR_BYTES];
        for (; n > 0; n -= wide * FG_WORDS) {
            memcpy(group, x, wide * FASTGEMM_VECTOR_BYTES);
            for (int at = 0; at < FASTGEMM_VECTOR_BYTES; at += 16)
                for (int i = 0; i < wide; i++, x += 4) memcpy(x, group[i] + at, 16);
        }
    }

    static inline unsigned word_at(const void *p) { unsigned word; memcpy(&word, p, 4); return word; }
    /* The first n bytes of a word, the others 0. */
    static inline unsigned word_part(const void *p, Py_ssize_t n) {
        const unsigned char *byte = (const unsigned char *)p;
        unsigned short pair;
        if (n >= 4) return word_at(p);
        if (n < 2) return n > 0 ? byte[0] : 0;
        memcpy(&pair, p, 2);
        return n == 2 ? pair : pair | (unsigned)byte[2] << 16;
    }
    #endif
    """
    vi32 woven_1(const unsigned char*, Py_ssize_t) nogil
    vi32 woven_2(const unsigned short*, Py_ssize_t) nogil
    vi32 woven_some_1(const unsigned char*, Py_ssize_t, int rows, int columns) nogil
    vi32 woven_some_2(const unsigned short*, Py_ssize_t, int rows, int columns) nogil
    vi32 bytes_part(const void*, Py_ssize_t) nogil
    void turned_rows_1(const unsigned char*, Py_ssize_t, void*, Py_ssize_t, unsigned int) nogil
    void turned_rows_2(const unsigned short*, Py_ssize_t, void*, Py_ssize_t, unsigned int) nogil
    void turned_rows_some_1(const unsigned char*, Py_ssize_t, int rows, Py_ssize_t k, unsigned int*, Py_ssize_t,
                            unsigned int) nogil
    void turned_rows_some_2(const unsigned short*, Py_ssize_t, int rows, Py_ssize_t k, unsigned int*, Py_ssize_t,
                            unsigned int) nogil
    void fetch_words(const void*, Py_ssize_t) nogil
    void turned_words(const void*, Py_ssize_t, int, Py_ssize_t, void*, Py_ssize_t, int, unsigned int) nogil
    vi32 pairs_low(vi16, vi16) nogil
    vi32 pairs_high(vi16, vi16) nogil
    vi32 bytes_low(vi32, vi32) nogil
    vi32 bytes_high(vi32, vi32) nogil
    void columns_in_order(unsigned int*, Py_ssize_t n, int wide) nogil
    vi32 order_back_0(vi32 low, vi32 high) nogil
    vi32 order_back_1(vi32 low, vi32 high) nogil
    unsigned int word_at(const void*) nogil
    unsigned int word_part(const void*, Py_ssize_t) nogil
