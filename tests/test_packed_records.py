"""Records for packed and for fused problems: the ladder that they are found by, and what they never reach."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from database_samples import as_json

import fastgemm
from fastgemm import cpu, database, dispatch, kernels, registry
from fastgemm.driver import _team
from fastgemm.problem import PACKED, Config, Problem, Record

M, N, K = 24, 130, 70
ROW = registry.dtype("f32")


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Make the database hold some records and nothing else."""
    monkeypatch.setattr(database, "bundled_path", lambda: None)
    path = tmp_path / "tuning.json"
    monkeypatch.setenv("FASTGEMM_DB", str(path))

    def hold(*records: Record) -> None:
        path.unlink(missing_ok=True)
        database.write(path, records)
        dispatch.reload()

    hold.path = path  # type: ignore[attr-defined]
    with fastgemm.threads(1):
        yield hold
    monkeypatch.undo()
    dispatch.reload()


def packed(**changes: object) -> Problem:
    return replace(Problem("f32", M, N, K, layout="np"), **changes)  # type: ignore[arg-type]


def record(problem: Problem, **changes: object) -> Record:
    """A record with another KC than the heuristic's, by which it is recognised."""
    other = dispatch.by_rules(problem).replace(kc=17, **changes)
    return Record(problem, other, 1e-6, 2e-6, kernels=kernels.kernel_hash())


def matrices(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((M, K)).astype("f4"), rng.standard_normal((K, N)).astype("f4")


def needs_tiles() -> tuple[tuple[int, int], ...]:
    tier = kernels.active_isa()
    assert tier is not None
    return registry.tiles(ROW, tier)


def test_an_exact_record_is_routed(known: Callable[..., None]) -> None:
    known(record(packed()))
    a, b = matrices()
    right = fastgemm.pack(b, rows=M)
    found = fastgemm.explain(a, right)
    assert (found.rung, found.config.kc, found.problem) == ("exact", 17, packed())
    assert "B is packed already" in repr(found)
    np.testing.assert_allclose(a @ right, a @ b, rtol=1e-4, atol=1e-4)


def test_the_product_runs_what_the_record_says(known: Callable[..., None]) -> None:
    """Where k is cut decides the bits of a sum: those of the recorded KC, not those of the heuristic's."""
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(s).astype("f4") for s in ((M, 3000), (3000, N)))
    asked = packed(k=3000)
    known()
    plain = a @ fastgemm.pack(b, rows=M)
    known(record(asked))
    tuned = a @ fastgemm.pack(b, rows=M)
    with dispatch.forced(record(asked).config):
        forced = a @ fastgemm.pack(b, rows=M)
    np.testing.assert_array_equal(tuned, forced)
    assert (tuned != plain).any()


def test_near_records(known: Callable[..., None]) -> None:
    known(record(packed()))
    a, b = matrices()
    assert fastgemm.explain(a[: M - 2], fastgemm.pack(b, rows=M)).rung == "near"
    assert fastgemm.explain(a[:4], fastgemm.pack(b, rows=M)).rung == "heuristic"


def test_pack_makes_the_panels_of_the_record(known: Callable[..., None]) -> None:
    a, b = matrices()
    for mr, nr in needs_tiles():
        known(record(packed(), mr=mr, nr=nr))
        right = fastgemm.pack(b, rows=M)
        assert right.panels is not None
        assert right.panels.kind.nr == nr
        assert fastgemm.explain(a, right).rung == "exact"
        np.testing.assert_allclose(a @ right, a @ b, rtol=1e-4, atol=1e-4)


def other_width() -> tuple[int, int]:
    """A tile whose panels of B are not those that the rules make of `matrices`."""
    right = fastgemm.pack(matrices()[1], rows=M)
    assert right.panels is not None
    found = [tile for tile in needs_tiles() if tile[1] != right.panels.kind.nr]
    if not found:
        pytest.skip("one width on this tier")
    return found[0]


@pytest.mark.parametrize("better", [0, 1])
def test_pack_makes_the_panels_of_the_largest_gain(known: Callable[..., None], better: int) -> None:
    """Of records for the same sizes that differ in what follows."""
    known()
    mr, nr = other_width()
    both = [record(packed(epilogue="gelu"), mr=mr, nr=nr), record(packed())]
    both[better] = replace(both[better], baseline_seconds=3e-6)
    known(*both)
    right = fastgemm.pack(matrices()[1], rows=M)
    assert right.panels is not None
    assert right.panels.kind.nr == both[better].config.nr


