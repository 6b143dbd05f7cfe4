"""What one call costs: nanoseconds of small square products, one thread.

    python bench/overhead.py
    python bench/overhead.py --sizes 4 8 16 --rounds 20 --require 150
    python bench/overhead.py --graph
    python bench/overhead.py --first
    python bench/overhead.py --import

Float32 products of 4 to 64 through fastgemm.matmul and np.matmul, with a fresh output and with
out=; with an operand of fastgemm.pack, and with a bias through fastgemm.linear, of both kinds of
weights.  The first line is the cost of calling a compiled function that does nothing with two
arguments: nobody can be faster.  Both libraries run in this one process (with one thread no pools
fight) and take turns; the best of all rounds counts, the loop itself subtracted.
--graph times a compiled graph instead, three layers of 8 features and two rows: what its calls cost.
--first: what the first call of a shape costs over the second one, its plan (median of the shapes, drawn at random).
--import: milliseconds of `import numpy`, then `import fastgemm`, then the first product, in new processes (medians).
--require says how many nanoseconds an 8 x 8 product of fastgemm may take.
"""

from __future__ import annotations

import argparse
import json
import operator
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import environment
import progress
import stats
import timing
import workers


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--sizes", nargs="+", type=int, default=[4, 8, 12, 16, 24, 32, 48, 64], metavar="N")
    made.add_argument("--dtype", default="float32", help="element type (default float32)")
    made.add_argument("--rounds", type=int, default=15, help="turns of every variant (default 15)")
    instead = made.add_mutually_exclusive_group()
    instead.add_argument("--graph", action="store_true", help="a compiled graph of three tiny layers instead")
    instead.add_argument("--first", action="store_true", help="the first call of a shape instead")
    instead.add_argument("--import", action="store_true", dest="importing", help="what importing takes instead")
    made.add_argument("--json", type=Path, metavar="FILE", help="write what was measured")
    made.add_argument("--require", type=float, metavar="NS", help="exit 1 when an 8x8 product of fastgemm takes longer")
    return made


def measure(sizes: Sequence[int], dtype: str, rounds: int) -> tuple[float, dict[str, dict[int, float]]]:
    """Return the cost of a bare call and nanoseconds by variant and size."""
    import numpy as np

    # What is called, and with what, of operands, an output and a bias.
    Arguments = Callable[[Any, Any, Any, Any], tuple[Any, ...]]
    variants: dict[str, tuple[Callable[..., Any], Arguments]] = {
        "np.matmul": (np.matmul, lambda a, b, c, bias: (a, b)),
        "np.matmul out=": (np.matmul, lambda a, b, c, bias: (a, b, c)),
    }
    try:
        import fastgemm
    except ImportError as error:
        progress.say(f"fastgemm is left out: {error}")
    else:
        variants = {
            "fastgemm.matmul": (fastgemm.matmul, lambda a, b, c, bias: (a, b)),
            "fastgemm.matmul out=": (fastgemm.matmul, lambda a, b, c, bias: (a, b, c)),
            **variants,
            "fastgemm.matmul packed": (fastgemm.matmul, lambda a, b, c, bias: (a, fastgemm.pack(b))),
            "fastgemm.linear": (fastgemm.linear, lambda a, b, c, bias: (a, b, bias)),
            "fastgemm.linear packed": (fastgemm.linear, lambda a, b, c, bias: (a, fastgemm.pack(b, trans=True), bias)),
        }
    rng = np.random.default_rng(0)
    jobs: list[tuple[str, int, Callable[..., Any], tuple[Any, ...]]] = [("bare", 0, operator.is_, (rng, rng))]
    for size in sizes:
        operands = [rng.uniform(-1, 1, shape).astype(dtype) for shape in (*[(size, size)] * 3, size)]
        jobs += [(name, size, call, arguments(*operands)) for name, (call, arguments) in variants.items()]
    loops = {}
    for name, size, call, arguments in jobs:
        loops[name, size] = max(20, int(0.002 / (timing.bare(call, arguments, 100) / 100)))
    best: dict[tuple[str, int], float] = {}
    with progress.bar("calls", rounds) as bar:
        for _ in range(rounds):
            bar.step()
            floor = min(timing.empty(20000) for _ in range(3)) / 20000
            for name, size, call, arguments in jobs:
                count = loops[name, size]
                spent = timing.bare(call, arguments, count) / count - floor
                best[name, size] = min(spent * 1e9, best.get((name, size), float("inf")))
    found = {name: {size: best[name, size] for size in sizes} for name in variants}
    return best["bare", 0], found


