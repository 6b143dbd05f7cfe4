"""The reference interpreter: a graph's meaning, node by node in NumPy.  The oracle of everything else here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from . import ops, rules
from .ir import Graph, GraphError
from .rules import Array


def run(graph: Graph, inputs: Mapping[str, ArrayLike], precise: bool = False) -> dict[str, Array]:
    """Compute a graph's outputs.

    Parameters
    ----------
    graph : Graph
    inputs : mapping
        An array for each input, by name, of its shape and type.
    precise : bool
        Compute every float in float64, whatever its type: what rounding errors are measured against.  Integers,
        quantised numbers among them, stay what they are.

    Returns
    -------
    dict
        The outputs, by name.

    Raises
    ------
    GraphError
        If an input is missing or unknown, or does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from fastgemm.graph import Builder, reference
    >>> build = Builder()
    >>> build.output(build.relu(build.input("x", (3,), "float32")), "y")
    >>> reference.run(build.graph(), {"x": np.array([-1.0, 0.0, 2.0], "f4")})
    {'y': array([0., 0., 2.], dtype=float32)}
    """
    found = every(graph, inputs, precise)
    return {name: found[name] for name in graph.outputs}


def every(graph: Graph, inputs: Mapping[str, ArrayLike], precise: bool = False) -> dict[str, Array]:
    """Compute every value of a graph, intermediate ones too; as `run` otherwise."""
    return _evaluated(graph, given(graph, inputs), precise)


def evaluate(graph: Graph, arrays: Sequence[Array]) -> list[Array]:
    """Compute a graph that is part of another from the arrays of its inputs, in order: of its own types, or float64."""
    named = dict(zip(graph.inputs, arrays, strict=True))
    found = _evaluated(graph, named, any(array.dtype != graph.values[name].dtype for name, array in named.items()))
    return [found[name] for name in graph.outputs]


def _evaluated(graph: Graph, inputs: Mapping[str, Array], precise: bool) -> dict[str, Array]:
    known = {value.name: value.data for value in graph.values.values() if value.data is not None}
    known.update(inputs)
    if precise:
        known = {name: _precise(array) for name, array in known.items()}
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            attributes = dict(node.attributes)
            if precise and "dtype" in attributes and graph.values[node.output].dtype.kind not in "biu":
                attributes["dtype"] = np.dtype("f8")
            made = np.asarray(ops.op(node.op).meaning([known[name] for name in node.inputs], attributes))
            value = graph.values[node.output]
            wanted = np.dtype("f8") if precise and rules.is_float(value.dtype) else value.dtype
            if made.shape != value.shape or made.dtype != wanted:
                raise GraphError(f"{node.label} gave {made.dtype} {made.shape}, not {wanted} {value.shape}")
            known[node.output] = made
    return known


def _precise(array: Array) -> Array:
    return array.astype("f8") if rules.is_float(array.dtype) else array


def given(graph: Graph, inputs: Mapping[str, ArrayLike]) -> dict[str, Array]:
    """Return the inputs as arrays, checked against what the graph declares.

    Raises
    ------
    GraphError
        If one is missing, unknown, or of another shape or type.
    """
    if len(inputs) != len(graph.inputs) or not all(name in inputs for name in graph.inputs):
        for name in sorted(set(inputs) - set(graph.inputs)):
            raise GraphError(f"the graph has no input {name!r}; its inputs are {', '.join(graph.inputs)}")
        missing = next(name for name in graph.inputs if name not in inputs)
        raise GraphError(f"input {missing!r} is missing")
    found = {}
    for name in graph.inputs:
        value, array = graph.values[name], np.asarray(inputs[name])
        if array.shape != value.shape or (array.dtype is not value.dtype and array.dtype != value.dtype):
            raise GraphError(f"input {name!r} is {array.dtype} {array.shape}, not {value.dtype} {value.shape}")
        found[name] = array
    return found
