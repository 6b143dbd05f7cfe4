"""Vectors of whole numbers, and the arithmetic of every lane under one name.

``add`` and ``madd`` (acc, number, vector) are what a microkernel does with the lane that the registry names; for floats
they are the operators that the compiler contracts into multiply-adds.  Whole numbers are unsigned, so that they wrap:
the low half of a product does not depend on signs.  ``b8`` is logic in bytes: a sum is an or, a product an and, where
one factor is a mask of all ones or none.
"""

from fastgemm.kernels.simd cimport vf32, vf64

cdef extern from *:
    """
    #ifndef FASTGEMM_NUMBERS
    #define FASTGEMM_NUMBERS
    typedef unsigned int vi32 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(4), may_alias));
    typedef unsigned long long vi64 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(8), may_alias));
    typedef unsigned short vi16 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(2), may_alias));
    typedef unsigned char vb8 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(1), may_alias));

    #define FASTGEMM_LANE(S, T) \\
    static const v##S ZERO_##S = {0}; \\
    static inline v##S load_##S(const T *p) { return *(const v##S *)p; } \\
    static inline void store_##S(T *p, v##S v) { *(v##S *)p = v; }
    FASTGEMM_LANE(i16, unsigned short)
    FASTGEMM_LANE(i32, unsigned int)
    FASTGEMM_LANE(i64, unsigned long long)
    FASTGEMM_LANE(b8, unsigned char)
    FG_ONCE(i16, vi16)
    FG_ONCE(i32, vi32)
    FG_ONCE(i64, vi64)
    FG_ONCE(b8, vb8)

    #define splat_f32(s) (ZERO_f32 + (s))
    #define splat_f64(s) (ZERO_f64 + (s))
    #define splat_i16(s) (ZERO_i16 + (s))
    #define splat_i32(s) (ZERO_i32 + (s))
    #define splat_i64(s) (ZERO_i64 + (s))
    #define splat_b8(s) (ZERO_b8 | (s))
    #define add_f32(x, y) ((x) + (y))
    #define add_f64(x, y) ((x) + (y))
    #define add_i16(x, y) ((x) + (y))
    #define add_i32(x, y) ((x) + (y))
    #define add_i64(x, y) ((x) + (y))
    #define add_b8(x, y) ((x) | (y))
    #define mul_f32(x, y) ((x) * (y))
    #define mul_f64(x, y) ((x) * (y))
    #define mul_i16(x, y) ((x) * (y))
    #define mul_i32(x, y) ((x) * (y))
    #define mul_i64(x, y) ((x) * (y))
    #define mul_b8(x, y) ((x) & (y))
    #define madd_f32(acc, s, v) ((acc) + (s) * (v))
    #define madd_f64(acc, s, v) ((acc) + (s) * (v))
    #define madd_i16(acc, s, v) ((acc) + (s) * (v))
    #define madd_i32(acc, s, v) ((acc) + (s) * (v))
    #define madd_i64(acc, s, v) ((acc) + (s) * (v))
    #define madd_b8(acc, s, v) ((acc) | ((s) & (v)))

    /* No 64-bit multiply below AVX-512: the product of two low halves, and the products across, of which the low half
       counts, in an accumulator of their own that is shifted once at the end: 4 instructions a vector where the
       compiler's own emulation takes 8. */
    #if FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
    static inline vi64 halves_i64(vi64 x, vi64 y) { return (vi64)_mm256_mul_epu32((__m256i)x, (__m256i)y); }
    static inline vi64 swapped_i64(vi64 x) { return (vi64)_mm256_shuffle_epi32((__m256i)x, 0xB1); }
    #elif FASTGEMM_VECTOR_BYTES == 16 && defined(__SSE4_1__)
    static inline vi64 halves_i64(vi64 x, vi64 y) { return (vi64)_mm_mul_epu32((__m128i)x, (__m128i)y); }
    static inline vi64 swapped_i64(vi64 x) { return (vi64)_mm_shuffle_epi32((__m128i)x, 0xB1); }
    #else
    static inline vi64 halves_i64(vi64 x, vi64 y) { return (x & 0xffffffffu) * (y & 0xffffffffu); }
    static inline vi64 swapped_i64(vi64 x) { return x << 32 | x >> 32; }
    #endif
    static inline vi64 across_i64(vi64 x_swapped, vi64 y) { return (vi64)((vi32)x_swapped * (vi32)y); }
    static inline vi64 sum_across_i64(vi64 acc, vi64 x) { return (vi64)((vi32)acc + (vi32)x); }
    static inline vi64 join_i64(vi64 low, vi64 across) { return low + ((across + (across >> 32)) << 32); }

    #define FASTGEMM_FOLD(T, S, OP) \\
    static inline T sum_##S(v##S v) { \\
        enum { N = sizeof(v##S) / sizeof(T) }; \\
        T lane[N]; \\
        memcpy(lane, &v, sizeof v); \\
        for (int half = N / 2; half; half /= 2) \\
            for (int i = 0; i < half; i++) lane[i] = (T)(lane[i] OP lane[i + half]); \\
        return lane[0]; \\
    }
    FASTGEMM_FOLD(unsigned short, i16, +)
    FASTGEMM_FOLD(unsigned int, i32, +)
    FASTGEMM_FOLD(unsigned long long, i64, +)
    FASTGEMM_FOLD(unsigned char, b8, |)

    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512BW__)
    #define FASTGEMM_MASKED(S, T, BITS, MASK, LIVE) \\
    static inline v##S part_##S(const T *p, int n) { return (v##S)_mm512_maskz_loadu_epi##BITS(LIVE(MASK, n), p); } \\
    static inline void store_part_##S(T *p, v##S v, int n) { \\
        _mm512_mask_storeu_epi##BITS(p, LIVE(MASK, n), (__m512i)v); \\
    }
    #define FASTGEMM_LIVE(MASK, n) ((MASK)(~0ull >> (64 - (n))))
    FASTGEMM_MASKED(i16, unsigned short, 16, __mmask32, FASTGEMM_LIVE)
    FASTGEMM_MASKED(i32, unsigned int, 32, __mmask16, FASTGEMM_LIVE)
    FASTGEMM_MASKED(i64, unsigned long long, 64, __mmask8, FASTGEMM_LIVE)
    FASTGEMM_MASKED(b8, unsigned char, 8, __mmask64, FASTGEMM_LIVE)
    #else
    #if FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
    /* In pieces of 8, 4, 2 and 1 bytes: a memcpy of unknown length is a call. */
    #define FASTGEMM_PIECES(S, T) \\
    static inline v##S part_##S(const T *p, int n) { \\
        const int bytes = n * (int)sizeof(T); \\
        if (bytes == 32) return load_##S(p); \\
        if (bytes < 16) return (v##S)_mm256_zextsi128_si256(first_bytes(p, bytes)); \\
        return (v##S)_mm256_setr_m128i(_mm_loadu_si128((const __m128i *)p), \\
                                       first_bytes((const char *)p + 16, bytes - 16)); \\
    } \\
    static inline void store_part_##S(T *p, v##S v, int n) { \\
        const int bytes = n * (int)sizeof(T); \\
        if (bytes == 32) { store_##S(p, v); return; } \\
        if (bytes < 16) { store_first_bytes(p, _mm256_castsi256_si128((__m256i)v), bytes); return; } \\
        _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128((__m256i)v)); \\
        store_first_bytes((char *)p + 16, _mm256_extracti128_si256((__m256i)v, 1), bytes - 16); \\
    }
    static inline __m128i first_bytes(const void *from, int n) {
        const char *p = (const char *)from;
        unsigned long long low = 0, high = 0, eight;
        unsigned four;
        unsigned short two;
        if (n >= 16) return _mm_loadu_si128((const __m128i *)p);
        if (n >= 8) {
            /* The last eight end with the n-th; what the first eight have already is shifted out. */
            memcpy(&low, p, 8);
            memcpy(&eight, p + n - 8, 8);
            high = n == 8 ? 0 : eight >> 8 * (16 - n);
        } else if (n >= 4) {
            memcpy(&four, p, 4);
            low = four;
            memcpy(&four, p + n - 4, 4);
            low |= (unsigned long long)four << 8 * (n - 4);
        } else if (n >= 2) {
            memcpy(&two, p, 2);
            low = two;
            memcpy(&two, p + n - 2, 2);
            low |= (unsigned long long)two << 8 * (n - 2);
        } else if (n == 1) {
            low = (unsigned char)*p;
        }
        return _mm_set_epi64x((long long)high, (long long)low);
    }
    static inline void store_first_bytes(void *to, __m128i v, int n) {
        char *p = (char *)to;
        unsigned long long word;
        if (n >= 16) { _mm_storeu_si128((__m128i *)p, v); return; }
        if (n & 8) { _mm_storel_epi64((__m128i *)p, v); v = _mm_unpackhi_epi64(v, v); p += 8; }
        word = (unsigned long long)_mm_cvtsi128_si64(v);
        if (n & 4) { memcpy(p, &word, 4); word >>= 32; p += 4; }
        if (n & 2) { memcpy(p, &word, 2); word >>= 16; p += 2; }
        if (n & 1) *p = (char)word;
    }
    FASTGEMM_PIECES(i16, unsigned short)
    FASTGEMM_PIECES(b8, unsigned char)
    static inline vi32 part_i32(const unsigned *p, int n) { return (vi32)part_f32((const float *)p, n); }
    static inline vi64 part_i64(const unsigned long long *p, int n) { return (vi64)part_f64((const double *)p, n); }
    static inline void store_part_i32(unsigned *p, vi32 v, int n) { store_part_f32((float *)p, (vf32)v, n); }
    static inline void store_part_i64(unsigned long long *p, vi64 v, int n) {
        store_part_f64((double *)p, (vf64)v, n);
    }
    #else
    #define FASTGEMM_COPIED(S, T) \\
    static inline v##S part_##S(const T *p, int n) { \\
        if (n == (int)(sizeof(v##S) / sizeof(T))) return load_##S(p); \\
        v##S v = {0}; memcpy(&v, p, n * sizeof(T)); return v; \\
    } \\
    static inline void store_part_##S(T *p, v##S v, int n) { \\
        if (n == (int)(sizeof(v##S) / sizeof(T))) store_##S(p, v); else memcpy(p, &v, n * sizeof(T)); \\
    }
    FASTGEMM_COPIED(i16, unsigned short)
    FASTGEMM_COPIED(b8, unsigned char)
    FASTGEMM_COPIED(i32, unsigned)
    FASTGEMM_COPIED(i64, unsigned long long)
    #endif
    #endif
    #define true_b8(v) ((vb8)((v) != 0))
    static inline unsigned char any_b8(vb8 v) {
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512BW__)
        return _mm512_test_epi8_mask((__m512i)v, (__m512i)v) != 0;
    #elif FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
        return !_mm256_testz_si256((__m256i)v, (__m256i)v);
    #else
        return sum_b8(v) != 0;
    #endif
    }
    /* Whole numbers raise no flags, so dead lanes may hold anything. */
    #define tail_i16_1 part_i16
    #define tail_i32_1 part_i32
    #define tail_i64_1 part_i64
    #define tail_b8_1 part_b8
    #endif
    """
    ctypedef unsigned short vi16
    ctypedef unsigned int vi32
    ctypedef unsigned long long vi64
    ctypedef unsigned char vb8
    const vi16 ZERO_i16
    const vi32 ZERO_i32
    const vi64 ZERO_i64
    const vb8 ZERO_b8
    vi16 load_i16(const unsigned short*) nogil
    vi32 load_i32(const unsigned int*) nogil
    vi64 load_i64(const unsigned long long*) nogil
    vi16 once_i16(vi16) nogil
    vi32 once_i32(vi32) nogil
    vi64 once_i64(vi64) nogil
    vb8 once_b8(vb8) nogil
    vb8 load_b8(const unsigned char*) nogil
    void store_i16(unsigned short*, vi16) nogil
    void store_i32(unsigned int*, vi32) nogil
    void store_i64(unsigned long long*, vi64) nogil
    void store_b8(unsigned char*, vb8) nogil
    vi16 part_i16(const unsigned short*, int) nogil
    vi32 part_i32(const unsigned int*, int) nogil
    vi64 part_i64(const unsigned long long*, int) nogil
    vb8 part_b8(const unsigned char*, int) nogil
    void store_part_i16(unsigned short*, vi16, int) nogil
    void store_part_i32(unsigned int*, vi32, int) nogil
    void store_part_i64(unsigned long long*, vi64, int) nogil
    void store_part_b8(unsigned char*, vb8, int) nogil
    vi16 tail_i16_1(const unsigned short*, int) nogil
    vi32 tail_i32_1(const unsigned int*, int) nogil
    vi64 tail_i64_1(const unsigned long long*, int) nogil
    vb8 tail_b8_1(const unsigned char*, int) nogil
    unsigned short sum_i16(vi16) nogil
    unsigned int sum_i32(vi32) nogil
    unsigned long long sum_i64(vi64) nogil
    unsigned char sum_b8(vb8) nogil
    vb8 true_b8(vb8) nogil              # any byte but 0 as a mask
    unsigned char any_b8(vb8) nogil
    vi64 halves_i64(vi64, vi64) nogil
    vi64 swapped_i64(vi64) nogil
    vi64 across_i64(vi64, vi64) nogil
    vi64 sum_across_i64(vi64, vi64) nogil
    vi64 join_i64(vi64, vi64) nogil
    vf32 splat_f32(float) nogil
    vf64 splat_f64(double) nogil
    vi16 splat_i16(unsigned short) nogil
    vi32 splat_i32(unsigned int) nogil
    vi64 splat_i64(unsigned long long) nogil
    vb8 splat_b8(unsigned char) nogil
    vf32 add_f32(vf32, vf32) nogil
    vf64 add_f64(vf64, vf64) nogil
    vi16 add_i16(vi16, vi16) nogil
    vi32 add_i32(vi32, vi32) nogil
    vi64 add_i64(vi64, vi64) nogil
    vb8 add_b8(vb8, vb8) nogil
    vf32 mul_f32(vf32, vf32) nogil
    vf64 mul_f64(vf64, vf64) nogil
    vi16 mul_i16(vi16, vi16) nogil
    vi32 mul_i32(vi32, vi32) nogil
    vi64 mul_i64(vi64, vi64) nogil
    vb8 mul_b8(vb8, vb8) nogil
    vf32 madd_f32(vf32, float, vf32) nogil
    vf64 madd_f64(vf64, double, vf64) nogil
    vi16 madd_i16(vi16, unsigned short, vi16) nogil
    vi32 madd_i32(vi32, unsigned int, vi32) nogil
    vi64 madd_i64(vi64, unsigned long long, vi64) nogil
    vb8 madd_b8(vb8, unsigned char, vb8) nogil
