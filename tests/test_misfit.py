"""`Config.misfit`: what a configuration cannot run, and the nearest that it can.

A database is input from outside: what is not refused here reaches C.
"""

from __future__ import annotations

import pytest

from fastgemm import registry
from fastgemm.heuristic.ways import DOT_TURNED, FEW_DOT_COLUMNS
from fastgemm.problem import MAX_PARTIAL, MAX_SMALL_K, MAX_SUMS, MAX_TURNED, MAX_WORKSPACE, Config, Problem

# A block that holds everything.
ALL = 1 << 20


def by(family: str, dtype: str = "f32", tier: str = "v3", **changes: object) -> Config:
    """Return a configuration with a tile of its family."""
    tiled = family not in ("gemv", "dots")
    mr, nr = registry.tiles(registry.dtype(dtype), registry.isa(tier), family)[0] if tiled else (0, 0)
    pack = "ab" if tiled and family != "small" else "none"
    return Config(family, tier, mr, nr, pack=pack).replace(**changes)


def of(m: int = 64, n: int = 64, k: int = 64, layout: str = "nn", dtype: str = "f32", **more: int) -> Problem:
    return Problem(dtype, m, n, k, layout=layout, **more)


# Why, what is refused, and what fits: each with one thing mended in the configuration or in the problem.
Row = tuple[str, Config, Problem, tuple[Config | Problem, ...]]
BYTES, HALVES, BRAIN = (of(dtype=name) for name in ("i8_i32", "f16", "bf16"))
PANELS = of(layout="np")
KERNEL = "0" * 32

