"""Float32 as three limbs: a number is the sum of three of bfloat16, of eight bits each, which tile registers multiply.

The first is the number rounded to bfloat16, the second what that leaves, rounded, the third the rest, which is exact.
Of the nine products of two numbers' limbs the six largest are added up; the others are together at most 2^-24 of the
whole, as the error of one multiply-add is (Henry, Tang and Heinecke 2019, https://arxiv.org/abs/1904.06376).

A chunk is 32 steps of k.  Steps p and p + 16 of it share a lane, so that neither operand needs a shuffle, and a limb of
a chunk is a line of a row of A, or of a column of B 16 rows of the panel.
The instructions take subnormal numbers for zero and raise no flags, and an infinity has no rest.  So packing notes the
least and the greatest magnitude that it sees (`spread_t`), and the driver computes by multiply-adds what is beyond
(driver/spread.pxd).
"""

cdef extern from *:
    """
    #ifndef FASTGEMM_LIMBS
    #define FASTGEMM_LIMBS
    #include <immintrin.h>
    typedef struct { __m512i least, most; } fg_seen;
    static inline fg_seen fg_seen_nothing(void) {
        fg_seen s = {_mm512_set1_epi32(-1), _mm512_setzero_si512()};
        return s;
    }
    /* A zero is no magnitude: less one it is the greatest of all. */
    static inline void fg_saw(fg_seen *s, __m512 x) {
        const __m512i size = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
        s->most = _mm512_max_epu32(s->most, size);
        s->least = _mm512_min_epu32(s->least, _mm512_sub_epi32(size, _mm512_set1_epi32(1)));
    }
    /* An operand's spread by what was seen; several threads may. */
    static inline void fg_widen(const fg_seen *s, unsigned int *least, unsigned int *most) {
        const unsigned int low = _mm512_reduce_min_epu32(s->least), high = _mm512_reduce_max_epu32(s->most);
        enum { ANY = __ATOMIC_RELAXED };
        unsigned int known = __atomic_load_n(least, ANY);
        while (low < known && !__atomic_compare_exchange_n(least, &known, low, 1, ANY, ANY)) {}
        known = __atomic_load_n(most, ANY);
        while (high > known && !__atomic_compare_exchange_n(most, &known, high, 1, ANY, ANY)) {}
    }
    /* Each limb in the upper half of its lane; the lower one is zero. */
    static inline void fg_cut(__m512 x, __m512i limb[3]) {
        const __m512i half = _mm512_set1_epi32(0x8000), upper = _mm512_set1_epi32((int)0xffff0000u);
        limb[0] = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x), half), upper);
        const __m512 rest = _mm512_sub_ps(x, _mm512_castsi512_ps(limb[0]));
        limb[1] = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(rest), half), upper);
        limb[2] = _mm512_castps_si512(_mm512_sub_ps(rest, _mm512_castsi512_ps(limb[1])));
    }
    /* Two vectors that share lanes; `step` bytes from a limb to the next. */
    static inline void fg_cut_two(__m512 x, __m512 y, char *out, Py_ssize_t step, fg_seen *s) {
        __m512i low[3], high[3];
        fg_saw(s, x);
        fg_saw(s, y);
        fg_cut(x, low);
        fg_cut(y, high);
        for (int i = 0; i < 3; i++)
            _mm512_store_si512((void *)(out + i * step), _mm512_or_si512(_mm512_srli_epi32(low[i], 16), high[i]));
    }
    /* `n` numbers, none below zero. */
    static inline __m512 fg_some(const float *x, Py_ssize_t n) {
        return n >= 16 ? _mm512_loadu_ps(x) : n <= 0 ? _mm512_setzero_ps()
            : _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1u), x);
    }
    /* A row's chunk of so many steps. */
    static inline void fg_cut_row(const float *x, Py_ssize_t steps, char *out, fg_seen *s) {
        fg_cut_two(fg_some(x, steps), fg_some(x + 16, steps - 16), out, 64, s);
    }
    /* So many columns of two rows; of the second none where it is not there. */
    static inline void fg_cut_rows(const float *x, const float *y, Py_ssize_t n, int both, char *out, Py_ssize_t step,
                                   fg_seen *s) {
        fg_cut_two(fg_some(x, n), both ? fg_some(y, n) : _mm512_setzero_ps(), out, step, s);
    }
    static inline void fg_cut_nothing(char *out, Py_ssize_t step) {
        for (int i = 0; i < 3; i++) _mm512_store_si512((void *)(out + i * step), _mm512_setzero_si512());
    }
    #endif
    """
    ctypedef struct seen_t "fg_seen":
        pass
    seen_t seen_nothing "fg_seen_nothing"() nogil
    void widen "fg_widen"(const seen_t*, unsigned int* least, unsigned int* most) nogil
    void cut_row "fg_cut_row"(const float*, Py_ssize_t steps, char* out, seen_t*) nogil
    void cut_rows "fg_cut_rows"(const float*, const float*, Py_ssize_t n, bint both, char* out, Py_ssize_t step,
                                seen_t*) nogil
    void cut_nothing "fg_cut_nothing"(char* out, Py_ssize_t step) nogil
