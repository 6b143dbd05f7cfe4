"""Sub-interpreters, and a package that is imported anew."""

from __future__ import annotations

import pytest
from conftest import Child

# Python's own names for them, up to 3.12 and from 3.13 on.
OTHERS = """
import contextlib, importlib
for name in ("_interpreters", "_xxsubinterpreters"):
    with contextlib.suppress(ImportError):
        made = importlib.import_module(name)
        break
else:
    print("none here")
    raise SystemExit
def inside(code, kind):
    try:
        other = made.create(kind)
    except TypeError:   # up to 3.12
        other = made.create(isolated=kind == "isolated")
    said = made.run_string(other, code)
    made.destroy(other)
    return said
"""


def told(child: Child, code: str) -> list[str]:
    lines = child(OTHERS + code, OPENBLAS_NUM_THREADS="1").stdout.splitlines()
    if lines == ["none here"]:
        pytest.skip("this Python cannot make interpreters")
    return lines


@pytest.mark.parametrize("kind", ["isolated", "legacy"])
def test_the_main_interpreter_computes_beside_others(child: Child, kind: str) -> None:
    """Also where Python says to every thread that it holds the GIL: before 3.12, once there has been a second one."""
    code = f"""
import numpy as np, fastgemm
inside("pass", {kind!r})
a = np.ones((300, 300), "f4")
with fastgemm.threads(2):
    print((fastgemm.matmul(a, a) == 300).all())
    print((fastgemm.linear(a, a, activation="relu") == 300).all())
"""
    assert told(child, code) == ["True", "True"]


@pytest.mark.parametrize("kind", ["isolated", "legacy"])
@pytest.mark.parametrize("first", ["import fastgemm", ""])
def test_a_sub_interpreter_is_refused(child: Child, kind: str, first: str) -> None:
    """By an ImportError, whoever comes first; products would wait there for ever."""
    asked = "try:\n    import fastgemm\nexcept ImportError as error:\n    print('refused', flush=True)"
    code = f"import warnings; warnings.simplefilter('ignore')\n{first}\ninside({asked!r}, {kind!r})\nprint('alive')"
    assert told(child, code) == ["refused", "alive"]


def test_a_package_that_is_imported_anew(child: Child) -> None:
    """What was made before goes on, beside what is made after."""
    code = """
import sys, numpy as np, fastgemm
a = np.ones((300, 300), "f4")
packed, before = fastgemm.pack(a), fastgemm.matmul(a, a)
fastgemm.install()
for name in [name for name in sys.modules if name.partition(".")[0] == "fastgemm"]:
    del sys.modules[name]
old = fastgemm
import fastgemm
print(fastgemm is not old, fastgemm.is_installed(), (a @ packed == before).all())
print((fastgemm.matmul(a, packed) == before).all(), (fastgemm.matmul(a, fastgemm.pack(a)) == before).all())
fastgemm.uninstall()
"""
    assert child(code).stdout.split() == ["True"] * 5
