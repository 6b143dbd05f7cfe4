"""`fastgemm.pack`: every dtype of the registry on every tier, what takes a packed matrix, and what refuses it."""

from __future__ import annotations

import itertools
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import assert_close, integers, normal

import fastgemm
from fastgemm import _packed, cpu, dispatch, kernels, packed, registry
from fastgemm.heuristic import packed_b
from fastgemm.problem import MAX_BYTES_K, PACKED, Problem

TIERS = [tier.name for tier in kernels.runnable()]
DTYPES = sorted({name for row in registry.DTYPES for name in row.names})
# Whole and partial panels, several blocks of k, one column, one row, many rows.
SIZES = [(1, 300, 200), (5, 70, 33), (37, 130, 2500), (8, 1, 9), (3, 17, 1), (300, 64, 70), (1, 1, 1), (40, 4096, 64)]


@pytest.fixture(params=[*TIERS, *(f"{name} in halves" for name in TIERS if registry.isa(name).vector_bytes > 32)])
def tier(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, on_tier: Callable[[str], registry.Isa]
) -> registry.Isa:
    """Every call of the process on one tier, of a CPU that computes its vectors whole or in two halves."""
    name, _, halves = request.param.partition(" ")
    monkeypatch.setattr(cpu, "halves", lambda tier: bool(halves))
    return on_tier(name)


@pytest.mark.parametrize("name", DTYPES)
def test_products(tier: registry.Isa, name: str) -> None:
    for m, n, k in SIZES:
        a, b = integers((m, k), name, 1), integers((k, n), name, 2)
        want = np.matmul(a, b)
        for hint, order in ((None, "C"), (1000, "F"), (1, "C")):
            made = fastgemm.pack(np.asarray(b, order=order), rows=hint)  # type: ignore[call-overload]
            assert (made.shape, made.dtype) == ((k, n), b.dtype)
            np.testing.assert_array_equal(made.toarray(), b)
            for threads in (1, 2):
                with fastgemm.threads(threads):
                    got = fastgemm.matmul(a, made)
                assert got.dtype == want.dtype
                np.testing.assert_array_equal(got, want)
        wide = {"int8": "i4", "uint8": "i4", "float16": "f4", "bfloat16": "f4"}.get(name)
        if wide:
            got = fastgemm.matmul(a, made, dtype=wide)
            np.testing.assert_array_equal(got, np.matmul(a.astype(wide), b.astype(wide)))
        if name == "bfloat16":
            np.testing.assert_array_equal(fastgemm.matmul(a, made, dtype=b.dtype), want.astype(b.dtype))


@pytest.mark.parametrize("name", ["f4", "f8", "c8", "c16"])
def test_bits_are_those_of_the_plain_product(tier: registry.Isa, name: str) -> None:
    """Inside `deterministic`, where k is cut in the same places."""
    with fastgemm.deterministic():
        for m, n, k in ((30, 100, 5000), (7, 33, 60)):
            a, b = normal((m, k), name, 1), normal((k, n), name, 2)
            np.testing.assert_array_equal(a @ fastgemm.pack(b), fastgemm.matmul(a, b))


def test_layouts_of_the_left_operand() -> None:
    b = normal((70, 90), "f4", 2)
    made = fastgemm.pack(b)
    a = normal((3, 4, 70), "f4", 1)
    with pytest.raises(TypeError, match="packed as float32, a is float64"):
        fastgemm.matmul(a[0].tolist(), made)
    for left in (a, a[0, 0], a[0], a[:, ::2], a.T.copy().T, a[..., ::-1], a.astype("f2"), a.astype(">f4"), a[:0]):
        got = left @ made
        np.testing.assert_array_equal(fastgemm.matmul(left, made), got)
        want = np.matmul(left, b)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    unaligned = np.frombuffer(b"x" + a.tobytes(), "u1")[1:].view("f4").reshape(a.shape)
    np.testing.assert_array_equal(unaligned @ made, a @ made)


def test_out() -> None:
    a, b = normal((40, 40), "f4", 1), normal((40, 40), "f4", 2)
    made = fastgemm.pack(b)
    want = a @ made
    wide = np.zeros((40, 80), "f4")
    for out in (np.empty((40, 40), "f4"), wide[:, ::2], np.empty((40, 40), "f4").T):
        assert fastgemm.matmul(a, made, out=out) is out
        np.testing.assert_array_equal(out, want)
    same = a.copy()
    fastgemm.matmul(same, made, out=same)
    np.testing.assert_array_equal(same, want)
    for bad in (np.empty((40, 41), "f4"), np.empty((40, 40), "f8")):
        with pytest.raises((ValueError, TypeError)):
            fastgemm.matmul(a, made, out=bad)


