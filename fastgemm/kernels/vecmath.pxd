"""exp, erf and tanh over vectors, and the choices that they are made of.

float32, and float64's erf, are computed by polynomials, fitted for this file by weighted least squares to the smallest
largest error (each says its range and its error before rounding), float64's exp and tanh by exp's series to the 13th
power, whose rest is below 5e-18 of the result.  Where an instruction reads tables, float32's erf, tanh and gelu are
made in pieces instead (segments.py), and with AVX-512 its exp of roots of two.  Errors of the results, held by
tests/test_linear.py: exp, tanh and erf below 3 units in the last place.

NaN stays NaN everywhere, and infinities give what NumPy gives.
"""

from fastgemm.kernels.simd cimport ZERO_f32, ZERO_f64, vf32, vf64

cdef extern from *:
    """
    #ifndef FASTGEMM_VECMATH
    #define FASTGEMM_VECMATH
    #include <string.h>
    typedef int bits_f32 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(4), may_alias));
    typedef unsigned plain_f32 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(4), may_alias));
    typedef long long bits_f64 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(8), may_alias));
    #define SIGN_f32 ((bits_f32){0} + (int)0x80000000u)
    #define SIGN_f64 ((bits_f64){0} + (long long)0x8000000000000000ull)
    #define FASTGEMM_CHOOSE(V, I, S) \\
    static inline V if_##S(I m, V a, V b) { return (V)(((I)a & m) | ((I)b & ~m)); } \\
    static inline V if_below_##S(V x, V limit, V yes, V no) { return if_##S((I)(x < limit), yes, no); } \\
    static inline V magnitude_##S(V x) { return (V)((I)x & ~SIGN_##S); } \\
    static inline V signed_as_##S(V x, V of) { return (V)((I)x | ((I)of & SIGN_##S)); }
    FASTGEMM_CHOOSE(vf32, bits_f32, f32)
    FASTGEMM_CHOOSE(vf64, bits_f64, f64)
    /* x where it is NaN or equal.  gcc makes three instructions of a comparison and a choice. */
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512F__)
    static inline vf32 above_f32(vf32 x, vf32 limit) { return (vf32)_mm512_max_ps((__m512)limit, (__m512)x); }
    static inline vf64 above_f64(vf64 x, vf64 limit) { return (vf64)_mm512_max_pd((__m512d)limit, (__m512d)x); }
    static inline vf32 below_f32(vf32 x, vf32 limit) { return (vf32)_mm512_min_ps((__m512)limit, (__m512)x); }
    static inline vf64 below_f64(vf64 x, vf64 limit) { return (vf64)_mm512_min_pd((__m512d)limit, (__m512d)x); }
    #elif FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX__)
    static inline vf32 above_f32(vf32 x, vf32 limit) { return (vf32)_mm256_max_ps((__m256)limit, (__m256)x); }
    static inline vf64 above_f64(vf64 x, vf64 limit) { return (vf64)_mm256_max_pd((__m256d)limit, (__m256d)x); }
    static inline vf32 below_f32(vf32 x, vf32 limit) { return (vf32)_mm256_min_ps((__m256)limit, (__m256)x); }
    static inline vf64 below_f64(vf64 x, vf64 limit) { return (vf64)_mm256_min_pd((__m256d)limit, (__m256d)x); }
    #else
    static inline vf32 above_f32(vf32 x, vf32 limit) { return if_f32((bits_f32)(x < limit), limit, x); }
    static inline vf64 above_f64(vf64 x, vf64 limit) { return if_f64((bits_f64)(x < limit), limit, x); }
    static inline vf32 below_f32(vf32 x, vf32 limit) { return if_f32((bits_f32)(x > limit), limit, x); }
    static inline vf64 below_f64(vf64 x, vf64 limit) { return if_f64((bits_f64)(x > limit), limit, x); }
    #endif
    /* What whole numbers of 32 bits, loaded as if they were floats, are as floats. */
    static inline vf32 of_whole_f32(vf32 bits) { return __builtin_convertvector((bits_f32)bits, vf32); }
    /* 2 to the power of whole numbers of at most 126. */
    static inline vf32 power_of_two_f32(vf32 n) {
        bits_f32 i = __builtin_convertvector(n, bits_f32);
        return (vf32)((i + 127) << 23);
    }
    /* p, but 0 where x is below the limit. */
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512F__)
    static inline vf32 unless_below_f32(vf32 x, vf32 limit, vf32 p) {
        return (vf32)_mm512_maskz_mov_ps(_mm512_cmp_ps_mask((__m512)x, (__m512)limit, _CMP_NLT_UQ), (__m512)p);
    }
    #elif FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX__)
    static inline vf32 unless_below_f32(vf32 x, vf32 limit, vf32 p) {
        return (vf32)_mm256_and_ps(_mm256_cmp_ps((__m256)x, (__m256)limit, _CMP_NLT_UQ), (__m256)p);
    }
    #else
    static inline vf32 unless_below_f32(vf32 x, vf32 limit, vf32 p) { return if_below_f32(x, limit, ZERO_f32, p); }
    #endif
    /* 2^x for multiples of 1 / N, of n = x + 1.5 * 2^23 / N, whose low bits count them: the lowest ones pick a root,
       2^(i / N), the whole number below x raises it.  With AVX-512 one instruction raises it afterwards (`raised_f32`
       of q = n - 1.5 * 2^23 / N), to infinity or zero where it must; with AVX2 the bits of n above those go to the
       root's exponent at once (a root is less by what the lowest ones add there), from -126 to 127, which `most_f32` is
       the most for. */
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512F__)
    static const unsigned ROOTS_f32[32] = {
        0x3f800000, 0x3f82cd87, 0x3f85aac3, 0x3f88980f, 0x3f8b95c2, 0x3f8ea43a, 0x3f91c3d3, 0x3f94f4f0,
        0x3f9837f0, 0x3f9b8d3a, 0x3f9ef532, 0x3fa27043, 0x3fa5fed7, 0x3fa9a15b, 0x3fad583f, 0x3fb123f6,
        0x3fb504f3, 0x3fb8fbaf, 0x3fbd08a4, 0x3fc12c4d, 0x3fc5672a, 0x3fc9b9be, 0x3fce248c, 0x3fd2a81e,
        0x3fd744fd, 0x3fdbfbb8, 0x3fe0ccdf, 0x3fe5b907, 0x3feac0c7, 0x3fefe4ba, 0x3ff5257d, 0x3ffa83b3,
    };
    static inline vf32 root_f32(vf32 n, vf32 low, vf32 high) {
        return (vf32)_mm512_permutex2var_ps((__m512)low, (__m512i)n, (__m512)high);
    }
    static inline vf32 roots_f32(int half) {
        vf32 some = load_f32((const float *)ROOTS_f32 + 16 * half);
        __asm__("" : "+v"(some));  /* or the compiler loads them again for every use */
        return some;
    }
    static inline vf32 most_f32(vf32 n) { return n; }
    static inline vf32 raised_f32(vf32 p, vf32 n, vf32 q) { return (vf32)_mm512_scalef_ps((__m512)p, (__m512)q); }
    /* exp(x): log2(e) in two parts, so that large x lose nothing, and 2^f with an error of 5.3e-8, as in
       kernels/exponentials.tp.  Beyond the two limits lie infinity and zero. */
    enum { BY_ROOTS = 1 };
    static inline vf32 exp_by_roots(vf32 x) {
        x = below_f32(above_f32(x, (vf32){0} - 104.0f), (vf32){0} + 89.0f);
        const vf32 lift = (vf32){0} + 12582912.0f / 32, log2_e = (vf32){0} + 1.44269502f;
        const vf32 n = fused_f32(lift, x, log2_e), q = n - lift;
        const vf32 f = x * 1.92596303e-8f + fused_f32(-q, x, log2_e);
        const vf32 p = f * 0.24022653698921204f + 0.6931573152542114f;
        const vf32 root = root_f32(n, load_f32((const float *)ROOTS_f32), load_f32((const float *)ROOTS_f32 + 16));
        return raised_f32(root + root * f * p, n, q);
    }
    #elif FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
    static const unsigned ROOTS_f32[8] = {
        0x3f800000, 0x3f7b95c2, 0x3f7837f0, 0x3f75fed7, 0x3f7504f3, 0x3f75672a, 0x3f7744fd, 0x3f7ac0c7,
    };
    static inline vf32 root_f32(vf32 n, vf32 low, vf32 high) {
        const vf32 entry = (vf32)_mm256_permutevar8x32_ps((__m256)low, (__m256i)n);
        return (vf32)((plain_f32)entry + ((plain_f32)n << 20));
    }
    static inline vf32 roots_f32(int half) { return load_f32((const float *)ROOTS_f32); }
    static inline vf32 most_f32(vf32 n) { return below_f32(n, (vf32){0} + (12582912.0f / 8 + 127.5f)); }
    static inline vf32 raised_f32(vf32 p, vf32 n, vf32 q) { return p; }
    #else
    /* (p is a normal number, and so is the result.) */
    static inline vf32 raised_f32(vf32 p, vf32 n, vf32 q) { return (vf32)((plain_f32)p + ((plain_f32)n << 23)); }
    #endif
    #if FASTGEMM_VECTOR_BYTES != 64 || !defined(__AVX512F__)
    enum { BY_ROOTS = 0 };
    static inline vf32 exp_by_roots(vf32 x) { return x; }
    #endif
    /* Polynomials in pieces (segments.py): `rows` of coefficients, of which each lane's is picked by the low bits of n,
       which count widths. */
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512F__)
    typedef struct { vf32 low[6], high[6]; } segments_t;  /* of at most as many powers as registers hold */
    static inline segments_t segments_of(const float *rows, int count) {
        segments_t s = {0};
        for (int d = 0; d < count; d++) {
            s.low[d] = load_f32(rows + 32 * d);
            s.high[d] = load_f32(rows + 32 * d + 16);
            __asm__("" : "+v"(s.low[d]), "+v"(s.high[d]));  /* or the compiler loads them again for every use */
        }
        return s;
    }
    static inline vf32 picked(const segments_t *s, int d, vf32 n) { return root_f32(n, s->low[d], s->high[d]); }
    #elif FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
    typedef struct { const float *rows; } segments_t;
    static inline segments_t segments_of(const float *rows, int count) { return (segments_t){rows}; }
    static inline vf32 picked(const segments_t *s, int d, vf32 n) {
        return (vf32)_mm256_permutevar8x32_ps((__m256)load_f32(s->rows + 8 * d), (__m256i)n);
    }
    #endif
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512F__) || FASTGEMM_VECTOR_BYTES == 32 && defined(__AVX2__)
    static inline __attribute__((always_inline)) vf32 in_segments(
            vf32 a, const segments_t *s, int count, float width) {
        const vf32 lift = (vf32){0} + 12582912.0f, n = a * (1 / width) + lift, f = a - (n - lift) * width;
        vf32 p = picked(s, count - 1, n);
        for (int d = count - 2; d >= 0; d--) p = p * f + picked(s, d, n);
        return p;
    }
    static inline __attribute__((always_inline)) vf32 tail_in_segments(
            vf32 x, const segments_t *s, int count, int pieces, float width) {
        const vf32 a = below_f32(magnitude_f32(x), (vf32){0} + (pieces - 1) * width);
        return above_f32(x, (vf32){0}) - a * in_segments(a, s, count, width);
    }
    static inline __attribute__((always_inline)) vf32 odd_in_segments(
            vf32 x, const segments_t *s, int count, int pieces, float width) {
        /* (There all of segments.py's odd ones are 1 to the bit: `1 + erf(x)` of large negative x is 0.) */
        const vf32 most = (vf32){0} + (pieces - 0.7f) * width;
        x = below_f32(above_f32(x, -most), most);
        return x * in_segments(magnitude_f32(x), s, count, width);
    }
    #endif
    /* K-TanH (its table: K_TANH): x is rounded to bfloat16, and so is the result.  `base` has the exponents and what is
       added, in their places, `shift` how far the mantissa is shifted. */
    static inline vf32 by_table_f32(vf32 x, const int *base, const int *shift) {
        bits_f32 w = (bits_f32)x, t, from, by;
        w = (w + 0x7fff + ((w >> 16) & 1)) & (int)0xffff0000u;
        const vf32 a = magnitude_f32((vf32)w);
        t = (w >> 20) & 31;
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512F__)
        from = (bits_f32)_mm512_permutex2var_epi32(_mm512_loadu_si512(base), (__m512i)t, _mm512_loadu_si512(base + 16));
        by = (bits_f32)_mm512_permutex2var_epi32(_mm512_loadu_si512(shift), (__m512i)t, _mm512_loadu_si512(shift + 16));
    #else
        for (int i = 0; i < (int)(sizeof x / 4); i++) {
            from[i] = base[t[i]];
            by[i] = shift[t[i]];
        }
    #endif
        vf32 made = (vf32)((from + (((w >> 16) & 127) >> by)) << 16);
        made = if_below_f32(a, (vf32){0} + 0.25f, a, made);
        made = signed_as_f32(if_f32((bits_f32)(a > 3.75f), (vf32){0} + 1.0f, made), x);
        return if_f32((bits_f32)(x == x), made, x);
    }
    static inline vf64 by_table_f64(vf64 x, const int *base, const int *shift) {
        enum { N = sizeof(vf64) / sizeof(double) };
        double lane[N];
        float some[sizeof(vf32) / sizeof(float)] = {0};
        vf32 v;
        memcpy(lane, &x, sizeof x);
        for (int i = 0; i < N; i++) some[i] = (float)lane[i];
        memcpy(&v, some, sizeof v);
        v = by_table_f32(v, base, shift);
        memcpy(some, &v, sizeof v);
        for (int i = 0; i < N; i++) lane[i] = some[i];
        memcpy(&x, lane, sizeof x);
        return x;
    }
    /* Of whole numbers of at most 1022: the low bits of n + 1.5 * 2^52 are n. */
    static inline vf64 power_of_two_f64(vf64 n) {
        return (vf64)(((bits_f64)(n + 6755399441055744.0) + 1023) << 52);
    }
    #endif
    """
    vf32 if_below_f32(vf32 x, vf32 limit, vf32 yes, vf32 no) nogil
    vf64 if_below_f64(vf64 x, vf64 limit, vf64 yes, vf64 no) nogil
    vf32 above_f32(vf32 x, vf32 limit) nogil     # np.maximum
    vf64 above_f64(vf64 x, vf64 limit) nogil
    vf32 below_f32(vf32 x, vf32 limit) nogil     # np.minimum
    vf64 below_f64(vf64 x, vf64 limit) nogil
    vf32 magnitude_f32(vf32) nogil
    vf32 signed_as_f32(vf32 x, vf32 of) nogil    # x >= 0 with the sign of the other
    vf32 power_of_two_f32(vf32) nogil
    vf32 raised_f32(vf32 p, vf32 n, vf32 q) nogil
    vf32 unless_below_f32(vf32 x, vf32 limit, vf32 p) nogil
    vf32 root_f32(vf32 n, vf32 low, vf32 high) nogil    # where vectors are of AVX, as are
    vf32 roots_f32(int half) nogil                      # low and high
    vf32 most_f32(vf32 n) nogil
    bint BY_ROOTS                                       # with AVX-512
    vf32 exp_by_roots(vf32) nogil
    ctypedef struct segments_t:
        pass
    segments_t segments_of(const float*, int count) nogil
    vf32 tail_in_segments(vf32, const segments_t*, int count, int pieces, float width) nogil
    vf32 odd_in_segments(vf32, const segments_t*, int count, int pieces, float width) nogil
    vf32 of_whole_f32(vf32) nogil
    vf32 by_table_f32(vf32, const int*, const int*) nogil
    vf64 by_table_f64(vf64, const int*, const int*) nogil
    vf64 magnitude_f64(vf64) nogil
    vf64 signed_as_f64(vf64 x, vf64 of) nogil
    vf64 power_of_two_f64(vf64) nogil


