"""Recorded tables: what every nested tiling of a product cost, so that a search can be repeated without a clock.

A table file is an xz stream: one line of JSON that says what was recorded where and how, then a byte for every state of
the space in the space's order.  The byte is a logarithm whose steps are 0.1 % next to the best, 0.6 % at 1.3 times and
3 % at 4 times the best's cost: finer than the noise wherever a search ends.  Beyond that only every eighth value is
used (37 % at 6 times), which makes a file a third as large: 500,000 states fit in 100 KB.  ``python bench/record.py``
makes the files in ``bench/tables``.
"""

from __future__ import annotations

import json
import lzma
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fastgemm.tune.nested import NestedSpace, State

FORMAT = 1

# Costs up to exp(REACH) times the best, which is 3,000 times; BEND sets how much finer the steps are next to it.
REACH, BEND = 8.0, 20.0
MISSING = 255

# From so many times the best on, steps are so many times as wide.
FAR, FAR_STEP = 4.0, 8

# A product that takes longer is not recorded.
MAX_SECONDS = 1e6

# Of a file when it is unpacked: larger than any of its spaces, small enough for memory.
MAX_BYTES = 64 << 20


class TableError(ValueError):
    """A file is no table; the message says why."""


@dataclass(frozen=True)
class Table:
    """Seconds of every point of a space.

    Parameters
    ----------
    space : NestedSpace
        The space; its order is that of `seconds`.
    seconds : ndarray
        NaN what was not measured, infinite what failed.
    about : mapping
        What the file says about the recording.
    """

    space: NestedSpace
    seconds: np.ndarray
    about: Mapping[str, Any]

    def __post_init__(self) -> None:
        if len(self.seconds) != len(self.space):
            raise TableError(f"{len(self.seconds)} times for {len(self.space)} points")

    def __call__(self, state: State) -> float:
        """Return the recorded seconds of a state; NaN where there are none."""
        return float(self.seconds[self.space.index(state)])

    @property
    def best(self) -> float:
        """The least time in the table."""
        return float(np.nanmin(self.seconds))


def codes(seconds: np.ndarray) -> tuple[np.ndarray, float]:
    """Return a byte for each time, and the least time, which they are relative to.

    Examples
    --------
    >>> coded, least = codes(np.array([2.0, 2.01, 7.0, np.nan]))
    >>> np.abs(times(coded, least) / [2.0, 2.01, 7.0, np.nan] - 1).round(3)
    array([0.   , 0.   , 0.001,   nan])
    """
    known = np.isfinite(seconds)
    least = float(seconds[known].min()) if known.any() else 1.0
    far = np.clip(np.log(np.where(known, seconds, least) / least), 0, REACH)
    steps = np.rint(np.log1p(BEND * far) / np.log1p(BEND * REACH) * (MISSING - 1))
    wide = np.minimum(steps // FAR_STEP * FAR_STEP + FAR_STEP // 2, MISSING - 1)
    steps = np.where(far > math.log(FAR), wide, steps)
    return np.where(known, steps, MISSING).astype(np.uint8), least


def times(coded: np.ndarray, least: float) -> np.ndarray:
    """Undo `codes`."""
    steps = coded.astype(float) / (MISSING - 1)
    seconds = least * np.exp(np.expm1(steps * np.log1p(BEND * REACH)) / BEND)
    return np.where(coded == MISSING, np.nan, seconds)


def save(path: Path, table: Table) -> None:
    """Write a table."""
    coded, least = codes(np.asarray(table.seconds))
    about = {**table.about, "format": FORMAT, "least": least, "space": "nested", "sizes": table.space.sizes}
    text = json.dumps(about, allow_nan=False).encode("ascii") + b"\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_bytes(lzma.compress(text + coded.tobytes(), preset=9 | lzma.PRESET_EXTREME))
    fresh.replace(path)


def load(path: Path) -> Table:
    """Read a table; `TableError` says why a file is none."""
    unpack = lzma.LZMADecompressor(memlimit=256 << 20)
    try:
        raw = unpack.decompress(path.read_bytes(), max_length=MAX_BYTES)
    except (lzma.LZMAError, OSError) as error:
        raise TableError(f"{path}: {error}") from None
    if not unpack.eof:
        raise TableError(f"{path}: cut off, or larger than {MAX_BYTES >> 20} MiB")
    line, _, body = raw.partition(b"\n")
    try:
        about = json.loads(line)
        if not isinstance(about, dict) or about.get("format") != FORMAT:
            raise ValueError(f"not a table of format {FORMAT}")
        if about["space"] != "nested":
            raise ValueError("not of nested tilings")
        least = about["least"]
        if isinstance(least, bool) or not isinstance(least, int | float) or not 0 < least < MAX_SECONDS:
            raise ValueError("the least time is no time")
        return Table(NestedSpace(**about["sizes"]), times(np.frombuffer(body, np.uint8), float(least)), about)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise TableError(f"{path}: {str(error)[:200]}") from None
