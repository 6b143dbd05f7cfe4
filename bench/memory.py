"""Memory over many calls of varied shapes: growth of the process, and workspace.

    python bench/memory.py
    python bench/memory.py --calls 20000 --threads 2 --require-mib 16

Products of random sizes, dtypes, layouts and stacks, all small enough that operands and output stay
below --largest MiB.  After each tenth of the calls the resident size of the process is read (operands
dropped); what counts is the growth from the end of the first tenth, when every pool of memory has
been touched once.  Workspace is what the plans of these problems ask of a thread (the library keeps
one buffer a thread, as large as the largest): its largest value is shown.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cases
import environment
import progress
import stats

DTYPES = ("float32", "float64", "complex64", "complex128")


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--calls", type=int, default=20_000, help="calls (default 20,000)")
    made.add_argument("--threads", type=int, default=0, metavar="N", help="threads (default: the library's own choice)")
    made.add_argument(
        "--largest", type=float, default=4.0, metavar="MIB", help="operands and output of a call (default 4)"
    )
    made.add_argument("--of", dest="subject", choices=("fastgemm", "numpy"), default="fastgemm", help="whose calls")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--json", type=Path, metavar="FILE", help="write what was measured")
    made.add_argument("--require-mib", type=float, metavar="MIB", help="exit 1 when growth or workspace is larger")
    return made


def resident() -> int:
    """Bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def varied(draw: random.Random, largest: float) -> cases.Case:
    """Draw a case whose operands and output fit in `largest` bytes.

    Sizes are spread evenly over their logarithm, so that vectors, slivers and blocks
    all come up.
    """
    while True:
        m, n, k = (int(2 ** draw.uniform(0, 11)) for _ in range(3))
        batch = 1 if draw.random() < 0.7 else int(2 ** draw.uniform(0, 6))
        case = cases.Case(draw.choice(DTYPES), m, n, k, batch, draw.random() < 0.3, draw.random() < 0.3)
        # 20,000 calls are to take about a minute.
        if case.bytes <= largest and case.flops <= 5e8:
            return case


def workspace(case: cases.Case, threads: int) -> int:
    """Bytes that a thread needs for a case, by the plan that the library makes for it."""
    from fastgemm import dispatch, registry
    from fastgemm.plan import Plan
    from fastgemm.problem import Problem

    dtype = registry.dtype(case.dtype).name
    problem = Problem(dtype, case.m, case.n, case.k, case.batch, case.layout, threads)
    config = dispatch.resolve(problem).config
    return 0 if config.family == "numpy" else Plan(problem, config).workspace


def main(arguments: Sequence[str] | None = None) -> int:
    """Print growth and workspace; 1 when --require-mib is missed."""
    options = parser().parse_args(arguments)
    if options.threads:
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "FASTGEMM_NUM_THREADS"):
            os.environ[name] = str(options.threads)
    import numpy as np

    try:
        import fastgemm
    except ImportError as error:
        if options.subject == "fastgemm":
            progress.say(f"memory.py: cannot import fastgemm: {error}")
            return 2
    matmul = np.matmul if options.subject == "numpy" else fastgemm.matmul
    draw = random.Random(options.seed)
    values = np.random.default_rng(0).uniform(-1, 1, int(options.largest * 2**20) // 4)
    pools = {dtype: values[: values.nbytes // 2 // np.dtype(dtype).itemsize].astype(dtype) for dtype in DTYPES}
    readings: list[int] = []
    largest_space, wanted = 0, max(1, options.calls // 10)
    with progress.bar("calls", options.calls) as bar:
        for number in range(1, options.calls + 1):
            case = varied(draw, options.largest * 2**20)
            bar.step(case.label)
            a, b = slices(case, pools[case.dtype])
            matmul(a, b)
            if options.subject == "fastgemm" and number % 20 == 0:
                largest_space = max(largest_space, workspace(case, fastgemm.get_num_threads()))
            if number % wanted == 0:
                del a, b
                gc.collect()
                readings.append(resident())
    growth = readings[-1] - readings[0]
    mib = [reading / 2**20 for reading in readings]
    print(f"resident after each tenth of {options.calls} calls, MiB: " + " ".join(f"{value:.1f}" for value in mib))
    print(f"growth from the first reading to the last: {growth / 2**20:+.2f} MiB")
    if options.subject == "fastgemm":
        print(f"largest workspace of a thread: {largest_space / 2**20:.2f} MiB")
    if options.json:
        document: dict[str, Any] = {
            "schema": 1, "kind": "memory", "calls": options.calls, "resident": readings, "growth": growth,
            "workspace": largest_space,
        }  # fmt: skip
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if options.require_mib is not None and max(growth, largest_space) > options.require_mib * 2**20:
        print(f"REQUIREMENT MISSED: more than {stats.number(options.require_mib)} MiB")
        return 1
    return 0


def slices(case: cases.Case, pool: Any) -> tuple[Any, Any]:
    """Operands that are views of one pool, so that making them allocates nothing."""
    stack = (case.batch,) if case.batch > 1 else ()

    def take(rows: int, columns: int, turned: bool) -> Any:
        shape = (*stack, columns, rows) if turned else (*stack, rows, columns)
        x = pool[: case.batch * rows * columns].reshape(shape)
        return x.swapaxes(-1, -2) if turned else x

    return take(case.m, case.k, case.trans_a), take(case.k, case.n, case.trans_b)


if __name__ == "__main__":
    environment.let_choose()
    sys.exit(main())
