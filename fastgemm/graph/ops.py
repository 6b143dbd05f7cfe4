"""The table of operations: what each takes, the shape and type that it gives, what it means in NumPy, and its kind.

Everything reads it: validation, the builder, the reference interpreter, the passes (by kind), the memory model and the
ONNX import.  Adding an operation is one row here, one rule in `rules` where none fits, one function in `meanings`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .. import activations
from . import meanings, rules, rules_products
from .rules import Array, Attributes, Spec

# Kinds, which is what the passes ask for.
PRODUCT = "product"  # a matrix product: an anchor of fusion
ELEMENTWISE = "elementwise"  # each number of the result needs one number of each (broadcast) operand
ROW = "row"  # each row of the result needs a whole row: softmax, layer_norm
REDUCTION = "reduction"  # fewer numbers than it reads
VIEW = "view"  # the same numbers under other strides: free where strides can say it
QUANTISE = "quantise"  # another type for the same numbers: cast, quantize, dequantize
COPY = "copy"  # the same numbers in another order of memory
CHAIN = "chain"  # a graph of its own, run for one block of rows after another
KINDS = (PRODUCT, ELEMENTWISE, ROW, REDUCTION, VIEW, QUANTISE, COPY, CHAIN)

# The default of an attribute that has none.
REQUIRED = object()


class Op(NamedTuple):
    """A row of the table.

    ``inputs`` is how many operands it takes, at least and at most; ``attributes`` its other parameters with their
    defaults (`REQUIRED` where there is none).  ``in_place`` lists the operands whose memory the result may take, where
    they have its shape and type.
    """

    name: str
    kind: str
    inputs: tuple[int, int]
    infer: Callable[[Sequence[Spec], Attributes], Spec]
    meaning: Callable[[Sequence[Array], Attributes], Any]
    attributes: Mapping[str, Any] = {}
    in_place: tuple[int, ...] = ()


def _activations() -> list[Op]:
    # What the kernels can do to a tile of a product; `scale` is a product with a number.
    return [
        Op(row.name, ELEMENTWISE, (1, 1), rules.floating, meanings.activation(row.name), dict(row.params), (0,))
        for row in activations.EPILOGUES
        if row.name != "none"
    ]


_REDUCED = {"axes": REQUIRED, "keepdims": False}
# `packed`: the right operand is constant, and kept as kernels read it.
_FINISH = {"packed": False, "terms": (), "activation": "none", "p": 0.0, "q": 0.0, "dtype": None}
_QUANTISED = {**_FINISH, "terms": REQUIRED, "dtype": "float32", "y_scale": None, "y_zero": 0, "a_zero": 0, "b_zero": 0}

OPS: dict[str, Op] = {
    op.name: op
    for op in (
        Op("matmul", PRODUCT, (2, 2), rules_products.matmul, meanings.matmul, {"dtype": None, "packed": False}),
        Op(
            "matmul_integer", PRODUCT, (2, 4), rules_products.matmul_integer, meanings.matmul_integer, {"packed": False}
        ),
        # Made by the passes: activation(a @ b + terms), where terms names the operands from the third on.
        Op("linear", PRODUCT, (2, 4), rules_products.linear, meanings.linear, _FINISH),
        # Made by the passes: a product of bytes with what its sums are multiplied by and what is added to them.
        Op("qlinear", PRODUCT, (3, 4), rules_products.qlinear, meanings.qlinear, _QUANTISED),
        # Made by the passes: activation(matmul_integer(a, b, a_zero) * (scale * factor) + bias), whose scale a call may
        # bring; terms names the operands from the fourth on.
        Op(
            "integer_linear", PRODUCT, (4, 6), rules_products.integer_linear, meanings.integer_linear,
            {"packed": False, "terms": REQUIRED, "b_zero": 0, "activation": "none", "p": 0.0, "q": 0.0},
        ),
        *_activations(),
        *(
            Op(name, ELEMENTWISE, (1, 1), rule, meanings.unary(name), {}, (0,))
            for name, rule in (
                ("neg", rules.same),
                ("abs", rules.same),
                ("sqrt", rules.floating),
                ("log", rules.floating),
                ("reciprocal", rules.floating),
                ("identity", rules.same),
                ("floor", rules.same),
                ("ceil", rules.same),
            )
        ),
        *(
            Op(name, ELEMENTWISE, (2, 2), rules.broadcast, meanings.binary(name), {}, (0, 1))
            for name in ("add", "sub", "mul", "div", "maximum", "minimum", "pow")
        ),
        Op("where", ELEMENTWISE, (3, 3), rules.where, meanings.where, {}, (1, 2)),
        Op("softmax", ROW, (1, 1), rules.along_axis, meanings.softmax, {"axis": -1}, (0,)),
        # Made by the passes: softmax(x * scale + mask).
        Op(
            "masked_softmax",
            ROW,
            (1, 2),
            rules.masked_softmax,
            meanings.masked_softmax,
            {"axis": -1, "scale": 1.0},
            (0,),
        ),
        Op("layer_norm", ROW, (1, 3), rules.layer_norm, meanings.layer_norm, {"epsilon": 1e-5}, (0,)),
        *(
            Op(name, REDUCTION, (1, 1), rules.reduction, meanings.reduction(name), _REDUCED)
            for name in ("sum", "mean", "max")
        ),
        Op("dynamic_scale", REDUCTION, (1, 1), rules_products.dynamic_scale, meanings.dynamic_scale),
        Op("reshape", VIEW, (1, 1), rules.reshape, meanings.reshape, {"shape": REQUIRED}),
        Op("transpose", VIEW, (1, 1), rules.transpose, meanings.transpose, {"perm": None}),
        Op(
            "slice", VIEW, (1, 1), rules.slice_, meanings.slice_, {"starts": REQUIRED, "stops": REQUIRED, "steps": None}
        ),
        Op("broadcast", VIEW, (1, 1), rules.broadcast_to, meanings.broadcast_to, {"shape": REQUIRED}),
        Op("copy", COPY, (1, 1), rules.same, meanings.copy),
        Op("concat", COPY, (1, 1 << 16), rules.concat, meanings.concat, {"axis": REQUIRED}),
        Op("gather", COPY, (2, 2), rules.gather, meanings.gather, {"axis": 0}),
        Op("chain", CHAIN, (1, 64), rules.chain, meanings.chain, {"body": REQUIRED, "block": REQUIRED, "keys": 0}),
        Op("cast", QUANTISE, (1, 1), rules_products.cast, meanings.cast, {"dtype": REQUIRED}),
        Op("quantize", QUANTISE, (2, 3), rules_products.quantize, meanings.quantize, {"axis": -1, "dtype": None}),
        Op("dequantize", QUANTISE, (2, 3), rules_products.dequantize, meanings.dequantize, {"axis": -1}),
    )
}


def said(row: Op) -> str:
    """Return what an operation takes and means, in a line each: the docstring of its method of `Builder`.

    Examples
    --------
    >>> from fastgemm.graph import ops
    >>> print(ops.said(ops.op("gather")))
    gather(operand, operand, *, axis=0, name=None)
    <BLANKLINE>
    Take entries along an axis; negative numbers count from its end, others beyond it are an IndexError.
    """
    least, most = row.inputs
    operands = ["operand"] * least + ["[operand]"] * min(most - least, 3) + ["..."] * (most - least > 3)
    attributes = [key if plain is REQUIRED else f"{key}={plain!r}" for key, plain in row.attributes.items()]
    meaning = (row.meaning.__doc__ or f"{row.name} of each number, as in NumPy.").partition("\n")[0]
    return f"{row.name}({', '.join([*operands, '*', *attributes, 'name=None'])})\n\n{meaning}"


def op(name: str) -> Op:
    """Return the row of an operation.

    Raises
    ------
    ValueError
        If there is none of that name.

    Examples
    --------
    >>> from fastgemm.graph import ops
    >>> ops.op("softmax").kind
    'row'
    """
    row = OPS.get(name)
    if row is None:
        raise ValueError(f"no operation {name!r}; there are {', '.join(sorted(OPS))}")
    return row


def attributes_of(row: Op, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return an operation's attributes, defaults filled in and lists made tuples.

    Raises
    ------
    TypeError
        If one is unknown, or one without a default is missing.
    """
    unknown = sorted(set(given) - set(row.attributes))
    if unknown:
        known = ", ".join(row.attributes) or "none"
        raise TypeError(f"no attribute {unknown[0]!r} (there is {known})")
    merged = {**row.attributes, **given}
    missing = [name for name, value in merged.items() if value is REQUIRED]
    if missing:
        raise TypeError(f"attribute {missing[0]!r} is missing")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in merged.items()}


