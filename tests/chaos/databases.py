"""The servers that the runs meet their faults on: wiped, cut off, stopped, and asked what is left."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, ClassVar

from ematix_flow.connections import MySQLConnection, PostgresConnection
from ematix_flow.spec.connection import Connection
from tests.backends.conftest import BY_NAME
from tests.backends.lab import System
from tests.chaos.processes import PATIENCE_SECONDS
from tests.servers import MariaDB, Postgres

Ask = Callable[[str], list[tuple[Any, ...]]]
TARGET, LOADS = "shop.customer", "ematix_flow.loads"
OWN = ("raw.rows", TARGET, LOADS, "ematix_flow.run_history", "ematix_flow.watermarks")
"""All tables that may be left after a run."""


class Database(ABC):
    """A server that belongs to one worker."""

    SCHEMAS = ("raw", "shop", "ematix_flow")
    makes_early = False
    """Whether a table is made before the transaction, so that it may be left without rows."""
    DROP: ClassVar[str]
    """Removes a schema."""
    LOCK_TABLE: ClassVar[str]
    STUBBORN: ClassVar[str]
    """Lets others give way in a deadlock."""
    MEEK: ClassVar[str]
    """Gives way in a deadlock."""
    SESSIONS: ClassVar[str]
    """All other sessions."""
    WAITING: ClassVar[str]
    """Those that wait for a lock."""
    TABLES: ClassVar[str]
    """Every table on the server that is not its own, temporary ones too where it tells."""

    def __init__(self, name: str) -> None:
        self.name = name

    def system(self, **fields: Any) -> System:
        """The system that labs load into; `fields` are those of its connection."""
        return replace(BY_NAME[self.name], connect=lambda name, _: self.connection(name, **fields))

    @abstractmethod
    def connection(self, name: str, **fields: Any) -> Connection:
        """How loads get in."""

    @abstractmethod
    def ask(self) -> AbstractContextManager[Ask]:
        """What answers queries, each by itself, through one connection."""

    def wipe(self) -> None:
        """Remove all that a run has left."""
        with self.ask() as ask:
            for schema in self.SCHEMAS:
                ask(self.DROP.format(schema))

    @abstractmethod
    def cut(self) -> None:
        """Let the server end every other session."""

    @abstractmethod
    def rival(self) -> Any:
        """A transaction of somebody else: a connection of the driver, to be closed."""

    @abstractmethod
    def fall(self) -> None:
        """Stop the server as a crash would."""

    @abstractmethod
    def rise(self) -> None:
        """Start the server again."""

    @abstractmethod
    def remove(self) -> None:
        """Stop the server for good."""

    def settle(self) -> None:
        """Wait until nothing of dead drivers is at work: the server undoes what they left open."""
        with self.ask() as ask:
            assert wait_until(lambda: not ask(self.SESSIONS)), "the server still works for somebody"


class PostgresDatabase(Database):
    """A PostgreSQL server whose commits outlive it."""

    DROP = "DROP SCHEMA IF EXISTS {} CASCADE"
    LOCK_TABLE = "LOCK TABLE shop.customer IN ACCESS EXCLUSIVE MODE"
    # Who looks for a deadlock first finds it, and gives way.
    STUBBORN = "SET deadlock_timeout = '1h'"
    MEEK = "SET deadlock_timeout = '5ms'"
    SESSIONS = (
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
        "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    WAITING = f"{SESSIONS} AND wait_event_type = 'Lock'"
    TABLES = (
        "SELECT nspname || '.' || relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace "
        "WHERE relkind IN ('r', 'v', 'm') AND nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')"
    )

    def __init__(self) -> None:
        super().__init__("postgres")
        self._server = Postgres()

    def connection(self, name: str, **fields: Any) -> PostgresConnection:
        options = "-csynchronous_commit%3Don%20-cdeadlock_timeout%3D150ms"
        return PostgresConnection(name, f"{self._server.url()}?options={options}", **fields)

    @contextmanager
    def ask(self) -> Iterator[Ask]:
        import psycopg

        def answer(sql: str) -> list[Any]:
            cursor = connection.execute(sql)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

        with psycopg.connect(self._server.url(), autocommit=True) as connection:
            yield answer

    def wipe(self) -> None:
        super().wipe()
        with self.ask() as ask:
            # What a fallen server leaves, PostgreSQL clears away in its own time; no session sees it.
            for (schema,) in ask("SELECT nspname FROM pg_namespace WHERE nspname ~ '^pg_(toast_)?temp_'"):
                ask(f"DROP SCHEMA IF EXISTS {schema} CASCADE")

    def cut(self) -> None:
        with self.ask() as ask:
            ask(f"SELECT pg_terminate_backend(pid) FROM ({self.SESSIONS}) AS others")

    def rival(self) -> Any:
        import psycopg

        return psycopg.connect(self._server.url())

    def fall(self) -> None:
        self._server.stop("immediate")

    def rise(self) -> None:
        self._server.start()

    def remove(self) -> None:
        self._server.remove()


class MySQLDatabase(Database):
    """A MariaDB server."""

    makes_early = True
    DROP = "DROP DATABASE IF EXISTS {}"
    LOCK_TABLE = "LOCK TABLES shop.customer WRITE"
    # Who has changed more rows may go on.
    STUBBORN = (
        "INSERT INTO lab0.weight WITH RECURSIVE number AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM number "
        "WHERE n < 900) SELECT n FROM number"
    )
    MEEK = "DO 0"
    SESSIONS = "SELECT id FROM information_schema.processlist WHERE user = 'flow' AND id <> CONNECTION_ID()"
    WAITING = (
        f"{SESSIONS} AND (state LIKE 'Waiting for%' OR state = 'User lock') "
        "UNION ALL SELECT 1 FROM information_schema.global_status "
        "WHERE variable_name = 'innodb_row_lock_current_waits' AND variable_value <> '0'"
    )
    TABLES = (
        "SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables "
        "WHERE table_schema NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys', 'lab0')"
    )

    def __init__(self) -> None:
        super().__init__("mysql")
        self._server = MariaDB()
        with self.ask() as ask:
            ask("CREATE DATABASE lab0")
            ask("CREATE TABLE lab0.weight (n INT)")

    def connection(self, name: str, **fields: Any) -> MySQLConnection:
        return MySQLConnection(name, self._server.url(), **fields)

    @contextmanager
    def ask(self) -> Iterator[Ask]:
        with self.rival() as connection:
            yield lambda sql: list(connection.execute(sql))

    def cut(self) -> None:
        with self.ask() as ask:
            for (process,) in ask(self.SESSIONS):
                # It may have ended by itself meanwhile.
                ask(f"BEGIN NOT ATOMIC DECLARE CONTINUE HANDLER FOR 1094 BEGIN END; KILL {process}; END")

    def rival(self) -> Any:
        import pymysql

        server = self._server
        address = {"host": "127.0.0.1", "port": server.port, "user": server.USER, "password": "flow"}
        return _Rival(pymysql.connect(**address, ssl_disabled=True))

    def fall(self) -> None:
        self._server.stop()

    def rise(self) -> None:
        self._server.start()

    def remove(self) -> None:
        self._server.remove()


class _Rival:
    """PyMySQL's connection with the few words of psycopg's."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, sql: str) -> Sequence[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall()  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def __enter__(self) -> _Rival:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


DATABASES: dict[str, Callable[[], Database]] = {"postgres": PostgresDatabase, "mysql": MySQLDatabase}


@contextmanager
def opened(names: tuple[str, ...]) -> Iterator[dict[str, Database]]:
    """A server for each name, all of them gone afterwards."""
    servers = {name: DATABASES[name]() for name in names}
    try:
        yield servers
    finally:
        for server in servers.values():
            server.remove()


def wait_until(condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> bool:
    """Whether something came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True
