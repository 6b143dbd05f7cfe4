"""Every compiled variant, by iterating the registry: a row added there is tested here.

Sizes are chosen from the variant's own tile, so that each named geometry takes the
path that it is named for.  Operands are small integers: results must be equal, in any
order of summation.  They lie in a sea of NaN (of the largest number where there is none), as does the output, so that
reading or writing beside an operand shows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from oracle import dtype_of, integers, normal

from fastgemm import kernels, registry
from fastgemm.heuristic.ways import shares_vectors
from fastgemm.plan import Plan
from fastgemm.problem import MAX_SMALL_K, Config, Problem

RUNNABLE = [tier.name for tier in kernels.runnable()]


def tiers() -> list[Any]:
    """Every dtype on every tier; a tier that cannot run here is skipped by name, not left out."""
    return [
        pytest.param(dt, tier, id=f"{dt.name}_{tier.name}", marks=pytest.mark.skipif(absent, reason=f"no {tier.name}"))
        for dt, tier in itertools.product(registry.DTYPES, registry.ISAS)
        if registry.supported(dt, tier)
        for absent in [tier.name not in RUNNABLE]
    ]


def small_tiers() -> list[Any]:
    """Those that the small family has kernels for."""
    return [each for each in tiers() if registry.is_small(each.values[0])]


def variants(family: str = "gemm") -> list[Any]:
    """Every register tile of every dtype on every tier."""
    return [
        pytest.param(dt, tier, mr, nr, id=registry.variant(family, dt, tier, mr, nr), marks=each.marks)
        for each in tiers()
        for dt, tier in [each.values]
        for mr, nr in registry.tiles(dt, tier)
    ]


def sea(dtype: str) -> Any:
    """What surrounds operands: NaN, or a value that no operand has."""
    kind = dtype_of(dtype)
    return np.iinfo(kind).max if kind.kind in "iu" else kind.kind == "b" or np.nan


def is_sea(array: np.ndarray) -> bool:
    """Whether an array holds nothing else."""
    value = sea(array.dtype.name)
    return bool((array == value).all() if value == value else np.isnan(array).all())


def afloat(rows: int, columns: int, dtype: str, letter: str) -> np.ndarray:
    """An array of the sea whose middle has a layout: the letters of `Problem`, and r for both axes reversed."""
    if letter == "n":
        view = np.full((rows + 2, columns + 70), sea(dtype), dtype_of(dtype))[1:-1, 3 : 3 + columns]
    elif letter == "t":
        view = np.full((columns + 2, rows + 70), sea(dtype), dtype_of(dtype))[1:-1, 3 : 3 + rows].T
    elif letter == "g":
        view = np.full((2 * rows + 2, 3 * columns + 70), sea(dtype), dtype_of(dtype))[1:-1:2, 5 : 5 + 3 * columns : 3]
    else:
        view = np.full((rows + 2, 2 * columns + 70), sea(dtype), dtype_of(dtype))[-2:0:-1, 2 * columns + 8 : 8 : -2]
    assert view.shape == (rows, columns)
    return view


@lru_cache(maxsize=4096)
def operand(rows: int, columns: int, dtype: str, letter: str, seed: int) -> np.ndarray:
    """Small integers in a layout, in a sea of NaN; z repeats the first row by a stride of zero."""
    values = integers((rows, columns), dtype, seed)
    if letter == "z":
        row = afloat(1, columns, dtype, "g")
        row[...] = values[:1]
        return np.broadcast_to(row, (rows, columns))
    view = afloat(rows, columns, dtype, letter)
    view[...] = values
    return view


@lru_cache(maxsize=4096)
def expected(m: int, n: int, k: int, dtype: str, letters: str, result: str) -> np.ndarray:
    """The exact product."""
    wide = "c16" if dtype.startswith("c") else "bool" if dtype == "bool" else "f8"
    a, b = operand(m, k, dtype, letters[0], 1), operand(k, n, dtype, letters[1], 2)
    return np.einsum("ik,kj->ij", a.astype(wide), b.astype(wide)).astype(dtype_of(result))


def check(problem: Problem, config: Config, letters: str, out_letter: str = "n") -> None:
    """Run one plan and compare all of the output and the memory around it."""
    dtype, result = problem.row.numpy, problem.row.result or problem.row.numpy
    m, n, k = problem.m, problem.n, problem.k
    a, b = operand(m, k, dtype, letters[0], 1), operand(k, n, dtype, letters[1], 2)
    out = afloat(m, n, result, out_letter)
    assert Plan(problem, config).run(a, b, out=out) is out
    want = expected(m, n, k, dtype, letters, result)
    assert np.array_equal(out, want), (problem, config)
    out[...] = sea(result)
    assert isinstance(out.base, np.ndarray)
    assert is_sea(out.base), f"wrote beside the output: {problem}, {config}"


def stack_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The exact products of a stack."""
    wide = a.dtype if a.dtype.kind in "biufc" else np.dtype("f8")
    return np.einsum("bik,bkj->bij", a.astype(wide), b.astype(wide))


