"""The tuning database: look-ups, where its files are, and the schema beside them."""

from __future__ import annotations

import errno
import json
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from database_samples import BAD_RECORDS, CPU, KERNELS, SOUND, SOUND_TEXT, as_json, document, load, record
from hypothesis import given, settings
from hypothesis import strategies as st

import fastgemm
from fastgemm import activations, database, problem, registry, special
from fastgemm.database import reading
from fastgemm.problem import Config, Problem, Record

SCHEMA = json.loads((Path(__file__).parent.parent / "tuning_db" / "schema.json").read_text())


# --- what is no damage --------------------------------------------------------------------


def test_missing_file_is_empty_and_silent(user_file: Path) -> None:
    found, said = load()
    assert (len(found), said, found.files) == (0, [], [])
    assert database.read(user_file / "below") == ([], [])


def test_byte_order_mark_is_read_over(user_file: Path) -> None:
    user_file.write_bytes(SOUND_TEXT.encode("utf-8-sig"))
    found, said = load()
    assert (len(found), said) == (1, [])


def test_schema_reference_for_editors(user_file: Path) -> None:
    user_file.write_text(json.dumps({"$schema": "./schema.json", **document(as_json(record()))}))
    assert load()[1] == []


@pytest.mark.parametrize("changes", [{"cpu": "v3 c8"}, {"kernels": "k2"}])
def test_other_machines_are_skipped_and_counted_in_silence(user_file: Path, changes: dict[str, str]) -> None:
    user_file.write_text(SOUND_TEXT)
    found, said = load(**changes)
    assert (len(found), said) == (0, [])
    assert found.files[0][:3] == (user_file, 0, 1)
    assert "another CPU" in found.files[0].reason


def test_record_for_a_tier_that_may_not_run_is_not_used(user_file: Path) -> None:
    numpy = Record(Problem("f32", 7, 7, 7), Config(family="numpy", isa="v4"), 1e-6, 1e-6)
    made = [record(isa="v4"), record(isa="v3", m=9), numpy]
    user_file.write_text(json.dumps(document(*map(as_json, made))))
    found, said = load(isas=("v2", "v3"))
    assert said == []
    assert {r.problem.m for r in found} == {9, 7}
    assert len(load(isas=("v2", "v3", "v4"))[0]) == 3


