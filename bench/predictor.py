"""Could a learned model choose plans for shapes that nobody has tuned?  On recorded shapes, against the heuristic.

Of the 12 shapes in ``tables/kernels.jsonl.xz`` each is left out in turn; a model that has seen all configurations of
the others picks one for it, and what that one takes is set against the heuristic's and against the best.  Two models:

* ``trees``: the boosted ranking of the strategy xgb (features of the loop nest);
* ``net``: the network of NN+C (arXiv 2003.07497): sizes, the operation count and the configuration in, the logarithm
  of seconds an operation out, one small hidden layer.

A figure is the seconds of the pick over the least of the shape, the geometric mean over the shapes; single
timings, so 1 to 2 % of it are noise.  The heuristic won, so no model decides anything in the library.

    python bench/predictor.py                                    # Markdown; half a minute
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence

import kernel_searches
import numpy as np
import stats

from fastgemm import registry
from fastgemm.problem import Config, Problem
from fastgemm.tune.kernel_nests import described
from fastgemm.tune.nests import Experience
from fastgemm.tune.policies import Adam
from fastgemm.tune.words import name

HIDDEN, STEPS, RATE, BATCH = 16, 4000, 5e-3, 256


def numbers(problem: Problem, configs: Sequence[Config]) -> np.ndarray:
    """Sizes, the operation count and the configuration, all of about unit size."""
    p = problem
    sizes = [math.log2(size) / 10 for size in (p.m, p.n, p.k, p.batch, p.flops)]
    rows = []
    for c in configs:
        blocks = [math.log2(min(block, 1 << 13)) / 10 for block in (c.mc, c.kc, c.nc)]
        kinds = [c.family == one.name for one in registry.FAMILIES]
        kinds += [c.pack == one for one in registry.PACKS] + [c.split == one for one in registry.SPLITS]
        rows.append([*sizes, *blocks, c.mr / 16, c.nr / 64, float(c.threads > 1), *map(float, kinds)])
    return np.array(rows)


class Net:
    """One hidden layer that predicts the logarithm of seconds an operation."""

    def __init__(self, rows: np.ndarray, targets: np.ndarray, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.mean = targets.mean()
        self.weights = {
            "in": rng.normal(0, 1 / math.sqrt(rows.shape[1]), (rows.shape[1], HIDDEN)),
            "in0": np.zeros(HIDDEN),
            "out": rng.normal(0, 1 / math.sqrt(HIDDEN), HIDDEN),
        }
        adam = Adam(self.weights, RATE)
        for _ in range(STEPS):
            some = rng.integers(0, len(rows), BATCH)
            hidden, found = self._forward(rows[some])
            off = (found - targets[some]) / BATCH
            inner = np.outer(off, self.weights["out"]) * (hidden > 0)
            adam.step({"in": rows[some].T @ inner, "in0": inner.sum(axis=0), "out": hidden.T @ off})

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return the prediction for each row."""
        return self._forward(rows)[1]

    def _forward(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        hidden = np.maximum(rows @ self.weights["in"] + self.weights["in0"], 0)
        return hidden, hidden @ self.weights["out"] + self.mean


def picked_by_net(
    problem: Problem, configs: Sequence[Config], others: Mapping[Problem, Mapping[Config, float]]
) -> Config:
    """The configuration that the network predicts to be fastest; of three networks, the mean counts."""
    rows = np.concatenate([numbers(other, list(costs)) for other, costs in others.items()])
    targets = np.concatenate([np.log(np.array(list(costs.values())) / p.flops) for p, costs in others.items()])
    mine = numbers(problem, configs)
    return configs[int(np.mean([Net(rows, targets, seed)(mine) for seed in range(3)], axis=0).argmin())]


def picked_by_trees(
    problem: Problem, configs: Sequence[Config], others: Mapping[Problem, Mapping[Config, float]]
) -> Config:
    """The configuration that the boosted ranking likes best."""
    from fastgemm.tune.boosting import Model

    past = [Experience(described(p, list(costs)), np.array(list(costs.values()))) for p, costs in others.items()]
    nests = described(problem, configs)
    return configs[int(Model(past, nests.order, 0).scores(nests).argmax())]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args(
        arguments
    )
    table = {
        problem: {config: seconds for config, seconds in costs.items() if seconds < math.inf}
        for problem, costs in kernel_searches.recorded().items()
    }
    picks = {"trees": picked_by_trees, "net": picked_by_net}
    print("| left out | heuristic |" + "".join(f" {one} |" for one in picks))
    print("|---|---:|" + "---:|" * len(picks))
    ratios: dict[str, list[float]] = {"heuristic": [], **{one: [] for one in picks}}
    for problem, costs in table.items():
        others = {other: them for other, them in table.items() if other != problem}
        best, configs = min(costs.values()), list(costs)
        # The start of every recording is the heuristic's configuration.
        chosen = {"heuristic": configs[0], **{one: pick(problem, configs, others) for one, pick in picks.items()}}
        for one, config in chosen.items():
            ratios[one].append(costs[config] / best)
        print(f"| {name(problem)} |" + "".join(f" {found[-1]:.3f} |" for found in ratios.values()), flush=True)
    print("| geometric mean |" + "".join(f" {stats.geometric_mean(found):.3f} |" for found in ratios.values()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
