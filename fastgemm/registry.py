"""The table that everything reads: dtypes, ISA tiers, register tiles, families.

The build renders and compiles what stands here, the loader imports it, the
tuner searches it, the tests iterate it.  Adding a dtype, an ISA tier or a tile is
one row; adding a kernel family is one row and one template.

This module uses the standard library only and imports nothing of the package,
because the build loads it by path before anything is compiled.

Words: a *register tile* is ``MR`` rows by ``NV`` vector registers of the output,
kept in registers over the whole k-loop.  ``NR`` is ``NV`` times the columns that
one vector holds.  A complex row takes two rows of registers (products with the
real and with the imaginary part of A), so a tile of 6 real rows has 3 complex ones.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple


class DType(NamedTuple):
    """An element type with kernels of its own.

    ``code`` is its index in compiled tables, ``ctype`` the C type of one real
    component, ``real_bytes`` that component's size and ``parts`` the number of
    components of an element (2 for complex numbers).
    """

    name: str
    code: int
    numpy: str
    char: str
    ctype: str
    real_bytes: int
    parts: int

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.real_bytes * self.parts


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
    `fastgemm.problem`).
    """

    name: str
    template: str
    shape: str


DTYPES = (
    DType("f32", 0, "float32", "f", "float", 4, 1),
    DType("f64", 1, "float64", "d", "double", 8, 1),
    DType("c64", 2, "complex64", "F", "float", 4, 2),
    DType("c128", 3, "complex128", "D", "double", 8, 2),
)

_V2 = ("cmpxchg16b", "lahf_lm", "popcnt", "sse3", "ssse3", "sse4_1", "sse4_2")
_V3 = (*_V2, "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")

# -mprefer-vector-width keeps gcc from splitting 64-byte vector types in copies.  -mprfchw: prefetchw is in every CPU
# of these tiers but the first with AVX2, which take it for a no-op; f64 512^3 gains up to 2 %.
ISAS = (
    Isa("v2", 2, 16, 16, ("-march=x86-64-v2",), _V2),
    Isa("v3", 3, 32, 16, ("-march=x86-64-v3", "-mprfchw"), _V3),
    Isa("v4", 4, 64, 32, ("-march=x86-64-v4", "-mprfchw", "-mprefer-vector-width=512"), _V4),
)

# Register tiles (real rows, vectors), widest first.  The microkernel needs
# rows * vectors accumulators, one register a vector of B and one for the broadcast of A.
# Zen 5, f32, share of the FMA peak with operands in cache: 6x4 97.5 %, 8x3 94 %, 14x2 96.5 %
# (28x1: 85-90 %, so no taller tile); v3: 6x2 and 4x3 93-94.5 %, 5x2 88 %.
# Outputs of a single vector's width are bound by loads: 8x1 reaches 80 %, 14x1 75, 20x1 66 (row pointers spill), so
# there are no tiles for them; 12 registers of v3 hold 12x1, no better than 6x1.
TILES = {
    "v2": ((6, 2), (4, 3)),
    "v3": ((6, 2), (4, 3)),
    "v4": ((6, 4), (8, 3), (14, 2)),
}

