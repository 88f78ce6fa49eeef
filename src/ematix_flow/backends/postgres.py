"""PostgreSQL: loads as one transaction, rows moved by binary COPY."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import fields, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from sqlglot import exp

from ..errors import BackendError, ConfigError, FlowError
from ..spec.place import TableRef
from ..spec.table import Table
from ..strategies.base import EVENT_TIME
from ..types import ColumnType, Text, TimestampTZ
from .arrow_files import parquet_types
from .base import Actual, ActualColumn, Backend, Capabilities, Fact, Piped, QueryColumn, QueryResult
from .optional import optional
from .postgres_change import PostgresSpelling, arbiters, going_to_each, is_alone, is_few, is_mostly_news, rows_touched
from .postgres_copy import carried_sql, copy_out, encoded
from .postgres_cut import find_cut
from .postgres_dialect import PostgresDialect
from .postgres_errors import in_our_words
from .postgres_facts import facts_of, schema_state
from .postgres_functions import needed
from .postgres_read import read_cut
from .postgres_session import PostgresSession
from .progress import Tally
from .server import SchemaState, ServerBackend
from .server_connection import PostgresConnection
from .server_url import url_options
from .sql import SqlConnection, Waiting
from .sql_change import STAGED, Spelling
from .sql_connection import Translated
from .sql_text import check_query

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PostgresBackend"]

_SETTINGS = {"TimeZone": "UTC", "DateStyle": "ISO", "IntervalStyle": "iso_8601", "bytea_output": "hex"}
# Few rows among many are looked up by their key; PostgreSQL's default is for disks that turn, where that is dear.
_LOOKUPS = "SELECT set_config('random_page_cost', '1.1', false) WHERE current_setting('random_page_cost') = '4'"


class PostgresBackend(ServerBackend):
    """A PostgreSQL database, version 12 or newer."""

    KEYS_LATER = True
    can = Capabilities(
        pushed=True, takes_frames=True, takes_typed=True, exports=True, enforces_keys=True, name_bytes=63
    )
    dialect = PostgresDialect()
    connection: PostgresConnection
    LONGEST_NAME = 63
    CREATE_STAGING = "CREATE UNLOGGED TABLE"

    BEGIN: ClassVar[str] = "BEGIN ISOLATION LEVEL READ COMMITTED"
    """A load that has waited for its turn must see what the load before it left, whatever the database's default."""

    def connect(self) -> SqlConnection:
        psycopg = optional("psycopg", extra="postgres")
        opened = psycopg.connect(_libpq_url(self.connection.url), autocommit=True, **self._beside_url())
        return PostgresSession(opened, self._settings())

    def _settings(self) -> str:
        timeouts = {
            "lock_timeout": f"{self.connection.lock_timeout}s",
            "statement_timeout": f"{self.connection.statement_timeout}s",
        }
        settings = [f"SET {name} = '{value}'" for name, value in {**_SETTINGS, **timeouts}.items()]
        return "; ".join([*settings, _LOOKUPS])

    def ping(self) -> str:
        with self.session(patient=False) as connection:
            version, database = connection.execute(
                "SELECT current_setting('server_version'), current_database()"
            ).fetchall()[0]
        return f"PostgreSQL {str(version).split()[0]}, database {database}"

    def facts(self) -> Sequence[Fact]:
        with self.session() as connection:
            return facts_of(connection, self.bookkeeping_schema)

    def same_system(self, other: Backend) -> bool:
        """One server, one database, one user: another user may see what this one must not."""
        if self is other:
            return True
        return isinstance(other, PostgresBackend) and self._address() == other._address()

    def _address(self) -> tuple[str, ...]:
        conninfo = optional("psycopg.conninfo", extra="postgres")
        try:
            parts = conninfo.conninfo_to_dict(_libpq_url(self.connection.url))
        except self.driver_errors():  # whose text quotes the password
            raise ConfigError(
                f"connection {self.connection.name!r}: the URL cannot be read",
                hint="percent-encode what is special in a user or password, such as % as %25 and @ as %40",
                declared_at=self.connection.declared_at,
            ) from None
        defaults = {"host": "", "port": "5432", "user": "", "dbname": str(parts.get("user", ""))}
        return tuple(str(parts.get(name, missing)) for name, missing in defaults.items())

    @contextmanager
    def attempt(self, connection: SqlConnection) -> Iterator[None]:
        """After an error PostgreSQL answers nothing until the transaction has gone back to a savepoint."""
        connection.execute("SAVEPOINT ematix_attempt")
        try:
            yield
        except FlowError:
            connection.execute("ROLLBACK TO SAVEPOINT ematix_attempt")
            raise
        connection.execute("RELEASE SAVEPOINT ematix_attempt")

    def driver_errors(self) -> tuple[type[Exception], ...]:
        errors = [optional("psycopg", extra="postgres").Error]
        errors.append(optional("adbc_driver_manager", extra="postgres").Error)
        return tuple(errors)

    def translate(self, error: Exception) -> FlowError:
        return in_our_words(error, self.connection)

    def columns_in(self, connection: SqlConnection, table: TableRef) -> Actual | None:
        name = self._text(self.relation_sql(table))
        rows = connection.execute(
            "SELECT a.attname, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, a.attnum "
            f"FROM pg_attribute AS a WHERE a.attrelid = to_regclass({name}) AND a.attnum > 0 AND NOT a.attisdropped "
            "ORDER BY a.attnum"
        ).fetchall()
        if not rows:
            return None
        by_number = {row[3]: str(row[0]) for row in rows}
        found = connection.execute(
            "SELECT i.indisprimary, (i.indkey::int2[]::int[])[0 : i.indnkeyatts - 1] FROM pg_index AS i "
            f"WHERE i.indrelid = to_regclass({name}) AND i.indisunique AND i.indisvalid "
            "AND i.indpred IS NULL AND i.indexprs IS NULL "
            "ORDER BY i.indexrelid"
        ).fetchall()
        groups = [
            (primary, [by_number[at] for at in cast("list[object]", at_columns)]) for primary, at_columns in found
        ]
        keys = {column for primary, group in groups if primary for column in group}
        columns = (
            ActualColumn(str(column), self.dialect.column_type(str(kind)), str(kind), bool(nullable), column in keys)
            for column, kind, nullable, _ in rows
        )
        unique = tuple(tuple(group) for primary, group in groups if not primary)
        return Actual(tuple(columns), unique, keyed=True)

    def result_columns(
        self, described: Sequence[Sequence[object]], rows: Sequence[tuple[object, ...]]
    ) -> tuple[QueryColumn, ...]:
        return tuple(QueryColumn(str(column[0]), _type_name(column)) for column in described)

    def query(self, sql: str, max_rows: int | None = None) -> QueryResult:
        """The rows of a query; the server stops where nobody asked for more, because the driver takes all it gives."""
        check_query(sql, self.dialect.name)
        if max_rows is None:
            return super().query(sql)
        own = self.user_sql(sql)
        with self.session() as connection:
            try:
                cursor = connection.execute(f"SELECT * FROM (\n{own}\n) AS _source LIMIT {max_rows + 1}")
            except BackendError as error:
                raise self.plain_problem(connection, own, error) from error
            rows = cursor.fetchall()
            columns = self.result_columns(cursor.description or (), rows)
        return QueryResult(columns, rows[:max_rows], truncated=len(rows) > max_rows)

    def analyse(self, connection: SqlConnection, sql: str) -> None:
        driver: Any = cast("Translated", connection).driver
        self.once(lambda: driver.analyse(sql))

    def schema_state(self, connection: SqlConnection, schema: str, table: str) -> SchemaState:
        return schema_state(connection, schema, table)

    def export(self, connection: SqlConnection, sql: str, folder: Path) -> None:
        columns = self.described(connection, sql)
        cut = find_cut(connection, sql, self.read_limits())
        parts = (sql,) if cut is None else cut.parts
        names = ["rows.parquet"] if cut is None else [f"rows-{part:05}.parquet" for part in range(len(parts))]
        tally = self.workshop.tally("reading", parts=len(parts))

        def take(cursor: Any, part: int, go_on: Callable[[], None]) -> None:
            def written(batch: pa.RecordBatch) -> None:
                tally.add_batch(batch)
                go_on()

            cursor.execute(carried_sql(columns, self.dialect, parts[part]))
            copy_out(cursor.fetch_record_batch(), folder / names[part], columns, self.dialect, written)
            tally.add(parts=1)

        connected = partial(self.reading, needed(sql).values())
        try:
            if cut is not None:
                read_cut(cut, connected, self.driver_errors(), take)
            else:
                with connected() as cursor:
                    take(cursor, 0, lambda: None)
        except self.driver_errors() as error:
            raise self.translate(error) from error
        tally.end()

    @contextmanager
    def reading(self, functions: Iterable[str]) -> Iterator[Any]:
        """A cursor of a connection of its own, which gives rows as Arrow; errors come out as the driver says them."""
        dbapi = optional("adbc_driver_postgresql.dbapi", extra="postgres")
        with (
            closing(dbapi.connect(self._conninfo(), autocommit=True)) as opened,
            opened.cursor() as cursor,
        ):
            for setting in (*self._settings().split("; "), *functions):
                cursor.execute(setting)
            yield cursor

    def _conninfo(self) -> str:
        """The URL with what `connect` says beside it, in the form that every driver of libpq takes."""
        conninfo = optional("psycopg.conninfo", extra="postgres")
        return str(conninfo.make_conninfo(_libpq_url(self.connection.url), **self._beside_url()))

    def _beside_url(self) -> dict[str, Any]:
        """Fields that libpq takes; where one was left as it is, the URL may say otherwise."""
        said = url_options(self.connection.url)
        names = {each.name: each.default for each in fields(self.connection)}
        given = {name: getattr(self.connection, name) for name in ("connect_timeout", "application_name")}
        return {name: value for name, value in given.items() if name not in said or value != names[name]}

    def stage(self, connection: SqlConnection, staged: Waiting, table: Table) -> Literal["TABLE"]:
        columns, kept = self.staging_columns(table, self._names(staged))
        connection.execute(f"CREATE TEMPORARY TABLE {STAGED} ({columns})")
        self.fill(connection, STAGED, staged, kept)
        return "TABLE"

    def staging_columns(self, table: Table, names: Sequence[str]) -> tuple[str, Mapping[str, ColumnType]]:
        declared = {column.name: column.type for column in table.columns} | {EVENT_TIME: TimestampTZ()}
        kept = {name: self.dialect.compared_type(declared[name]) for name in names}
        return self.made_of(kept), kept

    def _names(self, staged: Waiting) -> list[str]:
        """The columns of rows from outside."""
        if isinstance(staged, Piped):
            return [column.name for column in staged.source.query_columns(staged.sql)]
        return list(parquet_types(staged))

    def _sent(
        self, staged: Waiting, types: Mapping[str, ColumnType], constants: Mapping[str, object], tally: Tally
    ) -> Iterator[bytes]:
        """Rows from outside as binary COPY, in columns of exactly these types; `constants` are in every row."""
        if not isinstance(staged, Piped):
            without = self.connection.zero_bytes == "remove"
            return encoded(staged, types, tally, constants, without_zeros=without)
        assert isinstance(staged.source, PostgresBackend)
        shown = ", ".join(self._sent_column(name, kind, constants) for name, kind in types.items())
        return tally.pieces(staged.source.send(f"SELECT {shown} FROM ({staged.sql}\n) AS _source"))

    def _sent_column(self, name: str, kind: ColumnType, constants: Mapping[str, object]) -> str:
        if name not in constants:
            return f"CAST({self.dialect.quote(name)} AS {self.dialect.type_name(kind)})"
        value = constants[name]
        constant = (
            self.dialect.instant(value) if isinstance(value, datetime) else self.dialect.literal(str(value), kind)
        )
        return constant.sql("postgres")

    def send(self, sql: str) -> Iterator[bytes]:
        """The rows of a query as binary COPY, in large pieces, from one connection of its own."""
        opened: Any = self.patiently(self.connect)
        try:
            yield from opened.send(sql)
        except self.driver_errors() as error:
            raise self.translate(error) from error
        finally:
            opened.close()

    def piped_types(self, sql: str, target: Backend) -> Mapping[str, ColumnType]:
        if not isinstance(target, PostgresBackend):
            return {}
        known = {column.name: self._piped_type(column.type) for column in self.query_columns(sql)}
        return {name: kind for name, kind in known.items() if kind is not None}

    def _piped_type(self, declared: str) -> ColumnType | None:
        # The blanks at the end of CHAR are not part of its value.
        return None if declared.startswith("character(") else self.dialect.column_type(declared)

    def fill(
        self,
        connection: SqlConnection,
        name: str,
        rows: Waiting,
        types: Mapping[str, ColumnType],
        constants: Mapping[str, object] = MappingProxyType({}),
    ) -> int:
        names = ", ".join(map(self.dialect.quote, types))
        tally = self.workshop.tally("writing", counts_rows=not isinstance(rows, Piped))
        sent = self._sent(rows, types, constants, tally)
        count = self.copy_in(connection, f"COPY {name} ({names}) FROM STDIN (FORMAT binary)", sent)
        tally.end(count)
        return count

    def reported(self, type: ColumnType) -> str:
        return _REPORTED.get(type.kind, self.dialect.type_name(type).lower())

    def settle(self, connection: SqlConnection, name: str, columns: Sequence[str] = ()) -> None:
        listed = ", ".join(map(self.dialect.quote, columns))
        connection.execute(f"ANALYZE {name} ({listed})" if columns else f"ANALYZE {name}")

    def spelling(
        self, table: Table, render: Callable[[exp.Query], str], connection: SqlConnection | None = None
    ) -> Spelling:
        shared = super().spelling(table, render)
        has_addresses = not shared.casts and (connection is None or is_alone(connection, self._text(shared.target)))
        groups = self._arbiters(connection, table) if has_addresses else frozenset()
        spelling = PostgresSpelling(
            shared.target, shared.quote, render, shared.casts, has_addresses=has_addresses, arbiters=groups
        )
        if connection is None:
            return spelling
        return replace(spelling, is_worth=lambda change: is_mostly_news(connection, change, render))

    def _arbiters(self, connection: SqlConnection | None, table: Table) -> frozenset[frozenset[str]]:
        if connection is None:
            return frozenset(frozenset(group) for group in (table.primary_key, *table.unique) if group)
        declared = {column.name: self.dialect.stored_type(column.type) for column in table.columns}
        name = self._text(self.relation_sql(TableRef(table.schema, table.name)))
        found = arbiters(connection, name, ", ".join(map(self._text, declared)))
        return frozenset(
            frozenset(group)
            for group in found
            if all(self.dialect.column_type(kind) == declared.get(name) for name, kind in group.items())
        )

    def rows_touched(self, connection: SqlConnection, table: TableRef) -> Mapping[str, int]:
        return rows_touched(connection, self._text(self.relation_sql(table)))

    def looking_up(
        self, connection: SqlConnection, table: TableRef, rows: int, is_found: Callable[[], bool]
    ) -> AbstractContextManager[object]:
        name = self._text(self.relation_sql(table))
        return going_to_each(connection) if is_few(connection, name, rows) and is_found() else nullcontext()

    def ensure_schema(self, connection: SqlConnection, schema: str) -> None:
        """Looks first: PostgreSQL asks for the right to create even where there is nothing to do."""
        # A function such as to_regnamespace may answer from memory what was true before the wait.
        found = f"SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = CAST({self._text(schema)} AS name)"
        if not connection.execute(found).fetchall():
            self._wait_for(connection, f"schema {schema}")
            if not connection.execute(found).fetchall():
                connection.execute(f"CREATE SCHEMA {self.dialect.quote(schema)}")

    def take_turn(self, connection: SqlConnection, table: TableRef) -> None:
        """Loads into one table take turns; other writers and all readers go on."""
        self._wait_for(connection, str(table))

    def _wait_for(self, connection: SqlConnection, what: str) -> None:
        """Have something to oneself, among all that ask like this, until the transaction ends."""
        name = self._text(f"ematix_flow:{what}")
        connection.execute(f"SELECT pg_advisory_xact_lock(hashtextextended({name}, 0))")

    def _text(self, text: str) -> str:
        return self.dialect.literal(text, Text()).sql("postgres")

    def copy_in(self, connection: SqlConnection, sql: str, chunks: Iterable[bytes]) -> int:
        """Send the bytes of a COPY in the transaction that is open; gives the number of rows."""
        driver: Any = cast("Translated", connection).driver
        try:
            with driver.psycopg.cursor() as cursor:
                with cursor.copy(sql) as copy:
                    for chunk in chunks:
                        copy.write(chunk)
                return int(cursor.rowcount)
        except self.driver_errors() as error:
            raise self.translate(error) from error


def _libpq_url(url: str) -> str:
    """The URL as libpq reads it: other tools put the name of a driver behind the scheme."""
    return re.sub(r"^postgres(ql)?(\+\w+)?://", "postgresql://", url)


def _type_name(column: Any) -> str:
    """What `format_type` would say of a column of a result."""
    shown = str(getattr(column, "type_display", "") or "")
    name, _, parameters = shown.partition("(")
    return _LONG_NAMES.get(name, name) + (f"({parameters}" if parameters else "")


_REPORTED = {
    "timestamp": "timestamp without time zone",
    "timestamp_tz": "timestamp with time zone",
    "string": "character varying",
}
"""What PostgreSQL calls types whose names in statements are shorter."""
_LONG_NAMES = {
    "int2": "smallint", "int4": "integer", "int8": "bigint", "float4": "real", "float8": "double precision",
    "bool": "boolean", "varchar": "character varying", "bpchar": "character",
    "timestamp": "timestamp without time zone", "timestamptz": "timestamp with time zone",
}  # fmt: skip