def test_linear(tier: registry.Isa) -> None:
    for dtype in ("f4", "f8", "f2"):
        for m, n, k in SIZES:
            x, weight = normal((m, k), dtype, 1), normal((n, k), dtype, 2)
            bias, residual = normal((n,), dtype, 3), normal((m, n), dtype, 4)
            made = fastgemm.pack(weight, trans=True)
            got = fastgemm.linear(x, made, bias, activation="relu", residual=residual)
            assert got.dtype == x.dtype
            want = np.maximum(x.astype("f8") @ weight.T.astype("f8") + bias + residual, 0)
            tolerance = float(np.finfo(dtype).eps) * 8 * k
            np.testing.assert_allclose(got.astype("f8"), want, rtol=tolerance, atol=tolerance * 4)
    with pytest.raises(ValueError, match="x has 4 features, weight takes"):
        fastgemm.linear(np.ones((2, 4), "f4"), made)


def test_floating_point_errors_are_reported() -> None:
    made = fastgemm.pack(np.full((3, 3), 1e30, "f4"))
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        np.full((2, 3), 1e30, "f4") @ made
    assert_close(np.ones((2, 3), "f4") @ made, np.ones((2, 3)), np.full((3, 3), 1e30), np.full((2, 3), 3e30, "f4"))


def test_a_row_that_packs_in_another_way_is_refused() -> None:
    """Panels of one type are no panels of another, whatever the operands are."""
    panels = fastgemm.pack(np.ones((8, 40), "f4")).panels
    assert panels is not None
    for name, kind in (("f64", "f8"), ("i32", "i4"), ("f16", "f2"), ("i8_i32", "i1")):
        row = registry.dtype(name)
        out = np.empty((2, 40), row.result or kind)
        with pytest.raises(ValueError, match="not packed for such a product"):
            _packed.product_into(panels, np.ones((2, 8), kind), out, row)


@pytest.mark.parametrize("name", DTYPES)
def test_calls_that_need_no_conversion(name: str) -> None:
    """`matmul` answers them itself; the answers are those of the matrix' own method."""
    b = integers((50, 40), name, 2)
    made = fastgemm.pack(b)
    wide = {"int8": "i4", "uint8": "i4", "float16": "f4", "bfloat16": "f4"}.get(name)
    deep = integers((2, 3, 50), name, 1)
    for a in (deep, deep[0], deep[0, 0], deep[1, ::2], deep[0][:, ::-1].copy()[:, ::-1]):
        for asked in (None, *([wide] if wide else [])):
            named = {"dtype": asked} if asked else {}
            exact = "c16" if b.dtype.kind == "c" else "i8"
            want = np.matmul(a.astype(exact), b.astype(exact)).astype(np.matmul(a, b, **named).dtype)
            got = fastgemm.matmul(a, made, **named)
            assert (type(got), got.dtype) == (np.ndarray, want.dtype)
            np.testing.assert_array_equal(got, want)
            out = np.zeros_like(want)
            assert fastgemm.matmul(a, made, out, **named) is out
            np.testing.assert_array_equal(out, want)
            np.testing.assert_array_equal(made.product(a, dtype=asked), want)
    assert fastgemm.matmul(deep[:, :0], made).shape == (2, 0, 40)


