"""Turn measurements into a Markdown report and a plot.

    python bench/report.py compare.json --markdown report.md --png report.png
    python bench/report.py fastgemm.json numpy.json torch.json --png report.png

Reads what `compare.py --json` wrote, and pytest-benchmark files (one a library: they are merged
by shape).  Without --markdown the tables go to standard output.  The plot shows, shape by
shape, the ratio to every peer (above 1 the subject is faster) and the share of the FMA peak
that every library reaches, the peak as measured in the same run.  Ratios between separate
pytest-benchmark runs include the drift of the machine; those of compare.py do not.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cases
import progress
import verdict
import workers


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("files", nargs="+", type=Path, metavar="JSON", help="measurements to report")
    made.add_argument("--subject", help="library that the ratios are of (default: the file's, or fastgemm)")
    made.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables here")
    made.add_argument("--png", type=Path, metavar="FILE", help="draw the plot here (needs matplotlib)")
    made.add_argument("--title", default="Matrix products compared", help="heading of the report")
    return made


def load(paths: Sequence[Path], subject: str | None = None) -> dict[str, Any]:
    """Read files of either kind into one document of compare.py's form.

    Raises
    ------
    ValueError
        If a file is of neither kind, or kinds are mixed, or no library is left to compare.
    """
    read = []
    for path in paths:
        try:
            read.append(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error
    if all(isinstance(one, dict) and one.get("kind") == "compare" for one in read):
        document = merge(read)
    elif all(isinstance(one, dict) and "benchmarks" in one for one in read):
        document = from_benchmarks(read)
    else:
        raise ValueError("each file must come from compare.py --json, or each from pytest-benchmark")
    if subject:
        names = [document["subject"], *document["peers"]]
        if subject not in names:
            raise ValueError(f"no measurements of {subject}; there are: {', '.join(names)}")
        document.update(subject=subject, peers=[name for name in names if name != subject])
    return document


def merge(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Put several compare runs (other shapes, dtypes or threads) into one document."""
    merged = dict(documents[0])
    merged["results"] = [result for one in documents for result in one["results"]]
    merged["skipped"] = [item for one in documents for item in one["skipped"]]
    merged["libraries"] = {threads: about for one in documents for threads, about in one["libraries"].items()}
    merged["peers"] = list(dict.fromkeys(name for one in documents for name in one["peers"]))
    merged["foreign_load"] = max(one.get("foreign_load", 0.0) for one in documents)
    merged["interrupted"] = any(one["interrupted"] for one in documents)
    return merged


def from_benchmarks(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Make a compare document of pytest-benchmark files."""
    results: dict[str, dict[str, Any]] = {}
    names: list[str] = []
    libraries: dict[str, dict[str, Any]] = {}
    machine: dict[str, Any] = {}
    for document in documents:
        machine = document.get("machine_info", {}).get("fastgemm_bench", machine)
        for one in document["benchmarks"]:
            extra = one.get("extra_info", {})
            if "library" not in extra or "case" not in extra:
                raise ValueError(f"{one.get('name')} was not measured by bench/test_matmul.py")
            name, case = extra["library"], extra["case"]
            key = json.dumps(case, sort_keys=True)
            result = results.setdefault(key, {"case": case, "times": {}, "errors": {}, "peak": []})
            figures = one["stats"]
            result["times"][name] = {"samples": [figures["min"], figures["median"], figures["median"]], "loops": 1}
            if extra.get("peak"):
                result["peak"].append(extra["peak"])
            names += [name] if name not in names else []
            about = {"ok": True, "reason": "", "version": "", "detail": "", "call_cost": 0.0}
            libraries.setdefault(str(case["threads"]), {})[name] = about
    if not names:
        raise ValueError("no benchmark in these files")
    subject = "fastgemm" if "fastgemm" in names else names[0]
    return {
        "schema": 1, "kind": "compare", "date": documents[0].get("datetime", ""), "subject": subject,
        "machine": machine or workers.machine(), "peers": [name for name in names if name != subject],
        "settings": {"rounds": 1, "sample": 0.0, "statistic": "best", "operands": "hot", "reuse_out": False},
        "libraries": libraries, "skipped": [], "results": list(results.values()), "interrupted": False,
        "foreign_load": 0.0,
    }  # fmt: skip


def markdown(document: dict[str, Any], title: str, png: str | None = None) -> str:
    """Write the report: means by class, then every shape, for each dtype and thread count."""
    subject, peers = document["subject"], document["peers"]
    machine = document["machine"]
    where = f"{machine.get('cpu', '')}, {machine.get('cores', '?')} cores; {document['date'][:10]}."
    out = [f"# {title}", "", where, ""]
    for threads, libraries in document["libraries"].items():
        known = [f"{name} {verdict.describe(about)}".strip() for name, about in libraries.items()]
        out.append(f"- {threads} thread(s): {'; '.join(known)}")
    if document.get("foreign_load", 0.0) > verdict.BUSY:
        out += ["", f"Other processes kept {document['foreign_load']:.2f} cores busy during this run."]
    out += ["", f"Ratios are the speed of {subject} over the peer's: above 1, {subject} is faster."]
    if png:
        out += ["", f"![ratios and share of the FMA peak]({png})"]
    for group in verdict.groups(document):
        out += ["", f"## {group.title}", "", "Geometric means of the ratios by class:", ""]
        out += [verdict.summary_table(group, peers), "", "Every shape:", ""]
        ordered = sorted(group.rows, key=lambda row: (row.shape["cls"], cases.Case(**row.shape).flops))
        out.append(verdict.shape_table(ordered, subject))
    return "\n".join(out) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write what was asked for; 2 when the files cannot be read."""
    options = parser().parse_args(arguments)
    try:
        document = load(options.files, options.subject)
        if options.png:
            import plot

            plot.draw(document, options.png, options.title)
            progress.say(f"wrote {options.png}")
    except (ImportError, ValueError, OSError) as error:
        progress.say(f"report.py: {error}")
        return 2
    text = markdown(document, options.title, options.png.name if options.png else None)
    if options.markdown:
        options.markdown.write_text(text, encoding="utf-8")
        progress.say(f"wrote {options.markdown}")
    elif not options.png:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
