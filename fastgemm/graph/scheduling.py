"""The multi-core heuristic of oneDNN's graph compiler (arXiv 2301.01333): one more source of plans beside ours.

It cuts M, N and K into a grid of threads first (`split`), by an estimate of calls of a batch-reduce kernel, and each
thread's part into blocks that fit L2 (`blocks`).  `config` brings the answer to a `Config` of ours, which shares one of
the loops among all threads: the one that the grid cuts most.

The rules are those of CPUs without AMX.  What the published form leaves open is taken in its plainest sense.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .. import cpu, registry
from ..heuristic import rules
from ..problem import MAX_BLOCK, Config, Problem


class Grid(NamedTuple):
    """How many parts M, N and K are cut into for threads; `cost` is the estimate, None where a rule decides."""

    m: int
    n: int
    k: int = 1
    cost: int | None = None


class Blocks(NamedTuple):
    """Rows, columns and steps of k that one call of the inner kernel takes."""

    m: int
    n: int
    k: int


def _aligned(size: int, default: int, to: int) -> int:
    """Return a block near the default that cuts a size evenly."""
    even = -(-size // -(-size // default))
    return -(-even // to) * to


def inner_blocks(dtype: str, m: int, n: int, k: int, threads: int) -> Blocks:
    """Return the blocks of the inner kernel for a problem of a registry dtype.

    Examples
    --------
    >>> from fastgemm.graph.scheduling import inner_blocks
    >>> inner_blocks("f32", 1024, 1024, 1024, 32), inner_blocks("f32", 100, 512, 13, 32)
    (Blocks(m=64, n=64, k=64), Blocks(m=8, n=64, k=16))
    """
    row = registry.dtype(dtype)
    least = 8 if row.name == "f32" and 64 <= m <= 128 and (n >= 256 or k >= 256) else 4
    wide = 64
    if row.group > 1:
        tall = 64 if m >= 1024 and threads < 56 else 32
    elif row.name.startswith("bf16"):
        tall = wide = 32
    else:
        tall = 32 if row.name == "f32" and m <= 256 else 64
    if n <= 512 and k <= 512:
        tall = max(least, min(tall, -(-m // threads)))
    return Blocks(tall, _aligned(n, wide, 16), _aligned(k, wide, 16))


def split(dtype: str, m: int, n: int, k: int, inner: Blocks, threads: int) -> Grid:
    """Return the grid of threads for a problem.

    Parameters
    ----------
    dtype : str
        Registry name.
    m, n, k : int
    inner : Blocks
    threads : int

    Examples
    --------
    >>> from fastgemm.graph.scheduling import Blocks, split
    >>> split("f32", 1024, 1024, 256, Blocks(64, 64, 64), 32)
    Grid(m=16, n=2, k=1, cost=1200)
    """
    row = registry.dtype(dtype)
    byte, single = row.group > 1, row.name == "f32"
    sizes = Blocks(*(-(-size // block) * block for size, block in zip((m, n, k), inner, strict=True)))
    tried = [_cost(byte, single, sizes, inner, threads, i) for i in range(1, threads + 1)]
    found = min(tried, key=lambda grid: grid.cost or 0)
    if (byte and n <= 512 and k <= 512) or (n <= 192 and k <= 192):
        return Grid(threads, 1)
    divisors = [i for i in range(1, threads + 1) if threads % i == 0]
    if k >= 8192:
        # The larger of the two splits goes to k.
        return Grid(1, found.n, found.m) if found.m >= found.n else Grid(found.m, 1, found.n)
    if single and m <= 256 and n >= 256 and k >= 512:
        at = 2 if k >= 1024 and k >= 2 * n else 1 if n >= 1024 and n != k else 0
        parts = divisors[min(at, len(divisors) - 1)]
        if n == 256 and k == 512 and found.m > 1 and found.n > 1:
            return Grid(found.m // 2, found.n // 2, 4)
        if parts > 1:
            return Grid(max(1, found.m // parts), found.n, parts)
    if byte and m < 2 * inner.m and (n >= 16 * m or k >= 16 * m):
        return Grid(1, found.n)
    return found


def _cost(byte: bool, single: bool, sizes: Blocks, inner: Blocks, threads: int, i: int) -> Grid:
    """Estimate i parts of N: what a thread reads, times the calls that it makes; all in whole numbers."""
    m, n, k = sizes
    along = threads // i
    reads = 1024 + m * i // threads + n // i
    calls = -(-(m // inner.m) // along) * -(-(n // inner.n) // i)
    busy = max(1, min(i, n // inner.n) * min(along, m // inner.m))
    if not ((byte and k >= 1024) or (single and k >= 512)):
        return Grid(along, i, 1, reads * (calls + 8 * i) // busy)
    idle = threads - i * along
    if (
        (byte and n >= 1024 and m <= 2 * n)
        or (single and n >= 256 and m <= 64)
        or (single and m <= 256 and n >= 1024 and k >= 1024)
    ):
        calls += along // 2
    elif single and n >= 256 and m <= 256:
        calls += i + along * 2
    else:
        calls += i // 2
    return Grid(along, i, 1, reads * calls // busy + idle)


def blocks(dtype: str, grid: Grid, m: int, n: int, k: int, l2: int) -> Blocks:
    """Return the parts of a thread's share that fit L2 together.

    Examples
    --------
    >>> from fastgemm.graph.scheduling import Grid, blocks
    >>> blocks("f32", Grid(2, 1), 4096, 1024, 1024, 1 << 20)
    Blocks(m=342, n=342, k=256)
    """
    row = registry.dtype(dtype)
    a, c = row.stored_bytes, row.result_bytes
    rows, columns, steps = -(-m // grid.m), -(-n // grid.n), -(-k // grid.k)
    deep = (2048 if rows * columns * a < l2 else 4096) // a
    if row.name == "f32" and grid.k <= 2 and m >= 128:
        deep //= 4
    if steps >= deep:
        steps = -(-steps // -(-steps // deep))
        side = (math.sqrt((2 * a * steps) ** 2 + 4 * c * l2) - 2 * a * steps) / (2 * c)
    else:
        side = l2 / (2 * a * steps)
    high, wide = (-(-size // max(1, int(size / side))) for size in (rows, columns))
    return Blocks(high, wide, steps)


def config(problem: Problem) -> Config:
    """Return the heuristic's configuration for a problem: its split and blocks with our tile and packing.

    Parameters
    ----------
    problem : Problem

    Returns
    -------
    Config
        It fits the problem; ours unchanged for what is no blocked product.

    Examples
    --------
    >>> from fastgemm.graph import scheduling
    >>> from fastgemm.problem import Problem
    >>> problem = Problem("f32", 512, 1024, 1024, threads=2)
    >>> made = scheduling.config(problem)
    >>> made.misfit(problem) is None
    True
    """
    ours = rules.config(problem)
    if ours.family in ("numpy", "gemv", "small") or problem.batch > 1:
        return ours
    m, n, k = problem.m, problem.n, problem.k
    inner = inner_blocks(problem.dtype, m, n, k, problem.threads)
    grid = split(problem.dtype, m, n, k, inner, problem.threads)
    made = blocks(problem.dtype, grid, m, n, k, cpu.caches().l2)
    axis = max(("m", "n", "k"), key=lambda name: getattr(grid, name))
    found = ours.replace(
        mc=min(MAX_BLOCK, -(-made.m // ours.mr) * ours.mr),
        nc=min(MAX_BLOCK, -(-made.n // ours.nr) * ours.nr),
        kc=min(MAX_BLOCK, made.k),
        split=axis if problem.threads > 1 else ours.split,
        threads=min(problem.threads, grid.m * grid.n * grid.k),
    )
    return ours if found.misfit(problem) else found
