"""What to tune: problems from the command line, from CSV files and from logs.

A shape is ``MxNxK`` or ``MxNxKxSTACK``.  A CSV file has the columns ``M``, ``N`` and
``K``; ``batch``, ``transA``, ``transB``, ``dtype`` and ``layout`` may be there, and
others are ignored.  A log has one JSON object a line with the fields of a `Problem`
and the number of its calls, as ``FASTGEMM_LOG_UNTUNED`` writes them.

Input that cannot be read raises `ShapeError` with the file and the line.  A row that
reads well but has no kernels (of longdouble, for instance) is left out and reported:
lists of real shapes contain such rows.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from .. import registry
from ..problem import LAYOUTS, Problem, as_called, names, normalised, transposed
from .arguments import shown

# A list of shapes is a few kilobytes; this stops a wrong file name from filling memory.
MAX_FILE = 64 << 20

# Of a line of a log: what a problem weighs is a float, and a whole number may be too large for one.
MAX_CALLS = 10**15

# Of a size; checked before a text becomes a number, because that takes long for a very long one.
MAX_DIGITS = 13

_TRUTH = {"": False, "0": False, "n": False, "false": False, "1": True, "t": True, "true": True}


class ShapeError(ValueError):
    """Shapes that cannot be read; the message says where and why."""


class Shape(NamedTuple):
    """Sizes of a product, before dtype, layout and threads make a `Problem` of it."""

    m: int
    n: int
    k: int
    batch: int = 1


def parse(text: str) -> Shape:
    """Read ``MxNxK`` or ``MxNxKxSTACK``.

    Examples
    --------
    >>> parse("128x3072x768")
    Shape(m=128, n=3072, k=768, batch=1)
    >>> parse("64x64x64x100").batch
    100
    """
    if not re.fullmatch(r"[0-9]+([xX][0-9]+){2,3}", text):
        raise ShapeError(f"shape {shown(text)} is not of the form MxNxK or MxNxKxSTACK, 512x512x64 for instance")
    parts = text.lower().split("x")
    if max(map(len, parts)) > MAX_DIGITS:
        raise ShapeError(f"shape {shown(text)}: a size of {max(map(len, parts))} digits is larger than any array")
    shape = Shape(*map(int, parts))
    if min(shape) < 1:
        raise ShapeError(f"shape {text!r} has a zero: every size must be at least 1")
    return shape


def label(problem: Problem) -> str:
    """Write the sizes of a problem the way `parse` reads them."""
    stack = f"x{problem.batch}" if problem.batch > 1 else ""
    return f"{problem.m}x{problem.n}x{problem.k}{stack}"


def layout_label(problem: Problem) -> str:
    """Write the layout letters of a problem and what follows it.

    Examples
    --------
    >>> layout_label(Problem("f32", 8, 8, 8, layout="np", epilogue="relu"))
    'np+relu'
    """
    return problem.layout if problem.epilogue == "none" else f"{problem.layout}+{problem.epilogue}"


def type_label(name: str) -> str:
    """Write a dtype (a registry name) as `type_named` reads it: ``operands:result`` where these differ or are scaled.

    Examples
    --------
    >>> type_label("f32"), type_label("i8"), type_label("i8_i32")
    ('float32', 'int8', 'int8:int32')
    """
    row = registry.dtype(name)
    return f"{row.numpy}:{row.result}" if row.result else row.numpy


def type_named(text: str) -> str:
    """Return the registry name of a dtype; ValueError, with a list of what there is, where there is none.

    Examples
    --------
    >>> type_named("int8:int32"), type_named("uint8"), type_named("f32")
    ('i8_i32', 'i8', 'f32')
    """
    for row in registry.DTYPES:
        if text == type_label(row.name):
            return row.name
    try:
        return registry.dtype(text).name
    except ValueError:
        known = ", ".join(type_label(row.name) for row in registry.DTYPES)
        raise ValueError(f"no kernels for dtype {text!r}; there are kernels for {known}") from None


def product(
    shapes: Iterable[Shape],
    dtypes: Sequence[str],
    threads: Sequence[int],
    layout: str = "nn",
    epilogue: str = "none",
) -> list[Problem]:
    """Problems of every shape with every dtype and thread count, each once, in order.

    Examples
    --------
    >>> [p.dtype for p in product([parse("8x8x8")], ["f32", "f64"], [1])]
    ['f32', 'f64']
    """
    found = (
        _problem("command line", dtype, *shape, layout, count, epilogue=epilogue)
        for shape in shapes
        for dtype in dtypes
        for count in threads
    )
    return list(dict.fromkeys(found))


def from_csv(path: Path, dtypes: Sequence[str], threads: Sequence[int]) -> tuple[list[Problem], list[str]]:
    """Problems of a CSV file, and a line for each row that is left out.

    `dtypes` (registry names) apply to rows without a dtype of their own; when it is empty these are float32.
    """
    problems: dict[Problem, None] = {}
    left_out: list[str] = []
    try:
        rows = csv.DictReader(io.StringIO(_text(path), newline=""), strict=True)
        columns = {(name or "").strip().lower() for name in rows.fieldnames or ()}
        if missing := [name for name in "MNK" if name.lower() not in columns]:
            raise ShapeError(
                f"{path}: no column {', '.join(missing)}; a shapes file starts with a line like M,N,K,batch"
            )
        for row in rows:
            where = f"{path}, line {rows.line_num}"
            cells = {(name or "").strip().lower(): (cell or "").strip() for name, cell in row.items() if name}
            cells["batch"] = cells.get("batch") or "1"
            shape = Shape(*(_whole(where, name, cells.get(name, "")) for name in ("m", "n", "k", "batch")))
            letters, column_major = _letters(where, cells)
            for name in _dtype_names(cells.get("dtype", "")) or dtypes or ("f32",):
                try:
                    dtype = type_named(name)
                except ValueError as error:
                    left_out.append(f"{where}: {error}")
                    continue
                for count in threads:
                    problems[_problem(where, dtype, *shape, letters, count, column_major)] = None
    except csv.Error as error:
        raise ShapeError(f"{path}: not a CSV file: {error}") from None
    return list(problems), left_out


def from_log(path: Path) -> tuple[dict[Problem, int], list[str]]:
    """Problems of a log of untuned calls with the calls of each, hottest first, and a line for each that is left out.

    The log is written by running programs, which may be stopped within a line, so a
    damaged line is left out and not an error.
    """
    calls: dict[Problem, int] = {}
    left_out: list[str] = []
    for number, line in enumerate(_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
            problem = from_fields(fields)
            count = fields.get("calls", 1)
            if type(count) is not int or not 1 <= count <= MAX_CALLS:
                raise ShapeError(f"calls must be a whole number between 1 and {MAX_CALLS:g}")
            # Calls log what they look up; only a line written by hand can be another problem.
            problem = as_called(problem)
            calls[problem] = calls.get(problem, 0) + count
        except (ValueError, TypeError, RecursionError) as error:
            left_out.append(f"{path}, line {number}: {str(error)[:200]}")
    hottest = sorted(calls, key=lambda problem: -calls[problem] * guessed_seconds(problem))
    return {problem: calls[problem] for problem in hottest}, left_out


def guessed_seconds(problem: Problem) -> float:
    """What a call may take: enough to say which of two shapes a program spends more time in.

    Examples
    --------
    >>> guessed_seconds(Problem("f32", 1000, 1000, 1000)) > guessed_seconds(Problem("f32", 10, 10, 10))
    True
    """
    elements = problem.m * problem.k + problem.k * problem.n + problem.m * problem.n
    moved = problem.batch * elements * problem.row.itemsize
    return 2e-7 + problem.flops / 5e10 * (2 if problem.row.real_bytes == 8 else 1) + moved / 2e10


def from_fields(fields: object) -> Problem:
    """Make a `Problem` of a parsed JSON object; unknown fields are ignored."""
    if not isinstance(fields, dict):
        raise ShapeError(f"a problem must be a JSON object, not {type(fields).__name__}")
    if missing := [name for name in ("dtype", "m", "n", "k") if name not in fields]:
        raise ShapeError(f"a problem needs {', '.join(missing)}")
    known = {name: fields[name] for name in names(Problem) if name in fields}
    for name in ("dtype", "layout", "epilogue"):
        if not isinstance(known.get(name, ""), str):
            raise ShapeError(f"{name} must be a string")
    # A line written by hand may have NumPy's name, under which no record would be found.
    return Problem(**{**known, "dtype": registry.dtype(known["dtype"]).name})


def _problem(
    where: str,
    dtype: str,
    m: int,
    n: int,
    k: int,
    batch: int,
    layout: str,
    threads: int,
    column_major: bool = False,
    epilogue: str = "none",
) -> Problem:
    try:
        problem = Problem(dtype, m, n, k, batch, layout, threads, epilogue)
        return normalised(transposed(problem) if column_major else problem)
    except ValueError as error:
        raise ShapeError(f"{where}: {error}") from None


def _text(path: Path) -> str:
    try:
        # Not its size first: a pipe, which a shell may make of a command, has none.
        with open(path, encoding="utf-8-sig") as file:
            text = file.read(MAX_FILE + 1)
    except UnicodeDecodeError:
        raise ShapeError(f"{path}: not a text file in UTF-8") from None
    except OSError as error:
        raise ShapeError(f"{path}: {error.strerror or error}") from None
    if len(text) > MAX_FILE:
        raise ShapeError(f"{path}: larger than {MAX_FILE >> 20} MiB, which no list of shapes is")
    return text


def _whole(where: str, column: str, cell: str) -> int:
    if not re.fullmatch(rf"[0-9]{{1,{MAX_DIGITS}}}", cell) or int(cell) < 1:
        raise ShapeError(f"{where}: {column.upper()} is {cell!r}; it must be a whole number, at least 1")
    return int(cell)


def _letters(where: str, cells: dict[str, str]) -> tuple[str, bool]:
    """Layout letters of a row, and whether its output is column-major."""
    order = cells.get("layout", "").lower()
    if order in LAYOUTS:
        return order, False
    if order not in ("", "row", "col"):
        raise ShapeError(f"{where}: layout is {order!r}; it must be row, col or two letters of n, t, g (B's also p)")
    letters = ""
    for column in ("transa", "transb"):
        cell = cells.get(column, "").lower()
        if cell not in _TRUTH:
            raise ShapeError(f"{where}: {column} is {cell!r}; it must be 0 or 1")
        # A matrix that is stored by columns and not transposed has adjacent rows.
        letters += "t" if _TRUTH[cell] != (order == "col") else "n"
    return letters, order == "col"


def _dtype_names(cell: str) -> list[str]:
    """Dtypes of a cell; ``float32/64`` stands for both."""
    first, *rest = cell.split("/") if cell else [""]
    if not first:
        return []
    stem = first.rstrip("0123456789")
    return [first] + [stem + name if name.isdigit() else name for name in rest]
