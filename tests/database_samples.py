"""Database files, sound and damaged, for the tests of the database."""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict
from typing import Any

from fastgemm import database, registry
from fastgemm.problem import PACKED, Config, Problem, Record

CPU, KERNELS = "v4 l1d48K l2-1024K l3-32M c2", "k1"
SOUND = Problem("f32", 512, 512, 512)


def record(
    seconds: float = 1e-3, kernels: str = KERNELS, isa: str = "v3", gain: float = 2.0, **changes: Any
) -> Record:
    known = {"dtype": "f32", "m": 512, "n": 512, "k": 512}
    product = Problem(**{**known, **changes})
    mr, nr = registry.tiles(product.row, registry.isa(isa))[0]
    pack = "ab" if product.row.converts or product.layout[1] == PACKED else "b"
    config = Config(isa=isa, mr=mr, nr=nr, pack=pack, kc=256, nc=256)
    return Record(product, config, seconds, gain * seconds, 40, "random", "2026-01-01", kernels)


def as_json(made: Record) -> dict[str, Any]:
    return {name: value for name, value in asdict(made).items() if name != "kernels"}


def document(*records: Any, cpu: str = CPU, kernels: str = KERNELS) -> dict[str, Any]:
    return {"schema": 1, "groups": [{"cpu": cpu, "kernels": kernels, "records": list(records)}]}


def broken(path: str, value: Any) -> dict[str, Any]:
    """A sound record and one whose field at `path` has a value."""
    bad = as_json(record(m=300))
    *parents, last = path.split(".")
    target = bad
    for name in parents:
        target = target[name]
    target[last] = value
    return document(as_json(record()), bad)


