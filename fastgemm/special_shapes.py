"""Shapes with kernels of their own, and the modules that the build's own are compiled into.

A table as `registry` is: the build reads it before anything is compiled, the tuner makes rows of it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from . import registry


class Special(NamedTuple):
    """A shape with a kernel of its own: sizes and strides are constants of the code.

    A is in C order (`a` is ``n``) or in Fortran order (``t``), B and C are in C order.
    """

    dtype: str
    m: int
    n: int
    k: int
    a: str = "n"

    @property
    def part(self) -> int:
        """Real components of an element; strides count them."""
        return registry.dtype(self.dtype).parts

    @property
    def rs_a(self) -> int:
        """From one row of A to the next."""
        return (self.k if self.a == "n" else 1) * self.part

    @property
    def cs_a(self) -> int:
        """From one column of A to the next."""
        return (1 if self.a == "n" else self.m) * self.part

    @property
    def rs_b(self) -> int:
        """From one row of B to the next."""
        return self.n * self.part

    @property
    def rs_c(self) -> int:
        """From one row of C to the next."""
        return self.n * self.part

    def vector_bytes(self, tier: registry.Isa) -> int:
        """Length of the vectors: the shortest of which a row of C takes no more than of the tier's own.

        A shorter one leaves less of the last vector empty.  f32 on Zen 5: 4x4x4 6.7 ns with 16 bytes, 7.7 with 64;
        4x8x16 14.9 with 32, 18.0 with 64; but twice as many of half the length take twice as long.
        """
        width = self.n * self.part * registry.dtype(self.dtype).real_bytes
        size = tier.vector_bytes
        while size > 16 and -(-width // (size // 2)) == -(-width // tier.vector_bytes):
            size //= 2
        return size

    def narrow(self, tier: registry.Isa) -> int:
        """Lanes that a row of C takes where several rows share a vector (see `narrow_widths`); 0 where none do."""
        width = self.n * self.part
        fitting = [lanes for lanes in registry.narrow_widths(registry.dtype(self.dtype), tier) if lanes >= width]
        return fitting[0] if fitting and self.a == "n" and self.n > 1 else 0

    def shares(self, tier: registry.Isa) -> bool:
        """Whether the build's own kernel has several rows of C in a vector, where both kinds can be had.

        Rows of more than 16 bytes that leave lanes empty are better off alone.  Zen 5, a product of a stack of 300,
        ns with rows shared and alone: f32 3x3x3 1.6 and 18, 4x4x4 1.1 and 2.7, 5x5x5 5.5 and 5.1 (of 100,000 12.9 and
        6.4), 6x6x6 6.3 and 6.7 (22 and 9.5), 8x8x8 6.3 and 10.1; f64 2x2x2 0.9 and 1.1, 3x3x3 3.1 and 2.2, 4x4x4 2.2
        and 2.7.
        """
        lanes, size = self.narrow(tier), registry.dtype(self.dtype).real_bytes
        return lanes > 0 and (lanes == self.n * self.part or lanes * size <= 16)

    def tiles(self, tier: registry.Isa) -> tuple[tuple[int, int, int, int, int], ...]:
        """Register tiles that make up C: rows, vectors, first row, first component, live components at the end."""
        dt = registry.dtype(self.dtype)
        length = tier.vector_bytes // dt.real_bytes
        width = self.n * dt.parts
        found = []
        for first, vectors in _balanced(-(-width // length), 4 if tier.registers == 32 else 2):
            most = (tier.registers - vectors - 1) // (vectors * dt.parts)
            tail = min(length, width - (first + vectors - 1) * length)
            found += [(rows, vectors, row, first * length, tail) for row, rows in _balanced(self.m, most)]
        return tuple(found)


# Shapes that get kernels of their own at build time, on every tier.  The tuner makes them for others (--specialize).
# Zen 5, below Python, speed over the generic kernels, one product and one of a stack of 300:
#
#     size    2     3     4     5     6     8    12    16    24    32    64
#     f32         2.3   2.0   2.1   2.1   1.9   1.6   1.5   1.1  1.10  1.03
#     stack   7.7   4.7   2.5   2.7   2.2   1.1   1.4   1.3   1.1  1.05  1.02
#     f64         1.8   1.9   2.2   1.8   1.9   1.3   1.3   1.1  1.05  1.04
#     stack   6.6   4.4   1.7   1.8   1.7   1.4   1.2   1.1   1.1  1.03  1.01
SIZES = (2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64)
# And rows by such matrices, of which stacks have many.  (Skylake-SP, stacks of 20,000, speed over the generic kernels,
# of sizes 2, 3, 4, 5, 8: f32 8.1 5.6 5.2 3.8 1.6, f64 7.2 4.7 2.6 1.05 1.0, which is L3's; of a million f32 6.6 3.9 2.7
# 1.9 1.0.)
ROW_SIZES = (2, 3, 4, 5, 6, 8)
SPECIAL = tuple(Special(name, size, size, size) for name in ("f32", "f64") for size in SIZES)
SPECIAL += tuple(Special(name, 1, size, size) for name in ("f32", "f64") for size in ROW_SIZES)


class Module(NamedTuple):
    """The built-in shapes of one tier that are compiled together, with vectors of one length."""

    name: str
    vector_bytes: int
    narrow: bool
    shapes: tuple[Special, ...]


def modules(tier: registry.Isa) -> tuple[Module, ...]:
    """Return the modules that `SPECIAL` is compiled into for a tier; a shape is in one of them."""
    groups: dict[tuple[int, bool], list[Special]] = {}
    for shape in SPECIAL:
        narrow = shape.shares(tier)
        groups.setdefault((tier.vector_bytes if narrow else shape.vector_bytes(tier), narrow), []).append(shape)
    return tuple(
        Module(registry.module(f"special{'_narrow' if narrow else size}", tier), size, narrow, tuple(shapes))
        for (size, narrow), shapes in groups.items()
    )


def _balanced(length: int, most: int) -> list[tuple[int, int]]:
    """Cut a length into as few parts as possible, nearly equal: where each begins, and its size."""
    parts = -(-length // most)
    ends = [length * at // parts for at in range(parts + 1)]
    return [(low, high - low) for low, high in pairwise(ends)]
