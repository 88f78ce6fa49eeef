"""A small shop on an embedded database: the declarations that tests of whole pipelines share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from ematix_flow.connections import DuckDBConnection, SQLiteConnection
from ematix_flow.markers import pk
from ematix_flow.normalize import trim
from ematix_flow.project import Project, current_project
from ematix_flow.spec import registry
from ematix_flow.spec.connection import Connection
from ematix_flow.spec.run import Run
from ematix_flow.spec.table import ManagedTable, build_table_class
from ematix_flow.types import BigInt, Text

__all__ = ["PEOPLE", "Archive", "Customer", "Seen", "Shop", "open_shop"]

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


class Shop:
    """The project of a test, and what its database holds."""

    def __init__(self, kind: str, project: Project) -> None:
        self.kind, self.project = kind, project

    def ask(self, sql: str, connection: str = "default") -> list[tuple[object, ...]]:
        backend = self.project.backend(connection)
        with backend.session() as opened:  # type: ignore[attr-defined]
            return [tuple(row) for row in opened.execute(sql).fetchall()]

    def tell(self, sql: str) -> None:
        backend = self.project.backend("default")
        with backend.creating():  # type: ignore[attr-defined]
            backend.execute([sql])

    def names(self, table: str = "customer") -> list[object]:
        return [name for (name,) in self.ask(f"SELECT name FROM main.{table} ORDER BY id")]

    def tables(self) -> set[str]:
        kept = {
            "duckdb": "SELECT table_name FROM information_schema.tables",
            "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table'",
        }
        return {str(name) for (name,) in self.ask(kept[self.kind])}

    def runs(self, pipeline: str | None = None) -> list[Run]:
        """Recorded runs, in the order they began."""
        return list(reversed(self.project.runs(pipeline=pipeline)))


@contextmanager
def open_shop(kind: str, folder: Path) -> Iterator[Shop]:
    """A shop whose declarations are forgotten afterwards; the current folder is its project."""
    kinds: dict[str, type[Connection]] = {"duckdb": DuckDBConnection, "sqlite": SQLiteConnection}
    with registry.scope() as declared:
        for name in ("default", "other"):
            declared.add_connection(kinds[kind](name, str(folder / f"{name}.db")))  # type: ignore[call-arg]
        project = current_project()
        try:
            yield Shop(kind, project)
        finally:
            project.close()
