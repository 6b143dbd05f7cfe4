"""Another build of fastgemm beside this one: what a change gained, shape by shape.

    git worktree add /tmp/before HEAD~1        # and build it there: pip install -e . in an environment of its own
    python bench/builds.py /tmp/before --shapes 784x8x72x32 20000x32x128 --rounds 6
    python bench/builds.py /tmp/before --begin 16 --shapes 400x400x400 6x800x800
    python bench/builds.py /tmp/before --dtype float64 --threads 2 --shapes bench/shapes/complaint_shapes.csv

Every round starts both builds in new processes, because where the operands of a process lie in memory decides as much
as a change does: shapes of 8 to 32 MB come out in two modes. In a round both take turns on each shape, a sample at a
time, one thread on another CPU every turn. The ratios are this build's speed over the other one's, above 1 is faster:
of the best samples of all processes, and of the median process (each by the best of its samples).
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cases
import compare
import load
import progress
import stats
import turns
import workers

HERE = Path(__file__).resolve().parents[1]


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("other", type=Path, help="a checkout with the other build in place")
    made.add_argument("--shapes", nargs="+", required=True, metavar="CSV|MxNxK[xBATCH]", help="as bench/compare.py's")
    made.add_argument("--classes", nargs="+", metavar="CLASS", help="only shapes of these classes")
    made.add_argument("--quick", action="store_true", help="up to three shapes a class, none above 2.2 GFLOP")
    made.add_argument(
        "--dtype", nargs="+", default=[], metavar="DTYPE", help="element types (default float32, or the list's own)"
    )
    made.add_argument("--threads", type=int, default=1, metavar="N", help="threads of a process (default 1)")
    made.add_argument("--rounds", type=int, default=4, help="processes of each build (default 4)")
    made.add_argument("--sample", type=float, default=0.005, metavar="SECONDS", help="length of a sample")
    made.add_argument("--budget", type=float, default=0.5, metavar="SECONDS", help="of a process on a shape")
    made.add_argument(
        "--patience", type=float, default=1.0, metavar="SECONDS", help="most that a round waits for other processes"
    )
    made.add_argument(
        "--begin", type=int, choices=range(0, 64, 16), metavar="BYTES",
        help="operands begin so many bytes into a line: 0, 16, 32 or 48 (default: where NumPy puts them, mostly 16)",
    )  # fmt: skip
    made.add_argument("--reuse-out", action="store_true", help="write to one output instead of a fresh one a call")
    return made


def times(
    builds: Mapping[str, Path], shapes: Sequence[cases.Case], options: argparse.Namespace, bar: progress.Bar
) -> list[dict[str, float]]:
    """Return the best seconds of each shape in a new process of every build, which take turns.

    Raises
    ------
    RuntimeError
        When a build does not run, or does not compute a shape.
    """
    crew = [
        workers.Worker("fastgemm", options.threads, environment={"PYTHONPATH": str(tree)}, label=name)
        for name, tree in builds.items()
    ]
    rounds = max(2, min(20, int(options.budget / options.sample)))
    both, found = turns.Turns(crew, load.Quiet(options.patience), rounds, options.budget), []
    try:
        for name, about in both.about.items():
            if not about["ok"]:
                raise RuntimeError(f"{builds[name]}: {about['reason']}")
        for case in shapes:
            bar.step(case.label)
            result: dict[str, Any] = {"times": {}, "errors": {}}
            both.take(
                result, both.patience, case=case.to_dict(), sample=options.sample, operands="hot",
                reuse_out=options.reuse_out, budget=options.budget, begin=options.begin,
            )  # fmt: skip
            for name, why in result["errors"].items():
                raise RuntimeError(f"{builds[name]}: {case.label}: {why}")
            found.append({name: min(result["times"][name]["samples"]) for name in builds})
    finally:
        both.stop()
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 2 where a build or a shape list is missing."""
    options = parser().parse_args(arguments)
    builds = {"this": HERE, "other": options.other.resolve()}
    found: list[list[dict[str, float]]] = []
    try:
        shapes = compare.chosen_cases(options)
        for tree in builds.values():
            # Without one there the installed package would answer for it.
            if not any((tree / "fastgemm" / "driver").glob("_plan.*.*")):
                raise RuntimeError(f"{tree}: no build of fastgemm in place there")
        with progress.bar("builds", options.rounds * len(shapes)) as bar:
            for turn in range(options.rounds):
                order = list(builds)[:: 1 if turn % 2 == 0 else -1]
                found.append(times({name: builds[name] for name in order}, shapes, options, bar))
    except (OSError, RuntimeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{workers.machine()['cpu']}, {options.threads} thread(s), {options.rounds} processes a build")
    rows, ratios = [], []
    for at, case in enumerate(shapes):
        this, other = ([process[at][name] for process in found] for name in ("this", "other"))
        ratio = statistics.median(other) / statistics.median(this)
        ratios.append(ratio)
        shown = [stats.duration(statistics.median(seconds)) for seconds in (this, other)]
        rows.append([case.label, *shown, stats.number(min(other) / min(this)), stats.number(ratio)])
    rows.append(["geometric mean", "", "", "", stats.number(stats.geometric_mean(ratios))])
    print("\n" + stats.table(["shape", "this", "other", "best", "median"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
