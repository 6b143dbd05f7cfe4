"""Operands that end, or begin, where the next page may not be touched: a load too long is a crash, in masked lanes too.

(A sanitizer does not see what vector instructions read.)
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import dtype_of, integers

from fastgemm import cpu, dispatch, kernels, registry, row_operations, to_bytes
from fastgemm.chain import SCRATCH, Chain, Product, Ref, Rows
from fastgemm.cpu import Caches
from fastgemm.heuristic import rules
from fastgemm.heuristic.ways import LEFT_ROWS, LEFT_STEPS
from fastgemm.plan import Plan
from fastgemm.problem import Config, Problem

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mprotect as Linux has it")
PAGES = 48


class Area:
    """Some pages between two that raise a signal."""

    def __init__(self) -> None:
        page = mmap.PAGESIZE
        self.map = mmap.mmap(-1, (PAGES + 2) * page)
        first = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        for fence in (first, first + (PAGES + 1) * page):
            assert protect(ctypes.c_void_p(fence), ctypes.c_size_t(page), 0) == 0
        self.first, self.last = page, (PAGES + 1) * page

    def array(self, rows: int, columns: int, dtype: str, letter: str, at_end: bool) -> np.ndarray[Any, Any]:
        """An array that ends with the last page or begins with the first."""
        kind = dtype_of(dtype)
        size = rows * columns * kind.itemsize
        start = self.last - size if at_end else self.first
        flat = np.frombuffer(self.map, np.uint8, size, start).view(kind)
        return flat.reshape((rows, columns), order="C" if letter == "n" else "F")


@pytest.fixture(scope="module")
def areas() -> tuple[Area, Area, Area]:
    return Area(), Area(), Area()


def configs(dt: registry.DType, tier: registry.Isa, problem: Problem) -> list[Config]:
    """One of each family that takes a problem, and the heuristic's."""
    mr, nr = registry.tiles(dt, tier)[0]
    made = [rules.config(problem, tier)]
    for family, pack in (
        ("small", "none"),
        ("small", "b"),
        ("gemv", "none"),
        ("dots", "none"),
        ("gemm", "none"),
        ("gemm", "ab"),
    ):
        made.append(Config(family, tier.name, *((0, 0) if family in ("gemv", "dots") else (mr, nr)), pack=pack))
    own = kernels.family(dt, tier)
    if registry.strips(own, dt):
        made.append(Config(own, tier.name, mr, nr, pack="none"))
    for name in (each.name for each in registry.FAMILIES if registry.by_matrices(each.name)):
        if registry.computes(name, dt) and kernels.has(name, tier.name):
            tiles = registry.tiles(dt, tier, name)
            made += [Config(name, tier.name, *tile, kc=64, pack=pack) for tile in tiles for pack in ("b", "ab")]
    return [config for config in dict.fromkeys(made) if config.misfit(problem) is None]