@pytest.mark.parametrize("changes", [{"m": M + 1}, {"k": K + 1}, {"n": N + 1}, {"dtype": "f64"}, {"layout": "nn"}])
def test_pack_asks_no_record_of_another_b(known: Callable[..., None], changes: dict[str, object]) -> None:
    known()
    b = matrices()[1]
    usual = fastgemm.pack(b, rows=M).panels
    assert usual is not None
    asked = packed(**changes)
    tier = kernels.active_isa()
    assert tier is not None
    tiles = [tile for tile in registry.tiles(asked.row, tier) if tile[1] != usual.kind.nr]
    if not tiles:
        pytest.skip("one width on this tier")
    known(record(asked, mr=tiles[0][0], nr=tiles[0][1], family="gemm", pack="ab"))
    assert len(dispatch.tuned()) == 1
    made = fastgemm.pack(b, rows=M).panels
    assert made is not None
    assert made.kind == usual.kind


def test_a_nearer_record_of_other_panels_hides_none(known: Callable[..., None]) -> None:
    known()
    mr, nr = other_width()
    a, b = matrices()
    right = fastgemm.pack(b, rows=M)
    usable = record(packed(m=M + 3))
    known(record(packed(m=M + 1), mr=mr, nr=nr), usable)
    found = fastgemm.explain(a, right)
    assert (found.rung, found.config) == ("near", usable.config)


def test_panels_of_another_width_take_the_next_rung(known: Callable[..., None]) -> None:
    known()
    mr, nr = other_width()
    a, b = matrices()
    right = fastgemm.pack(b, rows=M)
    assert right.panels is not None
    known(record(packed(), mr=mr, nr=nr))
    found = fastgemm.explain(a, right)
    assert (found.rung, found.config.nr) == ("heuristic", right.panels.kind.nr)
    np.testing.assert_allclose(a @ right, a @ b, rtol=1e-4, atol=1e-4)
    with dispatch.forced(record(packed(), mr=mr, nr=nr).config):
        found = fastgemm.explain(a, right)
        assert found.rung == "heuristic"
        assert "panels of" in found.why


def test_a_packed_record_never_reaches_an_unpacked_call(known: Callable[..., None]) -> None:
    known(record(packed()))
    a, b = matrices()
    for right in (b, np.asfortranarray(b)):
        assert fastgemm.explain(a, right).rung == "heuristic"
    plain = Problem("f32", M, N, K)
    known(Record(plain, dispatch.by_rules(plain), 1e-6, 2e-6, kernels=kernels.kernel_hash()))
    assert fastgemm.explain(a, b).rung == "exact"
    assert fastgemm.explain(a, fastgemm.pack(b, rows=M)).rung == "heuristic"


def test_fused_problems(known: Callable[..., None]) -> None:
    a, b = matrices()
    known(record(packed(epilogue="gelu")))
    right = fastgemm.pack(b, rows=M)
    assert fastgemm.explain(a, right, activation="gelu").rung == "exact"
    assert fastgemm.explain(a, right, activation="relu").rung == "heuristic"
    assert fastgemm.explain(a, right).rung == "heuristic"
    known(record(packed()))
    found = fastgemm.explain(a, right, activation="relu")
    assert found.rung == "near"
    assert "without relu" in found.why
    np.testing.assert_allclose(fastgemm.linear(a, right, activation="relu"), np.maximum(a @ b, 0), atol=1e-4)


def resolved(call: Callable[[], object]) -> list[Problem]:
    """The problems that a call asks dispatch for."""
    with dispatch.watched() as seen:
        call()
    return [problem for problem, _ in seen]


def test_layers_are_looked_up_with_what_follows(known: Callable[..., None]) -> None:
    known()
    a, b = matrices()
    weight, bias = np.ascontiguousarray(b.T), np.ones(N, "f4")
    right = fastgemm.pack(b)
    assert resolved(lambda: fastgemm.linear(a, right, bias, activation="gelu")) == [packed(epilogue="gelu")]
    assert resolved(lambda: fastgemm.linear(a, right, bias)) == [packed()]
    # Fewer rows than columns of a transposed weight are computed as columns: what follows does so afterwards.
    few = [p.epilogue for p in resolved(lambda: fastgemm.linear(a, weight, bias, activation="gelu"))]
    assert few == ["none"]
    many = np.ones((200, K), "f4")
    assert resolved(lambda: fastgemm.linear(many, weight, activation=("clip", 0, 1))) == [
        Problem("f32", 200, N, K, layout="nt", epilogue="clip")
    ]
    i8 = fastgemm.pack(np.ones((K, N), "i1"))
    assert resolved(lambda: fastgemm.matmul(np.ones((M, K), "i1"), i8, dtype="i4")) == [
        Problem("i8_i32", M, N, K, layout="np")
    ]


