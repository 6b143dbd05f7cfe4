"""Where values lie in memory: in which array, from which byte on, under which strides.  Views share their source's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import ops, rules
from .ir import Graph, Node, Value
from .rules import Array, Spec

# For asking about strides alone.
BYTE: np.dtype[Any] = np.dtype("u1")


class Place(NamedTuple):
    """A value's memory: `root` names the value whose array it is, `strides` and `offset` count bytes."""

    root: str
    offset: int
    strides: tuple[int, ...]


def in_order(shape: Sequence[int], itemsize: int, layout: Sequence[int] | None = None) -> tuple[int, ...]:
    """Return the strides of an array whose axes lie in memory as `layout` says; in C order without one.

    Examples
    --------
    >>> from fastgemm.graph.storage import in_order
    >>> in_order((2, 3, 4), 4), in_order((2, 3, 4), 4, (1, 0, 2))
    ((48, 16, 4), (16, 32, 4))
    """
    strides, step = [0] * len(shape), itemsize
    for axis in reversed(range(len(shape)) if layout is None else layout):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def own(value: Value) -> Place:
    """Return the place of a value with an array of its own."""
    if value.data is not None:
        return Place(value.name, 0, value.data.strides)
    return Place(value.name, 0, in_order(value.shape, value.dtype.itemsize, value.layout))


def view(node: Node, source: Place, spec: Spec, result: Spec) -> Place | None:
    """Return where the result of a view operation lies; None where no strides can say it."""
    if node.op == "transpose":
        return source._replace(strides=tuple(source.strides[axis] for axis in node.attributes["perm"]))
    if node.op == "slice":
        parts = rules.slices(spec.shape, node.attributes)
        offset = sum(part.start * stride for part, stride in zip(parts, source.strides, strict=True))
        steps = [part.step * stride for part, stride in zip(parts, source.strides, strict=True)]
        return Place(source.root, source.offset + (offset if math.prod(result.shape) else 0), tuple(steps))
    if node.op == "broadcast":
        added = len(result.shape) - len(spec.shape)
        kept = [0 if size == 1 else stride for size, stride in zip(spec.shape, source.strides, strict=True)]
        return source._replace(strides=(*[0] * added, *kept))
    if node.op == "reshape":
        strides = reshaped(spec.shape, source.strides, result.shape, spec.dtype.itemsize)
        return None if strides is None else source._replace(strides=strides)
    return None


def reshaped(
    shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int], itemsize: int
) -> tuple[int, ...] | None:
    """Return the strides under which an array has another shape without being copied; None where there are none.

    Examples
    --------
    >>> from fastgemm.graph.storage import reshaped
    >>> reshaped((6, 4), (16, 4), (2, 3, 4), 4), reshaped((4, 6), (4, 16), (24,), 4)
    ((48, 16, 4), None)
    """
    if 0 in shape:
        return in_order(wanted, itemsize)
    old = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]
    found = [0] * len(wanted)
    at, new = 0, 0
    while at < len(old):
        # The shortest stretches of axes on both sides that hold as many numbers.
        first, start, have, need = at, new, old[at][0], wanted[new]
        while have != need:
            if have < need:
                at += 1
                have *= old[at][0]
            else:
                new += 1
                need *= wanted[new]
        at, new = at + 1, new + 1
        for (_, outer), (size, inner) in zip(old[first : at - 1], old[first + 1 : at], strict=True):
            if outer != size * inner:
                return None
        step = old[at - 1][1]
        for axis in reversed(range(start, new)):
            found[axis] = step
            step *= wanted[axis]
    return tuple(found)


def places(graph: Graph, copied: bool = False) -> dict[str, Place | None]:
    """Return where every value lies; None for views that strides cannot say, and for what is seen through them.

    With `copied`, their sources are taken to lie in C order, as `passes.copies` will see to: there is no None.
    """
    found: dict[str, Place | None] = {}
    for value in graph.values.values():
        if graph.producer(value.name) is None:
            found[value.name] = own(value)
    for node in graph.nodes:
        value = graph.values[node.output]
        if node.kind == ops.VIEW:
            source = found[node.inputs[0]]
            spec = graph.values[node.inputs[0]].spec
            made = None if source is None else view(node, source, spec, value.spec)
            if made is None and copied:
                dense = Place(node.inputs[0], 0, in_order(spec.shape, spec.dtype.itemsize))
                made = view(node, dense, spec, value.spec)
            found[node.output] = made
        else:
            found[node.output] = own(value)
    return found


def is_whole(value: Value, place: Place, values: Mapping[str, Value]) -> bool:
    """Whether a value is the whole of its array, in C order."""
    root = values[place.root]
    same = place.offset == 0 and value.nbytes == root.nbytes
    return same and lengths(value.shape, place.strides) == lengths(
        value.shape, in_order(value.shape, value.dtype.itemsize)
    )


def dense(array: Array) -> Array | None:
    """Return an array with its axes in the order of memory, in C order; None where it has gaps or repeats itself."""
    if array.flags.c_contiguous:
        return array
    if min(array.strides, default=0) < 0:
        return None
    axes = sorted(range(array.ndim), key=lambda axis: -array.strides[axis] if array.shape[axis] != 1 else 0)
    turned = array.transpose(axes)
    return turned if turned.flags.c_contiguous else None


def seen(base: Array, place: Place, spec: Spec) -> Array:
    """Return what lies at a place of an array, without copying."""
    memory = dense(base)
    if memory is None:
        made: Array = np.asarray(_Memory(base, place, spec)).view(spec.dtype)[..., 0]
        return made
    return np.ndarray(spec.shape, spec.dtype, memory, place.offset, place.strides)


class _Memory:
    """The bytes at a place of a constant that has gaps, or lies backwards: no buffer of NumPy's is such."""

    def __init__(self, base: Array, place: Place, spec: Spec) -> None:
        self.base = base
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "data": (base.ctypes.data + place.offset, not base.flags.writeable),
            "shape": (*spec.shape, spec.dtype.itemsize),
            "strides": (*place.strides, 1),
        }


def lengths(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Return the strides of axes that have any length: those of the others mean nothing."""
    return [] if 0 in shape else [stride for size, stride in zip(shape, strides, strict=True) if size != 1]
