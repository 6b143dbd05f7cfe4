"""How one node runs: operands in, the result written where the plan put it.  What no row covers runs by its meaning.

A runner takes the operands, the array to fill, and the node's attributes.  A result may lie on top of an operand of
`Op.in_place`, at the same strides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from .. import _linear, epilogues, kernels, layer, registry
from .._matmul import matmul as _matmul
from ..chain import Chain
from ..packed import PackedMatrix, pack
from ..quantized import matmul_integer as _matmul_integer
from . import ops, rowwise
from .ir import Graph, Node, Value
from .lowering import Lowering
from .rowwise import Unfit
from .rules import Array, Attributes

Runner = Callable[[Sequence[Array], Array, Attributes], None]
_FINISHED = tuple(np.dtype(registry.dtype(name).numpy) for name in registry.FINISHED)


def _by_meaning(name: str) -> Runner:
    meaning = ops.op(name).meaning

    def run(x: Sequence[Array], out: Array, attributes: Attributes) -> None:
        np.copyto(out, meaning(x, attributes))

    return run


def _product(x: Sequence[Array], out: Array, attributes: Attributes) -> None:
    _matmul(x[0], x[1], out=out)


def _whole_product(x: Sequence[Array], out: Array, attributes: Attributes) -> None:
    zeros = [None if zero is None else zero.reshape(-1) for zero in (*x[2:], *[None] * (4 - len(x)))]
    np.copyto(out, _matmul_integer(x[0], x[1], *zeros))


def _linear_layer(x: Sequence[Array], out: Array, attributes: Attributes) -> None:
    extra = dict(zip(attributes["terms"], x[2:], strict=True))
    layer.linear(
        x[0], x[1].T, extra.get("bias"), residual=extra.get("residual"), activation=_activation_of(attributes), out=out
    )


def _stack_of_layers(x: Sequence[Array], out: Array, attributes: Attributes) -> None:
    # No single weight: the product first, then what follows it.
    _matmul(x[0], x[1], out=out)
    for term in x[2:]:
        np.add(out, term, out=out)
    _finish(out, attributes["activation"], attributes["p"], attributes["q"])


@cache
def _level() -> int | None:
    tier = kernels.active_isa()
    if tier is None:
        return None
    layer.load(tier)
    return tier.level


def _finish(out: Array, name: str, p: float, q: float) -> None:
    """Apply an activation in place."""
    level = _level()
    row = registry.epilogue(name)
    if level is None or not out.flags.c_contiguous or out.size == 0:
        np.copyto(out, epilogues.meaning(name)(out, p, q))
    else:
        _linear.finish_into(level, out.reshape(1, -1), row.code, None, None, p, q)


def _activation(name: str) -> Runner:
    def run(x: Sequence[Array], out: Array, attributes: Attributes) -> None:
        if x[0] is not out:
            np.copyto(out, x[0])
        _finish(out, name, attributes.get("p", 0.0), attributes.get("q", 0.0))

    return run


def _ufunc(function: np.ufunc) -> Runner:
    def run(x: Sequence[Array], out: Array, attributes: Attributes) -> None:
        function(*x, out=out)

    return run


def _copy(x: Sequence[Array], out: Array, attributes: Attributes) -> None:
    np.copyto(out, x[0])


def _cast(x: Sequence[Array], out: Array, attributes: Attributes) -> None:
    np.copyto(out, x[0], casting="unsafe")


_ANY: dict[str, Runner] = {"copy": _copy, "identity": _copy, "cast": _cast, "matmul_integer": _whole_product}
_FLOATS: dict[str, Runner] = {
    **{row.name: _activation(row.name) for row in registry.EPILOGUES if row.name != "none"},
    "add": _ufunc(np.add), "sub": _ufunc(np.subtract), "mul": _ufunc(np.multiply), "div": _ufunc(np.divide),
    "maximum": _ufunc(np.maximum), "minimum": _ufunc(np.minimum), "neg": _ufunc(np.negative), "abs": _ufunc(np.abs),
    "sqrt": _ufunc(np.sqrt),
}  # fmt: skip


class _Layer:
    """Runs a product with a constant right operand, packed when it first runs; see `_Chained` about threads."""

    def __init__(self, node: Node, graph: Graph) -> None:
        self.weight = graph.values[node.inputs[1]]
        what = epilogues.activation(_activation_of(node.attributes))
        self.numbers = what.row.code, what.p, what.q
        self.terms = tuple(node.attributes.get("terms", ()))
        self.rows = math.prod(graph.values[node.output].shape[:-1])
        out = graph.values[node.output].dtype
        self.kind = out if out in _FINISHED else np.dtype(np.float32)
        self.packed: PackedMatrix | None = None

    def __call__(self, x: Sequence[Array], out: Array, attributes: Attributes) -> None:
        if self.packed is None:
            assert self.weight.data is not None
            self.packed = pack(self.weight.data, rows=self.rows)
        level, panels = _level(), self.packed.panels
        if level is None or panels is None:
            np.copyto(out, ops.op("linear").meaning(x, {**ops.OPS["linear"].attributes, **attributes}))
            return
        extra = dict(zip(self.terms, x[2:], strict=True))
        bias, residual = extra.get("bias"), extra.get("residual")
        if bias is not None:
            bias = np.require(bias, self.kind, ["C", "A"])
        if residual is not None:
            residual = np.require(np.broadcast_to(residual, out.shape), self.kind, ["C", "A"])
        a, c = x[0].reshape(self.rows, -1), out.reshape(self.rows, -1)
        code, p, q = self.numbers
        _linear.packed_into(level, a, panels, c, code, bias, residual, p, q)


def _activation_of(attributes: Attributes) -> tuple[Any, ...]:
    name = attributes.get("activation", "none")
    return (name, *(attributes.get(key, value) for key, value in registry.epilogue(name).params))


class _Chained:
    """Runs nodes as one chain, which is made, and its weights packed, when it first runs.

    Two threads that come first at once both make one, and one is kept: nobody waits, and a fork finds no lock.
    """

    def __init__(self, nodes: Sequence[Node], values: Mapping[str, Value], inputs: Sequence[str], block: int) -> None:
        self.nodes, self.values, self.inputs, self.block = nodes, values, inputs, block
        self.constants = {name: value.data for name, value in values.items() if value.data is not None}
        self.made: tuple[Lowering, Chain] | None = None
        # Where there are no kernels the nodes run one by one.
        self.unfit = False

    def __call__(self, x: Sequence[Array], out: Array, attributes: Attributes) -> None:
        given = {**self.constants, **dict(zip(self.inputs, x, strict=True)), self.nodes[-1].output: out}
        if self.made is None and not self.unfit:
            try:
                found = Lowering(self.nodes, self.values, {name: a.strides for name, a in given.items()}, self.block)
                self.made = found, found.chain()
            except (Unfit, RuntimeError):
                self.unfit = True
        if self.made is None:
            self._one_by_one(given, out)
        else:
            lowered, chain = self.made
            chain.run(lowered.arrays(given))

    def _one_by_one(self, given: dict[str, Array], out: Array) -> None:
        for node in self.nodes:
            row = ops.op(node.op)
            made = row.meaning([given[name] for name in node.inputs], ops.attributes_of(row, node.attributes))
            given[node.output] = made
        np.copyto(out, made)


def _rows_of(node: Node, graph: Graph) -> _Chained | None:
    """Return a chain of one node; None where it can be none."""
    reads = dict.fromkeys(node.inputs)
    values = {name: graph.values[name] for name in (*reads, node.output)}
    if len(reads) < len(node.inputs) or not rowwise.lowers(node, values) or not rowwise.fits([node], values):
        return None
    shape = values[node.output].shape
    # Items small enough for several threads, large enough to deal out: about 32 KiB.
    block = max(1, min(math.prod(shape[:-1]), -(-32768 // (shape[-1] * 4))))
    return _Chained([node], values, node.inputs, block)


def runner(graph: Graph, node: Node) -> Runner:
    """Return what runs a node: chosen once, by operation, type and shape."""
    specs = graph.specs(node)
    out = graph.values[node.output]
    by_meaning = _by_meaning(node.op)
    if out.size == 0 or any(math.prod(spec.shape) == 0 for spec in specs):
        return by_meaning
    # `_Layer` and `fastgemm.linear` fill arrays in C order.
    single = len(specs[1].shape) == 2 and out.layout is None if node.op in ("matmul", "linear") else False
    if single and node.attributes.get("packed") and specs[0].dtype == out.dtype:
        return _Layer(node, graph)
    if node.op == "matmul":
        return _product
    if node.op == "linear":
        if single:
            return _linear_layer
        return _stack_of_layers if out.dtype in _FINISHED else _rows_of(node, graph) or by_meaning
    if node.op == "chain":
        body: Graph = node.attributes["body"]
        return _Chained(body.nodes, body.values, body.inputs, node.attributes["block"])
    if node.op in _ANY:
        return _ANY[node.op]
    if node.kind == ops.ROW or node.op == "qlinear" or out.dtype not in _FINISHED:
        return _rows_of(node, graph) or by_meaning
    return _FLOATS.get(node.op, by_meaning)
