"""A square of numbers turned over in registers: what packing reads along k and writes across it.

A vector of N numbers from each of N columns is loaded; interleaving the first half of the vectors with the second,
log2(N) times, turns rows into columns; N vectors are stored.  Units of 4 and 8 bytes, whatever they mean
(a complex64 is one of 8).  Zen 5, f32: 0.4 cycles a number in all where copying one by one takes 0.7.
"""

from fastgemm.kernels.simd cimport vf32

cdef extern from *:
    """
    #ifndef FASTGEMM_TRANSPOSE
    #define FASTGEMM_TRANSPOSE
    typedef unsigned int turned_4 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(1), may_alias));
    typedef unsigned long long turned_8 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(1), may_alias));
    /* `from` and `to` are bytes apart. */
    #define FASTGEMM_TURN(S, LANES) \\
    static inline void transpose_##S(const void *b, Py_ssize_t from, void *out, Py_ssize_t to) { \\
        enum { N = FASTGEMM_VECTOR_BYTES / S }; \\
        turned_##S v[N], w[N]; \\
        _Pragma("GCC unroll 16") \\
        for (int i = 0; i < N; i++) v[i] = *(const turned_##S *)((const char *)b + i * from); \\
        _Pragma("GCC unroll 4") \\
        for (int n = N; n > 1; n /= 2) { \\
            _Pragma("GCC unroll 8") \\
            for (int i = 0; i < N / 2; i++) { \\
                w[2 * i] = LANES(FG_LOW)(turned_##S, v[i], v[i + N / 2]); \\
                w[2 * i + 1] = LANES(FG_HIGH)(turned_##S, v[i], v[i + N / 2]); \\
            } \\
            _Pragma("GCC unroll 16") \\
            for (int i = 0; i < N; i++) v[i] = w[i]; \\
        } \\
        _Pragma("GCC unroll 16") \\
        for (int i = 0; i < N; i++) *(turned_##S *)((char *)out + i * to) = v[i]; \\
    }
    FASTGEMM_TURN(4, FG_32)
    FASTGEMM_TURN(8, FG_64)
    #endif
    """
    void transpose_4(const void*, Py_ssize_t, void*, Py_ssize_t) nogil
    void transpose_8(const void*, Py_ssize_t, void*, Py_ssize_t) nogil