def of_graph(rounds: int) -> dict[str, float]:
    """Return the microseconds of a call of three tiny layers, by how much of the graph is fused."""
    import numpy as np
    import timing

    from fastgemm import graph

    rng = np.random.default_rng(0)
    build = graph.Builder("three layers")
    h = build.input("x", (2, 8), "float32")
    for _ in range(3):
        h = build.relu(h @ rng.standard_normal((8, 8), np.float32) + rng.standard_normal(8, np.float32))
    build.output(h, "y")
    given = {"x": rng.standard_normal((2, 8), np.float32)}
    ready = {fusion: graph.compile(build.graph(), fusion=fusion) for fusion in ("none", "fine", "full")}
    best = dict.fromkeys(ready, float("inf"))
    for _ in range(rounds):
        for name, call in ready.items():
            best[name] = min(best[name], timing.seconds(lambda call=call: call(given), 0.01) * 1e6)  # type: ignore[misc]
    return best


def of_first(count: int) -> dict[str, float]:
    """Return the microseconds that the first call of a shape takes over its second, by range of sizes; medians."""
    import numpy as np

    import fastgemm

    rng, found = np.random.default_rng(0), {}
    for least, most in ((2, 65), (100, 300)):
        x = np.ones((most, most), np.float32)
        fastgemm.matmul(x, x)
        spent = []
        for m, n, k in rng.integers(least, most, (count, 3)).tolist():
            a, b = x[:m, :k], x[:k, :n]
            first, second = (timing.bare(fastgemm.matmul, (a, b), 1) for _ in range(2))
            spent.append((first - second) * 1e6)
        found[f"{least} to {most - 1}"] = statistics.median(spent)
    return found


IMPORTS = """
import time
marks = [time.perf_counter()]
import numpy
marks.append(time.perf_counter())
import fastgemm
marks.append(time.perf_counter())
x = numpy.ones((100, 100), "f4")
fastgemm.matmul(x, x)
marks.append(time.perf_counter())
print(*(1e3 * (after - before) for before, after in zip(marks, marks[1:])))
"""


def of_import(rounds: int) -> dict[str, float]:
    """Return the milliseconds of a program's first steps, each in as many new processes; medians."""
    steps: list[list[float]] = []
    with tempfile.TemporaryDirectory() as folder:  # modules are compiled once, whatever the environment says of that
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        for _ in range(rounds + 1):
            made = subprocess.run(
                [sys.executable, "-X", f"pycache_prefix={folder}", "-c", IMPORTS],
                env=kept, check=True, stdout=subprocess.PIPE, text=True, timeout=120,
            )  # fmt: skip
            steps.append([float(word) for word in made.stdout.split()])
    medians = [statistics.median(column) for column in zip(*steps[1:], strict=True)]
    return dict(zip(("import numpy", "import fastgemm", "the first product"), medians, strict=True))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print nanoseconds by size; 1 when --require is missed."""
    options = parser().parse_args(arguments)
    # Before NumPy is imported: a pool of threads has no place in a call of nanoseconds.
    environment.one_thread("FASTGEMM_NUM_THREADS")
    if options.graph:
        print(f"{workers.machine()['cpu']}; three layers of 8 features, 2 rows, microseconds a call:")
        print("  ".join(f"{name} {cost:.1f}" for name, cost in of_graph(options.rounds).items()))
        return 0
    if options.importing:
        print(f"{workers.machine()['cpu']}; one after the other in new processes, milliseconds:")
        print("  ".join(f"{name} {cost:.1f}" for name, cost in of_import(options.rounds).items()))
        return 0
    if options.first:
        print(f"{workers.machine()['cpu']}; the first call of a shape over the second, by its sizes, microseconds:")
        print("  ".join(f"{name}: {cost:.0f}" for name, cost in of_first(20 * options.rounds).items()))
        return 0
    bare, found = measure(options.sizes, options.dtype, options.rounds)
    names = list(found)
    print(f"{workers.machine()['cpu']}; a compiled function that does nothing: {bare:.0f} ns a call\n")
    rows = [[f"{size}x{size}", *(f"{found[name][size]:.0f}" for name in names)] for size in options.sizes]
    print(stats.table([options.dtype, *(f"{name}, ns" for name in names)], rows))
    if options.json:
        document = {
            "schema": 1, "kind": "overhead", "machine": workers.machine(), "dtype": options.dtype, "bare_ns": bare,
            "ns": found,
        }  # fmt: skip
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if options.require is not None:
        taken = found.get("fastgemm.matmul", {}).get(8)
        if taken is None or taken > options.require:
            print(f"REQUIREMENT MISSED: 8x8 takes {taken or float('nan'):.0f} ns, {options.require:.0f} wanted")
            return 1
    return 0


if __name__ == "__main__":
    environment.let_choose()
    sys.exit(main())
