"""Plan: a `Config` made concrete for a `Problem`."""

from __future__ import annotations

from . import kernels, registry, special
from .driver import _plan
from .heuristic import rules
from .problem import Config, Problem


class Plan(_plan.Plan):
    """A configuration made concrete for a problem: made once, run many times, from any thread.

    Parameters
    ----------
    problem : Problem
        What is computed.
    config : Config
        How.

    Attributes
    ----------
    workspace : int
        Bytes that each thread keeps for packed blocks.

    Raises
    ------
    ValueError
        If the configuration does not fit the problem; the message says why.
    RuntimeError
        If this CPU or this build lacks the configuration's ISA tier.

    Examples
    --------
    >>> import numpy as np
    >>> from fastgemm.heuristic import rules
    >>> from fastgemm.plan import Plan
    >>> from fastgemm.problem import Problem
    >>> problem = Problem("f32", m=3, n=4, k=5)
    >>> plan = Plan(problem, rules.config(problem))
    >>> plan.run(np.ones((3, 5), "f4"), np.ones((5, 4), "f4"))[0, 0]
    np.float32(5.0)
    """

    def __init__(self, problem: Problem, config: Config) -> None:
        if config.family != "numpy":
            kernels.load(config.isa)
        super().__init__(problem, config)
        whole = config.threads == 1 or config.split == "batch"
        if config.family == "numpy" or registry.by_limbs(config.family) or not whole:
            return
        found = special.find(config.special, problem) if config.special else None
        found = found or special.built_in(config, problem)
        if found:
            self.specialise(found.capsule, found.at, found.module)

    def otherwise(self) -> Plan:
        """Return the plan that computes with every number: for operands that this one's limbs do not stand for."""
        return Plan(self.problem, rules.config(self.problem, registry.isa(self.config.isa), limbs=False))
