"""Run tests with tile registers in C (kernels/tiles_in_c.pxd), on a CPU that has none.

    python tests/tiles_in_c.py /tmp/tiles tests/test_limbs.py tests/test_matrices.py -x

The folder becomes a package of links to what is built here, but for the modules that use tile registers, or say whether
there are any, which are compiled anew. Options are pytest's. (It takes AVX-512 all the same.)
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILT = ".so"
ANEW = ("_amx_*.so", "_cpuid.*.so")


def _link(source: str, target: str) -> object:
    if source.endswith(BUILT):
        return Path(target).symlink_to(source)
    return shutil.copy2(source, target)


def make(folder: Path) -> None:
    """Make the package."""
    for name in ("fastgemm", "tuning_db"):
        ignored = shutil.ignore_patterns("__pycache__", *ANEW)
        shutil.copytree(ROOT / name, folder / name, copy_function=_link, ignore=ignored)
    for name in ("pyproject.toml", "setup.cfg", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, folder / name)
    command = [sys.executable, "-c", "import setuptools; setuptools.setup()", "build_ext", "--inplace", "--tiles-in-c"]
    subprocess.run(command, cwd=folder, check=True)


def run(folder: Path, *arguments: str) -> int:
    """Run tests with it; return pytest's exit status."""
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=folder, check=False).returncode


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the package is, or is made if there is no such folder")
    parser.add_argument("tests", nargs="*", type=Path, help="files of tests")
    asked, options = parser.parse_known_args()
    if not asked.folder.exists():
        make(asked.folder)
    sys.exit(run(asked.folder, *options, *(str(path.resolve()) for path in asked.tests)))