FAMILIES = (
    Family("gemm", "kernels/gemm.pyx.tp", "any product: blocked loops over register tiles"),
    Family("gemv", "kernels/gemv.pyx.tp", "one row or one column of output: stream the matrix once"),
    Family("small", "kernels/small.pyx.tp", "short k, nothing packed: stacks of small products, narrow outputs"),
)


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
        return dtype(self.dtype).parts

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

    def vector_bytes(self, tier: Isa) -> int:
        """Length of the vectors: the shortest of which a row of C takes no more than of the tier's own.

        A shorter one leaves less of the last vector empty.  f32 on Zen 5: 4x4x4 6.7 ns with 16 bytes, 7.7 with 64;
        4x8x16 14.9 with 32, 18.0 with 64; but twice as many of half the length take twice as long.
        """
        width = self.n * self.part * dtype(self.dtype).real_bytes
        size = tier.vector_bytes
        while size > 16 and -(-width // (size // 2)) == -(-width // tier.vector_bytes):
            size //= 2
        return size

    def tiles(self, tier: Isa) -> tuple[tuple[int, int, int, int, int], ...]:
        """Register tiles that make up C: rows, vectors, first row, first component, live components at the end."""
        dt = dtype(self.dtype)
        length = tier.vector_bytes // dt.real_bytes
        width = self.n * dt.parts
        found = []
        for first, vectors in _balanced(-(-width // length), 4 if tier.registers == 32 else 2):
            most = (tier.registers - vectors - 1) // (vectors * dt.parts)
            tail = min(length, width - (first + vectors - 1) * length)
            found += [(rows, vectors, row, first * length, tail) for row, rows in _balanced(self.m, most)]
        return tuple(found)


# Shapes that get kernels of their own at build time, on every tier.  The tuner makes them for others (--specialize).
SPECIAL: tuple[Special, ...] = ()


def _balanced(length: int, most: int) -> list[tuple[int, int]]:
    """Cut a length into as few parts as possible, nearly equal: where each begins, and its size."""
    parts = -(-length // most)
    ends = [length * at // parts for at in range(parts + 1)]
    return [(low, high - low) for low, high in pairwise(ends)]


PACKS = ("none", "b", "ab")
SPLITS = ("m", "n", "batch", "k")


def dtype(name: str) -> DType:
    """Return the row of a dtype by its registry name or NumPy name."""
    for row in DTYPES:
        if name in (row.name, row.numpy):
            return row
    known = ", ".join(row.numpy for row in DTYPES)
    raise ValueError(f"no kernels for dtype {name!r}; there are kernels for {known}")


def isa(name: str) -> Isa:
    """Return the row of an ISA tier."""
    for row in ISAS:
        if row.name == name:
            return row
    known = ", ".join(row.name for row in ISAS)
    raise ValueError(f"unknown ISA tier {name!r}; known tiers: {known}")


def family(name: str) -> Family:
    """Return the row of a kernel family."""
    for row in FAMILIES:
        if row.name == name:
            return row
    known = ", ".join(row.name for row in FAMILIES)
    raise ValueError(f"unknown kernel family {name!r}; known families: {known}")


def lanes(dt: DType, tier: Isa) -> int:
    """Elements (complex ones count once) in one vector register."""
    return tier.vector_bytes // dt.itemsize


def tiles(dt: DType, tier: Isa) -> tuple[tuple[int, int], ...]:
    """Register tiles of a dtype on a tier as (MR, NR), in elements."""
    return tuple((rows // dt.parts, nv * lanes(dt, tier)) for rows, nv in TILES[tier.name])


def shapes(dt: DType, tier: Isa) -> tuple[tuple[int, int], ...]:
    """Every microkernel of a dtype on a tier as (rows, vectors).

    The tiles and everything smaller, so that edges and balanced row panels run
    kernels of their exact height and width.
    """
    found = {
        (mr, nv)
        for rows, vectors in TILES[tier.name]
        for mr in range(1, rows // dt.parts + 1)
        for nv in range(1, vectors + 1)
    }
    return tuple(sorted(found))


def narrow_widths(dt: DType, tier: Isa) -> tuple[int, ...]:
    """Lanes that a narrow row of C takes, in real components: those that fit twice into a vector.

    A single column is not among them: that is one row of the transposed product.
    """
    length = tier.vector_bytes // dt.real_bytes
    return tuple(width for width in (2, 4, 8) if 2 * width <= length and width > dt.parts)


def variant(family_name: str, dt: DType, tier: Isa, mr: int, nr: int) -> str:
    """Name of a variant: ``gemm_f32_v4_6x64``.  Made here only, never parsed."""
    return f"{family_name}_{dt.name}_{tier.name}_{mr}x{nr}"


def module(family_name: str, tier: Isa) -> str:
    """Dotted name of the extension module that holds a family on a tier."""
    return f"fastgemm.kernels._{family_name}_{tier.name}"
