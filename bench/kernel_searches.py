"""Search strategies on the library's own space: replayed on recorded shapes, and the default one live.

Replay answers from ``tables/kernels.jsonl.xz``, a log of trials in which every configuration of 12 float32 shapes was
measured (2 threads, Zen 5); no clock is read.  A figure is the best so far over the shape's best, the median of the
seeds, the geometric mean of the shapes.  It is single timings, so 1 to 2 % of it are noise.  With ``+`` behind its name
a strategy that learns (``xgb+``) gets the trials of all other shapes.

Live, each shape is tuned for some seconds, worker start and final included, and what was found is then timed in turn
with the start and with the five best that the recording knows; the figure is its time over the least.

    python bench/kernel_searches.py                              # Markdown; some minutes, most of them in xgb+
    python bench/kernel_searches.py --strategies auto xgb xgb+ gbfs
    python bench/kernel_searches.py --live --seconds 10          # two minutes, on a quiet machine
    python bench/kernel_searches.py --live --first 6 --count 6   # half of them
"""

from __future__ import annotations

import argparse
import contextlib
import json
import lzma
import math
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import replays
from stats import duration, geometric_mean

from fastgemm.heuristic import rules
from fastgemm.problem import Config, Problem
from fastgemm.tune import driver, history, strategies
from fastgemm.tune.kernel_nests import described
from fastgemm.tune.live import LiveRunner
from fastgemm.tune.nests import Experience
from fastgemm.tune.space import Space
from fastgemm.tune.words import describe, name

RECORDED = Path(__file__).parent / "tables" / "kernels.jsonl.xz"
USUAL = ("auto", "gbfs", "na2c", "xgb+", "xgb", "tpe", "ga", "cmaes", "rnn", "random", "model")
AFTER = (4, 8, 16, 32, 64)
RIVALS, ROUNDS, NEAR = 5, 15, 1.05

Recorded = dict[Problem, dict[Config, float]]


def recorded(path: Path = RECORDED) -> Recorded:
    """Seconds of every configuration of every problem; the first of each is the start, failures are infinite."""
    found: Recorded = {}
    for line in lzma.decompress(path.read_bytes()).decode("ascii").splitlines():
        trial = history.decode(json.loads(line))
        found.setdefault(trial.problem, {})[trial.config] = trial.seconds if trial.outcome == "ok" else math.inf
    return found


def replayed(strategy: str, table: Recorded, seeds: int) -> np.ndarray:
    """Best so far over the best after the start and each trial: a row a problem."""
    rows = []
    for problem, costs in table.items():
        past = [
            Experience(described(other, list(them)), np.array(list(them.values())))
            for other, them in table.items()
            if other != problem
        ]
        chosen = strategies.load(strategy.removesuffix("+")).informed(past if strategy.endswith("+") else [])
        curves = [_replay(chosen, problem, costs, seed) for seed in range(seeds)]
        rows.append(np.median(curves, axis=0) / min(costs.values()))
    return np.array(rows)


def _replay(strategy: strategies.Strategy, problem: Problem, costs: Mapping[Config, float], seed: int) -> np.ndarray:
    start = next(iter(costs))
    space, last = Space(problem, start), AFTER[-1]
    found = replays.replay(space, lambda config: costs.get(config, math.inf), strategy, last, seed)
    seconds = list(found.values())
    return np.minimum.accumulate([*seconds, *[math.inf] * (last + 1 - len(seconds))])


def replay_all(names: Sequence[str], seeds: int) -> None:
    """Print a table of strategies."""
    table = recorded()
    print(f"{len(table)} shapes, {sum(map(len, table.values()))} configurations, {seeds} seeds", end="\n\n")
    print("| strategy |" + "".join(f" after {count} |" for count in AFTER) + " worst shape |")
    print("|---|" + "---:|" * (len(AFTER) + 1))
    for one in names:
        began = time.monotonic()
        curves = replayed(one, table, seeds)
        means = [f" {geometric_mean(list(curves[:, count])):.3f} |" for count in AFTER]
        print(f"| {one} |" + "".join(means) + f" {curves[:, -1].max():.3f} |", flush=True)
        print(f"{one}: {time.monotonic() - began:.1f} s", file=sys.stderr)


def live(
    problem: Problem, known: Mapping[Config, float], strategy: str, seconds: float, seed: int
) -> tuple[float, str]:
    """Tune a shape; return the time of what was found over the best of its rivals, and a line about it."""
    chosen = strategies.load(strategy)
    space = Space(problem, rules.config(problem))
    budget = driver.Budget(deadline=time.monotonic() + seconds)
    with contextlib.closing(LiveRunner(problem, seed)) as runner:
        entry = driver.tune(space, runner, chosen, budget, seed)
    spent = time.monotonic() - budget.deadline + seconds
    used = entry.config if entry.status == "confirmed" else space.start
    rivals = [config for config in sorted(known, key=known.__getitem__)[:RIVALS] if config in space]
    configs = list(dict.fromkeys([used, space.start, *rivals]))
    ratio, seconds_of_it = math.inf, math.inf
    for attempt in range(2):  # one unlucky process does not condemn a result
        with contextlib.closing(LiveRunner(problem, seed + 1 + attempt)) as runner:
            medians = [statistics.median(one) if one else math.inf for one in runner.rounds(configs, ROUNDS)]
        if medians[0] / min(medians) < ratio:
            ratio, seconds_of_it = medians[0] / min(medians), medians[0]
        if ratio <= NEAR:
            break
    said = f"{name(problem)}: {entry.trials} trials, {spent:.1f} s, {duration(seconds_of_it)}, {ratio:.3f} of the best"
    return ratio, f"{said} ({entry.status}: {describe(used)})"


def live_all(options: argparse.Namespace) -> int:
    """Print a line a shape, and how many are within 5 %."""
    table = list(recorded().items())[options.first : options.first + options.count]
    ratios = []
    for problem, known in table:
        ratio, line = live(problem, known, options.strategies[0], options.seconds, options.seed)
        ratios.append(ratio)
        print(line, flush=True)
    near = sum(ratio <= NEAR for ratio in ratios)
    print(
        f"{options.strategies[0]}, {options.seconds:g} s a shape: {near} of {len(ratios)} within {NEAR - 1:.0%} of the "
        f"best known, geometric mean {geometric_mean(ratios):.3f}, worst {max(ratios):.3f}"
    )
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategies", nargs="+", default=list(USUAL), metavar="NAME", help="default: %(default)s")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each strategy (default: 5)")
    parser.add_argument("--live", action="store_true", help="tune here, by the first of the strategies")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a shape, live, before its final (default: 10)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="live: leave out the first N shapes")
    parser.add_argument("--count", type=int, default=99, metavar="N", help="live: so many shapes")
    parser.add_argument("--seed", type=int, default=0, help="live: of the search and the operands")
    options = parser.parse_args(arguments)
    known = {*strategies.names(), *(one + "+" for one in strategies.names())}
    if unknown := [one for one in options.strategies if one not in known]:
        parser.error(f"no strategies {unknown}; there are {', '.join(strategies.names())}")
    if options.seeds < 1 or options.count < 1 or options.first < 0 or not options.seconds > 0:
        parser.error("seeds, counts and seconds must be above zero")
    if options.live:
        return live_all(options)
    replay_all(options.strategies, options.seeds)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
