"""What the SQL databases share: loads as one transaction, strategies as queries over staging and the table itself.

A database adds facts (its dialect, its reflection, how rows travel between it and Spark), never another load.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from sqlglot import exp

from ..errors import BackendError, CheckError, FlowError
from ..spec.connection import Connection
from ..spec.place import Place, Prefix, Query, TableRef
from ..spec.run import Bookmark, Commit, Run
from ..spec.table import Table
from ..strategies.base import CHANGE_LABEL, INCOMING, TARGET, Change, Upsert
from .base import Actual, Applied, Backend, Frame, Load, Pushed, Relation, SchemaChange, run_values
from .sql_change import CHANGED, STAGED, Statement, bind, change_statements
from .sql_ddl import create_sql, index_sql
from .sql_ledger import SqlLedger, TokenRow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .workshop import Workshop

__all__ = ["SqlBackend", "SqlConnection", "SqlCursor", "SqlLoad"]

ROW_GROUP_BYTES = 16 * 2**20


class SqlCursor(Protocol):
    """What a statement gives back."""

    @property
    def description(self) -> Sequence[Sequence[object]] | None:
        """The columns of the result, name first."""

    def fetchall(self) -> list[tuple[object, ...]]:
        """Every row."""


class SqlConnection(Protocol):
    """An open connection: the small part of a driver that loads need."""

    def execute(self, sql: str, /) -> SqlCursor:
        """Run one statement."""

    def close(self) -> None:
        """Let go of the database."""


class SqlBackend(Backend):
    """A SQL database."""

    BEGIN: ClassVar[str] = "BEGIN"
    """Opens the load's transaction; takes the write lock at once where the database would deadlock otherwise."""
    KEYS: ClassVar[bool] = True
    """Tables are created with their primary key and unique constraints."""

    def __init__(self, connection: Connection, workshop: Workshop) -> None:
        super().__init__(connection, workshop)
        self._held: ContextVar[SqlConnection | None] = ContextVar("held", default=None)

    @property
    def ledger(self) -> SqlLedger:
        """Run records and bookmarks in the schema `ematix_flow` of this database."""
        return SqlLedger(self)

    @abstractmethod
    def connect(self) -> SqlConnection:
        """A new connection; ConnectError where there is no way in."""

    @abstractmethod
    def columns_in(self, connection: SqlConnection, table: TableRef) -> Actual | None:
        """The table as it is, seen from inside a transaction."""

    def columns(self, table: TableRef) -> Actual | None:
        """The table as it is; None where there is no such table."""
        with self.session() as connection:
            return self.columns_in(connection, table)

    @abstractmethod
    def driver_errors(self) -> tuple[type[Exception], ...]:
        """What the driver raises."""

    @abstractmethod
    def translate(self, error: Exception) -> FlowError:
        """The driver's error in our words."""

    @abstractmethod
    def export(self, connection: SqlConnection, sql: str, folder: Path) -> None:
        """Write the rows of a query into `folder` as Parquet, in batches."""

    @abstractmethod
    def stage(self, connection: SqlConnection, folder: Path, table: Table) -> None:
        """Make the Parquet files in `folder` answer to the temporary name STAGED, in the table's types."""

    @abstractmethod
    def rows_changed(self, cursor: SqlCursor) -> int:
        """How many rows the statement inserted, updated or deleted."""

    def prepare_frame(self, frame: DataFrame, table: Table) -> DataFrame:
        """The frame in the types that travel to this database without loss."""
        return frame

    def table_name(self, table: TableRef) -> exp.Table:
        """The table as this database names it."""
        return exp.table_(table.name, db=table.schema, quoted=True)

    def ensure_schema(self, connection: SqlConnection, schema: str) -> None:
        """Create the schema where it is missing."""
        name = self.dialect.quote(schema)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name}")

    @contextmanager
    def session(self) -> Iterator[SqlConnection]:
        """The connection that is held, or one for this block; the driver's errors come out in our words."""
        held = self._held.get()
        if held is not None:
            yield held
            return
        try:
            connection = self.connect()
        except self.driver_errors() as error:
            raise self.translate(error) from error
        try:
            yield _Translated(connection, self)
        finally:
            connection.close()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """One connection for all steps of the block: opening an embedded database can cost more than a small load."""
        with self.session() as connection:
            token = self._held.set(connection)
            try:
                yield
            finally:
                self._held.reset(token)

    @contextmanager
    def transaction(self, connection: SqlConnection) -> Iterator[None]:
        """All statements of the block, or none."""
        connection.execute(self.BEGIN)
        try:
            yield
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def read(self, place: Place) -> DataFrame:
        """The rows at `place`, exported once to Parquet and read by Spark from there."""
        folder = self.workshop.folder("read")
        with self.session() as connection:
            self.export(connection, self.source_sql(place), folder)
        return self.workshop.spark().read.parquet(str(folder))

    def source_sql(self, place: Place) -> str:
        """The query that gives the rows at `place`."""
        match place:
            case Query(sql):
                return self.user_sql(sql)
            case TableRef():
                return f"SELECT * FROM {self.table_name(place).sql(self.dialect.name)}"
            case Prefix():
                raise BackendError(
                    f"connection {self.connection.name!r} ({self.connection.kind}) holds tables, not files: {place}"
                )

    def relation_sql(self, table: TableRef) -> str:
        """The table as this database names it, in text."""
        return self.table_name(table).sql(self.dialect.name)

    def bound(self, query: exp.Query, target: TableRef) -> exp.Query:
        """The query over this database's own tables instead of the logical names."""
        return bind(query, {INCOMING: exp.table_(STAGED, quoted=True), TARGET: self.table_name(target)})

    def explain(self, table: Table, change: Change) -> Sequence[str]:
        """The statements that would make the change; the run's own values stand as `:now` and the like."""
        target = TableRef(table.schema, table.name)
        types = {column.name: column.type for column in table.columns}
        statements = change_statements(
            change,
            self.relation_sql(target),
            self.dialect.quote,
            lambda query: self.dialect.render(self.bound(query, target), {}, types),
        )
        return tuple(statement.sql for statement in statements)

    def evaluate(self, sql: str) -> None:
        """Run a query and forget its rows."""
        with self.session() as connection:
            connection.execute(sql).fetchall()

    def query_columns(self, sql: str) -> tuple[str, ...]:
        """The column names a query would give."""
        with self.session() as connection:
            cursor = connection.execute(f"SELECT * FROM (\n{self.user_sql(sql)}\n) AS _source LIMIT 0")
            return tuple(str(column[0]) for column in cursor.description or ())

    @contextmanager
    def load(self, incoming: Relation, table: Table, commit: Commit) -> Iterator[Load]:
        """One transaction: rows, token, bookmark and run record together."""
        folder = self._spool(incoming, table)
        with self.session() as connection:
            connection.execute(self.BEGIN)
            load = SqlLoad(self, connection, table, commit)
            try:
                load.open(incoming, folder)
                yield load
                load.close()
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("ROLLBACK" if commit.dry_run or load.replayed else "COMMIT")

    def _spool(self, incoming: Relation, table: Table) -> Path | None:
        """Let Spark finish before the transaction opens, so that the database is locked late and briefly."""
        if isinstance(incoming, Pushed):
            return None
        folder = self.workshop.folder("stage")
        # Readers hold a whole row group in memory; Spark's default of 128 MiB would be most of what they may have.
        writer = self.prepare_frame(incoming.frame, table).write.option("parquet.block.size", ROW_GROUP_BYTES)
        writer.mode("overwrite").parquet(str(folder))
        return folder


