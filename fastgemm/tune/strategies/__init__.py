"""Search strategies: one file each, found by looking into this folder.

A strategy is a module with a function ``search(space, rng)``, a generator that proposes
configurations and is sent what they cost::

    def search(space, rng):
        '''Measure ten configurations at random.'''
        costs = yield [space.sample(rng) for _ in range(10)]

Costs are seconds, infinite for a configuration that failed.  The driver owns everything
else: the budget, the cache (what was measured before costs nothing and is answered at
once), the clock, and the record.  It measures the heuristic's configuration, ``space.start``,
before it asks.  A strategy ends by returning, or when the driver closes it because the
budget is used up or the last `driver.PATIENCE` proposals were all known.

A strategy that keeps what it learns in one of Optuna's storages says ``STUDIES = True``, and its search takes the
storage as a third argument.  One that learns from searches of the past says ``LEARNS = True``, and its search takes
them as the argument `history`, a list of `nests.Experience`.

What a strategy may ask of a space is `search_space.SearchSpace`.

``TRIALS`` is how many measurements a strategy is given when the user does not say; None
means as many as it asks for.  The first line of the module's docstring is its help.
"""

from __future__ import annotations

import ast
import functools
import importlib
import random
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..nests import Experience
from ..search_space import SearchSpace

Search = Generator[list[Any], list[float], None]


class StorageError(Exception):
    """A storage of studies cannot be used; the message says why."""


class Strategy(NamedTuple):
    """A strategy's name, its generator function, its number of trials by default, and whether it learns from others."""

    name: str
    search: Callable[[SearchSpace[Any], random.Random], Search]
    trials: int | None
    learns: bool = False

    def informed(self, history: Sequence[Experience]) -> Strategy:
        """Return the strategy with what searches of the past have found, if it learns from that."""
        search: Callable[..., Search] = self.search
        return self._replace(search=functools.partial(search, history=history)) if self.learns else self


def none(name: str) -> Strategy:
    """Return a strategy of some name that proposes nothing: what is known already is measured, and that is all.

    Examples
    --------
    >>> none("renew").trials
    0
    """
    return Strategy(name, lambda space, rng: _nothing(), 0)


def _nothing() -> Search:
    yield from ()


def names() -> tuple[str, ...]:
    """Names of the strategies in this folder.

    Examples
    --------
    >>> "random" in names()
    True
    """
    return tuple(sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py")))


def load(name: str, storage: object = None) -> Strategy:
    """Import a strategy; a library that it needs and that is missing raises ModuleNotFoundError.

    Raises
    ------
    ValueError
        If there is no such strategy, or it keeps nothing in a `storage`.
    """
    if name not in names():
        raise ValueError(f"no strategy {name!r}; there are {', '.join(names())}")
    module = importlib.import_module(f"{__name__}.{name}")
    learns = getattr(module, "LEARNS", False)
    if storage is None:
        return Strategy(name, module.search, module.TRIALS, learns)
    if not getattr(module, "STUDIES", False):
        raise ValueError(f"the strategy {name!r} keeps no study, so --storage is nothing to it; tpe does")
    return Strategy(name, functools.partial(module.search, storage=storage), module.TRIALS, learns)


def summary(name: str) -> str:
    """First line of a strategy's docstring, read without importing what the strategy needs."""
    source = (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0].rstrip(".")
