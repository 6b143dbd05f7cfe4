"""Problems that are timed by the library's own calls: B is packed beforehand, or something follows the product.

A plan alone knows neither panels nor epilogues.  What is timed here is the call that a layer makes, with the
candidate's plan pinned in the place of that which dispatch would give.  A bias comes first, then the activation; sums
of bytes are scaled, to float32 where an activation follows and to bytes again where the type says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .. import _linear, _packed, dispatch, epilogues, layer
from ..packed import PackedMatrix, pack
from ..plan import Plan
from ..problem import PACKED, Config, Problem
from .operands import Array, error, operands, output, reference, spoil, tolerance

Call = Callable[[], object]
Repeat = Callable[[int], object]


def needs_calls(problem: Problem) -> bool:
    """Whether a plan by itself cannot run a problem.

    Examples
    --------
    >>> needs_calls(Problem("f32", 8, 8, 8)), needs_calls(Problem("f32", 8, 8, 8, layout="np"))
    (False, True)
    """
    return problem.layout[1] == PACKED or problem.epilogue != "none"


class Called:
    """Operands, output and reference of such a problem, and its calls.

    Attributes
    ----------
    out : ndarray
        Where every call writes.
    allowed : float
        The largest `error` that rounding explains.
    """

    def __init__(self, problem: Problem, seed: int) -> None:
        self.problem = problem
        self.a, self.b = operands(problem, seed)
        what = epilogues.activation(problem.epilogue)
        self._numbers = what.row.code, what.p, what.q
        self._scaled = problem.row.group > 1 and problem.epilogue != "none"
        self._quantised = problem.row.group > 1 and problem.row.narrows and problem.layout[1] == PACKED
        self.out = np.empty((problem.m, problem.n), "f4") if self._scaled else output(problem)
        # Sums of bytes of random signs, brought to the size of the numbers that activations are there for, or of bytes.
        size = 40.0 if self._quantised else 1.0
        self._scale = np.array([2.0 ** round(math.log2(size / (5e3 * problem.k**0.5)))], np.float32)
        self._packed: dict[int, PackedMatrix] = {}
        self._level = layer.epilogue_level()
        made = reference(problem, self.a, self.b)
        self._bias: Array | None = None
        if self._quantised:
            sums = np.matmul(self.a.astype("f8"), self.b.astype("f8"))
            made = np.rint(sums * float(self._scale[0])).clip(-128, 127).astype(self.out.dtype)
        elif problem.epilogue != "none":
            self._bias = np.random.default_rng(seed + 1).standard_normal(problem.n).astype(self._kind())
            scale = float(self._scale[0]) if self._scaled else 1.0
            with np.errstate(all="ignore"):
                name = "tanh" if problem.epilogue == "k_tanh" else problem.epilogue
                made = epilogues.apply(made * scale, self._bias.astype("f8"), None, epilogues.activation(name))
        self.reference = made
        self.allowed = tolerance(problem)
        if problem.epilogue != "none":
            # Slopes are below 1.2, polynomials off by some units in the last place, K-TanH by its table.
            base = 2**-20 if self._scaled else 2 * self.allowed + 16 * float(np.finfo(self._kind()).eps)
            self.allowed = base + (0.02 if problem.epilogue == "k_tanh" else 0.0)

    def _kind(self) -> str:
        return "f8" if self.problem.dtype == "f64" else "f4"

    def repeat(self, config: Config) -> Repeat:
        """Return what is to be timed, by how often; ValueError or RuntimeError when the configuration is illegal."""
        pin: Callable[[], None] = _nothing
        run: Call = self._by_numpy
        if config.family != "numpy":
            pin = Plan(self.problem, config).pin
            run = self._with_panels(config) if self.problem.layout[1] == PACKED else self._with_arrays()

        def repeat(times: int) -> None:
            # Other candidates have been pinned in the meantime.
            pin()
            for _ in range(times):
                run()

        return repeat

    def error(self, repeat: Repeat) -> float:
        """Run once into an output of nonsense and return the largest difference from the reference.

        After an activation it is relative to numbers above 1: exponentials grow.
        """
        if self.problem.epilogue == "none":
            spoil(self.problem, self.out)
            repeat(1)
            return error(self.problem, self.out, self.reference)
        self.out.fill(np.nan)
        repeat(1)
        # Exponentials may be too large for the type of the output.
        most = float(np.finfo("f2" if self.out.dtype == np.float16 else self._kind()).max)
        found, wanted = (np.clip(x, -most, most) for x in (self.out.astype("f8"), self.reference))
        return float(np.nan_to_num(np.max(np.abs(found - wanted) / np.maximum(1.0, np.abs(wanted))), nan=np.inf))

    def _by_numpy(self) -> None:
        if self._quantised or self._scaled:
            made = np.matmul(self.a, self.b, dtype="i4") * self._scale
        elif self.problem.row.stored == "bf16":
            made = np.matmul(self.a.astype("f4"), self.b.astype("f4"))
        else:
            made = np.matmul(self.a, self.b, dtype=self.out.dtype)
        if self._quantised:
            made = np.rint(made).clip(-128, 127)
        elif self.problem.epilogue != "none":
            made = epilogues.apply(made, self._bias, None, epilogues.activation(self.problem.epilogue))
        with np.errstate(over="ignore"):
            np.copyto(self.out, made, casting="unsafe")

    def _with_arrays(self) -> Call:
        code, p, q = self._numbers
        assert self._level is not None
        given = self._level, self.a, self.b, self.out, code, self._bias, None, p, q
        return lambda: _linear.product_into(*given)

    def _with_panels(self, config: Config) -> Call:
        panels = self._panels(config)
        row = self.problem.row
        code, p, q = self._numbers
        if self._quantised:
            one, zero = np.ones(1, "f4"), np.zeros(1, "f4")
            limits = np.iinfo(self.out.dtype)
            terms = one, self._scale, one, zero, False, float(limits.min), float(limits.max)
            return lambda: _packed.product_into(panels, self.a, self.out, row, None, terms)
        if self.problem.epilogue == "none":
            return lambda: _packed.product_into(panels, self.a, self.out, row)
        assert self._level is not None
        given = self._level, self.a, panels, self.out, code, self._bias, None, p, q
        if self._scaled:
            return lambda: _linear.dequantised_into(*given, self._scale, None)
        return lambda: _linear.packed_into(*given)

    def _panels(self, config: Config) -> _packed.Panels:
        if config.nr not in self._packed:
            with dispatch.forced(config):
                self._packed[config.nr] = pack(self.b, rows=self.problem.m)
        panels = self._packed[config.nr].panels
        if panels is None or not panels.kind.read_by(config):
            raise ValueError(f"B is not packed for {config.family} on {config.isa}")
        return panels


def _nothing() -> None:
    """What NumPy's calls are told beforehand."""
