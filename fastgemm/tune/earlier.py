"""What database files know from other builds and other machines: which problems, and configurations worth a try.

A record is used by the build that measured it alone, because kernels and the heuristic that it was compared with
change.  But what was best before is a good guess for what is best now: configurations that earlier builds recorded on
this CPU are measured with every search, and ``--renew`` measures them alone, which takes about a second a problem.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from .. import cpu, database, kernels
from ..problem import Config, Problem
from .shapes import ShapeError


def problems(path: Path) -> tuple[list[Problem], list[str]]:
    """Problems of a database, whatever CPU and build its records are of, and what is wrong with the rest of it.

    Raises
    ------
    ShapeError
        Where there is no such file, or the folder holds none.
    """
    files = [file for file in database.files_of(path) if os.path.exists(file)]
    if not files:
        raise ShapeError(f"{path}: no database there")
    found: dict[Problem, None] = {}
    wrong = []
    for file in files:
        groups, reasons = database.read_groups(file)
        found |= dict.fromkeys(record.problem for records in groups.values() for record in records)
        wrong += [f"{file}: {reason}" for reason in reasons]
    return list(found), wrong


def configurations(paths: Iterable[Path]) -> dict[Problem, list[Config]]:
    """Configurations that other builds recorded on a CPU like this one, by problem, those of the greatest gain first.

    Files that are missing or damaged give what can be read of them.  Kernels of single shapes (`special`) are left out:
    they were compiled for their build, and ``--specialize`` makes them anew.
    """
    here, build = cpu.key(), kernels.kernel_hash()
    runnable = {tier.name for tier in cpu.isas()}
    gains: dict[Problem, dict[Config, float]] = {}
    for path in dict.fromkeys(paths):
        groups, _ = database.read_groups(path)
        for (key, kernel_set), records in groups.items():
            if key != here or kernel_set == build:
                continue
            for record in records:
                config = record.config
                if not config.special and (config.family == "numpy" or config.isa in runnable):
                    known = gains.setdefault(record.problem, {})
                    known[config] = max(record.gain, known.get(config, 0.0))
    return {problem: sorted(known, key=lambda config: -known[config]) for problem, known in gains.items()}
