"""Say where the time of a fused network goes: products, softmax, rounding, the call itself.

    python bench/breakdown.py
    python bench/breakdown.py --networks MHA_1 --dtype float32 bfloat16 int8 --batch 8 --threads 1

A compiled graph runs steps; a step that is a chain runs members for one block of rows after another.  A member's time
is what the chain takes with it less what it takes without it and all that follow; so times of members add up to the
chain's.  `bound` is what the multiply-adds take at the peak of this CPU in that type, measured beside it on as many
threads: no library that does them all is faster.  `call` is what is left of a call: Python, checks of the arguments,
the output array, and waking the threads.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import linear
import progress
import stats
import timing
import workers
import workload_cases
from workload_cases import Workload


class Part(NamedTuple):
    """A member or a step: what it is, its operations (0: it is no product), and the seconds that it takes in a call."""

    name: str
    flops: int
    seconds: float


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--networks", nargs="+", choices=workload_cases.ALL, default=["MLP_1", "MHA_1"],
                      metavar="NAME", help=f"of {', '.join(workload_cases.ALL)} (default MLP_1 MHA_1)")  # fmt:skip
    made.add_argument("--dtype", nargs="+", choices=workload_cases.DTYPES, default=list(workload_cases.DTYPES),
                      metavar="DTYPE", help=f"of {', '.join(workload_cases.DTYPES)} (default: all)")  # fmt: skip
    made.add_argument("--batch", nargs="+", type=int, default=[], metavar="N",
                      help="batch sizes (default: 512 for perceptrons, 8 for attention)")  # fmt: skip
    made.add_argument("--threads", nargs="+", type=int, default=[1], metavar="N", help="threads (default 1)")
    made.add_argument("--rounds", type=int, default=5, help="samples of each part, the best counts (default 5)")
    made.add_argument("--sample", type=float, default=0.02, metavar="SECONDS", help="of one sample (default 0.02)")
    return made


def best(calls: Sequence[Callable[[], object]], rounds: int, sample: float) -> list[float]:
    """Return the shortest sample of each call; they take turns, so that the machine's drift hits them alike."""
    counts = [timing.loops(call, sample) for call in calls]
    found = [math.inf] * len(calls)
    for _ in range(rounds):
        for at, (call, count) in enumerate(zip(calls, counts, strict=True)):
            found[at] = min(found[at], timing.per_call(call, count))
    return found


def pieces(compiled: Any, given: dict[str, Any]) -> Iterator[tuple[list[tuple[str, int]], list[Callable[[], object]]]]:
    """Give every step's members with their operations, and calls that run the first, the first two, ..."""
    from fastgemm.chain import Chain, Product
    from fastgemm.graph.kernel_runners import ChainOf
    from fastgemm.graph.lowering import Lowering
    from fastgemm.graph.operands import Operands

    program = compiled._program
    outputs = {root: compiled._output(name, None, {}, {}) for root, name in program.made.items()}
    filled = program.run(program.frame(), {**given, **outputs})
    for step in program.steps:
        x, out, bind = [filled[at] for at in step.reads], filled[step.writes], step.runner.bind
        if not isinstance(bind, ChainOf):
            is_product = step.node.op in ("matmul", "linear", "qlinear")
            name = f"{x[0].shape[-1]} x {out.shape[-1]}" if is_product else step.node.op
            yield [(name, 2 * out.size * x[0].shape[-1] if is_product else 0)], [bind(x, out)]
            continue
        # The arrays by slot, as the whole chain is called with them.
        operands = bind(x, out).args[0]
        members, *shape = Lowering(Operands(*bind._asked)).parts()
        names, calls = [], []
        items = math.prod(shape[0][:-1]) * shape[1]
        for at, member in enumerate(members, 1):
            is_product = isinstance(member, Product)
            name = f"{member.k} x {member.n}" if is_product else getattr(member, "op", "map")
            names.append((name, 2 * items * member.n * member.k if is_product else 0))
            calls.append(partial(Chain(members[:at], *shape).run, operands))
        yield names, calls


def parts(work: Workload, rounds: int, sample: float) -> tuple[float, list[Part]]:
    """Return the seconds of a call of a network, and those of its parts."""
    import workload_data
    import workload_graph

    import fastgemm
    from fastgemm.graph import compile

    with fastgemm.threads(work.threads):
        written, given = workload_graph.graph(work, workload_data.operands(work))
        compiled = compile(written)
        compiled(given)
        steps = list(pieces(compiled, given))
        times = best([lambda: compiled(given), *(call for _, calls in steps for call in calls)], rounds, sample)
    whole, found, at = times[0], [], 1
    for names, calls in steps:
        before = 0.0
        for (name, flops), spent in zip(names, times[at : at + len(calls)], strict=True):
            found.append(Part(name, flops, spent - before))
            before = spent
        at += len(calls)
    return whole, [*found, Part("call", 0, whole - sum(part.seconds for part in found))]


def table(work: Workload, whole: float, found: Sequence[Part], peak: float) -> list[list[str]]:
    """Return the rows of one network."""
    lines = [[work.label, str(work.threads), "in all", f"{whole * 1e6:.1f}", "100", f"{work.flops / peak * 1e6:.1f}",
              f"{100 * work.flops / peak / whole:.0f}"]]  # fmt: skip
    for part in found:
        bound = part.flops / peak
        of_peak = [f"{bound * 1e6:.1f}", f"{100 * bound / max(part.seconds, 1e-12):.0f}"] if part.flops else ["", ""]
        lines.append(["", "", part.name, f"{part.seconds * 1e6:.1f}", f"{100 * part.seconds / whole:.0f}", *of_peak])
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    options = parser().parse_args(arguments)
    found = []
    for name in options.networks:
        batches = options.batch or [512 if workload_cases.ALL[name][0] == "mlp" else 8]
        found += workload_cases.chosen([name], options.dtype, batches)
    lines: list[list[str]] = []
    with progress.bar("breakdown", len(found) * len(options.threads)) as bar:
        for work in found:
            for threads in options.threads:
                bar.step(work.label)
                case, before = work.replace(threads=threads), linear.peak(work.dtype, threads)
                whole, members = parts(case, options.rounds, options.sample)
                lines += table(case, whole, members, max(before, linear.peak(work.dtype, threads)))
    print(f"{workers.machine()['cpu']}; us of a call, % of it, us at the peak, % of the peak\n")
    print(stats.table(["network", "threads", "part", "us", "%", "bound", "% of peak"], lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
