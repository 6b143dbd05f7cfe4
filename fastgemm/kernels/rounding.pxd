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
    /* The larger of two numbers that are not below 0; NaN is larger than any. */
    static inline vf32 larger_of_positive(vf32 a, vf32 b) {
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512F__)
        return (vf32)_mm512_max_epi32((__m512i)a, (__m512i)b);
    #elif FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
        return (vf32)_mm256_max_epi32((__m256i)a, (__m256i)b);
    #else
        const whole_i32 x = (whole_i32)a, y = (whole_i32)b, more = x > y;
        return (vf32)((x & more) | (y & ~more));
    #endif
    }
    /* The larger of x's magnitude and one of `before`.  (Where x is NaN it may be lost.) */
    static inline vf32 larger_magnitude(vf32 x, vf32 before) {
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512DQ__)
        return (vf32)_mm512_range_ps((__m512)x, (__m512)before, 0xb);
    #else
        return larger_of_positive(magnitude_f32(x), before);
    #endif
    }
    /* x less the nearest whole number, `lifted` being x + `lift`, which is near 1.5 * 2^23.  By multiply-adds with
       AVX-512 (the compiler must not see the factor, or it subtracts): what else is done to a sum that becomes a byte
       keeps the pipes busy that do not multiply, vreduceps as well (Zen 4, one thread, of that 1.02, MHA_1 in int8
       1.015; AVX2 by multiply-adds 0.99). */
    static inline vf32 fraction_of(vf32 x, vf32 lifted, vf32 lift) {
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512F__)
        vf32 less = (vf32){0} - 1;
        __asm__("" : "+v"(less));
        return fused_f32(x, fused_f32(lifted, lift, less), less);
    #else
        return x - (lifted - lift);
    #endif
    }
    #endif
    """
    vf32 larger_of_positive(vf32, vf32) nogil
