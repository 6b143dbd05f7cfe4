"""The rules of the small family: which untuned problems it takes, with which tile and team.

Measured on Zen 5 (AVX-512, one thread, f32 unless said), as the speed of gemm's kernels in place times:

* narrow rows of C (half a vector at most): 3136 x 8 x 72 1.7, 3136 x 4 x 512 2.0, 1000000 x 4 x 4 3.3, 262144 x 2 x 2
  with A transposed 6.8, 10000 x 2 x 1000 1.2, f64 10000 x 4 x 500 1.2, c64 100000 x 4 x 4 2.8;
* stacks: 8^3 3.9, 12^3 1.2, 16^3 1.15, 32^3 1.1, 64^3 1.0; f64 8^3 1.4, 16^3 1.2; c64 8^3 1.3;
* stacks of a vector and a matrix, times gemv's: 1 x 3 x 3 1.65, 1 x 8 x 8 1.85, 1 x 32 x 32 1.4, 1 x 64 x 64 1.6,
  1 x 64 x 3 2.3, 1 x 3 x 64 0.96;
* one vector and a matrix of two to four vectors of columns, times gemv's: 1 x 24 x 256 1.2, f64 1.7, 1 x 48 x 512 1.4,
  1 x 64 x 64 1.55, 1 x 64 x 1216 1.45, f64 1 x 32 x 1024 1.65, but 1 x 32 x 1024 1.0, 1 x 128 x 128 below;
* stacks of transposed B, copied item by item, times gemm's: 8^3 3.4, 16^3 1.35, from 32^3 on 1.0; f64 8^3 2.0;
* the same of one product: 10 x 10 x 32 2.6 (i32 2.4), 25 x 25 x 64 1.5 (f64 1.08), 64 x 64 x 64 1.0 to 1.04 less;
* B transposed and small: 100000 x 3 x 3 2.2, 23040 x 16 x 9 1.3, 512 x 4 x 512 1.85;
* one panel of rows, B read once: 6 x 800 x 800 1.24, 4 x 512 x 512 1.25, 2 x 512 x 512 1.2, 6 x 3072 x 1024 1.13,
  2 x 1024 x 256 0.99;
* up to 32 rows, all of k at a time, B in L2 or L3 (`bench/sweep.py` with these shapes): 10 x 300 x 300 1.07, f64
  1.13, int32 1.13; 12 x 800 x 800 1.15, f64 1.1; 14 x 700 x 700 1.15, f64 1.14, int32 1.17; 13 x 512 x 512 f64 1.25;
  14 x 1024 x 512 f64 1.15; but 12 x 4096 x 1000 0.85, f64 0.64, and of more panels than one int32 9 x 2048 x 512 0.51;
* int32 and int64 follow the rules of floats: stacks of 8^3 2.9 and 1.5, 16^3 1.2 and 1.14, 262144 x 2 x 2 with A
  transposed 6.7, 100000 x 4 x 4 4.4 and 2.5, 6 x 800 x 800 1.1, 100000 x 16 x 16 1.35 and 1.15; int16 8^3 1.55,
  100000 x 4 x 4 1.85, 100000 x 16 x 16 1.2;
* halves and bytes whose rows of C share vectors once they are converted: f16 262144 x 2 x 4 8.8, 100000 x 3 x 3 B
  transposed 6.7, 10000 x 2 x 500 1.8, 3136 x 8 x 72 1.4, A transposed 262144 x 2 x 2 17, 10000 x 2 x 500 2.3; beside
  dot products bytes (bf16) 262144 x 2 x 4 3.7 (1.8), 100000 x 3 x 3 B transposed 2.8 (1.75), 10000 x 4 x 16 1.4 (1.4),
  3136 x 4 x 36 0.8 (1.0), 10000 x 8 x 8 1.6 (0.94), 10000 x 8 x 16 0.8 (0.8), and A transposed bf16 262144 x 2 x 2 8.7,
  5000 x 4 x 36 1.9, 5000 x 8 x 100 1.0, 10000 x 2 x 500 0.75;
* few steps of k: 100000 x 16 x 16 1.1, 4 x 1000000 x 4 1.15, 100000 x 64 x 64 0.94, 16 x 100000 x 16 0.94.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from .. import cpu, registry
from ..problem import MAX_SMALL_K, MAX_TURNED, Config, Problem
from . import brief, conversions, half_narrow, l1, l1_written, measured, stacks, strides
from .costs import (
    LATENCY,
    LOADS,
    PORTS,
    STREAM_B,
    STREAM_ROW,
    STREAMS,
    TEAM_BYTES,
    balanced,
    busy,
    first_split,
    whole_items,
)
from .ways import far_bytes, nearly_far, shares_vectors, turns_pieces, written_past

SMALL = 64  # rows, columns and steps
TALL_STEPS = 48  # of k from which a tile of one vector and more than eight rows pays
SHORT = 32  # steps of k up to which the panels of one product are worth a loop inside the kernel
FLAT = 8  # rows of one panel beside a wide C, which is written in as many streams
FEW_ROWS = 32  # and of one or some beside a B that L2, or part of L3, holds
L3_SHARE, L2_TIMES = 3 / 8, 4
FEW_COLUMNS = 4  # of bytes, A by columns: up to which any k is worth it
# Vectors of the only row of C, by a matrix that a second thread would not help to stream, by registers (AVX2 on Zen 4,
# times gemv's: 1 x 32 x 32 0.75, 1 x 32 x 256 0.7, 1 x 24 x 1024 1.07, 1 x 16 x 128 0.92; stacks of 0.1 to 4 MB, n x
# k: f32 32 x 32 0.77 to 0.92, 64 x 64 0.75 to 0.8, 24 x 24 1.5, 16 x 16 1.4, f64 16 x 16 0.7 to 0.83, 64 x 64 0.7 to
# 0.78).
ROW_VECTORS = {32: 4, 16: 3}
FAR_ROW, FAR_LONG, FAR_STEPS = 64, 512, 16  # bytes of a row of B, and steps of k, of a stack that gemv streams better
SHARED_STEPS = 16  # of as few columns, A by rows, beside dot products
MAX_WIDENED = 4 << 10  # bytes of B, as in the driver
# Rows from which on any number of steps is worth it where rows of C share vectors; A by columns for so few columns
# from memory (times gemm's, Zen 5, one thread, f32, 2 to 4 columns, 8 rows 1.4, 16 2.5, 63 1.7, 130 2.2, 8 columns
# 1.3 1.6 1.1 1.4; f64 1.2 to 2.4; A by columns, 2 to 4, 16 rows 2.8, 63 2.5, 500 3.5, of 100 MB 1.3 to 3, 8 columns
# 2.2 to 0.6, f64 1.1 to 2.6; AVX2 1.0 to 2.4, A by columns 1.1 to 2.9, from memory 0.7 to 0.8).
LONG_ROWS, LONG_COLUMNS = 8, {32: 4, 16: 0}
# Steps of a row by few columns, in a stack, from which gemv puts rows of B side by side (ns of a product, small / gemv:
# f32 n = 2 k = 16 17 / 12, 64 50 / 14, 1000 981 / 108; n = 3 16 17 / 15, 64 49 / 24; n = 5 32 27 / 23; n = 8 64 43 /
# 25).
LONG_ROW = 24
PANEL_CYCLES = 12
# Cycles a number of A and a vector of B that are converted where they are used (f16 24 x 512 x 512, 6x64 times 14x32
# 1.19, 11 x 256 x 1024 1.19).
CONVERT_A, CONVERT_B = 0.5, 0.3
CALL_CYCLES = 20
LATENCY_LEAST = 0.5


# Beside dot products: vectors of multiply-adds of a product up to which packing takes longer.  (Zen 4, AVX-512, times
# gemm's, whole calls, bytes and bf16: 10 x 10 x 10 tn 1.87 1.69, 30 x 16 x 3 1.41 1.27, 3 x 5 x 30 1.25 1.31, 2 x 8 x
# 50 1.14 1.33, 2 x 800 x 1 3.7 3.3, 50 x 8 x 2 1.39 1.16, 100 x 8 x 1 0.98 1.0, 4 x 16 x 10 (1000) tn 5.0 5.0; more, a
# script, stacks of 4000: 9 x 16 x 12 0.98 1.2, 20 x 30 x 5 1.2 0.9, 12 x 12 x 12, of bytes, 0.8.)
DOTS_WORK = 100


class Limits(NamedTuple):
    """Up to where the family takes a type that is converted as it is loaded, where gemm's kernels pack it.

    `cube` bounds all of m, n and k, of stacks and single products, and `dots` does so on a CPU that has dot products
    for the type; `short` is the most steps of k of a single product, `flat` its most rows by the tier's registers;
    `brief` the most steps of k of a narrow one beside dot products, `shared` of rows that share vectors there; `turned`
    those of single rows by matrices of a stack that are turned over; `low` rows for which it takes any k without dot
    products.
    """

    cube: int = 0
    dots: int = 0
    short: int = 0
    flat: Mapping[int, int] = {}
    brief: int = 0
    shared: int = 0
    turned: int = 0
    low: int = 0


# Steps of k up to which an output in a cache is a row of tiles: gemm's loop around them costs more than it saves.
# That is scalar work, of which a virtual core does half as much while the other thread of its core computes; times
# gemm's kernels then, and otherwise: 494 x 64 x 8 1.47 and 1.15, 494 x 100 x 32 1.15 and 1.02, 494 x 300 x 64 1.13 and
# 1.02, 100 x 1000 x 128 1.07 and 1.03, 2000 x 1000 x 64 1.09 and 1.07; two threads 1.03 to 1.18; AVX2 1.07 to 1.25;
# f64 0.99 to 1.05, int32 1.03 to 1.06, complex64 1.01 to 1.03; but 2000 x 16 x 128, one vector of columns, 0.94, and
# where gemm's copy B or C is in memory 10000 x 128 x 96 0.95, 10000 x 600 x 32 0.89, f64 1000 x 512 x 64, rows whole
# pages apart, 0.94.
STEPS = 128
# With 16 registers so many, for so many rows by a B in half of L2, or in a quarter of it (AVX2 on Zen 4, times gemm's
# in place: f32 64 x 300 x 300 1.05, 100 x 200 x 600 1.03, 150 x 600 x 300 1.03, 49 x 32 x 288, 32 of them, 1.03, 64 x
# 64 x 500 1.03, 400 x 400 x 150 1.04; f64 1.02 to 1.05, int32 1.02 to 1.06, c64 1.02; but where gemm's are better off
# with a copy of B 300 x 300 x 300 0.98, 400 x 300 x 300 0.95, 3136 x 128 x 256 0.92).
MORE_STEPS, MORE_ROWS = 512, (256, 1000)
# But not so many rows by a B whose rows begin unlike in a line, where panels of two lines a row leave L1 (gemm's copy
# of B times these; the lower figure of two as the core's other thread rests or computes: f32 128 x 303 x 400 1.04, 200
# x 301 x 190 0.98 1.08, 200 x 301 x 300 1.10, 255^3 1.16, 1000 x 44 x 200 1.14, 1000 x 40 x 400 1.14, 100 x 40 x 300
# 1.06; f64 200 x 151 x 190 1.0 1.11, 200 x 151 x 300 1.06 1.15; but 64 x 303 x 400 1.0, 50 x 40 x 500 0.93, 1000 x 24 x
# 400 0.95, and beside rows of whole lines 200 x 304 x 400 0.98 to 1.0, of half ones that the driver aligns 250 x 264 x
# 300 0.98, 250 x 280 x 240 0.97, 200 x 168 x 400 1.0, and shorter ones 250 x 248 x 300 1.17, 300 x 152 x 300 1.14).
# (Rows up to 512 bytes: 500 x 93 x 60, 100, 150 1.0 1.06 1.18, 200 x 93 x 122 1.11, 906 x 85 x 189 1.24, 800 x 100 x
# 100, 150 0.95 1.07, 500 x 40 x 150 0.95; f64 800 x 50 x 150 1.10.)
SPREAD_ROWS, SPREAD_L1, SPREAD_DENSE = 128, (3 / 4, 9 / 10), 512
# Nor by a B of one panel that leaves a part of its last vector empty, and is read under a mask: copied, times in place
# (f32 50 x 5 x 100 0.93, 100 x 5 x 100 1.01, 200 x 5 x 100 1.05, 1000 x 7 x 500 1.09, 1000 x 12 x 100 1.06, 200 x 14 x
# 600 1.09, 200 x 18 x 300 1.06, 200 x 20 x 1000 1.07, 1000 x 18 x 600 1.11, tn 1000 x 12 x 300 1.18, 500 x 22 x 500
# 1.09; f64 300 x 11 x 300 1.05, c64 1.09; few steps, 500 x 12 x 64 1.0, x 32 0.91, 128 x 12 x 100 0.97; whole vectors,
# 200 x 24 x 1000 0.96).
MASKED_ROWS, MASKED_STEPS = 128, 64
# But not so many rows of an A by columns, whose lines, shared with the next rows, must stay in L1 beside a panel of B
# (gemm's copy of B and its blocks of k, times these: f32 250^3 1.12, 256^3 1.10, 400 x 100 x 300 1.18, 1000 x 128 x 500
# 1.25, 150 x 100 x 300 1.01, two threads 400 x 100 x 300 1.17; f64 1.18, 1.22, 1.32, 1.00, 0.99).
COLUMN_ROWS = 96
# And fewer where its columns share sets of L1 (`strides.collides`), beside so long rows of B (gemm's copy of B,
# and of A where C has a MiB, times these: f32 768 x 768 x 48, 64, 96, 128 1.08 1.22 1.28 1.20, 512 x 512 x 64 1.13, 256
# x 512 x 64 and 120 1.06 1.14, 256 x 256 x 100 1.16; f64 384 x 384 x 100 1.44, 512 x 128 x 100 1.26, 256 x 256 x 64
# 1.12, 128 x 256 x 100 1.12; but f32 512 x 128 x 100 1.03, 768 x 100 x 100 0.98; other columns 400 x 400 x 100 0.98,
# 384 x 300 x 64 0.9).
COLLIDING_ROW = 1024
# And of either where a tile's steps lie in more pages than the CPU finds at once (gemm's, which copies B, and A where
# that is worth it, times these, tn: f32 1630 x 1416 x 75 1.50, 954 x 1542 x 70 1.27, 1000 x 1000 x 100 1.22, 667 x 603
# x 120 1.13, of 98 to 129 pages 1000 x 1000 x 50, 300 x 2000 x 100, 2000 x 300 x 100 1.02 to 1.03, 700 x 700 x 80 1.0).
TILE_PAGES = 128
# Rows of A, and steps, from which on a B whose rows lie almost whole pages apart is copied (16 x 1023 x 45 1.17, 64
# rows 1.43, 64 x 1021 x 20 1.22; eight lines or less have ways of their own).
NEARLY_ROWS, NEARLY_STEPS = 16, 8
# Rows of A by columns, where `strides.ragged` (20 x 345 x 200 1.06, 34 rows 1.2).
RAGGED_ROWS = 32
# B transposed, for so many rows: 494 x 32 x 100 1.04 to 1.08, 494 x 100 x 32 1.15, f64 1.03 and 1.12, 2000 x 64 x 64
# 1.0, but 70 x 64 x 64 0.97, stacks 0.9 to 1.0.
TURNED_ROWS = 128
# And with any B: 1500 x 1500 x 4 1.18, complex64 1000 x 1000 x 2 1.41, int32 460 x 460 x 4 1.12; but 3000 x 3000 x 4
# from memory 0.80, 1024 x 1024 x 4 0.74 to 1.0.
BRIEF = 4
# Steps of int64 without a multiply of 64 bits, and by two columns, B by rows and by columns (AVX2 on Zen 4, times
# gemm's, k = 2, 8, 16, 32, 64, 20 to 400 rows, single and stacks: two columns nn 3.5 to 7 2.0 1.6 1.4 1.2, tn 3.2 to
# 5.6 2.1 to 2.7 1.8 1.6 1.5, nt 3 to 6.4 1.8 to 2.0 1.6 1.0 0.9, three 1.9 to 2.9 1.15 to 1.4 0.9 to 1.15 0.8 to 1.0
# 0.7 to 0.9, four to 64 1.7 to 3.0 1.05 to 1.4 1.0 to 1.1 0.9 0.8 to 0.9).
NO_MULTIPLY_STEPS, NO_MULTIPLY_TWO = 8, (64, 16)
# Of so few steps rows whole pages apart do not matter, beside a C in L2 (Zen 4, one thread, times gemm's, k = 2, 4, 8:
# AVX-512 f32 10 x 1024 (5) 2.3 2.5 1.15, 64 rows 2.9 2.85 1.14, f64 64 x 512 (5) 3.1 3.0 1.1, i32 64 x 1024 1.36 1.27
# 1.12, c64 64 x 512 (5) 1.16 1.22 1.16; AVX2 f32 64 x 1024 (5) 3.2 2.2 0.74, i32 1.27 1.31 0.88, c64 64 x 512 2.0 1.75
# 1.33).
PAGED_STEPS = 4
# Steps of any stack, whose operands and outputs are so much of L3 at most (times gemm's, one thread, f32, 3, 8, 16
# steps: 50 of 100 x 9 nn 1.0 1.44 1.2, tt 1.9 1.5 1.37, 200 of 400 x 24 nn 1.5 1.2 1.1, 200 of 400 x 40 tn 1.65 1.2
# 1.03, 400 of 100 x 40 - - 1.1; f64 1.0 to 1.9, but of 28 MB 0.8 to 1.1; AVX2 1.2 to 2.2; one vector of columns, 32
# steps, 1.04 to 1.1).
STACK_STEPS, STACK_L3 = 16, 5 / 8
# And so many, of one panel of rows by a B in L1 or L2, whose loops are short whatever k (times gemm's, Zen 4, one
# thread, stacks of 6 MB, 65, 130, 300, 500 steps: f32 2 x 16 1.9 1.4 1.2 1.1, 4 x 16 1.5 1.3 1.1 1.1, 8 x 16 1.3 1.2
# 1.2 1.2, 2, 4, 8 x 64 1.1 to 1.2, 1.0 to 1.1, 1.0, 2 x 200 - 1.3 1.2 1.2; f64 2, 4, 8 x 16 - 1.2 1.2 1.1, 2, 4 x 100
# 1.2 1.1; i32 1.0 to 1.8, c64 1.0 to 1.15; AVX2 by 8 columns 2.0 to 1.1; single ones by up to 64 columns 1.0 to 1.16;
# but stacks of 40 MB 0.7 to 1.8, 12 and 24 rows 0.93 to 1.2).
FLAT_STEPS = 512
PIECE_CYCLES = 3  # of a row of C, for each tile that it is written in (494 x 64 x 8, 6x64 times 14x32 1.25)
LINE_STEPS = 16  # of k that a line of A has
# Of what `conversions` does not say.  Times gemm's kernels: beside dot products bf16 8^3 1.2, 16^3 0.9, i8_i32 8^3 1.2,
# 12^3 0.8; 100000 x 4 x 4 bf16 0.7; i8_i32 100000 x 16 x 2 1.7, x 3 1.3, x 4 0.9.
# With 16 registers numbers of A take two more instructions each, and halves of B are widened again for every tile (AVX2
# on Zen 4, gemm's times these: bf16 24 x 64 x 64 1.0, 32 x 128 x 384 1.02, 40 x 128 x 384 1.13, 48 x 128 x 384 1.13, 96
# x 128 x 384 1.15).
HALVES = Limits(64, 8, 32, {16: 32, 32: 96}, shared=4, turned=4, low=8)
CONVERTED = {
    "f16": Limits(turned=4), "f16_f32": Limits(turned=4), "i8": Limits(turned=16), "bool": Limits(turned=8),
    "bf16": HALVES, "bf16_f32": HALVES, "i8_i32": Limits(16, 8, 0, brief=3, shared=8, turned=4),
}
# Of few rows (`low`), halves, measured with float16, times gemm's, Zen 4, one thread, AVX-512, k = 16, 64, 128, 300,
# 1000: 4 x 16 1.4 1.2 1.4 1.4 1.2; stacks 2 x 8 - - 1.9 1.7 1.3, 8 x 32 - - 1.7 1.3 1.2, 8 x 4 - - 0.9 0.9 0.8; AVX2
# 1.0 to 3.5.
LOW_COLUMNS = 16
# Single rows by matrices of a stack, converted, which gemv widens first: steps up to which these are better, and of one
# column (Zen 4, one thread, times gemv's, AVX-512, k = 2, 8, 16, 32, 64: i8 by 8 columns 9.9 5.1 3.1 1.9 1.3, by 100
# 4.5 2.3 1.6 1.4 1.2, by 200 1.3 1.5 1.3 1.1 1.0, bool by 8 8.0 4.2 3.2 2.0 1.5, by 200 4.2 2.8 2.2 1.9 1.5, f16 by 8
# 9.1 4.6 2.7 1.7 1.1, by 64 5.1 2.5 1.8 1.4 1.3, by 100 1.3 1.4 1.3 1.1 1.1; one column i8 16 7 3.9 1.8 0.9, f16 11 4.9
# 2.4 1.2 0.6.  AVX2: three vectors i8 1.3 1.2 1.1 1.0 0.95, f16 7 7 3.3 2.4 1.6, four 1.5 1.2 1.1 1.2 0.8).
# One product, that Python asks for, has fewer steps (`bench/builds.py` over gemv, AVX-512 and AVX2, f16, i8, bool 1 x
# 10 x 1 1.2, 1.2, 1 x 16 x 8 1.2, 1.1 to 1.2, 1 x 64 x 16 1.2, 1.0 to 1.2, 1 x 24 x 32 1.15 to 1.2, 1.0 to 1.4).
ROW_STEPS, COLUMN_STEPS, ONE_ROW_STEPS = 64, 32, 32
# Beside dot products, steps times vectors (i8_i32: 16 steps by 64 columns 1.0, 32 by 16 1.4, by 32 0.9, 64 by 16 1.1).
DOTS_ROW = 64
# With 16 registers a part of a vector of bytes is loaded piece by piece (bool by 16 columns 3.0 1.7 1.1 0.9 0.7; i8_i32
# by 2, 8 and 16 columns, k = 8, 16, 64 0.5 0.3 0.2, 4.2 3.0 1.8, 3.3 1.2 1.0; one column 0.4 0.3 0.1).
PART_STEPS = {"bool": 16, "i8_i32": 2}


def config(problem: Problem, tier: registry.Isa, dots: bool = False) -> Config | None:
    """Return the configuration for a problem of this family, None for one of another.

    `dots` says that the CPU has dot products for the type, in a family of their own.  Threads have no say in which
    family it is: `fastgemm.deterministic` relies on it.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import family_small
    >>> from fastgemm.problem import Problem
    >>> family_small.config(Problem("f32", 8, 8, 8, batch=10_000), registry.isa("v4")).family
    'small'
    >>> family_small.config(Problem("f32", 512, 512, 512), registry.isa("v4")) is None
    True
    """
    if not _takes(problem, tier, dots):
        return None
    best = min(_tiles(problem, tier), key=lambda tile: _cycles(problem, tier, *tile))
    split, threads = _team(problem, tier)
    pack = "none" if problem.layout[1] == "n" else "b"
    # (Pieces of a larger B pass over all of A, which nothing keeps near: only the few steps of `turns_pieces`.)
    bytes_b = problem.k * -(-problem.n // registry.lanes(problem.row, tier)) * tier.vector_bytes
    pieces = turns_pieces(problem, tier) or written_past(problem, tier) or brief.beats_blocks(problem, tier)
    if pack == "b" and bytes_b > MAX_TURNED and not pieces:
        return None
    found = Config("small", tier.name, *best, pack=pack, split=split, threads=threads)
    return found if found.misfit(problem) is None else None


def _tiles(problem: Problem, tier: registry.Isa) -> list[tuple[int, int]]:
    # Few steps do not pay for the ends of a tall tile (AVX2 on Zen 4, one thread, 12x8 times 6x16, f32 4000 x 8 x 16
    # 0.94, x 32 0.98, x 64 1.03, x 200 1.04, 5504 x 8 x 4 0.85, 100 x 8 x 100 1.16; f64 4000 x 4 x 32 0.95, 100 x 4 x
    # 100 1.2).
    # Nor do complex doubles of one vector (AVX-512, 7x8 over 3x16, k = 1, 3, 16, 64, 400 x 3 (50), 100 x 4 1.34 1.22
    # 1.02 1.01).
    vector, short = registry.lanes(problem.row, tier), problem.k < TALL_STEPS
    low = tier.registers > 16 and problem.row.parts > 1 and problem.row.real_bytes == 8 and problem.n <= vector
    return [(mr, nr) for mr, nr in strides.tiles(problem, tier) if nr > vector or not (short or low)]


def one_row(problem: Problem, tier: registry.Isa) -> bool:
    """Whether registers hold the only row of C, so that a tile beats gemv's passes over it."""
    few = registry.lanes(problem.row, tier) < problem.n <= _row(problem, tier) and not _streams(problem, tier)
    few = few and problem.m == 1 and problem.layout[1] == "n" and not problem.row.converts and problem.row.parts == 1
    return few and problem.k * problem.n * problem.row.itemsize < TEAM_BYTES


