"""What strategies refuse, say and add, without any engine."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from sqlglot import exp

from ematix_flow.errors import SpecError, UnknownNameError, UnsupportedError
from ematix_flow.strategies.base import Append, Replace, Upsert, strategy_for
from ematix_flow.types import BigInt, Text
from tests.strategies.harness import intent_for

TYPES = {"id": BigInt(), "v": Text()}


def scd2(**options: object):
    return intent_for("scd2", TYPES, **({"keys": ("id",), "compare": ("v",)} | options))


def merge(**options: object):
    return intent_for("merge", TYPES, **({"keys": ("id",), "update": ("v",)} | options))


@pytest.mark.parametrize(
    ("mode", "change"),
    [("append", Append), ("truncate", Replace), ("merge", Upsert), ("scd1", Upsert), ("scd2", Upsert)],
)
def test_every_mode_gives_its_change(mode: str, change: type) -> None:
    intent = intent_for(mode, TYPES, keys=("id",), update=("v",), compare=("v",))
    assert isinstance(strategy_for(mode).change(intent), change)


def test_an_unknown_mode_suggests_the_nearest() -> None:
    with pytest.raises(UnsupportedError, match="did you mean 'merge'"):
        strategy_for("mergge")


@pytest.mark.parametrize(
    ("mode", "intent", "says"),
    [
        ("merge", merge(keys=()), "needs keys"),
        ("merge", merge(on_duplicate="last"), "needs a column to order by"),
        ("scd2", scd2(on_duplicate="last", order_by="v", event_time=True), "no event time"),
        ("scd2", scd2(deletes="hard"), "cannot do deletes='hard'"),
        ("append", intent_for("append", TYPES, deletes="hard"), "cannot do deletes"),
        ("merge", merge(event_time=True), "event time has no meaning"),
        ("merge", merge(ttl=timedelta(days=1)), "ttl has no meaning"),
        ("scd2", scd2(ttl=timedelta(0)), "ttl must be above zero"),
        ("scd2", scd2(late="ignore"), "needs event time"),
        ("scd2", scd2(compare=()), "no columns to compare"),
        ("scd2", scd2(compare=("id",)), "is a key and a compare column"),
        ("merge", merge(update=("v", "v")), "named twice"),
    ],
)
def test_an_intent_that_cannot_be_meant_is_refused(mode: str, intent, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        strategy_for(mode).check(intent)


def test_a_column_that_the_table_has_not_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'v'"):
        strategy_for("merge").check(merge(update=("V",)))


def test_a_declared_column_of_an_added_name_keeps_its_place_and_is_filled_by_the_load() -> None:
    types = {"id": BigInt(), "_batch_id": Text(), "v": Text()}
    intent = intent_for("scd2", types, keys=("id",), compare=("v",))
    change = strategy_for("scd2").change(intent)
    names = ("id", "_batch_id", "v", "valid_from", "valid_to", "is_current", "row_hash", "_loaded_at")
    assert change.columns == names
    assert tuple(change.rows.named_selects) == (*names, "_change")
    assert not any(column.name == "_batch_id" and column.table == "i" for column in change.rows.find_all(exp.Column))


def test_a_message_names_the_keys_and_says_when_there_are_more() -> None:
    guard = next(guard for guard in strategy_for("scd2").guards(scd2(event_time=True)) if guard.code == "late-event")
    five = [(str(number), "2026-01-01 10:00:00") for number in range(5)]
    assert "event_ts" in guard.message(five)
    assert "id=4, event_ts=2026-01-01 10:00:00" in guard.message(five)
    assert "…" not in guard.message(five)
    six = guard.message([*five, ("5", "x")])
    assert six.endswith("; …")
    assert "id=5" not in six


def test_guards_follow_what_the_load_asks_for() -> None:
    def codes(mode: str, intent) -> list[str]:
        return [guard.code for guard in strategy_for(mode).guards(intent)]

    assert codes("append", intent_for("append", TYPES, primary_key=("id",))) == ["duplicate-key", "existing-key"]
    assert codes("append", intent_for("append", TYPES, primary_key=("id",), check_keys=False)) == []
    assert codes("truncate", intent_for("truncate", TYPES, primary_key=("id",))) == ["duplicate-key"]
    assert codes("merge", merge(deletes="hard")) == ["null-key", "duplicate-key", "empty-source"]
    assert codes("merge", merge(deletes="hard", allow_empty_source=True)) == ["null-key", "duplicate-key"]
    assert codes("scd2", scd2()) == ["null-key", "duplicate-key", "late-event"]
    assert codes("scd2", scd2(event_time=True, late="ignore")) == ["null-key", "null-event-time", "duplicate-key"]


def test_queries_name_only_incoming_and_target_and_their_own_parts() -> None:
    options = {"event_time": True, "late": "insert", "deletes": "soft"}
    query = strategy_for("scd2").change(scd2(**options)).rows
    own = {part.alias for part in query.find_all(exp.CTE)}
    assert {table.name for table in query.find_all(exp.Table)} - own == {"incoming", "target"}


def test_a_wide_history_is_built_and_rendered_in_a_fraction_of_a_second() -> None:
    types = {"id": BigInt()} | {f"column_{number}": Text() for number in range(40)}
    intent = intent_for("scd2", types, keys=("id",), compare=tuple(types)[1:])
    strategy_for("scd2").change(intent).rows.sql("duckdb")
    # The fastest of three: other processes share the machine.
    taken = []
    for _ in range(3):
        started = time.perf_counter()
        strategy_for("scd2").change(intent).rows.sql("duckdb")
        taken.append(time.perf_counter() - started)
    assert min(taken) < 0.2
