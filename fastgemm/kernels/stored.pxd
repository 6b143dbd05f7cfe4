"""From what lies in memory to what is computed with, and back: a kind of `registry.STORED` each.

``widen`` reads a vector of numbers, ``widen_part`` the first n with zeros behind them, ``widen_tail`` with the last one
repeated (so that no dead lane raises a floating-point flag of its own); ``narrow`` writes the first n.  ``widen1`` and
``narrow1`` do one number, ``every`` reads one into all lanes.  Halves are rounded to the nearest, ties to even.
``long_s8``, ``long_part_s8`` and ``every_long_s8`` widen signed bytes to 32 bits instead of 16.
"""

from fastgemm.kernels.numbers cimport vb8, vi16, vi32
from fastgemm.kernels.simd cimport vf32

cdef extern from *:
    """
    #ifndef FASTGEMM_STORED
    #define FASTGEMM_STORED
    typedef signed char stored_s8;
    typedef unsigned char stored_bool;
    typedef unsigned short stored_f16;
    typedef unsigned short stored_bf16;

    typedef signed char some_s8 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES / 2), aligned(1), may_alias));
    typedef short whole_s16 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES)));
    typedef unsigned short some_16 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES / 2), aligned(2), may_alias));

    /* (By instructions: gcc 12 makes convertvector of half vectors, from and to.) */
    static inline vi16 widen_s8(const signed char *p) {
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512BW__)
        return (vi16)_mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)p));
    #elif FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
        return (vi16)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p));
    #else
        return (vi16)__builtin_convertvector(*(const some_s8 *)p, whole_s16);
    #endif
    }
    static inline unsigned short widen1_s8(signed char x) { return (unsigned short)x; }
    static inline signed char narrow1_s8(unsigned short x) { return (signed char)x; }

    static inline vb8 widen_bool(const unsigned char *p) { return load_b8(p); }
    static inline unsigned char widen1_bool(unsigned char x) { return x ? 0xff : 0; }
    static inline unsigned char narrow1_bool(unsigned char x) { return x != 0; }

    static inline vf32 widen_bf16(const unsigned short *p) {
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512F__)
        /* gcc 14 makes nine instructions of the conversion below, which are two. */
        return (vf32)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16);
    #elif FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
        return (vf32)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16);
    #endif
        return (vf32)(__builtin_convertvector(*(const some_16 *)p, vi32) << 16);
    }
    static inline float widen1_bf16(unsigned short x) {
        unsigned bits = (unsigned)x << 16;
        float y;
        memcpy(&y, &bits, 4);
        return y;
    }
    static inline unsigned short narrow1_bf16(float x) {
        unsigned bits;
        memcpy(&bits, &x, 4);
        if ((bits & 0x7fffffffu) > 0x7f800000u) return (unsigned short)((bits >> 16 & 0x8000u) | 0x7fc0u);
        return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    }

    #ifdef __F16C__
    static inline float widen1_f16(unsigned short x) { return _cvtsh_ss(x); }
    static inline unsigned short narrow1_f16(float x) { return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }
    #if FASTGEMM_VECTOR_BYTES == 64
    static inline vf32 widen_f16(const unsigned short *p) {
        return (vf32)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
    }
    static inline some_16 rounded_f16(vf32 v) {
        return (some_16)_mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT);
    }
    #elif FASTGEMM_VECTOR_BYTES == 32
    static inline vf32 widen_f16(const unsigned short *p) {
        return (vf32)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
    }
    static inline some_16 rounded_f16(vf32 v) {
        return (some_16)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
    }
    #else  /* kernels for one shape may take short vectors on any tier */
    static inline vf32 widen_f16(const unsigned short *p) {
        return (vf32)_mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)p));
    }
    static inline some_16 rounded_f16(vf32 v) {
        const __m128i whole = _mm_cvtps_ph((__m128)v, _MM_FROUND_TO_NEAREST_INT);
        some_16 half;
        memcpy(&half, &whole, sizeof half);
        return half;
    }
    #endif
    #endif
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512BF16__)
    static inline some_16 rounded_bf16(vf32 v) { return (some_16)_mm512_cvtneps_pbh((__m512)v); }
    #else
    static inline some_16 rounded_bf16(vf32 v) {
        const vi32 bits = (vi32)v, size = bits & 0x7fffffffu;
        const vi32 nan = (vi32)(size > 0x7f800000u);
        const vi32 near = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
        const vi32 made = (near & ~nan) | (((bits >> 16 & 0x8000u) | 0x7fc0u) & nan);
    #if FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
        const __m256i pairs = _mm256_packus_epi32((__m256i)made, (__m256i)made);
        return (some_16)_mm256_castsi256_si128(_mm256_permute4x64_epi64(pairs, 0x08));
    #else
        return __builtin_convertvector(made, some_16);
    #endif
    }
    #endif
    static inline some_s8 rounded_s8(vi16 v) {
    #if FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
        const __m256i low = (__m256i)(v & 255), bytes = _mm256_packus_epi16(low, low);
        return (some_s8)_mm256_castsi256_si128(_mm256_permute4x64_epi64(bytes, 0x08));
    #else
        return __builtin_convertvector((whole_s16)v, some_s8);
    #endif
    }
    static inline vb8 rounded_bool(vb8 v) { return (vb8)(v != 0) & 1; }

    /* Parts in pieces, or through a buffer, but where there are masks. */
    #if FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
    /* The bytes of the last of n numbers once more for each behind it; n numbers of `size` bytes. */
    static inline __m128i last_repeated(__m128i v, int n, int size) {
        const __m128i order = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        return _mm_shuffle_epi8(v, size == 1 ? _mm_min_epu8(order, _mm_set1_epi8((char)(n - 1)))
                                             : _mm_min_epu16(order, _mm_set1_epi16((short)(514 * n - 258))));
    }
    #define FASTGEMM_PARTS(S, T, V, W) \\
    static inline V widen_part_##S(const T *p, int n) { \\
        const __m128i some = first_bytes(p, n * (int)sizeof(T)); \\
        return widen_##S((const T *)&some); \\
    } \\
    static inline V widen_tail_##S(const T *p, int n) { \\
        const __m128i some = last_repeated(first_bytes(p, n * (int)sizeof(T)), n, sizeof(T)); \\
        return widen_##S((const T *)&some); \\
    } \\
    static inline void narrow_##S(T *p, V v, int n) { \\
        store_first_bytes(p, (__m128i)rounded_##S(v), n * (int)sizeof(T)); \\
    }
    #else
    #define FASTGEMM_PARTS(S, T, V, W) \\
    static inline V widen_part_##S(const T *p, int n) { \\
        enum { N = sizeof(W) / sizeof(T) }; \\
        T some[N] = {0}; \\
        if (n == N) return widen_##S(p); \\
        memcpy(some, p, n * sizeof(T)); \\
        return widen_##S(some); \\
    } \\
    static inline V widen_tail_##S(const T *p, int n) { \\
        enum { N = sizeof(W) / sizeof(T) }; \\
        T some[N]; \\
        for (int i = 0; i < N; i++) some[i] = p[i < n ? i : n - 1]; \\
        return widen_##S(some); \\
    } \\
    static inline void narrow_##S(T *p, V v, int n) { \\
        const W some = rounded_##S(v); \\
        if (n == (int)(sizeof(W) / sizeof(T))) memcpy(p, &some, sizeof some); \\
        else memcpy(p, &some, n * sizeof(T)); \\
    }
    #endif
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512BW__) && defined(__AVX512VL__)
    #define FASTGEMM_HALVES(S) \\
    static inline vf32 widen_part_##S(const unsigned short *p, int n) { \\
        const __m256i some = _mm256_maskz_loadu_epi16((__mmask16)(0xffffu >> (16 - n)), p); \\
        return widen_##S((const unsigned short *)&some); \\
    } \\
    static inline vf32 widen_tail_##S(const unsigned short *p, int n) { \\
        const __m256i last = _mm256_set1_epi16((short)p[n - 1]); \\
        const __m256i some = _mm256_mask_loadu_epi16(last, (__mmask16)(0xffffu >> (16 - n)), p); \\
        return widen_##S((const unsigned short *)&some); \\
    } \\
    static inline void narrow_##S(unsigned short *p, vf32 v, int n) { \\
        _mm256_mask_storeu_epi16(p, (__mmask16)(0xffffu >> (16 - n)), (__m256i)rounded_##S(v)); \\
    }
    FASTGEMM_HALVES(f16)
    FASTGEMM_HALVES(bf16)
    static inline vi16 widen_part_s8(const signed char *p, int n) {
        return (vi16)_mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(0xffffffffu >> (32 - n), p));
    }
    #define widen_tail_s8 widen_part_s8
    static inline void narrow_s8(signed char *p, vi16 v, int n) {
        _mm256_mask_storeu_epi8(p, 0xffffffffu >> (32 - n), (__m256i)rounded_s8(v));
    }
    #else
    #ifdef __F16C__
    FASTGEMM_PARTS(f16, unsigned short, vf32, some_16)
    #endif
    FASTGEMM_PARTS(bf16, unsigned short, vf32, some_16)
    FASTGEMM_PARTS(s8, signed char, vi16, some_s8)
    #endif
    static inline vi16 every_s8(const signed char *p) { return ZERO_i16 + (unsigned short)*p; }
    static inline vb8 every_bool(const unsigned char *p) { return ZERO_b8 | widen1_bool(*p); }
    static inline vf32 every_bf16(const unsigned short *p) {
    #if FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
        return (vf32)_mm256_slli_epi32(_mm256_set1_epi16((short)*p), 16);
    #else
        return (vf32)((vi32)(ZERO_i16 + *p) << 16);
    #endif
    }
    #ifdef __F16C__
    static inline vf32 every_f16(const unsigned short *p) {
        const some_16 same = (some_16){0} + *p;
        return widen_f16((const unsigned short *)&same);
    }
    #endif

    typedef int whole_s32 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES)));
    /* (gcc 12 makes a conversion of a vector to one four times as wide number by number.) */
    static inline vi32 long_s8(const signed char *p) {
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512F__)
        return (vi32)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p));
    #elif FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
        return (vi32)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p));
    #elif defined(__SSE4_1__)
        int four;
        memcpy(&four, p, 4);
        return (vi32)_mm_cvtepi8_epi32(_mm_cvtsi32_si128(four));
    #else
        vi32 v;
        for (int i = 0; i < (int)sizeof v / 4; i++) v[i] = (unsigned)p[i];
        return v;
    #endif
    }
    static inline vi32 every_long_s8(const signed char *p) {
        return (vi32)((whole_s32)(ZERO_b8 | (unsigned char)*p) >> 24);
    }
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512BW__) && defined(__AVX512VL__)
    static inline vi32 long_part_s8(const signed char *p, int n) {
        return (vi32)_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8((__mmask16)(0xffffu >> (16 - n)), p));
    }
    #else
    static inline vi32 long_part_s8(const signed char *p, int n) {
        signed char some[sizeof(vi32) / 4] = {0};
        if (n == (int)sizeof some) return long_s8(p);
        memcpy(some, p, n);
        return long_s8(some);
    }
    #endif
    #define widen_part_bool part_b8
    #define widen_tail_bool part_b8
    static inline void narrow_bool(unsigned char *p, vb8 v, int n) { store_part_b8(p, rounded_bool(v), n); }
    #endif
    """
    ctypedef signed char stored_s8
    ctypedef unsigned char stored_bool
    ctypedef unsigned short stored_f16
    ctypedef unsigned short stored_bf16
    vi16 widen_s8(const stored_s8*) nogil
    vb8 widen_bool(const stored_bool*) nogil
    vf32 widen_f16(const stored_f16*) nogil
    vf32 widen_bf16(const stored_bf16*) nogil
    vi16 widen_part_s8(const stored_s8*, int) nogil
    vb8 widen_part_bool(const stored_bool*, int) nogil
    vf32 widen_part_f16(const stored_f16*, int) nogil
    vf32 widen_part_bf16(const stored_bf16*, int) nogil
    vi16 widen_tail_s8(const stored_s8*, int) nogil
    vb8 widen_tail_bool(const stored_bool*, int) nogil
    vf32 widen_tail_f16(const stored_f16*, int) nogil
    vf32 widen_tail_bf16(const stored_bf16*, int) nogil
    vi16 every_s8(const stored_s8*) nogil
    vb8 every_bool(const stored_bool*) nogil
    vf32 every_f16(const stored_f16*) nogil
    vf32 every_bf16(const stored_bf16*) nogil
    vi32 long_s8(const stored_s8*) nogil
    vi32 long_part_s8(const stored_s8*, int) nogil
    vi32 every_long_s8(const stored_s8*) nogil
    unsigned short widen1_s8(stored_s8) nogil
    unsigned char widen1_bool(stored_bool) nogil
    float widen1_f16(stored_f16) nogil
    float widen1_bf16(stored_bf16) nogil
    void narrow_s8(stored_s8*, vi16, int) nogil
    void narrow_bool(stored_bool*, vb8, int) nogil
    void narrow_f16(stored_f16*, vf32, int) nogil
    void narrow_bf16(stored_bf16*, vf32, int) nogil
    stored_s8 narrow1_s8(unsigned short) nogil
    stored_bool narrow1_bool(unsigned char) nogil
    stored_f16 narrow1_f16(float) nogil
    stored_bf16 narrow1_bf16(float) nogil
