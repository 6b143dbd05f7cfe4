"""Runners of steps that are one call of compiled code: layers, and nodes that run as a chain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from .. import _linear, activations, epilogues, layer, registry
from ..chain import Chain
from ..packed import PackedMatrix, pack
from ..quantized import matmul_integer
from ..quantized_layer import qlinear
from . import ops, storage
from .ir import Graph, Node, Value
from .lowering import Lowering
from .operands import Operands
from .rules import Array, Attributes
from .storage import Place

FINISHED = tuple(np.dtype(registry.dtype(name).numpy) for name in registry.FINISHED)


def activation_of(attributes: Attributes) -> tuple[Any, ...]:
    """Return a node's activation as `fastgemm.linear` takes it."""
    name = attributes.get("activation", "none")
    return (name, *(attributes.get(key, value) for key, value in activations.epilogue(name).params))


class _Term:
    """A bias or residual as kernels take it; what is known is made ready once."""

    def __init__(self, at: int, value: Value, shape: tuple[int, ...], kind: np.dtype[Any]) -> None:
        self.at, self.shape, self.kind = at, shape, kind
        self.known = None if value.data is None else self._ready(value.data)

    def __call__(self, x: Sequence[Array]) -> Array:
        return self._ready(x[self.at]) if self.known is None else self.known

    def fits(self, value: Value, place: Place) -> bool:
        """Return whether kernels can read a value where it lies."""
        dense = storage.in_order(self.shape, self.kind.itemsize)
        return (value.dtype, value.shape) == (self.kind, self.shape) and (
            storage.lengths(self.shape, place.strides) == storage.lengths(self.shape, dense)
        )

    def _ready(self, array: Array) -> Array:
        if array.dtype == self.kind and array.shape == self.shape and array.flags.c_contiguous:
            return array
        return np.require(np.broadcast_to(array, self.shape), self.kind, ["C", "A"])


def _seen(given: Array, used: Array | None) -> bool:
    # Whether one array is, or is a view of, the other's memory.
    base = None if used is None else used.base
    return used is given or (base is not None and (base is given or base is given.base))


class Layer:
    """A product with one weight for all, and what follows it.

    Where the weight is to be packed that is done when it first runs; see `ChainOf` about threads.
    """

    def __init__(self, node: Node, graph: Graph, level: int) -> None:
        self.weight, self.level = graph.values[node.inputs[1]], level
        self.packs, self.node = bool(node.attributes.get("packed")), node
        what = epilogues.activation(activation_of(node.attributes))
        self.numbers = what.row.code, what.p, what.q
        out = graph.values[node.output]
        self.rows = math.prod(out.shape[:-1])
        kind = out.dtype if out.dtype in FINISHED else np.dtype(np.float32)
        terms = dict(zip(node.attributes.get("terms", ()), enumerate(node.inputs[2:], 2), strict=True))
        self.terms = [
            _Term(terms[name][0], graph.values[terms[name][1]], shape, kind) if name in terms else None
            for name, shape in (("bias", out.shape[-1:]), ("residual", out.shape))
        ]
        self.packed: PackedMatrix | None = None

    def copied(self, graph: Graph, places: Mapping[str, Place]) -> list[str]:
        """Return the operands that every call copies: rows of A that do not join, terms that are not an array's."""
        names, a = self.node.inputs, graph.values[self.node.inputs[0]]
        rows = math.prod(a.shape[:-1]), a.shape[-1]
        joined = storage.reshaped(a.shape, places[a.name].strides, rows, a.dtype.itemsize)
        late = [term for term in self.terms if term is not None and term.known is None]
        found = [names[one.at] for one in late if not one.fits(graph.values[names[one.at]], places[names[one.at]])]
        return [a.name, *found] if joined is None else found

    def __call__(self, x: Sequence[Array], out: Array) -> partial[None]:
        call, steady = self._prepared(x, out)
        return call if steady else partial(self._anew, x, out)

    def _anew(self, x: Sequence[Array], out: Array) -> None:
        self._prepared(x, out)[0]()

    def _prepared(self, x: Sequence[Array], out: Array) -> tuple[partial[None], bool]:
        """Return the call, and whether it reads the operands themselves: a copy of one is of this moment's numbers."""
        a, c = x[0], out
        if c.ndim != 2:
            a, c = a.reshape(self.rows, a.shape[-1]), c.reshape(self.rows, c.shape[-1])
        steady = _seen(x[0], a)
        terms: list[Array | None] = []
        for term in self.terms:
            terms.append(None if term is None else term(x))
            if term is not None and term.known is None:
                steady = steady and _seen(x[term.at], terms[-1])
        bias, residual = terms
        code, p, q = self.numbers
        if not self.packs:
            return partial(self._plain, x, out, (self.level, a, x[1], c, code, bias, residual, p, q)), steady
        if self.packed is None:
            assert self.weight.data is not None
            self.packed = pack(self.weight.data, rows=self.rows)
        assert self.packed.panels is not None
        made = partial(_linear.packed_into, self.level, a, self.packed.panels, c, code, bias, residual, p, q)
        return made, steady

    def _plain(self, x: Sequence[Array], out: Array, given: tuple[Any, ...]) -> None:
        if not _linear.product_into(*given):
            np.copyto(out, ops.op(self.node.op).meaning(x, self.node.attributes))


