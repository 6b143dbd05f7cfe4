"""Do other packages' own tests pass with `fastgemm.install()`?

    python -m venv /tmp/users && /tmp/users/bin/pip install pytest scikit-learn statsmodels
    python bench/suites.py --python /tmp/users/bin/python sklearn.linear_model sklearn.decomposition scipy.linalg
    python bench/suites.py --python /tmp/users/bin/python statsmodels.regression --without

Runs the tests that lie in these modules' folders with pytest, in an environment that has the packages, to whose path
this checkout is added: NumPy's `@` is fastgemm from before the first test is collected.  A module a time, one thread;
prints what pytest counts, and the names of the tests that fail.  `--without` runs them without it as well: what fails
in both is none of ours.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
PLUGIN = "install_fastgemm"
SOURCE = "import fastgemm\n\nfastgemm.install()\nassert fastgemm.is_installed()\n"
FIND = "import importlib.util, sys; print(importlib.util.find_spec(sys.argv[1]).submodule_search_locations[0])"
FAILED = ("FAILED ", "ERROR ")


def folder_of(python: str, module: str) -> Path | None:
    """Return where a package of another environment lies; None where it has none of that name."""
    found = subprocess.run([python, "-c", FIND, module], capture_output=True, text=True, cwd="/", check=False)
    return Path(found.stdout.strip()) if found.returncode == 0 else None


def tested(python: str, folder: Path, plugins: Path, installed: bool, processes: int) -> tuple[str, list[str]]:
    """Return pytest's last line, and the lines of tests that fail."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=os.pathsep.join([str(plugins), str(HERE)]))
    # (Nothing of the packages' own configuration: it asks for plugins that are not there.)
    command = [python, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(folder), "-p", "no:cacheprovider"]
    command += ["-rfE", *(["-p", PLUGIN] if installed else []), *(["-n", str(processes)] if processes > 1 else [])]
    command += [str(folder)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=plugins, env=environment, check=False)
    lines = ran.stdout.strip().splitlines() or ran.stderr.strip().splitlines() or [f"exit status {ran.returncode}"]
    return lines[-1], [line for line in lines if line.startswith(FAILED)]


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    made = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("modules", nargs="+", metavar="PACKAGE", help="sklearn.linear_model, scipy.linalg, ...")
    made.add_argument("--python", default=sys.executable, metavar="FILE", help="of the environment that has them")
    made.add_argument("--without", action="store_true", help="run them without fastgemm too, and compare")
    made.add_argument("--processes", type=int, default=1, metavar="N", help="of pytest-xdist, which must be there")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what passes; the exit status says whether a test failed that passes without fastgemm."""
    options = parser().parse_args(arguments)
    ours = False
    with tempfile.TemporaryDirectory() as folder:
        plugins = Path(folder)
        (plugins / f"{PLUGIN}.py").write_text(SOURCE, encoding="utf-8")
        for module in options.modules:
            place = folder_of(options.python, module)
            if place is None:
                parser().error(f"{options.python} has no package {module}")
            print(f"{module}: ...", end="", file=sys.stderr, flush=True)
            last, failed = tested(options.python, place, plugins, True, options.processes)
            print("\r", end="", file=sys.stderr)
            print(f"{module}: {last}", flush=True)
            before: list[str] = []
            if options.without:
                last, before = tested(options.python, place, plugins, False, options.processes)
                print(f"{module} without fastgemm: {last}", flush=True)
            new = [line for line in failed if line.split()[1] not in {line.split()[1] for line in before}]
            print("\n".join(new), end="\n" * bool(new))
            ours = ours or bool(new) or "passed" not in last
    return int(ours)


if __name__ == "__main__":
    raise SystemExit(main())