@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
@pytest.mark.parametrize("tier", kernels.runnable(), ids=lambda tier: tier.name)
@pytest.mark.parametrize("dt", registry.DTYPES, ids=lambda dt: dt.name)
def test_no_byte_beside_operands(
    dt: registry.DType, tier: registry.Isa, far: bool, areas: tuple[Area, Area, Area], monkeypatch: pytest.MonkeyPatch
) -> None:
    if far:
        # Rows of A are fetched ahead, beyond its end too.
        monkeypatch.setattr(cpu, "caches", lambda: Caches(32 << 10, 1 << 20, 0))
    if not registry.supported(dt, tier) or (dt.group > 1 and dt.narrows):
        pytest.skip("no plain products of this type here")
    lanes, result = registry.lanes(dt, tier), dt.result or dt.numpy
    mr, nr = registry.tiles(dt, tier)[0]
    sizes = [
        *itertools.product((1, 3, mr + 1), (1, 3, lanes + 1, nr + 2), (1, 3, 21)),
        (1, 5, 65),
        (1, 4, 200),
        (2, 131, 6),
        (35, 2, 2),
        # Few rows by short columns: less than a vector of them, one, two, and several.
        *itertools.product((1,), (2, 7, lanes, 2 * lanes + 1, 67), range(2, 9)),
        *itertools.product((2, 3, 5), (7, 67), (3, 5, 8)),
        # Sets of accumulators take steps in turns.
        (2, 2, registry.DEEP_STEPS + 1),
        (3, 5, registry.DEEP_STEPS),
        (6, 3, registry.DEEP_STEPS + 3),
        # The last columns by themselves, passes over rows that are done, and columns that are turned over.
        (LEFT_ROWS + 1, lanes + 1, LEFT_STEPS + 1),
        (63, 4, 5),
        (70, 3, 41),
        (66, 4, 42),
        (84, 5, 130),
        # Whole chunks of tile registers, whose rows are read as they lie.
        *itertools.product((15, 33), (17, 70), (64, 128)),
        # Whole rows of few steps, fetched ahead beyond the last one; some begin alike in a vector.
        *itertools.product((67,), (149, 160), (1, 4, 6, 8) if dt.name in ("f32", "f64") else (4,)),
        # Few rows in groups that share some of them.
        *itertools.product((5, 9, 13), (2, 4, 7), (3, 42)),
    ]
    for (m, n, k), letters in itertools.product(sizes, ("nn", "tn", "nt", "tt")):
        problem = Problem(dt.name, m, n, k, layout=letters)
        for config, at_end in itertools.product(configs(dt, tier, problem), (True, False)):
            a, b = (
                areas[0].array(m, k, dt.numpy, letters[0], at_end),
                areas[1].array(k, n, dt.numpy, letters[1], at_end),
            )
            a[...], b[...] = integers((m, k), dt.numpy, 1), integers((k, n), dt.numpy, 2)
            out = areas[2].array(m, n, result, "n", at_end)
            kernels.load(config.isa)
            Plan(problem, config).run(a, b, out)
            wide = "c16" if dt.parts == 2 else "bool" if dt.numpy == "bool" else "f8"
            want = np.einsum("ik,kj->ij", a.astype(wide), b.astype(wide)).astype(out.dtype)
            assert np.array_equal(out, want), (problem, config)


@pytest.mark.parametrize("tier", kernels.runnable(), ids=lambda tier: tier.name)
@pytest.mark.parametrize("dt", registry.DTYPES, ids=lambda dt: dt.name)
def test_stacks_that_are_turned(dt: registry.DType, tier: registry.Isa, areas: tuple[Area, Area, Area]) -> None:
    """Whole vectors are read of B, of several items at a time, but not behind its last one nor before its first."""
    if not registry.supported(dt, tier) or (dt.group > 1 and dt.narrows):
        pytest.skip("no plain products of this type here")
    mr, nr = registry.tiles(dt, tier)[0]
    config = Config("small", tier.name, mr, nr, pack="b")
    wide = "c16" if dt.parts == 2 else "f8"
    for n, k, items, at_end in itertools.product((2, 3, 5, 8), (1, 2, 3, 4, 7, 8), (4, 5, 11), (True, False)):
        problem = Problem(dt.name, 1, n, k, items, "nt")
        if config.misfit(problem) is not None:
            continue
        kernels.load(tier.name)
        a = integers((items, 1, k), dt.numpy, 1)
        b = areas[1].array(items * n, k, dt.numpy, "n", at_end).reshape(items, n, k)
        b[...] = integers((items, n, k), dt.numpy, 2)
        for stack in (b.mT, b[::-1].mT, b[:, : n - 1].mT if n > 2 else b.mT):
            problem = Problem(dt.name, 1, stack.shape[2], k, items, "nt")
            got = Plan(problem, config).run(a, stack)
            assert np.array_equal(got, (a.astype(wide) @ stack.astype(wide)).astype(got.dtype)), problem


