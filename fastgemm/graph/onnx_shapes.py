"""ONNX operators that move numbers or tell shapes.  Sizes are fixed when a model is read, so shapes are constants."""

from __future__ import annotations

import math
from itertools import accumulate, pairwise

import numpy as np

from . import rules
from .builder import Tensor
from .onnx_nodes import Emit
from .onnx_writer import MOST_FOLDED, OnnxNode, Unsupported, Writer, known
from .rules import Array


def constant(write: Writer, node: OnnxNode) -> list[Tensor]:
    """A constant by any of its attributes."""
    for name, dtype in (("value", None), ("value_float", "f4"), ("value_floats", "f4"), ("value_int", "i8"),
                        ("value_ints", "i8")):  # fmt: skip
        value = node.attribute(name)
        if value is not None:
            return [write.constant(np.asarray(value, dtype))]
    raise Unsupported("a constant of numbers is expected")


def shape(write: Writer, node: OnnxNode) -> list[Tensor]:
    """The shape, or a part of it."""
    sizes = node.input(0).shape
    start, end = node.attribute("start", 0), node.attribute("end", len(sizes))
    return [write.constant(np.asarray(sizes[slice(start, end)], "i8"))]


def size(write: Writer, node: OnnxNode) -> list[Tensor]:
    """How many numbers."""
    return [write.constant(np.asarray(math.prod(node.input(0).shape), "i8"))]


def reshape(write: Writer, node: OnnxNode) -> list[Tensor]:
    """0 keeps a size (unless allowzero), -1 takes what is left."""
    x = node.input(0)
    wanted = node.numbers("shape", 1)
    if wanted is None:
        raise Unsupported("no shape is given")
    if not node.attribute("allowzero", 0):
        if any(one == 0 and at >= len(x.shape) for at, one in enumerate(wanted)):
            raise Unsupported(f"shape {wanted} keeps a size that {x.shape} does not have")
        wanted = [x.shape[at] if one == 0 else one for at, one in enumerate(wanted)]
    return [_reshaped(write, x, tuple(wanted))]


def _reshaped(write: Writer, x: Tensor, wanted: tuple[int, ...]) -> Tensor:
    return x if x.shape == wanted else write.apply("reshape", x, shape=wanted)


def transpose(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Axes in another order."""
    perm = node.attribute("perm")
    x = node.input(0)
    axes = tuple(range(len(x.shape)))
    order = axes[::-1] if perm is None else rules.axes_of(tuple(perm), len(axes))
    return [x if order == axes else write.apply("transpose", x, perm=order)]


def flatten(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Two axes: those before one, and the others."""
    x, axis = node.input(0), int(node.attribute("axis", 1))
    if not -len(x.shape) <= axis <= len(x.shape):
        raise Unsupported(f"there is no axis {axis} of {len(x.shape)}")
    axis += len(x.shape) if axis < 0 else 0
    return [_reshaped(write, x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))]


