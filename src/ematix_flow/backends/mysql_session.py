"""An open connection to MySQL or MariaDB: how it is opened, and what its server would do unasked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from ..errors import BackendError, ConfigError
from ..spec.place import TableRef
from .base import SchemaChange
from .mysql_copy import field_kind
from .mysql_dialect import MARIADB_COLLATION, MYSQL_COLLATION
from .optional import optional
from .server_connection import MySQLConnection
from .sql_change import BROUGHT, CHANGED, STAGED
from .sql_connection import SqlCursor

__all__ = ["STAND_IN", "MySQLSession", "address", "open_driver"]

STAND_IN = "_ematix_target"
"""The temporary table that a dry run changes in place of the one that it may not."""
_TEMPORARY = (BROUGHT, STAGED, CHANGED, STAND_IN)
TLS_ERROR = 2026
"""What clients of MySQL call an error of encryption."""
FOR_EVER = 31_536_000
"""A year, in seconds."""
_MODES = (
    "STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION,"
    "NO_AUTO_VALUE_ON_ZERO"
)


class MySQLSession:
    """An open connection.

    The server commits by itself before a statement that makes or changes a table. Here such a statement is refused once
    the transaction has written rows, and what follows it belongs to a new transaction.
    """

    def __init__(self, driver: Any, connection: MySQLConnection) -> None:
        self.driver = driver
        self.is_mariadb = "MariaDB" in driver.get_server_info()
        self.collation = MARIADB_COLLATION if self.is_mariadb else MYSQL_COLLATION
        self.reopens = self.is_mariadb
        """Whether one query may look at a temporary table several times."""
        self.incoming: str | None = None
        """The query of the rows that a load looks at a single time."""
        self.stand_in: TableRef | None = None
        self.made: SchemaChange | None = None
        """What the load under way has made: a table, or columns of one."""
        self._in_transaction = self._has_written = False
        self._copied: set[str] = set()
        for setting in self._settings(connection):
            self.run(setting)

    def execute(self, sql: str, /) -> SqlCursor:
        """Run one statement."""
        verb, second = _first_words(sql)
        makes = verb in _MAKING and second != "TEMPORARY"
        if makes and self._in_transaction and self._has_written:
            raise BackendError(
                "a statement that makes or changes a table would commit the rows that were written before it",
                hint="let it run before them, or by itself",
            )
        for name in _COPY.findall(sql):
            self._copy(name)
        cursor = _Cursor(self.run(sql))
        if verb in ("BEGIN", "COMMIT", "ROLLBACK") and second != "TO":
            self._in_transaction, self._has_written = verb == "BEGIN", False
            self.made = None if verb == "COMMIT" else self.made
        elif makes and self._in_transaction:
            self.run("BEGIN")
        self._has_written = self._has_written or verb in _WRITING or (verb == "WITH" and _writes(sql))
        return cursor

    def insert_many(self, sql: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Run an INSERT with marks, for many rows in few statements."""
        self._has_written = True
        self.driver.cursor().executemany(sql, rows)

    def run(self, sql: str) -> Any:
        """Run a statement about temporary tables, which are no part of the transaction; gives the driver's cursor."""
        cursor = self.driver.cursor()
        cursor.execute(sql)
        return cursor

    @contextmanager
    def aside(self, table: str) -> Iterator[None]:
        """What the block writes into a temporary table is no part of the transaction: tables may be made afterwards."""
        before = self._has_written
        yield
        if table in _TEMPORARY:
            self._has_written = before

    def copy_name(self, table: str, number: int) -> str:
        """The name of a temporary table for the place in a query where it stands for the `number`th time."""
        return table if self.reopens or number == 1 else f"{table}_{number}"

    def forget(self) -> None:
        """Drop every temporary table of a load that is over."""
        for name in (*_TEMPORARY, *self._copied):
            self.run(f"DROP TEMPORARY TABLE IF EXISTS {name}")
        self._copied.clear()
        self.incoming = self.stand_in = self.made = None

    def close(self) -> None:
        """Let go of the database."""
        self.driver.close()

    def _copy(self, name: str) -> None:
        """A server that opens a temporary table once in a query gets a copy for every further time."""
        original = name.rpartition("_")[0]
        if name not in self._copied:
            self.run(f"CREATE TEMPORARY TABLE {name} LIKE {original}")
            self.run(f"INSERT INTO {name} SELECT * FROM {original}")
            self._copied.add(name)

    def _settings(self, connection: MySQLConnection) -> list[str]:
        waiting = connection.lock_timeout or FOR_EVER
        seconds = connection.statement_timeout
        bound = f"max_statement_time = {seconds}"
        if not self.is_mariadb:
            # MySQL tells by default what the size of a table was a day ago.
            bound = f"max_execution_time = {seconds * 1000}, information_schema_stats_expiry = 0"
        common = f"sql_mode = '{_MODES}', time_zone = '+00:00', sql_auto_is_null = 0, wait_timeout = 28800"
        engines = "default_storage_engine = InnoDB, default_tmp_storage_engine = InnoDB"
        locks = f"lock_wait_timeout = {waiting}, innodb_lock_wait_timeout = {waiting}"
        return [
            f"SET NAMES utf8mb4 COLLATE {self.collation}",
            f"SET SESSION {common}, {engines}, {locks}, {bound}",
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        ]


