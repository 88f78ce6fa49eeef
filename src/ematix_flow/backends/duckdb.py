"""DuckDB: files and `:memory:`, in this process."""

from __future__ import annotations

import re
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal

from sqlglot import exp

from ..errors import BackendError, ConflictError, ConnectError, FlowError
from ..spec.place import TableRef
from ..spec.table import Table
from ..strategies.base import EVENT_TIME
from ..types import TimestampTZ
from .base import Actual, ActualColumn, Brought, Capabilities, QueryColumn
from .connection import DuckDBConnection
from .duckdb_dialect import DuckDBDialect
from .duckdb_macros import MACROS
from .embedded import EmbeddedBackend
from .optional import optional
from .sql import SqlConnection, SqlCursor, Waiting
from .sql_change import STAGED
from .sql_text import replace_tables

__all__ = ["DuckDBBackend"]


_writers: dict[str, threading.RLock] = {}
"""One lock per database that this process writes to; other processes cannot open the file."""


class DuckDBBackend(EmbeddedBackend):
    """DuckDB in this process.

    One process at a time may have the file open, so it is opened late and never held while Spark works. Tables are made
    without a primary-key index, which DuckDB must hold in memory whole: the load checks keys itself.
    """

    can = Capabilities(pushed=True, takes_frames=True, takes_typed=True, exports=True)
    dialect = DuckDBDialect()
    connection: DuckDBConnection
    PRODUCT = "DuckDB"
    KEYS = False

    def open_database(self, file: Path | None) -> SqlConnection:
        duckdb = optional("duckdb", extra="duckdb")
        name = f":memory:{self.memory_name}" if file is None else str(file)
        connection: SqlConnection = duckdb.connect(name)
        limit = exp.Literal.string(self.connection.memory_limit).sql("duckdb")
        connection.execute(f"SET memory_limit = {limit}")
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET preserve_insertion_order = false")
        connection.execute("SET enable_progress_bar = false")
        for macro in MACROS:
            connection.execute(macro)
        return connection

    def version(self, connection: SqlConnection) -> str:
        return str(connection.execute("SELECT version()").fetchall()[0][0])

    def table_name(self, table: TableRef) -> exp.Table:
        """DuckDB names a database after its file; where a schema has that name too, both must be said."""
        named = super().table_name(table)
        if self._is_ambiguous(table.schema):
            named.set("catalog", exp.to_identifier(self._database, quoted=True))
        return named

    def ensure_schema(self, connection: SqlConnection, schema: str) -> None:
        parts = (self._database, schema) if self._is_ambiguous(schema) else (schema,)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {self.dialect.quote(*parts)}")

    def user_sql(self, sql: str) -> str:
        return replace_tables(super().user_sql(sql), self.dialect.name, self._own_name)

    @property
    def _database(self) -> str:
        return Path(self.connection.path).name.partition(".")[0]

    def _is_ambiguous(self, schema: str) -> bool:
        return not self.in_memory and schema.casefold() == self._database.casefold() and schema not in RESERVED

    def _own_name(self, schema: str, name: str) -> str | None:
        return self.relation_sql(TableRef(schema, name)) if schema and self._is_ambiguous(schema) else None

    def writer(self) -> AbstractContextManager[object]:
        """DuckDB lets two transactions insert the same key, having no index to see it: loads take turns."""
        name = self.memory_name if self.in_memory else str(self.path.resolve())
        return _writers.setdefault(name, threading.RLock())

    def driver_errors(self) -> tuple[type[Exception], ...]:
        return (optional("duckdb", extra="duckdb").Error,)

    def translate(self, error: Exception) -> FlowError:
        duckdb = optional("duckdb", extra="duckdb")
        where = f"connection {self.connection.name!r} (duckdb)"
        text = str(error).strip()
        if isinstance(error, duckdb.TransactionException) and "onflict" in text:
            return ConflictError(f"{where}: {text}", hint="another transaction wrote the same rows; run again")
        if isinstance(error, duckdb.IOException | duckdb.ConnectionException):
            if "lock on file" in text:
                holder = re.search(r"Conflicting lock is held in (.+?)\.? (?:See also|$)", text)
                by = f" ({holder.group(1)})" if holder else ""
                return ConnectError(
                    f"{where}: another process has {self.connection.path} open{by}",
                    hint="DuckDB lets one process open a file at a time: close it there, or wait",
                )
            if "No files found" not in text:  # a file that a query names is no matter of the connection
                return ConnectError(f"{where}: {text}", hint="check the path and its folder")
        return BackendError(f"{where}: {text}")

    def columns_in(self, connection: SqlConnection, table: TableRef) -> Actual | None:
        schema, name = (exp.Literal.string(part).sql("duckdb") for part in (table.schema, table.name))
        here = f"database_name = current_database() AND schema_name = {schema} AND table_name = {name}"
        rows = connection.execute(
            f"SELECT column_name, data_type, is_nullable FROM duckdb_columns() WHERE {here} ORDER BY column_index"
        ).fetchall()
        if not rows:
            return None
        keyed = connection.execute(
            f"SELECT unnest(constraint_column_names) FROM duckdb_constraints() "
            f"WHERE {here} AND constraint_type = 'PRIMARY KEY'"
        ).fetchall()
        keys = {str(row[0]) for row in keyed}
        columns = (
            ActualColumn(str(column), self.dialect.column_type(str(kind)), str(kind), bool(nullable), column in keys)
            for column, kind, nullable in rows
        )
        return Actual(tuple(columns), keyed=bool(keys))

    def query_columns(self, sql: str) -> tuple[QueryColumn, ...]:
        with self.session() as connection:
            rows = connection.execute(f"DESCRIBE SELECT * FROM ({self.user_sql(sql)}\n) AS _source").fetchall()
        return tuple(QueryColumn(str(name), str(kind)) for name, kind, *_ in rows)

    def export(self, connection: SqlConnection, sql: str, folder: Path) -> None:
        described = connection.execute(f"DESCRIBE SELECT * FROM ({sql}\n) AS _source").fetchall()
        shown = ", ".join(self._portable(str(row[0]), str(row[1])) for row in described)
        file = exp.Literal.string(str(folder / "rows.parquet")).sql("duckdb")
        tally = self.workshop.tally("reading")
        copied = connection.execute(f"COPY (SELECT {shown} FROM ({sql}\n) AS _source) TO {file} (FORMAT parquet)")
        tally.end(self.rows_changed(copied))

    def stage(self, connection: SqlConnection, staged: Waiting, table: Table) -> Literal["VIEW"]:
        files = exp.Literal.string(f"{staged}/*.parquet").sql("duckdb")
        names = connection.execute(f"DESCRIBE SELECT * FROM read_parquet({files})").fetchall()
        types = {column.name: column.type for column in table.columns} | {EVENT_TIME: TimestampTZ()}
        shown = [
            self.dialect.cast(exp.column(str(row[0]), quoted=True), types[str(row[0])]).as_(str(row[0]), quoted=True)
            for row in names
        ]
        select = self.dialect.render(exp.select(*shown), {}, {})
        connection.execute(f"CREATE TEMPORARY VIEW {STAGED} AS {select} FROM read_parquet({files})")
        return "VIEW"

    def bring(self, folder: Path) -> Brought:
        files = exp.Literal.string(f"{folder}/*.parquet").sql("duckdb")
        return Brought(f"SELECT * FROM read_parquet({files})")

    def rows_changed(self, cursor: SqlCursor) -> int:
        # A statement that changes rows answers with their number, under this name; others with rows of their own.
        counts = [column[0] for column in cursor.description or ()] == ["Count"]
        rows = cursor.fetchall()
        return int(str(rows[0][0])) if counts and rows else 0

    def _portable(self, name: str, kind: str) -> str:
        """A column in a type that Parquet carries and Spark reads."""
        quoted = self.dialect.quote(name)
        for pattern, portable in PORTABLE:
            if re.fullmatch(pattern, kind):
                return f"CAST({quoted} AS {portable}) AS {quoted}"
        return quoted


RESERVED = ("main", "temp", "system")
"""Names that DuckDB gives to no database: a file called so gets another."""

PORTABLE = (
    (r"UUID|JSON|BIT|TIME|TIME_NS|TIME WITH TIME ZONE|INTERVAL|ENUM\(.*\)|VARINT|BIGNUM|UHUGEINT|HUGEINT", "VARCHAR"),
    (r"UBIGINT", "DECIMAL(20, 0)"),
    (r"TIMESTAMP_(S|MS|NS)", "TIMESTAMP"),
)
"""DuckDB types that would not survive the way to Spark, and what travels in their place."""
