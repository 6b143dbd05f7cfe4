"""Operands of the workloads, what NumPy says the results are, and how far a result may be from that.

bfloat16 is carried as its bits in uint16, so that an environment without ml_dtypes can be compared as well.  The checks
look at a few rows (every row of a result is independent of the others) and sum them in double precision without a
BLAS: no second thread pool starts in a timed process.

The bounds
----------
float32, bfloat16, float16
    A first-order error analysis of the very network: each sum of k products is within ``(8 + sqrt(k)) * 2**-23`` of the
    sum of their absolute values (`cases.check` has the same), each rounding to a half within `HALVES`, and errors
    pass on through the absolute values of the weights; through a softmax as ``exp(2 * error)``.
int8 perceptrons
    No level differs by more than 2, and at most 3 % of the levels differ at all (a rounding that falls the other way).
int8 attention
    One level, and six standard deviations of rounding the probabilities to bytes: a library may as well not round them.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from workload_cases import Workload

Array = NDArray[Any]
EPS = 2.0**-23
# What a half is rounded to.
HALVES = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
ROWS = 8
MASKED = -1e4
MOST_LEVELS, MOST_DIFFERENT = 2, 0.03


class Scale(NamedTuple):
    """What a byte stands for: ``scale * (byte - zero)``."""

    scale: float
    zero: int


class Layer(NamedTuple):
    """A layer of a perceptron: weight (in, out), bias, and in int8 the weight's scales and the output's scale."""

    weight: Array
    bias: Array
    scales: Array | None = None
    out: Scale | None = None


class Mlp(NamedTuple):
    """The operands of a perceptron."""

    x: Array
    layers: tuple[Layer, ...]
    scale: Scale | None = None


class Mha(NamedTuple):
    """The operands of an attention block: (batch, heads, length, head) each, a mask (batch, 1, 1, length) to add."""

    q: Array
    k: Array
    v: Array
    mask: Array
    scales: tuple[float, float, float, float, float] | None = None  # of q, k, v, the probabilities, the output


def to_bits(x: Array) -> Array:
    """Round float32 to bfloat16, ties to even, as bits."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + (0x7FFF + (bits >> 16 & 1))) >> 16).astype(np.uint16)


