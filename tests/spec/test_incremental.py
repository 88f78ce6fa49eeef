"""What an incremental load and the choice between duplicates may be declared with."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

import pytest

from ematix_flow import ematix, pk
from ematix_flow.errors import SpecError, SpecTypeError
from ematix_flow.spec import registry
from ematix_flow.spec.pipeline import Pipeline
from ematix_flow.spec.table import build_table_class
from ematix_flow.types import BigInt, Boolean, Date, Double, Numeric, Text, TimestampTZ


class _Order:
    id: Annotated[BigInt, pk()]
    n: BigInt
    price: Numeric[10, 2]
    weight: Double
    day: Date
    at: TimestampTZ
    item: Text
    open: Boolean


Order = build_table_class(_Order, schema="dw")


@pytest.fixture(autouse=True)
def _fresh_registry():
    with registry.scope():
        yield


def declared(**options: Any) -> Pipeline:
    chosen = {"target": Order, "mode": "merge", "name": "orders"} | options
    return ematix.pipeline(**chosen)(lambda source: "SELECT 1").pipeline


def refusal(**options: Any) -> str:
    with pytest.raises(SpecError) as caught:
        declared(**options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("column", "given", "kept"),
    [
        ("at", "10m", timedelta(minutes=10)),
        ("at", timedelta(hours=1), timedelta(hours=1)),
        ("day", "2d", timedelta(days=2)),
        ("n", 100, Decimal(100)),
        ("price", 0.5, Decimal("0.5")),
        ("weight", Decimal("1.5"), Decimal("1.5")),
    ],
)
def test_a_lookback_is_a_distance_in_the_terms_of_its_column(column: str, given: Any, kept: object) -> None:
    assert declared(incremental_column=column, lookback=given).lookback == kept


@pytest.mark.parametrize(
    ("column", "given", "hint"),
    [
        ("at", 600, "'10m'"),
        ("day", "36h", "whole days"),
        ("n", "10m", "a whole number"),
        ("n", 0.5, "a whole number"),
        ("price", "10m", "a number"),
        ("item", 5, "nothing can be taken from 'item'"),
        ("n", 0, "above zero"),
        ("n", -3, "above zero"),
        ("n", float("inf"), "above zero"),
        ("at", "soon", "is not a duration"),
    ],
)
def test_a_lookback_that_does_not_fit_its_column_is_refused(column: str, given: Any, hint: str) -> None:
    assert hint in refusal(incremental_column=column, lookback=given)


def test_a_lookback_of_another_kind_is_refused() -> None:
    with pytest.raises(SpecTypeError, match="cannot be a bool"):
        declared(incremental_column="n", lookback=True)


def test_a_lookback_needs_a_column() -> None:
    assert "needs incremental_column=" in refusal(lookback="10m")


def test_an_append_would_add_what_it_reads_again() -> None:
    assert "a second time" in refusal(mode="append", incremental_column="at", lookback="10m")


@pytest.mark.parametrize(
    ("mode", "option"),
    [
        ("merge", {"handle_deletes": "hard"}),
        ("merge", {"handle_deletes": "soft"}),
        ("scd2", {"handle_deletes": "soft"}),
        ("scd2", {"ttl": "1d"}),
    ],
)
def test_a_part_of_the_source_cannot_tell_what_has_vanished(mode: str, option: dict[str, object]) -> None:
    assert "cannot tell which keys have vanished" in refusal(mode=mode, incremental_column="at", **option)


@pytest.mark.parametrize("policy", ["last", "first"])
def test_a_choice_between_duplicates_needs_a_column_to_choose_by(policy: str) -> None:
    assert declared(on_duplicate=policy, on_duplicate_order_by="at").on_duplicate_order_by == "at"
    assert "needs on_duplicate_order_by=" in refusal(on_duplicate=policy)


def test_a_column_to_choose_by_needs_a_choice() -> None:
    assert "on_duplicate='last' or 'first'" in refusal(on_duplicate_order_by="at")


def test_every_event_of_a_key_applies_so_there_is_nothing_to_choose() -> None:
    options = {"on_duplicate": "last", "on_duplicate_order_by": "n", "event_timestamp_column": "at"}
    assert "every event of a key applies" in refusal(mode="scd2", **options)


@pytest.mark.parametrize(("column", "says"), [("open", "do not grow"), ("id", "is a key"), ("sent", "'sent'")])
def test_a_column_that_cannot_choose_is_refused(column: str, says: str) -> None:
    assert says in refusal(on_duplicate="last", on_duplicate_order_by=column)
