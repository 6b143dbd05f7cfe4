"""Rules from measured times: boxes of sizes with the way that is fastest there, found greedily.

`few_columns.py` and `stacks.py` measure the ways; the heuristic reads the lines that they print.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fastgemm.tune import shapes

LOSS = 2.0  # by which a product counts that a rule makes slower


class Box(NamedTuple):
    """A rule: classes of columns, rows and steps, from one to before the other, and its way.

    `second`: only for the second of the two kinds that each class of steps has.
    """

    columns: slice
    rows: slice
    steps: slice
    second: bool
    way: str

    @property
    def where(self) -> tuple[slice, slice, slice, slice | int]:
        """The index of its times."""
        return self.columns, self.rows, self.steps, 1 if self.second else slice(None)


def fitted(took: np.ndarray, ways: Sequence[str], dearer: Sequence[float], least: float) -> list[Box]:
    """Return rules, of which a later one counts before an earlier one: the one that gains most, and so on.

    Parameters
    ----------
    took : ndarray
        The logarithms of seconds: ways, columns, rows, steps, and two kinds of steps.  The first way is what happens
        without rules.  Infinity where a way does not compute a product, NaN where there is no such product.
    ways : sequence of str
        Their names.
    dearer : sequence of float
        What each way must gain besides, in logarithms.
    least : float
        What a rule must bring, in sums of logarithms.
    """
    took = took + np.reshape(dearer, (-1, 1, 1, 1, 1))
    now = took[0].copy()
    found: list[Box] = []
    while True:
        best = (least, Box(slice(0), slice(0), slice(0), False, ways[0]))
        for w, second in itertools.product(range(len(ways)), (False, True)):
            gain = np.nan_to_num(now - took[w], nan=0.0, neginf=-9.0)
            gain = np.where(took[w] > took[0], gain * LOSS, gain)
            gain = gain[..., 1] if second else gain.sum(axis=-1)
            table = np.zeros(np.add(gain.shape, 1))
            table[1:, 1:, 1:] = gain.cumsum(0).cumsum(1).cumsum(2)
            best = max(best, *_boxes(table, second, ways[w]), key=lambda one: one[0])
        if best[0] <= least:
            return found
        found.append(best[1])
        now = chosen(took, ways, found)


def _boxes(table: np.ndarray, second: bool, way: str) -> Iterator[tuple[float, Box]]:
    # The best of all boxes, of a table of sums: one for each range of columns and rows.
    sides = [list(itertools.combinations(range(size), 2)) for size in table.shape]
    for (a, b), (c, d) in itertools.product(sides[0], sides[1]):
        line = table[b, d] - table[a, d] - table[b, c] + table[a, c]
        sums = line[None, :] - line[:, None]
        e, f = np.unravel_index(np.argmax(np.triu(sums, 1)), sums.shape)
        yield float(sums[e, f]), Box(slice(a, b), slice(c, d), slice(int(e), int(f)), second, way)


def chosen(took: np.ndarray, ways: Sequence[str], found: Sequence[Box]) -> np.ndarray:
    """Return the logarithms of seconds, by rules."""
    now = took[0].copy()
    for box in found:
        now[box.where] = took[ways.index(box.way)][box.where]
    return now


def gains(took: np.ndarray, ways: Sequence[str], found: Sequence[Box]) -> Iterator[tuple[Box, np.ndarray]]:
    """Yield rules, the first that fits counting, each with what it gains where no earlier one fits."""
    used = np.zeros(took.shape[1:], bool)
    for box in reversed(found):
        gain = (took[0] - took[ways.index(box.way)])[box.where][~used[box.where]]
        gain = np.exp(gain[np.isfinite(gain)])
        used[box.where] = True
        if gain.size:
            yield box, gain


def side(firsts: Sequence[int], classes: slice) -> str:
    """Return the sizes of some classes, of which `firsts` are the first ones.

    Examples
    --------
    >>> side((2, 4, 8), slice(0, 2)), side((2, 4, 8), slice(1, 3))
    ('2-7', '4-')
    """
    last = "" if classes.stop == len(firsts) else str(firsts[classes.stop] - 1)
    return f"{firsts[classes.start]}-{last}"


def told(gain: np.ndarray) -> str:
    """Return gains as the tables have them: in the mean, the least, the most."""
    return f"{np.exp(np.log(gain).mean()):5.2f} {gain.min():5.2f} {gain.max():5.1f}"


def totals(took: np.ndarray, ways: Sequence[str], found: Sequence[Box]) -> str:
    """Return what rules gain in the mean, of what the fastest way of each product would."""
    total, most = took[0] - chosen(took, ways, found), took[0] - took.min(axis=0)
    return f"{np.exp(np.nanmean(total)):.3f} of {np.exp(np.nanmean(most)):.3f}"


def command_line(
    doc: str | None, types: Sequence[str], layouts: Sequence[str], seconds: float, rounds: int
) -> argparse.ArgumentParser:
    """Return the command line of a benchmark that measures ways, of its docstring and what it does unasked."""
    about, _, rest = (doc or "").partition("\n\n")
    made = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--dtype", nargs="+", type=shapes.type_named, default=[*map(shapes.type_named, types)])
    made.add_argument("--layout", nargs="+", choices=layouts, default=layouts, help="default: all")
    made.add_argument("--seconds", type=float, default=seconds, help=f"of a product (default: {seconds})")
    made.add_argument("--rounds", type=int, default=rounds, metavar="N", help=f"through all of it (default: {rounds})")
    made.add_argument("--times", type=Path, metavar="FILE", help="times that were kept, or where to keep them")
    return made


class Times:
    """The times of a run, by names, kept in a file if one is given, from which another run reads them."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.kept: dict[str, list] = json.loads(path.read_text()) if path and path.exists() else {}

    def get(self, name: str, measure: Callable[[], np.ndarray]) -> np.ndarray:
        """Return those of a name, measured if there are none."""
        if name not in self.kept:
            self.kept[name] = measure().tolist()
            if self.path:
                self.path.write_text(json.dumps(self.kept))
        return np.array(self.kept[name])
