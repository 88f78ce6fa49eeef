"""The commit log of a folder: one winner per number, and repair after a crash at any line."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ematix_flow.backends.file_commits import CHECKPOINT_EVERY, CommitLog, DataFile, Entry, LogState, Staging
from ematix_flow.backends.owner import current_owner
from ematix_flow.errors import BackendError, ConflictError
from ematix_flow.spec.run import Bookmark, Run

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def run(run_id: str = "r1", **changes: object) -> Run:
    record = Run(
        run_id=run_id, pipeline="p", schema="s", table="t", mode="append", path="spark", started_at=NOON,
        status="success", rows={"rows_inserted": 1}, owner=current_owner(),
    )  # fmt: skip
    return replace(record, **changes)  # type: ignore[arg-type]


def staged(log: CommitLog, state: LogState, run_id: str, text: str = "rows") -> tuple[Staging, DataFile]:
    """A load with one file, up to the line before its commit."""
    staging = log.stage(state, run_id, current_owner())
    path = staging.path / "data" / "one.csv"
    path.parent.mkdir()
    path.write_text(text)
    return staging, DataFile(f"part-{run_id}.csv", 0, str(path.relative_to(log.folder)))


def load(log: CommitLog, run_id: str, *, replaces: bool = False, bookmark: Bookmark | None = None) -> None:
    """A whole load of one file."""
    state = log.state()
    staging, file = staged(log, state, run_id)
    entry = Entry(
        seq=state.seq + 1, token=f"token-{run_id}", instant=NOON + timedelta(minutes=state.seq), run=run(run_id),
        added=(file,), removed=tuple(state.files) if replaces else (), bookmark=bookmark,
        schema={"columns": []} if not state.schemas else None,
    )  # fmt: skip
    log.commit(entry, staging)
    log.publish(entry, staging)
    state.add(entry)
    log.save_checkpoint(state)


def visible(folder: Path) -> list[str]:
    """What a program that knows nothing of the log sees."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.csv") if "_ematix" not in path.parts)


@pytest.fixture
def log(tmp_path: Path) -> CommitLog:
    return CommitLog(tmp_path / "s" / "t")


def test_a_folder_without_commits_has_an_empty_state(log: CommitLog) -> None:
    assert log.state() == LogState()


def test_a_published_load_is_live_and_leaves_no_staging(log: CommitLog) -> None:
    load(log, "r1")
    assert list(log.state().files) == ["part-r1.csv"]
    assert visible(log.folder) == ["part-r1.csv"]
    assert not (log.home / "staging").exists()


def test_a_commit_keeps_token_bookmark_record_and_instant(log: CommitLog) -> None:
    load(log, "r1", bookmark=Bookmark("p", "id", "7"))
    state, entry = log.state(), log.entry(1)
    assert entry is not None
    assert entry.run == run("r1")
    assert state.tokens == {"token-r1": 1}
    assert state.bookmarks == {"p": (Bookmark("p", "id", "7"), NOON)}
    assert state.instant == NOON


def test_a_replacing_load_removes_the_files_before_it(log: CommitLog) -> None:
    load(log, "r1")
    load(log, "r2")
    load(log, "r3", replaces=True)
    assert list(log.state().files) == ["part-r3.csv"]
    assert visible(log.folder) == ["part-r3.csv"]


def test_an_empty_partition_folder_goes_with_its_last_file(log: CommitLog) -> None:
    state = log.state()
    staging, file = staged(log, state, "r1")
    entry = Entry(seq=1, token="a", instant=NOON, run=run("r1"), added=(replace(file, path="day=1/x.csv"),))
    log.commit(entry, staging)
    log.publish(entry, staging)
    load(log, "r2", replaces=True)
    assert not (log.folder / "day=1").exists()


def test_the_second_of_two_loads_from_one_state_conflicts(log: CommitLog) -> None:
    state = log.state()
    first, second = staged(log, state, "r1"), staged(log, state, "r2")
    log.commit(Entry(seq=1, token="a", instant=NOON, run=run("r1"), added=(first[1],)), first[0])
    with pytest.raises(ConflictError) as caught:
        log.commit(Entry(seq=1, token="b", instant=NOON, run=run("r2"), added=(second[1],)), second[0])
    assert caught.value.transient
    assert log.state().tokens == {"a": 1}


def test_of_many_racing_writers_exactly_one_commits_each_number(log: CommitLog) -> None:
    barrier, won, lost = threading.Barrier(4), [], []

    def write(name: str) -> None:
        for turn in range(10):
            barrier.wait()
            state = log.state()
            barrier.wait()
            try:
                staging, file = staged(log, state, f"{name}-{turn}")
                entry = Entry(
                    seq=state.seq + 1, token=f"{name}-{turn}", instant=NOON, run=run(f"{name}-{turn}"), added=(file,)
                )
                log.commit(entry, staging)
                log.publish(entry, staging)
                won.append(entry.seq)
            except ConflictError:
                log.discard(staging)
                lost.append(state.seq + 1)
            barrier.wait()

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == list(range(1, 11))
    assert len(lost) == 30
    assert len(visible(log.folder)) == 10


