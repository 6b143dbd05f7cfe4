"""Attention of the domain com.microsoft: queries, keys and values of many heads, and what their scores make of them."""

from __future__ import annotations

import math

import numpy as np

from . import rules
from .builder import Tensor
from .onnx_contrib import added, parts
from .onnx_contrib_bytes import scaled_sums
from .onnx_nodes import Emit
from .onnx_shapes import part
from .onnx_writer import OnnxNode, Unsupported, Writer

# One that says which keys are hidden, and one that is added to scores as it is.
_Masks = tuple[Tensor | None, Tensor | None]


def attention(write: Writer, node: OnnxNode) -> list[Tensor]:
    """Attention: one product makes queries, keys and values."""
    _refuse(node, ("do_rotary", "past_present_share_buffer"), {6: "past_sequence_length"})
    made = write.apply("matmul", node.input(0), write.matrix(node.input(1)))
    made = added(write, made, node.optional(2))
    return _of_one(write, node, made, (node.optional(3), node.optional(5)), node.optional(4))


def quantised_attention(write: Writer, node: OnnxNode) -> list[Tensor]:
    """QAttention: the product is one of bytes."""
    _refuse(node, ("do_rotary", "past_present_share_buffer"), {})
    scales, zeros = (node.input(3), node.input(4)), (node.optional(6), node.optional(7))
    made = scaled_sums(write, (node.input(0), node.input(1)), scales, zeros, node.input(2))
    return _of_one(write, node, made, (node.optional(5), None), node.optional(8))


def multi_head_attention(write: Writer, node: OnnxNode) -> list[Tensor]:
    """MultiHeadAttention: queries, keys and values by themselves, or two or three of them in one operand."""
    _refuse(node, (), {8: "past_sequence_length", 9: "cache_indirection"})
    if len(node.proto.output) > 3 and node.proto.output[3]:
        raise Unsupported("its scores are read")
    queries, keys, values = _operands(write, node)
    past_keys, past_values = node.optional(6), node.optional(7)
    operands = queries, _behind(write, past_keys, keys), _behind(write, past_values, values)
    past = 0 if past_keys is None else past_keys.shape[2]
    return [_attend(write, node, operands, past, (node.optional(4), node.optional(5))), *operands[1:]]


def _refuse(node: OnnxNode, attributes: tuple[str, ...], operands: dict[int, str]) -> None:
    asked = [name for name in attributes if node.attribute(name, 0)]
    asked += [name for at, name in operands.items() if node.optional(at) is not None]
    if asked:
        raise Unsupported(f"it has {asked[0]}")


def _operands(write: Writer, node: OnnxNode) -> tuple[Tensor, ...]:
    """Return queries, keys and values, heads apart."""
    count = _count(node)
    query, key, value, bias = node.input(0), *(node.optional(at) for at in (1, 2, 3))
    packed = query if key is None else key
    if len(packed.shape) == 5 and value is None and bias is None:
        found = _unpacked(write, packed, 3 if key is None else 2)
        if key is not None:
            found.insert(0, _heads(write, query, count))
        return tuple(found)
    if key is None or value is None:
        raise Unsupported("queries, keys and values are neither apart nor in one operand of five axes")
    # Keys and values that were made before have their heads apart, and their bias.
    given = [(query, False), (key, len(key.shape) == 4), (value, len(value.shape) == 4)]
    terms: list[Tensor | None] = [None] * 3
    if bias is not None:
        sizes = [one.shape[1] * one.shape[3] if ready else one.shape[-1] for one, ready in given]
        terms = list(parts(write, bias, sizes))
    return tuple(
        one if ready else _heads(write, added(write, one, term), count)
        for (one, ready), term in zip(given, terms, strict=True)
    )


def _unpacked(write: Writer, packed: Tensor, count: int) -> list[Tensor]:
    """Return what lies side by side for each head."""
    items, rows, heads, there, size = packed.shape
    if there != count:
        raise Unsupported(f"{there} operands in one, not {count}")
    found = []
    for at in range(count):
        one = write.apply("reshape", part(write, packed, 3, at, at + 1), shape=(items, rows, heads, size))
        found.append(write.apply("transpose", one, perm=(0, 2, 1, 3)))
    return found


def _count(node: OnnxNode) -> int:
    return int(node.attribute("num_heads", 0))


