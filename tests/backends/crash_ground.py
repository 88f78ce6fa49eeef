"""Where loads die: folders and databases that every kill point begins anew in."""

from __future__ import annotations

import shutil
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar
from urllib.parse import urlsplit

import psycopg
import pymysql

from ematix_flow.connections import MySQLConnection, PostgresConnection
from ematix_flow.spec.connection import Connection
from tests.backends.conftest import BY_NAME

PATIENCE_SECONDS = 60


class Ground:
    """Where the systems of a lab are: below a folder that is copied as it is."""

    catalog: str | None = None
    """What there is to see of a server when nobody works on it: where that is the same, the next run does the same."""

    def make(self, place: Path) -> None:
        """A folder for a lab."""
        place.mkdir()

    def copy(self, base: Path, place: Path) -> None:
        """Let a second lab begin where the first one stands."""
        shutil.copytree(base, place)

    def settle(self, place: Path) -> None:
        """Wait until nothing of the dead process is at work."""

    def remove(self, place: Path) -> None:
        """Give back what a lab took."""
        shutil.rmtree(place)


class ServerGround(Ground):
    """An empty database of a server: one lab at a time, which begins where the base stood."""

    SCHEMAS = ("raw", "shop", "ematix_flow")
    DROP: ClassVar[str]
    CREATE: ClassVar[str]
    LIKE: ClassVar[str]
    OTHERS: ClassVar[str]
    """The sessions of others."""

    def __init__(self, system: str, connect: Callable[[str], Connection]) -> None:
        self.system = replace(BY_NAME[system], connect=lambda name, _: connect(name))
        self._kept: dict[str, list[str]] = {}

    @abstractmethod
    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """What the last of the statements gives, by a connection of its own: children must not share one."""

    def make(self, place: Path) -> None:
        super().make(place)
        self.execute(*(self.DROP.format(schema) for schema in self.SCHEMAS))

    def copy(self, base: Path, place: Path) -> None:
        super().copy(base, place)
        if not self._kept:
            self._keep()
        statements = [self.DROP.format(schema) for schema in self.SCHEMAS]
        for schema, tables in self._kept.items():
            statements.append(self.CREATE.format(schema))
            for table in tables:
                name, kept = f"{schema}.{table}", f"kept_{schema}.{table}"
                statements += [self.LIKE.format(name, kept), f"INSERT INTO {name} SELECT * FROM {kept}"]
        self.execute(*statements)

    def settle(self, place: Path) -> None:
        """The server rolls back what a client left open, once it sees that the client is gone."""
        deadline = monotonic() + PATIENCE_SECONDS
        while self.execute(self.OTHERS):
            assert monotonic() < deadline, "the server still works for somebody"

    def _keep(self) -> None:
        """Put the base aside."""
        assert self.catalog is not None
        for schema, table in self.execute(self.catalog):
            self._kept.setdefault(schema, []).extend([table] if table else [])
        for schema, tables in self._kept.items():
            kept = f"kept_{schema}"
            self.execute(self.DROP.format(kept), self.CREATE.format(kept))
            for table in tables:
                made = self.LIKE.format(f"{kept}.{table}", f"{schema}.{table}")
                self.execute(made, f"INSERT INTO {kept}.{table} SELECT * FROM {schema}.{table}")


class PostgresGround(ServerGround):
    """A database of PostgreSQL."""

    DROP = "DROP SCHEMA IF EXISTS {} CASCADE"
    CREATE = "CREATE SCHEMA {}"
    LIKE = "CREATE TABLE {} (LIKE {} INCLUDING ALL)"
    OTHERS = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    catalog = (
        "SELECT nspname, relname FROM pg_catalog.pg_namespace AS n LEFT JOIN pg_catalog.pg_class AS c "
        "ON c.relnamespace = n.oid AND relkind = 'r' WHERE nspname IN ('raw', 'shop', 'ematix_flow') ORDER BY 1, 2"
    )

    def __init__(self, url: str) -> None:
        super().__init__("postgres", lambda name: PostgresConnection(name, url))
        self._url = url

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._url, autocommit=True) as connection:
            cursor = connection.execute("; ".join(statements))  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []


class MySQLGround(ServerGround):
    """The databases of MariaDB, which it calls schemas too."""

    DROP = "DROP DATABASE IF EXISTS {}"
    CREATE = "CREATE DATABASE {}"
    LIKE = "CREATE TABLE {} LIKE {}"
    OTHERS = "SELECT 1 FROM information_schema.processlist WHERE user = 'flow' AND id <> CONNECTION_ID()"
    catalog = (
        "SELECT s.schema_name, t.table_name FROM information_schema.schemata AS s "
        "LEFT JOIN information_schema.tables AS t ON t.table_schema = s.schema_name "
        "WHERE s.schema_name IN ('raw', 'shop', 'ematix_flow') ORDER BY 1, 2"
    )

    def __init__(self, url: str) -> None:
        super().__init__("mysql", lambda name: MySQLConnection(name, url))
        parts = urlsplit(url)
        self._address = {"host": parts.hostname, "port": parts.port, "user": parts.username, "password": parts.password}

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        with pymysql.connect(**self._address, autocommit=True, ssl_disabled=True) as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())
