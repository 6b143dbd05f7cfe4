"""Large square products as a share of the FMA peak, the peak measured beside every sample.

    python bench/squares.py
    python bench/squares.py --dtype float32 --size 1024 --threads 1 --isa v4 v3
    python bench/squares.py --require --json squares.json

C-ordered operands of 512, 1024 and 2048 in float32, float64, complex64 and complex128, with one
and two threads.  Each combination of ISA tier (FASTGEMM_ISA) and thread count runs in a process of
its own.  Every sample (five chunks, whose median counts) stands between two runs of a register-only
multiply-add loop on the same threads (the median of five as long as a chunk) and is divided by their mean,
because the clock of a shared machine drifts; the median of all shares is shown beside the best.  Complex
products count 8 real operations an element.

The goals: float32 and float64 on v4 92 % with one thread (float32 at 1024 94) and 88 % with more; on v3 88 % of that
tier's own peak; complex types 85 %.  --require exits with status 1 where a median misses its goal.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cases
import progress
import stats
import workers
from load import Load, Quiet
from worker import CHUNKS

DTYPES = ("float32", "float64", "complex64", "complex128")


def goal(dtype: str, isa: str, threads: int, size: int) -> float | None:
    """Share of the peak, in per cent, that a product is to reach; None where none is set.

    Examples
    --------
    >>> goal("float64", "v4", 2, 1024)
    88.0
    """
    if isa not in ("v3", "v4"):
        return None
    if dtype.startswith("complex"):
        return 85.0
    if isa == "v4" and threads == 1:
        return 94.0 if size == 1024 and dtype == "float32" else 92.0
    return 88.0


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument(
        "--size", nargs="+", type=int, default=[512, 1024, 2048], metavar="N", help="edges of the squares"
    )
    made.add_argument("--dtype", nargs="+", default=list(DTYPES), choices=DTYPES, help="element types")
    made.add_argument("--threads", nargs="+", type=int, default=[1, 2], metavar="N", help="thread counts (default 1 2)")
    made.add_argument(
        "--isa", nargs="+", default=[""], metavar="TIER", help="tiers to force, v2 v3 v4 (default: the best)"
    )
    made.add_argument("--rounds", type=int, default=7, help="samples of each product (default 7)")
    made.add_argument("--sample", type=float, default=0.02, metavar="SECONDS", help="length of a sample (default 0.02)")
    made.add_argument("--reuse-out", action="store_true", help="write to one output instead of a fresh one a call")
    made.add_argument(
        "--patience",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="wait before samples while other processes run, this long in all (default 30)",
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write what was measured")
    made.add_argument("--require", action="store_true", help="exit 1 when a median misses its goal")
    return made


def one(worker: workers.Worker, case: cases.Case, options: argparse.Namespace, quiet: Quiet) -> dict[str, Any] | None:
    """Time one product; None when the library does not have it."""
    answer = worker.ask(
        "prepare", case=case.to_dict(), sample=options.sample, operands="hot", reuse_out=options.reuse_out, budget=60.0
    )
    if "unsupported" in answer:
        progress.say(f"{case.label}: {answer['unsupported']}")
        return None
    shares, rates, peaks = [], [], []
    # As long as a chunk of the product, and the same statistic of as many: the best peak beside the typical product
    # would charge the product with the drift of the clock.
    beside = {"dtype": case.dtype, "seconds": options.sample / CHUNKS}
    for _ in range(options.rounds):
        worker.settle()
        quiet.wait()
        before = worker.ask("peak", **beside)["rate"]
        chunks = worker.ask("time")["seconds"]
        worker.settle()
        after = worker.ask("peak", **beside)["rate"]
        rate = case.flops / statistics.median(chunks)
        rates.append(rate)
        peaks.append((before + after) / 2)
        shares.append(100 * rate / peaks[-1])
    worker.ask("drop")
    isa = worker.about["detail"].removeprefix("ISA ")
    return {
        "case": case.to_dict(), "isa": isa, "rates": rates, "peaks": peaks, "shares": shares,
        "median": statistics.median(shares), "best": max(shares), "goal": goal(case.dtype, isa, case.threads, case.m),
    }  # fmt: skip


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run everything; Ctrl-C keeps what is finished."""
    load, quiet = Load(), Quiet(options.patience)
    document: dict[str, Any] = {
        "schema": 1, "kind": "squares", "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "machine": workers.machine(),
        "results": [], "interrupted": False,
    }  # fmt: skip
    total = len(options.isa) * len(options.threads) * len(options.dtype) * len(options.size)
    try:
        with progress.bar("squares", total) as bar:
            for isa in options.isa:
                for threads in options.threads:
                    environment = {"FASTGEMM_ISA": isa} if isa else {}
                    with workers.Worker("fastgemm", threads, environment=environment) as worker:
                        about = worker.start()
                        if not about["ok"]:
                            raise LookupError(about["reason"])
                        for dtype in options.dtype:
                            for size in options.size:
                                case = cases.Case(dtype, size, size, size, cls="square", threads=threads)
                                bar.step(f"{case.label} on {threads}")
                                result = one(worker, case, options, quiet)
                                document["results"] += [result] if result else []
    except KeyboardInterrupt:
        document["interrupted"] = True
    document["foreign_load"] = load.foreign()
    return document


def text(document: dict[str, Any]) -> str:
    """Lay the results out as a table."""
    lines = []
    for result in document["results"]:
        case = cases.Case(**result["case"])
        wanted = result["goal"]
        verdict = "-" if wanted is None else "met" if result["median"] >= wanted else "MISSED"
        lines.append(
            [
                case.dtype, result["isa"], str(case.threads), case.shape, f"{max(result['rates']) * 1e-9:.1f}",
                f"{statistics.median(result['peaks']) * 1e-9:.1f}", f"{result['median']:.1f}", f"{result['best']:.1f}",
                "-" if wanted is None else f"{wanted:.0f}", verdict,
            ]
        )  # fmt: skip
    head = ["dtype", "ISA", "threads", "shape", "best GFLOP/s", "peak", "median %", "best %", "goal", ""]
    busy = document.get("foreign_load", 0.0)
    note = f"\n\nWARNING: other processes kept {busy:.2f} cores busy during this run." if busy > 0.1 else ""
    return f"{document['machine']['cpu']}\n\n{stats.table(head, lines)}{note}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; with --require 1 when a goal is missed, 2 when nothing can be timed."""
    options = parser().parse_args(arguments)
    try:
        document = measure(options)
    except (LookupError, workers.Died) as error:
        progress.say(f"squares.py: {error}")
        return 2
    if options.json:
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(text(document))
    missed = [r for r in document["results"] if r["goal"] is not None and r["median"] < r["goal"]]
    return 130 if document["interrupted"] else 1 if options.require and missed else 0


if __name__ == "__main__":
    sys.exit(main())