def from_bits(bits: Array) -> Array:
    """Return the float32 numbers of bfloat16 bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def operands(work: Workload, seed: int = 0) -> Mlp | Mha:
    """Make the operands of a workload; the same in every process."""
    rng = np.random.default_rng(seed)
    return _mlp(work, rng) if work.kind == "mlp" else _mha(work, rng)


def _stored(work: Workload, x: Array) -> Array:
    return to_bits(x) if work.dtype == "bfloat16" else np.asarray(x, "f2" if work.dtype == "float16" else "f4")


def _mlp(work: Workload, rng: np.random.Generator) -> Mlp:
    made = []
    if work.dtype != "int8":
        x = _stored(work, rng.standard_normal((work.batch, work.sizes[0]), np.float32))
        for k, n in work.layers:
            # He's initialisation keeps the numbers of every layer alike.
            weight = rng.standard_normal((k, n), np.float32) * np.float32((2 / k) ** 0.5)
            bias = rng.standard_normal(n, np.float32) * np.float32(0.1)
            made.append(Layer(_stored(work, weight), _stored(work, bias)))
        return Mlp(x, tuple(made))
    x = rng.integers(0, 256, (work.batch, work.sizes[0])).astype(np.uint8)
    scale = now = Scale(0.12, 2)
    some = (x[:ROWS].astype(np.float64) - now.zero) * now.scale
    for k, n in work.layers:
        weight = rng.integers(-127, 128, (k, n)).astype(np.int8)
        scales = (0.12 / k**0.5 / 73 * rng.uniform(0.5, 1.5, n)).astype(np.float32)
        bias = rng.standard_normal(n).astype(np.float32) * np.float32(some.std())
        # The range of the output is what a calibration would find; 5 % of head-room.
        some = np.maximum(np.einsum("ij,jk->ik", some, weight * scales.astype(np.float64)) + bias, 0)
        now = Scale(float(np.float32(max(some.max(), 1e-3) * 1.05 / 253)), 2)
        made.append(Layer(weight, bias, scales, now))
    return Mlp(x, tuple(made), scale)


def _mha(work: Workload, rng: np.random.Generator) -> Mha:
    length, _, heads = work.sizes
    shape = (work.batch, heads, length, work.head)
    # One draw of a head and batch for all, shifted along: 300 MB of normal numbers would take longer than timing them.
    pieces = [rng.standard_normal((length + 64, work.head), np.float32) for _ in range(3)]
    shifts = rng.integers(0, 64, (work.batch, heads))
    q, k, v = (np.empty(shape, np.float32) for _ in range(3))
    for at in np.ndindex(*shifts.shape):
        for whole, piece in zip((q, k, v), pieces, strict=True):
            whole[at] = piece[shifts[at] : shifts[at] + length]
    kept = length - rng.integers(0, length // 4, work.batch)
    mask = np.where(np.arange(length) < kept[:, None], 0, MASKED).astype(np.float32)[:, None, None, :]
    if work.dtype != "int8":
        return Mha(*(_stored(work, x) for x in (q, k, v, mask)))
    scales = [float(np.float32(np.abs(piece).max() / 127)) for piece in pieces]
    bytes_ = [np.rint(x / scale).astype(np.int8) for x, scale in zip((q, k, v), scales, strict=True)]
    found = Mha(*bytes_, mask, (*scales, 1.0, 1.0))
    most = [_attention(work, found, at) for at in _places(work)]
    probability = max(float(p.max()) for _, p, _ in most) / 255
    out = max(float(np.abs(o).max()) for *_, o in most) * 1.05 / 127
    return found._replace(scales=(*scales, float(np.float32(probability)), float(np.float32(out))))


def _places(work: Workload) -> list[tuple[int, int]]:
    return [(0, 0), (work.batch // 2, work.sizes[2] // 2), (work.batch - 1, work.sizes[2] - 1)]


def _real(work: Workload, x: Array, scale: float = 1.0) -> Array:
    return (from_bits(x) if work.dtype == "bfloat16" and x.dtype == np.uint16 else x).astype(np.float64) * scale


def _attention(work: Workload, data: Mha, at: tuple[int, int]) -> tuple[Array, Array, Array]:
    """Scores, probabilities and output of the first rows of one head, in double precision."""
    scales = data.scales or (1.0, 1.0, 1.0, 1.0, 1.0)
    q, k, v = (_real(work, x[at], scale) for x, scale in zip((data.q, data.k, data.v), scales, strict=False))
    scores = np.einsum("ij,kj->ik", q[:ROWS], k) / work.head**0.5 + _real(work, data.mask[at[0], 0])
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    p = powers / powers.sum(axis=1, keepdims=True)
    return scores, p, np.einsum("ij,jk->ik", p, v)


def digest(result: Array) -> str:
    """Return a short name of a result's bits, which is the same for equal bits."""
    return hashlib.blake2b(np.ascontiguousarray(result).view(np.uint8), digest_size=8).hexdigest()


def check(work: Workload, data: Mlp | Mha, result: Array) -> str | None:
    """Say what is wrong with a result; None when the rows looked at are within the bounds.

    `result` is (batch, features) or (batch, length, heads, head); float32, bits of bfloat16, or bytes.
    """
    shape = (work.batch, work.sizes[-1])
    if isinstance(data, Mha):
        shape = (work.batch, work.sizes[0], work.sizes[2], work.head)
    if result.shape != shape:
        return f"wrong shape {result.shape}, not {shape}"
    return _check_mlp(work, data, result) if isinstance(data, Mlp) else _check_mha(work, data, result)


