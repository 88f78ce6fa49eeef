"""A small shop on a database of each kind: the declarations that tests of whole pipelines share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest

from ematix_flow.connections import DuckDBConnection, MySQLConnection, PostgresConnection, SQLiteConnection
from ematix_flow.markers import pk
from ematix_flow.normalize import trim
from ematix_flow.project import Project, current_project
from ematix_flow.spec import registry
from ematix_flow.spec.connection import Connection
from ematix_flow.spec.run import Run
from ematix_flow.spec.table import ManagedTable, build_table_class
from ematix_flow.types import BigInt, Text
from tests.servers import empty_mysql, empty_postgres

__all__ = ["PEOPLE", "USUAL", "Archive", "Customer", "Seen", "Shop", "everywhere", "open_shop"]

PEOPLE = "SELECT 1 AS id, ' Ada ' AS name UNION ALL SELECT 2, 'Bob'"


def table(cls: type) -> type[ManagedTable]:
    return build_table_class(cls, schema="main")


@table
class Customer:
    id: Annotated[BigInt, pk()]
    name: Annotated[Text, trim()]


@table
class Archive:
    id: Annotated[BigInt, pk()]
    name: Text


@table
class Seen:
    id: Annotated[BigInt, pk()]


@dataclass(frozen=True)
class System:
    """A kind of database: how a connection to an empty one is made, and which tables are in it."""

    connect: Callable[[str, Path], Connection]
    tables: str
    lacks_main: bool = False
    """The schema of the shop's tables has to be made before a test can make one there by hand."""


SYSTEMS = {
    "sqlite": System(
        lambda name, folder: SQLiteConnection(name, str(folder / f"{name}.db")),
        "SELECT name FROM sqlite_master WHERE type = 'table'",
    ),
    "duckdb": System(
        lambda name, folder: DuckDBConnection(name, str(folder / f"{name}.db")),
        "SELECT table_name FROM information_schema.tables",
    ),
    "postgres": System(
        lambda name, _: PostgresConnection(name, empty_postgres(f"shop_{name}")),
        "SELECT tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')",
        lacks_main=True,
    ),
    # All schemas of a server are one system here, so the shop has no other one.
    "mysql": System(
        lambda name, _: MySQLConnection(name, empty_mysql(f"shop_{name}")),
        "SELECT table_name FROM information_schema.tables WHERE table_schema IN ('main', 'ematix_flow')",
        lacks_main=True,
    ),
}

_SERVER = pytest.mark.server
USUAL = ("sqlite", pytest.param("postgres", marks=_SERVER))
"""The kinds of database that every test runs on."""

everywhere = pytest.mark.parametrize(
    "shop",
    [*USUAL, pytest.param("mysql", marks=_SERVER), pytest.param("duckdb", marks=pytest.mark.slow)],
    indirect=True,
)
"""Lets a test run on every kind of database."""


class Shop:
    """The project of a test, and what its database holds."""

    def __init__(self, kind: str, project: Project, folder: Path) -> None:
        self.kind, self.project, self._folder = kind, project, folder

    def ask(self, sql: str, connection: str = "default") -> list[tuple[object, ...]]:
        backend = self.project.backend(connection)
        with backend.session() as opened:  # type: ignore[attr-defined]
            return [tuple(row) for row in opened.execute(sql).fetchall()]

    def tell(self, sql: str) -> None:
        """Run a statement; the database is made if it is not there."""
        self.project.connect("default").execute(sql)

    def names(self, table: str = "customer") -> list[object]:
        return [name for (name,) in self.ask(f"SELECT name FROM main.{table} ORDER BY id")]

    def tables(self) -> set[str]:
        return {str(name) for (name,) in self.ask(SYSTEMS[self.kind].tables)}

    def is_untouched(self) -> bool:
        """Whether there is no table, nor a file where the database is one."""
        exists = getattr(self.project.backend("default"), "exists", None)
        return not exists() if exists is not None else self.tables() == set()

    def elsewhere(self) -> str:
        """The URL of an empty database that no connection names."""
        return SYSTEMS[self.kind].connect("elsewhere", self._folder).to_url()

    def runs(self, pipeline: str | None = None) -> list[Run]:
        """Recorded runs, in the order they began."""
        return list(reversed(self.project.runs(pipeline=pipeline)))


@contextmanager
def open_shop(kind: str, folder: Path) -> Iterator[Shop]:
    """A shop whose declarations are forgotten afterwards; the current folder is its project."""
    system = SYSTEMS[kind]
    with registry.scope() as declared:
        for name in ("default", "other") if kind != "mysql" else ("default",):
            declared.add_connection(system.connect(name, folder))
        project = current_project()
        try:
            shop = Shop(kind, project, folder)
            if system.lacks_main:
                shop.tell("CREATE SCHEMA main")
            yield shop
        finally:
            project.close()