def filled(row: Op, inputs: Sequence[Spec], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return an operation's attributes as nodes of a graph have them: all, and axes of a transpose from the front.

    Examples
    --------
    >>> import numpy as np
    >>> from fastgemm.graph import ops
    >>> spec = ops.Spec((2, 4, 8), np.dtype("f4"))
    >>> ops.filled(ops.op("transpose"), [spec], {"perm": [0, -1, 1]}), ops.filled(ops.op("softmax"), [spec], {})
    ({'perm': (0, 2, 1)}, {'axis': -1})
    """
    merged = attributes_of(row, given)
    if "perm" in merged:
        merged["perm"] = rules.perm_of(merged["perm"], len(inputs[0].shape))
    return merged


def infer(name: str, inputs: Sequence[Spec], attributes: Attributes) -> Spec:
    """Return the shape and type of an operation's result.

    Raises
    ------
    ValueError, TypeError
        If the operands do not fit; the message says what is wrong, not where: the caller knows the node.

    Examples
    --------
    >>> import numpy as np
    >>> from fastgemm.graph import ops
    >>> spec = ops.Spec((4, 8), np.dtype("f4"))
    >>> ops.infer("transpose", [spec], {"perm": None}).shape
    (8, 4)
    """
    row = op(name)
    least, most = row.inputs
    if not least <= len(inputs) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise ValueError(f"takes {wanted} operands, not {len(inputs)}")
    return row.infer(inputs, attributes)
