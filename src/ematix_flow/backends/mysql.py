"""MySQL and MariaDB: loads as one transaction of rows, which LOAD DATA brings in."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, cast

from sqlglot import exp

from ..errors import ConflictError, FlowError
from ..spec.place import TableRef
from ..spec.run import Commit
from ..spec.table import Column, Table
from ..strategies.base import CHANGE_LABEL, EVENT_TIME
from ..types import JSON, JSONB, Bytes, ColumnType, Numeric, String, Text, TimestampTZ
from .arrow_files import parquet_types
from .base import Actual, Backend, Capabilities, Fact, Load, Pushed, QueryColumn, QueryResult, Relation, SchemaChange
from .mysql_copy import LOAD_FORMAT, batches, rows_of, sent, written
from .mysql_cut import find_cut
from .mysql_dialect import MySQLDialect
from .mysql_errors import in_our_words
from .mysql_facts import facts_of, schema_state
from .mysql_read import read_cut, taking
from .mysql_session import FOR_EVER, STAND_IN, MySQLSession, address, open_driver
from .mysql_tables import TEXT_KEY, MySQLSpelling, read_table, refuse_lasting
from .optional import optional
from .server import SchemaState, ServerBackend
from .server_connection import MySQLConnection
from .sql import SqlConnection, Waiting
from .sql_change import STAGED, Spelling
from .sql_connection import Translated
from .sql_ddl import change_table, create_sql

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MySQLBackend"]

KEY_CHARACTERS = 255
"""How long a text may be that is part of a key, which needs a bound here."""
INDEXED_CHARACTERS = 191


class MySQLBackend(ServerBackend):
    """A database of MySQL 8 or MariaDB 10.6, or newer. A schema is a database there."""

    can = Capabilities(
        pushed=True,
        takes_frames=True,
        takes_typed=True,
        exports=True,
        enforces_keys=True,
        guarantee="all rows of a load or none, exactly once for one token; a new or wider table is made before them",
    )
    dialect: MySQLDialect = MySQLDialect()
    """The server's own from the first session on; what is told before any is in MariaDB's words."""
    _is_known = False
    connection: MySQLConnection
    CREATE_INDEX = "CREATE INDEX"
    LONGEST_NAME = 64

    def connect(self) -> SqlConnection:
        session = MySQLSession(open_driver(self.connection, local_infile=self.connection.local_infile), self.connection)
        if not self._is_known:
            self.dialect, self._is_known = MySQLDialect(session.collation), True
        return session

    def ping(self) -> str:
        with self.session(patient=False) as connection:
            version, database = connection.execute("SELECT VERSION(), DATABASE()").fetchall()[0]
        product = "MariaDB" if "MariaDB" in str(version) else "MySQL"
        return f"{product} {str(version).partition('-')[0]}, database {database}"

    def facts(self) -> Sequence[Fact]:
        with self.session() as connection:
            return facts_of(connection, self.bookkeeping_schema, local_infile=self.connection.local_infile)

    def same_system(self, other: Backend) -> bool:
        """One server, one user: another user may see what this one must not."""
        if self is other:
            return True
        return isinstance(other, MySQLBackend) and address(self.connection) == address(other.connection)

    @contextmanager
    def attempt(self, connection: SqlConnection) -> Iterator[None]:
        """What a failed attempt wrote is taken back; a deadlock has ended the whole transaction by itself."""
        connection.execute("SAVEPOINT ematix_attempt")
        try:
            yield
        except FlowError:
            with suppress(FlowError):
                connection.execute("ROLLBACK TO SAVEPOINT ematix_attempt")
            raise

    def driver_errors(self) -> tuple[type[Exception], ...]:
        return (optional("pymysql", extra="mysql").err.Error,)

    def translate(self, error: Exception) -> FlowError:
        return in_our_words(error, self.connection, self.dialect.collation)

    def ensure_schema(self, connection: SqlConnection, schema: str) -> None:
        # Asked for first: a user who may not make databases may still use one.
        name = self.dialect.literal(schema, Text()).sql("mysql")
        found = connection.execute(f"SELECT 1 FROM information_schema.schemata WHERE schema_name = {name}").fetchall()
        if not found:
            connection.execute(f"CREATE DATABASE IF NOT EXISTS {self.dialect.quote(schema)}")

    def column_sql(self, table: Table, column: Column) -> str:
        keyed = {name for group in (table.primary_key, *table.unique) for name in group}
        if isinstance(column.type, Text) and column.name in keyed:
            return f"{self.dialect.type_name(String(KEY_CHARACTERS))} COMMENT '{TEXT_KEY}'"
        return self.dialect.type_name(column.type)

    def indexed(self, column: Column) -> str:
        long = isinstance(column.type, Text | JSON | JSONB | Bytes)
        long = long or (isinstance(column.type, String) and column.type.length > INDEXED_CHARACTERS)
        return f"{self.dialect.quote(column.name)}{f'({INDEXED_CHARACTERS})' if long else ''}"

    def widen_sql(self, table: Table, column: Column) -> str:
        required = "" if column.nullable else " NOT NULL"
        return f"MODIFY COLUMN {self.dialect.quote(column.name)} {self.column_sql(table, column)}{required}"

    def columns_in(self, connection: SqlConnection, table: TableRef) -> Actual | None:
        return read_table(connection, table, self.dialect)

    def result_columns(
        self, described: Sequence[Sequence[object]], rows: Sequence[tuple[object, ...]]
    ) -> tuple[QueryColumn, ...]:
        return tuple(QueryColumn(str(column[0]), str(column[1])) for column in described)

    def query(self, sql: str, max_rows: int | None = None) -> QueryResult:
        """The rows of a query; the server stops where nobody asked for more."""
        if max_rows is None:
            return super().query(sql)
        with self.hold(), self.session() as connection:
            connection.execute(f"SET SESSION sql_select_limit = {max_rows + 1}")
            try:
                return super().query(sql, max_rows)
            finally:
                connection.execute("SET SESSION sql_select_limit = DEFAULT")

    def export(self, connection: SqlConnection, sql: str, folder: Path) -> None:
        columns = self.described(connection, sql)
        cut = find_cut(connection, sql, self.read_limits(), self.dialect)
        with self._translated():
            if cut is not None:
                tally = self.workshop.tally("reading", parts=len(cut.parts))
                take = taking(cut.parts, columns, self.dialect, folder, tally)
                # Who is not let in now does without: there is one stream at least.
                if read_cut(cut, partial(self.reading, patient=False), self.driver_errors(), take):
                    tally.end()
                    return
            tally = self.workshop.tally("reading")
            with self.reading() as cursor:
                taking((sql,), columns, self.dialect, folder, tally)(cursor, 0, lambda: None)
            tally.end()

    @contextmanager
    def reading(self, *, patient: bool = True) -> Iterator[Any]:
        """A cursor of a connection of its own, which gives rows as the server sends them.

        Who is not `patient` hears at once, in the driver's words, that there is no way in.
        """
        pymysql = optional("pymysql", extra="mysql")
        connect = partial(open_driver, self.connection, conv={}, cursorclass=pymysql.cursors.SSCursor)
        driver = self.patiently(connect) if patient else connect()
        with closing(MySQLSession(driver, self.connection)), closing(driver.cursor()) as cursor:
            yield cursor

    def analyse(self, connection: SqlConnection, sql: str) -> None:
        connection.execute(f"PREPARE _ematix_query FROM {self.dialect.literal(sql, Text()).sql('mysql')}")
        connection.execute("DEALLOCATE PREPARE _ematix_query")

    def schema_state(self, connection: SqlConnection, schema: str, table: str) -> SchemaState:
        state = schema_state(connection, schema)
        is_there = state == "closed" and self.columns_in(connection, TableRef(schema, table)) is not None
        return "there" if is_there else state

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """What the driver itself raises in the block, in our words."""
        try:
            yield
        except self.driver_errors() as error:
            raise self.translate(error) from error

    @contextmanager
    def load(self, incoming: Relation, table: Table, commit: Commit) -> Iterator[Load]:
        """One transaction of rows, token, bookmark and run record.

        A table or column that the load needs is made before it, and gone again when the load fails.
        """
        ref = TableRef(table.schema, table.name)
        with self.hold(), self.session() as connection:
            session = _session(connection)
            with self._translated():
                session.forget()
            try:
                with super().load(incoming, table, commit) as load:
                    yield load
            except BaseException as error:
                try:
                    self._take_back(connection, session.made)
                except FlowError as second:
                    error.add_note(f"What was made for the rows could not be taken back: {second.message}")
                raise
            finally:
                with suppress(FlowError, *self.driver_errors()):
                    connection.execute(f"SELECT RELEASE_LOCK({self._turn(ref)})")
                    session.forget()

    def _take_back(self, connection: SqlConnection, made: SchemaChange | None) -> None:
        """Drop what was made for rows that did not come, unless somebody else has put some in."""
        if made is None:
            return
        name = self.relation_sql(TableRef(made.table.schema, made.table.name))
        added = list(map(self.dialect.quote, made.add))
        used = "" if made.create else f" WHERE {' OR '.join(f'{column} IS NOT NULL' for column in added)}"
        undo = f"DROP TABLE {name}" if made.create else f"ALTER TABLE {name} DROP COLUMN {', DROP COLUMN '.join(added)}"
        connection.execute(f"LOCK TABLES {name} WRITE")
        try:
            if not connection.execute(f"SELECT 1 FROM {name}{used} LIMIT 1").fetchall():
                connection.execute(undo)
        finally:
            connection.execute("UNLOCK TABLES")

    def take_turn(self, connection: SqlConnection, table: TableRef) -> None:
        """Loads into one table take turns; other writers and all readers go on. The table must know transactions."""
        refuse_lasting(connection, table, self.dialect)
        seconds = self.connection.lock_timeout or FOR_EVER
        answer = connection.execute(f"SELECT GET_LOCK({self._turn(table)}, {seconds})").fetchall()[0][0]
        if answer != 1:
            raise ConflictError(
                f"connection {self.connection.name!r} (mysql): another load into {table} is under way",
                hint="run again, or let lock_timeout= of the connection be longer",
            )

    def _turn(self, table: TableRef) -> str:
        digest = hashlib.sha256(str(table).encode()).hexdigest()[:40]
        return f"'ematix_flow:{digest}'"

    def change_table(
        self, connection: SqlConnection, change: SchemaChange, *, rehearsal: bool = False, keyed: bool = True
    ) -> None:
        session, ref = _session(connection), TableRef(change.table.schema, change.table.name)
        if not rehearsal:
            change_table(self, connection, change, keyed=keyed)
            session.made = change if change.create or change.add else None
            return
        original = self.relation_sql(ref)
        session.stand_in = ref
        if change.create:
            connection.execute(create_sql(self, change.table).replace("CREATE TABLE", "CREATE TEMPORARY TABLE", 1))
            return
        parts = [
            f"ADD COLUMN {self.dialect.quote(name)} {self.column_sql(change.table, change.table.column(name))}"
            for name in change.add
        ]
        parts += [self.widen_sql(change.table, change.table.column(name)) for name in change.widen]
        old = self.columns_in(connection, ref)
        names = ", ".join(map(self.dialect.quote, old.column_names)) if old is not None else ""
        with self._translated():
            session.run(f"CREATE TEMPORARY TABLE {STAND_IN} LIKE {original}")
            session.run(f"ALTER TABLE {STAND_IN} {', '.join(parts)}")
            session.run(f"INSERT INTO {STAND_IN} ({names}) SELECT {names} FROM {original}")

    def table_name(self, table: TableRef) -> exp.Table:
        held = self._held.get()
        if held is not None and _session(held).stand_in == table:
            return exp.table_(STAND_IN, quoted=True)
        return super().table_name(table)

    def stage_query(self, connection: SqlConnection, incoming: Pushed, table: Table) -> Literal["TABLE"]:
        """There are no temporary views: a query that is looked at once stands where it is used."""
        if incoming.attach is not None:
            incoming.attach(connection)
        if incoming.once:
            _session(connection).incoming = incoming.sql
            return "TABLE"
        shape = connection.execute(f"SELECT * FROM (\n{incoming.sql}\n) AS _rows LIMIT 0").description or ()
        columns = self.columns_sql(table, [str(column[0]) for column in shape])
        connection.execute(f"CREATE TEMPORARY TABLE {STAGED} ({columns}) AS {incoming.sql}")
        return "TABLE"

    def stage(self, connection: SqlConnection, staged: Waiting, table: Table) -> Literal["TABLE"]:
        assert isinstance(staged, Path)
        columns, types = self.staging_columns(table, list(parquet_types(staged)))
        connection.execute(f"CREATE TEMPORARY TABLE {STAGED} ({columns})")
        self.fill(connection, STAGED, staged, types)
        return "TABLE"

    def staging_columns(self, table: Table, names: Sequence[str]) -> tuple[str, Mapping[str, ColumnType]]:
        columns = _staged(table)
        return self.columns_sql(table, names), {name: columns[name].type for name in names}

    def reported(self, type: ColumnType) -> str:
        if isinstance(type, Numeric):
            return f"decimal({type.precision},{type.scale})"
        return _REPORTED.get(type.kind, "longtext")

    def columns_sql(self, table: Table, names: Sequence[str]) -> str:
        """Columns of a temporary table, in the types that the table's own have."""
        columns = _staged(table)
        return ", ".join(f"{self.dialect.quote(name)} {self.column_sql(table, columns[name])}" for name in names)

    def fill(
        self,
        connection: SqlConnection,
        name: str,
        rows: Waiting,
        types: Mapping[str, ColumnType],
        constants: Mapping[str, object] = MappingProxyType({}),
    ) -> int:
        assert isinstance(rows, Path)
        tally = self.workshop.tally("writing")
        given = tally.batches(batches(rows, types, constants))
        # What temporary tables hold is no part of the transaction.
        with _session(connection).aside(name):
            count = self._filled(connection, name, given, types)
        tally.end(count)
        return count

    def _filled(
        self, connection: SqlConnection, target: str, rows: Iterator[pa.RecordBatch], types: Mapping[str, ColumnType]
    ) -> int:
        if self._takes_files(connection):
            return sent(written(rows, types), lambda file: self._load_file(connection, file, target, types))
        _LOG.info("connection %r: the server takes no local files, so rows go in as INSERT", self.connection.name)
        place = f"{target} ({', '.join(map(self.dialect.quote, types))})".replace("%", "%%")
        insert, count = f"INSERT INTO {place} VALUES ({', '.join('%s' for _ in types)})", 0
        with self._translated():
            for batch in rows:
                _session(connection).insert_many(insert, rows_of(batch, types))
                count += batch.num_rows
        return count

    def _takes_files(self, connection: SqlConnection) -> bool:
        if not self.connection.local_infile or not Path("/dev/fd").exists():
            return False
        return bool(connection.execute("SELECT @@local_infile").fetchall()[0][0])

    def _load_file(self, connection: SqlConnection, file: str, target: str, types: Mapping[str, ColumnType]) -> int:
        hexadecimal = [name for name, kind in types.items() if isinstance(kind, Bytes)]
        holders = {name: f"@ematix_{at}" for at, name in enumerate(hexadecimal)}
        places = ", ".join(holders.get(name, self.dialect.quote(name)) for name in types)
        settings = ", ".join(f"{self.dialect.quote(name)} = UNHEX({held})" for name, held in holders.items())
        cursor = connection.execute(
            f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE {target} {LOAD_FORMAT} ({places})"
            f"{f' SET {settings}' if settings else ''}"
        )
        # With LOCAL the server only warns of what it refuses, and goes on.
        warnings = connection.execute("SHOW WARNINGS LIMIT 1").fetchall()
        if warnings:
            raise self.translate(self.driver_errors()[0](warnings[0][1], warnings[0][2]))
        return self.rows_changed(cursor)

    def bound(self, query: exp.Query, table: Table) -> exp.Query:
        """The query over this database's own tables, each temporary one under as many names as the server needs."""
        held = self._held.get()
        session = None if held is None else _session(held)
        bound = super().bound(query, table)
        counts: dict[str, int] = {}
        for node in list(bound.find_all(exp.Table)):
            if session is None or node.name not in (STAGED, STAND_IN):
                continue
            if node.name == STAGED and session.incoming is not None:
                node.set("this", exp.Var(this=f"(\n{session.incoming}\n)"))
                continue
            counts[node.name] = counts.get(node.name, 0) + 1
            node.set("this", exp.to_identifier(session.copy_name(node.name, counts[node.name]), quoted=True))
        return bound

    def spelling(
        self, table: Table, render: Callable[[exp.Query], str], connection: SqlConnection | None = None
    ) -> Spelling:
        shared = super().spelling(table, render)

        def shape(names: Sequence[str], keys: Sequence[str]) -> str:
            index = ", ".join(self.indexed(table.column(key)) for key in keys)
            return f"{self.columns_sql(table, names)}, {self.dialect.quote(CHANGE_LABEL)} VARCHAR(16), KEY ({index})"

        return MySQLSpelling(shared.target, shared.quote, render, shared.casts, shape=shape)


_LOG = logging.getLogger(__name__)


_REPORTED = {
    "small_int": "smallint", "integer": "int", "big_int": "bigint", "float": "float", "double": "double",
    "boolean": "tinyint(1)", "date": "date", "timestamp": "datetime(6)", "timestamp_tz": "datetime(6)",
    "bytes": "longblob",
}  # fmt: skip
"""What the server calls a column that was made with a declared type; all others are texts."""


def _staged(table: Table) -> dict[str, Column]:
    """The columns that incoming rows may have."""
    event_time = Column(TimestampTZ(), name=EVENT_TIME)
    return {**{column.name: column for column in table.columns}, EVENT_TIME: event_time}


def _session(connection: SqlConnection) -> MySQLSession:
    return cast("MySQLSession", cast("Translated", connection).driver)
