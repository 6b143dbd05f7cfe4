"""The buffer plan: known answers, and that buffers which live together never overlap."""

from __future__ import annotations

from typing import NamedTuple

import hypothesis
import hypothesis.strategies as st
import pytest

from fastgemm.chain import SCRATCH, Ref
from fastgemm.graph.planner import Birth, Death, Placement, place
from fastgemm.graph.scratch import Scratch

# Births by size, deaths by None, of the planner tests of oneDNN's graph compiler.
TRACE = [
    ("0", 100), ("1", 120), ("2", 100), ("0", None), ("3", 50), ("4", 60), ("2", None), ("4", None), ("8", 100),
    ("8", None), ("5", 60), ("5", None), ("1", None), ("6", 350), ("3", None), ("7", 100),
]  # fmt: skip


def events(trace: list[tuple[str, int | None]]) -> list[Birth | Death]:
    return [Death(name) if size is None else Birth(name, size) for name, size in trace]


@pytest.mark.parametrize("prefer", ["fit", "warm"])
def test_known_answer(prefer: str) -> None:
    made = place(events(TRACE), align=1, prefer=prefer)
    assert made.total == 450
    assert made.offsets == {"0": 0, "1": 160, "2": 280, "3": 0, "4": 100, "5": 100, "6": 100, "7": 0, "8": 280}


def test_in_place_of_two() -> None:
    trace = [Birth("1", 120), Birth("2", 100), Birth("3", 200, ("1", "2")), Death("1"), Death("2"), Death("3")]
    made = place([*trace, Birth("4", 220)], align=1)
    assert made.total == 220
    assert made.offsets["3"] == 0


def test_in_place_begins_where_its_operand_does() -> None:
    made = place([Birth("a", 64), Birth("b", 64), Birth("c", 64, ("b",)), Death("b"), Birth("d", 64)])
    assert made.offsets["c"] == made.offsets["b"] == 64
    assert made.total == 192


def test_little_to_take_is_not_taken() -> None:
    made = place([Birth("a", 10), Birth("b", 1000), Birth("c", 500, ("a",)), Death("a")], align=1)
    assert made.offsets["c"] == 1010


def test_the_warmest_is_taken_first() -> None:
    trace = [Birth("a", 128), Birth("x", 64), Birth("b", 192), Birth("y", 64), Death("a"), Death("b"), Birth("c", 128)]
    assert place(trace).offsets["c"] == 0
    assert place(trace, prefer="warm").offsets["c"] == 192


def test_alignment() -> None:
    made = place([Birth("a", 1), Birth("b", 65), Birth("none", 0), Birth("c", 3)])
    assert [offset % 64 for offset in made.offsets.values()] == [0] * 4
    assert made.offsets["c"] == 192
    assert made.total == 256


class Member(NamedTuple):
    """A step of a chain, as far as its memory goes."""

    read: Ref
    written: Ref


def test_scratch_of_a_chain() -> None:
    """Rows are there from the first member that has them to the last."""
    scratch = Scratch()
    one, two, three = (scratch.rows(100, "float32") for _ in range(3))
    given = Ref(0, "float32", row=400, column=4)
    found, total = scratch.placed([Member(given, one), Member(one, two), Member(two, three)], 8)
    (kept, first), (again, second), (_, third) = found
    assert kept == given
    assert again == first
    assert [ref.slot for ref in (first, second, third)] == [SCRATCH] * 3
    assert [ref.offset for ref in (first, second, third)] == [0, 8 * 448, 0]
    assert (first.row, total) == (448, 2 * 8 * 448), "whole cache lines"
    assert scratch.rows(256, "float32").row == 1024 + 64, "rows do not lie whole kilobytes apart"


def test_refusals() -> None:
    with pytest.raises(ValueError, match="born twice"):
        place([Birth("a", 1), Birth("a", 1)])
    with pytest.raises(ValueError, match="dies without living"):
        place([Death("a")])


def assert_apart(trace: list[Birth | Death], made: Placement) -> None:
    """Replay: a new buffer touches no living one, except from the first byte on one that it may take."""
    alive: dict[str, int] = {}
    for event in trace:
        if isinstance(event, Death):
            alive.pop(event.name, None)
            continue
        start, end = made.offsets[event.name], made.offsets[event.name] + event.size
        assert end <= made.total
        taken = [n for n in event.over if n in alive and made.offsets[n] < end and made.offsets[n] + alive[n] > start]
        if len(event.over) == 1 and taken:
            assert made.offsets[taken[0]] == start
        for name in taken:
            del alive[name]
        for name, size in alive.items():
            other = made.offsets[name]
            assert not event.size or not size or end <= other or other + size <= start, (event, name)
        alive[event.name] = event.size


@hypothesis.settings(deadline=None, max_examples=200)
@hypothesis.given(st.data())
def test_nothing_overlaps(data: st.DataObject) -> None:
    trace: list[Birth | Death] = []
    alive: list[str] = []
    for at in range(data.draw(st.integers(1, 25))):
        name = str(at)
        if alive and data.draw(st.booleans()):
            gone = data.draw(st.sampled_from(alive))
            alive.remove(gone)
            if data.draw(st.booleans()):
                trace.append(Birth(name, data.draw(st.integers(0, 300)), (gone,)))
                alive.append(name)
            trace.append(Death(gone))
        else:
            trace.append(Birth(name, data.draw(st.integers(0, 300))))
            alive.append(name)
    for prefer in ("fit", "warm"):
        assert_apart(trace, place(trace, data.draw(st.sampled_from([1, 16, 64])), prefer))
