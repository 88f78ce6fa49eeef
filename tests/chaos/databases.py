"""The servers that the runs meet their faults on: wiped, cut off, stopped, and asked what is left."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ematix_flow.connections import MySQLConnection, PostgresConnection
from ematix_flow.spec.connection import Connection
from tests.backends.conftest import BY_NAME
from tests.backends.lab import System
from tests.chaos.processes import PATIENCE_SECONDS
from tests.servers import MariaDB, Postgres

OWN = ("raw.rows", "shop.customer", "ematix_flow.loads", "ematix_flow.run_history", "ematix_flow.watermarks")
"""All tables that may be left after a run."""


class Database(ABC):
    """A server that belongs to one worker."""

    SCHEMAS = ("raw", "shop", "ematix_flow")
    makes_early = False
    """Whether a table is made before the transaction, so that it may be left without rows."""
    LOCK_TABLE = "LOCK TABLE shop.customer IN ACCESS EXCLUSIVE MODE"

    def __init__(self, name: str) -> None:
        self.name = name

    def system(self, **fields: Any) -> System:
        """The system that labs load into; `fields` are those of its connection."""
        return replace(BY_NAME[self.name], connect=lambda name, _: self.connection(name, **fields))

    @abstractmethod
    def connection(self, name: str, **fields: Any) -> Connection:
        """How loads get in."""

    @abstractmethod
    def wipe(self) -> None:
        """Remove all that a run has left."""

    @abstractmethod
    def cut(self) -> None:
        """Let the server end every other session."""

    @abstractmethod
    def sessions(self) -> int:
        """How many other sessions there are."""

    @abstractmethod
    def waiting(self) -> int:
        """How many sessions wait for a lock."""

    @abstractmethod
    def tables(self) -> set[str]:
        """Every table on the server that is not its own, temporary ones too where it tells."""

    @abstractmethod
    def select(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""

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
        assert wait_until(lambda: self.sessions() == 0), "the server still works for somebody"

    def exists(self) -> bool:
        """Whether the target is there."""
        return "shop.customer" in self.tables()


class PostgresDatabase(Database):
    """A PostgreSQL server whose commits outlive it."""

    def __init__(self) -> None:
        super().__init__("postgres")
        self._server = Postgres()

    def connection(self, name: str, **fields: Any) -> PostgresConnection:
        options = "-csynchronous_commit%3Don%20-cdeadlock_timeout%3D150ms"
        return PostgresConnection(name, f"{self._server.url()}?options={options}", **fields)

    def wipe(self) -> None:
        self._execute(f"DROP SCHEMA IF EXISTS {', '.join(self.SCHEMAS)} CASCADE")

    def cut(self) -> None:
        self._execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {self._OTHERS}")

    def sessions(self) -> int:
        return int(self.select(f"SELECT COUNT(*) FROM pg_stat_activity WHERE {self._OTHERS}")[0][0])

    def waiting(self) -> int:
        waits = f"SELECT COUNT(*) FROM pg_stat_activity WHERE {self._OTHERS} AND wait_event_type = 'Lock'"
        return int(self.select(waits)[0][0])

    def tables(self) -> set[str]:
        rows = self.select(
            "SELECT nspname || '.' || relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace "
            "WHERE relkind IN ('r', 'v', 'm') AND nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')"
        )
        return {str(name) for (name,) in rows}

    def select(self, sql: str) -> list[tuple[Any, ...]]:
        with self._open() as connection:
            return connection.execute(sql).fetchall()  # type: ignore[no-any-return]

    def rival(self) -> Any:
        import psycopg

        return psycopg.connect(self._server.url())

    def fall(self) -> None:
        self._server.stop("immediate")

    def rise(self) -> None:
        self._server.start()

    def remove(self) -> None:
        self._server.remove()

    def _execute(self, sql: str) -> None:
        with self._open() as connection:
            connection.execute(sql)

    def _open(self) -> Any:
        import psycopg

        return psycopg.connect(self._server.url(), autocommit=True)

    _OTHERS = "datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"


class MySQLDatabase(Database):
    """A MariaDB server."""

    makes_early = True
    LOCK_TABLE = "LOCK TABLES shop.customer WRITE"

    def __init__(self) -> None:
        super().__init__("mysql")
        self._server = MariaDB()
        self._execute("CREATE DATABASE lab0")

    def connection(self, name: str, **fields: Any) -> MySQLConnection:
        return MySQLConnection(name, self._server.url(), **fields)

    def wipe(self) -> None:
        for schema in self.SCHEMAS:
            self._execute(f"DROP DATABASE IF EXISTS {schema}")

    def cut(self) -> None:
        for (process,) in self.select(f"SELECT id {self._OTHERS}"):
            # It may have ended by itself meanwhile.
            self._execute(f"BEGIN NOT ATOMIC DECLARE CONTINUE HANDLER FOR 1094 BEGIN END; KILL {process}; END")

    def sessions(self) -> int:
        return int(self.select(f"SELECT COUNT(*) {self._OTHERS}")[0][0])

    def waiting(self) -> int:
        rows = self.select(
            "SELECT (SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT') "
            f"+ (SELECT COUNT(*) {self._OTHERS} AND (state LIKE 'Waiting for%' OR state = 'User lock'))"
        )
        return int(rows[0][0])

    def tables(self) -> set[str]:
        rows = self.select(
            "SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables "
            "WHERE table_schema NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')"
        )
        return {str(name) for (name,) in rows}

    def select(self, sql: str) -> list[tuple[Any, ...]]:
        with self.rival() as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def rival(self) -> Any:
        import pymysql

        server = self._server
        return _Rival(pymysql.connect(host="127.0.0.1", port=server.port, user=server.USER, password="flow"))

    def fall(self) -> None:
        self._server.stop()

    def rise(self) -> None:
        self._server.start()

    def remove(self) -> None:
        self._server.remove()

    def _execute(self, sql: str) -> None:
        with self.rival() as connection:
            connection.execute(sql)

    _OTHERS = "FROM information_schema.processlist WHERE user = 'flow' AND id <> CONNECTION_ID()"


class _Rival:
    """PyMySQL's connection with the few words of psycopg's."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, sql: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)

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
