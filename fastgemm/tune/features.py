"""Loop nests as numbers for a model: the context features of "Learning to Optimize Tensor Programs" (arXiv 1805.08166).

For every loop, how long it is, how often it is entered, what its body does, and for every operand how many bytes the
body touches and how often it uses each of them again.  *Relation* features say the same without naming loops: the
most reuse, and the most repetition, among the loops whose body touches less than a threshold; they mean the same in
nests of any size, which is what a model can carry from one product to another.  All are logarithms.
"""

from __future__ import annotations

import numpy as np

from .nests import OPERANDS, Nests, computed

# Bytes: from a few registers to more than a core's share of the last cache.
THRESHOLDS = tuple(1 << power for power in range(8, 26, 2))


def described(nests: Nests) -> np.ndarray:
    """Return a row of features for each nest.

    What the analytic model says comes into each cache level is not among them: with it the search on recorded
    tables ended where it does without, and took twice as long.

    Examples
    --------
    >>> nests = Nests(("m", "n", "k"), np.array([[64.0, 64, 64], [1, 64, 64]]), itemsize=4, lanes=16)
    >>> rows = described(nests)
    >>> len(rows), bool((rows[0] == rows[1]).all())
    (2, False)
    """
    loops = nests.trips
    entered = nests.runs()[:, 1:]
    extents = nests.extents()
    inside = extents["m"] * extents["n"] * extents["k"]
    # Column i + 1 of these is the body of loop i.
    columns = [_log(loops), _log(entered), _log(inside[:, 1:])]
    touched = nests.touched()
    for name, (slow, fast) in OPERANDS.items():
        bytes_, reuse = touched[name], inside / (extents[slow] * extents[fast])
        columns += [_log(bytes_[:, 1:]), _log(reuse[:, 1:])]
        for quantity in (reuse, nests.runs()):
            columns.append(_below(bytes_, quantity))
    whole = [computed(nests) / inside[:, 0], inside[:, 0]]
    whole += [nests.copied] if nests.copied is not None else []
    whole += [nests.repeats] if nests.repeats is not None else []
    whole += [nests.threads] if nests.threads is not None else []
    columns.append(np.stack([np.log2(np.maximum(one, 1e-9)) for one in whole], axis=1))
    if nests.annotations is not None:
        columns.append(nests.annotations)
    return np.concatenate(columns, axis=1).astype(np.float32)


def _log(quantity: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.log2(quantity + 1)
    return found


def _below(bytes_: np.ndarray, quantity: np.ndarray) -> np.ndarray:
    """The greatest of a quantity among the bodies that touch less than each threshold."""
    most = [np.where(bytes_ < threshold, quantity, 1.0).max(axis=1) for threshold in THRESHOLDS]
    return _log(np.stack(most, axis=1))
