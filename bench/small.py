"""Small products: the kernels alone, what Python adds to them, and stacks against NumPy, on one thread.

    python bench/small.py
    python bench/small.py --dtype float64 --rounds 30
    python bench/small.py --over 70 --require 8

Three tables. `kernel` is one product of a stack whose products are all the same operands, so nothing but the kernel
and its loop is timed; LIBXSMM, where it is installed, is called in the same way from a C loop. `matmul` is the call
from Python with a fresh output, and `over` what that costs more than the kernel. Stacks and narrow outputs have
operands of their own, in cache where they fit, and one output that is written to again and again.

Everything in the first table takes turns in this one process, back and forth, so that a phase in which a neighbour
slows the core passes over all of it; of a stack its variants do.  The best of all rounds counts.
--over says how many nanoseconds a call may cost more than its kernel, --require how many times NumPy's speed
10,000 products of 8 x 8 must have: exit status 1 where that is missed.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import environment
import progress
import stats
import timing
import workers

SAMPLE_SECONDS = 0.002
REPEATED = 20_000  # products of the stack that repeats one, so that the call of the plan does not count
# M x N x K x count.
STACKS = ((2, 2, 2, 10_000), (3, 3, 3, 10_000), (4, 4, 4, 10_000), (8, 8, 8, 10_000), (12, 12, 12, 10_000),
          (16, 16, 16, 10_000), (32, 32, 32, 1000), (64, 64, 64, 100))  # fmt: skip
# M x N x K x count, A transposed.
NARROW = ((1_000_000, 4, 4, 1, False), (3136, 4, 36, 32, False), (3136, 8, 72, 32, False), (262_144, 2, 4, 1, False),
          (262_144, 2, 2, 1, True), (262_144, 4, 4, 1, True), (100_000, 3, 3, 1, False), (100_000, 16, 16, 1, False),
          (4, 1_000_000, 4, 1, False))  # fmt: skip

Calls = dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]  # what is called, and with what
TURNS = 4  # times as many rounds for single products: `over` is the difference of two bests


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--sizes", nargs="+", type=int, default=[4, 8, 16, 32, 64], metavar="N")
    made.add_argument("--dtype", default="float32", help="element type (default float32)")
    made.add_argument("--rounds", type=int, default=15, help="turns of every variant (default 15)")
    made.add_argument("--over", type=float, metavar="NS", help="exit 1 where a call costs more than its kernel by this")
    made.add_argument("--require", type=float, metavar="RATIO", help="exit 1 where the 8x8 stack is slower than this")
    return made


def best_of(calls: Calls, rounds: int) -> dict[str, float]:
    """Seconds of one call of each, the best of samples taken in turn; what the loop costs is taken off."""
    loops = {}
    for name, (call, arguments) in calls.items():
        timing.bare(call, arguments, 1)
        spent = timing.bare(call, arguments, 1)
        loops[name] = max(1, min(20_000, int(SAMPLE_SECONDS / max(spent, 1e-7))))
    best = dict.fromkeys(calls, float("inf"))
    for turn in range(rounds):
        for name in calls if turn % 2 else reversed(calls):
            call, arguments = calls[name]
            loop = timing.empty(loops[name])
            best[name] = min(best[name], (timing.bare(call, arguments, loops[name]) - loop) / loops[name])
    return best


def singles(sizes: Sequence[int], dtype: str, rounds: int, xsmm: Any) -> list[dict[str, float]]:
    """Nanoseconds of one square product of each size: the kernels, and the calls."""
    of = [calls_of(size, dtype, xsmm) for size in sizes]
    found = best_of({f"{name} {at}": call for at, calls in enumerate(of) for name, call in calls.items()}, rounds)

    def ns(name: str, at: int) -> float:
        return found[f"{name} {at}"] / (REPEATED if name in ("kernel", "LIBXSMM") else 1) * 1e9

    return [{name: ns(name, at) for name in calls} for at, calls in enumerate(of)]


def calls_of(size: int, dtype: str, xsmm: Any) -> Calls:
    """Return what is called for one square product: the kernels as a stack of it, again and again."""
    import numpy as np
    from numpy.lib.stride_tricks import as_strided

    import fastgemm
    from fastgemm import registry, special
    from fastgemm.heuristic import rules
    from fastgemm.plan import Plan
    from fastgemm.problem import Problem

    rng = np.random.default_rng(size)
    a, b, c = (rng.uniform(-1, 1, (size, size)).astype(dtype) for _ in range(3))
    repeated = [as_strided(x, (REPEATED, size, size), (0, *x.strides)) for x in (a, b, c)]
    # The kernel of one product again and again (a stack as long as this has a plan for operands that lie in memory).
    single = Problem(registry.dtype(dtype).name, size, size, size)
    config = rules.config(single)
    plan = Plan(dataclasses.replace(single, batch=REPEATED), config)
    if own := special.built_in(config, single):
        plan.specialise(own.capsule, own.at, own.module)
    calls: Calls = {
        "kernel": (plan.run, tuple(repeated)),
        "matmul": (fastgemm.matmul, (a, b)),
        "matmul out=": (fastgemm.matmul, (a, b, c)),
        "np.matmul": (np.matmul, (a, b)),
    }
    kernel = xsmm.kernel(dtype, size, size, size) if xsmm else 0
    if kernel:
        calls["LIBXSMM"] = partial(xsmm.run, kernel), tuple(repeated)
    return calls


def stack(m: int, n: int, k: int, count: int, transposed: bool, dtype: str, rounds: int, xsmm: Any) -> dict[str, float]:
    """Seconds of one call for a stack, or for one product where the count is 1."""
    import numpy as np

    import fastgemm

    rng = np.random.default_rng(m + n + k)
    lead = (count,) if count > 1 else ()
    a = rng.uniform(-1, 1, (*lead, k, m) if transposed else (*lead, m, k)).astype(dtype)
    a = a.swapaxes(-1, -2) if transposed else a
    b = rng.uniform(-1, 1, (*lead, k, n)).astype(dtype)
    c = np.empty((*lead, m, n), dtype)
    calls: Calls = {"fastgemm": (fastgemm.matmul, (a, b, c)), "NumPy": (np.matmul, (a, b, c))}
    kernel = xsmm.kernel(dtype, m, n, k) if xsmm and count > 1 else 0
    if kernel:
        calls["LIBXSMM"] = partial(xsmm.run, kernel), (a, b, c)
    return best_of(calls, rounds)


def stack_row(name: str, count: int, found: dict[str, float]) -> list[str]:
    """Lay out one stack: its times and the ratios."""
    row = [name, *(stats.duration(found[who] / count) if who in found else "-" for who in ("fastgemm", "NumPy"))]
    row.append(stats.number(found["NumPy"] / found["fastgemm"]))
    return [*row, stats.number(found["LIBXSMM"] / found["fastgemm"] if "LIBXSMM" in found else float("nan"))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; 1 when a requirement is missed."""
    options = parser().parse_args(arguments)
    # Before NumPy is imported: a pool of threads has no place in a call of nanoseconds.
    environment.one_thread("FASTGEMM_NUM_THREADS")
    import peer_libxsmm

    xsmm, why = (None, "no kernels for it") if options.dtype not in peer_libxsmm.NAMES else peer_libxsmm.load()
    print(f"{workers.machine()['cpu']}, {options.dtype}, one thread" + (f"; LIBXSMM is left out: {why}" if why else ""))
    missed = []
    with progress.bar("small", 1 + len(STACKS) + len(NARROW)) as bar:
        rows = []
        bar.step("single products")
        found = singles(options.sizes, options.dtype, TURNS * options.rounds, xsmm)
        for size, ns in zip(options.sizes, found, strict=True):
            over = ns["matmul"] - ns["kernel"]
            if options.over is not None and over > options.over:
                missed.append(f"{size}x{size}: {over:.0f} ns over the kernel, {options.over:.0f} allowed")
            shown = [ns["kernel"], ns.get("LIBXSMM", float("nan"))]
            calls = [ns["matmul"], over, ns["matmul out="], ns["np.matmul"]]
            rows.append([f"{size}x{size}", *(stats.number(x, 1) for x in shown), *(stats.number(x, 0) for x in calls)])
        head = ["ns", "kernel", "LIBXSMM", "matmul", "over", "matmul out=", "np.matmul"]
        print("\n" + stats.table(head, rows))
        rows = []
        for m, n, k, count in STACKS:
            bar.step(f"{count} of {m}x{n}x{k}")
            times = stack(m, n, k, count, False, options.dtype, options.rounds, xsmm)
            rows.append(stack_row(f"{count} of {m}x{n}x{k}", count, times))
            ratio = times["NumPy"] / times["fastgemm"]
            if options.require is not None and (m, n, k) == (8, 8, 8) and ratio < options.require:
                missed.append(f"{count} of 8x8x8: {ratio:.2f} times NumPy, {options.require:.2f} wanted")
        head = ["stack, a product", "fastgemm", "NumPy", "times NumPy", "times LIBXSMM"]
        print("\n" + stats.table(head, rows))
        rows = []
        for m, n, k, count, transposed in NARROW:
            name = f"{m}x{n}x{k}" + (f" by {count}" if count > 1 else "") + (", A.T" if transposed else "")
            bar.step(name)
            times = stack(m, n, k, count, transposed, options.dtype, options.rounds, None)
            rows.append(stack_row(name, 1, times)[:4])
        print("\n" + stats.table(["narrow outputs", "fastgemm", "NumPy", "times NumPy"], rows))
    for line in missed:
        print(f"REQUIREMENT MISSED: {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    environment.let_choose()
    sys.exit(main())
