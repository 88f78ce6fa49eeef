"""Tables in the memory of this process, as Arrow: for tests and small lookups, gone when the process ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from ..errors import BackendError, CheckError, ConflictError, UnknownNameError, UnsupportedError
from ..spec.place import Place, Prefix, Query, TableRef
from ..spec.run import Bookmark, Commit, Run
from ..spec.table import DELETED, Column, Table
from ..strategies.base import CHANGE_LABEL, INCOMING, TARGET, Append, Change, Replace, Upsert
from .arrow_types import arrow_type, column_type, portable_column
from .base import (
    Actual,
    Applied,
    Backend,
    Capabilities,
    Frame,
    Ledger,
    Load,
    Relation,
    SchemaChange,
)
from .connection import MemoryConnection
from .frames import FrameQueries, arrow_frame, evolved, query_frame, refuse_repeated, schema_ddl, stored_table
from .owner import INTERRUPTED, is_alive
from .spark_dialect import SparkDialect

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from sqlglot import exp

__all__ = ["MemoryBackend", "MemoryConnection", "MemoryLedger", "MemoryLoad", "Space", "Stored"]


@dataclass(frozen=True)
class Stored:
    """A table's rows and columns at one version."""

    rows: pa.Table
    columns: tuple[Column, ...]
    unique: tuple[tuple[str, ...], ...] | None = None
    version: int = 0
    instant: datetime | None = None


