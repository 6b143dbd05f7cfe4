"""The search space of a problem: which configurations there are, and which are neighbours.

A configuration is a point with six coordinates.  ``kernel`` (family, tier, tile) and
``team`` (threads and the loop that they share) are unordered, as is ``pack``; the cache
blocks ``mc``, ``kc`` and ``nc`` are ordered.  Legality is `Config.misfit` alone.

Configurations of equal effect are one point.  The driver balances blocks and panels, so
two block sizes that cut a thread's share into as many blocks do the same, and so do two tiles
that cut a small output into as many panels; one thread has nothing to share.  A search that
counted those apart would spend most of its trials on small problems repeating itself.

What the parameters are worth was measured on Zen 5 (f32, two threads, best against the
rules of the heuristic: 0 to 11 %, and 1.6 to 2.4 times where a structure was missing).
Tile, pack, team and KC carry nearly all of it; MC and NC are flat, except NC for few
rows with a packed B, so these two have few values.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .. import allowed, kernels, registry
from ..heuristic import costs, family_dots
from ..problem import PACKED, Config, Problem
from .kernel_nests import described
from .nests import Nests
from .search_space import Point, SearchSpace

# Rows of A that stay in L2.  60 to 128 rows are best with KC = 1024 and the curve is flat there;
# 240 serves shallow K, where 120 rows leave L2 nearly empty.
MC = (60, 120, 240)

# 256 (the textbook's) was 1 to 5 % behind 512 and that 1 to 2 % behind 1024 to 2048 at 2048^3;
# strips of a skinny product prefer 256 to 1024.
KC = (256, 512, 1024, 2048, 4096)

# Flat from 1000 up; 32 x 4096 x 4096 and 128 x 3072 x 768 are best with strips of 64 to 512.
NC = (64, 128, 256, 512, 1024, 4096)

ORDERED = ("mc", "kc", "nc")


class Kernel(NamedTuple):
    """The compiled side of a configuration."""

    family: str
    isa: str
    mr: int = 0
    nr: int = 0


class Team(NamedTuple):
    """The threads that take part and the loop that they share."""

    threads: int
    split: str


class Space(SearchSpace[Config]):
    """Every configuration for a problem on a tier, those of equal effect once.

    Parameters
    ----------
    problem : Problem
        What is to be computed.
    start : Config
        The heuristic's answer.  It is always in the space, and of equal configurations the one with its
        values is kept.  Its tier is searched, and where calls may use another beside it (`kernels.half_isa`)
        that one's kernels without panels too: few rows by few columns are up to 2.4 times as fast by AVX2's dot
        products on a Zen 4 as by any of AVX-512's kernels (``bench/sweep.py --tiers``).

    Examples
    --------
    >>> problem = Problem("f32", 64, 64, 64)
    >>> space = Space(problem, Config("gemm", "v3", 6, 16))
    >>> space.start in space
    True
    >>> all(config.misfit(problem) is None for config in space.all())
    True
    >>> {config.kc for config in space.all()}  # every block holds K = 64
    {1024}
    """

    def __init__(self, problem: Problem, start: Config) -> None:
        if start.family == "numpy":
            raise ValueError("the start must be a kernel's configuration")
        if reason := start.misfit(problem):
            raise ValueError(f"the start does not fit the problem: {reason}")
        self.problem = problem
        # One thread shares nothing; the letter is fixed so that equal configurations compare equal.
        self.start = start.replace(split="n") if start.threads == 1 else start
        teams = self._teams()
        blocks = {name: self._blocks(name, teams) for name in ORDERED}
        self._sizes = {(name, team): sizes for name in ORDERED for team, sizes in blocks[name].items()}
        self.values: Mapping[str, tuple[Any, ...]] = {
            "kernel": self._kernels(),
            "pack": registry.PACKS,
            "team": teams,
            **{name: tuple(sorted(set().union(*by_team.values()))) for name, by_team in blocks.items()},
        }
        self.ordered = frozenset(ORDERED)
        # To any value of an unordered coordinate; down and up one value of an ordered one.
        self._moves = [
            (name, to)
            for name, values in self.values.items()
            for to in ((-1, 1) if name in ORDERED else range(len(values)))
        ]
        self.moves = len(self._moves)
        self._rest = self._resting()
        grid = (self._point(indices) for indices in itertools.product(*(range(len(v)) for v in self.values.values())))
        self._points = {config: point for point in grid if (config := self.decode(point)) is not None}
        self._configs = tuple(sorted(self._points, key=lambda config: config != self.start))

    def __len__(self) -> int:
        return len(self._configs)

    def __contains__(self, config: object) -> bool:
        return config in self._points

    def __getitem__(self, index: int) -> Config:
        return self._configs[index]

    def move(self, config: Config, number: int) -> Config | None:
        """Return another kernel, pack or team, or the next block size; None where that leads nowhere.

        Every move can be undone.
        """
        here = self._points[config]
        name, to = self._moves[number]
        if name in ORDERED:
            values = self.values[name]
            sizes = self._sizes[name, self.values["team"][here["team"]]]
            at = sizes.index(values[here[name]]) + to
            if not 0 <= at < len(sizes):
                return None
            to = values.index(sizes[at])
        return None if to == here[name] else self.decode({**here, name: to})

    def encode(self, config: Config) -> Point:
        """Return the coordinates of a configuration of this space."""
        return dict(self._points[config])

    def decode(self, point: Mapping[str, int]) -> Config | None:
        """Return the configuration at some coordinates; None where there is none."""
        value = {name: self.values[name][index] for name, index in point.items()}
        kernel, team, pack = value["kernel"], value["team"], value["pack"]
        if kernel.family not in registry.BLOCKED:
            # The other families have one way to pack and no blocks: one point stands for all.
            if any(point[name] != index for name, index in self._rest.items()):
                return None
            turned = kernel.family == "small" and self.problem.layout[1] != "n" and self.problem.n > 1
            pack = "b" if turned else "none"
        blocks = {name: value[name] for name in ORDERED}
        if any(size not in self._sizes[name, team] for name, size in blocks.items()):
            return None
        if kernel.family == "dots" and kernel[:2] != (self.start.family, self.start.isa):
            # It has blocks of its own, which are not searched.
            tier, row = registry.isa(kernel.isa), self.problem.row
            sizes = family_dots.blocks(self.problem, tier, kernels.family(row, tier) != "gemm")
            blocks = dict(zip(ORDERED, sizes, strict=True))
        config = Config(**kernel._asdict(), **blocks, pack=pack, split=team.split, threads=team.threads)
        if config.misfit(self.problem) is not None:
            return None
        return None if self._overstaffed(config) and config != self.start else config

    def nests(self, configs: Sequence[Config]) -> Nests:
        """Return the loops of some configurations, as one thread runs them."""
        return described(self.problem, configs)

    def _overstaffed(self, config: Config) -> bool:
        """Whether threads would have nothing to do, so that a smaller team does the same."""
        lanes = registry.lanes(self.problem.row, registry.isa(config.isa))
        p = self.problem
        pieces = {"m": p.m, "n": -(-p.n // lanes), "batch": p.batch, "k": p.k}
        return config.threads > pieces[config.split]

    def _kernels(self) -> tuple[Kernel, ...]:
        dt, start = self.problem.row, self.start
        all_of = [Kernel(start.family, start.isa, start.mr, start.nr)]
        for tier, family in itertools.product(self._tiers(), registry.FAMILIES):
            if not (registry.computes(family.name, dt) and kernels.has(family.name, tier.name)):
                continue
            if tier.name != start.isa and family.name in registry.BLOCKED:
                continue  # twice the space, where the rules choose by shape already (`half_tier`)
            if registry.by_limbs(family.name) and allowed.asked_of_f32() == "vectors":
                continue
            if self.problem.layout[1] == PACKED and family.name != start.family:
                continue  # `fastgemm.pack` packs for one family
            sizes = registry.tiles(dt, tier, family.name) if family.name not in ("gemv", "dots") else ((0, 0),)
            all_of += [Kernel(family.name, tier.name, mr, nr) for mr, nr in sizes]
        found: dict[object, Kernel] = {}
        for kernel in all_of:
            effect = (kernel.mr, kernel.nr)
            if kernel.mr and self.problem.m <= MC[0]:
                lanes = registry.lanes(dt, registry.isa(kernel.isa))
                vectors = -(-self.problem.n // lanes)
                effect = (-(-self.problem.m // kernel.mr), -(-vectors // (kernel.nr // lanes)))
            found.setdefault((kernel.family, kernel.isa, effect), kernel)
        return tuple(found.values())

    def _tiers(self) -> list[registry.Isa]:
        """The start's tier, and the one of half or twice its vectors where calls may use either."""
        tier, half, active = registry.isa(self.start.isa), kernels.half_isa(), kernels.active_isa()
        if half is None or active is None or tier not in (half, active) or self.problem.layout[1] == PACKED:
            return [tier]
        other = half if tier == active else active
        return [tier, other] if registry.supported(self.problem.row, other) else [tier]

    def _blocks(self, name: str, teams: tuple[Team, ...]) -> dict[Team, tuple[int, ...]]:
        """Block sizes of distinct effect for each team."""
        values, size, split = {
            "mc": (MC, self.problem.m, "m"),
            "kc": (KC, self.problem.k, "k"),
            "nc": (NC, self.problem.n, "n"),
        }[name]
        own = getattr(self.start, name)
        return {t: _cut(values, own, -(-size // t.threads) if t.split == split else size) for t in teams}

    def _teams(self) -> tuple[Team, ...]:
        most = self.problem.threads
        if self.start.threads == 1 and self.problem.flops < costs.TEAM_FLOPS:
            # What takes microseconds must not wait for a second core that may be taken: f32 1x64x1216 (2.3 us) gained
            # 27 % by one in two processes, and lost 34 % in the next.
            most = 1
        counts = {most, *(1 << power for power in range(most.bit_length()))}
        teams = [Team(self.start.threads, self.start.split), Team(1, "n")]
        teams += [Team(count, split) for count in sorted(counts) if count > 1 for split in registry.SPLITS]
        return tuple(dict.fromkeys(teams))

    def _resting(self) -> Point:
        """Where the coordinates rest that have no effect outside the gemm family.

        The blocks rest at the start's and the packing at the first that suits a gemm kernel, so
        that a configuration of another family has neighbours in gemm.
        """
        tiled = next(kernel for kernel in self.values["kernel"] if kernel.family in registry.BLOCKED)
        blocks = {name: self.values[name].index(getattr(self.start, name)) for name in ORDERED}
        sizes = {name: getattr(self.start, name) for name in ORDERED}
        legal = [
            index
            for index, pack in enumerate(registry.PACKS)
            if Config(**tiled._asdict(), **sizes, pack=pack).misfit(self.problem) is None
        ]
        return {"pack": legal[0], **blocks}

    def _point(self, indices: tuple[int, ...]) -> Point:
        return dict(zip(self.values, indices, strict=True))


def _cut(values: tuple[int, ...], own: int, size: int) -> tuple[int, ...]:
    """Block sizes for a share of `size`, ascending: the start's `own`, and others with another number of blocks.

    Of those with the same number the smallest stays, uncut: a record also serves problems nearby,
    which may be a little larger.
    """
    found = {-(-size // own): own}
    for value in sorted(values):
        found.setdefault(-(-size // value), value)
    return tuple(sorted(found.values()))
