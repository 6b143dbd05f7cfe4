"""Dot products inside a lane: several numbers of k in 32 bits of both operands, one sum in 32 bits.

``pairs`` multiplies 16-bit numbers, which hold any difference of bytes, so it needs no corrections; ``vnni`` four
unsigned bytes of A with four signed ones of B; ``bf16`` two halves.  All but the last add without saturation, modulo
2**32.  ``bf16`` rounds after each product to the nearest and takes subnormal numbers for zero, in A, B and the sum.
"""

from fastgemm.driver.abi cimport quant_t
from fastgemm.kernels.numbers cimport vi32
from fastgemm.kernels.rounding cimport larger_of_positive  # its C comes first
from fastgemm.kernels.simd cimport vf32

cdef extern from *:
    """
    #ifndef FASTGEMM_DOT
    #define FASTGEMM_DOT
    /* Columns j : end of a row as QuantizeLinear defines them: in double, to the nearest, ties to even, and then the
       zero point.  (All that come near to a tie are done here.) */
    static void __attribute__((noinline, unused)) fg_requantise_exactly(
            const quant_t *q, Py_ssize_t j, Py_ssize_t end, const int *tile, signed char *c, Py_ssize_t step,
            Py_ssize_t row, Py_ssize_t column) {
        const float left = q->left[row * q->left_step], *right = q->right + column * q->right_step;
        const float y = q->scale[row * q->scale_step];
        const double zero = q->zero[row * q->zero_step], low = q->low, high = q->high;
        const float *bias = q->bias ? q->bias + column : NULL;
        for (; j < end; j++) {
            const float scale = q->both ? left * right[j * q->right_step] / y : left * right[j * q->right_step];
            double x = __builtin_rint(tile[j] * (double)scale + (bias ? bias[j] : 0)) + zero;
            x = x < low ? low : x > high ? high : x;
            c[j * step] = (signed char)(int)x;
        }
    }
    /* The same numbers, in float32 where that is enough.  With u = 2^-24 and |result| <= 256 (beyond, it is cut off
       anyhow) float32 is off by u * |shift| for the shift and 128 u for the result, at most, and by u * (256 + |shift|)
       for a sum that it cannot hold, and, without multiply-adds, as much for its product.  So a result that lies
       further from a tie, by this and a tenth, is rounded as the double would be.  Of
       vectors of 16 whose results end anywhere between whole numbers one in 3700 is done once more, one in 740 where
       both are off (shifts that are small beside 256; a profile of MLP_1 512 had 8 % there on an Emerald Rapids). */
    static inline vf32 scaled_shifted(vf32 x, vf32 scale, vf32 shift) {
    /* (By instructions: the bound counts on one rounding, which gcc makes of an expression from -O2 on.) */
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512F__)
    #define FG_ROUNDINGS 1
        return (vf32)_mm512_fmadd_ps((__m512)x, (__m512)scale, (__m512)shift);
    #elif FASTGEMM_VECTOR_BYTES == 32 && defined(__FMA__)
    #define FG_ROUNDINGS 1
        return (vf32)_mm256_fmadd_ps((__m256)x, (__m256)scale, (__m256)shift);
    #else
    #define FG_ROUNDINGS 2
        return x * scale + shift;
    #endif
    }
    static inline float quant_slack(const quant_t *q) { return FG_ROUNDINGS + !q->exact; }
    static inline vf32 some_f32(const float *p, int n) { return n == FG_SINGLES ? *(const vf32 *)p : part_f32(p, n); }
    static inline vf32 quant_scale(const quant_t *q, Py_ssize_t column, int n) {
        vf32 scale = (vf32){0} + *q->left;
        if (q->right_step) scale *= some_f32(q->right + column, n);
        else scale *= (vf32){0} + *q->right;
        if (q->both) scale /= (vf32){0} + *q->scale;
        return scale;
    }
    static inline vf32 quant_shift(const quant_t *q, float lift, Py_ssize_t column, int n) {
        vf32 shift = (vf32){0} + (*q->zero + lift);
        if (q->bias) shift += some_f32(q->bias + column, n);
        return shift;
    }
    /* Writes the first n results; returns how far from whole numbers they, and those before, were at most. */
    static inline vf32 quantised(
            vi32 sums, vf32 scale, vf32 shift, vf32 low, vf32 high, signed char *c, int n, vf32 far) {
        const vf32 exact = scaled_shifted(__builtin_convertvector((whole_i32)sums, vf32), scale, shift);
        const vf32 x = below_f32(above_f32(exact, low), high), lift = (vf32){0} + 12582912.0f, lifted = x + lift;
        const bytes_s8 made = lowest_bytes(lifted);
        if (n == FG_SINGLES) memcpy(c, &made, sizeof made);
        else memcpy(c, &made, n);
        return larger_magnitude(fraction_of(x, lifted, lift), far);
    }
    /* How close to a tie results of a column come, beside those `before`.  (What is no number is lost on the way to
       `far`; a scale that is none, or infinite, makes one here, whose sign the CPU sets.) */
    static inline vf32 doubt_of(vf32 far, vf32 scale, vf32 shift, float slack, vf32 before) {
        const vf32 off = magnitude_f32(shift) * (slack * 1.1f * 0x1p-24f) + (slack * 282 - 141) * 0x1p-24f;
        return larger_of_positive(magnitude_f32(far + (off + scale * 0)), before);
    }
    static inline int settled(vf32 doubt) { return at_most_f32(doubt, 0.5f); }
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512BW__)
    /* The same of up to four vectors of a row together, whose bytes are joined before they are cut off at the ends:
       results as they are, how far from whole numbers those of a vector are, and the bytes.  Results are between 0 and
       255 here, signed ones 128 higher than they are (`quant_lift`, to be part of the shift).
       (A vector by itself takes eleven operations, four together seven each, and an Intel has two units for them.
       Cascade Lake, one thread, `bench/breakdown.py`: MLP_1 512, the layer of 13 x 512, 110 us, so 90.) */
    static inline float quant_lift(const quant_t *q) { return q->low < 0 ? 128 : 0; }
    static inline vf32 result_i32(vi32 sums, vf32 scale, vf32 shift) {
        return scaled_shifted(__builtin_convertvector((whole_i32)sums, vf32), scale, shift);
    }
    static inline vf32 further_f32(vf32 x, vf32 far) {
        return larger_magnitude((vf32)_mm512_reduce_ps((__m512)x, 0), far);
    }
    typedef struct { __m512i low, high, lift, order; __mmask64 live; } ends_t;
    static inline ends_t ends_of(const quant_t *q, Py_ssize_t columns) {
        const int lift = (int)quant_lift(q);
        return (ends_t){
            _mm512_set1_epi8((char)((int)q->low + lift)), _mm512_set1_epi8((char)((int)q->high + lift)),
            _mm512_set1_epi8((char)lift),
            _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), ~0ull >> (64 - columns)};
    }
    static inline void store_results(signed char *c, vf32 x0, vf32 x1, vf32 x2, vf32 x3, const ends_t *ends) {
        const __m512i w0 = _mm512_cvtps_epi32((__m512)x0), w1 = _mm512_cvtps_epi32((__m512)x1);
        const __m512i w2 = _mm512_cvtps_epi32((__m512)x2), w3 = _mm512_cvtps_epi32((__m512)x3);
        __m512i made = _mm512_packus_epi16(_mm512_packs_epi32(w0, w1), _mm512_packs_epi32(w2, w3));
        made = _mm512_min_epu8(_mm512_max_epu8(made, ends->low), ends->high);
        made = _mm512_xor_si512(_mm512_permutexvar_epi32(ends->order, made), ends->lift);
        _mm512_mask_storeu_epi8(c, ends->live, made);
    }
    /* What else is in doubt there: results that may be no whole numbers of 32 bits (a larger shift is in doubt). */
    static inline vf32 large_scale(vf32 scale) {
        return (vf32)_mm512_maskz_mov_ps(
            _mm512_cmp_ps_mask((__m512)magnitude_f32(scale), _mm512_set1_ps(0.25f), _CMP_NLE_UQ), _mm512_set1_ps(1));
    }
    #endif
    /* n columns of rows of sums.  Their terms are made once for all rows, of which a division is most, unless rows have
       terms of their own. */
    static inline __attribute__((always_inline)) void requantise_columns(
            const quant_t *q, Py_ssize_t rows, const int *sums, Py_ssize_t rs_sums, signed char *c, Py_ssize_t rs_c,
            Py_ssize_t row, Py_ssize_t column, int n) {
        const int of_rows = q->left_step || q->scale_step || q->zero_step;
        const float slack = quant_slack(q);
        const vf32 nothing = {0}, low = nothing + (float)q->low, high = nothing + (float)q->high;
        quant_t here = *q;
        here.left += row * q->left_step;
        here.scale += row * q->scale_step;
        here.zero += row * q->zero_step;
        vf32 scale = quant_scale(&here, column, n), shift = quant_shift(&here, 0, column, n);
        for (Py_ssize_t i = 0; i < rows; i++, sums += rs_sums, c += rs_c) {
            const vi32 some = n == FG_SINGLES ? *(const vi32 *)sums : part_i32((const unsigned *)sums, n);
            if (of_rows && i) {
                here.left += q->left_step;
                here.scale += q->scale_step;
                here.zero += q->zero_step;
                scale = quant_scale(&here, column, n), shift = quant_shift(&here, 0, column, n);
            }
            const vf32 far = quantised(some, scale, shift, low, high, c, n, nothing);
            if (!settled(doubt_of(far, scale, shift, slack, nothing)))
                fg_requantise_exactly(q, 0, n, sums, c, 1, row + i, column);
        }
    }
    /* Rows of sums, to bytes `step` apart. */
    static inline void fg_requantise(const quant_t *q, Py_ssize_t rows, Py_ssize_t columns, const int *tile,
                                     Py_ssize_t rs_tile, signed char *c, Py_ssize_t rs_c, Py_ssize_t step,
                                     Py_ssize_t row, Py_ssize_t column) {
        Py_ssize_t j = 0;
        if (step != 1) {
            for (; j < rows; j++)
                fg_requantise_exactly(q, 0, columns, tile + j * rs_tile, c + j * rs_c, step, row + j, column);
            return;
        }
        for (; j + FG_SINGLES <= columns; j += FG_SINGLES)
            requantise_columns(q, rows, tile + j, rs_tile, c + j, rs_c, row, column + j, FG_SINGLES);
        if (j < columns)
            requantise_columns(q, rows, tile + j, rs_tile, c + j, rs_c, row, column + j, (int)(columns - j));
    }
    /* Sums as floats, scaled, in the lanes that they had. */
    static inline vf32 scaled_i32(vi32 sums, vf32 scale) {
        return __builtin_convertvector((whole_i32)sums, vf32) * scale;
    }
    #define lanes_of_f32(v) ((vi32)(v))
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
    void requantise "fg_requantise"(const quant_t*, Py_ssize_t rows, Py_ssize_t columns, const int*, Py_ssize_t,
                                    signed char*, Py_ssize_t rs_c, Py_ssize_t cs_c, Py_ssize_t, Py_ssize_t) nogil
    # What the quantised product does with a column's terms, with a vector of sums, and whether float32 was enough.
    vf32 quant_scale(const quant_t*, Py_ssize_t column, int n) nogil
    vf32 quant_shift(const quant_t*, float lift, Py_ssize_t column, int n) nogil
    vf32 quantised(vi32 sums, vf32 scale, vf32 shift, vf32 low, vf32 high, signed char*, int n, vf32 far) nogil
    float quant_slack(const quant_t*) nogil
    vf32 doubt_of(vf32 far, vf32 scale, vf32 shift, float slack, vf32 before) nogil
    bint settled(vf32 doubt) nogil
    ctypedef struct ends_t:
        pass
    float quant_lift(const quant_t*) nogil
    ends_t ends_of(const quant_t*, Py_ssize_t columns) nogil
    vf32 result_i32(vi32 sums, vf32 scale, vf32 shift) nogil
    vf32 further_f32(vf32 result, vf32 far) nogil
    void store_results(signed char*, vf32, vf32, vf32, vf32, const ends_t*) nogil
    vf32 large_scale(vf32 scale) nogil
    vf32 some_f32(const float*, int n) nogil
    vf32 scaled_i32(vi32, vf32) nogil
    vi32 lanes_of_f32(vf32) nogil
    vi32 dots_pairs(vi32, vi32, vi32) nogil
    vi32 dots_vnni(vi32, vi32, vi32) nogil
    vf32 dots_bf16(vf32, vi32, vi32) nogil
