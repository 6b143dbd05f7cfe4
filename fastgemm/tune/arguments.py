"""What a value on a command line may be: types for `argparse`, whose messages say what was wanted."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def count(text: str) -> int:
    """Read a whole number above zero.

    Examples
    --------
    >>> count("12")
    12
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return int(text)


def whole(text: str) -> int:
    """Read a whole number, zero included."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def above_zero(what: str) -> Callable[[str], float]:
    """Return a type that reads finite numbers above zero; `what` is their name in the message.

    Examples
    --------
    >>> above_zero("a number of seconds")("2.5")
    2.5
    """

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 < value < float("inf"):
            raise argparse.ArgumentTypeError(f"{text!r} is not {what} above zero")
        return value

    return read
