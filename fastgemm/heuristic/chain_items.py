"""Products of a chain's items, which differ from calls in two ways: copies of B stay, and C may stay too.

Items that follow each other multiply by one matrix, where they are blocks of rows of one head: a thread's copies of it
stay for them (`_chain.Chain`), and pay for fewer rows.  Scratch, where an item's next product finds what this one
writes, stays in the caches.

The figures are of a Cascade Lake, one thread, us a head of attention in float32.
"""

from __future__ import annotations

from .. import cpu, registry
from ..problem import Config, Problem
from . import matrices, rules

# The part of L2 up to which B is copied in one block.  (Of all columns, over the rules' own blocks of columns: 4096 x
# 64 0.90, 6000 x 64 0.77, where K takes all of L2 and more.)
SHARE_OF_L2 = 2
# Quarters of L2 from which copies do not stay for items of more than so many rows: they would come from L3 where a new
# one is at hand.  (2048 x 128, K as large as L2, kept over copied again by 512, 256, 128, 64 rows 0.93 0.98 1.05 1.1.)
KEPT_QUARTERS, KEPT_ROWS = 3, 192
# Items that meet a matrix which L2 holds, beside a small L1, from which it is copied in one block although it would be
# read as it lies, or in blocks of k, where a panel of it takes no more than that part.  (Over blocks before, 512 of 512
# x 64, V in place, 1.04, 1500 x 128 1.13; panels of 3000 and 4096 steps 0.96 and 0.88.)
COPIED_FOR = 4
# Quarters of L1 up to which a panel of B meets all rows of an item whose output stays, and not 96 of them, or those of
# a C that is written whole rows at a time.  (128 rows at once, 128 x 96 66.3, so 64.7, 128 x 64 46, so 44.5, 512 x 64
# 661, so 650; of 384 x 128, panels as large as L1, 689, so 688.)
PANEL_QUARTERS = 3


def config(problem: Problem, found: Config, rows: int, near: bool) -> Config:
    """Return how an item computes its product.

    Parameters
    ----------
    problem : Problem
        The item's.
    found : Config
        What the rules say for it.
    rows : int
        Of all items that multiply by the same matrix, one after the other.
    near : bool
        Whether its output is scratch.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import chain_items, rules
    >>> from fastgemm.problem import Problem
    >>> few = Problem("f32", 96, 384, 128, layout="nt")
    >>> own = rules.config(few, registry.isa("v3"))
    >>> config = chain_items.config(few, own, 384, False)
    >>> config.kc, config.nc, chain_items.kept(few, config) > 0
    (128, 384, True)
    """
    if not found.mr or found.family == "small":
        return found
    row, size, l2 = problem.row, _bytes(problem), cpu.caches().l2
    small, share = cpu.small_l1(registry.isa(found.isa)), l2 // SHARE_OF_L2
    kc, nc = -(-problem.k // row.group) * row.group, -(-problem.n // found.nr) * found.nr
    often = small and rows >= COPIED_FOR * problem.m and problem.layout == "nn"
    often = often and size <= l2 and kc * found.nr * row.itemsize <= share
    if found.pack == "none" and not often:
        return found
    if often or (rows > problem.m and size <= share):
        found = found.replace(pack="b" if found.pack == "none" else found.pack, kc=kc, nc=nc)
    panel = min(found.kc, problem.k) * found.nr * row.itemsize
    if near and small and found.pack == "b" and 4 * panel <= PANEL_QUARTERS * cpu.caches().l1d:
        found = found.replace(mc=max(found.mc, -(-problem.m // found.mr) * found.mr))
    return found


def held(problem: Problem) -> bool:
    """Say whether L2 holds a copy of B.

    Examples
    --------
    >>> from fastgemm.heuristic import chain_items
    >>> from fastgemm.problem import Problem
    >>> [chain_items.held(Problem("f32", 8, n, n)) for n in (64, 20000)]
    [True, False]
    """
    return _bytes(problem) <= cpu.caches().l2


def stays(size: int, rows: int) -> bool:
    """Say whether copies of so many bytes stay for items of so many rows.

    Examples
    --------
    >>> from fastgemm.heuristic import chain_items
    >>> [chain_items.stays(1 << 30, rows) for rows in (64, 512)]
    [True, False]
    """
    return rows <= KEPT_ROWS or 4 * size <= KEPT_QUARTERS * cpu.caches().l2


def kept(problem: Problem, config: Config) -> float:
    """Return what of `rules.cycles` is for copies of B that stay for other rows, of all steps; or 0.

    Examples
    --------
    >>> from fastgemm import registry
    >>> from fastgemm.heuristic import chain_items, rules
    >>> from fastgemm.problem import Problem
    >>> tiny = Problem("f32", 8, 8, 8)
    >>> chain_items.kept(tiny, rules.config(tiny, registry.isa("v3")))
    0.0
    """
    if config.pack == "none" or config.family == "small" or config.kc < problem.k:
        return 0.0
    if not stays(_bytes(problem), problem.m):
        return 0.0
    if registry.by_matrices(config.family):
        return matrices.copying(problem)
    lanes = registry.lanes(problem.row, registry.isa(config.isa))
    return rules.copying(problem.layout, -(-problem.n // lanes), rules.steps_of(problem, config), lanes)


def _bytes(problem: Problem) -> int:
    # Of a copy of B.
    return problem.row.itemsize * problem.k * problem.n
