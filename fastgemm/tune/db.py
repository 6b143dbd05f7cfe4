"""The command ``python -m fastgemm.tune db``: look at database files, check, merge, export and prune them."""

from __future__ import annotations

import argparse
import csv
import io
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

from .. import cpu, database, kernels
from ..database.files import check_replaceable, locked, replace, resolved
from ..database.writing import DEFAULT_NAME, check_size, text_of
from ..problem import Record
from . import history
from .arguments import above_zero, whole
from .shapes import label, layout_label, type_label
from .words import describe, duration, geometric_mean, printable, reason, told

PROG = "python -m fastgemm.tune db"

DESCRIPTION = """\
Look at tuning databases, check them, put them together, cut them down.

A database is a JSON file of groups; a group names the CPU key and the kernel set that its
records were measured with, and only the groups of this CPU and this build are used here. So
one file may hold the records of a fleet of machines and of several versions.
"""

EPILOG = """\
examples:
  what calls on this machine use, with the gains that were measured
    python -m fastgemm.tune db show

  is a file sound? and do its gains still hold, measured anew in fresh processes?
    python -m fastgemm.tune db check tuning.json
    python -m fastgemm.tune db check tuning.json --measure

  records of several machines into one file
    python -m fastgemm.tune db merge fleet.json host1.json host2.json

  this machine's records, to ship them; all as a table for a spreadsheet
    python -m fastgemm.tune db export fleet.json --this-cpu --to cpu.json
    python -m fastgemm.tune db export fleet.json --to table.csv

  drop what no build like this one can use, trials in the log beside it too, and gains below 5 percent
    python -m fastgemm.tune db prune tuning.json --stale --below 1.05

exit status: 0 done; 1 a file is damaged, a record does not hold, or nothing could be written; 2 wrong usage.
Files are replaced in one step, under the lock that tuners take: nothing is ever half-written.
"""

Groups = dict[tuple[str, str], list[Record]]
COLUMNS = (
    *("cpu", "kernels", "dtype", "M", "N", "K", "batch", "layout", "threads", "configuration"),
    *("seconds", "untuned_seconds", "gain", "gflops", "trials", "strategy", "date"),
)

RATIO = above_zero("a ratio such as 1.05")


