"""How `source_table=` and `column_map=` become the query of the source."""

from __future__ import annotations

from typing import Annotated, Any

import duckdb
import pytest

from ematix_flow.backends.dialect import Dialect
from ematix_flow.backends.duckdb_dialect import DuckDBDialect
from ematix_flow.backends.spark_dialect import SparkDialect
from ematix_flow.backends.sqlite_dialect import SqliteDialect
from ematix_flow.engine.transform import table_query
from ematix_flow.markers import pk
from ematix_flow.normalize import derive
from ematix_flow.spec.pipeline import build_pipeline
from ematix_flow.spec.table import build_table_class
from ematix_flow.types import BigInt, Text


class Person:
    id: Annotated[BigInt, pk()]
    name: Text
    loud_name: Annotated[Text, derive("upper(name)")]


PERSON = build_table_class(Person, schema="dw")


def query(dialect: Dialect, **options: Any) -> str:
    declared = {"target": PERSON, "mode": "truncate", "source_table": "raw.people"} | options
    pipeline = build_pipeline(lambda: None, declared, None)
    return table_query(pipeline, pipeline.table.columns, dialect, "people")


def shown(mapped: str, dialect: Dialect | None = None) -> str:
    """What the source is asked for in place of `name`."""
    text = query(dialect or DuckDBDialect(), column_map={"name": mapped})
    return text.removeprefix('SELECT "id", ').removesuffix(' AS "name" FROM people')


def test_columns_are_read_by_their_names_and_derived_ones_are_not() -> None:
    assert query(DuckDBDialect()) == 'SELECT "id", "name" FROM people'


def test_an_event_time_that_is_not_declared_is_read_too() -> None:
    text = query(DuckDBDialect(), mode="scd2", event_timestamp_column="changed_at")
    assert text == 'SELECT "id", "name", "changed_at" FROM people'


@pytest.mark.parametrize("name", ["full_name", "Größe", "order", "FIRST", "null"])
def test_one_word_is_a_column(name: str) -> None:
    assert shown(name) == f'"{name}"'


@pytest.mark.parametrize(
    "name", ["First Name", "Order Date", "Date of Birth", "Group By", "12 Month Total", "Case Number", "a b c"]
)
@pytest.mark.parametrize("dialect", [DuckDBDialect(), SqliteDialect()], ids=lambda dialect: dialect.name)
def test_words_and_spaces_are_a_column(name: str, dialect: Dialect) -> None:
    assert shown(name, dialect) == f'"{name}"'


@pytest.mark.parametrize(
    ("mapped", "name"),
    [
        ('"First Name"', '"First Name"'),
        ("`First Name`", '"First Name"'),
        ('"a-b"', '"a-b"'),
        ('"profit or loss"', '"profit or loss"'),
        ('"say ""hi"""', '"say ""hi"""'),
        ("`a``b`", '"a`b"'),
        (" full_name ", '"full_name"'),
    ],
)
def test_a_quoted_text_is_a_column(mapped: str, name: str) -> None:
    assert shown(mapped) == name


def test_a_text_in_double_quotes_is_a_column_where_the_dialect_says_otherwise() -> None:
    text = query(SparkDialect(), column_map={"name": '"First Name"'})
    assert text == "SELECT `id`, `First Name` AS `name` FROM people"


@pytest.mark.parametrize(
    "expression",
    [
        "upper(name)",
        "first || ' ' || last",
        "'unknown'",
        "42",
        "p.name",
        "CASE WHEN a THEN b ELSE c END",
        "name IS NULL",
        "NOT active",
        "a OR b",
        "a - b",
        '"a" || "b"',
        "name::VARCHAR",
    ],
)
def test_anything_else_is_an_expression_and_stays_as_it_is(expression: str) -> None:
    assert shown(expression) == expression


def test_the_query_reads_what_the_map_says() -> None:
    with duckdb.connect() as database:
        database.execute("CREATE TABLE people AS SELECT 7 AS cid, 'Ada' AS \"First Name\"")
        text = query(DuckDBDialect(), column_map={"id": "cid + 1", "name": "First Name"})
        assert database.execute(text).fetchall() == [(8, "Ada")]
