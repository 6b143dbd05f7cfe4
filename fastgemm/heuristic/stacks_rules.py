"""The rules of `stacks`, as `bench/stacks.py` prints them.

Zen 4 (2 cores of an EPYC, AVX-512 and AVX2), one thread.  A line has the type, how operands lie (one letter: single
rows, by matrices that lie so) and the tier (`halved`: both, of a CPU that computes the longer vectors in two halves),
columns, rows and steps of k and the way, and, for whoever reads them, the gain over the other rules, in the mean, the
least and the most.  The first line that fits counts.

What they gain over the other rules in the mean, of what the best way of each product would: f32 n-v3 1.024 of 1.026,
f32 t-v3 1.046 of 1.053, f32 nn-v3 1.000 of 1.000, f32 nt-v3 1.017 of 1.022, f32 tn-v3 1.000 of 1.000, f32 tt-v3 1.000
of 1.000, f32 n-v4 1.030 of 1.031, f32 t-v4 1.060 of 1.066, f32 nn-v4 1.000 of 1.000, f32 nt-v4 1.050 of 1.053, f32
tn-v4 1.000 of 1.000, f32 tt-v4 1.000 of 1.000, f32 n-halved 1.063 of 1.071, f32 t-halved 1.178 of 1.188, f32 nn-halved
1.038 of 1.040, f32 nt-halved 1.261 of 1.266, f32 tn-halved 1.233 of 1.233, f32 tt-halved 1.454 of 1.458, f64 n-v3 1.017
of 1.019, f64 t-v3 1.076 of 1.079, f64 nn-v3 1.000 of 1.000, f64 nt-v3 1.012 of 1.015, f64 tn-v3 1.000 of 1.000, f64
tt-v3 1.000 of 1.000, f64 n-v4 1.069 of 1.069, f64 t-v4 1.062 of 1.068, f64 nn-v4 1.000 of 1.000, f64 nt-v4 1.044 of
1.046, f64 tn-v4 1.000 of 1.000, f64 tt-v4 1.000 of 1.000, f64 n-halved 1.082 of 1.092, f64 t-halved 1.195 of 1.204, f64
nn-halved 1.032 of 1.039, f64 nt-halved 1.066 of 1.075, f64 tn-halved 1.033 of 1.041, f64 tt-halved 1.010 of 1.011, i32
n-v3 1.042 of 1.042, i32 t-v3 1.069 of 1.073, i32 nn-v3 1.000 of 1.001, i32 nt-v3 1.000 of 1.001, i32 tn-v3 1.000 of
1.000, i32 tt-v3 1.000 of 1.000, i32 n-v4 1.048 of 1.048, i32 t-v4 1.291 of 1.292, i32 nn-v4 1.000 of 1.000, i32 nt-v4
1.000 of 1.000, i32 tn-v4 1.000 of 1.000, i32 tt-v4 1.000 of 1.000, i32 n-halved 1.119 of 1.127, i32 t-halved 1.171 of
1.177, i32 nn-halved 1.047 of 1.055, i32 nt-halved 1.010 of 1.014, i32 tn-halved 1.046 of 1.057, i32 tt-halved 1.000 of
1.005, i64 n-v3 1.380 of 1.386, i64 t-v3 1.084 of 1.090, i64 nn-v3 1.000 of 1.000, i64 nt-v3 1.000 of 1.007, i64 tn-v3
1.000 of 1.000, i64 tt-v3 1.000 of 1.000, i64 n-v4 1.074 of 1.075, i64 t-v4 1.223 of 1.233, i64 nn-v4 1.000 of 1.000,
i64 nt-v4 1.000 of 1.000, i64 tn-v4 1.000 of 1.000, i64 tt-v4 1.000 of 1.000, i64 n-halved 1.076 of 1.077, i64 t-halved
1.222 of 1.232, i64 nn-halved 1.000 of 1.005, i64 nt-halved 1.000 of 1.001, i64 tn-halved 1.015 of 1.016, i64 tt-halved
1.000 of 1.000, i16 n-v3 1.117 of 1.117, i16 t-v3 1.143 of 1.144, i16 nn-v3 1.000 of 1.000, i16 nt-v3 1.512 of 1.516,
i16 tn-v3 1.000 of 1.000, i16 tt-v3 1.000 of 1.000, i16 n-v4 1.082 of 1.085, i16 t-v4 1.482 of 1.483, i16 nn-v4 1.000 of
1.000, i16 nt-v4 2.650 of 2.650, i16 tn-v4 1.000 of 1.000, i16 tt-v4 1.000 of 1.000, i16 n-halved 1.101 of 1.105, i16
t-halved 1.568 of 1.572, i16 nn-halved 1.000 of 1.000, i16 nt-halved 2.693 of 2.695, i16 tn-halved 1.000 of 1.000, i16
tt-halved 1.000 of 1.000, i8 n-v3 1.039 of 1.040, i8 t-v3 1.175 of 1.176, i8 nn-v3 1.000 of 1.000, i8 nt-v3 1.000 of
1.000, i8 tn-v3 1.000 of 1.000, i8 tt-v3 1.000 of 1.000, i8 n-v4 1.006 of 1.006, i8 t-v4 1.059 of 1.062, i8 nn-v4 1.000
of 1.000, i8 nt-v4 1.000 of 1.000, i8 tn-v4 1.000 of 1.000, i8 tt-v4 1.000 of 1.000, i8 n-halved 1.015 of 1.019, i8
t-halved 1.071 of 1.077, i8 nn-halved 1.000 of 1.000, i8 nt-halved 1.000 of 1.000, i8 tn-halved 1.000 of 1.000, i8
tt-halved 1.000 of 1.000, bool n-v3 1.032 of 1.032, bool t-v3 1.348 of 1.350, bool nn-v3 1.000 of 1.000, bool nt-v3
1.000 of 1.000, bool tn-v3 1.000 of 1.000, bool tt-v3 1.000 of 1.000, bool n-v4 1.019 of 1.019, bool t-v4 1.134 of
1.135, bool nn-v4 1.000 of 1.000, bool nt-v4 1.000 of 1.000, bool tn-v4 1.000 of 1.000, bool tt-v4 1.000 of 1.000, bool
n-halved 1.026 of 1.027, bool t-halved 1.144 of 1.154, bool nn-halved 1.000 of 1.000, bool nt-halved 1.000 of 1.000,
bool tn-halved 1.000 of 1.000, bool tt-halved 1.000 of 1.000, f16 n-v3 1.060 of 1.063, f16 t-v3 1.200 of 1.201, f16
nn-v3 1.000 of 1.000, f16 nt-v3 1.000 of 1.000, f16 tn-v3 1.000 of 1.000, f16 tt-v3 1.000 of 1.000, f16 n-v4 1.018 of
1.018, f16 t-v4 1.414 of 1.416, f16 nn-v4 1.000 of 1.000, f16 nt-v4 1.000 of 1.000, f16 tn-v4 1.000 of 1.000, f16 tt-v4
1.000 of 1.000, f16 n-halved 1.037 of 1.043, f16 t-halved 1.504 of 1.517, f16 nn-halved 1.016 of 1.022, f16 nt-halved
1.149 of 1.153, f16 tn-halved 1.118 of 1.124, f16 tt-halved 1.151 of 1.155, bf16 n-v3 1.047 of 1.050, bf16 t-v3 1.182 of
1.184, bf16 nn-v3 1.000 of 1.000, bf16 nt-v3 1.000 of 1.000, bf16 tn-v3 1.000 of 1.000, bf16 tt-v3 1.000 of 1.000, bf16
n-v4 1.061 of 1.061, bf16 t-v4 1.476 of 1.478, bf16 nn-v4 1.000 of 1.000, bf16 nt-v4 1.015 of 1.015, bf16 tn-v4 1.000 of
1.000, bf16 tt-v4 1.000 of 1.000, bf16 n-halved 1.069 of 1.073, bf16 t-halved 1.500 of 1.511, bf16 nn-halved 1.000 of
1.002, bf16 nt-halved 1.015 of 1.015, bf16 tn-halved 1.000 of 1.002, bf16 tt-halved 1.000 of 1.000, i8_i32 n-v3 1.101 of
1.103, i8_i32 t-v3 1.086 of 1.089, i8_i32 nn-v3 1.033 of 1.034, i8_i32 nt-v3 1.051 of 1.054, i8_i32 tn-v3 1.000 of
1.000, i8_i32 tt-v3 1.000 of 1.000, i8_i32 n-v4 1.000 of 1.004, i8_i32 t-v4 1.450 of 1.457, i8_i32 nn-v4 1.000 of 1.000,
i8_i32 nt-v4 1.006 of 1.006, i8_i32 tn-v4 1.000 of 1.000, i8_i32 tt-v4 1.000 of 1.000, i8_i32 n-halved 1.000 of 1.004,
i8_i32 t-halved 1.453 of 1.459, i8_i32 nn-halved 1.000 of 1.000, i8_i32 nt-halved 1.006 of 1.006, i8_i32 tn-halved 1.000
of 1.000, i8_i32 tt-halved 1.000 of 1.000, c64 n-v3 1.170 of 1.173, c64 t-v3 1.240 of 1.245, c64 nn-v3 1.000 of 1.000,
c64 nt-v3 1.000 of 1.000, c64 tn-v3 1.000 of 1.000, c64 tt-v3 1.000 of 1.000, c64 n-v4 1.047 of 1.048, c64 t-v4 1.439 of
1.441, c64 nn-v4 1.000 of 1.000, c64 nt-v4 1.000 of 1.000, c64 tn-v4 1.000 of 1.000, c64 tt-v4 1.000 of 1.000, c64
n-halved 1.062 of 1.072, c64 t-halved 1.366 of 1.381, c64 nn-halved 1.014 of 1.019, c64 nt-halved 1.000 of 1.008, c64
tn-halved 1.007 of 1.011, c64 tt-halved 1.000 of 1.003, c128 n-v3 1.280 of 1.281, c128 t-v3 1.192 of 1.195, c128 nn-v3
1.000 of 1.000, c128 nt-v3 1.000 of 1.000, c128 tn-v3 1.000 of 1.000, c128 tt-v3 1.000 of 1.000, c128 n-v4 1.062 of
1.065, c128 t-v4 1.289 of 1.294, c128 nn-v4 1.000 of 1.000, c128 nt-v4 1.000 of 1.000, c128 tn-v4 1.000 of 1.000, c128
tt-v4 1.000 of 1.000, c128 n-halved 1.085 of 1.092, c128 t-halved 1.247 of 1.257, c128 nn-halved 1.024 of 1.028, c128
nt-halved 1.016 of 1.023, c128 tn-halved 1.024 of 1.028, c128 tt-halved 1.017 of 1.022.
"""

