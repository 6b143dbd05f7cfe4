"""The workloads step by step in NumPy, around a product that is given: nothing is fused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from peers import Bound, as_is
from workload_cases import Workload
from workload_data import Mha, Mlp, from_bits, to_bits
from workload_peers import bound

Array = NDArray[Any]
Product = Callable[..., Array]


def bind(work: Workload, data: Mlp | Mha, product: Product, integers: Product | None) -> Bound:
    """Return a workload of single steps.

    Parameters
    ----------
    product : callable
        ``product(a, b, out=None)`` of floats.
    integers : callable, optional
        ``integers(a, b, a_zero_point)`` of bytes, int32; without it bytes are multiplied as float32, which is exact
        below 2**24: 500 products of bytes; above that as float64.  Constant weights are converted once, beforehand.
    """
    if work.dtype == "bfloat16":
        native = _native_bfloat16(product)
        if native is None:
            return _float(work, data, product, from_bits, to_bits)
        # Of halves it gives the sums in float32 unless it is told otherwise.
        return _float(work, data, lambda a, b: product(a, b, dtype=a.dtype), native, lambda x: x.view(np.uint16))
    if work.dtype == "int8":
        return _mlp_bytes(data, product, integers) if isinstance(data, Mlp) else _mha_bytes(data, product, integers)
    return _float(work, data, product, as_is, as_is)


def _native_bfloat16(product: Product) -> Callable[[Array], Array] | None:
    # NumPy multiplies ml_dtypes' bfloat16 without a BLAS, 200 times slower than float32: only ours takes it as it is.
    if product is np.matmul:
        return None
    try:
        import ml_dtypes
    except ImportError:
        return None
    return lambda bits: bits.view(ml_dtypes.bfloat16)


def _float(
    work: Workload, data: Mlp | Mha, product: Product, load: Callable[[Array], Array], back: Callable[[Array], Array]
) -> Bound:
    if isinstance(data, Mlp):
        x = load(data.x)
        layers = [(load(layer.weight), load(layer.bias)) for layer in data.layers]

        def mlp() -> Array:
            h = x
            for weight, bias in layers:
                h = product(h, weight)
                h += bias
                np.maximum(h, 0, out=h)
            return h

        return bound(mlp, back)
    q, k, v, mask = (load(part) for part in data[:4])
    keys, scale = k.swapaxes(-1, -2), q.dtype.type(work.head**0.5)

    def mha() -> Array:
        scores = product(q, keys)
        scores /= scale
        scores += mask
        _softmax(scores)
        return np.ascontiguousarray(product(scores, v).swapaxes(1, 2))

    return bound(mha, back)


def _softmax(x: Array) -> None:
    x -= x.max(axis=-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=-1, keepdims=True)


def _exact(product: Product, k: int) -> tuple[Product, type[np.floating[Any]]]:
    # The largest sum of a row of bytes is k * 255 * 127.
    kind: type[np.floating[Any]] = np.float32 if k * 255 * 127 < 1 << 24 else np.float64

    def run(a: Array, b: Array, zero: int) -> Array:
        left = a.astype(kind)
        left -= zero
        return product(left, b.astype(kind, copy=False))

    return run, kind


def _quantised(real: Array, scale: float, zero: int, kind: type[np.unsignedinteger] | type[np.signedinteger]) -> Array:
    real /= np.float32(scale)
    np.rint(real, out=real)
    real += zero
    limits = np.iinfo(kind)
    return np.clip(real, limits.min, limits.max, out=real).astype(kind)


def _mlp_bytes(data: Mlp, product: Product, integers: Product | None) -> Bound:
    assert data.scale is not None
    steps, now = [], data.scale
    for layer in data.layers:
        assert layer.scales is not None
        assert layer.out is not None
        multiply, weight = integers, layer.weight
        if multiply is None:
            multiply, kind = _exact(product, len(weight))
            weight = weight.astype(kind)
        scales = layer.scales * np.float32(now.scale)
        steps.append((multiply, weight, np.uint8(now.zero), scales, layer.bias, layer.out))
        now = layer.out

    def mlp() -> Array:
        h = data.x
        for multiply, weight, zero, scales, bias, out in steps:
            real = multiply(h, weight, zero).astype(np.float32)
            real *= scales
            real += bias
            np.maximum(real, 0, out=real)
            h = _quantised(real, out.scale, out.zero, np.uint8)
        return h

    return bound(mlp)


def _mha_bytes(data: Mha, product: Product, integers: Product | None) -> Bound:
    assert data.scales is not None
    q_scale, k_scale, v_scale, p_scale, out_scale = data.scales
    head, length = data.q.shape[-1], data.q.shape[-2]
    first = integers or _exact(product, head)[0]
    second = integers or _exact(product, length)[0]
    keys, factor = data.k.swapaxes(-1, -2), np.float32(q_scale * k_scale / head**0.5)

    def mha() -> Array:
        scores = first(data.q, keys, 0).astype(np.float32)
        scores *= factor
        scores += data.mask
        _softmax(scores)
        p = _quantised(scores, p_scale, 0, np.uint8)
        real = second(p, data.v, 0).astype(np.float32)
        real *= np.float32(p_scale * v_scale)
        return np.ascontiguousarray(_quantised(real, out_scale, 0, np.int8).swapaxes(1, 2))

    return bound(mha)
