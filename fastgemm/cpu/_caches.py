"""Cache sizes: what one core has for itself, and what the cores share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ._features import EAX, EBX, ECX, CpuId, hybrid

KIB, MIB = 1 << 10, 1 << 20


class Caches(NamedTuple):
    """Cache sizes in bytes.

    Parameters
    ----------
    l1d : int
        Level 1, data, of one core.
    l2 : int
        Level 2, one core's share of it where several cores have one together.
    l3 : int
        Level 3, the whole of what the cores around this one share.
    """

    l1d: int
    l2: int
    l3: int


# Of an L2, as no core has more: blocks are cut to it, and those of the most must fit a workspace
# (`problem.MAX_WORKSPACE`).
L2_MOST = 4 * MIB
# Of an L3: what a core may count on, what a process may at least, and at most.
L3_OF_CORE, L3_LEAST, L3_MOST = 16 * MIB, 32 * MIB, 96 * MIB

DEFAULTS = Caches(32 * KIB, 1 * MIB, 8 * MIB)

# Virtual machines report sizes of 0, or of a level that they do not have.  A size out
# of these bounds is an answer to be replaced, not one to derive block sizes from.
_LEAST = Caches(8 * KIB, 128 * KIB, 1 * MIB)
_MOST = Caches(1 * MIB, 64 * MIB, 4096 * MIB)

# Leaf 4 is Intel's; 0x8000001D has the same layout and is AMD's.
_LEAVES = (4, 0x8000001D)
_DATA, _UNIFIED = 1, 3
SYSFS = Path("/sys/devices/system/cpu")


def sizes(cpuid: CpuId, cpus: Sequence[int] = (0,), sysfs: Path = SYSFS) -> Caches:
    """Return the cache sizes, from the first source that gives a plausible one.

    CPUID answers for the core that the thread happens to run on.  Where cores differ
    it would therefore change from call to call, so the smallest over `cpus` in sysfs
    comes first there: blocks that fit the smaller cache fit both kinds.
    """
    asked = _from_cpuid(cpuid)
    if hybrid(cpuid):
        sources = (_from_sysfs(sysfs, cpus), asked)
    else:
        # CPUID's own count of the sharers of a cache is an upper bound (it stays at 2
        # with hyper-threading switched off), so the sharers come from sysfs.
        if 2 in asked:
            asked[2] = _share(asked[2], _cores_on_l2(sysfs, cpus[0]))
        sources = (asked, _from_sysfs(sysfs, cpus[:1]))
    found = []
    for level, default, least, most in zip((1, 2, 3), DEFAULTS, _LEAST, _MOST, strict=True):
        given = (source.get(level, 0) for source in sources)
        found.append(next((size for size in given if least <= size <= most), default))
    return Caches(*found)


def counted_l3(l3: int, cores: int) -> int:
    """Return the bytes of an L3 that so many cores count on.

    A virtual machine of two cores is told the 300 MiB that 60 cores share, which it does not have to itself, and which
    are no nearer than memory: an Emerald Rapids reads 25 GB/s from there with one core, and 17 from memory.  Rules that
    ask whether an operand comes from memory then fetch nothing ahead.  (There, one thread, float32, 32 MiB over 300
    of them: 64 x 4096 x 4096 1.67, 3000 x 3000 x 64 1.52, 25088 x 64 x 576 1.47, 16 x 4096 x 4096 1.37, 50176 x 32 x
    144 1.25, 100 x 100 x 100000 1.09, 1000^3 1.01, 2048^3 0.92; over 64 of them, 12 shapes, 1.06.)

    Examples
    --------
    >>> [counted_l3(300 * MIB, cores) // MIB for cores in (1, 2, 4, 60)], counted_l3(8 * MIB, 1) // MIB
    ([32, 32, 64, 96], 8)
    """
    return min(l3, max(L3_LEAST, min(L3_MOST, L3_OF_CORE * cores)))


def _share(size: int, cores: int) -> int:
    # Some virtual machines declare one L2 for all their cores; a share below 256 KiB is
    # that rather than a real cluster (those have 512 KiB a core and more).
    part = size // max(cores, 1)
    return part if part >= 256 * KIB else min(size, 256 * KIB)


def _from_cpuid(cpuid: CpuId) -> dict[int, int]:
    """Return bytes by level of the data and unified caches; empty where CPUID lists none."""
    found: dict[int, int] = {}
    for leaf in _LEAVES:
        for subleaf in range(16):
            registers = cpuid(leaf, subleaf)
            if registers is None or registers[EAX] & 31 == 0:
                break
            if registers[EAX] & 31 not in (_DATA, _UNIFIED):
                continue
            shape = registers[EBX]
            ways, partitions, line = (shape >> 22) + 1, (shape >> 12 & 0x3FF) + 1, (shape & 0xFFF) + 1
            found[registers[EAX] >> 5 & 7] = ways * partitions * line * (registers[ECX] + 1)
        if found:
            break
    return found


def _from_sysfs(sysfs: Path, cpus: Sequence[int]) -> dict[int, int]:
    """Return bytes by level, the smallest over `cpus`; empty where there is no sysfs."""
    found: dict[int, int] = {}
    for cpu in cpus:
        for index in sorted((sysfs / f"cpu{cpu}" / "cache").glob("index*")):
            level, size = _number(_text(index / "level")), _number(_text(index / "size"))
            if size <= 0 or _text(index / "type") not in ("Data", "Unified"):
                continue
            if level == 2:
                size = _share(size, _cores_on_l2(sysfs, cpu))
            found[level] = min(size, found.get(level, size))
    return found


def _cores_on_l2(sysfs: Path, cpu: int) -> int:
    """Return how many cores share a CPU's L2: 1, or 2 and 4 in a cluster of small cores."""
    folder = sysfs / f"cpu{cpu}"
    threads = max(_count(_text(folder / "topology" / "thread_siblings_list")), 1)
    for index in sorted((folder / "cache").glob("index*")):
        if _text(index / "level") == "2":
            return max(_count(_text(index / "shared_cpu_list")) // threads, 1)
    return 1


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _number(text: str) -> int:
    """Read ``"1024K"`` as 1048576, and anything else that is no number as 0."""
    unit = {"K": KIB, "M": MIB, "G": 1024 * MIB}.get(text[-1:], 1)
    digits = text if unit == 1 else text[:-1]
    return int(digits) * unit if digits.isdecimal() and len(digits) < 16 else 0


def _count(cpus: str) -> int:
    """Return how many CPUs a list like ``"0-3,8"`` names."""
    total = 0
    for part in cpus.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            total += int(last or first) - int(first) + 1
    return total
