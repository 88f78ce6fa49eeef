from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import duckdb
import pytest
import sqlglot

from ematix_flow.backends.duckdb_dialect import DuckDBDialect
from ematix_flow.backends.duckdb_macros import MACROS
from ematix_flow.errors import SpecError
from ematix_flow.normalize import (
    DATE_FORMATS,
    TIMESTAMP_FORMATS,
    compose_chain,
    default,
    derive,
    empty_to_null,
    is_normalizer,
    literal,
    lower,
    not_null_or,
    nullif,
    parse_date,
    parse_timestamp,
    trim,
    upper,
    whitespace_to_null,
)

NBSP = "\u00a0"


@dataclass(frozen=True)
class Reverse:
    """A normalizer as a user would write one."""

    def to_sql(self, col):
        return f"REVERSE({col})"


def run(*markers, value):
    """What the chain makes of the text `value`, through a real SQL engine."""
    query = sqlglot.parse_one(f"SELECT {compose_chain(markers, 'x')}", read="postgres")
    sql = DuckDBDialect().render(query, {}, {})
    with duckdb.connect() as connection:
        for macro in MACROS:
            connection.execute(macro)
        return connection.execute(f"{sql} FROM (SELECT CAST(? AS TEXT) AS x)", [value]).fetchone()[0]


@pytest.mark.parametrize(
    ("marker", "value", "expected"),
    [
        (trim(), "  a b ", "a b"),
        (trim(), f"{NBSP}a\t ", f"{NBSP}a\t"),
        (trim(), None, None),
        (lower(), "ÉcoLe", "école"),
        (upper(), "école", "ÉCOLE"),
        (empty_to_null(), "", None),
        (empty_to_null(), " ", " "),
        (whitespace_to_null(), "   ", None),
        (whitespace_to_null(), " a ", "a"),
        (default("none"), None, "none"),
        (default("none"), "", ""),
        (not_null_or("it's"), None, "it's"),
        (nullif("N/A"), "N/A", None),
        (nullif("N/A"), "n/a", "n/a"),
        (nullif("a\\'b"), "a\\'b", None),
        (derive("x || x"), "a", "aa"),
        (Reverse(), "abc", "cba"),
    ],
)
def test_each_marker_means_what_it_says(marker, value, expected):
    assert run(marker, value=value) == expected


def test_the_left_most_marker_is_applied_first():
    assert run(trim(), empty_to_null(), default("none"), value="  ") == "none"
    assert run(empty_to_null(), trim(), default("none"), value="  ") == ""


def test_an_empty_chain_is_the_column_itself():
    assert compose_chain((), '"e mail"') == '"e mail"'


@pytest.mark.parametrize("value", [trim(), default(1), Reverse()])
def test_anything_with_to_sql_is_a_normalizer(value):
    assert is_normalizer(value)


@pytest.mark.parametrize("value", [trim, "trim", None, Reverse])
def test_uncalled_markers_and_other_things_are_not_normalizers(value):
    assert not is_normalizer(value)
    with pytest.raises(TypeError, match="is not a normalizer"):
        compose_chain([value], "x")


def test_a_derived_value_must_come_first():
    with pytest.raises(ValueError, match="must be the first"):
        compose_chain([trim(), derive("a + b")], "x")
    assert run(derive("' a '"), trim(), value="x") == "a"


@pytest.mark.parametrize("expression", ["", "  ", None])
def test_derive_needs_an_expression(expression):
    with pytest.raises(ValueError, match="SQL expression"):
        derive(expression)


def test_a_normalizer_that_gives_no_text_is_named():
    class Broken:
        def to_sql(self, col):
            return None

    with pytest.raises(TypeError, match=r"Broken.*gave None"):
        compose_chain([Broken()], "x")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "TRUE"),
        (False, "FALSE"),
        (-3, "-3"),
        (1.5, "1.5"),
        ("it's", "'it''s'"),
        ("a\\b", "'a\\b'"),
        (date(2026, 1, 31), "CAST('2026-01-31' AS DATE)"),
        (datetime(2026, 1, 31, 12), "CAST('2026-01-31 12:00:00+00:00' AS TIMESTAMPTZ)"),  # noqa: DTZ001
        (
            datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2))),
            "CAST('2026-01-31 10:00:00+00:00' AS TIMESTAMPTZ)",
        ),
    ],
)
def test_a_value_is_written_as_sql(value, text):
    assert literal(value) == text


@pytest.mark.parametrize("value", [None, [], {}, object(), Decimal(1), float("nan"), float("inf"), "a\0b"])
@pytest.mark.parametrize("marker", [default, not_null_or, nullif])
def test_a_value_that_sql_cannot_hold_is_refused_at_once(marker, value):
    with pytest.raises(ValueError, match="cannot be written as an SQL value"):
        marker(value)