@dataclass
class Space:
    """Everything that one connection name holds; `lock` guards it while it changes."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    tables: dict[TableRef, Stored] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    instants: dict[tuple[TableRef, str], datetime] = field(default_factory=dict)
    """When a pipeline committed into a table last."""
    bookmarks: dict[str, Bookmark] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)


_spaces: dict[str, Space] = {}
_spaces_lock = threading.Lock()


class MemoryBackend(Backend):
    """Tables in memory. All rows of a table pass through this process, so keep them small."""

    can = Capabilities(
        guarantee="all of a load or none of it, exactly once for one token; nothing outlives the process"
    )
    dialect = SparkDialect()

    @property
    def space(self) -> Space:
        """What connections of this name hold."""
        with _spaces_lock:
            return _spaces.setdefault(self.connection.name, Space())

    @property
    def ledger(self) -> MemoryLedger:
        """Run records in memory."""
        return MemoryLedger(self.space)

    def ping(self) -> str:
        """How many tables there are."""
        tables = len(self.space.tables)
        return f"memory of this process: {tables} {'table' if tables == 1 else 'tables'}"

    def put(self, table: TableRef, rows: pa.Table) -> None:
        """Let `rows` be the table, whatever was there before."""
        columns = tuple(Column(column_type(each.type, each.name), name=each.name) for each in rows.schema)
        rows = _portable(rows, _arrow_schema(columns))
        with self.space.lock:
            old = self.space.tables.get(table)
            self.space.tables[table] = Stored(rows, columns, version=old.version + 1 if old else 1)

    def get(self, table: TableRef) -> pa.Table:
        """The rows of a table."""
        return self._stored(table).rows

    def drop(self) -> None:
        """Forget everything that connections of this name hold."""
        with _spaces_lock:
            _spaces.pop(self.connection.name, None)

    def read(self, place: Place) -> DataFrame:
        """The rows at `place`; later loads do not change them."""
        match place:
            case TableRef():
                return self._frame(self._stored(place))
            case Query(sql):
                return query_frame(self.workshop.spark(), sql, lambda table: self._frame(self._stored(table)))
            case Prefix():
                raise UnsupportedError(f"connection {self.connection.name!r} (memory) holds tables, not files: {place}")

    def columns(self, table: TableRef) -> Actual | None:
        """The table as it was declared or put; None where there is no such table."""
        stored = self.space.tables.get(table)
        if stored is None:
            return None
        return stored_table(stored.columns, stored.unique)

    def change_schema(self, table: TableRef, decide: Callable[[Actual | None], SchemaChange | None]) -> None:
        """Look at a table and change it as `decide` says; its rows stay."""
        old = self.space.tables.get(table)
        change = decide(self.columns(table))
        if change is None:
            return
        columns = evolved(old.columns if old else change.table.columns, change)
        schema = _arrow_schema(columns)
        rows = _shaped(old.rows, schema) if old else schema.empty_table()
        unique = old.unique if old else change.table.unique
        with self.space.lock:
            if self.space.tables.get(table) is not old:
                raise _overtaken(table)
            instant = old.instant if old else None
            self.space.tables[table] = Stored(rows, columns, unique, old.version + 1 if old else 1, instant)

    @contextmanager
    def load(self, incoming: Relation, table: Table, commit: Commit) -> Iterator[Load]:
        """A new version of the table, swapped in with token, bookmark and run record."""
        if not isinstance(incoming, Frame):
            raise UnsupportedError(f"connection {self.connection.name!r} (memory) runs no queries of its own")
        load = MemoryLoad(self, incoming.frame, table, commit)
        yield load
        load.close()

    def _stored(self, table: TableRef) -> Stored:
        stored = self.space.tables.get(table)
        if stored is None:
            known = [str(each) for each in self.space.tables]
            raise UnknownNameError("table", str(table), known=known, where=f"connection {self.connection.name!r}")
        return stored

    def _frame(self, stored: Stored) -> DataFrame:
        return self.frame_of(stored.rows, stored.columns)

    def frame_of(self, rows: pa.Table, columns: Sequence[Column]) -> DataFrame:
        """Arrow rows as a Spark frame of the declared types."""
        rows = rows.select([each.name for each in columns])
        return arrow_frame(self.workshop.spark(), rows, schema_ddl(columns))


class MemoryLedger(Ledger):
    """Run records and bookmarks of one connection name."""

    def __init__(self, space: Space) -> None:
        self._space = space

    def start(self, run: Run) -> None:
        """Record that `run` began, and close the records of dead processes."""
        with self._space.lock:
            for left in list(self._space.runs.values()):
                if left.pipeline == run.pipeline and left.status == "running" and not is_alive(left.owner):
                    failed = left.with_outcome("failed", run.started_at, error=INTERRUPTED)
                    self._space.runs[left.run_id] = failed
            self._space.runs[run.run_id] = run

    def end(self, run: Run) -> None:
        """Record how a run ended that committed nothing."""
        with self._space.lock:
            recorded = self._space.runs.get(run.run_id)
            if recorded is None or recorded.status == "running":
                self._space.runs[run.run_id] = run

    def bookmark(self, pipeline: str) -> Bookmark | None:
        """Where the last committed load of `pipeline` got to."""
        return self._space.bookmarks.get(pipeline)

    def set_bookmark(self, pipeline: str, bookmark: Bookmark | None, at: datetime) -> None:
        """Replace or forget the bookmark of `pipeline`."""
        with self._space.lock:
            self._space.bookmarks.pop(pipeline, None)
            if bookmark is not None:
                self._space.bookmarks[pipeline] = replace(bookmark, updated_at=at)

    def last_instant(self, table: TableRef, *, pipeline: str | None = None) -> datetime | None:
        """The newest `now` that was committed into `table`."""
        if pipeline is not None:
            return self._space.instants.get((table, pipeline))
        stored = self._space.tables.get(table)
        return stored.instant if stored else None

    def runs(self, *, pipeline: str | None = None, limit: int = 50) -> Sequence[Run]:
        """Records, newest first."""
        found = [run for run in list(self._space.runs.values()) if pipeline in (None, run.pipeline)]
        return sorted(found, key=lambda run: run.started_at, reverse=True)[:limit]


class MemoryLoad(Load):
    """One swap of one table."""

    def __init__(self, backend: MemoryBackend, incoming: DataFrame, declared: Table, commit: Commit) -> None:
        self.backend, self.declared, self.commit = backend, declared, commit
        self._space = backend.space
        self._ref = TableRef(declared.schema, declared.name)
        self._before = self._space.tables.get(self._ref)
        self._columns = self._before.columns if self._before else declared.columns
        self._unique = self._before.unique if self._before else declared.unique
        self._rows: pa.Table | None = None
        self._incoming = incoming
        self._incoming_rows: pa.Table | None = None
        self._queries = FrameQueries(backend.workshop.spark(), commit, {c.name: c.type for c in declared.columns})
        self._finished: tuple[Run, Bookmark | None] | None = None
        self.replayed = commit.token in self._space.tokens

    def evolve(self, change: SchemaChange) -> None:
        """Take the new columns and types in; added columns are empty in the rows that are there."""
        self._columns = evolved(self._columns, change)

    def measure(self, query: exp.Query) -> Sequence[tuple[object, ...]]:
        """The rows of a small query over `incoming` and `target`."""
        self._bind()
        return self._queries.rows(query)

    def apply(self, change: Change) -> Applied:
        """Make the rows that the table will hold."""
        read = self._bind()
        result = self._queries.arrow(change.rows)
        labels: Mapping[str, int] = {"insert": result.num_rows}
        match change:
            case Append():
                rows = self._joined(self._target(), result)
            case Replace():
                rows = self._joined(result)
            case Upsert():
                rows, labels = self._upserted(change, result)
        for column in self.declared.columns:
            if not column.nullable and rows[column.name].null_count:
                raise CheckError(
                    f"table {self.declared.qualified_name!r}: rows have NULL in the column {column.name!r}, "
                    "which may not be NULL",
                    hint="nothing was written; change the source query or the table's declaration",
                )
        keys = change.keys if isinstance(change, Upsert) else self.declared.primary_key
        for group in (self.declared.primary_key, *self.declared.unique):
            if set(group) != set(keys):
                refuse_repeated(str(self._ref), group, _repeated(rows, group))
        self._rows = rows
        return Applied(read=read, labels=labels)

    def finish(self, run: Run, bookmark: Bookmark | None) -> None:
        """Keep the final record and bookmark for the commit."""
        self._finished = run, bookmark

    def close(self) -> None:
        """Swap the new version in, if nobody else was faster."""
        if self.replayed or self.commit.dry_run:
            return
        if self._finished is None:
            raise BackendError("the load ended without its record")
        run, bookmark = self._finished
        rows = self._target() if self._rows is None else self._rows
        with self._space.lock:
            if self._space.tables.get(self._ref) is not self._before:
                raise _overtaken(self._ref)
            version = self._before.version + 1 if self._before else 1
            before = self._before.instant if self._before else None
            instant = self.commit.now if before is None else max(before, self.commit.now)
            self._space.tables[self._ref] = Stored(rows, self._columns, self._unique, version, instant)
            self._space.instants[self._ref, run.pipeline] = instant
            self._space.tokens.add(self.commit.token)
            self._space.runs[run.run_id] = run
            if bookmark is not None:
                self._space.bookmarks[bookmark.pipeline] = replace(bookmark, updated_at=self.commit.now)

    def _bind(self) -> int:
        """Evaluate the source once, and let both names answer; gives the number of incoming rows."""
        if self._incoming_rows is None:
            self._incoming_rows = self._incoming.toArrow()
            incoming = arrow_frame(self._queries.spark, self._incoming_rows, self._incoming.schema)
            self._queries.bind(INCOMING, incoming)
            self._queries.bind(TARGET, self.backend.frame_of(self._target(), self._columns))
        return int(self._incoming_rows.num_rows)

    def _target(self) -> pa.Table:
        return self._joined(*([self._before.rows] if self._before else []))

    def _joined(self, *parts: pa.Table) -> pa.Table:
        """The rows of all parts in the table's columns and types; a column that a part lacks is NULL there."""
        import pyarrow as pa

        schema = _arrow_schema(self._columns)
        shaped = [_shaped(part, schema) for part in parts]
        return pa.concat_tables([schema.empty_table(), *shaped])

    def _upserted(self, change: Upsert, result: pa.Table) -> tuple[pa.Table, Mapping[str, int]]:
        import pyarrow as pa
        import pyarrow.compute as pc

        labels = {
            str(each["values"]): int(each["counts"]) for each in pc.value_counts(result[CHANGE_LABEL]).to_pylist()
        }
        target = self._target()
        touched = _keys(self._joined(result), change.keys)
        if len(set(touched)) < len(touched):
            raise CheckError(
                f"{self._ref} holds several rows for one key ({', '.join(change.keys)})",
                hint="remove the duplicates, or choose keys that identify one row",
            )
        gone = set(touched)
        kept = target.filter(pa.array([key not in gone for key in _keys(target, change.keys)], pa.bool_()))
        stays = pc.not_equal(result[CHANGE_LABEL], "remove")
        return self._joined(kept, result.filter(stays)), labels