# Name of a geometry and its (m, n, k) for a tile of mr x nr with vectors of `lanes` elements.
Sizes = Callable[[int, int, int], list[tuple[int, int, int]]]
GEOMETRIES: dict[str, Sizes] = {
    "aligned": lambda mr, nr, lanes: [(mr, nr, 8), (2 * mr, 2 * nr, 16)],
    "unaligned_m": lambda mr, nr, lanes: [(mr + 1, nr, 8), (3 * mr - 1, nr, 4), (1, nr, 4)],
    "unaligned_n": lambda mr, nr, lanes: [(mr, nr + 1, 8), (mr, 3 * nr - 1, 4), (mr, nr + lanes, 4)],
    "unaligned_k": lambda mr, nr, lanes: [(mr, nr, 1), (mr, nr, 3), (mr, nr, 19)],
    "n_below_a_vector": lambda mr, nr, lanes: [(mr + 1, n, 5) for n in range(1, lanes)],
    "one_column": lambda mr, nr, lanes: [(mr, 1, 9), (2 * mr + 1, 1, 9)],
    "one_element": lambda mr, nr, lanes: [(1, 1, 1), (1, 1, 20)],
    "unaligned_everywhere": lambda mr, nr, lanes: [(2 * mr + 1, 2 * nr + 1, 23)],
}
# Blocks that hold the whole problem, and blocks of a single tile with a short k.
BLOCKS: dict[str, Callable[[int, int], dict[str, int]]] = {
    "one_block": lambda mr, nr: {"mc": 20 * mr, "kc": 1024, "nc": 8 * nr},
    "many_blocks": lambda mr, nr: {"mc": mr, "kc": 7, "nc": nr},
}
LETTERS = [a + b for a in "ntgrz" for b in "ntgrz"]


def problem_of(dt: registry.DType, size: tuple[int, int, int], letters: str, **more: int) -> Problem:
    """The problem of a size; reversed and repeated operands count as g."""
    m, n, k = size
    return Problem(dt.name, m, n, k, layout=letters.replace("r", "g").replace("z", "g"), **more)


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize(("dt", "tier", "mr", "nr"), variants())
def test_geometry(dt: registry.DType, tier: registry.Isa, mr: int, nr: int, geometry: str, blocks: str) -> None:
    """Each packing mode and layout that fits."""
    for pack in registry.PACKS:
        config = Config("gemm", tier.name, mr, nr, pack=pack, **BLOCKS[blocks](mr, nr))
        for size in GEOMETRIES[geometry](mr, nr, registry.lanes(dt, tier)):
            for letters in ("nn", "tn", "gn", "nt", "tt", "ng"):
                problem = problem_of(dt, size, letters)
                if config.misfit(problem) is None:
                    check(problem, config, letters)


@pytest.mark.parametrize("pack", registry.PACKS)
@pytest.mark.parametrize(("dt", "tier", "mr", "nr"), variants())
def test_strides(dt: registry.DType, tier: registry.Isa, mr: int, nr: int, pack: str) -> None:
    """Every pair of operand layouts, negative and zero strides included, into every layout of output."""
    config = Config("gemm", tier.name, mr, nr, pack=pack, mc=mr, kc=9, nc=nr)
    for letters in LETTERS:
        problem = problem_of(dt, (mr + 1, nr + 1, 11), letters)
        if config.misfit(problem) is None:
            for out_letter in "ntgr":
                check(problem, config, letters, out_letter)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("split", registry.SPLITS)
