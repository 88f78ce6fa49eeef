"""Folders of Parquet, CSV, ORC or JSON Lines files on a local disk: read, append, replace.

A load becomes visible by one entry in the table's commit log, see `file_commits`. Readers through this package see
whole loads only. Other programs that read the folder never see uncommitted rows either, but while a replace is being
published they may see the old and the new files together for a moment.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp

from ..errors import BackendError, SpecError, UnknownNameError, UnsupportedError
from ..spec.place import Place, Prefix, Query, TableRef
from ..spec.run import Bookmark, Commit, Run
from ..spec.table import Table
from ..strategies.base import INCOMING, TARGET, Append, Change, Replace, Upsert
from ..types import JSON, JSONB, UUID, String, Text, TimestampTZ
from .base import Actual, Applied, Capabilities, Frame, Load, Relation, SchemaChange
from .connection import ObjectStoreLocalConnection
from .file_commits import CommitLog, DataFile, Entry, LogState, Staging
from .file_formats import FileFormat, file_format
from .file_ledger import FileLedger
from .file_table import DATA, FileReader, FileTable, Layout, data_files, frame_types
from .folder import FolderBackend
from .frames import (
    SPARK,
    FrameQueries,
    Tally,
    conform,
    evolved,
    mentions,
    null_rules,
    query_frame,
    refuse_repeated,
    repeated,
    schema_ddl,
)
from .owner import current_owner
from .spark_dialect import SparkDialect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["FilesBackend", "FilesLoad", "ObjectStoreLocalConnection"]


class FilesBackend(FolderBackend):
    """Files on a local disk."""

    can = Capabilities(
        changes=frozenset({Append, Replace}),
        guarantee=(
            "all of a load or none of it, exactly once for one token; programs that read the folder without this "
            "package may see the old and the new files together while a replace is published"
        ),
        instead="files take append and truncate; to change single rows use a Delta or Iceberg table, or a database",
    )
    dialect = SparkDialect()
    connection: ObjectStoreLocalConnection

    @cached_property
    def format(self) -> FileFormat:
        """The format of the connection's tables."""
        return file_format(self.connection.format)

    @property
    def ledger(self) -> FileLedger:
        """Run documents in the connection's folder."""
        return FileLedger(self.root, self.log)

    def log(self, table: TableRef) -> CommitLog:
        """The commit log of `table`."""
        return CommitLog(self.folder(table), published=self.ledger.record)

    def described(self, tables: int) -> str:
        """The folder's content in words."""
        return f"{super().described(tables)}, {self.connection.format} files"

    def read(self, place: Place) -> DataFrame:
        """The rows at `place`: of the files that are live at this moment."""
        match place:
            case TableRef():
                return self._table_frame(place)
            case Query(sql):
                return query_frame(self.workshop.spark(), sql, self._table_frame)
            case Prefix():
                return self._prefix_frame(place)

    def columns(self, table: TableRef) -> Actual | None:
        """The table as declared where a load wrote it, as its files say otherwise; None where there are none."""
        found = FileTable(self.log(table))
        return found.actual(found.log.state(), self.reader)

    @contextmanager
    def load(self, incoming: Relation, table: Table, commit: Commit) -> Iterator[Load]:
        """Files staged, then one entry in the commit log: rows, token, bookmark and run record together."""
        if not isinstance(incoming, Frame):
            raise UnsupportedError(f"connection {self.connection.name!r} runs no queries of its own")
        load = FilesLoad(self, incoming.frame, table, commit)
        try:
            yield load
            load.close()
        finally:
            load.discard()

    def reader(self) -> FileReader:
        """How this connection's files are read."""
        return FileReader(self.workshop.spark(), self.format, self.connection.options)

    def _table_frame(self, table: TableRef) -> DataFrame:
        found = FileTable(self.log(table))
        found.log.roll_forward()
        state = found.log.state()
        if not found.exists(state):
            where = f"connection {self.connection.name!r}"
            raise UnknownNameError("table", str(table), known=self.known_tables(), where=where)
        return found.frame(state, self.reader())

    def _prefix_frame(self, place: Prefix) -> DataFrame:
        inner = Path(place.path)
        if inner.is_absolute() or ".." in inner.parts:
            raise SpecError(f"{place.path!r} is not below the connection's folder", hint="write a path relative to it")
        same = place.format == self.connection.format
        options = self.connection.options if same else {}
        reader = FileReader(self.workshop.spark(), file_format(place.format), options)
        log = CommitLog(self.root / inner, published=self.ledger.record)
        log.roll_forward()
        if same and (state := log.state()).seq:
            return FileTable(log).frame(state, reader)
        files = self._files_at(place.path)
        if not files:
            raise BackendError(f"connection {self.connection.name!r}: there is no file at {place.path!r}")
        return reader.found(files, self._base(files))

    def _files_at(self, pattern: str) -> list[Path]:
        """The files that a path or a glob names, and those below the folders that it names."""
        exact = self.root / pattern
        places = [exact] if exact.exists() else sorted(self.root.glob(pattern))
        files: list[Path] = []
        for path in places:
            if path.is_dir():
                files += [path / name for name in data_files(path)]
            elif not path.name.startswith(("_", ".")):
                files.append(path)
        return list(dict.fromkeys(files))

    def _base(self, files: Sequence[Path]) -> Path:
        """The folder that all files share, above the first one that stands for a partition."""
        common = Path(os.path.commonpath([file.parent for file in files]))
        parts = common.relative_to(self.root).parts
        first = next((i for i, part in enumerate(parts) if "=" in part), len(parts))
        return self.root.joinpath(*parts[:first])


