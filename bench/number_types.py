"""Number types: products as a share of the instruction peak, and against NumPy.

    python bench/number_types.py
    python bench/number_types.py --only int32 "int8 to int32" --threads 1

The peak is a loop of the same multiply-adds in registers alone (vpdpbusd, vdpbf16ps, or multiply and add), on one core
beside every product and times the number of threads.  bool's is a product whose operands stay in the caches of the
core, because there a byte of A must be spread over a vector for every four instructions, which a loop in registers does
not show.  1024^3 with one and two threads gives the shares, 512^3 and 16^3
the ratios to `np.matmul` of the same operands with all cores.  Every row runs in this process, one after the other.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import environment
import numpy as np
import timing

import fastgemm
from fastgemm import kernels, registry
from fastgemm.driver import _team
from fastgemm.heuristic import rules
from fastgemm.plan import Plan
from fastgemm.problem import Problem


class Row(NamedTuple):
    """A kind of product: its name, the operands' types, what is asked of `matmul`, the registry's rows of both."""

    name: str
    dtype: Any
    asked: Any
    row: str
    peak: str


def rows() -> list[Row]:
    """Return the kinds that can be measured here."""
    found = [
        Row("float32", "f4", None, "f32", "f32"),
        Row("int64", "i8", None, "i64", "i64"),
        Row("int32", "i4", None, "i32", "i32"),
        Row("int16", "i2", None, "i16", "i16"),
        Row("int8", "i1", None, "i8", "i16"),
        Row("bool", "?", None, "bool", "bool"),
        Row("float16", "f2", None, "f16", "f32"),
        Row("int8 to int32", "i1", np.int32, "i8_i32", "i8_i32"),
        Row("uint8 to int32", "u1", np.int32, "i8_i32", "i8_i32"),
    ]
    try:
        import ml_dtypes
    except ImportError:
        return found
    return [*found, Row("bfloat16", ml_dtypes.bfloat16, None, "bf16_f32", "bf16")]


def best(call: Callable[[], object], seconds: float) -> float:
    """Return the least time of a call, in samples that fill some seconds."""
    number = timing.loops(call, 2e-4)
    samples: list[float] = []
    end = time.perf_counter() + seconds
    while len(samples) < 3 or time.perf_counter() < end:
        samples.append(timing.per_call(call, number))
    return min(samples)


def undisturbed(call: Callable[[], object], seconds: float) -> float:
    """Return the least time of a call, measured again where its team rested meanwhile.

    A team that was slower than one thread, as another process had a core, rests up to 0.16 s: longer than a sample,
    which then says half the rate (int8 44 %, uint8 to int32 55 % of a peak of which they reach 90).
    """
    for _ in range(5):
        before = _team.rests()
        took = best(call, seconds)
        if _team.rests() == before:
            break
        time.sleep(0.2)
    return took


def peak(row: Row, tier: registry.Isa) -> float:
    """Return operations a second of the row's multiply-adds on one core."""
    if row.row == "bool":
        return cached(row, tier)
    family = kernels.best_family(registry.dtype(row.row), tier)
    name = row.peak if family != "gemm" or row.peak != "bf16" else "f32"
    flops, seconds = kernels.peak(name, tier.name, 1_000_000, family)
    return flops / seconds


def cached(row: Row, tier: registry.Isa) -> float:
    """Return operations a second on one core of a product of 384 x 256 x 1024 below Python, the best of three."""
    m, n, k = 384, 256, 1024
    problem = Problem(row.row, m, n, k)
    plan = Plan(problem, rules.config(problem, tier))
    a, b = np.zeros((m, k), row.dtype), np.zeros((k, n), row.dtype)
    out = np.zeros((m, n), row.dtype)
    spent = []
    for _ in range(3):
        start = time.perf_counter()
        plan.run(a, b, out, times=20)
        spent.append(time.perf_counter() - start)
    return 20 * problem.flops / min(spent)


def operands(row: Row, n: int) -> tuple[Any, Any]:
    """Return two random square matrices."""
    rng = np.random.default_rng(0)
    a, b = rng.random((2, n, n), dtype="f4")
    if row.dtype == "?":
        return a > 0.9, b > 0.9
    scale = 1 if row.row in ("f32", "f16", "bf16_f32") else 100
    return (a * scale).astype(row.dtype), (b * scale).astype(row.dtype)


def measure(row: Row, tier: registry.Isa, threads: list[int], seconds: float) -> str:
    """Return one line of the table."""
    keywords = {} if row.asked is None else {"dtype": row.asked}
    a, b = operands(row, 1024)
    cells = []
    for count in threads:
        with fastgemm.threads(count):
            shares = []
            for _ in range(3):
                before = peak(row, tier)
                took = undisturbed(lambda: fastgemm.matmul(a, b, **keywords), seconds)
                shares.append((2 * 1024**3 / took, 2 / (before + peak(row, tier))))
        share = statistics.median(rate * unit / count for rate, unit in shares)
        cells.append(f"{max(rate for rate, _ in shares) * 1e-9:8.0f} {100 * share:4.0f} %")
    for n in (512, 16):
        a, b = operands(row, n)
        ours = best(lambda a=a, b=b: fastgemm.matmul(a, b, **keywords), seconds)  # type: ignore[misc]
        theirs = best(lambda a=a, b=b: np.matmul(a, b, **keywords), 0.0)  # type: ignore[misc]
        cells.append(f"{theirs / ours:8.1f}x")
    return f"{row.name:16}" + "  ".join(cells)


def main() -> None:
    """Print the table."""
    names = [row.name for row in rows()]
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--only", nargs="+", metavar="NAME", choices=names, default=names, help=f"of {', '.join(names)}")
    made.add_argument("--threads", nargs="+", type=int, default=[1, 2], metavar="N", help="thread counts (default 1 2)")
    made.add_argument("--seconds", type=float, default=0.1, help="of each sample (default 0.1)")
    options = made.parse_args()
    tier = kernels.active_isa()
    if tier is None:
        raise SystemExit("no kernels run on this CPU")
    kernels.load(tier.name)
    print(f"{tier.name}; 1024^3: GOP/s, share of the peak with {options.threads} threads; times NumPy at 512^3, 16^3")
    with np.errstate(all="ignore"):
        for row in rows():
            if row.name in options.only:
                print(measure(row, tier, options.threads, options.seconds), flush=True)


if __name__ == "__main__":
    environment.let_choose()
    main()
