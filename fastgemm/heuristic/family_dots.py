"""The rules of the dots family: which untuned problems it takes, and with which team.

Measured on Zen 5 (AVX-512, one thread, f32 unless said; both operands along k), as the speed of the best plan that
packs B, or computes the transposed output (`ways.turns`), times:

* few rows: 2 x 512 x 512 2.5, 4 x 800 x 800 2.3, 8 x 800 x 800 1.6, 8 x 768 x 3072 1.8, 4 x 4096 x 4096 2.1,
  4 x 128 x 1024 5, 8 x 128 x 64 1.26, 4 x 32 x 64 1.4, but 8 x 32 x 16 0.5 and 4 x 128 x 16 0.76;
  12 x 512 x 512 1.45, 12 x 128 x 1024 1.7, 10 x 3072 x 768 1.4, 16 x 768 x 3072 0.74 (which of 9 to 12 come
  here: `ways.by_dots`);
* one row, times gemv's columns: 1 x 1000 x 30 1.63 (i32 3.1), 1 x 444 x 56 1.07 (2.2), 1001 of 1 x 95 x 95 1.22 (1.4),
  of 1 x 96 x 96 1.09 (1.16), 1 x 1000 x 100 1.01 (1.57), 1 x 64 x 64 1.0 (2.0), 1 x 300 x 300 1.0 (1.1), 1 x 512 x 512
  less (less); f64 1.0 to 1.06, i64 0.7 to 1.0 where k fills vectors;
* one row by columns of few numbers: 1 x 50000 by 3, 4, 8, 12, 16 steps 7, 7, 2.4, 1.3, 1.6, f64 3, 3, 1.4, 1.0, 0.9;
  1000 of 1 x 3 x 3 4.8, 1 x 16 x 16 1.8 (f64 1.2), 1 x 8 x 24 1.36 (1.08), 1 x 64 x 24 1.8 (1.14), 1 x 16 x 32 1.04
  (0.93);
* a few rows by such columns: m x 5000 x 3, m = 2, 4, 8, 16, 32, 64 5.9, 5.0, 3.5, 2.2, 1.6, 1.2 (f64 3.9, 3.4, 2.4,
  1.6, 1.3, 1.1), x 4 6.1, 4.7, 3.2, 2.0, 1.4, 1.1, x 8 3.2, 2.6, 1.6, 0.97, x 6 3.8, 3.2, 2.0, 1.2, 0.86 (1.8, 1.5,
  1.0); by 200 columns half of that, by 20 1.1 to 0.8;
* two to four rows by columns of up to 256 bytes: m x 5000 x 9, m = 2, 3, 4 2.3, 2.1, 1.5, x 14 3.4, 3.1, 2.3, x 16
  1.14, 1.10, 1.01, x 24 2.2, 2.0, 1.9, x 48 1.8, 1.7, 1.6 (f64 x 8 1.3, 1.2, 1.1, x 16 1.7, 1.5, 1.4), by 200 columns
  alike, by 20 0.84 to 1.0 (x 48 1.2); eight rows 0.98, 1.44, 0.74, 1.2, 1.15;
* the same of other types: 2 x 512 x 512 f64 2.4, i32 3.0, i16 6.9, f16 4.1; 8 x 512 x 512 1.0, 1.95, 3.8, 2.0;
* few columns: 512 x 2 x 512 2.2, 512 x 4 x 512 1.5, 512 x 8 x 512 1.0, 2000 x 8 x 64 0.6; columns that fill tiles of
  6 better than vectors of 16 or 8: 512 x 5 x 512 2.0 (f64 1.75), 512 x 6 x 512 2.0 (1.55), 512 x 9 x 512 1.33 (1.07),
  512 x 12 x 512 1.37 (1.0), 300 x 12 x 2048 1.33 (1.0), 512 x 19 x 512 1.2, 2000 x 6 x 128 1.47 (1.17);
* a small output of many steps: 16 x 16 x 256 1.2, 13 x 40 x 512 1.3, 16 x 16 x 100000 1.2, 20 x 20 x 100 1.85,
  30 x 30 x 128 1.49 (f64 1.25), 16 x 40 x 128 1.87, 32 x 32 x 128 0.8, 32 x 32 x 10000 0.85;
* narrower types, whose B would be converted while it is turned over: 16 x 512 x 512 f16 1.9, i16 2.6, i8 3.1, 48 rows
  1.3, 1.4, 1.8, 80 rows 1.17, 1.15, 1.3, 128 x 3072 x 768 0.82, 1.08, 1.18; 512 x 5 x 512 2.2, 4.7, 3.6, 24 columns
  1.2, 1.2, 1.3, 48 columns 0.92, 0.99, 1.14;
* stacks: 96 of 4 x 128 x 64 1.4, 64 of 4 x 512 x 128 1.7, 1000 of 10 x 10 x 32 0.8;
* bytes with 32-bit sums, four a lane (bf16, two a lane): 2 x 512 x 512 3.0 (3.5), 8 x 800 x 800 2.0 (1.9), 8 x 768 x
  3072 2.1 (2.3), 2 x 4096 x 4096 4.2 (3.0), 16 x 512 x 512 1.33 (1.53), 24 x 768 x 3072 1.33 (1.35), 24 x 512 x 256
  0.97 (1.07), 32 x 768 x 3072 1.22 (1.25), 32 x 32 x 10000 0.81 (0.84), 24 x 32 x 512 0.89 (0.89); 2 x 512 x 128 2.0
  (2.7), 8 x 512 x 128 1.14 (1.31), 8 x 512 x 64 0.86 (0.96); 512 x 4 x 512 1.21 (2.8), 2000 x 4 x 256 0.89 (2.0),
  2000 x 4 x 64 0.45 (0.83); 24 x 24 x 512 1.24 (1.41), 16 x 16 x 256 0.94 (1.20);
* bfloat16 whose B is by rows, turned over first: 572 x 8 x 572 1.5, 2000 x 12 x 512 1.6, 512 x 3 x 300 2.1, 10000 x 4 x
  128 1.5, 10000 x 8 x 256 1.3, 10000 x 8 x 128 0.97, 10000 x 16 x 256 1.0, stacks of 784 x 8 x 72 0.58 (bytes 572 x 8 x
  572 0.8);
* bool, times gemm with both packed: 2 x 512 x 512 31, 24 x 512 x 512 5.6, 80 x 512 x 512 2.1, 128 x 512 x 512 1.5, 200
  x 512 x 512 1.07, 512 x 4 x 512 9.0, 512 x 24 x 512 2.8, 512 x 48 x 512 1.5, 512 x 96 x 512 1.0, 64 x 64 x 10000 2.8,
  16 x 512 x 64 2.2, 64 x 512 x 32 0.35, 128 x 512 x 64 0.45;
* such bytes without that instruction (SSE): 2 x 512 x 512 5.1, 8 x 768 x 3072 1.6, 512 x 4 x 512 0.3, 16 x 16 x 1024
  0.8.
"""