@pytest.mark.parametrize("name", DTYPES)
def test_the_long_way_is_the_short_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has to be converted first gives the results, types and refusals of what has not."""
    made, deep = fastgemm.pack(integers((50, 40), name, 2)), integers((2, 3, 50), name, 1)

    def given(a: np.ndarray, dtype: Any, kind: Any) -> Any:
        out = None if kind is None else np.full((*a.shape[:-1], 40), 3, kind)
        try:
            got = made.product(a, out, dtype)
        except (TypeError, ValueError) as error:
            return type(error)
        assert out is None or got is out
        return type(got), got.dtype, got.tolist()

    calls = [
        (a, dtype, kind)
        for a in (deep, deep[0, 0], deep[:0])
        for dtype in (None, name, "f4", "f8", "i4")
        for kind in (None, name, "f4", "f8", "i4")
    ]
    short = [given(*call) for call in calls]
    monkeypatch.setattr(_packed, "product", lambda *call: None)
    assert [given(*call) for call in calls] == short


def test_pickle_and_copies() -> None:
    for name in DTYPES:
        b = integers((30, 20), name, 5)
        made = fastgemm.pack(b, rows=7)
        again = pickle.loads(pickle.dumps(made))
        assert (again.shape, again.dtype, again.rows, again.nbytes) == (made.shape, made.dtype, 7, made.nbytes)
        np.testing.assert_array_equal(np.asarray(again), b)
        assert np.asarray(again).dtype == b.dtype
        assert again.__array__(np.complex128).dtype == np.complex128
    # By value: what is written holds the array, not the panels of this CPU.
    assert len(pickle.dumps(fastgemm.pack(np.ones((5, 1), "f8")))) < 600
    with pytest.raises(ValueError, match="must be copied"):
        np.asarray(made, copy=False)


@pytest.mark.parametrize("name", ["int8", "uint8"])
def test_zero_points(tier: registry.Isa, name: str) -> None:
    b = integers((50, 37), name, 1, 100)
    limits = np.iinfo(name)
    zero = np.random.default_rng(3).integers(limits.min, limits.max + 1, 37).astype(name)
    for given in (zero, zero[:1], zero[0], None):
        made = fastgemm.pack(b, zero_point=given)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(made)).toarray(), b)
        for left in ("int8", "uint8"):
            a = integers((11, 50), left, 2, 100)
            a_zero = integers((11,), left, 4, 100)
            for first in (None, a_zero[0], a_zero):
                got = fastgemm.matmul_integer(a, made, first)
                np.testing.assert_array_equal(got, fastgemm.matmul_integer(a, b, first, given))
            scale = np.full(37, 0.01, "f4")
            got = fastgemm.qlinear_matmul(a, np.float32(0.5), a_zero[0], made, scale, None, np.float32(3), np.int8(5))
            want = fastgemm.qlinear_matmul(a, np.float32(0.5), a_zero[0], b, scale, given, np.float32(3), np.int8(5))
            np.testing.assert_array_equal(got, want)
        if given is not None and np.any(given):
            with pytest.raises(TypeError, match="zero points"):
                fastgemm.matmul(a, made)
    with pytest.raises(ValueError, match="packed with"):
        fastgemm.matmul_integer(a, fastgemm.pack(b), None, 1)


def test_errors() -> None:
    made = fastgemm.pack(np.ones((4, 3), "f4"))
    ones, whole = np.ones((2, 4), "f4"), np.ones((2, 2), "i1")
    for call, error, text in (
        (lambda: fastgemm.pack(np.ones(3)), ValueError, "a matrix"),
        (lambda: fastgemm.pack(np.ones((2, 2), "g")), TypeError, "no kernels"),
        (lambda: fastgemm.pack(np.ones((2, 2), object)), TypeError, "no kernels"),
        (lambda: fastgemm.pack(np.ones((2, 2)), rows=0), ValueError, "at least 1"),
        (lambda: fastgemm.pack(np.ones((2, 2)), zero_point=1), TypeError, "zero points belong"),
        (lambda: fastgemm.pack(np.ones((2, 2), "i1"), zero_point=200), ValueError, "from -128 to 127"),
        (lambda: fastgemm.pack(np.ones((2, 2), "i1"), zero_point=0.5), ValueError, "must hold whole numbers"),
        (lambda: fastgemm.pack(np.ones((2, 2), "i1"), zero_point=[1, 2, 3]), ValueError, "one number or 2"),
        (lambda: ones.astype("f8") @ made, TypeError, "packed as float32, a is float64"),
        (lambda: fastgemm.pack(np.ones((MAX_BYTES_K + 1, 1), "i1")), ValueError, f"up to {MAX_BYTES_K} rows"),
        (lambda: made @ ones.T, TypeError, "right operand"),
        (lambda: np.matmul(made, made), TypeError, "right operand"),
        (lambda: np.matmul(ones, ones.T, out=made), TypeError, "right operand"),
        (lambda: fastgemm.matmul(np.float32(1), made), ValueError, "inner sizes differ"),
        (lambda: fastgemm.matmul(whole, fastgemm.pack(whole), dtype="f4"), TypeError, "products of bytes give"),
        (lambda: np.ones((2, 5), "f4") @ made, ValueError, "inner sizes differ"),
        (lambda: np.add(ones, made), TypeError, "add"),
        (lambda: fastgemm.matmul(ones, made, dtype="f8"), TypeError, "not float64"),
        (lambda: fastgemm.matmul_integer(np.ones((2, 4), "i1"), made), TypeError, "must hold"),
        (lambda: fastgemm.matmul(ones, made, out=[[1.0] * 3] * 2), TypeError, "out must be an ndarray, not list"),
        (lambda: np.matmul(ones, made, casting="same_kind"), TypeError, "takes out and dtype, not casting"),
        (lambda: fastgemm.matmul(ones, made, order="C", subok=False), TypeError, "not order, subok|not subok, order"),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            call()
    with pytest.raises(ValueError):
        made.panels.memory[0] = 1  # type: ignore[union-attr]
    given = np.int8([1, 2])
    for bytes_ in (one := fastgemm.pack(np.ones((3, 2), "i1"), zero_point=given), pickle.loads(pickle.dumps(one))):
        with pytest.raises(ValueError, match="read-only"):
            bytes_.zero_point[0] = 5
    assert given.flags.writeable


    for name in ("shape", "rows", "nbytes", "dtype"):
        with pytest.raises(AttributeError):
            setattr(made, name, getattr(made, name))


@pytest.mark.parametrize("name", ["int8", "uint8"])
def test_bool_casts_to_bytes(name: str) -> None:
    """Left of packed bytes as of an array of them."""
    a, b = integers((5, 40), "?", 1, 2), integers((40, 7), name, 2, 100)
    made = fastgemm.pack(b)
    for got in (a @ made, fastgemm.matmul(a, made), fastgemm.linear(a, made)):
        assert got.dtype == b.dtype
        np.testing.assert_array_equal(got, a @ b)
    np.testing.assert_array_equal(fastgemm.matmul(a, made, dtype="i4"), a.astype("i4") @ b.astype("i4"))


def test_lists() -> None:
    b = np.arange(6.0).reshape(2, 3)
    made = fastgemm.pack(b)
    for a in ([[1.0, 2.0], [3.0, 4.0]], [1.0, 2.0], ((1, 2),)):
        np.testing.assert_array_equal(a @ made, np.asarray(a) @ b)
        np.testing.assert_array_equal(fastgemm.matmul(a, made), np.asarray(a) @ b)


def test_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "active_isa", lambda: None)
    b = normal((6, 5), "f4", 1)
    made = fastgemm.pack(b)
    assert made.panels is None
    np.testing.assert_array_equal(np.ones((2, 6), "f4") @ made, np.ones((2, 6), "f4") @ b)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(made)).toarray(), b)
    for shape in ((0, 4), (4, 0)):
        empty = packed.pack(np.ones(shape))
        np.testing.assert_array_equal(np.ones((3, shape[0])) @ empty, np.zeros((3, shape[1])))


def test_many_threads_share_one() -> None:
    a, b = integers((9, 300), "f4", 1), integers((300, 500), "f4", 2)
    made, want, wrong = fastgemm.pack(b), a @ b, []

    def work(rows: int) -> None:
        for _ in range(50):
            if not np.array_equal(fastgemm.matmul(a[:rows], made), want[:rows]):
                wrong.append(rows)

    team: list[Any] = [threading.Thread(target=work, args=(rows,)) for rows in (9, 4, 1, 9)]
    for member in team:
        member.start()
    for member in team:
        member.join()
    assert not wrong


@pytest.mark.parametrize("name", ["float32", "float64", "complex64", "bfloat16", "int8"])
def test_every_order_of_blocks(tier: registry.Isa, name: str) -> None:
    """Several passes over each panel, which fetch what is read next: in blocks of k and of one, two or all panels."""
    m, n, k = 37, 330, 300
    a, b = integers((m, k), name, 1), integers((k, n), name, 2)
    made = fastgemm.pack(b, rows=m)
    result = "int32" if name == "int8" else None
    want = np.matmul(a, b, dtype=result)
    row = registry.dtype("i8_i32" if result else b.dtype.name)
    for threads in (1, 2):
        problem = Problem(row.name, m, n, k, layout="np", threads=threads)
        config = dispatch.resolve(problem).config
        for kc, panels in itertools.product((128, 160, 400), (1, 2, 100)):
            blocks = config.replace(kc=kc, nc=config.nr * panels, mc=config.mr * 3)
            with fastgemm.threads(threads), dispatch.forced(blocks):
                np.testing.assert_array_equal(made.product(a, None, result), want)


@pytest.mark.parametrize("isa", registry.ISAS, ids=lambda isa: isa.name)
def test_rows_that_are_copied_serve_many_panels(isa: registry.Isa) -> None:
    """An A that lies apart is copied for each block of columns: those were a panel or two of a B packed before."""
    row = registry.dtype("f32")
    (mr, vectors), *_ = registry.registers(row, isa)
    nr = vectors * registry.lanes(row, isa)
    for m in (mr + 1, 64, 1000):
        found = packed_b.config(Problem("f32", m, 1024, 1024, 1, "g" + PACKED), isa, vectors)
        assert found.pack == "ab"
        assert found.nc >= 8 * nr


def test_one_pass_takes_all_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows read packed weights from first to last: in one block of k, while L2 has room for all of their steps."""
    monkeypatch.setattr(cpu, "caches", lambda: cpu.Caches(32 << 10, 1 << 20, 32 << 20))
    for isa, name in itertools.product(registry.ISAS, ("f32", "f64", "i8_i32")):
        row = registry.dtype(name)
        (mr, vectors), *_ = registry.registers(row, isa)
        for m in (1, mr):
            assert packed_b.config(Problem(name, m, 4096, 8192, 1, "np"), isa, vectors).kc >= 8192
    isa = registry.isa("v3")
    assert packed_b.config(Problem("f32", 4, 4096, 40_000, 1, "np"), isa, 3).kc < 40_000