def _sum_error(k: int) -> float:
    return EPS * min(8 + k**0.5, 256)


def _check_mlp(work: Workload, data: Mlp, result: Array) -> str | None:
    few = min(ROWS // 2, work.batch)
    rows = np.unique(np.r_[0:few, work.batch - few : work.batch])
    if work.dtype == "int8":
        return _check_bytes(data, result, rows)
    h = _real(work, data.x[rows])
    error = np.zeros_like(h)
    for layer in data.layers:
        weight, bias = _real(work, layer.weight), _real(work, layer.bias)
        size = np.abs(weight)
        z = np.einsum("ij,jk->ik", h, weight)
        mass = np.einsum("ij,jk->ik", np.abs(h), size) + np.abs(bias)
        error = np.einsum("ij,jk->ik", error, size) + _sum_error(len(weight)) * mass
        if work.dtype in HALVES:
            error += HALVES[work.dtype] * (np.abs(z) + np.abs(z + bias))
        h = np.maximum(z + bias, 0)
    return _outside(_real(work, result[rows]), h, error)


def _check_bytes(data: Mlp, result: Array, rows: Array) -> str | None:
    assert data.scale is not None
    level, now = data.x[rows].astype(np.int64), data.scale
    for layer in data.layers:
        assert layer.scales is not None
        assert layer.out is not None
        total = np.einsum("ij,jk->ik", level - now.zero, layer.weight.astype(np.int64))
        real = np.maximum(total * (now.scale * layer.scales.astype(np.float64)) + layer.bias, 0)
        now = layer.out
        level = np.clip(np.rint(real / now.scale) + now.zero, 0, 255).astype(np.int64)
    off = np.abs(result[rows].astype(np.int64) - level)
    if off.max() > MOST_LEVELS:
        return f"{off.max()} levels off"
    # One number of 8 rows is 3 % of a network with a single output.
    allowed = max(1, round(MOST_DIFFERENT * off.size))
    return f"{(off > 0).sum()} of {off.size} levels differ" if (off > 0).sum() > allowed else None


def _check_mha(work: Workload, data: Mha, result: Array) -> str | None:
    for at in _places(work):
        scores, p, want = _attention(work, data, at)
        got = result[at[0], :ROWS, at[1]]
        scales = data.scales or (1.0, 1.0, 1.0, 1.0, 1.0)
        v = _real(work, data.v[at], scales[2])
        if data.scales is not None:
            spread = scales[3] * np.sqrt((v**2).sum(axis=0) / 12)
            wrong = _outside(got * scales[4], want, scales[4] + 6 * spread[None, :])
        else:
            live = scores > MASKED / 2
            largest = np.abs(np.where(live, scores, 0)).max(axis=1, keepdims=True)
            q, k = np.abs(_real(work, data.q[at])[:ROWS]), np.abs(_real(work, data.k[at]))
            mass = np.einsum("ij,kj->ik", q, k).max(axis=1, keepdims=True) / work.head**0.5
            error = _sum_error(work.head) * mass + 3 * HALVES.get(work.dtype, EPS) * largest
            share = np.expm1(2 * error) + _sum_error(work.sizes[0]) + HALVES.get(work.dtype, 16 * EPS)
            bound = share * np.einsum("ij,jk->ik", p, np.abs(v))
            bound += HALVES.get(work.dtype, EPS) * np.abs(want)
            wrong = _outside(_real(work, got), want, bound)
        if wrong:
            return wrong
    return None


def _outside(got: Array, want: Array, bound: Array) -> str | None:
    over = ~(np.abs(got - want) <= bound)
    if not over.any():
        return None
    at = np.unravel_index(np.argmax(over), over.shape)
    where = tuple(int(i) for i in at)
    limit = np.broadcast_to(bound, over.shape)[at]
    return f"{got[at]} instead of {want[at]} at {where}: off by more than {limit:.3g}"
