"""The commit log of a folder of data files: one exclusive file creation decides which files are live.

A load stages its files, creates the next numbered commit, then publishes: staged files move to their final names and
replaced ones go. What comes after the commit may be repeated by anybody, so a crash at any line is repaired by the next
reader or writer.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from ..errors import BackendError, ConflictError
from ..spec.run import Bookmark, Run
from .owner import is_alive, owner_from_name, owner_name

__all__ = [
    "FOLDER",
    "CommitLog",
    "DataFile",
    "Entry",
    "LogState",
    "Staging",
    "entry_from_json",
    "entry_to_json",
    "run_from_json",
    "run_to_json",
    "state_from_json",
    "state_to_json",
    "write_atomically",
]

FOLDER = "_ematix"
"""The folder below a table's (and a connection's) own that holds what is remembered."""

CHECKPOINT_EVERY = 50
KEPT_TOKENS = 10_000
VERSION = 1


@dataclass(frozen=True)
class DataFile:
    """A live file, its paths relative to the table's folder."""

    path: str
    schema: int | None = None
    """Which of the log's schemas it was written with; None for a file that was there before the log."""
    staged: str | None = None
    """Where it waits until it is published."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One committed load."""

    seq: int
    token: str
    instant: datetime
    run: Run
    bookmark: Bookmark | None = None
    added: tuple[DataFile, ...] = ()
    removed: tuple[str, ...] = ()
    """Files that are live no longer."""
    schema: Mapping[str, object] | None = None
    """The table as it is from here on, where this load created or changed it."""


@dataclass
class LogState:
    """What all commits up to `seq` add up to."""

    seq: int = 0
    files: dict[str, DataFile] = field(default_factory=dict)
    schemas: list[Mapping[str, object]] = field(default_factory=list)
    tokens: dict[str, int] = field(default_factory=dict)
    bookmarks: dict[str, tuple[Bookmark, datetime]] = field(default_factory=dict)
    instant: datetime | None = None
    instants: dict[str, datetime] = field(default_factory=dict)
    """When each pipeline committed last."""
    checkpoint: int = 0
    """The newest commit that a checkpoint covers."""

    def add(self, entry: Entry) -> None:
        """Go one commit further."""
        self.seq = entry.seq
        if entry.schema is not None:
            self.schemas.append(entry.schema)
        for path in entry.removed:
            self.files.pop(path, None)
        self.files.update({file.path: file for file in entry.added})
        self.tokens[entry.token] = entry.seq
        if entry.bookmark is not None:
            self.bookmarks[entry.bookmark.pipeline] = entry.bookmark, entry.instant
        self.instant = entry.instant if self.instant is None else max(self.instant, entry.instant)
        self.instants[entry.run.pipeline] = entry.instant


@dataclass(frozen=True)
class Staging:
    """The folder of one load's unpublished work; its name says which commit it is for and who owns it."""

    path: Path
    seq: int
    run_id: str
    owner: str
    made: tuple[Path, ...] = ()
    """Folders that did not exist before, the innermost first."""

    @classmethod
    def at(cls, parent: Path, seq: int, run_id: str, owner: str) -> Staging:
        """The staging folder of a run, which need not exist."""
        name = f"{seq:012d}~{quote(run_id, safe='')}~{owner_name(owner)}"
        return cls(parent / name, seq, run_id, owner)

    @classmethod
    def parse(cls, path: Path) -> Staging | None:
        """The staging folder that `path` is; None where it is something else."""
        seq, _, rest = path.name.partition("~")
        if not seq.isdigit() or not rest:
            return None
        run_id, _, owner = rest.partition("~")
        return cls(path, int(seq), unquote(run_id), owner_from_name(owner))


