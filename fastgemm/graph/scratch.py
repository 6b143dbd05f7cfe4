"""Scratch of a chain: references to rows between members are placed when all members are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import registry
from ..chain import SCRATCH, Finish, Parts, Ref
from . import planner
from .planner import Birth, Death


class Scratch:
    """Rows that members of a chain hand to each other; their references have slots below `SCRATCH` until `placed`."""

    def __init__(self) -> None:
        # The bytes of each one's rows, and whether there is one for all.
        self._rows: list[tuple[int, bool]] = []

    def rows(self, columns: int, dtype: str, same: bool = False) -> Ref:
        """Return a reference to rows of so many numbers, or to one that is the `same` for all rows of an item."""
        size = registry.bytes_of(dtype)
        row = -(-columns * size // planner.ALIGNMENT) * planner.ALIGNMENT
        # Rows at a distance of whole kilobytes would share a few sets of the caches.
        row += planner.ALIGNMENT * (row % 1024 == 0)
        self._rows.append((row, same))
        return Ref(SCRATCH - len(self._rows), dtype, 0, (), 0 if same else row, size)

    def placed(self, members: Sequence[Any], block: int) -> tuple[list[Any], int]:
        """Return members with their scratch at its final place for blocks of so many rows, and its bytes."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for at, member in enumerate(members):
            for ref in _refs(member):
                if ref.slot < SCRATCH:
                    first.setdefault(ref.slot, at)
                    last[ref.slot] = at

        def size(slot: int) -> int:
            row, same = self._rows[SCRATCH - slot - 1]
            return row if same else row * block

        events: list[Birth | Death] = []
        for at in range(len(members)):
            born = [slot for slot, birth in first.items() if birth == at]
            events += [Birth(str(slot), size(slot)) for slot in born]
            events += [Death(str(slot)) for slot, death in last.items() if death == at]
        plan = planner.place(events, prefer="warm")

        def moved(ref: Ref) -> Ref:
            if ref.slot >= SCRATCH:
                return ref
            return ref._replace(slot=SCRATCH, offset=ref.offset + plan.offsets[str(ref.slot)])

        return [with_refs(member, moved) for member in members], plan.total


def _refs(member: Any) -> list[Ref]:
    found: list[Ref] = []

    def seen(ref: Ref) -> Ref:
        found.append(ref)
        return ref

    with_refs(member, seen)
    return found


def with_refs(member: Any, change: Callable[[Ref], Ref]) -> Any:
    """Return a member with every reference changed."""
    changed: dict[str, Any] = {}
    for name, value in member._asdict().items():
        if isinstance(value, Ref):
            changed[name] = change(value)
        elif isinstance(value, Finish | Parts):
            changed[name] = with_refs(value, change)
        elif isinstance(value, Mapping):
            changed[name] = {key: change(ref) if isinstance(ref, Ref) else ref for key, ref in value.items()}
    return member._replace(**changed)
