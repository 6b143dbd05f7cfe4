"""What the environment says of how the library works: switches, words of which there are few, and numbers.

A variable that is empty is none.  A switch that says nothing known is reported and left alone, because the library
works without it; a word that is none stops the first call, which would not compute in the way that was asked for.
"""

from __future__ import annotations

import os
import warnings

_SWITCHES = {
    **dict.fromkeys(("0", "false", "no", "off"), False),
    **dict.fromkeys(("1", "true", "yes", "on"), True),
}


def switch(name: str, default: bool = False) -> bool:
    """Return whether a switch is on.

    Warns
    -----
    RuntimeWarning
        If it says neither.

    Examples
    --------
    >>> from fastgemm import variables
    >>> variables.switch("FASTGEMM_NO_SUCH_SWITCH", default=True)
    True
    """
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    if text.lower() not in _SWITCHES:
        warnings.warn(f"{name}={text!r} is neither 0 nor 1 (or false, no, off, true, yes, on); ignored", RuntimeWarning,
                      stacklevel=2)
        return default
    return _SWITCHES[text.lower()]


def word(name: str, *known: str) -> str:
    """Return one of a few words, or nothing.

    Raises
    ------
    RuntimeError
        If the variable says something else.

    Examples
    --------
    >>> from fastgemm import variables
    >>> variables.word("FASTGEMM_NO_SUCH_WORD", "exact")
    ''
    """
    text = os.environ.get(name, "")
    if text and text not in known:
        raise RuntimeError(f"{name}={text!r} is not {' or '.join(map(repr, known))}")
    return text


def whole(text: str, digits: int = 9) -> int | None:
    """Return a whole number of so many digits; None for anything else, for a very long text takes long to become one.

    Examples
    --------
    >>> from fastgemm import variables
    >>> variables.whole("12"), variables.whole("1_2"), variables.whole("-1")    # int() takes all of them
    (12, None, None)
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None
