"""A square of numbers turned over in registers: what packing reads along k and writes across it.

A vector of N numbers from each of N columns is loaded; interleaving the first half of the vectors with the second,
log2(N) times, turns rows into columns; N vectors are stored.  Units of 4 and 8 bytes, whatever they mean
(a complex64 is one of 8); and of 16, two lanes each.  Zen 5, f32: 0.4 cycles a number in all where copying one by one
takes 0.7.
"""

from fastgemm.kernels.simd cimport vf32

cdef extern from *:
    """
    #ifndef FASTGEMM_TRANSPOSE
    #define FASTGEMM_TRANSPOSE
    typedef unsigned int turned_4 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(1), may_alias));
    typedef unsigned long long turned_8 __attribute__((vector_size(FASTGEMM_VECTOR_BYTES), aligned(1), may_alias));
    typedef turned_8 turned_16;
    /* Units of S bytes, so many lanes each: n vectors, a power of two, zipped until they are the numbers of N columns,
       n each, one after the other. */
    #define FASTGEMM_TURN(S, UNIT, LANES, F, R) \\
    static inline __attribute__((always_inline)) void turn_##S(const int n, turned_##S *v) { \\
        turned_##S w[16]; \\
        _Pragma("GCC unroll 4") \\
        for (int left = n; left > 1; left /= 2) { \\
            _Pragma("GCC unroll 8") \\
            for (int i = 0; i < n / 2; i++) { \\
                w[2 * i] = LANES(FG_LOW)(turned_##S, v[i], v[i + n / 2]); \\
                w[2 * i + 1] = LANES(FG_HIGH)(turned_##S, v[i], v[i + n / 2]); \\
            } \\
            _Pragma("GCC unroll 16") \\
            for (int i = 0; i < n; i++) v[i] = w[i]; \\
        } \\
    } \\
    /* Of squares `from` and `to` are bytes apart. */ \\
    static inline void transpose_##S(const void *b, Py_ssize_t from, void *out, Py_ssize_t to) { \\
        enum { N = FASTGEMM_VECTOR_BYTES / S }; \\
        turned_##S v[N]; \\
        _Pragma("GCC unroll 16") \\
        for (int i = 0; i < N; i++) v[i] = *(const turned_##S *)((const char *)b + i * from); \\
        turn_##S(N, v); \\
        _Pragma("GCC unroll 16") \\
        for (int i = 0; i < N; i++) *(turned_##S *)((char *)out + i * to) = v[i]; \\
    } \\
    /* A square of which `columns` and `steps` are there; behind the last column it is repeated. */ \\
    static inline void transpose_part_##S(int columns, int steps, const void *b, Py_ssize_t from, \\
                                          void *out, Py_ssize_t to) { \\
        enum { N = FASTGEMM_VECTOR_BYTES / S }; \\
        turned_##S v[N]; \\
        _Pragma("GCC unroll 16") \\
        for (int i = 0; i < N; i++) { \\
            const char *column = (const char *)b + (i < columns ? i : columns - 1) * from; \\
            v[i] = (turned_##S)part_##R((const F *)column, UNIT * steps); \\
        } \\
        turn_##S(N, v); \\
        _Pragma("GCC unroll 16") \\
        for (int i = 0; i < N; i++) \\
            if (i < steps) *(turned_##S *)((char *)out + i * to) = v[i]; \\
    }
    #define FASTGEMM_TURN_ALL(S, F, R) \\
    static inline __attribute__((always_inline)) void transpose_few_##S( \\
            const int n, Py_ssize_t rows, Py_ssize_t columns, const F *from, Py_ssize_t gap, F *out) { \\
        enum { N = FASTGEMM_VECTOR_BYTES / S }; \\
        for (Py_ssize_t j0 = 0; j0 < columns; j0 += N, out += n * N) { \\
            const int width = columns - j0 < N ? (int)(columns - j0) : N; \\
            turned_##S v[8]; \\
            _Pragma("GCC unroll 8") \\
            for (int i = 0; i < n; i++) \\
                v[i] = (turned_##S)part_##R(from + (i < rows ? i : rows - 1) * gap + j0, width); \\
            turn_##S(n, v); \\
            _Pragma("GCC unroll 8") \\
            for (int i = 0; i < n; i++) { \\
                const int left = width * n - i * N; \\
                if (left >= N) *(turned_##S *)(out + i * N) = v[i]; \\
                else if (left > 0) store_part_##R(out + i * N, (v##R)v[i], left); \\
            } \\
        } \\
    } \\
    /* rows x columns as columns of n = 2, 4 or 8 numbers, one after the other; behind the last row it again. */ \\
    static inline void transpose_short_##S(int n, Py_ssize_t rows, Py_ssize_t columns, const void *from, \\
                                           Py_ssize_t gap, void *out) { \\
        if (n == 2) transpose_few_##S(2, rows, columns, (const F *)from, gap, (F *)out); \\
        else if (n == 4) transpose_few_##S(4, rows, columns, (const F *)from, gap, (F *)out); \\
        else transpose_few_##S(8, rows, columns, (const F *)from, gap, (F *)out); \\
    } \\
    /* rows x columns of any size; nothing outside them is read or written.  `gap` and `to` count numbers. */ \\
    static inline void transpose_all_##S(Py_ssize_t rows, Py_ssize_t columns, const void *from_, Py_ssize_t gap, \\
                                  void *out_, Py_ssize_t to) { \\
        enum { N = FASTGEMM_VECTOR_BYTES / S }; \\
        const F *from = (const F *)from_; \\
        F *out = (F *)out_; \\
        if (to == rows && (rows == 2 || rows == 4 || rows == 8)) { \\
            transpose_short_##S((int)rows, rows, columns, from, gap, out); \\
            return; \\
        } \\
        for (Py_ssize_t i0 = 0; i0 < rows; i0 += N) { \\
            const int height = rows - i0 < N ? (int)(rows - i0) : N; \\
            for (Py_ssize_t j0 = 0; j0 < columns; j0 += N) { \\
                const int width = columns - j0 < N ? (int)(columns - j0) : N; \\
                turned_##S v[N]; \\
                _Pragma("GCC unroll 16") \\
                for (int i = 0; i < N; i++) { \\
                    const F *row = from + (i0 + (i < height ? i : height - 1)) * gap + j0; \\
                    v[i] = (turned_##S)part_##R(row, width); \\
                } \\
                turn_##S(N, v); \\
                _Pragma("GCC unroll 16") \\
                for (int j = 0; j < N; j++) \\
                    if (j < width) store_part_##R(out + (j0 + j) * to + i0, (v##R)v[j], height); \\
            } \\
        } \\
    }
    FASTGEMM_TURN(4, 1, FG_32, float, f32)
    FASTGEMM_TURN(8, 1, FG_64, double, f64)
    FASTGEMM_TURN_ALL(4, float, f32)
    FASTGEMM_TURN_ALL(8, double, f64)
    #if FASTGEMM_VECTOR_BYTES >= 32
    FASTGEMM_TURN(16, 2, FG_128, double, f64)
    #endif
    #endif
    """
    void transpose_4(const void*, Py_ssize_t, void*, Py_ssize_t) nogil
    void transpose_8(const void*, Py_ssize_t, void*, Py_ssize_t) nogil
    void transpose_16(const void*, Py_ssize_t, void*, Py_ssize_t) nogil
    void transpose_part_16(int columns, int steps, const void*, Py_ssize_t, void*, Py_ssize_t) nogil
    void transpose_part_4(int columns, int steps, const void*, Py_ssize_t, void*, Py_ssize_t) nogil
    void transpose_part_8(int columns, int steps, const void*, Py_ssize_t, void*, Py_ssize_t) nogil
    void transpose_short_4(int n, Py_ssize_t rows, Py_ssize_t columns, const void*, Py_ssize_t gap, void*) nogil
    void transpose_short_8(int n, Py_ssize_t rows, Py_ssize_t columns, const void*, Py_ssize_t gap, void*) nogil
    void transpose_all_4(Py_ssize_t rows, Py_ssize_t columns, const void*, Py_ssize_t gap, void*, Py_ssize_t to) nogil
    void transpose_all_8(Py_ssize_t rows, Py_ssize_t columns, const void*, Py_ssize_t gap, void*, Py_ssize_t to) nogil
