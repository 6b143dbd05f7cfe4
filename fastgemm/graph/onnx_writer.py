"""What the import writes with: a builder that computes at once what is known, and a node as the import sees it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import ops, rules, rules_products
from .builder import Builder, Tensor
from .onnx_file import MOST_BYTES, array_of, dtype_of
from .rules import Array

# Numbers of a result that is computed while a model is read: shapes, masks, folded weights.  Larger ones stay nodes,
# which the pass that folds constants may compute at first run.
MOST_FOLDED = 1 << 24
# Bytes of all such results together: so many, and so many for each byte of the file (bytes that become float64, twice).
MOST_MADE = 1 << 30
MOST_MADE_OF_A_BYTE = 16


class Unsupported(Exception):
    """A node that no graph can be made of; the text says why."""


class OnnxNode:
    """A node of a file: its operands as tensors (None where left out), its attributes with defaults."""

    def __init__(self, onnx: Any, proto: Any, inputs: Sequence[Tensor | None], opset: int) -> None:
        self.proto, self.opset = proto, opset
        self.inputs = list(inputs)
        self.used = [name for name in proto.output if name]
        self._onnx = onnx
        self._attributes = {attribute.name: attribute for attribute in proto.attribute}

    def input(self, at: int) -> Tensor:
        """Return an operand that must be there."""
        found = self.optional(at)
        if found is None:
            raise Unsupported(f"operand {at} is missing")
        return found

    def optional(self, at: int) -> Tensor | None:
        """Return an operand, None where it is left out."""
        return self.inputs[at] if at < len(self.inputs) else None

    def given(self) -> list[Tensor]:
        """Return every operand that is there."""
        return [tensor for tensor in self.inputs if tensor is not None]

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute as a Python value: number, text, list, or array."""
        found = self._attributes.get(name)
        if found is None:
            return default
        if found.type == self._onnx.AttributeProto.TENSOR:
            return array_of(self._onnx, found.t)
        value = self._onnx.helper.get_attribute_value(found)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    def dtype(self, number: int) -> np.dtype[Any]:
        """Return the type that an attribute names by a number."""
        return dtype_of(self._onnx, number)

    def numbers(self, name: str, at: int, default: Any = None) -> list[int] | None:
        """Return whole numbers that are an attribute in old versions and an operand that must be known in new ones."""
        value = self.attribute(name)
        operand = self.optional(at)
        if value is None and operand is not None:
            value = known(operand, name).reshape(-1).tolist()
        if value is None:
            fallback: list[int] | None = default
            return fallback
        return [int(one) for one in (value if isinstance(value, list) else [value])]


def known(tensor: Tensor, what: str) -> Array:
    """Return the numbers of a tensor.

    Raises
    ------
    Unsupported
        If they are computed from the graph's inputs.
    """
    data = tensor.value.data
    if data is None:
        raise Unsupported(f"{what} depends on the inputs' values; it must be known when the model is read")
    return data


class Writer:
    """Writes a graph of a file of so many bytes; operations on constants are computed at once, by their meaning."""

    def __init__(self, name: str, size: int) -> None:
        self.build = Builder(name)
        self._room = self._most = MOST_MADE + MOST_MADE_OF_A_BYTE * size

    def constant(self, data: Any) -> Tensor:
        """Return an array of the file as a constant."""
        return self.build.constant(np.asarray(data))

    def made(self, data: Any, *sources: Array) -> Tensor:
        """Return an array that was computed as a constant; one that shares the memory of a source takes none.

        Raises
        ------
        Unsupported
            If all of them take too much memory.
        """
        array = np.asarray(data)
        if not any(np.may_share_memory(array, source) for source in sources):
            self._room -= array.nbytes
        if self._room < 0:
            raise Unsupported(f"what constants are made into takes more than {self._most} bytes")
        return self.build.constant(array)

    def like(self, number: float, tensor: Tensor) -> Tensor:
        """Return a number as a constant of a tensor's type."""
        return self.constant(rules.number_of(number, tensor.dtype))

    def cast(self, tensor: Tensor, dtype: np.dtype[Any]) -> Tensor:
        """Return a tensor in a type."""
        return tensor if tensor.dtype == dtype else self.apply("cast", tensor, dtype=dtype)

    def apply(self, op: str, *operands: Tensor, **attributes: Any) -> Tensor:
        """Return the result of an operation."""
        row = ops.op(op)
        merged = ops.attributes_of(row, attributes)
        specs = [operand.value.spec for operand in operands]
        spec = ops.infer(op, specs, merged)
        size = math.prod(spec.shape)
        if size * spec.dtype.itemsize > MOST_BYTES:
            raise Unsupported(f"its result of shape {spec.shape} fits no memory")
        data = [operand.value.data for operand in operands]
        arrays = [array for array in data if array is not None]
        if len(arrays) == len(data) and size <= MOST_FOLDED and not rules_products.are_weights(op, specs):
            with np.errstate(all="ignore"):
                return self.made(row.meaning(arrays, merged), *arrays)
        return self.build.apply(op, *operands, **attributes)

    def fold(self, function: Callable[..., Any], *operands: Tensor) -> Tensor:
        """Return the result of a function that no graph has, number by number, of operands that are known."""
        arrays = [known(operand, "an operand") for operand in operands]
        if math.prod(np.broadcast_shapes(*(array.shape for array in arrays))) > MOST_FOLDED:
            raise Unsupported("too many numbers")
        with np.errstate(all="ignore"):
            return self.made(function(*arrays), *arrays)

    def matrix(self, tensor: Tensor) -> Tensor:
        """Return a tensor as it is where it has two axes or more."""
        if len(tensor.shape) < 2:
            raise Unsupported(f"an operand of shape {tensor.shape} is no matrix")
        return tensor