cdef inline vf32 exp_f32(vf32 x) noexcept nogil:
    # exp(x) = 2^n * exp(r), |r| <= log(2) / 2.  2^n is applied in two halves, so that results that are not normal round
    # once.  Beyond the two limits lie infinity and zero.
    cdef vf32 n, half, r, p
    if BY_ROOTS:
        return exp_by_roots(x)
    x = below_f32(above_f32(x, ZERO_f32 - <float>104.0), ZERO_f32 + <float>89.0)
    # The nearest whole number: adding 1.5 * 2^23 leaves no bits for a fraction.
    n = (x * <float>1.44269504088896341 + <float>12582912.0) - <float>12582912.0
    # log(2) in two parts, the first with few bits so that n times it is exact.
    r = x - n * <float>0.693359375
    r = r - n * <float>-2.12194440054690583e-4
    # exp(r) - 1 - r by r^2 * p(r): relative error 3.1e-9.
    p = r * <float>0.0013814467238262296 + <float>0.008368780836462975
    p = p * r + <float>0.04166839271783829
    p = p * r + <float>0.1666651964187622
    p = p * r + <float>0.4999999403953552
    p = (p * r) * r + r + <float>1.0
    half = (n * <float>0.5 + <float>12582912.0) - <float>12582912.0
    return (p * power_of_two_f32(half)) * power_of_two_f32(n - half)


