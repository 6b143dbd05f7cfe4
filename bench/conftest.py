"""Options of the pytest-benchmark suite, and the environment of the library that it times.

NumPy and the libraries must not be imported here: the thread counts have to be in the
environment before they are.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import cases
import environment
import peers
import pytest
import workers


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say which library the suite times, on which shapes."""
    group = parser.getgroup("matrix products")
    known = list(peers.libraries())
    group.addoption(
        "--library", default="fastgemm", choices=known, help="library to time (default fastgemm); one a run"
    )
    group.addoption("--threads", type=int, default=1, help="threads of the library (default 1)")
    group.addoption("--shapes", default=str(cases.DEFAULT_LIST), help="list of shapes (default: the shipped one)")
    group.addoption("--dtype", action="append", default=[], help="dtype; may be repeated (default float32)")
    group.addoption("--all-shapes", action="store_true", help="the whole list instead of three shapes a class")


def pytest_configure(config: pytest.Config) -> None:
    """Set the environment of the library before anything imports it."""
    name, threads = config.getoption("--library"), config.getoption("--threads")
    wanted = peers.libraries()[name].environment(threads)
    late = [key for key, value in wanted.items() if os.environ.get(key) != value]
    if "numpy" in sys.modules and late:
        settings = " ".join(f"{key}={wanted[key]}" for key in late)
        raise pytest.UsageError(f"a plugin imported NumPy before its threads could be set; run with {settings}")
    for key in environment.CHOICES:
        os.environ.pop(key, None)
    os.environ.update(wanted)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a shape."""
    if "case" not in metafunc.fixturenames:
        return
    option = metafunc.config.getoption
    found = cases.read(option("--shapes"), option("--dtype"))
    if not option("--all-shapes"):
        found = cases.quick(found)
    found, _ = cases.within(found, workers.free_memory() / 2, 1)
    found = [case.replace(threads=option("--threads")) for case in found]
    metafunc.parametrize("case", found, ids=[case.label.replace(" ", "-") for case in found])


@pytest.fixture(scope="session")
def library(request: pytest.FixtureRequest) -> peers.Library:
    """The library that this run times; the suite is skipped where it is not installed."""
    made = peers.libraries()[request.config.getoption("--library")]()
    found = made.available(request.config.getoption("--threads"))
    if not found.ok:
        pytest.skip(f"{made.name}: {found.reason}")
    return made


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    """Keep what a reader needs and drop what names the machine."""
    machine_info.pop("node", None)
    machine_info["fastgemm_bench"] = workers.machine()
