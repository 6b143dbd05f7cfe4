"""What tuning is worth on top of the heuristic: shapes drawn from a list, tuned, and timed again in fresh processes.

Each shape is tuned for some seconds by one strategy.  Where that confirms a gain, the configuration is timed in pairs
with the heuristic's in two processes that have never seen it, and the lesser gain is the figure; where it does not,
nothing is recorded, calls go on as before, and the figure is 1.

    python bench/tuned.py --sample 20                            # 20 shapes of the 186, float32; a minute and a half
    python bench/tuned.py --dtype float64 --threads 1 --sample 20 --seed 1
    python bench/tuned.py --sample 186 --keep tuned.jsonl --stop-after 90    # again, until it says that all are done

Prints a line a shape, then the geometric mean, how many gain a tenth, and the least; and how many of them a fresh
process could not time, which are in none of these.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from stats import duration, geometric_mean

from fastgemm.heuristic import rules
from fastgemm.problem import Problem
from fastgemm.threads import get_num_threads
from fastgemm.tune import driver, recheck, shapes, strategies
from fastgemm.tune.live import LiveRunner
from fastgemm.tune.measure import footprint
from fastgemm.tune.space import Space
from fastgemm.tune.words import describe, name

SHAPES = Path(__file__).parent / "shapes" / "gemm_shapes.csv"
MOST_BYTES = 2 << 30
LARGE = 1.10


class Outcome(NamedTuple):
    """A problem by name, and untuned over tuned time in a fresh process; 1: nothing was recorded, 0: it had no time."""

    problem: str
    gain: float


def tuned(problem: Problem, strategy: strategies.Strategy, seconds: float, seed: int) -> tuple[Outcome, str]:
    """Tune a problem and time the outcome anew; returns it with a line about it."""
    space = Space(problem, rules.config(problem))
    budget = driver.Budget(strategy.trials, time.monotonic() + seconds)
    with contextlib.closing(LiveRunner(problem, seed)) as runner:
        entry = driver.tune(space, runner, strategy, budget, seed)
    said = f"{name(problem)}: {entry.trials} trials, {duration(entry.baseline_seconds)}"
    if entry.status != "confirmed":
        return Outcome(name(problem), 1.0), f"{said}, {entry.status}"
    # Of two, because one in which the second core was taken says 4.8 of a plan with one thread.  One that cannot time
    # it says that the record is worth nothing.
    gain = min(recheck.measure(driver.record_of(entry), seed + again) or 0.0 for again in (1, 3))
    return Outcome(
        name(problem), gain
    ), f"{said}, {entry.gain:+.1%} in the final, {gain:.3f} anew: {describe(entry.config)}"


def drawn(options: argparse.Namespace) -> list[Problem]:
    """The shapes of the list that are asked for, in an order that the seed decides."""
    found, _ = shapes.from_csv(options.shapes_file, options.dtype, options.threads or [get_num_threads()])
    fitting = [problem for problem in dict.fromkeys(found) if footprint(problem) <= MOST_BYTES]
    random.Random(options.seed).shuffle(fitting)
    return fitting[: options.sample]


def kept(path: Path | None) -> dict[str, float]:
    """Gains of earlier runs, by problem."""
    if path is None or not path.exists():
        return {}
    outcomes = [Outcome(**json.loads(line)) for line in path.read_text().splitlines()]
    return {outcome.problem: outcome.gain for outcome in outcomes}


def summary(gains: Sequence[float]) -> str:
    """The line at the end.

    Examples
    --------
    >>> summary([1.0, 1.21])
    'tuned against untuned over 2 problems: geometric mean 1.100, 1 of them 1.10 or more, least 1.000'
    """
    timed = [gain for gain in gains if gain > 0]
    large, lost = sum(gain >= LARGE for gain in timed), len(gains) - len(timed)
    text = (
        f"tuned against untuned over {len(timed)} problems: geometric mean {geometric_mean(timed):.3f}, {large} "
        f"of them {LARGE:.2f} or more, least {min(timed, default=math.nan):.3f}"
    )
    return text + (f"; besides {lost} whose tuned configuration could not be timed" if lost else "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes-file", type=Path, default=SHAPES, help="a list of shapes (default: the 186)")
    parser.add_argument("--dtype", nargs="+", type=shapes.type_named, default=["f32"], help="default: float32")
    parser.add_argument("--threads", nargs="+", type=int, help="default: what calls use")
    parser.add_argument("--sample", type=int, default=20, metavar="N", help="so many problems (default: 20)")
    parser.add_argument("--strategy", choices=strategies.names(), default="auto", help="default: auto")
    parser.add_argument("--seconds", type=float, default=3.0, help="of a search (default: 3)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw, the searches and the operands")
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="add outcomes to FILE; what is in it is not done again"
    )
    parser.add_argument("--stop-after", type=float, metavar="S", help="begin no search after so many seconds")
    options = parser.parse_args(arguments)
    if options.sample < 1 or not options.seconds > 0 or min(options.threads or [1]) < 1:
        parser.error("a sample, seconds and threads must be above zero")
    try:
        problems, gains = drawn(options), kept(options.keep)
    except (shapes.ShapeError, OSError, ValueError, TypeError) as error:
        parser.error(str(error))
    strategy, began, left = strategies.load(options.strategy), time.monotonic(), 0
    for problem in problems:
        if name(problem) in gains:
            continue
        if options.stop_after and time.monotonic() - began > options.stop_after:
            left += 1
            continue
        outcome, line = tuned(problem, strategy, options.seconds, options.seed)
        print(line, flush=True)
        gains[outcome.problem] = outcome.gain
        if options.keep:
            with open(options.keep, "a") as file:
                file.write(json.dumps(outcome._asdict()) + "\n")
    if left:
        print(f"{left} problems left; the same command goes on with them", file=sys.stderr)
    if done := [gains[name(problem)] for problem in problems if name(problem) in gains]:
        print(summary(done))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
