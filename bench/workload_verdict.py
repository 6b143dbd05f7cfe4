"""What a run of `workloads.py` says: times and ratios, means by group, what each pass gained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import stats
import verdict
import workload_cases
from stats import duration, geometric_mean, number

Result = dict[str, Any]


def seconds(document: dict[str, Any], result: Result) -> dict[str, float]:
    """Return the time of a call of every library that was timed and counts on this network.

    A library reached through ctypes does not count where the calls alone take a tenth of its time.
    """
    found = {}
    for name, entry in result["times"].items():
        if entry["samples"]:
            value = stats.typical(entry["samples"], document["statistic"])
            if document["libraries"][name].get("call_cost", 0.0) <= stats.CALL_SHARE * value:
                found[name] = value
    return found


def groups(document: dict[str, Any]) -> Iterator[tuple[str, list[Result]]]:
    """Yield the results of each kind of network and dtype."""
    found: dict[str, list[Result]] = {}
    for result in document["results"]:
        found.setdefault(workload_cases.from_dict(result["case"]).group, []).append(result)
    yield from found.items()


def ratios(document: dict[str, Any], result: Result) -> dict[str, float]:
    """Return the subject's speed over every peer's."""
    times = seconds(document, result)
    mine = times.get(document["subject"])
    return {} if mine is None else {name: times[name] / mine for name in document["peers"] if name in times}


def against_best(document: dict[str, Any]) -> dict[str, list[float]]:
    """Return the ratios to the fastest peer of every network, by group."""
    found = {}
    for name, results in groups(document):
        every = [ratios(document, result) for result in results]
        found[name] = [min(one.values()) for one in every if one]
    return {name: values for name, values in found.items() if values}


def missed(document: dict[str, Any], least: float) -> list[str]:
    """Say which groups' means against the fastest peer are below a ratio; where nothing was compared, that is one."""
    compared = against_best(document)
    found = [] if document["results"] else ["nothing was timed"]
    for name, _ in groups(document):
        mean = geometric_mean(compared.get(name, []))
        if name not in compared:
            found.append(f"{name}: nothing was compared")
        elif not mean >= least:
            found.append(f"{name}: {mean:.2f} against the best peer, not {least}")
    return found


def speed_table(document: dict[str, Any], results: list[Result]) -> str:
    """Every network of a group: the subject's time and rate, the ratio to every peer."""
    peers, subject = document["peers"], document["subject"]
    lines = []
    for result in results:
        work = workload_cases.from_dict(result["case"])
        times, found = seconds(document, result), ratios(document, result)
        mine = times.get(subject)
        rate = f"{work.flops / mine * 1e-9:.0f}" if mine else "-"
        cells = [number(found.get(name, float("nan"))) for name in peers]
        best = min(found, key=lambda name: found[name]) if found else ""
        last = [f"{found[best]:.2f} ({best})" if best else "-"] if len(peers) > 1 else []
        lines.append([f"{work.name} {work.batch}", duration(mine) if mine else "-", rate, *cells, *last])
    means = [geometric_mean(r[name] for r in (ratios(document, one) for one in results) if name in r)
             for name in peers]  # fmt: skip
    best_mean = [geometric_mean(min(r.values()) for r in (ratios(document, one) for one in results) if r)]
    total = [number(value) for value in means + (best_mean if len(peers) > 1 else [])]
    head = ["network, batch", subject, "GFLOP/s", *(f"vs {name}" for name in peers)]
    head += ["vs best"] if len(peers) > 1 else []
    return stats.table(head, [*lines, ["geometric mean", "", "", *total]])


