"""What the SQL databases share: loads as one transaction, strategies as queries over staging and the table itself.

A database adds facts (its dialect, its reflection, how rows travel between it and Spark), never another load.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

from sqlglot import exp

from ..errors import BackendError, FlowError
from ..spec.connection import Connection
from ..spec.place import Place, Prefix, Query, TableRef
from ..spec.run import Commit, Run
from ..spec.table import Column, Table
from ..strategies.base import INCOMING, TARGET, Change
from .base import Actual, Backend, Load, Piped, Pushed, QueryColumn, QueryResult, Relation, SchemaChange, Spooled
from .sql_change import STAGED, Spelling, bind, change_statements
from .sql_connection import SqlConnection, SqlCursor, Translated, roll_back
from .sql_ddl import change_table
from .sql_ledger import BOOKKEEPING_SCHEMA, SqlLedger
from .sql_load import SqlLoad
from .sql_text import check_query, check_statement, is_query

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from ..types import ColumnType
    from .base import Attach
    from .workshop import Workshop

__all__ = ["SqlBackend", "SqlConnection", "SqlCursor"]

ROW_GROUP_BYTES = 16 * 2**20

Opened = TypeVar("Opened")
Waiting = Path | Piped
"""Rows from outside: Parquet files in whatever form `receive` gave them, or what another database sends."""


class SqlBackend(Backend):
    """A SQL database."""

    BEGIN: ClassVar[str] = "BEGIN"
    """Opens the load's transaction; takes the write lock at once where the database would deadlock otherwise."""
    KEYS: ClassVar[bool] = True
    """Tables are created with their primary key and unique constraints."""
    KEYS_LATER: ClassVar[bool] = False
    """A load that makes a table gives it keys and indexes when its rows are there, which is faster."""
    CREATE_INDEX: ClassVar[str] = "CREATE INDEX IF NOT EXISTS"
    BOOKKEEPING_HINT: ClassVar[str | None] = None
    """What to do where the tables of the ledger cannot be made."""

    def __init__(self, connection: Connection, workshop: Workshop) -> None:
        super().__init__(connection, workshop)
        self._held: ContextVar[SqlConnection | None] = ContextVar("held", default=None)
        self.untold: dict[str, Run] = {}
        """Runs that ended while the database could not be told, by their id."""

    @property
    def ledger(self) -> SqlLedger:
        """Run records and bookmarks in a schema of this database."""
        return SqlLedger(self)

    @property
    def bookkeeping_schema(self) -> str:
        """The schema of the ledger's tables."""
        return BOOKKEEPING_SCHEMA

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

    def receive(self, folder: Path) -> Path:
        """Bring the Parquet files in `folder` into a form that `stage` can take; the transaction is not open yet."""
        return folder

    @abstractmethod
    def stage(self, connection: SqlConnection, staged: Waiting, table: Table) -> Literal["TABLE", "VIEW"]:
        """Make what `receive` left answer to the temporary name STAGED, in the table's types; tells as what."""

    def stage_query(self, connection: SqlConnection, incoming: Pushed, table: Table) -> Literal["TABLE", "VIEW"]:
        """Make the rows of a query of this database answer to the temporary name STAGED; tells as what."""
        if incoming.attach is not None:
            incoming.attach(connection)
        kind: Literal["TABLE", "VIEW"] = "VIEW" if incoming.once else "TABLE"
        connection.execute(f"CREATE TEMPORARY {kind} {STAGED} AS {incoming.sql}")
        return kind

    def delivers(self, connection: SqlConnection, table: Table) -> bool:
        """Whether what `receive` left can go straight into the table, without being staged."""
        return False

    def deliver(self, connection: SqlConnection, staged: Waiting, table: Table, constants: Mapping[str, object]) -> int:
        """Put what `receive` left straight into the table, each row with the same `constants`; gives their number."""
        raise BackendError(
            f"connection {self.connection.name!r} ({self.connection.kind}) stages rows from outside first"
        )

    def settle(self, connection: SqlConnection, name: str, columns: Sequence[str] = ()) -> None:
        """Let the planner look at columns of a temporary table that was filled just now, where it has not by itself."""

    def take_turn(self, connection: SqlConnection, table: TableRef) -> None:
        """Wait until no other load into the table is under way, where the database does not see to that by itself."""

    @abstractmethod
    def rows_changed(self, cursor: SqlCursor) -> int:
        """How many rows the statement inserted, updated or deleted."""

    def prepare_frame(self, frame: DataFrame, table: Table) -> DataFrame:
        """The frame in the types that travel to this database without loss."""
        return frame

    def table_name(self, table: TableRef) -> exp.Table:
        """The table as this database names it."""
        return exp.table_(table.name, db=table.schema, quoted=True)

    def index_name(self, index: TableRef) -> str:
        """An index beside its table, as a statement that creates it names it."""
        return self.relation_sql(index)

    def column_sql(self, table: Table, column: Column) -> str:
        """A column's type in the DDL of its table."""
        return self.dialect.type_name(column.type)

    def indexed(self, column: Column) -> str:
        """A column in the list of those that an index is made of."""
        return self.dialect.quote(column.name)

    def widen_sql(self, table: Table, column: Column) -> str:
        """What gives a column of the table, within ALTER TABLE, a wider type."""
        return f"ALTER COLUMN {self.dialect.quote(column.name)} SET DATA TYPE {self.column_sql(table, column)}"

    def change_table(
        self, connection: SqlConnection, change: SchemaChange, *, rehearsal: bool = False, keyed: bool = True
    ) -> None:
        """Create the table, or add and widen its columns, in the transaction that is open; a rehearsal is undone."""
        change_table(self, connection, change, keyed=keyed)

    def ensure_schema(self, connection: SqlConnection, schema: str) -> None:
        """Create the schema where it is missing."""
        name = self.dialect.quote(schema)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name}")

    @contextmanager
    def session(self, *, fresh: bool = False, patient: bool = True) -> Iterator[SqlConnection]:
        """The connection that is held, or one for this block; the driver's errors come out in our words.

        A `fresh` one is made for the block in any case, so that nothing of what it did stays behind. Who is not
        `patient` hears at once that there is no way in.
        """
        held = None if fresh else self._held.get()
        if held is not None:
            yield held
            return
        connection = self.patiently(self.connect) if patient else self.once(self.connect)
        try:
            yield Translated(connection, self.driver_errors(), self.translate)
        finally:
            connection.close()

    def once(self, open: Callable[[], Opened]) -> Opened:
        """What `open` gives; the driver's errors come out in our words."""
        try:
            return open()
        except self.driver_errors() as error:
            raise self.translate(error) from error

    def patiently(self, open: Callable[[], Opened]) -> Opened:
        """What `open` gives, where a system may be away for a moment after some further tries."""
        return self.once(open)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """One connection for all steps of the block: opening an embedded database can cost more than a small load."""
        with self.session() as connection, self._holding(connection):
            yield

    @contextmanager
    def _holding(self, connection: SqlConnection) -> Iterator[None]:
        token = self._held.set(connection)
        try:
            yield
        finally:
            self._held.reset(token)

    def writer(self) -> AbstractContextManager[object]:
        """Lets one load of this process at a time write, where the database itself would let two pass each other."""
        return nullcontext()

    @contextmanager
    def transaction(self, connection: SqlConnection) -> Iterator[None]:
        """All statements of the block, or none."""
        with self.writer():
            connection.execute(self.BEGIN)
            try:
                yield
                connection.execute("COMMIT")
            except BaseException as error:
                roll_back(connection, error)
                raise

    def attempt(self, connection: SqlConnection) -> AbstractContextManager[object]:
        """A part of a transaction that may fail, while what was done before it stays."""
        return nullcontext()

    def read(self, place: Place) -> DataFrame:
        """The rows at `place`, exported once to Parquet and read by Spark from there."""
        with self.session() as connection:
            folder = self.workshop.exchange("read")
            self.export(connection, self.source_sql(place), folder)
        return self.workshop.spark().read.parquet(str(folder))

    def read_arrow(self, query: Query) -> pa.Table:
        """The rows of a query, exported as Parquet and read back; Spark has nothing to do."""
        import pyarrow.parquet as pq

        folder = self.workshop.folder("read")
        with self.session() as connection:
            self.export(connection, self.source_sql(query), folder)
        return pq.read_table(folder)

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

    def bound(self, query: exp.Query, table: Table) -> exp.Query:
        """The query over this database's own tables instead of the logical names."""
        return bind(query, {INCOMING: exp.table_(STAGED, quoted=True), TARGET: self.compared_table(table)})

    def compared_table(self, table: Table) -> exp.Table | exp.Subquery:
        """The table, with its columns in types that this database can compare; incoming rows are in them already."""
        target = self.table_name(TableRef(table.schema, table.name))
        kinds = {column.name: column.type for column in table.columns}
        if all(self.dialect.compared_type(kind) == kind for kind in kinds.values()):
            return target
        columns = ((exp.column(name, quoted=True), kind) for name, kind in kinds.items())
        shown = [self.dialect.compared(column, kind).as_(column.name, quoted=True) for column, kind in columns]
        return exp.select(*shown).from_(target).subquery()

    def spelling(
        self, table: Table, render: Callable[[exp.Query], str], connection: SqlConnection | None = None
    ) -> Spelling:
        """How this database says changes to a table; without a connection, to one that is as declared."""
        casts = {
            column.name: self.dialect.type_name(column.type)
            for column in table.columns
            if self.dialect.compared_type(column.type) != column.type
        }
        return Spelling(self.relation_sql(TableRef(table.schema, table.name)), self.dialect.quote, render, casts)

    def rows_touched(self, connection: SqlConnection, table: TableRef) -> Mapping[str, int]:
        """How many rows of a table the transaction has touched, by label; where changes are made at once."""
        raise NotImplementedError

    def looking_up(
        self, connection: SqlConnection, table: TableRef, rows: int, is_found: Callable[[], bool]
    ) -> AbstractContextManager[object]:
        """Statements of the block look so many rows of the table up one by one, where they can be found and it pays."""
        return nullcontext()

    def explain(self, table: Table, change: Change) -> Sequence[str]:
        """The statements that would make the change; the run's own values stand as placeholders such as `:now`."""
        types = {column.name: column.type for column in table.columns}
        spelling = self.spelling(table, lambda query: self.dialect.render(self.bound(query, table), {}, types))
        statements = change_statements(change, spelling)
        return tuple(statement.sql for statement in statements)

    def export_rows(self, place: Place, folder: Path) -> Mapping[str, ColumnType]:
        """Write the rows at `place` into `folder` as Parquet; gives the types that are known of their columns."""
        sql = self.source_sql(place)
        with self.session() as connection:
            self.export(connection, sql, folder)
        known = {column.name: self.dialect.column_type(column.type) for column in self.query_columns(sql)}
        return {name: kind for name, kind in known.items() if kind is not None}

    def evaluate(self, sql: str, *, attach: Attach | None = None) -> Sequence[tuple[object, ...]]:
        """The few rows of a query of our own."""
        with self.session(fresh=attach is not None) as connection:
            if attach is not None:
                attach(connection)
            return connection.execute(sql).fetchall()

    def execute(self, statements: Sequence[str]) -> int:
        """Run statements in one transaction; gives how many rows they changed."""
        for sql in statements:
            check_statement(sql, self.dialect.name)
        # One statement is all or nothing by itself, and some, such as VACUUM, refuse to be in a transaction.
        is_one = len(statements) == 1
        with self.session() as connection, self.writer() if is_one else self.transaction(connection):
            return sum(self._changed_by(connection, sql) for sql in statements)

    def _changed_by(self, connection: SqlConnection, sql: str) -> int:
        cursor = connection.execute(self.user_sql(sql))
        # Some drivers count the rows that a query gives as well.
        return 0 if is_query(sql, self.dialect.name) else max(0, self.rows_changed(cursor))

    def query(self, sql: str, max_rows: int | None = None) -> QueryResult:
        """The rows of a query; of those that nobody asked for one is fetched, to know that there are more."""
        check_query(sql, self.dialect.name)
        with self.session() as connection:
            cursor = connection.execute(self.user_sql(sql))
            described = cursor.description or ()
            rows = cursor.fetchall() if max_rows is None else cursor.fetchmany(max_rows + 1)
            kept = rows[:max_rows]
            return QueryResult(self.result_columns(described, kept), kept, truncated=len(rows) > len(kept))

    def result_columns(
        self, described: Sequence[Sequence[object]], rows: Sequence[tuple[object, ...]]
    ) -> tuple[QueryColumn, ...]:
        """The columns of a result, from what the driver tells of them."""
        return tuple(QueryColumn(str(column[0]), str(column[1] or "")) for column in described)

    def change_schema(self, table: TableRef, decide: Callable[[Actual | None], SchemaChange | None]) -> None:
        """Look at a table and change it as `decide` says, in one transaction."""
        with self.session() as connection, self.transaction(connection):
            self.take_turn(connection, table)
            change = decide(self.columns_in(connection, table))
            if change is not None:
                self.change_table(connection, change)

    def query_columns(self, sql: str) -> tuple[QueryColumn, ...]:
        """The columns a query would give."""
        with self.session() as connection:
            cursor = connection.execute(f"SELECT * FROM ({self.user_sql(sql)}\n) AS _source LIMIT 0")
            return self.result_columns(cursor.description or (), ())

    @contextmanager
    def load(self, incoming: Relation, table: Table, commit: Commit) -> Iterator[Load]:
        """One transaction: rows, token, bookmark and run record together.

        What is asked of the database inside the block is answered by the load's own connection.
        """
        staged = self._spool(incoming, table)
        with self.writer(), self.session() as connection, self._holding(connection):
            connection.execute(self.BEGIN)
            load = SqlLoad(self, connection, table, commit)
            keeps = False
            try:
                load.open(incoming, staged)
                yield load
                load.close()
                keeps = not (commit.dry_run or load.replayed)
                connection.execute("COMMIT" if keeps else "ROLLBACK")
            except BaseException as error:
                roll_back(connection, error)
                raise
            if keeps:
                with suppress(FlowError):  # the rows are committed, whatever becomes of the connection now
                    load.forget()

    def _spool(self, incoming: Relation, table: Table) -> Waiting | None:
        """Let everything slow happen before the transaction opens, so that the database is locked late and briefly."""
        if isinstance(incoming, Pushed):
            return None
        if isinstance(incoming, Piped):
            return incoming
        if isinstance(incoming, Spooled):
            return self.receive(incoming.folder)
        folder = self.workshop.exchange("stage")
        # Readers hold a whole row group in memory; Spark's default of 128 MiB would be most of what they may have.
        writer = self.prepare_frame(incoming.frame, table).write.option("parquet.block.size", ROW_GROUP_BYTES)
        writer.mode("overwrite").parquet(str(folder))
        return self.receive(folder)
