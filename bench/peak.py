"""The FMA peak of this machine, right now: a loop of independent multiply-adds in registers.

    python bench/peak.py                       every dtype and ISA tier, one thread
    python bench/peak.py --threads 2 --watch 10

Percentages in this folder are of this figure, measured beside each sample, because the
clock of a shared machine drifts by ten per cent and more within an hour.  Where the kernel lets a process
count its cycles, operations a cycle stand beside it with one thread: a whole number of vectors, times two for
a multiply-add; more than the core has units for means that the loop is not what it says.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence

import cycles

CYCLES_ROUNDS = 1_000_000
# Long enough for the clock to be read, shorter than the time slice that another process takes;
# the best of a few counts, since a disturbance can only lower it.
SECONDS, TRIES = 0.002, 5
_iterations: dict[tuple[str, str, str, float], int] = {}


def rate(
    dtype: str, isa: str | None = None, threads: int = 1, seconds: float = SECONDS, family: str = "gemm",
    statistic: Callable[[Iterable[float]], float] = max,
) -> float:  # fmt: skip
    """Return the peak in real flops a second, summed over `threads` that run at once.

    Parameters
    ----------
    dtype : str
        Registry or NumPy name.  A complex type has the peak of its components.
    isa : str, optional
        Tier; the one that fastgemm uses by default.
    threads : int
        Threads that run the loop at the same time.
    seconds : float
        How long one measurement takes, roughly.
    family : str
        Whose multiply-adds: those of a family of its own (vnni, bf16) are of that very dtype.
    statistic : callable
        What stands for the few measurements: what stands for those of a product that is compared with it.
    """
    from fastgemm import kernels

    real = _real(dtype, family)
    if isa is None:
        tier = kernels.active_isa()
        if tier is None:
            raise RuntimeError("no kernels for this CPU")
        isa = tier.name
    count = _iterations.get((real, isa, family, seconds), 1000)
    while True:
        _, spent = kernels.peak(real, isa, count, family)
        if spent >= 0.5 * seconds:
            break
        count = int(count * min(100.0, max(1.5, seconds / max(spent, 1e-9)))) + 1
    _iterations[real, isa, family, seconds] = count
    if threads == 1:
        tries = (kernels.peak(real, isa, count, family) for _ in range(TRIES))
        return statistic(flops / spent for flops, spent in tries)
    return statistic(_together(real, isa, count, threads, family) for _ in range(TRIES))


def _real(dtype: str, family: str) -> str:
    """Return whose loop stands for a dtype: its component's, or its own in a family of its own."""
    from fastgemm import registry

    row = registry.dtype(dtype)
    if family != "gemm":
        return row.name
    return row.kernels or (row.lane if row.parts == 2 else row.name)


def _together(dtype: str, isa: str, iterations: int, threads: int, family: str) -> float:
    from fastgemm import kernels

    rates = [0.0] * threads
    gate = threading.Barrier(threads)

    def run(index: int) -> None:
        gate.wait()
        flops, spent = kernels.peak(dtype, isa, iterations, family)
        rates[index] = flops / spent

    others = [threading.Thread(target=run, args=(index,)) for index in range(1, threads)]
    for other in others:
        other.start()
    run(0)
    for other in others:
        other.join()
    return sum(rates)


def per_cycle(dtype: str, isa: str, family: str = "gemm") -> str:
    """Return what the loop does a cycle, as text; none where cycles cannot be counted."""
    from fastgemm import kernels

    with cycles.counter() as count:
        if count is None:
            return ""
        start = count()
        flops, _ = kernels.peak(_real(dtype, family), isa, CYCLES_ROUNDS, family)
        return f", {flops / (count() - start):6.2f} a cycle"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the peak of every dtype and tier, and of families beyond one."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1, help="threads that run the loop at once (default 1)")
    parser.add_argument("--watch", type=float, metavar="SECONDS", help="repeat this long and show the drift")
    parser.add_argument("--dtype", default="float32", help="dtype of --watch (default float32)")
    options = parser.parse_args(arguments)
    try:
        from fastgemm import kernels, registry
    except ImportError as error:
        print(f"cannot import fastgemm: {error}", file=sys.stderr)
        return 2
    if options.watch:
        found: list[float] = []
        end = time.monotonic() + options.watch
        while time.monotonic() < end:
            found.append(rate(options.dtype, threads=options.threads) * 1e-9)
            print(f"{options.dtype}: {found[-1]:8.1f} GFLOP/s", flush=True)
            time.sleep(0.5)
        print(f"lowest {min(found):.1f}, highest {max(found):.1f}: {max(found) / min(found) - 1:.1%} apart")
        return 0
    tiers = sorted({isa for _, isa in kernels.available()})
    from fastgemm import cpu

    able = [tier.name for tier in cpu.isas()]
    for tier in (tier for tier in tiers if tier in able):
        own = [("gemm", row) for row in registry.DTYPES if _real(row.name, "gemm") == row.name]
        for family in registry.FAMILIES:
            if family.tiers and kernels.has(family.name, tier):
                taken = registry.rows_of(registry.isa(tier), family.name)
                own += [(family.name, row) for row in taken if registry.kernels_of(row, family.name) == row.name]
        for name, row in own:
            found_rate = rate(row.name, tier, options.threads, family=name) * 1e-9
            print(
                f"{row.numpy:8} {tier} {name:8}: {found_rate:8.1f} GFLOP/s"
                f"{per_cycle(row.name, tier, name) if options.threads == 1 else ''}"
            )
    print(f"{options.threads} thread(s) of {len(os.sched_getaffinity(0))} cores")
    return 0


if __name__ == "__main__":
    sys.exit(main())
