"""einsum: NumPy's function, its contractions of two operands by our products."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from . import subscripts
from ._outputs import fresh
from .contraction import Array, Roles, contract, pair
from .numpy_types import FLOATS, KERNELS

# By value: a program may put our function in the place of NumPy's.
_numpy_einsum: Any = np.einsum
_numpy_einsum_path: Any = np.einsum_path
_nditer: Any = np.nditer

# Whether an optimised sum over all axes is a scalar to NumPy or an array without dimensions: versions differ.
SCALARS = not isinstance(np.einsum("i,i", np.ones(2), np.ones(2), optimize=True), np.ndarray)
# Multiply-adds below which np.einsum's own loop is faster than the way to a kernel.  f32, one thread, microseconds by
# NumPy and here: ij,jk 16x16x16 2.7, 5.0; 24x24x24 4.8, 5.6; 64x64x64 43, 7.5; ij,j 100x100 2.7, 5.5; 300x300 8.9, 8.4.
SMALL = 32768


def einsum(*operands: Any, out: Array | None = None, optimize: Any = False, **kwargs: Any) -> Any:
    """Sum of products by Einstein's convention: `np.einsum`.

    Parameters
    ----------
    *operands
        Subscripts and arrays, or arrays and lists of axis numbers, as in `np.einsum`.
    out : ndarray, optional
        Where the result goes.
    optimize : bool, {"greedy", "optimal"} or path
        How to take three and more operands apart; `np.einsum_path` finds the path.  False, as in NumPy, makes a single
        loop over all of them without intermediate arrays, which is NumPy's own.  Two operands need no path.
    dtype, order, casting
        As in `np.einsum`.

    Returns
    -------
    ndarray or scalar
        Laid out as `np.einsum` does without `optimize`.

    Raises
    ------
    ValueError, TypeError
        As `np.einsum` does.

    Notes
    -----
    A pair of operands with summed axes in common is one matrix product, or a stack of them; diagonals and sums over one
    operand alone are taken first (of float16 in float32, and the product with them).  Small ones, stacks of
    small ones whose axis lies innermost, element-wise and outer products are left to NumPy.

    Examples
    --------
    >>> import numpy as np, fastgemm
    >>> a, b = np.ones((30, 40, 50)), np.ones((50, 40, 20))
    >>> fastgemm.einsum("ijk,kjl->il", a, b)[0, 0]
    np.float64(2000.0)
    """
    done = _einsum(operands, out, optimize, kwargs)
    return _numpy_einsum(*operands, out=out, optimize=optimize, **kwargs) if done is None else done


class _Recipe(NamedTuple):
    """What the subscripts of a call and the shapes of its operands say."""

    inputs: tuple[str, ...]
    output: str
    sizes: dict[str, int]
    volume: int         # multiply-adds of a single loop over all labels


@lru_cache(maxsize=4096)
def _recipe(text: str, shapes: tuple[tuple[int, ...], ...]) -> _Recipe | None:
    reading = subscripts.parse(text, tuple([len(shape) for shape in shapes]))
    sizes = None if reading is None else subscripts.sizes(reading.inputs, shapes)
    if reading is None or sizes is None:
        return None
    return _Recipe(*reading, sizes, prod(sizes.values()))


def _einsum(operands: tuple[Any, ...], out: Any, optimize: Any, keywords: dict[str, Any]) -> Any:
    """The sum; None for what is left to NumPy as a whole."""
    spelled = subscripts.spell(operands)
    if spelled is None:
        return None
    text, arrays = spelled
    count = len(arrays)
    if count < 2 or (count > 2 and optimize is False):
        return None
    for x in arrays:
        if type(x) is not np.ndarray:
            return None
    recipe = _recipe(text, tuple([x.shape for x in arrays]))
    # An empty sum has no volume.
    if recipe is None or recipe.volume < max(SMALL, 1):
        return None
    dtype = arrays[0].dtype
    for x in arrays:
        if x.dtype is not dtype:
            # NumPy's optimised sums make intermediate arrays of the narrower dtypes, where integers wrap around.
            if optimize is not False and not all(y.dtype in FLOATS for y in arrays):
                return None
            try:
                dtype = np.result_type(*arrays)
            except TypeError:
                return None
            break
    if dtype not in KERNELS or (keywords and not _plain(arrays, keywords)):
        return None
    if out is not None and not _fits(out, dtype, tuple([recipe.sizes[c] for c in recipe.output])):
        return None
    order = keywords.get("order", "K").upper() if keywords else "K"
    if count == 2 and isinstance(optimize, bool):
        picked = list(zip(recipe.inputs, arrays, strict=True))
        return _step(picked, recipe.output, recipe.sizes, order, out, optimize)
    terms = list(zip(recipe.inputs, arrays, strict=True))
    path = _path(operands, text, arrays, optimize)
    for step, chosen in enumerate(path):
        picked = [terms.pop(i) for i in sorted(chosen, reverse=True)][::-1]
        if step + 1 == len(path):
            return None if terms else _step(picked, recipe.output, recipe.sizes, order, out, optimize)
        later = set(recipe.output).union(*[labels for labels, _ in terms])
        kept = "".join([c for c in dict.fromkeys("".join([labels for labels, _ in picked])) if c in later])
        terms.append((kept, _step(picked, kept, recipe.sizes)))
    return None


_PATHS: dict[Any, list[tuple[int, ...]]] = {}


def _path(operands: tuple[Any, ...], text: str, arrays: tuple[Array, ...], optimize: Any) -> list[tuple[int, ...]]:
    """NumPy's path; a search is remembered, since it sees nothing but shapes."""
    if not isinstance(optimize, (bool, str)):
        found: list[tuple[int, ...]] = _numpy_einsum_path(*operands, optimize=optimize)[0][1:]
        return found
    key = (text, optimize, *[x.shape for x in arrays])
    known = _PATHS.get(key)
    if known is None:
        known = _numpy_einsum_path(*operands, optimize=optimize)[0][1:]
        if len(_PATHS) >= _MANY:
            _PATHS.clear()
        _PATHS[key] = known
    return known


