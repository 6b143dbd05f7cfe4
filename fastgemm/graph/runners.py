"""How one node runs: operands in, the result written where the plan put it.  What no row covers runs by its meaning.

A binder takes the operands and the array to fill and returns the call that computes them, which may be made again and
again for the same arrays.  A result may lie on top of an operand of `Op.in_place`, at the same strides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .. import _linear, activations, dispatch, epilogues, kernels, layer, registry, to_bytes
from .._matmul import matmul as _matmul
from ..quantized import matmul_integer as _matmul_integer
from ..threads import get_num_threads
from . import ops, rowwise, storage
from .ir import Graph, Node
from .kernel_runners import FINISHED, ChainOf, Layer, OfBytes, SumsOfBytes
from .rules import Array, Attributes
from .storage import Place

Call = Callable[[], Any]
Bind = Callable[[Sequence[Array], Array], Call]
_Run = Callable[[Sequence[Array], Array, Attributes], None]


class Runner(NamedTuple):
    """What runs a node.

    ``quiet`` says that it leaves no floating-point flags behind that NumPy would look at; ``how`` says in words what
    nobody would expect: that kernels do not take the node, and why.
    """

    bind: Bind
    quiet: bool = False
    how: str = ""


def _by_meaning(node: Node, how: str = "") -> Runner:
    row = ops.op(node.op)
    return _plain(lambda x, out, a: np.copyto(out, row.meaning(x, a)), node, how)


def _plain(run: _Run, node: Node, how: str = "") -> Runner:
    return Runner(lambda x, out: partial(run, x, out, node.attributes), how=how)


def _product(x: Sequence[Array], out: Array, attributes: Attributes) -> None:
    _matmul(x[0], x[1], out=out)


def _sums(x: Sequence[Array], out: Array, attributes: Attributes) -> None:
    # Of halves, in float32: without the type NumPy, where it computes them, rounds on the way.
    _matmul(x[0], x[1], out=out, dtype=out.dtype)


def _whole_product(x: Sequence[Array], out: Array, attributes: Attributes) -> None:
    zeros = [None if zero is None else zero.reshape(-1) for zero in (*x[2:], *[None] * (4 - len(x)))]
    np.copyto(out, _matmul_integer(x[0], x[1], *zeros))


def _stack_of_layers(x: Sequence[Array], out: Array, attributes: Attributes) -> None:
    # No single weight: the product first, then what follows it.
    (_product if out.dtype == x[0].dtype else _sums)(x, out, attributes)
    for term in x[2:]:
        np.add(out, term, out=out)
    _finish(out, attributes["activation"], attributes["p"], attributes["q"])()


def _finish(out: Array, name: str, p: float, q: float) -> Call:
    """Return the call that applies an activation in place."""
    level = layer.epilogue_level()
    # Numbers one by one: any order of axes will do.
    memory = storage.dense(out)
    if level is None or memory is None or out.size == 0:
        meaning = epilogues.meaning(name)
        return lambda: np.copyto(out, meaning(out, p, q))
    code = activations.epilogue(name).code
    return partial(_linear.finish_into, level, memory.reshape(1, -1), code, None, None, p, q)


def _activation(node: Node) -> Runner:
    p, q = node.attributes.get("p", 0.0), node.attributes.get("q", 0.0)

    def bind(x: Sequence[Array], out: Array) -> Call:
        return partial(_copied_first, x[0], out, _finish(out, node.op, p, q))

    return Runner(bind)


def _copied_first(x: Array, out: Array, finish: Call) -> None:
    if x is not out:
        np.copyto(out, x)
    finish()


def _dynamic_scale(x: Sequence[Array], out: Array) -> Call:
    # Of numbers in any order.
    memory = storage.dense(x[0])
    return to_bytes.scale_and_zero(x[0] if memory is None else memory, out)


def _quantised_late(node: Node) -> Runner:
    """A ``quantize`` whose scale or zero point, one number each, is known when it runs."""
    meaning = ops.op(node.op).meaning

    def bind(x: Sequence[Array], out: Array) -> Call:
        def by_meaning() -> None:
            with np.errstate(all="ignore"):
                np.copyto(out, meaning(x, node.attributes))

        zero = x[2].reshape(()) if len(x) > 2 else 0
        found = to_bytes.quantise(x[0], x[1].reshape(()), zero, out, by_meaning)
        return by_meaning if found is None else found

    return Runner(bind, True)


def _ufunc(function: np.ufunc) -> _Run:
    return lambda x, out, attributes: function(*x, out=out)


def _copy(x: Sequence[Array], out: Array, attributes: Attributes) -> None:
    np.copyto(out, x[0])


def _cast(x: Sequence[Array], out: Array, attributes: Attributes) -> None:
    np.copyto(out, x[0], casting="unsafe")


_ANY: dict[str, _Run] = {"copy": _copy, "identity": _copy, "cast": _cast, "matmul_integer": _whole_product}
_FLOATS: dict[str, _Run] = {
    "add": _ufunc(np.add), "sub": _ufunc(np.subtract), "mul": _ufunc(np.multiply), "div": _ufunc(np.divide),
    "maximum": _ufunc(np.maximum), "minimum": _ufunc(np.minimum), "neg": _ufunc(np.negative), "abs": _ufunc(np.abs),
    "sqrt": _ufunc(np.sqrt),
}  # fmt: skip


def _no_kernels() -> str | None:
    return None if kernels.active_isa() is not None else "no kernels run on this CPU"


def _rows_of(node: Node, graph: Graph, places: Mapping[str, Place]) -> Runner:
    """Return a chain of one node; its meaning, and why, where it can be none."""
    reads = dict.fromkeys(node.inputs)
    values = {name: graph.values[name] for name in (*reads, node.output)}
    fits = rowwise.lowers(node, values) and rowwise.fits([node], values)
    if len(reads) < len(node.inputs) or not fits:
        return _by_meaning(node)
    shape = values[node.output].shape
    # Items small enough for several threads, large enough to deal out: about 32 KiB; of products, which read a whole
    # weight for each, an equal share up to 128 rows.
    rows, threads = math.prod(shape[:-1]), dispatch.threads_to_cut_for(get_num_threads())
    most = -(-32768 // (shape[-1] * 4)) if node.kind != ops.PRODUCT else min(128, -(-rows // threads))
    block = max(1, min(rows, most))
    found = ChainOf([node], values, node.inputs, [places[name] for name in values], block)
    why = _no_kernels() or found.misfit()
    return Runner(found, True) if why is None else _by_meaning(node, f"by NumPy: {why}")


def _chain(node: Node, places: Mapping[str, Place]) -> Runner:
    """Return what runs a chain; its members one by one, and why, where kernels do not take it."""
    body: Graph = node.attributes["body"]
    found = ChainOf(
        body.nodes, body.values, body.inputs, [places[name] for name in (*node.inputs, node.output)],
        node.attributes["block"], node.attributes.get("keys", 0),
    )  # fmt: skip
    why = _no_kernels() or found.misfit()
    if why is None:
        return Runner(found, True)
    inner = {name: place for name, place in storage.places(body).items() if place is not None}
    inner |= {name: places[own] for name, own in zip(body.inputs, node.inputs, strict=True)}
    inner[body.outputs[0]] = places[node.output]
    members = [runner(body, member, inner) for member in body.nodes]
    known = {value.name: value.data for value in body.values.values() if value.data is not None}

    def run(x: Sequence[Array], out: Array, attributes: Attributes) -> None:
        arrays = {**known, **dict(zip(body.inputs, x, strict=True)), body.outputs[0]: out}
        for member, one in zip(body.nodes, members, strict=True):
            value = body.values[member.output]
            if value.name not in arrays:
                arrays[value.name] = np.empty(value.shape, value.dtype)
            one.bind([arrays[name] for name in member.inputs], arrays[value.name])()

    return _plain(run, node, f"one member after another: {why}")


def runner(graph: Graph, node: Node, places: Mapping[str, Place]) -> Runner:
    """Return what runs a node: chosen once, by operation, type, shape, and where its operands lie."""
    specs = graph.specs(node)
    out = graph.values[node.output]
    if out.size == 0 or any(math.prod(spec.shape) == 0 for spec in specs):
        return _by_meaning(node)
    if node.op in ("matmul", "linear"):
        return _of_product(graph, node, places)
    if node.op == "chain":
        return _chain(node, places)
    if node.op in ("integer_linear", "matmul_integer") and node.attributes.get("packed"):
        return Runner(OfBytes(node, graph) if node.op == "integer_linear" else SumsOfBytes(node, graph), True)
    if node.op == "integer_linear":
        return _by_meaning(node)
    if node.op == "dynamic_scale":
        return Runner(_dynamic_scale, True)
    if node.op in _ANY:
        return _plain(_ANY[node.op], node)
    if node.op == "quantize" and _is_late(node, graph):
        return _quantised_late(node)
    if node.kind == ops.ROW or node.op in ("qlinear", "dequantize") or out.dtype not in FINISHED:
        return _rows_of(node, graph, places)
    if node.op in rowwise.MAPS:
        return _activation(node)
    return _plain(_FLOATS[node.op], node) if node.op in _FLOATS else _by_meaning(node)


def _is_late(node: Node, graph: Graph) -> bool:
    terms = [graph.values[name] for name in node.inputs[1:]]
    return all(value.size == 1 for value in terms) and not all(value.is_constant for value in terms)


def _of_product(graph: Graph, node: Node, places: Mapping[str, Place]) -> Runner:
    out, (left, right, *_) = graph.values[node.output], graph.specs(node)
    same, halves = left.dtype == out.dtype, out.dtype.name in registry.HALVES
    # `Layer` fills arrays in C order.
    single = len(right.shape) == 2 and out.layout is None and same
    level, tier = layer.epilogue_level(), kernels.active_isa()
    packed = bool(node.attributes.get("packed"))
    if single and (packed or node.op == "linear") and level is not None and (out.dtype in FINISHED or halves):
        assert tier is not None
        if registry.supported(registry.dtype(out.dtype.name), tier):
            run = Layer(node, graph, level)
            copied = run.copied(graph, places)
            return Runner(run, packed, f"copies {', '.join(copied)} in every call" if copied else "")
    if node.op == "matmul":
        return _plain(_product if same else _sums, node)
    return _plain(_stack_of_layers, node) if out.dtype in FINISHED else _rows_of(node, graph, places)