def test_a_checkpoint_gives_the_same_state_as_all_commits(log: CommitLog) -> None:
    for number in range(CHECKPOINT_EVERY + 3):
        load(log, f"r{number}", replaces=number == 20, bookmark=Bookmark("p", "id", str(number)))
    state = log.state()
    assert state.checkpoint == CHECKPOINT_EVERY
    for path in (log.home / "checkpoints").iterdir():
        path.unlink()
    assert replace(log.state(), checkpoint=state.checkpoint) == state


def test_with_a_checkpoint_older_commits_are_not_read(log: CommitLog) -> None:
    for number in range(CHECKPOINT_EVERY):
        load(log, f"r{number}")
    (log.home / "commits" / f"{1:012d}.json").write_text("damaged")
    assert log.state().seq == CHECKPOINT_EVERY


def test_a_damaged_commit_is_an_error_that_names_the_file(log: CommitLog) -> None:
    load(log, "r1")
    path = log.home / "commits" / f"{1:012d}.json"
    path.write_text("{")
    with pytest.raises(BackendError, match=path.name):
        log.state()


def test_a_log_of_a_newer_version_is_refused(log: CommitLog) -> None:
    load(log, "r1")
    path = log.home / "commits" / f"{1:012d}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 99}))
    with pytest.raises(BackendError, match="newer version"):
        log.state()


def test_a_discarded_load_leaves_not_even_the_folders_it_made(log: CommitLog, tmp_path: Path) -> None:
    staging, _ = staged(log, log.state(), "r1")
    log.discard(staging)
    assert list(tmp_path.iterdir()) == []


def test_the_staging_of_a_living_process_is_left_alone(log: CommitLog) -> None:
    staging, _ = staged(log, log.state(), "r1")
    log.repair()
    assert staging.path.exists()


# A loader that kills itself; `stop` says between which lines.
CRASHING = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from tests.backends.test_file_commits import *
log, stop = CommitLog(Path({folder!r})), {stop!r}
def die():
    os.kill(os.getpid(), signal.SIGKILL)
state = log.state()
staging, one = staged(log, state, "crashed")
two = staging.path / "data" / "two.csv"
two.write_text("rows")
two = DataFile("part-two.csv", 0, str(two.relative_to(log.folder)))
old = tuple(state.files)
entry = Entry(seq=state.seq + 1, token="crashed", instant=NOON, run=run("crashed"), added=(one, two), removed=old)
if stop == "before the commit":
    die()
log.commit(entry, staging)
if stop == "after the commit":
    die()
os.replace(log.folder / one.staged, log.folder / one.path)
if stop == "after the first rename":
    die()
os.replace(log.folder / two.staged, log.folder / two.path)
if stop == "before the old files go":
    die()
for path in entry.removed:
    os.unlink(log.folder / path)
if stop == "before the record":
    die()
"""


def crash(log: CommitLog, stop: str) -> None:
    root = Path(__file__).parents[2]
    script = CRASHING.format(tests=str(root), folder=str(log.folder), stop=stop)
    ended = subprocess.run([sys.executable, "-c", script], env={"PYTHONPATH": str(root / "src")}, check=False)
    assert ended.returncode == -9


AFTER = ["after the commit", "after the first rename", "before the old files go", "before the record"]


def test_a_load_killed_before_its_commit_never_happened(log: CommitLog) -> None:
    load(log, "old")
    crash(log, "before the commit")
    assert visible(log.folder) == ["part-old.csv"]
    log.repair()
    assert list(log.state().files) == ["part-old.csv"]
    assert not list((log.home / "staging").iterdir())


@pytest.mark.parametrize("stop", AFTER)
def test_a_load_killed_after_its_commit_is_finished_by_the_next(log: CommitLog, stop: str) -> None:
    load(log, "old")
    crash(log, stop)
    recorded: list[str] = []
    CommitLog(log.folder, published=lambda run: recorded.append(run.run_id)).repair()
    assert visible(log.folder) == ["part-crashed.csv", "part-two.csv"]
    assert recorded == ["crashed"]
    assert not (log.home / "staging").exists()
    load(log, "next")
    assert list(log.state().tokens) == ["token-old", "crashed", "token-next"]


@pytest.mark.parametrize("stop", AFTER)
def test_a_reader_finds_all_rows_of_a_load_killed_after_its_commit(log: CommitLog, stop: str) -> None:
    load(log, "old")
    crash(log, stop)
    files = log.state().files.values()
    assert [log.location(file).read_text() for file in files] == ["rows", "rows"]
    log.roll_forward()
    assert [log.location(file) for file in files] == [log.folder / file.path for file in files]


def test_a_commit_may_be_published_again_after_it_was_replaced(log: CommitLog) -> None:
    load(log, "r1")
    entry = log.entry(1)
    assert entry is not None
    load(log, "r2", replaces=True)
    log.publish(entry, Staging.at(log.home / "staging", 1, "r1", current_owner()))
    assert visible(log.folder) == ["part-r2.csv"]