_MANY = 1024
_ORDERS = ("K", "A", "C", "F", "k", "a", "c", "f")
_CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


def _plain(arrays: tuple[Array, ...], keywords: dict[str, Any]) -> bool:
    """Whether the keywords ask for nothing but the sum in the operands' own dtype, in some order."""
    if not keywords.keys() <= {"order", "dtype", "casting"} or keywords.get("order", "K") not in _ORDERS:
        return False
    dtype, casting = keywords.get("dtype"), keywords.get("casting")
    if dtype is None and casting is None:
        return True
    first = arrays[0].dtype
    if any(x.dtype != first for x in arrays) or (casting is not None and casting not in _CASTINGS):
        return False
    try:
        return dtype is None or np.dtype(dtype) == first
    except TypeError:
        return False


def _fits(out: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> bool:
    """Whether an output takes the result without a cast; what else NumPy accepts is left to it."""
    if out is None:
        return True
    return type(out) is np.ndarray and out.dtype == dtype and out.shape == shape and bool(out.flags.writeable)


# ---- one step ------------------------------------------------------------------------------------------------------


def _step(
    picked: list[tuple[str, Array]],
    output: str,
    sizes: dict[str, int],
    order: str = "K",
    out: Any = None,
    optimize: Any = None,
) -> Any:
    """One contraction of some operands, the last one with the `optimize` of the call."""
    # NumPy reports the floating-point errors of an optimised sum as matmul's, and none of one in a single loop.
    quiet = optimize is False
    if len(picked) == 2:
        done = _product(*picked[0], *picked[1], output, sizes, order, out, None if quiet else b"matmul")
        if done is not None:
            return done if out is not None or done.ndim or not (quiet or SCALARS) else done[()]
    text = ",".join([labels for labels, _ in picked]) + "->" + output
    optimized = len(picked) == 2 and optimize is not None and not quiet
    return _numpy_einsum(text, *[x for _, x in picked], out=out, order=order, optimize=optimized)


class _Split(NamedTuple):
    """What the labels of a pair of operands do."""

    a: str          # the operands' labels once each, without those that they are summed over alone
    b: str
    summed: str
    roles: Roles


@lru_cache(maxsize=4096)
def _split(a: str, b: str, output: str) -> _Split | None:
    """Sort the labels of a pair; None where it is no product: no label is summed over, or only a stack remains."""
    left = "".join([c for c in dict.fromkeys(a) if c in b or c in output])
    right = "".join([c for c in dict.fromkeys(b) if c in a or c in output])
    stack = [c for c in output if c in left and c in right]
    summed = [c for c in left if c in right and c not in output]
    free_a = [c for c in output if c in left and c not in right]
    free_b = [c for c in output if c in right and c not in left]
    if not summed or (stack and not free_a and not free_b):
        return None

    def axes(labels: list[str], of: str) -> tuple[int, ...]:
        return tuple([of.index(c) for c in labels])

    roles = Roles(
        (axes(stack, left), axes(stack, right), axes(stack, output)),
        (axes(free_a, left), axes(free_a, output)),
        (axes(free_b, right), axes(free_b, output)),
        (axes(summed, left), axes(summed, right)),
    )
    return _Split(left, right, "".join(summed), roles)


def _product(
    la: str,
    a: Array,
    lb: str,
    b: Array,
    output: str,
    sizes: dict[str, int],
    order: str,
    out: Array | None,
    name: bytes | None,
) -> Array | None:
    """Contract two operands by a product; None where that is not possible or not worth it."""
    split = _split(la, lb, output)
    if split is None or prod([sizes[c] for c in {*la, *lb}]) < SMALL or all(sizes[c] == 1 for c in split.summed):
        return None
    a, la = _diagonal(a, la)
    b, lb = _diagonal(b, lb)
    result = _empty(a, la, b, lb, output, order) if out is None else out
    both = pair(a, b)       # before any sum: those of bool and of small integers are not the same
    if both is None:
        return None
    a, b = both
    # Sums over one operand alone may leave float16 where those of its products with the other do not.
    alone = (la, lb) != (split.a, split.b)
    kind = np.dtype(np.float32) if alone and a.dtype == np.float16 else a.dtype
    a, b = _summed(a, la, split.a, kind), _summed(b, lb, split.b, kind)
    apart = out is None or not (np.may_share_memory(out, a) or np.may_share_memory(out, b))
    target = result if apart and result.dtype == kind else np.empty_like(result, kind)
    contract(a, b, target, split.roles, name)
    if target is not result:
        with np.errstate(all="ignore"):     # NumPy's sum, which is a single loop, does not report
            np.copyto(result, target, casting="same_kind")
    return result


def _summed(array: Array, labels: str, kept: str, kind: np.dtype[Any]) -> Array:
    """Return the sums over all labels but some, in a type that holds the array's."""
    if labels == kept:
        return array.astype(kind, copy=False)
    made: Array = _numpy_einsum(f"{labels}->{kept}", array, dtype=kind)
    return made


def _diagonal(array: Array, labels: str) -> tuple[Array, str]:
    """A view in which every label has one axis."""
    once = "".join(dict.fromkeys(labels))
    return (array, labels) if once == labels else (_numpy_einsum(f"{labels}->{once}", array), once)


_LAYOUTS: dict[Any, tuple[tuple[int, ...], tuple[int, ...]]] = {}


def _empty(a: Array, la: str, b: Array, lb: str, output: str, order: str) -> Array:
    """An array for the result, laid out as np.einsum does: as its own iterator over all labels lays it out."""
    dtype = a.dtype if a.dtype is b.dtype else np.result_type(a, b)
    key = (la, a.shape, a.strides, lb, b.shape, b.strides, output, order)
    known = _LAYOUTS.get(key)
    if known is not None:
        # The shape as it lies in memory, and where each axis lies there.
        made: Array = fresh(known[0], dtype)
        return made.transpose(known[1]) if known[1] else made
    labels = output + "".join(sorted({*la, *lb} - {*output}))
    axes = [[of.index(c) if c in of else -1 for c in labels] for of in (la, lb, output)]
    flags = [["readonly"], ["readonly"], ["readwrite", "allocate"]]
    made = _nditer((a, b, None), ["reduce_ok"], flags, [None, None, dtype], order, op_axes=axes).operands[2]
    deep = sorted(range(made.ndim), key=lambda i: -made.strides[i])
    shape = tuple([made.shape[i] for i in deep])
    back = tuple([deep.index(i) for i in range(made.ndim)])
    if np.empty(shape, dtype).transpose(back).strides == made.strides:
        if len(_LAYOUTS) >= _MANY:
            _LAYOUTS.clear()
        _LAYOUTS[key] = shape, back if back != tuple(range(made.ndim)) else ()
    return made