def test_devnull_switches_the_users_database_off(user_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTGEMM_DB", os.devnull)
    found, said = load()
    assert (len(found), said, found.files) == (0, [], [])
    with pytest.raises(OSError):
        database.write(os.devnull, [record()])


def test_loading_keeps_no_state(user_file: Path) -> None:
    user_file.write_text(SOUND_TEXT)
    assert len(load()[0]) == 1
    user_file.unlink()
    assert len(load()[0]) == 0


def test_defaults_are_this_machine_and_its_tiers(user_file: Path) -> None:
    from fastgemm import cpu

    tiers = [tier.name for tier in cpu.isas()]
    database.write(user_file, [record(isa=name, m=9 + at) for at, name in enumerate(("v2", "v3", "v4"))])
    found = database.load(kernels=KERNELS)
    assert [r.config.isa for r in found] == tiers


# --- where files are ----------------------------------------------------------------------


def test_folder_gives_all_its_files(user_file: Path) -> None:
    user_file.mkdir()
    (user_file / "a.json").write_text(json.dumps(document(as_json(record(gain=1.5)), as_json(record(m=1)))))
    (user_file / "b.json").write_text(json.dumps(document(as_json(record(gain=1.7)))))
    (user_file / "c.json").write_text(json.dumps(document(as_json(record(1e-4, gain=1.6)))))
    for ignored in ("notes.txt", ".b.json.part", "schema.json", ".hidden.json"):
        (user_file / ignored).write_text("not a database")
    found, said = load()
    assert said == []
    assert found.exact(SOUND) == record(gain=1.7)
    assert found.source(record(gain=1.7)) == user_file / "b.json"
    assert [report.path.name for report in found.files] == ["a.json", "b.json", "c.json"]


def test_users_record_wins_over_a_better_shipped_one(
    user_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    (shipped / "cpu.json").write_text(json.dumps(document(as_json(record(1e-4, gain=3.0)), as_json(record(m=1)))))
    (shipped / "schema.json").write_text(json.dumps(SCHEMA))
    monkeypatch.setattr(database, "bundled_path", lambda: shipped)
    user_file.write_text(json.dumps(document(as_json(record(1e-3)))))
    found, said = load()
    assert said == []
    assert found.exact(SOUND) == record(1e-3)
    assert len(found) == 2
    assert [report.path for report in found.files] == [shipped / "cpu.json", user_file]


def test_the_shipped_files_are_the_packages_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In it where it is installed, beside it in a source tree: whatever else has their name on the path."""
    package, other = tmp_path / "root" / "fastgemm", tmp_path / "other"
    for folder in (other / "fastgemm" / "tuning_db", package / "database", package.parent / "tuning_db"):
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
        (folder / "schema.json").touch()
    monkeypatch.setattr(fastgemm, "__path__", [str(other / "fastgemm"), *fastgemm.__path__])
    monkeypatch.delitem(sys.modules, "fastgemm.tuning_db", raising=False)
    monkeypatch.setattr(database, "__file__", str(package / "database" / "__init__.py"))
    assert database.bundled_path() is None
    (package.parent / "pyproject.toml").touch()
    assert database.bundled_path() == package.parent / "tuning_db"
    (package / "tuning_db").mkdir()
    (package / "tuning_db" / "schema.json").touch()
    assert database.bundled_path() == package / "tuning_db"


@pytest.mark.parametrize("xdg", [None, "", "relative/path", "/some/where"])
def test_default_is_where_the_platform_says(monkeypatch: pytest.MonkeyPatch, xdg: str | None) -> None:
    platformdirs = pytest.importorskip("platformdirs")
    monkeypatch.delenv("FASTGEMM_DB", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    if xdg is not None:
        monkeypatch.setenv("XDG_DATA_HOME", xdg)
    folder = platformdirs.user_data_path("fastgemm", appauthor=False)
    assert database.user_path() == folder / "tuning.json"


def test_without_a_home_there_is_no_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder named ``~`` is the working directory's own, and nobody's home."""
    (tmp_path / "~" / ".local" / "share" / "fastgemm").mkdir(parents=True)
    (tmp_path / "~" / ".local" / "share" / "fastgemm" / "tuning.json").write_text("not JSON")
    monkeypatch.chdir(tmp_path)
    for name in ("FASTGEMM_DB", "FASTGEMM_CACHE", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # what it does for a user whom nobody knows
    assert database.user_path() == Path(os.devnull)
    assert database.files_of(database.user_path()) == []
    assert special.folder().is_absolute()
    assert not special.folder().exists()


@pytest.mark.parametrize("named", [False, True])
def test_a_closed_home_is_no_reason_for_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool) -> None:
    """Of another user's nobody has said that there is a database in it; FASTGEMM_DB would say so."""
    path = tmp_path / "fastgemm" / "tuning.json"
    real = os.stat

    def closed(file: object, **more: Any) -> os.stat_result:
        if str(file).startswith(str(path.parent)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))
        return real(file, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(database, "bundled_path", lambda: None)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("FASTGEMM_DB", str(path) if named else "")
    monkeypatch.setattr(os, "stat", closed)
    found, said = load()
    assert len(found) == 0
    assert [str(path) in str(line) for line in said] == [True] * named


def test_environment_names_file_or_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text, expected in [
        (str(tmp_path / "x.json"), tmp_path / "x.json"),
        (str(tmp_path), tmp_path),
        (str(tmp_path) + os.sep, tmp_path),
        (str(tmp_path / "new") + os.sep, tmp_path / "new" / "tuning.json"),
        ("~/x.json", Path.home() / "x.json"),
    ]:
        monkeypatch.setenv("FASTGEMM_DB", text)
        assert database.user_path() == expected
    monkeypatch.setenv("FASTGEMM_DB", "")
    assert database.user_path().name == "tuning.json"


# --- look-ups -----------------------------------------------------------------------------


def holding(*records: Record) -> database.Database:
    found = database.Database()
    found.add(records)
    return found


@pytest.mark.parametrize(
    ("changes", "near"),
    [
        ({}, True),
        ({"m": 640}, True),
        ({"m": 641}, False),
        ({"m": 410}, True),
        ({"m": 409}, False),
        ({"n": 640, "k": 410}, True),
        ({"n": 641}, False),
        ({"k": 409}, False),
        ({"dtype": "f64"}, False),
        ({"layout": "tn"}, False),
        ({"threads": 2}, False),
        ({"batch": 2}, False),
    ],
)
def test_near_is_a_factor_in_each_dimension(changes: dict[str, Any], near: bool) -> None:
    found = holding(record()).near(replace(SOUND, **changes))
    assert (found == record()) if near else found is None


def test_near_stacks_are_near_in_the_stack_too() -> None:
    known = holding(record(batch=8))
    assert known.near(replace(SOUND, batch=10)) is not None
    assert known.near(replace(SOUND, batch=11)) is None
    assert known.near(SOUND) is None


def test_nearest_of_several() -> None:
    known = holding(record(m=500), record(m=520), record(m=512, k=400), record(m=620))
    assert known.near(SOUND).problem.m == 520
    assert known.near(replace(SOUND, m=506)).problem.m == 500
    assert known.near(replace(SOUND, k=401)).problem.k == 400


def test_record_that_cannot_run_the_problem_is_passed_over() -> None:
    split = Record(Problem("f32", 512, 512, 512, 2, "nn", 2), Config(mr=6, nr=16, split="batch", threads=2), 1e-3, 2e-3)
    gemv = Record(Problem("f32", 1, 500, 500), Config(family="gemv"), 1e-5, 2e-5)
    known = holding(split, gemv, record(m=1, n=520, k=520))
    assert known.near(Problem("f32", 1, 501, 501)) == gemv
    assert known.near(Problem("f32", 2, 500, 500)) is None
    # Unpacked B needs adjacent columns, except with a single one.
    single = Record(Problem("f32", 400, 4, 512, layout="nt"), record().config.replace(pack="none"), 1e-5, 2e-5)
    assert single.config.misfit(single.problem) is not None
    far, close = record(m=600), replace(record(m=520), config=record().config.replace(mr=7))
    assert holding(far, close).near(SOUND) == far


def test_a_kernel_for_one_shape_is_near_to_none() -> None:
    own = replace(record(m=520), config=record().config.replace(special="0" * 32))
    known = holding(own, record(m=600))
    assert known.exact(own.problem) == own
    assert known.near(SOUND) == record(m=600)


def test_groups_hold_their_records(user_file: Path) -> None:
    groups = {("one", "k1"): [record()], ("two", "k2"): [record(kernels="k2"), record(m=600, kernels="k2")]}
    assert database.merge(user_file, groups) == 3
    assert database.read_groups(user_file) == (groups, [])


def test_look_ups_stay_fast_with_many_records() -> None:
    chance = random.Random(1)
    shapes = [[chance.randrange(1, 5000) for _ in "mnk"] for _ in range(5000)]
    known = holding(*(record(m=m, n=n, k=k) for m, n, k in shapes))
    asked = [replace(SOUND, m=chance.randrange(1, 5000)) for _ in range(100)]
    started = time.perf_counter()
    for each in asked:
        known.exact(each)
        known.near(each)
    # 0.1 ms measured; the bound is for a busy machine.
    assert (time.perf_counter() - started) / len(asked) < 5e-3


sizes = st.integers(1, 40)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(sizes, sizes, sizes), min_size=1, max_size=30), st.tuples(sizes, sizes, sizes))
def test_near_agrees_with_the_definition(known: list[tuple[int, int, int]], asked: tuple[int, int, int]) -> None:
    from math import inf, log2

    def distance(shape: tuple[int, int, int]) -> float:
        ratios = [a / b for a, b in zip(shape, asked, strict=True)]
        return sum(abs(log2(r)) for r in ratios) if all(0.8 <= r <= 1.25 for r in ratios) else inf

    db = holding(*(record(m=m, n=n, k=k) for m, n, k in known))
    found = db.near(Problem("f32", *asked))
    least = min(map(distance, known))
    if found is None:
        assert least == inf
    else:
        assert distance((found.problem.m, found.problem.n, found.problem.k)) == pytest.approx(least)