def test_parsing_without_a_format_tries_the_usual_ones_in_order():
    formats = ", ".join(f"'{each}'" for each in TIMESTAMP_FORMATS)
    assert parse_timestamp().to_sql("x") == f"PARSE_TIMESTAMP(x, {formats})"
    assert parse_date().to_sql("x") == "PARSE_DATE(x, 'YYYY-MM-DD', 'YYYYMMDD', 'MM/DD/YYYY')"


def test_the_documented_formats_come_first():
    assert TIMESTAMP_FORMATS[:6] == (
        "YYYY-MM-DD HH24:MI:SS.MS",
        "YYYY-MM-DDTHH24:MI:SSOF",
        "YYYY-MM-DDTHH24:MI:SS",
        "YYYY-MM-DD HH24:MI:SS",
        "YYYY-MM-DD",
        "MM/DD/YYYY",
    )
    assert DATE_FORMATS == ("YYYY-MM-DD", "YYYYMMDD", "MM/DD/YYYY")


@pytest.mark.parametrize(
    ("marker", "sql"),
    [
        (parse_date("DD/MM/YYYY"), "PARSE_DATE(x, 'DD/MM/YYYY')"),
        (parse_date(formats=["YYYYMMDD", "YYYY-MM-DD"]), "PARSE_DATE(x, 'YYYYMMDD', 'YYYY-MM-DD')"),
        (parse_date("YYYYMMDD", on_failure="error"), "PARSE_DATE_STRICT(x, 'YYYYMMDD')"),
        (parse_timestamp("YYYY-MM-DD", on_failure="error"), "PARSE_TIMESTAMP_STRICT(x, 'YYYY-MM-DD')"),
        (
            parse_date("YYYYMMDD", on_failure="default", default=date(1970, 1, 1)),
            "COALESCE(PARSE_DATE(x, 'YYYYMMDD'), CAST('1970-01-01' AS DATE))",
        ),
        (
            parse_timestamp("YYYYMMDD", on_failure="default", default="1970-01-01"),
            "COALESCE(PARSE_TIMESTAMP(x, 'YYYYMMDD'), CAST('1970-01-01 00:00:00+00:00' AS TIMESTAMPTZ))",
        ),
        (
            parse_timestamp("YYYYMMDD", on_failure="default", default=datetime(1970, 1, 1, tzinfo=UTC)),
            "COALESCE(PARSE_TIMESTAMP(x, 'YYYYMMDD'), CAST('1970-01-01 00:00:00+00:00' AS TIMESTAMPTZ))",
        ),
    ],
)
def test_a_parser_is_a_call_of_its_hook(marker, sql):
    assert marker.to_sql("x") == sql


@pytest.mark.parametrize("parser", [parse_timestamp, parse_date])
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"format": "YYYYMMDD", "formats": ["YYYYMMDD"]}, "not both"),
        ({"formats": []}, "at least one"),
        ({"formats": "YYYYMMDD"}, "at least one"),
        ({"on_failure": "ignore"}, "cannot be 'ignore'"),
        ({"on_failure": "default"}, "belong together"),
        ({"default": date(1970, 1, 1)}, "belong together"),
        ({"on_failure": "error"}, "exactly one format"),
        ({"on_failure": "error", "formats": ["YYYYMMDD", "YYYY-MM-DD"]}, "exactly one format"),
        ({"on_failure": "default", "default": "soon"}, "not a date or time"),
        ({"on_failure": "default", "default": 5}, "not a date or time"),
        ({"format": "%Y-%m-%d"}, "unknown part at 'Y-%m-%d'"),
        ({"format": "YYYY-MM-DD HH:MI"}, "unknown part at 'HH:MI'"),
        ({"format": "YYYY-MM"}, "does not name a day"),
        ({"format": "YYYY-MM-DD-DD"}, "repeats a part"),
        ({"format": ""}, "does not name a day"),
        ({"format": 5}, "format is text"),
    ],
)
def test_a_parser_refuses_wrong_options_when_it_is_written(parser, options, problem):
    with pytest.raises(SpecError, match=problem) as caught:
        parser(**options)
    assert parser.__name__ in str(caught.value)


def test_a_format_may_quote_other_letters():
    assert parse_timestamp('"on "YYYY-MM-DD"T"HH24:MI').to_sql("x") == (
        """PARSE_TIMESTAMP(x, '"on "YYYY-MM-DD"T"HH24:MI')"""
    )


def test_parsers_are_hashable_and_compare_by_value():
    assert {parse_date(formats=["YYYYMMDD"]), parse_date(formats=("YYYYMMDD",))} == {parse_date(formats=["YYYYMMDD"])}
