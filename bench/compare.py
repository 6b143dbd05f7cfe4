"""Compare matrix products of several libraries, shape by shape, within one run.

    python bench/compare.py --quick
    python bench/compare.py --shapes bench/shapes/gemm_shapes.csv --dtype float32 \\
        --threads 1 2 --peers numpy --json out.json
    python bench/compare.py --shapes 512x512x512 64x3072x768 --peers numpy numpy-best torch mkl onednn
    python bench/compare.py --list

Every library lives in a process of its own.  All of them stay alive for the whole run and
take turns, one sample at a time, for several rounds: the drift of a shared machine hits
them alike, and every ratio comes from one run.  A ratio is fastgemm's speed over the peer's:
above 1, fastgemm is faster.

A sample is a loop of calls, as many as fill --sample seconds, cut into five chunks (of a call each
where calls are long and the budget allows five); the best chunk of all rounds counts (--statistic
median: the median).  Before a sample, fastgemm's team is waited for where it rests: it does beside
busy neighbours (fastgemm/driver/threads.pxd).  Operands are hot: the same arrays
in every call, in cache where they fit (--operands rotated: enough pairs of operands to add up
to 128 MiB take turns).  Every call makes a fresh output, as a user's call does (--reuse-out: one
output per library, written again and again).  Every product is checked before it is timed.

Where the operands of a process happen to lie in memory decides shapes of about the size of L3 by up to
1.5, for as long as the process lives.  --again times the shapes that were lost in new processes and lists
their ratios by themselves: means and tables stay those of the first ones.

MKL and oneDNN are reached through ctypes.  Where that call alone (measured on a 1x1x1 product)
takes over a tenth of their time, the shape does not count for them; the output says how many.

The lists: bench/shapes/gemm_shapes.csv (186 shapes of real workloads, grouped by class) and
bench/shapes/complaint_shapes.csv (shapes of users' reports, with a dtype each).
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cases
import peers
import progress
import turns
import workers
from load import Load, Quiet, busy

SETTINGS = ("rounds", "sample", "statistic", "operands", "reuse_out", "busy")


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = list(peers.libraries())
    what = made.add_argument_group("what to compare")
    what.add_argument(
        "--shapes", nargs="+", default=[str(cases.DEFAULT_LIST)], metavar="CSV|MxNxK[xBATCH]",
        help="lists of shapes, or shapes themselves (default: the shipped list gemm_shapes.csv)",
    )  # fmt: skip
    what.add_argument(
        "--dtype", nargs="+", default=[], metavar="DTYPE",
        help="dtypes, or operands:result (int8:int32); filters a list with its own",
    )  # fmt: skip
    what.add_argument("--threads", nargs="+", type=int, default=[1], metavar="N", help="thread counts (default 1)")
    what.add_argument("--peers", nargs="+", default=["numpy"], choices=known, help="libraries to compare with")
    what.add_argument("--subject", default="fastgemm", choices=known, help="library that the ratios are of")
    what.add_argument("--classes", nargs="+", metavar="CLASS", help="only shapes of these classes")
    what.add_argument("--quick", action="store_true", help="up to three shapes a class, none above 2.2 GFLOP")
    what.add_argument(
        "--limit",
        type=float,
        metavar="GIB",
        help="skip shapes whose operands, once a library, need more (default: half of the free memory)",
    )
    how = made.add_argument_group("how to time")
    how.add_argument("--rounds", type=int, default=5, help="turns of every library on a shape (default 5)")
    how.add_argument(
        "--sample", type=float, default=0.01, metavar="SECONDS", help="length of one sample (default 0.01)"
    )
    how.add_argument(
        "--budget",
        type=float,
        default=2.0,
        metavar="SECONDS",
        help="most for one library on one shape; fewer rounds beyond (default 2)",
    )
    how.add_argument(
        "--patience",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="wait before samples while other processes run, this long in all (default 30)",
    )
    how.add_argument(
        "--timeout",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="give up on a product that takes longer (default 120)",
    )
    how.add_argument(
        "--again", type=int, default=0, metavar="N",
        help="time shapes that were lost again, by N new sets of processes (default 0)",
    )  # fmt: skip
    how.add_argument("--statistic", choices=("best", "median"), default="best", help="what stands for the samples")
    how.add_argument(
        "--operands", choices=("hot", "rotated"), default="hot", help="same arrays every call, or many in turn"
    )
    how.add_argument(
        "--busy", type=int, default=0, metavar="N", help="keep N cores busy by other processes meanwhile (default 0)"
    )
    how.add_argument("--reuse-out", action="store_true", help="write to one output instead of a fresh one a call")
    how.add_argument(
        "--python", action="append", default=[], metavar="[NAME=]PATH", help="interpreter of one library, or of all"
    )
    then = made.add_argument_group("what to do with it")
    then.add_argument("--json", type=Path, metavar="FILE", help="write everything measured (bench/report.py reads it)")
    then.add_argument(
        "--worst", type=int, default=10, metavar="N", help="how many of the worst shapes to list (default 10)"
    )
    then.add_argument("--require", type=float, metavar="RATIO", help="exit 1 when a total geometric mean is lower")
    then.add_argument(
        "--require-class", type=float, metavar="RATIO", help="exit 1 when a class's geometric mean is lower"
    )
    then.add_argument("--list", action="store_true", help="say which libraries can be timed here, and stop")
    return made


def chosen_cases(options: argparse.Namespace) -> list[cases.Case]:
    """Read, filter and thin out the shapes that were asked for."""
    found: list[cases.Case] = []
    for item in options.shapes:
        if Path(item).suffix == ".csv":
            found += cases.read(item, options.dtype)
        else:
            found += [cases.parse(item, dtype) for dtype in options.dtype or ["float32"]]
    if options.classes:
        unknown = set(options.classes) - {case.cls for case in found}
        if unknown:
            known = ", ".join(sorted({case.cls for case in found}))
            raise ValueError(f"no shape of class {', '.join(sorted(unknown))}; there are: {known}")
        found = [case for case in found if case.cls in options.classes]
    return cases.quick(found) if options.quick else found


class Run(turns.Turns):
    """One thread count: the living workers and what they measured."""

    def __init__(self, options: argparse.Namespace, threads: int, quiet: Quiet) -> None:
        self.options, self.threads = options, threads
        pythons = workers.interpreters(options.python)
        names = dict.fromkeys([options.subject, *options.peers])
        crew = [workers.Worker(name, threads, pythons.get(name)) for name in names]
        super().__init__(crew, quiet, options.rounds, options.budget, options.timeout)
        self.results: list[dict[str, Any]] = []

    def time(self, case: cases.Case) -> None:
        """Time one case on every library, in turns; the result is kept."""
        case, options = case.replace(threads=self.threads), self.options
        result: dict[str, Any] = {"case": case.to_dict(), "times": {}, "errors": {}, "peak": []}
        self.results.append(result)
        self.take(
            result, options.timeout, case=result["case"], sample=options.sample, operands=options.operands,
            reuse_out=options.reuse_out, budget=options.budget,
        )  # fmt: skip

    def sampled(self, worker: workers.Worker, result: dict[str, Any]) -> list[float]:
        """Return a sample, after one of the peak of the machine at this moment."""
        dtype = result["case"]["dtype"]
        if worker.name == "fastgemm" and dtype in ("float32", "float64", "complex64", "complex128"):
            result["peak"].append(worker.ask("peak", dtype=dtype)["rate"])
        return super().sampled(worker, result)


def time_again(options: argparse.Namespace, document: dict[str, Any], quiet: Quiet) -> None:
    """Time the shapes that were lost by new processes, as often as asked for; Ctrl-C ends it."""
    import verdict

    lost: dict[int, list[cases.Case]] = {}
    for row in verdict.lost(document):
        lost.setdefault(row.shape["threads"], []).append(cases.Case(**row.shape))
    with progress.bar("again", options.again * sum(map(len, lost.values()))) as bar:
        for threads, turn in ((threads, turn) for threads in lost for turn in range(options.again)):
            run = Run(options, threads, quiet)
            try:
                for case in lost[threads]:
                    bar.step(f"{case.label} on {threads} thread{'s' * (threads > 1)}, processes {turn + 2}")
                    run.time(case)
                    document["again"].append(run.results[-1])
            except KeyboardInterrupt:
                document["interrupted"] = True
                return
            finally:
                run.stop()


def measure(options: argparse.Namespace, found: list[cases.Case]) -> dict[str, Any]:
    """Run everything; what is finished is returned even after Ctrl-C."""
    document: dict[str, Any] = {
        "schema": 1, "kind": "compare", "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "machine": workers.machine(),
        "subject": options.subject, "peers": [name for name in options.peers if name != options.subject],
        "settings": {name: getattr(options, name) for name in SETTINGS},
        "libraries": {}, "skipped": [], "results": [], "again": [], "interrupted": False,
    }  # fmt: skip
    copies = len(document["peers"]) + 1
    limit = options.limit * 2**30 if options.limit else workers.free_memory() / 2
    fits, over = cases.within(found, limit, copies)
    document["skipped"] = [
        {"case": case.to_dict(), "reason": f"needs {case.bytes * copies / 2**30:.1f} GiB, limit {limit / 2**30:.1f}"}
        for case in over
    ]
    load, quiet = Load(), Quiet(0 if options.busy else options.patience)
    run: Run | None = None
    try:
        with busy(options.busy), progress.bar("comparing", len(fits) * len(options.threads)) as bar:
            for threads in options.threads:
                run = Run(options, threads, quiet)
                document["libraries"][str(threads)] = run.about
                if not run.about[options.subject]["ok"]:
                    raise LookupError(f"{options.subject} cannot be timed: {run.about[options.subject]['reason']}")
                for case in fits:
                    bar.step(f"{case.label} on {threads} thread{'s' * (threads > 1)}")
                    run.time(case)
                document["results"] += run.results
                run.stop()
    except KeyboardInterrupt:
        document["interrupted"] = True
        if run is not None:
            document["results"] += run.results[:-1]
    finally:
        if run is not None:
            run.stop()
    if options.again and not document["interrupted"]:
        time_again(options, document, quiet)
    document["foreign_load"] = load.foreign()
    return document


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0, or 1 when a requirement is missed, 2 when nothing can be timed, 130 where it was ended."""
    options = parser().parse_args(arguments)
    # Imported late: --help needs none of it.
    import verdict

    if options.list:
        pythons = workers.interpreters(options.python)
        for name, cls in peers.libraries().items():
            with workers.Worker(name, 1, pythons.get(name)) as worker:
                about = worker.start()
                print(f"{name:11} {'yes' if about['ok'] else 'no '}  {verdict.describe(about) or cls.summary}")
        return 0
    try:
        found = chosen_cases(options)
        if not found:
            raise ValueError("no shape is left to time")
        document = measure(options, found)
    except (OSError, ValueError, LookupError) as error:
        progress.say(f"compare.py: {error}")
        return 2
    if options.json:
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(verdict.text(document, options.worst))
    missed = verdict.missed(document, options.require or -math.inf, options.require_class or -math.inf)
    for line in missed:
        print(f"REQUIREMENT MISSED: {line}")
    return 130 if document["interrupted"] else 1 if missed else 0


if __name__ == "__main__":
    # Told to end, it ends as by Ctrl-C: with what it has.  (Here and not in `main`: whoever calls that keeps its own.)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