cdef inline vf64 less_one_f64(vf64 r) noexcept nogil:
    # exp(r) - 1 for |r| <= log(2) / 2: r + r^2 * p(r).
    cdef vf64 p
    p = r * 1.6059043836821613e-10 + 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.755731922398589e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 0.0001984126984126984
    p = p * r + 0.001388888888888889
    p = p * r + 0.008333333333333333
    p = p * r + 0.041666666666666664
    p = p * r + 0.16666666666666666
    p = p * r + 0.5
    return (p * r) * r + r


cdef inline vf64 exp_f64(vf64 x) noexcept nogil:
    # As exp_f32.
    cdef vf64 n, half, r
    x = below_f64(above_f64(x, ZERO_f64 - 746.0), ZERO_f64 + 710.0)
    n = (x * 1.4426950408889634 + 6755399441055744.0) - 6755399441055744.0
    r = x - n * 0.6931471803691238
    r = r - n * 1.9082149292705877e-10
    half = (n * 0.5 + 6755399441055744.0) - 6755399441055744.0
    return ((less_one_f64(r) + 1.0) * power_of_two_f64(half)) * power_of_two_f64(n - half)


cdef inline vf64 tanh_f64(vf64 x) noexcept nogil:
    # e / (e + 2) with e = exp(2 |x|) - 1 = 2^n * (exp(r) - 1) + (2^n - 1), which loses nothing near zero; 1 from 20 on.
    cdef vf64 y = below_f64(magnitude_f64(x) * 2.0, ZERO_f64 + 40.0), n, r, power, e
    n = (y * 1.4426950408889634 + 6755399441055744.0) - 6755399441055744.0
    r = y - n * 0.6931471803691238
    r = r - n * 1.9082149292705877e-10
    power = power_of_two_f64(n)
    e = power * less_one_f64(r) + (power - 1.0)
    return signed_as_f64(e / (e + 2.0), x)


