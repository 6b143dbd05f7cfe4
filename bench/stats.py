"""Numbers out of samples: ratios, geometric means, summaries by class.

Pure functions over plain values, so that the commands, the report and the tests
share one definition of every figure.  A ratio is always *subject speed / peer
speed*, that is peer seconds / subject seconds: above 1 the subject is faster.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

# Two runs of the same code on a shared machine differ by this much; closer than that is a draw.
NOISE = 0.03
# A median this many times the best is not spread, it is something else running.
NOISY = 1.5
# A peer reached through ctypes is left out of a shape where the call alone takes this share.
CALL_SHARE = 0.1


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean, NaN of nothing.

    Examples
    --------
    >>> geometric_mean([0.5, 2.0])
    1.0
    """
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs)) if logs else math.nan


def typical(samples: Sequence[float], statistic: str = "best") -> float:
    """Reduce samples (seconds a call) to one: the ``best`` or the ``median``."""
    if not samples:
        return math.nan
    return min(samples) if statistic == "best" else statistics.median(samples)


class Comparison(NamedTuple):
    """One shape of a run, reduced: seconds a library, ratios a peer.

    ``best_peer`` is the fastest of the peers that count, ``left_out`` names peers whose
    ratio would measure a ctypes call instead of a product.  `noisy` says that half of
    the samples of some library took over 1.5 times its best.
    """

    shape: dict[str, Any]
    seconds: dict[str, float]
    ratios: dict[str, float]
    best_peer: str | None
    left_out: tuple[str, ...]
    peak: float
    noisy: bool = False

    @property
    def against_best(self) -> float:
        """Ratio to the fastest peer, NaN without one."""
        return self.ratios[self.best_peer] if self.best_peer else math.nan


def compare(
    result: dict[str, Any], subject: str, call_costs: dict[str, float], statistic: str = "best"
) -> Comparison | None:
    """Reduce one result of a compare run; None when the subject has no time for it."""
    seconds = {
        name: typical(entry["samples"], statistic) for name, entry in result["times"].items() if entry["samples"]
    }
    if subject not in seconds:
        return None
    left_out = tuple(
        name for name, value in seconds.items() if name != subject and call_costs.get(name, 0.0) > CALL_SHARE * value
    )
    ratios = {
        name: value / seconds[subject] for name, value in seconds.items() if name != subject and name not in left_out
    }
    best = min(ratios, key=lambda name: ratios[name]) if ratios else None
    peaks = result.get("peak") or []
    peak = statistics.median(peaks) if peaks else math.nan
    timed = [entry["samples"] for entry in result["times"].values() if entry["samples"]]
    noisy = any(statistics.median(samples) > NOISY * min(samples) for samples in timed)
    return Comparison(result["case"], seconds, ratios, best, left_out, peak, noisy)


class Summary(NamedTuple):
    """A group of shapes: how many, the geometric mean a peer, the worst and the lost ones."""

    group: str
    shapes: int
    means: dict[str, float]
    best: float
    worst: float
    lost: int


def summarise(group: str, rows: Sequence[Comparison], peers: Sequence[str]) -> Summary:
    """Summarise the ratios of a group of shapes."""
    compared = [row for row in rows if row.ratios]
    against = [row.against_best for row in compared]
    means = {peer: geometric_mean(row.ratios[peer] for row in compared if peer in row.ratios) for peer in peers}
    lost = sum(ratio < 1 - NOISE for ratio in against)
    return Summary(group, len(compared), means, geometric_mean(against), min(against, default=math.nan), lost)


def by_class(rows: Sequence[Comparison], peers: Sequence[str]) -> list[Summary]:
    """Summaries of every class in order of name, the total last."""
    classes = sorted({row.shape["cls"] for row in rows})
    found = [summarise(cls, [row for row in rows if row.shape["cls"] == cls], peers) for cls in classes]
    return [*found, summarise("total", rows, peers)]


def duration(seconds: float) -> str:
    """Write a time with three digits and a fitting unit; a dash where there is none.

    Examples
    --------
    >>> duration(1.234e-6), duration(math.inf)
    ('1.23 us', '-')
    """
    if not seconds < math.inf:
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}" if seconds < 999.5 * scale else f"{seconds / scale:.0f} {unit}"
    return f"{seconds / 1e-9:.0f} ns"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out a Markdown table whose columns also line up as plain text."""
    cells = [list(head), *(list(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        first, *others = (
            text.ljust(width) if i == 0 else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        return "| " + " | ".join([first, *others]) + " |"

    rules = ["-" * (width + 2) if i == 0 else "-" * (width + 1) + ":" for i, width in enumerate(widths)]
    rule = "|" + "|".join(rules) + "|"
    return "\n".join([line(cells[0]), rule, *(line(row) for row in cells[1:])])


def number(value: float, digits: int = 2) -> str:
    """Write a figure, or a dash where there is none."""
    return "-" if math.isnan(value) else f"{value:.{digits}f}"
