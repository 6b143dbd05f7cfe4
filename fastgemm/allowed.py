"""What calls may use: the families and vectors that this CPU, its system and the environment's variables let run."""

from __future__ import annotations

import os

from . import cpu, registry, variables


def runs(family: str, tier: registry.Isa) -> bool:
    """Say whether this CPU, the system and FASTGEMM_BF16 let a tier's family run, if it was built.

    Examples
    --------
    >>> from fastgemm import allowed, registry
    >>> allowed.runs("vnni", registry.isa("v2"))
    False
    """
    row = registry.family(family)
    # The instructions of bfloat16 take subnormal numbers for zero; float32 arithmetic does not.
    if row.rounds_halves and exact_bf16():
        return False
    asked = registry.beyond(row, tier)
    if asked is None or not cpu.features().issuperset(asked[0]):
        return False
    return not registry.by_matrices(family) or cpu.gives_tiles()


def halved_bytes() -> int:
    """Return the bytes of vectors that the CPU computes in two halves; 0: none, or FASTGEMM_ISA names a tier."""
    if os.environ.get("FASTGEMM_ISA"):
        return 0
    # (Asked several times for a plan: what costs least first.)
    tiers = (tier for tier in reversed(registry.ISAS) if cpu.halves(tier) and cpu.features().issuperset(tier.features))
    return next((tier.vector_bytes for tier in tiers), 0)


def long_tiers() -> list[registry.Isa]:
    """Return the tiers of vectors of 64 bytes that calls may use: FASTGEMM_ISA names the one that they keep to."""
    named = os.environ.get("FASTGEMM_ISA")
    return [tier for tier in cpu.isas() if tier.vector_bytes == 64 and named in (None, "", tier.name)]


def asked_of_f32() -> str:
    """Return what FASTGEMM_F32 says: ``limbs``, ``vectors``, or nothing.

    Raises
    ------
    RuntimeError
        If it says something else.
    """
    return variables.word("FASTGEMM_F32", "limbs", "vectors")


def exact_bf16() -> bool:
    """Return whether FASTGEMM_BF16 says ``exact``.

    Raises
    ------
    RuntimeError
        If it says something else.
    """
    return variables.word("FASTGEMM_BF16", "exact") != ""


def check() -> None:
    """Report what the environment says wrong, on a CPU without what it is about too.

    Warns
    -----
    RuntimeWarning
        Of FASTGEMM_AMX.

    Raises
    ------
    RuntimeError
        Of FASTGEMM_F32 and FASTGEMM_BF16.
    """
    cpu.wants_tiles()
    asked_of_f32()
    exact_bf16()
