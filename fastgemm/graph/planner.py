"""The static buffer plan: where each buffer lies in one block of memory, from the order of their births and deaths.

Memory is a row of segments that may still grow: a buffer takes the free run that it fits best, or the longest one,
which is made longer for it, or new segments at the end.  What lies behind a segment that grows moves up, which costs
nothing before the program has run: offsets are read off at the end.  A buffer is one number, its first segment: runs
are cut and joined without losing it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

# One cache line: no two buffers share one, and vectors of every tier are aligned at their beginnings.
ALIGNMENT = 64
# Taking over an operand's memory saves nothing where it makes up less of the buffer than this.
LEAST_TAKEN = 0.1
# A warm run that is longer than this many times the buffer is left whole: cutting it up costs memory later.
CLOSE = 1.5


class Birth(NamedTuple):
    """A buffer begins to live.

    ``over`` names buffers that die at the same moment and whose memory it may take from their first byte on.
    """

    name: str
    size: int
    over: tuple[str, ...] = ()


class Death(NamedTuple):
    """A buffer is needed no longer."""

    name: str


class Placement(NamedTuple):
    """Offsets of the buffers, and how many bytes they take together."""

    offsets: Mapping[str, int]
    total: int


@dataclass(slots=True, eq=False)
class _Segment:
    size: int
    owner: str | None = None
    # When it became free; the latest is the warmest in the caches.
    freed: int = 0


@dataclass(slots=True)
class _Memory:
    align: int
    warm: bool
    segments: list[_Segment] = field(default_factory=list)
    first: dict[str, _Segment] = field(default_factory=dict)
    clock: int = 0

    def runs(self, allowed: tuple[str | None, ...]) -> list[tuple[int, int]]:
        """Maximal runs of segments of these owners: first, and one past the last."""
        found, begin = [], None
        for at, segment in enumerate([*self.segments, None]):
            if segment is not None and segment.owner in allowed:
                begin = at if begin is None else begin
            elif begin is not None:
                found.append((begin, at))
                begin = None
        return found

    def length(self, run: tuple[int, int]) -> int:
        return sum(segment.size for segment in self.segments[slice(*run)])

    def place(self, birth: Birth) -> None:
        size = -(-birth.size // self.align) * self.align
        if self._take_over(birth, size):
            return
        runs = self.runs((None,))
        fitting = [run for run in runs if self.length(run) >= size]
        if fitting:
            close = [run for run in fitting if self.length(run) <= size * CLOSE] if self.warm else []
            chosen = max(close, key=self._warmth) if close else min(fitting, key=self.length)
        elif runs:
            chosen = max(runs, key=self.length)
        else:
            chosen = (len(self.segments), len(self.segments))
        self._occupy(birth.name, chosen[0], chosen[1], size)

    def free(self, name: str) -> None:
        self.clock += 1
        for segment in self.segments:
            if segment.owner == name:
                segment.owner, segment.freed = None, self.clock

    def _warmth(self, run: tuple[int, int]) -> int:
        return max(segment.freed for segment in self.segments[slice(*run)])

    def _take_over(self, birth: Birth, size: int) -> bool:
        living = tuple(name for name in birth.over if any(s.owner == name for s in self.segments))
        best = None
        for name in living:
            start = next(at for at, segment in enumerate(self.segments) if segment.owner == name)
            end = next(end for begin, end in self.runs((None, *living)) if begin <= start < end)
            taken = sum(s.size for s in self.segments[start:end] if s.owner is not None)
            grown = max(0, size - self.length((start, end)))
            if min(taken, size) >= LEAST_TAKEN * size and (best is None or grown < best[0]):
                best = grown, start, end
        if best is None:
            return False
        self._occupy(birth.name, best[1], best[2], size)
        return True

    def _occupy(self, name: str, begin: int, end: int, size: int) -> None:
        missing = size - self.length((begin, end))
        if missing > 0 or begin == end:
            self.segments.insert(end, _Segment(max(missing, 0)))
            end += 1
        left, at = size, begin
        while True:
            segment = self.segments[at]
            if segment.size > left:
                self.segments.insert(at + 1, _Segment(segment.size - left, segment.owner, segment.freed))
                segment.size = left
            segment.owner = name
            left -= segment.size
            if left <= 0:
                break
            at += 1
        self.first[name] = self.segments[begin]


def place(events: Iterable[Birth | Death], align: int = ALIGNMENT, prefer: Literal["fit", "warm"] = "fit") -> Placement:
    """Place buffers in one block of memory so that no two that live at the same time overlap.

    Parameters
    ----------
    events : iterable of Birth and Death
        In the order of execution.  A buffer that never dies lives to the end.
    align : int
        Offsets and sizes are multiples of it.
    prefer : {"fit", "warm"}
        Of the free runs that are long enough, take the shortest; or of those not much longer, the one freed last.

    Returns
    -------
    Placement

    Raises
    ------
    ValueError
        If a name is born twice, or dies without living.

    Examples
    --------
    >>> from fastgemm.graph.planner import Birth, Death, place
    >>> made = place([Birth("a", 128), Birth("b", 64), Death("a"), Birth("c", 100)])
    >>> made.offsets, made.total
    ({'a': 0, 'b': 128, 'c': 0}, 192)
    """
    memory = _Memory(align, prefer == "warm")
    alive: set[str] = set()
    for event in events:
        if isinstance(event, Birth):
            if event.name in memory.first:
                raise ValueError(f"buffer {event.name!r} is born twice")
            memory.place(event)
            alive.add(event.name)
        else:
            if event.name not in alive:
                raise ValueError(f"buffer {event.name!r} dies without living")
            alive.discard(event.name)
            memory.free(event.name)
    starts, total = {}, 0
    for segment in memory.segments:
        starts[id(segment)] = total
        total += segment.size
    return Placement({name: starts[id(segment)] for name, segment in memory.first.items()}, total)
