"""What the CPU can do, by CPUID, and what the operating system lets it do, by XCR0."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

CpuId = Callable[[int, int], "tuple[int, int, int, int] | None"]

EAX, EBX, ECX, EDX = range(4)

# Register states in XCR0 that the operating system must save before the registers may be used.
_YMM = 0x6
_ZMM = 0xE6
_TILE = 0x60000


class _Group(NamedTuple):
    """Feature bits of one output register of one leaf that need the same register state."""

    leaf: int
    subleaf: int
    register: int
    state: int
    bits: dict[str, int]


# Names as the kernel lists them in /proc/cpuinfo, but sse3 (pni), cmpxchg16b (cx16) and
# lzcnt (abm), which keep the names of the psABI tiers.
_GROUPS = (
    _Group(1, 0, EDX, 0, {"sse": 25, "sse2": 26}),
    _Group(
        1, 0, ECX, 0,
        {"sse3": 0, "ssse3": 9, "cmpxchg16b": 13, "sse4_1": 19, "sse4_2": 20, "movbe": 22, "popcnt": 23},
    ),
    _Group(1, 0, ECX, _YMM, {"fma": 12, "avx": 28, "f16c": 29}),
    _Group(7, 0, EBX, 0, {"bmi1": 3, "bmi2": 8}),
    _Group(7, 0, EBX, _YMM, {"avx2": 5}),
    _Group(
        7, 0, EBX, _ZMM,
        {"avx512f": 16, "avx512dq": 17, "avx512ifma": 21, "avx512cd": 28, "avx512bw": 30, "avx512vl": 31},
    ),
    _Group(
        7, 0, ECX, _ZMM,
        {"avx512vbmi": 1, "avx512_vbmi2": 6, "avx512_vnni": 11, "avx512_bitalg": 12, "avx512_vpopcntdq": 14},
    ),
    _Group(7, 0, EDX, _ZMM, {"avx512_fp16": 23}),
    # Linux also wants a permission for tiles (arch_prctl); whoever uses them asks for it.
    _Group(7, 0, EDX, _TILE, {"amx_bf16": 22, "amx_tile": 24, "amx_int8": 25}),
    _Group(7, 1, EAX, _YMM, {"avx_vnni": 4, "avx_ifma": 23}),
    _Group(7, 1, EAX, _ZMM, {"avx512_bf16": 5}),
    _Group(7, 1, EDX, _YMM, {"avx_vnni_int8": 4, "avx_ne_convert": 5, "avx_vnni_int16": 10}),
    _Group(0x80000001, 0, ECX, 0, {"lahf_lm": 0, "lzcnt": 5}),
)

# AMD's widths of its units (leaf 0x8000001A, EAX).  Linux's KVM let three bits through, so no 512 is no answer.
_WIDTHS, _FP256, _FP512 = 0x8000001A, 2, 3

# Intel's description of the caches; AMD has another leaf, and zeros here.
_CACHES = 4

# A CPU with two kinds of core (leaf 7, EDX): each kind answers CPUID for itself.
_HYBRID = 15


def known() -> frozenset[str]:
    """Return every name that `decode` can report."""
    return frozenset(name for group in _GROUPS for name in group.bits)


def decode(cpuid: CpuId, xcr0: int) -> frozenset[str]:
    """Return the features present in CPUID whose register state the system saves."""
    found: set[str] = set()
    for group in _GROUPS:
        if xcr0 & group.state != group.state:
            continue
        if group.subleaf:
            # Leaf 7 says in its own EAX how many subleaves it has; a subleaf beyond
            # that may repeat old data.
            first = cpuid(group.leaf, 0)
            if first is None or first[EAX] < group.subleaf:
                continue
        registers = cpuid(group.leaf, group.subleaf)
        if registers is not None:
            value = registers[group.register]
            found.update(name for name, bit in group.bits.items() if value >> bit & 1)
    return frozenset(found)


def hybrid(cpuid: CpuId) -> bool:
    """Say whether the CPU has cores of two kinds."""
    leaf = cpuid(7, 0)
    return leaf is not None and bool(leaf[EDX] >> _HYBRID & 1)


def half_wide(cpuid: CpuId) -> bool:
    """Say whether the CPU calls its floating-point units 256 bits wide, and does not call them wider."""
    leaf = cpuid(_WIDTHS, 0)
    return leaf is not None and bool(leaf[EAX] >> _FP256 & 1) and not leaf[EAX] >> _FP512 & 1


def half_lines(cpuid: CpuId) -> bool:
    """Say whether the CPU describes its caches by Intel's leaf, whose cores bring half a line a cycle from L2."""
    leaf = cpuid(_CACHES, 0)
    return leaf is not None and bool(leaf[EAX] & 31)


def brand(cpuid: CpuId) -> str:
    """Return the name that the CPU gives itself.  For reports only: nothing decides by it."""
    text = b""
    for leaf in (0x80000002, 0x80000003, 0x80000004):
        registers = cpuid(leaf, 0)
        if registers is None:
            return ""
        text += b"".join(value.to_bytes(4, "little") for value in registers)
    return " ".join(text.split(b"\0")[0].decode("ascii", "replace").split())