@pytest.mark.parametrize(("dt", "tier", "mr", "nr"), variants())
def test_splits(dt: registry.DType, tier: registry.Isa, mr: int, nr: int, split: str, threads: int) -> None:
    """Each loop shared by threads, also where there is less of it than threads, and stacks."""
    sizes = [(2 * mr + 1, 2 * nr + 1, 9), (1, 1, 1), (1, nr, 3), (mr, 1, 3)]
    sizes = sizes[: 4 // threads]  # a team is slow on a busy machine
    for pack, blocks, size, batch in itertools.product(registry.PACKS, BLOCKS, sizes, (1, 3)):
        m, n, k = size
        config = Config("gemm", tier.name, mr, nr, pack=pack, split=split, threads=threads, **BLOCKS[blocks](mr, nr))
        problem = Problem(dt.name, m, n, k, batch=batch, threads=2)
        if config.misfit(problem) is not None:
            continue
        a, b = integers((batch, m, k), dt.numpy, 1), integers((batch, k, n), dt.numpy, 2)
        out = np.full((batch, m, n), sea(dt.numpy), dtype_of(dt.result or dt.numpy))
        Plan(problem, config).run(a, b, out)
        assert np.array_equal(out, stack_product(a, b)), (problem, config)


@pytest.mark.parametrize(("dt", "tier"), tiers())
def test_every_microkernel(dt: registry.DType, tier: registry.Isa) -> None:
    """Each (rows, vectors) kernel of the registry with every width of its last vector."""
    lanes = registry.lanes(dt, tier)
    tiles = registry.tiles(dt, tier)
    for rows, vectors in registry.shapes(dt, tier):
        mr, nr = next((mr, nr) for mr, nr in tiles if rows <= mr and vectors * lanes <= nr)
        for n in range((vectors - 1) * lanes + 1, vectors * lanes + 1):
            for pack in registry.PACKS:
                problem, config = problem_of(dt, (rows, n, 6), "nn"), Config("gemm", tier.name, mr, nr, pack=pack)
                if config.misfit(problem) is None:
                    check(problem, config, "nn")


@pytest.mark.parametrize(("dt", "tier"), tiers())
def test_every_deep_microkernel(dt: registry.DType, tier: registry.Isa) -> None:
    """Each kernel with several sets of accumulators, every width, and steps of k that are left over.

    Of types that are converted as well, which have those of what they become.
    """
    mr, nr = registry.tiles(dt, tier)[0]
    for rows, sets in registry.deep(registry.dtype(registry.kernels_of(dt, "gemm")), tier):
        for n in range(2, registry.lanes(dt, tier) + 1):
            for at, letters in enumerate(LETTERS):
                problem = problem_of(dt, (rows, n, registry.DEEP_STEPS + (n + at) % (sets + 1)), letters)
                for pack, kc in (("none", 1024), ("ab", 300)):
                    config = Config("gemm", tier.name, mr, nr, kc=kc, pack=pack)
                    if config.misfit(problem) is None:
                        check(problem, config, letters)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("dt", "tier"), tiers())
