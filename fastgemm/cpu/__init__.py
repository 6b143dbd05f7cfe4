"""What this CPU is: features, ISA tiers, cache sizes, and the cores that we may use.

Everything is asked of the CPU and the operating system (CPUID, XCR0, control groups);
nothing depends on a model name, so a CPU newer than this package gets the best tier
that it has.  `key` puts the answers that tuning depends on into one line.

    _cpuid.pyx    the CPUID instruction       _features.py  features, by what it says and the system allows
    _caches.py    sizes of caches             _cores.py     affinity and control groups
"""

from __future__ import annotations

import functools

from .. import registry, variables
from ._caches import L2_MOST, MIB, Caches, counted_l3, sizes
from ._cores import affinity, cores, quota
from ._cpuid import ask_for_tiles, cpuid, xcr0
from ._features import brand, decode, half_lines, half_wide

__all__ = [
    "Caches", "affinity", "caches", "cores", "describe", "features", "gives_tiles", "half_line_l1", "halves", "isas",
    "key", "narrow_units", "quota", "small_l1", "wants_tiles",
]

# Bytes of L1 up to which what a CPU says of 512 bits decides (`halves`), and which hold few panels of such vectors:
# always, and where L2 brings half a line a cycle.
HALF_WIDE_L1 = SMALL_L1 = 32 << 10
SMALL_HALF_LINES = 48 << 10

# What sets CPUs of one tier apart for kernels, in the order of the key.
_MARKS = (
    ("vnni", ("avx512_vnni", "avx_vnni")),
    ("bf16", ("avx512_bf16",)),
    ("fp16", ("avx512_fp16",)),
    ("amx", ("amx_tile",)),
)


@functools.cache
def features() -> frozenset[str]:
    """Return the CPU features that the operating system lets programs use.

    Names are those of ``/proc/cpuinfo``, or the psABI's where it has another one
    (``sse3``, ``cmpxchg16b``, ``lzcnt``).  Empty on processors other than x86.

    Examples
    --------
    >>> from fastgemm import cpu
    >>> "avx512f" in cpu.features() and "avx2" not in cpu.features()
    False
    """
    return decode(cpuid, xcr0())


def isas() -> tuple[registry.Isa, ...]:
    """Return the ISA tiers that this CPU can run, lowest first.

    Examples
    --------
    >>> from fastgemm import cpu
    >>> all(set(tier.features) <= cpu.features() for tier in cpu.isas())
    True
    """
    return tuple(tier for tier in registry.ISAS if features().issuperset(tier.features))


@functools.cache
def gives_tiles() -> bool:
    """Say whether the CPU has tile registers (AMX) and the system gives them to this process, which asks for them now.

    From then on Linux refuses alternative signal stacks that are too small for them.  FASTGEMM_AMX=0: not asked for.

    Examples
    --------
    >>> from fastgemm import cpu
    >>> cpu.gives_tiles() <= ("amx_tile" in cpu.features())
    True
    """
    return wants_tiles() and "amx_tile" in features() and ask_for_tiles()


@functools.cache
def wants_tiles() -> bool:
    """Say whether FASTGEMM_AMX leaves the tile registers to this process, whether or not there are any.

    Warns
    -----
    RuntimeWarning
        If it says neither.

    Examples
    --------
    >>> from fastgemm import cpu
    >>> cpu.gives_tiles() <= cpu.wants_tiles()
    True
    """
    return variables.switch("FASTGEMM_AMX", default=True)


@functools.cache
def caches() -> Caches:
    """Return the cache sizes in bytes: L1 data and L2 of one core, and L3 as far as this process may count on it.

    A size that cannot be found out is replaced by a usual one (32 KiB, 1 MiB, 8 MiB).  An L2 counts for 4 MiB at most,
    for no core has more of it to itself.  Of an L3 that a whole socket of cores shares the part is meant that those
    count on which the process may use (`counted_l3`).

    Examples
    --------
    >>> from fastgemm import cpu
    >>> cpu.caches().l1d >= 8192
    True
    """
    found = sizes(cpuid, affinity())
    return found._replace(l2=min(found.l2, L2_MOST), l3=counted_l3(found.l3, cores()))


