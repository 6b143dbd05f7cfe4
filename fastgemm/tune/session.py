"""A run of the command: the problems one after the other, what is kept, what is printed."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from .. import cpu, database, dispatch, kernels, special
from ..database.writing import DEFAULT_NAME
from ..problem import Config, Problem, Record
from . import compile as building
from . import driver, earlier, history, journal, lines, report, specialise, strategies, words
from .chronicle import Chronicle
from .journal import Entry
from .live import LiveRunner
from .measure import Measurement
from .space import Space

# Programs that were running in the last minute, on average.
BUSY = 0.7


class Refused(RuntimeError):
    """The run cannot start, or not go on; the message says why."""


class Outcome(NamedTuple):
    """How a run ended: the exit status, and what ended it before all of its problems were done."""

    status: int
    stopped: BaseException | None = None


def preview(problems: list[Problem], options: Namespace) -> int:
    """Print what would be tuned; return the exit status."""
    path, done = _earlier(options)
    waiting = [problem for problem in problems if problem not in done]
    if options.specialize:
        for problem in waiting:
            print(f"{words.name(problem)}: " + (specialise.misfit(problem) or "a kernel of its own would be compiled"))
        print(f"modules go to {special.folder()}; nothing was compiled, measured or written")
        return 0
    remembered = _remembered(options)
    waiting = [problem for problem in waiting if problem in remembered or not options.renew]
    strategy = _strategy(options)
    for problem in waiting:
        space = Space(problem, dispatch.by_rules(problem))
        before = remembered.get(problem, [])
        trials = _trials(options, strategy, space)
        also = f", after {len(before)} of earlier builds" if before else ""
        print(f"{words.name(problem)}: {len(space)} configurations, at most {trials} trials{also}")
        print(f"    heuristic: {words.describe(space.start)}")
    told = [f"{len(waiting)} problems to tune", f"{sum(p in done for p in problems)} tuned before"]
    if new := _unknown(problems, done, waiting):
        told.append(new)
    print(f"{', '.join(told)}; database {path}")
    print("nothing was measured or written")
    return 0


def run(problems: list[Problem], options: Namespace) -> int:
    """Tune, record and report; return the exit status."""
    return tune(problems, options).status


def tune(problems: list[Problem], options: Namespace) -> Outcome:
    """Tune, record and report, and say how it ended."""
    strategy = _strategy(options)
    path, done = _earlier(options)
    check_database(path)
    check_writable(journal.beside(path))
    if options.report:
        check_folder(options.report)
    entries = [done[problem] for problem in problems if problem in done]
    remembered = _remembered(options)
    waiting = [p for p in problems if p not in done and (p in remembered or not options.renew)]
    deadline = math.inf if options.seconds is None else time.monotonic() + options.seconds
    status = 0
    stopped: BaseException | None = None

    def search() -> Iterator[tuple[Entry, Record | None]]:
        """Tune one problem after the other; yields each result with the record that it replaces."""
        for index, problem in enumerate(waiting):
            left = deadline - time.monotonic()
            if left <= 0:
                watch.warn(f"out of time: {len(waiting) - index} problems left; --resume goes on with them")
                return
            space = Space(problem, dispatch.by_rules(problem))
            known = driver.recorded(path, cpu.key(), kernels.kernel_hash()).get(problem)
            before = remembered.get(problem, [])
            trials = _trials(options, strategy, space)
            budget = driver.Budget(trials, time.monotonic() + left / (len(waiting) - index))
            watch.begin(problem, 1 + len(before) + trials)
            informed = strategy.informed(log.experiences(problem, space.start.isa)) if strategy.learns else strategy

            def trial(measurement: Measurement, problem: Problem = problem) -> None:
                watch.trial(measurement)
                log.add(problem, measurement, strategy.name)

            with contextlib.closing(LiveRunner(problem, options.seed)) as runner:
                entry = driver.tune(space, runner, informed, budget, options.seed, trial, known, watch.say, before)
            yield entry, known

    told = Chronicle()
    with report.Watch(len(waiting), options.quiet, deadline, told) as watch, words.told(watch.warn):
        log = history.Log(path, cpu.key(), kernels.kernel_hash(), watch.warn)
        if entries:
            watch.say(f"{len(entries)} of {len(problems)} problems were tuned before")
        if new := _unknown(problems, done, waiting):
            watch.warn(new)
        if waiting and (busy := _load()) > BUSY:
            watch.say(f"the machine is busy (load {busy:.1f}): times will be unsteady and small gains will not be seen")
        try:
            results = specialise.run(waiting, path, options, watch.say, watch.warn) if options.specialize else search()
            for entry, known in results:
                try:
                    with _whole():
                        entries.append(driver.store(entry, path, cpu.key(), kernels.kernel_hash(), known))
                except (OSError, ValueError) as error:
                    why = f"the result of {words.name(entry.problem)} cannot be kept: {words.reason(error)}"
                    status, stopped = 1, Refused(f"stopped, because {why}")
                    watch.warn(str(stopped))
                    break
                watch.finish(entry)
        except KeyboardInterrupt as interrupt:
            kept = f"the {len(entries)} finished problems are kept and --resume goes on with the others"
            watch.warn(f"stopped; {kept if entries else 'no problem was finished'}")
            status, stopped = 130, interrupt
        except (building.Unavailable, strategies.StorageError) as error:
            raise Refused(str(error)) from None
    out = report.console()
    if entries:
        out.print(report.table(entries))
    for line in (*report.summary(entries), *_whereabouts(path, entries)):
        out.print(line, markup=False, soft_wrap=True)
    if options.report:
        try:
            for line in told.write(options.report, ["python -m fastgemm.tune", *sys.argv[1:]]):
                print(line, file=sys.stderr)
            print(f"report: {options.report / 'report.md'}")
        except OSError as error:
            print(f"no report: {options.report}: {error.strerror or error}", file=sys.stderr)
            status = status or 1
    return Outcome(status or int(any(entry.status == "failed" for entry in entries)), stopped)


def _remembered(options: Namespace) -> dict[Problem, list[Config]]:
    """What earlier builds found: in the shipped files, where records go, and in the database that was named."""
    named = (database.bundled_path(), options.db or database.user_path(), options.from_db)
    return earlier.configurations(file for path in named for file in database.files_of(path))


def _unknown(problems: Sequence[Problem], done: Collection[Problem], waiting: Collection[Problem]) -> str:
    number = sum(problem not in done for problem in problems) - len(waiting)
    return f"{number} without a record of an earlier build on this CPU" if number else ""


def _trials(options: Namespace, strategy: strategies.Strategy, space: Space) -> int:
    """How many configurations of a space are measured at most, besides the heuristic's and remembered ones."""
    wanted = options.trials or strategy.trials
    return len(space) - 1 if wanted is None else min(wanted, len(space) - 1)