def test_gemv(dt: registry.DType, tier: registry.Isa, threads: int) -> None:
    """One row of output, the matrix by rows and by columns, the vectors in every layout."""
    config = Config("gemv", tier.name, threads=threads)
    lanes = registry.lanes(dt, tier)
    widths = sorted({1, 2, lanes - 1, lanes, lanes + 1, 4 * lanes, 7 * lanes + 3} - {0})
    some = LETTERS if threads == 1 else ["nn", "nt", "gt"]  # a team is slow on a busy machine
    for n, k, letters in itertools.product(widths, (1, 2, 5, lanes, 3 * lanes + 1), some):
        problem = problem_of(dt, (1, n, k), letters, threads=2)
        if config.misfit(problem) is None and letters[1] in "nt":
            for out_letter in "ngr"[: 4 // threads]:
                check(problem, config, letters, out_letter)


@pytest.mark.parametrize(("dt", "tier"), tiers())
def test_gemv_longer_than_its_chunks(dt: registry.DType, tier: registry.Isa) -> None:
    """Strided vectors are copied in chunks: sizes beyond one."""
    if not registry.computes("gemv", dt):
        pytest.skip("no gemv kernels for this dtype")
    for n, k, letters in [(3, 20000, "gn"), (3, 20000, "gt"), (20000, 3, "nn"), (20000, 2, "gt")]:
        check(problem_of(dt, (1, n, k), letters), Config("gemv", tier.name), letters, "g")


@pytest.mark.parametrize(("dt", "tier"), tiers())
def test_gemv_of_a_matrix_in_l3(dt: registry.DType, tier: registry.Isa) -> None:
    """Columns adjacent along k, 2.5 MiB of them: right, and the bits of a few of them by themselves."""
    k, letters = 1003, "nt"
    n = (5 << 19) // (k * dtype_of(dt.numpy).itemsize) + 3
    config = Config("gemv", tier.name)
    if not registry.computes("gemv", dt) or config.misfit(problem_of(dt, (1, n, k), letters)) is not None:
        pytest.skip("no gemv kernels for this dtype")
    check(problem_of(dt, (1, n, k), letters), config, letters)
    if dtype_of(dt.numpy).kind in "fc":
        a, b = normal((1, k), dt.numpy, 1), normal((n, k), dt.numpy, 2)
        whole = Plan(problem_of(dt, (1, n, k), letters), config).run(a, b.T)
        for first, count in [(0, 40), (20, 43), (n - n % 4 - 4, 4 + n % 4)]:
            some = Plan(problem_of(dt, (1, count, k), letters), config).run(a, b[first : first + count].T)
            assert np.array_equal(some[:, : count // 4 * 4], whole[:, first : first + count // 4 * 4]), (first, count)


@pytest.mark.parametrize(("dt", "tier"), tiers())
def test_gemv_stacks(dt: registry.DType, tier: registry.Isa) -> None:
    for split, batch in itertools.product(("n", "batch"), (1, 3)):
        config = Config("gemv", tier.name, split=split, threads=2)
        problem = Problem(dt.name, 1, 21, 17, batch=batch, threads=2)
        if config.misfit(problem) is None:
            a, b = integers((batch, 1, 17), dt.numpy, 1), integers((batch, 17, 21), dt.numpy, 2)
            assert np.array_equal(Plan(problem, config).run(a, b), stack_product(a, b))


@pytest.mark.parametrize(("dt", "tier"), tiers())
def test_gemv_of_a_few_rows(dt: registry.DType, tier: registry.Isa) -> None:
    """Every number of rows, ends of strips and of vectors, of passes over k, every layout of A, teams, stacks."""
    if not registry.strips("gemv", dt):
        pytest.skip("not in strips")
    lanes = registry.lanes(dt, tier)
    for m in range(2, registry.STRIP_ROWS + 1):
        for n, k in itertools.product((1, lanes, 2 * lanes + 1, 70, 200), (1, 2, 5, 8, 13)):
            letters, out_letter = LETTERS[(m + n + k) % len(LETTERS)][0] + "n", "ngr"[(n + k) % 3]
            check(problem_of(dt, (m, n, k), letters), Config("gemv", tier.name, nc=64), letters, out_letter)
        for split in ("n", "k"):
            problem = problem_of(dt, (m, 5000, 9), "nn", threads=2)
            check(problem, Config("gemv", tier.name, nc=256, split=split, threads=2), "nn")
        for split, batch in itertools.product(("n", "batch"), (1, 3)):
            config = Config("gemv", tier.name, nc=64, split=split, threads=2)
            problem = Problem(dt.name, m, 70, 17, batch=batch, threads=2)
            if config.misfit(problem) is None:
                a, b = integers((batch, m, 17), dt.numpy, 1), integers((batch, 17, 70), dt.numpy, 2)
                assert np.array_equal(Plan(problem, config).run(a, b), stack_product(a, b))


def lines(rows: int, columns: int, dtype: str, first: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
    """An array of the sea that begins a line and whose rows are whole lines, and its part from column `first` on."""
    item = dtype_of(dtype).itemsize
    wide = -(-(first + columns) * item // 64) * 64 // item
    room = np.empty(batch * rows * wide * item + 64, "u1")
    room = room[-room.ctypes.data % 64 :][: batch * rows * wide * item]
    whole = room.view(dtype_of(dtype)).reshape(batch, rows, wide)
    whole[...] = sea(dtype)
    return whole, whole[:, :, first : first + columns]


@pytest.mark.parametrize(("dt", "tier"), tiers())
def test_right_operands_begin_anywhere_in_a_line(dt: registry.DType, tier: registry.Isa) -> None:
    """B read in place whose rows begin alike: where that is moves where panels begin, and changes no bit."""
    lanes, item = registry.lanes(dt, tier), dtype_of(dt.numpy).itemsize
    n, k = 37 * lanes + 1, 270
    whole: list[tuple[int, int, Config]] = []
    for high, wide in registry.tiles(dt, tier):
        for m, threads in itertools.product((1, high, 2 * high + 1), (1, 2)):
            config = Config("gemm", tier.name, high, wide, pack="none", split="n", threads=threads)
            whole += [(m, 1, config), (m, 1, config.replace(mc=high, kc=135, nc=20 * wide))]
        small = Config("small", tier.name, high, wide, pack="none")
        whole += [(m, batch, small) for m in (1, high, high + 1, 3 * high) for batch in (1, 3)]
    whole += [(m, 1, Config("gemv", tier.name, nc=10 * lanes, threads=t)) for m in (2, 3, 8) for t in (1, 2)]
    rng, some = np.random.default_rng(0), max(1, 16 // item)
    for m, batch, config in whole:
        problem = Problem(dt.name, m, n, k, batch=batch, threads=2)
        if config.misfit(problem) is not None or (config.family == "small" and not registry.is_small(dt)):
            continue
        a = integers((batch, m, k), dt.numpy, 1)
        numbers = integers((batch, k, n), dt.numpy, 2)
        wide = {"b": "bool", "i": "i8", "c": "c16"}.get(a.dtype.kind, "f8")
        want = stack_product(a.astype(wide), numbers.astype(wide)).astype(dtype_of(dt.result or dt.numpy))
        rounded, bits = rng.normal(size=a.shape).astype(a.dtype), None
        for first in (0, 1, some, 2 * some, 3 * some, 64 // item - 1):
            b = lines(k, n, dt.numpy, first, batch)[1]
            around, c = lines(m, n, dt.result or dt.numpy, 3, batch)
            b[...] = numbers
            Plan(problem, config).run(a, b, c)
            assert np.array_equal(c, want), (problem, config, first)
            if not dt.exact:
                Plan(problem, config).run(rounded, b, c)
                bits = c.copy() if bits is None else bits
                assert np.array_equal(c, bits), (problem, config, first)
            c[...] = sea(around.dtype.name)
            assert is_sea(around), f"wrote beside the output: {problem}, {config}, {first}"


def dots_tiers() -> list[Any]:
    """Those that the dots family has kernels for."""
    return [each for each in tiers() if registry.computes("dots", each.values[0])]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("dt", "tier"), dots_tiers())
def test_dots(dt: registry.DType, tier: registry.Isa, threads: int) -> None:
    """Every height and width of a tile, remainders of k; blocks of k and of columns; outputs that are no plain ones."""
    lanes, columns = registry.lanes(dt, tier), registry.dot_step(dt, tier)
    rows = (*range(1, registry.DOT_ROWS + 2), 4 * registry.DOT_ROWS + 1)
    widths = (*range(1, columns + 2), 5 * columns + 2)
    for m, n, k in itertools.product(rows, widths, (1, lanes - 1 or 2, lanes, 2 * lanes + 1)):
        problem = problem_of(dt, (m, n, k), "nt", threads=2)
        for split, out_letter in (("n", "n"), ("m", "g"), ("k", "n"))[: 3 if threads == 2 else 1]:
            check(problem, Config("dots", tier.name, split=split, threads=threads), "nt", out_letter)
    blocks = {"one_block": (96, 1024, 1024), "many_blocks": (3, 64, columns + 1)}
    for (mc, kc, nc), k in itertools.product(blocks.values(), (64, 65, 200)):
        config = Config("dots", tier.name, mc=mc, kc=kc, nc=nc, split="n", threads=threads)
        for m, n, out_letter in itertools.product((2, 7, 13), (40, 61), "ngrt"):
            check(problem_of(dt, (m, n, k), "nt", threads=2), config, "nt", out_letter)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("dt", "tier"), dots_tiers())
def test_dots_of_few_rows_and_short_columns(dt: registry.DType, tier: registry.Isa, threads: int) -> None:
    """Short columns side by side and apart, alone and in stacks, shared by columns and by products, into any output."""
    lanes = registry.lanes(dt, tier)
    one = Config("dots", tier.name, split="n", threads=threads)
    for k, n in itertools.product((*range(1, 10), lanes, 70), (1, 2, lanes, 2 * lanes + 3, 301)):
        for m, out_letter in ((1, "n"), (1, "g"), (2, "n"), (3, "g"), (4, "n"), (7, "n")):
            check(problem_of(dt, (m, n, k), "nt", threads=2), one, "nt", out_letter)
    if dt.narrows and dt.group > 1:
        return
    kind = dtype_of(dt.result or dt.numpy)
    for k, n, m in itertools.product((2, 3, 5, 8, 9, 33), (1, 3, lanes, 70), (1, 3, 6)):
        config = one.replace(split="batch" if threads == 2 and m % 2 else "n")
        problem = Problem(dt.name, m, n, k, batch=5, layout="nt", threads=2)
        x, columns = integers((5, m, k), dt.numpy, 1), integers((5, n, k), dt.numpy, 2)
        want = stack_product(x.astype(kind), columns.astype(kind).swapaxes(1, 2))
        apart = np.zeros((5, n, k + 3), columns.dtype)
        apart[..., :k] = columns
        near = np.zeros((5, n, k + 1), columns.dtype)
        near[..., 1:] = columns
        for b in (columns, apart[..., :k], near[..., 1:], np.repeat(columns, 2, axis=0)[::2]):
            out = np.zeros((10, m, n), kind)
            Plan(problem, config).run(x, b.swapaxes(1, 2), out[::2])
            assert np.array_equal(out[::2], want.astype(kind))
            assert not out[1::2].astype(bool).any()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("dt", "tier"), dots_tiers())
def test_dots_of_a_few_columns_by_rows(dt: registry.DType, tier: registry.Isa, threads: int) -> None:
    """B is turned over first: blocks of rows, of columns and of k, threads that share each, stacks."""
    if dt.parts == 2:
        pytest.skip("complex numbers are not turned over")
    for (m, n), k, mc in itertools.product(((2, 2), (9, 5), (40, 13)), (1, 3, 65, 200), (4, 96)):
        for split, out_letter in (("n", "n"), ("m", "g"), ("k", "n"))[: 3 if threads == 2 else 1]:
            config = Config("dots", tier.name, mc=mc, kc=64 * mc, nc=4 * mc, split=split, threads=threads)
            check(problem_of(dt, (m, n, k), "nn", threads=2), config, "nn", out_letter)
    config = Config("dots", tier.name, split="batch" if threads == 2 else "n", threads=threads)
    problem = Problem(dt.name, 70, 5, 66, batch=3, threads=2)
    if dt.narrows and dt.group > 1:
        return
    a, b = integers((3, 70, 66), dt.numpy, 1), integers((3, 66, 5), dt.numpy, 2)
    kind = dt.result or a.dtype
    assert np.array_equal(Plan(problem, config).run(a, b), stack_product(a.astype(kind), b.astype(kind)))


@pytest.mark.parametrize(("dt", "tier"), dots_tiers())
def test_dots_have_the_same_bits_in_any_company(dt: registry.DType, tier: registry.Isa) -> None:
    """A row of the output, and a column, do not depend on how many others there are."""
    rng = np.random.default_rng(3)
    kind = dtype_of(dt.numpy)
    a, w = (rng.standard_normal((rows, 150)).astype(kind) for rows in (9, 25))
    config = Config("dots", tier.name)

    def product(rows: slice, columns: slice) -> np.ndarray:
        left, right = a[rows], w[columns].T
        return Plan(problem_of(dt, (len(left), right.shape[1], 150), "nt"), config).run(left, right)

    whole = product(slice(None), slice(None))
    for first, last in ((0, 1), (0, 2), (3, 6), (4, 9)):
        assert np.array_equal(product(slice(first, last), slice(None)), whole[first:last])
        assert np.array_equal(product(slice(None), slice(first, last)), whole[:, first:last])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("dt", "tier"), small_tiers())
def test_tall_and_narrow(dt: registry.DType, tier: registry.Isa, threads: int) -> None:
    """More rows than are converted at a time, a B that is too large to be, a last piece of few rows; stacks."""
    mr, nr = registry.tiles(dt, tier)[0]
    for letters, out_letter in (("nn", "n"), ("tn", "n"), ("nt", "n"), ("gn", "n"), ("nn", "r"), ("tt", "g")):
        config = Config(
            "small", tier.name, mr, nr, pack="b" if letters[1] == "t" else "none", split="m", threads=threads
        )
        for m, n, k in ((2 * 1024 + 3, 2, 3), (1100, 3, 8), (1030, 8, 5), (70, 8, 150), (64, 7, 16)):
            problem = problem_of(dt, (m, n, k), letters, threads=2)
            if config.misfit(problem) is None:
                check(problem, config, letters, out_letter)
    a, b = integers((3, 70, 5), dt.numpy, 1), integers((3, 5, 4), dt.numpy, 2)
    config = Config("small", tier.name, mr, nr, split="batch", threads=threads)
    want = stack_product(*(x.astype(dtype_of(dt.result)) if dt.result else x for x in (a, b)))
    assert np.array_equal(Plan(Problem(dt.name, 70, 4, 5, batch=3, threads=2), config).run(a, b), want)


@pytest.mark.parametrize(("dt", "tier"), dots_tiers())
def test_dots_stacks(dt: registry.DType, tier: registry.Isa) -> None:
    for split, batch in itertools.product(("n", "batch"), (1, 5)):
        config = Config("dots", tier.name, split=split, threads=2)
        problem = Problem(dt.name, 3, 21, 70, batch=batch, layout="nt", threads=2)
        if config.misfit(problem) is None:
            a, w = integers((batch, 3, 70), dt.numpy, 1), integers((batch, 21, 70), dt.numpy, 2)
            b = np.swapaxes(w, 1, 2)
            want = stack_product(*(x.astype(dtype_of(dt.result)) if dt.result else x for x in (a, b)))
            assert np.array_equal(Plan(problem, config).run(a, b), want)


@pytest.mark.parametrize(("dt", "tier", "mr", "nr"), variants("small"))
def test_small(dt: registry.DType, tier: registry.Isa, mr: int, nr: int) -> None:
    """Tiles, rows that share vectors, panels of a tall and of a wide product; outputs that are no plain ones."""
    config = Config("small", tier.name, mr, nr)
    lanes = registry.lanes(dt, tier)
    widths = sorted({*range(1, 10), lanes - 1, lanes + 1, nr, 2 * nr + 3} - {0})
    for n, m, k in itertools.product(widths, (1, 3, 2 * mr, 4 * lanes + 1), (1, 3, 8)):
        for letters, out_letter in (("nn", "n"), ("tn", "n"), ("gn", "n"), ("nn", "r"), ("tn", "g"), ("rn", "t")):
            problem = problem_of(dt, (m, n, k), letters)
            if config.misfit(problem) is None:
                check(problem, config, letters, out_letter)


@pytest.mark.parametrize(("dt", "tier"), small_tiers())
def test_small_narrow(dt: registry.DType, tier: registry.Isa) -> None:
    """Every width of narrow rows, with each remainder of rows and of k, and C with gaps between rows."""
    config = Config("small", tier.name, *registry.tiles(dt, tier)[0])
    widest = max(registry.narrow_widths(dt, tier), default=0) // dt.parts
    for n in range(2, widest + 1):
        sizes = itertools.product((*range(1, 10), 31, 63, 70), (*range(1, 7), 8))
        for m, k in (*sizes, (31, MAX_SMALL_K + 3), (150, 70)):
            for letters in ("nn", "tn"):
                problem = problem_of(dt, (m, n, k), letters)
                if k > MAX_SMALL_K and not shares_vectors(problem, tier):
                    assert "does not cut" in (config.misfit(problem) or "")
                    continue
                a, b = operand(m, k, dt.numpy, letters[0], 1), operand(k, n, dt.numpy, letters[1], 2)
                result = dt.result or dt.numpy
                tight = np.full((m + 2, n), sea(result), dtype_of(result))
                for out in (tight[1:-1], afloat(m, n, result, "n")):
                    Plan(problem, config).run(a, b, out=out)
                    assert np.array_equal(out, expected(m, n, k, dt.numpy, letters, result)), (problem, out.strides)
                assert is_sea(tight[[0, -1]])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("dt", "tier"), small_tiers())
def test_small_stacks(dt: registry.DType, tier: registry.Isa, threads: int) -> None:
    """Stacks, shared by threads or not, with steps of every sign and operands that repeat."""
    tiles = registry.tiles(dt, tier)
    sizes = [(8, 8, 8), (4, 4, 4), (2, 2, 2), (3, 5, 7)]
    cases = [(tile, size) for tile in tiles[-2:] for size in sizes]
    for mr, nr in tiles[-2:]:
        cases += [((mr, nr), size) for size in ((2 * mr + 1, nr + 1, 5), (2 * mr, nr, 3), (1, 2 * nr, 2))]
    for ((mr, nr), (m, n, k)), split in itertools.product(cases, ("batch", "m", "n")):
        config = Config("small", tier.name, mr, nr, split=split, threads=threads)
        a, b = integers((11, m, k), dt.numpy, 1), integers((11, k, n), dt.numpy, 2)
        repeated = np.broadcast_to(b[:1], b.shape)
        for left, right in ((a, b), (a[::-1], b), (a, repeated)):
            out = np.full((11, m, n), sea(dt.numpy), dtype_of(dt.result or dt.numpy))
            Plan(Problem(dt.name, m, n, k, batch=11, threads=2), config).run(left, right, out)
            assert np.array_equal(out, stack_product(left, right)), (m, n, k, split)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("dt", "tier"), small_tiers())
def test_small_turned(dt: registry.DType, tier: registry.Isa, threads: int) -> None:
    """Stacks whose B has no adjacent columns: transposed and strided, into outputs with and without gaps."""
    mr, nr = registry.tiles(dt, tier)[0]
    lanes = registry.lanes(dt, tier)
    sizes = [(8, 8, 8), (3, 2, 5), (5, 3, 1), (mr + 1, nr + 1, lanes + 1), (2, lanes + 1, 2 * lanes), (9, 4, 33)]
    for m, n, k in sizes:
        a, b = integers((5, m, k), dt.numpy, 1), integers((5, k, n), dt.numpy, 2)
        want, kind = stack_product(a, b), dtype_of(dt.result or dt.numpy)
        around = np.full((5, n, 2 * k + 3), sea(dt.numpy), dtype_of(dt.numpy))
        for view, letter in ((around[:, :, 1 : k + 1], "t"), (around[:, :, 1 : 2 * k + 1 : 2], "g")):
            turned = view.swapaxes(1, 2)
            turned[...] = b
            problem = Problem(dt.name, m, n, k, batch=5, layout="n" + letter, threads=2)
            config = Config("small", tier.name, mr, nr, pack="b", split="batch", threads=threads)
            assert config.misfit(problem) is None
            for out in (np.zeros((5, m, n), kind), np.zeros((5, m, 2 * n), kind)[:, :, ::2]):
                assert np.array_equal(Plan(problem, config).run(a, turned, out), want), (m, n, k, letter)
            around[...] = sea(dt.numpy)


@pytest.mark.parametrize(("dt", "tier"), small_tiers())
def test_small_has_the_bits_of_gemm(dt: registry.DType, tier: registry.Isa) -> None:
    """One order of summation, whichever kernel takes a product: `out` and its strides choose among them."""
    rng = np.random.default_rng(0)
    mr, nr = registry.tiles(dt, tier)[0]
    for m, n, k in [(8, 8, 8), (37, 2, 11), (64, 3, 5), (33, 4, 70), (17, 7, 9), (70, nr + 1, 20)]:
        a, b = (rng.standard_normal(shape) + 0j for shape in ((m, k), (k, n)))
        if dt.parts == 2:
            a, b = a * (1 - 2j), b + 1j * b[::-1]
        a, b = ((x if dt.parts == 2 else x.real * (50 if dt.exact else 1)).astype(dtype_of(dt.numpy)) for x in (a, b))
        pack, kind = "ab" if dt.converts else "none", dtype_of(dt.result or dt.numpy)
        want = Plan(Problem(dt.name, m, n, k), Config("gemm", tier.name, mr, nr, kc=1024, pack=pack)).run(a, b)
        gaps = np.zeros((m, 2 * n), kind)[:, ::2]
        for x in (a, a.copy("F")):
            problem = Problem(dt.name, m, n, k, layout="nn" if x is a else "tn")
            for out in (np.zeros((m, n), kind), np.zeros((m, n + 3), kind)[:, 1:-2], gaps):
                got = Plan(problem, Config("small", tier.name, mr, nr)).run(x, b, out)
                assert got.tobytes() == want.tobytes(), (m, n, k, problem.layout, out.strides)


@pytest.mark.parametrize(("dt", "tier"), [each for each in small_tiers() if each.values[0].group > 1])
@pytest.mark.parametrize("signs", ["ii", "iu", "ui", "uu"])
def test_small_bytes_of_either_sign(dt: registry.DType, tier: registry.Isa, signs: str) -> None:
    """Sums of bytes over their whole range, in every kernel that takes them."""
    rng = np.random.default_rng(3)
    for mr, nr in registry.tiles(dt, tier):
        for m, n, k in [(2, 2, 1), (9, 3, 5), (70, 2, 2), (35, 7, 9), (mr + 1, nr + 1, 8), (2 * mr, 2 * nr + 3, 20)]:
            limits = [np.iinfo(sign + "1") for sign in signs]
            pairs = zip(limits, ((m, k), (k, n)), strict=True)
            a, b = (rng.integers(x.min, x.max + 1, size, x.dtype) for x, size in pairs)
            a[0], b[:, 0] = limits[0].min, limits[1].max
            want = a.astype("i4") @ b.astype("i4")
            for left, letter in ((a, "n"), (a.copy("F"), "t")):
                problem = Problem(dt.name, m, n, k, layout=letter + "n")
                for out in (np.zeros((m, n), "i4"), np.zeros((n, m), "i4").T):
                    assert np.array_equal(Plan(problem, Config("small", tier.name, mr, nr)).run(left, b, out), want)


@pytest.mark.parametrize(("dt", "tier"), tiers())
def test_deep_k(dt: registry.DType, tier: registry.Isa) -> None:
    """A long sum over many blocks of k, still exact."""
    mr, nr = registry.tiles(dt, tier)[0]
    for pack, kc in itertools.product(registry.PACKS, (256, 4096)):
        config = Config("gemm", tier.name, mr, nr, pack=pack, kc=kc, nc=nr)
        problem = problem_of(dt, (mr + 1, nr + 1, 2049), "nn")
        if config.misfit(problem) is None:
            check(problem, config, "nn")