@functools.cache
def _half_wide() -> bool:
    return half_wide(cpuid)


@functools.cache
def _half_lines() -> bool:
    return half_lines(cpuid)


def halves(tier: registry.Isa) -> bool:
    """Say whether this CPU computes the vectors of a tier in two halves, so that longer ones are no faster.

    AMD's leaf 0x8000001A tells how wide the units are, with a bit for 512 bits that a hypervisor may hide (Linux's
    did); the cores that have such units have 48 KiB of L1 too.  On other CPUs: no.

    Examples
    --------
    >>> from fastgemm import cpu, registry
    >>> cpu.halves(registry.isa("v2"))
    False
    """
    return tier.vector_bytes > 32 and narrow_units()


def narrow_units() -> bool:
    """Say whether this CPU's floating-point units are 256 bits wide, as far as it tells (see `halves`).

    Examples
    --------
    >>> from fastgemm import cpu
    >>> isinstance(cpu.narrow_units(), bool)
    True
    """
    return _half_wide() and caches().l1d <= HALF_WIDE_L1


def small_l1(tier: registry.Isa) -> bool:
    """Say whether this CPU computes a tier's vectors of 64 bytes whole, beside an L1 that is small for them.

    Of 32 KiB, as Intel's first cores with AVX-512 have it (Skylake-SP, Cascade Lake); or of 48 KiB, where what it does
    not hold comes at half a line a cycle.  AMD's with units of 512 bits have 48 KiB and bring a whole one, so whose
    leaf of CPUID describes the caches tells (`half_lines`).  (Emerald Rapids, 36 bytes a cycle from L2, one thread, the
    rules for a small L1 over the others: float32 256 x 1152 x 25088 tn 1.64, 128 x 2048 x 2048 1.85, 50464 x 1600 x 32
    1.79, 16 x 2048 x 512 1.6, 512^3, five of them, 1.2, 186 real shapes 1.02, the worst 16 x 2560 x 2560 0.88; float64
    784 x 4800 x 32 2.3, 400^3 1.27, 18 shapes 1.16.)

    Examples
    --------
    >>> from fastgemm import cpu, registry
    >>> cpu.small_l1(registry.isa("v3"))
    False
    """
    small = SMALL_HALF_LINES if _half_lines() else SMALL_L1
    return tier.vector_bytes == 64 and caches().l1d <= small and not halves(tier)


def half_line_l1(tier: registry.Isa) -> bool:
    """Say whether that L1 is the one of 48 KiB, whose missing lines come by halves (`small_l1`).

    Examples
    --------
    >>> from fastgemm import cpu, registry
    >>> cpu.half_line_l1(registry.isa("v3"))
    False
    """
    return small_l1(tier) and caches().l1d > SMALL_L1


def key() -> str:
    """Return one line that names all that tuning results depend on in this CPU.

    Tier, vector features beyond it, cache sizes, and the cores that this process may
    use: ``v4 vnni bf16 l1d48K l2-1024K l3-32M c2``.  Records of the tuning database are
    used where the key is the same.

    Examples
    --------
    >>> from fastgemm import cpu
    >>> cpu.key().endswith(f" c{cpu.cores()}")
    True
    """
    tiers, size = isas(), caches()
    words = [tiers[-1].name if tiers else "base"]
    words += [mark for mark, names in _MARKS if features().intersection(names)]
    l3 = f"{size.l3 // MIB}M" if size.l3 % MIB == 0 else f"{size.l3 >> 10}K"
    words += [f"l1d{size.l1d >> 10}K", f"l2-{size.l2 >> 10}K", f"l3-{l3}", f"c{cores()}"]
    return " ".join(words)


def describe() -> dict[str, object]:
    """Return all of the above, and the CPU's own name, as plain values for a report.

    Examples
    --------
    >>> from fastgemm import cpu
    >>> sorted(cpu.describe())
    ['affinity', 'caches', 'cores', 'features', 'isas', 'key', 'name', 'quota']
    """
    return {
        "name": brand(cpuid),
        "key": key(),
        "isas": [tier.name for tier in isas()],
        "features": sorted(features()),
        "caches": caches()._asdict(),
        "affinity": list(affinity()),
        "quota": quota(),
        "cores": cores(),
    }
