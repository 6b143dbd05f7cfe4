"""The rules of `stacks`, as `bench/stacks.py` prints them.

Zen 4 (2 cores of an EPYC, AVX-512 and AVX2), one thread.  A line has the type, how operands lie (one letter: single
rows, by matrices that lie so) and the tier (`halved`: both, of a CPU that computes the longer vectors in two halves),
columns, rows and steps of k and the way, and, for whoever reads them, the gain over the other rules, in the mean, the
least and the most.  The first line that fits counts.

What they gain over the other rules in the mean, of what the best way of each product would: f32 n-v3 1.040 of 1.041,
f32 t-v3 1.023 of 1.025, f32 nn-v3 1.000 of 1.000, f32 nt-v3 1.372 of 1.374, f32 tn-v3 1.000 of 1.000, f32 tt-v3 1.000
of 1.000, f32 n-v4 1.051 of 1.052, f32 t-v4 1.022 of 1.024, f32 nn-v4 1.000 of 1.000, f32 nt-v4 1.434 of 1.437, f32
tn-v4 1.000 of 1.000, f32 tt-v4 1.000 of 1.000, f32 n-halved 1.143 of 1.148, f32 t-halved 1.107 of 1.116, f32 nn-halved
1.089 of 1.100, f32 nt-halved 1.584 of 1.598, f32 tn-halved 1.124 of 1.124, f32 tt-halved 1.016 of 1.017, f64 n-v3 1.016
of 1.017, f64 t-v3 1.047 of 1.050, f64 nn-v3 1.000 of 1.000, f64 nt-v3 1.371 of 1.372, f64 tn-v3 1.000 of 1.000, f64
tt-v3 1.000 of 1.000, f64 n-v4 1.057 of 1.058, f64 t-v4 1.045 of 1.047, f64 nn-v4 1.000 of 1.000, f64 nt-v4 1.327 of
1.331, f64 tn-v4 1.000 of 1.000, f64 tt-v4 1.000 of 1.000, f64 n-halved 1.095 of 1.102, f64 t-halved 1.146 of 1.156, f64
nn-halved 1.065 of 1.073, f64 nt-halved 1.418 of 1.430, f64 tn-halved 1.023 of 1.031, f64 tt-halved 1.000 of 1.009, c64
n-v3 1.074 of 1.079, c64 t-v3 1.110 of 1.112, c64 nn-v3 1.000 of 1.000, c64 nt-v3 1.000 of 1.000, c64 tn-v3 1.000 of
1.000, c64 tt-v3 1.000 of 1.000, c64 n-v4 1.025 of 1.027, c64 t-v4 1.114 of 1.117, c64 nn-v4 1.000 of 1.000, c64 nt-v4
1.000 of 1.000, c64 tn-v4 1.000 of 1.000, c64 tt-v4 1.000 of 1.000, c64 n-halved 1.058 of 1.063, c64 t-halved 1.120 of
1.131, c64 nn-halved 1.020 of 1.027, c64 nt-halved 1.000 of 1.009, c64 tn-halved 1.000 of 1.003, c64 tt-halved 1.000 of
1.012, c128 n-v3 1.171 of 1.172, c128 t-v3 1.105 of 1.108, c128 nn-v3 1.000 of 1.000, c128 nt-v3 1.015 of 1.022, c128
tn-v3 1.000 of 1.000, c128 tt-v3 1.000 of 1.000, c128 n-v4 1.036 of 1.040, c128 t-v4 1.116 of 1.119, c128 nn-v4 1.000 of
1.000, c128 nt-v4 1.014 of 1.018, c128 tn-v4 1.000 of 1.000, c128 tt-v4 1.000 of 1.000, c128 n-halved 1.056 of 1.067,
c128 t-halved 1.117 of 1.126, c128 nn-halved 1.013 of 1.020, c128 nt-halved 1.117 of 1.132, c128 tn-halved 1.000 of
1.011, c128 tt-halved 1.104 of 1.115, i32 n-v3 1.036 of 1.037, i32 t-v3 1.000 of 1.013, i32 nn-v3 1.000 of 1.000, i32
nt-v3 1.328 of 1.332, i32 tn-v3 1.000 of 1.000, i32 tt-v3 1.000 of 1.000, i32 n-v4 1.122 of 1.122, i32 t-v4 1.000 of
1.007, i32 nn-v4 1.000 of 1.000, i32 nt-v4 1.123 of 1.126, i32 tn-v4 1.000 of 1.000, i32 tt-v4 1.000 of 1.000, i32
n-halved 1.214 of 1.216, i32 t-halved 1.000 of 1.014, i32 nn-halved 1.162 of 1.170, i32 nt-halved 1.309 of 1.320, i32
tn-halved 1.018 of 1.029, i32 tt-halved 1.019 of 1.045, i64 n-v3 1.314 of 1.319, i64 t-v3 1.035 of 1.042, i64 nn-v3
2.333 of 2.333, i64 nt-v3 1.801 of 1.812, i64 tn-v3 2.197 of 2.197, i64 tt-v3 1.471 of 1.471, i64 n-v4 1.080 of 1.080,
i64 t-v4 1.086 of 1.089, i64 nn-v4 1.000 of 1.000, i64 nt-v4 1.089 of 1.091, i64 tn-v4 1.000 of 1.000, i64 tt-v4 1.000
of 1.000, i64 n-halved 1.096 of 1.098, i64 t-halved 1.090 of 1.098, i64 nn-halved 1.020 of 1.027, i64 nt-halved 1.120 of
1.124, i64 tn-halved 1.013 of 1.013, i64 tt-halved 1.000 of 1.001, i16 n-v3 1.071 of 1.073, i16 t-v3 1.000 of 1.008, i16
nn-v3 1.000 of 1.000, i16 nt-v3 1.000 of 1.010, i16 tn-v3 1.000 of 1.000, i16 tt-v3 1.000 of 1.000, i16 n-v4 1.048 of
1.051, i16 t-v4 1.000 of 1.009, i16 nn-v4 1.000 of 1.000, i16 nt-v4 1.000 of 1.010, i16 tn-v4 1.000 of 1.000, i16 tt-v4
1.000 of 1.000, i16 n-halved 1.057 of 1.061, i16 t-halved 1.058 of 1.062, i16 nn-halved 1.000 of 1.000, i16 nt-halved
1.190 of 1.202, i16 tn-halved 1.000 of 1.000, i16 tt-halved 1.125 of 1.137, f16 n-v3 1.038 of 1.041, f16 t-v3 1.000 of
1.010, f16 nn-v3 1.000 of 1.000, f16 nt-v3 1.000 of 1.000, f16 tn-v3 1.000 of 1.000, f16 tt-v3 1.000 of 1.000, f16 n-v4
1.000 of 1.008, f16 t-v4 1.012 of 1.013, f16 nn-v4 1.000 of 1.000, f16 nt-v4 1.000 of 1.000, f16 tn-v4 1.000 of 1.000,
f16 tt-v4 1.000 of 1.000, f16 n-halved 1.015 of 1.020, f16 t-halved 1.046 of 1.066, f16 nn-halved 1.000 of 1.014, f16
nt-halved 1.045 of 1.047, f16 tn-halved 1.087 of 1.093, f16 tt-halved 1.043 of 1.045, i8 n-v3 1.021 of 1.023, i8 t-v3
1.049 of 1.051, i8 nn-v3 1.000 of 1.000, i8 nt-v3 1.000 of 1.000, i8 tn-v3 1.000 of 1.000, i8 tt-v3 1.000 of 1.000, i8
n-v4 1.000 of 1.003, i8 t-v4 1.018 of 1.020, i8 nn-v4 1.000 of 1.000, i8 nt-v4 1.000 of 1.000, i8 tn-v4 1.000 of 1.000,
i8 tt-v4 1.000 of 1.000, i8 n-halved 1.000 of 1.009, i8 t-halved 1.025 of 1.028, i8 nn-halved 1.000 of 1.000, i8
nt-halved 1.000 of 1.000, i8 tn-halved 1.000 of 1.000, i8 tt-halved 1.000 of 1.002, bool n-v3 1.019 of 1.020, bool t-v3
1.104 of 1.104, bool nn-v3 1.000 of 1.000, bool nt-v3 1.000 of 1.000, bool tn-v3 1.000 of 1.000, bool tt-v3 1.000 of
1.000, bool n-v4 1.011 of 1.011, bool t-v4 1.000 of 1.010, bool nn-v4 1.000 of 1.000, bool nt-v4 1.000 of 1.000, bool
tn-v4 1.000 of 1.000, bool tt-v4 1.000 of 1.000, bool n-halved 1.011 of 1.013, bool t-halved 1.012 of 1.019, bool
nn-halved 1.000 of 1.001, bool nt-halved 1.000 of 1.000, bool tn-halved 1.000 of 1.000, bool tt-halved 1.000 of 1.000,
bf16 n-v3 1.033 of 1.037, bf16 t-v3 1.012 of 1.013, bf16 nn-v3 1.000 of 1.000, bf16 nt-v3 1.000 of 1.000, bf16 tn-v3
1.000 of 1.000, bf16 tt-v3 1.000 of 1.000, bf16 n-v4 1.029 of 1.029, bf16 t-v4 1.049 of 1.053, bf16 nn-v4 1.000 of
1.000, bf16 nt-v4 1.000 of 1.003, bf16 tn-v4 1.000 of 1.000, bf16 tt-v4 1.000 of 1.000, bf16 n-halved 1.034 of 1.037,
bf16 t-halved 1.066 of 1.083, bf16 nn-halved 1.000 of 1.001, bf16 nt-halved 1.000 of 1.003, bf16 tn-halved 1.000 of
1.001, bf16 tt-halved 1.000 of 1.000, i8_i32 n-v3 1.081 of 1.082, i8_i32 t-v3 1.037 of 1.044, i8_i32 nn-v3 1.028 of
1.029, i8_i32 nt-v3 1.109 of 1.111, i8_i32 tn-v3 1.000 of 1.000, i8_i32 tt-v3 1.000 of 1.001, i8_i32 n-v4 1.000 of
1.002, i8_i32 t-v4 1.072 of 1.078, i8_i32 nn-v4 1.000 of 1.000, i8_i32 nt-v4 1.000 of 1.001, i8_i32 tn-v4 1.000 of
1.000, i8_i32 tt-v4 1.000 of 1.000, i8_i32 n-halved 1.000 of 1.002, i8_i32 t-halved 1.072 of 1.077, i8_i32 nn-halved
1.000 of 1.000, i8_i32 nt-halved 1.000 of 1.001, i8_i32 tn-halved 1.000 of 1.000, i8_i32 tt-halved 1.000 of 1.000.
"""

