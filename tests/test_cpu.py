"""CPU detection: features, cache sizes, control groups, the key."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
from conftest import Child

from fastgemm import allowed, cpu, registry, variables
from fastgemm.cpu import _caches, _cores, _cpuid, _features

X86 = platform.machine() in ("x86_64", "AMD64")
KIB, MIB = 1 << 10, 1 << 20
ALIASES = {"sse3": "pni", "cmpxchg16b": "cx16", "lzcnt": "abm"}
ALL = 0xFFFFFFFF


def fake_cpuid(leaves: dict[tuple[int, int], tuple[int, int, int, int]]):
    return lambda leaf, subleaf=0: leaves.get((leaf, subleaf))


def everything(leaf: int, subleaf: int = 0) -> tuple[int, int, int, int]:
    return (ALL, ALL, ALL, ALL)


# --- features ---------------------------------------------------------------------------


def test_every_feature_that_a_tier_wants_can_be_detected() -> None:
    for tier in registry.ISAS:
        assert set(tier.features) <= _features.known()


def test_feature_names_are_listed_once() -> None:
    names = [name for group in _features._GROUPS for name in group.bits]
    assert len(names) == len(set(names))


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists() or not X86, reason="needs Linux on x86")
def test_what_the_kernel_lists_is_found() -> None:
    lines = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")]
    listed = set(lines[0].partition(":")[2].split())
    expected = {name for name in _features.known() if ALIASES.get(name, name) in listed}
    assert expected <= cpu.features()
    # The kernel may hide what it distrusts, so the other way round only for the tiers.
    tiers = {name for tier in registry.ISAS for name in tier.features}
    assert {ALIASES.get(name, name) for name in cpu.features() & tiers} <= listed


@pytest.mark.parametrize(
    ("xcr0", "present", "absent"),
    [
        (0x0, {"sse4_2", "bmi2", "popcnt"}, {"avx", "fma", "f16c", "avx2", "avx512f", "avx_vnni", "amx_tile"}),
        (0x3, {"sse4_2"}, {"avx", "avx2", "avx512f"}),
        (0x7, {"avx", "avx2", "fma", "avx_vnni"}, {"avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16"}),
        (0x67, {"avx2"}, {"avx512f", "avx512vl"}),
        (0xE7, {"avx512f", "avx512_bf16", "avx512_vnni"}, {"amx_tile"}),
        (0x600E7, {"amx_tile", "amx_bf16"}, set()),
    ],
)
def test_register_state_that_the_system_does_not_save_hides_features(xcr0: int, present: set, absent: set) -> None:
    found = _features.decode(everything, xcr0)
    assert present <= found
    assert not absent & found


def test_subleaf_beyond_the_last_is_not_believed() -> None:
    leaves = {(7, 0): (0, ALL, ALL, ALL), (7, 1): (ALL, ALL, ALL, ALL)}
    found = _features.decode(fake_cpuid(leaves), ALL)
    assert "avx2" in found
    assert "avx_vnni" not in found


def test_no_cpuid_no_features(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _features.decode(fake_cpuid({}), 0) == frozenset()
    assert _features.brand(fake_cpuid({})) == ""
    monkeypatch.setattr(cpu, "features", frozenset)
    monkeypatch.setattr(cpu, "caches", lambda: _caches.DEFAULTS)
    monkeypatch.setattr(cpu, "cores", lambda: 3)
    assert cpu.isas() == ()
    assert cpu.key() == "base l1d32K l2-1024K l3-8M c3"


def test_leaf_beyond_the_last_is_none() -> None:
    assert _cpuid.cpuid(0x7FFFFFFF) is None
    assert _cpuid.cpuid(0xFFFFFFFF) is None


def test_tiers_are_ascending_and_complete() -> None:
    tiers = cpu.isas()
    assert list(tiers) == [tier for tier in registry.ISAS if tier in tiers]
    assert [tier.level for tier in tiers] == list(range(2, 2 + len(tiers)))
    if X86:
        assert tiers


# --- caches -----------------------------------------------------------------------------


def cache_leaf(kind: int, level: int, size: int, ways: int = 8) -> tuple[int, int, int, int]:
    sets = size // (ways * 64)
    return (level << 5 | kind, (ways - 1) << 22 | 63, sets - 1, 0)


def leaves_of(leaf: int, l1: int, l2: int, l3: int) -> dict[tuple[int, int], tuple[int, int, int, int]]:
    rows = [cache_leaf(1, 1, l1), cache_leaf(2, 1, 64 * KIB), cache_leaf(3, 2, l2)]
    rows += [cache_leaf(3, 3, l3, 16)] if l3 else []
    return {(leaf, at): row for at, row in enumerate([*rows, (0, 0, 0, 0)])}


def sysfs_cpu(
    root: Path, number: int, caches: dict[int, str], shared: str = "0-1", siblings: str = "0-1", code: str = "999K"
) -> None:
    folder = root / f"cpu{number}"
    (folder / "topology").mkdir(parents=True)
    (folder / "topology" / "thread_siblings_list").write_text(siblings + "\n")
    rows = [(1, "Instruction", code)] + [(lv, "Data" if lv == 1 else "Unified", s) for lv, s in caches.items()]
    for at, (level, kind, size) in enumerate(rows):
        index = folder / "cache" / f"index{at}"
        index.mkdir(parents=True)
        for name, text in (("level", level), ("type", kind), ("size", size), ("shared_cpu_list", shared)):
            (index / name).write_text(f"{text}\n")


@pytest.mark.parametrize("leaf", [4, 0x8000001D])
def test_caches_from_cpuid(leaf: int, tmp_path: Path) -> None:
    cpuid = fake_cpuid(leaves_of(leaf, 48 * KIB, 2 * MIB, 32 * MIB))
    assert _caches.sizes(cpuid, sysfs=tmp_path) == (48 * KIB, 2 * MIB, 32 * MIB)


def test_whose_leaf_describes_caches() -> None:
    """Intel's, or AMD's: what tells that L2 brings half a line a cycle."""
    for leaf, told in ((4, True), (0x8000001D, False)):
        assert _features.half_lines(fake_cpuid(leaves_of(leaf, 48, 2048, 32768))) == told
    assert not _features.half_lines(lambda leaf, subleaf: None)


def test_caches_from_sysfs_when_cpuid_is_silent(tmp_path: Path) -> None:
    sysfs_cpu(tmp_path, 0, {1: "48K", 2: "1024K", 3: "32768K"})
    assert _caches.sizes(fake_cpuid({}), sysfs=tmp_path) == (48 * KIB, MIB, 32 * MIB)


@pytest.mark.parametrize("size", ["0K", "", "-1K", "many", "K", "9" * 30 + "K"])
def test_nonsense_sizes_become_defaults(size: str, tmp_path: Path) -> None:
    sysfs_cpu(tmp_path, 0, {1: size, 2: size, 3: size})
    assert _caches.sizes(fake_cpuid({}), sysfs=tmp_path) == _caches.DEFAULTS


def test_no_source_at_all_gives_defaults(tmp_path: Path) -> None:
    assert _caches.sizes(fake_cpuid({}), sysfs=tmp_path / "none") == (32 * KIB, MIB, 8 * MIB)


def test_one_missing_level_comes_from_the_next_source(tmp_path: Path) -> None:
    sysfs_cpu(tmp_path, 0, {1: "32K", 2: "512K", 3: "16M"})
    cpuid = fake_cpuid(leaves_of(4, 48 * KIB, 2 * MIB, 0))
    assert _caches.sizes(cpuid, sysfs=tmp_path) == (48 * KIB, 2 * MIB, 16 * MIB)


def test_a_huge_l2_counts_for_the_most_that_a_core_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that suit it would not fit a workspace."""
    for l2 in (3 * MIB, 4 * MIB, 16 * MIB):
        told = _caches.Caches(48 * KIB, l2, 32 * MIB)
        monkeypatch.setattr(cpu, "sizes", lambda *_, told=told: told)
        assert cpu.caches.__wrapped__().l2 == min(l2, 4 * MIB)


