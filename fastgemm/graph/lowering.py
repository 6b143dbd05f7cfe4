"""Lowering to chains: nodes that work on rows become members of a `fastgemm.chain.Chain`, intermediates its scratch.

`rowwise` says which nodes those are.  Halves lie in memory as halves and between members as float32 wherever the next
member computes with that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import activations, registry, row_operations
from ..chain import SCRATCH, SLOTS, Chain, Finish, Map, Parts, Product, Ref, Rows
from ..packed import PackedMatrix, pack
from ..problem import MAX_BYTES_K
from . import ops, rules
from .attention import Attention, attention, parts
from .ir import Node, Value
from .operands import Operands
from .rowwise import ROWS, Unfit
from .rules import Array
from .scratch import with_refs


class Lowering:
    """Makes the members of one chain.

    Parameters
    ----------
    at : Operands
        Of the chain's nodes; slots and scratch are handed out meanwhile, so it serves one lowering.
    keys : int
        How many keys of attention are met at a time; 0: all.
    """

    def __init__(self, at: Operands, keys: int = 0) -> None:
        self.at, self.keys = at, keys
        self.nodes, self.values, self.result, self.sources = at.nodes, at.values, at.result, at.sources
        self._members: list[Any] = []
        self._packs = True

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
        members, scratch = self.at.scratch.placed(self._members, self.at.geometry.block)
        geometry = self.at.geometry
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
        if len(self.at.geometry.lead) > 2:
            raise Unfit(f"{len(self.at.geometry.lead)} leading axes: a chain counts two and its blocks of rows")
        now = self.at.outside(self.nodes[0].inputs[0])
        pairs = zip(self.nodes, (*self.nodes[1:], None), strict=True)
        cut = attention(self.nodes, self.values) if self.keys else None
        for node, after in pairs:
            if cut is not None and node is cut.scores:
                (_, (_, after)) = next(pairs), next(pairs)
                now = self._attention(cut, now, after)
            elif after is not None and self._rounds(node, after, now):
                next(pairs)
                now = self._rows(node, now, self.values[node.output].shape[-1], after.output == self.result, "", after)
            else:
                now = self._node(node, now, after)
        if len(self.sources) > SLOTS:
            raise Unfit(f"{len(self.sources)} arrays: a chain takes {SLOTS}")

    # ---- members ----------------------------------------------------------------------------------------------------

    def _node(self, node: Node, x: Ref, after: Node | None) -> Ref:
        value = self.values[node.output]
        columns, kind = value.shape[-1], value.dtype.name
        wanted = _between(kind, after)
        if node.op == "qlinear":
            return self._bytes(node, x, columns, after is None)
        if node.op == "quantize":
            return self._quantized(node, x, columns, after is None)
        if node.op in ("cast", "dequantize"):
            return self._converted(node, x, columns, self.at.target(after is None, columns, kind))
        if node.kind == ops.PRODUCT:
            return self._product(node, x, columns, after is None, wanted)
        if node.op in ROWS:
            return self._rows(node, x, columns, after is None, wanted)
        made = self._map(node, x, columns, after is None)
        if made.dtype == wanted:
            return made
        return self._cast(made, columns, self.at.target(after is None, columns, wanted))

    def _adjacent(self, *refs: Ref | None) -> None:
        """Refuse rows whose numbers do not lie side by side: only the operands of products may."""
        for ref in refs:
            if ref is not None and ref.column != registry.bytes_of(ref.dtype):
                raise Unfit("numbers of a row that do not lie side by side")

    def _cast(self, x: Ref, columns: int, out: Ref) -> Ref:
        self._adjacent(x, out)
        if "float64" in (x.dtype, out.dtype):
            raise Unfit(f"{x.dtype} that becomes {out.dtype}")
        self._members.append(Rows("cast", columns, x, out))
        return out

    def _as(self, x: Ref, columns: int, dtype: str, kept: bool = False) -> Ref:
        """Return `x` in a type.  `kept`: nobody writes to it, so that one row for all stays one row."""
        if x.dtype == dtype:
            return x
        return self._cast(x, columns, self.at.scratch.rows(columns, dtype, same=kept and x.row == 0))

    def _finish(self, op: str, node: Node) -> tuple[Any, ...] | None:
        name = node.attributes.get("activation", "none") if node.kind == ops.PRODUCT else op
        if name == "none":
            return None
        return (name, *(node.attributes.get(key, value) for key, value in activations.epilogue(name).params))

    def _product(self, node: Node, x: Ref, columns: int, last: bool, wanted: str) -> Ref:
        weight = self.values[node.inputs[1]]
        a = self._as(x, weight.shape[-2], weight.dtype.name)
        # Halves are finished in float32.
        finish = self._finish_of(node, columns, "float64" if wanted == "float64" else "float32")
        b = self._weight(weight, 0)
        c = self.at.target(last, columns, wanted)
        self._adjacent(c)
        self._members.append(Product(columns, weight.shape[-2], a, b, c, finish))
        return c

    def _finish_of(self, node: Node, columns: int, kind: str) -> Finish | None:
        """Return what follows a product of floats."""
        terms = dict(zip(node.attributes.get("terms", ()), node.inputs[2:], strict=True))
        bias = self.at.vector(terms["bias"], kind) if "bias" in terms else None
        beside = self._as(self.at.outside(terms["residual"]), columns, kind, kept=True) if "residual" in terms else None
        self._adjacent(beside)
        activation = self._finish("", node)
        return Finish(activation, bias, beside) if terms or activation else None

    def _attention(self, cut: Attention, x: Ref, after: Node | None) -> Ref:
        """Attention by parts of the keys."""
        keys, given = self.values[cut.scores.inputs[1]], self.values[cut.means.inputs[1]]
        kind, width = keys.dtype.name, given.shape[-1]
        a, k, v = self._as(x, keys.shape[-2], kind), self.at.matrix(keys.name), self.at.matrix(given.name)
        finish = self._finish_of(cut.scores, keys.shape[-1], "float32")
        params, vectors = self._of_softmax(cut.shares, keys.shape[-1], "float32")
        self._adjacent(*vectors.values())
        pieces = parts(keys.shape[-1], self.keys)
        scores = self.at.scratch.rows(pieces[0][1], "float32")
        shares = scores if kind == "float32" else self.at.scratch.rows(pieces[0][1], kind)
        state = self.at.scratch.rows(2, "float32")
        made = self.at.target(after is None, width, "float32")
        self._adjacent(made)
        for first, some in pieces:

            def part(ref: Ref, first: int = first) -> Ref:
                return ref._replace(offset=ref.offset + first * ref.column)

            own = None if finish is None else with_refs(finish, part)
            self._members.append(Product(some, keys.shape[-2], a, part(k), scores, own))
            before = Parts(state, made if first else None, width, first + some < keys.shape[-1])
            masks = {name: part(ref) for name, ref in vectors.items()}
            self._members.append(Rows("softmax", some, scores, shares, params, masks, before))
            rows = v._replace(offset=v.offset + first * v.row)
            self._members.append(Product(width, some, shares, rows, made, more=first > 0))
        wanted = _between(kind, after)
        return made if wanted == "float32" else self._cast(made, width, self.at.target(after is None, width, wanted))

    def _weight(self, weight: Value, zero: int) -> Ref | PackedMatrix:
        """Return a right operand: packed where it is known."""
        if weight.data is not None and len(weight.shape) == 2 and not zero:
            if not self._packs:
                return Ref(SCRATCH, weight.dtype.name)
            packed = pack(weight.data, rows=self.at.geometry.block)
            if packed.panels is not None:
                return packed
        return self.at.matrix(weight.name)._replace(zero=zero)

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
            c = self.at.target(last, columns, kind)._replace(zero=zero)
            self._adjacent(c)
            with np.errstate(all="ignore"):
                scale, shift = (None if x is None else (x / y_scale).astype(np.float32) for x in (scale, shift))
            low = None if activation is None else zero
            self._members.append(Product(columns, inner, x, b, c, scale=_finite(scale), shift=_finite(shift), low=low))
            return c._replace(zero=0)
        bias = self.at.vector(terms["bias"].name, "float32") if "bias" in terms else None
        c = self.at.target(last, columns, "float32")
        self._adjacent(c)
        self._members.append(Product(columns, inner, x, b, c, Finish(activation, bias), scale=_finite(scale)))
        if kind == "float32":
            return c
        made = self.at.target(last, columns, kind)
        y_scale, zero = float(node.attributes["y_scale"]), int(node.attributes["y_zero"])
        self._cast(c, columns, made._replace(scale=y_scale, zero=zero))
        return made

    def _quantized(self, node: Node, x: Ref, columns: int, last: bool) -> Ref:
        made = self.at.target(last, columns, self.values[node.output].dtype.name)
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

    def _map(self, node: Node, x: Ref, columns: int, last: bool) -> Ref:
        x = self._as(x, columns, "float32" if x.dtype in registry.HALVES else x.dtype)
        if last and self.values[self.result].dtype.name == x.dtype:
            out = self.at.outside(self.result)
        else:
            out = x if x.slot < SCRATCH else self.at.scratch.rows(columns, x.dtype)
        self._adjacent(x, out)
        finish = self._added(node, x.dtype, columns) if node.op == "add" else Finish(self._finish(node.op, node))
        self._members.append(Map(columns, x, out, finish))
        return out

    def _added(self, node: Node, kind: str, columns: int) -> Finish:
        """Return a sum with what lies outside: a number for each column, or rows like these."""
        other = self.values[node.inputs[1]]
        if rules.by_columns(other.shape, self.values[node.output].shape):
            return Finish(bias=self.at.vector(other.name, kind))
        beside = self._as(self.at.outside(other.name), columns, kind, kept=True)
        self._adjacent(beside)
        return Finish(residual=beside)

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
        kind = "float64" if wanted == "float64" else "float32"
        x = self._as(x, columns, kind)
        # In place where the type stays; softmax needs an input of its own where it does not.
        here = not last and wanted == kind and x.slot < SCRATCH
        if rounded is not None:
            scale, zero = self._scale(rounded)
            made = self.at.target(last, columns, self.values[rounded.output].dtype.name)
            out = made._replace(scale=scale, zero=zero)
        else:
            out = made = x if here else self.at.target(last, columns, wanted)
        vectors: dict[str, Ref] = {}
        params: dict[str, float] = {}
        if node.op == "layer_norm":
            params = {"epsilon": node.attributes.get("epsilon", 1e-5)}
            given = zip(row_operations.row_op("layer_norm").vectors, node.inputs[1:], strict=False)
            vectors = {name: self.at.vector(read, kind) for name, read in given}
        elif ROWS[node.op] == "softmax":
            params, vectors = self._of_softmax(node, columns, kind)
        self._adjacent(x, out, *vectors.values())
        self._members.append(Rows(ROWS[node.op], columns, x, out, params, vectors))
        return made

    def _of_softmax(self, node: Node, columns: int, kind: str) -> tuple[dict[str, float], dict[str, Ref]]:
        """Return a softmax' numbers and vectors."""
        if node.op != "masked_softmax":
            return {}, {}
        given = zip(row_operations.row_op("softmax").vectors, node.inputs[1:], strict=False)
        vectors = {name: self._as(self.at.outside(read), columns, kind, kept=True) for name, read in given}
        return {"scale": node.attributes.get("scale", 1.0)}, vectors


def _between(kind: str, after: Node | None) -> str:
    """Return in which type a member hands on numbers: halves stay float32, unless a product reads them."""
    return "float32" if kind in registry.HALVES and after is not None and after.kind != ops.PRODUCT else kind


def _finite(numbers: Array | None) -> Array | None:
    if numbers is not None and not np.isfinite(numbers).all():
        raise Unfit("scales and shifts of bytes that are not finite")
    return numbers
