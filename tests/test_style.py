"""The sources are clean by the tools that pyproject.toml configures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(tool: str, *arguments: str) -> None:
    """Run a tool of this environment in the project's folder; skip where it is not installed."""
    # An environment need not be activated to be used, and cython-lint calls pycodestyle by name.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which(tool, path=path)
    if found is None:
        pytest.skip(f"{tool} is not installed")
    done = subprocess.run(
        [found, *arguments],
        cwd=ROOT,
        env=dict(os.environ, PATH=path),
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff() -> None:
    run("ruff", "check", "--no-cache", "--quiet", ".")


def test_cython_lint() -> None:
    paths = [path for path in (ROOT / "fastgemm").rglob("*") if path.suffix in (".pyx", ".pxd")]
    files = sorted(str(path.relative_to(ROOT)) for path in paths)
    assert files
    run("cython-lint", *files)


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.2.0", reason="its stubs want parameters for every array")
def test_mypy(tmp_path: Path) -> None:
    run("mypy", "--cache-dir", str(tmp_path))