cdef inline vf32 tanh_f32(vf32 x) noexcept nogil:
    # x + x^3 * p(x^2) below 0.625 (relative error 4.4e-9), 1 - 2 / (exp(2 |x|) + 1) from there on.
    cdef vf32 a = magnitude_f32(x), t = x * x, p, far
    p = t * <float>-0.005704987328499556 + <float>0.0206390880048275
    p = p * t + <float>-0.05373971536755562
    p = p * t + <float>0.13331441581249237
    p = p * t + <float>-0.3333328068256378
    p = (p * t) * x + x
    far = <float>1.0 - (ZERO_f32 + <float>2.0) / (exp_f32(a + a) + <float>1.0)
    return if_below_f32(a, ZERO_f32 + <float>0.625, p, signed_as_f32(far, x))


cdef inline vf32 erf_f32(vf32 x) noexcept nogil:
    # x * p(x^2) below 0.9375 (relative error 6.1e-10), 1 - exp(-g(|x|)) from there on, where g = -log(erfc) is smooth
    # (absolute error of erf 3.7e-11); from 4 on erf is 1 to all bits.
    cdef vf32 a = magnitude_f32(x), t = x * x, p, g
    p = t * <float>8.185023762052879e-05 + <float>-0.0008097682730294764
    p = p * t + <float>0.0051969499327242374
    p = p * t + <float>-0.026857703924179077
    p = p * t + <float>0.11283663660287857
    p = p * t + <float>-0.37612631916999817
    p = p * t + <float>1.128379225730896
    p = p * x
    a = below_f32(a, ZERO_f32 + <float>4.0)
    g = a * <float>2.1278688530967926e-05 + <float>-0.00043657417860554215
    g = g * a + <float>0.004181237440133434
    g = g * a + <float>-0.02514606959020066
    g = g * a + <float>0.10832105746982101
    g = g * a + <float>0.6333098881556826
    g = g * a + <float>1.1295331431781839
    g = g * a + <float>-0.00017845121968617907
    return if_below_f32(a, ZERO_f32 + <float>0.9375, p, signed_as_f32(<float>1.0 - exp_f32(-g), x))


