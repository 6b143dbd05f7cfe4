"""Scripts that start themselves again: each side of a comparison in processes of its own, by turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import progress
from environment import without_choices


def by_turns(
    label: str, script: str, rounds: int, sides: Mapping[str, tuple[Sequence[str], Mapping[str, str]]]
) -> dict[str, list[Any]]:
    """Return what every process of every side has printed as JSON.

    A side is its arguments and its environment beside this process's; the sides take turns, in the other order every
    second round.  Ends this process with a message where one of them fails.
    """
    found: dict[str, list[Any]] = {side: [] for side in sides}
    with progress.bar(label, rounds * len(sides)) as bar:
        for turn in range(rounds):
            for side in list(sides)[:: -1 if turn % 2 else 1]:
                bar.step(side)
                arguments, environment = sides[side]
                command, within = [sys.executable, script, *arguments], {**without_choices(os.environ), **environment}
                done = subprocess.run(command, env=within, stdout=subprocess.PIPE, text=True)
                if done.returncode:
                    sys.exit(f"{label}: {side} failed with exit code {done.returncode}")
                found[side].append(json.loads(done.stdout))
    return found