def _row(problem: Problem, tier: registry.Isa) -> int:
    return ROW_VECTORS[tier.registers] * registry.lanes(problem.row, tier)


def _streams(problem: Problem, tier: registry.Isa) -> bool:
    # One row of each product by matrices from memory, which gemv fetches ahead where vectors are short (times these,
    # AVX2 on Zen 4, one thread, as many as make 40 to 160 MB, n x k: f32 16 x 16 1.16, 32 x 32 1.09, 64 x 64 1.9, 24 x
    # 100 1.44, 10 x 64 0.83, 8 x 8 0.83; f64 16 x 16 1.6, 32 x 32 1.75, 64 x 64 2.4, 10 x 64 1.14, 64 x 10 1.9).
    row_b = problem.n * problem.row.itemsize
    if problem.m > 1 or tier.registers > 16 or problem.batch * problem.k * row_b < far_bytes():
        return False
    return row_b >= FAR_ROW and (problem.k >= FAR_STEPS or row_b >= FAR_LONG)


def _shared(problem: Problem, tier: registry.Isa, dots: bool) -> bool:
    # Operands that are converted first, for rows of C that share vectors: the driver's `shares_vectors`.
    m, n, k, row = problem.m, problem.n, problem.k, problem.row
    narrow = n > 1 and 2 * n <= registry.lanes(row, tier) and n * k * row.real_bytes <= MAX_WIDENED and m >= SMALL
    if not (narrow and registry.widens(row)) or "g" in problem.layout:
        return False
    if problem.layout[0] == "t":
        return not dots or k <= SMALL
    if not dots and row.group == 1:
        return True
    return k <= CONVERTED[problem.dtype].shared or (n <= FEW_COLUMNS and k <= SHARED_STEPS)


