"""The ladder: which configuration computes a problem.

    forced      inside ``with forced(config)``, for tests and experiments
    exact       the tuning database has this very problem
    near        it has one whose sizes are close
    heuristic   the rules of `fastgemm.heuristic`
    numpy       no kernels for this CPU

What follows a product (`Problem.epilogue`) is part of a problem: a record of the product alone is near to it.  A
product whose B is packed already asks for the panels that it has, and `fastgemm.pack` for those that it should have.

`plan_for` is asked once for each problem; the driver's cache remembers the plan.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from . import allowed, database, kernels, registry, untuned, variables
from .driver import _plan
from .heuristic import chain_items, packed_b, rules
from .locks import lock
from .plan import Plan
from .problem import PACKED, Config, Problem, Record


class Panels(NamedTuple):
    """Whose panels a packed B lies in, and how many columns one has: a `Config` reads those of its own alone."""

    isa: str
    family: str
    nr: int

    def read_by(self, config: Config) -> bool:
        """Whether a configuration reads them."""
        return (config.isa, config.family, config.nr) == self


@dataclass(frozen=True, slots=True)
class Decision:
    """A configuration, the rung of the ladder that gave it, and why."""

    config: Config
    rung: str
    why: str
    record: Record | None = None


_lock = lock()
_database: database.Database | None = None
# What `tuned` answers while the files are read, where reading itself multiplies: a hook of a warning, say.
_reading: database.Database | None = None
_forced: Config | None = None
_watching: list[tuple[Problem, Panels | None]] | None = None
# How many ask for it: blocks, which may overlap in several threads, and the environment.
_deterministic = int(variables.switch("FASTGEMM_DETERMINISTIC"))

# KC of every plan while results must not depend on threads or tuning: a sum is cut where KC says, and nowhere else.
DETERMINISTIC_KC = 1024
# Threads that graphs are cut for meanwhile, and sums given to np.einsum, however many run them: what a kernel does may
# depend on the rows it has.
DETERMINISTIC_THREADS = 4


def tuned() -> database.Database:
    """Return the tuning database, read at first use, for which other threads wait: a plan is kept for good."""
    global _database, _reading
    if (found := _database) is not None:
        return found
    with _lock:
        if _database is None and _reading is None:
            _reading = database.Database()
            try:
                _database = database.load(kernels=kernels.kernel_hash())
            except Warning:
                # One that is an error (-W error) is raised once, not at every call.
                _database = database.Database()
                raise
            finally:
                _reading = None
        found = _database if _reading is None else _reading
    assert found is not None
    return found


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
    >>> from fastgemm import dispatch, problem
    >>> from fastgemm.heuristic import rules
    >>> p = problem.Problem("f32", 32, 32, 32)
    >>> with dispatch.forced(rules.config(p).replace(pack="b")):
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
    threads are allowed, on what the tuner found and, of large float32 products on a CPU with AMX, on what the process
    has measured of its tile registers (FASTGEMM_F32).  Inside it the database is not asked, float32 is computed by
    multiply-adds, and k is cut in the same places in every plan.  (Graphs are to be compiled inside it too: they are
    cut as for four threads then, and attention of long texts meets its keys together, not in parts.)  Blocks may
    overlap in several threads: the last one ends it.  FASTGEMM_DETERMINISTIC=1 does it for a process from the start.

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
    _more_deterministic(1)
    try:
        yield
    finally:
        _more_deterministic(-1)


def _more_deterministic(blocks: int) -> None:
    global _deterministic
    with _lock:
        _deterministic += blocks
    _plan.forget_plans()


def by_rules(problem: Problem, panels: Panels | None = None) -> Config:
    """Return what the heuristic says: the configuration of a problem that nobody has tuned.

    Examples
    --------
    >>> from fastgemm import dispatch, problem
    >>> dispatch.by_rules(problem.Problem("f32", 512, 512, 512, layout="np")).pack
    'none'
    """
    if problem.layout[1] != PACKED:
        return rules.config(problem)
    tier = kernels.active_isa() if panels is None else registry.isa(panels.isa)
    if tier is None or not registry.supported(problem.row, tier):
        return Config(family="numpy")
    return _packed_rules(problem, tier, panels)


def _packed_rules(problem: Problem, tier: registry.Isa, panels: Panels | None) -> Config:
    if panels is None:
        return packed_b.config(problem, tier, packed_b.vectors(problem.row, tier, problem.m, problem.n, problem.k))
    return packed_b.config(problem, tier, panels.nr // registry.lanes(problem.row, tier), panels.family)


def panel_columns(problem: Problem) -> int | None:
    """Return how many columns a panel of B should have for a problem: what is forced or recorded; None for neither.

    A record for the same sizes will do, whatever the rows of A look like, the threads, and what follows.
    """
    if _forced is not None:
        fits = _forced.misfit(replace(problem, threads=max(problem.threads, _forced.threads))) is None
        return _forced.nr if fits else None
    tier = kernels.active_isa()
    if tier is None or _deterministic:
        return None
    own = kernels.best_family(problem.row, tier)
    found = [r for r in tuned().packed(problem) if _usable(r, tier.name)]
    found = [r for r in found if (r.config.family, r.config.isa) == (own, tier.name)]
    return max(found, key=lambda r: r.gain).config.nr if found else None


def _repeatable(problem: Problem, tier: registry.Isa, panels: Panels | None) -> Config:
    if problem.layout[1] == PACKED:
        config = _packed_rules(problem, tier, panels)
        cut = config.replace(kc=DETERMINISTIC_KC)
        # Of dot products that take all of k at once the sums are exact.
        return config if cut.misfit(problem) else cut
    # The order of a sum is the kernel family, KC, and the parts that threads make of k.  The first is the same for
    # every thread count; tiles, the other blocks and the other splits only say who computes what.
    # (Whether limbs pay is measured, so they have no part in it.)
    alone = replace(problem, threads=1)
    config = rules.config(problem, limbs=False)
    if config.split == "k":
        config = rules.config(alone, limbs=False)
    return config.replace(kc=DETERMINISTIC_KC) if config.family not in ("gemv", "small") else config


def resolve(problem: Problem, panels: Panels | None = None, limbs: bool = True) -> Decision:
    """Go down the ladder.

    Parameters
    ----------
    problem : Problem
        What is computed.
    panels : Panels, optional
        Those of a B that is packed already, by default what it would be packed into.
    limbs : bool
        Whether the caller can do otherwise where a plan of limbs does not compute with some numbers.
    """
    found = _resolve(problem, panels)
    if limbs or not registry.by_limbs(found.config.family):
        return found
    return Decision(rules.config(problem, limbs=False), "heuristic", "numbers that limbs do not stand for")


def _resolve(problem: Problem, panels: Panels | None) -> Decision:
    skipped = ""
    if _forced is not None:
        misfit = _forced.misfit(problem)
        if misfit is None and panels is not None and not panels.read_by(_forced):
            misfit = f"B lies in panels of {panels.nr} columns for {panels.family} on {panels.isa}"
        if misfit is None:
            return Decision(_forced, "forced", "inside dispatch.forced()")
        skipped = f"the forced configuration does not fit ({misfit}); "
    tier = kernels.active_isa() if panels is None else registry.isa(panels.isa)
    if tier is None:
        return Decision(Config(family="numpy"), "numpy", skipped + "no kernels of this build run on this CPU")
    if _deterministic:
        why = skipped + "deterministic: the rules, with k cut in fixed places"
        return Decision(_repeatable(problem, tier, panels), "heuristic", why)
    db = tuned()
    record = db.exact(problem)
    if record is not None and _usable(record, tier.name, panels):
        return Decision(record.config, "exact", skipped + "tuned on this CPU for this very problem", record)
    alone = replace(problem, epilogue="none")
    record = db.exact(alone)
    if record is not None and _usable(record, tier.name, panels):
        why = f"tuned on this CPU for the product alone, without {problem.epilogue}"
        return Decision(record.config, "near", skipped + why, record)
    for asked in dict.fromkeys((problem, alone)):
        record = db.near(asked, None if panels is None else panels.read_by)
        if record is not None and _usable(record, tier.name, panels):
            p = record.problem
            stack = f" x {p.batch}" if p.batch > 1 else ""
            why = f"tuned on this CPU for {p.m} x {p.n} x {p.k}{stack}, which is close"
            return Decision(record.config, "near", skipped + why, record)
    why = skipped + "not tuned: from cache sizes and tile costs"
    return Decision(by_rules(problem, panels), "heuristic", why)


def of_item(problem: Problem, matrices: int, rows: int, near: bool = False) -> Config:
    """Return how an item of a chain computes a product.

    Parameters
    ----------
    problem : Problem
        The item's.
    matrices : int
        How many right operands there are, item by item.
    rows : int
        Of all items that multiply by one of them, one after the other: a copy of it stays for them.
    near : bool
        Whether its output is the item's own scratch.
    """
    found = resolve(problem, limbs=False)
    if found.rung != "heuristic":
        return found.config
    config = found.config
    if matrices > 1:
        # Where each has a B of its own, which no cache holds yet, rules for stacks know better than those for one
        # product, whose operands are at hand (Cascade Lake, attention of 128 tokens, 8 and 32 x 8 heads of 96, f32, one
        # thread 1.05 and 1.07, two 1.06 and 1.06; of 64 numbers a head, and of 384 and 512 tokens, they are the same).
        config = resolve(replace(problem, batch=matrices), limbs=False).config
    if rows > problem.m and chain_items.held(problem):
        # What is copied for so many rows pays for the few of an item.  (Cascade Lake, one thread, 128 of 4096 by 64 x
        # 4096, attention in float32 over B in place, 1.16; of a B that L2 does not hold each item would copy for long.)
        every = resolve(replace(problem, m=rows, batch=matrices), limbs=False).config
        if config.pack == "none" != every.pack and every.family == config.family and problem.m >= every.mr:
            config = every
    made = chain_items.config(problem, config, rows, near)
    # (Where bits are to be the same k is cut where it was.)
    if made.misfit(problem) is None and (made.kc == config.kc or not _deterministic):
        return made
    return config if config.misfit(problem) is None else found.config


def is_deterministic() -> bool:
    """Say whether bits are to be the same whatever the threads and the database."""
    return _deterministic > 0


def threads_to_cut_for(threads: int) -> int:
    """Return for how many threads work is cut that so many will share.

    Examples
    --------
    >>> from fastgemm import dispatch
    >>> with dispatch.deterministic():
    ...     dispatch.threads_to_cut_for(1) == dispatch.threads_to_cut_for(64)
    True
    """
    return DETERMINISTIC_THREADS if _deterministic else threads


def _usable(record: Record, active: str, panels: Panels | None = None) -> bool:
    # FASTGEMM_ISA, FASTGEMM_BF16 and FASTGEMM_F32 hold for the database too.
    config, half = record.config, kernels.half_isa()
    if registry.by_limbs(config.family) and allowed.asked_of_f32() == "vectors":
        return False
    if panels is not None and not panels.read_by(config):
        return False
    used = config.isa == active or (half is not None and config.isa == half.name)
    return config.family == "numpy" or (used and kernels.has(config.family, config.isa))


@contextmanager
def using(records: database.Database) -> Iterator[None]:
    """Ask other records than those of the files, in the whole process: to compare what they are worth.

    Examples
    --------
    >>> from fastgemm import database, dispatch
    >>> with dispatch.using(database.Database()):
    ...     len(dispatch.tuned())
    0
    """
    global _database
    before, _database = tuned(), records
    _plan.forget_plans()
    try:
        yield
    finally:
        _database = before
        _plan.forget_plans()


@contextmanager
def watched() -> Iterator[list[tuple[Problem, Panels | None]]]:
    """Collect the problems that calls of the process are resolved for: of every shape anew, for plans are forgotten.

    Examples
    --------
    >>> import numpy as np, fastgemm
    >>> from fastgemm import dispatch
    >>> with dispatch.watched() as seen:
    ...     made = fastgemm.matmul(np.ones((40, 50)), np.ones((50, 60)))
    >>> [(problem.m, problem.n, problem.k) for problem, panels in seen]
    [(40, 60, 50)]
    """
    global _watching
    before, _watching = _watching, []
    _plan.forget_plans()
    try:
        yield _watching
    finally:
        _watching = before


def plan_for(problem: Problem, panels: Panels | None = None, limbs: bool = True) -> Plan:
    """Return the plan of a problem, see `resolve`; record the problem where FASTGEMM_LOG_UNTUNED asks for it."""
    if _watching is not None:
        _watching.append((problem, panels))
    decision = resolve(problem, panels, limbs)
    if os.environ.get("FASTGEMM_LOG_UNTUNED") and decision.rung in ("near", "heuristic"):
        untuned.saw(problem)
    return Plan(problem, decision.config)
