"""Several rows in one vector: how the narrow kernels of the small family fill their lanes.

A row of C with W real components (2, 4 or 8, below a vector's length L) leaves most of a vector empty, so
L / W rows share one.  A step of k then needs A's numbers, each repeated over the W lanes of its row.  They are
loaded Q = min(W, 16 bytes) at a time, one 16-byte lane (or half of it) a row, and `lane_...` repeats the s-th of
them inside its lane, which is the cheapest of all shuffles:

    rows_f32_8    a0 a1 a2 a3  a0 a1 a2 a3 | b0 b1 b2 b3  b0 b1 b2 b3       rows a and b of A, four steps of k
    lane_f32_4_1  a1 a1 a1 a1  a1 a1 a1 a1 | b1 b1 b1 b1  b1 b1 b1 b1       the second step
    repeat_f32_8  row of B                 | the same row

The lanes of rows past `live` repeat the last live row, and the first `dead` of the Q numbers are not read: no
byte outside the operand is touched, and no lane raises a floating-point flag that a live one does not raise.
"""

from fastgemm.kernels.numbers cimport vi32, vi64
from fastgemm.kernels.simd cimport vf32, vf64

cdef extern from *:
    """
    #ifndef FASTGEMM_LANES
    #define FASTGEMM_LANES
    #include <stddef.h>
    typedef int order32 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(4), may_alias));
    typedef long long order64 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(8), may_alias));
    static inline order32 load_order32(const int *p) { return *(const order32 *)p; }
    static inline order64 load_order64(const long long *p) { return *(const order64 *)p; }
    /* Lanes from where they were, but none behind `last`. */
    static inline order32 until32(order32 from, int last) {
        order32 limit = (order32){0} + last, before = from < limit;
        return (from & before) | (limit & ~before);
    }
    static inline order64 until64(order64 from, long long last) {
        order64 limit = (order64){0} + last, before = from < limit;
        return (from & before) | (limit & ~before);
    }
    #if !defined(__clang__)
    static inline vf32 pick_f32(vf32 v, order32 from) { return __builtin_shuffle(v, from); }
    static inline vf64 pick_f64(vf64 v, order64 from) { return __builtin_shuffle(v, from); }
    #elif FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512F__)
    static inline vf32 pick_f32(vf32 v, order32 from) {
        return (vf32)_mm512_permutexvar_ps((__m512i)from, (__m512)v);
    }
    static inline vf64 pick_f64(vf64 v, order64 from) {
        return (vf64)_mm512_permutexvar_pd((__m512i)from, (__m512d)v);
    }
    #else
    static inline vf32 pick_f32(vf32 v, order32 from) {
        vf32 made = v;
        for (int i = 0; i < (int)(sizeof v / 4); i++) made[i] = v[from[i]];
        return made;
    }
    static inline vf64 pick_f64(vf64 v, order64 from) {
        vf64 made = v;
        for (int i = 0; i < (int)(sizeof v / 8); i++) made[i] = v[from[i]];
        return made;
    }
    #endif
    /* The same from two vectors: lanes of `high` are counted on from those of `low`. */
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512F__)
    static inline vf32 pick2_f32(vf32 low, vf32 high, order32 from) {
        return (vf32)_mm512_permutex2var_ps((__m512)low, (__m512i)from, (__m512)high);
    }
    static inline vf64 pick2_f64(vf64 low, vf64 high, order64 from) {
        return (vf64)_mm512_permutex2var_pd((__m512d)low, (__m512i)from, (__m512d)high);
    }
    #endif
    /* Lanes at, at + 1, ... of v, each `width` times; both are constants where this is called. */
    static inline vf32 spread_f32(vf32 v, int width, int at) {
        order32 from = {0};
        for (int i = 0; i < (int)(sizeof v / 4); i++) from[i] = at + i / width;
        return pick_f32(v, from);
    }
    static inline vf64 spread_f64(vf64 v, int width, int at) {
        order64 from = {0};
        for (int i = 0; i < (int)(sizeof v / 8); i++) from[i] = at + i / width;
        return pick_f64(v, from);
    }

    static inline vf32 low_f32(vf32 a, vf32 b) { return FG_32(FG_LOW)(order_f32, a, b); }
    static inline vf32 high_f32(vf32 a, vf32 b) { return FG_32(FG_HIGH)(order_f32, a, b); }
    static inline vf64 low_f64(vf64 a, vf64 b) { return FG_64(FG_LOW)(order_f64, a, b); }
    static inline vf64 high_f64(vf64 a, vf64 b) { return FG_64(FG_HIGH)(order_f64, a, b); }

    #define FG_ROW(i) (a + ((i) < live ? (i) : live - 1) * rs)
    static inline __m128d fg_pair_f32(const float *p, int dead) {
        return _mm_castps_pd(dead ? _mm_setr_ps(0, p[1], 0, 0) : _mm_castpd_ps(_mm_load_sd((const double *)p)));
    }
    static inline __m128d fg_pair_f64(const double *p, int dead) {
        return dead ? _mm_loadh_pd(_mm_setzero_pd(), p + 1) : _mm_loadu_pd(p);
    }
    static inline __m128d fg_pairs_f32(const float *p, const float *q, int dead) {
        return _mm_unpacklo_pd(fg_pair_f32(p, dead), fg_pair_f32(q, dead));
    }
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512F__)
    /* Inserts, not masked moves: those of two lanes end in an internal error of gcc 12. */
    static inline __m128 fg_quad_f32(const float *p, int dead) {
        return dead ? _mm_maskz_loadu_ps((__mmask8)(15 << dead), p) : _mm_loadu_ps(p);
    }
    static inline vf32 rows_f32_8(const float *a, ptrdiff_t rs, int live, int dead) {
        __m256 first = _mm256_broadcast_f32x4(fg_quad_f32(a, dead));
        __m256 second = _mm256_broadcast_f32x4(fg_quad_f32(FG_ROW(1), dead));
        return (vf32)_mm512_insertf32x8(_mm512_castps256_ps512(first), second, 1);
    }
    static inline vf32 rows_f32_4(const float *a, ptrdiff_t rs, int live, int dead) {
        __m512 v = _mm512_castps128_ps512(fg_quad_f32(a, dead));
        v = _mm512_insertf32x4(v, fg_quad_f32(FG_ROW(1), dead), 1);
        v = _mm512_insertf32x4(v, fg_quad_f32(FG_ROW(2), dead), 2);
        return (vf32)_mm512_insertf32x4(v, fg_quad_f32(FG_ROW(3), dead), 3);
    }
    static inline vf32 rows_f32_2(const float *a, ptrdiff_t rs, int live, int dead) {
        __m512d v = _mm512_castpd128_pd512(fg_pairs_f32(a, FG_ROW(1), dead));
        v = _mm512_insertf64x2(v, fg_pairs_f32(FG_ROW(2), FG_ROW(3), dead), 1);
        v = _mm512_insertf64x2(v, fg_pairs_f32(FG_ROW(4), FG_ROW(5), dead), 2);
        return (vf32)_mm512_insertf64x2(v, fg_pairs_f32(FG_ROW(6), FG_ROW(7), dead), 3);
    }
    static inline vf64 rows_f64_4(const double *a, ptrdiff_t rs, int live, int dead) {
        __m256d first = _mm256_broadcast_f64x2(fg_pair_f64(a, dead));
        __m256d second = _mm256_broadcast_f64x2(fg_pair_f64(FG_ROW(1), dead));
        return (vf64)_mm512_insertf64x4(_mm512_castpd256_pd512(first), second, 1);
    }
    static inline vf64 rows_f64_2(const double *a, ptrdiff_t rs, int live, int dead) {
        __m512d v = _mm512_castpd128_pd512(fg_pair_f64(a, dead));
        v = _mm512_insertf64x2(v, fg_pair_f64(FG_ROW(1), dead), 1);
        v = _mm512_insertf64x2(v, fg_pair_f64(FG_ROW(2), dead), 2);
        return (vf64)_mm512_insertf64x2(v, fg_pair_f64(FG_ROW(3), dead), 3);
    }
    static inline vf32 repeat_f32_8(const float *b) { return (vf32)_mm512_broadcast_f32x8(_mm256_loadu_ps(b)); }
    static inline vf32 repeat_f32_4(const float *b) { return (vf32)_mm512_broadcast_f32x4(_mm_loadu_ps(b)); }
    static inline vf32 repeat_f32_2(const float *b) {
        return (vf32)_mm512_broadcastsd_pd(_mm_load_sd((const double *)b));
    }
    static inline vf64 repeat_f64_4(const double *b) { return (vf64)_mm512_broadcast_f64x4(_mm256_loadu_pd(b)); }
    static inline vf64 repeat_f64_2(const double *b) { return (vf64)_mm512_broadcast_f64x2(_mm_loadu_pd(b)); }
    /* Of whole rows, two to a vector: lanes 0 and 2 doubled, or lanes 1 and 3. */
    #define half_f32_0(v) ((vf32)_mm512_shuffle_f32x4((__m512)(v), (__m512)(v), 0xa0))
    #define half_f32_1(v) ((vf32)_mm512_shuffle_f32x4((__m512)(v), (__m512)(v), 0xf5))
    #define half_f64_0(v) ((vf64)_mm512_shuffle_f64x2((__m512d)(v), (__m512d)(v), 0xa0))
    #define half_f64_1(v) ((vf64)_mm512_shuffle_f64x2((__m512d)(v), (__m512d)(v), 0xf5))
    #define FG_LANES_f32(v, imm) ((vf32)_mm512_permute_ps((__m512)(v), imm))
    #define FG_LANES_f64(v, imm) ((vf64)_mm512_permute_pd((__m512d)(v), imm))
    #elif FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
    static inline __m128 fg_quad_f32(const float *p, int dead) {
        static const int window[8] = {0, 0, 0, 0, -1, -1, -1, -1};
        return dead ? _mm_maskload_ps(p, _mm_loadu_si128((const __m128i *)(window + 4 - dead))) : _mm_loadu_ps(p);
    }
    static inline vf32 rows_f32_4(const float *a, ptrdiff_t rs, int live, int dead) {
        return (vf32)_mm256_set_m128(fg_quad_f32(FG_ROW(1), dead), fg_quad_f32(a, dead));
    }
    static inline vf32 rows_f32_2(const float *a, ptrdiff_t rs, int live, int dead) {
        return (vf32)_mm256_set_m128d(fg_pairs_f32(FG_ROW(2), FG_ROW(3), dead), fg_pairs_f32(a, FG_ROW(1), dead));
    }
    static inline vf64 rows_f64_2(const double *a, ptrdiff_t rs, int live, int dead) {
        return (vf64)_mm256_set_m128d(fg_pair_f64(FG_ROW(1), dead), fg_pair_f64(a, dead));
    }
    static inline vf32 repeat_f32_4(const float *b) { return (vf32)_mm256_broadcast_ps((const __m128 *)b); }
    static inline vf32 repeat_f32_2(const float *b) { return (vf32)_mm256_broadcast_sd((const double *)b); }
    static inline vf64 repeat_f64_2(const double *b) { return (vf64)_mm256_broadcast_pd((const __m128d *)b); }
    #define FG_LANES_f32(v, imm) ((vf32)_mm256_permute_ps((__m256)(v), imm))
    #define FG_LANES_f64(v, imm) ((vf64)_mm256_permute_pd((__m256d)(v), (imm) & 15))
    #else
    static inline vf32 rows_f32_2(const float *a, ptrdiff_t rs, int live, int dead) {
        return (vf32)fg_pairs_f32(a, FG_ROW(1), dead);
    }
    static inline vf32 repeat_f32_2(const float *b) {
        __m128d pair = _mm_load_sd((const double *)b);
        return (vf32)_mm_unpacklo_pd(pair, pair);
    }
    #define FG_LANES_f32(v, imm) ((vf32)_mm_shuffle_ps((__m128)(v), (__m128)(v), imm))
    #define FG_LANES_f64(v, imm) ((vf64)_mm_shuffle_pd((__m128d)(v), (__m128d)(v), (imm) & 3))
    #endif
    #define lane_f32_4_0(v) FG_LANES_f32(v, 0x00)
    #define lane_f32_4_1(v) FG_LANES_f32(v, 0x55)
    #define lane_f32_4_2(v) FG_LANES_f32(v, 0xaa)
    #define lane_f32_4_3(v) FG_LANES_f32(v, 0xff)
    #define lane_f32_2_0(v) FG_LANES_f32(v, 0xa0)
    #define lane_f32_2_1(v) FG_LANES_f32(v, 0xf5)
    #define lane_f64_2_0(v) FG_LANES_f64(v, 0x00)
    #define lane_f64_2_1(v) FG_LANES_f64(v, 0xff)
    /* Whole numbers move as floats do. */
    #define fused_i32(acc, x, y) ((acc) + (x) * (y))
    #define fused_i64(acc, x, y) ((acc) + (x) * (y))
    #define pick_i32(v, from) ((vi32)pick_f32((vf32)(v), from))
    #define low_i32(a, b) ((vi32)low_f32((vf32)(a), (vf32)(b)))
    #define high_i32(a, b) ((vi32)high_f32((vf32)(a), (vf32)(b)))
    #define rows_i32_2(a, rs, live, dead) ((vi32)rows_f32_2((const float *)(a), rs, live, dead))
    #define repeat_i32_2(b) ((vi32)repeat_f32_2((const float *)(b)))
    #define rows_i32_4(a, rs, live, dead) ((vi32)rows_f32_4((const float *)(a), rs, live, dead))
    #define repeat_i32_4(b) ((vi32)repeat_f32_4((const float *)(b)))
    #define rows_i32_8(a, rs, live, dead) ((vi32)rows_f32_8((const float *)(a), rs, live, dead))
    #define repeat_i32_8(b) ((vi32)repeat_f32_8((const float *)(b)))
    #define half_i32_0(v) ((vi32)half_f32_0(v))
    #define half_i32_1(v) ((vi32)half_f32_1(v))
    #define lane_i32_4_0(v) ((vi32)lane_f32_4_0(v))
    #define lane_i32_4_1(v) ((vi32)lane_f32_4_1(v))
    #define lane_i32_4_2(v) ((vi32)lane_f32_4_2(v))
    #define lane_i32_4_3(v) ((vi32)lane_f32_4_3(v))
    #define lane_i32_2_0(v) ((vi32)lane_f32_2_0(v))
    #define lane_i32_2_1(v) ((vi32)lane_f32_2_1(v))
    #define pick_i64(v, from) ((vi64)pick_f64((vf64)(v), from))
    #define low_i64(a, b) ((vi64)low_f64((vf64)(a), (vf64)(b)))
    #define high_i64(a, b) ((vi64)high_f64((vf64)(a), (vf64)(b)))
    #define rows_i64_2(a, rs, live, dead) ((vi64)rows_f64_2((const double *)(a), rs, live, dead))
    #define repeat_i64_2(b) ((vi64)repeat_f64_2((const double *)(b)))
    #define rows_i64_4(a, rs, live, dead) ((vi64)rows_f64_4((const double *)(a), rs, live, dead))
    #define repeat_i64_4(b) ((vi64)repeat_f64_4((const double *)(b)))
    #define half_i64_0(v) ((vi64)half_f64_0(v))
    #define half_i64_1(v) ((vi64)half_f64_1(v))
    #define lane_i64_2_0(v) ((vi64)lane_f64_2_0(v))
    #define lane_i64_2_1(v) ((vi64)lane_f64_2_1(v))
    #endif
    """
    ctypedef int order32
    ctypedef long long order64
    order32 load_order32(const int*) nogil
    order64 load_order64(const long long*) nogil
    order32 until32(order32, int last) nogil
    order64 until64(order64, long long last) nogil
    vf32 spread_f32(vf32, int, int) nogil
    vf64 spread_f64(vf64, int, int) nogil
    vf32 pick_f32(vf32, order32) nogil
    vf64 pick_f64(vf64, order64) nogil
    vf32 pick2_f32(vf32, vf32, order32) nogil
    vf64 pick2_f64(vf64, vf64, order64) nogil
    vf32 low_f32(vf32, vf32) nogil
    vf32 high_f32(vf32, vf32) nogil
    vf64 low_f64(vf64, vf64) nogil
    vf64 high_f64(vf64, vf64) nogil
    vf32 rows_f32_2(const float*, Py_ssize_t rs, int live, int dead) nogil
    vf32 rows_f32_4(const float*, Py_ssize_t rs, int live, int dead) nogil
    vf32 rows_f32_8(const float*, Py_ssize_t rs, int live, int dead) nogil
    vf64 rows_f64_2(const double*, Py_ssize_t rs, int live, int dead) nogil
    vf64 rows_f64_4(const double*, Py_ssize_t rs, int live, int dead) nogil
    vf32 repeat_f32_2(const float*) nogil
    vf32 repeat_f32_4(const float*) nogil
    vf32 repeat_f32_8(const float*) nogil
    vf64 repeat_f64_2(const double*) nogil
    vf64 repeat_f64_4(const double*) nogil
    vf32 half_f32_0(vf32) nogil
    vf32 half_f32_1(vf32) nogil
    vf64 half_f64_0(vf64) nogil
    vf64 half_f64_1(vf64) nogil
    vf32 lane_f32_4_0(vf32) nogil
    vf32 lane_f32_4_1(vf32) nogil
    vf32 lane_f32_4_2(vf32) nogil
    vf32 lane_f32_4_3(vf32) nogil
    vf32 lane_f32_2_0(vf32) nogil
    vf32 lane_f32_2_1(vf32) nogil
    vf64 lane_f64_2_0(vf64) nogil
    vf64 lane_f64_2_1(vf64) nogil
    vi32 fused_i32(vi32, vi32, vi32) nogil
    vi32 pick_i32(vi32, order32) nogil
    vi32 low_i32(vi32, vi32) nogil
    vi32 high_i32(vi32, vi32) nogil
    vi32 rows_i32_2(const unsigned int*, Py_ssize_t rs, int live, int dead) nogil
    vi32 repeat_i32_2(const unsigned int*) nogil
    vi32 rows_i32_4(const unsigned int*, Py_ssize_t rs, int live, int dead) nogil
    vi32 repeat_i32_4(const unsigned int*) nogil
    vi32 rows_i32_8(const unsigned int*, Py_ssize_t rs, int live, int dead) nogil
    vi32 repeat_i32_8(const unsigned int*) nogil
    vi32 half_i32_0(vi32) nogil
    vi32 half_i32_1(vi32) nogil
    vi32 lane_i32_4_0(vi32) nogil
    vi32 lane_i32_4_1(vi32) nogil
    vi32 lane_i32_4_2(vi32) nogil
    vi32 lane_i32_4_3(vi32) nogil
    vi32 lane_i32_2_0(vi32) nogil
    vi32 lane_i32_2_1(vi32) nogil
    vi64 fused_i64(vi64, vi64, vi64) nogil
    vi64 pick_i64(vi64, order64) nogil
    vi64 low_i64(vi64, vi64) nogil
    vi64 high_i64(vi64, vi64) nogil
    vi64 rows_i64_2(const unsigned long long*, Py_ssize_t rs, int live, int dead) nogil
    vi64 repeat_i64_2(const unsigned long long*) nogil
    vi64 rows_i64_4(const unsigned long long*, Py_ssize_t rs, int live, int dead) nogil
    vi64 repeat_i64_4(const unsigned long long*) nogil
    vi64 half_i64_0(vi64) nogil
    vi64 half_i64_1(vi64) nogil
    vi64 lane_i64_2_0(vi64) nogil
    vi64 lane_i64_2_1(vi64) nogil
