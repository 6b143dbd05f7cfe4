"""Chains: several steps done for one piece of an outer dimension after another, so that what lies between stays in L2.

The layers of an MLP run over blocks of rows, the two products and the softmax of attention over batch x heads.  One
thread does all members of an item, with intermediates in its own scratch; items are dealt out by one counter.

    Ref       where an operand lies for an item: a slot (an array given to `Chain.run`, or SCRATCH) and byte strides
    Product   c = f(a @ b + bias + residual), `b` a reference or a `fastgemm.pack`-ed matrix
    Rows      softmax, layer_norm, cast (also to and from bytes) along rows: `row_operations.ROW_OPS`
    Map       an activation: `activations.EPILOGUES`
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _chain, _to_bytes, dispatch, epilogues, kernels, layer, registry, row_operations
from .packed import PackedMatrix
from .plan import Plan
from .problem import Problem

SCRATCH = -1
# Arrays that a chain can be given.
SLOTS = _chain.SLOTS
_loaded: set[str] = set()


class Ref(NamedTuple):
    """Where an operand lies: item (i, j, ...) begins `offset` + i * steps[0] + j * steps[1] + ... bytes into the slot.

    `row` and `column` are the bytes from one row, and one column, to the next; `dtype` is NumPy's name.  Bytes stand
    for ``scale * (number - zero)`` where they are cast.
    """

    slot: int
    dtype: str
    offset: int = 0
    steps: tuple[int, ...] = ()
    row: int = 0
    column: int = 0
    scale: float = 1.0
    zero: int = 0


class Finish(NamedTuple):
    """What follows a product: ``activation(x + bias + residual)`` as in `fastgemm.linear`.

    `bias` has a number a column (column stride 0: one for all), `residual` is a matrix like the output.
    """

    activation: str | tuple[Any, ...] | None = None
    bias: Ref | None = None
    residual: Ref | None = None


class Product(NamedTuple):
    """``c = finish(a @ b)``: `a` is (rows of the item, k), `b` (k, n); exchanged strides transpose.

    Products of bytes subtract the references' zeros and make, of their sums,

        int32     the sums
        float32   finish(sums * scale), of halves likewise what `finish` makes before it is rounded
        bytes     the nearest to sums * scale + shift, plus c.zero, no less than `low`: c.zero for relu

    with `scale` and `shift` one number, or one a column, that the chain copies.  `more`: the product alone is added to
    what `c` holds.
    """

    n: int
    k: int
    a: Ref
    b: Ref | PackedMatrix
    c: Ref
    finish: Finish | None = None
    scale: Any = None
    shift: Any = None
    low: int | None = None
    more: bool = False


class Parts(NamedTuple):
    """What a softmax goes by whose columns come in parts, each a member of its own.

    Each part makes shares of all columns so far, and `made`, the means that products by shares of the parts before
    gave, smaller to go with them: add this part's product, and they are the means of all columns so far.

    `state` has two float32 a row, that the first part begins; `made` is None for that one, else rows of `width`
    float32.  `more` says whether parts follow.

    References
    ----------
    Milakov and Gimelshein, Online normalizer calculation for softmax, arXiv 1805.02867; Dao et al., FlashAttention,
    arXiv 2205.14135.
    """

    state: Ref
    made: Ref | None
    width: int
    more: bool


class Rows(NamedTuple):
    """An operation of `row_operations.ROW_OPS` on the item's rows of `n` numbers, from `x` to `out`, even the same.

    `params` and `vectors` are those that its row names: ``{"scale": 0.125}``, ``{"mask": Ref(...)}``.  Where `x` and
    `out` are one row for all (`row` is 0), it is made once an item.
    """

    op: str
    n: int
    x: Ref
    out: Ref
    params: Mapping[str, float] = {}
    vectors: Mapping[str, Ref] = {}
    parts: Parts | None = None


class Map(NamedTuple):
    """An activation, bias and residual on the item's rows of `n` numbers, from `x` to `out`, which may be the same."""

    n: int
    x: Ref
    out: Ref
    finish: Finish