@pytest.mark.parametrize("tier", [tier.name for tier in kernels.runnable()])
@pytest.mark.parametrize("at_end", [False, True])
def test_operations_on_rows(tier: str, at_end: bool, areas: Any, on_tier: Callable[[str], registry.Isa]) -> None:
    """Softmax and the others, of rows side by side and of those that are left, with what stands beside them."""
    isa = on_tier(tier)
    for op, (rows, columns) in itertools.product(row_operations.ROW_OPS, [(1, 1), (4, 15), (7, 16), (9, 33), (6, 130)]):
        for kinds in row_operations.types_of(op, isa):
            x, out = (
                area.array(rows, columns, row_operations.ROW_TYPES[kind], "n", at_end)
                for area, kind in zip(areas, kinds, strict=False)
            )
            x[:] = 1
            computed = "float64" if kinds[0] == "f64" else "float32"
            beside = areas[2].array(1, columns, computed, "n", at_end)
            beside[:] = 0.5
            source = Ref(0, x.dtype.name, 0, (0,), *x.strides)
            members: list[Any] = []
            if op.name == "softmax" and kinds[1] != kinds[0]:
                members.append(Rows("cast", columns, source, Ref(SCRATCH, "float32", 0, (0,), 4 * columns, 4)))
                source = members[0].out
            vectors = {name: Ref(2, computed, column=beside.itemsize) for name in op.vectors}
            target = Ref(1, out.dtype.name, 0, (0,), *out.strides)
            members.append(Rows(op.name, columns, source, target, {}, vectors))
            Chain(members, (1,), rows, rows, 4 * rows * columns).run([x, out, beside])
            assert np.all(out == out[0, 0])


@pytest.mark.parametrize("tier", [tier.name for tier in kernels.runnable()])
@pytest.mark.parametrize("at_end", [False, True])
def test_bytes_of_floats(tier: str, at_end: bool, areas: Any, on_tier: Callable[[str], registry.Isa]) -> None:
    on_tier(tier)
    for columns in (1, 3, 4, 15, 16, 33, 130):
        x = areas[0].array(1, columns, "float32", "n", at_end)
        x[:] = -2
        scale, out = (areas[at].array(1, n, "float32" if at == 1 else "uint8", "n", at_end)[0]
                      for at, n in ((1, 2), (2, columns)))  # fmt: skip
        to_bytes.scale_and_zero(x, scale)()
        call = to_bytes.quantise(x[0], scale[0], scale[1], out)
        assert call is not None
        assert call()
        assert (scale[1], *out) == (255, *[0] * columns)


@pytest.mark.parametrize("tier", [tier.name for tier in kernels.runnable()])
@pytest.mark.parametrize("name", ["f32", "f64", "i32"])
def test_products_that_fetch_what_comes_next(
    tier: str, name: str, areas: Any, on_tier: Callable[[str], registry.Isa], skylake: None
) -> None:
    """Tiles that fetch the next item's rows, into L2 beside a small L1, by a B in place of part of a vector."""
    isa, dt = on_tier(tier), registry.dtype(name)
    lanes, (mr, nr) = registry.lanes(dt, isa), registry.tiles(dt, isa)[0]
    rows, block, k = 24 * mr, 4 * mr, 64
    for n, letter in itertools.product((1, lanes - 1, lanes + 3, nr + 1), "nt"):
        x = areas[0].array(rows, k, dt.numpy, "n", True)
        w, out = areas[1].array(k, n, dt.numpy, letter, True), areas[2].array(rows, n, dt.numpy, "n", True)
        x[...], w[...] = integers((rows, k), dt.numpy, 1), integers((k, n), dt.numpy, 2)
        refs = [
            Ref(slot, dt.numpy, 0, (step * array.strides[0],), *array.strides)
            for slot, (array, step) in enumerate(((x, block), (w, 0), (out, block)))
        ]
        with dispatch.forced(Config("gemm", tier, mr, nr, pack="none" if letter == "n" else "b")):
            chain = Chain([Product(n, k, *refs)], (rows // block,), rows, block)
        chain.run([x, w, out], threads=1)
        assert np.array_equal(out, x @ w)
