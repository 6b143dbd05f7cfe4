"""The workloads as graphs of fastgemm: written by hand, compiled with more or fewer passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import peers
from peers import Availability, Bound, Unsupported
from workload_cases import Workload
from workload_peers import Network, bound

if TYPE_CHECKING:
    import numpy as np
    from workload_data import Mha, Mlp

    from fastgemm.graph import Builder, Graph, Tensor


def graph(work: Workload, data: Mlp | Mha) -> tuple[Graph, dict[str, np.ndarray]]:
    """Return a workload as a graph, and its inputs."""
    from fastgemm.graph import Builder

    build = Builder(work.label)
    made = _perceptron(build, work, data) if work.kind == "mlp" else _attention(build, work, data)
    return build.graph(), made


def _loaded(work: Workload, x: np.ndarray) -> np.ndarray:
    if work.dtype != "bfloat16":
        return x
    import ml_dtypes

    return x.view(ml_dtypes.bfloat16)


def _perceptron(build: Builder, work: Workload, data: Mlp) -> dict[str, np.ndarray]:
    import numpy as np

    given = {"x": _loaded(work, data.x)}
    h, now = build.input("x", given["x"].shape, given["x"].dtype), data.scale
    for layer in data.layers:
        if work.dtype == "int8":
            real = build.dequantize(h, np.float32(now.scale), np.uint8(now.zero))
            weight = build.dequantize(layer.weight, layer.scales, np.zeros(len(layer.scales), np.int8), axis=-1)
            h = build.relu(real @ weight + layer.bias)
            now = layer.out
            h = build.quantize(h, np.float32(now.scale), np.uint8(now.zero))
        else:
            h = build.relu(h @ _loaded(work, layer.weight) + _loaded(work, layer.bias))
    build.output(h, "y")
    return given


def _attention(build: Builder, work: Workload, data: Mha) -> dict[str, np.ndarray]:
    import numpy as np

    given = {
        name: _loaded(work, x) if x.dtype == np.uint16 else x
        for name, x in zip(("q", "k", "v", "mask"), data[:4], strict=True)
    }
    q, k, v, mask = (build.input(name, x.shape, x.dtype) for name, x in given.items())
    if data.scales is not None:
        q, k, v = (_real(build, x, scale) for x, scale in zip((q, k, v), data.scales, strict=False))
    p = build.softmax(q @ k.T / work.head**0.5 + mask)
    if data.scales is not None:
        step = np.float32(data.scales[3])
        p = build.dequantize(build.quantize(p, step, np.uint8(0)), step, np.uint8(0))
    out = p @ v
    if data.scales is not None:
        out = build.quantize(out, np.float32(data.scales[4]), np.int8(0))
    build.output(out.transpose(0, 2, 1, 3), "y")
    return given


def _real(build: Builder, x: Tensor, scale: float) -> Tensor:
    import numpy as np

    return build.dequantize(x, np.float32(scale), np.int8(0))


def bits(made: Any) -> np.ndarray:
    """Return a result as `workload_data.check` takes it."""
    import numpy as np

    found: np.ndarray = made.view(np.uint16) if made.dtype.name == "bfloat16" else made
    return found


class FastGemm(Network):
    """A compiled graph with every pass."""

    name = "fastgemm"
    summary = "fastgemm.graph.compile: every pass"
    fusion: ClassVar[str] = "full"

    def available(self, threads: int) -> Availability:
        """As for products."""
        return peers.FastGemm().available(threads)

    def network(self, work: Workload, data: Mlp | Mha) -> Bound:
        """Compile it once; a call makes a fresh output."""
        from fastgemm.graph import GraphError, compile

        try:
            written, given = graph(work, data)
            ready = compile(written, fusion=self.fusion)
        except GraphError as error:
            raise Unsupported(str(error)) from error

        return bound(lambda: ready(given), bits)


class FastGemmFine(FastGemm):
    """A compiled graph whose products run one after another, what follows each fused into it."""

    name = "fastgemm-fine"
    summary = "the same without coarse fusion"
    fusion: ClassVar[str] = "fine"


class FastGemmNone(FastGemm):
    """A compiled graph whose operations run one by one, in planned buffers."""

    name = "fastgemm-none"
    summary = "the same without fusion: every operation by itself"
    fusion: ClassVar[str] = "none"


VARIANTS: tuple[type[Network], ...] = (FastGemm, FastGemmFine, FastGemmNone)
