"""What searches of the past are worth to the next: trials that `xgb` takes with and without them, on recorded tables.

"Learning to Optimize Tensor Programs" (arXiv 1805.08166) reports that a model that has seen searches of other
operators reaches the same cost 2 to 10 times faster.  Here every table but the smallest is searched twice, by the same
seeds: without history, and with what searches of all smaller products measured (one search of 0.1 % of the space
each, as a tuner's log of trials would have it).  The ratio is of the trials that the median search takes to come within
some percent of the table's best.

    python bench/transfer.py                                     # Markdown; some minutes
    python bench/transfer.py --seeds 4 --out results             # results/transfer.md
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import cost_tables
import numpy as np
import papers
import stats

from fastgemm.tune import strategies
from fastgemm.tune.nests import Experience

# Costs over the table's best.
GOALS = (1.5, 1.2, 1.1, 1.05, 1.02)
CLAIM = (2, 10)


def experience(table: cost_tables.Table, budget: int, seed: int) -> Experience:
    """What one search without history leaves behind."""
    known = papers.replay("xgb", table, budget, seed).known
    return Experience(table.space.nests(list(known)), np.array(list(known.values())))


def compared(table: cost_tables.Table, history: Sequence[Experience], budget: int, seeds: int) -> list[np.ndarray]:
    """Best so far over the table's best, a row a seed: without history, and with it."""
    return [
        np.array([papers.replay("xgb", table, budget, seed, past).best for seed in range(seeds)]) / table.best
        for past in ((), history)
    ]


Section = tuple[list[str], list[float]]


def section_of(size: str, sources: Sequence[str], budget: int, curves: Sequence[np.ndarray]) -> Section:
    """The section of one table, and its ratios."""
    found = [
        f"## {size}: {len(curves[0])} seeds, {budget} measurements, history of {', '.join(sources)}",
        "",
        "| within | trials without | with | ratio |",
        "|---|---:|---:|---:|",
    ]
    ratios = []
    for goal in GOALS:
        without, given = (papers.trials_to(one, goal) for one in curves)
        ratio = without / given
        ratios.append(ratio)
        cells = ["never" if math.isnan(trials) else f"{trials:.0f}" for trials in (without, given)]
        found.append(f"| {round(100 * (goal - 1))} % | {cells[0]} | {cells[1]} | {ratio:.1f} |")
    ends = [f"{np.median(one[:, -1]):.3f}" for one in curves]
    return [*found, "", f"Best at the end, median: {ends[0]} without, {ends[1]} with.", ""], ratios


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", type=Path, help="tables of record.py (default: all in bench/tables)")
    parser.add_argument("--seeds", type=int, default=10, help="runs of each (default: 10)")
    parser.add_argument("--share", type=float, default=0.1, help="%% of the space to measure (default: 0.1)")
    parser.add_argument("--out", type=Path, help="folder for transfer.md (default: print only)")
    options = parser.parse_args(arguments)
    if options.seeds < 1 or not 0 < options.share <= 100:
        parser.error("at least one seed, and a share over 0 and up to 100")
    try:
        strategies.load("xgb")
        found = [cost_tables.load(path) for path in options.tables or papers.shipped()]
    except ModuleNotFoundError as error:
        parser.error(f"{error.name} is not installed: pip install fastgemm[xgb]")
    except cost_tables.TableError as error:
        parser.error(str(error))
    if len(found) < 2:
        parser.error("one table to learn from and one to search, at least")
    found.sort(key=lambda table: len(table.space))
    past: list[Experience] = []
    names: list[str] = []
    text, ratios = [], []
    for table in found:
        size = "x".join(map(str, table.space.sizes.values()))
        budget = max(1, round(len(table.space) * options.share / 100))
        if past:
            began = time.monotonic()
            section, some = section_of(size, names, budget, compared(table, past, budget, options.seeds))
            text += section
            ratios += some
            print(f"{size}: {2 * options.seeds} searches in {time.monotonic() - began:.0f} s", file=sys.stderr)
        # A seed that no compared search has.
        past.append(experience(table, budget, options.seeds))
        names.append(size)
    known = [ratio for ratio in ratios if ratio == ratio]
    low, high = CLAIM
    mean = stats.geometric_mean(known)
    text.append(f"Geometric mean of {len(known)} ratios: {mean:.1f}; the paper claims {low} to {high}.\n")
    print("\n".join(text))
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "transfer.md").write_text("\n".join(text))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
