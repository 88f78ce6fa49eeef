"""Statements that create tables and indexes, for any SQL database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import BackendError, ConnectError
from ..spec.place import TableRef
from ..spec.table import DELETED, Column, Table
from ..types import Boolean

if TYPE_CHECKING:
    from .base import SchemaChange
    from .sql import SqlBackend
    from .sql_connection import SqlConnection

__all__ = ["change_table", "create_sql", "index_sql", "keys_sql"]


def change_table(backend: SqlBackend, connection: SqlConnection, change: SchemaChange, *, keyed: bool = True) -> None:
    """Create the table, or add and widen its columns, in the transaction that is open.

    Unless it is to be `keyed`, a new table has no key and no index yet.
    """
    table = change.table
    target = backend.relation_sql(TableRef(table.schema, table.name))
    ref = TableRef(table.schema, table.name)
    if change.create:
        with _named(f"schema {table.schema!r} could not be made for table {ref}", _SCHEMA_HINT):
            backend.ensure_schema(connection, table.schema)
    with _named(f"table {ref} could not be {'made' if change.create else 'changed'}"):
        if change.create:
            connection.execute(create_sql(backend, table, keyed=keyed))
            for index in change.indexes if backend.KEYS and keyed else ():
                connection.execute(index_sql(backend, table, index))
        for name in change.add:
            connection.execute(f"ALTER TABLE {target} ADD COLUMN {_definition(backend, table, table.column(name))}")
        for name in change.widen:
            connection.execute(f"ALTER TABLE {target} {backend.widen_sql(table, table.column(name))}")


_SCHEMA_HINT = "create the schema and let this user make tables in it, or declare the table in one that is there"


@contextmanager
def _named(what: str, hint: str | None = None) -> Iterator[None]:
    """Let a refusal say what could not be done."""
    try:
        yield
    except BackendError as error:
        if error.transient or isinstance(error, ConnectError):
            raise
        raise BackendError(f"{what}: {error.message}", hint=hint or error.hint) from error


def create_sql(backend: SqlBackend, table: Table, *, keyed: bool = True) -> str:
    """CREATE TABLE for a declared table, with its keys where the database carries them."""
    lines = [_definition(backend, table, column) for column in table.columns]
    if backend.KEYS and keyed:
        lines += _keys(backend, table)
    name = backend.table_name(TableRef(table.schema, table.name)).sql(backend.dialect.name)
    return f"CREATE TABLE {name} (\n  " + ",\n  ".join(lines) + "\n)"


def _keys(backend: SqlBackend, table: Table) -> list[str]:
    groups = [("PRIMARY KEY", table.primary_key), *(("UNIQUE", group) for group in table.unique)]
    return [f"{word} ({', '.join(map(backend.dialect.quote, group))})" for word, group in groups if group]


def keys_sql(backend: SqlBackend, change: SchemaChange) -> list[str]:
    """The keys and indexes of a table that was made without them."""
    name = backend.relation_sql(TableRef(change.table.schema, change.table.name))
    keys = [f"ALTER TABLE {name} ADD {key}" for key in _keys(backend, change.table)]
    return [*keys, *(index_sql(backend, change.table, index) for index in change.indexes)]


def _definition(backend: SqlBackend, table: Table, column: Column) -> str:
    """A column as CREATE and ALTER TABLE name it; the mark of deleted rows begins as false."""
    rules = "" if column.nullable else " NOT NULL"
    if column.name == DELETED and isinstance(column.type, Boolean):
        rules += " DEFAULT FALSE"
    return f"{backend.dialect.quote(column.name)} {backend.column_sql(table, column)}{rules}"


def index_sql(backend: SqlBackend, table: Table, columns: Sequence[str]) -> str:
    """CREATE INDEX for columns that loads look rows up by."""
    name = backend.index_name(TableRef(table.schema, f"{table.name}_{'_'.join(columns)}_lookup"))
    target = backend.table_name(TableRef(table.schema, table.name)).sql(backend.dialect.name)
    keys = ", ".join(backend.indexed(table.column(column)) for column in columns)
    return f"{backend.CREATE_INDEX} {name} ON {target} ({keys})"
