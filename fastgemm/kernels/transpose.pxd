"""A square of numbers turned over in registers: what packing reads along k and writes across it.

A vector of N numbers from each of N columns is loaded; interleaving the first half of the vectors with the second,
log2(N) times, turns rows into columns; N vectors are stored.  Units of 4 and 8 bytes, whatever they mean
(a complex64 is one of 8).  Zen 5, f32: 0.4 cycles a number in all where copying one by one takes 0.7.
"""

cdef extern from *:
    """
    #ifndef FASTGEMM_TRANSPOSE
    #define FASTGEMM_TRANSPOSE
    typedef unsigned int turned_4 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(1), may_alias));
    typedef unsigned long long turned_8 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(1), may_alias));
    #if FASTGEMM_VECTOR_BYTES == 64
    #define FIRST_4 {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23}
    #define SECOND_4 {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31}
    #define FIRST_8 {0, 8, 1, 9, 2, 10, 3, 11}
    #define SECOND_8 {4, 12, 5, 13, 6, 14, 7, 15}
    #elif FASTGEMM_VECTOR_BYTES == 32
    #define FIRST_4 {0, 8, 1, 9, 2, 10, 3, 11}
    #define SECOND_4 {4, 12, 5, 13, 6, 14, 7, 15}
    #define FIRST_8 {0, 4, 1, 5}
    #define SECOND_8 {2, 6, 3, 7}
    #else
    #define FIRST_4 {0, 4, 1, 5}
    #define SECOND_4 {2, 6, 3, 7}
    #define FIRST_8 {0, 2}
    #define SECOND_8 {1, 3}
    #endif
    /* `from` and `to` are bytes apart. */
    #define FASTGEMM_TURN(S) \\
    static inline void transpose_##S(const void *b, Py_ssize_t from, void *out, Py_ssize_t to) { \\
        enum { N = FASTGEMM_VECTOR_BYTES / S }; \\
        const turned_##S first = FIRST_##S, second = SECOND_##S; \\
        turned_##S v[N], w[N]; \\
        _Pragma("GCC unroll 16") \\
        for (int i = 0; i < N; i++) v[i] = *(const turned_##S *)((const char *)b + i * from); \\
        _Pragma("GCC unroll 4") \\
        for (int n = N; n > 1; n /= 2) { \\
            _Pragma("GCC unroll 8") \\
            for (int i = 0; i < N / 2; i++) { \\
                w[2 * i] = __builtin_shuffle(v[i], v[i + N / 2], first); \\
                w[2 * i + 1] = __builtin_shuffle(v[i], v[i + N / 2], second); \\
            } \\
            _Pragma("GCC unroll 16") \\
            for (int i = 0; i < N; i++) v[i] = w[i]; \\
        } \\
        _Pragma("GCC unroll 16") \\
        for (int i = 0; i < N; i++) *(turned_##S *)((char *)out + i * to) = v[i]; \\
    }
    FASTGEMM_TURN(4)
    FASTGEMM_TURN(8)
    #endif
    """
    void transpose_4(const void*, Py_ssize_t, void*, Py_ssize_t) nogil
    void transpose_8(const void*, Py_ssize_t, void*, Py_ssize_t) nogil