def test_signed_bytes_lie_as_they_are(tier: registry.Isa) -> None:
    """Without four products a lane: half the memory, where nothing is subtracted and few rows (or none) are told."""
    row = registry.dtype("i8_i32")
    slim = registry.DOTS[kernels.family(row, tier), row.name].slim
    b = integers((301, 77), "int8", 2)
    wide = fastgemm.pack(b, rows=packed_b.SLIM_ROWS + 1)
    for made in (fastgemm.pack(b), fastgemm.pack(b, rows=packed_b.SLIM_ROWS), fastgemm.pack(b, zero_point=0)):
        assert made.panels is not None
        assert made.panels.slim == slim
        assert made.nbytes == wide.nbytes // (2 if slim else 1)
    above = [fastgemm.pack(b.view("u1")), fastgemm.pack(b, zero_point=3), fastgemm.pack(b, zero_point=np.arange(77))]
    for other in (wide, *above):
        assert other.panels is not None
        assert not other.panels.slim
    for m, signed, zero in itertools.product((1, 2, 5, 6, 7, 40), ("int8", "uint8"), (None, 3, "rows")):
        a = integers((m, 301), signed, 1)
        offset: Any = np.arange(m, dtype=signed) if zero == "rows" else zero
        left = a.astype("i4") - (0 if zero is None else np.reshape(offset, (-1, 1)).astype("i4"))
        got = fastgemm.matmul_integer(a, fastgemm.pack(b), offset)
        np.testing.assert_array_equal(got, left @ b.astype("i4"))