def test_cluster_l2_is_divided_by_its_cores(tmp_path: Path) -> None:
    sysfs_cpu(tmp_path, 0, {1: "32K", 2: "4M", 3: "8M"}, shared="0-3", siblings="0")
    cpuid = fake_cpuid(leaves_of(4, 32 * KIB, 4 * MIB, 8 * MIB))
    assert _caches.sizes(cpuid, sysfs=tmp_path).l2 == MIB
    assert _caches.sizes(fake_cpuid({}), sysfs=tmp_path).l2 == MIB


def test_hyperthreads_do_not_divide_l2(tmp_path: Path) -> None:
    sysfs_cpu(tmp_path, 0, {1: "32K", 2: "2M", 3: "8M"}, shared="0,64", siblings="0,64")
    assert _caches.sizes(fake_cpuid({}), sysfs=tmp_path).l2 == 2 * MIB


def test_virtual_machine_with_one_l2_for_all_keeps_a_usable_share(tmp_path: Path) -> None:
    sysfs_cpu(tmp_path, 0, {1: "32K", 2: "1M", 3: "8M"}, shared="0-63", siblings="0")
    assert _caches.sizes(fake_cpuid({}), sysfs=tmp_path).l2 == 256 * KIB


def test_hybrid_takes_the_smallest_over_the_cpus_in_use(tmp_path: Path) -> None:
    leaves = leaves_of(4, 48 * KIB, 2 * MIB, 32 * MIB)
    leaves[7, 0] = (0, 0, 0, 1 << 15)
    sysfs_cpu(tmp_path, 0, {1: "48K", 2: "2M", 3: "32M"})
    sysfs_cpu(tmp_path, 9, {1: "32K", 2: "4M", 3: "32M"}, shared="8-11", siblings="9")
    assert _caches.sizes(fake_cpuid(leaves), (0, 9), tmp_path) == (32 * KIB, MIB, 32 * MIB)
    assert _caches.sizes(fake_cpuid(leaves), (0,), tmp_path) == (48 * KIB, 2 * MIB, 32 * MIB)


