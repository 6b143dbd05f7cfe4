"""The command ``python -m fastgemm.tune``: what to tune, what it may cost, where it goes."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .. import activations, database, registry, untuned
from ..problem import LAYOUTS, MAX_THREADS, Problem
from . import arguments as values
from . import db, earlier, shapes, strategies
from .measure import footprint
from .shapes import ShapeError

if TYPE_CHECKING:
    from ..graph.compiled import CompiledGraph
    from . import graphs

PROG = "python -m fastgemm.tune"

DESCRIPTION = """\
Find, for the shapes you multiply, configurations that beat the built-in heuristic on this
machine, and record them. Every later Python process uses the records by itself.

For each shape the heuristic's configuration is timed first, then what the strategy
proposes. Every answer is checked against NumPy. The best are timed again in turn with the
heuristic's, and a record is written only for a gain that is statistically certain
(p < 0.05) and at least 3 percent, and that a second process has confirmed.
"""

EPILOG = """\
examples:
  tune three products of a model, in float32, with all cores that this process may use
    python -m fastgemm.tune --shapes 128x768x768 128x3072x768 128x768x3072

  a stack of 100 products, B given transposed, float32 and float64, one thread
    python -m fastgemm.tune --shapes 64x64x64x100 --layout nt --dtype float32 float64 --threads 1

  a list of shapes, half an hour in all; when stopped, go on later
    python -m fastgemm.tune --shapes-file shapes.csv --seconds 1800 --resume

  the layers of a model in its ONNX file, weights packed and activations included
    python -m fastgemm.tune --graph model.onnx --batch 8

  one such layer: 32 rows by a packed weight of 512 x 512, then gelu
    python -m fastgemm.tune --shapes 32x512x512 --layout np --activation gelu

  what a program really multiplies: record it first, then tune that, the hottest shapes first
    FASTGEMM_LOG_UNTUNED=untuned.jsonl python program.py
    python -m fastgemm.tune --from-log untuned.jsonl

  no time: the ten hottest shapes of that log in about a minute
    python -m fastgemm.tune --from-log untuned.jsonl --quick

  after an upgrade: records are for the build that made them; measure anew what your file has of earlier ones
    python -m fastgemm.tune --renew

  on another CPU: search again for the shapes of a file's records
    python -m fastgemm.tune --from-db old-machine.json

  two machines of one kind at the same shapes, one study, one database on a shared disk
    python -m fastgemm.tune --shapes-file shapes.csv --strategy tpe --storage /shared/study.log --db /shared/tuning.json

  look before you run
    python -m fastgemm.tune --shapes 1024x1024x1024 --dry-run

  small shapes: kernels of their own, compiled on this machine into your cache folder
    python -m fastgemm.tune --shapes 8x8x8 16x4x12x1000 --threads 1 --specialize

  a strategy of the papers on the papers' own search space, half a million tilings of one product
    python -m fastgemm.tune --shapes 512x512x512 --threads 1 --space nested --strategy gbfs --trials 484

  the records: list, check, merge, export and prune them
    python -m fastgemm.tune db --help