from __future__ import annotations

from math import inf

from .. import cpu, registry
from ..allowed import halved_bytes
from ..problem import MAX_PARTIAL, MAX_TURNED, Config, Problem
from . import half_narrow, measured, stacks
from .costs import PORTS, TEAM_BYTES, busy, first_split, whole_items
from .ways import DOT_TURNED, UNTURNED_ROWS, by_dots, exchanges, nearly_far, turns_pieces, written_past

# By bytes of a number, and of one or two bytes in memory.
FEW_ROWS, NARROW_ROWS = {4: UNTURNED_ROWS.stop - 1, 8: 8, 16: 8}, 80
FEW_COLUMNS, NARROW_COLUMNS = 4, 24
# Of bool with long rows, and the least steps of few ones with short vectors.
LOGIC_ROWS, LOGIC_COLUMNS, LOGIC_LONG, LOGIC_FEW, LOGIC_STEPS = 128, 48, 512, 16, 64
# Bytes of a row from which the tiles here take columns that fill them so much better than gemm's vectors.
COLUMN_BYTES, FILLED = 512, 1.3
# Steps of k, in vectors and bytes, up to which one row of floats or 64-bit numbers, or of shorter ones, comes here.
SHORT_VECTORS, SHORT_BYTES = 6, 1200
SHORT_ROW, STACK_ROW = 64, 192  # bytes up to which every one of floats does, and those of a stack
# Of bytes, steps of k, and rows of each matrix of a stack, from which dot products beat gemv, and of bool (times
# gemv's, Zen 4, one thread, AVX-512 and AVX2 alike, matrices of 100 rows, k = 16, 64, 128, 300, 1000: i8 1.2 1.7 1.3
# 1.0 0.7, bool 4.0 4.2 6.5 2.7 1.7; a stack's of 4, 8 and 16 rows, k = 16, 32, 64, i8 0.9 0.8 0.8, 1.1 1.1 1.0, 1.4 1.5
# 1.3, bool 1.6 2.2 1.5, 2.2 2.1 2.1, 3.2 3.1 3.1).
WHOLE_STEPS, WHOLE_ROWS, WHOLE_TURNED = 128, 16, 8
# Columns and steps of such a product of matrices by a B that is turned over, and of halves, whose rows are fewer (times
# gemm's and small's, Zen 4, one thread, AVX-512, stacks, k = 64, 128, 300, 1000: bool 8 x 2 1.1 1.2 1.3 1.4, 64 x 2 1.6
# 2.0 2.4 3.3, 64 x 4 1.3 1.6 1.9 2.4, 16 x 4 0.9 1.0 1.1 1.1, 256 x 8 1.0 1.3 1.7 2.1, 256 x 16 0.6 0.9 1.1 1.5; i8 4 x
# 2 1.4 1.7 1.9 2.1, 8 x 4 1.2 1.5 1.7 1.8, 64 x 4 1.4 2.4 2.6 3.2, 64 x 8 0.9 1.5 1.6 1.7, 64 x 16 0.8 0.9 1.0 1.2; f16
# 8 x 2 1.0 1.5 1.4 1.5, 16 x 4 1.3 1.1 1.3 1.3, 64 x 4 0.8 0.9 1.2 1.3; one product much the same, 2000 x 4 bool 1.7
# 2.6 3.4 5.3, i8 1.2 1.6 1.7 2.1; AVX2 bool 16 x 2 1.9 2.1 2.2 2.4, i8 2.2 2.6 2.9 3.2, f16 1.5 1.1 3.7 2.4).
NARROW_BOOL, NARROW_BYTES, NARROW_STEPS = 16, 8, 64
NARROW_HALVES, NARROW_ROWS, NARROW_DEEP = 4, 64, 128
SHORT_WORK = 3  # of few rows by short columns, m * k ** 2 over the square of the lanes
# The same where small takes them: m * k ** 3 over the lanes, and rows up to which every k comes here (times what copies
# B, TURNED_STEPS, by 1500 columns, f32: k = 2, m = 4, 8, 16, 24 1.75 1.49 1.11 0.96, k = 3, m = 4, 6, 8 1.04
# 0.93 0.79, k = 4, m = 2, 4, 6 1.22 0.88 0.79; m = 2, k = 5, 8, 16 0.95 1.06 1.6, m = 4, k = 5, 8, 12, 16 0.59 0.74
# 0.93 1.1; f64 by 300, k = 2, m = 4, 8, 12 1.2 1.19 1.05, k = 3, m = 2, 4 1.05 0.83, m = 4, k = 5, 8, 12 0.92 0.93
# 1.09).
BRIEF_WORK, BRIEF_ROWS = 24, 2
SHORT_COLUMNS = 64  # and of a tile of rows, more columns than this of any length
LEAST_BYTES = 256  # of a row of either operand
# Shorter rows of numbers narrower than four bytes are what costs less, in ns: dot products, for each output and each
# vector of it, and for each vector of A; and, turned over, for each number of B, vector of C and number of A.  (Zen 4,
# AVX-512 and AVX2, one thread, fitted to 2688 products each of int16, int8, bool and float16, m = 2 to 500, n = 2 to
# 200: they took 1.4 to 1.7 times the better of both in the mean, float16 1.15, while all were turned over, and take
# 1.01 to 1.03, 1.02 to 1.04.  int16 2 x 2 x 100 18, 2 x 100 x 100 6.4, 8 x 100 x 32 1.4, 32 x 16 x 64 0.8, 128 x 2 x 64
# 5, AVX2 11, 6.7, 1.5, 0.9, 3.9; int8 8.8, 4.5, 1.3, 0.8, 2.3; `bench/sweep.py --dtype int16 --layout nt`.)
SHORT_BEFORE, SHORT_SUM, SHORT_FUSED, SHORT_LOADED = 70, 1.44, 0.14, 2.8
TURNED_BEFORE, TURNED_NUMBER, TURNED_WRITTEN, TURNED_READ = 100, 0.44, 2.7, 0.37
# Of so few steps small's kernels are the better ones where they convert (`conversions`; int8 10 x 3 x 5 2.8, 54 x 2 x
# 11 1.9, bool 16 x 2 x 11 1.8, f16 13 x 2 x 5 2.5).
BRIEF_CONVERTED = 12
SMALL_OUTPUT = 640  # elements, where a row has at least as many bytes as
LONG_BYTES = 384
# And more of them, of so few rows or of columns that leave part of gemm's vectors empty.
LARGER_OUTPUT, LOW_ROWS = 1100, 16
# Where dot products are instructions: the least steps of k, and what counts as many; bytes of a row of few columns; few
# rows, and those of many steps with so many columns to a row.
OWN_STEPS, OWN_LONG, OWN_COLUMN_BYTES = 128, 512, 512
OWN_FEW_ROWS, OWN_ROWS, OWN_RATIO = 8, 24, 2
# Halves by few columns, and those that are turned over first: at least so many rows and steps, at most so many columns,
# and those of one tile, for which fewer steps are enough.
TURNED_ROWS, TURNED_STEPS, TURNED_COLUMNS, WHOLE_DOTS = 64, 256, 12, 6
# Steps of halves by so few columns along k, and of two to four rows by any (Zen 4, one thread, bf16, 2 rows by 3, 16,
# 64, 200 columns of 32 steps 1.4 1.15 0.97 1.15, of 48 1.7 1.3 1.2 1.6, of 127 2.75 2.2 1.9 2.1; 4 rows of 64 1.7 1.2
# 0.9 1.3, of 96 1.9 1.3 1.03 1.5; 16 and 32 rows by 6 columns of 64 steps 1.07 0.86, of 96 1.37 1.12).
HALVES_STEPS, HALVES_FEW = 96, {2: 48, 3: 96, 4: 96}
# Few columns, adjacent ones, by rows along k, with short vectors: rows a column, and steps by bytes of a number (AVX2
# on Zen 4, one thread, times gemm's and small's kernels, k = 32, 64, 256: f32 1000 x 2 1.20 1.45 1.66, 30 x 2 0.61
# 0.90 1.42, 1000 x 4 0.88 1.28 1.39, 100 x 4 0.68 0.97 1.26, f64 1000 x 2 1.13 1.08 1.20, 100 x 4 0.74 1.01 1.03,
# i32 1000 x 4 0.84 1.02 1.20, 100 x 4 0.65 0.80 1.02, i16 1000 x 4 1.5, 100 x 3 1.4 2.6 3.9, but i64 x 4 0.7 to
# 0.8; A from memory, f32 100000 x 2 1.36 2.07 3.5, x 4 0.92 1.44 3.3, f64 x 4 1.36 3.4 2.8).  Long vectors want rows of
# as many bytes for so many columns, and from memory more steps for more than two (Zen 5, k = 64, 128, 256: f32 1000 x 2
# 1.23 - 2.4, 1000 x 4 0.84 1.15 1.3, 20000 x 3 - 1.4, f64 1000 x 4 1.4 - 1.5, i32 1000 x 4 1.0 - 1.4, i16 - - 4.6; from
# memory f32 100000 x 2 1.05 1.65 1.9, x 3 1.0 - 1.3, x 4 1.0 0.79 1.5, by 192 steps 1.19, i32 alike, f64 x 2 1.1 1.2
# 1.4, x 3 0.6 - 1.0, x 4 0.55 - 1.1).
ROWS_A_COLUMN, COLUMN_STEPS = {16: 48, 32: 16}, {2: 32, 4: 64, 8: 64}
COLUMN_LONG, FAR_COLUMN_STEPS = {2: 256, 3: 512, 4: 512}, 256
# Beside an L1 of 32 KiB fewer rows are enough for float32, of so many columns at most: rows, and steps.  (Cascade
# Lake, one thread, times gemm's and small's kernels, k = 400, 512, 1024, 2048: 4 x 2 - 1.9 2.2 2.4, 8 x 2 1.2 1.4 1.7
# 1.7, 32 x 2 1.2 1.5 2.5 2.7, stacks of 40 4 x 2 - 1.9 2.6, 8 x 2 - 1.2 0.83, 32 x 2 - 1.3 2.3, k = 320 0.8 to 1.3;
# 16 x 3 - 0.96 1.02 1.07, 24 x 3 - - 1.12, 32 x 3 - 0.9 1.8 2.3, 32 x 4 - 1.1 1.9 2.0, k = 700 0.96 to 1.28; 8 x 4
# 0.6 to 0.8; f64 32 x 2 - 1.4 1.0 2.0, x 4 1.0; i32 32 x 2 - 0.84 1.3 1.5.)
COLUMN_L1 = {2: (2, 400), 3: (20, 700), 4: (20, 700)}
# Of long vectors so many rows are dot products too, by bytes of a row, of more columns than this, if B would have been
# packed (Zen 5, AVX-512, one thread, times packing B: f32 64 x 256 by 20, 24, 32 rows 1.12 1.07 1.0, 100 x 1000 by 20,
# 32, 40, 64 1.0 1.28 1.22 1.14, 48 x 1000 1.13 1.0 1.0 0.93, 4096 x 4096 by 40, 49, 64 1.15 1.06 1.03, two threads 1.0
# to 1.67; i32 alike, f64 0.88 to 1.16, c128 256 x 256 by 9, 13, 20, 32 1.61 1.50 1.24 1.13, 768 x 3072 1.99 1.76 1.48
# 1.27, 3072 x 768 2.52 2.06 1.73 1.41; Zen 4, AVX-512, one thread, times packing B: f32 64 x 256 by 13, 16, 20, 24, 32
# rows 1.25 1.2 1.09 1.05 1.0, 100 x 1000 by 13, 24, 40, 64 1.66 1.35 1.2 1.1, 48 x 1000 1.26 1.12 1.03 0.98, 32 x 256
# 1.08 0.93 0.84 -, 64 x 64 1.0 0.9 - -; 4096 x 4096 by 40, 49, 64 1.25 1.2 1.13; i32 alike, f64 100 x 1000 1.35 1.24
# 1.09 1.04, c128 64 x 256 1.37 1.16 1.05 0.99).
LONG_COLUMNS, LONG_ROWS = 40, ((3072, 64), (1024, 24), (512, 16))
# Beside an L1 of 32 KiB fewer.  (Skylake-SP, one thread, f32, packing B times dot products: 512 x 512 by 16, 20, 24,
# 32, 48 rows 0.88 0.95 0.97 1.01 1.10, 768 x 3072 0.93 0.95 1.05 1.10 1.25, 4096 x 4096 0.83 0.91 0.96 1.04 1.14, 64
# rows 1.22, 1000 x 1000 by 44 rows 1.30.)
LONG_ROWS_L1 = ((2048, 20), (512, 16))
# And where they are instructions (Zen 5, one thread, bf16 512 x 512, 3072 x 768, 768 x 3072, 4096 x 4096 by 25 rows
# 1.22 1.20 1.34 1.19, by 32 1.09 1.14 1.24 1.13, by 40 1.03 1.12 1.19 1.10, by 64 1.0 1.0 1.08 1.04, two threads alike,
# but by 512 x 512 0.93; bytes by the last two 25 rows 1.32 1.47, 40 1.23 1.15, 64 1.06 1.03; Zen 4, bf16 by 64 x 256,
# 256 x 256, 512 x 512, 768 x 3072, 4096 x 4096: 9 rows 1.46 1.52 1.74 2.0 2.2, 16 1.18 1.18 1.32 1.56 1.58, 24 1.03
# 1.05 1.18 1.35 1.43, 40 0.93 0.94 1.04 1.16 1.26, 64 0.83 0.87 0.98 1.1 1.16; bytes 1.06 1.08 1.45 1.7 1.66, 1.0 1.0
# 1.16 1.43 1.5, 0.8 0.9 1.03 1.27 1.3, 0.75 0.8 0.96 1.12 1.14, 0.7 0.8 0.94 1.0 1.06).
LONG_OWN_ROWS = ((3072, 64), (1000, 40), (512, 16))
DEEP_K = 4096  # steps that a thread must have where threads share k
# Beside an L1 of 32 KiB so few rows by columns that lie along k, of so many bytes at most, are what costs less: cycles
# of two multiply-adds, of a tile of dot products and of each of its rows, whose sums are joined, and of a row that
# fills part of a tile, of four bytes; and, packed, of a row of a vector of C in a step, of every four bytes of B, and
# of what is before them.  (Cascade Lake, one thread, fitted to 2268 products of f32 and f64, m = 2 to 50, n = 2 to
# 400, k = 10 to 200: the rules below take 1.07 and 1.055 of the time of the better of both, and for a fifth of them
# 1.1 and more, this 1.006 and 1.01, and for a thirtieth.  f32 by 2, 4, 9, 16, 30 rows, dot products of 64 steps times
# packed ones, n = 4 0.55 0.71 0.83 1.31 1.47, n = 6 0.50 0.61 0.54 0.77 0.80, n = 16 0.60 0.76 1.24 1.56 1.93, n = 200
# 0.58 0.74 - - -; of 20 steps by 2, 3, 4, 6 rows, n = 200 1.1 1.4 1.6 2.1.)
COST_ROWS, COST_BYTES = 64, 1600
COST_FUSED, COST_TILE, COST_JOINED, COST_PART, COST_PACKED, COST_TURNED, COST_BEFORE = 1.6, 30, 22, 12, 0.7, 0.5, 200
# An A by columns of so few rows, or, of more bytes of k, fewer, is turned over first, and takes that much longer
# beside a B that is packed.  (The same, times packed, k = 55, 100, 158, 303, 1000, f32 by 400 columns 3 rows 1.7 2.0
# 2.1 2.2 1.8, 5 rows 1.1 1.25 1.4 1.5 1.3, 8 rows 0.95 1.1 1.25 1.3 1.2, 12 rows 0.73 0.87 1.04 1.07 1.03, 21 rows 0.6
# 0.7 0.9 1.0 1.0, by 10 columns 5 rows 0.8 1.06 1.24 1.5 1.5, 12 rows 0.64 0.8 0.93 1.13 1.14; f64 by 1274 columns 3
# rows 1.9 1.9 1.7 1.9 1.75, 5 rows 1.4 1.4 1.4 1.3 1.2, 12 rows 1.0 1.7 1.8 1.9 1.8, by 142 5 rows 1.3 1.5 1.6 1.5
# 1.5, 12 rows 1.0 1.2 1.26 1.3 1.26.)
ACROSS_ROWS, ACROSS_FEW, ACROSS_PACKED = 16, 8, 1.2
# Beside any L1 of 32 KiB.  (Zen 4, one thread, 143 drawn products of f32 and 129 of f64, 2 to 16 rows, stacks too: the
# rules took 1.085 and 1.098 times the better of both with AVX-512, 1.091 1.095 with AVX2, and take 1.013 1.019, 1.025
# 1.027; f32 2 x 33 x 128 2.7, f64 2 x 548 x 62 2.4, 3 x 512 x 128 2.1.)
ACROSS_L1 = 32 << 10
# And of few numbers a column, m * k ** 3 over the lanes, and outputs of any.  (The same, m = 2, 4, 8, f32 by 200
# columns, k = 3 0.38 0.44 0.66, k = 5 0.59 0.70 1.03, k = 6 0.71 0.86 1.28, k = 8 0.81 1.13 1.73; f64 k = 3 0.51 0.52
# 1.05, k = 5 0.71 0.85 1.15, k = 6 0.99 1.32 1.66; 19 x 184 x 3 0.89, 2 x 484 x 6 0.87, 7 x 87 x 5 0.94; f32 4 x 71 x
# 6 0.79, 3 x 8 x 7 0.36.)
BRIEF_L1, BRIEF_OUTPUT = 70, 100
# A block of k, in bytes of a row: so that a few columns, and the rows that pass over them, stay in L1.  Of few rows
# nothing must stay, and long pieces suit the CPU's prefetch (4 x 4096 x 4096 2.35 ms with 4 KiB, 2.16 with 8).
BLOCK_BYTES, LONG_BLOCK_BYTES = 4096, 8192
# Where long vectors are computed in two halves L2 keeps up, and long pieces suit what comes from further away: of so
# many rows at most, and of more (Zen 4, AVX-512, one thread, times 4 KiB, 16, 32, 64 KiB: f32 4096 x 4096 by 2, 4, 5,
# 8, 12 rows 1.37 1.36 1.26 1.32 1.3, 1024 x 16384 by 2 1.35 1.4 1.26, by 8 1.25 1.28 1.2, by 20 1.2 1.24 1.18, by 64
# 1.12 1.1 1.09, 1536 x 4096 by 8 1.17, 512 x 2048 by 8 1.1; in L2 48 x 4096 by 8 1.05 1.05 1.06, 16 x 100000 by 16 1.09
# 1.09 1.09; f64 alike).  With AVX2 alone only 6 and more rows from memory (16 KiB, f32 by 5, 8, 12 rows, 4096 x 4096
# 1.0 1.34 1.02, 2560 x 7680 0.96 1.13 1.03, f64 0.98 1.26 0.99, 1.01 1.26 1.0; of 24 MiB 0.67 0.77 0.97).
HALVED_BLOCK, HALVED_BLOCK_ROWS, HALVED_MANY = 32 << 10, 32, 16 << 10
FAR_BLOCK, FAR_BLOCK_ROWS = 16 << 10, 6
# But these rows, beside what passes over them, are so much of L1 at most (32 KiB, AVX2 on Zen 4, one thread, 5 KiB
# times 8: f32 4 x 1000 x 2000 1.28, 4 x 5000 x 2000 1.38, 4 x 4096 x 4096 1.07, 4 x 2560 x 7680 1.21, 3 x 1000 x 2000
# 1.12, f64 4 x 2560 x 2560 1.2, 4 x 300 x 4000 1.25; exchanged 1000 x 4 x 2000 1.26, 10000 x 4 x 2000 1.24, f64 1000 x
# 4 x 1000 1.25; 4 KiB of f64 3000 x 4 x 600 0.88, 4 x 4096 x 4096 0.87 of 5; 2 x 4096 x 4096 0.85).
ROWS_L1 = 2 / 3
ONE_TILE = registry.DOT_ROWS
MC, NC = 96, 1024