class CommitLog:
    """The commits of the table in `folder`."""

    def __init__(self, folder: Path, published: Callable[[Run], None] = lambda run: None) -> None:
        self.folder = folder
        self.home = folder / FOLDER
        self._published = published
        """Hears the run of a commit when its files are in place; may hear it again after a crash."""

    def state(self) -> LogState:
        """What is committed at this moment; reads the newest checkpoint and the commits behind it."""
        state = self._newest_checkpoint()
        while (entry := self.entry(state.seq + 1)) is not None:
            state.add(entry)
        return state

    def entry(self, seq: int) -> Entry | None:
        """The commit with this number; None where there is none."""
        try:
            text = self._commit_path(seq).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
        return entry_from_json(_parse(text, self._commit_path(seq)))

    def stage(self, state: LogState, run_id: str, owner: str) -> Staging:
        """A new folder for the work of the commit after `state`."""
        staging = Staging.at(self.home / "staging", state.seq + 1, run_id, owner)
        made = tuple(path for path in (self.folder, self.folder.parent) if not path.exists())
        shutil.rmtree(staging.path, ignore_errors=True)
        while not staging.path.is_dir():
            # Another load that ends may take away a parent that it found empty: then make it again.
            with suppress(FileNotFoundError):
                staging.path.mkdir(parents=True)
        return replace(staging, made=made)

    def discard(self, staging: Staging) -> None:
        """Forget a load that was not committed, down to the folders that were made for it."""
        shutil.rmtree(staging.path, ignore_errors=True)
        with suppress(OSError):
            for path in (staging.path.parent, self.home, *staging.made):
                path.rmdir()

    def commit(self, entry: Entry, staging: Staging) -> None:
        """Make `entry` the next commit, or raise ConflictError where somebody else has: the one decisive step."""
        files = {self.folder / file.staged for file in entry.added if file.staged is not None}
        for path in (*files, *{path.parent for path in files}):
            _flush(path)
        draft = staging.path / "commit.json"
        draft.write_text(json.dumps(entry_to_json(entry)), encoding="utf-8")
        _flush(draft)
        path = self._commit_path(entry.seq)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(draft, path)
        except FileExistsError:
            raise ConflictError(
                f"another load into {self.folder} committed first",
                hint="run again: the load starts from what the other one left",
            ) from None
        except OSError as error:
            raise BackendError(
                f"the commit of {self.folder} could not be written: {error.strerror}",
                hint="the file system must allow writing and hard links",
            ) from error
        _flush(path.parent)

    def publish(self, entry: Entry, staging: Staging) -> None:
        """Give the committed files their final names and let the replaced ones go; may be repeated."""
        for file in entry.added:
            if file.staged is not None:
                _move(self.folder / file.staged, self.folder / file.path)
        for path in entry.removed:
            self._remove(self.folder / path)
        self._published(entry.run)
        shutil.rmtree(staging.path, ignore_errors=True)
        with suppress(OSError):
            staging.path.parent.rmdir()

    def save_checkpoint(self, state: LogState) -> None:
        """Sum up the log when enough commits have gathered, so that reading it stays cheap."""
        if state.seq - state.checkpoint < CHECKPOINT_EVERY:
            return
        path = self._checkpoints / f"checkpoint-{state.seq:012d}.json"
        write_atomically(path, json.dumps(state_to_json(state)))
        # One older checkpoint stays for readers that have found its name and not opened it yet.
        for old in sorted(self._checkpoints.glob("checkpoint-*.json"))[:-2]:
            old.unlink(missing_ok=True)

    def repair(self) -> None:
        """Finish what crashed loads committed and remove what they did not; living loads are left alone."""
        for staging in self._stagings():
            if not self._finish(staging) and not is_alive(staging.owner):
                shutil.rmtree(staging.path, ignore_errors=True)

    def roll_forward(self) -> None:
        """Finish what crashed loads committed, as far as the folder may be written: `location` copes with the rest."""
        for staging in self._stagings():
            with suppress(OSError):
                self._finish(staging)

    def location(self, file: DataFile) -> Path:
        """Where a live file can be read: at its final name, or where it waits for it."""
        final = self.folder / file.path
        if file.staged is not None and not final.exists() and (self.folder / file.staged).exists():
            return self.folder / file.staged
        return final

    def _finish(self, staging: Staging) -> bool:
        entry = self.entry(staging.seq)
        if entry is None or entry.run.run_id != staging.run_id:
            return False
        self.publish(entry, staging)
        return True

    def _stagings(self) -> Iterator[Staging]:
        parent = self.home / "staging"
        for path in sorted(parent.iterdir()) if parent.is_dir() else ():
            if (staging := Staging.parse(path)) is not None:
                yield staging

    def _remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        for parent in path.parents:
            if parent == self.folder or "=" not in parent.name:
                break
            with suppress(OSError):
                parent.rmdir()

    @property
    def _checkpoints(self) -> Path:
        return self.home / "checkpoints"

    def _commit_path(self, seq: int) -> Path:
        return self.home / "commits" / f"{seq:012d}.json"

    def _newest_checkpoint(self) -> LogState:
        while paths := sorted(self._checkpoints.glob("checkpoint-*.json")):
            # A writer may remove a checkpoint that is two generations old: then there is a newer one.
            with suppress(FileNotFoundError):
                return state_from_json(_parse(paths[-1].read_text(encoding="utf-8"), paths[-1]))
        return LogState()


