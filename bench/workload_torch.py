"""The workloads as a PyTorch user writes them: eager, with its fused attention, and compiled."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from peers import Bound, Unsupported
from workload_cases import Workload
from workload_data import Mha, Mlp
from workload_peers import bound

Tensor = Any


def _tensor(work: Workload, x: np.ndarray) -> Tensor:
    if work.dtype == "bfloat16":
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)


def _array(c: Tensor) -> np.ndarray:
    if c.is_quantized:
        c = c.int_repr()
    if c.dtype == torch.bfloat16:
        bits: np.ndarray = c.view(torch.int16).numpy().view(np.uint16)
        return bits
    plain: np.ndarray = c.numpy()
    return plain


class _Perceptron(torch.nn.Module):
    def __init__(self, work: Workload, data: Mlp) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList()
        for layer in data.layers:
            made = torch.nn.Linear(*layer.weight.shape)
            made.weight = torch.nn.Parameter(_tensor(work, layer.weight).T.contiguous(), requires_grad=False)
            made.bias = torch.nn.Parameter(_tensor(work, layer.bias), requires_grad=False)
            self.layers.append(made)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = F.relu(layer(x))
        return x


class _Attention(torch.nn.Module):
    def __init__(self, work: Workload) -> None:
        super().__init__()
        self.scale = work.head**0.5

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        scores = torch.matmul(q, k.transpose(-1, -2)) / self.scale + mask
        return torch.matmul(torch.softmax(scores, -1), v).transpose(1, 2).contiguous()


class _Fused(torch.nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).contiguous()


def _arguments(work: Workload, data: Mlp | Mha) -> tuple[Tensor, ...]:
    if isinstance(data, Mlp):
        return (_tensor(work, data.x),)
    return tuple(_tensor(work, x) for x in data[:4])


def eager(work: Workload, data: Mlp | Mha) -> Bound:
    """Return the network in eager mode."""
    if work.dtype == "int8":
        return _quantized_mlp(data) if isinstance(data, Mlp) else _quantized_mha(work, data)
    module = (_Perceptron(work, data) if isinstance(data, Mlp) else _Attention(work)).eval()
    arguments = _arguments(work, data)
    return bound(lambda: module(*arguments), _array, arguments)


def fused(work: Workload, data: Mlp | Mha) -> Bound:
    """Return attention by `scaled_dot_product_attention`."""
    if isinstance(data, Mlp):
        raise Unsupported("there is no attention in a perceptron")
    if work.dtype == "int8":
        raise Unsupported("the int8 network of 'torch' has it already")
    module, arguments = _Fused().eval(), _arguments(work, data)
    return bound(lambda: module(*arguments), _array, arguments)


def compiled(work: Workload, data: Mlp | Mha) -> Bound:
    """Return the network through torch.compile, its weights constants."""
    if work.dtype == "int8":
        raise Unsupported("torch.compile takes quantised networks from torchao's export only")
    # Compile here, not in a pool of processes that would outlive this one.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    import torch._inductor.config as settings

    # Weights are frozen only where no gradient could be asked for.
    settings.freezing = True
    torch.set_grad_enabled(False)
    torch._dynamo.reset()
    module = (_Perceptron(work, data) if isinstance(data, Mlp) else _Fused()).eval()
    arguments = _arguments(work, data)
    ready = torch.compile(module)
    ready(*arguments)
    return bound(lambda: ready(*arguments), _array, arguments)


def _quantized_mlp(data: Mlp) -> Bound:
    x = torch._make_per_tensor_quantized_tensor(torch.from_numpy(data.x), data.scale.scale, data.scale.zero)
    steps = []
    for layer in data.layers:
        weight = torch.from_numpy(np.ascontiguousarray(layer.weight.T))
        scales = torch.from_numpy(layer.scales.astype(np.float64))
        zeros = torch.zeros(len(layer.scales), dtype=torch.int64)
        quantised = torch._make_per_channel_quantized_tensor(weight, scales, zeros, 0)
        packed = torch.ops.quantized.linear_prepack(quantised, torch.from_numpy(layer.bias))
        steps.append((packed, layer.out.scale, layer.out.zero))
    linear_relu: Callable[..., Tensor] = torch.ops.quantized.linear_relu

    def run() -> Tensor:
        h = x
        for packed, scale, zero in steps:
            h = linear_relu(h, packed, scale, zero)
        return h

    return bound(run, _array)


def _quantized_mha(work: Workload, data: Mha) -> Bound:
    # PyTorch has no product of two quantised stacks on CPUs.  bfloat16 holds bytes exactly and its fused attention is
    # the fastest that PyTorch has, so bytes go there and back.
    q, k, v = (torch.from_numpy(x) for x in data[:3])
    mask = torch.from_numpy(data.mask).to(torch.bfloat16)
    q_scale, k_scale, v_scale, _, out_scale = data.scales
    factor, back = q_scale * k_scale / work.head**0.5, v_scale / out_scale

    def run() -> Tensor:
        real = F.scaled_dot_product_attention(
            q.to(torch.bfloat16), k.to(torch.bfloat16), v.to(torch.bfloat16), attn_mask=mask, scale=factor
        )
        scaled = (real.transpose(1, 2) * back).round_().clamp_(-128, 127)
        return scaled.to(torch.int8, memory_format=torch.contiguous_format)

    return bound(run, _array)
