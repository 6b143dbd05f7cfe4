"""The operands of a chain: where values lie for each of its items, as `fastgemm.chain.Ref` says it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..chain import Ref
from .ir import Node, Value
from .rowwise import Unfit, joined
from .rules import Array
from .scratch import Scratch


class Geometry(NamedTuple):
    """Items of a chain: leading axes kept apart, rows along the last of them, and rows of one item."""

    lead: tuple[int, ...]
    rows: int
    block: int
    joined: bool


class _Operand(NamedTuple):
    """An array of the caller's, its strides brought to (leading axes, rows, columns)."""

    slot: int
    dtype: str
    lead: tuple[int, ...]
    row: int
    column: int


class Operands:
    """Where the values of one chain lie.

    Parameters
    ----------
    nodes : sequence of Node
        Each reads the result of the one before as its first operand.
    values : mapping
    strides : mapping
        Of the values that are not made inside: their strides in bytes.
    block : int
        Rows of an item.

    Attributes
    ----------
    sources : list of str or ndarray
        What each slot of the chain holds: a value, by its name, or a constant in another type than the graph's.
    scratch : Scratch
        Where what is made inside lies.
    """

    def __init__(
        self, nodes: Sequence[Node], values: Mapping[str, Value], strides: Mapping[str, tuple[int, ...]], block: int
    ) -> None:
        self.nodes, self.values, self.strides = nodes, values, strides
        self.result = nodes[-1].output
        self.shape = values[self.result].shape
        self.sources: list[str | Array] = []
        self.scratch = Scratch()
        self._slots: dict[str, int] = {}
        self.geometry = self._geometry(block)

    def _geometry(self, block: int) -> Geometry:
        lead, rows = self.shape[:-2], self.shape[-2]
        flat = joined(self.nodes, self.values) and all(self._is_even(name) for name in self._row_wise())
        if flat:
            return Geometry((), math.prod(lead) * rows, min(block, math.prod(lead) * rows), True)
        return Geometry(tuple(size for size in lead if size != 1), rows, min(block, rows), False)

    def _row_wise(self) -> list[str]:
        """Return what is read or written from outside and has rows of its own."""
        inner = {node.output for node in self.nodes[:-1]}
        outer = {self.result, *(name for node in self.nodes for name in node.inputs)} - inner
        shapes = {name: self.values[name].shape for name in outer}
        return [name for name, shape in shapes.items() if len(shape) > 1 and shape[:-1] == self.shape[:-1]]

    def _is_even(self, name: str) -> bool:
        """Whether the rows of all leading axes follow each other at one distance."""
        shape, strides = self.values[name].shape, self.strides[name]
        axes = [(size, step) for size, step in zip(shape[:-1], strides[:-1], strict=True) if size != 1]
        return all(outer == size * inner for (_, outer), (size, inner) in pairwise(axes))

    def _slot(self, name: str) -> int:
        """Return a value's slot, handed out when it is first asked for: weights that are packed need none."""
        if name not in self._slots:
            self._slots[name] = len(self.sources)
            self.sources.append(name)
        return self._slots[name]

    def _operand(self, name: str) -> _Operand:
        value, strides = self.values[name], self.strides[name]
        missing = len(self.shape) - len(value.shape)
        shape = (1,) * missing + value.shape
        steps = [0 if size == 1 else step for size, step in zip(shape, (0,) * missing + strides, strict=True)]
        *lead, row, column = steps
        if shape[-1] == 1:
            column = value.dtype.itemsize
        if self.geometry.joined:
            axes = [(size, step) for size, step in zip(shape[:-1], steps[:-1], strict=True) if size != 1]
            return _Operand(self._slot(name), value.dtype.name, (), axes[-1][1] if axes else row, column)
        kept = tuple(step for step, size in zip(lead, self.shape[:-2], strict=True) if size != 1)
        return _Operand(self._slot(name), value.dtype.name, kept, row, column)

    def outside(self, name: str) -> Ref:
        """Rows of the item."""
        o = self._operand(name)
        return Ref(o.slot, o.dtype, 0, (*o.lead, o.row * self.geometry.block), o.row, o.column)

    def matrix(self, name: str) -> Ref:
        """A right operand: the same for all blocks of rows."""
        value = self.values[name]
        if self.geometry.joined:
            row, column = self.strides[name][-2:]
            lead: tuple[int, ...] = ()
        else:
            _, _, lead, row, column = self._operand(name)
        if value.shape[-1] == 1:
            column = value.dtype.itemsize
        return Ref(self._slot(name), value.dtype.name, 0, (*lead, 0), row, column)

    def vector(self, name: str, wanted: str) -> Ref:
        """A number for each column, or one for all of them; what is known is laid out as kernels read it."""
        value = self.values[name]
        step = self.strides[name][-1] if value.size > 1 else value.dtype.itemsize
        if value.dtype.name == wanted and step == value.dtype.itemsize:
            return Ref(self._slot(name), wanted, 0, (), 0, step)
        if value.data is None:
            if value.dtype.name != wanted:
                raise Unfit(f"{name} is {value.dtype}, and known only when the chain runs")
            if step:
                raise Unfit(f"numbers of {name} that do not lie side by side")
            return Ref(self._slot(name), wanted)
        self.sources.append(np.ascontiguousarray(value.data, wanted).reshape(-1))
        return Ref(len(self.sources) - 1, wanted, 0, (), 0, np.dtype(wanted).itemsize)

    def target(self, last: bool, columns: int, dtype: str) -> Ref:
        """Where a member writes: the output, if it is the last and makes its type; else scratch."""
        if last and self.values[self.result].dtype.name == dtype:
            return self.outside(self.result)
        return self.scratch.rows(columns, dtype)
