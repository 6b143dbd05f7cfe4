"""The papers' experiment on recorded tables: the best tiling that each strategy finds in 0.1 % of the space.

"Compiler-Level Matrix Multiplication Optimization for Deep Learning" (arXiv 1909.10616) reports that its searches,
G-BFS and N-A2C, find tilings that take 24 % less time than those of TVM's XGBoost tuner and 40 % less than those of an
RNN controller, when each may explore 0.1 % of the space.  This command repeats the comparison: every
strategy, ten seeds, as many measurements as 0.1 % of the space, answered from tables that ``record.py`` has made, so
that no clock is read and the same command gives the same answer everywhere.

    python bench/papers.py                                       # Markdown; some minutes, nearly all of them in xgb
    python bench/papers.py --out results                         # results/papers.md and two plots for each table
    python bench/papers.py --strategies gbfs random --share 0.01 --seeds 30
    python bench/papers.py --strategies xgb gbfs --set xgb.BATCH=64,64       # with other constants than their own

Columns: the best found over the best in the table (median of the seeds, their quartiles, the worst); how many of the
seeds come within 3 %; how much less time the median takes than random search's; how many measurements the median search
took to come within 10 % of the best; and the seconds that the measured states take, one run of each.
``transfer.py`` has the other paper's experiment: what searches of the past are worth.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import constants
import cost_tables
import numpy as np
import replays

from fastgemm.tune import strategies
from fastgemm.tune.nested import State
from fastgemm.tune.nests import Experience

TABLES = Path(__file__).parent / "tables"

# The paper's own, then what is quick enough for ten seeds; any other that works on every space may be named.
USUAL = ("auto", "gbfs", "na2c", "xgb", "rnn", "model", "ga", "cmaes", "random")
CLOSE, NEAR = 1.03, 1.1
CLAIMS = {"xgb": 24, "rnn": 40}


def shipped() -> list[Path]:
    """The tables in bench/tables, the smallest product first."""
    return sorted(TABLES.glob("nested-*.xz"), key=lambda path: [int(n) for n in path.stem.split("-")[1].split("x")])


class Run(NamedTuple):
    """Best seconds after each measurement, what the states took until then, and their seconds in order."""

    best: np.ndarray
    elapsed: np.ndarray
    known: dict[State, float]


class Row(NamedTuple):
    """What the runs of one strategy say; times are over the table's best."""

    name: str
    median: float
    low: float
    high: float
    worst: float
    close: float
    saved: float
    reached: float
    spent: float


def trials_to(curves: np.ndarray, goal: float) -> float:
    """Measurements after which the median of some searches is at a goal; NaN where it never is.

    Examples
    --------
    >>> trials_to(np.array([[9.0, 2, 1], [9, 1, 1], [9, 9, 1]]), 2)
    2.0
    """
    near = np.median(curves, axis=0) <= goal
    return float(near.argmax() + 1) if near.any() else math.nan


def replay(name: str, table: cost_tables.Table, budget: int, seed: int, history: Sequence[Experience] = ()) -> Run:
    """Run a strategy until it has measured `budget` states; a state that is known costs nothing."""
    known = replays.replay(table.space, table, strategies.load(name).informed(history), budget - 1, seed)
    seconds = np.array(list(known.values()))
    # A search that ended early stays where it is.
    padded = np.concatenate([seconds, np.full(budget - len(seconds), np.inf)])
    elapsed = np.cumsum(np.where(np.isfinite(padded), padded, 0.0))
    return Run(np.minimum.accumulate(padded), elapsed, known)


def summary(name: str, runs: Sequence[Run], table: cost_tables.Table, yardstick: float) -> Row:
    """Sum up the seeds; `yardstick` is the median of random search, in seconds."""
    curves = np.array([run.best for run in runs]) / table.best
    low, median, high = np.quantile(curves[:, -1], [0.25, 0.5, 0.75])
    close = float(np.mean(curves[:, -1] <= CLOSE))
    saved = 1 - median * table.best / yardstick
    spent = float(np.median([run.elapsed[-1] for run in runs]))
    return Row(name, median, low, high, curves[:, -1].max(), close, saved, trials_to(curves, NEAR), spent)