def _heads(write: Writer, x: Tensor, count: int) -> Tensor:
    """Return rows of many heads as a stack of matrices."""
    if len(x.shape) != 3 or count < 1 or x.shape[2] % count:
        raise Unsupported(f"an operand of shape {x.shape} has no {count} heads")
    items, rows, size = x.shape
    apart = write.apply("reshape", x, shape=(items, rows, count, size // count))
    return write.apply("transpose", apart, perm=(0, 2, 1, 3))


def _behind(write: Writer, past: Tensor | None, x: Tensor) -> Tensor:
    return x if past is None else write.apply("concat", past, x, axis=2)


def _of_one(write: Writer, node: OnnxNode, made: Tensor, masks: _Masks, past: Tensor | None) -> list[Tensor]:
    """Return attention of queries, keys and values side by side, and keys and values for a later call."""
    sizes = node.attribute("qkv_hidden_sizes") or [made.shape[-1] // 3] * 3
    if len(sizes) != 3:
        raise Unsupported(f"qkv_hidden_sizes={sizes}")
    queries, keys, values = (_heads(write, one, _count(node)) for one in parts(write, made, sizes))
    if past is not None:
        if len(past.shape) != 5 or past.shape[0] != 2:
            raise Unsupported(f"keys and values of shape {past.shape} from before")
        before = [write.apply("reshape", part(write, past, 0, at, at + 1), shape=past.shape[1:]) for at in (0, 1)]
        keys, values = _behind(write, before[0], keys), _behind(write, before[1], values)
    result = _attend(write, node, (queries, keys, values), 0 if past is None else past.shape[3], masks)
    if len(node.used) == 1:
        return [result]
    both = [write.apply("reshape", one, shape=(1, *one.shape)) for one in (keys, values)]
    return [result, write.apply("concat", *both, axis=0)]


def _attend(write: Writer, node: OnnxNode, operands: tuple[Tensor, ...], past: int, masks: _Masks) -> Tensor:
    """Return means of the values by the softmax of scores, heads side by side; so many keys are older than queries."""
    queries, keys, values = operands
    items, _, rows, size = queries.shape
    scores = write.apply("matmul", queries, write.apply("transpose", keys, perm=(0, 1, 3, 2)))
    # (Zero is the default.)
    scale = float(node.attribute("scale", 0.0)) or 1 / math.sqrt(size)
    scores = write.apply("mul", scores, write.like(scale, scores))
    hidden, given = masks
    found = (given, _padding(write, node, scores, hidden), _causal(write, node, scores, past))
    terms = [one for one in found if one is not None]
    if terms:
        term = added(write, *terms)
        if rules.together([term.shape, scores.shape]) != scores.shape:
            raise Unsupported(f"masks of shape {term.shape} for scores of shape {scores.shape}")
        scores = added(write, scores, term)
    made = write.apply("matmul", write.apply("softmax", scores, axis=-1), values)
    beside = write.apply("transpose", made, perm=(0, 2, 1, 3))
    return write.apply("reshape", beside, shape=(items, rows, made.shape[1] * made.shape[3]))


def _causal(write: Writer, node: OnnxNode, scores: Tensor, past: int) -> Tensor | None:
    """Return what is added to scores of later keys than the query itself."""
    if node.attribute("unidirectional", 0) != 1:
        return None
    rows, keys = scores.shape[-2:]
    if keys != past + rows:
        raise Unsupported(f"unidirectional attention of {rows} queries to {keys} keys")
    later = np.arange(keys) > past + np.arange(rows)[:, None]
    return write.made(np.where(later, -np.inf, 0).astype(scores.dtype))


def _padding(write: Writer, node: OnnxNode, scores: Tensor, mask: Tensor | None) -> Tensor | None:
    """Return what is added to scores of hidden keys: a mask has zeros for them, or says where others end and begin."""
    if mask is None:
        return None
    items, _, rows, keys = scores.shape
    shape = mask.shape
    if shape == (items, keys):
        seen = write.apply("reshape", mask, shape=(items, 1, 1, keys))
    elif shape == (items, rows, keys):
        seen = write.apply("reshape", mask, shape=(items, 1, rows, keys))
    elif shape in ((items,), (2 * items,)):
        places, zero = write.constant(np.arange(keys, dtype=mask.dtype)), write.like(0, mask)
        ends, *begins = (
            write.apply("reshape", part(write, mask, 0, at, at + items), shape=(items, 1, 1, 1))
            for at in range(0, shape[0], items)
        )
        # Above zero where a place is before the end, and not before the beginning.
        seen = write.apply("maximum", write.apply("sub", ends, places), zero)
        for begin in begins:
            after = write.apply("sub", write.apply("add", places, write.like(1, mask)), begin)
            seen = write.apply("minimum", seen, write.apply("maximum", after, zero))
    else:
        raise Unsupported(f"a mask of shape {shape} for scores of shape {scores.shape}")
    return write.apply("where", write.cast(seen, np.dtype(bool)), write.like(0, scores), _hiding(write, node, scores))


def _hiding(write: Writer, node: OnnxNode, scores: Tensor) -> Tensor:
    """Return the number that hides a key; a finite one stays so in the scores' type: all keys may be hidden."""
    number = float(node.attribute("mask_filter_value", -10000.0))
    least = np.nextafter(rules.number_of(-np.inf, scores.dtype), rules.number_of(0, scores.dtype))
    return write.like(max(number, float(least)), scores)


TABLE: dict[str, Emit] = {
    "Attention": attention, "MultiHeadAttention": multi_head_attention, "QAttention": quantised_attention,
}  # fmt: skip
