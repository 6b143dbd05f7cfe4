"""Dot products inside a lane: several numbers of k in 32 bits of both operands, one sum in 32 bits.

``pairs`` multiplies 16-bit numbers, which hold any difference of bytes, so it needs no corrections; ``vnni`` four
unsigned bytes of A with four signed ones of B; ``bf16`` two halves.  All but the last add without saturation, modulo
2**32.  ``bf16`` rounds after each product to the nearest and takes subnormal numbers for zero, in A, B and the sum.
"""

from fastgemm.driver.abi cimport quant_t
from fastgemm.kernels.numbers cimport vi32
from fastgemm.kernels.simd cimport vf32

cdef extern from *:
    """
    #ifndef FASTGEMM_DOT
    #define FASTGEMM_DOT
    static inline unsigned word_at(const void *p) { unsigned word; memcpy(&word, p, 4); return word; }
    /* As ONNX's reference computes it: in double, to the nearest, ties to even. */
    static inline void fg_requantise(const quant_t *q, Py_ssize_t columns, const int *tile, signed char *c,
                                     Py_ssize_t step, Py_ssize_t row, Py_ssize_t column) {
        const float *left = q->left + row * q->left_step, *right = q->right + column * q->right_step;
        const float *y = q->scale + row * q->scale_step;
        const double zero = q->zero[row * q->zero_step], low = q->low, high = q->high;
        for (Py_ssize_t j = 0; j < columns; j++) {
            const float scale = q->both ? *left * right[j * q->right_step] / *y : *left * right[j * q->right_step];
            double x = __builtin_rint(tile[j] * (double)scale + zero);
            x = x < low ? low : x > high ? high : x;
            c[j * step] = (signed char)(int)x;
        }
    }
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512BW__)
    static inline vi32 madd_pairs(vi32 acc, unsigned s, vi32 v) {
        return acc + (vi32)_mm512_madd_epi16(_mm512_set1_epi32((int)s), (__m512i)v);
    }
    #elif FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
    static inline vi32 madd_pairs(vi32 acc, unsigned s, vi32 v) {
        return acc + (vi32)_mm256_madd_epi16(_mm256_set1_epi32((int)s), (__m256i)v);
    }
    #elif FASTGEMM_VECTOR_BYTES == 16
    static inline vi32 madd_pairs(vi32 acc, unsigned s, vi32 v) {
        return acc + (vi32)_mm_madd_epi16(_mm_set1_epi32((int)s), (__m128i)v);
    }
    #endif
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512VNNI__)
    static inline vi32 madd_vnni(vi32 acc, unsigned s, vi32 v) {
        return (vi32)_mm512_dpbusd_epi32((__m512i)acc, _mm512_set1_epi32((int)s), (__m512i)v);
    }
    #elif FASTGEMM_VECTOR_BYTES == 32 && defined(__AVXVNNI__)
    static inline vi32 madd_vnni(vi32 acc, unsigned s, vi32 v) {
        return (vi32)_mm256_dpbusd_avx_epi32((__m256i)acc, _mm256_set1_epi32((int)s), (__m256i)v);
    }
    #endif
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512BF16__)
    static inline vf32 madd_bf16(vf32 acc, unsigned s, vi32 v) {
        return (vf32)_mm512_dpbf16_ps((__m512)acc, (__m512bh)_mm512_set1_epi32((int)s), (__m512bh)v);
    }
    #endif
    #endif
    """
    unsigned int word_at(const void*) nogil
    void requantise "fg_requantise"(const quant_t*, Py_ssize_t, const int*, signed char*, Py_ssize_t, Py_ssize_t,
                                    Py_ssize_t) nogil
    vi32 madd_pairs(vi32, unsigned int, vi32) nogil
    vi32 madd_vnni(vi32, unsigned int, vi32) nogil
    vf32 madd_bf16(vf32, unsigned int, vi32) nogil
