"""Products by tile registers: every kernel, where A may begin, what follows a product, and systems that give none.

The kernels are those of the registry's families `by_matrices`; the module's tests that need them are skipped by name
where a CPU has none, and the rules are tested everywhere.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from conftest import Child
from oracle import dtype_of, integers, laid
from test_quantized import full, wide
from test_variants import BLOCKS, GEOMETRIES, LETTERS, check, problem_of, sea, stack_product

import fastgemm
from fastgemm import cpu, dispatch, graph, kernels, registry
from fastgemm.heuristic import matrices, packed_b, rules, ways
from fastgemm.plan import Plan
from fastgemm.problem import MAX_BYTES_K, PACKED, Config, Problem

V4 = registry.isa("v4")
FAMILIES = [family.name for family in registry.FAMILIES if registry.by_matrices(family.name)]


def variants() -> list[Any]:
    """Every tile of every dtype of every family."""
    return [
        pytest.param(
            family, dt, mr, nr, id=registry.variant(family, dt, V4, mr, nr),
            marks=pytest.mark.skipif(not kernels.has(family, "v4"), reason=f"no {family}"),
        )
        for family in FAMILIES
        for dt in registry.rows_of(V4, family)
        for mr, nr in registry.tiles(dt, V4, family)
    ]  # fmt: skip


def dtypes() -> list[Any]:
    """Every dtype of every family."""
    seen = {each.values[1].name: each for each in variants()}
    return [pytest.param(*each.values[:2], id=name, marks=each.marks) for name, each in seen.items()]


def config(family: str, mr: int, nr: int, **more: Any) -> Config:
    # (What is cut into limbs is copied.)
    pack = {"pack": "ab"} if registry.by_limbs(family) else {}
    return Config(family, "v4", mr, nr, **{"pack": "b", **more, **pack})


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize(("family", "dt", "mr", "nr"), variants())
def test_geometry(family: str, dt: registry.DType, mr: int, nr: int, geometry: str) -> None:
    for pack, blocks in itertools.product(("b", "ab"), BLOCKS.values()):
        made = config(family, mr, nr, **blocks(mr, nr), pack=pack)
        for size in GEOMETRIES[geometry](mr, nr, registry.lanes(dt, V4)):
            for letters in ("nn", "tn", "gn", "nt", "tt", "ng"):
                check(problem_of(dt, size, letters), made, letters)


@pytest.mark.parametrize(("family", "dt", "mr", "nr"), variants())
def test_every_number_of_rows_and_columns(family: str, dt: registry.DType, mr: int, nr: int) -> None:
    """And of steps of k: registers are filled, or end inside a row, a column or a chunk."""
    for m in range(1, 2 * mr + 2):
        check(problem_of(dt, (m, nr + m % 16, 1 + 7 * m), "nn"), config(family, mr, nr, kc=100, nc=nr), "nn")
    for n in range(1, 2 * nr + 2):
        check(problem_of(dt, (mr - n % 7, n, 64), "nn"), config(family, mr, nr), "nn")
    for k in range(1, 200):
        check(problem_of(dt, (mr + 1, nr, k), "nt"), config(family, mr, nr, kc=64), "nt")


@pytest.mark.parametrize(("family", "dt", "mr", "nr"), variants())
def test_strides(family: str, dt: registry.DType, mr: int, nr: int) -> None:
    for letters, out_letter in itertools.product(LETTERS, "ntgr"):
        for pack in ("b", "ab"):
            made = config(family, mr, nr, pack=pack, mc=mr, kc=64, nc=nr)
            check(problem_of(dt, (mr + 1, nr + 1, 71), letters), made, letters, out_letter)


@pytest.mark.parametrize("split", registry.SPLITS)
@pytest.mark.parametrize(("family", "dt", "mr", "nr"), variants())
def test_splits(family: str, dt: registry.DType, mr: int, nr: int, split: str) -> None:
    for (m, n, k), blocks, batch in itertools.product(((2 * mr + 1, 2 * nr + 1, 200), (1, 1, 1)), BLOCKS, (1, 3)):
        made = config(family, mr, nr, split=split, threads=2, **BLOCKS[blocks](mr, nr))
        problem = Problem(dt.name, m, n, k, batch=batch, threads=2)
        if made.misfit(problem) is not None:
            continue
        a, b = integers((batch, m, k), dt.numpy, 1), integers((batch, k, n), dt.numpy, 2)
        out = np.full((batch, m, n), sea(dt.numpy), dtype_of(dt.result or dt.numpy))
        Plan(problem, made).run(a, b, out)
        want = stack_product(a.astype("f8"), b.astype("f8"))
        assert np.array_equal(out, want.astype("i8" if dt.exact else "f8").astype(out.dtype)), (problem, made)


@pytest.mark.parametrize(("family", "dt"), dtypes())
def test_rows_of_a_begin_anywhere(family: str, dt: registry.DType) -> None:
    """In place where they begin lines and are whole chunks, and copied where not: the same bits."""
    rng, kind = np.random.default_rng(0), dtype_of(dt.numpy)
    for k, gap in ((128, 0), (128, 64), (128, 3), (96, 32), (70, 0)):
        room = np.zeros((40 * (k + gap) + 128,), kind)
        line = -room.ctypes.data % 64 // kind.itemsize
        numbers = (rng.normal(size=(40, k)) * 20).astype(kind)
        b = (rng.normal(size=(k, 70)) * 20).astype(kind)
        bits = set()
        for first in (0, 1, 16, 32):
            a = room[line + first :][: 40 * (k + gap)].reshape(40, k + gap)[:, :k]
            a[...] = numbers
            for pack in ("b", "ab"):
                made = config(family, 32, 32, pack=pack, kc=64)
                bits.add(Plan(Problem(dt.name, 40, 70, k), made).run(a, b).tobytes())
        assert len(bits) == 1


@pytest.mark.parametrize(("kind_a", "kind_b"), [a + b for a in ("i", "u") for b in ("i", "u")])
@pytest.mark.parametrize("nr", [32, 64])
@pytest.mark.skipif(not kernels.has("amx_int8", "v4"), reason="no amx_int8")
def test_bytes_of_every_sign(kind_a: str, kind_b: str, nr: int) -> None:
    """The whole range, with zero points of rows and columns, called as it is and packed before."""
    mr = 1024 // nr
    for (m, n, k), order in itertools.product([(1, 17, 5), (33, 70, 64), (16, 64, 200), (70, 15, 129)], "nt"):
        a = laid(full((m, k), {"i": "int8", "u": "uint8"}[kind_a], 1), order)
        b = full((k, n), {"i": "int8", "u": "uint8"}[kind_b], 2)
        rows, columns = full((m,), a.dtype.name, 3), full((n,), b.dtype.name, 4)
        with dispatch.forced(config("amx_int8", mr, nr, kc=64)):
            assert np.array_equal(fastgemm.matmul(a, b, dtype=np.int32), wide(a) @ wide(b))
            got = fastgemm.matmul_integer(a, b, rows, columns)
            assert np.array_equal(got, wide(a, rows[:, None]) @ wide(b, columns))
            assert np.array_equal(fastgemm.matmul_integer(a, b, rows[0]), wide(a, rows[:1]) @ wide(b))
        packed = fastgemm.pack(b, rows=m, zero_point=columns)
        assert np.array_equal(packed.toarray(), b)
        assert np.array_equal(fastgemm.matmul_integer(a, packed, rows), wide(a, rows[:, None]) @ wide(b, columns))


@pytest.mark.parametrize("n", [16, 70, 130])
@pytest.mark.skipif(not kernels.has("amx_int8", "v4"), reason="no amx_int8")
def test_quantised_as_by_vectors(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums become bytes, or floats with an activation: what vectors of dot products make of them."""
    rng = np.random.default_rng(1)
    a, b = full((70, 200), "uint8", 1), full((200, n), "int8", 2)
    scale, bias = np.geomspace(1e-4, 1e-2, n).astype("f4"), rng.normal(size=n).astype("f4")
    made = []
    for family, mr, nr in (("amx_int8", 32, 32), ("amx_int8", 16, 64), ("vnni", 6, 64)):
        if family == "vnni":
            # What is packed is packed for vectors too.
            monkeypatch.setattr(kernels, "matrix_family", lambda row, tier: "")
        with dispatch.forced(Config(family, "v4", mr, nr, kc=1 << 20, pack="b")):
            terms = (np.float32(0.5), np.uint8(7), b, scale, np.int8(0), np.float32(2), np.uint8(3))
            y = fastgemm.qlinear_matmul(a, *terms)
            packed = fastgemm.pack(b)
            assert packed.panels is not None
            assert packed.panels.family.name == family
            floats = fastgemm.qlinear(a, packed, scale, bias, x_zero_point=np.uint8(7), activation="relu")
            gelu = fastgemm.qlinear(a, packed, scale, bias, activation="gelu")
        made.append((y.tobytes(), floats.tobytes(), gelu.tobytes()))
    assert len(set(made)) == 1