def squeeze(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Leave out axes of length one."""
    x, axes = node.input(0), node.numbers("axes", 1)
    ones = [at for at, one in enumerate(x.shape) if one == 1]
    gone = ones if axes is None else rules.axes_of(tuple(axes), len(x.shape))
    if not set(gone) <= set(ones):
        raise Unsupported(f"axes {axes} of shape {x.shape} are not of length one")
    return [_reshaped(write, x, tuple(one for at, one in enumerate(x.shape) if at not in gone))]


def unsqueeze(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Put in axes of length one."""
    x, axes = node.input(0), node.numbers("axes", 1, [])
    count = len(x.shape) + len(axes or [])
    at_one = rules.axes_of(tuple(axes or []), count)
    left = iter(x.shape)
    return [_reshaped(write, x, tuple(1 if at in at_one else next(left) for at in range(count)))]


def concat(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Side by side along an axis."""
    return [write.apply("concat", *node.given(), axis=int(node.attribute("axis", 0)))]


def part(write: Writer, x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    """Return a part of one axis."""
    starts, stops = [0] * len(x.shape), list(x.shape)
    starts[axis], stops[axis] = start, stop
    return write.apply("slice", x, starts=tuple(starts), stops=tuple(stops))


def split(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Parts along an axis: of given sizes, or as many equal ones as there are outputs."""
    x = node.input(0)
    (axis,) = rules.axes_of(int(node.attribute("axis", 0)), len(x.shape))
    sizes = node.numbers("split", 1)
    if sizes is None:
        count = int(node.attribute("num_outputs", len(node.proto.output)))
        if count < 1:
            raise Unsupported(f"{count} outputs")
        each = -(-x.shape[axis] // count)
        sizes = [min(each, x.shape[axis] - at * each) for at in range(count)]
    if min(sizes, default=-1) < 0 or sum(sizes) != x.shape[axis] or len(sizes) != len(node.proto.output):
        raise Unsupported(f"sizes {sizes} do not split axis {axis} of {x.shape} into {len(node.proto.output)} parts")
    ends = [0, *accumulate(sizes)]
    return [part(write, x, axis, low, high) for low, high in pairwise(ends)]


def slice_(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Parts of axes; backwards only where the numbers are known."""
    x = node.input(0)
    starts, ends = node.numbers("starts", 1), node.numbers("ends", 2)
    if starts is None or ends is None or len(starts) != len(ends):
        raise Unsupported(f"starts {starts} and ends {ends} do not belong together")
    axes = rules.axes_of(tuple(node.numbers("axes", 3, list(range(len(starts)))) or ()), len(x.shape))
    steps = node.numbers("steps", 4, [1] * len(starts)) or []
    if not len(starts) == len(axes) == len(steps) or 0 in steps:
        raise Unsupported(f"starts {starts}, axes {axes} and steps {steps} do not belong together")
    parts = [slice(None)] * len(x.shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        # An end before the beginning is what NumPy calls None.
        stop = None if step < 0 and end < -x.shape[axis] else end
        parts[axis] = slice(start, stop, step)
    if any(step < 0 for step in steps):
        return [write.fold(lambda data: np.ascontiguousarray(data[tuple(parts)]), x)]
    found = [one.indices(length) for one, length in zip(parts, x.shape, strict=True)]
    lows, highs, strides = (tuple(column) for column in zip(*found, strict=True))
    if lows == (0,) * len(lows) and highs == x.shape and set(strides) <= {1}:
        return [x]
    return [write.apply("slice", x, starts=lows, stops=tuple(map(max, highs, lows)), steps=strides)]


def gather(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Entries along an axis: one that is known is a view, others are copied."""
    x, where = node.input(0), node.input(1)
    (axis,) = rules.axes_of(int(node.attribute("axis", 0)), len(x.shape))
    data, length = where.value.data, x.shape[axis]
    if data is not None and data.size and not (-length <= data.min() and data.max() < length):
        raise Unsupported(f"indices from {data.min()} to {data.max()} of an axis of {length}")
    if data is not None and data.ndim == 0:
        at = int(data) % length
        return [_reshaped(write, part(write, x, axis, at, at + 1), x.shape[:axis] + x.shape[axis + 1 :])]
    return [write.apply("gather", x, where, axis=axis)]


def expand(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Repeat axes of length one; sizes of one keep what is there."""
    x = node.input(0)
    wanted = tuple(int(one) for one in known(node.input(1), "shape").reshape(-1))
    target = np.broadcast_shapes(x.shape, wanted)
    return [x if target == x.shape else write.apply("broadcast", x, shape=target)]


def constant_of_shape(write: Writer, node: OnnxNode) -> list[Tensor]:
    """One number, repeated."""
    wanted = rules.shape_of(known(node.input(0), "shape").reshape(-1).tolist())
    number = np.asarray(node.attribute("value", np.zeros(1, np.float32))).reshape(-1)
    if number.size != 1 or math.prod(wanted) > MOST_FOLDED:
        raise Unsupported(f"{number.size} numbers for shape {wanted}")
    return [write.made(np.full(wanted, number[0]))]


def range_(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Numbers at equal steps."""
    start, limit, delta = (known(node.input(at), "a limit").reshape(()) for at in range(3))
    if delta == 0 or not abs((float(limit) - float(start)) / float(delta)) <= MOST_FOLDED:
        raise Unsupported(f"a range from {start} to {limit} by {delta}")
    numbers: Array = np.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)
    return [write.made(numbers)]


TABLE: dict[str, Emit] = {
    "Constant": constant, "Shape": shape, "Size": size, "Reshape": reshape, "Transpose": transpose, "Flatten": flatten,
    "Squeeze": squeeze, "Unsqueeze": unsqueeze, "Concat": concat, "Split": split, "Slice": slice_, "Gather": gather,
    "Expand": expand, "ConstantOfShape": constant_of_shape, "Range": range_,
}  # fmt: skip