class FilesLoad(Load):
    """One commit of one folder."""

    def __init__(self, backend: FilesBackend, incoming: DataFrame, declared: Table, commit: Commit) -> None:
        self.backend, self.declared, self.commit = backend, declared, commit
        self._incoming = incoming
        self._log = backend.log(TableRef(declared.schema, declared.name))
        self._log.repair()
        self._state: LogState = self._log.state()
        self._table = FileTable(self._log)
        self.replayed = commit.token in self._state.tokens
        self._staging: Staging | None = None
        self._committed = False
        self._queries = FrameQueries(backend.workshop.spark(), commit, {c.name: c.type for c in declared.columns})
        self._read: Tally | None = None
        self._added: list[DataFile] = []
        self._removed: tuple[str, ...] = ()
        self._finished: tuple[Run, Bookmark | None] | None = None

    @cached_property
    def layout(self) -> Layout:
        """The columns as the load leaves them."""
        return self._table.target_layout(self._state, self.declared, self.backend.reader)

    def evolve(self, change: SchemaChange) -> None:
        """Take the new columns into the layout, which is committed with the rows."""
        layout = self.layout
        columns = evolved(layout.columns, change)
        for column in columns:
            if isinstance(column.type, self.backend.format.unwritable):
                raise UnsupportedError(
                    f"table {self.declared.qualified_name!r}: column {column.name!r} ({column.type}) has no form in "
                    f"{self.backend.format.name} files",
                    hint="use the format parquet, or keep the bytes as text",
                    declared_at=self.declared.declared_at,
                )
            if set(column.name) & set(self.backend.format.bad_names):
                raise UnsupportedError(
                    f"table {self.declared.qualified_name!r}: {self.backend.format.name} files lose the values of a "
                    f"column called {column.name!r}",
                    hint=f"leave {self.backend.format.bad_names} out of the name, or use the format parquet",
                    declared_at=self.declared.declared_at,
                )
        self.layout = replace(layout, columns=columns)

    def measure(self, query: exp.Query) -> Sequence[tuple[object, ...]]:
        """The rows of a small query; the incoming rows are evaluated once, whatever is asked of them."""
        if mentions(query, INCOMING):
            self._keep_incoming()
        self._bind_target(query)
        return self._queries.rows(query)

    def apply(self, change: Change) -> Applied:
        """Stage the files that the change adds."""
        if isinstance(change, Upsert):
            raise UnsupportedError(
                f"files cannot change single rows, so {self.declared.qualified_name!r} cannot take them",
                hint="use append or truncate, or a Delta or Iceberg table",
                declared_at=self.declared.declared_at,
            )
        if self.declared.unique:
            self._keep_incoming()
        if not self._queries.knows(INCOMING):
            self._read = Tally({})
            self._queries.bind(INCOMING, self._read.watch(self._incoming))
        self._refuse_broken(change)
        self._bind_target(change.rows)
        inserted = self._write(self._queries.frame(change.rows))
        if isinstance(change, Replace):
            self._removed = (*self._state.files, *self._table.foreign(self._state))
        assert self._read is not None
        return Applied(read=self._read.rows(), labels={"insert": inserted})

    def finish(self, run: Run, bookmark: Bookmark | None) -> None:
        """Keep the final record and bookmark for the commit."""
        self._finished = run, bookmark

    def close(self) -> None:
        """Commit, then publish."""
        if self.replayed or self.commit.dry_run:
            return
        if self._finished is None:
            raise BackendError("the load ended without its record")
        run, bookmark = self._finished
        self.backend.ledger.note_table(run)
        spec = self.layout.to_spec()
        adopted = () if self._removed else self._table.foreign(self._state)
        entry = Entry(
            seq=self._state.seq + 1,
            token=self.commit.token,
            instant=self.commit.now,
            run=run,
            bookmark=bookmark,
            added=(*(DataFile(path) for path in adopted), *self._added),
            removed=self._removed,
            schema=None if self._state.schemas and self._state.schemas[-1] == spec else spec,
        )
        self._log.commit(entry, self._stage())
        self._committed = True
        self._publish(entry)

    def discard(self) -> None:
        """Remove what an uncommitted load staged."""
        if self._staging is not None and not self._committed:
            self._log.discard(self._staging)

    def _publish(self, entry: Entry) -> None:
        try:
            self._log.publish(entry, self._stage())
            self._state.add(entry)
            self._log.save_checkpoint(self._state)
        except OSError as error:
            warnings.warn(
                f"the load into {self.declared.qualified_name} is committed, but its files could not be put in their "
                f"places ({error}); the next read or load will try again",
                stacklevel=2,
            )

    def _stage(self) -> Staging:
        if self._staging is None:
            run = self.commit.run
            self._staging = self._log.stage(self._state, run.run_id, run.owner or current_owner())
        return self._staging

    def _keep_incoming(self) -> None:
        """Evaluate the source once into Parquet: asked again, it could answer differently."""
        if self._queries.knows(INCOMING):
            return
        path = str(self._stage().path / INCOMING)
        self._read = Tally({})
        self._read.watch(self._incoming).write.parquet(path)
        self._queries.bind(INCOMING, self._queries.spark.read.schema(self._incoming.schema).parquet(path))

    def _bind_target(self, query: exp.Query) -> None:
        if self._queries.knows(TARGET) or not mentions(query, TARGET):
            return
        if self._table.exists(self._state):
            stored = self._table.frame(self._state, self.backend.reader())
            frame = conform(stored, self.declared.columns, frame_types(stored))
        else:
            frame = self._queries.spark.createDataFrame([], schema_ddl(self.declared.columns))
        self._queries.bind(TARGET, frame)

    def _refuse_broken(self, change: Append | Replace) -> None:
        """Unique groups: no file enforces them."""
        for group in self.declared.unique:
            query = repeated(change.rows, group, with_target=isinstance(change, Append))
            self._bind_target(query)
            refuse_repeated(str(TableRef(self.declared.schema, self.declared.name)), group, self._queries.rows(query))

    def _write(self, rows: DataFrame) -> int:
        """Stage the rows as the files they will be, and see that they come back as they are."""
        form, layout = self.backend.format, self.layout
        given = {c.name: c.type for c in self.declared.columns if c.name in rows.columns}
        tally = Tally({**null_rules(self.declared.columns), **self._text_rules(), **self._time_rules()})
        path = self._stage().path / DATA
        options = form.spark_options(self.backend.connection.options, form.writing)
        frame = tally.watch(conform(rows, layout.columns, given))
        frame.write.format(form.spark).options(**options).partitionBy(*layout.partitions).save(str(path))
        tally.check(f"table {self.declared.qualified_name!r}")
        if tally.rows():
            self._added = list(self._named(path))
        return tally.rows()

    def _named(self, path: Path) -> Iterator[DataFile]:
        schema = len(self._state.schemas) - (1 if self._is_current() else 0)
        for number, name in enumerate(data_files(path)):
            staged = Path(path, name)
            suffix = staged.name.partition(".")[2]
            final = Path(name).parent / f"part-{self.commit.run.run_id}-{number:04d}.{suffix}"
            if str(final) in self._state.files:
                raise BackendError(
                    f"run {self.commit.run.run_id} has already loaded into {self.declared.qualified_name}"
                )
            yield DataFile(str(final), schema, str(staged.relative_to(self._log.folder)))

    def _is_current(self) -> bool:
        return bool(self._state.schemas) and self._state.schemas[-1] == self.layout.to_spec()

    def _time_rules(self) -> dict[str, str]:
        """Instants that the format's library gives back wrong."""
        if not self.backend.format.loses_last_second_of_1969:
            return {}
        times = [c.name for c in self.layout.columns if isinstance(c.type, TimestampTZ)]
        second = "> TIMESTAMP'1969-12-31 23:59:59' AND {} < TIMESTAMP'1970-01-01 00:00:00'"
        return {
            f"a fraction of the last second of 1969 in the column {name!r}, which the format cannot keep": (
                f"{SPARK.quote(name)} {second.format(SPARK.quote(name))}"
            )
            for name in times
        }

    def _text_rules(self) -> dict[str, str]:
        """Texts that would come back as NULL: in the name of a folder, or because they are written like NULL."""
        texts = [c.name for c in self.layout.columns if isinstance(c.type, Text | String | JSON | JSONB | UUID)]
        rules = {
            f"an empty text in the column {name!r}, which names folders": f"{SPARK.quote(name)} = ''"
            for name in texts
            if name in self.layout.partitions
        }
        null = str(self.backend.connection.options.get("null_value", ""))
        if null and not self.backend.format.typed:
            equal = f"= {exp.Literal.string(null).sql(SPARK.name)}"
            rules |= {
                f"{null!r} in the column {name!r}, which stands for NULL in the file": f"{SPARK.quote(name)} {equal}"
                for name in texts
            }
        return rules