@pytest.mark.parametrize(("mr", "nr"), [(32, 32), (16, 64), (32, 16)])
@pytest.mark.parametrize("kind", ["i1", "u1"])
@pytest.mark.skipif(not kernels.has("amx_int8", "v4"), reason="no amx_int8")
def test_results_that_wait(kind: str, mr: int, nr: int) -> None:
    """Bytes of a tile are rounded while the next one is multiplied: of the last one too, and ties wherever they are.

    Panels of several widths and tiles of several heights follow each other; the scales make a half of nearly every
    second result in one column, or of none.
    """
    ends, one, zero = np.iinfo(kind), np.float32(1), np.array(3, kind)
    with dispatch.forced(Config("amx_int8", "v4", mr, nr, mc=64, kc=1 << 20, nc=128, pack="b")):
        few = (1, nr, 64), (mr, nr + 5, 13), (2 * mr + 3, 2 * nr + 17, 70)
        for m, n, k in (*few, (70, 3 * nr, 256), (130, 150, 700)):
            a, b = full((m, k), "u1", m) >> 5, full((k, n), "i1", n) >> 4
            for a_zero, column in ((None, 0), (np.uint8(2), n - 1), (np.uint8(1), n // 2)):
                scales = np.linspace(0.01, 0.1, n).astype("f4")
                scales[column] = 0.5
                total = wide(a, None if a_zero is None else np.asarray(a_zero)) @ wide(b)
                want = (np.rint(total * scales.astype("f8")) + 3).clip(ends.min, ends.max).astype(kind)
                packed = fastgemm.pack(b)
                assert packed.panels is not None
                assert packed.panels.family.name == "amx_int8"
                for right in (b, packed):
                    got = fastgemm.qlinear_matmul(a, one, a_zero, right, scales, None, one, zero)
                    assert np.array_equal(got, want), (m, n, k, a_zero, type(right))


@pytest.mark.skipif(not kernels.has("amx_bf16", "v4"), reason="no amx_bf16")
def test_halves_beside_what_is_no_number() -> None:
    """Rows and columns of infinities and NaN stay what they are, and stay where they are."""
    kind = dtype_of("bfloat16")
    a, b = integers((40, 70), "bfloat16", 1), integers((70, 50), "bfloat16", 2)
    a[3, 5], a[7] = np.nan, np.inf
    b[5, 9] = -np.inf
    with np.errstate(invalid="ignore"):
        want = a.astype("f4") @ b.astype("f4")
    for mr, nr in registry.tiles(registry.dtype("bf16"), V4, "amx_bf16"):
        got = Plan(Problem("bf16_f32", 40, 50, 70), config("amx_bf16", mr, nr)).run(a, b)
        assert np.array_equal(got, want, equal_nan=True)
        rounded = Plan(Problem("bf16", 40, 50, 70), config("amx_bf16", mr, nr)).run(a, b)
        assert np.array_equal(rounded.astype("f4"), want.astype(kind).astype("f4"), equal_nan=True)


@pytest.mark.skipif(not kernels.has("amx_bf16", "v4"), reason="no amx_bf16")
def test_layers_of_halves() -> None:
    """Bias, residual and activations follow sums in float32, which are rounded once."""
    rng, kind = np.random.default_rng(2), dtype_of("bfloat16")
    x, w = (rng.normal(size=size).astype(kind) for size in ((70, 200), (130, 200)))
    bias, residual = rng.normal(size=130).astype(kind), rng.normal(size=(70, 130)).astype(kind)
    sums = x.astype("f8") @ w.astype("f8").T + bias.astype("f8")
    for weight in (w, fastgemm.pack(w, trans=True), fastgemm.pack(w, trans=True, rows=200)):
        for activation, want in (("relu", np.maximum(sums, 0)), ("tanh", np.tanh(sums)), (None, sums)):
            got = fastgemm.linear(x, weight, bias, activation=activation).astype("f8")
            assert np.allclose(got, want, rtol=2**-7, atol=2**-6)
        got = fastgemm.linear(x, weight, bias, residual=residual).astype("f8")
        assert np.allclose(got, sums + residual.astype("f8"), rtol=2**-7, atol=2**-6)


def test_attention_of_halves() -> None:
    """Items of a chain run them too, their copies kept; the numbers are the reference's."""
    dtype = "bfloat16"
    build = graph.Builder("attention")
    q, k, v = (build.input(name, (2, 100, 64), dtype) for name in "qkv")
    build.output(build.softmax((q @ k.T) * 0.125, axis=-1) @ v, "y")
    rng = np.random.default_rng(3)
    values = {name: rng.normal(size=(2, 100, 64)).astype(dtype_of(dtype)) for name in "qkv"}
    x = {name: value.astype("f8") for name, value in values.items()}
    scored = np.exp(x["q"] @ x["k"].swapaxes(1, 2) * 0.125)
    want = scored / scored.sum(axis=-1, keepdims=True) @ x["v"]
    with dispatch.watched() as seen:
        got = graph.compile(build.graph(), threads=1)(**values)
    assert np.allclose(got.astype("f8"), want, atol=0.02)
    tier = kernels.active_isa()
    if tier is not None and (family := kernels.matrix_family(registry.dtype("bf16"), tier)):
        assert {dispatch.resolve(problem, panels).config.family for problem, panels in seen} == {family}


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_few_rows_by_weights(dtype: str) -> None:
    """Rows of a B that lies along k are read where they are: as the rules say of sizes, with what follows a product."""
    rng, kind = np.random.default_rng(4), dtype_of(dtype)
    result = np.float32 if dtype == "bfloat16" else np.int32
    row = registry.product_row(dtype, dtype, np.dtype(result).name)
    assert row is not None
    ways_taken = set()
    for m, n, k in itertools.product((2, 3, 4, 8, 9, 32, 33, 64, 100), (63, 64, 130, 1100), (64, 128, 256, 520, 1024)):
        x, w = (rng.integers(-6, 6, size).astype(kind) for size in ((m, k), (n, k)))
        want = x.astype("f8") @ w.astype("f8").T
        with dispatch.watched() as seen:
            assert np.array_equal(fastgemm.matmul(x, w.T, dtype=result), want)
        (problem, _), *_ = seen
        turned = ways.turns(Problem(row.name, m, n, k, layout="nt", threads=problem.threads))
        assert (problem.m, problem.n) == ((n, m) if turned else (m, n)), (m, n, k)
        ways_taken.add(turned)
        out = np.zeros((n, m), result).T
        assert np.array_equal(fastgemm.matmul(x, w.T, out=out, dtype=result), want)
        if dtype == "int8":
            rows, columns = (rng.integers(-9, 9, size).astype("i1") for size in (m, n))
            want = (x.astype("f8") - rows[:, None]) @ (w.T.astype("f8") - columns)
            assert np.array_equal(fastgemm.matmul_integer(x, w.T, rows, columns), want)
            continue
        bias, residual = rng.integers(-6, 6, n).astype(kind), rng.integers(-6, 6, (m, n)).astype(kind)
        for activation, least in (("relu", 0.0), (None, -np.inf)):
            got = fastgemm.linear(x, w, bias, activation=activation, residual=residual)
            assert np.array_equal(got, np.maximum(want + bias.astype("f8") + residual.astype("f8"), least).astype(kind))
    assert ways_taken == ({False, True} if ways.turns_matrices(row) else {False})


def test_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which products they take, whatever this CPU has; panels' widths; teams; every plan fits its problem."""
    monkeypatch.setattr(
        kernels, "matrix_family", lambda row, tier: next(
            (name for name in FAMILIES if tier.name == "v4" and registry.computes(name, row)
             and not registry.by_limbs(name)), ""))  # fmt: skip
    took = lambda *sizes, **more: matrices.family(Problem(*sizes, **more), V4)  # noqa: E731
    assert took("i8_i32", 64, 64, 64) == took("i8_q8", 12, 256, 256) == "amx_int8"
    assert took("bf16", 4, 256, 256) == took("bf16_f32", 32, 64, 16) == "amx_bf16"
    assert not took("f32", 512, 512, 512)
    assert not took("i8", 512, 512, 512)
    assert not took("i8_i32", 512, 512, 32)
    assert not took("i8_i32", 4, 512, 512)
    assert not took("bf16", 4, 4096, 4096)
    assert took("bf16", 572, 8, 572) == took("bf16", 460, 460, 4) == "amx_bf16"
    assert took("i8_i32", 572, 8, 572) == "amx_int8"
    assert not took("bf16", 16, 16, 16)
    assert not took("i8_i32", 784, 8, 72)
    assert not took("bf16", 512, 1, 512)
    assert not took("bf16", 262144, 2, 4)
    assert matrices.family(Problem("bf16", 512, 512, 512), registry.isa("v3")) == ""
    sizes = [(4, 64, 64), (16, 4096, 4096), (1000, 1000, 1000), (64, 64, 100_000), (100_000, 64, 64)]
    sizes += [(300, 20, MAX_BYTES_K), (300, 3000, 1)]
    for m, dtype in ((1, "bf16"), (500, "bf16"), (500, "bf16_f32")):
        problem = Problem(dtype, m, 64, 3_000_000, layout="n" + PACKED)
        assert packed_b.config(problem, V4, 2).misfit(problem) is None
    for (m, n, k), dtype, threads in itertools.product(sizes, ("i8_i32", "i8_q8", "bf16", "bf16_f32"), (1, 2, 16)):
        for layout, batch in (("nn", 1), ("tt", 1), ("gn", 20)):
            problem = Problem(dtype, m, n, k, batch, layout, threads)
            if matrices.family(problem, V4):
                made = rules.config(problem, V4)
                assert registry.by_matrices(made.family)
                assert made.misfit(problem) is None, (problem, made)
                assert rules.cycles(problem, made) > 0
        problem = Problem(dtype, m, n, k, layout="n" + PACKED, threads=threads)
        for nv in (2, 4):
            made = packed_b.config(problem, V4, nv)
            assert registry.by_matrices(made.family)
            assert made.misfit(problem) is None, (problem, made)
    assert rules.config(Problem("bf16", 64, 64, 200_000, threads=2), V4).split == "k"
    assert rules.config(Problem("bf16", 1000, 1000, 1000, threads=2), V4).split == "n"
    assert rules.config(Problem("bf16", 100_000, 64, 64, threads=2), V4).split == "m"
    assert rules.config(Problem("bf16", 100, 64, 64, 50, threads=2), V4).split == "batch"


@pytest.mark.skipif(not cpu.gives_tiles(), reason="no tile registers")
def test_a_system_that_gives_no_tiles(child: Child) -> None:
    """The kernel refuses them to a process with a small alternative signal stack: vectors compute."""
    if "amx_tile" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("tile registers in C")
    got = child(dedent("""
        import ctypes, mmap
        import numpy as np

        class Stack(ctypes.Structure):
            _fields_ = [("sp", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]

        libc = ctypes.CDLL(None, use_errno=True)
        AT_MINSIGSTKSZ, _SIZE = 51, 8192
        libc.getauxval.restype = ctypes.c_ulong
        # What a signal needs with tiles; a page less has room without.
        size = libc.getauxval(AT_MINSIGSTKSZ) - _SIZE
        room = mmap.mmap(-1, 1 << 20)
        at = ctypes.addressof(ctypes.c_char.from_buffer(room))
        assert libc.sigaltstack(ctypes.byref(Stack(at, 0, max(size, 3000))), None) == 0, ctypes.get_errno()
        import fastgemm
        from fastgemm import cpu, kernels, registry
        x = np.arange(128 * 128, dtype="i1").reshape(128, 128)
        assert np.array_equal(fastgemm.matmul(x, x, dtype=np.int32), x.astype("i4") @ x.astype("i4"))
        print(cpu.gives_tiles(), kernels.matrix_family(registry.dtype("i8_i32"), registry.isa("v4")))
        """))
    assert got.stdout.split() == ["False"]


def test_registers_that_are_not_wanted(child: Child) -> None:
    code = "from fastgemm import cpu, kernels, registry as r; import fastgemm, numpy as np\n"
    code += "x = np.ones((128, 128), 'i1'); print(fastgemm.matmul(x, x, dtype=np.int32)[0, 0])\n"
    code += "print(cpu.gives_tiles(), repr(kernels.matrix_family(r.dtype('i8_i32'), r.isa('v4'))))\n"
    assert child(code, FASTGEMM_AMX="0").stdout.split() == ["128", "False", "''"]


@pytest.mark.skipif(not kernels.has("amx_bf16", "v4"), reason="no amx_bf16")
def test_many_threads_and_a_fork(child: Child) -> None:
    """Every thread's registers have a shape of their own; a child of a process that used them has them too."""
    got = child(dedent("""
        import os, threading
        import numpy as np, fastgemm, ml_dtypes
        rng = np.random.default_rng(0)
        jobs = []
        for m in range(3, 60, 4):
            a, b = (rng.integers(-8, 8, s).astype(ml_dtypes.bfloat16) for s in ((m, 96), (96, 64 + m)))
            jobs.append((a, b, a.astype("f4") @ b.astype("f4")))
        def work(first):
            for turn in range(20):
                for a, b, want in jobs[first:] + jobs[:first]:
                    if not np.array_equal(fastgemm.matmul(a, b, dtype=np.float32), want):
                        print("wrong", a.shape)
        with fastgemm.threads(1):
            threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
            [t.start() for t in threads]; [t.join() for t in threads]
            pid = os.fork()
            work(1)
            if pid == 0:
                os._exit(0)
            print(os.waitpid(pid, 0)[1])
        """))
    assert got.stdout.split() == ["0"]
