"""What a connection to a folder remembers of runs: one JSON document per run, and which tables a pipeline loads."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from ..errors import ConnectError
from ..spec.place import TableRef
from ..spec.run import Bookmark, Run
from .base import Ledger
from .file_commits import FOLDER, LogState, run_from_json, run_to_json, write_atomically
from .owner import INTERRUPTED, is_alive

__all__ = ["FileLedger", "TableLog"]


class TableLog(Protocol):
    """The commits of one table, as far as a ledger asks for them."""

    def state(self) -> LogState:
        """What is committed at this moment."""

    def roll_forward(self) -> None:
        """Finish what crashed loads committed, their run documents among it."""


class FileLedger(Ledger):
    """Run documents below `<path>/_ematix/runs`; bookmarks and instants come from the tables' own commits."""

    def __init__(self, root: Path, log_of: Callable[[TableRef], TableLog]) -> None:
        self._home = root / FOLDER
        self._finished = self._home / "runs"
        self._running = self._finished / "running"
        self._log_of = log_of

    def start(self, run: Run) -> None:
        """Record that `run` began, and close the records of dead processes."""
        for left in self._unfinished():
            if left.pipeline == run.pipeline and not is_alive(left.owner):
                self.record(left.with_outcome("failed", run.started_at, error=INTERRUPTED))
        try:
            self.note_table(run)
            _write(self._running, run)
        except OSError as error:
            raise ConnectError(
                f"the folder {self._home.parent} cannot be written to: {error}",
                hint="change the path of the connection, or allow writing there",
            ) from error

    def end(self, run: Run) -> None:
        """Record how a run ended that committed nothing; one whose commit is there stays a success."""
        if run.table:
            self._log_of(TableRef(run.schema, run.table)).roll_forward()
        known = _read(self._finished / _document(run.run_id))
        if known is None or known.status != "success":
            self.record(run)

    def record(self, run: Run) -> None:
        """Write the final record of `run`; may be repeated."""
        _write(self._finished, run)
        (self._running / _document(run.run_id)).unlink(missing_ok=True)

    def restore(self, run: Run) -> None:
        """Write the final record of a committed run where it is missing."""
        known = _read(self._finished / _document(run.run_id))
        if known is None or known.status != run.status:
            self.record(run)

    def note_table(self, run: Run) -> None:
        """Remember that the pipeline loads this table, so that its bookmark can be found in the table's commits."""
        tables = [[table.schema, table.name] for table in self._tables_of(run.pipeline)]
        if run.table and [run.schema, run.table] not in tables:
            tables.append([run.schema, run.table])
            write_atomically(self._index(run.pipeline), json.dumps({"pipeline": run.pipeline, "tables": tables}))

    def bookmark(self, pipeline: str) -> Bookmark | None:
        """Where the newest committed load of `pipeline` got to, in any of its tables."""
        kept = [self._log_of(table).state().bookmarks.get(pipeline) for table in self._tables_of(pipeline)]
        found: list[tuple[Bookmark | None, datetime]] = [each for each in kept if each is not None]
        found += self._set_by_hand(pipeline)
        if not found:
            return None
        bookmark, at = max(found, key=lambda each: each[1])
        return None if bookmark is None else replace(bookmark, updated_at=at)

    def set_bookmark(self, pipeline: str, bookmark: Bookmark | None, at: datetime) -> None:
        """Write down what holds until a later commit: what the tables' own commits say cannot be changed."""
        instants = [self._log_of(table).state().instant for table in self._tables_of(pipeline)]
        later = [each + timedelta(microseconds=1) for each in instants if each is not None]
        value = None if bookmark is None else {"column": bookmark.column, "value": bookmark.value}
        document = {
            "pipeline": pipeline,
            "bookmark": value,
            "at": max([at, *later]).isoformat(),
        }
        write_atomically(self._home / "bookmarks" / _document(pipeline), json.dumps(document))

    def last_instant(self, table: TableRef, *, pipeline: str | None = None) -> datetime | None:
        """The newest `now` that was committed into `table`, or at which a bookmark was set: the next is later."""
        if pipeline is not None:
            return self._log_of(table).state().instants.get(pipeline)
        instants = [at for path in (self._home / "bookmarks").glob("*.json") for _, at in _set_at(path)]
        committed = self._log_of(table).state().instant
        return max(instants if committed is None else [*instants, committed], default=None)

    def runs(self, *, pipeline: str | None = None, limit: int = 50) -> Sequence[Run]:
        """Records, newest first."""
        found = [run for run in self._unfinished() if pipeline in (None, run.pipeline)]
        finished = 0
        for run in self._documents():
            if finished == limit:
                break
            if pipeline in (None, run.pipeline):
                found.append(run)
                finished += 1
        return sorted(found, key=lambda run: run.started_at, reverse=True)[:limit]

    def _set_by_hand(self, pipeline: str) -> list[tuple[Bookmark | None, datetime]]:
        return _set_at(self._home / "bookmarks" / _document(pipeline))

    def _unfinished(self) -> list[Run]:
        """Runs without a final record, once those whose commit is there have been given theirs."""
        if not self._running.is_dir():
            return []
        left = [run for path in sorted(self._running.glob("*.json")) if (run := _read(path)) is not None]
        for table in {TableRef(run.schema, run.table) for run in left if run.table}:
            self._log_of(table).roll_forward()
        return [run for run in left if not (self._finished / _document(run.run_id)).exists()]

    def _documents(self) -> Iterator[Run]:
        """Final records, newest first; their files carry the start of the run as their time of change."""
        if not self._finished.is_dir():
            return
        with os.scandir(self._finished) as entries:
            dated = [(entry.stat().st_mtime_ns, entry.path) for entry in entries if entry.name.endswith(".json")]
        for _, path in sorted(dated, reverse=True):
            if (run := _read(Path(path))) is not None:
                yield run

    def _tables_of(self, pipeline: str) -> list[TableRef]:
        try:
            data = json.loads(self._index(pipeline).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return []
        return [TableRef(schema, name) for schema, name in data["tables"]]

    def _index(self, pipeline: str) -> Path:
        return self._home / "pipelines" / _document(pipeline)


def _set_at(path: Path) -> list[tuple[Bookmark | None, datetime]]:
    """What somebody set, and when; nothing where nobody has."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    bookmark = data["bookmark"] and Bookmark(data["pipeline"], **data["bookmark"])
    return [(bookmark, datetime.fromisoformat(data["at"]))]


def _document(name: str) -> str:
    return f"{quote(name, safe='')}.json"


def _write(folder: Path, run: Run) -> None:
    path = folder / _document(run.run_id)
    write_atomically(path, json.dumps(run_to_json(run)))
    at = int(run.started_at.timestamp() * 1_000_000) * 1000
    os.utime(path, ns=(at, at))


def _read(path: Path) -> Run | None:
    try:
        return run_from_json(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
