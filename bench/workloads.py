"""Time whole networks, perceptrons and attention blocks, against what else computes them here.

    python bench/workloads.py --quick
    python bench/workloads.py --networks MLP_1 MLP_2 --dtype float32 --peers numpy torch onednn
    python bench/workloads.py --ablation --networks MHA_1 MHA_2
    python bench/workloads.py --list

The networks are those of oneDNN Graph Compiler's paper: MLP_1 (13x512x256x128), MLP_2 (479x1024x1024x512x256x1), each
layer a product, a bias and relu; MHA_1 to MHA_4, attention of 128 to 512 tokens (product, division, mask, softmax,
product, transpose).  Every library computes them as its user would: PyTorch eager, its fused attention (torch-sdpa)
and torch.compile; oneDNN primitives with post-ops and packed weights; NumPy; fastgemm as a compiled graph.

Every library lives in a process of its own and they take turns, a sample at a time, in every round the other way
round; ratios come from one run.  A ratio is fastgemm's speed over the peer's: above 1, fastgemm is faster.  Before it
is timed, every result is checked against NumPy's in double precision (bounds: bench/workload_data.py).

--bound measures, before and after each network, the multiply-adds alone, in registers and on all threads at once: no
library that does all of a network's products takes less than they do.  Peer / bound is how far ahead of that peer the
fastest possible library would be.
--ablation adds fastgemm with less of its graph compiler: single calls, a graph without fusion, fine-grain fusion, and
all passes.  It says what each of them gained, and whether the bits of the results stayed the same.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import progress
import turns
import verdict
import workers
import workload_cases
import workload_peers
from load import Load, Quiet
from workload_cases import Workload

SCRIPT = Path(__file__).with_name("workload_worker.py")
SUBJECT = "fastgemm"

# torch.compile may take a minute for a new shape.
COMPILING = 300.0


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [name for name in workload_peers.libraries() if not name.startswith(SUBJECT)]
    dtypes = (*workload_cases.DTYPES, *workload_cases.MORE_DTYPES)
    what = made.add_argument_group("what to time")
    what.add_argument(
        "--networks", nargs="+", choices=workload_cases.ALL, default=list(workload_cases.NETWORKS), metavar="NAME",
        help=f"of {', '.join(workload_cases.ALL)} (default: all but {', '.join(workload_cases.LONG)})",
    )  # fmt: skip
    what.add_argument("--dtype", nargs="+", choices=dtypes, default=["float32"], metavar="DTYPE",
                      help=f"of {', '.join(dtypes)} (default float32)")  # fmt: skip
    what.add_argument("--batch", nargs="+", type=int, default=[], metavar="N",
                      help="batch sizes (default: 32 to 512 for perceptrons, 8 and 32 for attention)")  # fmt: skip
    what.add_argument("--threads", type=int, default=0, metavar="N", help="threads (default: one a core)")
    what.add_argument("--peers", nargs="*", default=["numpy"], choices=known, metavar="NAME",
                      help=f"libraries to compare with, of {', '.join(known)} (default numpy)")  # fmt: skip
    what.add_argument("--ablation", action="store_true", help="fastgemm with fewer passes as well")
    what.add_argument("--bound", action="store_true", help="beside what the products take at the peak of this CPU: the "
                      "share of it that each library reaches, and what is to be gained at most")  # fmt: skip
    what.add_argument("--quick", action="store_true", help="the smallest and the largest batch of each network")
    how = made.add_argument_group("how to time")
    how.add_argument("--rounds", type=int, default=5, help="turns of every library (default 5)")
    how.add_argument("--sample", type=float, default=0.02, metavar="SECONDS", help="of one sample (default 0.02)")
    how.add_argument("--budget", type=float, default=3.0, metavar="SECONDS",
                     help="most for one library on one network; fewer rounds beyond (default 3)")  # fmt: skip
    how.add_argument("--patience", type=float, default=30.0, metavar="SECONDS",
                     help="wait before samples while other processes run, this long in all (default 30)")  # fmt: skip
    how.add_argument("--statistic", choices=("best", "median"), default="best", help="what stands for the samples")
    how.add_argument("--python", action="append", default=[], metavar="[NAME=]PATH", help="interpreter of a library")
    then = made.add_argument_group("what to do with it")
    then.add_argument("--json", type=Path, metavar="FILE", help="write everything measured")
    then.add_argument("--require", type=float, metavar="RATIO", help="exit 1 when a group's mean against the best of "
                      "the peers is lower")  # fmt: skip
    then.add_argument("--list", action="store_true", help="say which libraries can be timed here, and stop")
    return made


class Run(turns.Turns):
    """The living workers and the timing of networks."""

    def __init__(self, options: argparse.Namespace, names: Sequence[str]) -> None:
        self.options, self.threads = options, options.threads or workers.machine()["cores"]
        known = workload_peers.libraries()
        pythons = workers.interpreters(options.python, known)
        crew = [workers.Worker(name, self.threads, pythons.get(name), script=SCRIPT, known=known) for name in names]
        super().__init__(crew, Quiet(options.patience), options.rounds, options.budget)

    def time(self, work: Workload) -> dict[str, Any]:
        """Time one network on every library, in turns."""
        work, options = work.replace(threads=self.threads), self.options
        result: dict[str, Any] = {"case": work.to_dict(), "times": {}, "errors": {}, "bits": {}, "notes": {}}
        result["peak"] = []
        self._peak(work, result)
        self.take(result, COMPILING, case=result["case"], sample=options.sample, budget=options.budget)
        self._peak(work, result)
        return result

    def _peak(self, work: Workload, result: dict[str, Any]) -> None:
        """Measure the multiply-adds by themselves where they are asked for."""
        worker = next((one for one in self.crew if one.name == SUBJECT), None)
        if self.options.bound and worker is not None:
            with contextlib.suppress(workers.Died):
                result["peak"].append(worker.ask("peak", dtype=work.dtype)["rate"])
                worker.settle()

    def prepared(self, worker: workers.Worker, answer: dict[str, Any], result: dict[str, Any]) -> None:
        """Keep the digest of a result, and what is to be said of it."""
        result["bits"][worker.name], result["notes"][worker.name] = answer["bits"], answer.get("notes", "")


def chosen(options: argparse.Namespace) -> list[Workload]:
    """Return the networks that were asked for."""
    if not options.quick or options.batch:
        return workload_cases.chosen(options.networks, options.dtype, options.batch)
    found = []
    for name in options.networks:
        every = workload_cases.chosen([name], options.dtype)
        ends = {min(one.batch for one in every), max(one.batch for one in every)}
        found += [one for one in every if one.batch in ends]
    return found


def measure(options: argparse.Namespace, found: Sequence[Workload]) -> dict[str, Any]:
    """Run everything; what is finished is returned even after Ctrl-C."""
    variants = [name for name in workload_peers.libraries() if name.startswith(SUBJECT)]
    names = [*(variants if options.ablation else [SUBJECT]), *options.peers]
    load, run = Load(), Run(options, names)
    document: dict[str, Any] = {
        "schema": 1, "kind": "workloads", "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "machine": workers.machine(),
        "subject": SUBJECT, "peers": options.peers, "libraries": run.about, "statistic": options.statistic,
        "threads": run.threads, "results": [], "interrupted": False,
    }  # fmt: skip
    try:
        if not run.about[SUBJECT]["ok"]:
            raise LookupError(f"{SUBJECT} cannot be timed: {run.about[SUBJECT]['reason']}")
        with progress.bar("timing", len(found)) as bar:
            for work in found:
                bar.step(work.label)
                document["results"].append(run.time(work))
    except KeyboardInterrupt:
        document["interrupted"] = True
    finally:
        run.stop()
    document["foreign_load"] = load.foreign()
    return document


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0, or 1 when the requirement is missed, 2 when nothing can be timed, 130 after Ctrl-C."""
    options = parser().parse_args(arguments)
    import workload_verdict

    known = workload_peers.libraries()
    if options.list:
        pythons = workers.interpreters(options.python, known)
        for name, cls in known.items():
            with workers.Worker(name, 1, pythons.get(name), script=SCRIPT, known=known) as worker:
                about = worker.start()
                print(f"{name:18} {'yes' if about['ok'] else 'no '}  {cls.summary}: {verdict.describe(about)}")
        return 0
    try:
        document = measure(options, chosen(options))
    except (OSError, ValueError, LookupError) as error:
        progress.say(f"workloads.py: {error}")
        return 2
    if options.json:
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(workload_verdict.text(document))
    missed = [] if options.require is None else workload_verdict.missed(document, options.require)
    for line in missed:
        print(f"REQUIREMENT MISSED: {line}")
    return 130 if document["interrupted"] else 1 if missed else 0


if __name__ == "__main__":
    # Told to end, it ends as by Ctrl-C: with what it has.  (Here and not in `main`: whoever calls that keeps its own.)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
