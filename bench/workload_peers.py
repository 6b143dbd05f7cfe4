"""Networks bound to libraries: what a user of each would write.

One class a way of computing; `Network.network` turns operands into a call that computes the result anew.  As in
`peers`, nothing is imported at the top.  Weights are constants: whatever a library wants to do to them once (transpose,
pack, compile) is done before the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import peers
from peers import Availability, Bound, Library, Unsupported
from workload_cases import Workload

if TYPE_CHECKING:
    from workload_data import Mha, Mlp


class Network(Library):
    """A library that computes networks; subclasses say how."""

    def network(self, work: Workload, data: Mlp | Mha) -> Bound:
        """Return the bound network: ``call(None, None)`` computes it."""
        raise NotImplementedError


def bound(run: Callable[[], Any], array: Callable[[Any], Any] = peers.as_is, keep: Any = None) -> Bound:
    """Return a call without operands in the form of a product's."""
    return Bound(lambda a, b: run(), None, None, array, keep)


class NumPyNetwork(Network):
    """NumPy's own functions, temporaries reused where NumPy can."""

    name = "numpy"
    summary = "np.matmul and NumPy's elementwise functions"
    available = peers.NumPy.available

    def network(self, work: Workload, data: Mlp | Mha) -> Bound:
        """Products by `np.matmul`; bfloat16 by way of float32, bytes by way of float32 where that is exact."""
        import numpy as np
        import workload_steps

        return workload_steps.bind(work, data, np.matmul, None)


class FastGemmSteps(Network):
    """fastgemm's products one by one, NumPy in between: nothing fused."""

    name = "fastgemm-steps"
    summary = "fastgemm.matmul and NumPy's elementwise functions: no fusion"
    available = peers.FastGemm.available

    def network(self, work: Workload, data: Mlp | Mha) -> Bound:
        """Products by `fastgemm.matmul`, bytes by `matmul_integer`."""
        import workload_steps

        import fastgemm

        return workload_steps.bind(work, data, fastgemm.matmul, fastgemm.matmul_integer)


class TorchNetwork(Network):
    """PyTorch, one operator after another."""

    name = "torch"
    summary = "PyTorch eager: F.linear and relu; matmul, softmax, matmul; quantized.linear_relu"
    available = peers.Torch.available

    def network(self, work: Workload, data: Mlp | Mha) -> Bound:
        """The modules that a PyTorch user would write."""
        import workload_torch

        return workload_torch.eager(work, data)


class TorchFused(TorchNetwork):
    """PyTorch's own fused attention."""

    name = "torch-sdpa"
    summary = "PyTorch's scaled_dot_product_attention (attention only)"

    def network(self, work: Workload, data: Mlp | Mha) -> Bound:
        """Attention in one operator."""
        import workload_torch

        return workload_torch.fused(work, data)


class TorchCompiled(TorchNetwork):
    """PyTorch's compiler, weights frozen."""

    name = "torch-compile"
    summary = "torch.compile with frozen weights (needs a C++ compiler)"

    def network(self, work: Workload, data: Mlp | Mha) -> Bound:
        """The eager network through torch.compile."""
        import workload_torch

        return workload_torch.compiled(work, data)


def libraries() -> dict[str, type[Network]]:
    """Every way of computing a network, by name."""
    from workload_graph import VARIANTS
    from workload_onednn import OneDnnNetwork

    plain = (FastGemmSteps, NumPyNetwork, TorchNetwork, TorchFused, TorchCompiled, OneDnnNetwork)
    return {cls.name: cls for cls in (*VARIANTS, *plain)}


__all__ = ["Availability", "Network", "Unsupported", "bound", "libraries"]
