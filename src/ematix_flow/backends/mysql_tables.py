"""Tables of MySQL and MariaDB: what they look like, and how changes to their rows are said."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..errors import BackendError
from ..spec.place import TableRef
from ..strategies.base import Upsert
from ..types import JSON, ColumnType, Text
from .base import Actual, ActualColumn
from .mysql_dialect import MARIADB_COLLATION, MySQLDialect
from .sql_change import CHANGED, Spelling
from .sql_connection import SqlConnection

__all__ = ["TEXT_KEY", "MySQLSpelling", "here", "read_table", "refuse_lasting"]

TEXT_KEY = "ematix_flow: Text"
"""The comment of a column that was declared as Text and has a bound because it is part of a key."""


def read_table(connection: SqlConnection, table: TableRef, dialect: MySQLDialect) -> Actual | None:
    """The table as it is; None where there is no such table."""
    at = here(table, dialect)
    rows = connection.execute(
        "SELECT column_name, column_type, is_nullable, character_set_name, column_comment "
        f"FROM information_schema.columns WHERE {at} ORDER BY ordinal_position"
    ).fetchall()
    if not rows:
        return None
    found = connection.execute(
        f"SELECT index_name, column_name FROM information_schema.statistics WHERE {at} AND non_unique = 0 "
        "ORDER BY index_name, seq_in_index"
    ).fetchall()
    groups: dict[str, list[str]] = {}
    for index, column in found:
        groups.setdefault(str(index), []).append(str(column))
    keys = groups.pop("PRIMARY", [])
    documents = _documents(connection, table, dialect) if dialect.collation == MARIADB_COLLATION else set()
    columns = []
    for column, kind, nullable, characters, comment in rows:
        known = _actual_type(str(kind), str(characters or ""), str(comment), dialect)
        known = JSON() if column in documents else known
        columns.append(ActualColumn(str(column), known, str(kind), nullable == "YES", column in keys))
    return Actual(tuple(columns), tuple(tuple(group) for group in groups.values()), keyed=True)


def refuse_lasting(connection: SqlConnection, table: TableRef, dialect: MySQLDialect) -> None:
    """Refuse a table whose engine keeps what a transaction takes back."""
    found = connection.execute(
        "SELECT engine FROM information_schema.tables WHERE engine NOT IN (SELECT e.engine FROM "
        f"information_schema.engines AS e WHERE e.transactions = 'YES') AND {here(table, dialect)}"
    ).fetchall()
    if found:
        raise BackendError(
            f"{table} has the engine {found[0][0]}, which keeps the rows of a load that failed",
            hint=f"ALTER TABLE {dialect.quote(table.schema, table.name)} ENGINE = InnoDB",
        )


def here(table: TableRef, dialect: MySQLDialect, schema_column: str = "table_schema") -> str:
    """Whether a row of the information schema is about a table; most servers tell names apart by case."""
    schema, name = (dialect.literal(part, Text()).sql("mysql") for part in (table.schema, table.name))
    return (
        f"{schema_column} = {schema} AND table_name = {name} AND (@@lower_case_table_names <> 0 "
        f"OR (CAST({schema_column} AS BINARY) = {schema} AND CAST(table_name AS BINARY) = {name}))"
    )


def _documents(connection: SqlConnection, table: TableRef, dialect: MySQLDialect) -> set[str]:
    """The columns of documents, which MariaDB keeps as text with a check that they are some."""
    where = here(table, dialect, "constraint_schema")
    checks = connection.execute(
        f"SELECT check_clause FROM information_schema.check_constraints WHERE {where}"
    ).fetchall()
    found = (re.fullmatch(r"json_valid\(`(.*)`\)", str(clause)) for (clause,) in checks)
    return {match[1].replace("``", "`") for match in found if match is not None}


def _actual_type(kind: str, characters: str, comment: str, dialect: MySQLDialect) -> ColumnType | None:
    if comment == TEXT_KEY:
        return Text()
    if re.fullmatch(r"(datetime|timestamp)(\([0-5]\))?", kind):
        return None  # it would round what it is given
    return dialect.column_type(f"{kind} CHARACTER SET {characters}" if characters else kind)


@dataclass(frozen=True)
class MySQLSpelling(Spelling):
    """Changes in the words of MySQL: joins in place of FROM, and a change table whose columns have their types."""

    shape: Callable[[Sequence[str], Sequence[str]], str] = field(kw_only=True)
    """The columns of the change table, by their names and the names of the keys."""

    def fill(self, change: Upsert) -> str:
        columns = self.shape(change.columns, change.keys)
        return f"CREATE TEMPORARY TABLE {CHANGED} ({columns}) AS {self.render(change.rows)}"

    def remove(self, keys: Sequence[str]) -> str:
        return f"DELETE t FROM {self.target} AS t JOIN {CHANGED} AS c ON {self.keyed(keys, 't')} WHERE {self.removed}"

    def update(self, keys: Sequence[str], columns: Sequence[str]) -> str:
        settings = ", ".join(f"t.{self.quote(name)} = {self.stored(name, 'c.')}" for name in columns)
        joined = f"{self.target} AS t JOIN {CHANGED} AS c ON {self.keyed(keys, 't')}"
        return f"UPDATE {joined} SET {settings} WHERE {self.updated}"
