"""Few columns beside each other, as rows: four steps of k at a time.

A number at a time such a copy takes a store each, and of few rows of output longer than their dot products do (f32 3
columns of 1000 numbers 0.8 us).
"""

cdef extern from *:
    """
    #if defined(__SSE2__)
    #include <emmintrin.h>
    /* Returns the steps that are done.  Of three columns a load takes the number behind them, of the next row. */
    static inline Py_ssize_t fg_turn_4(Py_ssize_t k, Py_ssize_t n, const float* b, Py_ssize_t rs, float* out,
                                       Py_ssize_t gap)
    {
        Py_ssize_t p = 0;
        if (rs < n || n < 2 || n > 4)
            return 0;
        if (n == 2)
            for (; p + 4 <= k; p += 4, b += 4 * rs) {
                __m128 v0 = _mm_loadh_pi(_mm_loadl_pi(_mm_setzero_ps(), (const __m64*)b), (const __m64*)(b + rs));
                __m128 v1 = _mm_loadh_pi(_mm_loadl_pi(_mm_setzero_ps(), (const __m64*)(b + 2 * rs)),
                                         (const __m64*)(b + 3 * rs));
                _mm_storeu_ps(out + p, _mm_shuffle_ps(v0, v1, 0x88));
                _mm_storeu_ps(out + gap + p, _mm_shuffle_ps(v0, v1, 0xdd));
            }
        else
            for (; p + 4 < k + (n == 4); p += 4, b += 4 * rs) {
                __m128 v0 = _mm_loadu_ps(b), v1 = _mm_loadu_ps(b + rs);
                __m128 v2 = _mm_loadu_ps(b + 2 * rs), v3 = _mm_loadu_ps(b + 3 * rs);
                _MM_TRANSPOSE4_PS(v0, v1, v2, v3);
                _mm_storeu_ps(out + p, v0);
                _mm_storeu_ps(out + gap + p, v1);
                _mm_storeu_ps(out + 2 * gap + p, v2);
                if (n == 4)
                    _mm_storeu_ps(out + 3 * gap + p, v3);
            }
        return p;
    }
    static inline Py_ssize_t fg_turn_8(Py_ssize_t k, Py_ssize_t n, const double* b, Py_ssize_t rs, double* out,
                                       Py_ssize_t gap)
    {
        Py_ssize_t p = 0, j;
        if (rs < n || n < 2 || n > 4)
            return 0;
        for (; p + 2 <= k; p += 2, b += 2 * rs) {
            for (j = 0; j + 2 <= n; j += 2) {
                __m128d v0 = _mm_loadu_pd(b + j), v1 = _mm_loadu_pd(b + rs + j);
                _mm_storeu_pd(out + j * gap + p, _mm_unpacklo_pd(v0, v1));
                _mm_storeu_pd(out + (j + 1) * gap + p, _mm_unpackhi_pd(v0, v1));
            }
            if (j < n)
                _mm_storeu_pd(out + j * gap + p, _mm_loadh_pd(_mm_load_sd(b + j), b + rs + j));
        }
        return p;
    }
    #else
    #define fg_turn_4(k, n, b, rs, out, gap) 0
    #define fg_turn_8(k, n, b, rs, out, gap) 0
    #endif
    """
    Py_ssize_t fg_turn_4(Py_ssize_t k, Py_ssize_t n, const float* b, Py_ssize_t rs, float* out, Py_ssize_t gap) nogil
    Py_ssize_t fg_turn_8(Py_ssize_t k, Py_ssize_t n, const double* b, Py_ssize_t rs, double* out, Py_ssize_t gap) nogil


cdef inline void turned_columns(Py_ssize_t k, Py_ssize_t n, const char* b, Py_ssize_t rs, Py_ssize_t cs, int unit,
                                char* out, Py_ssize_t gap) noexcept nogil:
    # k numbers of `unit` bytes of each of n columns, as rows, `gap` apart.
    cdef Py_ssize_t p = 0, j
    if cs == 1 and unit == 4:
        p = fg_turn_4(k, n, <const float*>b, rs, <float*>out, gap)
    elif cs == 1 and unit == 8:
        p = fg_turn_8(k, n, <const double*>b, rs, <double*>out, gap)
    while p < k:
        for j in range(n):
            if unit == 1:
                out[j * gap + p] = b[p * rs + j * cs]
            elif unit == 2:
                (<short*>out)[j * gap + p] = (<const short*>b)[p * rs + j * cs]
            elif unit == 4:
                (<int*>out)[j * gap + p] = (<const int*>b)[p * rs + j * cs]
            else:
                (<long long*>out)[j * gap + p] = (<const long long*>b)[p * rs + j * cs]
        p += 1