# --- cores ------------------------------------------------------------------------------

V2 = "30 23 0:26 {mounted} {point} rw,nosuid - cgroup2 cgroup2 rw\n"
V1 = "31 23 0:27 {mounted} {point} rw - cgroup cgroup rw,{controllers}\n"


def v1_mount(mounted: str = "/", point: str = "/sys/fs/cgroup/cpu,cpuacct", controllers: str = "cpu,cpuacct") -> str:
    return V1.format(mounted=mounted, point=point, controllers=controllers)


def v2_mount(mounted: str = "/", point: str = "/sys/fs/cgroup") -> str:
    return V2.format(mounted=mounted, point=point)


def machine(root: Path, cgroup: str, mountinfo: str, files: dict[str, str]) -> Path:
    for name, text in {"proc/self/cgroup": cgroup, "proc/self/mountinfo": mountinfo, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_no_proc_no_limit(tmp_path: Path) -> None:
    assert _cores.quota(tmp_path) is None
    assert _cores.cores(tmp_path) == len(cpu.affinity())


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("200000 100000\n", 2.0),
        ("150000 100000\n", 1.5),
        ("1000 100000\n", 0.01),
        ("max 100000\n", None),
        ("0 100000", None),
        ("100000 0", None),
        ("-5 100000", None),
        ("100000", None),
        ("", None),
        ("1e5 100000", None),
        ("\x00\xff", None),
        ("9" * 5000 + " 100000", None),
    ],
)
def test_v2_quota(tmp_path: Path, text: str, limit: float | None) -> None:
    machine(tmp_path, "0::/\n", v2_mount(), {"sys/fs/cgroup/cpu.max": text})
    assert _cores.quota(tmp_path) == limit


def test_v2_smallest_limit_on_the_way_up_counts(tmp_path: Path) -> None:
    base = "sys/fs/cgroup"
    files = {
        f"{base}/cpu.max": "max 100000",
        f"{base}/a.slice/cpu.max": "300000 100000",
        f"{base}/a.slice/b/cpu.max": "700000 100000",
        f"{base}/a.slice/b/c/cpu.max": "max 100000",
        f"{base}/other/cpu.max": "1000 100000",
    }
    machine(tmp_path, "0::/a.slice/b/c\n", v2_mount(), files)
    assert _cores.quota(tmp_path) == 3.0


def test_v2_mount_of_a_deep_group(tmp_path: Path) -> None:
    files = {"sys/fs/cgroup/cpu.max": "250000 100000"}
    machine(tmp_path, "0::/docker/abc\n", v2_mount(mounted="/docker/abc"), files)
    assert _cores.quota(tmp_path) == 2.5


