"""An open database: the small part of a driver that loads need, and its errors in our words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet

from ..errors import FlowError

__all__ = ["SqlConnection", "SqlCursor", "Translated", "interrupt_statements", "roll_back"]


class SqlCursor(Protocol):
    """What a statement gives back."""

    @property
    def description(self) -> Sequence[Sequence[object]] | None:
        """The columns of the result, name first."""

    def fetchall(self) -> list[tuple[object, ...]]:
        """Every row."""

    def fetchmany(self, size: int, /) -> list[tuple[object, ...]]:
        """The next rows, `size` at most."""


class SqlConnection(Protocol):
    """An open connection: the small part of a driver that loads need."""

    def execute(self, sql: str, /) -> SqlCursor:
        """Run one statement."""

    def close(self) -> None:
        """Let go of the database."""


class Translated:
    """A connection whose errors are ours, whether a statement fails at once or while its rows are fetched."""

    def __init__(
        self,
        connection: SqlConnection,
        errors: tuple[type[Exception], ...],
        translate: Callable[[Exception], FlowError],
    ) -> None:
        self._connection, self.errors, self._translate = connection, errors, translate
        _open.add(self)

    @property
    def driver(self) -> SqlConnection:
        """The driver's own connection."""
        return self._connection

    def execute(self, sql: str, /) -> SqlCursor:
        """Run one statement."""
        try:
            return _TranslatedCursor(self._connection.execute(sql), self.errors, self._translate)
        except self.errors as error:
            raise self._translate(error) from error
        except RuntimeError as error:
            if "interrupted" in str(error).lower():  # what DuckDB makes of Ctrl-C
                raise KeyboardInterrupt from error
            raise

    def close(self) -> None:
        """Let go of the database."""
        _open.discard(self)
        self._connection.close()


_open: WeakSet[Translated] = WeakSet()


def interrupt_statements() -> None:
    """Let the statements that a database of this process is at give up; from any thread.

    While such a database is at work, the thread that called it hears of no signal.
    """
    for connection in list(_open):
        if interrupt := getattr(connection.driver, "interrupt", None):
            with suppress(*connection.errors):  # it was closed meanwhile
                interrupt()


class _TranslatedCursor:
    def __init__(
        self, cursor: SqlCursor, errors: tuple[type[Exception], ...], translate: Callable[[Exception], FlowError]
    ) -> None:
        self._cursor, self._errors, self._translate = cursor, errors, translate
        self.rowcount = getattr(cursor, "rowcount", -1)

    @property
    def description(self) -> Sequence[Sequence[object]] | None:
        return self._cursor.description

    def fetchall(self) -> list[tuple[object, ...]]:
        try:
            return self._cursor.fetchall()
        except self._errors as error:
            raise self._translate(error) from error

    def fetchmany(self, size: int, /) -> list[tuple[object, ...]]:
        try:
            return self._cursor.fetchmany(size)
        except self._errors as error:
            raise self._translate(error) from error


def roll_back(connection: SqlConnection, error: BaseException) -> None:
    """Undo the transaction; `error` is why, and stays what the user hears of."""
    try:
        connection.execute("ROLLBACK")
    except FlowError as second:
        error.add_note(f"The transaction was gone already: {second.message}")
