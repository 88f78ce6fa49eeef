"""SQLite: files and `:memory:`, in this process."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sqlglot import exp

from ..errors import BackendError, ConflictError, ConnectError, FlowError
from ..spec.place import TableRef
from ..spec.table import Table
from ..strategies.base import EVENT_TIME
from ..types import UUID, Boolean, ColumnType, Date, Double, Float, Numeric, Timestamp, TimestampTZ
from . import sqlite_arrow, sqlite_functions
from .base import Actual, ActualColumn, Brought, Capabilities, QueryColumn
from .connection import SQLiteConnection
from .embedded import EmbeddedBackend
from .sql import SqlConnection, SqlCursor, Waiting
from .sql_change import STAGED
from .sql_text import replace_tables
from .sqlite_dialect import SqliteDialect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SQLiteBackend"]

EXACT_DIGITS = 15


class _Connection(sqlite3.Connection):
    """A connection that says what was wrong with a value; SQLite itself only says that one of our functions failed."""

    complaint: sqlite_functions.Complaint | None = None

    def execute(self, sql: str, parameters: Sequence[object] = (), /) -> sqlite3.Cursor:  # type: ignore[override]
        try:
            return super().execute(sql, parameters)
        except sqlite3.OperationalError as error:
            if self.complaint is None or self.complaint.error is None:
                raise
            said, self.complaint.error = self.complaint.error, None
            raise sqlite3.OperationalError(str(said)) from error


class SQLiteBackend(EmbeddedBackend):
    """SQLite in this process.

    SQLite has no schemas: `analytics.customer_dim` is one table with the point in its name, `main.orders` is `orders`.
    A user's query may name it either way.
    """

    can = Capabilities(pushed=True, takes_frames=True, exports=True, enforces_keys=True, widens=False)
    dialect = SqliteDialect()
    connection: SQLiteConnection
    PRODUCT = "SQLite"
    BEGIN = "BEGIN IMMEDIATE"

    def open_database(self, file: Path | None) -> SqlConnection:
        uri = f"file:{self.memory_name}?mode=memory&cache=shared" if file is None else file.as_uri()
        connection = sqlite3.connect(
            uri, uri=True, isolation_level=None, timeout=30, check_same_thread=False, factory=_Connection
        )
        connection.complaint = sqlite_functions.register(connection)
        return connection

    def version(self, connection: SqlConnection) -> str:
        connection.execute("SELECT COUNT(*) FROM sqlite_master")
        return sqlite3.sqlite_version

    def driver_errors(self) -> tuple[type[Exception], ...]:
        return (sqlite3.Error,)

    def translate(self, error: Exception) -> FlowError:
        where = f"connection {self.connection.name!r} (sqlite)"
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return ConflictError(f"{where}: {error}", hint="another process is writing to the file; run again")
        if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR):
            return ConnectError(f"{where}: {error}: {self.connection.path}", hint="check the path and its folder")
        return BackendError(f"{where}: {error}")

    def table_name(self, table: TableRef) -> exp.Table:
        name = table.name if table.schema == "main" else f"{table.schema}.{table.name}"
        return exp.table_(name, quoted=True)

    def ensure_schema(self, connection: SqlConnection, schema: str) -> None:
        """SQLite has none to create."""

    def user_sql(self, sql: str) -> str:
        return replace_tables(super().user_sql(sql), self.dialect.name, self._own_name)

    def columns_in(self, connection: SqlConnection, table: TableRef) -> Actual | None:
        name = self.table_name(table).sql("sqlite")
        rows = connection.execute(f"PRAGMA main.table_info({name})").fetchall()
        if not rows:
            return None
        columns = tuple(
            ActualColumn(str(column), self.dialect.column_type(str(kind)), str(kind), not required, bool(key))
            for _, column, kind, required, _, key in rows
        )
        unique = []
        for _, index, _, origin, _ in connection.execute(f"PRAGMA main.index_list({name})").fetchall():
            if origin == "u":
                quoted = self.dialect.quote(str(index))
                parts = connection.execute(f"PRAGMA main.index_info({quoted})").fetchall()
                unique.append(tuple(str(part[2]) for part in parts))
        return Actual(columns, tuple(unique), keyed=True)

    def export(self, connection: SqlConnection, sql: str, folder: Path) -> None:
        """Copy the rows into a file of their own, then stream that file through Arrow.

        The copy is what makes the read a snapshot, lets the types be known before the first batch, and works for
        `:memory:`.
        """
        copy = folder / "rows.sqlite"
        connection.execute(f"ATTACH {exp.Literal.string(str(copy)).sql('sqlite')} AS _ematix_out")
        connection.execute("PRAGMA _ematix_out.journal_mode = OFF")
        connection.execute("PRAGMA _ematix_out.synchronous = OFF")
        connection.execute(f"CREATE TABLE _ematix_out.rows AS SELECT * FROM ({sql}\n) AS _source")
        described = connection.execute("PRAGMA _ematix_out.table_info(rows)").fetchall()
        names = [str(row[1]) for row in described]
        flags = ", ".join(
            f"MAX(typeof({self.dialect.quote(name)}) = '{storage}')" for name in names for storage in _STORAGE
        )
        seen = connection.execute(f"SELECT {flags} FROM _ematix_out.rows").fetchall()[0]
        connection.execute("DETACH _ematix_out")
        classes = [
            {storage for storage, flag in zip(_STORAGE, seen[4 * at : 4 * at + 4], strict=True) if flag}
            for at in range(len(names))
        ]
        kinds = dict(zip(names, classes, strict=True))
        sqlite_arrow.copy_out(copy, folder / "rows.parquet", kinds, self.workshop.tally("reading"))
        copy.unlink()

    def prepare_frame(self, frame: DataFrame, table: Table) -> DataFrame:
        types = {column.name: column.type for column in table.columns} | {EVENT_TIME: TimestampTZ()}
        return frame.selectExpr(*(_carried(name, types[name]) for name in frame.columns))

    def receive(self, folder: Path) -> Path:
        file = self.workshop.folder("sqlite") / "incoming.sqlite"
        sqlite_arrow.copy_in(folder, file, "incoming", self.workshop.tally("writing"))
        return file

    def stage(self, connection: SqlConnection, staged: Waiting, table: Table) -> Literal["VIEW"]:
        connection.execute(f"ATTACH {exp.Literal.string(str(staged)).sql('sqlite')} AS _ematix_in")
        connection.execute(f"CREATE TEMPORARY VIEW {STAGED} AS SELECT * FROM _ematix_in.incoming")
        return "VIEW"

    def bring(self, folder: Path) -> Brought:
        file = exp.Literal.string(str(self.receive(folder))).sql("sqlite")
        return Brought(
            "SELECT * FROM _ematix_in.incoming", lambda connection: connection.execute(f"ATTACH {file} AS _ematix_in")
        )

    def rows_changed(self, cursor: SqlCursor) -> int:
        return int(cursor.rowcount)  # type: ignore[attr-defined]

    def result_columns(
        self, described: Sequence[Sequence[object]], rows: Sequence[tuple[object, ...]]
    ) -> tuple[QueryColumn, ...]:
        """SQLite types values, not columns: what the rows hold decides, in SQLite's words."""
        kinds = [{_STORED_AS[type(row[at])] for row in rows} - {"null"} for at in range(len(described))]
        return tuple(
            QueryColumn(str(column[0]), "/".join(sorted(kind))) for column, kind in zip(described, kinds, strict=True)
        )

    def _own_name(self, schema: str, name: str) -> str | None:
        if schema in ("", "main", "temp"):
            return None
        return self.table_name(TableRef(schema, name)).sql("sqlite")


_STORAGE = ("integer", "real", "text", "blob")
_STORED_AS: dict[type, str] = {int: "integer", float: "real", str: "text", bytes: "blob", type(None): "null"}


def _carried(name: str, type: ColumnType) -> str:
    """The Spark expression that gives a column in the form SQLite keeps it in."""
    column = f"`{name.replace('`', '``')}`"
    match type:
        case Timestamp() | TimestampTZ():
            value = f"date_format({column}, 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
        case Date() | UUID():
            value = f"lower(cast({column} as string))"
        case Boolean():
            value = f"cast({column} as int)"
        case Numeric(precision, _):
            value = f"cast({column} as {'double' if precision <= EXACT_DIGITS else 'string'})"
        case Float() | Double():
            refused = f"raise_error('column {name}: SQLite cannot keep NaN')"
            # The digits of a single-precision number, as the pushed path keeps them.
            number = f"cast(cast({column} as {'float' if isinstance(type, Float) else 'double'}) as double)"
            value = f"if(isnan({column}), cast({refused} as double), {number})"
        case _:
            value = column
    return f"{value} as {column}"
