"""Every normalizer means the same on DuckDB, SQLite and Spark, whatever the values are."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import duckdb
import pytest
from sqlglot import exp

from ematix_flow import types as t
from ematix_flow.backends import sqlite_functions
from ematix_flow.backends.dialect import Dialect
from ematix_flow.backends.duckdb_dialect import DuckDBDialect
from ematix_flow.backends.duckdb_macros import MACROS
from ematix_flow.backends.spark_dialect import SparkDialect
from ematix_flow.backends.sqlite_dialect import SqliteDialect
from ematix_flow.engine.cleaning import cleaned_rows
from ematix_flow.spec.table import Column
from tests.backends.cleaning_cases import CASES, Case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def value_sql(value: object, kind: str, dialect: Dialect) -> str:
    """A value of one kind in an engine's words."""
    names = {"text": t.Text(), "integer": t.BigInt(), "double": t.Double(), "decimal": t.Numeric(20, 4)}
    plain = "REAL" if (dialect.name, kind) == ("sqlite", "double") else dialect.type_name(names[kind])
    if value is None:
        return f"CAST(NULL AS {plain})"
    if kind == "double" and dialect.name == "sqlite":
        return {math.inf: "9e999", -math.inf: "-9e999"}.get(value, repr(value))  # type: ignore[call-overload]
    return f"CAST({exp.Literal.string(str(value)).sql(dialect.name)} AS {plain})"


def evaluate(run: Callable[[str], list], dialect: Dialect, cases: Sequence[Case]) -> list[list[object]]:
    """What each chain makes of its values, in their order; all cases are one query, each with a column of its own."""
    columns = [Column(each.type, name=f"c{at}", normalizers=each.markers) for at, each in enumerate(cases)]
    rows = cleaned_rows(columns, {f"c{at}": f"v{at}" for at in range(len(cases))}, ["row"], dialect)
    shown: list[exp.Expr] = [exp.column("row", quoted=True)]
    for column in columns:
        given = dialect.cast(exp.column(column.name, quoted=True), column.type)
        text = dialect.cast(given, t.Text()) if isinstance(column.type, t.Double) else dialect.text(given, column.type)
        shown.append(exp.alias_(text, column.name, quoted=True))
    query = dialect.render(exp.select(*shown).from_(rows.subquery("_rows")), {}, {})
    depth = max(len(each.expected) for each in cases)
    source = [
        ", ".join(
            f"{value_sql(dict(enumerate(each.expected)).get(row), each.kind, dialect)} AS {dialect.quote(f'v{at}')}"
            for at, each in enumerate(cases)
        )
        for row in range(depth)
    ]
    given_rows = " UNION ALL ".join(f"SELECT {row} AS {dialect.quote('row')}, {v}" for row, v in enumerate(source))
    found = {row[0]: row for row in run(f"WITH {dialect.quote('_source')} AS ({given_rows}) {query}")}
    return [[found[row][at] for row in range(len(each.expected))] for at, each in enumerate(cases, 1)]


def differing(found: list[list[object]], cases: Sequence[Case]) -> list[str]:
    """The values that did not become what they should."""
    return [
        f"{each.markers} of {str(value)[:40]!r}: {str(result)[:60]!r} instead of {str(wanted)[:60]!r}"
        for each, results in zip(cases, found, strict=True)
        for (value, wanted), result in zip(each.expected.items(), results, strict=True)
        if result != wanted
    ]


def run_duckdb(sql: str) -> list:
    with duckdb.connect() as connection:
        for statement in ("SET TimeZone = 'UTC'", *MACROS):
            connection.execute(statement)
        return connection.execute(sql).fetchall()


def run_sqlite(sql: str) -> list:
    connection = sqlite3.connect(":memory:")
    try:
        sqlite_functions.register(connection)
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


IDS = [f"{at} {each.markers[-1]!r}"[:60] for at, each in enumerate(CASES)]


@pytest.mark.parametrize("each", CASES, ids=IDS)
def test_a_chain_means_on_duckdb_what_it_says(each: Case) -> None:
    assert differing(evaluate(run_duckdb, DuckDBDialect(), [each]), [each]) == []


@pytest.mark.parametrize("each", CASES, ids=IDS)
def test_a_chain_means_on_sqlite_what_it_says(each: Case) -> None:
    assert differing(evaluate(run_sqlite, SqliteDialect(), [each]), [each]) == []


@pytest.mark.slow
def test_chains_mean_on_spark_what_they_say(spark: SparkSession) -> None:
    found = []
    for start in range(0, len(CASES), 20):
        cases = CASES[start : start + 20]
        found += differing(evaluate(lambda sql: spark.sql(sql).collect(), SparkDialect(), cases), cases)
    assert found == []
