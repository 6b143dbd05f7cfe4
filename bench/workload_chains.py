"""Hold the costs by which `fastgemm.graph` decides on chains against the clock.

    python bench/workload_chains.py
    python bench/workload_chains.py --networks MLP_2 MHA_1 --dtype int8 --batch 32 --threads 1 --details

Each network runs in every way that there is: operations one by one, and one chain of the first so many of them, for so
many rows at a time.  `chosen` is what `passes.chains` takes.  Its time is compared with that of the operations one by
one (`one by one`, above 1: the chain is faster) and of the fastest way of all (`best`, 1: nothing else is faster); the
two columns before say what the costs promised.  `order` is how often, of two ways whose times are at least 5 % apart,
the costs name the faster one.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import progress
import stats
import workers
import workload_cases
from workload_cases import Workload

APART = 0.05  # times that differ by less are not told apart


class Way(NamedTuple):
    """One way to run a network: how many operations in a chain (0: none), rows of an item, cost and seconds."""

    length: int
    block: int
    cost: float
    seconds: float

    def __str__(self) -> str:
        return f"{self.length} by {self.block}" if self.length else "one by one"


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(workload_cases.ALL)
    made.add_argument("--networks", nargs="+", choices=names, default=["MLP_1", "MLP_2", "MHA_1", "MHA_3"],
                      metavar="NAME", help=f"of {', '.join(names)} (default MLP_1 MLP_2 MHA_1 MHA_3)")  # fmt: skip
    made.add_argument("--dtype", nargs="+", choices=workload_cases.DTYPES, default=list(workload_cases.DTYPES),
                      metavar="DTYPE", help="(default: all three)")  # fmt: skip
    made.add_argument("--batch", nargs="+", type=int, default=[], metavar="N",
                      help="batch sizes (default: all five for perceptrons, 8 for attention)")  # fmt: skip
    made.add_argument("--threads", type=int, default=2, metavar="N", help="threads (default 2)")
    made.add_argument("--sample", type=float, default=0.05, metavar="SECONDS",
                      help="for each way of a network (default 0.05)")  # fmt: skip
    made.add_argument("--details", action="store_true", help="a line for every way")
    return made


def quickest(calls: Sequence[Callable[[], object]], sample: float) -> list[float]:
    """Return the shortest of many calls of each, which take turns: what other processes do disturbs that least."""
    found = [math.inf] * len(calls)
    for call in calls:
        call()
    ends = time.perf_counter() + sample * len(calls)
    while time.perf_counter() < ends:
        for at, call in enumerate(calls):
            call()
            turn = time.perf_counter() + sample / 10
            now = 0.0
            while now < turn:
                start = time.perf_counter()
                call()
                now = time.perf_counter()
                found[at] = min(found[at], now - start)
    return found


def measure(work: Workload, sample: float) -> tuple[Way, list[Way]]:
    """Return the way that is chosen, and all of them."""
    import workload_data
    import workload_graph

    import fastgemm
    from fastgemm.graph import compile, costs, passes
    from fastgemm.graph.passes.chains import Best, Choice, chained

    with fastgemm.threads(work.threads):
        written, given = workload_graph.graph(work, workload_data.operands(work))
        ready = passes.apply(written, "fine")
        run = [node for node in ready.nodes if node.kind != "view"]
        choice = Choice(ready, work.threads, fastgemm.cpu.caches())
        asked: list[tuple[int, int]] = [(0, 0)]
        for nodes in choice.parts(run):
            asked += [(len(nodes), block) for block in choice.blocks(nodes) if choice.fits(nodes, block)]
        picked = choice.best(run)
        known = costs.Costs(ready, work.threads)
        promised, compiled = [], []
        for length, block in asked:
            keys = choice.keys(run[:length], block)
            cost = known.apart(run[length:]) + (known.chained(run[:length], block, keys) if length else 0.0)
            promised.append(cost)
            made = chained(ready, [Best(run[:length], block, keys, cost)]) if length else ready
            compiled.append(compile(made, fusion="none"))

        def call(graph: Any) -> Callable[[], object]:
            return lambda: graph(given)

        times = quickest([call(one) for one in compiled], sample)
    ways = [Way(*way, cost, taken) for way, cost, taken in zip(asked, promised, times, strict=True)]
    return next(way for way in ways if way[:2] == (len(picked.nodes), picked.block)), ways


def order(ways: Sequence[Way]) -> tuple[int, int]:
    """Return how many pairs of ways the costs order as the clock does, of how many that it tells apart.

    Examples
    --------
    >>> order([Way(0, 0, 5.0, 1.0), Way(2, 8, 4.0, 0.8), Way(2, 4, 6.0, 0.99)])
    (2, 2)
    """
    pairs = [(x, y) for x, y in itertools.permutations(ways, 2) if x.seconds * (1 + APART) < y.seconds]
    return sum(x.cost < y.cost for x, y in pairs), len(pairs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    options = parser().parse_args(arguments)
    works = []
    for name in options.networks:
        mlp = workload_cases.ALL[name][0] == "mlp"
        batches = options.batch or (workload_cases.BATCHES if mlp else [8])
        works += workload_cases.chosen([name], options.dtype, batches)
    lines, rows, pairs = [], [], []
    with progress.bar("ways", len(works)) as bar:
        for work in works:
            bar.step(work.label)
            chosen, ways = measure(work.replace(threads=options.threads), options.sample)
            alone, best = ways[0], min(ways, key=lambda way: way.seconds)
            cheapest = min(way.cost for way in ways)
            right, told = order(ways)
            pairs.append((alone.seconds / chosen.seconds, best.seconds / chosen.seconds, right, told))
            rows.append(
                [
                    work.label, str(len(ways)), str(chosen), f"{chosen.seconds * 1e6:.1f}",
                    f"{alone.cost / chosen.cost:.2f}", f"{cheapest / chosen.cost:.2f}",
                    f"{alone.seconds / chosen.seconds:.2f}", f"{best.seconds / chosen.seconds:.2f}", str(best),
                    f"{100 * right / max(told, 1):.0f} %",
                ]
            )  # fmt: skip
            lines += [[work.label, str(way), f"{way.cost:.0f}", f"{way.seconds * 1e6:.1f}"] for way in ways]
    print(f"{workers.machine()['cpu']}, {options.threads} threads\n")
    if options.details:
        print(stats.table(["network", "way", "cost", "us"], lines) + "\n")
    heads = ["network", "ways", "chosen", "us", "promised: one by one", "best", "measured: one by one", "best",
             "which", "order"]  # fmt: skip
    print(stats.table(heads, rows))
    alone, best, right, told = zip(*pairs, strict=True)
    print(
        f"\nchosen over one by one: {stats.geometric_mean(alone):.2f} (least {min(alone):.2f}); of the best way: "
        f"{stats.geometric_mean(best):.3f} (least {min(best):.2f}); order: {100 * sum(right) / max(sum(told), 1):.0f} %"
        f" of {sum(told)} pairs"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
