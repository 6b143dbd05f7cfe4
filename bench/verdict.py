"""What a compare run says, as text: means by class, worst shapes, lost shapes, what was left out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from typing import Any, NamedTuple

import cases
import stats
from stats import Comparison, Summary

# Others' CPU time, in cores, from which figures are not to be trusted.
BUSY = 0.1


class Group(NamedTuple):
    """The rows of one dtype and thread count."""

    dtype: str
    threads: int
    rows: list[Comparison]
    summaries: list[Summary]

    @property
    def title(self) -> str:
        """Dtype and threads in words."""
        return f"{self.dtype}, {self.threads} thread{'s' * (self.threads != 1)}"


def groups(document: dict[str, Any], results: str = "results") -> Iterator[Group]:
    """Reduce a compare document, one group for each dtype and thread count; or what it timed ``again``."""
    rows: dict[tuple[str, int], list[Comparison]] = {}
    for result in document[results]:
        case = result["case"]
        about = document["libraries"].get(str(case["threads"]), {})
        costs = {name: entry.get("call_cost", 0.0) for name, entry in about.items()}
        row = stats.compare(result, document["subject"], costs, document["settings"]["statistic"])
        if row is not None:
            rows.setdefault((case["dtype"], case["threads"]), []).append(row)
    for (dtype, threads), found in rows.items():
        yield Group(dtype, threads, found, stats.by_class(found, document["peers"]))


def lost(document: dict[str, Any]) -> list[Comparison]:
    """Return the shapes at which some peer was faster by more than noise."""
    return [row for group in groups(document) for row in group.rows if row.against_best < 1 - stats.NOISE]


def describe(about: dict[str, Any]) -> str:
    """Version and details of a library, or why it is not there."""
    if not about["ok"]:
        return str(about["reason"])
    return " ".join(part for part in (about["version"], f"({about['detail']})" if about["detail"] else "") if part)


def summary_table(group: Group, peers: list[str]) -> str:
    """Geometric means of one group by class, against each peer and the best of them."""
    several = len(peers) > 1
    best_head = ["vs best peer"] if several else []
    head = ["class", "shapes", *(f"vs {peer}" for peer in peers), *best_head, "worst", "lost"]
    lines = []
    for one in group.summaries:
        means = [stats.number(one.means[peer]) for peer in peers]
        best = [stats.number(one.best)] if several else []
        lines.append([one.group, str(one.shapes), *means, *best, stats.number(one.worst), str(one.lost)])
    return stats.table(head, lines)


def shape_table(rows: list[Comparison], subject: str) -> str:
    """Times of single shapes: the subject, its best peer, the ratio, the share of the peak."""
    lines = []
    for row in rows:
        case = cases.Case(**row.shape)
        peer = row.best_peer
        mine = row.seconds[subject]
        lines.append(
            [
                f"{case.shape} {case.layout}", case.cls, stats.duration(mine),
                stats.duration(row.seconds[peer]) if peer else "-", peer or "-", stats.number(row.against_best),
                f"{case.flops / mine * 1e-9:.1f}", stats.number(100 * case.flops / mine / row.peak, 0),
            ]
        )  # fmt: skip
    return stats.table(["shape", "class", subject, "best peer", "which", "ratio", "GFLOP/s", "% of peak"], lines)


def text(document: dict[str, Any], worst: int = 10) -> str:
    """Everything that a compare run says."""
    subject, peers = document["subject"], document["peers"]
    out = [f"{document['machine']['cpu']}, {document['machine']['cores']} cores"]
    for threads, libraries in document["libraries"].items():
        out += [f"  {threads} thread(s): {name}: {describe(about)}" for name, about in libraries.items()]
    settings = document["settings"]
    fresh = "one output, reused" if settings["reuse_out"] else "a fresh output every call"
    counts = f"the {settings['statistic']} of {settings['rounds']} rounds counts"
    out += [f"  {settings['operands']} operands, {fresh}; {counts}"]
    if document["interrupted"]:
        out.append("INTERRUPTED: what follows covers the shapes that were finished.")
    if settings.get("busy"):
        out.append(f"  {settings['busy']} other process(es) computed meanwhile, as asked for")
    elif document.get("foreign_load", 0.0) > BUSY:
        out.append(
            f"WARNING: other processes kept {document['foreign_load']:.2f} cores busy during this run; "
            "figures of several threads above all are not to be trusted."
        )
    for group in groups(document):
        compared = [row for row in group.rows if row.ratios]
        out += ["", f"## {group.title}: speed of {subject} over its peers (above 1 is faster), geometric means", ""]
        out += [summary_table(group, peers)]
        ordered = sorted(compared, key=lambda row: row.against_best)
        if worst and ordered:
            out += ["", f"Worst shapes, {group.title}:", ""]
            out += [shape_table(ordered[:worst], subject)]
        slower = [row for row in ordered if row.against_best < 1 - stats.NOISE]
        names = ", ".join(f"{cases.Case(**row.shape).shape} ({row.against_best:.2f})" for row in slower) or "none"
        out += ["", f"Lost by more than {stats.NOISE:.0%} to a peer: {len(slower)} of {len(compared)}: {names}"]
        noisy = sum(row.noisy for row in group.rows)
        if noisy:
            out.append(f"Noisy (half of some library's samples over {stats.NOISY} times its best): {noisy} shapes")
        for peer in peers:
            count = sum(peer in row.left_out for row in group.rows)
            if count:
                out.append(f"{peer}: {count} shapes do not count, the call through ctypes is too large a part of them")
    out += _again(document)
    out += _scaling(document)
    out += _left_out(document)
    return "\n".join(out)


def _again(document: dict[str, Any]) -> list[str]:
    # Shapes that were lost, in other processes: each has its own set of processes a ratio.
    out = []
    for group in groups(document, "again") if document.get("again") else ():
        found: dict[str, list[float]] = {}
        for row in group.rows:
            case = cases.Case(**row.shape)
            found.setdefault(f"{case.shape} {case.layout}", []).append(row.against_best)
        lines = [
            [shape, str(len(ratios)), *map(stats.number, (min(ratios), statistics.median(ratios), max(ratios)))]
            for shape, ratios in sorted(found.items(), key=lambda item: statistics.median(item[1]))
        ]
        out += ["", f"Lost shapes in other processes, {group.title}, against the best peer of each:", ""]
        out += [stats.table(["shape", "times", "least", "median", "most"], lines)]
    return out


def _scaling(document: dict[str, Any]) -> list[str]:
    # What more threads are worth, for every library by itself.
    found: dict[tuple[str, int], list[tuple[dict[str, Any], Comparison]]] = {}
    alone: dict[tuple[str, str], Comparison] = {}
    for group in groups(document):
        for row in group.rows:
            shape = {name: value for name, value in row.shape.items() if name != "threads"}
            if group.threads == 1:
                alone[group.dtype, str(shape)] = row
            else:
                found.setdefault((group.dtype, group.threads), []).append((shape, row))
    lines = []
    for (dtype, threads), rows in found.items():
        for name in [document["subject"], *document["peers"]]:
            gains: dict[str, list[float]] = {"total": []}
            for shape, row in rows:
                other = alone.get((dtype, str(shape)))
                if other is not None and name in row.seconds and name in other.seconds:
                    gain = other.seconds[name] / row.seconds[name]
                    gains["total"].append(gain)
                    gains.setdefault(shape["cls"], []).append(gain)
            if gains["total"]:
                means = [f"{cls} {stats.geometric_mean(gain):.2f}" for cls, gain in gains.items()]
                lines.append(f"  {dtype}, {threads} threads, {name}: {', '.join(means)}")
    return ["", "Speed over that of one thread, geometric means:", *lines] if lines else []


def _left_out(document: dict[str, Any]) -> list[str]:
    lines = [f"  {cases.Case(**item['case']).label}: {item['reason']}" for item in document["skipped"]]
    out = ["", f"Skipped {len(lines)} shapes:", *lines] if lines else []
    reasons: dict[tuple[str, str], list[str]] = {}
    for result in document["results"]:
        for name, reason in result["errors"].items():
            reasons.setdefault((name, reason), []).append(cases.Case(**result["case"]).label)
    for (name, reason), labels in reasons.items():
        which = labels[0] if len(labels) == 1 else f"{len(labels)} shapes, {labels[0]} first"
        out += ["", f"{name} has no time for {which}: {reason}"]
    return out


def missed(document: dict[str, Any], total: float, cls: float) -> list[str]:
    """Say which requirements on geometric means are not met, against every peer; nothing compared meets none."""
    if max(total, cls) == -math.inf:
        return []
    found = [] if document["results"] else ["nothing was timed"]
    for group in groups(document):
        for one in group.summaries:
            bar = total if one.group == "total" else cls
            for peer, mean in one.means.items():
                if one.group == "total" and math.isnan(mean):
                    found.append(f"{group.title}: nothing was compared with {peer}")
                elif mean < bar:
                    found.append(f"{group.title}, {one.group}: {mean:.2f} against {peer}, {bar:.2f} wanted")
    return found