class Unusable(Exception):
    """The command cannot do what it was asked for; the message says why."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        with told(_complain):
            return int(options.run(options))
    except BrokenPipeError:
        raise  # of the output, not of a file
    except (Unusable, OSError, ValueError, RuntimeError) as error:  # the last of FASTGEMM_ISA
        _complain(f"{PROG} {options.command}: {reason(error)}")
        return 1


def _say(text: str) -> None:
    # Names in files are of others: none may fake a line, or stop the listing where the output cannot show it.
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"  # a shell may start it without an output
    print(printable(text).encode(encoding, "backslashreplace").decode(encoding))


def _complain(text: str) -> None:
    print(printable(text), file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(PROG, description=DESCRIPTION, epilog=EPILOG, formatter_class=form)
    commands = parser.add_subparsers(dest="command", required=True, metavar="{show,check,merge,export,prune}")

    def command(name: str, run: object, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
        made.set_defaults(run=run, error=made.error)
        return made

    files = "database files, or folders: every .json in them; by default what calls read here: the shipped ones, yours"
    show = command("show", _show, "list the records, group by group")
    show.add_argument("files", nargs="*", type=Path, metavar="FILE", help=files)
    show.add_argument("--all", action="store_true", help="list the records of other CPUs and builds too")
    check = command("check", _check, "say what is wrong with a file; with --measure, whether its gains hold")
    check.add_argument("files", nargs="*", type=Path, metavar="FILE", help=files)
    check.add_argument(
        "--measure",
        action="store_true",
        help="time this machine's records against the untuned configuration, each in a process of its own; "
        "prints the geometric mean and the least gain",
    )
    check.add_argument(
        "--remove",
        action="store_true",
        help="with --measure: take out the records that do not hold; without FILE, from yours alone",
    )
    check.add_argument("--seed", type=whole, default=0, metavar="N", help="of the operands (default: 0)")
    merge = command("merge", _merge, "put the records of files into one; of two for the same, the greater gain stays")
    merge.add_argument("into", type=Path, metavar="INTO", help="the file that takes them in; made when missing")
    merge.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="where they come from; they stay as they are"
    )
    merge.add_argument("--skip-damaged", action="store_true", help="take what can be read of a damaged file")
    export = command("export", _export, "write a selection to a new file: JSON, or CSV by its name")
    export.add_argument("file", type=Path, metavar="FILE", help="a database file")
    export.add_argument("--to", type=Path, required=True, metavar="OUT", help="the new file, .json or .csv; - prints")
    export.add_argument("--force", action="store_true", help="replace OUT if it is there")
    _choose(export)
    prune = command("prune", _prune, "take records out of a file")
    prune.add_argument("file", type=Path, metavar="FILE", help="a database file")
    prune.add_argument("--stale", action="store_true", help="those of other kernel sets than this build's")
    prune.add_argument("--other-cpus", action="store_true", help="those of other CPUs than this one")
    prune.add_argument(
        "--below",
        type=RATIO,
        metavar="GAIN",
        help="those with a smaller gain; 1.05 for instance",
    )
    prune.add_argument("--dry-run", action="store_true", help="only say how many they are")
    return parser


def _choose(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--this-cpu", action="store_true", help="only records of this CPU")
    parser.add_argument("--this-build", action="store_true", help="only records of this build's kernel set")


def _show(options: argparse.Namespace) -> int:
    damaged = 0
    for path in _paths(options.files):
        groups, problems = database.read_groups(path)
        damaged += bool(problems)
        _say(f"{path}: {_count(groups)} records" + (f", damaged: {problems[0]}" if problems else ""))
        if (log := history.beside(path)).exists():
            trials, left_out = history.read(log)
            used = sum((trial.cpu, trial.kernels) == (cpu.key(), kernels.kernel_hash()) for trial in trials)
            damage = f", {len(left_out)} damaged lines" if left_out else ""
            _say(f"{log}: {len(trials)} trials, {used} of them of this CPU and build{damage}")
        for (key, kernel_set), records in sorted(groups.items()):
            here = _here(key, kernel_set)
            gain = geometric_mean([record.gain for record in records])
            _say(f"  {key}, kernels {kernel_set}{here}: {len(records)} records, mean gain {gain:.2f}")
            for record in records if options.all or not here else ():
                p = record.problem
                _say(
                    f"    {label(p)} {type_label(p.dtype)} {layout_label(p)} {p.threads}t: "
                    f"{duration(record.baseline_seconds)} -> {duration(record.seconds)} ({record.gain:.2f}), "
                    f"{describe(record.config)}  [{record.strategy}, {record.trials} trials, {record.date}]"
                )
    return int(damaged > 0)


def _check(options: argparse.Namespace) -> int:
    if options.remove and not options.measure:
        options.error("--remove goes with --measure, which finds out what to remove")
    paths = _paths(options.files)
    shipped = set() if options.files else _shipped()
    for path in paths if options.remove else ():
        if path not in shipped:
            database.check_writable(path)
    bad = 0
    for path in paths:
        groups, problems = database.read_groups(path)
        used = len(groups.get((cpu.key(), kernels.kernel_hash()), ()))
        _say(f"{path}: {_count(groups)} sound records, {used} of them for this CPU and build")
        for problem in problems:
            _say(f"  {problem}")
        bad += bool(problems)
        if options.measure:
            from . import recheck

            failed = recheck.check(path, options.seed)
            if failed and options.remove and path in shipped:
                _say(f"removed none of {path}, which is shipped; records of yours come before it")
            elif failed and options.remove:
                _say(f"removed {database.remove(path, failed)} records from {path}")
            bad += bool(failed)
    return int(bad > 0)


def _shipped() -> set[Path]:
    return set(database.files_of(database.bundled_path())) - set(database.files_of(database.user_path()))


def _merge(options: argparse.Namespace) -> int:
    found: Groups = {}
    for path in options.files:
        groups, problems = database.read_groups(_file(path))
        if problems and not options.skip_damaged:
            raise Unusable(f"{path} is damaged: {problems[0]} (db check says more; --skip-damaged takes the rest)")
        for problem in problems:
            _complain(f"left out of {path}: {problem}")
        for names, records in groups.items():
            found.setdefault(names, []).extend(records)
    changed = database.merge(options.into, found)
    _say(f"{options.into}: {changed} of {_count(found)} records are new or better")
    return 0


def _export(options: argparse.Namespace) -> int:
    source = _file(options.file)
    groups, problems = database.read_groups(source)
    if problems:
        raise Unusable(f"{source} is damaged: {problems[0]}")
    chosen = {
        (key, kernel_set): records
        for (key, kernel_set), records in sorted(groups.items())
        if (not options.this_cpu or key == cpu.key())
        and (not options.this_build or kernel_set == kernels.kernel_hash())
    }
    if not _count(chosen):
        raise Unusable(f"no such records in {source}")
    if str(options.to) == "-":
        print(text_of(chosen), end="")
        return 0
    if options.to.suffix not in (".json", ".csv"):
        options.error(f"{options.to}: the name must end in .json or .csv")
    target = resolved(options.to)
    check_replaceable(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target):
        if target.exists() and not options.force:
            raise Unusable(f"{options.to} is there already; --force replaces it")
        if target.exists() and os.path.samefile(target, source):
            raise Unusable("OUT must not be the file itself; prune takes records out of it")
        if options.to.suffix == ".csv":
            replace(target, _table(chosen))
        else:
            check_size(target, text := text_of(chosen))
            replace(target, text)
    _say(f"{options.to}: {_count(chosen)} records")
    return 0


def _prune(options: argparse.Namespace) -> int:
    if not (options.stale or options.other_cpus or options.below):
        options.error("say what to take out: --stale, --other-cpus, --below GAIN")
    path = _file(options.file)
    groups, problems = database.read_groups(path)
    if problems:
        raise Unusable(f"{path} is damaged: {problems[0]} (db merge --skip-damaged takes the rest)")
    log = history.beside(path)
    trials_too = log.exists() and (options.stale or options.other_cpus)
    if trials_too and not options.dry_run:
        check_replaceable(log)  # before the records are gone
    removed = 0
    for (key, kernel_set), records in groups.items():
        whole = (options.stale and kernel_set != kernels.kernel_hash()) or (options.other_cpus and key != cpu.key())
        unwanted = [r for r in records if whole or (options.below is not None and r.gain < options.below)]
        removed += len(unwanted) if options.dry_run else database.remove(path, unwanted, cpu=key)
    verb = "would be taken out" if options.dry_run else "taken out"
    _say(f"{path}: {removed} of {_count(groups)} records {verb}")
    if trials_too:

        def useless(trial: history.Trial) -> bool:
            stale = options.stale and trial.kernels != kernels.kernel_hash()
            return bool(stale or (options.other_cpus and trial.cpu != cpu.key()))

        gone, all_of_them = history.prune(log, useless, options.dry_run)
        _say(f"{log}: {gone} of {all_of_them} trials {verb}")
    return 0


def _paths(given: Sequence[Path]) -> list[Path]:
    """Return the files to read: those given, or those that calls read, as far as they are there."""
    if not given:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", database.DatabaseWarning)  # the command says what is wrong itself
            found = [report.path for report in database.load(kernels=kernels.kernel_hash()).files]
        if not found:
            raise Unusable(f"no database yet; tuning makes {database.user_path()}")
        return found
    found = []
    for path in given:
        inside = database.files_of(path)
        if not inside:
            raise Unusable(f"{path}: no database there")
        found += map(_there, inside)
    return found


def _file(path: Path) -> Path:
    """Return the one file that a path means, as for who writes: a folder's is its tuning.json."""
    return _there(path / DEFAULT_NAME if path.is_dir() else path)


def _there(path: Path) -> Path:
    if not path.exists():
        raise Unusable(f"{path}: no such file")
    return path


def _here(key: str, kernel_set: str) -> str:
    """Why the records of a group are not used here; "" for those that are."""
    reasons = ["another CPU"] if key != cpu.key() else []
    reasons += ["another build"] if kernel_set != kernels.kernel_hash() else []
    remedy = "; tune --renew measures them anew" if reasons == ["another build"] else ""
    return f" ({', '.join(reasons)}: not used here{remedy})" if reasons else ""


def _count(groups: Groups) -> int:
    return sum(map(len, groups.values()))


def _table(groups: Groups) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(_rows(groups))
    return out.getvalue()


def _rows(groups: Groups) -> Iterable[Sequence[object]]:
    for (key, kernel_set), records in groups.items():
        for r in records:
            p = r.problem
            product = (type_label(p.dtype), p.m, p.n, p.k, p.batch, layout_label(p), p.threads, describe(r.config))
            measured = (r.seconds, r.baseline_seconds, f"{r.gain:.4f}", f"{r.gflops:.2f}")
            yield (key, kernel_set, *product, *measured, r.trials, r.strategy, r.date)
