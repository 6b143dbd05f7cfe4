"""What a value on a command line may be: types for `argparse`, whose messages say what was wanted."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable

from .. import variables

# Of a whole number, a seed of 64 bits for instance.
MAX_DIGITS = 20
# Of a value in a message.
MAX_SHOWN = 60


def shown(text: str) -> str:
    """Write what was given into a message, the beginning of it where it is long.

    Examples
    --------
    >>> shown("ten"), len(shown(5000 * "9"))
    ("'ten'", 65)
    """
    return repr(text) if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]!r}..."


def count(text: str) -> int:
    """Read a whole number above zero.

    Examples
    --------
    >>> count("12")
    12
    """
    return _digits(text, 1, "a whole number above zero")


def whole(text: str) -> int:
    """Read a whole number, zero included."""
    return _digits(text, 0, "a whole number")


def above_zero(what: str) -> Callable[[str], float]:
    """Return a type that reads finite numbers above zero; `what` is their name in the message.

    Examples
    --------
    >>> above_zero("a number of seconds")("2.5")
    2.5
    """

    def read(text: str) -> float:
        try:
            # float() takes underscores and the digits of every script.
            value = float(text) if re.fullmatch(r"[0-9.eE+-]+", text) else -1.0
        except ValueError:
            value = -1.0
        if not 0 < value < float("inf"):
            raise argparse.ArgumentTypeError(f"{shown(text)} is not {what} above zero")
        return value

    return read


def _digits(text: str, least: int, what: str) -> int:
    found = variables.whole(text, MAX_DIGITS)
    if found is None or found < least:
        more = f" of at most {MAX_DIGITS} digits" if len(text) > MAX_DIGITS else ""
        raise argparse.ArgumentTypeError(f"{shown(text)} is not {what}{more}")
    return found