def _strategy(options: Namespace) -> strategies.Strategy:
    if options.renew:
        return strategies.none("renew")
    if not options.storage:
        return strategies.load(options.strategy)
    from . import storage  # Optuna takes half a second

    try:
        return strategies.load(options.strategy, storage.opened(options.storage))
    except (strategies.StorageError, ValueError) as error:
        raise Refused(str(error)) from None


@contextlib.contextmanager
def _whole() -> Iterator[None]:
    """Let Ctrl-C wait until a result is in the database, the journal and the table."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def database_file(options: Namespace) -> Path:
    """The database file that a run is for; `Refused` where there is none, or no kernels run that it could tune."""
    path: Path = options.db or database.user_path()
    if str(path) == os.devnull:
        raise Refused("no database to write: give --db, or FASTGEMM_DB (this user has no home folder, or it says none)")
    try:
        tier = kernels.active_isa()
    except RuntimeError as error:  # FASTGEMM_ISA asks for what is not there
        raise Refused(str(error)) from None
    if tier is None:
        raise Refused("no kernels of this build run on this CPU, so there is nothing to tune")
    return path / DEFAULT_NAME if os.path.isdir(path) else path  # False too where one may not look


def _earlier(options: Namespace) -> tuple[Path, dict[Problem, Entry]]:
    """The database file, and the problems to skip."""
    path = database_file(options)
    if not options.resume:
        return path, {}
    mode = next((name for name in journal.SEARCHLESS if getattr(options, name)), journal.SEARCH)
    done, left_out = driver.finished(path, cpu.key(), kernels.kernel_hash(), mode)
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    return path, done


def check_database(path: Path) -> None:
    """Find out before the first measurement, not after it, that no record can be written."""
    try:
        database.check_writable(path)
    except (OSError, ValueError) as error:
        raise Refused(f"cannot write the database: {words.reason(error)}") from None


def check_writable(path: Path) -> None:
    """Find out before the first measurement, not after it, that results cannot be appended to a file."""
    try:
        lines.append(path, ())
    except FileExistsError:
        raise Refused(f"cannot write {path}: {path.parent} is not a folder") from None
    except OSError as error:
        raise Refused(f"cannot write {words.reason(error)}") from None


def check_folder(path: Path) -> None:
    """Find out before the first measurement that a report can be written into a folder."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"no report can be written to {path}: {error.strerror or error}") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise Refused(f"no report can be written to {path}: no permission")


def _whereabouts(path: Path, entries: Sequence[Entry]) -> list[str]:
    if not any(entry.status == "confirmed" for entry in entries):
        return []
    # By their real paths: the folder of the user's files, or one of them, may be a link.
    read = os.path.realpath(path) in map(os.path.realpath, database.files_of(database.user_path()))
    return [f"database: {path}; " + ("the next Python process uses it" if read else f"FASTGEMM_DB={path} uses it")]


def _load() -> float:
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return 0.0  # this system does not say
