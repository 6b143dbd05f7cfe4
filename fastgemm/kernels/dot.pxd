"""Dot products inside a lane: several numbers of k in 32 bits of both operands, one sum in 32 bits.

``pairs`` multiplies 16-bit numbers, which hold any difference of bytes, so it needs no corrections; ``vnni`` four
unsigned bytes of A with four signed ones of B; ``bf16`` two halves.  All but the last add without saturation, modulo
2**32.  ``bf16`` rounds after each product to the nearest and takes subnormal numbers for zero, in A, B and the sum.
"""

from fastgemm.driver.abi cimport quant_t
from fastgemm.kernels.numbers cimport vi32
from fastgemm.kernels.simd cimport vf32
from fastgemm.kernels.vecmath cimport above_f32  # its C comes first

cdef extern from *:
    """
    #ifndef FASTGEMM_DOT
    #define FASTGEMM_DOT
    enum { FG_SINGLES = FASTGEMM_VECTOR_BYTES / 4 };
    typedef int whole_i32 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(4), may_alias));
    typedef signed char bytes_s8 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES / 4), aligned(1), may_alias));
    /* Columns j : end of a row as ONNX's reference computes them: in double, to the nearest, ties to even. */
    static void __attribute__((noinline, unused)) fg_requantise_exactly(
            const quant_t *q, Py_ssize_t j, Py_ssize_t end, const int *tile, signed char *c, Py_ssize_t step,
            Py_ssize_t row, Py_ssize_t column) {
        const float left = q->left[row * q->left_step], *right = q->right + column * q->right_step;
        const float y = q->scale[row * q->scale_step];
        const double zero = q->zero[row * q->zero_step], low = q->low, high = q->high;
        const float *bias = q->bias ? q->bias + column : NULL;
        for (; j < end; j++) {
            const float scale = q->both ? left * right[j * q->right_step] / y : left * right[j * q->right_step];
            double x = __builtin_rint(tile[j] * (double)scale + (zero + (bias ? bias[j] : 0)));
            x = x < low ? low : x > high ? high : x;
            c[j * step] = (signed char)(int)x;
        }
    }
    /* The same numbers, in float32 where that is enough.  With u = 2^-24 and |result| < 512 (beyond, it is cut off
       anyhow) float32 is off by u * (512 + |shift|) for each of sum, shift and result, at most; so a result that
       lies further from a tie than 4 u (512 + |shift|) is rounded as the double would be.  Of random vectors one
       in 300 is done once more. */
    static inline void fg_requantise(const quant_t *q, Py_ssize_t columns, const int *tile, signed char *c,
                                     Py_ssize_t step, Py_ssize_t row, Py_ssize_t column) {
        const vf32 nothing = {0};
        const float left = q->left[row * q->left_step], *right = q->right + column * q->right_step;
        const float y = q->scale[row * q->scale_step];
        const float zero = q->zero[row * q->zero_step];
        const vf32 low = nothing + (float)q->low, high = nothing + (float)q->high;
        const float *bias = q->bias ? q->bias + column : NULL;
        Py_ssize_t j = 0;
        for (; step == 1 && j + FG_SINGLES <= columns; j += FG_SINGLES) {
            vf32 scale = nothing + left, shift = nothing + zero, x, near;
            if (q->right_step) scale *= *(const vf32 *)(right + j);
            else scale *= nothing + *right;
            if (q->both) scale /= nothing + y;
            if (bias) shift += *(const vf32 *)(bias + j);
            x = __builtin_convertvector(*(const whole_i32 *)(tile + j), vf32) * scale + shift;
            x = below_f32(above_f32(x, low), high);
            near = (x + 12582912.0f) - 12582912.0f;
            const bytes_s8 made = __builtin_convertvector(__builtin_convertvector(near, whole_i32), bytes_s8);
            memcpy(c + j, &made, sizeof made);
            if (!at_most_f32(magnitude_f32(x - near) + magnitude_f32(shift) * 0x1p-22f, 0.5f - 0x1p-13f))
                fg_requantise_exactly(q, j, j + FG_SINGLES, tile, c, step, row, column);
        }
        if (j < columns) fg_requantise_exactly(q, j, columns, tile, c, step, row, column);
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
