"""Writing a database file: merging, simultaneous, killed and failing writers."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from database_samples import BAD_FILES, CPU, KERNELS, SOUND, as_json, document, load, record

from fastgemm import database, registry
from fastgemm.database import files, reading
from fastgemm.problem import Config, Problem, Record


def read_mine(path: Path) -> list[Record]:
    records, problems = database.read(path, cpu=CPU, kernels=KERNELS)
    assert problems == []
    return records


def test_what_is_written_is_read(user_file: Path) -> None:
    pairs = [(dt.name, tier.name) for tier in registry.ISAS for dt in registry.rows_of(tier)]
    made = [record(n=512 + at, dtype=dtype, isa=isa) for at, (dtype, isa) in enumerate(pairs)]
    made.append(Record(Problem("f64", 1, 9, 9, layout="nt"), Config(family="gemv"), 1e-7, 2e-7, kernels=KERNELS))
    made.append(Record(Problem("c64", 1, 9, 9), Config(family="numpy"), 1e-7, 2e-7, kernels=KERNELS))
    assert database.write(user_file, made, cpu=CPU) == len(made)
    assert set(read_mine(user_file)) == set(made)
    found, said = load()
    assert said == []
    assert set(found) == set(made)


def test_merge_keeps_the_greater_gain(user_file: Path) -> None:
    assert database.write(user_file, [record(gain=1.5), record(m=9)], cpu=CPU) == 2
    assert database.write(user_file, [record(1e-4, gain=1.4)], cpu=CPU) == 0  # seconds of another run say nothing
    assert read_mine(user_file) == [record(m=9), record(gain=1.5)]
    assert database.write(user_file, [record(5e-3, gain=1.6), record(k=9)], cpu=CPU) == 2
    assert set(read_mine(user_file)) == {record(5e-3, gain=1.6), record(m=9), record(k=9)}


def test_measuring_again_displaces_a_lucky_record(user_file: Path) -> None:
    lucky, honest = record(1e-3, gain=1.9), record(2e-3, gain=1.1)
    database.write(user_file, [lucky, record(m=9)], cpu=CPU)
    assert database.write(user_file, [honest], cpu=CPU) == 0
    assert database.write(user_file, [honest], cpu=CPU, instead_of=[lucky]) == 1
    assert read_mine(user_file) == [record(m=9), honest]


def test_measuring_again_does_not_displace_what_came_meanwhile(user_file: Path) -> None:
    """Two tuners began with the same record: whoever comes second has not measured the other's."""
    first = record(gain=1.2)
    database.write(user_file, [first], cpu=CPU)
    assert database.write(user_file, [record(gain=1.5)], cpu=CPU, instead_of=[first]) == 1
    assert database.write(user_file, [record(gain=1.3)], cpu=CPU, instead_of=[first]) == 0
    assert read_mine(user_file) == [record(gain=1.5)]
    assert database.write(user_file, [record(gain=1.6)], cpu=CPU, instead_of=[first]) == 1


def test_only_what_was_read_is_removed(user_file: Path) -> None:
    database.write(user_file, [record(), record(m=9), record(kernels="k2")], cpu=CPU)
    database.write(user_file, [record()], cpu="other cpu")
    assert database.remove(user_file, [record(gain=1.5), record(k=77)], cpu=CPU) == 0
    assert database.remove(user_file, [record(), record(kernels="k2")], cpu=CPU) == 2
    assert read_mine(user_file) == [record(m=9)]
    assert database.read(user_file, cpu="other cpu")[0] == [record()]
    assert database.remove(user_file.with_name("none.json"), [record()]) == 0
    assert not user_file.with_name("none.json").exists()


