"""scd2 by the time of events, with every late policy, on every system that can change rows, on both paths."""

from __future__ import annotations

from typing import Annotated

import pytest

from ematix_flow import pk
from ematix_flow.errors import CheckError, UnknownNameError
from ematix_flow.types import BigInt, Text, TimestampTZ
from tests.backends.lab import Lab, counts, everywhere

MODE = "scd2"


@pytest.fixture
def load(lab: Lab) -> Lab:
    lab.defaults = {"mode": "scd2", "event_timestamp_column": "at"}
    return lab


@everywhere
def test_versions_begin_and_end_when_the_events_happened(load: Lab) -> None:
    load("id | v | at", "1 | a | 10:00", at="20:00")
    assert counts(load("id | v | at", "1 | b | 11:00", at="21:00")) == (1, 1)
    assert load.history(1) == [("a", "10:00", "11:00"), ("b", "11:00", None)]
    assert counts(load.run()) == (0, 0)


@everywhere
def test_a_late_event_that_differs_is_refused_and_an_equal_one_is_harmless(load: Lab) -> None:
    load("id | v | at", "1 | a | 12:00", at="20:00")
    with load.refused(ValueError, r"\(at before its valid_from\): id=1, at=2026-"):
        load("id | v | at", "1 | z | 08:00", at="21:00")
    assert counts(load("id | v | at", "1 | a | 08:00", at="22:00")) == (0, 0)
    assert load.history(1) == [("a", "12:00", None)]


@everywhere
def test_all_events_of_a_key_in_one_load_become_versions_in_their_order(load: Lab) -> None:
    result = load("id | v | at", "1 | a | 10:00", "1 | c | 12:00", "1 | b | 11:00", at="20:00")
    assert counts(result) == (3, 0)
    assert load.history(1) == [("a", "10:00", "11:00"), ("b", "11:00", "12:00"), ("c", "12:00", None)]


@everywhere
def test_late_events_can_be_inserted_and_the_timeline_is_repaired(load: Lab) -> None:
    load("id | v | at", "1 | a | 10:00", "1 | c | 14:00", at="20:00")
    result = load("id | v | at", "1 | b | 12:00", "1 | x | 08:00", at="21:00", late_events="insert")
    assert counts(result) == (2, 0)
    assert load.history(1) == [
        ("x", "08:00", "10:00"),
        ("a", "10:00", "12:00"),
        ("b", "12:00", "14:00"),
        ("c", "14:00", None),
    ]


def test_late_events_can_be_ignored_and_are_counted(load: Lab) -> None:
    load("id | v | at", "1 | a | 12:00", at="20:00", late_events="ignore")
    result = load("id | v | at", "1 | z | 08:00", "1 | a | 09:00", "2 | q | 09:00", at="21:00", late_events="ignore")
    assert counts(result, "read", "inserted", "closed", "late", "unchanged") == (3, 1, 0, 1, 1)
    assert load.history(1) == [("a", "12:00", None)]


def test_equal_events_in_a_row_make_one_version(load: Lab) -> None:
    load("id | v | at", "1 | a | 10:00", "1 | a | 11:00", "1 | b | 12:00", at="20:00")
    assert load.history(1) == [("a", "10:00", "12:00"), ("b", "12:00", None)]


def test_an_event_at_the_instant_of_the_newest_version_corrects_it(load: Lab) -> None:
    load("id | v | at", "1 | a | 10:00", at="20:00")
    result = load("id | v | at", "1 | A | 10:00", at="21:00")
    assert counts(result, "inserted", "closed", "corrected") == (0, 0, 1)
    assert load.history(1) == [("A", "10:00", None)]


def test_one_batch_split_into_several_gives_the_same_history(load: Lab) -> None:
    load("id | v | at", "1 | a | 10:00", at="20:00")
    load("id | v | at", "1 | b | 11:00", at="21:00")
    load("id | v | at", "1 | c | 12:00", at="22:00")
    split = load.history(1)
    load.target_ref = type(load.target_ref)("shop", "whole")
    load("id | v | at", "1 | c | 12:00", "1 | a | 10:00", "1 | b | 11:00", at="23:00")
    assert load.history(1) == split


def test_two_events_of_a_key_at_one_instant_are_refused_and_named(load: Lab) -> None:
    load("id | v | at", "1 | a | 10:00", at="20:00")
    with load.refused(CheckError, "id=3"):
        load("id | v | at", "3 | a | 11:00", "3 | b | 11:00", at="21:00")


def test_an_event_without_time_is_refused(load: Lab) -> None:
    load("id | v | at", "1 | a | 10:00", at="20:00")
    with load.refused(CheckError, "NULL"):
        load("id | v | at", "1 | a | NULL", at="21:00")


def test_a_soft_delete_ends_a_version_at_the_time_of_the_load(load: Lab) -> None:
    load("id | v | at", "1 | a | 10:00", "2 | b | 10:00", at="12:00")
    load("id | v | at", "2 | b | 10:00", at="13:00", handle_deletes="soft")
    assert load.history(1) == [("a", "10:00", "13:00")]


def test_an_event_from_the_future_is_never_deleted_before_it_began(load: Lab) -> None:
    load("id | v | at", "1 | a | 23:00", "2 | b | 10:00", at="12:00")
    load("id | v | at", "2 | b | 10:00", at="13:00", handle_deletes="soft")
    assert load.history(1) == [("a", "23:00", "23:00")]


def test_a_time_to_live_counts_from_the_event(load: Lab) -> None:
    load("id | v | at", "1 | a | 10:00", "2 | b | 15:00", at="16:00")
    result = load("id | v | at", "3 | c | 16:00", at="17:00", ttl="3h")
    assert result.closed_ttl == 1
    assert load.history(1) == [("a", "10:00", "17:00")]
    assert load.history(2) == [("b", "15:00", None)]


def test_the_event_column_may_be_declared_and_is_not_compared(load: Lab) -> None:
    columns = {"id": Annotated[BigInt, pk()], "v": Text, "at": TimestampTZ}
    load("id | v | at", "1 | a | 10:00", at="20:00", columns=columns)
    assert counts(load("id | v | at", "1 | a | 11:00", at="21:00", columns=columns)) == (0, 0)
    assert load.rows("v", "at", "valid_from") == [("a", "10:00", "10:00")]


def test_the_event_column_must_be_in_the_source(load: Lab) -> None:
    with load.refused(UnknownNameError, "event_at"):
        load("id | v | at", "1 | a | 10:00", event_timestamp_column="event_at", columns={
            "id": Annotated[BigInt, pk()], "v": Text,
        })  # fmt: skip


def test_an_event_time_that_is_text_is_read_as_an_instant(load: Lab) -> None:
    load("id | v | at:Text", "1 | a | 2026-01-05 10:00:00+02:00", at="20:00")
    assert load.history(1) == [("a", "08:00", None)]


def test_an_event_that_is_shown_again_after_its_key_had_vanished_is_in_force_again(load: Lab) -> None:
    load("id | v | at", "1 | a | 10:00", "2 | b | 10:00", at="20:00")
    gone = load("id | v | at", "2 | b | 10:00", at="21:00", handle_deletes="soft")
    assert counts(gone, "inserted", "closed_missing") == (0, 1)
    load("id | v | at", "1 | a | 10:00", "2 | b | 10:00", at="22:00", handle_deletes="soft")
    assert [version[0] for version in load.history(1)] == ["a"]
    assert load.history(1)[-1][2] is None
    assert counts(load.run(handle_deletes="soft")) == (0, 0)