def _overtaken(table: TableRef) -> ConflictError:
    return ConflictError(
        f"another load into {table} committed first", hint="run again: the load starts from what the other one left"
    )


def _repeated(rows: pa.Table, group: Sequence[str]) -> list[tuple[object, ...]]:
    """The values of a unique group that stand several times; a NULL is like no other."""
    import pyarrow.compute as pc

    counted = rows.group_by(list(group)).aggregate([([], "count_all")])
    found = counted.filter(pc.greater(counted["count_all"], 1)).select(list(group))
    return [row for row in _keys(found, group) if None not in row][:6]


def _keys(rows: pa.Table, names: Sequence[str]) -> list[tuple[object, ...]]:
    return list(zip(*(rows[name].to_pylist() for name in names), strict=True))


def _shaped(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    columns = [
        rows[each.name].cast(each.type) if each.name in rows.column_names else _missing(each, rows.num_rows)
        for each in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _missing(column: pa.Field, count: int) -> pa.Array:
    """The values of a column that rows have not: NULL, and false for the mark of deleted rows."""
    import pyarrow as pa

    marks = column.name == DELETED and pa.types.is_boolean(column.type)
    return pa.repeat(pa.scalar(False), count) if marks else pa.nulls(count, column.type)


def _portable(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    batches = [
        pa.RecordBatch.from_arrays(
            [portable_column(rows, each.name) for rows, each in zip(batch, schema, strict=True)], schema=schema
        )
        for batch in rows.to_batches()
    ]
    return pa.Table.from_batches(batches, schema)


def _arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([(column.name, arrow_type(column.type)) for column in columns])
