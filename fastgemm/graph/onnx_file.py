"""An ONNX file, read as what it is: input from outside.

Nothing of it reaches the graph before it passed: the size of the file, the package's own checker, no data in other
files, no functions, sizes that are numbers, constants that hold what they declare.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import rules
from .ir import GraphError
from .rules import Array, Spec

# protobuf reads no more than this in one piece.
MOST_FILE = 2 << 30
# Of one value of a graph: beyond any machine's memory, a mistake or an attack.
MOST_BYTES = 1 << 40
# ONNX's own operators are of no domain, or of this one; what ONNX Runtime adds is of another.
_OWN, CONTRIB = "ai.onnx", "com.microsoft"
# Operators of ONNX Runtime that its optimiser writes as ONNX's own, whose older versions have none of these names.
_STRAYS = ("LayerNormalization", "SimplifiedLayerNormalization")
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_KINDS = ("bool", *_FLOATS, *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))


class Model(NamedTuple):
    """What a file of so many bytes holds: nodes and constants as ONNX has them, inputs with sizes bound.

    ``opsets`` has the version of each domain's operators.
    """

    nodes: list[Any]
    constants: dict[str, Array]
    inputs: dict[str, Spec]
    outputs: list[str]
    opsets: dict[str, int]
    name: str
    size: int


def package() -> Any:
    """Return the onnx package.

    Raises
    ------
    ImportError
        If it is not installed; the message says how to get it.
    """
    try:
        import onnx
    except ImportError as error:
        raise ImportError("graph.from_onnx needs the package onnx: pip install 'fastgemm[onnx]'") from error
    return onnx


def read(source: str | os.PathLike[str], sizes: Mapping[str, int], batch: int | None) -> Model:
    """Read and check a file.

    Raises
    ------
    OSError
        If it cannot be read.
    GraphError
        If it is no model that a graph can be made of.
    """
    onnx = package()
    path = Path(source)
    if path.stat().st_size > MOST_FILE:
        raise GraphError(f"{path.name} has {path.stat().st_size} bytes; a model of more than {MOST_FILE} is not read")
    data = path.read_bytes()
    try:
        proto = onnx.load_model_from_string(data)
    except Exception as error:  # protobuf's own errors differ between its versions
        raise GraphError(f"{path.name} is no ONNX model: {error}") from None
    return _checked(onnx, proto, sizes, batch)


def _checked(onnx: Any, proto: Any, sizes: Mapping[str, int], batch: int | None) -> Model:
    # Before the checker, which opens the files that a model names.
    outside = sorted(tensor.name for tensor in _tensors(onnx, proto.graph) if _is_outside(onnx, tensor))
    if outside:
        some = ", ".join(repr(name) for name in outside[:5])
        raise GraphError(
            f"data in other files is not read: {len(outside)} tensors, {some}; save the model in one file "
            "(onnx.save_model(onnx.load(path), one_file))"
        )
    if proto.functions:
        names = ", ".join(sorted(function.name for function in proto.functions)[:5])
        raise GraphError(f"functions of a model's own are not read: {names}; inline them (onnx.inliner)")
    opsets: dict[str, int] = {}
    for entry in proto.opset_import:
        domain = domain_of(entry)
        opsets[domain] = max(entry.version, opsets.get(domain, 0))
    _claim_strays(onnx, proto, opsets)
    try:
        onnx.checker.check_model(proto)
    except (onnx.checker.ValidationError, ValueError, TypeError) as error:
        # It has errors without a word, too.
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise GraphError(f"the ONNX checker refuses the model: {why}") from None
    if "" not in opsets:
        raise GraphError("the model names no version of ONNX's operators")
    constants = {tensor.name: array_of(onnx, tensor) for tensor in proto.graph.initializer}
    if proto.graph.sparse_initializer:
        raise GraphError("sparse constants are not read")
    unbound: set[str] = set()
    inputs = {
        value.name: _input(onnx, value, sizes, batch, unbound)
        for value in proto.graph.input
        if value.name not in constants
    }
    if unbound:
        raise GraphError(f"sizes of {', '.join(sorted(unbound))} are not given: from_onnx(path, sizes={{...}})")
    known = {name for value in proto.graph.input for name in _symbols(value)}
    strange = sorted(set(sizes) - known)
    if strange:
        raise GraphError(f"no input has a size named {strange[0]!r}; there are {', '.join(sorted(known)) or 'none'}")
    outputs = [value.name for value in proto.graph.output]
    return Model(list(proto.graph.node), constants, inputs, outputs, opsets, proto.graph.name, proto.ByteSize())


def domain_of(proto: Any) -> str:
    """Return the domain that a node or a version is of, empty for ONNX's own."""
    return "" if proto.domain == _OWN else str(proto.domain)


