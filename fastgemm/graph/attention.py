"""Attention by parts of the keys: which nodes of a chain it is, and how their columns are cut.

A block of queries meets some keys at a time: their scores, the shares that softmax makes of them, and the means of the
values by those shares, which take less of the means so far as larger scores come (`fastgemm.chain.Parts`).  The scores
of a part stay in L2 however many keys there are, and each copy of a key serves a whole block of queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from .ir import Node, Value
from .rowwise import ROWS

# Parts are whole vectors of float32, and whole tiles of most kernels.
LANES = 32


class Attention(NamedTuple):
    """Products, and the softmax between them."""

    scores: Node
    shares: Node
    means: Node

    def keys(self, values: Mapping[str, Value]) -> int:
        """Return over how many numbers a softmax goes."""
        return values[self.scores.output].shape[-1]


def attention(nodes: Sequence[Node], values: Mapping[str, Value]) -> Attention | None:
    """Return the first of the nodes that are attention which can be done by parts of the keys; each reads the last.

    Keys and values are cut where they lie: neither is a weight, which a chain keeps packed.  Bytes are rounded by the
    sum of all shares, so floats alone can be; of those not float64, of which kernels know no parts.
    """
    for at in range(len(nodes) - 2):
        found = Attention(*nodes[at : at + 3])
        if ROWS.get(found.shares.op) != "softmax" or not all(
            node.op in ("matmul", "linear") and not _is_weight(values[node.inputs[1]])
            for node in (found.scores, found.means)
        ):
            continue
        if values[found.shares.output].dtype.name == "float64":
            continue
        plain = found.means.attributes.get("activation", "none") == "none" and len(found.means.inputs) == 2
        if plain and all(a.output == b.inputs[0] for a, b in pairwise(found)):
            return found
    return None


def _is_weight(value: Value) -> bool:
    return value.is_constant and len(value.shape) == 2


def parts(keys: int, some: int) -> list[tuple[int, int]]:
    """Return where parts of about so many keys begin, and how many each has: alike, whole vectors but for the last.

    Examples
    --------
    >>> from fastgemm.graph.attention import parts
    >>> parts(1000, 512), parts(1300, 512)
    ([(0, 512), (512, 488)], [(0, 448), (448, 448), (896, 404)])
    """
    count = max(1, round(keys / some))
    each = -(-keys // count)
    each = -(-each // LANES) * LANES
    return [(first, min(each, keys - first)) for first in range(0, keys, each)]


def of_part(found: Attention, values: Mapping[str, Value], some: int) -> dict[str, Value]:
    """Return the values of a chain as a part of so many keys has them."""
    keys, narrow = found.keys(values), dict(values)
    for node in (found.scores, found.shares):
        for name in (*node.inputs[1:], node.output):
            if values[name].shape[-1:] == (keys,):
                narrow[name] = replace(values[name], shape=(*values[name].shape[:-1], some))
    given = values[found.means.inputs[1]]
    narrow[given.name] = replace(given, shape=(*given.shape[:-2], some, given.shape[-1]))
    return narrow