def test_nothing_better_leaves_the_file_alone(user_file: Path) -> None:
    database.write(user_file, [record()], cpu=CPU)
    before = user_file.stat()
    database.write(user_file, [record(1e-4, gain=1.5)], cpu=CPU)
    database.write(user_file, [record()], cpu=CPU, instead_of=[record()])
    database.remove(user_file, [record(m=9)], cpu=CPU)
    assert (user_file.stat().st_ino, user_file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert database.write(user_file, [], cpu=CPU) == 0


def test_other_cpus_and_kernel_sets_survive(user_file: Path) -> None:
    database.write(user_file, [record(1e-3)], cpu="other cpu")
    database.write(user_file, [record(2e-3)], cpu=CPU, kernels="other kernels")
    database.write(user_file, [record(3e-3)], cpu=CPU)
    database.write(user_file, [record(m=9)], cpu=CPU)
    assert set(read_mine(user_file)) == {record(3e-3), record(m=9)}
    assert [r.seconds for r in database.read(user_file, cpu="other cpu")[0]] == [1e-3]
    assert [r.seconds for r in database.read(user_file, kernels="other kernels")[0]] == [2e-3]
    assert len(database.read(user_file)[0]) == 4
    found, _ = load()
    assert set(found) == {record(3e-3), record(m=9)}
    assert found.files[0].skipped == 2


def test_foreign_records_are_kept_as_they_stand(user_file: Path) -> None:
    strange = {"problem": {"dtype": "bf16"}, "new": [1, None, "é"]}
    user_file.write_text(json.dumps(document(strange, {"bad": float("nan")}, 3, cpu="other")))
    database.write(user_file, [record()], cpu=CPU)
    groups = json.loads(user_file.read_text())["groups"]
    assert [g["records"] for g in groups if g["cpu"] == "other"] == [[strange]]
    assert read_mine(user_file) == [record()]


def test_records_of_several_kernel_sets_in_one_call(user_file: Path) -> None:
    assert database.write(user_file, [record(), record(kernels="k2"), record(kernels="k3")], cpu=CPU) == 3
    assert read_mine(user_file) == [record()]
    assert len(database.read(user_file, cpu=CPU)[0]) == 3


@pytest.mark.parametrize(
    "bad",
    [
        record(float("nan")),
        record(0.0),
        record(-1.0),
        record(float("inf")),
        replace(record(), config=Config(mr=5, nr=5)),
        replace(record(), trials=-1),
        replace(record(), strategy=7),
        replace(record(), problem=replace(SOUND, dtype="float32")),
        replace(record(), kernels=""),
    ],
)
def test_what_could_not_be_read_back_is_not_written(user_file: Path, bad: Record) -> None:
    database.write(user_file, [record(m=9)], cpu=CPU)
    with pytest.raises((TypeError, ValueError)):
        database.write(user_file, [record(), bad], cpu=CPU)
    assert read_mine(user_file) == [record(m=9)]


@pytest.mark.parametrize("name", sorted(set(BAD_FILES) - {"schema of tomorrow"}))
def test_damaged_file_is_replaced_and_a_copy_kept(user_file: Path, name: str) -> None:
    user_file.write_bytes(BAD_FILES[name][0])
    with pytest.warns(database.DatabaseWarning, match=r"mine\.json was damaged: .*mine\.json\.damaged is a copy"):
        assert database.write(user_file, [record()], cpu=CPU) == 1
    assert read_mine(user_file) == [record()]
    assert user_file.with_name("mine.json.damaged").read_bytes() == BAD_FILES[name][0]
    assert load()[1] == []


def test_copies_of_damaged_files_do_not_replace_each_other(user_file: Path) -> None:
    for text in ("first", "second", "third"):
        user_file.write_text(text)
        with pytest.warns(database.DatabaseWarning, match="damaged"):
            database.write(user_file, [record()], cpu=CPU)
    copies = {path.name: path.read_text() for path in user_file.parent.glob("*.damaged*")}
    assert copies == {
        "mine.json.damaged": "first",
        "mine.json.damaged.2": "second",
        "mine.json.damaged.3": "third",
    }


def test_damage_in_any_group_that_changes_is_copied(user_file: Path) -> None:
    """Groups are brought up to date one after the other; the second has lost nothing by the first."""
    text = json.dumps(document({**as_json(record()), "seconds": -1}, kernels="k2"))
    user_file.write_text(text)
    with pytest.warns(database.DatabaseWarning, match="seconds must be between"):
        assert database.merge(user_file, {(CPU, KERNELS): [record()], (CPU, "k2"): [record(m=9)]}) == 2
    assert user_file.with_name("mine.json.damaged").read_text() == text


def test_a_warning_that_is_an_error_comes_after_the_records(user_file: Path) -> None:
    user_file.write_text("{")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(database.DatabaseWarning):
            database.write(user_file, [record()], cpu=CPU)
    assert read_mine(user_file) == [record()]


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), MemoryError()])
def test_what_could_not_be_read_is_not_replaced(
    user_file: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    database.write(user_file, [record()], cpu=CPU)
    before = user_file.read_bytes()

    def refuse(*args: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(reading, "regular", refuse)
        for write in (database.write, database.remove):
            with pytest.raises(OSError, match=r"Input/output error|not enough memory"):
                write(user_file, [record(m=9)], cpu=CPU)  # type: ignore[operator]
    assert user_file.read_bytes() == before
    assert not list(user_file.parent.glob("*.damaged*"))


def test_no_file_is_written_that_would_not_be_read(user_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database.write(user_file, [record()], cpu=CPU)
    before = user_file.read_bytes()
    monkeypatch.setattr(reading, "MAX_BYTES", len(before) + 10)
    with pytest.raises(ValueError, match="would have 0 MiB"):
        database.write(user_file, [record(m=9)], cpu=CPU)
    assert user_file.read_bytes() == before
    assert database.write(user_file, [record(gain=3.0)], cpu=CPU) == 1


def test_a_file_too_large_to_be_read_is_not_replaced(user_file: Path) -> None:
    with open(user_file, "wb") as file:
        file.truncate(reading.MAX_BYTES + 1)
    with pytest.raises(OSError, match="larger than 64 MiB"):
        database.write(user_file, [record()], cpu=CPU)
    with pytest.raises(OSError, match="larger than 64 MiB"):
        database.check_writable(user_file)
    assert user_file.stat().st_size == reading.MAX_BYTES + 1
    assert not list(user_file.parent.glob("*.damaged*"))


def test_newer_schema_is_not_overwritten(user_file: Path) -> None:
    user_file.write_bytes(BAD_FILES["schema of tomorrow"][0])
    with pytest.raises(ValueError, match="schema 2"):
        database.write(user_file, [record()], cpu=CPU)
    with pytest.raises(ValueError, match="schema 2"):
        database.check_writable(user_file)
    assert user_file.read_bytes() == BAD_FILES["schema of tomorrow"][0]


def test_folder_gets_a_file_and_folders_are_made(tmp_path: Path) -> None:
    database.write(tmp_path, [record()], cpu=CPU)
    assert read_mine(tmp_path / "tuning.json") == [record()]
    database.write(tmp_path / "a" / "b" / "c.json", [record()], cpu=CPU)
    assert read_mine(tmp_path / "a" / "b" / "c.json") == [record()]


def test_link_stays_a_link_and_the_mode_stays(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    database.write(real, [record()], cpu=CPU)
    real.chmod(0o640)
    link.symlink_to(real)
    database.write(link, [record(m=9)], cpu=CPU)
    assert link.is_symlink()
    assert len(read_mine(real)) == 2
    assert real.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("inner", ["", "tuning.json"])
def test_links_that_go_round_are_an_error_of_the_system(tmp_path: Path, inner: str) -> None:
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    for write in (lambda: database.write(loop / inner, [record()], cpu=CPU), lambda: database.check_writable(loop)):
        with pytest.raises(OSError, match="links") as caught:
            write()
        assert caught.value.errno == errno.ELOOP
    assert loop.is_symlink()


def test_a_read_only_file_is_not_replaced(user_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database.write(user_file, [record()], cpu=CPU)
    before = user_file.read_bytes()
    user_file.chmod(0o444)
    if os.access(user_file, os.W_OK):  # root may write everything
        real = os.access
        monkeypatch.setattr(files.os, "access", lambda path, mode: path != user_file and real(path, mode))
    for write in (partial(database.write, records=[record(m=9)], cpu=CPU), database.check_writable):
        with pytest.raises(PermissionError, match="no permission to write it"):
            write(user_file)
    assert user_file.read_bytes() == before


@pytest.mark.parametrize("name", ["cpu", "kernels"])
def test_a_groups_names_are_short(user_file: Path, name: str) -> None:
    known = {"cpu": CPU, "kernels": KERNELS, name: 1001 * "x"}
    with pytest.raises(ValueError, match="longer than 1000 characters"):
        database.write(user_file, [record()], **known)
    assert not user_file.exists()
    user_file.write_text(json.dumps(document(as_json(record()), **known)))
    assert database.read(user_file) == ([], [f"groups[0]: '{name}' is longer than 1000 characters"])


def test_only_the_database_and_its_lock_remain(user_file: Path) -> None:
    database.write(user_file, [record()], cpu=CPU)
    assert sorted(p.name for p in user_file.parent.iterdir()) == [".mine.json.lock", "mine.json"]


def test_lock_that_is_never_given_back(user_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fcntl")
    monkeypatch.setattr(files, "LOCK_SECONDS", 0.1)
    with files.locked(user_file), pytest.raises(TimeoutError, match="locked by another process"):
        database.write(user_file, [record()], cpu=CPU)
    assert database.write(user_file, [record()], cpu=CPU) == 1


@pytest.fixture
def another_users_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lock files that this user may only read.  (Root may write everything.)"""
    pytest.importorskip("fcntl")
    real = os.open

    def refuse(path: Path, flags: int, *mode: int) -> int:
        if str(path).endswith(".lock") and flags & (os.O_WRONLY | os.O_RDWR):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, flags, *mode)

    monkeypatch.setattr(files.os, "open", refuse)


@pytest.mark.usefixtures("another_users_locks")
def test_a_lock_of_another_user_holds_for_both(user_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LOCK_SECONDS", 0.1)
    (user_file.parent / ".mine.json.lock").write_bytes(b"")
    database.check_writable(user_file)
    assert database.write(user_file, [record()], cpu=CPU) == 1
    with files.locked(user_file):
        for write in (partial(database.write, records=[record(m=9)], cpu=CPU), database.check_writable):
            with pytest.raises(TimeoutError, match="locked by another process"):
                write(user_file)


@pytest.mark.usefixtures("another_users_locks")
def test_a_lock_that_cannot_be_taken_is_known_beforehand(user_file: Path) -> None:
    with pytest.raises(PermissionError) as caught:
        database.check_writable(user_file)
    assert caught.value.filename == str(user_file.parent / ".mine.json.lock")


def _write_some(path: Path, worker: int) -> None:
    for at in range(10):
        database.write(path, [record(m=1000 * worker + at + 1), record(gain=1.0 + 10 * worker + at)], cpu=CPU)


@pytest.mark.timeout(120)
def test_simultaneous_writers_lose_nothing(user_file: Path) -> None:
    pytest.importorskip("fcntl")
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write_some, args=(user_file, worker)) for worker in range(4)]
    for each in workers:
        each.start()
    while any(each.is_alive() for each in workers):
        assert load()[1] == []  # at no moment is a part of a file seen
    for each in workers:
        each.join()
    assert [each.exitcode for each in workers] == [0] * 4
    found = read_mine(user_file)
    assert len(found) == 41
    assert max(r.gain for r in found if r.problem == SOUND) == 40


KILLED = """
    import os, sys
    from fastgemm.database import write, writing
    from fastgemm.problem import Config, Problem, Record

    def stop(*args):
        print("now", flush=True)
        sys.stdin.read()

    {patch}
    record = Record(Problem("f32", 9, 9, 9), Config(mr=6, nr=16), 1e-3, 2e-3, kernels="k1")
    write(sys.argv[1], [record], cpu=sys.argv[2])
"""
MOMENTS: dict[str, str] = {
    "with the lock": "writing.readable = stop",
    "file half written": "os.fsync = stop",
    "before the replacement": "os.replace = stop",
}


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.timeout(60)
def test_killed_writer_leaves_the_old_file(user_file: Path, moment: str) -> None:
    database.write(user_file, [record()], cpu=CPU)
    before = user_file.read_bytes()
    code = textwrap.dedent(KILLED).format(patch=MOMENTS[moment])
    command = [sys.executable, "-c", code, str(user_file), CPU]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "now\n"
        child.kill()
    assert user_file.read_bytes() == before
    # Nor does it leave a lock, and what it left of a file is cleared away.
    assert database.write(user_file, [record(m=10)], cpu=CPU) == 1
    assert len(read_mine(user_file)) == 2
    assert sorted(p.name for p in user_file.parent.iterdir()) == [".mine.json.lock", "mine.json"]


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_failing_disk_leaves_the_old_file(user_file: Path, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    database.write(user_file, [record()], cpu=CPU)
    before = user_file.read_bytes()

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, fails, full)
        with pytest.raises(OSError, match="No space left"):
            database.write(user_file, [record(m=9)], cpu=CPU)
    assert user_file.read_bytes() == before
    assert not list(user_file.parent.glob(".*.part"))
    assert database.write(user_file, [record(m=9)], cpu=CPU) == 1
