"""Covariance matrix adaptation (CMA-ES); its first trial is the heuristic's configuration.

Optuna's sampler of the algorithm in Hansen's tutorial (arXiv 1604.00772), which needs the package ``cmaes``.
It knows numbers alone, so kernel, pack and team count as whole numbers too, in the order in
which the space lists them.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from random import Random
from typing import Any

import optuna
from optuna.trial import Trial

from ..search_space import Point, SearchSpace
from . import Search
from ._studies import explored

# Optuna would notice at the first generation only.
if importlib.util.find_spec("cmaes") is None:
    raise ModuleNotFoundError("the strategy cmaes needs a package: pip install cmaes", name="cmaes")

TRIALS = 48

# A failure costs as much as something a hundred times slower than the start: every trial of a generation needs a cost.
FAILURE = 100.0


def search(space: SearchSpace[Any], rng: Random) -> Search:
    """Ask the sampler for one configuration at a time, the start first."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    (cost,) = yield [space.start]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.CmaEsSampler(seed=rng.getrandbits(31), with_margin=True)
    study = optuna.create_study(sampler=sampler)
    study.enqueue_trial(space.encode(space.start))
    worst = math.log(FAILURE * cost) if math.isfinite(cost) else 0.0
    yield from explored(study, space, rng, _suggest, worst)


def _suggest(trial: Trial, space: SearchSpace[Any]) -> Point:
    return {name: trial.suggest_int(name, 0, len(values) - 1) for name, values in space.values.items()}