@pytest.mark.skipif(not _team.openmp, reason="a build without OpenMP has one thread")
def test_threads_are_part_of_it(known: Callable[..., None]) -> None:
    a, b = matrices()
    known(record(packed()))
    right = fastgemm.pack(b, rows=M)
    assert fastgemm.explain(a, right, num_threads=1).rung == "exact"
    assert fastgemm.explain(a, right, num_threads=2).rung == "heuristic"


def test_deterministic_asks_no_record(known: Callable[..., None]) -> None:
    known(record(packed()))
    a, b = matrices()
    with fastgemm.deterministic():
        found = fastgemm.explain(a, fastgemm.pack(b, rows=M))
    assert (found.rung, found.config.kc) == ("heuristic", dispatch.DETERMINISTIC_KC)


def damaged(**changes: object) -> dict[str, object]:
    made = as_json(record(packed()))
    for name, value in changes.items():
        made["config" if name in made["config"] else "problem"][name] = value
    return made


DAMAGED = {
    "a family that reads arrays": ({"family": "small"}, "small reads no B that is packed"),
    "NumPy": ({"family": "numpy"}, "NumPy reads no B"),
    "shared sums": ({"split": "k"}, "threads that share k"),
    "packs B again": ({"pack": "b"}, "B is packed already"),
    "a kernel of its own": ({"special": "0" * 32}, "specialised kernel reads no B"),
    "a stack": ({"batch": 3}, "a B that is packed is one matrix"),
    "an unknown activation": ({"epilogue": "softplus"}, "unknown activation"),
    "a packed A": ({"layout": "pn"}, "layout must be"),
    "no tile": ({"nr": 7}, "no "),
    "too many threads": ({"threads": 5}, ""),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_records_are_one_warning(known: Callable[..., None], name: str) -> None:
    changes, reason = DAMAGED[name]
    known()
    hash_, sound = kernels.kernel_hash(), as_json(record(packed(m=M + 100)))
    bad = damaged(**changes)
    if name == "too many threads":
        bad["config"]["threads"], bad["problem"]["threads"] = 5, 1  # type: ignore[index]
    group = {"cpu": cpu.key(), "kernels": hash_, "records": [bad, sound]}
    known.path.write_text(json.dumps({"schema": 1, "groups": [group]}))  # type: ignore[attr-defined]
    dispatch.reload()
    with pytest.warns(database.DatabaseWarning, match=reason) as warned:
        found = dispatch.tuned()
    known_now = [r.problem for r in found]
    assert (len(warned), known_now) == (1, [packed(m=M + 100)])
    a, b = matrices()
    np.testing.assert_allclose(a @ fastgemm.pack(b, rows=M), a @ b, rtol=1e-4, atol=1e-4)


def test_records_of_another_build_are_not_asked(known: Callable[..., None]) -> None:
    known(replace(record(packed()), kernels="another"))
    a, b = matrices()
    assert fastgemm.explain(a, fastgemm.pack(b, rows=M)).rung == "heuristic"


def test_files_without_the_field_are_read(known: Callable[..., None]) -> None:
    old = as_json(record(packed()))
    assert old["problem"].pop("epilogue") == "none"
    group = {"cpu": cpu.key(), "kernels": kernels.kernel_hash(), "records": [old]}
    known.path.write_text(json.dumps({"schema": 1, "groups": [group]}))  # type: ignore[attr-defined]
    dispatch.reload()
    assert [r.problem for r in dispatch.tuned()] == [packed()]


def test_every_type_has_legal_rules() -> None:
    for row in registry.DTYPES:
        for tier in kernels.runnable():
            if not (registry.supported(row, tier) and registry.is_packed(row)):
                continue
            for a, m, k in (("n", 5, 4096), ("t", 300, 70), ("g", 40, 9)):
                problem = Problem(row.name, m, 100, k, layout=a + PACKED, threads=2)
                config = dispatch.by_rules(problem)
                assert config.misfit(problem) is None, (problem, config)


def test_plans_read_no_arrays_in_the_place_of_panels() -> None:
    from fastgemm.plan import Plan

    a, b = matrices()
    with pytest.raises(ValueError, match="packed"):
        Plan(packed(), dispatch.by_rules(packed())).run(a, b)


def test_pinned_plans_are_what_calls_run() -> None:
    from fastgemm.plan import Plan

    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(s).astype("f4") for s in ((M, 3000), (3000, N)))
    asked = packed(k=3000)
    with fastgemm.threads(1):
        right = fastgemm.pack(b, rows=M)
        before = a @ right
        config: Config = fastgemm.explain(a, right).config.replace(kc=17)
        Plan(asked, config).pin()
        pinned = a @ right
        dispatch.reload()
        after = a @ right
    assert (before != pinned).any()
    np.testing.assert_array_equal(before, after)
