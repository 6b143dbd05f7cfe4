"""Adding up the lanes of many vectors at once, for dot products.

``join1`` of two vectors zips them inside each 16 bytes and adds: half of the partial sums of each.  Stages follow by
number until a vector holds one number of each of as many vectors as it has lanes, in their order: stage s joins results
2i and 2i + 1 of stage s - 1.  A vector may be joined with itself where there is no other.  Every vector's lanes are
added in the same order, wherever in the row of vectors it stands.
"""

from fastgemm.kernels.numbers cimport vi16, vi32, vi64
from fastgemm.kernels.simd cimport vf32, vf64

cdef extern from *:
    """
    #ifndef FASTGEMM_JOINED
    #define FASTGEMM_JOINED
    /* The two halves of what is added, by instructions of one or two a cycle that move numbers inside 16 bytes
       (UNPACK), then pieces of 16 bytes (PIECES). */
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512F__)
    #define FG_UNPACK_32(end, x, y) (vf32)_mm512_unpack##end##_ps((__m512)(x), (__m512)(y))
    #define FG_UNPACK_64(end, x, y) (vf64)_mm512_unpack##end##_pd((__m512d)(x), (__m512d)(y))
    #define FG_PIECES(x, y, order) _mm512_shuffle_f64x2((__m512d)(x), (__m512d)(y), order)
    #elif FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
    #define FG_UNPACK_32(end, x, y) (vf32)_mm256_unpack##end##_ps((__m256)(x), (__m256)(y))
    #define FG_UNPACK_64(end, x, y) (vf64)_mm256_unpack##end##_pd((__m256d)(x), (__m256d)(y))
    #define FG_PIECES(x, y, order) _mm256_permute2f128_pd((__m256d)(x), (__m256d)(y), order)
    #else
    #define FG_UNPACK_32(end, x, y) (vf32)_mm_unpack##end##_ps((__m128)(x), (__m128)(y))
    #define FG_UNPACK_64(end, x, y) (vf64)_mm_unpack##end##_pd((__m128d)(x), (__m128d)(y))
    #endif
    #define FG_JOIN(stage, S, LOW, HIGH) \\
    static inline v##S join##stage##_##S(v##S x, v##S y) { return (v##S)(LOW) + (v##S)(HIGH); }
    #define FG_JOINS_32(S) \\
    FG_JOIN(1, S, FG_UNPACK_32(lo, x, y), FG_UNPACK_32(hi, x, y)) \\
    FG_JOIN(2, S, FG_UNPACK_64(lo, x, y), FG_UNPACK_64(hi, x, y))
    #define FG_JOINS_64(S) FG_JOIN(1, S, FG_UNPACK_64(lo, x, y), FG_UNPACK_64(hi, x, y))
    FG_JOINS_32(f32)
    FG_JOINS_32(i32)
    FG_JOINS_64(f64)
    FG_JOINS_64(i64)
    #if FASTGEMM_VECTOR_BYTES == 64
    #define FG_JOIN_PIECES(first, second, S) \\
    FG_JOIN(first, S, FG_PIECES(x, y, 0x44), FG_PIECES(x, y, 0xEE)) \\
    FG_JOIN(second, S, FG_PIECES(x, y, 0x88), FG_PIECES(x, y, 0xDD))
    #elif FASTGEMM_VECTOR_BYTES == 32
    #define FG_JOIN_PIECES(first, second, S) FG_JOIN(first, S, FG_PIECES(x, y, 0x20), FG_PIECES(x, y, 0x31))
    #else
    #define FG_JOIN_PIECES(first, second, S)
    #endif
    FG_JOIN_PIECES(3, 4, f32)
    FG_JOIN_PIECES(3, 4, i32)
    FG_JOIN_PIECES(2, 3, f64)
    FG_JOIN_PIECES(2, 3, i64)

    /* Modulo 2**16, in the lower half of each lane. */
    static inline vi32 pairs_added(vi16 x) { return (vi32)x + ((vi32)x >> 16); }
    #endif
    """
    vf32 join1_f32(vf32, vf32) nogil
    vf32 join2_f32(vf32, vf32) nogil
    vf32 join3_f32(vf32, vf32) nogil
    vf32 join4_f32(vf32, vf32) nogil
    vf64 join1_f64(vf64, vf64) nogil
    vf64 join2_f64(vf64, vf64) nogil
    vf64 join3_f64(vf64, vf64) nogil
    vi32 join1_i32(vi32, vi32) nogil
    vi32 join2_i32(vi32, vi32) nogil
    vi32 join3_i32(vi32, vi32) nogil
    vi32 join4_i32(vi32, vi32) nogil
    vi64 join1_i64(vi64, vi64) nogil
    vi64 join2_i64(vi64, vi64) nogil
    vi64 join3_i64(vi64, vi64) nogil
    vi32 pairs_added(vi16) nogil
