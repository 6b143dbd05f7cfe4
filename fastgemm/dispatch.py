"""The ladder: which configuration computes a problem.

    forced      inside ``with forced(config)``, for tests and experiments
    exact       the tuning database has this very problem
    near        it has one whose sizes are close
    heuristic   the rules of `fastgemm.heuristic`
    numpy       no kernels for this CPU

`plan_for` is asked once for each problem; the driver's cache remembers the plan.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from . import database, heuristic, kernels, registry, untuned
from .driver import _plan
from .plan import Plan
from .problem import Config, Problem, Record


@dataclass(frozen=True, slots=True)
class Decision:
    """A configuration, the rung of the ladder that gave it, and why."""

    config: Config
    rung: str
    why: str
    record: Record | None = None


_lock = threading.Lock()
_database: database.Database | None = None
_forced: Config | None = None
_deterministic = os.environ.get("FASTGEMM_DETERMINISTIC", "") not in ("", "0")

# KC of every plan while results must not depend on threads or tuning: a sum is cut where KC says, and nowhere else.
DETERMINISTIC_KC = 1024


def tuned() -> database.Database:
    """Return the tuning database, read at first use."""
    global _database
    if _database is None:
        with _lock:
            if _database is None:
                # Set before it is read: a warning that is an error (-W error) is raised once, not at every call.
                _database = database.Database()
                _database = database.load(kernels=kernels.kernel_hash())
    return _database


def reload() -> None:
    """Read the database files again; every call is resolved anew."""
    global _database
    with _lock:
        _database = None
    _plan.forget_plans()


@contextmanager
def forced(config: Config) -> Iterator[None]:
    """Send every call of the process through one configuration, as far as it fits.

    A call that it does not fit raises no error: the next rung takes it, and `explain` says so.

    Raises
    ------
    RuntimeError
        If this CPU or this build lacks the configuration's ISA tier.

    Examples
    --------
    >>> from fastgemm import dispatch, heuristic, problem
    >>> p = problem.Problem("f32", 32, 32, 32)
    >>> with dispatch.forced(heuristic.config(p).replace(pack="b")):
    ...     dispatch.resolve(p).rung
    'forced'
    """
    global _forced
    if config.family != "numpy":
        kernels.load(config.isa)
    before, _forced = _forced, config
    _plan.forget_plans()
    try:
        yield
    finally:
        _forced = before
        _plan.forget_plans()


@contextmanager
def deterministic() -> Iterator[None]:
    """Give the same bits whatever the number of threads and the tuning database, for the whole process.

    Without it, the same call of the same plan gives the same bits on the same machine; but a plan depends on how many
    threads are allowed, and on what the tuner found.  Inside it the database is not asked, and k is cut in the
    same places in every plan.  FASTGEMM_DETERMINISTIC=1 does it for a process from the start.

    Examples
    --------
    >>> import numpy as np, fastgemm
    >>> a = np.random.default_rng(0).random((300, 300))
    >>> with fastgemm.deterministic():
    ...     one = fastgemm.matmul(a, a)
    ...     with fastgemm.threads(1):
    ...         other = fastgemm.matmul(a, a)
    >>> bool((one == other).all())
    True
    """
    global _deterministic
    before, _deterministic = _deterministic, True
    _plan.forget_plans()
    try:
        yield
    finally:
        _deterministic = before
        _plan.forget_plans()


def fixed_kc() -> int:
    """Return where every plan has to cut k inside `deterministic`; 0 elsewhere."""
    return DETERMINISTIC_KC if _deterministic else 0


def _repeatable(problem: Problem, tier: registry.Isa) -> Config:
    # The order of a sum is the kernel family, KC, and the parts that threads make of k.  The first is the same for
    # every thread count; tiles, the other blocks and the other splits only say who computes what.
    alone = replace(problem, threads=1)
    config = heuristic.config(problem, tier)
    if config.split == "k":
        config = heuristic.config(alone, tier)
    return config.replace(kc=DETERMINISTIC_KC) if config.family not in ("gemv", "small") else config


def resolve(problem: Problem) -> Decision:
    """Go down the ladder."""
    skipped = ""
    if _forced is not None:
        misfit = _forced.misfit(problem)
        if misfit is None:
            return Decision(_forced, "forced", "inside dispatch.forced()")
        skipped = f"the forced configuration does not fit ({misfit}); "
    tier = kernels.active_isa()
    if tier is None:
        return Decision(Config(family="numpy"), "numpy", skipped + "no kernels of this build run on this CPU")
    if _deterministic:
        why = skipped + "deterministic: the rules, with k cut in fixed places"
        return Decision(_repeatable(problem, tier), "heuristic", why)
    db = tuned()
    record = db.exact(problem)
    if record is not None and _usable(record, tier.name):
        return Decision(record.config, "exact", skipped + "tuned on this CPU for this very problem", record)
    record = db.near(problem)
    if record is not None and _usable(record, tier.name):
        p = record.problem
        stack = f" x {p.batch}" if p.batch > 1 else ""
        why = f"tuned on this CPU for {p.m} x {p.n} x {p.k}{stack}, which is close"
        return Decision(record.config, "near", skipped + why, record)
    why = skipped + "not tuned: from cache sizes and tile costs"
    return Decision(heuristic.config(problem, tier), "heuristic", why)


def _usable(record: Record, active: str) -> bool:
    # FASTGEMM_ISA and FASTGEMM_BF16 hold for the database too.
    family = record.config.family
    return family == "numpy" or (record.config.isa == active and kernels.has(family, active))


def plan_for(problem: Problem) -> Plan:
    """Return the plan of a problem; record the problem where FASTGEMM_LOG_UNTUNED asks for it."""
    decision = resolve(problem)
    if os.environ.get("FASTGEMM_LOG_UNTUNED") and decision.rung in ("near", "heuristic"):
        untuned.saw(problem)
    return Plan(problem, decision.config)
