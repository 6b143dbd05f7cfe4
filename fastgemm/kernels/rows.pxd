"""Vectors of float32 from and to what rows are stored as: a kind of `registry.ROW_TYPES` each.

``read`` and ``write`` take the first n numbers of a vector; lanes behind them are zeros.  Bytes are quantised: `read`
gives ``(number - zero) * scale``, `write` the nearest number to ``x / scale + zero`` (ties to even) that a byte holds;
it is also told ``1 / scale``.
"""

from fastgemm.kernels.simd cimport vf32
from fastgemm.kernels.vecmath cimport above_f32  # its C comes first

cdef extern from *:
    """
    #ifndef FASTGEMM_ROWS
    #define FASTGEMM_ROWS
    #include <float.h>
    enum { FG_ROW = FASTGEMM_VECTOR_BYTES / 4 };
    typedef signed char row_s8 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES / 4), aligned(1), may_alias));
    typedef unsigned char row_u8 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES / 4), aligned(1), may_alias));
    typedef unsigned short row_bf16 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES / 2), aligned(2), may_alias));
    typedef int row_i32 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(4), may_alias));
    typedef unsigned row_bits __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(4), may_alias));

    static inline vf32 first_f32(vf32 v, int n, vf32 other) {
        row_i32 lane;
        for (int i = 0; i < FG_ROW; i++) lane[i] = i;
        const row_i32 live = lane < n;
        return (vf32)(((row_i32)v & live) | ((row_i32)other & ~live));
    }
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512F__)
    static inline float largest_f32(vf32 v) { return _mm512_reduce_max_ps((__m512)v); }
    #else
    static inline float largest_f32(vf32 v) {
        float lane[FG_ROW];
        memcpy(lane, &v, sizeof v);
        for (int half = FG_ROW / 2; half; half /= 2)
            for (int i = 0; i < half; i++) lane[i] = lane[i] < lane[i + half] ? lane[i + half] : lane[i];
        return lane[0];
    }
    #endif
    static inline vf32 nearest_f32(vf32 x) { return (x + 12582912.0f) - 12582912.0f; }

    static inline vf32 from_f32(const void *p, float scale, float zero) { return *(const vf32 *)p; }
    static inline vf32 from_bf16(const void *p, float scale, float zero) {
        return (vf32)(__builtin_convertvector(*(const row_bf16 *)p, row_bits) << 16);
    }
    static inline vf32 from_s8(const void *p, float scale, float zero) {
        return (__builtin_convertvector(__builtin_convertvector(*(const row_s8 *)p, row_i32), vf32) - zero) * scale;
    }
    static inline vf32 from_u8(const void *p, float scale, float zero) {
        return (__builtin_convertvector(__builtin_convertvector(*(const row_u8 *)p, row_i32), vf32) - zero) * scale;
    }
    static inline void to_f32(void *p, vf32 v, float scale, float inverse, float zero) { *(vf32 *)p = v; }
    static inline void to_bf16(void *p, vf32 v, float scale, float inverse, float zero) {
        const row_bits bits = (row_bits)v, size = bits & 0x7fffffffu;
        const row_bits nan = (row_bits)(size > 0x7f800000u);
        const row_bits near = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
        *(row_bf16 *)p = __builtin_convertvector((near & ~nan) | (((bits >> 16 & 0x8000u) | 0x7fc0u) & nan), row_bf16);
    }
    /* The limits are whole numbers, so what is cut first is rounded to the same.  A product with 1 / scale differs from
       the division by less than 256 * 3 * 2^-24: only results so near to a tie are divided. */
    static inline row_i32 fg_byte(vf32 v, float scale, float inverse, float zero, float low, float high) {
        const vf32 least = (vf32){0} + (low - zero), most = (vf32){0} + (high - zero);
        vf32 q = below_f32(above_f32(v * inverse, least), most), near = nearest_f32(q);
        if (!at_most_f32(magnitude_f32(q - near), 0.4999f))
            near = nearest_f32(below_f32(above_f32(v / scale, least), most));
        return __builtin_convertvector(near + zero, row_i32);
    }
    static inline void to_s8(void *p, vf32 v, float scale, float inverse, float zero) {
        *(row_s8 *)p = __builtin_convertvector(fg_byte(v, scale, inverse, zero, -128, 127), row_s8);
    }
    static inline void to_u8(void *p, vf32 v, float scale, float inverse, float zero) {
        *(row_u8 *)p = __builtin_convertvector(fg_byte(v, scale, inverse, zero, 0, 255), row_u8);
    }
    #define FASTGEMM_ROWS_OF(S, SIZE) \\
    static inline vf32 read_##S(const char *p, int n, float scale, float zero) { \\
        char some[FG_ROW * SIZE] = {0}; \\
        if (n == FG_ROW) return from_##S(p, scale, zero); \\
        memcpy(some, p, n * SIZE); \\
        return from_##S(some, scale, zero); \\
    } \\
    static inline void write_##S(char *p, vf32 v, int n, float scale, float inverse, float zero) { \\
        char some[FG_ROW * SIZE]; \\
        if (n == FG_ROW) { to_##S(p, v, scale, inverse, zero); return; } \\
        to_##S(some, v, scale, inverse, zero); \\
        memcpy(p, some, n * SIZE); \\
    }
    FASTGEMM_ROWS_OF(f32, 4)
    FASTGEMM_ROWS_OF(bf16, 2)
    FASTGEMM_ROWS_OF(s8, 1)
    FASTGEMM_ROWS_OF(u8, 1)
    #endif
    """
    vf32 first_f32(vf32, int n, vf32 other) nogil       # the first n lanes, the other's behind them
    float largest_f32(vf32) nogil
    vf32 read_f32(const char*, int n, float scale, float zero) nogil
    vf32 read_bf16(const char*, int n, float scale, float zero) nogil
    vf32 read_s8(const char*, int n, float scale, float zero) nogil
    vf32 read_u8(const char*, int n, float scale, float zero) nogil
    void write_f32(char*, vf32, int n, float scale, float inverse, float zero) nogil
    void write_bf16(char*, vf32, int n, float scale, float inverse, float zero) nogil
    void write_s8(char*, vf32, int n, float scale, float inverse, float zero) nogil
    void write_u8(char*, vf32, int n, float scale, float inverse, float zero) nogil