def load(**changes: Any) -> tuple[database.Database, list[str]]:
    """Load, and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = database.load(**{"kernels": KERNELS, "cpu": CPU, "isas": ("v2", "v3", "v4"), **changes})
    assert all(issubclass(w.category, database.DatabaseWarning) for w in caught)
    return found, [str(w.message) for w in caught]


NUMBERS = ("problem.m", "problem.batch", "problem.threads", "config.mr", "config.nr", "config.mc", "config.kc")
BAD_RECORDS = {
    **{f"{p} bool": (broken(p, True), "must be an integer, not bool") for p in NUMBERS},
    **{f"{p} negative": (broken(p, -8), "") for p in NUMBERS},
    **{f"{p} zero": (broken(p, 0), "") for p in NUMBERS},
    **{f"{p} huge": (broken(p, 1 << 70), "must be between") for p in NUMBERS},
    **{f"{p} immense": (broken(p, 10**4000), "must be between") for p in NUMBERS},
    **{f"{p} NaN": (broken(p, float("nan")), "must be an integer, not float (nan)") for p in NUMBERS},
    **{f"{p} Infinity": (broken(p, float("inf")), "must be an integer, not float (inf)") for p in NUMBERS},
    **{f"{p} float": (broken(p, 8.0), "must be an integer, not float") for p in NUMBERS},
    **{f"{p} string": (broken(p, "8"), "must be an integer, not str") for p in NUMBERS},
    **{f"{p} null": (broken(p, None), "must be an integer, not NoneType") for p in NUMBERS},
    **{f"{p} list": (broken(p, [8]), "must be an integer, not list") for p in NUMBERS},
    "seconds NaN": (broken("seconds", float("nan")), "seconds must be finite"),
    "seconds Infinity": (broken("seconds", float("inf")), "seconds must be finite"),
    "seconds -Infinity": (broken("seconds", float("-inf")), "seconds must be finite"),
    "seconds negative": (broken("seconds", -1.0), "seconds must be between"),
    "seconds zero": (broken("seconds", 0), "seconds must be between"),
    "seconds denormal": (broken("seconds", 5e-324), "seconds must be between"),
    "seconds huge": (broken("seconds", 10**400), "seconds must be finite"),
    "seconds bool": (broken("seconds", True), "seconds must be a number, not bool"),
    "baseline string": (broken("baseline_seconds", "1"), "baseline_seconds must be a number"),
    "trials negative": (broken("trials", -1), "trials must be between"),
    "trials huge": (broken("trials", 1 << 62), "trials must be between"),
    "strategy number": (broken("strategy", 7), "strategy must be a string"),
    "strategy long": (broken("strategy", "x" * 5000), "strategy is longer"),
    "dtype unknown": (broken("problem.dtype", "f8_e4m3"), "no kernels for dtype 'f8_e4m3'"),
    "dtype by NumPy's name": (broken("problem.dtype", "float32"), "dtype must be 'f32'"),
    "dtype number": (broken("problem.dtype", 4), "dtype must be a string"),
    "layout unknown": (broken("problem.layout", "zz"), "layout must be"),
    "layout list": (broken("problem.layout", ["n", "n"]), "layout must be a string"),
    "family unknown": (broken("config.family", "magic"), "unknown kernel family"),
    "isa unknown": (broken("config.isa", "v9"), "unknown ISA tier"),
    "isa of NumPy unknown": (
        document(as_json(record()), {**as_json(record(m=9)), "config": {"family": "numpy", "isa": "v9"}}),
        "unknown ISA tier",
    ),
    "pack unknown": (broken("config.pack", "c"), "pack must be one of"),
    "no such tile": (broken("config.mr", 5), "no 5x"),
    "more threads than allowed": (broken("config.threads", 2), "threads 2 exceeds"),
    "misfit of layout": (
        document(as_json(record()), {**as_json(record(layout="nt")), "config": {"mr": 6, "nr": 16, "pack": "none"}}),
        "B must be packed",
    ),
    "unknown field": (broken("turbo", 1), "record has an unknown field 'turbo'"),
    "a kernel set beside its group's": (broken("kernels", KERNELS), "record has an unknown field 'kernels'"),
    "unknown field of a problem": (broken("problem.colour", "relu"), "problem has an unknown field 'colour'"),
    "unknown field of a config": (broken("config.unroll", 4), "config has an unknown field 'unroll'"),
    "escape sequence in a name": (broken("problem.\x1b[31m\n", 4), "unknown field '\\x1b[31m\\n'"),
    "lone surrogate": (broken("problem.dtype", "\ud800"), "no kernels for dtype '\\ud800'"),
    "deep nesting": (broken("config.mr", json.loads("[" * 300 + "]" * 300)), "mr must be an integer, not list"),
    "problem is a list": (broken("problem", []), "problem must be an object, not list"),
    "config is null": (broken("config", None), "config must be an object, not NoneType"),
    "record is a number": (document(as_json(record()), 3), "record must be an object, not int"),
    "record is empty": (document(as_json(record()), {}), "record lacks 'problem'"),
    "no k": (broken("problem", {"dtype": "f32", "m": 1, "n": 1}), "problem lacks 'k'"),
}

SOUND_TEXT = json.dumps(document(as_json(record())))
GROUP = {"cpu": CPU, "kernels": KERNELS, "records": []}
BAD_FILES = {
    "empty": (b"", "empty file"),
    "blank": (b" \n\t ", "empty file"),
    "truncated": (SOUND_TEXT[:-20].encode(), "not JSON"),
    "truncated early": (SOUND_TEXT[:7].encode(), "not JSON"),
    "trailing": (SOUND_TEXT.encode() + b"}", "not JSON"),
    "binary": (bytes(range(256)) * 64, "not UTF-8"),
    "zeros": (bytes(4096), "not JSON"),
    "UTF-16": (SOUND_TEXT.encode("utf-16"), "not UTF-8"),
    "deep list": (b"[" * 200_000, "nested too deeply"),
    "deep objects": (b'{"schema":' * 200_000, "nested too deeply"),
    "deep, closed": (b"[" * 150_000 + b"]" * 150_000, "nested too deeply"),
    "not so deep": (b"[" * 300 + b"]" * 300, "the file must be an object, not list"),
    "number of 5000 digits": (b'{"schema": ' + b"9" * 5000 + b"}", "not JSON"),
    "number": (b"17", "the file must be an object, not int"),
    "null": (b"null", "the file must be an object"),
    "NaN": (b"NaN", "the file must be an object, not float"),
    "list": (b"[]", "the file must be an object, not list"),
    "no fields": (b"{}", "'schema' must be an integer"),
    "no groups": (b'{"schema": 1}', "'groups' must be a list"),
    "groups is an object": (b'{"schema": 1, "groups": {}}', "'groups' must be a list, not dict"),
    "schema true": (b'{"schema": true, "groups": []}', "'schema' must be an integer"),
    "schema 1.0": (b'{"schema": 1.0, "groups": []}', "'schema' must be an integer"),
    "schema of tomorrow": (b'{"schema": 2, "groups": []}', "schema 2; this version reads 1"),
    "schema zero": (b'{"schema": 0, "groups": []}', "schema 0"),
    "unknown top field": (b'{"schema": 1, "groups": [], "x": 1}', "the file has an unknown field 'x'"),
    "key twice": (b'{"schema": 1, "schema": 1, "groups": []}', "the file has a key twice"),
    "group is a number": (b'{"schema": 1, "groups": [3]}', "groups[0]: a group must be an object, not int"),
    "group without records": (b'{"schema": 1, "groups": [{"cpu": "a", "kernels": "b"}]}', "'records' must be a list"),
    "cpu is a number": (json.dumps({"schema": 1, "groups": [{**GROUP, "cpu": 3}]}).encode(), "'cpu' must be a string"),
    "group's unknown field": (json.dumps({"schema": 1, "groups": [{**GROUP, "z": 3}]}).encode(), "unknown field 'z'"),
}