# --- the schema ---------------------------------------------------------------------------


def schema_check() -> Callable[[Any], None]:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    return jsonschema.Draft202012Validator(SCHEMA).validate


def test_schema_accepts_what_is_written(user_file: Path) -> None:
    validate = schema_check()
    made = [
        record(m=at * 10 + level, dtype=dt.name, isa=tier.name, layout=layout)
        for at, dt in enumerate(registry.DTYPES, 1)
        for level, tier in enumerate(registry.ISAS)
        if registry.supported(dt, tier)
        for layout in problem.LAYOUTS
        if layout[1] != problem.PACKED or registry.is_packed(dt)
    ]
    made += [record(epilogue=row.name, layout="np") for row in activations.EPILOGUES]
    made.append(Record(Problem("c64", 1, 9, 9), Config(family="numpy"), 1, 2, kernels=KERNELS))
    database.write(user_file, made, cpu=CPU)
    database.write(user_file, made[:3], cpu="other")
    validate(json.loads(user_file.read_text()))


# Legal combinations are Config.misfit's to judge; JSON has no NaN, and 8.0 is its integer 8.
BEYOND_SCHEMA = ("no such tile", "more threads", "misfit", "mr zero", "nr zero", "NaN", "float")


@pytest.mark.parametrize("name", [name for name in BAD_RECORDS if not any(word in name for word in BEYOND_SCHEMA)])
def test_schema_refuses_what_reading_refuses(name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    with pytest.raises(jsonschema.ValidationError):
        schema_check()(BAD_RECORDS[name][0])


@pytest.mark.parametrize("kind", [Problem, Config, Record])
def test_schema_has_the_fields_of_the_classes(kind: type) -> None:
    described = SCHEMA["$defs"][kind.__name__]
    expected = [f for f in fields(kind) if not (kind is Record and f.name in reading.SHARED)]
    assert list(described["properties"]) == [f.name for f in expected]
    assert described.get("required", []) == [f.name for f in expected if f.default is MISSING]
    types = get_type_hints(kind)
    for name, rule in described["properties"].items():
        target = rule.get("$ref", "").rpartition("/")[2]
        full = {**SCHEMA["$defs"].get(target, {}), **rule}
        spoken = {"integer": int, "number": float, "string": str, "object": types[name]}
        assert (spoken[full["type"]] if "type" in full else type(full["enum"][0])) is types[name]


def test_schema_has_the_bounds_and_names_of_the_package() -> None:
    kinds = SCHEMA["$defs"]
    assert (kinds["Dimension"]["minimum"], kinds["Dimension"]["maximum"]) == (1, problem.MAX_DIM)
    assert (kinds["Block"]["minimum"], kinds["Block"]["maximum"]) == (1, problem.MAX_BLOCK)
    assert (kinds["Threads"]["minimum"], kinds["Threads"]["maximum"]) == (1, problem.MAX_THREADS)
    assert (kinds["Seconds"]["minimum"], kinds["Seconds"]["maximum"]) == (reading.MIN_SECONDS, reading.MAX_SECONDS)
    of_record, of_problem = kinds["Record"]["properties"], kinds["Problem"]["properties"]
    assert of_record["trials"]["maximum"] == reading.MAX_TRIALS
    assert of_record["strategy"]["maxLength"] == of_record["date"]["maxLength"] == reading.MAX_TEXT
    of_config = kinds["Config"]["properties"]
    assert of_config["mr"]["maximum"] == of_config["nr"]["maximum"] == problem.MAX_BLOCK
    assert of_problem["dtype"]["enum"] == [dt.name for dt in registry.DTYPES]
    assert of_config["family"]["enum"] == ["numpy", *(family.name for family in registry.FAMILIES)]
    assert of_config["isa"]["enum"] == [tier.name for tier in registry.ISAS]
    assert of_problem["epilogue"]["enum"] == [row.name for row in activations.EPILOGUES]
    assert of_config["pack"]["enum"] == list(registry.PACKS)
    assert of_config["split"]["enum"] == list(registry.SPLITS)
    assert SCHEMA["properties"]["schema"]["const"] == reading.SCHEMA
    assert set(SCHEMA["properties"]) == set(reading.FILE_FIELDS)
    assert set(kinds["Group"]["properties"]) == set(reading.GROUP_FIELDS)


def test_shipped_files_are_sound() -> None:
    validate = schema_check()
    for path in (Path(__file__).parent.parent / "tuning_db").glob("*.json"):
        if path.name != database.SCHEMA_NAME:
            validate(json.loads(path.read_text()))
            assert database.read(path)[1] == []
