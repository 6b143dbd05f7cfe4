"""Which way a product is computed, and where memory begins: rules that calls, plans and configurations ask too.

The other heuristics choose among configurations; these decide what those are of: the product as it is called or its
transposed output, columns of B or rows of the output, a few last columns by themselves, an output past the caches.
Calls have the rules of `turns` once more, by its constants (_call.pyx).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from .. import cpu, registry
from ..allowed import halved_bytes, long_tiers, runs


class Asked(Protocol):
    """What these rules ask of a `problem.Problem`."""

    @property
    def m(self) -> int: ...
    @property
    def n(self) -> int: ...
    @property
    def k(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def layout(self) -> str: ...
    @property
    def epilogue(self) -> str: ...
    @property
    def row(self) -> registry.DType: ...
    @property
    def streamed(self) -> int: ...


ANY_STEPS = 1 << 40
# As `written_past` asks: steps of k (AVX2 on Zen 4, one thread and two, times gemm's, f32 5000 x 2000 by 1, 4, 8, 10,
# 12, 16 steps 2.1 1.4, 1.7 1.4, 1.4 1.1, 1.15 1.03, 1.09 0.98, 1.0 0.94; f64 5000 x 1000 by 4, 8, 12 1.6 1.3 1.1; c64
# by 4, 8 1.36 1.0), bytes of C over L3 (f32 x 3, 8 MB 0.6, 16 MB 1.3, 24 MB 1.7), and of an item of a stack.  With
# AVX-512, whose stores are whole lines, an output that L3 holds some of is better off there (Zen 5, one thread and two,
# f32 of 24 and 40 MB 2000 x 3000 x 8 0.70, 5000 x 2000 x 8 0.67, of 60 MB 5000 x 3000 by 3, 8 steps 1.4 1.2, 1.2 1.16,
# 160 MB 5000 x 8000 by 1, 3, 8 1.6 1.4, 1.4 1.3, 1.1 1.1; stacks 100 x 100 x 4 (2000) 1.6 1.5, x 10 (1500) 1.5 1.5,
# 128 x 128 x 8 (1000) 1.4 1.25, 200 x 500 x 4 (200) 1.4 1.26, 300 x 300 x 8 (400) 1.1 1.1, 333 x 333 x 8 0.93).
PAST_STEPS, PAST_L3, PAST_ITEM = 10, {16: 1 / 2, 32: 3 / 2}, 16 << 10
# Steps of a B by columns, as `turns_pieces` asks, operands and C being at most half of L3 (AVX2 on Zen 4, one thread,
# times gemm's, which copies in blocks: f32 64 x 300 by 3, 5, 8, 16, 24 steps 1.76 1.59 1.43 1.20 1.13, 4 x 1500 tt by
# 2, 8, 16, 32, 48, 64 1.74 1.46 1.25 1.08 1.02 1.02, 50 of 100 x 100 by 3, 16, 32 1.98 1.22 1.06, 500 x 1024 x 32
# 1.09, 64 x 1024 x 16 1.34; f64 64 x 300 x 8 1.41, x 32 1.08, c64 1.35 1.06, i32 64 x 500 x 16 1.14, 5 x 300 x 6
# 2.25; C in memory 3000 x 2000 x 16 0.78, 219 x 240 x 16, 234 of them, 0.73; AVX-512 on Zen 5, f32 64 x 300 x 5 1.25,
# 64 x 1024 x 16 1.06, 500 x 1024 x 32 1.02, 50 of 100 x 100 by 3, 16 1.35 1.07, tt 4 x 1500 by 2, 8, 32, 48 1.4 2.4
# 1.06 1.13, 118 x 1095 x 2 1.42, 50 x 700 x 30 1.27; f64 alike).
TURNED_STEPS = 48
# Rows and steps from which on the columns of C's last vector, where it holds a quarter of one at most, are computed by
# kernels whose rows share vectors: a pass over A more, for less work (Zen 5, AVX-512, one thread, f32 100 x 100 x 100
# 1.03, stacks of it 1.04, 64 x 50 x 200 1.07, 200 x 100 x 512 1.09, 300 x 97 x 300 1.10, 1000 x 35 x 300 1.09, 32 x 100
# x 1000 1.08, 64 x 36 x 500 1.31, 500^3 1.01; f64 1.00 to 1.06; but f32 16 x 500 x 500 0.96, 100 x 18 x 100 0.98, 50^3
# 0.94, 20 x 50 x 50 0.85).
# But not where rows of A lie so many bytes apart, several of which such a kernel reads at once, all from a few sets of
# L1: of an eighth of a vector, and of more (times all columns together, AVX-512 on Zen 5, f32 33, 49, 65 columns, 200 x
# n x 512 0.75 0.71 0.84, 1000 x n x 512 0.68 0.67 0.79, 2000 x n x 1024 0.36 0.43 0.48, but 1000 x n x 256 0.94 to
# 1.04, x 768 1.0; 35, 36, 67 columns by 512 1.1 to 1.2, 2000 x n x 1024 0.85 0.9 0.9; f64 33, 34 columns 2000 x n x 512
# 0.75; AVX2 17, 33 columns 2000 x n x 1024 0.92, others 1.0 to 1.07); half as far beside an L1 of 32 KiB (Zen 4, f32
# 100 x n x 256, n = 17, 18, 33 0.6 0.5 0.7, 300 x n x 256 0.6 0.6 0.75).
LEFT_ROWS, LEFT_STEPS = 32, 96
LEFT_APART, LEFT_APART_MORE, LEFT_SMALL_L1 = 2048, 4096, 32 << 10
# Of a product whose operands both lie along k (layout nt), one is packed by turning it over.  Few rows of A cost less
# than all of B: the transposed output is computed, and its tiles are turned over instead.  Times of that, of B packed
# (Zen 5, one thread, B of 1 and of 42 MB): f32 16 rows 0.63 and 0.84, 32 0.81 and 0.93, 36 1.12 and 1.18, 48 0.96 and
# 1.24, 56 1.04 and 1.36 (two threads 1.07 and 1.4; AVX2 1.05 and 1.02); f64 0.67 to 0.91, 80 rows 0.95.  So rows of
# four bytes a number end earlier, and with a B of more than half of L3 earlier still.
# Fewer rows are dot products (`family_dots`), with AVX2 of four bytes a number also 10 to 12 of them if B is in a
# cache (a Zen 5 of old, 12x512x512 41 us, dots 29; 10x3072x768 350, 250; but 9x3072x768 355, 412).
TURNED_FROM, TURNED_NEAR, TURNED_FAR, TURNED_WIDE = 9, 48, 32, 80
UNTURNED_ROWS = range(10, 13)
# Long vectors: rows of the transposed output that leave an eighth of their last vector empty, at least, are dot
# products whatever their number, but three vectors of half the length (`half_tier`); and all rows that one vector
# holds, if B's columns are whole pages apart.  Numbers of eight bytes leave a quarter empty, where the vectors are not
# computed in two halves.  (Time of the turned output over that of dot products; Zen 5, one thread, f32 by 256 x 64, 512
# x 512, 3072 x 768, 768 x 3072, 4096 x 4096: 9 rows 1.5 1.3 1.1 1.1 1.5, 11 1.0 1.0 1.0 1.0 1.4, 13 1.1 1.2 1.1 1.3
# 1.1, 14 1.0 1.1 1.0 1.3 1.0, 15 1.0 1.0 1.0 1.3 1.0, 16 1.0 1.0 1.0 1.2 1.0, 17 1.35 1.1 1.0 1.1 1.35, 20 1.2 1.2 1.2
# 1.3 1.5, 24 1.0 1.0 1.0 1.2 1.0, 28 1.0, 33 1.1 1.3 1.2 1.2 1.0, 40 1.0 1.1 1.05 1.0 1.0, 44 1.0; two threads alike;
# i32 9 rows 1.8 1.2 1.1 1.2 1.6, 13 1.3 1.2 1.15 1.1 1.0, 16 1.0 1.0 1.0 0.87 0.89, 20 1.4 1.2 1.2 1.1 1.5; f64 9 rows
# 1.4 1.1 1.4 1.3 1.3, 12 1.0 1.0 1.0 1.3 1.1, 13 1.0 1.0 0.8 0.95 0.8, 17 1.2 1.1 1.1 1.2 1.2, 18 1.05 1.1 1.06 1.2
# 1.3, 20 1.07 1.0 0.84 0.9 0.9, 25 1.1 1.1 0.95 0.95 0.97; i64 alike; c64 1.0 to 1.4, but 9 and 13 by 256 x 64 on two
# threads 0.86. Zen 4, AVX-512, one thread, time of the turned output over that of dot products, f32 by 256 x 64, 256 x
# 256, 512 x 512, 768 x 3072, 4096 x 4096: 9 rows 1.5 1.5 1.3 1.3 1.4, 13 1.1 1.3 1.2 2.0 1.5, 16 0.9 1.0 1.0 1.6 1.5,
# 20 1.4 1.2 1.2 1.5 1.4, 24 0.9 0.96 0.97 1.0 1.0, 28 1.1 1.0 1.1 1.1 1.1, 32 0.9 0.96 0.93 0.97 1.0, 40 1.1 1.2 1.2
# 1.15 1.25, 44 1.0 1.1 1.1 1.04 1.2, but 16 by 2560 x 7680 0.9; two threads alike; i32 1.8 1.4 1.3 1.4 1.46, 1.4 1.4
# 1.3 1.3 1.2, ..., 1.1 1.2 1.2 1.2 1.2; f64 9 rows 1.5 1.4 1.3 1.5 1.3, 13 1.3 1.2 1.1 1.0 1.0, 16 0.97 1.0 0.9 0.83
# 0.9, 20 1.2 1.2 1.1 1.0 1.1, 49 1.15 1.1 1.1 1.05 1.15, 64 1.06 1.0 0.9 1.0 1.1.  By AVX2's kernels 9, 17, 20 rows 1.4
# 1.0 1.0 0.97 1.0, 1.3 1.2 1.1 0.7 0.95, 1.3 1.2 1.0 0.7 0.86: not there.)
FILLED, FILLED_WIDE, FILLED_PAGE = 7 / 8, 3 / 4, 4096


class Turning(NamedTuple):
    """Up to how many rows the transposed output is computed, and when rows are dot products all the same.

    `near`, `far` and `wide` are the most rows: of four bytes a number by a B in a cache and not, and of eight.  Rows of
    four and of eight bytes a number fill more than `filled` and `filled_wide` of long vectors; by columns a multiple of
    `page` bytes apart, all rows that one vector holds are dot products.
    """

    near: int
    far: int
    wide: int
    filled: float
    filled_wide: float
    page: int


# Beside an L1 of 32 KiB (`cpu.small_l1`), where dot products wait for L2.  (Skylake-SP, one thread, time of the turned
# output over that of dot products, f32 by 512 x 512, 3072 x 768, 768 x 3072, 4096 x 4096: 9 rows 1.29 1.10 1.11 -, 11
# 1.22 0.97 1.01 -, 12 1.14 0.98 1.07 -, 13 1.01 0.86 0.90 1.03, 14 1.07 0.87 0.89 -, 16 0.91 0.77 0.83 0.96, 17 1.20
# 0.86 1.18 -, 20 1.07 0.89 1.06 1.03, 22 1.03 0.83 0.87 -, 24 1.01 0.97 0.82 0.94, 28 0.88 0.71 0.86 0.87, 36 1.00 0.84
# 0.80 0.90, 40 0.92 0.75 0.86 0.87; f64 by the first two 9 rows 0.97 0.85, 12 0.85 0.80, 20 0.84 0.74, 40 0.69 0.79.
# Over that of packing B 48 rows 0.90 0.89 0.80 0.89, 54 by 512 x 512 1.08, 64 0.93 0.83 0.86 0.94, f64 64 0.84 1.03, 80
# 0.90 1.12.)
TURNED_L1 = Turning(TURNED_NEAR, 64, TURNED_WIDE, 11 / 16, 1 / 2, ANY_STEPS)
# Columns, and bytes of them, up to which a product by columns that are not along k is dot products after all: they are
# copied first, all of them, a copy that must stay in L2.  (Up to 22 `EXCHANGED_WHOLE` has figures, more have none.)
FEW_DOT_COLUMNS, DOT_TURNED = 24, 256 << 10
# Rows from which on two to four columns are computed as rows of the transposed output (AVX2 on Zen 4, one thread, f32
# nt: 512 x 4 x 512 1.10, 1000 x 4 x 4096 1.21, f64 1.32, 1.62, and A from memory, 100000 x 4 x 256, 3.0; 30 x 2 x 128
# 0.87, 8 x 4 x 256 0.84; AVX-512 on Zen 5, nt, 1000 x 2 x 256 1.6, 1000 x 4 x 64 1.55, 200 x 4 x 256 1.33, A from
# memory 100000 x 4 x 256 1.7, 400000 x 2 x 64 1.5, f64 1.5, 1.4).
DOT_EXCHANGED = 64
# Where long vectors are computed in two halves also columns that leave a sixth of the last tile of six empty, and no
# whole vectors of half the length: by bytes of a number, if a row has so many bytes, and of so many steps (Zen 4,
# AVX-512, one thread, times not exchanged, or gemm's kernels, 1000 rows, f32 n = 5, 7, 9, 10, 11, 13, 14, 15, 19, 20,
# 21 by 256 1.29 1.56 1.33 1.22 1.1 1.08 1.0 0.95 1.23 1.18 1.13, n = 6, 8, 12, 16, 17, 18 0.95 1.0 0.95 0.89 1.0 0.93,
# 5, 7, 9, 13, 20 by 64 1.3 1.1 1.1 0.85 1.0, 9, 20 by 1000 1.24 1.19; 64 rows alike; 30000 from memory by 256 1.0 1.0
# 1.0 1.0 1.0 1.0 1.0 1.0 1.8 1.8 1.8; i32 1.2 1.6 1.3 1.2 1.07 1.2 1.1 1.0 1.2 1.15 1.1, n = 8 1.35, from memory 1.05
# to 2.9; f64 1.08 0.95 1.2 1.1 1.0 1.1 1.0 0.94 1.1 1.07 1.03, from memory 1.0 0.95 2.1 2.0 2.0 1.1 1.1 0.9 1.0 1.0
# 0.94, 13, 20 by 64 1.0 0.97).
EXCHANGED_COLUMNS, EXCHANGED_DEEP = {4: (5, 7, 9, 10, 11), 8: (5, 9, 10)}, (13, 14, 19, 20, 21)
EXCHANGED_BYTES, EXCHANGED_STEPS = 256, 256
# And of four bytes a number by rows of whole pages (f32 n = 12, 15, 16, 18: 200 x n x 1024 1.2 1.57 1.46 0.94, 2000 x n
# x 1024 0.91 1.48 1.42 1.04, 20000 x n x 1024 1.2 1.4 1.33 1.12, two threads alike; 4000 x n x 5000 1.45 1.0 0.95 1.3;
# i32 1.0 to 1.3).
EXCHANGED_PAGES = (15, 16)
# Where they are computed whole, columns by how B lies and whether A comes from memory (`far_bytes`), and by bytes of a
# number, with the least bytes of a row of A.  (Zen 5, one thread, times not exchanged, or gemm's or small's kernels, nn
# f32 n = 5, 6, 7, 8, 9, 10, 11, 12: 200 rows by 512 1.56 1.44 1.35 1.12 1.44 1.39 1.25 1.10, 1000 by 128 1.35 1.31 1.24
# 1.10 1.33 1.32 1.21 1.16, by 1000 1.55 1.49 1.36 1.17 1.46 1.38 1.30 1.18, 2000 by 1024 1.75 1.70 1.53 1.31 1.89 1.88
# 1.72 1.57, 13, 14 1.0 to 1.5, 17 to 22 by 300 1.36 1.27 1.20 1.12 1.15 1.08, 2000 by 1024 - - 1.76 1.64 1.17 1.11, 15,
# 16 0.85 to 1.0; from memory 8000 by 1000 1.08 1.12 0.95 1.02 0.89 0.91 1.03 0.98; two threads alike; i32 1.1 to 2.2;
# f64 1000 by 300 1.22 1.11 1.09 0.90 1.40 1.24 1.05 1.00, 2000 by 1024 1.22 1.08 1.14 0.95 1.04 1.04 0.98 0.91, i64
# alike.  nt f32 1000 by 256 1.0 0.9 1.4 1.2 1.2 1.2 1.2 1.0, by 1000 0.9 0.9 1.8 1.6 1.2 1.1 1.0 0.9, 7 and 8 by 64
# 0.93 to 1.1; from memory, n = 5 to 12, 17 to 21, 30000 by 256 1.6 1.5 1.4 1.3 2.2 2.5 2.1 2.1, 1.9 1.65 1.95 1.8 1.7,
# 4000 by 5000 1.3 1.3 1.0 1.0 1.5 1.4 1.4 1.3, 1.2 1.2 1.35 1.3 1.2, two threads 1.7 1.7 1.3 1.3 1.6 1.5 1.5 1.3, 1.3
# 1.2 1.35 1.4 1.3 but 12 and 18 by 1000 0.97 0.89, 100000 by 64 0.7 to 1.0; f64 n = 9, 10 1.05 to 1.2, from memory 1.4,
# 5 and 6 1.2 to 1.3, 7 and 8 0.75 to 1.2, 11 and 12 1.4 to 1.7, 17 and 18 1.2 to 1.6, 13, 19, 20 0.6 to 0.9.)
EXCHANGED_WHOLE = {
    ("nn", False): {4: ((*range(5, 15), *range(17, 23)), 512), 8: ((5, 6, 9, 10), 512)},
    ("nt", False): {4: ((7, 8, 9, 10), 400), 8: ((9, 10), 256)},
    ("nt", True): {4: ((*range(5, 13), 17, 19, 20, 21), 1024), 8: ((5, 6, *range(9, 13), 17, 18), 512)},
}
TURNED_RATIO = 4    # columns to a row, at least
TURNED_K = 64
# So is a small output, or a narrow one of long sums, of two operands that are given transposed: exchanged they are not.
# (Zen 5, f32, speed over packing B: 2 x 2, 4 x 8, 8 x 4 by 64 steps 1.15 to 1.3, by 1000 6, 32 x 8 x 64 1.27, 64 x 2 by
# 64 and 1000 1.06 and 9.6, 1000 x 4 by 64, 256, 1000 0.76, 1.2, 3.3, 64 x 64 x 1000 1.12, 8 x 64 x 64 0.87; f64 1.1 to
# 4.5, 500 x 64 x 1000 0.97.)
EXCHANGED_M, EXCHANGED_N, EXCHANGED_K, EXCHANGED_LONG, EXCHANGED_OUT = 32, 8, 64, 256, 4096
# So are products of fewer steps where C.T is two, four or, of so many steps, three rows, each less than a vector of
# 64 bytes.  (Cascade Lake, AVX-512, one thread, times turning B over, 2, 5, 10 rows: f32 by 4, 17, 40 steps 2 columns
# 1.12 1.15 1.27, 1.15 1.29 1.5, 1.09 1.3 1.65, stacks of 60 1.4 1.3 1.85, 1.3 1.6 2.0, 1.2 1.5 2.1, 4 columns 1.0 to
# 1.35, stacks 1.04 to 1.7, 3 columns 1.0 to 1.2, stacks 0.9 to 1.8; f64 by 2 to 60 steps, 2, 3, 5 rows 1.0 to 1.4,
# stacks 0.92 to 1.64; but 16 rows f32 0.66 to 1.19, f64 10 rows, stacks, 0.74 to 1.09; 5 columns 0.75 to 1.2.)
BRIEF_N, BRIEF_THREE = 4, 8
# And an output whose rows leave a good part of a line empty, A being by columns: exchanged, rows of A are what vectors
# lie along.  Least and most bytes of such rows, fewest rows and steps.  (Zen 5, AVX-512, one thread, exchanged times
# not, tn f32 n = 9, 12, 14, 17, 20: m = 160, k = 100 1.34 1.32 1.2 1.37 1.16, k = 400 2.3 1.75 1.5 1.8 1.6, 24 x 100
# 1.4 1.1 0.9 1.15 1.0, 4000 x 1500 1.5 1.8 1.4 1.5 1.1, but k = 24 0.8 0.9 - 0.96 0.7, n = 15, 24, 33 of k = 100 1.0
# 0.9 to 1.04 1.0, of 400 1.1 to 1.3, n = 32, 48, 64 0.6 to 0.97; f64 n = 5, 6, 7, 9 1.3 to 2.0, 1.2 to 1.9, 1.2 to 1.8,
# 1.0 to 1.7; tt f32 n = 9, 12, 17, 20 1.2 to 3.3, 1.1 to 2.5, 1.3 to 2.5, 1.1 to 2.2; AVX2, tn, n = 5, 9, 12 1.1 to
# 1.9, 1.1 to 1.4, 0.94 to 1.4.  Of fewer steps, Zen 5, tt and tn, n = 9, 10, 12, 14, 17, 20, 64 to 4000 rows by 64 f32
# 1.1 to 1.5, 1.25 to 1.5, 1.15 to 1.3, 0.97 to 1.2, 1.25 to 1.45, 1.05 to 1.2, 800 by 48 1.1 1.3 1.15 1.0 1.2 1.0, 200
# by 32 0.9 1.05 1.0 0.85 1.0 0.8; f64 n = 5, 6, 7, 9 by 64 1.6 to 1.9, 1.45 to 1.6, 1.2 to 1.4, 1.1 to 1.5, i32 and
# AVX2 alike.)
THIN_BYTES, THIN_M, THIN_K = ((32, 56), (64, 80)), 32, 48
# And few rows of bytes or bfloat16 by a B that lies along k, as weights do, where tile registers multiply: exchanged
# its rows are read where they are, and what is copied are the few rows of A.  Rows at most, columns to a row and bytes
# of k, in whole chunks, at least; fewest rows by bytes of a number, fewest columns.  (Emerald Rapids, one thread, over
# the better of copying B and dot products in place, B's rows at lines and, in brackets, not: bfloat16 4 rows 256 x 256
# 2.6 (1.7), 1024 x 1024 1.9 (1.4), 4096 x 4096 1.2 (0.96), 16 rows 2.2 (1.9), 2.7 (2.2), 2.9 (2.3), 32 rows 64 x 256
# 1.1 (1.1), 48 rows 1.4 (1.15), 1.9 (1.75), 2.3 (1.9), 64 x 256 1.0 (0.8), 128 rows 0.9 (0.7), 1.3 (1.2), 1.6 (1.4), 2
# rows 1.05 to 1.5 (0.5 to 0.6, of copies); bytes 4 rows 0.95 to 1.1 (0.8), 8 rows 1.4 (1.2), 2.1 (1.4), 1.4 (1.1), 32
# rows 1.35 (1.2), 2.4 (2.0), 3.0 (2.5), 64 rows 256 x 256 1.0 (0.9), 1.6 (1.5), 2.1 (1.9).)
MATRIX_TURNED = ((32, 2, 256), (64, 4, 1024), (128, 8, 1024))
MATRIX_ROWS, MATRIX_COLUMNS, MATRIX_CHUNK = {1: 8, 2: 4}, 64, registry.REGISTER_BYTES


def near_bytes() -> int:
    """Return the bytes of B up to which it counts as near where rows are turned: half of L3."""
    return cpu.caches().l3 // 2


def far_bytes() -> int:
    """Return the bytes of a B, or of all of a stack's, from which on it is taken to be in memory beside few rows.

    Of an L3 of 32 MiB (short vectors, one and two threads, from 12 MiB on times from 20 on: f32 1024 x 3500 0.89 0.82,
    1800 x 1800 0.83 0.78, 10000 x 350 0.85 0.8; 4000 x 1200 1.25 0.98; long ones, Zen 5, from 12 MiB on times from 18,
    a matrix by a vector, f32 1900 x 1900 0.95, 32000 x 100 0.87, 30000 x 128 0.8, but 3000 x 1200 1.2).
    """
    return cpu.caches().l3 * 9 // 16


def nearly_far(size: int, tier: registry.Isa) -> bool:
    """Say whether a matrix of so many bytes, beside few rows, gains by what fetches ahead: two thirds of `far_bytes`.

    With short vectors only.  (f32 4000 x 12 x 1000, A of 16 MB, 1.1 to 1.2, 2000 x 12 x 500 0.94; a B of 16 MB by 8
    rows 2.6, of 10 MB 1.05 to 1.2, by 4 rows 0.9 to 1.0.)
    """
    return tier.registers == 16 and 3 * size > 2 * far_bytes()


def turns_pieces(problem: Asked, tier: registry.Isa) -> bool:
    """Say whether the small family takes a B by columns in pieces: few steps beside operands and an output in L3."""
    row = problem.row
    if problem.layout[1] != "t" or problem.k > TURNED_STEPS or problem.streamed > _l3() // 2:
        return False
    return not row.converts and registry.accumulators(row, tier) == row.parts and problem.n > registry.lanes(row, tier)


def written_past(problem: Asked, tier: registry.Isa) -> bool:
    """Say whether the small family writes C past the caches: few steps into more than they hold (`PAST_L3`)."""
    row = problem.row
    item = problem.m * problem.n * row.itemsize
    several = problem.n > max(nr for _, nr in registry.tiles(row, tier)) and problem.layout[1] in "nt"
    plain = several and not row.converts and registry.accumulators(row, tier) == row.parts
    few = problem.k * row.parts <= PAST_STEPS and problem.epilogue == "none"
    large = item >= PAST_ITEM and problem.batch * item > PAST_L3[tier.registers] * _l3()
    return plain and few and large


def shares_vectors(problem: Asked, tier: registry.Isa) -> bool:
    """Say whether rows of C are so short that the small family has several in a vector."""
    row, lanes = problem.row, tier.vector_bytes // problem.row.real_bytes
    if not row.parts < problem.n * row.parts <= max(registry.narrow_widths(row, tier), default=0):
        return False
    # A by columns takes whole vectors of rows, and has no complex kernels; it is the only one for bytes.
    if problem.layout[0] == "n":
        return not row.stored
    return problem.layout[0] == "t" and row.parts == 1 and problem.m >= lanes


def few_left(problem: Asked, tier: registry.Isa) -> bool:
    """Say whether C's last vector holds so few columns that they are better off by themselves (`LEFT_ROWS`)."""
    row = problem.row
    lanes = tier.vector_bytes // row.real_bytes
    left = problem.n * row.parts % lanes
    few = 0 < left <= lanes // 4 and problem.n * row.parts > lanes
    row_bytes = problem.k * row.parts * row.real_bytes
    least = LEFT_APART if left <= lanes // 8 else LEFT_APART_MORE
    apart = row_bytes % (least // 2 if cpu.caches().l1d <= LEFT_SMALL_L1 else least) > 0
    near = problem.m * row_bytes <= _l3() // 4
    plain = not row.converts and row.group == 1 and problem.epilogue == "none"
    enough = problem.m >= LEFT_ROWS and problem.k >= LEFT_STEPS
    return few and apart and near and plain and enough and problem.layout == "nn"


def _l3() -> int:
    return cpu.caches().l3


def exchanges(problem: Asked, tier: registry.Isa) -> bool:
    """Say whether the dots family computes the transposed output: of few columns, which are copied, and many rows.

    Examples
    --------
    >>> from fastgemm.problem import Problem
    >>> exchanges(Problem("f32", 1000, 4, 256), registry.isa("v3"))
    True
    """
    row = problem.row
    few = 1 < problem.n <= registry.DOT_ROWS or problem.n in _uneven(problem, tier)
    # Types that are read otherwise than they are stored, or summed otherwise, have no kernels for it.
    plain = row.parts == row.group == registry.accumulators(row, tier) == 1 and not row.converts
    return few and problem.m >= DOT_EXCHANGED and plain and problem.layout[0] == "n"


def _uneven(problem: Asked, tier: registry.Isa) -> tuple[int, ...]:
    # Columns besides the fewest.
    if tier.vector_bytes == halved_bytes():
        return _of_halves(problem) if problem.layout == "nt" else ()
    if tier.vector_bytes < 64:
        return ()
    row_bytes = problem.k * problem.row.itemsize
    far = problem.batch * problem.m * row_bytes >= far_bytes()
    columns, least = EXCHANGED_WHOLE.get((problem.layout, far), {}).get(problem.row.itemsize, ((), 0))
    return columns if row_bytes >= least else ()


def _of_halves(problem: Asked) -> tuple[int, ...]:
    size, deep = problem.row.itemsize, problem.k >= EXCHANGED_STEPS
    few = EXCHANGED_COLUMNS.get(size, ()) if problem.k * size >= EXCHANGED_BYTES else ()
    if few and size == 4 and problem.k * size % FILLED_PAGE == 0:
        few += EXCHANGED_PAGES
    return few + (EXCHANGED_DEEP if few and deep else ()) + ((8,) if few and size == 4 and problem.row.exact else ())


def thin_steps() -> int:
    """Return the most steps of a thin output that is exchanged (`THIN_BYTES`): with long vectors any.

    AVX2 on Zen 5, one thread, f32 50 x 12 x 100000 0.67, 64 x 20 x 50000 0.92, 100 x 10 x 100000 1.58, f64 128 x 10 x
    10000, 8 of them, 0.64, 100 x 10 x 100000 0.86; AVX-512 1.25, 1.37, 1.7, 1.5, 1.44.
    """
    return ANY_STEPS if any(tier.vector_bytes == 64 for tier in cpu.isas()) else 2048


def brief_bytes() -> int:
    """Return the bytes of a row of C.T below which a few of them by few steps are computed instead of C (`BRIEF_N`)."""
    return 64 if any(tier.vector_bytes == 64 for tier in cpu.isas()) else 0


def _thin(m: int, row_c: int, k: int) -> bool:
    thin = any(more < row_c <= most for more, most in THIN_BYTES)
    return thin and m >= THIN_M and THIN_K <= k <= thin_steps()


def filled_bytes() -> int:
    """Return the bytes of the vectors that rows of the transposed output are to fill; 0: short ones, whatever fills.

    Halved ones, or long ones.
    """
    return halved_bytes() or max((tier.vector_bytes for tier in long_tiers()), default=0)


def turning() -> Turning:
    """Return what decides here whether rows are turned.

    Examples
    --------
    >>> from fastgemm.heuristic import ways
    >>> ways.turning().wide
    80
    """
    if any(map(cpu.small_l1, long_tiers())):
        return TURNED_L1
    wide = FILLED if halved_bytes() else FILLED_WIDE
    return Turning(TURNED_NEAR, TURNED_FAR, TURNED_WIDE, FILLED, wide, FILLED_PAGE)


def _turnable(problem: Asked) -> bool:
    m, n, k, size = problem.m, problem.n, problem.k, problem.row.itemsize
    if problem.layout != "nt" or problem.batch != 1 or not problem.row.turns:
        return False
    if m < TURNED_FROM or n < TURNED_RATIO * m or k < TURNED_K:
        return False
    rule = turning()
    if size != 4:
        return m <= rule.wide
    return m <= (rule.near if n * k * size <= near_bytes() else rule.far)


def by_dots(problem: Asked) -> bool:
    """Say whether rows that the transposed output might be computed of are dot products all the same (`FILLED`).

    Examples
    --------
    >>> from fastgemm.problem import Problem
    >>> by_dots(Problem("f32", 11, 512, 512, layout="nt")), by_dots(Problem("f32", 4, 512, 512, layout="nt"))
    (True, False)
    """
    m, n, k, size = problem.m, problem.n, problem.k, problem.row.itemsize
    if not _turnable(problem):
        return False
    lanes = filled_bytes() // size
    if not lanes:
        return size == 4 and m in UNTURNED_ROWS and n * k * size <= near_bytes()
    rule = turning()
    if size == 4 and m <= lanes and k * size % rule.page == 0:
        return True
    share = rule.filled if size == 4 else rule.filled_wide
    return m <= share * lanes * -(-m // lanes) and 2 * m != 3 * lanes


def turns_matrices(row: registry.DType) -> bool:
    """Say whether few rows of a dtype may be columns of the transposed output, for tile registers (`MATRIX_TURNED`).

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import ways
    >>> ways.turns_matrices(registry.dtype("f32"))
    False
    """
    # (Sums that are rounded to bytes are so along rows.)
    families = [family.name for family in registry.FAMILIES if registry.by_matrices(family.name)]
    taken = [name for name in families if registry.computes(name, row) and not registry.by_limbs(name)]
    plain = not (row.group > 1 and row.narrows)
    return plain and any(runs(name, tier) for name in taken for tier in long_tiers())


def _turned_matrices(problem: Asked) -> bool:
    m, n, k, size = problem.m, problem.n, problem.k, problem.row.stored_bytes
    if problem.layout != "nt" or problem.batch != 1 or not turns_matrices(problem.row):
        return False
    if m < MATRIX_ROWS[size] or n < MATRIX_COLUMNS or k * size % MATRIX_CHUNK:
        return False
    return any(m <= most and n >= ratio * m and k * size >= deep for most, ratio, deep in MATRIX_TURNED)


def turns(problem: Asked) -> bool:
    """Say whether the transposed output is computed although C is row-major (see `TURNED_FROM`).

    Examples
    --------
    >>> from fastgemm.problem import Problem
    >>> turns(Problem("f32", 30, 512, 512, layout="nt")), turns(Problem("f32", 30, 512, 512, layout="nn"))
    (True, False)
    """
    m, n, k, size = problem.m, problem.n, problem.k, problem.row.itemsize
    if not problem.row.turns:
        return _turned_matrices(problem)
    if problem.layout in ("tn", "tt") and _thin(m, n * size, k):
        return True
    if problem.layout == "tt":
        long = k >= EXCHANGED_LONG
        few = n <= EXCHANGED_N and (m <= EXCHANGED_M or long)
        if m > 1 and n > 1 and k >= EXCHANGED_K:
            return few or (long and m * n <= EXCHANGED_OUT)
        brief = problem.row.parts == 1 and m > 1 and m * size < brief_bytes() and 1 < n <= BRIEF_N and k > 1
        return brief and (n != 3 or k >= BRIEF_THREE)
    return _turnable(problem) and not by_dots(problem)