class _Cursor:
    """What a statement gives back, its columns with their types in the server's words."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        self.rowcount = cursor.rowcount

    @property
    def description(self) -> Sequence[Sequence[object]] | None:
        if self._cursor.description is None:
            return None
        # What the driver describes does not tell bytes from text.
        return [(each.name, field_kind(each)) for each in self._cursor._result.fields]

    def fetchall(self) -> list[tuple[object, ...]]:
        return list(self._cursor.fetchall())

    def fetchmany(self, size: int, /) -> list[tuple[object, ...]]:
        return list(self._cursor.fetchmany(size))


_MAKING = (
    "CREATE", "ALTER", "DROP", "TRUNCATE", "RENAME", "GRANT", "REVOKE", "ANALYZE", "OPTIMIZE", "REPAIR", "LOCK",
    "UNLOCK", "FLUSH", "RESET", "INSTALL", "UNINSTALL",
)  # fmt: skip
"""What the server commits before."""
_WRITING = ("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD")
_COPY = re.compile(rf"(?<!\w)((?:{STAGED}|{STAND_IN})_\d+)(?!\w)")


_SPACE = r"(?:\s|/\*.*?\*/|--[^\n]*\n|#[^\n]*\n)*"
_BEGIN = re.compile(rf"{_SPACE}(\w*){_SPACE}(\w*)", re.DOTALL)


def _first_words(sql: str) -> tuple[str, str]:
    """The words that a statement begins with, in capitals; comments are none."""
    found = _BEGIN.match(sql)
    assert found is not None
    return found[1].upper(), found[2].upper()


def _writes(sql: str) -> bool:
    """Whether a statement may write: a query that only speaks of it is taken for one that does."""
    return re.search(r"\b(INSERT|UPDATE|DELETE|REPLACE)\b", sql, re.IGNORECASE) is not None


def open_driver(connection: MySQLConnection, **options: object) -> Any:
    """The driver's own connection; `options` are the driver's."""
    pymysql = optional("pymysql", extra="mysql")
    parts = _parts(connection)
    database = unquote(parts.path.strip("/"))
    if not database:
        raise ConfigError(
            f"connection {connection.name!r}: the URL names no database",
            hint="write mysql://user:password@host:3306/database",
            declared_at=connection.declared_at,
        )
    return _driver_class()(
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 3306,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or "").encode(),  # as text, the driver would take it for Latin-1
        database=database,
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=connection.connect_timeout,
        client_flag=pymysql.constants.CLIENT.FOUND_ROWS,
        program_name="ematix-flow",
        **_tls(connection, dict(parse_qsl(parts.query))),
        **options,
    )


@cache
def _driver_class() -> Any:
    """The driver's connection, which reads the machine's certificates once: that takes longer than to connect."""
    base: Any = optional("pymysql.connections", extra="mysql").Connection

    usual: list[Any] = []

    class Driver(base):  # type: ignore[misc]
        def _create_ssl_ctx(self, options: Any) -> Any:
            if options:
                return self._own_ssl_ctx(options)
            if not usual:
                usual.append(super()._create_ssl_ctx(options))
            return usual[0]

        def _own_ssl_ctx(self, options: Any) -> Any:
            try:
                context = super()._create_ssl_ctx(options)
            except OSError as error:
                raise optional("pymysql", extra="mysql").err.OperationalError(TLS_ERROR, str(error)) from error
            # Where the machine's own authorities are trusted, the driver forgets to compare the name.
            context.check_hostname = bool(options.get("check_hostname"))
            return context

    return Driver


def address(connection: MySQLConnection) -> tuple[str, int, str]:
    """Which server, and who asks it."""
    parts = _parts(connection)
    return parts.hostname or "127.0.0.1", parts.port or 3306, unquote(parts.username or "")


def _parts(connection: MySQLConnection) -> SplitResult:
    """The URL, taken apart; what does not fit is not quoted, because it may be a piece of the password."""
    try:
        parts = urlsplit(connection.url)
        _ = parts.port
    except ValueError:
        raise ConfigError(
            f"connection {connection.name!r}: the URL cannot be read",
            hint="percent-encode what is special in a user or password, such as / as %2F and @ as %40",
            declared_at=connection.declared_at,
        ) from None
    return parts


def _tls(connection: MySQLConnection, given: Mapping[str, str]) -> dict[str, object]:
    for name in given:
        if name.startswith("ssl_") and "verify" not in name and not Path(given[name]).is_file():
            raise ConfigError(
                f"connection {connection.name!r}: {name} of the URL names {given[name]!r}, which is no file",
                hint="write the path of a file that this process may read",
                declared_at=connection.declared_at,
            )
    chosen: dict[str, object] = {
        name: value.lower() in ("1", "true", "yes") if name.startswith("ssl_verify") else value
        for name, value in given.items()
        if name != "charset"
    }
    # Who names an authority wants it asked; the driver alone would encrypt and trust anybody.
    return {"ssl_verify_cert": True, **chosen} if "ssl_ca" in chosen else chosen