def _claim_strays(onnx: Any, proto: Any, opsets: dict[str, int]) -> None:
    """Give nodes that ONNX has no operator for to the domain that has: its checker knows none of them."""
    strays = [
        node
        for node in proto.graph.node
        if node.op_type in _STRAYS and domain_of(node) == "" and not _has(onnx, node.op_type, opsets.get("", 0))
    ]
    for node in strays:
        node.domain = CONTRIB
    if strays and CONTRIB not in opsets:
        opsets[CONTRIB] = 1
        proto.opset_import.add(domain=CONTRIB, version=1)


def _has(onnx: Any, op: str, version: int) -> bool:
    try:
        onnx.defs.get_schema(op, version, "")
    except onnx.defs.SchemaError:
        return False
    return True


def dtype_of(onnx: Any, number: int) -> np.dtype[Any]:
    """Return the type that a file names by a number.

    Raises
    ------
    TypeError
        If a graph does not compute with it: text, complex numbers, floats of 8 bits and less.
    """
    try:
        found = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
    except (KeyError, ValueError):
        raise TypeError(f"there is no type {number}") from None
    if found.name not in _KINDS:
        raise TypeError(f"a graph does not compute with {found.name}")
    return rules.dtype_of(found)


def array_of(onnx: Any, tensor: Any) -> Array:
    """Return a tensor of a file as an array that is nobody else's.

    Raises
    ------
    GraphError
        If it does not hold what it declares, or numbers that a graph does not compute with.
    """
    dims = tuple(tensor.dims)
    try:
        if any(size < 0 for size in dims) or math.prod(dims) > MOST_BYTES:
            raise ValueError(f"shape {dims}")
        dtype_of(onnx, tensor.data_type)
        found = np.ascontiguousarray(onnx.numpy_helper.to_array(tensor)).reshape(dims)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise GraphError(f"constant {tensor.name!r}: {error}") from None
    return found


def _input(onnx: Any, value: Any, sizes: Mapping[str, int], batch: int | None, unbound: set[str]) -> Spec:
    if not value.type.HasField("tensor_type"):
        raise GraphError(f"input {value.name!r} is no tensor")
    kind = value.type.tensor_type
    try:
        dtype = dtype_of(onnx, kind.elem_type)
    except TypeError as error:
        raise GraphError(f"input {value.name!r}: {error}") from None
    shape = []
    for axis, size in enumerate(kind.shape.dim):
        symbol = size.dim_param or f"{value.name}[{axis}]"
        if size.HasField("dim_value"):
            shape.append(size.dim_value)
        elif symbol in sizes:
            shape.append(sizes[symbol])
        elif axis == 0 and batch is not None:
            shape.append(batch)
        else:
            unbound.add(repr(symbol))
            shape.append(1)
    if not kind.HasField("shape"):
        raise GraphError(f"input {value.name!r} has no shape")
    if any(size < 0 for size in shape) or math.prod(shape) * dtype.itemsize > MOST_BYTES:
        raise GraphError(f"input {value.name!r} has shape {tuple(shape)}")
    return Spec(tuple(shape), dtype)


def _symbols(value: Any) -> Iterator[str]:
    for axis, size in enumerate(value.type.tensor_type.shape.dim):
        if not size.HasField("dim_value"):
            yield size.dim_param or f"{value.name}[{axis}]"


def _is_outside(onnx: Any, tensor: Any) -> bool:
    return bool(tensor.data_location == onnx.TensorProto.EXTERNAL or len(tensor.external_data))


def _tensors(onnx: Any, graph: Any) -> Iterator[Any]:
    """Yield every tensor of a graph, those of its nodes' attributes and inner graphs included."""
    yield from graph.initializer
    sparse = list(graph.sparse_initializer)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            if attribute.HasField("sparse_tensor"):
                sparse.append(attribute.sparse_tensor)
            sparse += attribute.sparse_tensors
            yield from attribute.tensors
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _tensors(onnx, inner)
    for one in sparse:
        yield from (one.values, one.indices)
