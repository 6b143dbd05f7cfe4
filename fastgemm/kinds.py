"""What a kind of kernel is: its ISA tier, its family, its dot products inside a lane; registry.py has the rows."""

from __future__ import annotations

from typing import NamedTuple


class Isa(NamedTuple):
    """An x86-64 feature tier, named as the psABI names it.

    ``features`` are the CPUID names that must all be present, and enabled by the
    operating system, before a module of this tier may be imported.
    """

    name: str
    level: int
    vector_bytes: int
    registers: int
    cflags: tuple[str, ...]
    features: tuple[str, ...]


class Family(NamedTuple):
    """A kind of kernel: one template, compiled once for every ISA tier.

    ``shape`` says in one line which problems it takes (`Config` legality lives in
    `fastgemm.problem`).  ``tiers`` is empty for a family that every tier has; else it names those that have it, with
    the features that a CPU must have besides the tier's and the flags that compile them.  ``rounds_halves``: its
    bfloat16 is not what float32 arithmetic makes of it.
    """

    name: str
    template: str
    shape: str
    tiers: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = ()
    rounds_halves: bool = False


class Dot(NamedTuple):
    """How a family computes a dtype by dot products inside a lane (kernels/dot.pxd).

    ``group`` elements of k fill a lane of the packed operands; packing appends so many steps to a block.  A that needs
    no conversion but the sign of its bytes is read ``in_place``.  ``slim`` says that there are microkernels for panels
    of B that hold its numbers as they lie in memory, which widen them while they load them.  ``chunk`` steps of k are
    one instruction's: packed blocks have a multiple of so many, filled up with zeros.  ``limbs`` numbers that lanes
    hold add up to one of the dtype's: packing cuts them (kernels/limbs.pxd), into so many chunks for one.
    """

    madd: str
    group: int
    appended: int
    in_place: bool
    slim: bool = False
    chunk: int = 1
    limbs: int = 1
