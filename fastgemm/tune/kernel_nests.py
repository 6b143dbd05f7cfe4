"""The loops of the library's kernels as nests, for models: what `driver._loops` does with a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np

from .. import registry
from ..problem import Config, Problem
from .nests import Nests

# jc, pc, ic, jr, ir, and the register tile.
ORDER = ("n", "k", "m", "n", "m", "k", "m", "n")

# Vectors that the gemv family sums at a time.
GEMV_VECTORS = 4


def described(problem: Problem, configs: Sequence[Config]) -> Nests:
    """Return the loops of one thread for every configuration.

    Examples
    --------
    >>> nests = described(Problem("f32", 120, 64, 2048), [Config("gemm", "v3", 6, 16, mc=60, kc=1024, nc=64)])
    >>> nests.trips.tolist()
    [[1.0, 2.0, 2.0, 4.0, 10.0, 1024.0, 6.0, 16.0]]
    """
    row = problem.row
    trips, copied, repeats = [], [], []
    for config in configs:
        lanes = registry.lanes(row, registry.isa(config.isa))
        size = {"m": problem.m, "n": problem.n, "k": problem.k, "batch": problem.batch}
        size[config.split] = ceil(size[config.split] / config.threads)
        m, n, k = size["m"], size["n"], size["k"]
        blocked = config.family in registry.BLOCKED
        jc, pc, ic = (ceil(n / config.nc), ceil(k / config.kc), ceil(m / config.mc)) if blocked else (1, 1, 1)
        mr, nr = (config.mr, config.nr) if config.mr else (1, GEMV_VECTORS * lanes)
        # Blocks and panels are balanced.
        jr, ir = ceil(n / jc / nr), ceil(m / ic / mr)
        trips.append((jc, pc, ic, jr, ir, k / pc, m / (ic * ir), n / (jc * jr)))
        rows = m * k * jc if config.pack == "ab" else 0
        columns = k * n if config.pack != "none" else 0
        copied.append((rows + columns) * row.itemsize)
        repeats.append(size["batch"])
    lanes = registry.lanes(row, registry.isa(configs[0].isa)) if configs else 1
    return Nests(
        ORDER,
        np.array(trips, float).reshape(len(trips), len(ORDER)),
        itemsize=row.itemsize,
        lanes=lanes,
        packed={
            "A": np.array([config.pack == "ab" for config in configs]),
            "B": np.array([config.pack != "none" for config in configs]),
        },
        copied=np.array(copied, float),
        threads=np.array([config.threads for config in configs]),
        repeats=np.array(repeats, float),
        annotations=np.array([_kind(config) for config in configs], float).reshape(len(configs), len(_KINDS)),
    )


# What the loops of a configuration are run by, and which of them threads share.
_KINDS = (*(("family", family.name) for family in registry.FAMILIES), *(("split", name) for name in registry.SPLITS))


def _kind(config: Config) -> list[bool]:
    return [getattr(config, field) == value for field, value in _KINDS]
