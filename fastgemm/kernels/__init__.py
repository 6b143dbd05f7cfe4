"""Compiled kernels: which there are, which this CPU may run, and loading them.

A kernel module is compiled with its tier's flags and may execute that tier's
instructions as soon as it is imported, so nothing here imports one before
`fastgemm.cpu` has confirmed the features.  One tier is loaded at first use; the tuner
and the tests may load others that the CPU can run.

The templates, each with the parts (*.tp) that it includes; driver/abi.pxd says what the driver calls of them::

    gemm.pyx.tp      large products: gemm_micro and gemm_written (microkernels), gemm_store (a tile goes to C), pack,
                     pack_dot and pack_limbs (copies of operands), gemm_special (kernels of one shape), gemm_peak;
                     amx_micro and amx_finish are what tile registers have instead
    gemv.pyx.tp      one row of output (gemv_dot and gemv_vnni: from bytes), or a few (strip, strip_dot)
    dots.pyx.tp      a few rows of output, both operands along k: dots_tile, dots_short (columns of a few numbers)
    small.pyx.tp     stacks of small products and narrow rows: small_tile, small_narrow (rows share a vector),
                     small_columns (A by columns), small_whole (a row is a vector), small_brief (a few steps of k)
    epilogue.pyx.tp  what follows a product
    rows.pyx.tp      whole rows: softmax (softmax, softmax_double, exponentials), layer norm, casts

and what these are written in::

    simd.pxd       vector types                               numbers.pxd    whole numbers, arithmetic by one name
    lower.pxd      lower halves of last vectors               lanes.pxd      several rows in one vector
    joined.pxd     the lanes of many vectors added up         sums.pxd       those of four
    stored.pxd     from what is stored to what is computed    rows.pxd       the same for whole rows of float32
    dot.pxd        products of bytes and halves in a lane     weave.pxd      their numbers of k side by side
    transpose.pxd  squares turned over in registers           rounding.pxd   to bytes, and how near to a tie
    vecmath.pxd    exp, erf and tanh (and segments.py)        amx.pxd        tile registers
    limbs.pxd      float32 cut in three for them              tiles_in_c.pxd tile registers in C, for tests
    turned_stack.pxd  small matrices of a stack turned over
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import time

from .. import cpu, registry
from ..allowed import asked_of_f32, halved_bytes, runs
from ..driver import _kernels, _plan
from ..locks import lock

# Of the loop that says which of two families is faster: 20 us of float32's multiply-adds.
PEAK_ROUNDS = 4000
# Of limbs a round is longer; and how many times the rate of multiply-adds pays for cutting.
LIMBS_LONGER, LIMBS_GAIN = 100, 2.0

_loaded: set[str] = set()
_lock = lock()


@functools.cache
def available() -> tuple[tuple[str, str], ...]:
    """Return the (family, ISA tier) pairs that this installation was built with."""
    return tuple(
        (family.name, tier.name)
        for family, tier in registry.modules()
        if importlib.util.find_spec(registry.module(family.name, tier)) is not None
    )


def runnable() -> tuple[registry.Isa, ...]:
    """Return the tiers that are built in and that this CPU runs, lowest first."""
    return tuple(tier for tier in cpu.isas() if tier.name in _whole())


@functools.cache
def _whole() -> frozenset[str]:
    # The tiers of which this installation has every family that is for all of them.
    everywhere = [family.name for family in registry.FAMILIES if not family.tiers]
    built = frozenset(available())
    return frozenset(tier.name for tier in registry.ISAS if built.issuperset((name, tier.name) for name in everywhere))


@functools.cache
def has(family: str, isa: str) -> bool:
    """Whether a tier's family is built in, and this CPU has what the family asks for beyond the tier.

    Examples
    --------
    >>> from fastgemm import kernels
    >>> kernels.has("vnni", "v2")
    False
    """
    if not runs(family, registry.isa(isa)):
        return False
    return importlib.util.find_spec(registry.module(family, registry.isa(isa))) is not None


def family(row: registry.DType, tier: registry.Isa) -> str:
    """Return the blocked family that computes a dtype: one that this CPU has beyond the tier before the tier's own.

    Of those that have vectors of operands, and kernels for few rows besides: `matrix_family` is another matter.

    Examples
    --------
    >>> from fastgemm import kernels, registry
    >>> kernels.family(registry.dtype("f32"), registry.isa("v3"))
    'gemm'
    """
    return _beyond(row, tier, False) or "gemm"


def blocked_family(row: registry.DType, tier: registry.Isa) -> str:
    """Return the family of vectors whose tiles compute a dtype: `family`, unless it is slower than the tier's own.

    Intel's dot product of bfloat16 is: it takes twice as long as the two multiply-adds of float32 (Emerald Rapids, 89
    and 177 GFLOP/s; 512^3 converted to float32 1.84), where AMD's takes half of that.  No CPU tells, so both are
    measured, once, in half a millisecond.  In place, where few rows are bound by reading B, it gains all the same (1 x
    1024 x 1024 1.7).

    Examples
    --------
    >>> from fastgemm import kernels, registry
    >>> kernels.blocked_family(registry.dtype("f32"), registry.isa("v3"))
    'gemm'
    """
    found = family(row, tier)
    if found == "gemm" or row.exact or _faster(found, registry.kernels_of(row, found), tier.name):
        return found
    return "gemm"


@functools.cache
def _faster(family_name: str, name: str, isa: str, least: float = 1.0, rounds: int = PEAK_ROUNDS) -> bool:
    # The best of a few, by turns: the two rates are a factor of two or more apart, one way or the other.
    best = {family_name: 0.0, "gemm": 0.0}
    for own in 5 * tuple(best):
        flops, seconds = peak(name, isa, PEAK_ROUNDS if own == "gemm" else rounds, own)
        best[own] = max(best[own], flops / seconds)
    return best[family_name] > least * best["gemm"]


def best_family(row: registry.DType, tier: registry.Isa) -> str:
    """Return the family that computes large products of a dtype: by tile registers, or `blocked_family`.

    Examples
    --------
    >>> from fastgemm import kernels, registry
    >>> kernels.best_family(registry.dtype("f32"), registry.isa("v3"))
    'gemm'
    """
    return matrix_family(row, tier) or blocked_family(row, tier)


def matrix_family(row: registry.DType, tier: registry.Isa) -> str:
    """Return the family that computes a dtype by tile registers; "" where there is none.

    Examples
    --------
    >>> from fastgemm import kernels, registry
    >>> kernels.matrix_family(registry.dtype("f32"), registry.isa("v4"))
    ''
    """
    return _beyond(row, tier, True)


def limbs_family(row: registry.DType, tier: registry.Isa) -> str:
    """Return the family that cuts a dtype into limbs for tile registers, where that pays; "" elsewhere.

    Of `matrix_family` it is none: what it computes with is not what B holds, and not every number.

    Whether it pays is measured, once in a process, in a quarter of a millisecond: on a shared host tile registers have
    been four times as slow for seconds at a time, and vectors have not, it seems where the core's other thread is busy
    (Emerald Rapids, a script, 1024^3 by limbs 250 and 85 GFLOP/s, by multiply-adds 160 and 118).  FASTGEMM_F32 says it
    instead: ``limbs``, or ``vectors``.

    Examples
    --------
    >>> from fastgemm import kernels, registry
    >>> kernels.limbs_family(registry.dtype("f64"), registry.isa("v4"))
    ''
    """
    found = built_limbs(row, tier)
    asked = asked_of_f32()
    if not found or asked:
        return found if asked == "limbs" else ""
    return found if _faster(found, row.name, tier.name, LIMBS_GAIN, PEAK_ROUNDS // LIMBS_LONGER) else ""


def built_limbs(row: registry.DType, tier: registry.Isa) -> str:
    """Return the family that would cut a dtype into limbs, whether it pays or not; "" where there is none.

    Examples
    --------
    >>> from fastgemm import kernels, registry
    >>> kernels.built_limbs(registry.dtype("f64"), registry.isa("v4"))
    ''
    """
    return _beyond(row, tier, True, True)


@functools.cache
def _beyond(row: registry.DType, tier: registry.Isa, matrices: bool, limbs: bool = False) -> str:
    for other in registry.FAMILIES:
        asked = bool(other.tiers) and registry.by_matrices(other.name) == matrices
        asked = asked and registry.by_limbs(other.name) == limbs
        if asked and registry.computes(other.name, row) and has(other.name, tier.name):
            return other.name
    return ""


def active_isa() -> registry.Isa | None:
    """Return the tier that calls use: the best there is, or the one that FASTGEMM_ISA names.

    Returns
    -------
    Isa or None
        None when no tier runs here; every product then goes to NumPy.

    Raises
    ------
    RuntimeError
        If FASTGEMM_ISA names a tier that this CPU or this build does not have.
    """
    tiers = runnable()
    forced = os.environ.get("FASTGEMM_ISA", "")
    if not forced:
        return tiers[-1] if tiers else None
    for tier in tiers:
        if tier.name == forced:
            return tier
    names = ", ".join(tier.name for tier in tiers) or "none"
    known = ", ".join(tier.name for tier in registry.ISAS)
    if forced not in {tier.name for tier in registry.ISAS}:
        raise RuntimeError(f"FASTGEMM_ISA={forced!r} is not a tier; the tiers are {known}")
    raise RuntimeError(f"FASTGEMM_ISA={forced!r} cannot be used here; this CPU and this build have: {names}")


def half_isa() -> registry.Isa | None:
    """Return the tier of half the active one's vectors, for calls that are better off with it (`half_tier`).

    Returns
    -------
    Isa or None
        None but where the CPU computes the active tier's vectors in two halves; and where FASTGEMM_ISA names a tier,
        which calls then keep to.
    """
    tier = active_isa()
    if tier is None or tier.vector_bytes != halved_bytes():
        return None
    return next((half for half in runnable() if 2 * half.vector_bytes == tier.vector_bytes), None)


def load(name: str) -> None:
    """Load the kernels of one tier into the driver.

    Raises
    ------
    RuntimeError
        If this CPU or this build does not have the tier.
    """
    if name in _loaded:
        return
    with _lock:
        if name in _loaded:
            return
        tier = registry.isa(name)
        if tier not in runnable():
            raise RuntimeError(f"kernels for {name} cannot run here")
        for index, family in enumerate(registry.FAMILIES):
            if has(family.name, name):
                module = importlib.import_module(registry.module(family.name, tier))
                # A family beyond the tier computes dtypes in its own way, beside the tier's.
                _kernels.add_kernels(tier.level, index if family.tiers else 0, module.tables())
        _loaded.add(name)


def kernel_hash() -> str:
    """Return the hash of this build's sources (kernels, driver, heuristic, flags), "" where no tier runs."""
    return "" if active_isa() is None else _plan.code


def peak(dtype: str, isa: str, rounds: int = 20_000_000, family: str = "gemm") -> tuple[int, float]:
    """Run multiply-adds in registers alone: the most that one core can do.

    Parameters
    ----------
    dtype, isa : str
        Registry names.
    rounds : int
        Length of the loop.
    family : str
        Whose multiply-adds: those beyond the tier have their own.

    Returns
    -------
    flops : int
        Operations done.
    seconds : float
        Time that they took.
    """
    load(isa)
    start = time.perf_counter()
    index = [row.name for row in registry.FAMILIES].index(family)
    table = index if registry.FAMILIES[index].tiers else 0
    flops = _kernels.peak(registry.isa(isa).level, table, registry.dtype(dtype).code, rounds)
    return flops, time.perf_counter() - start
