"""Engines that evaluate one expression each: the embedded ones, and those of real servers."""

from __future__ import annotations

import atexit
import sqlite3
from collections.abc import Callable

import duckdb
import psycopg
import pymysql
import pytest
from sqlglot import exp, parse_one

from ematix_flow import types as t
from ematix_flow.backends import sqlite_functions
from ematix_flow.backends.dialect import Dialect
from ematix_flow.backends.duckdb_dialect import DuckDBDialect
from ematix_flow.backends.duckdb_macros import MACROS
from ematix_flow.backends.mysql_dialect import MySQLDialect
from ematix_flow.backends.postgres_dialect import PostgresDialect
from ematix_flow.backends.sql_connection import SqlConnection
from ematix_flow.backends.sqlite_dialect import SqliteDialect
from ematix_flow.connections import MySQLConnection, PostgresConnection
from tests.servers import empty_mysql, empty_postgres


class Engine:
    """Evaluates one expression."""

    def __init__(self, dialect: Dialect, run: Callable[[str], object]) -> None:
        self.dialect, self.run = dialect, run

    def value(self, expression: exp.Expr, types: dict[str, t.ColumnType] | None = None) -> object:
        return self.run(f"SELECT {self.dialect.render(expression, {}, types or {})}")

    def text(self, source: str, type: t.ColumnType) -> object:
        """The canonical text of a source expression that was cast to a type."""
        value = parse_one(source, read="duckdb")
        if self.dialect.name == "mysql":  # which knows FLOAT and DOUBLE by these words alone
            value = parse_one(value.sql("mysql"), read="mysql")
        if self.dialect.name == "postgres":  # where a number with an exponent is a decimal
            value = value.transform(lambda node: _double(node) if _has_exponent(node) else node)
        return self.value(self.dialect.text(self.dialect.cast(value, type), type))


REFUSALS = (duckdb.Error, sqlite3.OperationalError, psycopg.Error, pymysql.Error)
"""What engines raise when a value does not fit."""


def _has_exponent(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and "e" in node.name


def _double(node: exp.Expr) -> exp.Expr:
    return exp.Cast(this=node.copy(), to=exp.DataType.build("double"))


def duckdb_engine() -> Engine:
    connection = duckdb.connect()
    for statement in ("SET TimeZone = 'UTC'", *MACROS):
        connection.execute(statement)
    return Engine(DuckDBDialect(), lambda sql: connection.execute(sql).fetchone()[0])


def sqlite_engine() -> Engine:
    connection = sqlite3.connect(":memory:")
    sqlite_functions.register(connection)
    return Engine(SqliteDialect(), lambda sql: connection.execute(sql).fetchone()[0])


def postgres_engine() -> Engine:
    connection = open_postgres("dialects")
    return Engine(PostgresDialect(), lambda sql: connection.execute(sql).fetchall()[0][0])


def open_postgres(database: str) -> SqlConnection:
    """A connection to an empty database, as loads open it."""
    connection: SqlConnection = PostgresConnection(database, empty_postgres(database)).open(None).connect()
    atexit.register(connection.close)
    return connection


def mysql_engine() -> Engine:
    connection = open_mysql("dialects")
    return Engine(MySQLDialect(), lambda sql: connection.execute(sql).fetchall()[0][0])


def open_mysql(database: str) -> SqlConnection:
    """A connection to an empty database, as loads open it."""
    connection: SqlConnection = MySQLConnection(database, empty_mysql(database)).open(None).connect()
    atexit.register(connection.close)
    return connection


ENGINES = {"duckdb": duckdb_engine, "sqlite": sqlite_engine, "postgres": postgres_engine, "mysql": mysql_engine}
SERVERS = ("postgres", "mysql")
MARKED = [pytest.param(name, marks=pytest.mark.server if name in SERVERS else ()) for name in ENGINES]
PARSING = [each for each in MARKED if each.values != ("mysql",)]
"""Formats of times are left to Spark where the source is MySQL."""
