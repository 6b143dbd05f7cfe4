"""One of Optuna's samplers at work on a space: what tpe and cmaes have in common."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

import optuna
from optuna.trial import Trial, TrialState

from ..search_space import Point, SearchSpace
from . import Search

# A sampler proposes what it likes again and again.  After so many known proposals in a row it is
# given a configuration that it has not seen.
STUCK = 8


def explored(
    study: optuna.Study,
    space: SearchSpace[Any],
    rng: Random,
    suggest: Callable[[Trial, SearchSpace[Any]], Point],
    failure: float | None = None,
) -> Search:
    """Ask for one configuration at a time and tell the logarithm of its cost, until the space is used up.

    Coordinates that are no configuration, and configurations that fail, are told as failed trials, or as the cost
    `failure` to a sampler that learns nothing from failed trials.
    """

    def tell_failure(trial: Trial) -> None:
        if failure is None:
            study.tell(trial, state=TrialState.FAIL)
        else:
            study.tell(trial, failure)

    unseen = space.shuffled(rng)
    seen: set[Any] = set()
    known = 0
    while len(seen) < len(space):
        if known >= STUCK:
            study.enqueue_trial(space.encode(next(config for config in unseen if config not in seen)))
            known = 0
        trial = study.ask()
        config = space.decode(suggest(trial, space))
        if config is None:
            tell_failure(trial)
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
            tell_failure(trial)
        else:
            study.tell(trial, math.log(cost))
