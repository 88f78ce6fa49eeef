"""What normalizers refuse: wrong arguments when they are written, and wrong places in a table's declaration."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated

import pytest

from ematix_flow import normalize as n
from ematix_flow.errors import SpecError, SpecTypeError
from ematix_flow.markers import pk
from ematix_flow.normalize.regex import Pattern
from ematix_flow.spec.table import build_table_class
from ematix_flow.types import BigInt, Date, Numeric, Text, TimestampTZ


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: n.replace("", "x"), "old is empty"),
        (lambda: n.replace("a", 1), "new is text"),
        (lambda: n.replace("a\0", ""), "NUL"),
        (lambda: n.truncate(1.5), "n is a whole number"),
        (lambda: n.truncate(True), "n is a whole number"),
        (lambda: n.regex_replace("a", "b", "gx"), "no flag 'x'"),
        (lambda: n.regex_replace("a", r"\1"), "the pattern has 0 groups"),
        (lambda: n.regex_replace("(a)", r"\2"), "the pattern has 1 group"),
        (lambda: n.regex_replace("a", "b\\"), "for a backslash"),
        (lambda: n.regex_replace("a*", "-"), "matches where there is nothing"),
        (lambda: n.regex_replace("^", "-"), "matches where there is nothing"),
        (lambda: n.regex_replace(b"a", "-"), "pattern is text"),
        (lambda: n.to_timezone("Europe/Berln"), "no time zone 'Europe/Berln'"),
        (lambda: n.to_timezone(2), "name of a zone"),
        (lambda: n.date_trunc("fortnight"), "no period 'fortnight'"),
        (lambda: n.date_trunc(1), "name of a period"),
        (lambda: n.round(2.0), "whole number"),
        (lambda: n.round(20), "from -15 to 15"),
        (lambda: n.clamp(2, 1), "above the high one"),
        (lambda: n.clamp(1, "2"), "are no bounds"),
        (lambda: n.clamp(None, 2), "are no bounds"),
        (lambda: n.clamp(True, 2), "are no bounds"),
        (lambda: n.clamp(0, float("nan")), "are no bounds"),
        (lambda: n.clamp(date(2026, 1, 2), date(2026, 1, 1)), "above the high one"),
        (lambda: n.parse_int("ignore"), "cannot be 'ignore'"),
        (lambda: n.parse_int("default"), "belong together"),
        (lambda: n.parse_int(default=1), "belong together"),
        (lambda: n.parse_int("default", 2**63), "not a whole number of 64 bits"),
        (lambda: n.parse_int("default", "1"), "not a whole number"),
        (lambda: n.parse_numeric(2, 3), "is not possible"),
        (lambda: n.parse_numeric(39, 3), "no engine has decimals of 39 digits"),
        (lambda: n.parse_numeric(4, 2, "default", 100), "does not fit"),
        (lambda: n.parse_numeric(4, 2, "default", "x"), "is not a number"),
        (lambda: n.parse_numeric(4, 2, "default", True), "is not a number"),
        (lambda: n.parse_bool(truthy="yes"), "list of words"),
        (lambda: n.parse_bool(truthy=(1,)), "list of words"),
        (lambda: n.parse_bool(truthy=("A",), falsy=("a",)), "'a' is truthy and falsy"),
        (lambda: n.parse_bool((), ()), "there are no words"),
        (lambda: n.sql(" "), "sql needs an SQL expression"),
    ],
)
def test_wrong_arguments_are_refused_when_they_are_written(make: Callable[[], object], problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        make()


@pytest.mark.parametrize(
    "pattern",
    ["a**", "a+*", "a++", "(?=a)", "(?i)a", "(?P<n>a)", "(a)\\1", "\\bword", "a{1001}", "(a{100}){11}", "(a*)*",
        "(|a)+", "[z-a]", "(a", "a)", "[[:word:]]", "*a", "^*", "[a", "a{,3}", "{", "a{3,1}", "\\", "\\p{L}", "[\\D]"],
)  # fmt: skip
def test_a_pattern_that_engines_read_in_different_ways_is_refused(pattern: str) -> None:
    with pytest.raises(SpecError, match=r"regex_replace: the pattern") as caught:
        Pattern.read(pattern)
    assert caught.value.hint is not None


@pytest.mark.parametrize(
    ("markers", "declared", "problem"),
    [
        ((n.trim(), n.derive("a")), Text, "must be the first"),
        ((n.round(2),), Text, "for columns of numbers"),
        ((n.clamp(1, 2),), Text, "no bounds of a column of type Text"),
        ((n.clamp("a", "b"),), BigInt, "no bounds"),
        ((n.clamp(1, 2),), TimestampTZ, "no bounds"),
        ((n.to_timezone("UTC"), n.to_timezone("Europe/Berlin")), TimestampTZ, "cannot follow"),
        ((n.date_trunc("day"), n.to_timezone("Europe/Berlin")), TimestampTZ, "cannot follow"),
    ],
)
def test_a_chain_that_cannot_work_is_refused_where_the_table_is_declared(
    markers: tuple[object, ...], declared: object, problem: str
) -> None:
    hints = {"id": Annotated[BigInt, pk()], "value": Annotated.__class_getitem__((declared, *markers))}
    with pytest.raises(SpecError, match=rf"column 'value'.*{problem}") as caught:
        build_table_class(type("Values", (), {"__annotations__": hints}), schema="dw")
    assert caught.value.declared_at is not None


@pytest.mark.parametrize(
    ("markers", "declared"),
    [
        ((n.parse_int(), n.clamp(0, 10), n.round(-1)), Numeric[10, 2]),
        ((n.clamp(date(2026, 1, 1), date(2026, 2, 1)),), Date),
        ((n.clamp(datetime(2026, 1, 1), datetime(2026, 2, 1, tzinfo=UTC)),), TimestampTZ),  # noqa: DTZ001
        ((n.to_timezone("UTC"), n.date_trunc("Days")), Date),
    ],
)
def test_a_chain_that_works_is_accepted(markers: tuple[object, ...], declared: object) -> None:
    hints = {"id": Annotated[BigInt, pk()], "value": Annotated.__class_getitem__((declared, *markers))}
    build_table_class(type("Values", (), {"__annotations__": hints}), schema="dw")


def test_an_uncalled_marker_is_named() -> None:
    with pytest.raises(SpecTypeError, match="the marker regex_replace is not called"):
        build_table_class(
            type(
                "Values",
                (),
                {"__annotations__": {"id": Annotated[BigInt, pk()], "v": Annotated[Text, n.regex_replace]}},
            ),
            schema="dw",
        )


def test_the_word_col_is_the_value_and_nothing_else_is() -> None:
    marker = n.sql("""col + 'col' || "col" || t.col || colour || col_a || (col)""")
    assert marker.to_sql('"x"') == """"x" + 'col' || "col" || t.col || colour || col_a || ("x")"""


def test_a_default_is_written_in_the_parsers_type() -> None:
    assert n.parse_int("default", -1).to_sql("x") == "COALESCE(PARSE_INT(x), -1)"
    assert n.parse_numeric(5, 2, "default", Decimal("1.5")).to_sql("x") == (
        "COALESCE(PARSE_DECIMAL(x, 5, 2), PARSE_DECIMAL('1.5', 5, 2))"
    )
    assert n.parse_int("error").to_sql("x") == "PARSE_INT_STRICT(x)"