class OfBytes:
    """A product of bytes by a matrix that is packed when it first runs; see `ChainOf` about threads."""

    def __init__(self, node: Node, graph: Graph) -> None:
        self.weight, self.attributes = graph.values[node.inputs[1]], node.attributes
        self.rows = math.prod(graph.values[node.output].shape[:-1])
        self.packed: PackedMatrix | None = None
        self.what = epilogues.activation(activation_of(node.attributes))
        # Terms that are known, and where calls find the others: a call from the caller's arrays, or into them, is bound
        # each time.
        self.known: dict[str, Array] = {}
        self.late: dict[str, int] = {}
        for at, name in enumerate(node.attributes.get("terms", ()), 3):
            data = graph.values[node.inputs[at]].data
            if data is None:
                self.late[name] = at
            else:
                self.known[name] = np.ascontiguousarray(data).reshape(-1)

    def __call__(self, x: Sequence[Array], out: Array) -> partial[None]:
        if self.packed is None:
            assert self.weight.data is not None
            zero = self._zero(x)
            self.packed = pack(self.weight.data, rows=self.rows, zero_point=zero or None)
        return self._call(x, self.packed, out)

    def _zero(self, x: Sequence[Array]) -> int:
        """Return the zero point of the matrix."""
        return int(self.attributes.get("b_zero", 0))

    def _call(self, x: Sequence[Array], weight: PackedMatrix, out: Array) -> partial[None]:
        # An ``integer_linear``.
        level, a, c, terms = layer.epilogue_level(), x[0], out, self.known.copy()
        if c.ndim != 2:
            a, c = a.reshape(self.rows, a.shape[-1]), c.reshape(self.rows, c.shape[-1])
        fits = _seen(x[0], a) and out.flags.c_contiguous
        for name, at in self.late.items():
            terms[name] = x[at] if x[at].ndim == 1 else x[at].reshape(-1)
            fits = fits and _seen(x[at], terms[name]) and terms[name].flags.c_contiguous
        if level is None or weight.panels is None or not fits:
            return partial(self._by_qlinear, x, weight, out, terms)
        factor, what = terms.get("factor"), self.what
        return partial(
            _linear.late_into, level, a, weight.panels, c, what.row.code, terms.get("bias"), what.p, what.q, x[2],
            terms["scale"], factor, None if factor is None else np.empty_like(factor),
        )  # fmt: skip

    def _by_qlinear(self, x: Sequence[Array], weight: PackedMatrix, out: Array, terms: Mapping[str, Array]) -> None:
        what = activation_of(self.attributes)
        with np.errstate(all="ignore"):
            # (Of a view that had to be copied, as it is now.)
            late = {name: x[at].reshape(-1) for name, at in self.late.items()}
            now = {**terms, **late}
            scale, zero = now["scale"] * now.get("factor", np.float32(1)), x[2].astype(x[0].dtype)
            np.copyto(out, qlinear(x[0], weight, scale, now.get("bias"), x_zero_point=zero, activation=what))


class SumsOfBytes(OfBytes):
    """The same for the sums alone: a ``matmul_integer``."""

    def _zero(self, x: Sequence[Array]) -> int:
        return int(x[3].reshape(())) if len(x) > 3 else 0

    def _call(self, x: Sequence[Array], weight: PackedMatrix, out: Array) -> partial[None]:
        return partial(self._sums, x, weight, out)

    def _sums(self, x: Sequence[Array], weight: PackedMatrix, out: Array) -> None:
        np.copyto(out, matmul_integer(x[0], weight, x[2].reshape(-1) if len(x) > 2 else None))


class ChainOf:
    """Nodes as one chain, which is made, and its weights packed, when it first runs.

    Two threads that come first at once both make one, and one is kept: nobody waits, and a fork finds no lock.

    Parameters
    ----------
    nodes, values, block, keys
        As `Operands` and `Lowering` take them.
    inputs : sequence of str
        What the operands are called in `values`.
    places : sequence of Place
        Where the operands lie, and the result.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        values: Mapping[str, Value],
        inputs: Sequence[str],
        places: Sequence[Place],
        block: int,
        keys: int = 0,
    ) -> None:
        self.result = nodes[-1].output
        self.operands = {name: at for at, name in enumerate((*inputs, self.result))}
        strides = {name: value.data.strides for name, value in values.items() if value.data is not None}
        strides |= {name: place.strides for name, place in zip(self.operands, places, strict=True)}
        self._asked = nodes, values, strides, block
        self._keys = keys
        self.made: tuple[Chain, list[Array | None], list[tuple[int, int]]] | None = None

    def misfit(self) -> str | None:
        """Return why kernels do not take it; None where they do."""
        return Lowering(Operands(*self._asked), self._keys).misfit()

    def _make(self) -> tuple[Chain, list[Array | None], list[tuple[int, int]]]:
        lowered = Lowering(Operands(*self._asked), self._keys)
        chain = lowered.chain()
        values = self._asked[1]
        known = [values[one].data if isinstance(one, str) else one for one in lowered.sources]
        late = [
            (slot, self.operands[name])
            for slot, name in enumerate(lowered.sources)
            if isinstance(name, str) and known[slot] is None
        ]
        return chain, known, late

    def __call__(self, x: Sequence[Array], out: Array) -> partial[None]:
        if self.made is None:
            self.made = self._make()
        chain, known, late = self.made
        arrays: list[Any] = known.copy()
        for slot, at in late:
            arrays[slot] = x[at] if at < len(x) else out
        return partial(chain.run, arrays)