class _Translated:
    """A connection whose errors are ours."""

    def __init__(self, connection: SqlConnection, backend: SqlBackend) -> None:
        self._connection, self._backend = connection, backend

    def execute(self, sql: str, /) -> SqlCursor:
        try:
            return self._connection.execute(sql)
        except self._backend.driver_errors() as error:
            raise self._backend.translate(error) from error

    def close(self) -> None:
        self._connection.close()


class SqlLoad(Load):
    """A transaction on one table."""

    def __init__(self, backend: SqlBackend, connection: SqlConnection, table: Table, commit: Commit) -> None:
        self.backend, self.connection, self.table, self.commit = backend, connection, table, commit
        self.replayed = False
        self._ref = TableRef(table.schema, table.name)
        self._types = {column.name: column.type for column in table.columns}
        self._finished: tuple[Run, Bookmark | None] | None = None

    def open(self, incoming: Relation, folder: Path | None) -> None:
        """Look the token up and make `incoming` answer to its name."""
        self.replayed = self.backend.ledger.has_token(self.connection, self.commit.token)
        if self.replayed:
            return
        match incoming:
            case Pushed(sql, once):
                kind = "VIEW" if once else "TABLE"
                self.connection.execute(f"CREATE TEMPORARY {kind} {STAGED} AS {sql}")
            case Frame():
                assert folder is not None
                self.backend.stage(self.connection, folder, self.table)

    def evolve(self, change: SchemaChange) -> None:
        """Create the table or add its new columns, inside the transaction."""
        if change.create:
            self.backend.ensure_schema(self.connection, self.table.schema)
            self.connection.execute(create_sql(self.backend, change.table))
        for name in change.add:
            column = change.table.column(name)
            kind = self.backend.dialect.type_name(column.type)
            target = self.backend.table_name(self._ref).sql(self.backend.dialect.name)
            self.connection.execute(f"ALTER TABLE {target} ADD COLUMN {self.backend.dialect.quote(name)} {kind}")
        if change.create and self.backend.KEYS:
            for index in change.indexes:
                self.connection.execute(index_sql(self.backend, change.table, index))

    def measure(self, query: exp.Query) -> Sequence[tuple[object, ...]]:
        """The rows of a small query over `incoming` and `target`."""
        return self.connection.execute(self.render(query)).fetchall()

    def apply(self, change: Change) -> Applied:
        """Make the change to the target."""
        target = self.backend.relation_sql(self._ref)
        statements = change_statements(change, target, self.backend.dialect.quote, self.render)
        if isinstance(change, Upsert):
            return self._upsert(statements, change)
        for statement in statements:
            cursor = self.connection.execute(statement.sql)
        inserted = self.backend.rows_changed(cursor)
        # A load that resumes leaves rows out which earlier loads have brought; any other takes all it reads.
        read = inserted if self.commit.bookmark is None else self._incoming_rows()
        return Applied(read=read, labels={"insert": inserted})

    def finish(self, run: Run, bookmark: Bookmark | None) -> None:
        """Keep the final record and bookmark for the commit."""
        self._finished = run, bookmark

    def close(self) -> None:
        """Write token, bookmark and run record beside the rows."""
        if self.replayed or self.commit.dry_run:
            return
        if self._finished is None:
            raise BackendError("the load ended without its record")
        run, bookmark = self._finished
        token = TokenRow(self.commit.token, run.pipeline, run.run_id, self._ref, self.commit.now)
        self.backend.ledger.commit(self.connection, token, run, bookmark)

    def render(self, query: exp.Query) -> str:
        """A strategy's query in this database's words, over its own tables."""
        dialect = self.backend.dialect
        values = run_values(self.commit, dialect, self._types)
        return dialect.render(self.backend.bound(query, self._ref), values, self._types)

    def _upsert(self, statements: Sequence[Statement], change: Upsert) -> Applied:
        fill, *rest = statements
        self.connection.execute(fill.sql)
        label = self.backend.dialect.quote(CHANGE_LABEL)
        counted = self.connection.execute(f"SELECT {label}, COUNT(*) FROM {CHANGED} GROUP BY {label}").fetchall()
        labels = {str(name): int(str(count)) for name, count in counted}
        self._refuse_ambiguous(change)
        for statement in rest:
            if statement.is_needed(labels):
                self.connection.execute(statement.sql)
        return Applied(read=self._incoming_rows(), labels=labels)

    def _incoming_rows(self) -> int:
        return int(str(self.connection.execute(f"SELECT COUNT(*) FROM {STAGED}").fetchall()[0][0]))

    def _refuse_ambiguous(self, change: Upsert) -> None:
        """A key that stands several times in the target cannot be told apart."""
        keys = ", ".join(self.backend.dialect.quote(key) for key in change.keys)
        twice = self.connection.execute(
            f"SELECT {keys} FROM {CHANGED} GROUP BY {keys} HAVING COUNT(*) > 1 LIMIT 5"
        ).fetchall()
        if twice:
            shown = ", ".join(str(row if len(row) > 1 else row[0]) for row in twice)
            raise CheckError(
                f"{self._ref} holds several rows for one key ({', '.join(change.keys)}): {shown}",
                hint="remove the duplicates, or choose keys that identify one row",
            )
