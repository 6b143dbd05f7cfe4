"""What each pass of the graph compiler gains: networks timed with one pass more at a time.

    python bench/workload_passes.py
    python bench/workload_passes.py --networks MLP_1 MLP_2 --batch 32 512 --dtype float32 bfloat16 int8
    python bench/workload_passes.py --networks MHA_1 --batch 8 --details

The first line is fastgemm's own single calls with NumPy between them; the second the same operations as a graph
without a pass, in planned buffers; then one pass of `fastgemm.graph.passes.PASSES` after the other is switched on, in
their order.  A cell is the speed over the line before it, geometric mean of the networks of its kind: `-` where the
pass changes none of them.  All ways of computing a network take turns in one process; the best of all rounds counts.
The results of all of them are checked (bench/workload_data.py says how far they may be off).
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Sequence

import progress
import stats
import timing
import workers
import workload_cases
from workload_cases import Workload

SINGLE, UNFUSED = "single calls", "a graph, no pass"


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(workload_cases.ALL)
    made.add_argument("--networks", nargs="+", choices=names, default=["MLP_1", "MLP_2", "MHA_1"], metavar="NAME",
                      help=f"of {', '.join(names)} (default MLP_1 MLP_2 MHA_1)")  # fmt: skip
    made.add_argument("--dtype", nargs="+", choices=workload_cases.DTYPES, default=list(workload_cases.DTYPES),
                      metavar="DTYPE", help="(default: all three)")  # fmt: skip
    made.add_argument("--batch", nargs="+", type=int, default=[], metavar="N",
                      help="batch sizes (default: 32 for perceptrons, 8 for attention)")  # fmt: skip
    made.add_argument("--rounds", type=int, default=5, help="turns of every way (default 5)")
    made.add_argument("--sample", type=float, default=0.01, metavar="SECONDS", help="of one sample (default 0.01)")
    made.add_argument("--details", action="store_true", help="a column for each network, in microseconds")
    return made


def ways(work: Workload) -> dict[str, Callable[[], object] | None]:
    """Return how a network is computed, by the last pass that is switched on; None where it changes nothing."""
    import workload_data
    import workload_graph
    import workload_peers

    from fastgemm.graph import compile, passes

    data = workload_data.operands(work)
    found: dict[str, Callable[[], object] | None] = {}

    def checked(name: str, call: Callable[[], object], result: object) -> None:
        wrong = workload_data.check(work, data, result)  # type: ignore[arg-type]
        if wrong:
            raise ArithmeticError(f"{work.label}, {name}: {wrong}")
        found[name] = call

    single = workload_peers.FastGemmSteps().network(work, data)
    checked(SINGLE, lambda: single.call(single.a, single.b), single.array(single.call(single.a, single.b)))
    graph, given = workload_graph.graph(work, data)
    last = None
    for name, function in ((UNFUSED, None), *((row.name, row.function) for row in passes.PASSES[:-1])):
        graph = graph if function is None else function(graph)
        # Compiling adds the copies that are left, and nothing else.
        ready = compile(graph, fusion="none")
        if (text := str(ready.graph)) == last:
            found[name] = None
            continue
        last = text
        checked(name, lambda ready=ready: ready(given), workload_graph.bits(ready(given)))  # type: ignore[misc]
    return found


def seconds(found: dict[str, Callable[[], object] | None], rounds: int, sample: float) -> dict[str, float]:
    """Time all ways in turns; what changes nothing takes as long as the one before."""
    calls = {name: call for name, call in found.items() if call is not None}
    counts = {name: timing.loops(call, sample) for name, call in calls.items()}
    best = dict.fromkeys(calls, float("inf"))
    for turn in range(rounds):
        for name in list(calls) if turn % 2 == 0 else list(calls)[::-1]:
            best[name] = min(best[name], timing.per_call(calls[name], counts[name]))
    taken, before = {}, 0.0
    for name in found:
        before = taken[name] = best.get(name, before)
    return taken


def table(measured: dict[str, list[dict[str, float]]], changed: dict[str, set[str]]) -> str:
    """Return the gains by pass (down) and group (across), and in all.

    Examples
    --------
    >>> print(table({"MLP float32": [{"single calls": 3.0, "fold": 3.0, "chains": 1.5}]}, {"MLP float32": {"chains"}}))
    | over the line before | MLP float32 |
    |----------------------|------------:|
    | single calls         |             |
    | fold                 |           - |
    | chains               |        2.00 |
    | in all               |        2.00 |
    """
    names = list(next(iter(measured.values()))[0])
    lines = [[names[0], *("" for _ in measured)]]
    for before, name in itertools.pairwise(names):
        cells = [
            f"{stats.geometric_mean(one[before] / one[name] for one in times):.2f}" if name in changed[group] else "-"
            for group, times in measured.items()
        ]
        lines.append([name, *cells])
    whole = [stats.geometric_mean(one[names[0]] / one[names[-1]] for one in times) for times in measured.values()]
    lines.append(["in all", *(f"{gain:.2f}" for gain in whole)])
    return stats.table(["over the line before", *measured], lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 2 when a result is wrong."""
    options = parser().parse_args(arguments)
    works = []
    for name in options.networks:
        kind = workload_cases.ALL[name][0]
        works += workload_cases.chosen([name], options.dtype, options.batch or [32 if kind == "mlp" else 8])
    works.sort(key=lambda work: (work.kind != "mlp", workload_cases.DTYPES.index(work.dtype)))
    measured: dict[str, list[dict[str, float]]] = {}
    changed: dict[str, set[str]] = {}
    try:
        with progress.bar("timing", len(works)) as bar:
            for work in works:
                bar.step(work.label)
                found = ways(work)
                taken = seconds(found, options.rounds, options.sample)
                group = work.label if options.details else work.group
                measured.setdefault(group, []).append(taken)
                changed.setdefault(group, set()).update(name for name, call in found.items() if call is not None)
    except ArithmeticError as error:
        progress.say(f"workload_passes.py: {error}")
        return 2
    print(f"{workers.machine()['cpu']}\n")
    if options.details:
        names = list(next(iter(measured.values()))[0])
        rows = [[name, *(f"{times[0][name] * 1e6:.1f}" for times in measured.values())] for name in names]
        print(stats.table(["microseconds", *measured], rows) + "\n")
    print(table(measured, changed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
