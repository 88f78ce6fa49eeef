"""Every normalizer means the same on DuckDB, SQLite and Spark, whatever the values are."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import duckdb
import pytest
from sqlglot import exp

from ematix_flow import normalize as n
from ematix_flow import types as t
from ematix_flow.backends import sqlite_functions
from ematix_flow.backends.dialect import Dialect
from ematix_flow.backends.duckdb_dialect import DuckDBDialect
from ematix_flow.backends.duckdb_macros import MACROS
from ematix_flow.backends.hooks import HOOKS
from ematix_flow.backends.mysql_dialect import MySQLDialect
from ematix_flow.backends.postgres_dialect import PostgresDialect
from ematix_flow.backends.spark_dialect import SparkDialect
from ematix_flow.backends.sqlite_dialect import SqliteDialect
from ematix_flow.engine.cleaning import cleaned_rows
from ematix_flow.spec.table import Column
from tests.backends.cleaning_cases import CASES, Case
from tests.strategies.engines import REFUSALS, open_mysql, open_postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ematix_flow.backends.sql_connection import SqlConnection

DIALECTS = (DuckDBDialect(), SqliteDialect(), PostgresDialect(), SparkDialect())


def value_sql(value: object, kind: str, dialect: Dialect) -> str:
    """A value of one kind in an engine's words."""
    names = {"text": t.Text(), "integer": t.BigInt(), "double": t.Double(), "decimal": t.Numeric(20, 4)}
    plain = "REAL" if (dialect.name, kind) == ("sqlite", "double") else dialect.type_name(names[kind])
    if dialect.name == "mysql":
        plain = {"text": "CHAR", "integer": "SIGNED"}.get(kind, plain)
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


def missing_on_postgres(each: Case) -> tuple[str, ...]:
    """What PostgreSQL has no exact form of in a chain."""
    columns = [Column(each.type, name="c", normalizers=each.markers)]
    return PostgresDialect().missing(cleaned_rows(columns, {"c": "v"}, [], PostgresDialect()))


def missing_on_mysql(each: Case) -> tuple[str, ...]:
    """What MySQL has no exact form of in a chain."""
    columns = [Column(each.type, name="c", normalizers=each.markers)]
    return MySQLDialect().missing(cleaned_rows(columns, {"c": "v"}, [], MySQLDialect()))


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


@cache
def postgres_connection() -> SqlConnection:
    return open_postgres("cleaning")


def run_postgres(sql: str) -> list:
    return postgres_connection().execute(sql).fetchall()


@cache
def mysql_connection() -> SqlConnection:
    return open_mysql("cleaning")


def run_mysql(sql: str) -> list:
    return mysql_connection().execute(sql).fetchall()


IDS = [f"{at} {each.markers[-1]!r}"[:60] for at, each in enumerate(CASES)]


@pytest.mark.parametrize("each", CASES, ids=IDS)
def test_a_chain_means_on_duckdb_what_it_says(each: Case) -> None:
    assert differing(evaluate(run_duckdb, DuckDBDialect(), [each]), [each]) == []


@pytest.mark.parametrize("each", CASES, ids=IDS)
def test_a_chain_means_on_sqlite_what_it_says(each: Case) -> None:
    assert differing(evaluate(run_sqlite, SqliteDialect(), [each]), [each]) == []


@pytest.mark.server
@pytest.mark.parametrize("each", [each for each in CASES if not missing_on_postgres(each)], ids=repr)
def test_a_chain_means_on_postgres_what_it_says(each: Case) -> None:
    assert differing(evaluate(run_postgres, PostgresDialect(), [each]), [each]) == []


def test_postgres_leaves_to_spark_what_it_cannot_say() -> None:
    left = [each for each in CASES if missing_on_postgres(each)]
    assert {type(marker) for each in left for marker in each.markers} >= {n.regex_replace}
    assert len(left) < len(CASES) / 4


@pytest.mark.server
@pytest.mark.parametrize(
    "each", [pytest.param(each, id=name) for each, name in zip(CASES, IDS, strict=True) if not missing_on_mysql(each)]
)
def test_a_chain_means_on_mysql_what_it_says(each: Case) -> None:
    kinds = {"text": "longtext", "integer": "bigint", "double": "double", "decimal": "decimal(20,4)"}
    dialect = MySQLDialect().knowing({"v0": kinds[each.kind]})
    assert differing(evaluate(run_mysql, dialect, [each]), [each]) == []