def config(problem: Problem, tier: registry.Isa, own: bool = False) -> Config | None:
    """Return the configuration for a problem of this family, None for one of another.

    `own` says that the CPU has dot products for the type, in a family of their own.  Threads have no say in which
    family it is: `fastgemm.deterministic` relies on it.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import family_dots
    >>> from fastgemm.problem import Problem
    >>> family_dots.config(Problem("f32", 4, 800, 800, layout="nt"), registry.isa("v4")).family
    'dots'
    >>> family_dots.config(Problem("f32", 4, 800, 800, layout="nn"), registry.isa("v4")) is None
    True
    """
    if not _takes(problem, tier, own):
        return None
    split, threads = _team(problem, tier)
    mc, kc, nc = blocks(problem, tier, own)
    return Config("dots", tier.name, mc=mc, kc=kc, nc=nc, split=split, threads=threads)


def blocks(problem: Problem, tier: registry.Isa, own: bool = False) -> tuple[int, int, int]:
    """Return the blocks of a problem of this family, whether the rules choose it or not: MC, KC, NC.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import family_dots
    >>> from fastgemm.problem import Problem
    >>> family_dots.blocks(Problem("f32", 4000, 2, 800), registry.isa("v3"))[::2]
    (1024, 96)
    """
    size = problem.row.stored_bytes if own else problem.row.itemsize
    exchanged = exchanges(problem, tier)
    kc = _block(problem.n if exchanged else problem.m, problem, tier) // size
    mc, nc = (NC, MC) if exchanged else (MC, NC)
    return mc, kc, nc