RULES = """
f32    n-v3        9-24    1-    65-  small         1.19  1.16   1.2
f32    n-v3         1-1    1-    1-4  small         1.30  1.10   1.5
f32    n-v3         5-8    1-  25-64  gemv          1.15  1.03   1.2
f32    n-v3         2-4    1-   1-24  gemv          1.26  0.95   2.0
f32    t-v3        1-15    1-  32-48  gemv          1.12  1.01   1.4
f32    t-v3         3-3    1-   9-31  dots          1.00  1.00   1.0
f32    t-v3         1-5    1-   5-48  gemv          1.16  1.02   1.3
f32    nt-v3         6-   2-3    1-4  others        1.00  1.00   1.0
f32    nt-v3        4-4    6-    4-4  small         1.00  1.00   1.0
f32    nt-v3        5-6   5-6    5-7  small         1.00  1.00   1.0
f32    nt-v3         2-    2-    1-2  dots          1.91  1.00   6.7
f32    nt-v3         2-   2-4     1-  dots          1.78  1.00   6.0
f32    nt-v3        2-6    2-     1-  dots          1.15  0.93   1.5
f32    n-v4         4-4    1-   8-15  small         1.00  1.00   1.0
f32    n-v4       17-64    1-    65-  small         1.10  1.07   1.2
f32    n-v4         2-8    1-    1-3  gemv          1.35  1.00   1.6
f32    n-v4         1-1    1-    1-7  small         1.50  1.11   2.2
f32    n-v4         2-7    1-   1-24  gemv          1.14  0.98   1.5
f32    t-v4         7-8    1-   9-63  gemv          1.08  0.94   1.2
f32    t-v4         1-4    1-   9-63  gemv          1.23  1.09   1.5
f32    nt-v4        2-7   4-4     1-  dots          2.25  1.19   4.4
f32    nt-v4         6-   2-3    1-6  others        1.00  1.00   1.0
f32    nt-v4         2-    7-    6-6  small         1.00  1.00   1.0
f32    nt-v4        2-5   2-5     1-  dots          1.96  0.88   6.8
f32    nt-v4         2-    2-    1-6  dots          1.35  0.95   2.0
f32    n-halved   17-64    1-    65-  small         1.09  1.05   1.2
f32    n-halved     4-4    1-   8-15  small         1.00  1.00   1.0
f32    n-halved     2-4    1-    1-1  gemv          1.51  1.35   1.6
f32    n-halved     2-4    1-    5-8  gemv          1.21  1.04   1.5
f32    n-halved     1-7    1-  17-63  short-gemv    1.26  0.96   1.8
f32    n-halved     1-1    1-    1-7  small         1.50  1.11   2.2
f32    n-halved     1-4    1-   1-64  short-gemv    1.28  1.00   2.1
f32    n-halved     5-8    1-   1-31  short-small   1.63  0.97   2.5
f32    t-halved     1-6    1-  32-48  short-gemv    1.18  1.08   1.4
f32    t-halved     5-5    1-   7-48  short-gemv    1.17  1.13   1.2
f32    t-halved     1-4    1-    5-8  dots          1.39  1.05   1.8
f32    t-halved     1-2    1-   5-48  gemv          1.26  1.20   1.3
f32    t-halved      3-    1-    1-6  dots          1.33  0.90   2.1
f32    nn-halved    2-2   4-4    2-5  short-small   1.37  1.04   2.4
f32    nn-halved    3-4   2-2     4-  short-small   1.19  1.07   2.2
f32    nn-halved     8-   7-7     1-  small         1.53  1.36   1.8
f32    nn-halved    5-7   2-6     1-  short-small   1.25  0.95   2.2
f32    nt-halved    2-3   2-2    1-3  short-dots    6.09  4.13   9.2
f32    nt-halved     3-   4-4     8-  short-dots    1.51  1.12   1.9
f32    nt-halved    2-2   2-4    1-4  short-dots    4.05  2.94   4.9
f32    nt-halved     3-   5-6     7-  others        1.00  1.00   1.0
f32    nt-halved    2-2    4-     5-  short-dots    1.43  1.16   2.2
f32    nt-halved     2-    2-    1-5  dots          1.70  0.94   5.1
f32    nt-halved     2-    5-     7-  small         1.08  1.00   1.2
f32    nt-halved     2-   2-7     1-  dots          1.59  0.97   3.3
f32    tn-halved     5-   7-7     1-  small         1.84  1.42   2.5
f32    tn-halved    2-4    8-     1-  short-small   1.31  1.11   1.6
f32    tn-halved    5-7    2-     1-  small         1.15  1.08   1.3
f32    tt-halved    2-3    8-    1-7  short-small   1.22  1.21   1.3
f32    tt-halved     4-   7-7     1-  small         1.09  1.03   1.1
f64    n-v3         2-2    1-    1-3  gemv          1.17  0.99   1.3
f64    n-v3         2-2    1-  16-24  gemv          1.25  1.17   1.3
f64    n-v3         3-4    1-  33-64  gemv          1.18  1.06   1.3
f64    n-v3        5-12    1-    65-  small         1.28  1.24   1.3
f64    n-v3         1-1    1-    1-6  small         1.40  1.09   1.9
f64    t-v3          8-    1-   8-24  gemv          1.08  1.01   1.2
f64    t-v3         1-6    1-   3-24  gemv          1.20  0.95   1.5
f64    nt-v3        5-6   5-6    3-6  others        1.00  1.00   1.0
f64    nt-v3        3-3   6-6     3-  small         1.00  1.00   1.0
f64    nt-v3         7-    5-     3-  others        1.00  1.00   1.0
f64    nt-v3        5-5   5-6     3-  small         1.00  1.00   1.0
f64    nt-v3         2-    2-     1-  dots          1.50  0.96   5.6
f64    n-v4         4-4    1-   8-15  small         1.00  1.00   1.0
f64    n-v4        9-32    1-    65-  small         1.15  1.10   1.2
f64    n-v4         1-1    1-    1-6  small         1.44  1.10   2.0
f64    n-v4         2-4    1-   1-24  gemv          1.15  0.99   1.5
f64    n-v4       33-64    1-   1-64  gemv          1.22  1.05   1.9
f64    t-v4        9-24    1-   8-15  others        1.00  1.00   1.0
f64    t-v4         1-2    1-    6-7  dots          1.00  1.00   1.0
f64    t-v4          8-    1-    6-7  gemv          1.15  1.03   1.4
f64    t-v4         6-6    1-   8-31  dots          1.00  1.00   1.0
f64    t-v4        1-24    1-   6-31  gemv          1.18  1.00   1.6
f64    nt-v4         2-   2-3     8-  dots          1.51  1.10   2.0
f64    nt-v4         6-   2-3    1-7  others        1.00  1.00   1.0
f64    nt-v4         4-    6-    5-5  small         1.00  1.00   1.0
f64    nt-v4        2-6   2-4     1-  dots          2.08  1.00   6.8
f64    nt-v4         2-    2-    1-5  dots          1.34  0.91   3.6
f64    n-halved     2-2    1-    3-7  gemv          1.18  1.06   1.3
f64    n-halved    9-32    1-    65-  small         1.16  1.11   1.2
f64    n-halved     1-2    1-  16-63  short-gemv    1.18  1.07   1.6
f64    n-halved     1-1    1-    1-6  short-small   1.52  1.15   2.1
f64    n-halved   33-64    1-   1-64  gemv          1.22  1.06   1.9
f64    n-halved     2-4    1-   1-24  short-small   1.57  0.97   2.4
f64    t-halved     1-3    1-   6-15  gemv          1.20  1.02   1.4
f64    t-halved      1-    1-  16-16  short-gemv    1.18  1.11   1.6
f64    t-halved      8-    1-    8-8  short-gemv    1.16  1.11   1.2
f64    t-halved     1-5    1-   6-24  short-gemv    1.21  1.12   1.4
f64    t-halved      1-    1-    1-5  dots          1.57  1.02   3.1
f64    nn-halved    2-2   5-6     3-  small         1.00  1.00   1.0
f64    nn-halved    4-4   7-7     1-  small         1.73  1.49   2.1
f64    nn-halved    2-3   2-6     1-  short-small   1.35  0.93   2.4
f64    nt-halved     6-   2-3    1-5  others        1.00  1.00   1.0
f64    nt-halved    2-3   2-3    1-7  dots          3.26  1.51   6.4
f64    nt-halved     7-    5-    5-5  small         1.00  1.00   1.0
f64    nt-halved    4-4    5-     5-  short-dots    1.20  1.08   1.4
f64    nt-halved    2-2    5-     4-  short-dots    1.35  1.27   1.4
f64    nt-halved     2-   2-4     6-  short-dots    1.49  1.00   2.3
f64    nt-halved     2-    2-    1-5  dots          1.56  0.94   4.6
f64    tn-halved    2-2   4-4     1-  short-small   1.28  1.20   1.3
f64    tn-halved    4-4    7-     1-  small         1.55  1.20   2.4
c64    n-v3         2-2    1-    1-5  gemv          1.17  1.08   1.3
c64    n-v3        5-12    1-    65-  small         1.17  1.07   1.2
c64    n-v3         1-1    1-    1-7  small         1.40  1.08   1.9
c64    n-v3       13-64    1-   1-16  gemv          1.24  1.02   2.2
c64    t-v3        1-48    1-    8-8  others        1.00  1.00   1.0
c64    t-v3         33-    1-    1-4  small         1.11  1.01   1.2
c64    t-v3        1-32    1-   5-15  gemv          1.56  1.03   3.8
c64    n-v4        9-63    1-    65-  small         1.12  1.05   1.2
c64    n-v4         2-4    1-    1-5  gemv          1.12  1.02   1.4
c64    n-v4       33-64    1-    1-4  gemv          1.18  1.04   1.5
c64    n-v4         1-1    1-    1-8  small         1.52  1.09   2.2
c64    t-v4        1-31    1-  16-16  others        1.00  1.00   1.0
c64    t-v4         17-    1-   1-12  small         1.29  1.02   1.8
c64    t-v4        1-31    1-   9-31  gemv          1.45  1.04   3.0
c64    n-halved     3-3    1-    17-  short-gemv    1.15  1.12   1.2
c64    n-halved     1-1    1-   1-12  small         1.41  1.00   2.2
c64    n-halved     2-2    1-    1-8  gemv          1.15  1.04   1.4
c64    n-halved    9-63    1-    65-  small         1.12  1.06   1.2
c64    n-halved     2-4    1-   9-24  short-small   1.21  1.12   1.3
c64    n-halved     2-2    1-     1-  short-gemv    1.16  1.14   1.2
c64    n-halved   33-64    1-    1-4  gemv          1.18  1.02   1.5
c64    n-halved     1-4    1-   1-12  short-small   1.56  1.30   2.0
c64    t-halved    1-16    1-    8-8  others        1.00  1.00   1.0
c64    t-halved     25-    1-    1-7  small         1.14  1.04   1.4
c64    t-halved    1-16    1-   5-15  short-gemv    1.74  1.10   3.8
c64    nn-halved    2-4   2-3     1-  short-small   1.17  0.96   2.1
c128   n-v3       17-64    1-   1-64  gemv          1.33  1.02   3.1
c128   n-v3        3-12    1-    65-  small         1.18  1.03   1.4
c128   n-v3         1-1    1-    1-7  small         1.50  1.24   2.0
c128   n-v3        7-64    1-   1-32  gemv          1.29  0.98   2.5
c128   t-v3        1-64    1-    6-6  others        1.00  1.00   1.0
c128   t-v3        1-64    1-    4-4  others        1.00  1.00   1.0
c128   t-v3         16-    1-    64-  dots          1.11  1.04   1.2
c128   t-v3        1-64    1-    3-7  gemv          1.76  1.10   4.1
c128   nt-v3        3-3   3-4     4-  dots          1.09  1.04   1.1
c128   nt-v3        5-5   2-4     5-  dots          1.09  1.01   1.1
c128   nt-v3        7-7   2-5     1-  dots          1.12  1.02   1.2
c128   n-v4        5-48    1-    65-  small         1.18  1.03   1.3
c128   n-v4         1-1    1-   1-12  small         1.45  1.07   2.1
c128   n-v4       17-64    1-    1-4  gemv          1.30  1.07   1.8
c128   t-v4        1-48    1-    8-8  others        1.00  1.00   1.0
c128   t-v4         32-    1-    64-  dots          1.09  1.03   1.2
c128   t-v4        1-48    1-   5-15  gemv          1.56  1.04   3.6
c128   nt-v4         2-   2-3     8-  dots          1.20  1.01   1.5
c128   nt-v4        5-6   2-4     6-  dots          1.17  0.99   1.4
c128   n-halved     1-1    1-   4-15  small         1.25  1.06   1.5
c128   n-halved     2-2    1-   1-64  short-small   1.41  1.08   1.8
c128   n-halved    5-31    1-    65-  small         1.22  1.07   1.3
c128   n-halved   17-64    1-    1-4  gemv          1.30  1.06   1.8
c128   n-halved     1-2    1-   1-15  short-small   2.01  1.70   2.2
c128   t-halved     16-    1-    64-  dots          1.13  1.03   1.2
c128   t-halved    1-48    1-    6-6  others        1.00  1.00   1.0
c128   t-halved    1-48    1-    4-4  others        1.00  1.00   1.0
c128   t-halved      1-    1-    32-  gemv          1.06  1.02   1.1
c128   t-halved    1-48    1-    3-7  short-gemv    1.87  1.16   4.0
c128   nn-halved    2-2   6-6     1-  short-small   1.22  1.02   1.3
c128   nn-halved    2-2   2-3     1-  short-small   1.25  0.98   1.6
c128   nt-halved    3-3   2-4     4-  short-dots    1.12  1.02   1.2
c128   nt-halved     5-   2-4     6-  short-dots    1.28  1.03   1.6
c128   nt-halved    3-4    4-    1-7  others        1.00  1.00   1.0
c128   nt-halved    2-6    2-     1-  short-small   1.19  1.01   1.6
c128   tt-halved    3-4    4-    1-7  others        1.00  1.00   1.0
c128   tt-halved    2-6    2-     1-  short-small   1.20  1.01   1.6
i32    n-v3         2-3    1-    25-  gemv          1.26  1.05   1.5
i32    n-v3        8-24    1-    65-  small         1.18  1.05   1.2
i32    n-v3         1-1    1-    1-7  small         1.43  1.04   2.1
i32    n-v3       17-24    1-     1-  gemv          1.20  1.02   1.7
i32    n-v3         2-2    1-     4-  gemv          1.27  1.14   1.4
i32    nt-v3         5-   5-6    1-7  others        1.00  1.00   1.0
i32    nt-v3        2-6   7-7     4-  dots          1.20  1.03   1.5
i32    nt-v3        2-4    2-     1-  dots          1.60  0.86   2.7
i32    nt-v3         2-   2-5     1-  dots          1.42  1.00   1.8
i32    n-v4       17-64    1-    65-  small         1.09  1.06   1.1
i32    n-v4         8-8    1-  13-64  small         1.00  1.00   1.0
i32    n-v4         1-1    1-   1-15  small         1.98  1.04   4.0
i32    n-v4         2-8    1-     1-  gemv          1.29  1.00   1.9
i32    nt-v4         2-   2-2     1-  dots          1.52  1.02   1.9
i32    nt-v4        2-6   2-4     1-  dots          1.31  0.90   1.6
i32    n-halved   17-64    1-    65-  small         1.09  1.06   1.1
i32    n-halved     5-7    1-    49-  short-gemv    1.32  1.26   1.4
i32    n-halved     4-4    1-    16-  short-small   1.30  1.09   1.5
i32    n-halved     1-1    1-   9-16  short-gemv    1.43  1.42   1.4
i32    n-halved     1-4    1-    17-  short-gemv    1.46  1.18   1.9
i32    n-halved     1-1    1-   1-15  small         2.32  1.53   4.0
i32    n-halved     2-4    1-     1-  gemv          1.33  1.10   1.8
i32    n-halved     3-8    1-     1-  short-small   1.68  1.20   2.7
i32    nn-halved     5-    8-    1-2  short-small   1.17  1.07   1.5
i32    nn-halved    3-4   2-2     3-  short-small   1.18  1.09   2.1
i32    nn-halved    2-2   4-7     2-  short-small   1.17  0.99   2.3
i32    nn-halved     5-   2-6     1-  short-small   1.38  0.86   2.4
i32    nt-halved    2-4   2-7     5-  short-dots    1.59  1.07   2.5
i32    nt-halved     5-   5-5    1-6  short-small   1.09  1.05   1.1
i32    nt-halved     7-   5-5    1-7  small         1.00  1.00   1.0
i32    nt-halved    2-2    2-     1-  short-dots    1.56  1.00   2.4
i32    nt-halved     2-   2-5     1-  short-dots    1.50  1.05   2.3
i32    tn-halved    2-4    8-     1-  short-small   1.34  0.99   1.8
i32    tt-halved    2-3    8-    1-7  short-small   1.21  1.18   1.2
i32    tt-halved     4-   2-3    1-5  short-small   1.11  1.07   1.1
i64    n-v3       16-16    1-   5-12  small         1.11  1.03   1.2
i64    n-v3        9-12    1-   1-24  gemv          1.95  1.25   3.2
i64    n-v3       16-24    1-    13-  small         1.14  1.03   1.3
i64    n-v3         1-1    1-    1-7  small         1.40  1.05   2.0
i64    n-v3        3-12    1-   1-64  small         2.02  1.02   9.7
i64    t-v3         1-5    1-   5-15  gemv          1.11  0.99   1.4
i64    t-v3          7-    1-    1-4  dots          1.24  1.10   1.4
i64    nn-v3         2-    2-     1-  small         2.33  1.10  10.0
i64    nt-v3        4-6   2-7    4-7  dots          1.71  1.17   3.6
i64    nt-v3         7-   4-5    1-7  small         1.42  1.19   1.9
i64    nt-v3         3-    6-    1-7  small         1.49  1.16   2.0
i64    nt-v3         2-    2-     1-  dots          2.10  1.03   4.1
i64    tn-v3         2-    2-     1-  small         2.20  1.09   8.7
i64    tt-v3         2-    2-     1-  small         1.47  1.12   2.7
i64    n-v4        9-32    1-    65-  small         1.13  1.08   1.2
i64    n-v4         1-1    1-    1-8  small         1.56  1.03   2.6
i64    n-v4         2-4    1-     1-  gemv          1.21  0.97   1.5
i64    n-v4       33-64    1-   1-64  gemv          1.22  1.06   1.9
i64    t-v4         64-    1-    1-3  small         1.45  1.31   1.6
i64    t-v4         17-    1-  32-48  dots          1.06  1.03   1.1
i64    t-v4         6-6    1-    16-  dots          1.08  1.00   1.2
i64    t-v4         7-8    1-    1-8  others        1.00  1.00   1.0
i64    t-v4         8-8    1-   1-31  gemv          1.07  1.00   1.1
i64    t-v4          9-    1-  16-24  dots          1.09  1.02   1.2
i64    t-v4         1-4    1-   9-31  gemv          1.17  1.00   1.5
i64    t-v4          6-    1-    1-8  dots          1.25  1.15   1.4
i64    nt-v4        5-6   2-4     5-  dots          1.41  1.02   1.9
i64    nt-v4         2-   2-2     1-  dots          1.41  1.03   1.8
i64    nt-v4        2-6   2-3     1-  dots          1.30  1.19   1.4
i64    n-halved    9-32    1-    65-  small         1.13  1.09   1.2
i64    n-halved     1-1    1-    1-8  small         1.54  1.06   2.5
i64    n-halved     3-4    1-   1-15  short-small   1.55  1.11   2.1
i64    n-halved   33-64    1-   1-64  gemv          1.22  1.06   1.9
i64    n-halved     2-4    1-     1-  gemv          1.22  0.96   1.6
i64    t-halved     17-    1-  32-48  dots          1.06  1.02   1.1
i64    t-halved     64-    1-    1-3  small         1.44  1.30   1.6
i64    t-halved     8-8    1-   5-31  gemv          1.03  1.00   1.1
i64    t-halved     6-6    1-    16-  dots          1.09  1.00   1.2
i64    t-halved     7-8    1-    1-4  short-dots    1.19  1.15   1.2
i64    t-halved      9-    1-  16-24  dots          1.09  1.03   1.2
i64    t-halved     1-4    1-   9-31  gemv          1.17  1.00   1.5
i64    t-halved      6-    1-    1-8  dots          1.24  1.00   1.4
i64    nn-halved    2-4   6-6    1-2  short-small   1.27  0.98   1.7
i64    nn-halved    2-4   2-3    1-3  short-small   1.41  0.99   2.4
i64    nt-halved    2-2   6-6     1-  short-dots    1.16  1.08   1.2
i64    nt-halved    5-6   2-4     5-  dots          1.40  1.01   1.8
i64    nt-halved     7-   2-2    1-4  short-dots    1.27  1.16   1.4
i64    nt-halved     5-   2-2     3-  dots          1.30  1.11   1.6
i64    nt-halved    2-4   2-4    1-4  short-dots    1.50  1.06   2.1
i64    nt-halved    2-2   3-4     1-  short-dots    1.64  1.41   1.9
i64    nt-halved    2-6   2-3     1-  dots          1.44  1.21   1.8
i64    tn-halved    2-2   7-7     1-  short-small   1.89  1.43   2.7
i16    n-v3         2-4    1-   8-15  gemv          1.10  1.05   1.2
i16    n-v3         8-8    1-   8-15  gemv          1.33  1.32   1.3
i16    n-v3         1-1    1-    1-4  small         1.46  1.11   2.0
i16    n-v3       64-64    1-     5-  small         1.21  1.01   1.4
i16    n-v3       33-48    1-   1-32  gemv          1.25  1.03   2.0
i16    n-v3        2-15    1-  16-64  gemv          1.23  0.99   1.9
i16    n-v4         2-4    1-  33-64  gemv          1.09  1.04   1.1
i16    n-v4         65-    1-     1-  small         1.37  1.05   3.7
i16    n-v4         1-1    1-   1-15  small         2.39  1.13   5.2
i16    n-halved     2-8    1-  33-64  gemv          1.06  1.00   1.1
i16    n-halved   16-16    1-     4-  short-small   1.14  1.10   1.2
i16    n-halved     65-    1-     1-  small         1.37  1.05   3.7
i16    n-halved     1-1    1-   1-15  small         2.44  1.13   5.3
i16    t-halved     13-    1-    8-8  others        1.00  1.00   1.0
i16    t-halved    9-24    1-    1-3  dots          1.10  1.06   1.2
i16    t-halved      1-    1-  25-31  dots          1.12  1.02   1.3
i16    t-halved      9-    1-   5-15  dots          1.10  1.01   1.3
i16    t-halved     25-    1-    1-3  small         1.34  1.08   1.7
i16    t-halved     5-6    1-   1-63  dots          1.20  0.96   1.4
i16    nt-halved    3-5   6-6     1-  others        1.00  1.00   1.0
i16    nt-halved    2-6    7-     5-  short-dots    1.38  1.03   2.2
i16    nt-halved     7-   5-6     4-  short-small   1.15  1.06   1.2
i16    nt-halved     7-   2-2     1-  short-dots    1.28  1.19   1.4
i16    nt-halved     2-   4-4     1-  short-dots    1.47  1.02   2.5
i16    nt-halved    2-4    2-     1-  short-dots    1.28  0.98   2.4
i16    tt-halved     2-    2-     4-  short-small   1.18  0.98   1.3
f16    n-v3        9-31    1-    65-  small         1.32  1.08   1.7
f16    n-v3       25-63    1-   1-32  small         1.21  0.99   1.5
f16    t-v4        1-15    1-    5-5  small         1.22  1.14   1.3
f16    t-v4         1-7    1-    5-7  small         1.14  1.04   1.2
f16    n-halved   17-24    1-     7-  short-small   1.11  1.09   1.2
f16    n-halved     8-8    1-   7-64  short-small   1.16  1.10   1.2
f16    n-halved     65-    1-   1-48  small         1.14  1.04   1.3
f16    t-halved    1-15    1-    5-5  small         1.22  1.14   1.3
f16    t-halved    8-15    1-  16-24  short-gemv    1.14  1.09   1.2
f16    t-halved      1-    1-    8-8  short-gemv    1.16  1.06   1.3
f16    t-halved     16-    1-  16-64  short-gemv    1.12  1.02   1.2
f16    t-halved     1-7    1-    5-7  small         1.14  1.04   1.2
f16    nt-halved    5-7    2-     1-  small         1.11  1.02   1.4
f16    tn-halved     5-   7-7     1-  small         1.64  1.12   2.6
f16    tn-halved    5-7    2-    1-7  small         1.15  0.97   1.5
f16    tt-halved    5-7    2-     1-  small         1.10  1.02   1.4
i8     n-v3        8-48    1-    65-  small         1.23  1.05   1.7
i8     n-v3       49-64    1-     1-  small         1.15  0.99   1.3
i8     t-v3        7-15    1-  16-64  dots          1.10  0.96   1.3
i8     t-v3         16-    1-   9-15  small         1.22  1.08   1.4
i8     t-v3         1-3    1-   1-15  small         1.56  1.08   2.2
i8     t-v4       16-64    1-   9-12  small         1.13  1.05   1.3
i8     t-v4        5-15    1-  17-64  dots          1.13  1.01   1.4
i8     t-halved   16-64    1-   9-12  small         1.13  1.06   1.3
i8     t-halved     13-    1-  16-16  short-dots    1.23  1.12   1.3
i8     t-halved    5-15    1-  17-64  dots          1.13  1.01   1.4
bool   n-v3       32-64    1-    65-  small         1.25  1.09   1.5
bool   n-v3         65-    1-     1-  small         1.12  1.08   1.2
bool   n-v3        4-31    1-  17-31  small         1.17  0.98   1.4
bool   t-v3         33-    1-    8-8  dots          1.13  1.07   1.3
bool   t-v3         1-7    1-    1-8  small         1.95  1.25   3.1
bool   n-v4         1-1    1-  33-64  small         1.32  1.06   1.6
bool   n-v4          1-    1-    65-  small         1.17  1.05   1.4
bool   n-halved     1-1    1-  33-64  small         1.33  1.07   1.6
bool   n-halved      1-    1-    65-  small         1.17  1.05   1.4
bool   t-halved      7-    1-  32-32  short-dots    1.11  1.07   1.2
bool   t-halved     1-8    1-   9-15  small         1.15  1.00   1.4
bf16   n-v3        9-31    1-    65-  small         1.42  1.10   1.8
bf16   n-v3       25-63    1-   1-48  small         1.16  0.96   1.4
bf16   t-v3         17-    1-    4-4  gemv          1.24  1.04   1.4
bf16   t-v3         1-7    1-    5-7  small         1.12  0.98   1.3
bf16   n-v4         65-    1-   1-16  small         1.20  1.10   1.4
bf16   n-v4         17-    1-    17-  small         1.16  1.00   1.4
bf16   t-v4       25-32    1-    17-  dots          1.08  1.03   1.1
bf16   t-v4        1-12    1-    5-7  small         1.18  0.95   1.4
bf16   t-v4         33-    1-     4-  dots          1.16  1.02   1.4
bf16   n-halved     8-8    1-   6-64  short-small   1.13  1.07   1.2
bf16   n-halved     65-    1-   1-16  small         1.20  1.11   1.4
bf16   n-halved     17-    1-    17-  small         1.16  1.00   1.4
bf16   t-halved    1-15    1-    5-6  small         1.21  1.04   1.3
bf16   t-halved   25-32    1-    17-  dots          1.09  1.05   1.1
bf16   t-halved    4-48    1-    8-8  short-gemv    1.15  1.08   1.2
bf16   t-halved    8-32    1-  16-24  short-gemv    1.14  1.08   1.2
bf16   t-halved     1-7    1-    5-8  small         1.13  1.07   1.2
bf16   t-halved     33-    1-     4-  dots          1.17  1.04   1.4
i8_i32 n-v3       17-24    1-   2-64  gemv          1.34  1.06   1.7
i8_i32 n-v3        9-15    1-   4-64  gemv          2.08  1.19   3.2
i8_i32 t-v3         33-    1-  17-31  dots          1.13  1.07   1.2
i8_i32 t-v3         1-7    1-    3-4  gemv          1.34  1.01   1.7
i8_i32 t-v3         25-    1-   5-15  dots          1.18  1.04   1.5
i8_i32 nn-v3        2-2    7-     5-  dots          1.41  1.09   1.8
i8_i32 nn-v3        2-7    7-     5-  blocks        1.23  1.02   1.5
i8_i32 nt-v3        5-7    7-    5-7  blocks        1.20  1.07   1.4
i8_i32 nt-v3        2-4   2-4    5-5  dots          1.10  1.02   1.2
i8_i32 nt-v3        2-4    7-    4-5  dots          1.21  1.02   1.5
i8_i32 nt-v3        5-7   5-6    6-7  small         1.00  1.00   1.0
i8_i32 nt-v3        2-7    2-     6-  dots          1.33  0.95   2.2
i8_i32 t-v4         1-7    1-   5-15  small         1.26  1.04   1.5
i8_i32 t-v4         49-    1-     8-  dots          1.08  1.01   1.1
i8_i32 t-v4          1-    1-    5-8  small         1.26  1.04   1.5
i8_i32 t-halved     1-7    1-   5-15  small         1.26  1.04   1.5
i8_i32 t-halved     49-    1-     8-  dots          1.07  1.02   1.1
i8_i32 t-halved      1-    1-    5-8  small         1.27  1.04   1.5
"""