def test_mysql_leaves_to_spark_what_it_cannot_say() -> None:
    said = [each for each in CASES if not missing_on_mysql(each)]
    assert {type(marker) for each in said for marker in each.markers} >= {n.trim, n.default, n.truncate, n.replace}
    assert all(missing_on_mysql(Case((marker,), t.Text(), {})) for marker in (n.lower(), n.upper()))


@pytest.mark.slow
def test_chains_mean_on_spark_what_they_say(spark: SparkSession) -> None:
    found = []
    for start in range(0, len(CASES), 20):
        cases = CASES[start : start + 20]
        found += differing(evaluate(lambda sql: spark.sql(sql).collect(), SparkDialect(), cases), cases)
    assert found == []


REFUSED = [
    (n.parse_int("error"), t.BigInt(), "12x", "is not a whole number of 64 bits"),
    (n.parse_int("error"), t.BigInt(), "9223372036854775808", "is not a whole number of 64 bits"),
    (n.parse_numeric(4, 2, "error"), t.Numeric(4, 2), "100", "is not a decimal of 4 digits, 2 behind the point"),
    (n.parse_date("YYYY-MM-DD", on_failure="error"), t.Date(), "2026-02-30", "does not fit the format YYYY-MM-DD"),
    (n.parse_timestamp("YYYYMMDD", on_failure="error"), t.TimestampTZ(), "2026", "does not fit the format YYYYMMDD"),
    (n.round(2), t.Double(), "two", "two"),
    (n.clamp(0, 1), t.BigInt(), "", ""),
    (n.date_trunc("day"), t.TimestampTZ(), "soon", "soon"),
    (n.to_timezone("UTC"), t.TimestampTZ(), "2026-02-30 10:00:00", ""),
]


@pytest.fixture(
    params=[
        "duckdb",
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.server),
        pytest.param("spark", marks=pytest.mark.slow),
    ],
    scope="module",
)
def engine(request: pytest.FixtureRequest) -> tuple[Callable[[str], list], Dialect]:
    if request.param == "spark":
        spark = request.getfixturevalue("spark")
        return lambda sql: spark.sql(sql).collect(), SparkDialect()
    engines: dict[str, tuple[Callable[[str], list], Dialect]] = {
        "duckdb": (run_duckdb, DuckDBDialect()),
        "sqlite": (run_sqlite, SqliteDialect()),
        "postgres": (run_postgres, PostgresDialect()),
    }
    return engines[request.param]


@pytest.mark.parametrize(("marker", "type", "value", "message"), REFUSED, ids=[repr(each[0])[:40] for each in REFUSED])
def test_a_value_that_may_not_fail_ends_the_load_and_null_does_not(
    engine: tuple[Callable[[str], list], Dialect], marker: object, type: t.ColumnType, value: str, message: str
) -> None:
    from pyspark.errors import PySparkException

    run, dialect = engine
    with pytest.raises((*REFUSALS, PySparkException)) as caught:
        evaluate(run, dialect, [Case((marker,), type, {value: None})])
    if dialect.name != "sqlite":  # which says only that a function failed; its connections say more
        assert message in str(caught.value)
    assert evaluate(run, dialect, [Case((marker,), type, {None: None})]) == [[None]]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: each.name)
def test_every_hook_has_a_form_on_every_engine(dialect: Dialect) -> None:
    assert sorted(dialect.hooks()) == sorted(HOOKS)


def test_nan_is_above_every_bound_and_no_whole_number(engine: tuple[Callable[[str], list], Dialect]) -> None:
    run, dialect = engine
    if dialect.name == "sqlite":  # which has no NaN
        return
    wanted = [
        (n.clamp(0, 1), t.Double(), "1.0"),
        (n.round(2), t.Double(), "nan"),
        (n.parse_int(), t.BigInt(), None),
        (n.parse_numeric(4, 2), t.Numeric(4, 2), None),
        (n.nullif(0), t.Double(), "nan"),
        (n.trim(), t.Text(), "nan"),
    ]
    cases = [Case((marker,), kind, {math.nan: meaning}, "double") for marker, kind, meaning in wanted]
    assert differing(evaluate(run, dialect, cases), cases) == []


def test_a_long_chain_stays_short() -> None:
    markers = (
        n.trim(),
        n.truncate(-1),
        n.nullif("a"),
        n.nullif("b"),
        n.truncate(-1),
        n.nullif("c"),
        n.parse_timestamp(),
    )
    column = Column(t.TimestampTZ(), name="c", normalizers=markers)
    for dialect in DIALECTS:
        query = cleaned_rows([column], {"c": "v"}, [], dialect)
        assert len(dialect.render(query, {}, {})) < (30_000 if dialect.name == "postgres" else 12_000)