def markdown(table: cost_tables.Table, budget: int, seeds: int, rows: Sequence[Row]) -> str:
    """Return the section of one table."""
    about, space = table.about, table.space
    size = "x".join(map(str, space.sizes.values()))
    middle, start = np.nanmedian(table.seconds) / table.best, table(space.start) / table.best
    lines = [
        f"## {size}: {budget} of {len(space)} states, {seeds} seeds",
        "",
        f"Recorded {about['date']}, {about['cpu']}, {about['isa']}, by `{about['command']}`; the best takes "
        f"{table.best * 1e3:.3f} ms, the median state {middle:.0f} times as long, the untiled one {start:.0f} times.",
        "",
        "| strategy | best found | quartiles | worst | within 3 % | less time than random | within 10 % after "
        "| seconds of runs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        reached = f"{row.reached:.0f}" if row.reached == row.reached else "never"
        lines.append(
            f"| {row.name} | {row.median:.3f} | {row.low:.3f} to {row.high:.3f} | {row.worst:.3f} "
            f"| {100 * row.close:.0f} % | {100 * row.saved:.0f} % | {reached} | {row.spent:.1f} |"
        )
    return "\n".join(lines) + "\n"


def claims(names: Sequence[str], medians: dict[str, dict[str, float]]) -> str:
    """Set what came out beside what the paper says."""
    lines = ["## Beside the paper's claims", ""]
    for peer, percent in CLAIMS.items():
        if peer not in names:
            lines.append(f"- {percent} % less time than `{peer}`: not compared, that strategy was not in this run.")
            continue
        for size, found in medians.items():
            saved = {one: 100 * (1 - found[one] / found[peer]) for one in ("gbfs", "na2c") if one in found}
            said = ", ".join(f"{one} {value:.0f} %" for one, value in saved.items())
            lines.append(f"- {percent} % less time than `{peer}`: at {size} {said}.")
    return "\n".join(lines) + "\n"


def draw(path: Path, title: str, runs: dict[str, list[Run]], table: cost_tables.Table) -> None:
    """Plot the best so far against the share explored, and against the time of the runs: medians, quartiles shaded."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (by_trials, by_time) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained", sharey=True)
    for (name, some), style in zip(runs.items(), ("-", "--", "-.", ":") * len(runs), strict=False):
        found = np.array([run.best for run in some]) / table.best
        share = 100 * np.arange(1, found.shape[1] + 1) / len(table.space)
        (line,) = _band(by_trials, share, found, style, name)
        # The seeds' clocks differ: what each had found by common moments.
        ends = [run.elapsed[-1] for run in some]
        moments = np.geomspace(min(run.elapsed[0] for run in some), max(ends), 200)
        timed = np.array(
            [run.best[np.maximum(np.searchsorted(run.elapsed, moments, side="right") - 1, 0)] for run in some]
        )
        _band(by_time, moments, timed / table.best, style, name, line.get_color())
    for axes, what in ((by_trials, "% of the space explored"), (by_time, "seconds of the measured runs")):
        axes.set_yscale("log")
        axes.set_xlabel(what)
        axes.axhline(1.0, color="black", linewidth=0.8)
    by_time.set_xscale("log")
    by_trials.set_ylabel("best so far over the table's best")
    by_trials.legend()
    figure.suptitle(title)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _band(axes: Any, at: np.ndarray, curves: np.ndarray, style: str, label: str, color: str | None = None) -> Any:
    low, median, high = np.quantile(curves, [0.25, 0.5, 0.75], axis=0)
    lines = axes.plot(at, median, style, label=label, color=color)
    axes.fill_between(at, low, high, color=lines[0].get_color(), alpha=0.15, linewidth=0)
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", type=Path, help="tables of record.py (default: all in bench/tables)")
    parser.add_argument(
        "--strategies",
        nargs="+",
        default=[name for name in USUAL if name in strategies.names()],
        metavar="NAME",
        help=f"of {', '.join(strategies.names())} (default: %(default)s)",
    )
    parser.add_argument("--seeds", type=int, default=10, help="runs of each strategy (default: 10)")
    parser.add_argument("--share", type=float, default=0.1, help="%% of the space to measure (default: 0.1)")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="NAME=VALUE", help="constants of strategies' modules: gbfs.RHO=5"
    )
    parser.add_argument("--out", type=Path, help="folder for papers.md and the plots (default: print only)")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.strategies if name not in strategies.names()]:
        parser.error(f"no strategies {unknown}; there are {', '.join(strategies.names())}")
    if options.seeds < 1 or not 0 < options.share <= 100:
        parser.error("at least one seed, and a share over 0 and up to 100")
    # Random search is the yardstick of a column.
    names = list(dict.fromkeys([*options.strategies, "random"]))
    for name in list(names):
        try:
            strategies.load(name)
        except ModuleNotFoundError as error:
            names.remove(name)
            print(f"{name} is left out: it needs {error.name}", file=sys.stderr)
    try:
        given = [constants.parse(text) for text in options.set]
        found = [cost_tables.load(path) for path in options.tables or shipped()]
    except (cost_tables.TableError, ValueError, ModuleNotFoundError) as error:
        parser.error(str(error))
    with constants.changed(given):
        compared(found, names, options)
    return 0


def compared(found: Sequence[cost_tables.Table], names: Sequence[str], options: argparse.Namespace) -> None:
    """Run the strategies on the tables; print, plot and keep what comes out."""
    sections, medians = [f"With {', '.join(options.set)}.\n"] if options.set else [], {}
    for table in found:
        size = "x".join(map(str, table.space.sizes.values()))
        budget = max(1, round(len(table.space) * options.share / 100))
        runs: dict[str, list[Run]] = {}
        for name in names:
            begin = time.monotonic()
            runs[name] = [replay(name, table, budget, seed) for seed in range(options.seeds)]
            print(f"{size}: {name}, {options.seeds} seeds in {time.monotonic() - begin:.1f} s", file=sys.stderr)
        medians[size] = {name: float(np.median([run.best[-1] for run in some])) for name, some in runs.items()}
        rows = [summary(name, some, table, medians[size]["random"]) for name, some in runs.items()]
        sections.append(markdown(table, budget, options.seeds, sorted(rows, key=lambda row: row.median)))
        if options.out:
            options.out.mkdir(parents=True, exist_ok=True)
            draw(options.out / f"papers-{size}.png", f"{size}, {options.seeds} seeds", runs, table)
    text = "\n".join([*sections, claims(names, medians)])
    print(text)
    if options.out:
        (options.out / "papers.md").write_text(text)


if __name__ == "__main__":
    raise SystemExit(main())
