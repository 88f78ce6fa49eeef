"""`Source`: a query and the connection that runs it; what a pipeline's function may return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ..errors import SpecError, SpecTypeError
from .connection import Connection

__all__ = ["OpenHandle", "Source"]


@runtime_checkable
class OpenHandle(Protocol):
    """What a source asks of an open handle."""

    @property
    def name(self) -> str:
        """The connection's name."""
        ...

    def table_sql(self, schema: str, table: str, columns: Sequence[str] | None = None) -> str:
        """The query that gives a table."""
        ...


@dataclass(frozen=True)
class Source:
    """A query and the connection that runs it, as a handle or by its name: what a pipeline's function may return."""

    connection: OpenHandle | str
    query: str

    def __post_init__(self) -> None:
        connection: object = self.connection
        if isinstance(connection, Connection):
            object.__setattr__(self, "connection", connection.name)
        elif not isinstance(connection, OpenHandle | str):
            raise SpecTypeError(
                f"Source takes a handle or the name of a connection, not {type(connection).__name__}",
                hint="pass the source or the target that the pipeline's function was given",
            )
        elif connection == "":
            raise SpecError("a Source needs the name of its connection", hint="pass a name, or a handle")

    @classmethod
    def from_query(cls, conn: OpenHandle, sql: str) -> Source:
        """The rows of a query, in the words of the connection's system."""
        return cls(conn, sql)

    @classmethod
    def from_table(cls, conn: OpenHandle, schema: str, table: str, columns: Sequence[str] | None = None) -> Source:
        """The rows of a table: all its columns, or those that are named."""
        return cls(conn, conn.table_sql(schema, table, columns))

    @classmethod
    def postgres_query(cls, conn: OpenHandle, sql: str) -> Source:
        """The same as `from_query`."""
        return cls.from_query(conn, sql)

    @classmethod
    def postgres_table(cls, conn: OpenHandle, schema: str, table: str, columns: Sequence[str] | None = None) -> Source:
        """The same as `from_table`."""
        return cls.from_table(conn, schema, table, columns)
