"""Constants of strategies on a command line: ``xgb.BATCH=64,64`` is ``BATCH = (64, 64)`` in ``strategies/xgb.py``."""

from __future__ import annotations

import ast
import contextlib
import importlib
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from fastgemm.tune import strategies


class Constant(NamedTuple):
    """A constant of a strategy's module, and the value that it is to have."""

    module: ModuleType
    name: str
    value: Any


def parse(text: str) -> Constant:
    """Read ``strategy.NAME=VALUE``; the value is a number, or numbers with commas, as it is in the module.

    Raises
    ------
    ValueError
        If there is no such constant, or the value is of another kind; the message says so.

    Examples
    --------
    >>> parse("gbfs.RHO=5").value
    5
    """
    place, _, written = text.partition("=")
    strategy, _, name = place.partition(".")
    if strategy not in strategies.names() or not name.isupper():
        raise ValueError(f"{text!r} is not of the form strategy.NAME=VALUE, gbfs.RHO=5 for instance")
    module = importlib.import_module(f"{strategies.__name__}.{strategy}")
    known = {
        key: value for key, value in vars(module).items() if key.isupper() and isinstance(value, (int, float, tuple))
    }
    if name not in known:
        raise ValueError(f"{strategy} has no constant {name}; it has {', '.join(sorted(known))}")
    try:
        value = ast.literal_eval(written)
    except (ValueError, SyntaxError):
        raise ValueError(f"{text!r}: {written!r} is no number") from None
    like = known[name]
    if isinstance(like, float) and isinstance(value, int):
        value = float(value)
    if type(value) is not type(like) or (isinstance(like, tuple) and len(value) != len(like)):
        raise ValueError(f"{text!r}: {name} is {like!r}, and {value!r} is of another kind")
    return Constant(module, name, value)


@contextlib.contextmanager
def changed(constants: Sequence[Constant]) -> Iterator[None]:
    """Let strategies run with these values, and with their own again afterwards."""
    before = [getattr(module, name) for module, name, _ in constants]
    try:
        for module, name, value in constants:
            setattr(module, name, value)
        yield
    finally:
        for (module, name, _), value in zip(constants, before, strict=True):
            setattr(module, name, value)
