"""How one node runs: operands in, the result written where the plan put it.  What no row covers runs by its meaning.

A runner takes the operands, the array to fill, and the node's attributes.  A result may lie on top of an operand of
`Op.in_place`, at the same strides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from .. import _linear, epilogues, kernels, layer, registry
from .._matmul import matmul as _matmul
from ..quantized import matmul_integer as _matmul_integer
from . import ops
from .ir import Graph, Node
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
    what = attributes["activation"], attributes["p"], attributes["q"]
    numbers = len(registry.epilogue(what[0]).params)
    layer.linear(
        x[0], x[1].T, extra.get("bias"), residual=extra.get("residual"), activation=what[: 1 + numbers], out=out
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


def _softmax(x: Sequence[Array], out: Array, attributes: Attributes) -> None:
    axis = attributes["axis"]
    np.subtract(x[0], x[0].max(axis=axis, keepdims=True, initial=-np.inf), out=out)
    np.exp(out, out=out)
    np.divide(out, out.sum(axis=axis, keepdims=True), out=out)


def _masked_softmax(x: Sequence[Array], out: Array, attributes: Attributes) -> None:
    np.multiply(x[0], x[0].dtype.type(attributes["scale"]), out=out)
    if len(x) > 1:
        np.add(out, x[1], out=out)
    _softmax([out], out, attributes)


_ANY: dict[str, Runner] = {"copy": _copy, "identity": _copy, "cast": _cast, "matmul_integer": _whole_product}
_FLOATS: dict[str, Runner] = {
    **{row.name: _activation(row.name) for row in registry.EPILOGUES if row.name != "none"},
    "add": _ufunc(np.add), "sub": _ufunc(np.subtract), "mul": _ufunc(np.multiply), "div": _ufunc(np.divide),
    "maximum": _ufunc(np.maximum), "minimum": _ufunc(np.minimum), "neg": _ufunc(np.negative), "abs": _ufunc(np.abs),
    "sqrt": _ufunc(np.sqrt), "softmax": _softmax, "masked_softmax": _masked_softmax,
}  # fmt: skip


def runner(graph: Graph, node: Node) -> Runner:
    """Return what runs a node: chosen once, by operation, type and shape."""
    specs = graph.specs(node)
    out = graph.values[node.output]
    by_meaning = _by_meaning(node.op)
    if out.size == 0 or any(math.prod(spec.shape) == 0 for spec in specs):
        return by_meaning
    if node.op == "matmul":
        return _product
    if node.op == "linear":
        if out.dtype not in _FINISHED:
            return by_meaning
        # `fastgemm.linear` takes one weight and fills an array in C order.
        return _linear_layer if len(specs[1].shape) == 2 and out.layout is None else _stack_of_layers
    if node.op in _ANY:
        return _ANY[node.op]
    return _FLOATS.get(node.op, by_meaning) if out.dtype in _FINISHED else by_meaning