class Chain(_chain.Chain):
    """Members over an outer dimension, ready to run from any thread.

    Where items that follow each other multiply by one matrix, each thread keeps its copy of it, in the layout that
    kernels read, from one to the next (of `kept` products; never of a matrix that the chain writes itself).

    Parameters
    ----------
    members : sequence of Product, Rows and Map
        Done in this order for every item.
    outer : tuple of int
        Items in up to three dimensions.  The last one counts blocks of rows.
    rows, block : int
        Rows along the last dimension in all, and of an item: the last item has what is left.
    scratch : int
        Bytes that each thread keeps for references to SCRATCH.

    Raises
    ------
    ValueError, TypeError
        If references, sizes and dtypes do not fit.
    RuntimeError
        If no kernels run on this CPU: what the chain is made of must then be done step by step.

    Examples
    --------
    Two layers, for 4 rows at a time:

    >>> import numpy as np
    >>> from fastgemm.chain import SCRATCH, Chain, Finish, Product, Ref
    >>> x, first, second = (np.ones(s, "f4") for s in ((10, 8), (8, 6), (6, 5)))
    >>> def matrix(slot, columns, step=0):
    ...     return Ref(slot, "float32", steps=(step,), row=4 * columns, column=4)
    >>> between = Ref(SCRATCH, "float32", row=24, column=4)
    >>> chain = Chain(
    ...     [Product(6, 8, matrix(0, 8, 4 * 32), matrix(1, 6), between, Finish("relu")),
    ...      Product(5, 6, between, matrix(2, 5), matrix(3, 5, 4 * 20))],
    ...     outer=(3,), rows=10, block=4, scratch=4 * 24)
    >>> out = np.empty((10, 5), "f4")
    >>> chain.run([x, first, second, out])
    >>> bool((out == x @ first @ second).all())
    True
    """

    def __init__(
        self, members: Sequence[Product | Rows | Map], outer: tuple[int, ...], rows: int, block: int, scratch: int = 0
    ) -> None:
        tier = kernels.active_isa()
        if tier is None:
            raise RuntimeError("no kernels run on this CPU")
        load(tier)
        for member in members:
            if isinstance(member, Product):
                self._add_product(member, outer, tier)
            elif isinstance(member, Rows):
                self._add_rows(member, tier)
            elif isinstance(member, Map):
                row = registry.dtype(member.x.dtype)
                self.add_finish(member.n, member.x, member.out, row, tier.level, _finish(member.finish))
            else:
                raise TypeError(f"a chain is made of Product, Rows and Map, not of {type(member).__name__}")

    def _add_product(self, member: Product, outer: tuple[int, ...], tier: registry.Isa) -> None:
        b: Any = member.b
        b_dtype = b.dtype.name if isinstance(b, PackedMatrix) else b.dtype
        row = _row(member.a.dtype, b_dtype, member.c.dtype)
        if isinstance(b, PackedMatrix):
            if b.panels is None:
                raise ValueError(f"{b} holds no panels that kernels read")
            b = b.panels

        def plans(rows: int) -> Plan:
            layout = _letter(row, rows, member.k, member.a) + _letter(row, member.k, member.n, b)
            problem = Problem(row.name, rows, member.n, member.k, 1, layout, 1)
            plan = dispatch.plan_for(problem)
            config = dispatch.of_item(problem, matrices, rows * items, member.c.slot == SCRATCH)
            return plan if config == plan.config else Plan(problem, config)

        # How many matrices B is, item by item, and how many items meet one of them, one after the other.
        matrices = items = 1
        if isinstance(member.b, Ref) and member.b.slot != SCRATCH:
            steps = (0,) * (len(outer) - len(member.b.steps)) + tuple(member.b.steps)
            matrices = math.prod(size for size, step in zip(outer, steps, strict=True) if step)
            inwards = list(zip(outer, steps, strict=True))[::-1]
            items = math.prod(size for size, _ in itertools.takewhile(lambda one: one[0] == 1 or not one[1], inwards))
        finish = None if member.finish is None else _finish(member.finish)
        self.add_product(
            member.n, member.k, member.a, b, member.c, row, tier.level, plans, items > 1, member.more, finish,
            _sums(member),
        )  # fmt: skip

    def _add_rows(self, member: Rows, tier: registry.Isa) -> None:
        op = row_operations.row_op(member.op)
        kinds = tuple(row_operations.KINDS.get(ref.dtype, ref.dtype) for ref in (member.x, member.out))
        if kinds not in op.types:
            known = ", ".join(f"{row_operations.ROW_TYPES[x]} to {row_operations.ROW_TYPES[y]}" for x, y in op.types)
            raise TypeError(f"{op.name} goes from {known}; not from {member.x.dtype} to {member.out.dtype}")
        if unknown := (set(member.params) - {name for name, _ in op.params}) | (set(member.vectors) - set(op.vectors)):
            raise TypeError(f"{op.name} has no {', '.join(sorted(unknown))}")
        numbers = {**dict(op.params), **member.params}
        quants = (member.x.scale, float(member.x.zero), member.out.scale, float(member.out.zero))
        if not all(np.isfinite(scale) and scale > 0 for scale in quants[::2]):
            raise ValueError("scales are finite and above zero")
        given = [member.vectors.get(name) for name in op.vectors]
        value = float(next(iter(numbers.values()), 0.0))
        self.add_rows(member.n, member.x, member.out, op, kinds, tier.level, value, quants, given, member.parts)


def load(tier: registry.Isa) -> None:
    """Load what chains of a tier run."""
    if tier.name not in _loaded:
        layer.load(tier)
        rows = importlib.import_module(registry.module("rows", tier))
        table = rows.table(kernels.has("bf16", tier.name))
        _chain.add_table(tier.level, table)
        _to_bytes.add_tables(tier.level, table, rows.spans())
        _loaded.add(tier.name)


def _finish(given: Finish) -> tuple[Any, ...]:
    what = epilogues.activation(given.activation)
    return what.row.code, what.p, what.q, given.bias, given.residual


def _sums(member: Product) -> tuple[Any, ...]:
    low = high = 0
    if member.c.dtype in registry.BYTES:
        limits = np.iinfo(member.c.dtype)
        low, high = int(limits.min), int(limits.max)
        if not low <= member.c.zero <= high or not low <= (low if member.low is None else member.low) <= high:
            raise ValueError(f"{member.c.zero} and {member.low} are to be values of {member.c.dtype}")
        low = low if member.low is None else int(member.low)
    b_zero = 0 if isinstance(member.b, PackedMatrix) else member.b.zero
    return member.scale, member.shift, float(member.c.zero), float(low), float(high), member.a.zero, b_zero


def _row(a: str, b: str, c: str) -> registry.DType:
    """Return the row of the registry that computes c = a @ b."""
    if a in registry.BYTES and b in registry.BYTES and c in ("float32", *registry.BYTES):
        return registry.dtype("i8_i32" if c == "float32" else "i8_q8")
    if found := registry.product_row(a, b, c):
        return found
    raise TypeError(f"no kernels for {a} @ {b} giving {c}")


def _letter(row: registry.DType, rows: int, columns: int, ref: Ref) -> str:
    """Return the layout letter of an operand, see `Problem`."""
    size = row.stored_bytes * row.parts
    if columns == 1 or ref.column == size:
        return "n"
    return "t" if rows == 1 or ref.row == size else "g"
