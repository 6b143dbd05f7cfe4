"""The families of tile registers where the CPU has none: their tests, with registers in C."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import tiles_in_c

from fastgemm import cpu, kernels, registry

TESTS = Path(__file__).resolve().parent
TILES = {"amx_tile", "amx_bf16", "amx_int8"}
# What could be compiled here, and what this CPU has the rest for.
FAMILIES = [
    family.name
    for family, tier in registry.modules()
    if registry.by_matrices(family.name)
    and (family.name, tier.name) in kernels.available()
    and cpu.features() >= {*tier.features, *registry.beyond(family, tier)[0]} - TILES
]

pytestmark = [
    pytest.mark.skipif(cpu.gives_tiles(), reason="the CPU has tile registers"),
    pytest.mark.skipif(not FAMILIES, reason="no AVX-512, or a compiler without tile registers"),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc here"),
    pytest.mark.skipif(
        not list((tiles_in_c.ROOT / "fastgemm" / "cpu").glob("_cpuid.*.so")), reason="not built in place"
    ),
]


@pytest.mark.timeout(900)
def test_families(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Products, epilogues and limbs, as on a CPU with AMX."""
    folder = tmp_path / "package"
    tiles_in_c.make(folder)
    failed = tiles_in_c.run(folder, "-ra", *(str(TESTS / f"test_{name}.py") for name in ("limbs", "matrices")))
    written = capfd.readouterr().out
    assert not failed, written
    assert not [name for name in FAMILIES if f"no {name}" in written], written
