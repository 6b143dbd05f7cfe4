"""The table of what may follow a product: activations, their kernels, their meaning and their numbers.

The build loads it by path, as it does `registry`, and renders kernels/epilogue.pyx.tp from it.
"""

from __future__ import annotations

from typing import NamedTuple

from . import registry


class Epilogue(NamedTuple):
    """What may follow a product, done while a tile of the output lies in L1.

    ``kernel`` is its expression in kernels/epilogue.pyx.tp over vectors ``x``, ``p`` and ``q``, ``meaning`` the same in
    NumPy, which the tests hold it against.  ``params`` names its numbers and what they are where a call does not say,
    ``whole`` says whether it leaves whole numbers whole: for others they become floats first.
    """

    name: str
    code: int
    params: tuple[tuple[str, float], ...]
    kernel: str
    meaning: str
    whole: bool = False


# What `fastgemm.linear` calls an activation.  Bias and residual are added before it, by the same function.  Of -inf the
# formulas of gelu and gelu_tanh make NaN, as silu's does; float32's kernels of v3 and v4 (`segments.py`) make 0.
EPILOGUES = (
    Epilogue("none", 0, (), "x", "x", whole=True),
    Epilogue("relu", 1, (), "above(x, zero)", "np.maximum(x, np.zeros((), x.dtype))", whole=True),
    Epilogue("leaky_relu", 2, (("p", 0.01),), "if_below(x, zero, x * p, x)", "np.where(x < 0, x * p, x)"),
    Epilogue("gelu", 3, (), "gelu(x)", "0.5 * x * (1 + erf(x * 0.7071067811865476))"),
    Epilogue("gelu_tanh", 4, (), "gelu_tanh(x)", "0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))"),
    Epilogue("silu", 5, (), "x / (1 + exp(-x))", "x / (1 + np.exp(-x))"),
    Epilogue("sigmoid", 6, (), "one / (1 + exp(-x))", "1 / (1 + np.exp(-x))"),
    Epilogue("tanh", 7, (), "tanh(x)", "np.tanh(x)"),
    Epilogue("exp", 8, (), "exp(x)", "np.exp(x)"),
    Epilogue("erf", 9, (), "erf(x)", "erf(x)"),
    Epilogue("clip", 10, (("p", 0.0), ("q", 6.0)), "below(above(x, p), q)", "np.minimum(np.maximum(x, p), q)"),
    Epilogue("scale", 11, (("p", 1.0),), "x * p", "x * p"),
    Epilogue("k_tanh", 12, (), "k_tanh(x)", "k_tanh(x)"),
)
# tanh of bfloat16 by a table (K-TanH, arXiv 1909.07729): the number itself below 0.25, 1 above 3.75, and between them
# an exponent, how far the mantissa is shifted, and what is added to it, for each two low bits of the exponent and three
# high ones of the mantissa.
K_TANH = (
    (126, 2, 119), (126, 4, 122), (126, 4, 123), (126, 4, 123), (126, 6, 126), (126, 6, 126), (126, 6, 126),
    (126, 6, 126), (125, 1, 1), (125, 0, -4), (125, 0, -6), (125, 0, -7), (125, 0, -10), (125, 0, -12), (125, 0, -15),
    (125, 0, -18), (125, 0, 112), (126, 1, -4), (126, 1, -1), (126, 1, 2), (126, 1, 3), (126, 1, 4), (126, 1, 4),
    (126, 1, 4), (126, 0, 65), (126, 1, 72), (126, 1, 73), (126, 1, 73), (126, 2, 88), (126, 2, 89), (126, 2, 89),
    (126, 4, 110),
)


def epilogue(name: str) -> Epilogue:
    """Return the row of an activation."""
    return registry.named(EPILOGUES, name, "activation", "activations")