files:
  A CSV file has the columns M, N, K and, where wanted, batch, transA, transB (0 or 1),
  dtype and layout (row, col, or two letters of n, t, g; B's also p). A log says which dtypes and
  how many threads there were; --dtype and --threads choose among them. Records go to --db, by
  default to FASTGEMM_DB or your data folder; a journal beside it (.log.jsonl) keeps what was tuned,
  a log (.trials.jsonl, 8 MiB at most) every time that was measured, which xgb learns from.

Ctrl-C keeps every shape that is finished. Leave the machine alone while tuning: the
report says when its times were too unsteady to see small gains.
"""

SECONDS = values.above_zero("a number of seconds")

# Packages of other projects, and the extra that brings each.
EXTRAS = {"rich": "tune", "scipy": "tune", "optuna": "tune", "cmaes": "tune", "xgboost": "xgb"}

# What --quick means.
QUICK_SHAPES = 10
QUICK_SECONDS = 60

# Options that only sources of these kinds heed.
GOES_WITH = {
    "batch": ("graph",),
    "dtype": ("shapes", "shapes_file", "from_log", "from_db"),
    "layout": ("shapes",),
    "activation": ("shapes",),
}

# What a shell sees of a command that the end of its pipe has stopped: 128 and SIGPIPE.
PIPE_CLOSED = 141

# Room for the rest of the machine and for what the allocator keeps.
MEMORY_SHARE = 0.6


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    try:
        try:
            return _command(arguments)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # Who reads has seen enough; what is still to be flushed must not complain when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return 130


def _command(arguments: Sequence[str] | None) -> int:
    parser = _parser()
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments[:1] == ["db"]:
        with _extras():
            return db.main(arguments[1:])
    if not arguments:
        parser.print_usage(sys.stderr)
        print(f"{PROG}: nothing to tune; --help explains and has examples", file=sys.stderr)
        return 2
    options = parser.parse_args(arguments)
    if not _sources(options):
        _default_source(options)
    if why := _misuse(options):
        parser.error(why)
    options.strategy = options.strategy or ("tpe" if options.storage else "auto")
    if options.quick:
        options.seconds = options.seconds or QUICK_SECONDS
    with _extras():
        return _run(parser, options)


def _misuse(options: argparse.Namespace) -> str:
    """Why options do not go together, where one of them would do nothing; "" where they do."""
    if options.specialize and options.renew:
        return "--specialize and --renew exclude each other"
    searching = options.strategy or options.storage or options.trials
    if options.specialize and (searching or options.seconds or options.quick):
        return "--specialize does not search: it takes no --strategy, --trials, --seconds, --quick or --storage"
    if options.renew and searching:
        return "--renew does not search: it takes no --strategy, --trials or --storage"
    if options.dry_run and options.report:
        return "--dry-run measures nothing: it takes no --report"
    for name, wanted in GOES_WITH.items():
        # Without any source it is that what the command lacks.
        if getattr(options, name) and _sources(options) and not any(getattr(options, source) for source in wanted):
            return f"{_spelled(name)} goes with " + " or ".join(map(_spelled, wanted))
    return ""


def _spelled(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    try:
        problems, left_out = _problems(options)
    except ShapeError as error:
        parser.error(str(error))
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    if not problems:
        none = "no shapes; give --shapes, --shapes-file, --graph, --from-log or --from-db"
        parser.error("no shape is left to tune" if left_out else none)
    from . import nested_search, session

    if options.space == "nested":
        if why := next(filter(None, map(nested_search.misfit, problems)), None):
            parser.error(f"--space nested: {why}")
        others = (options.specialize, options.renew, options.storage, options.resume, options.report)
        if any(others) or options.dry_run:
            parser.error("--space nested makes no records and takes --strategy, --trials, --seconds and --seed")
        if options.strategy == "tpe":
            parser.error("--space nested: tpe is for the kernels' own space")
    try:
        if options.space == "nested":
            return nested_search.run(problems, options)
        return session.preview(problems, options) if options.dry_run else session.run(problems, options)
    except session.Refused as error:
        print(f"{PROG}: {error}", file=sys.stderr)
        return 1


def tune_graph(
    compiled: CompiledGraph,
    seconds: float | None,
    trials: int | None,
    strategy: str | None,
    path: str | os.PathLike[str] | None,
    quiet: bool,
) -> graphs.Tuned:
    """Do what `CompiledGraph.tune` says, with the options of the command at their defaults otherwise."""
    options = _parser().parse_args([])
    options.seconds, options.trials, options.quiet = seconds, trials, quiet
    options.strategy = strategy or "auto"
    options.db = None if path is None else database.named(path)
    try:
        from . import graphs

        return graphs.tune(compiled, options)
    except ModuleNotFoundError as error:
        if (why := _missing(error)) is None:
            raise
        raise ModuleNotFoundError(why, name=error.name) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROG,
        description=DESCRIPTION,
        epilog=EPILOG + _strategies(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage=f"{PROG} (--shapes MxNxK ... | --shapes-file CSV | --graph ONNX | --from-log FILE | --from-db FILE) "
        f"[options]\n       {PROG} --renew [options]\n       {PROG} db --help",
        allow_abbrev=False,
    )
    what = parser.add_argument_group("what to tune")
    what.add_argument("--shapes", nargs="+", default=[], metavar="MxNxK[xSTACK]", help="rows and columns of C, sum")
    what.add_argument("--shapes-file", type=Path, metavar="CSV", help="a list of shapes")
    what.add_argument(
        "--graph", type=Path, metavar="ONNX", help="the products of a model, as the compiled graph runs them"
    )
    what.add_argument("--batch", type=values.count, metavar="N", help="the first size of --graph's inputs without one")
    what.add_argument("--from-log", type=Path, metavar="FILE", help="shapes recorded by FASTGEMM_LOG_UNTUNED")
    what.add_argument("--from-db", type=Path, metavar="FILE", help="the problems of a database, of any CPU and build")
    what.add_argument(
        "--dtype",
        nargs="+",
        type=_dtype,
        default=[],
        metavar="NAME",
        help=f"of {', '.join(shapes.type_label(dt.name) for dt in registry.DTYPES)} (operands:result; int8:int8 is "
        "rescaled, int8 alone wraps); float32 where a file does not say",
    )
    what.add_argument(
        "--threads", nargs="+", type=_threads, metavar="N", help="threads a call may use; default: what calls use"
    )
    what.add_argument(
        "--layout",
        choices=LAYOUTS,
        metavar="AB",
        help="a letter for A and one for B: n as numpy makes them, t transposed, g neither, p (of B) packed beforehand "
        "by fastgemm.pack (with --shapes; default: nn)",
    )
    what.add_argument(
        "--activation",
        choices=[row.name for row in activations.EPILOGUES],
        metavar="NAME",
        help="what fastgemm.linear does to the products: "
        f"{', '.join(row.name for row in activations.EPILOGUES)} (with --shapes)",
    )
    how = parser.add_argument_group("how, and how much")
    how.add_argument(
        "--strategy",
        choices=strategies.names(),
        default=None,
        help="how configurations are chosen; the list is at the end (default: auto, or tpe with --storage)",
    )
    how.add_argument(
        "--space",
        choices=("own", "nested"),
        default="own",
        help="own: the configurations of the kernels; nested: the papers' tilings in ten loops, a million of them for "
        "a shape, to see strategies at work (float32, powers of two, --threads 1; calls never run this way, so the "
        "outcome goes to a log beside the database, .nested.jsonl, and not into it)",
    )
    how.add_argument("--trials", type=values.count, metavar="N", help="configurations to measure for each shape")
    how.add_argument(
        "--seconds",
        type=SECONDS,
        metavar="S",
        help="time for all shapes together, shared out evenly",
    )
    how.add_argument(
        "--quick",
        action="store_true",
        help=f"the first {QUICK_SHAPES} shapes (of a log: the hottest) "
        f"in about {QUICK_SECONDS} seconds; without shapes, those of FASTGEMM_LOG_UNTUNED",
    )
    how.add_argument(
        "--specialize",
        action="store_true",
        help="instead of searching, compile a kernel for each of these small shapes (up to 48 in each dimension) with "
        "its sizes as constants, and record it where it is faster; takes a C compiler and Cython",
    )
    how.add_argument(
        "--renew",
        action="store_true",
        help="instead of searching, measure the configurations that earlier builds recorded on this CPU, and record "
        "those that still gain: about a second a problem; without shapes, the problems of --db",
    )
    how.add_argument("--seed", type=values.whole, metavar="N", default=0, help="of search and operands (default: 0)")
    where = parser.add_argument_group("results")
    where.add_argument(
        "--db", type=database.named, metavar="FILE", help="the database; a folder (FOLDER/) means its tuning.json"
    )
    where.add_argument(
        "--storage",
        metavar="URL",
        help="keep the study of tpe here, so that other processes and machines go on with it: a file ending in .log "
        "(Optuna's journal) or .db (SQLite), or a URL such as postgresql://user@host/name",
    )
    where.add_argument("--resume", action="store_true", help="skip what was tuned before, with or without a gain")
    where.add_argument(
        "--report",
        type=Path,
        metavar="FOLDER",
        help="write report.md and plots: gains, convergence, where the time went",
    )
    where.add_argument("--dry-run", action="store_true", help="say what would be tuned, and stop")
    where.add_argument("--quiet", action="store_true", help="only the table at the end, and what went wrong")
    return parser


def _strategies() -> str:
    """The list of strategies for the help, a line or two each."""
    found = ["\nstrategies:"]
    for name in strategies.names():
        line = f"  {name:10}  {strategies.summary(name)}"
        found += textwrap.wrap(line, 96, subsequent_indent=" " * 14)
    return "\n".join(found)


def _sources(options: argparse.Namespace) -> bool:
    """Whether the command says which problems it means."""
    return bool(options.shapes or options.shapes_file or options.graph or options.from_log or options.from_db)


def _default_source(options: argparse.Namespace) -> None:
    """Fill in the problems that --renew and --quick mean by themselves."""
    log = os.environ.get(untuned.NAME)
    if options.renew:
        options.from_db = options.db or database.user_path()
    elif options.quick and log:
        options.from_log = Path(untuned.file(log))


def _problems(options: argparse.Namespace) -> tuple[list[Problem], list[str]]:
    from ..threads import allowed, get_num_threads

    if options.threads and allowed(max(options.threads)) < max(options.threads):
        raise ShapeError("--threads: this build has no OpenMP, so every call runs on one thread")
    threads = options.threads or [get_num_threads()]
    found = shapes.product(
        map(shapes.parse, options.shapes),
        options.dtype or ["f32"],
        threads,
        options.layout or "nn",
        options.activation or "none",
    )
    if options.graph:
        from . import graphs

        for count in threads:
            found += graphs.from_file(options.graph, count, options.batch)
    left_out: list[str] = []
    files: list[tuple[Path, list[Problem], list[str]]] = []
    if options.shapes_file:
        files.append((options.shapes_file, *shapes.from_csv(options.shapes_file, options.dtype, threads)))
    if options.from_log:
        logged, out = shapes.from_log(options.from_log)
        files.append((options.from_log, *_chosen(options.from_log, logged, out, options)))
    if options.from_db:
        recorded, out = earlier.problems(options.from_db)
        files.append((options.from_db, *_chosen(options.from_db, recorded, out, options)))
    for path, more, out in files:
        found += more
        left_out += out if more or out else [f"{path}: there are no shapes in it"]
    fitting = []
    for problem in dict.fromkeys(found):
        if (needed := footprint(problem)) > MEMORY_SHARE * _memory():
            left_out.append(f"{shapes.label(problem)}: measuring takes {needed / 2**30:.1f} GiB of memory")
        else:
            fitting.append(problem)
    return (fitting[:QUICK_SHAPES] if options.quick else fitting), left_out


def _chosen(
    path: Path, problems: Iterable[Problem], left_out: list[str], options: argparse.Namespace
) -> tuple[list[Problem], list[str]]:
    # A log and a database say which dtypes and how many threads there were; the options only choose among them.
    kept = list(problems)
    for option, spelled in (("dtype", shapes.type_label), ("threads", str)):
        wanted = getattr(options, option)
        others = {spelled(value) for p in kept if wanted and (value := getattr(p, option)) not in wanted}
        fitting = [p for p in kept if spelled(getattr(p, option)) not in others]
        if others:
            number = len(kept) - len(fitting)
            left_out = [*left_out, f"{path}: {number} shapes by --{option} (theirs: {', '.join(sorted(others))})"]
        kept = fitting
    return kept, left_out


@contextlib.contextmanager
def _extras() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (why := _missing(error)) is None:
            raise
        print(f"{PROG}: {why}", file=sys.stderr)
        raise SystemExit(1) from None


def _missing(error: ModuleNotFoundError) -> str | None:
    """Say how to get a package that is not there; None for one that no extra brings."""
    extra = EXTRAS.get((error.name or "").partition(".")[0])
    what = "the tuner" if extra == "tune" else "this strategy"
    return f"{error.name} is not installed; {what} needs: pip install fastgemm[{extra}]" if extra else None


def _memory() -> float:
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return float("inf")  # this system does not say


def _dtype(text: str) -> str:
    try:
        return shapes.type_named(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _threads(text: str) -> int:
    if values.count(text) > MAX_THREADS:
        raise argparse.ArgumentTypeError(f"at most {MAX_THREADS} threads")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
