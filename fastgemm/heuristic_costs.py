"""What the rules of all families count with: costs in cycles, and when a second thread is worth it (Zen 5, 2 cores)."""

from __future__ import annotations

LATENCY = 4  # of a multiply-add
PORTS = 2  # multiply-adds a cycle
LOADS = 2  # vector loads a cycle
STREAM_B = 0.4  # per vector of B and step, in place: rows apart, lines split where NumPy's arrays begin
# Rows of A are streams of reads too, and a tall tile has more than the CPU follows once they leave L1: f32 14x32 runs
# at 93 % with 512 steps (28 KiB of A) and 87 % with 1024.
# And where A comes from memory every time, at any length (2450 x 32 x 288, 32 of them: 14x32 156 GFLOP/s, 8x32 229;
# small kernels, where A and C are more than half of L3, 6x64 times 14x32: 100000 x 32 x 32 1.32, 100000 x 24 x 27 1.28,
# f64 100000 x 16 x 16 1.6).  Not beside one vector of B: loads are what counts there, and a tall tile has fewest (800 x
# 16 x 800 1.1).
STREAMS, STREAM_ROW = 8, 0.25  # and cycles of a step, for each row above
# Below a megaflop one thread does it.  On an idle machine 64^3 (0.5) gains a factor of 1.35 by a second one; with one
# of the two cores busy it loses a factor of 5, because the team waits for a thread that is not running.
TEAM_FLOPS = 1_000_000
# Bytes of a matrix above which a second thread helps to stream it: 256 KiB take 2.9 us with one and 5.5 with two,
# 1 x 2048 x 512 (4 MiB) 49 and 23.
TEAM_BYTES = 1 << 19
