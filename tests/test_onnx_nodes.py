"""MatMulInteger and QLinearMatMul against the reference evaluator of the onnx package, over what the operators take."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from test_quantized import full, reference

import fastgemm

onnx = pytest.importorskip("onnx")
KINDS = list(itertools.product(("u1", "i1"), repeat=2))
# (a, b): matrices, vectors, stacks that broadcast, and one that is folded.
STACKS = [
    ((3, 4), (4, 5)), ((7,), (7, 3)), ((6, 7), (7,)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (5, 4, 6)), ((1, 3, 33), (4, 33, 17)), ((2, 3, 1, 65), (65, 40)),
]  # fmt: skip


@pytest.mark.parametrize(("kind_a", "kind_b"), KINDS)
@pytest.mark.parametrize(("shape_a", "shape_b"), STACKS)
def test_matmul_integer(shape_a: tuple[int, ...], shape_b: tuple[int, ...], kind_a: str, kind_b: str) -> None:
    a, b = full(shape_a, kind_a, 1), full(shape_b, kind_b, 2)
    zero_a, zero_b = np.array(3, kind_a), np.array(np.iinfo(kind_b).max, kind_b)
    (want,) = reference("MatMulInteger", a, b, zero_a, zero_b)
    got = fastgemm.matmul_integer(a, b, zero_a, zero_b)
    assert got.dtype == np.int32
    assert np.array_equal(got, want)
    (want,) = reference("MatMulInteger", a, b)
    assert np.array_equal(fastgemm.matmul_integer(a, b), want)


@pytest.mark.parametrize(("kind_a", "kind_b"), KINDS)
def test_matmul_integer_by_row_and_column(kind_a: str, kind_b: str) -> None:
    """Of each row of a matrix, each column, and of every matrix of a stack its own."""
    for lead in ((), (3,), (2, 3)):
        a, b = full((*lead, 6, 37), kind_a, 1), full((*lead, 37, 21), kind_b, 2)
        rows, columns = full((*lead, 6, 1), kind_a, 3), full((*lead, 1, 21), kind_b, 4)
        want = np.matmul(a.astype("i4") - rows.astype("i4"), b.astype("i4") - columns.astype("i4"))
        assert np.array_equal(fastgemm.matmul_integer(a, b, rows, columns), want)
        # The evaluator subtracts as NumPy broadcasts: columns of any stack, rows of none but a scalar.
        (want,) = reference("MatMulInteger", a, b, np.array(5, kind_a), columns)
        assert np.array_equal(fastgemm.matmul_integer(a, b, 5, columns), want)


@pytest.mark.parametrize("scale", ["f4", "f2"])
@pytest.mark.parametrize(("kind_a", "kind_b"), KINDS)
@pytest.mark.parametrize(("shape_a", "shape_b"), STACKS)
def test_qlinear_matmul(
    shape_a: tuple[int, ...], shape_b: tuple[int, ...], kind_a: str, kind_b: str, scale: str
) -> None:
    """Every mix of signs, the result's too, float32 and float16 scales, saturation on both sides."""
    a, b = full(shape_a, kind_a, 1), full(shape_b, kind_b, 2)
    for kind, size in itertools.product(("u1", "i1"), (0.001, 0.03, 1.0)):
        zeros = [np.array(7, kind_a), np.array(-9 if kind_b == "i1" else 200, kind_b), np.array(11, kind)]
        scales = [np.array(s, scale) for s in (size, 0.02, 0.5)]
        inputs = (a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2])
        (want,) = reference("QLinearMatMul", *inputs)
        got = fastgemm.qlinear_matmul(*inputs)
        assert got.dtype == want.dtype
        assert np.array_equal(got, want)


def test_ties_go_to_even() -> None:
    a = np.array([[1, 3, 5, 7, -1, -3, 251 - 256, 0]], "i1").T
    one, half, zero = np.float32(1), np.float32(0.5), np.int8(0)
    inputs = (a, half, zero, np.array([[1]], "i1"), one, zero, one, zero)
    (want,) = reference("QLinearMatMul", *inputs)
    assert want.ravel().tolist() == [0, 2, 2, 4, 0, -2, -2, 0]
    assert np.array_equal(fastgemm.qlinear_matmul(*inputs), want)