def test_process_outside_the_visible_tree(tmp_path: Path) -> None:
    machine(tmp_path, "0::/../../x\n", v2_mount(), {"sys/fs/cgroup/cpu.max": "250000 100000"})
    assert _cores.quota(tmp_path) == 2.5


def test_mount_point_with_a_space(tmp_path: Path) -> None:
    machine(tmp_path, "0::/\n", v2_mount(point=r"/my\040groups"), {"my groups/cpu.max": "100000 100000"})
    assert _cores.quota(tmp_path) == 1.0


@pytest.mark.parametrize(("allowed", "limit"), [("150000", 1.5), ("-1", None), ("0", None), ("x", None)])
def test_v1_quota(tmp_path: Path, allowed: str, limit: float | None) -> None:
    base = "sys/fs/cgroup/cpu,cpuacct/box"
    files = {f"{base}/cpu.cfs_quota_us": allowed + "\n", f"{base}/cpu.cfs_period_us": "100000\n"}
    machine(tmp_path, "5:memory:/m\n4:cpu,cpuacct:/box\n", v1_mount(), files)
    assert _cores.quota(tmp_path) == limit


def test_v1_container_without_a_namespace(tmp_path: Path) -> None:
    base = "sys/fs/cgroup/cpu"
    files = {f"{base}/cpu.cfs_quota_us": "400000", f"{base}/cpu.cfs_period_us": "100000"}
    mount = v1_mount(mounted="/docker/1f", point="/sys/fs/cgroup/cpu", controllers="cpu")
    machine(tmp_path, "4:cpu:/docker/1f\n", mount, files)
    assert _cores.quota(tmp_path) == 4.0


def test_v1_and_v2_together(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "400000",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
        "sys/fs/cgroup/unified/cpu.max": "300000 100000",
    }
    mounts = v1_mount(point="/sys/fs/cgroup/cpu", controllers="cpu") + v2_mount(point="/sys/fs/cgroup/unified")
    mounts += v1_mount(point="/sys/fs/cgroup/cpuset", controllers="cpuset")
    machine(tmp_path, "1:cpu:/\n2:cpuset:/\n0::/\n", mounts, files)
    assert _cores.quota(tmp_path) == 3.0


@pytest.mark.parametrize(
    ("quota", "affinity", "expected"),
    [("150000", 8, 2), ("1000", 8, 1), ("800000", 2, 2), ("200000", 2, 2), ("max", 5, 5), ("100001", 8, 2)],
)
def test_cores_is_the_smaller_rounded_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, affinity: int, expected: int
) -> None:
    machine(tmp_path, "0::/\n", v2_mount(), {"sys/fs/cgroup/cpu.max": f"{quota} 100000"})
    monkeypatch.setattr(_cores, "affinity", lambda: tuple(range(affinity)))
    assert _cores.cores(tmp_path) == expected


def test_garbage_in_proc_is_no_limit(tmp_path: Path) -> None:
    machine(tmp_path, "\n:::\nx\n0:\n", "a b\n - \n1 2 3 4 5 - cgroup2\n", {})
    (tmp_path / "proc/self/mountinfo").write_bytes(b"\xff\xfe - cgroup2 \x00\n" * 3)
    assert _cores.quota(tmp_path) is None


def test_affinity_of_this_process() -> None:
    cpus = cpu.affinity()
    assert cpus == tuple(sorted(set(cpus)))
    assert 1 <= cpu.cores() <= len(cpus)


# --- key and report ---------------------------------------------------------------------


def test_key_is_stable_and_one_line() -> None:
    assert cpu.key() == cpu.key()
    assert cpu.key().isprintable()


