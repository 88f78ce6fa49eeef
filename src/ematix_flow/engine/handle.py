"""A connection as users hold it: what a pipeline function is given, and what it may ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..backends.base import Backend
from ..errors import RunError
from ..spec.place import TableRef

__all__ = ["Handle"]


class Handle:
    """What a pipeline function is given for a connection: what it is, and a question or two it may ask."""

    def __init__(self, backend: Backend, *, live: bool = True) -> None:
        self._backend, self._live = backend, live

    @property
    def name(self) -> str:
        """The connection's name."""
        return self._backend.connection.name

    @property
    def kind(self) -> str:
        """The connection's kind."""
        return self._backend.connection.kind

    def dialect(self) -> str:
        """The SQL dialect the connection's system speaks."""
        return self._backend.dialect.name

    def connection_info(self) -> Mapping[str, object]:
        """The connection's fields, secrets redacted."""
        return self._backend.connection.redacted()

    def ping(self) -> str:
        """A short description of the system, or ConnectError."""
        return self._asked().ping()

    def execute(self, sql: str) -> int:
        """Run one statement, committed at once; gives how many rows it changed."""
        return self._asked().execute([sql])

    def execute_in_transaction(self, statements: Sequence[str]) -> int:
        """Run all statements or none; gives how many rows they changed."""
        return self._asked().execute(statements)

    def table_sql(self, schema: str, table: str, columns: Sequence[str] | None = None) -> str:
        """The query that gives a table, in the words of the connection's system; opens nothing."""
        shown = "*" if columns is None else ", ".join(self._backend.dialect.quote(name) for name in columns)
        return f"SELECT {shown} FROM {self._backend.relation_sql(TableRef(schema, table))}"

    def is_of(self, backend: Backend) -> bool:
        """Whether this is a handle of that system."""
        return self._backend is backend

    def _asked(self) -> Backend:
        if not self._live:
            raise RunError(f"a preview opens nothing, and the pipeline asked connection {self.name!r}")
        return self._backend

    def __repr__(self) -> str:
        return f"Handle({self._backend.connection!r})"
