"""Vectors of float32 from and to what rows are stored as: a kind of `row_operations.ROW_TYPES` each.

``read`` and ``write`` take the first n numbers of a vector; lanes behind them are zeros.  Bytes are quantised: `read`
gives ``(number - zero) * scale``, `near` and `exact` write the nearest number to ``x / scale + zero`` (ties to even)
that a byte holds.
"""

from fastgemm.kernels.rounding cimport larger_of_positive  # its C comes first
from fastgemm.kernels.simd cimport vf32, vf64
from fastgemm.kernels.stored cimport long_s8, narrow_bf16, narrow_f16, widen_bf16, widen_f16  # and its C

cdef extern from *:
    """
    #ifndef FASTGEMM_ROWS
    #define FASTGEMM_ROWS
    #include <float.h>
    enum { FG_ROW = FASTGEMM_VECTOR_BYTES / 4 };
    typedef int row_i32 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(4), may_alias));

    typedef long long row_i64 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(8), may_alias));

    #define FASTGEMM_FIRST_OF(V, INTEGERS, NAME) \\
    static inline V NAME(V v, int n, V other) { \\
        INTEGERS lane; \\
        for (int i = 0; i < (int)(sizeof v / sizeof v[0]); i++) lane[i] = i; \\
        const INTEGERS live = lane < n; \\
        return (V)(((INTEGERS)v & live) | ((INTEGERS)other & ~live)); \\
    }
    FASTGEMM_FIRST_OF(vf32, row_i32, first_f32)
    FASTGEMM_FIRST_OF(vf64, row_i64, first_f64)
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512F__)
    static inline float largest_f32(vf32 v) { return _mm512_reduce_max_ps((__m512)v); }
    /* The largest numbers, or the sums (sum_f32's, to the bit), of four vectors. */
    #define FASTGEMM_OF_FOUR(NAME, OP) \\
    static inline void NAME(float *to, vf32 a, vf32 b, vf32 c, vf32 d) { \\
        const __m512 v = (__m512)a, w = (__m512)b, x = (__m512)c, y = (__m512)d; \\
        const __m512 vw = OP(_mm512_shuffle_f32x4(v, w, 0x44), _mm512_shuffle_f32x4(v, w, 0xee)); \\
        const __m512 xy = OP(_mm512_shuffle_f32x4(x, y, 0x44), _mm512_shuffle_f32x4(x, y, 0xee)); \\
        __m512 all = OP(_mm512_shuffle_f32x4(vw, xy, 0x88), _mm512_shuffle_f32x4(vw, xy, 0xdd)); \\
        all = OP(all, _mm512_permute_ps(all, 0x4e)); \\
        all = OP(all, _mm512_permute_ps(all, 0xb1)); \\
        const __m512i ends = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0); \\
        _mm_storeu_ps(to, _mm512_castps512_ps128(_mm512_permutexvar_ps(ends, all))); \\
    }
    FASTGEMM_OF_FOUR(largest_of_f32, _mm512_max_ps)
    FASTGEMM_OF_FOUR(sums_of_f32, _mm512_add_ps)
    #else
    static inline float largest_f32(vf32 v) {
        float lane[FG_ROW];
        memcpy(lane, &v, sizeof v);
        for (int half = FG_ROW / 2; half; half /= 2)
            for (int i = 0; i < half; i++) lane[i] = lane[i] < lane[i + half] ? lane[i + half] : lane[i];
        return lane[0];
    }
    static inline void largest_of_f32(float *to, vf32 a, vf32 b) { to[0] = largest_f32(a), to[1] = largest_f32(b); }
    static inline void sums_of_f32(float *to, vf32 a, vf32 b) { to[0] = sum_f32(a), to[1] = sum_f32(b); }
    #endif

    static inline double largest_f64(vf64 v) {
        double most = v[0];
        for (int i = 1; i < FG_ROW / 2; i++) most = most < v[i] ? v[i] : most;
        return most;
    }

    static inline vf32 from_f32(const void *p, float scale, float zero) { return *(const vf32 *)p; }
    static inline vf32 from_bf16(const void *p, float scale, float zero) {
        return widen_bf16((const stored_bf16 *)p);
    }
    #ifdef __F16C__
    static inline vf32 from_f16(const void *p, float scale, float zero) {
        return widen_f16((const stored_f16 *)p);
    }
    static inline void to_f16(void *p, vf32 v) { narrow_f16((stored_f16 *)p, v, FG_ROW); }
    #endif
    static inline vf32 from_s8(const void *p, float scale, float zero) {
        return (__builtin_convertvector((row_i32)long_s8((const signed char *)p), vf32) - zero) * scale;
    }
    static inline vf32 from_u8(const void *p, float scale, float zero) {
        return (__builtin_convertvector((row_i32)long_s8((const signed char *)p) & 255, vf32) - zero) * scale;
    }
    static inline void to_f32(void *p, vf32 v) { *(vf32 *)p = v; }
    static inline vf64 from_f64(const void *p, float scale, float zero) { return *(const vf64 *)p; }
    static inline void to_f64(void *p, vf64 v) { *(vf64 *)p = v; }
    static inline void to_bf16(void *p, vf32 v) { narrow_bf16((stored_bf16 *)p, v, FG_ROW); }
    /* Shares of a whole by AVX512_BF16's instruction, where the CPU has it: one operation instead of a dozen, but what
       is below 2^-126 becomes 0.  (Modules of rows are of a tier, which it is beyond; a compiler of its time has an
       assembler that knows it.) */
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512F__) && (defined(__clang__) || __GNUC__ >= 10)
    enum { HALVES_AT_ONCE = 1 };
    static inline void halve_at_once(char *p, vf32 v, int n) {
        __m256i made;
        __asm__("vcvtneps2bf16 %1, %0" : "=v"(made) : "v"(v));
        _mm256_mask_storeu_epi16(p, (__mmask16)(0xffffu >> (16 - n)), made);
    }
    #else
    enum { HALVES_AT_ONCE = 0 };
    static inline void halve_at_once(char *p, vf32 v, int n) { narrow_bf16((stored_bf16 *)p, v, n); }
    #endif
    /* Bytes of x / scale.  A product with 1 / scale, or with share / scale where x is another number times that share,
       differs from the division by less than 256 * 5 * 2^-24 = 7.7e-5, so `near` takes the product and returns how far
       from whole numbers it was, and what came `before`, at most: where that is nearer to a tie (`sure`, of several
       vectors at once) they are made again, `exact`.  NaN is never sure, and 0 before the zero point is added.  What a
       byte does not hold is cut off before it is multiplied, so that a multiply-add does all the rest (bench/rows.py,
       Zen 5: casts of rows of 128, 512 and 2048 numbers 1.08, 1.06, 1.14, softmax to bytes, whose shares are not below
       0, 1.05, 1.06, 1.16). */
    static inline vf32 put_bytes(char *p, vf32 x, int n, float by, float zero) {
        const vf32 lift = (vf32){0} + (12582912.0f + zero), lifted = x * by + lift;
        const bytes_s8 made = lowest_bytes(lifted);
        memcpy(p, &made, n);
        return x * by - (lifted - lift);
    }
    #define FASTGEMM_BYTES_OF(S, LOW, HIGH) \\
    static inline vf32 between_##S(vf32 q, float zero) { \\
        return below_f32(above_f32(q, (vf32){0} + (LOW - zero)), (vf32){0} + (HIGH - zero)); \\
    } \\
    static inline vf32 near_##S(char *p, vf32 x, int n, float inverse, float scale, float zero, vf32 before) { \\
        const vf32 low = (vf32){0} + (LOW - zero) * scale, high = (vf32){0} + (HIGH - zero) * scale; \\
        return larger_of_positive( \\
            magnitude_f32(put_bytes(p, below_f32(above_f32(x, low), high), n, inverse, zero)), before); \\
    } \\
    /* Of x that are not below 0, by share / scale, none above `most`, which makes the largest byte. */ \\
    static inline float most_##S(float by, float zero) { return (HIGH - zero) / by; } \\
    static inline vf32 near_share_##S(char *p, vf32 x, int n, float by, float zero, vf32 before) { \\
        return larger_magnitude(put_bytes(p, x, n, by, zero), before); \\
    } \\
    static inline void exact_##S(char *p, vf32 v, int n, float scale, float zero) { \\
        const vf32 q = between_##S(v / scale, zero), lifted = q + 12582912.0f; \\
        const bytes_s8 made = lowest_bytes((vf32)(((whole_i32)lifted & (q == q)) + (int)zero)); \\
        memcpy(p, &made, n); \\
    }
    FASTGEMM_BYTES_OF(s8, -128, 127)
    FASTGEMM_BYTES_OF(u8, 0, 255)
    static inline int sure(vf32 far) { return at_most_f32(far, 0.4999f); }
    #define FASTGEMM_READ_OF(S, V, SIZE) \\
    static inline V read_##S(const char *p, int n, float scale, float zero) { \\
        enum { LANES = sizeof(V) / sizeof(((V *)0)[0][0]) }; \\
        char some[LANES * SIZE] = {0}; \\
        if (n == LANES) return from_##S(p, scale, zero); \\
        memcpy(some, p, n * SIZE); \\
        return from_##S(some, scale, zero); \\
    }
    #define FASTGEMM_WRITE_OF(S, V, SIZE) \\
    static inline void write_##S(char *p, V v, int n) { \\
        enum { LANES = sizeof(V) / sizeof(((V *)0)[0][0]) }; \\
        char some[LANES * SIZE]; \\
        if (n == LANES) { to_##S(p, v); return; } \\
        to_##S(some, v); \\
        memcpy(p, some, n * SIZE); \\
    }
    FASTGEMM_READ_OF(f32, vf32, 4)
    FASTGEMM_READ_OF(bf16, vf32, 2)
    FASTGEMM_READ_OF(s8, vf32, 1)
    FASTGEMM_READ_OF(u8, vf32, 1)
    FASTGEMM_READ_OF(f64, vf64, 8)
    FASTGEMM_WRITE_OF(f32, vf32, 4)
    FASTGEMM_WRITE_OF(bf16, vf32, 2)
    FASTGEMM_WRITE_OF(f64, vf64, 8)
    #ifdef __F16C__
    FASTGEMM_READ_OF(f16, vf32, 2)
    FASTGEMM_WRITE_OF(f16, vf32, 2)
    #endif
    #endif
    """
    vf32 first_f32(vf32, int n, vf32 other) nogil       # the first n lanes, the other's behind them
    float largest_f32(vf32) nogil
    void largest_of_f32(float*, ...) nogil              # of four vectors, or two where they are not of 64 bytes
    void sums_of_f32(float*, ...) nogil
    vf64 first_f64(vf64, int n, vf64 other) nogil
    double largest_f64(vf64) nogil
    vf64 read_f64(const char*, int n, float scale, float zero) nogil
    void write_f64(char*, vf64, int n) nogil
    vf32 read_f32(const char*, int n, float scale, float zero) nogil
    vf32 read_bf16(const char*, int n, float scale, float zero) nogil
    vf32 read_f16(const char*, int n, float scale, float zero) nogil
    vf32 read_s8(const char*, int n, float scale, float zero) nogil
    vf32 read_u8(const char*, int n, float scale, float zero) nogil
    void write_f32(char*, vf32, int n) nogil
    void write_bf16(char*, vf32, int n) nogil
    void write_f16(char*, vf32, int n) nogil
    bint HALVES_AT_ONCE
    void halve_at_once(char*, vf32, int n) nogil
    vf32 near_s8(char*, vf32, int n, float inverse, float scale, float zero, vf32 before) nogil
    vf32 near_u8(char*, vf32, int n, float inverse, float scale, float zero, vf32 before) nogil
    vf32 near_share_s8(char*, vf32, int n, float by, float zero, vf32 before) nogil
    vf32 near_share_u8(char*, vf32, int n, float by, float zero, vf32 before) nogil
    float most_s8(float by, float zero) nogil
    float most_u8(float by, float zero) nogil
    void exact_s8(char*, vf32, int n, float scale, float zero) nogil
    void exact_u8(char*, vf32, int n, float scale, float zero) nogil
    bint sure(vf32 far) nogil
