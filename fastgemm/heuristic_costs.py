"""What the rules of all families count with: costs in cycles, and when a second thread is worth it (Zen 5, 2 cores)."""

from __future__ import annotations

LATENCY = 4  # of a multiply-add
PORTS = 2  # multiply-adds a cycle
LOADS = 2  # vector loads a cycle
STREAM_B = 0.4  # per vector of B and step, in place: rows apart, lines split where NumPy's arrays begin
# Below a megaflop one thread does it.  On an idle machine 64^3 (0.5) gains a factor of 1.35 by a second one; with one
# of the two cores busy it loses a factor of 5, because the team waits for a thread that is not running.
TEAM_FLOPS = 1_000_000
# Bytes of a matrix above which a second thread helps to stream it: 256 KiB take 2.9 us with one and 5.5 with two,
# 1 x 2048 x 512 (4 MiB) 49 and 23.
TEAM_BYTES = 1 << 19