def _long(problem: Problem, tier: registry.Isa) -> bool:
    # More steps than other products of this family have, where rows share vectors.
    few = LONG_COLUMNS[tier.registers]
    enough = problem.layout[0] == "n" or problem.n <= few or problem.streamed <= cpu.caches().l3 // 2
    return enough and problem.layout[1] == "n" and problem.m >= LONG_ROWS and shares_vectors(problem, tier)


def _is_deep(problem: Problem, tier: registry.Isa) -> bool:
    # Rows that share vectors, but so few that gemm's kernels with several sets of accumulators are faster (f32 2 x 2 x
    # 1000 1.7, 4 x 4 x 1000 1.22, 5 x 3 x 1000 2.0, 6 x 2 x 1000 1.0, 8 x 2 x 1000 0.7; AVX2 6 x 2 x 1000 1.8).
    return shares_vectors(problem, tier) and problem.m in dict(registry.deep(problem.row, tier))


def _takes(problem: Problem, tier: registry.Isa, dots: bool) -> bool:
    m, n, k = problem.m, problem.n, problem.k
    if not registry.computes("small", problem.row):
        return False
    way = stacks.way(problem, tier) or half_narrow.way(problem)
    if way:
        return way in measured.OF_SMALL
    if m == 1 and problem.row.converts and (problem.batch > 1 or n > 1):
        return _converted_rows(problem, tier, dots)
    if n == 1 or (k > MAX_SMALL_K and not _long(problem, tier)):
        return False
    if 1 < m <= registry.DEEP_ROWS and k >= registry.DEEP_STEPS and _is_deep(problem, tier):
        return False
    if m == 1 and problem.layout[1] != "n":
        return False
    if m == 1 and problem.batch == 1:
        return one_row(problem, tier)
    long_row = tier.registers == 16 and problem.row.parts == 1 and n > _row(problem, tier)
    if m == 1 and (long_row or _streams(problem, tier)):
        return False
    if m == 1 and 2 * n <= registry.lanes(problem.row, tier) and registry.is_special(problem.row) and k > LONG_ROW:
        return False
    if registry.accumulators(problem.row, tier) > problem.row.parts:
        # No multiply of 64 bits: gemm's kernels make it of halves, and add up what they share at the end.
        two = NO_MULTIPLY_TWO[problem.layout[1] == "t"] if n == 2 else 0
        return m > 1 and k <= max(NO_MULTIPLY_STEPS, two)
    columns = 2 * registry.lanes(problem.row, tier)
    if problem.row.converts:
        less = conversions.converts_for_less(problem, tier, dots)
        if less:
            return True
        if shares_vectors(problem, tier):
            # (times dot products of A turned over: 262144 x 2 x 2 50, 20000 x 8 x 8 3.3, 10000 x 2 x 500 2.5, but
            # 5000 x 8 x 400 0.6)
            return problem.batch == 1 and (n <= FEW_COLUMNS or k <= SMALL)
        if _shared(problem, tier, dots):
            return True
        if less is False and not dots:
            return False
        limits = CONVERTED[problem.dtype]
        short_dots = dots and m * -(-n // registry.lanes(problem.row, tier)) * k <= DOTS_WORK
        low = m <= limits.low // 2 or n >= LOW_COLUMNS or tier.registers == 16
        if problem.layout[1] == "n" and not dots and m <= limits.low and low:
            return True
        if problem.layout[1] != "n" or short_dots or max(m, n, k) <= (limits.dots if dots else limits.cube):
            return problem.layout[1] == "n"
        if problem.batch > 1:
            return False
        tall = m > SMALL and n <= columns
        if dots:
            return tall and k <= limits.brief
        return k <= limits.short or (tall and k <= SHORT) or (m <= limits.flat.get(tier.registers, 0) and n > SMALL)
    # (Single ones too: the loops around a tile of gemm take 10 ns.  Zen 4, through Python, `bench/builds.py` over gemm,
    # f32 64 x 8 x 8 1.35, 8 x 16 x 16 1.14, 27 x 12 x 8 1.10, 16 x 16 x 40 1.09, f64 64 x 8 x 8 1.23, i32 27 x 12 x 8
    # 1.14, c64 64 x 8 x 8 1.11; 40^3 and 64^3 1.0.)
    if max(m, n, k) <= SMALL or shares_vectors(problem, tier):
        return True
    if m > 1 and _short(problem, tier):
        return True
    if problem.batch > 1:
        return False
    if problem.layout[1] == "n" and n > SMALL and _flat(problem, tier):
        return True
    # From memory gemm's loops fetch A ahead (times these: 1000000 x 16 x 16 1.5, 313600 x 16 x 32 1.4, 400000 x 32 x 32
    # 1.25, f64 313600 x 16 x 32 1.45; int32 1000000 x 16 x 16 0.83).
    far = problem.layout[0] == "n" and problem.row.lane[0] == "f" and problem.streamed > cpu.caches().l3
    return k <= SHORT and m > SMALL and n <= columns and not far


def _converted_rows(problem: Problem, tier: registry.Isa, dots: bool) -> bool:
    # A single row by its matrix, or a stack of those: `ROW_STEPS`.
    n, k, lanes = problem.n, problem.k, registry.lanes(problem.row, tier)
    if problem.layout[1] != "n":
        # (Times gemv's, AVX-512, k = 2, 4, 8, 16 by 8 columns: i8 3.1 2.5 1.9 1.3, bool 5.9 3.8 2.9 2.0, f16 2.3 1.6
        # 0.7; i8_i32 1.5 1.4 1.1 0.8.)
        return n > 1 and k <= CONVERTED[problem.dtype].turned and (tier.registers > 16 or n >= lanes // 4)
    if tier.registers == 16 and n < lanes and k > PART_STEPS.get(problem.dtype, ROW_STEPS):
        return False
    if n == 1:
        return k <= COLUMN_STEPS
    if dots and k * -(-n // lanes) > DOTS_ROW:
        return False
    steps = ROW_STEPS if problem.batch > 1 else ONE_ROW_STEPS
    return k <= steps and n <= _row(problem, tier) and not _streams(problem, tier)


def _flat(problem: Problem, tier: registry.Isa) -> bool:
    # Few rows beside a wide B, all of k at a time.
    rows, row_b, caches = problem.m * problem.row.parts, problem.n * problem.row.itemsize, cpu.caches()
    # (From memory gemm's panels in place are fetched ahead: AVX2 on Zen 4, one thread, times these f32 4 x 20000 x 1000
    # 4.7, 8 x 20000 x 1000 2.7, 4 and 8 x 100000 x 200 4.6 3.0, 8 x 20000 x 200, of 16 MB, 2.6, f64 2.0 to 2.6, int32
    # 1.4 to 4; of 10 MB 4 rows 0.9 to 1.0, 8 rows 1.05 to 1.2, f64 1.1 and 2.2.)
    if nearly_far(problem.k * row_b, tier):
        return False
    if rows > FEW_ROWS:
        return False
    most = l1.flat_bytes(problem, tier) if problem.k > STEPS else inf
    if rows <= FLAT:
        return problem.k * row_b <= most
    if rows <= max(mr for mr, vectors in registry.registers(problem.row, tier) if vectors > 1) * problem.row.parts:
        return problem.k * row_b <= min(most, L3_SHARE * caches.l3)
    paged = row_b % 4096 == 0 or (_copies_few(tier) and nearly_paged(problem))
    # (Beside an L1 of 32 KiB gemm's tiles, which fetch their panel, are better at panels that leave it: Skylake-SP, f32
    # 24 x 256 x 256 1.14, 24 x 300 x 300 1.12, 16 and 32 x 512 x 512 1.05 1.13, 16, 24, 32 x 1000 x 1000 1.23 1.66
    # 1.28, f64 16 and 32 x 256 x 256 1.10 1.14; few steps, 15 x 1008 x 75 0.88, 16 x 1000 x 100 0.99.)
    most = caches.l1d if cpu.small_l1(tier) and problem.k > STEPS else L2_TIMES * caches.l2
    return problem.k * row_b <= most and not paged


def _short(problem: Problem, tier: registry.Isa) -> bool:
    # Few steps of k: into an output that goes past the caches, by a B that is turned over, or beside an output in a
    # cache.  Of a stack all operands must be near: gemm's kernels fetch the next panel of B (300 of 48 x 100 x 100, 23
    # MB, 0.79, 100 of 12 x 300 x 100 0.86 to 1.05; 20 of 12 x 200 x 80 1.09).
    row_b, caches = problem.n * problem.row.itemsize, cpu.caches()
    bytes_b = problem.k * row_b
    # (Where the CPU's own prefetch keeps up with items, a stack may be a third as large again: Zen 4, 8 to 10.4 MB,
    # times gemm's, f32 0.97 to 1.1, f64 0.96 to 1.1; 11.2 to 12 MB f32 100^3 0.99, 128 x 128 x 100 0.89, 48 x 100 x 100
    # 0.88, 200 x 100 x 50 0.97, f64 0.96 to 1.0.)
    near_stack = caches.l3 // 3 if cpu.narrow_units() else caches.l3 // 4
    near = problem.streamed <= (near_stack if problem.batch > 1 else caches.l3 // 2)
    if written_past(problem, tier):
        return True
    if brief.beats_blocks(problem, tier):
        return True
    if _beaten(problem, tier):
        return False
    if turns_pieces(problem, tier):
        return True
    wide = 2 * problem.n > registry.lanes(problem.row, tier) and problem.layout[1] == "n"
    if near and wide and problem.m <= FLAT and problem.k <= FLAT_STEPS and bytes_b <= caches.l2 // 2:
        return True
    if near and problem.layout[0] == "t" and problem.k <= STEPS and _complex_vector(problem, tier):
        return True
    paged = row_b % 4096 == 0 and (problem.k > PAGED_STEPS or problem.m * row_b > caches.l2)
    stacked = problem.batch > 1 and problem.k * problem.row.parts <= STACK_STEPS and not paged
    if stacked and problem.streamed <= STACK_L3 * caches.l3:
        return True
    if problem.layout[1] != "n" and (problem.batch > 1 or problem.m <= TURNED_ROWS):
        return False
    if paged or not near or _copied(problem, tier):
        return False
    several = problem.n > registry.lanes(problem.row, tier) or (problem.batch > 1 and problem.k <= SHORT)
    several = several and bytes_b <= caches.l2 // 2
    steps = STEPS
    by_columns = problem.layout[0] == "t" and problem.m >= COLUMN_ROWS
    more = problem.m <= MORE_ROWS[bytes_b <= caches.l2 // 4] and not by_columns
    if tier.registers == 16 and more and not (_copies_few(tier) and spread(problem)):
        steps = MORE_STEPS
    return problem.k <= BRIEF or (problem.k <= steps and several)


def _complex_vector(problem: Problem, tier: registry.Isa) -> bool:
    # One vector of complex columns, full where there are few registers, by A's columns (times gemm's, Zen 4, one
    # thread, 70 to 1000 rows, k = 32, 64, 100, 128: c64 tn 2 to 4 columns 1.05 to 1.18, 1.0 to 1.1, 1.0 to 1.08,
    # 0.95 to 1.1, 6 and 8 columns 1.01 to 1.06, c128 1.01 to 1.15; stacks of 20 tt of 10, 16 steps 1.1 to 1.45;
    # AVX2, full vectors, 1.05 to 1.3, others 0.9 to 1.1; more than L3 / 3 0.6 to 0.95).
    lanes = registry.lanes(problem.row, tier)
    return problem.row.parts > 1 and (problem.n == lanes or (problem.n < lanes and tier.registers > 16))


def _beaten(problem: Problem, tier: registry.Isa) -> bool:
    # Whether an L1 of 32 KiB makes gemm's copies and blocks the better ones.
    written = l1_written.beats_small(problem, tier)
    return l1.beats_small(problem, tier) if written is None else written


def _copies_few(tier: registry.Isa) -> bool:
    # Whether gemm copies B for few rows: beside panels of one line and a half at most, and one at least.
    return tier.registers == 16 and tier.vector_bytes == 32


def _copied(problem: Problem, tier: registry.Isa) -> bool:
    # Whether operands lie so that gemm's copies of them are worth more than what this family saves.
    if not _copies_few(tier) or problem.layout[1] != "n":
        return False
    part = problem.k > MASKED_STEPS and any(masked(problem, tier, nr) for _, nr in registry.tiles(problem.row, tier))
    if part or nearly_paged(problem):
        return True
    if problem.layout[0] != "t":
        return False
    if problem.m >= RAGGED_ROWS and strides.ragged(problem):
        return True
    shared = problem.n * problem.row.itemsize >= COLLIDING_ROW and strides.collides(problem)
    return problem.m >= COLUMN_ROWS and (shared or strides.pages(problem) >= TILE_PAGES)


def nearly_paged(problem: Problem) -> bool:
    """Whether enough rows and steps meet a B whose rows lie almost whole pages apart."""
    return problem.m >= NEARLY_ROWS and problem.k > NEARLY_STEPS and strides.nearly_paged(problem)


def spread(problem: Problem) -> bool:
    """Whether B's rows, read in place, take two lines a step of a panel of one, too many for L1, by many rows."""
    row_b = problem.n * problem.row.itemsize
    # (Of so short rows a whole B is fetched for a panel of it.)
    dense = row_b <= SPREAD_DENSE
    room = (SPREAD_L1[1] if dense else SPREAD_L1[0]) * cpu.caches().l1d
    lines = problem.k * (row_b if dense else 128)
    unlike = row_b % 64 > 0 and row_b > 96 and not strides.even(problem)
    return unlike and problem.m >= SPREAD_ROWS and lines > room


def masked(problem: Problem, tier: registry.Isa, nr: int) -> bool:
    """Whether many rows read a B of one panel under a mask, vectors being short."""
    # (An A by columns from memory is not made to wait for a copy.)
    part = problem.n <= nr and problem.n % registry.lanes(problem.row, tier) > 0
    near = problem.layout[0] != "t" or problem.streamed <= cpu.caches().l3 // 4
    long = problem.k > MASKED_STEPS or (problem.n < nr == registry.lanes(problem.row, tier))
    return part and near and long and problem.m >= MASKED_ROWS and nr * problem.row.itemsize < 128


def _team(problem: Problem, tier: registry.Isa) -> tuple[str, int]:
    if problem.threads == 1 or not busy(problem):
        return "n", 1
    stack = problem.batch > 1
    if stack and whole_items(problem):
        return "batch", problem.threads
    if problem.layout[1] != "n" and not stack:
        # Each thread copies what it reads of B, a small one for itself.
        few = problem.m <= FEW_ROWS and not problem.row.converts
        if problem.m >= 8 and not few:
            return "m", min(problem.threads, problem.m // 4)
        if problem.row.converts:
            return "n", 1
    vectors = -(-problem.n // registry.lanes(problem.row, tier))
    if problem.m <= FEW_ROWS and problem.batch < problem.threads <= vectors // 2:
        # Shares of rows would read all of B each (two threads: 8 x 800 x 800 1.68, 8 x 512 x 512 1.4, f64 1.2 and 1.6).
        return "n", problem.threads
    rows = problem.batch * problem.m // 4 if problem.m > 1 else 0
    return first_split(problem, [("m", rows), ("n", problem.batch * vectors)])


def _cycles(problem: Problem, tier: registry.Isa, mr: int, nr: int) -> float:
    # Panels as the plan makes them: one more where that makes them equal, which is one call and not two.
    lanes, parts = registry.lanes(problem.row, tier), problem.row.parts
    # Eight accumulators just hide it (AVX2, 4x24 times 4x16: 4 x 300 x 300 1.15, 16 x 300 x 300 1.12).
    latency = LATENCY + (LATENCY_LEAST if tier.registers == 16 else 0)
    panels, vectors = -(-problem.m // mr), -(-problem.n // lanes)
    if problem.m % panels and problem.m % (panels + 1) == 0:
        panels += 1
    across = -(-vectors // (nr // lanes))
    # A that no second panel of columns passes over comes from L2 (f64 4576 x 16 x 4, 6x32 times 14x16 1.15, 2000 x 16 x
    # 16 1.1; f32 4576 x 32 x 4 1.17, 5000 x 32 x 16 1.09).
    caches = cpu.caches()
    far = problem.layout[0] == "n" and problem.streamed > (caches.l1d if across == 1 else caches.l3 // 2)
    total: float = across * (CALL_CYCLES if problem.m % panels == 0 else 2 * CALL_CYCLES)
    for high, count_i in balanced(problem.m, panels):
        for wide, count_j in balanced(vectors, across):
            rows = high * parts
            step = max(rows * wide / PORTS, (rows + wide) / LOADS, latency)
            # (Lines come whole, whatever k.)
            waits = max(0, rows - STREAMS) * STREAM_ROW * max(problem.k, LINE_STEPS) if far and wide > 1 else 0.0
            if problem.row.converts:
                step += rows * CONVERT_A + wide * CONVERT_B
            total += count_i * count_j * (problem.k * step + waits + PANEL_CYCLES + rows * PIECE_CYCLES)
    # Of a panel of B that L1 does not hold, with one of A, each panel of rows reads all from L2 (8 x 512 x 512, 8x48
    # times 6x64: 1.33, f64 1.47; f64 13 x 512 x 256, 14x32 times 8x48 1.23; but 100 x 300 x 128, 6x64 times 14x32
    # 1.06).
    row_b, l1d = problem.n * problem.row.itemsize, caches.l1d
    held = problem.k * (nr + mr) * problem.row.itemsize <= l1d and row_b % 4096
    if problem.k * row_b > l1d:
        total += (1 if held else panels) * vectors * problem.k * STREAM_B
    return total
