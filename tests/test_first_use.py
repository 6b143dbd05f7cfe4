"""The first product of a process reads the tuning database: once, for all threads."""

from __future__ import annotations

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Child

import fastgemm
from fastgemm import database, dispatch


def test_threads_wait_for_the_database(user_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan is kept for good: no thread makes one without the records because another is reading them."""
    reading, go_on = threading.Event(), threading.Event()
    load = database.load

    def slow(**options: Any) -> database.Database:
        reading.set()
        assert go_on.wait(60)
        return load(**options)

    monkeypatch.setattr(database, "load", slow)
    dispatch.reload()
    try:
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(dispatch.tuned)
            assert reading.wait(60)
            second = pool.submit(dispatch.tuned)
            go_on.set()
            assert first.result(60) is second.result(60)
    finally:
        go_on.set()
        dispatch.reload()


def test_a_warning_s_hook_may_multiply(user_file: Path) -> None:
    """While the database is read, and by the thread that reads it."""
    user_file.write_text("not JSON")
    products: list[np.ndarray] = []

    def multiply(*about: Any, **more: Any) -> None:
        products.append(fastgemm.matmul(np.ones((9, 9)), np.ones((9, 9))))

    dispatch.reload()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = multiply
            fastgemm.matmul(np.ones((9, 9)), np.ones((9, 9)))
    finally:
        dispatch.reload()
    assert [product[0, 0] for product in products] == [9.0]


def test_a_warning_that_is_an_error_is_raised_once(user_file: Path) -> None:
    user_file.write_text("not JSON")
    dispatch.reload()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(database.DatabaseWarning):
                dispatch.tuned()
            assert len(dispatch.tuned()) == 0
    finally:
        dispatch.reload()


def test_matmul_that_is_no_ufunc(child: Child) -> None:
    """Something has replaced it before the import, which reads its loops: said, not read from whatever lies there."""
    code = (
        "import numpy as np\nreal = np.matmul\nnp.matmul = lambda *a, **k: real(*a, **k)\n"
        "try:\n    import fastgemm\nexcept ImportError as error:\n    print(error)"
    )
    assert "np.matmul, which is no ufunc here" in child(code).stdout
