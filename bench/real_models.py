"""Time models from ONNX files, exported from PyTorch code with random weights (`export_onnx.py`).

    /path/to/torch/python bench/export_onnx.py --out models
    python bench/real_models.py models/mlp.onnx:8x479 models/encoder.onnx:8x128x768 --peers onnxruntime
    /path/to/torch/python bench/export_onnx.py --out models --quantize    # with onnxruntime: NAME_bytes, NAME_dynamic

A model is a file and the shape of its input x.  Every library lives in a process of its own and they take turns;
ratios are fastgemm's speed over the peer's.  Results are compared with fastgemm's, and fastgemm's with the reference
interpreter of its graph in double precision, before anything is timed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import real_worker
import stats
import workers
from load import Quiet

SCRIPT = Path(__file__).with_name("real_worker.py")
# Of the largest number of the result: what float32 leaves of six products one after another.
CLOSE = 2e-5
# And what bytes do that were nearest to another number before the last rounding.
CLOSE_BYTES = 5e-2


def model(text: str) -> tuple[Path, list[int]]:
    """Read ``"file.onnx:8x479"``."""
    path, _, shape = text.rpartition(":")
    sizes = shape.split("x")
    if not path or not all(size.isdecimal() and int(size) for size in sizes):
        raise argparse.ArgumentTypeError(f"a model is written FILE:8x479, not {text!r}")
    return Path(path), [int(size) for size in sizes]


def wanted(path: Path, shape: list[int]) -> tuple[list[float], float]:
    """Return some numbers of the result by the reference interpreter in double precision, and how near one must be."""
    from fastgemm import graph

    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    read = graph.from_onnx(path, batch=shape[0])
    made = graph.reference.run(read, {"x": x}, precise=True)
    flat = next(iter(made.values())).reshape(-1)
    some: list[float] = flat[:: max(1, flat.size // 1000)].tolist()
    return some, CLOSE_BYTES if any(node.op == "quantize" for node in read.nodes) else CLOSE


def time_model(crew: Sequence[workers.Worker], path: Path, shape: list[int], rounds: int) -> list[str]:
    """Return the cells of one line: fastgemm's time, and its speed over every other's."""
    some, close = wanted(path, shape)
    truth = np.asarray(some)
    seconds: dict[str, list[float]] = {}
    for one in crew:
        try:
            answer = one.ask("prepare", 300.0, path=str(path), shape=shape, sample=0.02)
        except workers.Died as error:
            answer = {"unsupported": str(error)}
        one.settle()
        off = np.inf if "values" not in answer else np.abs(np.asarray(answer["values"]) - truth).max()
        if off <= close * max(1.0, np.abs(truth).max()):
            seconds[one.name] = []
        else:
            print(f"{path.name}: {one.name}: {answer.get('unsupported', f'wrong result, off by {off}')}")
    ready, quiet = [one for one in crew if one.name in seconds], Quiet(20.0)
    for turn in range(rounds):
        for one in ready if turn % 2 == 0 else ready[::-1]:
            if one.name not in seconds:
                continue
            quiet.wait()
            try:
                seconds[one.name] += one.ask("time")["seconds"]
            except workers.Died as error:
                # What it has already told stands for nothing: the others had more turns.
                del seconds[one.name]
                print(f"{path.name}: {one.name}: {error}")
            one.settle()
    best = {name: min(samples) for name, samples in seconds.items() if samples}
    mine = best.get("fastgemm")
    name = f"{path.stem} {'x'.join(map(str, shape))}"
    ratios = [stats.number(best[one.name] / mine) if mine and one.name in best else "-" for one in crew[1:]]
    return [name, stats.duration(mine) if mine else "-", *ratios]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [name for name in real_worker.LIBRARIES if name != "fastgemm"]
    made.add_argument("models", nargs="+", type=model, metavar="FILE:SHAPE", help="a file and the shape of its input")
    made.add_argument("--peers", nargs="*", default=["onnxruntime"], choices=known, metavar="NAME",
                      help=f"of {', '.join(known)} (default onnxruntime)")  # fmt: skip
    made.add_argument("--threads", type=int, default=workers.machine()["cores"], metavar="N", help="default: the cores")
    made.add_argument("--rounds", type=int, default=5, help="turns of every library (default 5)")
    made.add_argument("--python", action="append", default=[], metavar="[NAME=]PATH", help="interpreter of a library")
    options = made.parse_args(arguments)
    pythons = workers.interpreters(options.python, real_worker.LIBRARIES)
    crew = [
        workers.Worker(name, options.threads, pythons.get(name), script=SCRIPT, known=real_worker.LIBRARIES)
        for name in ("fastgemm", *options.peers)
    ]
    try:
        about_all = {one.name: one.start() for one in crew}
        for name, found in about_all.items():
            print(f"{name}: {found['version'] if found['ok'] else found['reason']}")
        there = [one for one in crew if about_all[one.name]["ok"]]
        lines = [time_model(there, path, shape, options.rounds) for path, shape in options.models]
        print("\n" + stats.table(["model, input", "fastgemm", *(f"vs {one.name}" for one in there[1:])], lines))
    finally:
        for one in crew:
            one.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