def test_memory_behind_panels_was_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products fetch lines behind the last panel, for each of which a CPU looks in vain where no page is."""
    # (Memory that the system gives is 0 before anyone writes to it.)
    monkeypatch.setattr(np, "empty", lambda shape, dtype=float: np.full(shape, 77, dtype))
    for k, n, behind in ((1024, 1024, packed._BEHIND), (5, 3, 64)):
        panels = fastgemm.pack(normal((k, n), "float32", 1), rows=32).panels
        assert panels is not None
        start = panels.memory.ctypes.data - panels.memory.base.ctypes.data
        rest = panels.memory.base[start + panels.nbytes :]
        assert rest.size >= behind
        assert not rest[:behind].any()


def test_slim_panels_refuse_what_they_cannot_hold() -> None:
    row, v3, v4 = registry.dtype("i8_i32"), registry.isa("v3"), registry.isa("v4")
    gemm, vnni = registry.family("gemm"), registry.family("vnni")
    memory = np.zeros(1 << 12, "u1")
    if v3 in kernels.runnable():
        kernels.load("v3")
        for array, zero in ((np.ones((5, 6), "u1"), None), (np.ones((5, 6), "i1"), np.ones(1, "i4"))):
            with pytest.raises(ValueError, match="slim panels hold signed bytes"):
                _packed.Panels(v3, gemm, row, 5, 6, 2, True).fill(array, memory, zero)
        with pytest.raises(ValueError, match="no slim panels of f32"):
            _packed.Panels(v3, gemm, registry.dtype("f32"), 5, 6, 2, True)
    if v4 in kernels.runnable() and kernels.family(row, v4) == "vnni":
        kernels.load("v4")
        with pytest.raises(ValueError, match="no slim panels of i8_i32"):
            _packed.Panels(v4, vnni, row, 5, 6, 3, True)