ANY: list[Row] = [
    ("NumPy reads no B", Config(family="numpy"), PANELS, (of(), by("gemm"))),
    ("v2 has no kernels for f16", by("gemm", "f16", "v2"), HALVES, (by("gemm", "f16"),)),
    ("by one thread each", by("gemm", special=KERNEL, threads=2), of(batch=2, threads=2),
     (by("gemm", threads=2), by("gemm", special=KERNEL), by("gemm", special=KERNEL, threads=2, split="batch"))),
    ("threads 3 exceeds the 2", by("gemm", threads=3), of(threads=2), (of(threads=3),)),
    ("needs a stack", by("gemm", threads=2, split="batch"), of(threads=2),
     (of(batch=2, threads=2), by("gemm", split="batch"))),
    ("not a stack", by("gemm", split="k"), of(batch=2), (of(), by("gemm"))),
    ("an output a thread", by("gemm", split="k"), of(512, MAX_PARTIAL // 2048 + 1),
     (of(512, MAX_PARTIAL // 2048), by("gemm"))),
    ("vnni has no kernels for f32", by("vnni", "i8_i32"), of(), (BYTES,)),
    ("no 6x17 tile", by("gemm", nr=17), of(), (by("gemm"),)),
    ("v3 has no bf16 kernels", by("bf16", "bf16"), BRAIN, (by("bf16", "bf16", "v4"),)),
]  # fmt: skip

OF_PANELS: list[Row] = [
    ("gemv reads no B", by("gemv"), of(1, layout="np"), (of(1),)),
    ("small reads no B", by("small"), PANELS, (of(),)),
    ("dots reads no B", by("dots"), PANELS, (of(layout="nt"),)),
    ("specialised kernel reads no B", by("gemm", special=KERNEL), PANELS, (of(), by("gemm"))),
    ("share k read no B", by("gemm", split="k"), PANELS, (of(), by("gemm"))),
    ("packed already", by("gemm", pack="b"), PANELS, (of(), by("gemm"), by("gemm", pack="none"))),
    ("kc must hold it", by("vnni", "i8_i32", kc=63), of(layout="np", dtype="i8_i32"),
     (BYTES, by("vnni", "i8_i32", kc=64), by("gemm", "i8_i32", kc=63))),
]  # fmt: skip

GEMM: list[Row] = [
    ("at most 8 rows", by("vnni", "i8_i32", pack="none"), of(9, dtype="i8_i32"),
     (of(8, dtype="i8_i32"), by("vnni", "i8_i32", pack="b"))),
    ("adjacent columns", by("vnni", "i8_i32", pack="none"), of(8, layout="nt", dtype="i8_i32"),
     (by("vnni", "i8_i32"),)),
    ("into limbs", by("amx_f32", tier="v4", pack="b"), of(), (by("amx_f32", tier="v4"),)),
    ("into limbs", by("amx_f32", tier="v4"), PANELS, (of(),)),
    ("must be 'ab'", by("gemm", "f16", pack="b"), HALVES, (by("gemm", "f16"),)),
    ("must be 'ab'", by("gemm", "i8_i32", pack="b"), BYTES, (by("vnni", "i8_i32", pack="b"),)),
    ("must be 'ab'", by("vnni", "i8_i32", pack="none"), of(8, layout="np", dtype="i8_i32"),
     (by("vnni", "i8_i32", pack="b"), of(8, dtype="i8_i32"))),
    ("B must be packed", by("gemm", pack="none"), of(layout="nt"),
     (of(layout="tn"), of(n=1, layout="nt"), PANELS, by("gemm", pack="b"))),
    ("B must be packed", by("gemm", pack="none"), of(layout="ng"), (of(n=1, layout="ng"),)),
]  # fmt: skip


def blocks(rows: int, columns: int, steps: int, **changes: object) -> Config:
    """Return a configuration of gemm whose blocks of A and of B have so many rows and columns, a tile's included."""
    made = by("gemm", **changes)  # type: ignore[arg-type]
    return made.replace(mc=max(rows - made.mr, 1), nc=max(columns - made.nr, 1), kc=steps)


LARGE = of(1 << 18, 1 << 19, 2048)
MOST = MAX_WORKSPACE // (1024 * 4)
LIMBS = by("amx_f32", tier="v4")
# Sums that wait for the next block of k, of a type that is rounded once.
LAST = (MAX_WORKSPACE - MAX_SUMS) // (1024 * 2)
LARGE_BYTES = of(1 << 18, 1 << 19, 2048, dtype="i8")
# So many columns that sums of a tile's rows, 2 bytes each, and the block by 32 steps together are just too much.
TILE = by("gemm", "i8")
COLUMNS = MAX_WORKSPACE // (2 * (TILE.mr + 32))

WORKSPACES: list[Row] = [
    ("packed blocks", blocks(MOST // 2 + 1, MOST // 2, 1024), LARGE,
     (blocks(MOST // 2, MOST // 2, 1024), blocks(MOST // 2 + 1, MOST // 2, 1023), of(64, 1 << 19, 2048),
      of(1 << 18, 64, 2048), of(1 << 18, 1 << 19, 1023))),
    ("packed blocks", blocks(64, MOST, 1024), LARGE, (of(1 << 18, 1 << 19, 2048, layout="np"),)),
    ("packed blocks", blocks(64, MOST + 1, 1024, pack="b"), LARGE,
     (blocks(1 << 18, MOST, 1024, pack="b"), blocks(64, MOST + 1, 1024, pack="none"))),
    ("packed blocks", by("vnni", "i8_i32", pack="b", mc=ALL), of(1 << 18, 64, 2048, dtype="i8_i32"),
     (by("vnni", "i8_i32", pack="b"),)),
    ("packed blocks", LIMBS.replace(mc=MOST // 4 - LIMBS.mr + 1, nc=MOST // 4 - LIMBS.nr, kc=1024), LARGE,
     (LIMBS.replace(mc=MOST // 4 - LIMBS.mr, nc=MOST // 4 - LIMBS.nr, kc=1024),
      blocks(MOST // 4 + 1, MOST // 4, 1024))),
    ("packed blocks", by("vnni", "i8_i32", pack="none"), of(8, 64, 4 * ALL, dtype="i8_i32"),
     (of(8, 64, 2 * ALL, dtype="i8_i32"),)),
    ("packed blocks", by("vnni", "i8_i32", pack="none", nc=ALL), of(8, ALL, 64, dtype="i8_i32"),
     (by("vnni", "i8_i32", pack="none"),)),
    ("packed blocks", TILE.replace(mc=LAST // 2, nc=LAST // 2, kc=1024), LARGE_BYTES,
     (TILE.replace(mc=LAST // 2 - TILE.mr, nc=LAST // 2 - TILE.nr, kc=1024), of(1 << 18, 1 << 19, 1024, dtype="i8"))),
    ("packed blocks", TILE.replace(mc=1, nc=COLUMNS, kc=32), LARGE_BYTES,
     (TILE.replace(mc=1, nc=COLUMNS - 2 * TILE.nr, kc=32), of(1 << 18, 1 << 19, 32, dtype="i8"))),
]  # fmt: skip

GEMV: list[Row] = [
    ("one row of output", by("gemv"), of(9), (of(8),)),
    ("one row of output", by("gemv"), of(2, dtype="c64"), (of(2), of(1, dtype="c64"))),
    ("adjacent columns", by("gemv"), of(2, layout="nt"), (of(1, layout="nt"), of(2))),
    ("sums exceed", by("gemv"), of(2, 64, ALL), (of(1, 64, ALL), of(2, 64, ALL // 2))),
    ("sums exceed", by("gemv", nc=ALL), of(2, ALL, 64), (by("gemv"),)),
    ("gemv packs nothing", by("gemv", pack="b"), of(1), (by("gemv"),)),
    ("rows or columns", by("gemv"), of(1, layout="ng"), (of(1, layout="gn"),)),
    ("one row to split", by("gemv", split="m"), of(1), (by("gemv"), by("gemv", split="k"))),
]

TURNED = DOT_TURNED // (4 * 8)
DOTS: list[Row] = [
    ("lie along k", by("dots"), of(1, 1), (of(1, 1, layout="nt"),)),
    ("lie along k", by("dots"), of(7, 8), (of(8, 8), of(7, 8, layout="nt"))),
    ("lie along k", by("dots"), of(64, FEW_DOT_COLUMNS + 1), (of(64, FEW_DOT_COLUMNS),)),
    ("lie along k", by("dots"), of(64, 8, dtype="c64"), (of(64, 8),)),
    ("lie along k", by("dots"), of(64, 8, TURNED + 1), (of(64, 8, TURNED),)),
    ("lie along k", by("dots"), of(64, 8, layout="tn"), (of(64, 8, layout="tt"),)),
    ("dots packs nothing", by("dots", pack="b"), of(layout="nt"), (by("dots"),)),
    ("copied blocks", by("dots", mc=ALL, nc=ALL), of(8192, 8192, layout="nt"), (by("dots", mc=ALL, nc=64),)),
    ("copied blocks", by("dots", kc=ALL), of(64, 64, ALL, layout="nt"), (by("dots"), of(64, 64, 2048, layout="nt"))),
    ("copied blocks", by("dots", mc=ALL), of(ALL, 2, 1024, layout="nt", dtype="c64"),
     (of(ALL, 2, 1024, layout="nt"),)),
]  # fmt: skip

STEPS = MAX_TURNED // (2 * 32)
SMALL: list[Row] = [
    ("small packs no A", by("small", pack="ab"), of(), (by("small", pack="b"),)),
    ("B must be packed", by("small"), of(layout="nt"), (of(n=1, layout="nt"), of(), by("small", pack="b"))),
    ("small copies a panel", by("small", pack="b"), of(n=64, k=STEPS + 1), (of(n=64, k=STEPS), of(n=8, k=STEPS + 1))),
    ("small copies a panel", by("small", "f16", pack="b"), of(n=64, k=STEPS, dtype="f16"),
     (of(n=16, k=STEPS, dtype="f16"), by("small", "f16"))),
    ("a whole B of a type", by("small", "f16", pack="b", threads=2), of(dtype="f16", threads=2),
     (by("small", "f16", pack="b"), by("small", "f16", threads=2), by("small", "f16", pack="b", threads=2, split="m"),
      of(threads=2))),
    ("does not cut k", by("small"), of(k=MAX_SMALL_K + 1), (of(k=MAX_SMALL_K), of(n=3, k=MAX_SMALL_K + 1))),
    ("splits m, n or batch", by("small", split="k"), of(), (by("small", split="m"),)),
]  # fmt: skip


@pytest.mark.parametrize("row", [*ANY, *OF_PANELS, *GEMM, *WORKSPACES, *GEMV, *DOTS, *SMALL], ids=lambda row: row[0])
def test_what_does_not_fit_and_what_just_does(row: Row) -> None:
    why, config, problem, mended = row
    assert why in (config.misfit(problem) or "")
    for one in mended:
        made = one.misfit(problem) if isinstance(one, Config) else config.misfit(one)
        assert made is None, one
