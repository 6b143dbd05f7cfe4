"""The subscripts of an einsum call: which label stands for which axis.

`spell` turns both forms of the call, a string with the operands or operands with lists of numbers, into the first, and
`parse` reads that: a string of letters for each operand, one letter an axis, and one for the result.  Axes under an
ellipsis get letters that the call does not use.  What is not plainly right is left unread, so that NumPy answers
it, with its own errors.
"""

from __future__ import annotations

import string
from typing import Any, NamedTuple

LETTERS = string.ascii_uppercase + string.ascii_lowercase


class Reading(NamedTuple):
    """Labels of the operands, labels of the result."""

    inputs: tuple[str, ...]
    output: str


def spell(operands: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]] | None:
    """Return the subscripts and the arrays of a call; None for what is left to NumPy.

    Examples
    --------
    >>> spell(("ij,jk", 1, 2))
    ('ij,jk', (1, 2))
    >>> spell((1, [0, 1], 2, [1, ...], [0, ...]))
    ('AB,B...->A...', (1, 2))
    """
    if not operands:
        return None
    if isinstance(operands[0], str):
        return operands[0], operands[1:]
    even = len(operands) // 2 * 2
    arrays = operands[:even:2]
    words = [_spelled(numbers) for numbers in (*operands[1::2], *operands[even:])]
    # Numbers from 26 on sort differently in NumPy's two ways to compute an einsum; that only matters where the result's
    # labels are not given.
    explicit = len(words) > len(arrays)
    known = [word for word in words if word is not None]
    if len(known) < len(words) or (not explicit and any(c.islower() for c in "".join(known))):
        return None
    return ",".join(known[: len(arrays)]) + ("->" + known[-1] if explicit else ""), arrays


def _spelled(numbers: Any) -> str | None:
    """A list of axis numbers as letters; None where it is none."""
    if not isinstance(numbers, (list, tuple, range)):
        return None
    letters = []
    for number in numbers:
        if number is ...:
            letters.append("...")
        elif type(number) is int and 0 <= number < len(LETTERS):
            letters.append(LETTERS[number])
        else:
            return None
    return "".join(letters)


def parse(text: str, ndims: tuple[int, ...]) -> Reading | None:
    """Read subscripts for operands of some numbers of dimensions; None for what is left to NumPy.

    Examples
    --------
    >>> parse("...ij,...jk", (3, 3))
    Reading(inputs=('Aij', 'Ajk'), output='Aik')
    """
    text = text.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ndims):
        return None
    extra = 0       # axes under the widest ellipsis
    for term, ndim in zip(terms, ndims, strict=True):
        named = term.replace("...", "", 1)
        if not _all_letters(named) or len(named) > ndim or (named == term and len(named) != ndim):
            return None
        extra = max(extra, ndim - len(named))
    free = [c for c in LETTERS if c not in text]
    if extra > len(free):
        return None
    hidden = "".join(free[:extra])
    inputs = []
    for term, ndim in zip(terms, ndims, strict=True):
        # Axes under an ellipsis are aligned at the last one, as in broadcasting.
        width = ndim - len(term.replace("...", "", 1))
        inputs.append(term.replace("...", hidden[extra - width :], 1))
    if not arrow:
        right = "..." + "".join(sorted(c for c in set(left) - {",", "."} if left.count(c) == 1))
    elif extra and "..." not in right:
        return None
    output = right.replace("...", hidden, 1)
    if len(set(output)) < len(output) or not set(output) <= set("".join(inputs)):
        return None
    return Reading(tuple(inputs), output)


def _all_letters(text: str) -> bool:
    return all(c in LETTERS for c in text)


def sizes(inputs: tuple[str, ...], shapes: tuple[tuple[int, ...], ...]) -> dict[str, int] | None:
    """Length of the axes of each label; None where they differ (NumPy broadcasts some of these)."""
    found: dict[str, int] = {}
    for labels, shape in zip(inputs, shapes, strict=True):
        for label, size in zip(labels, shape, strict=True):
            if found.setdefault(label, size) != size:
                return None
    return found
