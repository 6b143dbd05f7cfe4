"""The families of tile registers where the CPU has none: their tests, with registers in C."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import tiles_in_c

from fastgemm import cpu, registry

TESTS = Path(__file__).resolve().parent
# The tier's, and what the families ask for besides.
ASKED = {*registry.isa("v4").features, "avx512_vnni"}

pytestmark = [
    pytest.mark.skipif(cpu.gives_tiles(), reason="the CPU has tile registers"),
    pytest.mark.skipif(not cpu.features() >= ASKED, reason="no AVX-512 with dot products of bytes"),
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
    assert "no amx_f32" not in written
