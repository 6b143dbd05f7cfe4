"""from_onnx: a graph of an ONNX file.

onnx_file.py     the file, checked             onnx_nodes.py      operators that compute
onnx_writer.py   what the import writes with   onnx_shapes.py     operators that move numbers
                                               onnx_quantised.py  operators of quantised models

and of the domain com.microsoft, which ONNX Runtime's optimiser and quantiser write, onnx_contrib.py has those that
compute, onnx_attention.py attention, and onnx_contrib_bytes.py those of quantised models.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping

from . import onnx_attention, onnx_contrib, onnx_contrib_bytes, onnx_file, onnx_nodes, onnx_quantised, onnx_shapes
from .builder import Tensor
from .ir import Graph, GraphError
from .onnx_writer import OnnxNode, Unsupported, Writer

_TABLES = {
    "": (onnx_nodes.TABLE, onnx_shapes.TABLE, onnx_quantised.TABLE),
    onnx_file.CONTRIB: (onnx_contrib.TABLE, onnx_attention.TABLE, onnx_contrib_bytes.TABLE),
}
# Operators by domain and name; adding one is a function in one of these modules.
TABLE = {(domain, op): emit for domain, tables in _TABLES.items() for table in tables for op, emit in table.items()}
# Their meaning is that of the versions from this one on (older ones differ in more than where an attribute stands).
LEAST_OPSET = 7


def from_onnx(
    path: str | os.PathLike[str], *, batch: int | None = None, sizes: Mapping[str, int] | None = None
) -> Graph:
    """Read a graph from an ONNX file.

    Parameters
    ----------
    path : str or path
        The file; a model with its data in other files is refused.
    batch : int, optional
        The first size of every input that has none.
    sizes : mapping, optional
        Other sizes that the file names instead of giving: ``{"sequence": 128}``.  One without a name is called
        ``"input[axis]"``.

    Returns
    -------
    Graph
        With fixed shapes: whatever is computed from shapes and constants alone has been computed.

    Raises
    ------
    ImportError
        If the package onnx is not installed (``pip install 'fastgemm[onnx]'``).
    OSError
        If the file cannot be read.
    GraphError
        If it is no valid model, sizes are missing, or there are nodes that no graph can be made of: the message names
        all of them.

    Notes
    -----
    Operators are ONNX's own and those of com.microsoft that ONNX Runtime's optimiser and quantiser write: products,
    norms, embeddings, attention, gelu and what is like it, and those that compute with bytes.  `TABLE` names them.

    The file is taken for input from outside: it goes through onnx's checker, files that it names are not opened, and
    what it declares is compared with what it holds.  What is computed of its constants may take 1 GiB and 16 times the
    file.

    Examples
    --------
    >>> from fastgemm import graph
    >>> network = graph.from_onnx("encoder.onnx", batch=8)      # doctest: +SKIP
    >>> print(network)                                          # doctest: +SKIP
    """
    bound = {name: _size(name, size) for name, size in (sizes or {}).items()}
    model = onnx_file.read(path, bound, None if batch is None else _size("batch", batch))
    if model.opsets[""] < LEAST_OPSET:
        raise GraphError(
            f"operators of version {model.opsets['']} are not read: {LEAST_OPSET} or newer (onnx.version_converter)"
        )
    write = Writer(model.name, model.size)
    known: dict[str, Tensor | None] = {"": None}
    for name, spec in model.inputs.items():
        known[name] = write.build.input(name, spec.shape, spec.dtype)
    for name, data in model.constants.items():
        known[name] = write.build.constant(data, name)
    problems = _write(write, model, known)
    if problems:
        raise GraphError(f"{len(problems)} nodes of the model cannot be read: {'; '.join(problems)}")
    for name in model.outputs:
        made = known.get(name)
        if made is None:
            raise GraphError(f"no node makes output {name!r}")
        write.build.output(made, name)
    return write.build.graph()


def _size(name: str, given: int) -> int:
    size = operator.index(given)
    if size < 1:
        raise ValueError(f"{name} must be at least 1, not {size}")
    return size


def _write(write: Writer, model: onnx_file.Model, known: dict[str, Tensor | None]) -> list[str]:
    """Write every node; return what is wrong with those that cannot be written.

    A node that reads what such a node would have made is passed over: its own troubles, if any, are not known.
    """
    problems: list[str] = []
    lost: set[str] = set()
    onnx = onnx_file.package()
    for proto in model.nodes:
        domain = onnx_file.domain_of(proto)
        label = f"{proto.op_type} {proto.name or ', '.join(proto.output)!r}{domain and f' of {domain}'}"
        emit = TABLE.get((domain, proto.op_type))
        if emit is None:
            problems.append(f"{label}: there is no such operation")
            lost.update(proto.output)
            continue
        if lost.intersection(proto.input):
            lost.update(proto.output)
            continue
        node = OnnxNode(onnx, proto, [known[name] for name in proto.input], model.opsets[domain])
        try:
            made = emit(write, node)
        except (Unsupported, ValueError, TypeError, IndexError, OverflowError) as error:
            problems.append(f"{label}: {error}")
            lost.update(proto.output)
            continue
        for name, tensor in zip(proto.output, made, strict=False):
            if name:
                known[name] = tensor
    return problems
