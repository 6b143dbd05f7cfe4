"""Vector types, which Cython takes for scalars, and what they cannot say.

``vf32`` and ``vf64`` are gcc vector types of FASTGEMM_VECTOR_BYTES bytes without alignment, so that
``acc += a[i] * b`` in a template compiles to one broadcast and one multiply-add, on every tier.
Only partial vectors need intrinsics.

``tail`` functions read n live components and repeat the last column (a pair for complex
numbers) in the lanes behind it: no byte past the live ones is touched, and no lane can raise a
floating-point flag that a live one does not raise.
"""

cdef extern from *:
    """
    #ifndef FASTGEMM_SIMD
    #define FASTGEMM_SIMD
    #include <string.h>
    #if defined(__x86_64__) || defined(__i386__)
    #include <immintrin.h>
    #endif
    typedef float vf32 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(4), may_alias));
    typedef double vf64 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(8), may_alias));
    typedef int order_f32 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES)));
    typedef long long order_f64 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES)));
    static const vf32 ZERO_f32 = {0};
    static const vf64 ZERO_f64 = {0};

    static inline vf32 load_f32(const float *p) { return *(const vf32 *)p; }
    static inline vf64 load_f64(const double *p) { return *(const vf64 *)p; }
    static inline void store_f32(float *p, vf32 v) { *(vf32 *)p = v; }
    static inline void store_f64(double *p, vf64 v) { *(vf64 *)p = v; }

    /* acc + x * y, rounded once where the tier can.  gcc does so wherever it sees a sum of a product; clang only where
       both come to lie in one block of its code, and small products would have other bits than large ones. */
    #if defined(__clang__) && defined(__FMA__)
    #define fused_f32(acc, x, y) __builtin_elementwise_fma(x, y, acc)
    #define fused_f64(acc, x, y) __builtin_elementwise_fma(x, y, acc)
    #else
    #define fused_f32(acc, x, y) ((acc) + (x) * (y))
    #define fused_f64(acc, x, y) ((acc) + (x) * (y))
    #endif

    /* Shuffles by constants.  clang has only the second spelling, gcc before 12 only the first. */
    #if defined(__clang__) || __GNUC__ >= 12
    #define FG_SHUFFLE(order, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
    #else
    #define FG_SHUFFLE(order, a, b, ...) __builtin_shuffle(a, b, (order){__VA_ARGS__})
    #endif
    /* FG_LOW and FG_HIGH: the lower, or the upper, halves of two vectors in turns: a0 b0 a1 b1 ... */
    #define FG_SWAP_2(o, v) FG_SHUFFLE(o, v, v, 1, 0)
    #define FG_SWAP_4(o, v) FG_SHUFFLE(o, v, v, 1, 0, 3, 2)
    #define FG_SWAP_8(o, v) FG_SHUFFLE(o, v, v, 1, 0, 3, 2, 5, 4, 7, 6)
    #define FG_SWAP_16(o, v) FG_SHUFFLE(o, v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
    #define FG_LOW_2(o, a, b) FG_SHUFFLE(o, a, b, 0, 2)
    #define FG_HIGH_2(o, a, b) FG_SHUFFLE(o, a, b, 1, 3)
    #define FG_LOW_4(o, a, b) FG_SHUFFLE(o, a, b, 0, 4, 1, 5)
    #define FG_HIGH_4(o, a, b) FG_SHUFFLE(o, a, b, 2, 6, 3, 7)
    #define FG_LOW_8(o, a, b) FG_SHUFFLE(o, a, b, 0, 8, 1, 9, 2, 10, 3, 11)
    #define FG_HIGH_8(o, a, b) FG_SHUFFLE(o, a, b, 4, 12, 5, 13, 6, 14, 7, 15)
    #define FG_LOW_16(o, a, b) FG_SHUFFLE(o, a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
    #define FG_HIGH_16(o, a, b) FG_SHUFFLE(o, a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
    /* And of pairs of lanes: a0 a1 b0 b1 ... */
    #define FG_LOW_4_PAIRS(o, a, b) FG_SHUFFLE(o, a, b, 0, 1, 4, 5)
    #define FG_HIGH_4_PAIRS(o, a, b) FG_SHUFFLE(o, a, b, 2, 3, 6, 7)
    #define FG_LOW_8_PAIRS(o, a, b) FG_SHUFFLE(o, a, b, 0, 1, 8, 9, 2, 3, 10, 11)
    #define FG_HIGH_8_PAIRS(o, a, b) FG_SHUFFLE(o, a, b, 4, 5, 12, 13, 6, 7, 14, 15)
    #if FASTGEMM_VECTOR_BYTES == 64
    #define FG_32(shuffle) shuffle##_16
    #define FG_64(shuffle) shuffle##_8
    #define FG_128(shuffle) shuffle##_8_PAIRS
    #elif FASTGEMM_VECTOR_BYTES == 32
    #define FG_32(shuffle) shuffle##_8
    #define FG_64(shuffle) shuffle##_4
    #define FG_128(shuffle) shuffle##_4_PAIRS
    #else
    #define FG_32(shuffle) shuffle##_4
    #define FG_64(shuffle) shuffle##_2
    #endif
    static inline vf32 swap_f32(vf32 v) { return FG_32(FG_SWAP)(order_f32, v); }
    static inline vf64 swap_f64(vf64 v) { return FG_64(FG_SWAP)(order_f64, v); }

    /* acc_re holds re(a) * b, acc_im holds im(a) * b, both interleaved: give the complex product. */
    #if FASTGEMM_VECTOR_BYTES == 64
    #define SIGN_32 {-1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1}
    #define SIGN_64 {-1, 1, -1, 1, -1, 1, -1, 1}
    #elif FASTGEMM_VECTOR_BYTES == 32
    #define SIGN_32 {-1, 1, -1, 1, -1, 1, -1, 1}
    #define SIGN_64 {-1, 1, -1, 1}
    #else
    #define SIGN_32 {-1, 1, -1, 1}
    #define SIGN_64 {-1, 1}
    #endif
    static inline vf32 combine_f32(vf32 acc_re, vf32 acc_im) {
        const vf32 sign = SIGN_32;
        return acc_re + sign * swap_f32(acc_im);
    }
    static inline vf64 combine_f64(vf64 acc_re, vf64 acc_im) {
        const vf64 sign = SIGN_64;
        return acc_re + sign * swap_f64(acc_im);
    }

    /* The same with A conjugate (1 of `conj`), B (2), or both: signs of the four products. */
    static inline vf32 combine_conj_f32(vf32 acc_re, vf32 acc_im, int conj) {
        const vf32 sign = SIGN_32;
        const vf32 same = sign * sign, other = -sign, minus = -same;
        const vf32 outer = conj & 2 ? other : same;
        const vf32 inner = conj == 1 ? other : conj == 2 ? same : minus;
        return acc_re * outer + inner * swap_f32(acc_im);
    }
    static inline vf64 combine_conj_f64(vf64 acc_re, vf64 acc_im, int conj) {
        const vf64 sign = SIGN_64;
        const vf64 same = sign * sign, other = -sign, minus = -same;
        const vf64 outer = conj & 2 ? other : same;
        const vf64 inner = conj == 1 ? other : conj == 2 ? same : minus;
        return acc_re * outer + inner * swap_f64(acc_im);
    }

    /* Even lanes of one number, odd ones of another: both 1 or -1. */
    static inline vf32 signs_f32(float even, float odd) {
        const vf32 sign = SIGN_32;
        return (even + odd) / 2 + sign * ((odd - even) / 2);
    }
    static inline vf64 signs_f64(double even, double odd) {
        const vf64 sign = SIGN_64;
        return (even + odd) / 2 + sign * ((odd - even) / 2);
    }

    /* The sum of all lanes; always in the same order. */
    #define FASTGEMM_SUM(T, V, S) \\
    static inline T sum_##S(V v) { \\
        enum { N = sizeof(V) / sizeof(T) }; \\
        T lane[N]; \\
        memcpy(lane, &v, sizeof v); \\
        for (int half = N / 2; half; half /= 2) \\
            for (int i = 0; i < half; i++) lane[i] += lane[i + half]; \\
        return lane[0]; \\
    }
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512F__)
    static inline float sum_f32(vf32 v) { return _mm512_reduce_add_ps((__m512)v); }
    static inline double sum_f64(vf64 v) { return _mm512_reduce_add_pd((__m512d)v); }
    #elif FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
    static inline float sum_f32(vf32 v) {
        __m128 h = _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
        h = _mm_add_ps(h, _mm_movehl_ps(h, h));
        return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
    }
    static inline double sum_f64(vf64 v) {
        __m128d h = _mm_add_pd(_mm256_castpd256_pd128((__m256d)v), _mm256_extractf128_pd((__m256d)v, 1));
        return _mm_cvtsd_f64(_mm_add_sd(h, _mm_unpackhi_pd(h, h)));
    }
    #else
    FASTGEMM_SUM(float, vf32, f32)
    FASTGEMM_SUM(double, vf64, f64)
    #endif
    /* Over interleaved complex numbers: the first components minus the second ones. */
    static inline float difference_f32(vf32 v) { const vf32 sign = SIGN_32; return sum_f32(v * -sign); }
    static inline double difference_f64(vf64 v) { const vf64 sign = SIGN_64; return sum_f64(v * -sign); }

    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512F__)
    #define LIVE_f32(n) ((__mmask16)((1u << (n)) - 1u))
    #define LIVE_f64(n) ((__mmask8)((1u << (n)) - 1u))
    static inline vf32 part_f32(const float *p, int n) { return (vf32)_mm512_maskz_loadu_ps(LIVE_f32(n), p); }
    static inline vf64 part_f64(const double *p, int n) { return (vf64)_mm512_maskz_loadu_pd(LIVE_f64(n), p); }
    static inline void store_part_f32(float *p, vf32 v, int n) { _mm512_mask_storeu_ps(p, LIVE_f32(n), (__m512)v); }
    static inline void store_part_f64(double *p, vf64 v, int n) { _mm512_mask_storeu_pd(p, LIVE_f64(n), (__m512d)v); }
    #define FASTGEMM_TAILS(NAME, BITS, V32, V64) \\
    static inline V32 NAME##_f32_1(const float *p, int n) { \\
        return (V32)_mm##BITS##_mask_loadu_ps(_mm##BITS##_set1_ps(p[n - 1]), LIVE_f32(n), p); \\
    } \\
    static inline V64 NAME##_f64_1(const double *p, int n) { \\
        return (V64)_mm##BITS##_mask_loadu_pd(_mm##BITS##_set1_pd(p[n - 1]), LIVE_f64(n), p); \\
    } \\
    static inline V32 NAME##_f32_2(const float *p, int n) { \\
        double pair; \\
        memcpy(&pair, p + n - 2, 8); \\
        return (V32)_mm##BITS##_mask_loadu_ps(_mm##BITS##_castpd_ps(_mm##BITS##_set1_pd(pair)), LIVE_f32(n), p); \\
    } \\
    static inline V64 NAME##_f64_2(const double *p, int n) { \\
        return (V64)_mm##BITS##_mask_loadu_pd(_mm##BITS##_broadcast_f64x2(_mm_loadu_pd(p + n - 2)), LIVE_f64(n), p); \\
    }
    FASTGEMM_TAILS(tail, 512, vf32, vf64)
    #elif FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
    static const int WINDOW_32[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
    static const long long WINDOW_64[8] = {-1, -1, -1, -1, 0, 0, 0, 0};
    static inline __m256i live_f32(int n) { return _mm256_loadu_si256((const __m256i *)(WINDOW_32 + 8 - n)); }
    static inline __m256i live_f64(int n) { return _mm256_loadu_si256((const __m256i *)(WINDOW_64 + 4 - n)); }
    static inline vf32 part_f32(const float *p, int n) { return (vf32)_mm256_maskload_ps(p, live_f32(n)); }
    static inline vf64 part_f64(const double *p, int n) { return (vf64)_mm256_maskload_pd(p, live_f64(n)); }
    /* Not by a masked store, which AMD's cores make of dozens of operations (Zen 4: 4.4 ns, by pieces 0.6 to 1.2). */
    static inline void store_part_f32(float *p, vf32 v, int n) {
        __m128 half = _mm256_castps256_ps128((__m256)v);
        if (n == 8) { store_f32(p, v); return; }
        if (n & 4) { _mm_storeu_ps(p, half); half = _mm256_extractf128_ps((__m256)v, 1); p += 4; }
        if (n & 2) { _mm_storel_pi((__m64 *)p, half); half = _mm_movehl_ps(half, half); p += 2; }
        if (n & 1) _mm_store_ss(p, half);
    }
    static inline void store_part_f64(double *p, vf64 v, int n) {
        __m128d half = _mm256_castpd256_pd128((__m256d)v);
        if (n == 4) { store_f64(p, v); return; }
        if (n & 2) { _mm_storeu_pd(p, half); half = _mm256_extractf128_pd((__m256d)v, 1); p += 2; }
        if (n & 1) _mm_storel_pd(p, half);
    }
    /* (A blend takes a register more, which the largest tiles do not have: gcc then keeps a sum in memory, f32 92^3
       16.6 and 13.8 us, 116^3 31.8 and 27.2.) */
    static inline vf32 tail_f32_1(const float *p, int n) {
        __m256 live = _mm256_castsi256_ps(live_f32(n));
        return (vf32)_mm256_or_ps(_mm256_maskload_ps(p, _mm256_castps_si256(live)),
                                  _mm256_andnot_ps(live, _mm256_set1_ps(p[n - 1])));
    }
    static inline vf64 tail_f64_1(const double *p, int n) {
        __m256d live = _mm256_castsi256_pd(live_f64(n));
        return (vf64)_mm256_or_pd(_mm256_maskload_pd(p, _mm256_castpd_si256(live)),
                                  _mm256_andnot_pd(live, _mm256_set1_pd(p[n - 1])));
    }
    static inline vf32 tail_f32_2(const float *p, int n) {
        __m256 live = _mm256_castsi256_ps(live_f32(n));
        double pair;
        memcpy(&pair, p + n - 2, 8);
        return (vf32)_mm256_or_ps(_mm256_maskload_ps(p, _mm256_castps_si256(live)),
                                  _mm256_andnot_ps(live, _mm256_castpd_ps(_mm256_set1_pd(pair))));
    }
    static inline vf64 tail_f64_2(const double *p, int n) {
        __m256d live = _mm256_castsi256_pd(live_f64(n));
        __m128d pair = _mm_loadu_pd(p + n - 2);
        return (vf64)_mm256_or_pd(_mm256_maskload_pd(p, _mm256_castpd_si256(live)),
                                  _mm256_andnot_pd(live, _mm256_set_m128d(pair, pair)));
    }
    #else
    #define FASTGEMM_PARTIAL(T, V, S) \\
    static inline V part_##S(const T *p, int n) { V v = {0}; memcpy(&v, p, n * sizeof(T)); return v; } \\
    static inline void store_part_##S(T *p, V v, int n) { memcpy(p, &v, n * sizeof(T)); } \\
    static inline V tail_##S##_1(const T *p, int n) { \\
        V v = {0}; v += p[n - 1]; memcpy(&v, p, n * sizeof(T)); return v; \\
    } \\
    static inline V tail_##S##_2(const T *p, int n) { \\
        V v; \\
        for (int i = 0; i < (int)(sizeof(V) / sizeof(T)); i += 2) { \\
            const T *pair = p + (i < n ? i : n - 2); \\
            ((T *)&v)[i] = pair[0]; ((T *)&v)[i + 1] = pair[1]; \\
        } \\
        return v; \\
    }
    FASTGEMM_PARTIAL(float, vf32, f32)
    FASTGEMM_PARTIAL(double, vf64, f64)
    #endif

    /* Whether no lane is above a limit, and none is NaN. */
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512F__)
    static inline int at_most_f32(vf32 v, float limit) {
        return _mm512_cmp_ps_mask((__m512)v, _mm512_set1_ps(limit), _CMP_LE_OQ) == 0xffff;
    }
    #elif FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
    static inline int at_most_f32(vf32 v, float limit) {
        return _mm256_movemask_ps(_mm256_cmp_ps((__m256)v, _mm256_set1_ps(limit), _CMP_LE_OQ)) == 0xff;
    }
    #else
    static inline int at_most_f32(vf32 v, float limit) {
        int all = 1;
        for (int i = 0; i < (int)(sizeof v / sizeof(float)); i++) all &= v[i] <= limit;
        return all;
    }
    #endif

    /* The same vector, in a register from here on.  gcc 12 repeats a load of two or three uses in each instruction that
       uses it, and a load that crosses lines, as most do in NumPy's arrays, then takes two turns each time: x @ w.T of
       3 rows took 1.6 times as long as of 4. */
    #if defined(__AVX__)
    #define FG_ONCE(R, V) static inline V once_##R(V v) { __asm__("" : "+v"(v)); return v; }
    #else
    #define FG_ONCE(R, V) static inline V once_##R(V v) { return v; }
    #endif
    FG_ONCE(f32, vf32)
    FG_ONCE(f64, vf64)

    static inline void *forgotten(void *p) { __asm__("" : "+r"(p)); return p; }
    #define prefetch_read(p) __builtin_prefetch((p), 0, 3)
    #define prefetch_l2(p) __builtin_prefetch((p), 0, 2)
    #define prefetch_write(p) __builtin_prefetch((p), 1, 3)
    /* In a function that does nothing else: gcc takes one for a function without effect, and drops its calls. */
    #define prefetched() __asm__ volatile("")
    static inline Py_ssize_t steady_ahead(Py_ssize_t turns, Py_ssize_t least, Py_ssize_t most)
        { return turns > most || turns < -most ? least / 4 : turns < 0 || turns > least ? turns : least; }
    #endif
    """
    ctypedef float vf32
    ctypedef double vf64
    const vf32 ZERO_f32
    const vf64 ZERO_f64
    vf32 load_f32(const float*) nogil
    vf64 load_f64(const double*) nogil
    void store_f32(float*, vf32) nogil
    void store_f64(double*, vf64) nogil
    vf32 part_f32(const float*, int) nogil
    vf64 part_f64(const double*, int) nogil
    void store_part_f32(float*, vf32, int) nogil
    void store_part_f64(double*, vf64, int) nogil
    vf32 tail_f32_1(const float*, int) nogil
    vf64 tail_f64_1(const double*, int) nogil
    vf32 tail_f32_2(const float*, int) nogil
    vf64 tail_f64_2(const double*, int) nogil
    vf32 fused_f32(vf32, vf32, vf32) nogil
    vf64 fused_f64(vf64, vf64, vf64) nogil
    vf32 swap_f32(vf32) nogil
    vf64 swap_f64(vf64) nogil
    float sum_f32(vf32) nogil
    double sum_f64(vf64) nogil
    float difference_f32(vf32) nogil
    double difference_f64(vf64) nogil
    vf32 combine_f32(vf32, vf32) nogil
    vf64 combine_f64(vf64, vf64) nogil
    vf32 combine_conj_f32(vf32, vf32, int) nogil
    vf64 combine_conj_f64(vf64, vf64, int) nogil
    vf32 signs_f32(float, float) nogil
    vf64 signs_f64(double, double) nogil
    bint at_most_f32(vf32, float limit) nogil
    vf32 once_f32(vf32) nogil
    vf64 once_f64(vf64) nogil
    void* forgotten(void*) nogil    # the same pointer, of which the compiler knows nothing
    void prefetch_read(const void*) nogil
    void prefetch_l2(const void*) nogil
    void prefetch_write(const void*) nogil
    void prefetched() nogil
    Py_ssize_t steady_ahead(Py_ssize_t turns, Py_ssize_t least, Py_ssize_t most) nogil   # how far: registry.steady