def bound_table(document: dict[str, Any], results: list[Result]) -> str:
    """What the products of a group take at the peak, each library's share of that, and what is to be gained at most."""
    names = [document["subject"], *document["peers"]]
    lines: list[list[str]] = []
    shares: dict[str, list[float]] = {name: [] for name in names}
    most = []
    for result in results:
        work, times = workload_cases.from_dict(result["case"]), seconds(document, result)
        if not result.get("peak"):
            continue
        bound = work.flops / max(result["peak"])
        for name in names:
            if name in times:
                shares[name].append(bound / times[name])
        peers = [times[name] for name in document["peers"] if name in times]
        most += [min(peers) / bound] if peers else []
        cells = [f"{100 * bound / times[name]:.0f}" if name in times else "-" for name in names]
        ahead = f"{min(peers) / bound:.2f}" if peers else "-"
        lines.append([f"{work.name} {work.batch}", duration(bound), *cells, ahead])
    means = [f"{100 * geometric_mean(values):.0f}" if values else "-" for values in shares.values()]
    head = ["network, batch", "at the peak", *(f"{name}, %" for name in names), "best peer / bound"]
    return stats.table(head, [*lines, ["geometric mean", "", *means, number(geometric_mean(most))]])


def ablation_table(document: dict[str, Any], results: list[Result], variants: list[str]) -> str:
    """What each variant takes, relative to the one before; whether its bits are the subject's."""
    lines = []
    gains: dict[str, list[float]] = {name: [] for name in variants}
    for result in results:
        work, times = workload_cases.from_dict(result["case"]), seconds(document, result)
        cells, before = [], None
        for name in variants:
            value = times.get(name)
            if value is None:
                cells.append("-")
                continue
            same = result["bits"].get(name) == result["bits"].get(document["subject"])
            gain = before / value if before else None
            if gain:
                gains[name].append(gain)
            cells.append(f"{duration(value)}{f' ({gain:.2f})' if gain else ''}{'' if same else ' ~'}")
            before = value
        first = next((times[name] for name in variants if name in times), None)
        mine = times.get(document["subject"])
        lines.append([f"{work.name} {work.batch}", *cells, number(first / mine) if first and mine else "-"])
    means = [f"({geometric_mean(values):.2f})" if values else "" for values in gains.values()]
    whole = [float(line[-1]) for line in lines if line[-1] != "-"]
    return stats.table(["network, batch", *variants, "in all"],
                       [*lines, ["geometric mean", *means, number(geometric_mean(whole))]])  # fmt: skip


def text(document: dict[str, Any]) -> str:
    """Everything that a run says."""
    out = [f"{document['machine']['cpu']}, {document['machine']['cores']} cores; {document['threads']} threads"]
    out += [f"  {name}: {verdict.describe(about)}" for name, about in document["libraries"].items()]
    variants = [name for name in document["libraries"] if name.startswith(document["subject"])]
    order = [name for name in reversed(variants) if document["libraries"][name]["ok"]]
    for name, results in groups(document):
        out += ["", f"{name}: ratios are fastgemm's speed over the peer's", "", speed_table(document, results)]
        if any(result.get("peak") for result in results):
            out += ["", f"{name}: what the products take at the peak, and each library's share of it", "",
                    bound_table(document, results)]  # fmt: skip
        if len(order) > 1:
            out += ["", f"{name}: fastgemm, pass by pass; in brackets the gain over the column before; ~ other bits",
                    "", ablation_table(document, results, order)]  # fmt: skip
    problems = [
        f"  {workload_cases.from_dict(result['case']).label}: {name}: {error}"
        for result in document["results"]
        for name, error in result["errors"].items()
    ]
    out += ["", "Not timed:", *problems] if problems else []
    notes = [
        f"  {workload_cases.from_dict(result['case']).label}: {name}: {note}"
        for result in document["results"]
        for name, note in result["notes"].items()
        if note
    ]
    out += ["", "Notes:", *notes] if notes else []
    if document.get("foreign_load", 0.0) > verdict.BUSY:
        busy = document["foreign_load"]
        out += ["", f"Other processes kept {busy:.2f} cores busy meanwhile: repeat on a quiet machine."]
    return "\n".join(out)
