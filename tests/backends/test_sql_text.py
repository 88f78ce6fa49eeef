"""Table names and terminators in users' queries."""

from __future__ import annotations

import pytest

from ematix_flow.backends.sql_text import replace_tables, strip_terminator


def flat(schema: str, name: str) -> str | None:
    """How a system without schemas names the tables of `raw`."""
    return f'"{schema}.{name}"' if schema.casefold() == "raw" else None


REPLACED = [
    ("SELECT id FROM raw.customers", 'SELECT id FROM "raw.customers" AS "customers"'),
    ("SELECT c.id FROM raw.customers c", 'SELECT c.id FROM "raw.customers" c'),
    ("SELECT c.id FROM raw.customers AS c", 'SELECT c.id FROM "raw.customers" AS c'),
    ("SELECT customers.id FROM raw.customers", 'SELECT customers.id FROM "raw.customers" AS "customers"'),
    ("SELECT raw.customers.id FROM raw.customers", 'SELECT customers.id FROM "raw.customers" AS "customers"'),
    ("SELECT RAW.Customers.id FROM raw.customers", 'SELECT Customers.id FROM "raw.customers" AS "customers"'),
    (
        'SELECT "raw" . "customers".id FROM "raw"."customers"',
        'SELECT "customers".id FROM "raw.customers" AS "customers"',
    ),
    (
        "SELECT * FROM raw.a JOIN raw.b ON raw.a.id = raw.b.id, main.c",
        'SELECT * FROM "raw.a" AS "a" JOIN "raw.b" AS "b" ON a.id = b.id, main.c',
    ),
]


@pytest.mark.parametrize(("sql", "expected"), REPLACED)
def test_a_replaced_table_keeps_its_name_for_columns(sql: str, expected: str) -> None:
    assert replace_tables(sql, "sqlite", flat) == expected


def test_the_rest_of_the_text_stays_as_written() -> None:
    sql = "select  /* raw.customers */ 'raw.customers', Id -- raw.x\nFROM raw.customers   WHERE  x = 'é'"
    expected = sql.replace("FROM raw.customers", 'FROM "raw.customers" AS "customers"')
    assert replace_tables(sql, "sqlite", flat) == expected


def test_other_tables_and_their_columns_stay() -> None:
    sql = "SELECT main.orders.id FROM main.orders"
    assert replace_tables(sql, "sqlite", flat) == sql


def test_a_name_that_the_query_defines_itself_is_no_table() -> None:
    sql = "WITH Customers AS (SELECT 5 AS id) SELECT id FROM customers"
    assert replace_tables(sql, "sqlite", lambda schema, name: "replaced") == sql


def test_a_table_may_be_called_like_a_name_that_the_query_defines() -> None:
    sql = "WITH customers AS (SELECT * FROM raw.customers) SELECT id FROM customers"
    assert (
        replace_tables(sql, "sqlite", flat)
        == 'WITH customers AS (SELECT * FROM "raw.customers" AS "customers") SELECT id FROM customers'
    )


def test_a_sampled_table_gets_no_alias_in_the_wrong_place() -> None:
    sql = "SELECT * FROM raw.t TABLESAMPLE (10 PERCENT)"
    assert replace_tables(sql, "spark", lambda schema, name: "`x`") == "SELECT * FROM `x` TABLESAMPLE (10 PERCENT)"


def test_a_query_that_cannot_be_parsed_stays_whole() -> None:
    sql = "SELECT FROM FROM raw.customers ((("
    assert replace_tables(sql, "sqlite", flat) == sql


TERMINATED = [
    ("SELECT 1", "SELECT 1"),
    (" SELECT 1 ; ", "SELECT 1"),
    ("SELECT 1;;\n;", "SELECT 1"),
    ("SELECT 1; -- done", "SELECT 1"),
    ("SELECT 1; /* a;b */ -- done;\n", "SELECT 1"),
    ("SELECT 1 -- why;\n;", "SELECT 1 -- why;"),
    ("SELECT ';'", "SELECT ';'"),
    ("SELECT 1 -- no end;", "SELECT 1 -- no end;"),
    ("SELECT 1; SELECT 2;", "SELECT 1; SELECT 2"),
    ("", ""),
]


@pytest.mark.parametrize(("sql", "expected"), TERMINATED)
def test_a_statement_loses_its_terminator_and_what_follows_it(sql: str, expected: str) -> None:
    assert strip_terminator(sql) == expected


def test_the_quotes_of_a_dialect_are_known() -> None:
    assert strip_terminator("SELECT 'it\\'s;' FROM `a;b`; -- x", "spark") == "SELECT 'it\\'s;' FROM `a;b`"


def test_text_that_has_no_end_is_left_to_the_system() -> None:
    assert strip_terminator("SELECT 'open ; ") == "SELECT 'open ;"
