"""The README's commands are the ones that CI runs, and its examples work."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def readme():
    return (ROOT / "README.md").read_text()


def test_ci_runs_the_test_command(readme):
    commands = re.findall(r"```sh\n(.*?)\n```", readme, re.S)
    assert len(commands) == 2
    assert commands[1] in (ROOT / ".ci" / "run").read_text().splitlines()


def test_the_python_example_runs(readme):
    (example,) = re.findall(r"```python\n(.*?)```", readme, re.S)
    exec(compile(example, "README.md", "exec"), {})
