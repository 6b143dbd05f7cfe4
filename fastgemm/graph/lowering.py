"""Lowering to chains: nodes that work on rows become members of a `fastgemm.chain.Chain`, intermediates its scratch.

`rowwise` says which nodes those are.  Halves lie in memory as halves and between members as float32 wherever the next
member computes with that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .. import registry
from ..chain import SCRATCH, SLOTS, Chain, Finish, Map, Product, Ref, Rows
from ..heuristic_packed import MAX_BYTES_K
from ..packed import PackedMatrix, pack
from . import ops
from .ir import Node, Value
from .rowwise import ROWS, Unfit, joined
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


class Lowering:
    """Makes the members of one chain.

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
    """

    def __init__(
        self, nodes: Sequence[Node], values: Mapping[str, Value], strides: Mapping[str, tuple[int, ...]], block: int
    ) -> None:
        self.nodes, self.values, self.strides = nodes, values, strides
        self.result = nodes[-1].output
        inner = {node.output for node in nodes[:-1]}
        self._outer = {self.result, *(name for node in nodes for name in node.inputs)} - inner
        self.shape = values[self.result].shape
        self.geometry = self._geometry(block)
        self.sources: list[str | Array] = []
        self._slots: dict[str, int] = {}
        self._members: list[Any] = []
        self._scratch = Scratch()
        self._packs = True

    def _geometry(self, block: int) -> Geometry:
        lead, rows = self.shape[:-2], self.shape[-2]
        flat = joined(self.nodes, self.values) and all(
            self._is_even(name) for name, value in self._row_wise() if len(value.shape) > 1
        )
        if flat:
            return Geometry((), math.prod(lead) * rows, min(block, math.prod(lead) * rows), True)
        return Geometry(tuple(size for size in lead if size != 1), rows, min(block, rows), False)

    def _row_wise(self) -> list[tuple[str, Value]]:
        named = [(name, self.values[name]) for name in self._outer]
        return [(name, value) for name, value in named if value.shape[:-1] == self.shape[:-1]]

    def _is_even(self, name: str) -> bool:
        """Whether the rows of all leading axes follow each other at one distance."""
        shape, strides = self.values[name].shape, self.strides[name]
        axes = [(size, step) for size, step in zip(shape[:-1], strides[:-1], strict=True) if size != 1]
        return all(outer == size * inner for (_, outer), (size, inner) in pairwise(axes))

    def chain(self) -> Chain:
        """Return the chain; as `parts`."""
        return Chain(*self.parts())

    def parts(self) -> tuple[list[Any], tuple[int, ...], int, int, int]:
        """Return what a chain is made of: once, for weights are packed here.

        Raises
        ------
        Unfit, RuntimeError
            If kernels do not take it, or there are none: what it stands for must be run node by node.
        """
        self._lower()
        members, scratch = self._scratch.placed(self._members, self.geometry.block)
        geometry = self.geometry
        blocks = -(-geometry.rows // geometry.block)
        return members, (*geometry.lead, blocks), geometry.rows, geometry.block, scratch

    def misfit(self) -> str | None:
        """Return why kernels do not take it, as `chain` would raise it; nothing is packed, and no chain is made."""
        self._packs = False
        try:
            self._lower()
        except Unfit as why:
            return str(why)
        return None

    def _lower(self) -> None:
        if len(self.geometry.lead) > 2:
            raise Unfit(f"{len(self.geometry.lead)} leading axes: a chain counts two and its blocks of rows")
        now = self._outside(self.nodes[0].inputs[0])
        pairs = zip(self.nodes, (*self.nodes[1:], None), strict=True)
        for node, after in pairs:
            if after is not None and self._rounds(node, after, now):
                next(pairs)
                now = self._rows(node, now, self.values[node.output].shape[-1], after.output == self.result, "", after)
            else:
                now = self._node(node, now, after)
        if len(self.sources) > SLOTS:
            raise Unfit(f"{len(self.sources)} arrays: a chain takes {SLOTS}")

    # ---- operands ---------------------------------------------------------------------------------------------------

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

    def _outside(self, name: str) -> Ref:
        """Rows of the item."""
        o = self._operand(name)
        return Ref(o.slot, o.dtype, 0, (*o.lead, o.row * self.geometry.block), o.row, o.column)

    def _matrix(self, name: str) -> Ref:
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

    def _vector(self, name: str, wanted: str) -> Ref:
        """A number for each column."""
        value = self.values[name]
        if value.dtype.name == wanted:
            step = self.strides[name][-1] if value.size > 1 else value.dtype.itemsize
            return Ref(self._slot(name), wanted, 0, (), 0, step)
        if value.data is None:
            raise Unfit(f"{name} is {value.dtype}, and known only when the chain runs")
        self.sources.append(np.ascontiguousarray(value.data, wanted).reshape(-1))
        return Ref(len(self.sources) - 1, wanted, 0, (), 0, np.dtype(wanted).itemsize)

    def _target(self, last: bool, columns: int, dtype: str) -> Ref:
        """Where a member writes: the output, if it is the last and makes its type; else scratch."""
        if last and self.values[self.result].dtype.name == dtype:
            return self._outside(self.result)
        return self._scratch.rows(columns, dtype)

    # ---- members ----------------------------------------------------------------------------------------------------

    def _node(self, node: Node, x: Ref, after: Node | None) -> Ref:
        value = self.values[node.output]
        columns, kind = value.shape[-1], value.dtype.name
        # Between members bfloat16 stays float32, unless a product reads it.
        wanted = "float32" if kind == "bfloat16" and after is not None and after.kind != ops.PRODUCT else kind
        if node.op == "qlinear":
            return self._bytes(node, x, columns, after is None)
        if node.op == "quantize":
            return self._quantized(node, x, columns, after is None)
        if node.op in ("cast", "dequantize"):
            return self._converted(node, x, columns, self._target(after is None, columns, kind))
        if node.kind == ops.PRODUCT:
            return self._product(node, x, columns, after is None, wanted)
        if node.op in ROWS:
            return self._rows(node, x, columns, after is None, wanted)
        made = self._map(x, columns, self._finish(node.op, node), after is None)
        return made if made.dtype == wanted else self._cast(made, columns, self._target(after is None, columns, wanted))

    def _adjacent(self, *refs: Ref | None) -> None:
        """Refuse rows whose numbers do not lie side by side: only the operands of products may."""
        for ref in refs:
            if ref is not None and ref.column != registry.bytes_of(ref.dtype):
                raise Unfit("numbers of a row that do not lie side by side")

    def _cast(self, x: Ref, columns: int, out: Ref) -> Ref:
        self._adjacent(x, out)
        self._members.append(Rows("cast", columns, x, out))
        return out

    def _as(self, x: Ref, columns: int, dtype: str) -> Ref:
        return x if x.dtype == dtype else self._cast(x, columns, self._scratch.rows(columns, dtype))

    def _finish(self, op: str, node: Node) -> tuple[Any, ...] | None:
        name = node.attributes.get("activation", "none") if node.kind == ops.PRODUCT else op
        if name == "none":
            return None
        return (name, *(node.attributes.get(key, value) for key, value in registry.epilogue(name).params))

    def _product(self, node: Node, x: Ref, columns: int, last: bool, wanted: str) -> Ref:
        weight = self.values[node.inputs[1]]
        a = self._as(x, weight.shape[-2], weight.dtype.name)
        terms = dict(zip(node.attributes.get("terms", ()), node.inputs[2:], strict=True))
        # Halves are finished in float32.
        kind = "float64" if wanted == "float64" else "float32"
        bias = self._vector(terms["bias"], kind) if "bias" in terms else None
        beside = self._as(self._outside(terms["residual"]), columns, kind) if "residual" in terms else None
        activation = self._finish("", node)
        finish = Finish(activation, bias, beside) if terms or activation else None
        b = self._weight(weight, 0)
        c = self._target(last, columns, wanted)
        self._adjacent(c, beside)
        self._members.append(Product(columns, weight.shape[-2], a, b, c, finish))
        return c

    def _weight(self, weight: Value, zero: int) -> Ref | PackedMatrix:
        """Return a right operand: packed where it is known."""
        if weight.data is not None and len(weight.shape) == 2 and not zero:
            if not self._packs:
                return Ref(SCRATCH, weight.dtype.name)
            packed = pack(weight.data, rows=self.geometry.block)
            if packed.panels is not None:
                return packed
        return self._matrix(weight.name)._replace(zero=zero)

    def _bytes(self, node: Node, x: Ref, columns: int, last: bool) -> Ref:
        """A product of bytes: its sums are scaled where they lie, to floats or to bytes again."""
        kind = self.values[node.output].dtype.name
        weight = self.values[node.inputs[1]]
        b = self._weight(weight, int(node.attributes["b_zero"]))
        x = x._replace(zero=int(node.attributes["a_zero"]))
        inner = weight.shape[-2]
        terms = {name: self.values[read] for name, read in zip(node.attributes["terms"], node.inputs[2:], strict=True)}
        scale, shift = (None if (one := terms.get(name)) is None else one.data for name in ("scale", "bias"))
        if scale is None or ("bias" in terms and shift is None):
            raise Unfit("scales and bias are known only when the chain runs")
        if inner > MAX_BYTES_K:
            raise Unfit(f"bytes are multiplied up to {MAX_BYTES_K} columns, not {inner}")
        activation = self._finish("", node)
        if kind != "float32" and (activation is None or activation[0] == "relu"):
            y_scale, zero = float(np.float32(node.attributes["y_scale"])), int(node.attributes["y_zero"])
            c = self._target(last, columns, kind)._replace(zero=zero)
            with np.errstate(all="ignore"):
                scale, shift = (None if x is None else (x / y_scale).astype(np.float32) for x in (scale, shift))
            low = None if activation is None else zero
            self._members.append(Product(columns, inner, x, b, c, scale=_finite(scale), shift=_finite(shift), low=low))
            return c._replace(zero=0)
        bias = self._vector(terms["bias"].name, "float32") if "bias" in terms else None
        c = self._target(last, columns, "float32")
        self._members.append(Product(columns, inner, x, b, c, Finish(activation, bias), scale=_finite(scale)))
        if kind == "float32":
            return c
        made = self._target(last, columns, kind)
        y_scale, zero = float(node.attributes["y_scale"]), int(node.attributes["y_zero"])
        self._cast(c, columns, made._replace(scale=y_scale, zero=zero))
        return made

    def _quantized(self, node: Node, x: Ref, columns: int, last: bool) -> Ref:
        made = self._target(last, columns, self.values[node.output].dtype.name)
        scale, zero = self._scale(node)
        self._cast(x, columns, made._replace(scale=scale, zero=zero))
        return made

    def _converted(self, node: Node, x: Ref, columns: int, made: Ref) -> Ref:
        if node.op == "dequantize":
            scale, zero = self._scale(node)
            x = x._replace(scale=scale, zero=zero)
        return self._cast(x, columns, made)

    def _scale(self, node: Node) -> tuple[float, int]:
        scale, *zero = (self.values[name].data for name in node.inputs[1:])
        assert scale is not None
        return float(scale.reshape(())), 0 if not zero or zero[0] is None else int(zero[0].reshape(()))

    def _map(self, x: Ref, columns: int, activation: tuple[Any, ...] | None, last: bool) -> Ref:
        x = self._as(x, columns, "float32" if x.dtype == "bfloat16" else x.dtype)
        if last and self.values[self.result].dtype.name == x.dtype:
            out = self._outside(self.result)
        else:
            out = x if x.slot < SCRATCH else self._scratch.rows(columns, x.dtype)
        self._adjacent(x, out)
        self._members.append(Map(columns, x, out, Finish(activation)))
        return out

    def _rounds(self, node: Node, after: Node, x: Ref) -> bool:
        """Whether an operation on rows of scratch writes the bytes that the next node makes of its result."""
        kind = self.values[after.output].dtype.name
        return (
            ROWS.get(node.op) == "softmax"
            and after.op == "quantize"
            and self.values[node.output].dtype.name == "float32"
            and kind in registry.BYTES
            and (x.slot < SCRATCH or x.dtype != "float32")
        )

    def _rows(self, node: Node, x: Ref, columns: int, last: bool, wanted: str, rounded: Node | None = None) -> Ref:
        x = self._as(x, columns, "float32")
        # In place where the type stays; softmax needs an input of its own where it does not.
        here = not last and wanted == "float32" and x.slot < SCRATCH
        if rounded is not None:
            scale, zero = self._scale(rounded)
            made = self._target(last, columns, self.values[rounded.output].dtype.name)
            out = made._replace(scale=scale, zero=zero)
        else:
            out = made = x if here else self._target(last, columns, wanted)
        vectors: dict[str, Ref] = {}
        params: dict[str, float] = {}
        if node.op == "layer_norm":
            params = {"epsilon": node.attributes.get("epsilon", 1e-5)}
            names = registry.row_op("layer_norm").vectors
            vectors = {name: self._vector(read, "float32") for name, read in zip(names, node.inputs[1:], strict=False)}
        elif node.op == "masked_softmax":
            params = {"scale": node.attributes.get("scale", 1.0)}
            if len(node.inputs) > 1:
                vectors = {"mask": self._mask(node.inputs[1], columns)}
        self._adjacent(x, out, *vectors.values())
        self._members.append(Rows(ROWS[node.op], columns, x, out, params, vectors))
        return made

    def _mask(self, name: str, columns: int) -> Ref:
        mask = self._outside(name)
        return mask if mask.dtype == "float32" else self._as(mask, columns, "float32")


def _finite(numbers: Array | None) -> Array | None:
    if numbers is not None and not np.isfinite(numbers).all():
        raise Unfit("scales and shifts of bytes that are not finite")
    return numbers