def _block(rows: int, problem: Problem, tier: registry.Isa) -> int:
    if tier.vector_bytes == halved_bytes():
        return HALVED_BLOCK if rows <= HALVED_BLOCK_ROWS else HALVED_MANY
    far = max(problem.m, problem.n) * problem.k * problem.row.itemsize >= 2 * cpu.caches().l3
    if tier.registers == 16 and rows >= FAR_BLOCK_ROWS and far:
        return FAR_BLOCK
    if rows > ONE_TILE:
        return BLOCK_BYTES
    return min(LONG_BLOCK_BYTES, int(ROWS_L1 * cpu.caches().l1d) // rows)


def _takes(problem: Problem, tier: registry.Isa, own: bool) -> bool:
    m, n, k, row = problem.m, problem.n, problem.k, problem.row
    way = stacks.way(problem, tier) or half_narrow.way(problem)
    if way:
        return way in measured.OF_DOTS
    if problem.layout == "nn" and own and row.group == 1:
        # Narrow rows of C leave most of a vector empty in the blocked loops, if B is turned over once.
        few = (k >= OWN_STEPS and n <= FEW_COLUMNS) or (k >= TURNED_STEPS and n <= TURNED_COLUMNS)
        return m >= TURNED_ROWS and n > 1 and few and n * k * row.stored_bytes <= MAX_TURNED
    if problem.layout == "nn" and row.converts and not own and row.group == 1:
        return _narrow(problem) and n * k * row.stored_bytes <= DOT_TURNED
    if problem.layout == "nn":
        least = COLUMN_STEPS.get(row.real_bytes, inf)
        if tier.registers > 16:
            far = n > min(COLUMN_LONG) and problem.streamed > cpu.caches().l3
            least = max(least, COLUMN_LONG.get(n, 0) // row.real_bytes, FAR_COLUMN_STEPS if far else 0)
        many = m >= ROWS_A_COLUMN[tier.registers] * n and k >= least
        many = many and registry.computes("dots", row) and exchanges(problem, tier)
        return (many or _few_rows(problem, tier)) and n * k * row.stored_bytes <= DOT_TURNED
    if problem.layout == "tt":
        return m > 1 and _is_counted(problem, tier) and _costs_less(problem, tier)
    if problem.layout != "nt" or not registry.computes("dots", row):
        return False
    if m == 1:
        return not own and row.group == 1 and _beats_gemv(problem, tier)
    lanes = registry.lanes(row, tier)
    brief = tier.registers == 16 and (turns_pieces(problem, tier) or written_past(problem, tier))
    if k in registry.short_steps(row, tier) and n >= 2 * m:
        if cpu.small_l1(tier):
            return m * k**3 <= BRIEF_L1 * lanes or m * n <= BRIEF_OUTPUT
        return m * k**3 <= BRIEF_WORK * lanes if brief else m * k * k <= SHORT_WORK * lanes**2
    if _is_counted(problem, tier):
        return _costs_less(problem, tier)
    if m <= ONE_TILE and n > SHORT_COLUMNS and k > 1 and registry.is_special(row) and row.parts == 1:
        return not brief or m <= BRIEF_ROWS or 2 * k > 3 * lanes
    if own and _many_rows(problem, tier, k * row.stored_bytes, LONG_OWN_ROWS):
        return True
    if own and row.group == 1:
        least = HALVES_STEPS if n <= WHOLE_DOTS else TURNED_STEPS if n <= TURNED_COLUMNS else inf
        if k >= min(least, HALVES_FEW.get(m, inf)):
            return True
    if own and k >= OWN_LONG:
        few = m <= OWN_FEW_ROWS or (m <= OWN_ROWS and n >= OWN_RATIO * m)
        return few or n <= FEW_COLUMNS or m * n <= SMALL_OUTPUT
    if own:
        return (k >= OWN_STEPS and m <= OWN_FEW_ROWS) or (
            k * row.stored_bytes >= OWN_COLUMN_BYTES and n <= FEW_COLUMNS
        )
    row_bytes = k * row.itemsize
    if row.lane == "b8" and k >= LOGIC_LONG:
        return m <= LOGIC_ROWS or n <= LOGIC_COLUMNS
    if row_bytes < LEAST_BYTES:
        return _beats_turning(problem, tier)
    if row.group > 1:
        return m <= OWN_FEW_ROWS
    if by_dots(problem) or exchanges(problem, tier):
        return True
    narrow = row.stored_bytes < 4
    rows, columns = (NARROW_ROWS, NARROW_COLUMNS) if narrow else (FEW_ROWS[row.itemsize], FEW_COLUMNS)
    ragged = m <= LOW_ROWS or n % registry.lanes(row, tier)
    small = m * n <= (LARGER_OUTPUT if ragged and not narrow else SMALL_OUTPUT)
    if m <= rows or n <= columns or (small and row_bytes >= LONG_BYTES):
        return True
    if _many_rows(problem, tier, row_bytes, LONG_ROWS_L1 if cpu.small_l1(tier) else LONG_ROWS):
        return True
    # (Short vectors, A from memory, which gemm's loops fetch ahead, times these, f32: 4096 x 9 x 4096 1.31, 4096 x 12 x
    # 4096 1.45, 3000 x 12 x 5000 1.39, 20000 x 10 x 1000 1.54, 4000 x 12 x 1000, of 16 MB, 1.1 to 1.2; 2000 x 12 x 500
    # 0.94.)
    far = nearly_far(m * row_bytes, tier)
    return not narrow and row_bytes >= COLUMN_BYTES and not far and _fills_better(problem, tier)


def _narrow(problem: Problem) -> bool:
    # Few columns of what is converted, beside which gemm's vectors are empty for the most part: `NARROW_STEPS`.
    m, n, k = problem.m, problem.n, problem.k
    if not problem.row.exact:
        return 1 < n <= NARROW_HALVES and n * n <= m < NARROW_ROWS and k >= NARROW_DEEP
    if problem.row.lane == "b8":
        return 1 < n <= NARROW_BOOL and m >= max(8, n * n) and k >= max(NARROW_STEPS, 16 * n)
    return 1 < n <= NARROW_BYTES and m >= max(2 * n, n * n // 2) and k >= max(NARROW_STEPS, 16 * n)


def _beats_turning(problem: Problem, tier: registry.Isa) -> bool:
    # Short rows of what is narrower than four bytes, times turning B over: `TURNED_BEFORE`.
    m, n, k, row = problem.m, problem.n, problem.k, problem.row
    shared = registry.widens(row) and n <= NARROW_HALVES and m >= NARROW_ROWS
    if row.stored_bytes >= 4 or row.group > 1 or shared or (row.converts and k <= BRIEF_CONVERTED):
        return False
    if tier.vector_bytes < 32:
        return row.lane == "b8" and m <= LOGIC_FEW and k >= LOGIC_STEPS
    lanes = registry.lanes(row, tier)
    vectors = -(-k // lanes)
    dots = SHORT_BEFORE + m * n * (SHORT_SUM + SHORT_FUSED * vectors) + SHORT_LOADED * m * vectors
    turned = TURNED_BEFORE + TURNED_NUMBER * n * k + TURNED_WRITTEN * m * -(-n // lanes) + TURNED_READ * m * k
    return dots < turned


def _is_counted(problem: Problem, tier: registry.Isa) -> bool:
    # Whether `_costs_less` decides: `COST_ROWS`, `ACROSS_ROWS`.
    m, n, k, row = problem.m, problem.n, problem.k, problem.row
    if not (registry.is_special(row) and row.parts == 1 and k > 1):
        return False
    short, small = k * row.itemsize <= COST_BYTES, cpu.small_l1(tier)
    if problem.layout[0] == "t":
        near = small or (tier.vector_bytes >= 32 and cpu.caches().l1d <= ACROSS_L1)
        return near and m <= (ACROSS_ROWS if short else ACROSS_FEW) and n > FEW_COLUMNS
    return small and short and m <= COST_ROWS and not (by_dots(problem) or exchanges(problem, tier))


def _costs_less(problem: Problem, tier: registry.Isa) -> bool:
    # Than a B that is packed: `COST_ROWS`.
    m, n, k, row = problem.m, problem.n, problem.k, problem.row
    lanes, columns, panels = registry.lanes(row, tier), registry.dot_step(row, tier), -(-m // ONE_TILE)
    turns = -(-n // columns)
    fused = turns * columns * -(-k // lanes) * m / PORTS
    dots = COST_FUSED * fused + turns * (COST_TILE * panels + COST_JOINED * m)
    dots += COST_PART * m if n % columns and row.itemsize == 4 else 0
    packed = COST_PACKED * m * -(-n // lanes) * k + COST_TURNED * n * k * row.itemsize / 4
    if problem.layout[0] == "t":
        dots += 2 * COST_BEFORE + COST_TURNED * m * k * row.itemsize / 4
        return dots < ACROSS_PACKED * (packed + COST_BEFORE)
    return dots < packed + COST_BEFORE


def _few_rows(problem: Problem, tier: registry.Isa) -> bool:
    # Few columns, adjacent ones, by too few rows for the transposed output: `COLUMN_L1`.
    rows, steps = COLUMN_L1.get(problem.n, (inf, inf))
    return cpu.small_l1(tier) and problem.row.name == "f32" and problem.m >= rows and problem.k >= steps


def _many_rows(problem: Problem, tier: registry.Isa, row_bytes: int, rows: tuple[tuple[int, int], ...]) -> bool:
    # Rows, few for so long ones, beside which a B that is packed costs more than dot products, where vectors are long.
    most = next((most for least, most in rows if row_bytes >= least), 0)
    return tier.vector_bytes in (64, halved_bytes()) and problem.n > LONG_COLUMNS and problem.m <= most


def _beats_gemv(problem: Problem, tier: registry.Isa) -> bool:
    # The sums of a column share their additions here; gemv streams long ones better.
    k, row, lanes = problem.k, problem.row, registry.lanes(problem.row, tier)
    if problem.n == 1 or (row.converts and not row.exact):
        return False
    if row.converts:
        # Of few steps a stack's matrices are turned over (family_small).
        single = problem.batch == 1
        few = row.lane != "b8" and (k > WHOLE_STEPS or (problem.n < WHOLE_ROWS and not single))
        return k > (1 if single else WHOLE_TURNED) and not few
    if row.lane[0] == "f" and row.parts == 1 and k * row.itemsize <= (SHORT_ROW if problem.batch == 1 else STACK_ROW):
        return k > 1
    if row.lane[0] == "f" or row.real_bytes == 8:
        return k % lanes > 0 and lanes < k <= SHORT_VECTORS * lanes
    return k * row.itemsize <= SHORT_BYTES


def _fills_better(problem: Problem, tier: registry.Isa) -> bool:
    # Columns of the tiles here, of which the last may be half empty, and lanes of C's vectors.
    n, row = problem.n, problem.row
    step, lanes = registry.dot_step(row, tier), registry.lanes(row, tier)
    narrow = (width // row.parts for width in registry.narrow_widths(row, tier) if width >= n * row.parts)
    width = min(narrow, default=-(-n // lanes) * lanes)
    return n <= NARROW_COLUMNS and width >= FILLED * -(-n // step) * step


def _team(problem: Problem, tier: registry.Isa) -> tuple[str, int]:
    threads = problem.threads
    bytes_b = problem.batch * problem.n * problem.k * problem.row.itemsize
    if threads == 1 or not (busy(problem) or (problem.m == 1 and bytes_b >= TEAM_BYTES)):
        return "n", 1
    partial = problem.m * problem.n * problem.row.itemsize <= MAX_PARTIAL
    step = registry.dot_step(problem.row, tier)
    if whole_items(problem):
        return "batch", threads
    if problem.batch == 1 and partial and problem.m * problem.n <= LARGER_OUTPUT and problem.k >= DEEP_K * threads:
        return "k", threads
    # (Each thread copies the rows it has, all of them where columns are shared: Zen 4, AVX-512, f32 16 and 24 x 256 x
    # 256 1.08 and 1.11 of columns shared, 32 x 256 x 64 1.07, 24 x 512 x 256 1.03, 32 x 512 x 512 0.98.)
    near = problem.batch == 1 and 2 * bytes_b <= cpu.caches().l2 and tier.vector_bytes == halved_bytes()
    if near and problem.m >= 2 * registry.DOT_ROWS * threads:
        return "m", threads
    # Of a stack one product in two threads is cut, whose B both of them read: by few rows, columns (Zen 4, 2 x 512
    # x 256 nt, 5 to 13 of them, over rows 1.14 to 1.05; turned over 0.84 to 0.94).
    by_rows = problem.batch > 1 and (problem.m > registry.DOT_ROWS or problem.layout[1] == "n")
    rows = problem.batch * problem.m // registry.DOT_ROWS if problem.m > 1 else 0
    columns = problem.batch * problem.n // (2 * step)
    ways = [("m", rows), ("n", columns)] if by_rows else [("n", columns), ("m", rows)]
    return first_split(problem, ways)