def write_atomically(path: Path, text: str) -> None:
    """Put `text` at `path` so that readers find the old content or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    _flush(draft)
    draft.replace(path)


def run_to_json(run: Run) -> dict[str, object]:
    """A run's record as plain data."""
    values = {each.name: getattr(run, each.name) for each in fields(run)} | {"rows": dict(run.rows)}
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}


def run_from_json(data: Mapping[str, Any]) -> Run:
    """The record that `run_to_json` described."""
    instants = {name: datetime.fromisoformat(data[name]) for name in ("started_at", "finished_at") if data[name]}
    return Run(**{**data, **instants})


def entry_to_json(entry: Entry) -> dict[str, object]:
    """A commit as plain data."""
    return {
        "version": VERSION,
        "seq": entry.seq,
        "token": entry.token,
        "instant": entry.instant.isoformat(),
        "run": run_to_json(entry.run),
        "bookmark": entry.bookmark and _bookmark_to_json(entry.bookmark),
        "added": [asdict(file) for file in entry.added],
        "removed": list(entry.removed),
        "schema": entry.schema,
    }


def entry_from_json(data: Mapping[str, Any]) -> Entry:
    """The commit that `entry_to_json` described."""
    return Entry(
        seq=data["seq"],
        token=data["token"],
        instant=datetime.fromisoformat(data["instant"]),
        run=run_from_json(data["run"]),
        bookmark=Bookmark(**data["bookmark"]) if data["bookmark"] else None,
        added=_files(data["added"]),
        removed=tuple(data["removed"]),
        schema=data["schema"],
    )


def state_to_json(state: LogState) -> dict[str, object]:
    """What commits add up to, as plain data."""
    return {
        "version": VERSION,
        "seq": state.seq,
        "files": [asdict(file) for file in state.files.values()],
        "schemas": state.schemas,
        "tokens": dict(list(state.tokens.items())[-KEPT_TOKENS:]),
        "bookmarks": [
            {**_bookmark_to_json(bookmark), "instant": at.isoformat()} for bookmark, at in state.bookmarks.values()
        ],
        "instant": state.instant and state.instant.isoformat(),
        "instants": {pipeline: at.isoformat() for pipeline, at in state.instants.items()},
    }


def state_from_json(data: Mapping[str, Any]) -> LogState:
    """What `state_to_json` described."""
    state = LogState(seq=data["seq"], schemas=data["schemas"], tokens=data["tokens"], checkpoint=data["seq"])
    state.files = {file.path: file for file in _files(data["files"])}
    for kept in data["bookmarks"]:
        at = datetime.fromisoformat(kept.pop("instant"))
        state.bookmarks[kept["pipeline"]] = Bookmark(**kept), at
    state.instant = datetime.fromisoformat(data["instant"]) if data["instant"] else None
    # Logs of an older version know the newest instant of all only.
    state.instants = {pipeline: datetime.fromisoformat(at) for pipeline, at in data.get("instants", {}).items()}
    return state


def _bookmark_to_json(bookmark: Bookmark) -> dict[str, object]:
    """The bookmark without its instant, which is that of its commit."""
    return {"pipeline": bookmark.pipeline, "column": bookmark.column, "value": bookmark.value}


def _files(data: Iterable[Mapping[str, Any]]) -> tuple[DataFile, ...]:
    return tuple(DataFile(**each) for each in data)


def _parse(text: str, path: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise BackendError(f"{path} is damaged: {error}", hint="restore it from a backup of the folder") from error
    if data.get("version") != VERSION:
        raise BackendError(f"{path} was written by a newer version", hint="upgrade ematix-flow-spark")
    return data  # type: ignore[no-any-return]


def _move(staged: Path, final: Path) -> None:
    """Rename, though others may be publishing the same commit, or removing the folder that has become empty."""
    while staged.exists():
        final.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            staged.replace(final)


def _flush(path: Path) -> None:
    """Let the disk have what was written, so that a power cut cannot keep a commit and lose its rows."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