@pytest.mark.parametrize(
    ("features", "caches", "cores", "key"),
    [
        (
            _features.decode(everything, 0xE7),
            _caches.Caches(48 * KIB, MIB, 32 * MIB),
            2,
            "v4 vnni bf16 fp16 l1d48K l2-1024K l3-32M c2",
        ),
        (frozenset(registry.isa("v4").features), _caches.DEFAULTS, 64, "v4 l1d32K l2-1024K l3-8M c64"),
        (
            frozenset(registry.isa("v3").features) | {"avx_vnni"},
            _caches.Caches(32 * KIB, 1280 * KIB, 8 * MIB + 512 * KIB),
            1,
            "v3 vnni l1d32K l2-1280K l3-8704K c1",
        ),
    ],
)
def test_key(monkeypatch: pytest.MonkeyPatch, features: frozenset, caches: tuple, cores: int, key: str) -> None:
    monkeypatch.setattr(cpu, "features", lambda: features)
    monkeypatch.setattr(cpu, "caches", lambda: caches)
    monkeypatch.setattr(cpu, "cores", lambda: cores)
    assert cpu.key() == key


def test_key_does_not_name_the_model() -> None:
    name = str(cpu.describe()["name"])
    assert not name or name not in cpu.key()


def test_report_is_plain_data() -> None:
    import json

    assert json.loads(json.dumps(cpu.describe()))["key"] == cpu.key()


@pytest.mark.parametrize(
    ("text", "wanted"), [("0", False), ("No", False), ("off", False), ("1", True), ("TRUE", True), ("", True)]
)
def test_tile_registers_are_a_switch(monkeypatch: pytest.MonkeyPatch, text: str, wanted: bool) -> None:
    monkeypatch.setattr(cpu, "features", lambda: frozenset(("amx_tile",)))
    monkeypatch.setattr(cpu, "ask_for_tiles", lambda: True)
    monkeypatch.setenv("FASTGEMM_AMX", text)
    monkeypatch.setattr(cpu, "wants_tiles", cpu.wants_tiles.__wrapped__)
    assert cpu.gives_tiles.__wrapped__() is wanted


def test_a_switch_that_says_nothing_known_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTGEMM_AMX", "none")
    for default in (False, True):
        with pytest.warns(RuntimeWarning, match="FASTGEMM_AMX='none' is neither 0 nor 1"):
            assert variables.switch("FASTGEMM_AMX", default) is default


def test_a_family_runs_where_all_that_it_asks_for_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instructions, tile registers that the system gives, and bfloat16 that may take subnormal numbers for zero."""

    def running(*without: str, tiles: bool = True, exact: str = "") -> set[str]:
        monkeypatch.setattr(cpu, "features", lambda: offered.difference(without))
        monkeypatch.setattr(cpu, "gives_tiles", lambda: tiles)
        monkeypatch.setenv("FASTGEMM_BF16", exact)
        return {row.name for row in registry.FAMILIES if row.tiers and allowed.runs(row.name, registry.isa("v4"))}

    offered = {name for row in registry.FAMILIES for _, names, _ in row.tiers for name in names}
    assert running() == {"vnni", "bf16", "amx_int8", "amx_bf16", "amx_f32"}
    assert running(exact="exact") == {"vnni", "amx_int8", "amx_f32"}
    assert running(tiles=False) == {"vnni", "bf16"}
    assert running("avx512_vnni") == {"bf16", "amx_bf16", "amx_f32"}
    assert running("amx_int8") == {"vnni", "bf16", "amx_bf16", "amx_f32"}
    assert not allowed.runs("bf16", registry.isa("v3")), "a tier without the family"
    assert running("amx_tile", "amx_bf16", "avx512_bf16", "avx512_vnni") == set()
    assert allowed.runs("gemm", registry.isa("v4")), "the tier is the caller's to choose"


@pytest.mark.parametrize(
    ("name", "said", "status"),
    [
        ("FASTGEMM_AMX", "is neither 0 nor 1", 0),
        ("FASTGEMM_BIND", "is neither 0 nor 1", 0),
        ("FASTGEMM_DETERMINISTIC", "is neither 0 nor 1", 0),
        ("FASTGEMM_BF16", "is not 'exact'", 1),
        ("FASTGEMM_F32", "is not 'limbs' or 'vectors'", 1),
        ("FASTGEMM_ISA", "is not a tier", 1),
    ],
)
def test_a_variable_is_checked_whatever_the_cpu_has_and_the_product_is(
    child: Child, name: str, said: str, status: int
) -> None:
    code = "import fastgemm, numpy as np\nfor n in (3, 4): fastgemm.matmul(np.ones((n, 3)), np.ones((3, n)))"
    told = child(code, status, **{name: "nonsense"}).stderr
    assert told.count(f"{name}='nonsense' {said}") == 1
