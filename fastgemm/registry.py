"""The table that everything reads: dtypes, ISA tiers, register tiles, families; activations.py is that of what follows.

The build renders and compiles what stands here, the loader imports it, the
tuner searches it, the tests iterate it.  Adding a dtype, an ISA tier or a tile is
one row; adding a kernel family is one row and one template.

This module uses the standard library only and imports nothing of the package but what its rows are (kinds.py),
because the build loads it by path before anything is compiled.

Words: a *register tile* is ``MR`` rows by ``NV`` vector registers of the output,
kept in registers over the whole k-loop.  ``NR`` is ``NV`` times the columns that
one vector holds.  A complex row takes two rows of registers (products with the
real and with the imaginary part of A), so a tile of 6 real rows has 3 complex ones.
"""

from __future__ import annotations

import functools
from typing import NamedTuple, Protocol, TypeVar

from .kinds import Dot as Dot
from .kinds import Family as Family
from .kinds import Isa as Isa


class DType(NamedTuple):
    """A kind of product with kernels of its own: what the operands and the result are, and what is computed with.

    ``code`` is its index in compiled tables; ``numpy`` the operands' type and ``alike`` others of the same bits and the
    same arithmetic (wraparound multiplication is one for signed and unsigned numbers).  ``lane`` names what a lane
    of a vector holds meanwhile, of the C type ``ctype`` and ``real_bytes`` long; ``parts`` of them make an element
    (2 for complex numbers).  ``stored`` is what lies in memory where that is something else: packing converts it.
    ``result`` is the type of the output where it is not the operands'.  ``kernels`` is the row whose microkernels this
    one runs, ``needs`` are features that a tier must have for it, ``group`` the elements of k in one lane.
    """

    name: str
    code: int
    numpy: str
    lane: str
    ctype: str
    real_bytes: int
    parts: int = 1
    alike: tuple[str, ...] = ()
    stored: str = ""
    result: str = ""
    kernels: str = ""
    needs: tuple[str, ...] = ()
    group: int = 1

    @property
    def itemsize(self) -> int:
        """Bytes of one element while it is computed with; of its share of a lane in a dot product."""
        return self.real_bytes * self.parts // self.group

    @property
    def stored_bytes(self) -> int:
        """Bytes of one component of an operand in memory."""
        return STORED[self.stored] if self.stored else self.real_bytes

    @property
    def result_bytes(self) -> int:
        """Bytes of one component of the output in memory."""
        if not self.result:
            return self.stored_bytes
        return next(row.stored_bytes for row in DTYPES if self.result in row.names)

    @property
    def converts(self) -> bool:
        """Whether operands must be packed before kernels can read them."""
        return bool(self.stored)

    @property
    def narrows(self) -> bool:
        """Whether the output is of another type than what is computed with."""
        return self.converts and (not self.result or self.result_bytes != self.real_bytes)

    @property
    def halves(self) -> bool:
        """Whether operands and output are halves: products are finished in float32, then rounded."""
        return self.stored in ("f16", "bf16") and not self.result

    @property
    def turns(self) -> bool:
        """Whether finished tiles are turned over in registers: 4 or 8 bytes an element, stored as they are computed."""
        return not self.stored and self.lane[0] != "b" and self.itemsize in (4, 8)

    @property
    def names(self) -> tuple[str, ...]:
        """Every NumPy type of the operands."""
        return (self.numpy, *self.alike)

    @property
    def exact(self) -> bool:
        """Whether the arithmetic is exact (modulo a power of two) and raises no floating-point flag."""
        return self.lane[0] != "f"


# What lies in memory where it is not what is computed with, and its bytes (kernels/stored.pxd converts it).
STORED = {"s8": 1, "bool": 1, "f16": 2, "bf16": 2}

