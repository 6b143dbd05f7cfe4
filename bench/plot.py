"""The plot of a compare document: ratios above, shares of the FMA peak below."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import cases
import verdict
from stats import Comparison

# Told apart in grey as well: markers differ.
MARKERS = "os^Dvx*"
# Below the axes: shapes fill the panels, a legend inside would hide some.
LEGEND: dict[str, Any] = {"fontsize": 7, "ncols": 5, "loc": "upper center", "bbox_to_anchor": (0.5, -0.17)}


def draw(document: dict[str, Any], path: Path, title: str) -> None:
    """Draw one column of panels for each dtype and thread count."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    found = list(verdict.groups(document))
    if not found:
        raise ValueError("nothing to plot: no shape was timed")
    subject, peers = document["subject"], document["peers"]
    shares = any(not math.isnan(row.peak) for group in found for row in group.rows)
    panels = 2 if shares else 1
    widest = max(len(group.rows) for group in found)
    size = (len(found) * min(14.0, max(6.0, 0.09 * widest)), 4.2 * panels + 0.6)
    figure, axes = plt.subplots(panels, len(found), figsize=size, squeeze=False, layout="constrained")
    for column, group in enumerate(found):
        rows = sorted(group.rows, key=lambda row: (row.shape["cls"], cases.Case(**row.shape).flops))
        top = axes[0][column]
        for index, peer in enumerate(peers):
            points = [(x, row.ratios[peer]) for x, row in enumerate(rows) if peer in row.ratios]
            if points:
                mean = next(one for one in group.summaries if one.group == "total").means[peer]
                label = f"{peer} ({mean:.2f})"
                top.plot(*zip(*points, strict=True), MARKERS[index % 7], markersize=3.5, alpha=0.8, label=label)
        top.axhline(1.0, color="black", linewidth=0.8)
        top.set_yscale("log", base=2)
        top.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        top.set_title(group.title)
        top.set_ylabel(f"speed of {subject} over the peer's")
        if top.get_legend_handles_labels()[0]:
            top.legend(title="peer (geometric mean)", title_fontsize=7, **LEGEND)
        if shares:
            _shares(axes[1][column], rows, [subject, *peers])
        for panel in axes[:, column]:
            _classes(panel, rows)
    figure.suptitle(title)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _shares(panel: Any, rows: list[Comparison], names: list[str]) -> None:
    for index, name in enumerate(names):
        points = [
            (x, 100 * cases.Case(**row.shape).flops / row.seconds[name] / row.peak)
            for x, row in enumerate(rows)
            if name in row.seconds and not math.isnan(row.peak)
        ]
        if points:
            # Markers go on from the panel above, where the subject has none of its own.
            marker = "." if index == 0 else MARKERS[(index - 1) % 7]
            style = {"color": "black", "zorder": 3} if index == 0 else {"alpha": 0.6, "color": f"C{index - 1}"}
            panel.plot(*zip(*points, strict=True), marker, markersize=6 if index == 0 else 3.5, label=name, **style)
    panel.set_ylim(0, 105)
    panel.set_ylabel("% of the FMA peak")
    panel.legend(**LEGEND)


def _classes(panel: Any, rows: list[Comparison]) -> None:
    """Mark where each class begins, its name on the axis; within a class shapes grow to the right."""
    names = [row.shape["cls"] for row in rows]
    starts = [x for x in range(len(names)) if x == 0 or names[x] != names[x - 1]]
    for start in starts[1:]:
        panel.axvline(start - 0.5, color="0.85", linewidth=0.8)
    ends = [*starts[1:], len(names)]
    panel.set_xticks([(start + end - 1) / 2 for start, end in zip(starts, ends, strict=True)])
    panel.set_xticklabels([names[start] for start in starts], rotation=30, ha="right", fontsize=8)
    panel.set_xlim(-1, len(names))
