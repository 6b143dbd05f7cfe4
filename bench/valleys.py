"""Where searches by moves get stuck: states of recorded tables with nothing better within some moves of them.

G-BFS and N-A2C see a few moves far.  A state that is not the best and has no better one within r moves holds episodes
of r moves, and fills the queue of a best-first search with its surroundings.  This command counts such states among
those up to 1.6 times the best, for one move to five, and names the costs of those worse than 3 % when they are few.

    python bench/valleys.py                                      # Markdown; half a minute
    python bench/valleys.py bench/tables/nested-1024x1024x1024.xz
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import cost_tables
import numpy as np
import papers

from fastgemm.tune.nested import State

REACH, MOVES, CLOSE, SHOWN = 1.6, 5, 1.03, 8


def stuck(table: cost_tables.Table, state: State, moves: int) -> bool:
    """Whether no state within so many moves is better.

    Examples
    --------
    >>> from fastgemm.tune.nested import NestedSpace
    >>> space = NestedSpace(2, 1, 2)
    >>> table = cost_tables.Table(space, np.array([1.0, *range(3, len(space) + 2)]), {})
    >>> stuck(table, space[0], 3), stuck(table, space[1], 3)
    (True, False)
    """
    cost, seen, front = table(state), {state}, [state]
    for _ in range(moves):
        ahead = []
        for one in front:
            for other in table.space.neighbours(one):
                if other in seen:
                    continue
                if table(other) < cost:
                    return False
                seen.add(other)
                ahead.append(other)
        front = ahead
    return True


def valleys(table: cost_tables.Table) -> list[list[float]]:
    """Costs over the best's of the states that have none better within one move, two, and so on, in order."""
    ratios = table.seconds / table.best
    near = [int(index) for index in np.argsort(ratios) if ratios[index] <= REACH]
    found = []
    for moves in range(1, MOVES + 1):
        near = [index for index in near if stuck(table, table.space[index], moves)]
        found.append([float(ratios[index]) for index in near])
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", type=Path, help="tables of record.py (default: all in bench/tables)")
    options = parser.parse_args(arguments)
    try:
        found = [cost_tables.load(path) for path in options.tables or papers.shipped()]
    except cost_tables.TableError as error:
        parser.error(str(error))
    for table in found:
        size = "x".join(map(str, table.space.sizes.values()))
        close = int(np.sum(table.seconds <= CLOSE * table.best))
        print(f"## {size}: {close} of {len(table.space)} states within 3 % of the best\n")
        print("| none better within | states | worse than 3 % | their times over the best's |")
        print("|---|---:|---:|---|")
        for moves, costs in enumerate(valleys(table), 1):
            worse = [cost for cost in costs if cost > CLOSE]
            named = ", ".join(f"{cost:.3f}" for cost in worse) if len(worse) <= SHOWN else ""
            print(f"| {moves} moves | {len(costs)} | {len(worse)} | {named} |", flush=True)
        print()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