RULES = """
f32    n-v3         1-1    1-    1-4  small         1.40  1.20   1.6
f32    n-v3        9-24    1-    65-  small         1.41  1.35   1.6
f32    n-v3         5-8    1-  25-64  gemv          1.28  1.08   1.4
f32    t-v3        8-16    1-  32-48  gemv          1.09  1.01   1.1
f32    t-v3         4-4    1-    4-4  small         1.82  1.82   1.8
f32    t-v3         1-2    1-    1-2  small         2.02  2.02   2.0
f32    t-v3         5-6    1-    5-6  small         1.46  1.27   2.0
f32    t-v3         1-6    1-   5-48  gemv          1.20  0.93   1.8
f32    nt-v3         5-   7-7    1-2  dots          1.13  1.10   1.1
f32    nt-v3        4-5   2-2    4-4  small         1.32  1.09   1.6
f32    nt-v3         8-   2-4    3-4  small         1.27  1.05   1.5
f32    nt-v3        2-2   2-4    3-4  dots          1.28  1.12   1.5
f32    nt-v3        3-4   2-4    1-2  dots          1.36  1.00   1.6
f32    n-v4        9-16    1-  49-64  gemv          1.11  1.09   1.1
f32    n-v4         4-4    1-  32-32  gemv          1.00  1.00   1.0
f32    n-v4       17-64    1-    65-  small         1.22  1.09   1.4
f32    n-v4         3-7    1-  25-32  small         1.46  1.12   1.5
f32    n-v4         1-1    1-    1-8  small         1.70  1.21   2.3
f32    t-v4         1-2    1-    1-2  small         1.44  1.44   1.4
f32    t-v4       13-16    1-    7-8  small         1.21  1.01   1.4
f32    t-v4         7-8    1-   9-63  gemv          1.11  0.92   1.3
f32    t-v4         1-4    1-  13-63  gemv          1.30  1.11   1.6
f32    t-v4         1-8    1-   5-12  small         1.29  0.88   2.0
f32    nt-v4        2-5   3-4     1-  others        1.00  1.00   1.0
f32    nt-v4         4-   2-4     5-  small         1.47  1.00   2.2
f32    n-halved    9-16    1-  49-64  gemv          1.11  1.09   1.1
f32    n-halved     8-8    1-    1-8  short-small   1.15  1.01   1.7
f32    n-halved     3-3    1-    3-3  short-gemv    1.73  1.73   1.7
f32    n-halved     5-7    1-  25-32  small         1.52  1.47   1.6
f32    n-halved     2-2    1-    2-2  short-small   2.49  2.49   2.5
f32    n-halved   17-64    1-    65-  small         1.22  1.08   1.4
f32    n-halved     4-4    1-    4-4  short-small   2.96  2.96   3.0
f32    n-halved     1-1    1-    1-8  small         1.58  1.29   2.2
f32    n-halved     1-7    1-  25-64  short-gemv    1.33  0.99   2.3
f32    t-halved     4-4    1-    4-4  short-small   1.82  1.82   1.8
f32    t-halved    1-15    1-  32-32  short-gemv    1.26  1.11   1.6
f32    t-halved     1-3    1-   9-31  gemv          1.18  0.98   1.4
f32    t-halved     1-2    1-    1-2  short-small   2.02  2.02   2.0
f32    t-halved     1-2    1-    3-4  short-dots    1.00  1.00   1.0
f32    t-halved     1-5    1-   9-48  short-gemv    1.19  1.05   1.4
f32    t-halved     1-8    1-    5-8  small         1.66  1.23   3.0
f32    t-halved      1-    1-    1-6  dots          1.47  0.92   2.3
f32    nn-halved    4-4   2-2    4-4  short-small   1.49  1.49   1.5
f32    nn-halved     8-   2-2     8-  small         1.50  1.50   1.5
f32    nn-halved    2-2   4-4    2-2  short-small   1.84  1.84   1.8
f32    nn-halved    2-2   6-7     4-  short-small   1.13  1.08   1.2
f32    nn-halved    4-5   6-6    4-4  short-small   1.59  1.15   2.2
f32    nn-halved    2-2   2-2    2-2  short-blocks  2.25  2.25   2.2
f32    nn-halved    5-7   6-6     1-  short-small   1.19  0.97   1.4
f32    nn-halved     8-   7-7     1-  small         2.14  2.03   2.3
f32    nt-halved    4-4   2-2     3-  small         1.10  1.02   1.2
f32    nt-halved    2-2   4-4    1-2  short-small   1.70  1.70   1.7
f32    nt-halved    4-4   6-6    4-4  short-small   1.70  1.70   1.7
f32    nt-halved     8-    8-    1-2  short-small   1.00  1.00   1.0
f32    nt-halved    2-6   6-6    1-5  others        1.00  1.00   1.0
f32    nt-halved     5-   6-6    1-2  short-small   1.00  1.00   1.0
f32    nt-halved     5-   2-3    1-4  dots          1.68  1.10   2.3
f32    nt-halved     5-    2-     1-  small         1.50  0.96   2.7
f32    tn-halved     5-   7-7     1-  small         2.75  2.19   3.4
f32    tn-halved    2-4    8-     1-  short-small   1.66  1.14   2.6
f32    tn-halved    5-7    2-     1-  small         1.30  1.16   1.5
f32    tt-halved     4-    2-     1-  small         1.58  0.96   3.2
f64    n-v3         3-4    1-  32-64  gemv          1.19  0.98   1.4
f64    n-v3        5-12    1-    65-  small         1.43  1.38   1.5
f64    n-v3         1-1    1-    1-7  small         1.39  1.05   1.9
f64    t-v3         7-7    1-    33-  dots          1.12  1.06   1.2
f64    t-v3         4-5    1-    6-7  gemv          1.21  1.15   1.3
f64    t-v3         3-3    1-   9-15  dots          1.00  1.00   1.0
f64    t-v3         1-3    1-    3-8  small         1.49  1.14   2.3
f64    t-v3         7-7    1-   8-15  dots          1.00  1.00   1.0
f64    t-v3          1-    1-   8-24  gemv          1.15  0.99   1.7
f64    t-v3         1-6    1-    3-6  small         1.55  1.26   2.0
f64    nt-v3        4-6   7-7     8-  dots          1.16  1.11   1.2
f64    nt-v3        5-6   2-4     8-  dots          1.14  0.98   1.2
f64    nt-v3         3-   7-7    1-2  dots          1.17  1.09   1.2
f64    nt-v3        2-5   3-3    1-2  dots          1.25  1.05   1.6
f64    nt-v3         6-   2-2     7-  dots          1.22  1.18   1.3
f64    n-v4         3-3    1-  25-32  small         1.28  1.09   1.5
f64    n-v4         5-7    1-  33-64  gemv          1.08  1.02   1.1
f64    n-v4        9-32    1-    65-  small         1.26  1.18   1.4
f64    n-v4         1-1    1-    1-8  small         1.53  1.14   2.1
f64    n-v4       33-64    1-   1-64  gemv          1.36  1.08   2.2
f64    t-v4        9-24    1-   8-15  others        1.00  1.00   1.0
f64    t-v4         4-6    1-    4-5  small         1.15  0.99   1.4
f64    t-v4         1-7    1-    6-7  small         1.37  0.99   1.6
f64    t-v4          8-    1-    6-7  gemv          1.20  1.04   1.5
f64    t-v4         6-6    1-     8-  dots          1.03  1.00   1.1
f64    t-v4        1-24    1-   6-31  gemv          1.20  0.98   1.7
f64    nt-v4        3-3   2-2    1-3  dots          1.22  1.18   1.3
f64    nt-v4        2-7   4-4    3-7  others        1.00  1.00   1.0
f64    nt-v4         6-   3-4    3-3  small         1.25  1.13   1.5
f64    nt-v4        3-7   3-4    1-2  dots          1.14  0.99   1.3
f64    nt-v4         4-   2-4    4-7  small         1.32  0.95   2.1
f64    n-halved     3-3    1-  25-32  small         1.29  1.10   1.5
f64    n-halved     5-7    1-  33-64  gemv          1.09  1.02   1.1
f64    n-halved     4-4    1-    1-6  short-small   1.20  1.10   1.6
f64    n-halved     1-2    1-  17-63  short-gemv    1.16  1.08   1.2
f64    n-halved     2-2    1-    2-2  short-small   2.72  2.72   2.7
f64    n-halved    9-32    1-    65-  small         1.26  1.18   1.4
f64    n-halved     1-1    1-    1-8  small         1.55  1.18   2.1
f64    n-halved   33-64    1-   1-64  gemv          1.36  1.07   2.3
f64    t-halved     1-2    1-    1-2  small         1.40  1.40   1.4
f64    t-halved     1-2    1-   9-15  gemv          1.28  1.27   1.3
f64    t-halved     5-6    1-    4-6  small         1.59  1.35   2.0
f64    t-halved     4-5    1-   7-15  short-gemv    1.25  1.14   1.4
f64    t-halved      4-    1-    8-8  short-gemv    1.20  0.96   1.3
f64    t-halved     1-5    1-    5-8  small         1.48  1.27   1.8
f64    t-halved      1-    1-  16-24  short-gemv    1.19  1.04   1.7
f64    t-halved      1-    1-    1-5  dots          1.76  1.06   3.5
f64    nn-halved    4-4   2-2    4-4  small         1.45  1.45   1.4
f64    nn-halved    4-4    6-    4-4  small         1.50  1.19   2.1
f64    nn-halved    3-3    8-    1-5  short-small   1.22  1.10   1.4
f64    nn-halved    2-2   2-2    2-2  short-blocks  2.44  2.44   2.4
f64    nn-halved    2-2   6-6    2-2  short-small   2.56  2.56   2.6
f64    nn-halved    3-3   6-6     1-  short-small   1.48  1.39   1.7
f64    nn-halved    4-4   7-7     1-  small         2.01  1.79   2.3
f64    nt-halved    4-4    6-    4-4  small         1.37  1.12   1.8
f64    nt-halved    4-4   4-5    1-3  small         1.17  1.10   1.2
f64    nt-halved    4-7   4-4    1-2  dots          1.29  1.24   1.3
f64    nt-halved    2-5   6-6    1-2  short-small   1.24  1.00   1.7
f64    nt-halved    4-5   2-2    4-7  small         1.21  0.98   1.6
f64    nt-halved    3-3   6-6     1-  short-small   1.31  1.17   1.5
f64    nt-halved    4-5   2-4    1-3  dots          1.20  1.00   1.5
f64    nt-halved    4-4   7-7     1-  small         1.84  1.63   2.1
f64    nt-halved     6-   2-4    3-7  small         1.26  0.95   2.1
f64    tn-halved    2-2   4-4     1-  short-small   1.34  1.25   1.4
f64    tn-halved    4-4    7-     1-  small         1.90  1.35   3.2
f64    tt-halved    4-4    2-     1-  small         1.41  1.27   1.6
i32    n-v3        7-24    1-    65-  small         1.35  1.04   1.6
i32    n-v3         2-3    1-    25-  gemv          1.34  1.08   1.7
i32    n-v3         1-1    1-   1-12  small         1.47  1.05   2.1
i32    n-v3       17-24    1-     1-  gemv          1.31  1.03   1.9
i32    t-v3         4-5    1-    32-  gemv          1.09  1.02   1.2
i32    t-v3         1-3    1-    1-8  small         1.54  1.11   2.3
i32    t-v3        7-16    1-    5-5  dots          1.00  1.00   1.0
i32    t-v3         1-2    1-     6-  gemv          1.19  1.04   1.5
i32    t-v3        1-16    1-    1-5  small         1.48  0.92   2.4
i32    n-v4       17-64    1-    65-  small         1.25  1.16   1.3
i32    n-v4         2-7    1-    33-  gemv          1.32  1.18   1.5
i32    n-v4         1-1    1-   1-12  small         2.23  1.24   4.1
i32    t-v4         1-2    1-    64-  gemv          1.23  1.13   1.3
i32    t-v4         1-5    1-   1-12  small         1.97  1.06   3.6
i32    t-v4          1-    1-    1-8  small         1.77  0.96   5.5
i32    n-halved     2-3    1-   6-24  short-small   1.20  1.09   1.3
i32    n-halved     1-1    1-  13-24  short-gemv    1.44  1.38   1.5
i32    n-halved   17-64    1-    65-  small         1.25  1.16   1.3
i32    n-halved     1-3    1-    25-  short-gemv    1.52  0.96   2.2
i32    n-halved     1-1    1-   1-16  short-small   2.31  1.55   3.4
i32    n-halved     3-8    1-     7-  short-small   1.32  1.02   2.0
i32    t-halved     5-5    1-    32-  short-gemv    1.17  1.14   1.2
i32    t-halved    1-64    1-    1-4  small         1.98  1.04   3.8
i32    t-halved     1-2    1-     9-  short-gemv    1.20  1.03   1.5
i32    t-halved   13-32    1-    5-6  others        1.00  1.00   1.0
i32    t-halved     1-8    1-    1-8  small         1.41  1.05   1.8
i32    t-halved    1-32    1-    1-6  small         1.32  1.03   1.7
i32    nn-halved    4-4   2-2    4-4  short-small   1.53  1.53   1.5
i32    nn-halved    2-2    6-     4-  short-small   1.12  1.05   1.2
i32    nn-halved    2-2   4-4    2-2  short-small   1.98  1.98   2.0
i32    nn-halved    4-7   6-6    4-4  short-small   1.51  1.24   2.5
i32    nn-halved     8-   3-4    2-7  short-small   1.17  1.10   1.3
i32    nn-halved     8-    8-    1-7  short-small   1.26  1.08   1.7
i32    nn-halved     5-   6-6     1-  short-small   1.42  1.07   2.0
i32    nt-halved    4-4   2-2    4-4  short-small   1.47  1.47   1.5
i32    nt-halved    5-5   6-6    1-7  short-small   1.20  1.11   1.5
i32    nt-halved    2-2   4-4    1-2  short-small   1.69  1.69   1.7
i32    nt-halved    4-5   6-6    4-4  short-small   1.76  1.76   1.8
i32    nt-halved     5-   6-6    1-2  short-small   1.34  1.26   1.5
i32    tn-halved     8-    2-     4-  short-small   1.14  1.00   1.3
i32    tn-halved    2-4    8-     1-  short-small   1.68  0.96   2.8
i64    n-v3       32-32    1-  16-16  small         1.43  1.43   1.4
i64    n-v3       16-16    1-    6-7  small         1.22  1.17   1.3
i64    n-v3         1-1    1-    1-6  small         1.40  1.12   2.0
i64    n-v3        9-12    1-   1-24  gemv          2.09  1.33   3.3
i64    n-v3       16-24    1-    13-  small         1.18  1.03   1.4
i64    n-v3        2-12    1-   1-64  small         2.06  1.01  10.7
i64    t-v3         16-    1-  17-31  dots          1.06  1.05   1.1
i64    t-v3         1-5    1-    1-7  small         1.44  1.04   2.2
i64    t-v3         1-6    1-   9-15  gemv          1.12  1.00   1.4
i64    t-v3         7-8    1-    5-6  dots          1.00  1.00   1.0
i64    t-v3          9-    1-    1-4  dots          1.29  1.12   1.5
i64    t-v3         1-8    1-    1-6  small         1.53  1.12   2.4
i64    n-v4        9-32    1-    65-  small         1.24  1.14   1.3
i64    n-v4         2-4    1-    33-  gemv          1.33  1.07   1.6
i64    n-v4         1-1    1-    1-8  small         1.57  1.05   2.5
i64    n-v4       33-64    1-   1-64  gemv          1.34  1.10   2.1
i64    t-v4          6-    1-  25-31  others        1.00  1.00   1.0
i64    t-v4         33-    1-    3-4  dots          1.38  1.36   1.4
i64    t-v4         1-8    1-    1-7  small         1.72  1.07   3.5
i64    t-v4          5-    1-   9-15  others        1.00  1.00   1.0
i64    t-v4         6-6    1-     7-  dots          1.20  1.13   1.3
i64    t-v4         1-4    1-   9-31  gemv          1.20  1.00   1.5
i64    t-v4          9-    1-   5-48  dots          1.21  0.97   1.5
i64    t-v4          1-    1-    1-6  small         1.81  1.25   3.8
i64    n-halved    9-32    1-    65-  small         1.23  1.15   1.3
i64    n-halved     2-4    1-    33-  gemv          1.34  1.07   1.6
i64    n-halved     1-1    1-    1-8  small         1.61  1.05   2.8
i64    n-halved   33-64    1-   1-64  gemv          1.35  1.10   2.1
i64    t-halved     33-    1-    4-4  dots          1.33  1.26   1.4
i64    t-halved     7-8    1-   9-31  gemv          1.07  1.00   1.2
i64    t-halved      5-    1-  25-31  others        1.00  1.00   1.0
i64    t-halved     1-8    1-    1-7  small         1.73  1.07   3.4
i64    t-halved      6-    1-   9-15  others        1.00  1.00   1.0
i64    t-halved     6-6    1-     7-  dots          1.17  1.12   1.3
i64    t-halved     1-4    1-   9-31  gemv          1.19  1.00   1.6
i64    t-halved      9-    1-   5-48  dots          1.20  0.96   1.4
i64    t-halved      1-    1-    1-6  small         1.74  1.27   3.6
i64    tn-halved    2-2   7-7     1-  short-small   2.09  1.55   3.0
i16    n-v3         64-    1-  33-64  small         1.60  1.10   2.3
i16    n-v3         2-4    1-   8-15  gemv          1.10  1.04   1.2
i16    n-v3         16-    1-    65-  small         1.32  0.97   2.5
i16    n-v3         8-8    1-   8-15  gemv          1.45  1.41   1.5
i16    n-v3         1-1    1-    1-5  small         1.45  1.07   2.1
i16    n-v3       33-48    1-     1-  gemv          1.36  1.02   2.2
i16    n-v3       64-64    1-     5-  small         1.43  1.00   1.9
i16    n-v3        2-15    1-  16-64  gemv          1.33  0.97   2.7
i16    t-v3       32-32    1-    1-5  small         1.89  1.19   4.9
i16    t-v3         1-8    1-    1-6  small         1.68  1.06   2.8
i16    t-v3         17-    1-    4-6  others        1.00  1.00   1.0
i16    t-v3         5-7    1-    1-8  small         1.17  1.00   1.3
i16    t-v3          1-    1-    1-5  small         2.03  0.92   6.0
i16    nt-v3        2-2    8-    1-3  small         1.20  1.18   1.2
i16    nt-v3         7-   5-6    1-5  others        1.00  1.00   1.0
i16    nt-v3        2-2   3-4     5-  dots          1.00  1.00   1.0
i16    nt-v3        3-5    2-     3-  small         1.67  0.94   4.3
i16    nt-v3         2-   2-6     1-  small         1.80  0.96   4.2
i16    n-v4       33-64    1-    65-  small         1.33  1.30   1.3
i16    n-v4         1-1    1-   1-16  small         2.39  1.09   5.3
i16    n-v4         65-    1-     1-  small         2.32  1.19   6.7
i16    t-v4        1-24    1-    1-6  small         3.57  1.65   8.3
i16    t-v4       17-64    1-    6-8  others        1.00  1.00   1.0
i16    t-v4       33-48    1-    4-5  dots          1.00  1.00   1.0
i16    t-v4          1-    1-    1-4  small         3.83  1.24  11.7
i16    t-v4         1-8    1-   1-16  small         1.52  0.96   2.8
i16    t-v4        1-64    1-    1-8  small         1.87  1.01   3.3
i16    nt-v4         5-    6-    1-4  others        1.00  1.00   1.0
i16    nt-v4         6-    7-    1-7  others        1.00  1.00   1.0
i16    nt-v4         2-    2-     1-  small         3.18  1.00   9.3
i16    n-halved     4-4    1-    33-  short-gemv    1.16  1.12   1.2
i16    n-halved   33-64    1-    65-  small         1.33  1.30   1.4
i16    n-halved   16-16    1-     3-  short-small   1.35  1.10   1.6
i16    n-halved     1-1    1-   1-15  small         2.60  1.28   5.3
i16    n-halved     65-    1-     1-  small         2.34  1.22   6.8
i16    t-halved   33-48    1-    4-5  short-dots    1.00  1.00   1.0
i16    t-halved      9-    1-  49-63  dots          1.08  1.01   1.1
i16    t-halved    1-24    1-    1-6  small         3.63  1.74   8.4
i16    t-halved     5-6    1-  17-63  dots          1.23  1.03   1.5
i16    t-halved    9-16    1-   9-15  dots          1.24  1.12   1.4
i16    t-halved      1-    1-    1-5  small         3.11  1.09  14.5
i16    t-halved      1-    1-  25-31  dots          1.23  1.03   1.4
i16    t-halved     1-8    1-   1-15  small         1.76  1.25   2.5
i16    t-halved     17-    1-   6-15  dots          1.15  0.96   1.4
i16    t-halved    1-64    1-    1-8  small         2.79  2.35   3.4
i16    nt-halved     5-    6-    1-4  others        1.00  1.00   1.0
i16    nt-halved     6-    7-    1-7  others        1.00  1.00   1.0
i16    nt-halved     2-    2-     1-  small         3.24  1.00   9.2
i8     n-v3        4-48    1-    65-  small         1.34  1.03   2.6
i8     n-v3       49-64    1-     1-  small         1.28  0.96   1.6
i8     t-v3        1-12    1-  17-24  small         1.67  1.16   2.3
i8     t-v3        7-15    1-    17-  dots          1.12  0.96   1.4
i8     t-v3         16-    1-   9-15  small         1.34  1.05   1.9
i8     t-v3         1-4    1-   1-32  small         2.63  1.00  10.3
i8     n-v4         1-1    1-  33-63  small         1.22  1.04   1.4
i8     n-v4          2-    1-    65-  small         1.09  1.03   1.3
i8     t-v4         1-2    1-  17-48  small         2.00  1.41   2.7
i8     t-v4         8-8    1-    32-  gemv          1.00  1.00   1.0
i8     t-v4        1-15    1-  17-24  small         1.78  1.16   3.0
i8     t-v4       16-32    1-   9-15  small         1.24  1.00   1.6
i8     t-v4        5-15    1-    25-  dots          1.17  0.96   1.5
i8     t-v4         1-6    1-  17-32  small         1.94  1.78   2.1
i8     n-halved     1-1    1-  33-48  small         1.41  1.41   1.4
i8     n-halved     17-    1-    65-  small         1.13  1.04   1.3
i8     n-halved     8-8    1-    17-  short-small   1.22  1.08   1.4
i8     n-halved   16-16    1-     9-  short-small   1.24  1.08   1.4
i8     t-halved     1-2    1-  17-48  small         2.00  1.41   2.8
i8     t-halved    8-15    1-  17-24  dots          1.25  1.07   1.4
i8     t-halved   16-32    1-   9-15  small         1.24  1.00   1.6
i8     t-halved     16-    1-  16-16  short-dots    1.38  1.25   1.8
i8     t-halved    5-15    1-    25-  dots          1.16  0.95   1.5
i8     t-halved     1-7    1-  17-32  small         2.14  1.48   3.0
bool   n-v3        9-31    1-  17-32  small         1.25  1.05   1.5
bool   n-v3       32-64    1-    65-  small         1.60  1.28   1.8
bool   n-v3         65-    1-     1-  small         1.18  1.08   1.3
bool   n-v3        4-31    1-  17-31  small         1.21  1.13   1.3
bool   t-v3         1-5    1-   1-24  small         3.27  1.08   9.4
bool   t-v3        1-15    1-   9-12  small         1.97  1.14   2.5
bool   t-v3         1-8    1-   1-16  small         3.14  1.00  11.4
bool   n-v4         1-1    1-  33-64  small         1.34  1.08   1.6
bool   n-v4          1-    1-    65-  small         1.33  1.20   1.6
bool   t-v4        1-24    1-   9-12  small         2.87  1.04   4.9
bool   t-v4         1-2    1-   9-63  small         2.25  1.09   4.1
bool   t-v4        7-12    1-  17-24  dots          1.00  1.00   1.0
bool   t-v4         1-4    1-   9-32  small         2.47  1.63   3.9
bool   t-v4        1-12    1-   9-24  small         2.31  0.93   3.2
bool   n-halved     1-1    1-  33-64  small         1.35  1.09   1.6
bool   n-halved   32-32    1-     6-  short-small   1.20  1.08   1.6
bool   n-halved      1-    1-    65-  small         1.34  1.21   1.6
bool   t-halved    1-24    1-   9-12  small         2.90  1.04   4.8
bool   t-halved     1-2    1-   9-63  small         2.25  1.08   4.0
bool   t-halved    7-12    1-  17-24  dots          1.00  1.00   1.0
bool   t-halved      6-    1-  32-32  short-dots    1.18  1.10   1.3
bool   t-halved     1-4    1-   9-32  small         2.54  1.69   3.9
bool   t-halved    1-12    1-   9-24  small         2.32  0.94   3.2
f16    n-v3        1-24    1-   1-64  others        1.00  1.00   1.0
f16    n-v3        9-31    1-    33-  small         1.56  1.20   2.5
f16    n-v3       25-63    1-   1-32  small         1.31  0.97   1.7
f16    t-v3         1-4    1-   5-16  small         2.86  1.47   4.3
f16    t-v3          1-    1-    5-5  small         2.02  1.07   4.6
f16    t-v3        8-24    1-  13-15  gemv          1.00  1.00   1.0
f16    t-v3         1-3    1-   5-24  small         1.25  1.07   1.5
f16    t-v3        1-24    1-   5-15  small         1.79  0.89   4.0
f16    n-v4       17-64    1-    65-  small         1.24  1.17   1.3
f16    n-v4         65-    1-     1-  small         1.29  1.03   1.6
f16    t-v4         1-6    1-   5-24  small         3.45  1.20   6.7
f16    t-v4         1-4    1-   5-32  small         1.28  1.12   1.4
f16    t-v4          1-    1-    5-7  small         2.60  0.99   6.7
f16    t-v4        9-24    1-  13-16  gemv          1.00  1.00   1.0
f16    t-v4        1-24    1-   5-16  small         2.52  0.89   5.0
f16    n-halved   25-64    1-    65-  small         1.22  1.16   1.3
f16    n-halved     8-8    1-   8-64  short-small   1.26  1.10   1.4
f16    n-halved   17-24    1-     5-  short-small   1.32  1.15   1.7
f16    n-halved     65-    1-   1-64  small         1.31  1.05   1.6
f16    t-halved     1-6    1-   5-24  small         3.40  1.20   6.6
f16    t-halved     17-    1-    8-8  short-gemv    1.30  1.25   1.3
f16    t-halved    9-24    1-  13-15  gemv          1.00  1.00   1.0
f16    t-halved     1-4    1-   5-32  small         1.28  1.12   1.4
f16    t-halved      1-    1-    5-7  small         2.54  0.99   6.7
f16    t-halved      9-    1-    16-  short-gemv    1.25  0.99   1.6
f16    t-halved    1-24    1-   5-16  small         2.64  0.88   5.0
f16    nn-halved    4-4    8-     6-  short-small   1.22  1.16   1.2
f16    nn-halved    4-4   2-4     7-  short-small   1.15  1.08   1.2
f16    nn-halved     8-   7-7     1-  small         1.85  1.21   3.6
f16    nt-halved     5-   2-3     7-  small         1.22  1.05   1.6
f16    nt-halved     5-   7-7     1-  small         2.03  1.39   3.3
f16    nt-halved    5-7    2-     1-  small         1.24  0.99   1.7
f16    tn-halved    4-4    8-     5-  short-small   1.18  1.09   1.2
f16    tn-halved    2-7    8-    5-7  others        1.00  1.00   1.0
f16    tn-halved    4-4   2-4     7-  short-small   1.15  1.08   1.3
f16    tn-halved    2-7   3-6    6-7  others        1.00  1.00   1.0
f16    tn-halved     5-   7-7     1-  small         2.01  1.21   3.4
f16    tn-halved    5-7    2-    1-7  small         1.26  1.02   1.7
f16    tt-halved     5-   2-3     7-  small         1.22  1.06   1.5
f16    tt-halved     5-   7-7     1-  small         2.04  1.39   3.3
f16    tt-halved    5-7    2-     1-  small         1.25  1.00   1.7
bf16   n-v3         2-3    1-    65-  small         1.21  1.21   1.2
bf16   n-v3       32-32    1-  32-63  gemv          1.00  1.00   1.0
bf16   n-v3        9-31    1-    65-  small         1.74  1.19   2.4
bf16   n-v3       25-63    1-   1-63  small         1.21  0.97   1.5
bf16   t-v3         1-4    1-   5-16  small         2.71  1.51   3.9
bf16   t-v3        9-16    1-  13-15  gemv          1.00  1.00   1.0
bf16   t-v3        1-24    1-    5-7  small         2.36  1.26   4.2
bf16   t-v3         1-3    1-   5-24  small         1.26  1.09   1.4
bf16   t-v3        1-16    1-   5-15  small         1.42  0.97   2.7
bf16   n-v4         65-    1-   1-16  small         1.33  1.24   1.5
bf16   n-v4         17-    1-    17-  small         1.39  1.00   1.9
bf16   t-v4        1-32    1-    5-8  small         3.73  1.11   6.5
bf16   t-v4       17-32    1-   8-16  others        1.00  1.00   1.0
bf16   t-v4         49-    1-    6-7  dots          1.19  1.16   1.2
bf16   t-v4         1-6    1-   5-24  small         2.39  1.27   3.3
bf16   t-v4        9-32    1-  13-16  gemv          1.00  1.00   1.0
bf16   t-v4         1-4    1-   5-32  small         1.34  1.17   1.5
bf16   t-v4          1-    1-    5-7  small         1.34  1.12   1.5
bf16   t-v4         17-    1-     8-  dots          1.26  0.99   1.7
bf16   t-v4        1-24    1-   5-16  small         2.20  1.03   3.4
bf16   nt-v4         7-    5-     8-  small         1.88  1.00   3.4
bf16   n-halved     8-8    1-   6-64  short-small   1.19  1.09   1.3
bf16   n-halved     65-    1-     1-  small         1.28  1.14   1.5
bf16   n-halved     17-    1-    17-  small         1.43  1.00   1.9
bf16   t-halved   16-32    1-   9-15  others        1.00  1.00   1.0
bf16   t-halved   25-48    1-    8-8  short-gemv    1.20  1.20   1.2
bf16   t-halved    5-24    1-  32-48  short-gemv    1.11  1.07   1.2
bf16   t-halved     1-6    1-   5-24  small         3.33  1.26   5.7
bf16   t-halved     49-    1-    6-8  dots          1.18  1.15   1.2
bf16   t-halved    9-32    1-  16-24  short-gemv    1.17  1.09   1.3
bf16   t-halved    9-32    1-  13-16  gemv          1.00  1.00   1.0
bf16   t-halved     1-4    1-   5-32  small         1.35  1.17   1.5
bf16   t-halved      1-    1-    5-7  small         2.90  1.12   6.7
bf16   t-halved     17-    1-     9-  dots          1.31  1.06   1.7
bf16   t-halved    1-24    1-   5-16  small         2.85  1.14   4.8
bf16   nt-halved     7-    5-     8-  small         1.88  1.00   3.4
i8_i32 n-v3         8-8    1-    65-  small         1.59  1.59   1.6
i8_i32 n-v3       17-24    1-   2-64  gemv          1.44  1.05   2.0
i8_i32 n-v3        9-15    1-   4-64  gemv          2.44  1.21   4.5
i8_i32 t-v3        8-24    1-    5-5  small         2.18  1.07   5.3
i8_i32 t-v3       32-48    1-    5-6  small         1.17  1.07   1.3
i8_i32 t-v3         33-    1-  49-63  dots          1.15  1.07   1.2
i8_i32 t-v3         25-    1-  17-31  dots          1.16  1.01   1.3
i8_i32 t-v3        9-15    1-    6-8  gemv          1.00  1.00   1.0
i8_i32 t-v3         8-8    1-   5-16  small         3.23  1.47   5.0
i8_i32 t-v3         25-    1-   5-15  dots          1.21  1.01   1.5
i8_i32 t-v3        8-16    1-    5-8  small         3.78  3.34   4.5
i8_i32 nn-v3        2-2    7-     5-  dots          1.42  1.08   1.8
i8_i32 nn-v3        2-7    7-     5-  blocks        1.28  0.98   1.5
i8_i32 nt-v3        2-2   2-6     7-  dots          1.16  0.96   1.3
i8_i32 nt-v3        7-7    7-     6-  blocks        1.23  1.05   1.4
i8_i32 nt-v3        2-4    7-    5-5  dots          1.18  1.03   1.4
i8_i32 nt-v3        2-6   2-4     8-  dots          1.16  1.08   1.3
i8_i32 nt-v3        2-7    7-     6-  dots          1.47  1.04   2.2
i8_i32 t-v4         5-5    1-  25-31  gemv          1.00  1.00   1.0
i8_i32 t-v4        3-32    1-  49-63  dots          1.08  1.02   1.2
i8_i32 t-v4       13-24    1-  13-16  gemv          1.00  1.00   1.0
i8_i32 t-v4         1-5    1-   5-31  small         3.31  1.56   6.1
i8_i32 t-v4         33-    1-     9-  dots          1.14  1.00   1.3
i8_i32 t-v4          1-    1-    5-8  small         2.57  0.95   6.7
i8_i32 t-v4        1-24    1-   5-16  small         1.97  0.92   3.4
i8_i32 nt-v4         7-    7-     8-  small         1.63  1.00   2.1
i8_i32 t-halved     5-5    1-  25-31  gemv          1.00  1.00   1.0
i8_i32 t-halved    3-32    1-  49-63  dots          1.09  1.02   1.2
i8_i32 t-halved   13-24    1-  13-16  gemv          1.00  1.00   1.0
i8_i32 t-halved     1-5    1-   5-31  small         3.30  1.57   6.0
i8_i32 t-halved     33-    1-     9-  dots          1.15  1.00   1.3
i8_i32 t-halved      1-    1-    5-8  small         2.57  0.95   6.7
i8_i32 t-halved    1-24    1-   5-16  small         1.97  0.93   3.4
i8_i32 nt-halved     7-    7-     8-  small         1.64  1.00   2.1
c64    n-v3       17-24    1-  17-32  small         1.00  1.00   1.0
c64    n-v3       33-64    1-   1-64  gemv          1.53  1.02   4.1
c64    n-v3         3-4    1-  33-64  gemv          1.17  1.06   1.3
c64    n-v3         1-1    1-    1-7  small         1.43  1.06   2.0
c64    n-v3        5-15    1-    65-  small         1.64  1.08   1.9
c64    n-v3       13-64    1-   1-32  gemv          1.41  0.99   2.8
c64    t-v3        4-32    1-    8-8  others        1.00  1.00   1.0
c64    t-v3        7-48    1-    65-  dots          1.10  1.00   1.2
c64    t-v3         64-    1-    1-4  dots          1.14  1.01   1.3
c64    t-v3        1-48    1-  13-15  gemv          1.79  1.04   3.6
c64    t-v3         1-6    1-    1-7  small         2.73  1.42   6.1
c64    t-v3       13-32    1-    5-5  gemv          1.28  1.09   1.6
c64    t-v3         49-    1-     8-  dots          1.08  1.00   1.2
c64    t-v3        4-32    1-   6-15  gemv          1.42  1.07   2.1
c64    t-v3        1-12    1-   1-15  small         1.75  1.12   2.7
c64    n-v4         65-    1-  17-64  small         1.10  1.09   1.1
c64    n-v4         2-4    1-  25-32  small         1.41  1.30   1.5
c64    n-v4          9-    1-    65-  small         1.45  1.06   1.9
c64    n-v4       33-64    1-    1-4  gemv          1.43  1.04   2.0
c64    n-v4         1-1    1-   1-12  small         1.61  1.04   2.8
c64    t-v4         5-5    1-   8-12  gemv          1.60  1.00   2.6
c64    t-v4        1-48    1-  16-16  others        1.00  1.00   1.0
c64    t-v4         49-    1-  13-15  dots          1.00  1.00   1.0
c64    t-v4         4-6    1-   9-12  gemv          2.65  2.16   3.3
c64    t-v4        1-48    1-  13-31  gemv          1.64  1.03   4.1
c64    t-v4          1-    1-   1-15  small         1.85  1.03   5.8
c64    n-halved     1-1    1-  16-31  short-gemv    1.21  1.16   1.3
c64    n-halved     65-    1-  17-64  small         1.11  1.09   1.1
c64    n-halved     2-4    1-  25-32  small         1.43  1.29   1.5
c64    n-halved      8-    1-    65-  small         1.42  1.06   1.9
c64    n-halved     2-4    1-    25-  short-gemv    1.36  1.22   1.5
c64    n-halved   33-64    1-    1-4  gemv          1.42  1.05   2.0
c64    n-halved     1-1    1-   1-12  small         1.63  1.04   2.8
c64    t-halved     65-    1-   7-63  short-dots    1.10  1.00   1.2
c64    t-halved     1-3    1-   1-12  small         2.86  1.16   6.7
c64    t-halved      1-    1-    64-  gemv          1.13  1.05   1.2
c64    t-halved    1-32    1-   9-15  short-gemv    1.60  1.07   3.5
c64    t-halved      1-    1-    1-7  small         1.90  1.01   5.8
c64    nn-halved    2-2   2-2    2-2  short-small   1.50  1.50   1.5
c64    nn-halved    4-4   3-3    1-4  short-small   1.17  1.11   1.2
c64    nn-halved     8-   6-6     1-  short-small   1.19  1.14   1.3
c64    nn-halved    2-2   6-6    2-2  short-small   2.54  2.54   2.5
c64    nn-halved    4-4   6-6     1-  short-small   1.33  1.02   1.7
c64    tn-halved     8-   6-6     1-  short-small   1.18  1.11   1.3
c64    tn-halved    4-4   6-6     1-  short-small   1.21  1.13   1.3
c128   n-v3        9-12    1-    25-  small         1.01  1.00   1.1
c128   n-v3         3-7    1-    65-  small         1.48  1.04   1.7
c128   n-v3         1-1    1-    1-7  small         1.60  1.29   2.1
c128   n-v3        7-64    1-   1-64  gemv          1.51  0.98   4.9
c128   t-v3        7-12    1-    65-  dots          1.14  1.10   1.2
c128   t-v3          7-    1-    4-4  others        1.00  1.00   1.0
c128   t-v3          7-    1-    6-6  others        1.00  1.00   1.0
c128   t-v3         13-    1-    49-  dots          1.19  1.03   1.5
c128   t-v3         1-6    1-    1-7  small         2.64  1.00   9.3
c128   t-v3          1-    1-    3-7  gemv          1.58  1.10   2.6
c128   n-v4         2-2    1-  25-32  small         1.30  1.28   1.3
c128   n-v4        5-48    1-    65-  small         1.42  1.04   1.7
c128   n-v4         1-1    1-   1-12  small         1.69  1.11   2.8
c128   n-v4       17-64    1-    1-6  gemv          1.34  0.90   2.2
c128   t-v4        1-48    1-    8-8  others        1.00  1.00   1.0
c128   t-v4         13-    1-    65-  dots          1.15  1.01   1.4
c128   t-v4         1-8    1-    1-7  small         2.83  1.45   7.0
c128   t-v4        1-32    1-    1-2  small         2.27  1.63   3.0
c128   t-v4       13-48    1-    5-6  gemv          1.31  1.10   1.5
c128   t-v4        1-48    1-   7-15  gemv          1.54  1.07   3.7
c128   t-v4        1-16    1-    1-7  small         1.94  1.59   2.9
c128   n-halved     2-2    1-    49-  short-gemv    1.48  1.43   1.5
c128   n-halved     6-6    1-    16-  short-small   1.18  1.08   1.7
c128   n-halved   17-64    1-    8-8  gemv          1.12  1.04   1.2
c128   n-halved     2-2    1-     2-  short-small   1.20  1.07   1.6
c128   n-halved    5-32    1-    65-  small         1.43  1.05   1.7
c128   n-halved     1-1    1-   1-12  small         1.71  1.11   2.7
c128   n-halved   17-64    1-    1-6  short-gemv    1.42  1.07   2.3
c128   t-halved     1-3    1-  16-31  gemv          1.09  1.04   1.1
c128   t-halved   17-64    1-    4-4  others        1.00  1.00   1.0
c128   t-halved    7-64    1-    6-6  others        1.00  1.00   1.0
c128   t-halved     17-    1-    64-  dots          1.26  1.07   1.6
c128   t-halved    1-16    1-    1-4  small         2.36  1.12   8.6
c128   t-halved    9-64    1-    3-7  short-gemv    1.47  1.12   2.2
c128   t-halved      1-    1-    32-  gemv          1.10  1.02   1.2
c128   t-halved    1-12    1-    1-7  small         2.63  1.05   6.4
c128   nn-halved    6-6   4-4     4-  short-small   1.18  1.09   1.2
c128   nn-halved    6-6    8-     1-  short-small   1.14  1.06   1.3
c128   nn-halved    6-6   6-6     2-  short-small   1.15  1.10   1.2
c128   nn-halved    2-2   2-3     3-  short-small   1.15  1.08   1.2
c128   nn-halved    2-4   6-6     1-  short-small   1.22  1.02   1.7
c128   nt-halved    2-2   2-3     3-  short-small   1.10  1.05   1.2
c128   nt-halved    6-6    8-     3-  short-small   1.16  1.12   1.2
c128   nt-halved    2-4   6-6     3-  short-small   1.21  1.01   1.5
c128   tn-halved    6-6   4-4     4-  short-small   1.17  1.10   1.2
c128   tn-halved    6-6    8-     1-  short-small   1.16  1.08   1.3
c128   tn-halved    2-2   2-3     3-  short-small   1.14  1.05   1.2
c128   tn-halved    6-6   6-6     1-  short-small   1.25  1.19   1.3
c128   tn-halved    2-4   6-6     1-  short-small   1.16  1.00   1.3
c128   tt-halved    2-2   2-3     3-  short-small   1.11  1.06   1.2
c128   tt-halved    6-6    8-     3-  short-small   1.15  1.12   1.2
c128   tt-halved    6-6   6-6     1-  short-small   1.22  1.17   1.3
c128   tt-halved    2-4   6-6    1-7  short-small   1.15  1.00   1.3
"""
