"""What databases on servers share: rows from elsewhere come into temporary tables, or straight into the table."""

from __future__ import annotations

import hashlib
import logging
import os
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Literal

from ..errors import BackendError, FlowError
from ..spec.place import TableRef
from ..spec.run import Commit
from ..spec.table import Table
from ..types import ColumnType
from .arrow_files import parquet_types
from .base import Brought, Fact, Frame, Load, QueryColumn, Relation
from .parts import Limits
from .retry import pauses
from .server_connection import ServerConnection
from .sql import Opened, SqlBackend, SqlConnection, SqlCursor, Waiting
from .sql_change import BROUGHT
from .sql_text import is_query, is_several
from .staging import staged
from .workshop import Workshop, is_cluster

__all__ = ["SchemaState", "ServerBackend", "bookkeeping_fact", "clock_fact"]

SchemaState = Literal["there", "missing", "forbidden", "closed"]
"""A schema as a user finds it: one to make tables in, one to make, one that may not be made, or one to keep out of."""

_LOG = logging.getLogger(__name__)
_NOTHING: Mapping[str, object] = MappingProxyType({})
CLOCKS_APART = timedelta(seconds=5)
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
"""Seconds between tries to connect."""


class ServerBackend(SqlBackend):
    """A database on a server, which keeps the keys of its tables itself."""

    connection: ServerConnection
    LONGEST_NAME: ClassVar[int]
    """How many bytes the name of an index may have."""
    BOOKKEEPING_HINT = (
        "create that schema and let this user make tables in it, or name another one: bookkeeping_schema= of the "
        "connection"
    )

    CREATE_STAGING: ClassVar[str] = "CREATE TABLE"
    """Makes a table for the rows of a task of Spark."""

    def __init__(self, connection: ServerConnection, workshop: Workshop) -> None:
        super().__init__(connection, workshop)
        self.load_retries = connection.load_retries
        self._stays_away = False

    def patiently(self, open: Callable[[], Opened]) -> Opened:
        """What `open` gives, tried again for the connection's `retry_timeout` while the server may come back.

        A server that stayed away for all that time is asked once from then on, until it answers.
        """
        seconds = 0 if self._stays_away else self.connection.retry_timeout
        began = time.monotonic()
        for tries, pause in enumerate(pauses(FIRST_PAUSE, LONGEST_PAUSE), start=1):
            try:
                opened = self.once(open)
            except FlowError as error:
                if not error.passing:
                    raise
                spent = time.monotonic() - began
                if spent >= seconds:
                    error.passing, self._stays_away = False, True
                    error.message += f" (tried {tries} times in {spent:.0f} s)" if tries > 1 else ""
                    raise
                wait = min(pause, seconds - spent)
                _LOG.info("trying again in %.1f s: %s", wait, error.message)
            else:
                self._stays_away = False
                return opened
            time.sleep(wait)
        raise AssertionError("pauses never end")

    @property
    def bookkeeping_schema(self) -> str:
        return self.connection.bookkeeping_schema

    def read_limits(self) -> Limits:
        """When a table is read by several connections, and by how many."""
        return Limits(self.connection.max_connections or min(os.cpu_count() or 1, 4))

    @abstractmethod
    def fill(
        self,
        connection: SqlConnection,
        name: str,
        rows: Waiting,
        types: Mapping[str, ColumnType],
        constants: Mapping[str, object] = _NOTHING,
    ) -> int:
        """Bring rows from outside into a table with columns of exactly these types, in the transaction that is open.

        Each row has the same `constants` beside its own values. Gives the number of rows.
        """

    @abstractmethod
    def staging_columns(self, table: Table, names: Sequence[str]) -> tuple[str, Mapping[str, ColumnType]]:
        """Columns of a table for incoming rows, as a statement that creates it says them, and their types."""

    @contextmanager
    def load(self, incoming: Relation, table: Table, commit: Commit) -> Iterator[Load]:
        """One transaction; the rows of a frame on a cluster are brought near before it, by the tasks themselves."""
        rows: AbstractContextManager[Relation] = nullcontext(incoming)
        if isinstance(incoming, Frame) and is_cluster(incoming.frame.sparkSession) and not self._is_first_try(commit):
            rows = staged(self, incoming.frame, table, commit.run.run_id)
        with rows as given, super().load(given, table, commit) as load:
            yield load

    def _is_first_try(self, commit: Commit) -> bool:
        """Whether this is a dry run where no run has been: it leaves nothing, not even a schema."""
        return commit.dry_run and self.columns(TableRef(self.bookkeeping_schema, "run_history")) is None

    @abstractmethod
    def reported(self, type: ColumnType) -> str:
        """What the server calls a column that was made with a declared type."""

    def index_name(self, index: TableRef) -> str:
        """Servers put an index beside its table by themselves, and cut or refuse a name that is too long."""
        name = index.name.encode()
        if len(name) > self.LONGEST_NAME:
            kept = name[: self.LONGEST_NAME - 9].decode(errors="ignore")
            return self.dialect.quote(f"{kept}_{hashlib.sha256(name).hexdigest()[:8]}")
        return self.dialect.quote(index.name)

    def bring(self, folder: Path) -> Brought:
        types = parquet_types(folder)

        def attach(connection: SqlConnection) -> None:
            connection.execute(f"CREATE TEMPORARY TABLE {BROUGHT} ({self.made_of(types)})")
            self.fill(connection, BROUGHT, folder, types)
            self.settle(connection, BROUGHT)

        kinds = {name: self.reported(kind) for name, kind in types.items()}
        return Brought(f"SELECT * FROM {BROUGHT}", attach, kinds)

    @abstractmethod
    def schema_state(self, connection: SqlConnection, schema: str, table: str) -> SchemaState:
        """A schema as this user finds it who wants to make a table there, or use it where it is."""

    def obstacles(self, table: TableRef) -> Sequence[str]:
        with self.session() as connection:
            state = self.schema_state(connection, table.schema, table.name)
            books = self.schema_state(connection, self.bookkeeping_schema, "run_history")
        found = {
            "forbidden": f"schema {table.schema!r} is missing, and this user may not make it: create it",
            "closed": f"this user may not make tables in the schema {table.schema!r}: allow it",
        }
        kept = bookkeeping_fact(self.bookkeeping_schema, books)
        return [
            *((found[state],) if state in found else ()),
            *((f"bookkeeping: {kept.value}",) if kept.is_warning else ()),
        ]

    def described(self, connection: SqlConnection, sql: str) -> tuple[QueryColumn, ...]:
        """The columns of a user's query; what is wrong with it is told in its own words and lines."""
        try:
            cursor = connection.execute(f"SELECT * FROM (\n{sql}\n) AS _source LIMIT 0")
        except BackendError as error:
            raise self.plain_problem(connection, sql, error) from error
        return self.result_columns(cursor.description or (), ())

    def query_columns(self, sql: str) -> tuple[QueryColumn, ...]:
        with self.session() as connection:
            return self.described(connection, self.user_sql(sql))

    def plain_problem(self, connection: SqlConnection, sql: str, error: BackendError) -> BackendError:
        """What is wrong with a user's query that failed with statements of ours around it."""
        if error.transient:
            return error
        where = f"connection {self.connection.name!r} ({self.connection.kind})"
        if is_several(sql, self.dialect.name):
            return BackendError(
                f"{where}: the query holds several statements", hint="keep one; others go into transforms_post="
            )
        if not is_query(sql, self.dialect.name):
            return BackendError(f"{where}: the source is no query, but a statement that changes something")
        try:
            self.analyse(connection, sql)
        except BackendError as plain:
            return plain
        return error

    @abstractmethod
    def analyse(self, connection: SqlConnection, sql: str) -> None:
        """Let the server look at a statement without running it."""

    def made_of(self, types: Mapping[str, ColumnType]) -> str:
        """Columns as a statement that creates a table says them."""
        return ", ".join(f"{self.dialect.quote(name)} {self.dialect.type_name(kind)}" for name, kind in types.items())

    def delivers(self, connection: SqlConnection, table: Table) -> bool:
        """Nothing is converted on the way: the columns must have the declared types."""
        actual = self.columns_in(connection, TableRef(table.schema, table.name))
        stored = {column.name: self.dialect.stored_type(column.type) for column in table.columns}
        return actual is not None and actual.has_types(stored)

    def deliver(self, connection: SqlConnection, staged: Waiting, table: Table, constants: Mapping[str, object]) -> int:
        types = {column.name: column.type for column in table.columns}
        return self.fill(connection, self.relation_sql(TableRef(table.schema, table.name)), staged, types, constants)

    def rows_changed(self, cursor: SqlCursor) -> int:
        return int(cursor.rowcount)  # type: ignore[attr-defined]


def bookkeeping_fact(schema: str, state: SchemaState) -> Fact:
    """Whether the schema of run records, bookmarks and tokens is there, or can be made."""
    elsewhere = "or name another: bookkeeping_schema= of the connection"
    match state:
        case "there":
            return Fact("bookkeeping", f"in {schema}")
        case "missing":
            return Fact("bookkeeping", f"in {schema}, which the first run makes")
        case "forbidden":
            value = f"{schema} is missing, and this user may not make it: create it, {elsewhere}"
        case "closed":
            value = f"this user may not make tables in {schema}: allow it, {elsewhere}"
    return Fact("bookkeeping", value, is_warning=True)


def clock_fact(ahead: timedelta) -> Fact:
    """How far the server's clock is ahead of this machine's."""
    shown = f"{abs(ahead).total_seconds():.1f} s {'ahead of' if ahead > timedelta(0) else 'behind'} this machine"
    return Fact("clock", shown, is_warning=abs(ahead) > CLOCKS_APART)
