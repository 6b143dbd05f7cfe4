"""Whatever a database file contains: one warning, and never an exception."""

from __future__ import annotations

import json
import os
import random
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from database_samples import BAD_FILES, BAD_RECORDS, CPU, KERNELS, SOUND, SOUND_TEXT, as_json, document, load, record
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgemm import database
from fastgemm.database import files, reading
from fastgemm.problem import Config, Problem, Record, names


def check_one_warning(path: Path, reason: str, said: list[str]) -> None:
    assert len(said) == 1, said
    assert str(path) in said[0]
    assert reason in said[0]
    assert len(said[0]) < len(str(path)) + 300
    assert said[0].isprintable()


@pytest.mark.parametrize("name", BAD_RECORDS)
def test_bad_record_is_left_out_and_the_sound_one_used(user_file: Path, name: str) -> None:
    data, reason = BAD_RECORDS[name]
    user_file.write_text(json.dumps(data))
    found, said = load()
    check_one_warning(user_file, reason, said)
    assert "1 tuning record(s) skipped" in said[0]
    assert found.exact(SOUND) == record()
    assert list(found) == [record()]
    assert found.files[0][:3] == (user_file, 1, 1)
    assert found.files[0].reason in said[0]


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_file_is_one_warning_and_an_empty_database(user_file: Path, name: str) -> None:
    data, reason = BAD_FILES[name]
    user_file.write_bytes(data)
    found, said = load()
    check_one_warning(user_file, reason, said)
    assert found.exact(SOUND) is None
    assert len(found) == 0


def test_key_twice_in_a_record(user_file: Path) -> None:
    text = json.dumps(document(as_json(record()), as_json(record(m=300))))
    user_file.write_text(text.replace('"m": 300', '"m": 300, "m": 301'))
    found, said = load()
    check_one_warning(user_file, "problem has a key twice", said)
    assert len(found) == 1


def test_many_bad_records_are_one_warning(user_file: Path) -> None:
    bad = {**as_json(record()), "seconds": -1}
    user_file.write_text(json.dumps(document(*[bad] * 100, as_json(record()))))
    found, said = load()
    check_one_warning(user_file, "100 tuning record(s) skipped", said)
    assert len(found) == 1


def test_folder_in_place_of_a_file(user_file: Path) -> None:
    user_file.mkdir()
    (user_file / "inner.json").mkdir()  # the user's path may be a folder; what is in it may not
    found, said = load()
    check_one_warning(user_file / "inner.json", "it is a folder", said)
    assert len(found) == 0
    assert database.read(user_file)[1] == ["it is a folder"]


@pytest.mark.parametrize("where", ["file", "folder"])
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_no_permission(user_file: Path, where: str) -> None:
    if where == "folder":
        user_file.mkdir()
    else:
        user_file.write_text(SOUND_TEXT)
    user_file.chmod(0)
    try:
        found, said = load()
        check_one_warning(user_file, "ermission", said)
        assert len(found) == 0
    finally:
        user_file.chmod(0o700)


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(5, "Input/output error")])
def test_open_fails(user_file: Path, monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    user_file.write_text(SOUND_TEXT)

    def refuse(*args: object) -> None:
        raise error

    monkeypatch.setattr(files, "open", refuse, raising=False)
    found, said = load()
    check_one_warning(user_file, error.strerror or "", said)
    assert len(found) == 0


def test_oversize_is_not_even_read(user_file: Path) -> None:
    with open(user_file, "wb") as file:
        file.truncate(100 << 20)
    started = time.perf_counter()
    found, said = load()
    assert time.perf_counter() - started < 1.0
    check_one_warning(user_file, "larger than 64 MiB", said)
    assert len(found) == 0


def test_file_that_grows_while_read(user_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_BYTES", 100)
    user_file.write_text(SOUND_TEXT)
    small = os.stat_result((0o100644, 0, 0, 1, 0, 0, 10, 0, 0, 0))
    monkeypatch.setattr(Path, "stat", lambda self: small)
    assert "larger than" in database.read(user_file)[1][0]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.timeout(10)
def test_pipe_does_not_hang(user_file: Path) -> None:
    os.mkfifo(user_file)
    _, said = load()
    check_one_warning(user_file, "not a regular file", said)


def test_link_to_itself(user_file: Path) -> None:
    user_file.symlink_to(user_file)
    _, said = load()
    check_one_warning(user_file, "", said)


def test_near_the_recursion_limit_nothing_raises(user_file: Path) -> None:
    user_file.write_bytes(b"[" * 1_000_000)  # Python 3.13 counts C calls apart, up to ten thousand

    def down(depth: int) -> list[str]:
        return down(depth - 1) if depth else database.read(user_file)[1]

    assert down(800) == ["nested too deeply"]


def test_warning_turned_error_is_the_callers_wish(user_file: Path) -> None:
    user_file.write_bytes(b"x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(database.DatabaseWarning):
            database.load(kernels=KERNELS, cpu=CPU)


json_names = st.text(max_size=5) | st.sampled_from(
    [*reading.FILE_FIELDS, *reading.GROUP_FIELDS, *names(Problem), *names(Config), *names(Record)]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(CPU) | st.just(KERNELS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(json_names, inner, max_size=6),
    max_leaves=30,
)


@settings(max_examples=200, deadline=None)
@given(json_values, st.sampled_from(["file", "groups", "group", "records", "record", "problem", "config"]))
def test_no_json_value_raises(value: Any, place: str) -> None:
    sound = document(as_json(record()))
    group = sound["groups"][0]
    made = group["records"][0]
    if place == "file":
        sound = value
    elif place == "groups":
        sound["groups"] = value
    elif place == "group":
        sound["groups"] = [value]
    elif place in ("records", "record"):
        group["records"] = value if place == "records" else [value]
    else:
        made[place] = value
    found = reading.parse(json.dumps(sound).encode())
    assert found.problems or found.others or not found.malformed
    for each in found.records:
        assert each.config.misfit(each.problem) is None


@settings(max_examples=200, deadline=None)
@given(st.randoms(use_true_random=False))
def test_no_flipped_or_lost_byte_raises(chance: random.Random) -> None:
    data = bytearray(SOUND_TEXT.encode())
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(data))
        if chance.random() < 0.5:
            data[at] = chance.randrange(256)
        else:
            del data[at : at + chance.randrange(1, 40)]
    try:
        found = reading.parse(bytes(data))
    except ValueError:  # `contents` makes a problem of it
        return
    assert all(each.config.misfit(each.problem) is None for each in found.records)
