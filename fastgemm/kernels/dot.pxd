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
    enum { FG_DOUBLES = FASTGEMM_VECTOR_BYTES / 8 };
    typedef double wide_f64 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(8), may_alias));
    typedef long long wide_i64 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(8), may_alias));
    typedef float half_f32 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES / 2), aligned(4), may_alias));
    typedef int half_i32 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES / 2), aligned(4), may_alias));
    typedef signed char bytes_s8 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES / 8), aligned(1), may_alias));
    /* As ONNX's reference computes it: in double, to the nearest, ties to even. */
    static inline void fg_requantise(const quant_t *q, Py_ssize_t columns, const int *tile, signed char *c,
                                     Py_ssize_t step, Py_ssize_t row, Py_ssize_t column) {
        const float *left = q->left + row * q->left_step, *right = q->right + column * q->right_step;
        const float *y = q->scale + row * q->scale_step;
        const double zero = q->zero[row * q->zero_step], low = q->low, high = q->high;
        const float *bias = q->bias ? q->bias + column : NULL;
        Py_ssize_t j = 0;
        /* A whole vector of doubles.  The limits are whole numbers: what is cut first is rounded to the same, and small
           enough to be rounded by adding 1.5 * 2^52. */
        for (; step == 1 && j + FG_DOUBLES <= columns; j += FG_DOUBLES) {
            half_f32 scale = (half_f32){0} + *left;
            if (q->right_step) scale *= *(const half_f32 *)(right + j);
            else scale *= *right;
            if (q->both) scale /= *y;
            wide_f64 x = (wide_f64){0} + zero, sums = __builtin_convertvector(*(const half_i32 *)(tile + j), wide_f64);
            if (bias) x += __builtin_convertvector(*(const half_f32 *)(bias + j), wide_f64);
            x = sums * __builtin_convertvector(scale, wide_f64) + x;
            const wide_f64 least = (wide_f64){0} + low, most = (wide_f64){0} + high;
            x = (wide_f64)(((wide_i64)least & (x < least)) | ((wide_i64)x & ~(x < least)));
            x = (wide_f64)(((wide_i64)most & (x > most)) | ((wide_i64)x & ~(x > most)));
            x = (x + 6755399441055744.0) - 6755399441055744.0;
            const bytes_s8 made = __builtin_convertvector(__builtin_convertvector(x, half_i32), bytes_s8);
            memcpy(c + j, &made, sizeof made);
        }
        for (; j < columns; j++) {
            const float scale = q->both ? *left * right[j * q->right_step] / *y : *left * right[j * q->right_step];
            double x = __builtin_rint(tile[j] * (double)scale + (zero + (bias ? bias[j] : 0)));
            x = x < low ? low : x > high ? high : x;
            c[j * step] = (signed char)(int)x;
        }
    }
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512BW__)
    static inline vi32 dots_pairs(vi32 acc, vi32 x, vi32 y) {
        return acc + (vi32)_mm512_madd_epi16((__m512i)x, (__m512i)y);
    }
    #elif FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
    static inline vi32 dots_pairs(vi32 acc, vi32 x, vi32 y) {
        return acc + (vi32)_mm256_madd_epi16((__m256i)x, (__m256i)y);
    }
    #elif FASTGEMM_VECTOR_BYTES == 16
    static inline vi32 dots_pairs(vi32 acc, vi32 x, vi32 y) {
        return acc + (vi32)_mm_madd_epi16((__m128i)x, (__m128i)y);
    }
    #endif
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512VNNI__)
    static inline vi32 dots_vnni(vi32 acc, vi32 x, vi32 y) {
        return (vi32)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)x, (__m512i)y);
    }
    #elif FASTGEMM_VECTOR_BYTES == 32 && defined(__AVXVNNI__)
    static inline vi32 dots_vnni(vi32 acc, vi32 x, vi32 y) {
        return (vi32)_mm256_dpbusd_avx_epi32((__m256i)acc, (__m256i)x, (__m256i)y);
    }
    #endif
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512BF16__)
    static inline vf32 dots_bf16(vf32 acc, vi32 x, vi32 y) {
        return (vf32)_mm512_dpbf16_ps((__m512)acc, (__m512bh)x, (__m512bh)y);
    }
    #endif
    #endif
    """
    void requantise "fg_requantise"(const quant_t*, Py_ssize_t, const int*, signed char*, Py_ssize_t, Py_ssize_t,
                                    Py_ssize_t) nogil
    vi32 dots_pairs(vi32, vi32, vi32) nogil
    vi32 dots_vnni(vi32, vi32, vi32) nogil
    vf32 dots_bf16(vf32, vi32, vi32) nogil