# 8-bit products are computed in 16 bits, because no CPU multiplies bytes; modulo 256 it is the same.
DTYPES = (
    DType("f32", 0, "float32", "f32", "float", 4),
    DType("f64", 1, "float64", "f64", "double", 8),
    DType("c64", 2, "complex64", "f32", "float", 4, 2),
    DType("c128", 3, "complex128", "f64", "double", 8, 2),
    DType("i32", 4, "int32", "i32", "unsigned int", 4, alike=("uint32",)),
    DType("i64", 5, "int64", "i64", "unsigned long long", 8, alike=("uint64",)),
    DType("i16", 6, "int16", "i16", "unsigned short", 2, alike=("uint16",)),
    DType("i8", 7, "int8", "i16", "unsigned short", 2, alike=("uint8",), stored="s8", kernels="i16"),
    DType("bool", 8, "bool", "b8", "unsigned char", 1, stored="bool"),
    DType("f16", 9, "float16", "f32", "float", 4, stored="f16", kernels="f32", needs=("f16c",)),
    DType("bf16", 10, "bfloat16", "f32", "float", 4, stored="bf16", kernels="f32"),
    DType("f16_f32", 11, "float16", "f32", "float", 4, stored="f16", result="float32", kernels="f32", needs=("f16c",)),
    DType("bf16_f32", 12, "bfloat16", "f32", "float", 4, stored="bf16", result="float32", kernels="f32"),
    DType("i8_i32", 13, "int8", "i32", "unsigned int", 4, alike=("uint8",), stored="s8", result="int32", group=4),
    DType(
        "i8_q8", 14, "int8", "i32", "unsigned int", 4,
        alike=("uint8",), stored="s8", result="int8", kernels="i8_i32", group=4,
    ),
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

# Register tiles (real rows, vectors), the favourite first.  The microkernel needs
# rows * vectors accumulators, one register a vector of B and one for the broadcast of A.
# Zen 5, f32, share of the FMA peak with operands in cache: 6x4 97.5 %, 8x3 94 %, 14x2 96.5 %
# (28x1: 85-90 %, so no taller tile); v3: 6x2 and 4x3 93-94.5 %, 5x2 88 %.
# Outputs of a single vector's width are bound by loads: of 196 x 16 x 300 8x1 reaches 69 %, 14x1 78.  The last tile of
# v3 is for them alone (`strides`; 12x1 on Zen 4 1.1 to 1.17 of 6x1, v3 on Zen 5 no better).
TILES = {
    "v2": ((6, 2), (4, 3)),
    "v3": ((6, 2), (4, 3), (12, 1)),
    "v4": ((6, 4), (8, 3), (14, 2)),
}
# Whole numbers: their accumulators wait a cycle for each other, not four, so narrow and low tiles lose little and one
# widest is enough.
WHOLE_TILES = {"v2": ((6, 2),), "v3": ((6, 2),), "v4": ((6, 4),)}
# Bytes four a lane: 8 rows read packed weights once (8 x 4096 x 4096 from memory 1.23 of two passes of 4 rows, 7 rows
# 1.15, 16 rows 1.09, where 24 and more take the same time with both tiles), and an output of one vector has more to do
# at a time (800 x 16 x 800 1.08).
BYTE_TILES = {**WHOLE_TILES, "v4": ((6, 4), (8, 3))}
# Of tile registers, which have so many rows of so many bytes, four are sums, a vector of them a row: two by two, which
# load four for as many products, or one by four for few rows, which load five.
REGISTER_ROWS, REGISTER_BYTES = 16, 64
REGISTER_COLUMNS = REGISTER_BYTES // 4       # sums
MATRIX_TILES = ((2 * REGISTER_ROWS, 2), (REGISTER_ROWS, 4))

# The dots family: the most rows of A at a time, and, by registers and components of an element, the columns of B for
# 1, 2 ... of them.
DOT_ROWS = 4
# Passes of rows over the same columns from memory that each fetch a part of the next ones (Zen 4, AVX-512, one thread,
# a C prototype, f32 by 4096 x 4096, all by the first pass, a half by each of two, a third of three: 8 rows 17 19.4
# GB/s, 12 rows 12.7 13.9 15.0).
DOT_PASSES = 3
DOT_COLUMNS = {16: {1: (4, 4, 2, 2), 2: (4, 2, 1, 1)}, 32: {1: (6, 6, 6, 6), 2: (3, 3, 3, 3)}}

# Few rows by a B that is read as it lies: the most rows of A at a time.
STRIP_ROWS = 8

# Microkernels of one vector with several sets of accumulators: the tallest, and the steps of k from which they are used
# (Zen 5, one thread, f32 2 x 16 x 2048 1.8, 5 x 16 x 4096 1.1; 6 x 8 x 600 1.0).
DEEP_ROWS, DEEP_STEPS = 6, 512
# Steps of k at the end of a tile that is only written, which are done row by row (kernels/gemm_written.tp).
WRITTEN_STEPS = 3

# Rows of C that few steps write whole, at a time, and the most steps: beyond, B's vectors are loaded for too few rows.
BRIEF_ROWS, BRIEF_STEPS = 4, 8

FAMILIES = (
    Family("gemm", "kernels/gemm.pyx.tp", "any product: blocked loops over register tiles"),
    Family("gemv", "kernels/gemv.pyx.tp", "one row or column of output, or a few rows: stream the matrix once"),
    Family("small", "kernels/small.pyx.tp", "short k, nothing packed: stacks of small products, narrow outputs"),
    Family("dots", "kernels/dots.pyx.tp", "both operands lie along k, few rows: dot products, nothing packed"),
    Family(
        "vnni", "kernels/gemm.pyx.tp", "bytes with 32-bit sums, four products a lane",
        (("v3", ("avx_vnni",), ("-mavxvnni",)), ("v4", ("avx512_vnni",), ("-mavx512vnni",))),
    ),
    Family(
        "bf16", "kernels/gemm.pyx.tp", "bfloat16, two products a lane",
        (("v4", ("avx512_bf16",), ("-mavx512bf16",)),), rounds_halves=True,
    ),
    Family(
        "amx_int8", "kernels/gemm.pyx.tp", "bytes with 32-bit sums, tile registers of 16 rows by 64 bytes",
        (("v4", ("amx_tile", "amx_int8", "avx512_vnni"), ("-mamx-tile", "-mamx-int8", "-mavx512vnni")),),
    ),
    Family(
        "amx_bf16", "kernels/gemm.pyx.tp", "bfloat16, tile registers of 16 rows by 64 bytes",
        (("v4", ("amx_tile", "amx_bf16", "avx512_bf16"), ("-mamx-tile", "-mamx-bf16", "-mavx512bf16")),),
        rounds_halves=True,
    ),
    Family(
        "amx_f32", "kernels/gemm.pyx.tp", "float32 as three limbs of bfloat16, tile registers of 16 rows by 64 bytes",
        (("v4", ("amx_tile", "amx_bf16"), ("-mamx-tile", "-mamx-bf16")),),
    ),
)
# Those of gemm's loops, whose blocks and ways to pack can be chosen.
BLOCKED = frozenset(row.name for row in FAMILIES if row.template == "kernels/gemm.pyx.tp")
# Dot products, by family and dtype.  Where the CPU has none for bytes, they are widened to pairs of 16 bits.
DOTS = {
    ("gemm", "i8_i32"): Dot("pairs", 2, 0, False, slim=True),
    ("vnni", "i8_i32"): Dot("vnni", 4, 2, True),
    ("bf16", "bf16"): Dot("bf16", 2, 0, True),
    ("amx_int8", "i8_i32"): Dot("vnni", 4, 2, True, chunk=REGISTER_BYTES // 4),
    ("amx_bf16", "bf16"): Dot("bf16", 2, 0, True, chunk=REGISTER_BYTES // 4),
    ("amx_f32", "f32"): Dot("bf16", 2, 0, False, chunk=REGISTER_BYTES // 4, limbs=3),
}

# Dtypes of outputs that activations follow; their place here is their place in compiled tables.
FINISHED = ("f32", "f64")
# Sums of bytes that an epilogue turns into float32 where they lie, scaled by column: the last place.
DEQUANTISED = "i8_i32"
# Templates that are no families: nothing chooses them, they follow every one.
EPILOGUE_TEMPLATE = "kernels/epilogue.pyx.tp"
ROWS_TEMPLATE = "kernels/rows.pyx.tp"

# Types of `DType.halves`.
HALVES = tuple(row.numpy for row in DTYPES if row.halves)
# Operands of dot products of bytes.
BYTES = next(row.names for row in DTYPES if row.name == "i8_i32")

PACKS = ("none", "b", "ab")
SPLITS = ("m", "n", "batch", "k")


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_Row = TypeVar("_Row", bound=_Named)


# The rows by their names here and in NumPy.
BY_NAME = {name: row for row in reversed(DTYPES) for name in (row.name, *row.names)}


def dtype(name: str) -> DType:
    """Return the row of a dtype by its registry name or NumPy name."""
    if isinstance(name, str) and name in BY_NAME:
        return BY_NAME[name]
    known = ", ".join(dict.fromkeys(one for row in DTYPES for one in row.names))
    raise ValueError(f"no kernels for dtype {name!r}; there are kernels for {known}")


def product_row(a: str, b: str, c: str) -> DType | None:
    """Return the first row that computes c = a @ b, by NumPy's names; None where no row does."""
    for row in DTYPES:
        if a in row.names and (b in row.names if row.group > 1 else a == b) and c == (row.result or a):
            return row
    return None


def named(rows: tuple[_Row, ...], name: str, one: str, several: str) -> _Row:
    """Return the row of a table by its name; `one` and `several` say what it is where there is none."""
    for row in rows:
        if row.name == name:
            return row
    raise ValueError(f"unknown {one} {name!r}; known {several}: {', '.join(row.name for row in rows)}")


def isa(name: str) -> Isa:
    """Return the row of an ISA tier."""
    return named(ISAS, name, "ISA tier", "tiers")


def family(name: str) -> Family:
    """Return the row of a kernel family."""
    return named(FAMILIES, name, "kernel family", "families")


def bytes_of(name: str) -> int:
    """Bytes of an element in memory by its NumPy name, bfloat16's too, which NumPy does not know."""
    row = dtype(name)
    return row.stored_bytes * row.parts


def lanes(dt: DType, tier: Isa) -> int:
    """Elements (complex ones count once) in one vector register."""
    return tier.vector_bytes // (dt.real_bytes * dt.parts)


def accumulators(dt: DType, tier: Isa) -> int:
    """Rows of registers for a row of output: 2 for complex numbers, and for 64-bit products in halves."""
    return 2 if dt.parts == 2 or (dt.lane == "i64" and "avx512dq" not in tier.features) else 1


@functools.cache
def registers(dt: DType, tier: Isa, family_name: str = "gemm") -> tuple[tuple[int, int], ...]:
    """Register tiles of a dtype on a tier as (rows of output, vectors), in a family with tiles."""
    if by_matrices(family_name):
        return MATRIX_TILES
    rows = (TILES if dt.lane[0] == "f" else BYTE_TILES if dt.group > 1 else WHOLE_TILES)[tier.name]
    return tuple((high // accumulators(dt, tier), nv) for high, nv in rows)


@functools.cache
def tiles(dt: DType, tier: Isa, family_name: str = "gemm") -> tuple[tuple[int, int], ...]:
    """Register tiles of a dtype on a tier as (MR, NR), in elements, in a family with tiles."""
    return tuple((mr, nv * lanes(dt, tier)) for mr, nv in registers(dt, tier, family_name))


def shapes(dt: DType, tier: Isa, family_name: str = "gemm") -> tuple[tuple[int, int], ...]:
    """Every microkernel of a dtype on a tier as (rows, vectors).

    The tiles and everything smaller, so that edges and balanced row panels run
    kernels of their exact height and width.
    """
    found = {
        (mr, nv)
        for rows, vectors in registers(dt, tier, family_name)
        for mr in range(1, rows + 1)
        for nv in range(1, vectors + 1)
    }
    return tuple(sorted(found))


def written(dt: DType, tier: Isa, family_name: str = "gemm") -> tuple[tuple[int, int], ...]:
    """Microkernels for a C that is only written, as (rows, vectors): they finish row by row (kernels/gemm_written.tp).

    Of real numbers and dot products; of fewer rows, and of one vector, stores are few.  Of short vectors as well, which
    are stored one a cycle: AVX2 on a Zen 4, one thread, by such kernels, bench/builds.py, f32 255 x 2048 x 16, 784 x
    4800 x 32, 92160 x 144 x 32 0.96 to 0.97, the others 0.98 to 1.01.

    Examples
    --------
    >>> written(dtype("f32"), isa("v4"))[-3:], written(dtype("c64"), isa("v4")), written(dtype("f32"), isa("v3"))
    (((12, 2), (13, 2), (14, 2)), (), ())
    """
    if tier.vector_bytes < 64 or by_matrices(family_name) or accumulators(dt, tier) > 1:
        return ()
    if not (dt.lane[0] == "f" or dot(family_name, dt)):
        return ()
    return tuple((rows, vectors) for rows, vectors in shapes(dt, tier, family_name) if rows > 2 and vectors > 1)


def deep(dt: DType, tier: Isa) -> tuple[tuple[int, int], ...]:
    """Microkernels of one vector with several sets of accumulators, as (rows, sets).

    A multiply-add takes four cycles on most CPUs, two of which begin in each: eight accumulators hide that, up to what
    fits 16 registers.

    Examples
    --------
    >>> deep(dtype("f32"), isa("v4")), deep(dtype("c64"), isa("v4"))
    (((2, 4), (3, 2), (4, 2), (5, 2), (6, 2)), ())
    """
    if dt.lane[0] != "f" or dt.lane != dt.name:
        return ()
    tallest = max(mr for mr, _ in registers(dt, tier))
    return tuple((rows, 4 if rows == 2 else 2) for rows in range(2, min(DEEP_ROWS, tallest) + 1))


def narrow_widths(dt: DType, tier: Isa) -> tuple[int, ...]:
    """Lanes that a narrow row of C takes, in real components: those that fit twice into a vector.

    A single column is not among them: that is one row of the transposed product.
    """
    if not is_shared(dt) and dt.group == 1:
        return ()
    length = tier.vector_bytes // dt.real_bytes
    return tuple(width for width in (2, 4, 8) if 2 * width <= length and width > dt.parts)


@functools.cache
def brief(dt: DType, tier: Isa) -> tuple[tuple[int, int], ...]:
    """Steps of k of which the small family's rows of C are written whole, as (steps, rows at a time).

    All of a few rows' numbers of A stay in registers, beside a vector of B and the sums; of one row alone B's vectors
    would be loaded for a store each.

    Examples
    --------
    >>> brief(dtype("f32"), isa("v4"))
    ((1, 4), (2, 4), (3, 4), (4, 4), (5, 4), (6, 4), (7, 3), (8, 3))
    >>> brief(dtype("f64"), isa("v3")), brief(dtype("c64"), isa("v4"))
    (((1, 4), (2, 4), (3, 3), (4, 2), (5, 2), (6, 2)), ())
    """
    if not is_special(dt) or dt.parts > 1:
        return ()
    rows = ((steps, min(BRIEF_ROWS, (tier.registers - 2) // (steps + 1))) for steps in range(1, BRIEF_STEPS + 1))
    return tuple((steps, high) for steps, high in rows if high > 1)


@functools.cache
def short_steps(dt: DType, tier: Isa) -> tuple[int, ...]:
    """Lengths of columns of which kernels of the dots family have several in a vector, or in a pair of them."""
    if not is_special(dt) or dt.parts > 1 or tier.vector_bytes < 32:
        return ()
    lanes = tier.vector_bytes // dt.real_bytes * short_vectors(tier)
    return tuple(k for k in range(2, 9) if 2 * k <= lanes and k * dt.real_bytes < 64)


def short_vectors(tier: Isa) -> int:
    """Vectors that such kernels read at a time."""
    return 2 if tier.vector_bytes == 64 else 1


@functools.cache
def supported(dt: DType, tier: Isa) -> bool:
    """Whether a tier has kernels for a dtype; where it has none NumPy computes."""
    return set(dt.needs) <= set(tier.features)


def kernels_of(dt: DType, family_name: str) -> str:
    """Name of the row whose microkernels a dtype runs in a family of the gemm template."""
    if family_name == "gemm":
        return dt.kernels or dt.name
    return "i8_i32" if dt.group > 1 else "bf16" if dt.stored == "bf16" else dt.name


def quantising(dt: DType) -> str:
    """Name of the row that rounds the sums of this one to bytes; empty where there is none."""
    return next((row.name for row in DTYPES if row.kernels == dt.name and dt.group > 1), "")


def dot(family_name: str, dt: DType) -> Dot | None:
    """Return how a family of the gemm template computes a dtype by dot products; None where it does not."""
    return DOTS.get((family_name, kernels_of(dt, family_name)))


_BY_MATRICES = frozenset(name for (name, _), row in DOTS.items() if row.chunk > 1)
_BY_LIMBS = frozenset(name for (name, _), row in DOTS.items() if row.limbs > 1)


def by_matrices(family_name: str) -> bool:
    """Whether a family multiplies tile registers, whole matrices, by each other."""
    return family_name in _BY_MATRICES


def by_limbs(family_name: str) -> bool:
    """Whether a family cuts the numbers of operands into limbs."""
    return family_name in _BY_LIMBS


def chunk_k(row: Dot) -> int:
    """Elements of k in a chunk."""
    return row.group * row.chunk


def in_place(family_name: str, dt: DType) -> bool:
    """Whether a family of the gemm template reads an A whose columns are adjacent as it lies."""
    found = dot(family_name, dt)
    return found.in_place if found else not dt.converts


def steady(size: int) -> int:
    """Return how many numbers of `size` bytes ahead dot products, and a vector's kernels, mostly fetch from memory.

    So far, or two turns of columns or rows, and into L2, which has more places than L1 for lines on their way (AVX2
    on Zen 4, one thread, GB/s with the next turn into L1 / so, columns of 176, 352, 512, 1024, 4096 floats: 128 MiB
    10 11 11 15 18 / 24 24 27 28 26, 24 MiB 9 - 16 24 25 / 39 - 47 49 39; 12 MiB 40 - 47 40 32 / 44 - 46 51 43, 4 MiB
    63 - 63 40 34 / 51 - 52 53 43).  Two turns of more than 16 times that leave L2 before they are used, so that lines
    a quarter of it ahead are fetched (a C prototype, GB/s, two turns / so, columns of 16000, 20000, 60000 floats 25 /
    30, 22 / 24, 21 / 25, rows 26 / 32, 22 / 26, 24 / 25).
    """
    return 16384 // size


def strips(family_name: str, dt: DType) -> bool:
    """Whether a family has kernels that read a B with adjacent columns as it lies, for few rows."""
    if family_name == "gemv":
        return dt.parts == 1 and dt.group == 1
    found = dot(family_name, dt)
    return bool(family(family_name).tiers) and found is not None and found.chunk == 1


def strip_groups(dt: DType, tier: Isa, rows: int) -> int:
    """Return how many groups of rows of B such a kernel for some rows of A takes in one pass over its sums.

    So many streams of reads, and as many fewer loads and stores of sums.
    """
    if dt.group == 1:
        # The numbers of A that a pass multiplies by take half of the registers.
        return next(count for count in (4, 2, 1) if count * rows <= tier.registers // 2)
    if tier.registers < 32:
        return 1
    return 2 if dt.stored_bytes == 1 and rows <= 2 else 4


def computes(family_name: str, dt: DType) -> bool:
    """Whether a family has kernels for a dtype, on the tiers that have the family."""
    if family_name in ("gemv", "dots"):
        return True
    if family_name == "small":
        return is_small(dt)
    return family_name == "gemm" or (family_name, kernels_of(dt, family_name)) in DOTS


def rows_of(tier: Isa, family_name: str = "gemm") -> tuple[DType, ...]:
    """Return the dtypes that a family has kernels for on a tier."""
    return tuple(row for row in DTYPES if supported(row, tier) and computes(family_name, row))


def beyond(family: Family, tier: Isa) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return what a family asks of a CPU and a compiler beyond a tier; None where the tier has no such family."""
    if not family.tiers:
        return (), ()
    return next(((features, flags) for name, features, flags in family.tiers if name == tier.name), None)


def modules() -> tuple[tuple[Family, Isa], ...]:
    """Return every family on every tier that has it: a module each."""
    return tuple((family, tier) for family in FAMILIES for tier in ISAS if beyond(family, tier) is not None)


def is_small(dt: DType) -> bool:
    """Whether the small family has kernels for a dtype: all but sums that are requantised."""
    return not (dt.group > 1 and dt.narrows)


def is_packed(dt: DType) -> bool:
    """Whether `fastgemm.pack` packs a right operand for it: all but bytes that wrap, whose sums of 32 bits are cut."""
    return dt.stored != "s8" or dt.group > 1


def is_finished(dt: DType) -> bool:
    """Whether an activation may follow its products: floats and halves that stay halves, sums of bytes scaled."""
    return dt.name in (*FINISHED, DEQUANTISED) or dt.halves


def widens(dt: DType) -> bool:
    """Whether the small family may convert operands beforehand: to 4 bytes, of a type that has a row of its own."""
    return bool(dt.stored) and dt.real_bytes == 4 and is_small(dt)


def is_shared(dt: DType) -> bool:
    """Whether rows of C may share a vector of the small family: those of 4 or 8 bytes, stored as they are computed."""
    return not dt.stored and dt.real_bytes >= 4


def is_special(dt: DType) -> bool:
    """Whether a shape may have kernels of its own: floats that are computed with as they are stored."""
    return not (dt.exact or dt.converts)


def packing(dt: DType) -> str:
    """Name of the first row that packs and loads as this one does: the two share functions, and small kernels."""
    same = (row for row in DTYPES if (row.stored, row.lane, row.parts) == (dt.stored, dt.lane, dt.parts))
    return next(same).name


def storing(dt: DType) -> str:
    """Name of the first row that writes tiles as this one does."""
    kind = dt.stored if dt.narrows else ""
    same = (
        row for row in DTYPES
        if (row.stored if row.narrows else "", row.lane, row.parts) == (kind, dt.lane, dt.parts)
    )
    return next(same).name


def whole_rows(dt: DType, tier: Isa) -> int:
    """Rows that the small family's kernel for rows of one vector takes at least; it takes twice as many at a time."""
    return tier.registers // 4 // dt.parts


def dot_columns(dt: DType, tier: Isa, rows: int) -> int:
    """Columns of B that the dots family's kernel for some rows of A takes at a time.

    As many sums as registers hold beside a vector of each row: loads bound what is left of the time (vectors that begin
    16 bytes into a line count twice), 4x6 needs 10 for 24 multiply-adds and 4x4 8 for 16.
    """
    return DOT_COLUMNS[tier.registers][dt.parts][rows - 1]


def dot_step(dt: DType, tier: Isa) -> int:
    """Columns that every kernel of the dots family takes in whole turns."""
    return max(dot_columns(dt, tier, rows) for rows in range(1, DOT_ROWS + 1))


def variant(family_name: str, dt: DType, tier: Isa, mr: int, nr: int) -> str:
    """Name of a variant: ``gemm_f32_v4_6x64``.  Made here only, never parsed."""
    return f"{family_name}_{dt.name}_{tier.name}_{mr}x{nr}"


def module(family_name: str, tier: Isa) -> str:
    """Dotted name of the extension module that holds a family on a tier."""
    return f"fastgemm.kernels._{family_name}_{tier.name}"
