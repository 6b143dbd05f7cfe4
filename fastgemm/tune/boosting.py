"""A model that ranks loop nests by boosted trees: some for all searches of the past, some for the search at hand.

The transfer of "Learning to Optimize Tensor Programs" (arXiv 1805.08166): the global model learns from past searches
which nests were fast for their problem, the local one what the global one gets wrong here.  As the search goes on
the global one counts for less, as in TVM: half after 64 measurements, nothing after 277.

It needs the package xgboost, which is an extra of its own (``pip install fastgemm[xgb]``): on Linux that is
xgboost-cpu, 6 MB from the same project, because ``xgboost`` itself brings 300 MB of NVIDIA's libraries along.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xgboost

from .features import described
from .nests import Experience, Nests

# TVM's parameters of the trees.
TREES = {"max_depth": 3, "gamma": 1e-4, "min_child_weight": 1, "eta": 0.3, "lambda": 1.0, "alpha": 0}
ROUNDS = 60
GLOBAL_ROUNDS = 200

# Pairs that each nest is compared in, so that time grows with the number of nests and not its square.
PAIRS = 16

# Measurements after which the global model counts half, and the share below which it is dropped.
HALF, LEAST = 64, 0.05


class Model:
    """Ranks nests; a higher score is a faster nest.

    Parameters
    ----------
    history : sequence of Experience
        Searches of the past, on nests with the same loops; those with others are left out.
    order : tuple of str
        The loops of the nests to be ranked.
    seed : int
        Of the pairs that are compared.
    """

    def __init__(self, history: Sequence[Experience], order: tuple[str, ...], seed: int) -> None:
        # One thread: a fit of some hundred rows takes longer with two, the more so beside another process.
        self._parameters = {
            "objective": "rank:pairwise",
            "lambdarank_pair_method": "mean",
            "lambdarank_num_pair_per_sample": PAIRS,
            "nthread": 1,
            "seed": seed,
            **TREES,
        }
        past = [one for one in history if one.nests.order == order]
        self._global = self._trained([(described(e.nests), e.seconds) for e in past], GLOBAL_ROUNDS) if past else None
        self._local: xgboost.Booster | None = None
        self._share = 1.0

    @property
    def knows(self) -> bool:
        """Whether it has seen anything."""
        return self._global is not None or self._local is not None

    def fit(self, nests: Nests, seconds: np.ndarray) -> None:
        """Learn from all measurements of the search at hand; infinite seconds are failures."""
        share = 2.0 ** (-len(nests) / HALF)
        self._share = share if share >= LEAST else 0.0
        rows = described(nests)
        self._local = self._trained([(rows, seconds)], ROUNDS, self._carried(rows))

    def scores(self, nests: Nests) -> np.ndarray:
        """Return the score of each nest."""
        rows = described(nests)
        found = self._carried(rows)
        if self._local is not None:
            found = found + self._local.inplace_predict(rows, predict_type="margin")
        return found

    def _carried(self, rows: np.ndarray) -> np.ndarray:
        if self._global is None or self._share == 0:
            return np.zeros(len(rows), np.float32)
        found: np.ndarray = self._share * self._global.inplace_predict(rows, predict_type="margin")
        return found

    def _trained(
        self, groups: Sequence[tuple[np.ndarray, np.ndarray]], rounds: int, margin: np.ndarray | None = None
    ) -> xgboost.Booster:
        """Fit trees to the order within each group."""
        speeds = []
        for _, seconds in groups:
            least = seconds.min() if np.isfinite(seconds).any() else 1.0
            speeds.append(np.where(np.isfinite(seconds), least / seconds, 0.0))
        data = xgboost.DMatrix(np.concatenate([rows for rows, _ in groups]), label=np.concatenate(speeds), nthread=1)
        data.set_group([len(rows) for rows, _ in groups])
        if margin is not None:
            data.set_base_margin(margin)
        return xgboost.train(self._parameters, data, num_boost_round=rounds)
