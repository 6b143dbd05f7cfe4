"""The networks that `workloads.py` times: two multilayer perceptrons and four attention blocks.

They are the workloads of oneDNN Graph Compiler (arXiv 2301.01333): every layer of the perceptrons is a product, a bias
and relu; an attention block is a product, a division, a mask, a softmax, a product and a transpose.  Standard library
only: the coordinating process never imports NumPy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

DTYPES = ("float32", "bfloat16", "int8")
# And what is timed where it is named: few CPUs multiply it by itself.
MORE_DTYPES = ("float16",)
BATCHES = (32, 64, 128, 256, 512)
# Attention's own batches are 32, 64 and 128, for 32 cores; one of them takes 34 GFLOP and 537 MB of scores (MHA_4).
MHA_BATCHES = (8, 32)


@dataclass(frozen=True, slots=True)
class Workload:
    """A network at a batch size in one dtype.

    ``kind`` is ``mlp``, whose `sizes` are the features from layer to layer, or ``mha``, whose `sizes` are the length of
    the sequence, the features of a token and the number of heads.

    Examples
    --------
    >>> Workload("MLP_1", "mlp", (13, 512, 256, 128), 32, "float32").label
    'MLP_1 batch 32 float32'
    >>> Workload("MHA_2", "mha", (128, 768, 12), 8, "float32").head
    64
    """

    name: str
    kind: str
    sizes: tuple[int, ...]
    batch: int
    dtype: str
    threads: int = 1

    @property
    def label(self) -> str:
        """Name, batch and dtype."""
        return f"{self.name} batch {self.batch} {self.dtype}"

    @property
    def group(self) -> str:
        """What means are taken over: the kind and the dtype."""
        return f"{self.kind.upper()} {self.dtype}"

    @property
    def layers(self) -> tuple[tuple[int, int], ...]:
        """Features in and out of every layer of a perceptron."""
        return tuple(pairwise(self.sizes))

    @property
    def head(self) -> int:
        """Features of one head of an attention block."""
        return self.sizes[1] // self.sizes[2]

    @property
    def flops(self) -> int:
        """Operations of the products; what surrounds them is not counted."""
        if self.kind == "mlp":
            return 2 * self.batch * sum(k * n for k, n in self.layers)
        length, features, _ = self.sizes
        return 4 * self.batch * length * length * features

    def replace(self, **changes: Any) -> Workload:
        """Return a copy with some fields changed."""
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return asdict(self)


def from_dict(fields: dict[str, Any]) -> Workload:
    """Return the workload that `Workload.to_dict` took apart."""
    return Workload(**{**fields, "sizes": tuple(fields["sizes"])})


NETWORKS = {
    "MLP_1": ("mlp", (13, 512, 256, 128)),
    "MLP_2": ("mlp", (479, 1024, 1024, 512, 256, 1)),
    "MHA_1": ("mha", (128, 768, 8)),
    "MHA_2": ("mha", (128, 768, 12)),
    "MHA_3": ("mha", (384, 1024, 8)),
    "MHA_4": ("mha", (512, 1024, 16)),
}
# And of our own, for long texts: whose scores, and at last whose keys, no L2 holds.  Run where they are named.
LONG = {
    "MHA_1024": ("mha", (1024, 1024, 16)),
    "MHA_2048": ("mha", (2048, 512, 8)),
    "MHA_4096": ("mha", (4096, 256, 4)),
    "MHA_8192": ("mha", (8192, 128, 2)),
}
ALL = {**NETWORKS, **LONG}


def chosen(
    names: Iterable[str] = tuple(NETWORKS), dtypes: Iterable[str] = DTYPES, batches: Sequence[int] = ()
) -> list[Workload]:
    """Return the workloads of some networks and dtypes, at given batches or at those of each kind.

    Examples
    --------
    >>> [one.batch for one in chosen(["MHA_1"], ["int8"])]
    [8, 32]
    """
    found = []
    for dtype in dtypes:
        for name in names:
            kind, sizes = ALL[name]
            own = BATCHES if kind == "mlp" else (1,) if name in LONG else MHA_BATCHES
            for batch in batches or own:
                found.append(Workload(name, kind, sizes, batch, dtype))
    return found
