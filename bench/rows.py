"""Operations on rows: what softmax, layer norm, casts and activations take for each number, and what a change gained.

    python bench/rows.py
    git worktree add /tmp/before HEAD~1        # and build it there: pip install -e . in an environment of its own
    python bench/rows.py --other /tmp/before --columns 512 --rounds 6

Each operation is a chain of its own on one thread, on rows that stay in the caches; bytes are made of what lies in
the chain's scratch, as in a network, and a copy to it is part of their time.  Every round starts each build in a new
process, one after the other and in the other order next time.  The ratios are this build's speed over the other one's,
above 1 is faster: of the best samples of all processes, and of the median process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import cases
import children
import stats
import timing

HERE = Path(__file__).resolve().parents[1]
ROWS = 64
# Those that take more than a few operations.
ACTIVATIONS = ("gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "exp", "erf")


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--other", type=Path, metavar="TREE", help="a checkout with another build in place")
    made.add_argument("--columns", nargs="+", type=int, default=[128, 512, 2048], metavar="N", help="of a row")
    made.add_argument("--rounds", type=int, default=4, help="processes of each build (default 4)")
    made.add_argument("--sample", type=float, default=0.01, metavar="SECONDS", help="length of one of 20 samples")
    made.add_argument("--raw", action="store_true", help="this process's nanoseconds a number, as JSON")
    return made


def chains(columns: int) -> Iterator[tuple[str, Any, list[Any]]]:
    """Give an operation's name, its chain, and the arrays that it runs on."""
    import ml_dtypes
    import numpy as np

    from fastgemm.chain import SCRATCH, Chain, Finish, Map, Ref, Rows

    def ref(slot: int, array: Any, **quantised: float) -> Any:
        return Ref(slot, array.dtype.name, 0, (0,), *array.strides, **quantised)

    # Beginning a cache line, as a network's buffers do.
    x = cases.begun(np.random.default_rng(0).standard_normal((ROWS, columns)).astype("f4") * 4, 0)
    single, byte, half = (cases.begun(x.astype(kind), 0) for kind in ("f4", "u1", ml_dtypes.bfloat16))
    far = cases.begun(x - 160, 0)       # all 80 below zero
    mask, kept = np.zeros((1, columns), "f4"), Ref(SCRATCH, "float32", 0, (0,), 4 * columns, 4)
    scaled, cast = {"scale": 0.5}, Rows("cast", columns, ref(0, x), kept)
    masks = {"mask": Ref(2, "float32", column=4)}
    for name, members, out in (
        ("softmax", [Rows("softmax", columns, ref(0, x), ref(1, single), scaled)], single),
        ("softmax, masked", [Rows("softmax", columns, ref(0, x), ref(1, single), scaled, masks)], single),
        ("softmax, far", [Rows("softmax", columns, ref(3, far), ref(1, single), scaled)], single),
        ("softmax to bytes", [cast, Rows("softmax", columns, kept, ref(1, byte, scale=1 / 255), scaled)], byte),
        ("softmax to bfloat16", [cast, Rows("softmax", columns, kept, ref(1, half), scaled)], half),
        ("layer_norm", [Rows("layer_norm", columns, ref(0, x), ref(1, single), {"epsilon": 1e-5})], single),
        ("cast to bytes", [Rows("cast", columns, ref(0, x), ref(1, byte, scale=0.1, zero=128))], byte),
        *((name, [Map(columns, ref(0, x), ref(1, single), Finish(name))], single) for name in ACTIVATIONS),
    ):
        yield f"{name}, {columns}", Chain(members, (1,), ROWS, ROWS, x.nbytes), [x, out, mask, far]


def measured(columns: Sequence[int], sample: float) -> dict[str, float]:
    """Return the nanoseconds a number of every operation; they take turns, the best sample counts."""
    import fastgemm

    made = [one for length in columns for one in chains(length)]
    with fastgemm.threads(1):
        calls = [(name, lambda run=chain.run, on=arrays: run(on), arrays[0].size) for name, chain, arrays in made]
        counts = [timing.loops(call, sample) for _, call, _ in calls]
        best = dict.fromkeys((name for name, _, _ in calls), float("inf"))
        for _ in range(20):
            for (name, call, size), count in zip(calls, counts, strict=True):
                best[name] = min(best[name], timing.per_call(call, count) / size * 1e9)
    return best


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    options = parser().parse_args(arguments)
    if options.raw:
        print(json.dumps(measured(options.columns, options.sample)))
        return 0
    trees = [HERE] if options.other is None else [HERE, options.other.resolve()]
    asked = ["--raw", "--sample", str(options.sample), "--columns", *map(str, options.columns)]
    sides = {str(tree): (asked, {"PYTHONPATH": str(tree)}) for tree in trees}
    runs = list(children.by_turns("rows", __file__, options.rounds, sides).values())
    table = []
    for name in runs[0][0]:
        times = [[run[name] for run in of] for of in runs]
        row = [name, *(stats.number(min(of), 3) for of in times)]
        if len(times) > 1:
            row.append(stats.number(min(times[1]) / min(times[0])))
            row.append(stats.number(statistics.median(times[1]) / statistics.median(times[0])))
        table.append(row)
    print(stats.table(["ns a number", "this", "other", "best", "median"][: len(table[0])], table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
