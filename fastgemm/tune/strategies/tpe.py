"""Optuna's tree-structured Parzen estimator, started at the heuristic's configuration.

Kernel, pack and team are categories; the blocks are whole numbers, so that the estimator
knows which sizes are next to each other.
"""

from __future__ import annotations

import math
import warnings
from random import Random
from typing import Any

import optuna
from optuna.trial import TrialState

from ...problem import Config
from .. import storage as studies
from ..search_space import Point, SearchSpace
from ..space import Space
from . import Search

TRIALS = 48

# Before the estimator says anything it needs a picture of the space; the heuristic's is one of these.
STARTUP = 12

# It proposes what it likes again and again.  After so many known proposals in a row it is given a configuration that it
# has not seen.
STUCK = 8

# Of what others have found in a study, so many are measured here too: one of them may win the final.
CARRIED = 3

STUDIES = True


def search(space: Space, rng: Random, storage: optuna.storages.BaseStorage | None = None) -> Search:
    """Ask the estimator for one configuration at a time and tell it the logarithm of the cost.

    Coordinates that are no configuration, and configurations that fail, are told as failed trials.

    With a storage the study goes on from what any process has told it, and others may be at it too.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # From one seed, processes with a common study would all begin with the same configurations.
    seed = rng.getrandbits(31) if storage is None else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            n_startup_trials=STARTUP, multivariate=True, seed=seed, constant_liar=storage is not None
        )
    study = optuna.create_study(sampler=sampler) if storage is None else studies.study(storage, space, sampler)
    for carried in _carried(study, space):
        yield [carried]
    study.enqueue_trial(space.encode(space.start), skip_if_exists=True)
    unseen = space.shuffled(rng)
    seen: set[Any] = set()
    known = 0
    while len(seen) < len(space):
        if known >= STUCK:
            study.enqueue_trial(space.encode(next(config for config in unseen if config not in seen)))
            known = 0
        trial = study.ask()
        config = space.decode(_suggest(trial, space))
        if config is None:
            study.tell(trial, state=TrialState.FAIL)
            known += 1
            continue
        known = known + 1 if config in seen else 0
        seen.add(config)
        try:
            (cost,) = yield [config]
        except GeneratorExit:
            study.tell(trial, state=TrialState.FAIL)  # nobody will measure it
            raise
        if math.isinf(cost):
            study.tell(trial, state=TrialState.FAIL)
        else:
            study.tell(trial, math.log(cost))


def _carried(study: optuna.Study, space: Space) -> list[Config]:
    """The best configurations that a study has from before."""
    done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    ranked = sorted((trial for trial in done if trial.value is not None), key=lambda trial: trial.value or 0.0)
    known = (space.decode(trial.params) for trial in ranked)
    return list(dict.fromkeys(config for config in known if config is not None))[:CARRIED]


def _suggest(trial: optuna.Trial, space: SearchSpace[Any]) -> Point:
    point: Point = {}
    for name, values in space.values.items():
        if name in space.ordered:
            point[name] = trial.suggest_int(name, 0, len(values) - 1)
        else:
            point[name] = trial.suggest_categorical(name, range(len(values)))
    return point