cdef inline vf64 erf_f64(vf64 x) noexcept nogil:
    # As erf_f32: x * p(x^2) below 1 (relative error 7.3e-18), 1 - exp(-g(|x|)) from there on (absolute error of erf
    # 1.2e-18); from 6 on erf is 1 to all bits.
    cdef vf64 a = magnitude_f64(x), t = x * x, p, g, n, r
    p = t * -7.77945989783528e-10 + 1.3710975603406955e-08
    p = p * t + -1.620631259721467e-07
    p = p * t + 1.6447131410802848e-06
    p = p * t + -1.4924712287961413e-05
    p = p * t + 0.00012055293576074101
    p = p * t + -0.0008548325929279828
    p = p * t + 0.005223977606117348
    p = p * t + -0.02686617064311117
    p = p * t + 0.1128379167094418
    p = p * t + -0.3761263890318352
    p = p * t + 1.1283791670955126
    p = p * x
    a = below_f64(a, ZERO_f64 + 6.0)
    g = a * -1.0368953340234878e-12 + 4.7430666963442406e-11
    g = g * a + -1.0154344151690945e-09
    g = g * a + 1.3503609038669803e-08
    g = g * a + -1.2468186008412263e-07
    g = g * a + 8.4431523727349e-07
    g = g * a + -4.297834953931522e-06
    g = g * a + 1.640764409842563e-05
    g = g * a + -4.47315153085339e-05
    g = g * a + 6.966550263974591e-05
    g = g * a + 4.6106018313061695e-05
    g = g * a + -0.0006430449610928863
    g = g * a + 0.0017711606182020613
    g = g * a + -0.0002824329139111958
    g = g * a + -0.01907681998989836
    g = g * a + 0.10274657655169565
    g = g * a + 0.6366287260966629
    g = g * a + 1.1283772777042649
    g = g * a + 1.8484459091772047e-07
    # exp(-g), which is no smaller than 1e-17.
    n = (ZERO_f64 + 6755399441055744.0 - g * 1.4426950408889634) - 6755399441055744.0
    r = -g - n * 0.6931471803691238
    r = r - n * 1.9082149292705877e-10
    g = (less_one_f64(r) + 1.0) * power_of_two_f64(n)
    return if_below_f64(a, ZERO_f64 + 1.0, p, signed_as_f64(1.0 - g, x))


cdef inline vf32 gelu_f32(vf32 x) noexcept nogil:
    return <float>0.5 * x * (<float>1.0 + erf_f32(x * <float>0.70710678118654752))


cdef inline vf64 gelu_f64(vf64 x) noexcept nogil:
    return 0.5 * x * (1.0 + erf_f64(x * 0.70710678118654752))


# With u the argument of tanh: 0.5 * (1 + tanh(u)) is 1 / (1 + exp(-2 u)), which keeps its digits where tanh nears -1.
cdef inline vf32 gelu_tanh_f32(vf32 x) noexcept nogil:
    cdef vf32 u = x * (<float>1.5957691216057308 + <float>0.07135481627260025 * x * x)
    return x / (<float>1.0 + exp_f32(-u))


cdef inline vf64 gelu_tanh_f64(vf64 x) noexcept nogil:
    cdef vf64 u = x * (1.5957691216057308 + 0.07135481627260025 * x * x)
    return x / (1.0 + exp_f64(-u))
