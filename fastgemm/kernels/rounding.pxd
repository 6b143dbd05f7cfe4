"""Rounding to bytes: the nearest whole numbers, their lowest bytes, and how near to a tie they were.

A whole number is made by adding 1.5 * 2^23, which leaves its bits at the end of the float's; the reader of a float32
result asks whether it was far enough from a tie for float32 to have been exact enough.
"""

from fastgemm.kernels.simd cimport vf32
from fastgemm.kernels.vecmath cimport above_f32  # its C comes first

cdef extern from *:
    """
    #ifndef FASTGEMM_ROUNDING
    #define FASTGEMM_ROUNDING
    enum { FG_SINGLES = FASTGEMM_VECTOR_BYTES / 4 };
    typedef int whole_i32 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(4), may_alias));
    typedef signed char bytes_s8 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES / 4), aligned(1), may_alias));
    /* The lowest byte of a number near 1.5 * 2^23 is that of the whole number added to it.  (By convertvector gcc 12
       takes lane after lane.) */
    static inline bytes_s8 lowest_bytes(vf32 lifted) {
        bytes_s8 made;
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512F__)
        const __m128i bytes = _mm512_cvtepi32_epi8((__m512i)lifted);
    #elif FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
        const __m256i low = _mm256_and_si256((__m256i)lifted, _mm256_set1_epi32(255));
        const __m128i pairs = _mm_packs_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
        const __m128i bytes = _mm_packus_epi16(pairs, pairs);
    #else
        const whole_i32 bytes = (whole_i32)lifted;
        for (int i = 0; i < FG_SINGLES; i++) made[i] = (signed char)bytes[i];
    #endif
    #if FASTGEMM_VECTOR_BYTES > 16
        memcpy(&made, &bytes, sizeof made);
    #endif
        return made;
    }
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512F__)
    static inline whole_i32 larger_whole(whole_i32 a, whole_i32 b) {
        return (whole_i32)_mm512_max_epi32((__m512i)a, (__m512i)b);
    }
    static inline whole_i32 smaller_whole(whole_i32 a, whole_i32 b) {
        return (whole_i32)_mm512_min_epi32((__m512i)a, (__m512i)b);
    }
    #elif FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
    static inline whole_i32 larger_whole(whole_i32 a, whole_i32 b) {
        return (whole_i32)_mm256_max_epi32((__m256i)a, (__m256i)b);
    }
    static inline whole_i32 smaller_whole(whole_i32 a, whole_i32 b) {
        return (whole_i32)_mm256_min_epi32((__m256i)a, (__m256i)b);
    }
    #else
    static inline whole_i32 larger_whole(whole_i32 a, whole_i32 b) { return (a & (a > b)) | (b & ~(a > b)); }
    static inline whole_i32 smaller_whole(whole_i32 a, whole_i32 b) { return (a & (a < b)) | (b & ~(a < b)); }
    #endif
    /* The larger of two numbers that are not below 0; NaN is larger than any. */
    static inline vf32 larger_of_positive(vf32 a, vf32 b) {
        return (vf32)larger_whole((whole_i32)a, (whole_i32)b);
    }
    /* a + b and a - b by the pipes that multiply, where a tier has multiply-adds: see `quantised_near`.  (The compiler
       must not see the factor, or it adds.) */
    #if defined(__FMA__)
    static inline vf32 times_f32(float x) { vf32 v = (vf32){0} + x; __asm__("" : "+v"(v)); return v; }
    static inline vf32 added_f32(vf32 a, vf32 b) { return fused_f32(b, a, times_f32(1)); }
    static inline vf32 less_f32(vf32 a, vf32 b) { return fused_f32(a, b, times_f32(-1)); }
    #else
    static inline vf32 added_f32(vf32 a, vf32 b) { return a + b; }
    static inline vf32 less_f32(vf32 a, vf32 b) { return a - b; }
    #endif
    /* The larger of x's magnitude and one of `before`.  (Where x is NaN it may be lost.) */
    static inline vf32 larger_magnitude(vf32 x, vf32 before) {
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512DQ__)
        return (vf32)_mm512_range_ps((__m512)x, (__m512)before, 0xb);
    #else
        return larger_of_positive(magnitude_f32(x), before);
    #endif
    }
    /* x less the nearest whole number, `lifted` being x + `lift`, which is near 1.5 * 2^23. */
    static inline vf32 fraction_of(vf32 x, vf32 lifted, vf32 lift) {
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512DQ__)
        return (vf32)_mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    #else
        return x - (lifted - lift);
    #endif
    }
    #endif
    """
    vf32 larger_of_positive(vf32, vf32) nogil
