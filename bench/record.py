"""Record what every nested tiling of a product costs here, as a table that strategies are replayed on.

A run of every state from beginning to end would take days (the median state of 512^3 takes twenty times the best).  So
recording has two stages:

1. *Sampled runs.*  Of every state, three stretches of its own loops are run and timed, each after as much warm-up, and
   the pace is taken for the whole; the median counts.  A state whose first stretch says that it is 4 times slower
   than the best so far gets no others, as no search ends there (the tables of 256 and 512 were recorded with 20).
   ``--check`` compares estimates with whole runs.
2. *Whole runs* of the best by these estimates, in turn, the least of several: what a search is judged by is exact.

States are taken in random order, so that a slow spell of the machine is spread over the space.  A reference state
is sampled before and after each block of them: the block is scaled by the reference's pace, and taken
again when the two differ by more than 5 %.  Out of time, the command keeps what it has and goes on next time.

    python bench/record.py 512x512x512 --seconds 80           # again, until it says that the table is complete
    python bench/record.py 512x512x512 --check 200            # estimates against whole runs

The tables in bench/tables were recorded by these commands.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import cost_tables
import numpy as np

from fastgemm import cpu, kernels
from fastgemm.tune import arguments as values
from fastgemm.tune.nested import LENGTH, STARTS, NestedSpace, Product, State

HOPELESS = cost_tables.FAR
BLOCK = 500
STEADY = 0.05
WHOLE_SHARE, WHOLE_MOST, WHOLE_ROUNDS = 1.15, 1000, 3


class Recorder:
    """A product, and the pace of the machine while its states are timed."""

    def __init__(self, space: NestedSpace) -> None:
        self.space, self.product = space, Product(space)
        self.reference = self._find_reference()
        self.base = self.pace()
        self.best = self.base

    def pace(self) -> float:
        """Seconds that the reference state takes now: the least of some samples."""
        return min(min(self.product.sample(self.reference, STARTS, LENGTH)) for _ in range(4))

    def sampled(self, state: State) -> float:
        """Estimate of a state's time."""
        (first,) = self.product.sample(state, STARTS[1:2], LENGTH / 2)
        if first > HOPELESS * self.best:
            return first
        seconds = statistics.median(self.product.sample(state, STARTS, LENGTH))
        self.best = min(self.best, seconds)
        return seconds

    def block(self, indices: np.ndarray) -> np.ndarray:
        """Estimates for some states at the reference's own pace."""
        for _ in range(3):
            before = self.pace()
            found = np.array([self.sampled(self.space[int(i)]) for i in indices])
            after = self.pace()
            if abs(after / before - 1) < STEADY:
                break
        return found * (2 * self.base / (before + after))

    def whole(self, states: list[State], rounds: int, deadline: float) -> np.ndarray:
        """Least time of whole runs, all states in turn, scaled as above; NaN what there was no time for."""
        least = np.full(len(states), np.nan)
        for _ in range(rounds):
            scale = self.base / self.pace()
            for i, state in enumerate(states):
                if i % 50 == 0:
                    scale = self.base / self.pace()
                    if time.monotonic() > deadline:
                        return least
                begin = time.perf_counter()
                self.product.run(state)
                least[i] = np.fmin(least[i], (time.perf_counter() - begin) * scale)
        return least

    def _find_reference(self) -> State:
        # Register tiles in the inner loops, blocks of 64: near the best everywhere, and bound by arithmetic.
        found = {}
        for name, size, inner in (("m", self.space.sizes["m"], (8, 4)), ("n", self.space.sizes["n"], (2, 32))):
            rest = max(1, size // (inner[0] * inner[1]))
            found[name] = (rest, 1, *inner)
        return State(found["m"], (max(1, self.space.sizes["k"] // 128), min(128, self.space.sizes["k"])), found["n"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("space", metavar="SHAPE", type=_space, help="MxKxN, powers of two from 64 on")
    parser.add_argument("--seconds", type=values.above_zero("a number of seconds"), default=80.0, metavar="S",
                        help="time for this run (default: 80)")  # fmt: skip
    parser.add_argument("--out", type=Path, help="the table (default: bench/tables/nested-SHAPE.xz)")
    parser.add_argument("--check", type=values.count, metavar="N", help="only compare N estimates with whole runs")
    parser.add_argument("--seed", type=values.whole, default=0, help="of the order and of --check (default: 0)")
    options = parser.parse_args(arguments)
    space = options.space
    out = options.out or Path(__file__).parent / "tables" / f"nested-{_size(space)}.xz"
    try:
        recorder = Recorder(space)
    except RuntimeError as error:
        parser.error(str(error))
    if options.check:
        return check(recorder, options.check, options.seed)
    return record(recorder, out, time.monotonic() + options.seconds, options.seed)


def _space(text: str) -> NestedSpace:
    """Read MxKxN; a type for the command line."""
    sizes = text.split("x")
    if len(sizes) != 3 or not all(size.isascii() and size.isdecimal() for size in sizes):
        raise argparse.ArgumentTypeError(f"{text!r} is not three sizes such as 512x512x512")
    try:
        space = NestedSpace(*map(int, sizes))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if min(space.sizes.values()) < 64:
        raise argparse.ArgumentTypeError("the sizes must be at least 64")
    return space


def _size(space: NestedSpace) -> str:
    return "x".join(map(str, space.sizes.values()))


def check(recorder: Recorder, count: int, seed: int) -> int:
    """Print how far estimates are from whole runs, for states drawn at random up to 4 times the best."""
    rng = random.Random(seed)
    ratios: list[float] = []
    while len(ratios) < count:
        state = recorder.space.sample(rng)
        estimate = recorder.sampled(state)
        if estimate < HOPELESS * recorder.best:
            begin = time.perf_counter()
            recorder.product.run(state)
            ratios.append(estimate / (time.perf_counter() - begin))
    low, quarter, middle, three, high = np.quantile(ratios, [0.05, 0.25, 0.5, 0.75, 0.95])
    print(f"estimate / whole run of {count} states: median {middle:.3f}, middle half {quarter:.3f} to {three:.3f}, "
          f"nine tenths {low:.3f} to {high:.3f}")  # fmt: skip
    return 0


def record(recorder: Recorder, out: Path, deadline: float, seed: int) -> int:
    """Go on with a recording; write the table when it is complete."""
    space, part = recorder.space, out.with_suffix(".part.npy")
    order = np.random.default_rng(seed).permutation(len(space))
    seconds, whole, base = np.full(len(space), np.nan), np.full(len(space), np.nan), recorder.base
    if part.exists():
        try:
            kept = np.load(part, allow_pickle=False)
        except (OSError, ValueError, EOFError):
            kept = np.zeros(0)
        if kept.shape != (2, len(space) + 1):
            raise SystemExit(f"{part} is no recording of {len(space)} states; delete it to begin anew")
        seconds, whole, base = kept[0][:-1].copy(), kept[1][:-1].copy(), float(kept[0][-1])
        # The pace of the run that began the table counts.
        recorder.base = base
        recorder.best = float(np.nanmin(seconds)) if np.isfinite(seconds).any() else recorder.best
    left = order[np.isnan(seconds[order])]
    shown = time.monotonic()
    while len(left) and time.monotonic() < deadline:
        now, left = left[:BLOCK], left[BLOCK:]
        seconds[now] = recorder.block(now)
        if time.monotonic() > shown + 5:
            shown = time.monotonic()
            done = len(space) - len(left)
            print(f"{done} of {len(space)} states, best {np.nanmin(seconds) * 1e3:.3f} ms", flush=True)
    if not len(left):
        finalists = np.argsort(seconds)
        finalists = finalists[seconds[finalists] < WHOLE_SHARE * seconds[finalists[0]]][:WHOLE_MOST]
        waiting = finalists[np.isnan(whole[finalists])]
        # As many as there is time for, every round of them.
        cost = WHOLE_ROUNDS * np.cumsum(seconds[waiting]) * 1.1
        now = waiting[cost < deadline - time.monotonic()]
        if len(now):
            whole[now] = recorder.whole([space[int(i)] for i in now], WHOLE_ROUNDS, deadline + 8)
        if not np.isnan(whole[finalists]).any():
            return _finish(recorder, out, part, seconds, whole)
        print(f"{len(finalists) - int(np.isnan(whole[finalists]).sum())} of {len(finalists)} finalists")
    part.parent.mkdir(parents=True, exist_ok=True)
    fresh = part.with_suffix(".new.npy")
    np.save(fresh, np.array([[*seconds, base], [*whole, base]]), allow_pickle=False)
    fresh.replace(part)  # a command that is killed meanwhile loses its own states alone
    print(f"not complete: {len(left)} states left; the same command goes on")
    return 0


def _finish(recorder: Recorder, out: Path, part: Path, seconds: np.ndarray, whole: np.ndarray) -> int:
    exact = np.isfinite(whole)
    ratio = float(np.median(whole[exact] / seconds[exact]))
    # Estimates are brought to the level of whole runs, so that the two kinds can be compared.
    table = np.where(exact, whole, seconds * ratio)
    about = {
        "cpu": cpu.key(),
        "isa": str(getattr(kernels.active_isa(), "name", "")),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "command": f"python bench/record.py {_size(recorder.space)}",
        "whole": int(exact.sum()),
        "estimates_scaled_by": round(ratio, 4),
    }
    cost_tables.save(out, cost_tables.Table(recorder.space, table, about))
    part.unlink(missing_ok=True)
    print(f"complete: {out}, {out.stat().st_size >> 10} KiB, best {table.min() * 1e3:.3f} ms, {about['whole']} states "
          f"run whole, estimates scaled by {ratio:.3f}")  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
