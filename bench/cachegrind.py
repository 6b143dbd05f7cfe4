"""Hold the memory model against a cache simulator: misses of compiled networks, by valgrind's cachegrind.

    python bench/cachegrind.py
    python bench/cachegrind.py --networks MLP_2 --batch 128 --fusion full --ll 4M
    python bench/cachegrind.py --rates

For each network a process under cachegrind computes it a few times, another one more often; the difference is what a
call misses once caches and buffers are warm.  Beside it stands what `fastgemm.graph.memory` says for the same graph and
the same two caches, made in that process: valgrind's CPU has other caches than this one.  It runs on one thread and
tier v3, because valgrind has no AVX-512.

The simulator also counts what the interpreter itself fetches again in every call, because the network has put it out of
the caches.  `Python` is that: misses of a network of as many layers that computes next to nothing, called in turn with
the sum of an array of twice the last level, less that array's lines.  The model knows data alone, so it is held against
what is left; `raw` is the difference without that.

Only networks of over --least misses a call count for the target (15 %): below, the difference is what Python does.
--rates measures what a byte costs from each level, for `memory.CYCLES`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import progress
import stats
import workload_cases

TARGET, LINE = 0.15, 64
FEW, MANY = 2, 5


def size(text: str) -> int:
    """Read ``"1M"`` or ``"256K"`` as bytes.

    Examples
    --------
    >>> size("256K")
    262144
    """
    units = {"K": 1 << 10, "M": 1 << 20}
    unit = units.get(text[-1:].upper(), 1)
    number = text[:-1] if unit > 1 else text
    if not number.isdecimal() or not int(number):
        raise argparse.ArgumentTypeError(f"a size is written 256K or 1M, not {text!r}")
    return int(number) * unit


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [name for name, (kind, _) in workload_cases.NETWORKS.items() if kind == "mlp"]
    made.add_argument("--networks", nargs="+", choices=names, default=names, metavar="NAME", help="perceptrons")
    made.add_argument("--batch", nargs="+", type=int, default=[32], metavar="N", help="batch sizes (default 32)")
    made.add_argument("--dtype", nargs="+", default=["float32"], choices=workload_cases.DTYPES, metavar="DTYPE")
    made.add_argument("--fusion", nargs="+", default=["fine", "full"], choices=("none", "fine", "full"))
    made.add_argument("--d1", type=size, default=32 << 10, metavar="SIZE", help="first level (default 32K, 8 ways)")
    made.add_argument("--ll", type=size, default=1 << 20, metavar="SIZE", help="last level (default 1M, 16 ways)")
    made.add_argument("--least", type=int, default=1000, metavar="N", help="misses that count (default 1000)")
    made.add_argument("--require", action="store_true", help=f"exit 1 when one is further than {TARGET:.0%}% off")
    made.add_argument("--rates", action="store_true", help="measure the cost of a byte from each level, and stop")
    # What the simulated process does.
    made.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    return made


def child(asked: dict[str, Any]) -> None:
    """Compile a network, say what the model says, run it."""
    import numpy as np
    import workload_data
    import workload_graph

    from fastgemm.graph import compile, memory

    work = workload_cases.from_dict(asked["work"])
    graph, given = workload_graph.graph(work, workload_data.operands(work))
    ready = compile(graph, fusion=asked["fusion"], threads=1)
    out = ready(given)
    swept = np.zeros(asked.get("sweep", 0) // 4, np.float32)
    for _ in range(asked["calls"]):
        ready(given, out=out)
        if swept.size:
            np.maximum.reduce(swept)
    print(json.dumps({"model": memory.traffic(ready.graph, asked["caches"]).total}))


def simulate(asked: dict[str, Any], calls: int) -> tuple[list[int], list[int]]:
    """Return the data misses of both levels of a process that computes a network so often, and the model's bytes."""
    first, last = asked["caches"]
    command = [
        "valgrind", "--tool=cachegrind", f"--D1={first},8,{LINE}", f"--LL={last},16,{LINE}",
        "--cachegrind-out-file=/dev/null", sys.executable, __file__, "--child", json.dumps({**asked, "calls": calls}),
    ]  # fmt: skip
    alone = {"FASTGEMM_ISA": "v3", "PYTHONHASHSEED": "0"}
    alone |= {f"{name}_NUM_THREADS": "1" for name in ("FASTGEMM", "OMP", "OPENBLAS")}
    # Addresses that differ from run to run would differ in their conflicts.
    fixed = [shutil.which("setarch"), platform.machine(), "-R"] if shutil.which("setarch") else []
    done = subprocess.run([*map(str, fixed), *command], env=os.environ | alone, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return misses(done.stderr), json.loads(done.stdout.strip().splitlines()[-1])["model"]


def a_call(asked: dict[str, Any]) -> tuple[list[float], list[int]]:
    """Return the misses of one call of a network at both levels, and the model's bytes."""
    (few, model), (many, _) = simulate(asked, FEW), simulate(asked, MANY)
    return [(after - before) / (MANY - FEW) for before, after in zip(few, many, strict=True)], model


def misses(text: str) -> list[int]:
    """Read the data misses of both levels from what cachegrind prints.

    Examples
    --------
    >>> misses("==1== D1  misses:  18,262 ( 1 rd + 2 wr)\\n==1== LLd misses:  4,366 ( 3 rd + 4 wr)")
    [18262, 4366]
    """
    found = [re.search(rf"{level} +misses: +([\d,]+)", text) for level in ("D1", "LLd")]
    return [int(one[1].replace(",", "")) for one in found if one]


def rates() -> None:
    """Print the cost of a byte of float32 numbers that are summed, from each level."""
    import numpy as np

    from fastgemm import cpu, kernels

    tier = kernels.active_isa()
    assert tier is not None
    kernels.load(tier.name)
    flops, seconds = kernels.peak("f32", tier.name, 1_000_000, "gemm")
    clock = flops / seconds / (4 * tier.vector_bytes // 4)  # two multiply-adds of a vector a cycle
    caches = cpu.caches()
    print(f"{clock * 1e-9:.2f} GHz by the multiply-add loop; cycles a byte, of an array beyond half of it:")
    caches = cpu.caches()
    levels = {"L1": caches.l1d * 3 // 4, "L2": caches.l2 * 3 // 4, "L3": caches.l3 // 2, "memory": 8 * caches.l3}
    for name, count in levels.items():
        # Two lengths: what a call costs is in both.
        arrays = [np.ones(part // 4, np.float32) for part in (count, count // 2)]
        best = [float("inf")] * 2
        for _ in range(40):
            for at, x in enumerate(arrays):
                turns = max(1, (1 << 21) // count)
                start = time.perf_counter()
                for _ in range(turns):
                    np.maximum.reduce(x)
                best[at] = min(best[at], (time.perf_counter() - start) / turns)
        print(f"  {name:7} {count >> 10:8} KiB  {(best[0] - best[1]) * clock / (count - count // 2):.4f}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 when a requirement is missed, 2 without valgrind."""
    options = parser().parse_args(arguments)
    if options.child:
        child(options.child)
        return 0
    if options.rates:
        rates()
        return 0
    if shutil.which("valgrind") is None:
        progress.say("cachegrind.py: valgrind is not installed")
        return 2
    cases = [
        (work, fusion)
        for work in workload_cases.chosen(options.networks, options.dtype, options.batch)
        for fusion in options.fusion
    ]
    lines, far = [], []
    with progress.bar("simulating", len(cases)) as bar:
        for work, fusion in cases:
            bar.step(f"{work.label}, {fusion}")
            asked = {"work": work.to_dict(), "fusion": fusion, "caches": (options.d1, options.ll)}
            seen, model = a_call(asked)
            tiny = work.replace(sizes=(1,) * len(work.sizes), batch=1).to_dict()
            swept = 2 * options.ll
            own = a_call({**asked, "work": tiny, "sweep": swept})[0][1] - swept / LINE
            said = [count / LINE for count in model]
            data = seen[1] - own
            counts = data >= options.least
            off = said[1] / data - 1 if counts else float("nan")
            if counts and abs(off) > TARGET:
                far.append(f"{work.label}, {fusion}")
            cells = [f"{value:.0f}" for value in (seen[0], said[0], seen[1], own, data, said[1])]
            raw = f"{said[1] / seen[1] - 1:+.1%}" if counts else ""
            lines.append([f"{work.label}, {fusion}", *cells, f"{off:+.1%}" if counts else "too few", raw])
    head = ["network, fusion", "D1 misses", "model", "LL misses", "Python", "data", "model", "off", "raw"]
    print(f"misses a call, data; D1 {options.d1 >> 10} KiB, LL {options.ll >> 10} KiB; tier v3, one thread\n")
    print(stats.table(head, lines))
    for one in far:
        print(f"further off than {TARGET:.0%}: {one}")
    return 1 if far and options.require else 0


if __name__ == "__main__":
    sys.exit(main())
